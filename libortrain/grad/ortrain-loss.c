/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-loss-private.h"

#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

#include <math.h>

/**
 * OrtrainLoss:
 *
 * The value that training minimizes: a function of one output of the model, and mostly of a target. A loss adds its
 * nodes to the training graph, and its target as a new input of that graph, which the batches must have. Several losses
 * of one session are summed, each times its [property@Loss:weight].
 *
 * ```python
 * options = Ortrain.TrainingOptions()
 * options.add_loss(Ortrain.CrossEntropyLoss(output="logits", target="labels"))
 * session = Ortrain.TrainingSession(Ortrain.Model("model.onnx"), options)
 * loss = session.train_step({"x": x, "labels": labels})
 * ```
 *
 * [class@CrossEntropyLoss], [class@NllLoss], [class@BceWithLogitsLoss], [class@MseLoss], [class@L1Loss] and
 * [class@HuberLoss] take a target; [class@OutputLoss] takes a scalar of the model as it is. Losses are computed in
 * float32 at least, from outputs of any floating type; all of them give the mean over the elements, or the items, of
 * the batch.
 *
 * To write one, implement [vfunc@Loss.build]: it adds nodes to the graph, and returns a scalar of a floating type.
 *
 * ```python
 * from gi.repository import GLib
 *
 * class MeanLoss(Ortrain.Loss):
 *     def do_build(self, graph, output):
 *         node = graph.add_node("ReduceMean", None, "mean", [output.name], ["the_mean"])
 *         node.set_attribute("keepdims", GLib.Variant("x", 0))
 *         graph.infer()
 *         return True, graph.find_value("the_mean")
 *
 * options = Ortrain.TrainingOptions(losses=[MeanLoss(output="logits")])
 * ```
 *
 * A session reads the properties when it is created, and reports mistakes then, as %ORTRAIN_SESSION_ERROR_OPTION or
 * %ORTRAIN_SESSION_ERROR_NOT_TRAINABLE. One thread at a time may use a loss.
 */

typedef struct
{
  char *output;
  char *target;
  double weight;
} OrtrainLossPrivate;

