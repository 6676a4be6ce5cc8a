/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-training-log-private.h"

#include "core/ortrain-text-private.h"

#include <errno.h>
#include <fcntl.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef enum
{
  FORM_NONE,
  FORM_CSV,
  FORM_JSON,
  FORM_EVENTS, /* of a file, or in a folder */
} Form;

struct _OrtrainTrainingLog
{
  Form form;
  char *path; /* of the file */
  int fd;
  gint64 end;
  GByteArray *entry; /* used again and again */
  char **names;      /* of metrics */
};

static const char *const column_names[] = { "loss",    "learning_rate",   "validation_loss", "accuracy",
                                            "seconds", "skipped_updates", "uncounted_steps" };
static const char *const step_tags[] = { "train/loss", "train/learning_rate", NULL, NULL, NULL, NULL, NULL };
static const char *const epoch_tags[] = { "epoch/loss",           "epoch/learning_rate", "validation/loss",
                                          "validation/accuracy",  "epoch/seconds",       "epoch/skipped_updates",
                                          "epoch/uncounted_steps" };
G_STATIC_ASSERT (G_N_ELEMENTS (column_names) == ORTRAIN_N_LOG_COLUMNS);
G_STATIC_ASSERT (G_N_ELEMENTS (step_tags) == ORTRAIN_N_LOG_COLUMNS);
G_STATIC_ASSERT (G_N_ELEMENTS (epoch_tags) == ORTRAIN_N_LOG_COLUMNS);

static gboolean
is_folder (const char *path)
{
  return g_str_has_suffix (path, "/") || g_file_test (path, G_FILE_TEST_IS_DIR);
}

static Form
get_form (const char *path)
{
  g_autofree char *name = g_path_get_basename (path);
  if (is_folder (path) || strstr (name, "tfevents") != NULL)
    return FORM_EVENTS;
  if (g_str_has_suffix (name, ".csv"))
    return FORM_CSV;
  return g_str_has_suffix (name, ".jsonl") || g_str_has_suffix (name, ".ndjson") ? FORM_JSON : FORM_NONE;
}

gboolean
ortrain_training_log_check_path (const char *path, GError **error)
{
  if (get_form (path) != FORM_NONE)
    return TRUE;
  g_set_error (
      error, G_IO_ERROR, G_IO_ERROR_INVALID_FILENAME,
      "Log '%s' has no form; use a name that ends in .csv or .jsonl, or, for TensorBoard, a folder that exists "
      "or ends in '/'",
      ortrain_text_show (path));
  return FALSE;
}

static gboolean
fail (OrtrainTrainingLog *self, const char *what, GError **error)
{
  const int code = errno;
  g_set_error (error, G_IO_ERROR, (gint) g_io_error_from_errno (code), "Cannot %s the log '%s': %s", what,
               ortrain_text_show (self->path), g_strerror (code));
  return FALSE;
}

/* One entry, all of it or nothing. */
static gboolean
append (OrtrainTrainingLog *self, gconstpointer data, gsize n_bytes, GError **error)
{
  gssize n;
  do
    n = write (self->fd, data, n_bytes);
  while (n < 0 && errno == EINTR);
  if (n == (gssize) n_bytes)
    {
      self->end += n;
      return TRUE;
    }
  if (n >= 0)
    errno = ENOSPC; /* a file takes less than it is given for no other reason */
  fail (self, "write", error);
  if (n > 0 && ftruncate (self->fd, (off_t) self->end) == 0)
    lseek (self->fd, (off_t) self->end, SEEK_SET);
  return FALSE;
}

/* The step of a line that ends where it should; 0: of the names of columns. */
static guint64
get_step_of_line (Form form, const char *line)
{
  const char *step = NULL;
  if (form == FORM_JSON)
    {
      step = strstr (line, "\"step\":");
      step = step != NULL ? step + strlen ("\"step\":") : NULL;
    }
  else
    for (guint commas = 0; *line != '\0' && step == NULL; line++)
      if (*line == ',' && ++commas == 2)
        step = line + 1;
  return step != NULL ? g_ascii_strtoull (step, NULL, 10) : 0;
}

/* How much of a file remains when training continues after a step. */
static gsize
get_kept (Form form, const char *text, gsize length, guint64 last_step)
{
  if (form == FORM_EVENTS)
    return ortrain_events_get_complete ((const guint8 *) text, length);
  gsize kept = 0;
  const char *end;
  while ((end = memchr (text + kept, '\n', length - kept)) != NULL)
    {
      g_autofree char *line = g_strndup (text + kept, (gsize) (end - text) - kept);
      if (get_step_of_line (form, line) > last_step)
        break;
      kept = (gsize) (end - text) + 1;
    }
  return kept;
}

