/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-private.h"
#include "model/ortrain-proto-maker.h"
#include "ortrain.h"

#include <math.h>
#include <string.h>

/* Rewrites of weights by exporters, from the file through training to the exported file: everything is trained as in
 * the program, the form of the file stays, and the exported file computes the same as the session. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })

static const float square[] = { 0.5f, -0.25f, 1, 2, 0.75f, -1, 0.125f, 0.5f, -0.5f };
static const float bias[] = { 0.5f, -1, 0.25f };

static OrtrainModel *
load (GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensor *
contents (OrtrainModel *model, const char *name)
{
  OrtrainValue *value = ortrain_graph_find_value (ortrain_model_get_file_graph (model), name);
  g_assert_nonnull (value);
  g_assert_nonnull (value->tensor);
  return value->tensor;
}

static OrtrainTensorDict *
make_feeds (gint64 columns, gint64 outputs)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  const gint64 x_dims[] = { 4, columns }, t_dims[] = { 4, outputs };
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 2, NULL),
                            t = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, t_dims, 2, NULL);
  for (gint64 i = 0; i < 4 * columns; i++)
    ((float *) ortrain_tensor_get_address (x))[i] = sinf ((float) i);
  for (gint64 i = 0; i < 4 * outputs; i++)
    ((float *) ortrain_tensor_get_address (t))[i] = cosf ((float) i);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "t", t);
  return feeds;
}

/* Trains y against t for some steps, exports, and returns the exported model, after a comparison of its outputs with
 * those of the session. ties: pairs of names, NULL at the end. */
static OrtrainModel *
train_some (OrtrainModel *model, const char *const *ties, gboolean is_random, OrtrainTensorDict **trained)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.05);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  for (; ties != NULL && *ties != NULL; ties += 2)
    ortrain_training_options_tie (options, ties[0], ties[1]);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (3, 3), inputs = ortrain_tensor_dict_new ();
  double first = NAN, last = NAN;
  for (guint i = 0; i < 10; i++)
    {
      last = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      first = i == 0 ? last : first;
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
  if (!is_random)
    g_assert_cmpfloat (last, <, first);
  if (trained != NULL)
    *trained = ortrain_training_session_get_parameters (session, &error);

  ortrain_tensor_dict_set (inputs, "x", ortrain_tensor_dict_get (feeds, "x"));
  g_autoptr (OrtrainTensorDict) want = ortrain_training_session_eval_step (session, inputs, &error);
  g_assert_no_error (error);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL), *path = g_build_filename (folder, "m.onnx", NULL),
                  *data = NULL;
  gsize size;
  g_assert_true (ortrain_training_session_export (session, path, &error));
  g_assert_true (g_file_get_contents (path, &data, &size, &error));
  g_autofree char *command = g_strdup_printf ("rm -rf '%s'", folder);
  g_assert_true (g_spawn_command_line_sync (command, NULL, NULL, NULL, NULL));
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  OrtrainModel *out = load (bytes);
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (out, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) have = ortrain_inference_session_run (inference, inputs, &error);
  g_assert_no_error (error);
  for (gint64 i = 0; i < 12; i++)
    g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (have, "y"), i),
                                    ortrain_tensor_get_scalar (ortrain_tensor_dict_get (want, "y"), i), 1e-5);
  return out;
}

static OrtrainModel *
train (OrtrainModel *model, const char *const *ties, OrtrainTensorDict **trained)
{
  return train_some (model, ties, FALSE, trained);
}

static gboolean
moved (OrtrainModel *from, OrtrainModel *to, const char *name)
{
  return !ortrain_tensor_equal (contents (from, name), contents (to, name));
}

static void
add_ends (Proto *graph)
{
  proto_string (graph, 2, "exported");
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4, 3)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4, 3)));
}

static Proto *
constant (const char *name, Proto *tensor)
{
  Proto *node = proto_new (), *attribute = proto_new ();
  proto_string (node, 2, name);
  proto_string (node, 4, "Constant");
  proto_string (attribute, 1, "value");
  proto_message (attribute, 5, tensor);
  proto_int (attribute, 20, 4);
  proto_message (node, 5, attribute);
  return node;
}

/* ---- Where weights stand ---- */

static void
test_constants (void)
{
  Proto *graph = proto_new ();
  proto_message (graph, 1, constant ("w", proto_tensor (NULL, 1, DIMS (3, 3), square, sizeof square)));
  proto_message (graph, 1, constant ("b", proto_tensor (NULL, 1, DIMS (3), bias, sizeof bias)));
  proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
  proto_message (graph, 1, proto_node ("Add", "h,b", "y"));
  add_ends (graph);
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = load (bytes), out = train (model, NULL, NULL);
  g_assert_true (moved (model, out, "w"));
  g_assert_true (moved (model, out, "b"));
  const OrtrainOrigin *origin = g_hash_table_lookup (out->reader.origins, "w");
  g_assert_cmpint (origin->kind, ==, ORTRAIN_ORIGIN_CONSTANT); /* still a node */
}

