/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-executor-parts-private.h"

#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "core/ortrain-trace-private.h"
#include "specialize/ortrain-specialize-private.h"
#include "tensor/ortrain-omitted-arrays-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

#define DEFAULT_MAX_PLANS 16
#define MAX_KEY_CONTENTS 256 /* bytes of an input that a key has as they are; of longer inputs it has a digest */

static void
entry_free (gpointer data)
{
  OrtrainExecutorEntry *entry = data;
  g_clear_pointer (&entry->program, ortrain_program_free);
  g_clear_object (&entry->plan);
  g_free (entry->key);
  g_free (entry->outcome);
  g_free (entry->input_buffers);
  g_free (entry->output_buffers);
  g_free (entry->owns);
  g_free (entry);
}

OrtrainExecutor *
ortrain_executor_new (OrtrainGraph *graph, const OrtrainExecutorConfig *config, GError **error)
{
  OrtrainExecutor *self = g_new0 (OrtrainExecutor, 1);
  self->graph = g_object_ref (graph);
  self->config = *config;
  if (config->recompute_choices != NULL)
    g_ptr_array_ref (config->recompute_choices);
  self->guarded = g_strdupv ((char **) config->guarded);
  self->config.guarded = (const char *const *) self->guarded;
  if (self->config.max_plans == 0)
    self->config.max_plans = DEFAULT_MAX_PLANS;
  self->provider = ortrain_device_context_get_provider (config->device_context);
  self->config.arena = config->arena != NULL ? ortrain_step_arena_ref (config->arena)
                                             : ortrain_step_arena_new (self->provider, NULL, NULL);
  self->entries = g_ptr_array_new_with_free_func (entry_free);
  self->kernels = ortrain_kernel_cache_new ();
  self->family = ortrain_plan_choice_memo_new ();
  self->key = g_array_new (FALSE, FALSE, sizeof (gint64));
  self->unplanned = g_array_new (FALSE, FALSE, sizeof (gint64));
  self->outcome = g_array_new (FALSE, FALSE, sizeof (gint64));
  for (guint c = 0; c < G_N_ELEMENTS (self->persistent); c++)
    self->persistent[c] = -1;

  g_autoptr (GHashTable) shape_inputs = ortrain_specialize_find_shape_inputs (graph);
  if (g_hash_table_size (shape_inputs) > 0)
    self->deciding = ortrain_specialize_find_deciding (graph);
  self->inputs = g_new0 (OrtrainExecutorInput, graph->inputs->len + 1);
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *value = graph->inputs->pdata[i];
      if (value->kind != ORTRAIN_VALUE_INPUT)
        continue;
      self->inputs[self->n_inputs++] = (OrtrainExecutorInput){
        .name = g_strdup (value->name),
        .dtype = value->dtype,
        .is_shape_input = g_hash_table_contains (shape_inputs, value),
      };
    }
  self->outputs = g_new0 (OrtrainExecutorOutput, graph->outputs->len + 1);
  for (guint k = 0; k < graph->outputs->len; k++)
    {
      const OrtrainValue *value = graph->outputs->pdata[k];
      self->outputs[self->n_outputs++] = (OrtrainExecutorOutput){ .name = g_strdup (value->name), .role = value->role };
    }
  return self;
}

void
ortrain_executor_free (OrtrainExecutor *self)
{
  for (guint i = 0; i < self->n_inputs; i++)
    {
      g_free (self->inputs[i].name);
      g_clear_object (&self->inputs[i].fed);
      g_clear_pointer (&self->inputs[i].checksum, g_checksum_free);
      g_free (self->inputs[i].contents);
      g_free (self->inputs[i].read);
    }
  for (guint k = 0; k < self->n_outputs; k++)
    {
      g_free (self->outputs[k].name);
      g_clear_object (&self->outputs[k].bound);
      g_clear_object (&self->outputs[k].fresh);
      g_clear_object (&self->outputs[k].staged);
    }
  g_free (self->inputs);
  g_free (self->outputs);
  g_strfreev (self->guarded);
  g_free (self->untrainable);
  g_clear_pointer (&self->config.recompute_choices, g_ptr_array_unref);
  g_ptr_array_unref (self->entries);
  ortrain_kernel_cache_free (self->kernels);
  ortrain_plan_choice_memo_free (self->family);
  g_array_unref (self->key);
  g_array_unref (self->unplanned);
  g_array_unref (self->outcome);
  g_clear_object (&self->deciding);
  ortrain_step_arena_unref (self->config.arena);
  g_object_unref (self->graph);
  g_free (self);
}

