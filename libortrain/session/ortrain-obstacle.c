/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-obstacle-private.h"

#include "core/ortrain-field-private.h"
#include "core/ortrain-text-private.h"

/**
 * OrtrainObstacle:
 *
 * One thing that stands in the way of training a model. Immutable, safe to use from any thread.
 */

struct _OrtrainObstacle
{
  GObject parent_instance;

  char *node;
  char *operator;
  char *domain;
  guint opset;
  char *dtype;
  char *device;
  char *reason;
  char *way_out;
};

G_DEFINE_FINAL_TYPE (OrtrainObstacle, ortrain_obstacle, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_NODE,
  PROP_OPERATOR,
  PROP_DOMAIN,
  PROP_OPSET,
  PROP_DTYPE,
  PROP_DEVICE,
  PROP_REASON,
  PROP_WAY_OUT,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

OrtrainObstacle *
ortrain_obstacle_new (const char *node, const char *op_type, const char *domain, guint opset, const char *dtype,
                      const char *reason, const char *way_out)
{
  OrtrainObstacle *self = g_object_new (ORTRAIN_TYPE_OBSTACLE, NULL);
  self->node = g_strdup (node);
  self->operator= g_strdup (op_type);
  self->domain = g_strdup (domain);
  self->opset = opset;
  self->dtype = g_strdup (dtype);
  self->device = g_strdup ("cpu");
  self->reason = g_strdup (reason);
  self->way_out = g_strdup (way_out);
  return self;
}

static void
ortrain_obstacle_finalize (GObject *object)
{
  OrtrainObstacle *self = ORTRAIN_OBSTACLE (object);

  g_free (self->node);
  g_free (self->operator);
  g_free (self->domain);
  g_free (self->dtype);
  g_free (self->device);
  g_free (self->reason);
  g_free (self->way_out);

  G_OBJECT_CLASS (ortrain_obstacle_parent_class)->finalize (object);
}

static void
ortrain_obstacle_class_init (OrtrainObstacleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_obstacle_finalize;
  object_class->get_property = ortrain_field_get_property;

  /**
   * OrtrainObstacle:node: (getter get_node)
   *
   * The name of the node, empty if it has none.
   */
  properties[PROP_NODE] =
      ortrain_field_at (g_param_spec_string ("node", NULL, NULL, NULL, flags), G_STRUCT_OFFSET (OrtrainObstacle, node));
  /**
   * OrtrainObstacle:operator: (getter get_operator)
   *
   * The type of the operator.
   */
  properties[PROP_OPERATOR] = ortrain_field_at (g_param_spec_string ("operator", NULL, NULL, NULL, flags),
                                                G_STRUCT_OFFSET (OrtrainObstacle, operator));
  /**
   * OrtrainObstacle:domain: (getter get_domain)
   *
   * The operator's domain, empty for ONNX's own.
   */
  properties[PROP_DOMAIN] = ortrain_field_at (g_param_spec_string ("domain", NULL, NULL, NULL, flags),
                                              G_STRUCT_OFFSET (OrtrainObstacle, domain));
  /**
   * OrtrainObstacle:opset: (getter get_opset)
   *
   * The version of the operator set that the model asks for.
   */
  properties[PROP_OPSET] = ortrain_field_at (g_param_spec_uint ("opset", NULL, NULL, 0, G_MAXUINT, 0, flags),
                                             G_STRUCT_OFFSET (OrtrainObstacle, opset));
  /**
   * OrtrainObstacle:dtype: (getter get_dtype)
   *
   * The element type that is asked for, empty if it does not matter.
   */
  properties[PROP_DTYPE] = ortrain_field_at (g_param_spec_string ("dtype", NULL, NULL, NULL, flags),
                                             G_STRUCT_OFFSET (OrtrainObstacle, dtype));
  /**
   * OrtrainObstacle:device: (getter get_device)
   *
   * The device that was asked.
   */
  properties[PROP_DEVICE] = ortrain_field_at (g_param_spec_string ("device", NULL, NULL, NULL, flags),
                                              G_STRUCT_OFFSET (OrtrainObstacle, device));
  /**
   * OrtrainObstacle:reason: (getter get_reason)
   *
   * What is wrong.
   */
  properties[PROP_REASON] = ortrain_field_at (g_param_spec_string ("reason", NULL, NULL, NULL, flags),
                                              G_STRUCT_OFFSET (OrtrainObstacle, reason));
  /**
   * OrtrainObstacle:way-out: (getter get_way_out)
   *
   * What can be done.
   */
  properties[PROP_WAY_OUT] = ortrain_field_at (g_param_spec_string ("way-out", NULL, NULL, NULL, flags),
                                               G_STRUCT_OFFSET (OrtrainObstacle, way_out));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_obstacle_init (OrtrainObstacle *self)
{
}

/**
 * ortrain_obstacle_get_node: (get-property node)
 * @self: the object
 *
 * Gets the name of the node, empty if it has none.
 *
 * Returns: (transfer none) (nullable): the name of the node, empty if it has none
 */
const char *
ortrain_obstacle_get_node (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), NULL);
  return self->node;
}

