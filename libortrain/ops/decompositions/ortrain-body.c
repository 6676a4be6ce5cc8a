/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

#include "core/ortrain-checked-private.h"

#include <string.h>

static gboolean
is_static (const GPtrArray *values)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  for (guint i = 0; i < values->len; i++)
    if (values->pdata[i] != NULL && !ortrain_value_get_static_dims (values->pdata[i], dims))
      return FALSE;
  return TRUE;
}

OrtrainValue *
ortrain_body_input (OrtrainBody *self, guint i)
{
  OrtrainValue *value = ortrain_node_input (self->node, i);
  return value != NULL && ortrain_dtype_is_half (value->dtype) ? ortrain_body_cast (self, value, ORTRAIN_DTYPE_FLOAT32)
                                                               : value;
}

gboolean
ortrain_body_wants (OrtrainBody *self, guint k)
{
  return ortrain_node_output (self->node, k) != NULL;
}

void
ortrain_body_set (OrtrainBody *self, guint k, OrtrainValue *value)
{
  const OrtrainValue *output = ortrain_node_output (self->node, k);
  gint64 dims[ORTRAIN_MAX_RANK];
  if (output == NULL || value == NULL)
    return;
  value = ortrain_body_cast (self, value, output->dtype);
  if (value != NULL && !ortrain_value_same_shape (value, output) && ortrain_value_get_static_dims (output, dims))
    value = ortrain_body_reshape (self, value, ortrain_body_dims (output, dims), output->rank);
  self->results[k] = value;
}

const gint64 *
ortrain_body_dims (const OrtrainValue *value, gint64 *dims)
{
  if (value == NULL || !ortrain_value_get_static_dims (value, dims))
    memset (dims, 0, ORTRAIN_MAX_RANK * sizeof *dims);
  return dims;
}

gint64
ortrain_body_int (OrtrainBody *self, const char *name, gint64 fallback)
{
  return ortrain_attributes_get_int (self->node->attributes, name, fallback);
}

double
ortrain_body_float (OrtrainBody *self, const char *name, double fallback)
{
  return ortrain_attributes_get_float (self->node->attributes, name, fallback);
}

gint
ortrain_body_axis (OrtrainBody *self, const char *name, gint64 fallback, gint rank)
{
  const gint64 axis = ortrain_body_int (self, name, fallback);
  return (gint) (axis < 0 ? axis + rank : axis);
}

/* ---- nodes ---- */

OrtrainNode *
ortrain_body_node (OrtrainBody *self, const char *op_type, OrtrainValue *const *inputs, guint n_inputs, guint n_outputs,
                   OrtrainAttributes *attributes)
{
  if (self->error != NULL)
    {
      g_clear_pointer (&attributes, ortrain_attributes_free);
      return NULL;
    }
  g_autofree char *name = g_strdup_printf ("%s/%s", self->node->name, op_type);
  OrtrainNode *node =
      ortrain_graph_insert_node (self->graph, self->node, "", op_type, name, inputs, n_inputs, n_outputs);
  if (attributes != NULL)
    {
      ortrain_attributes_free (node->attributes);
      node->attributes = attributes;
    }
  node->phase = self->node->phase;
  node->is_update = ortrain_node_is_update (self->node);
  return ortrain_ops_infer_node (node, &self->error) ? node : NULL;
}

OrtrainValue *
ortrain_body_op_with (OrtrainBody *self, const char *op_type, OrtrainAttributes *attributes, OrtrainValue *a,
                      OrtrainValue *b, OrtrainValue *c)
{
  OrtrainValue *inputs[] = { a, b, c };
  const guint n = c != NULL ? 3 : b != NULL ? 2 : 1;
  OrtrainNode *node = ortrain_body_node (self, op_type, inputs, n, 1, attributes);
  return node != NULL ? ortrain_node_output (node, 0) : NULL;
}

OrtrainValue *
ortrain_body_op (OrtrainBody *self, const char *op_type, OrtrainValue *a, OrtrainValue *b, OrtrainValue *c)
{
  return ortrain_body_op_with (self, op_type, NULL, a, b, c);
}

OrtrainAttributes *
ortrain_body_attribute (const char *name, gint64 value)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, name, value);
  return attributes;
}

