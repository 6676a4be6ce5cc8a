/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-recompute-report-private.h"

#include "budget/ortrain-recompute-choices-private.h"
#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"
#include "recompute/ortrain-recompute-candidates-private.h"
#include "recompute/ortrain-recompute-config-private.h"
#include "recompute/ortrain-recompute-private.h"

#include <string.h>

/* ---- sizes ---- */

GHashTable *
ortrain_recompute_sizes_new (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
}

void
ortrain_recompute_sizes_set (GHashTable *sizes, const char *symbol, gint64 size)
{
  g_hash_table_replace (sizes, g_strdup (symbol), g_memdup2 (&size, sizeof size));
}

/* ---- savings ---- */

/* A sum of products, as in the shapes: coefficient times "batch*(seq - 1)". */
typedef struct
{
  OrtrainDimSpace *space;
  OrtrainDim bytes;
  GPtrArray *products; /* of char * */
  GArray *coefficients;
} Saving;

static Saving
saving_new (OrtrainDimSpace *space)
{
  return (Saving){ space, ortrain_dim_int (0), g_ptr_array_new_with_free_func (g_free),
                   g_array_new (FALSE, FALSE, sizeof (gint64)) };
}

static void
saving_clear (Saving *self)
{
  g_clear_pointer (&self->products, g_ptr_array_unref);
  g_clear_pointer (&self->coefficients, g_array_unref);
}

static void
add_product (Saving *self, const char *product, gint64 coefficient)
{
  guint index;
  if (!g_ptr_array_find_with_equal_func (self->products, product, g_str_equal, &index))
    {
      const gint64 zero = 0;
      index = self->products->len;
      g_ptr_array_add (self->products, g_strdup (product));
      g_array_append_val (self->coefficients, zero);
    }
  gint64 *sum = &g_array_index (self->coefficients, gint64, index);
  if (!ortrain_checked_add_i64 (*sum, coefficient, sum))
    *sum = G_MAXINT64;
}

/* A factor with its power, as Python writes it. */
static void
append_factor (GString *out, OrtrainDim dim, guint power)
{
  g_autofree char *text = ortrain_dim_to_readable (dim);
  const gboolean is_sum = strpbrk (text, power > 1 ? " +-*/" : " +-/") != NULL;
  g_string_append_printf (out, "%s%s%s%s", out->len > 0 ? "*" : "", is_sum ? "(" : "", text, is_sum ? ")" : "");
  if (power > 1)
    g_string_append_printf (out, "**%u", power);
}

/* The bytes of a value, `size` for each element; size may be negative. */
static void
saving_add (Saving *self, const OrtrainValue *value, gint64 size)
{
  OrtrainDim product = ortrain_dim_int (size);
  gint64 coefficient = size;
  g_autoptr (GString) text = g_string_new (NULL);
  if (value->rank < 0)
    {
      self->bytes = ortrain_dim_unknown (self->space);
      add_product (self, "?", size);
      return;
    }
  for (gint i = 0; i < value->rank; i++)
    {
      guint power = 0;
      gboolean repeated = FALSE;
      product = ortrain_dim_mul (self->space, product, value->dims[i]);
      if (ortrain_dim_is_int (value->dims[i]))
        {
          if (!ortrain_checked_mul_i64 (coefficient, value->dims[i].value, &coefficient))
            coefficient = G_MAXINT64;
          continue;
        }
      for (gint k = 0; k < value->rank; k++)
        {
          const gboolean same = ortrain_dim_equal (value->dims[i], value->dims[k]);
          power += same;
          repeated = repeated || (same && k < i);
        }
      if (!repeated)
        append_factor (text, value->dims[i], power);
    }
  self->bytes = ortrain_dim_add (self->space, self->bytes, product);
  add_product (self, text->str, coefficient);
}

static char *
saving_to_string (const Saving *self)
{
  GString *out = g_string_new (NULL);
  for (guint i = 0; i < self->products->len; i++)
    {
      const gint64 coefficient = g_array_index (self->coefficients, gint64, i);
      const char *product = self->products->pdata[i];
      if (coefficient == 0)
        continue;
      g_string_append (out, out->len > 0 ? (coefficient < 0 ? " - " : " + ") : coefficient < 0 ? "-" : "");
      g_string_append_printf (out, "%" G_GINT64_FORMAT "%s%s", ABS (coefficient), *product != '\0' ? "*" : "", product);
    }
  if (out->len == 0)
    g_string_append_c (out, '0');
  return g_string_free (out, FALSE);
}

