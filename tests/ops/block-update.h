/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/kernel-run.h"

#include "common/ortrain-block-quantization.h"
#include "core/ortrain-float-private.h"

/* Updates with states in 8 bits, by the kernels of any provider: against the formulas in double on the numbers that the
 * codes stand for, stored by the same codes. */

typedef struct
{
  const char *op_type;
  guint n_states;
  double factors[ORTRAIN_UPDATE_N_FACTORS];
} Rule;

static const Rule block_rules[] = {
  { "SgdUpdate", 1, { 0.9, 0 } },
  { "SgdUpdate", 1, { 0.8, 1 } },
  { "AdamUpdate", 2, { ORTRAIN_UPDATE_ADAM_L2, 0.9, 0.99, 1e-6, 1 } },
  { "AdamUpdate", 2, { ORTRAIN_UPDATE_ADAMW_DECAY_FIRST, 0.9, 0.99, 1e-6, 1 } },
  { "AdamUpdate", 2, { ORTRAIN_UPDATE_ADAMW_DECAY_LAST, 0.9, 0.99, 1e-6, 0 } },
  { "LambUpdate", 2, { 0.8, 0.9, 1e-4, 1, 0, 10 } },
};

#define STEP 3.0
#define RATE 0.1
#define DECAY 0.01
#define SCALE 0.5 /* of gradients */

typedef struct
{
  const Rule *rule;
  OrtrainDType parameter, gradient, copy;
  gint64 n;
  double norm; /* 0: none */
  OrtrainProvider *provider;
  gboolean apart; /* not in place */
} Case;

static OrtrainTensor *
new_scalars (const Case *test)
{
  double x[ORTRAIN_UPDATE_N_SCALARS (1)] = { [ORTRAIN_UPDATE_GRADIENT_SCALE] = SCALE };
  x[ORTRAIN_UPDATE_STEP] = STEP;
  x[ORTRAIN_UPDATE_MAX_NORM] = test->norm != 0 ? 1 : 0;
  memcpy (x + ORTRAIN_UPDATE_FACTORS, test->rule->factors, sizeof test->rule->factors);
  x[ORTRAIN_UPDATE_LEARNING_RATE (0)] = RATE;
  x[ORTRAIN_UPDATE_WEIGHT_DECAY (0)] = DECAY;
  g_autoptr (GError) error = NULL;
  OrtrainTensor *scalars = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, (const gint64[]){ G_N_ELEMENTS (x) }, 1, &error);
  g_assert_no_error (error);
  memcpy (ortrain_tensor_peek_writable (scalars), x, sizeof x);
  return scalars;
}

/* Any codes and scales; after the last element, zeros. A block in three has no numbers yet. */
static OrtrainTensor *
new_state (gint64 n, guint32 seed)
{
  const gint64 dims[] = { ORTRAIN_STATE_N_ROWS (n), ORTRAIN_STATE_ROW };
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  g_autoptr (GError) error = NULL;
  OrtrainTensor *state = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, dims, 2, &error);
  g_assert_no_error (error);
  guint8 *row = ortrain_tensor_peek_writable (state);
  memset (row, 0, ortrain_tensor_get_n_bytes (state));
  for (gint64 b = 0; b < dims[0]; b++, row += ORTRAIN_STATE_ROW)
    {
      if (b % 3 == 2)
        continue;
      ortrain_block_set_scale (row, (float) g_rand_double_range (rand, 0.01, 2));
      for (gint64 i = 0; i < ORTRAIN_STATE_BLOCK && b * ORTRAIN_STATE_BLOCK + i < n; i++)
        row[4 + i] = (guint8) g_rand_int_range (rand, 0, 256);
    }
  return state;
}

static OrtrainTensor *
new_numbers (OrtrainDType dtype, gint64 n, guint32 seed)
{
  g_autoptr (OrtrainTensor) wide = kernel_random (ORTRAIN_DTYPE_FLOAT32, &n, 1, 1, seed);
  g_autoptr (OrtrainTensor) narrow = kernel_cast (wide, ORTRAIN_DTYPE_BFLOAT16); /* the same in all types */
  return kernel_cast (narrow, dtype);
}

