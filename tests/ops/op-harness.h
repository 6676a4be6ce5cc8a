/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-gradient-private.h"
#include "host-context.h"
#include "ops/ortrain-op-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "specialize/ortrain-host-evaluator-private.h"

#include <math.h>
#include <string.h>

/* For tests of operators: small graphs, run node by node on the host, and gradients compared with central differences.
 */

static inline OrtrainTensor *
harness_tensor (OrtrainDType dtype, const double *values, const gint64 *dims, gsize rank)
{
  gint64 n = 1;
  g_autoptr (GError) error = NULL;
  for (gsize d = 0; d < rank; d++)
    n *= dims[d];
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_FLOAT64, dims, rank, &error);
  g_assert_no_error (error);
  if (n > 0)
    memcpy (ortrain_tensor_peek_writable (wide), values, (gsize) n * sizeof (double));
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    return g_steal_pointer (&wide);
  OrtrainTensor *result = ortrain_tensor_cast (wide, dtype, &error);
  g_assert_no_error (error);
  return result;
}

/* Runs every node of the graph in order; contents: OrtrainValue → OrtrainTensor, inputs filled in, all others come out.
 * Shapes must be numbers, or follow from computed values. */
static inline gboolean
harness_try_run (OrtrainGraph *graph, GHashTable *contents, OrtrainHostContext *context, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      OrtrainTensor *inputs[32] = { NULL }, *outputs[32] = { NULL };
      for (guint k = 0; k < node->inputs->len; k++)
        {
          OrtrainValue *value = node->inputs->pdata[k];
          if (value == NULL)
            continue;
          inputs[k] = g_hash_table_lookup (contents, value);
          if (inputs[k] == NULL)
            inputs[k] = value->tensor;
          if (inputs[k] == NULL)
            g_error ("%s reads '%s', which nothing has made", node->op_type, value->name);
        }
      /* contents of small integers, for shapes that hang on them */
      gboolean given[32] = { FALSE };
      for (guint k = 0; k < node->inputs->len; k++)
        {
          OrtrainValue *value = node->inputs->pdata[k];
          if (value != NULL && value->tensor == NULL && k > 0 &&
              ortrain_tensor_get_dtype (inputs[k]) == ORTRAIN_DTYPE_INT64)
            {
              ortrain_value_set_tensor (value, inputs[k]);
              given[k] = TRUE;
            }
        }
      gboolean ok = ortrain_ops_infer_node (node, error);
      for (guint k = 0; k < node->inputs->len; k++)
        if (given[k])
          ortrain_value_set_tensor (node->inputs->pdata[k], NULL);
      if (!ok || !ortrain_evaluate_node (node, inputs, outputs, context, error))
        return FALSE;
      for (guint k = 0; k < node->outputs->len; k++)
        if (outputs[k] != NULL)
          g_hash_table_replace (contents, node->outputs->pdata[k], outputs[k]);
    }
  return TRUE;
}

static inline void
harness_run (OrtrainGraph *graph, GHashTable *contents, OrtrainHostContext *context)
{
  g_autoptr (GError) error = NULL;
  harness_try_run (graph, contents, context, &error);
  g_assert_no_error (error);
}

static inline GHashTable *
harness_contents (void)
{
  return g_hash_table_new_full (NULL, NULL, NULL, g_object_unref);
}

static inline OrtrainValue *
harness_input (OrtrainGraph *graph, GHashTable *contents, const char *name, OrtrainTensor *tensor)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gsize rank = ortrain_tensor_get_rank (tensor);
  for (gsize d = 0; d < rank; d++)
    dims[d] = ortrain_dim_int (ortrain_tensor_get_dim (tensor, d));
  OrtrainValue *value = ortrain_graph_new_input (graph, name, ortrain_tensor_get_dtype (tensor), dims, (gint) rank);
  g_hash_table_replace (contents, value, g_object_ref (tensor));
  return value;
}

/* Deterministic values in (-1, 1), no two alike. */
static inline void
harness_fill (double *values, gint64 n, guint32 seed)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  for (gint64 i = 0; i < n; i++)
    values[i] = g_rand_double_range (rand, -1, 1);
}

static inline double
harness_scalar (GHashTable *contents, OrtrainValue *value)
{
  return ortrain_tensor_get_scalar (g_hash_table_lookup (contents, value), 0);
}

/* Compares the gradient of Σ_k Σ w_k·y_k with respect to the float64 inputs `wanted` with central differences
 * (Richardson), where y_k are all float64 outputs of the node. The graph holds the node alone. Returns the number of
 * elements compared. */
