/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-model-private.h"
#include "ortrain-proto-maker.h"
#include "ortrain.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* For tests of models: small files, and queries about them. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
#define SCALAR ((const gint64[]){ -1 })

static inline OrtrainModel *
load_data (const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "model", name, NULL);
  OrtrainModel *model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  return model;
}

static inline OrtrainModel *
load_bytes (GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

static inline void
assert_refused (GBytes *bytes, const char *directory, OrtrainModelLimits *limits, OrtrainModelError code,
                const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes_with_limits (bytes, directory, limits, &error);
  g_assert_null (model);
  if (part != NULL && strstr (error->message, part) == NULL)
    g_error ("“%s” is not in “%s”", part, error->message);
  g_assert_error (error, ORTRAIN_MODEL_ERROR, (int) code);
}

static inline OrtrainTensor *
contents (OrtrainModel *model, const char *name)
{
  OrtrainValue *value = ortrain_graph_find_value (ortrain_model_get_file_graph (model), name);
  g_assert_nonnull (value);
  g_assert_cmpint (value->kind, ==, ORTRAIN_VALUE_INITIALIZER);
  return value->tensor;
}

static inline gboolean
has_note (OrtrainModel *model, const char *part)
{
  g_auto (GStrv) notes = ortrain_model_get_notes (model);
  for (guint i = 0; notes[i] != NULL; i++)
    if (strstr (notes[i], part) != NULL)
      return TRUE;
  return FALSE;
}

/* y = Add (x, w), w of four floats */
static inline Proto *
small_graph (Proto *initializer)
{
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("Add", "x,w", "y"));
  proto_string (graph, 2, "small");
  if (initializer != NULL)
    proto_message (graph, 5, initializer);
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4)));
  return graph;
}

static const float four[] G_GNUC_UNUSED = { 1, 2, 3, 4 };

static inline OrtrainTensor *
plus_one (OrtrainTensor *tensor)
{
  OrtrainTensor *copy = ortrain_tensor_copy (tensor, NULL);
  float *data = ortrain_tensor_peek_writable (copy);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (copy); i++)
    data[i] += 1;
  return copy;
}

static inline GHashTable *
new_tensors (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
}
