/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "runtime/ortrain-executor-parts-private.h"
#include "tensor/ortrain-storage-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

static gboolean
is_output_for_user (const OrtrainExecutorOutput *output)
{
  return output->role != ORTRAIN_ROLE_GRADIENT && output->role != ORTRAIN_ROLE_UPDATE;
}

/* Where kernels write into the memory of the host, the limit on the memory of the device applies to outputs, too. */
static gboolean
is_within_limit (const OrtrainExecutor *self, const OrtrainPlanValue *value, GError **error)
{
  const guint64 limit = self->provider->memory_limit;
  if (limit == 0 || !self->provider->klass->reads_host || value->bytes <= limit)
    return TRUE;
  g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY,
               "Output '%s' has %" G_GUINT64_FORMAT
               " bytes: the option 'device-memory-limit' allows %" G_GUINT64_FORMAT,
               ortrain_text_show (value->value->name), (guint64) value->bytes, limit);
  return FALSE;
}

static OrtrainTensor *
new_output_tensor (const OrtrainExecutor *self, const OrtrainPlanValue *value, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  if (!is_within_limit (self, value, error))
    return NULL;
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
  ortrain_value_get_static_dims (value->value, dims);
  return ortrain_bound_output_fits (name, value->value->dtype, dims, (gsize) value->value->rank, tensor, error);
}

static gboolean
shares_memory_with_input (const OrtrainExecutor *self, OrtrainTensor *tensor)
{
  const OrtrainMemoryRange range = ortrain_memory_range_of (tensor);
  for (guint i = 0; i < self->n_inputs && range.begin < range.end; i++)
    if (self->inputs[i].fed != NULL &&
        ortrain_memory_ranges_overlap (range, ortrain_memory_range_of (self->inputs[i].fed)))
      return TRUE;
  return FALSE;
}

/* Uninitialized, on the device of the other one. */
static OrtrainTensor *
new_like (OrtrainTensor *tensor, const char *name, GError **error)
{
  OrtrainTensorDevice *device = ortrain_tensor_peek_device (tensor);
  const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
  const gint64 *dims = ortrain_tensor_peek_dims (tensor);
  const gsize rank = ortrain_tensor_get_rank (tensor);
  OrtrainTensor *like = NULL;
  if (device == NULL)
    like = ortrain_tensor_new_uninitialized (dtype, dims, rank, error);
  else
    {
      g_autoptr (OrtrainStorage) storage =
          ortrain_storage_new_on_device (device, ortrain_tensor_get_n_bytes (tensor), error);
      like = storage != NULL ? ortrain_tensor_new_for_storage (dtype, dims, rank, storage, 0, error) : NULL;
    }
  if (like == NULL)
    g_prefix_error (error, "Output '%s', which shares its memory with an input: ", ortrain_text_show (name));
  return like;
}

static gboolean
is_like (OrtrainTensor *a, OrtrainTensor *b)
{
  const gsize rank = ortrain_tensor_get_rank (a);
  return ortrain_tensor_get_dtype (a) == ortrain_tensor_get_dtype (b) && rank == ortrain_tensor_get_rank (b) &&
         ortrain_tensor_peek_device (a) == ortrain_tensor_peek_device (b) &&
         (rank == 0 ||
          memcmp (ortrain_tensor_peek_dims (a), ortrain_tensor_peek_dims (b), rank * sizeof (gint64)) == 0);
}

/* Memory of its own for an output that is bound to memory of an input: a kernel may read it after another kernel has
 * written. If there is one, outputs that are copied after the run get such memory, too, since they may be that input.
 * The memory is kept from run to run. */
