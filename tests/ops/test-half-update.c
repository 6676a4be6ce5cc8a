/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-run.h"

#include "common/ortrain-stochastic-rounding.h"
#include "graph/ortrain-graph-private.h"
#include "kernel-abi/ortrain-update-scalars-private.h"
#include "ops/ortrain-op-private.h"

/* Updates with a loss scale, with gradients and parameters of 16 bits, with working copies and with stochastic
 * rounding: against the same update in float32, bit by bit. */

static const OrtrainDType halves[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
static const gint64 sizes[] = { 1, 7, 31, 33, 1000, 40000 };

static const struct
{
  const char *op_type;
  guint n_states;
  double factors[ORTRAIN_UPDATE_N_FACTORS];
} rules[] = { { "SgdUpdate", 0, { 0 } },
              { "SgdUpdate", 1, { 0.9, 1 } },
              { "AdamUpdate", 2, { ORTRAIN_UPDATE_ADAMW_DECAY_FIRST, 0.9, 0.99, 1e-4, 1 } },
              { "LambUpdate", 2, { 0.8, 0.9, 1e-4, 1, 0, 10 } },
              { "AdagradUpdate", 1, { 1e-4, 0.1 } } };

typedef struct
{
  guint rule;
  OrtrainDType parameter, gradient, copy; /* copy: UNDEFINED: none */
  gboolean stochastic;
  double norm;       /* 0: none */
  double loss_scale; /* 0: none; gradients are multiplied by it */
  double max_norm;
  gint64 n;
  double step;
  guint32 index; /* of the parameter among all */
  guint64 seed;
  OrtrainProvider *provider;
  double broken; /* not 0: an element of the parameter */
} Case;

#define N_PARAMETERS 3

static OrtrainTensor *
new_scalars (const Case *test)
{
  double x[ORTRAIN_UPDATE_N_SCALARS (N_PARAMETERS)] = { [ORTRAIN_UPDATE_GRADIENT_SCALE] = 0.5 };
  x[ORTRAIN_UPDATE_STEP] = test->step;
  x[ORTRAIN_UPDATE_MAX_NORM] = test->max_norm;
  memcpy (x + ORTRAIN_UPDATE_FACTORS, rules[test->rule].factors, sizeof rules[test->rule].factors);
  for (guint i = 0; i < N_PARAMETERS; i++)
    {
      x[ORTRAIN_UPDATE_LEARNING_RATE (i)] = 0.1;
      x[ORTRAIN_UPDATE_WEIGHT_DECAY (i)] = 0.01;
    }
  g_autoptr (GError) error = NULL;
  OrtrainTensor *scalars = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, (const gint64[]){ G_N_ELEMENTS (x) }, 1, &error);
  g_assert_no_error (error);
  memcpy (ortrain_tensor_peek_writable (scalars), x, sizeof x);
  return scalars;
}

static OrtrainTensor *
new_scalar (OrtrainDType dtype, double x)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, NULL, 0, &error);
  g_assert_no_error (error);
  *(double *) ortrain_tensor_peek_writable (wide) = x;
  return kernel_cast (wide, dtype);
}

/* Rounded to the narrowest of the types that a case has, so that all types hold the same. salt: which operand. */
static OrtrainTensor *
new_operand (OrtrainDType dtype, OrtrainDType grid, gint64 n, double scale, guint32 salt)
{
  g_autoptr (OrtrainTensor) wide = kernel_random (ORTRAIN_DTYPE_FLOAT32, &n, 1, 1, salt);
  float *x = ortrain_tensor_peek_writable (wide);
  for (gint64 i = 0; i < n; i++)
    x[i] = (float) scale * (salt == 2 ? fabsf (x[i]) + 0.1f : x[i]);
  g_autoptr (OrtrainTensor) narrow = kernel_cast (wide, grid);
  return kernel_cast (narrow, dtype);
}

