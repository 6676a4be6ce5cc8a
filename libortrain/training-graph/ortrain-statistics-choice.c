/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-statistics-choice-private.h"

#include "analysis/ortrain-parameter-roles-private.h"
#include "core/ortrain-text-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "ops/ortrain-op-private.h"
#include "options/ortrain-name-patterns-private.h"

/* The mark of layers whose statistics train. */
#define TRAINS "trains_statistics"
#define MOST_NAMED 3

gboolean
ortrain_statistics_are_stored (const OrtrainNode *node)
{
  if (node->op == NULL || node->op->statistic_inputs == 0)
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *value = ortrain_node_input (node, i);
      if ((node->op->statistic_inputs >> i & 1) &&
          (value == NULL || value->tensor == NULL || value->producer != NULL || value->enclosure != NULL))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_statistics_train (const OrtrainNode *node)
{
  return ortrain_attributes_has (node->attributes, TRAINS);
}

void
ortrain_statistics_forget (OrtrainNode *node)
{
  ortrain_attributes_remove (node->attributes, TRAINS);
}

/* Whether a value is computed from one that is trained. n_weights: of weights, trained or not, that it is computed
 * from. */
static gboolean
depends_on_trained (OrtrainValue *value, GHashTable *weights, guint *n_weights)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) stack = g_ptr_array_new ();
  g_ptr_array_add (stack, value);
  while (stack->len > 0)
    {
      OrtrainValue *next = g_ptr_array_steal_index_fast (stack, stack->len - 1);
      if (next == NULL || !g_hash_table_add (seen, next))
        continue;
      if (next->role == ORTRAIN_ROLE_PARAMETER)
        return TRUE;
      *n_weights += g_hash_table_contains (weights, next);
      for (guint i = 0; next->producer != NULL && i < next->producer->inputs->len; i++)
        g_ptr_array_add (stack, next->producer->inputs->pdata[i]);
    }
  return FALSE;
}

/* A layer with weights of its own trains if one of them does, one without if something before it does. */
static gboolean
has_trained (const OrtrainNode *node, GHashTable *weights)
{
  guint n_own = 0, n_before = 0;
  for (guint i = 0; i < node->inputs->len && i < 32; i++)
    if ((node->op->weight_inputs >> i & 1) && depends_on_trained (ortrain_node_input (node, i), weights, &n_own))
      return TRUE;
  return n_own == 0 && depends_on_trained (ortrain_node_input (node, 0), weights, &n_before);
}

typedef struct
{
  const char *option;
  OrtrainNamePatterns patterns;
  gboolean *used;
} Choice;

static gboolean
choice_init (Choice *self, const char *option, const char *const *patterns, GError **error)
{
  if (!ortrain_name_patterns_check (patterns, option, error))
    return FALSE;
  self->option = option;
  ortrain_name_patterns_init (&self->patterns, patterns);
  self->used = g_new0 (gboolean, self->patterns.n + 1);
  return TRUE;
}

static void
choice_clear (Choice *self)
{
  ortrain_name_patterns_clear (&self->patterns);
  g_clear_pointer (&self->used, g_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Choice, choice_clear)

/* By the name, the scoped name, or the module of one of the layer's tensors, or by the name of the layer itself. */
static gboolean
fits (Choice *self, const OrtrainNode *node)
{
  const char *scope = ortrain_graph_get_label (node->graph, node->scope);
  g_autofree char *scoped = scope != NULL ? g_strconcat (scope, ".", node->name, NULL) : NULL;
  gboolean any = FALSE;
  for (guint i = 0; self->patterns.n > 0 && i <= node->inputs->len && i <= 32; i++)
    {
      const OrtrainValue *value = i > 0 ? ortrain_node_input (node, i - 1) : NULL;
      if (i > 0 && (value == NULL || !((node->op->statistic_inputs | node->op->weight_inputs) >> (i - 1) & 1)))
        continue;
      const char *name = i > 0 ? value->name : node->name;
      const GArray *found = name != NULL ? ortrain_name_patterns_match_scoped (
                                               &self->patterns, name, i > 0 ? ortrain_scoped_name_of (value) : scoped)
                                         : NULL;
      for (guint k = 0; found != NULL && k < found->len; k++)
        any = self->used[g_array_index (found, guint, k)] = TRUE;
    }
  return any;
}

static gboolean
check_used (const Choice *self, GError **error)
{
  g_autoptr (GString) unused = g_string_new (NULL);
  for (guint i = 0; i < self->patterns.n; i++)
    if (!self->used[self->patterns.first[i]])
      g_string_append_printf (unused, "%s'%s'", unused->len > 0 ? ", " : "",
                              ortrain_text_show (self->patterns.patterns[i]));
  if (unused->len == 0)
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "Option '%s': no layer with running statistics matches %s", self->option,
               ortrain_text_show_list (unused->str));
  return FALSE;
}

