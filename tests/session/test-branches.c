/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include <glib/gstdio.h>
#include <string.h>

#include "../model/ortrain-proto-maker.h"

/* Nodes that do not lead to the loss need not be known, computable or differentiable; and a loss may name any value. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
static const float w[12] = { .5f, -1, .25f, 2, 1, .125f, -.5f, 1, -2, 1, .75f, -.25f };

/* y = x w; z = the operator of a y; y and z are outputs */
static OrtrainModel *
make_model (const char *op_type, const char *domain, gint64 opset, const char *z)
{
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new (), *node = proto_node (op_type, "y", z), *model, *import = proto_new ();
  proto_message (graph, 1, proto_node ("MatMul", "x,w", "y"));
  proto_string (node, 3, "branch");
  if (domain != NULL)
    proto_string (node, 7, domain);
  proto_message (graph, 1, node);
  proto_message (graph, 5, proto_tensor ("w", 1, DIMS (3, 4), w, sizeof w));
  proto_message (graph, 11, proto_value ("x", 1, DIMS (2, 3)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (2, 4)));
  Proto *loose = proto_new ();
  proto_string (loose, 1, z);
  proto_message (graph, 12, loose);
  model = proto_model_unfinished (graph, 8, opset);
  proto_string (import, 1, "my");
  proto_int (import, 2, 1);
  proto_message (model, 8, import);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (model);
  OrtrainModel *result = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return result;
}

static OrtrainTensorDict *
make_feeds (void)
{
  const gint64 x_dims[] = { 2, 3 }, t_dims[] = { 2, 4 };
  const float x[6] = { 1, -1, 2, .5f, 1, -2 }, t[8] = { 0, 1, 0, 1, 1, 0, 0, 1 };
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) input = ortrain_tensor_new_floats (x_dims, 2, x, 6, NULL);
  g_autoptr (OrtrainTensor) target = ortrain_tensor_new_floats (t_dims, 2, t, 8, NULL);
  ortrain_tensor_dict_set (feeds, "x", input);
  ortrain_tensor_dict_set (feeds, "t", target);
  return feeds;
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, const char *output, GError **error)
{
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new (output, "t");
  ortrain_training_options_add_loss (options, loss);
  return ortrain_training_session_new (model, options, error);
}

static void
test_other_branch (gconstpointer data)
{
  const char *op_type = data;
  const gboolean unknown = g_str_equal (op_type, "Mystery");
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (op_type, unknown ? "my" : NULL, 17, "z");
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_autofree char *text = ortrain_check_report_to_string (report);
  g_test_message ("%s", text);
  g_assert_true (ortrain_check_report_get_trainable (report));
  g_assert_cmpuint (ortrain_check_report_get_n_trainable (report), ==, 1);
  g_assert_nonnull (strstr (text, op_type));
  g_assert_nonnull (strstr (text, "'branch'"));

  g_autoptr (OrtrainTrainingSession) session = make_session (model, "y", &error);
  g_assert_no_error (error);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_assert_nonnull (notes[0]);
  g_test_message ("%s", notes[0]);
  g_assert_nonnull (strstr (notes[0], "'z'"));
  g_assert_nonnull (strstr (notes[0], "'branch'"));
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ();
  double first = 0, last = 0;
  for (guint i = 0; i < 20; i++)
    {
      last = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
      first = i == 0 ? last : first;
    }
  g_assert_cmpfloat (last, <, first);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_dict_contains (outputs, "y"));
  g_assert_false (ortrain_tensor_dict_contains (outputs, "z"));

  /* the loss on that branch is refused, and so is a session for inference of all outputs if the operator is unknown */
  g_assert_null (make_session (model, "z", &error));
  g_assert_nonnull (strstr (error->message, unknown ? "branch" : "z"));
  g_clear_error (&error);
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (model, NULL, &error);
  g_assert_true ((inference == NULL) == unknown);
  if (unknown)
    g_assert_nonnull (strstr (error->message, "branch"));

  /* of the others it is made */
  g_clear_error (&error);
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  ortrain_session_options_set_outputs (options, (const char *const[]){ "y", NULL });
  g_autoptr (OrtrainInferenceSession) part = ortrain_inference_session_new (model, options, &error);
  g_assert_no_error (error);
  g_auto (GStrv) input_names = ortrain_inference_session_get_input_names (part);
  g_auto (GStrv) output_names = ortrain_inference_session_get_output_names (part);
  g_assert_cmpuint (g_strv_length (input_names), ==, 1);
  g_assert_cmpuint (g_strv_length (output_names), ==, 1);
  g_assert_cmpstr (output_names[0], ==, "y");
  g_autoptr (OrtrainTensorDict) inputs = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (inputs, input_names[0], ortrain_tensor_dict_get (feeds, input_names[0]));
  g_autoptr (OrtrainTensorDict) computed = ortrain_inference_session_run (part, inputs, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (computed), ==, 1);
  g_assert_true (ortrain_tensor_dict_contains (computed, "y"));
  ortrain_session_options_set_outputs (options, (const char *const[]){ "t", NULL });
  g_assert_null (ortrain_inference_session_new (model, options, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_clear_error (&error);

  /* exports have all nodes */
  g_autoptr (GError) export_error = NULL;
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "ortrain-branches-XXXXXX", NULL);
  const int fd = g_mkstemp (path);
  g_assert_cmpint (fd, >=, 0);
  g_close (fd, NULL);
  g_assert_true (ortrain_training_session_export (session, path, &export_error));
  g_assert_no_error (export_error);
  g_autoptr (OrtrainModel) exported = ortrain_model_new_from_file (path, &export_error);
  g_assert_no_error (export_error);
  g_assert_cmpuint (ortrain_model_get_n_nodes (exported), ==, 2);
  g_assert_cmpint (g_unlink (path), ==, 0);
}