static void
run_case (KernelRun *run, const Case *test)
{
  const guint n_states = test->rule->n_states;
  const gint64 rows[] = { ORTRAIN_STATE_N_ROWS (test->n), ORTRAIN_STATE_ROW }, copy = test->copy, index = 0;
  kernel_run_init (run, "org.ortrain", test->rule->op_type);
  ortrain_attributes_set_ints (run->attributes, "parameters", &index, 1);
  ortrain_attributes_set_int (run->attributes, "states", n_states);
  if (test->copy != ORTRAIN_DTYPE_UNDEFINED)
    ortrain_attributes_set_ints (run->attributes, "copies", &copy, 1);
  kernel_run_add_input (run, new_scalars (test));
  g_autoptr (OrtrainTensor) norm = kernel_random (ORTRAIN_DTYPE_FLOAT64, NULL, 0, 1, 1);
  *(double *) ortrain_tensor_peek_writable (norm) = test->norm;
  kernel_run_add_input (run, test->norm != 0 ? g_object_ref (norm) : NULL);
  kernel_run_add_input (run, NULL);
  kernel_run_add_input (run, new_numbers (test->parameter, test->n, 1));
  kernel_run_add_input (run, new_numbers (test->gradient, test->n, 2));
  for (guint k = 0; k < n_states; k++)
    kernel_run_add_input (run, new_state (test->n, 3 + k));
  kernel_run_add_output (run, test->parameter, &test->n, 1);
  for (guint k = 0; k < n_states; k++)
    kernel_run_add_output (run, ORTRAIN_DTYPE_UINT8, rows, 2);
  kernel_run_add_output (run, ORTRAIN_DTYPE_INT64, NULL, 0);
  if (test->copy != ORTRAIN_DTYPE_UNDEFINED)
    kernel_run_add_output (run, test->copy, &test->n, 1);
  run->provider = test->provider;
  run->try_inplace = !test->apart;
  kernel_run (run);
}

/* ---- the same in double ---- */

typedef struct
{
  double *w, *g, *s[2]; /* [n] */
  double *w_next, *s_next[2];
} Model;

static double
decode (guint state, const guint8 *rows, gint64 i)
{
  const guint8 *row = rows + i / ORTRAIN_STATE_BLOCK * ORTRAIN_STATE_ROW;
  const guint8 code = row[4 + i % ORTRAIN_STATE_BLOCK];
  const float share = state == 0 ? ortrain_block_decode_signed (code) : ortrain_block_decode_unsigned (code);
  return (double) ortrain_block_get_scale (row) * (double) share;
}

static double *
dup_numbers (OrtrainTensor *tensor)
{
  const gint64 n = ortrain_tensor_get_n_elements (tensor);
  double *x = g_new (double, n + 1);
  for (gint64 i = 0; i < n; i++)
    x[i] = ortrain_tensor_get_scalar (tensor, i);
  return x;
}

static double
move_element (const Case *test, Model *m, gint64 i, double scale)
{
  const double *f = test->rule->factors;
  const gboolean sgd = g_str_equal (test->rule->op_type, "SgdUpdate");
  const gboolean lamb = g_str_equal (test->rule->op_type, "LambUpdate");
  const double w = m->w[i];
  if (sgd)
    {
      const double e = scale * m->g[i] + DECAY * w, v = f[0] * m->s[0][i] + e;
      m->s_next[0][i] = v;
      m->w_next[i] = w - RATE * (f[1] != 0 ? e + f[0] * v : v);
      return 0;
    }
  const int mode = lamb ? -1 : (int) f[0];
  const double beta1 = lamb ? f[0] : f[1], beta2 = lamb ? f[1] : f[2], epsilon = lamb ? f[2] : f[3];
  const gboolean corrects = (lamb ? f[3] : f[4]) != 0;
  const double c1 = corrects ? 1 - pow (beta1, STEP) : 1, c2 = corrects ? 1 - pow (beta2, STEP) : 1;
  const double e = scale * m->g[i] + (mode == ORTRAIN_UPDATE_ADAM_L2 ? DECAY * w : 0);
  const double first = m->s_next[0][i] = beta1 * m->s[0][i] + (1 - beta1) * e;
  const double second = m->s_next[1][i] = beta2 * m->s[1][i] + (1 - beta2) * e * e;
  if (mode == ORTRAIN_UPDATE_ADAMW_DECAY_LAST)
    m->w_next[i] = (w - RATE * sqrt (c2) / c1 * first / (sqrt (second) + epsilon)) * (1 - RATE * DECAY);
  else if (!lamb)
    m->w_next[i] = w * (mode == ORTRAIN_UPDATE_ADAMW_DECAY_FIRST ? 1 - RATE * DECAY : 1) -
                   RATE * first / c1 / (sqrt (second / c2) + epsilon);
  return DECAY * w + first / c1 / (sqrt (second / c2) + epsilon); /* of LAMB */
}

