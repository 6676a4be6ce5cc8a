/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/gradient-cases.h"

#include "cpu/ortrain-cpu-isa-private.h"
#include "ops/kernel-run.h"
#include "ops/ortrain-op-private.h"

/* Kernels with operands of 16 bits, compared with the same kernel in float32 on the same numbers: results are those of
 * float32, rounded once to the type of the result, to the last bit. All nodes of the gradients' cases are run, and
 * larger ones, in bfloat16, in float16, and with a type of its own for each operand. All rows of the families below
 * that take 16 bits must have been met. */

extern const OrtrainKernelTable ortrain_cpu_kernels_gather, ortrain_cpu_kernels_scatter, ortrain_cpu_kernels_resize,
    ortrain_cpu_kernels_columns, ortrain_cpu_kernels_pad, ortrain_cpu_kernels_reduction_baseline,
    ortrain_cpu_kernels_random_baseline, ortrain_cpu_kernels_along_axis_baseline, ortrain_cpu_kernels_pool_baseline,
    ortrain_cpu_kernels_recurrent_baseline, ortrain_cpu_kernels_cast_baseline, ortrain_cpu_kernels_elementwise_baseline,
    ortrain_cpu_kernels_elementwise_math_baseline, ortrain_cpu_kernels_activation_baseline,
    ortrain_cpu_kernels_logic_baseline;

static const OrtrainKernelTable *const families[] = { &ortrain_cpu_kernels_gather,
                                                      &ortrain_cpu_kernels_scatter,
                                                      &ortrain_cpu_kernels_resize,
                                                      &ortrain_cpu_kernels_columns,
                                                      &ortrain_cpu_kernels_pad,
                                                      &ortrain_cpu_kernels_reduction_baseline,
                                                      &ortrain_cpu_kernels_random_baseline,
                                                      &ortrain_cpu_kernels_along_axis_baseline,
                                                      &ortrain_cpu_kernels_pool_baseline,
                                                      &ortrain_cpu_kernels_recurrent_baseline,
                                                      &ortrain_cpu_kernels_cast_baseline,
                                                      &ortrain_cpu_kernels_elementwise_baseline,
                                                      &ortrain_cpu_kernels_elementwise_math_baseline,
                                                      &ortrain_cpu_kernels_activation_baseline,
                                                      &ortrain_cpu_kernels_logic_baseline };

