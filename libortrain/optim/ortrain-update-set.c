/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-update-set-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-home-private.h"
#include "core/ortrain-text-private.h"
#include "optim/ortrain-optimizer-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>
#include <string.h>

typedef struct
{
  char *name;
  gint64 *dims;
  guint rank;
  OrtrainParameterGroup *group;        /* no reference: the optimizer keeps it; NULL */
  OrtrainTensor *parameter, *gradient; /* for optimizers with an update function of their own */
  OrtrainTensorDict *state;
} Entry;

struct _OrtrainUpdateSet
{
  OrtrainOptimizer *optimizer;
  const OrtrainKernel *kernel; /* NULL: the class's update function */
  const OrtrainKernel *norm_kernel;
  Entry *entries; /* [n] */
  guint n;
  guint n_groups_seen;
  char **state_names; /* NULL-terminated */
  guint n_states;
  double initial_states[ORTRAIN_UPDATE_MAX_STATES];
  OrtrainUpdateCall call;
  OrtrainUpdateTensor *tensors; /* [n] */
};

static gboolean
cut_into_spans (OrtrainUpdateSet *self)
{
  gsize n_spans = 0;
  for (guint i = 0; i < self->n; i++)
    n_spans += (gsize) ((self->tensors[i].n + ORTRAIN_UPDATE_SPAN - 1) / ORTRAIN_UPDATE_SPAN);
  if (n_spans > G_MAXUINT32 / 2)
    return FALSE;
  OrtrainUpdateSpan *spans = g_new0 (OrtrainUpdateSpan, MAX (n_spans, 1));
  guint32 *batches = g_new0 (guint32, n_spans + 1);
  guint n_batches = 0, k = 0;
  gint64 in_batch = 0;
  for (guint i = 0; i < self->n; i++)
    for (gint64 begin = 0; begin < self->tensors[i].n; begin += ORTRAIN_UPDATE_SPAN)
      {
        gint64 end = MIN (begin + ORTRAIN_UPDATE_SPAN, self->tensors[i].n);
        spans[k++] = (OrtrainUpdateSpan){ i, begin, end };
        in_batch += end - begin;
        if (in_batch >= ORTRAIN_UPDATE_BATCH)
          {
            batches[++n_batches] = k;
            in_batch = 0;
          }
      }
  if (in_batch > 0)
    batches[++n_batches] = k;
  self->call.tensors = self->tensors;
  self->call.n_tensors = self->n;
  self->call.spans = spans;
  self->call.n_spans = k;
  self->call.batches = batches;
  self->call.n_batches = n_batches;
  self->call.partials = g_new0 (double, 2 * MAX (n_spans, 1));
  self->call.is_broken = g_new0 (guint8, MAX (n_spans, 1));
  return TRUE;
}

static const OrtrainKernel *
find_kernel (const OrtrainProvider *provider, const char *op_type, OrtrainDType dtype, GError **error)
{
  const OrtrainOperand operand = { .dtype = dtype };
  const OrtrainKernel *kernel = provider->klass->find_kernel (provider, "org.ortrain", op_type, &operand, 1, NULL, 0);
  if (kernel == NULL)
    g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                 "The provider '%s' has no kernel for %s on %s", provider->klass->name, op_type,
                 ortrain_dtype_get_name (dtype));
  return kernel;
}

