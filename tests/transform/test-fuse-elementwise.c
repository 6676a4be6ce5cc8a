/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host-context.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-host-evaluator-private.h"
#include "transform/ortrain-fuse-elementwise-private.h"

#include <string.h>

/* Random graphs of element-wise operators: the fused graph gives the same bits, at any number of threads. */

/* Values of all graph inputs and initializers are in `known`; every other value is computed and added. */
static void
run_graph (OrtrainGraph *graph, GHashTable *known, OrtrainProvider *provider)
{
  g_autoptr (GError) error = NULL;
  OrtrainHostContext context;
  init_context (&context, provider);
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      OrtrainTensor *inputs[64] = { NULL }, *outputs[64] = { NULL };
      for (guint i = 0; i < node->inputs->len; i++)
        {
          OrtrainValue *input = ortrain_node_input (node, i);
          if (input != NULL)
            inputs[i] = input->tensor != NULL ? input->tensor : g_hash_table_lookup (known, input->name);
        }
      ortrain_evaluate_node (node, inputs, outputs, &context, &error);
      g_assert_no_error (error);
      for (guint k = 0; k < node->outputs->len; k++)
        g_hash_table_insert (known, g_strdup (ortrain_node_output (node, k)->name), outputs[k]);
    }
}

/* Every placement that the kernel allows: output k over input i gives the same bits as outputs of their own. */
static guint
check_in_place (OrtrainNode *node, GHashTable *known, OrtrainProvider *provider)
{
  g_autoptr (GError) error = NULL;
  OrtrainOperand in[64] = { 0 }, out[64] = { 0 };
  OrtrainTensor *tensors[64], *results[64];
  const void *addresses[64];
  void *places[64];
  guint n_inputs = node->inputs->len, n_outputs = node->outputs->len, n_checked = 0;
  for (guint i = 0; i < n_inputs + n_outputs; i++)
    {
      gboolean input = i < n_inputs;
      OrtrainValue *value = input ? ortrain_node_input (node, i) : ortrain_node_output (node, i - n_inputs);
      OrtrainTensor *tensor = value->tensor != NULL ? value->tensor : g_hash_table_lookup (known, value->name);
      OrtrainOperand *operand = input ? &in[i] : &out[i - n_inputs];
      *(input ? &tensors[i] : &results[i - n_inputs]) = tensor;
      operand->dtype = ortrain_tensor_get_dtype (tensor);
      operand->rank = (guint) ortrain_tensor_get_rank (tensor);
      operand->dims = ortrain_tensor_peek_dims (tensor);
      operand->n_elements = ortrain_tensor_get_n_elements (tensor);
      operand->n_bytes = ortrain_tensor_get_n_bytes (tensor);
      operand->constant = input ? ortrain_tensor_peek (tensor) : NULL; /* as in run_graph */
    }
  const OrtrainKernel *kernel = ortrain_provider_find (ortrain_provider_get_host (), node->domain, node->op_type, in,
                                                       n_inputs, out, n_outputs, &error);
  g_assert_no_error (error);
  OrtrainKernelSetup setup = {
    .op_type = node->op_type,
    .domain = node->domain,
    .attributes = node->attributes,
    .body = (GObject *) node->body,
    .inputs = in,
    .outputs = out,
    .n_inputs = n_inputs,
    .n_outputs = n_outputs,
    .provider = provider,
  };
  g_assert_true (kernel->prepare (&setup, &error));
  g_autofree void *workspace = g_malloc (setup.workspace_bytes + 64);
  for (guint k = 0; k < n_outputs; k++)
    for (guint i = 0; i < n_inputs; i++)
      {
        if (!(setup.inplace[k] >> i & 1))
          continue;
        g_assert_cmpuint (in[i].n_bytes, ==, out[k].n_bytes);
        g_autoptr (GPtrArray) copies = g_ptr_array_new_with_free_func (g_free);
        for (guint j = 0; j < n_inputs; j++)
          {
            addresses[j] = g_memdup2 (ortrain_tensor_peek (tensors[j]), MAX (in[j].n_bytes, 1));
            g_ptr_array_add (copies, (void *) addresses[j]);
          }
        for (guint j = 0; j < n_outputs; j++)
          {
            places[j] = j == k ? (void *) addresses[i] : g_malloc0 (MAX (out[j].n_bytes, 1));
            if (j != k)
              g_ptr_array_add (copies, places[j]);
          }
        OrtrainHostContext context;
        init_context (&context, provider);
        OrtrainKernelCall call = { .inputs = addresses,
                                   .outputs = places,
                                   .workspace = workspace,
                                   .constants = setup.constants,
                                   .context = &context.context };
        kernel->run (&call);
        for (guint j = 0; j < n_outputs; j++)
          if (memcmp (places[j], ortrain_tensor_peek (results[j]), out[j].n_bytes) != 0)
            {
              g_autofree char *text = node->body != NULL ? ortrain_graph_to_string (node->body) : g_strdup ("alone");
              g_test_message ("%s, output %u over input %u, differs in output %u: %s", node->op_type, k, i, j, text);
              g_test_fail ();
            }
        for (guint j = 0; j < n_outputs && !g_test_failed (); j++)
          g_assert_cmpmem (places[j], out[j].n_bytes, ortrain_tensor_peek (results[j]), out[j].n_bytes);
        n_checked++;
      }
  setup.constants_free (setup.constants);
  return n_checked;
}

