/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/fixture.h"

#include "graph/ortrain-graph-private.h"
#include "plan/ortrain-memory-plan-private.h"

/* A vocabulary that is large compared with the rest of the model, trained with scores of a few rows at a time and with
 * all of them at once: the same numbers but for rounding, and less memory. */

enum
{
  N_WORDS = 32768,
  WIDTH = 8,
  BATCH = 4,
  N_STEPS = 2,
  LENGTH = 275, /* no multiple of the rows of a piece */
};

#define SCORES_BYTES ((gsize) BATCH * LENGTH * N_WORDS * sizeof (float))

typedef enum
{
  LOSS_OF_SESSION,  /* CrossEntropyLoss over the output `logits` */
  LOSS_LOG_SOFTMAX, /* in the model: LogSoftmax and NegativeLogLikelihoodLoss over [batch · length, words] */
  LOSS_FLAT,        /* in the model: SoftmaxCrossEntropyLoss over [batch · length, words] */
  LOSS_TURNED,      /* in the model: SoftmaxCrossEntropyLoss over [batch, words, length] */
  LOSS_IS_SQUARED,  /* … whose square is trained: the gradient of the loss needs the loss */
  LOSS_SCORES_READ, /* … and a mean of the scores besides */
} LossKind;

typedef struct
{
  const char *name;
  LossKind loss;
  gboolean tied, bias, weighted;
  double smoothing;
  guint n_ignored; /* of BATCH · LENGTH labels */
  guint micro;
  double clip, scale; /* of gradients; of the loss, 0: it is not scaled */
  gboolean immediate;
  const char *frozen;
  OrtrainPrecision precision;
  double tolerance; /* 0: 1e-6 */
  gboolean is_left; /* as it is */
} Case;

static OrtrainValue *
op (OrtrainGraphBuilder *builder, const char *op_type, const char *output, OrtrainValue *a, OrtrainValue *b,
    GVariant *attributes)
{
  const char *inputs[] = { ortrain_value_get_name (a), b != NULL ? ortrain_value_get_name (b) : NULL, NULL };
  const char *outputs[] = { output, NULL };
  return ortrain_graph_builder_add_op (builder, op_type, "", inputs, outputs, attributes);
}

static OrtrainModel *
make_model (const Case *test)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("words");
  const gint64 swap[] = { 1, 0 }, turn[] = { 0, 2, 1 }, flat[] = { -1, N_WORDS }, all = -1;
  const gint64 weight_dims[] = { N_WORDS, WIDTH }, bias_dims[] = { N_WORDS }, mix_dims[] = { WIDTH, WIDTH };
  ortrain_graph_builder_set_seed (builder, 5);
  OrtrainValue *ids = ortrain_graph_builder_add_input (builder, "ids", ORTRAIN_DTYPE_INT64, "batch, length");
  OrtrainValue *table = ortrain_graph_builder_add_normal (builder, "table", weight_dims, 2, 0, 0.5);
  OrtrainValue *weight =
      test->tied ? table : ortrain_graph_builder_add_normal (builder, "weight", weight_dims, 2, 0, 0.5);
  OrtrainValue *mix = ortrain_graph_builder_add_normal (builder, "mix", mix_dims, 2, 0, 0.5);
  OrtrainValue *x = op (builder, "MatMul", "x", op (builder, "Gather", "rows", table, ids, NULL), mix, NULL);
  x = op (builder, "Tanh", "tanh", x, NULL, NULL);
  OrtrainValue *logits =
      op (builder, "MatMul", "scores", x, ortrain_graph_builder_transpose (builder, weight, swap, 2), NULL);
  if (test->bias)
    logits = op (builder, "Add", "biased", ortrain_graph_builder_add_normal (builder, "bias", bias_dims, 1, 0, 0.5),
                 logits, NULL);
  if (test->loss == LOSS_OF_SESSION)
    {
      ortrain_graph_builder_add_output (builder, logits, "logits");
      OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
      g_assert_no_error (error);
      return model;
    }
  OrtrainValue *labels = ortrain_graph_builder_add_input (builder, "labels", ORTRAIN_DTYPE_INT64, "batch, length");
  OrtrainValue *scores = logits, *loss;
  if (test->loss == LOSS_TURNED)
    scores = ortrain_graph_builder_transpose (builder, logits, turn, 3);
  else
    {
      scores = ortrain_graph_builder_reshape (builder, logits, flat, 2);
      labels = ortrain_graph_builder_reshape (builder, labels, &all, 1);
    }
  if (test->loss == LOSS_LOG_SOFTMAX)
    {
      OrtrainValue *log_p =
          op (builder, "LogSoftmax", "log_p", scores, NULL, g_variant_new_parsed ("@a{sv} {'axis': <int64 -1>}"));
      loss = op (builder, "NegativeLogLikelihoodLoss", "ce", log_p, labels,
                 g_variant_new_parsed ("@a{sv} {'ignore_index': <int64 -100>}"));
    }
  else
    loss = op (builder, "SoftmaxCrossEntropyLoss", "ce", scores, labels,
               g_variant_new_parsed ("@a{sv} {'ignore_index': <int64 -100>}"));
  if (test->loss == LOSS_IS_SQUARED)
    loss = op (builder, "Mul", "squared", loss, loss, NULL);
  if (test->loss == LOSS_SCORES_READ)
    loss =
        op (builder, "Add", "both", loss,
            op (builder, "ReduceMean", "mean", logits, NULL, g_variant_new_parsed ("@a{sv} {'keepdims': <int64 0>}")),
            NULL);
  ortrain_graph_builder_add_output (builder, loss, "loss");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
