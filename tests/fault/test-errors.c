/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "model/ortrain-proto-maker.h"
#include "session/fixture.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <sys/resource.h>

/* Each kind of bad input, from end to end: an error of the right domain and code that says where and why, nothing
 * changed, and the object still usable. The refusals of a single reader, byte by byte, are tested with that reader. */

static char *scratch;

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })

static char *
in_scratch (const char *name)
{
  return g_build_filename (scratch, name, NULL);
}

/* Takes the error. */
static void
assert_tells (GError *error, GQuark domain, int code, const char *where, const char *why)
{
  g_assert_error (error, domain, code);
  if (strstr (error->message, where) == NULL || strstr (error->message, why) == NULL)
    g_error ("“%s” does not tell of “%s” and “%s”", error->message, where, why);
  g_error_free (error);
}

static OrtrainTensorDict *
copy_dict (OrtrainTensorDict *from)
{
  OrtrainTensorDict *copy = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (from); i++)
    ortrain_tensor_dict_set (copy, ortrain_tensor_dict_get_name (from, i), ortrain_tensor_dict_get_tensor (from, i));
  return copy;
}

static OrtrainTensorDict *
with_tensor (OrtrainTensorDict *from, const char *name, OrtrainTensor *tensor)
{
  OrtrainTensorDict *copy = copy_dict (from);
  ortrain_tensor_dict_set (copy, name, tensor);
  g_object_unref (tensor);
  return copy;
}

static OrtrainTensorDict *
get_state (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  return state;
}

static void
train_well (OrtrainTrainingSession *session, OrtrainTensorDict *feeds)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) before = get_state (session);
  double loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_true (isfinite (loss));
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) after = get_state (session);
  gboolean moved = FALSE;
  g_assert_cmpuint (ortrain_tensor_dict_get_size (after), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (after); i++)
    moved = moved || !ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (after, i),
                                            ortrain_tensor_dict_get_tensor (before, i));
  g_assert_true (moved);
}

/* ---- Files ---- */

/* The three files of a truncated download: cut in the weights, in the graph, and after nothing at all. */
static void
test_truncated_file (void)
{
  g_autofree char *whole = g_test_build_filename (G_TEST_DIST, "data", "fixtures", "mlp", "model.onnx", NULL);
  g_autofree char *path = in_scratch ("cut.onnx"), *data = NULL;
  gsize size;
  g_assert_true (g_file_get_contents (whole, &data, &size, NULL));
  const gsize cuts[] = { size - 100, size / 2, 200, 0 };
  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++)
    {
      GError *error = NULL;
      g_assert_true (g_file_set_contents (path, data, (gssize) cuts[i], NULL));
      g_assert_null (ortrain_model_new_from_file (path, &error));
      assert_tells (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID, "cut.onnx",
                    cuts[i] > 0 ? "byte" : "empty");
    }
  /* downloaded again */
  g_autoptr (GError) error = NULL;
  g_assert_true (g_file_set_contents (path, data, (gssize) size, NULL));
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_assert_nonnull (ortrain_model_get_graph (model, &error));
}

static void
test_cycle (void)
{
  GError *error = NULL;
  Proto *proto = proto_new (), *first = proto_node ("Relu", "b", "a"), *second = proto_node ("Exp", "a", "b");
  proto_string (first, 3, "first");
  proto_string (second, 3, "second");
  proto_message (proto, 1, first);
  proto_message (proto, 1, second);
  proto_message (proto, 12, proto_value ("b", 1, DIMS (4)));
  g_autoptr (GBytes) bytes = proto_model (proto, 8, 17);
  g_assert_null (ortrain_model_new_from_bytes (bytes, NULL, &error));
  assert_tells (g_steal_pointer (&error), ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_CYCLE, "first", "cycle");

  /* made by hand: the graph stays as it was */
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  const char *const x[] = { "x", NULL }, *const y[] = { "y", NULL }, *const z[] = { "z", NULL };
  OrtrainValue *input = ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, DIMS (2), 1, &error);
  OrtrainNode *relu = ortrain_graph_add_node (graph, "Relu", "", "first", x, y, &error);
  ortrain_graph_add_node (graph, "Exp", "", "second", y, z, &error);
  g_assert_true (ortrain_graph_add_output (graph, "z", &error));
  g_assert_no_error (error);
  OrtrainValue *last = ortrain_graph_find_value (graph, "z");
  g_autofree char *before = ortrain_graph_to_string (graph);
  g_assert_false (ortrain_graph_replace_value (graph, input, last, &error));
  assert_tells (g_steal_pointer (&error), ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_CYCLE, "'x'", "cycle");
  g_autofree char *after = ortrain_graph_to_string (graph);
  g_assert_cmpstr (before, ==, after);
  g_assert_nonnull (relu);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  g_assert_nonnull (ortrain_model_get_graph (model, &error));
}

