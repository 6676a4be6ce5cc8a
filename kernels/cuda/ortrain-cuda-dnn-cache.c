/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-choices-private.h"
#include "cuda/ortrain-cuda-dnn-private.h"

/* The entries of cuDNN in the disk cache: for a graph, the engines that the heuristics named, in their order, and which
 * of them was the fastest. */

#define ENGINES_KIND "cudnn-engines"
#define FASTEST_KIND "cudnn-fastest"

guint
ortrain_dnn_cache_read_engines (const char *key, OrtrainDnnEngine *engines)
{
  gsize n, next = 0;
  guint n_engines = 0;
  g_autofree gint64 *numbers = ortrain_cuda_choices_read (ENGINES_KIND, key, &n);
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
  ortrain_cuda_choices_write (ENGINES_KIND, key, (const gint64 *) (void *) numbers->data, numbers->len);
}

gint
ortrain_dnn_cache_read_fastest (const OrtrainCudaProvider *provider, const char *key, const OrtrainDnnEngine *engines,
                                guint n_engines)
{
  gint64 numbers[ORTRAIN_DNN_MAX_ENGINES];
  for (guint i = 0; i < n_engines; i++)
    numbers[i] = engines[i].number;
  return ortrain_cuda_choices_read_fastest (provider, FASTEST_KIND, key, numbers, 1, n_engines);
}

void
ortrain_dnn_cache_write_fastest (const char *key, const OrtrainDnnEngine *engines, guint place)
{
  gint64 numbers[ORTRAIN_DNN_MAX_ENGINES];
  for (guint i = 0; i <= place; i++)
    numbers[i] = engines[i].number;
  ortrain_cuda_choices_write_fastest (FASTEST_KIND, key, numbers, 1, place);
}
