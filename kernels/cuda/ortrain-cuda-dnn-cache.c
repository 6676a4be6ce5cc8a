/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-dnn-private.h"

#include <string.h>

/* What the disk cache has of cuDNN, all as whole numbers of 8 bytes, little-endian: of a graph the engines that the
 * heuristics named, in their order, and which of them was the fastest. */

#define ENGINES_KIND "cudnn-engines"
#define FASTEST_KIND "cudnn-fastest"

static gint64 *
read_numbers (const char *kind, const char *key, gsize *n)
{
  g_autoptr (GBytes) found = ortrain_cuda_library->disk_cache_lookup (kind, key, strlen (key));
  *n = 0;
  if (found == NULL || g_bytes_get_size (found) % sizeof (gint64) != 0)
    return NULL;
  *n = g_bytes_get_size (found) / sizeof (gint64);
  gint64 *numbers = g_new (gint64, *n + 1);
  if (*n > 0)
    memcpy (numbers, g_bytes_get_data (found, NULL), *n * sizeof *numbers);
  for (gsize i = 0; i < *n; i++)
    numbers[i] = GINT64_FROM_LE (numbers[i]);
  return numbers;
}

static void
write_numbers (const char *kind, const char *key, gint64 *numbers, gsize n)
{
  for (gsize i = 0; i < n; i++)
    numbers[i] = GINT64_TO_LE (numbers[i]);
  g_autoptr (GBytes) bytes = g_bytes_new (numbers, n * sizeof *numbers);
  ortrain_cuda_library->disk_cache_store (kind, key, strlen (key), bytes);
}

guint
ortrain_dnn_cache_read_engines (const char *key, OrtrainDnnEngine *engines)
{
  gsize n, next = 0;
  guint n_engines = 0;
  g_autofree gint64 *numbers = read_numbers (ENGINES_KIND, key, &n);
  while (n - next >= 3)
    {
      const gint64 n_knobs = numbers[next + 2];
      if (n_engines == ORTRAIN_DNN_MAX_ENGINES || n_knobs < 0 || n_knobs > ORTRAIN_DNN_MAX_KNOBS ||
          (gsize) n_knobs * 2 > n - next - 3)
        return 0;
      OrtrainDnnEngine *engine = &engines[n_engines++];
      *engine = (OrtrainDnnEngine){ numbers[next], numbers[next + 1], (guint) n_knobs, { { 0 } } };
      next += 3;
      for (guint k = 0; k < engine->n_knobs; k++, next += 2)
        {
          engine->knobs[k].type = numbers[next];
          engine->knobs[k].value = numbers[next + 1];
        }
    }
  return next == n ? n_engines : 0;
}

void
ortrain_dnn_cache_write_engines (const char *key, const OrtrainDnnEngine *engines, guint n_engines)
{
  g_autoptr (GArray) numbers = g_array_new (FALSE, FALSE, sizeof (gint64));
  for (guint i = 0; i < n_engines; i++)
    {
      const OrtrainDnnEngine *engine = &engines[i];
      const gint64 head[] = { engine->number, engine->workspace_bytes, engine->n_knobs };
      g_array_append_vals (numbers, head, G_N_ELEMENTS (head));
      for (guint k = 0; k < engine->n_knobs; k++)
        {
          const gint64 knob[] = { engine->knobs[k].type, engine->knobs[k].value };
          g_array_append_vals (numbers, knob, G_N_ELEMENTS (knob));
        }
    }
  write_numbers (ENGINES_KIND, key, (gint64 *) (void *) numbers->data, numbers->len);
}

gint
ortrain_dnn_cache_read_fastest (const char *key, const OrtrainDnnEngine *engines, guint n_engines)
{
  gsize n;
  g_autofree gint64 *numbers = read_numbers (FASTEST_KIND, key, &n);
  return n == 2 && numbers[0] >= 0 && numbers[0] < n_engines && engines[numbers[0]].number == numbers[1]
             ? (gint) numbers[0]
             : -1;
}

void
ortrain_dnn_cache_write_fastest (const char *key, const OrtrainDnnEngine *engines, guint place)
{
  gint64 numbers[] = { place, engines[place].number };
  write_numbers (FASTEST_KIND, key, numbers, G_N_ELEMENTS (numbers));
}
