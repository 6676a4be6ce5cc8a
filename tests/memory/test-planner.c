/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../session/training-graph.h"

#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-verifier-private.h"
#include "planner/ortrain-planner-private.h"
#include "training-graph/ortrain-update-graph-private.h"

#include <json-glib/json-glib.h>

typedef struct
{
  GRand *rand;
  OrtrainGraph *graph;
  OrtrainValue *x; /* [4, 6] */
} Fixture;

static void
fixture_set_up (Fixture *fixture, gconstpointer data)
{
  OrtrainDim dims[2] = { ortrain_dim_int (4), ortrain_dim_int (6) };
  fixture->rand = g_rand_new_with_seed (5);
  fixture->graph = ortrain_graph_new ("test");
  fixture->x = ortrain_graph_new_input (fixture->graph, "x", ORTRAIN_DTYPE_FLOAT64, dims, 2);
}

static void
fixture_tear_down (Fixture *fixture, gconstpointer data)
{
  g_object_unref (fixture->graph);
  g_rand_free (fixture->rand);
}

/* The mean of the squares of a value: a loss that everything can be trained on. */
static OrtrainValue *
add_loss (OrtrainGraph *graph, OrtrainValue *value)
{
  OrtrainValue *square = add_op (graph, "", "Mul", "square", value, value, NULL);
  OrtrainNode *node = add_node_full (graph, "", "ReduceMean", "mean", 1, square, NULL, NULL, NULL, NULL);
  ortrain_attributes_set_int (node->attributes, "keepdims", 0);
  return ortrain_node_output (node, 0);
}

static OrtrainTensorDict *
make_feeds (Fixture *fixture)
{
  gint64 dims[2] = { 4, 6 };
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = random_tensor (fixture->rand, dims, 2);
  ortrain_tensor_dict_set (feeds, "x", x);
  return feeds;
}

/* Trains the loss on everything, checks the gradients, and that a second micro-batch adds; returns the executor. */
static OrtrainExecutor *
check_training (Fixture *fixture, Memory *memory, OrtrainTensorDict *feeds)
{
  make_places (memory, fixture->graph);
  OrtrainExecutor *executor = make_executor (fixture->graph, memory, get_execution ());
  check_gradients (executor, fixture->graph, memory, feeds, 1e-8);
  for (guint i = 0; i < fixture->graph->outputs->len; i++)
    {
      const OrtrainValue *gradient = fixture->graph->outputs->pdata[i];
      if (gradient->role != ORTRAIN_ROLE_GRADIENT)
        continue;
      gsize n = (gsize) ortrain_tensor_get_n_elements (gradient->partner->tensor);
      double *g = g_hash_table_lookup (memory->places, gradient->name);
      run_step (executor, feeds, FALSE);
      g_autofree double *once = g_memdup2 (g, n * sizeof (double));
      run_step (executor, feeds, TRUE);
      for (gsize k = 0; k < n; k++)
        g_assert_cmpfloat_with_epsilon (g[k], 2 * once[k], 1e-12);
    }
  return executor;
}

static guint
count_steps (OrtrainMemoryPlan *plan, const char *op_type)
{
  guint n, count = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n);
  for (guint s = 0; s < n; s++)
    count += g_str_equal (steps[s].node->op_type, op_type);
  return count;
}

static guint32
row_of (OrtrainMemoryPlan *plan, const char *name)
{
  return ortrain_memory_plan_find_buffer (plan, ortrain_graph_find_value (ortrain_memory_plan_peek_graph (plan), name));
}

static guint32
root_of (OrtrainMemoryPlan *plan, const char *name)
{
  guint32 row = row_of (plan, name);
  g_assert_cmpuint (row, !=, G_MAXUINT32);
  return ortrain_memory_plan_peek_values (plan, NULL)[row].root;
}

static void
test_views_and_in_place (Fixture *fixture, gconstpointer data)
{
  OrtrainGraph *graph = fixture->graph;
  OrtrainValue *w = add_parameter (graph, fixture->rand, "w", 6, 8),
               *v = add_parameter (graph, fixture->rand, "v", 8, 3);
  gint64 shape[2] = { -1, 8 };
  OrtrainValue *a = add_op (graph, "", "MatMul", "a", fixture->x, w, NULL);
  OrtrainValue *b = add_op (graph, "", "Tanh", "b", a, NULL, NULL);
  OrtrainValue *c = add_op (graph, "", "Reshape", "c", b, ortrain_graph_const_ints (graph, shape, 2), NULL);
  OrtrainValue *d = add_op (graph, "", "MatMul", "d", c, v, NULL);
  ortrain_value_rename (a, "a");
  ortrain_value_rename (b, "b");
  ortrain_value_rename (d, "d");
  make_training_graph (graph, add_loss (graph, d));
  Memory memory;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture);
  g_autoptr (OrtrainExecutor) executor = check_training (fixture, &memory, feeds);
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
  g_assert_cmpuint (count_steps (plan, "Reshape"), ==, 0);
  g_assert_cmpuint (root_of (plan, "a"), ==, root_of (plan, "b"));
  g_assert_cmpuint (count_steps (plan, "Accumulate"), ==, 0);
  g_assert_cmpuint (plan->arena_bytes, ==, plan->lower_bound_bytes);
  g_hash_table_unref (memory.places);
}

