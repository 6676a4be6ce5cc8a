/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-conv-graph-private.h"

#include "core/ortrain-dtype.h"
#include "core/ortrain-errors.h"

#include <dlfcn.h>

/* The graphs that the provider composes, given to cuDNN itself: its heuristics answer for a GPU that is described in a
 * file, so that no GPU is needed. Execution is not tested here. */

static const OrtrainLibraryFunctions functions = {
  .device_error_quark = ortrain_device_error_quark,
  .plan_error_quark = ortrain_plan_error_quark,
};
const OrtrainLibraryFunctions *ortrain_cuda_library = &functions;
static char *device;

void
ortrain_cuda_fail (const OrtrainKernelCall *call, const char *format, ...)
{
  g_assert_not_reached ();
}

static gboolean
has_library (void)
{
  g_autoptr (GError) error = NULL;
  const char *stub = g_getenv ("ORTRAIN_CUDA_STUB");
  /* cuDNN looks for libcuda.so.1, which is this one's name once it is loaded */
  if (stub != NULL && dlopen (stub, RTLD_NOW | RTLD_GLOBAL) == NULL)
    g_test_message ("%s", dlerror ());
  if (ortrain_cuda_open_cudnn (&error) == NULL)
    {
      g_test_skip (error->message);
      return FALSE;
    }
  return TRUE;
}

static OrtrainDnnPlan *
plan (const OrtrainDnnGraph *graph, gboolean allow_tf32, const char *name)
{
  g_autoptr (GError) error = NULL;
  const OrtrainDnnTarget target = { .device_name = "H200", .device_json = device, .allow_tf32 = allow_tf32 };
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
  if (shape == UNEVEN) /* one behind, none before */
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
  if (!has_library ())
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
  if (!has_library ())
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

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "simt", "devices", "h200.json", NULL);
  if (!g_file_get_contents (path, &device, NULL, NULL))
    g_error ("Cannot read %s", path);
  g_test_add_func ("/cudnn-graphs/convolutions", test_convolutions);
  g_test_add_func ("/cudnn-graphs/tf32", test_tf32);
  return g_test_run ();
}
