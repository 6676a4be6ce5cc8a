/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "text-model.h"

/* Sessions without a memory pattern: values from an arena, by their lifetimes. */

#define N_STEPS 24

static OrtrainTrainingSession *
make_session_of (OrtrainModel *model, const char *config, guint64 budget, const char *const *trainable)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "targets");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_memory_pattern (options, config == NULL);
  ortrain_training_options_set_arena_config (options, config);
  if (trainable != NULL)
    ortrain_training_options_set_trainable (options, trainable);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, const char *config, guint64 budget)
{
  return make_session_of (model, config, budget, NULL);
}

/* All of them different, and all known after N_STEPS / 2 steps. */
static gint64
get_length (guint step)
{
  return 4 + (step * 5 % (N_STEPS / 2)) * 2;
}

/* Steps of varying length, with an evaluation of another shape between train_step and optimizer_step of some. */
static void
train (OrtrainTrainingSession *session, double *losses)
{
  for (guint i = 0; i < N_STEPS; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensorDict) feeds = text_make_feeds (i, 3, get_length (i), TRUE);
      losses[i] = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      if (i % 5 == 0)
        {
          g_autoptr (OrtrainTensorDict) other = text_make_feeds (i, 2, MAX_LENGTH, FALSE);
          g_autoptr (OrtrainTensorDict) outputs G_GNUC_UNUSED =
              ortrain_training_session_eval_step (session, other, &error);
          g_assert_no_error (error);
        }
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
}

static void
test_same_bits (void)
{
  static const char *const configs[] = { "", "arena_extend_strategy=kSameAsRequested",
                                         "shrink=1,initial_chunk_size_bytes=4KiB",
                                         "initial_chunk_size_bytes=256,max_dead_bytes_per_chunk=0",
                                         "arena.extend_strategy = same-as-requested , shrink = on" };
  g_autoptr (OrtrainModel) model = text_make_model ();
  g_autoptr (OrtrainTrainingSession) planned = make_session (model, NULL, 0);
  double expected[N_STEPS], losses[N_STEPS];
  train (planned, expected);
  g_assert_null (ortrain_training_session_get_arena_statistics (planned));
  for (guint c = 0; c < G_N_ELEMENTS (configs); c++)
    {
      g_autoptr (OrtrainTrainingSession) session = make_session (model, configs[c], 0);
      train (session, losses);
      g_assert_cmpmem (losses, sizeof losses, expected, sizeof expected);
      text_check_same_parameters (session, planned);
      g_autoptr (OrtrainArenaStatistics) statistics = ortrain_training_session_get_arena_statistics (session);
      g_assert_cmpuint (statistics->bytes_in_use, ==, 0);
      g_assert_cmpuint (statistics->num_allocs, >, 0);
      g_assert_cmpuint (statistics->max_bytes_in_use, <=, statistics->max_total_allocated_bytes);
      if (strstr (configs[c], "shrink") == NULL)
        g_assert_cmpuint (statistics->num_arena_shrinkages, ==, 0);
      else
        {
          g_assert_cmpuint (statistics->num_arena_shrinkages, >=, N_STEPS);
          g_assert_cmpuint (statistics->total_allocated_bytes, <, statistics->max_total_allocated_bytes);
        }
    }
}

/* Once all shapes have been seen, nothing is allocated, and nothing more held, however they alternate. */
static void
test_steady_state (void)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  g_autoptr (OrtrainTrainingSession) session = make_session (model, "", 0);
  double losses[N_STEPS];
  train (session, losses);
  g_autoptr (OrtrainArenaStatistics) before = ortrain_training_session_get_arena_statistics (session);
  train (session, losses);
  g_autoptr (OrtrainArenaStatistics) after = ortrain_training_session_get_arena_statistics (session);
  g_assert_cmpmem (before, sizeof *before, after, sizeof *after);
}

