/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan-compare.h"

#include "core/ortrain-json-private.h"
#include "core/ortrain-text-private.h"
#include "plan-summary.h"

#include <math.h>
#include <string.h>

#define MAX_DEPTH 32 /* of a plan */

/* ---- Sides ---- */

static char *
read_file (const char *path, GError **error)
{
  char *text;
  return g_file_get_contents (path, &text, NULL, error) ? text : NULL;
}

/* A plan as JSON, not a model: those are no text. */
static gboolean
is_json (const char *path)
{
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileInputStream) stream = g_file_read (file, NULL, NULL);
  char first = 0;
  while (stream != NULL && g_input_stream_read (G_INPUT_STREAM (stream), &first, 1, NULL, NULL) == 1 &&
         g_ascii_isspace (first))
    ;
  return first == '{' || first == '[' || g_str_has_suffix (path, ".json");
}

/* "m.onnx --batch 4": the file, and the options after it in `own`. Those that it does not have are the common ones. */
static char *
split_side (const char *side, const PlanSettings *common, PlanSettings *own, gboolean *has_options, GError **error)
{
  g_auto (GStrv) words = NULL;
  *has_options = FALSE;
  if (g_file_test (side, G_FILE_TEST_EXISTS))
    {
      const char *const alone[] = { "", side, NULL };
      words = g_strdupv ((char **) alone);
    }
  else
    {
      g_autofree char *line = g_strconcat ("plan ", side, NULL);
      if (!g_shell_parse_argv (line, NULL, &words, error))
        {
          g_prefix_error (error, "--compare '%s': ", side);
          return NULL;
        }
    }
  const GOptionEntry entries[] = { PLAN_SETTINGS_ENTRIES (*own), { NULL } };
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_add_main_entries (context, entries, NULL);
  *has_options = g_strv_length (words) > 2;
  if (!g_option_context_parse_strv (context, &words, error))
    {
      g_prefix_error (error, "--compare '%s': ", side);
      return NULL;
    }
  if (g_strv_length (words) != 2)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--compare '%s': one file is needed, a model or a plan, followed by options only", side);
      return NULL;
    }
  char **const texts[] = {
    &own->batch,  &own->immediate, &own->precision, &own->state, &own->budget_text,
    &own->config, &own->offload,   &own->output,    &own->loss,
  };
  char *const commons[] = { common->batch,  common->immediate, common->precision, common->state, common->budget_text,
                            common->config, common->offload,   common->output,    common->loss };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    if (*texts[i] == NULL)
      *texts[i] = g_strdup (commons[i]);
  if (own->dims == NULL)
    own->dims = g_strdupv (common->dims);
  own->allow_links = own->allow_links || common->allow_links;
  if (own->seq == G_MININT)
    own->seq = common->seq;
  if (own->level == -1)
    own->level = common->level;
  return g_strdup (words[1]);
}

static JsonNode *
parse_plan (const char *text, const char *name, GError **error)
{
  JsonNode *plan = ortrain_json_parse (text, strlen (text), MAX_DEPTH, error);
  if (plan == NULL)
    g_prefix_error (error, "%s: ", name);
  return plan;
}

static PlanSummary *
make_side (const char *side, const PlanSettings *common, GError **error)
{
  gboolean has_options;
  g_auto (PlanSettings) own = PLAN_SETTINGS_INIT;
  g_autofree char *path = split_side (side, common, &own, &has_options, error), *text = NULL;
  if (path == NULL || !plan_settings_check (&own, error))
    return NULL;
  if (own.batches != NULL && own.batches->len > 1)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--compare '%s': --batch takes one size there",
                   side);
      return NULL;
    }
  if (is_json (path))
    {
      if (has_options)
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                       "--compare '%s': the file is a plan already, and takes no options", side);
          return NULL;
        }
      text = read_file (path, error);
    }
  else
    {
      g_auto (Planned) planned = { 0 };
      if (planned_make (&planned, path, &own, error))
        text = ortrain_memory_plan_to_json (planned.plan);
      else if (has_options)
        g_prefix_error (error, "--compare '%s': ", side);
    }
  g_autoptr (JsonNode) plan = text != NULL ? parse_plan (text, path, error) : NULL;
  return plan != NULL ? plan_summary_new (plan, path, error) : NULL;
}

/* ---- Rows ---- */

static char *
format_bytes_change (guint64 a, guint64 b)
{
  g_autofree char *size = ortrain_format_bytes (a < b ? b - a : a - b);
  return a == b ? g_strdup ("=") : g_strdup_printf ("%s%s", b > a ? "+" : "-", size);
}

