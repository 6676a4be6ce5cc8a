/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-exporter-facts-private.h"

#include "model/ortrain-wire-private.h"

#include <string.h>

/* A field of a message whose type the schema at hand does not know: [begin, end) without its length. */
static gboolean
get_bytes (const guint8 *data, gsize end, gsize *at, const guint8 **begin, gsize *n)
{
  guint64 length;
  if (!ortrain_wire_read_varint (data, end, at, &length) || length > end - *at)
    return FALSE;
  *begin = data + *at;
  *n = (gsize) length;
  *at += (gsize) length;
  return TRUE;
}

/* NodeProto.metadata_props (field 9) holds StringStringEntryProtos: key (1), value (2). */
static char *
find_metadata (const Ortrain__Ox__NodeProto *proto, const char *wanted)
{
  for (guint i = 0; i < proto->base.n_unknown_fields; i++)
    {
      const ProtobufCMessageUnknownField *field = &proto->base.unknown_fields[i];
      const guint8 *entry, *key = NULL, *value = NULL;
      gsize at = 0, n_entry, n_key = 0, n_value = 0;
      if (field->tag != 9 || field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED ||
          !get_bytes (field->data, field->len, &at, &entry, &n_entry))
        continue;
      for (at = 0; at < n_entry;)
        {
          guint8 tag = entry[at++];
          const guint8 *bytes;
          gsize n;
          if ((tag & 7) != 2 || !get_bytes (entry, n_entry, &at, &bytes, &n))
            break;
          if (tag >> 3 == 1)
            key = bytes, n_key = n;
          else if (tag >> 3 == 2)
            value = bytes, n_value = n;
        }
      if (key != NULL && value != NULL && n_key == strlen (wanted) && memcmp (key, wanted, n_key) == 0)
        return g_strndup ((const char *) value, n_value);
    }
  return NULL;
}

/* "… torch.ops.aten.embedding.default](args = (%weight, %ids, 0), kwargs = {})": the third argument. */
static gboolean
parse_embedding (const char *call, gint64 *row)
{
  const char *p = strstr (call, "aten.embedding.default](args = (");
  if (p == NULL)
    return FALSE;
  p = strchr (p, '(') + 1;
  p = strchr (p, '(') + 1;
  const char *end = strchr (p, ')');
  for (guint commas = 0; p != NULL && p < end && commas < 2; commas++)
    {
      p = strchr (p, ',');
      p = p != NULL ? p + 1 : NULL;
    }
  if (end == NULL || p == NULL || p >= end)
    return FALSE;
  char *stop;
  *row = g_ascii_strtoll (p, &stop, 10);
  while (g_ascii_isspace (*stop))
    stop++;
  return stop != p && (*stop == ',' || *stop == ')') && *row >= 0;
}

/* Families of models, by the end of the name that their word embedding has. Those derived from RoBERTa pad with 1. */
static gboolean
is_padded_family (const char *weight, gint64 *row)
{
  static const struct
  {
    const char *suffix;
    gint64 row;
  } families[] = {
    { "roberta.embeddings.word_embeddings.weight", 1 },   { "camembert.embeddings.word_embeddings.weight", 1 },
    { "longformer.embeddings.word_embeddings.weight", 1 }, { "mpnet.embeddings.word_embeddings.weight", 1 },
    { "bert.embeddings.word_embeddings.weight", 0 },      { "electra.embeddings.word_embeddings.weight", 0 },
    { "deberta.embeddings.word_embeddings.weight", 0 },   { "albert.embeddings.word_embeddings.weight", 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    if (g_str_has_suffix (weight, families[i].suffix))
      {
        *row = families[i].row;
        return TRUE;
      }
  return FALSE;
}

char *
ortrain_exporter_facts_padding (const Ortrain__Ox__ModelProto *model, const Ortrain__Ox__NodeProto *proto,
                                OrtrainNode *node)
{
  if (!ortrain_node_is (node, "", "Gather") || proto->n_input < 2)
    return NULL;
  const char *weight = proto->input[0];
  g_autofree char *call = find_metadata (proto, "pkg.torch.onnx.fx_node");
  gint64 row;
  gboolean known = call != NULL && parse_embedding (call, &row);
  gboolean guessed = call == NULL && g_strcmp0 (model->producer_name, "pytorch") == 0 && is_padded_family (weight, &row);
  if (!known && !guessed)
    return NULL;
  ortrain_attributes_set_int (node->attributes, "padding_index", row);
  return known ? g_strdup_printf ("Row %" G_GINT64_FORMAT " of the embedding “%s” is a padding row, as its exporter "
                                  "noted: it is not trained",
                                  row, weight)
               : g_strdup_printf ("Row %" G_GINT64_FORMAT " of the embedding “%s” is taken for a padding row, as in all "
                                  "models of its family (the exporter does not tell): it is not trained",
                                  row, weight);
}
