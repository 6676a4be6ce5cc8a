/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-writer-private.h"

#include <string.h>

/* Operators of ONNX Runtime (com.microsoft), which its optimizer writes into files that it saves: several operators of
 * ONNX in one. Each is written out in those again, whose gradients and kernels are known, and which passes fuse as they
 * like. Export writes the file's own nodes. */

#define MICROSOFT "com.microsoft"

/* ---- activations ---- */

static OrtrainValue *
write_gelu (const OrtrainWriter *self, OrtrainValue *x, const char *approximate)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_string (attributes, "approximate", approximate);
  return ortrain_write (self, "Gelu", &x, 1, attributes);
}

/* Gelu (x), BiasGelu (x, bias) */
static gboolean
upgrade_gelu (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  OrtrainValue *x = ortrain_node_input (node, 0), *bias = ortrain_node_input (node, 1);
  return ortrain_write_finish (&self,
                               write_gelu (&self, bias != NULL ? ortrain_write2 (&self, "Add", x, bias) : x, "none"));
}

/* FastGelu (x[, bias]): with tanh */
static gboolean
upgrade_fast_gelu (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  OrtrainValue *x = ortrain_node_input (node, 0), *bias = ortrain_node_input (node, 1);
  return ortrain_write_finish (&self,
                               write_gelu (&self, bias != NULL ? ortrain_write2 (&self, "Add", x, bias) : x, "tanh"));
}

/* QuickGelu (x) = x · sigmoid (alpha · x) */
static gboolean
upgrade_quick_gelu (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  OrtrainValue *x = ortrain_node_input (node, 0);
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_float (attributes, "alpha",
                                ortrain_attributes_get_float (node->attributes, "alpha", (double) 1.702f));
  return ortrain_write_finish (&self, ortrain_write (&self, "Swish", &x, 1, attributes));
}

/* The activation after a convolution or product: the name of its operator, and its numbers in the order of names[]. */
typedef struct
{
  const char *name;
  const char *numbers[2];
} Activation;

static const Activation activations[] = {
  { "Relu", { NULL } },
  { "Tanh", { NULL } },
  { "Sigmoid", { NULL } },
  { "Softplus", { NULL } },
  { "Softsign", { NULL } },
  { "LeakyRelu", { "alpha" } },
  { "Elu", { "alpha" } },
  { "ThresholdedRelu", { "alpha" } },
  { "Selu", { "alpha", "gamma" } },
  { "HardSigmoid", { "alpha", "beta" } },
  { "Clip", { "min", "max" } },
};

/* numbers: as many as the operator has, in the file's order; absent ones are NAN. NULL: not known. */
static OrtrainValue *
write_activation (const OrtrainWriter *self, OrtrainValue *x, const char *name, const double *numbers)
{
  for (guint i = 0; i < G_N_ELEMENTS (activations); i++)
    {
      const Activation *a = &activations[i];
      if (!g_str_equal (a->name, name))
        continue;
      if (g_str_equal (name, "Clip"))
        {
          OrtrainValue *operands[] = { x, NULL, NULL };
          for (guint k = 0; k < 2; k++)
            if (!__builtin_isnan (numbers[k]))
              operands[1 + k] = ortrain_upgrade_const_like (self->graph, self->node, numbers[k], x);
          return ortrain_write (self, name, operands, 3, NULL);
        }
      OrtrainAttributes *attributes = ortrain_attributes_new ();
      for (guint k = 0; k < 2 && a->numbers[k] != NULL; k++)
        if (!__builtin_isnan (numbers[k]))
          ortrain_attributes_set_float (attributes, a->numbers[k], numbers[k]);
      return ortrain_write (self, name, &x, 1, attributes);
    }
  return NULL;
}

static gboolean
refuse_activation (const OrtrainWriter *self, const char *name, GError **error)
{
  g_autofree char *why = g_strdup_printf ("its activation '%.60s' is not supported; save the model with "
                                          "graph_optimization_level ORT_ENABLE_BASIC",
                                          name);
  return ortrain_write_refuse (self, error, why);
}

/* ---- products ---- */

/* The node without the attributes that only this operator has. */
static OrtrainAttributes *
copy_without (const OrtrainNode *node, const char *const *names)
{
  OrtrainAttributes *attributes = ortrain_attributes_copy (node->attributes);
  for (; *names != NULL; names++)
    ortrain_attributes_remove (attributes, *names);
  return attributes;
}

