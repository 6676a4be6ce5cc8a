/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "simt/exported-model.h"
#include "simt/fake-cuda.h"

#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-tables-private.h"

#include <math.h>
#include <string.h>

/* How many launches a layer of GPT-2 costs: a model is trained with two layers and with three, and the launches that
 * the third one adds are counted, phase by phase. Fills, and copies within the device, count too. And that an update is
 * one launch, whatever the number of parameters. */

#define N_TOKENS 67
#define N_POSITIONS 24
#define WIDTH 32
#define N_HEADS 2
#define BATCH 2
#define LENGTH 24

/* ---- the model as PyTorch's exporter writes that of transformers ---- */

/* Weights are [n_out, n_in], and a Transpose reads them, as newer exporters write them. */
static gboolean is_transposed;

/* x [batch, seq, n_in] · wᵀ + b */
static OrtrainValue *
add_transposed (OrtrainGraphBuilder *b, OrtrainValue *x, const char *layer, const char *what, gint64 n_in, gint64 n_out)
{
  static const gint64 swap[] = { 1, 0 };
  g_autofree char *weight = g_strconcat (layer, what, ".weight", NULL), *y = g_strconcat (layer, what, ".y", NULL);
  g_autofree char *bias = g_strconcat (layer, what, ".bias", NULL), *sum = g_strconcat (layer, what, ".sum", NULL);
  const gint64 dims[] = { n_out, n_in };
  OrtrainValue *w =
      ortrain_graph_builder_transpose (b, ortrain_graph_builder_add_normal (b, weight, dims, 2, 0, 0.1), swap, 2);
  ortrain_graph_builder_add_filled (b, bias, &n_out, 1, 0.01);
  add (b, "MatMul", IN (ortrain_value_get_name (x), ortrain_value_get_name (w)), y, NULL);
  return add (b, "Add", IN (y, bias), sum, NULL);
}

/* x [batch, seq, n_in] as rows, Gemm, and back */
static OrtrainValue *
add_linear (OrtrainGraphBuilder *b, OrtrainValue *x, const char *layer, const char *what, gint64 n_in, gint64 n_out)
{
  if (is_transposed)
    return add_transposed (b, x, layer, what, n_in, n_out);
  g_autofree char *rows = g_strconcat (layer, what, ".rows", NULL), *y = g_strconcat (layer, what, ".y", NULL);
  g_autofree char *weight = g_strconcat (layer, what, ".weight", NULL),
                  *bias = g_strconcat (layer, what, ".bias", NULL);
  g_autofree char *shape = g_strdup_printf ("shape.%d", (int) n_in), *back = g_strdup_printf ("back.%d", (int) n_out);
  const gint64 dims[] = { n_in, n_out };
  ortrain_graph_builder_add_normal (b, weight, dims, 2, 0, 0.1);
  ortrain_graph_builder_add_filled (b, bias, &n_out, 1, 0.01);
  add (b, "Reshape", IN (ortrain_value_get_name (x), shape), rows, NULL);
  add (b, "Gemm", IN (rows, weight, bias), y, NULL);
  g_autofree char *whole = g_strconcat (layer, what, ".whole", NULL);
  return add (b, "Reshape", IN (y, back), whole, NULL);
}

static OrtrainValue *
add_heads (OrtrainGraphBuilder *b, const char *part)
{
  g_autofree char *split = g_strconcat (part, ".heads", NULL);
  OrtrainValue *value = add (b, "Reshape", IN (part, "shape.heads"), split, NULL);
  static const gint64 swap[] = { 0, 2, 1, 3 };
  return ortrain_graph_builder_transpose (b, value, swap, 4);
}

