/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-cross-entropy-loss.h"

#include "core/ortrain-field-private.h"
#include "grad/ortrain-class-loss-private.h"

/**
 * OrtrainCrossEntropyLoss:
 *
 * The cross entropy between integer labels and the softmax of the output, as in PyTorch's CrossEntropyLoss and ONNX's
 * SoftmaxCrossEntropyLoss. With the scores x[n, c] of item n and class c of C, the label t[n], the weight w[c] of a
 * class, 1 unless [property@CrossEntropyLoss:class-weights] says otherwise, the label smoothing s, and p[n, c] = log
 * (softmax (x[n])[c]):
 *
 *     l[n] = -(1 - s) · w[t[n]] · p[n, t[n]]
 *            - s / C · (sum over c of w[c] · p[n, c])
 *     loss = (sum over n of l[n]) / (sum over n of w[t[n]])
 *
 * Items whose label is [property@CrossEntropyLoss:ignore-index] count in neither sum. Label smoothing is that of
 * Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (arXiv:1512.00567), section 7.
 *
 * The output has the shape [batch, classes], or any other with the classes along [property@CrossEntropyLoss:axis]; the
 * target is an int64 tensor of that shape without this axis, of class numbers from 0. Labels out of range are
 * %ORTRAIN_SESSION_ERROR_INDEX in the step that has them.
 *
 * ```python
 * loss = Ortrain.CrossEntropyLoss(output="logits", target="labels", label_smoothing=0.1)
 * options = Ortrain.TrainingOptions(losses=[loss])
 * session = Ortrain.TrainingSession(Ortrain.Model("model.onnx"), options)
 * loss = session.train_step({"x": x, "labels": labels})
 * ```
 *
 * Where the output is a softmax, a log-softmax or a logistic function already, the loss is computed from the scores
 * before it, as [method@TrainingSession.get_notes] then says; the output itself stays as it is. A softmax along another
 * axis than that of the classes is an error.
 */

struct _OrtrainCrossEntropyLoss
{
  OrtrainLoss parent_instance;
  int axis;
  gboolean axis_given;
  gint64 ignore_index;
  double label_smoothing;
  OrtrainTensor *class_weights;
};

G_DEFINE_FINAL_TYPE (OrtrainCrossEntropyLoss, ortrain_cross_entropy_loss, ORTRAIN_TYPE_LOSS)

enum
{
  PROP_0,
  PROP_AXIS,
  PROP_IGNORE_INDEX,
  PROP_LABEL_SMOOTHING,
  PROP_CLASS_WEIGHTS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_cross_entropy_loss_build (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, OrtrainValue **value,
                                  GError **error)
{
  OrtrainCrossEntropyLoss *self = ORTRAIN_CROSS_ENTROPY_LOSS (loss);
  OrtrainClassLoss common;
  const guint kinds = 1 << ORTRAIN_SCORES_SOFTMAX | 1 << ORTRAIN_SCORES_LOG_SOFTMAX | 1 << ORTRAIN_SCORES_SIGMOID;
  if (!ortrain_class_loss_prepare (loss, graph, output, self->axis, self->axis_given, self->class_weights, kinds,
                                   &common, error))
    return FALSE;
  *value = ortrain_class_loss_cross_entropy (&common, graph, self->ignore_index, self->label_smoothing, error);
  return *value != NULL;
}

static void
ortrain_cross_entropy_loss_finalize (GObject *object)
{
  OrtrainCrossEntropyLoss *self = ORTRAIN_CROSS_ENTROPY_LOSS (object);

  g_clear_object (&self->class_weights);

  G_OBJECT_CLASS (ortrain_cross_entropy_loss_parent_class)->finalize (object);
}

static void
ortrain_cross_entropy_loss_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  OrtrainCrossEntropyLoss *self = ORTRAIN_CROSS_ENTROPY_LOSS (object);

  self->axis_given = self->axis_given || property_id == PROP_AXIS;
  ortrain_field_set_property (object, property_id, value, pspec);
}

