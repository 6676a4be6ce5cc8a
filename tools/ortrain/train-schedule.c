/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"

#include "train-schedule.h"

gboolean
train_schedule_parse_warm_up (const char *text, gint64 *n_updates, double *n_epochs)
{
  char *end;
  if (g_ascii_string_to_signed (text, 10, 0, G_MAXINT32, n_updates, NULL))
    return TRUE;
  *n_updates = 0;
  *n_epochs = g_ascii_strtod (text, &end);
  return end != text && *n_epochs >= 0 && *n_epochs <= 1e6 &&
         (g_str_equal (end, "epochs") || g_str_equal (end, "epoch"));
}

static OrtrainLrSchedule *
warm_up_to (gint64 warm_up, OrtrainLrSchedule *after)
{
  return warm_up > 0 ? ortrain_warm_up_schedule_new ((guint64) warm_up, after) : g_object_ref (after);
}

OrtrainLrSchedule *
train_schedule_make (const char *name, guint64 n_steps, gint64 warm_up, const TrainPlateau *plateau, GError **error)
{
  const gboolean is_plateau = name != NULL && g_str_equal (name, "plateau");
  if (!is_plateau && (!isnan (plateau->factor) || plateau->patience != -1))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s is for --schedule plateau only",
                   !isnan (plateau->factor) ? "--plateau-factor" : "--plateau-patience");
      return NULL;
    }
  if (is_plateau)
    {
      if (!isnan (plateau->factor) && !(plateau->factor >= 0 && plateau->factor < 1))
        g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--plateau-factor is from 0 to below 1");
      else if (plateau->patience < -1)
        g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--plateau-patience is at least 0");
      else
        {
          g_autoptr (OrtrainLrSchedule) schedule = ortrain_plateau_schedule_new (
              isnan (plateau->factor) ? 0.1 : plateau->factor, plateau->patience < 0 ? 10 : (guint) plateau->patience);
          return warm_up_to (warm_up, schedule);
        }
      return NULL;
    }
  if (name == NULL || g_str_equal (name, "constant"))
    {
      g_autoptr (OrtrainLrSchedule) constant = ortrain_constant_schedule_new (1.0);
      return warm_up_to (warm_up, constant);
    }
  /* a twentieth of the steps to warm up; the rest, of which there is some, falls to nothing at the end */
  const guint64 rise = MIN (warm_up >= 0 ? (guint64) warm_up : n_steps / 20, n_steps - 1), rest = n_steps - rise;
  g_autoptr (OrtrainLrSchedule) after = NULL;
  if (g_str_equal (name, "linear"))
    after = ortrain_linear_schedule_new (rest);
  else if (g_str_equal (name, "cosine"))
    after = ortrain_cosine_schedule_new (rest);
  if (after != NULL)
    return ortrain_warm_up_schedule_new (rise, after);
  if (g_str_equal (name, "one-cycle"))
    return ortrain_one_cycle_schedule_new (n_steps);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "There is no schedule '%s'; the schedules are constant, linear, cosine, one-cycle, plateau", name);
  return NULL;
}

#define KEY_ITEMS "train.items-per-update"

void
train_schedule_keep_items (OrtrainTrainingSession *session, guint64 items)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, items);
  ortrain_training_session_set_metadata (session, KEY_ITEMS, text);
}

static gboolean
falls_over_updates (const char *name)
{
  return name != NULL &&
         (g_str_equal (name, "linear") || g_str_equal (name, "cosine") || g_str_equal (name, "one-cycle"));
}

gboolean
train_schedule_check_items (const char *name, const char *checkpoint, guint64 items, GError **error)
{
  if (!falls_over_updates (name))
    return TRUE;
  g_autoptr (OrtrainCheckpoint) loaded = ortrain_checkpoint_load (checkpoint, error);
  GVariant *metadata = loaded != NULL ? ortrain_checkpoint_get_value (loaded, "metadata") : NULL; /* of the session */
  const char *text = NULL;
  guint64 before;
  if (loaded == NULL)
    return FALSE;
  if (metadata == NULL || !g_variant_is_of_type (metadata, G_VARIANT_TYPE ("a{ss}")) ||
      !g_variant_lookup (metadata, KEY_ITEMS, "&s", &text) ||
      !g_ascii_string_to_unsigned (text, 10, 1, G_MAXUINT64, &before, NULL) || before == items)
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "--schedule %s is spread over the updates of all epochs, and an update of %s had %" G_GUINT64_FORMAT
               " item%s, not %" G_GUINT64_FORMAT ": continue with that batch size, or with --schedule constant",
               name, checkpoint, before, ortrain_text_plural (before), items);
  return FALSE;
}
