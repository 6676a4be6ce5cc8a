/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "folder.h"

/* A cache of its own for each test: set_up and tear_down of g_test_add. */

static char *folder;

static void
cache_folder_begin (gpointer *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  folder = g_dir_make_tmp ("ortrain-cache-XXXXXX", &error);
  g_assert_no_error (error);
  g_setenv ("ORTRAIN_CACHE", folder, TRUE);
}

static void
cache_folder_end (gpointer *fixture, gconstpointer data)
{
  g_chmod (folder, 0700);
  test_remove_folder (folder);
  g_clear_pointer (&folder, g_free);
}

/* The path of the only entry. */
static char *
cache_folder_find_file (void)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  g_assert_nonnull (dir);
  const char *name = g_dir_read_name (dir);
  g_assert_nonnull (name);
  g_assert_null (g_dir_read_name (dir));
  return g_build_filename (folder, name, NULL);
}
