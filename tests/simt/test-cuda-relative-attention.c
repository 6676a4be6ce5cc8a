/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

#define OURS 1, "org.ortrain"

/* Both terms and one, indices of differences and matrices, as many queries as keys and not, all masks. */
static const OrtrainGradientCase cases[] = {
  { "RelativeAttention",
    "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];f[1,2,6,4];f[1,2,7,4];i[7]{5,4,4,2,1,0,0};i[7]{6,5,4,4,1,0,-1}",
    "scale=0.5f key_scale=0.7f query_scale=0.4f", OURS },
  { "RelativeAttention",
    "f[2,3,2,4];f[2,3,2,4];f[2,3,2,4];f[1,4,2,4];f[1,4,2,4];i[1,3,3]{0,1,2,3,3,1,0,2,2};i[3,3]{3,1,2,0,3,1,2,2,2}",
    "scale=0.5f key_scale=0.5f query_scale=0.5f packed=63", OURS },
  { "RelativeAttention",
    "f[2,2,3,4];f[2,2,3,4];f[2,2,3,4];f[1,2,5,4];_;i[5]{4,3,2,1,0};_;b[2,1,3,3]{1,0,1,0,0,0,1,1,1,1,1,0,0,1,1,0,0,0}",
    "scale=0.5f key_scale=0.5f masked_value=-3.4e38f fill=1", OURS },
  { "RelativeAttention", "f[2,1,3,4];f[2,1,2,4];f[2,1,2,4];_;f[1,1,9,4];_;i[4]{3,4,4,6};c[2,1,1,2]",
    "scale=0.5f query_scale=0.5f", OURS },
  /* a vector next to a matrix */
  { "RelativeAttention", "f[1,2,3,4];f[1,2,2,4];f[1,2,2,5];f[1,2,3,4];f[1,2,4,4];i[4]{2,1,1,0};i[2,3]{3,1,2,0,3,-1}",
    "scale=0.5f key_scale=0.4f query_scale=0.7f", OURS },
  { "RelativeAttention", "f[1,2,3,4];f[1,2,2,4];f[1,2,2,5];f[1,2,4,4];f[1,2,3,4];i[3,2]{2,1,1,0,-1,1};i[4]{2,1,1,0}",
    "scale=0.5f key_scale=0.4f query_scale=0.7f", OURS },
  { "RelativeAttention",
    "f[1,1,3,4];f[1,1,3,4];f[1,1,3,4];f[1,1,5,4];f[1,1,5,4];i[5]{4,3,2,1,0};i[5]{4,3,2,1,0};b[3,3]{1,0,0,1,1,0,1,1,1}",
    "scale=0.5f masked_value=-1e38f fill=1", OURS },
  /* dropout */
  { "RelativeAttention",
    "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];f[1,2,6,4];f[1,2,7,4];i[7]{5,4,4,2,1,0,0};i[7]{6,5,4,4,1,0,-1};_;d{0.4};b{1}",
    "scale=0.5f key_scale=0.7f query_scale=0.4f forward_node=7", OURS },
  { "RelativeAttention",
    "f[1,2,3,4];f[1,2,2,4];f[1,2,2,5];f[1,2,3,4];f[1,2,4,4];i[3,2]{2,1,1,0,-1,1};i[2,3]{3,1,2,0,3,-1};_;_;b{1}",
    "scale=0.5f key_scale=0.4f query_scale=0.7f", OURS },
  { "RelativeAttention", "f[2,1,3,4];f[2,1,2,4];f[2,1,2,4];_;f[1,1,9,4];_;i[4]{3,4,4,6};c[2,1,1,2];d{0.4};b{0}",
    "scale=0.5f query_scale=0.5f", OURS },
};

static const char *const operators[] = { "RelativeAttention", "RelativeAttentionGrad", NULL };

static void
test_small (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

typedef struct
{
  gint64 batch, heads, queries, keys, width, v_width, positions;
  const char *attributes;
  guint matrix; /* bit k: the index of that term is one */
  guint absent; /* bit k: that term is not there */
  double ratio; /* of dropout; 0: none */
} Shape;

static void
add_random (CudaNode *node, gint64 a, gint64 b, gint64 c, gint64 d)
{
  const gint64 dims[] = { a, b, c, d };
  cuda_node_add_input (node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, node->n_in + 1, 4, dims));
}

/* limit: indices are below, and not below its opposite */
static void
add_positions (CudaNode *node, const Shape *shape, gint64 limit)
{
  const gint64 n = MAX (0, shape->queries + shape->keys - 1),
               matrix[][2] = { { shape->queries, shape->keys }, { shape->keys, shape->queries } };
  for (guint k = 0; k < 2; k++)
    if (shape->absent >> k & 1)
      cuda_node_add_input (node, NULL);
    else
      add_random (node, 1, shape->heads, shape->positions, shape->width);
  for (guint k = 0; k < 2; k++)
    if (shape->absent >> k & 1)
      cuda_node_add_input (node, NULL);
    else if (shape->matrix >> k & 1)
      cuda_node_add_input (
          node, cuda_node_indices (ORTRAIN_DTYPE_INT64, (gint32) -limit, (gint32) limit, 30 + k, 2, matrix[k]));
    else
      cuda_node_add_input (node, cuda_node_indices (k == 0 ? ORTRAIN_DTYPE_INT64 : ORTRAIN_DTYPE_INT32, (gint32) -limit,
                                                    (gint32) limit, 40 + k, 1, &n));
}

