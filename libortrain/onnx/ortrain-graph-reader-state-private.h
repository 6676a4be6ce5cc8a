/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "onnx/ortrain-graph-reader-private.h"
#include "onnx/ortrain-proto-parts-private.h"
#include "ops/ortrain-op-private.h"

/* The state that the files that read a graph share: their position in the model file, and how they report errors. */

typedef struct
{
  const Ortrain__Ox__FunctionProto *proto;
  GPtrArray *defaults; /* of AttributeProto: values of attributes that a call does not give */
} OrtrainReaderFunction;

typedef struct _OrtrainNameTable OrtrainNameTable;

/* A function being inlined. */
typedef struct
{
  const OrtrainReaderFunction *function;
  const Ortrain__Ox__NodeProto *node;
  OrtrainNameTable *caller;
} OrtrainReaderCall;

struct _OrtrainNameTable
{
  /* In a subgraph: the table with captured values; NULL for the outermost graph and for functions. */
  OrtrainNameTable *outer;
  OrtrainGraph *graph;
  GHashTable *names; /* name, as the file has it → OrtrainValue; NULL for an optional input that a call leaves out */
  GHashTable *results; /* in a function: name → the value in the caller's graph that an output becomes */
  const OrtrainReaderCall *call;
  const char *prefix; /* of names that a function adds to its caller's graph; or NULL */
  char *enclosure;    /* GRefString: a description of this scope of the file, for people; NULL: the outermost graph */
  gboolean outermost;
  guint n_defined; /* of the values of the outermost graph, those that the file names; the others are of functions */
  guint function_depth;
};

typedef struct _OrtrainReaderState OrtrainReaderState;

/* A bias of the program that is missing from its node in the file. */
typedef struct
{
  OrtrainNode *node;
  guint input;
  const char *name;
} OrtrainLeftOutBias;

/* enclosure: GRefString, see OrtrainNameTable */
typedef OrtrainGraph *(*OrtrainReadGraphFunc) (OrtrainReaderState *state, OrtrainNameTable *outer,
                                               const Ortrain__Ox__GraphProto *proto, char *enclosure, GError **error);

struct _OrtrainReaderState
{
  OrtrainGraphReader *reader;
  OrtrainReadGraphFunc read_graph; /* for attributes that are graphs */
  OrtrainProtoParts *parts;
  GStringChunk *strings;
  GHashTable *functions;    /* key → OrtrainReaderFunction */
  GHashTable *uses;         /* name → number of uses, of the outermost graph's values */
  GHashTable *tables;       /* those of them whose slices an operator looks up */
  GHashTable *outputs;      /* names of the outermost graph's outputs */
  GHashTable *placeholders; /* in calls of the program → name of its tensor; empty where the file does not list them */
  GHashTable *program_tensors; /* these names */
  GHashTable *one_valued;      /* initializer → 1: its elements differ, 2: they do not */
  GArray *left_out_biases;     /* of OrtrainLeftOutBias */
  GPtrArray *uncalled;         /* nodes without a call that read a tensor of the program, as others do */
  guint n_split;               /* values that ortrain_reader_split_merged () made, and one of them as an example: */
  char *split_example;
  gsize n_leading_identities; /* nodes of the outermost graph that stand before all others */
  GPtrArray *labels;          /* of the graphs, see OrtrainGraph; with the position of each: */
  GHashTable *label_positions;
  guint64 n_nodes, n_inlined;
};

