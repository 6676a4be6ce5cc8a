/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-sequence-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-control-private.h"
#include "ops/ortrain-op-check-private.h"
#include "ops/upgrade/ortrain-writer-private.h"

/* Sequences of tensors. Exporters write them where a tensor is split into a list, of which single elements are taken.
 * No kernel knows of them: lengths and positions are constants, so that all sequences are resolved when the graph is
 * created from its file. Each sequence becomes a SequenceConstruct, and its readers become nodes that read its
 * elements, or the split tensor. A SplitToSequence into equal parts of a length that is not known stays one, from which
 * slices are taken. */

#define INSTEAD                                                                                                        \
  "export the model so that the list has a constant length: with torch.onnx.export (dynamo=True, optimize=True), or "  \
  "with a fixed size of the dimension that is split"

static gboolean fail (OrtrainNode *node, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
fail (OrtrainNode *node, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT, "%s: %s", text, message);
  return FALSE;
}

/* ---- known lengths and positions ---- */

/* The sequence of input 0. */
static OrtrainNode *
get_sequence (OrtrainNode *node, GError **error)
{
  const OrtrainWriter self = { node->graph, node };
  if (!ortrain_write_check (&self, error))
    return NULL;
  const OrtrainValue *value = ortrain_node_input (node, 0);
  OrtrainNode *sequence = ortrain_sequence_find (value), *source = ortrain_sequence_find_source (value);
  if (sequence != NULL)
    return sequence;
  g_autofree char *text = source != NULL ? ortrain_node_describe (source) : NULL;
  fail (node, error, "it reads the sequence '%s'%s%s, whose length is not constant; " INSTEAD,
        ortrain_text_show (value != NULL ? value->name : ""), text != NULL ? " of " : "", text != NULL ? text : "");
  return NULL;
}

/* The one element of an integer input, if it is a number. */
static gboolean
get_number (OrtrainNode *node, guint i, gint64 *number)
{
  OrtrainInferContext ctx = { node, node->graph->dims, 0 };
  g_autofree gint64 *numbers = NULL;
  gint n;
  if (!ortrain_infer_get_ints (&ctx, i, &numbers, &n) || n != 1)
    return FALSE;
  *number = numbers[0];
  return TRUE;
}

static gboolean
get_position (OrtrainNode *node, guint i, gint64 *position, GError **error)
{
  if (get_number (node, i, position))
    return TRUE;
  const OrtrainValue *value = ortrain_node_input (node, i);
  return fail (node, error, "its position '%s' is computed while the model runs, and must be constant; " INSTEAD,
               ortrain_text_show (value != NULL ? value->name : ""));
}

/* Counted from the end where negative. n: the first position that does not exist. */
static gboolean
check_position (OrtrainNode *node, gint64 *position, gint64 length, gint64 n, GError **error)
{
  const gint64 asked = *position;
  *position += asked < 0 ? length : 0;
  if (*position >= 0 && *position < n)
    return TRUE;
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
               "%s: position %" G_GINT64_FORMAT " is out of range for a sequence of %" G_GINT64_FORMAT " tensors", text,
               asked, length);
  return FALSE;
}

/* ---- changes ---- */

static void
become (OrtrainNode *node, const char *op_type, OrtrainValue *const *inputs, guint n_inputs)
{
  for (guint i = 0; i < MAX (node->inputs->len, n_inputs); i++)
    ortrain_node_set_input (node, i, i < n_inputs ? inputs[i] : NULL);
  g_ptr_array_set_size (node->inputs, (gint) n_inputs);
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_assign (node->attributes, attributes);
  ortrain_attributes_free (attributes);
  ortrain_node_set_operator (node, "", op_type);
  node->op = ortrain_ops_lookup ("", op_type);
}

static gboolean
become_sequence (OrtrainNode *node, GPtrArray *elements, GError **error)
{
  if (!ortrain_sequence_count (node, elements->len, error))
    return FALSE;
  become (node, "SequenceConstruct", (OrtrainValue *const *) elements->pdata, elements->len);
  return TRUE;
}

/* ---- SplitToSequence (x[, split]): parts along an axis. Without split they are single indices; a scalar is the size
 * of all parts but the last, which may be smaller; a vector has the size of each ---- */

/* Whether it is, if the rank of `split` is known. *n: -1 if the number of parts is not known; *sizes: [n], for a
 * scalar. */
static gboolean
find_parts (OrtrainNode *node, gint64 axis, gint64 *n, gint64 **sizes, GError **error)
{
  const OrtrainValue *x = ortrain_node_input (node, 0), *split = ortrain_node_input (node, 1);
  gint64 size = 1;
  *n = -1;
  *sizes = NULL;
  if (split != NULL && split->rank == 1)
    {
      if (ortrain_dim_is_int (split->dims[0]))
        *n = split->dims[0].value;
      return TRUE;
    }
  if (x->rank < 0 || !ortrain_dim_is_int (x->dims[axis]) || (split != NULL && !get_number (node, 1, &size)))
    return TRUE;
  if (size < 1)
    return fail (node, error, "its parts have %" G_GINT64_FORMAT " elements, at least 1 is needed", size);
  const gint64 all = x->dims[axis].value;
  const gint64 n_parts = all / size + (all % size != 0);
  if (!ortrain_sequence_count (node, n_parts, error))
    return FALSE;
  *n = n_parts;
  *sizes = g_new0 (gint64, n_parts + 1);
  for (gint64 i = 0; i < n_parts; i++)
    (*sizes)[i] = MIN (size, all - i * size);
  return TRUE;
}

