/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "model/ortrain-proto-maker.h"
#include "ortrain.h"

#include <math.h>
#include <string.h>

/* Weights that Constant nodes store are like all others: in checkpoints, in ties, with rows of padding, and with
 * external data. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
#define N_ROWS 6
#define N_FEATURES 5
#define N_IDS 4

typedef enum
{
  AS_TENSOR,      /* value */
  AS_FLOATS,      /* value_floats */
  AS_DATA,        /* value whose data are in another file */
  AS_INITIALIZER, /* no Constant node */
} Form;

typedef struct
{
  Proto *graph;
  GByteArray *data; /* of that file */
} File;

static void
add_weight (File *file, const char *name, const gint64 *dims, Form form)
{
  gint64 n = 1;
  for (gsize i = 0; dims[i] >= 0; i++)
    n *= dims[i];
  g_autofree float *numbers = g_new (float, n);
  const gsize size = (gsize) n * sizeof *numbers;
  for (gint64 i = 0; i < n; i++)
    numbers[i] = 0.4f * sinf (1.7f * (float) i + (float) (g_str_hash (name) % 100));
  if (form == AS_INITIALIZER)
    {
      proto_message (file->graph, 5, proto_tensor (name, 1, dims, numbers, size));
      return;
    }
  Proto *node = proto_new (), *attribute = proto_new ();
  proto_string (node, 2, name);
  proto_string (node, 4, "Constant");
  proto_string (attribute, 1, form == AS_FLOATS ? "value_floats" : "value");
  if (form == AS_FLOATS)
    proto_bytes (attribute, 7, numbers, size);
  else if (form == AS_TENSOR)
    proto_message (attribute, 5, proto_tensor (NULL, 1, dims, numbers, size));
  else
    {
      g_autofree char *offset = g_strdup_printf ("%u", file->data->len);
      g_autofree char *length = g_strdup_printf ("%" G_GSIZE_FORMAT, size);
      proto_message (attribute, 5, proto_external_tensor (NULL, dims, "weights.bin", offset, length));
      g_byte_array_append (file->data, (const guint8 *) numbers, (guint) size);
    }
  proto_int (attribute, 20, form == AS_FLOATS ? 6 : 4);
  proto_message (node, 5, attribute);
  proto_message (file->graph, 1, node);
}

/* y = tanh (table[ids] mid + mid.bias) head + head.bias: a word embedding, and its transpose as the head. The model is
 * read from FOLDER/model.onnx. */
static OrtrainModel *
make_model (const char *folder, Form form)
{
  g_autoptr (GError) error = NULL;
  File file = { proto_new (), g_byte_array_new () };
  proto_message (file.graph, 11, proto_value ("ids", 7, DIMS (N_IDS)));
  proto_message (file.graph, 12, proto_value ("y", 1, DIMS (N_IDS, N_ROWS)));
  add_weight (&file, "table", DIMS (N_ROWS, N_FEATURES), form);
  add_weight (&file, "mid", DIMS (N_FEATURES, N_FEATURES), AS_INITIALIZER);
  add_weight (&file, "mid.bias", DIMS (N_FEATURES), AS_FLOATS);
  add_weight (&file, "head", DIMS (N_FEATURES, N_ROWS), form);
  add_weight (&file, "head.bias", DIMS (N_ROWS), form);
  proto_message (file.graph, 1, proto_node ("Gather", "table,ids", "e"));
  proto_message (file.graph, 1, proto_node ("MatMul", "e,mid", "a"));
  proto_message (file.graph, 1, proto_node ("Add", "a,mid.bias", "b"));
  proto_message (file.graph, 1, proto_node ("Tanh", "b", "c"));
  proto_message (file.graph, 1, proto_node ("MatMul", "c,head", "d"));
  proto_message (file.graph, 1, proto_node ("Add", "d,head.bias", "y"));
  g_autoptr (GBytes) bytes = proto_model (file.graph, 8, 17);
  g_autofree char *path = g_build_filename (folder, "model.onnx", NULL);
  g_autofree char *data_path = g_build_filename (folder, "weights.bin", NULL);
  g_assert_true (g_file_set_contents (path, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes), &error));
  if (file.data->len > 0)
    g_assert_true (g_file_set_contents (data_path, (const char *) file.data->data, file.data->len, &error));
  g_byte_array_unref (file.data);
  OrtrainModel *model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTrainingOptions *
