/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "graph/ortrain-dim-private.h"
#include "graph/ortrain-graph.h"
#include "kernel-abi/ortrain-attributes-private.h"
#include "tensor/ortrain-tensor-private.h"

/* One IR for the forward graph, the training graph, and graphs with numbers for shapes. SSA: each value has at most one
 * producer. Everything is reached through pointers; names are for people, files and lookups. The fields may be read by
 * any room above; they are written through the functions below. */

#define ORTRAIN_DOMAIN "org.ortrain" /* our own and fused operators */

typedef struct _OrtrainOpDef OrtrainOpDef;

typedef enum
{
  ORTRAIN_VALUE_COMPUTED,
  ORTRAIN_VALUE_INPUT,       /* fed by the user */
  ORTRAIN_VALUE_INITIALIZER, /* contents in `tensor` */
  ORTRAIN_VALUE_HELD,        /* by a session, from step to step: the graph knows the type and the shape */
} OrtrainValueKind;

/* The role of a value in a training session; the plan's categories come from it. */
typedef enum
{
  ORTRAIN_ROLE_NONE,
  ORTRAIN_ROLE_PARAMETER, /* trained */
  ORTRAIN_ROLE_BUFFER,    /* changed by the forward pass: running statistics; an initializer */
  ORTRAIN_ROLE_STATE, /* of an optimizer, the scalars of an update, copies of parameters (`partner`) in 16 bits; held */
  ORTRAIN_ROLE_FROZEN,   /* an initializer that nothing changes */
  ORTRAIN_ROLE_GRADIENT, /* of a parameter (`partner`): computed in its persistent buffer, where it may be accumulated;
                             one that an update reads in the backward pass already needs none */
  ORTRAIN_ROLE_UPDATE,   /* the next contents of a parameter, a state or a buffer (`partner`), at the address of that */
  ORTRAIN_ROLE_TARGET,   /* an input that a loss added */
  ORTRAIN_ROLE_LOSS,     /* the scalar that is trained */
} OrtrainRole;

/* The role of an initializer in the exported program, according to the file. */
typedef enum
{
  ORTRAIN_PROVENANCE_UNKNOWN,   /* no known exporter gives such names */
  ORTRAIN_PROVENANCE_PARAMETER, /* listed as a parameter */
  ORTRAIN_PROVENANCE_CONSTANT,  /* listed as a buffer or a constant; or the list leaves nothing else */
  ORTRAIN_PROVENANCE_FORM, /* not listed, and read where a listed parameter is missing: perhaps that one, transposed */
  ORTRAIN_PROVENANCE_MODULE,  /* its name is a path of modules: a parameter or a buffer */
  ORTRAIN_PROVENANCE_MADE,    /* numbered by the exporter, which computed it from parameters, buffers and constants */
  ORTRAIN_PROVENANCE_LITERAL, /* a Constant node, in a file whose parameters have names */
} OrtrainProvenance;

typedef enum
{
  ORTRAIN_PHASE_FORWARD,
  ORTRAIN_PHASE_BACKWARD,
  ORTRAIN_PHASE_UPDATE,
  ORTRAIN_N_PHASES,
} OrtrainPhase;

typedef struct
{
  OrtrainNode *node; /* no reference */
  guint index;       /* of the input */
} OrtrainUse;

/* Most values have one reader, which needs no memory of its own. */
typedef struct
{
  OrtrainUse *items; /* [n]: of the heap, or `single` */
  guint n, n_allocated;
  OrtrainUse single;
} OrtrainUses;

/* The declaration of a computed value in a file: a hint, which inference overrules. */
typedef struct
{
  OrtrainDType dtype;
  gint rank; /* -1: not declared */
  OrtrainDim dims[];
} OrtrainDeclaration;

struct _OrtrainValue
{
  GObject parent_instance;

  OrtrainGraph *graph; /* no reference; NULL once removed */
  char *name;
  /* A graph has a hundred thousand values, so small fields are packed. */
  OrtrainValueKind kind : 8;
  OrtrainDType dtype : 8;
  OrtrainRole role : 8;
  OrtrainProvenance provenance : 3; /* of an initializer of a file */
  guint is_named : 1;               /* by a user or a program, and not by the library */
  guint is_output : 1;
  guint on_host : 1;               /* in host memory, which the device does not read */
  guint relies_on_declaration : 1; /* inference did not find all of the shape: the file's declaration is compared with
                                      the computed shape once shapes are numbers */
  gint rank;                       /* -1: unknown */
  guint output_index;
  guint32 scoped_name; /* position in graph->labels: the name of an initializer in the exported program */
  OrtrainDim *dims;    /* [rank] */