static const OrtrainGradientCase more[] = {
  { "ReduceSum", "f[1000,33];i[1]{0}" },
  { "ReduceSum", "f[33,1000];i[1]{1}" },
  { "ReduceSum", "f[7,31,33];i[2]{0,2}" },
  { "ReduceSum", "f[40000];i[1]{0}" },
  { "ReduceSum", "f[50,1100];i[1]{0}" },
  { "ReduceSum", "f[5,600,3];i[2]{0,1}", "keepdims=0" },
  { "ReduceMean", "f[3,20000];i[1]{1}" },
  { "ReduceMean", "f[1000,7];i[1]{0}" },
  { "ReduceMax", "f[1000,33];i[1]{0}" },
  { "ReduceMin", "f[33,1000];i[1]{1}" },
  { "ReduceL1", "f[100,31];i[1]{0}" },
  { "ReduceL2", "f[100,31];i[1]{0}" },
  { "ReduceLogSumExp", "f[100,31];i[1]{0}" },
  { "ReduceLogSumExp", "f[31,1000];i[1]{1}" },
  { "ReduceSumSquare", "f[1000,33];i[1]{0}" },
  { "Add", "f[1000,33];f[33]" },
  { "Add", "f[7,31,33];f[31,1]" },
  { "Mul", "f[100,1];f[1,1000]" },
  { "Gather", "f[33,31];i[26]{0,1,2,3,4,5,6,7,8,9,0,1,2,3,0,0,0,0,0,0,-1,-1,-2,32,31,30}" },
  { "Gather", "f[3,1000];i[7]{0,1,2,2,2,0,2}" },
  { "GatherElements", "f[33,7];i[5,7]{0,0,0,0,0,0,0,1,1,1,1,1,1,1,0,0,0,0,0,0,0,32,1,2,3,4,5,6,0,0,0,0,0,0,0}" },
  { "GatherND", "f[4,300];i[5,1]{0,3,3,-1,0}" },
  { "ScatterElements", "f[33];i[7]{1,3,3,0,3,32,1};f[7]", "reduction='add'" },
  { "ScatterElements", "f[33];i[4]{1,3,3,0};f[4]", "reduction='mul'" },
  { "ScatterND", "f[4,300];i[5,1]{0,3,3,1,0};f[5,300]", "reduction='add'" },
  { "ScatterElements", "f[33];i[4]{1,3,3,0};f[4]", "reduction='max'" },
  { "ScatterElements", "f[33];i[4]{1,3,3,0};f[4]", "reduction='min'" },
  { "Dropout", "f[1000];d{0.3};b{1}" },
  { "Dropout", "f[40000];d{0.3};b{1}" },
  { "Dropout", "f[33];d{0.3};b{0}" },
  { "CumSum", "f[31,33];i{0}" },
  { "CumSum", "f[7,1000];i{1}" },
  { "CumProd", "f[7,31];i{1}" },
  { "MaxPool", "f[2,3,33,31]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" },
  { "MaxPool", "f[2,3,33,31]", "kernel_shape=[3,3] strides=[1,1]", 2 },
  { "AveragePool", "f[2,3,33,31]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" },
  { "GlobalAveragePool", "f[2,3,33,31]" },
  { "GlobalMaxPool", "f[2,3,33,31]" },
  { "LpPool", "f[2,3,33,31]", "kernel_shape=[3,3] p=2" },
  { "Resize", "f[1,2,17,15];_;_;i[4]{1,2,33,31}", "mode='linear'" },
  { "Resize", "f[1,2,33,31];_;_;i[4]{1,2,17,15}", "mode='cubic' antialias=1" },
  { "Resize", "f[31,33];_;_;i[2]{7,1100}", "mode='linear'" },
  { "Resize", "f[1,1,4,5];d[8]{0,0,0.2,0.1,1,1,0.7,1.2};_;i[4]{1,1,3,3}",
    "mode='linear' coordinate_transformation_mode='tf_crop_and_resize' extrapolation_value=9.3f" },
  { "Pad", "f[2,9,31];i[6]{0,2,3,0,1,4}", "mode='reflect'" },
  { "Pad", "f[33,31];i[4]{2,3,1,4}", "mode='edge'" },
  { "Tile", "f[7,33];i[2]{5,3}" },
  { "Tile", "f[3,1100];i[2]{2,2}" },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];j[2]{2,3};f[1,2,2];f[1,2,2];f[1,6]", NULL, 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];_;f[1,2,2];f[1,2,2];f[1,6]",
    "input_forget=1 direction='reverse' clip=0.8f", 3 },
  { "GRU", "f[3,2,3];f[2,6,3];f[2,6,2];f[2,12];j[2]{3,1};f[2,2,2]", "direction='bidirectional' linear_before_reset=1",
    2 },
  { "LSTM", "f[5,33,31];f[2,124,31];f[2,124,31];f[2,248]", "direction='bidirectional'", 3 },
  { "GRU", "f[5,7,33];f[1,93,33];f[1,93,31];f[1,186]", NULL, 2 },
  { "RNN", "f[5,7,33];f[2,31,33];f[2,31,31];f[2,62]", "direction='bidirectional'", 2 },
  { "Relu", "f[1000]" },
  { "Gelu", "f[31,33]" },
};

/* Operators without a gradient: types in which nothing is differentiated, draws, comparisons. */
static const OrtrainGradientCase forward[] = {
  { "NormApply", "f[3,2,31];f[2,1];f[2,1];f[2,1]", NULL, 1, "org.ortrain" },
  { "GroupNormStatistics", "f[3,6,31];f[6]", "num_groups=2", 3, "org.ortrain" },
  { "ArgMax", "f[7,31]", "axis=1" },
  { "ArgMin", "f[7,31]", "axis=0" },
  { "RandomNormalLike", "f[1000]" },
  { "RandomUniformLike", "f[33]" },
  { "Bernoulli", "p[33]" },
  { "Multinomial", "f[3,7]", "sample_size=5" },
  { "Equal", "f[33];f[33]" },
  { "Less", "f[33];f[33]" },
  { "LessOrEqual", "f[33];f[33]" },
  { "Greater", "f[33];f" },
  { "GreaterOrEqual", "f;f[33]" },
  { "IsNaN", "f[33]" },
  { "IsInf", "f[33]" },
  { "Sign", "f[33]" },
  { "Floor", "f[33]" },
  { "Ceil", "f[33]" },
  { "Round", "f[33]" },
  { "Mod", "f[33];f[33]", "fmod=1" },
  { "Cast", "f[33]", "to=16" },
  { "Cast", "f[33]", "to=10" },
  { "Cast", "f[33]", "to=6" },
  { "CastLike", "f[33];f[2]" },
};

