/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-errors.h"
#include "kernel-abi/ortrain-kernel-private.h"

/* Floating-point operands that a kernel reads and writes piece by piece, each in a type of its own: pieces of float32
 * and float64 where they lie, pieces of 16 bits as float32 in a buffer that stays in the cache. 16-bit results are
 * rounded once, when they are stored. Functions end in _f32 or _f64, the type that the kernel computes in; with _f64
 * all operands are float64. */

#define ORTRAIN_ROWS_TILE 4096 /* elements of the largest piece */
#define ORTRAIN_ROWS_MAX_OPERANDS 10

typedef struct
{
  gpointer data; /* NULL: absent */
  OrtrainDType dtype;
} OrtrainRows;

/* A buffer for one operand: the piece that was widened last is not widened again. The padding keeps adjacent buffers on
 * the stack from having the same low bits of their addresses, which processors take for the same memory. */
typedef struct
{
  gint64 at, n;
  float values[ORTRAIN_ROWS_TILE] __attribute__ ((aligned (64)));
  float padding[256];
} OrtrainRowsBuffer;

/* The types of a kernel's operands, kept in its constants. */
typedef struct
{
  OrtrainDType inputs[ORTRAIN_ROWS_MAX_OPERANDS], outputs[ORTRAIN_ROWS_MAX_OPERANDS];
  gboolean narrow; /* one at least has 16 bits */
} OrtrainRowsTypes;

/* Whether two operands may be of one kernel: float64 is mixed with nothing. */
static inline gboolean
ortrain_rows_fit (const OrtrainOperand *a, const OrtrainOperand *b)
{
  return a->dtype == b->dtype || ((ORTRAIN_DTYPE_BIT (a->dtype) & ORTRAIN_DTYPES_MIXED) != 0 &&
                                  (ORTRAIN_DTYPE_BIT (b->dtype) & ORTRAIN_DTYPES_MIXED) != 0);
}

/* The type in which a kernel with this operand computes. */
static inline OrtrainDType
ortrain_rows_get_compute_dtype (const OrtrainOperand *operand)
{
  return operand->dtype == ORTRAIN_DTYPE_FLOAT64 ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32;
}

static inline void
ortrain_rows_describe (OrtrainRowsTypes *self, const OrtrainKernelSetup *setup)
{
  for (guint i = 0; i < MIN (setup->n_inputs, ORTRAIN_ROWS_MAX_OPERANDS); i++)
    {
      self->inputs[i] = setup->inputs[i].dtype;
      self->narrow |= ortrain_dtype_is_half (self->inputs[i]);
    }
  for (guint k = 0; k < MIN (setup->n_outputs, ORTRAIN_ROWS_MAX_OPERANDS); k++)
    {
      self->outputs[k] = setup->outputs[k].dtype;
      self->narrow |= ortrain_dtype_is_half (self->outputs[k]);
    }
}

/* Input i of a call, absent where it has none. */
static inline OrtrainRows
ortrain_rows_input (const OrtrainRowsTypes *types, const OrtrainKernelCall *call, guint i)
{
  const OrtrainDType dtype = types->inputs[i];
  return (OrtrainRows){ dtype != ORTRAIN_DTYPE_UNDEFINED ? (gpointer) call->inputs[i] : NULL, dtype };
}

static inline OrtrainRows
ortrain_rows_output (const OrtrainRowsTypes *types, const OrtrainKernelCall *call, guint k)
{
  const OrtrainDType dtype = types->outputs[k];
  return (OrtrainRows){ dtype != ORTRAIN_DTYPE_UNDEFINED ? call->outputs[k] : NULL, dtype };
}

/* Elements of a piece of a row of n: the whole row where nothing has to be widened. */
static inline gint64
ortrain_rows_get_step (const OrtrainRowsTypes *types, gint64 n)
{
  return types->narrow ? MIN (n, ORTRAIN_ROWS_TILE) : n;
}

static inline void
ortrain_rows_buffer_init (OrtrainRowsBuffer *self)
{
  self->at = -1;
  self->n = 0;
}

/* One loop for each type in each family, not in each place that reads. */
static G_GNUC_UNUSED void G_GNUC_NO_INLINE
ortrain_rows_widen (const OrtrainRows *self, gint64 at, gint64 n, float *to)
{
  ortrain_dtype_widen_n (self->dtype, to, (const guint16 *) self->data + at, n);
}

static G_GNUC_UNUSED void G_GNUC_NO_INLINE
ortrain_rows_narrow (const OrtrainRows *self, gint64 at, gint64 n, const float *from)
{
  ortrain_dtype_narrow_n (self->dtype, (guint16 *) self->data + at, from, n);
}

/* n elements from `at` on, at most ORTRAIN_ROWS_TILE of them where they have 16 bits. */
static inline const float *
ortrain_rows_read_f32 (const OrtrainRows *self, gint64 at, gint64 n, OrtrainRowsBuffer *buffer)
{
  if (self->dtype == ORTRAIN_DTYPE_FLOAT32)
    return (const float *) self->data + at;
  if (buffer->at != at || buffer->n != n)
    {
      ortrain_rows_widen (self, at, n, buffer->values);
      buffer->at = at;
      buffer->n = n;
    }
  return buffer->values;
}

static inline const double *
ortrain_rows_read_f64 (const OrtrainRows *self, gint64 at, gint64 n, OrtrainRowsBuffer *buffer)
{
  return (const double *) self->data + at;
}

/* Where elements from `at` on are computed: their own place, or the buffer, from which store rounds them. */
static inline float *
ortrain_rows_target_f32 (const OrtrainRows *self, gint64 at, OrtrainRowsBuffer *buffer)
{
  return self->dtype == ORTRAIN_DTYPE_FLOAT32 ? (float *) self->data + at : buffer->values;
}

static inline double *
ortrain_rows_target_f64 (const OrtrainRows *self, gint64 at, OrtrainRowsBuffer *buffer)
{
  return (double *) self->data + at;
}

static inline void
ortrain_rows_store_f32 (const OrtrainRows *self, gint64 at, gint64 n, const OrtrainRowsBuffer *buffer)
{
  if (self->dtype != ORTRAIN_DTYPE_FLOAT32)
    ortrain_rows_narrow (self, at, n, buffer->values);
}

static inline void
ortrain_rows_store_f64 (const OrtrainRows *self, gint64 at, gint64 n, const OrtrainRowsBuffer *buffer)
{
}

/* Single elements. */
static inline float
ortrain_rows_get_f32 (const OrtrainRows *self, gint64 i)
{
  return self->dtype == ORTRAIN_DTYPE_FLOAT32 ? ((const float *) self->data)[i]
                                              : ortrain_dtype_widen (self->dtype, ((const guint16 *) self->data)[i]);
}

static inline double
ortrain_rows_get_f64 (const OrtrainRows *self, gint64 i)
{
  return ((const double *) self->data)[i];
}

/* accumulate: the value is added to the element. Rounded once, also from double to 16 bits. */
static inline void
ortrain_rows_put_f32 (const OrtrainRows *self, gint64 i, double value, gboolean accumulate)
{
  if (accumulate)
    value += (double) ortrain_rows_get_f32 (self, i);
  if (self->dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) self->data)[i] = (float) value;
  else
    ((guint16 *) self->data)[i] = ortrain_dtype_narrow (self->dtype, ortrain_double_to_odd_float (value));
}

static inline void
ortrain_rows_put_f64 (const OrtrainRows *self, gint64 i, double value, gboolean accumulate)
{
  ((double *) self->data)[i] = accumulate ? ((const double *) self->data)[i] + value : value;
}
