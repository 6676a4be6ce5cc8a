/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../ops/op-harness.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "transform/ortrain-passes-private.h"

/* Attention of parts of one value, before and after the pass: the same results and the same gradient. */

#define BATCH 2
#define LENGTH 5
#define HEADS 3
#define WIDTH 4

typedef enum
{
  SPLIT,
  SPLIT_UNPACKED, /* y is wanted as [batch, heads, length, width] */
  LOOKUPS,
  DROPOUT,
  TURNED, /* keys and queries have changed places: left alone */
  SHARED, /* somebody else reads a part: left alone */
  N_FORMS,
} Form;

static const char *const names[] = { "split", "split-unpacked", "lookups", "dropout", "turned", "shared" };

static OrtrainValue *
op (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  return ortrain_node_output (ortrain_graph_new_node (graph, "", op_type, NULL, inputs, b != NULL ? 2 : 1, 1), 0);
}

static void
write_parts (OrtrainGraph *graph, Form form, OrtrainValue *x, OrtrainValue **parts)
{
  static const gint64 heads[] = { 0, 0, HEADS, WIDTH }, all[] = { 0, 0, 3, HEADS, WIDTH }, perm[] = { 2, 0, 3, 1, 4 };
  if (form == LOOKUPS)
    {
      OrtrainValue *turned =
          op (graph, "Transpose", op (graph, "Reshape", x, ortrain_graph_const_ints (graph, all, 5)), NULL);
      ortrain_attributes_set_ints (turned->producer->attributes, "perm", perm, 5);
      for (guint i = 0; i < 3; i++)
        parts[i] = op (graph, "Gather", turned, ortrain_graph_const_int (graph, i));
      return;
    }
  OrtrainNode *split = ortrain_graph_new_node (graph, "", "Split", NULL, &x, 1, 3);
  ortrain_attributes_set_int (split->attributes, "axis", 2);
  ortrain_attributes_set_int (split->attributes, "num_outputs", 3);
  for (guint i = 0; i < 3; i++)
    parts[form == TURNED && i < 2 ? 1 - i : i] =
        op (graph, "Reshape", ortrain_node_output (split, i), ortrain_graph_const_ints (graph, heads, 4));
}

static guint
count (OrtrainGraph *graph, const char *op_type)
{
  guint n = 0;
  for (guint i = 0; i < graph->nodes->len; i++)
    n += g_str_equal (((OrtrainNode *) graph->nodes->pdata[i])->op_type, op_type);
  return n;
}

/* results: y, and the gradient of x */
static void
run_form (Form form, gboolean packs, OrtrainTensor **results)
{
  static const gint64 dims[] = { BATCH, LENGTH, 3 * HEADS * WIDTH }, y_dims[] = { BATCH, LENGTH, HEADS, WIDTH };
  static const gint64 unpacked_dims[] = { BATCH, HEADS, LENGTH, WIDTH };
  const gint64 order = form == SPLIT_UNPACKED ? 7 : form == LOOKUPS ? 8 : 15;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) wave = harness_wave (ORTRAIN_DTYPE_FLOAT64, dims, 3, 0.3, 1.3);
  OrtrainValue *x = harness_input (graph, contents, NULL, wave), *parts[7] = { NULL }, *gradient;
  write_parts (graph, form, x, parts);
  if (form == DROPOUT)
    {
      g_autoptr (OrtrainTensor) ratio = ortrain_tensor_new_floats (NULL, 0, &(float){ 0.3f }, 1, NULL);
      g_autoptr (OrtrainTensor) training =
          ortrain_tensor_new_for_data (ORTRAIN_DTYPE_BOOL, NULL, 0, &(guint8){ 1 }, 1, NULL);
      parts[5] = ortrain_graph_new_initializer (graph, NULL, ratio);
      parts[6] = ortrain_graph_new_initializer (graph, NULL, training);
    }
  OrtrainNode *node =
      ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "Attention", NULL, parts, form == DROPOUT ? 7 : 3, 1);
  if (form == DROPOUT)
    ortrain_attributes_set_int (node->attributes, "forward_node", 5);
  ortrain_attributes_set_int (node->attributes, "packed", order);
  ortrain_attributes_set_float (node->attributes, "scale", 0.7);
  OrtrainValue *y = op (graph, "Tanh", ortrain_node_output (node, 0), NULL);
  if (form == SHARED)
    y = op (graph, "Add", y, parts[1]);
  ortrain_graph_mark_output (graph, y, TRUE);
  graph->opset = 23;
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error) &&
                (!packs || ortrain_pack_attention (graph, &error));
  g_assert_no_error (error);
  g_assert_true (ok);
  ortrain_graph_remove_dead (graph);
  const gboolean hoped = packs && form < TURNED;
  g_assert_cmpuint (count (graph, "PackedAttention"), ==, hoped);
  g_assert_cmpuint (count (graph, "Attention"), ==, !hoped);
  g_assert_cmpuint (count (graph, "Split") + count (graph, "Gather"), ==, hoped ? 0 : form == LOOKUPS ? 3 : 1);
  y = graph->outputs->pdata[0];
  g_autoptr (OrtrainTensor) weights = harness_cosine (form == SPLIT_UNPACKED ? unpacked_dims : y_dims, 4, 0.9);
  OrtrainValue *loss = harness_weighted_sum (graph, y, weights);
  ok = ortrain_gradient_build (graph, loss, &x, 1, &gradient, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  g_assert_cmpuint (count (graph, "PackedAttentionGrad"), ==, hoped);
  harness_run (graph, contents, NULL);
  results[0] = g_object_ref (g_hash_table_lookup (contents, y));
  results[1] = g_object_ref (g_hash_table_lookup (contents, gradient));
}

static void
test_form (gconstpointer data)
{
  const Form form = (Form) GPOINTER_TO_INT (data);
  OrtrainTensor *results[2][2];
  for (int packs = 0; packs < 2; packs++)
    run_form (form, packs, results[packs]);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (ortrain_tensor_equal (results[0][i], results[1][i]));
      g_object_unref (results[0][i]);
      g_object_unref (results[1][i]);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (int form = 0; form < N_FORMS; form++)
    {
      g_autofree char *path = g_strconcat ("/pack-attention/", names[form], NULL);
      g_test_add_data_func (path, GINT_TO_POINTER (form), test_form);
    }
  return g_test_run ();
}