/* Contents are on the host, or on the session's own device. */
gboolean
ortrain_executor_check_device (const OrtrainExecutor *self, const char *what, const char *name, OrtrainTensor *tensor,
                               GError **error)
{
  const OrtrainTensorDevice *device = ortrain_tensor_peek_device (tensor);
  if (device == NULL || g_str_equal (device->name, self->provider->device_name))
    return TRUE;
  g_set_error (
      error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE,
      "%s '%s': the tensor is in the memory of the device '%s', and the session runs on '%s': copy it to the host "
      "(to_host), or there (to_device)",
      what, ortrain_text_show (name), device->name, self->provider->device_name);
  return FALSE;
}

/* ---- Feeds ---- */

/* runs: the contents of all feeds are needed, not only of those that decide shapes */
static gboolean
check_feeds (OrtrainExecutor *self, OrtrainTensorDict *feeds, const char *const *ignore, gboolean runs, GError **error)
{
  guint n_found = 0;
  for (guint i = 0; i < self->n_inputs; i++)
    {
      const OrtrainExecutorInput *input = &self->inputs[i];
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, input->name);
      if (tensor == NULL)
        {
          g_autofree char *reason = ortrain_omitted_arrays_explain (feeds, input->name);
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Input '%s' is missing%s",
                       ortrain_text_show (input->name), reason);
          return FALSE;
        }
      OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
      if (input->dtype != ORTRAIN_DTYPE_UNDEFINED && dtype != input->dtype)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Input '%s' is %s, the model needs %s",
                       ortrain_text_show (input->name), ortrain_dtype_get_name (dtype),
                       ortrain_dtype_get_name (input->dtype));
          return FALSE;
        }
      if ((runs || input->is_shape_input) && ortrain_tensor_get_n_bytes (tensor) > 0 &&
          ortrain_tensor_peek_device_address (tensor) == NULL)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED,
                       "Input '%s': the tensor's memory was released", ortrain_text_show (input->name));
          return FALSE;
        }
      if (!ortrain_executor_check_device (self, "Input", input->name, tensor, error))
        return FALSE;
      n_found++;
    }
  if (n_found == ortrain_tensor_dict_get_size (feeds))
    return TRUE;
  for (guint k = 0; k < ortrain_tensor_dict_get_size (feeds); k++)
    {
      const char *name = ortrain_tensor_dict_get_name (feeds, k);
      gboolean known = ignore != NULL && g_strv_contains (ignore, name);
      for (guint i = 0; i < self->n_inputs && !known; i++)
        known = g_str_equal (self->inputs[i].name, name);
      if (!known)
        {
          GString *names = g_string_new (NULL);
          for (guint i = 0; i < self->n_inputs; i++)
            g_string_append_printf (names, "%s'%s'", i > 0 ? ", " : "", ortrain_text_show (self->inputs[i].name));
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "'%s' is no input; the inputs are %s",
                       ortrain_text_show (name), ortrain_text_show_list (names->len > 0 ? names->str : "none"));
          g_string_free (names, TRUE);
          return FALSE;
        }
    }
  return TRUE;
}

