/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-training-graph-private.h"

#include "analysis/ortrain-parameter-roles-private.h"
#include "core/ortrain-text-private.h"
#include "grad/ortrain-gradient-private.h"
#include "grad/ortrain-loss-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "ops/ortrain-op-private.h"
#include "options/ortrain-training-options-private.h"
#include "training-graph/ortrain-low-precision-copies-private.h"
#include "training-graph/ortrain-nondifferentiable-outputs-private.h"
#include "training-graph/ortrain-parameter-choice-private.h"
#include "training-graph/ortrain-parameter-ties-private.h"
#include "training-graph/ortrain-precision-private.h"
#include "training-graph/ortrain-shared-constant-note-private.h"
#include "training-graph/ortrain-statistics-choice-private.h"
#include "training-graph/ortrain-stop-gradient-private.h"
#include "training-graph/ortrain-update-graph-private.h"
#include "transform/ortrain-passes-private.h"

#include <string.h>

static gboolean
is_weight (const OrtrainValue *value)
{
  return value != NULL && value->tensor != NULL && value->producer == NULL && value->enclosure == NULL;
}

/* The node in another form: a row of `domain` with the same inputs and attributes. */
static OrtrainNode *
insert_form (OrtrainGraph *graph, OrtrainNode *node, const char *domain, const char *op_type, guint n_outputs)
{
  OrtrainNode *form =
      ortrain_graph_insert_node (graph, node, domain, op_type, node->name, (OrtrainValue *const *) node->inputs->pdata,
                                 node->inputs->len, n_outputs);
  ortrain_attributes_assign (form->attributes, node->attributes);
  return form;
}

/* ---- files in training form ---- */

/* On nodes that the file has in training form. */
#define TRAINING_FORM "training_form"

/* A file may have been written in training form. Whether layers train depends on the call, a training step or an
 * evaluation, and on the options of the session: the graph that both are built from has its layers in inference
 * form. */
static gboolean
put_in_inference_form (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint n = 0; n < nodes->len; n++)
    {
      OrtrainNode *node = nodes->pdata[n];
      const guint which = node->op != NULL ? node->op->training_input : 0;
      const OrtrainValue *training = which > 0 ? ortrain_node_input (node, which) : NULL;
      if (training != NULL && training->tensor != NULL)
        ortrain_node_set_input (node, which, NULL);
      if (!ortrain_statistics_are_stored (node) || node->op->inference_form == NULL)
        continue;
      gboolean is_used = FALSE; /* statistics that the model itself gives out or reads on */
      for (guint k = 1; k < node->outputs->len; k++)
        {
          OrtrainValue *output = ortrain_node_output (node, k);
          is_used = is_used || (output != NULL && (output->uses.n > 0 || output->is_output));
        }
      if (is_used)
        continue;
      OrtrainNode *stored = insert_form (graph, node, "", node->op->inference_form, 1);
      ortrain_attributes_set_int (stored->attributes, TRAINING_FORM, 1);
      if (!ortrain_ops_infer_node (stored, error))
        return FALSE;
      ortrain_value_replace_uses (ortrain_node_output (node, 0), ortrain_node_output (stored, 0));
      ortrain_graph_delete_node (graph, node);
    }
  return TRUE;
}

/* Evaluation computes the same as the exported file, which is written as it was read: batch normalisation in training
 * form with the statistics of the batch. */
static gboolean
put_in_file_form (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint n = 0; n < nodes->len; n++)
    {
      OrtrainNode *node = nodes->pdata[n];
      if (node->op == NULL || node->op->training_form == NULL ||
          !ortrain_attributes_has (node->attributes, TRAINING_FORM))
        continue;
      OrtrainNode *train = insert_form (graph, node, ORTRAIN_DOMAIN, node->op->training_form, 3);
      ortrain_attributes_remove (train->attributes, TRAINING_FORM);
      if (!ortrain_ops_infer_node (train, error))
        return FALSE;
      ortrain_value_replace_uses (ortrain_node_output (node, 0), ortrain_node_output (train, 0));
      ortrain_graph_delete_node (graph, node);
    }
  return TRUE;
}

