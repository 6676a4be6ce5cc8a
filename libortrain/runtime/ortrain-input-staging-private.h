/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "runtime/ortrain-device-context-private.h"

/* Two pieces of the host's memory from which a device copies feeds while the host does other things: one for the step
 * that is submitted, the other for the one before. They grow to the largest batch, and are at the same addresses then.
 */
typedef struct _OrtrainInputStaging OrtrainInputStaging;

OrtrainInputStaging *ortrain_input_staging_new (OrtrainDeviceContext *device_context); /* which lives longer */
void ortrain_input_staging_free (OrtrainInputStaging *self);

/* The next slot, with room for n_bytes; waits until the last copy from it has reached the device. */
gpointer ortrain_input_staging_begin (OrtrainInputStaging *self, gsize n_bytes, GError **error);
/* Call it after the copies from the slot. */
gboolean ortrain_input_staging_end (OrtrainInputStaging *self, GError **error);

guint ortrain_input_staging_get_current (OrtrainInputStaging *self);
gpointer ortrain_input_staging_get_address (OrtrainInputStaging *self, guint slot);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainInputStaging, ortrain_input_staging_free)