static gboolean
is_kept_anyhow (const OrtrainValue *value)
{
  return value->producer == NULL || ortrain_recompute_is_read_backward (value) ||
         ortrain_recompute_is_free_to_keep (value);
}

/* ---- rows ---- */

static int
compare_texts (gconstpointer a, gconstpointer b)
{
  return g_strcmp0 (*(const char *const *) a, *(const char *const *) b);
}

/* The strategy of each candidate of a group if the group goes by `strategy`; NONE: it cannot. */
static OrtrainRecomputeStrategy
get_strategy (const OrtrainRecomputeCandidate *candidate, OrtrainRecomputeStrategy strategy)
{
  const OrtrainRecomputeStrategy other = strategy == ORTRAIN_RECOMPUTE_STRATEGY_COMPROMISED
                                             ? ORTRAIN_RECOMPUTE_STRATEGY_PLAIN
                                             : ORTRAIN_RECOMPUTE_STRATEGY_NONE;
  return candidate->ways[strategy].cluster != NULL ? strategy
         : candidate->ways[other].cluster != NULL  ? other
                                                   : ORTRAIN_RECOMPUTE_STRATEGY_NONE;
}

/* "MatMul+:1:-1,Reshape+:1:-1"; NULL where the group has no such way. */
static char *
describe_group (const OrtrainRecomputeGroup *group, OrtrainRecomputeStrategy strategy, char **id)
{
  g_autoptr (GPtrArray) plans = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) ids = g_ptr_array_new ();
  gboolean fits = FALSE;
  for (guint c = 0; c < group->candidates->len; c++)
    {
      const OrtrainRecomputeCandidate *candidate = group->candidates->pdata[c];
      const OrtrainRecomputeStrategy own = get_strategy (candidate, strategy);
      if (own == ORTRAIN_RECOMPUTE_STRATEGY_NONE)
        return NULL;
      fits = fits || own == strategy;
      g_autofree char *plan = g_strdup_printf ("%s:%d:-1", candidate->ways[own].cluster, own);
      if (!g_ptr_array_find_with_equal_func (plans, plan, g_str_equal, NULL))
        g_ptr_array_add (plans, g_steal_pointer (&plan));
      if (!g_ptr_array_find_with_equal_func (ids, candidate->ways[own].cluster, g_str_equal, NULL))
        g_ptr_array_add (ids, candidate->ways[own].cluster);
    }
  if (!fits || group->roots->len == 0)
    return NULL;
  g_ptr_array_sort (plans, compare_texts);
  g_ptr_array_sort (ids, compare_texts);
  g_ptr_array_add (plans, NULL);
  g_ptr_array_add (ids, NULL);
  *id = g_strjoinv (",", (char **) ids->pdata);
  return g_strjoinv (",", (char **) plans->pdata);
}

typedef struct
{
  char *id, *configuration;
  OrtrainRecomputeStrategy strategy;
  gboolean automatic;
  guint frequency, n_recomputed;
  Saving saving;
  const OrtrainRecomputeGroup *first;
} Row;

static void
row_free (gpointer data)
{
  Row *row = data;
  saving_clear (&row->saving);
  g_free (row->id);
  g_free (row->configuration);
  g_free (row);
}

static Row *
find_row (GPtrArray *rows, const char *configuration, OrtrainRecomputeStrategy strategy, gboolean automatic)
{
  for (guint r = 0; r < rows->len; r++)
    {
      Row *row = rows->pdata[r];
      if (row->strategy == strategy && row->automatic == automatic && g_str_equal (row->configuration, configuration))
        return row;
    }
  return NULL;
}

