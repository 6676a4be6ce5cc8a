/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "kernel-abi/ortrain-update-scalars-private.h"
#include "ortrain.h"
#include "plan/ortrain-plan-tables-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>
#include <string.h>

/* Optimizers that keep their state in 8 bits, in sessions: bytes, checkpoints, notes, refusals, and how well they
 * train. */

#define N_TOKENS 97
#define LENGTH 32
#define BATCH 8
#define ALIGNMENT 64

/* ---- a model of language, and sentences: each token follows from the one before it, but for one in eight ---- */

static OrtrainTensorDict *
make_feeds (guint32 step)
{
  const gint64 dims[] = { BATCH, LENGTH };
  g_autoptr (GError) error = NULL;
  g_autoptr (GRand) rand = g_rand_new_with_seed (step + 1);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) ids = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, &error);
  g_autoptr (OrtrainTensor) next = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, &error);
  g_assert_no_error (error);
  gint64 *x = (gint64 *) ortrain_tensor_get_address (ids), *y = (gint64 *) ortrain_tensor_get_address (next);
  for (gint b = 0; b < BATCH; b++)
    {
      gint64 token = g_rand_int_range (rand, 0, N_TOKENS);
      for (gint i = 0; i < LENGTH; i++)
        {
          *x++ = token;
          token =
              g_rand_int_range (rand, 0, 8) == 0 ? g_rand_int_range (rand, 0, N_TOKENS) : (7 * token + 3) % N_TOKENS;
          *y++ = token;
        }
    }
  ortrain_tensor_dict_set (feeds, "input_ids", ids);
  ortrain_tensor_dict_set (feeds, "labels", next);
  return feeds;
}

static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new_gpt (NULL, N_TOKENS, LENGTH, 64, 2, 4, 1);
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainOptimizer *
make_optimizer (const char *kind, OrtrainStatePrecision precision)
{
  OrtrainOptimizer *optimizer = g_str_equal (kind, "sgd") ? ortrain_sgd_new (0.1)
                                : g_str_equal (kind, "momentum")
                                    ? g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.05, "momentum", 0.9, NULL)
                                : g_str_equal (kind, "adam") ? ortrain_adam_new (3e-3)
                                : g_str_equal (kind, "lamb") ? ortrain_lamb_new (1e-2)
                                                             : ortrain_adamw_new (3e-3);
  ortrain_optimizer_set_state_precision (optimizer, precision);
  return optimizer;
}

static OrtrainTrainingSession *
make_session (const char *kind, OrtrainStatePrecision precision, OrtrainPrecision numbers)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainOptimizer) optimizer = make_optimizer (kind, precision);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_precision (options, numbers);
  ortrain_training_options_add_loss (options, loss);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* Steps `first` to `end` - 1. Returns the mean of the last ten losses. */
static double
train (OrtrainTrainingSession *session, guint first, guint end)
{
  double sum = 0;
  for (guint s = first; s < end; s++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (s);
      const double loss = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      sum += s + 10 >= end ? loss : 0;
    }
  return sum / 10;
}

/* ---- bytes ---- */

static guint64
align (guint64 bytes)
{
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void
test_bytes (gconstpointer data)
{
  const char *kind = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (kind, ORTRAIN_STATE_PRECISION_INT8, ORTRAIN_PRECISION_F32);
  train (session, 0, 1);
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  const guint n_states = g_str_equal (kind, "sgd") ? 0 : g_str_equal (kind, "momentum") ? 1 : 2;
  guint64 bytes = 0, floats = 0;
  guint n_blocks = 0;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (parameters); i++)
    {
      const guint64 n = (guint64) ortrain_tensor_get_n_elements (ortrain_tensor_dict_get_tensor (parameters, i));
      bytes += n_states * align (n >= 4096 ? (n + 127) / 128 * 132 : 4 * n);
      floats += n_states * align (4 * n);
      n_blocks += n >= 4096;
    }
  g_assert_cmpuint (n_blocks, >=, 8);
  g_assert_true (n_states == 0 || bytes * 3 < floats);
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  g_autoptr (OrtrainMemoryReport) report = ortrain_training_session_get_memory_report (session);
  g_assert_cmpuint (ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_STATE), ==, bytes);
  g_assert_cmpuint (report->state, ==, bytes);
}

/* ---- checkpoints ---- */

static void
assert_same (OrtrainTensorDict *a, OrtrainTensorDict *b)
{
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), ==, ortrain_tensor_dict_get_size (b));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    {
      OrtrainTensor *x = ortrain_tensor_dict_get_tensor (a, i);
      OrtrainTensor *y = ortrain_tensor_dict_get (b, ortrain_tensor_dict_get_name (a, i));
      g_assert_cmpmem (ortrain_tensor_peek (x), ortrain_tensor_get_n_bytes (x), ortrain_tensor_peek (y),
                       ortrain_tensor_get_n_bytes (y));
    }
}