make_feeds (const Case *test, guint step)
{
  const gint64 dims[] = { BATCH, LENGTH };
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (GRand) rand = g_rand_new_with_seed (17 + step);
  g_autoptr (OrtrainTensor) ids = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, NULL);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, NULL);
  gint64 *id = ortrain_tensor_peek_writable (ids), *label = ortrain_tensor_peek_writable (labels);
  for (guint i = 0; i < BATCH * LENGTH; i++)
    {
      id[i] = g_rand_int_range (rand, 0, N_WORDS);
      label[i] = g_rand_int_range (rand, 0, N_WORDS);
      if (g_rand_int_range (rand, 0, BATCH * LENGTH) < (gint) test->n_ignored)
        label[i] = -100;
    }
  ortrain_tensor_dict_set (feeds, "ids", ids);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  return feeds;
}

static OrtrainTrainingSession *
make_session (const Case *test, OrtrainModel *model, guint threads)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.5);
  g_auto (GStrv) frozen = g_strsplit (test->frozen != NULL ? test->frozen : "", ";", -1);
  g_autoptr (OrtrainLoss) loss = test->loss == LOSS_OF_SESSION ? ortrain_cross_entropy_loss_new ("logits", "labels")
                                                               : ortrain_output_loss_new ("loss");
  if (test->loss == LOSS_OF_SESSION)
    g_object_set (loss, "label-smoothing", test->smoothing, NULL);
  if (test->weighted)
    {
      const gint64 n = N_WORDS;
      g_autoptr (OrtrainTensor) weights = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, &n, 1, NULL);
      float *weight = ortrain_tensor_peek_writable (weights);
      for (guint i = 0; i < N_WORDS; i++)
        weight[i] = 0.5f + (float) (i % 7) * 0.25f;
      g_object_set (loss, "class-weights", weights, NULL);
    }
  if (test->scale > 0)
    {
      g_autoptr (OrtrainLossScaler) scaler =
          g_object_new (ORTRAIN_TYPE_LOSS_SCALER, "dynamic", FALSE, "initial-scale", test->scale, NULL);
      ortrain_training_options_set_loss_scaler (options, scaler);
    }
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_threads (options, threads);
  ortrain_training_options_set_deterministic (options, TRUE);
  ortrain_training_options_set_accumulation_steps (options, MAX (test->micro, 1));
  ortrain_training_options_set_max_grad_norm (options, test->clip);
  ortrain_training_options_set_immediate_updates (options, test->immediate ? ORTRAIN_IMMEDIATE_UPDATES_ON
                                                                           : ORTRAIN_IMMEDIATE_UPDATES_OFF);
  ortrain_training_options_set_precision (options, test->precision);
  if (test->frozen != NULL)
    ortrain_training_options_set_frozen (options, (const char *const *) frozen);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* Whether the scores of all rows are a value of the plan, or a workspace. */
static gboolean
has_all_scores (OrtrainMemoryPlan *plan)
{
  for (guint i = 0; i < plan->n_values; i++)
    if (plan->values[i].bytes >= SCORES_BYTES / 2)
      return TRUE;
  return FALSE;
}

typedef struct
{
  double losses[N_STEPS];
  OrtrainTensorDict *state;
  gsize arena;
  gboolean whole;
} Result;

static void
result_clear (Result *result)
{
  g_clear_object (&result->state);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Result, result_clear)

static Result
train (const Case *test, OrtrainModel *model, const char *disabled, guint threads)
{
  g_autoptr (GError) error = NULL;
  Result result = { 0 };
  g_setenv ("ORTRAIN_DISABLE_PASSES", disabled, TRUE);
  g_autoptr (OrtrainTrainingSession) session = make_session (test, model, threads);
  for (guint step = 0; step < N_STEPS; step++)
    {
      for (guint m = 0; m < MAX (test->micro, 1); m++)
        {
          g_autoptr (OrtrainTensorDict) feeds = make_feeds (test, step * 2 + m);
          result.losses[step] += ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
        }
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  result.arena = plan->arena_bytes;
  result.whole = has_all_scores (plan);
  g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  result.state = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (state); i++)
    {
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_copy (ortrain_tensor_dict_get_tensor (state, i), NULL);
      ortrain_tensor_dict_set (result.state, ortrain_tensor_dict_get_name (state, i), tensor);
    }
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  return result;
}

