/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-pack-csv.h"

#include "core/ortrain-errors.h"
#include "memory/ortrain-planner-private.h"

/**
 * ortrain_memory_plan_pack_csv:
 * @path: (type filename): a table `id,lower,upper,size` as MiniMalloc has them: the buffer lives from time `lower` up to,
 *   not including, `upper`
 * @peak_bytes: (out): bytes that the packed buffers take
 * @lower_bound_bytes: (out): bytes that any packing takes: the most that live at one time
 * @n_buffers: (out): the number of buffers
 * @error: return location for an error
 *
 * Packs the buffers of a file with the packer that plans are made with.
 *
 * Returns: %FALSE with an error of [error@PlanError] that names the line
 */
gboolean
ortrain_memory_plan_pack_csv (const char *path, guint64 *peak_bytes, guint64 *lower_bound_bytes, guint *n_buffers,
                              GError **error)
{
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (peak_bytes != NULL && lower_bound_bytes != NULL && n_buffers != NULL, FALSE);
  g_autofree char *text = NULL;
  if (!g_file_get_contents (path, &text, NULL, error))
    return FALSE;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr (GArray) items = g_array_new (FALSE, TRUE, sizeof (OrtrainPackItem));
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) cells = g_strsplit (g_strstrip (lines[i]), ",", -1);
      if (lines[i][0] == '\0' || (i == 0 && g_ascii_isalpha (lines[i][0])))
        continue;
      gint64 lower, upper, size;
      if (g_strv_length (cells) < 4 || !g_ascii_string_to_signed (cells[1], 10, 0, G_MAXINT64, &lower, NULL) ||
          !g_ascii_string_to_signed (cells[2], 10, 0, G_MAXINT64, &upper, NULL) ||
          !g_ascii_string_to_signed (cells[3], 10, 0, G_MAXINT64 / 4, &size, NULL))
        {
          g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID, "%s:%u: not 'id,lower,upper,size': %.80s", path,
                       i + 1, lines[i]);
          return FALSE;
        }
      if (lower > upper)
        {
          gint64 swap = lower;
          lower = upper;
          upper = swap;
        }
      OrtrainPackItem item = { .first = lower, .last = MAX (upper - 1, lower), .bytes = (gsize) size, .alignment = 1 };
      g_array_append_val (items, item);
    }
  gsize lower_bound = 0;
  *peak_bytes = ortrain_pack ((OrtrainPackItem *) (gpointer) items->data, items->len, &lower_bound);
  *lower_bound_bytes = lower_bound;
  *n_buffers = items->len;
  return TRUE;
}
