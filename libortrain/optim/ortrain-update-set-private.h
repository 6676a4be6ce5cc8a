/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer.h"
#include "provider/ortrain-provider-private.h"

/* The parameters of one session as an optimizer moves them: where they, their gradients and their state are, cut into
 * spans once. The memory belongs to the session. Nothing is allocated by norm and run, unless groups were added or the
 * optimizer is not one of the library's. */
typedef struct _OrtrainUpdateSet OrtrainUpdateSet;

typedef struct
{
  const char *name;
  OrtrainDType dtype;
  const gint64 *dims;
  guint rank;
} OrtrainUpdateParameter;

OrtrainUpdateSet *ortrain_update_set_new (OrtrainOptimizer *optimizer, const OrtrainProvider *provider,
                                          const OrtrainUpdateParameter *parameters, guint n_parameters, GError **error);
void ortrain_update_set_free (OrtrainUpdateSet *self);

OrtrainOptimizer *ortrain_update_set_get_optimizer (OrtrainUpdateSet *self); /* transfer none */
/* Whether a method of a class from outside of the library makes the updates, which may fail half way. */
gboolean ortrain_update_set_is_custom (OrtrainUpdateSet *self);
guint ortrain_update_set_get_n_states (OrtrainUpdateSet *self);
const char *ortrain_update_set_get_state_name (OrtrainUpdateSet *self, guint state); /* "exp_avg" */
gsize ortrain_update_set_get_state_bytes (OrtrainUpdateSet *self, guint parameter);

/* Tells the addresses of parameter i; states: [n_states]. All parameters must be placed before norm or run. */
gboolean ortrain_update_set_place (OrtrainUpdateSet *self, guint parameter, gpointer address, gpointer gradient,
                                   gpointer const *states, GError **error);
/* Fills the states of all parameters with what they start with. */
void ortrain_update_set_reset_states (OrtrainUpdateSet *self);

/* The Euclidean norm of all gradients together. Not finite when any gradient is not. */
double ortrain_update_set_norm (OrtrainUpdateSet *self, const OrtrainKernelContext *context);

/* Moves all parameters. step counts from 1; factor: of the schedule, on the learning rate. Checked before anything is
 * changed, for the library's own optimizers. */
gboolean ortrain_update_set_run (OrtrainUpdateSet *self, const OrtrainKernelContext *context, guint64 step,
                                 double factor, double gradient_scale, GError **error);

/* After a run of one of the library's own optimizers: the first parameter with numbers that are not finite, or -1. */
gint ortrain_update_set_find_broken (OrtrainUpdateSet *self);
/* What moved it in the last run, with the schedule and the group. */
double ortrain_update_set_get_learning_rate (OrtrainUpdateSet *self, guint parameter);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainUpdateSet, ortrain_update_set_free)
