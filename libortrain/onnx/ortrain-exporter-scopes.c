/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where a node and its parameters are in the program that the file was exported from. */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "onnx/ortrain-node-metadata-private.h"

#include <string.h>

/* The position of a text among the labels; *is_new: nobody has asked for it before. */
static guint
find_label (OrtrainReaderState *state, const char *text, gboolean *is_new)
{
  guint position = GPOINTER_TO_UINT (g_hash_table_lookup (state->label_positions, text));
  *is_new = position == 0;
  if (position > 0)
    return position;
  position = state->labels->len;
  g_ptr_array_add (state->labels, g_strdup (text));
  g_hash_table_insert (state->label_positions, state->labels->pdata[position], GUINT_TO_POINTER (position));
  return position;
}

static gboolean
is_known (const char *name, gpointer data)
{
  return g_hash_table_contains (((OrtrainGraph *) data)->by_name, name);
}

typedef struct
{
  const char *usual;     /* PyTorch's usual name of such an operand; or NULL */
  gboolean is_certain;   /* whatever else the file says */
  gboolean is_parameter; /* may be one */
} Operand;

static Operand
judge_operand (const Ortrain__Ox__NodeProto *node, guint input, const OrtrainValue *value)
{
  const OrtrainOpDef *row =
      ortrain_ops_lookup (ortrain_reader_domain (node->domain), ortrain_reader_text (node->op_type));
  if (row == NULL)
    return (Operand){ NULL, FALSE, TRUE };
  /* Parameters of a normalization keep their names. Initializers with other names are the ones and zeros of a group
   * normalization that is scaled and shifted afterwards. */
  for (guint i = 0; i < ORTRAIN_MAX_INPUT_ROLES; i++)
    if (g_strcmp0 (row->input_roles[i], "scale") == 0)
      return (Operand){ NULL, FALSE, FALSE };
  if (row->kind == ORTRAIN_OP_KIND_ADD || row->kind == ORTRAIN_OP_KIND_MULTIPLY)
    return (Operand){ row->kind == ORTRAIN_OP_KIND_ADD ? "bias" : "weight", FALSE, TRUE };
  const char *role = input < ORTRAIN_MAX_INPUT_ROLES ? row->input_roles[input] : NULL;
  if (g_strcmp0 (role, "bias") == 0 && value->rank == 1) /* that of recurrent cells is put together from two */
    return (Operand){ "bias", TRUE, TRUE };
  if (g_strcmp0 (role, "weight") == 0 || g_strcmp0 (role, "table") == 0)
    return (Operand){ "weight", TRUE, TRUE };
  return (Operand){ NULL, FALSE, TRUE };
}

static void
name_parameter (OrtrainReaderState *state, const Ortrain__Ox__NodeProto *node, guint input, OrtrainValue *value,
                const char *scope)
{
  const gsize n_scope = strlen (scope);
  gboolean is_new;
  const guint64 max_bytes = ortrain_model_limits_get_max_name_bytes (state->reader->limits);
  if (n_scope > 0 && strncmp (value->name, scope, n_scope) == 0 && value->name[n_scope] == '.')
    {
      value->scoped_name = find_label (state, value->name, &is_new); /* as a module calls it already */
      return;
    }
  const Operand operand = judge_operand (node, input, value);
  if (!operand.is_parameter)
    return;
  g_autofree char *own =
      ortrain_node_metadata_dup_parameter (node, scope, operand.usual, is_known, value->graph, max_bytes);
  if (own == NULL && (!operand.is_certain || n_scope == 0))
    return;
  g_autofree char *name = g_strconcat (scope, n_scope > 0 ? "." : "", own != NULL ? own : operand.usual, NULL);
  if (is_known (name, value->graph) || strlen (name) > max_bytes)
    return;
  const guint label = find_label (state, name, &is_new);
  if (is_new) /* of two tensors, the first has the name */
    value->scoped_name = label;
}

void
ortrain_reader_read_scope (OrtrainReaderState *state, const Ortrain__Ox__NodeProto *proto, OrtrainNode *node)
{
  const guint64 max_bytes = ortrain_model_limits_get_max_name_bytes (state->reader->limits);
  g_autofree char *scope = ortrain_node_metadata_dup_scope (proto, max_bytes);
  if (scope == NULL)
    return;
  gboolean is_new;
  if (*scope != '\0')
    node->scope = find_label (state, scope, &is_new) & ((1u << 30) - 1);
  for (guint i = 0; i < MIN (node->inputs->len, ORTRAIN_MAX_INPUT_ROLES); i++)
    {
      OrtrainValue *value = node->inputs->pdata[i];
      if (value != NULL && value->kind == ORTRAIN_VALUE_INITIALIZER && value->scoped_name == 0 &&
          ortrain_dtype_is_floating (value->dtype))
        name_parameter (state, proto, i, value, scope);
    }
}