OrtrainUpdateSet *
ortrain_update_set_new (OrtrainOptimizer *optimizer, const OrtrainProvider *provider,
                        const OrtrainUpdateParameter *parameters, guint n_parameters, GError **error)
{
  g_autoptr (OrtrainUpdateSet) self = g_new0 (OrtrainUpdateSet, 1);
  self->optimizer = g_object_ref (optimizer);
  self->n = n_parameters;
  self->entries = g_new0 (Entry, MAX (n_parameters, 1));
  self->tensors = g_new0 (OrtrainUpdateTensor, MAX (n_parameters, 1));
  self->n_groups_seen = G_MAXUINT;

  OrtrainOptimizerDescription description;
  ortrain_optimizer_describe (optimizer, &description);
  if (description.op_type != NULL)
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
      entry->rank = p->rank;
      entry->dims = g_memdup2 (p->dims, p->rank * sizeof (gint64));
      self->tensors[i].dtype = p->dtype;
      if (!ortrain_dtype_is_floating (p->dtype))
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
                       "parameter '%s' is %s; only floating types can be trained", ortrain_text_show (p->name),
                       ortrain_dtype_get_name (p->dtype));
          return NULL;
        }
      if (!ortrain_checked_n_elements (p->dims, p->rank, &self->tensors[i].n))
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE, "parameter '%s' is too large",
                       ortrain_text_show (p->name));
          return NULL;
        }
      self->norm_kernel = find_kernel (provider, "GradientNorm", p->dtype, error);
      if (self->norm_kernel == NULL)
        return NULL;
      if (description.op_type != NULL)
        {
          self->kernel = find_kernel (provider, description.op_type, p->dtype, error);
          if (self->kernel == NULL)
            return NULL;
        }
    }
  if (!cut_into_spans (self))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE, "the parameters together are too large");
      return NULL;
    }
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
      g_free (self->entries[i].dims);
      g_clear_object (&self->entries[i].parameter);
      g_clear_object (&self->entries[i].gradient);
      g_clear_object (&self->entries[i].state);
    }
  g_free (self->entries);
  g_free (self->tensors);
  g_free ((gpointer) self->call.spans);
  g_free ((gpointer) self->call.batches);
  g_free (self->call.partials);
  g_free (self->call.is_broken);
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
  return self->kernel == NULL && self->n > 0;
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

static OrtrainDType
state_dtype (OrtrainUpdateSet *self, guint parameter)
{
  OrtrainDType dtype = self->tensors[parameter].dtype;
  return dtype == ORTRAIN_DTYPE_FLOAT64 ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32;
}

gsize
ortrain_update_set_get_state_bytes (OrtrainUpdateSet *self, guint parameter)
{
  return (gsize) self->tensors[parameter].n * ortrain_dtype_get_size (state_dtype (self, parameter));
}

gboolean
ortrain_update_set_place (OrtrainUpdateSet *self, guint parameter, gpointer address, gpointer gradient,
                          gpointer const *states, GError **error)
{
  OrtrainUpdateTensor *tensor = &self->tensors[parameter];
  Entry *entry = &self->entries[parameter];
  tensor->parameter = address;
  tensor->gradient = gradient;
  if (self->kernel != NULL)
    {
      for (guint k = 0; k < self->n_states; k++)
        tensor->states[k] = states[k];
      return TRUE;
    }

  entry->parameter =
      ortrain_tensor_new_for_address (tensor->dtype, entry->dims, entry->rank, (gsize) address, TRUE, NULL, error);
  if (entry->parameter == NULL)
    return FALSE;
  entry->gradient =
      ortrain_tensor_new_for_address (tensor->dtype, entry->dims, entry->rank, (gsize) gradient, TRUE, NULL, error);
  if (entry->gradient == NULL)
    return FALSE;
  entry->state = ortrain_tensor_dict_new ();
  for (guint k = 0; k < self->n_states; k++)
    {
      g_autoptr (OrtrainTensor) state = ortrain_tensor_new_for_address (
          state_dtype (self, parameter), entry->dims, entry->rank, (gsize) states[k], TRUE, NULL, error);
      if (state == NULL)
        return FALSE;
      ortrain_tensor_dict_set (entry->state, self->state_names[k], state);
    }
  return TRUE;
}

void
ortrain_update_set_reset_states (OrtrainUpdateSet *self)
{
  for (guint i = 0; i < self->n; i++)
    for (guint k = 0; k < self->n_states; k++)
      {
        OrtrainTensor *tensor =
            self->kernel == NULL ? ortrain_tensor_dict_get (self->entries[i].state, self->state_names[k]) : NULL;
        gpointer state = tensor != NULL ? ortrain_tensor_peek_writable (tensor) : self->tensors[i].states[k];
        double initial = self->kernel != NULL ? self->initial_states[k] : 0;
        if (initial == 0)
          memset (state, 0, ortrain_update_set_get_state_bytes (self, i));
        else if (state_dtype (self, i) == ORTRAIN_DTYPE_FLOAT64)
          for (gint64 e = 0; e < self->tensors[i].n; e++)
            ((double *) state)[e] = initial;
        else
          for (gint64 e = 0; e < self->tensors[i].n; e++)
            ((float *) state)[e] = (float) initial;
      }
}

