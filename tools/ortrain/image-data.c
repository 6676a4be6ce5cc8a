/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "image-data.h"

#include "command.h"
#include "core/ortrain-text-private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void
image_settings_clear (ImageSettings *self)
{
  g_free (self->size);
  g_free (self->mean);
  g_free (self->std);
}

typedef struct
{
  guint channels, height, width;
} Size;

/* The size of a picture for an input [batch, channels, height, width]. */
static gboolean
find_size (OrtrainValue *input, const ImageSettings *settings, Size *size, GError **error)
{
  g_autofree char *shape = ortrain_value_get_shape_string (input);
  const gint64 channels = ortrain_value_get_dim (input, 1);
  gint64 height = ortrain_value_get_dim (input, 2), width = ortrain_value_get_dim (input, 3);
  if (ortrain_value_get_rank (input) != 4 || (channels != 1 && channels != 3))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "Input '%s' is %s, pictures are [batch, 1 or 3 channels, height, width]",
                   ortrain_text_show (ortrain_value_get_name (input)), shape);
      return FALSE;
    }
  if (settings->size != NULL)
    {
      guint given[2];
      char after;
      if (sscanf (settings->size, "%5ux%5u%c", &given[0], &given[1], &after) != 2 || given[0] == 0 || given[1] == 0)
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--image-size is WIDTHxHEIGHT, not '%s'",
                       settings->size);
          return FALSE;
        }
      if ((width > 0 && width != given[0]) || (height > 0 && height != given[1]))
        {
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                       "--image-size is %s, but input '%s' is %s", settings->size,
                       ortrain_text_show (ortrain_value_get_name (input)), shape);
          return FALSE;
        }
      width = given[0];
      height = given[1];
    }
  if (width <= 0 || height <= 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "Input '%s' is %s, which leaves the size of pictures open; give --image-size WIDTHxHEIGHT",
                   ortrain_text_show (ortrain_value_get_name (input)), shape);
      return FALSE;
    }
  *size = (Size){ (guint) channels, (guint) height, (guint) width };
  return TRUE;
}

OrtrainDataset *
image_open_folder (const char *path, OrtrainGraph *graph, const char *target, const ImageSettings *settings,
                   OrtrainCsvFormat *format, GError **error)
{
  Size size;
  g_autoptr (OrtrainValue) input = g_list_model_get_item (ortrain_graph_get_inputs (graph), 0);
  if (input == NULL)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The model has no inputs");
      return NULL;
    }
  if (!find_size (input, settings, &size, error))
    return NULL;
  OrtrainDataset *dataset =
      ortrain_image_folder_new (path, ortrain_value_get_name (input), target != NULL ? target : "labels",
                                ortrain_csv_format_get_classes (format), error);
  if (dataset == NULL)
    return NULL;
  ortrain_csv_format_set_classes (format, ortrain_image_folder_get_classes (ORTRAIN_IMAGE_FOLDER (dataset)));
  g_object_set (dataset, "channels", size.channels, "height", size.height, "width", size.width, NULL);
  return dataset;
}

/* "0.5" or "0.5,0.4,0.3". text: NULL: n times the default */
static double *
parse_numbers (const char *option, const char *text, gsize *n, double initial, GError **error)
{
  if (text == NULL)
    {
      double *numbers = g_new (double, *n);
      for (gsize i = 0; i < *n; i++)
        numbers[i] = initial;
      return numbers;
    }
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  g_autofree double *numbers = NULL;
  *n = g_strv_length (words);
  numbers = g_new (double, *n + 1);
  for (gsize i = 0; i < *n; i++)
    {
      char *end;
      numbers[i] = g_ascii_strtod (words[i], &end);
      if (end == words[i] || *end != '\0' || !isfinite (numbers[i]))
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                       "%s is a number, or one for each channel joined by commas, not '%s'", option, text);
          return NULL;
        }
    }
  return g_steal_pointer (&numbers);
}

