/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/fixture.h"

#include <math.h>

/* The contents of a session, seen from outside: copies that the host reads, whatever the device; and contents that are
 * written into it. */

typedef struct
{
  TestModel *model;
  OrtrainTrainingOptions *options;
  OrtrainTrainingSession *session;
} Fixture;

static void
set_up (Fixture *f, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  f->model = test_model_load (name);
  f->options = test_model_make_options (f->model, "sgd");
  f->session = ortrain_training_session_new (f->model->model, f->options, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *f, gconstpointer name)
{
  g_clear_object (&f->session);
  g_object_unref (f->options);
  test_model_free (f->model);
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
train (Fixture *f, guint step)
{
  g_autoptr (GError) error = NULL;
  ortrain_training_session_train_step (f->session, test_model_feeds (f->model, step), &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (f->session, &error));
  g_assert_no_error (error);
}

static OrtrainTensorDict *
evaluate (Fixture *f)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *outputs = ortrain_training_session_eval_step (f->session, f->model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  return outputs;
}

/* Adds `add` to each float. */
static OrtrainTensor *
add_to (OrtrainTensor *tensor, float add)
{
  OrtrainTensor *sum = ortrain_tensor_copy (tensor, NULL);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (sum); i++)
    ((float *) ortrain_tensor_get_address (sum))[i] += add;
  return sum;
}

static void
assert_other_bits (OrtrainTensorDict *a, OrtrainTensorDict *b, const char *name)
{
  g_assert_false (ortrain_tensor_equal (ortrain_tensor_dict_get (a, name), ortrain_tensor_dict_get (b, name)));
}

/* Before anything has run, a session has the contents of the model. */
static void
test_initial (Fixture *f, gconstpointer name)
{
  OrtrainGraph *graph = ortrain_model_get_graph (f->model->model, NULL);
  g_autoptr (OrtrainTensorDict) state = get_state (f->session);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (state), >, 8);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (state), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (state); i++)
    g_assert_true (ortrain_tensor_equal (
        ortrain_tensor_dict_get_tensor (state, i),
        ortrain_value_get_tensor (ortrain_graph_find_value (graph, ortrain_tensor_dict_get_name (state, i)))));
}

static void
test_get (Fixture *f, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  train (f, 0);
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (f->session, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) before = get_state (f->session), again = get_state (f->session);
  g_assert_false (ortrain_tensor_dict_contains (parameters, "body.1.running_mean"));
  g_assert_true (ortrain_tensor_dict_contains (before, "body.1.running_mean"));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (parameters), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (parameters); i++)
    {
      OrtrainTensor *copy = ortrain_tensor_dict_get_tensor (parameters, i);
      g_assert_true (
          ortrain_tensor_equal (copy, ortrain_tensor_dict_get (before, ortrain_tensor_dict_get_name (parameters, i))));
      memset ((gpointer) ortrain_tensor_get_address (copy), 0, ortrain_tensor_get_n_bytes (copy));
    }
  g_autoptr (OrtrainTensorDict) after = get_state (f->session);
  test_assert_same_bits (before, after); /* copies were cleared */
  train (f, 1);
  test_assert_same_bits (before, again); /* and do not follow */
  g_autoptr (OrtrainTensorDict) moved = get_state (f->session);
  assert_other_bits (moved, before, "body.0.weight");
}

/* Before the first step or after it, parameters and buffers can be set: some of them, or none if one does not fit. */
static void
test_set (Fixture *f, gconstpointer name)
{
  for (guint step = 0; step < 2; step++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensorDict) outputs = evaluate (f), before = get_state (f->session);
      g_autoptr (OrtrainTensorDict) some = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) bias = add_to (ortrain_tensor_dict_get (before, "body.11.bias"), 1);
      g_autoptr (OrtrainTensor) mean = add_to (ortrain_tensor_dict_get (before, "body.1.running_mean"), 0.5);
      g_autoptr (OrtrainTensor) wrong = ortrain_tensor_slice_rows (bias, 0, 1, &error);
      ortrain_tensor_dict_set (some, "body.11.bias", bias);
      ortrain_tensor_dict_set (some, "body.1.running_mean", wrong);
      g_assert_false (ortrain_training_session_set_parameters (f->session, some, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
      g_clear_error (&error);
      g_autoptr (OrtrainTensorDict) same = get_state (f->session);
      test_assert_same_bits (before, same);

      ortrain_tensor_dict_set (some, "body.1.running_mean", mean);
      g_assert_true (ortrain_training_session_set_state (f->session, some, &error));
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) after = get_state (f->session), others = evaluate (f);
      g_assert_cmpuint (ortrain_tensor_dict_get_size (after), >, 0);
      for (guint i = 0; i < ortrain_tensor_dict_get_size (after); i++)
        {
          const char *which = ortrain_tensor_dict_get_name (after, i);
          OrtrainTensor *want = ortrain_tensor_dict_get (some, which);
          g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (after, i),
                                               want != NULL ? want : ortrain_tensor_dict_get (before, which)));
        }
      assert_other_bits (outputs, others, ortrain_tensor_dict_get_name (outputs, 0));

      g_assert_true (ortrain_training_session_set_state (f->session, before, &error));
      g_autoptr (OrtrainTensorDict) back = evaluate (f);
      test_assert_same_bits (outputs, back);
      train (f, step);
    }
}

