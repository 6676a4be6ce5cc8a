/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-graph-private.h"
#include "cuda/ortrain-cuda-conv-graph-private.h"
#include "cuda/ortrain-cuda-pool-graph-private.h"

#include "core/ortrain-dtype.h"

#include "folder.h"
#include "simt/cudnn-library.h"

#include <string.h>

/* The graphs that the provider composes, given to cuDNN itself: its heuristics answer for a GPU that is described in a
 * file, so that no GPU is needed. Execution is not tested here. */

static char *device;
static gsize workspace_limit = (gsize) 96 << 20;

void
ortrain_cuda_fail (const OrtrainKernelCall *call, const char *format, ...)
{
  g_assert_not_reached ();
}

gboolean
ortrain_cuda_fall_back (const OrtrainKernelSetup *setup, const char *counter, const char *reason, GError **error)
{
  g_assert_not_reached ();
}

static OrtrainDnnPlan *
plan (const OrtrainDnnGraph *graph, gboolean allow_tf32, const char *name)
{
  g_autoptr (GError) error = NULL;
  const OrtrainDnnTarget target = {
    .device = "H200", .device_json = device, .allow_tf32 = allow_tf32, .workspace_limit = workspace_limit
  };
  OrtrainDnnPlan *result = ortrain_dnn_plan (graph, &target, &error);
  if (result == NULL)
    g_test_message ("%s: %s", name, error->message);
  else
    g_test_message ("%s: %u engines, %" G_GSIZE_FORMAT " bytes of workspace", name,
                    ortrain_dnn_plan_get_n_engines (result), ortrain_dnn_plan_get_workspace_bytes (result));
  return result;
}

static const cudnnBackendDescriptorType_t kinds[] = {
  CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
};
static const char *const kind_names[] = { "forward", "backward data", "backward filter" };

typedef enum
{
  PLAIN,
  STRIDED,
  DEPTHWISE,
  VOLUME,
  UNEVEN,
  N_SHAPES,
} Shape;

static OrtrainCudaConv
make_conv (Shape shape, OrtrainDType dtype)
{
  OrtrainCudaConv conv = { .n_images = 8,
                           .n_groups = shape == DEPTHWISE ? 64 : 1,
                           .small_channels = shape == DEPTHWISE ? 1 : 64,
                           .large_channels = shape == DEPTHWISE ? 1 : 64,
                           .large = { 1, 28, 28 },
                           .small = { 1, 28, 28 },
                           .kernel = { 1, 3, 3 },
                           .stride = { 1, 1, 1 },
                           .dilation = { 1, 1, 1 },
                           .pad = { 0, 1, 1 } };
  if (shape == STRIDED || shape == UNEVEN)
    {
      conv.small[1] = conv.small[2] = 14;
      conv.stride[1] = conv.stride[2] = 2;
    }
  if (shape == UNEVEN) /* one after, none before */
    conv.pad[1] = conv.pad[2] = 0;
  if (shape == VOLUME)
    {
      conv.large[0] = conv.small[0] = 6;
      conv.kernel[0] = 3;
      conv.pad[0] = 1;
    }
  conv.large_dtype = conv.small_dtype = conv.weight_dtype = conv.bias_dtype = dtype;
  return conv;
}

