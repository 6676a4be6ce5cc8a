/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory-view.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define INTERVAL (G_USEC_PER_SEC / 8) /* between drawings */
#define N_LINES (MEMORY_VIEW_N_PHASES + 1)
#define N_COLUMNS 8

static const char *const phases[MEMORY_VIEW_N_PHASES] = { "pre_forward",   "post_forward", "pre_backward",
                                                          "post_backward", "pre_update",   "post_update" };
static const char *const columns[N_COLUMNS] = { "live", "peak", "held", "param", "grad", "state", "activ.", "other" };

static gboolean
get_size (guint *width, guint *height)
{
  struct winsize size;
  const gboolean known = ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  *width = known ? size.ws_col : 80;
  *height = known ? size.ws_row : 24;
  return known;
}

void
memory_view_init (MemoryView *self)
{
  memset (self, 0, sizeof *self);
  self->terminal = isatty (STDOUT_FILENO) && g_strcmp0 (g_getenv ("TERM"), "dumb") != 0;
}

/* One unit for the whole table. */
static double
choose_unit (const MemoryView *self, const char **name)
{
  static const char *const names[] = { "KiB", "MiB", "GiB", "TiB" };
  guint64 most = 0;
  guint unit = 0;
  for (guint i = 0; i < MEMORY_VIEW_N_PHASES; i++)
    if (self->reports[i] != NULL)
      most = MAX (most, MAX (self->reports[i]->cached, self->reports[i]->step_peak));
  while (unit + 1 < G_N_ELEMENTS (names) && most >= ((guint64) 10 << (10 * (unit + 2))))
    unit++;
  *name = names[unit];
  return (double) ((guint64) 1 << (10 * (unit + 1)));
}

static char *
format_row (const MemoryView *self, guint phase, double unit)
{
  const OrtrainMemoryReport *report = self->reports[phase];
  GString *line = g_string_new (NULL);
  g_string_append_printf (line, "%c %-13s", phase == self->latest ? '>' : ' ', phases[phase]);
  if (report == NULL)
    return g_string_free (line, FALSE);
  const guint64 named = report->param + report->grad + report->state + report->activation;
  const guint64 figures[N_COLUMNS] = {
    report->allocated, report->step_peak, report->cached,     report->param,
    report->grad,      report->state,     report->activation, report->allocated > named ? report->allocated - named : 0,
  };
  for (guint c = 0; c < N_COLUMNS; c++)
    g_string_append_printf (line, " %7.1f", (double) figures[c] / unit);
  return g_string_free (line, FALSE);
}

static void
print_line (char *line, guint width)
{
  if (strlen (line) > width)
    line[width] = '\0';
  printf ("%s\033[K\n", line);
  g_free (line);
}

static void
draw (MemoryView *self)
{
  guint width, height;
  const OrtrainMemoryReport *latest = self->reports[self->latest];
  get_size (&width, &height);
  if (latest == NULL || height < N_LINES + 2) /* a table that scrolls cannot be drawn over */
    return;
  const char *name;
  const double unit = choose_unit (self, &name);
  printf ("\r");
  if (self->n_lines > 0)
    printf ("\033[%uA", self->n_lines);
  g_autofree char *step = g_strdup_printf ("step %" G_GUINT64_FORMAT ", %s", latest->step, name);
  GString *head = g_string_new (NULL);
  g_string_append_printf (head, "%-15s", strlen (step) > 15 ? step + strlen ("step ") : step);
  for (guint c = 0; c < N_COLUMNS; c++)
    g_string_append_printf (head, " %7s", columns[c]);
  print_line (g_string_free (head, FALSE), width - 1);
  for (guint i = 0; i < MEMORY_VIEW_N_PHASES; i++)
    print_line (format_row (self, i, unit), width - 1);
  fflush (stdout);
  self->n_lines = N_LINES;
  self->drawn = g_get_monotonic_time ();
}

static gboolean
on_timeout (gpointer data)
{
  MemoryView *self = data;
  self->timeout = 0;
  draw (self);
  return G_SOURCE_REMOVE;
}

void
memory_view_update (MemoryView *self, OrtrainMemoryReport *report)
{
  if (!self->terminal)
    {
      if (report->step >= 10 && (report->step & (report->step - 1)) != 0)
        return;
      g_autofree char *line = ortrain_memory_report_to_string (report);
      g_print ("%s\n", line);
      return;
    }
  for (guint i = 0; i < MEMORY_VIEW_N_PHASES; i++)
    if (g_str_equal (report->phase, phases[i]))
      {
        g_clear_pointer (&self->reports[i], ortrain_memory_report_free);
        self->reports[i] = ortrain_memory_report_copy (report);
        self->latest = i;
      }
  /* Two phases that touch are reported at once: the report of the second one may stay for long. */
  if (g_get_monotonic_time () - self->drawn >= INTERVAL)
    draw (self);
  else if (self->timeout == 0)
    self->timeout = g_timeout_add (INTERVAL / 1000, on_timeout, self);
}

void
memory_view_hide (MemoryView *self)
{
  if (self->n_lines > 0)
    printf ("\r\033[%uA\033[J", self->n_lines);
  self->n_lines = 0;
  fflush (stdout);
}

void
memory_view_show (MemoryView *self)
{
  if (self->terminal)
    draw (self);
}

void
memory_view_clear (MemoryView *self)
{
  g_clear_handle_id (&self->timeout, g_source_remove);
  if (self->n_lines > 0)
    draw (self);
  for (guint i = 0; i < MEMORY_VIEW_N_PHASES; i++)
    g_clear_pointer (&self->reports[i], ortrain_memory_report_free);
  self->n_lines = 0;
}
