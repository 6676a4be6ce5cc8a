/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "analysis/ortrain-parameter-roles-private.h"

/* Notes about tensors of which the file does not make clear whether they are parameters: the decision, and the options
 * for the other choice. */

typedef struct
{
  GString *trained, *untrained; /* their names, with the reason of the first */
  GString *frozen_options, *trainable_options;
  guint n_trained, n_untrained;
} OrtrainUncertainParameters;

void ortrain_uncertain_parameters_init (OrtrainUncertainParameters *self);
void ortrain_uncertain_parameters_clear (OrtrainUncertainParameters *self);
/* Adds a tensor that a loss is differentiable with respect to, unless its role is certain. */
void ortrain_uncertain_parameters_add (OrtrainUncertainParameters *self, const OrtrainParameterRole *role,
                                       gboolean is_trained);
/* A sentence for those that are trained, and one for the others. */
void ortrain_uncertain_parameters_add_notes (const OrtrainUncertainParameters *self, GStrvBuilder *notes);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OrtrainUncertainParameters, ortrain_uncertain_parameters_clear)
