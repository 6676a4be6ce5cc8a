/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "model/ortrain-proto-maker.h"
#include "session/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Somebody truncates, overwrites or replaces a file while the library has it mapped. Nothing ends the process, the new
 * contents are never used: calls that need the file fail with an error that says what happened. A file that is replaced
 * by a rename stays unchanged for those who have it open. */

typedef enum
{
  TRUNCATE,  /* to nothing: every page of the mapping is lost */
  SHORTEN,   /* to one page */
  OVERWRITE, /* the same size, other bytes, as cp does to a file of the same size */
  GROW,
  REPLACE, /* by a rename: not a change of the mapping */
  N_CHANGES,
} Change;

static const char *const change_names[N_CHANGES] = { "truncate", "shorten", "overwrite", "grow", "replace" };

static void
change_file (const char *path, Change change)
{
  g_autofree char *contents = NULL;
  gsize size;
  struct stat st;
  g_assert_cmpint (stat (path, &st), ==, 0);
  size = (gsize) st.st_size;
  contents = g_malloc (size + 1);
  memset (contents, 0x5a, size + 1);
  if (change == REPLACE)
    {
      g_autofree char *other = g_strconcat (path, ".new", NULL);
      g_assert_true (g_file_set_contents (other, contents, (gssize) size, NULL));
      g_assert_cmpint (rename (other, path), ==, 0);
      return;
    }
  int fd = open (path, O_WRONLY | O_CLOEXEC);
  g_assert_cmpint (fd, >=, 0);
  if (change == TRUNCATE || change == SHORTEN)
    g_assert_cmpint (ftruncate (fd, change == TRUNCATE ? 0 : 4096), ==, 0);
  else if (change == OVERWRITE)
    g_assert_cmpint (pwrite (fd, contents, size, 0), ==, (gssize) size);
  else
    g_assert_cmpint (pwrite (fd, contents, 1, (off_t) size), ==, 1);
  close (fd);
}

static void
assert_changed (const GError *error, const char *name)
{
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_CHANGED);
  g_assert_nonnull (strstr (error->message, name));
  g_assert_nonnull (strstr (error->message, "was changed while it was in use"));
}

/* ---- A model with a frozen weight of 1 MiB, read where the file is mapped, and a trained one ---- */

#define WIDTH 512

typedef struct
{
  char *folder, *path, *data_path, *target;
  gboolean external;
  OrtrainModel *model;
  OrtrainTrainingSession *training;
  OrtrainInferenceSession *inference;
  OrtrainTensorDict *feeds, *inputs;
} Case;

static OrtrainTensor *
make_tensor (const gint64 *dims, gsize rank)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, rank, &error);
  g_assert_no_error (error);
  float *values = (float *) ortrain_tensor_get_address (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    values[i] = (float) (i % 17) / 17 - 0.5f;
  return tensor;
}

static void
write_model (Case *self)
{
  g_autoptr (GError) error = NULL;
  const gint64 square[] = { WIDTH, WIDTH, -1 }, last[] = { WIDTH, 3, -1 }, in[] = { 4, WIDTH, -1 },
               out[] = { 4, 3, -1 };
  g_autoptr (OrtrainTensor) frozen = make_tensor (square, 2), trained = make_tensor (last, 2);
  gconstpointer weights = (gconstpointer) ortrain_tensor_get_address (frozen);
  const gsize n_bytes = ortrain_tensor_get_n_bytes (frozen);
  g_autofree char *length = g_strdup_printf ("%" G_GSIZE_FORMAT, n_bytes);
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("MatMul", "x,frozen", "h"));
  proto_message (graph, 1, proto_node ("MatMul", "h,trained", "y"));
  if (self->external)
    {
      proto_message (graph, 5, proto_external_tensor ("frozen", square, "weights.bin", "0", length));
      g_assert_true (g_file_set_contents (self->data_path, weights, (gssize) n_bytes, &error));
    }
  else
    proto_message (graph, 5, proto_tensor ("frozen", 1, square, weights, n_bytes));
  proto_message (graph, 5,
                 proto_tensor ("trained", 1, last, (gconstpointer) ortrain_tensor_get_address (trained),
                               ortrain_tensor_get_n_bytes (trained)));
  proto_message (graph, 11, proto_value ("x", 1, in));
  proto_message (graph, 12, proto_value ("y", 1, out));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_assert_true (
      g_file_set_contents (self->path, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes), &error));
}

