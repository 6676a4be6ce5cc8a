/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-cgroup-private.h"
#include "folder.h"

#include <glib/gstdio.h>

static void
put (const char *root, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (root, name, NULL), *parent = g_path_get_dirname (path);
  g_assert_cmpint (g_mkdir_with_parents (parent, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

/* The smallest rest of a group and of the groups above it; cached files do not count as used. */
static void
test_versions (void)
{
  static const char *const files[][2] = {
    { "memory.max", "1\n" }, /* together with the files of version 1, where it belongs to no group */
    { "memory.current", "0\n" },
    { "a/memory.max", "1000000\n" },
    { "a/memory.current", "400000\n" },
    { "a/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n" },
    { "a/b/memory.max", "max\n" },
    { "a/b/memory.current", "300000\n" },
    { "c/memory.max", "5000\n" },
    { "c/memory.current", "6000\n" },
    { "memory/x/memory.limit_in_bytes", "70000\n" },
    { "memory/x/memory.usage_in_bytes", "60000\n" },
    { "memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\n" },
    { "memory/memory.limit_in_bytes", "9223372036854771712\n" },
    { "memory/memory.usage_in_bytes", "60000\n" },
  };
  g_autofree char *root = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    put (root, files[i][0], files[i][1]);
  g_autofree char *limit = g_build_filename (root, "memory.max", NULL);

  g_assert_cmpuint (ortrain_cgroup_get_available (root, "0::/a/b\n"), ==, 1);
  g_assert_cmpint (g_unlink (limit), ==, 0);
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "0::/a/b\n"), ==, 700000);
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "0::/a\n"), ==, 700000);
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "0::/c\n"), ==, 0);
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "0::/nothing\n"), ==, G_MAXUINT64);
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "0::/a/../c\n"), ==, G_MAXUINT64);
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "3:cpu,cpuacct:/x\n5:memory:/x\n"), ==, 30000);
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "5:memory,hugetlb:/x\n0::/a\n"), ==, 30000);
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "5:memory:/\n"), ==, G_GUINT64_CONSTANT (9223372036854711712));
  g_assert_cmpuint (ortrain_cgroup_get_available (root, "nonsense\n::\n0::\n"), ==, G_MAXUINT64);
  test_remove_folder (root);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cgroup/versions", test_versions);
  return g_test_run ();
}