/* As the format wanted it before version 4: every initializer is an input too. */
static void
test_input_initializers (void)
{
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
  proto_message (graph, 1, proto_node ("Add", "h,b", "y"));
  proto_message (graph, 5, proto_tensor ("w", 1, DIMS (3, 3), square, sizeof square));
  proto_message (graph, 5, proto_tensor ("b", 1, DIMS (3), bias, sizeof bias));
  proto_message (graph, 11, proto_value ("w", 1, DIMS (3, 3)));
  proto_message (graph, 11, proto_value ("b", 1, DIMS (3)));
  add_ends (graph);
  g_autoptr (GBytes) bytes = proto_model (graph, 3, 7);
  g_autoptr (OrtrainModel) model = load (bytes), out = train (model, NULL, NULL);
  g_assert_true (moved (model, out, "w"));
  g_assert_true (moved (model, out, "b"));
  g_assert_cmpuint (out->proto->graph->n_input, ==, 3);
  g_assert_cmpint (ortrain_model_get_opset (out), ==, 7);
  g_assert_cmpint (ortrain_model_get_ir_version (out), ==, 3);
}

static gboolean
has_note_of_merging (char **notes)
{
  for (; *notes != NULL; notes++)
    if (g_str_has_prefix (*notes, "'a.bias' is read by 2 nodes and has one value everywhere"))
      return TRUE;
  return FALSE;
}

/* Without a node between, nothing tells two biases that were stored once from a tie: they are trained as one, and a
 * note says so; there is no note for tensors that have different values, or were tied by the options. */
static void
test_stored_once (void)
{
  static const float zeros[] = { 0, 0, 0 };
  for (guint fresh = 0; fresh < 2; fresh++)
    {
      GError *error = NULL;
      Proto *graph = proto_new ();
      proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
      proto_message (graph, 1, proto_node ("Add", "h,a.bias", "i"));
      proto_message (graph, 1, proto_node ("Sin", "i", "j"));
      proto_message (graph, 1, proto_node ("Add", "j,a.bias", "y"));
      proto_message (graph, 5, proto_tensor ("w", 1, DIMS (3, 3), square, sizeof square));
      proto_message (graph, 5, proto_tensor ("a.bias", 1, DIMS (3), fresh ? zeros : bias, sizeof bias));
      add_ends (graph);
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      g_autoptr (OrtrainModel) model = load (bytes);
      g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
      g_auto (GStrv) notes = ortrain_check_report_get_notes (report);
      g_assert_cmpint (has_note_of_merging (notes), ==, fresh == 1);
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
      ortrain_training_options_add_loss (options, loss);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_auto (GStrv) session_notes = ortrain_training_session_get_notes (session);
      g_assert_cmpint (has_note_of_merging (session_notes), ==, fresh == 1);
    }
}

/* Three parameters of equal values, which the exporter has merged: each is trained on its own, whatever its name. */
static void
test_identities (void)
{
  for (gint64 ir = 3; ir <= 8; ir += 5)
    {
      Proto *graph = proto_new ();
      proto_message (graph, 1, proto_node ("Identity", "a.bias", "onnx::Add_7"));
      proto_message (graph, 1, proto_node ("Identity", "a.bias", "c.bias"));
      proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
      proto_message (graph, 1, proto_node ("Add", "h,a.bias", "i"));
      proto_message (graph, 1, proto_node ("Tanh", "i", "j"));
      proto_message (graph, 1, proto_node ("Add", "j,onnx::Add_7", "k"));
      proto_message (graph, 1, proto_node ("Sin", "k", "l"));
      proto_message (graph, 1, proto_node ("Add", "l,c.bias", "y"));
      proto_message (graph, 5, proto_tensor ("w", 1, DIMS (3, 3), square, sizeof square));
      proto_message (graph, 5, proto_tensor ("a.bias", 1, DIMS (3), bias, sizeof bias));
      if (ir < 4)
        {
          proto_message (graph, 11, proto_value ("w", 1, DIMS (3, 3)));
          proto_message (graph, 11, proto_value ("a.bias", 1, DIMS (3)));
        }
      add_ends (graph);
      g_autoptr (GBytes) bytes = proto_model (graph, ir, ir < 4 ? 7 : 17);
      g_autoptr (OrtrainTensorDict) trained = NULL;
      g_autoptr (OrtrainModel) model = load (bytes), out = train (model, NULL, &trained);
      static const char *const names[] = { "a.bias", "onnx::Add_7", "c.bias" };
      g_assert_cmpuint (ortrain_tensor_dict_get_size (trained), ==, 4);
      for (guint i = 0; i < 3; i++)
        {
          g_assert_true (moved (model, out, names[i]));
          g_assert_true (ortrain_tensor_equal (contents (out, names[i]), ortrain_tensor_dict_get (trained, names[i])));
          g_assert_false (ortrain_tensor_equal (contents (out, names[i]), contents (out, names[(i + 1) % 3])));
        }
      /* told to be one, they stay one, and so does the file */
      g_autoptr (OrtrainModel) one =
          train (model, (const char *const[]){ "a.bias", "onnx::Add_7", "a.bias", "c.bias", NULL }, NULL);
      g_assert_true (moved (model, one, "a.bias"));
      g_assert_true (ortrain_tensor_equal (contents (one, "a.bias"), contents (one, "c.bias")));
      const OrtrainOrigin *origin = g_hash_table_lookup (one->reader.origins, "c.bias");
      g_assert_cmpint (origin->kind, ==, ORTRAIN_ORIGIN_IDENTITY);
    }
}

