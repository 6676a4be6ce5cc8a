/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "op-harness.h"
#include "ortrain.h"

/* Dropout that drops: ONNX's data have one draw of another generator, so this test is the only check. Elements are
 * dropped as often as the ratio says, those that are kept are multiplied by exactly 1 / (1 - ratio), the gradient goes
 * through the same ones, and which ones depends on seed, step and node alone. */

enum
{
  N = 100003 /* no multiple of the blocks that numbers are drawn in */
};

static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16,
                                       ORTRAIN_DTYPE_BFLOAT16 };

/* Six bits each, of both signs, never zero: the same in all types. */
static OrtrainTensor *
make_numbers (OrtrainDType dtype, gint64 period)
{
  const gint64 n = N;
  g_autofree double *values = g_new (double, N);
  for (gint64 i = 0; i < n; i++)
    values[i] = (i & 1 ? -1.0 : 1.0) * (double) (1 + i % period) / 64;
  return harness_tensor (dtype, values, &n, 1);
}

/* The product as a kernel has to round it: that of 16-bit types is computed in float32. */
static double
multiply (OrtrainDType dtype, double x, double scale)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    return x * scale;
  const float product = (float) x * (float) scale;
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    return ortrain_half_to_float (ortrain_float_to_half (product));
  if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    return ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (product));
  return product;
}

typedef struct
{
  OrtrainTensor *x, *weights, *y, *mask, *dx;
  double ratio; /* as the operand has it */
} Draw;

static void
draw_clear (Draw *self)
{
  g_clear_object (&self->x);
  g_clear_object (&self->weights);
  g_clear_object (&self->y);
  g_clear_object (&self->mask);
  g_clear_object (&self->dx);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Draw, draw_clear)

typedef struct
{
  guint64 seed;
  guint32 step;
  guint before; /* nodes that the graph has in front of dropout */
  OrtrainProvider *provider;
} Place;

/* y and mask = Dropout (x, ratio, training); dx, of Σ weights · y. training < 0: it is left out. */
static Draw
run_dropout (OrtrainDType dtype, OrtrainDType ratio_dtype, double ratio, gint training, const Place *place)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) number = harness_tensor (ratio_dtype, &ratio, NULL, 0);
  const double flag = training;
  Draw draw = { .x = make_numbers (dtype, 61),
                .weights = make_numbers (dtype, 53),
                .ratio = ortrain_tensor_get_scalar (number, 0) };
  OrtrainValue *operands[] = { harness_input (graph, contents, "x", draw.x),
                               harness_input (graph, contents, "ratio", number), NULL };
  OrtrainValue *x = operands[0];
  if (training >= 0)
    {
      g_autoptr (OrtrainTensor) tensor = harness_tensor (ORTRAIN_DTYPE_BOOL, &flag, NULL, 0);
      operands[2] = harness_input (graph, contents, "training", tensor);
    }
  for (guint i = 0; i < place->before; i++)
    operands[0] = ortrain_node_output (ortrain_graph_new_node (graph, "", "Identity", NULL, operands, 1, 1), 0);
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Dropout", NULL, operands, training >= 0 ? 3 : 2, 2);
  OrtrainValue *dx, *loss = harness_weighted_sum (graph, ortrain_node_output (node, 0), draw.weights);
  const gboolean ok = ortrain_gradient_build (graph, loss, &x, 1, &dx, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  OrtrainHostContext context;
  init_context (&context, place->provider);
  context.step = (OrtrainStepBlock){ .seed = place->seed, .step = place->step };
  harness_run (graph, contents, &context);
  draw.y = g_object_ref (g_hash_table_lookup (contents, ortrain_node_output (node, 0)));
  draw.mask = g_object_ref (g_hash_table_lookup (contents, ortrain_node_output (node, 1)));
  draw.dx = g_object_ref (g_hash_table_lookup (contents, dx));
  g_assert_cmpint (ortrain_tensor_get_dtype (draw.y), ==, dtype);
  g_assert_cmpint (ortrain_tensor_get_dtype (draw.mask), ==, ORTRAIN_DTYPE_BOOL);
  return draw;
}

/* n draws of which `kept` came out, each with this probability: within five standard deviations. */
static void
assert_binomial (gint64 kept, gint64 n, double probability)
{
  const double expected = (double) n * probability, deviation = sqrt (expected * (1 - probability));
  if (!(fabs ((double) kept - expected) <= 5 * deviation + 1e-9))
    g_error ("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " are kept, %g ± %g are expected", kept, n, expected,
             deviation);
}

