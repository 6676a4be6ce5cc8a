/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-lanes.h"
#include "ortrain-cpu-philox.h"

#include <math.h>
#include <string.h>

/* Random numbers come from Philox, keyed by seed, step and the node's number, and counted by the element: any part of
 * the stream can be made again, by any thread. So dropout keeps no mask: its gradient draws the same one. */

#define RANDOM_GRAIN 16384 /* elements per chunk; a multiple of a batch */

typedef enum
{
  RANDOM_NORMAL,
  RANDOM_UNIFORM,
  RANDOM_BERNOULLI,
  RANDOM_MULTINOMIAL,
  RANDOM_DROPOUT,
} RandomKind;

typedef struct
{
  RandomKind kind;
  OrtrainDType dtype;       /* of output 0 */
  OrtrainDType input_dtype; /* of input 0 */
  OrtrainDType ratio_dtype;
  guint n_inputs, n_outputs;
  gint64 n;
  gint64 classes, samples; /* Multinomial */
  gboolean has_seed, has_node;
  guint64 seed;
  guint32 node;
  double a, b; /* mean and scale, or low and high; or the ratio when there is no such input */
} RandomPlan;

typedef struct
{
  const RandomPlan *plan;
  OrtrainPhiloxKey key;
  gconstpointer x;
  gpointer y;
  guint8 *mask;
  double ratio;
  gboolean training;
} RandomRun;

static OrtrainPhiloxKey
key_of (const OrtrainKernelCall *call, const RandomPlan *plan)
{
  OrtrainPhiloxKey key = { call->context->step->seed, call->context->step->step, call->node_number };
  if (plan->has_seed)
    key.seed = plan->seed;
  if (plan->has_node)
    key.node = plan->node;
  return key;
}

static RandomPlan *
new_plan (OrtrainKernelSetup *setup)
{
  RandomPlan *plan = g_new0 (RandomPlan, 1);
  plan->dtype = setup->outputs[0].dtype;
  plan->n = setup->outputs[0].n_elements;
  plan->n_inputs = setup->n_inputs;
  plan->n_outputs = setup->n_outputs;
  if (setup->n_inputs > 0)
    plan->input_dtype = setup->inputs[0].dtype;
  plan->has_seed = ortrain_attributes_has (setup->attributes, "seed");
  if (plan->has_seed)
    {
      const OrtrainAttribute *seed = ortrain_attributes_lookup (setup->attributes, "seed");
      plan->seed = seed->kind == ORTRAIN_ATTRIBUTE_INT ? (guint64) seed->v.i : (guint64) (gint64) seed->v.f;
    }
  plan->has_node = ortrain_attributes_has (setup->attributes, "forward_node");
  plan->node = (guint32) ortrain_attributes_get_int (setup->attributes, "forward_node", 0);
  setup->constants = plan;
  setup->constants_free = g_free;
  return plan;
}

/* ---- Dropout (x[, ratio[, training]]) → (y[, mask]); DropoutGrad (dy[, ratio[, training]]) {forward_node} ---- */
#define DROPOUT(type)                                                                                                  \
  {                                                                                                                    \
    const type *x = run->x;                                                                                            \
    type *y = run->y, scale = (type) (1 / (1 - run->ratio));                                                           \
    for (gint64 i = begin; i < end; i += ORTRAIN_CPU_PHILOX_WORDS)                                                     \
      {                                                                                                                \
        guint32 words[ORTRAIN_CPU_PHILOX_WORDS];                                                                       \
        gint64 n = MIN (ORTRAIN_CPU_PHILOX_WORDS, end - i);                                                            \
        ortrain_cpu_philox_draw (&run->key, (guint64) i / 4, words);                                                   \
        ORTRAIN_INDEPENDENT                                                                                            \
        for (gint64 j = 0; j < n; j++)                                                                                 \
          y[i + j] = (words[j] >> 8) >= threshold ? x[i + j] * scale : 0;                                              \
        for (gint64 j = 0; run->mask && j < n; j++)                                                                    \
          run->mask[i + j] = (words[j] >> 8) >= threshold;                                                             \
      }                                                                                                                \
  }

/* n elements of x and y from `at` on, one of which at least has 16 bits; at most one drawing of them. words: NULL: all
 * stay */
static void
drop_narrow (const RandomRun *run, gint64 at, gint64 n, const guint32 *words, guint32 threshold)
{
  const OrtrainDType from = run->plan->input_dtype, to = run->plan->dtype;
  const float scale = (float) (1 / (1 - run->ratio));
  float tile[ORTRAIN_CPU_PHILOX_WORDS];
  ortrain_elements_load (from, run->x, at, n, tile);
  for (gint64 j = 0; words != NULL && j < n; j++)
    tile[j] = (words[j] >> 8) >= threshold ? tile[j] * scale : 0;
  for (gint64 j = 0; words != NULL && run->mask != NULL && j < n; j++)
    run->mask[at + j] = (words[j] >> 8) >= threshold;
  ortrain_elements_store (to, run->y, at, n, tile);
}

