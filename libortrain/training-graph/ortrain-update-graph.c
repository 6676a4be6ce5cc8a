/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-update-graph-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

/* For immediate updates: tensors with no more elements share a node, larger ones are updated as soon as possible. */
#define SMALL_TENSOR 32768

static void
describe_scaling (OrtrainLossScaling *scaling, OrtrainTrainingOptions *options, gboolean has_fp16)
{
  OrtrainLossScaler *chosen = ortrain_training_options_get_loss_scaler (options);
  const gboolean fp16 = has_fp16 || ortrain_training_options_get_precision (options) == ORTRAIN_PRECISION_FP16;
  scaling->is_on = chosen != NULL || fp16;
  if (!scaling->is_on)
    return;
  g_autoptr (OrtrainLossScaler) scaler = chosen != NULL ? g_object_ref (chosen) : ortrain_loss_scaler_new ();
  scaling->is_dynamic = ortrain_loss_scaler_get_dynamic (scaler);
  scaling->initial = ortrain_loss_scaler_get_initial_scale (scaler);
  scaling->growth_factor = scaling->is_dynamic ? ortrain_loss_scaler_get_growth_factor (scaler) : 1.0;
  scaling->backoff_factor = scaling->is_dynamic ? ortrain_loss_scaler_get_backoff_factor (scaler) : 1.0;
  scaling->growth_interval = ortrain_loss_scaler_get_growth_interval (scaler);
  scaling->hysteresis = scaling->is_dynamic ? ortrain_loss_scaler_get_hysteresis (scaler) : 1;
  scaling->minimum = scaling->is_dynamic ? ortrain_loss_scaler_get_minimum_scale (scaler) : scaling->initial;
  scaling->maximum = scaling->is_dynamic ? ortrain_loss_scaler_get_maximum_scale (scaler) : scaling->initial;
}

void
ortrain_update_rule_init (OrtrainUpdateRule *rule, OrtrainTrainingOptions *options, OrtrainOptimizer *optimizer,
                          gboolean has_fp16, OrtrainImmediateUpdates when)
{
  *rule = (OrtrainUpdateRule){ 0 };
  describe_scaling (&rule->scaling, options, has_fp16);
  rule->weighs = ortrain_training_options_get_accumulation_steps (options) > 1;
  rule->stochastic_rounding = !ortrain_training_options_get_master_weights (options);
  ortrain_optimizer_describe (optimizer, &rule->optimizer);
  rule->undecided = when == ORTRAIN_IMMEDIATE_UPDATES_AUTO;
  if (when != ORTRAIN_IMMEDIATE_UPDATES_ON)
    return;
  if (rule->optimizer.op_type == NULL)
    rule->deferral_reason = "the optimizer is not one of the library's";
  else if (ortrain_training_options_get_max_grad_norm (options) > 0)
    rule->deferral_reason = "max-grad-norm needs all of them together";
  else if (rule->scaling.is_on)
    rule->deferral_reason = "the loss is scaled, and all of them are checked before one is used";
  else if (ortrain_training_options_get_accumulation_steps (options) > 1)
    rule->deferral_reason = "they are accumulated over several steps";
  else
    rule->immediate = TRUE;
}

/* Nodes under construction. */
#define MAX_JOINED 32 /* operands of a node that joins other results; every provider has kernels for this many */

typedef struct
{
  OrtrainTrainingGraph *self;
  const OrtrainUpdateRule *rule;
  OrtrainValue *scalars, *norm, *loss_scale;
  OrtrainPhase phase;
  GPtrArray *broken; /* of the nodes of the phase */
} Building;

static OrtrainTrainedTensor *
get_trained (const Building *building, guint index)
{
  return &g_array_index (building->self->parameters, OrtrainTrainedTensor, index);
}

static OrtrainValue *
new_held (OrtrainGraph *graph, const char *name, OrtrainDType dtype, const OrtrainDim *dims, gint rank)
{
  OrtrainValue *value = ortrain_graph_new_held (graph, name, dtype, dims, rank);
  value->role = ORTRAIN_ROLE_STATE;
  return value;
}

static void
describe_state (const OrtrainUpdateRule *rule, const OrtrainTrainedTensor *trained, const OrtrainValue *parameter,
                OrtrainStateForm *form)
{
  ortrain_state_form_init (
      form, rule->optimizer.state_precision, parameter->dtype, ortrain_tensor_peek_dims (trained->initial),
      (guint) ortrain_tensor_get_rank (trained->initial), ortrain_tensor_get_n_elements (trained->initial));
}

