/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-writer-private.h"

#include "ops/ortrain-op-check-private.h"

gboolean
ortrain_write_check (const OrtrainWriter *self, GError **error)
{
  return ortrain_op_check_arity (self->node, error) &&
         ortrain_op_check_present (self->node, self->node->op->min_inputs, error);
}

OrtrainValue *
ortrain_write (const OrtrainWriter *self, const char *op_type, OrtrainValue *const *operands, guint n,
               OrtrainAttributes *attributes)
{
  while (n > 0 && operands[n - 1] == NULL)
    n--;
  return ortrain_upgrade_insert (self->graph, self->node, op_type, operands, n, attributes);
}

OrtrainValue *
ortrain_write1 (const OrtrainWriter *self, const char *op_type, OrtrainValue *a)
{
  return ortrain_write (self, op_type, &a, 1, NULL);
}

OrtrainValue *
ortrain_write2 (const OrtrainWriter *self, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *operands[] = { a, b };
  return ortrain_write (self, op_type, operands, 2, NULL);
}

OrtrainValue *
ortrain_write_ints (const OrtrainWriter *self, const gint64 *values, gsize n)
{
  return ortrain_graph_const_ints (self->graph, values, n);
}

OrtrainAttributes *
ortrain_write_attribute (const char *name, gint64 value)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, name, value);
  return attributes;
}

OrtrainValue *
ortrain_write_concat (const OrtrainWriter *self, OrtrainValue *a, OrtrainValue *b, gint64 axis)
{
  OrtrainValue *operands[] = { a, b };
  return ortrain_write (self, "Concat", operands, 2, ortrain_write_attribute ("axis", axis));
}

OrtrainValue *
ortrain_write_slice (const OrtrainWriter *self, OrtrainValue *x, gint64 axis, gint64 from, gint64 to, gint64 step)
{
  OrtrainValue *operands[] = { x, ortrain_write_ints (self, &from, 1), ortrain_write_ints (self, &to, 1),
                               ortrain_write_ints (self, &axis, 1), ortrain_write_ints (self, &step, 1) };
  return ortrain_write (self, "Slice", operands, 5, NULL);
}

OrtrainValue *
ortrain_write_dim (const OrtrainWriter *self, OrtrainValue *value, gint64 axis)
{
  OrtrainAttributes *attributes = ortrain_write_attribute ("start", axis);
  if (axis != -1)
    ortrain_attributes_set_int (attributes, "end", axis + 1);
  return ortrain_write (self, "Shape", &value, 1, attributes);
}

gboolean
ortrain_write_finish (const OrtrainWriter *self, OrtrainValue *result)
{
  if (ortrain_node_output (self->node, 0) != NULL)
    ortrain_value_replace_uses (ortrain_node_output (self->node, 0), result);
  ortrain_graph_delete_node (self->graph, self->node);
  return TRUE;
}

gboolean
ortrain_write_refuse (const OrtrainWriter *self, GError **error, const char *why)
{
  g_autofree char *text = ortrain_node_describe (self->node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "%s: %s", text, why);
  return FALSE;
}
