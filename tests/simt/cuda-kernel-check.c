/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"
#include "simt/thread-orders.h"

#include "graph/ortrain-graph-private.h"

#include <stdlib.h>

static const OrtrainDType narrow_types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };

/* Operators that the CPU computes in float32 to compare with: draws are other numbers in float64, and some operands of
 * updates have to be float32. */
static const char *const in_float32[] = { "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike",
                                          "SgdUpdate",    "AdamUpdate",    "LambUpdate",       "AdagradUpdate",
                                          "GradientNorm", "BeginUpdate",   "LossScaleUpdate",  NULL };
/* Their first operands are shared by all tensors, in types of their own. */
static const char *const updates[] = { "SgdUpdate",    "AdamUpdate",  "LambUpdate",      "AdagradUpdate",
                                       "GradientNorm", "BeginUpdate", "LossScaleUpdate", NULL };
#define N_SHARED 3

typedef struct
{
  guint n_runs, n_mixed, n_inplace, n_accumulated;
  OrtrainDTypeSet dtypes; /* of the first operand */
} Met;

static const char *const *wanted;
static GHashTable *met; /* operator → Met */
static OrtrainProvider *cuda;
static double tolerance;
static gboolean runs_few; /* with fewer types */

void
cuda_check_set_tolerance (double value)
{
  tolerance = value;
}

/* How a node is run once. */
typedef struct
{
  const OrtrainNode *node;
  OrtrainTensor *const *in, *const *out;
  const OrtrainDType *types; /* of operands of floating type, inputs before outputs */
  gboolean inplace, mixed;
  gboolean is_clipped; /* from the stored value, the gradient finds which elements were limited, in its own type */
  guint64 accumulates;
} Task;

static gboolean
is_floating (OrtrainTensor *tensor)
{
  return tensor != NULL && ortrain_tensor_get_dtype (tensor) == ORTRAIN_DTYPE_FLOAT32;
}

/* A copy with contents of its own, for a node that runs in place and writes there. */
static OrtrainTensor *
dup_tensor (OrtrainTensor *tensor)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *copy = ortrain_tensor_copy (tensor, &error);
  g_assert_no_error (error);
  return copy;
}

/* The types that the task says, or float64 (or float32) on the same, rounded, numbers. A task with clipping keeps the
 * types of its inputs. */
static gboolean
run_task (KernelRun *run, const Task *task, OrtrainDType reference, OrtrainProvider *provider, GError **error)
{
  const guint n_inputs = task->node->inputs->len;
  const OrtrainDType of_inputs = task->is_clipped ? ORTRAIN_DTYPE_UNDEFINED : reference;
  kernel_run_init (run, task->node->domain, task->node->op_type);
  ortrain_attributes_free (run->attributes);
  run->attributes = ortrain_attributes_copy (task->node->attributes);
  run->body = task->node->body != NULL ? G_OBJECT (task->node->body) : NULL;
  run->step = (OrtrainStepBlock){ .seed = 42, .step = 3 };
  run->node_number = task->node->number;
  run->provider = provider;
  run->accumulates = task->accumulates;
  run->try_inplace = task->inplace && reference == ORTRAIN_DTYPE_UNDEFINED;
  run->needs_mixed = task->mixed && reference == ORTRAIN_DTYPE_UNDEFINED;
  for (guint i = 0; i < n_inputs; i++)
    {
      const OrtrainValue *value = task->node->inputs->pdata[i];
      OrtrainTensor *x = task->in[i];
      if (value != NULL && value->tensor != NULL)
        run->constants |= G_GUINT64_CONSTANT (1) << i;
      if (x == NULL)
        kernel_run_add_input (run, NULL);
      else if (is_floating (x))
        {
          g_autoptr (OrtrainTensor) rounded = kernel_cast (x, task->types[i]);
          g_autoptr (OrtrainTensor) stored =
              kernel_cast (rounded, of_inputs != ORTRAIN_DTYPE_UNDEFINED ? of_inputs : task->types[i]);
          kernel_run_add_input (run, dup_tensor (stored));
        }
      else
        kernel_run_add_input (run, dup_tensor (x));
    }
  for (guint k = 0; k < task->node->outputs->len; k++)
    {
      OrtrainTensor *y = task->out[k];
      if (y == NULL)
        {
          run->outputs[run->n_outputs++] = NULL;
          continue;
        }
      const OrtrainDType said = is_floating (y) ? task->types[n_inputs + k] : ortrain_tensor_get_dtype (y);
      const OrtrainDType dtype = is_floating (y) && reference != ORTRAIN_DTYPE_UNDEFINED ? reference : said;
      kernel_run_add_output (run, dtype, ortrain_tensor_peek_dims (y), ortrain_tensor_get_rank (y));
      if (!(task->accumulates >> k & 1))
        continue;
      g_autoptr (OrtrainTensor) before =
          kernel_random (ORTRAIN_DTYPE_FLOAT32, ortrain_tensor_peek_dims (y), ortrain_tensor_get_rank (y), 1, 100 + k);
      g_autoptr (OrtrainTensor) rounded = kernel_cast (before, said);
      g_object_unref (run->outputs[k]);
      run->outputs[k] = kernel_cast (rounded, dtype);
    }
  return kernel_run_try (run, error);
}

