/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How much memory a session may take, and where values lie in it. */
#include "options/ortrain-session-options-class-private.h"

#include "core/ortrain-field-private.h"

/**
 * ortrain_session_options_get_device_memory_limit: (get-property device-memory-limit)
 * @self: options
 *
 * Gets how many bytes of the memory of the device the session may allocate; 0 for all there are.
 *
 * Returns: bytes, or 0
 */
guint64
ortrain_session_options_get_device_memory_limit (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->device_memory_limit;
}

/**
 * ortrain_session_options_set_device_memory_limit: (set-property device-memory-limit)
 * @self: options
 * @device_memory_limit: bytes, or 0
 *
 * Sets how many bytes of the memory of the device the session may allocate; 0 for all there are.
 */
void
ortrain_session_options_set_device_memory_limit (OrtrainSessionOptions *self, guint64 device_memory_limit)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_uint64 (self, ortrain_session_options_properties[PROP_DEVICE_MEMORY_LIMIT], device_memory_limit);
}

/**
 * ortrain_session_options_get_memory_budget: (get-property memory-budget)
 * @self: options
 *
 * Gets how many bytes a step of the session may hold; 0 for any number.
 *
 * Returns: bytes, or 0
 */
guint64
ortrain_session_options_get_memory_budget (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), 0);

  return self->memory_budget;
}

/**
 * ortrain_session_options_set_memory_budget: (set-property memory-budget)
 * @self: options
 * @memory_budget: bytes, or 0
 *
 * Sets how many bytes a step of the session may hold; 0 for any number.
 */
void
ortrain_session_options_set_memory_budget (OrtrainSessionOptions *self, guint64 memory_budget)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_uint64 (self, ortrain_session_options_properties[PROP_MEMORY_BUDGET], memory_budget);
}

/**
 * ortrain_session_options_get_memory_pattern: (get-property memory-pattern)
 * @self: options
 *
 * Gets whether the values of a step lie in one block of memory, as the plan has packed them.
 *
 * Returns: whether they do; otherwise they are allocated from an [class@Arena]
 */
gboolean
ortrain_session_options_get_memory_pattern (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), TRUE);

  return self->memory_pattern;
}

/**
 * ortrain_session_options_set_memory_pattern: (set-property memory-pattern)
 * @self: options
 * @memory_pattern: whether they do
 *
 * Sets whether the values of a step lie in one block of memory, as the plan has packed them.
 */
void
ortrain_session_options_set_memory_pattern (OrtrainSessionOptions *self, gboolean memory_pattern)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_session_options_properties[PROP_MEMORY_PATTERN], memory_pattern);
}

/**
 * ortrain_session_options_get_arena_config: (get-property arena-config)
 * @self: options
 *
 * Gets the options of the [class@Arena] of a session without a memory pattern.
 *
 * Returns: (nullable): options of the arena; %NULL for the default ones
 */
const char *
ortrain_session_options_get_arena_config (OrtrainSessionOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self), NULL);

  return self->arena_config;
}

/**
 * ortrain_session_options_set_arena_config: (set-property arena-config)
 * @self: options
 * @arena_config: (nullable): options of the arena; %NULL for the default ones
 *
 * Sets the options of the [class@Arena] of a session without a memory pattern. They are checked when a session is
 * created.
 */
void
ortrain_session_options_set_arena_config (OrtrainSessionOptions *self, const char *arena_config)
{
  g_return_if_fail (ORTRAIN_IS_SESSION_OPTIONS (self));

  ortrain_field_set_string (self, ortrain_session_options_properties[PROP_ARENA_CONFIG], arena_config);
}
