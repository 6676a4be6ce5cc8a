/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "model/ortrain-model-private.h"
#include "ortrain.h"
#include "tensor/ortrain-tensor-private.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ortrain-proto-maker.h"

static char *scratch; /* a directory of our own */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
#define SCALAR ((const gint64[]){ -1 })

static OrtrainModel *
load_data (const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "model", name, NULL);
  OrtrainModel *model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainModel *
load_bytes (GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

static void
assert_refused (GBytes *bytes, const char *directory, OrtrainModelLimits *limits, OrtrainModelError code,
                const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes_with_limits (bytes, directory, limits, &error);
  g_assert_null (model);
  if (part != NULL && strstr (error->message, part) == NULL)
    g_error ("“%s” is not in “%s”", part, error->message);
  g_assert_error (error, ORTRAIN_MODEL_ERROR, (int) code);
}

static OrtrainTensor *
contents (OrtrainModel *model, const char *name)
{
  OrtrainValue *value = ortrain_graph_find_value (ortrain_model_get_file_graph (model), name);
  g_assert_nonnull (value);
  g_assert_cmpint (value->kind, ==, ORTRAIN_VALUE_INITIALIZER);
  return value->tensor;
}

static gboolean
has_note (OrtrainModel *model, const char *part)
{
  g_auto (GStrv) notes = ortrain_model_get_notes (model);
  for (guint i = 0; notes[i] != NULL; i++)
    if (strstr (notes[i], part) != NULL)
      return TRUE;
  return FALSE;
}

/* y = Add (x, w), w of four floats */
static Proto *
small_graph (Proto *initializer)
{
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("Add", "x,w", "y"));
  proto_string (graph, 2, "small");
  if (initializer != NULL)
    proto_message (graph, 5, initializer);
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4)));
  return graph;
}

static const float four[] = { 1, 2, 3, 4 };

/* ---- Reading ---- */

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
  g_assert_true (has_note (model, "listed as inputs"));
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

static void
test_function_recursion (void)
{
  Proto *graph = proto_new (), *node = proto_node ("F", "x", "y"), *function = proto_new ();
  proto_string (node, 7, "my");
  proto_message (graph, 1, node);
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4)));
  Proto *model = proto_model_unfinished (graph, 8, 17);
  proto_string (function, 1, "F");
  proto_string (function, 4, "x");
  proto_string (function, 5, "y");
  for (guint i = 0; i < 2; i++) /* two calls each: a tree of 2^depth */
    {
      node = proto_node ("F", i == 0 ? "x" : "t", i == 0 ? "t" : "y");
      proto_string (node, 7, "my");
      proto_message (function, 7, node);
    }
  proto_string (function, 10, "my");
  proto_message (model, 25, function);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (model);
  assert_refused (bytes, NULL, NULL, ORTRAIN_MODEL_ERROR_LIMIT, "max-function-depth");
}

/* Ten functions, each of which calls the next one ten times: 10^10 nodes from a kilobyte. */
static void
test_function_bomb (void)
{
  Proto *graph = proto_new (), *node = proto_node ("F0", "x", "y");
  proto_string (node, 7, "my");
  proto_message (graph, 1, node);
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4)));
  Proto *model = proto_model_unfinished (graph, 8, 17);
  for (guint f = 0; f < 10; f++)
    {
      Proto *function = proto_new ();
      g_autofree char *name = g_strdup_printf ("F%u", f), *next = g_strdup_printf (f < 9 ? "F%u" : "Relu", f + 1);
      proto_string (function, 1, name);
      proto_string (function, 4, "v0");
      proto_string (function, 5, "v10");
      for (guint i = 0; i < 10; i++)
        {
          g_autofree char *from = g_strdup_printf ("v%u", i), *to = g_strdup_printf ("v%u", i + 1);
          node = proto_node (next, from, to);
          if (f < 9)
            proto_string (node, 7, "my");
          proto_message (function, 7, node);
        }
      proto_string (function, 10, "my");
      proto_message (model, 25, function);
    }
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (model);
  assert_refused (bytes, NULL, NULL, ORTRAIN_MODEL_ERROR_LIMIT, "max-nodes");
}

/* What fuzzing found: declared shapes that no operator expects. */
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
                { "LayerNormalization", "x,v,s", "y", 17 },
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

/* A field that is no list, twice: what one reader checks, another would not use. */
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

/* ---- Hostile files ---- */

static void
test_truncated (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "model", "mlp.onnx", NULL);
  g_autofree char *data = NULL;
  gsize size, n_loaded = 0;
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  g_autoptr (GBytes) whole = proto_model (small_graph (proto_tensor ("w", 1, DIMS (4), four, 16)), 8, 17);
  const guint8 *small = g_bytes_get_data (whole, NULL);
  for (gsize n = 0; n < size + g_bytes_get_size (whole); n++)
    {
      g_autoptr (GError) error = NULL;
      /* exactly so many bytes on the heap, so that tools see a read behind them */
      gsize length = n < size ? n : n - size;
      g_autoptr (GBytes) bytes = g_bytes_new (n < size ? (const guint8 *) data : small, length);
      g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
      g_assert_true ((model == NULL) == (error != NULL));
      n_loaded += model != NULL;
    }
  /* only cuts between fields of the outermost message leave a model */
  g_assert_cmpuint (n_loaded, <=, 6);
}