/* A node that was made from a call with these parameters of the program. */
static Proto *
called_node (const char *op, const char *inputs, const char *output, const char *call)
{
  Proto *node = proto_node (op, inputs, output);
  proto_entry (node, 9, "pkg.torch.onnx.fx_node", call);
  return node;
}

/* PyTorch's newer exporter stored equal tensors once, and lists the parameters of the program: they are apart again,
 * under their own names; a table stays one. */
static void
test_split_parameters (void)
{
  static const char signature[] =
      "\n# inputs\np_a_weight: PARAMETER target='a.weight'\np_b_weight: PARAMETER target='b.weight'\n"
      "p_n1_weight: PARAMETER target='n1.weight'\np_n1_bias: PARAMETER target='n1.bias'\n"
      "p_n2_weight: PARAMETER target='n2.weight'\np_n2_bias: PARAMETER target='n2.bias'\n"
      "p_c_bias: PARAMETER target='c.bias'\nx: USER_INPUT\n\n# outputs\ny: USER_OUTPUT\n";
  static const float ones[] = { 1, 1, 1 }, zeros[] = { 0, 0, 0 };
  static const gint64 ids[] = { 2, 0, 1, 2 };
  for (guint form = 0; form < 3; form++) /* listed, not listed, with a table */
    {
      Proto *graph = proto_new ();
      if (form == 2)
        {
          proto_message (graph, 1, called_node ("Gather", "a.weight,ids", "e", "%e = embedding(args = (%p_a_weight))"));
          proto_message (graph, 1, proto_node ("Add", "e,x", "f"));
          proto_message (graph, 1, called_node ("MatMul", "f,a.weight", "h", "%l = linear(args = (%f, %p_a_weight))"));
          proto_message (graph, 5, proto_tensor ("ids", 7, DIMS (4), ids, sizeof ids));
        }
      else
        proto_message (graph, 1, called_node ("MatMul", "x,a.weight", "h", "%l = linear(args = (%x, %p_a_weight))"));
      proto_message (graph, 1,
                     called_node ("LayerNormalization", "h,n1.weight,n1.bias", "i",
                                  "%n = layer_norm(args = (%h, [3], %p_n1_weight, %p_n1_bias))"));
      proto_message (graph, 1, proto_node ("Tanh", "i", "j"));
      proto_message (graph, 1,
                     called_node ("MatMul", "j,a.weight", "k", "%l_1 = linear(args = (%j, %p_b_weight, %p_c_bias))"));
      proto_message (graph, 1,
                     called_node ("Add", "k,n1.bias", "l", "%l_1 = linear(args = (%j, %p_b_weight, %p_c_bias))"));
      proto_message (graph, 1,
                     called_node ("LayerNormalization", "l,n1.weight,n1.bias", "y",
                                  "%n_1 = layer_norm(args = (%l, [3], %p_n2_weight, %p_n2_bias))"));
      proto_message (graph, 5, proto_tensor ("a.weight", 1, DIMS (3, 3), square, sizeof square));
      proto_message (graph, 5, proto_tensor ("n1.weight", 1, DIMS (3), ones, sizeof ones));
      proto_message (graph, 5, proto_tensor ("n1.bias", 1, DIMS (3), zeros, sizeof zeros));
      if (form != 1)
        proto_entry (graph, 16, "pkg.torch.export.ExportedProgram.graph_signature", signature);
      add_ends (graph);
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      g_autoptr (OrtrainTensorDict) trained = NULL;
      g_autoptr (OrtrainModel) model = load (bytes), out = train (model, NULL, &trained);
      static const char *const names[] = { "a.weight", "n1.weight", "n2.weight", "n1.bias",
                                           "n2.bias",  "c.bias",    "b.weight" };
      static const guint n_trained[] = { 7, 3, 6 };
      g_assert_cmpuint (ortrain_tensor_dict_get_size (trained), ==, n_trained[form]);
      if (form != 0)
        continue;
      for (guint i = 0; i < G_N_ELEMENTS (names); i++)
        {
          g_assert_true (moved (model, out, names[i]));
          g_assert_true (ortrain_tensor_equal (contents (out, names[i]), ortrain_tensor_dict_get (trained, names[i])));
        }
      g_assert_cmpuint (out->scan.nodes->len, ==, 6);
      /* told to be one, they stay one, and so does the file */
      static const char *const ties[] = { "n1.weight", "n2.weight", "n1.bias",  "n2.bias", "n1.bias",
                                          "c.bias",    "a.weight",  "b.weight", NULL };
      g_autoptr (OrtrainModel) one = train (model, ties, NULL);
      g_assert_true (moved (model, one, "n1.bias"));
      g_assert_cmpuint (one->scan.initializers->len, ==, 3);
      g_assert_true (ortrain_tensor_equal (contents (one, "n1.bias"), contents (one, "c.bias")));
    }
}

