/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "device/late-counters.h"
#include "session/fixture.h"

#include "tensor/ortrain-tensor-private.h"

/* The work that a session submits to an asynchronous device, and when it waits: it is run with
 * ORTRAIN_PROVIDER=late. */

static GModule *module;

static void
count_report (OrtrainTrainingSession *session, OrtrainMemoryReport *report, guint *n)
{
  ++*n;
}

static OrtrainTrainingSession *
make_session (TestModel *model, const char *provider)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, provider);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTensorDict *
take_state (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  return state;
}

static double
train (OrtrainTrainingSession *session, OrtrainTensorDict *feeds)
{
  g_autoptr (GError) error = NULL;
  const double loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  return loss;
}

static void
update (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  ortrain_training_session_optimizer_step (session, &error);
  g_assert_no_error (error);
}

/* Forward and backward are one range of calls, and the host waits for three events: the end of the update before, the
 * copies from the place of the feeds two steps before, and the loss. With a handler of a phase, each phase is a range
 * of its own; the numbers are the same. */
static void
test_train_step (void)
{
  static const char *const names[] = { "cnn", "bert", "lstm" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (TestModel) model = test_model_load (names[i]);
      g_autoptr (OrtrainTrainingSession) cpu = make_session (model, "cpu"), late = make_session (model, "late");
      g_autoptr (OrtrainTrainingSession) watched = make_session (model, "late");
      guint n_reports = 0;
      g_signal_connect (watched, "post-forward", G_CALLBACK (count_report), &n_reports);
      for (guint step = 0; step < 8; step++)
        {
          OrtrainTensorDict *feeds = test_model_feeds (model, step);
          const double want = train (cpu, feeds);
          LateCounters before = late_get_counters (module);
          g_assert_cmpfloat (train (late, feeds), ==, want);
          LateCounters found = late_count (module, before);
          g_assert_cmpint (found.waits, ==, step == 0 ? found.waits : 0);
          g_assert_cmpint (found.awaited_events, ==, MIN (step + 1, 3));
          g_assert_cmpint (found.captures, ==, step == 1 || step == 2 ? 1 : 0); /* for each place of the feeds */
          g_assert_cmpint (found.launches, ==, step == 0 ? 0 : 1);
          before = late_get_counters (module);
          g_assert_cmpfloat (train (watched, feeds), ==, want);
          found = late_count (module, before);
          g_assert_cmpuint (n_reports, ==, step + 1);
          g_assert_cmpint (found.launches, ==, step == 0 ? 0 : 2);
          g_assert_cmpint (found.waits, >=, 2);
          update (cpu);
          update (late);
          update (watched);
        }
      g_autoptr (OrtrainTensorDict) want = take_state (cpu), found = take_state (late), other = take_state (watched);
      test_assert_same_bits (found, want);
      test_assert_same_bits (other, want);
    }
}

/* ---- steps that are submitted whole ---- */

/* The options of a session on which a step and its update depend. */
typedef struct
{
  const char *model;
  guint n_ranges;                     /* 2: rows of padding are put to zero between gradients and update */
  gboolean immediate, clips, goes_on; /* goes_on: with numbers that are not finite */
  OrtrainPrecision precision;
} Form;

static const Form forms[] = {
  { "cnn", 1 },
  { "bert", 2 },
  { "lstm", 1 },
  { "cnn", 1, .immediate = TRUE },
  { "bert", 2, .immediate = TRUE },
  { "cnn", 1, .clips = TRUE },
  { "bert", 2, .clips = TRUE, .goes_on = TRUE },
  { "cnn", 1, .precision = ORTRAIN_PRECISION_BF16 },
  { "bert", 2, .precision = ORTRAIN_PRECISION_FP16 },
};