/* Values that the form of operator set 23 makes anew, or that training does, have their names still. */
static void
test_any_value (gconstpointer data)
{
  const char *op_type = data;
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new ();
  const float ones[4] = { 1, 1, 1, 1 }, zeros[4] = { 0, 0, 0, 0 };
  const gboolean norm = g_str_equal (op_type, "BatchNormalization");
  proto_message (graph, 1, proto_node ("MatMul", "x,w", "y"));
  proto_message (graph, 1, proto_node (op_type, norm ? "y,one,zero,mean,one" : "y", "middle"));
  proto_message (graph, 1, proto_node ("ReduceMax", "middle", "z"));
  proto_message (graph, 5, proto_tensor ("w", 1, DIMS (3, 4), w, sizeof w));
  proto_message (graph, 5, proto_tensor ("one", 1, DIMS (4), ones, sizeof ones));
  proto_message (graph, 5, proto_tensor ("zero", 1, DIMS (4), zeros, sizeof zeros));
  proto_message (graph, 5, proto_tensor ("mean", 1, DIMS (4), zeros, sizeof zeros));
  proto_message (graph, 11, proto_value ("x", 1, DIMS (2, 3)));
  proto_message (graph, 12, proto_value ("z", 1, DIMS (1, 1)));
  g_autoptr (GBytes) bytes = proto_model (graph, 6, 11);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, "middle", &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ();
  const double first = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  ortrain_training_session_optimizer_step (session, &error);
  g_assert_no_error (error);
  const double second = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_true (second != first); /* the weights moved; on two items, batch normalisation moves by jumps */
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_dict_contains (outputs, "z"));
  g_assert_false (ortrain_tensor_dict_contains (outputs, "middle"));
}

int
main (int argc, char *argv[])
{
  static const char *const branches[] = { "Mystery", "NonZero" };
  static const char *const middles[] = { "Relu", "Softmax", "BatchNormalization", "Dropout", "LogSoftmax" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (branches); i++)
    {
      g_autofree char *path = g_strconcat ("/branches/", branches[i], NULL);
      g_test_add_data_func (path, branches[i], test_other_branch);
    }
  for (guint i = 0; i < G_N_ELEMENTS (middles); i++)
    {
      g_autofree char *path = g_strconcat ("/branches/any-value/", middles[i], NULL);
      g_test_add_data_func (path, middles[i], test_any_value);
    }
  return g_test_run ();
}
