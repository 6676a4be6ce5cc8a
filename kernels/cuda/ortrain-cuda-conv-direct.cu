/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

#include "cuda/ortrain-cuda-conv-private.h"

/* Convolutions by their definition: a thread for each element of a result that lies in space, a warp for each of the
 * weights. Sums are float32 (float64 of float64), in an order that follows from shapes. */

#define MAX_WARPS 8

template <typename R>
static __device__ R
read_any (const void *x, gint64 i, OrtrainDType dtype)
{
  return (R) ortrain_load_any (x, i, dtype);
}

template <>
__device__ double
read_any<double> (const void *x, gint64 i, OrtrainDType dtype)
{
  return ((const double *) x)[i];
}

static __device__ void
write_any (void *y, gint64 i, OrtrainDType dtype, float value)
{
  ortrain_store_any (y, i, dtype, value);
}

static __device__ void
write_any (void *y, gint64 i, OrtrainDType dtype, double value)
{
  ((double *) y)[i] = value;
}

/* A position of three dimensions from its number. */
struct Place
{
  gint64 at[3];

  __device__
  Place (gint64 i, const gint64 *dims)
  {
    at[2] = i % dims[2];
    at[1] = i / dims[2] % dims[1];
    at[0] = i / dims[2] / dims[1];
  }
};

/* The address of an element of one operand of a convolution, at a position of a plane. */
struct Side
{
  gint64 n_channels, plane;
  bool last; /* channels are neighbours */

  __device__ gint64
  find (gint64 image, gint64 channel, gint64 position) const
  {
    return last ? (image * plane + position) * n_channels + channel : (image * n_channels + channel) * plane + position;
  }
};

template <typename R>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    conv_forward_kernel (OrtrainCudaConv conv, const void *large, const void *weights, const void *bias, void *small)
{
  const gint64 plane = conv.small[0] * conv.small[1] * conv.small[2],
               n_taps = conv.kernel[0] * conv.kernel[1] * conv.kernel[2];
  const gint64 filters = conv.n_groups * conv.small_channels, n = conv.n_images * filters * plane;
  const Side from = { conv.n_groups * conv.large_channels, conv.large[0] * conv.large[1] * conv.large[2],
                      conv.channels_last != 0 },
             to = { filters, plane, conv.channels_last != 0 };
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const Place place (i % plane, conv.small);
      const gint64 k = i / plane % filters, image = i / plane / filters, group = k / conv.small_channels;
      R sum = 0;
      for (gint64 c = 0; c < conv.large_channels; c++)
        {
          const gint64 weight = (k * conv.large_channels + c) * n_taps;
#pragma unroll 1
          for (gint64 t = 0; t < n_taps; t++)
            {
              const Place tap (t, conv.kernel);
              gint64 at = 0;
              bool inside = true;
              for (int d = 0; d < 3; d++)
                {
                  const gint64 p = place.at[d] * conv.stride[d] + tap.at[d] * conv.dilation[d] - conv.pad[d];
                  inside = inside && p >= 0 && p < conv.large[d];
                  at = at * conv.large[d] + p;
                }
              if (inside)
                sum += read_any<R> (large, from.find (image, group * conv.large_channels + c, at), conv.large_dtype) *
                       read_any<R> (weights, weight + t, conv.weight_dtype);
            }
        }
      if (bias != NULL)
        sum += read_any<R> (bias, k, conv.bias_dtype);
      write_any (small, to.find (image, k, i % plane), conv.small_dtype, sum);
    }
}

template <typename R>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    conv_backward_kernel (OrtrainCudaConv conv, const void *small, const void *weights, const void *bias, void *large)
{
  const gint64 plane = conv.large[0] * conv.large[1] * conv.large[2],
               n_taps = conv.kernel[0] * conv.kernel[1] * conv.kernel[2];
  const gint64 channels = conv.n_groups * conv.large_channels, n = conv.n_images * channels * plane;
  const Side from = { conv.n_groups * conv.small_channels, conv.small[0] * conv.small[1] * conv.small[2],
                      conv.channels_last != 0 },
             to = { channels, plane, conv.channels_last != 0 };
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const Place place (i % plane, conv.large);
      const gint64 channel = i / plane % channels, image = i / plane / channels, group = channel / conv.large_channels;
      const gint64 c = channel % conv.large_channels;
      R sum = 0;
      for (gint64 k = 0; k < conv.small_channels; k++)
        {
          const gint64 filter = group * conv.small_channels + k;
          const gint64 weight = (filter * conv.large_channels + c) * n_taps;
#pragma unroll 1
          for (gint64 t = 0; t < n_taps; t++)
            {
              const Place tap (t, conv.kernel);
              gint64 at = 0;
              bool inside = true;
              for (int d = 0; d < 3; d++)
                {
                  const gint64 p = place.at[d] + conv.pad[d] - tap.at[d] * conv.dilation[d];
                  inside = inside && p >= 0 && p % conv.stride[d] == 0 && p / conv.stride[d] < conv.small[d];
                  at = at * conv.small[d] + p / conv.stride[d];
                }
              if (inside)
                sum += read_any<R> (small, from.find (image, filter, at), conv.small_dtype) *
                       read_any<R> (weights, weight + t, conv.weight_dtype);
            }
        }
      if (bias != NULL)
        sum += read_any<R> (bias, channel, conv.bias_dtype);
      write_any (large, to.find (image, channel, i % plane), conv.large_dtype, sum);
    }
}