static gboolean
same_bits (OrtrainTensor *a, OrtrainTensor *b)
{
  const gsize n_bytes = ortrain_tensor_get_n_bytes (a);
  return n_bytes == 0 || memcmp (ortrain_tensor_peek (a), ortrain_tensor_peek (b), n_bytes) == 0;
}

static gboolean
is_near (OrtrainTensor *result, OrtrainTensor *right, gint64 i, double largest)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (result);
  const double x = ortrain_tensor_get_scalar (result, i), y = ortrain_tensor_get_scalar (right, i);
  const double unit = dtype == ORTRAIN_DTYPE_BFLOAT16 ? 0x1p-8 : dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11 : 0x1p-23;
  const double most = dtype == ORTRAIN_DTYPE_FLOAT16 ? 65504 : G_MAXFLOAT;
  const double sums = tolerance * MAX (MIN (largest, most), 1);
  if (isnan (x) || isnan (y))
    return isnan (x) && isnan (y);
  if (isinf (x) || isinf (y))
    return x == y || (isinf (x) && fabs (y) >= most * (1 - unit) && (x > 0) == (y > 0));
  return fabs (x - y) <= sums + unit * (fabs (y) + sums) + (dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-25 : 0);
}

static char *
show_task (const Task *task, const char *order)
{
  GString *text = g_string_new (task->node->op_type);
  g_string_append_printf (text, " (%s%s", task->accumulates ? "accumulating, " : "", task->inplace ? "in place, " : "");
  for (guint i = 0; i < task->node->inputs->len + task->node->outputs->len; i++)
    {
      const gboolean input = i < task->node->inputs->len;
      OrtrainTensor *tensor = input ? task->in[i] : task->out[i - task->node->inputs->len];
      g_autofree char *dims = NULL;
      if (tensor != NULL)
        {
          GString *all = g_string_new ("[");
          for (gsize d = 0; d < ortrain_tensor_get_rank (tensor); d++)
            g_string_append_printf (all, "%s%" G_GINT64_FORMAT, d > 0 ? ", " : "",
                                    ortrain_tensor_peek_dims (tensor)[d]);
          g_string_append_c (all, ']');
          dims = g_string_free (all, FALSE);
        }
      g_string_append_printf (text, "%s%s%s",
                              i == task->node->inputs->len ? " → "
                              : i > 0                      ? ", "
                                                           : "",
                              tensor == NULL         ? "-"
                              : is_floating (tensor) ? ortrain_dtype_get_name (task->types[i])
                                                     : ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)),
                              dims != NULL ? dims : "");
    }
  g_string_append_printf (text, "; threads %s)", order);
  return g_string_free (text, FALSE);
}

