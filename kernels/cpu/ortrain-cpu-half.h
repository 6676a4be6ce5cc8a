/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-device-private.h"

/* Half types are storage: operands are widened into workspace, the float32 kernel runs there, and its outputs are
 * rounded back. One adapter serves every kernel that has a float32 form. */
#define ORTRAIN_HALF_MAX_OPERANDS 24

typedef struct
{
  gpointer inner;
  GDestroyNotify inner_free;
  gsize inner_offset; /* of the inner kernel's workspace */
  guint64 can_accumulate;
  guint n_inputs, n_outputs;
  struct
  {
    OrtrainDType dtype; /* a half type, or UNDEFINED: handed through */
    gint64 n;
    gsize offset;
  } operands[ORTRAIN_HALF_MAX_OPERANDS];
} OrtrainHalfConstants;

static inline void
ortrain_half_constants_free (gpointer data)
{
  OrtrainHalfConstants *self = data;
  if (self->inner != NULL && self->inner_free != NULL)
    self->inner_free (self->inner);
  g_free (self);
}

static inline gboolean
ortrain_half_prepare (OrtrainKernelSetup *setup, OrtrainKernelPrepareFunc prepare, GError **error)
{
  OrtrainOperand operands[ORTRAIN_HALF_MAX_OPERANDS];
  guint n = setup->n_inputs + setup->n_outputs;
  if (n > ORTRAIN_HALF_MAX_OPERANDS)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s with %u operands has no kernel for half types", setup->op_type, n);
      return FALSE;
    }
  OrtrainHalfConstants *self = g_new0 (OrtrainHalfConstants, 1);
  gsize at = 0;
  gboolean ok = TRUE;
  self->n_inputs = setup->n_inputs;
  self->n_outputs = setup->n_outputs;
  for (guint i = 0; i < n; i++)
    {
      operands[i] = i < setup->n_inputs ? setup->inputs[i] : setup->outputs[i - setup->n_inputs];
      OrtrainOperand *op = &operands[i];
      if (!ortrain_dtype_is_half (op->dtype))
        continue;
      gsize bytes;
      self->operands[i].dtype = op->dtype;
      self->operands[i].n = op->n_elements;
      self->operands[i].offset = at;
      ok = ok && ortrain_checked_mul ((gsize) op->n_elements, sizeof (float), &bytes) &&
           ortrain_checked_align (bytes, 64, &bytes) && ortrain_checked_add (at, bytes, &at);
      op->dtype = ORTRAIN_DTYPE_FLOAT32;
      op->n_bytes = (gsize) op->n_elements * sizeof (float);
      op->constant = NULL;
    }
  OrtrainKernelSetup inner = *setup;
  inner.inputs = operands;
  inner.outputs = operands + setup->n_inputs;
  if (!ok)
    g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                 "%s: the operands are too large to be widened", setup->op_type);
  if (!ok || !prepare (&inner, error))
    {
      if (inner.constants != NULL && inner.constants_free != NULL)
        inner.constants_free (inner.constants);
      g_free (self);
      return FALSE;
    }
  self->inner = inner.constants;
  self->inner_free = inner.constants_free;
  self->inner_offset = at;
  self->can_accumulate = inner.can_accumulate;
  setup->workspace_bytes = at + inner.workspace_bytes;
  setup->flops = inner.flops;
  setup->constants = self;
  setup->constants_free = ortrain_half_constants_free;
  return TRUE;
}

typedef struct
{
  OrtrainDType dtype;
  const guint16 *narrow_in;
  guint16 *narrow_out;
  const float *wide_in;
  float *wide_out;
  gboolean add; /* to what is there: rounded once */
} OrtrainHalfJob;

static inline void
ortrain_half_add (const OrtrainHalfJob *job, gint64 begin, gint64 end)
{
  for (gint64 i = begin; i < end; i++)
    job->narrow_out[i] =
        ortrain_dtype_narrow (job->dtype, job->wide_in[i] + ortrain_dtype_widen (job->dtype, job->narrow_out[i]));
}

