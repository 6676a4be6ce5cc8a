/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-optimizer-math.h"
#include "cpu/ortrain-cpu-device-private.h"
#include "provider/ortrain-update-private.h"

/* Updates of many tensors in one pass: spans of a fixed size, in batches that depend on the sizes alone, so the bits
 * are the same at any number of threads. Half types are converted a tile at a time; their states are float32. */

#define TILE 512
#define CHUNK 2048 /* elements that stay in the first cache */

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

/* ---- numbers that are not finite ---- */

/* Looked for while they are in the cache. All bits of the exponent are set. */
#define ANY_BROKEN(NAME, BITS, EXPONENT)                                                                               \
  static guint8 any_broken_##NAME (const void *data, gint64 n)                                                         \
  {                                                                                                                    \
    const guint##BITS *x = data;                                                                                       \
    guint##BITS any = 0;                                                                                               \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      any |= (guint##BITS) ((x[i] & (EXPONENT)) == (EXPONENT));                                                        \
    return any != 0;                                                                                                   \
  }
ANY_BROKEN (f16, 16, 0x7c00u)
ANY_BROKEN (bf16, 16, 0x7f80u)
ANY_BROKEN (f32, 32, 0x7f800000u)
ANY_BROKEN (f64, 64, G_GUINT64_CONSTANT (0x7ff0000000000000))

/* ---- spans and batches ---- */

typedef struct
{
  OrtrainLambMath math;
  double ratio;
  double sums[2]; /* of w^2 and d^2, out */
} LambPass;

/* What is the same for all elements of a tensor. */
typedef union
{
  OrtrainSgdMath sgd;
  OrtrainAdamMath adam;
  OrtrainAdagradMath adagrad;
  LambPass lamb;
} Coefficients;

/* How elements move: parameters w, gradients g, and the states of the rule, or NULL. */
typedef struct
{
  void (*begin) (Coefficients *c, const OrtrainUpdateCall *call, const OrtrainUpdateTensor *tensor);
  void (*f32) (Coefficients *c, float *w, const float *g, float *s0, float *s1, gint64 n);
  void (*f64) (Coefficients *c, double *w, const double *g, double *s0, double *s1, gint64 n);
  void (*end) (const Coefficients *c, const OrtrainUpdateCall *call, guint span); /* NULL: the parameters have moved */
} Rule;

static inline float *
floats_at (void *state, gint64 i)
{
  return state != NULL ? (float *) state + i : NULL;
}

static inline double *
doubles_at (void *state, gint64 i)
{
  return state != NULL ? (double *) state + i : NULL;
}

static void
run_span (const Rule *rule, const OrtrainUpdateCall *call, guint index)
{
  const OrtrainUpdateSpan *span = &call->spans[index];
  const OrtrainUpdateTensor *t = &call->tensors[span->tensor];
  const gint64 begin = span->begin, end = span->end;
  const gint64 step = rule->end == NULL ? CHUNK : end - begin; /* some rules sum over the span */
  Coefficients c;
  guint8 broken = 0;
  rule->begin (&c, call, t);
  if (t->dtype == ORTRAIN_DTYPE_FLOAT32)
    for (gint64 i = begin; i < end; i += step)
      {
        float *w = (float *) t->parameter + i;
        const gint64 n = MIN (step, end - i);
        rule->f32 (&c, w, (const float *) t->gradient + i, floats_at (t->states[0], i), floats_at (t->states[1], i), n);
        broken |= any_broken_f32 (w, n);
      }
  else if (t->dtype == ORTRAIN_DTYPE_FLOAT64)
    for (gint64 i = begin; i < end; i += step)
      {
        double *w = (double *) t->parameter + i;
        const gint64 n = MIN (step, end - i);
        rule->f64 (&c, w, (const double *) t->gradient + i, doubles_at (t->states[0], i), doubles_at (t->states[1], i),
                   n);
        broken |= any_broken_f64 (w, n);
      }
  else
    for (gint64 i = begin; i < end; i += TILE)
      {
        float w[TILE], g[TILE];
        guint16 *stored = (guint16 *) t->parameter + i;
        gint64 n = MIN (TILE, end - i);
        halves_to_floats (t->dtype, w, stored, n);
        halves_to_floats (t->dtype, g, (const guint16 *) t->gradient + i, n);
        rule->f32 (&c, w, g, floats_at (t->states[0], i), floats_at (t->states[1], i), n);
        floats_to_halves (t->dtype, stored, w, n);
        broken |= t->dtype == ORTRAIN_DTYPE_BFLOAT16 ? any_broken_bf16 (stored, n) : any_broken_f16 (stored, n);
      }
  call->is_broken[index] = broken;
  if (rule->end != NULL)
    rule->end (&c, call, index);
}

typedef struct
{
  const Rule *rule;
  const OrtrainUpdateCall *call;
} Pass;

static void
run_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Pass *pass = data;
  for (guint index = pass->call->batches[begin]; index < pass->call->batches[end]; index++)
    run_span (pass->rule, pass->call, index);
}

static void
run_rule (const Rule *rule, const OrtrainKernelCall *kernel_call)
{
  Pass pass = { rule, kernel_call->constants };
  ortrain_parallel_for (ortrain_cpu_get_pool (kernel_call), pass.call->n_batches, 1, run_batches, &pass);
}

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
  for (guint index = call->batches[begin]; index < call->batches[end]; index++)
    {
      const OrtrainUpdateSpan *span = &call->spans[index];
      const OrtrainUpdateTensor *tensor = &call->tensors[span->tensor];
      call->partials[index] = sum_of_squares (tensor->dtype, tensor->gradient, span->begin, span->end);
    }
}