/* The exporter left out biases that were 0, which the calls still have. */
static void
test_left_out_biases (void)
{
  static const char signature[] =
      "\n# inputs\np_a_weight: PARAMETER target='a.weight'\np_a_bias: PARAMETER target='a.bias'\n"
      "p_b_weight: PARAMETER target='b.weight'\np_b_bias: PARAMETER target='b.bias'\n";
  for (guint form = 0; form < 2; form++)
    {
      Proto *graph = proto_new (), *bare;
      proto_message (graph, 1,
                     called_node ("Gemm", "x,a.weight", "h", "%l = linear(args = (%x, %p_a_weight, %p_a_bias))"));
      proto_message (graph, 1, proto_node ("Tanh", "h", "i"));
      bare = called_node ("Gemm", form == 0 ? "i,val_0" : "i,val_0,", "y",
                          "%l_1 = linear(args = (%i, %p_b_weight, %p_b_bias))");
      proto_message (graph, 1, bare);
      proto_message (graph, 5, proto_tensor ("a.weight", 1, DIMS (3, 3), square, sizeof square));
      proto_message (graph, 5, proto_tensor ("val_0", 1, DIMS (3, 3), square, sizeof square));
      proto_message (graph, 13, proto_value ("h", 1, DIMS (4, 3)));
      proto_entry (graph, 16, "pkg.torch.export.ExportedProgram.graph_signature", signature);
      add_ends (graph);
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      g_autoptr (OrtrainTensorDict) trained = NULL;
      g_autoptr (OrtrainModel) model = load (bytes), out = train (model, NULL, &trained);
      g_assert_cmpuint (ortrain_tensor_dict_get_size (trained), ==, 4);
      g_assert_true (moved (model, out, "a.bias"));
      g_assert_true (moved (model, out, "b.bias"));
      g_assert_cmpuint (out->scan.initializers->len, ==, 4);

      /* untrained tensors stay left out */
      g_autoptr (GHashTable) tensors = g_hash_table_new (g_str_hash, g_str_equal);
      g_autoptr (GBytes) same = ortrain_model_export_bytes (model, tensors, NULL);
      g_assert_true (g_bytes_equal (same, bytes));
    }
}

/* A table of rows that is the weight of a product as well, stored twice, as PyTorch's exporters transpose operands of
 * products: one parameter, unless names are chosen. Two weights with the same values are two. */
static void
test_table_stored_twice (void)
{
  static const guint n_trained[] = { 1, 2, 2, 2 };
  float table[16], turned[16];
  static const gint64 ids[] = { 2, 0, 1, 3 };
  for (guint form = 0; form < 4; form++) /* transposed, with chosen names, two weights, one value */
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_output_loss_new ("loss");
      Proto *graph = proto_new ();
      for (guint i = 0; i < 16; i++)
        table[i] = turned[i % 4 * 4 + i / 4] = form == 3 ? 0.5f : sinf ((float) i);
      proto_message (graph, 1, proto_node (form == 2 ? "MatMul" : "Gather", form == 2 ? "x,emb" : "emb,ids", "e"));
      proto_message (graph, 1, proto_node ("Mul", "e,x", "f"));
      proto_message (graph, 1, proto_node ("MatMul", "f,head", "h"));
      proto_message (graph, 1, proto_node ("Tanh", "h", "t"));
      proto_message (graph, 1, proto_node ("ReduceMean", "t", "loss"));
      proto_message (graph, 5, proto_tensor ("emb", 1, DIMS (4, 4), table, sizeof table));
      proto_message (graph, 5, proto_tensor ("head", 1, DIMS (4, 4), turned, sizeof turned));
      proto_message (graph, 5, proto_tensor ("ids", 7, DIMS (4), ids, sizeof ids));
      proto_string (graph, 2, "tied");
      proto_message (graph, 11, proto_value ("x", 1, DIMS (4, 4)));
      proto_message (graph, 12, proto_value ("loss", 1, DIMS (1, 1)));
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      g_autoptr (OrtrainModel) model = load (bytes);
      ortrain_training_options_add_loss (options, loss);
      if (form == 1)
        ortrain_training_options_set_trainable (options, (const char *const[]){ "*", NULL });
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) trained = ortrain_training_session_get_parameters (session, &error);
      g_assert_cmpuint (ortrain_tensor_dict_get_size (trained), ==, n_trained[form]);
    }
}

