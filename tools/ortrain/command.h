/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-glib/json-glib.h>
#include <ortrain.h>

/* A subcommand of `ortrain`. run gets the words after the subcommand's name, as g_option_context_parse leaves them. */
typedef enum
{
  EXIT_OK = 0,
  EXIT_FAILED = 1, /* the answer is no, or something went wrong: told on the standard error */
  EXIT_USAGE = 2,
  EXIT_SIGNAL = 128, /* and the number of a signal, which training ended by */
} ExitStatus;

typedef struct
{
  const char *name;
  const char *arguments; /* "MODEL [--json]" */
  const char *summary;
  ExitStatus (*run) (int argc, char *argv[]);
} Command;

/* The program as it was called: argv[0]. */
extern const char *command_program;

extern const Command command_bench, command_check, command_devices, command_eval, command_export, command_info,
    command_new, command_plan, command_run, command_train, command_verify;

/* Parses the options; FALSE with the status to leave with when there is nothing more to do. n_min, n_max: how many
 * arguments may follow (n_max -1: any number). */
gboolean command_parse (const Command *command, const GOptionEntry *entries, int *argc, char ***argv, int n_min,
                        int n_max, ExitStatus *status);
/* "ortrain: message" on the standard error. Returns EXIT_USAGE for values of options, else EXIT_FAILED. Frees the
 * error.
 */
ExitStatus command_fail (GError *error);
ExitStatus command_usage (const Command *command, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Member "floating_tensors": a list of OrtrainParameterInfo, as objects. */
void command_add_parameters (JsonBuilder *builder, GListModel *parameters);
/* For the tables of options of commands that read a model. */
#define COMMAND_MODEL_ENTRIES(allow_links)                                                                             \
  {                                                                                                                    \
    "allow-links", 0, 0, G_OPTION_ARG_NONE, &(allow_links),                                                            \
        "Follow symbolic links to the model's files of weights, which may lie anywhere", NULL                          \
  }
OrtrainModel *command_load_model (const char *path, gboolean allow_links, GError **error);
void command_print_json (JsonBuilder *builder);
void command_add_number (JsonBuilder *builder, double number); /* JSON has no NaN: null */
char *command_format_bytes (guint64 bytes);                    /* "17.2 MiB" */

/* A command line that a shell reads as these words. */
char *command_quote (const char *const *words);

/* The parts of a command line that train, eval, plan and bench share. */
/* name: NULL: adamw; state: of --optimizer-state, or NULL */
OrtrainOptimizer *command_make_optimizer (const char *name, double learning_rate, const char *state, GError **error);
/* options: of training or of a session */
gboolean command_set_precision (GObject *options, const char *name, GError **error);
/* "1.5GiB" */
gboolean command_parse_budget (const char *text, guint64 *bytes, GError **error);
/* options: training or session options. */
gboolean command_set_budget (GObject *options, const char *text, GError **error);
/* options: training or session options. An argument that is not given leaves the environment's setting. */
#define ORTRAIN_COMMAND_NOT_GIVEN G_MININT
gboolean command_set_device_index (GObject *options, gint index, GError **error);
/* options: training or session options. Sets no memory pattern, and these options of the arena. */
void command_set_arena (GObject *options, const char *config);
gboolean command_is_threads (gint threads); /* whether it is valid for --threads; 0: not given, or all cores */
gboolean command_set_immediate_updates (OrtrainTrainingOptions *options, const char *when, GError **error);
/* Where nobody said when: nothing here looks at gradients. They are kept on a device without a budget, where all
 * parameters are updated at once then; a Trainer looks at its memory, too. After provider and budget are set. */
void command_choose_immediate_updates (OrtrainTrainingOptions *options);
/* when, folder: NULL for the environment's setting. */
gboolean command_set_offload (OrtrainTrainingOptions *options, const char *when, const char *folder, GError **error);
/* level: -1 for the environment's setting; config: NULL likewise. */
gboolean command_set_recompute (OrtrainTrainingOptions *options, gint level, const char *config, GError **error);
/* form: "table", "details" or "json"; the plan is of the feeds. */
char *command_make_recompute_report (OrtrainTrainingSession *session, OrtrainTensorDict *feeds, OrtrainMemoryPlan *plan,
                                     const char *form, GError **error);
/* The axis of the classes in the scores, of a loss over classes; G_MININT: not given. */
#define COMMAND_AXIS_ENTRY(axis)                                                                                       \
  {                                                                                                                    \
    "axis", 0, 0, G_OPTION_ARG_INT, &(axis),                                                                           \
        "Axis of the classes in the output: 1 for scores [batch, classes, height, width] (-1: the last)", "N"          \
  }
#define COMMAND_STOP_GRADIENT_ENTRY(patterns)                                                                          \
  {                                                                                                                    \
    "stop-gradient", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(patterns), "Let no gradient flow through these values",        \
        "PATTERN"                                                                                                      \
  }
gboolean command_set_axis (OrtrainLoss *loss, gint axis, GError **error);
OrtrainLoss *command_make_loss (const char *kind, const char *output, const char *target, GError **error);
/* Adds to the error of a session with a default loss the options that choose another one. */
void command_explain_loss (GError *error);
/* The names of the dimensions of a value, as `info` prints them: "3", "batch", "?1". NULL where the rank is not known.
 */
char **command_split_shape (OrtrainValue *value);
/* name → whether the size is that of the batch: the dimension stands first in an input, and never after another one */
GHashTable *command_find_open_dims (GListModel *inputs);
/* Sizes of dimensions that the shapes of a model's inputs leave open. */
typedef struct
{
  gint batch; /* of first dimensions; 0: the default, or the size that the model takes */
  gint default_batch;
  gint seq;       /* of the others; 0: 64, or the first size that the model takes */
  char **dims;    /* "NAME=SIZE" each, for single dimensions; or NULL */
  gboolean plans; /* the feeds are planned with, and never run */
} CommandSizes;

/* Random feeds for the inputs of the session's model and for one target, in sizes for which the session has a plan.
 * Those are then in `sizes`; sizes that are not the default are printed. */
OrtrainTensorDict *command_random_feeds (OrtrainTrainingSession *session, const char *output, const char *target,
                                         CommandSizes *sizes, OrtrainMemoryPlan **plan, GError **error);
/* One parameter that the file holds twice is trained as one, as PyTorch does; tell: and that is said. */
void command_tie_equal (OrtrainModel *model, OrtrainTrainingOptions *options, gboolean tell);
const char *command_first_name (GListModel *values); /* of the first OrtrainValue; owned by it */
