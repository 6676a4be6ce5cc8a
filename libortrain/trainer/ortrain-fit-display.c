/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-fit-private.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-text-private.h"
#include "plan/ortrain-plan-tables-private.h"

#include <math.h>
#include <string.h>

static char *
describe_model (OrtrainTrainingSession *session)
{
  OrtrainModel *model = ortrain_training_session_get_model (session);
  const char *path = ortrain_model_get_path (model), *name = ortrain_model_get_name (model);
  g_autofree char *file = path != NULL ? g_path_get_basename (path) : NULL;
  const char *provider = ortrain_training_session_get_device_name (session);
  const guint asked = ortrain_training_options_get_threads (ortrain_training_session_get_options (session));
  const guint threads = asked > 0 ? asked : g_get_num_processors ();
  return g_strdup_printf ("%s on %s, %u thread%s",
                          ortrain_text_show (file != NULL                      ? file
                                             : name != NULL && name[0] != '\0' ? name
                                                                               : "a model"),
                          provider, threads, ortrain_text_plural (threads));
}

static char *
describe_parameters (OrtrainTrainingSession *session)
{
  const guint64 n = ortrain_training_session_get_n_parameters (session),
                all = ortrain_model_get_n_parameters (ortrain_training_session_get_model (session)),
                n_statistics = ortrain_training_session_get_n_buffer_elements (session);
  const guint64 n_frozen = all - MIN (n + n_statistics, all);
  g_autofree char *size = ortrain_format_bytes (ortrain_training_session_get_parameter_bytes (session));
  g_autofree char *statistics = n_statistics > 0 ? g_strdup_printf (", %" G_GUINT64_FORMAT " running statistic%s",
                                                                    n_statistics, ortrain_text_plural (n_statistics))
                                                 : g_strdup ("");
  return g_strdup_printf ("%" G_GUINT64_FORMAT " trained (%s), %" G_GUINT64_FORMAT " frozen%s", n, size, n_frozen,
                          statistics);
}

static char *
describe_data (OrtrainTrainer *self, OrtrainFit *fit)
{
  GString *text = g_string_new (NULL);
  const guint64 n_batches = ortrain_data_loader_get_n_batches (fit->loader);
  const guint64 n_items = ortrain_dataset_get_length (self->dataset);
  const guint64 n_held_out = self->validation != NULL ? ortrain_dataset_get_length (self->validation) : 0;
  g_string_printf (text,
                   "%" G_GUINT64_FORMAT " item%s in batches of %u, %" G_GUINT64_FORMAT " step%s an epoch, %u epoch%s",
                   n_items, ortrain_text_plural (n_items), self->batch_size, n_batches, ortrain_text_plural (n_batches),
                   self->epochs, ortrain_text_plural (self->epochs));
  const guint accumulation_steps =
      ortrain_training_options_get_accumulation_steps (ortrain_training_session_get_options (self->session));
  if (accumulation_steps > 1)
    g_string_append_printf (text, ", an update every %u steps", accumulation_steps);
  if (self->validation != NULL)
    g_string_append_printf (text, "; %" G_GUINT64_FORMAT " item%s to validate", n_held_out,
                            ortrain_text_plural (n_held_out));
  if (fit->trained)
    g_string_append_printf (text, "; resumed after the steps of epoch %u", fit->epoch + 1);
  else if (fit->epoch > 0 || fit->step > 0)
    g_string_append_printf (text, "; resumed in epoch %u", fit->epoch + 1);
  if (!fit->trained && fit->step > 0)
    g_string_append_printf (text, " after step %" G_GUINT64_FORMAT, fit->step);
  return g_string_free (text, FALSE);
}

/* Appends a schedule, and those that it contains: a warm-up contains the schedule that follows it. */
static void
append_schedule (GString *text, OrtrainLrSchedule *schedule)
{
  g_string_append_printf (text, ", %s", ortrain_text_name_class (schedule));
  guint n;
  g_autofree GParamSpec **found = g_object_class_list_properties (G_OBJECT_GET_CLASS (schedule), &n);
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (OrtrainLrSchedule) held = NULL;
      if (g_type_is_a (found[i]->value_type, ORTRAIN_TYPE_LR_SCHEDULE))
        g_object_get (schedule, found[i]->name, &held, NULL);
      if (held != NULL)
        append_schedule (text, held);
    }
}

