/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-branch-gradient-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-grad-context-private.h"

/* Reverse accumulation. A value is active when it depends on a wanted value and the loss depends on it, both through
 * inputs that carry gradients; only nodes between active values are visited, in the reverse of the forward order. */

static gboolean
has_bit (guint32 inputs, guint i)
{
  return i < 32 && (inputs >> i & 1) != 0;
}

/* Whether the output changes with it: a gradient that is not zero by definition. */
static gboolean
carries (const OrtrainNode *node, guint i)
{
  const OrtrainValue *input = node->inputs->pdata[i];
  if (input == NULL || !ortrain_dtype_is_floating (input->dtype))
    return FALSE;
  return node->op != NULL && !(node->op->flags & ORTRAIN_OP_NO_GRADIENT) && !has_bit (node->op->zero_grad_inputs, i);
}

typedef struct
{
  gboolean *depends; /* depends on a wanted value */
  gboolean *needed;  /* the loss depends on it */
  guint n;           /* values created later are never active */
} Activity;

static void
activity_clear (Activity *activity)
{
  g_free (activity->depends);
  g_free (activity->needed);
}

static void
find_active (OrtrainGraph *graph, OrtrainValue *const *losses, guint n_losses, OrtrainValue *const *wanted,
             guint n_wanted, Activity *activity)
{
  activity->n = graph->values->len;
  activity->depends = g_new0 (gboolean, graph->values->len + 1);
  activity->needed = g_new0 (gboolean, graph->values->len + 1);
  for (guint i = 0; i < n_wanted; i++)
    activity->depends[wanted[i]->id] = TRUE;
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      gboolean depends = FALSE;
      for (guint i = 0; i < node->inputs->len && !depends; i++)
        depends = carries (node, i) && activity->depends[((OrtrainValue *) node->inputs->pdata[i])->id];
      for (guint k = 0; k < node->outputs->len && depends; k++)
        {
          OrtrainValue *output = node->outputs->pdata[k];
          if (output != NULL && ortrain_dtype_is_floating (output->dtype))
            activity->depends[output->id] = TRUE;
        }
    }
  for (guint i = 0; i < n_losses; i++)
    activity->needed[losses[i]->id] = TRUE;
  for (guint n = graph->nodes->len; n-- > 0;)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      gboolean needed = FALSE;
      for (guint k = 0; k < node->outputs->len && !needed; k++)
        {
          OrtrainValue *output = node->outputs->pdata[k];
          needed = output != NULL && activity->needed[output->id] && activity->depends[output->id];
        }
      for (guint i = 0; i < node->inputs->len && needed; i++)
        if (carries (node, i))
          activity->needed[((OrtrainValue *) node->inputs->pdata[i])->id] = TRUE;
    }
}

static gboolean
is_active (const Activity *activity, const OrtrainValue *value)
{
  return value->id < activity->n && activity->depends[value->id] && activity->needed[value->id];
}

/* Some output active and some input active: the gradient passes through. */
static gboolean
needs_gradient (const Activity *activity, OrtrainNode *node)
{
  gboolean out = FALSE, in = FALSE;
  for (guint k = 0; k < node->outputs->len && !out; k++)
    out = node->outputs->pdata[k] != NULL && is_active (activity, node->outputs->pdata[k]);
  for (guint i = 0; i < node->inputs->len && !in; i++)
    in = carries (node, i) && is_active (activity, node->inputs->pdata[i]);
  return out && in;
}

static gboolean
has_gradient (OrtrainNode *node)
{
  return ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL) ? ortrain_branch_gradient_refuse (node) == NULL
                                                          : node->op != NULL && node->op->gradient != NULL;
}

/* The first active input of a node that its rule has no gradient of, though the output changes with it; -1 if there is
 * no such input. */
