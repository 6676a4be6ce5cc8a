/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx-test-list.h"

#include <string.h>

static const char *const words[ONNX_TEST_N_OUTCOMES] = { "PASS", "FAIL", "SKIP", "DIFF" };

const char *
onnx_test_outcome_get_word (OnnxTestOutcome outcome)
{
  return words[outcome];
}

static void
test_free (gpointer data)
{
  OnnxTest *test = data;
  g_free (test->reason);
  g_free (test);
}

/* "WORD NAME" or "WORD NAME: reason" */
static gboolean
add_line (GHashTable *list, const char *line)
{
  OnnxTestOutcome outcome = 0;
  while (outcome < ONNX_TEST_N_OUTCOMES &&
         !(g_str_has_prefix (line, words[outcome]) && line[strlen (words[outcome])] == ' '))
    outcome++;
  if (outcome == ONNX_TEST_N_OUTCOMES)
    return FALSE;
  g_auto (GStrv) parts = g_strsplit (line + strlen (words[outcome]) + 1, ": ", 2);
  if (parts[0] == NULL || parts[0][0] == '\0' || (parts[1] == NULL) != (outcome == ONNX_TEST_PASS))
    return FALSE;
  OnnxTest *test = g_new0 (OnnxTest, 1);
  test->outcome = outcome;
  test->reason = g_strdup (parts[1]);
  return g_hash_table_insert (list, g_strdup (parts[0]), test); /* each has one line */
}

GHashTable *
onnx_test_list_load (GError **error)
{
  g_autoptr (GBytes) bytes =
      g_resources_lookup_data ("/org/ortrain/command/onnx-tests", G_RESOURCE_LOOKUP_FLAGS_NONE, error);
  if (bytes == NULL)
    return NULL;
  gsize size;
  const char *data = g_bytes_get_data (bytes, &size);
  g_autofree char *text = g_strndup (data, size);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr (GHashTable) list = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, test_free);
  for (guint i = 0; lines[i] != NULL; i++)
    if (lines[i][0] != '\0' && lines[i][0] != '#' && !add_line (list, lines[i]))
      {
        g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "Line %u of onnx-tests is not of its form", i + 1);
        return NULL;
      }
  return g_steal_pointer (&list);
}
