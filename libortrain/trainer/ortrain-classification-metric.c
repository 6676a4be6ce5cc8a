/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-classification-metric.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "grad/ortrain-cross-entropy-loss.h"
#include "grad/ortrain-nll-loss.h"
#include "tensor/ortrain-tensor-private.h"
#include "trainer/ortrain-metric-private.h"

#include <math.h>

/**
 * OrtrainClassificationMetric:
 *
 * Accuracy, precision, recall or F1 of a classifier, and its confusion matrix.
 *
 * ```python
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=2)
 * trainer.validation = Ortrain.TensorDataset("validation.npz")
 * top = Ortrain.ClassificationMetric.new_accuracy(2, "logits", "labels")
 * f1 = Ortrain.ClassificationMetric.new(Ortrain.ClassificationMeasure.F1, Ortrain.Average.MACRO, "logits", "labels")
 * trainer.add_metric(top)
 * trainer.add_metric(f1)
 * for record in trainer.fit().epochs:
 *     print(record.get_value("top2_accuracy"), record.get_value("macro_f1"))
 * print(f1.get_confusion_matrix().numpy())          # of the last epoch: [class, class that it was taken for]
 * ```
 *
 * The output has scores of classes along [property@ClassificationMetric:axis], by default its second or its last
 * dimension, [items, classes, …] or [items, …, classes]; the target has the numbers of the classes, [items, …]. Items
 * whose class is not one of those, such as -100, are left out, and so are those of
 * [property@ClassificationMetric:ignore-index]. A [class@Trainer] evaluates with the axis and the ignored label of the
 * loss over classes that has the same output and target, where the metric itself has none. Values are those of
 * scikit-learn with `zero_division=0`: macro averages are over the classes that occur among targets or predictions. Of
 * equal scores, the first one is the best.
 */
struct _OrtrainClassificationMetric
{
  OrtrainMetric parent_instance;
  OrtrainClassificationMeasure measure;
  OrtrainAverage average;
  guint k;
  char *output, *target;
  gint axis;          /* G_MININT: as the shapes say */
  gint64 ignored;     /* G_MININT64: none */
  gint followed_axis; /* those of a loss, likewise */
  gint64 followed_ignored;
  gint64 n_classes;                     /* 0: no batch yet */
  guint64 n, n_right;                   /* items, and those of which the class is among the best k */
  guint64 *n_wanted, *n_found, *n_both; /* of each class */
  gint64 *confusion;                    /* [n_classes, n_classes]; NULL: too many classes */
};

G_DEFINE_FINAL_TYPE (OrtrainClassificationMetric, ortrain_classification_metric, ORTRAIN_TYPE_METRIC)

enum
{
  PROP_0,
  PROP_AXIS,
  PROP_IGNORE_INDEX,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

/* A matrix of at most 8 MiB. */
#define MAX_CONFUSION_CLASSES 1024

static void
ortrain_classification_metric_reset (OrtrainMetric *metric)
{
  OrtrainClassificationMetric *self = ORTRAIN_CLASSIFICATION_METRIC (metric);
  g_clear_pointer (&self->n_wanted, g_free);
  g_clear_pointer (&self->n_found, g_free);
  g_clear_pointer (&self->n_both, g_free);
  g_clear_pointer (&self->confusion, g_free);
  self->n_classes = 0;
  self->n = self->n_right = 0;
}

/* Makes the counters of the first batch. */
static gboolean
take_classes (OrtrainClassificationMetric *self, gint64 n, GError **error)
{
  if (self->n_classes == n)
    return TRUE;
  const gsize size = (gsize) n;
  if (self->n_classes > 0)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "Output '%s' has %" G_GINT64_FORMAT " classes, and had %" G_GINT64_FORMAT " in the batch before",
                   self->output, n, self->n_classes);
      return FALSE;
    }
  self->n_wanted = g_try_new0 (guint64, size);
  self->n_found = g_try_new0 (guint64, size);
  self->n_both = g_try_new0 (guint64, size);
  if (n <= MAX_CONFUSION_CLASSES)
    self->confusion = g_try_new0 (gint64, size * size);
  if (self->n_wanted == NULL || self->n_found == NULL || self->n_both == NULL ||
      (n <= MAX_CONFUSION_CLASSES && self->confusion == NULL))
    {
      ortrain_classification_metric_reset (ORTRAIN_METRIC (self));
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                   "Cannot allocate counters of %" G_GINT64_FORMAT " classes", n);
      return FALSE;
    }
  self->n_classes = n;
  return TRUE;
}

