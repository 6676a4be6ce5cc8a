/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-graph-writer-private.h"

#include "core/ortrain-text-private.h"
#include "onnx/ortrain-onnx.pb-c.h"

#include <string.h>

/* Everything that the messages point to lives in `pool` until the file is packed; elements of tensors are not copied
 * before that. */
typedef struct
{
  GPtrArray *pool;
  GPtrArray *tensors;  /* whose elements are read when the file is packed */
  GHashTable *domains; /* those that nodes use */
  GError *error;
} Writer;

static gpointer
take (Writer *self, gpointer memory)
{
  g_ptr_array_add (self->pool, memory);
  return memory;
}

static char *
copy_string (Writer *self, const char *string)
{
  return take (self, g_strdup (string));
}

#define NEW(self, Type, prefix)                                                                                        \
  ({                                                                                                                   \
    Type *message = take (self, g_new0 (Type, 1));                                                                     \
    prefix##__init (message);                                                                                          \
    message;                                                                                                           \
  })
#define NEW_ARRAY(self, Type, n) ((Type *) take (self, g_malloc0_n (MAX (n, 1), sizeof (Type))))

static Ortrain__Ox__TensorProto *
write_tensor (Writer *self, const char *name, OrtrainTensor *tensor)
{
  Ortrain__Ox__TensorProto *proto = NEW (self, Ortrain__Ox__TensorProto, ortrain__ox__tensor_proto);
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);

  proto->name = name != NULL ? copy_string (self, name) : NULL;
  proto->n_dims = rank;
  proto->dims = NEW_ARRAY (self, int64_t, rank);
  for (gsize i = 0; i < rank; i++)
    proto->dims[i] = dims[i];
  proto->has_data_type = TRUE;
  proto->data_type = (int32_t) ortrain_tensor_get_dtype (tensor);
  proto->has_raw_data = TRUE;
  proto->raw_data.len = ortrain_tensor_get_n_bytes (tensor);
  proto->raw_data.data = (guint8 *) ortrain_tensor_peek (tensor);
  g_ptr_array_add (self->tensors, tensor);
  if (proto->raw_data.len > 0 && proto->raw_data.data == NULL && self->error == NULL)
    g_set_error (&self->error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE, "The tensor of '%s' was released",
                 name != NULL ? ortrain_text_show (name) : "a node");
  return proto;
}

static Ortrain__Ox__ValueInfoProto *
write_value (Writer *self, const OrtrainValue *value)
{
  Ortrain__Ox__ValueInfoProto *info = NEW (self, Ortrain__Ox__ValueInfoProto, ortrain__ox__value_info_proto);

  info->name = copy_string (self, value->name);
  if (value->dtype == ORTRAIN_DTYPE_UNDEFINED)
    return info;
  Ortrain__Ox__TypeProto *type = info->type = NEW (self, Ortrain__Ox__TypeProto, ortrain__ox__type_proto);
  type->value_case = ORTRAIN__OX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  type->tensor_type = NEW (self, Ortrain__Ox__TypeProto__Tensor, ortrain__ox__type_proto__tensor);
  type->tensor_type->has_elem_type = TRUE;
  type->tensor_type->elem_type = (int32_t) value->dtype;
  if (value->rank < 0)
    return info;
  Ortrain__Ox__TensorShapeProto *shape = type->tensor_type->shape =
      NEW (self, Ortrain__Ox__TensorShapeProto, ortrain__ox__tensor_shape_proto);
  shape->n_dim = (gsize) value->rank;
  shape->dim = NEW_ARRAY (self, Ortrain__Ox__TensorShapeProto__Dimension *, shape->n_dim);
  for (gint i = 0; i < value->rank; i++)
    {
      Ortrain__Ox__TensorShapeProto__Dimension *dim = shape->dim[i] =
          NEW (self, Ortrain__Ox__TensorShapeProto__Dimension, ortrain__ox__tensor_shape_proto__dimension);
      if (ortrain_dim_is_int (value->dims[i]))
        {
          dim->value_case = ORTRAIN__OX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
          dim->dim_value = value->dims[i].value;
          continue;
        }
      char *text = take (self, ortrain_dim_to_string (value->dims[i]));
      if (strchr (text, '?') != NULL)
        continue; /* nobody knows */
      dim->value_case = ORTRAIN__OX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
      dim->dim_param = text;
    }
  return info;
}

static Ortrain__Ox__GraphProto *write_graph (Writer *self, OrtrainGraph *graph, gboolean outermost);

static ProtobufCBinaryData
bytes_of (Writer *self, const char *string)
{
  char *copy = copy_string (self, string);
  return (ProtobufCBinaryData){ strlen (copy), (guint8 *) copy };
}

