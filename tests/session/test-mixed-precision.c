/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"
#include "graph/ortrain-graph-private.h"
#include "ops/ortrain-op-private.h"
#include "plan/ortrain-memory-plan-private.h"

/* Every model of the fixtures in 16 bits: the graph that it is rewritten to, and how it trains. */

#define N_STEPS 24

static OrtrainTrainingSession *
make_session (TestModel *model, OrtrainPrecision precision)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_precision (options, precision);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* The mean loss of the last round over the batches. */
static double
train (TestModel *model, OrtrainPrecision precision)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, precision);
  const guint n = model->feeds->len;
  double sum = 0;
  for (guint step = 0; step < N_STEPS; step++)
    {
      const double loss = ortrain_training_session_train_step (session, test_model_feeds (model, step), &error);
      g_assert_no_error (error);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
      sum += step + n >= N_STEPS ? loss : 0;
    }
  return sum / n;
}

static void
test_losses (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  const double f32 = train (model, ORTRAIN_PRECISION_F32);
  const double bf16 = train (model, ORTRAIN_PRECISION_BF16), fp16 = train (model, ORTRAIN_PRECISION_FP16);
  g_test_message ("%s: %.5f, bf16 %.4f, fp16 %.4f", (const char *) data, f32, bf16 / f32, fp16 / f32);
  g_assert_cmpfloat (fabs (bf16 - f32), <=, 0.02 * f32);
  /* overflows take updates away */
  g_assert_cmpfloat (fabs (fp16 - f32), <=, 0.04 * f32);
}

static gboolean
is_cast (const OrtrainNode *node)
{
  return node != NULL && ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CAST;
}

static gboolean
is_half (const OrtrainValue *value)
{
  return value->dtype == ORTRAIN_DTYPE_FLOAT16 || value->dtype == ORTRAIN_DTYPE_BFLOAT16;
}

/* No cast undoes another one or repeats it, and none converts a parameter: its copy is written by the update. */
static void
test_casts (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, ORTRAIN_PRECISION_BF16);
  OrtrainGraph *graph = ortrain_training_session_get_training_graph (session);
  g_autoptr (GHashTable) converted = g_hash_table_new (NULL, NULL);
  guint n_casts = 0, n_narrow = 0, n_copies = 0, n_products = 0;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      const OrtrainValue *output = ortrain_node_output (node, 0);
      n_narrow += output != NULL && is_half (output);
      if (node->phase == ORTRAIN_PHASE_FORWARD && ortrain_node_has_flag (node, ORTRAIN_OP_CONTRACTS))
        {
          n_products++;
          if (!is_half (output))
            g_error ("%s computes in %s", node->name, ortrain_dtype_get_name (output->dtype));
        }
      if (!is_cast (node) || node->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      const OrtrainValue *input = ortrain_node_input (node, 0);
      n_casts += is_half (input) || is_half (output);
      g_assert_false (is_cast (input->producer) && input->producer->inputs->pdata[0] != NULL &&
                      ((OrtrainValue *) input->producer->inputs->pdata[0])->dtype == output->dtype);
      g_assert_true (input->role != ORTRAIN_ROLE_PARAMETER);
      if (is_half (output))
        g_assert_true (g_hash_table_add (converted, (gpointer) input)); /* once each */
    }
  for (guint i = 0; i < graph->values->len; i++)
    {
      const OrtrainValue *value = graph->values->pdata[i];
      n_copies += value->kind == ORTRAIN_VALUE_HELD && is_half (value);
    }
  g_test_message ("%s: %u casts in the forward pass, %u nodes in 16 bits, %u copies of parameters, %u products",
                  (const char *) data, n_casts, n_narrow, n_copies, n_products);
  g_assert_cmpuint (n_narrow, >, n_casts);
  g_assert_cmpuint (n_copies, >, 0);
  g_assert_cmpuint (n_copies, <=, json_object_get_int_member_with_default (model->spec, "n_parameters", 1000));
}

static guint64
count_activations (OrtrainMemoryPlan *plan)
{
  GListModel *blocks = ortrain_memory_plan_get_blocks (plan);
  guint64 bytes = 0;
  for (guint i = 0; i < g_list_model_get_n_items (blocks); i++)
    {
      g_autoptr (OrtrainMemoryBlock) block = g_list_model_get_item (blocks, i);
      if (g_str_equal (ortrain_memory_block_get_category (block), "activation"))
        bytes += ortrain_memory_block_get_bytes (block);
    }
  return bytes;
}

/* Values kept for the backward pass take about half; the backward pass converts only whole tensors that the user fed,
 * or that have the size of a bias. */