/* A parameter goes to another library by DLPack, outlives the session, and comes back. */
static void
test_dlpack (Fixture *f, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  train (f, 0);
  g_autoptr (OrtrainTensorDict) before = get_state (f->session);
  gpointer managed = ortrain_tensor_to_dlpack (ortrain_tensor_dict_get (before, "body.9.weight"), &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) theirs = ortrain_tensor_new_from_dlpack (managed, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (theirs, &error);
  g_clear_object (&before);
  train (f, 1);
  g_assert_true (ortrain_tensor_equal (theirs, copy));

  g_autoptr (OrtrainTensorDict) one = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (one, "body.9.weight", theirs);
  g_assert_true (ortrain_training_session_set_parameters (f->session, one, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) after = get_state (f->session);
  g_clear_object (&f->session);
  g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (after, "body.9.weight"), copy));
  g_assert_true (ortrain_tensor_equal (theirs, copy));
}

/* Running statistics move with each step, to the bits of the CPU, and not at all where the step fails. */
static void
test_running_statistics (Fixture *f, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (f->model, "sgd");
  ortrain_training_options_set_provider (options, "cpu");
  g_autoptr (OrtrainTrainingSession) cpu = ortrain_training_session_new (f->model->model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) last = get_state (f->session);
  g_autoptr (OrtrainTensorDict) wrong = ortrain_tensor_dict_new ();
  OrtrainTensorDict *feeds = test_model_feeds (f->model, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (feeds, i);
      g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (tensor, &error);
      if (ortrain_tensor_get_dtype (copy) == ORTRAIN_DTYPE_INT64)
        *(gint64 *) ortrain_tensor_get_address (copy) = 1000; /* no such class */
      ortrain_tensor_dict_set (wrong, ortrain_tensor_dict_get_name (feeds, i), copy);
    }
  for (guint step = 0; step < 3; step++)
    {
      ortrain_training_session_train_step (f->session, test_model_feeds (f->model, step), &error);
      g_assert_no_error (error);
      ortrain_training_session_train_step (cpu, test_model_feeds (f->model, step), &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) here = get_state (f->session), there = get_state (cpu);
      test_assert_same_bits (here, there);
      assert_other_bits (here, last, "body.1.running_mean");
      assert_other_bits (here, last, "body.1.running_var");

      g_assert_true (isnan (ortrain_training_session_train_step (f->session, wrong, &error)));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
      g_clear_error (&error);
      g_autoptr (OrtrainTensorDict) after = get_state (f->session);
      test_assert_same_bits (here, after);
      g_set_object (&last, here);
    }
}

/* The row of padding of a table that is looked up keeps its contents, and its gradient is zero. */
static void
test_padding_row (gconstpointer data)
{
  enum
  {
    ROW = 3,
    WIDTH = 4
  };
  const gboolean immediate = GPOINTER_TO_INT (data);
  const gint64 dims[] = { 2, 5 }, label_dims[] = { 2 };
  const gint64 ids[] = { ROW, 1, ROW, 2, 0, 4, ROW, ROW, 1, 2 }, labels[] = { 0, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("table");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "ids", ORTRAIN_DTYPE_INT64, "n,5");
  x = ortrain_graph_builder_embedding (builder, x, "table", 6, WIDTH);
  x = ortrain_graph_builder_flatten (builder, x);
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_linear (builder, x, "fc", 3, TRUE), "logits");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (0.1);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  g_object_set (optimizer, "weight-decay", 0.0, NULL);
  ortrain_training_options_set_padding_row (options, "table.weight", ROW);
  ortrain_training_options_set_immediate_updates (options, immediate);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new (), before = get_state (session);
  g_autoptr (OrtrainTensor) id_tensor = ortrain_tensor_new_ints (dims, 2, ids, G_N_ELEMENTS (ids), &error);
  g_autoptr (OrtrainTensor) label_tensor =
      ortrain_tensor_new_ints (label_dims, 1, labels, G_N_ELEMENTS (labels), &error);
  ortrain_tensor_dict_set (feeds, "ids", id_tensor);
  ortrain_tensor_dict_set (feeds, "labels", label_tensor);
  for (guint step = 0; step < 3; step++)
    {
      ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) gradients =
          immediate ? NULL : ortrain_training_session_get_gradients (session, &error);
      g_assert_no_error (error);
      for (gint64 i = 0; i < 6 * WIDTH && !immediate; i++)
        {
          const double element = ortrain_tensor_get_scalar (ortrain_tensor_dict_get (gradients, "table.weight"), i);
          g_assert_true ((element == 0) == (i / WIDTH == ROW || i / WIDTH == 5)); /* 5 is nowhere */
        }
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_assert_no_error (error);
    }
  g_autoptr (OrtrainTensorDict) after = get_state (session);
  for (gint64 i = 0; i < 6 * WIDTH; i++)
    {
      const gboolean same = ortrain_tensor_get_scalar (ortrain_tensor_dict_get (after, "table.weight"), i) ==
                            ortrain_tensor_get_scalar (ortrain_tensor_dict_get (before, "table.weight"), i);
      g_assert_true (same == (i / WIDTH == ROW || i / WIDTH == 5));
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, function) g_test_add (path, Fixture, "cnn", set_up, function, tear_down)
  ADD ("/contents/initial", test_initial);
  ADD ("/contents/get", test_get);
  ADD ("/contents/set", test_set);
  ADD ("/contents/dlpack", test_dlpack);
  ADD ("/contents/running-statistics", test_running_statistics);
  g_test_add_data_func ("/contents/padding-row", GINT_TO_POINTER (FALSE), test_padding_row);
  g_test_add_data_func ("/contents/padding-row/immediate", GINT_TO_POINTER (TRUE), test_padding_row);
  return g_test_run ();
}
