/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-gradient-private.h"
#include "host-context.h"
#include "ops/ortrain-op-private.h"
#include "runtime/ortrain-executor-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>
#include <string.h>

/* Small training graphs in float64, and a session's memory for them, written out. */

static inline OrtrainTensor *
random_tensor (GRand *rand, const gint64 *dims, gsize rank)
{
  OrtrainTensor *tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, rank, NULL);
  double *data = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    data[i] = g_rand_double_range (rand, -1, 1);
  return tensor;
}

static inline OrtrainValue *
add_parameter (OrtrainGraph *graph, GRand *rand, const char *name, gint64 rows, gint64 columns)
{
  gint64 dims[2] = { rows, columns };
  g_autoptr (OrtrainTensor) tensor = columns > 0 ? random_tensor (rand, dims, 2) : random_tensor (rand, dims, 1);
  OrtrainValue *value = ortrain_graph_new_initializer (graph, name, tensor);
  value->role = ORTRAIN_ROLE_PARAMETER;
  return value;
}

static inline OrtrainNode *
add_node_full (OrtrainGraph *graph, const char *domain, const char *op, const char *name, guint n_outputs,
               OrtrainValue *a, OrtrainValue *b, OrtrainValue *c, OrtrainValue *d, OrtrainValue *e)
{
  OrtrainValue *inputs[] = { a, b, c, d, e };
  guint n = 5;
  while (n > 0 && inputs[n - 1] == NULL)
    n--;
  return ortrain_graph_new_node (graph, domain, op, name, inputs, n, n_outputs);
}

static inline OrtrainValue *
add_op (OrtrainGraph *graph, const char *domain, const char *op, const char *name, OrtrainValue *a, OrtrainValue *b,
        OrtrainValue *c)
{
  return ortrain_node_output (add_node_full (graph, domain, op, name, 1, a, b, c, NULL, NULL), 0);
}

/* Parameters, gradients and buffers by the name of the graph value. */
typedef struct
{
  GHashTable *places; /* name → double array */
} Memory;

static inline gpointer
resolve_place (const char *name, OrtrainRegion region, gpointer user_data)
{
  return g_hash_table_lookup (((Memory *) user_data)->places, name);
}

static inline void
add_place (Memory *memory, const OrtrainValue *value, gboolean contents)
{
  gint64 n = 1;
  for (gint i = 0; i < value->rank; i++)
    n *= value->dims[i].value;
  double *place = g_new0 (double, n + 1);
  if (contents)
    memcpy (place, ortrain_tensor_peek (value->tensor), (gsize) n * sizeof (double));
  g_hash_table_insert (memory->places, g_strdup (value->name), place);
}

static inline void
make_places (Memory *memory, OrtrainGraph *graph)
{
  memory->places = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint i = 0; i < graph->values->len; i++)
    {
      const OrtrainValue *value = graph->values->pdata[i];
      if (value->role == ORTRAIN_ROLE_PARAMETER || value->role == ORTRAIN_ROLE_BUFFER)
        add_place (memory, value, TRUE);
      else if (value->role == ORTRAIN_ROLE_GRADIENT)
        add_place (memory, value, FALSE);
    }
}

/* Marks the loss, adds the gradients of all parameters. */
static inline void
make_training_graph (OrtrainGraph *graph, OrtrainValue *loss)
{
  g_autoptr (GError) error = NULL;
  loss->role = ORTRAIN_ROLE_LOSS;
  ortrain_value_rename (loss, "loss");
  ortrain_graph_mark_output (graph, loss, TRUE);
  graph->opset = 23;
  g_assert_true (ortrain_ops_bind (graph, &error));
  g_assert_true (ortrain_ops_infer (graph, &error));
  g_autoptr (GPtrArray) wanted = g_ptr_array_new ();
  for (guint i = 0; i < graph->initializers->len; i++)
    if (((OrtrainValue *) graph->initializers->pdata[i])->role == ORTRAIN_ROLE_PARAMETER)
      g_ptr_array_add (wanted, graph->initializers->pdata[i]);
  g_autofree OrtrainValue **gradients = g_new0 (OrtrainValue *, wanted->len + 1);
  gboolean ok =
      ortrain_gradient_build (graph, loss, (OrtrainValue *const *) wanted->pdata, wanted->len, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
}

/* One for all tests of a program that do not ask for threads. */
static inline OrtrainDeviceContext *
get_execution (void)
{
  static OrtrainDeviceContext *device_context;
  if (device_context == NULL)
    device_context = ortrain_device_context_new (ortrain_provider_get_host (), NULL, NULL);
  return device_context;
}

/* The context of the executors that are made from now on; NULL: none. */
static G_GNUC_UNUSED OrtrainPlanContext *plan_context;

static inline OrtrainExecutor *
make_executor (OrtrainGraph *graph, Memory *memory, OrtrainDeviceContext *device_context)
{
  g_autoptr (GError) error = NULL;
  OrtrainExecutorConfig config = {
    .device_context = device_context,
    .training = TRUE,
    .resolve = resolve_place,
    .resolve_data = memory,
    .context = plan_context,
  };
  OrtrainExecutor *executor = ortrain_executor_new (graph, &config, &error);
  g_assert_no_error (error);
  return executor;
}

/* One whole step; returns the loss. */
static inline double
run_step (OrtrainExecutor *executor, OrtrainTensorDict *feeds, gboolean accumulate)
{
  g_autoptr (GError) error = NULL;
  OrtrainStepBlock step = { 0 };
  ortrain_step_block_set_accumulate (&step, accumulate);
  double loss;
  ortrain_executor_bind (executor, feeds, NULL, &error);
  g_assert_no_error (error);
  ortrain_executor_run (executor, ORTRAIN_PHASE_FORWARD, &step, NULL, NULL, &error);
  g_assert_no_error (error);
  ortrain_executor_read (executor, "loss", &loss, sizeof loss, &error);
  g_assert_no_error (error);
  ortrain_executor_run (executor, ORTRAIN_PHASE_BACKWARD, &step, NULL, NULL, &error);
  g_assert_no_error (error);
  return loss;
}

/* All gradients against central differences of the loss. */
static inline void
check_gradients (OrtrainExecutor *executor, OrtrainGraph *graph, Memory *memory, OrtrainTensorDict *feeds,
                 double tolerance)
{
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      const OrtrainValue *gradient = graph->outputs->pdata[i];
      if (gradient->role != ORTRAIN_ROLE_GRADIENT)
        continue;
      run_step (executor, feeds, FALSE);
      const OrtrainValue *parameter = gradient->partner;
      double *x = g_hash_table_lookup (memory->places, parameter->name);
      double *g = g_hash_table_lookup (memory->places, gradient->name);
      gint64 n = ortrain_tensor_get_n_elements (parameter->tensor);
      g_autofree double *found = g_memdup2 (g, (gsize) n * sizeof (double));
      for (gint64 k = 0; k < n; k++)
        {
          const double h = 1e-3, kept = x[k];
          double slopes[2];
          for (guint j = 0; j < 2; j++)
            {
              const double d = j == 0 ? h : h / 2;
              x[k] = kept + d;
              double high = run_step (executor, feeds, FALSE);
              x[k] = kept - d;
              double low = run_step (executor, feeds, FALSE);
              slopes[j] = (high - low) / (2 * d);
            }
          x[k] = kept;
          double wanted = (4 * slopes[1] - slopes[0]) / 3;
          if (fabs (wanted - found[k]) > tolerance * (1 + fabs (wanted)))
            g_error ("%s[%d]: %.12g instead of %.12g", gradient->name, (int) k, found[k], wanted);
        }
    }
}