static OrtrainTrainingSession *
make_session_of_form (TestModel *model, const Form *form, const char *provider)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, provider);
  ortrain_training_options_set_precision (options, form->precision);
  ortrain_training_options_set_max_grad_norm (options, form->clips ? 0.5 : 0);
  ortrain_training_options_set_stop_on_nan (options, !form->goes_on);
  ortrain_training_options_set_immediate_updates (options, form->immediate ? ORTRAIN_IMMEDIATE_UPDATES_ON
                                                                           : ORTRAIN_IMMEDIATE_UPDATES_OFF);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* The first n_rows of each tensor, in memory of its own. */
static OrtrainTensorDict *
copy_feeds (OrtrainTensorDict *feeds, gint64 n_rows)
{
  OrtrainTensorDict *copy = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      g_autoptr (GError) error = NULL;
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (feeds, i);
      const guint rank = (guint) ortrain_tensor_get_rank (tensor);
      gint64 dims[8];
      for (guint k = 0; k < rank; k++)
        dims[k] = ortrain_tensor_get_dim (tensor, k);
      if (n_rows > 0 && rank > 0)
        dims[0] = MIN (dims[0], n_rows);
      g_autoptr (OrtrainTensor) part =
          ortrain_tensor_new_uninitialized (ortrain_tensor_get_dtype (tensor), dims, rank, &error);
      g_assert_no_error (error);
      memcpy (ortrain_tensor_peek_writable (part), ortrain_tensor_peek (tensor), ortrain_tensor_get_n_bytes (part));
      ortrain_tensor_dict_set (copy, ortrain_tensor_dict_get_name (feeds, i), part);
    }
  return copy;
}

/* Changes that the caller may make as soon as a step is submitted. */
static void
spoil (OrtrainTensorDict *feeds)
{
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (feeds, i);
      memset (ortrain_tensor_peek_writable (tensor), 0xff, ortrain_tensor_get_n_bytes (tensor));
    }
}

static void
submit (OrtrainTrainingSession *session, OrtrainTensorDict *feeds)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) copy = copy_feeds (feeds, 0);
  ortrain_training_session_train_and_update (session, copy, &error);
  g_assert_no_error (error);
  spoil (copy);
}

static double
get_loss (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  const double loss = ortrain_training_session_get_last_loss (session, &error);
  g_assert_no_error (error);
  return loss;
}

static void
assert_same_counts (OrtrainTrainingSession *a, OrtrainTrainingSession *b)
{
  g_assert_cmpuint (ortrain_training_session_get_step (a), ==, ortrain_training_session_get_step (b));
  g_assert_cmpuint (ortrain_training_session_get_n_train_steps (a), ==, ortrain_training_session_get_n_train_steps (b));
  g_assert_cmpuint (ortrain_training_session_get_n_overflows (a), ==, ortrain_training_session_get_n_overflows (b));
  g_assert_cmpfloat (ortrain_training_session_get_loss_scale (a), ==, ortrain_training_session_get_loss_scale (b));
  const double norms[] = { ortrain_training_session_get_last_gradient_norm (a),
                           ortrain_training_session_get_last_gradient_norm (b) };
  g_assert_cmpmem (&norms[0], sizeof (double), &norms[1], sizeof (double));
}