/* All of them, also those in the body of a branch, by every way to the graph; and the model can be looked at. */
static void
test_unknown_operators (void)
{
  const float four[] = { 1, 2, 3, 4 };
  const guint8 yes = 1;
  Proto *graph = proto_new (), *branch = proto_new (), *condition = proto_node ("If", "c", "r"), *theirs;
  proto_message (graph, 1, proto_node ("Add", "x,w", "y"));
  proto_message (graph, 1, proto_node ("Frobnicate", "y", "u"));
  proto_message (graph, 1, proto_node ("Frobnicate", "u", "v"));
  theirs = proto_node ("FusedThing", "v", "q");
  proto_string (theirs, 7, "com.example");
  proto_message (graph, 1, theirs);
  proto_message (branch, 1, proto_node ("Quux", "q", "inner"));
  proto_message (branch, 12, proto_value ("inner", 1, DIMS (4)));
  for (guint i = 0; i < 2; i++)
    {
      Proto *attribute = proto_new ();
      proto_string (attribute, 1, i == 0 ? "then_branch" : "else_branch");
      proto_message (attribute, 6, g_byte_array_ref (branch));
      proto_int (attribute, 20, 5);
      proto_message (condition, 5, attribute);
    }
  g_byte_array_unref (branch);
  proto_message (graph, 1, condition);
  proto_message (graph, 5, proto_tensor ("w", 1, DIMS (4), four, 16));
  proto_message (graph, 5, proto_tensor ("c", 9, (const gint64[]){ -1 }, &yes, 1));
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("r", 1, DIMS (4)));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  GError *error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);

  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("r", "t");
  ortrain_training_options_add_loss (options, loss);
  for (guint i = 0; i < 4; i++) /* the graph, twice the same; inference; training */
    {
      gpointer made = i < 2    ? (gpointer) ortrain_model_get_graph (model, &error)
                      : i == 2 ? (gpointer) ortrain_inference_session_new (model, NULL, &error)
                               : (gpointer) ortrain_training_session_new (model, options, &error);
      g_assert_null (made);
      g_assert_nonnull (strstr (error->message, "com.example::FusedThing"));
      g_assert_nonnull (strstr (error->message, "Quux"));
      assert_tells (g_steal_pointer (&error), ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR,
                    "Frobnicate (2)", "unknown operators");
    }
  g_autofree char *text = ortrain_model_to_string (model);
  g_assert_nonnull (strstr (text, "x: float32 [4]"));
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_assert_false (ortrain_check_report_get_trainable (report));
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_check_report_get_diagnostics (report)), >=, 3);
}

static void
test_missing_external_data (void)
{
  GError *error = NULL;
  g_autofree char *folder = in_scratch ("external"), *path = g_build_filename (folder, "model.onnx", NULL),
                  *data = g_build_filename (folder, "weights.bin", NULL);
  const float four[] = { 1, 2, 3, 4 };
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("Add", "x,w", "y"));
  proto_message (graph, 5, proto_external_tensor ("w", DIMS (4), "weights.bin", "0", "16"));
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4)));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  gsize size;
  const char *contents = g_bytes_get_data (bytes, &size);
  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, contents, (gssize) size, NULL));

  g_assert_null (ortrain_model_new_from_file (path, &error));
  g_assert_nonnull (strstr (error->message, "'w'"));
  assert_tells (g_steal_pointer (&error), ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "weights.bin",
                g_strerror (ENOENT));
  /* half of it is there */
  g_assert_true (g_file_set_contents (data, (const char *) four, 8, NULL));
  g_assert_null (ortrain_model_new_from_file (path, &error));
  assert_tells (g_steal_pointer (&error), ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "weights.bin",
                "which has 8");
  g_assert_true (g_file_set_contents (data, (const char *) four, 16, NULL));
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  OrtrainValue *w = ortrain_graph_find_value (ortrain_model_get_graph (model, &error), "w");
  g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_value_get_tensor (w), 3), ==, 4);
}

