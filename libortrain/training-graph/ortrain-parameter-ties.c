/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parameters that are trained as one: those of the options, and tables that a file holds twice. */
#include "training-graph/ortrain-parameter-ties-private.h"

#include "analysis/ortrain-initializer-heuristics-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-text-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "ops/ortrain-op-private.h"
#include "options/ortrain-name-patterns-private.h"
#include "options/ortrain-training-options-private.h"
#include "tensor/ortrain-tensor-private.h"
#include "training-graph/ortrain-repeated-parameters-private.h"
#include "training-graph/ortrain-training-graph-private.h"

#include <string.h>

/* Smaller tensors may be equal by accident. */
#define MIN_TABLE_ELEMENTS 16

/* ---- a tie ---- */

static OrtrainValue *
find_weight (OrtrainGraph *graph, const char *name, GError **error)
{
  OrtrainValue *value = ortrain_scoped_name_find_initializer (graph, name);
  if (value != NULL && value->tensor != NULL && value->producer == NULL && value->enclosure == NULL)
    return value;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "Cannot tie '%s': the model has no initializer of that name", ortrain_text_show (name));
  return NULL;
}

static gboolean
same_bytes_transposed (OrtrainTensor *a, OrtrainTensor *b)
{
  const gint64 *dims = ortrain_tensor_peek_dims (a);
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (a));
  const guint8 *x = ortrain_tensor_peek (a), *y = ortrain_tensor_peek (b);
  for (gint64 i = 0; i < dims[0]; i++)
    for (gint64 j = 0; j < dims[1]; j++)
      if (memcmp (x + (gsize) (i * dims[1] + j) * size, y + (gsize) (j * dims[0] + i) * size, size) != 0)
        return FALSE;
  return TRUE;
}

/* The second follows the first: its uses read the first, transposed if the shapes say so, or, where they do not say
 * (square), if the contents do. */
static gboolean
apply_tie (OrtrainGraph *graph, OrtrainValue *first, OrtrainValue *second, gboolean *transposed, GError **error)
{
  const gint64 *a = ortrain_tensor_peek_dims (first->tensor), *b = ortrain_tensor_peek_dims (second->tensor);
  gsize rank = ortrain_tensor_get_rank (first->tensor);
  gboolean same = first->dtype == second->dtype && rank == ortrain_tensor_get_rank (second->tensor);
  gboolean equal = same && (rank == 0 || memcmp (a, b, rank * sizeof (gint64)) == 0);
  gboolean turned = same && rank == 2 && a[0] == b[1] && a[1] == b[0];
  if (first == second || (!equal && !turned))
    {
      g_autofree char *x = ortrain_value_describe (first), *y = ortrain_value_describe (second);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "Cannot tie %s and %s: the shapes must be equal, or one the transpose of the other", x, y);
      return FALSE;
    }
  *transposed = !equal || (turned && rank == 2 && !ortrain_tensor_equal (first->tensor, second->tensor) &&
                           same_bytes_transposed (first->tensor, second->tensor));
  OrtrainValue *replacement = first;
  if (*transposed)
    {
      OrtrainNode *node = ortrain_graph_insert_node (graph, graph->nodes->len > 0 ? graph->nodes->pdata[0] : NULL, "",
                                                     "Transpose", NULL, &first, 1, 1);
      const gint64 perm[] = { 1, 0 };
      ortrain_attributes_set_ints (node->attributes, "perm", perm, 2);
      if (!ortrain_ops_infer_node (node, error))
        return FALSE;
      replacement = ortrain_node_output (node, 0);
    }
  ortrain_value_replace_uses (second, replacement);
  ortrain_graph_delete_value (graph, second);
  return TRUE;
}

/* The same, and remembered. */
static gboolean
add_tie (OrtrainGraph *graph, OrtrainValue *first, OrtrainValue *second, GArray *ties, GError **error)
{
  OrtrainTrainingTie tie = { 0 };
  g_autofree char *first_in_file = g_strdup (first->name), *second_in_file = g_strdup (second->name);
  if (!apply_tie (graph, first, second, &tie.transposed, error))
    return FALSE;
  tie.first = g_steal_pointer (&first_in_file);
  tie.second = g_steal_pointer (&second_in_file);
  g_array_append_val (ties, tie);
  return TRUE;
}

/* ---- tables ---- */

static gboolean
is_candidate (const OrtrainValue *value)
{
  return value->tensor != NULL && value->producer == NULL && value->enclosure == NULL && value->rank == 2 &&
         !value->is_output && value->uses.n > 0 && ortrain_dtype_is_floating (value->dtype) &&
         ortrain_tensor_get_n_elements (value->tensor) >= MIN_TABLE_ELEMENTS &&
         ortrain_tensor_peek_unaligned (value->tensor) != NULL;
}

/* Whether its rows are looked up. *multiplies: it is a factor of a matrix product, too. */
static gboolean
is_table (const OrtrainValue *value, gboolean *multiplies)
{
  gboolean looked_up = FALSE;
  *multiplies = FALSE;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse *use = &value->uses.items[u];
      looked_up = looked_up || (ortrain_node_get_kind (use->node) == ORTRAIN_OP_KIND_LOOKUP && use->index == 0);
      *multiplies = *multiplies || (use->node->op != NULL && use->node->op->channels == ORTRAIN_CHANNELS_PRODUCT);
    }
  return looked_up;
}