static OrtrainValue *
add_attention (OrtrainGraphBuilder *b, OrtrainValue *x, const char *layer)
{
  static const char *const parts[] = { "q", "k", "v" };
  static const gint64 swap[] = { 0, 2, 1, 3 }, turn[] = { 0, 1, 3, 2 };
  char *names[4] = { NULL };
  OrtrainValue *of_heads[3];
  x = add_linear (b, x, layer, "attn.c_attn", WIDTH, 3 * WIDTH);
  for (guint i = 0; i < 3; i++)
    names[i] = g_strconcat (layer, parts[i], NULL);
  GVariantBuilder builder;
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "axis", g_variant_new_int64 (2));
  g_variant_builder_add (&builder, "{sv}", "num_outputs", g_variant_new_int64 (3));
  ortrain_graph_builder_add_op (b, "Split", NULL, IN (ortrain_value_get_name (x)), (const char *const *) names,
                                g_variant_builder_end (&builder));
  for (guint i = 0; i < 3; i++)
    of_heads[i] = add_heads (b, names[i]);
  for (guint i = 0; i < 3; i++)
    g_free (names[i]);
  g_autofree char *scaled = g_strconcat (layer, "q.scaled", NULL), *masked = g_strconcat (layer, "masked", NULL);
  g_autofree char *keys = g_strconcat (layer, "k.scaled", NULL), *nan = g_strconcat (layer, "nan", NULL);
  g_autofree char *seen = g_strconcat (layer, "seen", NULL), *joined = g_strconcat (layer, "joined", NULL);
  OrtrainValue *k = ortrain_graph_builder_transpose (b, of_heads[1], turn, 4);
  OrtrainValue *q = add (b, "Mul", IN (ortrain_value_get_name (of_heads[0]), "scale"), scaled, NULL);
  k = add (b, "Mul", IN (ortrain_value_get_name (k), "scale"), keys, NULL);
  OrtrainValue *scores = ortrain_graph_builder_binary (b, "MatMul", q, k);
  scores = add (b, "Add", IN (ortrain_value_get_name (scores), "mask"), masked, NULL);
  OrtrainValue *p = ortrain_graph_builder_softmax (b, scores, -1);
  add (b, "IsNaN", IN (ortrain_value_get_name (p)), nan, NULL);
  p = add (b, "Where", IN (nan, "zero", ortrain_value_get_name (p)), seen, NULL);
  OrtrainValue *y = ortrain_graph_builder_binary (b, "MatMul", p, of_heads[2]);
  y = ortrain_graph_builder_transpose (b, y, swap, 4);
  y = add (b, "Reshape", IN (ortrain_value_get_name (y), "back.32"), joined, NULL);
  return add_linear (b, y, layer, "attn.c_proj", WIDTH, WIDTH);
}

/* 0.5 · x · (1 + tanh (√(2/π) · (x + 0.044715 · x³))) */
static OrtrainValue *
add_gelu (OrtrainGraphBuilder *b, OrtrainValue *x, const char *layer)
{
  const char *at = ortrain_value_get_name (x);
  char *t[8];
  for (guint i = 0; i < 8; i++)
    t[i] = g_strdup_printf ("%sgelu.%u", layer, i);
  add (b, "Mul", IN (at, "half"), t[0], NULL);
  add (b, "Pow", IN (at, "three"), t[1], NULL);
  add (b, "Mul", IN (t[1], "small"), t[2], NULL);
  add (b, "Add", IN (at, t[2]), t[3], NULL);
  add (b, "Mul", IN (t[3], "root"), t[4], NULL);
  add (b, "Tanh", IN (t[4]), t[5], NULL);
  add (b, "Add", IN (t[5], "one"), t[6], NULL);
  OrtrainValue *y = add (b, "Mul", IN (t[0], t[6]), t[7], NULL);
  for (guint i = 0; i < 8; i++)
    g_free (t[i]);
  return y;
}

