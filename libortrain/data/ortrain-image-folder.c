/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-image-folder.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "data/ortrain-dataset-private.h"
#include "preprocessing/ortrain-image-file-private.h"

#include <string.h>

/**
 * OrtrainImageFolder:
 *
 * Pictures in folders, one folder for each class: `flowers/rose/1.jpg`, `flowers/lily/a.png`. The class of a picture is
 * the number of its folder among the sorted names. Pictures are decoded when they are read: float32 [channels, height,
 * width] from 0 to 1, and the class as int64 [].
 *
 * ```python
 * folder = Ortrain.ImageFolder("flowers", width=32, height=32)
 * print(folder.classes, len(folder), folder.get_item_path(0))
 * dataset = Ortrain.TransformedDataset(folder, [
 *     Ortrain.RandomHorizontalFlip(), Ortrain.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
 * batch = Ortrain.DataLoader(dataset, 4).next()
 * print(batch["image"].shape, batch["labels"].numpy())        # (4, 3, 32, 32)
 * ```
 *
 * Formats are those of GdkPixbuf: PNG, JPEG, GIF (the first picture), BMP, TIFF, PNM, and those of other installed
 * loaders. Pictures are turned upright where the file says how; transparency is left out; grey is computed as Pillow
 * does. The pictures of a batch need one size: set [property@ImageFolder:width] and [property@ImageFolder:height], or
 * use [class@Resize] and a crop. Hidden files, files with other endings, and folders inside of those of the classes are
 * not looked at.
 *
 * Several threads may read items at once, while none changes the dataset. A library that was built without GdkPixbuf
 * has this class, but cannot read the pictures.
 */

typedef struct
{
  char *path; /* below the folder */
  guint label;
} Item;

/* The files and classes found, which never change: shared with snapshots. */
typedef struct
{
  gatomicrefcount ref_count;
  char *folder;
  char **classes;
  GArray *items; /* of Item */
} Files;

struct _OrtrainImageFolder
{
  OrtrainDataset parent_instance;
  Files *files; /* NULL: made by g_object_new() */
  char *image_name, *label_name;
  guint width, height, channels;
  guint64 max_pixels;
};

G_DEFINE_FINAL_TYPE (OrtrainImageFolder, ortrain_image_folder, ORTRAIN_TYPE_DATASET)

enum
{
  PROP_CLASSES = 1,
  PROP_WIDTH,
  PROP_HEIGHT,
  PROP_CHANNELS,
  PROP_MAX_PIXELS,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

/* ---- files ---- */

static void
clear_item (gpointer data)
{
  g_free (((Item *) data)->path);
}

static void
files_unref (Files *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_free (self->folder);
  g_strfreev (self->classes);
  g_array_unref (self->items);
  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Files, files_unref)

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

/* The folders, or the pictures, in a folder, sorted by the bytes of their names, as Python sorts them. */
static GPtrArray *
list_names (const char *path, gboolean folders, GError **error)
{
  g_autoptr (GError) reason = NULL;
  g_autoptr (GDir) dir = g_dir_open (path, 0, &reason);
  if (dir == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&reason));
      return NULL;
    }
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  for (const char *name = g_dir_read_name (dir); name != NULL; name = g_dir_read_name (dir))
    {
      g_autofree char *full = g_build_filename (path, name, NULL);
      if (*name != '.' && (folders || ortrain_image_is_name (name)) &&
          g_file_test (full, G_FILE_TEST_IS_DIR) == folders)
        g_ptr_array_add (names, g_strdup (name));
    }
  g_ptr_array_sort (names, compare_names);
  return names;
}

static gint
find_class (const char *const *classes, const char *name)
{
  for (gint i = 0; classes[i] != NULL; i++)
    if (g_str_equal (classes[i], name))
      return i;
  return -1;
}

/* Adds the pictures of one class. */
static gboolean
add_class (Files *self, const char *name, guint label, GError **error)
{
  g_autofree char *full = g_build_filename (self->folder, name, NULL);
  g_autoptr (GPtrArray) pictures = list_names (full, FALSE, error);
  if (pictures == NULL)
    return FALSE;
  if (pictures->len == 0)
    {
      const char *shown = ortrain_text_show_path (full);
      g_set_error (
          error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
          "%s: The folder of this class has no pictures (.png, .jpg, .jpeg, .gif, .bmp, .tiff, .webp, .ppm and "
          "other formats that GdkPixbuf has loaders for); remove it, or put some there",
          shown);
      return FALSE;
    }
  for (guint i = 0; i < pictures->len; i++)
    {
      const Item item = { g_build_filename (name, pictures->pdata[i], NULL), label };
      g_array_append_val (self->items, item);
      g_autofree char *picture = g_build_filename (self->folder, item.path, NULL);
      if (!ortrain_image_check_loader (picture, error))
        return FALSE;
    }
  return TRUE;
}

