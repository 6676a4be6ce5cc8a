/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../ops/op-harness.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "transform/ortrain-pack-linear-private.h"

/* Queries, keys and values by three linear layers of one value, before and after the pass: the same results and the
 * same gradients, by the bodies of the operators. */

#define BATCH 2
#define LENGTH 5
#define HEADS 3
#define WIDTH 4
#define HIDDEN 7

typedef enum
{
  PLAIN,
  WITHOUT_BIAS,
  TRANSPOSED,  /* weights are [n, k], and a Transpose reads them */
  GEMM,        /* of rows */
  SHARED_BIAS, /* one for all three */
  FROZEN,      /* no weight is trained */
  HEADS_FIRST, /* y is wanted as [batch, heads, length, width] */
  N_PACKED,
  OTHER_INPUT = N_PACKED, /* queries are of another value: left alone, as are those below */
  READ_ELSEWHERE,
  ONE_FROZEN,
  TIED, /* keys and values have one weight */
  ONE_WITHOUT_BIAS,
  SCALED, /* a product with a factor */
  WITHOUT_KERNEL,
  N_FORMS,
} Form;

static const char *const names[] = { "plain",  "without-bias",     "transposed",  "gemm",           "shared-bias",
                                     "frozen", "heads-first",      "other-input", "read-elsewhere", "one-frozen",
                                     "tied",   "one-without-bias", "scaled",      "without-kernel" };

static const OrtrainKernel some_kernel;

static const OrtrainKernel *
find_any (const OrtrainProvider *self, const char *domain, const char *op_type, const OrtrainOperand *inputs,
          guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  return &some_kernel;
}

static const OrtrainKernel *
find_none (const OrtrainProvider *self, const char *domain, const char *op_type, const OrtrainOperand *inputs,
           guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  return g_str_has_suffix (op_type, "Attention") ? &some_kernel : NULL;
}

static OrtrainValue *
op (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  return ortrain_node_output (ortrain_graph_new_node (graph, "", op_type, NULL, inputs, b != NULL ? 2 : 1, 1), 0);
}

typedef struct
{
  OrtrainGraph *graph;
  GHashTable *contents;
  OrtrainValue *x, *w[3], *bias[3];
} Model;

static OrtrainValue *
add_parameter (Model *model, guint rank, const gint64 *dims, double phase, gboolean trained)
{
  g_autoptr (OrtrainTensor) wave = harness_wave (ORTRAIN_DTYPE_FLOAT64, dims, rank, 0.3 + phase, phase);
  OrtrainValue *value = ortrain_graph_new_initializer (model->graph, NULL, wave);
  value->role = trained ? ORTRAIN_ROLE_PARAMETER : ORTRAIN_ROLE_FROZEN;
  g_hash_table_insert (model->contents, value, g_object_ref (wave));
  return value;
}

static OrtrainValue *
write_part (Model *model, Form form, OrtrainValue *x, guint i)
{
  static const gint64 heads[] = { 0, 0, HEADS, WIDTH }, back[] = { BATCH, LENGTH, HEADS, WIDTH };
  static const gint64 n = HEADS * WIDTH, straight[] = { HIDDEN, HEADS * WIDTH }, turned[] = { HEADS * WIDTH, HIDDEN };
  OrtrainGraph *graph = model->graph;
  const gboolean trained = form != FROZEN && !(form == ONE_FROZEN && i == 1);
  const gboolean has_bias = form != WITHOUT_BIAS && !(form == ONE_WITHOUT_BIAS && i == 1);
  OrtrainValue *w = model->w[i] =
      form == TIED && i == 2 ? model->w[1]
                             : add_parameter (model, 2, form == TRANSPOSED ? turned : straight, 0.1 * (i + 1), trained);
  if (has_bias)
    model->bias[i] =
        form == SHARED_BIAS && i > 0 ? model->bias[0] : add_parameter (model, 1, &n, 0.7 + 0.1 * i, trained);
  if (form == GEMM)
    {
      OrtrainValue *operands[] = { x, w, model->bias[i] };
      OrtrainValue *y = ortrain_node_output (ortrain_graph_new_node (graph, "", "Gemm", NULL, operands, 3, 1), 0);
      return op (graph, "Reshape", y, ortrain_graph_const_ints (graph, back, 4));
    }
  if (form == TRANSPOSED)
    w = op (graph, "Transpose", w, NULL);
  OrtrainValue *y = op (graph, "MatMul", x, w);
  if (form == SCALED)
    y = op (graph, "Tanh", y, NULL);
  if (has_bias)
    y = op (graph, "Add", y, model->bias[i]);
  return op (graph, "Reshape", y, ortrain_graph_const_ints (graph, heads, 4));
}

static guint
count (OrtrainGraph *graph, const char *op_type)
{
  guint n = 0;
  for (guint i = 0; i < graph->nodes->len; i++)
    n += g_str_equal (((OrtrainNode *) graph->nodes->pdata[i])->op_type, op_type);
  return n;
}