static void
keep_all (const RandomRun *run, gint64 begin, gint64 end)
{
  const gsize size = ortrain_dtype_get_size (run->plan->dtype), at = (gsize) begin * size;
  if (run->plan->input_dtype != run->plan->dtype)
    for (gint64 i = begin; i < end; i += ORTRAIN_CPU_PHILOX_WORDS)
      drop_narrow (run, i, MIN (ORTRAIN_CPU_PHILOX_WORDS, end - i), NULL, 0);
  else if (run->x != run->y)
    memcpy ((guint8 *) run->y + at, (const guint8 *) run->x + at, (gsize) (end - begin) * size);
  if (run->mask)
    memset (run->mask + begin, 1, (gsize) (end - begin));
}

static void
dropout_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RandomRun *run = data;
  const OrtrainDType from = run->plan->input_dtype, to = run->plan->dtype;
  guint32 threshold = (guint32) ceil (run->ratio * 0x1p24); /* u >= ratio, for u of 24 bits */
  if (!run->training || run->ratio <= 0)
    keep_all (run, begin, end);
  else if (ortrain_dtype_is_half (from) || ortrain_dtype_is_half (to))
    for (gint64 i = begin; i < end; i += ORTRAIN_CPU_PHILOX_WORDS)
      {
        guint32 words[ORTRAIN_CPU_PHILOX_WORDS];
        ortrain_cpu_philox_draw (&run->key, (guint64) i / 4, words);
        drop_narrow (run, i, MIN (ORTRAIN_CPU_PHILOX_WORDS, end - i), words, threshold);
      }
  else if (to == ORTRAIN_DTYPE_FLOAT32)
    DROPOUT (float)
  else
    DROPOUT (double)
}

static gboolean
dropout_prepare (OrtrainKernelSetup *setup, GError **error)
{
  RandomPlan *plan = new_plan (setup);
  plan->kind = RANDOM_DROPOUT;
  plan->a = 0.5;
  if (setup->n_inputs > 1)
    plan->ratio_dtype = setup->inputs[1].dtype;
  setup->inplace[0] = 1;
  return TRUE;
}

static void
dropout_run (const OrtrainKernelCall *call)
{
  const RandomPlan *plan = call->constants;
  RandomRun run = { .plan = plan, .key = key_of (call, plan), .x = call->inputs[0], .y = call->outputs[0] };
  const void *ratio = plan->n_inputs > 1 ? call->inputs[1] : NULL;
  const guint8 *training = plan->n_inputs > 2 ? call->inputs[2] : NULL;
  run.mask = plan->n_outputs > 1 ? call->outputs[1] : NULL;
  run.training = training != NULL && *training;
  run.ratio = ratio != NULL ? ortrain_elements_load_real (plan->ratio_dtype, ratio, 0) : plan->a;
  if (!(run.ratio >= 0 && run.ratio < 1))
    {
      ortrain_kernel_fault_number (call, 1, run.ratio);
      return;
    }
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->n, RANDOM_GRAIN, dropout_units, &run);
}

/* ---- Distributions ---- */
static inline void
store (OrtrainDType dtype, gpointer y, gint64 i, double v)
{
  switch ((int) dtype)
    {
    case ORTRAIN_DTYPE_FLOAT32:
      ((float *) y)[i] = (float) v;
      break;
    case ORTRAIN_DTYPE_FLOAT64:
      ((double *) y)[i] = v;
      break;
    case ORTRAIN_DTYPE_FLOAT16:
      ((guint16 *) y)[i] = ortrain_float_to_half ((float) v);
      break;
    case ORTRAIN_DTYPE_BFLOAT16:
      ((guint16 *) y)[i] = ortrain_float_to_bfloat16 ((float) v);
      break;
    case ORTRAIN_DTYPE_INT32:
    case ORTRAIN_DTYPE_UINT32:
      ((gint32 *) y)[i] = (gint32) v;
      break;
    case ORTRAIN_DTYPE_INT64:
    case ORTRAIN_DTYPE_UINT64:
      ((gint64 *) y)[i] = (gint64) v;
      break;
    case ORTRAIN_DTYPE_INT16:
    case ORTRAIN_DTYPE_UINT16:
      ((gint16 *) y)[i] = (gint16) v;
      break;
    case ORTRAIN_DTYPE_INT8:
    case ORTRAIN_DTYPE_UINT8:
    case ORTRAIN_DTYPE_BOOL:
      ((gint8 *) y)[i] = (gint8) v;
      break;
    }
}

