/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "standardize.h"

#include "core/ortrain-text-private.h"

#include <math.h>

#define N_AT_ONCE 1024 /* items */
#define STANDARDIZED ".standardized"
#define OLDEST_SET 12 /* which has lists of numbers as constants */

/* For one input: sums over the items, feature by feature. */
typedef struct
{
  const char *name;
  gint64 n_features; /* 0: no item yet */
  double *mean, *spread;
  double n;
} Sums;

static void
clear_sums (gpointer data)
{
  Sums *sums = data;
  g_free (sums->mean);
  g_free (sums->spread);
}

/* x: [n, features] */
static gboolean
add (Sums *sums, OrtrainTensor *x, GError **error)
{
  const gint64 n = ortrain_tensor_get_dim (x, 0), n_features = ortrain_tensor_get_dim (x, 1);
  if (sums->n_features == 0)
    {
      sums->mean = g_new0 (double, (gsize) n_features);
      sums->spread = g_new0 (double, (gsize) n_features);
      sums->n_features = n_features;
    }
  for (gint64 i = 0; i < n; i++)
    {
      sums->n++;
      for (gint64 k = 0; k < n_features; k++)
        {
          const double value = ortrain_tensor_get_scalar (x, i * n_features + k), distance = value - sums->mean[k];
          sums->mean[k] += distance / sums->n; /* Welford's: no cancellation where the mean is large */
          sums->spread[k] += distance * (value - sums->mean[k]);
        }
    }
  for (gint64 k = 0; k < n_features; k++)
    if (!isfinite (sums->spread[k]))
      {
        g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                     "--standardize: feature %" G_GINT64_FORMAT " of '%s' has values that are not finite", k,
                     ortrain_text_show (sums->name));
        return FALSE;
      }
  return TRUE;
}

/* The inputs that can be standardized, without sums. */
static GArray *
find_inputs (OrtrainGraph *graph)
{
  GListModel *inputs = ortrain_graph_get_inputs (graph);
  GArray *found = g_array_new (FALSE, TRUE, sizeof (Sums));
  g_array_set_clear_func (found, clear_sums);
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      const Sums sums = { .name = ortrain_value_get_name (value) };
      if (ortrain_value_get_dtype (value) == ORTRAIN_DTYPE_FLOAT32 && ortrain_value_get_rank (value) == 2)
        g_array_append_val (found, sums);
    }
  return found;
}

static gboolean
add_dataset (GArray *inputs, OrtrainDataset *dataset, GError **error)
{
  const guint64 n = ortrain_dataset_get_length (dataset);
  for (guint64 first = 0; first < n; first += N_AT_ONCE)
    {
      guint64 indices[N_AT_ONCE];
      const gsize count = (gsize) MIN (N_AT_ONCE, n - first);
      for (gsize i = 0; i < count; i++)
        indices[i] = first + i;
      g_autoptr (OrtrainTensorDict) batch = ortrain_dataset_get_batch (dataset, indices, count, error);
      if (batch == NULL)
        return FALSE;
      for (guint i = 0; i < inputs->len; i++)
        {
          Sums *sums = &g_array_index (inputs, Sums, i);
          OrtrainTensor *x = ortrain_tensor_dict_get (batch, sums->name);
          if (x != NULL && ortrain_tensor_get_rank (x) == 2 && !add (sums, x, error))
            return FALSE;
        }
    }
  return TRUE;
}

/* A constant of the graph with one number for each feature. */
static gboolean
add_constant (OrtrainGraph *graph, const char *name, const double *numbers, gint64 n, GError **error)
{
  const char *const outputs[] = { name, NULL };
  const char *const none[] = { NULL };
  OrtrainNode *node = ortrain_graph_add_node (graph, "Constant", NULL, name, none, outputs, error);
  if (node == NULL)
    return FALSE;
  ortrain_node_set_attribute (node, "value_floats",
                              g_variant_new_fixed_array (G_VARIANT_TYPE_DOUBLE, numbers, (gsize) n, sizeof (double)));
  return TRUE;
}

/* (x - mean) / deviation, before all nodes that read x. A feature that never changes is not divided. By their names,
 * both constants are buffers, which are not trained. */
