/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-image-file-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"

#include <string.h>

#ifdef ORTRAIN_HAVE_GDK_PIXBUF
#include "preprocessing/ortrain-resample-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <errno.h>
#include <fcntl.h>
#include <gdk-pixbuf/gdk-pixbuf.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

/* Endings of pictures. Formats that are part of GdkPixbuf have no package. */
static const struct
{
  const char *ending, *format, *package; /* that has the loader, in Debian */
} known[] = {
  { ".png", NULL, NULL },
  { ".jpg", NULL, NULL },
  { ".jpeg", NULL, NULL },
  { ".gif", NULL, NULL },
  { ".bmp", NULL, NULL },
  { ".tif", NULL, NULL },
  { ".tiff", NULL, NULL },
  { ".ppm", NULL, NULL },
  { ".pgm", NULL, NULL },
  { ".pbm", NULL, NULL },
  { ".pnm", NULL, NULL },
  { ".webp", "WebP", "webp-pixbuf-loader" },
  { ".avif", "AVIF", "libavif-gdk-pixbuf" },
  { ".heic", "HEIF", "heif-gdk-pixbuf" },
  { ".heif", "HEIF", "heif-gdk-pixbuf" },
  { ".jxl", "JPEG XL", "libjxl-gdk-pixbuf" },
};

/* A place in `known`; or -1. */
static gint
find_ending (const char *name)
{
  g_autofree char *lower = g_ascii_strdown (name, -1);
  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    if (g_str_has_suffix (lower, known[i].ending))
      return (gint) i;
  return -1;
}

#ifdef ORTRAIN_HAVE_GDK_PIXBUF

/* Whether a loader that is installed knows the ending; those of drawings without pixels do not count. */
static gboolean
has_loader (const char *name)
{
  const char *dot = strrchr (name, '.');
  g_autoptr (GSList) formats = dot != NULL ? gdk_pixbuf_get_formats () : NULL;
  gboolean found = FALSE;
  for (GSList *each = formats; each != NULL && !found; each = each->next)
    {
      g_auto (GStrv) endings = gdk_pixbuf_format_get_extensions (each->data);
      for (guint i = 0; endings[i] != NULL && !gdk_pixbuf_format_is_scalable (each->data); i++)
        found = found || g_ascii_strcasecmp (endings[i], dot + 1) == 0;
    }
  return found;
}

gboolean
ortrain_image_is_name (const char *name)
{
  return find_ending (name) >= 0 || has_loader (name);
}

gboolean
ortrain_image_check_loader (const char *path, GError **error)
{
  const gint i = find_ending (path);
  struct stat about;
  if (i < 0 || known[i].package == NULL || has_loader (path) || g_stat (path, &about) != 0 ||
      !S_ISREG (about.st_mode) || gdk_pixbuf_get_file_info (path, NULL, NULL) != NULL)
    return TRUE;
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
               "%s: GdkPixbuf has no loader for %s pictures here; install one (in Debian, the package %s), or convert "
               "the pictures to PNG or JPEG",
               ortrain_text_show_path (path), known[i].format, known[i].package);
  return FALSE;
}

/* Bytes that are fed to the decoder at once, before it knows the size and afterwards. */
#define FIRST_BYTES 4096
#define MORE_BYTES 65536

typedef struct
{
  guint64 max_pixels;
  gint width, height; /* 0: not known yet */
  gint n_rows;        /* of which there are pixels */
  gboolean too_large;
} Size;

/* Called before memory for the pixels is taken. A size of 0 has the decoder give up. */
static void
on_size (GdkPixbufLoader *loader, gint width, gint height, gpointer data)
{
  Size *size = data;
  size->width = width;
  size->height = height;
  size->too_large = width <= 0 || height <= 0 || (guint64) width > size->max_pixels / (guint64) height;
  if (size->too_large)
    gdk_pixbuf_loader_set_size (loader, 0, 0);
}

static void
on_rows (GdkPixbufLoader *loader, gint x, gint y, gint width, gint height, gpointer data)
{
  Size *size = data;
  size->n_rows = MAX (size->n_rows, y + height);
}

