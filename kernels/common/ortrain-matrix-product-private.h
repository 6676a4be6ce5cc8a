/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-matrix-view-private.h"

G_BEGIN_DECLS

/* MatMul, Gemm and FusedMatMul as one form: a batch of products C [m, n] = A [m, k] · B [k, n], whose matrices are
 * contiguous along one of their dimensions. */
typedef struct
{
  OrtrainMatrixView a; /* [batch…, m, k] */
  OrtrainMatrixView b; /* [batch…, k, n] */
  OrtrainMatrixView c; /* [batch…, m, n] */
  gint64 m, n, k;
  guint batch_rank;
  gint64 batch[ORTRAIN_MAX_RANK]; /* [batch_rank]: those of A and B, broadcast against each other */
  gint64 n_batch;
  gboolean a_transposed, b_transposed, c_transposed; /* contiguous along the columns */
  gint64 lda, ldb, ldc;
} OrtrainMatrixProduct;

/* The attributes of the operators. */
typedef struct
{
  gboolean trans_a, trans_b;
  const gint64 *perm_a, *perm_b, *perm_c; /* permutations of the operands' dimensions; NULL: none */
  gsize n_perm_a, n_perm_b, n_perm_c;
} OrtrainProductForm;

/* Inputs 0 and 1 and output 0 of the setup. NULL, or why they do not fit. */
const char *ortrain_matrix_product_init (OrtrainMatrixProduct *self, const OrtrainKernelSetup *setup,
                                         const OrtrainProductForm *form);

G_END_DECLS
