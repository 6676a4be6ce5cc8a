/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "device/late-counters.h"
#include "folder.h"
#include "session/fixture.h"

#include "ops/ortrain-op-private.h"
#include "plan/ortrain-plan-tables-private.h"
#include "provider/ortrain-provider-private.h"

/* The device on the host: it is run with ORTRAIN_PROVIDER=late. */

#define MEGABYTE ((gsize) 1 << 20)

static guint64
get_available (void)
{
  g_autoptr (GListModel) devices = ortrain_device_list ();
  g_assert_cmpuint (g_list_model_get_n_items (devices), >, 0);
  for (guint i = 0; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (OrtrainDevice) device = g_list_model_get_item (devices, i);
      if (g_str_equal (ortrain_device_get_name (device), "late"))
        return ortrain_device_get_available_memory (device);
    }
  g_error ("There is no device 'late'");
}

/* Three steps; NULL with an error. immediate: without clipping, and with updates in the backward pass. */
static OrtrainTensorDict *
train_in_form (TestModel *model, const char *provider, gboolean immediate, GError **error)
{
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, provider);
  ortrain_training_options_set_max_grad_norm (options, immediate ? 0 : 1.0);
  ortrain_training_options_set_immediate_updates (options, immediate ? ORTRAIN_IMMEDIATE_UPDATES_ON
                                                                     : ORTRAIN_IMMEDIATE_UPDATES_OFF);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, error);
  for (guint step = 0; session != NULL && step < 3; step++)
    if (isnan (ortrain_training_session_train_step (session, test_model_feeds (model, step), error)) ||
        !ortrain_training_session_optimizer_step (session, error))
      return NULL;
  return session != NULL ? ortrain_training_session_get_state (session, error) : NULL;
}

static OrtrainTensorDict *
train (TestModel *model, const char *provider, GError **error)
{
  return train_in_form (model, provider, FALSE, error);
}

static void
test_same_bits (void)
{
  static const char *const names[] = { "cnn", "bert", "lstm" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (TestModel) model = test_model_load (names[i]);
      const guint64 before = get_available ();
      g_autoptr (OrtrainTensorDict) late = train (model, "late", &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) cpu = train (model, "cpu", &error);
      g_assert_no_error (error);
      test_assert_same_bits (late, cpu);
      g_assert_cmpuint (get_available (), ==, before); /* all of it is given back */
    }
}

/* Nodes without a kernel on the device run on the host: alone, between others, and all but copies. */
static void
test_host_nodes (void)
{
  static const char *const names[] = { "cnn", "bert", "lstm" };
  static const char *const without[] = { "Relu,Softmax,Gather,LayerNormalization,LSTM", "AdamUpdate,GradientNorm",
                                         "MatMul,Gemm,Conv,ReduceMean,CrossEntropyGrad", "all" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (TestModel) model = test_model_load (names[i]);
      const guint64 before = get_available ();
      for (guint k = 0; k < 2 * G_N_ELEMENTS (without); k++)
        {
          const char *names_without = without[k / 2];
          const gboolean immediate = k % 2, all = g_str_equal (names_without, "all");
          g_auto (GStrv) operators = g_strsplit (names_without, ",", -1);
          for (guint o = 0; !all && operators[o] != NULL; o++)
            g_assert_true (ortrain_ops_lookup ("", operators[o]) != NULL ||
                           ortrain_ops_lookup (ORTRAIN_DOMAIN, operators[o]) != NULL);
          g_setenv ("ORTRAIN_LATE_WITHOUT", names_without, TRUE);
          g_autoptr (OrtrainTensorDict) late = train_in_form (model, "late", immediate, &error);
          g_assert_no_error (error);
          g_unsetenv ("ORTRAIN_LATE_WITHOUT");
          g_setenv ("ORTRAIN_EXPAND", names_without, TRUE); /* bodies come before the host */
          g_autoptr (OrtrainTensorDict) cpu = train_in_form (model, "cpu", immediate, &error);
          g_assert_no_error (error);
          g_unsetenv ("ORTRAIN_EXPAND");
          test_assert_same_bits (late, cpu);
        }
      g_assert_cmpuint (get_available (), ==, before);
    }
}