static void
test_mutated (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "model", "cnn.onnx", NULL);
  g_autofree char *data = NULL;
  gsize size;
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  g_autoptr (GRand) random = g_rand_new_with_seed (20260101);
  gint64 end = g_get_monotonic_time () + 2 * G_USEC_PER_SEC;
  const gsize head = 3000; /* nodes, and what follows the weights: the weights themselves can be anything */
  guint n_runs = 0, n_loaded = 0;

  while (g_get_monotonic_time () < end)
    {
      g_autoptr (GError) error = NULL;
      guint8 *copy = g_memdup2 (data, size);
      guint n_changes = (guint) g_rand_int_range (random, 1, 6);
      for (guint i = 0; i < n_changes; i++)
        {
          gsize at = (gsize) g_rand_int_range (random, 0, (gint32) head);
          if (g_rand_boolean (random))
            at = size - 1 - at % 600;
          copy[at] = g_rand_boolean (random) ? (guint8) g_rand_int (random)
                                             : copy[at] ^ (guint8) (1u << g_rand_int_range (random, 0, 8));
        }
      g_autoptr (GBytes) bytes = g_bytes_new_take (copy, size);
      g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
      n_runs++;
      if (model == NULL)
        {
          g_assert_nonnull (error);
          g_assert_true (g_utf8_validate (error->message, -1, NULL));
          continue;
        }
      n_loaded++;
      g_autofree char *text = ortrain_model_to_string (model);
      ortrain_model_get_graph (model, NULL);
      g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (model);
      g_autoptr (GBytes) again = ortrain_model_to_bytes (model, &error);
      g_assert_no_error (error);
      g_assert_true (text != NULL && pairs != NULL && again != NULL);
    }
  g_test_message ("%u runs, %u models", n_runs, n_loaded);
  g_assert_cmpuint (n_runs, >, 10);
}

static void
test_depth (void)
{
  /* 3000 graphs in each other: what overflows the stack of a recursive reader */
  Proto *graph = proto_new ();
  for (guint i = 0; i < 3000; i++)
    {
      Proto *attribute = proto_new (), *node = proto_new (), *outer = proto_new ();
      proto_message (attribute, 6, graph);
      proto_message (node, 5, attribute);
      proto_message (outer, 1, node);
      graph = outer;
    }
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  assert_refused (bytes, NULL, NULL, ORTRAIN_MODEL_ERROR_LIMIT, "nested");

  /* types nest too */
  Proto *type = proto_new ();
  for (guint i = 0; i < 1000; i++)
    {
      Proto *sequence = proto_new (), *outer = proto_new ();
      proto_message (sequence, 1, type);
      proto_message (outer, 4, sequence);
      type = outer;
    }
  Proto *info = proto_new ();
  proto_string (info, 1, "x");
  proto_message (info, 2, type);
  graph = proto_new ();
  proto_message (graph, 11, info);
  g_autoptr (GBytes) types = proto_model (graph, 8, 17);
  assert_refused (types, NULL, NULL, ORTRAIN_MODEL_ERROR_LIMIT, "max-depth");
}

