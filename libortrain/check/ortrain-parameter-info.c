/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "check/ortrain-parameter-info-private.h"

#include "core/ortrain-field-private.h"
#include "core/ortrain-text-private.h"
#include "ortrain-enum-types.h"
#include "tensor/ortrain-tensor-private.h"

/**
 * OrtrainParameterInfo:
 *
 * A tensor of a floating type that a model's file holds: its shape, whether it is trained, and why.
 * [property@CheckReport:parameters] lists them.
 *
 * ```python
 * for tensor in Ortrain.Model("model.onnx").check().parameters:
 *     print(tensor.name, tensor.dtype, tensor.shape, tensor.trained, tensor.reason)
 * ```
 *
 * It is immutable, and any thread may use it.
 */

struct _OrtrainParameterInfo
{
  GObject parent_instance;

  char *name;
  char *scoped_name;
  OrtrainDType dtype;
  char *shape;
  guint64 n_elements;
  gboolean trained, certain;
  char *reason;
};

G_DEFINE_FINAL_TYPE (OrtrainParameterInfo, ortrain_parameter_info, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_NAME,
  PROP_SCOPED_NAME,
  PROP_DTYPE,
  PROP_SHAPE,
  PROP_N_ELEMENTS,
  PROP_TRAINED,
  PROP_CERTAIN,
  PROP_REASON,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

OrtrainParameterInfo *
ortrain_parameter_info_new (const char *name, const char *scoped_name, OrtrainTensor *tensor, gboolean trained,
                            gboolean certain, const char *reason)
{
  OrtrainParameterInfo *self = g_object_new (ORTRAIN_TYPE_PARAMETER_INFO, NULL);
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
  self->name = g_strdup (name);
  self->scoped_name = g_strcmp0 (name, scoped_name) != 0 ? g_strdup (scoped_name) : NULL;
  self->dtype = ortrain_tensor_get_dtype (tensor);
  self->shape = ortrain_shape_to_string (dims, rank);
  self->n_elements = (guint64) ortrain_tensor_get_n_elements (tensor);
  self->trained = trained;
  self->certain = certain;
  self->reason = g_strdup (reason);
  return self;
}

static void
ortrain_parameter_info_finalize (GObject *object)
{
  OrtrainParameterInfo *self = ORTRAIN_PARAMETER_INFO (object);

  g_free (self->name);
  g_free (self->scoped_name);
  g_free (self->shape);
  g_free (self->reason);

  G_OBJECT_CLASS (ortrain_parameter_info_parent_class)->finalize (object);
}

static void
ortrain_parameter_info_class_init (OrtrainParameterInfoClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_parameter_info_finalize;
  object_class->get_property = ortrain_field_get_property;

  /**
   * OrtrainParameterInfo:name: (getter get_name)
   *
   * The name in the file: of an initializer, or of the output of a Constant node. Read-only.
   */
  properties[PROP_NAME] = ortrain_field_at (g_param_spec_string ("name", NULL, NULL, NULL, flags),
                                            G_STRUCT_OFFSET (OrtrainParameterInfo, name));
  /**
   * OrtrainParameterInfo:scoped-name: (getter get_scoped_name)
   *
   * The name in the program that the model was exported from, if that is another one: the path of its module, and the
   * parameter's name in it, `encoder.layer.0.query.weight` for `val_57`. %NULL if the file does not say. Patterns match
   * either name, or the path of the module. PyTorch stores the weight of a Linear layer transposed. Read-only.
   */
  properties[PROP_SCOPED_NAME] = ortrain_field_at (g_param_spec_string ("scoped-name", NULL, NULL, NULL, flags),
                                                   G_STRUCT_OFFSET (OrtrainParameterInfo, scoped_name));
  /**
   * OrtrainParameterInfo:dtype: (getter get_dtype)
   *
   * The type of its elements. Read-only.
   */
  properties[PROP_DTYPE] =
      ortrain_field_at (g_param_spec_enum ("dtype", NULL, NULL, ORTRAIN_TYPE_DTYPE, ORTRAIN_DTYPE_UNDEFINED, flags),
                        G_STRUCT_OFFSET (OrtrainParameterInfo, dtype));
  /**
   * OrtrainParameterInfo:shape: (getter get_shape)
   *
   * Its dimensions as text, for example `[64, 3, 7, 7]`. Read-only.
   */
  properties[PROP_SHAPE] = ortrain_field_at (g_param_spec_string ("shape", NULL, NULL, NULL, flags),
                                             G_STRUCT_OFFSET (OrtrainParameterInfo, shape));
  /**
   * OrtrainParameterInfo:n-elements: (getter get_n_elements)
   *
   * The product of its dimensions. Read-only.
   */
  properties[PROP_N_ELEMENTS] =
      ortrain_field_at (g_param_spec_uint64 ("n-elements", NULL, NULL, 0, G_MAXUINT64, 0, flags),
                        G_STRUCT_OFFSET (OrtrainParameterInfo, n_elements));
  /**
   * OrtrainParameterInfo:trained: (getter get_trained)
   *
   * Whether a session trains it unless the options say otherwise. Read-only.
   */
  properties[PROP_TRAINED] = ortrain_field_at (g_param_spec_boolean ("trained", NULL, NULL, FALSE, flags),
                                               G_STRUCT_OFFSET (OrtrainParameterInfo, trained));
  /**
   * OrtrainParameterInfo:certain: (getter get_certain)
   *
   * Whether the file makes clear if the tensor is a parameter. For the tensors of which it does not, the notes of the
   * report have the options for the other choice. Read-only.
   */
  properties[PROP_CERTAIN] = ortrain_field_at (g_param_spec_boolean ("certain", NULL, NULL, FALSE, flags),
                                               G_STRUCT_OFFSET (OrtrainParameterInfo, certain));
  /**
   * OrtrainParameterInfo:reason: (getter get_reason)
   *
   * Why it is trained, or not: `bias of Conv 'conv1'`, `one number: operand of Mul 'scale'`. Read-only.
   */
  properties[PROP_REASON] = ortrain_field_at (g_param_spec_string ("reason", NULL, NULL, NULL, flags),
                                              G_STRUCT_OFFSET (OrtrainParameterInfo, reason));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_parameter_info_init (OrtrainParameterInfo *self)
{
}

/**
 * ortrain_parameter_info_get_name: (get-property name)
 * @self: the object
 *
 * Gets the name in the file: of an initializer, or of the output of a Constant node.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_parameter_info_get_name (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), NULL);
  return self->name;
}

/**
 * ortrain_parameter_info_get_scoped_name: (get-property scoped-name)
 * @self: the object
 *
 * Gets the name in the program that the model was exported from, if that is another one than in the file:
 * `encoder.layer.0.query.weight`.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_parameter_info_get_scoped_name (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), NULL);
  return self->scoped_name;
}

/**
 * ortrain_parameter_info_get_dtype: (get-property dtype)
 * @self: the object
 *
 * Gets the type of its elements.
 *
 * Returns: the value
 */
OrtrainDType
ortrain_parameter_info_get_dtype (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), ORTRAIN_DTYPE_UNDEFINED);
  return self->dtype;
}

