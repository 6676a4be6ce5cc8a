/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-manifest-private.h"

#include "checkpoint/ortrain-checkpoint-folder-private.h"
#include "checkpoint/ortrain-checkpoint-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-json-private.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The manifest of a checkpoint: JSON with a checksum of its own text. It may come from a stranger: names are plain,
 * files are opened below the folder without following links, and everything is measured before it is used. */

#define CHECKSUM "sha256"
#define N_DIGITS 64
#define MAX_BYTES ((gsize) 16 << 20)
#define MAX_DEPTH 8

/* Where the digits stand, NULL if nowhere. The checksum is the last member, so that the last place where its name
 * stands is its own, whatever names and texts come before. */
static char *
find_checksum (char *text, gsize size)
{
  static const char name[] = "\"" CHECKSUM "\"";
  char *at = g_strrstr_len (text, (gssize) size, name), *end = text + size;
  if (at == NULL)
    return NULL;
  for (at += strlen (name); at < end && *at != '"'; at++)
    ;
  return end - at > N_DIGITS + 1 && at[N_DIGITS + 1] == '"' ? at + 1 : NULL;
}

/* The checksum of the text with zeros in place of the digits, which are then written there. */
static char *
compute_checksum (char *text, gsize size, char *digits)
{
  memset (digits, '0', N_DIGITS);
  return g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *) text, size);
}

char *
ortrain_manifest_seal (JsonBuilder *builder)
{
  g_autofree char *zeros = g_strnfill (N_DIGITS, '0');
  json_builder_set_member_name (builder, CHECKSUM);
  json_builder_add_string_value (builder, zeros);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) node = json_builder_get_root (builder);
  g_autofree char *json = json_to_string (node, TRUE);
  char *text = g_strconcat (json, "\n", NULL);
  char *digits = find_checksum (text, strlen (text));
  g_autofree char *sum = compute_checksum (text, strlen (text), digits);
  memcpy (digits, sum, N_DIGITS);
  return text;
}

gboolean
ortrain_manifest_fail (GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID, "The manifest %s", what);
  return FALSE;
}

GBytes *
ortrain_folder_map (const OrtrainFolder *self, const char *name, GError **error)
{
  g_autofree char *path = g_build_filename (self->path, name, NULL);
  /* O_NONBLOCK: a pipe in the place of a file must not hold us up */
  int fd = openat (self->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat (fd, &st) != 0)
    {
      int code = errno;
      if (fd >= 0)
        close (fd);
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "Cannot open '%s': %s",
                   ortrain_text_show_path (path), g_strerror (code));
      return NULL;
    }
  GBytes *bytes = NULL;
  if (!S_ISREG (st.st_mode))
    g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID, "'%s' is not a regular file",
                 ortrain_text_show_path (path));
  else if ((bytes = ortrain_mapped_file_new_bytes (fd, path, error)) == NULL)
    g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
  close (fd);
  return bytes;
}

/* A copy: it is read twice, and must be the same both times. */
GBytes *
ortrain_manifest_map (const OrtrainFolder *root, GError **error)
{
  g_autoptr (GBytes) bytes = ortrain_folder_map (root, ORTRAIN_MANIFEST_NAME, error);
  if (bytes == NULL)
    return NULL;
  if (g_bytes_get_size (bytes) > MAX_BYTES)
    {
      ortrain_manifest_fail (error, "is larger than 16 MiB");
      return NULL;
    }
  g_autoptr (GBytes) copy = g_bytes_new (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  return ortrain_mapped_file_check_address (g_bytes_get_data (bytes, NULL), error) ? g_steal_pointer (&copy) : NULL;
}

JsonNode *
ortrain_manifest_get_member (JsonObject *object, const char *name, GType type)
{
  JsonNode *node = json_object_get_member (object, name);
  if (node == NULL)
    return NULL;
  if (type == JSON_TYPE_OBJECT)
    return JSON_NODE_HOLDS_OBJECT (node) ? node : NULL;
  if (type == JSON_TYPE_ARRAY)
    return JSON_NODE_HOLDS_ARRAY (node) ? node : NULL;
  return JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == type ? node : NULL;
}

/* Whether the text is the one that was written. */
static gboolean
check_text (const char *data, gsize size, gboolean needed, GError **error)
{
  g_autofree char *text = g_strndup (data, size);
  char *digits = find_checksum (text, size);
  if (digits == NULL)
    return !needed || ortrain_manifest_fail (error, "has no checksum");
  g_autofree char *found = g_strndup (digits, N_DIGITS), *sum = compute_checksum (text, size, digits);
  if (g_str_equal (found, sum))
    return TRUE;
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
               "The manifest has the checksum %s, and says %s", ortrain_text_show (sum), ortrain_text_show (found));
  return FALSE;
}

