/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model-fixture.h"

#include <sys/resource.h>

/* Files that are cut, altered, or ask for more than they have. */

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
      /* exactly so many bytes on the heap, so that tools see a read past the end */
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
  const gsize head = 3000; /* nodes, and the bytes after the weights: the weights themselves can be anything */
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
  /* 3000 graphs in each other, which overflow the stack of a recursive reader */
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
          /* values that decide a shape are computed when the plan is made */
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

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model-limits/function-recursion", test_function_recursion);
  g_test_add_func ("/model-limits/function-bomb", test_function_bomb);
  g_test_add_func ("/model-limits/truncated", test_truncated);
  g_test_add_func ("/model-limits/mutated", test_mutated);
  g_test_add_func ("/model-limits/depth", test_depth);
  g_test_add_func ("/model-limits/limits", test_limits);
  g_test_add_func ("/model-limits/bad-graphs", test_bad_graphs);
  g_test_add_func ("/model-limits/bombs", test_bombs);
  return g_test_run ();
}
