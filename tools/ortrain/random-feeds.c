/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include <math.h>
#include <string.h>

/* Small, quick and the same everywhere; only for benchmarks. */
typedef struct
{
  guint64 state;
} Random;

static guint32
next (Random *random)
{
  random->state = random->state * 6364136223846793005u + 1442695040888963407u;
  return (guint32) (random->state >> 33);
}

static float
next_normal (Random *random)
{
  double u = ((double) next (random) + 1.0) / 2147483649.0, v = (double) next (random) / 2147483648.0;
  return (float) (sqrt (-2.0 * log (u)) * cos (2.0 * G_PI * v));
}

/* Rows of the table that a Gather reads with this value as its indices: what ids must stay below. 0: no such table. */
static gint64
find_table_rows (OrtrainValue *value, guint depth)
{
  g_autoptr (GListModel) consumers = ortrain_value_get_consumers (value);
  for (guint i = 0; i < g_list_model_get_n_items (consumers); i++)
    {
      g_autoptr (OrtrainNode) node = g_list_model_get_item (consumers, i);
      if (g_str_equal (ortrain_node_get_op_type (node), "Gather") && ortrain_node_get_input (node, 1) == value)
        return ortrain_value_get_dim (ortrain_node_get_input (node, 0), 0);
      static const char *const pass[] = { "Cast", "Reshape", "Identity", "Unsqueeze", "Squeeze", NULL };
      if (depth < 4 && g_strv_contains (pass, ortrain_node_get_op_type (node)))
        {
          gint64 rows = find_table_rows (ortrain_node_get_output (node, 0), depth + 1);
          if (rows > 0)
            return rows;
        }
    }
  return 0;
}

/* [rank]: numbers stay, the first dimension becomes batch, any other seq. */
static gsize
fill_dims (OrtrainValue *value, gint64 batch, gint64 seq, gint64 *dims)
{
  gint rank = ortrain_value_get_rank (value);
  for (gint i = 0; i < rank; i++)
    {
      dims[i] = ortrain_value_get_dim (value, (guint) i);
      if (dims[i] < 0)
        dims[i] = i == 0 ? batch : seq;
    }
  return (gsize) MAX (rank, 0);
}

static OrtrainTensor *
make_tensor (OrtrainDType dtype, const gint64 *dims, gsize rank, gint64 limit, Random *random, GError **error)
{
  gint64 n = 1;
  for (gsize i = 0; i < rank; i++)
    n *= dims[i];
  if (dtype == ORTRAIN_DTYPE_INT64)
    {
      g_autofree gint64 *ints = g_new (gint64, n + 1);
      for (gint64 i = 0; i < n; i++)
        ints[i] = limit > 0 ? (gint64) next (random) % limit : 1;
      return ortrain_tensor_new_ints (dims, rank, ints, (gsize) n, error);
    }
  g_autofree float *floats = g_new (float, n + 1);
  for (gint64 i = 0; i < n; i++)
    floats[i] = ortrain_dtype_is_floating (dtype) ? next_normal (random) : 1.0f;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (dims, rank, floats, (gsize) n, error);
  return tensor == NULL || dtype == ORTRAIN_DTYPE_FLOAT32 ? g_steal_pointer (&tensor)
                                                          : ortrain_tensor_cast (tensor, dtype, error);
}

OrtrainTensorDict *
command_random_feeds (OrtrainModel *model, const char *output, const char *target, gboolean classes, gint64 batch,
                      gint64 seq, GError **error)
{
  OrtrainGraph *graph = ortrain_model_get_graph (model, error);
  if (graph == NULL)
    return NULL;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  Random random = { 88172645463325252u };
  gint64 dims[16];
  GListModel *inputs = ortrain_graph_get_inputs (graph);
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      gsize rank = fill_dims (value, batch, seq, dims);
      g_autoptr (OrtrainTensor) tensor =
          make_tensor (ortrain_value_get_dtype (value), dims, rank, find_table_rows (value, 0), &random, error);
      if (tensor == NULL)
        return NULL;
      ortrain_tensor_dict_set (feeds, ortrain_value_get_name (value), tensor);
    }
  OrtrainValue *logits = ortrain_graph_find_value (graph, output);
  if (logits == NULL)
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "The model has no output '%s'", output);
      return NULL;
    }
  gsize rank = fill_dims (logits, batch, seq, dims);
  g_autoptr (OrtrainTensor) labels = NULL;
  if (!classes)
    labels = make_tensor (ortrain_value_get_dtype (logits), dims, rank, 0, &random, error);
  else if (rank > 0)
    labels = make_tensor (ORTRAIN_DTYPE_INT64, dims, rank - 1, dims[rank - 1], &random, error);
  else
    g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE, "The output '%s' has no axis of classes",
                 output);
  if (labels == NULL)
    return NULL;
  ortrain_tensor_dict_set (feeds, target, labels);
  return g_steal_pointer (&feeds);
}
