/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cudnn-library.h"

#include <stdbool.h>
#include <string.h>

/* Why batch normalization and the gradient of MaxPool run on kernels of our own: the engines that cuDNN itself offers
 * for them where channels are rows (NCHW, as ONNX has them), compared with the same graph with channels last. Its
 * heuristics answer for a GPU that is described in a file. If one of these tests fails with another version of cuDNN,
 * look whether it should be used now; doc/providers.md says which engines are used. */

static char *device;
static const OrtrainCudnn *api;

static gboolean
has_library (void)
{
  if (!cudnn_library_open ())
    return FALSE;
  api = ortrain_cuda_open_cudnn (NULL);
  return TRUE;
}

/* ---- descriptors, which live as long as the process ---- */

static void
check (cudnnStatus_t status)
{
  char text[512] = "";
  if (status == CUDNN_STATUS_SUCCESS)
    return;
  api->cudnnGetLastErrorString (text, sizeof text);
  g_error ("%s: %s", api->cudnnGetErrorString (status), text);
}

static cudnnBackendDescriptor_t
make (cudnnBackendDescriptorType_t type)
{
  cudnnBackendDescriptor_t descriptor = NULL;
  check (api->cudnnBackendCreateDescriptor (type, &descriptor));
  return descriptor;
}

static void
set (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, gint64 n,
     const void *elements)
{
  check (api->cudnnBackendSetAttribute (descriptor, name, type, n, elements));
}

static void
set_enum (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
          gint32 value)
{
  set (descriptor, name, type, 1, &value);
}