/* ---- Feeds ---- */

typedef struct
{
  TestModel *model;
  OrtrainTrainingSession *session;
  OrtrainInferenceSession *inference;
  OrtrainTensorDict *feeds, *inputs; /* for training; for the model alone */
  OrtrainTensorDict *old;            /* the state that was written first */
} Fed;

static void
fed_set_up (Fed *self, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  self->model = test_model_load (name);
  self->session = test_model_make_session (self->model, "sgd");
  self->inference = ortrain_inference_session_new (self->model->model, NULL, &error);
  g_assert_no_error (error);
  self->feeds = test_model_feeds (self->model, 0);
  self->inputs = self->model->inputs->pdata[0];
}

static void
fed_tear_down (Fed *self, gconstpointer name)
{
  g_object_unref (self->session);
  g_object_unref (self->inference);
  g_clear_object (&self->old);
  test_model_free (self->model);
}

/* Both kinds of step refuse it; the session is as it was, and goes on, with a step of the right kind before and after.
 */
static void
assert_step_refuses (Fed *self, OrtrainTensorDict *bad, int code, const char *where, const char *why)
{
  GError *error = NULL;
  train_well (self->session, self->feeds);
  /* a gradient that waits for its update is not lost either */
  g_assert_true (isfinite (ortrain_training_session_train_step (self->session, self->feeds, &error)));
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) before = get_state (self->session);
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (self->session, &error);
  g_assert_true (isnan (ortrain_training_session_train_step (self->session, bad, &error)));
  assert_tells (g_steal_pointer (&error), ORTRAIN_SESSION_ERROR, code, where, why);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (self->session, bad, &error);
  g_assert_null (outputs);
  assert_tells (g_steal_pointer (&error), ORTRAIN_SESSION_ERROR, code, where, why);
  g_autoptr (OrtrainTensorDict) after = get_state (self->session);
  test_assert_same_bits (before, after);
  g_autoptr (OrtrainTensorDict) same = ortrain_training_session_get_gradients (self->session, &error);
  g_assert_no_error (error);
  test_assert_same_bits (gradients, same);
  g_assert_true (ortrain_training_session_optimizer_step (self->session, &error));
  g_assert_no_error (error);
  train_well (self->session, self->feeds);
}

static void
assert_run_refuses (Fed *self, OrtrainTensorDict *bad, int code, const char *where, const char *why)
{
  GError *error = NULL;
  g_assert_null (ortrain_inference_session_run (self->inference, bad, &error));
  assert_tells (g_steal_pointer (&error), ORTRAIN_SESSION_ERROR, code, where, why);
  g_autoptr (OrtrainTensorDict) good = ortrain_inference_session_run (self->inference, self->inputs, &error);
  g_assert_no_error (error);
  g_assert_nonnull (ortrain_tensor_dict_get (good, "logits"));
}

static void
test_wrong_shape (Fed *self, gconstpointer name)
{
  const gint64 n = ortrain_tensor_get_dim (ortrain_tensor_dict_get (self->feeds, "image"), 0);
  const struct
  {
    gint64 dims[4];
    gsize rank;
    const char *why;
  } cases[] = { { { n, 1, 28, 27 }, 4, "28, 27" }, { { n, 3, 28, 28 }, 4, "3, 28" }, { { n, 28, 28 }, 3, "28, 28]" } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      OrtrainTensor *wrong = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, cases[i].dims, cases[i].rank, NULL);
      g_autoptr (OrtrainTensorDict) feeds = with_tensor (self->feeds, "image", g_object_ref (wrong));
      g_autoptr (OrtrainTensorDict) inputs = with_tensor (self->inputs, "image", wrong);
      assert_step_refuses (self, feeds, ORTRAIN_SESSION_ERROR_FEED, "'image'", cases[i].why);
      assert_run_refuses (self, inputs, ORTRAIN_SESSION_ERROR_FEED, "'image'", cases[i].why);
    }
  /* one label too few: both shapes are possible, but not together */
  const gint64 fewer = n - 1;
  g_autoptr (OrtrainTensorDict) feeds =
      with_tensor (self->feeds, "logits.target", ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &fewer, 1, NULL));
  assert_step_refuses (self, feeds, ORTRAIN_SESSION_ERROR_FEED, "'logits.target'", "dimension 0");
}