static void
test_limits (void)
{
  g_autoptr (OrtrainModelLimits) limits = ortrain_model_limits_new ();
  g_autoptr (GBytes) bytes = proto_model (small_graph (proto_tensor ("w", 1, DIMS (4), four, 16)), 8, 17);

  g_object_set (limits, "max-nodes", (guint64) 0, NULL);
  assert_refused (bytes, NULL, limits, ORTRAIN_MODEL_ERROR_LIMIT, "max-nodes");
  g_object_set (limits, "max-nodes", (guint64) 1, "max-tensors", (guint64) 0, NULL);
  assert_refused (bytes, NULL, limits, ORTRAIN_MODEL_ERROR_LIMIT, "max-tensors");
  g_object_set (limits, "max-tensors", (guint64) 1, "max-items", (guint64) 10, NULL);
  assert_refused (bytes, NULL, limits, ORTRAIN_MODEL_ERROR_LIMIT, "max-items");
  g_object_set (limits, "max-items", (guint64) 100, "max-name-bytes", (guint64) 2, NULL);
  assert_refused (bytes, NULL, limits, ORTRAIN_MODEL_ERROR_LIMIT, "max-name-bytes");
  g_object_set (limits, "max-name-bytes", (guint64) 20, "max-model-bytes", (guint64) 50, NULL);
  assert_refused (bytes, NULL, limits, ORTRAIN_MODEL_ERROR_LIMIT, "max-model-bytes");
  g_object_set (limits, "max-model-bytes", (guint64) 1000, "max-tensor-bytes", (guint64) 15, NULL);
  assert_refused (bytes, NULL, limits, ORTRAIN_MODEL_ERROR_LIMIT, "max-tensor-bytes");
  g_object_set (limits, "max-tensor-bytes", (guint64) 16, "max-rank", 0, NULL);
  assert_refused (bytes, NULL, limits, ORTRAIN_MODEL_ERROR_LIMIT, "max-rank");
  g_object_set (limits, "max-rank", 1, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes_with_limits (bytes, NULL, limits, &error);
  g_assert_no_error (error);
  g_assert_nonnull (model);

  /* a million empty nodes cost two bytes each in the file, and a hundred in memory */
  Proto *graph = proto_new ();
  for (guint i = 0; i < 1000001; i++)
    proto_bytes (graph, 1, NULL, 0);
  g_autoptr (GBytes) bomb = proto_model (graph, 8, 17);
  assert_refused (bomb, NULL, NULL, ORTRAIN_MODEL_ERROR_LIMIT, "messages NodeProto");
}

static void
test_bad_graphs (void)
{
  const struct
  {
    const char *what;
    Proto *graph;
    OrtrainModelError code;
    const char *part;
  } cases[] = {
    { "size overflows", small_graph (proto_tensor ("w", 1, DIMS (1ll << 40, 1ll << 40), four, 16)),
      ORTRAIN_MODEL_ERROR_LIMIT, "max-tensor-bytes" },
    { "size overflows to a small one", small_graph (proto_tensor ("w", 1, DIMS (1ll << 32, 1ll << 30, 4), four, 16)),
      ORTRAIN_MODEL_ERROR_LIMIT, "max-tensor-bytes" },
    { "dimension too large", small_graph (proto_tensor ("w", 1, DIMS (1ll << 62), four, 16)),
      ORTRAIN_MODEL_ERROR_INVALID, "dimension 0" },
    { "more than there is", small_graph (proto_tensor ("w", 1, DIMS (1024), four, 16)), ORTRAIN_MODEL_ERROR_INVALID,
      "16 bytes" },
    { "less than there is", small_graph (proto_tensor ("w", 1, DIMS (2), four, 16)), ORTRAIN_MODEL_ERROR_INVALID,
      "16 bytes" },
    { "nothing there", small_graph (proto_tensor ("w", 1, DIMS (4), NULL, 0)), ORTRAIN_MODEL_ERROR_INVALID,
      "0 elements" },
    { "no such type", small_graph (proto_tensor ("w", 1000, DIMS (4), four, 16)), ORTRAIN_MODEL_ERROR_INVALID, "1000" },
    { "no name", small_graph (proto_tensor (NULL, 1, DIMS (4), four, 16)), ORTRAIN_MODEL_ERROR_INVALID, "no name" },
    { "nothing produces", small_graph (NULL), ORTRAIN_MODEL_ERROR_INVALID, "'w'" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GBytes) bytes = proto_model (cases[i].graph, 8, 17);
      g_test_message ("%s", cases[i].what);
      assert_refused (bytes, NULL, NULL, cases[i].code, cases[i].part);
    }

  Proto *graph = small_graph (proto_tensor ("w", 1, DIMS (4), four, 16));
  proto_message (graph, 1, proto_node ("Relu", "x", "y"));
  g_autoptr (GBytes) twice = proto_model (graph, 8, 17);
  assert_refused (twice, NULL, NULL, ORTRAIN_MODEL_ERROR_INVALID, "twice");

  for (guint i = 0; i < 2; i++)
    {
      Proto *node = proto_node ("Relu", "x", "q");
      if (i == 0)
        proto_bytes (node, 3, "a\0b", 3);
      else
        proto_bytes (node, 3, "\xff\xfe", 2);
      graph = small_graph (proto_tensor ("w", 1, DIMS (4), four, 16));
      proto_message (graph, 1, node);
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      assert_refused (bytes, NULL, NULL, ORTRAIN_MODEL_ERROR_INVALID, "UTF-8");
    }

  /* a name that a message cuts in the middle of a character */
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) cut = NULL;
      g_autoptr (GString) name = g_string_new (i == 0 ? "a" : "");
      for (guint k = 0; k < 300; k++)
        g_string_append (name, "ä");
      g_autoptr (GBytes) bytes = proto_model (small_graph (proto_tensor (name->str, 1, DIMS (3), four, 16)), 8, 17);
      g_assert_null (ortrain_model_new_from_bytes (bytes, NULL, &cut));
      g_assert_true (g_utf8_validate (cut->message, -1, NULL));
    }

  g_autoptr (GBytes) empty = g_bytes_new (NULL, 0), group = g_bytes_new ("\x3b\x3c", 2);
  g_autoptr (GBytes) endless = g_bytes_new ("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
  assert_refused (empty, NULL, NULL, ORTRAIN_MODEL_ERROR_INVALID, "empty");
  assert_refused (group, NULL, NULL, ORTRAIN_MODEL_ERROR_INVALID, "byte 0");
  assert_refused (endless, NULL, NULL, ORTRAIN_MODEL_ERROR_INVALID, "byte 0");
  g_autoptr (GError) error = NULL;
  g_assert_null (ortrain_model_new_from_file ("/nonexistent/model.onnx", &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_clear_error (&error);
  g_assert_null (ortrain_model_new_from_file ("/dev/zero", &error));
  g_assert_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID);
}

/* A few bytes that ask for a terabyte: refused when the graph or the plan is made, or there is no such memory; nothing
 * is taken before. */
static void
test_bombs (void)
{
  const gint64 huge = 1ll << 40, large = 1ll << 31, zero = 0, one = 1;
  const float number = 1;
  static const char *const ops[] = { "ConstantOfShape", "Expand", "Tile", "Range", "Pad", "host" };
  for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      g_autoptr (GError) error = NULL;
      Proto *graph = proto_new ();
      if (i == 0)
        proto_message (graph, 1, proto_node ("ConstantOfShape", "n", "y"));
      else if (i == 1 || i == 2)
        proto_message (graph, 1, proto_node (ops[i], "x,n", "y"));
      else if (i == 3)
        proto_message (graph, 1, proto_node ("Range", "zero,huge,one", "y"));
      else if (i == 4)
        proto_message (graph, 1, proto_node ("Pad", "x,pads", "y"));
      else
        {
          /* what decides a shape is computed when the plan is made */
          Proto *node = proto_node ("ReduceMax", "big", "m"), *attribute = proto_new ();
          proto_string (attribute, 1, "keepdims");
          proto_int (attribute, 3, 0);
          proto_int (attribute, 20, 2);
          proto_message (node, 5, attribute);
          proto_message (graph, 1, proto_node ("Range", "zero,large,one", "big"));
          proto_message (graph, 1, node);
          proto_message (graph, 1, proto_node ("Unsqueeze", "m,axis", "s"));
          proto_message (graph, 1, proto_node ("Expand", "x,s", "y"));
        }
      const gint64 pads[] = { 0, 1ll << 40 };
      proto_message (graph, 5, proto_tensor ("n", 7, DIMS (1), &huge, 8));
      proto_message (graph, 5, proto_tensor ("axis", 7, DIMS (1), &zero, 8));
      proto_message (graph, 5, proto_tensor ("huge", 7, SCALAR, &huge, 8));
      proto_message (graph, 5, proto_tensor ("large", 7, SCALAR, &large, 8));
      proto_message (graph, 5, proto_tensor ("zero", 7, SCALAR, &zero, 8));
      proto_message (graph, 5, proto_tensor ("one", 7, SCALAR, &one, 8));
      proto_message (graph, 5, proto_tensor ("pads", 7, DIMS (2), pads, 16));
      proto_message (graph, 11, proto_value ("x", 1, DIMS (1)));
      Proto *output = proto_new ();
      proto_string (output, 1, "y");
      proto_message (graph, 12, output);
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      struct rusage before, after;
      getrusage (RUSAGE_SELF, &before);
      g_autoptr (OrtrainModel) model = load_bytes (bytes);
      g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) x = ortrain_tensor_new_floats (DIMS (1), 1, &number, 1, NULL);
      ortrain_tensor_dict_set (feeds, "x", x);
      g_autoptr (OrtrainTensorDict) outputs =
          session != NULL ? ortrain_inference_session_run (session, feeds, &error) : NULL;
      getrusage (RUSAGE_SELF, &after);
      g_test_message ("%s: %s", ops[i], error != NULL ? error->message : "");
      g_assert_null (outputs);
      g_assert_nonnull (error);
      g_assert_cmpint (after.ru_maxrss - before.ru_maxrss, <, 64 * 1024); /* KiB */
    }
}

