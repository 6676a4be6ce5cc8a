/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-low-precision-copies-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

static OrtrainNode *
insert_cast (OrtrainGraph *graph, OrtrainValue *value, OrtrainDType dtype, GError **error)
{
  OrtrainNode *first = graph->nodes->len > 0 ? graph->nodes->pdata[0] : NULL;
  OrtrainNode *node = ortrain_graph_insert_node (graph, first, "", "Cast", NULL, &value, 1, 1);
  ortrain_attributes_set_int (node->attributes, "to", dtype);
  return ortrain_ops_infer_node (node, error) ? node : NULL;
}

/* The parameter in another type, which the session holds; the old value has no name any more. */
static OrtrainValue *
replace_parameter (OrtrainGraph *graph, OrtrainValue *value, OrtrainDType dtype)
{
  g_autofree char *name = g_strdup (value->name);
  ortrain_value_rename (value, NULL);
  OrtrainValue *held = ortrain_graph_new_held (graph, name, dtype, value->dims, value->rank);
  held->role = ORTRAIN_ROLE_PARAMETER;
  value->role = ORTRAIN_ROLE_NONE;
  return held;
}

gboolean
ortrain_low_precision_copies_widen (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) narrow = g_ptr_array_new ();
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      if (value->role == ORTRAIN_ROLE_PARAMETER && ortrain_dtype_is_half (value->dtype))
        g_ptr_array_add (narrow, value);
    }
  for (guint i = 0; i < narrow->len; i++)
    {
      OrtrainValue *value = narrow->pdata[i];
      const OrtrainDType dtype = value->dtype;
      OrtrainValue *master = replace_parameter (graph, value, ORTRAIN_DTYPE_FLOAT32);
      OrtrainNode *cast = insert_cast (graph, master, dtype, error);
      if (cast == NULL)
        return FALSE;
      ortrain_value_replace_uses (value, ortrain_node_output (cast, 0));
      ortrain_graph_delete_value (graph, value);
    }
  return TRUE;
}

static gboolean
is_narrowing_cast (const OrtrainNode *node)
{
  return ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CAST &&
         ortrain_dtype_is_half (((const OrtrainValue *) node->outputs->pdata[0])->dtype);
}

static OrtrainNode *
find_narrowing_cast (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    if (is_narrowing_cast (value->uses.items[u].node))
      return value->uses.items[u].node;
  return NULL;
}

/* A float32 parameter becomes one of 16 bits: casts to that type disappear, other readers get it widened. */
static gboolean
narrow (OrtrainGraph *graph, OrtrainValue *value, OrtrainDType dtype, GError **error)
{
  OrtrainValue *held = replace_parameter (graph, value, dtype);
  OrtrainNode *cast;
  while ((cast = find_narrowing_cast (value)) != NULL)
    {
      ortrain_value_replace_uses (ortrain_node_output (cast, 0), held);
      ortrain_graph_delete_node (graph, cast);
    }
  if (value->uses.n > 0)
    {
      OrtrainNode *wide = insert_cast (graph, held, ORTRAIN_DTYPE_FLOAT32, error);
      if (wide == NULL)
        return FALSE;
      ortrain_value_replace_uses (value, ortrain_node_output (wide, 0));
    }
  ortrain_graph_delete_value (graph, value);
  return TRUE;
}

gboolean
ortrain_low_precision_copies_narrow (OrtrainGraph *graph, GArray *parameters, GError **error)
{
  for (guint i = 0; i < parameters->len; i++)
    {
      OrtrainTrainedTensor *parameter = &g_array_index (parameters, OrtrainTrainedTensor, i);
      OrtrainValue *value = ortrain_graph_find_value (graph, parameter->name);
      const OrtrainNode *cast =
          value != NULL && value->dtype == ORTRAIN_DTYPE_FLOAT32 ? find_narrowing_cast (value) : NULL;
      if (cast == NULL)
        continue;
      parameter->dtype = ortrain_node_output (cast, 0)->dtype;
      if (!narrow (graph, value, parameter->dtype, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_low_precision_copies_narrow_as (OrtrainGraph *graph, const GArray *parameters, GError **error)
{
  for (guint i = 0; i < parameters->len; i++)
    {
      const OrtrainTrainedTensor *parameter = &g_array_index (parameters, OrtrainTrainedTensor, i);
      OrtrainValue *value = ortrain_graph_find_value (graph, parameter->name);
      if (value != NULL && value->dtype != parameter->dtype && !narrow (graph, value, parameter->dtype, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_low_precision_copies_hold (OrtrainGraph *graph, GArray *parameters, GError **error)
{
  for (guint i = 0; i < parameters->len; i++)
    {
      OrtrainTrainedTensor *parameter = &g_array_index (parameters, OrtrainTrainedTensor, i);
      OrtrainValue *value = ortrain_graph_find_value (graph, parameter->name), *held = NULL;
      OrtrainNode *cast;
      while (value != NULL && (cast = find_narrowing_cast (value)) != NULL)
        {
          OrtrainValue *rounded = ortrain_node_output (cast, 0);
          if (held == NULL)
            {
              g_autofree char *name = parameter->copy != NULL ? g_strdup (parameter->copy)
                                                              : g_strconcat (parameter->name, ".working", NULL);
              held = ortrain_graph_new_held (graph, name, rounded->dtype, value->dims, value->rank);
              held->role = ORTRAIN_ROLE_STATE;
              held->partner = value;
              if (parameter->copy == NULL)
                {
                  parameter->copy = g_strdup (held->name);
                  parameter->copy_dtype = held->dtype;
                }
              if (!g_str_equal (parameter->copy, held->name) || parameter->copy_dtype != rounded->dtype)
                {
                  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                               "The working copy of '%s' cannot be named '%s': the model has a value of that name",
                               ortrain_text_show (parameter->name), ortrain_text_show (parameter->copy));
                  return FALSE;
                }
            }
          ortrain_value_replace_uses (rounded, held);
          ortrain_graph_delete_node (graph, cast);
        }
    }
  return TRUE;
}
