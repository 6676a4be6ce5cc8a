/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-transform.h"

G_BEGIN_DECLS

/**
 * OrtrainTransformFunc:
 * @item: the tensors of one item, without a dimension for the batch
 * @seed: a number below 2^53 for random choices, which belongs to this item in this epoch
 * @user_data: the data that were given with the function
 * @error: return location for an error
 *
 * Changes an item, as [vfunc@Transform.apply] does: its tensors are replaced, not written to.
 *
 * Returns: %FALSE on error
 */
typedef gboolean (*OrtrainTransformFunc) (OrtrainTensorDict *item, guint64 seed, gpointer user_data, GError **error);

#define ORTRAIN_TYPE_FUNCTION_TRANSFORM (ortrain_function_transform_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainFunctionTransform, ortrain_function_transform, ORTRAIN, FUNCTION_TRANSFORM,
                      OrtrainTransform)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTransform *ortrain_function_transform_new (OrtrainTransformFunc function, gpointer user_data,
                                                  GDestroyNotify destroy);

G_END_DECLS
