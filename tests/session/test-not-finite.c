/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"

#include "ortrain.h"
#include "session/ortrain-training-session-private.h"

#include <math.h>
#include <string.h>

/* Training that runs into values that are not finite: it stops, names the first of them, and changes nothing. */

#define N 32
#define FEATURES 4

typedef struct
{
  OrtrainTrainingSession *session;
  OrtrainTensor *x; /* [N, FEATURES] */
  OrtrainDataset *dataset;
} Case;

/* y = op (x · w), a mean squared error on y. */
static OrtrainModel *
make_model (const char *op)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("small");
  const gint64 dims[] = { FEATURES, 2 };
  g_autofree char *shape = g_strdup_printf ("n,%d", FEATURES);
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, shape);
  OrtrainValue *w = ortrain_graph_builder_add_filled (builder, "w", dims, 2, 0.5);
  OrtrainValue *h = ortrain_graph_builder_binary (builder, "MatMul", x, w);
  OrtrainValue *y = ortrain_graph_builder_unary (builder, op, h);
  ortrain_graph_builder_add_output (builder, y, "y");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static float *
floats (OrtrainTensor *tensor)
{
  return (float *) ortrain_tensor_get_address (tensor);
}

static void
set_up (Case *self, const char *op, double max_norm)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (op);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) sgd = ortrain_sgd_new (1e-3);
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  ortrain_training_options_set_optimizer (options, sgd);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_max_grad_norm (options, max_norm);
  ortrain_training_options_set_threads (options, 1);
  self->session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);

  const gint64 x_dims[] = { N, FEATURES }, y_dims[] = { N, 2 };
  g_autoptr (OrtrainTensorDict) all = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) target = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, y_dims, 2, &error);
  self->x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 2, &error);
  for (guint i = 0; i < N * FEATURES; i++)
    floats (self->x)[i] = 1.0f + (float) i / 64;
  ortrain_tensor_dict_set (all, "x", self->x);
  ortrain_tensor_dict_set (all, "target", target);
  self->dataset = ortrain_tensor_dataset_new (all, &error);
  g_assert_no_error (error);
}

static void
tear_down (Case *self)
{
  g_object_unref (self->session);
  g_object_unref (self->x);
  g_object_unref (self->dataset);
}

static OrtrainTrainer *
make_trainer (Case *self, guint epochs)
{
  OrtrainTrainer *trainer = ortrain_trainer_new (self->session, self->dataset);
  ortrain_trainer_set_batch_size (trainer, 8);
  ortrain_trainer_set_epochs (trainer, epochs);
  return trainer;
}

/* Fits, and asserts that it fails with these words. */
static void
assert_stops (OrtrainTrainer *trainer, const char *words)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
  g_assert_null (history);
  if (strstr (error->message, words) == NULL)
    g_error ("“%s” has no “%s”", error->message, words);
}

static void
assert_unchanged (Case *self, OrtrainTensor *before)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) now = ortrain_training_session_get_parameters (self->session, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (before, ortrain_tensor_dict_get (now, "w")));
}

static OrtrainTensor *
copy_weight (Case *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) now = ortrain_training_session_get_parameters (self->session, &error);
  OrtrainTensor *copy = ortrain_tensor_copy (ortrain_tensor_dict_get (now, "w"), &error);
  g_assert_no_error (error);
  return copy;
}

/* The number of the item is the one that it has in the dataset, whatever the order. */
static void
test_input (void)
{
  Case self;
  set_up (&self, "Relu", 0);
  floats (self.x)[19 * FEATURES + 2] = NAN;
  g_autoptr (OrtrainTrainer) trainer = make_trainer (&self, 1);
  ortrain_trainer_set_seed (trainer, 3);
  assert_stops (trainer, "Item 19 of the dataset: The loss of training step ");
  g_autoptr (OrtrainTrainer) ordered = make_trainer (&self, 1);
  ortrain_trainer_set_shuffle (ordered, FALSE);
  g_autoptr (OrtrainTensor) fresh G_GNUC_UNUSED = copy_weight (&self);
  assert_stops (ordered, " is nan: the input 'x' holds nan at index [3, 2]");
  /* the validation is held to the same */
  floats (self.x)[19 * FEATURES + 2] = 1;
  g_autoptr (OrtrainTrainer) validating = make_trainer (&self, 1);
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *all = ortrain_tensor_dataset_get_tensors (ORTRAIN_TENSOR_DATASET (self.dataset));
  g_autoptr (OrtrainTensorDict) other = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) bad = ortrain_tensor_copy (ortrain_tensor_dict_get (all, "target"), &error);
  floats (bad)[21] = -INFINITY;
  ortrain_tensor_dict_set (other, "x", self.x);
  ortrain_tensor_dict_set (other, "target", bad);
  g_autoptr (OrtrainDataset) held_out = ortrain_tensor_dataset_new (other, &error);
  ortrain_trainer_set_validation (validating, held_out);
  assert_stops (validating,
                "Item 10 of the dataset: The loss of the evaluation is inf: the target 'target' holds -inf");
  tear_down (&self);
}