static Files *
find_files (const char *path, const char *const *classes, GError **error)
{
  g_autoptr (GPtrArray) names = list_names (path, TRUE, error);
  const char *shown = ortrain_text_show_path (path);
  if (names == NULL)
    return NULL;
  if (names->len == 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
                   "%s: There are no folders here; the pictures of each class belong to a folder of its name", shown);
      return NULL;
    }
  g_autoptr (Files) self = g_new0 (Files, 1);
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (g_free);
  g_atomic_ref_count_init (&self->ref_count);
  self->folder = g_strdup (path);
  self->items = g_array_new (FALSE, FALSE, sizeof (Item));
  g_array_set_clear_func (self->items, clear_item);
  for (guint i = 0; i < names->len; i++)
    {
      /* a name in another encoding is shown in this one, and stays as it is where the files are opened */
      g_autofree char *name = g_filename_display_name (names->pdata[i]);
      const gint label = classes != NULL ? find_class (classes, name) : (gint) i;
      if (label < 0)
        {
          g_autofree char *list = g_strjoinv ("', '", (char **) classes);
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                       "%s: The folder '%s' is not one of the %u classes, '%s'", shown, ortrain_text_show (name),
                       g_strv_length ((char **) classes), ortrain_text_show_list (list));
          return NULL;
        }
      if (!add_class (self, names->pdata[i], (guint) label, error))
        return NULL;
      g_ptr_array_add (found, g_steal_pointer (&name));
    }
  g_ptr_array_add (found, NULL);
  self->classes =
      classes != NULL ? g_strdupv ((char **) classes) : (char **) g_ptr_array_free (g_steal_pointer (&found), FALSE);
  return g_steal_pointer (&self);
}

/* ---- the dataset ---- */

static guint64
ortrain_image_folder_get_length (OrtrainDataset *dataset)
{
  OrtrainImageFolder *self = ORTRAIN_IMAGE_FOLDER (dataset);
  return self->files != NULL ? self->files->items->len : 0;
}

static gboolean
ortrain_image_folder_fill_batch (OrtrainDataset *dataset, const guint64 *indices, gsize n_indices,
                                 OrtrainTensorDict *batch, GError **error)
{
  OrtrainImageFolder *self = ORTRAIN_IMAGE_FOLDER (dataset);
  if (self->channels == 2)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "Pictures have 1 channel or 3, not %u; set channels", self->channels);
      return FALSE;
    }
  for (gsize i = 0; i < n_indices; i++)
    {
      const gint64 label = g_array_index (self->files->items, Item, indices[i]).label;
      g_autofree char *path = ortrain_image_folder_get_item_path (self, indices[i]);
      g_autoptr (OrtrainTensorDict) item = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) image =
          ortrain_image_read (path, self->width, self->height, self->channels, self->max_pixels, error);
      g_autoptr (OrtrainTensor) number = image != NULL ? ortrain_tensor_new_ints (NULL, 0, &label, 1, error) : NULL;
      if (number == NULL)
        return FALSE;
      ortrain_tensor_dict_set (item, self->image_name, image);
      ortrain_tensor_dict_set (item, self->label_name, number);
      if (!ortrain_dataset_stack_item (batch, item, i, n_indices, indices[i], error))
        {
          const char *shown = ortrain_text_show_path (path);
          g_prefix_error (error, "%s: ", shown);
          return FALSE;
        }
    }
  return TRUE;
}

static OrtrainDataset *
ortrain_image_folder_snapshot (OrtrainDataset *dataset)
{
  OrtrainImageFolder *self = ORTRAIN_IMAGE_FOLDER (dataset);
  if (self->files == NULL)
    return NULL;
  OrtrainImageFolder *snapshot = g_object_new (ORTRAIN_TYPE_IMAGE_FOLDER, "width", self->width, "height", self->height,
                                               "channels", self->channels, "max-pixels", self->max_pixels, NULL);
  g_atomic_ref_count_inc (&self->files->ref_count);
  snapshot->files = self->files;
  snapshot->image_name = g_strdup (self->image_name);
  snapshot->label_name = g_strdup (self->label_name);
  return ORTRAIN_DATASET (snapshot);
}

