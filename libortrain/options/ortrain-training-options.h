/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"
#include "optim/ortrain-loss-scaler.h"
#include "optim/ortrain-lr-schedule.h"
#include "optim/ortrain-optimizer.h"
#include "options/ortrain-precision.h"
#include "provider/ortrain-conv-algo-search.h"

G_BEGIN_DECLS

/**
 * OrtrainBatchNormMode:
 * @ORTRAIN_BATCH_NORM_MODE_TRAIN: the statistics of the batch are used, and the stored ones are updated
 * @ORTRAIN_BATCH_NORM_MODE_FROZEN: the stored statistics are used and stay; scale and bias are trained
 *
 * The behaviour of batch normalisation while training, whether the file was written in training form or not. An
 * evaluation uses the stored statistics.
 */
typedef enum
{
  ORTRAIN_BATCH_NORM_MODE_TRAIN,
  ORTRAIN_BATCH_NORM_MODE_FROZEN,
} OrtrainBatchNormMode;

/**
 * OrtrainImmediateUpdates:
 * @ORTRAIN_IMMEDIATE_UPDATES_OFF: gradients are kept until the update
 * @ORTRAIN_IMMEDIATE_UPDATES_ON: updates are immediate wherever they can be
 * @ORTRAIN_IMMEDIATE_UPDATES_AUTO: on in [method@Trainer.fit] and `ortrain train`, where nothing else wants the
 *   gradients and they would take memory that counts, and off for whoever runs steps himself
 *
 * When parameters move, see [property@TrainingOptions:immediate-updates].
 */
typedef enum
{
  ORTRAIN_IMMEDIATE_UPDATES_OFF,
  ORTRAIN_IMMEDIATE_UPDATES_ON,
  ORTRAIN_IMMEDIATE_UPDATES_AUTO,
} OrtrainImmediateUpdates;

/**
 * OrtrainOffload:
 * @ORTRAIN_OFFLOAD_OFF: values stay in the memory of a step
 * @ORTRAIN_OFFLOAD_ON: a budget may be met by offloading, on every device
 * @ORTRAIN_OFFLOAD_AUTO: on where the device has memory of its own, off on the CPU, where values go to a disk
 *
 * Whether values may leave the memory of a step until the backward pass reads them, see
 * [property@TrainingOptions:offload].
 *
 * Since: 1.0
 */
typedef enum
{
  ORTRAIN_OFFLOAD_OFF,
  ORTRAIN_OFFLOAD_ON,
  ORTRAIN_OFFLOAD_AUTO,
} OrtrainOffload;

#define ORTRAIN_TYPE_TRAINING_OPTIONS (ortrain_training_options_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTrainingOptions, ortrain_training_options, ORTRAIN, TRAINING_OPTIONS, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainingOptions *ortrain_training_options_new (void);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainOptimizer *ortrain_training_options_get_optimizer (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_optimizer (OrtrainTrainingOptions *self, OrtrainOptimizer *optimizer);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_training_options_get_schedule (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_schedule (OrtrainTrainingOptions *self, OrtrainLrSchedule *schedule);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_options_get_max_grad_norm (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_max_grad_norm (OrtrainTrainingOptions *self, double max_grad_norm);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainBatchNormMode ortrain_training_options_get_batch_norm (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_batch_norm (OrtrainTrainingOptions *self, OrtrainBatchNormMode batch_norm);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_training_options_get_accumulation_steps (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_accumulation_steps (OrtrainTrainingOptions *self, guint accumulation_steps);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_training_options_get_threads (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_threads (OrtrainTrainingOptions *self, guint threads);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_options_get_seed (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_seed (OrtrainTrainingOptions *self, guint64 seed);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_options_get_deterministic (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_deterministic (OrtrainTrainingOptions *self, gboolean deterministic);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_options_get_stop_on_nan (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_stop_on_nan (OrtrainTrainingOptions *self, gboolean stop_on_nan);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_options_get_print_memory (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_print_memory (OrtrainTrainingOptions *self, gboolean print_memory);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_training_options_get_provider (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_provider (OrtrainTrainingOptions *self, const char *provider);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainImmediateUpdates ortrain_training_options_get_immediate_updates (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_immediate_updates (OrtrainTrainingOptions *self,
                                                     OrtrainImmediateUpdates immediate_updates);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_training_options_get_rank (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_rank (OrtrainTrainingOptions *self, guint rank);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_options_get_device_memory_limit (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_options_get_memory_budget (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_device_memory_limit (OrtrainTrainingOptions *self, guint64 device_memory_limit);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_memory_budget (OrtrainTrainingOptions *self, guint64 memory_budget);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainConvAlgoSearch ortrain_training_options_get_cudnn_conv_algo_search (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_cudnn_conv_algo_search (OrtrainTrainingOptions *self,
                                                          OrtrainConvAlgoSearch cudnn_conv_algo_search);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_options_get_memory_pattern (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_memory_pattern (OrtrainTrainingOptions *self, gboolean memory_pattern);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_training_options_get_arena_config (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_arena_config (OrtrainTrainingOptions *self, const char *arena_config);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainOffload ortrain_training_options_get_offload (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_offload (OrtrainTrainingOptions *self, OrtrainOffload offload);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_training_options_get_offload_folder (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_offload_folder (OrtrainTrainingOptions *self, const char *offload_folder);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_training_options_get_memory_opt_level (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_memory_opt_level (OrtrainTrainingOptions *self, guint memory_opt_level);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_training_options_get_memory_opt_config (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_memory_opt_config (OrtrainTrainingOptions *self, const char *memory_opt_config);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_training_options_get_device_index (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_device_index (OrtrainTrainingOptions *self, guint device_index);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_options_get_allow_tf32 (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_allow_tf32 (OrtrainTrainingOptions *self, gboolean allow_tf32);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainPrecision ortrain_training_options_get_precision (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_precision (OrtrainTrainingOptions *self, OrtrainPrecision precision);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_options_get_master_weights (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_master_weights (OrtrainTrainingOptions *self, gboolean master_weights);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainLossScaler *ortrain_training_options_get_loss_scaler (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_loss_scaler (OrtrainTrainingOptions *self, OrtrainLossScaler *loss_scaler);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_node_precision (OrtrainTrainingOptions *self, const char *pattern,
                                                  OrtrainPrecision precision);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainingOptions *ortrain_training_options_new_from_file (const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_options_load_file (OrtrainTrainingOptions *self, const char *path, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_add_loss (OrtrainTrainingOptions *self, OrtrainLoss *loss);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_training_options_get_losses (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_training_options_get_trainable (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_trainable (OrtrainTrainingOptions *self, const char *const *patterns);
ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_training_options_get_frozen (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_frozen (OrtrainTrainingOptions *self, const char *const *patterns);
ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_training_options_get_trainable_statistics (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_trainable_statistics (OrtrainTrainingOptions *self, const char *const *patterns);
ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_training_options_get_frozen_statistics (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_frozen_statistics (OrtrainTrainingOptions *self, const char *const *patterns);
ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_training_options_get_stop_gradient (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_stop_gradient (OrtrainTrainingOptions *self, const char *const *patterns);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_set_padding_row (OrtrainTrainingOptions *self, const char *name, gint64 row);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_options_get_padding_row (OrtrainTrainingOptions *self, const char *name, gint64 *row);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_options_tie (OrtrainTrainingOptions *self, const char *first, const char *second);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_training_options_get_n_ties (OrtrainTrainingOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_training_options_get_tie (OrtrainTrainingOptions *self, guint index, const char **second);

G_END_DECLS