/* More shapes than plans are kept: each is planned again, and gets memory that is there. */
static void
test_many_shapes (void)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  g_autoptr (OrtrainTrainingSession) session = make_session (model, "", 0);
  g_autoptr (OrtrainArenaStatistics) first = NULL;
  for (guint round = 0; round < 3; round++)
    {
      for (gint64 length = MAX_LENGTH; length > 1; length--)
        {
          g_autoptr (GError) error = NULL;
          double loss;
          text_train_step (session, (guint) length, 4, length, &loss, &error);
          g_assert_no_error (error);
        }
      g_autoptr (OrtrainArenaStatistics) statistics = ortrain_training_session_get_arena_statistics (session);
      if (first == NULL)
        first = ortrain_arena_statistics_copy (statistics);
      g_assert_cmpuint (statistics->total_allocated_bytes, ==, first->total_allocated_bytes);
      g_assert_cmpuint (statistics->num_arena_extensions, ==, first->num_arena_extensions);
      g_assert_cmpuint (statistics->num_arena_shrinkages, ==, 0);
    }
}

static gsize
get_arena_bytes (OrtrainTrainingSession *session, gint64 batch, gint64 length)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = text_make_feeds (0, batch, length, TRUE);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  return ortrain_memory_plan_get_arena_bytes (plan);
}

/* A limit is met, if need be by values in one piece; beyond it a step is refused, and others run as if it had not been
 * tried. */
static void
check_limit (const char *const *trainable)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  g_autoptr (OrtrainTrainingSession) measured = make_session_of (model, "", 0, trainable);
  const gsize bytes = get_arena_bytes (measured, 3, MAX_LENGTH);
  for (guint strategy = 0; strategy < 2; strategy++)
    {
      g_autofree char *config =
          g_strdup_printf ("max_mem=%" G_GSIZE_FORMAT ",arena_extend_strategy=%u", (bytes + 255) / 256 * 256, strategy);
      g_autoptr (OrtrainTrainingSession) session = make_session_of (model, config, 0, trainable);
      g_autoptr (OrtrainTrainingSession) reference = make_session_of (model, NULL, 0, trainable);
      for (guint i = 0; i < N_STEPS; i++)
        {
          g_autoptr (GError) error = NULL;
          double loss, expected;
          g_assert_false (text_train_step (session, i, 8, MAX_LENGTH, &loss, &error));
          g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
          g_assert_nonnull (strstr (error->message, "The values of a step: Arena of the device '"));
          g_assert_nonnull (strstr (error->message, ": the limit is "));
          g_clear_error (&error);
          /* the last one needs all of it */
          const gint64 length = i + 1 < N_STEPS ? get_length (i) : MAX_LENGTH;
          g_assert_true (text_train_step (session, i, 3, length, &loss, &error));
          g_assert_no_error (error);
          g_assert_true (text_train_step (reference, i, 3, length, &expected, &error));
          g_assert_true (memcmp (&loss, &expected, sizeof loss) == 0);
          g_autoptr (OrtrainArenaStatistics) statistics = ortrain_training_session_get_arena_statistics (session);
          g_assert_cmpuint (statistics->total_allocated_bytes, <=, statistics->bytes_limit);
          g_assert_cmpuint (statistics->max_total_allocated_bytes, <=, statistics->bytes_limit);
        }
      text_check_same_parameters (session, reference);
    }
}

/* With the scales of scores trained, memory goes back to the device between two values of one step. */
static void
test_limit (void)
{
  static const char *const with_scales[] = { "*.weight", "*.bias", "const.*", NULL };
  check_limit (NULL);
  check_limit (with_scales);
}

static void
check_report (OrtrainTrainingSession *session, const OrtrainMemoryReport *report)
{
  g_autoptr (OrtrainArenaStatistics) statistics = ortrain_training_session_get_arena_statistics (session);
  g_assert_cmpuint (report->max_allocated, <=, report->max_cached);
  g_assert_cmpuint (report->allocated + report->inactive, ==, report->cached);
  g_assert_cmpuint (report->allocated, <=, report->step_peak);
  g_assert_cmpuint (report->cached - report->param - report->grad - report->state - report->buffer, >=,
                    statistics->total_allocated_bytes);
}

