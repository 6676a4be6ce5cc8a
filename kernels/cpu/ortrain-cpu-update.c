/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-optimizer-math.h"
#include "cpu/ortrain-cpu-device-private.h"
#include "tensor/ortrain-update-scalars-private.h"

#include <math.h>
#include <string.h>

/* Updates of many tensors in one pass, in place: spans of a fixed size, in batches that depend on the sizes alone, so the bits
 * are the same at any number of threads. Half types are converted a tile at a time; their states are float32. */

#define TILE 512
#define CHUNK 2048 /* elements that stay in the first cache */

/* ---- numbers that are not finite ---- */

/* Looked for while they are in the cache: the largest magnitude has all bits of the exponent set. */
#define ANY_BROKEN(NAME, BITS, EXPONENT)                                                                               \
  static guint8 any_broken_##NAME (const void *data, gint64 n)                                                         \
  {                                                                                                                    \
    const guint##BITS *x = data;                                                                                       \
    guint##BITS most = 0;                                                                                              \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      {                                                                                                                \
        const guint##BITS magnitude = x[i] & (guint##BITS) (G_MAXUINT##BITS >> 1);                                     \
        most = magnitude > most ? magnitude : most;                                                                    \
      }                                                                                                                \
    return most >= (EXPONENT);                                                                                         \
  }
ANY_BROKEN (f16, 16, 0x7c00u)
ANY_BROKEN (bf16, 16, 0x7f80u)
ANY_BROKEN (f32, 32, 0x7f800000u)
ANY_BROKEN (f64, 64, G_GUINT64_CONSTANT (0x7ff0000000000000))

/* ---- spans and batches ---- */

/* Elements of one span. Spans never cross tensors; results are combined in the order of the spans. */
#define SPAN 16384
/* Consecutive small spans are handed to one thread together, until they have this many elements. */
#define BATCH 32768

typedef struct
{
  gint64 n;
  OrtrainDType dtype;
  guint32 parameter; /* its position among all, and among the scalars */
} Tensor;

typedef struct
{
  guint32 tensor;
  gint64 begin, end; /* elements */
} Span;

/* Of a node, prepared. Input 0 are the scalars, `first` is that of the first tensor; from one tensor to the next there
 * are `stride` inputs. */
typedef struct
{
  guint n_tensors, n_states, first, stride;
  Tensor *tensors;
  Span *spans;
  guint n_spans;
  guint32 *batches; /* [n_batches + 1]: first span of each batch */
  guint n_batches;
} Layout;

static void
layout_free (gpointer data)
{
  Layout *layout = data;
  g_free (layout->tensors);
  g_free (layout->spans);
  g_free (layout->batches);
  g_free (layout);
}

static void
cut_into_spans (Layout *self)
{
  gsize n_spans = 0;
  for (guint i = 0; i < self->n_tensors; i++)
    n_spans += (gsize) ((self->tensors[i].n + SPAN - 1) / SPAN);
  self->spans = g_new0 (Span, MAX (n_spans, 1));
  self->batches = g_new0 (guint32, n_spans + 1);
  gint64 in_batch = 0;
  for (guint i = 0; i < self->n_tensors; i++)
    for (gint64 begin = 0; begin < self->tensors[i].n; begin += SPAN)
      {
        const gint64 end = MIN (begin + SPAN, self->tensors[i].n);
        self->spans[self->n_spans++] = (Span){ i, begin, end };
        in_batch += end - begin;
        if (in_batch >= BATCH)
          {
            self->batches[++self->n_batches] = self->n_spans;
            in_batch = 0;
          }
      }
  if (in_batch > 0)
    self->batches[++self->n_batches] = self->n_spans;
}

