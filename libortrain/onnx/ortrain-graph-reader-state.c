/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

gboolean
ortrain_reader_invalid (GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID, text);
  return FALSE;
}

void
ortrain_reader_unsupported (OrtrainReaderState *state, const char *format, ...)
{
  if (state->reader->unsupported != NULL)
    return;
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  state->reader->unsupported = g_error_new_literal (ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED, text);
}

gboolean
ortrain_reader_postpone (OrtrainReaderState *state, GError **local_error)
{
  if (!g_error_matches (*local_error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED))
    return FALSE;
  if (state->reader->unsupported == NULL)
    state->reader->unsupported = g_steal_pointer (local_error);
  else
    g_clear_error (local_error);
  return TRUE;
}

char *
ortrain_reader_describe (const Ortrain__Ox__NodeProto *node)
{
  const gboolean named = ortrain_reader_text (node->name)[0] != '\0';
  g_autofree char *op_type = ortrain_text_quote (ortrain_reader_text (node->op_type));
  g_autofree char *name = ortrain_text_quote (named ? node->name : node->n_output > 0 ? node->output[0] : "");
  return named ? g_strdup_printf ("%s '%s'", op_type, name) : g_strdup_printf ("%s (first output '%s')", op_type, name);
}

gint64
ortrain_graph_reader_get_opset (const Ortrain__Ox__ModelProto *proto, const char *domain)
{
  gint64 version = 0;
  for (gsize i = 0; i < proto->n_opset_import; i++)
    if (g_str_equal (ortrain_reader_domain (proto->opset_import[i]->domain), domain))
      version = MAX (version, proto->opset_import[i]->version);
  return version;
}

OrtrainOpKind
ortrain_reader_get_kind (const Ortrain__Ox__NodeProto *node)
{
  const OrtrainOpDef *row =
      ortrain_ops_lookup (ortrain_reader_domain (node->domain), ortrain_reader_text (node->op_type));
  return row != NULL ? row->kind : ORTRAIN_OP_KIND_OTHER;
}