static void
test_wrong_dtype (Fed *self, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *image = ortrain_tensor_dict_get (self->feeds, "image"),
                *labels = ortrain_tensor_dict_get (self->feeds, "logits.target");
  OrtrainTensor *ints = ortrain_tensor_cast (image, ORTRAIN_DTYPE_INT64, &error);
  g_assert_no_error (error);
  ((gint64 *) ortrain_tensor_get_address (ints))[3] = (1 << 24) + 1; /* no float32 */
  g_autoptr (OrtrainTensorDict) feeds = with_tensor (self->feeds, "image", g_object_ref (ints));
  g_autoptr (OrtrainTensorDict) inputs = with_tensor (self->inputs, "image", ints);
  assert_step_refuses (self, feeds, ORTRAIN_SESSION_ERROR_FEED, "'image' is int64", "cannot represent 16777217");
  assert_run_refuses (self, inputs, ORTRAIN_SESSION_ERROR_FEED, "'image' is int64", "cannot represent 16777217");
  /* labels may be of any integer type, and of no other */
  g_autoptr (OrtrainTensorDict) halves =
      with_tensor (self->feeds, "logits.target", ortrain_tensor_cast (labels, ORTRAIN_DTYPE_FLOAT32, &error));
  assert_step_refuses (self, halves, ORTRAIN_SESSION_ERROR_FEED, "'logits.target' is float32", "needs class numbers");
}

static void
test_missing_feed (Fed *self, gconstpointer name)
{
  g_autoptr (OrtrainTensorDict) no_image = copy_dict (self->feeds), nothing = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_remove (no_image, "image");
  assert_step_refuses (self, no_image, ORTRAIN_SESSION_ERROR_FEED, "'image'", "missing");
  assert_run_refuses (self, nothing, ORTRAIN_SESSION_ERROR_FEED, "'image'", "missing");
  /* without its target, a batch can be evaluated but not trained on */
  GError *error = NULL;
  g_assert_true (isnan (ortrain_training_session_train_step (self->session, self->inputs, &error)));
  assert_tells (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "'logits.target'", "missing");
  train_well (self->session, self->feeds);
  /* and a name that nobody knows is as wrong as one that is not there */
  g_autoptr (OrtrainTensorDict) extra =
      with_tensor (self->feeds, "imgae", g_object_ref (ortrain_tensor_dict_get (self->feeds, "image")));
  assert_step_refuses (self, extra, ORTRAIN_SESSION_ERROR_FEED, "'imgae'", "'image', 'logits.target'");
}

static void
test_label_out_of_range (Fed *self, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  const gint64 wrong[] = { 10, -1, G_MAXINT64, G_MININT64 };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      OrtrainTensor *labels = ortrain_tensor_copy (ortrain_tensor_dict_get (self->feeds, "logits.target"), &error);
      ((gint64 *) ortrain_tensor_get_address (labels))[2] = wrong[i];
      g_autoptr (OrtrainTensorDict) feeds = with_tensor (self->feeds, "logits.target", labels);
      g_autofree char *why = g_strdup_printf ("label %" G_GINT64_FORMAT " at [2] of target 'logits.target'", wrong[i]);
      assert_step_refuses (self, feeds, ORTRAIN_SESSION_ERROR_INDEX, why, "has 10 classes, 0 to 9");
    }
}

/* A token that the vocabulary does not have. */
static void
test_index_out_of_range (void)
{
  Fed fed = { 0 };
  g_autoptr (GError) error = NULL;
  fed_set_up (&fed, "gpt2");
  const char *ids = ortrain_tensor_dict_get_name (fed.inputs, 0);
  OrtrainTensor *tokens = ortrain_tensor_copy (ortrain_tensor_dict_get (fed.inputs, ids), &error);
  ((gint64 *) ortrain_tensor_get_address (tokens))[5] = 1 << 20;
  g_autoptr (OrtrainTensorDict) feeds = with_tensor (fed.feeds, ids, g_object_ref (tokens));
  g_autoptr (OrtrainTensorDict) inputs = with_tensor (fed.inputs, ids, tokens);
  assert_step_refuses (&fed, feeds, ORTRAIN_SESSION_ERROR_INDEX, "Gather", "1048576 at [0, 5] of input 'input_ids'");
  assert_run_refuses (&fed, inputs, ORTRAIN_SESSION_ERROR_INDEX, "Gather", "1048576 at [0, 5] of input 'input_ids'");
  fed_tear_down (&fed, NULL);
}

