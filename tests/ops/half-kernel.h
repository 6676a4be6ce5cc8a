/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-float-private.h"
#include "host-context.h"
#include "kernel-abi/ortrain-attributes-private.h"
#include "provider/ortrain-provider-private.h"

#include <math.h>
#include <string.h>

/* Kernels whose floating-point operands may each be float32, bfloat16 or float16, compared with the same kernel in
 * float32. Inputs are numbers that all three types hold, so that every mixture of types has the same inputs. 16-bit
 * results must equal those of the float32 kernel, rounded once. */

#define HALF_MAX_OPERANDS 10

typedef struct
{
  guint rank;
  gint64 dims[4];
  double lo, hi;      /* inputs: the range of the numbers */
  OrtrainDType fixed; /* not floating-point: the type of `contents` */
  gconstpointer contents;
  gboolean absent;
} HalfOperand;

typedef struct
{
  const char *domain, *op_type;
  OrtrainAttributes *attributes; /* NULL: none */
  HalfOperand inputs[HALF_MAX_OPERANDS], outputs[HALF_MAX_OPERANDS];
  guint n_inputs, n_outputs;
  guint64 accumulates;
  /* Outputs that are rounded from a sum in float64, or a sum over pieces: not the last bit. Wide results may differ
   * from the float32 kernel's by `slack` relative to the largest element, 0: not at all; narrow results by one unit
   * roundoff more. */
  guint64 sums;
  double slack;
} HalfCase;

typedef struct
{
  OrtrainDType dtype;
  gint64 n;
  gsize n_bytes;
  guint8 *data;
} HalfBuffer;

static inline gint64
half_count (const HalfOperand *operand)
{
  gint64 n = 1;
  for (guint d = 0; d < operand->rank; d++)
    n *= operand->dims[d];
  return n;
}

/* Eight bits of precision, and no exponent that float16 lacks. */
static inline float
half_number (const HalfOperand *operand, gint64 i, guint seed)
{
  double t = sin (0.37 * (double) i + 1.3 * seed + 1e-3 * (double) (i / 7)), x = operand->lo;
  x += (operand->hi - operand->lo) * 0.5 * (1 + t);
  float y = ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 ((float) x));
  return fabsf (y) < 0x1p-9f ? 0x1p-9f : y;
}

static inline float
half_get (const HalfBuffer *self, gint64 i)
{
  return self->dtype == ORTRAIN_DTYPE_FLOAT32 ? ((const float *) self->data)[i]
                                              : ortrain_dtype_widen (self->dtype, ((const guint16 *) self->data)[i]);
}

static inline void
half_set (HalfBuffer *self, gint64 i, float value)
{
  if (self->dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) self->data)[i] = value;
  else
    ((guint16 *) self->data)[i] = ortrain_dtype_narrow (self->dtype, value);
}

/* dtype: of a floating-point operand. seed: of its contents. */
static inline HalfBuffer
half_new (const HalfOperand *operand, OrtrainDType dtype, guint seed)
{
  HalfBuffer self = { .dtype = operand->fixed != ORTRAIN_DTYPE_UNDEFINED ? operand->fixed : dtype };
  if (operand->absent)
    return (HalfBuffer){ 0 };
  self.n = half_count (operand);
  self.n_bytes = (gsize) self.n * ortrain_dtype_get_size (self.dtype);
  self.data = g_malloc (self.n_bytes + 1);
  if (operand->contents != NULL)
    memcpy (self.data, operand->contents, self.n_bytes);
  else
    for (gint64 i = 0; i < self.n; i++)
      half_set (&self, i, half_number (operand, i, seed));
  return self;
}

static inline OrtrainOperand
half_describe (const HalfOperand *operand, const HalfBuffer *buffer)
{
  return (OrtrainOperand){ buffer->dtype, operand->rank, operand->dims, buffer->n, buffer->n_bytes, NULL };
}

/* Prepares; `operands` must live as long as the setup is used. */
static inline const OrtrainKernel *
half_prepare (const HalfCase *self, OrtrainKernelSetup *setup, OrtrainOperand *inputs, OrtrainOperand *outputs,
              const OrtrainAttributes *attributes, OrtrainProvider *provider)
{
  g_autoptr (GError) error = NULL;
  const OrtrainKernel *kernel = ortrain_provider_find (provider, self->domain, self->op_type, inputs, self->n_inputs,
                                                       outputs, self->n_outputs, &error);
  g_assert_no_error (error);
  *setup = (OrtrainKernelSetup){ .op_type = self->op_type,
                                 .domain = self->domain,
                                 .attributes = attributes,
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .n_inputs = self->n_inputs,
                                 .n_outputs = self->n_outputs,
                                 .provider = provider };
  ortrain_kernel_prepare (kernel, setup, &error);
  g_assert_no_error (error);
  return kernel;
}

