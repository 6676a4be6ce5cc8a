/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* The equation of an Einsum, "bij,bjk->bik": which axes of its operands are the same. Its row reads it for shapes, its
 * kernels for strides. Labels are small numbers; the axes of an ellipsis get labels of their own, aligned at their
 * ends. */
#define ORTRAIN_EINSUM_MAX_OPERANDS 8
#define ORTRAIN_EINSUM_MAX_LABELS (52 + ORTRAIN_MAX_RANK)

typedef struct
{
  guint rank;
  guint8 labels[ORTRAIN_MAX_RANK]; /* of each axis */
} OrtrainEinsumTerm;

typedef struct
{
  guint n_operands, n_labels; /* labels are 0 … n_labels - 1 */
  OrtrainEinsumTerm operands[ORTRAIN_EINSUM_MAX_OPERANDS];
  OrtrainEinsumTerm output;
  gboolean has_ellipsis, has_repeats; /* repeats: a label twice in one operand */
} OrtrainEinsum;

/* ranks NULL: by the letters alone, which an ellipsis does not allow. FALSE: the equation is malformed or does not fit.
 */
gboolean ortrain_einsum_parse (const char *equation, guint n_operands, const gint *ranks, OrtrainEinsum *einsum);

static inline gboolean
ortrain_einsum_has (const OrtrainEinsumTerm *term, guint label)
{
  return memchr (term->labels, (int) label, term->rank) != NULL;
}