static gint
find_constant_input (const Activity *activity, const OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len && node->op != NULL; i++)
    if (has_bit (node->op->no_grad_inputs, i) && carries (node, i) && is_active (activity, node->inputs->pdata[i]))
      return (gint) i;
  return -1;
}

GArray *
ortrain_gradient_find_diagnostics (OrtrainGraph *graph, OrtrainValue *const *losses, guint n_losses,
                                   OrtrainValue *const *wanted, guint n_wanted, gboolean *free)
{
  GArray *diagnostics = g_array_new (FALSE, FALSE, sizeof (OrtrainGradientDiagnostic));
  Activity activity;
  find_active (graph, losses, n_losses, wanted, n_wanted, &activity);
  g_autofree gboolean *blocked = g_new0 (gboolean, graph->values->len + 1); /* there is a diagnostic before it */
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      if (!needs_gradient (&activity, node))
        continue;
      const OrtrainGradientDiagnostic diagnostic = { node, find_constant_input (&activity, node) };
      gboolean is_blocked = !has_gradient (node) || diagnostic.input >= 0;
      if (is_blocked)
        g_array_append_val (diagnostics, diagnostic);
      for (guint i = 0; i < node->inputs->len && !is_blocked; i++)
        is_blocked = carries (node, i) && blocked[((OrtrainValue *) node->inputs->pdata[i])->id];
      for (guint k = 0; k < node->outputs->len && is_blocked; k++)
        if (node->outputs->pdata[k] != NULL && is_active (&activity, node->outputs->pdata[k]))
          blocked[((OrtrainValue *) node->outputs->pdata[k])->id] = TRUE;
    }
  for (guint i = 0; i < n_losses && free != NULL; i++)
    free[i] = is_active (&activity, losses[i]) && !blocked[losses[i]->id];
  activity_clear (&activity);
  return diagnostics;
}

char *
ortrain_gradient_describe_input (const OrtrainGradientDiagnostic *diagnostic)
{
  if (diagnostic->input < 0)
    return NULL;
  const OrtrainNode *node = diagnostic->node;
  const guint i = (guint) diagnostic->input;
  const OrtrainValue *value = node->inputs->pdata[i];
  const char *role = i < ORTRAIN_MAX_INPUT_ROLES ? node->op->input_roles[i] : NULL;
  return g_strdup_printf ("input %u%s%s%s, '%s'", i, role != NULL ? " (" : "", role != NULL ? role : "",
                          role != NULL ? ")" : "", ortrain_text_show (value->name));
}

static gboolean
refuse (GArray *diagnostics, GError **error)
{
  g_autoptr (GString) list = g_string_new (NULL);
  for (guint i = 0; i < diagnostics->len; i++)
    {
      const OrtrainGradientDiagnostic *diagnostic = &g_array_index (diagnostics, OrtrainGradientDiagnostic, i);
      g_autofree char *text = ortrain_node_describe (diagnostic->node);
      g_autofree char *input = ortrain_gradient_describe_input (diagnostic);
      g_string_append_printf (list, "%s%s", i > 0 ? ", " : "", text);
      if (input != NULL)
        g_string_append_printf (list, " (with respect to %s)", input);
    }
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NO_GRADIENT,
               "%u node%s between the trained parameters and the loss %s no gradient: %s; freeze the parameters before "
               "%s",
               diagnostics->len, ortrain_text_plural (diagnostics->len), diagnostics->len == 1 ? "has" : "have",
               ortrain_text_show_list (list->str), diagnostics->len == 1 ? "it" : "them");
  return FALSE;
}

/* All contributions to a value's gradient become one: a chain of Adds, which the planner turns into accumulation in
 * place. */
static OrtrainValue *
add_up (OrtrainGraph *graph, GPtrArray *contributions, GError **error)
{
  OrtrainValue *sum = contributions->pdata[0];
  for (guint i = 1; i < contributions->len; i++)
    {
      OrtrainValue *inputs[] = { sum, contributions->pdata[i] };
      OrtrainNode *node = ortrain_graph_new_node (graph, "", "Add", "grad/Add", inputs, 2, 1);
      node->phase = ORTRAIN_PHASE_BACKWARD;
      if (!ortrain_ops_infer_node (node, error))
        return NULL;
      sum = ortrain_node_output (node, 0);
    }
  return sum;
}

