/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-csv-format.h"

/* A tensor of the batches, and the columns that it consists of. */
typedef struct
{
  char *name;
  OrtrainDType dtype; /* FLOAT32, FLOAT64 or INT64: the type that cells are parsed to */
  gboolean is_target;
  char **columns; /* names or numbers; NULL: the one of the tensor's name, or the columns that no other tensor takes */
  gint64 *dims;   /* [rank]: of an item; NULL: one number, or as many as there are columns */
  guint rank;
} OrtrainCsvTensor;

struct _OrtrainCsvFormat
{
  GObject parent_instance;
  OrtrainCsvHeader header;
  char *separator;      /* one character; NULL: found from the first lines */
  char *comment;        /* the text that lines of comments begin with, or NULL */
  GArray *tensors;      /* of OrtrainCsvTensor */
  char **classes;       /* in order; NULL: none */
  gboolean has_numbers; /* the classes of a file that was read before are whole numbers */
};