/* The plan shows where each node runs; the host's part is in memory of its own. */
static void
test_plan_of_host_nodes (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, "late");
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  g_setenv ("ORTRAIN_LATE_WITHOUT", "Conv", TRUE);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  g_unsetenv ("ORTRAIN_LATE_WITHOUT");
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_host_arena_bytes (plan), >, 0);
  guint n_steps, n_host = 0, n_copies = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    {
      g_assert_cmpint (steps[s].stream == ORTRAIN_STREAM_HOST, ==, g_str_equal (steps[s].node->op_type, "Conv"));
      n_host += steps[s].stream == ORTRAIN_STREAM_HOST;
      n_copies += steps[s].stream == ORTRAIN_STREAM_COPY;
    }
  g_assert_cmpuint (n_host, >, 0);
  g_assert_cmpuint (n_copies, >=, 2 + 2 * n_host); /* two feeds; to the host and back */
  g_autofree char *json = ortrain_memory_plan_to_json (plan);
  g_assert_nonnull (strstr (json, "\"stream\" : \"host\""));
  g_autofree char *text = ortrain_memory_plan_to_string (plan);
  g_assert_nonnull (strstr (text, "no kernel for: Conv; "));
  g_setenv ("ORTRAIN_LATE_WITHOUT", "Conv", TRUE);
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model->model);
  g_unsetenv ("ORTRAIN_LATE_WITHOUT");
  g_auto (GStrv) notes = ortrain_check_report_get_notes (report);
  g_autofree char *all = g_strjoinv ("\n", notes);
  g_assert_nonnull (strstr (all, "'late' has no kernel for it: it runs on the host"));
}

/* Plans rely on the alignment of a provider's allocations. */
static void
test_alignment (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, "late");
  for (guint k = 0; k < 3; k++)
    {
      g_autoptr (GError) error = NULL;
      g_setenv ("ORTRAIN_LATE_ALIGNMENT", (const char *const[]){ "32", "0", "128" }[k], TRUE);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_unsetenv ("ORTRAIN_LATE_ALIGNMENT");
      if (k == 2)
        {
          g_assert_no_error (error);
          continue;
        }
      g_assert_null (session);
      g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE);
      g_assert_nonnull (strstr (error->message, "'late' aligns memory to"));
    }
}

/* Options of the device are passed to its provider. */
static void
test_options (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  GModule *module = late_open_module ();
  OrtrainProviderOptions *found;
  g_assert_true (g_module_symbol (module, "ortrain_late_options", (gpointer *) &found));
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  g_object_set (options, "provider", "late", "device-memory-limit", (guint64) 1 << 33, "cudnn-conv-algo-search",
                ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, "allow-tf32", TRUE, NULL);
  G_GNUC_UNUSED g_autoptr (OrtrainTrainingSession) session =
      ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found->memory_limit, ==, (guint64) 1 << 33);
  g_assert_cmpint (found->conv_algo_search, ==, ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE);
  g_assert_true (found->allow_tf32);
  g_autoptr (OrtrainSessionOptions) inference = ortrain_session_options_new ();
  g_object_set (inference, "provider", "late", "device-memory-limit", (guint64) 1 << 34, "cudnn-conv-algo-search",
                ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, NULL);
  G_GNUC_UNUSED g_autoptr (OrtrainInferenceSession) other =
      ortrain_inference_session_new (model->model, inference, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found->memory_limit, ==, (guint64) 1 << 34);
  g_assert_cmpint (found->conv_algo_search, ==, ORTRAIN_CONV_ALGO_SEARCH_DEFAULT);
  g_assert_false (found->allow_tf32);
  g_module_close (module);
}

/* From its second run on, a range of calls whose addresses stay is started as one; feeds at another address, another
 * batch size and evaluation in between change nothing but that. */
