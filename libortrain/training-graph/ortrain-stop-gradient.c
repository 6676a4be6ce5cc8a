/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-stop-gradient-private.h"

#include "core/ortrain-text-private.h"
#include "model/ortrain-model-private.h"
#include "onnx/ortrain-node-metadata-private.h"
#include "onnx/ortrain-proto-parts-private.h"
#include "ops/ortrain-op-private.h"
#include "options/ortrain-name-patterns-private.h"

#include <string.h>

/* An attribute of the nodes between such a value and its readers. */
#define STOPS "stops_gradient"

/* "%detach : [num_users=1] = call_function[target=torch.ops.aten.detach.default](args = (%linear,), kwargs = {})" */
static gboolean
is_detach (const char *call)
{
  return strstr (call, "[target=torch.ops.aten.detach.default](") != NULL ||
         strstr (call, "[target=torch.ops.aten.detach_.default](") != NULL;
}

GHashTable *
ortrain_stop_gradient_find_detached (OrtrainModel *model)
{
  GHashTable *detached = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (OrtrainProtoParts) parts =
      model->proto != NULL ? ortrain_proto_parts_new (&model->scan, g_bytes_get_size (model->file)) : NULL;
  const guint64 most = parts != NULL ? ortrain_model_limits_get_max_name_bytes (model->limits) : 0;
  for (gsize n = 0; parts != NULL && n < model->scan.nodes->len; n++)
    {
      const Ortrain__Ox__NodeProto *node = ortrain_proto_parts_get_node (parts, n, NULL);
      if (node == NULL || node->n_output < 1)
        continue;
      g_autofree char *call = ortrain_node_metadata_dup (node, ORTRAIN_METADATA_FX_NODE, most);
      if (call != NULL && is_detach (call))
        g_hash_table_add (detached, g_strdup (node->output[0]));
    }
  return detached;
}

/* Matches the name of the value, the name of the node that computes it, or the module of the node. */
static gboolean
fits (OrtrainNamePatterns *patterns, const OrtrainValue *value, gboolean *used)
{
  const char *scope = ortrain_graph_get_label (value->graph, value->producer->scope);
  g_autofree char *scoped = scope != NULL ? g_strconcat (scope, ".", value->name, NULL) : NULL;
  const char *const names[] = { value->name, value->producer->name };
  gboolean any = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      const GArray *found = names[i] != NULL ? ortrain_name_patterns_match_scoped (patterns, names[i], scoped) : NULL;
      for (guint k = 0; found != NULL && k < found->len; k++)
        any = used[g_array_index (found, guint, k)] = TRUE;
    }
  return any;
}

static gboolean
check_used (OrtrainGraph *graph, const OrtrainNamePatterns *patterns, const gboolean *used, gboolean any_output,
            GError **error)
{
  g_autoptr (GString) unused = g_string_new (NULL);
  gboolean any_tensor = FALSE;
  for (guint i = 0; i < patterns->n; i++)
    if (!used[patterns->first[i]])
      {
        const OrtrainValue *value = ortrain_graph_find_value (graph, patterns->patterns[i]);
        any_tensor = any_tensor || (value != NULL && value->producer == NULL);
        g_string_append_printf (unused, "%s'%s'", unused->len > 0 ? ", " : "",
                                ortrain_text_show (patterns->patterns[i]));
      }
  if (unused->len == 0)
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "Option 'stop-gradient': no value that the model computes and reads matches %s%s",
               ortrain_text_show_list (unused->str),
               any_tensor   ? "; tensors that are not to be trained are named in 'frozen'"
               : any_output ? "; an output that no node reads has no gradient to stop: a loss on it trains the layers "
                              "before it, name one of their values"
                            : "");
  return FALSE;
}

/* All readers of the input of the node, except the node itself, read its output instead. */
static void
redirect_uses (OrtrainNode *node)
{
  OrtrainValue *value = ortrain_node_input (node, 0);
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (OrtrainUse));
  g_array_append_vals (uses, value->uses.items, value->uses.n);
  for (guint u = 0; u < uses->len; u++)
    {
      const OrtrainUse *use = &g_array_index (uses, OrtrainUse, u);
      if (use->node != node)
        ortrain_node_set_input (use->node, use->index, ortrain_node_output (node, 0));
    }
}

/* Inserts a node between the value and all of its readers. */
static gboolean
stop (OrtrainGraph *graph, OrtrainValue *value, GError **error)
{
  OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "StopGradient", NULL, &value, 1, 1);
  ortrain_attributes_set_int (node->attributes, STOPS, 1);
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  redirect_uses (node);
  return TRUE;
}

gboolean
ortrain_stop_gradient_insert (OrtrainGraph *graph, const char *const *patterns, GHashTable *detached, GPtrArray *names,
                              GError **error)
{
  g_auto (OrtrainNamePatterns) prepared = { 0 };
  g_autoptr (GPtrArray) stopped = g_ptr_array_new ();
  const gboolean any_detached = detached != NULL && g_hash_table_size (detached) > 0;
  if ((patterns == NULL || patterns[0] == NULL) && !any_detached)
    return TRUE;
  if (!ortrain_name_patterns_check (patterns, "stop-gradient", error))
    return FALSE;
  ortrain_name_patterns_init (&prepared, patterns);
  g_autofree gboolean *used = g_new0 (gboolean, prepared.n + 1);
  g_autofree gboolean *used_by_outputs = g_new0 (gboolean, prepared.n + 1);
  gboolean any_output = FALSE;
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      for (guint k = 0; k < node->outputs->len; k++)
        {
          OrtrainValue *value = ortrain_node_output (node, k);
          /* For an output that no node reads, only a loss on it would be stopped. */
          if (value == NULL || value->tensor != NULL)
            continue;
          if (value->uses.n == 0)
            {
              any_output = any_output || (patterns != NULL && fits (&prepared, value, used_by_outputs));
              continue;
            }
          const gboolean named = patterns != NULL && fits (&prepared, value, used);
          if ((named || (any_detached && g_hash_table_contains (detached, value->name))) &&
              ortrain_dtype_is_floating (value->dtype))
            g_ptr_array_add (stopped, value);
        }
    }
  if (!check_used (graph, &prepared, used, any_output, error))
    return FALSE;
  for (guint i = 0; i < stopped->len; i++)
    {
      OrtrainValue *value = stopped->pdata[i];
      g_ptr_array_add (names, g_strdup (value->name));
      if (!stop (graph, value, error))
        return FALSE;
    }
  return ortrain_graph_sort (graph, error);
}

void
ortrain_stop_gradient_extend (OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    if (ortrain_attributes_has (((OrtrainNode *) graph->nodes->pdata[n])->attributes, STOPS))
      redirect_uses (graph->nodes->pdata[n]);
}

void
ortrain_stop_gradient_remove (OrtrainGraph *graph)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint n = 0; n < nodes->len; n++)
    {
      OrtrainNode *node = nodes->pdata[n];
      if (!ortrain_attributes_has (node->attributes, STOPS))
        continue;
      ortrain_value_replace_uses (ortrain_node_output (node, 0), ortrain_node_input (node, 0));
      ortrain_graph_delete_node (graph, node);
    }
}