G_DEFINE_ABSTRACT_TYPE_WITH_PRIVATE (OrtrainLoss, ortrain_loss, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_OUTPUT,
  PROP_TARGET,
  PROP_WEIGHT,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_loss_finalize (GObject *object)
{
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (ORTRAIN_LOSS (object));

  g_free (priv->output);
  g_free (priv->target);

  G_OBJECT_CLASS (ortrain_loss_parent_class)->finalize (object);
}

static void
ortrain_loss_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (ORTRAIN_LOSS (object));
  switch (property_id)
    {
    case PROP_OUTPUT:
      g_value_set_string (value, priv->output);
      break;
    case PROP_TARGET:
      g_value_set_string (value, priv->target);
      break;
    case PROP_WEIGHT:
      g_value_set_double (value, priv->weight);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_loss_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  OrtrainLoss *self = ORTRAIN_LOSS (object);
  switch (property_id)
    {
    case PROP_OUTPUT:
      ortrain_loss_set_output (self, g_value_get_string (value));
      break;
    case PROP_TARGET:
      ortrain_loss_set_target (self, g_value_get_string (value));
      break;
    case PROP_WEIGHT:
      ortrain_loss_set_weight (self, g_value_get_double (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_loss_class_init (OrtrainLossClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_loss_finalize;
  object_class->get_property = ortrain_loss_get_property;
  object_class->set_property = ortrain_loss_set_property;

  /**
   * OrtrainLoss:output: (getter get_output) (setter set_output)
   *
   * The name of the output that the loss is a function of; any other value of the model will do as well. Default:
   * %NULL, which no session accepts.
   */
  properties[PROP_OUTPUT] = g_param_spec_string ("output", NULL, NULL, NULL,
                                                 G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainLoss:target: (getter get_target) (setter set_target)
   *
   * The name of the input that the loss adds for its target, or of an input of the model of the right type. Default:
   * %NULL, which only losses without a target accept.
   */
  properties[PROP_TARGET] = g_param_spec_string ("target", NULL, NULL, NULL,
                                                 G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainLoss:weight: (getter get_weight) (setter set_weight)
   *
   * The factor of the loss in the sum that is minimized. Default: 1.
   */
  properties[PROP_WEIGHT] = g_param_spec_double ("weight", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 1.0,
                                                 G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_loss_init (OrtrainLoss *self)
{
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (self);
  priv->weight = 1.0;
}

/**
 * ortrain_loss_get_output: (get-property output)
 * @self: a loss
 *
 * Gets the name of the output that the loss is a function of; any other value of the model will do as well.
 *
 * Returns: (transfer none) (nullable): the name
 */
const char *
ortrain_loss_get_output (OrtrainLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS (self), NULL);
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (self);
  return priv->output;
}

/**
 * ortrain_loss_set_output: (set-property output)
 * @self: a loss
 * @output: (nullable): the name of an output
 *
 * Sets the name of the output that the loss is a function of; any other value of the model will do as well.
 */
void
ortrain_loss_set_output (OrtrainLoss *self, const char *output)
{
  g_return_if_fail (ORTRAIN_IS_LOSS (self));
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (self);
  if (g_strcmp0 (priv->output, output) == 0)
    return;
  g_free (priv->output);
  priv->output = g_strdup (output);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_OUTPUT]);
}

/**
 * ortrain_loss_get_target: (get-property target)
 * @self: a loss
 *
 * Gets the name of the input that the loss adds for its target, or of an input of the model of the right type.
 *
 * Returns: (transfer none) (nullable): the name
 */
const char *
ortrain_loss_get_target (OrtrainLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS (self), NULL);
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (self);
  return priv->target;
}

/**
 * ortrain_loss_set_target: (set-property target)
 * @self: a loss
 * @target: (nullable): the new value
 *
 * Sets the name of the input that the loss adds for its target, or of an input of the model of the right type.
 */
void
ortrain_loss_set_target (OrtrainLoss *self, const char *target)
{
  g_return_if_fail (ORTRAIN_IS_LOSS (self));
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (self);
  if (g_strcmp0 (priv->target, target) == 0)
    return;
  g_free (priv->target);
  priv->target = g_strdup (target);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_TARGET]);
}

/**
 * ortrain_loss_get_weight: (get-property weight)
 * @self: a loss
 *
 * Gets the factor of the loss in the sum that is minimized.
 *
 * Returns: the factor
 */
double
ortrain_loss_get_weight (OrtrainLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS (self), 0);
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (self);
  return priv->weight;
}

/**
 * ortrain_loss_set_weight: (set-property weight)
 * @self: a loss
 * @weight: a factor
 *
 * Sets the factor of the loss in the sum that is minimized.
 */
void
ortrain_loss_set_weight (OrtrainLoss *self, double weight)
{
  g_return_if_fail (ORTRAIN_IS_LOSS (self));
  g_return_if_fail (isfinite (weight));
  OrtrainLossPrivate *priv = ortrain_loss_get_instance_private (self);
  if (priv->weight == weight)
    return;
  priv->weight = weight;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_WEIGHT]);
}

OrtrainValue *
ortrain_loss_op (OrtrainGraph *graph, const char *domain, const char *op_type, OrtrainValue *const *inputs,
                 guint n_inputs, guint n_outputs, OrtrainAttributes *attributes, GError **error)
{
  OrtrainNode *node = ortrain_graph_new_node (graph, domain, op_type, NULL, inputs, n_inputs, n_outputs);
  if (attributes != NULL)
    {
      ortrain_attributes_free (node->attributes);
      node->attributes = attributes;
    }
  if (!ortrain_ops_infer_node (node, error))
    return NULL;
  return ortrain_node_output (node, 0);
}

OrtrainValue *
ortrain_loss_op1 (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, GError **error)
{
  return ortrain_loss_op (graph, "", op_type, &a, 1, 1, NULL, error);
}

