/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-matrix-product-private.h"

/* ---- From operands to a product ---- */

/* A vector is a row as A and a column as B; the result lacks that dimension. */
static const char *
view_operands (OrtrainMatrixProduct *self, const OrtrainKernelSetup *setup, const OrtrainProductForm *form)
{
  const OrtrainOperand *a = &setup->inputs[0], *b = &setup->inputs[1], *c = &setup->outputs[0];
  if (a->rank == 0 || b->rank == 0 || !ortrain_matrix_view_init (&self->a, a, form->perm_a, form->n_perm_a) ||
      !ortrain_matrix_view_init (&self->b, b, form->perm_b, form->n_perm_b))
    return "the ranks of the operands do not fit";
  if (!ortrain_matrix_view_init_result (&self->c, c, form->perm_c, form->n_perm_c))
    return "the rank of the result does not fit";

  const gboolean a_is_vector = self->a.rank == 1, b_is_vector = self->b.rank == 1;
  if (form->trans_a && !a_is_vector)
    ortrain_matrix_view_transpose (&self->a);
  if (form->trans_b && !b_is_vector)
    ortrain_matrix_view_transpose (&self->b);
  if (b_is_vector)
    {
      ortrain_matrix_view_insert_one (&self->b, 1);
      ortrain_matrix_view_insert_one (&self->c, self->c.rank);
    }
  if (a_is_vector)
    {
      ortrain_matrix_view_insert_one (&self->a, 0);
      ortrain_matrix_view_insert_one (&self->c, self->c.rank - 1);
    }
  return NULL;
}

static const char *
match_matrices (OrtrainMatrixProduct *self, const OrtrainKernelSetup *setup)
{
  const OrtrainMatrixView *a = &self->a, *b = &self->b, *c = &self->c;
  self->m = a->dims[a->rank - 2];
  self->k = a->dims[a->rank - 1];
  self->n = b->dims[b->rank - 1];
  if (self->k != b->dims[b->rank - 2] || c->rank < 2 || c->dims[c->rank - 2] != self->m ||
      c->dims[c->rank - 1] != self->n)
    return "the dimensions of the operands do not fit together";
  return NULL;
}

static const char *
match_batch (OrtrainMatrixProduct *self, const OrtrainKernelSetup *setup)
{
  self->batch_rank = MAX (self->a.rank, self->b.rank) - 2;
  self->n_batch = 1;
  for (guint i = 0; i < self->batch_rank; i++)
    {
      const gint64 of_a = ortrain_matrix_view_get_batch_dim (&self->a, i);
      const gint64 of_b = ortrain_matrix_view_get_batch_dim (&self->b, i);
      if (of_a != of_b && of_a != 1 && of_b != 1)
        return "the batch dimensions do not fit together";
      self->batch[self->batch_rank - 1 - i] = of_a == 1 ? of_b : of_a;
      self->n_batch *= of_a == 1 ? of_b : of_a;
    }
  if (setup->outputs[0].n_elements == 0)
    self->n_batch = 0;
  return NULL;
}

static const char *
find_leading (OrtrainMatrixProduct *self, const OrtrainKernelSetup *setup)
{
  if (!ortrain_matrix_view_find_leading (&self->a, &self->a_transposed, &self->lda) ||
      !ortrain_matrix_view_find_leading (&self->b, &self->b_transposed, &self->ldb) ||
      !ortrain_matrix_view_find_leading (&self->c, &self->c_transposed, &self->ldc))
    return "an operand has no contiguous dimension";
  return NULL;
}

/* A batch of matrices times one B is one product, if the rows of all of A's matrices follow each other, and so do those
 * of C. */
static const char *
join_batch (OrtrainMatrixProduct *self, const OrtrainKernelSetup *setup)
{
  if (self->n_batch <= 1 || self->a_transposed || self->c_transposed ||
      ortrain_matrix_view_get_n_matrices (&self->b) != 1 ||
      ortrain_matrix_view_get_n_matrices (&self->a) != self->n_batch || !ortrain_matrix_view_is_one_matrix (&self->a) ||
      !ortrain_matrix_view_is_one_matrix (&self->c))
    return NULL;
  self->m *= self->n_batch;
  self->n_batch = 1;
  self->lda = self->a.strides[self->a.rank - 2];
  self->ldc = self->c.strides[self->c.rank - 2];
  if (self->lda < self->k || self->ldc < self->n)
    return "the rows of an operand overlap";
  return NULL;
}

const char *
ortrain_matrix_product_init (OrtrainMatrixProduct *self, const OrtrainKernelSetup *setup,
                             const OrtrainProductForm *form)
{
  const char *reason = view_operands (self, setup, form);
  if (reason == NULL)
    reason = match_matrices (self, setup);
  if (reason == NULL)
    reason = match_batch (self, setup);
  if (reason == NULL)
    reason = find_leading (self, setup);
  return reason != NULL ? reason : join_batch (self, setup);
}