static OrtrainTensor *
random_tensor (GRand *rand, OrtrainDType dtype, const gint64 *dims, gsize rank)
{
  OrtrainTensor *tensor = ortrain_tensor_new (dtype, dims, rank, NULL);
  void *data = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    {
      double v = g_rand_double_range (rand, -2, 2);
      if (dtype == ORTRAIN_DTYPE_FLOAT32)
        ((float *) data)[i] = (float) v;
      else if (dtype == ORTRAIN_DTYPE_FLOAT64)
        ((double *) data)[i] = v;
      else if (dtype == ORTRAIN_DTYPE_INT64)
        ((gint64 *) data)[i] = (gint64) (v * 4);
      else
        ((guint8 *) data)[i] = v > 0;
    }
  return tensor;
}

static const char *const unary[] = { "Relu", "Tanh", "Sigmoid", "Exp",  "Erf",     "Neg",
                                     "Abs",  "Sqrt", "Sin",     "Gelu", "Softplus" };
static const char *const binary[] = { "Add", "Mul", "Sub", "Div", "Max", "Min", "Pow" };
static const char *const compare[] = { "Less", "Greater", "Equal" };

static const struct
{
  gint64 dims[4];
  gsize rank;
} shapes[] = {
  { { 3000 }, 1 }, { { 37, 10 }, 2 },      { { 5, 1500 }, 2 },   { { 2, 7, 33, 40 }, 4 },
  { { 1 }, 1 },    { { 2, 64, 5, 5 }, 4 }, { { 4, 3, 600 }, 3 }, { { 130, 65 }, 2 },
};

/* A shape that broadcasts to `dims`: the whole one, or with leading or inner ones. */
static gsize
narrower (GRand *rand, const gint64 *dims, gsize rank, gint64 *result)
{
  gsize drop = g_rand_boolean (rand) ? 0 : (gsize) g_rand_int_range (rand, 0, (gint) rank + 1);
  for (gsize d = drop; d < rank; d++)
    result[d - drop] = g_rand_int_range (rand, 0, 3) == 0 && drop > 0 ? 1 : dims[d];
  return rank - drop;
}

