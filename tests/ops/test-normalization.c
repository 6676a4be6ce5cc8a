/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "batch-norm-again.h"
#include "op-harness.h"
#include "ops/upgrade/ortrain-upgrade-private.h"

/* Batch normalisation against PyTorch's numbers, by planes and by rows; layer and group normalisation against sums
 * written out here; equal bits at any number of threads. */

static void
check_batch_norm_train (gint64 opset, guint n_outputs, gboolean has_mode)
{
  const gint64 dims[] = { 3, 5, 4, 2 }, channels[] = { 5 };
  const double zeros[5] = { 0 }, ones[] = { 1, 1, 1, 1, 1 };
  const double scale[] = { 0.5, 0.75, 1, 1.25, 1.5 }, bias[] = { -1, -0.5, 0, 0.5, 1 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) x = harness_wave (ORTRAIN_DTYPE_FLOAT64, dims, 4, 0.41, 1.5);
  double *values = ortrain_tensor_peek_writable (x);
  for (int i = 0; i < 120; i++)
    values[i] += 0.3;
  OrtrainValue *operands[5];
  operands[0] = harness_input (graph, contents, "x", x);
  const double *rest[] = { scale, bias, zeros, ones };
  for (int i = 0; i < 4; i++)
    {
      g_autoptr (OrtrainTensor) tensor = harness_tensor (ORTRAIN_DTYPE_FLOAT64, rest[i], channels, 1);
      operands[i + 1] = harness_input (graph, contents, NULL, tensor);
    }
  /* as a file in training form has it */
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "BatchNormalization", NULL, operands, 5, n_outputs);
  if (has_mode)
    ortrain_attributes_set_int (node->attributes, "training_mode", 1);
  for (guint k = 0; k < 3; k++)
    ortrain_graph_mark_output (graph, ortrain_node_output (node, k), TRUE);
  graph->opset = opset;
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  OrtrainValue *y = graph->outputs->pdata[0], *mean = graph->outputs->pdata[1], *var = graph->outputs->pdata[2];
  g_autoptr (OrtrainTensor) weights = harness_cosine (dims, 4, 0.9);
  OrtrainValue *gradients[3], *loss = harness_weighted_sum (graph, y, weights);
  ok = ortrain_gradient_build (graph, loss, operands, 3, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  harness_run (graph, contents, NULL);
  const struct
  {
    OrtrainValue *value;
    double digest;
  } expected[] = {
    { y, -3.87635318627634 },           { gradients[0], 2.30748095156509 }, { gradients[1], 0.517011437460373 },
    { gradients[2], 1.31422179380848 }, { mean, 0.00985330991897856 },      { var, 0.594355000364395 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    g_assert_cmpfloat (
        fabs (harness_digest (g_hash_table_lookup (contents, expected[i].value), FALSE) - expected[i].digest), <=,
        1e-12);
}

/* The third is not ONNX's: PyTorch's older exporter writes it for InstanceNorm with running statistics. */
static void
test_batch_norm_train (void)
{
  check_batch_norm_train (15, 3, TRUE);
  check_batch_norm_train (9, 5, FALSE);
  check_batch_norm_train (20, 5, FALSE);
}

/* ---- Kernels called directly: threads ---- */
typedef struct
{
  OrtrainOperand operand;
  gint64 dims[4];
  float *data;
} Buffer;

static void
buffer_init (Buffer *self, guint rank, const gint64 *dims, guint seed)
{
  gint64 n = 1;
  for (guint d = 0; d < rank; d++)
    n *= self->dims[d] = dims[d];
  self->data = g_new (float, (gsize) n);
  self->operand = (OrtrainOperand){ ORTRAIN_DTYPE_FLOAT32, rank, self->dims, n, (gsize) n * sizeof (float), NULL };
  for (gint64 i = 0; i < n; i++)
    self->data[i] = sinf (0.37f * (float) i + (float) seed) + 0.5f;
}

static void
run_kernel (const char *domain, const char *op_type, Buffer *in, guint n_in, Buffer *out, guint n_out,
            OrtrainProvider *provider)
{
  OrtrainOperand inputs[8], outputs[8];
  const void *from[8];
  void *to[8];
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  OrtrainHostContext context;
  init_context (&context, provider);
  for (guint i = 0; i < n_in; i++)
    {
      inputs[i] = in[i].operand;
      from[i] = in[i].data;
    }
  for (guint i = 0; i < n_out; i++)
    {
      outputs[i] = out[i].operand;
      to[i] = out[i].data;
    }
  const OrtrainKernel *kernel =
      ortrain_provider_find (context.provider, domain, op_type, inputs, n_in, outputs, n_out, &error);
  g_assert_no_error (error);
  OrtrainKernelSetup setup = { .op_type = op_type,
                               .domain = domain,
                               .attributes = attributes,
                               .inputs = inputs,
                               .outputs = outputs,
                               .n_inputs = n_in,
                               .n_outputs = n_out,
                               .provider = context.provider };
  gboolean ok = kernel->prepare (&setup, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  g_autofree guint8 *workspace = g_malloc (setup.workspace_bytes + 64);
  OrtrainKernelCall call = { .inputs = from, .outputs = to, .constants = setup.constants, .context = &context.context };
  call.workspace = (void *) (((gsize) workspace + 63) & ~(gsize) 63);
  kernel->run (&call);
  setup.constants_free (setup.constants);
}

static void
test_batch_norm_threads (void)
{
  const gint64 images[] = { 6, 70, 5, 7 }, rows[] = { 210, 70 }, channels[] = { 70 };
  Buffer in[4][5], out[4][5], back_in[4][5], back_out[4][3];
  for (int variant = 0; variant < 4; variant++) /* images or rows, threads */
    {
      const gint64 *full = variant & 1 ? rows : images;
      const guint rank = variant & 1 ? 2 : 4;
      g_autoptr (OrtrainProvider) provider = variant & 2 ? new_cpu (4) : NULL;
      for (int i = 0; i < 5; i++)
        {
          buffer_init (&in[variant][i], i == 0 ? rank : 1, i == 0 ? full : channels, (guint) i);
          buffer_init (&out[variant][i], i == 0 ? rank : 1, i == 0 ? full : channels, 0);
          buffer_init (&back_in[variant][i], i < 2 ? rank : 1, i < 2 ? full : channels, (guint) (i == 1 ? 0 : 9 + i));
        }
      for (int i = 0; i < 3; i++)
        buffer_init (&back_out[variant][i], i == 0 ? rank : 1, i == 0 ? full : channels, 0);
      run_kernel (ORTRAIN_DOMAIN, "BatchNormTrain", in[variant], 5, out[variant], 5, provider);
      for (int c = 0; c < 70; c++) /* mean and 1/deviation of the forward pass */
        {
          back_in[variant][3].data[c] = out[variant][3].data[c];
          back_in[variant][4].data[c] = out[variant][4].data[c];
        }
      run_kernel (ORTRAIN_DOMAIN, "BatchNormGrad", back_in[variant], 5, back_out[variant], 3, provider);
    }
  for (int i = 0; i < 8; i++)
    for (int variant = 0; variant < 2; variant++)
      {
        const Buffer *one = i < 5 ? &out[variant][i] : &back_out[variant][i - 5];
        const Buffer *four = i < 5 ? &out[variant + 2][i] : &back_out[variant + 2][i - 5];
        g_assert_cmpmem (one->data, one->operand.n_bytes, four->data, four->operand.n_bytes);
      }
  for (int variant = 0; variant < 4; variant++)
    {
      for (int i = 0; i < 5; i++)
        {
          g_free (in[variant][i].data);
          g_free (out[variant][i].data);
          g_free (back_in[variant][i].data);
        }
      for (int i = 0; i < 3; i++)
        g_free (back_out[variant][i].data);
    }
}

static void
test_batch_norm_again (void)
{
  for (guint threads = 1; threads <= 3; threads += 2)
    {
      g_autoptr (OrtrainProvider) provider = new_cpu (threads);
      check_batch_norms_again (provider, ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32);
      check_batch_norms_again (provider, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT64);
      check_batch_norms_again (provider, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32);
      check_batch_norms_again (provider, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_FLOAT32);
    }
}

static void
test_layer_norm_float (void)
{
  const gint64 full[] = { 300, 770 }, row[] = { 770 }, rows[] = { 300 };
  Buffer in[3], out[2][3], back_in[5], back_out[2][3];
  for (int i = 0; i < 3; i++)
    buffer_init (&in[i], i == 0 ? 2 : 1, i == 0 ? full : row, (guint) i);
  for (int i = 0; i < 5; i++)
    buffer_init (&back_in[i], i < 2 ? 2 : 1, i < 2 ? full : i == 2 ? row : rows, (guint) i);
  memcpy (back_in[1].data, in[0].data, in[0].operand.n_bytes);
  for (int threads = 0; threads < 2; threads++)
    {
      g_autoptr (OrtrainProvider) provider = threads ? new_cpu (3) : NULL;
      for (int i = 0; i < 3; i++)
        {
          buffer_init (&out[threads][i], i == 0 ? 2 : 1, i == 0 ? full : rows, 0);
          buffer_init (&back_out[threads][i], i == 0 ? 2 : 1, i == 0 ? full : row, 0);
        }
      run_kernel ("", "LayerNormalization", in, 3, out[threads], 3, provider);
      memcpy (back_in[3].data, out[threads][1].data, 300 * sizeof (float));
      memcpy (back_in[4].data, out[threads][2].data, 300 * sizeof (float));
      run_kernel (ORTRAIN_DOMAIN, "LayerNormGrad", back_in, 5, back_out[threads], 3, provider);
    }
  g_autofree double *dscale = g_new0 (double, 770), *dbias = g_new0 (double, 770);
  for (int r = 0; r < 300; r++)
    {
      const float *x = in[0].data + r * 770, *dy = back_in[0].data + r * 770, *scale = back_in[2].data;
      double mean = 0, var = 0, sum = 0, dot = 0;
      for (int i = 0; i < 770; i++)
        mean += x[i] / 770.0;
      for (int i = 0; i < 770; i++)
        var += (x[i] - mean) * (x[i] - mean) / 770.0;
      double inverse = 1 / sqrt (var + 1e-5);
      for (int i = 0; i < 770; i++)
        {
          double hat = (x[i] - mean) * inverse;
          g_assert_cmpfloat (fabs (out[0][0].data[r * 770 + i] - (hat * in[1].data[i] + in[2].data[i])), <=, 1e-5);
          dscale[i] += dy[i] * hat;
          dbias[i] += dy[i];
          sum += dy[i] * (double) scale[i] / 770;
          dot += dy[i] * (double) scale[i] * hat / 770;
        }
      for (int i = 0; i < 770; i++)
        {
          double hat = (x[i] - mean) * inverse, dx = inverse * (dy[i] * (double) scale[i] - sum - hat * dot);
          g_assert_cmpfloat (fabs (back_out[0][0].data[r * 770 + i] - dx), <=, 2e-5);
        }
    }
  for (int i = 0; i < 770; i++)
    {
      g_assert_cmpfloat (fabs (back_out[0][1].data[i] - dscale[i]), <=, 1e-4);
      g_assert_cmpfloat (fabs (back_out[0][2].data[i] - dbias[i]), <=, 1e-4);
    }
  for (int i = 0; i < 3; i++)
    {
      g_assert_cmpmem (out[0][i].data, out[0][i].operand.n_bytes, out[1][i].data, out[1][i].operand.n_bytes);
      g_assert_cmpmem (back_out[0][i].data, back_out[0][i].operand.n_bytes, back_out[1][i].data,
                       back_out[1][i].operand.n_bytes);
      for (int threads = 0; threads < 2; threads++)
        {
          g_free (out[threads][i].data);
          g_free (back_out[threads][i].data);
        }
      g_free (in[i].data);
    }
  for (int i = 0; i < 5; i++)
    g_free (back_in[i].data);
}

/* GroupNormalization of operator set 18 has a scale per group; each channel takes its group's. */
static void
test_group_norm_18 (void)
{
  const gint64 dims[] = { 1, 4, 2 }, groups[] = { 2 };
  const double values[] = { 1, 2, 3, 4, 5, 6, 7, 10 }, scale[] = { 2, 3 }, bias[] = { 0.5, -1 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) x = harness_tensor (ORTRAIN_DTYPE_FLOAT64, values, dims, 3);
  g_autoptr (OrtrainTensor) s = harness_tensor (ORTRAIN_DTYPE_FLOAT64, scale, groups, 1);
  g_autoptr (OrtrainTensor) b = harness_tensor (ORTRAIN_DTYPE_FLOAT64, bias, groups, 1);
  OrtrainValue *operands[] = { harness_input (graph, contents, "x", x), harness_input (graph, contents, "s", s),
                               harness_input (graph, contents, "b", b) };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "GroupNormalization", NULL, operands, 3, 1);
  ortrain_attributes_set_int (node->attributes, "num_groups", 2);
  ortrain_attributes_set_float (node->attributes, "epsilon", 0);
  ortrain_graph_mark_output (graph, ortrain_node_output (node, 0), TRUE);
  graph->opset = 18;
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  harness_run (graph, contents, NULL);
  OrtrainTensor *y = g_hash_table_lookup (contents, graph->outputs->pdata[0]);
  for (int g = 0; g < 2; g++)
    {
      double mean = 0, var = 0;
      for (int i = 0; i < 4; i++)
        mean += values[4 * g + i] / 4;
      for (int i = 0; i < 4; i++)
        var += (values[4 * g + i] - mean) * (values[4 * g + i] - mean) / 4;
      for (int i = 0; i < 4; i++)
        g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (y, 4 * g + i) -
                                 ((values[4 * g + i] - mean) / sqrt (var) * scale[g] + bias[g])),
                           <=, 1e-12);
    }
}

