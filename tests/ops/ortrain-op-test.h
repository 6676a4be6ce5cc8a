/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-gradient-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "specialize/ortrain-host-evaluator-private.h"

#include <math.h>
#include <string.h>

/* Tests of single operators: a graph of one node over initializers, evaluated node by node, and its gradient against
 * central differences in float64. */

typedef struct
{
  OrtrainGraph *graph;
  OrtrainNode *node;
  OrtrainAttributes *attributes;
  OrtrainValue *inputs[16];
  guint n_inputs;
} OpTest;

G_GNUC_UNUSED static void
op_test_begin (OpTest *test)
{
  memset (test, 0, sizeof *test);
  test->graph = g_object_new (ORTRAIN_TYPE_GRAPH, NULL);
  test->graph->opset = 23;
  test->attributes = ortrain_attributes_new ();
}

G_GNUC_UNUSED static OrtrainValue *
op_test_tensor (OpTest *test, OrtrainTensor *tensor)
{
  OrtrainValue *value = NULL;
  if (tensor != NULL)
    value = ortrain_graph_new_initializer (test->graph, NULL, tensor);
  test->inputs[test->n_inputs++] = value;
  g_clear_object (&tensor);
  return value;
}

/* Numbers given as doubles, in any type. */
G_GNUC_UNUSED static OrtrainTensor *
op_test_make (OrtrainDType dtype, guint rank, const gint64 *dims, const double *values)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, rank, &error);
  g_assert_no_error (error);
  memcpy (ortrain_tensor_peek_writable (wide), values, ortrain_tensor_get_n_bytes (wide));
  OrtrainTensor *tensor = ortrain_tensor_cast (wide, dtype, &error);
  g_assert_no_error (error);
  g_object_unref (wide);
  return tensor;
}

#define OP_DIMS(...) (sizeof ((gint64[]){ 0, __VA_ARGS__ }) / sizeof (gint64) - 1), ((gint64[]){ 0, __VA_ARGS__ } + 1)
#define OP_IN(test, dtype, dims, ...)                                                                                  \
  op_test_tensor (test, op_test_make (ORTRAIN_DTYPE_##dtype, dims, (const double[]){ __VA_ARGS__ }))
#define OP_INTS(test, ...)                                                                                             \
  op_test_tensor (test, op_test_make (ORTRAIN_DTYPE_INT64, 1,                                                          \
                                      (const gint64[]){ sizeof ((double[]){ __VA_ARGS__ }) / sizeof (double) },        \
                                      (const double[]){ __VA_ARGS__ }))
#define OP_ABSENT(test) op_test_tensor (test, NULL)

/* Makes the node, upgrades it from `opset`, infers; the caller checks the error. */
G_GNUC_UNUSED static gboolean
op_test_node (OpTest *test, const char *domain, const char *op_type, guint n_outputs, gint64 opset, GError **error)
{
  test->node = ortrain_graph_new_node (test->graph, domain, op_type, "n", test->inputs, test->n_inputs, n_outputs);
  ortrain_attributes_free (test->node->attributes);
  test->node->attributes = g_steal_pointer (&test->attributes);
  for (guint k = 0; k < n_outputs; k++)
    ortrain_graph_mark_output (test->graph, ortrain_node_output (test->node, k), TRUE);
  test->graph->opset = opset;
  return ortrain_ops_upgrade (test->graph, error) && ortrain_ops_infer (test->graph, error);
}

/* Runs all nodes in order; results are attached to the values as tensors. */
G_GNUC_UNUSED static gboolean
op_test_run (OpTest *test, GError **error)
{
  OrtrainGraph *graph = test->graph;
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      OrtrainTensor *inputs[64] = { NULL }, *outputs[64] = { NULL };
      for (guint i = 0; i < node->inputs->len; i++)
        inputs[i] = node->inputs->pdata[i] != NULL ? ((OrtrainValue *) node->inputs->pdata[i])->tensor : NULL;
      if (!ortrain_ops_infer_node (node, error) || !ortrain_evaluate_node (node, inputs, outputs, NULL, error))
        return FALSE;
      for (guint k = 0; k < node->outputs->len; k++)
        if (outputs[k] != NULL)
          {
            ortrain_value_set_tensor (node->outputs->pdata[k], outputs[k]);
            g_object_unref (outputs[k]);
          }
    }
  return TRUE;
}

G_GNUC_UNUSED static void
op_test_end (OpTest *test)
{
  g_clear_object (&test->graph);
  g_clear_pointer (&test->attributes, ortrain_attributes_free);
}

G_GNUC_UNUSED static void
op_test_expect (OpTest *test, guint k, guint rank, const gint64 *dims, const double *values, double tolerance)
{
  OrtrainTensor *tensor = ((OrtrainValue *) test->graph->outputs->pdata[k])->tensor;
  g_assert_nonnull (tensor);
  g_assert_cmpuint (ortrain_tensor_get_rank (tensor), ==, rank);
  for (guint i = 0; i < rank; i++)
    g_assert_cmpint (ortrain_tensor_get_dim (tensor, i), ==, dims[i]);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    if (ortrain_tensor_get_scalar (tensor, i) != values[i]) /* infinities are equal to themselves */
      g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (tensor, i), values[i], tolerance);
}
#define OP_OUT(test, k, dims, ...) op_test_expect (test, k, dims, (const double[]){ __VA_ARGS__ }, 1e-6)

