/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "simt/exported-model.h"
#include "simt/fake-cuda.h"

#include <math.h>
#include <string.h>

/* Queries, keys and values of BERT and ViT, as PyTorch's exporter writes them: three products of one value, with a
 * weight and a bias each. The launches of a layer are counted, as in test-cuda-launches.c, with one product for the
 * three and without; losses and parameters are the same. */

#define N_CLASSES 7
#define N_POSITIONS 16
#define WIDTH 32
#define N_HEADS 2
#define BATCH 2
#define LENGTH 16
#define N_STEPS 3

typedef struct
{
  gboolean is_vit;     /* the norm is before each part of a layer, as in ViT; otherwise after it, as in BERT */
  gboolean transposed; /* weights are [n, k], as in PyTorch, and a Transpose reads them */
  gboolean has_bias;
  gboolean shares_bias; /* one tensor, as exporters write equal contents */
} Form;

static OrtrainValue *
add_linear (OrtrainGraphBuilder *b, OrtrainValue *x, const Form *form, const char *layer, const char *what, gint64 n_in,
            gint64 n_out)
{
  static const gint64 swap[] = { 1, 0 };
  const gboolean is_part = strlen (what) == 1;
  g_autofree char *weight = g_strconcat (layer, what, ".weight", NULL), *y = g_strconcat (layer, what, ".y", NULL);
  g_autofree char *bias =
      form->shares_bias && is_part ? g_strdup ("shared.bias") : g_strconcat (layer, what, ".bias", NULL);
  g_autofree char *whole = g_strconcat (layer, what, ".whole", NULL);
  const gint64 dims[] = { form->transposed ? n_out : n_in, form->transposed ? n_in : n_out };
  OrtrainValue *w = ortrain_graph_builder_add_normal (b, weight, dims, 2, 0, 0.1);
  if (form->transposed)
    w = ortrain_graph_builder_transpose (b, w, swap, 2);
  OrtrainValue *product = add (b, "MatMul", IN (ortrain_value_get_name (x), ortrain_value_get_name (w)), y, NULL);
  if (is_part && !form->has_bias)
    return product;
  if (ortrain_graph_find_value (ortrain_graph_builder_get_graph (b), bias) == NULL)
    ortrain_graph_builder_add_normal (b, bias, &n_out, 1, 0, 0.1);
  return add (b, "Add", IN (ortrain_value_get_name (product), bias), whole, NULL);
}

static OrtrainValue *
add_attention (OrtrainGraphBuilder *b, OrtrainValue *x, const Form *form, const char *layer)
{
  static const char *const parts[] = { "q", "k", "v" };
  static const gint64 swap[] = { 0, 2, 1, 3 }, turn[] = { 0, 1, 3, 2 };
  OrtrainValue *of_heads[3];
  for (guint i = 0; i < 3; i++)
    {
      OrtrainValue *part = add_linear (b, x, form, layer, parts[i], WIDTH, WIDTH);
      g_autofree char *split = g_strconcat (layer, parts[i], ".heads", NULL);
      part = add (b, "Reshape", IN (ortrain_value_get_name (part), "shape.heads"), split, NULL);
      of_heads[i] = ortrain_graph_builder_transpose (b, part, swap, 4);
    }
  g_autofree char *scaled = g_strconcat (layer, "scaled", NULL), *joined = g_strconcat (layer, "joined", NULL);
  OrtrainValue *k = ortrain_graph_builder_transpose (b, of_heads[1], turn, 4);
  OrtrainValue *scores = ortrain_graph_builder_binary (b, "MatMul", of_heads[0], k);
  scores = add (b, "Mul", IN (ortrain_value_get_name (scores), "scale"), scaled, NULL);
  OrtrainValue *y =
      ortrain_graph_builder_binary (b, "MatMul", ortrain_graph_builder_softmax (b, scores, -1), of_heads[2]);
  y = ortrain_graph_builder_transpose (b, y, swap, 4);
  y = add (b, "Reshape", IN (ortrain_value_get_name (y), "shape.rows"), joined, NULL);
  return add_linear (b, y, form, layer, "output", WIDTH, WIDTH);
}

