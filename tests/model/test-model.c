/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model-fixture.h"

static void
test_load (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) mlp = load_data ("mlp.onnx"), cnn = load_data ("cnn.onnx");
  g_autofree char *text = ortrain_model_to_string (cnn);

  g_assert_cmpint (ortrain_model_get_opset (mlp), ==, 13);
  g_assert_cmpint (ortrain_model_get_ir_version (mlp), ==, 7);
  g_assert_cmpuint (ortrain_model_get_n_nodes (mlp), ==, 6);
  g_assert_cmpuint (ortrain_model_get_n_parameters (mlp), ==, 5018); /* as PyTorch counts them */
  g_assert_cmpstr (ortrain_model_get_producer_name (mlp), ==, "pytorch");
  g_assert_nonnull (strstr (text, "image: float32 [batch, 1, 28, 28]"));
  g_assert_nonnull (strstr (text, "logits: float32 [batch, 10]"));

  OrtrainGraph *graph = ortrain_model_get_graph (cnn, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_model_get_graph (cnn, &error) == graph);
  OrtrainValue *logits = ortrain_graph_find_value (graph, "logits");
  g_assert_cmpint (logits->rank, ==, 2);
  g_assert_cmpint (ortrain_value_get_dim (logits, 1), ==, 10);
}

static void
got_model (GObject *source, GAsyncResult *result, gpointer data)
{
  GError *error = NULL;
  OrtrainModel **model = data;
  *model = ortrain_model_new_from_file_finish (result, &error);
  g_assert_no_error (error);
}

static void
test_async (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "model", "mlp.onnx", NULL);
  g_autoptr (OrtrainModel) model = NULL;
  ortrain_model_new_from_file_async (path, NULL, got_model, &model);
  while (model == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (ortrain_model_get_n_nodes (model), ==, 6);
}

/* Every way in which a TensorProto may hold its elements. */
static void
test_typed_fields (void)
{
  Proto *graph = proto_new (), *p, *packed;
  proto_string (graph, 2, "typed");
  for (guint i = 0; i < 2; i++)
    {
      /* packed, then unpacked */
      p = proto_tensor (i == 0 ? "i32.packed" : "i32", 6, DIMS (3), NULL, 0);
      packed = proto_new ();
      for (gint64 v = -1; v <= 1; v++)
        if (i == 0)
          proto_varint (packed, (guint64) v);
        else
          proto_int (p, 5, v);
      if (i == 0)
        proto_bytes (p, 5, packed->data, packed->len);
      g_byte_array_unref (packed);
      proto_message (graph, 5, p);
    }
  p = proto_tensor ("f32", 1, DIMS (4), NULL, 0);
  proto_bytes (p, 4, four, 8); /* in two parts */
  proto_bytes (p, 4, four + 2, 8);
  proto_message (graph, 5, p);
  p = proto_tensor ("f16", 10, DIMS (2), NULL, 0);
  proto_int (p, 5, 0x3c00);
  proto_int (p, 5, 0xc000);
  proto_message (graph, 5, p);
  p = proto_tensor ("bool", 9, DIMS (3), "\x00\x02\x01", 3); /* a true that is 2 */
  proto_message (graph, 5, p);
  p = proto_tensor ("u64", 13, DIMS (1), NULL, 0);
  proto_int (p, 11, -1);
  proto_message (graph, 5, p);
  p = proto_tensor ("f64", 11, SCALAR, NULL, 0);
  double number = 2.5;
  proto_bytes (p, 10, &number, 8);
  proto_message (graph, 5, p);
  p = proto_tensor ("empty", 1, DIMS (0, 7), NULL, 0);
  proto_message (graph, 5, p);

  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = load_bytes (bytes);
  for (guint i = 0; i < 2; i++)
    for (guint k = 0; k < 3; k++)
      g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (model, i == 0 ? "i32.packed" : "i32"), k), ==,
                         (double) k - 1);
  for (guint k = 0; k < 4; k++)
    g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (model, "f32"), k), ==, four[k]);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (model, "f16"), 0), ==, 1.0);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (model, "f16"), 1), ==, -2.0);
  g_assert_cmpmem (ortrain_tensor_peek (contents (model, "bool")), 3, "\x00\x01\x01", 3);
  g_assert_cmpuint (*(const guint64 *) ortrain_tensor_peek (contents (model, "u64")), ==, G_MAXUINT64);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (model, "f64"), 0), ==, 2.5);
  g_assert_cmpint (ortrain_tensor_get_n_elements (contents (model, "empty")), ==, 0);
}