static char *
format_share (double a, double b)
{
  if (a <= 0 || a == b)
    return g_strdup ("");
  const double share = 100 * (b / a - 1);
  return g_strdup_printf (fabs (share) < 9999 ? "%+.1f %%" : "%+.2g %%", share);
}

static void
print_row (const char *name, const char *a, const char *b, const char *change, const char *share)
{
  g_autofree char *line = g_strdup_printf ("%-25s %12s  %12s  %12s  %s", name, a, b, change, share);
  g_print ("%s\n", g_strchomp (line));
}

static void
print_bytes (const char *name, guint64 a, guint64 b)
{
  g_autofree char *x = ortrain_format_bytes (a), *y = ortrain_format_bytes (b);
  g_autofree char *change = format_bytes_change (a, b), *share = format_share ((double) a, (double) b);
  print_row (name, x, y, change, share);
}

static void
print_number (const char *name, const char *format, double a, double b)
{
  g_autofree char *signed_format = g_strconcat ("%s", format, NULL);
  g_autofree char *x = NULL, *y = NULL, *z = NULL, *share = format_share (a, b);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  x = g_strdup_printf (format, a);
  y = g_strdup_printf (format, b);
  z = a == b ? g_strdup ("=") : g_strdup_printf (signed_format, b > a ? "+" : "-", fabs (b - a));
#pragma GCC diagnostic pop
  print_row (name, x, y, z, share);
}

/* Keeps the end rather than the middle, since the end names the computation of a node. width: in characters */
static char *
shorten (const char *name, glong width)
{
  const char *shown = ortrain_text_show (name);
  const glong n = g_utf8_strlen (shown, -1);
  if (n <= width)
    return g_strdup (shown);
  const glong head = width / 3;
  g_autofree char *begin = g_utf8_substring (shown, 0, head);
  g_autofree char *end = g_utf8_substring (shown, n - (width - head - 1), n);
  return g_strconcat (begin, "…", end, NULL);
}

static char *
describe_node (const PlanSummary *side)
{
  if (side->peak_node == NULL)
    return g_strdup ("");
  if (*side->peak_node == '\0')
    return shorten (side->peak_operator, 70);
  g_autofree char *operator_name = shorten (side->peak_operator, 24), *node = shorten (side->peak_node, 46);
  return g_strdup_printf ("%s '%s'", operator_name, node);
}

static void
print_peak (const char *letter, const PlanSummary *side)
{
  g_autofree char *live = ortrain_format_bytes (side->peak_live), *node = describe_node (side);
  g_print ("  %s  %s live at step %u of %u%s%s\n", letter, live, side->peak_step, side->n_steps,
           side->peak_phase != NULL ? ", " : "", side->peak_phase != NULL ? side->peak_phase : "");
  if (*node != '\0')
    g_print ("     %s\n", node);
}

static void
print_peaks (const PlanSummary *a, const PlanSummary *b)
{
  g_print ("\nPeak of the arena\n");
  print_peak ("A", a);
  print_peak ("B", b);
  if (a->peak_node == NULL || b->peak_node == NULL)
    return;
  if (!g_str_equal (a->peak_phase, b->peak_phase))
    g_print ("  It moved from the %s to the %s phase.\n", a->peak_phase, b->peak_phase);
  else if (!g_str_equal (a->peak_node, b->peak_node))
    g_print ("  It moved to another node of the %s phase.\n", b->peak_phase);
  else
    g_print ("  It is at the same node.\n");
}

/* ---- Values live at the peaks ---- */

#define MAX_VALUES 12 /* that are listed */

typedef struct
{
  const char *name, *category;
  const PlanBlocks *a, *b; /* NULL: the plan has none */
} Pair;

static guint64
live (const PlanBlocks *blocks)
{
  return blocks != NULL ? blocks->at_peak : 0;
}

/* The largest first, be they on one side or on both. */
static gint
compare_pairs (gconstpointer pa, gconstpointer pb)
{
  const Pair *x = pa, *y = pb;
  const guint64 m = MAX (live (x->a), live (x->b)), n = MAX (live (y->a), live (y->b));
  return m != n ? (m < n) - (m > n) : strcmp (x->name, y->name);
}

static GArray *
make_pairs (const PlanSummary *a, const PlanSummary *b)
{
  GArray *pairs = g_array_new (FALSE, FALSE, sizeof (Pair));
  const PlanSummary *const sides[] = { a, b };
  for (guint s = 0; s < 2; s++)
    {
      GHashTableIter iter;
      gpointer key, value;
      g_hash_table_iter_init (&iter, sides[s]->blocks);
      while (g_hash_table_iter_next (&iter, &key, &value))
        {
          const PlanBlocks *blocks = value, *other = g_hash_table_lookup (sides[1 - s]->blocks, key);
          const Pair pair = { blocks->name, blocks->category, s == 0 ? blocks : other, s == 0 ? other : blocks };
          /* a value that is live on both sides is listed with the first one */
          if (blocks->at_peak > 0 && (s == 0 || live (other) == 0))
            g_array_append_val (pairs, pair);
        }
    }
  g_array_sort (pairs, compare_pairs);
  return pairs;
}

