/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-proto-maker.h"
#include "ortrain.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* Tensors that stand inside of functions and branches: reports list them, and tensors that no export could write back
 * are never trained. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })

static Proto *
make_tensor (const char *name, const gint64 *dims)
{
  gint64 n = 1;
  for (gsize i = 0; dims[i] >= 0; i++)
    n *= dims[i];
  g_autofree float *data = g_new (float, n);
  for (gint64 i = 0; i < n; i++)
    data[i] = 0.4f * sinf (1.7f * (float) i + 2);
  return proto_tensor (name, 1, dims, data, (gsize) n * sizeof *data);
}

static Proto *
make_constant (const char *name, const gint64 *dims)
{
  Proto *node = proto_new (), *attribute = proto_new ();
  proto_string (node, 2, name);
  proto_string (node, 4, "Constant");
  proto_string (attribute, 1, "value");
  proto_message (attribute, 5, make_tensor (NULL, dims));
  proto_int (attribute, 20, 4);
  proto_message (node, 5, attribute);
  return node;
}

static OrtrainModel *
load (Proto *model)
{
  g_autoptr (GError) error = NULL;
  Proto *import = proto_new ();
  proto_string (import, 1, "my");
  proto_int (import, 2, 1);
  proto_message (model, 8, import);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (model);
  OrtrainModel *result = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return result;
}

static Proto *
make_graph (void)
{
  Proto *graph = proto_new ();
  proto_message (graph, 11, proto_value ("x", 1, DIMS (3, 5)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (3, 4)));
  proto_message (graph, 5, make_tensor ("fc.weight", DIMS (5, 4)));
  proto_message (graph, 1, proto_node ("MatMul", "x,fc.weight", "h"));
  return graph;
}

/* y = h + Lin (x); Lin (a) = a w */
static OrtrainModel *
make_function (void)
{
  Proto *graph = make_graph (), *call = proto_node ("Lin", "x", "f"), *function = proto_new (), *import = proto_new ();
  proto_string (call, 3, "call");
  proto_string (call, 7, "my");
  proto_message (graph, 1, call);
  proto_message (graph, 1, proto_node ("Add", "h,f", "y"));
  proto_string (function, 1, "Lin");
  proto_string (function, 4, "a");
  proto_string (function, 5, "b");
  proto_message (function, 7, make_constant ("w", DIMS (5, 4)));
  proto_message (function, 7, make_constant ("half", DIMS (1)));
  proto_message (function, 7, proto_node ("MatMul", "a,w", "m"));
  proto_message (function, 7, proto_node ("Mul", "m,half", "b"));
  proto_string (import, 1, "");
  proto_int (import, 2, 17);
  proto_message (function, 9, import);
  proto_string (function, 10, "my");
  Proto *model = proto_model_unfinished (graph, 8, 17);
  proto_message (model, 25, function);
  return load (model);
}

static Proto *
make_branch (const char *prefix)
{
  g_autofree char *w = g_strconcat (prefix, ".w", NULL), *c = g_strconcat (prefix, ".c", NULL);
  g_autofree char *inputs = g_strconcat ("x,", w, NULL), *sum = g_strconcat (prefix, ".m,", c, NULL);
  g_autofree char *m = g_strconcat (prefix, ".m", NULL), *y = g_strconcat (prefix, ".y", NULL);
  Proto *graph = proto_new ();
  proto_string (graph, 2, prefix);
  proto_message (graph, 5, make_tensor (w, DIMS (5, 4)));
  proto_message (graph, 1, make_constant (c, DIMS (4)));
  proto_message (graph, 1, proto_node ("MatMul", inputs, m));
  proto_message (graph, 1, proto_node ("Add", sum, y));
  proto_message (graph, 12, proto_value (y, 1, DIMS (3, 4)));
  return graph;
}

/* y = h + If (c) { x then.w + then.c } else { x else.w + else.c }; of data: c is computed from x, else it is stored.
 * Then h is an output as well. */
static OrtrainModel *
make_if (gboolean of_data)
{
  const guint8 yes = 1;
  const float zero = 0;
  Proto *graph = make_graph (), *node = proto_node ("If", "c", "f");
  proto_string (node, 3, "choose");
  for (guint b = 0; b < 2; b++)
    {
      Proto *attribute = proto_new ();
      proto_string (attribute, 1, b ? "else_branch" : "then_branch");
      proto_message (attribute, 6, make_branch (b ? "else" : "then"));
      proto_int (attribute, 20, 5);
      proto_message (node, 5, attribute);
    }
  if (of_data)
    {
      proto_message (graph, 5, proto_tensor ("zero", 1, DIMS (-1), &zero, sizeof zero));
      Proto *sum = proto_node ("ReduceSum", "x", "s"), *attribute = proto_new ();
      proto_string (attribute, 1, "keepdims");
      proto_int (attribute, 3, 0);
      proto_int (attribute, 20, 2);
      proto_message (sum, 5, attribute);
      proto_message (graph, 1, sum);
      proto_message (graph, 1, proto_node ("Greater", "s,zero", "c"));
      proto_message (graph, 12, proto_value ("h", 1, DIMS (3, 4)));
    }
  else
    proto_message (graph, 5, proto_tensor ("c", 9, DIMS (-1), &yes, sizeof yes));
  proto_message (graph, 1, node);
  proto_message (graph, 1, proto_node ("Add", "h,f", "y"));
  return load (proto_model_unfinished (graph, 8, 17));
}

typedef struct
{
  const char *name;
  gboolean trained;
  const char *reasons[3];
} Expected;

