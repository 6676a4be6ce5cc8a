/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-parameter-store-private.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-checked-private.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "runtime/ortrain-staged-writes-private.h"

#include <string.h>

#define MIN_TRIMMED_BYTES 65536 /* less is not worth a system call */

/* ---- layout ---- */

static void
describe (OrtrainParameterStore *self, OrtrainPersistentTensor *stored, const OrtrainTrainedTensor *trained)
{
  OrtrainTensor *tensor = trained->initial;
  stored->device_context = self->device_context;
  stored->name = trained->name;
  stored->gradient_name = trained->gradient;
  stored->dtype = trained->dtype;
  stored->file_dtype = ortrain_tensor_get_dtype (tensor);
  stored->gradient_dtype = ortrain_dtype_is_half (trained->dtype) ? ORTRAIN_DTYPE_FLOAT32 : trained->dtype;
  stored->rank = (guint) ortrain_tensor_get_rank (tensor);
  stored->dims = g_memdup2 (ortrain_tensor_peek_dims (tensor), stored->rank * sizeof (gint64));
  stored->n_elements = ortrain_tensor_get_n_elements (tensor);
  stored->copy_name = trained->copy;
  stored->copy_dtype = trained->copy_dtype;
  stored->padding_row = trained->padding_row;
  stored->immediate = trained->immediate;
  stored->state_names = (const char *const *) trained->states;
  stored->initial = g_object_ref (tensor);
}

static gboolean
measure (OrtrainPersistentTensor *stored, GError **error)
{
  if (ortrain_checked_mul ((gsize) stored->n_elements, ortrain_dtype_get_size (stored->dtype), &stored->bytes) &&
      ortrain_checked_mul ((gsize) stored->n_elements, ortrain_dtype_get_size (stored->gradient_dtype),
                           &stored->gradient_bytes))
    return TRUE;
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE, "Parameter '%s' is too large",
               ortrain_text_show (stored->name));
  return FALSE;
}

/* Places `bytes` at the end of the block so far. */
static gboolean
reserve (OrtrainParameterStore *self, gsize bytes, OrtrainCategory category, gsize *offset, GError **error)
{
  gsize aligned, total;
  if (!ortrain_checked_align (bytes, ORTRAIN_DEVICE_ALIGNMENT, &aligned) ||
      !ortrain_checked_add (self->block_bytes, aligned, &total))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE, "the parameters together are too large");
      return FALSE;
    }
  *offset = self->block_bytes;
  self->block_bytes = total;
  self->bytes[category] += aligned;
  return TRUE;
}

static gboolean
host_reads (const OrtrainParameterStore *self)
{
  return ortrain_device_context_get_provider (self->device_context)->klass->reads_host;
}

/* Pointer arithmetic on NULL is undefined: returns NULL. */
static gpointer
place (OrtrainParameterStore *self, gsize offset)
{
  return self->block != NULL ? (guint8 *) self->block + offset : NULL;
}

