/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "check/ortrain-check-report.h"

#include "analysis/ortrain-parameter-roles-private.h"
#include "check/ortrain-diagnostic-private.h"
#include "check/ortrain-kernel-refusal-private.h"
#include "check/ortrain-parameter-info-private.h"
#include "check/ortrain-subgraph-tensors-private.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-object-list-private.h"
#include "core/ortrain-text-private.h"
#include "grad/ortrain-branch-gradient-private.h"
#include "grad/ortrain-gradient-private.h"
#include "grad/ortrain-scores-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "model/ortrain-model-private.h"
#include "ops/ortrain-op-private.h"
#include "options/ortrain-session-options.h"
#include "provider/ortrain-provider-private.h"
#include "training-graph/ortrain-nondifferentiable-outputs-private.h"
#include "training-graph/ortrain-padding-rows-private.h"
#include "training-graph/ortrain-parameter-choice-private.h"
#include "training-graph/ortrain-repeated-parameters-private.h"
#include "training-graph/ortrain-shared-constant-note-private.h"
#include "training-graph/ortrain-stop-gradient-private.h"
#include "training-graph/ortrain-uncertain-parameters-private.h"

/**
 * OrtrainCheckReport:
 *
 * Everything that keeps a model from being trained, and for each tensor of a floating type in its file whether it is
 * trained, and why. [method@Model.check] creates it, before anything runs.
 *
 * ```python
 * report = Ortrain.Model("model.onnx").check()
 * for diagnostic in report.diagnostics:
 *     print(diagnostic.node, diagnostic.operator, diagnostic.reason, diagnostic.hint)
 * for tensor in report.parameters:
 *     print(tensor.name, tensor.shape, tensor.trained, tensor.reason)
 * print(report.trainable, report.get_notes())
 * ```
 *
 * A report is immutable, and any thread may use it.
 */

struct _OrtrainCheckReport
{
  GObject parent_instance;

  gboolean trainable;
  GListModel *diagnostics;
  GListModel *parameters;
  char **notes;
  guint n_trainable;
};

G_DEFINE_FINAL_TYPE (OrtrainCheckReport, ortrain_check_report, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_TRAINABLE,
  PROP_DIAGNOSTICS,
  PROP_PARAMETERS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

typedef struct
{
  OrtrainModel *model;
  OrtrainObjectList *list;
  GHashTable *reported; /* which message about which node already */
} Check;

static void
add (Check *check, const OrtrainNode *node, const char *dtype, const char *reason, const char *hint)
{
  char *key = g_strdup_printf ("%s|%s|%s", node != NULL ? node->name : "", node != NULL ? node->op_type : "", reason);
  if (node != NULL && *node->name == '\0')
    {
      g_free (key);
      key = g_strdup_printf ("%p|%s", (const void *) node, reason);
    }
  if (!g_hash_table_add (check->reported, key))
    return;
  gint64 opset = node != NULL ? ortrain_model_get_opset_version (check->model, node->domain) : 0;
  const char *device = ortrain_provider_get_host ()->klass->name; /* runs nodes that others have no kernel for */
  g_autoptr (OrtrainDiagnostic) diagnostic =
      ortrain_diagnostic_new (node != NULL ? node->name : "", node != NULL ? node->op_type : "",
                              node != NULL ? node->domain : "", (guint) MAX (opset, 0), dtype, device, reason, hint);
  ortrain_object_list_append (check->list, diagnostic);
}

/* By node of the graph, which may be NULL: whether it cannot be computed. *any: whether one is so. refusals: kernels
 * are asked too, whose nodes must be in their newest form. */
static gboolean *
find_blocked (Check *check, OrtrainGraph *graph, gboolean refusals, gboolean *any)
{
  gboolean *blocked = g_new0 (gboolean, graph != NULL ? graph->nodes->len + 1 : 1);
  *any = FALSE;
  for (guint n = 0; graph != NULL && n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      const OrtrainBlock block = ortrain_node_find_block (node);
      g_autofree char *refusal = block.reason == NULL && refusals ? ortrain_node_find_refusal (node) : NULL;
      if (block.reason == NULL && refusal == NULL)
        continue;
      add (check, node, block.dtype != ORTRAIN_DTYPE_UNDEFINED ? ortrain_dtype_get_name (block.dtype) : "",
           refusal != NULL ? refusal : block.reason,
           refusal != NULL ? "export the model with operators and shapes that the kernel supports" : block.hint);
      blocked[n] = *any = TRUE;
    }
  return blocked;
}

static void
add_without_gradient (Check *check, const OrtrainGradientDiagnostic *diagnostic)
{
  const OrtrainNode *node = diagnostic->node;
  g_autofree char *input = ortrain_gradient_describe_input (diagnostic);
  g_autofree char *reason =
      input != NULL ? g_strdup_printf ("the operator has no gradient with respect to %s", input) : NULL;
  if (ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL))
    {
      const char *why = ortrain_branch_gradient_refuse (diagnostic->node);
      g_autofree char *told = g_strdup_printf ("%s: such a model can be run, but not trained",
                                               why != NULL ? why : "its result is not differentiable");
      add (check, node, "", told,
           "export the model without this condition: with torch.where in place of torch.cond or of an if, which "
           "computes both "
           "branches, or with fixed shapes if it depends on a shape");
    }
  else if (node->op != NULL && node->op->instead != NULL)
    add (check, node, "", "the operator has no gradient", node->op->instead);
  else
    add (check, node, "", reason != NULL ? reason : "the operator has no gradient",
         "freeze the parameters before it with set_frozen, or export the model with other operators");
}

