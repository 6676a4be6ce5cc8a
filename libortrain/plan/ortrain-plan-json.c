/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

#include "core/ortrain-file-writer-private.h"
#include "ops/ortrain-op-private.h"

#include <json-glib/json-glib.h>

/* Programs look names up: they are whole, and only bytes that are not UTF-8 are replaced. */
static void
add_name (JsonBuilder *builder, const char *name)
{
  g_autofree char *valid = g_utf8_make_valid (name, -1);
  json_builder_add_string_value (builder, valid);
}

static void
add_bytes (JsonBuilder *builder, const char *name, guint64 bytes)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, (gint64) bytes);
}

static void
add_number (JsonBuilder *builder, const char *name, double number)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_double_value (builder, number);
}

static void
add_step (JsonBuilder *builder, const OrtrainMemoryPlan *plan, const OrtrainPlanStep *step, guint64 live_bytes)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "node");
  add_name (builder, step->node->name);
  json_builder_set_member_name (builder, "operator");
  add_name (builder, step->node->op_type);
  json_builder_set_member_name (builder, "phase");
  json_builder_add_string_value (builder, ortrain_phase_get_name (step->phase));
  json_builder_set_member_name (builder, "stream");
  json_builder_add_string_value (builder, ortrain_plan_stream_get_name (step->stream));
  json_builder_set_member_name (builder, "dtype");
  json_builder_add_string_value (builder, ortrain_dtype_get_name (ortrain_plan_step_get_dtype (step)));
  add_number (builder, "flops", step->flops);
  add_number (builder, "bytes_moved", step->bytes_moved);
  add_number (builder, "milliseconds", step->milliseconds);
  add_bytes (builder, "live_bytes", live_bytes);
  if (step->n_waits > 0)
    {
      json_builder_set_member_name (builder, "waits");
      json_builder_begin_array (builder);
      for (guint w = 0; w < step->n_waits; w++)
        json_builder_add_int_value (builder, plan->waits[step->first_wait + w]);
      json_builder_end_array (builder);
    }
  json_builder_end_object (builder);
}

static void
add_peak (JsonBuilder *builder, const OrtrainMemoryPlan *self)
{
  gsize bytes;
  const guint step = ortrain_memory_plan_find_peak (self, &bytes);
  json_builder_set_member_name (builder, "peak");
  json_builder_begin_object (builder);
  add_bytes (builder, "step", step);
  add_bytes (builder, "live_bytes", bytes);
  if (self->steps != NULL && step < self->n_steps)
    {
      const OrtrainNode *node = self->steps[step].node;
      json_builder_set_member_name (builder, "node");
      add_name (builder, node->name);
      json_builder_set_member_name (builder, "operator");
      add_name (builder, node->op_type);
      json_builder_set_member_name (builder, "phase");
      json_builder_add_string_value (builder, ortrain_phase_get_name (self->steps[step].phase));
    }
  json_builder_end_object (builder);
}

/* Why gradients take memory of their own. */
static void
add_gradients (JsonBuilder *builder, OrtrainMemoryPlan *self)
{
  const char *reason = ortrain_memory_plan_get_gradients_kept (self);
  g_autoptr (GArray) kept = ortrain_memory_plan_find_kept_gradients (self, 1);
  json_builder_set_member_name (builder, "gradients");
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "kept_because");
  if (reason != NULL)
    json_builder_add_string_value (builder, reason);
  else
    json_builder_add_null_value (builder);
  json_builder_set_member_name (builder, "parameters");
  json_builder_begin_array (builder);
  for (guint i = 0; i < kept->len; i++)
    {
      const OrtrainKeptGradient *gradient = &g_array_index (kept, OrtrainKeptGradient, i);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "parameter");
      add_name (builder, gradient->parameter);
      add_bytes (builder, "bytes", gradient->bytes);
      json_builder_set_member_name (builder, "because");
      json_builder_add_string_value (builder, gradient->reason);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

static void
add_names (JsonBuilder *builder, const char *name, char **names)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; names[i] != NULL; i++)
    json_builder_add_string_value (builder, names[i]);
  json_builder_end_array (builder);
}

static void
add_context (JsonBuilder *builder, const OrtrainPlanContext *context)
{
  if (context == NULL)
    return;
  json_builder_set_member_name (builder, "context");
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "device");
  json_builder_add_string_value (builder, context->device);
  add_bytes (builder, "streams", context->two_streams ? 2 : 1);
  add_names (builder, "disabled_passes", context->disabled_passes);
  add_names (builder, "expanded", context->expanded);
  json_builder_end_object (builder);
}

