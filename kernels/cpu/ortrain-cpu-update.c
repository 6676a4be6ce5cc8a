/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-optimizer-math.h"
#include "common/ortrain-stochastic-rounding.h"
#include "cpu/ortrain-cpu-block-codes-private.h"
#include "kernel-abi/ortrain-update-scalars-private.h"
#include "ortrain-cpu-philox.h"
#include "ortrain-cpu-spans.h"

#include <math.h>
#include <string.h>

/* Updates of many tensors in one pass, in place. 16-bit tensors are widened a tile at a time, and so are states in 8
 * bits; other states of parameters of 16 bits are float32. */

#define CHUNK 2048 /* elements that stay in the first cache */

/* ---- numbers that are not finite ---- */

/* A parameter may hold infinities; an element that is the same infinity before and after the update is not broken by
 * it. The check is part of the loop that updates, and needs no pass of its own. */
static inline guint32
is_broken_f32 (float before, float after)
{
  return (after - after != 0) & (after != before);
}

static inline guint64
is_broken_f64 (double before, double after)
{
  return (after - after != 0) & (after != before);
}

/* Rounding to 16 bits may make a finite result of the update infinite, so stored parameters of 16 bits are searched
 * while they are in the cache. Infinities and NaNs have all bits of the exponent set. */
#define ANY_BROKEN(NAME, EXPONENT)                                                                                     \
  static gboolean any_broken_##NAME (const guint16 *x, gint64 n)                                                       \
  {                                                                                                                    \
    guint16 most = 0;                                                                                                  \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      most = MAX (most, x[i] & 0x7fffu);                                                                               \
    return most >= (EXPONENT);                                                                                         \
  }                                                                                                                    \
  static gboolean any_newly_broken_##NAME (const guint16 *before, const guint16 *after, gint64 n)                      \
  {                                                                                                                    \
    guint16 any = 0;                                                                                                   \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      {                                                                                                                \
        const guint16 magnitude = after[i] & 0x7fffu;                                                                  \
        any |= magnitude >= (EXPONENT) && !(magnitude == (EXPONENT) && before[i] == after[i]);                         \
      }                                                                                                                \
    return any;                                                                                                        \
  }
ANY_BROKEN (f16, 0x7c00u)
ANY_BROKEN (bf16, 0x7f80u)

static gboolean
refuse (const OrtrainKernelSetup *setup, const char *what, OrtrainDType dtype, GError **error)
{
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s has no kernel for a %s of %s",
               setup->op_type, what, ortrain_dtype_get_name (dtype));
  return FALSE;
}

static gboolean
prepare_tensor (OrtrainKernelSetup *setup, OrtrainSpans *layout, guint t, GError **error)
{
  const guint in = layout->first + t * layout->stride, out = t * (1 + layout->n_states);
  OrtrainSpanTensor *tensor = &layout->tensors[t];
  const gboolean wide = tensor->dtype == ORTRAIN_DTYPE_FLOAT64;
  tensor->gradient = setup->inputs[in + 1].dtype;
  setup->inplace[out] = G_GUINT64_CONSTANT (1) << in;
  if (tensor->gradient == ORTRAIN_DTYPE_FLOAT64 && !wide)
    return refuse (setup, "gradient", tensor->gradient, error);
  if (tensor->copy != ORTRAIN_DTYPE_UNDEFINED && tensor->dtype != ORTRAIN_DTYPE_FLOAT32)
    return refuse (setup, "copied parameter", tensor->dtype, error);
  for (guint k = 0; k < layout->n_states; k++)
    {
      const OrtrainDType dtype = setup->inputs[in + 2 + k].dtype;
      const OrtrainDType floating = wide ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32;
      if (k == 0)
        tensor->in_blocks = !wide && dtype == ORTRAIN_DTYPE_UINT8;
      if (dtype != (tensor->in_blocks ? ORTRAIN_DTYPE_UINT8 : floating))
        return refuse (setup, "state", dtype, error);
      setup->inplace[out + 1 + k] = G_GUINT64_CONSTANT (1) << (in + 2 + k);
    }
  return TRUE;
}

