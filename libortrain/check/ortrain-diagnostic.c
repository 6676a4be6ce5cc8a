/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "check/ortrain-diagnostic-private.h"

#include "core/ortrain-field-private.h"
#include "core/ortrain-text-private.h"

/**
 * OrtrainDiagnostic:
 *
 * One reason why a model cannot be trained: the node, the fault, and a remedy. [property@CheckReport:diagnostics] lists
 * them.
 *
 * ```python
 * for diagnostic in Ortrain.Model("model.onnx").check().diagnostics:
 *     print(diagnostic.operator, diagnostic.node, diagnostic.opset, diagnostic.device)
 *     print(diagnostic.reason, "-", diagnostic.hint)
 * ```
 *
 * A diagnostic is immutable, and any thread may use it.
 */

struct _OrtrainDiagnostic
{
  GObject parent_instance;

  char *node;
  char *op_type;
  char *domain;
  guint opset;
  char *dtype;
  char *device;
  char *reason;
  char *hint;
};

G_DEFINE_FINAL_TYPE (OrtrainDiagnostic, ortrain_diagnostic, G_TYPE_OBJECT)

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
  PROP_HINT,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

OrtrainDiagnostic *
ortrain_diagnostic_new (const char *node, const char *op_type, const char *domain, guint opset, const char *dtype,
                        const char *device, const char *reason, const char *hint)
{
  OrtrainDiagnostic *self = g_object_new (ORTRAIN_TYPE_DIAGNOSTIC, NULL);
  self->node = g_strdup (node);
  self->op_type = g_strdup (op_type);
  self->domain = g_strdup (domain);
  self->opset = opset;
  self->dtype = g_strdup (dtype);
  self->device = g_strdup (device);
  self->reason = g_strdup (reason);
  self->hint = g_strdup (hint);
  return self;
}

static void
ortrain_diagnostic_finalize (GObject *object)
{
  OrtrainDiagnostic *self = ORTRAIN_DIAGNOSTIC (object);

  g_free (self->node);
  g_free (self->op_type);
  g_free (self->domain);
  g_free (self->dtype);
  g_free (self->device);
  g_free (self->reason);
  g_free (self->hint);

  G_OBJECT_CLASS (ortrain_diagnostic_parent_class)->finalize (object);
}

