/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-private.h"

/* The struct, for the files of the tensor itself. */
#define ORTRAIN_TENSOR_FEW_DIMS 4

struct _OrtrainTensor
{
  GObject parent_instance;
  OrtrainStorage *storage; /* NULL once released */
  gsize offset;            /* in bytes */
  OrtrainDType dtype;
  guint rank;
  gint64 n_elements;
  gsize n_bytes;
  gint64 *dims; /* [rank]: of the heap, or `few` */
  gint64 few[ORTRAIN_TENSOR_FEW_DIMS];
};

/* All is checked, n_elements and n_bytes follow from type and shape. storage: taken */
OrtrainTensor *ortrain_tensor_take (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gint64 n_elements,
                                    gsize n_bytes, OrtrainStorage *storage, gsize offset);
/* Whether as many bytes were found as the tensor needs. */
gboolean ortrain_tensor_check_n_bytes (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gsize needed, gsize found,
                                       GError **error);