/* A normalisation's kernel makes three gradients at once: scale and bias accumulate in place like any other, also when
 * both are used twice. */
static void
test_norm (Fixture *fixture, gconstpointer data)
{
  OrtrainGraph *graph = fixture->graph;
  OrtrainValue *w = add_parameter (graph, fixture->rand, "w", 6, 8);
  OrtrainValue *scale = add_parameter (graph, fixture->rand, "scale", 8, 0),
               *bias = add_parameter (graph, fixture->rand, "bias", 8, 0);
  OrtrainValue *a = add_op (graph, "", "MatMul", "a", fixture->x, w, NULL);
  OrtrainValue *b = add_op (graph, "", "LayerNormalization", "b", a, scale, bias);
  OrtrainValue *c = add_op (graph, "", "Tanh", "c", b, NULL, NULL);
  OrtrainValue *d = add_op (graph, "", "LayerNormalization", "d", c, scale, bias);
  make_training_graph (graph, add_loss (graph, d));
  Memory memory;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture);
  g_autoptr (OrtrainExecutor) executor = check_training (fixture, &memory, feeds);
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
  guint accumulating = 0, accumulation = 0;
  for (guint s = 0; s < plan->n_steps; s++)
    {
      accumulating += (guint) __builtin_popcountll (plan->steps[s].accumulates);
      accumulation += (guint) __builtin_popcountll (plan->steps[s].gradients);
    }
  g_assert_cmpuint (accumulation, ==, 3);
  g_assert_cmpuint (accumulating, ==, 2);
  g_assert_cmpuint (count_steps (plan, "Accumulate"), ==, 0);
  g_hash_table_unref (memory.places);
}

/* One parameter used three times, and a branch that meets another: sums without steps. */
static void
test_accumulation (Fixture *fixture, gconstpointer data)
{
  OrtrainGraph *graph = fixture->graph;
  OrtrainValue *w = add_parameter (graph, fixture->rand, "w", 6, 6),
               *v = add_parameter (graph, fixture->rand, "v", 6, 6);
  OrtrainValue *a = add_op (graph, "", "MatMul", "a", fixture->x, w, NULL);
  OrtrainValue *t = add_op (graph, "", "Tanh", "t", a, NULL, NULL);
  OrtrainValue *b = add_op (graph, "", "MatMul", "b", t, w, NULL);
  OrtrainValue *c = add_op (graph, "", "MatMul", "c", t, v, NULL);
  OrtrainValue *d = add_op (graph, "", "Mul", "d", b, c, NULL);
  OrtrainValue *e = add_op (graph, "", "MatMul", "e", d, w, NULL);
  make_training_graph (graph, add_loss (graph, e));
  Memory memory;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture);
  g_autoptr (OrtrainExecutor) executor = check_training (fixture, &memory, feeds);
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
  guint accumulating = 0, accumulation = 0;
  for (guint s = 0; s < plan->n_steps; s++)
    {
      accumulating += (guint) __builtin_popcountll (plan->steps[s].accumulates);
      accumulation += (guint) __builtin_popcountll (plan->steps[s].gradients);
    }
  g_assert_cmpuint (accumulation, ==, 2);
  g_assert_cmpuint (accumulating, ==, 3);              /* two further uses of w, and where both branches meet at t */
  g_assert_cmpuint (count_steps (plan, "Add"), ==, 1); /* of the square's two sides, which no product makes */
  g_assert_cmpuint (count_steps (plan, "Accumulate"), ==, 0);
  g_hash_table_unref (memory.places);
}

/* Gradients that are something else as well: one value for two parameters, a transposed one, a constant one, one that a
 * further node reads. */