/* An embedding that is the weight of the output too, as PyTorch exports a scripted program: one parameter, whichever of
 * its names the initializer has. Without a difference in use, or with a single value, it is two as above. */
static void
test_tied_table (void)
{
  static const gint64 ids[] = { 2, 0, 1, 2 };
  static const float equal[9] = { 0 };
  enum
  {
    PLAIN,    /* no Identity */
    IDENTITY, /* of the table */
    REVERSED, /* of the weight */
    CHAIN,    /* two Identity nodes in a row, the second among the operators */
    COPIES,   /* both are tables */
    EQUAL,    /* one value */
    N_FORMS
  };
  g_autoptr (OrtrainTensor) expected = NULL;
  for (guint form = 0; form < N_FORMS; form++)
    {
      Proto *graph = proto_new (), *node;
      const char *table = form == REVERSED ? "emb" : "head", *weight = form == REVERSED ? "head" : "emb";
      if (form != PLAIN)
        proto_message (graph, 1, proto_node ("Identity", weight, table));
      proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
      if (form == CHAIN)
        proto_message (graph, 1, proto_node ("Identity", table, "again"));
      proto_message (graph, 1, proto_node ("Gather", "emb,ids", "e"));
      proto_message (graph, 1, proto_node ("Add", "h,e", "i"));
      if (form == COPIES)
        {
          proto_message (graph, 1, proto_node ("Gather", "head,ids", "f"));
          proto_message (graph, 1, proto_node ("Add", "i,f", "y"));
        }
      else
        {
          node = proto_node ("Transpose", form == PLAIN ? "emb" : form == CHAIN ? "again" : "head", "turned");
          proto_message (graph, 1, node);
          proto_message (graph, 1, proto_node ("MatMul", "i,turned", "y"));
        }
      proto_message (graph, 5, proto_tensor ("w", 1, DIMS (3, 3), square, sizeof square));
      proto_message (graph, 5, proto_tensor ("ids", 7, DIMS (4), ids, sizeof ids));
      proto_message (
          graph, 5,
          proto_tensor (form == PLAIN ? "emb" : weight, 1, DIMS (3, 3), form == EQUAL ? equal : square, sizeof square));
      add_ends (graph);
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      g_autoptr (OrtrainTensorDict) trained = NULL;
      g_autoptr (OrtrainModel) model = load (bytes), out = train (model, NULL, &trained);
      const gboolean one = form != COPIES && form != EQUAL;
      g_assert_cmpuint (ortrain_tensor_dict_get_size (trained), ==, one ? 2 : 3);
      if (!one)
        continue;
      OrtrainTensor *got = contents (out, form == REVERSED ? "head" : "emb");
      g_assert_true (moved (model, out, form == REVERSED ? "head" : "emb"));
      if (expected == NULL)
        expected = g_object_ref (got);
      g_assert_true (ortrain_tensor_equal (got, expected));
    }
  g_assert_nonnull (expected);
}

/* ---- One parameter stored twice ---- */