static void
test_convolutions (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  static const char *const shapes[] = { "plain", "strided", "depthwise", "volume", "uneven" };
  if (!cudnn_library_open ())
    return;
  for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
    for (guint kind = 0; kind < 3; kind++)
      for (guint shape = 0; shape < N_SHAPES; shape++)
        for (guint with_bias = 0; with_bias < (kind == 0 ? 2 : 1); with_bias++)
          {
            const OrtrainCudaConv conv = make_conv (shape, dtypes[d]);
            g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
            g_autofree char *name = g_strdup_printf ("%s, %s%s, %s", ortrain_dtype_get_name (dtypes[d]),
                                                     kind_names[kind], with_bias ? " with bias" : "", shapes[shape]);
            ortrain_dnn_compose_convolution (graph, &conv, kinds[kind], with_bias);
            OrtrainDnnPlan *engines = plan (graph, FALSE, name);
            g_assert_nonnull (engines);
            g_assert_cmpuint (ortrain_dnn_plan_get_workspace_bytes (engines), <, 32 << 20);
            for (guint i = 0; i < ortrain_dnn_plan_get_n_engines (engines); i++)
              {
                const guint notes = ortrain_dnn_plan_get_notes (engines, i);
                g_assert_false (notes & 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
                g_assert_false (d == 0 && notes & 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
              }
          }
}

/* Where TF32 is allowed there are engines that use it. */
static void
test_tf32 (void)
{
  if (!cudnn_library_open ())
    return;
  for (guint kind = 0; kind < 3; kind++)
    {
      const OrtrainCudaConv conv = make_conv (PLAIN, ORTRAIN_DTYPE_FLOAT32);
      g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
      guint notes = 0;
      ortrain_dnn_compose_convolution (graph, &conv, kinds[kind], FALSE);
      OrtrainDnnPlan *engines = plan (graph, TRUE, kind_names[kind]);
      g_assert_nonnull (engines);
      for (guint i = 0; i < ortrain_dnn_plan_get_n_engines (engines); i++)
        notes |= ortrain_dnn_plan_get_notes (engines, i);
      g_assert_true (notes & 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    }
}

static OrtrainCudaPool
make_pool (Shape shape, OrtrainDType dtype)
{
  OrtrainCudaPool pool = { .n_images = 8,
                           .n_channels = 30,
                           .large = { 1, 27, 28 },
                           .small = { 1, 14, 14 },
                           .kernel = { 1, 3, 3 },
                           .stride = { 1, 2, 2 },
                           .dilation = { 1, 1, 1 },
                           .pad = { 0, 1, 1 },
                           .pad_end = { 0, 1, 1 },
                           .dtype = dtype };
  if (shape == VOLUME)
    {
      pool.large[0] = pool.small[0] = 6;
      pool.kernel[0] = 3;
      pool.pad[0] = pool.pad_end[0] = 1;
    }
  if (shape == UNEVEN) /* one after, none before */
    {
      pool.large[1] = 28;
      pool.pad[1] = pool.pad[2] = 0;
    }
  return pool;
}

/* In ONNX's order and with channels last, averages and greatest numbers: without a workspace, and always in the same
 * order. */
static void
test_pools (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  static const Shape shapes[] = { STRIDED, VOLUME, UNEVEN };
  static const char *const variants[] = { "averages", "averages with pads", "greatest", "gradient of averages",
                                          "gradient of averages with pads" };
  if (!cudnn_library_open ())
    return;
  for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
    for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
      for (guint v = 0; v < 2 * G_N_ELEMENTS (variants); v++)
        {
          const guint variant = v / 2;
          OrtrainCudaPool pool = make_pool (shapes[s], dtypes[d]);
          g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
          g_autofree char *name = g_strdup_printf ("%s, %s, shape %u%s", ortrain_dtype_get_name (dtypes[d]),
                                                   variants[variant], shapes[s], v % 2 ? ", channels last" : "");
          pool.channels_last = v % 2;
          pool.is_max = variant == 2;
          pool.counts_pads = variant == 1 || variant == 4;
          pool.backward = variant > 2;
          if (pool.channels_last && (pool.backward || shapes[s] == VOLUME)) /* no engine: nothing asks for them */
            continue;
          g_assert_true (ortrain_dnn_compose_pool (graph, &pool));
          OrtrainDnnPlan *engines = plan (graph, FALSE, name);
          g_assert_nonnull (engines);
          g_assert_cmpuint (ortrain_dnn_plan_get_workspace_bytes (engines), <, 1 << 10);
          for (guint i = 0; i < ortrain_dnn_plan_get_n_engines (engines); i++)
            g_assert_false (ortrain_dnn_plan_get_notes (engines, i) & 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
        }
}

/* A pool that means something else in cuDNN is no graph. */
static void
test_other_pools (void)
{
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  OrtrainCudaPool pool = make_pool (STRIDED, ORTRAIN_DTYPE_FLOAT32);
  g_assert_true (ortrain_dnn_compose_pool (graph, &pool));
  pool.dilation[2] = 2;
  g_assert_false (ortrain_dnn_compose_pool (graph, &pool));
  pool = make_pool (STRIDED, ORTRAIN_DTYPE_FLOAT32);
  pool.is_max = pool.backward = TRUE;
  g_assert_false (ortrain_dnn_compose_pool (graph, &pool));
  pool = make_pool (STRIDED, ORTRAIN_DTYPE_FLOAT32);
  pool.pad[1] = 3; /* a window before the first row */
  g_assert_false (ortrain_dnn_compose_pool (graph, &pool));
  /* the last window goes beyond the pads that ONNX counts */
  pool = make_pool (UNEVEN, ORTRAIN_DTYPE_FLOAT32);
  pool.pad_end[1] = 0;
  g_assert_true (ortrain_dnn_compose_pool (graph, &pool));
  pool.counts_pads = TRUE;
  g_assert_false (ortrain_dnn_compose_pool (graph, &pool));
}

static void
describe_side (OrtrainCudaAttentionSide *side, gint64 heads, gint64 length, gint64 width, gboolean packed)
{
  side->width = width;
  side->pitch = packed ? heads * width : width;
  side->head_step = packed ? width : length * width;
  side->batch_step = heads * length * width;
  side->dtype = ORTRAIN_DTYPE_BFLOAT16;
}

static OrtrainCudaAttention
make_attention (gint64 batch, gint64 heads, gint64 queries, gint64 keys, gint64 width, gboolean packed)
{
  OrtrainCudaAttention attention = {
    .batch = batch, .heads = heads, .n_queries = queries, .n_keys = keys, .scale = 0.125f
  };
  describe_side (&attention.q, heads, queries, width, packed);
  describe_side (&attention.k, heads, keys, width, packed);
  describe_side (&attention.v, heads, keys, width, packed);
  describe_side (&attention.y, heads, queries, width, packed);
  return attention;
}

/* There are engines for both directions, without large workspaces. */
static void
check_both (const OrtrainCudaAttention *attention, const OrtrainDnnAttentionShape *shape, const char *name)
{
  OrtrainDnnAttentionTensors tensors;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1), *grad = g_new0 (OrtrainDnnGraph, 1);
  g_autofree char *grad_name =
      g_strdup_printf ("%s, gradient%s", name, shape->accumulates ? " in an order of chance" : "");
  ortrain_dnn_compose_attention (graph, attention, shape, &tensors);
  const OrtrainDnnPlan *forward = plan (graph, FALSE, name);
  ortrain_dnn_compose_attention_grad (grad, attention, &attention->y, shape, &tensors);
  const OrtrainDnnPlan *backward = plan (grad, FALSE, grad_name);
  g_assert_nonnull (forward);
  g_assert_nonnull (backward);
  g_assert_cmpuint (ortrain_dnn_plan_get_workspace_bytes (forward), <, 1 << 20);
  /* sums in order take 2 bytes for each score, of lengths rounded up to 128 */
  const gint64 rounded = (attention->n_queries + 127) / 128 * 128;
  g_assert_cmpuint (ortrain_dnn_plan_get_workspace_bytes (backward), <=,
                    shape->accumulates ? 64 << 20 : 8 * 12 * rounded * rounded * 2 + (1 << 20));
}

static void
test_attention (void)
{
  static const gint64 lengths[] = { 1024, 200 };
  static const gint64 widths[] = { 64, 128 };
  if (!cudnn_library_open ())
    return;
  workspace_limit = (gsize) 2 << 30;
  for (guint variant = 0; variant < 64; variant++)
    {
      const gboolean packed = variant & 1, causal = variant & 2, biased = variant & 4, odd = variant & 8;
      const gint64 n = lengths[odd ? 1 : 0];
      OrtrainCudaAttention attention = make_attention (8, 12, n, n, widths[variant >> 5], packed);
      OrtrainDnnAttentionShape shape = { .accumulates = (variant & 16) != 0,
                                         .has_bias = biased,
                                         .bias_batch = 8,
                                         .bias_heads = 1,
                                         .bias_dtype = variant & 16 ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_BFLOAT16,
                                         .has_lengths = biased && odd };
      attention.mask_kind = causal ? ORTRAIN_CUDA_MASK_CAUSAL : ORTRAIN_CUDA_MASK_NONE;
      g_autofree char *name = g_strdup_printf ("attention of %" G_GINT64_FORMAT "%s%s%s", n, packed ? ", packed" : "",
                                               causal ? ", causal" : "", biased ? ", with a bias" : "");
      check_both (&attention, &shape, name);
    }
}

/* With the matrix of kept elements as an operand, and its factors in memory: every form has engines in both directions,
 * and those take no more workspace. */
static void
test_dropout (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  static const gint64 lengths[] = { 512, 200 }, widths[] = { 64, 128 };
  if (!cudnn_library_open ())
    return;
  workspace_limit = (gsize) 2 << 30;
  for (guint variant = 0; variant < 128; variant++)
    {
      const gboolean packed = variant & 1, causal = variant & 2, biased = variant & 4, odd = variant & 8;
      const gint64 n = lengths[odd ? 1 : 0];
      OrtrainCudaAttention attention = make_attention (8, 12, n, n, widths[variant >> 5 & 1], packed);
      OrtrainCudaAttentionSide *sides[] = { &attention.q, &attention.k, &attention.v, &attention.y };
      for (guint i = 0; i < G_N_ELEMENTS (sides); i++)
        sides[i]->dtype = dtypes[variant >> 6];
      OrtrainDnnAttentionShape shape = { .accumulates = (variant & 16) != 0,
                                         .has_bias = biased,
                                         .bias_batch = 8,
                                         .bias_heads = 1,
                                         .bias_dtype = variant & 16 ? ORTRAIN_DTYPE_FLOAT32 : dtypes[variant >> 6],
                                         .has_lengths = biased && odd,
                                         .has_dropout = TRUE };
      attention.mask_kind = causal ? ORTRAIN_CUDA_MASK_CAUSAL : ORTRAIN_CUDA_MASK_NONE;
      g_autofree char *name =
          g_strdup_printf ("dropout in %s, %" G_GINT64_FORMAT " of width %" G_GINT64_FORMAT "%s%s%s",
                           ortrain_dtype_get_name (dtypes[variant >> 6]), n, attention.q.width,
                           packed ? ", packed" : "", causal ? ", causal" : "", biased ? ", with a bias" : "");
      check_both (&attention, &shape, name);
    }
}

/* Attention that the provider keeps from cuDNN because it has no engine for it. */
static void
test_refused (void)
{
  if (!cudnn_library_open ())
    return;
  const OrtrainCudaAttention attention = make_attention (2, 2, 64, 64, 36, FALSE);
  const OrtrainDnnAttentionShape shape = { 0 };
  OrtrainDnnAttentionTensors tensors;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  ortrain_dnn_compose_attention (graph, &attention, &shape, &tensors);
  g_assert_null (plan (graph, FALSE, "attention of width 36"));
}

/* Compares a plan with that of the same graph asked for anew: another limit is another key. */
static void
check_remembered (const OrtrainDnnGraph *graph, const char *name, gboolean expected)
{
  OrtrainDnnPlan *known = plan (graph, FALSE, name);
  g_assert_nonnull (known);
  g_assert_cmpint (ortrain_dnn_plan_is_remembered (known), ==, expected);
  if (!expected)
    return;
  g_autofree char *own_folder = g_strdup (g_getenv ("ORTRAIN_CACHE"));
  g_setenv ("ORTRAIN_CACHE", "off", TRUE);
  workspace_limit++;
  OrtrainDnnPlan *asked = plan (graph, FALSE, name);
  workspace_limit--;
  g_setenv ("ORTRAIN_CACHE", own_folder, TRUE);
  g_assert_false (ortrain_dnn_plan_is_remembered (asked));
  g_assert_cmpuint (ortrain_dnn_plan_get_n_engines (known), ==, ortrain_dnn_plan_get_n_engines (asked));
  g_assert_cmpuint (ortrain_dnn_plan_get_workspace_bytes (known), ==, ortrain_dnn_plan_get_workspace_bytes (asked));
  for (guint i = 0; i < ortrain_dnn_plan_get_n_engines (known); i++)
    g_assert_cmpuint (ortrain_dnn_plan_get_notes (known, i), ==, ortrain_dnn_plan_get_notes (asked, i));
}

/* Engines are made again from their description in a file, without the heuristics: the same, with the same workspace.
 * Each part is a process of its own. */
static void
test_remembered (void)
{
  const char *part = g_getenv ("ORTRAIN_TEST_PART");
  if (!cudnn_library_open ())
    return;
  if (part != NULL)
    {
      const gboolean expected = g_str_equal (part, "remembers");
      g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
      workspace_limit = (gsize) 2 << 30;
      for (guint kind = 0; kind < 3; kind++)
        for (guint d = 0; d < 2; d++)
          {
            const OrtrainCudaConv conv = make_conv (STRIDED, d == 0 ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_BFLOAT16);
            memset (graph, 0, sizeof *graph);
            ortrain_dnn_compose_convolution (graph, &conv, kinds[kind], kind == 0);
            check_remembered (graph, kind_names[kind], expected);
          }
      const OrtrainCudaPool pool = make_pool (UNEVEN, ORTRAIN_DTYPE_BFLOAT16);
      memset (graph, 0, sizeof *graph);
      g_assert_true (ortrain_dnn_compose_pool (graph, &pool));
      check_remembered (graph, "averages", expected);
      const OrtrainCudaAttention attention = make_attention (8, 12, 1024, 1024, 64, TRUE);
      const OrtrainDnnAttentionShape shape = { 0 };
      OrtrainDnnAttentionTensors tensors;
      memset (graph, 0, sizeof *graph);
      ortrain_dnn_compose_attention (graph, &attention, &shape, &tensors);
      check_remembered (graph, "attention", expected);
      memset (graph, 0, sizeof *graph);
      ortrain_dnn_compose_attention_grad (graph, &attention, &attention.y, &shape, &tensors);
      check_remembered (graph, "gradient of attention", expected);
      return;
    }
  g_autoptr (GError) error = NULL;
  static const char *const parts[] = { "asks", "remembers" };
  g_autofree char *folder = g_dir_make_tmp ("ortrain-cache-XXXXXX", &error);
  g_assert_no_error (error);
  g_setenv ("ORTRAIN_CACHE", folder, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_setenv ("ORTRAIN_TEST_PART", parts[i], TRUE);
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      g_assert_cmpuint (test_count_entries (folder), ==, 9);
    }
  g_unsetenv ("ORTRAIN_TEST_PART");
  g_setenv ("ORTRAIN_CACHE", "off", TRUE);
  test_remove_folder (folder);
}

/* Plans that are worth keeping in compiled form: attention, whose kernels the library compiles for a second or two; no
 * convolution. Whether such a plan can be written as JSON needs a device, to load it: tests/probe asks one. */
static void
test_compiled (void)
{
  const OrtrainCudaAttention attention = make_attention (8, 12, 1024, 1024, 64, TRUE);
  const OrtrainDnnAttentionShape shape = { .accumulates = TRUE };
  OrtrainDnnAttentionTensors tensors;
  if (!cudnn_library_open ())
    return;
  for (guint backward = 0; backward < 2; backward++)
    {
      g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
      if (backward)
        ortrain_dnn_compose_attention_grad (graph, &attention, &attention.y, &shape, &tensors);
      else
        ortrain_dnn_compose_attention (graph, &attention, &shape, &tensors);
      OrtrainDnnPlan *engines = plan (graph, FALSE, "attention");
      g_assert_nonnull (engines);
      for (guint i = 0; i < ortrain_dnn_plan_get_n_engines (engines); i++)
        g_assert_true (ortrain_dnn_plan_is_compiled (engines, i));
    }
  for (guint kind = 0; kind < 3; kind++)
    {
      const OrtrainCudaConv conv = make_conv (PLAIN, ORTRAIN_DTYPE_BFLOAT16);
      g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
      ortrain_dnn_compose_convolution (graph, &conv, kinds[kind], FALSE);
      OrtrainDnnPlan *engines = plan (graph, FALSE, kind_names[kind]);
      g_assert_nonnull (engines);
      g_assert_false (ortrain_dnn_plan_is_compiled (engines, 0));
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  device = cudnn_library_read_device ("h200");
  g_test_add_func ("/cudnn-graphs/convolutions", test_convolutions);
  g_test_add_func ("/cudnn-graphs/tf32", test_tf32);
  g_test_add_func ("/cudnn-graphs/pools", test_pools);
  g_test_add_func ("/cudnn-graphs/other-pools", test_other_pools);
  g_test_add_func ("/cudnn-graphs/attention", test_attention);
  g_test_add_func ("/cudnn-graphs/dropout", test_dropout);
  g_test_add_func ("/cudnn-graphs/refused", test_refused);
  g_test_add_func ("/cudnn-graphs/remembered", test_remembered);
  g_test_add_func ("/cudnn-graphs/compiled", test_compiled);
  return g_test_run ();
}