/* ---- of groups ---- */

static void
run_groups (KernelRun *run, OrtrainProvider *provider, const char *op_type, gint64 groups)
{
  kernel_run_init (run, g_str_equal (op_type, "GroupNormalization") ? "" : "org.ortrain", op_type);
  ortrain_attributes_set_int (run->attributes, "num_groups", groups);
  ortrain_attributes_set_float (run->attributes, "epsilon", 1e-3);
  run->provider = provider;
}

static void
assert_same_elements (OrtrainTensor *a, OrtrainTensor *b)
{
  g_assert_cmpmem (ortrain_tensor_peek (a), ortrain_tensor_get_n_bytes (a), ortrain_tensor_peek (b),
                   ortrain_tensor_get_n_bytes (b));
}

/* NormApply with GroupNormStatistics computes the result of GroupNormalization, and the gradient does not depend on
 * which node computes the statistics; to the bit. x in `dtype`, all else in `type`. */
static void
check_groups (OrtrainProvider *provider, OrtrainDType dtype, OrtrainDType type, gint64 batch, gint64 channels,
              gint64 groups, gint64 inner)
{
  const gint64 dims[] = { batch, channels, inner }, one[] = { batch, channels, 1 }, row[] = { channels, 1 };
  KernelRun whole, statistics, apply, alone, given;
  run_groups (&whole, provider, "GroupNormalization", groups);
  kernel_run_add_input (&whole, kernel_random (dtype, dims, 3, 3, 1));
  kernel_run_add_input (&whole, kernel_random (type, row, 2, 1, 2));
  kernel_run_add_input (&whole, kernel_random (type, row, 2, 1, 3));
  kernel_run_add_output (&whole, dtype, dims, 3);
  kernel_run (&whole);

  run_groups (&statistics, provider, "GroupNormStatistics", groups);
  for (guint i = 0; i < 2; i++)
    kernel_run_add_input (&statistics, g_object_ref (whole.inputs[i]));
  for (guint k = 0; k < 3; k++)
    kernel_run_add_output (&statistics, type, one, 3);
  kernel_run (&statistics);
  g_assert_cmpfloat (statistics.setup.flops, <, whole.setup.flops);

  kernel_run_init (&apply, "org.ortrain", "NormApply");
  apply.provider = provider;
  kernel_run_add_input (&apply, g_object_ref (whole.inputs[0]));
  kernel_run_add_input (&apply, g_object_ref (statistics.outputs[0]));
  kernel_run_add_input (&apply, g_object_ref (statistics.outputs[2]));
  kernel_run_add_input (&apply, g_object_ref (whole.inputs[2]));
  kernel_run_add_output (&apply, dtype, dims, 3);
  kernel_run (&apply);
  assert_same_elements (whole.outputs[0], apply.outputs[0]);

  KernelRun *const gradients[] = { &alone, &given };
  for (guint g = 0; g < 2; g++)
    {
      run_groups (gradients[g], provider, "GroupNormGrad", groups);
      kernel_run_add_input (gradients[g], kernel_random (dtype, dims, 3, 3, 4));
      for (guint i = 0; i < 2; i++)
        kernel_run_add_input (gradients[g], g_object_ref (whole.inputs[i]));
      for (guint k = 0; k < 2 && g == 1; k++)
        kernel_run_add_input (gradients[g], g_object_ref (statistics.outputs[k]));
      kernel_run_add_output (gradients[g], dtype, dims, 3);
      for (guint k = 0; k < 2; k++)
        kernel_run_add_output (gradients[g], type, row, 2);
      kernel_run (gradients[g]);
    }
  for (guint k = 0; k < 3; k++)
    assert_same_elements (alone.outputs[k], given.outputs[k]);
  g_assert_cmpfloat (given.setup.flops, <, alone.setup.flops);
  KernelRun *const all[] = { &whole, &statistics, &apply, &alone, &given };
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    kernel_run_clear (all[i]);
}

