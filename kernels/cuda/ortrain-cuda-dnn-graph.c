/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-dnn-private.h"

/* Composing operation graphs: nothing here knows whether cuDNN is there. */

cudnnDataType_t
ortrain_dnn_data_type (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_FLOAT16    ? CUDNN_DATA_HALF
         : dtype == ORTRAIN_DTYPE_BFLOAT16 ? CUDNN_DATA_BFLOAT16
         : dtype == ORTRAIN_DTYPE_FLOAT64  ? CUDNN_DATA_DOUBLE
                                           : CUDNN_DATA_FLOAT;
}

static int
add_tensor (OrtrainDnnGraph *graph, cudnnDataType_t type, guint rank, const gint64 *dims, const gint64 *strides,
            OrtrainDnnTensorFlags flags)
{
  const int number = (int) graph->n_tensors++;
  g_assert (number < ORTRAIN_DNN_MAX_TENSORS && rank <= ORTRAIN_DNN_MAX_RANK);
  OrtrainDnnTensor *tensor = &graph->tensors[number];
  tensor->type = type;
  tensor->flags = flags;
  tensor->rank = rank;
  gint64 step = 1;
  for (guint i = rank; i-- > 0; step *= dims[i])
    {
      tensor->dims[i] = dims[i];
      tensor->strides[i] = strides != NULL ? strides[i] : step;
    }
  return number;
}

int
ortrain_dnn_tensor (OrtrainDnnGraph *graph, cudnnDataType_t type, guint rank, const gint64 *dims, const gint64 *strides)
{
  return add_tensor (graph, type, rank, dims, strides, ORTRAIN_DNN_NONE);
}

int
ortrain_dnn_virtual (OrtrainDnnGraph *graph, cudnnDataType_t type, guint rank, const gint64 *dims,
                     const gint64 *strides)
{
  return add_tensor (graph, type, rank, dims, strides, ORTRAIN_DNN_VIRTUAL);
}

void
ortrain_dnn_set_channels_last (const gint64 *dims, guint rank, gint64 *strides)
{
  gint64 step = dims[1];
  strides[1] = 1;
  for (guint i = rank; i-- > 2; step *= dims[i])
    strides[i] = step;
  strides[0] = step;
}

int
ortrain_dnn_scalar (OrtrainDnnGraph *graph, cudnnDataType_t type, double value)
{
  static const gint64 ones[] = { 1, 1, 1, 1 };
  const int number = add_tensor (graph, type, 4, ones, NULL, ORTRAIN_DNN_BY_VALUE);
  graph->tensors[number].value = value;
  return number;
}

static OrtrainDnnOperation *
add_operation (OrtrainDnnGraph *graph, cudnnBackendDescriptorType_t type, cudnnDataType_t precision, int a, int b,
               int c, int d)
{
  g_assert (graph->n_operations < ORTRAIN_DNN_MAX_OPERATIONS);
  OrtrainDnnOperation *operation = &graph->operations[graph->n_operations++];
  operation->type = type;
  operation->precision = precision;
  operation->operands[0] = a;
  operation->operands[1] = b;
  operation->operands[2] = c;
  operation->operands[3] = d;
  for (guint i = 0; i < 3; i++)
    operation->overrides[i] = -1;
  return operation;
}

/* Sets only as many numbers as there are dimensions. The rest stays zero, because all of them are compared. */
static void
set_window (OrtrainDnnOperation *operation, const OrtrainDnnWindow *window)
{
  operation->window.rank = window->rank;
  for (gint64 i = 0; i < window->rank; i++)
    {
      operation->window.pad_begin[i] = window->pad_begin[i];
      operation->window.pad_end[i] = window->pad_end[i];
      operation->window.stride[i] = window->stride[i];
      operation->window.dilation[i] = window->dilation[i];
      operation->window.size[i] = window->size[i];
    }
}

void
ortrain_dnn_convolution (OrtrainDnnGraph *graph, cudnnBackendDescriptorType_t type, const OrtrainDnnWindow *window,
                         int a, int b, int c)
{
  OrtrainDnnOperation *operation = add_operation (graph, type, CUDNN_DATA_FLOAT, a, b, c, -1);
  set_window (operation, window);
}

void
ortrain_dnn_pool (OrtrainDnnGraph *graph, cudnnBackendDescriptorType_t type, cudnnResampleMode_t mode,
                  const OrtrainDnnWindow *window, int from, int to)
{
  OrtrainDnnOperation *operation = add_operation (graph, type, CUDNN_DATA_FLOAT, from, to, -1, -1);
  operation->mode = mode;
  set_window (operation, window);
}

void
ortrain_dnn_matmul (OrtrainDnnGraph *graph, int a, int b, int c)
{
  ortrain_dnn_matmul_of (graph, a, b, c, -1, -1, -1);
}

void
ortrain_dnn_matmul_of (OrtrainDnnGraph *graph, int a, int b, int c, int m, int n, int k)
{
  OrtrainDnnOperation *operation =
      add_operation (graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_DATA_FLOAT, a, b, c, -1);
  operation->overrides[0] = m;
  operation->overrides[1] = n;
  operation->overrides[2] = k;
}

static OrtrainDnnOperation *
add_pointwise (OrtrainDnnGraph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int x, int b, int y, int t)
{
  OrtrainDnnOperation *operation =
      add_operation (graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, precision, x, b, y, t);
  operation->mode = mode;
  operation->axis = -1;
  return operation;
}

void
ortrain_dnn_pointwise_into (OrtrainDnnGraph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int x, int b,
                            int y)
{
  add_pointwise (graph, mode, precision, x, b, y, -1);
}

static int
add_like (OrtrainDnnGraph *graph, cudnnDataType_t type, int x)
{
  const OrtrainDnnTensor *tensor = &graph->tensors[x];
  return add_tensor (graph, type, (guint) tensor->rank, tensor->dims, NULL, ORTRAIN_DNN_VIRTUAL);
}

int
ortrain_dnn_pointwise (OrtrainDnnGraph *graph, cudnnPointwiseMode_t mode, int x, int b)
{
  const int y = add_like (graph, CUDNN_DATA_FLOAT, x);
  add_pointwise (graph, mode, CUDNN_DATA_FLOAT, x, b, y, -1);
  return y;
}

int
ortrain_dnn_select (OrtrainDnnGraph *graph, int t, int x, int b)
{
  const int y = add_like (graph, CUDNN_DATA_FLOAT, x);
  add_pointwise (graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x, b, y, t);
  return y;
}

int
ortrain_dnn_index (OrtrainDnnGraph *graph, int x, int axis)
{
  const int y = add_like (graph, CUDNN_DATA_INT32, x);
  add_pointwise (graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, x, -1, y, -1)->axis = axis;
  return y;
}

int
ortrain_dnn_compare (OrtrainDnnGraph *graph, cudnnPointwiseMode_t mode, int a, int b)
{
  const int y = add_like (graph, CUDNN_DATA_BOOLEAN, a);
  add_pointwise (graph, mode, CUDNN_DATA_BOOLEAN, a, b, y, -1);
  return y;
}

void
ortrain_dnn_reduce_into (OrtrainDnnGraph *graph, cudnnReduceTensorOp_t op, int x, int y)
{
  add_operation (graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_DATA_FLOAT, x, y, -1, -1)->mode = op;
}

void
ortrain_dnn_reshape_into (OrtrainDnnGraph *graph, int x, int y)
{
  add_operation (graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_DATA_FLOAT, x, y, -1, -1);
}