static void
add_group (GPtrArray *rows, const OrtrainRecomputeCandidates *candidates, const OrtrainRecomputeGroup *group,
           OrtrainRecomputeStrategy strategy)
{
  g_autofree char *id = NULL;
  g_autofree char *configuration = describe_group (group, strategy, &id);
  if (configuration == NULL)
    return;
  Row *row = find_row (rows, configuration, strategy, group->automatic);
  if (row == NULL)
    {
      row = g_new0 (Row, 1);
      row->id = g_steal_pointer (&id);
      row->configuration = g_steal_pointer (&configuration);
      row->strategy = strategy;
      row->automatic = group->automatic;
      row->saving = saving_new (candidates->graph->dims);
      row->first = group;
      g_ptr_array_add (rows, row);
    }
  gboolean all = TRUE;
  row->frequency++;
  for (guint k = 0; k < group->roots->len; k++)
    {
      const OrtrainValue *root = group->roots->pdata[k];
      saving_add (&row->saving, root, (gint64) ortrain_dtype_get_size (root->dtype));
    }
  for (guint c = 0; c < group->candidates->len; c++)
    {
      const OrtrainRecomputeCandidate *candidate = group->candidates->pdata[c];
      const OrtrainRecomputeStrategy own = get_strategy (candidate, strategy);
      const GPtrArray *also = candidate->ways[own].kept;
      for (guint i = 0; i < also->len; i++)
        if (!is_kept_anyhow (ortrain_recompute_find_root (also->pdata[i])))
          saving_add (&row->saving, also->pdata[i],
                      -(gint64) ortrain_dtype_get_size (((OrtrainValue *) also->pdata[i])->dtype));
      all = all && candidate->strategy == own;
    }
  row->n_recomputed += all;
}

static gint
count_requests (const OrtrainRecomputeGroup *group, OrtrainRecomputeStrategy strategy, const GArray *requests)
{
  gint least = G_MAXINT;
  for (guint c = 0; c < group->candidates->len; c++)
    {
      const OrtrainRecomputeCandidate *candidate = group->candidates->pdata[c];
      const OrtrainRecomputeStrategy own = get_strategy (candidate, strategy);
      gint count = 0;
      for (guint i = 0; i < requests->len; i++)
        {
          const OrtrainRecomputeRequest *request = &g_array_index (requests, OrtrainRecomputeRequest, i);
          if (request->strategy == own && g_str_equal (request->cluster, candidate->ways[own].cluster))
            count = request->count < 0 ? G_MAXINT : (gint) request->count;
        }
      least = MIN (least, count);
    }
  return least == G_MAXINT ? -1 : least;
}

/* requests: NULL for levels that choose by themselves. */
static void
add_clusters (OrtrainRecomputeReport *report, const OrtrainRecomputeCandidates *candidates, const GArray *requests)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func (row_free);
  for (guint g = 0; g < candidates->groups->len; g++)
    for (guint s = ORTRAIN_RECOMPUTE_STRATEGY_PLAIN; s < ORTRAIN_N_RECOMPUTE_STRATEGIES; s++)
      add_group (rows, candidates, candidates->groups->pdata[g], (OrtrainRecomputeStrategy) s);
  for (guint r = 0; r < rows->len; r++)
    {
      Row *row = rows->pdata[r];
      if (ortrain_dim_is_int (row->saving.bytes) && row->saving.bytes.value <= 0)
        continue;
      const guint n = row->automatic ? row->frequency : row->n_recomputed;
      OrtrainRecomputeRow public_row = {
        .id = g_strdup (row->id),
        .configuration = g_strdup (row->configuration),
        .strategy = row->strategy,
        .frequency = row->frequency,
        .n_recomputed = n,
        .request_count = row->automatic || (requests == NULL && n == row->frequency) ? -1
                         : requests != NULL ? count_requests (row->first, row->strategy, requests)
                                            : (gint) n,
        .automatic = row->automatic,
        .space = ortrain_dim_space_ref (row->saving.space),
        .bytes = row->saving.bytes,
        .saving = saving_to_string (&row->saving),
      };
      public_row.enabled = public_row.request_count != 0;
      g_ptr_array_add (report->clusters, ortrain_recompute_cluster_new (&public_row));
    }
}

/* ---- opportunities ---- */

static void
opportunity_free (gpointer data)
{
  OrtrainRecomputeOpportunity *self = data;
  for (guint s = 0; s < G_N_ELEMENTS (self->ways); s++)
    {
      g_free (self->ways[s]);
      g_free (self->outputs[s]);
    }
  g_free (self);
}