static void
set_part (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part)
{
  set (descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

/* dims: [n, c, h, w]; last: channels are neighbours */
static cudnnBackendDescriptor_t
make_tensor (cudnnDataType_t type, const gint64 *dims, gboolean last, gboolean by_value)
{
  static gint64 id;
  const gint64 rows[] = { dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1 };
  const gint64 pixels[] = { rows[0], 1, dims[3] * dims[1], dims[1] };
  const gint64 alignment = 16;
  const bool yes = true;
  cudnnBackendDescriptor_t tensor = make (CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  id++;
  set_enum (tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  set (tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  set (tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, last ? pixels : rows);
  set (tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set (tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  if (by_value)
    set (tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
  check (api->cudnnBackendFinalize (tensor));
  return tensor;
}

typedef struct
{
  gint64 n, least_bytes; /* of workspace */
} Offer;

/* All that the heuristics name, in any mode. */
static Offer
ask (cudnnBackendDescriptor_t operation, const char *name)
{
  static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK };
  Offer offer = { 0, G_MAXINT64 };
  check (api->cudnnBackendFinalize (operation));
  cudnnBackendDescriptor_t graph = make (CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set_part (graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  check (api->cudnnBackendFinalize (graph));
  for (guint m = 0; m < G_N_ELEMENTS (modes); m++)
    {
      cudnnBackendDescriptor_t description = make (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
      cudnnBackendDescriptor_t heuristics = make (CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), configs[64];
      int64_t n = 0, read;
      set (description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (gint64) strlen (device) + 1,
           device);
      check (api->cudnnBackendFinalize (description));
      set_part (heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
      set_enum (heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, (gint32) modes[m]);
      set_part (heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, description);
      if (api->cudnnBackendFinalize (heuristics) != CUDNN_STATUS_SUCCESS) /* so it may say that there is no engine */
        continue;
      for (guint i = 0; i < G_N_ELEMENTS (configs); i++)
        configs[i] = make (CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      check (api->cudnnBackendGetAttribute (heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                            G_N_ELEMENTS (configs), &n, configs));
      for (gint64 i = 0; i < MIN (n, (gint64) G_N_ELEMENTS (configs)); i++)
        {
          int64_t bytes = 0;
          check (api->cudnnBackendGetAttribute (configs[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                                &read, &bytes));
          offer.least_bytes = MIN (offer.least_bytes, bytes);
        }
      offer.n += n;
    }
  g_test_message ("%s: %" G_GINT64_FORMAT " engines, least workspace %" G_GINT64_FORMAT, name, offer.n,
                  offer.n > 0 ? offer.least_bytes : 0);
  return offer;
}

static const cudnnDataType_t types[] = { CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF };
static const char *const type_names[] = { "float32", "bfloat16", "float16" };

/* ---- batch normalization ---- */

static Offer
ask_batch_norm (guint type, const gint64 *dims, gboolean backward, gboolean last)
{
#define X(name) set_part (operation, CUDNN_ATTR_OPERATION_NORM_##name, make_tensor (types[type], dims, last, FALSE))
#define CHANNELS(name)                                                                                                 \
  set_part (operation, CUDNN_ATTR_OPERATION_NORM_##name, make_tensor (CUDNN_DATA_FLOAT, of_channels, last, FALSE))
  const gint64 of_channels[] = { 1, dims[1], 1, 1 }, one[] = { 1, 1, 1, 1 };
  g_autofree char *name = g_strdup_printf ("batch norm%s of %s, %s", backward ? "'s gradient" : "", type_names[type],
                                           last ? "channels last" : "channels as rows");
  cudnnBackendDescriptor_t operation = make (backward ? CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR
                                                      : CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  if (backward)
    {
      set_enum (operation, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM);
      X (BWD_XDESC);
      X (BWD_DYDESC);
      X (BWD_DXDESC);
      CHANNELS (BWD_MEAN_DESC);
      CHANNELS (BWD_INV_VARIANCE_DESC);
      CHANNELS (BWD_SCALE_DESC);
      CHANNELS (BWD_DSCALE_DESC);
      CHANNELS (BWD_DBIAS_DESC);
    }
  else
    {
      set_enum (operation, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM);
      set_enum (operation, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING);
      X (FWD_XDESC);
      X (FWD_YDESC);
      CHANNELS (FWD_MEAN_DESC);
      CHANNELS (FWD_INV_VARIANCE_DESC);
      CHANNELS (FWD_SCALE_DESC);
      CHANNELS (FWD_BIAS_DESC);
      set_part (operation, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, make_tensor (CUDNN_DATA_FLOAT, one, last, TRUE));
    }
#undef CHANNELS
#undef X
  return ask (operation, name);
}

/* Where channels are rows, engines have a workspace that holds all large operands once more: x and y, or dy, x and dx.
 * They compute with channels last, and transpose before and after. */
static void
test_batch_norm (void)
{
  const gint64 dims[] = { 64, 64, 56, 56 }, odd[] = { 8, 30, 27, 27 };
  if (!has_library ())
    return;
  for (guint type = 0; type < G_N_ELEMENTS (types); type++)
    for (guint backward = 0; backward < 2; backward++)
      {
        const gint64 bytes = dims[0] * dims[1] * dims[2] * dims[3] * (type == 0 ? 4 : 2);
        const Offer rows = ask_batch_norm (type, dims, backward, FALSE),
                    last = ask_batch_norm (type, dims, backward, TRUE);
        if (rows.n > 0)
          g_assert_cmpint (rows.least_bytes, >, bytes * (backward ? 3 : 2));
        g_assert_cmpint (last.n, >, 0);
        g_assert_cmpint (last.least_bytes, <, bytes / 100);
        /* and none at all where 16 bytes do not divide the channels of a pixel */
        g_assert_cmpint (ask_batch_norm (type, odd, backward, FALSE).n, ==, 0);
      }
}

/* ---- MaxPool's gradient ---- */

typedef enum
{
  FROM_BYTES, /* where the greatest one was, a byte for each element of y */
  FROM_X_AND_Y,
} Source;

/* x [8, 64, 28, 28], windows of 3 · 3 every 2 elements */
static Offer
ask_max_pool_grad (guint type, Source source, gboolean last)
{
  const gint64 large[] = { 8, 64, 28, 28 }, small[] = { 8, 64, 14, 14 };
  const gint64 size[] = { 3, 3 }, stride[] = { 2, 2 }, pad[] = { 1, 1 }, rank = 2;
  g_autofree char *name =
      g_strdup_printf ("MaxPool's gradient of %s from %s, %s", type_names[type],
                       source == FROM_BYTES ? "bytes" : "x and y", last ? "channels last" : "channels as rows");
  cudnnBackendDescriptor_t window = make (CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  set_enum (window, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, CUDNN_RESAMPLE_MAXPOOL);
  set_enum (window, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  set_enum (window, CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
  set_enum (window, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, CUDNN_NEG_INF_PAD);
  set (window, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
  set (window, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_INT64, 2, size);
  set (window, CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_INT64, 2, stride);
  set (window, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
  set (window, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
  check (api->cudnnBackendFinalize (window));
  cudnnBackendDescriptor_t operation = make (CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  set_part (operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, make_tensor (types[type], small, last, FALSE));
  set_part (operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, make_tensor (types[type], large, last, FALSE));
  if (source == FROM_BYTES)
    set_part (operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, make_tensor (CUDNN_DATA_INT8, small, last, FALSE));
  else
    {
      set_part (operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC, make_tensor (types[type], large, last, FALSE));
      set_part (operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC, make_tensor (types[type], small, last, FALSE));
    }
  set_part (operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, window);
  return ask (operation, name);
}

/* Where channels are rows, from all of x and y alone. (cuDNN 9.19 crashes when it is asked for that with channels
 * last.) */
static void
test_max_pool_grad (void)
{
  if (!has_library ())
    return;
  for (guint type = 0; type < G_N_ELEMENTS (types); type++)
    {
      g_assert_cmpint (ask_max_pool_grad (type, FROM_BYTES, FALSE).n, ==, 0);
      g_assert_cmpint (ask_max_pool_grad (type, FROM_X_AND_Y, FALSE).n, >, 0);
      g_assert_cmpint (ask_max_pool_grad (type, FROM_BYTES, TRUE).n, >, 0);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  device = cudnn_library_read_device ("h200");
  g_test_add_func ("/cudnn-layouts/batch-norm", test_batch_norm);
  g_test_add_func ("/cudnn-layouts/max-pool-grad", test_max_pool_grad);
  return g_test_run ();
}
