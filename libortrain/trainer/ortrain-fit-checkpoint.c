/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-fit-private.h"

#include "checkpoint/ortrain-checkpoint-private.h"
#include "core/ortrain-text-private.h"
#include "runtime/ortrain-parameter-store-private.h"
#include "trainer/ortrain-training-history-private.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The state of a training in a checkpoint, in addition to the session's: enough to go on in the middle of an epoch. */
#define KEY_LOADER "trainer.loader"
#define KEY_EPOCH "trainer.epoch"
#define KEY_BEST "trainer.best"
#define KEY_MONITOR "trainer.monitor"
#define KEY_WAITED "trainer.waited"
#define KEY_SUM "trainer.loss-sum"
#define KEY_SUMMED "trainer.loss-terms"
#define KEY_WEIGHT "trainer.loss-weight" /* older ones have none: each term counts 1 */
#define KEY_UNCOUNTED "trainer.uncounted-steps"
#define KEY_SKIPPED "trainer.skipped-updates"
#define KEY_PEAK "trainer.peak-bytes"
#define KEY_TRAINED "trainer.trained" /* the epoch lacks nothing but its validation */

static void
keep_number (OrtrainTrainer *self, const char *key, double number)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE]; /* the same bits when read again */
  ortrain_training_session_set_metadata (self->session, key, g_ascii_dtostr (text, sizeof text, number));
}

/* The number of a file, which may say anything; left as it is if the file says nothing. */
static gboolean
read_number (GVariant *metadata, const char *key, double *number, GError **error)
{
  const char *text;
  char *end;
  if (!g_variant_lookup (metadata, key, "&s", &text))
    return TRUE;
  *number = g_ascii_strtod (text, &end);
  if (end != text && *end == '\0')
    return TRUE;
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
               "Checkpoint value '%s' is '%s', not a number", ortrain_text_show (key), ortrain_text_show (text));
  return FALSE;
}

static gboolean
read_count (GVariant *metadata, const char *key, guint64 most, guint64 *count, GError **error)
{
  double number = 0;
  *count = 0;
  if (!read_number (metadata, key, &number, error))
    return FALSE;
  if (number >= 0 && number <= (double) most && number == floor (number))
    {
      *count = (guint64) number;
      return TRUE;
    }
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
               "Checkpoint value '%s' is %g, not an integer from 0 to %" G_GUINT64_FORMAT, ortrain_text_show (key),
               number, most);
  return FALSE;
}

/* Reads a loss, or the monitored value. Where training stops at a loss that is not finite, no checkpoint has such a
 * loss. */
static gboolean
read_value (GVariant *metadata, const char *key, gboolean may_be_none, gboolean stops, double *value, GError **error)
{
  if (!read_number (metadata, key, value, error))
    return FALSE;
  if (!stops || isfinite (*value) || (may_be_none && isnan (*value)))
    return TRUE;
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
               "Checkpoint value '%s' is %g, not a finite number", ortrain_text_show (key), *value);
  return FALSE;
}

/* In the folder of the last checkpoint, whose files have other names. */
#define BEST_FOLDER "best"

static gboolean
save_session (OrtrainTrainer *self, OrtrainFit *fit, const char *path, GError **error)
{
  if (!ortrain_training_session_run_check_finite (self->session, error))
    {
      g_prefix_error (error, "No checkpoint was saved: ");
      return FALSE;
    }
  g_autoptr (GVariant) state = ortrain_data_loader_get_state (fit->loader);
  g_autofree char *loader = g_variant_print (state, TRUE);
  ortrain_training_session_set_metadata (self->session, KEY_LOADER, loader);
  keep_number (self, KEY_EPOCH, fit->epoch);
  keep_number (self, KEY_WAITED, fit->waited);
  keep_number (self, KEY_BEST, fit->best);
  ortrain_training_session_set_metadata (self->session, KEY_MONITOR, fit->history->monitor.name);
  keep_number (self, KEY_SUM, fit->sum);
  keep_number (self, KEY_SUMMED, (double) fit->n_summed);
  keep_number (self, KEY_WEIGHT, fit->weight);
  keep_number (self, KEY_UNCOUNTED, (double) fit->n_uncounted);
  keep_number (self, KEY_SKIPPED, (double) fit->n_skipped);
  keep_number (self, KEY_PEAK, (double) fit->peak_bytes);
  keep_number (self, KEY_TRAINED, fit->trained);
  return ortrain_training_session_run_save_checkpoint (self->session, path, NULL, error);
}

