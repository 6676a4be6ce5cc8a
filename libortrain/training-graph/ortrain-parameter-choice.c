/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-parameter-choice-private.h"

#include "analysis/ortrain-parameter-roles-private.h"
#include "core/ortrain-text-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "ops/ortrain-op-private.h"
#include "options/ortrain-name-patterns-private.h"
#include "training-graph/ortrain-uncertain-parameters-private.h"

GHashTable *
ortrain_parameter_choice_find_differentiable (OrtrainValue *const *outputs, guint n)
{
  GHashTable *differentiable = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) stack = g_ptr_array_new ();
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (stack, outputs[i]);
  while (stack->len > 0)
    {
      OrtrainValue *value = g_ptr_array_steal_index (stack, stack->len - 1);
      if (value == NULL || !ortrain_dtype_is_floating (value->dtype) || !g_hash_table_add (seen, value))
        continue;
      g_hash_table_add (differentiable, g_strdup (value->name));
      OrtrainNode *node = value->producer;
      if (node == NULL || (node->op != NULL && (node->op->flags & ORTRAIN_OP_NO_GRADIENT)))
        continue;
      for (guint i = 0; i < node->inputs->len; i++)
        if (node->op == NULL || i >= 32 || !(node->op->no_grad_inputs >> i & 1))
          g_ptr_array_add (stack, node->inputs->pdata[i]);
    }
  return differentiable;
}

/* ---- the options ---- */

typedef struct
{
  const char *option;
  OrtrainNamePatterns patterns;
  gboolean *used;           /* by the positions of the patterns */
  gboolean *fits_weight;    /* likewise: such a pattern chooses among weights, any other among all tensors */
  GPtrArray *fits_constant; /* for each pattern: the reason of a constant that it fits, or NULL */
} Choice;

static gboolean
choice_init (Choice *self, const char *option, const char *const *patterns, GError **error)
{
  if (!ortrain_name_patterns_check (patterns, option, error))
    return FALSE;
  self->option = option;
  ortrain_name_patterns_init (&self->patterns, patterns);
  self->used = g_new0 (gboolean, self->patterns.n + 1);
  self->fits_weight = g_new0 (gboolean, self->patterns.n + 1);
  self->fits_constant = g_ptr_array_new_full (self->patterns.n, g_free);
  g_ptr_array_set_size (self->fits_constant, (gint) self->patterns.n);
  return TRUE;
}

static void
choice_clear (Choice *self)
{
  ortrain_name_patterns_clear (&self->patterns);
  g_clear_pointer (&self->used, g_free);
  g_clear_pointer (&self->fits_weight, g_free);
  g_clear_pointer (&self->fits_constant, g_ptr_array_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Choice, choice_clear)

static gboolean
names_exactly (Choice *self, const OrtrainValue *value)
{
  gint position = ortrain_name_patterns_find (&self->patterns, value->name);
  if (position < 0 && value->scoped_name > 0)
    position = ortrain_name_patterns_find (&self->patterns, ortrain_scoped_name_of (value));
  if (position >= 0)
    self->used[position] = TRUE;
  return position >= 0;
}

static void
find_patterns_of_weights (Choice *self, const GArray *roles)
{
  for (guint r = 0; r < roles->len; r++)
    {
      const OrtrainParameterRole *role = &g_array_index (roles, OrtrainParameterRole, r);
      const GArray *found = role->is_weight ? ortrain_name_patterns_match_scoped (&self->patterns, role->value->name,
                                                                                  ortrain_scoped_name_of (role->value))
                                            : NULL;
      for (guint k = 0; found != NULL && k < found->len; k++)
        self->fits_weight[g_array_index (found, guint, k)] = TRUE;
    }
}

/* constant: why a tensor that is not a weight is not one; or NULL if it cannot be trained. why: because of this, or
 * NULL */
static gboolean
fits (Choice *self, const OrtrainValue *value, gboolean is_weight, const char *constant, const char *why)
{
  gboolean any = FALSE;
  const GArray *found =
      ortrain_name_patterns_match_scoped (&self->patterns, value->name, ortrain_scoped_name_of (value));
  for (guint k = 0; k < found->len; k++)
    {
      const guint i = g_array_index (found, guint, k);
      if (is_weight || (!self->fits_weight[i] && constant != NULL))
        any = self->used[i] = TRUE;
      else if (self->fits_constant->pdata[i] == NULL)
        self->fits_constant->pdata[i] = g_strdup_printf (
            "'%s', which %s%s%s", ortrain_text_show (value->name), constant != NULL ? constant : "cannot be trained",
            constant == NULL && why != NULL ? ": " : "", constant == NULL && why != NULL ? why : "");
    }
  return any;
}

static gboolean
check_used (const Choice *self, GError **error)
{
  g_autoptr (GString) unused = g_string_new (NULL), constants = g_string_new (NULL);
  for (guint i = 0; i < self->patterns.n; i++)
    if (!self->used[self->patterns.first[i]])
      {
        const char *pattern = self->patterns.patterns[i],
                   *constant = self->fits_constant->pdata[self->patterns.first[i]];
        g_string_append_printf (unused, "%s'%s'", unused->len > 0 ? ", " : "", ortrain_text_show (pattern));
        if (constant != NULL)
          g_string_append_printf (constants, "; '%s' fits %s", ortrain_text_show (pattern),
                                  ortrain_text_show (constant));
      }
  if (unused->len == 0)
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "Option '%s': no initializer of the model matches %s%s", self->option,
               ortrain_text_show_list (unused->str), ortrain_text_show_list (constants->str));
  return FALSE;
}

