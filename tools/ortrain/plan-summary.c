/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan-summary.h"

#include "command.h"
#include "core/ortrain-text-private.h"

#include <math.h>

const char *const plan_summary_persistent[] = { "parameter", "gradient", "state", "buffer" };

static void
blocks_free (gpointer data)
{
  PlanBlocks *blocks = data;
  g_free (blocks->name);
  g_free (blocks->category);
  g_free (blocks);
}

void
plan_summary_free (PlanSummary *self)
{
  g_free (self->peak_node);
  g_free (self->peak_operator);
  g_free (self->peak_phase);
  g_free (self->gradients_kept);
  g_hash_table_unref (self->blocks);
  g_free (self);
}

/* ---- Members of a file that anybody may have written ---- */

typedef struct
{
  const char *file;
  const char *wrong; /* the first member that is missing or malformed; or NULL */
} Reading;

static JsonNode *
find (Reading *reading, JsonObject *object, const char *name, JsonNodeType type)
{
  JsonNode *node = object != NULL ? json_object_get_member (object, name) : NULL;
  if (node != NULL && json_node_get_node_type (node) == type)
    return node;
  if (reading->wrong == NULL)
    reading->wrong = name;
  return NULL;
}

static double
get_number (Reading *reading, JsonObject *object, const char *name)
{
  JsonNode *node = find (reading, object, name, JSON_NODE_VALUE);
  const GType type = node != NULL ? json_node_get_value_type (node) : G_TYPE_INVALID;
  const double number = type == G_TYPE_INT64 || type == G_TYPE_DOUBLE ? json_node_get_double (node) : NAN;
  if (!isfinite (number) && reading->wrong == NULL)
    reading->wrong = name;
  return number;
}

/* At least `least`. */
static gint64
get_int (Reading *reading, JsonObject *object, const char *name, gint64 least)
{
  JsonNode *node = find (reading, object, name, JSON_NODE_VALUE);
  const gboolean is_int = node != NULL && json_node_get_value_type (node) == G_TYPE_INT64;
  const gint64 number = is_int ? json_node_get_int (node) : least - 1;
  if (number < least && reading->wrong == NULL)
    reading->wrong = name;
  return MAX (number, least);
}

static const char *
get_string (Reading *reading, JsonObject *object, const char *name)
{
  JsonNode *node = find (reading, object, name, JSON_NODE_VALUE);
  const char *text = node != NULL ? json_node_get_string (node) : NULL;
  if (text == NULL && reading->wrong == NULL)
    reading->wrong = name;
  return text != NULL ? text : "";
}

static JsonObject *
get_object (Reading *reading, JsonObject *object, const char *name)
{
  JsonNode *node = find (reading, object, name, JSON_NODE_OBJECT);
  return node != NULL ? json_node_get_object (node) : NULL;
}

/* A member that is an array of objects. */
static GList *
get_objects (Reading *reading, JsonObject *object, const char *name)
{
  JsonNode *node = find (reading, object, name, JSON_NODE_ARRAY);
  GList *all = node != NULL ? json_array_get_elements (json_node_get_array (node)) : NULL;
  for (GList *each = all; each != NULL; each = each->next)
    if (!JSON_NODE_HOLDS_OBJECT (each->data))
      {
        if (reading->wrong == NULL)
          reading->wrong = name;
        g_list_free (all);
        return NULL;
      }
  return all;
}

/* ---- The plan ---- */

static void
read_blocks (PlanSummary *self, Reading *reading, JsonObject *plan)
{
  g_autoptr (GList) all = get_objects (reading, plan, "blocks");
  for (GList *each = all; each != NULL && reading->wrong == NULL; each = each->next)
    {
      JsonObject *block = json_node_get_object (each->data);
      const char *name = get_string (reading, block, "name"), *category = get_string (reading, block, "category");
      const guint64 bytes = (guint64) get_int (reading, block, "bytes", 0);
      const gint64 first = get_int (reading, block, "first", -1), last = get_int (reading, block, "last", -1);
      /* a value may be an activation of one plan, and a temporary of the other */
      g_autofree char *key = g_strconcat (g_str_equal (category, "workspace") ? "w" : "v", name, NULL);
      PlanBlocks *blocks = g_hash_table_lookup (self->blocks, key);
      if (blocks == NULL)
        {
          blocks = g_new0 (PlanBlocks, 1);
          blocks->name = g_strdup (name);
          blocks->category = g_strdup (category);
          g_hash_table_insert (self->blocks, g_steal_pointer (&key), blocks);
        }
      blocks->bytes += bytes;
      if (first <= (gint64) self->peak_step && last >= (gint64) self->peak_step)
        blocks->at_peak += bytes;
      if (g_str_equal (category, "activation"))
        {
          self->kept += bytes;
          self->n_kept++;
        }
    }
}

