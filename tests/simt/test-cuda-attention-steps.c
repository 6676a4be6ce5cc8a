/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "simt/fake-cuda.h"

#include "core/ortrain-counters-private.h"
#include "memory/ortrain-memory-plan-private.h"
#include "memory/ortrain-planner-private.h"

#include <math.h>

/* Training of layers as exporters write those of BERT: queries, keys and values of products of their own, a mask of padding
 * that is fed, Dropout on probabilities. Heads are wide enough for cuDNN. */

#define N_TOKENS 61
#define WIDTH 32
#define N_HEADS 2
#define BATCH 3
#define LENGTH 24
#define N_LAYERS 2
#define N_STEPS 3

static OrtrainValue *
add (OrtrainGraphBuilder *b, const char *op_type, const char *const *inputs, const char *output, GVariant *attributes)
{
  const char *const outputs[] = { output, NULL };
  OrtrainValue *value = ortrain_graph_builder_add_op (b, op_type, NULL, inputs, outputs, attributes);
  g_assert_nonnull (value);
  return value;
}
#define IN(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NAME(part) g_strconcat (layer, part, NULL)

static void
add_ints (OrtrainGraphBuilder *b, const char *name, const gint64 *values, gint64 n)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (&n, 1, values, (gsize) n, NULL);
  g_assert_nonnull (ortrain_graph_builder_add_tensor (b, name, tensor));
}

static void
add_number (OrtrainGraphBuilder *b, const char *name, double value)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (NULL, 0, &(float){ (float) value }, 1, NULL);
  g_assert_nonnull (ortrain_graph_builder_add_tensor (b, name, tensor));
}

static OrtrainValue *
add_linear (OrtrainGraphBuilder *b, const char *x, const char *layer, const char *what, gint64 n_in, gint64 n_out)
{
  g_autofree char *weight = g_strconcat (layer, what, ".weight", NULL), *y = g_strconcat (layer, what, ".y", NULL);
  g_autofree char *bias = g_strconcat (layer, what, ".bias", NULL), *sum = g_strconcat (layer, what, ".sum", NULL);
  const gint64 dims[] = { n_in, n_out };
  ortrain_graph_builder_add_normal (b, weight, dims, 2, 0, 0.2);
  ortrain_graph_builder_add_filled (b, bias, &n_out, 1, 0.01);
  add (b, "MatMul", IN (x, weight), y, NULL);
  return add (b, "Add", IN (bias, y), sum, NULL);
}

static OrtrainValue *
add_attention (OrtrainGraphBuilder *b, const char *x, const char *layer, gboolean drops)
{
  static const char *const parts[] = { "q", "k", "v" };
  static const gint64 swap[] = { 0, 2, 1, 3 }, turn[] = { 0, 1, 3, 2 };
  OrtrainValue *of_heads[3];
  for (guint i = 0; i < 3; i++)
    {
      OrtrainValue *part = add_linear (b, x, layer, parts[i], WIDTH, WIDTH);
      g_autofree char *split = g_strconcat (layer, parts[i], ".heads", NULL);
      part = add (b, "Reshape", IN (ortrain_value_get_name (part), "shape.heads"), split, NULL);
      of_heads[i] = ortrain_graph_builder_transpose (b, part, swap, 4);
    }
  g_autofree char *scaled = NAME ("scaled"), *masked = NAME ("masked"), *dropped = NAME ("dropped"),
                  *joined = NAME ("joined");
  OrtrainValue *k = ortrain_graph_builder_transpose (b, of_heads[1], turn, 4);
  OrtrainValue *p = ortrain_graph_builder_binary (b, "MatMul", of_heads[0], k);
  p = add (b, "Div", IN (ortrain_value_get_name (p), "scale"), scaled, NULL);
  p = add (b, "Add", IN (ortrain_value_get_name (p), "padding"), masked, NULL);
  p = ortrain_graph_builder_softmax (b, p, -1);
  if (drops)
    p = add (b, "Dropout", IN (ortrain_value_get_name (p), "ratio"), dropped, NULL);
  OrtrainValue *y = ortrain_graph_builder_binary (b, "MatMul", p, of_heads[2]);
  y = ortrain_graph_builder_transpose (b, y, swap, 4);
  y = add (b, "Reshape", IN (ortrain_value_get_name (y), "shape.joined"), joined, NULL);
  return add_linear (b, ortrain_value_get_name (y), layer, "out", WIDTH, WIDTH);
}