/* Parameters inside of branches are not seen from outside. */
static void
find_branches (Check *check, OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainGradientDiagnostic diagnostic = { graph->nodes->pdata[n], -1 };
      if (ortrain_node_has_flag (diagnostic.node, ORTRAIN_OP_CONTROL) &&
          ortrain_branch_gradient_refuse (diagnostic.node) != NULL)
        add_without_gradient (check, &diagnostic);
    }
}

/* The first node of an operator without a gradient that has a hint; or NULL. */
static const OrtrainNode *
find_advised (const OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainNode *node = graph->nodes->pdata[n];
      if (node->op != NULL && node->op->instead != NULL && node->op->gradient == NULL)
        return node;
    }
  return NULL;
}

static void
note_advised (const OrtrainGraph *graph, GStrvBuilder *notes)
{
  const OrtrainNode *node = find_advised (graph);
  if (node == NULL)
    return;
  g_autofree char *text = ortrain_node_describe (node);
  g_autofree char *note = g_strdup_printf ("%s has no gradient, so that the layers before it are not trained by it; %s",
                                           text, node->op->instead);
  g_strv_builder_add (notes, note);
}

#define MAX_INNER 64

/* The values of a floating type that the outputs are computed from, the nearest first. */
static GPtrArray *
find_floating_inner (const OrtrainGraph *graph)
{
  GPtrArray *found = g_ptr_array_new ();
  g_autoptr (GPtrArray) queue = g_ptr_array_new ();
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < graph->outputs->len; i++)
    g_ptr_array_add (queue, graph->outputs->pdata[i]);
  for (guint n = 0; n < queue->len && found->len < MAX_INNER; n++)
    {
      OrtrainValue *value = queue->pdata[n];
      if (value->producer == NULL || !g_hash_table_add (seen, value))
        continue;
      if (ortrain_dtype_is_floating (value->dtype) && !value->is_output)
        g_ptr_array_add (found, value);
      for (guint i = 0; i < value->producer->inputs->len; i++)
        if (value->producer->inputs->pdata[i] != NULL)
          g_ptr_array_add (queue, value->producer->inputs->pdata[i]);
    }
  return found;
}

/* A value inside of the graph on which a loss would train weights, where no output is one; or NULL. blocked: of the
 * graph */
static const OrtrainValue *
find_inner_loss (OrtrainGraph *graph, GPtrArray *weights, const guint *blocked)
{
  g_autoptr (GPtrArray) inner = find_floating_inner (graph);
  g_autofree gboolean *is_free = g_new (gboolean, inner->len + 1);
  g_autoptr (GArray) diagnostics G_GNUC_UNUSED =
      ortrain_gradient_find_diagnostics (graph, (OrtrainValue *const *) inner->pdata, inner->len,
                                         (OrtrainValue *const *) weights->pdata, weights->len, is_free);
  for (guint i = 0; i < inner->len; i++)
    {
      OrtrainValue *value = inner->pdata[i];
      if (!is_free[i] || blocked[value->id] != G_MAXUINT)
        continue;
      g_autoptr (GHashTable) differentiable = ortrain_parameter_choice_find_differentiable (&value, 1);
      for (guint w = 0; w < weights->len; w++)
        if (g_hash_table_contains (differentiable, ((OrtrainValue *) weights->pdata[w])->name))
          return value;
    }
  return NULL;
}

