/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "tensor/ortrain-tensor-private.h"

/* The use of an integer input in a model tells which integers are expected. */

#define MAX_DEPTH 64

typedef struct
{
  GHashTable *seen;
  gint64 n_entries; /* that it is an index into; 0: none is known */
  gint64 compared;  /* the number that it is compared with */
} Range;

/* Also of a graph whose nodes have no rows yet. */
static OrtrainOpKind
get_kind (const OrtrainNode *node)
{
  const OrtrainOpDef *op = node->op != NULL ? node->op : ortrain_ops_lookup (node->domain, node->op_type);
  return op != NULL ? op->kind : ORTRAIN_OP_KIND_OTHER;
}

/* The entries along the axis that a look-up reads at its input 1; 0 if they are not known. */
static gint64
get_n_entries (const OrtrainNode *lookup)
{
  const OrtrainValue *table = ortrain_node_input (lookup, 0);
  if (table == NULL || table->rank <= 0)
    return 0;
  gint64 axis = ortrain_attributes_get_int (lookup->attributes, "axis", 0);
  axis += axis < 0 ? table->rank : 0;
  return axis >= 0 && axis < table->rank && ortrain_dim_is_int (table->dims[axis]) ? table->dims[axis].value : 0;
}

static void
note_reader (const OrtrainNode *node, guint index, Range *range)
{
  const OrtrainOpKind kind = get_kind (node);
  if (kind == ORTRAIN_OP_KIND_LOOKUP && index == 1)
    {
      const gint64 n = get_n_entries (node);
      if (n > 0 && (range->n_entries == 0 || n < range->n_entries))
        range->n_entries = n;
    }
  const OrtrainValue *other = ortrain_node_input (node, index == 0 ? 1 : 0);
  if (kind == ORTRAIN_OP_KIND_EQUAL && other != NULL && other->tensor != NULL &&
      ortrain_tensor_get_n_elements (other->tensor) == 1)
    range->compared = ortrain_tensor_peek_int (other->tensor, 0);
}

/* Notes the readers of the value, and of all integers that are computed from it. */
static void
note_readers (const OrtrainValue *value, guint depth, Range *range)
{
  if (depth > MAX_DEPTH || !g_hash_table_add (range->seen, (gpointer) value))
    return;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse use = value->uses.items[u];
      note_reader (use.node, use.index, range);
      for (guint k = 0; k < use.node->outputs->len; k++)
        {
          const OrtrainValue *output = use.node->outputs->pdata[k];
          if (output != NULL && (output->dtype == ORTRAIN_DTYPE_INT64 || output->dtype == ORTRAIN_DTYPE_INT32 ||
                                 output->dtype == ORTRAIN_DTYPE_UNDEFINED))
            note_readers (output, depth + 1, range);
        }
    }
}

/**
 * ortrain_value_suggest_integers:
 * @self: a value of an integer type
 * @least: (out): the least integer
 * @greatest: (out): the greatest integer, which may be the same
 *
 * Suggests elements for an input of which nothing else is known, for instance to time a model. Where the model looks
 * entries of a table up at them, they are all the indices into the smallest table. Else they are the number that the
 * model compares them with, which chooses the branch of an If that is taken, or 1.
 */
void
ortrain_value_suggest_integers (OrtrainValue *self, gint64 *least, gint64 *greatest)
{
  g_return_if_fail (ORTRAIN_IS_VALUE (self) && least != NULL && greatest != NULL);
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  Range range = { .seen = seen, .compared = 1 };
  note_readers (self, 0, &range);
  *least = range.n_entries > 0 ? 0 : range.compared;
  *greatest = range.n_entries > 0 ? range.n_entries - 1 : range.compared;
}