static void
run_model (const Case *test, const KernelRun *run, Model *m)
{
  const double scale = SCALE * (test->norm != 0 ? MIN (1, 1 / (test->norm + 1e-6)) : 1);
  const double *f = test->rule->factors;
  double w2 = 0, d2 = 0;
  m->w = dup_numbers (run->inputs[3]);
  m->g = dup_numbers (run->inputs[4]);
  m->w_next = g_new0 (double, test->n + 1);
  for (guint k = 0; k < 2; k++)
    {
      m->s[k] = g_new0 (double, test->n + 1);
      m->s_next[k] = g_new0 (double, test->n + 1);
      for (gint64 i = 0; k < test->rule->n_states && i < test->n; i++)
        m->s[k][i] = decode (k, ortrain_tensor_peek (run->inputs[5 + k]), i);
    }
  g_autofree double *directions = g_new0 (double, test->n + 1);
  for (gint64 i = 0; i < test->n; i++)
    {
      directions[i] = move_element (test, m, i, scale);
      w2 += m->w[i] * m->w[i];
      d2 += directions[i] * directions[i];
    }
  if (!g_str_equal (test->rule->op_type, "LambUpdate"))
    return;
  const double ratio = CLAMP (sqrt (w2 / d2), f[4], f[5]);
  for (gint64 i = 0; i < test->n; i++)
    m->w_next[i] = m->w[i] - RATE * ratio * directions[i];
}

static void
model_clear (Model *m)
{
  g_free (m->w);
  g_free (m->g);
  g_free (m->w_next);
  for (guint k = 0; k < 2; k++)
    {
      g_free (m->s[k]);
      g_free (m->s_next[k]);
    }
}

/* Numbers in float differ slightly from those of the model: a code may be the next one where a number is at the end of
 * a part. */
static void
compare_state (const double *right, guint state, OrtrainTensor *result, gint64 n)
{
  const guint8 *row = ortrain_tensor_peek (result);
  gint64 n_other = 0;
  for (gint64 begin = 0; begin < n; begin += ORTRAIN_STATE_BLOCK, row += ORTRAIN_STATE_ROW)
    {
      double most = 0;
      for (gint64 i = begin; i < MIN (begin + ORTRAIN_STATE_BLOCK, n); i++)
        most = MAX (most, fabs (right[i]));
      const float scale = ortrain_block_get_scale (row), factor = ortrain_block_factor ((float) most);
      g_assert_cmpfloat_with_epsilon (scale, most, most * 1e-6);
      for (gint64 i = 0; i < ORTRAIN_STATE_BLOCK; i++)
        {
          const float x = begin + i < n ? (float) right[begin + i] : 0;
          const guint8 code = row[4 + i], want = state == 0 ? ortrain_block_encode_signed (x, factor)
                                                            : ortrain_block_encode_unsigned (x, factor);
          const gint apart = state == 0 ? abs ((gint8) (code - want)) : abs (code - want);
          g_assert_cmpint (apart, <=, 1);
          n_other += apart;
          if (begin + i >= n)
            g_assert_cmpint (code, ==, 0);
        }
    }
  g_assert_cmpint (n_other, <=, 2 + n / 1000);
}