static void
begin (KernelRun *run, const Case *test)
{
  const OrtrainDType grid = ORTRAIN_DTYPE_BFLOAT16;
  const OrtrainDType state = test->parameter == ORTRAIN_DTYPE_FLOAT64 ? test->parameter : ORTRAIN_DTYPE_FLOAT32;
  const guint n_states = rules[test->rule].n_states;
  const gint64 index = test->index, copy = test->copy;
  kernel_run_init (run, "org.ortrain", rules[test->rule].op_type);
  ortrain_attributes_set_ints (run->attributes, "parameters", &index, 1);
  ortrain_attributes_set_int (run->attributes, "states", n_states);
  if (test->copy != ORTRAIN_DTYPE_UNDEFINED)
    ortrain_attributes_set_ints (run->attributes, "copies", &copy, 1);
  if (test->stochastic)
    ortrain_attributes_set_int (run->attributes, "stochastic_rounding", 1);
  kernel_run_add_input (run, new_scalars (test));
  kernel_run_add_input (run, test->norm != 0 ? new_scalar (ORTRAIN_DTYPE_FLOAT64, test->norm) : NULL);
  kernel_run_add_input (run, test->loss_scale != 0 ? new_scalar (ORTRAIN_DTYPE_FLOAT32, test->loss_scale) : NULL);
  OrtrainTensor *parameter = new_operand (ORTRAIN_DTYPE_FLOAT32, grid, test->n, 1, 0);
  if (test->broken != 0)
    ((float *) ortrain_tensor_peek_writable (parameter))[test->n - 1] = (float) test->broken;
  kernel_run_add_input (run, kernel_cast (parameter, test->parameter));
  g_object_unref (parameter);
  kernel_run_add_input (run,
                        new_operand (test->gradient, grid, test->n, test->loss_scale != 0 ? test->loss_scale : 1, 1));
  for (guint k = 0; k < n_states; k++)
    kernel_run_add_input (run, new_operand (state, grid, test->n, 1, 3 - rules[test->rule].n_states + k));
  kernel_run_add_output (run, test->parameter, &test->n, 1);
  for (guint k = 0; k < n_states; k++)
    kernel_run_add_output (run, state, &test->n, 1);
  kernel_run_add_output (run, ORTRAIN_DTYPE_INT64, NULL, 0);
  if (test->copy != ORTRAIN_DTYPE_UNDEFINED)
    kernel_run_add_output (run, test->copy, &test->n, 1);
  run->provider = test->provider;
  run->step.seed = test->seed;
}

static void
run_case (KernelRun *run, const Case *test)
{
  begin (run, test);
  kernel_run (run);
}

static gint64
get_broken (const KernelRun *run)
{
  return *(const gint64 *) ortrain_tensor_peek (run->outputs[1 + (run->n_inputs - 5)]);
}

static OrtrainTensor *
get_copy (const KernelRun *run)
{
  return run->outputs[run->n_outputs - 1];
}

/* Everything but parameter 0, which `of` says. */
static void
assert_same_update (const KernelRun *a, const KernelRun *b, const char *what)
{
  for (guint k = 0; k < MIN (a->n_outputs, b->n_outputs); k++)
    kernel_assert_same_bits (a->outputs[k], b->outputs[k], what);
}

static void
assert_finite (OrtrainTensor *x)
{
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (x); i++)
    g_assert_true (isfinite (ortrain_tensor_get_scalar (x, i)));
}

/* A power of two changes no bit. */
static void
test_loss_scale (void)
{
  for (guint r = 0; r < G_N_ELEMENTS (rules); r++)
    for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
      for (guint clips = 0; clips < 2; clips++)
        {
          Case test = { .rule = r, .parameter = ORTRAIN_DTYPE_FLOAT32, .gradient = ORTRAIN_DTYPE_FLOAT32, .step = 3 };
          test.n = sizes[s];
          test.norm = 4;
          test.max_norm = clips ? 1 : 0;
          KernelRun plain, scaled;
          run_case (&plain, &test);
          test.loss_scale = 1024;
          run_case (&scaled, &test);
          assert_same_update (&scaled, &plain, rules[r].op_type);
          assert_finite (plain.outputs[0]);
          g_assert_cmpint (memcmp (ortrain_tensor_peek (plain.outputs[0]), ortrain_tensor_peek (plain.inputs[3]), 4),
                           !=, 0);
          kernel_run_clear (&plain);
          kernel_run_clear (&scaled);
        }
}