/* Nothing is computed or allocated while the contents stay the same. */
static const gint64 *
get_digest (OrtrainExecutorInput *input, gconstpointer contents, gsize n_bytes)
{
  if (input->contents != NULL && input->n_contents == n_bytes && memcmp (input->contents, contents, n_bytes) == 0)
    return input->digest;
  if (input->checksum == NULL)
    input->checksum = g_checksum_new (G_CHECKSUM_SHA256);
  else
    g_checksum_reset (input->checksum);
  gsize n_digest = sizeof input->digest;
  g_checksum_update (input->checksum, contents, (gssize) n_bytes);
  g_checksum_get_digest (input->checksum, (guint8 *) input->digest, &n_digest);
  if (input->contents == NULL || input->n_contents != n_bytes)
    {
      g_free (input->contents);
      input->contents = g_try_malloc (n_bytes); /* without it each step computes the digest */
      input->n_contents = n_bytes;
    }
  if (input->contents != NULL)
    memcpy (input->contents, contents, n_bytes);
  return input->digest;
}

/* Contents for the host; nothing is allocated while the size stays the same. */
static gconstpointer
get_contents (OrtrainExecutorInput *input, OrtrainTensor *tensor, gsize n_bytes, GError **error)
{
  if (ortrain_tensor_peek_device (tensor) == NULL)
    {
      if (ortrain_tensor_check_file (tensor, error))
        return ortrain_tensor_peek (tensor);
      g_prefix_error (error, "Input '%s': ", ortrain_text_show (input->name));
      return NULL;
    }
  if (input->read == NULL || input->n_read != n_bytes)
    {
      g_free (input->read);
      input->read = g_try_malloc (n_bytes);
      input->n_read = n_bytes;
      if (input->read == NULL)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                       "Input '%s': cannot allocate %" G_GSIZE_FORMAT " bytes of memory",
                       ortrain_text_show (input->name), n_bytes);
          return NULL;
        }
    }
  return ortrain_tensor_read (tensor, 0, input->read, n_bytes, error) ? input->read : NULL;
}

static void
append_head (GArray *key, OrtrainTensor *tensor)
{
  const gint64 head[3] = { ortrain_tensor_get_dtype (tensor), ortrain_executor_is_on_device (tensor),
                           (gint64) ortrain_tensor_get_rank (tensor) };
  g_array_append_vals (key, head, 3);
  g_array_append_vals (key, ortrain_tensor_peek_dims (tensor), (guint) head[2]);
}

static void
append_bound (OrtrainExecutor *self, GArray *key)
{
  for (gint64 k = 0; k < (gint64) self->n_outputs; k++)
    if (self->outputs[k].bound != NULL && ortrain_executor_is_on_device (self->outputs[k].bound))
      g_array_append_val (key, k);
}

/* Types, shapes, which inputs and bound outputs are on the device, and the contents of the inputs that decide shapes;
 * long contents by their digest. */
static gboolean
make_key (OrtrainExecutor *self, OrtrainTensorDict *feeds, GError **error)
{
  g_array_set_size (self->key, 0);
  for (guint i = 0; i < self->n_inputs; i++)
    {
      OrtrainExecutorInput *input = &self->inputs[i];
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, input->name);
      append_head (self->key, tensor);
      const gsize n_bytes = ortrain_tensor_get_n_bytes (tensor);
      if (!input->is_shape_input || n_bytes == 0)
        continue;
      gconstpointer contents = get_contents (input, tensor, n_bytes, error);
      gint64 words[MAX_KEY_CONTENTS / sizeof (gint64)] = { 0 };
      if (contents == NULL)
        return FALSE;
      if (n_bytes > MAX_KEY_CONTENTS)
        {
          g_array_append_vals (self->key, get_digest (input, contents, n_bytes), ORTRAIN_EXECUTOR_DIGEST_WORDS);
          continue;
        }
      memcpy (words, contents, n_bytes);
      g_array_append_vals (self->key, words, (guint) ((n_bytes + sizeof *words - 1) / sizeof *words));
    }
  append_bound (self, self->key);
  return TRUE;
}