double
ortrain_update_set_norm (OrtrainUpdateSet *self, const OrtrainKernelContext *context)
{
  if (self->n == 0)
    return 0;
  OrtrainKernelCall call = { .constants = &self->call, .context = context };
  self->norm_kernel->run (&call);
  double sum = 0;
  for (guint i = 0; i < self->call.n_spans; i++)
    sum += self->call.partials[i];
  return sqrt (sum);
}

gint
ortrain_update_set_find_broken (OrtrainUpdateSet *self)
{
  for (guint i = 0; i < self->call.n_spans; i++)
    if (self->call.is_broken[i])
      return (gint) self->call.spans[i].tensor;
  return -1;
}

double
ortrain_update_set_get_learning_rate (OrtrainUpdateSet *self, guint parameter)
{
  return self->tensors[parameter].learning_rate;
}

/* Optimizers of users: one call for each parameter. */
static gboolean
update_by_method (OrtrainUpdateSet *self, guint64 step, double gradient_scale, GError **error)
{
  OrtrainOptimizerClass *klass = ORTRAIN_OPTIMIZER_GET_CLASS (self->optimizer);
  for (guint i = 0; i < self->n; i++)
    {
      Entry *entry = &self->entries[i];
      g_autoptr (GError) local_error = NULL;
      if (!klass->update (self->optimizer, entry->name, entry->parameter, entry->gradient, entry->state, step,
                          self->tensors[i].learning_rate, self->tensors[i].weight_decay, gradient_scale, &local_error))
        {
          /* A method written in a scripting language may fail without saying why. */
          if (local_error == NULL)
            g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                         "%s on parameter '%s': update failed without a reason", G_OBJECT_TYPE_NAME (self->optimizer),
                         ortrain_text_show (entry->name));
          else
            g_propagate_prefixed_error (error, g_steal_pointer (&local_error),
                                        "%s on parameter '%s': ", G_OBJECT_TYPE_NAME (self->optimizer),
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
} HomeCall;

static void
update_at_home (gpointer data)
{
  HomeCall *call = data;
  call->ok = update_by_method (call->self, call->step, call->gradient_scale, call->error);
}

gboolean
ortrain_update_set_run (OrtrainUpdateSet *self, const OrtrainKernelContext *context, guint64 step, double factor,
                        double gradient_scale, GError **error)
{
  if (self->n == 0)
    return TRUE;
  guint n_groups = ortrain_optimizer_get_n_groups (self->optimizer);
  if (n_groups != self->n_groups_seen)
    {
      for (guint i = 0; i < self->n; i++)
        self->entries[i].group = ortrain_optimizer_find_group (self->optimizer, self->entries[i].name);
      self->n_groups_seen = n_groups;
    }

  OrtrainOptimizerDescription description;
  ortrain_optimizer_describe (self->optimizer, &description);
  if (self->kernel != NULL && description.n_states > self->n_states)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                   "%s needs state '%s' now, which it did not when the session was made; set its properties before",
                   G_OBJECT_TYPE_NAME (self->optimizer), description.state_names[self->n_states]);
      return FALSE;
    }
  double learning_rate = ortrain_optimizer_get_learning_rate (self->optimizer) * factor;
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainParameterGroup *group = self->entries[i].group;
      double decay = group != NULL ? ortrain_parameter_group_get_weight_decay (group) : -1;
      self->tensors[i].weight_decay = decay >= 0 ? decay : description.weight_decay;
      self->tensors[i].learning_rate =
          learning_rate * (group != NULL ? ortrain_parameter_group_get_learning_rate_multiplier (group) : 1.0);
    }

  if (self->kernel != NULL)
    {
      self->call.gradient_scale = gradient_scale;
      self->call.step = (double) step;
      memcpy (self->call.factors, description.factors, sizeof description.factors);
      OrtrainKernelCall call = { .constants = &self->call, .context = context };
      self->kernel->run (&call);
      return TRUE;
    }

  if (ortrain_home_is_elsewhere (self->optimizer))
    {
      HomeCall call = { self, step, gradient_scale, error, FALSE };
      ortrain_home_call (update_at_home, &call);
      return call.ok;
    }
  return update_by_method (self, step, gradient_scale, error);
}
