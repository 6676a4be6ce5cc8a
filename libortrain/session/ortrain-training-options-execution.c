/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where and how the kernels of a session run, and what is reported about it. */
#include "session/ortrain-training-options-class-private.h"

#include "core/ortrain-field-private.h"

/**
 * ortrain_training_options_get_threads: (get-property threads)
 * @self: the object
 *
 * Gets how many threads kernels run on; 0 for one per core that the process may use.
 *
 * Returns: the value
 */
guint
ortrain_training_options_get_threads (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);
  return self->threads;
}

/**
 * ortrain_training_options_set_threads: (set-property threads)
 * @self: the object
 * @threads: the new value
 *
 * Sets how many threads kernels run on; 0 for one per core that the process may use.
 */
void
ortrain_training_options_set_threads (OrtrainTrainingOptions *self, guint threads)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_uint (self, ortrain_training_options_properties[PROP_THREADS], threads);
}

/**
 * ortrain_training_options_get_seed: (get-property seed)
 * @self: the object
 *
 * Gets what all random numbers depend on, such as those of dropout.
 *
 * Returns: the value
 */
guint64
ortrain_training_options_get_seed (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);
  return self->seed;
}

/**
 * ortrain_training_options_set_seed: (set-property seed)
 * @self: the object
 * @seed: the new value
 *
 * Sets what all random numbers depend on, such as those of dropout.
 */
void
ortrain_training_options_set_seed (OrtrainTrainingOptions *self, guint64 seed)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_uint64 (self, ortrain_training_options_properties[PROP_SEED], seed);
}

/**
 * ortrain_training_options_get_deterministic: (get-property deterministic)
 * @self: the object
 *
 * Gets whether results have the same bits at any number of threads, at a small cost.
 *
 * Returns: the value
 */
gboolean
ortrain_training_options_get_deterministic (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), FALSE);
  return self->deterministic;
}

/**
 * ortrain_training_options_set_deterministic: (set-property deterministic)
 * @self: the object
 * @deterministic: the new value
 *
 * Sets whether results have the same bits at any number of threads, at a small cost.
 */
void
ortrain_training_options_set_deterministic (OrtrainTrainingOptions *self, gboolean deterministic)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_training_options_properties[PROP_DETERMINISTIC], deterministic);
}

/**
 * ortrain_training_options_get_print_memory: (get-property print-memory)
 * @self: the object
 *
 * Gets whether a line about memory is logged, in the log domain `Ortrain-Memory`, at every phase of the steps below 10
 * and of those that are powers of two.
 *
 * Returns: the value
 */
gboolean
ortrain_training_options_get_print_memory (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), FALSE);
  return self->print_memory;
}

/**
 * ortrain_training_options_set_print_memory: (set-property print-memory)
 * @self: the object
 * @print_memory: the new value
 *
 * Sets whether a line about memory is logged, in the log domain `Ortrain-Memory`, at every phase of the steps below 10
 * and of those that are powers of two.
 */
void
ortrain_training_options_set_print_memory (OrtrainTrainingOptions *self, gboolean print_memory)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_training_options_properties[PROP_PRINT_MEMORY], print_memory);
}

/**
 * ortrain_training_options_get_provider: (get-property provider)
 * @self: options
 *
 * Gets the name of the device that the session runs on, one of [func@Device.list]; %NULL or `auto` for the available
 * one with the highest score.
 *
 * Returns: (nullable): the name of the device
 */
const char *
ortrain_training_options_get_provider (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);

  return self->provider;
}

/**
 * ortrain_training_options_set_provider: (set-property provider)
 * @self: options
 * @provider: (nullable): the name of the device
 *
 * Sets the name of the device that the session runs on, one of [func@Device.list]; %NULL or `auto` for the available
 * one with the highest score.
 */
void
ortrain_training_options_set_provider (OrtrainTrainingOptions *self, const char *provider)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_string (self, ortrain_training_options_properties[PROP_PROVIDER], provider);
}

/**
 * ortrain_training_options_get_rank: (get-property rank)
 * @self: the object
 *
 * Gets the number of this process among those that train together; reports have it, and only rank 0 prints the memory
 * line.
 *
 * Returns: the value
 */
guint
ortrain_training_options_get_rank (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);
  return self->rank;
}

/**
 * ortrain_training_options_set_rank: (set-property rank)
 * @self: the object
 * @rank: the new value
 *
 * Sets the number of this process among those that train together; reports have it, and only rank 0 prints the memory
 * line.
 */
void
ortrain_training_options_set_rank (OrtrainTrainingOptions *self, guint rank)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_uint (self, ortrain_training_options_properties[PROP_RANK], rank);
}