static inline guint
harness_check_gradient (OrtrainGraph *graph, GHashTable *contents, OrtrainNode *node, OrtrainValue **wanted,
                        guint n_wanted, guint n_outputs, double tolerance)
{
  g_autoptr (GError) error = NULL;
  OrtrainValue *loss = NULL;
  OrtrainHostContext context;
  init_context (&context, NULL);
  context.step = (OrtrainStepBlock){ .seed = 42, .step = 3 };
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  harness_run (graph, contents, &context);
  for (guint k = 0; k < n_outputs; k++)
    {
      OrtrainValue *y = graph->outputs->pdata[k];
      OrtrainTensor *tensor = g_hash_table_lookup (contents, y);
      gsize rank;
      const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
      gint64 n = ortrain_tensor_get_n_elements (tensor);
      g_autofree double *values = g_new0 (double, (gsize) n + 1);
      harness_fill (values, n, 77 + k);
      g_autoptr (OrtrainTensor) weights = harness_tensor (ORTRAIN_DTYPE_FLOAT64, values, dims, rank);
      OrtrainValue *w = ortrain_graph_new_initializer (graph, "weights", weights), *pair[] = { y, w };
      OrtrainNode *mul = ortrain_graph_new_node (graph, "", "Mul", NULL, pair, 2, 1);
      OrtrainValue *product = ortrain_node_output (mul, 0);
      OrtrainNode *sum = ortrain_graph_new_node (graph, "", "ReduceSum", NULL, &product, 1, 1);
      ortrain_attributes_set_int (sum->attributes, "keepdims", 0);
      OrtrainValue *total = ortrain_node_output (sum, 0), *two[] = { loss, total };
      if (loss == NULL)
        loss = total;
      else
        loss = ortrain_node_output (ortrain_graph_new_node (graph, "", "Add", NULL, two, 2, 1), 0);
    }
  ok = ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  ortrain_graph_mark_output (graph, loss, TRUE);
  OrtrainValue *gradients[16];
  ok = ortrain_gradient_build (graph, loss, wanted, n_wanted, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  harness_run (graph, contents, &context);
  guint compared = 0;
  double scale = 0;
  g_autoptr (GPtrArray) analytic = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint k = 0; k < n_wanted; k++)
    {
      OrtrainTensor *gradient = g_hash_table_lookup (contents, gradients[k]);
      g_assert_nonnull (gradient);
      g_ptr_array_add (analytic, g_object_ref (gradient));
      for (gint64 i = 0; i < ortrain_tensor_get_n_elements (gradient); i++)
        scale = MAX (scale, fabs (ortrain_tensor_get_scalar (gradient, i)));
    }
  for (guint k = 0; k < n_wanted; k++)
    {
      OrtrainTensor *gradient = analytic->pdata[k], *x = g_hash_table_lookup (contents, wanted[k]);
      g_assert_cmpint (ortrain_tensor_get_n_elements (gradient), ==, ortrain_tensor_get_n_elements (x));
      double *values = ortrain_tensor_peek_writable (x);
      for (gint64 i = 0; i < ortrain_tensor_get_n_elements (x); i++)
        {
          double v = values[i], h = 1e-3, f[4];
          const double at[] = { -2, -1, 1, 2 };
          for (int p = 0; p < 4; p++)
            {
              values[i] = v + at[p] * h;
              harness_run (graph, contents, &context);
              f[p] = harness_scalar (contents, loss);
            }
          values[i] = v;
          double numeric = (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * h);
          double found = ortrain_tensor_get_scalar (gradient, i);
          if (!(fabs (numeric - found) <= tolerance * MAX (1, scale)))
            g_error ("%s: gradient of input '%s' at %" G_GINT64_FORMAT " is %.12g, differences give %.12g",
                     node->op_type, wanted[k]->name, i, found, numeric);
          compared++;
        }
    }
  return compared;
}

/* loss = Σ weights ⊙ y, as nodes; weights has the shape of y. The graph is bound and inferred. */
static inline OrtrainValue *
harness_weighted_sum (OrtrainGraph *graph, OrtrainValue *y, OrtrainTensor *weights)
{
  g_autoptr (GError) error = NULL;
  OrtrainValue *pair[] = { y, ortrain_graph_new_initializer (graph, "weights", weights) };
  OrtrainNode *mul = ortrain_graph_new_node (graph, "", "Mul", NULL, pair, 2, 1);
  OrtrainValue *product = ortrain_node_output (mul, 0);
  OrtrainNode *sum = ortrain_graph_new_node (graph, "", "ReduceSum", NULL, &product, 1, 1);
  ortrain_attributes_set_int (sum->attributes, "keepdims", 0);
  gboolean ok = ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  ortrain_graph_mark_output (graph, ortrain_node_output (sum, 0), TRUE);
  return ortrain_node_output (sum, 0);
}

/* amplitude · sin (step · i): the same numbers in any language. */
static inline OrtrainTensor *
harness_wave (OrtrainDType dtype, const gint64 *dims, gsize rank, double step, double amplitude)
{
  gint64 n = 1;
  for (gsize d = 0; d < rank; d++)
    n *= dims[d];
  g_autofree double *values = g_new0 (double, (gsize) n + 1);
  for (gint64 i = 0; i < n; i++)
    values[i] = amplitude * sin (step * (double) i);
  return harness_tensor (dtype, values, dims, rank);
}

static inline OrtrainTensor *
harness_cosine (const gint64 *dims, gsize rank, double step)
{
  gint64 n = 1;
  for (gsize d = 0; d < rank; d++)
    n *= dims[d];
  g_autofree double *values = g_new0 (double, (gsize) n + 1);
  for (gint64 i = 0; i < n; i++)
    values[i] = cos (step * (double) i);
  return harness_tensor (ORTRAIN_DTYPE_FLOAT64, values, dims, rank);
}

/* One number that stands for a tensor: Σ x·sin (1.1·i), or with cos (0.9·i). */
static inline double
harness_digest (OrtrainTensor *tensor, gboolean cosine)
{
  double sum = 0;
  g_assert_nonnull (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    sum += ortrain_tensor_get_scalar (tensor, i) * (cosine ? cos (0.9 * (double) i) : sin (1.1 * (double) i));
  return sum;
}