/* The best state, where its epoch was not saved as a whole: without the state of the optimizer. */
static gboolean
save_best_tensors (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  g_autofree char *path = g_build_filename (self->checkpoint_dir, BEST_FOLDER, NULL);
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_new ();
  ortrain_checkpoint_set_tensors (checkpoint, "parameters", fit->best_state);
  fit->best_is_saved = ortrain_checkpoint_save (checkpoint, path, NULL, error);
  return fit->best_is_saved;
}

/* The best one is always on the disk before the last one, which says how good it is. */
static gboolean
make_folder (OrtrainTrainer *self, GError **error)
{
  if (g_mkdir_with_parents (self->checkpoint_dir, 0777) == 0)
    return TRUE;
  const int code = errno;
  g_set_error (error, G_IO_ERROR, (gint) g_io_error_from_errno (code), "Cannot create the folder '%s': %s",
               ortrain_text_show (self->checkpoint_dir), g_strerror (code));
  return FALSE;
}

gboolean
ortrain_fit_save_checkpoint (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  if (self->checkpoint_dir == NULL)
    return TRUE;
  if (fit->best_state != NULL && !fit->best_is_saved &&
      (!make_folder (self, error) || !save_best_tensors (self, fit, error)))
    return FALSE;
  if (!save_session (self, fit, self->checkpoint_dir, error))
    return FALSE;
  ortrain_trainer_emit (self, ORTRAIN_TRAINER_EVENT, g_file_new_for_path (self->checkpoint_dir), g_object_unref);
  return TRUE;
}

static gboolean
restores_best (OrtrainTrainer *self)
{
  return self->patience > 0 && self->restore_best;
}

gboolean
ortrain_fit_keep_best (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  fit->best_is_saved = FALSE;
  if (restores_best (self))
    {
      g_clear_object (&fit->best_state); /* first, so that there are never two */
      fit->best_state = ortrain_training_session_get_state (self->session, error);
      if (fit->best_state == NULL)
        return FALSE;
    }
  if (self->checkpoint_dir == NULL || self->checkpoint_epochs == 0 || (self->patience == 0 && self->validation == NULL))
    return TRUE;
  g_autofree char *path = g_build_filename (self->checkpoint_dir, BEST_FOLDER, NULL);
  fit->best_is_saved = make_folder (self, error) && save_session (self, fit, path, error);
  return fit->best_is_saved;
}

gboolean
ortrain_fit_restore_best (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  if (fit->best_state == NULL || (fit->waited == 0 && fit->n_summed == 0))
    return TRUE;
  return ortrain_training_session_restore (self->session, fit->best_state, error);
}

/* Whether the tensors that the session gets at the end fit it. */
static gboolean
check_best (OrtrainTrainer *self, OrtrainTensorDict *state, GError **error)
{
  for (guint i = 0; i < ortrain_tensor_dict_get_size (state); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (state, i);
      if (ortrain_training_session_fits (self->session, name, ortrain_tensor_dict_get_tensor (state, i)))
        continue;
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                   "Tensor '%s' of the best epoch does not fit the session", ortrain_text_show (name));
      return FALSE;
    }
  return TRUE;
}

/* Reads the best state, if the last checkpoint refers to one. */
static gboolean
load_best (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  g_autofree char *path = g_build_filename (self->checkpoint_dir, BEST_FOLDER, NULL);
  if (!restores_best (self) || isnan (fit->best) || !ortrain_checkpoint_exists (path))
    return TRUE;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (path, error);
  if (checkpoint == NULL)
    return FALSE;
  g_autoptr (OrtrainTensorDict) state = ortrain_tensor_dict_new ();
  static const char *const sections[] = { "parameters", "buffers" };
  for (guint i = 0; i < G_N_ELEMENTS (sections); i++)
    {
      OrtrainTensorDict *tensors = ortrain_checkpoint_get_tensors (checkpoint, sections[i]);
      for (guint k = 0; tensors != NULL && k < ortrain_tensor_dict_get_size (tensors); k++)
        ortrain_tensor_dict_set (state, ortrain_tensor_dict_get_name (tensors, k),
                                 ortrain_tensor_dict_get_tensor (tensors, k));
    }
  if (!check_best (self, state, error))
    {
      g_prefix_error (error, "%s: ", ortrain_text_show (path));
      return FALSE;
    }
  fit->best_state = g_steal_pointer (&state);
  fit->best_is_saved = TRUE;
  return TRUE;
}