static inline void
ortrain_half_convert (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainHalfJob *job = data;
  if (job->narrow_in != NULL)
    ortrain_dtype_widen_n (job->dtype, job->wide_out + begin, job->narrow_in + begin, end - begin);
  else if (job->add)
    ortrain_half_add (job, begin, end);
  else
    ortrain_dtype_narrow_n (job->dtype, job->narrow_out + begin, job->wide_in + begin, end - begin);
}

static inline void
ortrain_half_run (const OrtrainKernelCall *call, OrtrainKernelRunFunc run)
{
  const OrtrainHalfConstants *self = call->constants;
  const guint64 accumulate = ortrain_kernel_get_accumulate (call);
  const void *inputs[ORTRAIN_HALF_MAX_OPERANDS];
  void *outputs[ORTRAIN_HALF_MAX_OPERANDS];
  guint8 *workspace = call->workspace;
  for (guint i = 0; i < self->n_inputs; i++)
    {
      inputs[i] = call->inputs[i];
      if (self->operands[i].dtype == ORTRAIN_DTYPE_UNDEFINED || inputs[i] == NULL)
        continue;
      OrtrainHalfJob job = { .dtype = self->operands[i].dtype, .narrow_in = inputs[i] };
      job.wide_out = (float *) (workspace + self->operands[i].offset);
      ortrain_parallel_for (ortrain_cpu_get_pool (call), self->operands[i].n, 16384, ortrain_half_convert, &job);
      inputs[i] = job.wide_out;
    }
  for (guint k = 0; k < self->n_outputs; k++)
    {
      guint i = self->n_inputs + k;
      outputs[k] = call->outputs[k];
      if (self->operands[i].dtype != ORTRAIN_DTYPE_UNDEFINED && outputs[k] != NULL)
        outputs[k] = workspace + self->operands[i].offset;
    }
  OrtrainKernelCall inner = *call;
  inner.inputs = inputs;
  inner.outputs = outputs;
  inner.workspace = workspace + self->inner_offset;
  inner.constants = self->inner;
  inner.accumulates = inner.gradients = 0;
  run (&inner);
  for (guint k = 0; k < self->n_outputs; k++)
    {
      guint i = self->n_inputs + k;
      if (self->operands[i].dtype == ORTRAIN_DTYPE_UNDEFINED || call->outputs[k] == NULL)
        continue;
      OrtrainHalfJob job = { .dtype = self->operands[i].dtype,
                             .narrow_out = call->outputs[k],
                             .wide_in = outputs[k],
                             .add = (accumulate >> k & 1) != 0 };
      ortrain_parallel_for (ortrain_cpu_get_pool (call), self->operands[i].n, 16384, ortrain_half_convert, &job);
    }
}

/* Defines NAME_half_prepare and NAME_half_run from NAME_prepare and NAME_run. */
#define ORTRAIN_DEFINE_HALF_KERNEL(name)                                                                               \
  static gboolean name##_half_prepare (OrtrainKernelSetup *setup, GError **error)                                      \
  {                                                                                                                    \
    return ortrain_half_prepare (setup, name##_prepare, error);                                                        \
  }                                                                                                                    \
  static void name##_half_run (const OrtrainKernelCall *call)                                                          \
  {                                                                                                                    \
    ortrain_half_run (call, name##_run);                                                                               \
  }

/* The same of a kernel that adds onto its outputs: the sum with what is there is rounded once. */
#define ORTRAIN_DEFINE_ACCUMULATING_HALF_KERNEL(name)                                                                  \
  static gboolean name##_half_prepare (OrtrainKernelSetup *setup, GError **error)                                      \
  {                                                                                                                    \
    if (!ortrain_half_prepare (setup, name##_prepare, error))                                                          \
      return FALSE;                                                                                                    \
    setup->can_accumulate = ((const OrtrainHalfConstants *) setup->constants)->can_accumulate;                         \
    return TRUE;                                                                                                       \
  }                                                                                                                    \
  static void name##_half_run (const OrtrainKernelCall *call)                                                          \
  {                                                                                                                    \
    ortrain_half_run (call, name##_run);                                                                               \
  }
