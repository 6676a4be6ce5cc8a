/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-matrix-view-private.h"

static gboolean
is_permutation (const gint64 *perm, gsize n_perm, guint rank)
{
  guint64 seen = 0;
  if (n_perm != rank)
    return FALSE;
  for (guint i = 0; i < rank; i++)
    if (perm[i] < 0 || perm[i] >= rank || (seen >> perm[i] & 1))
      return FALSE;
    else
      seen |= G_GUINT64_CONSTANT (1) << perm[i];
  return TRUE;
}

static void
view_as_stored (OrtrainMatrixView *self, const OrtrainOperand *operand)
{
  gint64 stride = 1;
  self->rank = operand->rank;
  for (guint i = operand->rank; i-- > 0;)
    {
      self->dims[i] = operand->dims[i];
      self->strides[i] = stride;
      stride *= MAX (operand->dims[i], 1);
    }
}

gboolean
ortrain_matrix_view_init (OrtrainMatrixView *self, const OrtrainOperand *operand, const gint64 *perm, gsize n_perm)
{
  if (operand->rank > ORTRAIN_MAX_RANK || (perm != NULL && !is_permutation (perm, n_perm, operand->rank)))
    return FALSE;
  OrtrainMatrixView stored;
  view_as_stored (&stored, operand);
  self->rank = stored.rank;
  for (guint i = 0; i < stored.rank; i++)
    {
      const gint64 source = perm != NULL ? perm[i] : i;
      self->dims[i] = stored.dims[source];
      self->strides[i] = stored.strides[source];
    }
  return TRUE;
}

gboolean
ortrain_matrix_view_init_result (OrtrainMatrixView *self, const OrtrainOperand *operand, const gint64 *perm,
                                 gsize n_perm)
{
  if (operand->rank > ORTRAIN_MAX_RANK || (perm != NULL && !is_permutation (perm, n_perm, operand->rank)))
    return FALSE;
  OrtrainMatrixView stored;
  view_as_stored (&stored, operand);
  self->rank = stored.rank;
  for (guint i = 0; i < stored.rank; i++)
    {
      const gint64 destination = perm != NULL ? perm[i] : i;
      self->dims[destination] = stored.dims[i];
      self->strides[destination] = stored.strides[i];
    }
  return TRUE;
}

void
ortrain_matrix_view_insert_one (OrtrainMatrixView *self, guint at)
{
  for (guint i = self->rank; i > at; i--)
    {
      self->dims[i] = self->dims[i - 1];
      self->strides[i] = self->strides[i - 1];
    }
  self->dims[at] = 1;
  self->strides[at] = 1;
  self->rank++;
}

void
ortrain_matrix_view_transpose (OrtrainMatrixView *self)
{
  const guint rows = self->rank - 2, columns = self->rank - 1;
  const gint64 dim = self->dims[columns], stride = self->strides[columns];
  self->dims[columns] = self->dims[rows];
  self->strides[columns] = self->strides[rows];
  self->dims[rows] = dim;
  self->strides[rows] = stride;
}

gint64
ortrain_matrix_view_get_batch_dim (const OrtrainMatrixView *self, guint i)
{
  return i + 2 < self->rank ? self->dims[self->rank - 3 - i] : 1;
}

gint64
ortrain_matrix_view_get_n_matrices (const OrtrainMatrixView *self)
{
  gint64 n = 1;
  for (guint i = 0; i + 2 < self->rank; i++)
    n *= self->dims[i];
  return n;
}

gboolean
ortrain_matrix_view_is_one_matrix (const OrtrainMatrixView *self)
{
  const guint rows = self->rank - 2;
  gint64 expected = self->strides[rows] * self->dims[rows];
  for (guint i = rows; i-- > 0;)
    {
      if (self->dims[i] != 1 && self->strides[i] != expected)
        return FALSE;
      expected *= self->dims[i];
    }
  return TRUE;
}

gboolean
ortrain_matrix_view_find_leading (const OrtrainMatrixView *self, gboolean *is_transposed, gint64 *leading)
{
  const gint64 rows = self->dims[self->rank - 2], columns = self->dims[self->rank - 1];
  const gint64 row_stride = self->strides[self->rank - 2], column_stride = self->strides[self->rank - 1];
  *is_transposed = FALSE;
  if (column_stride == 1 || columns <= 1)
    *leading = rows <= 1 ? MAX (columns, 1) : row_stride;
  else if (row_stride == 1 || rows <= 1)
    {
      *is_transposed = TRUE;
      *leading = column_stride;
    }
  else
    return FALSE;
  return *leading >= (*is_transposed ? rows : columns);
}

/* The offset of the matrix for product number `index`. */
static gint64
find_offset (const OrtrainMatrixView *self, const gint64 *batch, guint rank, gint64 index)
{
  gint64 offset = 0;
  for (guint i = 0; i < rank; i++)
    {
      const gint64 extent = batch[rank - 1 - i];
      if (ortrain_matrix_view_get_batch_dim (self, i) != 1)
        offset += index % extent * self->strides[self->rank - 3 - i];
      index /= extent;
    }
  return offset;
}

gboolean
ortrain_matrix_view_find_offsets (const OrtrainMatrixView *self, const gint64 *batch, guint rank, gint64 n_batch,
                                  gint64 *offsets, gint64 *stride)
{
  gboolean is_regular = TRUE;
  for (gint64 i = 0; i < n_batch; i++)
    offsets[i] = find_offset (self, batch, rank, i);
  *stride = n_batch > 1 ? offsets[1] : 0;
  for (gint64 i = 0; i < n_batch; i++)
    is_regular = is_regular && offsets[i] == i * *stride;
  return is_regular;
}