/* The values that plans need from the contents of the feeds; empty where they are not known. */
static void
make_outcome (OrtrainExecutor *self, OrtrainTensorDict *feeds)
{
  g_array_set_size (self->outcome, 0);
  if (self->deciding == NULL)
    return;
  g_autoptr (GPtrArray) contents = g_ptr_array_new_with_free_func (g_object_unref);
  g_autofree OrtrainSpecializeInput *inputs = ortrain_executor_describe_feeds (self, feeds, contents, NULL);
  g_autoptr (OrtrainGraph) graph =
      inputs != NULL ? ortrain_specialize (self->deciding, inputs, self->n_inputs, NULL) : NULL;
  if (graph == NULL)
    return;
  for (guint i = 0; i < self->n_inputs; i++)
    append_head (self->outcome, ortrain_tensor_dict_get (feeds, self->inputs[i].name));
  append_bound (self, self->outcome);
  for (guint k = 0; k < graph->outputs->len; k++)
    {
      OrtrainTensor *tensor = ((OrtrainValue *) graph->outputs->pdata[k])->tensor;
      gconstpointer data = tensor != NULL ? ortrain_tensor_peek (tensor) : NULL;
      const gsize n_bytes = tensor != NULL ? ortrain_tensor_get_n_bytes (tensor) : 0;
      if (tensor == NULL || (data == NULL && n_bytes > 0))
        {
          g_array_set_size (self->outcome, 0);
          return;
        }
      gint64 digest[ORTRAIN_EXECUTOR_DIGEST_WORDS];
      gsize n_digest = sizeof digest;
      g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
      g_checksum_update (checksum, data, (gssize) n_bytes);
      g_checksum_get_digest (checksum, (guint8 *) digest, &n_digest);
      append_head (self->outcome, tensor);
      g_array_append_vals (self->outcome, digest, ORTRAIN_EXECUTOR_DIGEST_WORDS);
    }
}

/* The plan for other contents with the same outcome; it is the one for these from now on. */
static OrtrainExecutorEntry *
find_by_outcome (OrtrainExecutor *self)
{
  for (guint e = 0; e < self->entries->len && self->outcome->len > 0; e++)
    {
      OrtrainExecutorEntry *entry = self->entries->pdata[e];
      if (entry->n_outcome != self->outcome->len || entry->n_key != self->key->len ||
          memcmp (entry->outcome, self->outcome->data, entry->n_outcome * sizeof (gint64)) != 0)
        continue;
      memcpy (entry->key, self->key->data, entry->n_key * sizeof (gint64));
      return entry;
    }
  return NULL;
}

static gboolean
key_matches (const OrtrainExecutor *self, const OrtrainExecutorEntry *entry)
{
  return entry->n_key == self->key->len &&
         (entry->n_key == 0 || memcmp (entry->key, self->key->data, entry->n_key * sizeof (gint64)) == 0);
}

/* A key is never empty where shapes depend on data: there is an input. */
static gboolean
is_unplanned (const OrtrainExecutor *self)
{
  return self->unplanned->len > 0 && self->unplanned->len == self->key->len &&
         memcmp (self->unplanned->data, self->key->data, self->key->len * sizeof (gint64)) == 0;
}

void
ortrain_executor_keep_unplanned (OrtrainExecutor *self)
{
  g_array_set_size (self->unplanned, 0);
  g_array_append_vals (self->unplanned, self->key->data, self->key->len);
}

/* ---- Plans ---- */

