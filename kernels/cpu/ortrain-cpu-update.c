/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-optimizer-math.h"
#include "provider/ortrain-update-private.h"

/* Updates of many tensors in one pass: spans of a fixed size, in batches that depend on the sizes alone, so the bits
 * are the same at any number of threads. Half types are converted a tile at a time; their states are float32. */

#define TILE 512

static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  return TRUE;
}

static void
halves_to_floats (OrtrainDType dtype, float *restrict to, const guint16 *restrict from, gint64 n)
{
  if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    for (gint64 i = 0; i < n; i++)
      to[i] = ortrain_bfloat16_to_float (from[i]);
  else
    for (gint64 i = 0; i < n; i++)
      to[i] = ortrain_half_to_float (from[i]);
}

static void
floats_to_halves (OrtrainDType dtype, guint16 *restrict to, const float *restrict from, gint64 n)
{
  if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    for (gint64 i = 0; i < n; i++)
      to[i] = ortrain_float_to_bfloat16 (from[i]);
  else
    for (gint64 i = 0; i < n; i++)
      to[i] = ortrain_float_to_half (from[i]);
}

/* One span of one tensor: w, g and the states as floats (FUNC_f32) or doubles (FUNC_f64), whatever they are stored as.
 * FUNC (coefficients, w, g, s0, s1, n) is called for the whole span, or for tiles of a half type. */
#define RUN_SPAN(FUNC, COEFFICIENTS)                                                                                   \
  do                                                                                                                   \
    {                                                                                                                  \
      const OrtrainUpdateTensor *t = tensor;                                                                           \
      gint64 n_ = span->end - span->begin;                                                                             \
      if (t->dtype == ORTRAIN_DTYPE_FLOAT32)                                                                           \
        FUNC##_f32 (COEFFICIENTS, (float *) t->parameter + span->begin, (const float *) t->gradient + span->begin,     \
                    t->states[0] != NULL ? (float *) t->states[0] + span->begin : NULL,                                \
                    t->states[1] != NULL ? (float *) t->states[1] + span->begin : NULL, n_);                           \
      else if (t->dtype == ORTRAIN_DTYPE_FLOAT64)                                                                      \
        FUNC##_f64 (COEFFICIENTS, (double *) t->parameter + span->begin, (const double *) t->gradient + span->begin,   \
                    t->states[0] != NULL ? (double *) t->states[0] + span->begin : NULL,                               \
                    t->states[1] != NULL ? (double *) t->states[1] + span->begin : NULL, n_);                          \
      else                                                                                                             \
        for (gint64 i_ = span->begin; i_ < span->end; i_ += TILE)                                                      \
          {                                                                                                            \
            float w_[TILE], g_[TILE];                                                                                  \
            gint64 m_ = MIN (TILE, span->end - i_);                                                                    \
            halves_to_floats (t->dtype, w_, (const guint16 *) t->parameter + i_, m_);                                  \
            halves_to_floats (t->dtype, g_, (const guint16 *) t->gradient + i_, m_);                                   \
            FUNC##_f32 (COEFFICIENTS, w_, g_, t->states[0] != NULL ? (float *) t->states[0] + i_ : NULL,               \
                        t->states[1] != NULL ? (float *) t->states[1] + i_ : NULL, m_);                                \
            floats_to_halves (t->dtype, (guint16 *) t->parameter + i_, w_, m_);                                        \
          }                                                                                                            \
    }                                                                                                                  \
  while (0)

#define FOR_BATCH_SPANS(call, batch)                                                                                   \
  for (guint span_index = (call)->batches[batch]; span_index < (call)->batches[(batch) + 1]; span_index++)

/* ---- norm of all gradients ---- */

/* Eight running sums in double: accurate, and wide enough to vectorise without reordering anything. */
#define SUM_OF_SQUARES(NAME, T)                                                                                        \
  static double sum_of_squares_##NAME (const T *restrict x, gint64 n)                                                  \
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
SUM_OF_SQUARES (f32, float)
SUM_OF_SQUARES (f64, double)

static double
sum_of_squares (OrtrainDType dtype, const void *x, gint64 begin, gint64 end)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    return sum_of_squares_f32 ((const float *) x + begin, end - begin);
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    return sum_of_squares_f64 ((const double *) x + begin, end - begin);
  double sum = 0;
  for (gint64 i = begin; i < end; i += TILE)
    {
      float tile[TILE];
      gint64 n = MIN (TILE, end - i);
      halves_to_floats (dtype, tile, (const guint16 *) x + i, n);
      sum += sum_of_squares_f32 (tile, n);
    }
  return sum;
}

static void
norm_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainUpdateCall *call = data;
  for (gint64 batch = begin; batch < end; batch++)
    FOR_BATCH_SPANS (call, batch)
    {
      const OrtrainUpdateSpan *span = &call->spans[span_index];
      const OrtrainUpdateTensor *tensor = &call->tensors[span->tensor];
      call->partials[span_index] = sum_of_squares (tensor->dtype, tensor->gradient, span->begin, span->end);
    }
}