make_options (void)
{
  OrtrainTrainingOptions *options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
  g_autoptr (OrtrainOptimizer) optimizer = g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", 1e-2, NULL);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  return options;
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, OrtrainTrainingOptions *options)
{
  g_autoptr (GError) error = NULL;
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static void
train (OrtrainTrainingSession *session, guint first, guint n)
{
  g_autoptr (GError) error = NULL;
  for (guint step = first; step < first + n; step++)
    {
      gint64 ids[N_IDS];
      float t[N_IDS * N_ROWS];
      for (guint i = 0; i < N_IDS; i++)
        ids[i] = (step + i * 2) % N_ROWS;
      for (guint i = 0; i < G_N_ELEMENTS (t); i++)
        t[i] = sinf ((float) (i + step));
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) x = ortrain_tensor_new_ints (DIMS (N_IDS), 1, ids, N_IDS, NULL);
      g_autoptr (OrtrainTensor) y = ortrain_tensor_new_floats (DIMS (N_IDS, N_ROWS), 2, t, G_N_ELEMENTS (t), NULL);
      ortrain_tensor_dict_set (feeds, "ids", x);
      ortrain_tensor_dict_set (feeds, "t", y);
      ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
}

static OrtrainTensorDict *
get_parameters (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  return parameters;
}

static OrtrainTensor *
contents (OrtrainModel *model, const char *name)
{
  return ortrain_value_get_tensor (ortrain_graph_find_value (ortrain_model_get_file_graph (model), name));
}

/* The file and the session hold the same contents. */
static void
expect_contents (const char *path, OrtrainTensorDict *parameters)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (parameters), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (parameters); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (parameters, i);
      if (!ortrain_tensor_equal (contents (model, name), ortrain_tensor_dict_get_tensor (parameters, i)))
        g_error ("the file has other contents for '%s'", name);
    }
}

static void
expect_same (OrtrainTensorDict *a, OrtrainTensorDict *b)
{
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), ==, ortrain_tensor_dict_get_size (b));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    if (!ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (a, i),
                               ortrain_tensor_dict_get (b, ortrain_tensor_dict_get_name (a, i))))
      g_error ("'%s' has other bits", ortrain_tensor_dict_get_name (a, i));
}

static void
test_checkpoint (gconstpointer data)
{
  const Form form = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *saved = g_build_filename (folder, "checkpoint", NULL);
  g_autofree char *exported = g_build_filename (folder, "out.onnx", NULL);
  g_autofree char *other = g_build_filename (folder, "from-checkpoint.onnx", NULL);
  g_autoptr (OrtrainModel) model = make_model (folder, form);
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainTrainingSession) session = make_session (model, options);
  train (session, 0, 3);
  ortrain_training_session_save_checkpoint (session, saved, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) at_save = get_parameters (session);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (at_save), ==, 5);
  g_assert_false (ortrain_tensor_equal (contents (model, "table"), ortrain_tensor_dict_get (at_save, "table")));
  train (session, 3, 3);
  g_autoptr (OrtrainTensorDict) straight = get_parameters (session);

  g_autoptr (OrtrainTrainingSession) resumed = make_session (model, options);
  ortrain_training_session_load_checkpoint (resumed, saved, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) loaded = get_parameters (resumed);
  expect_same (loaded, at_save);
  train (resumed, 3, 3);
  g_autoptr (OrtrainTensorDict) after = get_parameters (resumed);
  expect_same (after, straight);

  ortrain_training_session_export (session, exported, &error);
  g_assert_no_error (error);
  expect_contents (exported, straight);
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (saved, &error);
  g_assert_no_error (error);
  ortrain_checkpoint_export (checkpoint, other, &error);
  g_assert_no_error (error);
  expect_contents (other, at_save);
  test_remove_folder (folder);
}

