/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"
#include "ops/pack-round.h"
#include "plan/ortrain-memory-plan-private.h"

/* Booleans that only wait for the backward pass lie in bits: less memory, and the same bits in every result. */

enum
{
  WIDTH = 64,
  N_LAYERS = 3,
  N_CLASSES = 4
};

/* y = x where x > 0.1, x / 4 elsewhere: its gradient reads the condition alone. */
static OrtrainValue *
gate (OrtrainGraphBuilder *builder, OrtrainValue *x, guint i)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strdup_printf ("limit%u", i), *slope = g_strdup_printf ("slope%u", i);
  const float limit_values[] = { 0.1f }, slope_values[] = { 0.25f };
  const gint64 one[] = { 1 };
  g_autoptr (OrtrainTensor) limit = ortrain_tensor_new_floats (one, 1, limit_values, 1, &error);
  g_autoptr (OrtrainTensor) factor = ortrain_tensor_new_floats (one, 1, slope_values, 1, &error);
  g_assert_no_error (error);
  OrtrainValue *is_large =
      ortrain_graph_builder_binary (builder, "Greater", x, ortrain_graph_builder_add_tensor (builder, name, limit));
  OrtrainValue *less =
      ortrain_graph_builder_binary (builder, "Mul", x, ortrain_graph_builder_add_tensor (builder, slope, factor));
  g_autofree char *y_name = g_strdup_printf ("gate%u", i);
  const char *const inputs[] = { ortrain_value_get_name (is_large), ortrain_value_get_name (x),
                                 ortrain_value_get_name (less), NULL };
  const char *const outputs[] = { y_name, NULL };
  OrtrainValue *y = ortrain_graph_builder_add_op (builder, "Where", "", inputs, outputs, NULL);
  return y;
}

static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("gates");
  ortrain_graph_builder_set_seed (builder, 1);
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "n,64");
  for (guint i = 0; i < N_LAYERS; i++)
    {
      g_autofree char *name = g_strdup_printf ("fc%u", i);
      x = gate (builder, ortrain_graph_builder_linear (builder, x, name, WIDTH, FALSE), i);
    }
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_linear (builder, x, "last", N_CLASSES, FALSE),
                                    "logits");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTrainingSession *
make_session (gboolean immediate, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ORTRAIN_LOSS (ortrain_cross_entropy_loss_new ("logits", "labels"));
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_immediate_updates (options, immediate ? ORTRAIN_IMMEDIATE_UPDATES_ON
                                                                     : ORTRAIN_IMMEDIATE_UPDATES_OFF);
  ortrain_training_options_set_memory_budget (options, budget);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTensorDict *
make_feeds (gint64 begin, gint64 end)
{
  g_autoptr (GError) error = NULL;
  const gint64 n = end - begin, dims[] = { n, WIDTH };
  g_autofree float *x = g_new (float, n *WIDTH);
  g_autofree gint64 *labels = g_new (gint64, n);
  guint32 state = 7;
  for (gint64 i = -begin * WIDTH; i < n * WIDTH; i++)
    {
      state = state * 1664525u + 1013904223u;
      if (i >= 0)
        x[i] = (float) (state >> 8) / (1 << 23) - 1.0f;
    }
  for (gint64 i = 0; i < n; i++)
    labels[i] = (begin + i) % N_CLASSES;
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x_tensor = ortrain_tensor_new_floats (dims, 2, x, (gsize) (n * WIDTH), &error);
  g_autoptr (OrtrainTensor) label_tensor = ortrain_tensor_new_ints (dims, 1, labels, (gsize) n, &error);
  g_assert_no_error (error);
  ortrain_tensor_dict_set (feeds, "x", x_tensor);
  ortrain_tensor_dict_set (feeds, "labels", label_tensor);
  return feeds;
}

static guint
count_steps (OrtrainTrainingSession *session, const char *op_type)
{
  guint n_steps, n = 0;
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    n += g_str_equal (steps[s].node->op_type, op_type);
  return n;
}

static void
train (OrtrainTrainingSession *session, OrtrainTensorDict *feeds, double *losses, guint n_steps)
{
  g_autoptr (GError) error = NULL;
  for (guint s = 0; s < n_steps; s++)
    {
      g_assert_true (ortrain_training_session_train_and_update (session, feeds, &error));
      losses[s] = ortrain_training_session_get_last_loss (session, &error);
      g_assert_no_error (error);
    }
}

static OrtrainTensorDict *
find_gradients (OrtrainTrainingSession *session, OrtrainTensorDict *const *feeds, guint n)
{
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < n; i++)
    ortrain_training_session_train_step (session, feeds[i], &error);
  g_assert_no_error (error);
  OrtrainTensorDict *gradients = ortrain_training_session_get_gradients (session, &error);
  g_assert_no_error (error);
  return gradients;
}