/* The decoders of these formats take the end of the file for the end of the picture. Others say that it is cut off, or
 * tell of no rows. */
static gboolean
is_cut_off (GdkPixbufLoader *loader, const Size *size)
{
  GdkPixbufFormat *format = gdk_pixbuf_loader_get_format (loader);
  g_autofree char *name = format != NULL ? gdk_pixbuf_format_get_name (format) : NULL;
  return size->n_rows < size->height && (g_strcmp0 (name, "png") == 0 || g_strcmp0 (name, "jpeg") == 0);
}

static gboolean
fail_io (GError **error, const char *what, const char *path, int number)
{
  const char *name = ortrain_text_show_path (path);
  g_set_error (error, G_FILE_ERROR, (int) g_file_error_from_errno (number), "Cannot %s '%s': %s", what, name,
               g_strerror (number));
  return FALSE;
}

static gboolean
fail (GError **error, const char *path, const char *reason)
{
  const char *name = ortrain_text_show_path (path);
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, "%s: %s", name, ortrain_text_show (reason));
  return FALSE;
}

static gboolean
fail_size (GError **error, const char *path, const Size *size)
{
  g_autofree char *reason =
      g_strdup_printf ("The picture has %d x %d pixels, the limit is %" G_GUINT64_FORMAT " pixels", size->width,
                       size->height, size->max_pixels);
  return fail (error, path, reason);
}

/* Only files: a pipe or a device would not end. */
static int
open_file (const char *path, guint64 max_bytes, GError **error)
{
  struct stat about;
  const int fd = g_open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0)
    {
      fail_io (error, "open", path, errno);
      return -1;
    }
  if (fstat (fd, &about) != 0)
    fail_io (error, "read", path, errno);
  else if (!S_ISREG (about.st_mode))
    fail (error, path, "This is not a file");
  else if ((guint64) about.st_size > max_bytes)
    fail (error, path, "The file is larger than a picture of so many pixels as the limit allows");
  else
    return fd;
  close (fd);
  return -1;
}

static gboolean
feed (GdkPixbufLoader *loader, int fd, const char *path, const Size *size, GError **error)
{
  g_autofree guint8 *bytes = g_malloc (MORE_BYTES);
  g_autoptr (GError) reason = NULL;
  for (;;)
    {
      const gssize n = read (fd, bytes, size->width == 0 ? FIRST_BYTES : MORE_BYTES);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return fail_io (error, "read", path, errno);
      if (n == 0)
        return TRUE;
      const gboolean fed = gdk_pixbuf_loader_write (loader, bytes, (gsize) n, &reason);
      if (size->too_large)
        return fail_size (error, path, size);
      if (!fed)
        return fail (error, path, reason->message);
    }
}

static GdkPixbuf *
decode (const char *path, guint64 max_pixels, GError **error)
{
  Size size = { .max_pixels = max_pixels };
  if (!ortrain_image_check_loader (path, error))
    return NULL;
  const int fd = open_file (path, max_pixels > G_MAXUINT64 / 32 ? G_MAXUINT64 : max_pixels * 16 + (1 << 20), error);
  if (fd < 0)
    return NULL;
  g_autoptr (GdkPixbufLoader) loader = gdk_pixbuf_loader_new ();
  g_autoptr (GError) reason = NULL;
  g_signal_connect (loader, "size-prepared", G_CALLBACK (on_size), &size);
  g_signal_connect (loader, "area-updated", G_CALLBACK (on_rows), &size);
  const gboolean fed = feed (loader, fd, path, &size, error);
  close (fd);
  /* closed in any case; some formats are decoded here */
  const gboolean closed = gdk_pixbuf_loader_close (loader, &reason);
  if (!fed)
    return NULL;
  if (size.too_large)
    {
      fail_size (error, path, &size);
      return NULL;
    }
  GdkPixbuf *pixels = closed ? gdk_pixbuf_loader_get_pixbuf (loader) : NULL;
  if (pixels == NULL)
    {
      fail (error, path, reason != NULL ? reason->message : "There is no picture in the file");
      return NULL;
    }
  if (is_cut_off (loader, &size))
    {
      fail (error, path, "The file ends in the middle of the picture");
      return NULL;
    }
  GdkPixbuf *upright = gdk_pixbuf_apply_embedded_orientation (pixels);
  if (upright == NULL)
    fail (error, path, "There is no memory to turn the picture");
  return upright;
}