static void
compare_output (const Task *task, const char *order, guint k, OrtrainTensor *result, OrtrainTensor *right)
{
  double largest = 0;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (right); i++)
    {
      const double y = fabs (ortrain_tensor_get_scalar (right, i));
      largest = isfinite (y) ? MAX (largest, y) : largest;
    }
  const gboolean exact = !ortrain_dtype_is_floating (ortrain_tensor_get_dtype (result));
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (right); i++)
    {
      const double x = ortrain_tensor_get_scalar (result, i), y = ortrain_tensor_get_scalar (right, i);
      if (exact ? x == y : is_near (result, right, i, largest))
        continue;
      g_autofree char *text = show_task (task, order);
      g_test_message ("%s: element %" G_GINT64_FORMAT " of output %u is %.9g, %.9g is right (largest %g)", text, i, k,
                      x, y, largest);
      g_test_fail ();
      return;
    }
}

static Met *
get_met (const char *op_type)
{
  Met *counts = g_hash_table_lookup (met, op_type);
  if (counts == NULL)
    g_hash_table_insert (met, g_strdup (op_type), counts = g_new0 (Met, 1));
  return counts;
}

/* can_accumulate: of the kernel; may be NULL. FALSE: there is no kernel for these types. */
static gboolean
check_task (const Task *task, guint64 *can_accumulate)
{
  KernelRun first, reference;
  g_autoptr (GError) error = NULL;
  const gboolean is_single = g_strv_contains (in_float32, task->node->op_type) || task->is_clipped;
  g_setenv ("ORTRAIN_SIMT_ORDER", thread_orders[0], TRUE);
  if (!run_task (&first, task, ORTRAIN_DTYPE_UNDEFINED, cuda, &error))
    {
      kernel_run_clear (&first);
      return FALSE;
    }
  if (can_accumulate != NULL)
    *can_accumulate = first.setup.can_accumulate;
  if (is_single || !run_task (&reference, task, ORTRAIN_DTYPE_FLOAT64, NULL, NULL))
    {
      if (!is_single)
        kernel_run_clear (&reference);
      g_clear_error (&error);
      run_task (&reference, task, ORTRAIN_DTYPE_FLOAT32, NULL, &error);
      g_assert_no_error (error);
    }
  if (first.fault.code != reference.fault.code)
    {
      g_autofree char *text = show_task (task, thread_orders[0]);
      g_test_message ("%s: fault %d, the CPU has %d", text, first.fault.code, reference.fault.code);
      g_test_fail ();
    }
  else if (first.fault.code == ORTRAIN_FAULT_NONE)
    for (guint k = 0; k < first.n_outputs; k++)
      if (first.outputs[k] != NULL)
        compare_output (task, thread_orders[0], k, first.outputs[k], reference.outputs[k]);
  for (guint o = 1; o < thread_orders_get_n (); o++)
    {
      KernelRun other;
      g_clear_error (&error);
      g_setenv ("ORTRAIN_SIMT_ORDER", thread_orders[o], TRUE);
      run_task (&other, task, ORTRAIN_DTYPE_UNDEFINED, cuda, &error);
      g_assert_no_error (error);
      for (guint k = 0; k < other.n_outputs && first.fault.code == ORTRAIN_FAULT_NONE; k++)
        if (other.outputs[k] != NULL && !same_bits (other.outputs[k], first.outputs[k]))
          {
            g_autofree char *text = show_task (task, thread_orders[o]);
            g_test_message ("%s: output %u has other bits than with threads %s", text, k, thread_orders[0]);
            g_test_fail ();
          }
      kernel_run_clear (&other);
    }
  Met *counts = get_met (task->node->op_type);
  counts->n_runs++;
  counts->n_mixed += task->mixed;
  counts->n_inplace += first.n_inplace > 0;
  counts->n_accumulated += task->accumulates != 0;
  counts->dtypes |= ORTRAIN_DTYPE_BIT (task->types[0]);
  kernel_run_clear (&first);
  kernel_run_clear (&reference);
  return TRUE;
}

/* Elements of operands above which the detector takes a node once only. */
#define MANY_ELEMENTS 16384

static gint64
count_elements (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out)
{
  gint64 n = 0;
  for (guint i = 0; i < node->inputs->len; i++)
    n += in[i] != NULL ? ortrain_tensor_get_n_elements (in[i]) : 0;
  for (guint k = 0; k < node->outputs->len; k++)
    n += out[k] != NULL ? ortrain_tensor_get_n_elements (out[k]) : 0;
  return n;
}

