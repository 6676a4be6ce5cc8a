/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-private.h"
#include "model/ortrain-proto-maker.h"
#include "ortrain.h"

#include <string.h>

/* The names that PyTorch's exporters write for the modules of nodes and weights: patterns match them. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })

static OrtrainModel *
load_fixture (const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "fixtures", name, "model.onnx", NULL);
  OrtrainModel *model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  return model;
}

static char *
get_scoped_name (OrtrainModel *model, const char *name)
{
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  GListModel *parameters = ortrain_check_report_get_parameters (report);
  for (guint i = 0; i < g_list_model_get_n_items (parameters); i++)
    {
      g_autoptr (OrtrainParameterInfo) info = g_list_model_get_item (parameters, i);
      if (!g_str_equal (ortrain_parameter_info_get_name (info), name))
        continue;
      g_autofree char *text = ortrain_parameter_info_to_string (info), *found = NULL;
      char *scoped = g_strdup (ortrain_parameter_info_get_scoped_name (info));
      g_object_get (info, "scoped-name", &found, NULL);
      g_assert_cmpstr (found, ==, scoped);
      g_assert_true (scoped == NULL || strstr (text, scoped) != NULL);
      return scoped;
    }
  g_assert_not_reached ();
}

/* ---- files as exporters write them ---- */

static const struct
{
  const char *fixture, *name, *scoped_name;
} cases[] = {
  { "distilbert", "val_80", "model.distilbert.transformer.layer.0.attention.q_lin.weight" },
  { "distilbert", "val_218", "model.distilbert.transformer.layer.1.ffn.lin2.weight" },
  { "distilbert", "val_226", "model.vocab_projector.weight" },
  { "distilbert", "model.distilbert.embeddings.LayerNorm.weight", NULL },
  { "vit", "val_95", "model.vit.layers.0.mlp.fc1.weight" },
  { "unet", "val_20", "g1.weight" }, /* two parameters in one call */
  { "unet", "val_22", "g1.bias" },
  { "unet", "val_8", NULL }, /* ones of all three normalizations */
  { "bert", "onnx::MatMul_406", "model.bert.encoder.layer.0.attention.self.query.weight" },
  { "mlp", "body.1.weight", NULL },
  { "lstm", "onnx::MatMul_398", "out.weight" },
  { "lstm", "onnx::LSTM_352", NULL },
};

static void
test_exporters (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (OrtrainModel) model = load_fixture (cases[i].fixture);
      g_autofree char *found = get_scoped_name (model, cases[i].name);
      g_assert_cmpstr (found, ==, cases[i].scoped_name);
    }
}

static void
test_nodes (void)
{
  g_autoptr (OrtrainModel) model = load_fixture ("distilbert");
  OrtrainGraph *graph = ortrain_model_get_graph (model, NULL);
  OrtrainNode *node = ortrain_graph_find_node (graph, "node_MatMul_79");
  g_assert_cmpstr (ortrain_node_get_scope (node), ==, "model.distilbert.transformer.layer.0.attention.q_lin");
  g_autofree char *text = ortrain_graph_to_string (graph);
  g_assert_nonnull (strstr (text, "'node_MatMul_79'  in model.distilbert.transformer.layer.0.attention.q_lin\n"));
  g_assert_nonnull (strstr (text, "(model.distilbert.transformer.layer.0.attention.q_lin.weight)\n"));
}

/* ---- patterns ---- */

static OrtrainTrainingSession *
new_session (OrtrainModel *model, OrtrainTrainingOptions *options, GError **error)
{
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new (
      ortrain_value_get_name (((OrtrainGraph *) ortrain_model_get_file_graph (model))->outputs->pdata[0]), "labels");
  ortrain_training_options_add_loss (options, loss);
  return ortrain_training_session_new (model, options, error);
}