static gboolean
resolve_persistent (OrtrainExecutor *self, OrtrainExecutorEntry *entry, GError **error)
{
  guint n;
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (entry->plan, &n);
  for (guint32 i = 0; i < n; i++)
    {
      const OrtrainPlanValue *value = &values[i];
      if (value->root != i || value->bytes == 0 ||
          (value->region != ORTRAIN_REGION_PARAMETER && value->region != ORTRAIN_REGION_GRADIENT &&
           value->region != ORTRAIN_REGION_STATE && value->region != ORTRAIN_REGION_BUFFER))
        continue;
      gpointer address = self->config.resolve != NULL
                             ? self->config.resolve (value->name, value->region, self->config.resolve_data)
                             : NULL;
      /* Without a session that owns the state, parameters and buffers are constants. */
      if (address == NULL && value->region != ORTRAIN_REGION_GRADIENT && value->value->tensor != NULL &&
          self->config.resolve == NULL && !ortrain_program_hold (entry->program, value->value->tensor, &address, error))
        return FALSE;
      if (address == NULL)
        {
          g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID, "There is no place for '%s'",
                       ortrain_text_show (value->name));
          return FALSE;
        }
      ortrain_program_set_address (entry->program, i, address);
    }
  return TRUE;
}

static void
find_buffers (OrtrainExecutor *self, OrtrainExecutorEntry *entry)
{
  OrtrainGraph *graph = ortrain_memory_plan_peek_graph (entry->plan);
  guint n_values;
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (entry->plan, &n_values);
  g_autofree gboolean *owned = g_new0 (gboolean, n_values + 1);
  entry->input_buffers = g_new (guint32, self->n_inputs + 1);
  entry->output_buffers = g_new (guint32, self->n_outputs + 1);
  entry->owns = g_new0 (gboolean, self->n_outputs + 1);
  for (guint i = 0; i < self->n_inputs; i++)
    {
      guint32 buffer =
          ortrain_memory_plan_find_buffer (entry->plan, ortrain_graph_find_value (graph, self->inputs[i].name));
      if (buffer != G_MAXUINT32 && values[buffer].region != ORTRAIN_REGION_INPUT)
        buffer = G_MAXUINT32;
      entry->input_buffers[i] = buffer;
    }
  for (guint k = 0; k < self->n_outputs; k++)
    {
      guint32 buffer =
          ortrain_memory_plan_find_buffer (entry->plan, ortrain_graph_find_value (graph, self->outputs[k].name));
      entry->output_buffers[k] = buffer;
      if (buffer == G_MAXUINT32 || values[buffer].region != ORTRAIN_REGION_OUTPUT)
        continue;
      entry->owns[k] = !owned[values[buffer].root];
      owned[values[buffer].root] = TRUE;
    }
}

static OrtrainExecutorEntry *
make_entry (OrtrainExecutor *self, OrtrainTensorDict *feeds, GError **error)
{
  const OrtrainBudget budget = { .bytes = self->config.memory_budget,
                                 .level = self->config.recompute_level,
                                 .choices = self->config.recompute_choices,
                                 .offloads = self->config.offloads,
                                 .persistent = self->persistent,
                                 .family = self->family };
  gboolean is_guarded;
  OrtrainMemoryPlan *plan = ortrain_executor_make_plan (self, feeds, &budget, &is_guarded, error);
  if (plan == NULL)
    return NULL;
  OrtrainExecutorEntry *entry = g_new0 (OrtrainExecutorEntry, 1);
  entry->plan = plan;
  entry->is_guarded = is_guarded;
  entry->program = ortrain_program_new (plan, self->config.device_context);
  find_buffers (self, entry);
  entry->n_key = self->key->len;
  entry->key = g_memdup2 (self->key->data, entry->n_key * sizeof (gint64));
  if (self->parts_contents && self->outcome->len > 0)
    {
      entry->n_outcome = self->outcome->len;
      entry->outcome = g_memdup2 (self->outcome->data, entry->n_outcome * sizeof (gint64));
    }
  return entry;
}

gboolean
ortrain_executor_is_shape_input (const OrtrainExecutor *self, const char *name)
{
  for (guint i = 0; i < self->n_inputs; i++)
    if (g_str_equal (self->inputs[i].name, name))
      return self->inputs[i].is_shape_input;
  return FALSE;
}

