/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include <math.h>
#include <unistd.h>

/* A plan takes no memory: that of a step that no machine runs can be made, and looked at. */

static OrtrainTensorDict *
make_feeds (gint64 n)
{
  const gint64 x_dims[] = { n, 1 }, label_dims[] = { n };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 2, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, label_dims, 1, &error);
  g_assert_no_error (error);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  return feeds;
}

static void
test_larger_than_memory (void)
{
  const guint64 memory = (guint64) sysconf (_SC_PHYS_PAGES) * (guint64) sysconf (_SC_PAGESIZE);
  const gint64 width = 65536, n = (gint64) (8 * memory / (guint64) width / sizeof (float));
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("wide");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "n,1");
  x = ortrain_graph_builder_relu (builder, ortrain_graph_builder_linear (builder, x, "fc", width, TRUE));
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_linear (builder, x, "head", 2, TRUE), "logits");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);

  g_autoptr (OrtrainTensorDict) large = make_feeds (n), small = make_feeds (2);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, large, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), >, 8 * memory);

  /* A step of it is an error, and the session goes on with batches that fit. */
  g_assert_true (isnan (ortrain_training_session_train_step (session, large, &error)));
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
  g_clear_error (&error);
  for (guint step = 0; step < 2; step++)
    {
      g_assert_false (isnan (ortrain_training_session_train_step (session, small, &error)));
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_assert_no_error (error);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan/larger-than-memory", test_larger_than_memory);
  return g_test_run ();
}
