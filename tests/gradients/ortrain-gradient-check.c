/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/ortrain-case-text.h"

#include "core/ortrain-checked-private.h"
#include "grad/ortrain-gradient-private.h"
#include "host-context.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "specialize/ortrain-host-evaluator-private.h"
#include "specialize/ortrain-specialize-private.h"
#include "transform/ortrain-passes-private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct
{
  OrtrainValue *value; /* a graph input */
  OrtrainTensor *tensor;
  gboolean differentiated;
} Feed;

typedef struct
{
  OrtrainGraph *graph;
  OrtrainNode *node;
  GArray *feeds; /* of Feed */
  OrtrainValue *loss;
  gint computed; /* the operand that is no constant, though the case says so; -1: none */
} Case;

static void
feed_clear (gpointer data)
{
  g_clear_object (&((Feed *) data)->tensor);
}

/* Distinct values 0.06 apart, shuffled, none within 0.03 of zero: no kink lies within a step. */
static void
fill (double *x, gint64 n, char kind, guint salt)
{
  g_autofree gint64 *order = g_new (gint64, n + 1);
  for (gint64 i = 0; i < n; i++)
    order[i] = i;
  guint32 state = 12345u + salt * 7919u;
  for (gint64 i = n - 1; i > 0; i--)
    {
      state = state * 1664525u + 1013904223u;
      gint64 j = (gint64) (state >> 8) % (i + 1);
      gint64 t = order[i];
      order[i] = order[j];
      order[j] = t;
    }
  if (kind == 'q' || kind == 'y')
    kind = 'p';
  const double spread = kind == 'u' ? 1.7 / (double) (n + 1) : MAX (2.6 / (double) (n + 1), 0.0);
  for (gint64 i = 0; i < n; i++)
    {
      double v = ((double) order[i] - 0.5 * (double) (n - 1)) * spread + 0.0137 + 0.0031 * (double) (salt % 5);
      if (kind == 'p')
        v = 0.6 + 1.4 * ((double) order[i] + 0.5) / (double) n + 0.003 * (double) (salt % 5);
      else if (kind != 'u' && fabs (v) < 0.02)
        v += 0.05;
      x[i] = kind == 'g' ? v + 3.0 : v;
    }
}

static OrtrainDType real = ORTRAIN_DTYPE_FLOAT64;

void
ortrain_gradient_check_set_dtype (OrtrainDType dtype)
{
  real = dtype;
}

/* In the type that is checked, except for operands that stay in float64 (z) or are kept wider than 16 bits (y). */
static OrtrainTensor *
round_operand (OrtrainTensor *tensor, char kind)
{
  g_autoptr (GError) error = NULL;
  const OrtrainDType dtype = kind == 'z'                                   ? ORTRAIN_DTYPE_FLOAT64
                             : kind == 'y' && ortrain_dtype_is_half (real) ? ORTRAIN_DTYPE_FLOAT32
                                                                           : real;
  if (ortrain_tensor_get_dtype (tensor) != ORTRAIN_DTYPE_FLOAT64 || dtype == ORTRAIN_DTYPE_FLOAT64)
    return g_object_ref (tensor);
  OrtrainTensor *rounded = ortrain_tensor_cast (tensor, dtype, &error);
  g_assert_no_error (error);
  return rounded;
}