/* ---- how layers behave while training ---- */

/* A layer with running statistics → its training form, whose outputs from 1 on are the next statistics, and then the
 * values that its gradient needs. A buffer that several nodes share is updated by them in order; the last update is
 * kept. */
static gboolean
train_statistics (OrtrainGraph *graph, GHashTable *current, OrtrainNode *node, GError **error)
{
  const OrtrainOpDef *form = ortrain_ops_lookup (ORTRAIN_DOMAIN, node->op->training_form);
  OrtrainNode *train = insert_form (graph, node, ORTRAIN_DOMAIN, form->name, (guint) form->max_outputs);
  ortrain_attributes_remove (train->attributes, TRAINING_FORM);
  ortrain_statistics_forget (train);
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *moved =
          form->statistic_inputs >> i & 1 ? g_hash_table_lookup (current, ortrain_node_input (node, i)) : NULL;
      if (moved == NULL)
        continue;
      ortrain_node_set_input (train, i, moved);
      moved->role = ORTRAIN_ROLE_NONE;
      moved->partner = NULL;
      ortrain_graph_mark_output (graph, moved, FALSE);
    }
  if (!ortrain_ops_infer_node (train, error))
    return FALSE;
  ortrain_value_replace_uses (ortrain_node_output (node, 0), ortrain_node_output (train, 0));
  for (guint i = 0, k = 1; i < node->inputs->len; i++)
    {
      if (!(form->statistic_inputs >> i & 1))
        continue;
      OrtrainValue *buffer = ortrain_node_input (node, i);
      OrtrainValue *update = ortrain_node_output (train, k), *old = ortrain_node_output (node, k);
      k++;
      if (old != NULL)
        ortrain_value_replace_uses (old, update);
      g_autofree char *name = g_strconcat (buffer->name, ".next", NULL);
      ortrain_value_rename (update, name);
      update->role = ORTRAIN_ROLE_UPDATE;
      update->partner = buffer;
      if (!update->is_output)
        ortrain_graph_mark_output (graph, update, TRUE);
      g_hash_table_insert (current, buffer, update);
    }
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

/* Exporters write dropout for inference; while training it drops. Its ratio is the file's. */
static gboolean
set_training (OrtrainGraph *graph, OrtrainNode *node, GError **error)
{
  const guint8 byte = 1;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_BOOL, NULL, 0, &byte, 1, error);
  if (tensor == NULL)
    return FALSE;
  const guint which = node->op->training_input;
  while (node->inputs->len < which)
    ortrain_node_set_input (node, node->inputs->len, NULL);
  ortrain_node_set_input (node, which, ortrain_graph_new_initializer (graph, NULL, tensor));
  return ortrain_ops_infer_node (node, error);
}

static gboolean
make_layers_train (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GHashTable) current = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint n = 0; n < nodes->len; n++)
    {
      OrtrainNode *node = nodes->pdata[n];
      if (node->op == NULL)
        continue;
      if (ortrain_statistics_train (node))
        {
          if (!train_statistics (graph, current, node, error))
            return FALSE;
        }
      else if (node->op->training_input > 0 && !set_training (graph, node, error))
        return FALSE;
    }
  return TRUE;
}

/* A row of a table that is only looked up: where the table has other uses, their gradients count for that row too. */
static gint64
find_padding_row (const OrtrainValue *value, OrtrainTrainingOptions *options, GHashTable *padding_rows)
{
  gint64 row;
  if (!ortrain_training_options_get_padding_row (options, value->name, &row) &&
      (value->scoped_name == 0 ||
       !ortrain_training_options_get_padding_row (options, ortrain_scoped_name_of (value), &row)))
    row = GPOINTER_TO_INT (g_hash_table_lookup (padding_rows, value->name)) - 1;
  if (row < 0 || value->uses.n != 1 || value->is_output || value->rank < 1)
    return -1;
  OrtrainUse use = value->uses.items[0];
  if (ortrain_node_get_kind (use.node) != ORTRAIN_OP_KIND_LOOKUP || use.index != 0 ||
      ortrain_attributes_get_int (use.node->attributes, "axis", 0) != 0)
    return -1;
  return row < ortrain_tensor_get_dim (value->tensor, 0) ? row : -1;
}