static OrtrainModel *
make_twice (guint form)
{
  /* 0: alike; 1: transposed, of other shape; 2: transposed, square */
  float big[20 * 30], turned[20 * 30];
  const gint64 rows = form == 2 ? 24 : 20, columns = form == 2 ? 24 : 30;
  Proto *graph = proto_new (), *node;
  for (gint64 r = 0; r < rows; r++)
    for (gint64 c = 0; c < columns; c++)
      {
        big[r * columns + c] = sinf ((float) (r * 37 + c * 11)) / 8;
        turned[c * rows + r] = big[r * columns + c];
      }
  const gsize n_bytes = (gsize) (rows * columns) * 4;
  /* x [4, 3] → pad to `rows` columns → embed → back → first three columns */
  float enter[3 * 24], leave[24 * 3];
  for (guint i = 0; i < G_N_ELEMENTS (enter); i++)
    enter[i] = leave[i] = cosf ((float) i * 3) / 2;
  proto_message (graph, 1, proto_node ("MatMul", "x,enter", "e"));
  proto_message (graph, 1, proto_node ("MatMul", "e,a", "h"));
  if (form == 0)
    {
      node = proto_node ("Transpose", "b", "bt");
      proto_message (graph, 1, node);
    }
  proto_message (graph, 1, proto_node ("MatMul", form == 0 ? "h,bt" : "h,b", "g"));
  proto_message (graph, 1, proto_node ("MatMul", "g,leave", "y"));
  proto_message (graph, 5, proto_tensor ("enter", 1, DIMS (3, rows), enter, (gsize) (3 * rows) * 4));
  proto_message (graph, 5, proto_tensor ("leave", 1, DIMS (rows, 3), leave, (gsize) (3 * rows) * 4));
  proto_message (graph, 5, proto_tensor ("a", 1, DIMS (rows, columns), big, n_bytes));
  if (form == 0)
    proto_message (graph, 5, proto_tensor ("b", 1, DIMS (rows, columns), big, n_bytes));
  else
    proto_message (graph, 5, proto_tensor ("b", 1, DIMS (columns, rows), turned, n_bytes));
  add_ends (graph);
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  return load (bytes);
}

static gboolean
is_transpose (OrtrainTensor *a, OrtrainTensor *b)
{
  gint64 rows = ortrain_tensor_get_dim (a, 0), columns = ortrain_tensor_get_dim (a, 1);
  for (gint64 r = 0; r < rows; r++)
    for (gint64 c = 0; c < columns; c++)
      if (ortrain_tensor_get_scalar (a, r * columns + c) != ortrain_tensor_get_scalar (b, c * rows + r))
        return FALSE;
  return TRUE;
}

static void
test_ties (void)
{
  for (guint form = 0; form < 3; form++)
    {
      g_autoptr (OrtrainModel) model = make_twice (form);
      g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
      g_auto (GStrv) notes = ortrain_check_report_get_notes (report);
      gboolean told = FALSE;
      for (guint i = 0; notes[i] != NULL; i++)
        told = told || (strstr (notes[i], "tie (\"a\", \"b\")") != NULL &&
                        (strstr (notes[i], "transposed") != NULL) == (form > 0));
      g_assert_true (told);

      g_autoptr (OrtrainTensorDict) trained = NULL;
      g_autoptr (OrtrainModel) tied = train (model, (const char *const[]){ "a", "b", NULL }, &trained),
                               apart = train (model, NULL, NULL);
      g_assert_cmpuint (ortrain_tensor_dict_get_size (trained), ==, 3); /* b is not a parameter of its own */
      g_assert_true (moved (model, tied, "a"));
      OrtrainTensor *a = contents (tied, "a"), *b = contents (tied, "b");
      g_assert_true (form == 0 ? ortrain_tensor_equal (a, b) : is_transpose (a, b));
      a = contents (apart, "a"), b = contents (apart, "b");
      g_assert_false (form == 0 ? ortrain_tensor_equal (a, b) : is_transpose (a, b));
    }
}

/* ---- Functions ---- */

static void
add_reference (Proto *node, const char *name, const char *of)
{
  Proto *attribute = proto_new ();
  proto_string (attribute, 1, name);
  proto_int (attribute, 20, 1);
  proto_string (attribute, 21, of);
  proto_message (node, 5, attribute);
}

static void
add_float (Proto *to, guint field, const char *name, float value)
{
  Proto *attribute = proto_new ();
  proto_string (attribute, 1, name);
  proto_varint (attribute, 2 << 3 | 5);
  g_byte_array_append (attribute, (const guint8 *) &value, 4);
  proto_int (attribute, 20, 1);
  proto_message (to, field, attribute);
}

static Proto *
call (const char *op_type, const char *name, const char *inputs, const char *outputs)
{
  Proto *node = proto_node (op_type, inputs, outputs);
  proto_string (node, 7, "my");
  proto_string (node, 3, name);
  return node;
}

/* Layer (a, w; slope = 0.5) = Twice (a, w; alpha = slope); Twice calls a node of the same name as Layer's, and uses the
 * names of values that the graph has too. Both calls have one name; one gives the attribute, the other does not. */