static void
expect (OrtrainModel *model, const Expected *expected, gsize n)
{
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  GListModel *list = ortrain_check_report_get_parameters (report);
  for (guint i = 0; i < MAX (g_list_model_get_n_items (list), n); i++)
    {
      g_autoptr (OrtrainParameterInfo) info = g_list_model_get_item (list, i);
      if (info == NULL)
        g_error ("the report does not list '%s'", expected[i].name);
      g_autofree char *text = ortrain_parameter_info_to_string (info);
      g_test_message ("%s", text);
      if (i >= n)
        g_error ("the report lists more: %s", text);
      g_assert_cmpstr (ortrain_parameter_info_get_name (info), ==, expected[i].name);
      g_assert_cmpint (ortrain_parameter_info_get_trained (info), ==, expected[i].trained);
      for (guint k = 0; k < 3 && expected[i].reasons[k] != NULL; k++)
        if (strstr (text, expected[i].reasons[k]) == NULL)
          g_error ("expected \"%s\": %s", expected[i].reasons[k], text);
    }
}

#define EXPECT(model, ...)                                                                                             \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    const Expected expected[] = { __VA_ARGS__ };                                                                       \
    expect (model, expected, G_N_ELEMENTS (expected));                                                                 \
  }                                                                                                                    \
  G_STMT_END

static OrtrainTrainingSession *
make_session (OrtrainModel *model, const char *output, const char *trainable, GError **error)
{
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new (output, "t");
  ortrain_training_options_add_loss (options, loss);
  if (trainable != NULL)
    ortrain_training_options_set_trainable (options, (const char *const[]){ trainable, NULL });
  return ortrain_training_session_new (model, options, error);
}

/* Trained tensors can be exported. */
static void
expect_export (OrtrainModel *model, const char *output)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, output, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  float x[15], t[12];
  for (guint i = 0; i < 15; i++)
    x[i] = sinf ((float) i);
  for (guint i = 0; i < 12; i++)
    t[i] = cosf ((float) i);
  g_autoptr (OrtrainTensor) input = ortrain_tensor_new_floats (DIMS (3, 5), 2, x, 15, NULL);
  g_autoptr (OrtrainTensor) target = ortrain_tensor_new_floats (DIMS (3, 4), 2, t, 12, NULL);
  ortrain_tensor_dict_set (feeds, "x", input);
  ortrain_tensor_dict_set (feeds, "t", target);
  const double loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_true (isfinite (loss));
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL), *path = g_build_filename (folder, "m.onnx", NULL);
  ortrain_training_session_export (session, path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) out = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  OrtrainTensor *before, *after;
  before = ortrain_value_get_tensor (ortrain_graph_find_value (ortrain_model_get_graph (model, NULL), "fc.weight"));
  after = ortrain_value_get_tensor (ortrain_graph_find_value (ortrain_model_get_graph (out, NULL), "fc.weight"));
  g_assert_false (ortrain_tensor_equal (before, after));
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}

static void
expect_refusal (OrtrainModel *model, const char *output, const char *name, const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_assert_null (make_session (model, output, name, &error));
  g_assert_nonnull (strstr (error->message, name));
  if (strstr (error->message, reason) == NULL)
    g_error ("expected \"%s\": %s", reason, error->message);
}

static void
test_function (void)
{
  g_autoptr (OrtrainModel) model = make_function ();
  EXPECT (model, { "fc.weight", TRUE, { "weight of MatMul" } },
          { "call/w", FALSE, { "weight of MatMul", "[5, 4]", "inside function 'Lin'" } },
          { "call/half", FALSE, { "one number", "inside function 'Lin'" } });
  expect_export (model, "y");
  expect_refusal (model, "y", "call/w", "inside function 'Lin'");
  expect_refusal (model, "y", "call/*", "inside function 'Lin'");
}

static void
test_taken_branch (void)
{
  g_autoptr (OrtrainModel) model = make_if (FALSE);
  EXPECT (model, { "fc.weight", TRUE, { "weight of MatMul" } },
          { "then.w", FALSE, { "weight of MatMul", "inside then_branch of If 'choose'" } },
          { "then.c", FALSE, { "bias: Add", "inside then_branch of If 'choose'" } },
          { "else.w", FALSE, { "[5, 4]", "inside else_branch of If 'choose', which is never taken" } },
          { "else.c", FALSE, { "[4]", "inside else_branch of If 'choose', which is never taken" } });
  expect_export (model, "y");
  expect_refusal (model, "y", "then.w", "inside then_branch of If 'choose'");
}

static void
test_branch_of_data (void)
{
  g_autoptr (OrtrainModel) model = make_if (TRUE);
  EXPECT (model, { "fc.weight", TRUE, { "weight of MatMul" } }, { "zero", FALSE, { "one number" } },
          { "then.w", FALSE, { "[5, 4]", "inside then_branch of If 'choose', which is decided by data" } },
          { "then.c", FALSE, { "[4]", "inside then_branch of If 'choose', which is decided by data" } },
          { "else.w", FALSE, { "[5, 4]", "inside else_branch of If 'choose', which is decided by data" } },
          { "else.c", FALSE, { "[4]", "inside else_branch of If 'choose', which is decided by data" } });
  expect_export (model, "h");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/enclosed-tensors/function", test_function);
  g_test_add_func ("/enclosed-tensors/taken-branch", test_taken_branch);
  g_test_add_func ("/enclosed-tensors/branch-of-data", test_branch_of_data);
  return g_test_run ();
}