/* Names and rows that were set by hand are those of the model. */
static gboolean
check_padding_rows (OrtrainGraph *graph, OrtrainTrainingOptions *options, GError **error)
{
  g_auto (GStrv) names = ortrain_training_options_list_padding_rows (options);
  for (guint i = 0; names[i] != NULL; i++)
    {
      OrtrainValue *value = ortrain_scoped_name_find_initializer (graph, names[i]);
      gint64 row = -1, n_rows;
      ortrain_training_options_get_padding_row (options, names[i], &row);
      if (!is_weight (value))
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                       "Cannot set a padding row of '%s': the model has no initializer of that name",
                       ortrain_text_show (names[i]));
          return FALSE;
        }
      n_rows = value->rank > 0 ? ortrain_tensor_get_dim (value->tensor, 0) : 0;
      if (row < -1 || row >= n_rows)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                       "Padding row %" G_GINT64_FORMAT " of '%s' is out of range, it has %" G_GINT64_FORMAT " rows",
                       row, ortrain_text_show (names[i]), n_rows);
          return FALSE;
        }
    }
  return TRUE;
}

/* ---- all of it ---- */

static void
trained_tensor_clear (gpointer data)
{
  OrtrainTrainedTensor *tensor = data;
  g_free (tensor->name);
  g_free (tensor->scoped_name);
  g_clear_object (&tensor->initial);
  g_free (tensor->gradient);
  g_free (tensor->copy);
  g_strfreev (tensor->states);
}

static void
tie_clear (gpointer data)
{
  OrtrainTrainingTie *tie = data;
  g_free (tie->first);
  g_free (tie->second);
}

static OrtrainValue *
find_by_role (OrtrainGraph *graph, OrtrainRole role)
{
  for (guint i = 0; i < graph->outputs->len; i++)
    if (((OrtrainValue *) graph->outputs->pdata[i])->role == role)
      return graph->outputs->pdata[i];
  return NULL;
}

/* Outputs of the model that the loss does not need are not computed while training, nor handed out where they are
 * parameters. */
static gboolean
is_trained_output (OrtrainValue *value, gpointer data)
{
  return value->role != ORTRAIN_ROLE_NONE && value->kind == ORTRAIN_VALUE_COMPUTED;
}

/* ---- precision ---- */

/* The gradient of a parameter of 16 bits is summed up in float32. */
static gboolean
widen_gradient (OrtrainGraph *graph, OrtrainValue **gradient, GError **error)
{
  OrtrainValue *narrow = *gradient;
  if (!ortrain_dtype_is_half (narrow->dtype))
    return TRUE;
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Cast", "grad/Cast", &narrow, 1, 1);
  ortrain_attributes_set_int (node->attributes, "to", ORTRAIN_DTYPE_FLOAT32);
  node->phase = ORTRAIN_PHASE_BACKWARD;
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  OrtrainValue *wide = ortrain_node_output (node, 0);
  g_autofree char *name = g_strdup (narrow->name);
  ortrain_value_rename (narrow, NULL);
  ortrain_value_rename (wide, name);
  wide->role = narrow->role;
  wide->partner = narrow->partner;
  narrow->role = ORTRAIN_ROLE_NONE;
  narrow->partner = NULL;
  ortrain_graph_replace_output (graph, narrow, wide);
  *gradient = wide;
  return TRUE;
}

/* For gradients that are accumulated over several steps: the loss times the weight of the step. An update divides by
 * the sum of the weights. */
static OrtrainValue *
weigh_loss (OrtrainTrainingGraph *self, OrtrainValue *loss, GError **error)
{
  OrtrainValue *weight = ortrain_graph_new_held (self->training, "loss-weight", loss->dtype, NULL, 0);
  weight->role = ORTRAIN_ROLE_STATE;
  self->loss_weight = g_strdup (weight->name);
  OrtrainValue *const factors[] = { loss, weight };
  OrtrainNode *node = ortrain_graph_new_node (self->training, "", "Mul", "loss/weight", factors, 2, 1);
  return ortrain_ops_infer_node (node, error) ? ortrain_node_output (node, 0) : NULL;
}