/* The names of trained tensors, in the order of the file, joined by spaces. */
static char *
find_trained (const char *const *trainable, const char *const *frozen)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = load_fixture ("distilbert");
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_set_trainable (options, trainable);
  ortrain_training_options_set_frozen (options, frozen);
  g_autoptr (OrtrainTrainingSession) session = new_session (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
  g_auto (GStrv) names = ortrain_tensor_dict_get_names (parameters);
  guint64 n_elements = 0;
  for (guint i = 0; names[i] != NULL; i++)
    n_elements += (guint64) ortrain_tensor_get_n_elements (ortrain_tensor_dict_get (parameters, names[i]));
  g_assert_cmpuint (ortrain_training_session_get_n_parameters (session), ==, n_elements);
  return g_strjoinv (" ", names);
}

#define LAYER "model.distilbert.transformer.layer.1.attention"

static void
test_trainable (void)
{
  const struct
  {
    const char *trainable, *frozen, *trained;
  } choices[] = {
    { LAYER ".q_lin.*", NULL, LAYER ".q_lin.bias val_152" },
    { LAYER ".q_lin", NULL, LAYER ".q_lin.bias val_152" }, /* the module */
    { LAYER ".?_lin.weight", NULL, "val_152 val_160 val_168" },
    { LAYER ".q_lin.weight", NULL, "val_152" },
    { "val_152", NULL, "val_152" },
    { LAYER ".q_lin.*", "val_152", LAYER ".q_lin.bias" },
    { LAYER ".q_lin.*", LAYER ".q_lin.weight", LAYER ".q_lin.bias" },
    { LAYER ".?_lin", LAYER ".q_lin", LAYER ".k_lin.bias " LAYER ".v_lin.bias val_160 val_168" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (choices); i++)
    {
      const char *const trainable[] = { choices[i].trainable, NULL }, *const frozen[] = { choices[i].frozen, NULL };
      g_autofree char *trained = find_trained (trainable, choices[i].frozen != NULL ? frozen : NULL);
      g_assert_cmpstr (trained, ==, choices[i].trained);
    }
}

static void
test_unmatched (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = load_fixture ("distilbert");
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  const char *const patterns[] = { LAYER ".r_lin", NULL };
  ortrain_training_options_set_frozen (options, patterns);
  g_assert_null (new_session (model, options, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_assert_nonnull (strstr (error->message, "r_lin"));
}

static void
test_groups (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = load_fixture ("distilbert");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.1), other = ortrain_sgd_new (0.1);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new (), wrong = ortrain_training_options_new ();
  ortrain_optimizer_add_group (optimizer, "*", 0, 0);
  ortrain_optimizer_add_group (optimizer, LAYER ".q_lin.weight", 1, 0);
  ortrain_training_options_set_optimizer (options, optimizer);
  g_autoptr (OrtrainTrainingSession) session G_GNUC_UNUSED = new_session (model, options, &error);
  g_assert_no_error (error);

  /* patterns that match nothing */
  ortrain_optimizer_add_group (other, "*", 0, 0);
  ortrain_optimizer_add_group (other, LAYER ".q_lin.weigth", 1, 0);
  ortrain_training_options_set_optimizer (wrong, other);
  g_assert_null (new_session (model, wrong, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_assert_nonnull (strstr (error->message, "Parameter group '" LAYER ".q_lin.weigth'"));
}

/* ---- small models: y = x · w + b, twice ---- */

#define SCOPES "pkg.torch.onnx.name_scopes"
#define CALL "pkg.torch.onnx.fx_node"

/* Metadata of the first product and of the second; NULL: none. */
static GBytes *
make_model (const char *first, const char *second, const char *call)
{
  static const float ones[9] = { 1, 0.5f, -1, 2, 1, 0.25f, 3, 1, -2 };
  Proto *graph = proto_new ();
  const char *const scopes[] = { first, second };
  for (guint i = 0; i < 2; i++)
    {
      Proto *node = i == 0 ? proto_node ("MatMul", "x,val_0", "h") : proto_node ("MatMul", "h,val_1", "y");
      if (scopes[i] != NULL)
        proto_entry (node, 9, SCOPES, scopes[i]);
      if (call != NULL)
        proto_entry (node, 9, CALL, call);
      proto_message (graph, 1, node);
      proto_message (graph, 5, proto_tensor (i == 0 ? "val_0" : "val_1", 1, DIMS (3, 3), ones, sizeof ones));
    }
  proto_string (graph, 2, "exported");
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4, 3)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4, 3)));
  return proto_model (graph, 8, 17);
}

