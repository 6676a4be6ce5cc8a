/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

G_BEGIN_DECLS

/* A convolution as all of its kernels see it: the large side is the one that strides make small (x of Conv, y of
 * ConvTranspose), weights are [filters of the small side, channels of a group of the large side, kernel…]. One and two
 * spatial dimensions are three, of which the first are 1. */
typedef struct
{
  gint64 n_images, n_groups, small_channels, large_channels; /* channels of a group */
  gint64 large[3], small[3], kernel[3], stride[3], dilation[3], pad[3];
  OrtrainDType large_dtype, small_dtype, weight_dtype, bias_dtype; /* bias: UNDEFINED if there is no bias */
  gboolean channels_last; /* both sides are [images, kernel…, channels]; weights are as above all the same */
} OrtrainCudaConv;

/* Plain kernels, for convolutions that cuDNN does not compute: types that differ, float64, windows with odd pads, no
 * library. */

/* small: [n, g · small_channels, …] = bias + large ∗ weights */
void ortrain_cuda_conv_forward (const OrtrainKernelCall *call, const OrtrainCudaConv *conv, const void *large,
                                const void *weights, const void *bias, void *small);
/* large: [n, g · large_channels, …] = bias + the gradient of small ∗ weights */
void ortrain_cuda_conv_backward (const OrtrainKernelCall *call, const OrtrainCudaConv *conv, const void *small,
                                 const void *weights, const void *bias, void *large);
/* Output 0 of the call: added to where it says so. */
void ortrain_cuda_conv_weights (const OrtrainKernelCall *call, const OrtrainCudaConv *conv, const void *small,
                                const void *large, void *weights);
/* y [n] = x [n] + bias [i / plane mod n_channels], added to y where accumulate says so: after the library, and to
 * change types. bias: or NULL. x may be y. */
typedef struct
{
  gint64 n, plane, n_channels;
  OrtrainDType x_dtype, y_dtype, bias_dtype;
} OrtrainCudaConvFinish;
void ortrain_cuda_conv_finish (const OrtrainKernelCall *call, const OrtrainCudaConvFinish *shape, const void *x,
                               const void *bias, void *y, gboolean may_accumulate);
/* Weights [filters, channels, taps] as cuDNN wants them where channels come last, [filters, taps, channels]; back: such
 * a result of the library as output 0 of the call, added to where it says so. */
typedef struct
{
  gint64 filters, channels, taps;
  OrtrainDType x_dtype, y_dtype;
  gboolean back;
} OrtrainCudaConvTurn;
void ortrain_cuda_conv_turn (const OrtrainKernelCall *call, const OrtrainCudaConvTurn *shape, const void *x, void *y);

G_END_DECLS