static void
check_draw (const Draw *draw, OrtrainDType dtype)
{
  const double scale = 1 / (1 - draw->ratio), probability = 1 - draw->ratio;
  gint64 by_lane[4] = { 0 }, by_part[7] = { 0 }, n_part[7] = { 0 }, kept = 0, both = 0;
  gboolean before = FALSE;
  for (gint64 i = 0; i < N; i++)
    {
      const gboolean keep = ortrain_tensor_get_scalar (draw->mask, i) != 0;
      const double x = ortrain_tensor_get_scalar (draw->x, i), w = ortrain_tensor_get_scalar (draw->weights, i);
      const double y = keep ? multiply (dtype, x, scale) : 0, dx = keep ? multiply (dtype, w, scale) : 0;
      if (ortrain_tensor_get_scalar (draw->y, i) != y || ortrain_tensor_get_scalar (draw->dx, i) != dx)
        g_error ("%s, ratio %g: element %d, which is %s, is %.17g and its gradient %.17g instead of %.17g and %.17g",
                 ortrain_dtype_get_name (dtype), draw->ratio, (int) i, keep ? "kept" : "dropped",
                 ortrain_tensor_get_scalar (draw->y, i), ortrain_tensor_get_scalar (draw->dx, i), y, dx);
      kept += keep;
      by_lane[i % 4] += keep;
      by_part[i / 16384] += keep;
      n_part[i / 16384]++;
      both += keep && before;
      before = keep;
    }
  assert_binomial (kept, N, probability);
  for (guint k = 0; k < 4; k++) /* of the four words of a block */
    assert_binomial (by_lane[k], (N + 3 - k) / 4, probability);
  for (guint k = 0; k < G_N_ELEMENTS (by_part); k++) /* of the elements of one thread */
    assert_binomial (by_part[k], n_part[k], probability);
  /* neighbours are kept independently; pairs overlap, so that the deviation is at most √3 times as large */
  const double pairs = (double) (N - 1) * probability * probability;
  g_assert_cmpfloat (fabs ((double) both - pairs), <=, 9 * sqrt (pairs * (1 - probability * probability)) + 1e-9);
}

/* The ratio in the type of the data, where it is rounded, and in float64. */
static void
test_draws (gconstpointer data)
{
  const OrtrainDType dtype = GPOINTER_TO_INT (data);
  static const double ratios[] = { 0.1, 0.3, 0.5, 0.75, 0.984375 /* 1 - 2⁻⁶ */ };
  for (guint i = 0; i < G_N_ELEMENTS (ratios); i++)
    for (guint k = 0; k < 2; k++)
      {
        const Place place = { .seed = 11 + i, .step = 1 + k };
        g_auto (Draw) draw = run_dropout (dtype, k == 0 ? dtype : ORTRAIN_DTYPE_FLOAT64, ratios[i], 1, &place);
        check_draw (&draw, dtype);
      }
}

/* All that is below 1 is a ratio: the largest such number of each type. */
static void
test_near_one (gconstpointer data)
{
  const OrtrainDType dtype = GPOINTER_TO_INT (data);
  const double ratio = dtype == ORTRAIN_DTYPE_FLOAT32   ? 1 - 0x1p-24
                       : dtype == ORTRAIN_DTYPE_FLOAT64 ? 1 - 0x1p-53
                       : dtype == ORTRAIN_DTYPE_FLOAT16 ? 1 - 0x1p-11
                                                        : 1 - 0x1p-8;
  const Place place = { .seed = 3, .step = 1 };
  g_auto (Draw) draw = run_dropout (dtype, dtype, ratio, 1, &place);
  g_assert_cmpfloat (draw.ratio, ==, ratio);
  check_draw (&draw, dtype);
}

/* Nothing is dropped where the ratio is zero, and where the layer does not train. */
static void
test_nothing_dropped (gconstpointer data)
{
  const OrtrainDType dtype = GPOINTER_TO_INT (data);
  static const struct
  {
    double ratio;
    gint training;
  } cases[] = { { 0, 1 }, { 0.5, 0 }, { 0.5, -1 }, { 0, -1 } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const Place place = { .seed = 3, .step = 1 };
      g_auto (Draw) draw = run_dropout (dtype, dtype, cases[i].ratio, cases[i].training, &place);
      g_assert_true (ortrain_tensor_equal (draw.y, draw.x));
      g_assert_true (ortrain_tensor_equal (draw.dx, draw.weights));
      for (gint64 k = 0; k < N; k++)
        g_assert_cmpfloat (ortrain_tensor_get_scalar (draw.mask, k), ==, 1);
    }
}

/* Masks of ratio 1/2 that have nothing to do with each other agree in half of their elements. */
static void
assert_unrelated (OrtrainTensor *a, OrtrainTensor *b)
{
  gint64 same = 0;
  for (gint64 i = 0; i < N; i++)
    same += ortrain_tensor_get_scalar (a, i) == ortrain_tensor_get_scalar (b, i);
  assert_binomial (same, N, 0.5);
}

