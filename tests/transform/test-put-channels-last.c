/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../ops/op-harness.h"

#include "ops/upgrade/ortrain-upgrade-private.h"
#include "specialize/ortrain-specialize-private.h"
#include "transform/ortrain-expand-private.h"
#include "transform/ortrain-passes-private.h"
#include "transform/ortrain-put-channels-last-private.h"

/* Regions with channels last in graphs with their gradients: for a device that says how much each convolution is
 * spared, which ones are converted, which values are transposed at their borders, and that all results are the same.
 * Convolutions with channels last are computed by their bodies. */

typedef enum
{
  RESIDUAL,  /* two convolutions, batch normalizations, a pool, and a residual addition */
  JOINED,    /* convolutions side by side, of which one has groups */
  FLATTENED, /* images of several pixels as rows of a matrix */
  SHOWN,     /* an output of the graph in the middle, another one at the end */
  EXCITED,   /* factors for each channel, from a pool over all pixels */
  TURNED,    /* an exporter's transpositions to channels last and back */
  BROADCAST, /* one number for each channel, row, pixel and element */
  POOLED,    /* all pools that have a form with channels last */
  UPSAMPLED, /* transposed convolutions, and images of other sizes, by scales, sizes, and of one axis */
  KEPT,      /* an image that both passes read in both layouts */
  LINE,      /* one spatial dimension */
  VOLUME,    /* three */
  CHEAP,     /* little is spared: the transpositions would cost more */
  N_PATTERNS,
} Pattern;

static const struct
{
  const char *name;
  guint converted, transposes; /* convolutions and their gradients; at most so many transpositions */
} patterns[] = {
  [RESIDUAL] = { "residual", 6, 2 },   [JOINED] = { "joined", 9, 4 },   [FLATTENED] = { "flattened", 3, 4 },
  [SHOWN] = { "shown", 6, 5 },         [EXCITED] = { "excited", 9, 4 }, [TURNED] = { "turned", 6, 4 },
  [BROADCAST] = { "broadcast", 6, 6 }, [POOLED] = { "pooled", 3, 2 },   [LINE] = { "line", 0, 0 },
  [UPSAMPLED] = { "upsampled", 9, 4 }, [KEPT] = { "kept", 6, 8 },       [VOLUME] = { "volume", 0, 0 },
  [CHEAP] = { "cheap", 0, 0 },
};

/* ---- the device ---- */

static double spared; /* of each byte of an operand */

static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  for (guint i = 0; i < 2; i++)
    setup->spared_bytes += spared * (double) setup->inputs[i].n_bytes;
  return TRUE;
}

static const OrtrainKernel kernel = { .op_type = "ConvChannelsLast", .domain = ORTRAIN_DOMAIN, .prepare = prepare };

static const OrtrainKernel *
find_kernel (const OrtrainProvider *self, const char *domain, const char *op_type, const OrtrainOperand *inputs,
             guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  return g_str_has_prefix (op_type, "ConvChannelsLast")
             ? &kernel
             : ortrain_provider_get_host ()->klass->find_kernel (ortrain_provider_get_host (), domain, op_type, inputs,
                                                                 n_inputs, outputs, n_outputs);
}

static gboolean
has_kernel (const OrtrainNode *node, gpointer data)
{
  return !g_str_has_prefix (node->op_type, "ConvChannelsLast");
}

/* ---- graphs ---- */

#define MAX_WANTED 24

typedef struct
{
  OrtrainGraph *graph;
  GHashTable *contents;
  OrtrainValue *wanted[MAX_WANTED]; /* inputs whose gradients are compared */
  guint n_wanted;
} Builder;

static OrtrainValue *
add_input (Builder *b, const gint64 *dims, gsize rank)
{
  g_autoptr (OrtrainTensor) tensor = harness_wave (ORTRAIN_DTYPE_FLOAT64, dims, rank, 0.37 + b->n_wanted * 0.11, 0.9);
  g_assert_cmpuint (b->n_wanted, <, MAX_WANTED);
  return b->wanted[b->n_wanted++] = harness_input (b->graph, b->contents, NULL, tensor);
}

static OrtrainValue *
add (Builder *b, const char *op_type, OrtrainValue *x, OrtrainValue *y)
{
  OrtrainValue *inputs[] = { x, y };
  return ortrain_node_output (ortrain_graph_new_node (b->graph, "", op_type, NULL, inputs, y != NULL ? 2 : 1, 1), 0);
}