/* value → its contributions */
static GHashTable *
new_contributions (void)
{
  return g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_ptr_array_unref);
}

static void
contribute (GHashTable *contributions, OrtrainValue *value, OrtrainValue *gradient)
{
  GPtrArray *list = g_hash_table_lookup (contributions, value);
  if (list == NULL)
    {
      list = g_ptr_array_new ();
      g_hash_table_insert (contributions, value, list);
    }
  g_ptr_array_add (list, gradient);
}

/* Adds the gradients of all nodes between active values, in the reverse order of the graph, which is sorted. New values
 * get ids above the arrays of `activity`, and are never looked up there. */
static gboolean
run_rules (OrtrainGraph *graph, const Activity *activity, GHashTable *contributions, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  const guint n_old_values = graph->values->len;
  gboolean ok = TRUE;
  for (guint n = nodes->len; n-- > 0 && ok;)
    {
      OrtrainNode *node = nodes->pdata[n];
      if (!needs_gradient (activity, node))
        continue;
      const guint n_inputs = node->inputs->len, n_outputs = node->outputs->len;
      g_autofree OrtrainValue **output_gradients = g_new0 (OrtrainValue *, n_outputs + 1);
      g_autofree OrtrainValue **input_gradients = g_new0 (OrtrainValue *, n_inputs + 1);
      g_autofree gboolean *requires_grad = g_new0 (gboolean, n_inputs + 1);
      g_autofree gboolean *asked = g_new0 (gboolean, n_outputs + 1);
      gboolean any = FALSE;
      for (guint k = 0; k < n_outputs && ok; k++)
        {
          OrtrainValue *output = node->outputs->pdata[k];
          GPtrArray *list = output != NULL ? g_hash_table_lookup (contributions, output) : NULL;
          if (list == NULL)
            continue;
          output_gradients[k] = add_up (graph, list, error);
          ok = output_gradients[k] != NULL;
          any = TRUE;
        }
      if (!ok || !any)
        continue;
      for (guint i = 0; i < n_inputs; i++)
        requires_grad[i] = carries (node, i) && is_active (activity, node->inputs->pdata[i]);

      OrtrainGradContext ctx = {
        graph, node, output_gradients, requires_grad, input_gradients, asked, n_outputs, NULL
      };
      ok = ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL) ? ortrain_branch_gradient_write (&ctx, error)
                                                            : ortrain_grad_run (&ctx, error);
      for (guint i = 0; i < n_inputs && ok; i++)
        {
          if (!requires_grad[i])
            continue;
          /* A rule may have put other inputs on the node; contributions belong to the value that was there. */
          OrtrainValue *input = node->inputs->pdata[i];
          if (input->id >= n_old_values)
            {
              g_autofree char *text = ortrain_node_describe (node);
              g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NO_GRADIENT,
                           "The gradient rule of %s has changed its input %u", text, i);
              ok = FALSE;
              break;
            }
          contribute (contributions, input, input_gradients[i]);
        }
    }
  return ok;
}

gboolean
ortrain_gradient_accumulate (OrtrainGraph *graph, OrtrainValue *const *outputs, OrtrainValue *const *seeds, guint n,
                             OrtrainValue *const *wanted, guint n_wanted, OrtrainValue **gradients, GError **error)
{
  Activity activity;
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  find_active (graph, outputs, n, wanted, n_wanted, &activity);
  g_autoptr (GHashTable) contributions = new_contributions ();
  for (guint k = 0; k < n; k++)
    contribute (contributions, outputs[k], seeds[k]);
  gboolean ok = run_rules (graph, &activity, contributions, error);
  for (guint i = 0; i < n_wanted && ok; i++)
    {
      GPtrArray *list = g_hash_table_lookup (contributions, wanted[i]);
      gradients[i] = list != NULL ? add_up (graph, list, error) : NULL;
      ok = list == NULL || gradients[i] != NULL;
    }
  activity_clear (&activity);
  return ok;
}