/* The value whose gradients are computed: the loss times the scale. */
static OrtrainValue *
scale_loss (OrtrainTrainingGraph *self, OrtrainValue *loss, GError **error)
{
  OrtrainValue *scale = ortrain_graph_new_held (self->training, "loss-scale", ORTRAIN_DTYPE_FLOAT32, NULL, 0);
  scale->role = ORTRAIN_ROLE_STATE;
  self->loss_scale = g_strdup (scale->name);
  /* in the wider of the two types */
  OrtrainValue **narrow = loss->dtype == ORTRAIN_DTYPE_FLOAT64 ? &scale : &loss;
  if (loss->dtype != ORTRAIN_DTYPE_FLOAT32)
    {
      OrtrainNode *cast = ortrain_graph_new_node (self->training, "", "Cast", "loss/type", narrow, 1, 1);
      ortrain_attributes_set_int (cast->attributes, "to",
                                  narrow == &scale ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32);
      if (!ortrain_ops_infer_node (cast, error))
        return NULL;
      *narrow = ortrain_node_output (cast, 0);
    }
  OrtrainValue *const factors[] = { loss, scale };
  OrtrainNode *node = ortrain_graph_new_node (self->training, "", "Mul", "loss/scale", factors, 2, 1);
  return ortrain_ops_infer_node (node, error) ? ortrain_node_output (node, 0) : NULL;
}

static gboolean
has_masters (OrtrainTrainingOptions *options)
{
  return ortrain_training_options_get_master_weights (options);
}

/* An evaluation computes in the same types as a training step, from the same parameters. */
static gboolean
finish_evaluation (OrtrainTrainingGraph *self, OrtrainGraph *graph, OrtrainTrainingOptions *options, GError **error)
{
  return ortrain_precision_apply (graph, options, error) &&
         (has_masters (options) || ortrain_low_precision_copies_narrow_as (graph, self->parameters, error)) &&
         ortrain_low_precision_copies_hold (graph, self->parameters, error) && ortrain_graph_sort (graph, error);
}

#define MAX_LOST 8

/* ---- memory ---- */

static gboolean
recompute (OrtrainTrainingGraph *self, OrtrainTrainingOptions *options, GError **error)
{
  const guint level = ortrain_training_options_get_memory_opt_level (options);
  const char *config = ortrain_training_options_get_memory_opt_config (options);
  if (config == NULL || *config == '\0')
    return TRUE;
  if (level > 0) /* which is carried out by the planner */
    {
      ortrain_graph_add_note (self->training, "memory-opt-config is ignored: memory-opt-level is above 0");
      return TRUE;
    }
  self->recompute = ortrain_recompute_run (self->training, config, error);
  return self->recompute != NULL;
}