static void
on_phase (OrtrainTrainingSession *session, OrtrainMemoryReport *report, guint *n)
{
  check_report (session, report);
  (*n)++;
}

/* The budget also limits the bytes that the arena holds, whatever ran before; results are those of any other budget. */
static void
test_budget (void)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  g_autoptr (OrtrainTrainingSession) measured = make_session (model, "", 0);
  g_autoptr (OrtrainTrainingSession) reference = make_session (model, NULL, 0);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = text_make_feeds (0, 6, MAX_LENGTH, TRUE);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (measured, feeds, &error);
  g_assert_no_error (error);
  const guint64 peak = ortrain_memory_plan_get_peak_bytes (plan), arena = ortrain_memory_plan_get_arena_bytes (plan);
  const guint64 budget = peak - arena / 4;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, "", budget);
  guint n_phases = 0;
  g_signal_connect (session, "post-backward", G_CALLBACK (on_phase), &n_phases);
  for (guint i = 0; i < N_STEPS; i++)
    {
      double loss, expected;
      const gint64 length = i % 3 == 2 ? MAX_LENGTH : get_length (i);
      g_assert_true (text_train_step (session, i, 6, length, &loss, &error));
      g_assert_no_error (error);
      g_assert_true (text_train_step (reference, i, 6, length, &expected, &error));
      g_assert_true (memcmp (&loss, &expected, sizeof loss) == 0);
      g_autoptr (OrtrainMemoryReport) report = ortrain_training_session_get_memory_report (session);
      check_report (session, report);
      g_assert_cmpuint (report->max_cached, <=, budget);
    }
  g_assert_cmpuint (n_phases, ==, N_STEPS);
  text_check_same_parameters (session, reference);
}

/* The limit of the device is one for the arena. */
static void
test_device_limit (void)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  for (guint extra = 0; extra < 2; extra++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "targets");
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      ortrain_training_options_add_loss (options, loss);
      ortrain_training_options_set_memory_pattern (options, FALSE);
      ortrain_training_options_set_device_memory_limit (options, extra == 0 ? 900000 : 4 << 20);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      double found;
      for (guint i = 0; i < 3; i++)
        {
          g_assert_false (text_train_step (session, i, 64, MAX_LENGTH, &found, &error));
          g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
          g_clear_error (&error);
          g_assert_true (text_train_step (session, i, 1, 4 + i, &found, &error));
          g_assert_no_error (error);
        }
    }
}

