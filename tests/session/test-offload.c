/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "all-cases.h"
#include "fixture.h"
#include "least-budget.h"

#include "ops/ortrain-op-private.h"
#include "plan/ortrain-plan-verifier-private.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <unistd.h>

/* Values that leave the memory of a step until the backward pass: a budget is met at less than by computing again
 * alone, and nothing changes, bit for bit. */

#define N_STEPS 6

/* ---- a disk that is full, or fails later ---- */

static gboolean disk_is_full;
static int scratch = -1; /* a second descriptor of the file that was reserved last */

/* In the place of the C library's, for this program. */
int
posix_fallocate (int fd, off_t offset, off_t n_bytes)
{
  if (disk_is_full)
    return ENOSPC;
  if (scratch >= 0)
    close (scratch);
  scratch = dup (fd);
  return ftruncate (fd, offset + n_bytes) == 0 ? 0 : errno;
}

static gboolean
is_cpu (void)
{
  const char *provider = g_getenv ("ORTRAIN_PROVIDER");
  return provider == NULL || g_str_equal (provider, "cpu");
}

static gboolean
is_emulated (void)
{
  return g_strcmp0 (g_getenv ("ORTRAIN_PROVIDER"), "cuda") == 0;
}

/* A fixture that needs fewer bytes with offloading than by recomputing alone: the CPU's kernels plan other workspaces
 * than CUDA's. */
static const char *
name_offloaded_model (void)
{
  return is_emulated () ? "vit" : "distilbert";
}

static OrtrainTrainingSession *
make_session (TestModel *model, OrtrainOffload offload, guint64 budget, const char *folder)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_offload (options, offload);
  if (folder != NULL)
    ortrain_training_options_set_offload_folder (options, folder);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* NULL: the budget cannot be met. */
static OrtrainMemoryPlan *
plan_at (TestModel *model, OrtrainOffload offload, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, offload, budget, NULL);
  OrtrainMemoryPlan *plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  if (plan == NULL)
    g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  return plan;
}

/* The smallest budget, in bytes, as the message of a refused budget names it: rounded up, and met. */
static guint64
find_least (TestModel *model, OrtrainOffload offload, OrtrainMemoryPlan *whole)
{
  g_autoptr (GError) error = NULL;
  const guint64 budget = ortrain_memory_plan_get_persistent_bytes (whole) + 1;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, offload, budget, NULL);
  g_assert_null (ortrain_training_session_plan (session, test_model_feeds (model, 0), &error));
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  const guint64 least = test_read_least (error, ortrain_memory_plan_get_peak_bytes (whole));
  g_autoptr (OrtrainMemoryPlan) plan = plan_at (model, offload, least);
  g_assert_nonnull (plan);
  return least;
}

static OrtrainTensorDict *
train (TestModel *model, OrtrainOffload offload, guint64 budget, double *losses)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, offload, budget, NULL);
  for (guint i = 0; i < N_STEPS; i++)
    {
      losses[i] = ortrain_training_session_train_step (session, test_model_feeds (model, i), &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_assert_no_error (error);
      g_autoptr (OrtrainMemoryReport) report = ortrain_training_session_get_memory_report (session);
      if (budget > 0)
        g_assert_cmpuint (report->max_allocated, <=, budget);
    }
  OrtrainTensorDict *parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  return parameters;
}

