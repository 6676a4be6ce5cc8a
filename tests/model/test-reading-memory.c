/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ortrain.h>

#include <stdio.h>
#include <sys/resource.h>

/* Reading a model takes at most 4 times its file and 64 MiB: what would take more is refused. Each case runs in a process
 * whose memory is limited to that. */

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
} Case;

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

/* x + b + b + …, 100,000 times. */
static GBytes *
make_chain (void)
{
  const guint n = 100000;
  GByteArray *model = g_byte_array_new (), *graph = g_byte_array_new (), *set = g_byte_array_new ();
  const guint8 ir_version[] = { 0x08, 8 }, version[] = { 0x10, 17 };
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *input = i > 0 ? g_strdup_printf ("/layers/%u/Add_output_0", i) : g_strdup ("x");
      g_autofree char *output = g_strdup_printf ("/layers/%u/Add_output_0", i + 1);
      GByteArray *node = g_byte_array_new ();
      put_text (node, 1, input);
      put_text (node, 1, "x");
      put_text (node, 2, output);
      put_text (node, 4, "Add");
      put_message (graph, 1, node);
    }
  GByteArray *info = g_byte_array_new ();
  put_text (info, 1, "x");
  put_message (graph, 11, info);
  info = g_byte_array_new ();
  put_text (info, 1, "/layers/100000/Add_output_0");
  put_message (graph, 12, info);
  g_byte_array_append (model, ir_version, sizeof ir_version);
  g_byte_array_append (set, version, sizeof version);
  put_message (model, 8, set);
  put_message (model, 7, graph);
  return g_byte_array_free_to_bytes (model);
}

static void
limit_memory (gsize file_size)
{
#ifndef __SANITIZE_ADDRESS__
  gsize kib = 0;
  char line[256];
  FILE *status = fopen ("/proc/self/status", "r");
  g_assert_nonnull (status);
  while (fgets (line, sizeof line, status) != NULL)
    if (sscanf (line, "VmData: %zu", &kib) == 1)
      break;
  fclose (status);
  g_assert_cmpuint (kib, >, 0);
  const struct rlimit limit = { kib * 1024 + 4 * file_size + ((gsize) 64 << 20), RLIM_INFINITY };
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
  g_autoptr (GBytes) bytes = make_hostile (data);
  limit_memory (g_bytes_get_size (bytes));
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
test_chain (void)
{
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = make_chain ();
  limit_memory (g_bytes_get_size (bytes));
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_model_get_n_nodes (model), ==, 100000);
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
  g_test_add_func ("/model/reading-memory/chain", test_chain);
  return g_test_run ();
}