static void
test_capture (void)
{
  g_autoptr (GError) error = NULL;
  GModule *module = late_open_module ();
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  OrtrainTensorDict *state[2];
  for (guint k = 0; k < 2; k++)
    {
      ortrain_training_options_set_provider (options, k == 0 ? "cpu" : "late");
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      for (guint step = 0; step < 8; step++)
        {
          const LateCounters before = late_get_counters (module);
          ortrain_training_session_train_step (session, test_model_feeds (model, step), &error);
          g_assert_no_error (error);
          g_assert_cmpint (late_count (module, before).launches, ==, k == 1 && step > 0 ? 1 : 0);
          ortrain_training_session_eval_step (session, test_model_feeds (model, step), &error);
          g_assert_no_error (error);
          g_assert_true (ortrain_training_session_optimizer_step (session, &error));
        }
      state[k] = ortrain_training_session_get_state (session, &error);
      g_assert_no_error (error);
    }
  test_assert_same_bits (state[0], state[1]);
  g_object_unref (state[0]);
  g_object_unref (state[1]);
  g_module_close (module);
}

static void
test_two_streams (void)
{
  static const char *const names[] = { "cnn", "bert", "lstm" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (TestModel) model = test_model_load (names[i]);
      g_autoptr (OrtrainTensorDict) cpu = train (model, "cpu", &error);
      g_assert_no_error (error);
      g_setenv ("ORTRAIN_STREAMS", "2", TRUE);
      for (guint round = 0; round < 5; round++)
        {
          g_autoptr (OrtrainTensorDict) late = train (model, "late", &error);
          g_assert_no_error (error);
          test_assert_same_bits (late, cpu);
        }
      g_unsetenv ("ORTRAIN_STREAMS");
    }
}

/* Nothing is copied to the device for a plan, nor for the export of a model that nothing has changed. */
static void
test_planning (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("bert");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, "late");
  ortrain_training_options_set_frozen (options, (const char *const[]){ "*embed*", NULL });
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  const guint64 before = get_available ();
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_CONSTANT), >, 0);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "out.onnx", NULL);
  g_assert_true (ortrain_training_session_export (session, path, &error));
  g_assert_cmpuint (get_available (), ==, before);

  g_autoptr (OrtrainModel) exported = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingSession) again = ortrain_training_session_new (exported, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
  g_autoptr (OrtrainTensorDict) same = ortrain_training_session_get_state (again, &error);
  g_assert_no_error (error);
  test_assert_same_bits (state, same);
  g_assert_cmpuint (get_available (), <, before);
  test_remove_folder (folder);
}

static void
test_failing_allocations (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  const guint64 before = get_available ();
  guint n_failed = 0;
  for (guint n = 1; n < 1000; n++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text = g_strdup_printf ("%u", n);
      g_setenv ("ORTRAIN_LATE_FAIL", text, TRUE);
      g_autoptr (OrtrainTensorDict) state = train (model, "late", &error);
      g_unsetenv ("ORTRAIN_LATE_FAIL");
      g_assert_cmpuint (get_available (), ==, before);
      if (state != NULL)
        break;
      g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
      n_failed++;
    }
  g_assert_cmpuint (n_failed, >=, 4); /* control block, fault, state, arena */
}

/* The memory of a session is taken by its first step. When there is not enough, the step fails, the session is as it
 * was, and goes on once there is. */
