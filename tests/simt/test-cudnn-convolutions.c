/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-conv-graph-private.h"

#include "core/ortrain-dtype.h"

#include "simt/cudnn-library.h"

/* The engines that cuDNN's heuristics name for each convolution of ResNet-50, as the provider asks for it in mixed
 * precision: with the workspace that it allows there is an engine of tensor cores for all of them. */

void
ortrain_cuda_fail (const OrtrainKernelCall *call, const char *format, ...)
{
  g_assert_not_reached ();
}

typedef struct
{
  gint64 channels, filters, kernel, stride, pad, size;
} Layer;

static const Layer layers[] = {
  { 3, 64, 7, 2, 3, 224 },   { 64, 64, 1, 1, 0, 56 },    { 64, 64, 3, 1, 1, 56 },    { 64, 256, 1, 1, 0, 56 },
  { 256, 64, 1, 1, 0, 56 },  { 256, 128, 1, 1, 0, 56 },  { 128, 128, 3, 2, 1, 56 },  { 256, 512, 1, 2, 0, 56 },
  { 128, 512, 1, 1, 0, 28 }, { 512, 128, 1, 1, 0, 28 },  { 128, 128, 3, 1, 1, 28 },  { 512, 256, 1, 1, 0, 28 },
  { 256, 256, 3, 2, 1, 28 }, { 512, 1024, 1, 2, 0, 28 }, { 256, 1024, 1, 1, 0, 14 }, { 1024, 256, 1, 1, 0, 14 },
  { 256, 256, 3, 1, 1, 14 }, { 1024, 512, 1, 1, 0, 14 }, { 512, 512, 3, 2, 1, 14 },  { 1024, 2048, 1, 2, 0, 14 },
  { 512, 2048, 1, 1, 0, 7 }, { 2048, 512, 1, 1, 0, 7 },  { 512, 512, 3, 1, 1, 7 },
};

static const cudnnBackendDescriptorType_t kinds[] = {
  CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
};
static const char *const kind_names[] = { "forward", "gradient of x", "gradient of w" };
#define OF_WEIGHTS 2

static guint64
read_memory (const char *json)
{
  const char *at = strstr (json, "\"totalGlobalMem\":");
  g_assert_nonnull (at);
  return g_ascii_strtoull (at + strlen ("\"totalGlobalMem\":"), NULL, 10);
}

/* As kernels get it, of the device that is described. */
static OrtrainDnnTarget
make_target (OrtrainCudaProvider *provider, const char *json)
{
  const OrtrainKernelSetup setup = { .provider = &provider->parent };
  OrtrainDnnTarget target;
  provider->total_memory = read_memory (json);
  provider->identity = (char *) "a device";
  ortrain_dnn_target_init (&target, &setup);
  target.device_json = json;
  return target;
}

static OrtrainCudaConv
make_conv (const Layer *layer, gint64 n, guint kind)
{
  const gint64 size = (layer->size + 2 * layer->pad - layer->kernel) / layer->stride + 1;
  return (OrtrainCudaConv){ .n_images = n,
                            .n_groups = 1,
                            .small_channels = layer->filters,
                            .large_channels = layer->channels,
                            .large = { 1, layer->size, layer->size },
                            .small = { 1, size, size },
                            .kernel = { 1, layer->kernel, layer->kernel },
                            .stride = { 1, layer->stride, layer->stride },
                            .dilation = { 1, 1, 1 },
                            .pad = { 0, layer->pad, layer->pad },
                            .large_dtype = ORTRAIN_DTYPE_BFLOAT16,
                            .small_dtype = ORTRAIN_DTYPE_BFLOAT16,
                            /* gradients of weights are summed up in float32 */
                            .weight_dtype = kind == OF_WEIGHTS ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_BFLOAT16 };
}

