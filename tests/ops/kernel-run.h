/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "host-context.h"

#include <math.h>
#include <string.h>

/* Runs one kernel alone, on operands of any types: those too that no model has, but that a pass gives to
 * kernels when it removes Cast nodes. */

#define KERNEL_MAX_OPERANDS 64

typedef struct
{
  const char *op_type, *domain;
  OrtrainAttributes *attributes; /* owned */
  GObject *body;                 /* of a fused operator; no reference */
  guint n_inputs, n_outputs;
  OrtrainTensor *inputs[KERNEL_MAX_OPERANDS];  /* owned, NULL: absent */
  OrtrainTensor *outputs[KERNEL_MAX_OPERANDS]; /* owned; before the run, their types and shapes, and the contents that
                                                  results are added to */
  guint64 accumulates;                         /* bit k: output k */
  guint64 constants;                           /* bit i: of input i, of floating type, the contents are known before */
  gint inplace[KERNEL_MAX_OPERANDS];           /* 1 + the input that output k is written over, 0: none */
  gboolean needs_mixed;                        /* only a kernel that says that it mixes the operands' types is run */
  gboolean try_inplace;                        /* every output over an input that it may be written over */
  OrtrainProvider *provider;                   /* no reference; NULL: on the calling thread */
  OrtrainStepBlock step;
  guint32 node_number;
  /* out */
  const OrtrainKernel *kernel;
  OrtrainKernelSetup setup;
  OrtrainFault fault;
  guint n_inplace;
} KernelRun;

G_GNUC_UNUSED static void
kernel_run_init (KernelRun *self, const char *domain, const char *op_type)
{
  memset (self, 0, sizeof *self);
  self->domain = domain;
  self->op_type = op_type;
  self->attributes = ortrain_attributes_new ();
}

G_GNUC_UNUSED static void
kernel_run_clear (KernelRun *self)
{
  for (guint i = 0; i < self->n_inputs; i++)
    g_clear_object (&self->inputs[i]);
  for (guint k = 0; k < self->n_outputs; k++)
    g_clear_object (&self->outputs[k]);
  g_clear_pointer (&self->attributes, ortrain_attributes_free);
}

/* tensor: taken, may be NULL */
G_GNUC_UNUSED static void
kernel_run_add_input (KernelRun *self, OrtrainTensor *tensor)
{
  g_assert_cmpuint (self->n_inputs, <, KERNEL_MAX_OPERANDS);
  self->inputs[self->n_inputs++] = tensor;
}

/* Filled with bytes that are no result. */
G_GNUC_UNUSED static void
kernel_run_add_output (KernelRun *self, OrtrainDType dtype, const gint64 *dims, gsize rank)
{
  g_autoptr (GError) error = NULL;
  g_assert_cmpuint (self->n_outputs, <, KERNEL_MAX_OPERANDS);
  OrtrainTensor *tensor = ortrain_tensor_new (dtype, dims, rank, &error);
  g_assert_no_error (error);
  if (ortrain_tensor_get_n_bytes (tensor) > 0)
    memset (ortrain_tensor_peek_writable (tensor), 0x5a, ortrain_tensor_get_n_bytes (tensor));
  self->outputs[self->n_outputs++] = tensor;
}

G_GNUC_UNUSED static OrtrainOperand
kernel_run_describe (OrtrainTensor *tensor, gboolean constant)
{
  OrtrainOperand operand = { 0 };
  if (tensor == NULL)
    return operand;
  operand.dtype = ortrain_tensor_get_dtype (tensor);
  operand.rank = (guint) ortrain_tensor_get_rank (tensor);
  operand.dims = ortrain_tensor_peek_dims (tensor);
  operand.n_elements = ortrain_tensor_get_n_elements (tensor);
  operand.n_bytes = ortrain_tensor_get_n_bytes (tensor);
  if (constant || !ortrain_dtype_is_floating (operand.dtype))
    operand.constant = ortrain_tensor_peek (tensor);
  return operand;
}

/* An input of the size of output k that it may be written over and that no output before it was, or -1. */
G_GNUC_UNUSED static gint
kernel_run_find_inplace (const KernelRun *self, const OrtrainKernelSetup *setup, guint k, guint64 taken)
{
  for (guint i = 0; i < self->n_inputs && self->outputs[k] != NULL; i++)
    if ((setup->inplace[k] & ~taken) >> i & 1 && self->inputs[i] != NULL &&
        ortrain_tensor_get_n_bytes (self->inputs[i]) == ortrain_tensor_get_n_bytes (self->outputs[k]))
      return (gint) i;
  return -1;
}

