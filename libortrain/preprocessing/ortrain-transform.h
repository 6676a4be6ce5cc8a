/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-dict.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TRANSFORM (ortrain_transform_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_DERIVABLE_TYPE (OrtrainTransform, ortrain_transform, ORTRAIN, TRANSFORM, GObject)

/**
 * OrtrainTransformClass:
 * @parent_class: the parent class
 * @apply: changes an item
 *
 * The class structure of [class@Transform].
 */
struct _OrtrainTransformClass
{
  GObjectClass parent_class;

  /**
   * OrtrainTransform::apply:
   * @self: a transform
   * @item: the tensors of one item, without a dimension for the batch
   * @seed: a number below 2^53 for random choices, which belongs to this item in this epoch
   * @error: return location for an error
   *
   * Changes an item: its tensors are replaced, not written to, since they may be the dataset's.
   *
   * Returns: %FALSE on error
   */
  gboolean (*apply) (OrtrainTransform *self, OrtrainTensorDict *item, guint64 seed, GError **error);

  /*< private >*/
  gpointer reserved[8];
};

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_transform_apply (OrtrainTransform *self, OrtrainTensorDict *item, guint64 seed, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_transform_is_thread_safe (OrtrainTransform *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_transform_set_thread_safe (OrtrainTransform *self, gboolean thread_safe);

G_END_DECLS