OrtrainMemoryPlan *
ortrain_executor_plan (OrtrainExecutor *self, OrtrainTensorDict *feeds, guint64 budget, gboolean any, gboolean offloads,
                       OrtrainPlanChoiceMemo *family, GError **error)
{
  const OrtrainBudget within = { .bytes = budget,
                                 .level = self->config.recompute_level,
                                 .choices = self->config.recompute_choices,
                                 .any = any,
                                 .offloads = offloads || self->config.offloads,
                                 .persistent = self->persistent,
                                 .family = family };
  gboolean is_guarded;
  return check_feeds (self, feeds, NULL, FALSE, error)
             ? ortrain_executor_make_plan (self, feeds, &within, &is_guarded, error)
             : NULL;
}

static OrtrainExecutorEntry *
find_entry (OrtrainExecutor *self, OrtrainTensorDict *feeds, GError **error)
{
  if (self->current != NULL && key_matches (self, self->current))
    return self->current;
  for (guint e = 0; e < self->entries->len; e++)
    if (key_matches (self, self->entries->pdata[e]))
      return self->entries->pdata[e];

  if (is_unplanned (self))
    {
      g_set_error_literal (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT,
                           "Shapes depend on computed data");
      return NULL;
    }
  make_outcome (self, feeds);
  OrtrainExecutorEntry *entry = find_by_outcome (self);
  if (entry != NULL)
    return entry;
  entry = make_entry (self, feeds, error);
  if (entry == NULL)
    return NULL;
  if (self->entries->len >= self->config.max_plans)
    {
      guint oldest = 0;
      for (guint e = 1; e < self->entries->len; e++)
        if (((OrtrainExecutorEntry *) self->entries->pdata[e])->stamp <
            ((OrtrainExecutorEntry *) self->entries->pdata[oldest])->stamp)
          oldest = e;
      if (self->entries->pdata[oldest] == self->current)
        self->current = NULL;
      g_ptr_array_remove_index_fast (self->entries, oldest);
      ortrain_kernel_cache_trim (self->kernels);
    }
  g_ptr_array_add (self->entries, entry);
  return entry;
}

gboolean
ortrain_executor_bind (OrtrainExecutor *self, OrtrainTensorDict *feeds, const char *const *ignore, GError **error)
{
  if (!check_feeds (self, feeds, ignore, TRUE, error) || !make_key (self, feeds, error))
    return FALSE;
  OrtrainExecutorEntry *entry = find_entry (self, feeds, error);
  if (entry == NULL)
    return FALSE;
  entry->stamp = ++self->clock;
  if (self->current != entry)
    for (guint k = 0; k < self->n_outputs; k++)
      g_clear_object (&self->outputs[k].fresh);
  self->current = entry;
  for (guint i = 0; i < self->n_inputs; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, self->inputs[i].name);
      g_set_object (&self->inputs[i].fed, tensor);
      if (entry->input_buffers[i] != G_MAXUINT32 && ortrain_tensor_get_n_bytes (tensor) > 0)
        ortrain_program_set_address (entry->program, entry->input_buffers[i],
                                     ortrain_tensor_peek_device_address (tensor));
    }
  return TRUE;
}

void
ortrain_executor_release_feeds (OrtrainExecutor *self)
{
  for (guint i = 0; i < self->n_inputs; i++)
    g_clear_object (&self->inputs[i].fed);
}

OrtrainMemoryPlan *
ortrain_executor_get_plan (OrtrainExecutor *self)
{
  return self->current != NULL ? self->current->plan : NULL;
}

OrtrainProgram *
ortrain_executor_peek_program (OrtrainExecutor *self)
{
  return self->current != NULL ? self->current->program : NULL;
}

guint
ortrain_executor_get_n_plans (OrtrainExecutor *self)
{
  return self->entries->len;
}

guint64
ortrain_executor_get_n_binds (OrtrainExecutor *self)
{
  return self->clock;
}

guint
ortrain_executor_get_n_searches (OrtrainExecutor *self)
{
  return ortrain_plan_choice_memo_get_n_searches (self->family);
}