static void
test_forward (void)
{
  Case self;
  set_up (&self, "Log", 0);
  memset (floats (self.x) + 5 * FEATURES, 0, FEATURES * sizeof (float));
  g_autoptr (OrtrainTrainer) trainer = make_trainer (&self, 1);
  ortrain_trainer_set_shuffle (trainer, FALSE);
  g_autoptr (OrtrainTensor) before = copy_weight (&self);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  ortrain_trainer_set_checkpoint_dir (trainer, folder);
  assert_stops (
      trainer,
      "The loss of training step 1 is inf: Log 'y': output 'y' is -inf at index [5, 0]; its inputs are finite");
  assert_unchanged (&self, before);
  g_assert_false (ortrain_checkpoint_exists (folder));
  test_remove_folder (folder);
  /* nothing is in the way of going on with other data */
  floats (self.x)[5 * FEATURES] = 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_n_epochs (history), ==, 1);
  tear_down (&self);
}

/* The loss is finite, the derivative of the root at 0 is not. */
static void
test_gradient (void)
{
  Case self;
  set_up (&self, "Sqrt", 1.0);
  memset (floats (self.x) + 5 * FEATURES, 0, FEATURES * sizeof (float));
  g_autoptr (OrtrainTensor) before = copy_weight (&self);
  g_autoptr (OrtrainTrainer) trainer = make_trainer (&self, 1);
  ortrain_trainer_set_shuffle (trainer, FALSE);
  assert_stops (trainer, "Update 1 was skipped: the gradient of parameter 'w' holds nan at index [0, 0]: Div");
  assert_unchanged (&self, before);
  ortrain_training_options_set_stop_on_nan (ortrain_training_session_get_options (self.session), FALSE);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingHistory) history G_GNUC_UNUSED = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_session_get_step (self.session), ==, 3); /* of four, one was left out */
  tear_down (&self);
}

/* Without clipping the gradients are not checked: their effect is found in the updated parameters. */
static void
test_update (void)
{
  g_autoptr (GError) error = NULL;
  Case self;
  set_up (&self, "Sqrt", 0);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "state", NULL);
  g_assert_true (ortrain_training_session_check_finite (self.session, &error));
  g_assert_true (ortrain_training_session_save_checkpoint (self.session, path, &error));
  g_autoptr (OrtrainTensor) before = copy_weight (&self);
  memset (floats (self.x) + (N - 1) * FEATURES, 0, FEATURES * sizeof (float));
  g_autoptr (OrtrainTrainer) trainer = make_trainer (&self, 1);
  ortrain_trainer_set_shuffle (trainer, FALSE);
  ortrain_trainer_set_checkpoint_dir (trainer, path);
  assert_stops (trainer, "Parameter 'w' holds nan at index [0, 0] after update 4");
  g_assert_false (ortrain_training_session_check_finite (self.session, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
  g_clear_error (&error);
  /* in the middle of training it is the next step that meets it */
  assert_stops (trainer,
                "The loss of training step 5 is nan: the parameter 'w' holds nan at index [0, 0] after update 4");
  /* asked to go on, it goes on, and still nothing is saved */
  ortrain_training_options_set_stop_on_nan (ortrain_training_session_get_options (self.session), FALSE);
  assert_stops (trainer, "No checkpoint was saved: Parameter 'w' holds nan");
  g_assert_true (ortrain_training_session_load_checkpoint (self.session, path, &error));
  assert_unchanged (&self, before);
  test_remove_folder (folder);
  tear_down (&self);
}

static OrtrainTrainingSession *
make_table_session (OrtrainOptimizer *optimizer, OrtrainDType dtype)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("table");
  const gint64 dims[] = { 4, 3 };
  g_autoptr (OrtrainTensor) table = ortrain_tensor_new (dtype, dims, 2, &error);
  OrtrainValue *ids = ortrain_graph_builder_add_input (builder, "ids", ORTRAIN_DTYPE_INT64, "n");
  OrtrainValue *w = ortrain_graph_builder_add_tensor (builder, "table", table);
  OrtrainValue *y = ortrain_graph_builder_binary (builder, "Gather", w, ids);
  ortrain_graph_builder_add_output (builder, y, "y");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_add_loss (options, loss);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static double
step_on_row (OrtrainTrainingSession *session, OrtrainDType dtype, gint64 row, double wanted, GError **error)
{
  const gint64 dims[] = { 1, 3 };
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) ids = ortrain_tensor_new_ints (dims, 1, &row, 1, NULL);
  g_autoptr (OrtrainTensor) target = ortrain_tensor_new (dtype, dims, 2, NULL);
  gpointer data = GSIZE_TO_POINTER (ortrain_tensor_get_address (target)); /* zeros */
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) data)[1] = (float) wanted;
  else
    ((double *) data)[1] = wanted;
  ortrain_tensor_dict_set (feeds, "ids", ids);
  ortrain_tensor_dict_set (feeds, "target", target);
  return ortrain_training_session_train_step (session, feeds, error);
}