static void
test_same_bits (gconstpointer name)
{
  if (is_emulated () && !tests_run_all_cases () && !g_str_equal (name, "gpt2") && !g_str_equal (name, "resnet") &&
      !g_str_equal (name, name_offloaded_model ()))
    return; /* emulated kernels are slow */
  g_autoptr (TestModel) model = test_model_load (name);
  g_autoptr (OrtrainMemoryPlan) whole = plan_at (model, ORTRAIN_OFFLOAD_OFF, 0);
  g_assert_cmpuint (ortrain_memory_plan_get_offloaded_bytes (whole), ==, 0);
  const guint64 peak = ortrain_memory_plan_get_peak_bytes (whole);
  double expected[N_STEPS], losses[N_STEPS];
  g_autoptr (OrtrainTensorDict) parameters = train (model, ORTRAIN_OFFLOAD_OFF, 0, expected);
  /* of mobilenet, each search takes a second */
  const gboolean few = g_str_equal (name, "mobilenet") && !tests_run_all_cases ();
  const guint64 least = few ? peak : find_least (model, ORTRAIN_OFFLOAD_OFF, whole);
  const guint64 least_offloaded = find_least (model, ORTRAIN_OFFLOAD_ON, whole);
  g_assert_cmpuint (least_offloaded, <=, least);
  guint64 last = 0;
  guint n_offloaded = 0;
  for (guint i = 0; i <= 8; i += tests_run_all_cases () ? 1 : few ? 4 : 2)
    {
      const guint64 budget = least_offloaded + (peak - least_offloaded) * i / 8;
      g_autoptr (OrtrainMemoryPlan) plan = plan_at (model, ORTRAIN_OFFLOAD_ON, budget);
      g_assert_nonnull (plan);
      const guint64 found = ortrain_memory_plan_get_peak_bytes (plan);
      g_assert_cmpuint (found, <=, budget);
      g_assert_cmpuint (found, >=, last);
      if (ortrain_memory_plan_get_offloaded_bytes (plan) == 0 || found == last)
        continue;
      last = found;
      n_offloaded++;
      g_autoptr (OrtrainTensorDict) trained = train (model, ORTRAIN_OFFLOAD_ON, budget, losses);
      g_assert_cmpmem (losses, sizeof losses, expected, sizeof expected);
      test_assert_same_bits (trained, parameters);
      g_test_message ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bytes, %" G_GUINT64_FORMAT " offloaded", found,
                      peak, ortrain_memory_plan_get_offloaded_bytes (plan));
    }
  g_test_message ("%s: least %" G_GUINT64_FORMAT " by computing again, %" G_GUINT64_FORMAT " with offloading",
                  (const char *) name, least, least_offloaded);
  if (g_str_equal (name, name_offloaded_model ()))
    {
      g_assert_cmpuint (n_offloaded, >, 0);
      g_assert_cmpuint (least_offloaded, <, least);
    }
}

/* Whether another value has a part of the place before the step `end`. */
static gboolean
is_used_again (const OrtrainPlanValue *values, guint n_values, const OrtrainPlanValue *value, gint32 end)
{
  for (guint b = 0; b < n_values; b++)
    if (values[b].root == b && values[b].region == value->region && values[b].bytes > 0 &&
        values[b].first > value->last && values[b].first < end && values[b].offset < value->offset + value->bytes &&
        value->offset < values[b].offset + values[b].bytes)
      return TRUE;
  return FALSE;
}

/* A fault that the verifier has to find: nobody waits for a copy before its place is used again. */
static void
test_missing_wait (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name_offloaded_model ());
  g_autoptr (OrtrainMemoryPlan) whole = plan_at (model, ORTRAIN_OFFLOAD_OFF, 0);
  const guint64 least = find_least (model, ORTRAIN_OFFLOAD_ON, whole);
  g_autoptr (OrtrainMemoryPlan) plan = plan_at (model, ORTRAIN_OFFLOAD_ON, least);
  guint n_steps, n_waits, n_values, n_missed[2] = { 0, 0 };
  const gint32 first_backward = (gint32) ortrain_memory_plan_get_first_backward_step (plan);
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (plan, &n_values);
  const guint32 *operands = ortrain_memory_plan_peek_operands (plan, NULL);
  guint32 *waits = (guint32 *) ortrain_memory_plan_peek_waits (plan, &n_waits);
  g_autofree guint32 *right = g_memdup2 (waits, n_waits * sizeof *waits);
  g_assert_true (ortrain_plan_verify (plan, &error));
  for (gint32 s = 0, earlier = -1; s < (gint32) n_steps; s++)
    {
      const gint32 before = earlier;
      const OrtrainOpKind kind = ortrain_node_get_kind (steps[s].node);
      if (steps[s].stream != ORTRAIN_STREAM_COPY)
        continue;
      earlier = s;
      /* a place that is used again in the forward pass; a value that is read in the backward pass */
      const gboolean frees = kind == ORTRAIN_OP_KIND_OFFLOAD;
      const OrtrainPlanValue *copied = &values[values[operands[steps[s].first_operand]].root];
      if (before < 0 ||
          (frees ? !is_used_again (values, n_values, copied, first_backward) : kind != ORTRAIN_OP_KIND_RELOAD))
        continue;
      /* nobody waits for this copy, nor for a later one, in its phase */
      for (gint32 t = s; t < (frees ? first_backward : (gint32) n_steps); t++)
        for (guint w = steps[t].first_wait; w < steps[t].first_wait + steps[t].n_waits; w++)
          if (waits[w] >= (guint32) s && steps[waits[w]].stream == ORTRAIN_STREAM_COPY)
            waits[w] = (guint32) before;
      g_assert_false (ortrain_plan_verify (plan, &error));
      g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID);
      g_test_message ("%s", error->message);
      g_clear_error (&error);
      n_missed[frees]++;
      memcpy (waits, right, n_waits * sizeof *waits);
    }
  g_assert_cmpuint (n_missed[FALSE], >, 1);
  g_assert_cmpuint (n_missed[TRUE], >, 0);
  g_assert_true (ortrain_plan_verify (plan, &error));
}