static void
ortrain_diagnostic_class_init (OrtrainDiagnosticClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_diagnostic_finalize;
  object_class->get_property = ortrain_field_get_property;

  /**
   * OrtrainDiagnostic:node: (getter get_node)
   *
   * The name of the node in the file; empty if it has no name, or if the diagnostic is about the whole model.
   * Read-only.
   */
  properties[PROP_NODE] = ortrain_field_at (g_param_spec_string ("node", NULL, NULL, NULL, flags),
                                            G_STRUCT_OFFSET (OrtrainDiagnostic, node));
  /**
   * OrtrainDiagnostic:operator: (getter get_operator)
   *
   * The type of the node, for example `Gemm`. Read-only.
   */
  properties[PROP_OPERATOR] = ortrain_field_at (g_param_spec_string ("operator", NULL, NULL, NULL, flags),
                                                G_STRUCT_OFFSET (OrtrainDiagnostic, op_type));
  /**
   * OrtrainDiagnostic:domain: (getter get_domain)
   *
   * The operator set that the operator is from; empty for ONNX's own. Read-only.
   */
  properties[PROP_DOMAIN] = ortrain_field_at (g_param_spec_string ("domain", NULL, NULL, NULL, flags),
                                              G_STRUCT_OFFSET (OrtrainDiagnostic, domain));
  /**
   * OrtrainDiagnostic:opset: (getter get_opset)
   *
   * The version of that operator set in the file. Read-only.
   */
  properties[PROP_OPSET] = ortrain_field_at (g_param_spec_uint ("opset", NULL, NULL, 0, G_MAXUINT, 0, flags),
                                             G_STRUCT_OFFSET (OrtrainDiagnostic, opset));
  /**
   * OrtrainDiagnostic:dtype: (getter get_dtype)
   *
   * The element type that is not supported; empty if the type does not matter. Read-only.
   */
  properties[PROP_DTYPE] = ortrain_field_at (g_param_spec_string ("dtype", NULL, NULL, NULL, flags),
                                             G_STRUCT_OFFSET (OrtrainDiagnostic, dtype));
  /**
   * OrtrainDiagnostic:device: (getter get_device)
   *
   * The device on which the model was checked. Read-only.
   */
  properties[PROP_DEVICE] = ortrain_field_at (g_param_spec_string ("device", NULL, NULL, NULL, flags),
                                              G_STRUCT_OFFSET (OrtrainDiagnostic, device));
  /**
   * OrtrainDiagnostic:reason: (getter get_reason)
   *
   * A description of the fault. Read-only.
   */
  properties[PROP_REASON] = ortrain_field_at (g_param_spec_string ("reason", NULL, NULL, NULL, flags),
                                              G_STRUCT_OFFSET (OrtrainDiagnostic, reason));
  /**
   * OrtrainDiagnostic:hint: (getter get_hint)
   *
   * A remedy. Read-only.
   */
  properties[PROP_HINT] = ortrain_field_at (g_param_spec_string ("hint", NULL, NULL, NULL, flags),
                                            G_STRUCT_OFFSET (OrtrainDiagnostic, hint));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_diagnostic_init (OrtrainDiagnostic *self)
{
}

/**
 * ortrain_diagnostic_get_node: (get-property node)
 * @self: the object
 *
 * Gets the name of the node in the file; empty if it has no name, or if the diagnostic is about the whole model.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_diagnostic_get_node (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), NULL);
  return self->node;
}

/**
 * ortrain_diagnostic_get_operator: (get-property operator)
 * @self: the object
 *
 * Gets the type of the node, for example `Gemm`.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_diagnostic_get_operator (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), NULL);
  return self->op_type;
}

/**
 * ortrain_diagnostic_get_domain: (get-property domain)
 * @self: the object
 *
 * Gets the operator set that the operator is from; empty for ONNX's own.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_diagnostic_get_domain (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), NULL);
  return self->domain;
}

/**
 * ortrain_diagnostic_get_opset: (get-property opset)
 * @self: the object
 *
 * Gets the version of that operator set in the file.
 *
 * Returns: the value
 */
guint
ortrain_diagnostic_get_opset (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), 0);
  return self->opset;
}

/**
 * ortrain_diagnostic_get_dtype: (get-property dtype)
 * @self: the object
 *
 * Gets the element type that is not supported; empty if the type does not matter.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_diagnostic_get_dtype (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), NULL);
  return self->dtype;
}

/**
 * ortrain_diagnostic_get_device: (get-property device)
 * @self: the object
 *
 * Gets the device on which the model was checked.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_diagnostic_get_device (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), NULL);
  return self->device;
}

/**
 * ortrain_diagnostic_get_reason: (get-property reason)
 * @self: the object
 *
 * Gets a description of the fault.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_diagnostic_get_reason (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), NULL);
  return self->reason;
}

/**
 * ortrain_diagnostic_get_hint: (get-property hint)
 * @self: the object
 *
 * Gets a remedy.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_diagnostic_get_hint (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), NULL);
  return self->hint;
}

/**
 * ortrain_diagnostic_to_string:
 * @self: a diagnostic
 *
 * Prints the diagnostic in one line.
 *
 * Returns: (transfer full): the line
 */
char *
ortrain_diagnostic_to_string (OrtrainDiagnostic *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DIAGNOSTIC (self), NULL);

  GString *text = g_string_new (NULL);
  if (self->op_type != NULL && *self->op_type != '\0')
    {
      if (*self->domain != '\0')
        g_string_append_printf (text, "%s::", ortrain_text_show (self->domain));
      g_string_append_printf (text, "%s (opset %u", ortrain_text_show (self->op_type), self->opset);
      if (self->dtype != NULL && *self->dtype != '\0')
        g_string_append_printf (text, ", %s", self->dtype);
      g_string_append (text, ")");
      if (*self->node != '\0')
        g_string_append_printf (text, " '%s'", ortrain_text_show (self->node));
      g_string_append (text, ": ");
    }
  g_string_append (text, self->reason != NULL ? self->reason : "");
  if (self->hint != NULL && *self->hint != '\0')
    g_string_append_printf (text, "; %s", self->hint);
  return g_string_free (text, FALSE);
}
