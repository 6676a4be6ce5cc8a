/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-abi/ortrain-update-scalars-private.h"
#include "optim/ortrain-optimizer.h"
#include "tensor/ortrain-tensor-private.h"

/* How a built-in optimizer describes itself; read again before each step, so that its properties are live. */
typedef struct
{
  const char *op_type; /* of the update kernel; NULL: the class's update function moves one tensor at a time */
  double factors[ORTRAIN_UPDATE_N_FACTORS];
  double weight_decay;
  guint n_states;
  const char *state_names[ORTRAIN_UPDATE_MAX_STATES];
  double initial_states[ORTRAIN_UPDATE_MAX_STATES];
  gboolean states_only_grow; /* by steps that 8 bits would not show */
  OrtrainStatePrecision state_precision;
} OrtrainOptimizerDescription;

void ortrain_optimizer_describe (OrtrainOptimizer *self, OrtrainOptimizerDescription *description);
/* Whether the optimizer can keep its state as its property says. ORTRAIN_SESSION_ERROR_OPTION */
gboolean ortrain_optimizer_check_state_precision (OrtrainOptimizer *self, GError **error);

/* The form of the states of a parameter: numbers in its shape, or blocks of 8 bits
 * (kernel-abi/ortrain-update-scalars-private.h). */
typedef struct
{
  OrtrainDType dtype; /* UINT8: blocks */
  gint64 dims[ORTRAIN_MAX_RANK];
  guint rank;
  gint64 n_elements;
} OrtrainStateForm;

/* dims: [rank], with n elements */
void ortrain_state_form_init (OrtrainStateForm *self, OrtrainStatePrecision precision, OrtrainDType parameter,
                              const gint64 *dims, guint rank, gint64 n);
/* scoped_name: or NULL, see graph/ortrain-scoped-name-private.h */
gboolean ortrain_parameter_group_fits (OrtrainParameterGroup *self, const char *name, const char *scoped_name);
/* The last group that a parameter belongs to, or NULL. transfer none */
OrtrainParameterGroup *ortrain_optimizer_find_group (OrtrainOptimizer *self, const char *name, const char *scoped_name);
/* Changes whenever groups are added. */
guint ortrain_optimizer_get_n_groups (OrtrainOptimizer *self);
