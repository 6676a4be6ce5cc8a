/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-abi/ortrain-kernel-private.h"

G_BEGIN_DECLS

/* An operand of a product as the product sees it, after its permutation: the last two dimensions are those of a matrix,
 * those before them number the matrices of a batch. Strides are in elements. */
typedef struct
{
  guint rank;
  gint64 dims[ORTRAIN_MAX_RANK + 1], strides[ORTRAIN_MAX_RANK + 1];
} OrtrainMatrixView;

/* perm: of so many dimensions; NULL: as they are stored. FALSE: it does not fit the operand. */
gboolean ortrain_matrix_view_init (OrtrainMatrixView *self, const OrtrainOperand *operand, const gint64 *perm,
                                   gsize n_perm);
/* A view of a result that is stored through a permutation. */
gboolean ortrain_matrix_view_init_result (OrtrainMatrixView *self, const OrtrainOperand *operand, const gint64 *perm,
                                          gsize n_perm);
/* A dimension of one element becomes dimension `at`. */
void ortrain_matrix_view_insert_one (OrtrainMatrixView *self, guint at);
void ortrain_matrix_view_transpose (OrtrainMatrixView *self);

/* Counted from the innermost dimension of the batch; 1 beyond the outermost. */
gint64 ortrain_matrix_view_get_batch_dim (const OrtrainMatrixView *self, guint i);
gint64 ortrain_matrix_view_get_n_matrices (const OrtrainMatrixView *self);
/* The rows of all matrices lie at one distance from each other. */
gboolean ortrain_matrix_view_is_one_matrix (const OrtrainMatrixView *self);
/* Which of the last two dimensions is contiguous, and the distance along the other. FALSE: neither is. */
gboolean ortrain_matrix_view_find_leading (const OrtrainMatrixView *self, gboolean *is_transposed, gint64 *leading);
/* Where each of n_batch products finds its matrix: offsets[n_batch]. batch: [rank], the dimensions against which those
 * of the view are broadcast. Returns whether the distance from one to the next is always *stride. */
gboolean ortrain_matrix_view_find_offsets (const OrtrainMatrixView *self, const gint64 *batch, guint rank,
                                           gint64 n_batch, gint64 *offsets, gint64 *stride);

G_END_DECLS
