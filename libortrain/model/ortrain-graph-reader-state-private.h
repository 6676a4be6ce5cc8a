/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-graph-reader-private.h"
#include "model/ortrain-proto-parts-private.h"

/* What the files that read a graph share: their position in the model file, and how they report errors. */

typedef struct
{
  const Ortrain__Ox__FunctionProto *proto;
  GPtrArray *defaults; /* of AttributeProto: values of attributes that a call does not give */
} OrtrainReaderFunction;

typedef struct _OrtrainReaderScope OrtrainReaderScope;

/* A function being inlined. */
typedef struct
{
  const OrtrainReaderFunction *function;
  const Ortrain__Ox__NodeProto *node;
  OrtrainReaderScope *caller;
} OrtrainReaderCall;

struct _OrtrainReaderScope
{
  /* Of a subgraph: where captured values are; NULL for the outermost graph and for functions. */
  OrtrainReaderScope *outer;
  OrtrainGraph *graph;
  GHashTable *names; /* name, as the file has it → OrtrainValue; NULL for an optional input that a call leaves out */
  GHashTable *results; /* in a function: name → the value in the caller's graph that an output becomes */
  const OrtrainReaderCall *call;
  const char *prefix; /* of names that a function adds to its caller's graph; or NULL */
  char *enclosure;    /* GRefString: what this scope is in the file, for people; NULL: the outermost graph */
  gboolean outermost;
  guint n_defined; /* of the values of the outermost graph, those that the file names; the others are of functions */
  guint function_depth;
};

typedef struct
{
  OrtrainGraphReader *reader;
  OrtrainProtoParts *parts;
  GStringChunk *strings;
  GHashTable *functions; /* key → OrtrainReaderFunction */
  GHashTable *uses;      /* name → number of uses, of the outermost graph's values */
  GHashTable *outputs;   /* names of the outermost graph's outputs */
  guint64 n_nodes, n_inlined;
} OrtrainReaderState;

gboolean ortrain_reader_invalid (GError **error, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Remembers what keeps the graph from being used; the model still loads, so that people can look at it. */
void ortrain_reader_unsupported (OrtrainReaderState *state, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* TRUE if the error only says that something is not supported: it is kept for later, and reading goes on. */
gboolean ortrain_reader_postpone (OrtrainReaderState *state, GError **local_error);
char *ortrain_reader_describe (const Ortrain__Ox__NodeProto *node); /* for messages */

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

/* model/ortrain-model-functions.c */
gboolean ortrain_reader_collect_functions (OrtrainReaderState *state, GError **error);
const OrtrainReaderFunction *ortrain_reader_find_function (OrtrainReaderState *state,
                                                           const Ortrain__Ox__NodeProto *node);
/* The attribute that a reference in a function's body means, and the scope in which its graphs are to be read. NULL:
 * the call does not give it, and neither does the function. */
const Ortrain__Ox__AttributeProto *ortrain_reader_follow_reference (const char *name, OrtrainReaderScope **scope);
void ortrain_reader_function_free (gpointer data);

/* model/ortrain-attribute-reader.c */
gboolean ortrain_reader_read_attributes (OrtrainReaderState *state, OrtrainReaderScope *scope,
                                         const Ortrain__Ox__NodeProto *node, OrtrainAttributes *to, GError **error);
/* model/ortrain-graph-reader.c; for attributes that are graphs. enclosure: GRefString, see OrtrainReaderScope */
OrtrainGraph *ortrain_reader_read_graph (OrtrainReaderState *state, OrtrainReaderScope *outer,
                                         const Ortrain__Ox__GraphProto *proto, char *enclosure, GError **error);