static void
test_sparse (void)
{
  const gint64 indices[] = { 1, 5 }, pairs[] = { 0, 1, 1, 2 }, outside[] = { 1, 6 };
  const float values[] = { 7, 8 };
  for (guint form = 0; form < 3; form++)
    {
      Proto *sparse = proto_new (), *graph = small_graph (proto_tensor ("w", 1, DIMS (4), four, 16));
      proto_message (sparse, 1, proto_tensor ("s", 1, DIMS (2), values, 8));
      proto_message (sparse, 2,
                     form == 1 ? proto_tensor (NULL, 7, DIMS (2, 2), pairs, 32)
                               : proto_tensor (NULL, 7, DIMS (2), form == 2 ? outside : indices, 16));
      proto_int (sparse, 3, 2);
      proto_int (sparse, 3, 3);
      proto_message (graph, 15, sparse);
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      if (form == 2)
        {
          assert_refused (bytes, NULL, NULL, ORTRAIN_MODEL_ERROR_INVALID, "out of range");
          continue;
        }
      g_autoptr (OrtrainModel) model = load_bytes (bytes);
      const float expected[] = { 0, 7, 0, 0, 0, 8 };
      g_assert_cmpmem (ortrain_tensor_peek (contents (model, "s")), 24, expected, 24);
    }
}

static void
test_input_initializers (void)
{
  Proto *graph = small_graph (proto_tensor ("w", 1, DIMS (4), four, 16));
  proto_message (graph, 11, proto_value ("w", 1, DIMS (4)));
  g_autoptr (GBytes) bytes = proto_model (graph, 3, 7);
  g_autoptr (OrtrainModel) model = load_bytes (bytes);
  OrtrainGraph *file_graph = ortrain_model_get_file_graph (model);
  g_assert_cmpuint (file_graph->inputs->len, ==, 1);
  g_assert_cmpuint (file_graph->initializers->len, ==, 1);
  g_assert_true (has_note (model, "listed as an input"));
}

