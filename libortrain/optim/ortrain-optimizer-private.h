/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer.h"
#include "tensor/ortrain-update-scalars-private.h"

/* How a built-in optimizer describes itself; read again before each step, so that its properties are live. */
typedef struct
{
  const char *op_type; /* of the update kernel; NULL: the class's update function moves one tensor at a time */
  double factors[ORTRAIN_UPDATE_N_FACTORS];
  double weight_decay;
  guint n_states;
  const char *state_names[ORTRAIN_UPDATE_MAX_STATES];
  double initial_states[ORTRAIN_UPDATE_MAX_STATES];
} OrtrainOptimizerDescription;

void ortrain_optimizer_describe (OrtrainOptimizer *self, OrtrainOptimizerDescription *description);
/* Of the states of a parameter: numbers of 16 bits would lose what is added up. */
OrtrainDType ortrain_optimizer_get_state_dtype (OrtrainDType parameter);
/* The last group that a parameter belongs to, or NULL. transfer none */
OrtrainParameterGroup *ortrain_optimizer_find_group (OrtrainOptimizer *self, const char *name);
/* Changes whenever groups are added. */
guint ortrain_optimizer_get_n_groups (OrtrainOptimizer *self);
