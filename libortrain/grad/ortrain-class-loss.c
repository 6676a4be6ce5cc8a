/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-class-loss-private.h"

#include "core/ortrain-text-private.h"
#include "grad/ortrain-scores-private.h"

static OrtrainValue *
add_weights (OrtrainGraph *graph, OrtrainTensor *class_weights, OrtrainDim n_classes, OrtrainDType dtype,
             GError **error)
{
  const gint64 n = ortrain_tensor_get_n_elements (class_weights);
  if (ortrain_tensor_get_rank (class_weights) != 1 || (ortrain_dim_is_int (n_classes) && n_classes.value != n))
    {
      g_autofree char *classes = ortrain_dim_to_readable (n_classes);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "class weights need one number for each of the %s classes, but have %" G_GINT64_FORMAT
                   " number%s in a tensor of rank %" G_GSIZE_FORMAT,
                   classes, n, ortrain_text_plural ((guint64) n), ortrain_tensor_get_rank (class_weights));
      return NULL;
    }
  g_autoptr (OrtrainTensor) weights = ortrain_tensor_cast (class_weights, dtype, error);
  return weights != NULL ? ortrain_graph_new_initializer (graph, "class_weights", weights) : NULL;
}

/* Scores [batch, C, H, W] of C = H = W: labels [batch, H, W] fit classes along axis 1 and along the last one. */
static gboolean
is_ambiguous (const OrtrainValue *output)
{
  for (gint i = 1; i + 1 < output->rank; i++)
    if (!ortrain_dim_equal (output->dims[i], output->dims[i + 1]))
      return FALSE;
  return output->rank > 2;
}

gboolean
ortrain_class_loss_prepare (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, gint axis,
                            gboolean axis_given, OrtrainTensor *class_weights, guint kinds, OrtrainClassLoss *self,
                            GError **error)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK], n_classes = ortrain_dim_unknown (graph->dims);
  gint rank = output->rank < 0 ? -1 : 0;
  /* a rank that is not known before the first step: as counted */
  self->axis = axis < 0 && output->rank >= 0 ? axis + output->rank : axis;
  if (output->rank >= 0 && (self->axis < 0 || self->axis >= output->rank))
    {
      g_autofree char *description = ortrain_value_describe (output);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "axis %d of the classes is out of range for %s", axis, description);
      return FALSE;
    }
  if (!axis_given && is_ambiguous (output))
    {
      g_autofree char *description = ortrain_value_describe (output);
      g_set_error (
          error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
          "labels fit %s with the classes along axis 1 as well as along the last one: set the axis of the loss "
          "(--axis of ortrain train), 1 or -1",
          description);
      return FALSE;
    }
  for (gint i = 0; i < output->rank; i++)
    if (i != self->axis)
      dims[rank++] = output->dims[i];
    else
      n_classes = output->dims[i];
  OrtrainValue *scores = ortrain_scores_find (loss, graph, output, self->axis, kinds, &self->kind, error);
  if (scores != NULL && self->kind == ORTRAIN_SCORES_SIGMOID && ortrain_dim_equal (n_classes, ortrain_dim_int (1)))
    {
      g_autofree char *description = ortrain_value_describe (output);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "%s is one probability, not one for each class: use BceWithLogitsLoss", description);
      return FALSE;
    }
  self->scores = scores != NULL ? ortrain_loss_widen (graph, scores, error) : NULL;
  self->target =
      self->scores != NULL ? ortrain_loss_add_target (loss, graph, ORTRAIN_DTYPE_INT64, dims, rank, error) : NULL;
  self->class_weights = NULL;
  if (self->target == NULL || class_weights == NULL)
    return self->target != NULL;
  self->class_weights = add_weights (graph, class_weights, n_classes, self->scores->dtype, error);
  return self->class_weights != NULL;
}

OrtrainValue *
ortrain_class_loss_cross_entropy (const OrtrainClassLoss *self, OrtrainGraph *graph, gint64 ignore_index,
                                  double label_smoothing, GError **error)
{
  OrtrainValue *inputs[] = { self->scores, self->target, self->class_weights };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", self->axis);
  if (ignore_index != G_MININT64)
    ortrain_attributes_set_int (attributes, "ignore_index", ignore_index);
  ortrain_attributes_set_float (attributes, "label_smoothing", label_smoothing);
  ortrain_attributes_set_string (attributes, "reduction", "mean");
  return ortrain_loss_op (graph, ORTRAIN_DOMAIN, "CrossEntropy", inputs, self->class_weights != NULL ? 3 : 2, 3,
                          attributes, error);
}
