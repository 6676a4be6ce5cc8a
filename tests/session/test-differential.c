/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"
#include "gradients/covered-by-models.h"
#include "ops/ortrain-op-private.h"
#include "plan/ortrain-plan-tables-private.h"
#include "tensor/ortrain-tensor-private.h"

/* Random models, trained in several ways that must come to the same: with a pass and without it, at any number of
 * threads, in one go and in micro-batches. Where a way promises the same bits, the bits are compared. */

enum
{
  BATCH = 3,
  LENGTH = 7,
  WIDTH = 20,
  HEADS = 4,
  CLASSES = 5,
};

typedef struct
{
  OrtrainGraphBuilder *builder;
  GRand *rand;
  GPtrArray *values; /* of OrtrainValue: [batch, length, WIDTH], float */
  guint n_names;
  gboolean plain; /* without dropout */
} Maker;

static char *
new_name (Maker *self, const char *stem)
{
  return g_strdup_printf ("%s_%u", stem, self->n_names++);
}

static OrtrainValue *
pick (Maker *self)
{
  /* The newest ones most often, so that graphs are deep as well as wide. */
  guint n = self->values->len, back = (guint) g_rand_int_range (self->rand, 0, (gint) MIN (n, 4));
  return g_rand_int_range (self->rand, 0, 4) == 0 ? self->values->pdata[g_rand_int_range (self->rand, 0, (gint) n)]
                                                  : self->values->pdata[n - 1 - back];
}

static OrtrainValue *
op (Maker *self, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  const char *inputs[] = { ortrain_value_get_name (a), b != NULL ? ortrain_value_get_name (b) : NULL, NULL };
  g_autofree char *output = new_name (self, op_type);
  const char *outputs[] = { output, NULL };
  return ortrain_graph_builder_add_op (self->builder, op_type, "", inputs, outputs, NULL);
}

static OrtrainValue *
filled (Maker *self, double element)
{
  g_autofree char *name = new_name (self, "constant");
  return ortrain_graph_builder_add_filled (self->builder, name, NULL, 0, element);
}

static OrtrainValue *
axes (Maker *self, gint64 axis)
{
  g_autofree char *name = new_name (self, "axes");
  gint64 one = 1;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &one, 1, NULL);
  *(gint64 *) ortrain_tensor_peek_writable (tensor) = axis;
  return ortrain_graph_builder_add_tensor (self->builder, name, tensor);
}

static OrtrainValue *
parameter (Maker *self, gint64 n)
{
  g_autofree char *name = new_name (self, "parameter");
  return ortrain_graph_builder_add_uniform (self->builder, name, &n, 1, 0.5, 1.5);
}

static OrtrainValue *
add_unary (Maker *self, OrtrainValue *x)
{
  static const char *const types[] = { "Relu", "Tanh", "Sigmoid", "Erf", "Softplus", "Neg", "Abs", "Sin", "Softsign" };
  return op (self, types[g_rand_int_range (self->rand, 0, G_N_ELEMENTS (types))], x, NULL);
}

static OrtrainValue *
add_binary (Maker *self, OrtrainValue *x)
{
  static const char *const types[] = { "Add", "Sub", "Max", "Min" };
  OrtrainValue *y = pick (self);
  return op (self, types[g_rand_int_range (self->rand, 0, G_N_ELEMENTS (types))], x, y);
}

static OrtrainValue *
add_gate (Maker *self, OrtrainValue *x)
{
  return op (self, "Mul", pick (self), op (self, "Sigmoid", x, NULL));
}

static OrtrainValue *
add_linear (Maker *self, OrtrainValue *x)
{
  g_autofree char *name = new_name (self, "linear");
  return ortrain_graph_builder_linear (self->builder, x, name, WIDTH, g_rand_boolean (self->rand));
}

static OrtrainValue *
add_layer_norm (Maker *self, OrtrainValue *x)
{
  g_autofree char *name = new_name (self, "norm");
  return ortrain_graph_builder_layer_norm (self->builder, x, name);
}

/* Over both channels of a view, or each; followed by something element-wise, or a product. written: as exporters write
 * it for operator sets without GroupNormalization */