static gboolean
insert (OrtrainGraph *graph, Sums *sums, GError **error)
{
  const double zero = 0;
  g_autofree char *mean = g_strconcat (sums->name, ".mean", NULL);
  g_autofree char *deviation = g_strconcat (sums->name, ".std", NULL);
  g_autofree char *centered = g_strconcat (sums->name, ".centered", NULL);
  g_autofree char *standardized = g_strconcat (sums->name, STANDARDIZED, NULL);
  g_autofree char *place = g_strconcat (sums->name, ".place", NULL);
  for (gint64 k = 0; k < sums->n_features; k++)
    {
      const double spread = sqrt (sums->spread[k] / sums->n);
      sums->spread[k] = spread > 0 ? spread : 1.0;
    }
  /* x itself is moved to `place` when its other uses become those of the result */
  if (!add_constant (graph, place, &zero, 1, error) ||
      !add_constant (graph, mean, sums->mean, sums->n_features, error) ||
      !add_constant (graph, deviation, sums->spread, sums->n_features, error) ||
      ortrain_graph_add_node (graph, "Sub", NULL, centered, (const char *const[]){ place, mean, NULL },
                              (const char *const[]){ centered, NULL }, error) == NULL ||
      ortrain_graph_add_node (graph, "Div", NULL, standardized, (const char *const[]){ centered, deviation, NULL },
                              (const char *const[]){ standardized, NULL }, error) == NULL)
    return FALSE;
  OrtrainValue *x = ortrain_graph_find_value (graph, sums->name), *placed = ortrain_graph_find_value (graph, place);
  return ortrain_graph_replace_value (graph, x, ortrain_graph_find_value (graph, standardized), error) &&
         ortrain_graph_replace_value (graph, placed, x, error) &&
         ortrain_graph_remove_node (graph, ortrain_value_get_producer (placed), error);
}

/* By the name of a value that insert() adds. */
static gboolean
is_standardized (OrtrainGraph *graph)
{
  GListModel *inputs = ortrain_graph_get_inputs (graph);
  gboolean found = FALSE;
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      g_autofree char *name = g_strconcat (ortrain_value_get_name (value), STANDARDIZED, NULL);
      found = found || ortrain_graph_find_value (graph, name) != NULL;
    }
  return found;
}

OrtrainModel *
standardize_load (OrtrainModel *model, const char *checkpoint, GError **error)
{
  g_autoptr (GArray) inputs = find_inputs (ortrain_model_get_file_graph (model));
  if (inputs->len == 0)
    return NULL; /* nor read large contents */
  g_autoptr (OrtrainCheckpoint) loaded = ortrain_checkpoint_load (checkpoint, error);
  GBytes *bytes = loaded != NULL ? ortrain_checkpoint_get_file (loaded, "model.onnx") : NULL;
  /* a model with external data is not ours: it cannot be read from here */
  g_autoptr (OrtrainModel) kept = bytes != NULL ? ortrain_model_new_from_bytes (bytes, NULL, NULL) : NULL;
  return kept != NULL && is_standardized (ortrain_model_get_file_graph (kept)) ? g_steal_pointer (&kept) : NULL;
}

OrtrainModel *
standardize_model (OrtrainModel *model, OrtrainDataset *dataset, GError **error)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_copy (ortrain_model_get_file_graph (model));
  g_autoptr (GArray) inputs = find_inputs (graph);
  if (is_standardized (graph))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "--standardize: the model is standardized already");
      return NULL;
    }
  if (ortrain_model_get_opset (model) < OLDEST_SET)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "--standardize needs a model of operator set %d or later; this one has %" G_GINT64_FORMAT,
                   OLDEST_SET, ortrain_model_get_opset (model));
      return NULL;
    }
  if (!add_dataset (inputs, dataset, error))
    return NULL;
  guint n_standardized = 0;
  for (guint i = 0; i < inputs->len; i++)
    {
      Sums *sums = &g_array_index (inputs, Sums, i);
      if (sums->n_features == 0)
        continue;
      if (!insert (graph, sums, error))
        return NULL;
      n_standardized++;
    }
  if (n_standardized > 0)
    return ortrain_model_new_from_graph (graph, error);
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
               "--standardize: the model has no input [batch, features] of type float32");
  return NULL;
}
