/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-update-set-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

typedef struct
{
  char *name, *scoped_name;
  OrtrainDType dtype;
  gint64 *dims;
  guint rank;
  gint64 n;
  OrtrainStateForm state_form;
  OrtrainParameterGroup *group;        /* no reference: the optimizer keeps it; NULL */
  OrtrainTensor *parameter, *gradient; /* of a custom optimizer */
  OrtrainTensorDict *state;
} Entry;

struct _OrtrainUpdateSet
{
  OrtrainOptimizer *optimizer;
  gboolean custom;
  Entry *entries; /* [n] */
  guint n;
  guint n_groups_seen;
  char **state_names; /* NULL-terminated */
  guint n_states;
  double initial_states[ORTRAIN_UPDATE_MAX_STATES];
  double *scalars; /* [ORTRAIN_UPDATE_N_WRITTEN (n)] */
};

/* Each parameter belongs to the last of the groups that fit it; each group fits one at least. */
static gboolean
assign_groups (OrtrainUpdateSet *self, GError **error)
{
  GListModel *groups = ortrain_optimizer_get_groups (self->optimizer);
  const guint n_groups = g_list_model_get_n_items (groups);
  for (guint g = 0; g < n_groups; g++)
    {
      g_autoptr (OrtrainParameterGroup) group = g_list_model_get_item (groups, g);
      gboolean fits = FALSE;
      for (guint i = 0; i < self->n && !fits; i++)
        fits = ortrain_parameter_group_fits (group, self->entries[i].name, self->entries[i].scoped_name);
      if (!fits)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                       "Parameter group '%s': no parameter that is trained matches it",
                       ortrain_text_show (ortrain_parameter_group_get_pattern (group)));
          return FALSE;
        }
    }
  for (guint i = 0; i < self->n; i++)
    self->entries[i].group =
        ortrain_optimizer_find_group (self->optimizer, self->entries[i].name, self->entries[i].scoped_name);
  self->n_groups_seen = n_groups;
  return TRUE;
}

OrtrainUpdateSet *
ortrain_update_set_new (OrtrainOptimizer *optimizer, OrtrainStatePrecision precision,
                        const OrtrainUpdateParameter *parameters, guint n_parameters, GError **error)
{
  g_autoptr (OrtrainUpdateSet) self = g_new0 (OrtrainUpdateSet, 1);
  self->optimizer = g_object_ref (optimizer);
  self->n = n_parameters;
  self->entries = g_new0 (Entry, MAX (n_parameters, 1));
  self->scalars = g_new0 (double, ORTRAIN_UPDATE_N_WRITTEN (n_parameters));
  self->n_groups_seen = G_MAXUINT;

  OrtrainOptimizerDescription description;
  ortrain_optimizer_describe (optimizer, &description);
  self->custom = description.op_type == NULL;
  if (!self->custom)
    {
      self->n_states = description.n_states;
      self->state_names = g_new0 (char *, self->n_states + 1);
      for (guint k = 0; k < self->n_states; k++)
        {
          self->state_names[k] = g_strdup (description.state_names[k]);
          self->initial_states[k] = description.initial_states[k];
        }
    }
  else
    {
      OrtrainOptimizerClass *klass = ORTRAIN_OPTIMIZER_GET_CLASS (optimizer);
      if (klass->get_state_names != NULL)
        self->state_names = klass->get_state_names (optimizer);
      self->n_states = self->state_names != NULL ? g_strv_length (self->state_names) : 0;
    }

  for (guint i = 0; i < n_parameters; i++)
    {
      const OrtrainUpdateParameter *p = &parameters[i];
      Entry *entry = &self->entries[i];
      entry->name = g_strdup (p->name);
      entry->scoped_name = g_strdup (p->scoped_name);
      entry->rank = p->rank;
      entry->dims = g_memdup2 (p->dims, p->rank * sizeof (gint64));
      entry->dtype = p->dtype;
      if (!ortrain_dtype_is_floating (p->dtype))
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
                       "Parameter '%s' is %s; only floating types can be trained", ortrain_text_show (p->name),
                       ortrain_dtype_get_name (p->dtype));
          return NULL;
        }
      if (!ortrain_checked_n_elements (p->dims, p->rank, &entry->n))
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                       "Parameter '%s' is too large: its bytes exceed the address space", ortrain_text_show (p->name));
          return NULL;
        }
      ortrain_state_form_init (&entry->state_form, precision, p->dtype, p->dims, p->rank, entry->n);
    }
  if (!assign_groups (self, error))
    return NULL;
  return g_steal_pointer (&self);
}

