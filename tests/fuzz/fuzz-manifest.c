/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include "ortrain.h"

#include <string.h>

/* The manifest of a checkpoint. The folder is one that a session has saved, and the bytes are in the place of its
 * manifest; where they have a checksum, it is made right, so that the sealed contents are read. A refused manifest
 * leaves the session as it was. */

#define SUM "\"sha256\""
#define N_DIGITS 64
/* The name of the data folder of a save is drawn: in the bytes it is this. */
#define FOLDER "data-0000000000000000"

typedef struct
{
  OrtrainTrainingSession *session;
  OrtrainTensorDict *before;
  char *folder, *manifest, *data_name;
} State;

static OrtrainTrainingSession *
make_session (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("fuzz");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 4");
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_linear (builder, x, "a", 3, TRUE), "logits");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  FUZZ_CHECK (model != NULL);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_threads (options, 1);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  FUZZ_CHECK (session != NULL);
  return session;
}

static const State *
get_state (void)
{
  static State state;
  g_autoptr (GError) error = NULL;
  if (state.session != NULL)
    return &state;
  state.session = make_session ();
  state.folder = g_strconcat (fuzz_scratch (), ".checkpoint", NULL);
  state.manifest = g_build_filename (state.folder, "manifest.json", NULL);
  FUZZ_CHECK (ortrain_training_session_save_checkpoint (state.session, state.folder, &error));
  state.before = ortrain_training_session_get_state (state.session, &error);
  FUZZ_CHECK (state.before != NULL);
  g_autofree char *text = NULL;
  FUZZ_CHECK (g_file_get_contents (state.manifest, &text, NULL, NULL));
  const char *name = strstr (text, "data-");
  FUZZ_CHECK (name != NULL);
  state.data_name = g_strndup (name, strlen (FOLDER));
  if (g_getenv ("FUZZ_MANIFEST_SAVE") != NULL) /* to begin with */
    {
      memcpy (strstr (text, "data-"), FOLDER, strlen (FOLDER));
      g_file_set_contents (g_getenv ("FUZZ_MANIFEST_SAVE"), text, -1, NULL);
    }
  return &state;
}

static void
seal (char *text, gsize size)
{
  char *at = g_strrstr_len (text, (gssize) size, SUM), *end = text + size;
  if (at == NULL)
    return;
  for (at += strlen (SUM); at < end && *at != '"'; at++)
    ;
  if (end - at <= N_DIGITS + 1)
    return;
  memset (at + 1, '0', N_DIGITS);
  g_autofree char *sum = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *) text, size);
  memcpy (at + 1, sum, N_DIGITS);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL, session_error = NULL;
  const State *state = get_state ();
  g_autofree char *text = g_malloc0 (size + 1);
  if (size > 0)
    memcpy (text, data, size);
  char *name = g_strstr_len (text, (gssize) size, FOLDER);
  if (name != NULL)
    memcpy (name, state->data_name, strlen (FOLDER));
  seal (text, size);
  FUZZ_CHECK (g_file_set_contents_full (state->manifest, text, (gssize) size, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (state->folder, &error);
  fuzz_check_error (checkpoint != NULL, error);
  const gboolean ok = ortrain_training_session_load_checkpoint (state->session, state->folder, &session_error);
  fuzz_check_error (ok, session_error);
  if (g_getenv ("FUZZ_MANIFEST_VERBOSE") != NULL)
    g_print ("%s\n", ok ? "loaded" : session_error->message);
  g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_state (state->session, NULL);
  FUZZ_CHECK (after != NULL && ortrain_tensor_dict_get_size (after) == ortrain_tensor_dict_get_size (state->before));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (after); i++) /* there are no other files that could be loaded */
    FUZZ_CHECK (ok || ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (after, i),
                                            ortrain_tensor_dict_get_tensor (state->before, i)));
  return 0;
}
