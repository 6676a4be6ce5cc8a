/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-conv-graph-private.h"

#include <string.h>

/* The pads at the end: as large as those at the beginning if that gives the same size, else as large as positions
 * reach. */
static void
describe_window (const OrtrainCudaConv *conv, guint first, OrtrainDnnWindow *window)
{
  *window = (OrtrainDnnWindow){ .rank = 3 - first };
  for (guint i = first; i < 3; i++)
    {
      const gint64 extent = (conv->kernel[i] - 1) * conv->dilation[i] + 1, pad = conv->pad[i];
      const gint64 room = conv->large[i] + 2 * pad - extent;
      const gboolean even = room >= 0 && room / conv->stride[i] + 1 == conv->small[i];
      window->pad_begin[i - first] = pad;
      window->pad_end[i - first] = even ? pad : (conv->small[i] - 1) * conv->stride[i] + extent - conv->large[i] - pad;
      window->stride[i - first] = conv->stride[i];
      window->dilation[i - first] = conv->dilation[i];
    }
}

/* last: channels are neighbours in memory */
static int
add_side (OrtrainDnnGraph *graph, OrtrainDType dtype, gint64 n, gint64 channels, const gint64 *dims, guint first,
          gboolean last, gboolean is_virtual)
{
  gint64 all[ORTRAIN_DNN_MAX_RANK] = { n, channels }, strides[ORTRAIN_DNN_MAX_RANK];
  memcpy (all + 2, dims + first, (3 - first) * sizeof *dims);
  ortrain_dnn_set_channels_last (all, 5 - first, strides);
  return (is_virtual ? ortrain_dnn_virtual : ortrain_dnn_tensor) (graph, ortrain_dnn_data_type (dtype), 5 - first, all,
                                                                  last ? strides : NULL);
}

void
ortrain_dnn_compose_convolution (OrtrainDnnGraph *graph, const OrtrainCudaConv *conv, cudnnBackendDescriptorType_t type,
                                 gboolean with_bias)
{
  const gint64 ones[] = { 1, 1, 1 };
  const guint first = conv->large[0] == 1 && conv->small[0] == 1 && conv->kernel[0] == 1 && conv->pad[0] == 0 ? 1 : 0;
  const gint64 filters = conv->n_groups * conv->small_channels, channels = conv->n_groups * conv->large_channels;
  OrtrainDnnWindow window;
  describe_window (conv, first, &window);
  const gboolean last = conv->channels_last;
#define LARGE(v) add_side (graph, conv->large_dtype, conv->n_images, channels, conv->large, first, last, v)
#define SMALL(v) add_side (graph, conv->small_dtype, conv->n_images, filters, conv->small, first, last, v)
#define WEIGHTS() add_side (graph, conv->weight_dtype, filters, conv->large_channels, conv->kernel, first, last, FALSE)
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
    {
      const int dy = SMALL (FALSE), x = LARGE (FALSE), dw = WEIGHTS ();
      ortrain_dnn_convolution (graph, type, &window, dy, x, dw);
      return;
    }
  const gboolean forward = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const int x = forward ? LARGE (FALSE) : SMALL (FALSE), w = WEIGHTS ();
  if (!with_bias)
    {
      ortrain_dnn_convolution (graph, type, &window, x, w, forward ? SMALL (FALSE) : LARGE (FALSE));
      return;
    }
  const int bias = add_side (graph, conv->bias_dtype, 1, filters, ones, first, last, FALSE), y = SMALL (FALSE);
  const OrtrainDnnTensor *shape = &graph->tensors[y];
  const int sums = ortrain_dnn_virtual (graph, CUDNN_DATA_FLOAT, (guint) shape->rank, shape->dims, shape->strides);
  ortrain_dnn_convolution (graph, type, &window, x, w, sums);
  ortrain_dnn_pointwise_into (graph, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, sums, bias, y);
#undef LARGE
#undef SMALL
#undef WEIGHTS
}
