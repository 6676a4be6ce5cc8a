/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-errors.h"

/* clang-format off */
/**
 * ortrain_tensor_error_quark:
 *
 * The domain of errors of tensors.
 *
 * Returns: the domain
 */
G_DEFINE_QUARK (ortrain-tensor-error-quark, ortrain_tensor_error)
/**
 * ortrain_model_error_quark:
 *
 * The domain of errors of model files.
 *
 * Returns: the domain
 */
G_DEFINE_QUARK (ortrain-model-error-quark, ortrain_model_error)
/**
 * ortrain_graph_error_quark:
 *
 * The domain of errors of graphs.
 *
 * Returns: the domain
 */
G_DEFINE_QUARK (ortrain-graph-error-quark, ortrain_graph_error)
/**
 * ortrain_plan_error_quark:
 *
 * The domain of errors of plans.
 *
 * Returns: the domain
 */
G_DEFINE_QUARK (ortrain-plan-error-quark, ortrain_plan_error)
/**
 * ortrain_device_error_quark:
 *
 * The domain of errors of devices.
 *
 * Returns: the domain
 */
G_DEFINE_QUARK (ortrain-device-error-quark, ortrain_device_error)
/**
 * ortrain_session_error_quark:
 *
 * The domain of errors of sessions and options.
 *
 * Returns: the domain
 */
G_DEFINE_QUARK (ortrain-session-error-quark, ortrain_session_error)
/**
 * ortrain_data_error_quark:
 *
 * The domain of errors of data sets and loaders.
 *
 * Returns: the domain
 */
G_DEFINE_QUARK (ortrain-data-error-quark, ortrain_data_error)
/**
 * ortrain_checkpoint_error_quark:
 *
 * The domain of errors of checkpoints.
 *
 * Returns: the domain
 */
G_DEFINE_QUARK (ortrain-checkpoint-error-quark, ortrain_checkpoint_error)
/* clang-format on */