/* FusedConv (x, w[, bias[, z]]) = activation (Conv (x, w, bias) + z) */
static gboolean
upgrade_conv (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  static const char *const own[] = { "activation", "activation_params", NULL };
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  OrtrainValue *operands[] = { ortrain_node_input (node, 0), ortrain_node_input (node, 1),
                               ortrain_node_input (node, 2) };
  OrtrainValue *z = ortrain_node_input (node, 3);
  g_autofree char *activation = g_strdup (ortrain_attributes_get_string (node->attributes, "activation", ""));
  double numbers[2] = { __builtin_nan (""), __builtin_nan ("") };
  gsize n;
  const float *given = ortrain_attributes_get_floats (node->attributes, "activation_params", &n);
  for (gsize i = 0; given != NULL && i < MIN (n, 2); i++)
    numbers[i] = given[i];
  OrtrainValue *y = ortrain_write (&self, "Conv", operands, 3, copy_without (node, own));
  if (z != NULL)
    y = ortrain_write2 (&self, "Add", y, z);
  if (*activation != '\0')
    y = write_activation (&self, y, activation, numbers);
  return y != NULL ? ortrain_write_finish (&self, y) : refuse_activation (&self, activation, error);
}

/* FusedGemm (a, b[, c]) = activation (Gemm (a, b, c)) */
static gboolean
upgrade_gemm (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  static const char *const own[] = { "activation", "activation_alpha", "activation_beta", "activation_gamma", NULL };
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  OrtrainValue *operands[] = { ortrain_node_input (node, 0), ortrain_node_input (node, 1),
                               ortrain_node_input (node, 2) };
  g_autofree char *activation = g_strdup (ortrain_attributes_get_string (node->attributes, "activation", ""));
  double numbers[2] = { __builtin_nan (""), __builtin_nan ("") };
  for (guint i = 0; i < G_N_ELEMENTS (activations); i++)
    for (guint k = 0; g_str_equal (activations[i].name, activation) && k < 2 && activations[i].numbers[k] != NULL; k++)
      {
        g_autofree char *name = g_strconcat ("activation_", activations[i].numbers[k], NULL);
        numbers[k] = ortrain_attributes_get_float (node->attributes, name, __builtin_nan (""));
      }
  OrtrainValue *y = ortrain_write (&self, "Gemm", operands, 3, copy_without (node, own));
  if (*activation != '\0')
    y = write_activation (&self, y, activation, numbers);
  return y != NULL ? ortrain_write_finish (&self, y) : refuse_activation (&self, activation, error);
}

/* transBatch moves the first dimension before the last one; trans then exchanges the last two. */
static OrtrainValue *
write_operand (const OrtrainWriter *self, guint i, const char *trans, const char *trans_batch, GError **error)
{
  OrtrainValue *x = ortrain_node_input (self->node, i);
  const gboolean turns = ortrain_attributes_get_int (self->node->attributes, trans, 0) != 0;
  const gboolean turns_batch = ortrain_attributes_get_int (self->node->attributes, trans_batch, 0) != 0;
  gint64 perm[ORTRAIN_MAX_RANK];
  if (x == NULL || (!turns && !turns_batch) || x->rank == 0 || x->rank == 1)
    return x;
  if (x->rank < 0)
    {
      ortrain_write_refuse (self, error, "the ranks of the operands that it transposes must be known");
      return NULL;
    }
  const gint rank = x->rank;
  for (gint d = 0; d < rank; d++)
    perm[d] = d;
  if (turns_batch)
    {
      for (gint d = 0; d < rank - 2; d++)
        perm[d] = d + 1;
      perm[rank - 2] = 0;
    }
  if (turns)
    {
      const gint64 last = perm[rank - 1];
      perm[rank - 1] = perm[rank - 2];
      perm[rank - 2] = last;
    }
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, (gsize) rank);
  return ortrain_write (self, "Transpose", &x, 1, attributes);
}

/* FusedMatMul (a, b) = alpha · a · b, of transposed operands */
static gboolean
upgrade_matmul (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  const double alpha = ortrain_attributes_get_float (node->attributes, "alpha", 1);
  OrtrainValue *a = write_operand (&self, 0, "transA", "transBatchA", error);
  OrtrainValue *b = a != NULL ? write_operand (&self, 1, "transB", "transBatchB", error) : NULL;
  if (b == NULL)
    return FALSE;
  OrtrainValue *y = ortrain_write2 (&self, "MatMul", a, b);
  if (alpha != 1)
    y = ortrain_write2 (&self, "Mul", y, ortrain_upgrade_const_like (graph, node, alpha, a));
  return ortrain_write_finish (&self, y);
}

