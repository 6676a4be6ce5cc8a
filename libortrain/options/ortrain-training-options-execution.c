/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where and how the kernels of a session run, and reports about it. */
#include "options/ortrain-training-options-class-private.h"

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
 * Gets the seed of all random numbers, including those of dropout.
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
 * Sets the seed of all random numbers, including those of dropout.
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

/**
 * ortrain_training_options_get_device_memory_limit: (get-property device-memory-limit)
 * @self: options
 *
 * Gets how many bytes of the memory of the device the session may allocate; 0 for all there are.
 *
 * Returns: bytes, or 0
 */
guint64
ortrain_training_options_get_device_memory_limit (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);

  return self->device_memory_limit;
}

/**
 * ortrain_training_options_set_device_memory_limit: (set-property device-memory-limit)
 * @self: options
 * @device_memory_limit: bytes, or 0
 *
 * Sets how many bytes of the memory of the device the session may allocate; 0 for all there are.
 */
void
ortrain_training_options_set_device_memory_limit (OrtrainTrainingOptions *self, guint64 device_memory_limit)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_uint64 (self, ortrain_training_options_properties[PROP_DEVICE_MEMORY_LIMIT], device_memory_limit);
}

/**
 * ortrain_training_options_get_memory_budget: (get-property memory-budget)
 * @self: options
 *
 * Gets how many bytes a step of the session may hold; 0 for any number.
 *
 * Returns: bytes, or 0
 */
guint64
ortrain_training_options_get_memory_budget (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);

  return self->memory_budget;
}

/**
 * ortrain_training_options_set_memory_budget: (set-property memory-budget)
 * @self: options
 * @memory_budget: bytes, or 0
 *
 * Sets how many bytes a step of the session may hold; 0 for any number.
 */
void
ortrain_training_options_set_memory_budget (OrtrainTrainingOptions *self, guint64 memory_budget)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_uint64 (self, ortrain_training_options_properties[PROP_MEMORY_BUDGET], memory_budget);
}

/**
 * ortrain_training_options_get_cudnn_conv_algo_search: (get-property cudnn-conv-algo-search)
 * @self: options
 *
 * Gets how the algorithm of a convolution is chosen where cuDNN computes it.
 *
 * Returns: the way of choosing
 */
OrtrainConvAlgoSearch
ortrain_training_options_get_cudnn_conv_algo_search (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC);

  return self->cudnn_conv_algo_search;
}

/**
 * ortrain_training_options_set_cudnn_conv_algo_search: (set-property cudnn-conv-algo-search)
 * @self: options
 * @cudnn_conv_algo_search: the way of choosing
 *
 * Sets how the algorithm of a convolution is chosen where cuDNN computes it.
 */
void
ortrain_training_options_set_cudnn_conv_algo_search (OrtrainTrainingOptions *self,
                                                     OrtrainConvAlgoSearch cudnn_conv_algo_search)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_enum (self, ortrain_training_options_properties[PROP_CUDNN_CONV_ALGO_SEARCH],
                          (gint) cudnn_conv_algo_search);
}

/**
 * ortrain_training_options_get_allow_tf32: (get-property allow-tf32)
 * @self: options
 *
 * Gets whether products and convolutions of float32 may round their operands to TF32.
 *
 * Returns: whether they may
 */
gboolean
ortrain_training_options_get_allow_tf32 (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), FALSE);

  return self->allow_tf32;
}

/**
 * ortrain_training_options_set_allow_tf32: (set-property allow-tf32)
 * @self: options
 * @allow_tf32: whether they may
 *
 * Sets whether products and convolutions of float32 may round their operands to TF32.
 */
void
ortrain_training_options_set_allow_tf32 (OrtrainTrainingOptions *self, gboolean allow_tf32)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_training_options_properties[PROP_ALLOW_TF32], allow_tf32);
}

/**
 * ortrain_training_options_get_device_index: (get-property device-index)
 * @self: options
 *
 * Gets which of the provider's devices is used.
 *
 * Returns: its number, 0 for the first
 *
 * Since: 1.0
 */
guint
ortrain_training_options_get_device_index (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), 0);

  return self->device_index;
}

/**
 * ortrain_training_options_set_device_index: (set-property device-index)
 * @self: options
 * @device_index: its number, 0 for the first
 *
 * Sets which of the provider's devices is used.
 *
 * Since: 1.0
 */
void
ortrain_training_options_set_device_index (OrtrainTrainingOptions *self, guint device_index)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_uint (self, ortrain_training_options_properties[PROP_DEVICE_INDEX], device_index);
}