static void
ortrain_image_folder_finalize (GObject *object)
{
  OrtrainImageFolder *self = ORTRAIN_IMAGE_FOLDER (object);
  g_clear_pointer (&self->files, files_unref);
  g_free (self->image_name);
  g_free (self->label_name);
  G_OBJECT_CLASS (ortrain_image_folder_parent_class)->finalize (object);
}

static void
ortrain_image_folder_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  if (id == PROP_CLASSES)
    g_value_set_boxed (value, ortrain_image_folder_get_classes (ORTRAIN_IMAGE_FOLDER (object)));
  else
    ortrain_field_get_property (object, id, value, pspec);
}

static void
ortrain_image_folder_class_init (OrtrainImageFolderClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  OrtrainDatasetClass *dataset_class = ORTRAIN_DATASET_CLASS (klass);
  object_class->finalize = ortrain_image_folder_finalize;
  object_class->get_property = ortrain_image_folder_get_property;
  object_class->set_property = ortrain_field_set_property;
  dataset_class->get_length = ortrain_image_folder_get_length;
  dataset_class->fill_batch = ortrain_image_folder_fill_batch;

  /**
   * OrtrainImageFolder:classes: (getter get_classes)
   *
   * The names of the classes, in the order of their numbers. Read-only.
   */
  properties[PROP_CLASSES] = g_param_spec_boxed ("classes", NULL, NULL, G_TYPE_STRV,
                                                 G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainImageFolder:width: (getter get_width) (setter set_width)
   *
   * The width to which each picture is resized; 0: that of the file. Default: 0, from 0 to 1048576.
   */
  properties[PROP_WIDTH] = ortrain_field_uint ("width", G_STRUCT_OFFSET (OrtrainImageFolder, width), 0, 1048576, 0);

  /**
   * OrtrainImageFolder:height: (getter get_height) (setter set_height)
   *
   * The height to which each picture is resized; 0: that of the file. Default: 0, from 0 to 1048576.
   */
  properties[PROP_HEIGHT] = ortrain_field_uint ("height", G_STRUCT_OFFSET (OrtrainImageFolder, height), 0, 1048576, 0);

  /**
   * OrtrainImageFolder:channels: (getter get_channels) (setter set_channels)
   *
   * 3 for red, green and blue, or 1 for grey. There is nothing between. Default: 3, from 1 to 3.
   */
  properties[PROP_CHANNELS] = ortrain_field_uint ("channels", G_STRUCT_OFFSET (OrtrainImageFolder, channels), 1, 3, 3);

  /**
   * OrtrainImageFolder:max-pixels: (getter get_max_pixels) (setter set_max_pixels)
   *
   * Pictures of more pixels are refused, before memory is taken for them. Default: 67108864, at least 1.
   */
  properties[PROP_MAX_PIXELS] =
      ortrain_field_uint64 ("max-pixels", G_STRUCT_OFFSET (OrtrainImageFolder, max_pixels), 1, G_MAXUINT64, 67108864);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_image_folder_init (OrtrainImageFolder *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
  ortrain_dataset_set_thread_safe (ORTRAIN_DATASET (self), TRUE);
  ortrain_dataset_set_snapshot (ORTRAIN_DATASET (self), ortrain_image_folder_snapshot);
}

/**
 * ortrain_image_folder_new:
 * @path: (type filename): a folder with a folder for each class
 * @image_name: the name of the pictures in batches, for instance `image`
 * @label_name: the name of the classes in batches, for instance `labels`
 * @classes: (nullable) (array zero-terminated=1): the classes in the order of their numbers, as
 *   [property@ImageFolder:classes] of the training data has them; %NULL: the names of the folders, sorted
 * @error: return location for an error
 *
 * Creates a dataset of the pictures in a folder. The meaning of a class has to be the same for all datasets of a model:
 * give the classes of the training data to that for validation, which may lack some of them.
 *
 * Errors are %ORTRAIN_DATA_ERROR_EMPTY for a folder without folders, or one of a class without pictures,
 * %ORTRAIN_DATA_ERROR_MISMATCH for a folder that is not one of @classes, and where the two names are equal, and those
 * of [error@GLib.FileError]. Reading an item fails with %ORTRAIN_DATA_ERROR_INVALID for a broken picture, or one that
 * is too large.
 *
 * Returns: (transfer full) (type OrtrainImageFolder): the dataset; %NULL on error
 */
OrtrainDataset *
ortrain_image_folder_new (const char *path, const char *image_name, const char *label_name, const char *const *classes,
                          GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (image_name != NULL && label_name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (g_str_equal (image_name, label_name))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "Images and labels have the same name '%s'",
                   ortrain_text_show (image_name));
      return NULL;
    }
  Files *files = find_files (path, classes, error);
  if (files == NULL)
    return NULL;
  OrtrainImageFolder *self = g_object_new (ORTRAIN_TYPE_IMAGE_FOLDER, NULL);
  self->files = files;
  self->image_name = g_strdup (image_name);
  self->label_name = g_strdup (label_name);
  return ORTRAIN_DATASET (self);
}

/**
 * ortrain_image_folder_get_classes: (get-property classes)
 * @self: a dataset
 *
 * Gets the names of the classes, in the order of their numbers.
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): the names
 */
const char *const *
ortrain_image_folder_get_classes (OrtrainImageFolder *self)
{
  g_return_val_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self), NULL);
  return self->files != NULL ? (const char *const *) self->files->classes : NULL;
}