static void
parse_input (Case *test, guint index, const char *text)
{
  OrtrainCaseOperand operand;
  ortrain_case_parse_operand (text, &operand);
  if (operand.kind == '_')
    {
      ortrain_node_set_input (test->node, index, NULL);
      return;
    }
  const char kind = operand.kind;
  const gint64 *dims = operand.dims;
  const gsize rank = operand.rank;
  gint64 n = 0;
  g_assert_true (ortrain_checked_n_elements (dims, rank, &n));
  OrtrainDType dtype = strchr ("iI", kind) != NULL ? ORTRAIN_DTYPE_INT64
                       : kind == 'j'               ? ORTRAIN_DTYPE_INT32
                       : kind == 'b'               ? ORTRAIN_DTYPE_BOOL
                       : kind == 's'               ? ORTRAIN_DTYPE_FLOAT32
                       : kind == 'o'               ? ORTRAIN_DTYPE_UINT8
                       : kind == 'a'               ? ORTRAIN_DTYPE_INT8
                                                   : ORTRAIN_DTYPE_FLOAT64;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (dtype, dims, rank, &error);
  g_assert_no_error (error);
  g_assert_true (operand.n_values == 0 || operand.n_values >= n); /* more of them: its size was changed */
  if (operand.n_values > 0)
    for (gint64 i = 0; i < n; i++)
      {
        const double v = operand.values[i];
        gpointer data = ortrain_tensor_peek_writable (wide);
        if (dtype == ORTRAIN_DTYPE_INT64)
          ((gint64 *) data)[i] = (gint64) v;
        else if (dtype == ORTRAIN_DTYPE_INT32)
          ((gint32 *) data)[i] = (gint32) v;
        else if (dtype == ORTRAIN_DTYPE_BOOL)
          ((guint8 *) data)[i] = v != 0.0;
        else if (dtype == ORTRAIN_DTYPE_FLOAT32)
          ((float *) data)[i] = (float) v;
        else if (dtype == ORTRAIN_DTYPE_UINT8)
          ((guint8 *) data)[i] = (guint8) v;
        else if (dtype == ORTRAIN_DTYPE_INT8)
          ((gint8 *) data)[i] = (gint8) v;
        else
          ((double *) data)[i] = v;
      }
  else if (dtype == ORTRAIN_DTYPE_FLOAT64)
    fill (ortrain_tensor_peek_writable (wide), n, kind, index + 1);
  else if (n > 0) /* small numbers, which are indices too */
    memset (ortrain_tensor_peek_writable (wide), dtype == ORTRAIN_DTYPE_UINT8, ortrain_tensor_get_n_bytes (wide));
  g_autoptr (OrtrainTensor) tensor = round_operand (wide, kind);

  g_autofree char *name = g_strdup_printf ("x%u", index);
  if (strchr ("ijbdcqsoazy", kind) != NULL && test->computed != (gint) index)
    {
      ortrain_node_set_input (test->node, index, ortrain_graph_new_initializer (test->graph, name, tensor));
      return;
    }
  /* Symbols for dimensions: the rules must work without knowing them. */
  OrtrainDim symbols[ORTRAIN_MAX_RANK];
  for (gsize i = 0; i < rank; i++)
    symbols[i] = test->computed == (gint) index ? ortrain_dim_int (dims[i]) : ortrain_dim_unknown (test->graph->dims);
  Feed feed = { ortrain_graph_new_input (test->graph, name, ortrain_tensor_get_dtype (tensor), symbols, (gint) rank),
                g_object_ref (tensor), kind != 'I' };
  g_array_append_val (test->feeds, feed);
  ortrain_node_set_input (test->node, index, feed.value);
}

static GHashTable *body_checks;

void
ortrain_gradient_check_compare_bodies (GHashTable *operators)
{
  body_checks = operators;
}

static OrtrainGradientObserver observer;
static gpointer observer_data;

void
ortrain_gradient_check_set_observer (OrtrainGradientObserver func, gpointer data)
{
  observer = func;
  observer_data = data;
}

static double
get_difference (OrtrainTensor *a, OrtrainTensor *b)
{
  const gint64 n = ortrain_tensor_get_n_elements (a);
  double scale = 1, worst = 0;
  g_assert_cmpint (ortrain_tensor_get_dtype (a), ==, ortrain_tensor_get_dtype (b));
  g_assert_cmpint (n, ==, ortrain_tensor_get_n_elements (b));
  for (gint64 i = 0; i < n; i++)
    if (isfinite (ortrain_tensor_get_scalar (a, i)))
      scale = MAX (scale, fabs (ortrain_tensor_get_scalar (a, i)));
  for (gint64 i = 0; i < n; i++)
    {
      const double x = ortrain_tensor_get_scalar (a, i), y = ortrain_tensor_get_scalar (b, i);
      if (x == y || (isnan (x) && isnan (y)))
        continue;
      const double difference = fabs (x - y) / scale;
      worst = isnan (difference) ? INFINITY : MAX (worst, difference);
    }
  return worst;
}