void
ortrain_executor_set_persistent (OrtrainExecutor *self, OrtrainCategory category, gsize bytes)
{
  self->persistent[category] = (gssize) bytes;
  for (guint e = 0; e < self->entries->len; e++)
    ortrain_memory_plan_set_persistent (((OrtrainExecutorEntry *) self->entries->pdata[e])->plan, category, bytes);
}

/* ---- Running ---- */

gboolean
ortrain_executor_take_memory (OrtrainExecutor *self, GError **error)
{
  OrtrainExecutorEntry *entry = self->current;
  if (!entry->placed && (!ortrain_program_load (entry->program, error) || !resolve_persistent (self, entry, error)))
    return FALSE;
  entry->placed = TRUE;
  return ortrain_step_arena_place (self->config.arena, entry->plan, entry->program, self->config.memory_budget,
                                   &entry->moves, error);
}

/* The first step of a phase; for ORTRAIN_N_PHASES: the number of steps. */
static guint
get_first_step (const OrtrainExecutorEntry *entry, guint phase)
{
  switch (phase)
    {
    case ORTRAIN_PHASE_FORWARD:
      return 0;
    case ORTRAIN_PHASE_BACKWARD:
      return ortrain_memory_plan_get_first_backward_step (entry->plan);
    case ORTRAIN_PHASE_UPDATE:
      return ortrain_memory_plan_get_first_update_step (entry->plan);
    default:
      return ortrain_memory_plan_get_n_steps (entry->plan);
    }
}

/* Feeds that the device does not read where they are, and where in a slot they go: in the order of the inputs. */
static gboolean
find_in_slot (const OrtrainExecutor *self, guint input, OrtrainTensor *tensor, gsize *offset)
{
  const gsize n_bytes = ortrain_tensor_get_n_bytes (tensor);
  if (self->current->input_buffers[input] == G_MAXUINT32 || n_bytes == 0 || ortrain_tensor_peek_device (tensor) != NULL)
    return FALSE;
  *offset += (n_bytes + ORTRAIN_DEVICE_ALIGNMENT - 1) / ORTRAIN_DEVICE_ALIGNMENT * ORTRAIN_DEVICE_ALIGNMENT;
  return TRUE;
}

/* Copies feeds to the next slot, from which the steps then copy them to the device. */
static gboolean
stage_feeds (OrtrainExecutor *self, GError **error)
{
  gsize n_bytes = 0, offset = 0;
  for (guint i = 0; i < self->n_inputs; i++)
    find_in_slot (self, i, self->inputs[i].fed, &n_bytes);
  self->is_staged = n_bytes > 0;
  if (!self->is_staged)
    return TRUE;
  guint8 *slot = ortrain_input_staging_begin (self->config.input_staging, n_bytes, error);
  if (slot == NULL)
    return FALSE;
  ortrain_program_swap_input_buffers (self->current->program);
  ortrain_mapped_file_guard_thread ();
  for (guint i = 0; i < self->n_inputs; i++)
    {
      OrtrainTensor *tensor = self->inputs[i].fed;
      const gsize begin = offset;
      if (!find_in_slot (self, i, tensor, &offset))
        continue;
      memmove (slot + begin, ortrain_tensor_peek_device_address (tensor), ortrain_tensor_get_n_bytes (tensor));
      ortrain_program_set_address (self->current->program, self->current->input_buffers[i], slot + begin);
    }
  return ortrain_executor_check_feeds (self, error);
}

OrtrainTensorDict *
ortrain_executor_make_staged_feeds (OrtrainExecutor *self, guint slot, OrtrainTensorDict *feeds, GError **error)
{
  g_autoptr (OrtrainTensorDict) staged = ortrain_tensor_dict_new ();
  guint8 *address = ortrain_input_staging_get_address (self->config.input_staging, slot);
  gsize offset = 0;
  for (guint i = 0; i < self->n_inputs; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, self->inputs[i].name);
      const gsize begin = offset;
      g_autoptr (OrtrainTensor) there = NULL;
      if (find_in_slot (self, i, tensor, &offset))
        {
          there = ortrain_tensor_new_for_address (ortrain_tensor_get_dtype (tensor), ortrain_tensor_peek_dims (tensor),
                                                  ortrain_tensor_get_rank (tensor), (gsize) (address + begin), FALSE,
                                                  NULL, error);
          if (there == NULL)
            return NULL;
        }
      ortrain_tensor_dict_set (staged, self->inputs[i].name, there != NULL ? there : tensor);
    }
  return g_steal_pointer (&staged);
}

