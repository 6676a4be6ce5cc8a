/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

#include <glib-object.h>

G_BEGIN_DECLS

#define ORTRAIN_TYPE_LOSS_SCALER (ortrain_loss_scaler_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainLossScaler, ortrain_loss_scaler, ORTRAIN, LOSS_SCALER, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLossScaler *ortrain_loss_scaler_new (void);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainLossScaler *ortrain_loss_scaler_new_static (double scale);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_loss_scaler_get_dynamic (OrtrainLossScaler *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_scaler_set_dynamic (OrtrainLossScaler *self, gboolean dynamic);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_loss_scaler_get_initial_scale (OrtrainLossScaler *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_scaler_set_initial_scale (OrtrainLossScaler *self, double initial_scale);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_loss_scaler_get_growth_factor (OrtrainLossScaler *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_scaler_set_growth_factor (OrtrainLossScaler *self, double growth_factor);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_loss_scaler_get_growth_interval (OrtrainLossScaler *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_scaler_set_growth_interval (OrtrainLossScaler *self, guint growth_interval);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_loss_scaler_get_hysteresis (OrtrainLossScaler *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_scaler_set_hysteresis (OrtrainLossScaler *self, guint hysteresis);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_loss_scaler_get_backoff_factor (OrtrainLossScaler *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_scaler_set_backoff_factor (OrtrainLossScaler *self, double backoff_factor);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_loss_scaler_get_minimum_scale (OrtrainLossScaler *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_scaler_set_minimum_scale (OrtrainLossScaler *self, double minimum_scale);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_loss_scaler_get_maximum_scale (OrtrainLossScaler *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_scaler_set_maximum_scale (OrtrainLossScaler *self, double maximum_scale);

G_END_DECLS