static OrtrainValue *
add_feed_forward (OrtrainGraphBuilder *b, OrtrainValue *x, const Form *form, const char *layer)
{
  x = add_linear (b, x, form, layer, "intermediate", WIDTH, 4 * WIDTH);
  return add_linear (b, ortrain_graph_builder_gelu (b, x), form, layer, "dense", 4 * WIDTH, WIDTH);
}

static OrtrainGraphBuilder *
build (const Form *form, guint n_layers)
{
  OrtrainGraphBuilder *b = ortrain_graph_builder_new ("exported");
  OrtrainValue *x = ortrain_graph_builder_add_input (b, "x", ORTRAIN_DTYPE_FLOAT32, "2, 16, 32");
  add_ints (b, "shape.heads", (gint64[]){ 0, 0, N_HEADS, WIDTH / N_HEADS }, 4);
  add_ints (b, "shape.rows", (gint64[]){ 0, 0, WIDTH }, 3);
  add_number (b, "scale", 1 / sqrt ((double) WIDTH / N_HEADS));
  x = add_linear (b, x, form, "", "embedding", WIDTH, WIDTH);
  for (guint i = 0; i < n_layers; i++)
    {
      g_autofree char *layer = g_strdup_printf ("layer.%u.", i), *ln1 = g_strconcat (layer, "ln_1", NULL);
      g_autofree char *ln2 = g_strconcat (layer, "ln_2", NULL);
      if (form->is_vit)
        {
          x = ortrain_graph_builder_add (
              b, add_attention (b, ortrain_graph_builder_layer_norm (b, x, ln1), form, layer), x);
          x = ortrain_graph_builder_add (
              b, add_feed_forward (b, ortrain_graph_builder_layer_norm (b, x, ln2), form, layer), x);
          continue;
        }
      x = ortrain_graph_builder_layer_norm (b, ortrain_graph_builder_add (b, add_attention (b, x, form, layer), x),
                                            ln1);
      x = ortrain_graph_builder_layer_norm (b, ortrain_graph_builder_add (b, add_feed_forward (b, x, form, layer), x),
                                            ln2);
    }
  ortrain_graph_builder_add_output (b, add_linear (b, x, form, "", "head", WIDTH, N_CLASSES), "logits");
  return b;
}

/* ---- training ---- */

#define TRACE_BYTES 65536

typedef struct
{
  char forward[TRACE_BYTES], backward[TRACE_BYTES];
  double losses[N_STEPS];
  OrtrainTensorDict *parameters;
} Result;

static void
result_free (Result *self)
{
  g_clear_object (&self->parameters);
  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Result, result_free)

static void
begin_forward (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Result *result)
{
  result->forward[0] = result->backward[0] = '\0';
  ortrain_fake_cuda_trace (result->forward, TRACE_BYTES);
}

static void
begin_backward (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Result *result)
{
  ortrain_fake_cuda_trace (result->backward, TRACE_BYTES);
}

static void
end (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Result *result)
{
  ortrain_fake_cuda_trace (NULL, 0);
}

typedef struct
{
  const char *provider;
  OrtrainPrecision precision;
  OrtrainImmediateUpdates immediate;
  guint n_accumulated;
  const char *without; /* passes */
  const char *expand;  /* operators */
} Way;

static OrtrainTensorDict *
make_feeds (guint step)
{
  static const gint64 dims[] = { BATCH, LENGTH, WIDTH }, label_dims[] = { BATCH, LENGTH };
  float x[BATCH * LENGTH * WIDTH];
  gint64 labels[BATCH * LENGTH];
  for (guint i = 0; i < G_N_ELEMENTS (x); i++)
    x[i] = (float) sin (0.37 * i + step);
  for (guint i = 0; i < G_N_ELEMENTS (labels); i++)
    labels[i] = (i * 5 + step) % N_CLASSES;
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_floats (dims, 3, x, G_N_ELEMENTS (x), NULL);
  g_autoptr (OrtrainTensor) b = ortrain_tensor_new_ints (label_dims, 2, labels, G_N_ELEMENTS (labels), NULL);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", a);
  ortrain_tensor_dict_set (feeds, "labels", b);
  return feeds;
}