static void
test_tie (gconstpointer data)
{
  const Form form = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *saved = g_build_filename (folder, "checkpoint", NULL);
  g_autofree char *exported = g_build_filename (folder, "out.onnx", NULL);
  for (guint turn = 0; turn < 2; turn++)
    {
      g_autoptr (OrtrainModel) model = make_model (folder, form);
      g_autoptr (OrtrainTrainingOptions) options = make_options ();
      ortrain_training_options_tie (options, turn ? "head" : "table", turn ? "table" : "head");
      g_autoptr (OrtrainTrainingSession) session = make_session (model, options);
      train (session, 0, 4);
      g_autoptr (OrtrainTensorDict) parameters = get_parameters (session);
      g_assert_cmpuint (ortrain_tensor_dict_get_size (parameters), ==, 4);
      ortrain_training_session_export (session, exported, &error);
      g_assert_no_error (error);
      expect_contents (exported, parameters);
      g_autoptr (OrtrainModel) out = ortrain_model_new_from_file (exported, &error);
      g_assert_no_error (error);
      for (guint i = 0; i < N_ROWS; i++)
        for (guint k = 0; k < N_FEATURES; k++)
          g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (out, "table"), i * N_FEATURES + k), ==,
                             ortrain_tensor_get_scalar (contents (out, "head"), k * N_ROWS + i));
      ortrain_training_session_save_checkpoint (session, saved, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTrainingSession) resumed = make_session (model, options);
      ortrain_training_session_load_checkpoint (resumed, saved, &error);
      g_assert_no_error (error);
      train (session, 4, 2);
      train (resumed, 4, 2);
      g_autoptr (OrtrainTensorDict) a = get_parameters (session), b = get_parameters (resumed);
      expect_same (a, b);
      test_remove_folder (saved);
    }
  test_remove_folder (folder);
}

static void
test_padding (gconstpointer data)
{
  const Form form = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *exported = g_build_filename (folder, "out.onnx", NULL);
  g_autoptr (OrtrainModel) model = make_model (folder, form);
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainOptimizer) optimizer = g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.1, NULL);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_padding_row (options, "table", 2);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, options);
  train (session, 0, N_ROWS);
  ortrain_training_session_export (session, exported, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) out = ortrain_model_new_from_file (exported, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < N_ROWS; i++)
    {
      gboolean same = TRUE;
      for (guint k = 0; k < N_FEATURES; k++)
        same = same && ortrain_tensor_get_scalar (contents (model, "table"), i * N_FEATURES + k) ==
                           ortrain_tensor_get_scalar (contents (out, "table"), i * N_FEATURES + k);
      g_assert_cmpint (same, ==, i == 2);
    }
  ortrain_training_options_set_padding_row (options, "table", N_ROWS);
  g_assert_null (ortrain_training_session_new (model, options, &error));
  g_assert_nonnull (strstr (error->message, "row 6 of 'table'"));
  test_remove_folder (folder);
}

int
main (int argc, char *argv[])
{
  static const struct
  {
    const char *name;
    Form form;
  } forms[] = { { "tensor", AS_TENSOR }, { "external-data", AS_DATA }, { "initializer", AS_INITIALIZER } };
  static const struct
  {
    const char *name;
    GTestDataFunc func;
  } tests[] = { { "checkpoint", test_checkpoint }, { "tie", test_tie }, { "padding", test_padding } };
  g_test_init (&argc, &argv, NULL);
  for (guint t = 0; t < G_N_ELEMENTS (tests); t++)
    for (guint i = 0; i < G_N_ELEMENTS (forms); i++)
      {
        g_autofree char *path = g_strdup_printf ("/constant-weights/%s/%s", tests[t].name, forms[i].name);
        g_test_add_data_func (path, GUINT_TO_POINTER (forms[i].form), tests[t].func);
      }
  return g_test_run ();
}