/**
 * ortrain_image_folder_get_item_path:
 * @self: a dataset
 * @index: the number of an item, from 0
 *
 * Finds the file of an item, for messages about it.
 *
 * Returns: (transfer full) (nullable) (type filename): the path; %NULL for a number out of range
 */
char *
ortrain_image_folder_get_item_path (OrtrainImageFolder *self, guint64 index)
{
  g_return_val_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self), NULL);
  if (self->files == NULL || index >= self->files->items->len)
    return NULL;
  return g_build_filename (self->files->folder, g_array_index (self->files->items, Item, index).path, NULL);
}

/**
 * ortrain_image_folder_get_width: (get-property width)
 * @self: a dataset
 *
 * Gets the width to which each picture is resized.
 *
 * Returns: the width; 0 for that of the file
 */
guint
ortrain_image_folder_get_width (OrtrainImageFolder *self)
{
  g_return_val_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self), 0);
  return self->width;
}

/**
 * ortrain_image_folder_set_width: (set-property width)
 * @self: a dataset
 * @width: the width; 0 for that of the file
 *
 * Sets the width to which each picture is resized.
 */
void
ortrain_image_folder_set_width (OrtrainImageFolder *self, guint width)
{
  g_return_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self));
  ortrain_field_set_uint (self, properties[PROP_WIDTH], width);
}

/**
 * ortrain_image_folder_get_height: (get-property height)
 * @self: a dataset
 *
 * Gets the height to which each picture is resized.
 *
 * Returns: the height; 0 for that of the file
 */
guint
ortrain_image_folder_get_height (OrtrainImageFolder *self)
{
  g_return_val_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self), 0);
  return self->height;
}

/**
 * ortrain_image_folder_set_height: (set-property height)
 * @self: a dataset
 * @height: the height; 0 for that of the file
 *
 * Sets the height to which each picture is resized.
 */
void
ortrain_image_folder_set_height (OrtrainImageFolder *self, guint height)
{
  g_return_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self));
  ortrain_field_set_uint (self, properties[PROP_HEIGHT], height);
}

/**
 * ortrain_image_folder_get_channels: (get-property channels)
 * @self: a dataset
 *
 * Gets whether pictures have colours or are grey.
 *
 * Returns: 3 for red, green and blue, 1 for grey
 */
guint
ortrain_image_folder_get_channels (OrtrainImageFolder *self)
{
  g_return_val_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self), 0);
  return self->channels;
}

/**
 * ortrain_image_folder_set_channels: (set-property channels)
 * @self: a dataset
 * @channels: 3 for red, green and blue, 1 for grey
 *
 * Sets whether pictures have colours or are grey.
 */
void
ortrain_image_folder_set_channels (OrtrainImageFolder *self, guint channels)
{
  g_return_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self));
  ortrain_field_set_uint (self, properties[PROP_CHANNELS], channels);
}

/**
 * ortrain_image_folder_get_max_pixels: (get-property max-pixels)
 * @self: a dataset
 *
 * Gets how many pixels a picture may have.
 *
 * Returns: the number
 */
guint64
ortrain_image_folder_get_max_pixels (OrtrainImageFolder *self)
{
  g_return_val_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self), 0);
  return self->max_pixels;
}

/**
 * ortrain_image_folder_set_max_pixels: (set-property max-pixels)
 * @self: a dataset
 * @max_pixels: the number
 *
 * Sets how many pixels a picture may have.
 */
void
ortrain_image_folder_set_max_pixels (OrtrainImageFolder *self, guint64 max_pixels)
{
  g_return_if_fail (ORTRAIN_IS_IMAGE_FOLDER (self));
  ortrain_field_set_uint64 (self, properties[PROP_MAX_PIXELS], max_pixels);
}