/* Saved in the middle, in sections of 8 bits; later steps have the bits of a run that was never stopped. */
static void
test_resume (gconstpointer data)
{
  const char *kind = data;
  const gboolean half = g_str_equal (kind, "half");
  const OrtrainPrecision numbers = half ? ORTRAIN_PRECISION_BF16 : ORTRAIN_PRECISION_F32;
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autoptr (OrtrainTrainingSession) whole = make_session (kind, ORTRAIN_STATE_PRECISION_INT8, numbers);
  train (whole, 0, 4);
  g_assert_true (ortrain_training_session_save_checkpoint (whole, folder, &error));
  train (whole, 4, 8);
  g_autoptr (OrtrainTrainingSession) resumed = make_session (kind, ORTRAIN_STATE_PRECISION_INT8, numbers);
  g_assert_true (ortrain_training_session_load_checkpoint (resumed, folder, &error));
  train (resumed, 4, 8);
  g_autoptr (OrtrainTensorDict) right = ortrain_training_session_get_parameters (whole, &error);
  g_autoptr (OrtrainTensorDict) got = ortrain_training_session_get_parameters (resumed, &error);
  g_assert_no_error (error);
  assert_same (got, right);

  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (folder, &error);
  g_assert_no_error (error);
  OrtrainTensorDict *states = ortrain_checkpoint_get_tensors (
      checkpoint, g_str_equal (kind, "momentum") ? "optimizer.momentum_buffer" : "optimizer.exp_avg");
  g_assert_nonnull (states);
  guint n_blocks = 0;
  gboolean any = FALSE;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (states); i++)
    {
      OrtrainTensor *state = ortrain_tensor_dict_get_tensor (states, i);
      OrtrainTensor *parameter = ortrain_tensor_dict_get (right, ortrain_tensor_dict_get_name (states, i));
      const gboolean blocks = ortrain_tensor_get_n_elements (parameter) >= 4096;
      g_assert_cmpint (ortrain_tensor_get_dtype (state), ==, blocks ? ORTRAIN_DTYPE_UINT8 : ORTRAIN_DTYPE_FLOAT32);
      n_blocks += blocks;
      const guint8 *codes = ortrain_tensor_peek (state);
      for (gsize k = 4; blocks && k < ORTRAIN_STATE_ROW; k++)
        any = any || codes[k] != 0;
    }
  g_assert_cmpuint (n_blocks, >=, 8);
  g_assert_true (any);

  /* not into a session with another precision, and the other way round; the session goes on as it was */
  g_autoptr (OrtrainTrainingSession) floats = make_session (kind, ORTRAIN_STATE_PRECISION_F32, numbers);
  train (floats, 0, 1);
  g_autoptr (OrtrainTensorDict) before = ortrain_training_session_get_parameters (floats, &error);
  g_assert_false (ortrain_training_session_load_checkpoint (floats, folder, &error));
  g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH);
  g_assert_nonnull (strstr (error->message, "uint8"));
  g_assert_nonnull (strstr (error->message, "state-precision int8"));
  g_clear_error (&error);
  g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_parameters (floats, &error);
  assert_same (after, before);
  g_assert_true (ortrain_training_session_save_checkpoint (floats, folder, &error));
  g_assert_false (ortrain_training_session_load_checkpoint (resumed, folder, &error));
  g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH);
  g_assert_nonnull (strstr (error->message, "state-precision f32"));
  test_remove_folder (folder);
}

/* ---- notes and refusals ---- */

static gboolean
has_note (OrtrainTrainingSession *session, const char *text)
{
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  for (guint i = 0; notes[i] != NULL; i++)
    if (strstr (notes[i], text) != NULL)
      return TRUE;
  return FALSE;
}

static void
test_notes (void)
{
  g_autoptr (OrtrainTrainingSession) blocks =
      make_session ("adamw", ORTRAIN_STATE_PRECISION_INT8, ORTRAIN_PRECISION_F32);
  g_autoptr (OrtrainTrainingSession) floats =
      make_session ("adamw", ORTRAIN_STATE_PRECISION_F32, ORTRAIN_PRECISION_F32);
  g_autoptr (OrtrainTrainingSession) none = make_session ("sgd", ORTRAIN_STATE_PRECISION_INT8, ORTRAIN_PRECISION_F32);
  g_assert_true (has_note (blocks, "8 bits"));
  g_assert_true (has_note (blocks, "'layer0.ln1.weight', "));
  g_assert_true (has_note (blocks, " others"));
  g_assert_false (has_note (blocks, "fc1.weight"));
  g_assert_false (has_note (floats, "8 bits"));
  g_assert_false (has_note (none, "8 bits")); /* there is no state */
}