/* Functions in functions, an attribute by reference, a default, an output that is an input. */
static void
test_functions (void)
{
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new (), *node, *attribute, *function, *import;
  node = proto_node ("Outer", "x", "y,z");
  proto_string (node, 7, "my");
  proto_string (node, 3, "call");
  attribute = proto_new ();
  proto_string (attribute, 1, "slope");
  proto_varint (attribute, 2 << 3 | 5);
  float slope = 0.25f;
  g_byte_array_append (attribute, (const guint8 *) &slope, 4);
  proto_int (attribute, 20, 1);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  proto_string (graph, 2, "calls");
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("z", 1, DIMS (4)));
  Proto *model_proto = proto_model_unfinished (graph, 8, 17);

  function = proto_new ();
  proto_string (function, 1, "Outer");
  proto_string (function, 4, "a");
  proto_string (function, 5, "b");
  proto_string (function, 5, "a");
  proto_string (function, 6, "slope");
  node = proto_node ("Inner", "a", "b");
  proto_string (node, 7, "my");
  attribute = proto_new ();
  proto_string (attribute, 1, "alpha");
  proto_int (attribute, 20, 1);
  proto_string (attribute, 21, "slope");
  proto_message (node, 5, attribute);
  proto_message (function, 7, node);
  proto_string (function, 10, "my");
  proto_message (model_proto, 25, function);

  function = proto_new ();
  proto_string (function, 1, "Inner");
  proto_string (function, 4, "x");
  proto_string (function, 5, "y");
  proto_string (function, 6, "alpha");
  node = proto_node ("LeakyRelu", "x", "t");
  attribute = proto_new ();
  proto_string (attribute, 1, "alpha");
  proto_int (attribute, 20, 1);
  proto_string (attribute, 21, "alpha");
  proto_message (node, 5, attribute);
  proto_message (function, 7, node);
  proto_message (function, 7, proto_node ("Tanh", "t", "y"));
  proto_string (function, 10, "my");
  import = proto_new ();
  proto_string (import, 1, "");
  proto_int (import, 2, 17);
  proto_message (function, 9, import);
  proto_message (model_proto, 25, function);

  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (model_proto);
  g_autoptr (OrtrainModel) model = load_bytes (bytes);
  OrtrainGraph *file_graph = ortrain_model_get_file_graph (model);
  g_assert_cmpuint (file_graph->nodes->len, ==, 3);
  OrtrainNode *leaky = ortrain_value_get_producer (ortrain_graph_find_value (file_graph, "y"));
  g_assert_cmpstr (leaky->op_type, ==, "Tanh");
  leaky = ((OrtrainValue *) leaky->inputs->pdata[0])->producer;
  g_assert_cmpstr (leaky->op_type, ==, "LeakyRelu");
  g_assert_cmpfloat (ortrain_attributes_get_float (leaky->attributes, "alpha", 0), ==, 0.25);
  g_assert_cmpstr (ortrain_value_get_producer (ortrain_graph_find_value (file_graph, "z"))->op_type, ==, "Identity");
  g_assert_nonnull (ortrain_model_get_graph (model, &error));
  g_assert_no_error (error);
}

