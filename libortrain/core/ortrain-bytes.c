/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-bytes.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"

#include <string.h>

static const struct
{
  const char *name;
  double bytes;
} units[] = {
  { "", 1 },         { "B", 1 },      { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 },
  { "TiB", 0x1p40 }, { "K", 0x1p10 }, { "M", 0x1p20 },   { "G", 0x1p30 },   { "T", 0x1p40 },
  { "kB", 1e3 },     { "KB", 1e3 },   { "MB", 1e6 },     { "GB", 1e9 },     { "TB", 1e12 },
};

/**
 * ortrain_parse_bytes:
 * @text: a number of bytes, with or without a unit: "1.5GiB", "800 MB", "65536"
 * @error: return location for an error
 *
 * Reads a number of bytes as people write it. KiB, MiB, GiB and TiB (or K, M, G, T) are powers of 1024, kB, MB, GB and
 * TB powers of 1000; a fraction of a byte is left out. The decimal separator is a point, whatever the locale. May be
 * called from any thread.
 *
 * ```python
 * options = Ortrain.TrainingOptions(memory_budget=Ortrain.parse_bytes("1.5GiB"))
 * ```
 *
 * Errors are %ORTRAIN_SESSION_ERROR_OPTION.
 *
 * Returns: the number of bytes; 0 with @error set on error
 */
guint64
ortrain_parse_bytes (const char *text, GError **error)
{
  g_return_val_if_fail (text != NULL, 0);

  const char *unit = text + strspn (text, "0123456789.");
  char *end = NULL;
  const double number = g_ascii_strtod (text, &end);
  const gboolean is_number = unit > text && end == unit;
  while (*unit == ' ')
    unit++;
  for (guint i = 0; i < G_N_ELEMENTS (units) && is_number; i++)
    if (strcmp (unit, units[i].name) == 0 && number * units[i].bytes < 0x1p63)
      return (guint64) (number * units[i].bytes);
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "'%s' is no number of bytes, like 1.5GiB, 800MB or 65536", ortrain_text_show (text));
  return 0;
}

/**
 * ortrain_format_bytes:
 * @bytes: a number of bytes
 *
 * Formats a number of bytes for people, with three digits and a unit that is a power of 1024: "512 B", "9.41 GiB". May
 * be called from any thread.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_format_bytes (guint64 bytes)
{
  static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  double number = (double) bytes;
  guint unit = 0;
  for (; number >= 1024 && unit + 1 < G_N_ELEMENTS (names); unit++)
    number /= 1024;
  g_ascii_formatd (buffer, sizeof buffer, unit == 0 || number >= 100 ? "%.0f" : number >= 10 ? "%.1f" : "%.2f", number);
  return g_strdup_printf ("%s %s", buffer, names[unit]);
}