static void
test_refused (void)
{
  for (guint custom = 0; custom < 2; custom++)
    {
      static GType type;
      if (custom && type == 0)
        {
          const GTypeInfo info = { .class_size = sizeof (OrtrainOptimizerClass),
                                   .instance_size = sizeof (OrtrainOptimizer) };
          type = g_type_register_static (ORTRAIN_TYPE_OPTIMIZER, "TestOwnOptimizer", &info, 0);
        }
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = make_model ();
      g_autoptr (OrtrainOptimizer) optimizer =
          g_object_new (custom ? type : ORTRAIN_TYPE_ADAGRAD, "state-precision", ORTRAIN_STATE_PRECISION_INT8, NULL);
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
      ortrain_training_options_set_optimizer (options, optimizer);
      ortrain_training_options_add_loss (options, loss);
      g_assert_null (ortrain_training_session_new (model, options, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_assert_nonnull (strstr (error->message, "state-precision"));
      g_assert_nonnull (strstr (error->message, custom ? "TestOwnOptimizer" : " Adagrad"));
    }
}

/* It counts when a session is created, also where the updates are decided on later. */
static void
test_set_later (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session =
      make_session ("adamw", ORTRAIN_STATE_PRECISION_INT8, ORTRAIN_PRECISION_F32);
  OrtrainTrainingOptions *options = ortrain_training_session_get_options (session);
  OrtrainOptimizer *optimizer = ortrain_training_options_get_optimizer (options);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (0);
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
  g_autoptr (OrtrainTrainingSession) other =
      make_session ("adamw", ORTRAIN_STATE_PRECISION_INT8, ORTRAIN_PRECISION_F32);
  train (other, 0, 1);
  ortrain_optimizer_set_state_precision (optimizer, ORTRAIN_STATE_PRECISION_F32);
  g_assert_cmpint (ortrain_optimizer_get_state_precision (optimizer), ==, ORTRAIN_STATE_PRECISION_F32);
  ortrain_training_options_set_memory_budget (options, 1 << 30); /* without one, a device with room keeps gradients */
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (history);
  g_autoptr (OrtrainMemoryReport) after = ortrain_training_session_get_memory_report (session);
  g_autoptr (OrtrainMemoryReport) right = ortrain_training_session_get_memory_report (other);
  g_assert_cmpuint (after->grad, ==, 0); /* updates are immediate, which was decided on with the first fit */
  g_assert_cmpuint (after->state, ==, right->state);
}

/* ---- training ---- */

typedef struct
{
  const char *kind;
  double below;    /* the limit for the loss, which begins at ln 97 = 4.6 */
  double distance; /* to the loss with a state in float32; measured: 0.0001, 0.0008, 0.0008, 0.0001 */
} Curve;

static void
test_training (gconstpointer data)
{
  const Curve *curve = data;
  g_autoptr (OrtrainTrainingSession) floats =
      make_session (curve->kind, ORTRAIN_STATE_PRECISION_F32, ORTRAIN_PRECISION_F32);
  g_autoptr (OrtrainTrainingSession) blocks =
      make_session (curve->kind, ORTRAIN_STATE_PRECISION_INT8, ORTRAIN_PRECISION_F32);
  const double right = train (floats, 0, 200), loss = train (blocks, 0, 200);
  g_test_message ("%s: loss %.4f with float32, %.4f with 8 bits", curve->kind, right, loss);
  g_assert_cmpfloat (right, <, curve->below);
  g_assert_cmpfloat (fabs (loss - right), >, 0); /* it is another training */
  g_assert_cmpfloat_with_epsilon (loss, right, curve->distance);
}

int
main (int argc, char *argv[])
{
  static const Curve curves[] = {
    { "momentum", 1.1, 0.001 },
    { "adam", 1.1, 0.003 },
    { "adamw", 1.1, 0.003 },
    { "lamb", 1.1, 0.001 },
  };
  static const char *const kinds[] = { "sgd", "momentum", "adam", "adamw", "lamb" };
  static const char *const resumed[] = { "momentum", "adamw", "lamb", "half" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree char *path = g_strconcat ("/block-states/bytes/", kinds[i], NULL);
      g_test_add_data_func (path, kinds[i], test_bytes);
    }
  for (guint i = 0; i < G_N_ELEMENTS (resumed); i++)
    {
      g_autofree char *path = g_strconcat ("/block-states/resume/", resumed[i], NULL);
      g_test_add_data_func (path, resumed[i], test_resume);
    }
  g_test_add_func ("/block-states/notes", test_notes);
  g_test_add_func ("/block-states/refused", test_refused);
  g_test_add_func ("/block-states/set-later", test_set_later);
  for (guint i = 0; i < G_N_ELEMENTS (curves); i++)
    {
      g_autofree char *path = g_strconcat ("/block-states/training/", curves[i].kind, NULL);
      g_test_add_data_func (path, &curves[i], test_training);
    }
  return g_test_run ();
}
