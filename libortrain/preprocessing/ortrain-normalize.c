/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-normalize.h"

#include "core/ortrain-errors.h"
#include "preprocessing/ortrain-image-transform-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>

/**
 * OrtrainNormalize:
 *
 * Subtracts the mean of each channel of a picture, and divides by its standard deviation: `(x - mean) / std`. Models
 * that were trained on ImageNet expect the means 0.485, 0.456, 0.406 and the deviations 0.229, 0.224, 0.225.
 *
 * ```python
 * item = Ortrain.TensorDict({"image": np.full((3, 2, 2), 0.5, np.float32)})
 * Ortrain.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).apply(item, 0)
 * print(item["image"].numpy()[:, 0, 0])                       # 0.0655 0.1964 0.4178
 * ```
 */
struct _OrtrainNormalize
{
  OrtrainImageTransform parent_instance;
  double *mean;
  double *std;
  gsize n;
};

G_DEFINE_FINAL_TYPE (OrtrainNormalize, ortrain_normalize, ORTRAIN_TYPE_IMAGE_TRANSFORM)

static OrtrainTensor *
ortrain_normalize_run (OrtrainImageTransform *transform, OrtrainTensor *image, guint64 seed, GError **error)
{
  OrtrainNormalize *self = ORTRAIN_NORMALIZE (transform);
  const gint64 *dims = ortrain_tensor_peek_dims (image);
  if (!ortrain_image_check_float (transform, image, error))
    return NULL;
  if (self->n != 1 && (gint64) self->n != dims[0])
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "There are means of %" G_GSIZE_FORMAT " channels, the picture has %" G_GINT64_FORMAT, self->n,
                   dims[0]);
      return NULL;
    }
  OrtrainTensor *result = ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_FLOAT32, dims, 3, error);
  if (result == NULL)
    return NULL;
  const float *from = ortrain_tensor_peek (image);
  float *to = ortrain_tensor_peek_writable (result);
  const gint64 n = dims[1] * dims[2];
  for (gint64 c = 0; c < dims[0]; c++, from += n, to += n)
    {
      const float mean = (float) self->mean[self->n > 1 ? c : 0], std = (float) self->std[self->n > 1 ? c : 0];
      for (gint64 i = 0; i < n; i++)
        to[i] = (from[i] - mean) / std;
    }
  return result;
}

static void
ortrain_normalize_finalize (GObject *object)
{
  OrtrainNormalize *self = ORTRAIN_NORMALIZE (object);
  g_free (self->mean);
  g_free (self->std);
  G_OBJECT_CLASS (ortrain_normalize_parent_class)->finalize (object);
}

static void
ortrain_normalize_class_init (OrtrainNormalizeClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = ortrain_normalize_finalize;
  ORTRAIN_IMAGE_TRANSFORM_CLASS (klass)->run = ortrain_normalize_run;
}

static void
ortrain_normalize_init (OrtrainNormalize *self)
{
}

/**
 * ortrain_normalize_new:
 * @mean: (array length=n_mean): the mean of each channel, or one for all
 * @n_mean: how many
 * @std: (array length=n_std): the standard deviation of each channel, as many
 * @n_std: how many
 * @error: return location for an error
 *
 * Creates a transform that normalizes the channels. Errors are %ORTRAIN_DATA_ERROR_INVALID for different numbers of
 * means and deviations, for none, and for a deviation that is not above 0.
 *
 * Returns: (transfer full) (type OrtrainNormalize): the transform; %NULL on error
 */
OrtrainTransform *
ortrain_normalize_new (const double *mean, gsize n_mean, const double *std, gsize n_std, GError **error)
{
  g_return_val_if_fail (mean != NULL || n_mean == 0, NULL);
  g_return_val_if_fail (std != NULL || n_std == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (n_mean != n_std || n_mean == 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "The numbers of means (%" G_GSIZE_FORMAT ") and of standard deviations (%" G_GSIZE_FORMAT
                   ") must be equal: one of each for a channel",
                   n_mean, n_std);
      return NULL;
    }
  for (gsize i = 0; i < n_mean; i++)
    if (!isfinite (mean[i]) || !isfinite (std[i]) || !((float) std[i] > 0))
      {
        g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                     "Channel %" G_GSIZE_FORMAT
                     ": the mean is %g, the standard deviation %g; both are finite, and the deviation is above 0",
                     i, mean[i], std[i]);
        return NULL;
      }
  OrtrainNormalize *self = g_object_new (ORTRAIN_TYPE_NORMALIZE, NULL);
  self->mean = g_memdup2 (mean, n_mean * sizeof *mean);
  self->std = g_memdup2 (std, n_std * sizeof *std);
  self->n = n_mean;
  return ORTRAIN_TRANSFORM (self);
}

/**
 * ortrain_normalize_get_mean:
 * @self: a transform
 * @n: (out): how many there are
 *
 * Gets the means that are subtracted, one for each channel or one for all.
 *
 * Returns: (array length=n) (transfer none): the means
 */
const double *
ortrain_normalize_get_mean (OrtrainNormalize *self, gsize *n)
{
  g_return_val_if_fail (ORTRAIN_IS_NORMALIZE (self), NULL);
  g_return_val_if_fail (n != NULL, NULL);
  *n = self->n;
  return self->mean;
}

/**
 * ortrain_normalize_get_std:
 * @self: a transform
 * @n: (out): how many there are
 *
 * Gets the standard deviations that are divided by, as many as there are means.
 *
 * Returns: (array length=n) (transfer none): the deviations
 */
const double *
ortrain_normalize_get_std (OrtrainNormalize *self, gsize *n)
{
  g_return_val_if_fail (ORTRAIN_IS_NORMALIZE (self), NULL);
  g_return_val_if_fail (n != NULL, NULL);
  *n = self->n;
  return self->std;
}
