/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-run.h"
#include "op-harness.h"

#include "transform/ortrain-fuse-elementwise-private.h"

/* Chains of element-wise operators over float32, bfloat16 and float16: fused, they give the same bits as node by node,
 * casts inside of them included; and a chain whose operands come in 16 bits, where its body has float32, gives the
 * result for the same numbers in float32, rounded once. */

static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
static const struct
{
  gint64 dims[3];
  gsize rank;
} shapes[] = { { { 1 }, 1 }, { { 7 }, 1 }, { { 31, 33 }, 2 }, { { 3000 }, 1 }, { { 4, 3, 600 }, 3 } };
static const char *const unary[] = { "Relu", "Tanh", "Sigmoid", "Exp", "Neg", "Abs", "Gelu", "Softplus" };
static const char *const binary[] = { "Add", "Mul", "Sub", "Div", "Max", "Min", "Pow" };

static OrtrainValue *
add_node (OrtrainGraph *graph, const char *op_type, OrtrainValue *const *in, guint n, gint64 to)
{
  g_autoptr (GError) error = NULL;
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, NULL, in, n, 1);
  if (to != 0)
    ortrain_attributes_set_int (node->attributes, "to", to);
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

/* A value of this type: one that there is, or a cast of one. */
static OrtrainValue *
pick (OrtrainGraph *graph, GPtrArray *values, GRand *rand, OrtrainDType dtype)
{
  const guint from = values->len > 8 ? values->len - 5 : 0;
  OrtrainValue *value = values->pdata[g_rand_int_range (rand, (gint) from, (gint) values->len)];
  return value->dtype == dtype ? value : add_node (graph, "Cast", &value, 1, dtype);
}

static OrtrainGraph *
random_graph (GRand *rand, GHashTable *contents)
{
  OrtrainGraph *graph = ortrain_graph_new ("chain");
  g_autoptr (GPtrArray) values = g_ptr_array_new ();
  const guint shape = (guint) g_rand_int_range (rand, 0, G_N_ELEMENTS (shapes));
  graph->opset = 23;
  for (guint i = 0; i < 5; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u", i);
      const gsize drop = i > 2 && shapes[shape].rank > 1 ? 1 : 0; /* broadcast */
      g_autoptr (OrtrainTensor) tensor = kernel_random (types[g_rand_int_range (rand, 0, 3)], shapes[shape].dims + drop,
                                                        shapes[shape].rank - drop, 2, g_rand_int (rand));
      g_ptr_array_add (values, harness_input (graph, contents, name, tensor));
    }
  const guint n = (guint) g_rand_int_range (rand, 3, 20);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainDType dtype = types[g_rand_int_range (rand, 0, 3)];
      OrtrainValue *in[3] = { pick (graph, values, rand, dtype), pick (graph, values, rand, dtype), NULL }, *y;
      const gint kind = g_rand_int_range (rand, 0, 10);
      if (kind < 3)
        y = add_node (graph, unary[g_rand_int_range (rand, 0, G_N_ELEMENTS (unary))], in, 1, 0);
      else if (kind < 8)
        y = add_node (graph, binary[g_rand_int_range (rand, 0, G_N_ELEMENTS (binary))], in, 2, 0);
      else
        {
          in[2] = in[1];
          in[1] = in[0];
          in[0] = add_node (graph, "Less", (OrtrainValue *[]){ in[1], in[2] }, 2, 0);
          y = add_node (graph, "Where", in, 3, 0);
        }
      g_ptr_array_add (values, y);
      if (g_rand_int_range (rand, 0, 4) == 0 || i + 1 == n)
        ortrain_graph_mark_output (graph, y, TRUE);
    }
  ortrain_graph_remove_dead (graph);
  return graph;
}

static gboolean
same_number (OrtrainTensor *a, OrtrainTensor *b, gint64 i)
{
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (a));
  return memcmp ((const guint8 *) ortrain_tensor_peek (a) + (gsize) i * size,
                 (const guint8 *) ortrain_tensor_peek (b) + (gsize) i * size, size) == 0 ||
         (isnan (ortrain_tensor_get_scalar (a, i)) && isnan (ortrain_tensor_get_scalar (b, i)));
}