static void
test_wrong_config (void)
{
  static const char *const wrong[][2] = {
    { "max_mem", "'max_mem': it has no value" },
    { "max_mem=much", "'much' is no number of bytes" },
    { "initial_chunk_size_bytes=100", "it must be at least 256" },
    { "arena_extend_strategy=2", "it is kNextPowerOfTwo or kSameAsRequested" },
    { "max_mem=1GiB,bins=21", "'bins=21': the names are arena_extend_strategy, max_mem" },
  };
  g_autoptr (OrtrainModel) model = text_make_model ();
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "targets");
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainSessionOptions) others = ortrain_session_options_new ();
      ortrain_training_options_add_loss (options, loss);
      ortrain_training_options_set_arena_config (options, wrong[i][0]);
      g_assert_null (ortrain_training_session_new (model, options, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_assert_nonnull (strstr (error->message, wrong[i][1]));
      g_clear_error (&error);
      ortrain_session_options_set_arena_config (others, wrong[i][0]);
      g_assert_null (ortrain_inference_session_new (model, others, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
    }
}

static OrtrainInferenceSession *
make_inference (OrtrainModel *model, const char *config)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  ortrain_session_options_set_memory_pattern (options, config == NULL);
  ortrain_session_options_set_arena_config (options, config);
  OrtrainInferenceSession *session = ortrain_inference_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static void
test_inference (void)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  g_autoptr (OrtrainInferenceSession) planned = make_inference (model, NULL);
  g_autoptr (OrtrainInferenceSession) session = make_inference (model, "initial_chunk_size_bytes=4KiB");
  g_autoptr (OrtrainInferenceSession) shrinking = make_inference (model, "shrink=1,extend-strategy=1");
  g_assert_null (ortrain_inference_session_get_arena_statistics (planned));
  for (guint i = 0; i < 40; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensorDict) feeds = text_make_feeds (i, 1 + i % 3, 2 + i * 11 % 31, FALSE);
      g_autoptr (OrtrainTensorDict) expected = ortrain_inference_session_run (planned, feeds, &error);
      g_assert_no_error (error);
      OrtrainInferenceSession *const sessions[] = { session, shrinking };
      for (guint k = 0; k < 2; k++)
        {
          g_autoptr (OrtrainTensorDict) found = ortrain_inference_session_run (sessions[k], feeds, &error);
          g_assert_no_error (error);
          g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (found, "logits"),
                                               ortrain_tensor_dict_get (expected, "logits")));
        }
      g_autoptr (OrtrainArenaStatistics) kept = ortrain_inference_session_get_arena_statistics (session);
      g_autoptr (OrtrainArenaStatistics) shrunk = ortrain_inference_session_get_arena_statistics (shrinking);
      g_assert_cmpuint (kept->total_allocated_bytes, >, 0);
      g_assert_cmpuint (kept->bytes_in_use, ==, 0);
      g_assert_cmpuint (shrunk->total_allocated_bytes, ==, 0);
    }
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Where the elements of a value decide the next one's shape, nodes run one by one, as with a memory pattern. */
static void
test_data_dependent (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("test");
  const gint64 dims[1] = { -1 };
  ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 1, &error);
  ortrain_graph_add_node (graph, "Relu", "", "relu", NAMES ("x"), NAMES ("r"), &error);
  ortrain_graph_add_node (graph, "NonZero", "", "where", NAMES ("r"), NAMES ("places"), &error);
  ortrain_graph_add_node (graph, "Transpose", "", "turn", NAMES ("places"), NAMES ("indices"), &error);
  ortrain_graph_add_node (graph, "GatherND", "", "pick", NAMES ("r", "indices"), NAMES ("picked"), &error);
  ortrain_graph_add_output (graph, "picked", &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainInferenceSession) planned = make_inference (model, NULL);
  g_autoptr (OrtrainInferenceSession) session = make_inference (model, "shrink=1");
  for (gint64 n = 1; n < 9; n++)
    {
      const float values[8] = { 1, -1, 0, 2, 3, -4, 5, 6 };
      g_autoptr (OrtrainTensor) x = ortrain_tensor_new_floats (&n, 1, values, (gsize) n, &error);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      ortrain_tensor_dict_set (feeds, "x", x);
      g_autoptr (OrtrainTensorDict) expected = ortrain_inference_session_run (planned, feeds, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) found = ortrain_inference_session_run (session, feeds, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (found, "picked"),
                                           ortrain_tensor_dict_get (expected, "picked")));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/memory-pattern/same-bits", test_same_bits);
  g_test_add_func ("/memory-pattern/steady-state", test_steady_state);
  g_test_add_func ("/memory-pattern/many-shapes", test_many_shapes);
  g_test_add_func ("/memory-pattern/limit", test_limit);
  g_test_add_func ("/memory-pattern/budget", test_budget);
  g_test_add_func ("/memory-pattern/device-limit", test_device_limit);
  g_test_add_func ("/memory-pattern/wrong-config", test_wrong_config);
  g_test_add_func ("/memory-pattern/inference", test_inference);
  g_test_add_func ("/memory-pattern/data-dependent", test_data_dependent);
  return g_test_run ();
}