/* Sizes, and addresses as soon as there is a block. */
static gboolean
lay_out (OrtrainParameterStore *self, GError **error)
{
  guint n_states = ortrain_update_set_get_n_states (self->updates);
  gsize offset;
  memset (self->bytes, 0, sizeof self->bytes);
  self->block_bytes = 0;
  for (guint i = 0; i < self->n_parameters; i++)
    {
      if (!reserve (self, self->parameters[i].bytes, ORTRAIN_CATEGORY_PARAMETER, &offset, error))
        return FALSE;
      self->parameters[i].address = place (self, offset);
    }
  self->gradients_begin = place (self, self->block_bytes);
  for (guint i = 0; i < self->n_parameters; i++)
    {
      if (self->parameters[i].immediate)
        continue;
      if (!reserve (self, self->parameters[i].gradient_bytes, ORTRAIN_CATEGORY_GRADIENT, &offset, error))
        return FALSE;
      self->parameters[i].gradient = place (self, offset);
    }
  self->gradients_bytes = self->bytes[ORTRAIN_CATEGORY_GRADIENT];
  gsize before = self->block_bytes;
  self->states_begin = place (self, before);
  for (guint k = 0; k < n_states; k++)
    for (guint i = 0; i < self->n_parameters; i++)
      {
        if (!reserve (self, ortrain_update_set_get_state_bytes (self->updates, i), ORTRAIN_CATEGORY_STATE, &offset,
                      error))
          return FALSE;
        self->parameters[i].states[k] = place (self, offset);
      }
  self->states_bytes = self->block_bytes - before;
  for (guint i = 0; i < self->n_parameters; i++)
    {
      OrtrainPersistentTensor *stored = &self->parameters[i];
      if (stored->copy_name == NULL)
        continue;
      if (!reserve (self, (gsize) stored->n_elements * sizeof (guint16), ORTRAIN_CATEGORY_STATE, &offset, error))
        return FALSE;
      stored->copy = place (self, offset);
    }
  if (self->loss_scale_name != NULL)
    {
      gpointer *const values[] = { &self->loss_scale, &self->good_steps, &self->overflows, &self->tolerated };
      for (guint i = 0; i < (self->tolerated_name != NULL ? 4 : 3); i++)
        {
          if (!reserve (self, sizeof (gint64), ORTRAIN_CATEGORY_STATE, &offset, error))
            return FALSE;
          *values[i] = place (self, offset);
        }
    }
  if (self->loss_weight_name != NULL)
    {
      if (!reserve (self, sizeof (double), ORTRAIN_CATEGORY_STATE, &offset, error))
        return FALSE;
      self->loss_weight = place (self, offset);
    }
  const gboolean custom = ortrain_update_set_is_custom (self->updates), reads_host = host_reads (self);
  self->host_copy_bytes = custom && !reads_host ? self->block_bytes : 0;
  if (custom && reads_host)
    {
      gsize copied;
      if (!ortrain_checked_add (self->bytes[ORTRAIN_CATEGORY_PARAMETER], self->states_bytes, &copied))
        copied = G_MAXSIZE; /* too large, which reserve says */
      if (!reserve (self, copied, ORTRAIN_CATEGORY_STATE, &offset, error))
        return FALSE;
      self->update_copy = place (self, offset);
    }
  self->buffers_begin = place (self, self->block_bytes);
  before = self->block_bytes;
  for (guint i = 0; i < self->n_buffers; i++)
    {
      if (!reserve (self, self->buffers[i].bytes, ORTRAIN_CATEGORY_BUFFER, &offset, error))
        return FALSE;
      self->buffers[i].address = place (self, offset);
    }
  self->buffers_bytes = self->block_bytes - before;
  const guint n_copies = ortrain_device_context_get_provider (self->device_context)->klass->capture != NULL ? 2 : 1;
  for (guint k = 0; k < n_copies; k++)
    {
      if (!reserve (self, self->buffers_bytes, ORTRAIN_CATEGORY_BUFFER, &offset, error))
        return FALSE;
      self->buffers_copies[k] = place (self, offset);
    }
  return TRUE;
}

