/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-recompute-report-private.h"

#include "core/ortrain-text-private.h"

#include <json-glib/json-glib.h>
#include <string.h>

/* Rows with sizes, the largest saving first. */
static int
compare_clusters (gconstpointer a, gconstpointer b)
{
  OrtrainRecomputeCluster *x = *(OrtrainRecomputeCluster *const *) a, *y = *(OrtrainRecomputeCluster *const *) b;
  const guint64 p = ortrain_recompute_cluster_get_saving_bytes (x), q = ortrain_recompute_cluster_get_saving_bytes (y);
  if (p != q)
    return p > q ? -1 : 1;
  return g_strcmp0 (ortrain_recompute_cluster_get_configuration (x), ortrain_recompute_cluster_get_configuration (y));
}

GPtrArray *
ortrain_recompute_report_sort (const OrtrainRecomputeReport *self, GHashTable *sizes)
{
  GPtrArray *sorted = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint i = 0; i < self->clusters->len; i++)
    g_ptr_array_add (sorted, ortrain_recompute_cluster_new_with_sizes (self->clusters->pdata[i], sizes));
  g_ptr_array_sort (sorted, compare_clusters);
  return sorted;
}

/* ---- text ---- */

/* 134,217,728 */
static char *
group_digits (guint64 number)
{
  g_autofree char *digits = g_strdup_printf ("%" G_GUINT64_FORMAT, number);
  GString *out = g_string_new (NULL);
  for (gsize i = 0, n = strlen (digits); i < n; i++)
    {
      if (i > 0 && (n - i) % 3 == 0)
        g_string_append_c (out, ',');
      g_string_append_c (out, digits[i]);
    }
  return g_string_free (out, FALSE);
}

static int
compare_sizes (gconstpointer a, gconstpointer b)
{
  return g_strcmp0 (*(const char *const *) a, *(const char *const *) b);
}

static char *
describe_sizes (GHashTable *sizes)
{
  g_autofree gpointer *names = g_hash_table_get_keys_as_array (sizes, NULL);
  const guint n = g_hash_table_size (sizes);
  GString *out = g_string_new (NULL);
  qsort (names, n, sizeof (gpointer), compare_sizes);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (out, "%s%s=%" G_GINT64_FORMAT, i > 0 ? ", " : "", ortrain_text_show (names[i]),
                            *(const gint64 *) g_hash_table_lookup (sizes, names[i]));
  return g_string_free (out, FALSE);
}

static const char *
get_state (OrtrainRecomputeCluster *cluster)
{
  return ortrain_recompute_cluster_get_automatic (cluster) ? "AUTO"
         : ortrain_recompute_cluster_get_enabled (cluster) ? "ON"
                                                           : "OFF";
}

static void
append_header (GString *out, const OrtrainRecomputeReport *self)
{
  static const char *const names[] = { "plans", "layer by layer", "layer by layer, with compromises" };
  const gboolean on = self->n_recomputed > 0;
  g_string_append_printf (out, "Memory Optimizer : %s : level %u (%s)", on ? "ON" : "OFF", self->level,
                          names[self->level]);
  if (self->level == 0 && self->config != NULL)
    g_string_append_printf (out, ", %s", ortrain_text_show_list (self->config));
  if (self->level > 0 && self->n_layers > 0)
    g_string_append_printf (out, ", %u layer%s", self->n_layers, ortrain_text_plural (self->n_layers));
  if (self->level > 0 && self->n_layers == 0)
    g_string_append (out, self->planned ? ", but no layers were found that save something"
                                        : ", decided for each plan, of which there is none yet");
  g_string_append_c (out, '\n');
}

static void
append_row (GString *out, const char *const *cells, const gsize *widths)
{
  static const gboolean right[] = { FALSE, FALSE, FALSE, TRUE, TRUE, FALSE };
  for (guint c = 0; c < 6; c++)
    if (right[c])
      g_string_append_printf (out, "%s%*s", c > 0 ? " : " : "", (int) widths[c], cells[c]);
    else
      g_string_append_printf (out, "%s%-*s", c > 0 ? " : " : "", c < 5 ? (int) widths[c] : 0, cells[c]);
  g_string_append_c (out, '\n');
}

#define WIDEST 60 /* longer columns move those after them */

static void
append_summary (GString *out, GPtrArray *clusters)
{
  static const char *const heads[] = { "", "", "Configs", "Freq", "Max Saving(Bytes)", "Saving Symbolic(Bytes)" };
  g_autoptr (GPtrArray) cells = g_ptr_array_new_with_free_func (g_free); /* [rows * 6] */
  gsize widths[6];
  for (guint c = 0; c < 6; c++)
    widths[c] = strlen (heads[c]);
  for (guint i = 0; i < clusters->len; i++)
    {
      OrtrainRecomputeCluster *cluster = clusters->pdata[i];
      const guint64 bytes = ortrain_recompute_cluster_get_saving_bytes (cluster);
      g_ptr_array_add (cells, g_strdup_printf ("Plan %u", i + 1));
      g_ptr_array_add (cells, g_strdup (get_state (cluster)));
      g_ptr_array_add (cells, g_strdup (ortrain_recompute_cluster_get_configuration (cluster)));
      g_ptr_array_add (cells, g_strdup_printf ("%u", ortrain_recompute_cluster_get_frequency (cluster)));
      g_ptr_array_add (cells, bytes > 0 ? group_digits (bytes) : g_strdup ("-"));
      g_ptr_array_add (cells, g_strdup (ortrain_recompute_cluster_get_saving (cluster)));
      for (guint c = 0; c < 6; c++)
        widths[c] = MAX (widths[c], MIN (strlen (cells->pdata[6 * i + c]), WIDEST));
    }
  append_row (out, heads, widths);
  for (guint i = 0; i < clusters->len; i++)
    append_row (out, (const char *const *) cells->pdata + 6 * i, widths);
}

