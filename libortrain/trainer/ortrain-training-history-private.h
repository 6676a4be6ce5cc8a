/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-object-list-private.h"
#include "trainer/ortrain-epoch-record-private.h"
#include "trainer/ortrain-monitor-private.h"
#include "trainer/ortrain-training-history.h"

struct _OrtrainTrainingHistory
{
  GObject parent_instance;

  GListModel *epochs; /* an OrtrainObjectList of OrtrainEpochRecord */
  guint64 n_steps;
  OrtrainMonitor monitor; /* which epoch is the best */
  gboolean stopped_early;
  double seconds;
  GArray *losses; /* of double: each step's */
};
