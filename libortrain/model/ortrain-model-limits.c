/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-limits.h"

/**
 * OrtrainModelLimits:
 *
 * How much a model file may ask for.
 *
 * A model is refused, with [error@ModelError] `LIMIT`, before any memory is taken for what exceeds a limit. The
 * defaults fit every model in wide use; raise a limit for a file that you trust. Not safe to change while a model is
 * being loaded.
 */
struct _OrtrainModelLimits
{
  GObject parent_instance;

  guint64 max_model_bytes;
  guint64 max_tensor_bytes;
  guint64 max_nodes;
  guint64 max_tensors;
  guint64 max_items;
  guint64 max_name_bytes;
  guint max_rank;
  guint max_depth;
  guint max_graph_depth;
  guint max_function_depth;
  gboolean allow_external_data;
  gboolean allow_links;
};

G_DEFINE_FINAL_TYPE (OrtrainModelLimits, ortrain_model_limits, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_MAX_MODEL_BYTES,
  PROP_MAX_TENSOR_BYTES,
  PROP_MAX_NODES,
  PROP_MAX_TENSORS,
  PROP_MAX_ITEMS,
  PROP_MAX_NAME_BYTES,
  PROP_MAX_RANK,
  PROP_MAX_DEPTH,
  PROP_MAX_GRAPH_DEPTH,
  PROP_MAX_FUNCTION_DEPTH,
  PROP_ALLOW_EXTERNAL_DATA,
  PROP_ALLOW_LINKS,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static void
ortrain_model_limits_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainModelLimits *self = ORTRAIN_MODEL_LIMITS (object);
  switch (id)
    {
    case PROP_MAX_MODEL_BYTES:
      g_value_set_uint64 (value, self->max_model_bytes);
      break;
    case PROP_MAX_TENSOR_BYTES:
      g_value_set_uint64 (value, self->max_tensor_bytes);
      break;
    case PROP_MAX_NODES:
      g_value_set_uint64 (value, self->max_nodes);
      break;
    case PROP_MAX_TENSORS:
      g_value_set_uint64 (value, self->max_tensors);
      break;
    case PROP_MAX_ITEMS:
      g_value_set_uint64 (value, self->max_items);
      break;
    case PROP_MAX_NAME_BYTES:
      g_value_set_uint64 (value, self->max_name_bytes);
      break;
    case PROP_MAX_RANK:
      g_value_set_uint (value, self->max_rank);
      break;
    case PROP_MAX_DEPTH:
      g_value_set_uint (value, self->max_depth);
      break;
    case PROP_MAX_GRAPH_DEPTH:
      g_value_set_uint (value, self->max_graph_depth);
      break;
    case PROP_MAX_FUNCTION_DEPTH:
      g_value_set_uint (value, self->max_function_depth);
      break;
    case PROP_ALLOW_EXTERNAL_DATA:
      g_value_set_boolean (value, self->allow_external_data);
      break;
    case PROP_ALLOW_LINKS:
      g_value_set_boolean (value, self->allow_links);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_model_limits_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  OrtrainModelLimits *self = ORTRAIN_MODEL_LIMITS (object);
  switch (id)
    {
    case PROP_MAX_MODEL_BYTES:
      ortrain_model_limits_set_max_model_bytes (self, g_value_get_uint64 (value));
      break;
    case PROP_MAX_TENSOR_BYTES:
      ortrain_model_limits_set_max_tensor_bytes (self, g_value_get_uint64 (value));
      break;
    case PROP_MAX_NODES:
      ortrain_model_limits_set_max_nodes (self, g_value_get_uint64 (value));
      break;
    case PROP_MAX_TENSORS:
      ortrain_model_limits_set_max_tensors (self, g_value_get_uint64 (value));
      break;
    case PROP_MAX_ITEMS:
      ortrain_model_limits_set_max_items (self, g_value_get_uint64 (value));
      break;
    case PROP_MAX_NAME_BYTES:
      ortrain_model_limits_set_max_name_bytes (self, g_value_get_uint64 (value));
      break;
    case PROP_MAX_RANK:
      ortrain_model_limits_set_max_rank (self, g_value_get_uint (value));
      break;
    case PROP_MAX_DEPTH:
      ortrain_model_limits_set_max_depth (self, g_value_get_uint (value));
      break;
    case PROP_MAX_GRAPH_DEPTH:
      ortrain_model_limits_set_max_graph_depth (self, g_value_get_uint (value));
      break;
    case PROP_MAX_FUNCTION_DEPTH:
      ortrain_model_limits_set_max_function_depth (self, g_value_get_uint (value));
      break;
    case PROP_ALLOW_EXTERNAL_DATA:
      ortrain_model_limits_set_allow_external_data (self, g_value_get_boolean (value));
      break;
    case PROP_ALLOW_LINKS:
      ortrain_model_limits_set_allow_links (self, g_value_get_boolean (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_model_limits_class_init (OrtrainModelLimitsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->get_property = ortrain_model_limits_get_property;
  object_class->set_property = ortrain_model_limits_set_property;

  /**
   * OrtrainModelLimits:max-model-bytes:
   *
   * The largest model file, in bytes, without external data.
   */
  properties[PROP_MAX_MODEL_BYTES] =
      g_param_spec_uint64 ("max-model-bytes", NULL, NULL, 0, G_MAXUINT64, 2147483647, flags);
  /**
   * OrtrainModelLimits:max-tensor-bytes:
   *
   * The largest tensor, in bytes.
   */
  properties[PROP_MAX_TENSOR_BYTES] =
      g_param_spec_uint64 ("max-tensor-bytes", NULL, NULL, 0, G_MAXUINT64, G_GUINT64_CONSTANT (1) << 46, flags);
  /**
   * OrtrainModelLimits:max-nodes:
   *
   * The largest number of nodes, those in subgraphs and inlined functions included.
   */
  properties[PROP_MAX_NODES] = g_param_spec_uint64 ("max-nodes", NULL, NULL, 0, G_MAXUINT64, 1000000, flags);
  /**
   * OrtrainModelLimits:max-tensors:
   *
   * The largest number of tensors.
   */
  properties[PROP_MAX_TENSORS] = g_param_spec_uint64 ("max-tensors", NULL, NULL, 0, G_MAXUINT64, 1000000, flags);
  /**
   * OrtrainModelLimits:max-items:
   *
   * The largest number of names, attributes, numbers in attributes and other small parts together.
   */
  properties[PROP_MAX_ITEMS] = g_param_spec_uint64 ("max-items", NULL, NULL, 0, G_MAXUINT64, 16000000, flags);
  /**
   * OrtrainModelLimits:max-name-bytes:
   *
   * The longest name, in bytes.
   */
  properties[PROP_MAX_NAME_BYTES] = g_param_spec_uint64 ("max-name-bytes", NULL, NULL, 0, G_MAXUINT64, 65536, flags);
  /**
   * OrtrainModelLimits:max-rank:
   *
   * The largest number of dimensions of a tensor.
   */
  properties[PROP_MAX_RANK] = g_param_spec_uint ("max-rank", NULL, NULL, 0, 16, 16, flags);
  /**
   * OrtrainModelLimits:max-depth:
   *
   * How deep messages in the file may nest.
   */
  properties[PROP_MAX_DEPTH] = g_param_spec_uint ("max-depth", NULL, NULL, 0, 256, 64, flags);
  /**
   * OrtrainModelLimits:max-graph-depth:
   *
   * How deep graphs may nest in graphs.
   */
  properties[PROP_MAX_GRAPH_DEPTH] = g_param_spec_uint ("max-graph-depth", NULL, NULL, 0, 64, 16, flags);
  /**
   * OrtrainModelLimits:max-function-depth:
   *
   * How deep functions may call functions.
   */
  properties[PROP_MAX_FUNCTION_DEPTH] = g_param_spec_uint ("max-function-depth", NULL, NULL, 0, 64, 16, flags);
  /**
   * OrtrainModelLimits:allow-external-data:
   *
   * Whether weights may be read from files beside the model, below its directory.
   */
  properties[PROP_ALLOW_EXTERNAL_DATA] = g_param_spec_boolean ("allow-external-data", NULL, NULL, TRUE, flags);
  /**
   * OrtrainModelLimits:allow-links:
   *
   * Whether files with weights may be reached through symbolic links, or have several names. A model that
   * nobody trusts could use such links to read a file that its author may not read; caches of model hubs are made of
   * them.
   */
  properties[PROP_ALLOW_LINKS] = g_param_spec_boolean ("allow-links", NULL, NULL, FALSE, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_model_limits_init (OrtrainModelLimits *self)
{
  self->max_model_bytes = 2147483647;
  self->max_tensor_bytes = G_GUINT64_CONSTANT (1) << 46;
  self->max_nodes = 1000000;
  self->max_tensors = 1000000;
  self->max_items = 16000000;
  self->max_name_bytes = 65536;
  self->max_rank = 16;
  self->max_depth = 64;
  self->max_graph_depth = 16;
  self->max_function_depth = 16;
  self->allow_external_data = TRUE;
  self->allow_links = FALSE;
}

/**
 * ortrain_model_limits_new:
 *
 * Makes limits with the default values.
 *
 * Returns: (transfer full): the new limits
 */
OrtrainModelLimits *
ortrain_model_limits_new (void)
{
  return g_object_new (ORTRAIN_TYPE_MODEL_LIMITS, NULL);
}

/**
 * ortrain_model_limits_get_max_model_bytes:
 * @self: limits
 *
 * Gets the largest model file, in bytes, without external data.
 *
 * Returns: the limit
 */
guint64
ortrain_model_limits_get_max_model_bytes (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_model_bytes;
}

/**
 * ortrain_model_limits_set_max_model_bytes:
 * @self: limits
 * @max_model_bytes: the new limit
 *
 * Sets the largest model file, in bytes, without external data.
 */
void
ortrain_model_limits_set_max_model_bytes (OrtrainModelLimits *self, guint64 max_model_bytes)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  if (self->max_model_bytes == max_model_bytes)
    return;
  self->max_model_bytes = max_model_bytes;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_MODEL_BYTES]);
}

/**
 * ortrain_model_limits_get_max_tensor_bytes:
 * @self: limits
 *
 * Gets the largest tensor, in bytes.
 *
 * Returns: the limit
 */
guint64
ortrain_model_limits_get_max_tensor_bytes (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_tensor_bytes;
}

/**
 * ortrain_model_limits_set_max_tensor_bytes:
 * @self: limits
 * @max_tensor_bytes: the new limit
 *
 * Sets the largest tensor, in bytes.
 */
void
ortrain_model_limits_set_max_tensor_bytes (OrtrainModelLimits *self, guint64 max_tensor_bytes)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  if (self->max_tensor_bytes == max_tensor_bytes)
    return;
  self->max_tensor_bytes = max_tensor_bytes;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_TENSOR_BYTES]);
}

/**
 * ortrain_model_limits_get_max_nodes:
 * @self: limits
 *
 * Gets the largest number of nodes, those in subgraphs and inlined functions included.
 *
 * Returns: the limit
 */
guint64
ortrain_model_limits_get_max_nodes (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_nodes;
}

/**
 * ortrain_model_limits_set_max_nodes:
 * @self: limits
 * @max_nodes: the new limit
 *
 * Sets the largest number of nodes, those in subgraphs and inlined functions included.
 */
void
ortrain_model_limits_set_max_nodes (OrtrainModelLimits *self, guint64 max_nodes)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  if (self->max_nodes == max_nodes)
    return;
  self->max_nodes = max_nodes;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_NODES]);
}