/* Steps are one range of calls that is started without waiting, whether somebody reads the loss of each or not. */
static void
test_submitted (gconstpointer data)
{
  const Form *form = data;
  g_autoptr (TestModel) model = test_model_load (form->model);
  g_autoptr (OrtrainTrainingSession) cpu = make_session_of_form (model, form, "cpu");
  g_autoptr (OrtrainTrainingSession) late = make_session_of_form (model, form, "late");
  g_autoptr (OrtrainTrainingSession) read = make_session_of_form (model, form, "late");
  for (guint step = 0; step < 12; step++)
    {
      OrtrainTensorDict *feeds = test_model_feeds (model, step);
      const double want = train (cpu, feeds);
      update (cpu);
      LateCounters before = late_get_counters (module);
      submit (late, feeds);
      LateCounters found = late_count (module, before);
      g_assert_cmpint (found.waits, ==, step == 0 ? found.waits : 0);
      g_assert_cmpint (found.captures, ==, step == 1 || step == 2 ? form->n_ranges : 0);
      g_assert_cmpint (found.launches, ==, step > 0 ? form->n_ranges : 0);
      submit (read, feeds);
      before = late_get_counters (module);
      g_assert_cmpfloat (get_loss (read), ==, want);
      found = late_count (module, before);
      g_assert_cmpint (found.waits, ==, 0);
      g_assert_cmpint (found.awaited_events, ==, 1);
    }
  g_assert_cmpfloat (get_loss (late), ==, get_loss (read));
  assert_same_counts (late, cpu);
  assert_same_counts (read, cpu);
  g_autoptr (OrtrainTensorDict) want = take_state (cpu), found = take_state (late), other = take_state (read);
  test_assert_same_bits (found, want);
  test_assert_same_bits (other, want);
}

/* Each phase is started by itself where a handler is connected, and the update of its own where the two are called. */
static void
test_phases (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) watched = make_session (model, "late"), apart = make_session (model, "late");
  guint n_reports = 0;
  g_signal_connect (watched, "post-update", G_CALLBACK (count_report), &n_reports);
  for (guint step = 0; step < 6; step++)
    {
      LateCounters before = late_get_counters (module);
      submit (watched, test_model_feeds (model, step));
      g_assert_cmpint (late_count (module, before).launches, ==, step > 0 ? 3 : 0);
      g_assert_cmpuint (n_reports, ==, step + 1);
      before = late_get_counters (module);
      train (apart, test_model_feeds (model, step));
      g_assert_cmpint (late_count (module, before).waits, ==, step > 0 ? 0 : late_count (module, before).waits);
      g_assert_cmpint (late_count (module, before).awaited_events, ==, MIN (step + 1, 3));
      before = late_get_counters (module);
      update (apart);
      g_assert_cmpint (late_count (module, before).waits, ==, 0);
      g_assert_cmpint (late_count (module, before).awaited_events, ==, 0);
    }
  g_autoptr (OrtrainTensorDict) a = take_state (watched), b = take_state (apart);
  test_assert_same_bits (a, b);
}

/* A range of calls is captured for each shape and each of two places of the feeds, and again when its addresses change.
 */
static void
test_shapes (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) cpu = make_session (model, "cpu"), late = make_session (model, "late");
  const LateCounters before = late_get_counters (module);
  for (guint step = 0; step < 16; step++)
    {
      /* the largest comes first, then the memory stays where it is */
      g_autoptr (OrtrainTensorDict) feeds = copy_feeds (test_model_feeds (model, step), step % 2 ? 2 : 0);
      train (cpu, feeds);
      update (cpu);
      submit (late, feeds);
    }
  g_assert_cmpint (late_count (module, before).captures, ==, 4);
  g_assert_cmpint (late_count (module, before).launches, ==, 14);
  g_autoptr (OrtrainTensorDict) want = take_state (cpu), found = take_state (late);
  test_assert_same_bits (found, want);

  /* a larger batch moves the memory of a step: the range is captured anew */
  g_autoptr (OrtrainTrainingSession) grown = make_session (model, "late");
  g_autoptr (OrtrainTensorDict) small = copy_feeds (test_model_feeds (model, 0), 1);
  const LateCounters start = late_get_counters (module);
  for (guint step = 0; step < 4; step++)
    submit (grown, small);
  submit (grown, test_model_feeds (model, 0));
  for (guint step = 0; step < 4; step++)
    submit (grown, small);
  get_loss (grown);
  g_assert_cmpint (late_count (module, start).captures, ==, 4);
  g_assert_cmpint (late_count (module, start).launches, ==, 6);
}

/* ---- failures ---- */