/* ---- Numbers that are none ---- */

static void
count (OrtrainTrainingSession *session, gpointer user_data)
{
  ++*(guint *) user_data;
}

static OrtrainTensorDict *
make_nan (Fed *self)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *image = ortrain_tensor_copy (ortrain_tensor_dict_get (self->feeds, "image"), &error);
  ((float *) ortrain_tensor_get_address (image))[0] = NAN;
  return with_tensor (self->feeds, "image", image);
}

static void
test_nan_signal (Fed *self, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) bad = make_nan (self);
  guint n_not_finite = 0, n_overflow = 0;
  g_signal_connect (self->session, "not-finite", G_CALLBACK (count), &n_not_finite);
  g_signal_connect (self->session, "overflow", G_CALLBACK (count), &n_overflow);
  ortrain_training_options_set_stop_on_nan (ortrain_training_session_get_options (self->session), FALSE);
  train_well (self->session, self->feeds);
  g_assert_cmpuint (n_not_finite, ==, 0);
  g_assert_true (isnan (ortrain_training_session_train_step (self->session, bad, &error)));
  g_assert_no_error (error);
  g_assert_cmpuint (n_not_finite, ==, 1);
  /* with clipping, the norm is known to be none: the update is left out */
  guint64 step = ortrain_training_session_get_step (self->session);
  ortrain_training_options_set_max_grad_norm (ortrain_training_session_get_options (self->session), 1.0);
  g_assert_true (ortrain_training_session_optimizer_step (self->session, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (n_overflow, ==, 1);
  g_assert_cmpuint (ortrain_training_session_get_step (self->session), ==, step);
}

static void
test_nan_stop (Fed *self, gconstpointer name)
{
  GError *error = NULL;
  g_autoptr (OrtrainTensorDict) bad = make_nan (self);
  guint n_not_finite = 0;
  g_signal_connect (self->session, "not-finite", G_CALLBACK (count), &n_not_finite);
  train_well (self->session, self->feeds);
  g_autoptr (OrtrainTensorDict) before = get_state (self->session);
  g_assert_true (isnan (ortrain_training_session_train_step (self->session, bad, &error)));
  assert_tells (g_steal_pointer (&error), ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE, "training step 2",
                "nan");
  g_assert_cmpuint (n_not_finite, ==, 1);
  g_autoptr (OrtrainTensorDict) after = get_state (self->session);
  test_assert_same_bits (before, after); /* running statistics too, which the step had moved */
  g_assert_false (ortrain_training_session_optimizer_step (self->session, &error));
  assert_tells (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE, "optimizer_step", "no gradients");
  train_well (self->session, self->feeds);
}

/* ---- Full disks ---- */

typedef gboolean (*Write) (gpointer what, const char *path, GError **error);
typedef void (*Change) (gpointer what); /* after the first writing */
typedef void (*Read) (gpointer what, const char *path,
                      gboolean changed); /* asserts that it is whole, and which it is */

/* Files may grow to ever more bytes, until the writing succeeds. Before, each time: an error that names the file, the
 * old contents are unchanged, and no other file is left in the folder. */
static void
assert_full_disk (gpointer what, Write write_it, Change change, Read read_it, GQuark domain, int code, rlim_t step)
{
  g_autofree char *folder = in_scratch ("full"), *path = g_build_filename (folder, "out", NULL);
  struct rlimit old, limit;
  gboolean written = FALSE;
  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  GError *error = NULL;
  g_assert_true (write_it (what, path, &error));
  g_assert_no_error (error);
  const guint n_files = test_count_entries (folder);
  change (what);
  signal (SIGXFSZ, SIG_IGN);
  getrlimit (RLIMIT_FSIZE, &old);
  guint n_failed = 0;
  for (limit = old, limit.rlim_cur = 0; !written; limit.rlim_cur += step)
    {
      g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
      written = write_it (what, path, &error);
      setrlimit (RLIMIT_FSIZE, &old);
      n_failed += !written;
      if (!written)
        assert_tells (g_steal_pointer (&error), domain, code, "out", g_strerror (EFBIG));
      read_it (what, path, written);
      g_assert_cmpuint (test_count_entries (folder), ==, n_files);
    }
  g_assert_cmpuint (n_failed, >, 1);
  test_remove_folder (folder);
}

static void
change_session (gpointer what)
{
  Fed *self = what;
  g_clear_object (&self->old);
  self->old = get_state (self->session);
  train_well (self->session, self->feeds);
}

static gboolean
write_export (gpointer what, const char *path, GError **error)
{
  return ortrain_training_session_export (((Fed *) what)->session, path, error);
}

static void
read_export (gpointer what, const char *path, gboolean changed)
{
  Fed *self = what;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) want = changed ? get_state (self->session) : g_object_ref (self->old);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (want), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (want); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (want, i);
      OrtrainValue *value = ortrain_graph_find_value (ortrain_model_get_file_graph (model), name);
      g_assert_true (ortrain_tensor_equal (ortrain_value_get_tensor (value), ortrain_tensor_dict_get (want, name)));
    }
}