static gboolean
prepare_update (OrtrainKernelSetup *setup, GError **error)
{
  gsize n = 0, n_copies = 0;
  const gint64 *parameters = ortrain_attributes_get_ints (setup->attributes, "parameters", &n);
  const gint64 *copies = ortrain_attributes_get_ints (setup->attributes, "copies", &n_copies);
  const guint n_states = (guint) ortrain_attributes_get_int (setup->attributes, "states", 0);
  if (n_states > ORTRAIN_UPDATE_MAX_STATES || setup->n_inputs > 64 || setup->n_outputs > ORTRAIN_KERNEL_MAX_OUTPUTS)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s has no kernel for %u tensors",
                   setup->op_type, (guint) n);
      return FALSE;
    }
  OrtrainSpans *layout = ortrain_spans_new (setup, (guint) n, n_states, 3, 2 + n_states);
  layout->stochastic = ortrain_attributes_get_int (setup->attributes, "stochastic_rounding", 0) != 0;
  guint copy = (guint) n * (1 + n_states) + 1; /* output */
  for (guint t = 0; t < n; t++)
    {
      OrtrainSpanTensor *tensor = &layout->tensors[t];
      tensor->parameter = (guint32) parameters[t];
      tensor->copy = t < n_copies ? (OrtrainDType) copies[t] : ORTRAIN_DTYPE_UNDEFINED;
      if (tensor->copy != ORTRAIN_DTYPE_UNDEFINED)
        tensor->copy_output = copy++;
      if (!prepare_tensor (setup, layout, t, error))
        return FALSE;
    }
  setup->workspace_bytes = MAX (layout->n_spans, 1); /* a byte for each: whether it is broken */
  return TRUE;
}