typedef enum
{
  FAIL_LABEL,
  FAIL_NAN,
  N_FAILURES,
} Failure;

/* Feeds that no step can use. */
static OrtrainTensorDict *
make_bad_feeds (TestModel *model, guint step, Failure failure)
{
  OrtrainTensorDict *feeds = copy_feeds (test_model_feeds (model, step), 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (feeds, i);
      if (failure == FAIL_LABEL && ortrain_tensor_get_dtype (tensor) == ORTRAIN_DTYPE_INT64)
        ((gint64 *) ortrain_tensor_peek_writable (tensor))[1] = 1000;
      if (failure == FAIL_NAN && ortrain_tensor_get_dtype (tensor) == ORTRAIN_DTYPE_FLOAT32)
        ((float *) ortrain_tensor_peek_writable (tensor))[3] = NAN;
    }
  return feeds;
}

/* The error of a step is found after the next one, has the same message as elsewhere, and neither step has had an
 * effect. */
static void
test_failures (gconstpointer data)
{
  const Form *form = data;
  g_autoptr (TestModel) model = test_model_load (form->model);
  for (guint failure = 0; failure < N_FAILURES; failure++)
    for (guint n_later = 0; n_later < 3; n_later++)
      {
        g_autoptr (OrtrainTrainingSession) cpu = make_session_of_form (model, form, "cpu");
        g_autoptr (OrtrainTrainingSession) late = make_session_of_form (model, form, "late");
        g_autoptr (GError) want = NULL, error = NULL;
        for (guint step = 0; step < 3; step++)
          {
            train (cpu, test_model_feeds (model, step));
            update (cpu);
            submit (late, test_model_feeds (model, step));
          }
        g_autoptr (OrtrainTensorDict) bad = make_bad_feeds (model, 3, (Failure) failure);
        g_assert_true (isnan (ortrain_training_session_train_step (cpu, bad, &want)));
        g_assert_nonnull (want);
        g_autoptr (OrtrainTensorDict) copy = copy_feeds (bad, 0);
        g_assert_true (ortrain_training_session_train_and_update (late, copy, &error));
        g_assert_no_error (error);
        spoil (copy);
        guint n = 0;
        while (n < n_later && ortrain_training_session_train_and_update (late, test_model_feeds (model, 4 + n), &error))
          n++;
        g_assert_cmpuint (n, ==, MIN (n_later, 1)); /* the second waits for the one that failed */
        if (error == NULL)
          ortrain_training_session_get_last_loss (late, &error);
        g_assert_error (error, want->domain, want->code);
        g_assert_cmpstr (error->message, ==, want->message);
        assert_same_counts (late, cpu);
        g_autoptr (OrtrainTensorDict) before = take_state (cpu), kept = take_state (late);
        test_assert_same_bits (kept, before);
        for (guint step = 0; step < 3; step++)
          {
            train (cpu, test_model_feeds (model, step));
            update (cpu);
            submit (late, test_model_feeds (model, step));
          }
        g_autoptr (OrtrainTensorDict) after = take_state (cpu), found = take_state (late);
        test_assert_same_bits (found, after);
      }
}