static void
assert_near (const Case *test, const Result *a, const Result *b)
{
  const double tolerance = test->tolerance > 0 ? test->tolerance : 1e-6;
  for (guint i = 0; i < G_N_ELEMENTS (a->losses); i++)
    g_assert_cmpfloat (fabs (a->losses[i] - b->losses[i]), <=, tolerance * fabs (b->losses[i]));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (b->state), >, 1);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (b->state); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (b->state, i);
      OrtrainTensor *expected = ortrain_tensor_dict_get_tensor (b->state, i);
      const double distance = test_distance (ortrain_tensor_dict_get (a->state, name), expected);
      if (!(distance <= tolerance))
        g_error ("'%s' is off by %g", name, distance);
    }
}

static const Case cases[] = {
  { "plain", LOSS_OF_SESSION },
  { "tied", LOSS_OF_SESSION, .tied = TRUE },
  { "bias", LOSS_OF_SESSION, .bias = TRUE, .smoothing = 0.1 },
  { "weights", LOSS_OF_SESSION, .tied = TRUE, .bias = TRUE, .weighted = TRUE, .smoothing = 0.2, .n_ignored = 300 },
  { "micro-batches", LOSS_OF_SESSION, .tied = TRUE, .bias = TRUE, .n_ignored = 100, .micro = 2 },
  { "clipped", LOSS_OF_SESSION, .bias = TRUE, .clip = 0.01 },
  { "scaled", LOSS_OF_SESSION, .tied = TRUE, .bias = TRUE, .scale = 1024 },
  { "immediate", LOSS_OF_SESSION, .bias = TRUE, .immediate = TRUE },
  { "immediate-tied", LOSS_OF_SESSION, .tied = TRUE, .bias = TRUE, .immediate = TRUE },
  { "frozen-weight", LOSS_OF_SESSION, .bias = TRUE, .frozen = "weight" },
  { "frozen-rest", LOSS_FLAT, .bias = TRUE, .frozen = "table;mix" },
  { "log-softmax", LOSS_LOG_SOFTMAX, .bias = TRUE, .n_ignored = 200 },
  { "flat", LOSS_FLAT, .tied = TRUE, .n_ignored = 200, .immediate = TRUE },
  { "turned", LOSS_TURNED, .bias = TRUE, .n_ignored = 200 },
  { "bf16", LOSS_OF_SESSION, .bias = TRUE, .tied = TRUE, .precision = ORTRAIN_PRECISION_BF16, .tolerance = 2e-3 },
  { "fp16", LOSS_FLAT, .bias = TRUE, .precision = ORTRAIN_PRECISION_FP16, .tolerance = 1e-3 },
  { "squared", LOSS_IS_SQUARED, .bias = TRUE, .is_left = TRUE },
  { "scores-read", LOSS_SCORES_READ, .is_left = TRUE },
};

static void
test_same (gconstpointer data)
{
  const Case *test = data;
  g_autoptr (OrtrainModel) model = make_model (test);
  g_auto (Result) with = train (test, model, "", 2);
  g_auto (Result) without = train (test, model, "fuse-classifier", 2);
  g_assert_true (without.whole);
  g_assert_cmpint (with.whole, ==, test->is_left);
  assert_near (test, &with, &without);
  if (test->is_left)
    g_assert_cmpuint (with.arena, ==, without.arena);
  else /* a quarter of the scores is left, in addition to small values */
    g_assert_cmpuint (with.arena, <,
                      without.arena - SCORES_BYTES / 8 * (test->precision == ORTRAIN_PRECISION_F32 ? 5 : 2));
}

/* All bits, at any number of threads. */
static void
test_threads (void)
{
  const Case test = { "threads", LOSS_OF_SESSION, .tied = TRUE, .bias = TRUE, .weighted = TRUE, .n_ignored = 100 };
  g_autoptr (OrtrainModel) model = make_model (&test);
  g_auto (Result) one = train (&test, model, "", 1);
  g_auto (Result) three = train (&test, model, "", 3);
  g_assert_cmpmem (one.losses, sizeof one.losses, three.losses, sizeof three.losses);
  test_assert_same_bits (one.state, three.state);
}

static OrtrainTensorDict *
copy_gradients (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
  OrtrainTensorDict *copy = ortrain_tensor_dict_new ();
  g_assert_no_error (error);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (gradients); i++)
    {
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_copy (ortrain_tensor_dict_get_tensor (gradients, i), NULL);
      ortrain_tensor_dict_set (copy, ortrain_tensor_dict_get_name (gradients, i), tensor);
    }
  return copy;
}

