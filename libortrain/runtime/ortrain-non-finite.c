/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-non-finite-private.h"

#include "core/ortrain-dtype-private.h"
#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"
#include "runtime/ortrain-program-private.h"

#include <math.h>
#include <string.h>

/* ---- one tensor ---- */

/* An element is not finite when all bits of its exponent are set, and an infinity when no bit below them is. */
#define FIND(type, exponent, mantissa)                                                                                 \
  for (gint64 i = 0; i < n; i++)                                                                                       \
    {                                                                                                                  \
      type bits = ((const type *) data)[i];                                                                            \
      if (G_LIKELY ((bits & (exponent)) != (exponent)))                                                                \
        continue;                                                                                                      \
      if ((bits & (mantissa)) != 0)                                                                                    \
        return (OrtrainNonFinite){ i, NAN };                                                                           \
      if (found.index < 0)                                                                                             \
        found = (OrtrainNonFinite){ i, bits >> (sizeof (type) * 8 - 1) ? -INFINITY : INFINITY };                       \
    }

/* data: n elements of a floating type; other types are finite. */
static OrtrainNonFinite
find_non_finite (OrtrainDType dtype, gconstpointer data, gint64 n)
{
  OrtrainNonFinite found = { -1, 0.0 };
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    FIND (guint32, 0x7f800000u, 0x007fffffu)
  else if (dtype == ORTRAIN_DTYPE_FLOAT64)
    FIND (guint64, G_GUINT64_CONSTANT (0x7ff0000000000000), G_GUINT64_CONSTANT (0x000fffffffffffff))
  else if (dtype == ORTRAIN_DTYPE_FLOAT16)
    FIND (guint16, 0x7c00u, 0x03ffu)
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    FIND (guint16, 0x7f80u, 0x007fu)
  return found;
}

static const char *
kind_of (double value)
{
  return isnan (value) ? "nan" : value < 0 ? "-inf" : "inf";
}

/* " at index [3, 2]"; nothing for a scalar. */
static char *
describe_index (gint64 index, const gint64 *dims, guint rank)
{
  if (rank == 0)
    return g_strdup ("");
  gint64 position[ORTRAIN_MAX_RANK];
  for (guint i = rank; i-- > 0;)
    {
      position[i] = index % dims[i];
      index /= dims[i];
    }
  g_autofree char *text = ortrain_shape_to_string (position, rank);
  return g_strconcat (" at index ", text, NULL);
}

static char *
describe_stored (const char *kind, OrtrainNonFinite found, const char *name, const gint64 *dims, guint rank,
                 guint64 n_updates)
{
  g_autofree char *index = describe_index (found.index, dims, rank);
  if (n_updates == 0)
    return g_strdup_printf ("%s '%s' holds %s%s", kind, ortrain_text_show (name), kind_of (found.value), index);
  return g_strdup_printf ("%s '%s' holds %s%s after update %" G_GUINT64_FORMAT
                          "; a smaller learning rate or max-grad-norm may help",
                          kind, ortrain_text_show (name), kind_of (found.value), index, n_updates);
}

/* In device memory. Unreadable memory is taken to be finite: this only looks for reasons. */
static OrtrainNonFinite
find_on_device (OrtrainDeviceContext *device_context, OrtrainDType dtype, gconstpointer address, gsize n_bytes)
{
  g_autofree gpointer copy = NULL;
  gconstpointer data = ortrain_device_context_view (device_context, address, n_bytes, &copy, NULL);
  return data != NULL ? find_non_finite (dtype, data, (gint64) (n_bytes / ortrain_dtype_get_size (dtype)))
                      : (OrtrainNonFinite){ -1, 0.0 };
}

char *
ortrain_non_finite_describe (const OrtrainPersistentTensor *stored, gconstpointer address)
{
  const OrtrainNonFinite found = find_on_device (stored->device_context, stored->dtype, address, stored->bytes);
  if (found.index < 0)
    return NULL;
  g_autofree char *index = describe_index (found.index, stored->dims, stored->rank);
  return g_strconcat (kind_of (found.value), index, NULL);
}

