/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "options/ortrain-session-options.h"

/* The fields and properties of OrtrainSessionOptions, for the files of the class alone. */

struct _OrtrainSessionOptions
{
  GObject parent_instance;

  guint threads;
  guint64 seed;
  gboolean deterministic;
  gboolean optimize;
  gboolean print_memory;
  char *provider; /* NULL: the best there is */
  guint device_index;
  guint max_plans;
  char **outputs; /* NULL: all */
  OrtrainPrecision precision;
  guint64 device_memory_limit; /* 0: none */
  guint64 memory_budget;       /* 0: none */
  OrtrainConvAlgoSearch cudnn_conv_algo_search;
  gboolean allow_tf32;
  gboolean memory_pattern;
  char *arena_config; /* NULL: the defaults */
};

enum
{
  PROP_0,
  PROP_THREADS,
  PROP_SEED,
  PROP_DETERMINISTIC,
  PROP_OPTIMIZE,
  PROP_PRINT_MEMORY,
  PROP_PROVIDER,
  PROP_DEVICE_INDEX,
  PROP_MAX_PLANS,
  PROP_OUTPUTS,
  PROP_PRECISION,
  PROP_DEVICE_MEMORY_LIMIT,
  PROP_MEMORY_BUDGET,
  PROP_CUDNN_CONV_ALGO_SEARCH,
  PROP_ALLOW_TF32,
  PROP_MEMORY_PATTERN,
  PROP_ARENA_CONFIG,
  N_PROPERTIES
};

extern GParamSpec *ortrain_session_options_properties[N_PROPERTIES];
