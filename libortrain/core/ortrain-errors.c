/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-errors.h"

/* clang-format off */
G_DEFINE_QUARK (ortrain-tensor-error-quark, ortrain_tensor_error)
G_DEFINE_QUARK (ortrain-model-error-quark, ortrain_model_error)
G_DEFINE_QUARK (ortrain-graph-error-quark, ortrain_graph_error)
G_DEFINE_QUARK (ortrain-plan-error-quark, ortrain_plan_error)
G_DEFINE_QUARK (ortrain-device-error-quark, ortrain_device_error)
G_DEFINE_QUARK (ortrain-session-error-quark, ortrain_session_error)
G_DEFINE_QUARK (ortrain-data-error-quark, ortrain_data_error)
G_DEFINE_QUARK (ortrain-checkpoint-error-quark, ortrain_checkpoint_error)
/* clang-format on */
