/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "core/ortrain-text-private.h"

static char *
attribute_string (const ProtobufCBinaryData *bytes)
{
  if (bytes->len > 0 && !g_utf8_validate_len ((const char *) bytes->data, bytes->len, NULL))
    return NULL;
  return g_strndup ((const char *) bytes->data, bytes->len);
}

static OrtrainAttributeKind
kind_of (const Ortrain__Ox__AttributeProto *attribute)
{
  if (attribute->has_type && attribute->type != 0)
    return (OrtrainAttributeKind) attribute->type;
  /* IR version 1 had no discriminator */
  if (attribute->has_f)
    return ORTRAIN_ATTRIBUTE_FLOAT;
  if (attribute->has_i)
    return ORTRAIN_ATTRIBUTE_INT;
  if (attribute->has_s)
    return ORTRAIN_ATTRIBUTE_STRING;
  if (attribute->t != NULL)
    return ORTRAIN_ATTRIBUTE_TENSOR;
  if (attribute->g != NULL)
    return ORTRAIN_ATTRIBUTE_GRAPH;
  if (attribute->n_floats > 0)
    return ORTRAIN_ATTRIBUTE_FLOATS;
  if (attribute->n_strings > 0)
    return ORTRAIN_ATTRIBUTE_STRINGS;
  if (attribute->n_tensors > 0)
    return ORTRAIN_ATTRIBUTE_TENSORS;
  if (attribute->n_graphs > 0)
    return ORTRAIN_ATTRIBUTE_GRAPHS;
  return ORTRAIN_ATTRIBUTE_INTS;
}

/* The description of an attribute's graphs in reports. */
static char *
make_enclosure (const Ortrain__Ox__NodeProto *node, const char *attribute)
{
  const char *label = ortrain_reader_text (node->name);
  if (*label == '\0' && node->n_output > 0)
    label = node->output[0];
  g_autofree char *op_type = ortrain_text_quote (ortrain_reader_text (node->op_type));
  g_autofree char *shown = ortrain_text_quote (label), *name = ortrain_text_quote (attribute);
  g_autofree char *text = g_strdup_printf ("%s of %s '%s'", name, op_type, shown);
  return g_ref_string_new (text);
}