gboolean
ortrain_gradient_build (OrtrainGraph *graph, OrtrainValue *loss, OrtrainValue *const *wanted, guint n_wanted,
                        OrtrainValue **gradients, GError **error)
{
  if (!ortrain_dtype_is_floating (loss->dtype) || loss->rank > 0)
    {
      g_autofree char *text = ortrain_value_describe (loss);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE, "The loss must be a scalar, but it is %s",
                   text);
      return FALSE;
    }
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  g_autoptr (GArray) diagnostics = ortrain_gradient_find_diagnostics (graph, &loss, 1, wanted, n_wanted, NULL);
  if (diagnostics->len > 0)
    return refuse (diagnostics, error);

  Activity activity;
  find_active (graph, &loss, 1, wanted, n_wanted, &activity);
  g_autoptr (GString) unused = g_string_new (NULL);
  for (guint i = 0; i < n_wanted; i++)
    if (!is_active (&activity, wanted[i]))
      g_string_append_printf (unused, "%s'%s'", unused->len > 0 ? ", " : "", ortrain_text_show (wanted[i]->name));
  if (unused->len > 0)
    {
      activity_clear (&activity);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NO_GRADIENT, "The loss does not depend on %s",
                   ortrain_text_show_list (unused->str));
      return FALSE;
    }

  g_autoptr (GHashTable) contributions = new_contributions ();
  GPtrArray *seed = g_ptr_array_new ();
  g_ptr_array_add (seed, ortrain_graph_const_scalar (graph, loss->dtype, 1.0));
  if (loss->rank < 0)
    ortrain_value_set_shape (loss, loss->dtype, NULL, 0);
  g_hash_table_insert (contributions, loss, seed);

  gboolean ok = run_rules (graph, &activity, contributions, error);
  for (guint i = 0; i < n_wanted && ok; i++)
    {
      GPtrArray *list = g_hash_table_lookup (contributions, wanted[i]);
      if (list == NULL)
        {
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NO_GRADIENT, "The loss does not depend on '%s'",
                       ortrain_text_show (wanted[i]->name));
          ok = FALSE;
          break;
        }
      OrtrainValue *sum = add_up (graph, list, error);
      if (sum == NULL)
        {
          ok = FALSE;
          break;
        }
      /* A gradient that is somebody else's value too (an output, a forward value, the gradient of another parameter)
       * gets a node of its own, so that it can have a buffer of its own. */
      if (sum->is_output || sum->producer == NULL || sum->producer->phase == ORTRAIN_PHASE_FORWARD ||
          sum->role != ORTRAIN_ROLE_NONE)
        {
          OrtrainNode *copy = ortrain_graph_new_node (graph, "", "Identity", "grad/Identity", &sum, 1, 1);
          copy->phase = ORTRAIN_PHASE_BACKWARD;
          if (!ortrain_ops_infer_node (copy, error))
            {
              ok = FALSE;
              break;
            }
          sum = ortrain_node_output (copy, 0);
        }
      g_autofree char *name = g_strconcat (wanted[i]->name, ".grad", NULL);
      ortrain_value_rename (sum, name);
      ortrain_value_set_shape (sum, sum->dtype, wanted[i]->dims, wanted[i]->rank);
      sum->role = ORTRAIN_ROLE_GRADIENT;
      sum->partner = wanted[i];
      ortrain_graph_mark_output (graph, sum, TRUE);
      gradients[i] = sum;
    }
  activity_clear (&activity);
  return ok && ortrain_graph_sort (graph, error);
}
