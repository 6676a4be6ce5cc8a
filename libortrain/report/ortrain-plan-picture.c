/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-file-writer-private.h"
#include "core/ortrain-text-private.h"

#include <math.h>

/* Pictures of a plan: steps to the right, bytes of the arena upwards, one rectangle a block, coloured by category, the
 * live bytes as a line over it. */

#define LEFT 90
#define TOP 86
#define WIDTH 1060
#define HEIGHT 520
#define BOTTOM 64
#define LEGEND 170

/* SVG wants a point for the decimal separator in every locale. */
static void
append_number (GString *text, double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append (text, g_ascii_formatd (buffer, sizeof buffer, "%.2f", value));
}

static void
append_attribute (GString *text, const char *name, double value)
{
  g_string_append_printf (text, " %s=\"", name);
  append_number (text, value);
  g_string_append_c (text, '"');
}

/* A round step that gives about five lines. */
static double
grid_step (double span, gboolean binary)
{
  if (span <= 0)
    return 1;
  double base = binary ? exp2 (floor (log2 (span / 4))) : pow (10, floor (log10 (span / 5)));
  if (binary)
    return MAX (base, 1);
  if (span / base > 25)
    base *= 5;
  else if (span / base > 12)
    base *= 2;
  return MAX (base, 1);
}

static void
append_text (GString *text, double x, double y, const char *anchor, const char *extra, const char *content)
{
  g_autofree char *escaped = g_markup_escape_text (content, -1);
  g_string_append (text, "<text");
  append_attribute (text, "x", x);
  append_attribute (text, "y", y);
  g_string_append_printf (text, " text-anchor=\"%s\"%s>%s</text>\n", anchor, extra, escaped);
}

static void
append_line (GString *text, double x1, double y1, double x2, double y2, const char *style)
{
  g_string_append (text, "<line");
  append_attribute (text, "x1", x1);
  append_attribute (text, "y1", y1);
  append_attribute (text, "x2", x2);
  append_attribute (text, "y2", y2);
  g_string_append_printf (text, " %s/>\n", style);
}

static int
compare_areas (gconstpointer pa, gconstpointer pb, gpointer data)
{
  const OrtrainMemoryPlan *self = data;
  const guint ia = *(const guint *) pa, ib = *(const guint *) pb;
  const OrtrainPlanValue *a = &self->values[ia], *b = &self->values[ib];
  const double x = (double) a->bytes * ((double) a->last - a->first + 1);
  const double y = (double) b->bytes * ((double) b->last - b->first + 1);
  return x != y ? (x < y) - (x > y) : (ia > ib) - (ia < ib);
}

static int
compare_ids (gconstpointer pa, gconstpointer pb)
{
  const guint a = *(const guint *) pa, b = *(const guint *) pb;
  return (a > b) - (a < b);
}

/* The buffers of the blocks to draw, the largest if there are too many for a picture; n_left_out: the others. */
static GArray *
choose_blocks (OrtrainMemoryPlan *self, guint *n_left_out)
{
  GArray *buffers = g_array_new (FALSE, FALSE, sizeof (guint));
  for (guint i = 0; i < self->n_values; i++)
    if (ortrain_plan_value_is_block (self->values, i) && self->values[i].last >= self->values[i].first)
      g_array_append_val (buffers, i);
  *n_left_out = buffers->len > ORTRAIN_PICTURE_MAX_BLOCKS ? buffers->len - ORTRAIN_PICTURE_MAX_BLOCKS : 0;
  if (*n_left_out > 0)
    {
      g_array_sort_with_data (buffers, compare_areas, self);
      g_array_set_size (buffers, ORTRAIN_PICTURE_MAX_BLOCKS);
      g_array_sort (buffers, compare_ids);
    }
  return buffers;
}

static void
append_blocks (GString *text, OrtrainMemoryPlan *self, const GArray *buffers, double per_step, double per_byte)
{
  g_string_append (text, "<g id=\"blocks\" stroke=\"#ffffff\" stroke-width=\"0.4\">\n");
  for (guint i = 0; i < buffers->len; i++)
    {
      const OrtrainPlanValue *value = &self->values[g_array_index (buffers, guint, i)];
      double first = MAX (value->first, 0), last = MIN (value->last, (gint32) self->n_steps - 1);
      g_string_append (text, "<rect");
      append_attribute (text, "x", LEFT + first * per_step);
      append_attribute (text, "y", TOP + HEIGHT - (double) (value->offset + value->bytes) * per_byte);
      append_attribute (text, "width", MAX ((last - first + 1) * per_step, 0.5));
      append_attribute (text, "height", MAX ((double) value->bytes * per_byte, 0.3));
      g_autofree char *size = ortrain_format_bytes (value->bytes);
      g_autofree char *title = g_markup_printf_escaped (
          "%s\n%s, %s (%" G_GSIZE_FORMAT " bytes) at %" G_GSIZE_FORMAT "\nsteps %d to %d",
          ortrain_text_show (value->name), /* XML has no control characters */
          ortrain_category_get_nick (value->category), size, value->bytes, value->offset, value->first, value->last);
      g_string_append_printf (text, " fill=\"%s\"><title>%s</title></rect>\n",
                              ortrain_category_get_color (value->category), title);
    }
  g_string_append (text, "</g>\n");
}