static OrtrainValue *
add_norm_of_groups (Maker *self, OrtrainValue *x, gboolean written)
{
  const gint64 groups = g_rand_int_range (self->rand, 1, 3), column[] = { 2, 1 };
  const gint64 dims[] = { 0, 2, LENGTH * WIDTH / 2 }, rows[] = { 0, groups, -1 }, back[] = { 0, LENGTH, WIDTH };
  OrtrainValue *y = ortrain_graph_builder_reshape (self->builder, x, dims, 3), *z = y;
  g_autofree char *scale_name = new_name (self, "scale"), *bias_name = new_name (self, "shift");
  OrtrainValue *scale =
      ortrain_graph_builder_add_uniform (self->builder, scale_name, column, written ? 2 : 1, 0.5, 1.5);
  OrtrainValue *bias = ortrain_graph_builder_add_uniform (self->builder, bias_name, column, written ? 2 : 1, -0.5, 0.5);
  g_autofree char *norm = new_name (self, "groups"), *one = new_name (self, "one"), *zero = new_name (self, "zero");
  const char *outputs[] = { norm, NULL };
  const char *inputs[] = { NULL, ortrain_value_get_name (scale), ortrain_value_get_name (bias), NULL };
  if (written)
    {
      y = ortrain_graph_builder_reshape (self->builder, y, rows, 3);
      inputs[1] = ortrain_value_get_name (ortrain_graph_builder_add_filled (self->builder, one, &groups, 1, 1));
      inputs[2] = ortrain_value_get_name (ortrain_graph_builder_add_filled (self->builder, zero, &groups, 1, 0));
    }
  inputs[0] = ortrain_value_get_name (y);
  /* so that tensors that hardly vary are not enlarged: differences of rounding would be, too */
  GVariant *attributes = written ? g_variant_new_parsed ("@a{sv} {'epsilon': <0.1>}")
                                 : g_variant_new_parsed ("@a{sv} {'epsilon': <0.1>, 'num_groups': <%x>}", groups);
  y = ortrain_graph_builder_add_op (self->builder, written ? "InstanceNormalization" : "GroupNormalization", "", inputs,
                                    outputs, attributes);
  if (written)
    {
      y = ortrain_graph_builder_reshape (self->builder, y, dims, 3);
      y = op (self, "Add", op (self, "Mul", y, scale), bias);
    }
  if (g_rand_boolean (self->rand))
    y = op (self, "Add", op (self, "Sigmoid", y, NULL), z);
  return ortrain_graph_builder_reshape (self->builder, y, back, 3);
}

static OrtrainValue *
add_group_norm (Maker *self, OrtrainValue *x)
{
  return add_norm_of_groups (self, x, FALSE);
}

static OrtrainValue *
add_written_group_norm (Maker *self, OrtrainValue *x)
{
  return add_norm_of_groups (self, x, TRUE);
}

/* As exporters write it for operator sets without LayerNormalization. */
static OrtrainValue *
add_written_layer_norm (Maker *self, OrtrainValue *x)
{
  OrtrainValue *centered = op (self, "Sub", x, op (self, "ReduceMean", x, axes (self, -1)));
  OrtrainValue *square = op (self, "Mul", centered, centered);
  OrtrainValue *variance = op (self, "ReduceMean", square, axes (self, -1));
  OrtrainValue *root = op (self, "Sqrt", op (self, "Add", variance, filled (self, 1e-5)), NULL);
  OrtrainValue *normal = op (self, "Div", centered, root);
  return op (self, "Add", op (self, "Mul", normal, parameter (self, WIDTH)), parameter (self, WIDTH));
}

static OrtrainValue *
add_written_gelu (Maker *self, OrtrainValue *x)
{
  OrtrainValue *erf = op (self, "Erf", op (self, "Div", x, filled (self, 1.4142135623730951)), NULL);
  OrtrainValue *one = op (self, "Add", erf, filled (self, 1));
  return op (self, "Mul", op (self, "Mul", x, one), filled (self, 0.5));
}

static OrtrainValue *
add_softmax (Maker *self, OrtrainValue *x)
{
  return ortrain_graph_builder_softmax (self->builder, x, -1);
}