static OrtrainValue *
find_in (OrtrainGraph *graph, OrtrainValue *value)
{
  return value->graph == graph ? value : ortrain_graph_find_value (graph, value->name);
}

/* For each output that a loss can be taken of. Returns whether there is one without a diagnostic. trained: the weights
 * that such outputs are differentiable with respect to; *differentiable: the names of all such values. stopped: a copy
 * of the graph in which gradients are stopped. */
static gboolean
find_without_gradient (Check *check, OrtrainGraph *graph, const gboolean *is_blocked, OrtrainGraph *stopped,
                       GArray *roles, GHashTable *trained, GHashTable **differentiable)
{
  g_autoptr (GPtrArray) outputs = g_ptr_array_new (), weights = g_ptr_array_new (), free_outputs = g_ptr_array_new ();
  for (guint i = 0; i < graph->outputs->len; i++)
    if (ortrain_dtype_is_floating (((OrtrainValue *) graph->outputs->pdata[i])->dtype))
      g_ptr_array_add (outputs, find_in (stopped, graph->outputs->pdata[i]));
  for (guint i = 0; i < roles->len; i++)
    if (g_array_index (roles, OrtrainParameterRole, i).is_weight)
      g_ptr_array_add (weights, find_in (stopped, g_array_index (roles, OrtrainParameterRole, i).value));

  g_autofree gboolean *is_free = g_new (gboolean, outputs->len + 1);
  g_autofree guint *blocked = ortrain_graph_find_first_marked (graph, is_blocked);
  g_autoptr (GArray) diagnostics =
      ortrain_gradient_find_diagnostics (stopped, (OrtrainValue *const *) outputs->pdata, outputs->len,
                                         (OrtrainValue *const *) weights->pdata, weights->len, is_free);
  for (guint k = 0; k < diagnostics->len; k++)
    add_without_gradient (check, &g_array_index (diagnostics, OrtrainGradientDiagnostic, k));
  for (guint i = 0; i < outputs->len; i++)
    if (is_free[i] && blocked[find_in (graph, outputs->pdata[i])->id] == G_MAXUINT)
      g_ptr_array_add (free_outputs, outputs->pdata[i]);
  *differentiable =
      ortrain_parameter_choice_find_differentiable ((OrtrainValue *const *) free_outputs->pdata, free_outputs->len);
  for (guint i = 0; i < weights->len; i++)
    if (g_hash_table_contains (*differentiable, ((OrtrainValue *) weights->pdata[i])->name))
      g_hash_table_add (trained, find_in (graph, weights->pdata[i]));
  const gboolean some = free_outputs->len > 0;
  if (!some)
    find_branches (check, graph);
  const OrtrainValue *inner = some || stopped != graph ? NULL : find_inner_loss (graph, weights, blocked);
  g_autofree char *hint =
      inner != NULL ? g_strdup_printf ("a loss on its inner value '%s' would train: ortrain train MODEL --output %s; "
                                       "in a program, the loss's output is \"%s\"",
                                       ortrain_text_show (inner->name), ortrain_text_show (inner->name),
                                       ortrain_text_show (inner->name))
                    : NULL;
  if (outputs->len == 0)
    add (check, NULL, "", "the model has no output of a floating type",
         hint != NULL ? hint : "export the model with its logits as an output, for the loss");
  else if (hint != NULL)
    add (check, NULL, "", "no output of the model trains anything", hint);
  else if (!some && g_list_model_get_n_items (G_LIST_MODEL (check->list)) == 0)
    {
      const OrtrainNode *node = find_advised (graph);
      add (check, node, "", "no output of a floating type depends on a weight that can be trained",
           node != NULL
               ? node->op->instead
               : "choose the parameters with set_trainable, or export the model with its weights as initializers");
    }
  return some;
}

/* ---- the tensors of the file ---- */

