/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cpu/ortrain-cpu-device-private.h"

/* Many tensors in one pass: spans of a fixed size, in batches that depend on the sizes alone, so the bits are the same
 * at any number of threads. */

/* Elements of one span. Spans never cross tensors; results are combined in the order of the spans. */
#define ORTRAIN_SPAN_ELEMENTS 16384
/* Consecutive small spans are handed to one thread together, until they have this many elements. */
#define ORTRAIN_SPAN_BATCH 32768

/* Elements of 16 bits, or states in 8 bits, that are widened together: whole blocks of those. */
#define ORTRAIN_SPAN_TILE 512

typedef struct
{
  gint64 n;
  OrtrainDType dtype;
  /* of updates */
  OrtrainDType gradient;
  OrtrainDType copy;   /* UNDEFINED: no copy */
  guint32 copy_output; /* if there is one */
  guint32 parameter;   /* its position among all, and among the scalars */
  gboolean in_blocks;  /* its states are in 8 bits */
} OrtrainSpanTensor;

typedef struct
{
  guint32 tensor;
  gint64 begin, end; /* elements */
} OrtrainSpan;

/* A node, prepared. Input 0 is the scalars, `first` is that of the first tensor; from one tensor to the next there are
 * `stride` inputs. */
typedef struct
{
  guint n_tensors, n_states, first, stride;
  OrtrainSpanTensor *tensors;
  OrtrainSpan *spans;
  guint n_spans;
  guint32 *batches; /* [n_batches + 1]: first span of each batch */
  guint n_batches;
  gboolean stochastic; /* parameters of bfloat16 are rounded so */
} OrtrainSpans;

static inline void
ortrain_spans_free (gpointer data)
{
  OrtrainSpans *layout = data;
  g_free (layout->tensors);
  g_free (layout->spans);
  g_free (layout->batches);
  g_free (layout);
}

static inline void
ortrain_spans_cut (OrtrainSpans *self)
{
  gsize n_spans = 0;
  for (guint i = 0; i < self->n_tensors; i++)
    n_spans += (gsize) ((self->tensors[i].n + ORTRAIN_SPAN_ELEMENTS - 1) / ORTRAIN_SPAN_ELEMENTS);
  self->spans = g_new0 (OrtrainSpan, MAX (n_spans, 1));
  self->batches = g_new0 (guint32, n_spans + 1);
  gint64 in_batch = 0;
  for (guint i = 0; i < self->n_tensors; i++)
    for (gint64 begin = 0; begin < self->tensors[i].n; begin += ORTRAIN_SPAN_ELEMENTS)
      {
        const gint64 end = MIN (begin + ORTRAIN_SPAN_ELEMENTS, self->tensors[i].n);
        self->spans[self->n_spans++] = (OrtrainSpan){ i, begin, end };
        in_batch += end - begin;
        if (in_batch >= ORTRAIN_SPAN_BATCH)
          {
            self->batches[++self->n_batches] = self->n_spans;
            in_batch = 0;
          }
      }
  if (in_batch > 0)
    self->batches[++self->n_batches] = self->n_spans;
}

static inline OrtrainSpans *
ortrain_spans_new (OrtrainKernelSetup *setup, guint n_tensors, guint n_states, guint first, guint stride)
{
  OrtrainSpans *layout = g_new0 (OrtrainSpans, 1);
  layout->n_tensors = n_tensors;
  layout->n_states = n_states;
  layout->first = first;
  layout->stride = stride;
  layout->tensors = g_new0 (OrtrainSpanTensor, MAX (n_tensors, 1));
  for (guint t = 0; t < n_tensors; t++)
    {
      const OrtrainOperand *operand = &setup->inputs[first + t * stride];
      layout->tensors[t] = (OrtrainSpanTensor){ .n = operand->n_elements, .dtype = operand->dtype };
    }
  ortrain_spans_cut (layout);
  setup->constants = layout;
  setup->constants_free = ortrain_spans_free;
  return layout;
}

/* Eight running sums in double: accurate, and wide enough to vectorise without reordering anything. */
#define ORTRAIN_SPAN_SUM_OF_SQUARES(NAME, T)                                                                           \
  static inline double ortrain_span_sum_of_squares_##NAME (const T *restrict x, gint64 n)                              \
  {                                                                                                                    \
    double sums[8] = { 0 };                                                                                            \
    gint64 i = 0;                                                                                                      \
    for (; i + 8 <= n; i += 8)                                                                                         \
      for (int k = 0; k < 8; k++)                                                                                      \
        sums[k] += (double) x[i + k] * (double) x[i + k];                                                              \
    for (int k = 0; i < n; i++, k++)                                                                                   \
      sums[k] += (double) x[i] * (double) x[i];                                                                        \
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));                  \
  }
ORTRAIN_SPAN_SUM_OF_SQUARES (f32, float)
ORTRAIN_SPAN_SUM_OF_SQUARES (f64, double)

#undef ORTRAIN_SPAN_SUM_OF_SQUARES
