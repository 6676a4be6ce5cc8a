/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "graph/ortrain-graph-private.h"

#include <math.h>

/* Text and dot output, for people. */

static void
append_double (GString *string, double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append (string, g_ascii_formatd (buffer, sizeof buffer, "%g", isnan (value) ? NAN : value));
}

static void
append_attributes (GString *string, const OrtrainAttributes *attributes)
{
  guint n = ortrain_attributes_get_n (attributes);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainAttribute *a = ortrain_attributes_get_nth (attributes, i);
      g_string_append_printf (string, "%s%s=", i == 0 ? " {" : ", ", ortrain_text_show (a->name));
      gsize shown = MIN (a->n, 8);
      switch (a->kind)
        {
        case ORTRAIN_ATTRIBUTE_FLOAT:
          append_double (string, a->v.f);
          break;
        case ORTRAIN_ATTRIBUTE_INT:
          g_string_append_printf (string, "%" G_GINT64_FORMAT, a->v.i);
          break;
        case ORTRAIN_ATTRIBUTE_STRING:
          {
            g_string_append_printf (string, "'%s'", ortrain_text_show (a->v.s));
            break;
          }
        case ORTRAIN_ATTRIBUTE_INTS:
          g_string_append_c (string, '[');
          for (gsize k = 0; k < shown; k++)
            g_string_append_printf (string, "%s%" G_GINT64_FORMAT, k > 0 ? ", " : "", a->v.ints[k]);
          g_string_append (string, shown < a->n ? ", …]" : "]");
          break;
        case ORTRAIN_ATTRIBUTE_FLOATS:
          g_string_append_c (string, '[');
          for (gsize k = 0; k < shown; k++)
            {
              g_string_append (string, k > 0 ? ", " : "");
              append_double (string, a->v.floats[k]);
            }
          g_string_append (string, shown < a->n ? ", …]" : "]");
          break;
        case ORTRAIN_ATTRIBUTE_TENSOR:
          {
            g_autofree char *text =
                ortrain_shape_to_string (ortrain_tensor_peek_dims (a->v.t), ortrain_tensor_get_rank (a->v.t));
            g_string_append_printf (string, "%s %s", ortrain_dtype_get_name (ortrain_tensor_get_dtype (a->v.t)), text);
            break;
          }
        case ORTRAIN_ATTRIBUTE_GRAPH:
          g_string_append (string, "graph");
          break;
        case ORTRAIN_ATTRIBUTE_STRINGS:
        case ORTRAIN_ATTRIBUTE_TENSORS:
        case ORTRAIN_ATTRIBUTE_GRAPHS:
          g_string_append_printf (string, "<%" G_GSIZE_FORMAT ">", a->n);
          break;
        }
    }
  if (n > 0)
    g_string_append_c (string, '}');
}

/* By phase. */
static const char *const phase_marks[] = { "  > ", "  < ", "  = " };
static const char *const phase_colors[] = { "#c9ddf7", "#ffd9a8", "#c3ecc8" };
G_STATIC_ASSERT (G_N_ELEMENTS (phase_marks) == ORTRAIN_N_PHASES && G_N_ELEMENTS (phase_colors) == ORTRAIN_N_PHASES);

static char *
describe (const OrtrainValue *value, GPtrArray *legend)
{
  g_autofree char *shape = ortrain_dims_to_readable (value->dims, value->rank, legend);
  return g_strdup_printf ("%s: %s %s", ortrain_text_show (value->name), ortrain_dtype_get_name (value->dtype), shape);
}

