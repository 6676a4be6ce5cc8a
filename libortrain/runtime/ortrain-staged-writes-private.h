/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "runtime/ortrain-device-context-private.h"
#include "tensor/ortrain-tensor-private.h"

/* The contents that a setter writes into the memory of a session. All are read first: converted, copied from other
 * devices and out of mapped files, and their files checked. Only then is anything changed, so that a tensor that cannot
 * be read changes nothing. A tensor in the memory of the host is not copied. */
typedef struct
{
  OrtrainDeviceContext *device_context;
  GArray *writes;
} OrtrainStagedWrites;

void ortrain_staged_writes_init (OrtrainStagedWrites *self, OrtrainDeviceContext *device_context);
void ortrain_staged_writes_clear (OrtrainStagedWrites *self);
/* Takes the contents as `dtype`; the shape is the caller's to check. Errors name no tensor. */
gboolean ortrain_staged_writes_add (OrtrainStagedWrites *self, OrtrainTensor *tensor, OrtrainDType dtype,
                                    gpointer address, GError **error);
/* Writes all, and waits until they are written. If the device fails for one of them, it continues with the others. */
gboolean ortrain_staged_writes_apply (OrtrainStagedWrites *self, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OrtrainStagedWrites, ortrain_staged_writes_clear)