/* Equal for equal tensors, one perhaps transposed: sizes, and the first and the last element. */
static char *
make_key (OrtrainTensor *tensor)
{
  const gint64 *dims = ortrain_tensor_peek_dims (tensor);
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (tensor));
  const guint8 *data = ortrain_tensor_peek_unaligned (tensor);
  guint64 first = 0, last = 0;
  memcpy (&first, data, MIN (size, sizeof first));
  memcpy (&last, data + ortrain_tensor_get_n_bytes (tensor) - size, MIN (size, sizeof last));
  return g_strdup_printf (
      "%u %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_MODIFIER "x %" G_GINT64_MODIFIER "x",
      (guint) ortrain_tensor_get_dtype (tensor), MIN (dims[0], dims[1]), MAX (dims[0], dims[1]), first, last);
}

static gboolean
are_equal (OrtrainTensor *a, OrtrainTensor *b)
{
  const gint64 *x = ortrain_tensor_peek_dims (a), *y = ortrain_tensor_peek_dims (b);
  return (x[0] == y[0] && x[1] == y[1] &&
          memcmp (ortrain_tensor_peek_unaligned (a), ortrain_tensor_peek_unaligned (b),
                  ortrain_tensor_get_n_bytes (a)) == 0) ||
         (x[0] == y[1] && x[1] == y[0] && ortrain_tensor_peek (a) != NULL && ortrain_tensor_peek (b) != NULL &&
          same_bytes_transposed (a, b));
}

/* Whether the options treat both alike. */
static gboolean
are_chosen_alike (OrtrainTrainingOptions *options, const OrtrainValue *a, const OrtrainValue *b)
{
  const char *a_scoped = ortrain_scoped_name_of (a), *b_scoped = ortrain_scoped_name_of (b);
  OrtrainOptimizer *optimizer = ortrain_training_options_get_optimizer (options);
  g_auto (OrtrainNamePatterns) frozen;
  ortrain_name_patterns_init (&frozen, ortrain_training_options_get_frozen (options));
  const gboolean a_frozen = ortrain_name_patterns_match_scoped (&frozen, a->name, a_scoped)->len > 0;
  const gboolean b_frozen = ortrain_name_patterns_match_scoped (&frozen, b->name, b_scoped)->len > 0;
  return a_frozen == b_frozen && (optimizer == NULL || ortrain_optimizer_find_group (optimizer, a->name, a_scoped) ==
                                                           ortrain_optimizer_find_group (optimizer, b->name, b_scoped));
}

/* A word embedding that is the weight of the output, too, is one parameter of the program; exporters that transpose the
 * weights of products store it twice. Random numbers are equal in a table and in another weight for this reason alone:
 * layers that were copied are alike in their use, too. */
static gboolean
tie_tables (OrtrainGraph *graph, OrtrainTrainingOptions *options, GArray *ties, GStrvBuilder *notes, GError **error)
{
  g_autoptr (GHashTable) tables = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GPtrArray) weights = g_ptr_array_new ();
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      gboolean multiplies;
      if (!is_candidate (value))
        continue;
      if (!is_table (value, &multiplies))
        {
          if (multiplies)
            g_ptr_array_add (weights, value);
        }
      else if (!ortrain_initializer_heuristics_are_equal (value->tensor))
        g_hash_table_insert (tables, make_key (value->tensor), value);
    }
  for (guint i = 0; i < weights->len && g_hash_table_size (tables) > 0; i++)
    {
      OrtrainValue *weight = weights->pdata[i];
      g_autofree char *key = make_key (weight->tensor), *name = g_strdup (weight->name);
      OrtrainValue *table = g_hash_table_lookup (tables, key);
      if (table == NULL || !are_equal (table->tensor, weight->tensor) || !are_chosen_alike (options, table, weight))
        continue;
      if (!add_tie (graph, table, weight, ties, error))
        return FALSE;
      g_autofree char *note = g_strdup_printf ("'%s', a table, and '%s', a weight, hold the same values: they are "
                                               "trained as one (names in 'trainable', as \"*\", train "
                                               "them apart)",
                                               ortrain_text_show (table->name), ortrain_text_show (name));
      g_strv_builder_add (notes, note);
    }
  return TRUE;
}

/* ---- all ---- */

gboolean
ortrain_parameter_ties_apply (OrtrainGraph *graph, OrtrainTrainingOptions *options, GArray *ties, GStrvBuilder *notes,
                              GError **error)
{
  for (guint i = 0; i < ortrain_training_options_get_n_ties (options); i++)
    {
      const char *second_name;
      const char *first_name = ortrain_training_options_get_tie (options, i, &second_name);
      OrtrainValue *first = find_weight (graph, first_name, error);
      OrtrainValue *second = first != NULL ? find_weight (graph, second_name, error) : NULL;
      if (second == NULL || !add_tie (graph, first, second, ties, error))
        return FALSE;
    }
  /* a user who names the trained tensors decides which are separate */
  return ortrain_training_options_get_trainable (options) != NULL || tie_tables (graph, options, ties, notes, error);
}

gboolean
ortrain_parameter_ties_apply_repeated (OrtrainGraph *graph, OrtrainTrainingOptions *options, GArray *ties,
                                       GStrvBuilder *notes, GError **error)
{
  if (ortrain_training_options_get_trainable (options) != NULL)
    return TRUE;
  g_autoptr (GHashTable) trained = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < graph->initializers->len; i++)
    if (((OrtrainValue *) graph->initializers->pdata[i])->role == ORTRAIN_ROLE_PARAMETER)
      g_hash_table_add (trained, graph->initializers->pdata[i]);
  g_autoptr (GArray) repeated = ortrain_repeated_parameters_find (graph, trained);
  for (guint i = 0; i < repeated->len; i++)
    {
      const OrtrainRepeatedParameter *one = &g_array_index (repeated, OrtrainRepeatedParameter, i);
      ortrain_repeated_parameters_add_note (one->first->name, one->second->name, notes);
      if (!add_tie (graph, one->first, one->second, ties, error))
        return FALSE;
    }
  return TRUE;
}