static void
list_parameters (OrtrainCheckReport *self, OrtrainModel *model, OrtrainGraph *graph, GArray *roles, GHashTable *trained,
                 GHashTable *differentiable, GStrvBuilder *notes)
{
  guint n_constants = 0;
  g_auto (OrtrainUncertainParameters) uncertain;
  ortrain_uncertain_parameters_init (&uncertain);
  for (guint i = 0; i < roles->len; i++)
    {
      const OrtrainParameterRole *role = &g_array_index (roles, OrtrainParameterRole, i);
      const OrtrainOrigin *origin = ortrain_graph_reader_find_origin (
          &model->reader, ortrain_graph_find_value (model->reader.graph, role->value->name));
      /* inside a function or a branch, see below; or written by an upgrade to the newest operator set: of no interest,
       * and never a weight */
      if (origin == NULL)
        continue;
      const gboolean is_trained = g_hash_table_contains (trained, role->value);
      const gboolean is_not_differentiable = role->is_weight && !is_trained;
      g_autofree char *reason =
          is_not_differentiable ? g_strdup_printf ("%s, but no output has a gradient with respect to it", role->reason)
                                : NULL;
      g_autoptr (OrtrainParameterInfo) info =
          ortrain_parameter_info_new (role->value->name, ortrain_scoped_name_of (role->value), role->value->tensor,
                                      is_trained, !role->is_uncertain, reason != NULL ? reason : role->reason);
      ortrain_object_list_append (ORTRAIN_OBJECT_LIST (self->parameters), info);
      if (g_hash_table_contains (differentiable, role->value->name))
        ortrain_uncertain_parameters_add (&uncertain, role, is_trained);
      self->n_trainable += is_trained;
      if (is_trained)
        ortrain_shared_constants_add_note (role->value, notes);
      n_constants += is_trained && origin->kind == ORTRAIN_ORIGIN_CONSTANT;
    }
  ortrain_uncertain_parameters_add_notes (&uncertain, notes);
  ortrain_subgraph_tensors_list (model, graph, roles, ORTRAIN_OBJECT_LIST (self->parameters));
  if (n_constants > 0)
    {
      g_autofree char *note =
          g_strdup_printf ("%u weight%s stored in %s: %s trained, and exported into the same node%s", n_constants,
                           n_constants == 1 ? " is" : "s are", n_constants == 1 ? "a Constant node" : "Constant nodes",
                           n_constants == 1 ? "it is" : "they are", ortrain_text_plural (n_constants));
      g_strv_builder_add (notes, note);
    }
}

/* Tensors that are not trained, one line each; single numbers are only counted. */
static void
append_untrained (GString *text, GListModel *parameters)
{
  guint n_untrained = 0, n_numbers = 0;
  for (guint i = 0; i < g_list_model_get_n_items (parameters); i++)
    {
      g_autoptr (OrtrainParameterInfo) info = g_list_model_get_item (parameters, i);
      if (ortrain_parameter_info_get_trained (info))
        continue;
      if (ortrain_parameter_info_get_n_elements (info) == 1)
        {
          n_numbers++;
          continue;
        }
      g_autofree char *line = ortrain_parameter_info_to_string (info);
      g_string_append_printf (text, "%s\n  %s", n_untrained++ == 0 ? "\nnot trained (set_trainable overrules):" : "",
                              line);
    }
  if (n_numbers > 0)
    g_string_append_printf (text, "\nconstants of one number, not trained: %u", n_numbers);
}

/* The graph, or a copy in which gradients are stopped; transfer full. */
static OrtrainGraph *
stop_gradients (OrtrainModel *model, OrtrainGraph *graph, OrtrainTrainingOptions *options, GStrvBuilder *notes,
                GError **error)
{
  g_autoptr (GHashTable) detached = ortrain_stop_gradient_find_detached (model);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const char *const *patterns = options != NULL ? ortrain_training_options_get_stop_gradient (options) : NULL;
  if ((patterns == NULL || patterns[0] == NULL) && g_hash_table_size (detached) == 0)
    return g_object_ref (graph);
  g_autoptr (OrtrainGraph) stopped = ortrain_graph_clone (graph);
  if (!ortrain_stop_gradient_insert (stopped, patterns, detached, names, error))
    return NULL;
  for (guint i = 0; i < names->len; i++)
    {
      const char *name = names->pdata[i];
      g_autofree char *note = g_strdup_printf (
          "no gradient flows through '%s'%s", ortrain_text_show (name),
          g_hash_table_contains (detached, name) ? ": the exporter says that the program detached it" : "");
      g_strv_builder_add (notes, note);
    }
  return g_steal_pointer (&stopped);
}

