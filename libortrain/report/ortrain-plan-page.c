/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-file-writer-private.h"
#include "ops/ortrain-op-private.h"
#include "report/ortrain-report-resources.h"

#include <json-glib/json-glib.h>

/* plan-page.html with a plan in it: the page draws one JSON object, in which blocks and steps are arrays. */

#define PLAN "@PLAN@"

static void
add_text (JsonBuilder *builder, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  json_builder_add_string_value (builder, valid);
}

static void
add_int (JsonBuilder *builder, const char *name, guint64 number)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, (gint64) number);
}

static void
begin_list (JsonBuilder *builder, const char *name)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
}

static void
add_card (JsonBuilder *builder, const char *head, const char *text)
{
  json_builder_begin_array (builder);
  add_text (builder, head);
  add_text (builder, text);
  json_builder_end_array (builder);
}

static void
add_cards (JsonBuilder *builder, OrtrainMemoryPlan *self)
{
  g_autofree char *peak = ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (self));
  g_autofree char *arena = ortrain_format_bytes (self->arena_bytes);
  g_autofree char *bound = ortrain_format_bytes (self->lower_bound_bytes);
  g_autofree char *persistent = ortrain_format_bytes (ortrain_memory_plan_get_persistent_bytes (self));
  g_autofree char *least = self->lower_bound_bytes == self->arena_bytes
                               ? g_strdup ("arena; no arrangement needs less")
                               : g_strdup_printf ("arena; no arrangement needs less than %s", bound);
  begin_list (builder, "cards");
  add_card (builder, peak, "peak of a step");
  add_card (builder, arena, least);
  g_autoptr (GString) parts = g_string_new ("persistent");
  for (guint c = ORTRAIN_CATEGORY_PARAMETER; c <= ORTRAIN_CATEGORY_BUFFER; c++)
    if (self->persistent[c] > 0)
      {
        g_autofree char *size = ortrain_format_bytes (self->persistent[c]);
        g_string_append_printf (parts, "%s%s %s", parts->len == strlen ("persistent") ? ": " : ", ",
                                ortrain_category_get_nick ((OrtrainCategory) c), size);
      }
  add_card (builder, persistent, parts->str);
  if (self->steps != NULL)
    {
      g_autofree char *steps = g_strdup_printf ("%u", self->n_steps);
      g_autofree char *again =
          g_strdup_printf ("steps, %u of them computed again", ortrain_memory_plan_get_n_recomputed_steps (self));
      add_card (builder, steps, again);
      const guint64 offloaded = ortrain_memory_plan_get_offloaded_bytes (self);
      g_autofree char *leaves = ortrain_format_bytes (offloaded);
      if (offloaded > 0)
        add_card (builder, leaves, "offloaded until the backward pass");
      const double milliseconds = ortrain_memory_plan_get_milliseconds (self);
      g_autofree char *time = g_strdup_printf ("%.3g ms", milliseconds);
      g_autofree char *work = g_strdup_printf ("estimated, for %.3g flop", ortrain_memory_plan_get_flops (self));
      if (milliseconds > 0)
        add_card (builder, time, work);
    }
  json_builder_end_array (builder);
}

/* Why gradients take memory of their own. */
static void
add_notes (JsonBuilder *builder, OrtrainMemoryPlan *self)
{
  const char *reason = ortrain_memory_plan_get_gradients_kept (self);
  g_autoptr (GArray) kept = ortrain_memory_plan_find_kept_gradients (self, ORTRAIN_NOTABLE_BYTES (self));
  begin_list (builder, "notes");
  if (reason != NULL && self->persistent[ORTRAIN_CATEGORY_GRADIENT] > 0)
    {
      g_autofree char *size = ortrain_format_bytes (self->persistent[ORTRAIN_CATEGORY_GRADIENT]);
      g_autofree char *note = g_strdup_printf ("Gradients (%s) are kept until the update: %s.", size, reason);
      add_text (builder, note);
    }
  for (guint i = 0; i < MIN (kept->len, 5); i++)
    {
      const OrtrainKeptGradient *gradient = &g_array_index (kept, OrtrainKeptGradient, i);
      g_autofree char *size = ortrain_format_bytes (gradient->bytes);
      g_autofree char *note =
          g_strdup_printf ("The gradient of %s (%s): %s.", gradient->parameter, size, gradient->reason);
      add_text (builder, note);
    }
  json_builder_end_array (builder);
}