static void
test_awkward_gradients (Fixture *fixture, gconstpointer data)
{
  OrtrainGraph *graph = fixture->graph;
  OrtrainValue *p = add_parameter (graph, fixture->rand, "p", 4, 6),
               *q = add_parameter (graph, fixture->rand, "q", 4, 6);
  OrtrainValue *r = add_parameter (graph, fixture->rand, "r", 6, 4),
               *s = add_parameter (graph, fixture->rand, "s", 6, 0);
  OrtrainValue *a = add_op (graph, "", "Add", "a", fixture->x, p, NULL);
  OrtrainValue *b = add_op (graph, "", "Add", "b", a, q, NULL);
  OrtrainValue *t = add_op (graph, "", "Transpose", "t", r, NULL, NULL);
  OrtrainValue *c = add_op (graph, "", "Add", "c", b, t, NULL);
  OrtrainValue *d = add_op (graph, "", "Mul", "d", c, s, NULL);
  OrtrainNode *sum = add_node_full (graph, "", "ReduceSum", "sum", 1, d, NULL, NULL, NULL, NULL);
  ortrain_attributes_set_int (sum->attributes, "keepdims", 0);
  make_training_graph (graph, ortrain_node_output (sum, 0));
  Memory memory;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture);
  g_autoptr (OrtrainExecutor) executor G_GNUC_UNUSED = check_training (fixture, &memory, feeds);
  g_hash_table_unref (memory.places);
}

/* Running statistics move in place, after everything that reads the old ones. */
static void
test_buffer_updates (Fixture *fixture, gconstpointer data)
{
  OrtrainGraph *graph = fixture->graph;
  OrtrainValue *scale = add_parameter (graph, fixture->rand, "scale", 6, 0);
  OrtrainValue *bias = add_parameter (graph, fixture->rand, "bias", 6, 0);
  OrtrainValue *mean = add_parameter (graph, fixture->rand, "mean", 6, 0);
  OrtrainValue *var = add_parameter (graph, fixture->rand, "var", 6, 0);
  mean->role = var->role = ORTRAIN_ROLE_BUFFER;
  /* A reader of the old mean that stands after the node which makes the new one. */
  OrtrainNode *norm =
      add_node_full (graph, ORTRAIN_DOMAIN, "BatchNormTrain", "norm", 5, fixture->x, scale, bias, mean, var);
  ortrain_attributes_set_float (norm->attributes, "momentum", 0.9);
  OrtrainValue *y = add_op (graph, "", "Mul", "late", ortrain_node_output (norm, 0), mean, NULL);
  for (guint k = 1; k <= 2; k++)
    {
      OrtrainValue *update = ortrain_node_output (norm, k);
      update->role = ORTRAIN_ROLE_UPDATE;
      update->partner = k == 1 ? mean : var;
      ortrain_graph_mark_output (graph, update, TRUE);
    }
  OrtrainValue *target = add_op (graph, "", "Sub", "shift", y, fixture->x, NULL);
  make_training_graph (graph, add_loss (graph, target));

  Memory memory;
  make_places (&memory, graph);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture);
  g_autoptr (OrtrainExecutor) executor = make_executor (graph, &memory, get_execution ());
  const double *x = ortrain_tensor_peek (ortrain_tensor_dict_get (feeds, "x"));
  const double *stored = g_hash_table_lookup (memory.places, "mean");
  double wanted[6], first_loss = 0;
  memcpy (wanted, stored, sizeof wanted);
  for (guint step = 0; step < 3; step++)
    {
      double loss = run_step (executor, feeds, step > 0);
      for (guint c = 0; c < 6; c++)
        {
          double batch = (x[c] + x[6 + c] + x[12 + c] + x[18 + c]) / 4;
          wanted[c] = 0.9 * wanted[c] + 0.1 * batch;
          g_assert_cmpfloat_with_epsilon (stored[c], wanted[c], 1e-14);
        }
      if (step == 0)
        first_loss = loss;
    }
  /* The loss of the first step saw the old mean. */
  double *place = g_hash_table_lookup (memory.places, "mean");
  memcpy (place, ortrain_tensor_peek (mean->tensor), 6 * sizeof (double));
  g_assert_cmpfloat (run_step (executor, feeds, FALSE), ==, first_loss);
  g_hash_table_unref (memory.places);
}

/* ---- Updates ---- */

typedef enum
{
  UPDATES_NONE,
  UPDATES_LATER,
  UPDATES_IMMEDIATE,
} Updates;

static void
trained_clear (gpointer data)
{
  OrtrainTrainedTensor *trained = data;
  g_free (trained->name);
  g_free (trained->gradient);
  g_strfreev (trained->states);
  g_clear_object (&trained->initial);
}