/* Whether targets [items, …] are those of scores with the classes along an axis. */
static gboolean
fits (OrtrainTensor *scores, OrtrainTensor *wanted, gsize axis)
{
  const gsize rank = ortrain_tensor_get_rank (scores);
  if (rank < 2 || ortrain_tensor_get_rank (wanted) != rank - 1)
    return FALSE;
  for (gsize i = 0; i < rank - 1; i++)
    if (ortrain_tensor_get_dim (wanted, i) != ortrain_tensor_get_dim (scores, i < axis ? i : i + 1))
      return FALSE;
  return TRUE;
}

/* scores: [n], `stride` apart. found: the best class; returns whether `wanted` is among the best k. */
static gboolean
look_at (const double *scores, gint64 n, gint64 stride, gint64 wanted, guint k, gint64 *found)
{
  const double own = scores[wanted * stride];
  guint64 n_better = 0;
  *found = 0;
  for (gint64 c = 0; c < n; c++)
    {
      const double score = scores[c * stride], best = scores[*found * stride];
      if (score > best || (isnan (best) && !isnan (score)))
        *found = c;
      n_better += score > own || (score == own && c < wanted);
    }
  return !isnan (own) && n_better < k;
}

/* The axis of the classes in the scores; -1 if none fits the targets. */
static gssize
find_axis (const OrtrainClassificationMetric *self, OrtrainTensor *scores, OrtrainTensor *wanted)
{
  const gssize rank = (gssize) ortrain_tensor_get_rank (scores);
  const gint given = self->axis != G_MININT ? self->axis : self->followed_axis;
  if (given != G_MININT)
    {
      const gssize axis = given < 0 ? given + rank : given;
      return axis >= 0 && axis < rank && fits (scores, wanted, (gsize) axis) ? axis : -1;
    }
  return fits (scores, wanted, 1) ? 1 : rank > 1 && fits (scores, wanted, (gsize) rank - 1) ? rank - 1 : -1;
}

void
ortrain_classification_metric_follow (OrtrainClassificationMetric *self, GListModel *losses)
{
  self->followed_axis = G_MININT;
  self->followed_ignored = G_MININT64;
  for (guint i = 0; i < g_list_model_get_n_items (losses); i++)
    {
      g_autoptr (OrtrainLoss) loss = g_list_model_get_item (losses, i);
      if ((!ORTRAIN_IS_CROSS_ENTROPY_LOSS (loss) && !ORTRAIN_IS_NLL_LOSS (loss)) ||
          g_strcmp0 (ortrain_loss_get_output (loss), self->output) != 0 ||
          g_strcmp0 (ortrain_loss_get_target (loss), self->target) != 0)
        continue;
      g_object_get (loss, "axis", &self->followed_axis, "ignore-index", &self->followed_ignored, NULL);
      return;
    }
}