static void
check_case (const Case *test)
{
  KernelRun run, other;
  Model model;
  Case apart = *test;
  apart.apart = TRUE;
  run_case (&other, &apart);
  run_case (&run, test);
  run_model (test, &other, &model);
  const double unit = test->parameter == ORTRAIN_DTYPE_FLOAT32   ? 0x1p-23
                      : test->parameter == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11
                                                                 : 0x1p-8;
  for (gint64 i = 0; i < test->n; i++) /* steps are as large as second moments are small */
    g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (run.outputs[0], i), model.w_next[i],
                                    4e-6 * (1 + fabs (model.w_next[i] - model.w[i])) + unit * fabs (model.w_next[i]));
  for (guint k = 0; k < test->rule->n_states; k++)
    compare_state (model.s_next[k], k, run.outputs[1 + k], test->n);
  g_assert_cmpint (*(const gint64 *) ortrain_tensor_peek (run.outputs[1 + test->rule->n_states]), ==,
                   ORTRAIN_UPDATE_NONE_BROKEN);
  for (guint k = 0; k < run.n_outputs; k++) /* in place and not: the same bits */
    kernel_assert_same_bits (run.outputs[k], other.outputs[k], test->rule->op_type);
  if (test->copy != ORTRAIN_DTYPE_UNDEFINED)
    {
      g_autoptr (OrtrainTensor) copy = kernel_cast (run.outputs[0], test->copy);
      kernel_assert_same_bits (run.outputs[run.n_outputs - 1], copy, "copy");
    }
  model_clear (&model);
  kernel_run_clear (&run);
  kernel_run_clear (&other);
}

/* Operands that kernels refuse. */
static void
check_refused (OrtrainProvider *provider)
{
  static const struct
  {
    const char *op_type;
    OrtrainDType parameter, states[2];
    guint n_states;
  } cases[] = {
    { "AdagradUpdate", ORTRAIN_DTYPE_FLOAT32, { ORTRAIN_DTYPE_UINT8 }, 1 },
    { "SgdUpdate", ORTRAIN_DTYPE_FLOAT64, { ORTRAIN_DTYPE_UINT8 }, 1 },
    { "AdamUpdate", ORTRAIN_DTYPE_FLOAT32, { ORTRAIN_DTYPE_UINT8, ORTRAIN_DTYPE_FLOAT32 }, 2 },
    { "AdamUpdate", ORTRAIN_DTYPE_FLOAT32, { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_UINT8 }, 2 },
  };
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (GError) error = NULL;
      const Case test = { .rule = &block_rules[0] };
      const gint64 n = 4096;
      KernelRun run;
      kernel_run_init (&run, "org.ortrain", cases[c].op_type);
      ortrain_attributes_set_ints (run.attributes, "parameters", (const gint64[]){ 0 }, 1);
      ortrain_attributes_set_int (run.attributes, "states", cases[c].n_states);
      kernel_run_add_input (&run, new_scalars (&test));
      kernel_run_add_input (&run, NULL);
      kernel_run_add_input (&run, NULL);
      kernel_run_add_input (&run, new_numbers (cases[c].parameter, n, 1));
      kernel_run_add_input (&run, new_numbers (cases[c].parameter, n, 2));
      kernel_run_add_output (&run, cases[c].parameter, &n, 1);
      for (guint k = 0; k < cases[c].n_states; k++)
        {
          OrtrainTensor *state =
              cases[c].states[k] == ORTRAIN_DTYPE_UINT8 ? new_state (n, 3) : new_numbers (ORTRAIN_DTYPE_FLOAT32, n, 3);
          kernel_run_add_input (&run, state);
          kernel_run_add_output (&run, cases[c].states[k], ortrain_tensor_peek_dims (state),
                                 ortrain_tensor_get_rank (state));
        }
      kernel_run_add_output (&run, ORTRAIN_DTYPE_INT64, NULL, 0);
      run.provider = provider;
      g_assert_false (kernel_run_try (&run, &error));
      g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL);
      g_assert_nonnull (strstr (error->message, cases[c].op_type));
      kernel_run_clear (&run);
    }
}