  OrtrainNode *producer; /* no reference */
  OrtrainUses uses;

  OrtrainTensor *tensor; /* contents, when known: initializers and folded constants */
  char *enclosure;     /* GRefString: the function or branch of the file that stores the contents, which export does not
                            write there; NULL: stored in the outermost graph, or not in the file */
  OrtrainDim *content; /* elements of a small integer tensor (rank 0 or 1) as far as known symbolically; or NULL */

  OrtrainDeclaration *declaration; /* or NULL; not cloned: it serves inference and people who read the graph */
  OrtrainValue *partner;           /* no reference; see OrtrainRole */
  gint n_content;
  guint id; /* position in graph->values */
};

struct _OrtrainNode
{
  GObject parent_instance;

  OrtrainGraph *graph; /* no reference */
  char *name;          /* may be a static empty string, which is not freed */
  char *op_type;       /* GRefString, shared by the nodes that have it */
  char *domain;        /* likewise; "" for ONNX's own ("ai.onnx" is normalised) */
  GPtrArray *inputs;   /* of OrtrainValue or NULL; no references */
  GPtrArray *outputs;  /* of OrtrainValue or NULL; no references (the graph owns values) */
  OrtrainAttributes *attributes;
  OrtrainGraph *body;     /* of a fused operator; or NULL */
  const OrtrainOpDef *op; /* the row; NULL until ortrain_ops_bind */

  OrtrainPhase phase;
  guint number;            /* the node's own number, unique and stable in clones: random numbers hang on it */
  OrtrainNode *recomputes; /* no reference; the node that this one runs again, or NULL. Shares its number */
  guint mark;              /* scratch for passes */
  guint on_host : 1;       /* runs on the host, because the device has no kernel for it */
  guint is_update : 1;     /* of the body of an operator with the flag ORTRAIN_OP_UPDATES */
  guint scope : 30;        /* position in graph->labels: the module of the exported program that it is in */
  guint32 link_index;      /* while the graph is edited: its link in the list of nodes */
};

typedef struct _OrtrainGraphEdit OrtrainGraphEdit;

struct _OrtrainGraph
{
  GObject parent_instance;

  char *name;
  GPtrArray *nodes;   /* owned; in a valid order after ortrain_graph_sort */
  gboolean is_sorted; /* … and nothing that could change that has happened since; FALSE where nodes have bodies */
  GPtrArray *values;  /* owned; all of them, values[i]->id == i */
  GPtrArray *inputs;  /* subsets, no references */
  GPtrArray *outputs;
  GPtrArray *initializers;
  GHashTable *by_name; /* name → value */
  OrtrainDimSpace *dims;
  guint next_number;
  guint next_suffix;
  gint64 opset;         /* of domain ""; 23 once upgraded */
  GHashTable *opsets;   /* domain → GINT_TO_POINTER (version), as the file says */
  OrtrainGraph *parent; /* of a subgraph: the graph whose values it may capture; no reference */
  GPtrArray *labels;    /* of char *: a file's labels of nodes and values, in addition to their names; the first is
                           NULL. Shared by clones and subgraphs; or NULL */
  GPtrArray *notes;     /* of char *, for people: declarations that inference contradicts, findings of a loss; or
                           NULL */
  const char *gradients_kept; /* why gradients of parameters wait for the update phase; static, NULL: they do not */
  guint recompute_group_size; /* segments of the forward pass; the pass recompute-cheap keeps the values that are live
                               * between them; 0: it chooses, and writes it here */
  gboolean spares_memory;     /* passes prefer less memory to less arithmetic */
  GHashTable *known_notes;    /* the notes, as a set; or NULL */
  guint n_contradicted;       /* contradicted declarations beyond the first few, which have a note */
  OrtrainGraphEdit *edit;
  GHashTable *many_uses; /* value with many readers → the position of each in `uses`; or NULL */
  GHashTable
      *output_positions; /* of many outputs: value → its position in `outputs`, which may be lower by now; or NULL */
};

