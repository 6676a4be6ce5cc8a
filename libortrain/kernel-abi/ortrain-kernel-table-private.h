/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-abi/ortrain-kernel-private.h"

/* The kernels of a family of operators, and how a provider finds among them. */
typedef struct
{
  const OrtrainKernel *kernels;
  guint n_kernels;
} OrtrainKernelTable;

/* An index of the rows of all families, by operator. tables: ends with NULL. op_type → GPtrArray of rows. */
static inline GHashTable *
ortrain_kernel_index_new (const OrtrainKernelTable *const *tables)
{
  GHashTable *index = g_hash_table_new (g_str_hash, g_str_equal);
  for (const OrtrainKernelTable *const *t = tables; *t != NULL; t++)
    for (guint i = 0; i < (*t)->n_kernels; i++)
      {
        const OrtrainKernel *kernel = &(*t)->kernels[i];
        GPtrArray *rows = (GPtrArray *) g_hash_table_lookup (index, kernel->op_type);
        if (rows == NULL)
          {
            rows = g_ptr_array_new ();
            g_hash_table_insert (index, (gpointer) kernel->op_type, rows);
          }
        g_ptr_array_add (rows, (gpointer) kernel);
      }
  return index;
}

static inline OrtrainDTypeSet
ortrain_kernel_find_floating_dtypes (const OrtrainOperand *operands, guint n)
{
  OrtrainDTypeSet set = 0;
  for (guint i = 0; i < n; i++)
    set |= ORTRAIN_DTYPE_BIT (operands[i].dtype) & ORTRAIN_DTYPES_FLOAT;
  return set;
}

/* As OrtrainProviderClass.find_kernel. Where types differ, a kernel that says which of them it mixes goes before one
 * that does not say. */
static inline const OrtrainKernel *
ortrain_kernel_index_find (GHashTable *index, const char *domain, const char *op_type, const OrtrainOperand *inputs,
                           guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  const OrtrainDType output = n_outputs > 0 ? outputs[0].dtype : ORTRAIN_DTYPE_UNDEFINED;
  const OrtrainDType input = n_inputs > 0 ? inputs[0].dtype : ORTRAIN_DTYPE_UNDEFINED;
  const OrtrainDType first = input != ORTRAIN_DTYPE_UNDEFINED ? input : output;
  const OrtrainDTypeSet floating =
      ortrain_kernel_find_floating_dtypes (inputs, n_inputs) | ortrain_kernel_find_floating_dtypes (outputs, n_outputs);
  const gboolean mixed = (floating & (floating - 1)) != 0;
  const GPtrArray *rows = (const GPtrArray *) g_hash_table_lookup (index, op_type);
  const OrtrainKernel *unspecific = NULL;
  for (guint i = 0; rows != NULL && i < rows->len; i++)
    {
      const OrtrainKernel *kernel = (const OrtrainKernel *) rows->pdata[i];
      if (!g_str_equal (kernel->domain, domain) ||
          (kernel->dtypes != 0 && !(kernel->dtypes & ORTRAIN_DTYPE_BIT (first))) ||
          (kernel->output_dtypes != 0 && !(kernel->output_dtypes & ORTRAIN_DTYPE_BIT (output))) ||
          (kernel->takes != NULL && !kernel->takes (inputs, n_inputs, outputs, n_outputs)))
        continue;
      if (!mixed || (kernel->mixed_dtypes != 0 && (floating & ~kernel->mixed_dtypes) == 0))
        return kernel;
      if (unspecific == NULL && kernel->mixed_dtypes == 0)
        unspecific = kernel;
    }
  return unspecific;
}