/* Those of a batch are half of the sum of those of its halves, which are too small to be packed. */
static void
test_gradients (void)
{
  g_autoptr (OrtrainTensorDict) all = make_feeds (0, 2002), first = make_feeds (0, 1001),
                                second = make_feeds (1001, 2002);
  g_autoptr (OrtrainTrainingSession) packed = make_session (FALSE, 0), plain = make_session (FALSE, 0);
  g_autoptr (OrtrainTensorDict) gradients = find_gradients (packed, &all, 1);
  g_assert_cmpuint (count_steps (packed, "PackBits"), ==, N_LAYERS - 1); /* that of the last layer is read at once */
  g_assert_cmpuint (count_steps (packed, "UnpackBits"), ==, N_LAYERS - 1);
  g_autoptr (OrtrainTensorDict) sums = find_gradients (plain, (OrtrainTensorDict *[]){ first, second }, 2);
  g_assert_cmpuint (count_steps (plain, "PackBits"), ==, 0);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (gradients), ==, N_LAYERS + 1);
  for (guint t = 0; t < ortrain_tensor_dict_get_size (gradients); t++)
    {
      OrtrainTensor *gradient = ortrain_tensor_dict_get_tensor (gradients, t);
      OrtrainTensor *sum = ortrain_tensor_dict_get_tensor (sums, t);
      const gint64 n = ortrain_tensor_get_n_elements (gradient);
      double largest = 0;
      for (gint64 i = 0; i < n; i++)
        largest = MAX (largest, fabs (ortrain_tensor_get_scalar (gradient, i)));
      g_assert_cmpfloat (largest, >, 1e-4);
      for (gint64 i = 0; i < n; i++)
        g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (gradient, i), ortrain_tensor_get_scalar (sum, i) / 2,
                                        1e-5 * largest);
    }
}

static void
test_small (void)
{
  double losses[1];
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (0, 1000);
  g_autoptr (OrtrainTrainingSession) session = make_session (TRUE, 0);
  train (session, feeds, losses, 1);
  g_assert_cmpuint (count_steps (session, "PackBits"), ==, 0);
}

/* It is the base of budgets as well. */
static void
test_budget (void)
{
  double losses[3], within[3];
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (0, 2051);
  g_autoptr (OrtrainTrainingSession) whole = make_session (TRUE, 0);
  train (whole, feeds, losses, 3);
  const guint64 peak = ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (whole));
  g_autoptr (OrtrainTrainingSession) session = make_session (TRUE, peak - 65536);
  train (session, feeds, within, 3);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (session)), <=,
                    peak - 65536);
  g_assert_cmpmem (within, sizeof within, losses, sizeof losses);
}

static void
test_kernels (void)
{
  test_pack_round (NULL);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/pack-bits/gradients", test_gradients);
  g_test_add_func ("/pack-bits/small", test_small);
  g_test_add_func ("/pack-bits/budget", test_budget);
  g_test_add_func ("/pack-bits/kernels", test_kernels);
  return g_test_run ();
}