static OrtrainValue *
add_conv (Builder *b, OrtrainValue *x, gint64 channels, gint64 filters, gint64 kernel_size, guint n_spatial,
          gint64 stride, gint64 group, gboolean has_bias)
{
  const gint64 dims[] = { filters, channels / group, kernel_size, kernel_size, kernel_size }, pad = kernel_size / 2;
  const gint64 pads[] = { pad, pad, pad, pad, pad, pad }, strides[] = { stride, stride, stride };
  OrtrainValue *inputs[] = { x, add_input (b, dims, 2 + n_spatial), has_bias ? add_input (b, &filters, 1) : NULL };
  OrtrainNode *node = ortrain_graph_new_node (b->graph, "", "Conv", NULL, inputs, has_bias ? 3 : 2, 1);
  ortrain_attributes_set_ints (node->attributes, "pads", pads, 2 * n_spatial);
  ortrain_attributes_set_ints (node->attributes, "strides", strides, n_spatial);
  ortrain_attributes_set_int (node->attributes, "group", group);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
add_norm (Builder *b, OrtrainValue *x, gint64 channels)
{
  OrtrainValue *scale = add_input (b, &channels, 1), *bias = add_input (b, &channels, 1);
  OrtrainValue *inputs[] = { x, scale, bias, scale, bias };
  OrtrainNode *node = ortrain_graph_new_node (b->graph, ORTRAIN_DOMAIN, "BatchNormTrain", NULL, inputs, 5, 1);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
add_turn (Builder *b, OrtrainValue *x, const gint64 *perm)
{
  OrtrainNode *node = ortrain_graph_new_node (b->graph, "", "Transpose", NULL, &x, 1, 1);
  ortrain_attributes_set_ints (node->attributes, "perm", perm, 4);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
add_pool (Builder *b, const char *op_type, OrtrainValue *x, gint64 size, gint64 stride, gint64 pad)
{
  const gint64 sizes[] = { size, size }, strides[] = { stride, stride }, pads[] = { pad, 0, pad, pad };
  OrtrainNode *node = ortrain_graph_new_node (b->graph, "", op_type, NULL, &x, 1, 1);
  ortrain_attributes_set_ints (node->attributes, "kernel_shape", sizes, 2);
  ortrain_attributes_set_ints (node->attributes, "strides", strides, 2);
  ortrain_attributes_set_ints (node->attributes, "pads", pads, 4);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
add_reshape (Builder *b, OrtrainValue *x, const gint64 *dims, gsize rank)
{
  return add (b, "Reshape", x, ortrain_graph_const_ints (b->graph, dims, rank));
}

#define BATCH 2
#define HEIGHT 5
#define WIDTH 6

static OrtrainValue *
add_joined (Builder *b, OrtrainValue *x)
{
  OrtrainValue *parts[] = { add_conv (b, x, 4, 6, 3, 2, 1, 2, FALSE), add_conv (b, x, 4, 2, 1, 2, 1, 1, TRUE), x };
  OrtrainNode *node = ortrain_graph_new_node (b->graph, "", "Concat", NULL, parts, 3, 1);
  ortrain_attributes_set_int (node->attributes, "axis", 1);
  return add_conv (b, add (b, "Relu", ortrain_node_output (node, 0), NULL), 12, 4, 3, 2, 2, 1, FALSE);
}

static OrtrainValue *
add_excited (Builder *b, OrtrainValue *x)
{
  OrtrainValue *y = add (b, "Relu", add_conv (b, x, 4, 6, 3, 2, 1, 1, FALSE), NULL);
  OrtrainValue *factors = add_conv (b, add (b, "GlobalAveragePool", y, NULL), 6, 6, 1, 2, 1, 1, TRUE);
  return add_conv (b, add (b, "Mul", y, add (b, "Sigmoid", factors, NULL)), 6, 3, 1, 2, 1, 1, FALSE);
}

static OrtrainValue *
add_turned (Builder *b, OrtrainValue *x)
{
  static const gint64 last[] = { 0, 2, 3, 1 }, second[] = { 0, 3, 1, 2 };
  static const gint64 square[] = { 4, 4 };
  OrtrainValue *y = add_conv (b, x, 4, 4, 3, 2, 1, 4, TRUE);
  OrtrainValue *rows = add (b, "MatMul", add_turn (b, y, last), add_input (b, square, 2));
  y = add (b, "Add", y, add_turn (b, add (b, "Relu", rows, NULL), second));
  return add_conv (b, y, 4, 5, 3, 2, 1, 1, FALSE);
}

static OrtrainValue *
add_broadcast (Builder *b, OrtrainValue *x)
{
  static const gint64 of_channels[] = { 4, 1, 1 }, of_rows[] = { HEIGHT, 1 }, of_pixels[] = { HEIGHT, WIDTH };
  static const gint64 of_elements[] = { 4, HEIGHT, WIDTH }, one = 1;
  OrtrainValue *y = add_conv (b, x, 4, 4, 3, 2, 1, 1, FALSE);
  y = add (b, "Mul", y, add_input (b, of_channels, 3));
  y = add (b, "Add", y, add_input (b, of_rows, 2));
  y = add (b, "Mul", add_input (b, of_pixels, 2), y);
  y = add (b, "Add", y, add_input (b, of_elements, 3));
  y = add (b, "Mul", y, add_input (b, &one, 1));
  return add_conv (b, y, 4, 3, 1, 2, 1, 1, FALSE);
}

static OrtrainValue *
add_pooled (Builder *b, OrtrainValue *x)
{
  OrtrainValue *y = add_conv (b, x, 4, 6, 3, 2, 1, 1, TRUE);
  y = add (b, "Add", add_pool (b, "MaxPool", y, 3, 2, 1), add_pool (b, "AveragePool", y, 3, 2, 1));
  y = add (b, "Mul", y,
           add_reshape (b, add (b, "ReduceMean", y, ortrain_graph_const_ints (b->graph, (gint64[]){ -1, 2 }, 2)),
                        (gint64[]){ 0, -1, 1, 1 }, 4));
  return add_reshape (b, add (b, "GlobalAveragePool", y, NULL), (gint64[]){ 0, -1 }, 2);
}

static OrtrainValue *
add_transposed (Builder *b, OrtrainValue *x, gint64 channels, gint64 filters, gint64 group, gboolean is_sized)
{
  const gint64 dims[] = { channels, filters / group, 3, 2 }, strides[] = { 2, 1 }, pads[] = { 1, 0, 0, 1 };
  const gint64 more[] = { 1, 0 }, sizes[] = { 2 * HEIGHT - 1, WIDTH };
  OrtrainValue *inputs[] = { x, add_input (b, dims, 4), add_input (b, &filters, 1) };
  OrtrainNode *node = ortrain_graph_new_node (b->graph, "", "ConvTranspose", NULL, inputs, 3, 1);
  ortrain_attributes_set_ints (node->attributes, "strides", strides, 2);
  ortrain_attributes_set_int (node->attributes, "group", group);
  if (is_sized)
    ortrain_attributes_set_ints (node->attributes, "output_shape", sizes, 2);
  else
    {
      ortrain_attributes_set_ints (node->attributes, "pads", pads, 4);
      ortrain_attributes_set_ints (node->attributes, "output_padding", more, 2);
    }
  return ortrain_node_output (node, 0);
}

/* scales or sizes: [n], the other one is NULL. axes: [n], or NULL */
static OrtrainValue *
add_resized (Builder *b, OrtrainValue *x, const char *mode, const float *scales, const gint64 *sizes,
             const gint64 *axes, gint64 n)
{
  g_autoptr (OrtrainTensor) factors =
      scales != NULL ? ortrain_tensor_new_floats (&n, 1, scales, (gsize) n, NULL) : NULL;
  OrtrainValue *inputs[] = { x, NULL, factors != NULL ? ortrain_graph_new_initializer (b->graph, NULL, factors) : NULL,
                             sizes != NULL ? ortrain_graph_const_ints (b->graph, sizes, (gsize) n) : NULL };
  OrtrainNode *node = ortrain_graph_new_node (b->graph, "", "Resize", NULL, inputs, 4, 1);
  ortrain_attributes_set_string (node->attributes, "mode", mode);
  if (axes != NULL)
    ortrain_attributes_set_ints (node->attributes, "axes", axes, (gsize) n);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
add_upsampled (Builder *b, OrtrainValue *x)
{
  static const float scales[] = { 1, 1, 1.6f, 2 };
  static const gint64 sizes[] = { 2, 4, 7, 4 }, rows[] = { 3 }, axes[] = { -2 };
  OrtrainValue *y = add_transposed (b, add_transposed (b, x, 4, 6, 2, FALSE), 6, 4, 1, TRUE);
  y = add_resized (b, y, "linear", scales, NULL, NULL, 4);
  y = add_resized (b, y, "cubic", NULL, sizes, NULL, 4);
  y = add_resized (b, y, "linear", NULL, rows, axes, 1);
  return add_conv (b, y, 4, 3, 3, 2, 1, 1, FALSE);
}

/* Nothing normalizes groups of channels with channels last. */
static OrtrainValue *
add_kept (Builder *b, OrtrainValue *x)
{
  const gint64 n = 4;
  OrtrainValue *y = add_conv (b, x, 4, 4, 3, 2, 1, 1, FALSE);
  OrtrainValue *inputs[] = { y, add_input (b, &n, 1), add_input (b, &n, 1) };
  OrtrainNode *norm = ortrain_graph_new_node (b->graph, "", "GroupNormalization", NULL, inputs, 3, 1);
  ortrain_attributes_set_int (norm->attributes, "num_groups", 2);
  y = add (b, "Mul", add (b, "Tanh", y, NULL), add (b, "Sin", y, NULL));
  return add_conv (b, add (b, "Mul", y, ortrain_node_output (norm, 0)), 4, 3, 1, 2, 1, 1, FALSE);
}

static OrtrainValue *
add_residual (Builder *b, OrtrainValue *x)
{
  OrtrainValue *y = add (b, "Relu", add_norm (b, add_conv (b, x, 4, 4, 3, 2, 1, 1, FALSE), 4), NULL);
  OrtrainValue *z = add_norm (b, add_conv (b, y, 4, 4, 3, 2, 1, 1, FALSE), 4);
  z = add (b, "Relu", add (b, "Add", z, y), NULL);
  return add_reshape (b, add (b, "GlobalAveragePool", z, NULL), (gint64[]){ 0, -1 }, 2);
}

static OrtrainValue *
add_pattern (Builder *b, Pattern pattern)
{
  static const gint64 dims[] = { BATCH, 4, HEIGHT, WIDTH, 3 }, weights[] = { 3 * HEIGHT * WIDTH, 2 };
  OrtrainValue *x = add_input (b, dims, pattern == LINE ? 3 : pattern == VOLUME ? 5 : 4), *y;
  switch (pattern)
    {
    case RESIDUAL:
      return add_residual (b, x);
    case JOINED:
      return add_joined (b, x);
    case FLATTENED:
      y = add (b, "Relu", add_conv (b, x, 4, 3, 3, 2, 1, 1, TRUE), NULL);
      return add (b, "MatMul", add_reshape (b, y, (gint64[]){ 0, -1 }, 2), add_input (b, weights, 2));
    case SHOWN:
      y = add (b, "Relu", add_conv (b, x, 4, 3, 3, 2, 1, 1, TRUE), NULL);
      ortrain_graph_mark_output (b->graph, y, TRUE);
      return add_conv (b, y, 3, 5, 3, 2, 1, 1, FALSE);
    case EXCITED:
      return add_excited (b, x);
    case TURNED:
      return add_turned (b, x);
    case BROADCAST:
      return add_broadcast (b, x);
    case POOLED:
      return add_pooled (b, x);
    case UPSAMPLED:
      return add_upsampled (b, x);
    case KEPT:
      return add_kept (b, x);
    default:
      y = add_conv (b, x, 4, 6, 3, pattern == LINE ? 1 : pattern == VOLUME ? 3 : 2, 1, 1, TRUE);
      return add (b, "Relu", y, NULL);
    }
}

static guint
count (OrtrainGraph *graph, const char *prefix)
{
  guint n = 0;
  for (guint i = 0; i < graph->nodes->len; i++)
    n += g_str_has_prefix (((OrtrainNode *) graph->nodes->pdata[i])->op_type, prefix);
  return n;
}

/* Values that the forward pass and the backward pass transpose in the same way. */
static guint
count_turned_again (OrtrainGraph *graph)
{
  guint n = 0;
  for (guint i = 0; i < graph->nodes->len; i++)
    for (guint k = 0; k < i; k++)
      {
        OrtrainNode *a = graph->nodes->pdata[i], *b = graph->nodes->pdata[k];
        n += g_str_equal (a->op_type, "Transpose") && g_str_equal (b->op_type, "Transpose") &&
             ortrain_node_input (a, 0) == ortrain_node_input (b, 0) && a->phase != b->phase;
      }
  return n;
}

/* Results: outputs of the graph, then gradients. */
static GPtrArray *
run (Pattern pattern, gboolean converts, guint *converted, guint *transposes)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  Builder b = { .graph = graph, .contents = contents };
  OrtrainValue *gradients[MAX_WANTED], *y = add_pattern (&b, pattern);
  y = add (&b, "Mul", y, y); /* its gradient is no constant */
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_graph_mark_output (graph, y, TRUE);
  graph->opset = 23;
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok && ortrain_value_get_static_dims (y, dims));
  g_autoptr (OrtrainTensor) weights = harness_cosine (dims, (gsize) y->rank, 0.9);
  OrtrainValue *loss = harness_weighted_sum (graph, y, weights);
  g_autoptr (GPtrArray) outputs = g_ptr_array_copy (graph->outputs, NULL, NULL);
  ok = ortrain_gradient_build (graph, loss, b.wanted, b.n_wanted, gradients, &error);
  for (guint i = 0; i < b.n_wanted && ok; i++)
    {
      ortrain_graph_mark_output (graph, gradients[i], TRUE);
      g_ptr_array_add (outputs, gradients[i]);
    }
  ok = ok && ortrain_split_norms (graph, &error) && ortrain_fold_constants (graph, &error) &&
       ortrain_graph_sort (graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  OrtrainProviderClass klass = *ortrain_provider_get_host ()->klass;
  OrtrainProvider device = *ortrain_provider_get_host ();
  klass.find_kernel = find_kernel;
  device.klass = &klass;
  const guint before = count (graph, "Transpose");
  spared = pattern == CHEAP ? 0.01 : 8;
  ok = !converts || ortrain_put_channels_last (graph, &device, &error);
  g_assert_no_error (error);
  *converted = count (graph, "ConvChannelsLast");
  *transposes = count (graph, "Transpose");
  g_assert_cmpuint (count_turned_again (graph), ==, pattern == KEPT && converts ? 1 : 0);
  if (pattern == TURNED && converts)
    g_assert_cmpuint (count (graph, "Identity"), ==, before);
  ok = ok && ortrain_expand_nodes (graph, has_kernel, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  harness_run (graph, contents, NULL);
  GPtrArray *results = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint i = 0; i < outputs->len; i++)
    g_ptr_array_add (results, g_object_ref (g_hash_table_lookup (contents, graph->outputs->pdata[i])));
  return results;
}

static void
test_pattern (gconstpointer data)
{
  const Pattern pattern = (Pattern) GPOINTER_TO_INT (data);
  guint converted, transposes;
  g_autoptr (GPtrArray) before = run (pattern, FALSE, &converted, &transposes);
  g_assert_cmpuint (converted, ==, 0);
  g_autoptr (GPtrArray) after = run (pattern, TRUE, &converted, &transposes);
  g_test_message ("%u convolutions are converted, %u transpositions", converted, transposes);
  g_assert_cmpuint (converted, ==, patterns[pattern].converted);
  g_assert_cmpuint (transposes, <=, patterns[pattern].transposes);
  g_assert_cmpuint (before->len, ==, after->len);
  for (guint i = 0; i < before->len; i++)
    {
      OrtrainTensor *x = before->pdata[i], *y = after->pdata[i];
      g_assert_cmpint (ortrain_tensor_get_rank (x), ==, ortrain_tensor_get_rank (y));
      for (guint d = 0; d < ortrain_tensor_get_rank (x); d++)
        g_assert_cmpint (ortrain_tensor_peek_dims (x)[d], ==, ortrain_tensor_peek_dims (y)[d]);
      for (gint64 k = 0; k < ortrain_tensor_get_n_elements (x); k++)
        g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (x, k) - ortrain_tensor_get_scalar (y, k)), <=, 1e-11);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (int i = 0; i < N_PATTERNS; i++)
    {
      g_autofree char *path = g_strdup_printf ("/transform/put-channels-last/%s", patterns[i].name);
      g_test_add_data_func (path, GINT_TO_POINTER (i), test_pattern);
    }
  return g_test_run ();
}