static Layout *
new_layout (OrtrainKernelSetup *setup, guint n_tensors, guint n_states, guint first, guint stride)
{
  Layout *layout = g_new0 (Layout, 1);
  layout->n_tensors = n_tensors;
  layout->n_states = n_states;
  layout->first = first;
  layout->stride = stride;
  layout->tensors = g_new0 (Tensor, MAX (n_tensors, 1));
  for (guint t = 0; t < n_tensors; t++)
    {
      const OrtrainOperand *operand = &setup->inputs[first + t * stride];
      layout->tensors[t] = (Tensor){ .n = operand->n_elements, .dtype = operand->dtype };
    }
  cut_into_spans (layout);
  setup->constants = layout;
  setup->constants_free = layout_free;
  return layout;
}

static gboolean
prepare_update (OrtrainKernelSetup *setup, GError **error)
{
  gsize n = 0;
  const gint64 *parameters = ortrain_attributes_get_ints (setup->attributes, "parameters", &n);
  const guint n_states = (guint) ortrain_attributes_get_int (setup->attributes, "states", 0);
  if (n_states > ORTRAIN_UPDATE_MAX_STATES || setup->n_inputs > 64 || setup->n_outputs > ORTRAIN_KERNEL_MAX_OUTPUTS)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s has no kernel for %u tensors",
                   setup->op_type, (guint) n);
      return FALSE;
    }
  Layout *layout = new_layout (setup, (guint) n, n_states, 2, 2 + n_states);
  for (guint t = 0; t < n; t++)
    {
      const guint in = layout->first + t * layout->stride, out = t * (1 + n_states);
      const gboolean wide = setup->inputs[in].dtype == ORTRAIN_DTYPE_FLOAT64;
      layout->tensors[t].parameter = (guint32) parameters[t];
      setup->inplace[out] = G_GUINT64_CONSTANT (1) << in;
      for (guint k = 0; k < n_states; k++)
        {
          const OrtrainDType dtype = setup->inputs[in + 2 + k].dtype;
          if (dtype != (wide ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32))
            {
              g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                           "%s has no kernel for a state of %s", setup->op_type, ortrain_dtype_get_name (dtype));
              return FALSE;
            }
          setup->inplace[out + 1 + k] = G_GUINT64_CONSTANT (1) << (in + 2 + k);
        }
    }
  setup->workspace_bytes = MAX (layout->n_spans, 1); /* a byte for each: whether it is broken */
  return TRUE;
}

/* How an update is called. */
typedef struct
{
  const Layout *layout;
  const OrtrainKernelCall *call;
  const double *scalars;
  double gradient_scale; /* with clipping */
  guint8 *is_broken;     /* [n_spans] */
  double *partials;      /* LAMB: [2 * n_spans] */
  double *ratios;        /* LAMB: [n_tensors] */
} Update;

static inline double
factor (const Update *update, guint i)
{
  return update->scalars[ORTRAIN_UPDATE_FACTORS + i];
}

static inline double
learning_rate (const Update *update, const Tensor *tensor)
{
  return update->scalars[ORTRAIN_UPDATE_LEARNING_RATE (tensor->parameter)];
}

