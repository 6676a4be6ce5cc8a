/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where values of a step lie, and which are computed again so that they need not be kept. */
#include "options/ortrain-training-options-class-private.h"

#include "core/ortrain-field-private.h"

/**
 * ortrain_training_options_get_memory_opt_level: (get-property memory-opt-level)
 * @self: options
 *
 * Gets how much is computed again in the backward pass.
 *
 * Returns: 0, 1 or 2
 */
guint
ortrain_training_options_get_memory_opt_level (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);
  return self->memory_opt_level;
}

/**
 * ortrain_training_options_set_memory_opt_level: (set-property memory-opt-level)
 * @self: options
 * @memory_opt_level: 0, 1 or 2
 *
 * Sets how much is computed again in the backward pass.
 */
void
ortrain_training_options_set_memory_opt_level (OrtrainTrainingOptions *self, guint memory_opt_level)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_uint (self, ortrain_training_options_properties[PROP_MEMORY_OPT_LEVEL], memory_opt_level);
}

/**
 * ortrain_training_options_get_memory_opt_config: (get-property memory-opt-config)
 * @self: options
 *
 * Gets which clusters are computed again in the backward pass.
 *
 * Returns: (nullable): plans, or the path of a file with some
 */
const char *
ortrain_training_options_get_memory_opt_config (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);
  return self->memory_opt_config;
}

/**
 * ortrain_training_options_set_memory_opt_config: (set-property memory-opt-config)
 * @self: options
 * @memory_opt_config: (nullable): plans, or the path of a file with some
 *
 * Sets which clusters are computed again in the backward pass. They are checked when a session is created.
 */
void
ortrain_training_options_set_memory_opt_config (OrtrainTrainingOptions *self, const char *memory_opt_config)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_string (self, ortrain_training_options_properties[PROP_MEMORY_OPT_CONFIG], memory_opt_config);
}

/**
 * ortrain_training_options_get_memory_pattern: (get-property memory-pattern)
 * @self: options
 *
 * Gets whether the values of a step lie in one block of memory, as the plan has packed them.
 *
 * Returns: whether they do; otherwise they are allocated from an [class@Arena]
 */
gboolean
ortrain_training_options_get_memory_pattern (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), TRUE);

  return self->memory_pattern;
}

/**
 * ortrain_training_options_set_memory_pattern: (set-property memory-pattern)
 * @self: options
 * @memory_pattern: whether they do
 *
 * Sets whether the values of a step lie in one block of memory, as the plan has packed them.
 */
void
ortrain_training_options_set_memory_pattern (OrtrainTrainingOptions *self, gboolean memory_pattern)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_training_options_properties[PROP_MEMORY_PATTERN], memory_pattern);
}

/**
 * ortrain_training_options_get_arena_config: (get-property arena-config)
 * @self: options
 *
 * Gets the options of the [class@Arena] of a session without a memory pattern.
 *
 * Returns: (nullable): options of the arena; %NULL for the default ones
 */
const char *
ortrain_training_options_get_arena_config (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return self->arena_config;
}

/**
 * ortrain_training_options_set_arena_config: (set-property arena-config)
 * @self: options
 * @arena_config: (nullable): options of the arena; %NULL for the default ones
 *
 * Sets the options of the [class@Arena] of a session without a memory pattern. They are checked when a session is
 * created.
 */
void
ortrain_training_options_set_arena_config (OrtrainTrainingOptions *self, const char *arena_config)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_string (self, ortrain_training_options_properties[PROP_ARENA_CONFIG], arena_config);
}

/**
 * ortrain_training_options_get_offload: (get-property offload)
 * @self: options
 *
 * Gets whether a budget may be met by offloading values.
 *
 * Returns: when it may
 *
 * Since: 1.0
 */
OrtrainOffload
ortrain_training_options_get_offload (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), ORTRAIN_OFFLOAD_AUTO);

  return self->offload;
}

/**
 * ortrain_training_options_set_offload: (set-property offload)
 * @self: options
 * @offload: when it may
 *
 * Sets whether a budget may be met by offloading values.
 *
 * Since: 1.0
 */
void
ortrain_training_options_set_offload (OrtrainTrainingOptions *self, OrtrainOffload offload)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_enum (self, ortrain_training_options_properties[PROP_OFFLOAD], (gint) offload);
}

/**
 * ortrain_training_options_get_offload_folder: (get-property offload-folder)
 * @self: options
 *
 * Gets where the CPU offloads values to.
 *
 * Returns: (nullable) (type filename): a folder; %NULL for the default
 *
 * Since: 1.0
 */
const char *
ortrain_training_options_get_offload_folder (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return self->offload_folder;
}

/**
 * ortrain_training_options_set_offload_folder: (set-property offload-folder)
 * @self: options
 * @offload_folder: (nullable) (type filename): a folder; %NULL for the default
 *
 * Sets where the CPU offloads values to. It is looked at by the first step that needs it.
 *
 * Since: 1.0
 */
void
ortrain_training_options_set_offload_folder (OrtrainTrainingOptions *self, const char *offload_folder)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_string (self, ortrain_training_options_properties[PROP_OFFLOAD_FOLDER], offload_folder);
}