/* Creating. Names are made unique when taken, so that passes need not care; NULL or "" gives a fresh one. */
OrtrainValue *ortrain_graph_new_value (OrtrainGraph *self, const char *name);
/* name: taken; no other value of the graph has it. */
OrtrainValue *ortrain_graph_take_value (OrtrainGraph *self, char *name);
OrtrainNode *ortrain_graph_new_node (OrtrainGraph *self, const char *domain, const char *op_type, const char *name,
                                     OrtrainValue *const *inputs, guint n_inputs, guint n_outputs);
/* A copy of another node without its operands and without the node that it recomputes; at the end of the list, while
 * that is not edited. */
OrtrainNode *ortrain_graph_copy_node (OrtrainGraph *self, const OrtrainNode *source);
/* Before another node of the graph, in the scope of that. */
OrtrainNode *ortrain_graph_insert_node (OrtrainGraph *self, OrtrainNode *before, const char *domain,
                                        const char *op_type, const char *name, OrtrainValue *const *inputs,
                                        guint n_inputs, guint n_outputs);
OrtrainValue *ortrain_graph_new_initializer (OrtrainGraph *self, const char *name, OrtrainTensor *tensor);
/* A value of kind HELD; in none of the lists but `values`. */
OrtrainValue *ortrain_graph_new_held (OrtrainGraph *self, const char *name, OrtrainDType dtype, const OrtrainDim *dims,
                                      gint rank);
OrtrainValue *ortrain_graph_new_input (OrtrainGraph *self, const char *name, OrtrainDType dtype, const OrtrainDim *dims,
                                       gint rank);
/* 1-d int64, 0-d int64, 0-d of a floating type: constants that passes and gradient rules need */
OrtrainValue *ortrain_graph_const_ints (OrtrainGraph *self, const gint64 *values, gsize n);
OrtrainValue *ortrain_graph_const_int (OrtrainGraph *self, gint64 value);
OrtrainValue *ortrain_graph_const_scalar (OrtrainGraph *self, OrtrainDType dtype, double value);
void ortrain_graph_add_note (OrtrainGraph *self, const char *note); /* once each */
void ortrain_graph_mark_output (OrtrainGraph *self, OrtrainValue *value, gboolean is_output);
/* Replaces an output in the list; names and roles are the caller's. */
void ortrain_graph_replace_output (OrtrainGraph *self, OrtrainValue *value, OrtrainValue *replacement);
/* Those for which keep () is FALSE are no outputs any more. */
void ortrain_graph_filter_outputs (OrtrainGraph *self, gboolean (*keep) (OrtrainValue *value, gpointer data),
                                   gpointer data);
/* Attach an existing value (without a producer) as output `index` of a node. FALSE if it has a producer already. */
gboolean ortrain_node_set_output (OrtrainNode *self, guint index, OrtrainValue *value);

/* Changing. */
void ortrain_node_set_name (OrtrainNode *self, const char *name);
void ortrain_node_set_operator (OrtrainNode *self, const char *domain,
                                const char *op_type); /* the row is the caller's */
void ortrain_node_copy_operator (OrtrainNode *self, const OrtrainNode *source);
void ortrain_node_set_input (OrtrainNode *self, guint index,
                             OrtrainValue *value);              /* grows the list; value may be NULL */
void ortrain_node_set_n_outputs (OrtrainNode *self, guint n);   /* new ones get fresh values */
void ortrain_node_drop_output (OrtrainNode *self, guint index); /* the output becomes absent; value removed */
void ortrain_value_replace_uses (OrtrainValue *self,
                                 OrtrainValue *replacement); /* graph outputs too: name moves along */
void ortrain_value_rename (OrtrainValue *self, const char *name);
void ortrain_value_set_shape (OrtrainValue *self, OrtrainDType dtype, const OrtrainDim *dims, gint rank);
void ortrain_value_declare (OrtrainValue *self, OrtrainDType dtype, const OrtrainDim *dims, gint rank);
void ortrain_value_set_tensor (OrtrainValue *self, OrtrainTensor *tensor);
/* Takes a reference; may be NULL. */
void ortrain_value_set_enclosure (OrtrainValue *self, char *enclosure);
void ortrain_value_set_content (OrtrainValue *self, const OrtrainDim *content, gint n); /* n -1: unknown */
void ortrain_graph_delete_node (OrtrainGraph *self, OrtrainNode *node);                 /* its outputs must be unused */
/* Between these two, which may be nested, adding, inserting and deleting a node takes constant time; outside of them it
 * takes as long as the list is. Meanwhile `nodes` is as it was at the beginning, and keeps deleted nodes alive, which
 * have no graph any more. */
