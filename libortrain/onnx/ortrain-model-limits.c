/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-model-limits.h"

#include "core/ortrain-field-private.h"

/**
 * OrtrainModelLimits:
 *
 * Limits on the resources that a model file may ask for. A model that exceeds a limit is refused with
 * %ORTRAIN_MODEL_ERROR_LIMIT, before memory is taken for the excess. The defaults fit every model in wide use; raise a
 * limit for a file that you trust.
 *
 * ```python
 * limits = Ortrain.ModelLimits.new()
 * limits.set_max_nodes(10_000)
 * limits.set_allow_external_data(False)
 * model = Ortrain.Model.new_from_file_with_limits("model.onnx", limits)
 * ```
 *
 * One thread at a time may use limits, and none may change them while a model is being loaded with them.
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
ortrain_model_limits_class_init (OrtrainModelLimitsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;

  /**
   * OrtrainModelLimits:max-model-bytes:
   *
   * The largest model file, in bytes, without external data. Default: 2147483647.
   */
  properties[PROP_MAX_MODEL_BYTES] = ortrain_field_uint64 (
      "max-model-bytes", G_STRUCT_OFFSET (OrtrainModelLimits, max_model_bytes), 0, G_MAXUINT64, 2147483647);
  /**
   * OrtrainModelLimits:max-tensor-bytes:
   *
   * The largest tensor, in bytes. Default: 64 TiB.
   */
  properties[PROP_MAX_TENSOR_BYTES] =
      ortrain_field_uint64 ("max-tensor-bytes", G_STRUCT_OFFSET (OrtrainModelLimits, max_tensor_bytes), 0, G_MAXUINT64,
                            G_GUINT64_CONSTANT (1) << 46);
  /**
   * OrtrainModelLimits:max-nodes:
   *
   * The largest number of nodes, those in subgraphs and inlined functions included. Default: 1000000.
   */
  properties[PROP_MAX_NODES] =
      ortrain_field_uint64 ("max-nodes", G_STRUCT_OFFSET (OrtrainModelLimits, max_nodes), 0, G_MAXUINT64, 1000000);
  /**
   * OrtrainModelLimits:max-tensors:
   *
   * The largest number of tensors. Default: 1000000.
   */
  properties[PROP_MAX_TENSORS] =
      ortrain_field_uint64 ("max-tensors", G_STRUCT_OFFSET (OrtrainModelLimits, max_tensors), 0, G_MAXUINT64, 1000000);
  /**
   * OrtrainModelLimits:max-items:
   *
   * The largest number of names, attributes, numbers in attributes and other small parts, all together. Default:
   * 16000000.
   */
  properties[PROP_MAX_ITEMS] =
      ortrain_field_uint64 ("max-items", G_STRUCT_OFFSET (OrtrainModelLimits, max_items), 0, G_MAXUINT64, 16000000);
  /**
   * OrtrainModelLimits:max-name-bytes:
   *
   * The longest name, in bytes. Default: 65536.
   */
  properties[PROP_MAX_NAME_BYTES] = ortrain_field_uint64 (
      "max-name-bytes", G_STRUCT_OFFSET (OrtrainModelLimits, max_name_bytes), 0, G_MAXUINT64, 65536);
  /**
   * OrtrainModelLimits:max-rank:
   *
   * The largest number of dimensions of a tensor. Default: 16, from 0 to 16.
   */
  properties[PROP_MAX_RANK] =
      ortrain_field_uint ("max-rank", G_STRUCT_OFFSET (OrtrainModelLimits, max_rank), 0, 16, 16);
  /**
   * OrtrainModelLimits:max-depth:
   *
   * How deep messages in the file may nest. Default: 64, from 0 to 256.
   */
  properties[PROP_MAX_DEPTH] =
      ortrain_field_uint ("max-depth", G_STRUCT_OFFSET (OrtrainModelLimits, max_depth), 0, 256, 64);
  /**
   * OrtrainModelLimits:max-graph-depth:
   *
   * How deep graphs may nest in graphs. Default: 16, from 0 to 64.
   */
  properties[PROP_MAX_GRAPH_DEPTH] =
      ortrain_field_uint ("max-graph-depth", G_STRUCT_OFFSET (OrtrainModelLimits, max_graph_depth), 0, 64, 16);
  /**
   * OrtrainModelLimits:max-function-depth:
   *
   * How deep functions may call functions. Default: 16, from 0 to 64.
   */
  properties[PROP_MAX_FUNCTION_DEPTH] =
      ortrain_field_uint ("max-function-depth", G_STRUCT_OFFSET (OrtrainModelLimits, max_function_depth), 0, 64, 16);
  /**
   * OrtrainModelLimits:allow-external-data:
   *
   * Whether weights may be read from other files in the directory of the model or below it. Default: %TRUE.
   */
  properties[PROP_ALLOW_EXTERNAL_DATA] =
      ortrain_field_boolean ("allow-external-data", G_STRUCT_OFFSET (OrtrainModelLimits, allow_external_data), TRUE);
  /**
   * OrtrainModelLimits:allow-links:
   *
   * Whether files with weights may be reached through symbolic links, or have several hard links. A model from an
   * untrusted source could use such links to read a file that its author may not read. In the cache of the Hugging Face
   * hub, where the files of `snapshots/REVISION` are links to those of its sibling `blobs`, such links are always
   * followed: to plain files in that folder, and nowhere else. Default: %FALSE.
   */
  properties[PROP_ALLOW_LINKS] =
      ortrain_field_boolean ("allow-links", G_STRUCT_OFFSET (OrtrainModelLimits, allow_links), FALSE);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_model_limits_init (OrtrainModelLimits *self)
{
  ortrain_field_init_all (self, properties, N_PROPS);
}

