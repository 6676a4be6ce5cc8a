/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-tables-private.h"

#include <glib/gstdio.h>

/* Training of convolutional networks with channels last, on the emulated device: compared with the same without the
 * pass that chooses the layout, and with the CPU. In 16 bits; float32 stays as ONNX has it. */

#define PASS "put-channels-last"
#define N_STEPS 8

static OrtrainTrainingSession *
make_session (TestModel *model, const char *provider, OrtrainPrecision precision, guint64 budget, guint n_accumulated)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  ortrain_training_options_set_provider (options, provider);
  ortrain_training_options_set_precision (options, precision);
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_accumulation_steps (options, n_accumulated);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static double
train (OrtrainTrainingSession *session, TestModel *model, guint s)
{
  g_autoptr (GError) error = NULL;
  const double loss = ortrain_training_session_train_step (session, test_model_feeds (model, s), &error);
  g_assert_no_error (error);
  return loss;
}

static double
step (OrtrainTrainingSession *session, TestModel *model, guint s)
{
  g_autoptr (GError) error = NULL;
  const double loss = train (session, model, s);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  return loss;
}

typedef struct
{
  guint convolutions, channels_last, transposes;
  guint64 kept, peak; /* kept: bytes of values of the forward pass that the backward pass reads */
} Counts;

static guint
count_steps (OrtrainTrainingSession *session, const char *op_type)
{
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  guint n_steps, n = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    n += g_str_equal (steps[s].node->op_type, op_type);
  return n;
}

static Counts
count (OrtrainTrainingSession *session)
{
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  Counts counts = { 0 };
  guint n_steps;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    {
      const char *op_type = steps[s].node->op_type;
      counts.convolutions += g_str_has_prefix (op_type, "Conv");
      counts.channels_last += g_str_has_prefix (op_type, "ConvChannelsLast");
      counts.transposes += g_str_equal (op_type, "Transpose");
    }
  counts.peak = ortrain_memory_plan_get_peak_bytes (plan);
  GListModel *blocks = ortrain_memory_plan_get_blocks (plan);
  for (guint i = 0; i < g_list_model_get_n_items (blocks); i++)
    {
      g_autoptr (OrtrainMemoryBlock) block = g_list_model_get_item (blocks, i);
      if (g_str_equal (ortrain_memory_block_get_category (block), "activation"))
        counts.kept += ortrain_memory_block_get_bytes (block);
    }
  return counts;
}

/* ---- gradients ---- */

typedef struct
{
  const char *fixture;
  OrtrainPrecision precision;
  gboolean converts;
  double limit; /* of gradients: the rounding to the type, where sums are in another order */
} Case;

static const Case cases[] = {
  { "resnet", ORTRAIN_PRECISION_BF16, TRUE, 1e-5 },        { "cnn", ORTRAIN_PRECISION_BF16, TRUE, 1e-5 },
  { "cnn-frozen-bn", ORTRAIN_PRECISION_BF16, TRUE, 1e-5 }, { "mobilenet", ORTRAIN_PRECISION_BF16, TRUE, 5e-3 },
  { "unet", ORTRAIN_PRECISION_BF16, TRUE, 1e-5 },          { "resnet", ORTRAIN_PRECISION_FP16, TRUE, 1e-5 },
  { "unet", ORTRAIN_PRECISION_FP16, TRUE, 1e-5 },          { "resnet", ORTRAIN_PRECISION_F32, FALSE, 0 },
  { "mobilenet", ORTRAIN_PRECISION_F32, FALSE, 0 },
};