static Ortrain__Ox__AttributeProto *
write_attribute (Writer *self, const OrtrainAttribute *attribute)
{
  Ortrain__Ox__AttributeProto *proto = NEW (self, Ortrain__Ox__AttributeProto, ortrain__ox__attribute_proto);

  proto->name = copy_string (self, attribute->name);
  proto->has_type = TRUE;
  proto->type = (Ortrain__Ox__AttributeProto__AttributeType) attribute->kind;
  switch (attribute->kind)
    {
    case ORTRAIN_ATTRIBUTE_FLOAT:
      proto->has_f = TRUE;
      proto->f = (float) attribute->v.f;
      break;
    case ORTRAIN_ATTRIBUTE_INT:
      proto->has_i = TRUE;
      proto->i = attribute->v.i;
      break;
    case ORTRAIN_ATTRIBUTE_STRING:
      proto->has_s = TRUE;
      proto->s = bytes_of (self, attribute->v.s);
      break;
    case ORTRAIN_ATTRIBUTE_TENSOR:
      proto->t = write_tensor (self, NULL, attribute->v.t);
      break;
    case ORTRAIN_ATTRIBUTE_GRAPH:
      proto->g = write_graph (self, ORTRAIN_GRAPH (attribute->v.g), FALSE);
      break;
    case ORTRAIN_ATTRIBUTE_FLOATS:
      proto->n_floats = attribute->n;
      proto->floats = attribute->v.floats;
      break;
    case ORTRAIN_ATTRIBUTE_INTS:
      proto->n_ints = attribute->n;
      proto->ints = (int64_t *) attribute->v.ints;
      break;
    case ORTRAIN_ATTRIBUTE_STRINGS:
      proto->n_strings = attribute->n;
      proto->strings = NEW_ARRAY (self, ProtobufCBinaryData, attribute->n);
      for (gsize i = 0; i < attribute->n; i++)
        proto->strings[i] = bytes_of (self, attribute->v.strings[i]);
      break;
    case ORTRAIN_ATTRIBUTE_TENSORS:
      proto->n_tensors = attribute->n;
      proto->tensors = NEW_ARRAY (self, Ortrain__Ox__TensorProto *, attribute->n);
      for (gsize i = 0; i < attribute->n; i++)
        proto->tensors[i] = write_tensor (self, NULL, attribute->v.tensors[i]);
      break;
    case ORTRAIN_ATTRIBUTE_GRAPHS:
      proto->n_graphs = attribute->n;
      proto->graphs = NEW_ARRAY (self, Ortrain__Ox__GraphProto *, attribute->n);
      for (gsize i = 0; i < attribute->n; i++)
        proto->graphs[i] = write_graph (self, ORTRAIN_GRAPH (attribute->v.graphs[i]), FALSE);
      break;
    }
  return proto;
}

static Ortrain__Ox__NodeProto *
write_node (Writer *self, const OrtrainNode *node)
{
  Ortrain__Ox__NodeProto *proto = NEW (self, Ortrain__Ox__NodeProto, ortrain__ox__node_proto);

  proto->name = *node->name != '\0' ? copy_string (self, node->name) : NULL;
  proto->op_type = copy_string (self, node->op_type);
  proto->domain = *node->domain != '\0' ? copy_string (self, node->domain) : NULL;
  g_hash_table_add (self->domains, g_strdup (node->domain));
  proto->n_input = node->inputs->len;
  proto->input = NEW_ARRAY (self, char *, proto->n_input);
  for (gsize i = 0; i < proto->n_input; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      proto->input[i] = copy_string (self, value != NULL ? value->name : "");
    }
  while (proto->n_input > 0 && *proto->input[proto->n_input - 1] == '\0')
    proto->n_input--;
  proto->n_output = node->outputs->len;
  proto->output = NEW_ARRAY (self, char *, proto->n_output);
  for (gsize i = 0; i < proto->n_output; i++)
    {
      const OrtrainValue *value = node->outputs->pdata[i];
      proto->output[i] = copy_string (self, value != NULL ? value->name : "");
    }
  while (proto->n_output > 1 && *proto->output[proto->n_output - 1] == '\0')
    proto->n_output--;
  proto->n_attribute = ortrain_attributes_get_n (node->attributes);
  proto->attribute = NEW_ARRAY (self, Ortrain__Ox__AttributeProto *, proto->n_attribute + 1);
  for (gsize i = 0; i < proto->n_attribute; i++)
    proto->attribute[i] = write_attribute (self, ortrain_attributes_get_nth (node->attributes, (guint) i));
  if (node->body != NULL)
    {
      /* the body of a fused operator, for people who look at the file */
      Ortrain__Ox__AttributeProto *body = NEW (self, Ortrain__Ox__AttributeProto, ortrain__ox__attribute_proto);
      body->name = copy_string (self, "body");
      body->has_type = TRUE;
      body->type = ORTRAIN__OX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
      body->g = write_graph (self, node->body, FALSE);
      proto->attribute[proto->n_attribute++] = body;
    }
  return proto;
}