gboolean ortrain_reader_invalid (GError **error, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Remembers the reason why the graph cannot be used; the model still loads, so that people can look at it. */
void ortrain_reader_unsupported (OrtrainReaderState *state, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* TRUE if the error only says that something is not supported: it is kept for later, and reading goes on. */
gboolean ortrain_reader_postpone (OrtrainReaderState *state, GError **local_error);
char *ortrain_reader_describe (const Ortrain__Ox__NodeProto *node); /* for messages */
OrtrainOpKind ortrain_reader_get_kind (const Ortrain__Ox__NodeProto *node);

static inline const char *
ortrain_reader_text (const char *string)
{
  return string != NULL ? string : "";
}

static inline const char *
ortrain_reader_domain (const char *domain)
{
  return domain == NULL || g_str_equal (domain, "ai.onnx") ? "" : domain;
}

/* onnx/ortrain-name-table.c */
/* The value that a name is defined for in this scope. In the model's own graph that is mostly the value of that name;
 * not one of those that functions add, though, which come after all others. */
gboolean ortrain_name_table_find (const OrtrainNameTable *self, const char *name, OrtrainValue **value);
OrtrainValue *ortrain_name_table_lookup (const OrtrainNameTable *self, const char *name); /* or NULL */
/* The value that a name means here; a value of an outer graph is captured by one of the same name without a producer.
 * FALSE if nothing has that name. */
gboolean ortrain_name_table_resolve (OrtrainNameTable *self, const char *name, OrtrainValue **value);
/* Adds a name that the value has in the file. */
void ortrain_name_table_insert (OrtrainReaderState *state, OrtrainNameTable *self, const char *name,
                                OrtrainValue *value);
/* The same, unless another value has the name already. owner: the definition, for the message */
gboolean ortrain_name_table_define (OrtrainReaderState *state, OrtrainNameTable *self, const char *name,
                                    OrtrainValue *value, const char *owner, GError **error);
/* A name of the file as the graph has it. */
char *ortrain_name_table_make_name (const OrtrainNameTable *self, const char *name);

/* onnx/ortrain-type-reader.c */
/* Reads the declaration in a ValueInfo. needed: a type that is not supported keeps the graph from being used. */
gboolean ortrain_reader_read_type (OrtrainReaderState *state, OrtrainGraph *graph,
                                   const Ortrain__Ox__ValueInfoProto *info, gboolean needed, OrtrainDType *dtype,
                                   OrtrainDim *dims, gint *rank, GError **error);

/* onnx/ortrain-initializer-reader.c */
/* Counts how often the model's graph and its subgraphs read each initializer, or value that may become one. */
gboolean ortrain_reader_find_uses (OrtrainReaderState *state, GError **error);
gboolean ortrain_reader_read_initializers (OrtrainReaderState *state, OrtrainNameTable *scope,
                                           const Ortrain__Ox__GraphProto *proto, GError **error);
/* For a node of the outermost graph. *taken: the whole node was replaced, its output is an initializer. */
gboolean ortrain_reader_take_initializer (OrtrainReaderState *state, OrtrainNameTable *scope,
                                          const Ortrain__Ox__NodeProto *node, gsize index, gboolean *taken,
                                          GError **error);

void ortrain_reader_add_origin (OrtrainReaderState *state, const char *name, OrtrainOriginKind kind, const char *of);
gboolean ortrain_reader_tensor_varies (OrtrainTensor *tensor); /* its elements are not all equal */

/* onnx/ortrain-split-reader.c */
void ortrain_reader_read_placeholders (OrtrainReaderState *state);
/* For a node of the outermost graph: an input that was another tensor of the program than the stored initializer gets a
 * value of its own. */
void ortrain_reader_split_merged (OrtrainReaderState *state, const Ortrain__Ox__NodeProto *proto, OrtrainNode *node);
/* Does the same for nodes without a call, and adds zeros for the biases that are missing from nodes; called when the
 * graph is complete. */
gboolean ortrain_reader_finish_split (OrtrainReaderState *state, GError **error);

/* onnx/ortrain-model-functions.c */
gboolean ortrain_reader_collect_functions (OrtrainReaderState *state, GError **error);
const OrtrainReaderFunction *ortrain_reader_find_function (OrtrainReaderState *state,
                                                           const Ortrain__Ox__NodeProto *node);
/* The attribute that a reference in a function's body means, and the scope in which its graphs are to be read. NULL:
 * the call does not give it, and neither does the function. */
const Ortrain__Ox__AttributeProto *ortrain_reader_follow_reference (const char *name, OrtrainNameTable **scope);
void ortrain_reader_function_free (gpointer data);

/* onnx/ortrain-exporter-scopes.c */
/* The module that a node is in, and the names of its initializers in that module, if the file has them. */
void ortrain_reader_read_scope (OrtrainReaderState *state, const Ortrain__Ox__NodeProto *proto, OrtrainNode *node);

/* onnx/ortrain-provenance-reader.c */
/* Finds the provenance of the initializers in the file; called when the graph is complete. */
void ortrain_reader_read_provenance (OrtrainReaderState *state);

/* onnx/ortrain-attribute-reader.c */
gboolean ortrain_reader_read_attributes (OrtrainReaderState *state, OrtrainNameTable *scope,
                                         const Ortrain__Ox__NodeProto *node, OrtrainAttributes *to, GError **error);