static void
test_functions (void)
{
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new (), *layer = proto_new (), *twice = proto_new (), *node, *import;
  node = call ("Layer", "same", "x,w", "h");
  add_float (node, 5, "slope", 0.25f);
  proto_message (graph, 1, node);
  proto_message (graph, 1, call ("Layer", "same", "h,v", "same/same/h"));
  proto_message (graph, 1, proto_node ("Identity", "same/same/h", "y"));
  proto_message (graph, 5, proto_tensor ("w", 1, DIMS (3, 3), square, sizeof square));
  proto_message (graph, 5, proto_tensor ("v", 1, DIMS (3, 3), square, sizeof square));
  add_ends (graph);
  Proto *file = proto_model_unfinished (graph, 9, 17);

  proto_string (layer, 1, "Layer");
  proto_string (layer, 4, "x");
  proto_string (layer, 4, "w");
  proto_string (layer, 5, "y");
  add_float (layer, 11, "slope", 0.5f); /* with a value of its own where a call gives none */
  node = call ("Twice", "same", "x,w", "y");
  add_reference (node, "alpha", "slope");
  proto_message (layer, 7, node);
  proto_string (layer, 10, "my");
  proto_message (file, 25, layer);

  proto_string (twice, 1, "Twice");
  proto_string (twice, 4, "w"); /* the names swapped */
  proto_string (twice, 4, "x");
  proto_string (twice, 5, "z");
  proto_string (twice, 6, "alpha");
  proto_message (twice, 7, proto_node ("MatMul", "w,x", "h"));
  node = proto_node ("LeakyRelu", "h", "z");
  proto_string (node, 3, "same");
  add_reference (node, "alpha", "alpha");
  proto_message (twice, 7, node);
  import = proto_new ();
  proto_int (import, 2, 17);
  proto_message (twice, 9, import);
  proto_string (twice, 10, "my");
  proto_message (file, 25, twice);
  import = proto_new ();
  proto_string (import, 1, "my");
  proto_int (import, 2, 1);
  proto_message (file, 8, import);

  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (file);
  g_autoptr (OrtrainModel) model = load (bytes);
  OrtrainGraph *inlined = ortrain_model_get_graph (model, &error);
  g_assert_no_error (error);
  float slopes[2];
  guint n = 0;
  for (guint i = 0; i < inlined->nodes->len; i++)
    if (g_str_equal (((OrtrainNode *) inlined->nodes->pdata[i])->op_type, "LeakyRelu"))
      slopes[n++ % 2] =
          (float) ortrain_attributes_get_float (((OrtrainNode *) inlined->nodes->pdata[i])->attributes, "alpha", 0.01);
  g_assert_cmpuint (n, ==, 2);
  g_assert_cmpfloat (slopes[0], ==, 0.25f);
  g_assert_cmpfloat (slopes[1], ==, 0.5f);

  /* the results of the model */
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (3, 3);
  ortrain_tensor_dict_remove (feeds, "t");
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
  g_assert_no_error (error);
  for (gint64 row = 0; row < 4; row++)
    {
      double in[3], out[3];
      for (gint64 k = 0; k < 3; k++)
        in[k] = ortrain_tensor_get_scalar (ortrain_tensor_dict_get (feeds, "x"), row * 3 + k);
      for (guint l = 0; l < 2; l++)
        {
          for (guint j = 0; j < 3; j++)
            {
              double sum = 0;
              for (guint k = 0; k < 3; k++)
                sum += in[k] * square[k * 3 + j];
              out[j] = sum < 0 ? sum * slopes[l] : sum;
            }
          memcpy (in, out, sizeof in);
        }
      for (gint64 j = 0; j < 3; j++)
        g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "y"), row * 3 + j),
                                        out[j], 1e-5);
    }
  g_autoptr (OrtrainModel) out = train (model, NULL, NULL);
  g_assert_true (moved (model, out, "w"));
  g_assert_true (moved (model, out, "v"));
  g_assert_cmpuint (out->proto->n_functions, ==, 2); /* the file keeps them */
}

/* ---- Unknown parts of a file ---- */