typedef struct
{
  guint n_narrow, n_mixed, n_accumulated, n_inplace;
  guint n_several; /* nodes of several floating-point operands */
} Met;

static GHashTable *met; /* operator → Met */

typedef struct
{
  const OrtrainNode *node;
  OrtrainTensor *const *in;
  OrtrainTensor *const *out;
  guint64 accumulates;
  gboolean inplace; /* where it is possible */
  gboolean mixed;
} Task;

static OrtrainTensor *
dup_bytes (OrtrainTensor *tensor, OrtrainDType dtype)
{
  OrtrainTensor *copy = kernel_cast (tensor, dtype);
  if (copy == tensor || ortrain_tensor_peek (copy) == ortrain_tensor_peek (tensor))
    {
      g_autoptr (GError) error = NULL;
      OrtrainTensor *other =
          ortrain_tensor_new (dtype, ortrain_tensor_peek_dims (tensor), ortrain_tensor_get_rank (tensor), &error);
      g_assert_no_error (error);
      if (ortrain_tensor_get_n_bytes (tensor) > 0)
        memcpy (ortrain_tensor_peek_writable (other), ortrain_tensor_peek (tensor),
                ortrain_tensor_get_n_bytes (tensor));
      g_object_unref (copy);
      return other;
    }
  return copy;
}

static gboolean
is_wide (OrtrainTensor *tensor)
{
  return tensor != NULL && ortrain_tensor_get_dtype (tensor) == ORTRAIN_DTYPE_FLOAT32;
}

/* types, rounded: of each operand, inputs before outputs: the stored type, and the type that it is first rounded to.
 * FALSE: there is no kernel. */
static gboolean
run_task (KernelRun *run, const Task *task, const OrtrainDType *types, const OrtrainDType *rounded)
{
  g_autoptr (GError) error = NULL;
  kernel_run_init (run, task->node->domain, task->node->op_type);
  ortrain_attributes_free (run->attributes);
  run->attributes = ortrain_attributes_copy (task->node->attributes);
  run->step = (OrtrainStepBlock){ .seed = 42, .step = 3 };
  run->node_number = task->node->number;
  const guint n_inputs = task->node->inputs->len;
  for (guint i = 0; i < n_inputs; i++)
    {
      const OrtrainValue *value = task->node->inputs->pdata[i];
      OrtrainTensor *x = task->in[i], *narrow;
      if (value != NULL && value->tensor != NULL)
        run->constants |= G_GUINT64_CONSTANT (1) << i;
      if (x == NULL)
        kernel_run_add_input (run, NULL);
      else if (is_wide (x))
        {
          narrow = kernel_cast (x, rounded[i]);
          kernel_run_add_input (run, dup_bytes (narrow, types[i]));
          g_object_unref (narrow);
        }
      else
        kernel_run_add_input (run, dup_bytes (x, ortrain_tensor_get_dtype (x)));
    }
  for (guint k = 0; k < task->node->outputs->len; k++)
    {
      OrtrainTensor *y = task->out[k];
      if (y == NULL)
        {
          run->outputs[run->n_outputs++] = NULL;
          continue;
        }
      const OrtrainDType dtype = is_wide (y) ? types[n_inputs + k] : ortrain_tensor_get_dtype (y);
      kernel_run_add_output (run, dtype, ortrain_tensor_peek_dims (y), ortrain_tensor_get_rank (y));
      if (!(task->accumulates >> k & 1))
        continue;
      g_autoptr (OrtrainTensor) before =
          kernel_random (ORTRAIN_DTYPE_FLOAT32, ortrain_tensor_peek_dims (y), ortrain_tensor_get_rank (y), 1, 100 + k);
      g_autoptr (OrtrainTensor) narrow = kernel_cast (before, rounded[n_inputs + k]);
      g_object_unref (run->outputs[k]);
      run->outputs[k] = dup_bytes (narrow, dtype);
    }
  run->accumulates = task->accumulates;
  run->try_inplace = task->inplace;
  run->needs_mixed = task->mixed;
  if (kernel_run_try (run, &error))
    return TRUE;
  kernel_run_clear (run);
  return FALSE;
}