/* The node alone in a graph, as its body, on the same operands. */
static gboolean
compare_body (OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out, OrtrainHostContext *context,
              GError **error)
{
  OrtrainBodyCheck *check = g_hash_table_lookup (body_checks, node->op_type);
  if (check == NULL)
    {
      check = g_new0 (OrtrainBodyCheck, 1);
      g_hash_table_insert (body_checks, g_strdup (node->op_type), check);
    }
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("body");
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (NULL, NULL, NULL, g_object_unref);
  g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, node->inputs->len + 1);
  graph->opset = 28;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value == NULL)
        continue;
      if (value->tensor != NULL)
        inputs[i] = ortrain_graph_new_initializer (graph, NULL, value->tensor);
      else
        {
          inputs[i] = ortrain_graph_new_input (graph, NULL, value->dtype, value->dims, value->rank);
          g_hash_table_insert (tensors, inputs[i], g_object_ref (in[i]));
        }
    }
  OrtrainNode *copy = ortrain_graph_new_node (graph, node->domain, node->op_type, node->name, inputs, node->inputs->len,
                                              node->outputs->len);
  ortrain_attributes_free (copy->attributes);
  copy->attributes = ortrain_attributes_copy (node->attributes);
  copy->number = node->number;
  g_autofree char **names = g_new0 (char *, node->outputs->len + 1);
  for (guint k = 0; k < node->outputs->len; k++)
    if (node->outputs->pdata[k] == NULL)
      ortrain_node_drop_output (copy, k);
    else
      {
        ortrain_graph_mark_output (graph, copy->outputs->pdata[k], TRUE);
        names[k] = g_strdup (((OrtrainValue *) copy->outputs->pdata[k])->name);
      }
  gboolean expanded = FALSE, ok = ortrain_ops_infer_node (copy, error) &&
                                  ortrain_body_expand (copy, &expanded, error) && ortrain_graph_sort (graph, error);
  check->n_none += ok && !expanded;
  for (guint n = 0; n < graph->nodes->len && ok && expanded; n++)
    {
      OrtrainNode *inner = graph->nodes->pdata[n];
      g_autofree OrtrainTensor **operands = g_new0 (OrtrainTensor *, inner->inputs->len + 1);
      g_autofree OrtrainTensor **results = g_new0 (OrtrainTensor *, inner->outputs->len + 1);
      g_assert_cmpstr (inner->domain, ==, "");
      for (guint i = 0; i < inner->inputs->len; i++)
        {
          OrtrainValue *value = inner->inputs->pdata[i];
          if (value != NULL)
            operands[i] = value->tensor != NULL ? value->tensor : g_hash_table_lookup (tensors, value);
        }
      ok = ortrain_evaluate_node (inner, operands, results, context, error);
      for (guint k = 0; k < inner->outputs->len && ok; k++)
        if (results[k] != NULL)
          g_hash_table_insert (tensors, inner->outputs->pdata[k], results[k]);
    }
  for (guint k = 0; k < node->outputs->len; k++)
    {
      g_autofree char *name = names[k];
      OrtrainValue *value = ok && expanded && name != NULL ? ortrain_graph_find_value (graph, name) : NULL;
      OrtrainTensor *result = value != NULL ? g_hash_table_lookup (tensors, value) : NULL;
      if (result != NULL && out[k] != NULL)
        check->worst = MAX (check->worst, get_difference (out[k], result));
      else if (name != NULL && ok && expanded)
        check->worst = INFINITY;
    }
  check->n_nodes += ok && expanded;
  return ok;
}