static void
case_init (Case *self, gboolean external)
{
  g_autoptr (GError) error = NULL;
  const gint64 in[] = { 4, WIDTH }, out[] = { 4, 3 };
  *self = (Case){ .external = external, .folder = g_dir_make_tmp ("ortrain-changed-XXXXXX", NULL) };
  self->path = g_build_filename (self->folder, "model.onnx", NULL);
  self->data_path = g_build_filename (self->folder, "weights.bin", NULL);
  self->target = g_build_filename (self->folder, "target.onnx", NULL);
  write_model (self);
  self->model = ortrain_model_new_from_file (self->path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) x = make_tensor (in, 2), y = make_tensor (out, 2);
  self->inputs = ortrain_tensor_dict_new ();
  self->feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (self->inputs, "x", x);
  ortrain_tensor_dict_set (self->feeds, "x", x);
  ortrain_tensor_dict_set (self->feeds, "target", y);
}

static OrtrainTrainingSession *
make_training (Case *self, GError **error)
{
  static const char *const trainable[] = { "trained", NULL };
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_trainable (options, trainable);
  return ortrain_training_session_new (self->model, options, error);
}

static const char *
changed_path (const Case *self)
{
  return self->external ? self->data_path : self->path;
}

static void
case_clear (Case *self)
{
  g_clear_object (&self->training);
  g_clear_object (&self->inference);
  g_clear_object (&self->model);
  g_clear_object (&self->feeds);
  g_clear_object (&self->inputs);
  test_remove_folder (self->folder);
  g_free (self->folder);
  g_free (self->path);
  g_free (self->data_path);
  g_free (self->target);
}

static gboolean
try_export (Case *self, GError **error)
{
  return ortrain_training_session_export (self->training, self->target, error);
}

static gboolean
try_save (Case *self, GError **error)
{
  return ortrain_model_save (self->model, self->target, error);
}

static gboolean
try_checkpoint (Case *self, GError **error)
{
  g_autofree char *path = g_build_filename (self->folder, "checkpoint", NULL);
  return ortrain_training_session_save_checkpoint (self->training, path, error);
}

static gboolean
try_train_step (Case *self, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  ortrain_training_session_train_step (self->training, self->feeds, &local_error);
  gboolean ok = local_error == NULL;
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&local_error));
  return ok;
}

static gboolean
try_eval_step (Case *self, GError **error)
{
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (self->training, self->feeds, error);
  return outputs != NULL;
}

static gboolean
try_run (Case *self, GError **error)
{
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (self->inference, self->inputs, error);
  return outputs != NULL;
}

static gboolean
try_new_training (Case *self, GError **error)
{
  g_autoptr (OrtrainTrainingSession) session = make_training (self, error);
  return session != NULL;
}

static gboolean
try_new_inference (Case *self, GError **error)
{
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (self->model, NULL, error);
  return session != NULL;
}

static gboolean
try_bytes (Case *self, GError **error)
{
  g_autoptr (GBytes) bytes = ortrain_model_to_bytes (self->model, error);
  return bytes != NULL;
}

static const struct
{
  const char *name;
  gboolean (*try_it) (Case *self, GError **error);
} attempts[] = {
  { "export", try_export },
  { "save", try_save },
  { "checkpoint", try_checkpoint },
  { "train-step", try_train_step },
  { "eval-step", try_eval_step },
  { "run", try_run },
  { "to-bytes", try_bytes },
  { "new-training-session", try_new_training },
  { "new-inference-session", try_new_inference },
};

