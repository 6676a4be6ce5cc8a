/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "transform/ortrain-plan-context-private.h"

/* The context of a session that is created now: ORTRAIN_DISABLE_PASSES, ORTRAIN_EXPAND and ORTRAIN_STREAMS are read
 * here, and nowhere else. Transfer full. */
OrtrainPlanContext *ortrain_options_make_plan_context (const OrtrainProvider *provider);