/* Found by fuzzing: declared shapes that no operator expects. */
static void
test_odd_shapes (void)
{
  const struct
  {
    const char *op_type, *inputs;
    const gint64 *dims;
  } cases[] = { { "ConstantOfShape", "x", DIMS (41) },
                { "Concat", "x,x", SCALAR },
                { "Expand", "x,x", DIMS (30) },
                { "Reshape", "x,x", DIMS (17) },
                { "Split", "x", SCALAR },
                { "Softmax", "x", SCALAR },
                { "Gather", "x,x", DIMS (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) },
                { "Unsqueeze", "x,x", DIMS (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Proto *graph = proto_new (), *node = proto_node (cases[i].op_type, cases[i].inputs, "y"),
            *attribute = proto_new ();
      proto_string (attribute, 1, "axis");
      proto_int (attribute, 3, 0);
      proto_int (attribute, 20, 2);
      proto_message (node, 5, attribute);
      proto_message (graph, 1, node);
      proto_message (graph, 11, proto_value ("x", 7, cases[i].dims));
      proto_message (graph, 12, proto_value ("y", 7, SCALAR));
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      g_autoptr (OrtrainModel) model = load_bytes (bytes);
      OrtrainGraph *result = ortrain_model_get_graph (model, &error);
      g_assert_true ((result == NULL) == (error != NULL));
    }
}

/* Operands that are left out, of too few elements, or too many: refused when the graph or the plan is made. */
static void
test_odd_operands (void)
{
  const float one = 1, four_more[4] = { 1, 1, 1, 1 };
  const struct
  {
    const char *op_type, *inputs, *outputs;
    gint64 opset;
  } cases[] = { { "BatchNormalization", "x,v,v,s,v", "y", 17 },
                { "BatchNormalization", "x,v,v,v,s", "y", 9 },
                { "BatchNormalization", "x,v,s,v,v", "y", 17 },
                { "InstanceNormalization", "x,v,s", "y", 17 },
                { "CumSum", "x,", "y", 17 },
                { "CumSum", "x,v", "y", 17 },
                { "Add", ",x", "y", 17 },
                { "Gather", ",x", "y", 17 },
                { "Relu", "x", "y,z", 17 },
                { "Constant", "", "y,z", 17 },
                { "Einsum", "", "y", 17 } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      Proto *graph = proto_new ();
      proto_message (graph, 1, proto_node (cases[i].op_type, cases[i].inputs, cases[i].outputs));
      proto_message (graph, 5, proto_tensor ("s", 1, SCALAR, &one, 4));
      proto_message (graph, 5, proto_tensor ("v", 1, DIMS (4), four_more, 16));
      proto_message (graph, 11, proto_value ("x", 1, DIMS (2, 4)));
      proto_message (graph, 12, proto_value ("y", 1, DIMS (2, 4)));
      g_autoptr (GBytes) bytes = proto_model (graph, 8, cases[i].opset);
      g_autoptr (OrtrainModel) model = load_bytes (bytes);
      g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, DIMS (2, 4), 2, NULL);
      ortrain_tensor_dict_set (feeds, "x", x);
      g_autoptr (OrtrainTensorDict) outputs =
          session != NULL ? ortrain_inference_session_run (session, feeds, &error) : NULL;
      g_test_message ("%s (%s): %s", cases[i].op_type, cases[i].inputs, error != NULL ? error->message : "");
      g_assert_null (outputs);
      g_assert_true (error->domain == ORTRAIN_GRAPH_ERROR || error->domain == ORTRAIN_PLAN_ERROR);
      g_assert_nonnull (strstr (error->message, cases[i].op_type));
    }
}

/* A field that is no list, twice: one reader would check the first, another use the last. */
static void
test_twice (void)
{
  Proto *graph = small_graph (proto_tensor ("w", 1, DIMS (4), four, 16)),
        *other = small_graph (proto_tensor ("w", 1, DIMS (4), four, 16));
  Proto *model = proto_model_unfinished (graph, 8, 17);
  proto_message (model, 7, other);
  g_autoptr (GBytes) graphs = g_byte_array_free_to_bytes (model);
  assert_refused (graphs, NULL, NULL, ORTRAIN_MODEL_ERROR_INVALID, "is repeated");

  Proto *tensor = proto_tensor ("w", 1, DIMS (4), four, 16);
  proto_bytes (tensor, 9, four, 8);
  g_autoptr (GBytes) data = proto_model (small_graph (tensor), 8, 17);
  assert_refused (data, NULL, NULL, ORTRAIN_MODEL_ERROR_INVALID, "is repeated");

  /* of two names, the last one counts, for the reader and for the writer */
  g_autoptr (GError) error = NULL;
  tensor = proto_tensor ("v", 1, DIMS (4), four, 16);
  proto_string (tensor, 8, "w");
  g_autoptr (GBytes) names = proto_model (small_graph (tensor), 8, 17);
  g_autoptr (OrtrainModel) loaded = load_bytes (names);
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  OrtrainTensor *fresh = ortrain_tensor_copy (contents (loaded, "w"), NULL);
  ((float *) ortrain_tensor_peek_writable (fresh))[3] = 7;
  g_hash_table_insert (tensors, g_strdup ("w"), fresh);
  g_autoptr (GBytes) written = ortrain_model_export_bytes (loaded, tensors, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) again = load_bytes (written);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "w"), 3), ==, 7);
}