static OrtrainGraphBuilder *
build_exported (guint n_layers)
{
  static const gint64 tokens[] = { N_TOKENS, WIDTH }, positions[] = { N_POSITIONS, WIDTH };
  static const gint64 mask_dims[] = { 1, 1, LENGTH, LENGTH };
  OrtrainGraphBuilder *b = ortrain_graph_builder_new ("exported");
  ortrain_graph_builder_add_input (b, "input_ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  add_ints (b, "shape.32", (gint64[]){ -1, WIDTH }, 2);
  add_ints (b, "shape.128", (gint64[]){ -1, 4 * WIDTH }, 2);
  add_ints (b, "shape.heads", (gint64[]){ BATCH, LENGTH, -1, WIDTH / N_HEADS }, 4);
  add_ints (b, "back.32", (gint64[]){ BATCH, LENGTH, WIDTH }, 3);
  add_ints (b, "back.96", (gint64[]){ BATCH, LENGTH, 3 * WIDTH }, 3);
  add_ints (b, "back.128", (gint64[]){ BATCH, LENGTH, 4 * WIDTH }, 3);
  add_number (b, "scale", 1 / sqrt (sqrt ((double) WIDTH / N_HEADS)));
  add_number (b, "zero", 0);
  add_number (b, "half", 0.5);
  add_number (b, "one", 1);
  add_number (b, "three", 3);
  add_number (b, "small", 0.044715);
  add_number (b, "root", sqrt (2 / G_PI));
  float triangle[LENGTH * LENGTH];
  for (guint i = 0; i < LENGTH * LENGTH; i++)
    triangle[i] = i % LENGTH > i / LENGTH ? -INFINITY : 0.0f;
  g_autoptr (OrtrainTensor) mask = ortrain_tensor_new_floats (mask_dims, 4, triangle, LENGTH * LENGTH, NULL);
  ortrain_graph_builder_add_tensor (b, "mask", mask);
  ortrain_graph_builder_add_normal (b, "wte", tokens, 2, 0, 0.1);
  ortrain_graph_builder_add_normal (b, "wpe", positions, 2, 0, 0.1);
  gint64 numbers[LENGTH];
  for (guint i = 0; i < LENGTH; i++)
    numbers[i] = i;
  add_ints (b, "positions", numbers, LENGTH);
  add (b, "Gather", IN ("wte", "input_ids"), "of_tokens", NULL);
  add (b, "Gather", IN ("wpe", "positions"), "of_positions", NULL);
  OrtrainValue *x = add (b, "Add", IN ("of_tokens", "of_positions"), "embedded", NULL);
  for (guint i = 0; i < n_layers; i++)
    {
      g_autofree char *layer = g_strdup_printf ("h.%u.", i), *ln1 = g_strconcat (layer, "ln_1", NULL);
      g_autofree char *ln2 = g_strconcat (layer, "ln_2", NULL);
      OrtrainValue *y = add_attention (b, ortrain_graph_builder_layer_norm (b, x, ln1), layer);
      x = ortrain_graph_builder_add (b, y, x);
      y = add_linear (b, ortrain_graph_builder_layer_norm (b, x, ln2), layer, "mlp.c_fc", WIDTH, 4 * WIDTH);
      y = add_linear (b, add_gelu (b, y, layer), layer, "mlp.c_proj", 4 * WIDTH, WIDTH);
      x = ortrain_graph_builder_add (b, x, y);
    }
  x = ortrain_graph_builder_layer_norm (b, x, "ln_f");
  static const gint64 swap[] = { 1, 0 };
  OrtrainValue *head = ortrain_graph_builder_transpose (
      b, ortrain_graph_find_value (ortrain_graph_builder_get_graph (b), "wte"), swap, 2);
  ortrain_graph_builder_add_output (b, ortrain_graph_builder_binary (b, "MatMul", x, head), "logits");
  return b;
}

static OrtrainGraphBuilder *
build_transposed (guint n_layers)
{
  is_transposed = TRUE;
  OrtrainGraphBuilder *b = build_exported (n_layers);
  is_transposed = FALSE;
  return b;
}

static OrtrainGraphBuilder *
build_plain (guint n_layers)
{
  return ortrain_graph_builder_new_gpt ("gpt", N_TOKENS, N_POSITIONS, WIDTH, n_layers, N_HEADS, 1);
}

/* ---- training ---- */

static OrtrainTrainingOptions *
make_options (OrtrainOptimizer *optimizer, const char *provider, OrtrainPrecision precision)
{
  OrtrainTrainingOptions *options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_provider (options, provider);
  ortrain_training_options_set_precision (options, precision);
  return options;
}

static OrtrainTrainingSession *
make_session (OrtrainGraphBuilder *builder, const char *provider, OrtrainPrecision precision, guint n_steps)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainOptimizer) optimizer = g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", 1e-3, NULL);
  g_autoptr (OrtrainTrainingOptions) options = make_options (optimizer, provider, precision);
  ortrain_training_options_set_accumulation_steps (options, n_steps);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTensorDict *
