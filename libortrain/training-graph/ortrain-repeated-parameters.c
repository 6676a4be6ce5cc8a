/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-repeated-parameters-private.h"

#include "core/ortrain-text-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "model/ortrain-model-private.h"
#include "ops/ortrain-op-private.h"

#include <string.h>

#define MIN_ELEMENTS 8

static gboolean
is_numbered (const OrtrainValue *value)
{
  return value->provenance == ORTRAIN_PROVENANCE_MADE || value->provenance == ORTRAIN_PROVENANCE_FORM;
}

static gboolean
is_table (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    if (value->uses.items[u].index == 0 && ortrain_node_get_kind (value->uses.items[u].node) == ORTRAIN_OP_KIND_LOOKUP)
      return TRUE;
  return FALSE;
}

static gboolean
has_parameters (OrtrainGraph *graph, const char *module)
{
  const gsize n = strlen (module);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      const char *name = ((const OrtrainValue *) graph->initializers->pdata[i])->name;
      if (strncmp (name, module, n) == 0 && name[n] == '.')
        return TRUE;
    }
  return FALSE;
}

/* Whether `again` is `module`, as it is or as the exporter calls it when it is called again: "query_1", of which the
 * file has no parameters. NULL is the outermost module. */
static gboolean
is_module_again (OrtrainGraph *graph, const char *module, const char *again)
{
  if (g_strcmp0 (module, again) == 0)
    return TRUE;
  const gsize n = module != NULL ? strlen (module) : 0, n_again = again != NULL ? strlen (again) : 0;
  return n > 0 && n_again > n + 1 && strncmp (module, again, n) == 0 && again[n] == '_' &&
         strspn (again + n + 1, G_CSET_DIGITS) == n_again - n - 1 && !has_parameters (graph, again);
}

/* Where the file names modules. */
static gboolean
share_module (const OrtrainValue *a, const OrtrainValue *b)
{
  OrtrainGraph *graph = a->graph;
  if (graph->labels == NULL || graph->labels->len < 2)
    return FALSE;
  for (guint i = 0; i < a->uses.n; i++)
    for (guint k = 0; k < b->uses.n; k++)
      {
        const char *x = ortrain_graph_get_label (graph, a->uses.items[i].node->scope),
                   *y = ortrain_graph_get_label (graph, b->uses.items[k].node->scope);
        if (is_module_again (graph, x, y) || is_module_again (graph, y, x))
          return TRUE;
      }
  return FALSE;
}

/* Whether the file calls both, and by different names. */
static gboolean
differ_in_name (const OrtrainValue *first, const OrtrainValue *second)
{
  const char *a = ortrain_scoped_name_of (first), *b = ortrain_scoped_name_of (second);
  g_autofree char *module = ortrain_scoped_name_dup_module (a), *other = ortrain_scoped_name_dup_module (b);
  if (b == NULL || g_str_equal (b, first->name) || g_strcmp0 (a, b) == 0)
    return FALSE;
  return a == NULL || g_strcmp0 (strrchr (a, '.'), strrchr (b, '.')) != 0 ||
         !(is_module_again (first->graph, module, other) || is_module_again (first->graph, other, module));
}

GArray *
ortrain_repeated_parameters_find (OrtrainGraph *graph, GHashTable *trained)
{
  GArray *found = g_array_new (FALSE, FALSE, sizeof (OrtrainRepeatedParameter));
  g_autoptr (GHashTable) roots = g_hash_table_new (NULL, NULL); /* repeated → the parameter that it is */
  gboolean any = FALSE;
  for (guint i = 0; i < graph->initializers->len && !any; i++)
    any = is_numbered (graph->initializers->pdata[i]) && g_hash_table_contains (trained, graph->initializers->pdata[i]);
  if (!any)
    return found;
  g_autoptr (GListModel) pairs = ortrain_parameter_pairs_find (graph, MIN_ELEMENTS);
  for (guint i = 0; i < g_list_model_get_n_items (pairs); i++)
    {
      g_autoptr (OrtrainParameterPair) pair = g_list_model_get_item (pairs, i);
      OrtrainRepeatedParameter one = { ortrain_graph_find_value (graph, ortrain_parameter_pair_get_first (pair)),
                                       ortrain_graph_find_value (graph, ortrain_parameter_pair_get_second (pair)) };
      if (!is_numbered (one.second))
        one = (OrtrainRepeatedParameter){ one.second, one.first };
      if (!is_numbered (one.second) || !g_hash_table_contains (trained, one.first) ||
          !g_hash_table_contains (trained, one.second) || g_hash_table_contains (roots, one.second) ||
          (is_table (one.first) == is_table (one.second) &&
           (!share_module (one.first, one.second) || differ_in_name (one.first, one.second))))
        continue;
      OrtrainValue *root = g_hash_table_lookup (roots, one.first);
      one.first = root != NULL ? root : one.first;
      g_hash_table_insert (roots, one.second, one.first);
      g_array_append_val (found, one);
    }
  return found;
}

void
ortrain_repeated_parameters_add_note (const char *first, const char *second, GStrvBuilder *notes)
{
  g_autofree char *note =
      g_strdup_printf ("'%s' is the parameter '%s' once more, as the exporter stored it for another use: they are "
                       "trained as one (to train "
                       "'%s' alone, freeze the other by name)",
                       ortrain_text_show (second), ortrain_text_show (first), ortrain_text_show (first));
  g_strv_builder_add (notes, note);
}
