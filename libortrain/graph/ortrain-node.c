/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "graph/ortrain-graph-private.h"
#include "ortrain-enum-types.h"

/**
 * OrtrainNode:
 *
 * One operator in a [class@Graph]: its type, inputs, outputs and attributes.
 *
 * ```python
 * graph = Ortrain.Model("model.onnx").get_graph()
 * for node in graph.get_nodes():
 *     attributes = {name: node.get_attribute(name) for name in node.get_attribute_names()}
 *     print(node.op_type, node.name, attributes, node.get_output(0).get_shape_string())
 * ```
 *
 * Nodes belong to their graph; one that was removed has no inputs and outputs. One thread at a time may use the nodes
 * of a graph.
 */

G_DEFINE_FINAL_TYPE (OrtrainNode, ortrain_node, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_NAME,
  PROP_OP_TYPE,
  PROP_DOMAIN,
  PROP_SCOPE,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void
ortrain_node_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainNode *self = ORTRAIN_NODE (object);
  switch (id)
    {
    case PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case PROP_OP_TYPE:
      g_value_set_string (value, self->op_type);
      break;
    case PROP_DOMAIN:
      g_value_set_string (value, self->domain);
      break;
    case PROP_SCOPE:
      g_value_set_string (value, ortrain_graph_get_label (self->graph, self->scope));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

/* Names of operators are shared by all nodes of a process. GLib (2.74 at least) hands out an interned string that
 * another thread is just giving back: both take this lock. */
static GMutex names_lock;

static char *
intern_name (const char *name)
{
  g_mutex_lock (&names_lock);
  char *interned = g_ref_string_new_intern (name);
  g_mutex_unlock (&names_lock);
  return interned;
}

static void
release_name (char *name)
{
  if (name == NULL) /* of a node that no graph made */
    return;
  g_mutex_lock (&names_lock);
  g_ref_string_release (name);
  g_mutex_unlock (&names_lock);
}

static void
ortrain_node_finalize (GObject *object)
{
  OrtrainNode *self = ORTRAIN_NODE (object);
  g_clear_object (&self->body);
  g_clear_pointer (&self->attributes, ortrain_attributes_free);
  g_ptr_array_unref (self->inputs);
  g_ptr_array_unref (self->outputs);
  if (*self->name != '\0')
    g_free (self->name);
  release_name (self->op_type);
  release_name (self->domain);
  G_OBJECT_CLASS (ortrain_node_parent_class)->finalize (object);
}

static void
ortrain_node_class_init (OrtrainNodeClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  object_class->get_property = ortrain_node_get_property;
  object_class->finalize = ortrain_node_finalize;

  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
  /**
   * OrtrainNode:name: (getter get_name)
   *
   * The name of the node in the file; often empty, and not always unique. Read-only.
   */
  props[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);
  /**
   * OrtrainNode:op-type: (getter get_op_type)
   *
   * The type of the operator, for example `Gemm`. Read-only.
   */
  props[PROP_OP_TYPE] = g_param_spec_string ("op-type", NULL, NULL, NULL, flags);
  /**
   * OrtrainNode:domain: (getter get_domain)
   *
   * The operator set that the operator is from; empty for ONNX's own. Read-only.
   */
  props[PROP_DOMAIN] = g_param_spec_string ("domain", NULL, NULL, NULL, flags);
  /**
   * OrtrainNode:scope: (getter get_scope)
   *
   * The path of the module that the node is in, in the program that the model was exported from, for example
   * `encoder.layer.0.query`; %NULL if the file does not say. PyTorch's exporters write it. Read-only.
   */
  props[PROP_SCOPE] = g_param_spec_string ("scope", NULL, NULL, NULL, flags);
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
ortrain_node_init (OrtrainNode *self)
{
  self->name = (char *) "";
  self->inputs = g_ptr_array_new ();
  self->outputs = g_ptr_array_new ();
  self->attributes = ortrain_attributes_new ();
}

/**
 * ortrain_node_get_name:
 * @self: a node
 *
 * The name of the node, often empty.
 *
 * Returns: (transfer none): the name
 */
const char *
ortrain_node_get_name (OrtrainNode *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), NULL);
  return self->name;
}

/**
 * ortrain_node_get_op_type:
 * @self: a node
 *
 * The operator, for example `Gemm`.
 *
 * Returns: (transfer none): the operator
 */
const char *
ortrain_node_get_op_type (OrtrainNode *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), NULL);
  return self->op_type;
}