void
cuda_check_node (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out)
{
  OrtrainDType types[2 * KERNEL_MAX_OPERANDS];
  const guint n = node->inputs->len + node->outputs->len;
  if (node->inputs->len > KERNEL_MAX_OPERANDS || node->outputs->len > KERNEL_MAX_OPERANDS ||
      (wanted != NULL && !g_strv_contains (wanted, node->op_type)))
    return;
  const guint n_mixed = tests_run_all_cases () ? 4 : 2;
  for (guint choice = 0; choice < G_N_ELEMENTS (narrow_types) + n_mixed; choice++)
    {
      const gboolean mixed = choice >= G_N_ELEMENTS (narrow_types);
      if (runs_few && narrow_types[choice % G_N_ELEMENTS (narrow_types)] == ORTRAIN_DTYPE_FLOAT16)
        continue; /* it differs from bfloat16 only in the work of a thread on a number */
      if (runs_few && choice > G_N_ELEMENTS (narrow_types))
        break;
      guint32 state = (choice + 1) * 2654435761u;
      for (guint i = 0; i < n; i++)
        {
          state = state * 1664525u + 1013904223u;
          types[i] = narrow_types[mixed ? (state >> 16) % 3 : choice];
          const gboolean shared = i < N_SHARED || g_str_equal (node->op_type, "LossScaleUpdate");
          if (shared && g_strv_contains (updates, node->op_type))
            types[i] = ORTRAIN_DTYPE_FLOAT32;
        }
      Task task = { .node = node, .in = in, .out = out, .types = types, .mixed = mixed };
      task.is_clipped = ortrain_attributes_get_float (node->attributes, "clip", 0) > 0;
      guint64 can_accumulate = 0;
      if (!check_task (&task, &can_accumulate))
        continue;
      if (runs_few && count_elements (node, in, out) > MANY_ELEMENTS)
        break;
      task.inplace = TRUE;
      check_task (&task, NULL);
      task.inplace = FALSE;
      for (guint k = 0; k < node->outputs->len; k++)
        if (is_floating (out[k]) && can_accumulate >> k & 1)
          task.accumulates |= G_GUINT64_CONSTANT (1) << k;
      if (task.accumulates != 0)
        check_task (&task, NULL);
    }
}

static void
observe (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out, gpointer data)
{
  cuda_check_node (node, in, out);
}

void
cuda_check_begin (const char *const *operators)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  met = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  wanted = operators;
  tolerance = 4e-6;
  runs_few = tests_run_few_cases ();
}

void
cuda_check_cases (const OrtrainGradientCase *cases, guint n, gboolean differentiated)
{
  ortrain_gradient_check_set_dtype (ORTRAIN_DTYPE_FLOAT32);
  ortrain_gradient_check_set_observer (observe, NULL);
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *message = NULL;
      if (differentiated ? ortrain_gradient_check (&cases[i], &message) < 0
                         : !ortrain_gradient_check_forward (&cases[i], &message))
        {
          g_test_message ("%s (%s): %s", cases[i].op_type, cases[i].inputs, message);
          g_test_fail ();
        }
    }
  ortrain_gradient_check_set_observer (NULL, NULL);
  ortrain_gradient_check_set_dtype (ORTRAIN_DTYPE_FLOAT64);
}

void
cuda_check_end (void)
{
  guint n_runs = 0, n_mixed = 0, n_inplace = 0, n_accumulated = 0;
  for (guint i = 0; wanted != NULL && wanted[i] != NULL; i++)
    if (!g_hash_table_contains (met, wanted[i]))
      {
        g_test_message ("%s was not met", wanted[i]);
        g_test_fail ();
      }
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init (&iter, met);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const Met *counts = value;
      n_runs += counts->n_runs;
      n_mixed += counts->n_mixed;
      n_inplace += counts->n_inplace;
      n_accumulated += counts->n_accumulated;
    }
  g_test_message ("%u operators, %u runs in %u orders each: %u with mixed types, %u in place, %u accumulating",
                  g_hash_table_size (met), n_runs, thread_orders_get_n (), n_mixed, n_inplace, n_accumulated);
  g_assert_cmpuint (n_runs, >, 0);
  g_clear_pointer (&met, g_hash_table_unref);
  g_clear_pointer (&cuda, ortrain_provider_unref);
}