static Result *
train (const Form *form, guint n_layers, const Way *way)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = build (form, n_layers);
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainOptimizer) optimizer = g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.05, NULL);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_provider (options, way->provider);
  ortrain_training_options_set_precision (options, way->precision);
  ortrain_training_options_set_immediate_updates (options, way->immediate);
  ortrain_training_options_set_accumulation_steps (options, MAX (way->n_accumulated, 1));
  if (way->without != NULL)
    g_setenv ("ORTRAIN_DISABLE_PASSES", way->without, TRUE);
  if (way->expand != NULL)
    g_setenv ("ORTRAIN_EXPAND", way->expand, TRUE);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  Result *result = g_new0 (Result, 1);
  g_signal_connect (session, "pre-forward", G_CALLBACK (begin_forward), result);
  g_signal_connect (session, "post-forward", G_CALLBACK (end), result);
  g_signal_connect (session, "pre-backward", G_CALLBACK (begin_backward), result);
  g_signal_connect (session, "post-backward", G_CALLBACK (end), result);
  for (guint s = 0; s < N_STEPS; s++)
    for (guint i = 0; i < MAX (way->n_accumulated, 1); i++)
      {
        g_autoptr (OrtrainTensorDict) feeds = make_feeds (s + 7 * i);
        result->losses[s] = ortrain_training_session_train_step (session, feeds, &error);
        g_assert_no_error (error);
        if (i + 1 < way->n_accumulated)
          continue;
        ortrain_training_session_optimizer_step (session, &error);
        g_assert_no_error (error);
      }
  result->parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  g_unsetenv ("ORTRAIN_EXPAND");
  return result;
}

static void
assert_close (const Result *a, const Result *b, double limit)
{
  for (guint s = 0; s < N_STEPS; s++)
    g_assert_cmpfloat_with_epsilon (a->losses[s], b->losses[s], limit * fabs (b->losses[s]));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a->parameters), ==, ortrain_tensor_dict_get_size (b->parameters));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a->parameters); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (a->parameters, i);
      OrtrainTensor *x = ortrain_tensor_dict_get_tensor (a->parameters, i);
      OrtrainTensor *y = ortrain_tensor_dict_get (b->parameters, name);
      g_assert_nonnull (y);
      for (gint64 k = 0; k < ortrain_tensor_get_n_elements (x); k++)
        if (!(fabs (ortrain_tensor_get_scalar (x, k) - ortrain_tensor_get_scalar (y, k)) <= limit))
          g_error ("%s: element %d is %.9g, %.9g is right", name, (int) k, ortrain_tensor_get_scalar (x, k),
                   ortrain_tensor_get_scalar (y, k));
    }
}

/* ---- counts ---- */

/* Lines that begin with a name; all of them for NULL. */
static gint
count (const char *text, const char *name)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  gint n = 0;
  for (guint i = 0; lines[i] != NULL; i++)
    n += *lines[i] != '\0' && (name == NULL || g_str_has_prefix (lines[i], name));
  return n;
}

static void
show (const char *phase, const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    g_test_message ("%s %u: %s", phase, i, lines[i]);
}

typedef struct
{
  const char *name;
  Form form;
  OrtrainPrecision precision;
  /* of a layer: products, and all launches, forward and backward; with the pass and without */
  gint products[2], launches[2], products_without[2], launches_without[2];
} Case;

static const Case cases[] = {
  { "bert", { FALSE, FALSE, TRUE, FALSE }, ORTRAIN_PRECISION_BF16, { 4, 8 }, { 8, 16 }, { 6, 12 }, { 10, 18 } },
  { "bert-f32", { FALSE, FALSE, TRUE, FALSE }, ORTRAIN_PRECISION_F32, { 4, 8 }, { 8, 17 }, { 6, 12 }, { 10, 19 } },
  { "bert-shared-bias",
    { FALSE, FALSE, TRUE, TRUE },
    ORTRAIN_PRECISION_BF16,
    { 4, 8 },
    { 8, 18 },
    { 6, 12 },
    { 10, 20 } },
  { "bert-transposed",
    { FALSE, TRUE, TRUE, FALSE },
    ORTRAIN_PRECISION_BF16,
    { 4, 8 },
    { 8, 16 },
    { 6, 12 },
    { 10, 18 } },
  { "vit", { TRUE, FALSE, TRUE, FALSE }, ORTRAIN_PRECISION_BF16, { 4, 8 }, { 8, 16 }, { 6, 12 }, { 10, 18 } },
  { "vit-transposed", { TRUE, TRUE, TRUE, FALSE }, ORTRAIN_PRECISION_BF16, { 4, 8 }, { 8, 16 }, { 6, 12 }, { 10, 18 } },
  { "vit-without-bias",
    { TRUE, TRUE, FALSE, FALSE },
    ORTRAIN_PRECISION_BF16,
    { 4, 8 },
    { 8, 13 },
    { 6, 12 },
    { 10, 17 } },
};