/**
 * ortrain_node_get_domain:
 * @self: a node
 *
 * The operator set that the operator is from: empty for ONNX's own, `org.ortrain` for this library's.
 *
 * Returns: (transfer none): the domain
 */
const char *
ortrain_node_get_domain (OrtrainNode *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), NULL);
  return self->domain;
}

/**
 * ortrain_node_get_scope:
 * @self: a node
 *
 * Gets the path of the module that the node is in, in the program that the model was exported from, for example
 * `encoder.layer.0.query`. PyTorch's exporters write it.
 *
 * Returns: (transfer none) (nullable): the path, with dots; %NULL if the file does not say
 */
const char *
ortrain_node_get_scope (OrtrainNode *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), NULL);
  return ortrain_graph_get_label (self->graph, self->scope);
}

/**
 * ortrain_node_get_n_inputs:
 * @self: a node
 *
 * Counts the inputs, absent ones in the middle included.
 *
 * Returns: the number of inputs
 */
guint
ortrain_node_get_n_inputs (OrtrainNode *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), 0);
  return self->inputs->len;
}

/**
 * ortrain_node_get_n_outputs:
 * @self: a node
 *
 * Counts the outputs, absent ones in the middle included.
 *
 * Returns: the number of outputs
 */
guint
ortrain_node_get_n_outputs (OrtrainNode *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), 0);
  return self->outputs->len;
}

/**
 * ortrain_node_get_input:
 * @self: a node
 * @index: which input, counted from 0
 *
 * Gets the value that the node reads at a position.
 *
 * Returns: (transfer none) (nullable): the value, owned by the graph; %NULL where an optional input is absent
 */
OrtrainValue *
ortrain_node_get_input (OrtrainNode *self, guint index)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), NULL);
  return ortrain_node_input (self, index);
}

/**
 * ortrain_node_get_output:
 * @self: a node
 * @index: which output, counted from 0
 *
 * Gets the value that the node computes at a position.
 *
 * Returns: (transfer none) (nullable): the value, owned by the graph; %NULL where an optional output is absent
 */
OrtrainValue *
ortrain_node_get_output (OrtrainNode *self, guint index)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), NULL);
  return ortrain_node_output (self, index);
}

/**
 * ortrain_node_get_attribute_names:
 * @self: a node
 *
 * Lists the attributes that are set, in the order of the file.
 *
 * Returns: (transfer full) (array zero-terminated=1): their names
 */
char **
ortrain_node_get_attribute_names (OrtrainNode *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), NULL);
  guint n = ortrain_attributes_get_n (self->attributes);
  char **names = g_new0 (char *, n + 1);
  for (guint i = 0; i < n; i++)
    names[i] = g_strdup (ortrain_attributes_get_nth (self->attributes, i)->name);
  return names;
}

/**
 * ortrain_node_get_attribute:
 * @self: a node
 * @name: the name of an attribute
 *
 * Gets an attribute: an integer as `x`, a float as `d`, a string as `s`, lists of them as `ax`, `ad` and `as`.
 *
 * Returns: (transfer full) (nullable): the value; %NULL if the attribute is absent, or a tensor or a graph
 */
GVariant *
ortrain_node_get_attribute (OrtrainNode *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_NODE (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  const OrtrainAttribute *a = ortrain_attributes_lookup (self->attributes, name);
  if (a == NULL)
    return NULL;
  GVariant *variant = NULL;
  switch (a->kind)
    {
    case ORTRAIN_ATTRIBUTE_FLOAT:
      variant = g_variant_new_double (a->v.f);
      break;
    case ORTRAIN_ATTRIBUTE_INT:
      variant = g_variant_new_int64 (a->v.i);
      break;
    case ORTRAIN_ATTRIBUTE_STRING:
      variant = g_utf8_validate (a->v.s, -1, NULL) ? g_variant_new_string (a->v.s) : NULL;
      break;
    case ORTRAIN_ATTRIBUTE_INTS:
      variant = g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, a->v.ints, a->n, sizeof (gint64));
      break;
    case ORTRAIN_ATTRIBUTE_FLOATS:
      {
        g_autofree double *doubles = g_new (double, MAX (a->n, 1));
        for (gsize i = 0; i < a->n; i++)
          doubles[i] = a->v.floats[i];
        variant = g_variant_new_fixed_array (G_VARIANT_TYPE_DOUBLE, doubles, a->n, sizeof (double));
        break;
      }
    case ORTRAIN_ATTRIBUTE_STRINGS:
      for (gsize i = 0; i < a->n; i++)
        if (!g_utf8_validate (a->v.strings[i], -1, NULL))
          return NULL;
      variant = g_variant_new_strv ((const char *const *) a->v.strings, (gssize) a->n);
      break;
    case ORTRAIN_ATTRIBUTE_TENSOR:
    case ORTRAIN_ATTRIBUTE_GRAPH:
    case ORTRAIN_ATTRIBUTE_TENSORS:
    case ORTRAIN_ATTRIBUTE_GRAPHS:
      break;
    }
  return variant != NULL ? g_variant_ref_sink (variant) : NULL;
}