/* Why a tensor cannot be trained even if it is named; or NULL. */
static char *
find_refusal (const OrtrainValue *value)
{
  if (!ortrain_dtype_is_floating (value->dtype))
    return g_strdup ("it is of no floating type");
  if (value->enclosure != NULL)
    return g_strdup_printf ("it is stored inside %s, which no export changes", value->enclosure);
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse *use = &value->uses.items[u];
      if (use->node->op != NULL && use->index < 32 && (use->node->op->shape_inputs >> use->index & 1))
        return g_strdup ("it decides a shape");
    }
  return NULL;
}

gboolean
ortrain_parameter_choice_apply (OrtrainGraph *graph, GHashTable *differentiable, OrtrainTrainingOptions *options,
                                GStrvBuilder *notes, GError **error)
{
  g_auto (Choice) trainable = { 0 }, frozen = { 0 };
  g_auto (OrtrainUncertainParameters) uncertain;
  g_autoptr (GArray) roles = ortrain_parameter_roles_find (graph);
  g_autoptr (GString) refused = g_string_new (NULL);
  guint n_chosen = 0, next = 0;
  ortrain_uncertain_parameters_init (&uncertain);
  if (!choice_init (&trainable, "trainable", ortrain_training_options_get_trainable (options), error) ||
      !choice_init (&frozen, "frozen", ortrain_training_options_get_frozen (options), error))
    return FALSE;
  find_patterns_of_weights (&trainable, roles);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      const OrtrainParameterRole *role = next < roles->len ? &g_array_index (roles, OrtrainParameterRole, next) : NULL;
      role = role != NULL && role->value == value ? role : NULL; /* of no floating type */
      next += role != NULL;
      if (value->tensor == NULL || value->producer != NULL)
        continue;
      const gboolean is_weight = role != NULL && role->is_weight;
      gboolean chosen = is_weight && g_hash_table_contains (differentiable, value->name);
      if (trainable.patterns.patterns != NULL)
        {
          /* A pattern chooses among the weights, if it fits one; a name is meant, whatever it names. */
          const gboolean exact = names_exactly (&trainable, value);
          g_autofree char *refusal = find_refusal (value);
          const gboolean possible = role != NULL && refusal == NULL && !role->is_statistic &&
                                    g_hash_table_contains (differentiable, value->name);
          const gboolean fitting = fits (&trainable, value, is_weight, possible ? role->reason : NULL, refusal);
          const char *why = exact ? refusal : NULL;
          /* such as a statistic of batch normalisation */
          if (exact && why == NULL && role != NULL && !is_weight &&
              (role->is_statistic || !g_hash_table_contains (differentiable, value->name)) && value->uses.n > 0)
            why = role->reason;
          if (why != NULL)
            g_string_append_printf (refused, "%s'%s' (%s)", refused->len > 0 ? ", " : "",
                                    ortrain_text_show (value->name), why);
          chosen = exact || (fitting && (chosen || (!is_weight && possible)));
        }
      const gboolean named_frozen = names_exactly (&frozen, value);
      const gboolean is_frozen = fits (&frozen, value, TRUE, NULL, NULL) || named_frozen;
      chosen = chosen && !is_frozen;
      if (role != NULL && !is_frozen && trainable.patterns.patterns == NULL &&
          g_hash_table_contains (differentiable, value->name))
        ortrain_uncertain_parameters_add (&uncertain, role, chosen);
      if (!chosen)
        continue;
      value->role = ORTRAIN_ROLE_PARAMETER;
      n_chosen++;
    }
  if (!check_used (&trainable, error) || !check_used (&frozen, error))
    return FALSE;
  if (refused->len > 0)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE, "Cannot train %s",
                   ortrain_text_show_list (refused->str));
      return FALSE;
    }
  if (n_chosen == 0)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
                   "There is nothing to train: no chosen weight has a gradient; name tensors in 'trainable' "
                   "(Model.check lists them, with reasons)");
      return FALSE;
    }
  ortrain_uncertain_parameters_add_notes (&uncertain, notes);
  return TRUE;
}
