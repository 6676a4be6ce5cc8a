/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include "host-context.h"
#include "ops/ortrain-op-private.h"
#include "optim/ortrain-update-set-private.h"
#include "runtime/ortrain-executor-private.h"
#include "tensor/ortrain-tensor-private.h"
#include "training-graph/ortrain-update-graph-private.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

/* Against PyTorch's numbers, see data/make_optimizers.py: three tensors, the last of several spans, six steps. */

static const gint64 sizes[] = { 7, 1, 40001 };
static const char *const names[] = { "first.bias", "gain", "last.weight" };
#define N G_N_ELEMENTS (sizes)
#define STEPS 6

static double
number (gint64 i, gint64 k)
{
  return (double) ((i * 7919 + k * 104729 + 12345) % 2003) / 1001.5 - 1.0;
}

static JsonObject *
load_expected (void)
{
  static JsonParser *parser;
  if (parser == NULL)
    {
      g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "optimizers.json", NULL);
      g_autoptr (GError) error = NULL;
      parser = json_parser_new ();
      json_parser_load_from_file (parser, path, &error);
      g_assert_no_error (error);
    }
  return json_node_get_object (json_parser_get_root (parser));
}

/* Parameters that are moved by a planned graph: their gradients are fed. */
typedef struct
{
  OrtrainDType dtype;
  guint n;
  void *parameters[N], *gradients[N], *states[N][2];
  OrtrainTensor *fed[N];
  OrtrainTensorDict *feeds;
  OrtrainUpdateSet *set;
  OrtrainUpdateRule rule;
  OrtrainTrainingGraph *graph;
  OrtrainProvider *provider;
  OrtrainDeviceContext *device_context;
  OrtrainExecutor *executor;
  GHashTable *places; /* by the names of values */
  double *scalars;
  double norm;   /* of the last update */
  gint64 broken; /* by it */
} Fixture;

static void
put (OrtrainDType dtype, void *array, gint64 i, double value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    ((double *) array)[i] = value;
  else
    ((float *) array)[i] = (float) value;
}

static double
get (OrtrainDType dtype, const void *array, gint64 i)
{
  return dtype == ORTRAIN_DTYPE_FLOAT64 ? ((const double *) array)[i] : ((const float *) array)[i];
}

static gpointer
resolve (const char *name, OrtrainRegion region, gpointer user_data)
{
  return g_hash_table_lookup (((Fixture *) user_data)->places, name);
}

static void
trained_clear (gpointer data)
{
  OrtrainTrainedTensor *trained = data;
  g_free (trained->name);
  g_free (trained->gradient);
  g_strfreev (trained->states);
  g_clear_object (&trained->initial);
}

/* A parameter, and its gradient, which the backward pass copies out of an input. */
static void
add_tensor (Fixture *f, const char *name, gint64 n)
{
  g_autoptr (GError) error = NULL;
  OrtrainGraph *graph = f->graph->training;
  const guint t = f->n++;
  const gsize size = ortrain_dtype_get_size (f->dtype);
  g_autofree char *input_name = g_strconcat (name, ".fed", NULL), *gradient_name = g_strconcat (name, ".grad", NULL);
  g_autoptr (OrtrainTensor) initial = ortrain_tensor_new (f->dtype, &n, 1, NULL);
  f->parameters[t] = g_malloc0 (n * size);
  f->gradients[t] = g_malloc0 (n * size);
  for (guint k = 0; k < 2; k++)
    f->states[t][k] = g_malloc0 (n * sizeof (double));
  f->fed[t] = ortrain_tensor_new (f->dtype, &n, 1, NULL);
  ortrain_tensor_dict_set (f->feeds, input_name, f->fed[t]);

  OrtrainValue *parameter = ortrain_graph_new_initializer (graph, name, initial);
  parameter->role = ORTRAIN_ROLE_PARAMETER;
  const OrtrainDim dims[] = { ortrain_dim_int (n) };
  OrtrainValue *input = ortrain_graph_new_input (graph, input_name, f->dtype, dims, 1);
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Identity", NULL, &input, 1, 1);
  OrtrainValue *gradient = ortrain_node_output (node, 0);
  node->phase = ORTRAIN_PHASE_BACKWARD;
  g_assert_true (ortrain_ops_infer_node (node, &error));
  ortrain_value_rename (gradient, gradient_name);
  gradient->role = ORTRAIN_ROLE_GRADIENT;
  gradient->partner = parameter;
  ortrain_graph_mark_output (graph, gradient, TRUE);
  const OrtrainTrainedTensor trained = {
    .name = g_strdup (name), .initial = g_object_ref (initial), .gradient = g_strdup (gradient_name), .padding_row = -1
  };
  g_array_append_val (f->graph->parameters, trained);
}