/**
 * ortrain_obstacle_get_operator: (get-property operator)
 * @self: the object
 *
 * Gets the type of the operator.
 *
 * Returns: (transfer none) (nullable): the type of the operator
 */
const char *
ortrain_obstacle_get_operator (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), NULL);
  return self->operator;
}

/**
 * ortrain_obstacle_get_domain: (get-property domain)
 * @self: the object
 *
 * Gets the operator's domain, empty for ONNX's own.
 *
 * Returns: (transfer none) (nullable): the operator's domain, empty for ONNX's own
 */
const char *
ortrain_obstacle_get_domain (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), NULL);
  return self->domain;
}

/**
 * ortrain_obstacle_get_opset: (get-property opset)
 * @self: the object
 *
 * Gets the version of the operator set that the model asks for.
 *
 * Returns: the version of the operator set that the model asks for
 */
guint
ortrain_obstacle_get_opset (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), 0);
  return self->opset;
}

/**
 * ortrain_obstacle_get_dtype: (get-property dtype)
 * @self: the object
 *
 * Gets the element type that is asked for, empty if it does not matter.
 *
 * Returns: (transfer none) (nullable): the element type that is asked for, empty if it does not matter
 */
const char *
ortrain_obstacle_get_dtype (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), NULL);
  return self->dtype;
}

/**
 * ortrain_obstacle_get_device: (get-property device)
 * @self: the object
 *
 * Gets the device that was asked.
 *
 * Returns: (transfer none) (nullable): the device that was asked
 */
const char *
ortrain_obstacle_get_device (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), NULL);
  return self->device;
}

/**
 * ortrain_obstacle_get_reason: (get-property reason)
 * @self: the object
 *
 * Gets what is wrong.
 *
 * Returns: (transfer none) (nullable): what is wrong
 */
const char *
ortrain_obstacle_get_reason (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), NULL);
  return self->reason;
}

/**
 * ortrain_obstacle_get_way_out: (get-property way-out)
 * @self: the object
 *
 * Gets what can be done.
 *
 * Returns: (transfer none) (nullable): what can be done
 */
const char *
ortrain_obstacle_get_way_out (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), NULL);
  return self->way_out;
}

/**
 * ortrain_obstacle_to_string:
 * @self: an obstacle
 *
 * Says the obstacle in one line.
 *
 * Returns: (transfer full): the line
 */
char *
ortrain_obstacle_to_string (OrtrainObstacle *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OBSTACLE (self), NULL);

  GString *text = g_string_new (NULL);
  if (self->operator!= NULL && * self->operator!= '\0')
    {
      if (*self->domain != '\0')
        g_string_append_printf (text, "%s::", ortrain_text_show (self->domain));
      g_string_append_printf (text, "%s (opset %u", ortrain_text_show (self->operator), self->opset);
      if (self->dtype != NULL && *self->dtype != '\0')
        g_string_append_printf (text, ", %s", self->dtype);
      g_string_append (text, ")");
      if (*self->node != '\0')
        g_string_append_printf (text, " '%s'", ortrain_text_show (self->node));
      g_string_append (text, ": ");
    }
  g_string_append (text, self->reason);
  if (self->way_out != NULL && *self->way_out != '\0')
    g_string_append_printf (text, "; %s", self->way_out);
  return g_string_free (text, FALSE);
}
