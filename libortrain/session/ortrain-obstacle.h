/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_OBSTACLE (ortrain_obstacle_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainObstacle, ortrain_obstacle, ORTRAIN, OBSTACLE, GObject)

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_obstacle_get_node (OrtrainObstacle *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_obstacle_get_operator (OrtrainObstacle *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_obstacle_get_domain (OrtrainObstacle *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_obstacle_get_opset (OrtrainObstacle *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_obstacle_get_dtype (OrtrainObstacle *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_obstacle_get_device (OrtrainObstacle *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_obstacle_get_reason (OrtrainObstacle *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_obstacle_get_way_out (OrtrainObstacle *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_obstacle_to_string (OrtrainObstacle *self);

G_END_DECLS
