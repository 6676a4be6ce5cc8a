/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-tables-private.h"
#include "session/ortrain-training-session-private.h"

#include <math.h>

/* Attention with relative positions as transformers' models export it, with random weights: DeBERTa, DeBERTa v2 (shared
 * projections, buckets) and an encoder of T5. They train to the same numbers as in single operators, and their plans
 * hold no matrix of scores. */

#define BATCH 7
#define LENGTH 53 /* a prime: a tensor with queries · keys elements has a multiple of its square */
#define N_STEPS 3

/* Dropout after each softmax, as models have it that were exported in training mode. */
static OrtrainModel *
add_dropout (OrtrainModel *model, double ratio)
{
  static const guint8 yes = 1;
  g_autoptr (GError) error = NULL;
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  g_assert_no_error (error);
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainTensor) training = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_BOOL, NULL, 0, &yes, 1, &error);
  g_assert_no_error (error);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *softmax = nodes->pdata[i];
      OrtrainValue *p = ortrain_node_output (softmax, 0);
      if (!g_str_equal (softmax->op_type, "Softmax"))
        continue;
      g_assert_cmpuint (p->uses.n, ==, 1);
      OrtrainNode *reader = p->uses.items[0].node;
      const guint index = p->uses.items[0].index;
      OrtrainValue *operands[] = { p, ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT32, ratio),
                                   ortrain_graph_new_initializer (graph, NULL, training) };
      OrtrainNode *dropout = ortrain_graph_insert_node (graph, reader, "", "Dropout", NULL, operands, 3, 1);
      ortrain_node_set_input (reader, index, ortrain_node_output (dropout, 0));
    }
  OrtrainModel *with_dropout = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  return with_dropout;
}

/* For this batch and length alone: the index of positions, repeated for the batch, is a constant then. */
static OrtrainModel *
fix_shapes (OrtrainModel *model)
{
  g_autoptr (GError) error = NULL;
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      OrtrainValue *input = graph->inputs->pdata[i];
      for (gint d = 0; d < input->rank; d++)
        input->dims[d] = ortrain_dim_int (d == 0 ? BATCH : LENGTH);
    }
  OrtrainModel *fixed = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  return fixed;
}

/* ratio: of dropout; below 0: none, in fixed shapes. */
static OrtrainTrainingSession *
make_session (const char *name, const char *disabled, double ratio)
{
  g_autofree char *file = g_strconcat (name, ".onnx", NULL);
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "attention", file, NULL);
  g_autoptr (GError) error = NULL;
  g_setenv ("ORTRAIN_DISABLE_PASSES", disabled, TRUE);
  g_autoptr (OrtrainModel) plain = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) model = ratio > 0   ? add_dropout (plain, ratio)
                                   : ratio < 0 ? fix_shapes (plain)
                                               : g_object_ref (plain);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "label");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.05);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTensorDict *
make_feeds (gboolean masked)
{
  const gint64 dims[] = { BATCH, LENGTH };
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) ids = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, NULL),
                            mask = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 2, NULL),
                            label = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 1, NULL);
  for (gint64 i = 0; i < BATCH * LENGTH; i++)
    {
      ((gint64 *) ortrain_tensor_get_address (ids))[i] = 3 + i * 17 % 41;
      ((gint64 *) ortrain_tensor_get_address (mask))[i] = i % LENGTH < LENGTH - 3 * (i / LENGTH);
    }
  for (gint64 i = 0; i < BATCH; i++)
    ((gint64 *) ortrain_tensor_get_address (label))[i] = i % 3;
  ortrain_tensor_dict_set (feeds, "input_ids", ids);
  ortrain_tensor_dict_set (feeds, "label", label);
  if (masked)
    ortrain_tensor_dict_set (feeds, "attention_mask", mask);
  return feeds;
}

static OrtrainTensorDict *
train (OrtrainTrainingSession *session, gboolean masked, double *losses)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (masked);
  for (guint i = 0; i < N_STEPS; i++)
    {
      losses[i] = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
  OrtrainTensorDict *parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  return parameters;
}

static guint
count_steps (OrtrainTrainingSession *session, const char *op_type)
{
  guint n_steps, n = 0;
  const OrtrainPlanStep *steps =
      ortrain_memory_plan_peek_steps (ortrain_training_session_get_memory_plan (session), &n_steps);
  for (guint s = 0; s < n_steps; s++)
    n += g_str_equal (steps[s].node->op_type, op_type);
  return n;
}