/* How much of an output is saved: all of it, except for the input of a cast. */
static gint
get_percent (const OrtrainRecomputeOption *way, const OrtrainValue *output)
{
  if (way->casts->len != 1 || way->casts->pdata[0] != output->producer)
    return 100;
  const OrtrainValue *input = way->kept->pdata[0];
  return 100 - (gint) (100 * ortrain_dtype_get_size (input->dtype) / ortrain_dtype_get_size (output->dtype));
}

static char *
describe_outputs (const OrtrainRecomputeCandidate *candidate, const OrtrainRecomputeOption *way)
{
  GString *out = g_string_new (NULL);
  for (guint k = 0; k < candidate->outputs->len; k++)
    {
      const OrtrainValue *output = candidate->outputs->pdata[k];
      const gboolean shares = ortrain_recompute_find_root ((OrtrainValue *) output) != output;
      g_autofree char *shape = ortrain_dims_to_readable (output->dims, output->rank, NULL);
      g_string_append_printf (out, "%sOutput %u: %s, %" G_GSIZE_FORMAT " bytes an element, %d%% saved%s",
                              k > 0 ? "\n" : "", k, shape, ortrain_dtype_get_size (output->dtype),
                              get_percent (way, output), shares ? ", in the memory of another" : "");
    }
  return g_string_free (out, FALSE);
}

static void
add_opportunities (OrtrainRecomputeReport *report, const OrtrainRecomputeCandidates *candidates, const GArray *requests)
{
  for (guint c = 0; c < candidates->candidates->len; c++)
    {
      const OrtrainRecomputeCandidate *candidate = candidates->candidates->pdata[c];
      OrtrainRecomputeOpportunity *fresh = g_new0 (OrtrainRecomputeOpportunity, 1), *found = NULL;
      gboolean any = FALSE;
      for (guint s = 1; s < ORTRAIN_N_RECOMPUTE_STRATEGIES; s++)
        if (candidate->ways[s].cluster != NULL)
          {
            any = TRUE;
            fresh->ways[s] = g_strdup (candidate->ways[s].cluster);
            fresh->outputs[s] = describe_outputs (candidate, &candidate->ways[s]);
            for (guint i = 0; requests != NULL && i < requests->len; i++)
              {
                const OrtrainRecomputeRequest *request = &g_array_index (requests, OrtrainRecomputeRequest, i);
                if ((guint) request->strategy == s && g_str_equal (request->cluster, fresh->ways[s]))
                  fresh->requested[s] = request->count < 0 ? G_MAXUINT : (guint) request->count;
              }
          }
      for (guint i = 0; any && i < report->opportunities->len && found == NULL; i++)
        {
          OrtrainRecomputeOpportunity *other = report->opportunities->pdata[i];
          gboolean same = TRUE;
          for (guint s = 1; s < ORTRAIN_N_RECOMPUTE_STRATEGIES && same; s++)
            same = g_strcmp0 (other->ways[s], fresh->ways[s]) == 0 &&
                   g_strcmp0 (other->outputs[s], fresh->outputs[s]) == 0;
          found = same ? other : NULL;
        }
      if (any && found == NULL)
        g_ptr_array_add (report->opportunities, found = g_steal_pointer (&fresh));
      g_clear_pointer (&fresh, opportunity_free);
      if (found == NULL)
        continue;
      found->frequency++;
      found->actual[candidate->strategy] += candidate->strategy != ORTRAIN_RECOMPUTE_STRATEGY_NONE;
    }
}

/* ---- choosing ---- */

static gboolean
refuse_cluster (const OrtrainRecomputeRequest *request, const OrtrainRecomputeCandidates *const *all, GError **error)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new ();
  gboolean other = FALSE;
  for (guint a = 0; a < 2; a++)
    for (guint c = 0; c < all[a]->candidates->len; c++)
      for (guint s = 1; s < ORTRAIN_N_RECOMPUTE_STRATEGIES; s++)
        {
          const OrtrainRecomputeCandidate *candidate = all[a]->candidates->pdata[c];
          char *cluster = candidate->ways[s].cluster;
          if (cluster == NULL)
            continue;
          other = other || g_str_equal (cluster, request->cluster);
          if (!g_ptr_array_find_with_equal_func (known, cluster, g_str_equal, NULL))
            g_ptr_array_add (known, cluster);
        }
  g_ptr_array_sort (known, compare_texts);
  g_ptr_array_add (known, NULL);
  g_autofree char *list = g_strjoinv (", ", (char **) known->pdata);
  if (other)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                 "Recompute plan '%s:%d': the cluster can only be recomputed by the other strategy",
                 ortrain_text_show (request->cluster), request->strategy);
  else
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                 "Recompute plan '%s': the training graph has no such cluster; it has %s",
                 ortrain_text_show (request->cluster), known->len > 1 ? ortrain_text_show_list (list) : "none");
  return FALSE;
}