/* Where the file cannot be created, nothing runs. */
static void
test_folder (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name_offloaded_model ());
  g_autoptr (OrtrainMemoryPlan) whole = plan_at (model, ORTRAIN_OFFLOAD_OFF, 0);
  const guint64 least = find_least (model, ORTRAIN_OFFLOAD_ON, whole);
  g_autofree char *folder = g_dir_make_tmp ("offload-XXXXXX", NULL);
  g_autofree char *missing = g_build_filename (folder, "missing", NULL);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, ORTRAIN_OFFLOAD_ON, least, missing);
  if (!is_cpu ())
    {
      g_rmdir (folder);
      g_test_skip (
          "only the CPU offloads to a file; other devices offload to host memory, which /offload/same-bits tests");
      return;
    }
  g_autoptr (OrtrainTensorDict) before = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
  g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, missing));
  g_clear_error (&error);
  g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_parameters (session, &error);
  test_assert_same_bits (after, before);

  /* once it is there the session goes on; nothing has a name in it */
  g_assert_cmpint (g_mkdir (missing, 0700), ==, 0);
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_rmdir (missing), ==, 0);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  ortrain_training_session_train_step (session, test_model_feeds (model, 1), &error);
  g_assert_no_error (error);
  g_rmdir (folder);
}

/* A session whose values go to a file, and its parameters; NULL: this device has memory of the host for them. */
static OrtrainTrainingSession *
make_least_session (TestModel *model, OrtrainTensorDict **parameters)
{
  g_autoptr (GError) error = NULL;
  if (!is_cpu ())
    {
      g_test_skip (
          "only the CPU offloads to a file; other devices offload to host memory, which /offload/same-bits tests");
      return NULL;
    }
  g_autoptr (OrtrainMemoryPlan) whole = plan_at (model, ORTRAIN_OFFLOAD_OFF, 0);
  const guint64 least = find_least (model, ORTRAIN_OFFLOAD_ON, whole);
  OrtrainTrainingSession *session = make_session (model, ORTRAIN_OFFLOAD_ON, least, NULL);
  *parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  return session;
}

static void
assert_untrained (OrtrainTrainingSession *session, OrtrainTensorDict *parameters)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  test_assert_same_bits (after, parameters);
}

static void
test_full_disk (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name_offloaded_model ());
  g_autoptr (OrtrainTensorDict) parameters = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_least_session (model, &parameters);
  if (session == NULL)
    return;
  disk_is_full = TRUE;
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  disk_is_full = FALSE;
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE);
  g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, "offload-folder"));
  g_clear_error (&error);
  assert_untrained (session, parameters);
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
}

/* Data that the disk lost are not used: the step fails, and the next one has another file. */
static void
test_lost_file (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name_offloaded_model ());
  g_autoptr (OrtrainTensorDict) parameters = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_least_session (model, &parameters);
  if (session == NULL)
    return;
  const double loss = ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_zero_gradients (session, &error));
  g_assert_cmpint (ftruncate (scratch, 0), ==, 0);
  g_assert_true (isnan (ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error)));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_FAILED);
  g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, "could not be read or written"));
  g_clear_error (&error);
  assert_untrained (session, parameters);
  g_assert_true (ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error) == loss);
  g_assert_no_error (error);
  assert_untrained (session, parameters);
}