/* SGD with momentum, after the gradients of a training graph. scalars: its numbers, all 0 as yet. */
static void
add_updates (OrtrainGraph *graph, Memory *memory, Updates updates, double **scalars)
{
  g_autoptr (GError) error = NULL;
  const OrtrainUpdateRule rule = {
    .optimizer = { .op_type = "SgdUpdate", .n_states = 1, .state_names = { "momentum" } },
    .immediate = updates == UPDATES_IMMEDIATE,
  };
  OrtrainTrainingGraph *training = g_new0 (OrtrainTrainingGraph, 1);
  training->training = g_object_ref (graph);
  training->parameters = g_array_new (FALSE, TRUE, sizeof (OrtrainTrainedTensor));
  g_array_set_clear_func (training->parameters, trained_clear);
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      const OrtrainValue *gradient = graph->outputs->pdata[i];
      if (gradient->role != ORTRAIN_ROLE_GRADIENT)
        continue;
      const OrtrainTrainedTensor trained = { .name = g_strdup (gradient->partner->name),
                                             .initial = g_object_ref (gradient->partner->tensor),
                                             .gradient = g_strdup (gradient->name),
                                             .padding_row = -1 };
      g_array_append_val (training->parameters, trained);
    }
  g_assert_true (ortrain_update_graph_add (training, &rule, &error));
  g_assert_no_error (error);
  for (guint i = 0; i < training->parameters->len; i++)
    add_place (
        memory,
        ortrain_graph_find_value (graph, g_array_index (training->parameters, OrtrainTrainedTensor, i).states[0]),
        FALSE);
  add_place (memory, ortrain_graph_find_value (graph, training->scalars), FALSE);
  *scalars = g_hash_table_lookup (memory->places, training->scalars);
  ortrain_training_graph_free (training);
}

/* A parameter that is read three times, in the backward pass last, and an activation that is made again there. */
static OrtrainExecutor *
make_updated (Fixture *fixture, Memory *memory, Updates updates, double **scalars)
{
  OrtrainGraph *graph = fixture->graph;
  OrtrainValue *w = add_parameter (graph, fixture->rand, "w", 6, 6);
  OrtrainValue *bias = add_parameter (graph, fixture->rand, "bias", 6, 0);
  OrtrainValue *a = add_op (graph, "", "Gemm", "a", fixture->x, w, bias);
  OrtrainValue *t = add_op (graph, "", "Tanh", "t", a, NULL, NULL);
  OrtrainValue *b = add_op (graph, "", "MatMul", "b", t, w, NULL);
  OrtrainValue *c = add_op (graph, "", "Add", "c", b, bias, NULL);
  make_training_graph (graph, add_loss (graph, add_op (graph, "", "MatMul", "d", c, w, NULL)));
  make_places (memory, graph);
  add_updates (graph, memory, updates, scalars);
  return make_executor (graph, memory, get_execution ());
}

/* Updates write over the values that they replace, after all readers of those; gradients that they read at once need no
 * place. */
static void
test_updates (Fixture *fixture, gconstpointer data)
{
  const Updates updates = GPOINTER_TO_UINT (data);
  Memory memory;
  double *scalars;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainExecutor) executor = make_updated (fixture, &memory, updates, &scalars);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture);
  const double first = run_step (executor, feeds, FALSE);
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
  g_assert_cmpuint (count_steps (plan, "Accumulate"), ==, 0);
  g_assert_cmpuint (count_steps (plan, "SgdUpdate"), ==, 1);
  g_assert_cmpuint (root_of (plan, "w.next"), ==, row_of (plan, "w"));
  g_assert_cmpuint (root_of (plan, "w.momentum.next"), ==, row_of (plan, "w.momentum"));
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (plan, NULL);
  g_assert_cmpint (values[row_of (plan, "w")].region, ==, ORTRAIN_REGION_PARAMETER);
  g_assert_cmpint (values[row_of (plan, "w.momentum")].region, ==, ORTRAIN_REGION_STATE);
  g_assert_cmpint (values[row_of (plan, "w.grad")].region, ==,
                   updates == UPDATES_IMMEDIATE ? ORTRAIN_REGION_ARENA : ORTRAIN_REGION_GRADIENT);
  g_assert_cmpint (values[row_of (plan, "w.grad")].category, ==, ORTRAIN_CATEGORY_GRADIENT);
  g_assert_cmpuint (ortrain_memory_plan_get_first_update_step (plan), ==,
                    ortrain_memory_plan_get_n_steps (plan) - (updates == UPDATES_IMMEDIATE ? 0 : 2));

  /* one step down the slope: each parameter by its own learning rate */
  const OrtrainStepBlock step = { 0 };
  double *w = g_hash_table_lookup (memory.places, "w");
  const double kept = w[7];
  scalars[ORTRAIN_UPDATE_GRADIENT_SCALE] = scalars[ORTRAIN_UPDATE_STEP] = 1;
  scalars[ORTRAIN_UPDATE_LEARNING_RATE (0)] = scalars[ORTRAIN_UPDATE_LEARNING_RATE (1)] = 1e-3;
  g_assert_cmpfloat (run_step (executor, feeds, FALSE), ==, first);
  ortrain_executor_run (executor, ORTRAIN_PHASE_UPDATE, &step, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (w[7], !=, kept);
  g_assert_cmpfloat (run_step (executor, feeds, FALSE), <, first);
  g_hash_table_unref (memory.places);
}

/* ---- The verifier ---- */