static OrtrainModel *
load (GBytes *bytes, OrtrainModelLimits *limits)
{
  g_autoptr (GError) error = NULL;
  OrtrainModel *model = ortrain_model_new_from_bytes_with_limits (bytes, NULL, limits, &error);
  g_assert_no_error (error);
  return model;
}

static void
expect (const char *first, const char *second, const char *call, const char *first_name, const char *second_name)
{
  g_autoptr (GBytes) bytes = make_model (first, second, call);
  g_autoptr (OrtrainModel) model = load (bytes, NULL);
  g_autofree char *a = get_scoped_name (model, "val_0"), *b = get_scoped_name (model, "val_1");
  g_assert_cmpstr (a, ==, first_name);
  g_assert_cmpstr (b, ==, second_name);
}

static void
test_metadata (void)
{
  expect ("['', 'a', 'a.b', 'linear']", "['', \"a\", \"a.c\", 'linear_1']", NULL, "a.b.weight", "a.c.weight");
  expect ("['', 'a', 'linear']", "['', 'a', 'linear_1']", NULL, "a.weight", NULL); /* the first of two */
  expect ("['', 'a', 'l']", "['', 'b', 'l']", "(args = (%x, %p_a_left, %p_b_right))", "a.left", "b.right");
  expect ("['', 'A.x', 'l']", "['', 'b', 'l']", "%p_a_x_kernel %p_b_one %p_b_two", "A.x.kernel", "b.weight");
  expect ("['linear']", "['', 'linear']", "%p_w", NULL, "w"); /* a parameter of the outermost module */
}

/* A scale that the exporter gave two more axes, once for the scales of two normalizations that were equal: each has its
 * own. */
static void
test_split_forms (void)
{
  static const float ones[] = { 1, 1, 1 };
  Proto *graph = proto_new ();
  for (guint i = 0; i < 2; i++)
    {
      Proto *node = i == 0 ? proto_node ("Mul", "x,val_0", "h") : proto_node ("Mul", "h,val_0", "y");
      proto_entry (node, 9, SCOPES, i == 0 ? "['', 'a', 'group_norm']" : "['', 'b', 'group_norm_1']");
      proto_entry (node, 9, CALL,
                   i == 0 ? "%group_norm = f(args = (%x, 1, %p_a_weight, %p_a_bias))"
                          : "%group_norm_1 = f(args = (%h, 1, %p_b_weight, %p_b_bias))");
      proto_message (graph, 1, node);
    }
  proto_message (graph, 5, proto_tensor ("val_0", 1, DIMS (1, 3), ones, sizeof ones));
  proto_entry (graph, 16, "pkg.torch.export.ExportedProgram.graph_signature",
               "p_a_weight: PARAMETER target='a.weight'\np_a_bias: PARAMETER target='a.bias'\n"
               "p_b_weight: PARAMETER target='b.weight'\np_b_bias: PARAMETER target='b.bias'\n");
  proto_string (graph, 2, "exported");
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4, 3)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4, 3)));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = load (bytes, NULL);
  OrtrainGraph *file_graph = ortrain_model_get_file_graph (model);
  g_autofree char *first = get_scoped_name (model, "val_0");
  g_assert_cmpstr (first, ==, "a.weight");
  g_assert_nonnull (ortrain_graph_find_value (file_graph, "b.weight"));
  const OrtrainNode *last = file_graph->nodes->pdata[1];
  g_assert_cmpstr (ortrain_node_input (last, 1)->name, ==, "b.weight");
}

/* A bias that two modules had alike is stored once, and in one of them the exporter created the node that splits it:
 * the readers of the pieces tell the module. */