/* ratio 0: without Dropout */
static OrtrainModel *
build_model (double ratio)
{
  static const gint64 tokens[] = { N_TOKENS, WIDTH };
  g_autoptr (OrtrainGraphBuilder) b = ortrain_graph_builder_new ("bert");
  ortrain_graph_builder_add_input (b, "input_ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  ortrain_graph_builder_add_input (b, "padding", ORTRAIN_DTYPE_FLOAT32, "batch, 1, 1, seq");
  add_ints (b, "shape.heads", (gint64[]){ 0, 0, N_HEADS, WIDTH / N_HEADS }, 4);
  add_ints (b, "shape.joined", (gint64[]){ 0, 0, WIDTH }, 3);
  add_number (b, "scale", sqrt ((double) WIDTH / N_HEADS));
  add_number (b, "ratio", ratio);
  ortrain_graph_builder_add_normal (b, "words", tokens, 2, 0, 0.5);
  OrtrainValue *x = add (b, "Gather", IN ("words", "input_ids"), "embedded", NULL);
  for (guint i = 0; i < N_LAYERS; i++)
    {
      g_autofree char *layer = g_strdup_printf ("layer.%u.", i), *norm = NAME ("norm"), *last = NAME ("last");
      OrtrainValue *y = add_attention (b, ortrain_value_get_name (x), layer, ratio > 0);
      x = ortrain_graph_builder_layer_norm (b, ortrain_graph_builder_add (b, y, x), norm);
      y = add_linear (b, ortrain_value_get_name (x), layer, "in", WIDTH, 2 * WIDTH);
      y = ortrain_graph_builder_gelu (b, y);
      y = add_linear (b, ortrain_value_get_name (y), layer, "back", 2 * WIDTH, WIDTH);
      x = ortrain_graph_builder_layer_norm (b, ortrain_graph_builder_add (b, y, x), last);
    }
  x = add_linear (b, ortrain_value_get_name (x), "", "head", WIDTH, N_TOKENS);
  ortrain_graph_builder_add_output (b, x, "logits");
  g_autoptr (GError) error = NULL;
  OrtrainModel *model = ortrain_graph_builder_build (b, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
make_feeds (guint seed)
{
  static const gint64 dims[] = { BATCH, LENGTH }, padding_dims[] = { BATCH, 1, 1, LENGTH };
  gint64 ids[BATCH * LENGTH], labels[BATCH * LENGTH];
  float padding[BATCH * LENGTH];
  for (guint i = 0; i < BATCH * LENGTH; i++)
    {
      ids[i] = (seed * 31 + i * i * 7 + i) % N_TOKENS;
      labels[i] = (ids[i] * 5 + 3) % N_TOKENS;
      padding[i] = i % LENGTH < LENGTH - 3 * (i / LENGTH) ? 0.0f : -3e38f;
    }
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_ints (dims, 2, ids, BATCH * LENGTH, NULL);
  g_autoptr (OrtrainTensor) b = ortrain_tensor_new_ints (dims, 2, labels, BATCH * LENGTH, NULL);
  g_autoptr (OrtrainTensor) c = ortrain_tensor_new_floats (padding_dims, 4, padding, BATCH * LENGTH, NULL);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "input_ids", a);
  ortrain_tensor_dict_set (feeds, "labels", b);
  ortrain_tensor_dict_set (feeds, "padding", c);
  return feeds;
}

typedef struct
{
  const char *provider, *disabled; /* pass */
  OrtrainPrecision precision;
  guint level;
  const char *frozen; /* pattern, or NULL */
} Setting;

typedef struct
{
  double losses[N_STEPS];
  gsize bytes;             /* planned */
  guint64 dnn_runs;        /* of the first step: later ones are CUDA graphs */
  guint n_reused, n_grads; /* gradients with y, and all */
} Result;

static void
count_gradients (OrtrainMemoryPlan *plan, Result *result)
{
  guint n_steps;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    if (g_str_equal (steps[s].node->op_type, "AttentionGrad"))
      {
        result->n_grads++;
        result->n_reused += steps[s].node->inputs->len > 9 && steps[s].node->inputs->pdata[9] != NULL;
      }
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, const Setting *setting)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  g_autoptr (OrtrainOptimizer) optimizer = g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", 1e-3, NULL);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_provider (options, setting->provider);
  ortrain_training_options_set_precision (options, setting->precision);
  ortrain_training_options_set_memory_opt_level (options, setting->level);
  if (setting->frozen != NULL)
    ortrain_training_options_set_frozen (options, IN (setting->frozen));
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static Result
train (OrtrainModel *model, const Setting *setting)
{
  Result result = { 0 };
  g_autoptr (GError) error = NULL;
  if (setting->disabled != NULL)
    g_setenv ("ORTRAIN_DISABLE_PASSES", setting->disabled, TRUE);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, setting);
  for (guint s = 0; s < N_STEPS; s++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (s);
      const guint64 before = ortrain_counters_get ("cuda", "dnn-runs");
      result.losses[s] = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      if (s == 0)
        result.dnn_runs = ortrain_counters_get ("cuda", "dnn-runs") - before;
    }
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  g_assert_true (ortrain_plan_verify (plan, &error));
  g_assert_no_error (error);
  result.bytes = ortrain_memory_plan_get_peak_bytes (plan);
  count_gradients (plan, &result);
  return result;
}

static void
compare_losses (const Result *a, const Result *b, double limit)
{
  for (guint s = 0; s < N_STEPS; s++)
    g_assert_cmpfloat_with_epsilon (a->losses[s], b->losses[s], limit * fabs (b->losses[s]));
}

/* The backward pass reads y of the forward pass, which is kept for the gradient of a weight, instead of computing it again. */
static void
test_reuse (gconstpointer data)
{
  const Setting with = { "cuda", NULL, ORTRAIN_PRECISION_BF16, GPOINTER_TO_UINT (data), NULL };
  const Setting without = { "cuda", "reuse-outputs", ORTRAIN_PRECISION_BF16, GPOINTER_TO_UINT (data), NULL };
  const Setting cpu = { "cpu", NULL, ORTRAIN_PRECISION_BF16, 0, NULL };
  g_autoptr (OrtrainModel) model = build_model (0);
  const Result a = train (model, &with), b = train (model, &without), c = train (model, &cpu);
  g_test_message ("%" G_GSIZE_FORMAT " bytes, %" G_GSIZE_FORMAT " without", a.bytes, b.bytes);
  g_assert_cmpuint (a.n_grads, ==, N_LAYERS);
  g_assert_cmpuint (a.n_reused, ==, N_LAYERS);
  g_assert_cmpuint (b.n_grads, ==, N_LAYERS);
  g_assert_cmpuint (b.n_reused, ==, 0);
  g_assert_cmpuint (a.dnn_runs, >=, 2 * N_LAYERS); /* more where a layer runs again */
  g_assert_cmpuint (b.dnn_runs - a.dnn_runs, ==, N_LAYERS);
  if (with.level == 0)
    g_assert_cmpuint (a.dnn_runs, ==, 2 * N_LAYERS);
  g_assert_cmpuint (a.bytes, <=, b.bytes);
  compare_losses (&a, &b, 1e-3);
  compare_losses (&a, &c, 2e-2);
}

/* Where nothing is gained by it, plans are what they were. */
static void
test_unused (void)
{
  static const Setting settings[] = {
    { "cuda", NULL, ORTRAIN_PRECISION_F32, 0, NULL },
    { "cpu", NULL, ORTRAIN_PRECISION_F32, 0, NULL },
    { "cpu", NULL, ORTRAIN_PRECISION_BF16, 1, NULL },
    { "cuda", NULL, ORTRAIN_PRECISION_BF16, 0, "*.out.weight" }, /* y is not kept */
  };
  g_autoptr (OrtrainModel) model = build_model (0);
  for (guint i = 0; i < G_N_ELEMENTS (settings); i++)
    {
      Setting without = settings[i];
      without.disabled = "reuse-outputs";
      const Result a = train (model, &settings[i]), b = train (model, &without);
      g_assert_cmpuint (a.n_grads, ==, N_LAYERS);
      g_assert_cmpuint (a.n_reused, ==, 0);
      g_assert_cmpuint (a.bytes, ==, b.bytes);
      for (guint s = 0; s < N_STEPS && !g_str_equal (settings[i].provider, "cuda"); s++)
        g_assert_cmpfloat (a.losses[s], ==, b.losses[s]);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint level = 0; level < 3; level++)
    {
      g_autofree char *path = g_strdup_printf ("/cuda-attention-steps/reuse/level-%u", level);
      g_test_add_data_func (path, GUINT_TO_POINTER (level), test_reuse);
    }
  g_test_add_func ("/cuda-attention-steps/unused", test_unused);
  return g_test_run ();
}
