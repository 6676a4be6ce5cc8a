/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-nll-loss.h"

#include "core/ortrain-field-private.h"
#include "grad/ortrain-class-loss-private.h"

/**
 * OrtrainNllLoss:
 *
 * The negative log likelihood of integer labels, for an output of log-probabilities, as in PyTorch's NLLLoss and ONNX's
 * NegativeLogLikelihoodLoss. With the output x[n, c] of item n and class c, the label t[n], and the weight w[c] of a
 * class, 1 unless [property@NllLoss:class-weights] says otherwise:
 *
 *     loss = (sum over n of -w[t[n]] · x[n, t[n]]) / (sum over n of w[t[n]])
 *
 * Items whose label is [property@NllLoss:ignore-index] count in neither sum. The output has the shape [batch, classes],
 * or any other of at least two dimensions with the classes along [property@NllLoss:axis]; the target is an int64 tensor
 * of that shape without this axis, of class numbers from 0.
 *
 * ```python
 * options = Ortrain.TrainingOptions()
 * options.add_loss(Ortrain.NllLoss(output="log_probabilities", target="labels"))
 * ```
 *
 * Where the output is a softmax or a log-softmax, the loss is the cross entropy of the scores before it, which is the
 * same, but exact where probabilities are 0: see [class@CrossEntropyLoss]. Other outputs are taken as they are.
 */

struct _OrtrainNllLoss
{
  OrtrainLoss parent_instance;
  int axis;
  gboolean axis_given;
  gint64 ignore_index;
  OrtrainTensor *class_weights;
};

G_DEFINE_FINAL_TYPE (OrtrainNllLoss, ortrain_nll_loss, ORTRAIN_TYPE_LOSS)

enum
{
  PROP_0,
  PROP_AXIS,
  PROP_IGNORE_INDEX,
  PROP_CLASS_WEIGHTS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

/* ONNX's operator has its classes on axis 1. */
static OrtrainValue *
build_from_log_probabilities (OrtrainNllLoss *self, OrtrainGraph *graph, OrtrainValue *output,
                              const OrtrainClassLoss *common, GError **error)
{
  OrtrainValue *inputs[] = { common->scores, common->target, common->class_weights };
  if (output->rank < 2 && !(output->rank < 0 && common->axis == 1))
    {
      g_autofree char *description = ortrain_value_describe (output);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "the output needs an axis of items and one of classes, but it is %s", description);
      return NULL;
    }
  if (common->axis != 1)
    {
      gint64 perm[ORTRAIN_MAX_RANK];
      gint n = 0;
      for (gint i = 0; i < output->rank; i++)
        {
          if (n == 1)
            perm[n++] = common->axis;
          if (i != common->axis)
            perm[n++] = i;
        }
      if (n == 1)
        perm[n++] = common->axis;
      OrtrainAttributes *attributes = ortrain_attributes_new ();
      ortrain_attributes_set_ints (attributes, "perm", perm, (gsize) n);
      inputs[0] = ortrain_loss_op (graph, "", "Transpose", inputs, 1, 1, attributes, error);
      if (inputs[0] == NULL)
        return NULL;
    }
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  if (self->ignore_index != G_MININT64)
    ortrain_attributes_set_int (attributes, "ignore_index", self->ignore_index);
  ortrain_attributes_set_string (attributes, "reduction", "mean");
  return ortrain_loss_op (graph, "", "NegativeLogLikelihoodLoss", inputs, common->class_weights != NULL ? 3 : 2, 1,
                          attributes, error);
}

static gboolean
ortrain_nll_loss_build (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, OrtrainValue **value,
                        GError **error)
{
  OrtrainNllLoss *self = ORTRAIN_NLL_LOSS (loss);
  OrtrainClassLoss common;
  const guint kinds = 1 << ORTRAIN_SCORES_SOFTMAX | 1 << ORTRAIN_SCORES_LOG_SOFTMAX;
  if (!ortrain_class_loss_prepare (loss, graph, output, self->axis, self->axis_given, self->class_weights, kinds,
                                   &common, error))
    return FALSE;
  if (common.kind != ORTRAIN_SCORES_NONE)
    *value = ortrain_class_loss_cross_entropy (&common, graph, self->ignore_index, 0.0, error);
  else
    *value = build_from_log_probabilities (self, graph, output, &common, error);
  return *value != NULL;
}

static void
ortrain_nll_loss_finalize (GObject *object)
{
  OrtrainNllLoss *self = ORTRAIN_NLL_LOSS (object);

  g_clear_object (&self->class_weights);

  G_OBJECT_CLASS (ortrain_nll_loss_parent_class)->finalize (object);
}

static void
ortrain_nll_loss_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  OrtrainNllLoss *self = ORTRAIN_NLL_LOSS (object);

  self->axis_given = self->axis_given || property_id == PROP_AXIS;
  ortrain_field_set_property (object, property_id, value, pspec);
}