static void
read_recomputed (PlanSummary *self, Reading *reading, JsonObject *plan)
{
  g_autoptr (GList) steps = get_objects (reading, plan, "steps");
  g_autoptr (GList) again = get_objects (reading, plan, "recompute");
  g_autoptr (GPtrArray) by_index = g_ptr_array_new ();
  for (GList *each = steps; each != NULL; each = each->next)
    g_ptr_array_add (by_index, json_node_get_object (each->data));
  for (GList *each = again; each != NULL && reading->wrong == NULL; each = each->next)
    {
      const gint64 step = get_int (reading, json_node_get_object (each->data), "step", 0);
      self->n_recomputed++;
      if (step < (gint64) by_index->len)
        self->recomputed_flops += get_number (reading, by_index->pdata[step], "flops");
    }
}

static void
read_peak (PlanSummary *self, Reading *reading, JsonObject *plan)
{
  JsonObject *peak = get_object (reading, plan, "peak");
  self->peak_step = (guint) get_int (reading, peak, "step", 0);
  self->peak_live = (guint64) get_int (reading, peak, "live_bytes", 0);
  if (peak == NULL || !json_object_has_member (peak, "node"))
    return;
  self->peak_node = g_strdup (get_string (reading, peak, "node"));
  self->peak_operator = g_strdup (get_string (reading, peak, "operator"));
  self->peak_phase = g_strdup (get_string (reading, peak, "phase"));
}

PlanSummary *
plan_summary_new (JsonNode *node, const char *name, GError **error)
{
  Reading reading = { .file = name };
  JsonObject *plan = node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  g_autoptr (PlanSummary) self = g_new0 (PlanSummary, 1);
  self->blocks = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, blocks_free);
  self->peak = (guint64) get_int (&reading, plan, "peak_bytes", 0);
  self->arena = (guint64) get_int (&reading, plan, "arena_bytes", 0);
  self->lower_bound = (guint64) get_int (&reading, plan, "lower_bound_bytes", 0);
  self->persistent = (guint64) get_int (&reading, plan, "persistent_bytes", 0);
  self->n_steps = (guint) get_int (&reading, plan, "n_steps", 0);
  self->flops = get_number (&reading, plan, "flops");
  self->bytes_moved = get_number (&reading, plan, "bytes_moved");
  self->milliseconds = get_number (&reading, plan, "milliseconds");
  JsonObject *persistent = get_object (&reading, plan, "persistent");
  for (guint c = 0; c < PLAN_SUMMARY_N_PERSISTENT; c++)
    if (persistent != NULL && json_object_has_member (persistent, plan_summary_persistent[c]))
      self->by_category[c] = (guint64) get_int (&reading, persistent, plan_summary_persistent[c], 0);
  JsonObject *gradients = get_object (&reading, plan, "gradients");
  if (gradients != NULL && json_object_has_member (gradients, "kept_because") &&
      !json_object_get_null_member (gradients, "kept_because"))
    self->gradients_kept = g_strdup (get_string (&reading, gradients, "kept_because"));
  read_peak (self, &reading, plan);
  read_recomputed (self, &reading, plan);
  read_blocks (self, &reading, plan);
  if (reading.wrong == NULL)
    return g_steal_pointer (&self);
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID,
               "%s is no plan as `ortrain plan --json` prints it: its member '%s' is missing or wrong",
               ortrain_text_show (name), reading.wrong);
  return NULL;
}
