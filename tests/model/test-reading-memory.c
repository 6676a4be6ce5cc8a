/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ortrain.h>

#include <stdio.h>
#include <sys/resource.h>

/* Reading a model takes at most 4 times its file and 64 MiB in addition to the memory of valid nodes and tensors: a
 * model that would take more is refused. Each case runs in a process whose memory is limited to that; models of a
 * hundred thousand nodes or values stay within four fifths of it. */

static void
put_varint (GByteArray *out, guint64 value)
{
  for (; value >= 0x80; value >>= 7)
    {
      const guint8 byte = (guint8) (value | 0x80);
      g_byte_array_append (out, &byte, 1);
    }
  const guint8 last = (guint8) value;
  g_byte_array_append (out, &last, 1);
}

static void
put_bytes (GByteArray *out, guint field, const guint8 *bytes, gsize n)
{
  put_varint (out, field << 3 | 2);
  put_varint (out, n);
  g_byte_array_append (out, bytes, (guint) n);
}

static void
put_text (GByteArray *out, guint field, const char *text)
{
  put_bytes (out, field, (const guint8 *) text, strlen (text));
}

static void
put_message (GByteArray *out, guint field, GByteArray *message)
{
  put_bytes (out, field, message->data, message->len);
  g_byte_array_unref (message);
}

static void
put_empty (GByteArray *out, guint field, guint n)
{
  for (guint i = 0; i < n; i++)
    put_bytes (out, field, NULL, 0);
}

/* Where a million empty things stand: fields from the model inwards, 0 at the end; the last one is repeated. */
typedef struct
{
  const char *name;
  guint path[8];
  GBytes *(*make) (void); /* or NULL */
} Case;

static GBytes *make_repeated_nodes (void);
static GBytes *make_repeated_attributes (void);

static const Case cases[] = {
  { "metadata", { 14 } },
  { "operator-sets", { 8 } },
  { "functions", { 25 } },
  { "nodes", { 7, 1 } },
  { "initializers", { 7, 5 } },
  { "inputs", { 7, 11 } },
  { "value-infos", { 7, 13 } },
  { "sparse-initializers", { 7, 15 } },
  { "node-inputs", { 7, 1, 1 } },
  { "node-outputs", { 7, 1, 2 } },
  { "attributes", { 7, 1, 5 } },
  { "strings", { 7, 1, 5, 9 } },
  { "tensors", { 7, 1, 5, 10 } },
  { "subgraphs", { 7, 1, 5, 11 } },
  { "nested-nodes", { 7, 1, 5, 6, 1 } },
  { "tensor-entries", { 7, 5, 13 } },
  { "dimensions", { 7, 11, 2, 1, 2, 1 } },
  { "function-nodes", { 25, 7 } },
  { "repeated-nodes", { 0 }, make_repeated_nodes },
  { "repeated-attributes", { 0 }, make_repeated_attributes },
};

static GBytes *
make_hostile (const Case *c)
{
  guint depth = 0;
  while (c->path[depth] != 0)
    depth++;
  GByteArray *message = g_byte_array_new ();
  put_empty (message, c->path[--depth], 4000000);
  while (depth > 0)
    {
      GByteArray *outer = g_byte_array_new ();
      put_message (outer, c->path[--depth], message);
      message = outer;
    }
  return g_byte_array_free_to_bytes (message);
}

static void
put_node (GByteArray *graph, const char *op_type, const char *left, const char *right, const char *output)
{
  GByteArray *node = g_byte_array_new ();
  put_text (node, 1, left);
  put_text (node, 1, right);
  put_text (node, 2, output);
  put_text (node, 4, op_type);
  put_message (graph, 1, node);
}

static void
put_weight (GByteArray *graph, const char *name)
{
  static const guint8 data[16] = { 0 };
  const guint8 dims_and_type[] = { 0x08, 2, 0x08, 2, 0x10, 1 };
  GByteArray *tensor = g_byte_array_new ();
  g_byte_array_append (tensor, dims_and_type, sizeof dims_and_type);
  put_text (tensor, 8, name);
  put_bytes (tensor, 9, data, sizeof data);
  put_message (graph, 5, tensor);
}

/* float32 [2, 2] */
static void
put_value (GByteArray *graph, guint field, const char *name)
{
  const guint8 type[] = { 0x0a, 12, 0x08, 1, 0x12, 8, 0x0a, 2, 0x08, 2, 0x0a, 2, 0x08, 2 };
  GByteArray *info = g_byte_array_new ();
  put_text (info, 1, name);
  put_bytes (info, 2, type, sizeof type);
  put_message (graph, field, info);
}

static GBytes *
finish_model (GByteArray *graph)
{
  GByteArray *model = g_byte_array_new (), *set = g_byte_array_new ();
  const guint8 ir_version[] = { 0x08, 8 }, version[] = { 0x10, 17 };
  g_byte_array_append (model, ir_version, sizeof ir_version);
  g_byte_array_append (set, version, sizeof version);
  put_message (model, 8, set);
  put_message (model, 7, graph);
  return g_byte_array_free_to_bytes (model);
}