static OrtrainMemoryPlan *
make_plan (Fixture *fixture, OrtrainExecutor **executor, Memory *memory, Updates updates)
{
  OrtrainGraph *graph = fixture->graph;
  OrtrainValue *w = add_parameter (graph, fixture->rand, "w", 6, 6),
               *v = add_parameter (graph, fixture->rand, "v", 6, 6);
  OrtrainValue *scale = add_parameter (graph, fixture->rand, "scale", 6, 0);
  OrtrainValue *bias = add_parameter (graph, fixture->rand, "bias", 6, 0);
  OrtrainValue *a = add_op (graph, "", "Gemm", "a", fixture->x, w, bias);
  OrtrainValue *n = add_op (graph, "", "LayerNormalization", "n", a, scale, bias);
  OrtrainValue *t = add_op (graph, "", "Tanh", "t", n, NULL, NULL);
  OrtrainValue *b = add_op (graph, "", "MatMul", "b", t, w, NULL);
  OrtrainValue *c = add_op (graph, "", "MatMul", "c", t, v, NULL);
  OrtrainValue *d = add_op (graph, "", "Mul", "d", b, c, NULL);
  make_training_graph (graph, add_loss (graph, d));
  make_places (memory, graph);
  double *scalars;
  if (updates != UPDATES_NONE)
    add_updates (graph, memory, updates, &scalars);
  *executor = make_executor (graph, memory, get_execution ());
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture);
  run_step (*executor, feeds, FALSE);
  return ortrain_executor_get_plan (*executor);
}

static void
expect_refused (OrtrainMemoryPlan *plan, const char *what, guint where)
{
  g_autoptr (GError) error = NULL;
  if (ortrain_plan_verify (plan, &error))
    g_error ("the verifier lets pass: %s, %u", what, where);
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID);
}

#define MUTATE(place, value, what, where)                                                                              \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    const __typeof__ (place) kept_ = (place);                                                                          \
    (place) = (value);                                                                                                 \
    expect_refused (plan, what, where);                                                                                \
    (place) = kept_;                                                                                                   \
  }                                                                                                                    \
  G_STMT_END

static gboolean
is_block (OrtrainMemoryPlan *plan, guint i)
{
  return ortrain_plan_value_is_block (plan->values, i) && plan->values[i].last >= 0;
}

/* Moves a root and all that lie in it. */
static void
move_root (OrtrainMemoryPlan *plan, guint32 root, gsize offset)
{
  for (guint i = 0; i < plan->n_values; i++)
    if (plan->values[i].root == root)
      plan->values[i].offset = offset;
}