static void
test_split_of_reader (void)
{
  const struct
  {
    const char *first, *second, *name;
  } readers[] = {
    { "['', 'b', 'linear']", "['', 'b', 'linear_1']", "b.bias" },
    { "['', 'a', 'linear']", "['', 'a', 'linear_1']", "a.bias" },
    { "['', 'b', 'linear']", "['', 'a', 'linear_1']", "a.bias" },
    { "['', 'c', 'linear']", "['', 'c', 'linear_1']", "a.bias" },
    { "['', 'b', 'linear']", NULL, "a.bias" },
  };
  static const float zeros[] = { 0, 0 };
  for (guint i = 0; i < G_N_ELEMENTS (readers); i++)
    {
      Proto *graph = proto_new (), *add = proto_node ("Add", "x,a.bias", "h"), *first = proto_node ("Add", "h,s", "g"),
            *second = proto_node ("Add", "g,t", "y");
      proto_entry (add, 9, SCOPES, "['', 'a', 'linear']");
      proto_entry (add, 9, CALL, "%linear = f(args = (%x, %p_a_weight, %p_a_bias))");
      proto_entry (first, 9, SCOPES, readers[i].first);
      if (readers[i].second != NULL)
        proto_entry (second, 9, SCOPES, readers[i].second);
      proto_message (graph, 1, add);
      proto_message (graph, 1, proto_node ("Split", "a.bias", "s,t"));
      proto_message (graph, 1, first);
      proto_message (graph, 1, second);
      proto_message (graph, 5, proto_tensor ("a.bias", 1, DIMS (2), zeros, sizeof zeros));
      proto_entry (graph, 16, "pkg.torch.export.ExportedProgram.graph_signature",
                   "p_a_bias: PARAMETER target='a.bias'\np_b_bias: PARAMETER target='b.bias'\n");
      proto_string (graph, 2, "exported");
      proto_message (graph, 11, proto_value ("x", 1, DIMS (4, 2)));
      proto_message (graph, 12, proto_value ("y", 1, DIMS (4, 2)));
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      g_autoptr (OrtrainModel) model = load (bytes, NULL);
      const OrtrainNode *split = ortrain_model_get_file_graph (model)->nodes->pdata[1];
      g_assert_cmpstr (ortrain_node_input (split, 0)->name, ==, readers[i].name);
    }
}

static void
test_hostile (void)
{
  static const char *const lists[] = {
    "",
    "[",
    "[]",
    "['a'",
    "['a', 'b'",
    "['a', 'b', ",
    "['a' 'b']x",
    "[['a'], 'b']",
    "[1, 2]",
    "a.b",
    "['a\\'b', 'c']",
    "['', '']",
    "['a', 'b\xff']",
    "['a\xc3', 'b']",
  };
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    expect (lists[i], NULL, NULL, NULL, NULL);

  /* text in the names is escaped where people see it */
  g_autoptr (GBytes) odd = make_model ("['', 'a\n\x1b[2J', 'l']", NULL, NULL);
  g_autoptr (OrtrainModel) shown = load (odd, NULL);
  g_autofree char *text = ortrain_graph_to_string (ortrain_model_get_file_graph (shown));
  g_assert_null (strchr (text, '\x1b'));

  /* too long for a name */
  g_autoptr (OrtrainModelLimits) limits = ortrain_model_limits_new ();
  g_autoptr (GBytes) bytes = make_model ("['', 'a23456789', 'l']", "['', 'b', 'l']", NULL);
  ortrain_model_limits_set_max_name_bytes (limits, 20);
  g_autoptr (OrtrainModel) model = load (bytes, limits);
  g_autofree char *a = get_scoped_name (model, "val_0"), *b = get_scoped_name (model, "val_1");
  g_assert_cmpstr (a, ==, NULL);
  g_assert_cmpstr (b, ==, "b.weight");

  /* a message that is cut off, at each byte; whole fields of other types */
  g_autoptr (GByteArray) entry = g_byte_array_new ();
  proto_string (entry, 1, SCOPES);
  proto_string (entry, 2, "['', 'a', 'l']");
  for (guint n = 0; n <= entry->len; n++)
    {
      Proto *graph = proto_new (), *node = proto_node ("MatMul", "x,val_0", "y");
      proto_bytes (node, 9, entry->data, n);
      proto_int (node, 9, 1);
      proto_message (graph, 1, node);
      proto_message (graph, 5, proto_tensor ("val_0", 1, DIMS (1, 1), "\0\0\200?", 4));
      proto_message (graph, 11, proto_value ("x", 1, DIMS (4, 1)));
      proto_message (graph, 12, proto_value ("y", 1, DIMS (4, 1)));
      g_autoptr (GBytes) cut = proto_model (graph, 8, 17);
      g_autoptr (OrtrainModel) loaded = load (cut, NULL);
      g_autofree char *name = get_scoped_name (loaded, "val_0");
      g_assert_cmpstr (name, ==, n == entry->len ? "a.weight" : NULL);
    }
}