/* ---- External data ---- */

static GBytes *
external_model (const char *location, const char *offset, const char *length)
{
  return proto_model (small_graph (proto_external_tensor ("w", DIMS (4), location, offset, length)), 8, 17);
}

static void
test_external (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *outside = g_build_filename (scratch, "secret", NULL),
                  *base = g_build_filename (scratch, "base", NULL);
  g_autofree char *inner = g_build_filename (base, "sub", NULL), *file = g_build_filename (inner, "w.bin", NULL);
  g_autofree char *link_path = g_build_filename (base, "link", NULL),
                  *directory_link = g_build_filename (base, "dirlink", NULL);
  g_autofree char *hard = g_build_filename (base, "hard", NULL), *fifo = g_build_filename (base, "fifo", NULL);
  char padding[32] = { 0 };

  memcpy (padding + 16, four, 16);
  g_assert_cmpint (g_mkdir_with_parents (inner, 0700), ==, 0);
  g_assert_true (g_file_set_contents (outside, padding, 32, NULL));
  g_assert_true (g_file_set_contents (file, padding, 32, NULL));
  g_assert_cmpint (symlink ("sub/w.bin", link_path), ==, 0);
  g_assert_cmpint (symlink ("sub", directory_link), ==, 0);
  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);

  g_autoptr (GBytes) good = external_model ("sub/w.bin", "16", "16");
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (good, base, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (ortrain_tensor_peek (contents (model, "w")), 16, four, 16);
  g_assert_cmpuint (ortrain_model_get_n_bytes (model), ==, g_bytes_get_size (good) + 32);
  assert_refused (good, NULL, NULL, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "no directory");

  g_assert_cmpint (link (outside, hard), ==, 0);
  const struct
  {
    const char *location, *offset, *length, *part;
    OrtrainModelError code;
  } cases[] = {
    { "../secret", "16", "16", "outside", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },        /* CVE-2022-25882 */
    { "sub/../../secret", "16", "16", "outside", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA }, /* CVE-2024-27318 */
    { "/etc/passwd", "0", "16", "outside", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "link", "16", "16", "link", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },               /* CVE-2026-27489 */
    { "dirlink/w.bin", "16", "16", "link", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },      /* CVE-2026-34447 */
    { "hard", "16", "16", "several hard links", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA }, /* CVE-2026-34446 */
    { "fifo", "16", "16", "regular", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "sub", "0", "16", "regular", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { ".", "0", "16", NULL, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "", "0", "16", NULL, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "absent", "0", "16", "absent", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "sub/w.bin", "17", "16", "which has 32", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "sub/w.bin", "9223372036854775807", "16", "which has 32", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "sub/w.bin", "0", "32", "32 bytes", ORTRAIN_MODEL_ERROR_INVALID },
    { "sub/w.bin", "-1", "16", "offset", ORTRAIN_MODEL_ERROR_INVALID },
    { "sub/w.bin", "1e3", "16", "offset", ORTRAIN_MODEL_ERROR_INVALID },
    { "sub/w.bin", "0", "18446744073709551632", "length", ORTRAIN_MODEL_ERROR_INVALID },
    { NULL, "0", "16", "no location", ORTRAIN_MODEL_ERROR_INVALID },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GBytes) bytes = external_model (cases[i].location, cases[i].offset, cases[i].length);
      g_test_message ("%s", cases[i].location != NULL ? cases[i].location : "(none)");
      assert_refused (bytes, base, NULL, cases[i].code, cases[i].part);
    }
  Proto *tensor = proto_external_tensor ("w", DIMS (4), "sub/w.bin", "0", "16");
  proto_entry (tensor, 13, "__class__", "evil"); /* CVE-2026-34445 */
  g_autoptr (GBytes) odd = proto_model (small_graph (tensor), 8, 17);
  assert_refused (odd, base, NULL, ORTRAIN_MODEL_ERROR_INVALID, "unknown key");

  g_autoptr (OrtrainModelLimits) limits = ortrain_model_limits_new ();
  ortrain_model_limits_set_allow_external_data (limits, FALSE);
  assert_refused (good, base, limits, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "not allowed");
  ortrain_model_limits_set_allow_external_data (limits, TRUE);
  ortrain_model_limits_set_allow_links (limits, TRUE);
  g_autoptr (GBytes) by_link = external_model ("dirlink/w.bin", "16", "16");
  g_autoptr (OrtrainModel) linked = ortrain_model_new_from_bytes_with_limits (by_link, base, limits, &error);
  g_assert_no_error (error);
  g_assert_nonnull (linked);
  g_autoptr (GBytes) escaping = external_model ("../secret", "16", "16");
  assert_refused (escaping, base, limits, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "outside");
}