JsonNode *
ortrain_manifest_parse (GBytes *text, GError **error)
{
  gsize size;
  const char *data = g_bytes_get_data (text, &size);
  g_autoptr (GError) json_error = NULL;
  g_autoptr (JsonNode) node = ortrain_json_parse (data, size, MAX_DEPTH, &json_error);
  if (node == NULL)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
                   "The manifest is not valid JSON: %s", json_error->message);
      return NULL;
    }
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return ortrain_manifest_fail (error, "is not an object"), NULL;
  JsonObject *manifest = json_node_get_object (node);
  JsonNode *format = ortrain_manifest_get_member (manifest, "format", G_TYPE_STRING);
  JsonNode *version = ortrain_manifest_get_member (manifest, "version", G_TYPE_INT64);
  if (format == NULL || !g_str_equal (json_node_get_string (format), ORTRAIN_MANIFEST_FORMAT) || version == NULL)
    return ortrain_manifest_fail (error, "does not describe a checkpoint"), NULL;
  if (json_node_get_int (version) < 1 || json_node_get_int (version) > ORTRAIN_MANIFEST_VERSION)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_VERSION,
                   "The checkpoint has version %" G_GINT64_FORMAT
                   ", this library reads versions 1 to %d; update the library",
                   json_node_get_int (version), ORTRAIN_MANIFEST_VERSION);
      return NULL;
    }
  if (!check_text (data, size, json_node_get_int (version) > 1 || json_object_has_member (manifest, CHECKSUM), error))
    return NULL;
  return g_steal_pointer (&node);
}

static void
add_names (JsonArray *files, GPtrArray *names)
{
  for (guint i = 0; i < json_array_get_length (files); i++)
    {
      JsonNode *node = json_array_get_element (files, i), *file = NULL;
      if (JSON_NODE_HOLDS_OBJECT (node))
        file = ortrain_manifest_get_member (json_node_get_object (node), "file", G_TYPE_STRING);
      if (file != NULL && ortrain_checkpoint_name_is_valid (json_node_get_string (file)))
        g_ptr_array_add (names, json_node_dup_string (file));
    }
}

GPtrArray *
ortrain_manifest_read_names (const char *path, int root, char **data_name)
{
  g_autoptr (GBytes) text = ortrain_manifest_map (&(OrtrainFolder){ root, (char *) path }, NULL);
  g_autoptr (JsonNode) node = text != NULL ? ortrain_manifest_parse (text, NULL) : NULL;
  JsonObject *manifest = node != NULL ? json_node_get_object (node) : NULL;
  JsonNode *data = manifest != NULL ? ortrain_manifest_get_member (manifest, "data", G_TYPE_STRING) : NULL;
  JsonNode *sections = data != NULL ? ortrain_manifest_get_member (manifest, "sections", JSON_TYPE_OBJECT) : NULL;
  JsonNode *files = sections != NULL ? ortrain_manifest_get_member (manifest, "files", JSON_TYPE_ARRAY) : NULL;
  if (files == NULL || !ortrain_checkpoint_is_data_name (json_node_get_string (data)))
    return NULL;
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  JsonObjectIter iter;
  JsonNode *section;
  json_object_iter_init (&iter, json_node_get_object (sections));
  while (json_object_iter_next (&iter, NULL, &section))
    if (JSON_NODE_HOLDS_ARRAY (section))
      add_names (json_node_get_array (section), names);
  add_names (json_node_get_array (files), names);
  *data_name = json_node_dup_string (data);
  return names;
}
