/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "model/ortrain-proto-maker.h"
#include "ortrain.h"
#include "plan/ortrain-plan-tables-private.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Models of the size of GPT-2, whose weights are a few numbers each and then holes of a file, planned in less address
 * space than their parameters, gradients and state need, and for a step that is many times larger than that. Planning
 * reads no weight, and a session that has copied the weights does not keep the file's pages as well. */

#define GIBIBYTE ((guint64) 1 << 30)
#define N_TOKENS 50257
#define N_POSITIONS 1024

typedef struct
{
  const char *name;
  guint n_layers;
  gint64 width, n_heads;
  guint64 n_parameters;
} Size;

static const Size sizes[] = {
  { "gpt2", 12, 768, 12, 124439808 },
  { "gpt2-medium", 24, 1024, 16, 354823168 },
};

/* A graph under construction, and the position of the next weight in the file. */
typedef struct
{
  Proto *graph;
  int fd;
  guint64 offset;
  guint n_values;
} Writer;

static char *
add_weight (Writer *writer, const char *layer, const char *name, gint64 rows, gint64 columns)
{
  const gint64 dims[] = { rows, columns > 0 ? columns : -1, -1 };
  const guint64 n_bytes = (guint64) (rows * MAX (columns, 1)) * sizeof (float);
  char *full = g_strdup_printf ("%s.%s", layer, name);
  g_autofree char *offset = g_strdup_printf ("%" G_GUINT64_FORMAT, writer->offset);
  g_autofree char *length = g_strdup_printf ("%" G_GUINT64_FORMAT, n_bytes);
  proto_message (writer->graph, 5, proto_external_tensor (full, dims, "weights.bin", offset, length));
  /* each weight has its own: equal ones would be read whole, to find tensors that a file stores twice */
  const float numbers[] = { 0.25f + 1e-6f * (float) (writer->offset >> 12), -0.5f, 0.125f, 1.5f };
  g_assert_cmpint (pwrite (writer->fd, numbers, sizeof numbers, (off_t) writer->offset), ==, sizeof numbers);
  writer->offset += n_bytes;
  return full;
}

/* The name of the output; inputs: names separated by commas. */
static char *
add_node (Writer *writer, const char *op_type, const char *inputs)
{
  char *output = g_strdup_printf ("v%u", writer->n_values++);
  proto_message (writer->graph, 1, proto_node (op_type, inputs, output));
  return output;
}

static char *
add_binary (Writer *writer, const char *op_type, const char *a, const char *b)
{
  g_autofree char *inputs = g_strdup_printf ("%s,%s", a, b);
  return add_node (writer, op_type, inputs);
}

static char *
add_linear (Writer *writer, const char *layer, const char *x, gint64 n_in, gint64 n_out)
{
  g_autofree char *weight = add_weight (writer, layer, "weight", n_in, n_out);
  g_autofree char *bias = add_weight (writer, layer, "bias", n_out, 0);
  g_autofree char *product = add_binary (writer, "MatMul", x, weight);
  return add_binary (writer, "Add", product, bias);
}

static char *
add_norm (Writer *writer, const char *layer, const char *x, gint64 width)
{
  g_autofree char *weight = add_weight (writer, layer, "weight", width, 0);
  g_autofree char *bias = add_weight (writer, layer, "bias", width, 0);
  g_autofree char *inputs = g_strdup_printf ("%s,%s,%s", x, weight, bias);
  return add_node (writer, "LayerNormalization", inputs);
}

