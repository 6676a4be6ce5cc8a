/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "progress-bar.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH 24

void
progress_bar_init (ProgressBar *self)
{
  memset (self, 0, sizeof *self);
  self->terminal = isatty (STDOUT_FILENO);
}

static int
get_columns (void)
{
  struct winsize size;
  return ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void
progress_bar_update (ProgressBar *self, double fraction, const char *text, gboolean important)
{
  gint64 now = g_get_monotonic_time ();
  if (!self->terminal)
    {
      /* a line every ten seconds, and the important ones */
      if (!important && now - self->last < 10 * G_USEC_PER_SEC)
        return;
      self->last = now;
      printf ("%3.0f %%  %s\n", 100.0 * CLAMP (fraction, 0.0, 1.0), text);
      fflush (stdout);
      return;
    }
  if (!important && now - self->last < G_USEC_PER_SEC / 15)
    return;
  self->last = now;
  int filled = (int) (CLAMP (fraction, 0.0, 1.0) * WIDTH + 0.5);
  GString *line = g_string_new ("\r[");
  for (int i = 0; i < WIDTH; i++)
    g_string_append (line, i < filled ? "#" : "-");
  g_string_append_printf (line, "] %3.0f %%  %s", 100.0 * CLAMP (fraction, 0.0, 1.0), text);
  if ((int) line->len - 1 > get_columns () - 1)
    g_string_truncate (line, (gsize) get_columns ());
  printf ("%s\033[K", line->str);
  fflush (stdout);
  g_string_free (line, TRUE);
  self->open = TRUE;
}

void
progress_bar_clear (ProgressBar *self)
{
  if (self->open)
    printf ("\r\033[K");
  self->open = FALSE;
  fflush (stdout);
}