/* Three gigabytes of weights, most of them a hole in the file; and a model of which no weight may be copied. */
static void
test_large (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (scratch, "large.onnx", NULL),
                  *data = g_build_filename (scratch, "large.bin", NULL);
  const gint64 n = 3ll << 28;
  Proto *graph = proto_new ();
  proto_message (graph, 5, proto_external_tensor ("w", DIMS (n), "large.bin", NULL, NULL));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  gsize size;
  const guint8 *model_data = g_bytes_get_data (bytes, &size);
  g_assert_true (g_file_set_contents (path, (const char *) model_data, (gssize) size, NULL));
  int fd = g_open (data, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  g_assert_cmpint (ftruncate (fd, n * 4), ==, 0);
  g_assert_cmpint (pwrite (fd, four, 4, n * 4 - 4), ==, 4);
  close (fd);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_assert_cmpint (ortrain_tensor_get_n_elements (contents (model, "w")), ==, n);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (model, "w"), n - 1), ==, 1.0);
  g_clear_object (&model);
  g_unlink (data);

  /* 512 MB of raw data, at an odd place in the file: nothing is copied before somebody asks */
  const gint64 m = 1ll << 27;
  Proto *head = proto_tensor ("w", 1, DIMS (m), NULL, 0), *outer = proto_new ();
  proto_varint (head, 9 << 3 | 2);
  proto_varint (head, (guint64) m * 4);
  proto_int (outer, 1, 8);
  guint64 tensor_length = head->len + (guint64) m * 4;
  Proto *graph_head = proto_new ();
  proto_varint (graph_head, 5 << 3 | 2);
  proto_varint (graph_head, tensor_length);
  proto_varint (outer, 7 << 3 | 2);
  proto_varint (outer, graph_head->len + tensor_length);
  g_byte_array_append (outer, graph_head->data, graph_head->len);
  g_byte_array_append (outer, head->data, head->len);
  fd = g_open (path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  g_assert_cmpint (write (fd, outer->data, outer->len), ==, (gssize) outer->len);
  g_assert_cmpint (ftruncate (fd, (gint64) outer->len + m * 4), ==, 0);
  g_assert_cmpint (pwrite (fd, four, 16, (gint64) outer->len + m * 4 - 16), ==, 16);
  close (fd);
  struct rusage before, after;
  getrusage (RUSAGE_SELF, &before);
  model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (model);
  g_autofree char *text = ortrain_model_to_string (model);
  g_assert_true (text != NULL && pairs != NULL);
  getrusage (RUSAGE_SELF, &after);
  g_assert_cmpint (after.ru_maxrss - before.ru_maxrss, <, 16 * 1024); /* KiB */
  g_assert_cmpmem ((const guint8 *) ortrain_tensor_peek_unaligned (contents (model, "w")) + m * 4 - 16, 16, four, 16);
  g_byte_array_unref (head);
  g_byte_array_unref (graph_head);
  g_byte_array_unref (outer);
  g_unlink (path);
}

