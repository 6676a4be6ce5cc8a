/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "core/ortrain-text-private.h"

/* The functions that a file defines. */

void
ortrain_reader_function_free (gpointer data)
{
  OrtrainReaderFunction *self = data;
  for (guint i = 0; i < self->defaults->len; i++)
    ortrain__ox__attribute_proto__free_unpacked (self->defaults->pdata[i], NULL);
  g_ptr_array_unref (self->defaults);
  g_free (self);
}

/* A string field that this library's copy of the schema does not know. */
static char *
unknown_string (const ProtobufCMessage *message, guint32 number)
{
  for (guint i = 0; i < message->n_unknown_fields; i++)
    {
      const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
      gsize at = 0;
      guint64 length;
      if (field->tag == number && field->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED &&
          ortrain_wire_read_varint (field->data, field->len, &at, &length) && length == field->len - at)
        return g_strndup ((const char *) field->data + at, length);
    }
  return g_strdup ("");
}

static char *
function_key (const char *domain, const char *name, const ProtobufCMessage *message, guint32 overload_field)
{
  g_autofree char *overload = unknown_string (message, overload_field);
  return g_strconcat (ortrain_reader_domain (domain), "\n", ortrain_reader_text (name), "\n", overload, NULL);
}

gboolean
ortrain_reader_collect_functions (OrtrainReaderState *state, GError **error)
{
  const Ortrain__Ox__ModelProto *proto = state->reader->proto;
  for (gsize i = 0; i < proto->n_functions; i++)
    {
      const Ortrain__Ox__FunctionProto *function_proto = proto->functions[i];
      OrtrainReaderFunction *function = g_new0 (OrtrainReaderFunction, 1);
      function->proto = function_proto;
      function->defaults = g_ptr_array_new ();
      const ProtobufCMessage *base = &function_proto->base;
      for (guint k = 0; k < base->n_unknown_fields; k++)
        {
          const ProtobufCMessageUnknownField *field = &base->unknown_fields[k];
          gsize at = 0;
          guint64 length;
          if (field->tag != 11 || field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED ||
              !ortrain_wire_read_varint (field->data, field->len, &at, &length) || length != field->len - at)
            continue;
          Ortrain__Ox__AttributeProto *attribute =
              ortrain__ox__attribute_proto__unpack (NULL, length, field->data + at);
          if (attribute != NULL)
            g_ptr_array_add (function->defaults, attribute);
        }
      char *key = function_key (function_proto->domain, function_proto->name, base, 13);
      if (!g_hash_table_insert (state->functions, key, function))
        return ortrain_reader_invalid (error, "Function '%s' of domain '%s' is defined twice",
                                       ortrain_text_show (ortrain_reader_text (function_proto->name)),
                                       ortrain_text_show (ortrain_reader_text (function_proto->domain)));
      for (gsize k = 0; k < function_proto->n_opset_import; k++)
        {
          const Ortrain__Ox__OperatorSetIdProto *import = function_proto->opset_import[k];
          gint64 version = ortrain_graph_reader_get_opset (proto, "");
          if (*ortrain_reader_domain (import->domain) == '\0' && version > 0 && import->version != version)
            ortrain_reader_unsupported (state,
                                        "Function '%s' uses operator set %" G_GINT64_FORMAT
                                        ", the model %" G_GINT64_FORMAT "; only one for both is supported",
                                        ortrain_text_show (ortrain_reader_text (function_proto->name)),
                                        (gint64) import->version, version);
        }
    }
  return TRUE;
}

const OrtrainReaderFunction *
ortrain_reader_find_function (OrtrainReaderState *state, const Ortrain__Ox__NodeProto *node)
{
  if (g_hash_table_size (state->functions) == 0)
    return NULL;
  g_autofree char *key = function_key (node->domain, node->op_type, &node->base, 8);
  return g_hash_table_lookup (state->functions, key);
}

const Ortrain__Ox__AttributeProto *
ortrain_reader_follow_reference (const char *name, OrtrainNameTable **scope)
{
  while ((*scope)->call != NULL)
    {
      const OrtrainReaderCall *call = (*scope)->call;
      const Ortrain__Ox__AttributeProto *found = NULL;
      for (gsize i = 0; i < call->node->n_attribute && found == NULL; i++)
        if (g_str_equal (ortrain_reader_text (call->node->attribute[i]->name), name))
          found = call->node->attribute[i];
      if (found == NULL)
        {
          for (guint i = 0; i < call->function->defaults->len; i++)
            {
              const Ortrain__Ox__AttributeProto *value = call->function->defaults->pdata[i];
              if (g_str_equal (ortrain_reader_text (value->name), name))
                return value;
            }
          return NULL;
        }
      *scope = call->caller;
      if (ortrain_reader_text (found->ref_attr_name)[0] == '\0')
        return found;
      name = found->ref_attr_name;
    }
  return NULL;
}
