/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-progress-display-private.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-text-private.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PLAIN_INTERVAL (10 * G_USEC_PER_SEC)
#define MIN_BAR 8
#define MAX_BAR 24
#define EPOCH_INDENT 4
#define NAME_WIDTH 12
#define PLAIN_COLUMNS 120

static gboolean
is_terminal (int fd)
{
  return isatty (fd) && g_strcmp0 (g_getenv ("TERM"), "dumb") != 0;
}

guint
ortrain_progress_display_get_columns (const OrtrainProgressDisplay *self)
{
  struct winsize size;
  if (!self->terminal)
    return PLAIN_COLUMNS;
  return ioctl (self->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* In one piece, so that no half of a line is seen. */
static void
write_text (int fd, const char *text)
{
  for (gsize left = strlen (text); left > 0;)
    {
      const gssize n = write (fd, text, left);
      if (n < 0 && errno != EINTR)
        return;
      text += MAX (n, 0);
      left -= (gsize) MAX (n, 0);
    }
}

void
ortrain_progress_display_begin (OrtrainProgressDisplay *self, int fd, OrtrainShowProgress show, gboolean is_watched,
                                guint n_epochs, gboolean validates)
{
  const gboolean terminal = show != ORTRAIN_SHOW_PROGRESS_NEVER && is_terminal (fd);
  *self = (OrtrainProgressDisplay){
    .fd = fd,
    .active = show == ORTRAIN_SHOW_PROGRESS_ALWAYS || (show == ORTRAIN_SHOW_PROGRESS_AUTO && terminal && !is_watched),
    .terminal = terminal,
    .validates = validates,
    .n_epochs = n_epochs,
    .drawn = terminal ? 0 : g_get_monotonic_time (),
  };
}

static void
print_line (OrtrainProgressDisplay *self, const char *text)
{
  g_autofree char *line = g_strconcat (self->open ? "\r\033[K" : "", text, "\n", NULL);
  self->open = FALSE;
  write_text (self->fd, line);
}

/* Appends a text that begins at a column, its parts on further lines where they do not fit. between: ends in a space,
 * in whose place a line ends */
static void
append_wrapped (GString *lines, const char *text, const char *between, gsize column, guint indent, guint columns)
{
  const gsize n_between = strlen (between);
  g_auto (GStrv) parts = g_strsplit (text, between, -1);
  for (guint i = 0; parts[i] != NULL; i++)
    {
      const gsize length = strlen (parts[i]) + (parts[i + 1] != NULL ? n_between - 1 : 0);
      if (i > 0)
        g_string_append_len (lines, between, (gssize) n_between - 1);
      if (i > 0 && column + 1 + length > columns - 1)
        {
          g_string_append_printf (lines, "\n%*s", (int) indent, "");
          column = indent;
        }
      else if (i > 0)
        {
          g_string_append_c (lines, ' ');
          column++;
        }
      g_string_append (lines, parts[i]);
      column += length;
    }
}

/* "name  text", with the text wrapped at so many columns. */
static void
append (GString *lines, const char *name, const char *text, guint columns)
{
  const guint indent = columns >= 3 * NAME_WIDTH ? NAME_WIDTH : 2;
  if (lines->len > 0)
    g_string_append_c (lines, '\n');
  g_string_append_printf (lines, "%-*s%s", (int) indent, name, strlen (name) >= indent ? " " : "");
  append_wrapped (lines, text, " ", MAX (indent, strlen (name) + 1), indent, columns);
}

void
ortrain_progress_display_start (OrtrainProgressDisplay *self, const char *summary)
{
  const guint columns = ortrain_progress_display_get_columns (self);
  g_auto (GStrv) lines = g_strsplit (summary, "\n", -1);
  g_autoptr (GString) wrapped = g_string_new (NULL);
  for (guint i = 0; self->active && lines[i] != NULL; i++)
    {
      char *text = lines[i] + strcspn (lines[i], " ");
      if (*text != '\0')
        *text++ = '\0';
      append (wrapped, lines[i], g_strchug (text), columns);
    }
  if (self->active)
    print_line (self, wrapped->str);
}

void
ortrain_progress_display_hide (OrtrainProgressDisplay *self)
{
  if (self->open)
    write_text (self->fd, "\r\033[K");
  self->open = FALSE;
}

/* A loss that has run away is not written out in full. */
static char *
format_loss (double loss)
{
  return g_strdup_printf (fabs (loss) < 1e5 ? "%.4f" : "%.4g", loss);
}

/* "0:07", "2:15:00" */
static char *
format_time (double seconds)
{
  const guint64 n = (guint64) CLAMP (seconds + 0.5, 0.0, 1e9);
  return n < 3600 ? g_strdup_printf ("%u:%02u", (guint) (n / 60), (guint) (n % 60))
                  : g_strdup_printf ("%u:%02u:%02u", (guint) (n / 3600), (guint) (n / 60 % 60), (guint) (n % 60));
}

/* "  950 items/s", "  64.7k items/s"; nothing as long as it is not known */
static char *
format_speed (double items_per_second)
{
  static const char *const units[] = { "", "k", "M", "G" };
  guint unit = 0;
  for (; items_per_second >= 1000 && unit + 1 < G_N_ELEMENTS (units); unit++)
    items_per_second /= 1000;
  return items_per_second > 0 ? g_strdup_printf ("  %.3g%s items/s", items_per_second, units[unit]) : g_strdup ("");
}

char *
ortrain_progress_display_format (const OrtrainProgress *progress, gboolean validates, guint columns)
{
  enum
  {
    EPOCH,
    STEP,
    LOSS,
    SKIPPED,
    SPEED,
    LEFT,
    RATE,
    N_PARTS
  };
  /* dropped in this order: the least important part first */
  static const guint drop[] = { RATE, SPEED, LEFT, SKIPPED };
  const gboolean done = validates && progress->step == progress->n_steps;
  g_autofree char *loss = format_loss (progress->mean_loss);
  g_autofree char *left = progress->seconds_left >= 0 ? format_time (progress->seconds_left) : NULL;
  g_auto (GStrv) texts = g_new0 (char *, N_PARTS + 1);
  texts[EPOCH] = g_strdup_printf ("epoch %u/%u", progress->epoch, progress->n_epochs);
  texts[STEP] = done ? g_strdup ("validating")
                     : g_strdup_printf ("%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT, progress->step, progress->n_steps);
  texts[LOSS] = g_strdup_printf ("  loss %s", loss);
  texts[SKIPPED] = progress->skipped_updates > 0
                       ? g_strdup_printf ("  %" G_GUINT64_FORMAT " skipped", progress->skipped_updates)
                       : g_strdup ("");
  texts[SPEED] = format_speed (progress->items_per_second);
  texts[LEFT] = left != NULL ? g_strdup_printf ("  %s left", left) : g_strdup ("");
  texts[RATE] =
      isfinite (progress->learning_rate) ? g_strdup_printf ("  lr %.3g", progress->learning_rate) : g_strdup ("");
  const gsize most = MAX (columns, 2) - 1; /* the last column would wrap on some terminals */
  gsize length = 1;
  for (guint i = 0; i < N_PARTS; i++)
    length += strlen (texts[i]);
  for (guint i = 0; i < G_N_ELEMENTS (drop) && length > most; i++)
    {
      length -= strlen (texts[drop[i]]);
      texts[drop[i]][0] = '\0';
    }
  GString *line = g_string_new (texts[EPOCH]);
  if (length + MIN_BAR + 3 <= most)
    {
      const guint width = (guint) MIN (MAX_BAR, most - length - 3);
      const guint filled =
          progress->n_steps > 0 ? (guint) ((double) width * (double) progress->step / (double) progress->n_steps) : 0;
      g_string_append (line, " [");
      for (guint i = 0; i < width; i++)
        g_string_append_c (line, i < MIN (filled, width) ? '#' : '-');
      g_string_append_c (line, ']');
    }
  g_string_append_c (line, ' ');
  for (guint i = STEP; i < N_PARTS; i++)
    g_string_append (line, texts[i]);
  if (line->len > most)
    g_string_truncate (line, most);
  return g_string_free (line, FALSE);
}

void
ortrain_progress_display_update (OrtrainProgressDisplay *self, const OrtrainProgress *progress)
{
  const gint64 now = g_get_monotonic_time ();
  const gboolean last = self->terminal && progress->step == progress->n_steps;
  if (!self->active || (!last && now - self->drawn < (self->terminal ? ORTRAIN_PROGRESS_INTERVAL : PLAIN_INTERVAL)))
    return;
  self->drawn = now;
  g_autofree char *text = ortrain_progress_display_format (
      progress, self->validates, self->terminal ? ortrain_progress_display_get_columns (self) : G_MAXINT);
  if (!self->terminal)
    {
      print_line (self, text);
      return;
    }
  g_autofree char *line = g_strconcat ("\r", text, "\033[K", NULL);
  write_text (self->fd, line);
  self->open = TRUE;
}

/* ", 3 updates skipped"; nothing for 0 */
static void
append_count (GString *line, guint64 n, const char *what, const char *how)
{
  if (n > 0)
    g_string_append_printf (line, ", %" G_GUINT64_FORMAT " %s%s %s", n, what, ortrain_text_plural (n), how);
}

char *
ortrain_progress_display_format_epoch (OrtrainEpochRecord *record, guint n_epochs)
{
  const double held_out = ortrain_epoch_record_get_validation_loss (record),
               accuracy = ortrain_epoch_record_get_metric (record);
  const guint64 peak = ortrain_epoch_record_get_peak_bytes (record);
  g_autofree char *loss = format_loss (ortrain_epoch_record_get_loss (record));
  g_auto (GStrv) names = ortrain_epoch_record_get_value_names (record);
  GString *line = g_string_new (NULL);
  g_string_printf (line, "epoch %u/%u: loss %s", ortrain_epoch_record_get_epoch (record), n_epochs, loss);
  if (!isnan (held_out))
    {
      g_autofree char *text = format_loss (held_out);
      g_string_append_printf (line, ", validation loss %s", text);
    }
  if (accuracy >= 0)
    g_string_append_printf (line, ", accuracy %.2f %%", 100.0 * accuracy);
  for (guint i = 0; names[i] != NULL; i++)
    g_string_append_printf (line, ", %s %.4f", ortrain_text_show (names[i]),
                            ortrain_epoch_record_get_value (record, names[i]));
  append_count (line, ortrain_epoch_record_get_skipped_updates (record), "update", "skipped");
  append_count (line, ortrain_epoch_record_get_uncounted_steps (record), "step", "without a counted label");
  g_string_append_printf (line, ", lr %.3g", ortrain_epoch_record_get_learning_rate (record));
  if (peak > 0)
    {
      g_autofree char *bytes = ortrain_format_bytes (peak);
      g_string_append_printf (line, ", memory %s", bytes);
    }
  g_string_append_printf (line, ", %.1f s", ortrain_epoch_record_get_seconds (record));
  return g_string_free (line, FALSE);
}

void
ortrain_progress_display_epoch (OrtrainProgressDisplay *self, OrtrainEpochRecord *record)
{
  if (!self->active)
    return;
  g_autofree char *text = ortrain_progress_display_format_epoch (record, self->n_epochs);
  g_autoptr (GString) wrapped = g_string_new (NULL);
  append_wrapped (wrapped, text, ", ", 0, EPOCH_INDENT,
                  self->terminal ? ortrain_progress_display_get_columns (self) : G_MAXINT);
  print_line (self, wrapped->str);
}

void
ortrain_progress_display_end (OrtrainProgressDisplay *self)
{
  if (self->active && self->open)
    write_text (self->fd, "\n");
  self->active = self->open = FALSE;
}