static void
random_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RandomRun *run = data;
  const RandomPlan *plan = run->plan;
  for (gint64 i = begin; i < end; i += ORTRAIN_CPU_PHILOX_WORDS)
    {
      guint32 words[ORTRAIN_CPU_PHILOX_WORDS];
      gint64 n = MIN (ORTRAIN_CPU_PHILOX_WORDS, end - i);
      ortrain_cpu_philox_draw (&run->key, (guint64) i / 4, words);
      for (gint64 j = 0; j < n; j++)
        {
          double v = words[j] * 0x1p-32;
          if (plan->kind == RANDOM_UNIFORM)
            v = plan->a + (plan->b - plan->a) * v;
          else if (plan->kind == RANDOM_BERNOULLI)
            v = v < ortrain_elements_load_real (plan->input_dtype, run->x, i + j);
          else /* Box and Muller: two words make two normals */
            {
              gint64 pair = j & ~(gint64) 1;
              double radius = sqrt (-2 * log ((words[pair] + 1.0) * 0x1p-32)),
                     angle = 2 * G_PI * words[pair + 1] * 0x1p-32;
              v = plan->a + plan->b * radius * (j & 1 ? sin (angle) : cos (angle));
            }
          store (plan->dtype, run->y, i + j, v);
        }
    }
}

/* Samples of classes from unnormalised log-probabilities, x [rows, classes] → y [rows, samples] */
static void
multinomial_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RandomRun *run = data;
  const RandomPlan *plan = run->plan;
  for (gint64 r = begin; r < end; r++)
    {
      gint64 at = r * plan->classes;
      double top = -INFINITY, total = 0;
      for (gint64 c = 0; c < plan->classes; c++)
        top = MAX (top, ortrain_elements_load_real (plan->input_dtype, run->x, at + c));
      for (gint64 c = 0; c < plan->classes; c++)
        total += exp (ortrain_elements_load_real (plan->input_dtype, run->x, at + c) - top);
      for (gint64 s = 0; s < plan->samples; s++)
        {
          guint32 words[4];
          ortrain_philox (&run->key, (guint64) (r * plan->samples + s), words);
          double u = words[0] * 0x1p-32 * total, sum = 0;
          gint64 chosen = plan->classes - 1;
          for (gint64 c = 0; c < plan->classes; c++)
            {
              sum += exp (ortrain_elements_load_real (plan->input_dtype, run->x, at + c) - top);
              if (u < sum)
                {
                  chosen = c;
                  break;
                }
            }
          store (plan->dtype, run->y, r * plan->samples + s, (double) chosen);
        }
    }
}

static gboolean
random_prepare (OrtrainKernelSetup *setup, GError **error)
{
  RandomPlan *plan = new_plan (setup);
  if (g_str_has_prefix (setup->op_type, "RandomNormal"))
    {
      plan->kind = RANDOM_NORMAL;
      plan->a = ortrain_attributes_get_float (setup->attributes, "mean", 0);
      plan->b = ortrain_attributes_get_float (setup->attributes, "scale", 1);
    }
  else if (g_str_has_prefix (setup->op_type, "RandomUniform"))
    {
      plan->kind = RANDOM_UNIFORM;
      plan->a = ortrain_attributes_get_float (setup->attributes, "low", 0);
      plan->b = ortrain_attributes_get_float (setup->attributes, "high", 1);
    }
  else if (g_str_equal (setup->op_type, "Bernoulli"))
    plan->kind = RANDOM_BERNOULLI;
  else
    {
      plan->kind = RANDOM_MULTINOMIAL;
      plan->classes = setup->inputs[0].rank == 2 ? setup->inputs[0].dims[1] : 0;
      plan->samples = setup->outputs[0].rank == 2 ? setup->outputs[0].dims[1] : 0;
    }
  return TRUE;
}

static void
random_run (const OrtrainKernelCall *call)
{
  const RandomPlan *plan = call->constants;
  RandomRun run = { .plan = plan, .key = key_of (call, plan), .y = call->outputs[0] };
  run.x = plan->n_inputs > 0 ? call->inputs[0] : NULL;
  if (plan->kind != RANDOM_MULTINOMIAL)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->n, RANDOM_GRAIN, random_units, &run);
  else if (plan->samples > 0)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->n / plan->samples, 8, multinomial_units, &run);
}

/* The first row of each: the ratio may be of any type. */
static const OrtrainKernel kernels[] = {
  { "Dropout", "", ORTRAIN_DTYPES_FLOAT, dropout_prepare, dropout_run },
  { "Dropout", "", ORTRAIN_DTYPES_MIXED, dropout_prepare, dropout_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { "DropoutGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, dropout_prepare, dropout_run },
  { "DropoutGrad", "org.ortrain", ORTRAIN_DTYPES_MIXED, dropout_prepare, dropout_run,
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { "RandomNormal", "", ORTRAIN_DTYPES_FLOAT, random_prepare, random_run },
  { "RandomUniform", "", ORTRAIN_DTYPES_FLOAT, random_prepare, random_run },
  { "RandomNormalLike", "", 0, random_prepare, random_run },
  { "RandomUniformLike", "", 0, random_prepare, random_run },
  { "Bernoulli", "", ORTRAIN_DTYPES_FLOAT, random_prepare, random_run },
  { "Multinomial", "", ORTRAIN_DTYPES_FLOAT, random_prepare, random_run },
};
ORTRAIN_KERNEL_TABLE (random, kernels);
