/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cpu/ortrain-cpu-device-private.h"

#include "cpu/ortrain-cpu-gemm.h"

/* The attributes, in three spatial dimensions. */
typedef struct
{
  gint64 kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
  gint64 groups;
} OrtrainConvGeometry;

/* In terms of the convolution, whose output is the side that strides make small. */
typedef enum
{
  ORTRAIN_CONV_FORWARD,      /* small = large · weights */
  ORTRAIN_CONV_GRAD_INPUT,   /* large = small · weights; ConvTranspose too */
  ORTRAIN_CONV_GRAD_WEIGHTS, /* weights = large · small */
} OrtrainConvProduct;

typedef struct
{
  OrtrainConvProduct product;
  OrtrainConvGeometry geometry;
  gint64 n_images;
  gint64 large_channels, small_channels; /* per group */
  gint64 large[3], small[3];
  OrtrainDType large_dtype, weights_dtype, small_dtype; /* float32, float16 or bfloat16 */
  gboolean pairs; /* both operands of the product are bfloat16, and the machine multiplies that */
  guint n_threads;
  gboolean fixed_partition;
} OrtrainConvProblem;

/* Convolutions as matrix products whose operands are gathered while they are packed: nothing like an "im2col" matrix is
 * ever stored. All spatial dimensions are brought to three, [d, h, w], the missing ones 1 in front.
 *
 * One form serves the forward pass, the gradient of the input, and the transposed convolution:
 *   dest [n, g, row, q] = sum over (c, t) of  W (g, row, c, t) · source [n, g, c, q · step + offset (t)]
 * for every position q of a grid; the grid's positions lie in dest at start + q · stride. Where a gradient undoes
 * strides, each residue of the position is a grid of its own (a "phase") with those taps that reach it. Taps that only
 * ever fall into the padding are left out.
 *
 * The gradient of the weights is the other product, over all positions:
 *   dW (g, row, c, t) = sum over (n, q) of  dest [n, g, row, q] · source [n, g, c, q · step + offset (t)]. */

typedef struct
{
  gint32 offset[3];
  gint32 index;     /* of the tap in the weights */
  gint32 low, high; /* positions along w whose source lies inside */
} OrtrainConvTap;

typedef struct
{
  gint64 grid[3], start[3], stride[3];
  guint n_taps;
  OrtrainConvTap *taps;
  /* How the grid is cut into blocks of columns: whole images when they are small, else rows of one image. */
  gboolean many_images;
  gint64 n_blocks, images_per_block, row_blocks, column_blocks;
  gint64 row_cuts;    /* of the rows of dest channels */
  gint64 first_chunk; /* of all phases' chunks */
  gboolean direct;    /* blocks are written where they belong, without a detour */
  /* The grid is as large as the source and steps are 1: a tap reads the source shifted, without the elements that fall
   * off the edges. For small planes those are a mask per tap, [n_taps][mask_stride] bits of all ones or zeros. */
  gboolean shifted;
  gint64 mask_stride;
  void *masks;
} OrtrainConvPhase;

/* How the scattered form is cut (see ortrain-cpu-conv-scatter-template.h); by shape alone. */
typedef struct
{
  gint64 images, rows;  /* of the source, in one product: several images only when all their rows are in it */
  gint64 channel_steps; /* of dest's channels in one group, each a work item */
  gboolean direct;      /* the columns are dest */
  gint64 column_elements;
  gsize thread_bytes;
} OrtrainConvScatter;

/* Up to three adjacent taps, which share the elements that they read. */
typedef struct
{
  gint32 offset[2]; /* of the source's rows */
  gint32 first;     /* where the first of them sees the padded source from position 0, in elements */
  gint32 n_taps;
  gint32 weights[3]; /* elements, in [tap][channel] */
} OrtrainConvTapRun;

/* Channels of a depthwise convolution, a vector at a time (see ortrain-cpu-conv-blocked-template.h). */
typedef struct
{
  gint64 padded[3], before[3]; /* the source with the padding that taps read, and the part of the padding in front */
  gint64 padded_plane;
  gint32 *offsets;         /* of the taps in the padded source, from position 0, in elements */
  OrtrainConvTapRun *runs; /* the same for products, phase after phase */
  guint *first_run;        /* [n_phases + 1] */
  gint64 tap_cuts;         /* of the taps of a weights' gradient */
  gint64 grain;
  gsize thread_bytes;
} OrtrainConvBlocked;

