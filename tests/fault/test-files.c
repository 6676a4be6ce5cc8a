/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fault/injector.h"
#include "folder.h"
#include "model/ortrain-proto-maker.h"
#include "session/fixture.h"

#include <errno.h>
#include <glib/gstdio.h>

/* Each file operation fails, one after the other, in every reader and writer. A reader gives an error that names the
 * file; a writer leaves the old contents or the new ones, whole, and its temporary files are gone after the next write.
 * Writes that take only a part, and signals in the middle, are no errors at all. */

typedef struct
{
  const char *name;
  InjectorTry write_it;
  InjectorTry read_it; /* into `found` */
} Kind;

typedef struct
{
  const Kind *kind;
  TestModel *model;
  OrtrainTrainingSession *session;
  char *folder, *path;
  OrtrainTensorDict *old, *new; /* contents written before, and being written */
  OrtrainTensorDict *found;
} Case;

static OrtrainTensorDict *
get_state (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  return state;
}

static guint
count_files (const char *directory)
{
  g_autoptr (GDir) dir = g_dir_open (directory, 0, NULL);
  guint n = 0;
  const char *name;
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (directory, name, NULL);
      n += 1 + count_files (path);
    }
  return n;
}

static void
train (Case *self)
{
  g_autoptr (GError) error = NULL;
  ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 0), &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (self->session, &error));
  g_clear_object (&self->old);
  self->old = g_steal_pointer (&self->new);
  self->new = get_state (self->session);
}

/* ---- Writers and readers ---- */

/* A copy: the result may be a mapping, which keeps the file open. */
static gboolean
keep (Case *self, const char *name, OrtrainTensor *tensor, GError **error)
{
  g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (tensor, error);
  if (copy != NULL)
    ortrain_tensor_dict_set (self->found, name, copy);
  return copy != NULL;
}

static gboolean
keep_all (Case *self, OrtrainTensorDict *tensors, GError **error)
{
  for (guint i = 0; i < ortrain_tensor_dict_get_size (tensors); i++)
    if (!keep (self, ortrain_tensor_dict_get_name (tensors, i), ortrain_tensor_dict_get_tensor (tensors, i), error))
      return FALSE;
  return TRUE;
}

static void
start_reading (Case *self)
{
  g_clear_object (&self->found);
  self->found = ortrain_tensor_dict_new ();
}

static gboolean
write_export (gpointer data, GError **error)
{
  Case *self = data;
  return ortrain_training_session_export (self->session, self->path, error);
}