OrtrainParameterStore *
ortrain_parameter_store_new (OrtrainTrainingGraph *graph, const OrtrainUpdateRule *rule, OrtrainOptimizer *optimizer,
                             OrtrainDeviceContext *device_context, GError **error)
{
  g_autoptr (OrtrainParameterStore) self = g_new0 (OrtrainParameterStore, 1);
  self->device_context = device_context;
  self->n_parameters = graph->parameters->len;
  self->n_buffers = graph->buffers->len;
  self->parameters = g_new0 (OrtrainPersistentTensor, self->n_parameters + 1);
  self->buffers = g_new0 (OrtrainPersistentTensor, self->n_buffers + 1);
  self->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  self->by_gradient = g_hash_table_new (g_str_hash, g_str_equal);
  self->by_state = g_hash_table_new (g_str_hash, g_str_equal);
  self->scalars_name = graph->scalars;
  self->scaling = rule->scaling;
  self->loss_weight_name = graph->loss_weight;
  self->loss_dtype = graph->loss_dtype;
  self->loss_scale_name = graph->loss_scale;
  self->good_steps_name = graph->good_steps;
  self->overflows_name = graph->overflows;
  self->tolerated_name = graph->tolerated;

  g_autofree OrtrainUpdateParameter *updated = g_new0 (OrtrainUpdateParameter, self->n_parameters + 1);
  for (guint i = 0; i < self->n_parameters; i++)
    {
      OrtrainPersistentTensor *stored = &self->parameters[i];
      describe (self, stored, &g_array_index (graph->parameters, OrtrainTrainedTensor, i));
      if (!measure (stored, error))
        return NULL;
      updated[i] = (OrtrainUpdateParameter){ stored->name, stored->dtype, stored->dims, stored->rank,
                                             g_array_index (graph->parameters, OrtrainTrainedTensor, i).scoped_name };
      g_hash_table_insert (self->by_name, (gpointer) stored->name, stored);
      g_hash_table_insert (self->by_gradient, (gpointer) stored->gradient_name, stored);
    }
  for (guint i = 0; i < self->n_buffers; i++)
    {
      describe (self, &self->buffers[i], &g_array_index (graph->buffers, OrtrainTrainedTensor, i));
      if (!measure (&self->buffers[i], error))
        return NULL;
      g_hash_table_insert (self->by_name, (gpointer) self->buffers[i].name, &self->buffers[i]);
    }

  self->updates =
      ortrain_update_set_new (optimizer, rule->optimizer.state_precision, updated, self->n_parameters, error);
  if (self->updates == NULL)
    return NULL;
  for (guint i = 0; i < self->n_parameters; i++)
    {
      OrtrainPersistentTensor *stored = &self->parameters[i];
      stored->states = g_new0 (gpointer, ortrain_update_set_get_n_states (self->updates) + 1);
      for (guint k = 0; stored->state_names != NULL && stored->state_names[k] != NULL; k++)
        g_hash_table_insert (self->by_state, (gpointer) stored->state_names[k], &stored->states[k]);
      if (stored->copy_name != NULL)
        g_hash_table_insert (self->by_state, (gpointer) stored->copy_name, &stored->copy);
    }
  if (self->loss_weight_name != NULL)
    g_hash_table_insert (self->by_state, (gpointer) self->loss_weight_name, &self->loss_weight);
  if (self->loss_scale_name != NULL)
    g_hash_table_insert (self->by_state, (gpointer) self->loss_scale_name, &self->loss_scale);
  if (self->good_steps_name != NULL)
    g_hash_table_insert (self->by_state, (gpointer) self->good_steps_name, &self->good_steps);
  if (self->overflows_name != NULL)
    g_hash_table_insert (self->by_state, (gpointer) self->overflows_name, &self->overflows);
  if (self->tolerated_name != NULL)
    g_hash_table_insert (self->by_state, (gpointer) self->tolerated_name, &self->tolerated);
  return lay_out (self, error) ? g_steal_pointer (&self) : NULL;
}

/* ---- taking the memory ---- */

static gsize
get_scalars_bytes (OrtrainParameterStore *self)
{
  return ortrain_update_set_get_n_held (self->updates) * sizeof (double);
}

/* Says why the memory is needed, before the provider's message on how much is available. */
static void
explain_needs (OrtrainParameterStore *self, GError **error)
{
  g_autofree char *parameters = ortrain_format_bytes (self->bytes[ORTRAIN_CATEGORY_PARAMETER]);
  g_autofree char *gradients = ortrain_format_bytes (self->bytes[ORTRAIN_CATEGORY_GRADIENT]);
  g_autofree char *states = ortrain_format_bytes (self->bytes[ORTRAIN_CATEGORY_STATE]);
  g_autofree char *buffers = ortrain_format_bytes (self->bytes[ORTRAIN_CATEGORY_BUFFER]);
  g_prefix_error (error, "Parameters (%s), gradients (%s), optimizer state (%s) and buffers (%s): ", parameters,
                  gradients, states, buffers);
}