static void
test_unknown_fields (void)
{
  static const char *const kept[] = { "the model's",     "the graph's", "the node's",     "the tensor's",
                                      "the attribute's", "the input's", "the function's", "the constant's" };
  Proto *graph = proto_new (), *node, *attribute, *tensor, *value, *function = proto_new ();
  node = proto_node ("Gemm", "x,w", "h");
  proto_string (node, 700, kept[2]);
  attribute = proto_new ();
  proto_string (attribute, 1, "alpha");
  float one = 1;
  proto_varint (attribute, 2 << 3 | 5);
  g_byte_array_append (attribute, (const guint8 *) &one, 4);
  proto_int (attribute, 20, 1);
  proto_string (attribute, 701, kept[4]);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  node = constant ("b", proto_tensor (NULL, 1, DIMS (3), bias, sizeof bias));
  proto_string (node, 702, kept[7]); /* in a node whose contents change */
  proto_message (graph, 1, node);
  proto_message (graph, 1, proto_node ("MatMul", "h,v", "g"));
  proto_message (graph, 1, proto_node ("Add", "g,b", "y"));
  tensor = proto_tensor ("w", 1, DIMS (3, 3), NULL, 0);
  proto_string (tensor, 703, kept[3]);
  proto_bytes (tensor, 4, square, sizeof square); /* in a tensor whose elements change their form */
  proto_message (graph, 5, tensor);
  proto_message (graph, 5, proto_tensor ("v", 1, DIMS (3, 3), square, sizeof square));
  value = proto_value ("z", 1, DIMS (1));
  proto_string (value, 704, kept[5]);
  proto_message (graph, 13, value);
  proto_string (graph, 705, kept[1]);
  add_ends (graph);
  Proto *file = proto_model_unfinished (graph, 13, 23); /* a version to come */
  proto_string (file, 706, kept[0]);
  proto_string (function, 1, "F");
  proto_string (function, 10, "my");
  proto_string (function, 707, kept[6]);
  proto_message (file, 25, function);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (file);
  g_autoptr (OrtrainModel) model = load (bytes), out = train (model, NULL, NULL);
  static const char *const names[] = { "w", "v", "b" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_assert_true (moved (model, out, names[i]));
  g_autoptr (GBytes) written = ortrain_model_to_bytes (out, NULL);
  gsize size;
  const char *data = g_bytes_get_data (written, &size);
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++)
    if (memmem (data, size, kept[i], strlen (kept[i])) == NULL)
      g_error ("%s field is gone", kept[i]);
  g_assert_cmpint (ortrain_model_get_ir_version (out), ==, 13);
}

/* One network in every operator set and version of the format: the same numbers, and the version as it was. */
static void
test_versions (void)
{
  g_autoptr (OrtrainTensorDict) first = NULL;
  for (gint64 opset = 7; opset <= 23; opset++)
    {
      g_autoptr (GError) error = NULL;
      const gint64 ir = MIN (opset - 4, 13); /* 3 to 13 */
      const gint64 three[] = { 4, 3 };
      const float ones[] = { 1, 1, 1 };
      Proto *graph = proto_new (), *node = proto_node ("Gemm", "x,w,b", "g");
      proto_message (graph, 1, node);
      proto_message (graph, 1, proto_node ("BatchNormalization", "g,s,b,b,s", "n"));
      proto_message (graph, 1, proto_node ("Dropout", "n", "d"));
      proto_message (graph, 1, proto_node ("Reshape", "d,shape", "r"));
      proto_message (graph, 1, proto_node ("Softmax", "r", "p"));
      proto_message (graph, 1, proto_node ("Relu", "p", "q"));
      proto_message (graph, 1, proto_node ("Flatten", "q", "f"));
      proto_message (graph, 1, proto_node ("Mul", "f,v", "y"));
      proto_message (graph, 5, proto_tensor ("w", 1, DIMS (3, 3), square, sizeof square));
      proto_message (graph, 5, proto_tensor ("b", 1, DIMS (3), bias, sizeof bias));
      proto_message (graph, 5, proto_tensor ("s", 1, DIMS (3), ones, sizeof ones));
      proto_message (graph, 5, proto_tensor ("v", 1, DIMS (3), bias, sizeof bias));
      proto_message (graph, 5, proto_tensor ("shape", 7, DIMS (2), three, sizeof three));
      add_ends (graph);
      g_autoptr (GBytes) bytes = proto_model (graph, ir, opset);
      g_autoptr (OrtrainModel) model = load (bytes), out = train_some (model, NULL, TRUE, NULL);
      g_assert_cmpint (ortrain_model_get_opset (out), ==, opset);
      g_assert_cmpint (ortrain_model_get_ir_version (out), ==, ir);
      g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (out, NULL, &error);
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (3, 3);
      ortrain_tensor_dict_remove (feeds, "t");
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
      g_assert_no_error (error);
      if (first == NULL)
        first = g_steal_pointer (&outputs);
      else
        g_assert_true (
            ortrain_tensor_equal (ortrain_tensor_dict_get (first, "y"), ortrain_tensor_dict_get (outputs, "y")));
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/exporters/split-parameters", test_split_parameters);
  g_test_add_func ("/exporters/left-out-biases", test_left_out_biases);
  g_test_add_func ("/exporters/table-stored-twice", test_table_stored_twice);
  g_test_add_func ("/exporters/constants", test_constants);
  g_test_add_func ("/exporters/input-initializers", test_input_initializers);
  g_test_add_func ("/exporters/identities", test_identities);
  g_test_add_func ("/exporters/stored-once", test_stored_once);
  g_test_add_func ("/exporters/tied-table", test_tied_table);
  g_test_add_func ("/exporters/ties", test_ties);
  g_test_add_func ("/exporters/functions", test_functions);
  g_test_add_func ("/exporters/unknown-fields", test_unknown_fields);
  g_test_add_func ("/exporters/versions", test_versions);
  return g_test_run ();
}
