/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-model.h"
#include "tensor/ortrain-tensor-dict.h"

/* The memory of outputs that the caller has bound: the parts that a run may write, and those that it reads. */

/* Bytes from `begin` up to `end`, in one address space with all others of the process and its devices. Empty: none. */
typedef struct
{
  gsize begin, end;
} OrtrainMemoryRange;

OrtrainMemoryRange ortrain_memory_range_of (OrtrainTensor *tensor);

static inline gboolean
ortrain_memory_ranges_overlap (OrtrainMemoryRange a, OrtrainMemoryRange b)
{
  return MAX (a.begin, b.begin) < MIN (a.end, b.end);
}

/* FALSE where two of them overlap, or one overlaps memory that is never written: a weight, a file of the model, any
 * mapped file. */
gboolean ortrain_bound_outputs_check (OrtrainTensorDict *bound, OrtrainModel *model, GError **error);
/* Type and shape, and whether the tensor can be written. */
gboolean ortrain_bound_output_fits (const char *name, OrtrainDType dtype, const gint64 *dims, gsize rank,
                                    OrtrainTensor *tensor, GError **error);
/* Writes computed outputs, of which some may lie in memory that is bound: an input that is an output as well. All are
 * checked before one is written. In `outputs`, those that are bound are the caller's tensors then. */
gboolean ortrain_bound_outputs_write (OrtrainTensorDict *bound, OrtrainTensorDict *outputs, GError **error);