static void
note_padding (Check *check, GStrvBuilder *notes)
{
  g_autoptr (GHashTable) rows = ortrain_padding_rows_find (check->model);
  GHashTableIter iter;
  gpointer name, row;
  g_hash_table_iter_init (&iter, rows);
  while (g_hash_table_iter_next (&iter, &name, &row))
    {
      g_autofree char *note = g_strdup_printf ("row %d of '%s' stands for padding, as the exporter says: it does not "
                                               "train (set_padding_row (\"%s\", -1) trains it)",
                                               GPOINTER_TO_INT (row) - 1, ortrain_text_show ((const char *) name),
                                               ortrain_text_show ((const char *) name));
      g_strv_builder_add (notes, note);
    }
}

/* Nodes for which the device that the environment chooses has neither a kernel nor a body. */
static void
note_host_nodes (OrtrainGraph *graph, GStrvBuilder *notes)
{
  g_autoptr (OrtrainSessionOptions) chosen = ortrain_session_options_new ();
  const OrtrainProviderOptions options = { .n_threads = 1,
                                           .device_index = ortrain_session_options_get_device_index (chosen) };
  g_autoptr (OrtrainProvider) provider =
      ortrain_provider_open (ortrain_session_options_get_provider (chosen), &options, NULL);
  if (provider == NULL)
    return;
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainNode *node = graph->nodes->pdata[n];
      if (!ortrain_node_is_without_kernel (node, provider) || ortrain_node_find_block (node).reason != NULL)
        continue;
      g_autofree char *text = ortrain_node_describe (node);
      g_autofree char *note =
          g_strdup_printf ("%s: '%s' has no kernel for it: it runs on the host", text, provider->klass->name);
      g_strv_builder_add (notes, note);
    }
}

static void
note_scores (OrtrainGraph *graph, GStrvBuilder *notes)
{
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      OrtrainValue *output = graph->outputs->pdata[i];
      const OrtrainNode *node = ortrain_scores_find_node (output, NULL);
      if (node == NULL)
        continue;
      g_autofree char *note = g_strdup_printf ("output '%s' is the %s of '%s': cross entropy is computed from '%s'",
                                               ortrain_text_show (output->name), node->op_type,
                                               ortrain_text_show (ortrain_node_input (node, 0)->name),
                                               ortrain_text_show (ortrain_node_input (node, 0)->name));
      g_strv_builder_add (notes, note);
    }
}

static void
note_pairs (Check *check, OrtrainGraph *graph, GHashTable *trained, GStrvBuilder *notes)
{
  g_autoptr (GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GArray) repeated = ortrain_repeated_parameters_find (graph, trained);
  for (guint i = 0; i < repeated->len; i++)
    {
      const OrtrainRepeatedParameter *one = &g_array_index (repeated, OrtrainRepeatedParameter, i);
      g_hash_table_add (known, one->second->name);
      ortrain_repeated_parameters_add_note (one->first->name, one->second->name, notes);
    }
  g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (check->model);
  for (guint i = 0; i < g_list_model_get_n_items (pairs); i++)
    {
      g_autoptr (OrtrainParameterPair) pair = g_list_model_get_item (pairs, i);
      const char *first = ortrain_parameter_pair_get_first (pair), *second = ortrain_parameter_pair_get_second (pair);
      if (g_hash_table_contains (known, first) || g_hash_table_contains (known, second))
        continue;
      g_autofree char *note = g_strdup_printf (
          "'%s' and '%s' hold the same values%s: if they are one parameter, train them as one with tie (\"%s\", "
          "\"%s\")",
          ortrain_text_show (first), ortrain_text_show (second),
          ortrain_parameter_pair_get_transposed (pair) ? ", transposed" : "", ortrain_text_show (first),
          ortrain_text_show (second));
      g_strv_builder_add (notes, note);
    }
}

static void
ortrain_check_report_finalize (GObject *object)
{
  OrtrainCheckReport *self = ORTRAIN_CHECK_REPORT (object);

  g_clear_object (&self->diagnostics);
  g_clear_object (&self->parameters);
  g_strfreev (self->notes);

  G_OBJECT_CLASS (ortrain_check_report_parent_class)->finalize (object);
}