typedef struct
{
  const char *name, *op_type, *format; /* of the names of values */
  guint n_nodes;
  gboolean with_weights; /* of each node its own */
  guint graph_mib;       /* limit for making the graph together with loading */
} Honest;

static const Honest honest[] = {
  { "long-names", "Add", "/layers/%u/Add_output_0", 100000, FALSE, 136 },
  { "short-names", "Add", "v%u", 100000, FALSE, 128 },
  { "weights", "MatMul", "v%u", 50000, TRUE, 112 },
};

/* y = x ∘ b ∘ b …: each node reads the output of the one before. */
static GBytes *
make_chain (const Honest *h)
{
  GByteArray *graph = g_byte_array_new ();
  put_value (graph, 11, "x");
  if (!h->with_weights)
    put_weight (graph, "b");
  for (guint i = 0; i < h->n_nodes; i++)
    {
      g_autofree char *input = i > 0 ? g_strdup_printf (h->format, i) : g_strdup ("x");
      g_autofree char *weight = h->with_weights ? g_strdup_printf ("w%u", i) : g_strdup ("b");
      g_autofree char *output = g_strdup_printf (h->format, i + 1);
      put_node (graph, h->op_type, input, weight, output);
      if (h->with_weights)
        put_weight (graph, weight);
      if (i + 1 == h->n_nodes)
        put_value (graph, 12, output);
    }
  return finish_model (graph);
}

/* A million nodes that look valid, but all have one output; attributes of one node that all have one name. */
static GBytes *
make_repeated_nodes (void)
{
  GByteArray *graph = g_byte_array_new ();
  for (guint i = 0; i < 900000; i++)
    put_node (graph, "Add", "x", "x", "y");
  return finish_model (graph);
}

static GBytes *
make_repeated_attributes (void)
{
  GByteArray *graph = g_byte_array_new (), *node = g_byte_array_new ();
  const guint8 attribute[] = { 0x2a, 5, 0x0a, 1, 'a', 0x18, 1 };
  put_text (node, 2, "y");
  put_text (node, 4, "Relu");
  for (guint i = 0; i < 2000000; i++)
    g_byte_array_append (node, attribute, sizeof attribute);
  put_message (graph, 1, node);
  return finish_model (graph);
}

static gsize
bound (GBytes *file)
{
  return 4 * g_bytes_get_size (file) + ((gsize) 64 << 20);
}

/* The data memory of the process. */
static gsize
data_bytes (void)
{
  gsize kib = 0;
  char line[256];
  FILE *status = fopen ("/proc/self/status", "r");
  g_assert_nonnull (status);
  while (fgets (line, sizeof line, status) != NULL)
    if (sscanf (line, "VmData: %zu", &kib) == 1)
      break;
  fclose (status);
  g_assert_cmpuint (kib, >, 0);
  return kib * 1024;
}

/* Not with AddressSanitizer, which needs more of its own. */
static void
limit_memory (gsize bytes)
{
#ifndef __SANITIZE_ADDRESS__
  const struct rlimit limit = { bytes, RLIM_INFINITY };
  g_assert_cmpint (setrlimit (RLIMIT_DATA, &limit), ==, 0);
#endif
}

static void
test_hostile (gconstpointer data)
{
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }
  g_autoptr (GError) error = NULL;
  const Case *c = data;
  g_autoptr (GBytes) bytes = c->make != NULL ? c->make () : make_hostile (c);
  limit_memory (data_bytes () + bound (bytes));
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_null (model);
  g_assert_true (error->domain == ORTRAIN_MODEL_ERROR);
  g_assert_cmpuint (strlen (error->message), <, 1000);
}

static void
test_attributes_named (void)
{
  g_autoptr (GError) error = NULL;
  const Case c = { "attributes", { 7, 1, 5 } };
  g_autoptr (GBytes) bytes = make_hostile (&c);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_null (model);
  g_assert_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "AttributeProto"));
}

static void
test_honest (gconstpointer data)
{
  const Honest *h = data;
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = make_chain (h);
  const gsize before = data_bytes ();
  limit_memory (before + bound (bytes) / 5 * 4);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_model_get_n_nodes (model), ==, h->n_nodes);
  limit_memory (before + ((gsize) h->graph_mib << 20));
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_graph_get_nodes (graph)), ==, h->n_nodes);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/model/reading-memory/", cases[i].name, NULL);
      g_test_add_data_func (path, &cases[i], test_hostile);
    }
  g_test_add_func ("/model/reading-memory/named", test_attributes_named);
  for (guint i = 0; i < G_N_ELEMENTS (honest); i++)
    {
      g_autofree char *path = g_strconcat ("/model/reading-memory/valid/", honest[i].name, NULL);
      g_test_add_data_func (path, &honest[i], test_honest);
    }
  return g_test_run ();
}
