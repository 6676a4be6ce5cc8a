/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-private.h"
#include "folder.h"
#include "ortrain.h"
#include "tensor/ortrain-tensor-private.h"

#include <glib/gstdio.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *folder;

/* Every part of the checkpoint says `number`. */
static OrtrainCheckpoint *
make_checkpoint (guint64 number, gint64 size)
{
  g_autoptr (OrtrainTensorDict) parameters = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensorDict) optimizer = ortrain_tensor_dict_new ();
  for (guint i = 0; i < 3; i++)
    {
      g_autofree char *name = g_strdup_printf ("layer/%u.weight", i);
      g_autoptr (OrtrainTensor) w = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, &size, 1, NULL);
      for (gint64 k = 0; k < size; k++)
        ((float *) ortrain_tensor_peek_writable (w))[k] = (float) number;
      ortrain_tensor_dict_set (parameters, name, w);
    }
  g_autoptr (OrtrainTensor) m =
      ortrain_tensor_cast (ortrain_tensor_dict_get_tensor (parameters, 0), ORTRAIN_DTYPE_FLOAT64, NULL);
  ortrain_tensor_dict_set (optimizer, "moment", m);
  g_autofree char *model = g_strdup_printf ("model %" G_GUINT64_FORMAT, number);
  g_autoptr (GBytes) bytes = g_bytes_new (model, strlen (model));

  OrtrainCheckpoint *checkpoint = ortrain_checkpoint_new ();
  ortrain_checkpoint_set_tensors (checkpoint, "parameters", parameters);
  ortrain_checkpoint_set_tensors (checkpoint, "optimizer", optimizer);
  ortrain_checkpoint_set_file (checkpoint, "model.onnx", bytes);
  ortrain_checkpoint_set_value (checkpoint, "step", g_variant_new_uint64 (number));
  return checkpoint;
}

/* Whatever is loaded must be of one piece. Returns its number. */
static guint64
check_whole (OrtrainCheckpoint *checkpoint, gint64 size)
{
  guint64 number = g_variant_get_uint64 (ortrain_checkpoint_get_value (checkpoint, "step"));
  OrtrainTensorDict *parameters = ortrain_checkpoint_get_tensors (checkpoint, "parameters");
  g_assert_cmpuint (ortrain_tensor_dict_get_size (parameters), ==, 3);
  g_assert_cmpstr (ortrain_tensor_dict_get_name (parameters, 2), ==, "layer/2.weight");
  for (guint i = 0; i < 3; i++)
    {
      OrtrainTensor *w = ortrain_tensor_dict_get_tensor (parameters, i);
      g_assert_cmpint (ortrain_tensor_get_n_elements (w), ==, size);
      for (gint64 k = 0; k < size; k++)
        g_assert_cmpfloat (((const float *) ortrain_tensor_peek (w))[k], ==, (float) number);
    }
  OrtrainTensor *m = ortrain_tensor_dict_get (ortrain_checkpoint_get_tensors (checkpoint, "optimizer"), "moment");
  g_assert_cmpfloat (ortrain_tensor_get_scalar (m, size - 1), ==, (double) number);
  g_autofree char *model = g_strdup_printf ("model %" G_GUINT64_FORMAT, number);
  g_autoptr (GBytes) bytes = g_bytes_new (model, strlen (model));
  g_assert_true (g_bytes_equal (bytes, ortrain_checkpoint_get_file (checkpoint, "model.onnx")));
  return number;
}

static guint64
load_whole (const char *path, gint64 size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (path, &error);
  g_assert_no_error (error);
  return check_whole (checkpoint, size);
}

static char *
new_path (void)
{
  static guint n;
  return g_strdup_printf ("%s/checkpoint-%u", folder, n++);
}

static void
save_well (OrtrainCheckpoint *checkpoint, const char *path)
{
  g_autoptr (GError) error = NULL;
  ortrain_checkpoint_save (checkpoint, path, NULL, &error);
  g_assert_no_error (error);
}

