/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "command.h"

/* The settings of a training plan, from the command line. */
typedef struct
{
  char *batch, *immediate, *precision, *state, *budget_text, *config, *offload, *output, *loss; /* as typed, or NULL */
  char **dims;
  gint seq, level, axis; /* G_MININT, -1, G_MININT: not given */
  char **stop_gradient;
  gboolean allow_links;
  GArray *batches; /* of gint64, from batch; or NULL */
  guint64 budget;  /* bytes, 0: any number */
} PlanSettings;

#define PLAN_SETTINGS_INIT                                                                                             \
  {                                                                                                                    \
    .seq = G_MININT, .level = -1, .axis = G_MININT                                                                     \
  }
#define PLAN_SETTINGS_ENTRIES(settings)                                                                                \
  { "batch",                                                                                                           \
    'b',                                                                                                               \
    0,                                                                                                                 \
    G_OPTION_ARG_STRING,                                                                                               \
    &(settings).batch,                                                                                                 \
    "Size of the first dimension of the inputs (1, or what the model takes); several print a table",                   \
    "N[,N...]" },                                                                                                      \
      { "seq",                                                                                                         \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_INT,                                                                                              \
        &(settings).seq,                                                                                               \
        "Size of their other dimensions that are not numbers (64, or the first of some sizes that the model takes)",   \
        "N" },                                                                                                         \
      { "dim",      0, 0, G_OPTION_ARG_STRING_ARRAY, &(settings).dims, "Size of one dimension that is not a number",   \
        "NAME=SIZE" },                                                                                                 \
      { "output", 0, 0, G_OPTION_ARG_STRING, &(settings).output, "Output that the loss is on (the first)", "NAME" },   \
      { "loss",                                                                                                        \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_STRING,                                                                                           \
        &(settings).loss,                                                                                              \
        "cross-entropy, mse, l1, huber, bce-with-logits, nll, output (cross-entropy)",                                 \
        "KIND" },                                                                                                      \
      { "immediate-updates",                                                                                           \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_STRING,                                                                                           \
        &(settings).immediate,                                                                                         \
        "Move parameters in the backward pass, keep no gradients: on, off, auto (auto)",                               \
        "WHEN" },                                                                                                      \
      { "memory-opt-level",                                                                                            \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_INT,                                                                                              \
        &(settings).level,                                                                                             \
        "Recompute in the backward pass: 0 what --memory-opt-config says, 1 layer by layer, 2 with compromises (0)",   \
        "N" },                                                                                                         \
      { "memory-opt-config",                                                                                           \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_STRING,                                                                                           \
        &(settings).config,                                                                                            \
        "Clusters to recompute, CLUSTER:STRATEGY:COUNT joined by commas, or a JSON file of them",                      \
        "PLANS" },                                                                                                     \
      { "optimizer-state", 0, 0, G_OPTION_ARG_STRING, &(settings).state, "f32, int8 (f32)", "NAME" },                  \
      { "precision", 0, 0, G_OPTION_ARG_STRING, &(settings).precision, "f32, bf16, fp16 (f32)", "NAME" },              \
      { "offload",                                                                                                     \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_STRING,                                                                                           \
        &(settings).offload,                                                                                           \
        "Meet the budget by values that leave the memory until the backward pass, too: on, off, auto (auto)",          \
        "WHEN" },                                                                                                      \
      COMMAND_AXIS_ENTRY ((settings).axis), COMMAND_STOP_GRADIENT_ENTRY ((settings).stop_gradient),                    \
      COMMAND_MODEL_ENTRIES ((settings).allow_links),                                                                  \
  {                                                                                                                    \
    "budget", 0, 0, G_OPTION_ARG_STRING, &(settings).budget_text,                                                      \
        "What a step may hold, like 1.5GiB (any number of bytes)", "BYTES"                                             \
  }

void plan_settings_clear (PlanSettings *self);
/* Reads the numbers in the given texts. */
gboolean plan_settings_check (PlanSettings *self, GError **error);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlanSettings, plan_settings_clear)

typedef struct
{
  OrtrainModel *model;
  OrtrainTrainingSession *session;
  OrtrainTensorDict *feeds;
  OrtrainMemoryPlan *plan;
} Planned;

/* The plan that `ortrain train` has with AdamW, for the first batch; of several, for the first that the model takes. */
gboolean planned_make (Planned *self, const char *path, const PlanSettings *settings, GError **error);
void planned_clear (Planned *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Planned, planned_clear)