/* Where nothing counts, the loss is 0, and gradients do not change; nor do they after a label that is no class, which
 * is an error. */
static void
test_failed_step (gconstpointer data)
{
  const gboolean tied = GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  const Case test = { "failed", LOSS_OF_SESSION, .tied = tied, .bias = TRUE, .micro = 3 };
  const Case nothing = { "nothing", LOSS_OF_SESSION, .n_ignored = BATCH * LENGTH };
  g_autoptr (OrtrainModel) model = make_model (&test);
  g_autoptr (OrtrainTrainingSession) session = make_session (&test, model, 2);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (&test, 0), empty = make_feeds (&nothing, 1),
                                wrong = make_feeds (&test, 2);
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_false (has_all_scores (ortrain_training_session_get_memory_plan (session)));
  g_autoptr (OrtrainTensorDict) before = copy_gradients (session);
  g_assert_cmpfloat (ortrain_training_session_train_step (session, empty, &error), ==, 0);
  g_assert_no_error (error);
  ((gint64 *) ortrain_tensor_peek_writable (ortrain_tensor_dict_get (wrong, "labels")))[BATCH * LENGTH - 2] = N_WORDS;
  ortrain_training_session_train_step (session, wrong, &error);
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
  g_assert_nonnull (strstr (error->message, "32768"));
  g_assert_nonnull (strstr (error->message, "273")); /* its place in its row */
  g_assert_nonnull (strstr (error->message, "'logits' has 32768 classes"));
  g_clear_error (&error);
  g_autoptr (OrtrainTensorDict) after = copy_gradients (session);
  test_assert_same_bits (before, after);
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) twice = copy_gradients (session);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (before); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (before, i);
      const double one = test_norm (ortrain_tensor_dict_get_tensor (before, i));
      const double two = test_norm (ortrain_tensor_dict_get (twice, name));
      g_assert_cmpfloat (fabs (two - 2 * one), <=, 1e-6 * two);
    }
}

/* Few rows, or few classes: scores are no larger than the values that would replace them. */
static void
test_small_is_left (void)
{
  g_autoptr (GError) error = NULL;
  const Case test = { "small", LOSS_OF_SESSION };
  const gint64 dims[] = { 1, 300 };
  g_autoptr (OrtrainModel) model = make_model (&test);
  g_autoptr (OrtrainTrainingSession) session = make_session (&test, model, 2);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, &error);
  ortrain_tensor_dict_set (feeds, "ids", zeros);
  ortrain_tensor_dict_set (feeds, "labels", zeros);
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  const OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  gboolean found = FALSE;
  for (guint i = 0; i < plan->n_values; i++)
    found = found || plan->values[i].bytes == (gsize) dims[1] * N_WORDS * sizeof (float);
  g_assert_true (found);
}

/* Scores of 16 MiB, which are large compared with a small model: a piece of them takes 8 MiB. */
static void
test_moderate (void)
{
  g_autoptr (GError) error = NULL;
  const Case test = { "moderate", LOSS_OF_SESSION };
  const gint64 n_words = 4096, n_rows = 1024, weight_dims[] = { 32, n_words }, dims[] = { n_rows, 32 };
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("moderate");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "rows, 32");
  OrtrainValue *weight = ortrain_graph_builder_add_normal (builder, "weight", weight_dims, 2, 0, 0.5);
  ortrain_graph_builder_add_output (builder, op (builder, "MatMul", "scores", x, weight, NULL), "logits");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingSession) session = make_session (&test, model, 2);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, &error);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 1, &error);
  ortrain_tensor_dict_set (feeds, "x", zeros);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  const OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  gsize largest = 0;
  for (guint i = 0; i < plan->n_values; i++)
    largest = MAX (largest, plan->values[i].bytes);
  g_assert_cmpuint (largest, >=, (gsize) 256 * (gsize) n_words * sizeof (float)); /* rows of a piece, at least */
  g_assert_cmpuint (largest, <=, (8 << 20) + 32 * n_rows);                        /* and some numbers of each row */
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/transform/fuse-classifier/", cases[i].name, NULL);
      g_test_add_data_func (path, &cases[i], test_same);
    }
  g_test_add_func ("/transform/fuse-classifier/threads", test_threads);
  g_test_add_data_func ("/transform/fuse-classifier/failed-step", GINT_TO_POINTER (FALSE), test_failed_step);
  g_test_add_data_func ("/transform/fuse-classifier/failed-step-tied", GINT_TO_POINTER (TRUE), test_failed_step);
  g_test_add_func ("/transform/fuse-classifier/small-is-left", test_small_is_left);
  g_test_add_func ("/transform/fuse-classifier/moderate", test_moderate);
  return g_test_run ();
}