/* ---- Writing ---- */

static void
test_round_trip (void)
{
  const char *const names[] = { "mlp.onnx", "cnn.onnx" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = load_data (names[i]);
      g_autofree char *path = g_build_filename (scratch, names[i], NULL), *old = NULL, *new = NULL;
      gsize old_size, new_size;
      g_assert_true (ortrain_model_save (model, path, &error));
      g_assert_no_error (error);
      g_assert_true (g_file_get_contents (ortrain_model_get_path (model), &old, &old_size, NULL));
      g_assert_true (g_file_get_contents (path, &new, &new_size, NULL));
      g_assert_cmpmem (old, old_size, new, new_size);
    }
}

static OrtrainTensor *
plus_one (OrtrainTensor *tensor)
{
  OrtrainTensor *copy = ortrain_tensor_copy (tensor, NULL);
  float *data = ortrain_tensor_peek_writable (copy);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (copy); i++)
    data[i] += 1;
  return copy;
}

static GHashTable *
new_tensors (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
}

static void
test_export (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = load_data ("cnn.onnx");
  OrtrainGraph *graph = ortrain_model_get_file_graph (model);
  g_autoptr (GHashTable) tensors = new_tensors ();
  g_autofree char *path = g_build_filename (scratch, "trained.onnx", NULL);

  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      if (value->dtype == ORTRAIN_DTYPE_FLOAT32)
        g_hash_table_insert (tensors, g_strdup (value->name), plus_one (value->tensor));
    }
  g_assert_true (ortrain_model_export (model, path, tensors, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      OrtrainTensor *want = g_hash_table_lookup (tensors, value->name);
      g_assert_true (ortrain_tensor_equal (contents (again, value->name), want != NULL ? want : value->tensor));
    }
  /* nothing else has changed: the weights are as long as they were */
  g_autoptr (GBytes) old = ortrain_model_to_bytes (model, NULL), new = ortrain_model_to_bytes (again, NULL);
  g_assert_cmpuint (g_bytes_get_size (old), ==, g_bytes_get_size (new));
  g_assert_cmpuint (ortrain_model_get_n_nodes (model), ==, ortrain_model_get_n_nodes (again));

  g_autoptr (GHashTable) wrong = new_tensors ();
  g_hash_table_insert (wrong, g_strdup ("no such"), ortrain_tensor_new_scalar (1));
  g_assert_false (ortrain_model_export (model, path, wrong, &error));
  g_assert_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE);
  g_clear_error (&error);
  g_hash_table_remove_all (wrong);
  OrtrainValue *first = graph->initializers->pdata[0];
  g_hash_table_insert (wrong, g_strdup (first->name), ortrain_tensor_new_scalar (1));
  g_assert_false (ortrain_model_export (model, path, wrong, &error));
  g_assert_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE);
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
test_constants (void)
{
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new (), *node, *attribute;
  node = proto_node ("Constant", "", "w");
  g_byte_array_set_size (node, 0);
  proto_string (node, 2, "w");
  proto_string (node, 4, "Constant");
  attribute = proto_new ();
  proto_string (attribute, 1, "value");
  proto_message (attribute, 5, proto_tensor (NULL, 1, DIMS (2, 2), four, 16));
  proto_int (attribute, 20, 4);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  node = proto_new ();
  proto_string (node, 2, "b");
  proto_string (node, 4, "Constant");
  attribute = proto_new ();
  proto_string (attribute, 1, "value_floats");
  proto_bytes (attribute, 7, four, 8);
  proto_int (attribute, 20, 6);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
  proto_message (graph, 1, proto_node ("Add", "h,b", "g"));
  proto_message (graph, 1, proto_node ("Mul", "g,half", "y"));
  node = proto_new ();
  proto_string (node, 2, "half");
  proto_string (node, 4, "Constant");
  attribute = proto_new ();
  proto_string (attribute, 1, "value_float");
  float half = 0.5f;
  proto_varint (attribute, 2 << 3 | 5);
  g_byte_array_append (attribute, (const guint8 *) &half, 4);
  proto_int (attribute, 20, 1);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  proto_message (graph, 11, proto_value ("x", 1, DIMS (1, 2)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (1, 2)));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = load_bytes (bytes);
  OrtrainGraph *file_graph = ortrain_model_get_file_graph (model);
  g_assert_cmpuint (file_graph->nodes->len, ==, 3);
  g_assert_cmpuint (ortrain_model_get_n_parameters (model), ==, 6);

  g_autoptr (GHashTable) tensors = new_tensors ();
  g_hash_table_insert (tensors, g_strdup ("w"), plus_one (contents (model, "w")));
  g_hash_table_insert (tensors, g_strdup ("b"), plus_one (contents (model, "b")));
  g_autoptr (GBytes) new = ortrain_model_export_bytes (model, tensors, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) again = load_bytes (new);
  const float w[] = { 2, 3, 4, 5 };
  g_assert_cmpmem (ortrain_tensor_peek (contents (again, "w")), 16, w, 16);
  g_assert_cmpmem (ortrain_tensor_peek (contents (again, "b")), 8, w, 8);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "half"), 0), ==, 0.5);
  const OrtrainOrigin *origin = g_hash_table_lookup (again->reader.origins, "b");
  g_assert_cmpint (origin->kind, ==, ORTRAIN_ORIGIN_CONSTANT);
}