static gboolean
read_attribute (OrtrainReaderState *state, OrtrainNameTable *scope, const char *name,
                const Ortrain__Ox__AttributeProto *proto, const Ortrain__Ox__NodeProto *node, const char *owner,
                OrtrainAttributes *attributes, GError **error)
{
  switch (kind_of (proto))
    {
    case ORTRAIN_ATTRIBUTE_FLOAT:
      ortrain_attributes_set_float (attributes, name, proto->f);
      return TRUE;
    case ORTRAIN_ATTRIBUTE_INT:
      ortrain_attributes_set_int (attributes, name, proto->i);
      return TRUE;
    case ORTRAIN_ATTRIBUTE_FLOATS:
      ortrain_attributes_set_floats (attributes, name, proto->floats, proto->n_floats);
      return TRUE;
    case ORTRAIN_ATTRIBUTE_INTS:
      ortrain_attributes_set_ints (attributes, name, (const gint64 *) proto->ints, proto->n_ints);
      return TRUE;
    case ORTRAIN_ATTRIBUTE_STRING:
      {
        g_autofree char *string = attribute_string (&proto->s);
        if (string == NULL)
          ortrain_reader_unsupported (state, "Attribute '%s' of %s is not UTF-8 text, which is not supported",
                                      ortrain_text_show (name), owner);
        else
          ortrain_attributes_set_string (attributes, name, string);
        return TRUE;
      }
    case ORTRAIN_ATTRIBUTE_STRINGS:
      {
        g_autoptr (GPtrArray) strings = g_ptr_array_new_with_free_func (g_free);
        for (gsize i = 0; i < proto->n_strings; i++)
          {
            char *string = attribute_string (&proto->strings[i]);
            if (string == NULL)
              {
                ortrain_reader_unsupported (state, "Attribute '%s' of %s is not UTF-8 text, which is not supported",
                                            ortrain_text_show (name), owner);
                return TRUE;
              }
            g_ptr_array_add (strings, string);
          }
        ortrain_attributes_set_strings (attributes, name, (const char *const *) strings->pdata, strings->len);
        return TRUE;
      }
    case ORTRAIN_ATTRIBUTE_TENSOR:
    case ORTRAIN_ATTRIBUTE_TENSORS:
      {
        g_autoptr (GPtrArray) tensors = g_ptr_array_new ();
        gboolean one = kind_of (proto) == ORTRAIN_ATTRIBUTE_TENSOR;
        if (one && proto->t == NULL)
          return ortrain_reader_invalid (error, "Attribute '%s' of %s has no tensor", ortrain_text_show (name), owner);
        for (gsize i = 0; i < (one ? 1 : proto->n_tensors); i++)
          {
            GError *local_error = NULL;
            OrtrainTensor *tensor = ortrain_proto_tensors_get (state->reader->tensors,
                                                               one ? proto->t : proto->tensors[i], owner, &local_error);
            if (tensor == NULL)
              {
                if (ortrain_reader_postpone (state, &local_error))
                  return TRUE;
                g_propagate_error (error, local_error);
                return FALSE;
              }
            g_ptr_array_add (tensors, tensor);
          }
        if (one)
          ortrain_attributes_set_tensor (attributes, name, tensors->pdata[0]);
        else
          ortrain_attributes_set_tensors (attributes, name, (OrtrainTensor *const *) tensors->pdata, tensors->len);
        return TRUE;
      }
    case ORTRAIN_ATTRIBUTE_GRAPH:
      {
        if (proto->g == NULL)
          return ortrain_reader_invalid (error, "Attribute '%s' of %s has no graph", ortrain_text_show (name), owner);
        g_autoptr (GRefString) enclosure = make_enclosure (node, name);
        g_autoptr (OrtrainGraph) graph = state->read_graph (state, scope, proto->g, enclosure, error);
        if (graph == NULL)
          return FALSE;
        ortrain_attributes_set_graph (attributes, name, G_OBJECT (graph));
        return TRUE;
      }
    case ORTRAIN_ATTRIBUTE_GRAPHS:
      {
        g_autoptr (GRefString) enclosure = make_enclosure (node, name);
        g_autoptr (GPtrArray) graphs = g_ptr_array_new_with_free_func (g_object_unref);
        for (gsize i = 0; i < proto->n_graphs; i++)
          {
            OrtrainGraph *graph = state->read_graph (state, scope, proto->graphs[i], enclosure, error);
            if (graph == NULL)
              return FALSE;
            g_ptr_array_add (graphs, graph);
          }
        ortrain_attributes_set_graphs (attributes, name, (GObject *const *) graphs->pdata, graphs->len);
        return TRUE;
      }
    }
  /* sparse tensors and types */
  if (proto->sparse_tensor != NULL)
    {
      GError *local_error = NULL;
      g_autoptr (OrtrainTensor) dense =
          ortrain_proto_tensors_densify (state->reader->tensors, proto->sparse_tensor, owner, &local_error);
      if (dense != NULL)
        ortrain_attributes_set_tensor (attributes, name, dense);
      else if (!ortrain_reader_postpone (state, &local_error))
        {
          g_propagate_error (error, local_error);
          return FALSE;
        }
      return TRUE;
    }
  ortrain_reader_unsupported (state, "Attribute '%s' of %s has the type %d, which is not supported",
                              ortrain_text_show (name), owner, (int) kind_of (proto));
  return TRUE;
}

gboolean
ortrain_reader_read_attributes (OrtrainReaderState *state, OrtrainNameTable *scope, const Ortrain__Ox__NodeProto *node,
                                OrtrainAttributes *attributes, GError **error)
{
  g_autofree char *owner = ortrain_reader_describe (node);
  for (gsize i = 0; i < node->n_attribute; i++)
    {
      const Ortrain__Ox__AttributeProto *attribute = node->attribute[i];
      OrtrainNameTable *where = scope;
      if (ortrain_reader_text (attribute->name)[0] == '\0')
        return ortrain_reader_invalid (error, "An attribute of %s has no name", owner);
      if (ortrain_attributes_has (attributes, attribute->name))
        return ortrain_reader_invalid (error, "Attribute '%s' of %s is given twice",
                                       ortrain_text_show (attribute->name), owner);
      if (ortrain_reader_text (attribute->ref_attr_name)[0] != '\0')
        {
          if (scope->call == NULL)
            return ortrain_reader_invalid (
                error, "Attribute '%s' of %s refers to an attribute of a function, but is not inside a function",
                ortrain_text_show (attribute->name), owner);
          const Ortrain__Ox__AttributeProto *meant = ortrain_reader_follow_reference (attribute->ref_attr_name, &where);
          if (meant == NULL)
            continue;
          if (!read_attribute (state, where, attribute->name, meant, node, owner, attributes, error))
            return FALSE;
        }
      else if (!read_attribute (state, where, attribute->name, attribute, node, owner, attributes, error))
        return FALSE;
    }
  return TRUE;
}