static OrtrainValue *
write_int64 (const OrtrainWriter *self, OrtrainValue *value)
{
  return value->dtype == ORTRAIN_DTYPE_INT64
             ? value
             : ortrain_write (self, "Cast", &value, 1, ortrain_write_attribute ("to", ORTRAIN_DTYPE_INT64));
}

static gboolean
upgrade_split (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  OrtrainValue *x = ortrain_node_input (node, 0), *split = ortrain_node_input (node, 1);
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 0), n;
  const gboolean squeezes = split == NULL && ortrain_attributes_get_int (node->attributes, "keepdims", 1) == 0;
  if (x->rank >= 0 && (axis < -x->rank || axis >= x->rank))
    return fail (node, error, "axis %" G_GINT64_FORMAT " is out of range for rank %d", axis, x->rank);
  axis += axis < 0 && x->rank >= 0 ? x->rank : 0;
  g_autofree gint64 *sizes = NULL;
  if (!find_parts (node, axis, &n, &sizes, error))
    return FALSE;
  if (n < 0)
    return TRUE; /* readers take slices of it */
  if (sizes == NULL && !ortrain_sequence_count (node, n, error))
    return FALSE;
  g_autoptr (GPtrArray) elements = g_ptr_array_new ();
  if (n > 0)
    {
      OrtrainValue *operands[] = { x, sizes != NULL ? ortrain_graph_const_ints (graph, sizes, (gsize) n)
                                                    : write_int64 (&self, split) };
      OrtrainNode *parts = ortrain_graph_insert_node (graph, node, "", "Split", node->name, operands, 2, (guint) n);
      ortrain_attributes_set_int (parts->attributes, "axis", axis);
      parts->op = ortrain_ops_lookup ("", "Split");
      for (guint i = 0; i < n; i++)
        g_ptr_array_add (elements, ortrain_node_output (parts, i));
    }
  for (guint i = 0; squeezes && i < elements->len; i++)
    elements->pdata[i] = ortrain_write2 (&self, "Squeeze", elements->pdata[i], ortrain_write_ints (&self, &axis, 1));
  become (node, "SequenceConstruct", (OrtrainValue *const *) elements->pdata, elements->len);
  return TRUE;
}

/* Part `position` of parts of one size, whose number is not known: x[position · size : (position + 1) · size]. */
static gboolean
slice_part (OrtrainGraph *graph, OrtrainNode *node, OrtrainNode *split, gint64 position, GError **error)
{
  const OrtrainWriter self = { graph, node };
  OrtrainValue *x = ortrain_node_input (split, 0), *given = ortrain_node_input (split, 1);
  const gint64 axis = ortrain_attributes_get_int (split->attributes, "axis", 0);
  const gboolean squeezes = given == NULL && ortrain_attributes_get_int (split->attributes, "keepdims", 1) == 0;
  if (given != NULL && given->rank != 0)
    return fail (node, error, "the number of parts that '%s' is split into is not constant; " INSTEAD,
                 ortrain_text_show (x->name));
  OrtrainValue *one = ORTRAIN_WRITE_INTS (&self, 1), *index = ORTRAIN_WRITE_INTS (&self, position);
  OrtrainValue *size = given != NULL ? ortrain_write2 (&self, "Reshape", write_int64 (&self, given), one) : one;
  OrtrainValue *length = ortrain_write_dim (&self, x, axis);
  if (position < 0)
    {
      /* from the number of parts, (length - 1 + size) / size */
      OrtrainValue *up = ortrain_write2 (&self, "Add", ortrain_write2 (&self, "Sub", length, one), size);
      index = ortrain_write2 (&self, "Add", ortrain_write2 (&self, "Div", up, size), index);
    }
  /* limited here, since inference assumes that symbols are as large as needed */
  OrtrainValue *begin = ortrain_write2 (&self, "Min", ortrain_write2 (&self, "Mul", index, size), length);
  OrtrainValue *end = ortrain_write2 (&self, "Min", ortrain_write2 (&self, "Add", begin, size), length);
  OrtrainValue *operands[] = { x, begin, end, ORTRAIN_WRITE_INTS (&self, axis), one };
  if (!squeezes)
    {
      become (node, "Slice", operands, G_N_ELEMENTS (operands));
      return TRUE;
    }
  OrtrainValue *part = ortrain_write (&self, "Slice", operands, G_N_ELEMENTS (operands), NULL);
  OrtrainValue *squeezed[] = { part, operands[3] };
  become (node, "Squeeze", squeezed, 2);
  return TRUE;
}