/**
 * ortrain_model_limits_get_max_tensors:
 * @self: limits
 *
 * Gets the largest number of tensors.
 *
 * Returns: the limit
 */
guint64
ortrain_model_limits_get_max_tensors (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_tensors;
}

/**
 * ortrain_model_limits_set_max_tensors:
 * @self: limits
 * @max_tensors: the new limit
 *
 * Sets the largest number of tensors.
 */
void
ortrain_model_limits_set_max_tensors (OrtrainModelLimits *self, guint64 max_tensors)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  if (self->max_tensors == max_tensors)
    return;
  self->max_tensors = max_tensors;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_TENSORS]);
}

/**
 * ortrain_model_limits_get_max_items:
 * @self: limits
 *
 * Gets the largest number of names, attributes, numbers in attributes and other small parts together.
 *
 * Returns: the limit
 */
guint64
ortrain_model_limits_get_max_items (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_items;
}

/**
 * ortrain_model_limits_set_max_items:
 * @self: limits
 * @max_items: the new limit
 *
 * Sets the largest number of names, attributes, numbers in attributes and other small parts together.
 */
void
ortrain_model_limits_set_max_items (OrtrainModelLimits *self, guint64 max_items)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  if (self->max_items == max_items)
    return;
  self->max_items = max_items;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_ITEMS]);
}