static gboolean
read_export (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (self->path, error);
  if (model == NULL)
    return FALSE;
  start_reading (self);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (self->new); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (self->new, i);
      OrtrainValue *value = ortrain_graph_find_value (ortrain_model_get_file_graph (model), name);
      if (!keep (self, name, ortrain_value_get_tensor (value), error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
write_checkpoint (gpointer data, GError **error)
{
  Case *self = data;
  return ortrain_training_session_save_checkpoint (self->session, self->path, error);
}

static gboolean
read_checkpoint (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (self->path, error);
  if (checkpoint == NULL)
    return FALSE;
  static const char *const sections[] = { "parameters", "buffers" };
  start_reading (self);
  for (guint s = 0; s < G_N_ELEMENTS (sections); s++)
    if (!keep_all (self, ortrain_checkpoint_get_tensors (checkpoint, sections[s]), error))
      return FALSE;
  return TRUE;
}

static gboolean
write_safetensors (gpointer data, GError **error)
{
  Case *self = data;
  return ortrain_tensor_dict_save_safetensors (self->new, self->path, error);
}

static gboolean
read_safetensors (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new_from_safetensors (self->path, error);
  start_reading (self);
  return tensors != NULL && keep_all (self, tensors, error);
}

static gboolean
write_npz (gpointer data, GError **error)
{
  Case *self = data;
  return ortrain_tensor_dict_save_npz (self->new, self->path, error);
}

static gboolean
read_npz (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new_from_npz (self->path, error);
  start_reading (self);
  return tensors != NULL && keep_all (self, tensors, error);
}

/* npy holds one tensor: the first */
static gboolean
write_npy (gpointer data, GError **error)
{
  Case *self = data;
  return ortrain_tensor_save_npy (ortrain_tensor_dict_get_tensor (self->new, 0), self->path, error);
}

static gboolean
read_npy (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_npy (self->path, error);
  start_reading (self);
  return tensor != NULL && keep (self, ortrain_tensor_dict_get_name (self->new, 0), tensor, error);
}

static const Kind kinds[] = { { "export", write_export, read_export },
                              { "checkpoint", write_checkpoint, read_checkpoint },
                              { "safetensors", write_safetensors, read_safetensors },
                              { "npz", write_npz, read_npz },
                              { "npy", write_npy, read_npy } };

/* ---- Checks ---- */

static gboolean
holds (OrtrainTensorDict *found, OrtrainTensorDict *want)
{
  g_assert_cmpuint (ortrain_tensor_dict_get_size (found), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (found); i++)
    if (!ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (found, i),
                               ortrain_tensor_dict_get (want, ortrain_tensor_dict_get_name (found, i))))
      return FALSE;
  return TRUE;
}

static void
assert_domain (Case *self, const GError *error, const char *failed)
{
  const gboolean is_export = self->kind->write_it == write_export;
  if (error->domain != G_IO_ERROR && error->domain != G_FILE_ERROR && error->domain != ORTRAIN_CHECKPOINT_ERROR &&
      !(is_export && error->domain == ORTRAIN_MODEL_ERROR))
    g_error ("%s: “%s” is in the domain %s", failed, error->message, g_quark_to_string (error->domain));
  /* the file's own name, or that of the folder that it is in; an export is made of the model's own file as well */
  if (strstr (error->message, "written") == NULL && strstr (error->message, "model.onnx") == NULL)
    g_error ("%s: “%s” does not name the file", failed, error->message);
}

static void
check_written (gpointer data, const GError *error, const char *failed)
{
  Case *self = data;
  GError *local_error = NULL;
  if (error != NULL)
    assert_domain (self, error, failed);
  g_assert_true (self->kind->read_it (self, &local_error));
  g_assert_no_error (local_error);
  gboolean is_old = holds (self->found, self->old), is_new = holds (self->found, self->new);
  g_assert_false (is_old && is_new);
  if (!(error == NULL ? is_new : is_old || is_new))
    g_error ("%s: %s", failed, error != NULL ? error->message : "no error, but not what was written");
  /* only a checkpoint whose last sync failed may have both */
  if (is_new && error != NULL)
    g_assert_true (self->kind->write_it == write_checkpoint);
}

static void
prepare_to_write (gpointer data)
{
  Case *self = data;
  g_autoptr (GError) error = NULL;
  train (self);
  g_assert_true (self->kind->write_it (self, &error));
  g_assert_no_error (error);
  train (self); /* now `old` is there, and `new` is to come */
}

static void
check_read (gpointer data, const GError *error, const char *failed)
{
  Case *self = data;
  if (error != NULL)
    assert_domain (self, error, failed);
  else
    g_assert_true (holds (self->found, self->new));
}

static void
test_files (gconstpointer data)
{
  g_auto (GStrv) parts = g_strsplit (data, "/", 2);
  g_autoptr (GError) error = NULL;
  Case self = { 0 };
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    if (g_str_equal (kinds[k].name, parts[0]))
      self.kind = &kinds[k];
  self.model = test_model_load (parts[1]);
  self.session = test_model_make_session (self.model, "sgd");
  self.folder = g_dir_make_tmp ("ortrain-files-XXXXXX", NULL);
  self.path = g_build_filename (self.folder, "written", NULL);
  train (&self);
  g_assert_true (self.kind->write_it (&self, &error));
  g_assert_no_error (error);
  const guint n_files = count_files (self.folder);

  static const Injection kinds_of_fault[] = { INJECT_ERROR, INJECT_SHORT, INJECT_EINTR };
  for (guint i = 0; i < G_N_ELEMENTS (kinds_of_fault); i++)
    {
      guint n = injector_run (kinds_of_fault[i], prepare_to_write, self.kind->write_it, check_written, &self);
      g_test_message ("%u calls", n);
      g_assert_cmpuint (n, >, 0);
      g_assert_cmpuint (count_files (self.folder), ==, n_files);
    }
  g_assert_cmpuint (injector_run (INJECT_ERROR, NULL, self.kind->read_it, check_read, &self), >, 0);

  g_clear_object (&self.old);
  g_clear_object (&self.new);
  g_clear_object (&self.found);
  g_object_unref (self.session);
  test_model_free (self.model);
  test_remove_folder (self.folder);
  g_free (self.folder);
  g_free (self.path);
}

/* A first save, where nothing was: afterwards there is all of it, or nothing at all. */
static void
check_first (gpointer data, const GError *error, const char *failed)
{
  Case *self = data;
  g_autoptr (GError) local_error = NULL;
  gboolean there = self->kind->read_it (self, &local_error);
  if (error == NULL)
    g_assert_true (there && holds (self->found, self->new));
  if (!there && count_files (self->folder) > 0)
    g_error ("%s: “%s” leaves %u files", failed, error->message, count_files (self->folder));
}

static void
prepare_first (gpointer data)
{
  Case *self = data;
  test_remove_folder (self->folder);
  g_assert_cmpint (g_mkdir (self->folder, 0700), ==, 0);
}

static void
test_first (gconstpointer data)
{
  Case self = { .kind = data };
  self.model = test_model_load (self.kind->write_it == write_export ? "gpt2" : "mlp");
  self.session = test_model_make_session (self.model, "sgd");
  self.folder = g_dir_make_tmp ("ortrain-files-XXXXXX", NULL);
  self.path = g_build_filename (self.folder, "written", NULL);
  train (&self);
  g_assert_cmpuint (injector_run (INJECT_ERROR, prepare_first, self.kind->write_it, check_first, &self), >, 0);
  g_clear_object (&self.old);
  g_clear_object (&self.new);
  g_clear_object (&self.found);
  g_object_unref (self.session);
  test_model_free (self.model);
  test_remove_folder (self.folder);
  g_free (self.folder);
  g_free (self.path);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  injector_disarm (NULL);
  g_main_context_default (); /* keeps a descriptor of its own */
  static const char *const cases[] = { "export/mlp",      "export/gpt2", "checkpoint/cnn",
                                       "safetensors/mlp", "npz/mlp",     "npy/mlp" };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/fault/files/", cases[i], NULL);
      g_test_add_data_func (path, cases[i], test_files);
    }
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      g_autofree char *path = g_strconcat ("/fault/files/first/", kinds[k].name, NULL);
      g_test_add_data_func (path, &kinds[k], test_first);
    }
  return g_test_run ();
}