/**
 * ortrain_node_set_attribute:
 * @self: a node
 * @name: the name of an attribute
 * @value: (nullable): an `x`, `d`, `s`, `ax`, `ad` or `as`, or %NULL to remove the attribute
 *
 * Sets, or removes, an attribute. A floating @value is consumed.
 */
void
ortrain_node_set_attribute (OrtrainNode *self, const char *name, GVariant *value)
{
  g_return_if_fail (ORTRAIN_IS_NODE (self));
  g_return_if_fail (name != NULL);
  if (value == NULL)
    {
      ortrain_attributes_remove (self->attributes, name);
      return;
    }
  g_autoptr (GVariant) v = g_variant_ref_sink (value);
  gsize n;
  if (g_variant_is_of_type (v, G_VARIANT_TYPE_INT64))
    ortrain_attributes_set_int (self->attributes, name, g_variant_get_int64 (v));
  else if (g_variant_is_of_type (v, G_VARIANT_TYPE_DOUBLE))
    ortrain_attributes_set_float (self->attributes, name, g_variant_get_double (v));
  else if (g_variant_is_of_type (v, G_VARIANT_TYPE_STRING))
    ortrain_attributes_set_string (self->attributes, name, g_variant_get_string (v, NULL));
  else if (g_variant_is_of_type (v, G_VARIANT_TYPE ("ax")))
    {
      const gint64 *ints = g_variant_get_fixed_array (v, &n, sizeof (gint64));
      ortrain_attributes_set_ints (self->attributes, name, ints, n);
    }
  else if (g_variant_is_of_type (v, G_VARIANT_TYPE ("ad")))
    {
      const double *doubles = g_variant_get_fixed_array (v, &n, sizeof (double));
      g_autofree float *floats = g_new (float, MAX (n, 1));
      for (gsize i = 0; i < n; i++)
        floats[i] = (float) doubles[i];
      ortrain_attributes_set_floats (self->attributes, name, floats, n);
    }
  else if (g_variant_is_of_type (v, G_VARIANT_TYPE_STRING_ARRAY))
    {
      g_autofree const char **strings = g_variant_get_strv (v, &n);
      ortrain_attributes_set_strings (self->attributes, name, strings, n);
    }
  else
    g_critical ("An attribute cannot have the type '%s'", g_variant_get_type_string (v));
}

void
ortrain_node_set_name (OrtrainNode *self, const char *name)
{
  char *old = self->name;
  self->name = name != NULL && *name != '\0' ? g_strdup (name) : (char *) "";
  if (*old != '\0')
    g_free (old);
}

void
ortrain_node_set_operator (OrtrainNode *self, const char *domain, const char *op_type)
{
  char *new_domain = intern_name (domain != NULL ? domain : "");
  char *new_op_type = intern_name (op_type);
  g_clear_pointer (&self->domain, release_name);
  g_clear_pointer (&self->op_type, release_name);
  self->domain = new_domain;
  self->op_type = new_op_type;
}

void
ortrain_node_copy_operator (OrtrainNode *self, const OrtrainNode *source)
{
  char *const old[] = { self->domain, self->op_type };
  self->domain = g_ref_string_acquire (source->domain);
  self->op_type = g_ref_string_acquire (source->op_type);
  for (guint i = 0; i < G_N_ELEMENTS (old); i++)
    release_name (old[i]);
}

char *
ortrain_node_describe (const OrtrainNode *self)
{
  const char *label = self->name;
  if (label[0] == '\0')
    for (guint i = 0; i < self->outputs->len; i++)
      if (self->outputs->pdata[i] != NULL)
        {
          label = ((OrtrainValue *) self->outputs->pdata[i])->name;
          break;
        }
  g_autofree char *domain = ortrain_text_quote (self->domain), *op_type = ortrain_text_quote (self->op_type);
  g_autofree char *name = ortrain_text_quote (label);
  return g_strdup_printf ("%s%s%s '%s'", domain, domain[0] != '\0' ? "::" : "", op_type, name);
}
