/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-check-report.h"

#include "core/ortrain-field-private.h"
#include "grad/ortrain-gradient-private.h"
#include "grad/ortrain-scores-private.h"
#include "ops/ortrain-op-private.h"
#include "session/ortrain-blocked-outputs-private.h"
#include "session/ortrain-obstacle-private.h"
#include "session/ortrain-padding-rows-private.h"
#include "session/ortrain-training-graph-private.h"

/**
 * OrtrainCheckReport:
 *
 * What stands in the way of training a model, all of it at once. Immutable, safe to use from any thread.
 */

struct _OrtrainCheckReport
{
  GObject parent_instance;

  gboolean trainable;
  GListModel *obstacles;
  char **notes;
  guint n_trainable;
};

G_DEFINE_FINAL_TYPE (OrtrainCheckReport, ortrain_check_report, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_TRAINABLE,
  PROP_OBSTACLES,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

typedef struct
{
  OrtrainModel *model;
  GListStore *list;
  GHashTable *told; /* what was said of which node already */
} Check;

static void
add (Check *check, const OrtrainNode *node, const char *dtype, const char *reason, const char *way_out)
{
  char *key = g_strdup_printf ("%s|%s|%s", node != NULL ? node->name : "", node != NULL ? node->op_type : "", reason);
  if (node != NULL && *node->name == '\0')
    {
      g_free (key);
      key = g_strdup_printf ("%p|%s", (const void *) node, reason);
    }
  if (!g_hash_table_add (check->told, key))
    return;
  gint64 opset = node != NULL ? ortrain_model_get_opset_version (check->model, node->domain) : 0;
  g_autoptr (OrtrainObstacle) obstacle =
      ortrain_obstacle_new (node != NULL ? node->name : "", node != NULL ? node->op_type : "",
                            node != NULL ? node->domain : "", (guint) MAX (opset, 0), dtype, reason, way_out);
  g_list_store_append (check->list, obstacle);
}

/* Returns whether there were any. */
static gboolean
find_blocked (Check *check, OrtrainGraph *graph)
{
  gboolean any = FALSE;
  for (guint n = 0; graph != NULL && n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      const OrtrainBlock block = ortrain_node_find_block (node);
      if (block.reason == NULL)
        continue;
      add (check, node, block.dtype != ORTRAIN_DTYPE_UNDEFINED ? ortrain_dtype_get_name (block.dtype) : "",
           block.reason, block.hint);
      any = TRUE;
    }
  return any;
}

static void
add_without_gradient (Check *check, const OrtrainNode *node)
{
  if (node->op != NULL && (node->op->flags & ORTRAIN_OP_CONTROL))
    add (check, node, "", "which branch is taken is known only when the model runs: it can be run, but not trained",
         "export the model without this condition, or with fixed shapes if it asks for a shape");
  else
    add (check, node, "", "the operator has no gradient",
         "freeze the parameters before it with set_frozen, or export the model with other operators");
}

/* Parameters inside of branches are not seen from outside. */
static void
find_branches (Check *check, OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainNode *node = graph->nodes->pdata[n];
      if (node->op != NULL && (node->op->flags & ORTRAIN_OP_CONTROL))
        add_without_gradient (check, node);
    }
}

/* For each output that a loss can be taken of. Returns whether there is one without an obstacle. */
static gboolean
find_without_gradient (Check *check, OrtrainGraph *graph, guint *n_trainable)
{
  gboolean some = FALSE, any_floating = FALSE;
  g_autoptr (GHashTable) trainable = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      OrtrainValue *output = graph->outputs->pdata[i];
      if (!ortrain_dtype_is_floating (output->dtype))
        continue;
      any_floating = TRUE;
      g_autoptr (GPtrArray) from = g_ptr_array_new ();
      g_ptr_array_add (from, output);
      g_autoptr (GPtrArray) candidates = ortrain_training_graph_find_candidates (graph, from);
      if (candidates->len == 0)
        continue;
      g_autoptr (GPtrArray) obstacles =
          ortrain_gradient_find_obstacles (graph, output, (OrtrainValue *const *) candidates->pdata, candidates->len);
      for (guint k = 0; k < obstacles->len; k++)
        add_without_gradient (check, obstacles->pdata[k]);
      if (obstacles->len == 0 && ortrain_graph_find_blocked (graph, output) == NULL)
        {
          some = TRUE;
          for (guint k = 0; k < candidates->len; k++)
            g_hash_table_add (trainable, candidates->pdata[k]);
        }
    }
  *n_trainable = g_hash_table_size (trainable);
  if (!some)
    find_branches (check, graph);
  if (!any_floating)
    add (check, NULL, "", "the model has no output of a floating type",
         "a loss needs one: export the model with its logits as an output");
  else if (!some && g_list_model_get_n_items (G_LIST_MODEL (check->list)) == 0)
    add (check, NULL, "", "no output of a floating type depends on an initializer that can be trained",
         "export the model with its weights as initializers");
  return some;
}