static double
run_norm (OrtrainDType dtype, double loss_scale, double max_norm, double spoil)
{
  const gint64 n = 40001;
  const Case test = { .max_norm = max_norm, .step = 1 };
  KernelRun run;
  kernel_run_init (&run, "org.ortrain", "GradientNorm");
  kernel_run_add_input (&run, new_scalars (&test));
  kernel_run_add_input (&run, loss_scale != 0 ? new_scalar (ORTRAIN_DTYPE_FLOAT32, loss_scale) : NULL);
  for (guint t = 0; t < 3; t++)
    kernel_run_add_input (&run, new_operand (t == 1 ? ORTRAIN_DTYPE_FLOAT32 : dtype, ORTRAIN_DTYPE_BFLOAT16,
                                             t == 2 ? 7 : n, loss_scale != 0 ? loss_scale : 1, 10 + t));
  if (spoil != 0)
    {
      OrtrainTensor *spoiled = new_scalar (dtype, spoil);
      kernel_run_add_input (&run, spoiled);
    }
  kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT64, NULL, 0);
  kernel_run (&run);
  const double norm = ortrain_tensor_get_scalar (run.outputs[0], 0);
  kernel_run_clear (&run);
  return norm;
}

/* Σ of 80009 squares in double, in other orders: 2^-53 · 80009 at most, relative. */
static void
test_norm (void)
{
  const double exact = run_norm (ORTRAIN_DTYPE_FLOAT32, 0, 1, 0);
  g_assert_cmpfloat (exact, >, 50);
  for (guint h = 0; h < G_N_ELEMENTS (halves); h++)
    {
      g_assert_cmpfloat_with_epsilon (run_norm (halves[h], 0, 1, 0), exact, exact * 80009 * 0x1p-53);
      g_assert_cmpfloat_with_epsilon (run_norm (halves[h], 64, 1, 0), exact, exact * 80009 * 0x1p-53);
      g_assert_cmpfloat_with_epsilon (run_norm (halves[h], 64, 0, 0), exact, exact * 80009 * 0x1p-53);
      g_assert_cmpfloat (run_norm (halves[h], 0, 0, 0), ==, 0);
      g_assert_true (isinf (run_norm (halves[h], 64, 0, INFINITY)));
      g_assert_true (isnan (run_norm (halves[h], 64, 0, NAN)));
    }
}

/* With a loss scale, a norm that is not finite is an overflow, whether gradients are clipped or not: everything stays,
 * and the copy is that of the unchanged parameter. */
static void
test_overflow (void)
{
  const double norms[] = { INFINITY, NAN };
  for (guint r = 0; r < G_N_ELEMENTS (rules); r++)
    for (guint i = 0; i < 4; i++)
      {
        Case test = { .rule = r, .parameter = ORTRAIN_DTYPE_FLOAT32, .gradient = ORTRAIN_DTYPE_FLOAT16, .n = 20000 };
        test.norm = norms[i % 2];
        test.max_norm = i / 2;
        test.loss_scale = 256;
        test.copy = halves[i % 2];
        test.broken = INFINITY;
        test.step = 1;
        KernelRun run;
        run_case (&run, &test);
        kernel_assert_same_bits (run.outputs[0], run.inputs[3], rules[r].op_type);
        for (guint k = 0; k < rules[r].n_states; k++)
          kernel_assert_same_bits (run.outputs[1 + k], run.inputs[5 + k], rules[r].op_type);
        g_assert_cmpint (get_broken (&run), ==, ORTRAIN_UPDATE_NONE_BROKEN);
        g_autoptr (OrtrainTensor) copy = kernel_cast (run.inputs[3], test.copy);
        kernel_assert_same_bits (get_copy (&run), copy, rules[r].op_type);
        kernel_run_clear (&run);
      }
}

