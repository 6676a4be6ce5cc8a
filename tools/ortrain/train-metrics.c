/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "train-metrics.h"

#include "core/ortrain-text-private.h"

#include <string.h>

#define CONFUSION_MATRIX "confusion-matrix"
#define METRICS "topN (top5), f1, precision, recall (or micro_f1 …), mae, rmse, r2, " CONFUSION_MATRIX

OrtrainMetric *
train_metrics_make (const char *name, const char *output, const char *target)
{
  static const struct
  {
    const char *name;
    OrtrainClassificationMeasure measure;
  } classes[] = { { "precision", ORTRAIN_CLASSIFICATION_MEASURE_PRECISION },
                  { "recall", ORTRAIN_CLASSIFICATION_MEASURE_RECALL },
                  { "f1", ORTRAIN_CLASSIFICATION_MEASURE_F1 } };
  static const struct
  {
    const char *name;
    OrtrainRegressionMeasure measure;
  } numbers[] = { { "mae", ORTRAIN_REGRESSION_MEASURE_MAE },
                  { "rmse", ORTRAIN_REGRESSION_MEASURE_RMSE },
                  { "r2", ORTRAIN_REGRESSION_MEASURE_R2 } };
  const gboolean micro = g_str_has_prefix (name, "micro_"), macro = g_str_has_prefix (name, "macro_");
  const char *measure = micro || macro ? name + strlen ("micro_") : name;
  guint64 k;
  if (g_str_has_prefix (name, "top") && g_ascii_string_to_unsigned (name + strlen ("top"), 10, 2, G_MAXINT, &k, NULL))
    return ortrain_classification_metric_new_accuracy ((guint) k, output, target);
  for (guint i = 0; i < G_N_ELEMENTS (classes); i++)
    if (g_str_equal (measure, classes[i].name))
      return ortrain_classification_metric_new (classes[i].measure,
                                                micro ? ORTRAIN_AVERAGE_MICRO : ORTRAIN_AVERAGE_MACRO, output, target);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (g_str_equal (name, numbers[i].name))
      return ortrain_regression_metric_new (numbers[i].measure, output, target);
  return NULL;
}

gboolean
train_metrics_take_confusion (char **names)
{
  gboolean found = FALSE;
  guint n = 0;
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    if (g_str_equal (names[i], CONFUSION_MATRIX))
      {
        found = TRUE;
        g_free (names[i]);
      }
    else
      names[n++] = names[i];
  if (names != NULL)
    names[n] = NULL;
  return found;
}

gboolean
train_metrics_check (char **names, GError **error)
{
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    {
      g_autoptr (OrtrainMetric) metric = train_metrics_make (names[i], "", "");
      if (metric == NULL)
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                       "There is no metric '%s'; the metrics are " METRICS
                       "; the accuracy of classifiers is always printed",
                       ortrain_text_show (names[i]));
          return FALSE;
        }
      for (guint k = 0; k < i; k++)
        {
          g_autoptr (OrtrainMetric) other = train_metrics_make (names[k], "", "");
          if (!g_str_equal (ortrain_metric_get_name (other), ortrain_metric_get_name (metric)))
            continue;
          if (g_str_equal (names[k], names[i]))
            g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--metric %s is given twice", names[i]);
          else
            g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--metric %s and --metric %s are the same",
                         names[k], names[i]);
          return FALSE;
        }
    }
  return TRUE;
}

char *
train_metrics_choose_monitor (const char *name, char ***metrics, GError **error)
{
  if (g_str_equal (name, "loss") || g_str_equal (name, "accuracy"))
    return g_strdup (name);
  g_autoptr (OrtrainMetric) metric = train_metrics_make (name, "", "");
  const char *title = metric != NULL ? ortrain_metric_get_name (metric) : name; /* "macro_f1" of "f1" */
  const guint n = *metrics != NULL ? g_strv_length (*metrics) : 0;
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (OrtrainMetric) given = train_metrics_make ((*metrics)[i], "", "");
      if (g_str_equal (ortrain_metric_get_name (given), title))
        return g_strdup (title);
    }
  if (metric == NULL)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--monitor cannot be '%s'; there are loss, accuracy, and the metrics: " METRICS,
                   ortrain_text_show (name));
      return NULL;
    }
  *metrics = g_renew (char *, *metrics, n + 2);
  (*metrics)[n] = g_strdup (name);
  (*metrics)[n + 1] = NULL;
  return g_strdup (title);
}