static gboolean
ortrain_classification_metric_update (OrtrainMetric *metric, OrtrainTensorDict *outputs, OrtrainTensorDict *batch,
                                      GError **error)
{
  OrtrainClassificationMetric *self = ORTRAIN_CLASSIFICATION_METRIC (metric);
  g_autoptr (OrtrainTensor) scores = NULL;
  g_autoptr (OrtrainTensor) wanted = NULL;
  if (!ortrain_metric_fetch_operands (metric, outputs, self->output, batch, self->target, ORTRAIN_DTYPE_INT64, &scores,
                                      &wanted, error))
    return FALSE;
  const gsize rank = ortrain_tensor_get_rank (scores);
  const gssize found_axis = find_axis (self, scores, wanted);
  const gsize axis = (gsize) MAX (found_axis, 0);
  if (found_axis < 0)
    {
      g_autofree char *a = ortrain_shape_to_string (ortrain_tensor_peek_dims (scores), rank);
      g_autofree char *b =
          ortrain_shape_to_string (ortrain_tensor_peek_dims (wanted), ortrain_tensor_get_rank (wanted));
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "Output '%s' is %s and target '%s' is %s; classes are needed for scores [items, classes, …]",
                   self->output, a, self->target, b);
      return FALSE;
    }
  const gint64 n_classes = ortrain_tensor_get_dim (scores, axis), n_items = ortrain_tensor_get_n_elements (wanted);
  if (n_items == 0 || n_classes == 0)
    return TRUE;
  if (!take_classes (self, n_classes, error))
    return FALSE;
  gint64 inner = 1; /* scores: [outer, n_classes, inner] */
  for (gsize i = axis + 1; i < rank; i++)
    inner *= ortrain_tensor_get_dim (scores, i);
  const gint64 ignored = self->ignored != G_MININT64 ? self->ignored : self->followed_ignored;
  const double *numbers = ortrain_tensor_peek (scores);
  const gint64 *classes = ortrain_tensor_peek (wanted);
  for (gint64 i = 0; i < n_items; i++)
    {
      const gint64 want = classes[i];
      gint64 found;
      if (want < 0 || want >= n_classes || want == ignored)
        continue;
      self->n++;
      self->n_right += look_at (numbers + i / inner * n_classes * inner + i % inner, n_classes, inner, want, self->k,
                                &found) != FALSE;
      self->n_wanted[want]++;
      self->n_found[found]++;
      self->n_both[want] += found == want;
      if (self->confusion != NULL)
        self->confusion[want * n_classes + found]++;
    }
  return TRUE;
}

static double
divide (double a, double b)
{
  return b > 0 ? a / b : 0.0;
}

static double
get_measure (OrtrainClassificationMeasure measure, guint64 both, guint64 wanted, guint64 found)
{
  switch (measure)
    {
    case ORTRAIN_CLASSIFICATION_MEASURE_PRECISION:
      return divide ((double) both, (double) found);
    case ORTRAIN_CLASSIFICATION_MEASURE_RECALL:
      return divide ((double) both, (double) wanted);
    case ORTRAIN_CLASSIFICATION_MEASURE_F1:
    case ORTRAIN_CLASSIFICATION_MEASURE_ACCURACY:
      break;
    }
  return divide (2.0 * (double) both, (double) wanted + (double) found);
}

static gboolean
ortrain_classification_metric_compute (OrtrainMetric *metric, double *value, GError **error)
{
  OrtrainClassificationMetric *self = ORTRAIN_CLASSIFICATION_METRIC (metric);
  if (self->n == 0)
    {
      *value = NAN;
      return TRUE;
    }
  if (self->measure == ORTRAIN_CLASSIFICATION_MEASURE_ACCURACY)
    {
      *value = (double) self->n_right / (double) self->n;
      return TRUE;
    }
  guint64 both = 0, n = 0;
  double sum = 0;
  for (gint64 i = 0; i < self->n_classes; i++)
    {
      both += self->n_both[i];
      if (self->n_wanted[i] == 0 && self->n_found[i] == 0)
        continue;
      sum += get_measure (self->measure, self->n_both[i], self->n_wanted[i], self->n_found[i]);
      n++;
    }
  *value =
      self->average == ORTRAIN_AVERAGE_MICRO ? get_measure (self->measure, both, self->n, self->n) : sum / (double) n;
  return TRUE;
}

