/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "check/ortrain-subgraph-tensors-private.h"

#include "analysis/ortrain-parameter-roles-private.h"
#include "check/ortrain-parameter-info-private.h"
#include "core/ortrain-dtype-private.h"
#include "graph/ortrain-graph-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "ops/ortrain-op-private.h"

typedef struct
{
  GHashTable *roles;     /* key of a tensor → OrtrainParameterRole, in the outermost graph */
  GHashTable *undecided; /* keys of tensors in branches that are left in the graph */
  OrtrainObjectList *list;
  gboolean is_whole; /* initializers of the file that are not in the graph are not used */
} Listing;

/* Two branches may use one name. */
static char *
make_key (const OrtrainValue *value)
{
  return g_strconcat (value->name, "\n", value->enclosure, NULL);
}

typedef void (*GraphFunc) (OrtrainGraph *graph, Listing *listing);

static void
each_subgraph (const OrtrainNode *node, GraphFunc func, Listing *listing)
{
  for (guint i = 0; i < ortrain_attributes_get_n (node->attributes); i++)
    {
      const OrtrainAttribute *a = ortrain_attributes_get_nth (node->attributes, i);
      if (a->kind != ORTRAIN_ATTRIBUTE_GRAPH && a->kind != ORTRAIN_ATTRIBUTE_GRAPHS)
        continue;
      for (gsize k = 0; k < a->n; k++)
        {
          GObject *graph = a->kind == ORTRAIN_ATTRIBUTE_GRAPH ? a->v.g : a->v.graphs[k];
          if (ORTRAIN_IS_GRAPH (graph))
            func (ORTRAIN_GRAPH (graph), listing);
        }
    }
}

static void
collect_undecided (OrtrainGraph *graph, Listing *listing)
{
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      const OrtrainValue *value = graph->initializers->pdata[i];
      if (value->enclosure != NULL && graph->parent != NULL)
        g_hash_table_add (listing->undecided, make_key (value));
    }
  for (guint n = 0; n < graph->nodes->len; n++)
    each_subgraph (graph->nodes->pdata[n], collect_undecided, listing);
}

static void
add (Listing *listing, const OrtrainValue *value, OrtrainTensor *tensor)
{
  g_autofree char *key = make_key (value), *reason = NULL;
  const OrtrainParameterRole *role = g_hash_table_lookup (listing->roles, key);
  if (role != NULL)
    reason = g_strdup (role->reason);
  else if (g_hash_table_contains (listing->undecided, key))
    reason = g_strdup_printf ("inside %s, which is decided by data", value->enclosure);
  else
    reason = g_strdup_printf ("inside %s%s", value->enclosure, listing->is_whole ? ", which is never taken" : "");
  g_autoptr (OrtrainParameterInfo) info =
      ortrain_parameter_info_new (value->name, ortrain_scoped_name_of (value), tensor, FALSE, TRUE, reason);
  ortrain_object_list_append (listing->list, info);
}

static void
list_graph (OrtrainGraph *graph, Listing *listing)
{
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      const OrtrainValue *value = graph->initializers->pdata[i];
      if (value->enclosure != NULL && value->tensor != NULL && ortrain_dtype_is_floating (value->dtype))
        add (listing, value, value->tensor);
    }
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainNode *node = graph->nodes->pdata[n];
      const OrtrainValue *value = node->outputs->len > 0 ? node->outputs->pdata[0] : NULL;
      g_autoptr (OrtrainTensor) tensor =
          value != NULL && value->enclosure != NULL ? ortrain_ops_dup_constant (node) : NULL;
      if (tensor != NULL && ortrain_dtype_is_floating (ortrain_tensor_get_dtype (tensor)))
        add (listing, value, tensor);
      each_subgraph (node, list_graph, listing);
    }
}

void
ortrain_subgraph_tensors_list (OrtrainModel *model, OrtrainGraph *graph, GArray *roles, OrtrainObjectList *list)
{
  Listing listing = { .list = list, .is_whole = graph == ortrain_model_get_graph (model, NULL) };
  listing.roles = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  listing.undecided = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < roles->len; i++)
    {
      OrtrainParameterRole *role = &g_array_index (roles, OrtrainParameterRole, i);
      if (role->value->enclosure != NULL)
        g_hash_table_insert (listing.roles, make_key (role->value), role);
    }
  collect_undecided (graph, &listing);
  list_graph (ortrain_model_get_file_graph (model), &listing);
  g_hash_table_unref (listing.roles);
  g_hash_table_unref (listing.undecided);
}
