/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cudnn-descriptors.h"

#include "core/ortrain-float-private.h"

#include <algorithm>
#include <cmath>

/* Executes an operation graph, one operation after the other: numbers are float32 and sums float64; elements that are
 * stored in a tensor are rounded to its type. */

struct Array
{
  std::vector<double> numbers; /* as they lie in memory */
  const FakeTensor *tensor;
};

static int64_t
get_extent (const FakeTensor &tensor)
{
  int64_t last = 0;
  for (size_t i = 0; i < tensor.dims.size (); i++)
    last += (tensor.dims[i] - 1) * tensor.strides[i];
  return last + 1;
}

static double
round_to (cudnnDataType_t type, double x)
{
  switch (type)
    {
    case CUDNN_DATA_HALF:
      return ortrain_half_to_float (ortrain_float_to_half ((float) x));
    case CUDNN_DATA_BFLOAT16:
      return ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 ((float) x));
    case CUDNN_DATA_FLOAT:
      return (float) x;
    default:
      return x;
    }
}

static double
read (const void *address, int64_t i, cudnnDataType_t type)
{
  switch (type)
    {
    case CUDNN_DATA_HALF:
      return ortrain_half_to_float (((const uint16_t *) address)[i]);
    case CUDNN_DATA_BFLOAT16:
      return ortrain_bfloat16_to_float (((const uint16_t *) address)[i]);
    case CUDNN_DATA_FLOAT:
      return ((const float *) address)[i];
    case CUDNN_DATA_DOUBLE:
      return ((const double *) address)[i];
    case CUDNN_DATA_INT32:
      return ((const int32_t *) address)[i];
    default:
      return NAN;
    }
}

static void
write (void *address, int64_t i, cudnnDataType_t type, double x)
{
  switch (type)
    {
    case CUDNN_DATA_HALF:
      ((uint16_t *) address)[i] = ortrain_float_to_half ((float) x);
      break;
    case CUDNN_DATA_BFLOAT16:
      ((uint16_t *) address)[i] = ortrain_float_to_bfloat16 ((float) x);
      break;
    case CUDNN_DATA_FLOAT:
      ((float *) address)[i] = (float) x;
      break;
    case CUDNN_DATA_DOUBLE:
      ((double *) address)[i] = x;
      break;
    default:
      break;
    }
}

/* Calls body (offsets of a and b and the index) for each element of dims; an operand of extent 1 is the same for
 * all. */
template <typename Body>
static void
walk (const std::vector<int64_t> &dims, const std::vector<const FakeTensor *> &operands, Body body)
{
  const size_t rank = dims.size ();
  std::vector<int64_t> index (rank, 0), offsets (operands.size (), 0);
  int64_t n = 1;
  for (int64_t dim : dims)
    n *= dim;
  for (int64_t i = 0; i < n; i++)
    {
      for (size_t k = 0; k < operands.size (); k++)
        {
          offsets[k] = 0;
          for (size_t d = 0; d < rank; d++)
            offsets[k] += operands[k]->dims[d] == 1 ? 0 : index[d] * operands[k]->strides[d];
        }
      body (index, offsets);
      for (size_t d = rank; d-- > 0 && ++index[d] == dims[d];)
        index[d] = 0;
    }
}

static double
apply (int mode, double x, double b, double t)
{
  switch (mode)
    {
    case CUDNN_POINTWISE_ADD:
      return (float) x + (float) b;
    case CUDNN_POINTWISE_SUB:
      return (float) x - (float) b;
    case CUDNN_POINTWISE_MUL:
      return (float) x * (float) b;
    case CUDNN_POINTWISE_DIV:
      return (float) x / (float) b;
    case CUDNN_POINTWISE_EXP:
      return exp (x);
    case CUDNN_POINTWISE_LOG:
      return log (x);
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b;
    case CUDNN_POINTWISE_CMP_LT:
      return x < b;
    case CUDNN_POINTWISE_LOGICAL_AND:
      return x != 0 && b != 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      return x; /* IDENTITY */
    }
}

static void
compute_pointwise (const FakeOperation &operation, const Array &x, const Array *b, const Array *t, Array *y)
{
  const FakeTensor &out = *y->tensor;
  std::vector<const FakeTensor *> tensors = { &out, x.tensor, (b != nullptr ? b : &x)->tensor,
                                              (t != nullptr ? t : &x)->tensor };
  walk (out.dims, tensors, [&] (const std::vector<int64_t> &index, const std::vector<int64_t> &at) {
    const double value =
        operation.mode == CUDNN_POINTWISE_GEN_INDEX
            ? (double) index[(size_t) operation.axis]
            : apply (operation.mode, x.numbers[(size_t) at[1]], b != nullptr ? b->numbers[(size_t) at[2]] : 0,
                     t != nullptr ? t->numbers[(size_t) at[3]] : 0);
    y->numbers[(size_t) at[0]] = round_to (out.type, value);
  });
}

