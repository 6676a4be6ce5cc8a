/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "simt/exported-model.h"
#include "simt/fake-cuda.h"

#include "core/ortrain-counters-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-verifier-private.h"

#include "folder.h"

#include <math.h>

/* Training of layers as exporters write those of BERT: queries, keys and values of products of their own, a mask of
 * padding that is fed, Dropout on probabilities. Heads are wide enough for cuDNN. */

#define N_TOKENS 61
#define WIDTH 32
#define N_HEADS 2
#define BATCH 3
#define LENGTH 24
#define N_LAYERS 2
#define N_STEPS 3

#define NAME(part) g_strconcat (layer, part, NULL)

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

#define FED -1.0 /* the ratio is an input */

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
  if (ratio == FED)
    ortrain_graph_builder_add_input (b, "ratio", ORTRAIN_DTYPE_FLOAT32, "");
  else
    add_number (b, "ratio", ratio);
  ortrain_graph_builder_add_normal (b, "words", tokens, 2, 0, 0.5);
  OrtrainValue *x = add (b, "Gather", IN ("words", "input_ids"), "embedded", NULL);
  for (guint i = 0; i < N_LAYERS; i++)
    {
      g_autofree char *layer = g_strdup_printf ("layer.%u.", i), *norm = NAME ("norm"), *last = NAME ("last");
      OrtrainValue *y = add_attention (b, ortrain_value_get_name (x), layer, ratio != 0);
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
  if (ratio == FED)
    g_object_set_data (G_OBJECT (model), "fed", model);
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
  const char *provider, *disabled; /* passes in addition to pack-linear */
  OrtrainPrecision precision;
  guint level;
  const char *frozen; /* pattern, or NULL */
  guint64 seed;
  gboolean deterministic;
  gboolean packs;   /* one product for queries, keys and values, and one gradient of them; else three */
  double fed_ratio; /* where the model has such an input */
} Setting;

typedef struct
{
  double losses[N_STEPS];
  gsize bytes;             /* planned */
  guint64 dnn_runs;        /* of the first step: later ones are CUDA graphs */
  guint n_reused, n_grads; /* gradients with y, and all */
  guint n_packed;          /* of attention of one value */
} Result;