/* immediate: in the backward pass, without a place for the gradients. */
static void
fixture_begin (Fixture *f, OrtrainOptimizer *optimizer, OrtrainDType dtype, guint n_threads, gboolean immediate)
{
  *f = (Fixture){ .dtype = dtype, .feeds = ortrain_tensor_dict_new () };
  ortrain_optimizer_describe (optimizer, &f->rule.optimizer);
  f->rule.immediate = immediate;
  f->graph = g_new0 (OrtrainTrainingGraph, 1);
  f->graph->training = ortrain_graph_new ("update");
  f->graph->training->opset = 23;
  f->graph->parameters = g_array_new (FALSE, TRUE, sizeof (OrtrainTrainedTensor));
  g_array_set_clear_func (f->graph->parameters, trained_clear);
  f->provider = new_cpu (n_threads);
  f->device_context = ortrain_device_context_new (f->provider, NULL, NULL);
  f->places = g_hash_table_new (g_str_hash, g_str_equal);
}

static void
fixture_end (Fixture *f, OrtrainOptimizer *optimizer)
{
  g_autoptr (GError) error = NULL;
  OrtrainUpdateParameter parameters[N];
  g_assert_true (ortrain_update_graph_add (f->graph, &f->rule, &error));
  g_assert_no_error (error);
  for (guint t = 0; t < f->n; t++)
    {
      const OrtrainTrainedTensor *trained = &g_array_index (f->graph->parameters, OrtrainTrainedTensor, t);
      parameters[t] =
          (OrtrainUpdateParameter){ trained->name, f->dtype, ortrain_tensor_peek_dims (trained->initial), 1 };
      g_hash_table_insert (f->places, trained->name, f->parameters[t]);
      if (!trained->immediate)
        g_hash_table_insert (f->places, trained->gradient, f->gradients[t]);
      for (guint k = 0; trained->states != NULL && trained->states[k] != NULL; k++)
        g_hash_table_insert (f->places, trained->states[k], f->states[t][k]);
    }
  f->set = ortrain_update_set_new (optimizer, ORTRAIN_STATE_PRECISION_F32, parameters, f->n, &error);
  g_assert_no_error (error);
  f->scalars = g_new0 (double, ortrain_update_set_get_n_scalars (f->set));
  g_hash_table_insert (f->places, f->graph->scalars, f->scalars);
  for (guint t = 0; t < f->n; t++)
    for (guint k = 0; k < ortrain_update_set_get_n_states (f->set); k++)
      for (gint64 i = 0; i < parameters[t].dims[0]; i++)
        put (ortrain_update_set_get_state_form (f->set, t)->dtype, f->states[t][k], i,
             ortrain_update_set_get_initial_state (f->set, k));
  const OrtrainExecutorConfig config = {
    .device_context = f->device_context, .training = TRUE, .resolve = resolve, .resolve_data = f
  };
  f->executor = ortrain_executor_new (f->graph->training, &config, &error);
  g_assert_no_error (error);
}