/* If with a branch that captures from two levels up. */
static void
test_subgraphs (void)
{
  Proto *outer = small_graph (proto_tensor ("w", 1, DIMS (4), four, 16));
  guint8 yes = 1;
  proto_message (outer, 5, proto_tensor ("c", 9, SCALAR, &yes, 1));
  Proto *branch = proto_new ();
  proto_message (branch, 1, proto_node ("Mul", "y,w", "inner"));
  proto_message (branch, 12, proto_value ("inner", 1, DIMS (4)));
  Proto *direct = proto_new (); /* gives back a captured value as it is */
  proto_message (direct, 12, proto_value ("x", 1, DIMS (4)));
  Proto *node = proto_node ("If", "c", "z");
  for (guint i = 0; i < 2; i++)
    {
      Proto *attribute = proto_new ();
      proto_string (attribute, 1, i == 0 ? "then_branch" : "else_branch");
      proto_message (attribute, 6, i == 0 ? branch : direct);
      proto_int (attribute, 20, 5);
      proto_message (node, 5, attribute);
    }
  proto_message (outer, 1, node);
  proto_message (outer, 12, proto_value ("z", 1, DIMS (4)));
  g_autoptr (GBytes) bytes = proto_model (outer, 8, 17);
  g_autoptr (OrtrainModel) model = load_bytes (bytes);
  OrtrainGraph *graph = ortrain_model_get_file_graph (model);
  OrtrainNode *conditional = ortrain_value_get_producer (ortrain_graph_find_value (graph, "z"));
  OrtrainGraph *then_graph = ORTRAIN_GRAPH (ortrain_attributes_get_graph (conditional->attributes, "then_branch"));
  g_assert_true (then_graph->parent == graph);
  OrtrainValue *captured = ortrain_graph_find_value (then_graph, "y");
  g_assert_nonnull (captured);
  g_assert_null (captured->producer);
  OrtrainGraph *else_graph = ORTRAIN_GRAPH (ortrain_attributes_get_graph (conditional->attributes, "else_branch"));
  g_assert_cmpstr (((OrtrainNode *) else_graph->nodes->pdata[0])->op_type, ==, "Identity");
}

static void
test_versions (void)
{
  const struct
  {
    gint64 ir, opset;
    gboolean loads, runs;
  } cases[] = { { 3, 7, TRUE, TRUE },     { 11, 23, TRUE, TRUE }, { 14, 23, TRUE, TRUE }, { 8, 6, TRUE, TRUE },
                { 8, 1, TRUE, TRUE },     { 14, 28, TRUE, TRUE }, { 8, 99, TRUE, FALSE }, { 0, 17, FALSE, FALSE },
                { -5, 17, FALSE, FALSE }, { 8, -1, TRUE, FALSE } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes =
          proto_model (small_graph (proto_tensor ("w", 1, DIMS (4), four, 16)), cases[i].ir, cases[i].opset);
      g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
      g_assert_true ((model != NULL) == cases[i].loads);
      if (model != NULL)
        g_assert_true ((ortrain_model_get_graph (model, &error) != NULL) == cases[i].runs);
      if (!cases[i].loads || !cases[i].runs)
        g_assert_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_VERSION);
    }
}

/* Fields that nobody knows, everywhere, and typed elements that become raw ones. */
static void
test_unknown_fields (void)
{
  g_autoptr (GError) error = NULL;
  Proto *tensor = proto_tensor ("w", 1, DIMS (4), NULL, 0);
  proto_string (tensor, 700, "tensor's own");
  proto_bytes (tensor, 4, four, 16);
  proto_string (tensor, 12, "documentation");
  Proto *graph = small_graph (tensor);
  proto_string (graph, 701, "graph's own");
  Proto *model_proto = proto_model_unfinished (graph, 12, 17);
  proto_string (model_proto, 702, "model's own");
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (model_proto);
  g_autoptr (OrtrainModel) model = load_bytes (bytes);
  g_autoptr (GHashTable) tensors = new_tensors ();
  g_hash_table_insert (tensors, g_strdup ("w"), plus_one (contents (model, "w")));
  g_autoptr (GBytes) new = ortrain_model_export_bytes (model, tensors, &error);
  g_assert_no_error (error);
  const char *const kept[] = { "tensor's own", "graph's own", "model's own", "documentation" };
  gsize size;
  const char *data = g_bytes_get_data (new, &size);
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++)
    g_assert_nonnull (memmem (data, size, kept[i], strlen (kept[i])));
  g_autoptr (OrtrainModel) again = load_bytes (new);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "w"), 3), ==, 5.0);
  g_assert_cmpint (ortrain_model_get_ir_version (again), ==, 12);
}

