/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "plan/ortrain-plan-tables-private.h"
#include "session/fixture.h"

/* The optimizer's state, in the plan, in the reports of memory and in checkpoints: the same bytes. In memory each
 * tensor begins at a multiple of 64. */

#define ALIGNMENT 64

typedef struct
{
  const char *name;
  const char *states[3]; /* sections of a checkpoint */
} Kind;

static OrtrainOptimizer *
make_optimizer (const char *name)
{
  if (g_str_equal (name, "sgd"))
    return ortrain_sgd_new (1e-3);
  if (g_str_equal (name, "momentum"))
    return g_object_new (ORTRAIN_TYPE_SGD, "momentum", 0.9, NULL);
  return g_object_new (g_str_equal (name, "adam")    ? ORTRAIN_TYPE_ADAM
                       : g_str_equal (name, "adamw") ? ORTRAIN_TYPE_ADAMW
                       : g_str_equal (name, "lamb")  ? ORTRAIN_TYPE_LAMB
                                                     : ORTRAIN_TYPE_ADAGRAD,
                       NULL);
}

static guint64
count_bytes (OrtrainTensorDict *dict, gboolean aligned)
{
  guint64 bytes = 0;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (dict); i++)
    {
      const guint64 n = ortrain_tensor_get_n_bytes (ortrain_tensor_dict_get_tensor (dict, i));
      bytes += aligned ? (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : n;
    }
  return bytes;
}

static void
test_kind (gconstpointer data)
{
  const Kind *kind = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  g_autoptr (OrtrainOptimizer) optimizer = make_optimizer (kind->name);
  ortrain_training_options_set_optimizer (options, optimizer);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));

  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_assert_true (ortrain_training_session_save_checkpoint (session, folder, &error));
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (folder, &error);
  g_assert_no_error (error);
  OrtrainTensorDict *parameters = ortrain_checkpoint_get_tensors (checkpoint, "parameters");
  guint64 planned = 0, saved = 0;
  guint n = 0;
  for (; n < G_N_ELEMENTS (kind->states) && kind->states[n] != NULL; n++)
    {
      OrtrainTensorDict *states = ortrain_checkpoint_get_tensors (checkpoint, kind->states[n]);
      g_assert_nonnull (states);
      g_assert_cmpuint (ortrain_tensor_dict_get_size (states), ==, ortrain_tensor_dict_get_size (parameters));
      planned += count_bytes (states, TRUE);
      saved += count_bytes (states, FALSE);
    }
  g_assert_cmpuint (saved, ==, n * count_bytes (parameters, FALSE)); /* float32, all of them */
  g_auto (GStrv) sections = ortrain_checkpoint_get_sections (checkpoint);
  guint n_sections = 0;
  for (guint i = 0; sections[i] != NULL; i++)
    n_sections += g_str_has_prefix (sections[i], "optimizer.");
  g_assert_cmpuint (n_sections, ==, n);

  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  g_autoptr (OrtrainMemoryReport) report = ortrain_training_session_get_memory_report (session);
  g_assert_cmpuint (ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_STATE), ==, planned);
  g_assert_cmpuint (report->state, ==, planned);
  g_assert_cmpuint (report->param, ==, count_bytes (parameters, TRUE));
  test_remove_folder (folder);
}

int
main (int argc, char *argv[])
{
  static const Kind kinds[] = {
    { "sgd", { NULL } },
    { "momentum", { "optimizer.momentum_buffer" } },
    { "adam", { "optimizer.exp_avg", "optimizer.exp_avg_sq" } },
    { "adamw", { "optimizer.exp_avg", "optimizer.exp_avg_sq" } },
    { "lamb", { "optimizer.exp_avg", "optimizer.exp_avg_sq" } },
    { "adagrad", { "optimizer.sum" } },
  };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree char *path = g_strconcat ("/state-bytes/", kinds[i].name, NULL);
      g_test_add_data_func (path, &kinds[i], test_kind);
    }
  return g_test_run ();
}