static void
test_keys (void)
{
  g_autoptr (OrtrainProvider) three = new_cpu (3);
  const Place here = { .seed = 5, .step = 7 };
  g_auto (Draw) draw = run_dropout (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32, 0.5, 1, &here);
  const Place same[] = { { .seed = 5, .step = 7 }, { .seed = 5, .step = 7, .provider = three } };
  for (guint i = 0; i < G_N_ELEMENTS (same); i++)
    {
      g_auto (Draw) again = run_dropout (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32, 0.5, 1, &same[i]);
      g_assert_true (ortrain_tensor_equal (draw.y, again.y));
      g_assert_true (ortrain_tensor_equal (draw.mask, again.mask));
      g_assert_true (ortrain_tensor_equal (draw.dx, again.dx));
    }
  const Place others[] = { { .seed = 6, .step = 7 },
                           { .seed = 5 | G_GUINT64_CONSTANT (1) << 40, .step = 7 },
                           { .seed = 5, .step = 8 },
                           { .seed = 7, .step = 5 },
                           { .seed = 5, .step = 7, .before = 1 } };
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    {
      g_auto (Draw) other = run_dropout (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32, 0.5, 1, &others[i]);
      assert_unrelated (draw.mask, other.mask);
    }
  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++) /* the type of the data has no part in it */
    {
      g_auto (Draw) typed = run_dropout (dtypes[i], ORTRAIN_DTYPE_FLOAT64, 0.5, 1, &here);
      g_assert_true (ortrain_tensor_equal (draw.mask, typed.mask));
    }
}

/* ---- in sessions ---- */

/* y, mask = Dropout (x · w, ratio, training), loss = Σ y; w: ones, [N]. fed: ratio and training are inputs. */
static OrtrainModel *
make_model (OrtrainDType dtype, gboolean fed)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("dropout");
  g_autoptr (GError) error = NULL;
  const OrtrainDim n = ortrain_dim_int (N);
  const gint64 length = N;
  g_autofree double *ones = g_new (double, N);
  for (gint64 i = 0; i < N; i++)
    ones[i] = 1;
  g_autoptr (OrtrainTensor) w = harness_tensor (dtype, ones, &length, 1);
  OrtrainValue *factors[] = { ortrain_graph_new_input (graph, "x", dtype, &n, 1),
                              ortrain_graph_new_initializer (graph, "w", w) };
  OrtrainValue *operands[] = { ortrain_node_output (ortrain_graph_new_node (graph, "", "Mul", "mul", factors, 2, 1), 0),
                               NULL, NULL };
  if (fed)
    {
      operands[1] = ortrain_graph_new_input (graph, "ratio", ORTRAIN_DTYPE_FLOAT64, NULL, 0);
      operands[2] = ortrain_graph_new_input (graph, "training", ORTRAIN_DTYPE_BOOL, NULL, 0);
    }
  else
    operands[1] = ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT64, 0.25);
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Dropout", "drop", operands, fed ? 3 : 2, fed ? 2 : 1);
  OrtrainValue *y = ortrain_node_output (node, 0);
  ortrain_value_rename (y, "y");
  ortrain_graph_mark_output (graph, y, TRUE);
  if (fed)
    {
      ortrain_value_rename (ortrain_node_output (node, 1), "mask");
      ortrain_graph_mark_output (graph, ortrain_node_output (node, 1), TRUE);
    }
  OrtrainNode *sum = ortrain_graph_new_node (graph, "", "ReduceSum", "sum", &y, 1, 1);
  ortrain_attributes_set_int (sum->attributes, "keepdims", 0);
  ortrain_value_rename (ortrain_node_output (sum, 0), "loss");
  ortrain_graph_mark_output (graph, ortrain_node_output (sum, 0), TRUE);
  graph->opset = 18;
  g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
  OrtrainModel *model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
run_fed (OrtrainInferenceSession *session, OrtrainTensor *x, double ratio, gboolean training)
{
  g_autoptr (GError) error = NULL;
  const double flag = training;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) number = harness_tensor (ORTRAIN_DTYPE_FLOAT64, &ratio, NULL, 0);
  g_autoptr (OrtrainTensor) truth = harness_tensor (ORTRAIN_DTYPE_BOOL, &flag, NULL, 0);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "ratio", number);
  ortrain_tensor_dict_set (feeds, "training", truth);
  OrtrainTensorDict *outputs = ortrain_inference_session_run (session, feeds, &error);
  g_assert_no_error (error);
  return outputs;
}

