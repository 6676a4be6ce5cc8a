/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ortrain.h"

#include <string.h>

/* The smallest budget that the message of a refused budget names, in bytes; `whole` if it names none. Such a budget
 * must be met. */
static inline guint64
test_read_least (const GError *refusal, guint64 whole)
{
  const char *end = strstr (refusal->message, " are the least that ");
  if (end == NULL)
    return whole;
  const char *start = g_strrstr_len (refusal->message, end - refusal->message, ", and ");
  g_assert_nonnull (start);
  g_autofree char *text = g_strndup (start + strlen (", and "), (gsize) (end - start) - strlen (", and "));
  const guint64 bytes = ortrain_parse_bytes (text, NULL);
  g_assert_cmpuint (bytes, >, 0);
  return MIN (whole, bytes);
}