static gboolean
build_training (OrtrainTrainingGraph *self, OrtrainTrainingOptions *options, const OrtrainUpdateRule *rule,
                const OrtrainProvider *provider, const OrtrainPlanContext *context, GError **error)
{
  OrtrainGraph *graph = self->training;
  if (!make_layers_train (graph, error))
    return FALSE;
  if (ortrain_losses_add_to_graph (ortrain_training_options_get_losses (options), graph, NULL, NULL, error) == NULL)
    return FALSE;
  ortrain_stop_gradient_extend (graph);
  ortrain_graph_filter_outputs (graph, is_trained_output, NULL);
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  ortrain_graph_remove_dead (graph);
  if (!ortrain_optimize_symbolic_graph (graph, provider, context, error))
    return FALSE;

  if (!ortrain_precision_apply (graph, options, error) ||
      (!has_masters (options) && !ortrain_low_precision_copies_narrow (graph, self->parameters, error)))
    return FALSE;

  OrtrainValue *loss = find_by_role (graph, ORTRAIN_ROLE_LOSS);
  if (loss == NULL)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
                   "The loss does not depend on the inputs or parameters of the model");
      return FALSE;
    }
  g_autoptr (GPtrArray) wanted = g_ptr_array_new ();
  for (guint i = 0; i < self->parameters->len; i++)
    {
      OrtrainTrainedTensor *parameter = &g_array_index (self->parameters, OrtrainTrainedTensor, i);
      OrtrainValue *value = ortrain_graph_find_value (graph, parameter->name);
      if (value == NULL)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
                       "Cannot train '%s': the loss does not depend on it", ortrain_text_show (parameter->name));
          return FALSE;
        }
      g_ptr_array_add (wanted, value);
    }
  g_autofree OrtrainValue **gradients = g_new0 (OrtrainValue *, wanted->len);
  OrtrainValue *objective = rule->weighs ? weigh_loss (self, loss, error) : loss;
  if (objective != NULL && rule->scaling.is_on)
    objective = scale_loss (self, objective, error);
  if (objective == NULL ||
      !ortrain_gradient_build (graph, objective, (OrtrainValue *const *) wanted->pdata, wanted->len, gradients, error))
    return FALSE;
  ortrain_stop_gradient_remove (graph);
  for (guint i = 0; i < self->parameters->len; i++)
    {
      if (!widen_gradient (graph, &gradients[i], error))
        return FALSE;
      g_array_index (self->parameters, OrtrainTrainedTensor, i).gradient = g_strdup (gradients[i]->name);
    }
  if (!ortrain_graph_sort (graph, error) || !ortrain_optimize_gradient_graph (graph, context, error) ||
      !ortrain_low_precision_copies_hold (graph, self->parameters, error))
    return FALSE;
  if (!recompute (self, options, error))
    return FALSE;
  if (rule->undecided)
    self->without_updates = ortrain_graph_clone (graph);
  if (!ortrain_update_graph_add (self, rule, error))
    return FALSE;
  self->loss = g_strdup (loss->name);
  self->loss_dtype = loss->dtype;
  return TRUE;
}

static OrtrainTrainingGraph *
training_graph_alloc (void)
{
  OrtrainTrainingGraph *self = g_new0 (OrtrainTrainingGraph, 1);
  self->parameters = g_array_new (FALSE, TRUE, sizeof (OrtrainTrainedTensor));
  self->buffers = g_array_new (FALSE, TRUE, sizeof (OrtrainTrainedTensor));
  self->ties = g_array_new (FALSE, TRUE, sizeof (OrtrainTrainingTie));
  self->counts = g_ptr_array_new_with_free_func ((GDestroyNotify) ortrain_loss_count_free);
  g_array_set_clear_func (self->parameters, trained_tensor_clear);
  g_array_set_clear_func (self->buffers, trained_tensor_clear);
  g_array_set_clear_func (self->ties, tie_clear);
  return self;
}

/* A mean over batches is taken of each loss. */
static gboolean
add_evaluation_losses (OrtrainTrainingGraph *self, GListModel *losses, GError **error)
{
  g_autoptr (GPtrArray) values = g_ptr_array_new ();
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();
  if (ortrain_losses_add_to_graph (losses, self->evaluation_loss, NULL, values, error) == NULL)
    return FALSE;
  if (values->len < 2)
    return TRUE;
  for (guint i = 0; i < values->len; i++)
    {
      OrtrainValue *value = ortrain_loss_op1 (self->evaluation_loss, "Identity", values->pdata[i], error);
      if (value == NULL)
        return FALSE;
      ortrain_value_rename (value, "each-loss");
      ortrain_graph_mark_output (self->evaluation_loss, value, TRUE);
      g_strv_builder_add (names, value->name);
    }
  self->each_loss = g_strv_builder_end (names);
  return TRUE;
}

static gboolean
is_tied (const OrtrainTrainingGraph *self, const char *name)
{
  for (guint i = 0; i < self->ties->len; i++)
    if (g_str_equal (g_array_index (self->ties, OrtrainTrainingTie, i).first, name))
      return TRUE;
  return FALSE;
}

