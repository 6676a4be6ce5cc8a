/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "command.h"

/* "1,2,4": batch sizes, of at least 1 each, ascending or not. */
GArray *plan_batches_parse (const char *text, GError **error); /* of gint64 */

/* A table, or JSON: the memory of each batch without a budget, and within one (bytes, 0: none), and the largest batch
 * that fits the budget. */
gboolean plan_batches_print (OrtrainTrainingSession *session, OrtrainTensorDict *feeds, GArray *batches, guint64 budget,
                             gboolean json, GError **error);
