/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "plan-settings.h"

/* Prints the differences between two plans. a, b: a model, a model followed by options of its own ("m.onnx --batch 4"),
 * or a file that `ortrain plan --json` has printed; settings: for both, where they have no options of their own. */
gboolean plan_compare_print (const PlanSettings *settings, const char *a, const char *b, gboolean json, GError **error);