static void
fixture_set_up (Fixture *f, OrtrainOptimizer *optimizer, OrtrainDType dtype, guint n_threads, gboolean immediate)
{
  fixture_begin (f, optimizer, dtype, n_threads, immediate);
  for (guint t = 0; t < N; t++)
    {
      add_tensor (f, names[t], sizes[t]);
      for (gint64 i = 0; i < sizes[t]; i++)
        put (dtype, f->parameters[t], i, number (i + 31 * t, 0));
    }
  fixture_end (f, optimizer);
}

static void
fixture_tear_down (Fixture *f)
{
  for (guint t = 0; t < f->n; t++)
    {
      g_free (f->parameters[t]);
      g_free (f->gradients[t]);
      g_free (f->states[t][0]);
      g_free (f->states[t][1]);
      g_object_unref (f->fed[t]);
    }
  ortrain_executor_free (f->executor);
  ortrain_device_context_free (f->device_context);
  ortrain_update_set_free (f->set);
  ortrain_training_graph_free (f->graph);
  ortrain_provider_unref (f->provider);
  g_object_unref (f->feeds);
  g_hash_table_unref (f->places);
  g_free (f->scalars);
}

/* FALSE: the optimizer refuses. */
static gboolean
run_update (Fixture *f, guint64 step, double factor, double max_norm, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  const OrtrainStepBlock block = { 0 };
  const double *scalars = ortrain_update_set_fill_scalars (f->set, step, factor, 1.0, max_norm, error);
  if (scalars == NULL)
    return FALSE;
  memcpy (f->scalars, scalars, ortrain_update_set_get_n_scalars (f->set) * sizeof (double));
  ortrain_executor_bind (f->executor, f->feeds, NULL, &local_error);
  g_assert_no_error (local_error);
  for (guint phase = 0; phase < ORTRAIN_N_PHASES; phase++)
    {
      ortrain_executor_run (f->executor, (OrtrainPhase) phase, &block, NULL, NULL, &local_error);
      g_assert_no_error (local_error);
    }
  if (f->graph->norm != NULL)
    g_assert_true (ortrain_executor_read (f->executor, f->graph->norm, &f->norm, sizeof f->norm, NULL));
  const char *broken = f->graph->immediate ? f->graph->broken_at_once : f->graph->broken;
  g_assert_true (broken == NULL || ortrain_executor_read (f->executor, broken, &f->broken, sizeof f->broken, NULL));
  return TRUE;
}

static void
feed (Fixture *f, guint t, gint64 i, double value)
{
  put (f->dtype, ortrain_tensor_peek_writable (f->fed[t]), i, value);
}

static void
run_steps (Fixture *f, double clip)
{
  g_autoptr (GError) error = NULL;
  for (guint s = 0; s < STEPS; s++)
    {
      for (guint t = 0; t < f->n; t++)
        for (gint64 i = 0; i < sizes[t]; i++)
          feed (f, t, i, number (i + 31 * t, s + 1));
      run_update (f, s + 1, 1.0, clip, &error);
      g_assert_no_error (error);
      g_assert_cmpint (f->broken, ==, ORTRAIN_UPDATE_NONE_BROKEN);
    }
}

static void
assert_near (double a, double b, double limit)
{
  if (!(fabs (a - b) <= limit * (1.0 + fabs (b))))
    g_error ("%.17g is not %.17g", a, b);
}