/**
 * ortrain_model_limits_get_max_name_bytes:
 * @self: limits
 *
 * Gets the longest name, in bytes.
 *
 * Returns: the limit
 */
guint64
ortrain_model_limits_get_max_name_bytes (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_name_bytes;
}

/**
 * ortrain_model_limits_set_max_name_bytes:
 * @self: limits
 * @max_name_bytes: the new limit
 *
 * Sets the longest name, in bytes.
 */
void
ortrain_model_limits_set_max_name_bytes (OrtrainModelLimits *self, guint64 max_name_bytes)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  if (self->max_name_bytes == max_name_bytes)
    return;
  self->max_name_bytes = max_name_bytes;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_NAME_BYTES]);
}

/**
 * ortrain_model_limits_get_max_rank:
 * @self: limits
 *
 * Gets the largest number of dimensions of a tensor.
 *
 * Returns: the limit
 */
guint
ortrain_model_limits_get_max_rank (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_rank;
}

/**
 * ortrain_model_limits_set_max_rank:
 * @self: limits
 * @max_rank: the new limit
 *
 * Sets the largest number of dimensions of a tensor.
 */
void
ortrain_model_limits_set_max_rank (OrtrainModelLimits *self, guint max_rank)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  max_rank = MIN (max_rank, 16);
  if (self->max_rank == max_rank)
    return;
  self->max_rank = max_rank;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_RANK]);
}

