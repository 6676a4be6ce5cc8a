/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Functions with which rows write a node whose images, [batch, channels, height, width], have become [batch, height,
 * width, channels]; see OrtrainOpDef.put_channels_last. Most of them do it by views: a statistic of channels is that of
 * rows [n · h · w, c], and a window over an image is one over [n, 1, h, w, c] that is 1 along the last axis. */

#define ORTRAIN_IMAGE_RANK 4

/* Shapes are numbers; no dimension is 0. */
gboolean ortrain_value_is_image (const OrtrainValue *value);
/* Where an axis of an image is once its channels are last. */
gint64 ortrain_channels_last_move_axis (gint64 axis);

/* The operator becomes the one that the row names for ORTRAIN_FUSION_CHANNELS_LAST. */
void ortrain_channels_last_set_operator (OrtrainNode *node);
void ortrain_channels_last_set_row (OrtrainNode *node, const char *domain, const char *op_type);
/* An input that holds the shape of a value. */
void ortrain_channels_last_set_shape (OrtrainNode *node, guint index, const OrtrainValue *value);
/* The shape that an input holds; FALSE: it is not known. dims: [ORTRAIN_MAX_RANK] */
gboolean ortrain_channels_last_read_shape (const OrtrainNode *node, guint index, gint64 *dims, gint *rank);
/* The node reads, or writes, the same memory in another shape; nothing happens where the operand is absent. */
gboolean ortrain_channels_last_view_input (OrtrainNode *node, guint index, const gint64 *dims, guint rank,
                                           GError **error);
gboolean ortrain_channels_last_view_output (OrtrainNode *node, guint index, const gint64 *dims, guint rank,
                                            GError **error);

/* Ready-made: the axis in the attribute `axis` of Concat and Split, all of whose operands are images. */
gboolean ortrain_channels_last_find_joined (const OrtrainNode *node, guint32 *inputs, guint32 *outputs);
gboolean ortrain_channels_last_put_joined (OrtrainNode *node, GError **error);
/* … an image, and the shape of the result in input 1, which is an image too, or has no dimension of an image but one, …
 */
gboolean ortrain_channels_last_find_broadcast (const OrtrainNode *node, guint32 *inputs, guint32 *outputs);
gboolean ortrain_channels_last_put_broadcast (OrtrainNode *node, GError **error);
/* … and a Transpose: of an image to channels last, which reads one, or of any value, which writes one. */
gboolean ortrain_channels_last_find_transposed (const OrtrainNode *node, guint32 *inputs, guint32 *outputs);
gboolean ortrain_channels_last_put_transposed (OrtrainNode *node, GError **error);
