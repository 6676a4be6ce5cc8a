/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-dict.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_IO_BINDING (ortrain_io_binding_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainIoBinding, ortrain_io_binding, ORTRAIN, IO_BINDING, GObject)

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_io_binding_bind_input (OrtrainIoBinding *self, const char *name, OrtrainTensor *tensor);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_io_binding_bind_output (OrtrainIoBinding *self, const char *name, OrtrainTensor *tensor);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_io_binding_clear_inputs (OrtrainIoBinding *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_io_binding_clear_outputs (OrtrainIoBinding *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_io_binding_get_inputs (OrtrainIoBinding *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_io_binding_get_outputs (OrtrainIoBinding *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_io_binding_copy_output (OrtrainIoBinding *self, const char *name, GError **error);

G_END_DECLS