OrtrainGraphEdit *ortrain_graph_begin_edit (OrtrainGraph *self);
void ortrain_graph_end_edit (OrtrainGraphEdit *edit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainGraphEdit, ortrain_graph_end_edit)
/* The node after this one while the graph is edited, the first for NULL; NULL at the end. */
OrtrainNode *ortrain_graph_next_node (OrtrainGraph *self, const OrtrainNode *node);
void ortrain_graph_delete_value (OrtrainGraph *self, OrtrainValue *value);
/* The same for the initializers with dead[i] TRUE, where i is the position in the list of initializers. */
void ortrain_graph_delete_initializers (OrtrainGraph *self, const gboolean *dead);
void ortrain_value_detach (OrtrainValue *self); /* from the graph that owned it: others may keep a reference */

void ortrain_value_add_use (OrtrainValue *self, OrtrainNode *node, guint index);    /* an edge's other end, for */
void ortrain_value_remove_use (OrtrainValue *self, OrtrainNode *node, guint index); /* ortrain_node_set_input () */
void ortrain_value_clear_uses (OrtrainValue *self);

/* Whole-graph. */
gboolean ortrain_graph_sort (OrtrainGraph *self,
                             GError **error); /* stable topological order; MODEL_ERROR_CYCLE names nodes */
/* By the ids of the values of a sorted graph: whether these values are computed from it; then the same of a node. They
 * only read: other threads may be reading the graph of a model too. */
gboolean *ortrain_graph_find_needed (OrtrainGraph *self, OrtrainValue *const *values, guint n_values);
gboolean ortrain_node_is_needed (const OrtrainNode *self, const gboolean *needed);
/* By the ids of the values of a sorted graph: the position of the first of the marked nodes (marked[], by position)
 * that a value is computed from, G_MAXUINT without one. It only reads too. */
guint *ortrain_graph_find_first_marked (OrtrainGraph *self, const gboolean *marked);
guint ortrain_graph_remove_dead (OrtrainGraph *self);   /* nodes and values that no output needs; inputs and
                                                         parameters stay; returns the number of nodes */
OrtrainGraph *ortrain_graph_clone (OrtrainGraph *self); /* tensors are shared */

static inline const char *
ortrain_graph_get_label (const OrtrainGraph *graph, guint position)
{
  return graph != NULL && graph->labels != NULL ? graph->labels->pdata[position] : NULL;
}

/* NULL where absent, and beyond the end. Functions, not macros: their arguments are calls often enough. */
static inline OrtrainValue *
ortrain_node_input (const OrtrainNode *node, guint i)
{
  return i < node->inputs->len ? node->inputs->pdata[i] : NULL;
}

/* The type of the first present operand; UNDEFINED if all are missing. */
static inline OrtrainDType
ortrain_node_get_dtype (const OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] != NULL)
      return ortrain_node_input (node, i)->dtype;
  return ORTRAIN_DTYPE_UNDEFINED;
}

static inline OrtrainValue *
ortrain_node_output (const OrtrainNode *node, guint i)
{
  return i < node->outputs->len ? node->outputs->pdata[i] : NULL;
}

static inline gboolean
ortrain_node_is (const OrtrainNode *node, const char *domain, const char *op_type)
{
  return g_str_equal (node->op_type, op_type) && g_str_equal (node->domain, domain);
}

/* All dims are numbers: fills dims_out[rank]. */
gboolean ortrain_value_get_static_dims (const OrtrainValue *self, gint64 *dims_out);
gboolean ortrain_value_same_shape (const OrtrainValue *a, const OrtrainValue *b); /* provably */
char *ortrain_value_describe (const OrtrainValue *self);                          /* "logits: float32 [batch, 10]" */
char *ortrain_node_describe (const OrtrainNode *self);                            /* "Gemm '/fc1/Gemm'" for messages */