static void
run_gradient_norm (const OrtrainKernelCall *kernel_call)
{
  const OrtrainUpdateCall *call = kernel_call->constants;
  ortrain_parallel_for (ortrain_cpu_get_pool (kernel_call), call->n_batches, 1, norm_batches, (gpointer) call);
}

/* ---- SGD ---- */

static void
sgd_begin (Coefficients *c, const OrtrainUpdateCall *call, const OrtrainUpdateTensor *tensor)
{
  c->sgd = (OrtrainSgdMath){ tensor->learning_rate, call->gradient_scale, tensor->weight_decay, call->factors[0], 1.0,
                             call->factors[1] != 0 };
}

#define SGD(NAME, T)                                                                                                   \
  static void sgd_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict v, T *unused,    \
                          gint64 n)                                                                                    \
  {                                                                                                                    \
    OrtrainSgdMath c = coefficients->sgd;                                                                              \
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

static const Rule sgd_rule = { sgd_begin, sgd_f32, sgd_f64, NULL };

static void
run_sgd (const OrtrainKernelCall *call)
{
  run_rule (&sgd_rule, call);
}

/* ---- Adam, AdamW ---- */

static void
adam_begin (Coefficients *c, const OrtrainUpdateCall *call, const OrtrainUpdateTensor *tensor)
{
  c->adam = ortrain_adam_math ((OrtrainAdamMode) call->factors[0], tensor->learning_rate, call->factors[1],
                               call->factors[2], call->factors[3], tensor->weight_decay, call->factors[4] != 0,
                               call->step, call->gradient_scale);
}

#define ADAM(NAME, T)                                                                                                  \
  static void adam_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict m,              \
                           T *restrict v, gint64 n)                                                                    \
  {                                                                                                                    \
    const OrtrainAdamMath c = coefficients->adam;                                                                      \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      ortrain_adam_element_##NAME (&c, &w[i], g[i], &m[i], &v[i]);                                                     \
  }
ADAM (f32, float)
ADAM (f64, double)

static const Rule adam_rule = { adam_begin, adam_f32, adam_f64, NULL };

static void
run_adam (const OrtrainKernelCall *call)
{
  run_rule (&adam_rule, call);
}

/* ---- Adagrad ---- */

static void
adagrad_begin (Coefficients *c, const OrtrainUpdateCall *call, const OrtrainUpdateTensor *tensor)
{
  c->adagrad = (OrtrainAdagradMath){ tensor->learning_rate / (1.0 + (call->step - 1.0) * call->factors[1]),
                                     call->gradient_scale, tensor->weight_decay, call->factors[0] };
}

#define ADAGRAD(NAME, T)                                                                                               \
  static void adagrad_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict h,           \
                              T *unused, gint64 n)                                                                     \
  {                                                                                                                    \
    const OrtrainAdagradMath c = coefficients->adagrad;                                                                \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      ortrain_adagrad_element_##NAME (&c, &w[i], g[i], &h[i]);                                                         \
  }
ADAGRAD (f32, float)
ADAGRAD (f64, double)

static const Rule adagrad_rule = { adagrad_begin, adagrad_f32, adagrad_f64, NULL };

static void
run_adagrad (const OrtrainKernelCall *call)
{
  run_rule (&adagrad_rule, call);
}

/* ---- LAMB ----
 * The first pass moves the moments and sums the squares of weights and directions; the second finds the directions
 * again from the moments, so that they need no memory and the gradients stay as they are. */

#define LAMB(NAME, T, SQRT)                                                                                            \
  static void lamb_first_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict m,        \
                                 T *restrict v, gint64 n)                                                              \
  {                                                                                                                    \
    LambPass *pass = &coefficients->lamb;                                                                              \
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
  static void lamb_second_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict m,       \
                                  T *restrict v, gint64 n)                                                             \
  {                                                                                                                    \
    const LambPass *pass = &coefficients->lamb;                                                                        \
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
lamb_begin (Coefficients *c, const OrtrainUpdateCall *call, const OrtrainUpdateTensor *tensor)
{
  c->lamb = (LambPass){ .math = lamb_coefficients (call, tensor), .ratio = tensor->ratio };
}

static void
lamb_first_end (const Coefficients *c, const OrtrainUpdateCall *call, guint span)
{
  call->partials[span] = c->lamb.sums[0];
  call->partials[call->n_spans + span] = c->lamb.sums[1];
}

static const Rule lamb_first_rule = { lamb_begin, lamb_first_f32, lamb_first_f64, lamb_first_end };
static const Rule lamb_second_rule = { lamb_begin, lamb_second_f32, lamb_second_f64, NULL };

static void
run_lamb (const OrtrainKernelCall *kernel_call)
{
  const OrtrainUpdateCall *call = kernel_call->constants;
  run_rule (&lamb_first_rule, kernel_call);
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
  run_rule (&lamb_second_rule, kernel_call);
}

static const OrtrainKernel rows[] = {
  { "GradientNorm", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_gradient_norm },
  { "SgdUpdate", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_sgd },
  { "AdamUpdate", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_adam },
  { "AdagradUpdate", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_adagrad },
  { "LambUpdate", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run_lamb },
};

ORTRAIN_KERNEL_TABLE (update, rows);