typedef struct
{
  OrtrainTrainer *self;
  OrtrainFit *fit;
} Resumption;

/* Reads the trainer's values, before the session is changed. */
static gboolean
read_metadata (GVariant *metadata, gpointer data, GError **error)
{
  const Resumption *resumption = data;
  OrtrainTrainer *self = resumption->self;
  OrtrainFit *fit = resumption->fit;
  const gboolean stops =
      ortrain_training_options_get_stop_on_nan (ortrain_training_session_get_options (self->session));
  const char *loader;
  if (metadata == NULL || !g_variant_lookup (metadata, KEY_LOADER, "&s", &loader))
    return TRUE; /* saved by hand: parameters only */
  const char *monitor = "";
  g_variant_lookup (metadata, KEY_MONITOR, "&s", &monitor);
  /* the best epoch by something else says nothing of the best by this */
  const gboolean same = g_str_equal (monitor, fit->history->monitor.name);
  const gboolean best_is_finite = stops && g_str_equal (monitor, ORTRAIN_MONITOR_LOSS);
  guint64 epoch, waited, trained;
  double best = NAN, sum = 0, weight;
  if (!read_count (metadata, KEY_EPOCH, G_MAXINT32, &epoch, error) ||
      !read_count (metadata, KEY_WAITED, G_MAXINT32, &waited, error) ||
      !read_count (metadata, KEY_SUMMED, (guint64) 1 << 53, &fit->n_summed, error) ||
      !read_count (metadata, KEY_UNCOUNTED, (guint64) 1 << 53, &fit->n_uncounted, error) ||
      !read_count (metadata, KEY_SKIPPED, (guint64) 1 << 53, &fit->n_skipped, error) ||
      !read_count (metadata, KEY_PEAK, (guint64) 1 << 53, &fit->peak_bytes, error) ||
      !read_count (metadata, KEY_TRAINED, 1, &trained, error) ||
      !read_value (metadata, KEY_BEST, TRUE, best_is_finite, &best, error) ||
      !read_value (metadata, KEY_SUM, FALSE, stops, &sum, error))
    return FALSE;
  weight = (double) fit->n_summed;
  if (!read_value (metadata, KEY_WEIGHT, FALSE, TRUE, &weight, error))
    return FALSE;
  g_autoptr (GVariant) state = g_variant_parse (NULL, loader, NULL, NULL, error);
  if (state == NULL || !ortrain_data_loader_set_state (fit->loader, state, error))
    {
      g_prefix_error (error, "Checkpoint value '" KEY_LOADER "': ");
      return FALSE;
    }
  ortrain_data_loader_set_batch_size (fit->loader, self->batch_size); /* the position counts items */
  fit->best = same ? best : NAN;
  fit->sum = sum;
  fit->weight = weight;
  fit->epoch = (guint) epoch;
  fit->waited = same ? (guint) waited : 0;
  fit->trained = trained == 1;
  guint64 position = 0;
  if (g_variant_lookup (state, "position", "t", &position))
    fit->step = position / self->batch_size + (position % self->batch_size != 0);
  if ((fit->epoch > 0 || fit->step > 0) && !ortrain_fit_check_logs (self, error))
    return FALSE;
  return load_best (self, fit, error);
}

gboolean
ortrain_fit_resume (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  Resumption resumption = { self, fit };
  gboolean found;
  if (!self->resume || self->checkpoint_dir == NULL)
    return TRUE;
  return ortrain_checkpoint_find (self->checkpoint_dir, &found, error) &&
         (!found || ortrain_training_session_run_load_checkpoint (self->session, self->checkpoint_dir, read_metadata,
                                                                  &resumption, error));
}