/* An update that breaks parameters has happened, and steps submitted after it have not. */
static void
test_broken_parameters (gconstpointer data)
{
  const Form *form = data;
  g_autoptr (TestModel) model = test_model_load (form->model);
  for (guint n_later = 0; n_later < 2; n_later++)
    {
      OrtrainTrainingSession *sessions[2];
      g_autoptr (GError) want = NULL, error = NULL;
      for (guint k = 0; k < 2; k++)
        {
          sessions[k] = make_session_of_form (model, form, k == 0 ? "cpu" : "late");
          submit (sessions[k], test_model_feeds (model, 0));
          get_loss (sessions[k]);
          ortrain_optimizer_set_learning_rate (
              ortrain_training_options_get_optimizer (ortrain_training_session_get_options (sessions[k])), 3e38);
        }
      train (sessions[0], test_model_feeds (model, 1));
      g_assert_false (ortrain_training_session_optimizer_step (sessions[0], &want));
      g_assert_error (want, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
      submit (sessions[1], test_model_feeds (model, 1));
      if (n_later > 0)
        submit (sessions[1], test_model_feeds (model, 2));
      ortrain_training_session_get_last_loss (sessions[1], &error);
      g_assert_error (error, want->domain, want->code);
      /* by then, the gradients are those of the step after it */
      const char *end = n_later > 0 ? strstr (want->message, "its gradient") : NULL;
      g_assert_cmpint (strncmp (error->message, want->message, end != NULL ? (gsize) (end - want->message) : G_MAXSIZE),
                       ==, 0);
      assert_same_counts (sessions[1], sessions[0]);
      g_autoptr (OrtrainTensorDict) a = take_state (sessions[0]), b = take_state (sessions[1]);
      test_assert_same_bits (b, a);
      g_object_unref (sessions[0]);
      g_object_unref (sessions[1]);
    }
}

/* y = sqrt (x · w), of [n, 2], with clipping */
static OrtrainTrainingSession *
make_root (const char *provider)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("root");
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  const gint64 dims[] = { 2, 2 };
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "n,2");
  OrtrainValue *w = ortrain_graph_builder_add_filled (builder, "w", dims, 2, 0.5);
  OrtrainValue *y =
      ortrain_graph_builder_unary (builder, "Sqrt", ortrain_graph_builder_binary (builder, "MatMul", x, w));
  ortrain_graph_builder_add_output (builder, y, "y");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_max_grad_norm (options, 1);
  ortrain_training_options_set_provider (options, provider);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* Gradients that are not finite although the loss is: with clipping, the update is skipped, and so is the step after
 * it. */
static void
test_broken_gradients (void)
{
  for (guint n_later = 0; n_later < 2; n_later++)
    {
      g_autoptr (OrtrainTrainingSession) cpu = make_root ("cpu"), late = make_root ("late");
      g_autoptr (GError) want = NULL, error = NULL;
      const gint64 dims[] = { 2, 2 };
      const float good[] = { 1, 2, 3, 4 }, bad[] = { 1, 2, 0, 0 };
      g_autoptr (OrtrainTensorDict) usable = ortrain_tensor_dict_new (), broken = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) a = ortrain_tensor_new_floats (dims, 2, good, 4, &error);
      g_autoptr (OrtrainTensor) b = ortrain_tensor_new_floats (dims, 2, bad, 4, &error);
      g_assert_no_error (error);
      ortrain_tensor_dict_set (usable, "x", a);
      ortrain_tensor_dict_set (usable, "target", a);
      ortrain_tensor_dict_set (broken, "x", b);
      ortrain_tensor_dict_set (broken, "target", a);
      submit (cpu, usable);
      submit (late, usable);
      train (cpu, broken);
      g_assert_false (ortrain_training_session_optimizer_step (cpu, &want));
      submit (late, broken);
      if (n_later > 0)
        submit (late, usable);
      ortrain_training_session_get_last_loss (late, &error);
      g_assert_error (error, want->domain, want->code);
      g_assert_cmpstr (error->message, ==, want->message);
      assert_same_counts (late, cpu);
      g_autoptr (OrtrainTensorDict) before = take_state (cpu), kept = take_state (late);
      test_assert_same_bits (kept, before);
    }
}