/* Twice the same, which one of them is enough for. */
static OrtrainValue *
add_twice (Maker *self, OrtrainValue *x)
{
  OrtrainValue *first = add_softmax (self, x);
  return op (self, "Add", first, add_softmax (self, x));
}

static OrtrainValue *
add_attention (Maker *self, OrtrainValue *x)
{
  g_autofree char *name = new_name (self, "attention");
  return ortrain_graph_builder_attention (self->builder, x, name, HEADS, LENGTH, g_rand_boolean (self->rand));
}

static OrtrainValue *
split_heads (Maker *self, OrtrainValue *x, gint64 a, gint64 b, gint64 c)
{
  gint64 dims[] = { 0, 0, HEADS, WIDTH / HEADS }, permutation[] = { 0, a, b, c };
  return ortrain_graph_builder_transpose (self->builder, ortrain_graph_builder_reshape (self->builder, x, dims, 4),
                                          permutation, 4);
}

static OrtrainValue *
add_written_attention (Maker *self, OrtrainValue *x)
{
  OrtrainValue *q = split_heads (self, add_linear (self, x), 2, 1, 3);
  OrtrainValue *k = split_heads (self, add_linear (self, x), 2, 3, 1);
  OrtrainValue *v = split_heads (self, add_linear (self, x), 2, 1, 3);
  OrtrainValue *scores = op (self, "Div", op (self, "MatMul", q, k), filled (self, 2.2360679774997896));
  OrtrainValue *p = ortrain_graph_builder_softmax (self->builder, scores, -1);
  if (!self->plain && g_rand_boolean (self->rand))
    p = ortrain_graph_builder_dropout (self->builder, p, 0.25);
  OrtrainValue *mixed = op (self, "MatMul", p, v);
  gint64 permutation[] = { 0, 2, 1, 3 }, dims[] = { 0, 0, WIDTH };
  OrtrainValue *back = ortrain_graph_builder_transpose (self->builder, mixed, permutation, 4);
  return ortrain_graph_builder_reshape (self->builder, back, dims, 3);
}

/* x yᵀ z, over the positions */
static OrtrainValue *
add_products (Maker *self, OrtrainValue *x)
{
  gint64 permutation[] = { 0, 2, 1 };
  OrtrainValue *y = ortrain_graph_builder_transpose (self->builder, pick (self), permutation, 3);
  OrtrainValue *scores = op (self, "Tanh", op (self, "MatMul", x, y), NULL);
  return op (self, "MatMul", scores, pick (self));
}

static OrtrainValue *
add_scale (Maker *self, OrtrainValue *x)
{
  return op (self, "Mul", x, parameter (self, g_rand_boolean (self->rand) ? WIDTH : 1));
}

static OrtrainValue *
add_mean (Maker *self, OrtrainValue *x)
{
  OrtrainValue *mean = op (self, "ReduceMean", x, axes (self, g_rand_int_range (self->rand, 1, 3)));
  return op (self, "Sub", pick (self), mean);
}

static OrtrainValue *
add_halves (Maker *self, OrtrainValue *x)
{
  g_autofree char *first = new_name (self, "half"), *second = new_name (self, "half"),
                  *whole = new_name (self, "whole");
  const char *inputs[] = { ortrain_value_get_name (x), NULL }, *halves[] = { first, second, NULL };
  const char *swapped[] = { second, first, NULL }, *outputs[] = { whole, NULL };
  ortrain_graph_builder_add_op (self->builder, "Split", "", inputs, halves,
                                g_variant_new_parsed ("@a{sv} {'axis': <int64 -1>, 'num_outputs': <int64 2>}"));
  return ortrain_graph_builder_add_op (self->builder, "Concat", "", swapped, outputs,
                                       g_variant_new_parsed ("@a{sv} {'axis': <int64 -1>}"));
}

static OrtrainValue *
add_turned (Maker *self, OrtrainValue *x)
{
  gint64 permutation[] = { 1, 2, 0 }, back[] = { 2, 0, 1 };
  OrtrainValue *turned = ortrain_graph_builder_transpose (self->builder, x, permutation, 3);
  return ortrain_graph_builder_transpose (self->builder, add_unary (self, turned), back, 3);
}

