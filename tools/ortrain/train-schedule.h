/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

/* What --schedule and --warm-up of `ortrain train` name. */

/* "100" updates, or "2epochs", in which case n_updates is 0 for now. */
gboolean train_schedule_parse_warm_up (const char *text, gint64 *n_updates, double *n_epochs);
/* warm_up: steps; -1: what the schedule has by itself */
OrtrainLrSchedule *train_schedule_make (const char *name, guint64 n_steps, gint64 warm_up, GError **error);