/* The change comes after the model is loaded, after the sessions are made, or after they have run. */
static void
test_model (gconstpointer data)
{
  const gboolean external = GPOINTER_TO_INT (data);
  for (Change change = 0; change < N_CHANGES; change++)
    for (guint stage = 0; stage < 3; stage++)
      for (guint a = 0; a < G_N_ELEMENTS (attempts); a++)
        {
          Case self;
          g_autoptr (GError) error = NULL;
          g_autofree char *old = NULL;
          gsize old_size;
          case_init (&self, external);
          if (stage > 0 || g_str_equal (attempts[a].name, "export") || strstr (attempts[a].name, "-step") != NULL ||
              g_str_equal (attempts[a].name, "checkpoint") || g_str_equal (attempts[a].name, "run"))
            {
              self.training = make_training (&self, &error);
              g_assert_no_error (error);
              self.inference = ortrain_inference_session_new (self.model, NULL, &error);
              g_assert_no_error (error);
            }
          if (stage > 1)
            {
              g_assert_true (try_train_step (&self, &error));
              g_assert_true (ortrain_training_session_optimizer_step (self.training, &error));
              g_assert_true (try_eval_step (&self, &error));
              g_assert_true (try_run (&self, &error));
            }
          g_assert_true (g_file_set_contents (self.target, "the old export", -1, NULL));

          change_file (changed_path (&self), change);
          gboolean ok = attempts[a].try_it (&self, &error);
          g_test_message ("%s, stage %u, %s: %s", change_names[change], stage, attempts[a].name,
                          ok ? "done" : error->message);
          if (change == REPLACE)
            g_assert_no_error (error);
          else
            {
              g_assert_false (ok);
              assert_changed (error, external ? "weights.bin" : "model.onnx");
            }
          if (!ok)
            {
              g_assert_true (g_file_get_contents (self.target, &old, &old_size, NULL));
              g_assert_cmpstr (old, ==, "the old export");
            }
          else if (attempts[a].try_it == try_export || attempts[a].try_it == try_save)
            {
              g_autoptr (OrtrainModel) exported = ortrain_model_new_from_file (self.target, &error);
              g_assert_no_error (error);
              g_autoptr (OrtrainInferenceSession) session G_GNUC_UNUSED =
                  ortrain_inference_session_new (exported, NULL, &error);
              g_assert_no_error (error);
            }
          /* calls that failed fail again; the session's own memory, from its first step on, is still valid, and so are
           * the contents of other files */
          if (!ok && self.training != NULL)
            {
              g_clear_error (&error);
              g_assert_false (attempts[a].try_it (&self, &error));
              assert_changed (error, external ? "weights.bin" : "model.onnx");
              g_clear_error (&error);
              g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (self.training, &error);
              if (stage > 1 || external)
                g_assert_no_error (error);
              else
                assert_changed (error, "model.onnx");
              g_assert_true ((state != NULL) == (stage > 1 || external));
            }
          case_clear (&self);
        }
}

/* A change of a moment, put back as it was, time stamp and all: the pages that were lost are known. */
static void
test_lost_pages (void)
{
  Case self;
  g_autoptr (GError) error = NULL;
  g_autofree char *contents = NULL;
  gsize size;
  struct stat st;
  case_init (&self, TRUE);
  self.inference = ortrain_inference_session_new (self.model, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (self.data_path, &contents, &size, NULL));
  g_assert_cmpint (stat (self.data_path, &st), ==, 0);
  OrtrainTensor *frozen =
      ortrain_value_get_tensor (ortrain_graph_find_value (ortrain_model_get_file_graph (self.model), "frozen"));
  const float *weights = (const float *) ortrain_tensor_get_address (frozen);
  g_assert_cmpint (truncate (self.data_path, 0), ==, 0);
  g_assert_cmpfloat (weights[WIDTH * WIDTH / 2], ==, 0); /* this was a SIGBUS */
  int fd = open (self.data_path, O_WRONLY | O_CLOEXEC);
  g_assert_cmpint (pwrite (fd, contents, size, 0), ==, (gssize) size);
  const struct timespec times[] = { st.st_atim, st.st_mtim };
  g_assert_cmpint (futimens (fd, times), ==, 0);
  close (fd);
  g_assert_false (try_run (&self, &error));
  assert_changed (error, "weights.bin");
  case_clear (&self);
}

/* The file shrinks under the feet of running kernels. */
static gpointer
truncate_soon (gpointer path)
{
  g_usleep (20000);
  g_assert_cmpint (truncate (path, 0), ==, 0);
  return NULL;
}

static void
test_while_running (void)
{
  Case self;
  g_autoptr (GError) error = NULL;
  case_init (&self, TRUE);
  self.inference = ortrain_inference_session_new (self.model, NULL, &error);
  g_assert_no_error (error);
  GThread *thread = g_thread_new ("truncate", truncate_soon, self.data_path);
  guint n = 0;
  while (try_run (&self, &error))
    g_assert_cmpuint (n++, <, 10000000);
  g_thread_join (thread);
  assert_changed (error, "weights.bin");
  case_clear (&self);
}

/* ---- Data ---- */

typedef OrtrainDataset *(*OpenData) (const char *folder, GError **error);

static OrtrainTensor *
make_data (void)
{
  return make_tensor ((const gint64[]){ 64, 1024 }, 2);
}