/* Stops gradients in the graph, and notes which weights get no gradient because of it. */
static gboolean
stop_gradients (OrtrainGraph *base, OrtrainTrainingOptions *options, GHashTable *detached, GStrvBuilder *notes,
                GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (OrtrainGraph) before = ortrain_graph_clone (base), after = NULL;
  g_autoptr (GString) lost = g_string_new (NULL);
  guint n_lost = 0;
  if (!ortrain_stop_gradient_insert (base, ortrain_training_options_get_stop_gradient (options), detached, names,
                                     error))
    return FALSE;
  if (names->len == 0)
    return TRUE;
  after = ortrain_graph_clone (base);
  GListModel *losses = ortrain_training_options_get_losses (options);
  OrtrainValue *with = ortrain_losses_add_to_graph (losses, after, NULL, NULL, error);
  OrtrainValue *without = with != NULL ? ortrain_losses_add_to_graph (losses, before, NULL, NULL, error) : NULL;
  if (without == NULL)
    return FALSE;
  ortrain_stop_gradient_extend (after);
  g_autoptr (GHashTable) now = ortrain_parameter_choice_find_differentiable (&with, 1);
  g_autoptr (GHashTable) then = ortrain_parameter_choice_find_differentiable (&without, 1);
  g_autoptr (GArray) roles = ortrain_parameter_roles_find (base);
  for (guint i = 0; i < roles->len; i++)
    {
      const OrtrainParameterRole *role = &g_array_index (roles, OrtrainParameterRole, i);
      if (!role->is_weight || g_hash_table_contains (now, role->value->name) ||
          !g_hash_table_contains (then, role->value->name))
        continue;
      if (n_lost++ < MAX_LOST)
        g_string_append_printf (lost, "%s'%s'", n_lost > 1 ? ", " : "", ortrain_text_show (role->value->name));
    }
  g_ptr_array_add (names, NULL);
  g_autofree char *list = g_strjoinv ("', '", (char **) names->pdata);
  g_autofree char *whose = n_lost == 0
                               ? g_strdup ("")
                               : g_strdup_printf ("; %u weight%s no gradient because of it, and %s not trained: %s%s",
                                                  n_lost, n_lost == 1 ? " gets" : "s get", n_lost == 1 ? "is" : "are",
                                                  lost->str, n_lost > MAX_LOST ? ", …" : "");
  g_autofree char *note = g_strdup_printf ("no gradient flows through '%s'%s", ortrain_text_show_list (list), whose);
  g_strv_builder_add (notes, note);
  return TRUE;
}