static int
compare_opportunities (gconstpointer a, gconstpointer b)
{
  const OrtrainRecomputeOpportunity *x = *(OrtrainRecomputeOpportunity *const *) a;
  const OrtrainRecomputeOpportunity *y = *(OrtrainRecomputeOpportunity *const *) b;
  if (x->frequency != y->frequency)
    return x->frequency > y->frequency ? -1 : 1;
  const int by_way = g_strcmp0 (x->ways[1], y->ways[1]);
  return by_way != 0 ? by_way : g_strcmp0 (x->outputs[1], y->outputs[1]);
}

static void
append_status (GString *out, const OrtrainRecomputeOpportunity *self, guint strategy, guint level)
{
  const guint requested = self->requested[strategy], actual = self->actual[strategy];
  if (requested == 0 && actual == 0)
    g_string_append (out, "Disabled");
  else if (level > 0)
    g_string_append_printf (out, "Enabled by the level, %u recomputed", actual);
  else if (requested == G_MAXUINT)
    g_string_append_printf (out, "Enabled, all requested, %u recomputed", actual);
  else
    g_string_append_printf (out, "Enabled, the first %u requested, %u recomputed", requested, actual);
}

static void
append_details (GString *out, const OrtrainRecomputeReport *self)
{
  static const char *const names[] = { "", "recompute", "recompute with compromise" };
  g_autoptr (GPtrArray) sorted = g_ptr_array_copy (self->opportunities, NULL, NULL);
  g_ptr_array_set_free_func (sorted, NULL);
  g_ptr_array_sort (sorted, compare_opportunities);
  g_string_append (out, "MemoryInsight Summary, clustered by node pattern; the options of a row exclude each other\n");
  for (guint i = 0; i < sorted->len; i++)
    {
      const OrtrainRecomputeOpportunity *row = sorted->pdata[i];
      guint option = 0;
      for (guint s = 1; s < G_N_ELEMENTS (row->ways); s++)
        {
          if (row->ways[s] == NULL)
            continue;
          if (option++ == 0)
            g_string_append_printf (out, "%5u  ", row->frequency);
          else
            g_string_append (out, "       ");
          g_string_append_printf (out, "Option %u: %s (%s)\n         Status: ", option, row->ways[s], names[s]);
          append_status (out, row, s, self->level);
          g_string_append (out, "\n         Stashed Activations:\n");
          g_auto (GStrv) lines = g_strsplit (row->outputs[s], "\n", -1);
          for (guint k = 0; lines[k] != NULL; k++)
            g_string_append_printf (out, "           %s\n", lines[k]);
        }
    }
}

char *
ortrain_recompute_report_to_table (const OrtrainRecomputeReport *self, GHashTable *sizes, gboolean details)
{
  GString *out = g_string_new (NULL);
  g_autoptr (GPtrArray) clusters = ortrain_recompute_report_sort (self, sizes);
  append_header (out, self);
  if (clusters->len > 0)
    append_summary (out, clusters);
  if (details)
    append_details (out, self);
  g_autofree char *known = describe_sizes (sizes);
  g_string_append (out, "Note: ON, OFF: asked for or not; AUTO: recomputed anyhow, since it costs next to nothing\n");
  if (*known != '\0')
    g_string_append_printf (out, "Note: bytes with %s\n", known);
  return g_string_free (out, FALSE);
}

/* ---- JSON ---- */

static void
add_string (JsonBuilder *builder, const char *name, const char *text)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_string_value (builder, text);
}

static void
add_number (JsonBuilder *builder, const char *name, gint64 number)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, number);
}

static void
add_switch (JsonBuilder *builder, const char *name, gboolean on)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_boolean_value (builder, on);
}

char *
ortrain_recompute_report_to_json (const OrtrainRecomputeReport *self, GHashTable *sizes)
{
  g_autoptr (GPtrArray) clusters = ortrain_recompute_report_sort (self, sizes);
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  add_number (builder, "level", self->level);
  if (self->config != NULL)
    add_string (builder, "config", self->config);
  add_number (builder, "layers", self->n_layers);
  json_builder_set_member_name (builder, "clusters");
  json_builder_begin_array (builder);
  for (guint i = 0; i < clusters->len; i++)
    {
      OrtrainRecomputeCluster *cluster = clusters->pdata[i];
      json_builder_begin_object (builder);
      add_string (builder, "id", ortrain_recompute_cluster_get_id (cluster));
      add_string (builder, "configuration", ortrain_recompute_cluster_get_configuration (cluster));
      add_number (builder, "strategy", ortrain_recompute_cluster_get_strategy (cluster));
      add_number (builder, "frequency", ortrain_recompute_cluster_get_frequency (cluster));
      add_number (builder, "saving_bytes", (gint64) ortrain_recompute_cluster_get_saving_bytes (cluster));
      add_string (builder, "saving", ortrain_recompute_cluster_get_saving (cluster));
      add_number (builder, "request_count", ortrain_recompute_cluster_get_request_count (cluster));
      add_number (builder, "recomputed", ortrain_recompute_cluster_get_n_recomputed (cluster));
      add_switch (builder, "enabled", ortrain_recompute_cluster_get_enabled (cluster));
      add_switch (builder, "automatic", ortrain_recompute_cluster_get_automatic (cluster));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  return json_generator_to_data (generator, NULL);
}