/* Adds the inputs of dropout, after an absent mask. */
static void
add_dropout (CudaNode *node, const Shape *shape)
{
  if (shape->ratio == 0)
    return;
  OrtrainTensor *ratio = cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, 0, NULL);
  OrtrainTensor *training = cuda_node_tensor (ORTRAIN_DTYPE_BOOL, 0, NULL);
  *(float *) ortrain_tensor_peek_writable (ratio) = (float) shape->ratio;
  *(guint8 *) ortrain_tensor_peek_writable (training) = 1;
  cuda_node_add_input (node, NULL);
  cuda_node_add_input (node, ratio);
  cuda_node_add_input (node, training);
}

static void
add_result (CudaNode *node, gint64 a, gint64 b, gint64 c, gint64 d)
{
  const gint64 dims[] = { a, b, c, d };
  cuda_node_add_output (node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, d > 0 ? 4 : 3, dims));
}

static void
check_forward (const Shape *s, gint64 limit)
{
  CudaNode node = { .n_in = 0 };
  add_random (&node, s->batch, s->heads, s->queries, s->width);
  add_random (&node, s->batch, s->heads, s->keys, s->width);
  add_random (&node, s->batch, s->heads, s->keys, s->v_width);
  add_positions (&node, s, limit);
  add_dropout (&node, s);
  add_result (&node, s->batch, s->heads, s->queries, s->v_width);
  if (s->keys > 0)
    add_result (&node, s->batch, s->heads, s->queries, 0);
  cuda_node_check (&node, "org.ortrain", "RelativeAttention", s->attributes);
}

static void
check_backward (const Shape *s)
{
  const gint64 rows[] = { s->batch, s->heads, s->queries };
  CudaNode node = { .n_in = 0 };
  add_random (&node, s->batch, s->heads, s->queries, s->v_width);
  add_random (&node, s->batch, s->heads, s->queries, s->width);
  add_random (&node, s->batch, s->heads, s->keys, s->width);
  add_random (&node, s->batch, s->heads, s->keys, s->v_width);
  /* any numbers: probabilities need not sum to one */
  cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 9, 3, rows));
  add_positions (&node, s, s->positions);
  add_dropout (&node, s);
  add_result (&node, s->batch, s->heads, s->queries, s->width);
  add_result (&node, s->batch, s->heads, s->keys, s->width);
  add_result (&node, s->batch, s->heads, s->keys, s->v_width);
  for (guint k = 0; k < 2; k++)
    if (s->absent >> k & 1)
      cuda_node_add_output (&node, NULL);
    else
      add_result (&node, 1, s->heads, s->positions, s->width);
  cuda_node_check (&node, "org.ortrain", "RelativeAttentionGrad", s->attributes);
}

/* More than a tile of queries, of keys, of differences, of columns. */
static void
test_large (void)
{
  static const Shape shapes[] = {
    { 1, 2, 66, 37, 3, 2, 12, "scale=0.5f key_scale=0.3f query_scale=0.4f", 0, 0 },
    { 3, 1, 33, 67, 2, 3, 140, "scale=0.5f key_scale=0.3f query_scale=0.4f", 0, 0 },
    { 2, 1, 5, 9, 66, 2, 7, "scale=0.1f key_scale=0.2f query_scale=0.1f", 0, 0 },
    { 1, 1, 9, 5, 70, 67, 7, "scale=0.1f key_scale=0.2f query_scale=0.1f", 3, 0 },
    { 1, 1, 65, 34, 2, 2, 8, "scale=0.5f key_scale=0.3f", 1, 2 },
    { 1, 1, 34, 65, 2, 2, 8, "scale=0.5f query_scale=0.3f", 2, 1 },
    { 2, 1, 66, 35, 3, 2, 12, "scale=0.5f key_scale=0.3f query_scale=0.4f forward_node=5", 0, 0, 0.3 },
    { 1, 1, 7, 34, 3, 2, 12, "scale=0.5f key_scale=0.3f query_scale=0.4f", 3, 0, 0.6 },
  };
  cuda_check_begin (operators);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      check_forward (&shapes[i], shapes[i].positions);
      check_backward (&shapes[i]);
    }
  cuda_check_end ();
}

/* No keys, or no queries. */
static void
test_empty (void)
{
  static const Shape shapes[] = {
    { 2, 1, 3, 0, 4, 2, 5, NULL, 0, 0 },
    { 2, 1, 0, 3, 4, 2, 5, NULL, 0, 0 },
    { 2, 1, 3, 0, 4, 2, 5, NULL, 3, 0 },
  };
  cuda_check_begin (operators);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      check_forward (&shapes[i], shapes[i].positions);
      check_backward (&shapes[i]);
    }
  cuda_check_end ();
}

/* An index beyond the positions, and a ratio that is not valid: a fault, and nothing else is touched. */
static void
test_faults (void)
{
  static const Shape shapes[] = {
    { 1, 2, 9, 7, 4, 2, 3, NULL, 0, 0 },
    { 1, 2, 9, 7, 4, 2, 3, NULL, 3, 0 },
  };
  static const char *const forward[] = { "RelativeAttention", NULL };
  cuda_check_begin (forward);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    check_forward (&shapes[i], 9);
  const Shape all_dropped = { 1, 2, 9, 7, 4, 2, 3, NULL, 0, 0, 1 };
  check_forward (&all_dropped, all_dropped.positions);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-relative-attention/small", test_small);
  g_test_add_func ("/cuda-relative-attention/large", test_large);
  g_test_add_func ("/cuda-relative-attention/empty", test_empty);
  g_test_add_func ("/cuda-relative-attention/faults", test_faults);
  return g_test_run ();
}