static inline double
weight_decay (const Update *update, const Tensor *tensor)
{
  return update->scalars[ORTRAIN_UPDATE_WEIGHT_DECAY (tensor->parameter)];
}

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
  void (*begin) (Coefficients *c, const Update *update, guint tensor);
  void (*f32) (Coefficients *c, float *w, const float *g, float *s0, float *s1, gint64 n);
  void (*f64) (Coefficients *c, double *w, const double *g, double *s0, double *s1, gint64 n);
  void (*end) (const Coefficients *c, const Update *update, guint span); /* NULL: the parameters have moved */
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
run_span (const Rule *rule, const Update *update, guint index)
{
  const Layout *layout = update->layout;
  const Span *span = &layout->spans[index];
  const Tensor *t = &layout->tensors[span->tensor];
  void *const *outputs = update->call->outputs + span->tensor * (1 + layout->n_states);
  void *const parameter = outputs[0];
  const void *const gradient = update->call->inputs[layout->first + span->tensor * layout->stride + 1];
  void *const s0 = layout->n_states > 0 ? outputs[1] : NULL, *const s1 = layout->n_states > 1 ? outputs[2] : NULL;
  const gint64 begin = span->begin, end = span->end;
  const gint64 step = rule->end == NULL ? CHUNK : end - begin; /* some rules sum over the span */
  Coefficients c;
  guint8 broken = 0;
  rule->begin (&c, update, span->tensor);
  if (t->dtype == ORTRAIN_DTYPE_FLOAT32)
    for (gint64 i = begin; i < end; i += step)
      {
        float *w = (float *) parameter + i;
        const gint64 n = MIN (step, end - i);
        rule->f32 (&c, w, (const float *) gradient + i, floats_at (s0, i), floats_at (s1, i), n);
        broken |= any_broken_f32 (w, n);
      }
  else if (t->dtype == ORTRAIN_DTYPE_FLOAT64)
    for (gint64 i = begin; i < end; i += step)
      {
        double *w = (double *) parameter + i;
        const gint64 n = MIN (step, end - i);
        rule->f64 (&c, w, (const double *) gradient + i, doubles_at (s0, i), doubles_at (s1, i), n);
        broken |= any_broken_f64 (w, n);
      }
  else
    for (gint64 i = begin; i < end; i += TILE)
      {
        float w[TILE], g[TILE];
        guint16 *stored = (guint16 *) parameter + i;
        gint64 n = MIN (TILE, end - i);
        ortrain_dtype_widen_n (t->dtype, w, stored, n);
        ortrain_dtype_widen_n (t->dtype, g, (const guint16 *) gradient + i, n);
        rule->f32 (&c, w, g, floats_at (s0, i), floats_at (s1, i), n);
        ortrain_dtype_narrow_n (t->dtype, stored, w, n);
        broken |= t->dtype == ORTRAIN_DTYPE_BFLOAT16 ? any_broken_bf16 (stored, n) : any_broken_f16 (stored, n);
      }
  update->is_broken[index] = broken;
  if (rule->end != NULL)
    rule->end (&c, update, index);
}

typedef struct
{
  const Rule *rule;
  const Update *update;
} Pass;

static void
run_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Pass *pass = data;
  const guint32 *batches = pass->update->layout->batches;
  for (guint index = batches[begin]; index < batches[end]; index++)
    run_span (pass->rule, pass->update, index);
}

static void
run_rule (const Rule *rule, const Update *update)
{
  Pass pass = { rule, update };
  ortrain_parallel_for (ortrain_cpu_get_pool (update->call), update->layout->n_batches, 1, run_batches, &pass);
}

/* Where the results are not written over the operands, they begin as copies of them. */
static void
take_operands (const OrtrainKernelCall *call, const Layout *layout)
{
  for (guint t = 0; t < layout->n_tensors; t++)
    {
      const void *const *in = call->inputs + layout->first + t * layout->stride;
      void *const *out = call->outputs + t * (1 + layout->n_states);
      const gsize n = (gsize) layout->tensors[t].n, size = ortrain_dtype_get_size (layout->tensors[t].dtype);
      if (out[0] != in[0])
        memcpy (out[0], in[0], n * size);
      for (guint k = 0; k < layout->n_states; k++)
        if (out[1 + k] != in[2 + k])
          memcpy (out[1 + k], in[2 + k], n * MAX (size, sizeof (float)));
    }
}

/* FALSE: the gradients are not finite, and everything stays as it is. */
static gboolean
begin_update (Update *update, const OrtrainKernelCall *call)
{
  const double *scalars = call->inputs[0], *norm = call->inputs[1];
  *update = (Update){ .layout = call->constants,
                      .call = call,
                      .scalars = scalars,
                      .gradient_scale = scalars[ORTRAIN_UPDATE_GRADIENT_SCALE],
                      .is_broken = call->workspace };
  take_operands (call, update->layout);
  if (norm == NULL || !(scalars[ORTRAIN_UPDATE_MAX_NORM] > 0))
    return TRUE;
  update->gradient_scale *= MIN (1.0, scalars[ORTRAIN_UPDATE_MAX_NORM] / (*norm + 1e-6));
  return isfinite (*norm);
}