/* Operators of products, which sum in another order where an operand has 16 bits. */
static const char *const products[] = { "RNN", "GRU", "LSTM", "RecurrentGrad", NULL };

/* A sum of k products in float32 is off by at most k · 2^-24 of the sum of magnitudes. Here k is below 256 over all
 * steps of a sequence, magnitudes are about as large as the largest result, and activations do not enlarge differences.
 * A 16-bit result may then be rounded to the neighbour: one unit in its last place. */
static gboolean
is_close (OrtrainTensor *narrow, OrtrainTensor *reference, gint64 i, gboolean clips)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (narrow);
  const double x = ortrain_tensor_get_scalar (narrow, i), y = ortrain_tensor_get_scalar (reference, i);
  const double half = dtype == ORTRAIN_DTYPE_BFLOAT16 ? 0x1p-8 : dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11 : 0;
  const double unit = clips ? 3 * half : half; /* elements that were not clipped are stored next to the bound */
  double largest = 0;
  for (gint64 k = 0; k < ortrain_tensor_get_n_elements (reference); k++)
    largest = MAX (largest, fabs (ortrain_tensor_get_scalar (reference, k)));
  const double sum = 256 * 0x1p-24 * MAX (largest, 1), denormal = dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-25 : 0;
  return fabs (x - y) <= sum + MAX (unit * (fabs (y) + sum), denormal);
}

static gboolean
same_element (OrtrainTensor *a, OrtrainTensor *b, gint64 i)
{
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (a));
  if (memcmp ((const guint8 *) ortrain_tensor_peek (a) + (gsize) i * size,
              (const guint8 *) ortrain_tensor_peek (b) + (gsize) i * size, size) == 0)
    return TRUE;
  return isnan (ortrain_tensor_get_scalar (a, i)) && isnan (ortrain_tensor_get_scalar (b, i));
}

static char *
show_types (const Task *task, const OrtrainDType *types)
{
  GString *text = g_string_new (task->accumulates ? "accumulating " : task->inplace ? "in place " : "");
  for (guint i = 0; i < task->node->inputs->len + task->node->outputs->len; i++)
    {
      const gboolean input = i < task->node->inputs->len;
      OrtrainTensor *tensor = input ? task->in[i] : task->out[i - task->node->inputs->len];
      g_string_append_printf (text, "%s%s",
                              i == task->node->inputs->len ? " → "
                              : i > 0                      ? ", "
                                                           : "",
                              tensor == NULL     ? "-"
                              : is_wide (tensor) ? ortrain_dtype_get_name (types[i])
                                                 : ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)));
    }
  return g_string_free (text, FALSE);
}

/* FALSE: the kernel does not take these types. */
static gboolean
compare (const Task *task, const OrtrainDType *types, Met *counts)
{
  OrtrainDType wide[2 * KERNEL_MAX_OPERANDS];
  for (guint i = 0; i < G_N_ELEMENTS (wide); i++)
    wide[i] = ORTRAIN_DTYPE_FLOAT32;
  KernelRun narrow, reference;
  if (!run_task (&narrow, task, types, types))
    return FALSE;
  Task in_float32 = *task;
  in_float32.mixed = FALSE;
  g_assert_true (run_task (&reference, &in_float32, wide, types));
  g_assert_cmpint (narrow.fault.code, ==, reference.fault.code);
  const gboolean sums = g_strv_contains (products, task->node->op_type);
  const gboolean clips = ortrain_attributes_get_float (task->node->attributes, "clip", 0) > 0;
  for (guint k = 0; k < narrow.n_outputs; k++)
    {
      if (narrow.outputs[k] == NULL)
        continue;
      g_autoptr (OrtrainTensor) right =
          kernel_cast (reference.outputs[k], ortrain_tensor_get_dtype (narrow.outputs[k]));
      for (gint64 i = 0; i < ortrain_tensor_get_n_elements (right); i++)
        if (!same_element (narrow.outputs[k], right, i) &&
            !(sums && is_close (narrow.outputs[k], reference.outputs[k], i, clips)))
          {
            g_autofree char *text = show_types (task, types);
            g_test_message ("%s (%s): element %" G_GINT64_FORMAT " of output %u is %.9g, %.9g is right (%.9g)",
                            task->node->op_type, text, i, k, ortrain_tensor_get_scalar (narrow.outputs[k], i),
                            ortrain_tensor_get_scalar (right, i), ortrain_tensor_get_scalar (reference.outputs[k], i));
            g_test_fail ();
            break;
          }
    }
  counts->n_inplace += task->inplace && narrow.n_inplace > 0;
  counts->n_accumulated += task->accumulates != 0;
  kernel_run_clear (&narrow);
  kernel_run_clear (&reference);
  return TRUE;
}