static OrtrainValue *
add_dropout (Maker *self, OrtrainValue *x)
{
  return self->plain ? add_unary (self, x) : ortrain_graph_builder_dropout (self->builder, x, 0.25);
}

typedef OrtrainValue *(*Add) (Maker *self, OrtrainValue *x);
static const Add adds[] = {
  add_unary,
  add_unary,
  add_binary,
  add_binary,
  add_gate,
  add_linear,
  add_linear,
  add_layer_norm,
  add_written_layer_norm,
  add_group_norm,
  add_written_group_norm,
  add_written_gelu,
  add_softmax,
  add_twice,
  add_attention,
  add_written_attention,
  add_products,
  add_scale,
  add_mean,
  add_halves,
  add_turned,
  add_dropout,
};

static OrtrainModel *
make_model (guint32 seed, gboolean plain)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("random");
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  g_autoptr (GPtrArray) values = g_ptr_array_new ();
  Maker self = { builder, rand, values, 0, plain };
  ortrain_graph_builder_set_seed (builder, seed);
  g_ptr_array_add (values, ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 7, 20"));
  guint n = (guint) g_rand_int_range (rand, 6, 24);
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (values, adds[g_rand_int_range (rand, 0, G_N_ELEMENTS (adds))](&self, pick (&self)));
  OrtrainValue *sum = ortrain_graph_builder_add (builder, values->pdata[values->len - 1], pick (&self));
  OrtrainValue *logits = ortrain_graph_builder_linear (builder, sum, "head", CLASSES, TRUE);
  ortrain_graph_builder_add_output (builder, logits, "logits");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

/* Batches of `n` examples from `first` on, of a fixed stream of examples. */
static OrtrainTensorDict *
make_feeds (guint32 seed, guint first, guint n)
{
  gint64 x_dims[] = { n, LENGTH, WIDTH }, label_dims[] = { n, LENGTH };
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 3, NULL);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, label_dims, 2, NULL);
  float *x_data = ortrain_tensor_peek_writable (x);
  gint64 *label_data = ortrain_tensor_peek_writable (labels);
  for (guint e = 0; e < n; e++)
    {
      g_autoptr (GRand) rand = g_rand_new_with_seed (seed * 1000 + first + e);
      for (guint i = 0; i < LENGTH * WIDTH; i++)
        x_data[e * LENGTH * WIDTH + i] = (float) g_rand_double_range (rand, -1.5, 1.5);
      for (guint i = 0; i < LENGTH; i++)
        label_data[e * LENGTH + i] = g_rand_int_range (rand, 0, CLASSES);
    }
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  return feeds;
}

typedef struct
{
  double loss;
  guint n_calls;                /* steps of the plan */
  OrtrainTensorDict *gradients; /* of the first step */
  OrtrainTensorDict *state;     /* after three steps */
} Result;

static void
result_clear (Result *result)
{
  g_clear_object (&result->gradients);
  g_clear_object (&result->state);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Result, result_clear)

static OrtrainTensorDict *
copy_dict (OrtrainTensorDict *from)
{
  OrtrainTensorDict *copy = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (from); i++)
    {
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_copy (ortrain_tensor_dict_get_tensor (from, i), NULL);
      ortrain_tensor_dict_set (copy, ortrain_tensor_dict_get_name (from, i), tensor);
    }
  return copy;
}

/* None of our own operators are left but those that the planner itself added, and the update. */
static void
assert_expanded (OrtrainTrainingSession *session)
{
  const OrtrainGraph *graph = ortrain_memory_plan_peek_graph (ortrain_training_session_get_memory_plan (session));
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      const OrtrainNode *node = graph->nodes->pdata[i];
      if (!g_str_equal (node->op_type, "Copy") && !g_str_equal (node->op_type, "Accumulate") &&
          !ortrain_node_has_flag (node, ORTRAIN_OP_UPDATES))
        g_assert_cmpstr (node->domain, ==, "");
    }
}

/* Which operators of our own ran by their kernels, as often as models were compared with their bodies. */
static GHashTable *by_kernel;

