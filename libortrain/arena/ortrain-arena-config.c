/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "arena/ortrain-arena-private.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"

#include <string.h>

/* Names and values as ONNX Runtime has them, in the map of its arena and in the options of its providers. */

static const struct
{
  const char *name;
  gsize offset;
  guint64 minimum, initial;
} sizes[] = {
  { "max_mem", G_STRUCT_OFFSET (OrtrainArenaConfig, max_mem), 0, 0 },
  { "initial_chunk_size_bytes", G_STRUCT_OFFSET (OrtrainArenaConfig, initial_chunk_size_bytes), 256,
    ORTRAIN_ARENA_INITIAL_CHUNK },
  { "initial_growth_chunk_size_bytes", G_STRUCT_OFFSET (OrtrainArenaConfig, initial_growth_chunk_size_bytes), 256,
    ORTRAIN_ARENA_INITIAL_GROWTH_CHUNK },
  { "max_power_of_two_extend_bytes", G_STRUCT_OFFSET (OrtrainArenaConfig, max_power_of_two_extend_bytes), 256,
    ORTRAIN_ARENA_MAX_POWER_OF_TWO_EXTEND },
  { "max_dead_bytes_per_chunk", G_STRUCT_OFFSET (OrtrainArenaConfig, max_dead_bytes_per_chunk), 0,
    ORTRAIN_ARENA_MAX_DEAD_BYTES },
};

/* The first value is the default, which -1 asks for. */
static const struct
{
  const char *name;
  const char *values[2][3];
} choices[] = {
  { "arena_extend_strategy",
    { { "kNextPowerOfTwo", "next-power-of-two", "0" }, { "kSameAsRequested", "same-as-requested", "1" } } },
  { "shrink", { { "0", "off", "no" }, { "1", "on", "yes" } } },
};

static gboolean
refuse (const char *entry, const char *reason, GError **error)
{
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "Option 'arena-config', '%s': %s; an entry is NAME=VALUE, such as max_mem=2GiB",
               ortrain_text_show (entry), reason);
  return FALSE;
}

static gboolean
set_size (OrtrainArenaConfig *config, guint k, const char *entry, const char *value, GError **error)
{
  guint64 *field = G_STRUCT_MEMBER_P (config, sizes[k].offset);
  g_autoptr (GError) local_error = NULL;
  if (g_str_equal (value, "-1"))
    {
      *field = sizes[k].initial;
      return TRUE;
    }
  *field = ortrain_parse_bytes (value, &local_error);
  if (local_error != NULL)
    return refuse (entry, local_error->message, error);
  return *field >= sizes[k].minimum || refuse (entry, "it must be at least 256", error);
}

/* chosen: which value of the choice. */
static gboolean
find_choice (guint k, const char *entry, const char *value, guint *chosen, GError **error)
{
  *chosen = 0;
  if (g_str_equal (value, "-1"))
    return TRUE;
  for (guint which = 0; which < 2; which++)
    for (guint n = 0; n < 3; n++)
      if (g_str_equal (value, choices[k].values[which][n]))
        {
          *chosen = which;
          return TRUE;
        }
  g_autofree char *reason = g_strdup_printf ("it is %s or %s", choices[k].values[0][0], choices[k].values[1][0]);
  return refuse (entry, reason, error);
}

static gboolean
add_entry (OrtrainArenaConfig *config, const char *entry, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (entry, "=", 2);
  if (g_strv_length (parts) != 2)
    return refuse (entry, "it has no value", error);
  char *name = g_strdelimit (g_strstrip (parts[0]), "-", '_');
  const char *value = g_strstrip (parts[1]);
  if (g_str_has_prefix (name, "arena."))
    name += strlen ("arena.");
  for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
    if (g_str_equal (name, sizes[k].name))
      return set_size (config, k, entry, value, error);
  if (g_str_equal (name, "extend_strategy"))
    name = (char *) choices[0].name;
  for (guint k = 0; k < G_N_ELEMENTS (choices); k++)
    if (g_str_equal (name, choices[k].name))
      {
        guint chosen;
        if (!find_choice (k, entry, value, &chosen, error))
          return FALSE;
        if (k == 0)
          config->extend_strategy = (OrtrainArenaExtendStrategy) chosen;
        else
          config->shrinks = chosen == 1;
        return TRUE;
      }
  return refuse (entry,
                 "the names are arena_extend_strategy, max_mem, initial_chunk_size_bytes, "
                 "initial_growth_chunk_size_bytes, max_power_of_two_extend_bytes, max_dead_bytes_per_chunk and shrink",
                 error);
}

gboolean
ortrain_arena_config_parse (const char *text, OrtrainArenaConfig *config, GError **error)
{
  OrtrainArenaConfig parsed = { .extend_strategy = ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO };
  for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
    *(guint64 *) G_STRUCT_MEMBER_P (&parsed, sizes[k].offset) = sizes[k].initial;
  g_auto (GStrv) entries = g_strsplit (text != NULL ? text : "", ",", -1);
  for (guint i = 0; entries[i] != NULL; i++)
    if (*g_strstrip (entries[i]) != '\0' && !add_entry (&parsed, entries[i], error))
      return FALSE;
  *config = parsed;
  return TRUE;
}
