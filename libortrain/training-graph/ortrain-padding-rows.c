/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-padding-rows-private.h"

#include "model/ortrain-model-private.h"
#include "onnx/ortrain-node-metadata-private.h"
#include "onnx/ortrain-proto-parts-private.h"

#include <string.h>

#define CALL "[target=torch.ops.aten.embedding.default](args = ("

/* "… = call_function[target=torch.ops.aten.embedding.default](args = (%weight, %indices, 0), kwargs = {})" → 0; -1 if
 * there is no third argument. */
static gint64
parse_call (const char *text)
{
  const char *arguments = strstr (text, CALL);
  const char *end = arguments != NULL ? strchr (arguments + strlen (CALL), ')') : NULL;
  if (end == NULL)
    return -1;
  arguments += strlen (CALL);
  g_autofree char *list = g_strndup (arguments, (gsize) (end - arguments));
  g_auto (GStrv) parts = g_strsplit (list, ",", -1);
  gint64 row;
  if (g_strv_length (parts) < 3 || !g_ascii_string_to_signed (g_strstrip (parts[2]), 10, 0, G_MAXINT - 1, &row, NULL))
    return -1;
  return row;
}

GHashTable *
ortrain_padding_rows_find (OrtrainModel *model)
{
  GHashTable *rows = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (OrtrainProtoParts) parts =
      model->proto != NULL ? ortrain_proto_parts_new (&model->scan, g_bytes_get_size (model->file)) : NULL;
  for (gsize n = 0; parts != NULL && n < model->scan.nodes->len; n++)
    {
      const Ortrain__Ox__NodeProto *node = ortrain_proto_parts_get_node (parts, n, NULL);
      if (node == NULL || node->n_input < 1)
        continue;
      g_autofree char *call = ortrain_node_metadata_dup (node, ORTRAIN_METADATA_FX_NODE,
                                                         ortrain_model_limits_get_max_name_bytes (model->limits));
      const gint64 row = call != NULL ? parse_call (call) : -1;
      if (row >= 0)
        g_hash_table_insert (rows, g_strdup (node->input[0]), GINT_TO_POINTER ((int) row + 1));
    }
  return rows;
}