static void
ortrain_nll_loss_class_init (OrtrainNllLossClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_nll_loss_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_nll_loss_set_property;
  ORTRAIN_LOSS_CLASS (klass)->build = ortrain_nll_loss_build;

  /**
   * OrtrainNllLoss:axis: (getter get_axis) (setter set_axis)
   *
   * The axis of the classes in the output, counted from the end if negative: 1 for scores [batch, classes, height,
   * width], as in PyTorch. It must be set where labels would fit scores with the classes along axis 1 as well as along
   * the last one. Default: -1.
   */
  properties[PROP_AXIS] =
      ortrain_field_at (g_param_spec_int ("axis", NULL, NULL, G_MININT, G_MAXINT, -1,
                                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY),
                        G_STRUCT_OFFSET (OrtrainNllLoss, axis));

  /**
   * OrtrainNllLoss:ignore-index: (getter get_ignore_index) (setter set_ignore_index)
   *
   * The label of items that do not count, as in PyTorch; the least 64-bit integer for none. Default: -100.
   */
  properties[PROP_IGNORE_INDEX] =
      ortrain_field_at (g_param_spec_int64 ("ignore-index", NULL, NULL, G_MININT64, G_MAXINT64, -100,
                                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY),
                        G_STRUCT_OFFSET (OrtrainNllLoss, ignore_index));

  /**
   * OrtrainNllLoss:class-weights: (getter get_class_weights) (setter set_class_weights)
   *
   * The weight of each class, one number per class in a tensor of rank 1; %NULL for 1 each. Default: %NULL.
   */
  properties[PROP_CLASS_WEIGHTS] =
      ortrain_field_object ("class-weights", G_STRUCT_OFFSET (OrtrainNllLoss, class_weights), ORTRAIN_TYPE_TENSOR);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_nll_loss_init (OrtrainNllLoss *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_nll_loss_new:
 * @output: the name of an output of the model
 * @target: the name of the input for the target, which the loss adds
 *
 * Creates a loss with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLoss *
ortrain_nll_loss_new (const char *output, const char *target)
{
  g_return_val_if_fail (output != NULL, NULL);

  return g_object_new (ORTRAIN_TYPE_NLL_LOSS, "output", output, "target", target, NULL);
}

/**
 * ortrain_nll_loss_get_axis: (get-property axis)
 * @self: the object
 *
 * Gets the axis of the classes in the output, counted from the end if negative.
 *
 * Returns: the value
 */
int
ortrain_nll_loss_get_axis (OrtrainNllLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NLL_LOSS (self), 0);
  return self->axis;
}

/**
 * ortrain_nll_loss_set_axis: (set-property axis)
 * @self: the object
 * @axis: the new value
 *
 * Sets the axis of the classes in the output, counted from the end if negative.
 */
void
ortrain_nll_loss_set_axis (OrtrainNllLoss *self, int axis)
{
  g_return_if_fail (ORTRAIN_IS_NLL_LOSS (self));
  self->axis_given = TRUE;
  if (self->axis == axis)
    return;
  self->axis = axis;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_AXIS]);
}

/**
 * ortrain_nll_loss_get_ignore_index: (get-property ignore-index)
 * @self: the object
 *
 * Gets the label of items that do not count, as in PyTorch; the least 64-bit integer for none.
 *
 * Returns: the value
 */
gint64
ortrain_nll_loss_get_ignore_index (OrtrainNllLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NLL_LOSS (self), 0);
  return self->ignore_index;
}

/**
 * ortrain_nll_loss_set_ignore_index: (set-property ignore-index)
 * @self: the object
 * @ignore_index: the new value
 *
 * Sets the label of items that do not count, as in PyTorch; the least 64-bit integer for none.
 */
void
ortrain_nll_loss_set_ignore_index (OrtrainNllLoss *self, gint64 ignore_index)
{
  g_return_if_fail (ORTRAIN_IS_NLL_LOSS (self));
  if (self->ignore_index == ignore_index)
    return;
  self->ignore_index = ignore_index;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_IGNORE_INDEX]);
}

/**
 * ortrain_nll_loss_get_class_weights: (get-property class-weights)
 * @self: the object
 *
 * Gets the weight of each class, one number per class in a tensor of rank 1; %NULL for 1 each.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainTensor *
ortrain_nll_loss_get_class_weights (OrtrainNllLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_NLL_LOSS (self), NULL);
  return self->class_weights;
}

/**
 * ortrain_nll_loss_set_class_weights: (set-property class-weights)
 * @self: the object
 * @class_weights: (nullable): the new value
 *
 * Sets the weight of each class, one number per class in a tensor of rank 1; %NULL for 1 each.
 */
void
ortrain_nll_loss_set_class_weights (OrtrainNllLoss *self, OrtrainTensor *class_weights)
{
  g_return_if_fail (ORTRAIN_IS_NLL_LOSS (self));

  ortrain_field_set_object (self, properties[PROP_CLASS_WEIGHTS], class_weights);
}