static void
test_verifier (Fixture *fixture, gconstpointer data)
{
  Memory memory;
  OrtrainExecutor *executor;
  g_autoptr (GError) error = NULL;
  OrtrainMemoryPlan *plan = make_plan (fixture, &executor, &memory, GPOINTER_TO_UINT (data));
  g_assert_true (ortrain_plan_verify (plan, &error));
  g_assert_no_error (error);

  guint n_moved = 0;
  for (guint32 i = 0; i < plan->n_values; i++)
    {
      if (!is_block (plan, i))
        continue;
      MUTATE (plan->values[i].first, plan->values[i].first + 1, "a later birth", i);
      MUTATE (plan->values[i].first, plan->values[i].first - 1, "an earlier birth", i);
      MUTATE (plan->values[i].last, plan->values[i].last + 1, "a later death", i);
      MUTATE (plan->values[i].last, plan->values[i].last - 1, "an earlier death", i);
      MUTATE (plan->values[i].region, ORTRAIN_REGION_INPUT, "another region", i);
      if (plan->values[i].value != NULL)
        MUTATE (plan->values[i].bytes, plan->values[i].bytes - 8, "fewer bytes", i);
      gsize offset = plan->values[i].offset;
      move_root (plan, i, plan->arena_bytes);
      expect_refused (plan, "a place after the arena", i);
      move_root (plan, i, offset + 32);
      expect_refused (plan, "a misaligned place", i);
      for (guint32 j = 0; j < plan->n_values; j++)
        if (i != j && is_block (plan, j) && plan->values[i].first <= plan->values[j].last &&
            plan->values[j].first <= plan->values[i].last)
          {
            move_root (plan, i, plan->values[j].offset);
            expect_refused (plan, "two values in one place", i);
            n_moved++;
          }
      move_root (plan, i, offset);
    }
  g_assert_cmpuint (n_moved, >, 20);

  /* A value that shares the memory of another that still lives. */
  for (guint32 i = 0; i < plan->n_values; i++)
    for (guint32 j = 0; j < plan->n_values; j++)
      if (i != j && is_block (plan, i) && is_block (plan, j) && plan->values[i].bytes == plan->values[j].bytes &&
          plan->values[i].first < plan->values[j].last && plan->values[j].first < plan->values[i].last)
        {
          OrtrainPlanValue kept = plan->values[i];
          plan->values[i].root = j;
          plan->values[i].offset = plan->values[j].offset;
          expect_refused (plan, "a shared place", i);
          plan->values[i] = kept;
        }

  for (guint s = 0; s < plan->n_steps; s++)
    {
      OrtrainPlanStep *step = &plan->steps[s];
      MUTATE (step->accumulates, !step->accumulates, "adding or not", s);
      MUTATE (step->gradients, !step->gradients, "accumulation or not", s);
      MUTATE (step->node, plan->steps[(s + 1) % plan->n_steps].node, "another node", s);
      MUTATE (step->phase, step->phase == ORTRAIN_PHASE_FORWARD ? ORTRAIN_PHASE_BACKWARD : ORTRAIN_PHASE_FORWARD,
              "another phase", s);
      MUTATE (step->kernel, NULL, "no kernel", s);
      MUTATE (step->n_inputs, step->n_inputs + 1, "one more operand", s);
      if (step->workspace != G_MAXUINT32)
        MUTATE (step->workspace, G_MAXUINT32, "no workspace", s);
      for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
        {
          guint32 *operand = &plan->operands[step->first_operand + i];
          if (*operand == G_MAXUINT32)
            continue;
          MUTATE (*operand, G_MAXUINT32, "an operand left out", s);
          MUTATE (*operand, (*operand + 1) % plan->n_values, "another operand", s);
        }
      for (guint k = 0; k < step->n_outputs; k++)
        {
          /* Where a place is taken over from an input, the kernel's leave to do so is needed. */
          guint32 at = step->first_operand + step->n_inputs + k, output = plan->operands[at];
          for (guint i = 0; i < step->n_inputs; i++)
            {
              guint32 input = plan->operands[step->first_operand + i];
              if (output != G_MAXUINT32 && input != G_MAXUINT32 &&
                  plan->values[input].root == plan->values[output].root && plan->values[output].bytes > 0)
                MUTATE (plan->inplace[at], plan->inplace[at] & ~((guint64) 1 << i), "no leave to write in place", s);
            }
        }
      if (s + 1 < plan->n_steps)
        {
          OrtrainPlanStep kept = plan->steps[s];
          plan->steps[s] = plan->steps[s + 1];
          plan->steps[s + 1] = kept;
          expect_refused (plan, "two steps exchanged", s);
          plan->steps[s + 1] = plan->steps[s];
          plan->steps[s] = kept;
        }
    }
  for (guint s = 0; s < plan->n_steps; s++)
    {
      MUTATE (plan->steps[s].stream, ORTRAIN_STREAM_HOST, "a step of the device on the host", s);
      MUTATE (plan->steps[s].n_joined, 0, "a step that does not run", s);
      MUTATE (plan->steps[s].n_joined, 2, "steps together whose kernel runs them one by one", s);
      for (guint w = 0; w < plan->steps[s].n_waits; w++)
        {
          guint32 *wait = &plan->waits[plan->steps[s].first_wait + w];
          const OrtrainPlanStream stream = plan->steps[*wait].stream;
          MUTATE (*wait, s, "a step that waits for itself", s);
          for (guint before = 0; before < *wait; before++)
            if (plan->steps[before].stream == stream)
              MUTATE (*wait, before, "a step that does not wait for long enough", s);
        }
    }
  MUTATE (plan->first_backward, plan->first_backward - 1, "an earlier backward pass", 0);
  MUTATE (plan->first_update, plan->first_update - 1, "an earlier update", 0);
  for (guint32 i = 0; i < plan->n_values; i++)
    if (plan->values[i].value != NULL && plan->values[i].value->role == ORTRAIN_ROLE_UPDATE &&
        plan->values[i].value->partner != NULL)
      {
        MUTATE (plan->values[i].value->partner, NULL, "an update of nothing", i);
        plan->values[i].value->role = ORTRAIN_ROLE_NONE;
        expect_refused (plan, "a write that is no update", i);
        plan->values[i].value->role = ORTRAIN_ROLE_UPDATE;
      }
  MUTATE (plan->n_steps, plan->n_steps - 1, "a step left out", 0);
  MUTATE (plan->arena_bytes, plan->arena_bytes - 64, "a smaller arena", 0);
  MUTATE (plan->lower_bound_bytes, plan->lower_bound_bytes - 64, "a lower bound", 0);
  for (guint s = 0; s <= plan->n_steps; s++)
    MUTATE (plan->live[s], plan->live[s] + 64, "more live bytes", s);

  g_assert_true (ortrain_plan_verify (plan, &error));
  ortrain_executor_free (executor);
  g_hash_table_unref (memory.places);
}

