/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "planner/ortrain-packer-private.h"

#include <string.h>

/* Packing alone, of buffers that are listed in a file: to compare packers, and to look at their results. */

#define MAX_TIME 10000000
#define MAX_BUFFERS 1000000
#define MAX_FILE_BYTES ((gsize) 128 * MAX_BUFFERS)
#define EFFORT G_GUINT64_CONSTANT (2000000000)

static gboolean
fail_at (GError **error, const char *path, gsize line, const char *message)
{
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID, "%s, line %" G_GSIZE_FORMAT ": %s",
               ortrain_text_show_path (path), line, message);
  return FALSE;
}

/* Columns may have any order; others than these four are passed over. */
static gboolean
read_header (const char *path, const char *line, int columns[4], GError **error)
{
  static const char *const names[] = { "id", "lower", "upper", "size" };
  g_auto (GStrv) fields = g_strsplit (line, ",", -1);
  for (guint k = 0; k < 4; k++)
    {
      columns[k] = -1;
      for (int i = 0; fields[i] != NULL; i++)
        if (g_str_equal (g_strstrip (fields[i]), names[k]))
          columns[k] = i;
      if (columns[k] < 0)
        return fail_at (error, path, 1, "the columns id, lower, upper and size are needed");
    }
  return TRUE;
}

static gboolean
read_buffer (OrtrainMemoryPlan *self, const char *path, gsize number, const char *line, const int columns[4],
             GError **error)
{
  g_auto (GStrv) fields = g_strsplit (line, ",", -1);
  const int n_fields = (int) g_strv_length (fields);
  gint64 numbers[4] = { 0 };
  for (guint k = 0; k < 4; k++)
    {
      if (columns[k] >= n_fields)
        return fail_at (error, path, number, "a column is missing");
      g_strstrip (fields[columns[k]]);
      if (k > 0 && !g_ascii_string_to_signed (fields[columns[k]], 10, 0, k == 3 ? G_MAXINT64 / MAX_BUFFERS : MAX_TIME,
                                              &numbers[k], NULL))
        return fail_at (error, path, number, "times and sizes must be whole numbers, not too large");
    }
  if (numbers[1] >= numbers[2])
    return fail_at (error, path, number, "upper must be larger than lower");
  OrtrainPlanValue *value = &self->values[self->n_values];
  *value = (OrtrainPlanValue){
    .root = self->n_values,
    .bytes = (gsize) numbers[3],
    .region = ORTRAIN_REGION_ARENA,
    .category = ORTRAIN_CATEGORY_TEMPORARY,
    .first = (gint32) numbers[1],
    .last = (gint32) numbers[2] - 1,
    .name = g_string_chunk_insert (self->names, fields[columns[0]]),
  };
  self->n_values++;
  self->n_steps = MAX (self->n_steps, (guint) numbers[2]);
  return TRUE;
}

/**
 * ortrain_memory_plan_new_from_csv:
 * @path: (type filename): a file with one buffer a line
 * @error: return location for a #GError
 *
 * Packs buffers whose sizes and lifetimes are in a CSV file with the columns `id`, `lower`, `upper` and `size`, the
 * format of MiniMalloc's instances: a buffer of `size` bytes is live from time `lower` to before `upper`. Hard
 * instances are searched for up to half a minute.
 *
 * Returns: (transfer full): a plan without steps of its own; %NULL with %ORTRAIN_PLAN_ERROR_INVALID or an error of
 *   [error@GLib.FileError]
 */
OrtrainMemoryPlan *
ortrain_memory_plan_new_from_csv (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);

  g_autofree char *text = NULL;
  gsize size;
  if (!ortrain_text_file_read (path, MAX_FILE_BYTES, &text, &size, error))
    return NULL;
  g_auto (GStrv) lines = g_strsplit (text, "\n", MAX_BUFFERS + 2);
  const gsize n_lines = g_strv_length (lines);
  int columns[4];
  if (n_lines > MAX_BUFFERS + 1)
    {
      fail_at (error, path, n_lines, "too many buffers");
      return NULL;
    }
  if (!read_header (path, n_lines > 0 ? lines[0] : "", columns, error))
    return NULL;

  g_autoptr (OrtrainMemoryPlan) self = g_object_new (ORTRAIN_TYPE_MEMORY_PLAN, NULL);
  self->alignment = 1;
  self->names = g_string_chunk_new (4096);
  self->values = g_new0 (OrtrainPlanValue, n_lines + 1);
  for (gsize i = 1; i < n_lines; i++)
    {
      g_strstrip (lines[i]);
      if (*lines[i] != '\0' && !read_buffer (self, path, i + 1, lines[i], columns, error))
        return NULL;
    }
  self->first_backward = self->first_update = self->n_steps;

  g_autofree OrtrainPackItem *items = g_new0 (OrtrainPackItem, self->n_values + 1);
  for (guint i = 0; i < self->n_values; i++)
    items[i] = (OrtrainPackItem){
      .first = self->values[i].first, .last = self->values[i].last, .bytes = self->values[i].bytes, .alignment = 1
    };
  self->arena_bytes = ortrain_pack_with_effort (items, self->n_values, EFFORT, &self->lower_bound_bytes);
  for (guint i = 0; i < self->n_values; i++)
    self->values[i].offset = items[i].offset;
  ortrain_memory_plan_measure (self);
  return g_steal_pointer (&self);
}