static void
compare (Fixture *f, const char *name, double limit)
{
  JsonArray *tensors = json_object_get_array_member (load_expected (), name);
  for (guint t = 0; t < N; t++)
    {
      JsonObject *want = json_array_get_object_element (tensors, t);
      JsonArray *first = json_object_get_array_member (want, "first");
      JsonArray *last = json_object_get_array_member (want, "last");
      double sum = 0, squares = 0;
      g_assert_cmpuint (json_array_get_length (first), >, 0);
      for (guint i = 0; i < json_array_get_length (first); i++)
        assert_near (get (f->dtype, f->parameters[t], i), json_array_get_double_element (first, i), limit);
      guint n_last = json_array_get_length (last);
      for (guint i = 0; i < n_last; i++)
        assert_near (get (f->dtype, f->parameters[t], sizes[t] - n_last + i), json_array_get_double_element (last, i),
                     limit);
      for (gint64 i = 0; i < sizes[t]; i++)
        {
          double x = get (f->dtype, f->parameters[t], i);
          sum += x;
          squares += x * x;
        }
      assert_near (sum, json_object_get_double_member (want, "sum"), 1e2 * limit);
      assert_near (squares, json_object_get_double_member (want, "squares"), 1e2 * limit);
    }
}

static OrtrainOptimizer *
make (const char *name)
{
  if (g_str_equal (name, "sgd"))
    return ortrain_sgd_new (0.1);
  if (g_str_equal (name, "sgd-decay"))
    return g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.1, "weight-decay", 0.02, NULL);
  if (g_str_equal (name, "momentum"))
    return g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.1, "momentum", 0.9, "weight-decay", 0.02, NULL);
  if (g_str_equal (name, "clipped"))
    return g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.1, "momentum", 0.9, NULL);
  if (g_str_equal (name, "nesterov"))
    return g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.1, "momentum", 0.9, "nesterov", TRUE, NULL);
  if (g_str_equal (name, "adam"))
    return g_object_new (ORTRAIN_TYPE_ADAM, "learning-rate", 0.01, "beta1", 0.8, "beta2", 0.95, "epsilon", 1e-6,
                         "weight-decay", 0.1, NULL);
  if (g_str_equal (name, "adamw") || g_str_equal (name, "groups"))
    {
      OrtrainOptimizer *optimizer = g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", 0.01, "weight-decay", 0.1, NULL);
      if (g_str_equal (name, "groups"))
        {
          ortrain_optimizer_add_group (optimizer, "*", 1.0, 0.0);
          ortrain_optimizer_add_group (optimizer, "*.bias", 0.1, 0.0);
          ortrain_optimizer_add_group (optimizer, "gain", 0.0, -1);
          ortrain_optimizer_add_group (optimizer, "last.*", 1.0, 0.3);
        }
      return optimizer;
    }
  if (g_str_equal (name, "adamw-last"))
    return g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", 0.01, "weight-decay", 0.1, "epsilon", 1e-6, "mode",
                         ORTRAIN_ADAMW_MODE_DECAY_LAST, NULL);
  if (g_str_equal (name, "adagrad"))
    return g_object_new (ORTRAIN_TYPE_ADAGRAD, "learning-rate", 0.05, "learning-rate-decay", 0.1, "weight-decay", 0.01,
                         "initial-accumulator", 0.2, NULL);
  if (g_str_equal (name, "lamb"))
    return g_object_new (ORTRAIN_TYPE_LAMB, "learning-rate", 0.01, "weight-decay", 0.01, NULL);
  if (g_str_equal (name, "lamb-bias"))
    return g_object_new (ORTRAIN_TYPE_LAMB, "learning-rate", 0.01, "beta2", 0.99, "bias-correction", TRUE, "ratio-min",
                         0.5, "ratio-max", 2.0, NULL);
  g_assert_not_reached ();
}

static void
assert_same_parameters (Fixture *a, Fixture *b)
{
  for (guint t = 0; t < N; t++)
    g_assert_cmpmem (a->parameters[t], sizes[t] * sizeof (float), b->parameters[t], sizes[t] * sizeof (float));
}

