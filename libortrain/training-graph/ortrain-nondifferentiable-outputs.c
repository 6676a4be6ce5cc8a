/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-nondifferentiable-outputs-private.h"

#include "core/ortrain-text-private.h"
#include "model/ortrain-model-private.h"

/* Operators that a plan runs without a kernel of their own. */
static gboolean
needs_no_kernel (const OrtrainNode *node)
{
  return (node->op->flags & (ORTRAIN_OP_VIEW | ORTRAIN_OP_SHAPE_ONLY | ORTRAIN_OP_CONTROL | ORTRAIN_OP_HOST)) != 0;
}

gboolean
ortrain_node_is_without_kernel (const OrtrainNode *node, const OrtrainProvider *provider)
{
  const OrtrainValue *first = ortrain_node_input (node, 0), *output = ortrain_node_output (node, 0);
  const OrtrainOperand operand = {
    .dtype = first != NULL    ? first->dtype
             : output != NULL ? output->dtype
                              : ORTRAIN_DTYPE_UNDEFINED,
  };
  /* the host has kernels for ONNX's own operators: a body is for other devices */
  const gboolean has_body =
      node->op->expand != NULL && (*node->domain != '\0' || provider != ortrain_provider_get_host ());
  return !needs_no_kernel (node) && !has_body &&
         provider->klass->find_kernel (provider, node->domain, node->op_type, &operand, 1, NULL, 0) == NULL;
}

OrtrainBlock
ortrain_node_find_block (const OrtrainNode *node)
{
  /* Nodes without a kernel on the device run on the host. */
  const OrtrainProvider *provider = ortrain_provider_get_host ();
  const OrtrainOpDef *row = ortrain_ops_lookup (node->domain, node->op_type);
  if (row != NULL && row->unsupported != NULL)
    return (OrtrainBlock){ .reason = row->unsupported, .hint = row->instead };
  if (row == NULL)
    return (OrtrainBlock){
      .reason = "the operator is not known",
      .hint = *node->domain == '\0'
                  ? "export the model with other operators"
                  : "the operator belongs to another runtime: export the model with ONNX's own operators",
    };
  if (node->op == NULL)
    return (OrtrainBlock){ NULL };
  const OrtrainValue *first = ortrain_node_input (node, 0), *output = ortrain_node_output (node, 0);
  const OrtrainDType dtype = first != NULL ? first->dtype : output != NULL ? output->dtype : ORTRAIN_DTYPE_UNDEFINED;
  if (ortrain_node_is_without_kernel (node, provider))
    return (OrtrainBlock){
      .reason = "there is no kernel for this operator and type",
      .hint = ortrain_dtype_is_floating (dtype) ? "export the model in float32" : "",
      .dtype = dtype,
    };
  if ((node->op->flags & ORTRAIN_OP_DATA_SHAPED) && output != NULL && output->tensor == NULL)
    return (OrtrainBlock){
      .reason = "the shape of its output depends on computed data, which cannot be planned for training",
      .hint = "export the model without it, or freeze that part of the input",
    };
  return (OrtrainBlock){ NULL };
}

guint *
ortrain_graph_find_blocked (OrtrainGraph *graph)
{
  g_autofree gboolean *blocked = g_new (gboolean, graph->nodes->len + 1);
  for (guint n = 0; n < graph->nodes->len; n++)
    blocked[n] = ortrain_node_find_block (graph->nodes->pdata[n]).reason != NULL;
  return ortrain_graph_find_first_marked (graph, blocked);
}

static void
note (OrtrainGraph *graph, const char *output, OrtrainNode *node)
{
  g_autofree char *text = ortrain_node_describe (node);
  g_autofree char *line = g_strdup_printf ("Output '%s' is not computed: %s: %s", ortrain_text_show (output), text,
                                           ortrain_node_find_block (node).reason);
  ortrain_graph_add_note (graph, line);
}

static gboolean
keep_computed (OrtrainValue *output, gpointer data)
{
  const guint first = ((const guint *) data)[output->id];
  if (first == G_MAXUINT || output->role == ORTRAIN_ROLE_LOSS)
    return TRUE;
  note (output->graph, output->name, output->graph->nodes->pdata[first]);
  return FALSE;
}

void
ortrain_graph_drop_blocked_outputs (OrtrainGraph *graph)
{
  gboolean any = FALSE;
  for (guint n = 0; n < graph->nodes->len && !any; n++)
    any = ortrain_node_find_block (graph->nodes->pdata[n]).reason != NULL;
  if (!any)
    return;
  g_autofree guint *blocked = ortrain_graph_find_blocked (graph);
  ortrain_graph_filter_outputs (graph, keep_computed, blocked);
}

OrtrainGraph *
ortrain_model_make_known_graph (OrtrainModel *model, const char *const *values, GError **error)
{
  OrtrainGraph *file = ortrain_model_get_file_graph (model);
  g_autoptr (GPtrArray) names = g_ptr_array_new (), left_out = g_ptr_array_new (), reasons = g_ptr_array_new ();
  for (guint i = 0; values[i] != NULL; i++)
    g_ptr_array_add (names, (gpointer) values[i]);
  const guint n_values = names->len;
  g_autofree guint *blocked = ortrain_graph_find_blocked (file);
  for (guint i = 0; i < file->outputs->len; i++)
    {
      OrtrainValue *output = file->outputs->pdata[i];
      const guint first = blocked[output->id];
      OrtrainNode *node = first != G_MAXUINT ? file->nodes->pdata[first] : NULL;
      g_ptr_array_add (node == NULL ? names : left_out, output->name);
      if (node != NULL)
        g_ptr_array_add (reasons, node);
    }
  const guint n_all = names->len;
  g_ptr_array_add (names, NULL);
  OrtrainGraph *graph = ortrain_model_make_graph_of (model, (const char *const *) names->pdata, NULL);
  if (graph == NULL && n_values > 0 && n_all > n_values)
    {
      /* something else is wrong with one of the outputs */
      g_ptr_array_set_size (names, (gint) n_values);
      g_ptr_array_add (names, NULL);
      graph = ortrain_model_make_graph_of (model, (const char *const *) names->pdata, NULL);
    }
  if (graph == NULL)
    {
      names->pdata[n_values > 0 ? n_values : n_all] = NULL;
      return ortrain_model_make_graph_of (model, (const char *const *) names->pdata, error);
    }
  for (guint i = 0; i < left_out->len; i++)
    note (graph, left_out->pdata[i], reasons->pdata[i]);
  return graph;
}
