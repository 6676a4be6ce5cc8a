/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-huber-loss.h"

#include "core/ortrain-field-private.h"
#include "grad/ortrain-loss-private.h"

/**
 * OrtrainHuberLoss:
 *
 * The mean of Huber's function of the errors: half the square of small ones, a straight line for large ones (Huber,
 * "Robust Estimation of a Location Parameter", 1964), as in PyTorch's HuberLoss. With the output x and the target t of
 * n elements each, and d = |x - t|:
 *
 *     h(d) = d² / 2                        for d ≤ delta
 *     h(d) = delta · (d - delta / 2)       for d > delta
 *     loss = (sum of h(d)) / n
 *
 * The target has the shape of the output, and its type; float32 for outputs of 16 bits.
 *
 * ```python
 * options = Ortrain.TrainingOptions()
 * options.add_loss(Ortrain.HuberLoss(output="logits", target="values", delta=2))
 * ```
 */

struct _OrtrainHuberLoss
{
  OrtrainLoss parent_instance;
  double delta;
};

G_DEFINE_FINAL_TYPE (OrtrainHuberLoss, ortrain_huber_loss, ORTRAIN_TYPE_LOSS)

enum
{
  PROP_0,
  PROP_DELTA,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_huber_loss_build (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, OrtrainValue **value,
                          GError **error)
{
  OrtrainHuberLoss *self = ORTRAIN_HUBER_LOSS (loss);
  OrtrainValue *x = ortrain_loss_widen (graph, output, error);
  OrtrainValue *t =
      x != NULL ? ortrain_loss_add_target (loss, graph, x->dtype, output->dims, output->rank, error) : NULL;
  if (t == NULL)
    return FALSE;
  OrtrainValue *d = ortrain_loss_op2 (graph, "Sub", x, t, error);
  /* With a = |d| and q = min (a, delta): q * (a - q / 2) is both branches in one. */
  OrtrainValue *delta = ortrain_graph_const_scalar (graph, x->dtype, self->delta);
  OrtrainValue *half = ortrain_graph_const_scalar (graph, x->dtype, 0.5);
  OrtrainValue *a = d != NULL ? ortrain_loss_op1 (graph, "Abs", d, error) : NULL;
  OrtrainValue *q = a != NULL ? ortrain_loss_op2 (graph, "Min", a, delta, error) : NULL;
  OrtrainValue *half_q = q != NULL ? ortrain_loss_op2 (graph, "Mul", q, half, error) : NULL;
  OrtrainValue *rest = half_q != NULL ? ortrain_loss_op2 (graph, "Sub", a, half_q, error) : NULL;
  OrtrainValue *huber = rest != NULL ? ortrain_loss_op2 (graph, "Mul", q, rest, error) : NULL;
  *value = huber != NULL ? ortrain_loss_mean (graph, huber, error) : NULL;
  return *value != NULL;
}

static void
ortrain_huber_loss_class_init (OrtrainHuberLossClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LOSS_CLASS (klass)->build = ortrain_huber_loss_build;

  /**
   * OrtrainHuberLoss:delta: (getter get_delta) (setter set_delta)
   *
   * The absolute error from which on the function is a straight line. Default: 1, not negative.
   */
  properties[PROP_DELTA] =
      ortrain_field_double ("delta", G_STRUCT_OFFSET (OrtrainHuberLoss, delta), 0.0, G_MAXDOUBLE, 1.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_huber_loss_init (OrtrainHuberLoss *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_huber_loss_new:
 * @output: the name of an output of the model
 * @target: the name of the input for the target, which the loss adds
 *
 * Creates a loss with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLoss *
ortrain_huber_loss_new (const char *output, const char *target)
{
  g_return_val_if_fail (output != NULL, NULL);

  return g_object_new (ORTRAIN_TYPE_HUBER_LOSS, "output", output, "target", target, NULL);
}

/**
 * ortrain_huber_loss_get_delta: (get-property delta)
 * @self: the object
 *
 * Gets the absolute error from which on the function is a straight line.
 *
 * Returns: the value
 */
double
ortrain_huber_loss_get_delta (OrtrainHuberLoss *self)
{
  g_return_val_if_fail (ORTRAIN_IS_HUBER_LOSS (self), 0);
  return self->delta;
}

/**
 * ortrain_huber_loss_set_delta: (set-property delta)
 * @self: the object
 * @delta: the new value
 *
 * Sets the absolute error from which on the function is a straight line.
 */
void
ortrain_huber_loss_set_delta (OrtrainHuberLoss *self, double delta)
{
  g_return_if_fail (ORTRAIN_IS_HUBER_LOSS (self));

  ortrain_field_set_double (self, properties[PROP_DELTA], delta);
}