static void
test_later_memory (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTensorDict) want = train (model, "cpu", &error);
  g_assert_no_error (error);
  guint n_failed = 0;
  for (guint n = 1; n < 1000; n++)
    {
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      ortrain_training_options_set_provider (options, "late");
      ortrain_training_options_set_max_grad_norm (options, 1.0);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      const guint64 before = get_available ();
      g_autofree char *text = g_strdup_printf ("%u", n);
      g_setenv ("ORTRAIN_LATE_FAIL", text, TRUE);
      const gboolean failed =
          isnan (ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error));
      g_unsetenv ("ORTRAIN_LATE_FAIL");
      if (failed)
        {
          g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
          g_clear_error (&error);
          g_assert_cmpuint (ortrain_training_session_get_n_train_steps (session), ==, 0);
          if (n < 3) /* the block, and the scalars of an update: nothing is kept */
            g_assert_cmpuint (get_available (), ==, before);
          n_failed++;
        }
      for (guint step = failed ? 0 : 1; step <= 3; step++)
        {
          if (step > 0)
            g_assert_true (ortrain_training_session_optimizer_step (session, &error));
          if (step < 3)
            ortrain_training_session_train_step (session, test_model_feeds (model, step), &error);
          g_assert_no_error (error);
        }
      g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
      g_assert_no_error (error);
      test_assert_same_bits (state, want);
      if (!failed)
        break;
    }
  g_assert_cmpuint (n_failed, >=, 3); /* the two, and the arena */
}

/* The writes of one stream become visible to another when that one waits for an event, and to the host when it
 * waits. */
static void
test_streams (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) provider = ortrain_provider_open ("late", &options, &error);
  g_assert_no_error (error);
  const OrtrainProviderClass *klass = provider->klass;
  OrtrainStream *first, *second;
  g_assert_true (klass->new_stream (provider, &first, &error) && klass->new_stream (provider, &second, &error));
  OrtrainEvent *event = klass->new_event (provider, &error);
  guint8 *from = klass->allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, MEGABYTE, &error);
  guint8 *to = klass->allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, MEGABYTE, &error);
  guint8 *host = klass->allocate (provider, ORTRAIN_MEMORY_SPACE_HOST, MEGABYTE, &error);
  for (guint round = 1; round < 200; round++)
    {
      gboolean ok =
          klass->fill (provider, first, from, (guint8) round, MEGABYTE, &error) &&
          klass->record (provider, first, event, &error) && klass->wait_event (provider, second, event, &error) &&
          klass->copy (provider, second, to, from, MEGABYTE, &error) &&
          klass->copy (provider, second, host, to, MEGABYTE, &error) && klass->wait (provider, second, &error);
      g_assert_no_error (error);
      g_assert_true (ok);
      for (gsize i = 0; i < MEGABYTE; i += 4095)
        g_assert_cmpuint (host[i], ==, (guint8) round);
    }
  klass->free (provider, ORTRAIN_MEMORY_SPACE_DEVICE, from, MEGABYTE);
  klass->free (provider, ORTRAIN_MEMORY_SPACE_DEVICE, to, MEGABYTE);
  klass->free (provider, ORTRAIN_MEMORY_SPACE_HOST, host, MEGABYTE);
  klass->free_event (provider, event);
  klass->free_stream (provider, first);
  klass->free_stream (provider, second);
}

/* The host cannot read it. */
static void
test_unreadable (void)
{
  if (g_test_subprocess ())
    {
      const OrtrainProviderOptions options = { .n_threads = 1 };
      OrtrainProvider *provider = ortrain_provider_open ("late", &options, NULL);
      volatile char *address = provider->klass->allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, 64, NULL);
      g_print ("%d", *address);
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
  g_test_trap_assert_stdout_unmatched ("*0*");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/device/same-bits", test_same_bits);
  g_test_add_func ("/device/planning", test_planning);
  g_test_add_func ("/device/failing-allocations", test_failing_allocations);
  g_test_add_func ("/device/later-memory", test_later_memory);
  g_test_add_func ("/device/streams", test_streams);
  g_test_add_func ("/device/host-nodes", test_host_nodes);
  g_test_add_func ("/device/plan-of-host-nodes", test_plan_of_host_nodes);
  g_test_add_func ("/device/two-streams", test_two_streams);
  g_test_add_func ("/device/options", test_options);
  g_test_add_func ("/device/capture", test_capture);
  g_test_add_func ("/device/alignment", test_alignment);
  g_test_add_func ("/device/unreadable", test_unreadable);
  return g_test_run ();
}
