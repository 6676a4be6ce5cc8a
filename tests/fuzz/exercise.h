/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

#define EXERCISE_RARITY 6 /* in fuzzing */

/* All that is done with a model: reading, looking at, checking, planning, running, training, exporting, checkpoints. */
typedef struct
{
  guint n_runs;  /* runs of the model that gave outputs */
  guint n_steps; /* training steps that succeeded */
  char *error;   /* the first message of all; NULL: none */
} Exercise;

/* The model is taken through the stages, each of which gives a result or an error. Shapes and elements of the inputs
 * are drawn: small numbers most of the time, and those at the edges of their types. rarity: a stage is left out but for
 * one run in so many, so that more models are tried in the same time; 1: all stages. */
void exercise_model (GBytes *bytes, GRand *random, guint rarity, Exercise *result);
void exercise_clear (Exercise *self);