static void
add_note (GStrvBuilder *notes, const GPtrArray *kept)
{
  g_autoptr (GString) names = g_string_new (NULL);
  for (guint i = 0; i < kept->len && i < MOST_NAMED; i++)
    {
      const OrtrainNode *node = kept->pdata[i];
      guint statistic = 0;
      while (!(node->op->statistic_inputs >> statistic & 1))
        statistic++;
      const OrtrainValue *value = ortrain_node_input (node, statistic);
      const char *scoped = ortrain_scoped_name_of (value);
      g_string_append_printf (names, "%s'%s'", i > 0 ? ", " : "",
                              ortrain_text_show (scoped != NULL ? scoped : value->name));
    }
  g_autofree char *note = g_strdup_printf (
      "%u layer%s with running statistics (%s%s) %s frozen parameters, and %s by the stored statistics, "
      "which do not change; trainable-statistics trains them",
      kept->len, ortrain_text_plural (kept->len), names->str, kept->len > MOST_NAMED ? ", …" : "",
      kept->len == 1 ? "has" : "have", kept->len == 1 ? "normalizes" : "normalize");
  g_strv_builder_add (notes, note);
}

gboolean
ortrain_statistics_choose (OrtrainGraph *graph, OrtrainTrainingOptions *options, GStrvBuilder *notes, GError **error)
{
  const gboolean usual = ortrain_training_options_get_batch_norm (options) == ORTRAIN_BATCH_NORM_MODE_TRAIN;
  const gboolean chosen =
      ortrain_training_options_get_trainable (options) != NULL || ortrain_training_options_get_frozen (options) != NULL;
  g_auto (Choice) trainable = { 0 }, frozen = { 0 };
  g_autoptr (GHashTable) weights = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) kept = g_ptr_array_new ();
  if (!choice_init (&trainable, "trainable-statistics", ortrain_training_options_get_trainable_statistics (options),
                    error) ||
      !choice_init (&frozen, "frozen-statistics", ortrain_training_options_get_frozen_statistics (options), error))
    return FALSE;
  if (chosen && usual)
    {
      g_autoptr (GArray) roles = ortrain_parameter_roles_find (graph);
      for (guint i = 0; i < roles->len; i++)
        if (g_array_index (roles, OrtrainParameterRole, i).is_weight)
          g_hash_table_add (weights, (gpointer) g_array_index (roles, OrtrainParameterRole, i).value);
    }
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      if (!ortrain_statistics_are_stored (node) || node->op->training_form == NULL)
        continue;
      gboolean trains = usual && (!chosen || has_trained (node, weights));
      const gboolean by_itself = usual && !trains;
      const gboolean is_trainable = fits (&trainable, node), is_frozen = fits (&frozen, node);
      trains = !is_frozen && (trains || is_trainable);
      if (trains)
        ortrain_attributes_set_int (node->attributes, TRAINS, 1);
      else if (by_itself && !is_frozen)
        g_ptr_array_add (kept, node);
      for (guint i = 0; i < node->inputs->len && trains; i++)
        if (node->op->statistic_inputs >> i & 1)
          ortrain_node_input (node, i)->role = ORTRAIN_ROLE_BUFFER;
    }
  if (!check_used (&trainable, error) || !check_used (&frozen, error))
    return FALSE;
  if (kept->len > 0)
    add_note (notes, kept);
  return TRUE;
}