static gboolean
write_checkpoint (gpointer what, const char *path, GError **error)
{
  return ortrain_training_session_save_checkpoint (((Fed *) what)->session, path, error);
}

static void
read_checkpoint (gpointer what, const char *path, gboolean changed)
{
  Fed *self = what;
  g_autoptr (GError) error = NULL;
  g_assert_cmpuint (test_count_entries (path), ==, 2); /* the manifest, and one folder of data */
  g_autoptr (OrtrainTensorDict) want = changed ? get_state (self->session) : g_object_ref (self->old);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (self->model, "sgd");
  g_assert_true (ortrain_training_session_load_checkpoint (session, path, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) have = get_state (session);
  test_assert_same_bits (want, have);
}

static void
test_full_disk_export (void)
{
  static const char *const names[] = { "mlp", "gpt2" }; /* one file, and one with external data */
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      Fed fed = { 0 };
      GError *error = NULL;
      fed_set_up (&fed, names[i]);
      train_well (fed.session, fed.feeds);
      assert_full_disk (&fed, write_export, change_session, read_export, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE,
                        i == 0 ? 4099 : 60013);
      if (i == 0)
        {
          /* a disk that is full from the first byte on, and remains the device that it is */
          g_assert_false (ortrain_training_session_export (fed.session, "/dev/full", &error));
          assert_tells (g_steal_pointer (&error), ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE, "/dev/full",
                        g_strerror (ENOSPC));
          g_assert_true (ortrain_training_session_export (fed.session, "/dev/null", &error));
          g_assert_no_error (error);
          g_assert_false (g_file_test ("/dev/full", G_FILE_TEST_IS_REGULAR));
          g_assert_false (g_file_test ("/dev/null", G_FILE_TEST_IS_REGULAR));
        }
      g_assert_false (ortrain_training_session_export (fed.session, "/nowhere/at/all.onnx", &error));
      assert_tells (g_steal_pointer (&error), ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE, "/nowhere/at/all.onnx",
                    g_strerror (ENOENT));
      g_assert_false (ortrain_training_session_export (fed.session, scratch, &error));
      assert_tells (g_steal_pointer (&error), ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE, scratch,
                    g_strerror (EISDIR));
      train_well (fed.session, fed.feeds);
      fed_tear_down (&fed, NULL);
    }
}

static void
test_full_disk_checkpoint (void)
{
  Fed fed = { 0 };
  GError *error = NULL;
  fed_set_up (&fed, "mlp");
  train_well (fed.session, fed.feeds);
  assert_full_disk (&fed, write_checkpoint, change_session, read_checkpoint, G_IO_ERROR,
                    (int) g_io_error_from_errno (EFBIG), 1009);
  g_assert_false (ortrain_training_session_save_checkpoint (fed.session, "/nowhere/at/all", &error));
  assert_tells (g_steal_pointer (&error), G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "/nowhere/at/all", g_strerror (ENOENT));
  g_assert_false (ortrain_training_session_save_checkpoint (fed.session, "/dev/full", &error));
  g_assert_nonnull (strstr (error->message, "/dev/full"));
  g_clear_error (&error);
  train_well (fed.session, fed.feeds);
  fed_tear_down (&fed, NULL);
}

/* Two tensors that count from a number on. */
static void
fill (OrtrainTensorDict *dict, float start)
{
  const gint64 dims[] = { 40, 50 };
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, NULL);
      for (guint k = 0; k < 2000; k++)
        ((float *) ortrain_tensor_get_address (tensor))[k] = start + (float) (k + i);
      ortrain_tensor_dict_set (dict, i == 0 ? "a" : "b", tensor);
    }
}