static void
note_padding (Check *check, GStrvBuilder *notes)
{
  g_autoptr (GHashTable) rows = ortrain_padding_rows_find (check->model);
  GHashTableIter iter;
  gpointer name, row;
  g_hash_table_iter_init (&iter, rows);
  while (g_hash_table_iter_next (&iter, &name, &row))
    {
      g_autofree char *note = g_strdup_printf ("row %d of '%s' stands for padding, as the exporter says: it does not "
                                               "train (set_padding_row (\"%s\", -1) trains it)",
                                               GPOINTER_TO_INT (row) - 1, (const char *) name, (const char *) name);
      g_strv_builder_add (notes, note);
    }
}

static void
note_scores (OrtrainGraph *graph, GStrvBuilder *notes)
{
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      OrtrainValue *output = graph->outputs->pdata[i];
      const OrtrainNode *node = ortrain_scores_find_node (output, NULL);
      if (node == NULL)
        continue;
      g_autofree char *note =
          g_strdup_printf ("output '%s' is the %s of '%s': cross entropy is computed from '%s'", output->name,
                           node->op_type, ortrain_node_input (node, 0)->name, ortrain_node_input (node, 0)->name);
      g_strv_builder_add (notes, note);
    }
}

static void
note_pairs (Check *check, GStrvBuilder *notes)
{
  g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (check->model);
  for (guint i = 0; i < g_list_model_get_n_items (pairs); i++)
    {
      g_autoptr (OrtrainParameterPair) pair = g_list_model_get_item (pairs, i);
      const char *first = ortrain_parameter_pair_get_first (pair), *second = ortrain_parameter_pair_get_second (pair);
      g_autofree char *note = g_strdup_printf (
          "'%s' and '%s' hold the same values%s: if they are one parameter, train them as one with tie (\"%s\", "
          "\"%s\")",
          first, second, ortrain_parameter_pair_get_transposed (pair) ? ", transposed" : "", first, second);
      g_strv_builder_add (notes, note);
    }
}

static void
ortrain_check_report_finalize (GObject *object)
{
  OrtrainCheckReport *self = ORTRAIN_CHECK_REPORT (object);

  g_clear_object (&self->obstacles);
  g_strfreev (self->notes);

  G_OBJECT_CLASS (ortrain_check_report_parent_class)->finalize (object);
}

static void
ortrain_check_report_class_init (OrtrainCheckReportClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_check_report_finalize;
  object_class->get_property = ortrain_field_get_property;

  /**
   * OrtrainCheckReport:trainable: (getter get_trainable)
   *
   * Whether the model can be trained: some output of a floating type, and nothing in the way to it.
   */
  properties[PROP_TRAINABLE] = ortrain_field_at (g_param_spec_boolean ("trainable", NULL, NULL, FALSE, flags),
                                                 G_STRUCT_OFFSET (OrtrainCheckReport, trainable));
  /**
   * OrtrainCheckReport:obstacles: (getter get_obstacles)
   *
   * The obstacles, a list of [class@Obstacle].
   */
  properties[PROP_OBSTACLES] =
      ortrain_field_at (g_param_spec_object ("obstacles", NULL, NULL, G_TYPE_LIST_MODEL, flags),
                        G_STRUCT_OFFSET (OrtrainCheckReport, obstacles));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_check_report_init (OrtrainCheckReport *self)
{
  self->obstacles = G_LIST_MODEL (g_list_store_new (ORTRAIN_TYPE_OBSTACLE));
}

/**
 * ortrain_check_report_get_trainable: (get-property trainable)
 * @self: the object
 *
 * Gets whether the model can be trained: some output of a floating type, and nothing in the way to it.
 *
 * Returns: whether the model can be trained: some output of a floating type, and nothing in the way to it
 */
gboolean
ortrain_check_report_get_trainable (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), FALSE);
  return self->trainable;
}