static void
check (const char *what, gint found, gint want)
{
  g_test_message ("%s: %d a layer, %d expected", what, found, want);
  g_assert_cmpint (found, ==, want);
}

static void
test_counts (gconstpointer data)
{
  const Case *c = data;
  for (guint without = 0; without < 2; without++)
    {
      const Way way = { .provider = "cuda",
                        .precision = c->precision,
                        .immediate = ORTRAIN_IMMEDIATE_UPDATES_OFF,
                        .without = without ? "pack-linear" : NULL };
      g_autoptr (Result) two = train (&c->form, 2, &way), three = train (&c->form, 3, &way);
      const gint *products = without ? c->products_without : c->products;
      const gint *launches = without ? c->launches_without : c->launches;
      if (!ortrain_fake_cuda_is_in_use ())
        return;
      show ("forward", three->forward);
      show ("backward", three->backward);
      check ("products forward", count (three->forward, "product") - count (two->forward, "product"), products[0]);
      check ("products backward", count (three->backward, "product") - count (two->backward, "product"), products[1]);
      check ("launches forward", count (three->forward, NULL) - count (two->forward, NULL), launches[0]);
      check ("launches backward", count (three->backward, NULL) - count (two->backward, NULL), launches[1]);
    }
}

/* ---- values ---- */

/* As without the pass, and as the CPU; where gradients are accumulated, and where each update follows its gradient; and
 * by the operators' bodies. */
static void
test_values (gconstpointer data)
{
  static const char bodies[] = "PackedLinear,PackedLinearInputGrad,PackedLinearGrad";
  const Case *c = data;
  const double limit = c->precision == ORTRAIN_PRECISION_F32 ? 2e-5 : 2e-2;
  const OrtrainImmediateUpdates off = ORTRAIN_IMMEDIATE_UPDATES_OFF, on = ORTRAIN_IMMEDIATE_UPDATES_ON;
  const Way ways[] = { { "cuda", c->precision, off, 1, NULL, NULL },
                       { "cuda", c->precision, on, 1, NULL, NULL },
                       { "cuda", c->precision, off, 1, NULL, bodies },
                       { "cuda", c->precision, off, 1, "pack-linear", NULL } };
  g_autoptr (Result) host = train (&c->form, 2, &(Way){ "cpu", c->precision, off, 1, NULL, NULL });
  for (guint i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autoptr (Result) device = train (&c->form, 2, &ways[i]);
      assert_close (device, host, limit);
    }
  if (c->form.has_bias && !c->form.shares_bias) /* its gradient is zero, without a rest from rounding */
    {
      g_autoptr (Result) device = train (&c->form, 2, &ways[0]);
      g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (device->parameters, "layer.0.k.bias"),
                                           ortrain_tensor_dict_get (host->parameters, "layer.0.k.bias")));
    }
  g_autoptr (Result) host_sums = train (&c->form, 2, &(Way){ "cpu", c->precision, off, 2, NULL, NULL });
  g_autoptr (Result) sums = train (&c->form, 2, &(Way){ "cuda", c->precision, off, 2, NULL, NULL });
  assert_close (sums, host_sums, limit);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *counts = g_strconcat ("/cuda-packed-products/counts/", cases[i].name, NULL);
      g_autofree char *values = g_strconcat ("/cuda-packed-products/values/", cases[i].name, NULL);
      g_test_add_data_func (counts, &cases[i], test_counts);
      g_test_add_data_func (values, &cases[i], test_values);
    }
  return g_test_run ();
}