static void
test_optimizer (gconstpointer data)
{
  const char *name = data;
  double clip = g_str_equal (name, "clipped") ? 0.5 : 0.0;
  Fixture f, other;
  g_autoptr (OrtrainOptimizer) optimizer = make (name);
  fixture_set_up (&f, optimizer, ORTRAIN_DTYPE_FLOAT64, 2, FALSE);
  run_steps (&f, clip);
  compare (&f, name, 1e-12);
  fixture_tear_down (&f);

  fixture_set_up (&f, optimizer, ORTRAIN_DTYPE_FLOAT32, 2, FALSE);
  run_steps (&f, clip);
  compare (&f, name, 3e-6);

  /* the same bits at another number of threads */
  fixture_set_up (&other, optimizer, ORTRAIN_DTYPE_FLOAT32, 1, FALSE);
  run_steps (&other, clip);
  assert_same_parameters (&f, &other);
  fixture_tear_down (&other);

  /* and in the backward pass */
  if (clip == 0)
    {
      fixture_set_up (&other, optimizer, ORTRAIN_DTYPE_FLOAT32, 2, TRUE);
      run_steps (&other, clip);
      assert_same_parameters (&f, &other);
      fixture_tear_down (&other);
    }
  fixture_tear_down (&f);
}

static void
test_half (void)
{
  /* One SGD step in bfloat16 is the float step, rounded; the momentum is kept in float32. */
  const gint64 n = 700;
  float want[700];
  Fixture f;
  g_autoptr (OrtrainOptimizer) optimizer = make ("clipped");
  fixture_begin (&f, optimizer, ORTRAIN_DTYPE_BFLOAT16, 1, FALSE);
  add_tensor (&f, "w", n);
  guint16 *parameter = f.parameters[0], *gradient = ortrain_tensor_peek_writable (f.fed[0]);
  for (guint i = 0; i < n; i++)
    {
      parameter[i] = ortrain_float_to_bfloat16 ((float) number (i, 0));
      gradient[i] = ortrain_float_to_bfloat16 ((float) number (i, 1));
      want[i] = ortrain_bfloat16_to_float (parameter[i]) - 0.1f * ortrain_bfloat16_to_float (gradient[i]);
    }
  fixture_end (&f, optimizer);
  g_assert_cmpuint (ortrain_update_set_get_state_bytes (f.set, 0), ==, n * sizeof (float));
  g_assert_true (run_update (&f, 1, 1.0, 0, NULL));
  for (guint i = 0; i < n; i++)
    g_assert_cmpuint (parameter[i], ==, ortrain_float_to_bfloat16 (want[i]));
  fixture_tear_down (&f);
}

static void
test_live_properties (void)
{
  g_autoptr (GError) error = NULL;
  Fixture f;
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.5);
  fixture_begin (&f, optimizer, ORTRAIN_DTYPE_FLOAT64, 1, FALSE);
  add_tensor (&f, "w", 1);
  fixture_end (&f, optimizer);
  double *w = f.parameters[0];
  *w = 1.0;
  feed (&f, 0, 0, 1.0);
  g_assert_true (run_update (&f, 1, 1.0, 0, &error));
  g_assert_cmpfloat (*w, ==, 0.5);
  ortrain_optimizer_set_learning_rate (optimizer, 0.25);
  g_assert_true (run_update (&f, 2, 0.5, 0, &error));
  g_assert_cmpfloat (*w, ==, 0.375);
  ortrain_optimizer_add_group (optimizer, "w", 2.0, -1);
  g_assert_true (run_update (&f, 3, 0.5, 0, &error));
  g_assert_cmpfloat (*w, ==, 0.125);

  /* There is no room for a momentum that was not there when the set was made: told, and nothing moves. */
  g_object_set (optimizer, "momentum", 0.9, NULL);
  g_assert_false (run_update (&f, 4, 1.0, 0, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE);
  g_assert_cmpfloat (*w, ==, 0.125);
  fixture_tear_down (&f);
}