/* With a loss scale, a skipped update changes the next one. */
static void
test_overflow (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  OrtrainTrainingSession *sessions[2];
  for (guint k = 0; k < 2; k++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      g_autoptr (OrtrainLossScaler) scaler = ortrain_loss_scaler_new ();
      ortrain_loss_scaler_set_initial_scale (scaler, 0x1p40);
      ortrain_loss_scaler_set_maximum_scale (scaler, 0x1p40);
      ortrain_training_options_set_loss_scaler (options, scaler);
      ortrain_training_options_set_precision (options, ORTRAIN_PRECISION_FP16);
      ortrain_training_options_set_provider (options, k == 0 ? "cpu" : "late");
      sessions[k] = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
    }
  for (guint step = 0; step < 50; step++)
    {
      train (sessions[0], test_model_feeds (model, step));
      update (sessions[0]);
      submit (sessions[1], test_model_feeds (model, step));
    }
  get_loss (sessions[1]);
  g_assert_cmpuint (ortrain_training_session_get_n_overflows (sessions[0]), >, 0);
  g_assert_cmpuint (ortrain_training_session_get_step (sessions[0]), >, 0);
  assert_same_counts (sessions[1], sessions[0]);
  g_autoptr (OrtrainTensorDict) want = take_state (sessions[0]), found = take_state (sessions[1]);
  test_assert_same_bits (found, want);
  g_object_unref (sessions[0]);
  g_object_unref (sessions[1]);
}

/* ---- a trainer ---- */

/* All batches of a model, some of them spoiled. */
static OrtrainDataset *
make_dataset (TestModel *model, gint bad_batch, Failure failure)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) batches = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (OrtrainTensorDict) all = ortrain_tensor_dict_new ();
  for (guint b = 0; b < 5; b++)
    g_ptr_array_add (batches, (gint) b == bad_batch ? make_bad_feeds (model, b, failure)
                                                    : copy_feeds (test_model_feeds (model, b), 0));
  OrtrainTensorDict *first = batches->pdata[0];
  for (guint i = 0; i < ortrain_tensor_dict_get_size (first); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (first, i);
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (first, i);
      const guint rank = (guint) ortrain_tensor_get_rank (tensor);
      const gsize n_bytes = ortrain_tensor_get_n_bytes (tensor);
      gint64 dims[8];
      for (guint k = 0; k < rank; k++)
        dims[k] = ortrain_tensor_get_dim (tensor, k);
      dims[0] *= batches->len;
      g_autoptr (OrtrainTensor) joined =
          ortrain_tensor_new_uninitialized (ortrain_tensor_get_dtype (tensor), dims, rank, &error);
      g_assert_no_error (error);
      for (guint b = 0; b < batches->len; b++)
        memcpy ((guint8 *) ortrain_tensor_peek_writable (joined) + b * n_bytes,
                ortrain_tensor_peek (ortrain_tensor_dict_get (batches->pdata[b], name)), n_bytes);
      ortrain_tensor_dict_set (all, name, joined);
    }
  OrtrainDataset *dataset = ortrain_tensor_dataset_new (all, &error);
  g_assert_no_error (error);
  return dataset;
}

static OrtrainTrainer *
make_trainer (TestModel *model, const char *provider, gint bad_batch, Failure failure)
{
  g_autoptr (OrtrainTrainingSession) session = make_session (model, provider);
  g_autoptr (OrtrainDataset) dataset = make_dataset (model, bad_batch, failure);
  OrtrainTrainer *trainer = ortrain_trainer_new (session, dataset);
  OrtrainTensor *first = ortrain_tensor_dict_get_tensor (test_model_feeds (model, 0), 0);
  ortrain_trainer_set_batch_size (trainer, (guint) ortrain_tensor_get_dim (first, 0));
  ortrain_trainer_set_shuffle (trainer, FALSE);
  ortrain_trainer_set_epochs (trainer, 4);
  return trainer;
}