/* BiasSoftmax (x, bias) = softmax (x + bias) over all dimensions from `axis` on, taken as one */
static gboolean
upgrade_bias_softmax (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  OrtrainValue *x = ortrain_node_input (node, 0), *bias = ortrain_node_input (node, 1);
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 1);
  OrtrainValue *sum = ortrain_write2 (&self, "Add", x, bias);
  if (x->rank < 0)
    return ortrain_write_refuse (&self, error, "the rank of its input must be known");
  axis += axis < 0 ? x->rank : 0;
  if (axis < 0 || axis >= MAX (x->rank, 1))
    return ortrain_write_refuse (&self, error, "attribute 'axis' is out of range");
  if (axis >= x->rank - 1)
    return ortrain_write_finish (&self,
                                 ortrain_write (&self, "Softmax", &sum, 1, ortrain_write_attribute ("axis", -1)));
  OrtrainValue *flat = ortrain_write (&self, "Flatten", &sum, 1, ortrain_write_attribute ("axis", axis));
  OrtrainValue *y = ortrain_write (&self, "Softmax", &flat, 1, ortrain_write_attribute ("axis", -1));
  return ortrain_write_finish (&self, ortrain_write2 (&self, "Reshape", y, ortrain_write1 (&self, "Shape", x)));
}

/* ---- normalizations ---- */

static OrtrainNode *
insert_norm (const OrtrainWriter *self, const char *op_type, OrtrainValue *const *operands, guint n, gint64 axis,
             double epsilon)
{
  OrtrainNode *norm =
      ortrain_graph_insert_node (self->graph, self->node, "", op_type, self->node->name, operands, n, 1);
  ortrain_attributes_set_int (norm->attributes, "axis", axis);
  ortrain_attributes_set_float (norm->attributes, "epsilon", epsilon);
  norm->op = ortrain_ops_lookup ("", op_type);
  return norm;
}

static void
move_output (OrtrainNode *node, guint k, OrtrainValue *value)
{
  if (ortrain_node_output (node, k) != NULL)
    ortrain_value_replace_uses (ortrain_node_output (node, k), value);
}

/* 1 / √(mean (x²) + ε), over the dimensions from `axis` on */
static OrtrainValue *
write_inverse_root (const OrtrainWriter *self, OrtrainValue *x, gint64 axis, double epsilon)
{
  gint64 axes[ORTRAIN_MAX_RANK];
  gint n = 0;
  for (gint64 d = axis; d < (axis < 0 ? 0 : x->rank); d++)
    axes[n++] = d;
  OrtrainValue *operands[] = { ortrain_write2 (self, "Mul", x, x), ortrain_write_ints (self, axes, (gsize) n) };
  OrtrainValue *mean = ortrain_write (self, "ReduceMean", operands, 2, NULL);
  OrtrainValue *sum =
      ortrain_write2 (self, "Add", mean, ortrain_upgrade_const_like (self->graph, self->node, epsilon, x));
  return ortrain_write1 (self, "Reciprocal", ortrain_write1 (self, "Sqrt", sum));
}

/* SimplifiedLayerNormalization (x, scale) → (y, inverse root) */
static gboolean
upgrade_simplified (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  OrtrainValue *operands[] = { ortrain_node_input (node, 0), ortrain_node_input (node, 1) };
  const double epsilon = ortrain_attributes_get_float (node->attributes, "epsilon", 1e-5);
  const gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", -1);
  OrtrainNode *norm = insert_norm (&self, "RMSNormalization", operands, 2, axis, epsilon);
  if (ortrain_node_output (node, 1) != NULL)
    {
      if (axis < -operands[0]->rank || (axis >= 0 && operands[0]->rank < 0))
        return ortrain_write_refuse (&self, error, "the rank of its input must be known");
      move_output (node, 1, write_inverse_root (&self, operands[0], axis, epsilon));
    }
  return ortrain_write_finish (&self, ortrain_node_output (norm, 0));
}