/* One step with the pass and one without: the launches of each, and the gradients. */
static void
test_gradients (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (c->fixture);
  g_autoptr (OrtrainTrainingSession) with = make_session (model, "cuda", c->precision, 0, 1), without = NULL;
  const guint64 before = ortrain_fake_cuda_count_launches ("dnn-layout-copies");
  const double loss = train (with, model, 0);
  const guint64 copies = ortrain_fake_cuda_count_launches ("dnn-layout-copies") - before;
  g_setenv ("ORTRAIN_DISABLE_PASSES", PASS, TRUE);
  without = make_session (model, "cuda", c->precision, 0, 1);
  const double other = train (without, model, 0);
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  const Counts a = count (with), b = count (without);
  g_test_message ("%s: %u convolutions, %u with channels last, %u transpositions; loss %.7g, without %.7g", c->fixture,
                  a.convolutions, a.channels_last, a.transposes, loss, other);
  g_test_message ("%" G_GUINT64_FORMAT " bytes are kept, %" G_GUINT64_FORMAT " without; peak %" G_GUINT64_FORMAT
                  ", %" G_GUINT64_FORMAT " without",
                  a.kept, b.kept, a.peak, b.peak);
  g_assert_cmpuint (a.kept, <=, b.kept); /* nothing is kept in both layouts */
  g_assert_cmpuint (a.peak, <=, b.peak);
  g_assert_cmpuint (b.channels_last, ==, 0);
  g_assert_cmpuint (a.channels_last > 0, ==, c->converts);
  if (c->converts && ortrain_fake_cuda_is_in_use ())
    {
      const guint64 with_copies = ortrain_fake_cuda_count_launches ("dnn-layout-copies") - before - copies;
      g_assert_cmpuint (with_copies, >, copies);
    }
  g_assert_cmpfloat (fabs (loss - other), <=, c->limit * fabs (other));
  g_autoptr (OrtrainTensorDict) x = ortrain_training_session_get_gradients (with, &error),
                                y = ortrain_training_session_get_gradients (without, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (x), >, 0);
  double worst = 0;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (x); i++)
    if (test_norm (ortrain_tensor_dict_get_tensor (y, i)) > 1e-3)
      {
        const double distance =
            test_distance (ortrain_tensor_dict_get_tensor (x, i), ortrain_tensor_dict_get_tensor (y, i));
        worst = MAX (worst, distance);
        if (!(distance <= c->limit))
          g_test_message ("%s: %.3g", ortrain_tensor_dict_get_name (x, i), distance);
      }
  g_test_message ("gradients differ by at most %.3g", worst);
  g_assert_cmpfloat (worst, <=, c->limit);
}

/* The operators compared with their bodies, which are transpositions around those of ONNX. */
static void
test_bodies (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mobilenet");
  g_autoptr (OrtrainTrainingSession) with = make_session (model, "cuda", ORTRAIN_PRECISION_BF16, 0, 1), without = NULL;
  const double loss = train (with, model, 0);
  TEST_ALLOWS_FALLBACKS ("bodies have convolutions that cuDNN has no engines for");
  g_setenv ("ORTRAIN_EXPAND", "ConvChannelsLast,ConvChannelsLastGradInput,ConvChannelsLastGradWeight", TRUE);
  without = make_session (model, "cuda", ORTRAIN_PRECISION_BF16, 0, 1);
  const double other = train (without, model, 0);
  g_unsetenv ("ORTRAIN_EXPAND");
  g_assert_cmpuint (count (with).channels_last, >, 0);
  g_assert_cmpuint (count (without).channels_last, ==, 0);
  g_assert_cmpuint (count (without).convolutions, >=, count (with).channels_last);
  g_assert_cmpfloat (fabs (loss - other), <=, 1e-3 * fabs (other));
  g_autoptr (OrtrainTensorDict) x = ortrain_training_session_get_gradients (with, &error),
                                y = ortrain_training_session_get_gradients (without, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (x); i++)
    if (test_norm (ortrain_tensor_dict_get_tensor (y, i)) > 1e-3)
      g_assert_cmpfloat (test_distance (ortrain_tensor_dict_get_tensor (x, i), ortrain_tensor_dict_get_tensor (y, i)),
                         <, 2e-2);
}