static gboolean
allocate (OrtrainParameterStore *self, GError **error)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  self->block = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, self->block_bytes, error);
  if (self->block == NULL)
    {
      explain_needs (self, error);
      return FALSE;
    }
  self->scalars = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, get_scalars_bytes (self), error);
  if (self->scalars == NULL)
    {
      g_prefix_error (error, "The scalars of an update: ");
      return FALSE;
    }
  if (self->host_copy_bytes > 0)
    {
      self->host_copy = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_HOST, self->host_copy_bytes, error);
      if (self->host_copy == NULL)
        {
          g_prefix_error (error, "A copy of parameters, gradients and state for %s: ",
                          ortrain_text_name_class (ortrain_update_set_get_optimizer (self->updates)));
          return FALSE;
        }
    }
  return lay_out (self, error);
}

static void
give_back (OrtrainParameterStore *self)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  if (self->scalars != NULL)
    ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_DEVICE, self->scalars, get_scalars_bytes (self));
  if (self->block != NULL)
    ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_DEVICE, self->block, self->block_bytes);
  if (self->host_copy != NULL)
    ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_HOST, self->host_copy, self->host_copy_bytes);
  self->scalars = NULL;
  self->block = NULL;
  self->host_copy = NULL;
}

/* The memory is zeroed; states that begin with something else are written piece by piece. */
static gboolean
begin_states (OrtrainParameterStore *self, GError **error)
{
  union
  {
    float singles[1024];
    double doubles[512];
  } piece;
  for (guint k = 0; k < ortrain_update_set_get_n_states (self->updates); k++)
    {
      const double initial = ortrain_update_set_get_initial_state (self->updates, k);
      for (guint i = 0; i < self->n_parameters && initial != 0; i++)
        {
          const gboolean wide = ortrain_update_set_get_state_form (self->updates, i)->dtype == ORTRAIN_DTYPE_FLOAT64;
          const gsize bytes = ortrain_update_set_get_state_bytes (self->updates, i);
          for (guint e = 0; wide && e < G_N_ELEMENTS (piece.doubles); e++)
            piece.doubles[e] = initial;
          for (guint e = 0; !wide && e < G_N_ELEMENTS (piece.singles); e++)
            piece.singles[e] = (float) initial;
          for (gsize begin = 0; begin < bytes; begin += sizeof piece)
            if (!ortrain_device_context_write (self->device_context, (guint8 *) self->parameters[i].states[k] + begin,
                                               &piece, MIN (sizeof piece, bytes - begin), error))
              return FALSE;
        }
    }
  return TRUE;
}

static gboolean
write_initial (OrtrainParameterStore *self, const OrtrainPersistentTensor *list, guint n, GError **error)
{
  for (guint i = 0; i < n; i++)
    {
      gconstpointer contents = ortrain_tensor_peek_unaligned (list[i].initial);
      g_autoptr (OrtrainTensor) converted = NULL;
      if (contents != NULL && list[i].dtype != list[i].file_dtype)
        {
          converted = ortrain_tensor_cast (list[i].initial, list[i].dtype, error);
          if (converted == NULL)
            return FALSE;
          contents = ortrain_tensor_peek (converted);
        }
      if (contents == NULL && list[i].bytes > 0)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED,
                       "The contents of initializer '%s' were released", ortrain_text_show (list[i].name));
          return FALSE;
        }
      /* the converted copy is freed at the end of this iteration */
      if (!ortrain_device_context_write (self->device_context, list[i].address, contents, list[i].bytes, error) ||
          (converted != NULL && !ortrain_device_context_wait (self->device_context, NULL, error)))
        return FALSE;
    }
  return TRUE;
}

/* Elements that are rounded at a time. */
#define PIECE 16384

