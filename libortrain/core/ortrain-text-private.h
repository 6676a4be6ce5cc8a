/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* A name out of a file as people may see it: control characters, characters that turn the direction of text, and bytes that
 * are no UTF-8 are escaped, and of a long one the middle is left out. */
#define ORTRAIN_TEXT_MAX 120 /* characters, about */
char *ortrain_text_quote (const char *text);