static gboolean
open_file (OrtrainTrainingLog *self, guint64 last_step, GError **error)
{
  g_autofree char *text = NULL;
  gsize length = 0;
  const gboolean exists = last_step > 0 && g_file_test (self->path, G_FILE_TEST_IS_REGULAR);
  if (exists && !g_file_get_contents (self->path, &text, &length, error))
    return FALSE;
  self->fd = open (self->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (self->fd < 0)
    return fail (self, "open", error);
  const gsize kept = exists ? get_kept (self->form, text, length, last_step) : 0;
  self->end = (gint64) kept;
  /* a pipe or a terminal has no end */
  if (ftruncate (self->fd, (off_t) kept) != 0 && errno != EINVAL)
    return fail (self, "open", error);
  if (kept > 0 && lseek (self->fd, (off_t) kept, SEEK_SET) < 0)
    return fail (self, "open", error);
  return TRUE;
}

/* Each training writes a file of its own, as TensorBoard expects. */
static gboolean
open_in_folder (OrtrainTrainingLog *self, const char *folder, GError **error)
{
  self->path = g_strdup (folder);
  if (g_mkdir_with_parents (folder, 0777) != 0)
    return fail (self, "create", error);
  for (guint i = 0; self->fd < 0; i++)
    {
      g_autofree char *name = g_strdup_printf ("events.out.tfevents.%010" G_GINT64_FORMAT ".%s.%d.%u",
                                               g_get_real_time () / G_USEC_PER_SEC, g_get_host_name (), getpid (), i);
      g_free (self->path);
      self->path = g_build_filename (folder, name, NULL);
      self->fd = open (self->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (self->fd < 0 && errno != EEXIST)
        return fail (self, "create", error);
    }
  return TRUE;
}

static void
append_text (GByteArray *bytes, const char *text)
{
  g_byte_array_append (bytes, (const guint8 *) text, (guint) strlen (text));
}

/* A cell of a table; the name of a metric may be anything. */
static void
append_cell (GByteArray *bytes, const char *name)
{
  if (strpbrk (name, ",\"\r\n") == NULL)
    {
      append_text (bytes, name);
      return;
    }
  g_auto (GStrv) parts = g_strsplit (name, "\"", -1);
  g_autofree char *doubled = g_strjoinv ("\"\"", parts);
  append_text (bytes, "\"");
  append_text (bytes, doubled);
  append_text (bytes, "\"");
}

static void
append_member (GByteArray *bytes, const char *name)
{
  g_autoptr (JsonNode) node = json_node_init_string (json_node_alloc (), name);
  g_autofree char *text = json_to_string (node, FALSE);
  append_text (bytes, text);
}

static void
append_columns (GByteArray *bytes, const char *const *names)
{
  append_text (bytes, "event,epoch,step");
  for (guint i = 0; i < ORTRAIN_N_LOG_COLUMNS; i++)
    {
      append_text (bytes, ",");
      append_text (bytes, column_names[i]);
    }
  for (guint i = 0; names[i] != NULL; i++)
    {
      append_text (bytes, ",");
      append_cell (bytes, names[i]);
    }
  append_text (bytes, "\n");
}

gboolean
ortrain_training_log_check_columns (const char *path, const char *const *names, GError **error)
{
  g_autofree char *text = NULL;
  gsize length = 0;
  if (get_form (path) != FORM_CSV || !g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return TRUE;
  if (!g_file_get_contents (path, &text, &length, error))
    return FALSE;
  g_autoptr (GByteArray) wanted = g_byte_array_new ();
  append_columns (wanted, names);
  /* a killed process may have left a part of the first line */
  const char *end = memchr (text, '\n', length);
  const gsize n = end != NULL ? (gsize) (end - text) + 1 : length;
  if (n <= wanted->len && memcmp (text, wanted->data, n) == 0)
    return TRUE;
  g_autofree char *old = g_strndup (text, end != NULL ? n - 1 : n);
  g_autofree char *new = g_strndup ((const char *) wanted->data, wanted->len - 1);
  gsize same = 0; /* up to the last comma that both have */
  for (gsize i = 0; old[i] != '\0' && old[i] == new[i]; i++)
    if (old[i] == ',')
      same = i + 1;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_EXISTS,
               "Log '%s' has other columns than the training that is resumed: %s'%s', not '%s'; give the log another "
               "name, or resume with the same metrics",
               ortrain_text_show (path), same > 0 ? "… " : "", ortrain_text_show (old + same),
               ortrain_text_show (new + same));
  return FALSE;
}

static gboolean
write_head (OrtrainTrainingLog *self, guint64 last_step, GError **error)
{
  g_byte_array_set_size (self->entry, 0);
  if (self->form == FORM_EVENTS)
    {
      if (self->end == 0)
        ortrain_events_append_version (self->entry);
      if (last_step > 0)
        ortrain_events_append_start (self->entry,
                                     last_step + 1); /* later steps of older files are not valid any more */
    }
  else if (self->form == FORM_CSV && self->end == 0)
    append_columns (self->entry, (const char *const *) self->names);
  return self->entry->len == 0 || append (self, self->entry->data, self->entry->len, error);
}

OrtrainTrainingLog *
ortrain_training_log_new (const char *path, guint64 last_step, const char *const *names, GError **error)
{
  if (!ortrain_training_log_check_path (path, error))
    return NULL;
  g_autoptr (OrtrainTrainingLog) self = g_new0 (OrtrainTrainingLog, 1);
  self->form = get_form (path);
  self->fd = -1;
  self->entry = g_byte_array_new ();
  self->names = g_strdupv ((char **) names);
  if (is_folder (path))
    {
      if (!open_in_folder (self, path, error))
        return NULL;
    }
  else
    {
      self->path = g_strdup (path);
      if (!open_file (self, last_step, error))
        return NULL;
    }
  return write_head (self, last_step, error) ? g_steal_pointer (&self) : NULL;
}

void
ortrain_training_log_free (OrtrainTrainingLog *self)
{
  if (self->fd >= 0)
    close (self->fd);
  g_byte_array_unref (self->entry);
  g_strfreev (self->names);
  g_free (self->path);
  g_free (self);
}

/* The shortest text that is read as the same number. */
static void
append_number (GByteArray *bytes, double number, gboolean json)
{
  static const char *const formats[] = { "%.15g", "%.16g", "%.17g" };
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  gboolean same = FALSE;
  for (guint i = 0; isfinite (number) && !same && i < G_N_ELEMENTS (formats); i++)
    same = g_ascii_strtod (g_ascii_formatd (text, sizeof text, formats[i], number), NULL) == number;
  if (same)
    append_text (bytes, text);
  else
    append_text (bytes, json ? "null" : isnan (number) ? "nan" : number > 0 ? "inf" : "-inf");
}

static void
append_line (OrtrainTrainingLog *self, const OrtrainLogEntry *entry, gboolean json)
{
  GByteArray *bytes = self->entry;
  char begin[128];
  g_snprintf (begin, sizeof begin,
              json ? "{\"event\":\"%s\",\"epoch\":%u,\"step\":%" G_GUINT64_FORMAT : "%s,%u,%" G_GUINT64_FORMAT,
              entry->ends_epoch ? "epoch" : "step", entry->epoch, entry->step);
  append_text (bytes, begin);
  for (guint i = 0; i < ORTRAIN_N_LOG_COLUMNS; i++)
    {
      const gboolean present = (entry->present >> i & 1) != 0;
      if (json && !present)
        continue;
      append_text (bytes, json ? ",\"" : ",");
      append_text (bytes, json ? column_names[i] : "");
      append_text (bytes, json ? "\":" : "");
      if (present)
        append_number (bytes, entry->columns[i], json);
    }
  for (guint i = 0; self->names[i] != NULL; i++)
    {
      if (json && entry->values == NULL)
        continue;
      append_text (bytes, ",");
      if (json)
        {
          append_member (bytes, self->names[i]);
          append_text (bytes, ":");
        }
      if (entry->values != NULL)
        append_number (bytes, entry->values[i], json);
    }
  append_text (bytes, json ? "}\n" : "\n");
}

static void
append_scalars (OrtrainTrainingLog *self, const OrtrainLogEntry *entry)
{
  const char *const *all = entry->ends_epoch ? epoch_tags : step_tags;
  const char *tags[ORTRAIN_N_LOG_COLUMNS];
  double values[ORTRAIN_N_LOG_COLUMNS];
  guint n = 0;
  for (guint i = 0; i < ORTRAIN_N_LOG_COLUMNS; i++)
    if ((entry->present >> i & 1) != 0 && all[i] != NULL)
      {
        tags[n] = all[i];
        values[n++] = entry->columns[i];
      }
  ortrain_events_append_scalars (self->entry, entry->step, tags, values, n);
  for (guint i = 0; entry->values != NULL && self->names[i] != NULL; i++)
    {
      g_autofree char *tag = g_strconcat ("validation/", self->names[i], NULL);
      const char *const only[] = { tag };
      ortrain_events_append_scalars (self->entry, entry->step, only, &entry->values[i], 1);
    }
}

gboolean
ortrain_training_log_write (OrtrainTrainingLog *self, const OrtrainLogEntry *entry, GError **error)
{
  g_byte_array_set_size (self->entry, 0);
  if (self->form == FORM_EVENTS)
    append_scalars (self, entry);
  else
    append_line (self, entry, self->form == FORM_JSON);
  return append (self, self->entry->data, self->entry->len, error);
}
