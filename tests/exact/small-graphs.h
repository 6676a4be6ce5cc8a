/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

/* Models that are small enough for all ways to train them to be tried. */

typedef struct
{
  char *name; /* which model it is: with it alone the same model is made again */
  OrtrainModel *model;
  gint64 batch;
  GStrv outputs; /* that have a loss each */
} SmallGraph;

SmallGraph *small_graph_new_random (guint32 seed);
/* A piece of a model: nodes that read one another. NULL: none begins where the seed says. */
SmallGraph *small_graph_new_piece (const char *path, const char *name, guint32 seed);
/* Either, by its name: "tree/31", or "bert/7" of a model in data/fixtures of the folder G_TEST_SRCDIR. NULL: not
 * found. */
SmallGraph *small_graph_new (const char *name);
void small_graph_free (SmallGraph *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (SmallGraph, small_graph_free)