static void
append_live_line (GString *text, OrtrainMemoryPlan *self, double per_step, double per_byte)
{
  g_autofree gsize *live = ortrain_memory_plan_measure_steps (self);
  /* With more steps than quarters of a pixel, several steps share a column, which shows their maximum. */
  const guint per_column = (self->n_steps + 4 * WIDTH - 1) / (4 * WIDTH);
  g_string_append (text, "<path id=\"live\" fill=\"none\" stroke=\"#1e1e1e\" stroke-width=\"1.4\" d=\"M");
  for (guint s = 0; s < self->n_steps; s += per_column)
    {
      const guint end = MIN (s + per_column, self->n_steps);
      gsize most = 0;
      for (guint i = s; i < end; i++)
        most = MAX (most, live[i]);
      double y = TOP + HEIGHT - (double) most * per_byte;
      append_number (text, LEFT + s * per_step);
      g_string_append_c (text, ' ');
      append_number (text, y);
      g_string_append (text, " H");
      append_number (text, LEFT + end * per_step);
      if (end < self->n_steps)
        g_string_append (text, " L");
    }
  g_string_append (text, "\"/>\n");
}

static void
append_legend (GString *text, OrtrainMemoryPlan *self)
{
  gsize sums[ORTRAIN_CATEGORY_OUTPUT + 1] = { 0 };
  gsize most;
  gint32 peak = (gint32) ortrain_memory_plan_find_peak (self, &most);
  for (guint i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (ortrain_plan_value_is_block (self->values, i) && value->first <= peak && value->last >= peak)
        sums[value->category] += ortrain_plan_align (value->bytes, self->alignment);
    }
  double x = LEFT + WIDTH + 24, y = TOP + 4;
  append_text (text, x, y, "start", " font-weight=\"bold\"", "At the peak");
  for (guint c = 0; c <= ORTRAIN_CATEGORY_OUTPUT; c++)
    {
      if (sums[c] == 0)
        continue;
      y += 22;
      g_string_append (text, "<rect");
      append_attribute (text, "x", x);
      append_attribute (text, "y", y - 10);
      g_string_append_printf (text, " width=\"12\" height=\"12\" fill=\"%s\"/>\n",
                              ortrain_category_get_color ((OrtrainCategory) c));
      g_autofree char *size = ortrain_format_bytes (sums[c]);
      g_autofree char *entry = g_strdup_printf ("%s  %s", ortrain_category_get_nick ((OrtrainCategory) c), size);
      append_text (text, x + 18, y, "start", "", entry);
    }
  y += 34;
  append_text (text, x, y, "start", " font-weight=\"bold\"", "Besides the arena");
  for (guint c = 0; c <= ORTRAIN_CATEGORY_OUTPUT; c++)
    {
      if (self->persistent[c] == 0)
        continue;
      y += 22;
      g_autofree char *size = ortrain_format_bytes (self->persistent[c]);
      g_autofree char *entry = g_strdup_printf ("%s  %s", ortrain_category_get_nick ((OrtrainCategory) c), size);
      append_text (text, x + 18, y, "start", "", entry);
    }
  y += 34;
  append_line (text, x, y - 4, x + 14, y - 4, "stroke=\"#1e1e1e\" stroke-width=\"1.4\"");
  append_text (text, x + 18, y, "start", "", "live bytes");
}

/**
 * ortrain_memory_plan_to_svg:
 * @self: a plan
 *
 * Draws the arena over the steps: one rectangle for each block, coloured by category, with the live bytes as a line and
 * the boundaries between the phases.
 *
 * Returns: (transfer full): an SVG document
 */