static void
count_gradients (OrtrainMemoryPlan *plan, Result *result)
{
  guint n_steps;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    if (g_str_equal (steps[s].node->op_type, "PackedAttentionGrad"))
      result->n_packed++;
    else if (g_str_equal (steps[s].node->op_type, "AttentionGrad"))
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
  ortrain_training_options_set_seed (options, setting->seed);
  ortrain_training_options_set_deterministic (options, setting->deterministic);
  if (setting->frozen != NULL)
    ortrain_training_options_set_frozen (options, IN (setting->frozen));
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTensorDict *
make_feeds_for (OrtrainModel *model, const Setting *setting, guint s)
{
  OrtrainTensorDict *feeds = make_feeds (s);
  g_autoptr (OrtrainTensor) ratio =
      ortrain_tensor_new_floats (NULL, 0, &(float){ (float) setting->fed_ratio }, 1, NULL);
  if (g_object_get_data (G_OBJECT (model), "fed") != NULL)
    ortrain_tensor_dict_set (feeds, "ratio", ratio);
  return feeds;
}

static Result
train (OrtrainModel *model, const Setting *setting)
{
  Result result = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *disabled =
      g_strjoin (",", setting->disabled != NULL ? setting->disabled : "", setting->packs ? NULL : "pack-linear", NULL);
  g_setenv ("ORTRAIN_DISABLE_PASSES", disabled, TRUE);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, setting);
  for (guint s = 0; s < N_STEPS; s++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_feeds_for (model, setting, s);
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

/* The backward pass reads y of the forward pass, which is kept for the gradient of a weight, instead of computing it
 * again. */
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

/* One product for queries, keys and values: with dropout and without, where layers run again, and where weights are
 * frozen. */
static void
test_packed (gconstpointer data)
{
  static const double ratios[] = { 0, 0.3 };
  static const char *const frozen[] = { NULL, "*.k.weight", "*.bias", "*.weight" };
  const OrtrainPrecision precision = GPOINTER_TO_UINT (data);
  const double limit = precision == ORTRAIN_PRECISION_F32 ? 1e-4 : 1e-3;
  for (guint r = 0; r < G_N_ELEMENTS (ratios); r++)
    {
      g_autoptr (OrtrainModel) model = build_model (ratios[r]);
      for (guint level = 0; level < 2; level++)
        for (guint f = 0; f < G_N_ELEMENTS (frozen); f++)
          {
            const Setting packs = { "cuda", NULL, precision, level, frozen[f], .seed = 3, .packs = TRUE };
            Setting apart = packs, cpu = packs;
            apart.packs = FALSE;
            cpu.provider = "cpu";
            const Result a = train (model, &packs), b = train (model, &apart), c = train (model, &cpu);
            const gboolean hoped = frozen[f] == NULL || g_str_equal (frozen[f], "*.bias");
            g_test_message ("%s, level %u: %" G_GSIZE_FORMAT " bytes, %" G_GSIZE_FORMAT " apart",
                            frozen[f] != NULL ? frozen[f] : "all", level, a.bytes, b.bytes);
            g_assert_cmpuint (a.n_packed, ==, hoped ? N_LAYERS : 0);
            g_assert_cmpuint (b.n_packed, ==, 0);
            g_assert_cmpuint (c.n_packed, ==, 0); /* the CPU has nothing of it */
            compare_losses (&a, &b, limit);
            compare_losses (&a, &c, precision == ORTRAIN_PRECISION_F32 ? 1e-4 : 2e-2);
          }
    }
}

/* Where nothing is gained by it, plans are the same as before. */
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

static double
measure_distance (const Result *a, const Result *b)
{
  double most = 0;
  for (guint s = 0; s < N_STEPS; s++)
    most = MAX (most, fabs (a->losses[s] - b->losses[s]));
  return most;
}

/* On tensor cores, dropout keeps the same elements as on the CPU, whatever runs again, and in the order of keys too. */
static void
test_dropout (gconstpointer data)
{
  const Setting cuda = { "cuda", NULL, ORTRAIN_PRECISION_BF16, GPOINTER_TO_UINT (data), NULL, .seed = 3 };
  Setting base = cuda, cpu = cuda, other = cuda, without = cuda, ordered = cuda;
  base.level = 0;
  cpu.provider = "cpu";
  other.seed = 4;
  without.disabled = "reuse-outputs";
  ordered.deterministic = TRUE;
  g_autoptr (OrtrainModel) model = build_model (0.3);
  const Result a = train (model, &cuda), b = train (model, &base), c = train (model, &cpu), d = train (model, &other);
  const Result e = train (model, &without), f = train (model, &ordered);
  g_assert_cmpuint (a.n_grads, ==, N_LAYERS);
  g_assert_cmpuint (a.n_reused, ==, N_LAYERS);
  g_assert_cmpuint (a.dnn_runs, >=, 2 * N_LAYERS);
  g_assert_cmpuint (b.dnn_runs, ==, 2 * N_LAYERS);
  g_assert_cmpuint (e.dnn_runs - a.dnn_runs, ==, N_LAYERS);
  g_assert_cmpuint (f.dnn_runs, ==, a.dnn_runs);
  compare_losses (&a, &b, 1e-3);
  compare_losses (&a, &e, 1e-3);
  compare_losses (&a, &f, 1e-3);
  compare_losses (&a, &c, 1e-2);
  g_test_message ("losses differ by %.2g from the CPU's, with another seed by %.2g", measure_distance (&a, &c),
                  measure_distance (&a, &d));
  g_assert_cmpfloat (measure_distance (&a, &d), >, 4 * measure_distance (&a, &c));
}

/* A ratio that is fed, like the same number in the file; 0, like no Dropout. */
static void
test_fed_ratio (void)
{
  Setting setting = { "cuda", NULL, ORTRAIN_PRECISION_BF16, 0, NULL, .deterministic = TRUE, .fed_ratio = 0.3 };
  g_autoptr (OrtrainModel) fed = build_model (FED), constant = build_model (0.3), plain = build_model (0);
  const Result a = train (fed, &setting), b = train (constant, &setting), c = train (plain, &setting);
  setting.fed_ratio = 0;
  const Result d = train (fed, &setting);
  g_assert_cmpuint (a.dnn_runs, ==, 2 * N_LAYERS);
  for (guint s = 0; s < N_STEPS; s++)
    {
      g_assert_cmpfloat (a.losses[s], ==, b.losses[s]);
      g_assert_cmpfloat (d.losses[s], ==, c.losses[s]);
      g_assert_cmpfloat (a.losses[s], !=, d.losses[s]);
    }
}

/* Training that goes on from a checkpoint keeps the same elements as the training that wrote it would have kept; each
 * step keeps others. */
static void
test_resumed (void)
{
  const Setting setting = { "cuda", NULL, ORTRAIN_PRECISION_BF16, 0, NULL, .seed = 7, .deterministic = TRUE };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = build_model (0.3);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-attention-XXXXXX", &error);
  g_assert_no_error (error);
  g_autofree char *path = g_build_filename (folder, "checkpoint", NULL);
  g_autoptr (OrtrainTrainingSession) first = make_session (model, &setting), second = make_session (model, &setting);
  for (guint s = 0; s < 2; s++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (s);
      ortrain_training_session_train_step (first, feeds, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (first, &error));
    }
  g_assert_true (ortrain_training_session_save_checkpoint (first, path, &error));
  g_assert_true (ortrain_training_session_load_checkpoint (second, path, &error));
  double losses[2][2];
  for (guint s = 0; s < 2; s++) /* twice the same feeds and parameters */
    for (guint i = 0; i < 2; i++)
      {
        g_autoptr (OrtrainTensorDict) feeds = make_feeds (2);
        losses[i][s] = ortrain_training_session_train_step (i == 0 ? first : second, feeds, &error);
        g_assert_no_error (error);
      }
  for (guint s = 0; s < 2; s++)
    g_assert_cmpfloat (losses[0][s], ==, losses[1][s]);
  g_assert_cmpfloat (losses[0][0], !=, losses[0][1]);
  test_remove_folder (folder);
}

/* Outside of training nothing is dropped. */
static void
test_evaluated (void)
{
  const Setting setting = { "cuda", NULL, ORTRAIN_PRECISION_BF16, 0, NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = build_model (0.3), plain = build_model (0);
  g_autoptr (OrtrainTrainingSession) a = make_session (model, &setting), b = make_session (plain, &setting);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (0);
  g_autoptr (OrtrainTensorDict) x = ortrain_training_session_eval_step (a, feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) y = ortrain_training_session_eval_step (b, feeds, &error);
  g_assert_no_error (error);
  OrtrainTensor *logits = ortrain_tensor_dict_get (x, "logits"), *same = ortrain_tensor_dict_get (y, "logits");
  g_assert_cmpmem (ortrain_tensor_peek (logits), ortrain_tensor_get_n_bytes (logits), ortrain_tensor_peek (same),
                   ortrain_tensor_get_n_bytes (same));
}

/* A process of its own for each part: plans that another one has compiled are in files alone. */
static void
run_part (const char *part)
{
  g_setenv ("ORTRAIN_TEST_PART", part, TRUE);
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
  g_unsetenv ("ORTRAIN_TEST_PART");
}

/* A second session of the process makes no plans. */
static void
train_part (const char *part)
{
  const gboolean compiles = !g_str_equal (part, "restores");
  const Setting setting = { "cuda", NULL, ORTRAIN_PRECISION_BF16, 0, NULL, .deterministic = TRUE };
  g_autoptr (OrtrainModel) model = build_model (0);
  g_autofree char *path = g_build_filename (g_getenv ("ORTRAIN_CACHE"), "losses", NULL), *kept = NULL;
  const Result first = train (model, &setting);
  const guint64 n_compiled = ortrain_counters_get ("cuda", "dnn-plans-compiled");
  const guint64 n_restored = ortrain_counters_get ("cuda", "dnn-plans-restored");
  const Result second = train (model, &setting);
  g_assert_cmpuint (first.dnn_runs, >, 0);
  g_assert_cmpmem (first.losses, sizeof first.losses, second.losses, sizeof second.losses);
  g_assert_cmpuint (ortrain_counters_get ("cuda", "dnn-plans-compiled"), ==, n_compiled);
  g_assert_cmpuint (ortrain_counters_get ("cuda", "dnn-plans-restored"), ==, n_restored);
  g_assert_cmpuint (n_compiled, ==, compiles ? 2 : 0); /* forward and backward, the same in all layers */
  g_assert_cmpuint (n_restored, ==, compiles ? 0 : 2);
  g_assert_cmpuint (ortrain_fake_cuda_count_launches ("dnn-compilations"), ==, n_compiled);
  g_assert_cmpuint (ortrain_fake_cuda_count_launches ("dnn-restored"), ==, n_restored);
  g_assert_cmpuint (ortrain_fake_cuda_count_launches ("dnn-not-restored"), ==, g_str_equal (part, "refuses") ? 2 : 0);
  if (g_file_get_contents (path, &kept, NULL, NULL))
    g_assert_cmpmem (kept, sizeof first.losses, first.losses, sizeof first.losses);
  else
    g_assert_true (g_file_set_contents (path, (const char *) first.losses, sizeof first.losses, NULL));
}

static void
damage (const char *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  for (const char *name; (name = g_dir_read_name (dir)) != NULL;)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL), *contents = NULL;
      gsize n;
      if (g_str_equal (name, "losses"))
        continue;
      g_assert_true (g_file_get_contents (path, &contents, &n, NULL));
      contents[n / 2] ^= 1;
      g_assert_true (g_file_set_contents (path, contents, (gssize) n, NULL));
    }
}

/* Plans that cuDNN has compiled are not compiled again by a second process, whose losses are the same. A plan that is
 * damaged, of another version of the library or of another device, or refused, is compiled again, and kept anew. */
static void
test_compiled (void)
{
  const Setting setting = { "cuda", NULL, ORTRAIN_PRECISION_F32, 0, NULL };
  const char *part = g_getenv ("ORTRAIN_TEST_PART");
  g_autoptr (GError) error = NULL;
  if (part != NULL)
    {
      train_part (part);
      return;
    }
  g_autoptr (OrtrainModel) model = build_model (0);
  g_object_unref (make_session (model, &setting)); /* opens the provider, which tells */
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("it needs two versions of cuDNN, which only the emulated one has");
      return;
    }
  g_autofree char *folder = g_dir_make_tmp ("ortrain-plans-XXXXXX", &error);
  g_assert_no_error (error);
  g_setenv ("ORTRAIN_CACHE", folder, TRUE);
  run_part ("compiles");
  run_part ("restores");
  g_setenv ("ORTRAIN_FAKE_CUDNN_VERSION", "92000", TRUE);
  run_part ("compiles");
  run_part ("restores");
  g_unsetenv ("ORTRAIN_FAKE_CUDNN_VERSION");
  run_part ("restores"); /* those of the other version are still there */
  g_setenv ("ORTRAIN_FAKE_CUDA_MODEL", "a100", TRUE);
  run_part ("compiles");
  g_unsetenv ("ORTRAIN_FAKE_CUDA_MODEL");
  g_setenv ("ORTRAIN_FAKE_CUDNN_FOREIGN", "1", TRUE);
  run_part ("refuses");
  g_unsetenv ("ORTRAIN_FAKE_CUDNN_FOREIGN");
  run_part ("restores");
  damage (folder);
  run_part ("compiles");
  run_part ("restores");
  g_setenv ("ORTRAIN_CACHE", "off", TRUE);
  test_remove_folder (folder);
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
  g_test_add_data_func ("/cuda-attention-steps/packed/float32", GUINT_TO_POINTER (ORTRAIN_PRECISION_F32), test_packed);
  g_test_add_data_func ("/cuda-attention-steps/packed/bfloat16", GUINT_TO_POINTER (ORTRAIN_PRECISION_BF16),
                        test_packed);
  g_test_add_func ("/cuda-attention-steps/unused", test_unused);
  for (guint level = 0; level < 3; level++)
    {
      g_autofree char *path = g_strdup_printf ("/cuda-attention-steps/dropout/level-%u", level);
      g_test_add_data_func (path, GUINT_TO_POINTER (level), test_dropout);
    }
  g_test_add_func ("/cuda-attention-steps/fed-ratio", test_fed_ratio);
  g_test_add_func ("/cuda-attention-steps/resumed", test_resumed);
  g_test_add_func ("/cuda-attention-steps/evaluated", test_evaluated);
  g_test_add_func ("/cuda-attention-steps/compiled", test_compiled);
  return g_test_run ();
}