/* Runs `op_type` and expects no error. */
#define OP_RUN(test, op_type, n_outputs) op_test_go (test, "", op_type, n_outputs, 23)
G_GNUC_UNUSED static void
op_test_go (OpTest *test, const char *domain, const char *op_type, guint n_outputs, gint64 opset)
{
  g_autoptr (GError) error = NULL;
  op_test_node (test, domain, op_type, n_outputs, opset, &error);
  g_assert_no_error (error);
  op_test_run (test, &error);
  g_assert_no_error (error);
}

/* The sum over all outputs of floating type, each element weighed with a number of its own. */
G_GNUC_UNUSED static double
op_test_loss (OpTest *test, OrtrainValue *const *outputs, guint n_outputs, OrtrainTensor *const *weights)
{
  g_autoptr (GError) error = NULL;
  double sum = 0;
  op_test_run (test, &error);
  g_assert_no_error (error);
  for (guint k = 0; k < n_outputs; k++)
    if (weights[k] != NULL)
      {
        const double *y = ortrain_tensor_peek (outputs[k]->tensor), *w = ortrain_tensor_peek (weights[k]);
        for (gint64 i = 0; i < ortrain_tensor_get_n_elements (weights[k]); i++)
          sum += y[i] * w[i];
      }
  return sum;
}

/* The node's gradient rule against central differences, for every input in `wanted` (bits). The node has run before,
 * with float64 inputs. skip: bits of outputs that get no gradient. */
G_GNUC_UNUSED static void
op_test_gradient (OpTest *test, guint32 wanted, guint32 skip)
{
  g_autoptr (GError) error = NULL;
  OrtrainNode *node = test->node;
  const guint n_outputs = node->outputs->len, n_inputs = node->inputs->len;
  OrtrainTensor *weights[16] = { NULL };
  OrtrainValue *outputs[16] = { NULL }, *dy[16] = { NULL }, *dx[16] = { NULL }, *x[16] = { NULL };
  gboolean wants[16] = { FALSE };
  guint32 state = 12345;
  double *numeric[16] = { NULL };

  g_assert_cmpuint (n_outputs, <=, 16);
  for (guint k = 0; k < n_outputs; k++)
    {
      outputs[k] = node->outputs->pdata[k];
      if (outputs[k]->dtype != ORTRAIN_DTYPE_FLOAT64 || (skip & (1u << k)))
        continue;
      gsize rank = ortrain_tensor_get_rank (outputs[k]->tensor);
      weights[k] =
          ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, ortrain_tensor_peek_dims (outputs[k]->tensor), rank, &error);
      double *w = ortrain_tensor_peek_writable (weights[k]);
      for (gint64 i = 0; i < ortrain_tensor_get_n_elements (weights[k]); i++)
        {
          state = state * 1664525u + 1013904223u;
          w[i] = (double) (state >> 8) * 0x1p-24 * 2 - 1;
        }
    }
  for (guint i = 0; i < n_inputs; i++)
    {
      if (!(wanted & (1u << i)))
        continue;
      wants[i] = TRUE;
      x[i] = node->inputs->pdata[i];
      gint64 n = ortrain_tensor_get_n_elements (x[i]->tensor);
      double *elements = ortrain_tensor_peek_writable (x[i]->tensor);
      numeric[i] = g_new0 (double, n + 1);
      for (gint64 j = 0; j < n; j++)
        {
          double keep = elements[j], h = 1e-3, d[2];
          for (guint s = 0; s < 2; s++, h /= 2)
            {
              elements[j] = keep + h;
              double plus = op_test_loss (test, outputs, n_outputs, weights);
              elements[j] = keep - h;
              d[s] = (plus - op_test_loss (test, outputs, n_outputs, weights)) / (2 * h);
            }
          elements[j] = keep;
          numeric[i][j] = (4 * d[1] - d[0]) / 3;
        }
    }
  op_test_loss (test, outputs, n_outputs, weights);

  for (guint k = 0; k < n_outputs; k++)
    if (weights[k] != NULL)
      dy[k] = ortrain_graph_new_initializer (test->graph, NULL, weights[k]);
  g_autofree gboolean *asked = g_new0 (gboolean, node->outputs->len + 1);
  OrtrainGradContext ctx = {
    .graph = test->graph,
    .node = node,
    .output_gradients = dy,
    .wanted = wants,
    .input_gradients = dx,
    .asked = asked,
    .n_outputs = node->outputs->len,
  };
  g_assert_nonnull (node->op);
  g_assert_nonnull (node->op->gradient);
  ortrain_grad_run (&ctx, &error);
  g_assert_no_error (error);
  op_test_run (test, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < n_inputs; i++)
    {
      if (x[i] == NULL)
        continue;
      g_assert_nonnull (dx[i]);
      g_assert_nonnull (dx[i]->tensor);
      g_assert_cmpuint (ortrain_tensor_get_rank (dx[i]->tensor), ==, ortrain_tensor_get_rank (x[i]->tensor));
      for (gsize d = 0; d < ortrain_tensor_get_rank (x[i]->tensor); d++)
        g_assert_cmpint (ortrain_tensor_get_dim (dx[i]->tensor, d), ==, ortrain_tensor_get_dim (x[i]->tensor, d));
      const double *exact = ortrain_tensor_peek (dx[i]->tensor);
      for (gint64 j = 0; j < ortrain_tensor_get_n_elements (dx[i]->tensor); j++)
        if (fabs (exact[j] - numeric[i][j]) > 1e-7 * MAX (1, fabs (numeric[i][j])))
          g_error ("%s: gradient of input %u, element %" G_GINT64_FORMAT ": %.12g, differences give %.12g",
                   node->op_type, i, j, exact[j], numeric[i][j]);
      g_clear_pointer (&numeric[i], g_free);
    }
  for (guint k = 0; k < n_outputs; k++)
    g_clear_object (&weights[k]);
}