/**
 * ortrain_graph_to_string:
 * @self: a graph
 *
 * Prints the graph for people, one node a line. Long expressions of dimensions are numbered, and written out at the
 * end; dimensions that start with a question mark are not known before the model runs.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_graph_to_string (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  g_autoptr (GPtrArray) legend = g_ptr_array_new_with_free_func (g_free);
  GString *string = g_string_new (NULL);
  g_string_append_printf (string, "graph %s (", ortrain_text_show (self->name));
  for (guint i = 0; i < self->inputs->len; i++)
    {
      g_autofree char *text = describe (self->inputs->pdata[i], legend);
      g_string_append_printf (string, "%s%s", i > 0 ? ", " : "", text);
    }
  g_string_append (string, ")\n");
  for (guint i = 0; i < self->initializers->len; i++)
    {
      const OrtrainValue *value = self->initializers->pdata[i];
      g_autofree char *text = describe (value, legend);
      const char *scoped = ortrain_graph_get_label (self, value->scoped_name);
      scoped = g_strcmp0 (scoped, value->name) != 0 ? scoped : NULL;
      g_string_append_printf (string, "  initializer %s%s%s%s\n", text, scoped != NULL ? " (" : "",
                              ortrain_text_show (scoped), scoped != NULL ? ")" : "");
    }
  for (guint i = 0; i < self->values->len; i++)
    if (((OrtrainValue *) self->values->pdata[i])->kind == ORTRAIN_VALUE_HELD)
      {
        g_autofree char *text = describe (self->values->pdata[i], legend);
        g_string_append_printf (string, "  held %s\n", text);
      }
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      g_string_append (string, phase_marks[node->phase]);
      for (guint k = 0; k < node->outputs->len; k++)
        {
          OrtrainValue *output = node->outputs->pdata[k];
          g_autofree char *text = output != NULL ? describe (output, legend) : g_strdup ("_");
          g_string_append_printf (string, "%s%s", k > 0 ? ", " : "", text);
        }
      g_string_append_printf (string, " = %s%s%s (", ortrain_text_show (node->domain),
                              node->domain[0] != '\0' ? "::" : "", ortrain_text_show (node->op_type));
      for (guint k = 0; k < node->inputs->len; k++)
        {
          OrtrainValue *input = node->inputs->pdata[k];
          g_string_append_printf (string, "%s%s", k > 0 ? ", " : "",
                                  ortrain_text_show (input != NULL ? input->name : "_"));
        }
      g_string_append_c (string, ')');
      append_attributes (string, node->attributes);
      if (node->name[0] != '\0')
        g_string_append_printf (string, "  '%s'", ortrain_text_show (node->name));
      if (node->scope > 0 && node->phase == ORTRAIN_PHASE_FORWARD)
        g_string_append_printf (string, "  in %s", ortrain_text_show (ortrain_graph_get_label (self, node->scope)));
      g_string_append_c (string, '\n');
    }
  g_string_append (string, "  return ");
  for (guint i = 0; i < self->outputs->len; i++)
    {
      g_autofree char *text = describe (self->outputs->pdata[i], legend);
      g_string_append_printf (string, "%s%s", i > 0 ? ", " : "", text);
    }
  g_string_append_c (string, '\n');
  for (guint i = 0; i < legend->len; i++)
    g_string_append_printf (string, "  $%u = %s\n", i + 1, (const char *) legend->pdata[i]);
  return g_string_free (string, FALSE);
}

static char *
quote (const char *text)
{
  g_autofree char *shown = ortrain_text_quote (text);
  GString *string = g_string_new ("\"");
  for (const char *p = shown; *p != '\0'; p++)
    {
      if (*p == '"' || *p == '\\')
        g_string_append_c (string, '\\');
      g_string_append_c (string, *p);
    }
  g_string_append_c (string, '"');
  return g_string_free (string, FALSE);
}

/**
 * ortrain_graph_to_dot:
 * @self: a graph
 *
 * Prints the graph in the language of Graphviz: nodes of the forward pass in blue, of the backward pass in orange, of
 * the update in green; edges have shapes, and weights are left out.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_graph_to_dot (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  GString *string = g_string_new ("digraph {\n  rankdir=TB; node [shape=box, style=filled, fontname=\"sans\", "
                                  "fontsize=10]; edge [fontname=\"sans\", fontsize=8];\n");
  for (guint i = 0; i < self->inputs->len; i++)
    {
      OrtrainValue *value = self->inputs->pdata[i];
      g_autofree char *name = quote (value->name);
      g_string_append_printf (string, "  v%u [label=%s, shape=ellipse, fillcolor=\"#e6e6e6\"];\n", value->id, name);
    }
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      node->mark = i;
      g_autofree char *label = quote (node->op_type);
      g_string_append_printf (string, "  n%u [label=%s, fillcolor=\"%s\"];\n", i, label, phase_colors[node->phase]);
    }
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      for (guint k = 0; k < node->inputs->len; k++)
        {
          OrtrainValue *value = node->inputs->pdata[k];
          if (value == NULL || value->kind == ORTRAIN_VALUE_INITIALIZER || value->kind == ORTRAIN_VALUE_HELD)
            continue;
          g_autofree char *shape = ortrain_dims_to_readable (value->dims, value->rank, NULL);
          g_autofree char *label = quote (shape);
          if (value->producer != NULL)
            g_string_append_printf (string, "  n%u -> n%u [label=%s];\n", value->producer->mark, i, label);
          else
            g_string_append_printf (string, "  v%u -> n%u [label=%s];\n", value->id, i, label);
        }
    }
  for (guint i = 0; i < self->outputs->len; i++)
    {
      OrtrainValue *value = self->outputs->pdata[i];
      g_autofree char *name = quote (value->name);
      g_string_append_printf (string, "  o%u [label=%s, shape=ellipse, fillcolor=\"#e6e6e6\"];\n", i, name);
      if (value->producer != NULL)
        g_string_append_printf (string, "  n%u -> o%u;\n", value->producer->mark, i);
      else
        g_string_append_printf (string, "  v%u -> o%u;\n", value->id, i);
    }
  g_string_append (string, "}\n");
  return g_string_free (string, FALSE);
}
