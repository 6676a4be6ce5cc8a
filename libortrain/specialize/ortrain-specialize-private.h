/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Shape inputs: graph inputs whose elements decide shapes (the `shape` of a Reshape and so on, also through other
 * operators).
 * transfer container: a set of OrtrainValue */
GHashTable *ortrain_specialize_find_shape_inputs (OrtrainGraph *graph);

/* The known facts about a graph input when a plan is created. */
typedef struct
{
  const char *name;
  OrtrainDType dtype;
  const gint64 *dims;
  guint rank;
  OrtrainTensor *contents; /* of a shape input; else NULL */
} OrtrainSpecializeInput;

/* A graph that computes the shapes, and all other values that a plan needs from contents. Its outputs, known once it is
 * specialized for the feeds, are all that ortrain_specialize () needs from the contents of shape inputs. NULL without
 * any. */
OrtrainGraph *ortrain_specialize_find_deciding (OrtrainGraph *graph);

/* The graph with numbers for shapes, in a clone: everything that depends only on shapes, constants and shape inputs
 * is evaluated and becomes a constant (value->tensor), views that turned out to change nothing are gone, dead nodes
 * too. SESSION_ERROR_FEED names an input that does not fit the graph; GRAPH_ERROR_DATA_DEPENDENT names the node where a
 * shape depends on computed data. */
OrtrainGraph *ortrain_specialize (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint n_inputs,
                                  GError **error);
/* The same, with contents for the shapes only: nodes that read a shape input as data read the feed. */
OrtrainGraph *ortrain_specialize_deciding (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint n_inputs,
                                           GError **error);

/* The limits of folding one graph, and the amounts used: bytes of results, elements read and written, operations of
 * kernels. */
typedef struct
{
  guint64 max_bytes, max_work;
  guint64 bytes, work;
  gboolean consumes; /* constants go with their last reader, or their memory becomes its result: nobody looks at them
                      * after that. A mask has several steps, each as large as the square of a sequence */
} OrtrainFoldBudget;

void ortrain_fold_budget_init (OrtrainFoldBudget *self);
/* specialize/ortrain-fold-constants.c: nodes whose inputs are known are evaluated; their results become initializers.
 * Parameters and buffers are not known: they change. Folded constants stay small, unless shapes depend on them; nodes
 * whose results exceed the budget are kept. */
gboolean ortrain_fold_constants (OrtrainGraph *graph, GError **error);
gboolean ortrain_fold_constants_within (OrtrainGraph *graph, OrtrainFoldBudget *budget, GError **error);
/* For one node, inferred already: folded says whether it is gone. host: shapes depend on it, so it has to be folded;
 * one beyond the budget is GRAPH_ERROR_SHAPE. */
gboolean ortrain_fold_node (OrtrainGraph *graph, OrtrainNode *node, OrtrainFoldBudget *budget, gboolean host,
                            gboolean *folded, GError **error);
/* Whether its contents are known and do not change. */
gboolean ortrain_fold_is_known (const OrtrainValue *value);

/* specialize/ortrain-narrow-constants.c: large element-wise results of constants that are the same along an axis, as a
 * mask is for all samples of a batch, are folded and kept once for that axis, where their readers broadcast them. The
 * nodes wait until all shapes are known. */
typedef struct _OrtrainNarrowing OrtrainNarrowing;

/* budget: not taken, spent by ortrain_narrowing_run () */
OrtrainNarrowing *ortrain_narrowing_new (OrtrainGraph *graph, OrtrainFoldBudget *budget);
void ortrain_narrowing_free (OrtrainNarrowing *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainNarrowing, ortrain_narrowing_free)
/* In the order of the graph, for nodes that are inferred already: large results, and values computed from them. A node
 * that is added must not be folded or deleted. */
gboolean ortrain_narrowing_may_add (const OrtrainNarrowing *self, const OrtrainNode *node);
void ortrain_narrowing_add (OrtrainNarrowing *self, OrtrainNode *node);
/* Leaves dead nodes. */
gboolean ortrain_narrowing_run (OrtrainNarrowing *self, GError **error);

/* specialize/ortrain-eliminate.c: nodes that change nothing (Identity, Reshape to the same shape, SumTo of an equal
 * shape, …) are taken out: TRUE if this one was. */
gboolean ortrain_eliminate_node (OrtrainGraph *graph, OrtrainNode *node);
guint ortrain_eliminate_identities (OrtrainGraph *graph);
/* The input that output 0 is, element by element and in the same shape, which its node thus need not compute; or NULL.
 */
OrtrainValue *ortrain_find_passed_value (const OrtrainNode *node);