static void
test_resnet (gconstpointer name)
{
  OrtrainCudaProvider provider = { 0 };
  if (!cudnn_library_open ())
    return;
  g_autofree char *json = cudnn_library_read_device (name);
  const OrtrainDnnTarget target = make_target (&provider, json);
  g_assert_cmpuint (target.workspace_limit, >=, 1 << 30);
  gsize most = 0;
  for (gint64 n = 64; n <= 256; n *= 4)
    for (guint i = 0; i < G_N_ELEMENTS (layers); i++)
      for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
        {
          g_autoptr (GError) refusal = NULL;
          const OrtrainCudaConv conv = make_conv (&layers[i], n, kind);
          OrtrainCudaConvPlan plan;
          ortrain_cuda_conv_plan (&conv, kinds[kind], FALSE, &target, &plan, &refusal);
          g_test_message ("%d images, %d → %d channels, %d · %d of %d · %d: %s", (int) n, (int) layers[i].channels,
                          (int) layers[i].filters, (int) layers[i].kernel, (int) layers[i].kernel, (int) layers[i].size,
                          (int) layers[i].size, kind_names[kind]);
          g_assert_no_error (refusal);
          g_assert_nonnull (plan.plan);
          for (guint operand = 0; operand < 3; operand++) /* and no operand is widened */
            g_assert_cmpuint (plan.dtypes[operand], ==, ORTRAIN_DTYPE_BFLOAT16);
          g_assert_true (ortrain_dnn_plan_get_notes (plan.plan, 0) & 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
          most = MAX (most, ortrain_dnn_plan_get_workspace_bytes (plan.plan));
        }
  g_test_message ("at most %" G_GSIZE_FORMAT " bytes of workspace", most);
  g_assert_cmpuint (most, <, 1 << 30);
}

/* ---- channels last ---- */

/* Workspace that the provider's graph of a layer needs in a layout, and whether its first engine uses tensor cores. */
static gsize
ask (const OrtrainCudaConv *conv, guint kind, gboolean last, const OrtrainDnnTarget *target, gboolean *has_cores)
{
  g_autoptr (GError) refusal = NULL;
  OrtrainCudaConv own = *conv;
  OrtrainCudaConvPlan plan;
  own.channels_last = last;
  ortrain_cuda_conv_plan (&own, kinds[kind], FALSE, target, &plan, &refusal);
  g_assert_no_error (refusal);
  g_assert_nonnull (plan.plan);
  *has_cores = (ortrain_dnn_plan_get_notes (plan.plan, 0) & 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != 0;
  return ortrain_dnn_plan_get_workspace_bytes (plan.plan);
}

/* All layers of ResNet-50 use tensor cores with next to no workspace. Only the first one, which has three channels, is
 * padded to eight; it needs less than in ONNX's order all the same. Its gradient of x is needed by nobody. */
static void
test_channels_last (gconstpointer name)
{
  OrtrainCudaProvider provider = { 0 };
  if (!cudnn_library_open ())
    return;
  g_autofree char *json = cudnn_library_read_device (name);
  const OrtrainDnnTarget target = make_target (&provider, json);
  for (gint64 n = 64; n <= 256; n *= 4)
    {
      gsize all[2] = { 0 }, most = 0;
      for (guint i = 0; i < G_N_ELEMENTS (layers); i++)
        for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
          {
            gboolean has_cores;
            if (i == 0 && kind == 1)
              continue;
            const OrtrainCudaConv conv = make_conv (&layers[i], n, kind);
            const gsize last = ask (&conv, kind, TRUE, &target, &has_cores);
            g_assert_true (has_cores);
            all[1] += last;
            all[0] += ask (&conv, kind, FALSE, &target, &has_cores);
            if (i > 0)
              most = MAX (most, last);
            else
              g_assert_cmpuint (last, <, (gsize) n << 20);
          }
      g_test_message ("%s, %d images: workspaces of all convolutions together %.1f MiB, in ONNX's order %.1f MiB; the "
                      "largest behind the first layer %.2f MiB",
                      (const char *) name, (int) n, (double) all[1] / 1048576, (double) all[0] / 1048576,
                      (double) most / 1048576);
      g_assert_cmpuint (most, <=, 12 << 20);
      g_assert_cmpuint (all[1] * 10, <, all[0]);
    }
}

/* In float32 without TF32 no engine copies operands: nothing is gained. With TF32 it is as in 16 bits. */
static void
test_channels_last_float32 (void)
{
  OrtrainCudaProvider provider = { 0 };
  if (!cudnn_library_open ())
    return;
  g_autofree char *json = cudnn_library_read_device ("h200");
  OrtrainDnnTarget target = make_target (&provider, json);
  gsize all[2][2] = { { 0 } };
  for (guint tf32 = 0; tf32 < 2; tf32++)
    for (guint i = 1; i < G_N_ELEMENTS (layers); i++)
      for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
        {
          gboolean has_cores;
          OrtrainCudaConv conv = make_conv (&layers[i], 64, kind);
          conv.large_dtype = conv.small_dtype = conv.weight_dtype = ORTRAIN_DTYPE_FLOAT32;
          target.allow_tf32 = tf32;
          for (guint last = 0; last < 2; last++)
            {
              all[tf32][last] += ask (&conv, kind, last, &target, &has_cores);
              g_assert_true (has_cores || !tf32 || !last);
            }
        }
  g_test_message ("workspaces of all in float32: %.1f MiB, channels last %.1f; with TF32: %.1f, channels last %.1f",
                  (double) all[0][0] / 1048576, (double) all[0][1] / 1048576, (double) all[1][0] / 1048576,
                  (double) all[1][1] / 1048576);
  g_assert_cmpuint (all[1][1] * 10, <, all[1][0]);
}

/* A filter for each channel: both layouts are computed where they are. */
static void
test_depthwise (void)
{
  OrtrainCudaProvider provider = { 0 };
  if (!cudnn_library_open ())
    return;
  g_autofree char *json = cudnn_library_read_device ("h200");
  const OrtrainDnnTarget target = make_target (&provider, json);
  static const Layer of_mobilenet[] = { { 32, 32, 3, 1, 1, 112 }, { 96, 96, 3, 2, 1, 112 }, { 960, 960, 3, 1, 1, 7 } };
  for (guint i = 0; i < G_N_ELEMENTS (of_mobilenet); i++)
    for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
      {
        OrtrainCudaConv conv = make_conv (&of_mobilenet[i], 64, kind);
        gboolean has_cores;
        conv.n_groups = conv.large_channels;
        conv.large_channels = conv.small_channels = 1;
        const gsize last = ask (&conv, kind, TRUE, &target, &has_cores);
        g_test_message ("%d channels, %s: %.2f MiB, in ONNX's order %.2f", (int) conv.n_groups, kind_names[kind],
                        (double) last / 1048576, (double) ask (&conv, kind, FALSE, &target, &has_cores) / 1048576);
        g_assert_cmpuint (last, <=, 64 << 20);
      }
}

/* In float16, sums over many pixels may exceed the largest number: they are float32, as the result is. */
static void
test_float16 (void)
{
  OrtrainCudaProvider provider = { 0 };
  g_autoptr (GError) refusal = NULL;
  if (!cudnn_library_open ())
    return;
  g_autofree char *json = cudnn_library_read_device ("h200");
  const OrtrainDnnTarget target = make_target (&provider, json);
  OrtrainCudaConv conv = make_conv (&layers[2], 8, OF_WEIGHTS);
  OrtrainCudaConvPlan plan;
  conv.large_dtype = conv.small_dtype = ORTRAIN_DTYPE_FLOAT16;
  ortrain_cuda_conv_plan (&conv, kinds[OF_WEIGHTS], FALSE, &target, &plan, &refusal);
  g_assert_nonnull (plan.plan);
  for (guint operand = 0; operand < 3; operand++)
    g_assert_cmpuint (plan.dtypes[operand], ==, ORTRAIN_DTYPE_FLOAT32);
}

/* Exact sums in float32 need no transposes; an engine that is only there in case the first one cannot be made gets no
 * large workspace. */
static void
test_float32 (void)
{
  OrtrainCudaProvider provider = { 0 };
  if (!cudnn_library_open ())
    return;
  g_autofree char *json = cudnn_library_read_device ("h200");
  const OrtrainDnnTarget target = make_target (&provider, json);
  for (guint i = 0; i < G_N_ELEMENTS (layers); i++)
    for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
      {
        g_autoptr (GError) refusal = NULL;
        OrtrainCudaConv conv = make_conv (&layers[i], 256, kind);
        OrtrainCudaConvPlan plan;
        conv.large_dtype = conv.small_dtype = conv.weight_dtype = ORTRAIN_DTYPE_FLOAT32;
        ortrain_cuda_conv_plan (&conv, kinds[kind], FALSE, &target, &plan, &refusal);
        g_assert_no_error (refusal);
        g_assert_nonnull (plan.plan);
        g_assert_false (ortrain_dnn_plan_get_notes (plan.plan, 0) & 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        g_assert_cmpuint (ortrain_dnn_plan_get_workspace_bytes (plan.plan), <=, 300 << 20);
      }
}

/* A session that may have less of the device's memory has smaller workspaces. */
static void
test_limits (void)
{
  OrtrainCudaProvider provider = { 0 };
  g_autofree char *json = cudnn_library_read_device ("h200");
  g_assert_cmpuint (make_target (&provider, json).workspace_limit, ==, read_memory (json) / 32);
  provider.options.memory_limit = (guint64) 2 << 30;
  g_assert_cmpuint (make_target (&provider, json).workspace_limit, ==, 256 << 20);
  provider.parent.workspace_limit = 96 << 20;
  g_assert_cmpuint (make_target (&provider, json).workspace_limit, ==, 96 << 20);
  provider = (OrtrainCudaProvider){ 0 };
  g_assert_cmpuint (make_target (&provider, "{\"totalGlobalMem\": 17179869184}").workspace_limit, ==, 1 << 30);
  g_assert_cmpuint (make_target (&provider, "{\"totalGlobalMem\": 4294967296}").workspace_limit, ==, 512 << 20);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/cudnn-convolutions/resnet-50/h200", "h200", test_resnet);
  g_test_add_data_func ("/cudnn-convolutions/resnet-50/h100", "h100", test_resnet);
  g_test_add_data_func ("/cudnn-convolutions/channels-last/h200", "h200", test_channels_last);
  g_test_add_data_func ("/cudnn-convolutions/channels-last/h100", "h100", test_channels_last);
  g_test_add_func ("/cudnn-convolutions/channels-last/float32", test_channels_last_float32);
  g_test_add_func ("/cudnn-convolutions/channels-last/depthwise", test_depthwise);
  g_test_add_func ("/cudnn-convolutions/float16", test_float16);
  g_test_add_func ("/cudnn-convolutions/float32", test_float32);
  g_test_add_func ("/cudnn-convolutions/limits", test_limits);
  return g_test_run ();
}
