/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

#include "core/ortrain-text-private.h"

/**
 * OrtrainMemoryBlock:
 *
 * A block of memory in a plan: its offset and size, and from which step to which step it is live.
 * [property@MemoryPlan:blocks] lists them.
 *
 * ```python
 * session.train_step({"x": x, "labels": labels})
 * for block in session.memory_plan.blocks:
 *     print(block.region, block.offset, block.bytes, block.first, block.last, block.name)
 * ```
 *
 * A block is immutable, and any thread may use it.
 */
struct _OrtrainMemoryBlock
{
  GObject parent_instance;

  char *name;
  const char *category;
  const char *region;
  char *node;
  guint64 offset;
  guint64 bytes;
  gint first;
  gint last;
  gboolean recomputed;
};

enum
{
  PROP_0,
  PROP_NAME,
  PROP_CATEGORY,
  PROP_REGION,
  PROP_NODE,
  PROP_OFFSET,
  PROP_BYTES,
  PROP_FIRST,
  PROP_LAST,
  PROP_RECOMPUTED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (OrtrainMemoryBlock, ortrain_memory_block, G_TYPE_OBJECT)

static void
ortrain_memory_block_finalize (GObject *object)
{
  OrtrainMemoryBlock *self = ORTRAIN_MEMORY_BLOCK (object);
  g_free (self->name);
  g_free (self->node);
  G_OBJECT_CLASS (ortrain_memory_block_parent_class)->finalize (object);
}

static void
ortrain_memory_block_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainMemoryBlock *self = ORTRAIN_MEMORY_BLOCK (object);
  switch (property_id)
    {
    case PROP_NAME:
      g_value_set_string (value, ortrain_memory_block_get_name (self));
      break;
    case PROP_CATEGORY:
      g_value_set_string (value, ortrain_memory_block_get_category (self));
      break;
    case PROP_REGION:
      g_value_set_string (value, ortrain_memory_block_get_region (self));
      break;
    case PROP_NODE:
      g_value_set_string (value, ortrain_memory_block_get_node (self));
      break;
    case PROP_OFFSET:
      g_value_set_uint64 (value, self->offset);
      break;
    case PROP_BYTES:
      g_value_set_uint64 (value, self->bytes);
      break;
    case PROP_FIRST:
      g_value_set_int (value, self->first);
      break;
    case PROP_LAST:
      g_value_set_int (value, self->last);
      break;
    case PROP_RECOMPUTED:
      g_value_set_boolean (value, self->recomputed);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_memory_block_class_init (OrtrainMemoryBlockClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_memory_block_finalize;
  object_class->get_property = ortrain_memory_block_get_property;

  /**
   * OrtrainMemoryBlock:name: (getter get_name)
   *
   * What the graph calls the value, or the node whose workspace it is. Read-only.
   */
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, "", flags);
  /**
   * OrtrainMemoryBlock:category: (getter get_category)
   *
   * The purpose of its memory: `parameter`, `gradient`, `state`, `buffer`, `constant`, `activation`, `temporary`,
   * `workspace`, `input` or `output`. Read-only.
   */
  properties[PROP_CATEGORY] = g_param_spec_string ("category", NULL, NULL, "", flags);
  /**
   * OrtrainMemoryBlock:region: (getter get_region)
   *
   * The memory that its offset is counted in: `arena`, `parameter`, `gradient`, `buffer`, `constant`, `input` or
   * `output`. Read-only.
   */
  properties[PROP_REGION] = g_param_spec_string ("region", NULL, NULL, "", flags);
  /**
   * OrtrainMemoryBlock:node: (getter get_node)
   *
   * Which node computes the value; %NULL for values that exist before the first step. Read-only.
   */
  properties[PROP_NODE] = g_param_spec_string ("node", NULL, NULL, NULL, flags);
  /**
   * OrtrainMemoryBlock:offset: (getter get_offset)
   *
   * Where it begins in its region, in bytes. Read-only.
   */
  properties[PROP_OFFSET] = g_param_spec_uint64 ("offset", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainMemoryBlock:bytes: (getter get_bytes)
   *
   * How large it is. Read-only.
   */
  properties[PROP_BYTES] = g_param_spec_uint64 ("bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainMemoryBlock:first: (getter get_first)
   *
   * The step that computes it; -1 if it exists before the first step. Read-only.
   */
  properties[PROP_FIRST] = g_param_spec_int ("first", NULL, NULL, -1, G_MAXINT, 0, flags);
  /**
   * OrtrainMemoryBlock:last: (getter get_last)
   *
   * The last step that reads it; the number of steps if it is needed after them. Read-only.
   */
  properties[PROP_LAST] = g_param_spec_int ("last", NULL, NULL, -1, G_MAXINT, 0, flags);
  /**
   * OrtrainMemoryBlock:recomputed: (getter get_recomputed)
   *
   * Whether the backward pass computes it again, from what the forward pass has kept. Read-only.
   */
  properties[PROP_RECOMPUTED] = g_param_spec_boolean ("recomputed", NULL, NULL, FALSE, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_memory_block_init (OrtrainMemoryBlock *self)
{
}

OrtrainMemoryBlock *
ortrain_memory_block_new (const char *name, const char *category, const char *region, const char *node, guint64 offset,
                          guint64 bytes, gint first, gint last, gboolean recomputed)
{
  OrtrainMemoryBlock *self = g_object_new (ORTRAIN_TYPE_MEMORY_BLOCK, NULL);
  self->name = g_strdup (name);
  self->category = category;
  self->region = region;
  self->node = g_strdup (node);
  self->offset = offset;
  self->bytes = bytes;
  self->first = first;
  self->last = last;
  self->recomputed = recomputed;
  return self;
}

/**
 * ortrain_memory_block_get_name: (get-property name)
 * @self: a block
 *
 * Gets what the graph calls the value, or the node whose workspace it is.
 *
 * Returns: (transfer none): the name
 */
const char *
ortrain_memory_block_get_name (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), NULL);

  return self->name != NULL ? self->name : "";
}

/**
 * ortrain_memory_block_get_category: (get-property category)
 * @self: a block
 *
 * Gets the purpose of its memory: `parameter`, `gradient`, `state`, `buffer`, `constant`, `activation`, `temporary`,
 * `workspace`, `input` or `output`.
 *
 * Returns: (transfer none): the category
 */
const char *
ortrain_memory_block_get_category (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), NULL);

  return self->category != NULL ? self->category : "";
}

/**
 * ortrain_memory_block_get_region: (get-property region)
 * @self: a block
 *
 * Gets the memory that its offset is counted in: `arena`, `parameter`, `gradient`, `buffer`, `constant`, `input` or
 * `output`.
 *
 * Returns: (transfer none): the region
 */
const char *
ortrain_memory_block_get_region (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), NULL);

  return self->region != NULL ? self->region : "";
}