static void
compare (const char *name, const char *op_type, gboolean masked, double ratio)
{
  double losses[2][N_STEPS];
  g_autoptr (OrtrainTrainingSession) fused = make_session (name, "", ratio);
  g_autoptr (OrtrainTensorDict) a = train (fused, masked, losses[0]);
  g_autoptr (OrtrainTrainingSession) single = make_session (name, "fuse-attention,fuse-relative-attention", ratio);
  g_autoptr (OrtrainTensorDict) b = train (single, masked, losses[1]);
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  g_autofree char *grad = g_strconcat (op_type, "Grad", NULL);
  g_assert_cmpuint (count_steps (fused, op_type), ==, 2);
  g_assert_cmpuint (count_steps (fused, grad), ==, 2);
  g_assert_cmpuint (count_steps (fused, "Softmax"), ==, 0);
  g_assert_cmpuint (count_steps (fused, "Dropout"), ==, 0);
  g_assert_cmpuint (count_steps (single, op_type), ==, 0);
  for (guint i = 0; i < N_STEPS; i++)
    g_assert_cmpfloat (fabs (losses[0][i] - losses[1][i]), <=, 1e-5);
  g_auto (GStrv) names = ortrain_tensor_dict_get_names (a);
  for (guint i = 0; names[i] != NULL; i++)
    {
      OrtrainTensor *x = ortrain_tensor_dict_get (a, names[i]), *y = ortrain_tensor_dict_get (b, names[i]);
      for (gint64 k = 0; k < ortrain_tensor_get_n_elements (x); k++)
        g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (x, k) - ortrain_tensor_get_scalar (y, k)), <=, 1e-5);
    }
}

static void
test_deberta (void)
{
  compare ("deberta", "RelativeAttention", TRUE, 0);
}

static void
test_deberta_v2 (void)
{
  compare ("deberta-v2", "RelativeAttention", FALSE, 0);
}

static void
test_fixed_shapes (void)
{
  compare ("deberta", "RelativeAttention", TRUE, -1);
  compare ("deberta-v2", "RelativeAttention", FALSE, -1);
}

static void
test_t5 (void)
{
  compare ("t5-encoder", "Attention", FALSE, 0);
}

/* The same elements are dropped as without the pass. */
static void
test_dropout (void)
{
  compare ("deberta", "RelativeAttention", TRUE, 0.1);
  compare ("deberta-v2", "RelativeAttention", FALSE, 0.3);
  compare ("t5-encoder", "Attention", FALSE, 0.2);
}

/* How many values of the plan have a multiple of `divisor` bytes. */
static guint
count_blocks (const char *name, const char *disabled, guint64 divisor)
{
  double losses[N_STEPS];
  guint n = 0;
  g_autoptr (OrtrainTrainingSession) session = make_session (name, disabled, 0.1);
  g_autoptr (OrtrainTensorDict) parameters G_GNUC_UNUSED = train (session, FALSE, losses);
  GListModel *blocks = ortrain_memory_plan_get_blocks (ortrain_training_session_get_memory_plan (session));
  for (guint i = 0; i < g_list_model_get_n_items (blocks); i++)
    {
      g_autoptr (OrtrainMemoryBlock) block = g_list_model_get_item (blocks, i);
      if (ortrain_memory_block_get_bytes (block) % divisor != 0)
        continue;
      g_test_message ("%s: %s of %s, %" G_GUINT64_FORMAT " bytes", name, ortrain_memory_block_get_name (block),
                      ortrain_memory_block_get_node (block), ortrain_memory_block_get_bytes (block));
      n++;
    }
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  return n;
}

/* Nothing of a DeBERTa has as many elements as there are pairs of positions: neither scores, nor terms of them, nor
 * masks, nor indices. In T5, only values in the shape of the bias, which the batch shares. */
static void
test_no_scores_in_plan (void)
{
  const char *fusions = "fuse-attention,fuse-relative-attention";
  g_assert_cmpuint (count_blocks ("deberta-v2", "", LENGTH * LENGTH), ==, 0);
  g_assert_cmpuint (count_blocks ("deberta-v2", fusions, LENGTH * LENGTH), >=, 4);
  g_assert_cmpuint (count_blocks ("t5-encoder", "", BATCH * LENGTH * LENGTH), ==, 0);
  g_assert_cmpuint (count_blocks ("t5-encoder", fusions, BATCH * LENGTH * LENGTH), >=, 4);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fuse-relative-attention/deberta", test_deberta);
  g_test_add_func ("/fuse-relative-attention/deberta-v2", test_deberta_v2);
  g_test_add_func ("/fuse-relative-attention/fixed-shapes", test_fixed_shapes);
  g_test_add_func ("/fuse-relative-attention/t5", test_t5);
  g_test_add_func ("/fuse-relative-attention/dropout", test_dropout);
  g_test_add_func ("/fuse-relative-attention/no-scores-in-plan", test_no_scores_in_plan);
  return g_test_run ();
}