static void
ortrain_check_report_class_init (OrtrainCheckReportClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_check_report_finalize;
  object_class->get_property = ortrain_field_get_property;

  /**
   * OrtrainCheckReport:trainable: (getter get_trainable)
   *
   * Whether the model can be trained: it has an output of a floating type, and no diagnostic for it. Read-only.
   */
  properties[PROP_TRAINABLE] = ortrain_field_at (g_param_spec_boolean ("trainable", NULL, NULL, FALSE, flags),
                                                 G_STRUCT_OFFSET (OrtrainCheckReport, trainable));
  /**
   * OrtrainCheckReport:diagnostics: (getter get_diagnostics)
   *
   * The obstacles to training the model, a list of [class@Diagnostic]; empty if there are none. Read-only.
   */
  properties[PROP_DIAGNOSTICS] =
      ortrain_field_at (g_param_spec_object ("diagnostics", NULL, NULL, G_TYPE_LIST_MODEL, flags),
                        G_STRUCT_OFFSET (OrtrainCheckReport, diagnostics));
  /**
   * OrtrainCheckReport:parameters: (getter get_parameters)
   *
   * Every tensor of a floating type that the file holds, trained or not, a list of [class@ParameterInfo]. Read-only.
   */
  properties[PROP_PARAMETERS] =
      ortrain_field_at (g_param_spec_object ("parameters", NULL, NULL, G_TYPE_LIST_MODEL, flags),
                        G_STRUCT_OFFSET (OrtrainCheckReport, parameters));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_check_report_init (OrtrainCheckReport *self)
{
  self->diagnostics = G_LIST_MODEL (ortrain_object_list_new (ORTRAIN_TYPE_DIAGNOSTIC));
  self->parameters = G_LIST_MODEL (ortrain_object_list_new (ORTRAIN_TYPE_PARAMETER_INFO));
}

/**
 * ortrain_check_report_get_trainable: (get-property trainable)
 * @self: the object
 *
 * Gets whether the model can be trained: it has an output of a floating type, and no diagnostic for it.
 *
 * Returns: the value
 */
gboolean
ortrain_check_report_get_trainable (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), FALSE);
  return self->trainable;
}

/**
 * ortrain_check_report_get_diagnostics: (get-property diagnostics)
 * @self: the object
 *
 * Gets the obstacles to training the model, a list of [class@Diagnostic]; empty if there are none.
 *
 * Returns: (transfer none) (nullable): the value
 */
GListModel *
ortrain_check_report_get_diagnostics (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), NULL);
  return self->diagnostics;
}

/**
 * ortrain_check_report_get_parameters: (get-property parameters)
 * @self: the object
 *
 * Gets every tensor of a floating type that the file holds, trained or not, a list of [class@ParameterInfo]. Empty if
 * the graph cannot be read.
 *
 * Returns: (transfer none) (nullable): a list of [class@ParameterInfo]
 */
GListModel *
ortrain_check_report_get_parameters (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), NULL);
  return self->parameters;
}

/**
 * ortrain_check_report_get_notes:
 * @self: a report
 *
 * Lists other facts that matter for training: parameters that an exporter merged, and parameters that are stored twice,
 * with the tie to set.
 *
 * Returns: (transfer full) (array zero-terminated=1): one sentence each
 */
char **
ortrain_check_report_get_notes (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), NULL);
  return g_strdupv (self->notes);
}

/**
 * ortrain_check_report_get_n_trainable:
 * @self: a report
 *
 * Counts the tensors that are trained unless the options say otherwise.
 *
 * Returns: how many there are
 */
guint
ortrain_check_report_get_n_trainable (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), 0);
  return self->n_trainable;
}