/* A gradient in any type is the same gradient; parameters in float32 and float64. */
static void
test_gradient_types (void)
{
  const OrtrainDType parameters[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64 };
  const OrtrainDType gradients[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  for (guint r = 0; r < G_N_ELEMENTS (rules); r++)
    for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
      for (guint p = 0; p < G_N_ELEMENTS (parameters); p++)
        for (guint g = 0; g < G_N_ELEMENTS (gradients); g++)
          {
            Case test = { .rule = r, .parameter = parameters[p], .gradient = parameters[p], .n = sizes[s], .step = 2 };
            KernelRun plain, other;
            run_case (&plain, &test);
            test.gradient = gradients[g];
            run_case (&other, &test);
            assert_same_update (&other, &plain, rules[r].op_type);
            kernel_run_clear (&plain);
            kernel_run_clear (&other);
          }
}

static void
test_copies (void)
{
  for (guint r = 0; r < G_N_ELEMENTS (rules); r++)
    for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
      for (guint h = 0; h < 4; h++)
        {
          Case test = { .rule = r, .parameter = ORTRAIN_DTYPE_FLOAT32, .n = sizes[s], .step = 2 };
          test.gradient = h / 2 ? ORTRAIN_DTYPE_FLOAT32 : halves[h % 2];
          KernelRun plain, copied;
          run_case (&plain, &test);
          test.copy = halves[h % 2];
          run_case (&copied, &test);
          assert_same_update (&copied, &plain, rules[r].op_type);
          g_autoptr (OrtrainTensor) copy = kernel_cast (plain.outputs[0], test.copy);
          kernel_assert_same_bits (get_copy (&copied), copy, rules[r].op_type);
          kernel_run_clear (&plain);
          kernel_run_clear (&copied);
        }
}

/* Three tensors in one node, of which the first and the last have copies. */
static void
test_some_copies (void)
{
  const gint64 parameters[] = { 2, 0, 1 }, copies[] = { ORTRAIN_DTYPE_FLOAT16, 0, ORTRAIN_DTYPE_BFLOAT16 };
  const Case test = { .rule = 0, .step = 1 };
  KernelRun run;
  kernel_run_init (&run, "org.ortrain", "SgdUpdate");
  ortrain_attributes_set_ints (run.attributes, "parameters", parameters, 3);
  ortrain_attributes_set_ints (run.attributes, "copies", copies, 3);
  kernel_run_add_input (&run, new_scalars (&test));
  kernel_run_add_input (&run, NULL);
  kernel_run_add_input (&run, NULL);
  for (guint t = 0; t < 3; t++)
    {
      const gint64 n = 30000 + 7 * t;
      kernel_run_add_input (&run, kernel_random (ORTRAIN_DTYPE_FLOAT32, &n, 1, 1, t));
      kernel_run_add_input (&run, kernel_random (t == 2 ? ORTRAIN_DTYPE_FLOAT16 : ORTRAIN_DTYPE_FLOAT32, &n, 1, 1, 9));
      kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT32, &n, 1);
    }
  kernel_run_add_output (&run, ORTRAIN_DTYPE_INT64, NULL, 0);
  kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT16, (const gint64[]){ 30000 }, 1);
  kernel_run_add_output (&run, ORTRAIN_DTYPE_BFLOAT16, (const gint64[]){ 30014 }, 1);
  for (guint t = 0; t < 3; t++)
    run.inplace[t] = 1 + 3 + 2 * (gint) t;
  kernel_run (&run);
  g_autoptr (OrtrainTensor) first = kernel_cast (run.outputs[0], ORTRAIN_DTYPE_FLOAT16);
  g_autoptr (OrtrainTensor) last = kernel_cast (run.outputs[2], ORTRAIN_DTYPE_BFLOAT16);
  kernel_assert_same_bits (run.outputs[4], first, "first");
  kernel_assert_same_bits (run.outputs[5], last, "last");
  kernel_run_clear (&run);
}

/* Without a master: as in float32, and rounded once. */
static void
test_half_parameters (void)
{
  for (guint r = 0; r < G_N_ELEMENTS (rules); r++)
    for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
      for (guint h = 0; h < G_N_ELEMENTS (halves); h++)
        for (guint stochastic = 0; stochastic <= (halves[h] == ORTRAIN_DTYPE_FLOAT16); stochastic++)
          {
            Case test = { .rule = r, .parameter = ORTRAIN_DTYPE_FLOAT32, .gradient = halves[h], .n = sizes[s] };
            test.step = 2;
            KernelRun wide, narrow;
            run_case (&wide, &test);
            test.parameter = halves[h];
            test.stochastic = stochastic != 0;
            run_case (&narrow, &test);
            g_autoptr (OrtrainTensor) rounded = kernel_cast (wide.outputs[0], halves[h]);
            kernel_assert_same_bits (narrow.outputs[0], rounded, rules[r].op_type);
            for (guint k = 0; k < rules[r].n_states; k++)
              kernel_assert_same_bits (narrow.outputs[1 + k], wide.outputs[1 + k], rules[r].op_type);
            kernel_run_clear (&wide);
            kernel_run_clear (&narrow);
          }
}