static void
end_update (const Update *update, gboolean has_run)
{
  const Layout *layout = update->layout;
  gint64 *broken = update->call->outputs[layout->n_tensors * (1 + layout->n_states)];
  if (broken == NULL)
    return;
  *broken = ORTRAIN_UPDATE_NONE_BROKEN;
  for (guint i = 0; i < layout->n_spans && has_run; i++)
    if (update->is_broken[i])
      {
        *broken = layout->tensors[layout->spans[i].tensor].parameter;
        return;
      }
}

static void
run_update (const Rule *rule, const OrtrainKernelCall *call)
{
  Update update;
  const gboolean runs = begin_update (&update, call);
  if (runs)
    run_rule (rule, &update);
  end_update (&update, runs);
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
      ortrain_dtype_widen_n (dtype, tile, (const guint16 *) x + i, n);
      sum += sum_of_squares_f32 (tile, n);
    }
  return sum;
}

typedef struct
{
  const Layout *layout;
  const OrtrainKernelCall *call;
  double *partials; /* [n_spans] */
} Norm;

static gboolean
prepare_norm (OrtrainKernelSetup *setup, GError **error)
{
  const Layout *layout = new_layout (setup, setup->n_inputs - 1, 0, 1, 1);
  setup->workspace_bytes = MAX (layout->n_spans, 1) * sizeof (double);
  return TRUE;
}

static void
norm_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Norm *norm = data;
  const Layout *layout = norm->layout;
  for (guint index = layout->batches[begin]; index < layout->batches[end]; index++)
    {
      const Span *span = &layout->spans[index];
      norm->partials[index] = sum_of_squares (layout->tensors[span->tensor].dtype,
                                              norm->call->inputs[layout->first + span->tensor], span->begin, span->end);
    }
}

static void
run_gradient_norm (const OrtrainKernelCall *call)
{
  const Norm norm = { call->constants, call, call->workspace };
  const double *scalars = call->inputs[0];
  double sum = 0;
  if (scalars[ORTRAIN_UPDATE_MAX_NORM] > 0)
    {
      ortrain_parallel_for (ortrain_cpu_get_pool (call), norm.layout->n_batches, 1, norm_batches, (gpointer) &norm);
      for (guint i = 0; i < norm.layout->n_spans; i++)
        sum += norm.partials[i];
    }
  *(double *) call->outputs[0] = sqrt (sum) * scalars[ORTRAIN_UPDATE_GRADIENT_SCALE];
}

/* ---- SGD ---- */

static void
sgd_begin (Coefficients *c, const Update *update, guint index)
{
  const Tensor *tensor = &update->layout->tensors[index];
  c->sgd = (OrtrainSgdMath){
    learning_rate (update, tensor), update->gradient_scale, weight_decay (update, tensor), factor (update, 0), 1.0,
    factor (update, 1) != 0
  };
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
  run_update (&sgd_rule, call);
}

/* ---- Adam, AdamW ---- */

static void
adam_begin (Coefficients *c, const Update *update, guint index)
{
  const Tensor *tensor = &update->layout->tensors[index];
  c->adam = ortrain_adam_math ((OrtrainAdamMode) factor (update, 0), learning_rate (update, tensor), factor (update, 1),
                               factor (update, 2), factor (update, 3), weight_decay (update, tensor),
                               factor (update, 4) != 0, update->scalars[ORTRAIN_UPDATE_STEP], update->gradient_scale);
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
  run_update (&adam_rule, call);
}

/* ---- Adagrad ---- */