/* Runs a graph node by node. feeds by name of the graph's inputs; wanted: name → tensor, filled. */
static gboolean
interpret (OrtrainGraph *source, GArray *feeds, GHashTable *wanted, GError **error)
{
  g_autofree OrtrainSpecializeInput *inputs = g_new0 (OrtrainSpecializeInput, feeds->len + 1);
  g_autoptr (GHashTable) shape_inputs = ortrain_specialize_find_shape_inputs (source);
  for (guint i = 0; i < feeds->len; i++)
    {
      const Feed *feed = &g_array_index (feeds, Feed, i);
      inputs[i] = (OrtrainSpecializeInput){ feed->value->name, ortrain_tensor_get_dtype (feed->tensor),
                                            ortrain_tensor_peek_dims (feed->tensor),
                                            (guint) ortrain_tensor_get_rank (feed->tensor),
                                            g_hash_table_contains (shape_inputs, feed->value) ? feed->tensor : NULL };
    }
  g_autoptr (OrtrainGraph) graph = ortrain_specialize (source, inputs, feeds->len, error);
  if (graph == NULL || !ortrain_complete_static_graph (graph, ortrain_provider_get_host (), NULL, error))
    return FALSE; /* operators of devices alone run by their bodies */
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (NULL, NULL, NULL, g_object_unref);
  for (guint i = 0; i < feeds->len; i++)
    {
      const Feed *feed = &g_array_index (feeds, Feed, i);
      OrtrainValue *value = ortrain_graph_find_value (graph, feed->value->name);
      if (value != NULL)
        g_hash_table_insert (tensors, value, g_object_ref (feed->tensor));
    }
  OrtrainHostContext context;
  init_context (&context, NULL);
  context.step = (OrtrainStepBlock){ .seed = 42, .step = 3 };
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      g_autofree OrtrainTensor **in = g_new0 (OrtrainTensor *, node->inputs->len + 1);
      g_autofree OrtrainTensor **out = g_new0 (OrtrainTensor *, node->outputs->len + 1);
      for (guint i = 0; i < node->inputs->len; i++)
        {
          OrtrainValue *value = node->inputs->pdata[i];
          if (value != NULL)
            in[i] = value->tensor != NULL ? value->tensor : g_hash_table_lookup (tensors, value);
        }
      if (!ortrain_evaluate_node (node, in, out, &context, error))
        return FALSE;
      if (observer != NULL)
        observer (node, in, out, observer_data);
      if (body_checks != NULL && (g_str_equal (node->domain, ORTRAIN_DOMAIN) || node->op->expand != NULL) &&
          !compare_body (node, in, out, &context, error))
        return FALSE;
      for (guint k = 0; k < node->outputs->len; k++)
        if (out[k] != NULL)
          g_hash_table_insert (tensors, node->outputs->pdata[k], out[k]);
    }
  GHashTableIter iter;
  gpointer name;
  g_hash_table_iter_init (&iter, wanted);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    {
      OrtrainValue *value = ortrain_graph_find_value (graph, name);
      OrtrainTensor *tensor = value == NULL           ? NULL
                              : value->tensor != NULL ? value->tensor
                                                      : g_hash_table_lookup (tensors, value);
      if (tensor == NULL)
        {
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "There is no value '%s'", (char *) name);
          return FALSE;
        }
      g_hash_table_iter_replace (&iter, g_object_ref (tensor));
    }
  return TRUE;
}

static OrtrainValue *
op (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b, GError **error)
{
  OrtrainValue *inputs[] = { a, b };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, op_type, inputs, b != NULL ? 2 : 1, 1);
  if (g_str_equal (op_type, "ReduceSum"))
    ortrain_attributes_set_int (node->attributes, "keepdims", 0);
  return ortrain_ops_infer_node (node, error) ? ortrain_node_output (node, 0) : NULL;
}

/* loss = sum over the graph's outputs of sum (w ⊙ y), w fixed: [shape of y]. Needs the shapes, so the node is evaluated
 * once. */
static gboolean
make_loss (Case *test, GError **error)
{
  g_autoptr (GPtrArray) outputs = g_ptr_array_copy (test->graph->outputs, NULL, NULL);
  g_autoptr (GHashTable) wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint k = 0; k < outputs->len; k++)
    {
      OrtrainValue *output = outputs->pdata[k];
      if (ortrain_dtype_is_floating (output->dtype))
        g_hash_table_insert (wanted, g_strdup (output->name), NULL);
    }
  if (!interpret (test->graph, test->feeds, wanted, error))
    return FALSE;
  gboolean ok = TRUE;
  for (guint k = 0; k < outputs->len; k++)
    {
      OrtrainValue *output = outputs->pdata[k];
      g_autoptr (OrtrainTensor) y = g_hash_table_lookup (wanted, output->name);
      ortrain_graph_mark_output (test->graph, output, FALSE);
      if (y == NULL || !ok)
        continue;
      gsize rank;
      const gint64 *dims = ortrain_tensor_get_dims (y, &rank);
      g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, rank, error);
      fill (ortrain_tensor_peek_writable (wide), ortrain_tensor_get_n_elements (wide), 'f', 40 + k);
      g_autoptr (OrtrainTensor) w = ortrain_tensor_cast (wide, ortrain_tensor_get_dtype (y), error);
      OrtrainValue *product =
          op (test->graph, "Mul", output, ortrain_graph_new_initializer (test->graph, "w", w), error);
      OrtrainValue *sum = product != NULL ? op (test->graph, "ReduceSum", product, NULL, error) : NULL;
      if (sum != NULL && test->loss != NULL && sum->dtype != test->loss->dtype)
        sum = op (test->graph, "CastLike", sum, test->loss, error);
      ok = sum != NULL;
      if (ok)
        test->loss = test->loss == NULL ? sum : op (test->graph, "Add", test->loss, sum, error);
      ok = ok && test->loss != NULL;
    }
  if (ok && test->loss != NULL)
    ortrain_graph_mark_output (test->graph, test->loss, TRUE);
  return ok;
}

