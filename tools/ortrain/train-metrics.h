/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

/* The metrics that --metric and --monitor of `ortrain train` name. */

/* "top5", "f1", "micro_recall", "mae"; NULL if there is no such metric. */
OrtrainMetric *train_metrics_make (const char *name, const char *output, const char *target);
/* Takes the confusion matrix, which is not a number, out of the names; whether it was there. names: or NULL */
gboolean train_metrics_take_confusion (char **names);
gboolean train_metrics_check (char **names, GError **error);
/* The name in epoch records of the value that --monitor names. A metric is added to the names if it is not one of
 * them. */
char *train_metrics_choose_monitor (const char *name, char ***metrics, GError **error);