static gboolean
stage_outputs (OrtrainExecutor *self, GError **error)
{
  const OrtrainExecutorEntry *entry = self->current;
  gboolean shares = FALSE;
  for (guint k = 0; k < self->n_outputs && !shares; k++)
    shares = self->outputs[k].bound != NULL && shares_memory_with_input (self, self->outputs[k].bound);
  for (guint k = 0; k < self->n_outputs; k++)
    {
      OrtrainExecutorOutput *output = &self->outputs[k];
      const gboolean needed = shares && output->bound != NULL && entry->output_buffers[k] != G_MAXUINT32 &&
                              (!entry->owns[k] || shares_memory_with_input (self, output->bound));
      if (output->staged != NULL && (!needed || !is_like (output->staged, output->bound)))
        g_clear_object (&output->staged);
      if (needed && output->staged == NULL && (output->staged = new_like (output->bound, output->name, error)) == NULL)
        return FALSE;
      if (!entry->owns[k])
        g_clear_object (&output->fresh);
    }
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (entry->plan, NULL);
  for (guint k = 0; k < self->n_outputs && shares; k++)
    {
      OrtrainExecutorOutput *output = &self->outputs[k];
      const guint32 buffer = entry->output_buffers[k];
      if (buffer != G_MAXUINT32 && is_output_for_user (output) && output->bound == NULL && !entry->owns[k] &&
          (output->fresh = new_output_tensor (self, &values[buffer], error)) == NULL)
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
      const OrtrainExecutorOutput *output = &self->outputs[k];
      const guint32 buffer = entry->output_buffers[k];
      if (buffer != G_MAXUINT32 && is_output_for_user (output) && output->bound != NULL &&
          !output_fits (&values[buffer], output->name, output->bound, error))
        return FALSE;
    }
  if (!stage_outputs (self, error))
    return FALSE;
  for (guint k = 0; k < self->n_outputs; k++)
    {
      OrtrainExecutorOutput *output = &self->outputs[k];
      guint32 buffer = entry->output_buffers[k];
      if (buffer == G_MAXUINT32 || !is_output_for_user (output) || !entry->owns[k])
        continue;
      if (output->bound == NULL && output->fresh == NULL &&
          (output->fresh = new_output_tensor (self, &values[buffer], error)) == NULL)
        return FALSE;
      OrtrainTensor *tensor = output->staged != NULL  ? output->staged
                              : output->bound != NULL ? output->bound
                                                      : output->fresh;
      if (values[buffer].bytes > 0)
        ortrain_program_set_address (entry->program, values[buffer].root, ortrain_tensor_peek_device_address (tensor));
    }
  return TRUE;
}

/* Outputs that are an input, a constant, or a second name for another output, into their own memory, as long as nothing
 * that they may be was written over. */
static gboolean
read_elsewhere (OrtrainExecutor *self, gboolean *copied, GError **error)
{
  const OrtrainExecutorEntry *entry = self->current;
  for (guint k = 0; k < self->n_outputs; k++)
    {
      const OrtrainExecutorOutput *output = &self->outputs[k];
      const guint32 buffer = entry->output_buffers[k];
      OrtrainTensor *to = output->staged != NULL  ? output->staged
                          : output->bound != NULL ? output->bound
                                                  : output->fresh;
      if (buffer == G_MAXUINT32 || entry->owns[k] || to == NULL)
        continue;
      if (!ortrain_device_context_read (self->config.device_context, ortrain_tensor_peek_device_address (to),
                                        ortrain_program_get_address (entry->program, buffer),
                                        ortrain_tensor_get_n_bytes (to), error))
        return FALSE;
      *copied = TRUE;
    }
  return TRUE;
}

gboolean
ortrain_executor_deliver_outputs (OrtrainExecutor *self, GError **error)
{
  OrtrainDeviceContext *device_context = self->config.device_context;
  gboolean copied = FALSE;
  if (!read_elsewhere (self, &copied, error))
    return FALSE;
  for (guint k = 0; k < self->n_outputs; k++)
    {
      const OrtrainExecutorOutput *output = &self->outputs[k];
      if (output->staged == NULL)
        continue;
      if ((copied && !ortrain_device_context_wait (device_context, NULL, error)) ||
          !ortrain_device_context_read (device_context, ortrain_tensor_peek_device_address (output->bound),
                                        ortrain_tensor_peek_device_address (output->staged),
                                        ortrain_tensor_get_n_bytes (output->bound), error))
        return FALSE;
      copied = TRUE;
    }
  return !copied || ortrain_device_context_wait (device_context, NULL, error);
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
      else
        tensor = g_steal_pointer (&output->fresh);
      if (tensor == NULL)
        {
          tensor = new_output_tensor (self, &values[buffer], error);
          if (tensor == NULL || !ortrain_device_context_read (
                                    self->config.device_context, ortrain_tensor_peek_writable (tensor),
                                    ortrain_program_get_address (entry->program, buffer), values[buffer].bytes, error))
            return NULL;
        }
      ortrain_tensor_dict_set (dict, output->name, tensor);
    }
  if (!ortrain_device_context_wait (self->config.device_context, NULL, error))
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
  return ortrain_device_context_read (self->config.device_context, destination, address, n_bytes, error);
}

gboolean
ortrain_executor_read (OrtrainExecutor *self, const char *value_name, gpointer destination, gsize n_bytes,
                       GError **error)
{
  return ortrain_executor_submit_read (self, value_name, destination, n_bytes, error) &&
         ortrain_device_context_wait (self->config.device_context, NULL, error);
}