static void
compute_reduction (int mode, const Array &x, Array *y)
{
  const bool adds = mode == CUDNN_REDUCE_TENSOR_ADD;
  std::fill (y->numbers.begin (), y->numbers.end (), adds ? 0.0 : -INFINITY);
  walk (x.tensor->dims, { x.tensor, y->tensor }, [&] (const std::vector<int64_t> &, const std::vector<int64_t> &at) {
    double &to = y->numbers[(size_t) at[1]];
    const double from = x.numbers[(size_t) at[0]];
    to = adds ? to + from : from > to || from != from ? from : to;
  });
  for (double &to : y->numbers)
    to = round_to (y->tensor->type, to);
}

/* [b, h, m, k] · [b, h, k, n] */
static void
compute_product (const Array &a, const Array &b, Array *c)
{
  const FakeTensor &ta = *a.tensor, &tb = *b.tensor, &tc = *c->tensor;
  const int64_t m = tc.dims[2], n = tc.dims[3], k = ta.dims[3];
  std::vector<double> row ((size_t) n);
  for (int64_t i = 0; i < tc.dims[0] * tc.dims[1]; i++)
    {
      const int64_t batch = i / tc.dims[1], head = i % tc.dims[1];
      auto at = [&] (const FakeTensor &t) {
        return (t.dims[0] == 1 ? 0 : batch * t.strides[0]) + (t.dims[1] == 1 ? 0 : head * t.strides[1]);
      };
      for (int64_t r = 0; r < m; r++)
        {
          std::fill (row.begin (), row.end (), 0.0);
          for (int64_t l = 0; l < k; l++)
            {
              const double factor = a.numbers[(size_t) (at (ta) + r * ta.strides[2] + l * ta.strides[3])];
              const double *from = &b.numbers[(size_t) (at (tb) + l * tb.strides[2])];
              for (int64_t j = 0; j < n; j++)
                row[(size_t) j] += factor * from[j * tb.strides[3]];
            }
          for (int64_t j = 0; j < n; j++)
            c->numbers[(size_t) (at (tc) + r * tc.strides[2] + j * tc.strides[3])] =
                round_to (tc.type, row[(size_t) j]);
        }
    }
}

/* x: [n, g · c, …], w: [g · k, c, …], y: [n, g · k, …]; whichever the operation names is the result. Rows follow each
 * other by their strides; one and the same loop adds each product where it belongs. */
static void
compute_convolution (const FakeOperation &operation, Array *x, Array *w, Array *y)
{
  const bool forward = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool data = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  Array *result = forward ? y : data ? x : w;
  const size_t n_spatial = operation.stride.size (), shift = 3 - n_spatial;
  int64_t in[3] = { 1, 1, 1 }, out[3] = { 1, 1, 1 }, kernel[3] = { 1, 1, 1 }, stride[3] = { 1, 1, 1 }, pad[3] = { 0 };
  int64_t dilation[3] = { 1, 1, 1 }, sx[3] = { 0 }, sw[3] = { 0 }, sy[3] = { 0 };
  for (size_t i = 0; i < n_spatial; i++)
    {
      in[shift + i] = x->tensor->dims[2 + i];
      out[shift + i] = y->tensor->dims[2 + i];
      kernel[shift + i] = w->tensor->dims[2 + i];
      stride[shift + i] = operation.stride[i];
      dilation[shift + i] = operation.dilation[i];
      pad[shift + i] = operation.pad[i];
      sx[shift + i] = x->tensor->strides[2 + i];
      sy[shift + i] = y->tensor->strides[2 + i];
      sw[shift + i] = w->tensor->strides[2 + i];
    }
  const int64_t images = x->tensor->dims[0], per_group = w->tensor->dims[1], filters = w->tensor->dims[0];
  const int64_t groups = x->tensor->dims[1] / per_group;
  std::fill (result->numbers.begin (), result->numbers.end (), 0.0);
  for (int64_t n = 0; n < images; n++)
    for (int64_t k = 0; k < filters; k++)
      for (int64_t c = 0; c < per_group; c++)
        for (int64_t tap = 0; tap < kernel[0] * kernel[1] * kernel[2]; tap++)
          {
            const int64_t t[3] = { tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2] };
            const int64_t channel = k / (filters / groups) * per_group + c;
            const int64_t at_w =
                k * w->tensor->strides[0] + c * w->tensor->strides[1] + t[0] * sw[0] + t[1] * sw[1] + t[2] * sw[2];
            for (int64_t d = 0; d < out[0]; d++)
              for (int64_t h = 0; h < out[1]; h++)
                {
                  const int64_t z = d * stride[0] + t[0] * dilation[0] - pad[0];
                  const int64_t v = h * stride[1] + t[1] * dilation[1] - pad[1];
                  if (z < 0 || z >= in[0] || v < 0 || v >= in[1])
                    continue;
                  double *from = &x->numbers[(size_t) (n * x->tensor->strides[0] + channel * x->tensor->strides[1] +
                                                       z * sx[0] + v * sx[1])];
                  double *to = &y->numbers[(size_t) (n * y->tensor->strides[0] + k * y->tensor->strides[1] + d * sy[0] +
                                                     h * sy[1])];
                  double &weight = w->numbers[(size_t) at_w];
                  for (int64_t j = 0; j < out[2]; j++)
                    {
                      const int64_t u = j * stride[2] + t[2] * dilation[2] - pad[2];
                      if (u < 0 || u >= in[2])
                        continue;
                      if (forward)
                        to[j * sy[2]] += weight * from[u * sx[2]];
                      else if (data)
                        from[u * sx[2]] += weight * to[j * sy[2]];
                      else
                        weight += to[j * sy[2]] * from[u * sx[2]];
                    }
                }
          }
  for (double &number : result->numbers)
    number = round_to (result->tensor->type, number);
}

