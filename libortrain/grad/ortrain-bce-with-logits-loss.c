/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-bce-with-logits-loss.h"

#include "grad/ortrain-loss-private.h"
#include "grad/ortrain-scores-private.h"

#include <math.h>

/**
 * OrtrainBceWithLogitsLoss:
 *
 * The binary cross entropy between targets from 0 to 1 and the logistic function of the output, as in PyTorch's
 * BCEWithLogitsLoss. With the output x and the target t of n elements each:
 *
 *     loss = (sum of log (1 + exp (x)) - t · x) / n
 *
 * which is -t · log σ(x) - (1 - t) · log (1 - σ(x)) for each element, without overflow for large x. The target has the
 * shape of the output, and its type; float32 for outputs of 16 bits.
 *
 * ```python
 * options = Ortrain.TrainingOptions()
 * options.add_loss(Ortrain.BceWithLogitsLoss(output="logits", target="tags"))
 * session = Ortrain.TrainingSession(Ortrain.Model("model.onnx"), options)
 * loss = session.train_step({"x": x, "tags": (values > 0).astype(np.float32)})
 * ```
 *
 * Where the output is a logistic function already, the loss is computed from the scores before it, as
 * [method@TrainingSession.get_notes] then says; the output itself stays as it is.
 */

struct _OrtrainBceWithLogitsLoss
{
  OrtrainLoss parent_instance;
};

G_DEFINE_FINAL_TYPE (OrtrainBceWithLogitsLoss, ortrain_bce_with_logits_loss, ORTRAIN_TYPE_LOSS)

static gboolean
ortrain_bce_with_logits_loss_build (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, OrtrainValue **value,
                                    GError **error)
{
  OrtrainScores kind;
  output = ortrain_scores_find (loss, graph, output, 0, 1 << ORTRAIN_SCORES_SIGMOID, &kind, error);
  OrtrainValue *x = output != NULL ? ortrain_loss_widen (graph, output, error) : NULL;
  OrtrainValue *t =
      x != NULL ? ortrain_loss_add_target (loss, graph, x->dtype, output->dims, output->rank, error) : NULL;
  if (t == NULL)
    return FALSE;
  /* softplus (x) - x * t: stable for large |x|, as softplus is */
  OrtrainValue *softplus = ortrain_loss_op1 (graph, "Softplus", x, error);
  OrtrainValue *product = softplus != NULL ? ortrain_loss_op2 (graph, "Mul", x, t, error) : NULL;
  OrtrainValue *entropy = product != NULL ? ortrain_loss_op2 (graph, "Sub", softplus, product, error) : NULL;
  *value = entropy != NULL ? ortrain_loss_mean (graph, entropy, error) : NULL;
  return *value != NULL;
}

static void
ortrain_bce_with_logits_loss_class_init (OrtrainBceWithLogitsLossClass *klass)
{
  ORTRAIN_LOSS_CLASS (klass)->build = ortrain_bce_with_logits_loss_build;
}

static void
ortrain_bce_with_logits_loss_init (OrtrainBceWithLogitsLoss *self)
{
}

/**
 * ortrain_bce_with_logits_loss_new:
 * @output: the name of an output of the model
 * @target: the name of the input for the target, which the loss adds
 *
 * Creates a loss with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLoss *
ortrain_bce_with_logits_loss_new (const char *output, const char *target)
{
  g_return_val_if_fail (output != NULL, NULL);

  return g_object_new (ORTRAIN_TYPE_BCE_WITH_LOGITS_LOSS, "output", output, "target", target, NULL);
}