/* data: perhaps unaligned, as in a file; of a floating type. */
static double
read_element (OrtrainDType dtype, gconstpointer data, gint64 i)
{
  const gsize size = ortrain_dtype_get_size (dtype);
  const guint8 *from = (const guint8 *) data + (gsize) i * size;
  double value = 0;
  float single;
  guint16 bits;
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    memcpy (&value, from, sizeof value);
  else if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      memcpy (&single, from, sizeof single);
      value = (double) single;
    }
  else if (ortrain_dtype_is_half (dtype))
    {
      memcpy (&bits, from, sizeof bits);
      value = (double) ortrain_dtype_widen (dtype, bits);
    }
  return value;
}

/* All infinities are from the model: a mask that adds -inf, or a row that is never chosen. Updates leave such numbers
 * as they are. */
static gboolean
is_as_given (const OrtrainPersistentTensor *stored, gconstpointer address, OrtrainTensor *given)
{
  gconstpointer contents = ortrain_tensor_peek_unaligned (given);
  if (contents == NULL || ortrain_tensor_get_n_elements (given) != stored->n_elements)
    return FALSE;
  g_autofree gpointer copy = NULL;
  gconstpointer data = ortrain_device_context_view (stored->device_context, address, stored->bytes, &copy, NULL);
  if (data == NULL)
    return FALSE;
  const OrtrainDType file_dtype = ortrain_tensor_get_dtype (given);
  for (gint64 i = 0; i < stored->n_elements; i++)
    {
      const double value = read_element (stored->dtype, data, i);
      if (!isfinite (value) && value != read_element (file_dtype, contents, i)) /* a NaN differs from every number */
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_non_finite_check (const OrtrainPersistentTensor *stored, gconstpointer address, OrtrainTensor *given,
                          const char *kind, guint64 n_updates, GError **error)
{
  OrtrainNonFinite found = find_on_device (stored->device_context, stored->dtype, address, stored->bytes);
  if (found.index < 0 || (given != NULL && is_as_given (stored, address, given)))
    return TRUE;
  g_autofree char *text = describe_stored (kind, found, stored->name, stored->dims, stored->rank, n_updates);
  g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE, text);
  return FALSE;
}

/* ---- one step ---- */

typedef struct
{
  OrtrainMemoryPlan *plan;
  OrtrainProgram *program;
  OrtrainDeviceContext *device_context;
  const OrtrainPlanValue *values;
  const OrtrainPlanStep *steps;
  const guint32 *operands;
  OrtrainNonFinite *found; /* [n_values], by buffer */
  gint32 *step_of;         /* [n_values]: the step that computed the buffer, -1: none */
  guint64 n_updates;
} Trace;

static void
look_at (Trace *trace, guint32 buffer, gint32 step)
{
  const OrtrainPlanValue *value = &trace->values[buffer];
  trace->step_of[buffer] = step;
  trace->found[buffer] = (OrtrainNonFinite){ -1, 0.0 };
  if (value->value == NULL || value->bytes == 0 || !ortrain_dtype_is_floating (value->value->dtype))
    return;
  gconstpointer data = ortrain_program_get_address (trace->program, buffer);
  if (data != NULL)
    trace->found[buffer] = find_on_device (trace->device_context, value->value->dtype, data, value->bytes);
}

/* The buffer of the value that was computed or fed, for a view of it. */
static guint32
find_source (const Trace *trace, guint32 buffer)
{
  const OrtrainValue *value = trace->values[buffer].value;
  while (trace->step_of[buffer] < 0 && value != NULL && value->producer != NULL && value->producer->inputs->len > 0)
    {
      value = value->producer->inputs->pdata[0];
      guint32 next = value != NULL ? ortrain_memory_plan_find_buffer (trace->plan, value) : G_MAXUINT32;
      if (next == G_MAXUINT32)
        break;
      buffer = next;
    }
  return buffer;
}

static gboolean
is_worse (OrtrainNonFinite a, OrtrainNonFinite b)
{
  return a.index >= 0 && (b.index < 0 || (isnan (a.value) && !isnan (b.value)));
}

/* The input of a step that holds the worst, G_MAXUINT32 if all inputs are finite. */
static guint32
find_bad_input (const Trace *trace, gint32 step)
{
  const OrtrainPlanStep *s = &trace->steps[step];
  guint32 worst = G_MAXUINT32;
  for (guint i = 0; i < s->n_inputs; i++)
    {
      guint32 buffer = trace->operands[s->first_operand + i];
      if (buffer == G_MAXUINT32)
        continue;
      buffer = find_source (trace, buffer);
      /* a value that the same step writes over an input of its own is not the origin */
      if (trace->step_of[buffer] >= step)
        continue;
      if (worst == G_MAXUINT32 ? trace->found[buffer].index >= 0 : is_worse (trace->found[buffer], trace->found[worst]))
        worst = buffer;
    }
  return worst;
}

/* Whether it is the 16-bit copy of a parameter. */
static gboolean
is_working_copy (const OrtrainPlanValue *value)
{
  return value->region == ORTRAIN_REGION_STATE && value->value != NULL && value->value->partner != NULL;
}

static char *
describe_origin (const Trace *trace, guint32 buffer)
{
  const OrtrainPlanValue *value = &trace->values[buffer];
  gint64 dims[ORTRAIN_MAX_RANK] = { 0 };
  guint rank = value->value->rank > 0 ? (guint) value->value->rank : 0;
  ortrain_value_get_static_dims (value->value, dims);
  if (trace->step_of[buffer] >= 0)
    {
      g_autofree char *node = ortrain_node_describe (trace->steps[trace->step_of[buffer]].node);
      g_autofree char *index = describe_index (trace->found[buffer].index, dims, rank);
      return g_strdup_printf ("%s: output '%s' is %s%s; its inputs are finite", node, ortrain_text_show (value->name),
                              kind_of (trace->found[buffer].value), index);
    }
  if (is_working_copy (value))
    return describe_stored ("the parameter", trace->found[buffer], value->value->partner->name, dims, rank,
                            trace->n_updates);
  if (value->region == ORTRAIN_REGION_PARAMETER || value->region == ORTRAIN_REGION_BUFFER)
    return describe_stored (value->region == ORTRAIN_REGION_PARAMETER ? "the parameter" : "the buffer",
                            trace->found[buffer], value->name, dims, rank, trace->n_updates);
  const char *kind = value->region != ORTRAIN_REGION_INPUT       ? "constant"
                     : value->value->role == ORTRAIN_ROLE_TARGET ? "target"
                                                                 : "input";
  g_autofree char *index = describe_index (trace->found[buffer].index, dims, rank);
  return g_strdup_printf ("the %s '%s' holds %s%s", kind, ortrain_text_show (value->name),
                          kind_of (trace->found[buffer].value), index);
}

/* From a bad value upwards to where it begins. An infinity may be meant, as in a mask: where one became a NaN,
 * both ends are named. */
static char *
describe_chain (const Trace *trace, guint32 buffer, gint64 *item)
{
  guint32 first_nan = G_MAXUINT32;
  buffer = find_source (trace, buffer);
  for (;;)
    {
      if (isnan (trace->found[buffer].value))
        first_nan = buffer;
      guint32 above = trace->step_of[buffer] >= 0 ? find_bad_input (trace, trace->step_of[buffer]) : G_MAXUINT32;
      if (above == G_MAXUINT32)
        break;
      buffer = above;
    }
  const OrtrainPlanValue *origin = &trace->values[buffer];
  if (origin->region == ORTRAIN_REGION_INPUT && trace->step_of[buffer] < 0 && origin->value->rank > 0)
    {
      gint64 dims[ORTRAIN_MAX_RANK] = { 0 };
      gint64 n = (gint64) (origin->bytes / ortrain_dtype_get_size (origin->value->dtype));
      if (ortrain_value_get_static_dims (origin->value, dims) && dims[0] > 0)
        *item = trace->found[buffer].index / (n / dims[0]);
    }
  g_autofree char *text = describe_origin (trace, buffer);
  if (first_nan == G_MAXUINT32 || first_nan == buffer || trace->step_of[first_nan] < 0)
    return g_steal_pointer (&text);
  g_autofree char *node = ortrain_node_describe (trace->steps[trace->step_of[first_nan]].node);
  return g_strdup_printf ("%s; %s computes nan from it", text, node);
}

static char *
trace_run (Trace *trace, OrtrainPhase phase, gint64 *item)
{
  guint n_values;
  trace->values = ortrain_memory_plan_peek_values (trace->plan, &n_values);
  trace->steps = ortrain_memory_plan_peek_steps (trace->plan, NULL);
  trace->operands = ortrain_memory_plan_peek_operands (trace->plan, NULL);
  g_autofree OrtrainNonFinite *found = trace->found = g_new (OrtrainNonFinite, n_values + 1);
  g_autofree gint32 *step_of = trace->step_of = g_new (gint32, n_values + 1);
  guint first_backward = ortrain_memory_plan_get_first_backward_step (trace->plan);
  const guint end =
      phase == ORTRAIN_PHASE_FORWARD ? first_backward : ortrain_memory_plan_get_first_update_step (trace->plan);
  for (guint32 buffer = 0; buffer < n_values; buffer++)
    {
      step_of[buffer] = -1;
      found[buffer] = (OrtrainNonFinite){ -1, 0.0 };
      const OrtrainRegion region = trace->values[buffer].region;
      if ((region != ORTRAIN_REGION_ARENA && region != ORTRAIN_REGION_GRADIENT && region != ORTRAIN_REGION_STATE) ||
          is_working_copy (&trace->values[buffer]))
        look_at (trace, buffer, -1);
    }
  for (guint s = 0; s < end; s++)
    {
      const OrtrainPlanStep *step = &trace->steps[s];
      if (ortrain_node_is_update (step->node))
        continue; /* nothing is changed by looking */
      if (!ortrain_program_run (trace->program, s, s + 1, NULL, NULL, NULL))
        return NULL;
      for (guint k = 0; k < step->n_outputs; k++)
        {
          guint32 buffer = trace->operands[step->first_operand + step->n_inputs + k];
          if (buffer == G_MAXUINT32)
            continue;
          look_at (trace, buffer, (gint32) s);
          /* An infinity may disappear again before a gradient is computed; a NaN stays. */
          if (s >= first_backward && found[buffer].index >= 0 &&
              (isnan (found[buffer].value) || trace->values[buffer].value->role == ORTRAIN_ROLE_GRADIENT))
            return describe_chain (trace, buffer, item);
        }
    }
  for (guint32 buffer = 0; buffer < n_values && phase == ORTRAIN_PHASE_FORWARD; buffer++)
    if (trace->values[buffer].value != NULL && trace->values[buffer].value->role == ORTRAIN_ROLE_LOSS)
      {
        guint32 source = find_source (trace, buffer); /* the loss may be a view of the computed value */
        return found[source].index >= 0 ? describe_chain (trace, source, item) : NULL;
      }
  return NULL;
}

char *
ortrain_non_finite_explain (OrtrainGraph *graph, const OrtrainExecutorConfig *config, OrtrainTensorDict *feeds,
                            OrtrainPhase phase, const OrtrainStepBlock *step, guint64 n_updates, gint64 *item)
{
  OrtrainExecutorConfig plain = *config;
  plain.arena = NULL; /* an arena of its own, freed with it */
  plain.recompute_level = 0;
  plain.memory_budget = 0;
  plain.optimize = NULL; /* nodes keep the names that the model has for them */
  plain.training = TRUE; /* outputs stay in the arena */
  *item = -1;
  g_autoptr (OrtrainExecutor) executor = ortrain_executor_new (graph, &plain, NULL);
  if (executor == NULL || !ortrain_executor_bind (executor, feeds, NULL, NULL))
    return NULL;
  OrtrainStepBlock own = *step;
  ortrain_step_block_set_accumulate (&own, FALSE);
  if (!ortrain_executor_take_memory (executor, NULL) ||
      !ortrain_device_context_begin (config->device_context, &own, NULL))
    return NULL;
  Trace trace = { .plan = ortrain_executor_get_plan (executor),
                  .program = ortrain_executor_peek_program (executor),
                  .device_context = config->device_context,
                  .n_updates = n_updates };
  return trace_run (&trace, phase, item);
}
