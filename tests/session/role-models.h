/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-model-private.h"
#include "model/ortrain-proto-maker.h"
#include "ortrain.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* Models put together by hand, and their tensors that training changes. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
#define SCALAR ((const gint64[]){ -1 })

/* ---- models ---- */

G_GNUC_UNUSED static OrtrainModel *
load (Proto *graph)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

G_GNUC_UNUSED static gint64
count (const gint64 *dims)
{
  gint64 n = 1;
  for (; *dims >= 0; dims++)
    n *= *dims;
  return n;
}

G_GNUC_UNUSED static void
add_tensor (Proto *graph, const char *name, const gint64 *dims, const float *data)
{
  proto_message (graph, 5, proto_tensor (name, 1, dims, data, (gsize) count (dims) * sizeof *data));
}

/* Different numbers for different names, that no test of values takes for anything else. */
G_GNUC_UNUSED static void
add_weight (Proto *graph, const char *name, const gint64 *dims)
{
  const gint64 n = count (dims);
  g_autofree float *data = g_new (float, n);
  for (gint64 i = 0; i < n; i++)
    data[i] = 0.4f * sinf (1.7f * (float) i + (float) g_str_hash (name) / 1e9f);
  add_tensor (graph, name, dims, data);
}

G_GNUC_UNUSED static void
add_number (Proto *graph, const char *name, const gint64 *dims, float number)
{
  const gint64 n = count (dims);
  g_autofree float *data = g_new (float, n);
  for (gint64 i = 0; i < n; i++)
    data[i] = number;
  add_tensor (graph, name, dims, data);
}

G_GNUC_UNUSED static void
add_ints (Proto *graph, const char *name, const gint64 *numbers, gint64 n)
{
  proto_message (graph, 5, proto_tensor (name, 7, DIMS (n), numbers, (gsize) n * sizeof *numbers));
}

G_GNUC_UNUSED static void
set_ints (Proto *node, const char *name, const gint64 *numbers)
{
  Proto *attribute = proto_new ();
  proto_string (attribute, 1, name);
  for (; *numbers >= 0; numbers++)
    proto_int (attribute, 8, *numbers);
  proto_int (attribute, 20, 7);
  proto_message (node, 5, attribute);
}

G_GNUC_UNUSED static void
add_node (Proto *graph, const char *op_type, const char *inputs, const char *outputs)
{
  proto_message (graph, 1, proto_node (op_type, inputs, outputs));
}

G_GNUC_UNUSED static Proto *
make_graph (const gint64 *x_dims, const gint64 *y_dims)
{
  Proto *graph = proto_new ();
  proto_message (graph, 11, proto_value ("x", 1, x_dims));
  proto_message (graph, 12, proto_value ("y", 1, y_dims));
  return graph;
}

/* A Constant node: the contents as a tensor, or as a list of floats. */
G_GNUC_UNUSED static void
add_constant (Proto *graph, const char *name, const gint64 *dims, const float *data, gboolean as_floats)
{
  const gsize n_bytes = (gsize) count (dims) * sizeof *data;
  Proto *node = proto_new (), *attribute = proto_new ();
  proto_string (node, 2, name);
  proto_string (node, 4, "Constant");
  proto_string (attribute, 1, as_floats ? "value_floats" : "value");
  if (as_floats)
    proto_bytes (attribute, 7, data, n_bytes);
  else
    proto_message (attribute, 5, proto_tensor (NULL, 1, dims, data, n_bytes));
  proto_int (attribute, 20, as_floats ? 6 : 4);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
}

/* ---- training ---- */

G_GNUC_UNUSED static OrtrainTensor *
make_data (const gint64 *dims, float phase)
{
  gsize rank = 0;
  while (dims[rank] >= 0)
    rank++;
  OrtrainTensor *tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, rank, NULL);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    ((float *) ortrain_tensor_get_address (tensor))[i] = sinf (1.3f * (float) i + phase);
  return tensor;
}

G_GNUC_UNUSED static OrtrainTensor *
contents (OrtrainModel *model, const char *name)
{
  OrtrainValue *value = ortrain_graph_find_value (ortrain_model_get_file_graph (model), name);
  g_assert_nonnull (value);
  g_assert_nonnull (value->tensor);
  return value->tensor;
}

G_GNUC_UNUSED static OrtrainTrainingOptions *
make_options (void)
{
  OrtrainTrainingOptions *options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
  g_autoptr (OrtrainOptimizer) optimizer = g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", 1e-3, NULL);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  return options;
}

/* 20 steps of AdamW; returns the exported model. Every loss is a number. */
G_GNUC_UNUSED static OrtrainModel *
train (OrtrainModel *model, OrtrainTrainingOptions *options, const gint64 *x_dims, const gint64 *y_dims)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = make_data (x_dims, 0), t = make_data (y_dims, 1);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "t", t);
  for (guint i = 0; i < 20; i++)
    {
      const double loss = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      if (!isfinite (loss))
        g_error ("the loss of step %u is %g", i + 1, loss);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL), *path = g_build_filename (folder, "m.onnx", NULL);
  g_autofree char *data = NULL;
  gsize size;
  g_assert_true (ortrain_training_session_export (session, path, &error));
  g_assert_true (g_file_get_contents (path, &data, &size, &error));
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (g_rmdir (folder), ==, 0);
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  OrtrainModel *out = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return out;
}

G_GNUC_UNUSED static OrtrainParameterInfo *
find_info (OrtrainModel *model, const char *name)
{
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  GListModel *list = ortrain_check_report_get_parameters (report);
  g_assert_cmpuint (g_list_model_get_n_items (list), >, 0);
  for (guint i = 0; i < g_list_model_get_n_items (list); i++)
    {
      g_autoptr (OrtrainParameterInfo) info = g_list_model_get_item (list, i);
      if (g_str_equal (ortrain_parameter_info_get_name (info), name))
        return g_steal_pointer (&info);
    }
  g_error ("the report does not list '%s'", name);
}

G_GNUC_UNUSED static void
expect_role (OrtrainModel *model, const char *name, gboolean trained, const char *reason)
{
  g_autoptr (OrtrainParameterInfo) info = find_info (model, name);
  if (ortrain_parameter_info_get_trained (info) != trained ||
      strstr (ortrain_parameter_info_get_reason (info), reason) == NULL)
    {
      g_autofree char *text = ortrain_parameter_info_to_string (info);
      g_error ("expected %s, '%s': %s", trained ? "trained" : "not trained", reason, text);
    }
}

typedef struct
{
  const char *name;
  gboolean trained;
  const char *reason;
} Expected;

/* The report lists the trained tensors; training changes those and nothing else. */
G_GNUC_UNUSED static void
expect (Proto *graph, const gint64 *x_dims, const gint64 *y_dims, const Expected *expected, gsize n)
{
  g_autoptr (OrtrainModel) model = load (graph);
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  for (gsize i = 0; i < n; i++)
    expect_role (model, expected[i].name, expected[i].trained, expected[i].reason);
  g_autoptr (OrtrainModel) out = train (model, options, x_dims, y_dims);
  for (gsize i = 0; i < n; i++)
    if (ortrain_tensor_equal (contents (model, expected[i].name), contents (out, expected[i].name)) ==
        expected[i].trained)
      g_error ("'%s' %s", expected[i].name, expected[i].trained ? "did not train" : "was changed");
}

#define EXPECT(graph, x_dims, y_dims, ...)                                                                             \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    const Expected expected[] = { __VA_ARGS__ };                                                                       \
    expect (graph, x_dims, y_dims, expected, G_N_ELEMENTS (expected));                                                 \
  }                                                                                                                    \
  G_STMT_END