/* types [n_inputs + n_outputs]. place: the input that output 0 is written over, -1: none; it is refused with FALSE
 * where the kernel cannot. Outputs that accumulate hold numbers before. */
static inline gboolean
half_run (const HalfCase *self, const OrtrainDType *types, gint place, guint n_threads, HalfBuffer *results)
{
  HalfBuffer in[HALF_MAX_OPERANDS];
  OrtrainOperand inputs[HALF_MAX_OPERANDS], outputs[HALF_MAX_OPERANDS];
  const void *from[HALF_MAX_OPERANDS];
  void *to[HALF_MAX_OPERANDS];
  g_autoptr (OrtrainAttributes) none = ortrain_attributes_new ();
  g_autoptr (OrtrainProvider) provider = new_cpu (n_threads);
  OrtrainHostContext context;
  OrtrainKernelSetup setup;
  init_context (&context, provider);
  for (guint i = 0; i < self->n_inputs; i++)
    {
      in[i] = half_new (&self->inputs[i], types[i], i);
      inputs[i] = half_describe (&self->inputs[i], &in[i]);
      from[i] = in[i].data;
    }
  for (guint k = 0; k < self->n_outputs; k++)
    {
      HalfOperand before = self->outputs[k];
      before.lo = -1;
      before.hi = 1;
      results[k] = half_new (&before, types[self->n_inputs + k], 20 + k);
      if (!(self->accumulates >> k & 1) && results[k].data != NULL)
        memset (results[k].data, 0xff, results[k].n_bytes); /* NaN: unwritten elements are seen */
      outputs[k] = half_describe (&self->outputs[k], &results[k]);
      to[k] = results[k].data;
    }
  const OrtrainKernel *kernel =
      half_prepare (self, &setup, inputs, outputs, self->attributes != NULL ? self->attributes : none, provider);
  g_assert_true ((self->accumulates & ~setup.can_accumulate) == 0);
  const gboolean possible = place < 0 || ((setup.inplace[0] >> place & 1) && in[place].n_bytes == results[0].n_bytes);
  if (possible)
    {
      if (place >= 0)
        to[0] = in[place].data;
      g_autofree guint8 *workspace = g_malloc (setup.workspace_bytes + 128);
      OrtrainKernelCall call = { .inputs = from,
                                 .outputs = to,
                                 .n_inputs = self->n_inputs,
                                 .n_outputs = self->n_outputs,
                                 .constants = setup.constants,
                                 .accumulates = self->accumulates,
                                 .context = &context.context };
      call.workspace = (void *) (((gsize) workspace + 63) & ~(gsize) 63);
      memset (call.workspace, 0xff, setup.workspace_bytes + 1);
      kernel->run (&call);
      g_assert_cmpint (context.fault.code, ==, ORTRAIN_FAULT_NONE);
      if (place >= 0)
        memcpy (results[0].data, in[place].data, results[0].n_bytes);
    }
  if (setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  for (guint i = 0; i < self->n_inputs; i++)
    g_free (in[i].data);
  return possible;
}

static inline void
half_free (HalfBuffer *results, guint n)
{
  for (guint k = 0; k < n; k++)
    g_clear_pointer (&results[k].data, g_free);
}

static inline void
half_compare (const HalfCase *self, const OrtrainDType *types, const char *how, const HalfBuffer *got,
              const HalfBuffer *wide)
{
  for (guint k = 0; k < self->n_outputs; k++)
    {
      const gboolean narrow = ortrain_dtype_is_half (got[k].dtype);
      double largest = 0;
      for (gint64 i = 0; i < wide[k].n; i++)
        largest = MAX (largest, fabs (half_get (&wide[k], i)));
      for (gint64 i = 0; i < got[k].n; i++)
        {
          float y = half_get (&got[k], i), exact = half_get (&wide[k], i), expected = exact;
          if (narrow)
            expected = ortrain_dtype_widen (got[k].dtype, ortrain_dtype_narrow (got[k].dtype, exact));
          if (y == expected || (isnan (y) && isnan (expected)))
            continue;
          /* half a unit in the last place, and the tolerance before the rounding */
          double roundoff = got[k].dtype == ORTRAIN_DTYPE_BFLOAT16  ? 0x1p-8
                            : got[k].dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11
                                                                    : 0;
          double least = got[k].dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-25 : 0; /* half of its smallest number */
          double wider = self->slack * largest + 0x1p-23 * fabs (exact);
          double bound = MAX (roundoff * (fabs (exact) + wider), least) + wider;
          gboolean may_differ = (self->sums >> k & 1) && (narrow || self->slack > 0);
          if (!may_differ || !(fabs ((double) y - exact) <= bound))
            g_error ("%s (%s, %s first, output %u of %s): element %" G_GINT64_FORMAT " is %.9g, float32 gives %.9g",
                     self->op_type, how, ortrain_dtype_get_name (types[0]), k, ortrain_dtype_get_name (got[k].dtype), i,
                     y, exact);
        }
    }
}

/* The whole comparison: both types alone, mixtures of types, one thread and two, in place. */
static inline void
half_check (const HalfCase *self)
{
  static const OrtrainDType choice[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  const guint n = self->n_inputs + self->n_outputs;
  OrtrainDType types[2 * HALF_MAX_OPERANDS];
  HalfBuffer wide[HALF_MAX_OPERANDS], got[HALF_MAX_OPERANDS], in_place[HALF_MAX_OPERANDS];
  guint state = 99;
  for (guint i = 0; i < n; i++)
    types[i] = ORTRAIN_DTYPE_FLOAT32;
  half_run (self, types, -1, 1, wide);
  for (guint variant = 0; variant < 10; variant++)
    {
      for (guint i = 0; i < n; i++)
        {
          state = state * 1664525u + 1013904223u;
          types[i] = variant < 2 ? choice[1 + variant] : choice[(state >> 16) % 3];
        }
      if (variant == 2) /* float32 first, all else of 16 bits */
        for (guint i = 0; i < n; i++)
          types[i] = i == 0 ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_BFLOAT16;
      if (variant == 3) /* 16 bits throughout, parameters and accumulated values in float32 */
        for (guint i = 0; i < n; i++)
          types[i] = i < 2 || i == self->n_inputs ? ORTRAIN_DTYPE_BFLOAT16 : ORTRAIN_DTYPE_FLOAT32;
      half_run (self, types, -1, 1 + variant % 2, got);
      half_compare (self, types, "alone", got, wide);
      for (guint i = 0; i < self->n_inputs; i++)
        {
          if (!self->inputs[i].absent && half_run (self, types, (gint) i, 1, in_place))
            for (guint k = 0; k < self->n_outputs; k++)
              if (got[k].data != NULL)
                g_assert_cmpmem (in_place[k].data, in_place[k].n_bytes, got[k].data, got[k].n_bytes);
          half_free (in_place, self->n_outputs);
          memset (in_place, 0, sizeof in_place);
        }
      half_free (got, self->n_outputs);
    }
  half_free (wide, self->n_outputs);
}

/* Bytes of workspace that the kernel asks for, all operands of 16 bits, without allocating them. */
static inline gsize
half_workspace (const HalfCase *self, OrtrainDType dtype, guint n_threads)
{
  OrtrainOperand operands[2][HALF_MAX_OPERANDS];
  g_autoptr (OrtrainAttributes) none = ortrain_attributes_new ();
  g_autoptr (OrtrainProvider) provider = new_cpu (n_threads);
  OrtrainKernelSetup setup;
  for (guint side = 0; side < 2; side++)
    for (guint i = 0; i < (side ? self->n_outputs : self->n_inputs); i++)
      {
        const HalfOperand *operand = side ? &self->outputs[i] : &self->inputs[i];
        HalfBuffer buffer = { 0 };
        if (!operand->absent)
          {
            buffer.dtype = operand->fixed != ORTRAIN_DTYPE_UNDEFINED ? operand->fixed : dtype;
            buffer.n = half_count (operand);
            buffer.n_bytes = (gsize) buffer.n * ortrain_dtype_get_size (buffer.dtype);
          }
        operands[side][i] = half_describe (operand, &buffer);
      }
  half_prepare (self, &setup, operands[0], operands[1], self->attributes != NULL ? self->attributes : none, provider);
  if (setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  return setup.workspace_bytes;
}