static void
assert_same (OrtrainTensor *a, OrtrainTensor *b, guint round, const char *what)
{
  g_assert_cmpint (ortrain_tensor_get_dtype (a), ==, ortrain_tensor_get_dtype (b));
  g_assert_cmpint (ortrain_tensor_get_n_elements (a), ==, ortrain_tensor_get_n_elements (b));
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (a); i++)
    if (!same_number (a, b, i))
      g_error ("round %u, %s: element %" G_GINT64_FORMAT " (%s) is %.9g, %.9g is right", round, what, i,
               ortrain_dtype_get_name (ortrain_tensor_get_dtype (a)), ortrain_tensor_get_scalar (a, i),
               ortrain_tensor_get_scalar (b, i));
}

/* changed: float32 values have 16 bits, or are only rounded so that they could. */
static void
run_chain (KernelRun *run, OrtrainNode *node, GHashTable *contents, guint32 seed, gboolean changed)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  kernel_run_init (run, node->domain, node->op_type);
  run->body = G_OBJECT (node->body);
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainTensor *x = g_hash_table_lookup (contents, ortrain_node_input (node, i));
      const OrtrainDType chosen = types[g_rand_int_range (rand, 0, 3)];
      if (ortrain_tensor_get_dtype (x) != ORTRAIN_DTYPE_FLOAT32)
        {
          kernel_run_add_input (run, g_object_ref (x));
          continue;
        }
      g_autoptr (OrtrainTensor) rounded = kernel_cast (x, chosen);
      kernel_run_add_input (run, kernel_cast (rounded, changed ? chosen : ORTRAIN_DTYPE_FLOAT32));
    }
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainTensor *y = g_hash_table_lookup (contents, ortrain_node_output (node, k));
      const OrtrainDType chosen = types[g_rand_int_range (rand, 0, 3)], dtype = ortrain_tensor_get_dtype (y);
      kernel_run_add_output (run, changed && dtype == ORTRAIN_DTYPE_FLOAT32 ? chosen : dtype,
                             ortrain_tensor_peek_dims (y), ortrain_tensor_get_rank (y));
    }
  kernel_run (run);
}

static void
test_chains (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  OrtrainHostContext context;
  guint n_chains = 0, n_before = 0, n_after = 0;
  init_context (&context, NULL);
  for (guint round = 0; round < 150; round++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GHashTable) contents = harness_contents (), fused_contents = harness_contents ();
      g_autoptr (OrtrainGraph) graph = random_graph (rand, contents);
      g_autoptr (OrtrainGraph) fused = ortrain_graph_clone (graph);
      ortrain_fuse_elementwise (fused, ortrain_provider_get_host (), &error);
      g_assert_no_error (error);
      n_before += graph->nodes->len;
      n_after += fused->nodes->len;
      for (guint i = 0; i < fused->inputs->len; i++)
        {
          OrtrainValue *input = fused->inputs->pdata[i];
          OrtrainTensor *tensor = g_hash_table_lookup (contents, ortrain_graph_find_value (graph, input->name));
          g_hash_table_insert (fused_contents, input, g_object_ref (tensor));
        }
      harness_run (graph, contents, &context);
      harness_run (fused, fused_contents, &context);
      for (guint k = 0; k < graph->outputs->len; k++)
        assert_same (g_hash_table_lookup (fused_contents, fused->outputs->pdata[k]),
                     g_hash_table_lookup (contents, graph->outputs->pdata[k]), round, "fused");
      for (guint n = 0; n < fused->nodes->len; n++)
        {
          OrtrainNode *node = fused->nodes->pdata[n];
          KernelRun changed, plain;
          if (node->body == NULL)
            continue;
          n_chains++;
          run_chain (&changed, node, fused_contents, round, TRUE);
          run_chain (&plain, node, fused_contents, round, FALSE);
          for (guint k = 0; k < changed.n_outputs; k++)
            {
              g_autoptr (OrtrainTensor) right =
                  kernel_cast (plain.outputs[k], ortrain_tensor_get_dtype (changed.outputs[k]));
              assert_same (changed.outputs[k], right, round, "other types");
            }
          kernel_run_clear (&changed);
          kernel_run_clear (&plain);
        }
    }
  g_test_message ("%u nodes became %u, of them %u chains", n_before, n_after, n_chains);
  g_assert_cmpuint (n_chains, >, 150);
  g_assert_cmpuint (n_after * 2, <, n_before);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/half-chains/chains", test_chains);
  return g_test_run ();
}