static void
choose_types (OrtrainDType *types, guint n, guint seed)
{
  static const OrtrainDType choice[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  guint32 state = seed * 2654435761u + 12345;
  for (guint i = 0; i < n; i++)
    {
      state = state * 1664525u + 1013904223u;
      types[i] = choice[(state >> 16) % 3];
    }
}

static gboolean
is_member (const OrtrainNode *node)
{
  for (guint f = 0; f < G_N_ELEMENTS (families); f++)
    for (guint i = 0; i < families[f]->n_kernels; i++)
      if (g_str_equal (families[f]->kernels[i].op_type, node->op_type) &&
          g_str_equal (families[f]->kernels[i].domain, node->domain))
        return TRUE;
  return FALSE;
}

/* Recurrent layers that clip recognize clipped elements by their stored value: operands Y and the saved values. */
enum
{
  STORED_Y = 10,
  STORED_VALUES = 11
};

static gboolean
reads_clipped (const OrtrainNode *node)
{
  return g_str_equal (node->op_type, "RecurrentGrad") && ortrain_attributes_get_float (node->attributes, "clip", 0) > 0;
}

/* Stored in 16 bits, with the gradients of values that were not rounded. */
static void
check_clipped (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out)
{
  static const OrtrainDType narrow[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  for (guint t = 0; t < G_N_ELEMENTS (narrow); t++)
    {
      OrtrainDType types[2 * KERNEL_MAX_OPERANDS];
      for (guint i = 0; i < G_N_ELEMENTS (types); i++)
        types[i] = i == STORED_Y || i == STORED_VALUES ? narrow[t] : ORTRAIN_DTYPE_FLOAT32;
      const Task task = { .node = node, .in = in, .out = out, .mixed = TRUE };
      KernelRun run;
      g_assert_true (run_task (&run, &task, types, types));
      for (guint k = 0; k < run.n_outputs; k++)
        {
          double difference = 0, norm = 0;
          for (gint64 i = 0; run.outputs[k] != NULL && i < ortrain_tensor_get_n_elements (out[k]); i++)
            {
              const double right = ortrain_tensor_get_scalar (out[k], i);
              const double d = ortrain_tensor_get_scalar (run.outputs[k], i) - right;
              difference += d * d;
              norm += right * right;
            }
          if (sqrt (difference) > 0.03 * sqrt (norm))
            {
              g_test_message ("%s with a limit, in %s: output %u is off by %.3f of %.3f", node->op_type,
                              ortrain_dtype_get_name (narrow[t]), k, sqrt (difference), sqrt (norm));
              g_test_fail ();
            }
        }
      kernel_run_clear (&run);
    }
}

static void
observe (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out, gpointer data)
{
  const guint n = node->inputs->len + node->outputs->len;
  if (node->outputs->len > KERNEL_MAX_OPERANDS || node->inputs->len > KERNEL_MAX_OPERANDS || node->body != NULL ||
      !is_member (node))
    return;
  guint n_floating = 0;
  for (guint i = 0; i < node->inputs->len; i++)
    n_floating += is_wide (in[i]);
  for (guint k = 0; k < node->outputs->len; k++)
    n_floating += is_wide (out[k]);
  if (n_floating == 0)
    return;
  Met *counts = g_hash_table_lookup (met, node->op_type);
  if (counts == NULL)
    {
      counts = g_new0 (Met, 1);
      g_hash_table_insert (met, g_strdup (node->op_type), counts);
    }
  if (reads_clipped (node))
    check_clipped (node, in, out);
  counts->n_several += n_floating > 1;
  for (guint seed = 0; seed < (n_floating > 1 ? 8 : 2); seed++)
    {
      OrtrainDType types[2 * KERNEL_MAX_OPERANDS];
      const gboolean mixed = seed > 1;
      if (mixed)
        choose_types (types, n, seed);
      else
        for (guint i = 0; i < n; i++)
          types[i] = seed == 0 ? ORTRAIN_DTYPE_BFLOAT16 : ORTRAIN_DTYPE_FLOAT16;
      Task task = { .node = node, .in = in, .out = out, .mixed = mixed };
      if (!compare (&task, types, counts))
        continue;
      *(mixed ? &counts->n_mixed : &counts->n_narrow) += 1;
      task.inplace = TRUE;
      compare (&task, types, counts);
      task.inplace = FALSE;
      for (guint k = 0; k < node->outputs->len; k++)
        if (is_wide (out[k]))
          {
            KernelRun run;
            if (!run_task (&run, &task, types, types))
              continue;
            if (run.setup.can_accumulate >> k & 1)
              task.accumulates |= G_GUINT64_CONSTANT (1) << k;
            kernel_run_clear (&run);
          }
      if (task.accumulates != 0)
        compare (&task, types, counts);
    }
}

static void
run_all (const OrtrainGradientCase *table, guint n, gboolean differentiated)
{
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *message = NULL;
      if (differentiated ? ortrain_gradient_check (&table[i], &message) < 0
                         : !ortrain_gradient_check_forward (&table[i], &message))
        g_test_message ("%s (%s): %s", table[i].op_type, table[i].inputs, message);
    }
}

/* Rows that are not met: draws without an input have nothing to be rounded; the chains of fused nodes have a test of
 * their own. */
static const char *const elsewhere[] = { "RandomNormal", "RandomUniform", NULL };

static void
test_nodes (void)
{
  met = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  ortrain_gradient_check_set_dtype (ORTRAIN_DTYPE_FLOAT32);
  ortrain_gradient_check_set_observer (observe, NULL);
  run_all (cases, G_N_ELEMENTS (cases), TRUE);
  run_all (more, G_N_ELEMENTS (more), TRUE);
  run_all (forward, G_N_ELEMENTS (forward), FALSE);
  ortrain_gradient_check_set_observer (NULL, NULL);
  ortrain_gradient_check_set_dtype (ORTRAIN_DTYPE_FLOAT64);
  guint n_rows = 0;
  for (guint f = 0; f < G_N_ELEMENTS (families); f++)
    for (guint i = 0; i < families[f]->n_kernels; i++)
      {
        const OrtrainKernel *kernel = &families[f]->kernels[i];
        const OrtrainDTypeSet dtypes = kernel->dtypes != 0 ? kernel->dtypes : ORTRAIN_DTYPES_HALF;
        const Met *counts = g_hash_table_lookup (met, kernel->op_type);
        if (!(dtypes & ORTRAIN_DTYPES_HALF) || g_strv_contains (elsewhere, kernel->op_type))
          continue;
        n_rows++;
        if (counts != NULL && counts->n_narrow > 0 &&
            (kernel->mixed_dtypes == 0 || counts->n_mixed > 0 || counts->n_several == 0))
          continue;
        g_test_message ("%s: %u nodes in 16 bits, %u with mixed types", kernel->op_type,
                        counts != NULL ? counts->n_narrow : 0, counts != NULL ? counts->n_mixed : 0);
        g_test_fail ();
      }
  guint n_narrow = 0, n_mixed = 0, n_accumulated = 0, n_inplace = 0;
  GHashTableIter iter;
  gpointer counts;
  g_hash_table_iter_init (&iter, met);
  while (g_hash_table_iter_next (&iter, NULL, &counts))
    {
      n_narrow += ((Met *) counts)->n_narrow;
      n_mixed += ((Met *) counts)->n_mixed;
      n_accumulated += ((Met *) counts)->n_accumulated;
      n_inplace += ((Met *) counts)->n_inplace;
    }
  g_test_message ("%u rows; %u nodes in 16 bits, %u with mixed types, %u accumulating, %u in place", n_rows, n_narrow,
                  n_mixed, n_accumulated, n_inplace);
  g_clear_pointer (&met, g_hash_table_unref);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/half-kernels/nodes", test_nodes);
  return g_test_run ();
}