static OrtrainDataset *
dataset_for (OrtrainTensor *tensor, GError **error)
{
  if (tensor == NULL)
    return NULL;
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (tensors, "x", tensor);
  return ortrain_tensor_dataset_new (tensors, error);
}

static OrtrainDataset *
open_npy (const char *path, GError **error)
{
  g_autoptr (OrtrainTensor) data = make_data ();
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    g_assert_true (ortrain_tensor_save_npy (data, path, NULL));
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_npy (path, error);
  return dataset_for (tensor, error);
}

static OrtrainDataset *
open_npz (const char *path, GError **error)
{
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) data = make_data ();
  ortrain_tensor_dict_set (tensors, "x", data);
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    g_assert_true (ortrain_tensor_dict_save_npz (tensors, path, NULL));
  return ortrain_tensor_dataset_new_from_npz (path, error);
}

static OrtrainDataset *
open_safetensors (const char *path, GError **error)
{
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) data = make_data ();
  ortrain_tensor_dict_set (tensors, "x", data);
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    g_assert_true (ortrain_tensor_dict_save_safetensors (tensors, path, NULL));
  g_autoptr (OrtrainTensorDict) loaded = ortrain_tensor_dict_new_from_safetensors (path, error);
  return loaded != NULL ? ortrain_tensor_dataset_new (loaded, error) : NULL;
}

static OrtrainDataset *
open_idx (const char *path, GError **error)
{
  static const guint8 header[] = { 0, 0, 8, 2, 0, 0, 0, 64, 0, 0, 16, 0 };
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_autofree guint8 *bytes = g_malloc0 (sizeof header + 64 * 4096);
      memcpy (bytes, header, sizeof header);
      g_assert_true (g_file_set_contents (path, (const char *) bytes, sizeof header + 64 * 4096, NULL));
    }
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_idx (path, error);
  return dataset_for (tensor, error);
}

/* The elements stand at an odd place: they are copied when they are first asked for, which must notice as well. */
static OrtrainDataset *
open_misaligned (const char *path, GError **error)
{
  const gint64 dims[] = { 64, 1024 };
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_autofree char *bytes = g_malloc0 (1 + 64 * 4096);
      g_assert_true (g_file_set_contents (path, bytes, 1 + 64 * 4096, NULL));
    }
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_mapped (ORTRAIN_DTYPE_FLOAT32, dims, 2, file, 1, error);
  return dataset_for (tensor, error);
}

static OrtrainDataset *
open_tokens (const char *path, GError **error)
{
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_autofree char *bytes = g_malloc0 (100000);
      g_assert_true (g_file_set_contents (path, bytes, 100000, NULL));
    }
  return ortrain_token_dataset_new_from_file (path, ORTRAIN_DTYPE_UINT16, 128, "x", "y", error);
}

static const struct
{
  const char *name;
  OpenData open;
} data_files[] = { { "npy", open_npy }, { "npz", open_npz },       { "safetensors", open_safetensors },
                   { "idx", open_idx }, { "tokens", open_tokens }, { "misaligned", open_misaligned } };

static void
test_data (gconstpointer user_data)
{
  const guint k = GPOINTER_TO_UINT (user_data);
  for (Change change = 0; change < N_CHANGES; change++)
    for (gboolean used = FALSE; used <= TRUE; used++)
      {
        static const guint64 indices[] = { 1, 60, 7 };
        g_autoptr (GError) error = NULL;
        g_autofree char *folder = g_dir_make_tmp ("ortrain-changed-XXXXXX", NULL);
        g_autofree char *path = g_build_filename (folder, "some.data", NULL);
        g_autoptr (OrtrainDataset) dataset = data_files[k].open (path, &error);
        g_assert_no_error (error);
        if (used)
          {
            g_autoptr (OrtrainTensorDict) batch G_GNUC_UNUSED = ortrain_dataset_get_batch (dataset, indices, 3, &error);
            g_assert_no_error (error);
          }
        change_file (path, change);
        g_autoptr (OrtrainTensorDict) batch = ortrain_dataset_get_batch (dataset, indices, 3, &error);
        if (change == REPLACE)
          g_assert_no_error (error);
        else
          {
            g_assert_null (batch);
            assert_changed (error, "some.data");
          }
        g_clear_object (&dataset);
        test_remove_folder (folder);
      }
}