static void
run_gradient_norm (const OrtrainKernelCall *kernel_call)
{
  const OrtrainUpdateCall *call = kernel_call->constants;
  ortrain_parallel_for (kernel_call->frame->pool, call->n_batches, 1, norm_batches, (gpointer) call);
}

/* ---- SGD ---- */

#define SGD(NAME, T)                                                                                                   \
  static void sgd_##NAME (OrtrainSgdMath c, T *restrict w, const T *restrict g, T *restrict v, T *unused, gint64 n)    \
  {                                                                                                                    \
    if (v == NULL)                                                                                                     \
      for (gint64 i = 0; i < n; i++)                                                                                   \
        ortrain_sgd_element_##NAME (&c, &w[i], g[i]);                                                                  \
    else if (c.nesterov)                                                                                               \
      {                                                                                                                \
        c.nesterov = 1;                                                                                                \
        for (gint64 i = 0; i < n; i++)                                                                                 \
          ortrain_momentum_element_##NAME (&c, &w[i], g[i], &v[i]);                                                    \
      }                                                                                                                \
    else                                                                                                               \
      {                                                                                                                \
        c.nesterov = 0;                                                                                                \
        for (gint64 i = 0; i < n; i++)                                                                                 \
          ortrain_momentum_element_##NAME (&c, &w[i], g[i], &v[i]);                                                    \
      }                                                                                                                \
  }
SGD (f32, float)
SGD (f64, double)

static void
sgd_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainUpdateCall *call = data;
  for (gint64 batch = begin; batch < end; batch++)
    FOR_BATCH_SPANS (call, batch)
    {
      const OrtrainUpdateSpan *span = &call->spans[span_index];
      const OrtrainUpdateTensor *tensor = &call->tensors[span->tensor];
      OrtrainSgdMath c = { tensor->learning_rate, call->gradient_scale, tensor->weight_decay, call->factors[0], 1.0,
                           call->factors[1] != 0 };
      RUN_SPAN (sgd, c);
    }
}

static void
run_sgd (const OrtrainKernelCall *kernel_call)
{
  const OrtrainUpdateCall *call = kernel_call->constants;
  ortrain_parallel_for (kernel_call->frame->pool, call->n_batches, 1, sgd_batches, (gpointer) call);
}

/* ---- Adam, AdamW ---- */

#define ADAM(NAME, T)                                                                                                  \
  static void adam_##NAME (OrtrainAdamMath c, T *restrict w, const T *restrict g, T *restrict m, T *restrict v,        \
                           gint64 n)                                                                                   \
  {                                                                                                                    \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      ortrain_adam_element_##NAME (&c, &w[i], g[i], &m[i], &v[i]);                                                     \
  }
ADAM (f32, float)
ADAM (f64, double)

static void
adam_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainUpdateCall *call = data;
  for (gint64 batch = begin; batch < end; batch++)
    FOR_BATCH_SPANS (call, batch)
    {
      const OrtrainUpdateSpan *span = &call->spans[span_index];
      const OrtrainUpdateTensor *tensor = &call->tensors[span->tensor];
      OrtrainAdamMath c = ortrain_adam_math ((OrtrainAdamMode) call->factors[0], tensor->learning_rate,
                                             call->factors[1], call->factors[2], call->factors[3], tensor->weight_decay,
                                             call->factors[4] != 0, call->step, call->gradient_scale);
      RUN_SPAN (adam, c);
    }
}

static void
run_adam (const OrtrainKernelCall *kernel_call)
{
  const OrtrainUpdateCall *call = kernel_call->constants;
  ortrain_parallel_for (kernel_call->frame->pool, call->n_batches, 1, adam_batches, (gpointer) call);
}

/* ---- Adagrad ---- */

#define ADAGRAD(NAME, T)                                                                                               \
  static void adagrad_##NAME (OrtrainAdagradMath c, T *restrict w, const T *restrict g, T *restrict h, T *unused,      \
                              gint64 n)                                                                                \
  {                                                                                                                    \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      ortrain_adagrad_element_##NAME (&c, &w[i], g[i], &h[i]);                                                         \
  }
ADAGRAD (f32, float)
ADAGRAD (f64, double)

static void
adagrad_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainUpdateCall *call = data;
  for (gint64 batch = begin; batch < end; batch++)
    FOR_BATCH_SPANS (call, batch)
    {
      const OrtrainUpdateSpan *span = &call->spans[span_index];
      const OrtrainUpdateTensor *tensor = &call->tensors[span->tensor];
      OrtrainAdagradMath c = { tensor->learning_rate / (1.0 + (call->step - 1.0) * call->factors[1]),
                               call->gradient_scale, tensor->weight_decay, call->factors[0] };
      RUN_SPAN (adagrad, c);
    }
}

static void
run_adagrad (const OrtrainKernelCall *kernel_call)
{
  const OrtrainUpdateCall *call = kernel_call->constants;
  ortrain_parallel_for (kernel_call->frame->pool, call->n_batches, 1, adagrad_batches, (gpointer) call);
}