/* On the CPU, which has to be asked for it, the message says so. */
static void
test_advice (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name_offloaded_model ());
  g_autoptr (OrtrainMemoryPlan) whole = plan_at (model, ORTRAIN_OFFLOAD_OFF, 0);
  const guint64 least = find_least (model, ORTRAIN_OFFLOAD_ON, whole);
  g_autoptr (OrtrainTrainingSession) off = make_session (model, ORTRAIN_OFFLOAD_OFF, least, NULL);
  ortrain_training_session_train_step (off, test_model_feeds (model, 0), &error);
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, "offload=on needs "));
  g_clear_error (&error);
  g_autoptr (OrtrainTrainingSession) on = make_session (model, ORTRAIN_OFFLOAD_ON, 1000, NULL);
  ortrain_training_session_train_step (on, test_model_feeds (model, 0), &error);
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  g_assert_null (strstr (error->message, "offload=on"));
}

/* In bytes. */
static guint64
read_resident (void)
{
  g_autofree char *text = NULL;
  guint64 sum = 0;
  static const char *const names[] = { "RssAnon:", "RssFile:", "RssShmem:" };
  g_assert_true (g_file_get_contents ("/proc/self/status", &text, NULL, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      const char *line = strstr (text, names[i]);
      g_assert_nonnull (line);
      sum += g_ascii_strtoull (line + strlen (names[i]), NULL, 10) << 10;
    }
  return sum;
}

static OrtrainTrainingSession *
make_large_session (OrtrainModel *model, OrtrainOffload offload, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ORTRAIN_LOSS (ortrain_cross_entropy_loss_new ("logits", "labels"));
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_offload (options, offload);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* The memory of the process falls, not the plan alone. */
static void
test_resident (void)
{
  if (!is_cpu ())
    {
      g_test_skip (
          "only the CPU offloads to a file; other devices offload to host memory, which /offload/same-bits tests");
      return;
    }
  enum
  {
    BATCH = 16384,
    WIDTH = 64
  };
  g_autoptr (GError) error = NULL;
  gint64 sizes[14];
  const gint64 dims[] = { BATCH, WIDTH };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    sizes[i] = WIDTH;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new_mlp ("mlp", sizes, G_N_ELEMENTS (sizes), 1);
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, NULL);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 1, NULL);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  g_autoptr (OrtrainTrainingSession) roomy = make_large_session (model, ORTRAIN_OFFLOAD_OFF, 0);
  g_autoptr (OrtrainMemoryPlan) whole = ortrain_training_session_plan (roomy, feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainMemoryPlan) plan = NULL;
  g_autoptr (OrtrainTrainingSession) session = NULL;
  for (guint part = 4; part <= 100 && plan == NULL; part += 4)
    {
      g_clear_object (&session);
      session = make_large_session (model, ORTRAIN_OFFLOAD_ON,
                                    ortrain_memory_plan_get_persistent_bytes (whole) +
                                        ortrain_memory_plan_get_arena_bytes (whole) / 100 * part);
      plan = ortrain_training_session_plan (session, feeds, NULL);
    }
  const guint64 peak = ortrain_memory_plan_get_peak_bytes (plan), before = read_resident ();
  const double loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  /* Less than before is nothing: an allocator may give back memory that was freed long ago. */
  const guint64 after = read_resident (), taken = after - MIN (before, after);
  g_test_message ("peak %" G_GUINT64_FORMAT " instead of %" G_GUINT64_FORMAT " bytes, %" G_GUINT64_FORMAT
                  " offloaded; the process takes %" G_GUINT64_FORMAT,
                  peak, ortrain_memory_plan_get_peak_bytes (whole), ortrain_memory_plan_get_offloaded_bytes (plan),
                  taken);
  g_assert_cmpuint (ortrain_memory_plan_get_offloaded_bytes (plan), >=, (guint64) 3 * BATCH * WIDTH * sizeof (float));
  g_assert_cmpuint (taken, <=, peak + (16 << 20));
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (whole), >, peak + (32 << 20));
  g_assert_true (loss == ortrain_training_session_train_step (roomy, feeds, &error));
  g_assert_no_error (error);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  test_models_add ("/offload/same-bits", test_same_bits);
  g_test_add_func ("/offload/missing-wait", test_missing_wait);
  g_test_add_func ("/offload/folder", test_folder);
  g_test_add_func ("/offload/full-disk", test_full_disk);
  g_test_add_func ("/offload/lost-file", test_lost_file);
  g_test_add_func ("/offload/advice", test_advice);
  g_test_add_func ("/offload/resident", test_resident);
  return g_test_run ();
}