/* The definition, one element at a time. */
static OrtrainTensor *
round_at_random (OrtrainTensor *wide, const Case *test)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *rounded = ortrain_tensor_new (ORTRAIN_DTYPE_BFLOAT16, &test->n, 1, &error);
  g_assert_no_error (error);
  const OrtrainPhiloxKey key = { test->seed, (guint32) test->step, G_MAXUINT32 - test->index };
  const float *w = ortrain_tensor_peek (wide);
  guint16 *bits = ortrain_tensor_peek_writable (rounded);
  for (gint64 i = 0; i < test->n; i++)
    {
      guint32 words[4], u;
      memcpy (&u, &w[i], sizeof u);
      ortrain_philox (&key, (guint64) i / 4, words);
      bits[i] = isfinite (w[i]) ? (guint16) ((u + (words[i % 4] & 0xffff)) >> 16) : ortrain_float_to_bfloat16 (w[i]);
    }
  return rounded;
}

static void
test_stochastic (void)
{
  g_autoptr (OrtrainProvider) two = new_cpu (2), three = new_cpu (3);
  OrtrainProvider *providers[] = { NULL, two, three };
  for (guint r = 0; r < G_N_ELEMENTS (rules); r++)
    for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
      for (guint p = 0; p < G_N_ELEMENTS (providers); p++)
        {
          Case test = { .rule = r, .parameter = ORTRAIN_DTYPE_FLOAT32, .gradient = ORTRAIN_DTYPE_BFLOAT16 };
          test.n = sizes[s];
          test.step = 7;
          test.seed = G_GUINT64_CONSTANT (0x123456789abcdef);
          test.index = 2;
          test.broken = s % 2 ? INFINITY : 0;
          KernelRun wide, narrow;
          run_case (&wide, &test);
          g_autoptr (OrtrainTensor) rounded = round_at_random (wide.outputs[0], &test);
          test.parameter = ORTRAIN_DTYPE_BFLOAT16;
          test.stochastic = TRUE;
          test.provider = providers[p];
          run_case (&narrow, &test);
          kernel_assert_same_bits (narrow.outputs[0], rounded, rules[r].op_type);
          g_assert_cmpint (get_broken (&narrow), ==, get_broken (&wide));
          kernel_run_clear (&wide);
          kernel_run_clear (&narrow);
        }
}

static gint64
count_differences (OrtrainTensor *a, OrtrainTensor *b)
{
  gint64 n = 0;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (a); i++)
    n += ortrain_tensor_get_scalar (a, i) != ortrain_tensor_get_scalar (b, i);
  return n;
}

/* Other seeds, updates and parameters: other bits. */
static void
test_stochastic_keys (void)
{
  const Case base = { .rule = 0,
                      .parameter = ORTRAIN_DTYPE_BFLOAT16,
                      .gradient = ORTRAIN_DTYPE_BFLOAT16,
                      .n = 4096,
                      .stochastic = TRUE,
                      .step = 7,
                      .seed = 5 };
  KernelRun first;
  run_case (&first, &base);
  for (guint i = 0; i < 5; i++)
    {
      Case test = base;
      test.seed = i == 1 ? 6 : i == 2 ? G_GUINT64_CONSTANT (5) + (G_GUINT64_CONSTANT (1) << 32) : 5;
      test.step = i == 3 ? 8 : 7;
      test.index = i == 4;
      KernelRun run;
      run_case (&run, &test);
      const gint64 different = count_differences (run.outputs[0], first.outputs[0]);
      if (i == 0)
        g_assert_cmpint (different, ==, 0);
      else
        g_assert_cmpint (different, >, 500);
      kernel_run_clear (&run);
    }
  kernel_run_clear (&first);
}