OrtrainValue *
ortrain_loss_op2 (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b, GError **error)
{
  OrtrainValue *inputs[] = { a, b };
  return ortrain_loss_op (graph, "", op_type, inputs, 2, 1, NULL, error);
}

OrtrainValue *
ortrain_loss_mean (OrtrainGraph *graph, OrtrainValue *value, GError **error)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "keepdims", 0);
  return ortrain_loss_op (graph, "", "ReduceMean", &value, 1, 1, attributes, error);
}

/* The floating-point value that integers, such as the number of a class, are computed from, or NULL. */
static const OrtrainValue *
find_floating_source (const OrtrainValue *value)
{
  while (value != NULL && value->producer != NULL && !ortrain_dtype_is_floating (value->dtype))
    value = ortrain_node_input (value->producer, 0);
  return value != NULL && value->producer != NULL ? value : NULL;
}

OrtrainValue *
ortrain_loss_widen (OrtrainGraph *graph, OrtrainValue *value, GError **error)
{
  if (value->dtype == ORTRAIN_DTYPE_FLOAT32 || value->dtype == ORTRAIN_DTYPE_FLOAT64)
    return value;
  if (!ortrain_dtype_is_floating (value->dtype))
    {
      const OrtrainValue *source = find_floating_source (value);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
                   "a loss needs an output of a floating type, but '%s' is %s%s%s%s", ortrain_text_show (value->name),
                   ortrain_dtype_get_name (value->dtype), source != NULL ? "; it is computed from '" : "",
                   source != NULL ? ortrain_text_show (source->name) : "",
                   source != NULL ? "', which can have a loss" : "");
      return NULL;
    }
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "to", ORTRAIN_DTYPE_FLOAT32);
  return ortrain_loss_op (graph, "", "Cast", &value, 1, 1, attributes, error);
}

OrtrainValue *
ortrain_loss_add_target (OrtrainLoss *self, OrtrainGraph *graph, OrtrainDType dtype, const OrtrainDim *dims, gint rank,
                         GError **error)
{
  const char *name = ortrain_loss_get_target (self);
  if (name == NULL || *name == '\0')
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "it has no target; set its target property");
      return NULL;
    }
  OrtrainValue *value = ortrain_graph_find_value (graph, name);
  if (value == NULL)
    {
      value = ortrain_graph_new_input (graph, name, dtype, dims, rank);
      value->role = ORTRAIN_ROLE_TARGET;
      return value;
    }
  if (value->kind != ORTRAIN_VALUE_INPUT)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "its target '%s' has the name of another value of the model; choose another name",
                   ortrain_text_show (name));
      return NULL;
    }
  if (value->dtype != dtype)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "it needs the target '%s' as %s, but the model has an input of that name of type %s",
                   ortrain_text_show (name), ortrain_dtype_get_name (dtype), ortrain_dtype_get_name (value->dtype));
      return NULL;
    }
  return value;
}

/* The output may be any value of the graph; the message lists the outputs, since usually one of them is meant. */
static OrtrainValue *
find_output (OrtrainLoss *self, OrtrainGraph *graph, GError **error)
{
  const char *name = ortrain_loss_get_output (self);
  OrtrainValue *value = name != NULL ? ortrain_graph_find_value (graph, name) : NULL;
  if (value != NULL)
    return value;
  g_autoptr (GString) names = g_string_new (NULL);
  for (guint i = 0; i < graph->outputs->len; i++)
    g_string_append_printf (names, "%s'%s'", i > 0 ? ", " : "",
                            ortrain_text_show (((OrtrainValue *) graph->outputs->pdata[i])->name));
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "%s: the model has no output '%s'; it has %s", ortrain_text_name_class (self), ortrain_text_show (name),
               ortrain_text_show_list (names->str));
  return NULL;
}

/* A call that is made on the thread that asked for the work. */
typedef struct
{
  OrtrainLoss *self;
  OrtrainGraph *graph;
  OrtrainValue *output, *loss;
  GError **error;
  gboolean ok;
} ContextCall;

