/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-declarations-private.h"

#include "core/ortrain-text-private.h"

/* A file with wrong declarations has them on every node. */
#define MAX_NOTES 4

static gboolean
is_unknown (OrtrainDim dim)
{
  const char *name;
  return ortrain_dim_is_symbol (dim, &name) && name[0] == '?';
}

static gboolean
contradicts (const OrtrainDeclaration *declared, const OrtrainValue *value)
{
  if (declared->rank < 0 || value->rank < 0)
    return FALSE;
  if (declared->rank != value->rank)
    return TRUE;
  for (gint i = 0; i < value->rank; i++)
    if (ortrain_dim_is_int (declared->dims[i]) && ortrain_dim_is_int (value->dims[i]) &&
        declared->dims[i].value != value->dims[i].value)
      return TRUE;
  return FALSE;
}

static void
note (OrtrainNode *node, const OrtrainValue *value)
{
  OrtrainGraph *graph = node->graph;
  if (graph->n_contradicted++ >= MAX_NOTES)
    return;
  if (graph->notes == NULL)
    graph->notes = g_ptr_array_new_with_free_func (g_free);
  const OrtrainDeclaration *declared = value->declaration;
  g_autofree char *text = ortrain_node_describe (node);
  g_autofree char *said = ortrain_dims_to_string (declared->dims, declared->rank);
  g_autofree char *found = ortrain_dims_to_string (value->dims, value->rank);
  g_ptr_array_add (graph->notes, g_strdup_printf ("%s: the file declares '%s' as %s, but it is %s: the declaration is "
                                                  "ignored",
                                                  text, ortrain_text_show (value->name), said, found));
}

/* Numbers only: that a declared name is the size of another value too is not taken on trust. */
static void
fill_in (OrtrainDimSpace *space, const OrtrainDeclaration *declared, OrtrainValue *value)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gboolean used = value->rank < 0;
  for (gint i = 0; i < declared->rank; i++)
    {
      const gboolean known = value->rank >= 0 && !is_unknown (value->dims[i]);
      const gboolean number = ortrain_dim_is_int (declared->dims[i]);
      used |= !known && number;
      dims[i] = known || (!number && value->rank >= 0) ? value->dims[i]
                : number                               ? declared->dims[i]
                                                       : ortrain_dim_unknown (space);
    }
  if (!used)
    return;
  ortrain_value_set_shape (value, value->dtype, dims, declared->rank);
  value->relies_on_declaration = TRUE;
}

gboolean
ortrain_declarations_apply (OrtrainNode *node, GError **error)
{
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *value = node->outputs->pdata[k];
      const OrtrainDeclaration *declared = value != NULL ? value->declaration : NULL;
      if (declared == NULL)
        continue;
      if (value->dtype == ORTRAIN_DTYPE_UNDEFINED)
        value->dtype = declared->dtype;
      else if (declared->dtype != ORTRAIN_DTYPE_UNDEFINED && declared->dtype != value->dtype)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DTYPE,
                       "%s: the file declares its output '%s' as %s, but it is %s", text,
                       ortrain_text_show (value->name), ortrain_dtype_get_name (declared->dtype),
                       ortrain_dtype_get_name (value->dtype));
          return FALSE;
        }
      value->relies_on_declaration = FALSE;
      if (contradicts (declared, value))
        note (node, value);
      else if (declared->rank >= 0)
        fill_in (node->graph->dims, declared, value);
    }
  return TRUE;
}

void
ortrain_declarations_note (OrtrainGraph *graph)
{
  if (graph->n_contradicted > MAX_NOTES)
    g_ptr_array_add (graph->notes,
                     g_strdup_printf ("%u more declared shapes contradict what the operators compute, and "
                                      "are ignored",
                                      graph->n_contradicted - MAX_NOTES));
}

/* `found`: the value with its shape in numbers. */
static gboolean
check_declaration (OrtrainNode *node, const OrtrainValue *declared, const OrtrainValue *found, GError **error)
{
  gboolean same = declared->rank < 0 || declared->rank == found->rank;
  for (gint i = 0; i < declared->rank && same; i++)
    same = !ortrain_dim_is_int (declared->dims[i]) || ortrain_dim_equal (declared->dims[i], found->dims[i]);
  if (same)
    return TRUE;
  g_autofree char *text = ortrain_node_describe (node);
  g_autofree char *said = ortrain_dims_to_string (declared->dims, declared->rank);
  g_autofree char *is = ortrain_dims_to_string (found->dims, found->rank);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DECLARATION,
               "%s: the file declares '%s' as %s, but with these inputs it is %s; correct the declaration", text,
               ortrain_text_show (found->name), said, is);
  return FALSE;
}

gboolean
ortrain_declarations_check (OrtrainNode *node, OrtrainGraph *source, GError **error)
{
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      const OrtrainValue *declared =
          output != NULL && output->relies_on_declaration ? ortrain_graph_find_value (source, output->name) : NULL;
      if (declared != NULL && !check_declaration (node, declared, output, error))
        return FALSE;
    }
  return TRUE;
}