/* `updated` becomes the contents of `original`. */
static void
mark_update (OrtrainGraph *graph, OrtrainValue *updated, OrtrainValue *original)
{
  g_autofree char *name = g_strconcat (original->name, ".next", NULL);
  ortrain_value_rename (updated, name);
  updated->role = ORTRAIN_ROLE_UPDATE;
  updated->partner = original;
  ortrain_graph_mark_output (graph, updated, TRUE);
}

/* A number that the session reads. */
static char *
mark_result (OrtrainGraph *graph, OrtrainValue *value, const char *name)
{
  ortrain_value_rename (value, name);
  value->role = ORTRAIN_ROLE_UPDATE;
  ortrain_graph_mark_output (graph, value, TRUE);
  return g_strdup (value->name);
}

/* members: of guint, the parameters that one node moves; emptied. */
static gboolean
add_node (Building *building, GArray *members, GError **error)
{
  OrtrainGraph *graph = building->self->training;
  const OrtrainOptimizerDescription *optimizer = &building->rule->optimizer;
  const guint n = members->len, n_states = optimizer->n_states;
  guint n_copies = 0;
  if (n == 0)
    return TRUE;
  g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
  g_autofree gint64 *indices = g_new (gint64, n), *copies = g_new0 (gint64, n);
  g_ptr_array_add (inputs, building->scalars);
  g_ptr_array_add (inputs, building->norm);
  g_ptr_array_add (inputs, building->loss_scale); /* loss scale */
  for (guint t = 0; t < n; t++)
    {
      indices[t] = g_array_index (members, guint, t);
      OrtrainTrainedTensor *trained = get_trained (building, (guint) indices[t]);
      OrtrainValue *parameter = ortrain_graph_find_value (graph, trained->name);
      OrtrainStateForm form;
      describe_state (building->rule, trained, parameter, &form);
      const gboolean blocks = form.dtype == ORTRAIN_DTYPE_UINT8;
      const OrtrainDim block_dims[] = { ortrain_dim_int (form.dims[0]), ortrain_dim_int (form.dims[1]) };
      g_ptr_array_add (inputs, parameter);
      g_ptr_array_add (inputs, ortrain_graph_find_value (graph, trained->gradient));
      if (trained->copy != NULL)
        copies[t] = trained->copy_dtype;
      n_copies += copies[t] != 0;
      trained->states = g_new0 (char *, n_states + 1);
      for (guint k = 0; k < n_states; k++)
        {
          g_autofree char *name = g_strconcat (trained->name, ".", optimizer->state_names[k], NULL);
          OrtrainValue *state =
              new_held (graph, name, form.dtype, blocks ? block_dims : parameter->dims, (gint) form.rank);
          trained->states[k] = g_strdup (state->name);
          g_ptr_array_add (inputs, state);
        }
    }
  g_autofree char *name =
      n > 1 ? g_strdup ("update") : g_strconcat ("update/", get_trained (building, (guint) indices[0])->name, NULL);
  OrtrainNode *node =
      ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, optimizer->op_type, name, (OrtrainValue *const *) inputs->pdata,
                              inputs->len, n * (1 + n_states) + 1 + n_copies);
  node->phase = building->phase;
  ortrain_attributes_set_ints (node->attributes, "parameters", indices, n);
  ortrain_attributes_set_int (node->attributes, "states", n_states);
  if (n_copies > 0)
    ortrain_attributes_set_ints (node->attributes, "copies", copies, n);
  if (building->rule->stochastic_rounding)
    ortrain_attributes_set_int (node->attributes, "stochastic_rounding", 1);
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  for (guint t = 0; t < n; t++)
    for (guint k = 0; k <= n_states; k++)
      mark_update (graph, ortrain_node_output (node, t * (1 + n_states) + k),
                   inputs->pdata[3 + t * (2 + n_states) + (k > 0 ? 1 + k : 0)]);
  for (guint t = 0, k = n * (1 + n_states); t < n; t++)
    if (copies[t] != 0)
      mark_update (graph, ortrain_node_output (node, ++k),
                   ortrain_graph_find_value (graph, get_trained (building, (guint) indices[t])->copy));
  g_ptr_array_add (building->broken, ortrain_node_output (node, n * (1 + n_states)));
  g_array_set_size (members, 0);
  return TRUE;
}