/**
 * ortrain_model_limits_get_max_depth:
 * @self: limits
 *
 * Gets how deep messages in the file may nest.
 *
 * Returns: the limit
 */
guint
ortrain_model_limits_get_max_depth (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_depth;
}

/**
 * ortrain_model_limits_set_max_depth:
 * @self: limits
 * @max_depth: the new limit
 *
 * Sets how deep messages in the file may nest.
 */
void
ortrain_model_limits_set_max_depth (OrtrainModelLimits *self, guint max_depth)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  max_depth = MIN (max_depth, 256);
  if (self->max_depth == max_depth)
    return;
  self->max_depth = max_depth;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_DEPTH]);
}

/**
 * ortrain_model_limits_get_max_graph_depth:
 * @self: limits
 *
 * Gets how deep graphs may nest in graphs.
 *
 * Returns: the limit
 */
guint
ortrain_model_limits_get_max_graph_depth (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_graph_depth;
}

/**
 * ortrain_model_limits_set_max_graph_depth:
 * @self: limits
 * @max_graph_depth: the new limit
 *
 * Sets how deep graphs may nest in graphs.
 */
void
ortrain_model_limits_set_max_graph_depth (OrtrainModelLimits *self, guint max_graph_depth)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  max_graph_depth = MIN (max_graph_depth, 64);
  if (self->max_graph_depth == max_graph_depth)
    return;
  self->max_graph_depth = max_graph_depth;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_GRAPH_DEPTH]);
}

/**
 * ortrain_model_limits_get_max_function_depth:
 * @self: limits
 *
 * Gets how deep functions may call functions.
 *
 * Returns: the limit
 */
guint
ortrain_model_limits_get_max_function_depth (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), 0);
  return self->max_function_depth;
}

/**
 * ortrain_model_limits_set_max_function_depth:
 * @self: limits
 * @max_function_depth: the new limit
 *
 * Sets how deep functions may call functions.
 */
void
ortrain_model_limits_set_max_function_depth (OrtrainModelLimits *self, guint max_function_depth)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  max_function_depth = MIN (max_function_depth, 64);
  if (self->max_function_depth == max_function_depth)
    return;
  self->max_function_depth = max_function_depth;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_FUNCTION_DEPTH]);
}

/**
 * ortrain_model_limits_get_allow_external_data:
 * @self: limits
 *
 * Gets whether weights may be read from files beside the model, below its directory.
 *
 * Returns: the limit
 */
gboolean
ortrain_model_limits_get_allow_external_data (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), FALSE);
  return self->allow_external_data;
}

/**
 * ortrain_model_limits_set_allow_external_data:
 * @self: limits
 * @allow_external_data: the new limit
 *
 * Sets whether weights may be read from files beside the model, below its directory.
 */
void
ortrain_model_limits_set_allow_external_data (OrtrainModelLimits *self, gboolean allow_external_data)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  allow_external_data = !!allow_external_data;
  if (self->allow_external_data == allow_external_data)
    return;
  self->allow_external_data = allow_external_data;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_ALLOW_EXTERNAL_DATA]);
}

/**
 * ortrain_model_limits_get_allow_links:
 * @self: limits
 *
 * Gets whether files with weights may be reached through symbolic links, or have several names.
 *
 * Returns: the limit
 */
gboolean
ortrain_model_limits_get_allow_links (OrtrainModelLimits *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL_LIMITS (self), FALSE);
  return self->allow_links;
}

/**
 * ortrain_model_limits_set_allow_links:
 * @self: limits
 * @allow_links: the new limit
 *
 * Sets whether files with weights may be reached through symbolic links, or have several names.
 */
void
ortrain_model_limits_set_allow_links (OrtrainModelLimits *self, gboolean allow_links)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));
  allow_links = !!allow_links;
  if (self->allow_links == allow_links)
    return;
  self->allow_links = allow_links;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_ALLOW_LINKS]);
}