static void
note_kernels (OrtrainTrainingSession *session)
{
  const OrtrainGraph *graph = ortrain_memory_plan_peek_graph (ortrain_training_session_get_memory_plan (session));
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      const OrtrainNode *node = graph->nodes->pdata[i];
      if (by_kernel != NULL && g_str_equal (node->domain, ORTRAIN_DOMAIN))
        g_hash_table_add (by_kernel, g_strdup (node->op_type));
    }
}

/* disabled: passes that do not run; expanded: operators of our own that run as their bodies; micro: batches that make
 * one step */
static Result
train_in_form (OrtrainModel *model, guint32 seed, const char *disabled, const char *expanded, guint threads,
               guint micro, gboolean immediate)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.05);
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  Result result = { 0 };
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_threads (options, threads);
  ortrain_training_options_set_deterministic (options, TRUE);
  ortrain_training_options_set_seed (options, seed);
  ortrain_training_options_set_accumulation_steps (options, micro);
  ortrain_training_options_set_immediate_updates (options, immediate);
  g_setenv ("ORTRAIN_DISABLE_PASSES", disabled, TRUE);
  g_setenv ("ORTRAIN_EXPAND", expanded, TRUE);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  for (guint step = 0; step < 3; step++)
    {
      double sum = 0;
      for (guint m = 0; m < micro; m++)
        {
          g_autoptr (OrtrainTensorDict) feeds = make_feeds (seed, (step * micro + m) * BATCH / micro, BATCH / micro);
          sum += ortrain_training_session_train_step (session, feeds, &error) / micro;
          g_assert_no_error (error);
        }
      if (step == 0)
        result.loss = sum;
      if (step == 0 && !immediate)
        {
          g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
          g_assert_no_error (error);
          result.gradients = copy_dict (gradients);
        }
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
  g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  result.state = copy_dict (state);
  result.n_calls = ortrain_memory_plan_get_n_steps (ortrain_training_session_get_memory_plan (session));
  if (g_str_equal (expanded, "all"))
    assert_expanded (session);
  else
    note_kernels (session);
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  g_unsetenv ("ORTRAIN_EXPAND");
  return result;
}

static Result
train (OrtrainModel *model, guint32 seed, const char *disabled, guint threads, guint micro)
{
  return train_in_form (model, seed, disabled, "", threads, micro, FALSE);
}

static void
assert_same (Result *a, Result *b)
{
  g_assert_cmpmem (&a->loss, sizeof a->loss, &b->loss, sizeof b->loss);
  test_assert_same_bits (a->gradients, b->gradients);
  test_assert_same_bits (a->state, b->state);
}

/* Equal but for rounding: each tensor to 1e-4 of its norm, small tensors to the norm of all together. */
static void
assert_near (OrtrainTensorDict *a, OrtrainTensorDict *b)
{
  double all = 0;
  g_assert_cmpuint (ortrain_tensor_dict_get_size (b), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (b); i++)
    all = hypot (all, test_norm (ortrain_tensor_dict_get_tensor (b, i)));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (b), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (b); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (b, i);
      OrtrainTensor *y = ortrain_tensor_dict_get_tensor (b, i);
      double error = test_distance (ortrain_tensor_dict_get (a, name), y) * test_norm (y);
      if (error > 1e-4 * test_norm (y) + 2e-6 * all)
        g_error ("'%s' is off by %g, of norm %g of %g", name, error, test_norm (y), all);
    }
}

enum
{
  N_MODELS = 40,
  N_FUSED = 10, /* operators of our own that these models have, or more */
};

/* Passes that move, share or repeat work keep every bit. */
static void
test_same_bits (gconstpointer data)
{
  const char *pass = data;
  for (guint32 seed = 1; seed <= N_MODELS; seed++)
    {
      g_test_message ("seed %u", seed);
      g_autoptr (OrtrainModel) model = make_model (seed, FALSE);
      g_auto (Result) with = train (model, seed, "", 1, 1);
      g_auto (Result) without = train (model, seed, pass, 1, 1);
      assert_same (&with, &without);
    }
}