/**
 * ortrain_parameter_info_get_shape: (get-property shape)
 * @self: the object
 *
 * Gets its dimensions as text, for example `[64, 3, 7, 7]`.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_parameter_info_get_shape (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), NULL);
  return self->shape;
}

/**
 * ortrain_parameter_info_get_n_elements: (get-property n-elements)
 * @self: the object
 *
 * Gets the product of its dimensions.
 *
 * Returns: the value
 */
guint64
ortrain_parameter_info_get_n_elements (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), 0);
  return self->n_elements;
}

/**
 * ortrain_parameter_info_get_trained: (get-property trained)
 * @self: the object
 *
 * Gets whether a session trains it unless the options say otherwise.
 *
 * Returns: the value
 */
gboolean
ortrain_parameter_info_get_trained (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), FALSE);
  return self->trained;
}

/**
 * ortrain_parameter_info_get_certain: (get-property certain)
 * @self: a tensor
 *
 * Gets whether the file makes clear if the tensor is a parameter.
 *
 * Returns: the value
 */
gboolean
ortrain_parameter_info_get_certain (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), FALSE);
  return self->certain;
}

/**
 * ortrain_parameter_info_get_reason: (get-property reason)
 * @self: the object
 *
 * Gets why it is trained, or not: `bias of Conv 'conv1'`, `one number: operand of Mul 'scale'`.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_parameter_info_get_reason (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), NULL);
  return self->reason;
}

/**
 * ortrain_parameter_info_to_string:
 * @self: the object
 *
 * Prints the tensor in one line: name, scoped name, type, shape, whether it is trained, and why.
 *
 * Returns: (transfer full): the line
 */
char *
ortrain_parameter_info_to_string (OrtrainParameterInfo *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PARAMETER_INFO (self), NULL);
  const gboolean scoped = self->scoped_name != NULL;
  return g_strdup_printf ("%s%s%s%s: %s %s, %s: %s", ortrain_text_show (self->name), scoped ? " (" : "",
                          ortrain_text_show (self->scoped_name), scoped ? ")" : "",
                          ortrain_dtype_get_name (self->dtype), self->shape, self->trained ? "trained" : "not trained",
                          self->reason);
}