/* An exporter merged a bias and a running mean, both zero, ahead of the program, which hands a weight on. */
static void
test_merged_initializers (void)
{
  for (gint64 ir = 3; ir <= 8; ir += 5)
    {
      g_autoptr (GError) error = NULL;
      const float zeros[4] = { 0 };
      Proto *graph = proto_new ();
      proto_message (graph, 1, proto_node ("Identity", "bn.bias", "bn.running_mean"));
      proto_message (graph, 1, proto_node ("Relu", "x", "h"));
      proto_message (graph, 1, proto_node ("Identity", "w", "bn.running_var"));
      proto_message (graph, 1, proto_node ("BatchNormalization", "h,w,bn.bias,bn.running_mean,bn.running_var", "y"));
      proto_message (graph, 5, proto_tensor ("bn.bias", 1, DIMS (4), zeros, 16));
      proto_message (graph, 5, proto_tensor ("w", 1, DIMS (4), four, 16));
      if (ir < 4)
        {
          proto_message (graph, 11, proto_value ("bn.bias", 1, DIMS (4)));
          proto_message (graph, 11, proto_value ("w", 1, DIMS (4)));
        }
      proto_message (graph, 11, proto_value ("x", 1, DIMS (2, 4)));
      proto_message (graph, 12, proto_value ("y", 1, DIMS (2, 4)));
      g_autoptr (GBytes) bytes = proto_model (graph, ir, 9);
      g_autoptr (OrtrainModel) model = load_bytes (bytes);
      OrtrainGraph *file_graph = ortrain_model_get_file_graph (model);
      g_assert_cmpuint (file_graph->nodes->len, ==, 3); /* one Identity is left: that of the second use */
      g_assert_cmpint (ortrain_graph_find_value (file_graph, "bn.running_mean")->kind, ==, ORTRAIN_VALUE_INITIALIZER);
      g_assert_cmpint (ortrain_graph_find_value (file_graph, "bn.running_var")->kind, ==, ORTRAIN_VALUE_COMPUTED);
      g_assert_true (has_note (model, "bn.running_mean"));

      /* both get the same new contents: the file keeps its form */
      g_autoptr (GHashTable) tensors = new_tensors ();
      g_hash_table_insert (tensors, g_strdup ("bn.bias"), plus_one (contents (model, "bn.bias")));
      g_hash_table_insert (tensors, g_strdup ("bn.running_mean"), plus_one (contents (model, "bn.bias")));
      g_autoptr (GBytes) same = ortrain_model_export_bytes (model, tensors, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (g_bytes_get_size (same), ==, g_bytes_get_size (bytes));

      /* one of them changes: the node stays, and reads an initializer of its own now */
      g_hash_table_remove (tensors, "bn.running_mean");
      g_autoptr (GBytes) apart = ortrain_model_export_bytes (model, tensors, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainModel) again = load_bytes (apart);
      g_assert_cmpuint (again->scan.nodes->len, ==, 4);
      g_assert_cmpuint (ortrain_model_get_n_parameters (again), ==, 12);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "bn.bias"), 1), ==, 1.0);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "bn.running_mean"), 1), ==, 0.0);
      const OrtrainOrigin *origin = g_hash_table_lookup (again->reader.origins, "bn.running_mean");
      g_assert_cmpint (origin->kind, ==, ORTRAIN_ORIGIN_SEPARATED);
      g_assert_cmpstr (origin->of, ==, "bn.running_mean.value");
      g_assert_cmpuint (ortrain_model_get_file_graph (again)->inputs->len, ==, 1);

      /* and goes on under its name: once more with other contents */
      g_hash_table_insert (tensors, g_strdup ("bn.running_mean"), plus_one (contents (again, "bn.bias")));
      g_autoptr (GBytes) thrice = ortrain_model_export_bytes (again, tensors, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (g_bytes_get_size (thrice), ==, g_bytes_get_size (apart));
      g_autoptr (OrtrainModel) third = load_bytes (thrice);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (third, "bn.running_mean"), 1), ==, 2.0);
    }
}