/* ---- constants ---- */

OrtrainValue *
ortrain_body_number (OrtrainBody *self, const OrtrainValue *like, double number)
{
  return like != NULL ? ortrain_graph_const_scalar (self->graph, like->dtype, number) : NULL;
}

OrtrainValue *
ortrain_body_ints (OrtrainBody *self, const gint64 *values, gint n)
{
  return ortrain_graph_const_ints (self->graph, values, (gsize) n);
}

OrtrainValue *
ortrain_body_count (OrtrainBody *self, const gint64 *dims, gint rank)
{
  gint64 n;
  if (!ortrain_checked_n_elements (dims, (gsize) rank, &n))
    n = 0;
  OrtrainValue *count =
      ortrain_body_op (self, "Range", ortrain_graph_const_int (self->graph, 0),
                       ortrain_graph_const_int (self->graph, n), ortrain_graph_const_int (self->graph, 1));
  return ortrain_body_reshape (self, count, dims, rank);
}

OrtrainValue *
ortrain_body_fill (OrtrainBody *self, const OrtrainValue *like, double number, const gint64 *dims, gint rank)
{
  return ortrain_body_op (self, "Expand", ortrain_body_number (self, like, number),
                          ortrain_body_ints (self, dims, rank), NULL);
}

/* ---- moves ---- */

OrtrainValue *
ortrain_body_cast (OrtrainBody *self, OrtrainValue *x, OrtrainDType dtype)
{
  return x == NULL || x->dtype == dtype
             ? x
             : ortrain_body_op_with (self, "Cast", ortrain_body_attribute ("to", dtype), x, NULL, NULL);
}

OrtrainValue *
ortrain_body_reshape (OrtrainBody *self, OrtrainValue *x, const gint64 *dims, gint rank)
{
  return ortrain_body_op_with (self, "Reshape", ortrain_body_attribute ("allowzero", 1), x,
                               ortrain_body_ints (self, dims, rank), NULL);
}

OrtrainValue *
ortrain_body_transpose (OrtrainBody *self, OrtrainValue *x, const gint64 *perm, gint rank)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, (gsize) rank);
  return ortrain_body_op_with (self, "Transpose", attributes, x, NULL, NULL);
}

OrtrainValue *
ortrain_body_reduce (OrtrainBody *self, const char *op_type, OrtrainValue *x, guint32 axes, gboolean keep)
{
  gint64 list[32];
  gint n = 0;
  for (gint i = 0; i < 32; i++)
    if (axes >> i & 1)
      list[n++] = i;
  OrtrainAttributes *attributes = ortrain_body_attribute ("keepdims", keep);
  ortrain_attributes_set_int (attributes, "noop_with_empty_axes", 1);
  return ortrain_body_op_with (self, op_type, attributes, x, ortrain_body_ints (self, list, n), NULL);
}

OrtrainValue *
ortrain_body_slice (OrtrainBody *self, OrtrainValue *x, gint axis, gint64 from, gint64 to, gint64 step)
{
  const gint64 axis64 = axis;
  OrtrainValue *inputs[] = { x, ortrain_body_ints (self, &from, 1), ortrain_body_ints (self, &to, 1),
                             ortrain_body_ints (self, &axis64, 1), ortrain_body_ints (self, &step, 1) };
  OrtrainNode *node = ortrain_body_node (self, "Slice", inputs, 5, 1, NULL);
  return node != NULL ? ortrain_node_output (node, 0) : NULL;
}

OrtrainValue *
ortrain_body_window (OrtrainBody *self, OrtrainValue *x, const gint64 *begin, const gint64 *length, gint n)
{
  gint64 dims[ORTRAIN_MAX_RANK], pads[2 * ORTRAIN_MAX_RANK] = { 0 };
  gboolean any = FALSE;
  ortrain_body_dims (x, dims);
  for (gint i = 0; i < n; i++)
    {
      pads[2 + i] = -begin[i];
      pads[2 + n + 2 + i] = length[i] - (dims[2 + i] - begin[i]);
      any = any || pads[2 + i] != 0 || pads[2 + n + 2 + i] != 0;
    }
  return any ? ortrain_body_op (self, "Pad", x, ortrain_body_ints (self, pads, 2 * (n + 2)), NULL) : x;
}