/**
 * ortrain_check_report_get_obstacles: (get-property obstacles)
 * @self: the object
 *
 * Gets the obstacles, a list of [class@Obstacle].
 *
 * Returns: (transfer none) (nullable): the obstacles, a list of [class@Obstacle]
 */
GListModel *
ortrain_check_report_get_obstacles (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), NULL);
  return self->obstacles;
}

/**
 * ortrain_check_report_get_notes:
 * @self: a report
 *
 * Gets what else is worth knowing before training: parameters that an exporter merged, and parameters that are stored
 * twice, with the tie to write.
 *
 * Returns: (transfer full) (array zero-terminated=1): the notes
 */
char **
ortrain_check_report_get_notes (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), NULL);
  return g_strdupv (self->notes);
}

/**
 * ortrain_check_report_get_n_trainable:
 * @self: a report
 *
 * Gets the number of initializers that are trained unless the options say otherwise.
 *
 * Returns: the number
 */
guint
ortrain_check_report_get_n_trainable (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), 0);
  return self->n_trainable;
}

/**
 * ortrain_check_report_to_string:
 * @self: a report
 *
 * Says all of it, one line each.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_check_report_to_string (OrtrainCheckReport *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECK_REPORT (self), NULL);

  GString *text = g_string_new (NULL);
  guint n = g_list_model_get_n_items (self->obstacles);
  if (self->trainable)
    g_string_append_printf (text, "trainable: %u parameters%s", self->n_trainable,
                            n > 0 ? "; other outputs have obstacles" : "");
  else
    g_string_append_printf (text, "not trainable: %u obstacle%s", n, n == 1 ? "" : "s");
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (OrtrainObstacle) obstacle = g_list_model_get_item (self->obstacles, i);
      g_autofree char *line = ortrain_obstacle_to_string (obstacle);
      g_string_append_printf (text, "\n  %s", line);
    }
  for (guint i = 0; self->notes != NULL && self->notes[i] != NULL; i++)
    g_string_append_printf (text, "\nnote: %s", self->notes[i]);
  return g_string_free (text, FALSE);
}

/**
 * ortrain_model_check:
 * @self: a model
 *
 * Lists everything that stands in the way of training a model, before anything runs: operators that are not known, have
 * no gradient, or have no kernel for their type.
 *
 * Returns: (transfer full): the report
 */
OrtrainCheckReport *
ortrain_model_check (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);

  OrtrainCheckReport *report = g_object_new (ORTRAIN_TYPE_CHECK_REPORT, NULL);
  Check check = { .model = self, .list = G_LIST_STORE (report->obstacles) };
  check.told = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GStrvBuilder) notes = g_strv_builder_new ();
  g_autoptr (GError) error = NULL;
  OrtrainGraph *whole = ortrain_model_get_graph (self, &error);
  g_autoptr (OrtrainGraph) graph = whole != NULL ? g_object_ref (whole) : NULL;
  if (whole == NULL)
    {
      if (!find_blocked (&check, ortrain_model_get_file_graph (self)))
        add (&check, NULL, "", error->message, "");
      graph = ortrain_model_make_known_graph (self, (const char *const[]){ NULL }, NULL);
    }
  if (whole != NULL || (graph != NULL && graph->outputs->len > 0))
    {
      find_blocked (&check, graph);
      report->trainable = find_without_gradient (&check, graph, &report->n_trainable);
      note_scores (graph, notes);
      note_pairs (&check, notes);
      note_padding (&check, notes);
    }
  g_auto (GStrv) model_notes = ortrain_model_get_notes (self);
  for (guint i = 0; model_notes != NULL && model_notes[i] != NULL; i++)
    g_strv_builder_add (notes, model_notes[i]);
  report->notes = g_strv_builder_end (notes);
  g_hash_table_unref (check.told);
  return report;
}
