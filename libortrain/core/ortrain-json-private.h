/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-glib/json-glib.h>

/* JSON of unknown origin. json-glib recurses for each level of nesting, so the depth is measured before it parses the
 * text. The same scan rejects comments and single quotes outside strings, and a second value after the first, which
 * json-glib would take instead of it. Returns the root, or NULL with an error of JSON_PARSER_ERROR that says where. */
JsonNode *ortrain_json_parse (const char *text, gsize size, guint max_depth, GError **error);

/* A file of options. Errors of reading it are of G_FILE_ERROR, errors of its contents are SESSION_ERROR_OPTION. The
 * root is an object. */
JsonNode *ortrain_json_read_options (const char *path, GError **error);

/* The text of a string; NULL for any other node, and for NULL. */
const char *ortrain_json_get_string (JsonNode *node);
/* The strings of an array that has nothing else; NULL for any other node. */
char **ortrain_json_get_strings (JsonNode *node);
