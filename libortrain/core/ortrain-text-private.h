/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>
#include <string.h>

/* A name out of a file as people may see it: control characters, characters that turn the direction of text, and bytes
 * that are no UTF-8 are escaped, and of a long one the middle is left out. */
#define ORTRAIN_TEXT_MAX 120 /* bytes of the result, less the ellipsis */
char *ortrain_text_quote (const char *text);
char *ortrain_text_quote_within (const char *text, gsize max);

/* The same for the arguments of one call of printf: a harmless text is returned itself; a converted one stays valid in
 * this thread until this many more were requested. NULL is "". */
#define ORTRAIN_TEXT_N_SHOWN 16
const char *ortrain_text_show (const char *text);
/* Joins several names, each of which was shown already: as many as fit in a message. */
#define ORTRAIN_TEXT_LIST_MAX 600
const char *ortrain_text_show_list (const char *text);

/* A class in a message: "AdamW" for OrtrainAdamW, a class of the user by its whole name. */
static inline const char *
ortrain_text_name_type (const char *type_name)
{
  return g_str_has_prefix (type_name, "Ortrain") ? type_name + strlen ("Ortrain") : type_name;
}

static inline const char *
ortrain_text_name_class (gpointer object)
{
  return ortrain_text_name_type (G_OBJECT_TYPE_NAME (object));
}

/* The ending of a noun after the number n: "%u layer%s". */
static inline const char *
ortrain_text_plural (guint64 n)
{
  return n == 1 ? "" : "s";
}
