/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-output-loss.h"

#include "grad/ortrain-loss-private.h"

#include <math.h>

/**
 * OrtrainOutputLoss:
 *
 * A scalar that the model computes itself: a tensor of one element, of any rank and a floating type. It has no target;
 * if the model compares with a target, that is one of its own inputs.
 *
 * ```python
 * builder = Ortrain.GraphBuilder.new("model")
 * y = builder.add_input("y", Ortrain.DType.FLOAT32, "batch, 3")
 * x = builder.linear(builder.add_input("x", Ortrain.DType.FLOAT32, "batch, 4"), "fc", 3, True)
 * error = builder.binary("Sub", x, y)
 * squares = builder.binary("Mul", error, error)
 * builder.add_output(builder.unary("ReduceMean", squares), "loss")
 *
 * options = Ortrain.TrainingOptions(losses=[Ortrain.OutputLoss(output="loss")])
 * session = Ortrain.TrainingSession(builder.build(), options)
 * ```
 */

struct _OrtrainOutputLoss
{
  OrtrainLoss parent_instance;
};

G_DEFINE_FINAL_TYPE (OrtrainOutputLoss, ortrain_output_loss, ORTRAIN_TYPE_LOSS)

static gboolean
ortrain_output_loss_build (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, OrtrainValue **value,
                           GError **error)
{
  if (output->rank == 0)
    {
      *value = output;
      return TRUE;
    }
  for (gint i = 0; i < output->rank; i++)
    if (output->rank < 0 || !ortrain_dim_equal (output->dims[i], ortrain_dim_int (1)))
      {
        g_autofree char *description = ortrain_value_describe (output);
        g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE,
                     "the output must have one element, but it is %s", description);
        return FALSE;
      }
  OrtrainValue *inputs[] = { output, ortrain_graph_const_ints (graph, NULL, 0) };
  *value = ortrain_loss_op (graph, "", "Reshape", inputs, 2, 1, NULL, error);
  return *value != NULL;
}

static void
ortrain_output_loss_class_init (OrtrainOutputLossClass *klass)
{
  ORTRAIN_LOSS_CLASS (klass)->build = ortrain_output_loss_build;
}

static void
ortrain_output_loss_init (OrtrainOutputLoss *self)
{
}

/**
 * ortrain_output_loss_new:
 * @output: the name of an output of the model
 *
 * Creates a loss with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLoss *
ortrain_output_loss_new (const char *output)
{
  g_return_val_if_fail (output != NULL, NULL);

  return g_object_new (ORTRAIN_TYPE_OUTPUT_LOSS, "output", output, NULL);
}