/* Whether the layer trains, and its ratio, come with each run. */
static void
test_fed (gconstpointer data)
{
  const OrtrainDType dtype = GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (dtype, TRUE);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) x = make_numbers (dtype, 61);
  g_autoptr (OrtrainTensor) before = NULL;
  static const double ratios[] = { 0.5, 0.5, 0.125, 0 };
  for (guint i = 0; i < G_N_ELEMENTS (ratios); i++)
    {
      g_autoptr (OrtrainTensorDict) still = run_fed (session, x, ratios[i], FALSE);
      g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (still, "y"), x));
      g_autoptr (OrtrainTensorDict) outputs = run_fed (session, x, ratios[i], TRUE);
      OrtrainTensor *y = ortrain_tensor_dict_get (outputs, "y"), *mask = ortrain_tensor_dict_get (outputs, "mask");
      gint64 kept = 0;
      for (gint64 k = 0; k < N; k++)
        {
          const gboolean keep = ortrain_tensor_get_scalar (mask, k) != 0;
          kept += keep;
          g_assert_cmpfloat (ortrain_tensor_get_scalar (y, k), ==,
                             keep ? multiply (dtype, ortrain_tensor_get_scalar (x, k), 1 / (1 - ratios[i])) : 0);
          g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (still, "mask"), k), ==, 1);
        }
      assert_binomial (kept, N, 1 - ratios[i]);
      if (i == 1)
        assert_unrelated (before, mask); /* each run draws anew */
      g_set_object (&before, mask);
    }
}

/* loss = Σ y with w = 1: the gradient of w is the kept part of x, times the scale, and its sum is the loss. */
static void
train (guint64 seed, guint threads, guint n_steps, double *losses, OrtrainTensor **gradients)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (ORTRAIN_DTYPE_FLOAT32, FALSE);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_output_loss_new ("loss");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = make_numbers (ORTRAIN_DTYPE_FLOAT32, 61);
  const char *const trainable[] = { "w", NULL };
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_trainable (options, trainable);
  ortrain_training_options_set_seed (options, seed);
  ortrain_training_options_set_threads (options, threads);
  ortrain_tensor_dict_set (feeds, "x", x);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  for (guint s = 0; s < n_steps; s++)
    {
      losses[s] = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) all = ortrain_training_session_get_gradients (session, &error);
      g_assert_no_error (error);
      gradients[s] = ortrain_tensor_copy (ortrain_tensor_dict_get (all, "w"), &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      double sum = 0;
      gint64 kept = 0;
      for (gint64 i = 0; i < N; i++)
        {
          const double g = ortrain_tensor_get_scalar (gradients[s], i);
          sum += g;
          kept += g != 0;
          if (g != 0)
            g_assert_cmpfloat (g, ==, multiply (ORTRAIN_DTYPE_FLOAT32, ortrain_tensor_get_scalar (x, i), 1 / 0.75));
        }
      assert_binomial (kept, N, 0.75);
      /* rounding alone: without their signs the terms come to 48,000, and one more or less is 1/48 at least */
      g_assert_cmpfloat (fabs (losses[s] - sum), <=, 5e-3);
    }
}

static void
test_training (void)
{
  static const struct
  {
    guint64 seed;
    guint threads;
  } runs[] = { { 5, 1 }, { 5, 1 }, { 5, 3 }, { 6, 1 } };
  double losses[4][2];
  OrtrainTensor *gradients[4][2];
  for (guint i = 0; i < G_N_ELEMENTS (runs); i++)
    train (runs[i].seed, runs[i].threads, 2, losses[i], gradients[i]);
  for (guint s = 0; s < 2; s++)
    {
      g_assert_cmpfloat (losses[0][s], ==, losses[1][s]);
      g_assert_true (ortrain_tensor_equal (gradients[0][s], gradients[1][s]));
      g_assert_true (ortrain_tensor_equal (gradients[0][s], gradients[2][s]));
      g_assert_false (ortrain_tensor_equal (gradients[0][s], gradients[3][s]));
    }
  g_assert_false (ortrain_tensor_equal (gradients[0][0], gradients[0][1])); /* another mask in each step */
  for (guint i = 0; i < G_N_ELEMENTS (runs); i++)
    for (guint s = 0; s < 2; s++)
      g_object_unref (gradients[i][s]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  static const struct
  {
    const char *name;
    GTestDataFunc func;
  } tests[] = { { "draws", test_draws },
                { "near-one", test_near_one },
                { "nothing-dropped", test_nothing_dropped },
                { "fed", test_fed } };
  for (guint t = 0; t < G_N_ELEMENTS (tests); t++)
    for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
      {
        g_autofree char *path = g_strdup_printf ("/dropout/%s/%s", tests[t].name, ortrain_dtype_get_name (dtypes[i]));
        g_test_add_data_func (path, GINT_TO_POINTER (dtypes[i]), tests[t].func);
      }
  g_test_add_func ("/dropout/keys", test_keys);
  g_test_add_func ("/dropout/training", test_training);
  return g_test_run ();
}