/* An asynchronous device reports the outcome of an update in the next call. */
static gboolean
update (OrtrainTrainingSession *session, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  if (!ortrain_training_session_optimizer_step (session, error))
    return FALSE;
  ortrain_training_session_get_last_loss (session, &local_error);
  if (local_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

/* An update that ends in numbers that are not finite says so itself: the row that it broke may not be read again. */
static void
check_broken_update (OrtrainOptimizer *optimizer, OrtrainDType dtype, double wanted, const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_table_session (optimizer, dtype);
  g_assert_true (isfinite (step_on_row (session, dtype, 0, 0.5, &error)));
  update (session, &error);
  if (wanted != 0)
    {
      g_assert_no_error (error);
      g_assert_true (isfinite (step_on_row (session, dtype, 2, wanted, &error)));
      g_assert_no_error (error);
      g_assert_false (update (session, &error));
    }
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
  g_test_message ("%s", error->message);
  /* an infinite learning rate breaks rows without gradients too */
  g_autofree char *where =
      g_strdup_printf (wanted != 0 ? "at index [2, 1] after update 2: %s" : " after update 1: %s", reason);
  g_assert_true (g_str_has_prefix (error->message, "Parameter 'table' holds "));
  if (strstr (error->message, where) == NULL)
    g_error ("“%s” has no “%s”", error->message, where);
  g_assert_cmpuint (ortrain_training_session_get_step (session), ==, wanted != 0 ? 2 : 1);
  /* without the option it is the user's to look */
  g_clear_error (&error);
  ortrain_training_options_set_stop_on_nan (ortrain_training_session_get_options (session), FALSE);
  step_on_row (session, dtype, 1, 0.5, &error);
  g_assert_true (update (session, &error));
  g_assert_no_error (error);
  g_assert_false (ortrain_training_session_check_finite (session, NULL));
}

static void
test_broken_update (void)
{
  /* LAMB leaves out elements of which nothing finite would come */
  const char *const types[] = { "OrtrainSgd", "OrtrainAdam", "OrtrainAdamW", "OrtrainAdagrad" };
  for (guint i = 0; i < 2; i++)
    {
      const OrtrainDType dtype = i == 0 ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_FLOAT64;
      g_autoptr (OrtrainOptimizer) sgd = ortrain_sgd_new (i == 0 ? 1e37 : 1e300);
      check_broken_update (sgd, dtype, i == 0 ? 1e4 : 1e10, "its gradient is finite, and the learning rate is 1e+3");
    }
  for (guint k = 0; k < G_N_ELEMENTS (types); k++)
    {
      g_autoptr (OrtrainOptimizer) optimizer = g_object_new (k == 0   ? ORTRAIN_TYPE_SGD
                                                             : k == 1 ? ORTRAIN_TYPE_ADAM
                                                             : k == 2 ? ORTRAIN_TYPE_ADAMW
                                                                      : ORTRAIN_TYPE_ADAGRAD,
                                                             "learning-rate", 1e300, NULL);
      g_test_message ("%s", types[k]);
      check_broken_update (optimizer, ORTRAIN_DTYPE_FLOAT32, 0, "its gradient is finite, and the learning rate is ");
    }
}

/* A constant of -inf is mostly a mask: the message also names the node that computes NaN from it. */
static void
test_mask (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("masked");
  const gint64 dims[] = { 1, 2 };
  const float mask[] = { -INFINITY, -INFINITY };
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "n,2");
  OrtrainValue *w = ortrain_graph_builder_add_filled (builder, "w", dims, 2, 0.5);
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (dims, 2, mask, 2, &error);
  OrtrainValue *m = ortrain_graph_builder_add_tensor (builder, "mask", tensor);
  OrtrainValue *h = ortrain_graph_builder_add (builder, ortrain_graph_builder_binary (builder, "Mul", x, w), m);
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_softmax (builder, h, -1), "y");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  ortrain_training_options_add_loss (options, loss);
  const char *const trainable[] = { "w", NULL };
  ortrain_training_options_set_trainable (options, trainable);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, (const gint64[]){ 3, 2 }, 2, &error);
  ortrain_tensor_dict_set (feeds, "x", zeros);
  ortrain_tensor_dict_set (feeds, "target", zeros);
  g_assert_true (isnan (ortrain_training_session_train_step (session, feeds, &error)));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
  g_assert_nonnull (strstr (error->message, "the constant 'mask' holds -inf at index [0, 0]; Softmax"));
  g_assert_nonnull (strstr (error->message, "computes nan from it"));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/not-finite/input", test_input);
  g_test_add_func ("/not-finite/forward", test_forward);
  g_test_add_func ("/not-finite/gradient", test_gradient);
  g_test_add_func ("/not-finite/update", test_update);
  g_test_add_func ("/not-finite/broken-update", test_broken_update);
  g_test_add_func ("/not-finite/mask", test_mask);
  return g_test_run ();
}