static Ortrain__Ox__GraphProto *
write_graph (Writer *self, OrtrainGraph *graph, gboolean outermost)
{
  Ortrain__Ox__GraphProto *proto = NEW (self, Ortrain__Ox__GraphProto, ortrain__ox__graph_proto);

  proto->name = copy_string (self, *graph->name != '\0' ? graph->name : "graph");
  proto->n_node = graph->nodes->len;
  proto->node = NEW_ARRAY (self, Ortrain__Ox__NodeProto *, proto->n_node);
  for (gsize i = 0; i < proto->n_node; i++)
    proto->node[i] = write_node (self, graph->nodes->pdata[i]);
  proto->n_initializer = graph->initializers->len;
  proto->initializer = NEW_ARRAY (self, Ortrain__Ox__TensorProto *, proto->n_initializer);
  for (gsize i = 0; i < proto->n_initializer; i++)
    {
      const OrtrainValue *value = graph->initializers->pdata[i];
      proto->initializer[i] = write_tensor (self, value->name, value->tensor);
    }
  proto->input = NEW_ARRAY (self, Ortrain__Ox__ValueInfoProto *, graph->values->len);
  for (guint i = 0; i < graph->inputs->len; i++)
    proto->input[proto->n_input++] = write_value (self, graph->inputs->pdata[i]);
  /* in the file, values held by a session become inputs */
  for (guint i = 0; i < graph->values->len; i++)
    if (((OrtrainValue *) graph->values->pdata[i])->kind == ORTRAIN_VALUE_HELD)
      proto->input[proto->n_input++] = write_value (self, graph->values->pdata[i]);
  proto->n_output = graph->outputs->len;
  proto->output = NEW_ARRAY (self, Ortrain__Ox__ValueInfoProto *, proto->n_output);
  for (gsize i = 0; i < proto->n_output; i++)
    proto->output[i] = write_value (self, graph->outputs->pdata[i]);
  if (!outermost)
    return proto;
  proto->value_info = NEW_ARRAY (self, Ortrain__Ox__ValueInfoProto *, graph->values->len);
  for (guint i = 0; i < graph->values->len; i++)
    {
      const OrtrainValue *value = graph->values->pdata[i];
      if (value->kind == ORTRAIN_VALUE_COMPUTED && value->producer != NULL && !value->is_output &&
          value->dtype != ORTRAIN_DTYPE_UNDEFINED)
        proto->value_info[proto->n_value_info++] = write_value (self, value);
    }
  return proto;
}

static int
compare_strings (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

/* The oldest version of the format that may name an operator set, so that old readers open the files that they can
 * run. */
static gint64
ir_version_for (gint64 opset)
{
  return opset >= 23 ? 11 : opset >= 21 ? 10 : opset >= 19 ? 9 : 8;
}

GBytes *
ortrain_graph_write (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) pool = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) tensors = g_ptr_array_new ();
  g_autoptr (GHashTable) domains = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Writer self = { .pool = pool, .tensors = tensors, .domains = domains };
  Ortrain__Ox__ModelProto model = ORTRAIN__OX__MODEL_PROTO__INIT;

  if (!ortrain_graph_sort (graph, error))
    return NULL;
  g_hash_table_add (domains, g_strdup (""));
  model.graph = write_graph (&self, graph, TRUE);
  if (self.error != NULL)
    {
      g_propagate_error (error, self.error);
      return NULL;
    }
  model.has_ir_version = TRUE;
  model.ir_version = ir_version_for (graph->opset);
  model.producer_name = copy_string (&self, "ortrain");
  model.producer_version = copy_string (&self, ORTRAIN_VERSION_STRING);
  g_autofree char **names = (char **) g_hash_table_get_keys_as_array (domains, NULL);
  model.n_opset_import = g_hash_table_size (domains);
  qsort (names, model.n_opset_import, sizeof *names, compare_strings);
  model.opset_import = NEW_ARRAY (&self, Ortrain__Ox__OperatorSetIdProto *, model.n_opset_import);
  for (gsize i = 0; i < model.n_opset_import; i++)
    {
      Ortrain__Ox__OperatorSetIdProto *import = model.opset_import[i] =
          NEW (&self, Ortrain__Ox__OperatorSetIdProto, ortrain__ox__operator_set_id_proto);
      gint version = GPOINTER_TO_INT (g_hash_table_lookup (graph->opsets, names[i]));
      import->domain = copy_string (&self, names[i]);
      import->has_version = TRUE;
      import->version = *names[i] == '\0' ? graph->opset : MAX (version, 1);
    }

  gsize size = ortrain__ox__model_proto__get_packed_size (&model);
  guint8 *bytes = size <= G_MAXINT32 ? g_try_malloc (size) : NULL;
  if (bytes == NULL)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE,
                   size <= G_MAXINT32 ? "Cannot allocate %" G_GSIZE_FORMAT " bytes of memory for the model"
                                      : "The model would have %" G_GSIZE_FORMAT " bytes, a file can have 2147483647",
                   size);
      return NULL;
    }
  ortrain__ox__model_proto__pack (&model, bytes);
  g_autoptr (GBytes) packed = g_bytes_new_take (bytes, size);
  for (guint i = 0; i < tensors->len; i++)
    if (!ortrain_tensor_check_file (tensors->pdata[i], error))
      return NULL;
  return g_steal_pointer (&packed);
}
