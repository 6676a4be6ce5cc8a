/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "eval-sums.h"

#include "core/ortrain-text-private.h"

#include <math.h>

static const struct
{
  const char *name, *description;
} losses[EVAL_N_LOSSES] = {
  [EVAL_CROSS_ENTROPY] = { "cross-entropy", "cross entropy" },
  [EVAL_NLL] = { "nll", "negative log likelihood" },
  [EVAL_MSE] = { "mse", "mean squared error" },
  [EVAL_L1] = { "l1", "mean absolute error" },
  [EVAL_HUBER] = { "huber", "Huber loss" },
  [EVAL_BCE] = { "bce-with-logits", "binary cross entropy" },
};

gboolean
eval_loss_parse (const char *text, EvalLoss *loss, GError **error)
{
  for (guint i = 0; i < EVAL_N_LOSSES; i++)
    if (g_str_equal (losses[i].name, text))
      {
        *loss = (EvalLoss) i;
        return TRUE;
      }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "There is no loss '%s'; the losses are cross-entropy, nll, mse, l1, huber, bce-with-logits",
               ortrain_text_show (text));
  return FALSE;
}

gboolean
eval_loss_has_classes (EvalLoss loss)
{
  return loss == EVAL_CROSS_ENTROPY || loss == EVAL_NLL;
}

const char *
eval_loss_describe (EvalLoss loss)
{
  return losses[loss].description;
}

/* "float32[4, 2]" */
static char *
describe (OrtrainTensor *tensor)
{
  g_autoptr (GString) text = g_string_new (ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)));
  for (guint i = 0; i < ortrain_tensor_get_rank (tensor); i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i == 0 ? "[" : ", ", ortrain_tensor_get_dim (tensor, i));
  return g_strdup_printf ("%s%s", text->str, ortrain_tensor_get_rank (tensor) > 0 ? "]" : "[]");
}

/* The axis of the classes, if the target has all other axes of the output; else -1. */
static gint
find_axis (OrtrainTensor *output, OrtrainTensor *target)
{
  const gint rank = (gint) ortrain_tensor_get_rank (output);
  for (gint axis = 1; axis < rank && (gint) ortrain_tensor_get_rank (target) == rank - 1; axis++)
    {
      gboolean fits = TRUE;
      for (gint i = 0; i < rank - 1 && fits; i++)
        fits = ortrain_tensor_get_dim (target, (gsize) i) ==
               ortrain_tensor_get_dim (output, (gsize) (i < axis ? i : i + 1));
      if (fits)
        return axis;
    }
  return -1;
}

static gboolean
refuse_shapes (OrtrainTensor *output, OrtrainTensor *target, const char *hint, GError **error)
{
  g_autofree char *a = describe (output), *b = describe (target);
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The output is %s, but the target is %s%s", a, b,
               hint);
  return FALSE;
}

/* The label that does not count, as in training. */
#define IGNORED -100

static gboolean
add_classes (EvalSums *self, OrtrainTensor *logits, OrtrainTensor *target, GError **error)
{
  const gint rank = (gint) ortrain_tensor_get_rank (logits), axis = self->axis < 0 ? self->axis + rank : self->axis;
  const gint64 classes = axis >= 0 && axis < rank ? ortrain_tensor_get_dim (logits, (gsize) axis) : 0;
  const gint64 n = ortrain_tensor_get_n_elements (target);
  gint64 inner = 1; /* logits: [outer, classes, inner] */
  for (gint d = axis + 1; d < rank && classes > 0; d++)
    inner *= ortrain_tensor_get_dim (logits, (gsize) d);
  if (classes < 1 || n * classes != ortrain_tensor_get_n_elements (logits))
    {
      const gint found = find_axis (logits, target);
      g_autofree char *hint =
          found > 0 ? g_strdup_printf ("; the classes seem to be along axis %d: --axis %d", found, found)
                    : g_strdup ("; classes need an output with a number for each class, along the last axis or --axis");
      return refuse_shapes (logits, target, hint, error);
    }
  const gint64 n_items = ortrain_tensor_get_rank (target) > 0 ? ortrain_tensor_get_dim (target, 0) : 1;
  const gint64 per_item = n_items > 0 ? MAX (n / n_items, 1) : 1;
  g_autoptr (OrtrainTensor) best = ortrain_tensor_argmax (logits, axis, error);
  if (best == NULL)
    return FALSE;
  for (gint64 i = 0; i < n; i++)
    {
      const double given = ortrain_tensor_get_scalar (target, i);
      if (given == IGNORED)
        continue;
      if (!(given >= 0 && given < (double) classes))
        {
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                       "Item %" G_GINT64_FORMAT ": label %.0f is out of range, the output has %" G_GINT64_FORMAT
                       " %s, 0 to %" G_GINT64_FORMAT,
                       self->n_items + i / per_item, given, classes, classes == 1 ? "class" : "classes", classes - 1);
          return FALSE;
        }
      const gint64 label = (gint64) given, found = (gint64) ortrain_tensor_get_scalar (best, i);
      const gint64 begin = i / inner * classes * inner + i % inner;
      const double chosen = ortrain_tensor_get_scalar (logits, begin + label * inner);
      if (self->loss == EVAL_CROSS_ENTROPY)
        {
          const double top = ortrain_tensor_get_scalar (logits, begin + found * inner);
          double sum = 0.0;
          for (gint64 c = 0; c < classes; c++)
            sum += exp (ortrain_tensor_get_scalar (logits, begin + c * inner) - top);
          self->sum += log (sum) + top;
        }
      self->sum -= chosen;
      self->n_right += found == label;
      self->n++;
    }
  self->n_items += n_items;
  return TRUE;
}

/* The loss of one number x with the target t. */
static double
measure (EvalLoss loss, double x, double t)
{
  const double distance = fabs (x - t);
  switch (loss)
    {
    case EVAL_MSE:
      return distance * distance;
    case EVAL_L1:
      return distance;
    case EVAL_HUBER:
      return distance <= 1 ? distance * distance / 2 : distance - 0.5;
    case EVAL_BCE:
      return MAX (x, 0) - x * t + log1p (exp (-fabs (x)));
    case EVAL_CROSS_ENTROPY:
    case EVAL_NLL:
    case EVAL_N_LOSSES:
      break;
    }
  return NAN;
}

static gboolean
add_numbers (EvalSums *self, OrtrainTensor *output, OrtrainTensor *target, GError **error)
{
  const gint64 n = ortrain_tensor_get_n_elements (target);
  if (n != ortrain_tensor_get_n_elements (output))
    return refuse_shapes (output, target, "; this loss needs a target of the shape of the output", error);
  for (gint64 i = 0; i < n; i++)
    self->sum += measure (self->loss, ortrain_tensor_get_scalar (output, i), ortrain_tensor_get_scalar (target, i));
  self->n += (guint64) n;
  return TRUE;
}

gboolean
eval_sums_add (EvalSums *self, OrtrainTensor *output, OrtrainTensor *target, GError **error)
{
  return (eval_loss_has_classes (self->loss) ? add_classes : add_numbers) (self, output, target, error);
}