/* The mean of the results with 2^16 random numbers is the number itself; infinities and NaN stay. */
static void
test_stochastic_rounding (void)
{
  const float numbers[] = { 1.0f, 1.00390625f, -1.001f, 3.14159265f, -0.0f, 1e-39f, 3.3e38f, 1e-3f };
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      double sum = 0;
      for (guint32 random = 0; random < 0x10000; random++)
        sum += ortrain_bfloat16_to_float (ortrain_float_to_bfloat16_stochastic (numbers[i], random | 0xabcd0000u));
      g_assert_cmpfloat (sum / 0x10000, ==, numbers[i]);
    }
  for (guint32 random = 0; random < 0x10000; random += 0xff)
    {
      g_assert_cmphex (ortrain_float_to_bfloat16_stochastic (INFINITY, random), ==, 0x7f80);
      g_assert_cmphex (ortrain_float_to_bfloat16_stochastic (-INFINITY, random), ==, 0xff80);
      g_assert_cmphex (ortrain_float_to_bfloat16_stochastic (ortrain_f32_from_bits (0x7f800001), random), ==, 0x7fc0);
      g_assert_cmphex (ortrain_float_to_bfloat16_stochastic (ortrain_f32_from_bits (0x7fffffff), random), ==, 0x7fff);
    }
}

static void
test_loss_scale_update (void)
{
  static const struct
  {
    double scale, norm;
    gint64 good, overflows;
    double next;
    gint64 next_good, next_overflows;
  } steps[] = {
    { 1024, 1, 0, 0, 1024, 1, 0 },    { 1024, 1, 1, 4, 1024, 2, 4 },       { 1024, 1, 2, 4, 3072, 0, 4 },
    { 3000, 1, 2, 4, 4000, 0, 4 },    { 1024, INFINITY, 2, 4, 256, 0, 5 }, { 1024, NAN, 0, 0, 256, 0, 1 },
    { 20, -INFINITY, 1, 7, 8, 0, 8 }, { 1024, 0, 2, 0, 3072, 0, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    for (gint inplace = 0; inplace < 2; inplace++)
      {
        KernelRun run;
        kernel_run_init (&run, "org.ortrain", "LossScaleUpdate");
        ortrain_attributes_set_float (run.attributes, "growth_factor", 3);
        ortrain_attributes_set_float (run.attributes, "backoff_factor", 0.25);
        ortrain_attributes_set_int (run.attributes, "growth_interval", 3);
        ortrain_attributes_set_float (run.attributes, "minimum", 8);
        ortrain_attributes_set_float (run.attributes, "maximum", 4000);
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_FLOAT32, steps[i].scale));
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_INT64, (double) steps[i].good));
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_INT64, (double) steps[i].overflows));
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_FLOAT64, steps[i].norm));
        kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT32, NULL, 0);
        kernel_run_add_output (&run, ORTRAIN_DTYPE_INT64, NULL, 0);
        kernel_run_add_output (&run, ORTRAIN_DTYPE_INT64, NULL, 0);
        for (gint k = 0; k < 3; k++)
          run.inplace[k] = inplace * (1 + k);
        kernel_run (&run);
        g_assert_cmpfloat (ortrain_tensor_get_scalar (run.outputs[0], 0), ==, steps[i].next);
        g_assert_cmpfloat (ortrain_tensor_get_scalar (run.outputs[1], 0), ==, (double) steps[i].next_good);
        g_assert_cmpfloat (ortrain_tensor_get_scalar (run.outputs[2], 0), ==, (double) steps[i].next_overflows);
        kernel_run_clear (&run);
      }
}