char *
ortrain_memory_plan_to_svg (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), NULL);

  GString *text = g_string_new (NULL);
  const int width = LEFT + WIDTH + LEGEND + 30, height = TOP + HEIGHT + BOTTOM;
  const double n_steps = MAX (self->n_steps, 1), bytes = MAX (self->arena_bytes, 1);
  const double per_step = WIDTH / n_steps, per_byte = HEIGHT / bytes;
  g_string_append_printf (text,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                          "font-family=\"Cantarell, DejaVu Sans, sans-serif\" font-size=\"12\" fill=\"#1e1e1e\">\n"
                          "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
                          width, height, width, height, width, height);

  g_autofree char *total = ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (self));
  g_autofree char *arena = ortrain_format_bytes (self->arena_bytes);
  g_autofree char *bound = ortrain_format_bytes (self->lower_bound_bytes);
  g_autofree char *kept = ortrain_format_bytes (ortrain_memory_plan_get_persistent_bytes (self));
  g_autofree char *title = g_strdup_printf ("Memory of one step: %s", total);
  g_autofree char *subtitle = g_strdup_printf ("arena %s (least possible: %s), persistent %s, %u step%s", arena, bound,
                                               kept, self->n_steps, ortrain_text_plural (self->n_steps));
  append_text (text, LEFT, 30, "start", " font-size=\"18\" font-weight=\"bold\"", title);
  append_text (text, LEFT, 50, "start", " fill=\"#5e5c64\"", subtitle);

  /* Grid and axes. */
  double step = grid_step (bytes, TRUE);
  for (double b = 0; b <= bytes; b += step)
    {
      double y = TOP + HEIGHT - b * per_byte;
      g_autofree char *label = ortrain_format_bytes (b);
      append_line (text, LEFT, y, LEFT + WIDTH, y, "stroke=\"#deddda\" stroke-width=\"1\"");
      append_text (text, LEFT - 8, y + 4, "end", " fill=\"#5e5c64\"", label);
    }
  step = grid_step (n_steps, FALSE);
  for (double s = 0; s <= n_steps; s += step)
    {
      g_autofree char *label = g_strdup_printf ("%.0f", s);
      append_line (text, LEFT + s * per_step, TOP + HEIGHT, LEFT + s * per_step, TOP + HEIGHT + 5,
                   "stroke=\"#77767b\" stroke-width=\"1\"");
      append_text (text, LEFT + s * per_step, TOP + HEIGHT + 20, "middle", " fill=\"#5e5c64\"", label);
    }
  append_text (text, LEFT + WIDTH / 2.0, TOP + HEIGHT + 44, "middle", " fill=\"#5e5c64\"", "step");

  guint n_left_out;
  g_autoptr (GArray) buffers = choose_blocks (self, &n_left_out);
  append_blocks (text, self, buffers, per_step, per_byte);
  if (n_left_out > 0)
    {
      g_autofree char *left_out = g_strdup_printf ("the %u largest blocks; %u %s not drawn", buffers->len, n_left_out,
                                                   n_left_out == 1 ? "is" : "are");
      append_text (text, LEFT + WIDTH, 50, "end", " fill=\"#5e5c64\"", left_out);
    }
  if (self->n_steps > 0)
    {
      append_live_line (text, self, per_step, per_byte);
      guint peak = ortrain_memory_plan_find_peak (self, NULL);
      double x = LEFT + (peak + 0.5) * per_step;
      append_line (text, x, TOP - 2, x, TOP + HEIGHT, "stroke=\"#a51d2d\" stroke-width=\"1\" stroke-dasharray=\"2 3\"");
      g_autofree char *label =
          g_strdup_printf ("peak at step %u%s%s", peak, self->steps != NULL ? ", " : "",
                           ortrain_text_show (self->steps != NULL ? self->steps[peak].node->op_type : ""));
      /* A white edge first: not every viewer knows paint-order. */
      const char *anchor = x > LEFT + WIDTH * 0.7 ? "end" : x < LEFT + WIDTH * 0.3 ? "start" : "middle";
      append_text (text, x, TOP - 8, anchor, " fill=\"#ffffff\" stroke=\"#ffffff\" stroke-width=\"4\"", label);
      append_text (text, x, TOP - 8, anchor, " fill=\"#a51d2d\"", label);
    }
  if (self->first_backward > 0 && self->first_backward < self->n_steps)
    {
      double x = LEFT + self->first_backward * per_step;
      append_line (text, x, TOP - 14, x, TOP + HEIGHT,
                   "stroke=\"#1e1e1e\" stroke-width=\"1\" stroke-dasharray=\"6 4\"");
      append_text (text, x - 6, TOP - 22, "end", "", "forward");
      append_text (text, x + 6, TOP - 22, "start", "", "backward");
    }
  if (self->first_update > self->first_backward && self->first_update < self->n_steps)
    {
      double x = LEFT + self->first_update * per_step;
      append_line (text, x, TOP - 14, x, TOP + HEIGHT,
                   "stroke=\"#1e1e1e\" stroke-width=\"1\" stroke-dasharray=\"6 4\"");
      append_text (text, x + 6, TOP - 22, "start", "", "update");
    }
  append_line (text, LEFT, TOP + HEIGHT, LEFT + WIDTH, TOP + HEIGHT, "stroke=\"#77767b\" stroke-width=\"1\"");
  append_legend (text, self);
  g_string_append (text, "</svg>\n");
  return g_string_free (text, FALSE);
}

/**
 * ortrain_memory_plan_save_svg:
 * @self: a plan
 * @path: (type filename): where to write
 * @error: return location for a #GError
 *
 * Writes the picture that [method@MemoryPlan.to_svg] returns to a file.
 *
 * Returns: %FALSE with an error of [error@Gio.IOErrorEnum]
 */
gboolean
ortrain_memory_plan_save_svg (OrtrainMemoryPlan *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  g_autofree char *text = ortrain_memory_plan_to_svg (self);
  return ortrain_file_write_text (path, text, error);
}
