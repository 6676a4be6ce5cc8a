/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* Adds the gradient of `loss` (a scalar of a floating type) to the graph, by reverse accumulation over the nodes that
 * lie between the wanted values and the loss; no others. Every wanted value gets a gradient value of its own shape: a
 * graph output with ROLE_GRADIENT and partner = the wanted value, named NAME.grad. Wanted values that the loss does not
 * depend on are an error that lists them all. Nothing is skipped: nodes on the way without a gradient are listed in one
 * GRAPH_ERROR_NO_GRADIENT. New nodes have PHASE_BACKWARD. gradients: [n_wanted], filled. */
gboolean ortrain_gradient_build (OrtrainGraph *graph, OrtrainValue *loss, OrtrainValue *const *wanted, guint n_wanted,
                                 OrtrainValue **gradients, GError **error);

/* The same from the gradients (seeds) of several outputs, in a graph where all nodes between have gradients: adds
 * nodes, and no outputs. gradients: [n_wanted], filled; NULL where the outputs do not depend on the value. */
gboolean ortrain_gradient_accumulate (OrtrainGraph *graph, OrtrainValue *const *outputs, OrtrainValue *const *seeds,
                                      guint n, OrtrainValue *const *wanted, guint n_wanted, OrtrainValue **gradients,
                                      GError **error);

/* A node between wanted values and losses that has no gradient, or none with respect to an input that must be a
 * constant. */
typedef struct
{
  OrtrainNode *node;
  gint input; /* -1: the node has no gradient */
} OrtrainGradientDiagnostic;

/* "input 1 (ratio), 'r'"; NULL where the node has no gradient at all. */
char *ortrain_gradient_describe_input (const OrtrainGradientDiagnostic *diagnostic);

/* Finds the diagnostics only. free: [n_losses], or NULL; filled: whether a loss depends on a wanted value without a
 * diagnostic on the way. transfer full, of OrtrainGradientDiagnostic */
GArray *ortrain_gradient_find_diagnostics (OrtrainGraph *graph, OrtrainValue *const *losses, guint n_losses,
                                           OrtrainValue *const *wanted, guint n_wanted, gboolean *free);