static gboolean
refresh_copy (OrtrainParameterStore *self, const OrtrainPersistentTensor *stored, float *wide, guint16 *narrow,
              GError **error)
{
  const gboolean direct = host_reads (self);
  for (gint64 begin = 0; begin < stored->n_elements; begin += PIECE)
    {
      const gint64 n = MIN (PIECE, stored->n_elements - begin);
      const float *source = (const float *) stored->address + begin;
      guint16 *destination = (guint16 *) stored->copy + begin;
      if (direct)
        {
          ortrain_dtype_narrow_n (stored->copy_dtype, destination, source, n);
          continue;
        }
      if (!ortrain_device_context_read (self->device_context, wide, source, (gsize) n * sizeof *wide, error) ||
          !ortrain_device_context_wait (self->device_context, NULL, error))
        return FALSE;
      ortrain_dtype_narrow_n (stored->copy_dtype, narrow, wide, n);
      if (!ortrain_device_context_write (self->device_context, destination, narrow, (gsize) n * sizeof *narrow,
                                         error) ||
          !ortrain_device_context_wait (self->device_context, NULL, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_parameter_store_refresh_copies (OrtrainParameterStore *self, GError **error)
{
  g_autofree float *wide = g_new (float, PIECE);
  g_autofree guint16 *narrow = g_new (guint16, PIECE);
  if (!ortrain_device_context_wait (self->device_context, NULL, error))
    return FALSE;
  for (guint i = 0; i < self->n_parameters; i++)
    if (self->parameters[i].copy_name != NULL && !refresh_copy (self, &self->parameters[i], wide, narrow, error))
      return FALSE;
  return TRUE;
}

gboolean
ortrain_parameter_store_write_loss_weight (OrtrainParameterStore *self, double weight, GError **error)
{
  const float single = (float) weight;
  const gboolean wide = self->loss_dtype == ORTRAIN_DTYPE_FLOAT64;
  if (self->loss_weight_name == NULL || self->written_weight == weight)
    return TRUE;
  if (!ortrain_device_context_write (self->device_context, self->loss_weight, wide ? (gconstpointer) &weight : &single,
                                     wide ? sizeof weight : sizeof single, error) ||
      !ortrain_device_context_wait (self->device_context, NULL, error))
    return FALSE;
  self->written_weight = weight;
  return TRUE;
}

gboolean
ortrain_parameter_store_write_scaler (OrtrainParameterStore *self, const OrtrainScalerState *state, GError **error)
{
  return ortrain_device_context_write (self->device_context, self->loss_scale, &state->loss_scale,
                                       sizeof state->loss_scale, error) &&
         ortrain_device_context_write (self->device_context, self->good_steps, &state->good_steps,
                                       sizeof state->good_steps, error) &&
         ortrain_device_context_write (self->device_context, self->overflows, &state->overflows,
                                       sizeof state->overflows, error) &&
         (self->tolerated_name == NULL ||
          ortrain_device_context_write (self->device_context, self->tolerated, &state->tolerated,
                                        sizeof state->tolerated, error)) &&
         ortrain_device_context_wait (self->device_context, NULL, error);
}

gboolean
ortrain_parameter_store_submit_read_scaler (OrtrainParameterStore *self, OrtrainScalerState *state, GError **error)
{
  state->tolerated = 0;
  return (self->tolerated_name == NULL ||
          ortrain_device_context_read (self->device_context, &state->tolerated, self->tolerated,
                                       sizeof state->tolerated, error)) &&
         ortrain_device_context_read (self->device_context, &state->loss_scale, self->loss_scale,
                                      sizeof state->loss_scale, error) &&
         ortrain_device_context_read (self->device_context, &state->good_steps, self->good_steps,
                                      sizeof state->good_steps, error) &&
         ortrain_device_context_read (self->device_context, &state->overflows, self->overflows, sizeof state->overflows,
                                      error);
}

gboolean
ortrain_parameter_store_read_scaler (OrtrainParameterStore *self, OrtrainScalerState *state, GError **error)
{
  return ortrain_parameter_store_submit_read_scaler (self, state, error) &&
         ortrain_device_context_wait (self->device_context, NULL, error);
}

static gboolean
begin_scaler (OrtrainParameterStore *self, GError **error)
{
  const OrtrainScalerState state = { .loss_scale = (float) self->scaling.initial };
  self->written_weight = 0;
  return ortrain_parameter_store_write_loss_weight (self, 1.0, error) &&
         (self->loss_scale_name == NULL || ortrain_parameter_store_write_scaler (self, &state, error));
}

/* After all was read. */
static gboolean
check_initial (const OrtrainPersistentTensor *list, guint n, GError **error)
{
  for (guint i = 0; i < n; i++)
    if (!ortrain_tensor_check_file (list[i].initial, error))
      return FALSE;
  return TRUE;
}

/* The block has the contents now; contents in mapped files need not be in memory twice. */
static void
forget_initial (OrtrainPersistentTensor *list, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      const gsize bytes = ortrain_tensor_get_n_bytes (list[i].initial);
      if (bytes >= MIN_TRIMMED_BYTES)
        ortrain_mapped_file_trim (ortrain_tensor_peek_unaligned (list[i].initial), bytes);
      g_clear_object (&list[i].initial);
    }
}

static gboolean
bind_custom (OrtrainParameterStore *self, GError **error)
{
  const guint n_states = ortrain_update_set_get_n_states (self->updates);
  g_autofree gpointer *states = g_new0 (gpointer, n_states + 1);
  for (guint i = 0; i < self->n_parameters; i++)
    {
      const OrtrainPersistentTensor *stored = &self->parameters[i];
      for (guint k = 0; k < n_states; k++)
        states[k] = ortrain_parameter_store_get_host_address (self, stored->states[k]);
      if (!ortrain_update_set_bind_parameter (
              self->updates, i, ortrain_parameter_store_get_host_address (self, stored->address),
              ortrain_parameter_store_get_host_address (self, stored->gradient), states, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
fill (OrtrainParameterStore *self, GError **error)
{
  if (!write_initial (self, self->parameters, self->n_parameters, error) ||
      !write_initial (self, self->buffers, self->n_buffers, error) || !begin_states (self, error) ||
      !begin_scaler (self, error) || !ortrain_parameter_store_refresh_copies (self, error) ||
      !check_initial (self->parameters, self->n_parameters, error) ||
      !check_initial (self->buffers, self->n_buffers, error))
    return FALSE;
  return !ortrain_update_set_is_custom (self->updates) || bind_custom (self, error);
}

gboolean
ortrain_parameter_store_take_memory (OrtrainParameterStore *self, GError **error)
{
  if (G_LIKELY (self->block != NULL))
    return TRUE;
  if (!allocate (self, error) || !fill (self, error))
    {
      ortrain_device_context_wait (self->device_context, NULL, NULL); /* copies that were submitted */
      give_back (self);
      lay_out (self, NULL);
      return FALSE;
    }
  forget_initial (self->parameters, self->n_parameters);
  forget_initial (self->buffers, self->n_buffers);
  return TRUE;
}

static void
clear_list (OrtrainPersistentTensor *list, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      g_clear_object (&list[i].initial);
      g_free (list[i].dims);
      g_free (list[i].states);
    }
  g_free (list);
}

void
ortrain_parameter_store_free (OrtrainParameterStore *self)
{
  if (self == NULL)
    return;
  give_back (self);
  ortrain_update_set_free (self->updates);
  clear_list (self->parameters, self->n_parameters);
  clear_list (self->buffers, self->n_buffers);
  g_hash_table_unref (self->by_name);
  g_hash_table_unref (self->by_gradient);
  g_hash_table_unref (self->by_state);
  g_free (self);
}

gboolean
ortrain_parameter_store_write_scalars (OrtrainParameterStore *self, const double *scalars, GError **error)
{
  return ortrain_device_context_write (self->device_context, self->scalars, scalars,
                                       ortrain_update_set_get_n_written (self->updates) * sizeof (double), error);
}

gpointer
ortrain_parameter_store_resolve (const char *name, OrtrainRegion region, gpointer user_data)
{
  OrtrainParameterStore *self = user_data;
  OrtrainPersistentTensor *stored = g_hash_table_lookup (self->by_name, name);
  if (region == ORTRAIN_REGION_STATE)
    {
      const gpointer *state = g_hash_table_lookup (self->by_state, name);
      return g_strcmp0 (name, self->scalars_name) == 0 ? self->scalars : state != NULL ? *state : NULL;
    }
  if (region != ORTRAIN_REGION_GRADIENT)
    return stored != NULL ? stored->address : NULL;
  OrtrainPersistentTensor *by_gradient = g_hash_table_lookup (self->by_gradient, name);
  if (by_gradient != NULL)
    return by_gradient->gradient;
  return stored != NULL ? stored->gradient : NULL;
}

/* Inside of the memory of the device. */
static gboolean
copy_bytes (OrtrainParameterStore *self, gpointer destination, gconstpointer source, gsize n_bytes, GError **error)
{
  return n_bytes == 0 || ortrain_device_context_write (self->device_context, destination, source, n_bytes, error);
}

gboolean
ortrain_parameter_store_save_buffers (OrtrainParameterStore *self, guint copy, GError **error)
{
  return copy_bytes (self, self->buffers_copies[copy], self->buffers_begin, self->buffers_bytes, error);
}

void
ortrain_parameter_store_restore_buffers (OrtrainParameterStore *self, guint copy)
{
  copy_bytes (self, self->buffers_begin, self->buffers_copies[copy], self->buffers_bytes, NULL);
}

gpointer
ortrain_parameter_store_get_host_address (const OrtrainParameterStore *self, gpointer address)
{
  return self->host_copy != NULL ? self->host_copy + ((guint8 *) address - self->block) : address;
}

gboolean
ortrain_parameter_store_begin_update (OrtrainParameterStore *self, GError **error)
{
  const gsize parameters_bytes = self->bytes[ORTRAIN_CATEGORY_PARAMETER];
  if (self->host_copy != NULL)
    return ortrain_device_context_read (self->device_context, self->host_copy, self->block, self->host_copy_bytes,
                                        error) &&
           ortrain_device_context_wait (self->device_context, NULL, error);
  return copy_bytes (self, self->update_copy, self->block, parameters_bytes, error) &&
         copy_bytes (self, self->update_copy + parameters_bytes, self->states_begin, self->states_bytes, error);
}

gboolean
ortrain_parameter_store_end_update (OrtrainParameterStore *self, gboolean keep, GError **error)
{
  const gsize parameters_bytes = self->bytes[ORTRAIN_CATEGORY_PARAMETER];
  const gboolean apart = self->host_copy != NULL;
  if (keep != apart)
    return !keep || ortrain_parameter_store_refresh_copies (self, error);
  gconstpointer parameters = apart ? self->host_copy : self->update_copy;
  gconstpointer states = apart ? ortrain_parameter_store_get_host_address (self, self->states_begin)
                               : self->update_copy + parameters_bytes;
  /* the host may write its copy again when this returns */
  return copy_bytes (self, self->block, parameters, parameters_bytes, error) &&
         copy_bytes (self, self->states_begin, states, self->states_bytes, error) &&
         ortrain_device_context_wait (self->device_context, NULL, error) &&
         (!keep || ortrain_parameter_store_refresh_copies (self, error));
}

void
ortrain_parameter_store_zero_gradients (OrtrainParameterStore *self)
{
  if (self->gradients_bytes > 0 && self->block != NULL)
    ortrain_device_context_fill (self->device_context, self->gradients_begin, 0, self->gradients_bytes, NULL);
}

void
ortrain_parameter_store_zero_padding (OrtrainParameterStore *self)
{
  for (guint i = 0; i < self->n_parameters; i++)
    {
      const OrtrainPersistentTensor *stored = &self->parameters[i];
      if (stored->padding_row < 0 || stored->gradient == NULL)
        continue;
      gsize row_bytes = stored->gradient_bytes / (gsize) stored->dims[0];
      ortrain_device_context_fill (self->device_context,
                                   (guint8 *) stored->gradient + (gsize) stored->padding_row * row_bytes, 0, row_bytes,
                                   NULL);
    }
}

OrtrainPersistentTensor *
ortrain_parameter_store_find (OrtrainParameterStore *self, const char *name)
{
  return g_hash_table_lookup (self->by_name, name);
}

OrtrainPersistentTensor
ortrain_stored_get_gradient (const OrtrainPersistentTensor *stored)
{
  OrtrainPersistentTensor gradient = *stored;
  gradient.address = stored->gradient;
  gradient.dtype = stored->gradient_dtype;
  gradient.bytes = stored->gradient_bytes;
  return gradient;
}

OrtrainTensor *
ortrain_stored_peek (const OrtrainPersistentTensor *stored, gpointer address, GError **error)
{
  if (!ortrain_device_context_get_provider (stored->device_context)->klass->reads_host)
    return ortrain_stored_copy (stored, address, error);
  return ortrain_tensor_new_for_address (stored->dtype, stored->dims, stored->rank, (gsize) address, TRUE, NULL, error);
}

OrtrainTensor *
ortrain_stored_copy (const OrtrainPersistentTensor *stored, gconstpointer address, GError **error)
{
  g_autoptr (OrtrainTensor) tensor =
      ortrain_tensor_new_uninitialized (stored->dtype, stored->dims, stored->rank, error);
  if (tensor == NULL ||
      !ortrain_device_context_read (stored->device_context, ortrain_tensor_peek_writable (tensor), address,
                                    ortrain_tensor_get_n_bytes (tensor), error) ||
      !ortrain_device_context_wait (stored->device_context, NULL, error))
    {
      g_prefix_error (error, "a copy of '%s': ", ortrain_text_show (stored->name));
      return NULL;
    }
  return g_steal_pointer (&tensor);
}

/* Whether a tensor fits a parameter or buffer of the session; where it does, which. */
static OrtrainPersistentTensor *
check_given (OrtrainParameterStore *self, const char *name, OrtrainTensor *tensor, GError **error)
{
  OrtrainPersistentTensor *stored = ortrain_parameter_store_find (self, name);
  if (stored == NULL)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "The session has no parameter or buffer '%s'", ortrain_text_show (name));
      return NULL;
    }
  const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
  if ((dtype == stored->dtype || dtype == stored->file_dtype) && ortrain_tensor_get_rank (tensor) == stored->rank &&
      (stored->rank == 0 ||
       memcmp (ortrain_tensor_peek_dims (tensor), stored->dims, stored->rank * sizeof (gint64)) == 0))
    return stored;
  g_autofree char *want = ortrain_shape_to_string (stored->dims, stored->rank);
  g_autofree char *have = ortrain_shape_to_string (ortrain_tensor_peek_dims (tensor), ortrain_tensor_get_rank (tensor));
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Parameter '%s' is %s %s, but %s %s was given",
               ortrain_text_show (name), ortrain_dtype_get_name (stored->dtype), want, ortrain_dtype_get_name (dtype),
               have);
  return NULL;
}

gboolean
ortrain_parameter_store_set (OrtrainParameterStore *self, OrtrainTensorDict *tensors, GError **error)
{
  const guint n = ortrain_tensor_dict_get_size (tensors);
  g_auto (OrtrainStagedWrites) writes = { 0 };
  ortrain_staged_writes_init (&writes, self->device_context);
  for (guint i = 0; i < n; i++) /* cheap checks first */
    if (check_given (self, ortrain_tensor_dict_get_name (tensors, i), ortrain_tensor_dict_get_tensor (tensors, i),
                     error) == NULL)
      return FALSE;
  for (guint i = 0; i < n; i++)
    {
      const char *name = ortrain_tensor_dict_get_name (tensors, i);
      const OrtrainPersistentTensor *stored = ortrain_parameter_store_find (self, name);
      if (!ortrain_staged_writes_add (&writes, ortrain_tensor_dict_get_tensor (tensors, i), stored->dtype,
                                      stored->address, error))
        {
          g_prefix_error (error, "Parameter '%s': ", ortrain_text_show (name));
          return FALSE;
        }
    }
  const gboolean ok = ortrain_staged_writes_apply (&writes, error);
  return ortrain_parameter_store_refresh_copies (self, ok ? error : NULL) && ok;
}