/* NULL without an error: not needed */
static OrtrainTransform *
make_normalize (const ImageSettings *settings, GError **error)
{
  if (settings->mean == NULL && settings->std == NULL)
    return NULL;
  gsize n_mean = 1, n_std = 1;
  g_autofree double *mean = parse_numbers ("--mean", settings->mean, &n_mean, 0, error);
  if (mean == NULL)
    return NULL;
  if (settings->mean != NULL)
    n_std = n_mean;
  g_autofree double *std = parse_numbers ("--std", settings->std, &n_std, 1, error);
  if (std == NULL)
    return NULL;
  if (settings->mean == NULL)
    {
      n_mean = n_std;
      g_clear_pointer (&mean, g_free);
      mean = parse_numbers ("--mean", NULL, &n_mean, 0, error);
    }
  return ortrain_normalize_new (mean, n_mean, std, n_std, error);
}

/* One that cuts out as much as the pictures of the dataset are. */
static OrtrainTransform *
make_crop (OrtrainDataset *dataset, const char *name, gint padding, GError **error)
{
  g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_item (dataset, 0, error);
  if (item == NULL)
    return NULL;
  OrtrainTensor *image = ortrain_tensor_dict_get (item, name);
  if (image == NULL || ortrain_tensor_get_rank (image) != 3 || ortrain_tensor_get_dim (image, 1) > G_MAXINT32 ||
      ortrain_tensor_get_dim (image, 2) > G_MAXINT32)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "--crop needs pictures, [channels, height, width]; '%s' has none", ortrain_text_show (name));
      return NULL;
    }
  return ortrain_random_crop_new ((guint) ortrain_tensor_get_dim (image, 2), (guint) ortrain_tensor_get_dim (image, 1),
                                  (guint) padding);
}

OrtrainDataset *
image_transform (OrtrainDataset *dataset, OrtrainGraph *graph, const ImageSettings *settings, gboolean training,
                 guint64 seed, GError **error)
{
  const char *name = command_first_name (ortrain_graph_get_inputs (graph));
  g_autoptr (GPtrArray) transforms = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GError) local_error = NULL;
  if (training && settings->crop >= 0)
    {
      OrtrainTransform *crop = make_crop (dataset, name, settings->crop, error);
      if (crop == NULL)
        return NULL;
      g_ptr_array_add (transforms, crop);
    }
  if (training && settings->flip)
    g_ptr_array_add (transforms, ortrain_random_horizontal_flip_new (0.5));
  OrtrainTransform *normalize = make_normalize (settings, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  if (normalize != NULL)
    g_ptr_array_add (transforms, normalize);
  if (transforms->len == 0)
    return g_object_ref (dataset);
  for (guint i = 0; i < transforms->len; i++)
    g_object_set (transforms->pdata[i], "input", name, NULL);
  OrtrainDataset *transformed =
      ortrain_transformed_dataset_new (dataset, (OrtrainTransform **) transforms->pdata, transforms->len);
  ortrain_transformed_dataset_set_seed (ORTRAIN_TRANSFORMED_DATASET (transformed), seed);
  return transformed;
}

OrtrainTensor *
image_read_input (const char *path, OrtrainValue *input, const ImageSettings *settings, GError **error)
{
  Size size;
  if (!find_size (input, settings, &size, error))
    return NULL;
  g_autoptr (OrtrainTensor) image = ortrain_read_image (path, size.width, size.height, size.channels, error);
  if (image == NULL)
    return NULL;
  g_autoptr (GError) local_error = NULL;
  g_autoptr (OrtrainTransform) normalize = make_normalize (settings, &local_error);
  g_autoptr (OrtrainTensorDict) item = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (item, "image", image);
  if (local_error != NULL || (normalize != NULL && !ortrain_transform_apply (normalize, item, 0, &local_error)))
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  return ortrain_tensor_reshape (ortrain_tensor_dict_get (item, "image"),
                                 (gint64[]){ 1, size.channels, size.height, size.width }, 4, error);
}

gboolean
image_is_name (const char *path)
{
  static const char *const endings[] = { ".png", ".jpg", ".jpeg", ".gif", ".bmp",  ".tif",  ".tiff", ".webp",
                                         ".ppm", ".pgm", ".pbm",  ".pnm", ".avif", ".heic", ".heif", ".jxl" };
  g_autofree char *lower = g_ascii_strdown (path, -1);
  for (guint i = 0; i < G_N_ELEMENTS (endings); i++)
    if (g_str_has_suffix (lower, endings[i]))
      return TRUE;
  return FALSE;
}