/* The same for a plan whose steps wait for each other. */
static void
test_verifier_streams (Fixture *fixture, gconstpointer data)
{
  plan_context = ortrain_plan_context_new (ortrain_provider_get_host ());
  plan_context->two_streams = TRUE;
  test_verifier (fixture, data);
  g_clear_pointer (&plan_context, ortrain_plan_context_unref);
}

/* A plan is made of a graph that stays as it is, as often as one likes; kernels are prepared once. */
static void
test_pure (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Memory memory;
  OrtrainExecutor *executor;
  OrtrainMemoryPlan *first = make_plan (fixture, &executor, &memory, GPOINTER_TO_UINT (data));
  g_autoptr (OrtrainKernelCache) cache = ortrain_kernel_cache_new ();
  const OrtrainPlanRequest request = {
    .provider = ortrain_provider_get_host (),
    .host = ortrain_provider_get_host (),
    .cache = cache,
    .keep_outputs_in_arena = TRUE,
  };
  OrtrainGraph *graph = ortrain_memory_plan_peek_graph (first);
  g_autofree char *before = ortrain_graph_to_string (graph);
  guint n_kernels = 0;
  for (guint round = 0; round < 100; round++)
    {
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_planner_plan (graph, &request, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (ortrain_memory_plan_get_arena_bytes (plan), ==, ortrain_memory_plan_get_arena_bytes (first));
      if (round == 0)
        n_kernels = ortrain_kernel_cache_get_size (cache);
    }
  g_assert_cmpuint (n_kernels, >, 0);
  g_assert_cmpuint (ortrain_kernel_cache_get_size (cache), ==, n_kernels);
  g_assert_cmpuint (n_kernels, <, ortrain_memory_plan_get_n_steps (first)); /* some are equal */
  ortrain_kernel_cache_trim (cache);
  g_assert_cmpuint (ortrain_kernel_cache_get_size (cache), ==, 0);
  g_autofree char *after = ortrain_graph_to_string (graph);
  g_assert_cmpstr (before, ==, after);
  ortrain_executor_free (executor);
  g_hash_table_unref (memory.places);
}

/* Kernels are prepared once for each long constant, which no cache outlives: nothing but its address is known of it. */
static void
test_long_contents (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("contents");
  const gint64 n = 1024; /* elements: 8 KiB */
  const OrtrainDim dim = ortrain_dim_int (n);
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT64, &dim, 1);
  for (guint c = 0; c < 2; c++)
    {
      g_autoptr (OrtrainTensor) tensor = random_tensor (fixture->rand, &n, 1);
      OrtrainValue *constant = ortrain_graph_new_initializer (graph, NULL, tensor);
      for (guint i = 0; i < 2; i++)
        ortrain_graph_mark_output (graph, add_op (graph, "", "Mul", "product", x, constant, NULL), TRUE);
    }
  g_assert_true (ortrain_ops_infer (graph, &error));
  g_autoptr (OrtrainKernelCache) cache = ortrain_kernel_cache_new ();
  const OrtrainPlanRequest request = {
    .provider = ortrain_provider_get_host (),
    .host = ortrain_provider_get_host (),
    .cache = cache,
  };
  for (guint round = 0; round < 2; round++)
    {
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_planner_plan (graph, &request, &error);
      g_assert_no_error (error);
      gpointer *kernels = plan->kernels->pdata;
      g_assert_cmpuint (plan->kernels->len, ==, 4);
      g_assert_true (kernels[0] == kernels[1] && kernels[2] == kernels[3]);
      g_assert_true (kernels[0] != kernels[2]);
      g_assert_cmpuint (ortrain_kernel_cache_get_size (cache), ==, 0);
    }
}