static void
adagrad_begin (Coefficients *c, const Update *update, guint index)
{
  const Tensor *tensor = &update->layout->tensors[index];
  const double steps_before = update->scalars[ORTRAIN_UPDATE_STEP] - 1.0;
  c->adagrad = (OrtrainAdagradMath){ learning_rate (update, tensor) / (1.0 + steps_before * factor (update, 1)),
                                     update->gradient_scale, weight_decay (update, tensor), factor (update, 0) };
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
  run_update (&adagrad_rule, call);
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

static gboolean
prepare_lamb (OrtrainKernelSetup *setup, GError **error)
{
  if (!prepare_update (setup, error))
    return FALSE;
  const Layout *layout = setup->constants;
  setup->workspace_bytes += (2 * (gsize) layout->n_spans + layout->n_tensors) * sizeof (double);
  return TRUE;
}

static OrtrainLambMath
lamb_coefficients (const Update *update, guint index)
{
  const Tensor *tensor = &update->layout->tensors[index];
  return ortrain_lamb_math (learning_rate (update, tensor), factor (update, 0), factor (update, 1), factor (update, 2),
                            weight_decay (update, tensor), factor (update, 4), factor (update, 5),
                            factor (update, 3) != 0, update->scalars[ORTRAIN_UPDATE_STEP], update->gradient_scale);
}

static void
lamb_begin (Coefficients *c, const Update *update, guint index)
{
  c->lamb = (LambPass){ .math = lamb_coefficients (update, index), .ratio = update->ratios[index] };
}

static void
lamb_first_end (const Coefficients *c, const Update *update, guint span)
{
  update->partials[span] = c->lamb.sums[0];
  update->partials[update->layout->n_spans + span] = c->lamb.sums[1];
}

static const Rule lamb_first_rule = { lamb_begin, lamb_first_f32, lamb_first_f64, lamb_first_end };
static const Rule lamb_second_rule = { lamb_begin, lamb_second_f32, lamb_second_f64, NULL };

static void
run_lamb_passes (const Update *update)
{
  const Layout *layout = update->layout;
  memset (update->ratios, 0, layout->n_tensors * sizeof (double));
  run_rule (&lamb_first_rule, update);
  guint i = 0;
  for (guint t = 0; t < layout->n_tensors; t++)
    {
      double w2 = 0, d2 = 0;
      for (; i < layout->n_spans && layout->spans[i].tensor == t; i++)
        {
          w2 += update->partials[i];
          d2 += update->partials[layout->n_spans + i];
        }
      const OrtrainLambMath c = lamb_coefficients (update, t);
      update->ratios[t] = ortrain_lamb_ratio (&c, w2, d2);
    }
  run_rule (&lamb_second_rule, update);
}

static void
run_lamb (const OrtrainKernelCall *call)
{
  Update update;
  const gboolean runs = begin_update (&update, call);
  /* numbers first, as they are aligned; then the bytes */
  update.partials = call->workspace;
  update.ratios = update.partials + 2 * (gsize) update.layout->n_spans;
  update.is_broken = (guint8 *) (update.ratios + update.layout->n_tensors);
  if (runs)
    run_lamb_passes (&update);
  end_update (&update, runs);
}

#define ROW(name, prepare_func, run_func)                                                                              \
  {                                                                                                                    \
    .op_type = name, .domain = "org.ortrain", .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64),                     \
    .prepare = prepare_func, .run = run_func, .output_dtypes = ORTRAIN_DTYPES_FLOAT                                    \
  }

static const OrtrainKernel rows[] = {
  ROW ("GradientNorm", prepare_norm, run_gradient_norm),
  ROW ("SgdUpdate", prepare_update, run_sgd),
  ROW ("AdamUpdate", prepare_update, run_adam),
  ROW ("AdagradUpdate", prepare_update, run_adagrad),
  ROW ("LambUpdate", prepare_lamb, run_lamb),
};

ORTRAIN_KERNEL_TABLE (update, rows);