static void
test_equal_parameters (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  float a[600], turned[600], zeros[600] = { 0 };
  for (guint r = 0; r < 20; r++)
    for (guint c = 0; c < 30; c++)
      a[r * 30 + c] = turned[c * 20 + r] = (float) g_rand_double (random);
  Proto *graph = proto_new ();
  proto_message (graph, 5, proto_tensor ("a", 1, DIMS (20, 30), a, sizeof a));
  proto_message (graph, 5, proto_tensor ("b", 1, DIMS (20, 30), a, sizeof a));
  proto_message (graph, 5, proto_tensor ("c", 1, DIMS (30, 20), turned, sizeof a));
  proto_message (graph, 5, proto_tensor ("d", 1, DIMS (30, 20), a, sizeof a)); /* the same bytes, other meaning */
  proto_message (graph, 5, proto_tensor ("z1", 1, DIMS (600), zeros, sizeof a));
  proto_message (graph, 5, proto_tensor ("z2", 1, DIMS (600), zeros, sizeof a));
  a[599] += 1; /* the last element differs */
  proto_message (graph, 5, proto_tensor ("e", 1, DIMS (20, 30), a, sizeof a));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = load_bytes (bytes);
  g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (model);
  g_assert_cmpuint (g_list_model_get_n_items (pairs), ==, 2);
  g_autoptr (OrtrainParameterPair) plain = g_list_model_get_item (pairs, 0),
                                   turned_pair = g_list_model_get_item (pairs, 1);
  g_assert_cmpstr (ortrain_parameter_pair_get_first (plain), ==, "a");
  g_assert_cmpstr (ortrain_parameter_pair_get_second (plain), ==, "b");
  g_assert_false (ortrain_parameter_pair_get_transposed (plain));
  g_assert_cmpstr (ortrain_parameter_pair_get_second (turned_pair), ==, "c");
  g_assert_true (ortrain_parameter_pair_get_transposed (turned_pair));
}

/* The ONNX project's test data for its own tools. */
static void
load_tree (const char *directory, guint *n_models, guint *n_refused)
{
  g_autoptr (GDir) dir = g_dir_open (directory, 0, NULL);
  const char *name;
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (directory, name, NULL);
      if (g_file_test (path, G_FILE_TEST_IS_DIR))
        {
          if (!g_str_has_prefix (name, "test_data_set"))
            load_tree (path, n_models, n_refused);
          continue;
        }
      if (!g_str_has_suffix (name, ".onnx"))
        continue;
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
      g_assert_no_error (error);
      ++*n_models;
      if (ortrain_model_get_graph (model, &error) == NULL)
        {
          g_assert_nonnull (error);
          ++*n_refused;
        }
      g_autoptr (GBytes) bytes = ortrain_model_to_bytes (model, NULL);
      g_autoptr (OrtrainModel) again = load_bytes (bytes);
      g_autofree char *text = ortrain_model_to_string (model);
      g_assert_true (text != NULL && again != NULL);
    }
}

static void
test_onnx_data (void)
{
  const char *root = "/usr/share/libonnx-testdata/data";
  guint n_models = 0, n_refused = 0;
  if (!g_file_test (root, G_FILE_TEST_IS_DIR))
    {
      g_test_skip ("libonnx-testdata is not installed");
      return;
    }
  load_tree (root, &n_models, &n_refused);
  g_test_message ("%u models, %u of them not supported", n_models, n_refused);
  g_assert_cmpuint (n_models, >, 1000);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/load", test_load);
  g_test_add_func ("/model/async", test_async);
  g_test_add_func ("/model/typed-fields", test_typed_fields);
  g_test_add_func ("/model/sparse", test_sparse);
  g_test_add_func ("/model/input-initializers", test_input_initializers);
  g_test_add_func ("/model/functions", test_functions);
  g_test_add_func ("/model/odd-shapes", test_odd_shapes);
  g_test_add_func ("/model/odd-operands", test_odd_operands);
  g_test_add_func ("/model/twice", test_twice);
  g_test_add_func ("/model/subgraphs", test_subgraphs);
  g_test_add_func ("/model/versions", test_versions);
  g_test_add_func ("/model/unknown-fields", test_unknown_fields);
  g_test_add_func ("/model/equal-parameters", test_equal_parameters);
  g_test_add_func ("/model/onnx-data", test_onnx_data);
  return g_test_run ();
}
