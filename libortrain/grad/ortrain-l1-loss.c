/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-l1-loss.h"

#include "grad/ortrain-loss-private.h"

#include <math.h>

/**
 * OrtrainL1Loss:
 *
 * The mean absolute error. With the output x and the target t of n elements each:
 *
 *     loss = (sum of |x - t|) / n
 *
 * The target has the shape of the output, and its type; float32 for outputs of 16 bits. The gradient of an element is 0
 * where x = t.
 *
 * ```python
 * options = Ortrain.TrainingOptions()
 * options.add_loss(Ortrain.L1Loss(output="logits", target="values", weight=0.5))
 * options.add_loss(Ortrain.MseLoss(output="logits", target="values"))
 * ```
 */

struct _OrtrainL1Loss
{
  OrtrainLoss parent_instance;
};

G_DEFINE_FINAL_TYPE (OrtrainL1Loss, ortrain_l1_loss, ORTRAIN_TYPE_LOSS)

static gboolean
ortrain_l1_loss_build (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, OrtrainValue **value,
                       GError **error)
{
  OrtrainValue *x = ortrain_loss_widen (graph, output, error);
  OrtrainValue *t =
      x != NULL ? ortrain_loss_add_target (loss, graph, x->dtype, output->dims, output->rank, error) : NULL;
  if (t == NULL)
    return FALSE;
  OrtrainValue *d = ortrain_loss_op2 (graph, "Sub", x, t, error);
  OrtrainValue *a = d != NULL ? ortrain_loss_op1 (graph, "Abs", d, error) : NULL;
  *value = a != NULL ? ortrain_loss_mean (graph, a, error) : NULL;
  return *value != NULL;
}

static void
ortrain_l1_loss_class_init (OrtrainL1LossClass *klass)
{
  ORTRAIN_LOSS_CLASS (klass)->build = ortrain_l1_loss_build;
}

static void
ortrain_l1_loss_init (OrtrainL1Loss *self)
{
}

/**
 * ortrain_l1_loss_new:
 * @output: the name of an output of the model
 * @target: the name of the input for the target, which the loss adds
 *
 * Creates a loss with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLoss *
ortrain_l1_loss_new (const char *output, const char *target)
{
  g_return_val_if_fail (output != NULL, NULL);

  return g_object_new (ORTRAIN_TYPE_L1_LOSS, "output", output, "target", target, NULL);
}
