/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-storage.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TENSOR (ortrain_tensor_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTensor, ortrain_tensor, ORTRAIN, TENSOR, GObject)

/* In: new zeroed memory; a copy; a reference; an address kept alive by an owner; a foreign DLPack tensor; a part of a
 * file. Shapes are given outermost first, in elements; the memory is row-major. */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_for_data (OrtrainDType dtype, const gint64 *dims, gsize n_dims, const guint8 *data,
                                            gsize n_bytes, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_for_bytes (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GBytes *bytes,
                                             GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_for_address (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gsize address,
                                               gboolean writable, const GValue *owner, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_for_storage (OrtrainDType dtype, const gint64 *dims, gsize n_dims,
                                               OrtrainStorage *storage, gsize byte_offset, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_from_dlpack (gpointer managed, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_mapped (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GFile *file,
                                          guint64 offset, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_from_npy (const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_from_idx (const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_scalar (double value);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_floats (const gint64 *dims, gsize n_dims, const float *values, gsize n_values,
                                          GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_ints (const gint64 *dims, gsize n_dims, const gint64 *values, gsize n_values,
                                        GError **error);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDType ortrain_tensor_get_dtype (OrtrainTensor *self);
ORTRAIN_AVAILABLE_IN_ALL
gsize ortrain_tensor_get_rank (OrtrainTensor *self);
ORTRAIN_AVAILABLE_IN_ALL
const gint64 *ortrain_tensor_get_dims (OrtrainTensor *self, gsize *n_dims);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_tensor_get_dim (OrtrainTensor *self, gsize index);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_tensor_get_n_elements (OrtrainTensor *self);
ORTRAIN_AVAILABLE_IN_ALL
gsize ortrain_tensor_get_n_bytes (OrtrainTensor *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainStorage *ortrain_tensor_get_storage (OrtrainTensor *self);
ORTRAIN_AVAILABLE_IN_ALL
gsize ortrain_tensor_get_address (OrtrainTensor *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_get_writable (OrtrainTensor *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_tensor_get_device (OrtrainTensor *self); /* "cpu"; NULL once released */
ORTRAIN_AVAILABLE_IN_ALL
GBytes *ortrain_tensor_get_bytes (OrtrainTensor *self, GError **error); /* transfer full; keeps the storage */
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_set_bytes (OrtrainTensor *self, GBytes *bytes, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gpointer ortrain_tensor_to_dlpack (OrtrainTensor *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_synchronize (OrtrainTensor *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_get_dlpack_device (OrtrainTensor *self, gint *type, gint *id);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_save_npy (OrtrainTensor *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_tensor_get_scalar (OrtrainTensor *self, gint64 index); /* any numeric type, as a double */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_copy (OrtrainTensor *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_to_host (OrtrainTensor *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_to_device (OrtrainTensor *self, const char *device, GError **error); /* provider/ */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_cast (OrtrainTensor *self, OrtrainDType dtype, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_reshape (OrtrainTensor *self, const gint64 *dims, gsize n_dims, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_slice_rows (OrtrainTensor *self, gint64 begin, gint64 end, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_argmax (OrtrainTensor *self, gint64 axis, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_equal (OrtrainTensor *self, OrtrainTensor *other);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_tensor_release (OrtrainTensor *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_tensor_to_string (OrtrainTensor *self);

G_END_DECLS