static OrtrainGraph *
random_graph (GRand *rand, GHashTable *known)
{
  OrtrainGraph *graph = ortrain_graph_new ("random");
  g_autoptr (GPtrArray) reals = g_ptr_array_new (), flags = g_ptr_array_new ();
  guint s = (guint) g_rand_int_range (rand, 0, G_N_ELEMENTS (shapes));
  OrtrainDType real = g_rand_int_range (rand, 0, 4) == 0 ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32;
  graph->opset = 23;
  for (guint i = 0; i < 6; i++)
    {
      gint64 dims[4];
      OrtrainDim symbolic[4];
      gsize rank = i == 0 ? shapes[s].rank : narrower (rand, shapes[s].dims, shapes[s].rank, dims);
      if (i == 0)
        memcpy (dims, shapes[s].dims, sizeof dims);
      for (gsize d = 0; d < rank; d++)
        symbolic[d] = ortrain_dim_int (dims[d]);
      g_autofree char *name = g_strdup_printf ("x%u", i);
      OrtrainTensor *tensor = random_tensor (rand, real, dims, rank);
      OrtrainValue *value;
      if (i == 5)
        {
          g_object_unref (tensor);
          value = ortrain_graph_const_scalar (graph, real, g_rand_int_range (rand, 1, 4));
        }
      else
        {
          value = ortrain_graph_new_input (graph, name, real, symbolic, (gint) rank);
          g_hash_table_insert (known, g_strdup (name), tensor);
        }
      g_ptr_array_add (reals, value);
    }
  guint n = (guint) g_rand_int_range (rand, 3, 40);
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GError) error = NULL;
      OrtrainValue *in[3];
      for (guint k = 0; k < 3; k++)
        {
          /* mostly recent values, so that chains come about */
          guint from = g_rand_boolean (rand) && reals->len > 8 ? reals->len - 4 : 0;
          in[k] = reals->pdata[g_rand_int_range (rand, (gint) from, (gint) reals->len)];
        }
      gint kind = g_rand_int_range (rand, 0, 12);
      OrtrainNode *node;
      if (kind < 4)
        node =
            ortrain_graph_new_node (graph, "", unary[g_rand_int_range (rand, 0, G_N_ELEMENTS (unary))], NULL, in, 1, 1);
      else if (kind < 9)
        node = ortrain_graph_new_node (graph, "", binary[g_rand_int_range (rand, 0, G_N_ELEMENTS (binary))], NULL, in,
                                       2, 1);
      else if (kind < 10)
        {
          node = ortrain_graph_new_node (graph, "", compare[g_rand_int_range (rand, 0, 3)], NULL, in, 2, 1);
          g_ptr_array_add (flags, ortrain_node_output (node, 0));
        }
      else if (kind < 11 && flags->len > 0)
        {
          in[2] = in[1];
          in[1] = in[0];
          in[0] = flags->pdata[g_rand_int_range (rand, 0, (gint) flags->len)];
          node = ortrain_graph_new_node (graph, "", "Where", NULL, in, 3, 1);
        }
      else
        {
          node = ortrain_graph_new_node (graph, "", "Cast", NULL, in, 1, 1);
          ortrain_attributes_set_int (node->attributes, "to", real);
        }
      g_assert_true (ortrain_ops_infer_node (node, &error));
      g_assert_no_error (error);
      if (kind < 9 || kind >= 10)
        g_ptr_array_add (reals, ortrain_node_output (node, 0));
      if (g_rand_int_range (rand, 0, 6) == 0 || i + 1 == n)
        ortrain_graph_mark_output (graph, ortrain_node_output (node, 0), TRUE);
    }
  ortrain_graph_remove_dead (graph);
  return graph;
}

static GHashTable *
copy_known (GHashTable *known)
{
  GHashTable *copy = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  GHashTableIter iter;
  gpointer name, tensor;
  g_hash_table_iter_init (&iter, known);
  while (g_hash_table_iter_next (&iter, &name, &tensor))
    g_hash_table_insert (copy, g_strdup (name), g_object_ref (tensor));
  return copy;
}