static void
add_lists (JsonBuilder *builder, const OrtrainMemoryPlan *self)
{
  begin_list (builder, "categories");
  for (guint c = 0; c <= ORTRAIN_CATEGORY_OUTPUT; c++)
    {
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "name");
      add_text (builder, ortrain_category_get_nick ((OrtrainCategory) c));
      json_builder_set_member_name (builder, "color");
      add_text (builder, ortrain_category_get_color ((OrtrainCategory) c));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  begin_list (builder, "phases");
  for (guint p = 0; p < ORTRAIN_N_PHASES; p++)
    add_text (builder, ortrain_phase_get_name ((OrtrainPhase) p));
  json_builder_end_array (builder);

  const struct
  {
    const char *name;
    gsize bytes;
  } spaces[] = { { "arena", self->arena_bytes }, { "arena of the host", self->host_arena_bytes } };
  begin_list (builder, "spaces");
  for (guint s = 0; s < (self->host_arena_bytes > 0 ? 2 : 1); s++)
    {
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "name");
      add_text (builder, spaces[s].name);
      add_int (builder, "bytes", spaces[s].bytes);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

/* [name, category, space, offset, bytes, first, last, whether it is computed again] */
static void
add_block (JsonBuilder *builder, const OrtrainMemoryPlan *self, const OrtrainPlanValue *value)
{
  json_builder_begin_array (builder);
  add_text (builder, value->name);
  json_builder_add_int_value (builder, value->category);
  json_builder_add_int_value (builder, value->region == ORTRAIN_REGION_HOST_ARENA);
  json_builder_add_int_value (builder, (gint64) value->offset);
  json_builder_add_int_value (builder, (gint64) value->bytes);
  json_builder_add_int_value (builder, value->first);
  json_builder_add_int_value (builder, value->last);
  json_builder_add_int_value (builder, ortrain_memory_plan_is_recomputed (self, value));
  json_builder_end_array (builder);
}

/* [node, operator, phase, milliseconds, the step that it runs again, or -1, 1: offloads a value, 2: copies it back] */
static void
add_step (JsonBuilder *builder, const OrtrainPlanStep *step)
{
  const char *name = step->node->name;
  const OrtrainOpKind kind = ortrain_node_get_kind (step->node);
  json_builder_begin_array (builder);
  add_text (builder, name != NULL && *name != '\0' ? name : step->node->op_type);
  add_text (builder, step->node->op_type);
  json_builder_add_int_value (builder, step->phase);
  json_builder_add_double_value (builder, step->milliseconds);
  json_builder_add_int_value (builder, step->recomputes);
  json_builder_add_int_value (builder, kind == ORTRAIN_OP_KIND_OFFLOAD ? 1 : kind == ORTRAIN_OP_KIND_RELOAD ? 2 : 0);
  json_builder_end_array (builder);
}

static char *
make_data (OrtrainMemoryPlan *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autofree char *peak = ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (self));
  g_autofree char *title = g_strdup_printf ("Memory of one step: %s", peak);
  g_autofree char *summary = ortrain_memory_plan_to_string (self);
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "title");
  add_text (builder, title);
  json_builder_set_member_name (builder, "summary");
  add_text (builder, summary);
  add_int (builder, "alignment", self->alignment);
  add_int (builder, "n_steps", self->n_steps);
  add_int (builder, "first_backward", self->first_backward);
  add_int (builder, "first_update", self->first_update);
  add_cards (builder, self);
  add_notes (builder, self);
  add_lists (builder, self);
  begin_list (builder, "blocks");
  for (guint i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (value->root == i && value->bytes > 0 && value->last >= value->first &&
          (value->region == ORTRAIN_REGION_ARENA || value->region == ORTRAIN_REGION_HOST_ARENA))
        add_block (builder, self, value);
    }
  json_builder_end_array (builder);
  begin_list (builder, "steps");
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    add_step (builder, &self->steps[s]);
  json_builder_end_array (builder);
  json_builder_end_object (builder);

  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  return json_generator_to_data (generator, NULL);
}

/* Inside of a script element, "<" could end it. */
static void
append_escaped (GString *page, const char *data)
{
  for (const char *end; *data != '\0'; data = end)
    {
      end = data + strcspn (data, "<");
      g_string_append_len (page, data, end - data);
      if (*end == '<')
        {
          g_string_append (page, "\\u003c");
          end++;
        }
    }
}

/**
 * ortrain_memory_plan_save_html:
 * @self: a plan
 * @path: (type filename): where to write
 * @error: return location for a #GError
 *
 * Writes a page that shows the plan: every block of the arena over the steps, or over estimated milliseconds, with the
 * live bytes, the phases and recomputed values; blocks can be searched by name, filtered by category, and pointed at.
 * The file has all that it needs, and loads nothing from elsewhere.
 *
 * Returns: %FALSE with an error of [error@Gio.IOErrorEnum]
 */
gboolean
ortrain_memory_plan_save_html (OrtrainMemoryPlan *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  g_autoptr (GBytes) template = g_resource_lookup_data (
      ortrain_report_get_resource (), "/org/ortrain/report/plan-page.html", G_RESOURCE_LOOKUP_FLAGS_NONE, error);
  if (template == NULL)
    return FALSE;
  gsize n;
  const char *text = g_bytes_get_data (template, &n), *place = g_strstr_len (text, (gssize) n, PLAN);
  g_assert (place != NULL);
  g_autofree char *data = make_data (self);
  g_autoptr (GString) page = g_string_new_len (text, place - text);
  append_escaped (page, data);
  g_string_append_len (page, place + strlen (PLAN), text + n - place - (gssize) strlen (PLAN));
  return ortrain_file_write_text (path, page->str, error);
}