static void
ortrain_classification_metric_finalize (GObject *object)
{
  OrtrainClassificationMetric *self = ORTRAIN_CLASSIFICATION_METRIC (object);
  ortrain_classification_metric_reset (ORTRAIN_METRIC (self));
  g_free (self->output);
  g_free (self->target);
  G_OBJECT_CLASS (ortrain_classification_metric_parent_class)->finalize (object);
}

static void
ortrain_classification_metric_class_init (OrtrainClassificationMetricClass *klass)
{
  OrtrainMetricClass *metric_class = ORTRAIN_METRIC_CLASS (klass);
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  object_class->finalize = ortrain_classification_metric_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  metric_class->reset = ortrain_classification_metric_reset;
  metric_class->update = ortrain_classification_metric_update;
  metric_class->compute = ortrain_classification_metric_compute;

  /**
   * OrtrainClassificationMetric:axis: (getter get_axis) (setter set_axis)
   *
   * The axis of the classes in the output, counted from the end if negative; the least integer for that of the loss
   * with the same output and target, or else the second or the last one, whichever fits the target. Default: G_MININT.
   */
  properties[PROP_AXIS] =
      ortrain_field_at (g_param_spec_int ("axis", NULL, NULL, G_MININT, G_MAXINT, G_MININT,
                                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY),
                        G_STRUCT_OFFSET (OrtrainClassificationMetric, axis));
  /**
   * OrtrainClassificationMetric:ignore-index: (getter get_ignore_index) (setter set_ignore_index)
   *
   * The number of a class whose items are left out; the least integer for that of the loss with the same output and
   * target, if there is one. Default: G_MININT64.
   */
  properties[PROP_IGNORE_INDEX] =
      ortrain_field_at (g_param_spec_int64 ("ignore-index", NULL, NULL, G_MININT64, G_MAXINT64, G_MININT64,
                                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY),
                        G_STRUCT_OFFSET (OrtrainClassificationMetric, ignored));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_classification_metric_init (OrtrainClassificationMetric *self)
{
  self->k = 1;
  self->followed_axis = G_MININT;
  self->followed_ignored = G_MININT64;
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_classification_metric_get_axis: (get-property axis)
 * @self: a metric
 *
 * Gets the axis of the classes in the output, counted from the end if negative.
 *
 * Returns: the axis; the least 32-bit integer where none was set
 */
int
ortrain_classification_metric_get_axis (OrtrainClassificationMetric *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CLASSIFICATION_METRIC (self), 0);
  return self->axis;
}

/**
 * ortrain_classification_metric_set_axis: (set-property axis)
 * @self: a metric
 * @axis: the new value
 *
 * Sets the axis of the classes in the output, counted from the end if negative.
 */
void
ortrain_classification_metric_set_axis (OrtrainClassificationMetric *self, int axis)
{
  g_return_if_fail (ORTRAIN_IS_CLASSIFICATION_METRIC (self));
  if (self->axis == axis)
    return;
  self->axis = axis;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_AXIS]);
}

/**
 * ortrain_classification_metric_get_ignore_index: (get-property ignore-index)
 * @self: a metric
 *
 * Gets the number of a class whose items are left out.
 *
 * Returns: the number; the least 64-bit integer where none was set
 */
gint64
ortrain_classification_metric_get_ignore_index (OrtrainClassificationMetric *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CLASSIFICATION_METRIC (self), 0);
  return self->ignored;
}

/**
 * ortrain_classification_metric_set_ignore_index: (set-property ignore-index)
 * @self: a metric
 * @ignore_index: the new value
 *
 * Sets the number of a class whose items are left out.
 */
void
ortrain_classification_metric_set_ignore_index (OrtrainClassificationMetric *self, gint64 ignore_index)
{
  g_return_if_fail (ORTRAIN_IS_CLASSIFICATION_METRIC (self));
  if (self->ignored == ignore_index)
    return;
  self->ignored = ignore_index;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_IGNORE_INDEX]);
}

