/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "command.h"

/* The time of a step by the roofline model: each kernel call takes as long as its floating-point operations or its
 * bytes, whichever takes longer at the speed that a device reaches, and a launch. A table of the operators, or JSON.
 *
 * device: a name (h100), or a JSON file; profile: a file that `ortrain bench --profile` has written for the same plan,
 * or NULL; n_samples: of a step, 0: not known. */
gboolean plan_roofline_print (OrtrainMemoryPlan *plan, const char *device, const char *profile, gint64 n_samples,
                              gboolean json, GError **error);
