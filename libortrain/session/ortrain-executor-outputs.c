/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "session/ortrain-executor-parts-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

static gboolean
is_output_for_user (const OrtrainExecutorOutput *output)
{
  return output->role != ORTRAIN_ROLE_GRADIENT && output->role != ORTRAIN_ROLE_UPDATE;
}

static OrtrainTensor *
new_output_tensor (const OrtrainPlanValue *value, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_value_get_static_dims (value->value, dims);
  OrtrainTensor *tensor =
      ortrain_tensor_new_uninitialized (value->value->dtype, dims, (gsize) value->value->rank, error);
  if (tensor == NULL)
    g_prefix_error (error, "Output '%s': ", ortrain_text_show (value->value->name));
  return tensor;
}

static gboolean
output_fits (const OrtrainPlanValue *value, const char *name, OrtrainTensor *tensor, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  gsize rank = (gsize) value->value->rank;
  ortrain_value_get_static_dims (value->value, dims);
  gboolean same = ortrain_tensor_get_dtype (tensor) == value->value->dtype &&
                  ortrain_tensor_get_rank (tensor) == rank &&
                  (rank == 0 || memcmp (dims, ortrain_tensor_peek_dims (tensor), rank * sizeof (gint64)) == 0);
  if (!same)
    {
      g_autofree char *wanted = ortrain_shape_to_string (dims, rank);
      g_autofree char *found =
          ortrain_shape_to_string (ortrain_tensor_peek_dims (tensor), ortrain_tensor_get_rank (tensor));
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "Output '%s' is %s %s, the tensor bound to it is %s %s", ortrain_text_show (name),
                   ortrain_dtype_get_name (value->value->dtype), wanted,
                   ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)), found);
      return FALSE;
    }
  if (ortrain_tensor_get_n_bytes (tensor) > 0 && !ortrain_tensor_get_writable (tensor))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED,
                   "Output '%s': the tensor bound to it was released, or may not be written", ortrain_text_show (name));
      return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_executor_place_outputs (OrtrainExecutor *self, GError **error)
{
  OrtrainExecutorEntry *entry = self->current;
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (entry->plan, NULL);
  for (guint k = 0; k < self->n_outputs; k++)
    {
      OrtrainExecutorOutput *output = &self->outputs[k];
      guint32 buffer = entry->output_buffers[k];
      if (buffer == G_MAXUINT32 || !is_output_for_user (output))
        continue;
      if (output->bound != NULL && !output_fits (&values[buffer], output->name, output->bound, error))
        return FALSE;
      if (!entry->owns[k])
        continue;
      if (output->bound == NULL && output->fresh == NULL &&
          (output->fresh = new_output_tensor (&values[buffer], error)) == NULL)
        return FALSE;
      OrtrainTensor *tensor = output->bound != NULL ? output->bound : output->fresh;
      if (values[buffer].bytes > 0)
        ortrain_program_set_address (entry->program, values[buffer].root, ortrain_tensor_peek_device_address (tensor));
    }
  return TRUE;
}

OrtrainTensorDict *
ortrain_executor_take_outputs (OrtrainExecutor *self, GError **error)
{
  OrtrainExecutorEntry *entry = self->current;
  if (entry == NULL)
    {
      g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE, "Nothing has been run");
      return NULL;
    }
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (entry->plan, NULL);
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  for (guint k = 0; k < self->n_outputs; k++)
    {
      OrtrainExecutorOutput *output = &self->outputs[k];
      guint32 buffer = entry->output_buffers[k];
      if (buffer == G_MAXUINT32 || !is_output_for_user (output))
        continue;
      g_autoptr (OrtrainTensor) tensor = NULL;
      if (output->bound != NULL)
        tensor = g_object_ref (output->bound);
      else if (entry->owns[k])
        tensor = g_steal_pointer (&output->fresh);
      if (tensor == NULL)
        {
          tensor = new_output_tensor (&values[buffer], error);
          if (tensor == NULL || !ortrain_execution_read (self->config.execution, ortrain_tensor_peek_writable (tensor),
                                                         ortrain_program_get_address (entry->program, buffer),
                                                         values[buffer].bytes, error))
            return NULL;
        }
      ortrain_tensor_dict_set (dict, output->name, tensor);
    }
  if (!ortrain_execution_wait (self->config.execution, NULL, error))
    return NULL;
  return g_steal_pointer (&dict);
}

gboolean
ortrain_executor_bind_output (OrtrainExecutor *self, const char *name, OrtrainTensor *tensor, GError **error)
{
  for (guint k = 0; k < self->n_outputs; k++)
    {
      OrtrainExecutorOutput *output = &self->outputs[k];
      if (!g_str_equal (output->name, name) || !is_output_for_user (output))
        continue;
      if (tensor != NULL && !ortrain_executor_check_device (self, "Output", name, tensor, error))
        return FALSE;
      g_set_object (&output->bound, tensor);
      return TRUE;
    }
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "The session has no output '%s'",
               ortrain_text_show (name));
  return FALSE;
}

void
ortrain_executor_clear_outputs (OrtrainExecutor *self)
{
  for (guint k = 0; k < self->n_outputs; k++)
    g_clear_object (&self->outputs[k].bound);
}

gboolean
ortrain_executor_submit_read (OrtrainExecutor *self, const char *value_name, gpointer destination, gsize n_bytes,
                              GError **error)
{
  const OrtrainExecutorEntry *entry = self->current;
  guint32 buffer = G_MAXUINT32;
  if (entry != NULL)
    buffer = ortrain_memory_plan_find_buffer (
        entry->plan, ortrain_graph_find_value (ortrain_memory_plan_peek_graph (entry->plan), value_name));
  gconstpointer address = buffer != G_MAXUINT32 ? ortrain_program_get_address (entry->program, buffer) : NULL;
  if (address == NULL || ortrain_memory_plan_peek_values (entry->plan, NULL)[buffer].bytes != n_bytes)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE, "The plan does not compute '%s'",
                   ortrain_text_show (value_name));
      return FALSE;
    }
  return ortrain_execution_read (self->config.execution, destination, address, n_bytes, error);
}

gboolean
ortrain_executor_read (OrtrainExecutor *self, const char *value_name, gpointer destination, gsize n_bytes,
                       GError **error)
{
  return ortrain_executor_submit_read (self, value_name, destination, n_bytes, error) &&
         ortrain_execution_wait (self->config.execution, NULL, error);
}