make_feeds (guint seed)
{
  static const gint64 dims[] = { BATCH, LENGTH };
  gint64 ids[BATCH * LENGTH], labels[BATCH * LENGTH];
  for (guint i = 0; i < BATCH * LENGTH; i++)
    {
      ids[i] = (seed * 31 + i * i * 7 + i) % N_TOKENS;
      labels[i] = (ids[i] * 5 + 3) % N_TOKENS;
    }
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_ints (dims, 2, ids, BATCH * LENGTH, NULL);
  g_autoptr (OrtrainTensor) b = ortrain_tensor_new_ints (dims, 2, labels, BATCH * LENGTH, NULL);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "input_ids", a);
  ortrain_tensor_dict_set (feeds, "labels", b);
  return feeds;
}

#define TRACE_BYTES 65536

typedef struct
{
  char forward[TRACE_BYTES], backward[TRACE_BYTES], *steps;
} Traces;

static void
traces_free (Traces *traces)
{
  g_free (traces->steps);
  g_free (traces);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Traces, traces_free)

static void
begin_forward (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Traces *traces)
{
  traces->forward[0] = traces->backward[0] = '\0';
  ortrain_fake_cuda_trace (traces->forward, TRACE_BYTES);
}

static void
begin_backward (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Traces *traces)
{
  ortrain_fake_cuda_trace (traces->backward, TRACE_BYTES);
}

static void
end (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Traces *traces)
{
  ortrain_fake_cuda_trace (NULL, 0);
}

typedef OrtrainGraphBuilder *(*BuildFunc) (guint n_layers);

/* Nodes, with the types and shapes of their operands. */
static char *
list_steps (OrtrainTrainingSession *session)
{
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  GString *text = g_string_new (NULL);
  guint n_steps;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    {
      const OrtrainNode *node = steps[s].node;
      g_string_append_printf (text, "%d %s", (int) steps[s].phase, node->op_type);
      for (guint i = 0; i < node->inputs->len + node->outputs->len; i++)
        {
          const OrtrainValue *value =
              i < node->inputs->len ? node->inputs->pdata[i] : node->outputs->pdata[i - node->inputs->len];
          g_autofree char *what = value != NULL ? ortrain_value_describe (value) : g_strdup ("-");
          g_string_append_printf (text, "%s %s", i == node->inputs->len ? " →" : "", what);
        }
      g_string_append_c (text, '\n');
    }
  return g_string_free (text, FALSE);
}

/* The launches of a step that has been planned. Its losses are those of the host. */
static Traces *
trace (BuildFunc build, guint n_layers, OrtrainPrecision precision)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = build (n_layers);
  g_autoptr (OrtrainTrainingSession) session = make_session (builder, "cuda", precision, 2);
  g_autoptr (OrtrainTrainingSession) host = make_session (builder, "cpu", precision, 2);
  Traces *traces = g_new0 (Traces, 1);
  g_signal_connect (session, "pre-forward", G_CALLBACK (begin_forward), traces);
  g_signal_connect (session, "post-forward", G_CALLBACK (end), traces);
  g_signal_connect (session, "pre-backward", G_CALLBACK (begin_backward), traces);
  g_signal_connect (session, "post-backward", G_CALLBACK (end), traces);
  for (guint s = 0; s < 4; s++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (s);
      const double loss = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      const double expected = ortrain_training_session_train_step (host, feeds, &error);
      g_assert_no_error (error);
      const double limit = precision != ORTRAIN_PRECISION_F32 ? 2e-2 : ortrain_fake_cuda_is_in_use () ? 1e-5 : 1e-4;
      g_assert_cmpfloat_with_epsilon (loss, expected, limit * fabs (expected));
      if (s % 2 == 0) /* gradients are added to those of the step before */
        continue;
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_assert_true (ortrain_training_session_optimizer_step (host, &error));
    }
  traces->steps = list_steps (session);
  return traces;
}

static guint
count (const char *text)
{
  guint n = 0;
  for (; *text != '\0'; text++)
    n += *text == '\n';
  return n;
}

static void
show (const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    g_test_message ("  %u: %s", i, lines[i]);
}