/* The sum of an input, the skip connection and a bias: inputs 0, 1 and `bias`. */
static OrtrainValue *
write_sum (const OrtrainWriter *self, guint bias)
{
  OrtrainValue *sum =
      ortrain_write2 (self, "Add", ortrain_node_input (self->node, 0), ortrain_node_input (self->node, 1));
  OrtrainValue *b = ortrain_node_input (self->node, bias);
  return b != NULL ? ortrain_write2 (self, "Add", sum, b) : sum;
}

/* SkipLayerNormalization (x, skip, scale[, shift[, bias]]) → (y, mean, inverse deviation, sum) */
static gboolean
upgrade_skip (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  const double epsilon = ortrain_attributes_get_float (node->attributes, "epsilon", 1e-12);
  OrtrainValue *operands[] = { write_sum (&self, 4), ortrain_node_input (node, 2), ortrain_node_input (node, 3) };
  OrtrainNode *norm = insert_norm (&self, "LayerNormalization", operands, operands[2] != NULL ? 3 : 2, -1, epsilon);
  for (guint k = 1; k < 3; k++)
    if (ortrain_node_output (node, k) != NULL)
      {
        if (norm->outputs->len <= k)
          ortrain_node_set_n_outputs (norm, k + 1);
        move_output (node, k, ortrain_node_output (norm, k));
      }
  move_output (node, 3, operands[0]);
  return ortrain_write_finish (&self, ortrain_node_output (norm, 0));
}

/* SkipSimplifiedLayerNormalization (x, skip, scale[, bias]) → (y, nothing, inverse root, sum) */
static gboolean
upgrade_skip_simplified (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  if (!ortrain_write_check (&self, error))
    return FALSE;
  const double epsilon = ortrain_attributes_get_float (node->attributes, "epsilon", 1e-12);
  OrtrainValue *operands[] = { write_sum (&self, 3), ortrain_node_input (node, 2) };
  OrtrainNode *norm = insert_norm (&self, "RMSNormalization", operands, 2, -1, epsilon);
  if (ortrain_node_output (node, 1) != NULL && ortrain_node_output (node, 1)->uses.n > 0)
    return ortrain_write_refuse (&self, error, "output 1, the mean, is not computed by it");
  if (ortrain_node_output (node, 2) != NULL)
    move_output (node, 2, write_inverse_root (&self, operands[0], -1, epsilon));
  move_output (node, 3, operands[0]);
  return ortrain_write_finish (&self, ortrain_node_output (norm, 0));
}

/* clang-format off */
#define ROW(op, in, min, max, outputs, letters, function, ...)                                                         \
  { .name = op, .domain = in, .since = 1, .min_inputs = min, .max_inputs = max, .min_outputs = 1,                      \
    .max_outputs = outputs, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = letters, .upgrade = function, __VA_ARGS__ }

static const OrtrainOpDef ops[] = {
  ROW ("Gelu", MICROSOFT, 1, 1, 1, ".", upgrade_gelu),
  ROW ("BiasGelu", MICROSOFT, 2, 2, 1, ".0", upgrade_gelu),
  ROW ("FastGelu", MICROSOFT, 1, 2, 1, ".0", upgrade_fast_gelu),
  ROW ("QuickGelu", MICROSOFT, 1, 1, 1, ".", upgrade_quick_gelu),
  ROW ("FusedConv", MICROSOFT, 2, 4, 1, ".0", upgrade_conv, .optional_inputs = 1 << 2),
  ROW ("FusedGemm", MICROSOFT, 2, 3, 1, ".0", upgrade_gemm),
  ROW ("FusedMatMul", MICROSOFT, 2, 2, 1, ".0", upgrade_matmul),
  ROW ("TransposeMatMul", MICROSOFT, 2, 2, 1, ".0", upgrade_matmul),
  ROW ("BiasSoftmax", MICROSOFT, 2, 2, 1, ".0", upgrade_bias_softmax),
  ROW ("SimplifiedLayerNormalization", "", 2, 2, 2, ".f", upgrade_simplified),
  ROW ("SimplifiedLayerNormalization", MICROSOFT, 2, 2, 2, ".f", upgrade_simplified),
  ROW ("SkipLayerNormalization", MICROSOFT, 3, 5, 4, ".0", upgrade_skip, .optional_inputs = 1 << 3),
  ROW ("SkipSimplifiedLayerNormalization", MICROSOFT, 3, 4, 4, ".0", upgrade_skip_simplified),
};
/* clang-format on */
ORTRAIN_OP_TABLE (runtime, ops);