/* The gradient of Relu inside of that of batch normalization, in both layouts: the same bits as one after the other. */
static void
test_relu (gconstpointer data)
{
  const OrtrainPrecision precision = GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  OrtrainTrainingSession *sessions[3];
  double losses[3];
  for (guint i = 0; i < 3; i++)
    {
      static const char *const disabled[] = { "", "fuse-relu-gradients", "fuse-relu-gradients," PASS };
      g_setenv ("ORTRAIN_DISABLE_PASSES", disabled[i], TRUE);
      sessions[i] = make_session (model, "cuda", precision, 0, 1);
      losses[i] = train (sessions[i], model, 0);
      g_assert_cmpuint (count_steps (sessions[i], "BatchNormReluGrad"), ==, i == 0 ? 2 : 0);
      g_assert_cmpuint (count_steps (sessions[i], "BatchNormGrad"), ==, i == 0 ? 0 : 2);
    }
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  g_assert_true (losses[0] == losses[1]);
  g_autoptr (OrtrainTensorDict) x = ortrain_training_session_get_gradients (sessions[0], &error),
                                y = ortrain_training_session_get_gradients (sessions[1], &error);
  g_assert_no_error (error);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (x); i++)
    {
      OrtrainTensor *a = ortrain_tensor_dict_get_tensor (x, i), *b = ortrain_tensor_dict_get_tensor (y, i);
      g_assert_cmpmem (ortrain_tensor_peek (a), ortrain_tensor_get_n_bytes (a), ortrain_tensor_peek (b),
                       ortrain_tensor_get_n_bytes (b));
    }
  for (guint i = 0; i < 3; i++)
    g_object_unref (sessions[i]);
}

/* ---- losses ---- */

static void
test_losses (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (OrtrainTrainingSession) cuda = make_session (model, "cuda", ORTRAIN_PRECISION_BF16, 0, 1),
                                     cpu = make_session (model, "cpu", ORTRAIN_PRECISION_BF16, 0, 1);
  double first = 0, worst = 0;
  for (guint s = 0; s < N_STEPS; s++)
    {
      const double loss = step (cuda, model, s), want = step (cpu, model, s);
      first = s == 0 ? fabs (want) : first;
      worst = MAX (worst, fabs (loss - want) / first);
    }
  g_test_message ("%s: losses differ by at most %.3g of the first", (const char *) data, worst);
  g_assert_cmpuint (count (cuda).channels_last, >, 0);
  g_assert_cmpfloat (worst, <, 2e-2);
}

/* ---- evaluation and export ---- */

static OrtrainGraph *
load_graph (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  g_assert_no_error (error);
  return g_object_ref (graph);
}

/* Evaluation gives the same outputs as in ONNX's order, and the exported model has the nodes and shapes of the user's
 * own file. */
static void
test_export (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) with = make_session (model, "cuda", ORTRAIN_PRECISION_BF16, 0, 1), without = NULL;
  g_autoptr (OrtrainTensorDict) x = ortrain_training_session_eval_step (with, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_setenv ("ORTRAIN_DISABLE_PASSES", PASS, TRUE);
  without = make_session (model, "cuda", ORTRAIN_PRECISION_BF16, 0, 1);
  g_autoptr (OrtrainTensorDict) y = ortrain_training_session_eval_step (without, test_model_feeds (model, 0), &error);
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (x), ==, ortrain_tensor_dict_get_size (y));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (x); i++)
    g_assert_cmpfloat (test_distance (ortrain_tensor_dict_get_tensor (x, i), ortrain_tensor_dict_get_tensor (y, i)), <,
                       1e-2);
  step (with, model, 0);
  g_assert_cmpuint (count (with).channels_last, >, 0);
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "ortrain-channels-last-XXXXXX", NULL);
  const int fd = g_mkstemp (path);
  g_assert_cmpint (fd, >=, 0);
  g_close (fd, NULL);
  g_assert_true (ortrain_training_session_export (with, path, &error));
  g_assert_no_error (error);
  g_autofree char *source = g_build_filename (model->folder, "model.onnx", NULL);
  g_autoptr (OrtrainGraph) before = load_graph (source), after = load_graph (path);
  g_assert_cmpuint (before->nodes->len, ==, after->nodes->len);
  for (guint i = 0; i < before->nodes->len; i++)
    g_assert_cmpstr (((OrtrainNode *) before->nodes->pdata[i])->op_type, ==,
                     ((OrtrainNode *) after->nodes->pdata[i])->op_type);
  for (guint i = 0; i < before->initializers->len; i++)
    g_assert_true (ortrain_value_same_shape (before->initializers->pdata[i], after->initializers->pdata[i]));
  g_unlink (path);
}

