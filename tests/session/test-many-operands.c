/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ortrain.h>

#include <math.h>

/* Operators with 2,000 operands: values, gradients, and a step of training. loss = sum (x · op (p0, p1, …)). */

#define N 2000

static OrtrainTensor *
make_floats (const float *elements, gint64 n)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (elements, (gsize) n * sizeof (float));
  OrtrainTensor *tensor = ortrain_tensor_new_for_bytes (ORTRAIN_DTYPE_FLOAT32, &n, 1, bytes, &error);
  g_assert_no_error (error);
  return tensor;
}

/* Distinct, in no order. */
static float
initial (guint i)
{
  return (float) (i * 7919 % N) / N - 0.5f;
}

static void
test_operator (gconstpointer data)
{
  const char *op_type = data;
  const gboolean concat = g_str_equal (op_type, "Concat");
  const gint64 width = concat ? N : 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("many");
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();
  g_assert_nonnull (ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, &width, 1, &error));
  double sum = 0;
  float most = -1, least = 1;
  for (guint i = 0; i < N; i++)
    {
      g_autofree char *name = g_strdup_printf ("p%u", i);
      const float element = initial (i);
      g_autoptr (OrtrainTensor) tensor = make_floats (&element, 1);
      g_assert_nonnull (ortrain_graph_add_initializer (graph, name, tensor, &error));
      g_strv_builder_add (names, name);
      sum += element;
      most = MAX (most, element);
      least = MIN (least, element);
    }
  g_auto (GStrv) operands = g_strv_builder_end (names);
  OrtrainNode *node = ortrain_graph_add_node (graph, op_type, "", "many", (const char *const *) operands,
                                              (const char *const[]){ "y", NULL }, &error);
  g_assert_no_error (error);
  if (concat)
    ortrain_node_set_attribute (node, "axis", g_variant_new_int64 (0));
  ortrain_graph_add_node (graph, "Mul", "", "product", (const char *const[]){ "x", "y", NULL },
                          (const char *const[]){ "z", NULL }, &error);
  OrtrainNode *loss_node = ortrain_graph_add_node (graph, "ReduceSum", "", "sum", (const char *const[]){ "z", NULL },
                                                   (const char *const[]){ "loss", NULL }, &error);
  g_assert_no_error (error);
  ortrain_node_set_attribute (loss_node, "keepdims", g_variant_new_int64 (0));
  ortrain_graph_add_output (graph, "loss", &error);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);

  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_output_loss_new ("loss");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (1.0);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_trainable (options, (const char *const *) operands);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);

  g_autofree float *x = g_new (float, N);
  for (guint i = 0; i < N; i++)
    x[i] = concat ? 0.25f + (float) i / N : 0.5f;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) fed = make_floats (x, width);
  ortrain_tensor_dict_set (feeds, "x", fed);
  double expected = g_str_equal (op_type, "Sum")    ? sum
                    : g_str_equal (op_type, "Mean") ? sum / N
                    : g_str_equal (op_type, "Max")  ? most
                                                    : least;
  expected *= 0.5;
  if (concat)
    {
      expected = 0;
      for (guint i = 0; i < N; i++)
        expected += (double) x[i] * initial (i);
    }
  const double value = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat_with_epsilon (value, expected, 1e-3);

  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < N; i++)
    {
      const float p = initial (i);
      const double wanted = concat                          ? x[i]
                            : g_str_equal (op_type, "Sum")  ? 0.5
                            : g_str_equal (op_type, "Mean") ? 0.5 / N
                            : g_str_equal (op_type, "Max")  ? (p == most ? 0.5 : 0)
                                                            : (p == least ? 0.5 : 0);
      OrtrainTensor *gradient = ortrain_tensor_dict_get (gradients, operands[i]);
      g_assert_nonnull (gradient);
      g_autoptr (GBytes) bytes = ortrain_tensor_get_bytes (gradient, &error);
      g_assert_no_error (error);
      g_assert_cmpfloat_with_epsilon (*(const float *) g_bytes_get_data (bytes, NULL), wanted, 1e-7);
    }
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_assert_no_error (error);
}

/* x + p0 + p1 + …: more parameters than the nodes of an update have results for. Each gradient is 1; clipped to a
 * norm of 1, each parameter moves by 1 / √n. */
static void
test_many_parameters (void)
{
  const guint n = 6000;
  const gint64 one = 1;
  const float zero = 0;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("many");
  g_autoptr (OrtrainTensor) tensor = make_floats (&zero, 1);
  ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, &one, 1, &error);
  g_autofree char *last = g_strdup ("x");
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *name = g_strdup_printf ("p%u", i), *sum = g_strdup_printf ("y%u", i);
      ortrain_graph_add_initializer (graph, name, tensor, &error);
      ortrain_graph_add_node (graph, "Add", "", sum, (const char *const[]){ last, name, NULL },
                              (const char *const[]){ sum, NULL }, &error);
      g_assert_no_error (error);
      g_free (last);
      last = g_steal_pointer (&sum);
    }
  ortrain_graph_add_output (graph, last, &error);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_output_loss_new (last);
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (1.0);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_trainable (options, (const char *const[]){ "p*", NULL });
  ortrain_training_options_set_max_grad_norm (options, 1.0);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", tensor);
  for (guint step = 0; step < 2; step++)
    {
      const double value = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_assert_cmpfloat_with_epsilon (value, -sqrt (n) * step, 1e-1);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
}

int
main (int argc, char *argv[])
{
  static const char *const operators[] = { "Sum", "Mean", "Max", "Min", "Concat" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (operators); i++)
    {
      g_autofree char *path = g_strconcat ("/session/many-operands/", operators[i], NULL);
      g_test_add_data_func (path, operators[i], test_operator);
    }
  g_test_add_func ("/session/many-parameters", test_many_parameters);
  return g_test_run ();
}
