/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include "ortrain.h"

/* Both kinds of options from JSON. Options that are refused are as they were, and those that are taken are good for a
 * session, which may refuse them in turn. */
static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("fuzz");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 4");
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_linear (builder, x, "a", 3, TRUE), "logits");
  OrtrainModel *model = ortrain_model_new_from_graph (ortrain_graph_builder_get_graph (builder), &error);
  FUZZ_CHECK (error == NULL);
  return model;
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static OrtrainModel *model;
  g_autoptr (GError) training_error = NULL, session_error = NULL, error = NULL;
  if (model == NULL)
    model = make_model ();
  const char *path = fuzz_make_file (data, size);
  g_autoptr (OrtrainSessionOptions) session_options = ortrain_session_options_new ();
  gboolean ok = ortrain_session_options_load_file (session_options, path, &session_error);
  fuzz_check_error (ok, session_error);
  FUZZ_CHECK (ok || session_error->domain == ORTRAIN_SESSION_ERROR);
  FUZZ_CHECK (ok || (ortrain_session_options_get_threads (session_options) == 0));

  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ok = ortrain_training_options_load_file (options, path, &training_error);
  fuzz_check_error (ok, training_error);
  if (!ok)
    {
      FUZZ_CHECK (training_error->domain == ORTRAIN_SESSION_ERROR);
      FUZZ_CHECK (ortrain_training_options_get_optimizer (options) == NULL);
      FUZZ_CHECK (g_list_model_get_n_items (ortrain_training_options_get_losses (options)) == 0);
      FUZZ_CHECK (ortrain_training_options_get_n_ties (options) == 0);
      return 0;
    }
  ortrain_training_options_set_threads (options, 1);
  ortrain_training_options_set_print_memory (options, FALSE);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  fuzz_check_error (session != NULL, error);
  if (session == NULL)
    return 0;
  const gint64 dims[] = { 2, 4 }, n = 2;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, NULL);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &n, 1, NULL);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  ortrain_training_session_train_step (session, feeds, &error);
  if (error == NULL)
    ortrain_training_session_optimizer_step (session, &error);
  fuzz_check_error (error == NULL, error);
  return 0;
}
