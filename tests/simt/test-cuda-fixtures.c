/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "all-cases.h"
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-tables-private.h"

/* Every model of data/fixtures trained on the emulated device, compared with the CPU: the same losses to 1e-5 of the
 * first; to 1e-4 on a GPU, whose libraries add in orders of their own. The whole provider runs, except for NVIDIA's own
 * code. Later in a curve, the roundings of all steps before have added up, in some models (batch normalization of small
 * batches) faster than in others. In bfloat16, compared with the losses that PyTorch computed in float64. */

#define LOSS_LIMIT (ortrain_fake_cuda_is_in_use () ? 1e-5 : 1e-4)
#define N_EARLY 8
#define LATE_LIMIT 1e-3
#define BF16_LIMIT 2e-2
#define LEAST_IN_BF16 7

static OrtrainTrainingSession *
make_session (TestModel *model, const char *kind, const char *provider, OrtrainPrecision precision)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, kind);
  ortrain_training_options_set_provider (options, provider);
  ortrain_training_options_set_precision (options, precision);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static double
step (OrtrainTrainingSession *session, TestModel *model, guint s)
{
  g_autoptr (GError) error = NULL;
  const double loss = ortrain_training_session_train_step (session, test_model_feeds (model, s), &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  return loss;
}

/* Prints the operators that have no kernel on the device. */
static void
tell_host_steps (const char *name, OrtrainTrainingSession *session)
{
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GString) names = g_string_new (NULL);
  guint n_steps, n_host = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    if (steps[s].stream == ORTRAIN_STREAM_HOST)
      {
        n_host++;
        if (g_hash_table_add (seen, (gpointer) steps[s].node->op_type))
          g_string_append_printf (names, " %s", steps[s].node->op_type);
      }
  g_test_message ("%s: %u steps, %u of them on the host:%s", name, n_steps, n_host, names->str);
}

static const char *const kinds[] = { "sgd", "adamw" };

/* The number of steps of a curve that are compared. */
static gint64
get_n_steps (OrtrainTensor *curve)
{
  const gint64 all = ortrain_tensor_get_n_elements (curve);
  return tests_run_all_cases () ? all : MIN (all, N_EARLY);
}

static void
test_fixture (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  double worst = 0, late = 0;
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      g_autoptr (OrtrainTrainingSession) cuda = make_session (model, kinds[k], "cuda", ORTRAIN_PRECISION_F32),
                                         cpu = make_session (model, kinds[k], "cpu", ORTRAIN_PRECISION_F32);
      g_autofree char *curve_key = g_strconcat ("curve.", kinds[k], NULL);
      OrtrainTensor *curve = ortrain_tensor_dict_get (model->expected, curve_key);
      double first = 0;
      for (gint64 s = 0; s < get_n_steps (curve); s++)
        {
          const double loss = step (cuda, model, (guint) s), want = step (cpu, model, (guint) s);
          first = s == 0 ? fabs (want) : first;
          *(s < N_EARLY ? &worst : &late) = MAX (s < N_EARLY ? worst : late, fabs (loss - want) / first);
          if (!(fabs (loss - want) <= (s < N_EARLY ? LOSS_LIMIT : LATE_LIMIT) * first))
            g_error ("%s, %s, step %d: the loss is %.9g, on the CPU %.9g", (const char *) data, kinds[k], (int) s, loss,
                     want);
        }
      if (k == 0)
        tell_host_steps (data, cuda);
    }
  g_test_message ("%s: losses differ by at most %.2g of the first, after step %d %.2g", (const char *) data, worst,
                  N_EARLY, late);
}

/* Curves that grow what rounding does from step to step, batch normalization of small batches with SGD above all, leave
 * what float64 computes whatever the device: where bfloat16 on the CPU is half as far off as is allowed, nothing is
 * compared any more. */