/* ---- nodes that make and read sequences ---- */

static gboolean
upgrade_at (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  gint64 position;
  OrtrainNode *split = ortrain_sequence_find_split (ortrain_node_input (node, 0));
  if (!get_position (node, 1, &position, error))
    return FALSE;
  if (split != NULL)
    return slice_part (graph, node, split, position, error);
  OrtrainNode *sequence = get_sequence (node, error);
  if (sequence == NULL || !check_position (node, &position, sequence->inputs->len, sequence->inputs->len, error))
    return FALSE;
  OrtrainValue *element = ortrain_node_input (sequence, (guint) position);
  become (node, "Identity", &element, 1);
  return TRUE;
}

static gboolean
upgrade_length (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainNode *sequence = get_sequence (node, error);
  if (sequence == NULL)
    return FALSE;
  OrtrainValue *length = ortrain_graph_const_int (graph, sequence->inputs->len);
  become (node, "Identity", &length, 1);
  return TRUE;
}

static gboolean
upgrade_construct (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (!ortrain_op_check_present (node, (gint) node->inputs->len, error))
    return FALSE;
  return ortrain_sequence_count (node, node->inputs->len, error);
}

static gboolean
upgrade_empty (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  become (node, "SequenceConstruct", NULL, 0);
  return TRUE;
}

static gboolean
upgrade_insert (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainNode *sequence = get_sequence (node, error);
  if (sequence == NULL)
    return FALSE;
  gint64 n = sequence->inputs->len, position = n;
  if (ortrain_node_input (node, 2) != NULL &&
      (!get_position (node, 2, &position, error) || !check_position (node, &position, n, n + 1, error)))
    return FALSE;
  g_autoptr (GPtrArray) elements = g_ptr_array_copy (sequence->inputs, NULL, NULL);
  g_ptr_array_insert (elements, (gint) position, ortrain_node_input (node, 1));
  return become_sequence (node, elements, error);
}

static gboolean
upgrade_erase (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainNode *sequence = get_sequence (node, error);
  gint64 position = -1;
  if (sequence == NULL || (ortrain_node_input (node, 1) != NULL && !get_position (node, 1, &position, error)) ||
      !check_position (node, &position, sequence->inputs->len, sequence->inputs->len, error))
    return FALSE;
  g_autoptr (GPtrArray) elements = g_ptr_array_copy (sequence->inputs, NULL, NULL);
  g_ptr_array_remove_index (elements, (guint) position);
  return become_sequence (node, elements, error);
}

static gboolean
upgrade_concat (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  const gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 0);
  const gboolean is_new = ortrain_attributes_get_int (node->attributes, "new_axis", 0) != 0;
  OrtrainNode *sequence = get_sequence (node, error);
  if (sequence == NULL)
    return FALSE;
  if (sequence->inputs->len == 0)
    return fail (node, error, "the sequence is empty");
  g_autoptr (GPtrArray) elements = g_ptr_array_copy (sequence->inputs, NULL, NULL);
  for (guint i = 0; is_new && i < elements->len; i++)
    elements->pdata[i] = ortrain_write2 (&self, "Unsqueeze", elements->pdata[i], ortrain_write_ints (&self, &axis, 1));
  become (node, "Concat", (OrtrainValue *const *) elements->pdata, elements->len);
  ortrain_attributes_set_int (node->attributes, "axis", axis);
  return node->op->upgrade == NULL || node->op->upgrade (graph, node, opset, error);
}

/* clang-format off */
#define SEQUENCE(op, min, max, function, ...)                                                                          \
  { .name = op, .domain = "", .since = 11, .min_inputs = min, .max_inputs = max, .min_outputs = 1, .max_outputs = 1,   \
    .upgrade = function, .instead = INSTEAD, __VA_ARGS__ }

static const OrtrainOpDef ops[] = {
  SEQUENCE ("SplitToSequence", 1, 2, upgrade_split, .types = "*i", .vector_inputs = 1 << 1),
  SEQUENCE ("SequenceConstruct", 0, -1, upgrade_construct, .types = "*"),
  SEQUENCE ("SequenceEmpty", 0, 0, upgrade_empty),
  SEQUENCE ("SequenceAt", 2, 2, upgrade_at, .types = "*i", .scalar_inputs = 1 << 1),
  SEQUENCE ("SequenceLength", 1, 1, upgrade_length),
  SEQUENCE ("SequenceInsert", 2, 3, upgrade_insert, .types = "**i", .scalar_inputs = 1 << 2),
  SEQUENCE ("SequenceErase", 1, 2, upgrade_erase, .types = "*i", .scalar_inputs = 1 << 1),
  SEQUENCE ("ConcatFromSequence", 1, 1, upgrade_concat),
};
/* clang-format on */
ORTRAIN_OP_TABLE (sequence, ops);