/* Each MAX_JOINED become one, the least of them. */
static gboolean
join_broken (Building *building, GError **error)
{
  g_autoptr (GPtrArray) indices = g_steal_pointer (&building->broken);
  building->broken = g_ptr_array_new ();
  for (guint i = 0; i < indices->len; i += MAX_JOINED)
    {
      OrtrainNode *node =
          ortrain_graph_new_node (building->self->training, "", "Min", "update/broken",
                                  (OrtrainValue *const *) indices->pdata + i, MIN (MAX_JOINED, indices->len - i), 1);
      node->phase = building->phase;
      if (!ortrain_ops_infer_node (node, error))
        return FALSE;
      g_ptr_array_add (building->broken, ortrain_node_output (node, 0));
    }
  return TRUE;
}

/* All nodes of a phase; *broken: the name of the index of the first parameter that they break, NULL if there are
 * none. */
static gboolean
add_phase (Building *building, OrtrainPhase phase, const char *name, char **broken, GError **error)
{
  OrtrainGraph *graph = building->self->training;
  const gboolean immediate = phase == ORTRAIN_PHASE_BACKWARD;
  g_autoptr (GArray) members = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr (GArray) alone = g_array_new (FALSE, FALSE, sizeof (guint));
  building->phase = phase;
  g_ptr_array_set_size (building->broken, 0);
  for (guint i = 0; i < building->self->parameters->len; i++)
    {
      const OrtrainTrainedTensor *trained = get_trained (building, i);
      if (trained->immediate != immediate)
        continue;
      const gboolean large = immediate && ortrain_tensor_get_n_elements (trained->initial) > SMALL_TENSOR;
      GArray *of = large ? alone : members;
      g_array_append_val (of, i);
      if ((large || of->len == ORTRAIN_UPDATE_MAX_TENSORS) && !add_node (building, of, error))
        return FALSE;
    }
  if (!add_node (building, members, error))
    return FALSE;
  if (building->broken->len == 0)
    return TRUE;
  while (building->broken->len > 1)
    if (!join_broken (building, error))
      return FALSE;
  *broken = mark_result (graph, building->broken->pdata[0], name);
  return TRUE;
}

/* Why gradients wait for the update; NULL: they do not. */
static const char *
find_reason (const OrtrainUpdateRule *rule)
{
  if (rule->immediate || rule->deferral_reason != NULL)
    return rule->deferral_reason;
  return rule->undecided ? "steps of your own may read them, as immediate-updates is auto" : "immediate-updates is off";
}

/* Chooses the parameters that are updated during the backward pass. The gradient of rows of padding is set to zero
 * after the backward pass. */
static void
choose_immediate (OrtrainTrainingGraph *self, const OrtrainUpdateRule *rule)
{
  for (guint i = 0; i < self->parameters->len; i++)
    {
      OrtrainTrainedTensor *trained = &g_array_index (self->parameters, OrtrainTrainedTensor, i);
      trained->immediate = rule->immediate && trained->padding_row < 0;
      self->immediate = self->immediate || trained->immediate;
      if (rule->immediate && !trained->immediate)
        {
          g_autofree char *note =
              g_strdup_printf ("the gradient of '%s' is kept until the update: it has a row of padding",
                               ortrain_text_show (trained->name));
          ortrain_graph_add_note (self->training, note);
        }
    }
  self->training->gradients_kept = find_reason (rule);
  if (rule->deferral_reason != NULL)
    {
      g_autofree char *note = g_strconcat (ORTRAIN_GRADIENTS_KEPT, rule->deferral_reason, NULL);
      ortrain_graph_add_note (self->training, note);
    }
}

/* Notes that the optimizer's state is in 8 bits, and names the parameters whose state is not. */
#define MAX_NAMED 8

static void
note_state_precision (OrtrainTrainingGraph *self, const OrtrainUpdateRule *rule)
{
  if (rule->optimizer.state_precision == ORTRAIN_STATE_PRECISION_F32 || rule->optimizer.n_states == 0)
    return;
  g_autoptr (GString) note = g_string_new ("the optimizer's state is kept in 8 bits, which changes the numerics");
  guint n_others = 0;
  for (guint i = 0; i < self->parameters->len; i++)
    {
      const OrtrainTrainedTensor *trained = &g_array_index (self->parameters, OrtrainTrainedTensor, i);
      OrtrainStateForm form;
      describe_state (rule, trained, ortrain_graph_find_value (self->training, trained->name), &form);
      if (form.dtype == ORTRAIN_DTYPE_UINT8 || n_others++ >= MAX_NAMED)
        continue;
      g_string_append_printf (note, "%s'%s'", n_others == 1 ? ", except for small and float64 parameters: " : ", ",
                              ortrain_text_show (trained->name));
    }
  if (n_others > MAX_NAMED)
    g_string_append_printf (note, " and %u other%s", n_others - MAX_NAMED, ortrain_text_plural (n_others - MAX_NAMED));
  ortrain_graph_add_note (self->training, note->str);
}