static void
test_external_export (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *base = g_build_filename (scratch, "external", NULL),
                  *out = g_build_filename (base, "out.onnx", NULL);
  g_autofree char *data = g_build_filename (base, "w.bin", NULL),
                  *out_data = g_build_filename (base, "out.onnx.data", NULL);
  float many[2000];
  for (guint i = 0; i < G_N_ELEMENTS (many); i++)
    many[i] = (float) i;
  g_assert_cmpint (g_mkdir_with_parents (base, 0700), ==, 0);
  g_assert_true (g_file_set_contents (data, (const char *) many, sizeof many, NULL));
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("Add", "x,w", "y"));
  proto_message (graph, 5, proto_external_tensor ("w", DIMS (1000), "w.bin", NULL, "4000"));
  proto_message (graph, 5, proto_external_tensor ("v", DIMS (1000), "w.bin", "4000", "4000"));
  proto_message (graph, 11, proto_value ("x", 1, DIMS (1000)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (1000)));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, base, &error);
  g_assert_no_error (error);

  g_autoptr (GHashTable) tensors = new_tensors ();
  g_hash_table_insert (tensors, g_strdup ("w"), plus_one (contents (model, "w")));
  for (guint i = 0; i < 2; i++) /* the second time over the first */
    {
      g_assert_true (ortrain_model_export (model, out, tensors, &error));
      g_assert_no_error (error);
    }
  g_assert_true (g_file_test (out_data, G_FILE_TEST_IS_REGULAR));
  g_unlink (data);
  g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (out, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "w"), 999), ==, 1000.0);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "v"), 999), ==, 1999.0);
  /* over itself */
  g_assert_true (ortrain_model_save (again, out, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) third = ortrain_model_new_from_file (out, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (third, "v"), 999), ==, 1999.0);
  /* in memory, what is new comes into the model, and the rest stays where it is */
  g_autoptr (GBytes) inside = ortrain_model_export_bytes (third, tensors, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) fourth = ortrain_model_new_from_bytes (inside, base, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (fourth, "w"), 1), ==, 2.0);
}

/* Links that somebody has put where files are going to be: what they point to is not written to (CVE-2025-51480). */
static void
test_planted_links (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *base = g_build_filename (scratch, "planted", NULL),
                  *victim = g_build_filename (scratch, "victim", NULL),
                  *weights = g_build_filename (base, "w.bin", NULL), *out = g_build_filename (base, "out.onnx", NULL),
                  *out_data = g_build_filename (base, "out.onnx.data", NULL), *found = NULL;
  g_assert_cmpint (g_mkdir_with_parents (base, 0700), ==, 0);
  g_assert_true (g_file_set_contents (victim, "precious", -1, NULL));
  g_assert_true (g_file_set_contents (weights, (const char *) four, 16, NULL));
  g_assert_cmpint (symlink (victim, out), ==, 0);
  g_assert_cmpint (symlink ("../victim", out_data), ==, 0);
  g_autoptr (GBytes) bytes = external_model ("w.bin", "0", "16");
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, base, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_model_save (model, out, &error));
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (victim, &found, NULL, NULL));
  g_assert_cmpstr (found, ==, "precious");
  g_assert_false (g_file_test (out, G_FILE_TEST_IS_SYMLINK));
  g_assert_false (g_file_test (out_data, G_FILE_TEST_IS_SYMLINK));
  g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (out, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "w"), 3), ==, 4.0);
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

/* What the ONNX project tests its own tools with. */
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
  scratch = g_dir_make_tmp ("ortrain-model-XXXXXX", NULL);
  g_test_add_func ("/model/load", test_load);
  g_test_add_func ("/model/async", test_async);
  g_test_add_func ("/model/typed-fields", test_typed_fields);
  g_test_add_func ("/model/sparse", test_sparse);
  g_test_add_func ("/model/input-initializers", test_input_initializers);
  g_test_add_func ("/model/functions", test_functions);
  g_test_add_func ("/model/function-recursion", test_function_recursion);
  g_test_add_func ("/model/function-bomb", test_function_bomb);
  g_test_add_func ("/model/odd-shapes", test_odd_shapes);
  g_test_add_func ("/model/odd-operands", test_odd_operands);
  g_test_add_func ("/model/twice", test_twice);
  g_test_add_func ("/model/subgraphs", test_subgraphs);
  g_test_add_func ("/model/versions", test_versions);
  g_test_add_func ("/model/truncated", test_truncated);
  g_test_add_func ("/model/mutated", test_mutated);
  g_test_add_func ("/model/depth", test_depth);
  g_test_add_func ("/model/limits", test_limits);
  g_test_add_func ("/model/bad-graphs", test_bad_graphs);
  g_test_add_func ("/model/bombs", test_bombs);
  g_test_add_func ("/model/planted-links", test_planted_links);
  g_test_add_func ("/model/external", test_external);
  g_test_add_func ("/model/large", test_large);
  g_test_add_func ("/model/round-trip", test_round_trip);
  g_test_add_func ("/model/export", test_export);
  g_test_add_func ("/model/unknown-fields", test_unknown_fields);
  g_test_add_func ("/model/constants", test_constants);
  g_test_add_func ("/model/merged-initializers", test_merged_initializers);
  g_test_add_func ("/model/external-export", test_external_export);
  g_test_add_func ("/model/equal-parameters", test_equal_parameters);
  g_test_add_func ("/model/onnx-data", test_onnx_data);
  int status = g_test_run ();
  test_remove_folder (scratch);
  g_free (scratch);
  return status;
}
