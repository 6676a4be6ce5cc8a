/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer-private.h"

/* The parameters of one session as an optimizer moves them: the states that each of them has, and the scalars of an
 * update. The library's own optimizers move them by nodes of the training graph. Optimizers of users are called here,
 * once for each parameter, with tensors over memory that the host reads. Nothing is allocated from step to step, unless
 * groups were added or the optimizer is a user's. */
typedef struct _OrtrainUpdateSet OrtrainUpdateSet;

typedef struct
{
  const char *name;
  OrtrainDType dtype;
  const gint64 *dims;
  guint rank;
  const char *scoped_name; /* or NULL */
} OrtrainUpdateParameter;

OrtrainUpdateSet *ortrain_update_set_new (OrtrainOptimizer *optimizer, OrtrainStatePrecision precision,
                                          const OrtrainUpdateParameter *parameters, guint n_parameters, GError **error);
void ortrain_update_set_free (OrtrainUpdateSet *self);

OrtrainOptimizer *ortrain_update_set_get_optimizer (OrtrainUpdateSet *self); /* transfer none */
/* Whether a method of a class from outside of the library makes the updates, which may fail half way. */
gboolean ortrain_update_set_is_custom (OrtrainUpdateSet *self);
guint ortrain_update_set_get_n_states (OrtrainUpdateSet *self);
const char *ortrain_update_set_get_state_name (OrtrainUpdateSet *self, guint state); /* "exp_avg" */
gsize ortrain_update_set_get_state_bytes (OrtrainUpdateSet *self, guint parameter);
const OrtrainStateForm *ortrain_update_set_get_state_form (OrtrainUpdateSet *self, guint parameter);
double ortrain_update_set_get_initial_state (OrtrainUpdateSet *self,
                                             guint state); /* of all its elements; of blocks 0 */

/* The scalars of the next update (kernel-abi/ortrain-update-scalars-private.h), as the optimizer's properties are now.
 * step counts from 1; factor: of the schedule, on the learning rate. NULL when the optimizer has become one that the
 * states are not there for. */
const double *ortrain_update_set_fill_scalars (OrtrainUpdateSet *self, guint64 step, double factor,
                                               double gradient_scale, double max_norm, GError **error);
gsize ortrain_update_set_get_n_scalars (OrtrainUpdateSet *self);
/* Call it after fill_scalars, which fills both sets alike: sets the scalars of the update for the case that the
 * previous one was skipped. */
void ortrain_update_set_fill_skipped (OrtrainUpdateSet *self, guint64 step, double factor);
gsize ortrain_update_set_get_n_written (OrtrainUpdateSet *self); /* of the filled scalars, both sets */
gsize ortrain_update_set_get_n_held (OrtrainUpdateSet *self);    /* … and of the memory that they are written to */
/* As filled in last. */
double ortrain_update_set_get_learning_rate (OrtrainUpdateSet *self, guint parameter);

/* For a custom optimizer: where parameter i is; states: [n_states]. */
gboolean ortrain_update_set_bind_parameter (OrtrainUpdateSet *self, guint parameter, gpointer address,
                                            gpointer gradient, gpointer const *states, GError **error);
/* Moves all parameters by the custom optimizer, with the scalars as filled in last. */
gboolean ortrain_update_set_run (OrtrainUpdateSet *self, guint64 step, double gradient_scale, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainUpdateSet, ortrain_update_set_free)