/* A feed that is mapped, a tensor that is copied, cast, saved. */
static void
test_tensor (void)
{
  Case self;
  g_autoptr (GError) error = NULL;
  case_init (&self, FALSE);
  self.inference = ortrain_inference_session_new (self.model, NULL, &error);
  self.training = make_training (&self, &error);
  g_assert_no_error (error);
  g_autofree char *path = g_build_filename (self.folder, "x.npy", NULL);
  g_autofree char *to = g_build_filename (self.folder, "to.npy", NULL);
  g_assert_true (ortrain_tensor_save_npy (ortrain_tensor_dict_get (self.inputs, "x"), path, &error));
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_npy (path, &error);
  ortrain_tensor_dict_set (self.inputs, "x", tensor);
  ortrain_tensor_dict_set (self.feeds, "x", tensor);
  g_assert_true (try_run (&self, &error) && try_train_step (&self, &error));
  change_file (path, TRUNCATE);
  g_assert_false (try_run (&self, &error));
  assert_changed (error, "x.npy");
  g_clear_error (&error);
  g_assert_false (try_train_step (&self, &error));
  assert_changed (error, "x.npy");
  g_clear_error (&error);
  g_assert_null (ortrain_tensor_copy (tensor, &error));
  assert_changed (error, "x.npy");
  g_clear_error (&error);
  g_assert_null (ortrain_tensor_cast (tensor, ORTRAIN_DTYPE_FLOAT64, &error));
  assert_changed (error, "x.npy");
  g_clear_error (&error);
  g_assert_false (ortrain_tensor_save_npy (tensor, to, &error));
  assert_changed (error, "x.npy");
  g_assert_false (g_file_test (to, G_FILE_TEST_EXISTS));
  case_clear (&self);
}

/* ---- More files than descriptors are kept for, and signals that are not ours ---- */

static void
test_many_files (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-changed-XXXXXX", NULL);
  g_autoptr (GPtrArray) tensors = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (OrtrainTensor) data = make_tensor ((const gint64[]){ 8, 1024 }, 2);
  for (guint i = 0; i < 1500; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u.npy", i);
      g_ptr_array_add (paths, g_build_filename (folder, name, NULL));
      g_assert_true (ortrain_tensor_save_npy (data, paths->pdata[i], &error));
    }
  for (guint i = 0; i < paths->len; i++)
    {
      g_ptr_array_add (tensors, ortrain_tensor_new_from_npy (paths->pdata[i], &error));
      g_assert_no_error (error);
    }
  for (guint i = 0; i < paths->len; i += 300)
    {
      change_file (paths->pdata[i], i % 600 == 0 ? TRUNCATE : OVERWRITE);
      change_file (paths->pdata[i + 1], REPLACE);
      g_assert_null (ortrain_tensor_copy (tensors->pdata[i], &error));
      assert_changed (error, ".npy");
      g_clear_error (&error);
      g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (tensors->pdata[i + 1], &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_tensor_equal (copy, data));
    }
  g_ptr_array_set_size (tensors, 0);
  test_remove_folder (folder);
}

static void
test_foreign_fault (void)
{
  if (g_test_subprocess ())
    {
      /* a mapping of somebody else: the process ends by the signal, as it did without the library */
      g_autofree char *folder = g_dir_make_tmp ("ortrain-changed-XXXXXX", NULL);
      g_autofree char *path = g_build_filename (folder, "some.data", NULL);
      g_autoptr (OrtrainDataset) dataset G_GNUC_UNUSED = open_npy (path, NULL);
      int fd = open (path, O_RDONLY | O_CLOEXEC);
      volatile const char *mapping = mmap (NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
      g_assert_cmpint (truncate (path, 0), ==, 0);
      test_remove_folder (folder);
      exit (mapping[4096]);
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_failed ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/fault/changed/model", GINT_TO_POINTER (FALSE), test_model);
  g_test_add_data_func ("/fault/changed/external-data", GINT_TO_POINTER (TRUE), test_model);
  g_test_add_func ("/fault/changed/lost-pages", test_lost_pages);
  g_test_add_func ("/fault/changed/while-running", test_while_running);
  for (guint k = 0; k < G_N_ELEMENTS (data_files); k++)
    {
      g_autofree char *path = g_strconcat ("/fault/changed/data/", data_files[k].name, NULL);
      g_test_add_data_func (path, GUINT_TO_POINTER (k), test_data);
    }
  g_test_add_func ("/fault/changed/tensor", test_tensor);
  g_test_add_func ("/fault/changed/many-files", test_many_files);
  g_test_add_func ("/fault/changed/foreign-fault", test_foreign_fault);
  return g_test_run ();
}