/* It has the loss of a step when the next one is submitted, and nothing else about it is different. */
static void
test_trainer (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainer) cpu = make_trainer (model, "cpu", -1, FAIL_NAN);
  g_autoptr (OrtrainTrainer) late = make_trainer (model, "late", -1, FAIL_NAN);
  g_autoptr (OrtrainTrainingHistory) want = ortrain_trainer_fit (cpu, NULL, &error);
  g_assert_no_error (error);
  const LateCounters before = late_get_counters (module);
  g_autoptr (OrtrainTrainingHistory) found = ortrain_trainer_fit (late, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (late_count (module, before).launches, ==, 19);
  g_assert_cmpint (late_count (module, before).captures, ==, 2);
  g_autoptr (GBytes) want_losses = ortrain_training_history_get_losses (want);
  g_autoptr (GBytes) found_losses = ortrain_training_history_get_losses (found);
  g_assert_true (g_bytes_equal (found_losses, want_losses));
  g_assert_cmpuint (g_bytes_get_size (found_losses), ==, 20 * sizeof (double));
  g_autoptr (OrtrainTensorDict) a = take_state (ortrain_trainer_get_session (cpu));
  g_autoptr (OrtrainTensorDict) b = take_state (ortrain_trainer_get_session (late));
  test_assert_same_bits (b, a);
}

/* Errors name the item of the batch that failed, which is not the last that was taken. */
static void
test_failing_trainer (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  for (guint failure = 0; failure < N_FAILURES; failure++)
    for (gint batch = 0; batch < 5; batch++)
      {
        g_autoptr (GError) want = NULL, error = NULL;
        g_autoptr (OrtrainTrainer) cpu = make_trainer (model, "cpu", batch, (Failure) failure);
        g_autoptr (OrtrainTrainer) late = make_trainer (model, "late", batch, (Failure) failure);
        g_assert_null (ortrain_trainer_fit (cpu, NULL, &want));
        g_assert_null (ortrain_trainer_fit (late, NULL, &error));
        g_assert_error (error, want->domain, want->code);
        g_assert_cmpstr (error->message, ==, want->message);
        g_assert_true (failure != FAIL_LABEL || g_str_has_prefix (want->message, "Item "));
        assert_same_counts (ortrain_trainer_get_session (late), ortrain_trainer_get_session (cpu));
        g_autoptr (OrtrainTensorDict) a = take_state (ortrain_trainer_get_session (cpu));
        g_autoptr (OrtrainTensorDict) b = take_state (ortrain_trainer_get_session (late));
        test_assert_same_bits (b, a);
      }
}

/* A session goes while its steps run. */
static void
test_dispose (void)
{
  g_autoptr (TestModel) model = test_model_load ("bert");
  for (guint n = 1; n < 5; n++)
    {
      g_autoptr (OrtrainTrainingSession) session = make_session (model, "late");
      for (guint step = 0; step < n; step++)
        submit (session, test_model_feeds (model, step));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  module = late_open_module ();
  g_assert_nonnull (module);
  g_test_add_func ("/device-steps/train-step", test_train_step);
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++)
    {
      g_autofree char *name = g_strdup_printf ("/device-steps/submitted/%u-%s", i, forms[i].model);
      g_test_add_data_func (name, &forms[i], test_submitted);
    }
  g_test_add_func ("/device-steps/phases", test_phases);
  g_test_add_func ("/device-steps/shapes", test_shapes);
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++)
    if (g_str_equal (forms[i].model, "cnn"))
      {
        g_autofree char *name = g_strdup_printf ("/device-steps/failures/%u", i);
        g_test_add_data_func (name, &forms[i], test_failures);
        g_autofree char *broken = g_strdup_printf ("/device-steps/broken-parameters/%u", i);
        g_test_add_data_func (broken, &forms[i], test_broken_parameters);
      }
  g_test_add_func ("/device-steps/broken-gradients", test_broken_gradients);
  g_test_add_func ("/device-steps/overflow", test_overflow);
  g_test_add_func ("/device-steps/trainer", test_trainer);
  g_test_add_func ("/device-steps/failing-trainer", test_failing_trainer);
  g_test_add_func ("/device-steps/dispose", test_dispose);
  return g_test_run ();
}
