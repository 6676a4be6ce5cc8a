/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-device-private.h"
#include "tensor/ortrain-tensor.h"

#define ORTRAIN_MAX_RANK 16

/* NULL once released, and where the host may not read: in the memory of a device. Row-major, contiguous, aligned to the
 * element. */
gconstpointer ortrain_tensor_peek (OrtrainTensor *self);
/* The same bytes, perhaps misaligned, for those who only copy or compare bytes: where the elements are unaligned in
 * a file, this is their address there, and no aligned copy is taken. */
gconstpointer ortrain_tensor_peek_unaligned (OrtrainTensor *self);
gpointer ortrain_tensor_peek_writable (OrtrainTensor *self);                     /* NULL if read-only, too */
gconstpointer ortrain_tensor_peek_checked (OrtrainTensor *self, GError **error); /* NULL and the reason */
/* For the copies and kernels of its device; NULL once released. The host may read there if ortrain_tensor_peek () is
 * not NULL. */
gpointer ortrain_tensor_peek_device_address (OrtrainTensor *self);
/* Whose memory it is, where the host may not read it; else NULL. */
OrtrainTensorDevice *ortrain_tensor_peek_device (OrtrainTensor *self);
gboolean ortrain_tensor_check_released (OrtrainTensor *self, GError **error); /* FALSE and an error once released */
/* Copies bytes of the contents to the host, wherever they are. */
gboolean ortrain_tensor_read (OrtrainTensor *self, gsize offset, gpointer destination, gsize n_bytes, GError **error);
/* A copy in the memory of a device. */
OrtrainTensor *ortrain_tensor_copy_to_device (OrtrainTensor *self, OrtrainTensorDevice *device, GError **error);
/* One element as a double; NaN if there is no such element. For contents whose file is checked by whoever reads all of
 * them. */
double ortrain_tensor_peek_scalar (OrtrainTensor *self, gint64 index);
/* The same as an integer: exact for integers, the nearest towards 0 of other numbers, within the range of int64; 0 if
 * there is no such element. */
gint64 ortrain_tensor_peek_int (OrtrainTensor *self, gint64 index);
/* Whether the contents are those of a mapped file, which others may change. */
gboolean ortrain_tensor_is_mapped (OrtrainTensor *self);
/* For after the contents were read: FALSE if they come from a mapped file that was changed meanwhile. */
gboolean ortrain_tensor_check_file (OrtrainTensor *self, GError **error);
const gint64 *ortrain_tensor_peek_dims (OrtrainTensor *self);
/* The elements of a 0-d or 1-d int32 or int64 tensor as int64; NULL with n = 0 when it is neither. transfer full */
gint64 *ortrain_tensor_dup_ints (OrtrainTensor *self, gsize *n);
/* 256-byte aligned, not zeroed */
OrtrainTensor *ortrain_tensor_new_uninitialized (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GError **error);
/* A type and a shape without contents: there is nothing that could be read, as after a release. */
OrtrainTensor *ortrain_tensor_new_without_contents (OrtrainDType dtype, const gint64 *dims, gsize n_dims,
                                                    GError **error);
/* A tensor of the host with the same rank and other sizes: element [i, j, …] is that at [i mod dims[0], j mod dims[1],
 * …] of self, which must have one wherever the result does. dims: [rank] */
OrtrainTensor *ortrain_tensor_repeat (OrtrainTensor *self, const gint64 *dims, GError **error);
/* Whether nobody else holds the tensor, its storage, or anything that was handed out of it. */
gboolean ortrain_tensor_is_exclusive (OrtrainTensor *self);
/* Another tensor in the same memory, of the host, which stays when this one is released; NULL if that is not
 * possible. */
OrtrainTensor *ortrain_tensor_snapshot (OrtrainTensor *self);
/* Real numbers and booleans: the types that can be converted. */
gboolean ortrain_dtype_is_convertible (OrtrainDType dtype);
/* As ortrain_tensor_cast; each element is multiplied with scale on the way (in double precision) unless that is 1. */
void ortrain_convert_elements (OrtrainDType from, gconstpointer data, OrtrainDType to, gpointer out, gint64 n,
                               double scale);
char *ortrain_shape_to_string (const gint64 *dims, gsize n_dims); /* "[64, 1, 28, 28]" */