static void
test_bf16 (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  double worst = 0;
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      g_autoptr (OrtrainTrainingSession) cuda = make_session (model, kinds[k], "cuda", ORTRAIN_PRECISION_BF16);
      g_autoptr (OrtrainTrainingSession) cpu = make_session (model, kinds[k], "cpu", ORTRAIN_PRECISION_BF16);
      g_autofree char *curve_key = g_strconcat ("curve.", kinds[k], NULL);
      OrtrainTensor *curve = ortrain_tensor_dict_get (model->expected, curve_key);
      const double *want = ortrain_tensor_peek (curve);
      gint64 s = 0;
      g_assert_cmpint (ortrain_tensor_get_dtype (curve), ==, ORTRAIN_DTYPE_FLOAT64);
      for (; s < get_n_steps (curve); s++)
        {
          const double limit = BF16_LIMIT * fabs (want[0]);
          if (fabs (step (cpu, model, (guint) s) - want[s]) > limit / 2)
            break;
          const double loss = step (cuda, model, (guint) s);
          worst = MAX (worst, fabs (loss - want[s]) / fabs (want[0]));
          if (!(fabs (loss - want[s]) <= limit))
            g_error ("%s, %s, step %d: the loss is %.9g, PyTorch's %.9g", (const char *) data, kinds[k], (int) s, loss,
                     want[s]);
        }
      g_test_message ("%s, %s: %d of %d steps compared", (const char *) data, kinds[k], (int) s,
                      (int) ortrain_tensor_get_n_elements (curve));
      g_assert_cmpint (s, >=, LEAST_IN_BF16);
    }
  g_assert_cmpfloat (worst, >, 0);
  g_test_message ("%s: losses differ by at most %.2g of the first", (const char *) data, worst);
}

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

/* An operator that only this provider has a kernel for, compared with its body: gradients to the rounding of sums. */
static void
test_body (gconstpointer data)
{
  const char *op_type = data;
  g_autoptr (TestModel) model = test_model_load (g_str_equal (op_type, "Linear") ? "bert" : "gpt2");
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) with = make_session (model, "sgd", "cuda", ORTRAIN_PRECISION_F32), without = NULL;
  ortrain_training_session_train_step (with, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_setenv ("ORTRAIN_EXPAND", op_type, TRUE);
  without = make_session (model, "sgd", "cuda", ORTRAIN_PRECISION_F32);
  ortrain_training_session_train_step (without, test_model_feeds (model, 0), &error);
  g_unsetenv ("ORTRAIN_EXPAND");
  g_assert_no_error (error);
  g_assert_cmpuint (count_steps (with, op_type), >, 0);
  g_assert_cmpuint (count_steps (without, op_type), ==, 0);
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_gradients (with, &error),
                                b = ortrain_training_session_get_gradients (without, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    if (test_norm (ortrain_tensor_dict_get_tensor (b, i)) > 1e-13)
      g_assert_cmpfloat (test_distance (ortrain_tensor_dict_get_tensor (a, i), ortrain_tensor_dict_get_tensor (b, i)),
                         <, 1e-5);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  test_models_add ("/cuda-fixtures", test_fixture);
  if (tests_run_all_cases ())
    test_models_add ("/cuda-fixtures/bf16", test_bf16);
  else
    {
      g_test_add_data_func ("/cuda-fixtures/bf16/mlp", "mlp", test_bf16);
      g_test_add_data_func ("/cuda-fixtures/bf16/gpt2", "gpt2", test_bf16);
      g_test_add_data_func ("/cuda-fixtures/bf16/cnn", "cnn", test_bf16);
    }
  g_test_add_data_func ("/cuda-fixtures/body/LinearGrad", "LinearGrad", test_body);
  g_test_add_data_func ("/cuda-fixtures/body/Linear", "Linear", test_body);
  g_test_add_data_func ("/cuda-fixtures/body/LinearGelu", "LinearGelu", test_body);
  g_test_add_data_func ("/cuda-fixtures/body/LinearGeluGrad", "LinearGeluGrad", test_body);
  g_test_add_data_func ("/cuda-fixtures/body/AddLayerNormalization", "AddLayerNormalization", test_body);
  g_test_add_data_func ("/cuda-fixtures/body/AddLayerNormGrad", "AddLayerNormGrad", test_body);
  return g_test_run ();
}
