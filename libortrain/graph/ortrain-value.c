/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-object-list-private.h"
#include "core/ortrain-text-private.h"
#include "graph/ortrain-graph-private.h"
#include "ortrain-enum-types.h"

#include <string.h>

/**
 * OrtrainValue:
 *
 * A tensor that flows along an edge of a [class@Graph]: an input, an initializer, or an output of a node. It has an
 * element type, and a shape whose dimensions are numbers or expressions of named symbols.
 *
 * ```python
 * graph = Ortrain.Model("model.onnx").get_graph()
 * value = graph.find_value("logits")
 * print(value.dtype, value.get_shape_string())                 # FLOAT32 [batch, 3]
 * print(value.get_producer().op_type, len(value.get_consumers()))
 * ```
 *
 * Values belong to their graph; one that was removed has neither producer nor consumers. One thread at a time may use
 * the values of a graph.
 */

G_DEFINE_FINAL_TYPE (OrtrainValue, ortrain_value, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_NAME,
  PROP_DTYPE,
  PROP_RANK,
  PROP_TENSOR,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void
ortrain_value_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainValue *self = ORTRAIN_VALUE (object);
  switch (id)
    {
    case PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case PROP_DTYPE:
      g_value_set_enum (value, self->dtype);
      break;
    case PROP_RANK:
      g_value_set_int (value, self->rank);
      break;
    case PROP_TENSOR:
      g_value_set_object (value, self->tensor);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_value_finalize (GObject *object)
{
  OrtrainValue *self = ORTRAIN_VALUE (object);
  g_clear_object (&self->tensor);
  ortrain_value_clear_uses (self);
  g_free (self->dims);
  g_free (self->content);
  g_free (self->declaration);
  g_free (self->name);
  g_clear_pointer (&self->enclosure, g_ref_string_release);
  G_OBJECT_CLASS (ortrain_value_parent_class)->finalize (object);
}

static void
ortrain_value_class_init (OrtrainValueClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  object_class->get_property = ortrain_value_get_property;
  object_class->finalize = ortrain_value_finalize;

  /**
   * OrtrainValue:name: (getter get_name)
   *
   * Identifies the value: no other in the graph has this name. Read-only.
   */
  props[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL,
                                          G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainValue:dtype: (getter get_dtype)
   *
   * The element type; %ORTRAIN_DTYPE_UNDEFINED if it is not known. Read-only.
   */
  props[PROP_DTYPE] = g_param_spec_enum ("dtype", NULL, NULL, ORTRAIN_TYPE_DTYPE, ORTRAIN_DTYPE_UNDEFINED,
                                         G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainValue:rank: (getter get_rank)
   *
   * The number of dimensions; -1 if it is not known. Read-only.
   */
  props[PROP_RANK] = g_param_spec_int ("rank", NULL, NULL, -1, ORTRAIN_MAX_RANK, -1,
                                       G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainValue:tensor: (getter get_tensor)
   *
   * The contents of an initializer or a constant; %NULL for other values. Read-only.
   */
  props[PROP_TENSOR] = g_param_spec_object ("tensor", NULL, NULL, ORTRAIN_TYPE_TENSOR,
                                            G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
ortrain_value_init (OrtrainValue *self)
{
  self->rank = -1;
  self->n_content = -1;
}

/**
 * ortrain_value_get_name:
 * @self: a value
 *
 * The name of the value, unique in its graph.
 *
 * Returns: (transfer none): the name
 */
const char *
ortrain_value_get_name (OrtrainValue *self)
{
  g_return_val_if_fail (ORTRAIN_IS_VALUE (self), NULL);
  return self->name;
}

/**
 * ortrain_value_get_dtype:
 * @self: a value
 *
 * The element type, or %ORTRAIN_DTYPE_UNDEFINED when it is not known.
 *
 * Returns: the element type
 */
OrtrainDType
ortrain_value_get_dtype (OrtrainValue *self)
{
  g_return_val_if_fail (ORTRAIN_IS_VALUE (self), ORTRAIN_DTYPE_UNDEFINED);
  return self->dtype;
}

/**
 * ortrain_value_get_rank:
 * @self: a value
 *
 * The number of dimensions.
 *
 * Returns: the rank, or -1 when it is not known
 */
gint
ortrain_value_get_rank (OrtrainValue *self)
{
  g_return_val_if_fail (ORTRAIN_IS_VALUE (self), -1);
  return self->rank;
}

/**
 * ortrain_value_get_dim:
 * @self: a value
 * @index: which dimension, counted from 0
 *
 * Gets the size of a dimension that is a number.
 *
 * Returns: the size; -1 if it is an expression of symbols, or there is no such dimension
 */
gint64
ortrain_value_get_dim (OrtrainValue *self, guint index)
{
  g_return_val_if_fail (ORTRAIN_IS_VALUE (self), -1);
  if (self->rank < 0 || index >= (guint) self->rank || !ortrain_dim_is_int (self->dims[index]))
    return -1;
  return self->dims[index].value;
}

/**
 * ortrain_value_get_shape_string:
 * @self: a value
 *
 * Prints the shape: numbers, symbols and expressions of them, for example `[batch, 1, 28, 28]`; `?` if the rank is not
 * known.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_value_get_shape_string (OrtrainValue *self)
{
  g_return_val_if_fail (ORTRAIN_IS_VALUE (self), NULL);
  return ortrain_dims_to_string (self->dims, self->rank);
}

/**
 * ortrain_value_get_producer:
 * @self: a value
 *
 * Gets the node that computes the value.
 *
 * Returns: (transfer none) (nullable): the node, owned by the graph; %NULL for inputs and initializers
 */
OrtrainNode *
ortrain_value_get_producer (OrtrainValue *self)
{
  g_return_val_if_fail (ORTRAIN_IS_VALUE (self), NULL);
  return self->producer;
}

/**
 * ortrain_value_get_consumers:
 * @self: a value
 *
 * Lists the nodes that read the value, as they are now. A node that reads it twice is listed twice.
 *
 * Returns: (transfer full): a list of [class@Node]
 */
GListModel *
ortrain_value_get_consumers (OrtrainValue *self)
{
  g_return_val_if_fail (ORTRAIN_IS_VALUE (self), NULL);
  OrtrainObjectList *store = ortrain_object_list_new (ORTRAIN_TYPE_NODE);
  for (guint i = 0; i < self->uses.n; i++)
    ortrain_object_list_append (store, self->uses.items[i].node);
  return G_LIST_MODEL (store);
}

/**
 * ortrain_value_get_tensor:
 * @self: a value
 *
 * The contents, when they are known: of an initializer, or of a constant.
 *
 * Returns: (transfer none) (nullable): the tensor
 */
OrtrainTensor *
ortrain_value_get_tensor (OrtrainValue *self)
{
  g_return_val_if_fail (ORTRAIN_IS_VALUE (self), NULL);
  return self->tensor;
}

void
ortrain_value_set_shape (OrtrainValue *self, OrtrainDType dtype, const OrtrainDim *dims, gint rank)
{
  /* A file may ask for anything. A scalar has one dimension to read, so that axis 0 of it is no harm. */
  if (rank > ORTRAIN_MAX_RANK)
    rank = -1;
  OrtrainDim *copy = rank > 0 ? g_memdup2 (dims, (gsize) rank * sizeof (OrtrainDim)) : NULL;
  if (rank == 0)
    {
      copy = g_new (OrtrainDim, 1);
      copy[0] = ortrain_dim_int (1);
    }
  g_free (self->dims);
  self->dims = copy;
  self->rank = rank;
  self->dtype = dtype;
}

/* In a graph that has not been inferred, the shape is the one that the file declares. */
void
ortrain_value_declare (OrtrainValue *self, OrtrainDType dtype, const OrtrainDim *dims, gint rank)
{
  const gsize n = (gsize) CLAMP (rank, 0, ORTRAIN_MAX_RANK);
  g_free (self->declaration);
  self->declaration = g_malloc (sizeof (OrtrainDeclaration) + n * sizeof (OrtrainDim));
  self->declaration->dtype = dtype;
  self->declaration->rank = rank > ORTRAIN_MAX_RANK ? -1 : rank;
  if (n > 0)
    memcpy (self->declaration->dims, dims, n * sizeof (OrtrainDim));
  ortrain_value_set_shape (self, dtype, dims, rank);
}

void
ortrain_value_set_tensor (OrtrainValue *self, OrtrainTensor *tensor)
{
  g_set_object (&self->tensor, tensor);
  if (tensor == NULL)
    return;
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gsize rank = ortrain_tensor_get_rank (tensor);
  const gint64 *numbers = ortrain_tensor_peek_dims (tensor);
  for (gsize i = 0; i < rank; i++)
    dims[i] = ortrain_dim_int (numbers[i]);
  ortrain_value_set_shape (self, ortrain_tensor_get_dtype (tensor), dims, (gint) rank);
}

void
ortrain_value_set_enclosure (OrtrainValue *self, char *enclosure)
{
  char *old = self->enclosure;
  self->enclosure = enclosure != NULL ? g_ref_string_acquire (enclosure) : NULL;
  g_clear_pointer (&old, g_ref_string_release);
}

void
ortrain_value_set_content (OrtrainValue *self, const OrtrainDim *content, gint n)
{
  OrtrainDim *copy = NULL;
  if (n > 0)
    copy = g_memdup2 (content, (gsize) n * sizeof (OrtrainDim));
  else if (n == 0)
    copy = g_new (OrtrainDim, 1); /* known, and empty */
  g_free (self->content);
  self->content = copy;
  self->n_content = n;
}

gboolean
ortrain_value_get_static_dims (const OrtrainValue *self, gint64 *dims_out)
{
  if (self->rank < 0)
    return FALSE;
  for (gint i = 0; i < self->rank; i++)
    {
      if (!ortrain_dim_is_int (self->dims[i]))
        return FALSE;
      dims_out[i] = self->dims[i].value;
    }
  return TRUE;
}

gboolean
ortrain_value_same_shape (const OrtrainValue *a, const OrtrainValue *b)
{
  if (a->rank < 0 || a->rank != b->rank)
    return FALSE;
  for (gint i = 0; i < a->rank; i++)
    if (!ortrain_dim_equal (a->dims[i], b->dims[i]))
      return FALSE;
  return TRUE;
}

char *
ortrain_value_describe (const OrtrainValue *self)
{
  g_autofree char *shape = ortrain_dims_to_readable (self->dims, self->rank, NULL);
  g_autofree char *name = ortrain_text_quote (self->name);
  return g_strdup_printf ("%s: %s %s", name, ortrain_dtype_get_name (self->dtype), shape);
}