static gboolean
prepare_run (OrtrainExecutor *self, OrtrainPhase phase, GError **error)
{
  if (self->current == NULL)
    {
      g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE, "Nothing has been fed");
      return FALSE;
    }
  if (!ortrain_executor_take_memory (self, error))
    return FALSE;
  return phase != ORTRAIN_PHASE_FORWARD || (ortrain_executor_place_outputs (self, error) &&
                                            (self->config.input_staging == NULL || stage_feeds (self, error)));
}

/* Called after the steps were submitted. */
static gboolean
end_feeds (OrtrainExecutor *self, GError **error)
{
  const gboolean staged = self->is_staged;
  self->is_staged = FALSE;
  return !staged || ortrain_input_staging_end (self->config.input_staging, error);
}

gboolean
ortrain_executor_can_join_phases (OrtrainExecutor *self)
{
  return self->current != NULL && ortrain_program_can_join_phases (self->current->program);
}

gboolean
ortrain_executor_is_guarded (OrtrainExecutor *self)
{
  return self->current != NULL && self->current->is_guarded;
}

gboolean
ortrain_executor_submit (OrtrainExecutor *self, OrtrainProgramRange range, OrtrainPhase phase,
                         GCancellable *cancellable, GError **error)
{
  if (!prepare_run (self, phase, error))
    return FALSE;
  const guint end = range == ORTRAIN_PROGRAM_STEP        ? ORTRAIN_N_PHASES
                    : range == ORTRAIN_PROGRAM_GRADIENTS ? ORTRAIN_PHASE_UPDATE
                                                         : phase + 1;
  const gboolean ok = ortrain_program_submit (self->current->program, range, get_first_step (self->current, phase),
                                              get_first_step (self->current, end), cancellable, error);
  return end_feeds (self, ok ? error : NULL) && ok;
}

gboolean
ortrain_executor_check_fault (OrtrainExecutor *self, const OrtrainFault *fault, gint64 *item, GError **error)
{
  return ortrain_program_check_fault (self->current->program, fault, item, error);
}

gboolean
ortrain_executor_check_feeds (OrtrainExecutor *self, GError **error)
{
  for (guint i = 0; i < self->n_inputs; i++)
    if (self->inputs[i].fed != NULL && !ortrain_tensor_check_file (self->inputs[i].fed, error))
      {
        g_prefix_error (error, "Input '%s': ", ortrain_text_show (self->inputs[i].name));
        return FALSE;
      }
  return TRUE;
}

gboolean
ortrain_executor_run (OrtrainExecutor *self, OrtrainPhase phase, const OrtrainStepBlock *step,
                      GCancellable *cancellable, gint64 *item, GError **error)
{
  if (!prepare_run (self, phase, error))
    return FALSE;
  OrtrainExecutorEntry *entry = self->current;
  self->is_staged = FALSE; /* the run waits for the copies */
  const gint64 begin = ortrain_trace_begin ();
  const gboolean ok = ortrain_device_context_begin (self->config.device_context, step, error) &&
                      ortrain_program_run (entry->program, get_first_step (entry, phase),
                                           get_first_step (entry, phase + 1), cancellable, item, error);
  ortrain_trace_end (begin, "step", ortrain_phase_get_name (phase), NULL);
  if (!ok)
    return FALSE;
  if (!ortrain_step_arena_check (self->config.arena, error) || !ortrain_executor_check_feeds (self, error))
    return FALSE;
  return ortrain_executor_deliver_outputs (self, error);
}