/* How an update is called. */
typedef struct
{
  const OrtrainSpans *layout;
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
learning_rate (const Update *update, const OrtrainSpanTensor *tensor)
{
  return update->scalars[ORTRAIN_UPDATE_LEARNING_RATE (tensor->parameter)];
}

static inline double
weight_decay (const Update *update, const OrtrainSpanTensor *tensor)
{
  return update->scalars[ORTRAIN_UPDATE_WEIGHT_DECAY (tensor->parameter)];
}

typedef struct
{
  OrtrainLambMath math;
  double ratio;
  double sums[2]; /* of w^2 and d^2, out */
} LambPass;

/* Values that are the same for all elements of a tensor. */
typedef union
{
  OrtrainSgdMath sgd;
  OrtrainAdamMath adam;
  OrtrainAdagradMath adagrad;
  LambPass lamb;
} Coefficients;

/* How elements move: parameters w, gradients g, and the states of the rule, or NULL. Returns whether a parameter is no
 * finite number any more. */
typedef struct
{
  void (*begin) (Coefficients *c, const Update *update, guint tensor);
  gboolean (*f32) (Coefficients *c, float *w, const float *g, float *s0, float *s1, gint64 n);
  gboolean (*blocks) (Coefficients *c, float *w, const float *g, float *s0, float *s1, gint64 n); /* states in 8 bits */
  gboolean (*f64) (Coefficients *c, double *w, const double *g, double *s0, double *s1, gint64 n);
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

/* w [n], the elements of a parameter of 16 bits from `first` on, counted from a multiple of a tile. */
static void
store_narrow (const Update *update, const OrtrainSpanTensor *t, guint16 *stored, const float *w, gint64 first, gint64 n)
{
  if (!update->layout->stochastic || t->dtype != ORTRAIN_DTYPE_BFLOAT16)
    {
      ortrain_dtype_narrow_n (t->dtype, stored, w, n);
      return;
    }
  const OrtrainPhiloxKey key = { update->call->context->step->seed, (guint32) update->scalars[ORTRAIN_UPDATE_STEP],
                                 ortrain_stochastic_rounding_node (t->parameter) };
  for (gint64 i = 0; i < n; i += ORTRAIN_CPU_PHILOX_WORDS)
    {
      guint32 words[ORTRAIN_CPU_PHILOX_WORDS];
      const gint64 len = MIN (ORTRAIN_CPU_PHILOX_WORDS, n - i);
      ortrain_cpu_philox_draw (&key, (guint64) (first + i) / 4, words);
      for (gint64 j = 0; j < len; j++)
        stored[i + j] = ortrain_float_to_bfloat16_stochastic (w[i + j], words[j]);
    }
}

static void
store_copy (const Update *update, const OrtrainSpanTensor *t, const float *w, gint64 first, gint64 n)
{
  guint16 *copy = t->copy != ORTRAIN_DTYPE_UNDEFINED ? update->call->outputs[t->copy_output] : NULL;
  if (copy != NULL)
    ortrain_dtype_narrow_n (t->copy, copy + first, w, n);
}

/* The operands of a span. */
typedef struct
{
  const Rule *rule;
  const Update *update;
  const OrtrainSpanTensor *tensor;
  void *parameter;
  const void *gradient;
  void *states[ORTRAIN_UPDATE_MAX_STATES];
  gint64 begin, end;
  gboolean moves; /* and does not only sum up */
} Work;

/* ---- states in 8 bits ---- */

/* Functions of their own for each form of codes. x: [n_blocks * 128] */
#define BLOCKS(form)                                                                                                   \
  static void decode_##form (const guint8 *row, float *restrict x, gint64 n_blocks)                                    \
  {                                                                                                                    \
    for (gint64 b = 0; b < n_blocks; b++, row += ORTRAIN_STATE_ROW, x += ORTRAIN_STATE_BLOCK)                          \
      block_decode_##form (row + 4, x, ortrain_block_get_scale (row));                                                 \
  }                                                                                                                    \
  static void encode_##form (guint8 *restrict row, const float *restrict x, gint64 n_blocks)                           \
  {                                                                                                                    \
    for (gint64 b = 0; b < n_blocks; b++, row += ORTRAIN_STATE_ROW, x += ORTRAIN_STATE_BLOCK)                          \
      {                                                                                                                \
        guint32 most = 0;                                                                                              \
        for (int i = 0; i < ORTRAIN_STATE_BLOCK; i++)                                                                  \
          most = MAX (most, ortrain_block_magnitude (x[i]));                                                           \
        const float scale = ortrain_block_scale (most);                                                                \
        ortrain_block_set_scale (row, scale);                                                                          \
        block_encode_##form (row + 4, x, ortrain_block_factor (scale));                                                \
      }                                                                                                                \
  }
BLOCKS (signed)
BLOCKS (unsigned)

static guint8 *
find_block (const Work *work, guint state, gint64 i)
{
  return (guint8 *) work->states[state] + i / ORTRAIN_STATE_BLOCK * ORTRAIN_STATE_ROW;
}

/* Elements from i on, the first of a block: up to whole blocks of both states, past the last element too. */
static void
decode_states (const Work *work, gint64 i, gint64 n, float *s0, float *s1)
{
  decode_signed (find_block (work, 0, i), s0, ORTRAIN_STATE_N_ROWS (n));
  if (work->states[1] != NULL)
    decode_unsigned (find_block (work, 1, i), s1, ORTRAIN_STATE_N_ROWS (n));
}

static void
encode_states (const Work *work, gint64 i, gint64 n, const float *s0, const float *s1)
{
  encode_signed (find_block (work, 0, i), s0, ORTRAIN_STATE_N_ROWS (n));
  if (work->states[1] != NULL)
    encode_unsigned (find_block (work, 1, i), s1, ORTRAIN_STATE_N_ROWS (n));
}

static gboolean
run_floats (const Work *work, Coefficients *c)
{
  const OrtrainSpanTensor *t = work->tensor;
  const gboolean in_blocks = t->in_blocks, is_half = t->dtype == ORTRAIN_DTYPE_FLOAT16;
  const gboolean narrow_w = t->dtype != ORTRAIN_DTYPE_FLOAT32, narrow_g = t->gradient != ORTRAIN_DTYPE_FLOAT32;
  const gboolean tiled = narrow_w || narrow_g || in_blocks, is_copied = t->copy != ORTRAIN_DTYPE_UNDEFINED;
  const gint64 step = tiled ? ORTRAIN_SPAN_TILE : work->moves && is_copied ? CHUNK : work->end - work->begin;
  gboolean broken = FALSE;
  for (gint64 i = work->begin; i < work->end; i += step)
    {
      float w_tile[ORTRAIN_SPAN_TILE], g_tile[ORTRAIN_SPAN_TILE], s0_tile[ORTRAIN_SPAN_TILE],
          s1_tile[ORTRAIN_SPAN_TILE];
      guint16 before[ORTRAIN_SPAN_TILE];
      const gint64 n = MIN (step, work->end - i);
      guint16 *stored = (guint16 *) work->parameter + i; /* of 16 bits */
      float *w = narrow_w ? w_tile : (float *) work->parameter + i;
      const float *g = narrow_g ? g_tile : (const float *) work->gradient + i;
      gboolean breaks;
      if (narrow_w)
        {
          memcpy (before, stored, (gsize) n * sizeof *before);
          ortrain_dtype_widen_n (t->dtype, w_tile, stored, n);
        }
      if (narrow_g)
        ortrain_dtype_widen_n (t->gradient, g_tile, (const guint16 *) work->gradient + i, n);
      if (in_blocks)
        {
          decode_states (work, i, n, s0_tile, s1_tile);
          breaks = work->rule->blocks (c, w, g, s0_tile, s1_tile, n);
        }
      else
        breaks = work->rule->f32 (c, w, g, floats_at (work->states[0], i), floats_at (work->states[1], i), n);
      if (!work->moves)
        continue;
      if (in_blocks)
        encode_states (work, i, n, s0_tile, s1_tile);
      if (narrow_w)
        {
          store_narrow (work->update, t, stored, w, i, n);
          breaks = (is_half ? any_broken_f16 : any_broken_bf16) (stored, n) &&
                   (is_half ? any_newly_broken_f16 : any_newly_broken_bf16) (before, stored, n);
        }
      store_copy (work->update, t, w, i, n);
      broken = broken || breaks;
    }
  return broken;
}

/* A tile of a gradient of any type, in double. */
static void
widen_to_doubles (OrtrainDType dtype, double *to, const void *gradient, gint64 first, gint64 n)
{
  float tile[ORTRAIN_SPAN_TILE];
  const float *from = dtype == ORTRAIN_DTYPE_FLOAT32 ? (const float *) gradient + first : tile;
  if (from == tile)
    ortrain_dtype_widen_n (dtype, tile, (const guint16 *) gradient + first, n);
  for (gint64 i = 0; i < n; i++)
    to[i] = from[i];
}

static gboolean
run_doubles (const Work *work, Coefficients *c)
{
  const gboolean narrow_g = work->tensor->gradient != ORTRAIN_DTYPE_FLOAT64;
  const gint64 step = narrow_g ? ORTRAIN_SPAN_TILE : work->end - work->begin;
  gboolean broken = FALSE;
  for (gint64 i = work->begin; i < work->end; i += step)
    {
      double g_tile[ORTRAIN_SPAN_TILE], *w = (double *) work->parameter + i;
      const gint64 n = MIN (step, work->end - i);
      if (narrow_g)
        widen_to_doubles (work->tensor->gradient, g_tile, work->gradient, i, n);
      const gboolean breaks = work->rule->f64 (c, w, narrow_g ? g_tile : (const double *) work->gradient + i,
                                               doubles_at (work->states[0], i), doubles_at (work->states[1], i), n);
      broken = broken || breaks;
    }
  return broken;
}

static void
run_span (const Rule *rule, const Update *update, guint index)
{
  const OrtrainSpans *layout = update->layout;
  const OrtrainSpan *span = &layout->spans[index];
  void *const *outputs = update->call->outputs + span->tensor * (1 + layout->n_states);
  Work work = { .rule = rule,
                .update = update,
                .tensor = &layout->tensors[span->tensor],
                .parameter = outputs[0],
                .gradient = update->call->inputs[layout->first + span->tensor * layout->stride + 1],
                .begin = span->begin,
                .end = span->end,
                .moves = rule->end == NULL };
  Coefficients c;
  for (guint k = 0; k < layout->n_states; k++)
    work.states[k] = outputs[1 + k];
  rule->begin (&c, update, span->tensor);
  update->is_broken[index] =
      (guint8) (work.tensor->dtype == ORTRAIN_DTYPE_FLOAT64 ? run_doubles (&work, &c) : run_floats (&work, &c));
  if (rule->end != NULL)
    rule->end (&c, update, index);
}

/* The copies of parameters that stay as they are. */
static void
copy_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Update *update = data;
  const OrtrainSpans *layout = update->layout;
  for (guint index = layout->batches[begin]; index < layout->batches[end]; index++)
    {
      const OrtrainSpan *span = &layout->spans[index];
      const float *w = update->call->outputs[span->tensor * (1 + layout->n_states)]; /* if there is a copy */
      store_copy (update, &layout->tensors[span->tensor], w + span->begin, span->begin, span->end - span->begin);
    }
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
take_operands (const OrtrainKernelCall *call, const OrtrainSpans *layout)
{
  for (guint t = 0; t < layout->n_tensors; t++)
    {
      const void *const *in = call->inputs + layout->first + t * layout->stride;
      void *const *out = call->outputs + t * (1 + layout->n_states);
      const gsize n = (gsize) layout->tensors[t].n, size = ortrain_dtype_get_size (layout->tensors[t].dtype);
      if (out[0] != in[0])
        memcpy (out[0], in[0], n * size);
      const gsize blocks = (gsize) ORTRAIN_STATE_N_ROWS (layout->tensors[t].n) * ORTRAIN_STATE_ROW;
      for (guint k = 0; k < layout->n_states; k++)
        if (out[1 + k] != in[2 + k])
          memcpy (out[1 + k], in[2 + k], layout->tensors[t].in_blocks ? blocks : n * MAX (size, sizeof (float)));
    }
}

/* FALSE: the gradients are not finite, or the step has failed before, and everything stays as it is. */
static gboolean
begin_update (Update *update, const OrtrainKernelCall *call)
{
  const double *scalars = call->inputs[0], *norm = call->inputs[1];
  const float *loss_scale = call->inputs[2];
  *update = (Update){ .layout = call->constants,
                      .call = call,
                      .scalars = scalars,
                      .gradient_scale = scalars[ORTRAIN_UPDATE_GRADIENT_SCALE],
                      .is_broken = call->workspace };
  take_operands (call, update->layout);
  if (call->context->fault->code != ORTRAIN_FAULT_NONE)
    return FALSE;
  if (loss_scale != NULL)
    update->gradient_scale /= (double) *loss_scale;
  const gboolean clips = scalars[ORTRAIN_UPDATE_MAX_NORM] > 0;
  if (norm == NULL || (!clips && loss_scale == NULL))
    return TRUE;
  if (clips)
    update->gradient_scale *= MIN (1.0, scalars[ORTRAIN_UPDATE_MAX_NORM] / (*norm + 1e-6));
  return isfinite (*norm);
}

static void
end_update (const Update *update, gboolean has_run)
{
  const OrtrainSpans *layout = update->layout;
  if (!has_run)
    ortrain_parallel_for (ortrain_cpu_get_pool (update->call), layout->n_batches, 1, copy_batches, (gpointer) update);
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

/* ---- SGD ---- */

static void
sgd_begin (Coefficients *c, const Update *update, guint index)
{
  const OrtrainSpanTensor *tensor = &update->layout->tensors[index];
  c->sgd = (OrtrainSgdMath){
    learning_rate (update, tensor), update->gradient_scale, weight_decay (update, tensor), factor (update, 0), 1.0,
    factor (update, 1) != 0
  };
}

/* Runs the statement for each i; then whether it has broken a parameter. */
#define UPDATE_EACH(NAME, statement)                                                                                   \
  for (gint64 i = 0; i < n; i++)                                                                                       \
    {                                                                                                                  \
      const typeof (*w) before = w[i];                                                                                 \
      statement;                                                                                                       \
      broken |= is_broken_##NAME (before, w[i]);                                                                       \
    }

#define SGD(NAME, T, WORD)                                                                                             \
  static gboolean sgd_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict v,           \
                              T *unused, gint64 n)                                                                     \
  {                                                                                                                    \
    OrtrainSgdMath c = coefficients->sgd;                                                                              \
    WORD broken = 0;                                                                                                   \
    if (v == NULL)                                                                                                     \
      UPDATE_EACH (NAME, ortrain_sgd_element_##NAME (&c, &w[i], g[i]))                                                 \
    else if (c.nesterov)                                                                                               \
      {                                                                                                                \
        c.nesterov = 1;                                                                                                \
        UPDATE_EACH (NAME, ortrain_momentum_element_##NAME (&c, &w[i], g[i], &v[i]))                                   \
      }                                                                                                                \
    else                                                                                                               \
      {                                                                                                                \
        c.nesterov = 0;                                                                                                \
        UPDATE_EACH (NAME, ortrain_momentum_element_##NAME (&c, &w[i], g[i], &v[i]))                                   \
      }                                                                                                                \
    return broken != 0;                                                                                                \
  }
SGD (f32, float, guint32)
SGD (f64, double, guint64)

static const Rule sgd_rule = { sgd_begin, sgd_f32, sgd_f32, sgd_f64, NULL };

static void
run_sgd (const OrtrainKernelCall *call)
{
  run_update (&sgd_rule, call);
}

/* ---- Adam, AdamW ---- */

static void
adam_begin (Coefficients *c, const Update *update, guint index)
{
  const OrtrainSpanTensor *tensor = &update->layout->tensors[index];
  c->adam = ortrain_adam_math ((OrtrainAdamMode) factor (update, 0), learning_rate (update, tensor), factor (update, 1),
                               factor (update, 2), factor (update, 3), weight_decay (update, tensor),
                               factor (update, 4) != 0, update->scalars[ORTRAIN_UPDATE_STEP], update->gradient_scale);
}

#define ADAM(NAME, T, WORD)                                                                                            \
  static gboolean adam_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict m,          \
                               T *restrict v, gint64 n)                                                                \
  {                                                                                                                    \
    const OrtrainAdamMath c = coefficients->adam;                                                                      \
    WORD broken = 0;                                                                                                   \
    UPDATE_EACH (NAME, ortrain_adam_element_##NAME (&c, &w[i], g[i], &m[i], &v[i]))                                    \
    return broken != 0;                                                                                                \
  }
ADAM (f32, float, guint32)
ADAM (f64, double, guint64)

static const Rule adam_rule = { adam_begin, adam_f32, adam_f32, adam_f64, NULL };

static void
run_adam (const OrtrainKernelCall *call)
{
  run_update (&adam_rule, call);
}

/* ---- Adagrad ---- */

static void
adagrad_begin (Coefficients *c, const Update *update, guint index)
{
  const OrtrainSpanTensor *tensor = &update->layout->tensors[index];
  const double steps_before = update->scalars[ORTRAIN_UPDATE_STEP] - 1.0;
  c->adagrad = (OrtrainAdagradMath){ learning_rate (update, tensor) / (1.0 + steps_before * factor (update, 1)),
                                     update->gradient_scale, weight_decay (update, tensor), factor (update, 0) };
}

#define ADAGRAD(NAME, T, WORD)                                                                                         \
  static gboolean adagrad_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict h,       \
                                  T *unused, gint64 n)                                                                 \
  {                                                                                                                    \
    const OrtrainAdagradMath c = coefficients->adagrad;                                                                \
    WORD broken = 0;                                                                                                   \
    UPDATE_EACH (NAME, ortrain_adagrad_element_##NAME (&c, &w[i], g[i], &h[i]))                                        \
    return broken != 0;                                                                                                \
  }
ADAGRAD (f32, float, guint32)
ADAGRAD (f64, double, guint64)

static const Rule adagrad_rule = { adagrad_begin, adagrad_f32, NULL, adagrad_f64, NULL };

static void
run_adagrad (const OrtrainKernelCall *call)
{
  run_update (&adagrad_rule, call);
}

/* ---- LAMB ---- The first pass moves the moments and sums the squares of weights and directions; the second finds the
 * directions again from the moments, so that they need no memory and the gradients do not change. Moments in 8 bits are
 * moved in both passes and stored by the second alone: the directions use them before they are rounded. */

#define LAMB(NAME, T, WORD, SQRT)                                                                                      \
  static gboolean lamb_first_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict m,    \
                                     T *restrict v, gint64 n)                                                          \
  {                                                                                                                    \
    LambPass *pass = &coefficients->lamb;                                                                              \
    const OrtrainLambMath c = pass->math;                                                                              \
    for (gint64 begin = 0; begin < n; begin += ORTRAIN_SPAN_TILE)                                                      \
      {                                                                                                                \
        T d[ORTRAIN_SPAN_TILE], finite[ORTRAIN_SPAN_TILE];                                                             \
        gint64 len = MIN (ORTRAIN_SPAN_TILE, n - begin);                                                               \
        for (gint64 i = 0; i < len; i++)                                                                               \
          {                                                                                                            \
            finite[i] = ortrain_decaying_##NAME (w[begin + i]);                                                        \
            d[i] = ortrain_lamb_direction_##NAME (&c, w[begin + i], g[begin + i], &m[begin + i], &v[begin + i]);       \
          }                                                                                                            \
        pass->sums[0] += ortrain_span_sum_of_squares_##NAME (finite, len);                                             \
        pass->sums[1] += ortrain_span_sum_of_squares_##NAME (d, len);                                                  \
      }                                                                                                                \
    return FALSE;                                                                                                      \
  }                                                                                                                    \
  static inline void lamb_again_##NAME (const OrtrainLambMath *c, T ratio, T *w, T g, T m, T v)                        \
  {                                                                                                                    \
    T e = (T) c->grad_scale * g;                                                                                       \
    T d = (T) c->weight_decay * ortrain_decaying_##NAME (*w) +                                                         \
          m * (T) c->inv_correction1 / (SQRT (v * (T) c->inv_correction2) + (T) c->epsilon);                           \
    ortrain_lamb_element_##NAME (ratio, w, e - e == 0 ? d : 0);                                                        \
  }                                                                                                                    \
  static gboolean lamb_second_##NAME (Coefficients *coefficients, T *restrict w, const T *restrict g, T *restrict m,   \
                                      T *restrict v, gint64 n)                                                         \
  {                                                                                                                    \
    const LambPass *pass = &coefficients->lamb;                                                                        \
    const OrtrainLambMath c = pass->math;                                                                              \
    const T ratio = (T) pass->ratio;                                                                                   \
    WORD broken = 0;                                                                                                   \
    UPDATE_EACH (NAME, lamb_again_##NAME (&c, ratio, &w[i], g[i], m[i], v[i]))                                         \
    return broken != 0;                                                                                                \
  }
LAMB (f32, float, guint32, sqrtf)
LAMB (f64, double, guint64, sqrt)

static gboolean
lamb_second_blocks (Coefficients *coefficients, float *restrict w, const float *restrict g, float *restrict m,
                    float *restrict v, gint64 n)
{
  const LambPass *pass = &coefficients->lamb;
  const OrtrainLambMath c = pass->math;
  const float ratio = (float) pass->ratio;
  guint32 broken = 0;
  UPDATE_EACH (f32, ortrain_lamb_element_f32 (ratio, &w[i], ortrain_lamb_direction_f32 (&c, w[i], g[i], &m[i], &v[i])))
  return broken != 0;
}

/* Sums that only grow are never in 8 bits. */
static gboolean
prepare_adagrad (OrtrainKernelSetup *setup, GError **error)
{
  if (!prepare_update (setup, error))
    return FALSE;
  const OrtrainSpans *layout = setup->constants;
  for (guint t = 0; t < layout->n_tensors; t++)
    if (layout->tensors[t].in_blocks)
      return refuse (setup, "sum", ORTRAIN_DTYPE_UINT8, error);
  return TRUE;
}

static gboolean
prepare_lamb (OrtrainKernelSetup *setup, GError **error)
{
  if (!prepare_update (setup, error))
    return FALSE;
  const OrtrainSpans *layout = setup->constants;
  setup->workspace_bytes += (2 * (gsize) layout->n_spans + layout->n_tensors) * sizeof (double);
  return TRUE;
}

static OrtrainLambMath
lamb_coefficients (const Update *update, guint index)
{
  const OrtrainSpanTensor *tensor = &update->layout->tensors[index];
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

static const Rule lamb_first_rule = { lamb_begin, lamb_first_f32, lamb_first_f32, lamb_first_f64, lamb_first_end };
static const Rule lamb_second_rule = { lamb_begin, lamb_second_f32, lamb_second_blocks, lamb_second_f64, NULL };

static void
run_lamb_passes (const Update *update)
{
  const OrtrainSpans *layout = update->layout;
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
  ROW ("SgdUpdate", prepare_update, run_sgd),
  ROW ("AdamUpdate", prepare_update, run_adam),
  ROW ("AdagradUpdate", prepare_adagrad, run_adagrad),
  ROW ("LambUpdate", prepare_lamb, run_lamb),
};

ORTRAIN_KERNEL_TABLE (update, rows);
