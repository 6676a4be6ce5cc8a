/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Debug messages, with a log domain for each stage: G_MESSAGES_DEBUG=ortrain-plan shows the choices of the planner,
 * "all" shows every stage. A message is formatted only if somebody listens. Any thread. */
typedef enum
{
  ORTRAIN_LOG_LOAD,       /* "ortrain-load": reading models */
  ORTRAIN_LOG_PASS,       /* "ortrain-pass": graph passes */
  ORTRAIN_LOG_PLAN,       /* "ortrain-plan": plans, and choices of a budget */
  ORTRAIN_LOG_STEP,       /* "ortrain-step": training steps and updates */
  ORTRAIN_LOG_CHECKPOINT, /* "ortrain-checkpoint": saving and loading */
  ORTRAIN_N_LOG_STAGES,
} OrtrainLogStage;

gboolean ortrain_log_is_wanted (OrtrainLogStage stage);
void ortrain_log_write (OrtrainLogStage stage, const char *format, ...) G_GNUC_PRINTF (2, 3);

#define ORTRAIN_LOG(stage, ...)                                                                                        \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    if (G_UNLIKELY (ortrain_log_is_wanted (stage)))                                                                    \
      ortrain_log_write (stage, __VA_ARGS__);                                                                          \
  }                                                                                                                    \
  G_STMT_END