OrtrainTrainingGraph *
ortrain_training_graph_new (OrtrainGraph *model_graph, OrtrainTrainingOptions *options, const OrtrainUpdateRule *rule,
                            GHashTable *padding_rows, GHashTable *detached, const OrtrainProvider *provider,
                            const OrtrainPlanContext *context, GError **error)
{
  g_autoptr (OrtrainTrainingGraph) self = training_graph_alloc ();
  if (!check_padding_rows (model_graph, options, error))
    return NULL;
  g_autoptr (OrtrainGraph) base = ortrain_graph_clone (model_graph);
  if (!put_in_inference_form (base, error))
    return NULL;
  g_autoptr (GStrvBuilder) outputs = g_strv_builder_new ();
  for (guint i = 0; i < base->outputs->len; i++)
    g_strv_builder_add (outputs, ((OrtrainValue *) base->outputs->pdata[i])->name);
  self->outputs = g_strv_builder_end (outputs);
  g_autoptr (GStrvBuilder) notes = g_strv_builder_new ();
  if (!ortrain_parameter_ties_apply (base, options, self->ties, notes, error) ||
      !stop_gradients (base, options, detached, notes, error))
    return NULL;
  /* The dependencies of the loss are found in a copy that has the losses. */
  {
    g_autoptr (OrtrainGraph) probe = ortrain_graph_clone (base);
    OrtrainValue *loss =
        ortrain_losses_add_to_graph (ortrain_training_options_get_losses (options), probe, self->counts, NULL, error);
    if (loss == NULL)
      return NULL;
    ortrain_stop_gradient_extend (probe);
    g_autoptr (GHashTable) differentiable = ortrain_parameter_choice_find_differentiable (&loss, 1);
    if (!ortrain_parameter_choice_apply (base, differentiable, options, notes, error) ||
        !ortrain_parameter_ties_apply_repeated (base, options, self->ties, notes, error))
      return NULL;
  }
  if (!ortrain_statistics_choose (base, options, notes, error))
    return NULL;
  for (guint i = 0; i < base->initializers->len; i++)
    {
      OrtrainValue *value = base->initializers->pdata[i];
      OrtrainTrainedTensor tensor = { 0 };
      if (value->role == ORTRAIN_ROLE_PARAMETER || value->role == ORTRAIN_ROLE_BUFFER)
        {
          tensor.name = g_strdup (value->name);
          tensor.scoped_name = g_strdup (ortrain_scoped_name_of (value));
          tensor.initial = g_object_ref (value->tensor);
          tensor.dtype =
              has_masters (options) && ortrain_dtype_is_half (value->dtype) && value->role == ORTRAIN_ROLE_PARAMETER
                  ? ORTRAIN_DTYPE_FLOAT32
                  : value->dtype;
          tensor.padding_row = find_padding_row (value, options, padding_rows);
          g_array_append_val (value->role == ORTRAIN_ROLE_PARAMETER ? self->parameters : self->buffers, tensor);
        }
      else if (value->tensor != NULL && value->role == ORTRAIN_ROLE_NONE && ortrain_dtype_is_floating (value->dtype))
        value->role = ORTRAIN_ROLE_FROZEN;
    }

  for (guint i = 0; i < base->initializers->len; i++)
    {
      const OrtrainValue *value = base->initializers->pdata[i];
      if (value->role == ORTRAIN_ROLE_PARAMETER && !is_tied (self, value->name))
        ortrain_shared_constants_add_note (value, notes);
    }
  if (has_masters (options) && !ortrain_low_precision_copies_widen (base, error))
    return NULL;
  self->evaluation = ortrain_graph_clone (base);
  self->evaluation_loss = ortrain_graph_clone (base);
  ortrain_stop_gradient_remove (self->evaluation);
  ortrain_stop_gradient_remove (self->evaluation_loss);
  if (!put_in_file_form (self->evaluation, error) || !put_in_file_form (self->evaluation_loss, error))
    return NULL;
  if (!add_evaluation_losses (self, ortrain_training_options_get_losses (options), error))
    return NULL;
  g_autoptr (GStrvBuilder) targets = g_strv_builder_new ();
  for (guint i = 0; i < self->evaluation_loss->inputs->len; i++)
    {
      OrtrainValue *input = self->evaluation_loss->inputs->pdata[i];
      if (input->role == ORTRAIN_ROLE_TARGET)
        g_strv_builder_add (targets, input->name);
    }
  self->targets = g_strv_builder_end (targets);
  self->evaluation_loss_name = g_strdup (find_by_role (self->evaluation_loss, ORTRAIN_ROLE_LOSS)->name);
  if (!ortrain_graph_sort (self->evaluation_loss, error) || !ortrain_graph_sort (self->evaluation, error))
    return NULL;
  ortrain_graph_drop_blocked_outputs (self->evaluation);
  ortrain_graph_drop_blocked_outputs (self->evaluation_loss);
  ortrain_graph_remove_dead (self->evaluation);
  ortrain_graph_remove_dead (self->evaluation_loss);
  if (!ortrain_optimize_symbolic_graph (self->evaluation, provider, context, error) ||
      !ortrain_optimize_symbolic_graph (self->evaluation_loss, provider, context, error))
    return NULL;

  self->training = ortrain_graph_clone (base);
  if (!build_training (self, options, rule, provider, context, error) ||
      !finish_evaluation (self, self->evaluation, options, error) ||
      !finish_evaluation (self, self->evaluation_loss, options, error))
    return NULL;
  OrtrainGraph *const noted[] = { self->training, model_graph, self->evaluation };
  for (guint g = 0; g < G_N_ELEMENTS (noted); g++)
    for (guint i = 0; noted[g]->notes != NULL && i < noted[g]->notes->len; i++)
      g_strv_builder_add (notes, noted[g]->notes->pdata[i]);
  self->notes = g_strv_builder_end (notes);
  return g_steal_pointer (&self);
}

