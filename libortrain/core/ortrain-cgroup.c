/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-cgroup-private.h"

#include <string.h>

/* The files of a version of control groups. */
typedef struct
{
  const char *limit, *usage;
  const char *cache; /* the line of memory.stat with the bytes that the kernel frees before it refuses memory */
} Version;

static const Version versions[] = {
  { "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file " },
  { "memory.max", "memory.current", "inactive_file " },
};

/* The number in a file of a group, after a prefix at the beginning of a line. FALSE: no number is there, as in "max" */
static gboolean
read_number (const char *folder, const char *name, const char *prefix, guint64 *number)
{
  g_autofree char *path = g_build_filename (folder, name, NULL), *text = NULL;
  if (!g_file_get_contents (path, &text, NULL, NULL))
    return FALSE;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    if (g_str_has_prefix (lines[i], prefix))
      return g_ascii_string_to_unsigned (lines[i] + strlen (prefix), 10, 0, G_MAXUINT64, number, NULL);
  return FALSE;
}

static guint64
get_available (const char *folder, const Version *version)
{
  guint64 limit, usage, cache = 0;
  if (!read_number (folder, version->limit, "", &limit) || !read_number (folder, version->usage, "", &usage))
    return G_MAXUINT64;
  read_number (folder, "memory.stat", version->cache, &cache);
  usage -= MIN (cache, usage);
  return limit - MIN (usage, limit);
}

/* The smallest rest of a group and of the groups that contain it. path: begins with a slash */
static guint64
get_available_of (const char *mount, const char *path, const Version *version)
{
  g_autofree char *folder = g_build_filename (mount, path, NULL);
  guint64 least = G_MAXUINT64;
  for (gsize length = strlen (folder); length >= strlen (mount); length--)
    if (folder[length] == '\0' || folder[length] == '/')
      {
        folder[length] = '\0';
        least = MIN (least, get_available (folder, version));
      }
  return least;
}

guint64
ortrain_cgroup_get_available (const char *root, const char *groups)
{
  g_autofree char *memory = g_build_filename (root, "memory", NULL);
  g_auto (GStrv) lines = g_strsplit (groups, "\n", -1);
  guint64 least = G_MAXUINT64;
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (lines[i], ":", 3); /* a number, controllers, a path */
      if (g_strv_length (parts) != 3 || parts[2][0] != '/' || strstr (parts[2], "/..") != NULL)
        continue;
      g_auto (GStrv) controllers = g_strsplit (parts[1], ",", -1);
      if (*parts[1] == '\0')
        least = MIN (least, get_available_of (root, parts[2], &versions[1]));
      else if (g_strv_contains ((const char *const *) controllers, "memory"))
        least = MIN (least, get_available_of (memory, parts[2], &versions[0]));
    }
  return least;
}
