/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

/* The files that --data and --input name: archives of arrays, tables, pairs of IDX files. */

/* The options of train, eval and run about tables. */
typedef struct
{
  char *header, *classes, *separator, *comment; /* as typed, or NULL */
} TableSettings;

/* For the tables of options. */
#define TABLE_ENTRIES(settings)                                                                                          \
  { "header",                                                                                                            \
    0,                                                                                                                   \
    0,                                                                                                                   \
    G_OPTION_ARG_STRING,                                                                                                 \
    &(settings).header,                                                                                                  \
    "Whether a table begins with the names of its columns: yes, no, auto (auto)",                                        \
    "WORD" },                                                                                                            \
      { "separator", 0, 0, G_OPTION_ARG_STRING, &(settings).separator, "auto, comma, semicolon, tab, bar, space (auto)", \
        "CHAR" },                                                                                                        \
  {                                                                                                                      \
    "comment", 0, 0, G_OPTION_ARG_STRING, &(settings).comment,                                                           \
        "Skip lines of a table that begin with this, such as # (only such lines before the first row)", "TEXT"           \
  }

void table_settings_clear (TableSettings *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TableSettings, table_settings_clear)

gboolean data_is_table (const char *path);
/* The names that --target joins with commas; NULL: not given. */
char **data_split_columns (const char *target);
/* classes: the file of them; NULL: none */
gboolean data_set_table (OrtrainCsvFormat *format, const TableSettings *settings, const char *classes, GError **error);
/* Where the classes of a model stand: "trained.classes.json" for trained.onnx. */
char *data_classes_path (const char *model);

/* NAME=FILE.npy each: added to the tensors. */
gboolean data_read_inputs (OrtrainTensorDict *tensors, char **inputs, GError **error);
/* The same for a graph that has all of these inputs: those that all items share. */
OrtrainTensorDict *data_read_shared (OrtrainGraph *graph, char **inputs, GError **error);
/* FILE.npz, or IMAGES.idx[.gz],LABELS.idx[.gz]: the images get the name of the graph's first input. An archive may have
 * arrays other than the inputs and the target (NULL: none), but must have those that are not shared. Arrays of inputs
 * without a dimension for the batch are added to the shared ones. */
OrtrainDataset *data_open (const char *path, OrtrainGraph *graph, const char *target, OrtrainTensorDict *shared,
                           GError **error);
/* Removes the inputs that a table need not have. FALSE with an error if an input that all items share is not given. */
gboolean data_leave_out_shared (OrtrainCsvFormat *format, OrtrainGraph *graph, OrtrainTensorDict *shared,
                                GError **error);

/* The size of the batches that a model takes, if it takes only one size; 0: any. graph: of the model, with the shapes
 * of its outputs; output: that the loss is on */
gint64 data_find_fixed_batch (OrtrainGraph *graph, const char *output);
/* Whether there are items for a batch of this size; what: the name of the data, for the error. */
gboolean data_check_batch (OrtrainDataset *dataset, const char *what, gint64 batch, GError **error);