static char *
describe_optimizer (OrtrainTrainingSession *session)
{
  OrtrainTrainingOptions *options = ortrain_training_session_get_options (session);
  OrtrainOptimizer *optimizer = ortrain_training_options_get_optimizer (options);
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (options);
  GString *text = g_string_new (ortrain_text_name_class (optimizer));
  g_string_append_printf (text, ", learning rate %g", ortrain_optimizer_get_learning_rate (optimizer));
  if (schedule != NULL)
    append_schedule (text, schedule);
  else
    g_string_append (text, ", no schedule");
  return g_string_free (text, FALSE);
}

static char *
describe_memory (OrtrainMemoryPlan *plan)
{
  static const struct
  {
    OrtrainCategory category;
    const char *name;
  } parts[] = { { ORTRAIN_CATEGORY_PARAMETER, "parameters" },
                { ORTRAIN_CATEGORY_GRADIENT, "gradients" },
                { ORTRAIN_CATEGORY_STATE, "optimizer" } };
  g_autofree char *peak = ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (plan));
  g_autofree char *arena = ortrain_format_bytes (ortrain_memory_plan_get_arena_bytes (plan));
  GString *text = g_string_new (NULL);
  g_string_printf (text, "%s at the peak: ", peak);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_autofree char *bytes = ortrain_format_bytes (ortrain_memory_plan_get_persistent (plan, parts[i].category));
      g_string_append_printf (text, "%s %s, ", parts[i].name, bytes);
    }
  g_string_append_printf (text, "activations %s", arena);
  return g_string_free (text, FALSE);
}

void
ortrain_fit_show_start (OrtrainTrainer *self, OrtrainFit *fit, OrtrainTensorDict *batch)
{
  if (fit->is_shown || !(self->display.active || ortrain_trainer_wants_start (self)))
    return;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainMemoryPlan) plan =
      batch != NULL ? ortrain_training_session_run_plan (self->session, batch, &error) : NULL;
  if (error != NULL && error->domain == ORTRAIN_SESSION_ERROR)
    return; /* the step will say so: nothing begins */
  fit->is_shown = TRUE;
  g_autofree char *model = describe_model (self->session);
  g_autofree char *parameters = describe_parameters (self->session);
  g_autofree char *data = describe_data (self, fit);
  g_autofree char *optimizer = describe_optimizer (self->session);
  g_autofree char *memory = plan != NULL ? describe_memory (plan) : NULL;
  GString *lines = g_string_new (NULL);
  g_string_append_printf (lines, "model       %s\nparameters  %s\ndata        %s\noptimizer   %s", model, parameters,
                          data, optimizer);
  if (memory != NULL)
    g_string_append_printf (lines, "\nmemory      %s", memory);
  ortrain_trainer_emit (self, ORTRAIN_TRAINER_START, g_string_free (lines, FALSE), g_free);
}

/* Items of the training that are done, those before it was resumed included. */
static double
count_items (OrtrainTrainer *self, OrtrainFit *fit, guint epoch, guint64 step)
{
  const guint64 n = ortrain_dataset_get_length (self->dataset),
                batches = ortrain_data_loader_get_n_batches (fit->loader) * self->batch_size;
  return (double) MIN (n, batches) * epoch + (double) MIN (MIN (n, batches), step * self->batch_size);
}

void
ortrain_fit_measure (OrtrainTrainer *self, OrtrainFit *fit, double *items_per_second, double *seconds_left)
{
  const double now = g_timer_elapsed (fit->timer, NULL) - fit->paused;
  const double items = count_items (self, fit, fit->epoch, fit->step);
  *items_per_second = 0;
  *seconds_left = -1;
  if (!fit->is_measured) /* the first step also plans, and takes memory: it says nothing of those that follow */
    {
      fit->is_measured = TRUE;
      fit->measured_since = now;
      fit->measured_items = items;
      return;
    }
  if (now <= fit->measured_since || items <= fit->measured_items)
    return;
  *items_per_second = (items - fit->measured_items) / (now - fit->measured_since);
  *seconds_left = (count_items (self, fit, self->epochs, 0) - items) / *items_per_second +
                  fit->last_pause * (self->epochs - fit->epoch);
}
