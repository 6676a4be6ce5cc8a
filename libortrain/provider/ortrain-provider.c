/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-provider-private.h"

#include "core/ortrain-text-private.h"

const OrtrainKernel *
ortrain_provider_find (const OrtrainProvider *self, const char *domain, const char *op_type,
                       const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs,
                       GError **error)
{
  OrtrainDType dtype = ORTRAIN_DTYPE_UNDEFINED;
  if (n_inputs > 0)
    dtype = inputs[0].dtype;
  if (dtype == ORTRAIN_DTYPE_UNDEFINED && n_outputs > 0)
    dtype = outputs[0].dtype;
  const OrtrainKernel *kernel = self->find_kernel (self, domain, op_type, dtype);
  if (kernel == NULL)
    g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                 "The provider '%s' has no kernel for %s%s%s on %s", self->name, ortrain_text_show (domain),
                 domain[0] != '\0' ? "::" : "", ortrain_text_show (op_type), ortrain_dtype_get_name (dtype));
  return kernel;
}

gboolean
ortrain_kernel_prepare (const OrtrainKernel *kernel, OrtrainKernelSetup *setup, GError **error)
{
  if (kernel->prepare == NULL || kernel->prepare (setup, error))
    return TRUE;
  if (setup->constants != NULL && setup->constants_free != NULL)
    setup->constants_free (setup->constants);
  setup->constants = NULL;
  setup->constants_free = NULL;
  return FALSE;
}