static void
change_tensors (gpointer what)
{
  fill (what, 1000);
}

static void
assert_tensor (OrtrainTensor *tensor, gboolean changed, guint index)
{
  for (guint k = 0; k < 2000; k++)
    g_assert_cmpfloat (ortrain_tensor_get_scalar (tensor, k), ==, (changed ? 1000 : 0) + k + index);
}

static gboolean
write_npy (gpointer what, const char *path, GError **error)
{
  return ortrain_tensor_save_npy (ortrain_tensor_dict_get_tensor (what, 0), path, error);
}

static void
read_npy (gpointer what, const char *path, gboolean changed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_npy (path, &error);
  g_assert_no_error (error);
  assert_tensor (tensor, changed, 0);
}

static gboolean
write_npz (gpointer what, const char *path, GError **error)
{
  return ortrain_tensor_dict_save_npz (what, path, error);
}

static void
read_npz (gpointer what, const char *path, gboolean changed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new_from_npz (path, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 2; i++)
    assert_tensor (ortrain_tensor_dict_get (dict, i == 0 ? "a" : "b"), changed, i);
}

static gboolean
write_safetensors (gpointer what, const char *path, GError **error)
{
  return ortrain_tensor_dict_save_safetensors (what, path, error);
}

static void
read_safetensors (gpointer what, const char *path, gboolean changed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new_from_safetensors (path, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 2; i++)
    assert_tensor (ortrain_tensor_dict_get (dict, i == 0 ? "a" : "b"), changed, i);
}

static void
test_full_disk_tensors (void)
{
  const Write writers[] = { write_npy, write_npz, write_safetensors };
  const Read readers[] = { read_npy, read_npz, read_safetensors };
  for (guint w = 0; w < G_N_ELEMENTS (writers); w++)
    {
      GError *error = NULL;
      g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
      fill (dict, 0);
      assert_full_disk (dict, writers[w], change_tensors, readers[w], G_IO_ERROR, (int) g_io_error_from_errno (EFBIG),
                        997);
      g_assert_false (writers[w](dict, "/dev/full", &error));
      assert_tells (g_steal_pointer (&error), G_IO_ERROR, G_IO_ERROR_NO_SPACE, "/dev/full", g_strerror (ENOSPC));
      g_assert_false (writers[w](dict, "/nowhere/x", &error));
      assert_tells (g_steal_pointer (&error), G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "/nowhere/x", g_strerror (ENOENT));
      g_assert_false (writers[w](dict, scratch, &error));
      assert_tells (g_steal_pointer (&error), G_IO_ERROR, G_IO_ERROR_IS_DIRECTORY, scratch, g_strerror (EISDIR));
    }
}

#define ADD_FED(path, function) g_test_add (path, Fed, "cnn", fed_set_up, function, fed_tear_down)

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  scratch = g_dir_make_tmp ("ortrain-fault-XXXXXX", NULL);
  g_test_add_func ("/fault/errors/truncated-file", test_truncated_file);
  g_test_add_func ("/fault/errors/cycle", test_cycle);
  g_test_add_func ("/fault/errors/unknown-operators", test_unknown_operators);
  g_test_add_func ("/fault/errors/missing-external-data", test_missing_external_data);
  ADD_FED ("/fault/errors/wrong-shape", test_wrong_shape);
  ADD_FED ("/fault/errors/wrong-dtype", test_wrong_dtype);
  ADD_FED ("/fault/errors/missing-feed", test_missing_feed);
  ADD_FED ("/fault/errors/label-out-of-range", test_label_out_of_range);
  g_test_add_func ("/fault/errors/index-out-of-range", test_index_out_of_range);
  ADD_FED ("/fault/errors/nan-loss/signal", test_nan_signal);
  ADD_FED ("/fault/errors/nan-loss/stop", test_nan_stop);
  g_test_add_func ("/fault/errors/full-disk/export", test_full_disk_export);
  g_test_add_func ("/fault/errors/full-disk/checkpoint", test_full_disk_checkpoint);
  g_test_add_func ("/fault/errors/full-disk/tensors", test_full_disk_tensors);
  int status = g_test_run ();
  test_remove_folder (scratch);
  return status;
}