static void
print_value (const char *name, const char *category, const char *a, const char *b, const char *change)
{
  g_autofree char *shown = shorten (name, 27);
  const int pad = 27 - (int) g_utf8_strlen (shown, -1);
  g_autofree char *line =
      g_strdup_printf ("  %-10s  %s%*s  %10s  %10s  %s", category, shown, MAX (pad, 0), "", a, b, change);
  g_print ("%s\n", g_strchomp (line));
}

static void
print_values (const PlanSummary *a, const PlanSummary *b)
{
  g_autoptr (GArray) pairs = make_pairs (a, b);
  g_print ("\nLargest at the peaks\n");
  print_value ("", "", "A", "B", "");
  for (guint i = 0; i < MIN (pairs->len, MAX_VALUES); i++)
    {
      const Pair *pair = &g_array_index (pairs, Pair, i);
      const guint64 x = live (pair->a), y = live (pair->b);
      g_autofree char *left = x > 0 ? ortrain_format_bytes (x) : g_strdup ("-");
      g_autofree char *right = y > 0 ? ortrain_format_bytes (y) : g_strdup ("-");
      g_autofree char *change = NULL;
      if (x > 0 && y > 0)
        change = format_bytes_change (x, y);
      else if (x > 0)
        change = g_strdup (pair->b == NULL ? "gone" : "not live in B");
      else
        change = g_strdup (pair->a == NULL ? "new" : "not live in A");
      print_value (pair->name, pair->category, left, right, change);
    }
  if (pairs->len > MAX_VALUES)
    {
      guint64 x = 0, y = 0;
      for (guint i = MAX_VALUES; i < pairs->len; i++)
        {
          x += live (g_array_index (pairs, Pair, i).a);
          y += live (g_array_index (pairs, Pair, i).b);
        }
      g_autofree char *name =
          g_strdup_printf ("%u other%s", pairs->len - MAX_VALUES, ortrain_text_plural (pairs->len - MAX_VALUES));
      g_autofree char *left = ortrain_format_bytes (x), *right = ortrain_format_bytes (y);
      g_autofree char *change = format_bytes_change (x, y);
      print_value (name, "", left, right, change);
    }
}

static void
print_text (const PlanSummary *a, const PlanSummary *b, const char *name_a, const char *name_b)
{
  g_print ("A  %s\nB  %s\n\n", ortrain_text_show (name_a), ortrain_text_show (name_b));
  print_row ("", "A", "B", "change", "");
  print_bytes ("peak", a->peak, b->peak);
  print_bytes ("  arena", a->arena, b->arena);
  if (a->lower_bound != a->arena || b->lower_bound != b->arena)
    print_bytes ("    at the least", a->lower_bound, b->lower_bound);
  print_bytes ("  persistent", a->persistent, b->persistent);
  for (guint c = 0; c < PLAN_SUMMARY_N_PERSISTENT; c++)
    if (a->by_category[c] > 0 || b->by_category[c] > 0)
      {
        g_autofree char *name = g_strconcat ("    ", plan_summary_persistent[c], NULL);
        print_bytes (name, a->by_category[c], b->by_category[c]);
      }
  print_bytes ("kept activations", a->kept, b->kept);
  print_number ("  how many", "%.0f", a->n_kept, b->n_kept);
  print_number ("steps", "%.0f", a->n_steps, b->n_steps);
  print_number ("  computed again", "%.0f", a->n_recomputed, b->n_recomputed);
  print_number ("flop", "%.3g", a->flops, b->flops);
  print_number ("  computed again", "%.3g", a->recomputed_flops, b->recomputed_flops);
  print_bytes ("bytes moved", (guint64) CLAMP (a->bytes_moved, 0, 1e18), (guint64) CLAMP (b->bytes_moved, 0, 1e18));
  if (a->milliseconds > 0 || b->milliseconds > 0)
    print_number ("time, estimated, in ms", "%.3g", a->milliseconds, b->milliseconds);
  if (g_strcmp0 (a->gradients_kept, b->gradients_kept) != 0)
    {
      const PlanSummary *const sides[] = { a, b };
      g_print ("\nGradients of parameters\n");
      for (guint s = 0; s < 2; s++)
        g_print ("  %s  %s%s\n", s == 0 ? "A" : "B",
                 sides[s]->gradients_kept != NULL ? "kept until the update: " : "used as soon as they are complete",
                 sides[s]->gradients_kept != NULL ? ortrain_text_show (sides[s]->gradients_kept) : "");
    }
  print_peaks (a, b);
  print_values (a, b);
}