static guint
compare (const char *phase, const char *two, const char *three, guint most)
{
  const guint n = count (three) - count (two);
  g_test_message ("%s: %u launches a layer", phase, n);
  if (n > most)
    show (three);
  return n;
}

typedef struct
{
  const char *path;
  BuildFunc build;
  OrtrainPrecision precision;
  guint most_forward, most_backward;
} Case;

/* GPT-2 has Gelu with tanh, which cuBLASLt computes with the product. The builder's is exact, which it cannot: a launch
 * of its own, and one more where it is computed again for its gradient. */
static const Case cases[] = {
  { "/cuda-launches/gpt2/float32", build_exported, ORTRAIN_PRECISION_F32, 7, 13 },
  { "/cuda-launches/gpt2/bfloat16", build_exported, ORTRAIN_PRECISION_BF16, 7, 13 },
  { "/cuda-launches/gpt2-transposed/float32", build_transposed, ORTRAIN_PRECISION_F32, 7, 13 },
  { "/cuda-launches/gpt2-transposed/bfloat16", build_transposed, ORTRAIN_PRECISION_BF16, 7, 13 },
  { "/cuda-launches/exact-gelu/float32", build_plain, ORTRAIN_PRECISION_F32, 8, 14 },
  { "/cuda-launches/exact-gelu/bfloat16", build_plain, ORTRAIN_PRECISION_BF16, 8, 13 },
};

static void
test_layer (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (Traces) two = trace (c->build, 2, c->precision), three = trace (c->build, 3, c->precision);
  const guint n_forward = compare ("forward", two->forward, three->forward, c->most_forward);
  const guint n_backward = compare ("backward", two->backward, three->backward, c->most_backward);
  if (n_forward > c->most_forward || n_backward > c->most_backward)
    show (three->steps);
  g_assert_cmpuint (n_forward, <=, c->most_forward);
  g_assert_cmpuint (n_backward, <=, c->most_backward);
}

/* ---- updates ---- */

typedef struct
{
  const char *path;
  GType (*get_type) (void);
  OrtrainStatePrecision state;
  OrtrainPrecision precision;
  double max_norm;
  guint n_layers;
  guint n_tensors; /* at least */
  guint n_updates; /* launches: one for each kind of types, and for each 400 tensors */
} UpdateCase;

static const UpdateCase update_cases[] = {
  { "sgd", ortrain_sgd_get_type, ORTRAIN_STATE_PRECISION_F32, ORTRAIN_PRECISION_F32, 1, 3, 40, 1 },
  { "adam", ortrain_adam_get_type, ORTRAIN_STATE_PRECISION_F32, ORTRAIN_PRECISION_F32, 0, 3, 40, 1 },
  { "adamw", ortrain_adamw_get_type, ORTRAIN_STATE_PRECISION_F32, ORTRAIN_PRECISION_BF16, 1, 9, 100, 1 },
  { "adamw-8bit", ortrain_adamw_get_type, ORTRAIN_STATE_PRECISION_INT8, ORTRAIN_PRECISION_F32, 1, 3, 40, 2 },
  { "lamb", ortrain_lamb_get_type, ORTRAIN_STATE_PRECISION_F32, ORTRAIN_PRECISION_F32, 0, 3, 40, 1 },
  { "adagrad", ortrain_adagrad_get_type, ORTRAIN_STATE_PRECISION_F32, ORTRAIN_PRECISION_FP16, 1, 3, 40, 1 },
  { "many", ortrain_lamb_get_type, ORTRAIN_STATE_PRECISION_F32, ORTRAIN_PRECISION_F32, 0, 34, 401, 2 },
};

static OrtrainTrainingSession *
make_updated (OrtrainGraphBuilder *builder, const UpdateCase *c, OrtrainImmediateUpdates immediate)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainOptimizer) optimizer =
      g_object_new (c->get_type (), "learning-rate", 1e-3, "state-precision", c->state, NULL);
  g_autoptr (OrtrainTrainingOptions) options = make_options (optimizer, "cuda", c->precision);
  ortrain_training_options_set_max_grad_norm (options, c->max_norm);
  ortrain_training_options_set_immediate_updates (options, immediate);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* The number of launches with the name, in a text that has a name in each line. */
