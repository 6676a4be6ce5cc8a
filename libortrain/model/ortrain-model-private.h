/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-model.h"
#include "onnx/ortrain-graph-reader-private.h"
#include "onnx/ortrain-proto-arena-private.h"

struct _OrtrainModel
{
  GObject parent_instance;

  GBytes *file; /* NULL: not created by a constructor */
  char *path;
  char *directory; /* of external data; or NULL */
  OrtrainModelLimits *limits;
  OrtrainWireScan scan;
  OrtrainProtoArena *arena;       /* the memory of `proto` */
  Ortrain__Ox__ModelProto *proto; /* without the elements of tensors, and the nodes and initializers of its graph */
  OrtrainProtoTensors tensors;
  OrtrainGraphReader reader; /* the graph as read from the file */

  GMutex lock;         /* guards the following */
  OrtrainGraph *graph; /* upgraded and inferred; NULL until asked for */
};

/* Writes the model with other contents for some of its initializers: tensors is name → OrtrainTensor, of the same types
 * and shapes; names are those of the initializer values of the graph. All else stays, byte for byte. An existing file
 * at `path` is replaced when everything is on disk. NULL or empty: a copy. */
gboolean ortrain_model_export (OrtrainModel *self, const char *path, GHashTable *tensors, GError **error);
/* The same in memory, external data left where it is. */
GBytes *ortrain_model_export_bytes (OrtrainModel *self, GHashTable *tensors, GError **error);
/* The graph as ortrain_model_get_graph() builds it, but from the types and sizes of the inputs alone: the file's
 * declarations of computed values are not read, and names of sizes are no promise that two sizes are the same. transfer
 * full */
OrtrainGraph *ortrain_model_make_undeclared_graph (OrtrainModel *self, GError **error);
/* FALSE if the model's file, or one with its weights, was changed since it was mapped: for after something was computed
 * or copied from the weights. */
gboolean ortrain_model_check_files (OrtrainModel *self, GError **error);
/* When something failed: the change of a file is the better reason. */
void ortrain_model_explain_error (OrtrainModel *self, GError **error);
/* See ortrain_model_find_equal_parameters (): the same of any graph, and of tensors of so many elements. */
GListModel *ortrain_parameter_pairs_find (OrtrainGraph *graph, gint64 min_elements);
/* The graph of these values of the file alone (NULL-terminated names): nothing else need be known or right. Those that
 * are no outputs of the file are no outputs of the graph. transfer full */
OrtrainGraph *ortrain_model_make_graph_of (OrtrainModel *self, const char *const *names, GError **error);
/* Gives back the memory of those pages of the files that were read, as after weights were copied from them: they are
 * read again when they are needed. */
void ortrain_model_trim (OrtrainModel *self);
/* Names in messages are cut to a length in bytes, perhaps in the middle of a character. */
void ortrain_model_complete_error (GError **error);