/**
 * ortrain_memory_block_get_node: (get-property node)
 * @self: a block
 *
 * Gets which node computes the value; %NULL for values that exist before the first step.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_memory_block_get_node (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), NULL);

  return self->node;
}

/**
 * ortrain_memory_block_get_offset: (get-property offset)
 * @self: a block
 *
 * Gets where it begins in its region, in bytes.
 *
 * Returns: bytes from the region's beginning
 */
guint64
ortrain_memory_block_get_offset (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), 0);

  return self->offset;
}

/**
 * ortrain_memory_block_get_bytes: (get-property bytes)
 * @self: a block
 *
 * Gets how large it is.
 *
 * Returns: bytes
 */
guint64
ortrain_memory_block_get_bytes (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), 0);

  return self->bytes;
}

/**
 * ortrain_memory_block_get_first: (get-property first)
 * @self: a block
 *
 * Gets the step that computes it; -1 if it exists before the first step.
 *
 * Returns: index of a step, -1 if it exists before the first
 */
gint
ortrain_memory_block_get_first (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), -1);

  return self->first;
}

/**
 * ortrain_memory_block_get_last: (get-property last)
 * @self: a block
 *
 * Gets the last step that reads it; the number of steps if it is needed after them.
 *
 * Returns: the value
 */
gint
ortrain_memory_block_get_last (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), -1);

  return self->last;
}

/**
 * ortrain_memory_block_get_recomputed: (get-property recomputed)
 * @self: a block
 *
 * Gets whether the backward pass computes it again, from what the forward pass has kept.
 *
 * Returns: %TRUE if it is computed again; %FALSE for what a step computes once, and for workspaces
 */
gboolean
ortrain_memory_block_get_recomputed (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), FALSE);

  return self->recomputed;
}

/**
 * ortrain_memory_block_to_string:
 * @self: a block
 *
 * One line about the block.
 *
 * Returns: (transfer full): for instance `conv1.out: activation, 401408 bytes at 0, steps 2 to 31`
 */
char *
ortrain_memory_block_to_string (OrtrainMemoryBlock *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_BLOCK (self), NULL);

  return g_strdup_printf ("%s: %s, %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT ", steps %d to %d",
                          ortrain_text_show (ortrain_memory_block_get_name (self)),
                          ortrain_memory_block_get_category (self), self->bytes, self->offset, self->first, self->last);
}