/* A warp for each weight: its lanes take positions of the small side in turn. */
template <typename R>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_WARP *MAX_WARPS)
    conv_weights_kernel (OrtrainCudaConv conv, const void *small, const void *large, void *weights,
                         OrtrainAccumulate accumulate)
{
  const gint64 n_taps = conv.kernel[0] * conv.kernel[1] * conv.kernel[2], filters = conv.n_groups * conv.small_channels;
  const gint64 small_plane = conv.small[0] * conv.small[1] * conv.small[2];
  const Side from = { filters, small_plane, conv.channels_last != 0 },
             to = { conv.n_groups * conv.large_channels, conv.large[0] * conv.large[1] * conv.large[2],
                    conv.channels_last != 0 };
  const gint64 n = filters * conv.large_channels * n_taps;
  const unsigned lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  for (gint64 i = ortrain_cuda_first () / ORTRAIN_CUDA_WARP; i < n; i += ortrain_cuda_stride () / ORTRAIN_CUDA_WARP)
    {
      const Place tap (i % n_taps, conv.kernel);
      const gint64 c = i / n_taps % conv.large_channels, k = i / n_taps / conv.large_channels;
      const gint64 group = k / conv.small_channels;
      R sum = 0;
      for (gint64 j = lane; j < conv.n_images * small_plane; j += ORTRAIN_CUDA_WARP)
        {
          const gint64 image = j / small_plane;
          const Place place (j % small_plane, conv.small);
          gint64 at = 0;
          bool inside = true;
          for (int d = 0; d < 3; d++)
            {
              const gint64 p = place.at[d] * conv.stride[d] + tap.at[d] * conv.dilation[d] - conv.pad[d];
              inside = inside && p >= 0 && p < conv.large[d];
              at = at * conv.large[d] + p;
            }
          if (inside)
            sum += read_any<R> (small, from.find (image, k, j % small_plane), conv.small_dtype) *
                   read_any<R> (large, to.find (image, group * conv.large_channels + c, at), conv.large_dtype);
        }
      sum = ortrain_warp_reduce<OrtrainSum> (sum);
      if (lane == 0)
        write_any (weights, i, conv.weight_dtype,
                   sum + (accumulate.is_set () ? read_any<R> (weights, i, conv.weight_dtype) : (R) 0));
    }
}

/* x, y: [n]; bias: [n_channels] */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) conv_finish_kernel (OrtrainCudaConvFinish shape, const void *x, const void *bias,
                                                           void *y, OrtrainAccumulate accumulate)
{
  const bool adds = accumulate.is_set ();
  for (gint64 i = ortrain_cuda_first (); i < shape.n; i += ortrain_cuda_stride ())
    {
      float value = ortrain_load_any (x, i, shape.x_dtype);
      if (bias != NULL)
        value += ortrain_load_any (bias, i / shape.plane % shape.n_channels, shape.bias_dtype);
      if (adds)
        value += ortrain_load_any (y, i, shape.y_dtype);
      ortrain_store_any (y, i, shape.y_dtype, value);
    }
}

/* y [filters, taps, channels] = x [filters, channels, taps]; back: the other way. accumulate: added to y */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    conv_turn_kernel (OrtrainCudaConvTurn shape, const void *x, void *y, OrtrainAccumulate accumulate)
{
  const gint64 n = shape.filters * shape.channels * shape.taps, inner = shape.back ? shape.taps : shape.channels;
  const gint64 outer = shape.back ? shape.channels : shape.taps;
  const bool adds = accumulate.is_set ();
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const gint64 in = i % inner, out = i / inner % outer, filter = i / inner / outer;
      float value = ortrain_load_any (x, (filter * inner + in) * outer + out, shape.x_dtype);
      if (adds)
        value += ortrain_load_any (y, i, shape.y_dtype);
      ortrain_store_any (y, i, shape.y_dtype, value);
    }
}