static void
test_norm (void)
{
  Fixture f;
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.5);
  fixture_set_up (&f, optimizer, ORTRAIN_DTYPE_FLOAT32, 2, FALSE);
  double sum = 0;
  for (guint t = 0; t < N; t++)
    for (gint64 i = 0; i < sizes[t]; i++)
      {
        float x = (float) number (i, 3);
        feed (&f, t, i, x);
        sum += (double) x * x;
      }
  g_assert_true (run_update (&f, 1, 1.0, 1.0, NULL));
  assert_near (f.norm, sqrt (sum), 1e-13);

  /* With a norm that is not finite nothing moves; without clipping it is the first such parameter that is told. */
  g_autofree float *before = g_memdup2 (f.parameters[0], sizes[0] * sizeof (float));
  feed (&f, 2, 123, NAN);
  feed (&f, 1, 0, INFINITY);
  g_assert_true (run_update (&f, 2, 1.0, 1.0, NULL));
  g_assert_false (isfinite (f.norm));
  g_assert_cmpint (f.broken, ==, ORTRAIN_UPDATE_NONE_BROKEN);
  g_assert_cmpmem (f.parameters[0], sizes[0] * sizeof (float), before, sizes[0] * sizeof (float));
  g_assert_true (run_update (&f, 2, 1.0, 0, NULL));
  g_assert_cmpfloat (f.norm, ==, 0);
  g_assert_cmpint (f.broken, ==, 1);
  g_assert_cmpfloat (((float *) f.parameters[0])[0], !=, before[0]);
  fixture_tear_down (&f);
}

/* ---- an optimizer of somebody else ---- */

#define TEST_TYPE_SIGN (test_sign_get_type ())
G_DECLARE_FINAL_TYPE (TestSign, test_sign, TEST, SIGN, OrtrainOptimizer)
struct _TestSign
{
  OrtrainOptimizer parent_instance;
};
G_DEFINE_FINAL_TYPE (TestSign, test_sign, ORTRAIN_TYPE_OPTIMIZER)

static char **
test_sign_get_state_names (OrtrainOptimizer *optimizer)
{
  const char *const state_names[] = { "count", NULL };
  return g_strdupv ((char **) state_names);
}

static gboolean
test_sign_update (OrtrainOptimizer *optimizer, const char *name, OrtrainTensor *parameter, OrtrainTensor *gradient,
                  OrtrainTensorDict *state, guint64 step, double learning_rate, double weight_decay,
                  double gradient_scale, GError **error)
{
  float *w = (float *) ortrain_tensor_get_address (parameter);
  const float *g = (const float *) ortrain_tensor_get_address (gradient);
  float *count = (float *) ortrain_tensor_get_address (ortrain_tensor_dict_get (state, "count"));
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (parameter); i++)
    {
      w[i] -= (float) learning_rate * (g[i] > 0 ? 1.0f : -1.0f);
      count[i] += 1;
    }
  return TRUE;
}

static void
test_sign_class_init (TestSignClass *klass)
{
  ORTRAIN_OPTIMIZER_CLASS (klass)->get_state_names = test_sign_get_state_names;
  ORTRAIN_OPTIMIZER_CLASS (klass)->update = test_sign_update;
}

static void
test_sign_init (TestSign *self)
{
}