static void
ortrain_cross_entropy_loss_class_init (OrtrainCrossEntropyLossClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_cross_entropy_loss_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_cross_entropy_loss_set_property;
  ORTRAIN_LOSS_CLASS (klass)->build = ortrain_cross_entropy_loss_build;

  /**
   * OrtrainCrossEntropyLoss:axis: (getter get_axis) (setter set_axis)
   *
   * The axis of the classes in the output, counted from the end if negative: 1 for scores [batch, classes, height,
   * width], as in PyTorch. It must be set where labels would fit scores with the classes along axis 1 as well as along
   * the last one. Default: -1.
   */
  properties[PROP_AXIS] =
      ortrain_field_at (g_param_spec_int ("axis", NULL, NULL, G_MININT, G_MAXINT, -1,
                                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY),
                        G_STRUCT_OFFSET (OrtrainCrossEntropyLoss, axis));

  /**
   * OrtrainCrossEntropyLoss:ignore-index: (getter get_ignore_index) (setter set_ignore_index)
   *
   * The label of items that do not count, as in PyTorch; the least 64-bit integer for none. Default: -100.
   */
  properties[PROP_IGNORE_INDEX] =
      ortrain_field_at (g_param_spec_int64 ("ignore-index", NULL, NULL, G_MININT64, G_MAXINT64, -100,
                                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY),
                        G_STRUCT_OFFSET (OrtrainCrossEntropyLoss, ignore_index));

  /**
   * OrtrainCrossEntropyLoss:label-smoothing: (getter get_label_smoothing) (setter set_label_smoothing)
   *
   * The share of the target that is spread evenly over all classes, s. Default: 0, from 0 to 1.
   */
  properties[PROP_LABEL_SMOOTHING] = ortrain_field_double (
      "label-smoothing", G_STRUCT_OFFSET (OrtrainCrossEntropyLoss, label_smoothing), 0.0, 1.0, 0.0);

  /**
   * OrtrainCrossEntropyLoss:class-weights: (getter get_class_weights) (setter set_class_weights)
   *
   * The weight of each class, one number per class in a tensor of rank 1; %NULL for 1 each. Default: %NULL.
   */
  properties[PROP_CLASS_WEIGHTS] = ortrain_field_object (
      "class-weights", G_STRUCT_OFFSET (OrtrainCrossEntropyLoss, class_weights), ORTRAIN_TYPE_TENSOR);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_cross_entropy_loss_init (OrtrainCrossEntropyLoss *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_cross_entropy_loss_new:
 * @output: the name of an output of the model
 * @target: the name of the input for the target, which the loss adds
 *
 * Creates a loss with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLoss *
ortrain_cross_entropy_loss_new (const char *output, const char *target)
{
  g_return_val_if_fail (output != NULL, NULL);

  return g_object_new (ORTRAIN_TYPE_CROSS_ENTROPY_LOSS, "output", output, "target", target, NULL);
}

/**
 * ortrain_cross_entropy_loss_get_axis: (get-property axis)
 * @self: the object
 *
 * Gets the axis of the classes in the output, counted from the end if negative.
 *
 * Returns: the value
 */
int
ortrain_cross_entropy_loss_get_axis (OrtrainCrossEntropyLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CROSS_ENTROPY_LOSS (self), 0);
  return self->axis;
}

/**
 * ortrain_cross_entropy_loss_set_axis: (set-property axis)
 * @self: the object
 * @axis: the new value
 *
 * Sets the axis of the classes in the output, counted from the end if negative.
 */
void
ortrain_cross_entropy_loss_set_axis (OrtrainCrossEntropyLoss *self, int axis)
{
  g_return_if_fail (ORTRAIN_IS_CROSS_ENTROPY_LOSS (self));
  self->axis_given = TRUE;
  if (self->axis == axis)
    return;
  self->axis = axis;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_AXIS]);
}

/**
 * ortrain_cross_entropy_loss_get_ignore_index: (get-property ignore-index)
 * @self: the object
 *
 * Gets the label of items that do not count, as in PyTorch; the least 64-bit integer for none.
 *
 * Returns: the value
 */
gint64
ortrain_cross_entropy_loss_get_ignore_index (OrtrainCrossEntropyLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CROSS_ENTROPY_LOSS (self), 0);
  return self->ignore_index;
}

/**
 * ortrain_cross_entropy_loss_set_ignore_index: (set-property ignore-index)
 * @self: the object
 * @ignore_index: the new value
 *
 * Sets the label of items that do not count, as in PyTorch; the least 64-bit integer for none.
 */
void
ortrain_cross_entropy_loss_set_ignore_index (OrtrainCrossEntropyLoss *self, gint64 ignore_index)
{
  g_return_if_fail (ORTRAIN_IS_CROSS_ENTROPY_LOSS (self));
  if (self->ignore_index == ignore_index)
    return;
  self->ignore_index = ignore_index;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_IGNORE_INDEX]);
}

/**
 * ortrain_cross_entropy_loss_get_label_smoothing: (get-property label-smoothing)
 * @self: the object
 *
 * Gets the share of the target that is spread evenly over all classes, s.
 *
 * Returns: the value
 */
double
ortrain_cross_entropy_loss_get_label_smoothing (OrtrainCrossEntropyLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CROSS_ENTROPY_LOSS (self), 0);
  return self->label_smoothing;
}

/**
 * ortrain_cross_entropy_loss_set_label_smoothing: (set-property label-smoothing)
 * @self: the object
 * @label_smoothing: the new value
 *
 * Sets the share of the target that is spread evenly over all classes, s.
 */
void
ortrain_cross_entropy_loss_set_label_smoothing (OrtrainCrossEntropyLoss *self, double label_smoothing)
{
  g_return_if_fail (ORTRAIN_IS_CROSS_ENTROPY_LOSS (self));

  ortrain_field_set_double (self, properties[PROP_LABEL_SMOOTHING], label_smoothing);
}

/**
 * ortrain_cross_entropy_loss_get_class_weights: (get-property class-weights)
 * @self: the object
 *
 * Gets the weight of each class, one number per class in a tensor of rank 1; %NULL for 1 each.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainTensor *
ortrain_cross_entropy_loss_get_class_weights (OrtrainCrossEntropyLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CROSS_ENTROPY_LOSS (self), NULL);
  return self->class_weights;
}

/**
 * ortrain_cross_entropy_loss_set_class_weights: (set-property class-weights)
 * @self: the object
 * @class_weights: (nullable): the new value
 *
 * Sets the weight of each class, one number per class in a tensor of rank 1; %NULL for 1 each.
 */
void
ortrain_cross_entropy_loss_set_class_weights (OrtrainCrossEntropyLoss *self, OrtrainTensor *class_weights)
{
  g_return_if_fail (ORTRAIN_IS_CROSS_ENTROPY_LOSS (self));

  ortrain_field_set_object (self, properties[PROP_CLASS_WEIGHTS], class_weights);
}