/**
 * ortrain_memory_plan_to_json:
 * @self: a plan
 *
 * The plan as a JSON object with the members `context` (the settings that it was made for: `device`, `streams`, and the
 * passes and operators that were left out or expanded for finding faults, `disabled_passes` and `expanded`),
 * `arena_bytes`, `host_arena_bytes`, `offloaded_bytes`, `lower_bound_bytes`, `persistent_bytes`, `peak_bytes`,
 * `n_steps`, `first_backward_step`, `first_update_step`, `flops`, `bytes_moved` and `milliseconds` (of all steps),
 * `peak` (`step`, `live_bytes` and, of a model, `node`, `operator` and `phase`), `gradients` (`deferral_reason`, see
 * [property@MemoryPlan:gradients-kept], and `parameters` whose gradients take memory for longer than one step for a
 * reason of their own: `parameter`, `bytes`, `because`), `persistent` (bytes by category), `blocks` (a list of objects
 * with `name`, `category`, `offset`, `bytes`, `first`, `last`, `node` and `recomputed`: the blocks of the arena),
 * `recompute`, `offload` (`step` that copies a value out, its `name` and `bytes`), and `steps` (in the order of
 * submission: `node`, `operator`, `phase`, `stream`, `dtype` (of the first operand), `flops`, `bytes_moved`,
 * `milliseconds`, `live_bytes` and, of other streams, the steps that it `waits` for).
 *
 * `flops` and `bytes_moved` are estimates that kernels give of their work: floating-point operations, 0 for a kernel
 * that only moves data, and bytes read plus written. `milliseconds` follow from them and the nominal speed of the
 * device. `ortrain plan --compare` reads such files.
 *
 * Returns: (transfer full): JSON text
 */
char *
ortrain_memory_plan_to_json (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), NULL);

  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  add_context (builder, self->context);
  add_bytes (builder, "arena_bytes", self->arena_bytes);
  add_bytes (builder, "host_arena_bytes", self->host_arena_bytes);
  add_bytes (builder, "offloaded_bytes", ortrain_memory_plan_get_offloaded_bytes (self));
  add_bytes (builder, "lower_bound_bytes", self->lower_bound_bytes);
  add_bytes (builder, "persistent_bytes", ortrain_memory_plan_get_persistent_bytes (self));
  add_bytes (builder, "peak_bytes", ortrain_memory_plan_get_peak_bytes (self));
  add_bytes (builder, "n_steps", self->n_steps);
  add_bytes (builder, "first_backward_step", self->first_backward);
  add_bytes (builder, "first_update_step", self->first_update);
  double flops, bytes_moved;
  ortrain_memory_plan_sum_work (self, &flops, &bytes_moved);
  add_number (builder, "flops", flops);
  add_number (builder, "bytes_moved", bytes_moved);
  add_number (builder, "milliseconds", ortrain_memory_plan_get_milliseconds (self));
  add_peak (builder, self);
  add_gradients (builder, self);
  json_builder_set_member_name (builder, "persistent");
  json_builder_begin_object (builder);
  for (guint c = 0; c < G_N_ELEMENTS (self->persistent); c++)
    if (self->persistent[c] > 0)
      add_bytes (builder, ortrain_category_get_nick ((OrtrainCategory) c), self->persistent[c]);
  json_builder_end_object (builder);
  json_builder_set_member_name (builder, "blocks");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (!ortrain_plan_value_is_block (self->values, i))
        continue;
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "name");
      add_name (builder, value->name);
      json_builder_set_member_name (builder, "category");
      json_builder_add_string_value (builder, ortrain_category_get_nick (value->category));
      add_bytes (builder, "offset", value->offset);
      add_bytes (builder, "bytes", value->bytes);
      json_builder_set_member_name (builder, "first");
      json_builder_add_int_value (builder, value->first);
      json_builder_set_member_name (builder, "last");
      json_builder_add_int_value (builder, value->last);
      if (ortrain_memory_plan_get_maker (self, value) != NULL)
        {
          json_builder_set_member_name (builder, "node");
          add_name (builder, ortrain_memory_plan_get_maker (self, value));
        }
      json_builder_set_member_name (builder, "recomputed");
      json_builder_add_boolean_value (builder, ortrain_memory_plan_is_recomputed (self, value));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "recompute");
  json_builder_begin_array (builder);
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    if (self->steps[s].recomputes >= 0)
      {
        json_builder_begin_object (builder);
        add_bytes (builder, "step", s);
        add_bytes (builder, "recomputes", (guint64) self->steps[s].recomputes);
        json_builder_set_member_name (builder, "node");
        add_name (builder, self->steps[s].node->name);
        json_builder_end_object (builder);
      }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "offload");
  json_builder_begin_array (builder);
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    if (ortrain_node_get_kind (self->steps[s].node) == ORTRAIN_OP_KIND_OFFLOAD)
      {
        const OrtrainPlanValue *value = &self->values[self->operands[self->steps[s].first_operand]];
        json_builder_begin_object (builder);
        add_bytes (builder, "step", s);
        json_builder_set_member_name (builder, "name");
        add_name (builder, value->name);
        add_bytes (builder, "bytes", value->bytes);
        json_builder_end_object (builder);
      }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "steps");
  json_builder_begin_array (builder);
  g_autofree gsize *live = ortrain_memory_plan_measure_steps (self);
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    add_step (builder, self, &self->steps[s], live[s]);
  json_builder_end_array (builder);
  json_builder_end_object (builder);

  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  json_generator_set_indent (generator, 1);
  return json_generator_to_data (generator, NULL);
}

/**
 * ortrain_memory_plan_save_json:
 * @self: a plan
 * @path: (type filename): where to write
 * @error: return location for a #GError
 *
 * Writes what [method@MemoryPlan.to_json] returns to a file.
 *
 * Returns: %FALSE with an error of [error@Gio.IOErrorEnum]
 */
gboolean
ortrain_memory_plan_save_json (OrtrainMemoryPlan *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  g_autofree char *text = ortrain_memory_plan_to_json (self);
  return ortrain_file_write_text (path, text, error);
}