OrtrainValue *
ortrain_body_sum_to (OrtrainBody *self, OrtrainValue *x, const gint64 *dims, gint rank)
{
  gint64 from[ORTRAIN_MAX_RANK];
  guint32 axes = 0;
  if (x == NULL)
    return NULL;
  ortrain_body_dims (x, from);
  for (gint i = 0; i < x->rank; i++)
    {
      const gint k = i - (x->rank - rank);
      if (k < 0 || (dims[k] == 1 && from[i] != 1))
        axes |= 1u << i;
    }
  if (axes != 0)
    x = ortrain_body_reduce (self, "ReduceSum", x, axes, TRUE);
  return ortrain_body_reshape (self, x, dims, rank);
}

OrtrainValue *
ortrain_body_scatter (OrtrainBody *self, OrtrainValue *x, OrtrainValue *indices, const gint64 *dims, gint rank)
{
  static const gint64 flat = -1;
  gint64 n;
  if (!ortrain_checked_n_elements (dims, (gsize) rank, &n))
    n = 0;
  OrtrainAttributes *attributes = ortrain_body_attribute ("axis", 0), *reshape = ortrain_attributes_new ();
  ortrain_attributes_set_string (attributes, "reduction", "add");
  OrtrainValue *shape = ortrain_body_ints (self, &flat, 1);
  OrtrainValue *zeros = ortrain_body_fill (self, x, 0, &n, 1);
  indices = ortrain_body_op_with (self, "Reshape", ortrain_attributes_copy (reshape), indices, shape, NULL);
  x = ortrain_body_op_with (self, "Reshape", reshape, x, shape, NULL);
  return ortrain_body_reshape (self, ortrain_body_op_with (self, "ScatterElements", attributes, zeros, indices, x),
                               dims, rank);
}

gboolean
ortrain_body_same (OrtrainBody *self)
{
  ortrain_body_set (self, 0, ortrain_body_op (self, "Identity", ortrain_body_input (self, 0), NULL, NULL));
  return TRUE;
}

gboolean
ortrain_body_as (OrtrainBody *self, const char *op_type, guint n_outputs, OrtrainAttributes *attributes)
{
  OrtrainNode *node = ortrain_body_node (self, op_type, (OrtrainValue *const *) self->node->inputs->pdata,
                                         self->node->inputs->len, n_outputs, attributes);
  for (guint k = 0; node != NULL && k < n_outputs; k++)
    ortrain_body_set (self, k, ortrain_node_output (node, k));
  return TRUE;
}

/* ---- the node and its body ---- */

static gboolean
replace (OrtrainNode *node, gboolean (*write) (OrtrainBody *body), gboolean *expanded, GError **error)
{
  OrtrainGraph *graph = node->graph;
  const guint n_outputs = node->outputs->len;
  g_autofree OrtrainValue **results = g_new0 (OrtrainValue *, n_outputs + 1);
  OrtrainBody body = { graph, node, results, NULL };
  const gboolean written = write (&body);
  if (body.error != NULL)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_propagate_prefixed_error (error, body.error, "%s: its body: ", text);
      return FALSE;
    }
  if (!written)
    return TRUE;
  for (guint k = 0; k < n_outputs; k++)
    {
      OrtrainValue *output = ortrain_node_output (node, k);
      if (output == NULL || (output->uses.n == 0 && !output->is_output))
        continue;
      if (results[k] == NULL)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ARITY, "%s: its body has no output %u", text, k);
          return FALSE;
        }
      ortrain_value_replace_uses (output, results[k]);
    }
  ortrain_graph_delete_node (graph, node);
  *expanded = TRUE;
  return TRUE;
}

gboolean
ortrain_body_expand (OrtrainNode *node, gboolean *expanded, GError **error)
{
  *expanded = FALSE;
  if (node->op == NULL || node->op->expand == NULL || !is_static (node->inputs) || !is_static (node->outputs))
    return TRUE;
  return replace (node, node->op->expand, expanded, error);
}

gboolean
ortrain_body_restore (OrtrainNode *node, gboolean *restored, GError **error)
{
  *restored = FALSE;
  return node->op == NULL || node->op->restore == NULL || replace (node, node->op->restore, restored, error);
}
