/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "trainer/ortrain-epoch-record.h"

struct _OrtrainEpochRecord
{
  GObject parent_instance;

  guint epoch;
  double loss;
  double validation_loss;
  double metric;
  double learning_rate;
  double seconds;
  guint64 peak_bytes;
  guint64 skipped_updates;
  guint64 uncounted_steps;
  char **value_names; /* of metrics; NULL: none */
  double *values;
};