/* ---- memory ---- */

/* The same bits at every budget, and with micro-batches; the memory that is taken is the memory that was planned. */
static void
test_budgets (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) free_session = make_session (model, "cuda", ORTRAIN_PRECISION_BF16, 0, 2);
  double losses[4];
  guint n_tried = 0;
  for (guint s = 0; s < G_N_ELEMENTS (losses); s++)
    losses[s] = s % 2 == 0 ? train (free_session, model, s) : step (free_session, model, s);
  const guint64 peak = ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (free_session));
  for (guint part = 95; part >= 60; part -= 5)
    {
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
      ortrain_training_options_set_provider (options, "cuda");
      ortrain_training_options_set_precision (options, ORTRAIN_PRECISION_BF16);
      ortrain_training_options_set_memory_budget (options, peak * part / 100);
      ortrain_training_options_set_accumulation_steps (options, 2);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      for (guint s = 0; s < G_N_ELEMENTS (losses); s++)
        {
          const double loss = ortrain_training_session_train_step (session, test_model_feeds (model, s), &error);
          if (g_error_matches (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET))
            break;
          g_assert_no_error (error);
          g_assert_true (loss == losses[s]);
          if (s % 2 == 1)
            g_assert_true (ortrain_training_session_optimizer_step (session, &error));
        }
      if (error != NULL)
        break;
      g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (session)), <=,
                        peak * part / 100);
      g_assert_cmpuint (count (session).channels_last, >=, count (free_session).channels_last);
      n_tried++;
    }
  g_clear_error (&error);
  g_test_message ("%s: %u budgets", (const char *) data, n_tried);
  g_assert_cmpuint (n_tried, >, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      static const char *const names[] = {
        [ORTRAIN_PRECISION_F32] = "f32", [ORTRAIN_PRECISION_BF16] = "bf16", [ORTRAIN_PRECISION_FP16] = "fp16"
      };
      g_autofree char *path =
          g_strdup_printf ("/cuda-channels-last/gradients/%s/%s", names[cases[i].precision], cases[i].fixture);
      g_test_add_data_func (path, &cases[i], test_gradients);
    }
  g_test_add_func ("/cuda-channels-last/bodies", test_bodies);
  g_test_add_data_func ("/cuda-channels-last/relu/f32", GINT_TO_POINTER (ORTRAIN_PRECISION_F32), test_relu);
  g_test_add_data_func ("/cuda-channels-last/relu/bf16", GINT_TO_POINTER (ORTRAIN_PRECISION_BF16), test_relu);
  g_test_add_data_func ("/cuda-channels-last/relu/fp16", GINT_TO_POINTER (ORTRAIN_PRECISION_FP16), test_relu);
  g_test_add_data_func ("/cuda-channels-last/losses/resnet", "resnet", test_losses);
  g_test_add_data_func ("/cuda-channels-last/losses/cnn", "cnn", test_losses);
  g_test_add_data_func ("/cuda-channels-last/losses/unet", "unet", test_losses);
  g_test_add_data_func ("/cuda-channels-last/export/resnet", "resnet", test_export);
  g_test_add_data_func ("/cuda-channels-last/export/cnn", "cnn", test_export);
  g_test_add_data_func ("/cuda-channels-last/budgets/resnet", "resnet", test_budgets);
  g_test_add_data_func ("/cuda-channels-last/budgets/mobilenet", "mobilenet", test_budgets);
  return g_test_run ();
}