/* ---- JSON ---- */

static void
add_int (JsonBuilder *builder, const char *name, gint64 number)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, number);
}

static void
add_string (JsonBuilder *builder, const char *name, const char *text)
{
  json_builder_set_member_name (builder, name);
  if (text != NULL)
    json_builder_add_string_value (builder, text);
  else
    json_builder_add_null_value (builder);
}

static void
add_number (JsonBuilder *builder, const char *name, double number)
{
  json_builder_set_member_name (builder, name);
  command_add_number (builder, number);
}

/* minus: the plan whose figures are subtracted; or NULL */
static void
add_figures (JsonBuilder *builder, const PlanSummary *side, const PlanSummary *minus)
{
  static const PlanSummary nothing;
  const PlanSummary *from = minus != NULL ? minus : &nothing;
  add_int (builder, "peak_bytes", (gint64) (side->peak - from->peak));
  add_int (builder, "arena_bytes", (gint64) (side->arena - from->arena));
  add_int (builder, "lower_bound_bytes", (gint64) (side->lower_bound - from->lower_bound));
  add_int (builder, "persistent_bytes", (gint64) (side->persistent - from->persistent));
  json_builder_set_member_name (builder, "persistent");
  json_builder_begin_object (builder);
  for (guint c = 0; c < PLAN_SUMMARY_N_PERSISTENT; c++)
    add_int (builder, plan_summary_persistent[c], (gint64) (side->by_category[c] - from->by_category[c]));
  json_builder_end_object (builder);
  add_int (builder, "kept_activation_bytes", (gint64) (side->kept - from->kept));
  add_int (builder, "n_kept_activations", (gint64) side->n_kept - from->n_kept);
  add_int (builder, "n_steps", (gint64) side->n_steps - from->n_steps);
  add_int (builder, "n_recomputed_steps", (gint64) side->n_recomputed - from->n_recomputed);
  add_number (builder, "flops", side->flops - from->flops);
  add_number (builder, "recomputed_flops", side->recomputed_flops - from->recomputed_flops);
  add_number (builder, "bytes_moved", side->bytes_moved - from->bytes_moved);
  add_number (builder, "milliseconds", side->milliseconds - from->milliseconds);
}

static void
add_side (JsonBuilder *builder, const char *member, const char *name, const PlanSummary *side)
{
  json_builder_set_member_name (builder, member);
  json_builder_begin_object (builder);
  add_string (builder, "plan", name);
  add_figures (builder, side, NULL);
  add_string (builder, "gradients_kept_because", side->gradients_kept);
  json_builder_set_member_name (builder, "peak");
  json_builder_begin_object (builder);
  add_int (builder, "step", side->peak_step);
  add_int (builder, "live_bytes", (gint64) side->peak_live);
  add_string (builder, "node", side->peak_node);
  add_string (builder, "operator", side->peak_operator);
  add_string (builder, "phase", side->peak_phase);
  json_builder_end_object (builder);
  json_builder_end_object (builder);
}

static void
print_json (const PlanSummary *a, const PlanSummary *b, const char *name_a, const char *name_b)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (GArray) pairs = make_pairs (a, b);
  json_builder_begin_object (builder);
  add_side (builder, "a", name_a, a);
  add_side (builder, "b", name_b, b);
  json_builder_set_member_name (builder, "change");
  json_builder_begin_object (builder);
  add_figures (builder, b, a);
  json_builder_end_object (builder);
  json_builder_set_member_name (builder, "live_at_peaks");
  json_builder_begin_array (builder);
  for (guint i = 0; i < pairs->len; i++)
    {
      const Pair *pair = &g_array_index (pairs, Pair, i);
      json_builder_begin_object (builder);
      add_string (builder, "name", pair->name);
      add_string (builder, "category", pair->category);
      add_int (builder, "a_bytes", (gint64) live (pair->a));
      add_int (builder, "b_bytes", (gint64) live (pair->b));
      json_builder_set_member_name (builder, "in_a");
      json_builder_add_boolean_value (builder, pair->a != NULL);
      json_builder_set_member_name (builder, "in_b");
      json_builder_add_boolean_value (builder, pair->b != NULL);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  command_print_json (builder);
}

gboolean
plan_compare_print (const PlanSettings *settings, const char *a, const char *b, gboolean json, GError **error)
{
  g_autoptr (PlanSummary) left = make_side (a, settings, error);
  g_autoptr (PlanSummary) right = left != NULL ? make_side (b, settings, error) : NULL;
  if (right == NULL)
    return FALSE;
  (json ? print_json : print_text) (left, right, a, b);
  return TRUE;
}
