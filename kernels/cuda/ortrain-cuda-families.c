/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cuda-families.h"
#include "cuda/ortrain-cuda-provider-private.h"

/* The kernel tables, found through meson.build's list of families. */
#define DECLARE(family) extern const OrtrainKernelTable ortrain_cuda_kernels_##family;
ORTRAIN_CUDA_FAMILIES (DECLARE)
#define ENTRY(family) &ortrain_cuda_kernels_##family,
static const OrtrainKernelTable *const tables[] = { ORTRAIN_CUDA_FAMILIES (ENTRY) NULL };

static GHashTable *
get_index (void)
{
  static gsize index;
  if (g_once_init_enter (&index))
    g_once_init_leave (&index, (gsize) ortrain_kernel_index_new (tables));
  return (GHashTable *) index;
}

const OrtrainKernel *
ortrain_cuda_find_kernel (const OrtrainProvider *self, const char *domain, const char *op_type,
                          const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  return ortrain_kernel_index_find (get_index (), domain, op_type, inputs, n_inputs, outputs, n_outputs);
}

/* The kernel of element-wise chains knows the operators that it also runs alone. */
gboolean
ortrain_cuda_can_fuse (const OrtrainProvider *self, const char *domain, const char *op_type, OrtrainDType dtype)
{
  const OrtrainOperand x = { .dtype = dtype };
  const OrtrainKernel *chain = ortrain_kernel_index_find (get_index (), "org.ortrain", "Elementwise", &x, 1, NULL, 0);
  const OrtrainKernel *alone = ortrain_kernel_index_find (get_index (), domain, op_type, &x, 1, NULL, 0);
  return chain != NULL && alone != NULL && alone->run == chain->run;
}