static void
test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  g_autoptr (OrtrainProvider) provider = new_cpu (3);
  guint n_before = 0, n_after = 0, n_in_place = 0;
  for (guint round = 0; round < 250; round++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GHashTable) known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
      g_autoptr (OrtrainGraph) graph = random_graph (rand, known);
      g_autoptr (OrtrainGraph) fused = ortrain_graph_clone (graph);
      g_autoptr (GHashTable) expected = copy_known (known), got = copy_known (known), threads = copy_known (known);
      run_graph (graph, expected, NULL);
      g_assert_true (ortrain_fuse_elementwise (fused, ortrain_provider_get_host (), &error));
      g_assert_no_error (error);
      n_before += graph->nodes->len;
      n_after += fused->nodes->len;
      run_graph (fused, got, NULL);
      run_graph (fused, threads, provider);
      for (guint n = 0; n < fused->nodes->len; n++)
        n_in_place += check_in_place (fused->nodes->pdata[n], got, provider);
      for (guint k = 0; k < graph->outputs->len; k++)
        {
          const char *name = ((OrtrainValue *) graph->outputs->pdata[k])->name;
          OrtrainTensor *a = g_hash_table_lookup (expected, name), *b = g_hash_table_lookup (got, name);
          OrtrainTensor *c = g_hash_table_lookup (threads, name);
          g_assert_nonnull (b);
          gsize size = ortrain_tensor_get_n_bytes (a);
          g_assert_cmpuint (size, ==, ortrain_tensor_get_n_bytes (b));
          if (memcmp (ortrain_tensor_peek (a), ortrain_tensor_peek (b), size) != 0 ||
              memcmp (ortrain_tensor_peek (a), ortrain_tensor_peek (c), size) != 0)
            {
              g_autofree char *before = ortrain_graph_to_string (graph), *after = ortrain_graph_to_string (fused);
              g_test_message ("round %u, output %s\n%s\n%s", round, name, before, after);
              g_test_fail ();
              return;
            }
        }
    }
  g_test_message ("%u nodes became %u", n_before, n_after);
  g_test_message ("%u placements in place", n_in_place);
  g_assert_cmpuint (n_in_place, >, 100);
  g_assert_cmpuint (n_after * 2, <, n_before);
}

static OrtrainValue *
add_node (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  g_autoptr (GError) error = NULL;
  OrtrainValue *in[2] = { a, b };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, NULL, in, b != NULL ? 2 : 1, 1);
  g_assert_true (ortrain_ops_infer_node (node, &error));
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

/* x → Relu → MatMul → Add, and Relu → Add: the Add must not join the Relu, for a path leaves and comes back. */
static void
test_convex (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("convex");
  OrtrainDim dims[2] = { ortrain_dim_int (8), ortrain_dim_int (8) };
  graph->opset = 23;
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2);
  OrtrainValue *y = add_node (graph, "Relu", x, NULL);
  OrtrainValue *z = add_node (graph, "Exp", y, NULL);
  OrtrainValue *product = add_node (graph, "MatMul", z, z);
  OrtrainValue *sum = add_node (graph, "Add", product, y);
  OrtrainValue *end = add_node (graph, "Neg", sum, NULL);
  ortrain_graph_mark_output (graph, end, TRUE);
  g_assert_true (ortrain_fuse_elementwise (graph, ortrain_provider_get_host (), &error));
  g_assert_no_error (error);
  g_assert_cmpuint (graph->nodes->len, ==, 3); /* {Relu, Exp}, MatMul, {Add, Neg} */
  g_assert_true (((OrtrainValue *) graph->outputs->pdata[0])->producer == graph->nodes->pdata[2]);
  g_assert_true (ortrain_node_is (graph->nodes->pdata[1], "", "MatMul"));
}

/* Forward and backward stay apart. */
static void
test_phases (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("phases");
  OrtrainDim dims[1] = { ortrain_dim_int (8) };
  graph->opset = 23;
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 1);
  OrtrainValue *a = add_node (graph, "Relu", x, NULL);
  OrtrainValue *b = add_node (graph, "Exp", a, NULL);
  OrtrainValue *c = add_node (graph, "Tanh", b, NULL);
  OrtrainValue *d = add_node (graph, "Neg", c, NULL);
  c->producer->phase = d->producer->phase = ORTRAIN_PHASE_BACKWARD;
  ortrain_graph_mark_output (graph, d, TRUE);
  g_assert_true (ortrain_fuse_elementwise (graph, ortrain_provider_get_host (), &error));
  g_assert_cmpuint (graph->nodes->len, ==, 2);
  g_assert_cmpint (((OrtrainNode *) graph->nodes->pdata[0])->phase, ==, ORTRAIN_PHASE_FORWARD);
  g_assert_cmpint (((OrtrainNode *) graph->nodes->pdata[1])->phase, ==, ORTRAIN_PHASE_BACKWARD);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fuse-elementwise/random", test_random);
  g_test_add_func ("/fuse-elementwise/convex", test_convex);
  g_test_add_func ("/fuse-elementwise/phases", test_phases);
  return g_test_run ();
}