/* ---- everything else that takes names ---- */

static void
test_ties (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = make_model ("['', 'a', 'l']", "['', 'b', 'l']", NULL);
  g_autoptr (OrtrainModel) model = load (bytes, NULL);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_tie (options, "a.weight", "b.weight");
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_session_get_n_parameters (session), ==, 9);
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
  g_auto (GStrv) names = ortrain_tensor_dict_get_names (parameters);
  g_assert_cmpstr (names[0], ==, "val_0");
  g_assert_null (names[1]);
  /* both are written where they stood */
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL), *path = g_build_filename (folder, "m.onnx", NULL);
  g_assert_true (ortrain_training_session_export (session, path, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) out = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autofree char *kept = get_scoped_name (out, "val_1"); /* with their metadata */
  g_assert_cmpstr (kept, ==, "b.weight");
  g_autoptr (GFile) file = g_file_new_for_path (path), directory = g_file_new_for_path (folder);
  g_assert_true (g_file_delete (file, NULL, NULL) && g_file_delete (directory, NULL, NULL));
}

static void
test_precision (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = make_model ("['', 'a', 'l']", "['', 'b', 'l']", NULL);
  const char *const patterns[] = { "a", "b*", "c" };
  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    {
      g_autoptr (OrtrainModel) model = load (bytes, NULL);
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
      ortrain_training_options_add_loss (options, loss);
      ortrain_training_options_set_precision (options, ORTRAIN_PRECISION_BF16);
      ortrain_training_options_set_node_precision (options, patterns[i], ORTRAIN_PRECISION_F32);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      if (i == 2)
        {
          g_assert_null (session);
          g_assert_nonnull (strstr (error->message, "'c'"));
          continue;
        }
      g_assert_no_error (error);
      OrtrainGraph *graph = ortrain_training_session_get_training_graph (session);
      guint n_narrow = 0;
      for (guint n = 0; n < graph->nodes->len; n++)
        {
          const OrtrainNode *node = graph->nodes->pdata[n];
          n_narrow += node->phase == ORTRAIN_PHASE_FORWARD && strstr (node->op_type, "MatMul") != NULL &&
                      ortrain_node_input (node, 0)->dtype == ORTRAIN_DTYPE_BFLOAT16;
        }
      g_assert_cmpuint (n_narrow, ==, 1);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/scoped-names/split-forms", test_split_forms);
  g_test_add_func ("/scoped-names/split-of-reader", test_split_of_reader);
  g_test_add_func ("/scoped-names/exporters", test_exporters);
  g_test_add_func ("/scoped-names/nodes", test_nodes);
  g_test_add_func ("/scoped-names/trainable", test_trainable);
  g_test_add_func ("/scoped-names/unmatched", test_unmatched);
  g_test_add_func ("/scoped-names/groups", test_groups);
  g_test_add_func ("/scoped-names/metadata", test_metadata);
  g_test_add_func ("/scoped-names/hostile", test_hostile);
  g_test_add_func ("/scoped-names/ties", test_ties);
  g_test_add_func ("/scoped-names/precision", test_precision);
  return g_test_run ();
}