/**
 * ortrain_check_report_to_string:
 * @self: a report
 *
 * Prints the report, one line for each fact. Of the tensors, those that are not trained are listed; constants of one
 * number are counted.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_check_report_to_string (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), NULL);

  GString *text = g_string_new (NULL);
  guint n = g_list_model_get_n_items (self->diagnostics);
  if (self->trainable)
    g_string_append_printf (text, "trainable: %u parameter%s%s", self->n_trainable,
                            ortrain_text_plural (self->n_trainable), n > 0 ? "; other outputs have diagnostics" : "");
  else
    g_string_append_printf (text, "not trainable: %u diagnostic%s", n, ortrain_text_plural (n));
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (OrtrainDiagnostic) diagnostic = g_list_model_get_item (self->diagnostics, i);
      g_autofree char *line = ortrain_diagnostic_to_string (diagnostic);
      g_string_append_printf (text, "\n  %s", line);
    }
  append_untrained (text, self->parameters);
  for (guint i = 0; self->notes != NULL && self->notes[i] != NULL; i++)
    g_string_append_printf (text, "\nnote: %s", self->notes[i]);
  return g_string_free (text, FALSE);
}

static OrtrainCheckReport *
check_model (OrtrainModel *self, OrtrainTrainingOptions *options, GError **error)
{
  g_autoptr (OrtrainCheckReport) report = g_object_new (ORTRAIN_TYPE_CHECK_REPORT, NULL);
  Check check = { .model = self, .list = ORTRAIN_OBJECT_LIST (report->diagnostics) };
  check.reported = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GStrvBuilder) notes = g_strv_builder_new ();
  g_autoptr (GError) unreadable = NULL;
  OrtrainGraph *whole = ortrain_model_get_graph (self, &unreadable);
  g_autoptr (OrtrainGraph) graph = whole != NULL ? g_object_ref (whole) : NULL;
  if (whole == NULL)
    {
      gboolean any;
      g_autofree gboolean *blocked G_GNUC_UNUSED =
          find_blocked (&check, ortrain_model_get_file_graph (self), FALSE, &any);
      if (!any)
        add (&check, NULL, "", unreadable->message, "");
      if (ortrain_model_get_file_graph (self) != NULL)
        graph = ortrain_model_make_known_graph (self, (const char *const[]){ NULL }, NULL);
    }
  if (whole != NULL || (graph != NULL && graph->outputs->len > 0))
    {
      g_autoptr (GArray) roles = ortrain_parameter_roles_find (graph);
      g_autoptr (GHashTable) trained = g_hash_table_new (NULL, NULL);
      g_autoptr (OrtrainGraph) stopped = stop_gradients (self, graph, options, notes, error);
      if (stopped == NULL)
        {
          g_hash_table_unref (check.reported);
          return NULL;
        }
      gboolean any;
      g_autofree gboolean *blocked = find_blocked (&check, graph, TRUE, &any);
      g_autoptr (GHashTable) differentiable = NULL;
      report->trainable = find_without_gradient (&check, graph, blocked, stopped, roles, trained, &differentiable);
      list_parameters (report, self, graph, roles, trained, differentiable, notes);
      if (report->trainable)
        note_advised (graph, notes);
      note_scores (graph, notes);
      note_pairs (&check, graph, trained, notes);
      note_padding (&check, notes);
      note_host_nodes (graph, notes);
    }
  g_auto (GStrv) model_notes = ortrain_model_get_notes (self);
  for (guint i = 0; model_notes != NULL && model_notes[i] != NULL; i++)
    g_strv_builder_add (notes, model_notes[i]);
  report->notes = g_strv_builder_end (notes);
  g_hash_table_unref (check.reported);
  return g_steal_pointer (&report);
}

/**
 * ortrain_model_check:
 * @self: a model
 *
 * Checks a model before anything runs: lists all operators that are unknown, have no gradient, or have no kernel for
 * their types, and tells for each tensor of a floating type whether it is trained.
 *
 * Returns: (transfer full): the report
 */
OrtrainCheckReport *
ortrain_model_check (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);

  return check_model (self, NULL, NULL);
}

/**
 * ortrain_model_check_with_options:
 * @self: a model
 * @options: (nullable): options, of which [property@TrainingOptions:stop-gradient] matters
 * @error: return location for an error
 *
 * Checks a model as [method@Model.check] does, with gradients stopped where the options say so. It fails with
 * %ORTRAIN_SESSION_ERROR_OPTION where a pattern matches no value of the model, and for a model that was not created by
 * one of its constructors.
 *
 * Returns: (transfer full): the report; %NULL on error
 */
OrtrainCheckReport *
ortrain_model_check_with_options (OrtrainModel *self, OrtrainTrainingOptions *options, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  g_return_val_if_fail (options == NULL || ORTRAIN_IS_TRAINING_OPTIONS (options), NULL);

  if (ortrain_model_get_file_graph (self) == NULL)
    {
      ortrain_model_get_graph (self, error); /* it was not created by a constructor */
      return NULL;
    }
  return check_model (self, options, error);
}