static void
test_plan (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  guint64 bytes[2], largest = 0;
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingSession) session =
          make_session (model, i == 0 ? ORTRAIN_PRECISION_F32 : ORTRAIN_PRECISION_BF16);
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
      g_assert_no_error (error);
      bytes[i] = count_activations (plan);
      for (guint t = 0; i == 1 && t < plan->graph->nodes->len; t++)
        {
          const OrtrainNode *node = plan->graph->nodes->pdata[t];
          const OrtrainValue *input = is_cast (node) ? ortrain_node_input (node, 0) : NULL;
          gint64 dims[16], n = 1;
          while (input != NULL && input->producer != NULL &&
                 (ortrain_node_is_view (input->producer) ||
                  ortrain_node_get_kind (input->producer) == ORTRAIN_OP_KIND_COPY))
            input = ortrain_node_input (input->producer, 0);
          if (input == NULL || node->phase != ORTRAIN_PHASE_BACKWARD || input->kind == ORTRAIN_VALUE_INPUT ||
              (!is_half (input) && !is_half (node->outputs->pdata[0])))
            continue;
          g_assert_true (ortrain_value_get_static_dims (input, dims));
          for (gint d = 0; d < input->rank; d++)
            n *= dims[d];
          largest = MAX (largest, (guint64) n);
        }
    }
  g_test_message ("%s: %.3f of the activations, at most %" G_GUINT64_FORMAT " elements are converted as a whole",
                  (const char *) data, (double) bytes[1] / (double) bytes[0], largest);
  g_assert_cmpuint (largest, <, 1024);
  g_assert_cmpuint (bytes[0], >, 0);
  const char *provider = g_getenv ("ORTRAIN_PROVIDER");
  guint64 copied = 512; /* each begins on 64 bytes */
  OrtrainTensorDict *feeds = test_model_feeds (model, 0);
  for (guint i = 0; provider != NULL && !g_str_equal (provider, "cpu") && i < ortrain_tensor_dict_get_size (feeds); i++)
    copied += ortrain_tensor_get_n_bytes (ortrain_tensor_dict_get_tensor (feeds, i)); /* to the device */
  g_assert_cmpfloat ((double) bytes[1], <=, 0.55 * (double) bytes[0] + (double) copied);
}

/* The same bits from run to run, and at any number of threads where that is asked for. */
static void
test_same_bits (void)
{
  g_autoptr (TestModel) model = test_model_load ("bert");
  g_autoptr (OrtrainTensorDict) first = NULL;
  for (guint threads = 1; threads <= 3; threads++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      ortrain_training_options_set_precision (options, ORTRAIN_PRECISION_BF16);
      ortrain_training_options_set_threads (options, threads);
      ortrain_training_options_set_deterministic (options, TRUE);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      for (guint step = 0; step < 4; step++)
        {
          ortrain_training_session_train_step (session, test_model_feeds (model, step), &error);
          g_assert_no_error (error);
          g_assert_true (ortrain_training_session_optimizer_step (session, &error));
        }
      g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
      g_assert_no_error (error);
      if (first == NULL)
        first = g_steal_pointer (&state);
      else
        test_assert_same_bits (first, state);
    }
}

static OrtrainTensorDict *
infer (TestModel *model, OrtrainPrecision precision)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  ortrain_session_options_set_precision (options, precision);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model->model, options, &error);
  g_assert_no_error (error);
  OrtrainTensorDict *outputs = ortrain_inference_session_run (session, model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  return outputs;
}

/* Outputs of an inference keep their type, and are near those in float32. */
static void
test_inference (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (OrtrainTensorDict) exact = infer (model, ORTRAIN_PRECISION_F32);
  g_autoptr (OrtrainTensorDict) rounded = infer (model, ORTRAIN_PRECISION_BF16);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (exact), >, 0);
  for (guint k = 0; k < ortrain_tensor_dict_get_size (exact); k++)
    {
      OrtrainTensor *wide = ortrain_tensor_dict_get_tensor (exact, k);
      OrtrainTensor *narrow = ortrain_tensor_dict_get (rounded, ortrain_tensor_dict_get_name (exact, k));
      g_assert_cmpint (ortrain_tensor_get_dtype (narrow), ==, ortrain_tensor_get_dtype (wide));
      const double distance = test_distance (narrow, wide);
      g_test_message ("%s: %g", (const char *) data, distance);
      g_assert_cmpfloat (distance, <, 0.05);
      g_assert_cmpfloat (distance, >, 0);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  test_models_add ("/mixed-precision/casts", test_casts);
  test_models_add ("/mixed-precision/losses", test_losses);
  test_models_add ("/mixed-precision/plan", test_plan);
  test_models_add ("/mixed-precision/inference", test_inference);
  g_test_add_func ("/mixed-precision/same-bits", test_same_bits);
  return g_test_run ();
}
