/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_MEMORY_STEP (ortrain_memory_step_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainMemoryStep, ortrain_memory_step, ORTRAIN, MEMORY_STEP, GObject)

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_step_get_node (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_step_get_operator (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_step_get_phase (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_step_get_stream (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDType ortrain_memory_step_get_dtype (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_memory_step_get_live_bytes (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_memory_step_get_flops (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_memory_step_get_bytes_moved (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_memory_step_get_milliseconds (OrtrainMemoryStep *self);
ORTRAIN_AVAILABLE_IN_ALL
gint ortrain_memory_step_get_recomputes (OrtrainMemoryStep *self);

G_END_DECLS