/* Which elements of x lie under the window of each element of y; averages are of them, or of the whole window. */
static void
compute_pool (const FakeOperation &operation, const Array &from, Array *to)
{
  const bool forward = operation.type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
  const FakeTensor &large = *(forward ? from.tensor : to->tensor), &small = *(forward ? to->tensor : from.tensor);
  const size_t n = operation.size.size ();
  int64_t n_places = 1;
  for (int64_t size : operation.size)
    n_places *= size;
  std::fill (to->numbers.begin (), to->numbers.end (), 0.0);
  walk (small.dims, { &small }, [&] (const std::vector<int64_t> &index, const std::vector<int64_t> &at) {
    std::vector<int64_t> under;
    for (int64_t place = 0; place < n_places; place++)
      {
        int64_t rest = place, offset = index[0] * large.strides[0] + index[1] * large.strides[1];
        bool inside = true;
        for (size_t d = n; d-- > 0; rest /= operation.size[d])
          {
            const int64_t i = index[2 + d] * operation.stride[d] - operation.pad[d] + rest % operation.size[d];
            inside = inside && i >= 0 && i < large.dims[2 + d];
            offset += i * large.strides[2 + d];
          }
        if (inside)
          under.push_back (offset);
      }
    const double count =
        operation.mode == CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING ? (double) n_places : (double) under.size ();
    double sum = 0, greatest = -INFINITY;
    for (int64_t i : under)
      {
        if (!forward)
          {
            to->numbers[(size_t) i] += from.numbers[(size_t) at[0]] / count;
            continue;
          }
        const double x = from.numbers[(size_t) i];
        sum += x;
        if (x > greatest || (operation.nan_stays && std::isnan (x)))
          greatest = x;
      }
    if (forward)
      to->numbers[(size_t) at[0]] = operation.mode == CUDNN_RESAMPLE_MAXPOOL ? greatest : sum / count;
  });
  for (double &number : to->numbers)
    number = round_to (to->tensor->type, number);
}

static void
compute_operation (const FakeOperation &operation, std::vector<Array> &arrays)
{
  auto operand = [&] (int i) { return operation.operands[i] >= 0 ? &arrays[(size_t) operation.operands[i]] : nullptr; };
  Array *a = operand (0), *b = operand (1), *c = operand (2);
  switch (operation.type)
    {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return compute_convolution (operation, a, b, c);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return compute_convolution (operation, c, b, a);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return compute_convolution (operation, b, c, a);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return compute_pointwise (operation, *a, b, operand (3), c);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return compute_product (*a, *b, c);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return compute_reduction (operation.mode, *a, b);
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
      return compute_pool (operation, *a, b);
    default: /* a reshape: the same memory */
      b->numbers = a->numbers;
      for (double &number : b->numbers)
        number = round_to (b->tensor->type, number);
    }
}

void
fake_cudnn_compute (FakeGraph *graph)
{
  std::vector<Array> arrays (graph->tensors.size ());
  std::vector<bool> written (graph->tensors.size (), false);
  if (graph->workspace != nullptr)
    memset (graph->workspace, 0xff, graph->workspace_bytes);
  for (const FakeOperation &operation : graph->operations)
    {
      const bool short_one = operation.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
                             operation.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR || !operation.size.empty ();
      written[(size_t) operation.operands[short_one ? 1 : 2]] = true;
    }
  for (size_t i = 0; i < arrays.size (); i++)
    {
      const FakeTensor &tensor = graph->tensors[i];
      arrays[i].tensor = &tensor;
      arrays[i].numbers.assign ((size_t) get_extent (tensor), tensor.by_value ? tensor.value : NAN);
      if (tensor.is_virtual || tensor.by_value || written[i])
        continue;
      walk (tensor.dims, { &tensor }, [&] (const std::vector<int64_t> &, const std::vector<int64_t> &at) {
        arrays[i].numbers[(size_t) at[0]] = read (tensor.address, at[0], tensor.type);
      });
    }
  for (const FakeOperation &operation : graph->operations)
    compute_operation (operation, arrays);
  for (size_t i = 0; i < arrays.size (); i++)
    if (written[i] && !graph->tensors[i].is_virtual)
      {
        const FakeTensor &tensor = graph->tensors[i];
        walk (tensor.dims, { &tensor }, [&] (const std::vector<int64_t> &, const std::vector<int64_t> &at) {
          write (tensor.address, at[0], tensor.type, arrays[i].numbers[(size_t) at[0]]);
        });
      }
}