static void
test_output (Fixture *fixture, gconstpointer data)
{
  Memory memory;
  OrtrainExecutor *executor;
  g_autoptr (GError) error = NULL;
  OrtrainMemoryPlan *plan = make_plan (fixture, &executor, &memory, UPDATES_NONE);
  g_assert_cmpuint (ortrain_memory_plan_get_high_water (plan, plan->n_steps), ==, plan->arena_bytes);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), ==,
                    plan->arena_bytes + 2 * (36 + 36 + 6 + 6) * sizeof (double));
  ortrain_executor_set_persistent (executor, ORTRAIN_CATEGORY_STATE, 1000);
  g_assert_cmpuint (ortrain_memory_plan_get_persistent_bytes (plan), ==,
                    1000 + 2 * (36 + 36 + 6 + 6) * sizeof (double));

  GListModel *blocks = ortrain_memory_plan_get_blocks (plan);
  guint64 end = 0;
  g_assert_cmpuint (g_list_model_get_n_items (blocks), >, 0);
  for (guint i = 0; i < g_list_model_get_n_items (blocks); i++)
    {
      g_autoptr (OrtrainMemoryBlock) block = g_list_model_get_item (blocks, i);
      if (g_str_equal (ortrain_memory_block_get_region (block), "arena"))
        end = MAX (end, ortrain_memory_block_get_offset (block) + ortrain_memory_block_get_bytes (block));
    }
  g_assert_cmpuint (end, <=, plan->arena_bytes);
  g_assert_cmpuint (end + 64, >, plan->arena_bytes);

  g_autofree char *json = ortrain_memory_plan_to_json (plan);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_assert_true (json_parser_load_from_data (parser, json, -1, &error));
  JsonObject *object = json_node_get_object (json_parser_get_root (parser));
  g_assert_cmpuint ((guint64) json_object_get_int_member (object, "peak_bytes"), ==,
                    ortrain_memory_plan_get_peak_bytes (plan));
  g_assert_cmpuint ((guint64) json_object_get_int_member (object, "arena_bytes"), ==, plan->arena_bytes);
  g_assert_true (json_object_has_member (object, "recompute"));

  /* work: of each product 2 m n k, and a kernel that gives no bytes moves its operands */
  guint n_steps, n_products = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  JsonArray *json_steps = json_object_get_array_member (object, "steps");
  double flops = 0, bytes_moved = 0;
  g_assert_cmpuint (json_array_get_length (json_steps), ==, n_steps);
  for (guint s = 0; s < n_steps; s++)
    {
      JsonObject *step = json_array_get_object_element (json_steps, s);
      const double step_flops = json_object_get_double_member (step, "flops");
      flops += step_flops;
      bytes_moved += json_object_get_double_member (step, "bytes_moved");
      g_assert_cmpfloat (json_object_get_double_member (step, "bytes_moved"), >, 0);
      if (!g_str_equal (steps[s].node->op_type, "MatMul"))
        continue;
      const OrtrainValue *y = ortrain_node_output (steps[s].node, 0), *b = ortrain_node_input (steps[s].node, 1);
      gint64 m = 2, k;
      for (gint d = 0; d < y->rank; d++)
        m *= y->dims[d].value;
      k = b->dims[b->rank - 2].value;
      g_assert_cmpfloat (step_flops, ==, (double) (m * k));
      n_products++;
    }
  g_assert_cmpuint (n_products, ==, 2);
  g_assert_cmpfloat (json_object_get_double_member (object, "flops"), ==, flops);
  g_assert_cmpfloat (json_object_get_double_member (object, "bytes_moved"), ==, bytes_moved);
  JsonObject *block = json_array_get_object_element (json_object_get_array_member (object, "blocks"), 0);
  for (const char *const *name = (const char *const[]){ "name", "category", "offset", "bytes", "first", "last", NULL };
       *name != NULL; name++)
    g_assert_true (json_object_has_member (block, *name));

  g_autofree char *svg = ortrain_memory_plan_to_svg (plan), *text = ortrain_memory_plan_to_string (plan);
  GMarkupParser nothing = { 0 };
  g_autoptr (GMarkupParseContext) context = g_markup_parse_context_new (&nothing, 0, NULL, NULL);
  g_assert_true (g_markup_parse_context_parse (context, svg, -1, &error));
  g_assert_true (g_markup_parse_context_end_parse (context, &error));
  g_assert_nonnull (strstr (svg, "backward"));
  g_assert_nonnull (strstr (text, "persistent"));
  g_assert_nonnull (strstr (text, "\n  work        about "));
  ortrain_executor_free (executor);
  g_hash_table_unref (memory.places);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD_WITH(path, data, function)                                                                                 \
  g_test_add (path, Fixture, GUINT_TO_POINTER (data), fixture_set_up, function, fixture_tear_down)
#define ADD(path, function) ADD_WITH (path, 0, function)
  ADD ("/planner/views-and-in-place", test_views_and_in_place);
  ADD ("/planner/accumulation", test_accumulation);
  ADD ("/planner/norm", test_norm);
  ADD ("/planner/awkward-gradients", test_awkward_gradients);
  ADD ("/planner/buffer-updates", test_buffer_updates);
  ADD_WITH ("/planner/updates", UPDATES_LATER, test_updates);
  ADD_WITH ("/planner/updates/immediate", UPDATES_IMMEDIATE, test_updates);
  ADD_WITH ("/planner/verifier", UPDATES_NONE, test_verifier);
  ADD_WITH ("/planner/verifier/updates", UPDATES_LATER, test_verifier);
  ADD_WITH ("/planner/verifier/immediate-updates", UPDATES_IMMEDIATE, test_verifier);
  ADD_WITH ("/planner/verifier/streams", UPDATES_NONE, test_verifier_streams);
  ADD_WITH ("/planner/verifier/streams-and-updates", UPDATES_LATER, test_verifier_streams);
  ADD_WITH ("/planner/pure", UPDATES_LATER, test_pure);
  ADD ("/planner/long-contents", test_long_contents);
  ADD ("/planner/output", test_output);
  return g_test_run ();
}