static char *
add_attention (Writer *writer, const char *layer, const char *x, const Size *size)
{
  const guint n = writer->n_values++;
  g_autofree char *inner = g_strconcat (layer, ".qkv", NULL), *outer = g_strconcat (layer, ".proj", NULL);
  g_autofree char *all = add_linear (writer, inner, x, size->width, 3 * size->width);
  g_autofree char *parts = g_strdup_printf ("query%u,key%u,value%u", n, n, n);
  g_autofree char *result = g_strdup_printf ("attention%u", n);
  Proto *split = proto_node ("Split", all, parts);
  proto_int_attribute (split, "axis", -1);
  proto_int_attribute (split, "num_outputs", 3);
  proto_message (writer->graph, 1, split);
  Proto *attention = proto_node ("Attention", parts, result);
  proto_int_attribute (attention, "is_causal", 1);
  proto_int_attribute (attention, "q_num_heads", size->n_heads);
  proto_int_attribute (attention, "kv_num_heads", size->n_heads);
  proto_message (writer->graph, 1, attention);
  return add_linear (writer, outer, result, size->width, size->width);
}

static char *
add_block (Writer *writer, guint index, const char *x, const Size *size)
{
  g_autofree char *n1 = g_strdup_printf ("h%u.ln1", index), *attn = g_strdup_printf ("h%u.attn", index);
  g_autofree char *n2 = g_strdup_printf ("h%u.ln2", index), *up = g_strdup_printf ("h%u.fc", index);
  g_autofree char *down = g_strdup_printf ("h%u.proj", index);
  g_autofree char *a = add_norm (writer, n1, x, size->width);
  g_autofree char *b = add_attention (writer, attn, a, size);
  g_autofree char *middle = add_binary (writer, "Add", x, b);
  g_autofree char *c = add_norm (writer, n2, middle, size->width);
  g_autofree char *d = add_linear (writer, up, c, size->width, 4 * size->width);
  g_autofree char *e = add_node (writer, "Gelu", d);
  g_autofree char *f = add_linear (writer, down, e, 4 * size->width, size->width);
  return add_binary (writer, "Add", middle, f);
}

static void
write_model (const Size *size, const char *path, const char *data_path)
{
  g_autoptr (GError) error = NULL;
  Writer writer = { .graph = proto_new (), .fd = open (data_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) };
  g_autofree char *wte = add_weight (&writer, "wte", "weight", N_TOKENS, size->width);
  g_autofree char *wpe = add_weight (&writer, "wpe", "weight", N_POSITIONS, size->width);
  g_autofree char *tokens = add_binary (&writer, "Gather", wte, "ids");
  g_autofree char *places = add_binary (&writer, "Gather", wpe, "positions");
  char *x = add_binary (&writer, "Add", tokens, places);
  for (guint i = 0; i < size->n_layers; i++)
    {
      char *next = add_block (&writer, i, x, size);
      g_free (x);
      x = next;
    }
  g_autofree char *last = add_norm (&writer, "ln", x, size->width);
  g_free (x);
  g_autofree char *head = add_node (&writer, "Transpose", wte);
  g_autofree char *ends = g_strdup_printf ("%s,%s", last, head);
  proto_message (writer.graph, 1, proto_node ("MatMul", ends, "logits"));
  proto_message (writer.graph, 11, proto_symbolic_value ("ids", 7, "batch,length"));
  proto_message (writer.graph, 11, proto_symbolic_value ("positions", 7, "length"));
  proto_message (writer.graph, 12, proto_symbolic_value ("logits", 1, "batch,length,tokens"));
  g_assert_cmpuint (writer.offset, ==, size->n_parameters * sizeof (float));
  g_autoptr (GBytes) bytes = proto_model (writer.graph, 11, 23);
  g_assert_true (g_file_set_contents (path, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes), &error));
  g_assert_cmpint (ftruncate (writer.fd, (off_t) writer.offset), ==, 0);
  close (writer.fd);
}

static OrtrainTensorDict *
make_feeds (gint64 batch, gint64 length)
{
  const gint64 dims[] = { batch, length };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) ids = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) positions = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims + 1, 1, &error);
  g_assert_no_error (error);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "ids", ids);
  ortrain_tensor_dict_set (feeds, "positions", positions);
  ortrain_tensor_dict_set (feeds, "labels", ids);
  return feeds;
}

static void
limit_address_space (guint64 n_bytes)
{
  struct rlimit limit;
  g_assert_cmpint (getrlimit (RLIMIT_AS, &limit), ==, 0);
  limit.rlim_cur = n_bytes;
  g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);
}