static void
test_group_norm_parts (void)
{
  static const OrtrainDType types[][2] = { { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32 },
                                           { ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT64 },
                                           { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32 },
                                           { ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_FLOAT32 } };
  for (guint threads = 1; threads <= 3; threads += 2)
    {
      g_autoptr (OrtrainProvider) provider = new_cpu (threads);
      for (guint t = 0; t < G_N_ELEMENTS (types); t++)
        {
          check_groups (provider, types[t][0], types[t][1], 3, 6, 2, 1);
          check_groups (provider, types[t][0], types[t][1], 2, 6, 3, 37);
          check_groups (provider, types[t][0], types[t][1], 2, 5, 5, 600);
          check_groups (provider, types[t][0], types[t][1], 1, 4, 1, 3001); /* pieces that end within a channel */
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/normalization/batch-norm-train", test_batch_norm_train);
  g_test_add_func ("/ops/normalization/batch-norm-threads", test_batch_norm_threads);
  g_test_add_func ("/ops/normalization/batch-norm-again", test_batch_norm_again);
  g_test_add_func ("/ops/normalization/layer-norm-float", test_layer_norm_float);
  g_test_add_func ("/ops/normalization/group-norm-18", test_group_norm_18);
  g_test_add_func ("/ops/normalization/group-norm-parts", test_group_norm_parts);
  return g_test_run ();
}