typedef enum
{
  ORTRAIN_CONV_GATHER,    /* our own blocks, gathered while they are packed */
  ORTRAIN_CONV_SCATTER,   /* products whose columns are added to the places that they reach */
  ORTRAIN_CONV_DEPTHWISE, /* rows of one channel */
  ORTRAIN_CONV_BLOCKED,   /* the same for several channels at once */
  ORTRAIN_CONV_MATRIX,    /* the kernel sees the whole image: one product */
  ORTRAIN_CONV_LIBRARY,   /* oneDNN's primitive */
  ORTRAIN_CONV_N_ALGORITHMS
} OrtrainConvAlgorithm;

typedef struct
{
  OrtrainConvAlgorithm algorithm;
  OrtrainConvGeometry geometry;
  OrtrainConvScatter scatter;
  OrtrainConvBlocked blocked;
  OrtrainCpuGemm matrix;
  struct _OrtrainConvLibrary *library; /* or NULL */
  gboolean forward;                    /* dest is the small side */
  gboolean is_double;
  /* Operands of 16 bits, or of several types: see ortrain-cpu-conv-mixed.h. In a gradient of the weights, source and
   * dest are its inputs. */
  gboolean is_mixed;
  OrtrainDType source_dtype, weights_dtype, dest_dtype, bias_dtype;
  gint64 span_stride, span_margin; /* elements: of one image of a widened channel, and around all of them */
  gsize span_bytes, row_bytes;     /* the parts of the workspace after the tile, for each thread */
  gint64 n_images, n_groups;
  gint64 source_channels, dest_channels; /* per group */
  gint64 source[3], dest[3];
  gint64 source_plane, dest_plane; /* elements of one channel of one image */
  gint64 step[3];
  gint64 n_taps; /* of the kernel, valid or not */
  gint64 weight_group, weight_row, weight_channel;
  guint n_phases;
  OrtrainConvPhase *phases;
  OrtrainConvTap *taps;
  gboolean has_bias;
  gboolean prefill; /* some positions of dest are reached by no tap */

  gint64 n_chunks;
  gint64 max_columns, max_rows;
  guint n_threads;
  guint cut_threads;                                /* that work is cut for */
  gsize a_bytes, b_bytes, tile_bytes, thread_bytes; /* of the workspace, per thread */
  gsize partial_bytes;

  /* gradient of the weights: tiles of (c, t) × row, and cuts of the sum, added up in order */
  gint64 m_tiles, n_tiles, n_splits;
} OrtrainConv;

#define ORTRAIN_CONV_MAX_COLUMNS 512
#define ORTRAIN_CONV_KC 248 /* not a power of two: panels would fall on each other in the cache */

typedef void (*OrtrainConvRunFunc) (const OrtrainConv *conv, OrtrainThreadPool *pool, const void *source,
                                    const void *weights, const void *bias, void *dest, void *workspace);
typedef void (*OrtrainConvGradWeightRunFunc) (const OrtrainConv *conv, OrtrainThreadPool *pool, const void *dest,
                                              const void *source, void *weights, gboolean accumulate, void *workspace);

/* Conv, ConvTranspose and org.ortrain::ConvGradInput; org.ortrain::ConvGradWeight: the constants are an OrtrainConv. */
gboolean ortrain_conv_prepare (OrtrainKernelSetup *setup, GError **error);
gboolean ortrain_conv_prepare_grad_weight (OrtrainKernelSetup *setup, GError **error);

/* ---- operands of 16 bits, or of several types (ortrain-cpu-conv-mixed.c) ---- */

/* bias: or NULL */
void ortrain_conv_set_dtypes (OrtrainConv *conv, const OrtrainOperand *source, const OrtrainOperand *dest,
                              const OrtrainOperand *weights, const OrtrainOperand *bias);

/* Sets the types of the one product that a convolution is. */
void ortrain_conv_set_matrix_dtypes (OrtrainConv *conv, OrtrainConvProduct product);
void ortrain_conv_set_problem_dtypes (const OrtrainConv *conv, OrtrainConvProblem *problem);

/* Adds the workspace of widened operands to that of a thread: for the gathered form, and for planes. */
void ortrain_conv_plan_wide (OrtrainConv *conv, gint64 row_elements, gint64 bias_elements);
void ortrain_conv_plan_wide_planes (OrtrainConv *conv, gboolean weights);

/* Elements of a channel's plane that rows row0 … row0 + n_rows - 1 of the phase's grid see: whole rows of the source,
 * and whole planes where there are several. */
void ortrain_conv_find_span (const OrtrainConv *conv, const OrtrainConvPhase *phase, gint64 row0, gint64 n_rows,
                             gint64 *first, gint64 *n);