/* Bytes of the weights' file that this process has in memory. */
static gsize
count_resident (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  gboolean is_weights = FALSE;
  gsize kib = 0;
  g_file_get_contents ("/proc/self/smaps", &text, NULL, &error);
  g_assert_no_error (error);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      if (g_ascii_isxdigit (lines[i][0]) && strchr (lines[i], '-') != NULL)
        is_weights = g_str_has_suffix (lines[i], "/weights.bin");
      else if (is_weights && g_str_has_prefix (lines[i], "Rss:"))
        kib += g_ascii_strtoull (lines[i] + strlen ("Rss:"), NULL, 10);
    }
  return kib * 1024;
}

/* The first page of a weight is looked at, to tell it from a mask, and the system reads others around it. */
#define SMALL_PART 16

static void
plan_in_little_memory (const Size *size, const char *folder)
{
  const guint64 bytes = size->n_parameters * sizeof (float);
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (folder, "model.onnx", NULL);
  limit_address_space (4 * GIBIBYTE);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-4);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_assert_nonnull (ortrain_training_session_get_training_graph (session));

  g_autoptr (OrtrainTensorDict) feeds = make_feeds (4096, N_POSITIONS), small = make_feeds (1, 2);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_resident (), <=, bytes / SMALL_PART);
  g_assert_cmpuint (ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_PARAMETER), >=, bytes);
  g_assert_cmpuint (ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_GRADIENT), >=, bytes);
  g_assert_cmpuint (ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_STATE), >=, 2 * bytes);
  /* the least that each block needs, in float32 */
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), >,
                    (guint64) size->n_layers * 4096 * N_POSITIONS * (guint64) size->width * 4 * sizeof (float));
  g_test_message ("%s: %.1f GiB are planned", size->name,
                  (double) ortrain_memory_plan_get_peak_bytes (plan) / (double) GIBIBYTE);

  /* Contents are another matter; then plans are still made. */
  limit_address_space (5 * bytes);
  g_assert_true (isnan (ortrain_training_session_train_step (session, small, &error)));
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
  g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, "optimizer state"));
  g_clear_error (&error);
  g_assert_null (ortrain_training_session_get_parameters (session, &error));
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
  g_clear_error (&error);
  g_autoptr (OrtrainMemoryPlan) again = ortrain_training_session_plan (session, small, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (again), >, 0);
}

static void
test_size (gconstpointer data)
{
  const Size *size = data;
  if (g_test_subprocess ())
    {
      plan_in_little_memory (size, g_getenv ("ORTRAIN_TEST_FOLDER"));
      return;
    }
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "model.onnx", NULL);
  g_autofree char *data_path = g_build_filename (folder, "weights.bin", NULL);
  write_model (size, path, data_path);
  g_setenv ("ORTRAIN_TEST_FOLDER", folder, TRUE);
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDOUT | G_TEST_SUBPROCESS_INHERIT_STDERR);
  const gboolean passed = g_test_trap_has_passed ();
  test_remove_folder (folder);
  g_assert_true (passed);
}

/* A training step copies all weights; then those that are worth a system call are in memory once. */
static void
test_copied (void)
{
  const Size size = { "small", 2, 256, 4, 14707968 };
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "model.onnx", NULL);
  g_autofree char *data_path = g_build_filename (folder, "weights.bin", NULL);
  write_model (&size, path, data_path);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (1, 2);
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_test_message ("%" G_GSIZE_FORMAT " of %" G_GUINT64_FORMAT " bytes of the file are in memory", count_resident (),
                  size.n_parameters * sizeof (float));
  g_assert_cmpuint (count_resident (), <=, size.n_parameters * sizeof (float) / SMALL_PART);
  test_remove_folder (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autofree char *path = g_strconcat ("/planning-memory/", sizes[i].name, NULL);
      g_test_add_data_func (path, &sizes[i], test_size);
    }
  g_test_add_func ("/planning-memory/copied", test_copied);
  return g_test_run ();
}