static gboolean
add_norm (Building *building, GError **error)
{
  OrtrainTrainingGraph *self = building->self;
  g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
  g_ptr_array_add (inputs, building->scalars);
  g_ptr_array_add (inputs, building->loss_scale);
  for (guint i = 0; i < self->parameters->len; i++)
    g_ptr_array_add (inputs, ortrain_graph_find_value (self->training, get_trained (building, i)->gradient));
  OrtrainNode *node = ortrain_graph_new_node (self->training, ORTRAIN_DOMAIN, "GradientNorm", "update/norm",
                                              (OrtrainValue *const *) inputs->pdata, inputs->len, 1);
  node->phase = ORTRAIN_PHASE_UPDATE;
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  building->norm = ortrain_node_output (node, 0);
  self->norm = mark_result (self->training, building->norm, "update.norm");
  return TRUE;
}

/* After the norm: computes the next scale of the loss. */
static gboolean
add_loss_scale (Building *building, GError **error)
{
  OrtrainTrainingGraph *self = building->self;
  const OrtrainLossScaling *scaling = &building->rule->scaling;
  OrtrainValue *good_steps = new_held (self->training, "loss-scale.good-steps", ORTRAIN_DTYPE_INT64, NULL, 0);
  OrtrainValue *overflows = new_held (self->training, "loss-scale.overflows", ORTRAIN_DTYPE_INT64, NULL, 0);
  const gboolean tolerates = scaling->hysteresis > 1;
  OrtrainValue *tolerated =
      tolerates ? new_held (self->training, "loss-scale.tolerated", ORTRAIN_DTYPE_INT64, NULL, 0) : NULL;
  OrtrainValue *const inputs[] = { building->loss_scale, good_steps, overflows, building->norm, tolerated };
  OrtrainNode *node = ortrain_graph_new_node (self->training, ORTRAIN_DOMAIN, "LossScaleUpdate", "update/loss-scale",
                                              inputs, tolerates ? 5 : 4, tolerates ? 4 : 3);
  node->phase = ORTRAIN_PHASE_UPDATE;
  ortrain_attributes_set_float (node->attributes, "growth_factor", (float) scaling->growth_factor);
  ortrain_attributes_set_float (node->attributes, "backoff_factor", (float) scaling->backoff_factor);
  ortrain_attributes_set_int (node->attributes, "growth_interval", scaling->growth_interval);
  if (tolerates)
    ortrain_attributes_set_int (node->attributes, "hysteresis", scaling->hysteresis);
  ortrain_attributes_set_float (node->attributes, "minimum", (float) scaling->minimum);
  ortrain_attributes_set_float (node->attributes, "maximum", (float) scaling->maximum);
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  self->good_steps = g_strdup (good_steps->name);
  self->overflows = g_strdup (overflows->name);
  for (guint k = 0; k < 3; k++)
    mark_update (self->training, ortrain_node_output (node, k), inputs[k]);
  if (!tolerates)
    return TRUE;
  self->tolerated = g_strdup (tolerated->name);
  mark_update (self->training, ortrain_node_output (node, 3), tolerated);
  return TRUE;
}

gboolean
ortrain_update_graph_add (OrtrainTrainingGraph *self, const OrtrainUpdateRule *rule, GError **error)
{
  if (self->parameters->len == 0)
    return TRUE;
  choose_immediate (self, rule);
  note_state_precision (self, rule);
  const OrtrainDim dims[] = { ortrain_dim_int ((gint64) ORTRAIN_UPDATE_N_HELD (self->parameters->len)) };
  Building building = { .self = self, .rule = rule };
  building.scalars = new_held (self->training, "update.scalars", ORTRAIN_DTYPE_FLOAT64, dims, 1);
  self->scalars = g_strdup (building.scalars->name);
  if (self->loss_scale != NULL)
    building.loss_scale = ortrain_graph_find_value (self->training, self->loss_scale);
  if (!self->immediate && !add_norm (&building, error))
    return FALSE;
  if (building.loss_scale != NULL && !add_loss_scale (&building, error))
    return FALSE;
  if (rule->optimizer.op_type != NULL)
    {
      building.broken = g_ptr_array_new ();
      const gboolean ok =
          add_phase (&building, ORTRAIN_PHASE_BACKWARD, "update.broken-at-once", &self->broken_at_once, error) &&
          add_phase (&building, ORTRAIN_PHASE_UPDATE, "update.broken", &self->broken, error);
      g_ptr_array_unref (building.broken);
      if (!ok)
        return FALSE;
    }
  return ortrain_graph_sort (self->training, error);
}