/* loss + 0.37 · sum of atan of the operand that is computed, which is small where the operand is huge */
static gboolean
add_computed (Case *test, GError **error)
{
  g_autofree char *name = g_strdup_printf ("x%d", test->computed);
  OrtrainValue *value = ortrain_graph_find_value (test->graph, name);
  if (test->loss != NULL)
    ortrain_graph_mark_output (test->graph, test->loss, FALSE);
  OrtrainValue *angle = op (test->graph, "Atan", value, NULL, error);
  OrtrainValue *sum = angle != NULL ? op (test->graph, "ReduceSum", angle, NULL, error) : NULL;
  OrtrainValue *product =
      sum == NULL ? NULL
                  : op (test->graph, "Mul", sum, ortrain_graph_const_scalar (test->graph, value->dtype, 0.37), error);
  if (product != NULL && test->loss != NULL && product->dtype != test->loss->dtype)
    product = op (test->graph, "CastLike", product, test->loss, error);
  test->loss = product != NULL && test->loss != NULL ? op (test->graph, "Add", test->loss, product, error) : product;
  if (test->loss != NULL)
    ortrain_graph_mark_output (test->graph, test->loss, TRUE);
  return test->loss != NULL;
}

static gboolean
loss_at (OrtrainGraph *graph, const char *loss, GArray *feeds, double *value, GError **error)
{
  g_autoptr (GHashTable) wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_hash_table_insert (wanted, g_strdup (loss), NULL);
  if (!interpret (graph, feeds, wanted, error))
    return FALSE;
  OrtrainTensor *tensor = g_hash_table_lookup (wanted, loss);
  *value = ortrain_tensor_get_scalar (tensor, 0);
  g_object_unref (tensor);
  return TRUE;
}

static gboolean
compare (Case *test, OrtrainGraph *forward, double *worst, GError **error)
{
  g_autofree OrtrainValue **wanted = g_new0 (OrtrainValue *, test->feeds->len + 1);
  g_autofree OrtrainValue **gradients = g_new0 (OrtrainValue *, test->feeds->len + 1);
  guint n = 0;
  for (guint i = 0; i < test->feeds->len; i++)
    if (g_array_index (test->feeds, Feed, i).differentiated)
      wanted[n++] = g_array_index (test->feeds, Feed, i).value;
  if (!ortrain_gradient_build (test->graph, test->loss, wanted, n, gradients, error))
    return FALSE;
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < n; i++)
    g_hash_table_insert (tensors, g_strdup (gradients[i]->name), NULL);
  if (!interpret (test->graph, test->feeds, tensors, error))
    return FALSE;

  *worst = 0.0;
  gboolean ok = TRUE;
  for (guint i = 0, k = 0; i < test->feeds->len && ok; i++)
    {
      Feed *feed = &g_array_index (test->feeds, Feed, i);
      if (!feed->differentiated)
        continue;
      OrtrainTensor *gradient = g_hash_table_lookup (tensors, gradients[k++]->name);
      const gint64 count = ortrain_tensor_get_n_elements (feed->tensor);
      if (ortrain_tensor_get_n_elements (gradient) != count ||
          ortrain_tensor_get_rank (gradient) != ortrain_tensor_get_rank (feed->tensor) ||
          memcmp (ortrain_tensor_peek_dims (gradient), ortrain_tensor_peek_dims (feed->tensor),
                  ortrain_tensor_get_rank (gradient) * sizeof (gint64)) != 0)
        {
          g_autofree char *text = ortrain_tensor_to_string (gradient);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE, "The gradient of '%s' is %s",
                       feed->value->name, text);
          ok = FALSE;
          break;
        }
      if (real != ORTRAIN_DTYPE_FLOAT64)
        continue;
      const double *g = ortrain_tensor_peek (gradient);
      double *x = ortrain_tensor_peek_writable (feed->tensor);
      double scale = 1.0;
      for (gint64 e = 0; e < count; e++)
        scale = MAX (scale, fabs (g[e]));
      for (gint64 e = 0; e < count && ok; e++)
        {
          const double h = 1e-3, x0 = x[e];
          double f[4];
          const double steps[4] = { h, -h, h / 2, -h / 2 };
          for (guint s = 0; s < 4 && ok; s++)
            {
              x[e] = x0 + steps[s];
              ok = loss_at (forward, test->loss->name, test->feeds, &f[s], error);
            }
          x[e] = x0;
          if (!ok)
            break;
          if (isnan (f[0]) && isnan (f[1])) /* a negative number to no integer: there is no derivative */
            continue;
          double wide = (f[0] - f[1]) / (2 * h), narrow = (f[2] - f[3]) / h;
          double expected = (4.0 * narrow - wide) / 3.0;
          double difference = fabs (g[e] - expected) / scale;
          if (!(difference <= *worst))
            *worst = isnan (difference) ? INFINITY : difference;
        }
    }
  GHashTableIter iter;
  gpointer tensor;
  g_hash_table_iter_init (&iter, tensors);
  while (g_hash_table_iter_next (&iter, NULL, &tensor))
    g_object_unref (tensor);
  return ok;
}