static gboolean
has_cluster (const OrtrainRecomputeCandidates *candidates, const OrtrainRecomputeRequest *request)
{
  for (guint c = 0; c < candidates->candidates->len; c++)
    {
      const OrtrainRecomputeCandidate *candidate = candidates->candidates->pdata[c];
      for (guint s = 1; s < ORTRAIN_N_RECOMPUTE_STRATEGIES; s++)
        if ((guint) request->strategy == s || request->strategy == ORTRAIN_RECOMPUTE_STRATEGY_NONE)
          if (g_strcmp0 (candidate->ways[s].cluster, request->cluster) == 0)
            return TRUE;
    }
  return FALSE;
}

/* all: those that can be chosen, and those that are chosen anyhow. */
static gboolean
choose (const GArray *requests, const OrtrainRecomputeCandidates *const *all, GError **error)
{
  for (guint i = 0; i < requests->len; i++)
    {
      const OrtrainRecomputeRequest *request = &g_array_index (requests, OrtrainRecomputeRequest, i);
      if (!has_cluster (all[0], request) && !has_cluster (all[1], request))
        return refuse_cluster (request, all, error);
    }
  for (guint s = 1; s < ORTRAIN_N_RECOMPUTE_STRATEGIES; s++)
    for (guint i = 0; i < requests->len; i++)
      {
        const OrtrainRecomputeRequest *request = &g_array_index (requests, OrtrainRecomputeRequest, i);
        gint64 left = request->count < 0 ? G_MAXINT64 : request->count;
        for (guint c = 0; c < all[0]->candidates->len && (guint) request->strategy == s && left > 0; c++)
          {
            OrtrainRecomputeCandidate *candidate = all[0]->candidates->pdata[c];
            if (g_strcmp0 (candidate->ways[s].cluster, request->cluster) != 0)
              continue;
            left--;
            if (candidate->strategy == ORTRAIN_RECOMPUTE_STRATEGY_NONE)
              candidate->strategy = request->strategy;
          }
      }
  return TRUE;
}

/* Nothing of it is kept for the backward pass, under its own name. */
static gboolean
is_kept_in (OrtrainMemoryPlan *plan, const OrtrainValue *output)
{
  guint n_values;
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (plan, &n_values);
  const OrtrainValue *planned = ortrain_graph_find_value (ortrain_memory_plan_peek_graph (plan), output->name);
  const guint32 buffer = planned != NULL ? ortrain_memory_plan_find_buffer (plan, planned) : G_MAXUINT32;
  return buffer != G_MAXUINT32 && values[values[buffer].root].category == ORTRAIN_CATEGORY_ACTIVATION;
}

/* Notes the choices of a level. */
static void
note_plan (const OrtrainRecomputeCandidates *candidates, OrtrainMemoryPlan *plan)
{
  for (guint c = 0; c < candidates->candidates->len; c++)
    {
      OrtrainRecomputeCandidate *candidate = candidates->candidates->pdata[c];
      gboolean again = TRUE;
      for (guint k = 0; k < candidate->outputs->len; k++)
        again = again && !is_kept_in (plan, candidate->outputs->pdata[k]);
      if (again)
        candidate->strategy = candidate->ways[ORTRAIN_RECOMPUTE_STRATEGY_PLAIN].cluster != NULL
                                  ? ORTRAIN_RECOMPUTE_STRATEGY_PLAIN
                                  : ORTRAIN_RECOMPUTE_STRATEGY_NONE;
    }
}