/* Nodes that have no kernel on the host become their bodies. */
static void
expand (OrtrainGraph *graph)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (GError) error = NULL;
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      gboolean expanded = FALSE;
      if (!g_str_has_prefix (((OrtrainNode *) nodes->pdata[i])->op_type, "PackedLinear"))
        continue;
      ortrain_body_expand (nodes->pdata[i], &expanded, &error);
      g_assert_no_error (error);
      g_assert_true (expanded);
    }
}

#define N_RESULTS 8

/* results: y, the gradients of x, of the weights and of the biases; NULL where absent */
static void
run_form (Form form, gboolean packs, OrtrainTensor **results)
{
  static const gint64 dims[] = { BATCH, LENGTH, HIDDEN }, rows[] = { BATCH * LENGTH, HIDDEN };
  static const gint64 y_dims[] = { BATCH, LENGTH, HEADS, WIDTH }, first_dims[] = { BATCH, HEADS, LENGTH, WIDTH };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  Model model = { .graph = graph, .contents = contents };
  g_autoptr (OrtrainTensor) wave =
      harness_wave (ORTRAIN_DTYPE_FLOAT64, form == GEMM ? rows : dims, form == GEMM ? 2 : 3, 0.3, 1.3);
  OrtrainValue *x = harness_input (graph, contents, NULL, wave), *parts[3];
  OrtrainValue *other = op (graph, "Tanh", x, NULL);
  for (guint i = 0; i < 3; i++)
    parts[i] = write_part (&model, form, form == OTHER_INPUT && i == 0 ? other : x, i);
  OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "Attention", NULL, parts, 3, 1);
  ortrain_attributes_set_int (node->attributes, "packed", form == HEADS_FIRST ? 7 : 15);
  ortrain_attributes_set_float (node->attributes, "scale", 0.7);
  OrtrainValue *y = op (graph, "Tanh", ortrain_node_output (node, 0), NULL);
  if (form == READ_ELSEWHERE)
    y = op (graph, "Add", y, parts[1]);
  ortrain_graph_mark_output (graph, y, TRUE);
  graph->opset = 23;
  const OrtrainProviderClass klass = { .find_kernel = form == WITHOUT_KERNEL ? find_none : find_any };
  const OrtrainProvider provider = { .klass = &klass };
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error) &&
                ortrain_pack_linear (graph, packs ? &provider : NULL, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  ortrain_graph_remove_dead (graph);
  const gboolean hoped = packs && form < N_PACKED;
  g_assert_cmpuint (count (graph, "PackedLinear"), ==, hoped);
  g_assert_cmpuint (count (graph, "PackedAttention"), ==, hoped);
  g_assert_cmpuint (count (graph, "MatMul") + count (graph, "Gemm"), ==, hoped ? 0 : 3);
  y = graph->outputs->pdata[0];
  g_autoptr (OrtrainTensor) weights = harness_cosine (form == HEADS_FIRST ? first_dims : y_dims, 4, 0.9);
  OrtrainValue *loss = harness_weighted_sum (graph, y, weights);
  OrtrainValue *wanted[7] = { x }, *gradients[7] = { NULL };
  guint n = 1, place[7] = { 1 };
  for (guint i = 0; i < 3; i++)
    if (model.w[i]->role == ORTRAIN_ROLE_PARAMETER && !(form == TIED && i == 2))
      {
        place[n] = 2 + i;
        wanted[n++] = model.w[i];
        if (model.bias[i] == NULL || (form == SHARED_BIAS && i > 0))
          continue;
        place[n] = 5 + i;
        wanted[n++] = model.bias[i];
      }
  ok = ortrain_gradient_build (graph, loss, wanted, n, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  g_assert_cmpuint (count (graph, "PackedLinearInputGrad"), ==, hoped);
  g_assert_cmpuint (count (graph, "PackedLinearGrad"), ==, hoped && form != FROZEN);
  for (guint i = 0; i < n; i++)
    ortrain_graph_mark_output (graph, gradients[i], TRUE);
  expand (graph);
  harness_run (graph, contents, NULL);
  results[0] = g_object_ref (g_hash_table_lookup (contents, graph->outputs->pdata[0]));
  for (guint i = 0; i < n; i++)
    results[place[i]] = g_object_ref (g_hash_table_lookup (contents, graph->outputs->pdata[1 + i]));
}

static void
test_form (gconstpointer data)
{
  const Form form = (Form) GPOINTER_TO_INT (data);
  OrtrainTensor *results[2][N_RESULTS] = { { NULL } };
  for (int packs = 0; packs < 2; packs++)
    run_form (form, packs, results[packs]);
  for (guint i = 0; i < N_RESULTS; i++)
    {
      OrtrainTensor *a = results[0][i], *b = results[1][i];
      g_assert_true ((a == NULL) == (b == NULL));
      for (gint64 k = 0; a != NULL && k < ortrain_tensor_get_n_elements (a); k++)
        g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (a, k), ortrain_tensor_get_scalar (b, k), 1e-12);
      g_clear_object (&results[0][i]);
      g_clear_object (&results[1][i]);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (int form = 0; form < N_FORMS; form++)
    {
      g_autofree char *path = g_strconcat ("/pack-linear/", names[form], NULL);
      g_test_add_data_func (path, GINT_TO_POINTER (form), test_form);
    }
  return g_test_run ();
}