static void
build_in_context (gpointer data)
{
  ContextCall *call = data;
  OrtrainLossClass *klass = ORTRAIN_LOSS_GET_CLASS (call->self);
  call->ok = klass->build != NULL && klass->build (call->self, call->graph, call->output, &call->loss, call->error);
}

/* Adds the loss to the graph and gives its value, a 0-d value of a floating type. */
static OrtrainValue *
add_to_graph (OrtrainLoss *self, OrtrainGraph *graph, GError **error)
{
  OrtrainValue *output = find_output (self, graph, error);
  if (output == NULL)
    return NULL;
  g_autoptr (GError) local_error = NULL;
  ContextCall call = { .self = self, .graph = graph, .output = output, .error = &local_error };
  if (ortrain_dispatch_is_needed (self))
    ortrain_dispatch_call (build_in_context, &call);
  else
    build_in_context (&call);
  OrtrainValue *loss = call.loss;
  if (!call.ok || loss == NULL)
    {
      if (local_error == NULL) /* a method written in a scripting language may fail without saying why */
        g_set_error (
            error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
            "%s on output '%s': build returned FALSE, and set no error; TRUE and the value of the loss are needed",
            ortrain_text_name_class (self), ortrain_text_show (output->name));
      else
        g_propagate_prefixed_error (error, g_steal_pointer (&local_error),
                                    "%s on output '%s': ", ortrain_text_name_class (self),
                                    ortrain_text_show (output->name));
      return NULL;
    }
  if (!ortrain_dtype_is_floating (loss->dtype) || loss->rank != 0)
    {
      g_autofree char *description = ortrain_value_describe (loss);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
                   "%s on output '%s' must be a scalar of a floating type, but it is %s",
                   ortrain_text_name_class (self), ortrain_text_show (output->name), description);
      return NULL;
    }
  return loss;
}

static OrtrainValue *
multiply (OrtrainGraph *graph, OrtrainValue *loss, double weight, GError **error)
{
  if (weight == 1.0)
    return loss;
  return ortrain_loss_op2 (graph, "Mul", loss, ortrain_graph_const_scalar (graph, loss->dtype, weight), error);
}

OrtrainValue *
ortrain_losses_add_to_graph (GListModel *losses, OrtrainGraph *graph, GPtrArray *counts, GPtrArray *values,
                             GError **error)
{
  OrtrainValue *sum = NULL;
  guint n = g_list_model_get_n_items (losses);
  if (n == 0)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "The options have no loss; add one with add_loss");
      return NULL;
    }
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (OrtrainLoss) loss = g_list_model_get_item (losses, i);
      OrtrainValue *value = add_to_graph (loss, graph, error);
      OrtrainLossCount *count = value != NULL && counts != NULL ? ortrain_loss_count_new (loss, value, error) : NULL;
      if (value == NULL || (counts != NULL && count == NULL))
        return NULL;
      if (counts != NULL)
        g_ptr_array_add (counts, count);
      if (values != NULL)
        g_ptr_array_add (values, value);
      value = multiply (graph, value, ortrain_loss_get_weight (loss), error);
      if (value == NULL)
        return NULL;
      if (sum != NULL && value->dtype != sum->dtype)
        {
          OrtrainAttributes *attributes = ortrain_attributes_new ();
          ortrain_attributes_set_int (attributes, "to", sum->dtype);
          value = ortrain_loss_op (graph, "", "Cast", &value, 1, 1, attributes, error);
          if (value == NULL)
            return NULL;
        }
      sum = sum == NULL ? value : ortrain_loss_op2 (graph, "Add", sum, value, error);
      if (sum == NULL)
        return NULL;
    }
  /* A scalar that the model has already keeps its name. */
  if (!sum->is_output)
    {
      ortrain_value_rename (sum, "loss");
      ortrain_graph_mark_output (graph, sum, TRUE);
    }
  sum->role = ORTRAIN_ROLE_LOSS;
  return sum;
}