/**
 * ortrain_model_limits_new:
 *
 * Creates limits with the default values.
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

  ortrain_field_set_uint64 (self, properties[PROP_MAX_MODEL_BYTES], max_model_bytes);
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

  ortrain_field_set_uint64 (self, properties[PROP_MAX_TENSOR_BYTES], max_tensor_bytes);
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

  ortrain_field_set_uint64 (self, properties[PROP_MAX_NODES], max_nodes);
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

  ortrain_field_set_uint64 (self, properties[PROP_MAX_TENSORS], max_tensors);
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

  ortrain_field_set_uint64 (self, properties[PROP_MAX_ITEMS], max_items);
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

  ortrain_field_set_uint64 (self, properties[PROP_MAX_NAME_BYTES], max_name_bytes);
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

  ortrain_field_set_uint (self, properties[PROP_MAX_RANK], MIN (max_rank, 16));
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

  ortrain_field_set_uint (self, properties[PROP_MAX_DEPTH], MIN (max_depth, 256));
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

  ortrain_field_set_uint (self, properties[PROP_MAX_GRAPH_DEPTH], MIN (max_graph_depth, 64));
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

  ortrain_field_set_uint (self, properties[PROP_MAX_FUNCTION_DEPTH], MIN (max_function_depth, 64));
}

/**
 * ortrain_model_limits_get_allow_external_data:
 * @self: limits
 *
 * Gets whether weights may be read from other files in the directory of the model or below it.
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
 * Sets whether weights may be read from other files in the directory of the model or below it.
 */
void
ortrain_model_limits_set_allow_external_data (OrtrainModelLimits *self, gboolean allow_external_data)
{
  g_return_if_fail (ORTRAIN_IS_MODEL_LIMITS (self));

  ortrain_field_set_boolean (self, properties[PROP_ALLOW_EXTERNAL_DATA], allow_external_data);
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

  ortrain_field_set_boolean (self, properties[PROP_ALLOW_LINKS], allow_links);
}