void
ortrain_update_set_free (OrtrainUpdateSet *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->n; i++)
    {
      g_free (self->entries[i].name);
      g_free (self->entries[i].scoped_name);
      g_free (self->entries[i].dims);
      g_clear_object (&self->entries[i].parameter);
      g_clear_object (&self->entries[i].gradient);
      g_clear_object (&self->entries[i].state);
    }
  g_free (self->entries);
  g_free (self->scalars);
  g_strfreev (self->state_names);
  g_clear_object (&self->optimizer);
  g_free (self);
}

OrtrainOptimizer *
ortrain_update_set_get_optimizer (OrtrainUpdateSet *self)
{
  return self->optimizer;
}

gboolean
ortrain_update_set_is_custom (OrtrainUpdateSet *self)
{
  return self->custom && self->n > 0;
}

guint
ortrain_update_set_get_n_states (OrtrainUpdateSet *self)
{
  return self->n_states;
}

const char *
ortrain_update_set_get_state_name (OrtrainUpdateSet *self, guint state)
{
  return self->state_names[state];
}

const OrtrainStateForm *
ortrain_update_set_get_state_form (OrtrainUpdateSet *self, guint parameter)
{
  return &self->entries[parameter].state_form;
}

gsize
ortrain_update_set_get_state_bytes (OrtrainUpdateSet *self, guint parameter)
{
  const OrtrainStateForm *form = ortrain_update_set_get_state_form (self, parameter);
  return (gsize) form->n_elements * ortrain_dtype_get_size (form->dtype);
}

double
ortrain_update_set_get_initial_state (OrtrainUpdateSet *self, guint state)
{
  return self->custom ? 0 : self->initial_states[state];
}

gsize
ortrain_update_set_get_n_scalars (OrtrainUpdateSet *self)
{
  return ORTRAIN_UPDATE_N_SCALARS (self->n);
}

gsize
ortrain_update_set_get_n_written (OrtrainUpdateSet *self)
{
  return ORTRAIN_UPDATE_N_WRITTEN (self->n);
}

gsize
ortrain_update_set_get_n_held (OrtrainUpdateSet *self)
{
  return ORTRAIN_UPDATE_N_HELD (self->n);
}

double
ortrain_update_set_get_learning_rate (OrtrainUpdateSet *self, guint parameter)
{
  return self->scalars[ORTRAIN_UPDATE_LEARNING_RATE (parameter)];
}

/* Fills the scalars that depend on the number of updates. factor: of the schedule */
static void
fill_step (OrtrainUpdateSet *self, double *scalars, guint64 step, double factor)
{
  const double learning_rate = ortrain_optimizer_get_learning_rate (self->optimizer) * factor;
  scalars[ORTRAIN_UPDATE_STEP] = (double) step;
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainParameterGroup *group = self->entries[i].group;
      scalars[ORTRAIN_UPDATE_LEARNING_RATE (i)] =
          learning_rate * (group != NULL ? ortrain_parameter_group_get_learning_rate_multiplier (group) : 1.0);
    }
}

const double *
ortrain_update_set_fill_scalars (OrtrainUpdateSet *self, guint64 step, double factor, double gradient_scale,
                                 double max_norm, GError **error)
{
  if (ortrain_optimizer_get_n_groups (self->optimizer) != self->n_groups_seen && !assign_groups (self, error))
    return NULL;

  OrtrainOptimizerDescription description;
  ortrain_optimizer_describe (self->optimizer, &description);
  if (!self->custom && description.n_states > self->n_states)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                   "%s needs the state '%s', which it did not need when the session was created; set its properties "
                   "before creating the session",
                   ortrain_text_name_class (self->optimizer), description.state_names[self->n_states]);
      return NULL;
    }
  double *scalars = self->scalars;
  scalars[ORTRAIN_UPDATE_GRADIENT_SCALE] = gradient_scale;
  scalars[ORTRAIN_UPDATE_MAX_NORM] = max_norm;
  memcpy (scalars + ORTRAIN_UPDATE_FACTORS, description.factors, sizeof description.factors);
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainParameterGroup *group = self->entries[i].group;
      const double decay = group != NULL ? ortrain_parameter_group_get_weight_decay (group) : -1;
      scalars[ORTRAIN_UPDATE_WEIGHT_DECAY (i)] = decay >= 0 ? decay : description.weight_decay;
    }
  fill_step (self, scalars, step, factor);
  memcpy (scalars + ORTRAIN_UPDATE_N_SCALARS (self->n), scalars, ORTRAIN_UPDATE_N_SCALARS (self->n) * sizeof (double));
  return scalars;
}