/* FALSE: there is no such kernel, or it refuses the operands. */
G_GNUC_UNUSED static gboolean
kernel_run_try (KernelRun *self, GError **error)
{
  OrtrainProvider *provider = self->provider != NULL ? self->provider : ortrain_provider_get_host ();
  OrtrainOperand inputs[KERNEL_MAX_OPERANDS] = { 0 }, outputs[KERNEL_MAX_OPERANDS] = { 0 };
  const void *in[KERNEL_MAX_OPERANDS] = { NULL };
  void *out[KERNEL_MAX_OPERANDS] = { NULL }, *copied[KERNEL_MAX_OPERANDS] = { NULL };
  guint64 taken = 0;
  for (guint i = 0; i < self->n_inputs; i++)
    {
      inputs[i] = kernel_run_describe (self->inputs[i], self->constants >> i & 1);
      in[i] = self->inputs[i] != NULL ? ortrain_tensor_peek (self->inputs[i]) : NULL;
    }
  for (guint k = 0; k < self->n_outputs; k++)
    outputs[k] = kernel_run_describe (self->outputs[k], FALSE);
  const OrtrainKernel *kernel = ortrain_provider_find (provider, self->domain, self->op_type, inputs, self->n_inputs,
                                                       outputs, self->n_outputs, error);
  self->kernel = kernel;
  if (kernel == NULL)
    return FALSE;
  if (self->needs_mixed && kernel->mixed_dtypes == 0)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s mixes no types", self->op_type);
      return FALSE;
    }
  OrtrainKernelSetup setup = { .op_type = self->op_type,
                               .domain = self->domain,
                               .attributes = self->attributes,
                               .body = self->body,
                               .inputs = inputs,
                               .outputs = outputs,
                               .n_inputs = self->n_inputs,
                               .n_outputs = self->n_outputs,
                               .provider = provider };
  if (!ortrain_kernel_prepare (kernel, &setup, error))
    return FALSE;
  for (guint k = 0; k < self->n_outputs; k++)
    {
      const gint over = self->try_inplace ? kernel_run_find_inplace (self, &setup, k, taken) : self->inplace[k] - 1;
      if (self->accumulates >> k & 1)
        g_assert_true (setup.can_accumulate >> k & 1);
      if (over >= 0)
        {
          g_assert_true (setup.inplace[k] >> over & 1);
          if (ortrain_tensor_get_dtype (self->outputs[k]) == ortrain_tensor_get_dtype (self->inputs[over]))
            g_set_object (&self->outputs[k], self->inputs[over]);
          else
            copied[k] = out[k] = ortrain_tensor_peek_writable (self->inputs[over]);
          taken |= G_GUINT64_CONSTANT (1) << over;
          self->n_inplace++;
        }
      if (copied[k] == NULL)
        out[k] = self->outputs[k] != NULL ? ortrain_tensor_peek_writable (self->outputs[k]) : NULL;
    }
  OrtrainHostContext context;
  init_context (&context, self->provider);
  context.step = self->step;
  /* a block of its own, so that reads past its end are found */
  g_autofree guint8 *block = g_malloc (setup.workspace_bytes + 64);
  guint8 *workspace = (guint8 *) (((guintptr) block + 63) & ~(guintptr) 63);
  memset (workspace, 0xa5, setup.workspace_bytes);
  const OrtrainKernelCall call = { .run = kernel->run,
                                   .inputs = in,
                                   .outputs = out,
                                   .workspace = workspace,
                                   .constants = setup.constants,
                                   .n_inputs = self->n_inputs,
                                   .n_outputs = self->n_outputs,
                                   .node_number = self->node_number,
                                   .accumulates = self->accumulates,
                                   .context = &context.context };
  const gboolean ran = provider->klass->submit (provider, context.context.stream, &call, 1, NULL, error) &&
                       provider->klass->wait (provider, context.context.stream, error);
  provider->klass->free_stream (provider, context.context.stream);
  for (guint k = 0; k < self->n_outputs; k++) /* written over an input of another type */
    if (copied[k] != NULL && outputs[k].n_bytes > 0)
      memcpy (ortrain_tensor_peek_writable (self->outputs[k]), copied[k], outputs[k].n_bytes);
  if (setup.constants != NULL && setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  self->setup = setup;
  self->setup.inputs = self->setup.outputs = NULL;
  self->setup.constants = NULL;
  self->fault = context.fault;
  return ran;
}

G_GNUC_UNUSED static void
kernel_run (KernelRun *self)
{
  g_autoptr (GError) error = NULL;
  kernel_run_try (self, &error);
  g_assert_no_error (error);
  g_assert_cmpint (self->fault.code, ==, ORTRAIN_FAULT_NONE);
}

/* New, in another type. */
G_GNUC_UNUSED static OrtrainTensor *
kernel_cast (OrtrainTensor *tensor, OrtrainDType dtype)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *cast = ortrain_tensor_cast (tensor, dtype, &error);
  g_assert_no_error (error);
  return cast;
}

/* From -span to span, evenly spread, no two alike. */
G_GNUC_UNUSED static OrtrainTensor *
kernel_random (OrtrainDType dtype, const gint64 *dims, gsize rank, double span, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, rank, &error);
  g_assert_no_error (error);
  double *x = ortrain_tensor_peek_writable (wide);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (wide); i++)
    x[i] = g_rand_double_range (rand, -span, span);
  return kernel_cast (wide, dtype);
}

G_GNUC_UNUSED static void
kernel_assert_same_bits (OrtrainTensor *a, OrtrainTensor *b, const char *what)
{
  g_assert_cmpint (ortrain_tensor_get_dtype (a), ==, ortrain_tensor_get_dtype (b));
  g_assert_cmpint (ortrain_tensor_get_n_elements (a), ==, ortrain_tensor_get_n_elements (b));
  const gint64 n = ortrain_tensor_get_n_elements (a);
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (a));
  const guint8 *x = ortrain_tensor_peek (a), *y = ortrain_tensor_peek (b);
  for (gint64 i = 0; i < n; i++)
    if (memcmp (x + (gsize) i * size, y + (gsize) i * size, size) != 0)
      g_error ("%s: element %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " is %.9g, %.9g is right", what, i, n,
               ortrain_tensor_get_scalar (a, i), ortrain_tensor_get_scalar (b, i));
}