/* Independent nodes may run on two streams. */
static void
test_two_streams (void)
{
  for (guint32 seed = 1; seed <= N_MODELS; seed++)
    {
      g_test_message ("seed %u", seed);
      g_autoptr (OrtrainModel) model = make_model (seed, TRUE);
      g_auto (Result) one = train (model, seed, "", 1, 1);
      g_setenv ("ORTRAIN_STREAMS", "2", TRUE);
      g_auto (Result) two = train (model, seed, "", 1, 1);
      g_unsetenv ("ORTRAIN_STREAMS");
      assert_same (&one, &two);
    }
}

/* Passes that choose another formula come within rounding. */
static void
compare_rounded (const char *passes, guint *n_calls_with, guint *n_calls_without)
{
  *n_calls_with = *n_calls_without = 0;
  for (guint32 seed = 1; seed <= N_MODELS; seed++)
    {
      g_test_message ("seed %u", seed);
      g_autoptr (OrtrainModel) model = make_model (seed, TRUE);
      g_auto (Result) with = train (model, seed, "", 1, 1);
      g_auto (Result) without = train (model, seed, passes, 1, 1);
      g_assert_cmpfloat_with_epsilon (with.loss, without.loss, 1e-5);
      assert_near (with.gradients, without.gradients);
      *n_calls_with += with.n_calls;
      *n_calls_without += without.n_calls;
    }
}

static void
test_rounding (gconstpointer data)
{
  guint n_calls_with, n_calls_without;
  compare_rounded (data, &n_calls_with, &n_calls_without);
  g_assert_cmpuint (n_calls_with, <, n_calls_without); /* the pass did something */
}

/* Operators that were fused into one chain become one call, or two where they are computed again for the gradient. */
static void
test_rounding_of_chains (gconstpointer data)
{
  guint n_calls_with, n_calls_without;
  compare_rounded (data, &n_calls_with, &n_calls_without);
  g_assert_cmpuint (n_calls_with, !=, n_calls_without);
}

/* Bodies that compute the same, element by element or sum by sum in its order, keep every bit. */
static void
test_bodies_same_bits (gconstpointer data)
{
  guint n_calls_with = 0, n_calls_without = 0;
  for (guint32 seed = 1; seed <= N_MODELS; seed++)
    {
      g_test_message ("seed %u", seed);
      g_autoptr (OrtrainModel) model = make_model (seed, FALSE);
      g_auto (Result) with = train (model, seed, "", 1, 1);
      g_auto (Result) without = train_in_form (model, seed, "", data, 1, 1, FALSE);
      assert_same (&with, &without);
      n_calls_with += with.n_calls;
      n_calls_without += without.n_calls;
    }
  g_assert_cmpuint (n_calls_with, <, n_calls_without);
}

/* With and without the other passes: the gradients' own operators are in both. */
static void
test_bodies (gconstpointer data)
{
  guint n_calls_with = 0, n_calls_without = 0, n_fused = 0;
  g_autoptr (GHashTable) ran = by_kernel = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint32 seed = 1; seed <= N_MODELS; seed++)
    {
      g_test_message ("seed %u", seed);
      g_autoptr (OrtrainModel) model = make_model (seed, FALSE);
      g_auto (Result) with = train (model, seed, "", 1, 1);
      g_auto (Result) without = train_in_form (model, seed, data, "all", 1, 1, FALSE);
      g_assert_cmpfloat_with_epsilon (with.loss, without.loss, 1e-5);
      assert_near (with.gradients, without.gradients);
      n_calls_with += with.n_calls;
      n_calls_without += without.n_calls;
    }
  by_kernel = NULL;
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      if (!g_str_equal (op->domain, ORTRAIN_DOMAIN) || op->no_body != NULL)
        continue;
      const gboolean reached = g_hash_table_contains (ran, op->name);
      n_fused += reached;
      if (reached)
        g_test_message ("%s: its body compared with its kernel", op->name);
      if (!reached && g_strv_contains (covered_by_models, op->name))
        g_error ("No model has %s, for which there is no other case", op->name);
    }
  for (guint i = 0; covered_by_models[i] != NULL; i++)
    g_assert_nonnull (ortrain_ops_lookup (ORTRAIN_DOMAIN, covered_by_models[i]));
  g_assert_cmpuint (n_fused, >=, N_FUSED);
  g_assert_cmpuint (n_calls_with, <, n_calls_without);
}