/* With hysteresis: the first overflows since the scale has grown leave it. */
static void
test_loss_scale_hysteresis (void)
{
  static const struct
  {
    double norm;
    gint64 good, tolerated;
    double next;
    gint64 next_good, next_tolerated;
  } steps[] = {
    { INFINITY, 1, 0, 512, 0, 1 }, { INFINITY, 1, 1, 512, 0, 2 }, { INFINITY, 1, 2, 256, 0, 2 },
    { 1, 1, 2, 512, 2, 2 },        { 1, 4, 2, 1024, 0, 0 },       { 1, 4, 0, 1024, 0, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    for (gint inplace = 0; inplace < 2; inplace++)
      {
        static const gint held[] = { 0, 1, 2, 4 };
        KernelRun run;
        kernel_run_init (&run, "org.ortrain", "LossScaleUpdate");
        ortrain_attributes_set_int (run.attributes, "growth_interval", 5);
        ortrain_attributes_set_int (run.attributes, "hysteresis", 3);
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_FLOAT32, 512));
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_INT64, (double) steps[i].good));
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_INT64, 7));
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_FLOAT64, steps[i].norm));
        kernel_run_add_input (&run, new_scalar (ORTRAIN_DTYPE_INT64, (double) steps[i].tolerated));
        for (gint k = 0; k < 4; k++)
          {
            kernel_run_add_output (&run, k == 0 ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_INT64, NULL, 0);
            run.inplace[k] = inplace * (1 + held[k]);
          }
        kernel_run (&run);
        const double want[] = { steps[i].next, (double) steps[i].next_good, isfinite (steps[i].norm) ? 7 : 8,
                                (double) steps[i].next_tolerated };
        for (guint k = 0; k < G_N_ELEMENTS (want); k++)
          g_assert_cmpfloat (ortrain_tensor_get_scalar (run.outputs[k], 0), ==, want[k]);
        kernel_run_clear (&run);
      }
}

/* Operands that the row refuses. */
static void
test_refused (void)
{
  static const struct
  {
    OrtrainDType parameter, gradient;
    guint n_copies;
    gint64 copy;
    const char *message;
  } cases[] = {
    { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, 0, 0, "*the gradient, is float64, but the parameter is float32*" },
    { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT64, 0, 0,
      "*the gradient, is float64, but the parameter is bfloat16*" },
    { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32, 1, 10, "*is bfloat16, and only parameters of float32*" },
    { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32, 1, 1, "*the type 1, a type of 16 bits is needed*" },
    { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32, 2, 10, "*2 copies for 1 parameters*" },
    { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT16, 1, 10, NULL },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
      g_autoptr (GError) error = NULL;
      const gint64 parameter = 0, copies[] = { cases[i].copy, cases[i].copy };
      const OrtrainDim dims[] = { ortrain_dim_int (20) };
      OrtrainValue *inputs[5] = { ortrain_graph_new_input (graph, "scalars", ORTRAIN_DTYPE_FLOAT64, dims, 1) };
      inputs[3] = ortrain_graph_new_input (graph, "w", cases[i].parameter, dims, 1);
      inputs[4] = ortrain_graph_new_input (graph, "g", cases[i].gradient, dims, 1);
      OrtrainNode *node =
          ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "SgdUpdate", NULL, inputs, 5, 2 + cases[i].n_copies);
      ortrain_attributes_set_ints (node->attributes, "parameters", &parameter, 1);
      if (cases[i].n_copies > 0)
        ortrain_attributes_set_ints (node->attributes, "copies", copies, cases[i].n_copies);
      const gboolean ok = ortrain_ops_infer_node (node, &error);
      g_assert_true (ok == (cases[i].message == NULL));
      if (ok)
        {
          g_assert_cmpint (ortrain_node_output (node, 2)->dtype, ==, ORTRAIN_DTYPE_FLOAT16);
          g_assert_cmpint (ortrain_node_output (node, 2)->rank, ==, 1);
          g_assert_cmpint (ortrain_node_output (node, 1)->dtype, ==, ORTRAIN_DTYPE_INT64);
        }
      else if (!g_pattern_match_simple (cases[i].message, error->message))
        g_error ("%s", error->message);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/half-update/loss-scale", test_loss_scale);
  g_test_add_func ("/half-update/norm", test_norm);
  g_test_add_func ("/half-update/overflow", test_overflow);
  g_test_add_func ("/half-update/gradient-types", test_gradient_types);
  g_test_add_func ("/half-update/copies", test_copies);
  g_test_add_func ("/half-update/some-copies", test_some_copies);
  g_test_add_func ("/half-update/half-parameters", test_half_parameters);
  g_test_add_func ("/half-update/stochastic", test_stochastic);
  g_test_add_func ("/half-update/stochastic-keys", test_stochastic_keys);
  g_test_add_func ("/half-update/stochastic-rounding", test_stochastic_rounding);
  g_test_add_func ("/half-update/loss-scale-update", test_loss_scale_update);
  g_test_add_func ("/half-update/loss-scale-update-hysteresis", test_loss_scale_hysteresis);
  g_test_add_func ("/half-update/refused", test_refused);
  return g_test_run ();
}