static void
test_derived (void)
{
  Fixture f;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainOptimizer) optimizer = g_object_new (TEST_TYPE_SIGN, "learning-rate", 0.25, NULL);
  fixture_set_up (&f, optimizer, ORTRAIN_DTYPE_FLOAT32, 1, FALSE);
  g_assert_true (ortrain_update_set_is_custom (f.set));
  g_assert_null (f.graph->broken);
  g_assert_cmpuint (ortrain_update_set_get_n_states (f.set), ==, 1);
  g_assert_cmpstr (ortrain_update_set_get_state_name (f.set, 0), ==, "count");
  for (guint t = 0; t < N; t++)
    {
      gpointer states[] = { f.states[t][0] };
      g_assert_true (ortrain_update_set_bind_parameter (f.set, t, f.parameters[t], f.gradients[t], states, &error));
    }
  float before = ((float *) f.parameters[2])[5];
  float move = 0;
  for (guint s = 0; s < STEPS; s++)
    {
      for (guint t = 0; t < N; t++)
        for (gint64 i = 0; i < sizes[t]; i++)
          put (f.dtype, f.gradients[t], i, number (i + 31 * t, s + 1));
      move += number (5 + 62, s + 1) > 0 ? -0.25f : 0.25f;
      g_assert_nonnull (ortrain_update_set_fill_scalars (f.set, s + 1, 1.0, 1.0, 0, &error));
      g_assert_true (ortrain_update_set_run (f.set, s + 1, 1.0, &error));
    }
  assert_near (((float *) f.parameters[2])[5], before + move, 1e-6);
  g_assert_cmpfloat (((float *) f.states[2][0])[5], ==, STEPS);
  fixture_tear_down (&f);
}

/* ---- schedules ---- */

static void
compare_schedule (OrtrainLrSchedule *schedule, const char *name)
{
  JsonArray *want = json_object_get_array_member (json_object_get_object_member (load_expected (), "schedules"), name);
  g_assert_cmpuint (json_array_get_length (want), >, 0);
  for (guint i = 0; i < json_array_get_length (want); i++)
    {
      double factor = NAN;
      g_assert_true (ortrain_lr_schedule_evaluate (schedule, i, &factor, NULL));
      assert_near (factor, json_array_get_double_element (want, i), 1e-9);
    }
  g_object_unref (schedule);
}

static void
test_schedules (void)
{
  compare_schedule (
      g_object_new (ORTRAIN_TYPE_LINEAR_SCHEDULE, "total-steps", G_GUINT64_CONSTANT (20), "end-factor", 0.2, NULL),
      "linear");
  compare_schedule (
      g_object_new (ORTRAIN_TYPE_COSINE_SCHEDULE, "total-steps", G_GUINT64_CONSTANT (40), "end-factor", 0.1, NULL),
      "cosine");
  compare_schedule (ortrain_polynomial_schedule_new (25, 2.0), "polynomial");
  compare_schedule (ortrain_step_schedule_new (7, 0.5), "step");
  compare_schedule (ortrain_one_cycle_schedule_new (40), "one-cycle");

  /* warm-up: t / w, then the other one from its start */
  g_autoptr (OrtrainLrSchedule) linear = ortrain_linear_schedule_new (10);
  g_autoptr (OrtrainLrSchedule) warm_up = ortrain_warm_up_schedule_new (4, linear);
  const double want[] = { 0, 0.25, 0.5, 0.75, 1.0, 0.9, 0.8 };
  for (guint i = 0; i < G_N_ELEMENTS (want); i++)
    {
      double factor;
      g_assert_true (ortrain_lr_schedule_evaluate (warm_up, i, &factor, NULL));
      assert_near (factor, want[i], 1e-12);
    }
}