static void
build_case (Case *test, const OrtrainGradientCase *definition)
{
  test->graph = ortrain_graph_new ("check");
  test->graph->opset = 28;
  test->feeds = g_array_new (FALSE, FALSE, sizeof (Feed));
  g_array_set_clear_func (test->feeds, feed_clear);
  test->node = ortrain_graph_new_node (test->graph, definition->domain, definition->op_type, "node", NULL, 0,
                                       MAX (definition->n_outputs, 1));
  g_auto (GStrv) inputs = g_strsplit (definition->inputs, ";", -1);
  for (guint i = 0; inputs[i] != NULL; i++)
    parse_input (test, i, g_strstrip (inputs[i]));
  g_auto (GStrv) attributes = g_strsplit (definition->attributes != NULL ? definition->attributes : "", " ", -1);
  for (guint i = 0; attributes[i] != NULL; i++)
    if (attributes[i][0] != '\0')
      ortrain_case_parse_attribute (test->node->attributes, attributes[i]);
}

gboolean
ortrain_gradient_check_forward (const OrtrainGradientCase *definition, char **message)
{
  g_autoptr (GError) error = NULL;
  Case test = { .computed = -1 };
  build_case (&test, definition);
  g_autoptr (OrtrainGraph) graph = test.graph;
  g_autoptr (GArray) feeds = test.feeds;
  g_autoptr (GHashTable) wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint k = 0; k < test.node->outputs->len; k++)
    ortrain_graph_mark_output (graph, test.node->outputs->pdata[k], TRUE);
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error);
  for (guint k = 0; k < graph->outputs->len && ok; k++)
    g_hash_table_insert (wanted, g_strdup (((OrtrainValue *) graph->outputs->pdata[k])->name), NULL);
  ok = ok && interpret (graph, feeds, wanted, &error);
  GHashTableIter iter;
  gpointer tensor;
  g_hash_table_iter_init (&iter, wanted);
  while (ok && g_hash_table_iter_next (&iter, NULL, &tensor))
    g_object_unref (tensor);
  *message = ok ? NULL : g_strdup (error->message);
  return ok;
}

static double
check_case (const OrtrainGradientCase *definition, gint computed, char **message)
{
  g_autoptr (GError) error = NULL;
  Case test = { .computed = computed };
  build_case (&test, definition);
  g_autoptr (OrtrainGraph) graph = test.graph;
  g_autoptr (GArray) feeds G_GNUC_UNUSED = test.feeds;
  double worst = -1.0;
  /* The further outputs of our own operators are for their gradients, and carry none. */
  const guint n_outputs = g_strcmp0 (definition->domain, ORTRAIN_DOMAIN) == 0 ? 1 : test.node->outputs->len;
  for (guint k = 0; k < n_outputs; k++)
    ortrain_graph_mark_output (graph, test.node->outputs->pdata[k], TRUE);
  if (ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error) && make_loss (&test, &error) &&
      (computed < 0 || add_computed (&test, &error)))
    {
      g_autoptr (OrtrainGraph) forward = ortrain_graph_clone (graph);
      if (!compare (&test, forward, &worst, &error))
        worst = -1.0;
    }
  *message = worst < 0.0 ? g_strdup (error != NULL ? error->message : "?") : NULL;
  return worst;
}

double
ortrain_gradient_check (const OrtrainGradientCase *definition, char **message)
{
  return check_case (definition, -1, message);
}

double
ortrain_gradient_check_computed (const OrtrainGradientCase *definition, guint index, char **message)
{
  return check_case (definition, (gint) index, message);
}
