/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#define ORTRAIN_MANIFEST_NAME "manifest.json"
#define ORTRAIN_MANIFEST_FORMAT "ortrain-checkpoint"
/* 1: manifests without a checksum of their own, data folders without a list */
#define ORTRAIN_MANIFEST_VERSION 2
#define ORTRAIN_MANIFEST_MAX_FILES 10000u

/* A folder, and its name in messages. */
typedef struct
{
  int fd;
  char *path;
} OrtrainFolder;

/* Ends the object that the builder is in with a checksum of all the text before it, and gives the text. */
char *ortrain_manifest_seal (JsonBuilder *builder);
/* Maps a file that no link leads to. */
GBytes *ortrain_folder_map (const OrtrainFolder *self, const char *name, GError **error);
/* The text of a folder's manifest; its JSON, checked as a whole: size, checksum, form, format and version. */
GBytes *ortrain_manifest_map (const OrtrainFolder *root, GError **error);
JsonNode *ortrain_manifest_parse (GBytes *text, GError **error);
/* A member of an object, if it is of a type; JSON_TYPE_OBJECT and JSON_TYPE_ARRAY stand for those. */
JsonNode *ortrain_manifest_get_member (JsonObject *object, const char *name, GType type);
gboolean ortrain_manifest_fail (GError **error, const char *what);
/* The file names in the manifest of a folder, of char *, and its data folder; NULL if the manifest is not valid. */
GPtrArray *ortrain_manifest_read_names (const char *path, int root, char **data_name);