/* Transparency is left out; grey as Pillow has it. */
static void
convert (GdkPixbuf *pixels, guint channels, float *to)
{
  const gint width = gdk_pixbuf_get_width (pixels), height = gdk_pixbuf_get_height (pixels);
  const gint n = gdk_pixbuf_get_n_channels (pixels), stride = gdk_pixbuf_get_rowstride (pixels);
  const guint8 *from = gdk_pixbuf_read_pixels (pixels);
  const gsize plane = (gsize) width * (gsize) height;
  for (gint y = 0; y < height; y++)
    {
      const guint8 *pixel = from + (gsize) y * (gsize) stride;
      for (gint x = 0; x < width; x++, pixel += n, to++)
        if (channels == 3)
          for (guint c = 0; c < 3; c++)
            to[c * plane] = (float) pixel[c] / 255.0f;
        else
          *to = (float) ((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16) / 255.0f;
    }
}

OrtrainTensor *
ortrain_image_read (const char *path, guint width, guint height, guint channels, guint64 max_pixels, GError **error)
{
  g_autoptr (GdkPixbuf) pixels = decode (path, max_pixels, error);
  if (pixels == NULL)
    return NULL;
  const gint64 old_width = gdk_pixbuf_get_width (pixels), old_height = gdk_pixbuf_get_height (pixels);
  const gint64 new_width = width > 0 ? width : old_width, new_height = height > 0 ? height : old_height;
  g_autoptr (OrtrainTensor) image =
      ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ channels, old_height, old_width }, 3, error);
  if (image == NULL)
    return NULL;
  convert (pixels, channels, ortrain_tensor_peek_writable (image));
  if (new_width == old_width && new_height == old_height)
    return g_steal_pointer (&image);
  g_autoptr (OrtrainTensor) resized =
      ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ channels, new_height, new_width }, 3, error);
  if (resized == NULL || !ortrain_resample (ortrain_tensor_peek (image), channels, old_height, old_width,
                                            ortrain_tensor_peek_writable (resized), new_height, new_width, error))
    return NULL;
  return g_steal_pointer (&resized);
}

#else

gboolean
ortrain_image_is_name (const char *name)
{
  return find_ending (name) >= 0;
}

gboolean
ortrain_image_check_loader (const char *path, GError **error)
{
  return TRUE; /* the error of reading it names the missing part */
}

OrtrainTensor *
ortrain_image_read (const char *path, guint width, guint height, guint channels, guint64 max_pixels, GError **error)
{
  const char *name = ortrain_text_show_path (path);
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
               "%s: This build of Ortrain cannot read pictures; install GdkPixbuf and build it with -Dimages=enabled",
               name);
  return NULL;
}

#endif

/**
 * ortrain_read_image:
 * @path: (type filename): a picture: PNG, JPEG, or whatever else GdkPixbuf knows
 * @width: the width to bring it to, or 0 for that of the file
 * @height: the height to bring it to, or 0 for that of the file
 * @channels: 3 for red, green and blue, or 1 for grey
 * @error: return location for an error
 *
 * Reads a picture as [class@ImageFolder] does: float32 [channels, height, width] from 0 to 1, upright, without
 * transparency.
 *
 * Errors are %ORTRAIN_DATA_ERROR_INVALID for a file that is not a picture, is broken, or has more than 2^26 pixels, and
 * where the library was built without GdkPixbuf, those of [error@GLib.FileError] and [error@TensorError].
 *
 * Returns: (transfer full): the picture; %NULL on error
 */
OrtrainTensor *
ortrain_read_image (const char *path, guint width, guint height, guint channels, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (channels == 1 || channels == 3, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  return ortrain_image_read (path, width, height, channels, ORTRAIN_IMAGE_MAX_PIXELS, error);
}
