/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Advice on how to bring a training step within the budget that it exceeds. */
#include "session/ortrain-training-session-private.h"

#include "core/ortrain-bytes.h"
#include "training-graph/ortrain-update-graph-private.h"

#define MAX_PROBES 5 /* searches for a smaller batch, each as long as the one that has failed */

/* ---- Ways out, each counted; none that is switched on already ---- */

static void append_way (GString *text, const char *format, ...) G_GNUC_PRINTF (2, 3);

static void
append_way (GString *text, const char *format, ...)
{
  va_list arguments;
  g_string_append (text, text->len == 0 ? ". Ways out: " : "; ");
  va_start (arguments, format);
  g_string_append_vprintf (text, format, arguments);
  va_end (arguments);
}

static void
append_batch (OrtrainTrainingSession *self, GString *text, OrtrainTensorDict *feeds)
{
  const guint64 budget = ortrain_training_options_get_memory_budget (self->options);
  gint64 fits = 0, batch = ortrain_training_session_find_batch (self, feeds);
  g_autoptr (OrtrainMemoryPlan) best = NULL;
  OrtrainPlanChoiceMemo *family = ortrain_plan_choice_memo_new ();
  gint64 fails = batch;
  for (guint probe = 0; probe < MAX_PROBES && fails - fits > 1; probe++)
    {
      const gint64 middle = fits + (fails - fits) / 2;
      g_autoptr (OrtrainMemoryPlan) plan =
          ortrain_training_session_try_batch (self, feeds, middle, budget, TRUE, FALSE, family, NULL);
      if (plan != NULL)
        {
          fits = middle;
          g_set_object (&best, plan);
        }
      else
        fails = middle;
    }
  ortrain_plan_choice_memo_free (family);
  if (fits == 0)
    return;
  g_autofree char *bytes = ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (best));
  append_way (text, "a batch of %" G_GINT64_FORMAT " instead of %" G_GINT64_FORMAT " needs %s", fits, batch, bytes);
}

static void
append_offload (OrtrainTrainingSession *self, GString *text, OrtrainTensorDict *feeds)
{
  const guint64 budget = ortrain_training_options_get_memory_budget (self->options);
  const gint64 batch = ortrain_training_session_find_batch (self, feeds);
  if (batch == 0 || ortrain_training_session_get_config (self).offloads)
    return;
  g_autoptr (OrtrainMemoryPlan) plan =
      ortrain_training_session_try_batch (self, feeds, batch, budget, TRUE, TRUE, NULL, NULL);
  if (plan == NULL)
    return;
  g_autofree char *bytes = ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (plan));
  g_autofree char *offloaded = ortrain_format_bytes (ortrain_memory_plan_get_offloaded_bytes (plan));
  append_way (text, "offload=on needs %s, and copies %s out of memory and back in each step", bytes, offloaded);
}

static void
append_immediate_updates (OrtrainTrainingSession *self, GString *text)
{
  OrtrainUpdateRule rule;
  const gsize gradients = self->store->bytes[ORTRAIN_CATEGORY_GRADIENT];
  ortrain_update_rule_init (&rule, self->options, ortrain_update_set_get_optimizer (self->store->updates),
                            self->rule.scaling.is_on, ORTRAIN_IMMEDIATE_UPDATES_ON);
  if (gradients == 0 || self->rule.immediate || !rule.immediate)
    return;
  g_autofree char *bytes = ortrain_format_bytes (gradients);
  append_way (text, "immediate-updates keeps no gradients: up to %s less", bytes);
}

static void
append_state_precision (OrtrainTrainingSession *self, GString *text)
{
  const OrtrainOptimizerDescription *optimizer = &self->rule.optimizer;
  guint64 saved = 0;
  if (optimizer->op_type == NULL || optimizer->states_only_grow || optimizer->n_states == 0 ||
      optimizer->state_precision != ORTRAIN_STATE_PRECISION_F32)
    return;
  for (guint i = 0; i < self->graph->parameters->len; i++)
    {
      const OrtrainTrainedTensor *trained = &g_array_index (self->graph->parameters, OrtrainTrainedTensor, i);
      const gint64 *dims = ortrain_tensor_peek_dims (trained->initial);
      const guint rank = (guint) ortrain_tensor_get_rank (trained->initial);
      const gint64 n = ortrain_tensor_get_n_elements (trained->initial);
      guint64 bytes[2];
      for (guint k = 0; k < 2; k++)
        {
          OrtrainStateForm form;
          ortrain_state_form_init (&form, k == 0 ? ORTRAIN_STATE_PRECISION_F32 : ORTRAIN_STATE_PRECISION_INT8,
                                   trained->dtype, dims, rank, n);
          bytes[k] = (guint64) form.n_elements * ortrain_dtype_get_size (form.dtype);
        }
      saved += (bytes[0] - bytes[1]) * optimizer->n_states;
    }
  if (saved == 0)
    return;
  g_autofree char *less = ortrain_format_bytes (saved);
  append_way (text, "state-precision=int8: %s less, changes the numerics", less);
}

static void
append_precision (OrtrainTrainingSession *self, GString *text)
{
  if (ortrain_training_options_get_precision (self->options) == ORTRAIN_PRECISION_F32)
    append_way (text, "precision=bf16: about half of what the forward pass keeps, changes the numerics");
}

/* Appends the free memory of the device, to which the budget could be raised. */
static void
append_free (OrtrainTrainingSession *self, GString *text)
{
  const OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  guint64 total = 0, available = 0;
  provider->klass->get_memory (provider, &total, &available);
  if (total == 0)
    return;
  g_autofree char *free_bytes = ortrain_format_bytes (available);
  g_string_append_printf (text, "; of '%s', %s are free", provider->device_name, free_bytes);
}

void
ortrain_training_session_explain_budget (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, GError *error)
{
  g_autoptr (GString) text = g_string_new (NULL), free_text = g_string_new (NULL);
  append_free (self, free_text);
  append_batch (self, text, feeds);
  append_offload (self, text, feeds);
  append_immediate_updates (self, text);
  append_state_precision (self, text);
  append_precision (self, text);
  g_autofree char *message = error->message;
  error->message = g_strconcat (message, free_text->str, text->str, NULL);
}
