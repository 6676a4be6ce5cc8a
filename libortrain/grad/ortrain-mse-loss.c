/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-mse-loss.h"

#include "grad/ortrain-loss-private.h"

#include <math.h>

/**
 * OrtrainMseLoss:
 *
 * The mean squared error. With the output x and the target t of n elements each:
 *
 *     loss = (sum of (x - t)²) / n
 *
 * The target has the shape of the output, and its type; float32 for outputs of 16 bits.
 *
 * ```python
 * options = Ortrain.TrainingOptions()
 * options.add_loss(Ortrain.MseLoss(output="logits", target="values"))
 * session = Ortrain.TrainingSession(Ortrain.Model("model.onnx"), options)
 * loss = session.train_step({"x": x, "values": values})
 * ```
 */

struct _OrtrainMseLoss
{
  OrtrainLoss parent_instance;
};

G_DEFINE_FINAL_TYPE (OrtrainMseLoss, ortrain_mse_loss, ORTRAIN_TYPE_LOSS)

static gboolean
ortrain_mse_loss_build (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, OrtrainValue **value,
                        GError **error)
{
  OrtrainValue *x = ortrain_loss_widen (graph, output, error);
  OrtrainValue *t =
      x != NULL ? ortrain_loss_add_target (loss, graph, x->dtype, output->dims, output->rank, error) : NULL;
  if (t == NULL)
    return FALSE;
  OrtrainValue *d = ortrain_loss_op2 (graph, "Sub", x, t, error);
  OrtrainValue *square = d != NULL ? ortrain_loss_op2 (graph, "Mul", d, d, error) : NULL;
  *value = square != NULL ? ortrain_loss_mean (graph, square, error) : NULL;
  return *value != NULL;
}

static void
ortrain_mse_loss_class_init (OrtrainMseLossClass *klass)
{
  ORTRAIN_LOSS_CLASS (klass)->build = ortrain_mse_loss_build;
}

static void
ortrain_mse_loss_init (OrtrainMseLoss *self)
{
}

/**
 * ortrain_mse_loss_new:
 * @output: the name of an output of the model
 * @target: the name of the input for the target, which the loss adds
 *
 * Creates a loss with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLoss *
ortrain_mse_loss_new (const char *output, const char *target)
{
  g_return_val_if_fail (output != NULL, NULL);

  return g_object_new (ORTRAIN_TYPE_MSE_LOSS, "output", output, "target", target, NULL);
}