static guint
count_named (const char *text, const char *name)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  guint n = 0;
  for (guint i = 0; lines[i] != NULL; i++)
    n += g_str_has_prefix (lines[i], name) && !g_ascii_isalnum (lines[i][strlen (name)]) &&
         lines[i][strlen (name)] != '-';
  return n;
}

/* The parameters after three steps. text: the launches of the last update. */
static OrtrainTensorDict *
train (OrtrainTrainingSession *session, char *text)
{
  g_autoptr (GError) error = NULL;
  for (guint s = 0; s < 3; s++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (s);
      ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      text[0] = '\0';
      ortrain_fake_cuda_trace (text, TRACE_BYTES);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
      ortrain_fake_cuda_drain ();
      ortrain_fake_cuda_trace (NULL, 0);
    }
  OrtrainTensorDict *parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  return parameters;
}

static void
assert_same_bits (OrtrainTensorDict *a, OrtrainTensorDict *b)
{
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), ==, ortrain_tensor_dict_get_size (b));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    {
      OrtrainTensor *x = ortrain_tensor_dict_get_tensor (a, i);
      OrtrainTensor *y = ortrain_tensor_dict_get (b, ortrain_tensor_dict_get_name (a, i));
      g_assert_cmpmem (ortrain_tensor_peek (x), ortrain_tensor_get_n_bytes (x), ortrain_tensor_peek (y),
                       ortrain_tensor_get_n_bytes (y));
    }
}

static void
test_update (gconstpointer data)
{
  const UpdateCase *c = data;
  g_autoptr (OrtrainGraphBuilder) builder = build_plain (c->n_layers);
  g_autoptr (OrtrainTrainingSession) session = make_updated (builder, c, ORTRAIN_IMMEDIATE_UPDATES_OFF);
  g_autofree char *text = g_malloc0 (TRACE_BYTES), *others = g_malloc0 (TRACE_BYTES);
  g_autoptr (OrtrainTensorDict) parameters = train (session, text);
  const guint n = ortrain_tensor_dict_get_size (parameters);
  g_assert_cmpuint (n, >=, c->n_tensors);
  if (c->max_norm == 0) /* updates that are apart, each after its gradients, have the same bits */
    {
      g_autoptr (OrtrainTrainingSession) apart = make_updated (builder, c, ORTRAIN_IMMEDIATE_UPDATES_ON);
      g_autoptr (OrtrainTensorDict) same = train (apart, others);
      assert_same_bits (parameters, same);
    }
  if (!ortrain_fake_cuda_is_in_use ())
    return;
  show (text);
  const guint n_tables = (n + 399) / 400;
  g_assert_cmpuint (count_named (text, "update"), ==, c->n_updates);
  g_assert_cmpuint (count_named (text, "find-broken"), ==, n_tables);
  g_assert_cmpuint (count_named (text, "gradient-norm"), ==, 1);
  if (c->get_type == ortrain_lamb_get_type)
    {
      g_assert_cmpuint (count_named (text, "lamb-moments"), ==, n_tables);
      g_assert_cmpuint (count_named (text, "lamb-ratios"), ==, n_tables);
    }
}

/* A Trainer keeps gradients where the device has room for them; then an update is one launch. memory: of the device, 0:
 * all. */