static OrtrainRecomputeReport *
report_new (guint level, const char *config)
{
  OrtrainRecomputeReport *self = g_atomic_rc_box_new0 (OrtrainRecomputeReport);
  self->level = level;
  self->config = g_strdup (config);
  self->clusters = g_ptr_array_new_with_free_func (g_object_unref);
  self->opportunities = g_ptr_array_new_with_free_func (opportunity_free);
  return self;
}

/* graph: changed. requests: NULL at levels above 0. */
static OrtrainRecomputeReport *
analyze (OrtrainGraph *graph, OrtrainRecomputeReport *report, const GArray *requests, OrtrainMemoryPlan *plan,
         GError **error)
{
  const guint n_values = graph->values->len;
  g_autofree gint64 *bytes = ortrain_recompute_probe_bytes (graph);
  g_autofree gboolean *cheap = g_new (gboolean, n_values + 1), *automatic = g_new (gboolean, n_values + 1);
  graph->recompute_group_size = 1; /* a cluster runs again from values that are kept next to it */
  ortrain_recompute_cut_cheap (graph, bytes, 0, cheap);
  for (guint v = 0; v < n_values; v++)
    automatic[v] = !cheap[v];
  g_autoptr (OrtrainRecomputeCandidates) chosen_anyhow = ortrain_recompute_candidates_new (graph, automatic);
  add_clusters (report, chosen_anyhow, NULL);

  g_autofree guint8 *run = ortrain_recompute_runs_new (cheap, n_values);
  if (!ortrain_recompute_apply (graph, run, error))
    return NULL;
  g_autoptr (OrtrainRecomputeCandidates) candidates = ortrain_recompute_candidates_new (graph, NULL);
  const OrtrainRecomputeCandidates *const all[] = { candidates, chosen_anyhow };
  if (requests != NULL && !choose (requests, all, error))
    return NULL;
  if (requests == NULL && plan != NULL && ortrain_memory_plan_get_n_layers (plan) > 0)
    {
      report->n_layers = ortrain_memory_plan_get_n_layers (plan);
      note_plan (candidates, plan);
    }
  add_clusters (report, candidates, requests);
  add_opportunities (report, candidates, requests);
  for (guint c = 0; c < candidates->candidates->len; c++)
    report->n_recomputed +=
        ((OrtrainRecomputeCandidate *) candidates->candidates->pdata[c])->strategy != ORTRAIN_RECOMPUTE_STRATEGY_NONE;
  if (requests != NULL)
    report->choices = ortrain_recompute_choices_new (candidates);
  return report;
}

OrtrainRecomputeReport *
ortrain_recompute_list (OrtrainGraph *graph, guint level, OrtrainMemoryPlan *plan)
{
  g_autoptr (OrtrainGraph) clone = ortrain_graph_clone (graph);
  g_autoptr (GArray) none = ortrain_recompute_config_parse ("", NULL);
  g_autoptr (OrtrainRecomputeReport) report = report_new (level, NULL);
  report->planned = plan != NULL;
  if (analyze (clone, report, level == 0 ? none : NULL, plan, NULL) == NULL)
    return report_new (level, NULL);
  return g_steal_pointer (&report);
}

OrtrainRecomputeReport *
ortrain_recompute_run (OrtrainGraph *graph, const char *config, GError **error)
{
  g_autoptr (GArray) requests = ortrain_recompute_config_read (config, error);
  if (requests == NULL)
    return NULL;
  g_autoptr (OrtrainGraph) clone = ortrain_graph_clone (graph);
  g_autoptr (OrtrainRecomputeReport) report = report_new (0, config);
  return analyze (clone, report, requests, NULL, error) != NULL ? g_steal_pointer (&report) : NULL;
}

/* ---- the report ---- */

OrtrainRecomputeReport *
ortrain_recompute_report_ref (OrtrainRecomputeReport *self)
{
  return g_atomic_rc_box_acquire (self);
}

static void
report_clear (gpointer data)
{
  OrtrainRecomputeReport *self = data;
  g_free (self->config);
  g_ptr_array_unref (self->clusters);
  g_ptr_array_unref (self->opportunities);
  g_clear_pointer (&self->choices, g_ptr_array_unref);
}

void
ortrain_recompute_report_unref (OrtrainRecomputeReport *self)
{
  if (self != NULL)
    g_atomic_rc_box_release_full (self, report_clear);
}