/* Promise 4: the same seed, the same bits, at any number of threads with one option. */
static void
test_threads (void)
{
  for (guint32 seed = 1; seed <= N_MODELS; seed++)
    {
      g_test_message ("seed %u", seed);
      g_autoptr (OrtrainModel) model = make_model (seed, FALSE);
      g_auto (Result) one = train (model, seed, "", 1, 1);
      g_auto (Result) two = train (model, seed, "", 2, 1);
      g_auto (Result) five = train (model, seed, "", 5, 1);
      assert_same (&one, &two);
      assert_same (&one, &five);
    }
}

static void
test_micro_batches (void)
{
  for (guint32 seed = 1; seed <= N_MODELS; seed++)
    {
      g_test_message ("seed %u", seed);
      g_autoptr (OrtrainModel) model = make_model (seed, TRUE);
      g_auto (Result) whole = train (model, seed, "", 1, 1);
      g_auto (Result) parts = train (model, seed, "", 1, BATCH);
      g_assert_cmpfloat_with_epsilon (parts.loss, whole.loss, 1e-5);
      assert_near (parts.state, whole.state); /* gradients are sums until the update divides them */
    }
}

/* The update in optimizer_step, and in the backward pass, with passes and without. */
static void
test_immediate_updates (void)
{
  for (guint32 seed = 1; seed <= N_MODELS; seed++)
    {
      const char *const disabled = seed % 2 ? "" : "all";
      g_test_message ("seed %u", seed);
      g_autoptr (OrtrainModel) model = make_model (seed, FALSE);
      g_auto (Result) kept = train (model, seed, disabled, 2, 1);
      g_auto (Result) immediate = train_in_form (model, seed, disabled, "", 2, 1, TRUE);
      g_assert_cmpmem (&kept.loss, sizeof kept.loss, &immediate.loss, sizeof immediate.loss);
      test_assert_same_bits (kept.state, immediate.state);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/differential/merge-equal", "merge-equal", test_rounding);
  g_test_add_data_func ("/differential/split-norms", "split-norms", test_same_bits);
  g_test_add_data_func ("/differential/recompute-cheap", "recompute-cheap", test_same_bits);
  g_test_add_data_func ("/differential/fuse-elementwise", "fuse-elementwise", test_same_bits);
  g_test_add_data_func ("/differential/eliminate-identities", "eliminate-identities", test_same_bits);
  g_test_add_data_func ("/differential/fuse-norm", "fuse-norm", test_rounding);
  g_test_add_data_func ("/differential/fuse-attention", "fuse-attention", test_rounding);
  g_test_add_data_func ("/differential/fuse-gelu", "fuse-gelu", test_rounding_of_chains);
  g_test_add_data_func ("/differential/pack-attention", "pack-attention", test_rounding);
  g_test_add_data_func ("/differential/fold-transposes", "fold-transposes", test_rounding);
  g_test_add_data_func ("/differential/no-pass", "all", test_rounding);
  g_test_add_data_func ("/differential/bodies-chains", "Elementwise", test_bodies_same_bits);
  g_test_add_data_func (
      "/differential/bodies-activations",
      "Elementwise,ReluGrad,TanhGrad,SigmoidGrad,ErfGrad,SoftplusGrad,SoftsignGrad,GeluGrad,SwishGrad",
      test_bodies_same_bits);
  g_test_add_data_func ("/differential/bodies-moves", "Elementwise,DropoutGrad,SliceGrad,ConcatGrad,SplitGrad,PadGrad",
                        test_bodies_same_bits);
  g_test_add_data_func ("/differential/bodies-all", "", test_bodies);
  g_test_add_data_func ("/differential/bodies-all-without-passes", "all", test_bodies);
  g_test_add_func ("/differential/threads", test_threads);
  g_test_add_func ("/differential/micro-batches", test_micro_batches);
  g_test_add_func ("/differential/immediate-updates", test_immediate_updates);
  g_test_add_func ("/differential/two-streams", test_two_streams);
  return g_test_run ();
}
