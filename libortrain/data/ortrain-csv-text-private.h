/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The text of a table before it is read: its encoding, the separator of its cells, and its lines of comments. */

/* UTF-8 without a byte order mark, of a file in UTF-8 or, with a mark, in UTF-16. NULL with ORTRAIN_DATA_ERROR_INVALID
 * for contents that are not text, with an error that names the likely format, and with ORTRAIN_DATA_ERROR_EMPTY without
 * text. */
GBytes *ortrain_csv_text_decode (GBytes *file, GError **error);

/* Excel writes the separator of the cells into the first line, as "sep=;". NUL if there is no such line; otherwise the
 * text begins after it. */
char ortrain_csv_text_take_declaration (const char **text, gsize *size);

/* The separator of the cells, from the first lines: one of , ; | the tabulator and the space. Characters inside of
 * double quotes do not separate. Several spaces are one separator; spaces at the ends of a line are ignored. comment:
 * the text that begins a comment, or NULL */
char ortrain_csv_text_find_separator (const char *text, gsize size, const char *comment);

/* How many bytes of the beginning are lines of comments, without a setting for comments: they begin with # and have
 * another number of cells than the line after them. n_lines: how many lines */
gsize ortrain_csv_text_skip_preface (const char *text, gsize size, char separator, gint64 *n_lines);

/* A number; where no comma separates cells, it may have a decimal comma, unless it is ambiguous: only a semicolon, or a
 * decimal comma before, settles that. decimal: NUL, or the decimal sign that was seen before, which may not change. */
gboolean ortrain_csv_text_parse_number (const char *text, char separator, char *decimal, double *value);

/* Whether a comma may stand between thousands, as in 1,234. */
gboolean ortrain_csv_text_is_ambiguous (const char *text);