void
ortrain_update_set_fill_skipped (OrtrainUpdateSet *self, guint64 step, double factor)
{
  fill_step (self, self->scalars + ORTRAIN_UPDATE_N_SCALARS (self->n), step, factor);
}

/* ---- optimizers of users ---- */

gboolean
ortrain_update_set_bind_parameter (OrtrainUpdateSet *self, guint parameter, gpointer address, gpointer gradient,
                                   gpointer const *states, GError **error)
{
  Entry *entry = &self->entries[parameter];
  const OrtrainStateForm *form = &entry->state_form;
  g_clear_object (&entry->parameter);
  g_clear_object (&entry->gradient);
  g_clear_object (&entry->state);
  entry->parameter =
      ortrain_tensor_new_for_address (entry->dtype, entry->dims, entry->rank, (gsize) address, TRUE, NULL, error);
  if (entry->parameter == NULL)
    return FALSE;
  entry->gradient =
      ortrain_tensor_new_for_address (entry->dtype, entry->dims, entry->rank, (gsize) gradient, TRUE, NULL, error);
  if (entry->gradient == NULL)
    return FALSE;
  entry->state = ortrain_tensor_dict_new ();
  for (guint k = 0; k < self->n_states; k++)
    {
      g_autoptr (OrtrainTensor) state =
          ortrain_tensor_new_for_address (form->dtype, form->dims, form->rank, (gsize) states[k], TRUE, NULL, error);
      if (state == NULL)
        return FALSE;
      ortrain_tensor_dict_set (entry->state, self->state_names[k], state);
    }
  return TRUE;
}

/* One call for each parameter. */
static gboolean
update_by_method (OrtrainUpdateSet *self, guint64 step, double gradient_scale, GError **error)
{
  OrtrainOptimizerClass *klass = ORTRAIN_OPTIMIZER_GET_CLASS (self->optimizer);
  for (guint i = 0; i < self->n; i++)
    {
      Entry *entry = &self->entries[i];
      g_autoptr (GError) local_error = NULL;
      if (!klass->update (self->optimizer, entry->name, entry->parameter, entry->gradient, entry->state, step,
                          self->scalars[ORTRAIN_UPDATE_LEARNING_RATE (i)],
                          self->scalars[ORTRAIN_UPDATE_WEIGHT_DECAY (i)], gradient_scale, &local_error))
        {
          /* A method written in a scripting language may fail without saying why. */
          if (local_error == NULL)
            g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                         "%s on parameter '%s': update returned FALSE, and set no error; TRUE is needed",
                         ortrain_text_name_class (self->optimizer), ortrain_text_show (entry->name));
          else
            g_propagate_prefixed_error (error, g_steal_pointer (&local_error),
                                        "%s on parameter '%s': ", ortrain_text_name_class (self->optimizer),
                                        ortrain_text_show (entry->name));
          return FALSE;
        }
    }
  return TRUE;
}

/* A call that is made on the thread that asked for the work. */
typedef struct
{
  OrtrainUpdateSet *self;
  guint64 step;
  double gradient_scale;
  GError **error;
  gboolean ok;
} ContextCall;

static void
update_in_context (gpointer data)
{
  ContextCall *call = data;
  call->ok = update_by_method (call->self, call->step, call->gradient_scale, call->error);
}

gboolean
ortrain_update_set_run (OrtrainUpdateSet *self, guint64 step, double gradient_scale, GError **error)
{
  if (self->n == 0)
    return TRUE;
  if (ortrain_dispatch_is_needed (self->optimizer))
    {
      ContextCall call = { self, step, gradient_scale, error, FALSE };
      ortrain_dispatch_call (update_in_context, &call);
      return call.ok;
    }
  return update_by_method (self, step, gradient_scale, error);
}