/* ---- LAMB ----
 * The first pass moves the moments and sums the squares of weights and directions; the second finds the directions
 * again from the moments, so that they need no memory and the gradients stay as they are. */

typedef struct
{
  OrtrainLambMath math;
  double ratio;
  double sums[2]; /* of w^2 and d^2, out */
} LambPass;

#define LAMB(NAME, T, SQRT)                                                                                            \
  static void lamb_first_##NAME (LambPass *pass, T *restrict w, const T *restrict g, T *restrict m, T *restrict v,     \
                                 gint64 n)                                                                             \
  {                                                                                                                    \
    const OrtrainLambMath c = pass->math;                                                                              \
    for (gint64 begin = 0; begin < n; begin += TILE)                                                                   \
      {                                                                                                                \
        T d[TILE];                                                                                                     \
        gint64 len = MIN (TILE, n - begin);                                                                            \
        for (gint64 i = 0; i < len; i++)                                                                               \
          d[i] = ortrain_lamb_direction_##NAME (&c, w[begin + i], g[begin + i], &m[begin + i], &v[begin + i]);         \
        pass->sums[0] += sum_of_squares_##NAME (w + begin, len);                                                       \
        pass->sums[1] += sum_of_squares_##NAME (d, len);                                                               \
      }                                                                                                                \
  }                                                                                                                    \
  static void lamb_second_##NAME (LambPass *pass, T *restrict w, const T *restrict g, T *restrict m, T *restrict v,    \
                                  gint64 n)                                                                            \
  {                                                                                                                    \
    const OrtrainLambMath c = pass->math;                                                                              \
    const T ratio = (T) pass->ratio;                                                                                   \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      {                                                                                                                \
        T e = (T) c.grad_scale * g[i];                                                                                 \
        T d = (T) c.weight_decay * w[i] +                                                                              \
              m[i] * (T) c.inv_correction1 / (SQRT (v[i] * (T) c.inv_correction2) + (T) c.epsilon);                    \
        ortrain_lamb_element_##NAME (ratio, &w[i], e - e == 0 ? d : 0);                                                \
      }                                                                                                                \
  }
LAMB (f32, float, sqrtf)
LAMB (f64, double, sqrt)

static OrtrainLambMath
lamb_coefficients (const OrtrainUpdateCall *call, const OrtrainUpdateTensor *tensor)
{
  return ortrain_lamb_math (tensor->learning_rate, call->factors[0], call->factors[1], call->factors[2],
                            tensor->weight_decay, call->factors[4], call->factors[5], call->factors[3] != 0, call->step,
                            call->gradient_scale);
}

static void
lamb_first_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainUpdateCall *call = data;
  for (gint64 batch = begin; batch < end; batch++)
    FOR_BATCH_SPANS (call, batch)
    {
      const OrtrainUpdateSpan *span = &call->spans[span_index];
      const OrtrainUpdateTensor *tensor = &call->tensors[span->tensor];
      LambPass pass = { .math = lamb_coefficients (call, tensor) };
      RUN_SPAN (lamb_first, &pass);
      call->partials[span_index] = pass.sums[0];
      call->partials[call->n_spans + span_index] = pass.sums[1];
    }
}

static void
lamb_second_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainUpdateCall *call = data;
  for (gint64 batch = begin; batch < end; batch++)
    FOR_BATCH_SPANS (call, batch)
    {
      const OrtrainUpdateSpan *span = &call->spans[span_index];
      const OrtrainUpdateTensor *tensor = &call->tensors[span->tensor];
      LambPass pass = { .math = lamb_coefficients (call, tensor), .ratio = tensor->ratio };
      RUN_SPAN (lamb_second, &pass);
    }
}

static void
run_lamb (const OrtrainKernelCall *kernel_call)
{
  const OrtrainUpdateCall *call = kernel_call->constants;
  ortrain_parallel_for (kernel_call->frame->pool, call->n_batches, 1, lamb_first_batches, (gpointer) call);
  guint i = 0;
  for (guint k = 0; k < call->n_tensors; k++)
    {
      double w2 = 0, d2 = 0;
      for (; i < call->n_spans && call->spans[i].tensor == k; i++)
        {
          w2 += call->partials[i];
          d2 += call->partials[call->n_spans + i];
        }
      OrtrainLambMath c = lamb_coefficients (call, &call->tensors[k]);
      call->tensors[k].ratio = ortrain_lamb_ratio (&c, w2, d2);
    }
  ortrain_parallel_for (kernel_call->frame->pool, call->n_batches, 1, lamb_second_batches, (gpointer) call);
}

static const OrtrainKernel rows[] = {
  { "GradientNorm", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_gradient_norm },
  { "SgdUpdate", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_sgd },
  { "AdamUpdate", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_adam },
  { "AdagradUpdate", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_adagrad },
  { "LambUpdate", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_lamb },
};

ORTRAIN_KERNEL_TABLE (update, rows);
