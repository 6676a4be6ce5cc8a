/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "recompute/ortrain-recompute-config-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-json-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"

#include <gio/gio.h>
#include <string.h>

/* Far more than the clusters of a model need. */
#define MAX_BYTES (1 << 20)
#define MAX_DEPTH 4

static void
request_clear (gpointer data)
{
  g_free (((OrtrainRecomputeRequest *) data)->cluster);
}

static gboolean
refuse (const char *entry, const char *reason, GError **error)
{
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "Recompute plan '%s': %s; a plan is CLUSTER:STRATEGY:COUNT, such as Gelu+:1:-1",
               ortrain_text_show (entry), reason);
  return FALSE;
}

/* Whole numbers, as decimal digits and nothing else. */
static gboolean
read_number (const char *text, gint64 min, gint64 max, gint64 *number)
{
  return (g_ascii_isdigit (text[0]) || (text[0] == '-' && g_ascii_isdigit (text[1]))) &&
         g_ascii_string_to_signed (text, 10, min, max, number, NULL);
}

static void
take (GArray *requests, const char *cluster, OrtrainRecomputeStrategy strategy, gint64 count)
{
  for (guint i = requests->len; i-- > 0;)
    {
      const OrtrainRecomputeRequest *other = &g_array_index (requests, OrtrainRecomputeRequest, i);
      if (g_str_equal (other->cluster, cluster) &&
          (strategy == ORTRAIN_RECOMPUTE_STRATEGY_NONE || other->strategy == strategy ||
           other->strategy == ORTRAIN_RECOMPUTE_STRATEGY_NONE))
        g_array_remove_index (requests, i);
    }
  const OrtrainRecomputeRequest request = { g_strdup (cluster), strategy, count };
  g_array_append_val (requests, request);
}

static gboolean
add_plan (GArray *requests, const char *entry, GError **error)
{
  g_auto (GStrv) fields = g_strsplit (entry, ":", -1);
  gint64 strategy, count;
  if (g_strv_length (fields) != 3)
    return refuse (entry,
                   strchr (entry, ':') == NULL ? "it must have three fields, and there is no file of that name"
                                               : "it must have three fields",
                   error);
  for (guint i = 0; i < 3; i++)
    g_strstrip (fields[i]);
  const gsize length = strlen (fields[0]);
  if (length == 0 || fields[0][length - 1] != '+')
    return refuse (entry, "a cluster is names of operators, each followed by '+'", error);
  if (!read_number (fields[1], 0, ORTRAIN_N_RECOMPUTE_STRATEGIES - 1, &strategy))
    return refuse (entry, "the strategy must be 0 (none), 1 (recompute) or 2 (recompute with compromise)", error);
  if (!read_number (fields[2], -1, G_MAXINT, &count))
    return refuse (entry, "the count must be -1 (all), or how many of the first ones", error);
  take (requests, fields[0], (OrtrainRecomputeStrategy) strategy, count);
  return TRUE;
}

static gboolean
add_plans (GArray *requests, const char *text, GError **error)
{
  g_auto (GStrv) entries = g_strsplit (text, ",", -1);
  for (guint i = 0; entries[i] != NULL; i++)
    if (!add_plan (requests, g_strstrip (entries[i]), error))
      return FALSE;
  return TRUE;
}

static gboolean
is_blank (const char *text)
{
  while (g_ascii_isspace (*text))
    text++;
  return *text == '\0';
}

static GArray *
requests_new (void)
{
  GArray *requests = g_array_new (FALSE, FALSE, sizeof (OrtrainRecomputeRequest));
  g_array_set_clear_func (requests, request_clear);
  return requests;
}

GArray *
ortrain_recompute_config_parse (const char *text, GError **error)
{
  g_autoptr (GArray) requests = requests_new ();
  if (!is_blank (text) && !add_plans (requests, text, error))
    return NULL;
  return g_steal_pointer (&requests);
}

static char *
read_file (const char *path, gsize *size, GError **error)
{
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileInputStream) stream = g_file_read (file, NULL, error);
  g_autofree char *text = g_malloc (MAX_BYTES + 1);
  if (stream == NULL || !g_input_stream_read_all (G_INPUT_STREAM (stream), text, MAX_BYTES, size, NULL, error))
    return NULL;
  if (*size == MAX_BYTES)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "it has more than %d bytes",
                   MAX_BYTES - 1);
      return NULL;
    }
  text[*size] = '\0';
  return g_steal_pointer (&text);
}

static GArray *
read_json (const char *path, GError **error)
{
  gsize size;
  g_autofree char *text = read_file (path, &size, error);
  if (text == NULL)
    return NULL;
  g_autoptr (GError) wrong = NULL;
  g_autoptr (JsonNode) root = ortrain_json_parse (text, size, MAX_DEPTH, &wrong);
  g_auto (GStrv) plans = root != NULL ? ortrain_json_get_strings (root) : NULL;
  if (plans == NULL)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "%s",
                   wrong != NULL ? wrong->message : "it must be an array of strings");
      return NULL;
    }
  g_autoptr (GArray) requests = requests_new ();
  for (guint i = 0; plans[i] != NULL; i++)
    if (!is_blank (plans[i]) && !add_plans (requests, plans[i], error))
      return NULL;
  return g_steal_pointer (&requests);
}

GArray *
ortrain_recompute_config_read (const char *text, GError **error)
{
  if (!g_str_has_suffix (text, ".json") && !g_file_test (text, G_FILE_TEST_IS_REGULAR))
    return ortrain_recompute_config_parse (text, error);
  GArray *requests = read_json (text, error);
  if (requests == NULL)
    {
      const char *shown = ortrain_text_show_path (text);
      g_prefix_error (error, "Recompute plans '%s': ", ortrain_text_show (shown));
    }
  return requests;
}