static void
test_round_trip (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = new_path ();
  g_assert_false (ortrain_checkpoint_exists (path));
  g_assert_null (ortrain_checkpoint_load (path, &error));
  g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_NOT_FOUND);
  g_clear_error (&error);

  g_autoptr (OrtrainCheckpoint) first = make_checkpoint (1, 100);
  g_assert_true (ortrain_checkpoint_save (first, path, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (ortrain_checkpoint_exists (path));
  g_autoptr (OrtrainCheckpoint) loaded = ortrain_checkpoint_load (path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (check_whole (loaded, 100), ==, 1);
  g_assert_null (ortrain_checkpoint_get_tensors (loaded, "buffers"));

  /* saved over another one, and even over the folder that it was loaded from: mapped tensors stay valid */
  g_autoptr (OrtrainCheckpoint) second = make_checkpoint (2, 100);
  g_assert_true (ortrain_checkpoint_save (second, path, NULL, &error));
  g_assert_cmpuint (load_whole (path, 100), ==, 2);
  g_assert_cmpuint (check_whole (loaded, 100), ==, 1);
  g_assert_true (ortrain_checkpoint_save (loaded, path, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (load_whole (path, 100), ==, 1);
  g_assert_cmpuint (test_count_entries (path), ==, 2); /* the manifest and one data folder */
}

static void
test_values (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = new_path ();
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_new ();
  GVariant *values[] = {
    g_variant_new_double (0.1),
    g_variant_new_double (-0.0),
    g_variant_new_double (5e-324),
    g_variant_new_double (1.7976931348623157e308),
    g_variant_new_double (INFINITY),
    g_variant_new_int64 (G_MININT64),
    g_variant_new_uint64 (G_MAXUINT64),
    g_variant_new_int32 (-1),
    g_variant_new_string ("quote\" \\ 'single' \n größe"),
    g_variant_new_boolean (TRUE),
    g_variant_new_parsed ("{'a': <1>, 'b': <[1.5, 2.5]>, 'c': <{'nested': <'x'>}>}"),
    g_variant_new_parsed ("@ad []"),
  };
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_autofree char *key = g_strdup_printf ("key \"%u\"", i);
      ortrain_checkpoint_set_value (checkpoint, key, g_variant_ref (values[i]));
    }
  g_assert_true (ortrain_checkpoint_save (checkpoint, path, NULL, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainCheckpoint) loaded = ortrain_checkpoint_load (path, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_autofree char *key = g_strdup_printf ("key \"%u\"", i);
      GVariant *value = ortrain_checkpoint_get_value (loaded, key);
      g_assert_cmpvariant (value, values[i]);
      g_assert_cmpuint (g_variant_get_size (value), ==, g_variant_get_size (values[i]));
      if (i < 5)
        g_assert_cmpmem (g_variant_get_data (value), 8, g_variant_get_data (values[i]), 8);
      g_variant_unref (values[i]);
    }
  g_autoptr (GVariant) all = ortrain_checkpoint_get_metadata (loaded);
  g_assert_cmpuint (g_variant_n_children (all), ==, G_N_ELEMENTS (values));
  ortrain_checkpoint_set_metadata (checkpoint, all);
  ortrain_checkpoint_set_value (checkpoint, "key \"0\"", NULL);
  g_assert_null (ortrain_checkpoint_get_value (checkpoint, "key \"0\""));
}

static void
test_shards (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = new_path ();
  g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (9, 1000);
  ortrain_checkpoint_set_max_shard_bytes (checkpoint, 8000);
  g_autoptr (OrtrainTensorDict) empty = ortrain_tensor_dict_new ();
  ortrain_checkpoint_set_tensors (checkpoint, "buffers", empty);
  g_assert_true (ortrain_checkpoint_save (checkpoint, path, NULL, &error));
  g_assert_no_error (error);
  g_autofree char *manifest_path = g_build_filename (path, "manifest.json", NULL), *manifest = NULL;
  g_assert_true (g_file_get_contents (manifest_path, &manifest, NULL, NULL));
  g_assert_nonnull (strstr (manifest, "parameters-00002.safetensors"));
  g_assert_null (strstr (manifest, "parameters-00003.safetensors"));
  g_assert_cmpuint (load_whole (path, 1000), ==, 9);
  g_autoptr (OrtrainCheckpoint) loaded = ortrain_checkpoint_load (path, &error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (ortrain_checkpoint_get_tensors (loaded, "buffers")), ==, 0);
}

static guint kill_at;

static void
count_and_kill (const char *where)
{
  if (kill_at-- == 0)
    kill (getpid (), SIGKILL);
}

/* Killed at every point of a save: the old checkpoint or the new one is there, and the next save works and tidies up.
 */
static void
test_kill_points (void)
{
  g_autofree char *path = new_path ();
  g_autoptr (OrtrainCheckpoint) first = make_checkpoint (1, 500);
  g_autoptr (OrtrainCheckpoint) second = make_checkpoint (2, 500);
  g_autoptr (OrtrainCheckpoint) third = make_checkpoint (3, 500);
  ortrain_checkpoint_set_max_shard_bytes (second, 1000);
  gboolean seen_old = FALSE, seen_new = FALSE, ended = FALSE;
  guint point;
  for (point = 0; !ended; point++)
    {
      save_well (first, path);
      pid_t child = fork ();
      if (child == 0)
        {
          kill_at = point;
          ortrain_checkpoint_save_hook = count_and_kill;
          _exit (ortrain_checkpoint_save (second, path, NULL, NULL) ? 0 : 1);
        }
      int status;
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      ended = WIFEXITED (status);
      g_assert_true (ended ? WEXITSTATUS (status) == 0 : WTERMSIG (status) == SIGKILL);
      guint64 number = load_whole (path, 500);
      g_assert_true (number == 1 || number == 2);
      seen_old |= number == 1;
      seen_new |= number == 2 && !ended;
      save_well (third, path);
      g_assert_cmpuint (load_whole (path, 500), ==, 3);
      g_assert_cmpuint (test_count_entries (path), ==, 2);
    }
  g_assert_true (seen_old && seen_new);
  g_assert_cmpuint (point, >, 9);
}

/* Killed at any time. Reading goes on meanwhile, and always finds something whole. */
static void
test_kill_times (void)
{
  g_autofree char *path = new_path ();
  const gint64 size = 20000;
  g_autoptr (OrtrainCheckpoint) first = make_checkpoint (1000, size);
  save_well (first, path);
  for (guint round = 0; round < 40; round++)
    {
      guint64 before = load_whole (path, size);
      pid_t child = fork ();
      if (child == 0)
        for (guint64 number = before + 1;; number++)
          {
            g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (number, size);
            if (!ortrain_checkpoint_save (checkpoint, path, NULL, NULL))
              _exit (1);
          }
      gint64 end = g_get_monotonic_time () + g_test_rand_int_range (0, 20000);
      do
        g_assert_cmpuint (load_whole (path, size), >=, before);
      while (g_get_monotonic_time () < end);
      kill (child, SIGKILL);
      int status;
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      g_assert_true (WIFSIGNALED (status));
      g_assert_cmpuint (load_whole (path, size), >=, before);
    }
}

/* Files may not grow: wherever that strikes, an error, and the old checkpoint is as it was. */
static void
test_full_disk (void)
{
  g_autofree char *path = new_path ();
  g_autoptr (OrtrainCheckpoint) first = make_checkpoint (1, 100);
  g_autoptr (OrtrainCheckpoint) second = make_checkpoint (2, 100);
  save_well (first, path);
  signal (SIGXFSZ, SIG_IGN);
  struct rlimit before;
  getrlimit (RLIMIT_FSIZE, &before);
  gboolean saved = FALSE;
  for (rlim_t limit = 0; !saved; limit += 37)
    {
      g_autoptr (GError) error = NULL;
      g_assert_cmpuint (limit, <, 10000);
      struct rlimit now = { limit, before.rlim_max };
      setrlimit (RLIMIT_FSIZE, &now);
      saved = ortrain_checkpoint_save (second, path, NULL, &error);
      setrlimit (RLIMIT_FSIZE, &before);
      g_assert_true (saved == (error == NULL));
      g_assert_cmpuint (load_whole (path, 100), ==, saved ? 2 : 1);
      g_assert_cmpuint (test_count_entries (path), ==, 2);
    }

  g_autoptr (GError) error = NULL;
  g_autofree char *nowhere = g_build_filename (folder, "nowhere", "at", "all", NULL);
  g_assert_false (ortrain_checkpoint_save (first, nowhere, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_autofree char *file = g_build_filename (folder, "file", NULL);
  g_assert_true (g_file_set_contents (file, "x", 1, NULL));
  g_assert_false (ortrain_checkpoint_save (first, file, NULL, &error));
  g_assert_nonnull (error);
  g_clear_error (&error);
  g_assert_null (ortrain_checkpoint_load (file, &error));
  g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_NOT_FOUND);
  g_clear_error (&error);

  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_cancellable_cancel (cancellable);
  g_assert_false (ortrain_checkpoint_save (first, path, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpuint (load_whole (path, 100), ==, 2);
}

static char *
data_folder (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_prefix (name, "data-"))
      return g_build_filename (path, name, NULL);
  g_assert_not_reached ();
}

static void
check_refused (const char *path, int code)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (path, &error);
  g_assert_null (checkpoint);
  g_assert_nonnull (error);
  if (code >= 0)
    g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, code);
}

static void
replace_in_manifest (const char *path, const char *manifest, const char *from, const char *to)
{
  g_autofree char *file = g_build_filename (path, "manifest.json", NULL);
  GString *s = g_string_new (manifest);
  g_assert_cmpuint (g_string_replace (s, from, to, 1), ==, 1);
  g_assert_true (g_file_set_contents (file, s->str, (gssize) s->len, NULL));
  g_string_free (s, TRUE);
}

/* As an older version wrote it, without a checksum: then its contents are checked one by one. */
static char *
unseal (const char *manifest)
{
  GString *s = g_string_new (manifest);
  char *at = g_strrstr (s->str, "\"sha256\""), *comma = at;
  g_assert_nonnull (at);
  while (*comma != ',')
    comma--;
  g_string_erase (s, comma - s->str, strchr (strchr (at + 8, '"') + 1, '"') + 1 - comma);
  g_assert_cmpuint (g_string_replace (s, "\"version\" : 2", "\"version\" : 1", 1), ==, 1);
  return g_string_free (s, FALSE);
}

/* Any change of the manifest is noticed, also one that leaves it sensible. */
static void
test_manifest_checksum (void)
{
  g_autofree char *path = new_path (), *file = g_build_filename (path, "manifest.json", NULL), *manifest = NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (7, 10);
  gsize size;
  ortrain_checkpoint_set_value (checkpoint, "sha256", g_variant_new_string ("\"sha256\" : \"0\""));
  save_well (checkpoint, path);
  g_assert_cmpuint (load_whole (path, 10), ==, 7);
  g_assert_true (g_file_get_contents (file, &manifest, &size, NULL));
  for (gsize i = 0; i < size; i++)
    {
      const char was = manifest[i];
      manifest[i] = was == '1' ? '2' : '1';
      g_assert_true (g_file_set_contents_full (file, manifest, (gssize) size, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
      manifest[i] = was;
      check_refused (path, -1);
    }
  replace_in_manifest (path, manifest, "\"step\"", "\"stop\"");
  check_refused (path, ORTRAIN_CHECKPOINT_ERROR_INVALID);
  g_autofree char *old = unseal (manifest);
  g_assert_true (g_file_set_contents (file, old, -1, NULL));
  g_assert_cmpuint (load_whole (path, 10), ==, 7);
}

/* Saves remove only files that saves have written. */
static void
test_foreign_files (void)
{
  static const char *const mine[] = { "manifest.json.backup",
                                      "manifest.json.a1B2c3",
                                      "model.onnx",
                                      "notes.txt",
                                      "data-0123456789abcdef/thesis.tex",
                                      "data-0123456789abcdef/model.onnx",
                                      "data-fedcba9876543210" };
  g_autofree char *path = new_path (), *file G_GNUC_UNUSED = g_build_filename (path, "manifest.json", NULL),
                  *manifest = NULL;
  g_autofree char *foreign = g_build_filename (path, "data-0123456789abcdef", NULL);
  g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (1, 10);
  save_well (checkpoint, path);
  g_assert_cmpint (g_mkdir (foreign, 0700), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (mine); i++)
    {
      g_autofree char *name = g_build_filename (path, mine[i], NULL);
      g_assert_true (g_file_set_contents (name, "mine", 4, NULL));
    }
  g_autofree char *data = NULL;
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *entry;
  while ((entry = g_dir_read_name (dir)) != NULL)
    if (g_str_has_prefix (entry, "data-") && !g_str_equal (entry, "data-0123456789abcdef") &&
        !g_str_equal (entry, "data-fedcba9876543210"))
      data = g_build_filename (path, entry, NULL);
  g_autofree char *inside = g_build_filename (data, "parameters-00001.safetensors.backup", NULL);
  g_autofree char *shard = g_build_filename (data, "parameters-00001.safetensors", NULL);
  g_assert_true (g_file_set_contents (inside, "mine", 4, NULL));
  save_well (checkpoint, path);
  save_well (checkpoint, path);
  g_assert_cmpuint (load_whole (path, 10), ==, 1);
  for (guint i = 0; i < G_N_ELEMENTS (mine); i++)
    {
      g_autofree char *name = g_build_filename (path, mine[i], NULL), *contents = NULL;
      g_assert_true (g_file_get_contents (name, &contents, NULL, NULL));
      g_assert_cmpstr (contents, ==, "mine");
    }
  g_assert_true (g_file_test (inside, G_FILE_TEST_EXISTS));
  g_assert_false (g_file_test (shard, G_FILE_TEST_EXISTS));
  g_assert_cmpuint (test_count_entries (path), ==, 2 + 6 + 1);

  /* a folder of an older version has no list: its manifest lists its files */
  g_autofree char *other = new_path (), *other_file = g_build_filename (other, "manifest.json", NULL);
  save_well (checkpoint, other);
  g_assert_true (g_file_get_contents (other_file, &manifest, NULL, NULL));
  g_autofree char *old = unseal (manifest), *other_data = data_folder (other);
  g_autofree char *list = g_build_filename (other_data, ".files", NULL);
  g_assert_cmpint (g_unlink (list), ==, 0);
  g_assert_true (g_file_set_contents (other_file, old, -1, NULL));
  save_well (checkpoint, other);
  g_assert_false (g_file_test (other_data, G_FILE_TEST_EXISTS));
}

/* Saves between any two steps of a reader. */
static const char *outrun_path;
static guint n_outruns;

static void
outrun (const char *where)
{
  if (n_outruns == 0)
    return;
  n_outruns--;
  g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (100 + n_outruns, 10);
  save_well (checkpoint, outrun_path);
}

static void
test_outrun (void)
{
  g_autofree char *path = new_path ();
  g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (1, 10);
  save_well (checkpoint, path);
  outrun_path = path;
  ortrain_checkpoint_load_hook = outrun;
  for (guint n = 1; n < 40; n += 6)
    {
      n_outruns = n;
      load_whole (path, 10);
    }
  ortrain_checkpoint_load_hook = NULL;
  g_assert_cmpuint (load_whole (path, 10), ==, 100);
}

static void
test_hostile (void)
{
  g_autofree char *path = new_path (), *manifest = NULL, *contents = NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (1, 10);
  save_well (checkpoint, path);
  g_autofree char *data = data_folder (path), *shard = g_build_filename (data, "parameters-00001.safetensors", NULL);
  g_autofree char *file = g_build_filename (path, "manifest.json", NULL);
  gsize n, n_manifest;
  g_autofree char *sealed = NULL;
  g_assert_true (g_file_get_contents (file, &sealed, NULL, NULL));
  manifest = unseal (sealed);
  n_manifest = strlen (manifest);
  g_assert_true (g_file_get_contents (shard, &contents, &n, NULL));

  /* a bit that turned, a file cut off, a file that is gone, a link in its place */
  contents[n - 1] ^= 1;
  g_assert_true (g_file_set_contents (shard, contents, (gssize) n, NULL));
  check_refused (path, ORTRAIN_CHECKPOINT_ERROR_INVALID);
  contents[n - 1] ^= 1;
  g_assert_true (g_file_set_contents (shard, contents, (gssize) n - 1, NULL));
  check_refused (path, ORTRAIN_CHECKPOINT_ERROR_INVALID);
  g_unlink (shard);
  check_refused (path, -1);
  g_autofree char *elsewhere = g_build_filename (folder, "elsewhere", NULL);
  g_assert_true (g_file_set_contents (elsewhere, contents, (gssize) n, NULL));
  g_assert_cmpint (symlink (elsewhere, shard), ==, 0);
  check_refused (path, -1);
  g_unlink (shard);
  g_assert_true (g_file_set_contents (shard, contents, (gssize) n, NULL));
  g_assert_cmpuint (load_whole (path, 10), ==, 1);

  static const struct
  {
    const char *from, *to;
    int code;
  } cases[] = {
    { "\"ortrain-checkpoint\"", "\"other\"", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"version\" : 1", "\"version\" : 3", ORTRAIN_CHECKPOINT_ERROR_VERSION },
    { "\"version\" : 1", "\"version\" : 2", ORTRAIN_CHECKPOINT_ERROR_INVALID }, /* without a checksum */
    { "\"version\" : 1", "\"version\" : 0", ORTRAIN_CHECKPOINT_ERROR_VERSION },
    { "\"version\" : 1", "\"version\" : -1", ORTRAIN_CHECKPOINT_ERROR_VERSION },
    { "\"version\" : 1", "\"version\" : 1.5", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"version\" : 1", "\"version\" : 1, \"version\" : 1", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"bytes\" : ", "\"bytes\" : -", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"bytes\" : ", "\"bytes\" : 9223372036854775808, \"x\" : ", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"bytes\" : ", "\"bytes\" : NaN, \"x\" : ", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"bytes\" : ", "\"bytes\" : \"1\", \"x\" : ", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "optimizer-00001", "parameters-00001", ORTRAIN_CHECKPOINT_ERROR_INVALID }, /* one file twice */
    { "\"version\" : 1", "\"version\" : \"1\"", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"data-", "\"../data-", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "parameters-00001", "../../elsewhere", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "parameters-00001.safetensors", "..", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"sections\" : {", "\"sections\" : {\"../x\" : [],", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"sections\" : {", "\"sections\" : {\"x\" : 1,", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"sections\" : {", "\"sections\" : {\"x\" : [1],", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"sections\" : {", "\"sections\" : {\"x\" : [{}],", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"sections\"", "\"other\"", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"t\"", "\"(\"", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"t\"", "\"*\"", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "\"t\"", "\"(tt)\"", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "{", "[", ORTRAIN_CHECKPOINT_ERROR_INVALID },
    { "{", "{\"a\":[[[[[[[[[[[[]]]]]]]]]]]],", ORTRAIN_CHECKPOINT_ERROR_INVALID },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      replace_in_manifest (path, manifest, cases[i].from, cases[i].to);
      check_refused (path, cases[i].code);
    }

  /* a manifest cut at many lengths, and with many bytes changed: never a crash, never a wrong tensor */
  for (gsize i = 0; i < n_manifest; i += 1 + n_manifest / 400)
    {
      g_assert_true (g_file_set_contents_full (file, manifest, (gssize) i, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
      g_autoptr (OrtrainCheckpoint) cut = ortrain_checkpoint_load (path, NULL);
      g_assert_true (cut == NULL || i >= n_manifest - 1); /* the last byte is the end of the line */
      char was = manifest[i];
      manifest[i] ^= (char) (1 << g_test_rand_int_range (0, 7));
      g_assert_true (
          g_file_set_contents_full (file, manifest, (gssize) n_manifest, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
      manifest[i] = was;
      g_autoptr (OrtrainCheckpoint) changed = ortrain_checkpoint_load (path, NULL);
      g_assert_true (changed == NULL || ORTRAIN_IS_CHECKPOINT (changed));
    }
}

static void
save_done (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_assert_true (ortrain_checkpoint_save_finish (ORTRAIN_CHECKPOINT (source), result, &error));
  g_assert_no_error (error);
  g_main_loop_quit (user_data);
}

static void
load_done (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load_finish (result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (check_whole (checkpoint, 100), ==, 5);
  g_main_loop_quit (user_data);
}

static void
test_async (void)
{
  g_autofree char *path = new_path ();
  g_autoptr (GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (5, 100);
  ortrain_checkpoint_save_async (checkpoint, path, NULL, save_done, loop);
  /* later changes do not count */
  ortrain_checkpoint_set_tensors (checkpoint, "parameters", NULL);
  g_main_loop_run (loop);
  ortrain_checkpoint_load_async (path, NULL, load_done, loop);
  g_main_loop_run (loop);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  /* first those that fork: afterwards there are threads */
  g_test_add_func ("/checkpoint/kill/points", test_kill_points);
  g_test_add_func ("/checkpoint/kill/times", test_kill_times);
  g_test_add_func ("/checkpoint/round-trip", test_round_trip);
  g_test_add_func ("/checkpoint/values", test_values);
  g_test_add_func ("/checkpoint/shards", test_shards);
  g_test_add_func ("/checkpoint/full-disk", test_full_disk);
  g_test_add_func ("/checkpoint/manifest-checksum", test_manifest_checksum);
  g_test_add_func ("/checkpoint/foreign-files", test_foreign_files);
  g_test_add_func ("/checkpoint/outrun", test_outrun);
  g_test_add_func ("/checkpoint/hostile", test_hostile);
  g_test_add_func ("/checkpoint/async", test_async);
  int status = g_test_run ();
  g_autofree char *command = g_strdup_printf ("rm -rf '%s'", folder);
  return g_spawn_command_line_sync (command, NULL, NULL, NULL, NULL) ? status : 1;
}