/* y [8 · n], float32 = x [8 · n]. accumulate: added to y */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    conv_widen_kernel (gint64 n, const OrtrainPack<T, 8> *x, OrtrainPack<float, 4> *y, OrtrainAccumulate accumulate)
{
  const bool adds = accumulate.is_set ();
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const OrtrainPack<T, 8> from = x[i];
      OrtrainPack<float, 4> low = {}, high = {};
      if (adds)
        {
          low = y[2 * i];
          high = y[2 * i + 1];
        }
#pragma unroll
      for (int j = 0; j < 4; j++)
        {
          low.at[j] = ortrain_widen (from.at[j]) + (adds ? low.at[j] : 0.0f);
          high.at[j] = ortrain_widen (from.at[4 + j]) + (adds ? high.at[j] : 0.0f);
        }
      y[2 * i] = low;
      y[2 * i + 1] = high;
    }
}

/* FALSE: it has no such form. */
static bool
launch_widen (const OrtrainKernelCall *call, const OrtrainCudaConvFinish *shape, const void *x, void *y,
              OrtrainAccumulate accumulate)
{
  const gint64 n = shape->n / 8;
  if (shape->n % 8 != 0 || shape->y_dtype != ORTRAIN_DTYPE_FLOAT32 || shape->x_dtype == ORTRAIN_DTYPE_FLOAT32 ||
      (guintptr) x % 16 != 0 || (guintptr) y % 16 != 0)
    return false;
  const unsigned grid = ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK);
  OrtrainPack<float, 4> *to = (OrtrainPack<float, 4> *) y;
  if (shape->x_dtype == ORTRAIN_DTYPE_FLOAT16)
    ortrain_cuda_launch (call, "conv-widen", grid, ORTRAIN_CUDA_BLOCK, conv_widen_kernel<OrtrainHalf>, n,
                         (const OrtrainPack<OrtrainHalf, 8> *) x, to, accumulate);
  else
    ortrain_cuda_launch (call, "conv-widen", grid, ORTRAIN_CUDA_BLOCK, conv_widen_kernel<OrtrainBfloat16>, n,
                         (const OrtrainPack<OrtrainBfloat16, 8> *) x, to, accumulate);
  return true;
}

static bool
is_double (const OrtrainCudaConv *conv)
{
  return conv->large_dtype == ORTRAIN_DTYPE_FLOAT64;
}

void
ortrain_cuda_conv_forward (const OrtrainKernelCall *call, const OrtrainCudaConv *conv, const void *large,
                           const void *weights, const void *bias, void *small)
{
  const gint64 n =
      conv->n_images * conv->n_groups * conv->small_channels * conv->small[0] * conv->small[1] * conv->small[2];
  if (n > 0)
    ortrain_cuda_launch (call, "conv-forward", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                         is_double (conv) ? conv_forward_kernel<double> : conv_forward_kernel<float>, *conv, large,
                         weights, bias, small);
}

void
ortrain_cuda_conv_backward (const OrtrainKernelCall *call, const OrtrainCudaConv *conv, const void *small,
                            const void *weights, const void *bias, void *large)
{
  const gint64 n =
      conv->n_images * conv->n_groups * conv->large_channels * conv->large[0] * conv->large[1] * conv->large[2];
  if (n > 0)
    ortrain_cuda_launch (call, "conv-backward", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                         is_double (conv) ? conv_backward_kernel<double> : conv_backward_kernel<float>, *conv, small,
                         weights, bias, large);
}

void
ortrain_cuda_conv_weights (const OrtrainKernelCall *call, const OrtrainCudaConv *conv, const void *small,
                           const void *large, void *weights)
{
  const gint64 n = conv->n_groups * conv->small_channels * conv->large_channels * conv->kernel[0] * conv->kernel[1] *
                   conv->kernel[2];
  if (n > 0)
    ortrain_cuda_launch (call, "conv-weights", ortrain_cuda_grid (call, n, MAX_WARPS), ORTRAIN_CUDA_WARP * MAX_WARPS,
                         is_double (conv) ? conv_weights_kernel<double> : conv_weights_kernel<float>, *conv, small,
                         large, weights, ortrain_cuda_get_accumulate (call, 0));
}

void
ortrain_cuda_conv_finish (const OrtrainKernelCall *call, const OrtrainCudaConvFinish *shape, const void *x,
                          const void *bias, void *y, gboolean may_accumulate)
{
  const OrtrainAccumulate never = { false, NULL };
  const OrtrainAccumulate accumulate = may_accumulate ? ortrain_cuda_get_accumulate (call, 0) : never;
  if (bias == NULL && launch_widen (call, shape, x, y, accumulate))
    return;
  ortrain_cuda_launch (call, "conv-finish", ortrain_cuda_grid (call, shape->n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       conv_finish_kernel, *shape, x, bias, y, accumulate);
}

void
ortrain_cuda_conv_turn (const OrtrainKernelCall *call, const OrtrainCudaConvTurn *shape, const void *x, void *y)
{
  const OrtrainAccumulate never = { false, NULL };
  const gint64 n = shape->filters * shape->channels * shape->taps;
  ortrain_cuda_launch (call, "conv-turn", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       conv_turn_kernel, *shape, x, y, shape->back ? ortrain_cuda_get_accumulate (call, 0) : never);
}