static void
test_plateau (void)
{
  g_autoptr (OrtrainLrSchedule) schedule = ortrain_plateau_schedule_new (0.5, 1);
  double factor;
  const double metrics[] = { 1.0, 0.5, 0.6, 0.7, 0.4, 0.4 };
  for (guint i = 0; i < G_N_ELEMENTS (metrics); i++)
    ortrain_lr_schedule_observe (schedule, metrics[i]);
  g_assert_true (ortrain_lr_schedule_evaluate (schedule, 0, &factor, NULL));
  g_assert_cmpfloat (factor, ==, 0.5);

  /* its state survives a restart */
  g_autoptr (GVariant) state = ortrain_lr_schedule_save_state (schedule);
  g_autoptr (OrtrainLrSchedule) other = ortrain_plateau_schedule_new (0.5, 1);
  g_assert_true (ortrain_lr_schedule_load_state (other, state));
  ortrain_lr_schedule_observe (other, 0.4);
  g_assert_true (ortrain_lr_schedule_evaluate (other, 0, &factor, NULL));
  g_assert_cmpfloat (factor, ==, 0.25);
  g_autoptr (GVariant) wrong = g_variant_ref_sink (g_variant_new_uint32 (3));
  g_assert_false (ortrain_lr_schedule_load_state (other, wrong));

  /* NaN is no improvement, and nothing is compared with it afterwards */
  g_autoptr (OrtrainLrSchedule) third = ortrain_plateau_schedule_new (0.5, 1);
  const double odd[] = { NAN, 1.0, -INFINITY, 0.5, 0.25 };
  for (guint i = 0; i < G_N_ELEMENTS (odd); i++)
    ortrain_lr_schedule_observe (third, odd[i]);
  g_assert_true (ortrain_lr_schedule_evaluate (third, 0, &factor, NULL));
  g_assert_cmpfloat (factor, ==, 1.0);
  g_autoptr (GVariant) kept = ortrain_lr_schedule_save_state (third);
  g_assert_true (ortrain_lr_schedule_load_state (other, kept));
}

/* A value that a setter refuses is refused by g_object_set, too, and nothing is changed. */
static void
test_out_of_range (void)
{
  g_autoptr (OrtrainLrSchedule) steps = ortrain_step_schedule_new (10, 0.5);
  double factor;
  g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "0 cannot be the step-size of OrtrainStepSchedule");
  ortrain_step_schedule_set_step_size (ORTRAIN_STEP_SCHEDULE (steps), 0);
  g_test_assert_expected_messages ();
  g_assert_true (ortrain_lr_schedule_evaluate (steps, 10, &factor, NULL));
  g_assert_cmpfloat (factor, ==, 0.5);

  g_autoptr (OrtrainOptimizer) adam = ortrain_adam_new (1e-3);
  static const double wrong[] = { -0.1, 1.1, INFINITY, NAN };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "*beta1 of OrtrainAdam");
      ortrain_adam_set_beta1 (ORTRAIN_ADAM (adam), wrong[i]);
      g_test_assert_expected_messages ();
      g_assert_cmpfloat (ortrain_adam_get_beta1 (ORTRAIN_ADAM (adam)), ==, 0.9);
    }
}

static void
test_warm_up_circle (void)
{
  g_autoptr (OrtrainLrSchedule) first = ortrain_warm_up_schedule_new (1, NULL);
  g_autoptr (OrtrainLrSchedule) second = ortrain_warm_up_schedule_new (1, first);
  g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "*comes_after*");
  ortrain_warm_up_schedule_set_after (ORTRAIN_WARM_UP_SCHEDULE (first), second);
  g_test_assert_expected_messages ();
  g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL, "*comes_after*");
  g_object_set (first, "after", first, NULL);
  g_test_assert_expected_messages ();
  double factor;
  g_assert_true (ortrain_lr_schedule_evaluate (second, 5, &factor, NULL));
  g_assert_cmpfloat (factor, ==, 1.0);
}

int
main (int argc, char *argv[])
{
  static const char *const cases[] = { "sgd",    "sgd-decay",  "momentum", "nesterov", "adam",      "adamw",
                                       "groups", "adamw-last", "adagrad",  "lamb",     "lamb-bias", "clipped" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/optim/", cases[i], NULL);
      g_test_add_data_func (path, cases[i], test_optimizer);
    }
  g_test_add_func ("/optim/half", test_half);
  g_test_add_func ("/optim/live-properties", test_live_properties);
  g_test_add_func ("/optim/norm", test_norm);
  g_test_add_func ("/optim/derived", test_derived);
  g_test_add_func ("/optim/schedules", test_schedules);
  g_test_add_func ("/optim/plateau", test_plateau);
  g_test_add_func ("/optim/out-of-range", test_out_of_range);
  g_test_add_func ("/optim/warm-up-circle", test_warm_up_circle);
  return g_test_run ();
}