static void
copy_tensors (GArray *to, GArray *from)
{
  for (guint i = 0; i < from->len; i++)
    {
      const OrtrainTrainedTensor *tensor = &g_array_index (from, OrtrainTrainedTensor, i);
      const OrtrainTrainedTensor copy = {
        .name = g_strdup (tensor->name),
        .scoped_name = g_strdup (tensor->scoped_name),
        .initial = g_object_ref (tensor->initial),
        .dtype = tensor->dtype,
        .copy = g_strdup (tensor->copy),
        .copy_dtype = tensor->copy_dtype,
        .gradient = g_strdup (tensor->gradient),
        .padding_row = tensor->padding_row,
      };
      g_array_append_val (to, copy);
    }
}

OrtrainTrainingGraph *
ortrain_training_graph_new_with_rule (const OrtrainTrainingGraph *graph, const OrtrainUpdateRule *rule, GError **error)
{
  g_autoptr (OrtrainTrainingGraph) self = training_graph_alloc ();
  self->training = ortrain_graph_clone (graph->without_updates);
  self->evaluation = g_object_ref (graph->evaluation);
  self->evaluation_loss = g_object_ref (graph->evaluation_loss);
  g_ptr_array_unref (self->counts);
  self->counts = g_ptr_array_ref (graph->counts);
  self->loss = g_strdup (graph->loss);
  self->loss_weight = g_strdup (graph->loss_weight);
  self->loss_scale = g_strdup (graph->loss_scale);
  self->loss_dtype = graph->loss_dtype;
  self->evaluation_loss_name = g_strdup (graph->evaluation_loss_name);
  self->each_loss = g_strdupv (graph->each_loss);
  self->targets = g_strdupv (graph->targets);
  self->recompute = graph->recompute != NULL ? ortrain_recompute_report_ref (graph->recompute) : NULL;
  self->outputs = g_strdupv (graph->outputs);
  copy_tensors (self->parameters, graph->parameters);
  copy_tensors (self->buffers, graph->buffers);
  for (guint i = 0; i < graph->ties->len; i++)
    {
      const OrtrainTrainingTie *tie = &g_array_index (graph->ties, OrtrainTrainingTie, i);
      const OrtrainTrainingTie copy = { g_strdup (tie->first), g_strdup (tie->second), tie->transposed };
      g_array_append_val (self->ties, copy);
    }
  const guint n_notes = self->training->notes != NULL ? self->training->notes->len : 0;
  if (!ortrain_update_graph_add (self, rule, error))
    return NULL;
  g_autoptr (GStrvBuilder) notes = g_strv_builder_new ();
  g_strv_builder_addv (notes, (const char **) graph->notes);
  for (guint i = n_notes; self->training->notes != NULL && i < self->training->notes->len; i++)
    g_strv_builder_add (notes, self->training->notes->pdata[i]);
  self->notes = g_strv_builder_end (notes);
  return g_steal_pointer (&self);
}

void
ortrain_training_graph_free (OrtrainTrainingGraph *self)
{
  if (self == NULL)
    return;
  g_clear_object (&self->training);
  g_clear_object (&self->without_updates);
  g_clear_object (&self->evaluation);
  g_clear_object (&self->evaluation_loss);
  g_clear_pointer (&self->parameters, g_array_unref);
  g_clear_pointer (&self->buffers, g_array_unref);
  g_clear_pointer (&self->ties, g_array_unref);
  g_clear_pointer (&self->counts, g_ptr_array_unref);
  g_free (self->loss);
  g_free (self->loss_weight);
  g_free (self->scalars);
  g_free (self->loss_scale);
  g_free (self->good_steps);
  g_free (self->overflows);
  g_free (self->tolerated);
  g_free (self->norm);
  g_free (self->broken);
  g_free (self->broken_at_once);
  g_free (self->evaluation_loss_name);
  g_strfreev (self->each_loss);
  g_strfreev (self->targets);
  g_strfreev (self->outputs);
  g_strfreev (self->notes);
  ortrain_recompute_report_unref (self->recompute);
  g_free (self);
}
