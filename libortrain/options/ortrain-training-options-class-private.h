/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-object-list-private.h"
#include "options/ortrain-training-options.h"

/* The fields and properties of OrtrainTrainingOptions, for the files of the class alone. */

struct _OrtrainTrainingOptions
{
  GObject parent_instance;
  OrtrainOptimizer *optimizer;
  OrtrainLrSchedule *schedule;
  double max_grad_norm;
  OrtrainBatchNormMode batch_norm;
  guint accumulation_steps;
  guint threads;
  guint64 seed;
  gboolean deterministic;
  gboolean stop_on_nan;
  gboolean print_memory;
  char *provider; /* NULL: the best there is */
  guint device_index;
  OrtrainImmediateUpdates immediate_updates;
  guint rank;
  guint64 device_memory_limit; /* 0: none */
  guint64 memory_budget;       /* 0: none */
  gboolean memory_pattern;
  char *arena_config; /* NULL: the defaults */
  OrtrainConvAlgoSearch cudnn_conv_algo_search;
  gboolean allow_tf32;
  OrtrainOffload offload;
  char *offload_folder; /* NULL: the default */
  guint memory_opt_level;
  char *memory_opt_config; /* NULL: nothing */
  OrtrainPrecision precision;
  gboolean master_weights;
  OrtrainLossScaler *loss_scaler; /* NULL: a dynamic one where it is needed */
  OrtrainObjectList *losses;      /* of OrtrainLoss */
  char **trainable;               /* NULL: all */
  char **frozen;
  char **trainable_statistics, **frozen_statistics; /* NULL: none */
  char **stop_gradient;
  GHashTable *padding_rows; /* name → gint64 * */
  GPtrArray *ties;          /* of char *: first, second, first, second, … */
  GArray *node_precisions;  /* of OrtrainNodePrecision */
};

enum
{
  PROP_0,
  PROP_OPTIMIZER,
  PROP_SCHEDULE,
  PROP_MAX_GRAD_NORM,
  PROP_BATCH_NORM,
  PROP_ACCUMULATION_STEPS,
  PROP_THREADS,
  PROP_SEED,
  PROP_DETERMINISTIC,
  PROP_STOP_ON_NAN,
  PROP_PRINT_MEMORY,
  PROP_PROVIDER,
  PROP_DEVICE_INDEX,
  PROP_IMMEDIATE_UPDATES,
  PROP_RANK,
  PROP_DEVICE_MEMORY_LIMIT,
  PROP_MEMORY_BUDGET,
  PROP_MEMORY_PATTERN,
  PROP_ARENA_CONFIG,
  PROP_CUDNN_CONV_ALGO_SEARCH,
  PROP_ALLOW_TF32,
  PROP_OFFLOAD,
  PROP_OFFLOAD_FOLDER,
  PROP_MEMORY_OPT_LEVEL,
  PROP_MEMORY_OPT_CONFIG,
  PROP_PRECISION,
  PROP_MASTER_WEIGHTS,
  PROP_LOSS_SCALER,
  PROP_LOSSES,
  PROP_TRAINABLE,
  PROP_FROZEN,
  PROP_TRAINABLE_STATISTICS,
  PROP_FROZEN_STATISTICS,
  PROP_STOP_GRADIENT,
  N_PROPERTIES
};

extern GParamSpec *ortrain_training_options_properties[N_PROPERTIES];
