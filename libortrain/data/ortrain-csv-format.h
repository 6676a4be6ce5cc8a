/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"
#include "graph/ortrain-graph.h"

G_BEGIN_DECLS

/**
 * OrtrainCsvHeader:
 * @ORTRAIN_CSV_HEADER_AUTO: the first line is a header if its cells are names where columns of numbers stand; it is an
 *   error if that is not clear
 * @ORTRAIN_CSV_HEADER_YES: the first line has the names of the columns
 * @ORTRAIN_CSV_HEADER_NO: the first line is the first item; columns are named by their numbers, from 1
 *
 * Whether a table begins with the names of its columns.
 */
typedef enum
{
  ORTRAIN_CSV_HEADER_AUTO,
  ORTRAIN_CSV_HEADER_YES,
  ORTRAIN_CSV_HEADER_NO,
} OrtrainCsvHeader;

#define ORTRAIN_TYPE_CSV_FORMAT (ortrain_csv_format_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainCsvFormat, ortrain_csv_format, ORTRAIN, CSV_FORMAT, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainCsvFormat *ortrain_csv_format_new (void);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainCsvFormat *ortrain_csv_format_new_for_graph (OrtrainGraph *graph, const char *const *target_columns);

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_csv_format_add_input (OrtrainCsvFormat *self, const char *name, OrtrainDType dtype,
                                   const char *const *columns);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_csv_format_add_target (OrtrainCsvFormat *self, const char *name, OrtrainDType dtype,
                                    const char *const *columns);

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_csv_format_remove (OrtrainCsvFormat *self, const char *name);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainCsvHeader ortrain_csv_format_get_header (OrtrainCsvFormat *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_csv_format_set_header (OrtrainCsvFormat *self, OrtrainCsvHeader header);
ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_csv_format_get_classes (OrtrainCsvFormat *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_csv_format_set_classes (OrtrainCsvFormat *self, const char *const *classes);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_csv_format_get_separator (OrtrainCsvFormat *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_csv_format_set_separator (OrtrainCsvFormat *self, const char *separator);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_csv_format_get_comment (OrtrainCsvFormat *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_csv_format_set_comment (OrtrainCsvFormat *self, const char *comment);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_csv_format_load_classes (OrtrainCsvFormat *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_csv_format_save_classes (OrtrainCsvFormat *self, const char *path, GError **error);

G_END_DECLS
