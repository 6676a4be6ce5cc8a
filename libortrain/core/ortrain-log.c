/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-log-private.h"

static const char *const domains[ORTRAIN_N_LOG_STAGES] = {
  [ORTRAIN_LOG_LOAD] = "ortrain-load",
  [ORTRAIN_LOG_PASS] = "ortrain-pass",
  [ORTRAIN_LOG_PLAN] = "ortrain-plan",
  [ORTRAIN_LOG_STEP] = "ortrain-step",
  [ORTRAIN_LOG_CHECKPOINT] = "ortrain-checkpoint",
};

gboolean
ortrain_log_is_wanted (OrtrainLogStage stage)
{
  return !g_log_writer_default_would_drop (G_LOG_LEVEL_DEBUG, domains[stage]);
}

void
ortrain_log_write (OrtrainLogStage stage, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_log_structured (domains[stage], G_LOG_LEVEL_DEBUG, "MESSAGE", "%s", message);
}
