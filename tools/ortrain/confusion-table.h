/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-glib/json-glib.h>
#include <ortrain.h>

/* How often each class was taken for each class, as people read it: a table of at most `columns` columns where that is
 * possible, or, of more than CONFUSION_TABLE_CLASSES classes, the pairs that are confused most often.
 * matrix: int64 [class, class that it was taken for]; classes: their names, or NULL */
#define CONFUSION_TABLE_CLASSES 20
char *confusion_table_format (OrtrainTensor *matrix, const char *const *classes, guint columns);
/* An array of rows. */
void confusion_table_add_json (JsonBuilder *builder, OrtrainTensor *matrix);