/**
 * ortrain_classification_metric_new:
 * @measure: the value to compute
 * @average: how the values of classes become one; an accuracy has no classes
 * @output: the output of the model, with scores
 * @target: the name of the expected values, among the data
 *
 * Creates a metric, which is called `accuracy`, or `macro_f1`, `micro_recall` and so on.
 *
 * Returns: (transfer full) (type OrtrainClassificationMetric): the new object
 */
OrtrainMetric *
ortrain_classification_metric_new (OrtrainClassificationMeasure measure, OrtrainAverage average, const char *output,
                                   const char *target)
{
  g_return_val_if_fail (output != NULL && target != NULL, NULL);
  g_return_val_if_fail (measure <= ORTRAIN_CLASSIFICATION_MEASURE_F1 && average <= ORTRAIN_AVERAGE_MICRO, NULL);

  static const char *const names[] = { "accuracy", "precision", "recall", "f1" };
  static const char *const averages[] = { "macro", "micro" };
  OrtrainClassificationMetric *self = g_object_new (ORTRAIN_TYPE_CLASSIFICATION_METRIC, NULL);
  self->measure = measure;
  self->average = average;
  self->output = g_strdup (output);
  self->target = g_strdup (target);
  g_autofree char *name = measure == ORTRAIN_CLASSIFICATION_MEASURE_ACCURACY
                              ? g_strdup (names[measure])
                              : g_strconcat (averages[average], "_", names[measure], NULL);
  ortrain_metric_set_name (ORTRAIN_METRIC (self), name);
  return ORTRAIN_METRIC (self);
}

/**
 * ortrain_classification_metric_new_accuracy:
 * @k: among how many of the best classes the right one has to be, at least 1
 * @output: the output of the model, with scores
 * @target: the name of the expected values, among the data
 *
 * Creates an accuracy, which is called `accuracy`, or `top5_accuracy` and so on.
 *
 * Returns: (transfer full) (type OrtrainClassificationMetric): the new object
 */
OrtrainMetric *
ortrain_classification_metric_new_accuracy (guint k, const char *output, const char *target)
{
  g_return_val_if_fail (k > 0 && output != NULL && target != NULL, NULL);

  OrtrainMetric *self = ortrain_classification_metric_new (ORTRAIN_CLASSIFICATION_MEASURE_ACCURACY,
                                                           ORTRAIN_AVERAGE_MACRO, output, target);
  g_autofree char *name = g_strdup_printf ("top%u_accuracy", k);
  ORTRAIN_CLASSIFICATION_METRIC (self)->k = k;
  if (k > 1)
    ortrain_metric_set_name (self, name);
  return self;
}

/**
 * ortrain_classification_metric_get_confusion_matrix:
 * @self: a metric
 * @error: return location for an error
 *
 * Gets how many items of each class were taken for each class, since the last reset. Errors are
 * %ORTRAIN_SESSION_ERROR_STATE if there was no batch, or if there are more than 1024 classes, and those of
 * [error@TensorError].
 *
 * Returns: (transfer full): an int64 tensor [class, class that it was taken for]; %NULL on error
 */
OrtrainTensor *
ortrain_classification_metric_get_confusion_matrix (OrtrainClassificationMetric *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_CLASSIFICATION_METRIC (self), NULL);

  if (self->confusion == NULL)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                   self->n_classes == 0 ? "There is no confusion matrix yet; evaluate some data first"
                                        : "A confusion matrix has at most 1024 classes");
      return NULL;
    }
  const gint64 dims[] = { self->n_classes, self->n_classes };
  OrtrainTensor *matrix = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, error);
  if (matrix != NULL)
    memcpy (ortrain_tensor_peek_writable (matrix), self->confusion,
            (gsize) self->n_classes * (gsize) self->n_classes * sizeof (gint64));
  return matrix;
}
