/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cpu/ortrain-cpu-conv-private.h"

/* The cost of each algorithm for a convolution, estimated from the shape: cycles of one core with vectors of 16 floats.
 * The one place where an algorithm is chosen. */

/* The slabs that a convolution by oneDNN is cut into; units are channels of the result's side, or groups. */
typedef struct
{
  gint64 images, units, rows; /* of a slab, at most */
  gint64 image_cuts, unit_cuts, row_cuts;
  gint64 chunks; /* of the slabs of one cut of the units, each a work item */
} OrtrainConvCut;

#define ORTRAIN_CONV_LIBRARY_MAX_BYTES (8 * 1024 * 1024)

/* axis: the spatial dimension that may be cut */
void ortrain_conv_plan_cut (const OrtrainConvProblem *problem, guint axis, OrtrainConvCut *cut);

/* The rows of the other side that belong to rows first … last - 1 of the side whose rows are cut, and the pad in front
 * of them. FALSE where there are none, or where oneDNN has no name for it. */
gboolean ortrain_conv_find_rows (const OrtrainConvProblem *problem, guint i, gint64 first, gint64 last,
                                 gint64 *other_first, gint64 *n_other, gint64 *pad);

gint64 ortrain_conv_kernel_extent (const OrtrainConvGeometry *geometry, guint i);

double ortrain_conv_estimate_library (const OrtrainConvProblem *problem, const OrtrainConvCut *cut);
double ortrain_conv_estimate_product (const OrtrainConv *conv);
double ortrain_conv_estimate_scatter (const OrtrainConv *conv);
double ortrain_conv_estimate_blocked (const OrtrainConv *conv, gboolean weights);
double ortrain_conv_estimate_weights (const OrtrainConv *conv);