static void
test_room (gconstpointer data)
{
  const guint64 memory = GPOINTER_TO_SIZE (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = build_plain (3);
  g_autofree char *bytes = g_strdup_printf ("%" G_GUINT64_FORMAT, memory), *text = g_malloc0 (TRACE_BYTES);
  if (memory != 0)
    g_setenv ("ORTRAIN_FAKE_CUDA_MEMORY", bytes, TRUE);
  g_autoptr (OrtrainTrainingSession) session = make_updated (builder, &update_cases[1], ORTRAIN_IMMEDIATE_UPDATES_AUTO);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (0);
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
  ortrain_trainer_set_epochs (trainer, 1);
  ortrain_trainer_set_batch_size (trainer, BATCH);
  ortrain_fake_cuda_trace (text, TRACE_BYTES);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  ortrain_fake_cuda_drain ();
  ortrain_fake_cuda_trace (NULL, 0);
  g_unsetenv ("ORTRAIN_FAKE_CUDA_MEMORY");
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_autofree char *all = g_strjoinv ("\n", notes);
  const gboolean keeps = memory == 0;
  g_assert_true ((strstr (all, "the device has room for them") != NULL) == keeps);
  g_assert_nonnull (history);
  if (keeps)
    g_assert_cmpuint (count_named (text, "update"), ==, 1);
  else
    g_assert_cmpuint (count_named (text, "update"), >, 1);
}

/* Updates that are apart, of more large tensors than an element-wise kernel has operands: their reports of broken
 * parameters are joined. */
static void
test_large (void)
{
  enum
  {
    N_WEIGHTS = 41,
    SIDE = 260 /* larger than tensors that are updated together */
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) b = ortrain_graph_builder_new ("deep");
  static const gint64 dims[] = { SIDE, SIDE };
  OrtrainValue *x = ortrain_graph_builder_add_input (b, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 260");
  for (guint i = 0; i < N_WEIGHTS; i++)
    {
      g_autofree char *name = g_strdup_printf ("w%u", i);
      x = ortrain_graph_builder_binary (b, "MatMul", x, ortrain_graph_builder_add_normal (b, name, dims, 2, 0, 0.06));
    }
  ortrain_graph_builder_add_output (b, x, "logits");
  const UpdateCase c = { .get_type = ortrain_sgd_get_type, .precision = ORTRAIN_PRECISION_F32 };
  g_autoptr (OrtrainTrainingSession) session = make_updated (b, &c, ORTRAIN_IMMEDIATE_UPDATES_ON);
  static const gint64 x_dims[] = { 1, SIDE }, one = 1;
  g_autofree float *values = g_new0 (float, SIDE);
  values[3] = 1;
  g_autoptr (OrtrainTensor) input = ortrain_tensor_new_floats (x_dims, 2, values, SIDE, NULL);
  g_autoptr (OrtrainTensor) label = ortrain_tensor_new_ints (&one, 1, (gint64[]){ 5 }, 1, NULL);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", input);
  ortrain_tensor_dict_set (feeds, "labels", label);
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
}

/* A parameter that an update breaks is named, whichever node of the launch moves it. */
static void
test_broken (void)
{
  g_autoptr (OrtrainGraphBuilder) builder = build_plain (3);
  g_autoptr (OrtrainTrainingSession) right = make_updated (builder, &update_cases[0], ORTRAIN_IMMEDIATE_UPDATES_OFF);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (right, &error);
  g_assert_no_error (error);
  const guint n = ortrain_tensor_dict_get_size (parameters);
  for (guint i = 0; i < n; i += n / 5)
    {
      const char *name = ortrain_tensor_dict_get_name (parameters, i);
      g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
      g_autoptr (OrtrainOptimizer) optimizer = g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 1e-3, NULL);
      ortrain_optimizer_add_group (optimizer, name, 1e300, 0);
      g_autoptr (OrtrainTrainingOptions) options = make_options (optimizer, "cuda", ORTRAIN_PRECISION_F32);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (0);
      g_assert_no_error (error);
      ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      if (ortrain_training_session_optimizer_step (session, &error))
        ortrain_training_session_get_last_loss (session, &error); /* waits for the update */
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
      g_autofree char *begin = g_strdup_printf ("Parameter '%s' holds ", name);
      if (!g_str_has_prefix (error->message, begin))
        g_error ("“%s” does not begin with “%s”", error->message, begin);
      g_clear_error (&error);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_test_add_data_func (cases[i].path, &cases[i], test_layer);
  for (guint i = 0; i < G_N_ELEMENTS (update_cases); i++)
    {
      g_autofree char *path = g_strconcat ("/cuda-launches/update/", update_cases[i].path, NULL);
      g_test_add_data_func (path, &update_cases[i], test_update);
    }
  g_test_add_func ("/cuda-launches/update/broken", test_broken);
  g_test_add_func ("/cuda-launches/update/large", test_large);
  g_test_add_data_func ("/cuda-launches/update/room", GSIZE_TO_POINTER (0), test_room);
  g_test_add_data_func ("/cuda-launches/update/no-room", GSIZE_TO_POINTER (2 << 20), test_room);
  return g_test_run ();
}
