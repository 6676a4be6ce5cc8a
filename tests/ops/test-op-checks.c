/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-gradient-private.h"
#include "model/ortrain-model-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"
#include "ortrain.h"

#include <string.h>

/* Checks of a node before its row's own functions see it, and of the nodes that a gradient rule writes. */

/* "f[2,3]": float32 of that shape; "f": of unknown rank; i: int32, l: int64, d: float64, b: bool; "l{2,3}": these
 * numbers */
static OrtrainValue *
add_input (OrtrainGraph *graph, const char *text, guint index)
{
  if (text[1] == '{')
    {
      gint64 numbers[ORTRAIN_MAX_RANK];
      gsize n = 0;
      for (const char *at = text + 1; *at != '}' && n < G_N_ELEMENTS (numbers); n++)
        {
          char *end;
          numbers[n] = g_ascii_strtoll (at + 1, &end, 10);
          at = end;
        }
      return ortrain_graph_const_ints (graph, numbers, n);
    }
  OrtrainDType dtype = text[0] == 'f'   ? ORTRAIN_DTYPE_FLOAT32
                       : text[0] == 'd' ? ORTRAIN_DTYPE_FLOAT64
                       : text[0] == 'i' ? ORTRAIN_DTYPE_INT32
                       : text[0] == 'b' ? ORTRAIN_DTYPE_BOOL
                                        : ORTRAIN_DTYPE_INT64;
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gint rank = text[1] == '[' ? 0 : -1;
  for (const char *at = text + 1; rank >= 0 && *at != ']' && at[1] != ']'; rank++)
    {
      char *end;
      dims[rank] = ortrain_dim_int (g_ascii_strtoll (at + 1, &end, 10));
      at = end;
    }
  g_autofree char *name = g_strdup_printf ("x%u", index);
  return ortrain_graph_new_input (graph, name, dtype, dims, rank);
}

/* Operands are separated by semicolons; "" leaves one out. Attributes: name=1, name=[1,2], name=1.5, name=word. */
static OrtrainNode *
add_node (OrtrainGraph *graph, const char *domain, const char *op_type, const char *operands, const char *attributes)
{
  g_auto (GStrv) texts = g_strsplit (operands, ";", -1);
  g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
  for (guint i = 0; texts[i] != NULL; i++)
    g_ptr_array_add (inputs, *texts[i] != '\0' ? add_input (graph, texts[i], i) : NULL);
  OrtrainNode *node = ortrain_graph_new_node (graph, domain, op_type, "node", (OrtrainValue **) inputs->pdata,
                                              inputs->len, g_str_equal (op_type, "Momentum") ? 2 : 1);
  g_auto (GStrv) entries = g_strsplit (attributes, " ", -1);
  for (guint i = 0; entries[i] != NULL && *entries[i] != '\0'; i++)
    {
      g_auto (GStrv) pair = g_strsplit (entries[i], "=", 2);
      if (pair[1][0] == '[')
        {
          g_auto (GStrv) numbers = g_strsplit_set (pair[1] + 1, ",]", -1);
          gint64 ints[40];
          gsize n = 0;
          for (; n < G_N_ELEMENTS (ints) && numbers[n] != NULL && *numbers[n] != '\0'; n++)
            ints[n] = g_ascii_strtoll (numbers[n], NULL, 10);
          ortrain_attributes_set_ints (node->attributes, pair[0], ints, n);
        }
      else if (strchr (pair[1], '.') != NULL || g_str_equal (pair[1], "nan"))
        ortrain_attributes_set_float (node->attributes, pair[0], g_ascii_strtod (pair[1], NULL));
      else if (g_ascii_isalpha (pair[1][0]))
        ortrain_attributes_set_string (node->attributes, pair[0], pair[1]);
      else
        ortrain_attributes_set_int (node->attributes, pair[0], g_ascii_strtoll (pair[1], NULL, 10));
    }
  return node;
}

typedef struct
{
  const char *domain, *op_type, *operands, *attributes;
  const char *error; /* NULL: the node is right */
} Row;

#define OWN ORTRAIN_DOMAIN

static const Row table[] = {
  /* attributes: kind, bounds, number of elements; also where the rank is not known */
  { "", "Transpose", "f", "perm=[1,0]", NULL },
  { "", "Transpose", "f", "perm=[1099511627776,0]", "perm" },
  { "", "Transpose", "f", "perm=[1,0,2,1]", "twice" },
  { "", "Transpose", "f", "perm=[0,3]", "out of range" },
  { "", "Transpose", "f", "perm=[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]", "at most 16" },
  { "", "Transpose", "f[2,3]", "perm=1", "is an integer, it must be a list of integers" },
  { "", "Softmax", "f", "axis=1.5", "is a float, it must be an integer" },
  { "", "Softmax", "f", "axis=4611686018427387904", "axis" },
  { "", "LayerNormalization", "f[2,4];f[4]", "epsilon=nan", "epsilon" },
  { "", "LayerNormalization", "f[2,4];f[4]", "epsilon=-1.0", "epsilon" },
  { "", "Pad", "f[2];l[2]", "mode=3", "is an integer, it must be a string" },
  /* operands: types and ranks */
  { "", "ReduceSum", "f;f[1]", "", "is float32, int64 is needed" },
  { "", "ReduceSum", "f[2];i[1]", "", "is int32, int64 is needed" },
  { "", "ReduceSum", "f;l[1,1]", "", "has rank 2" },
  { "", "Slice", "f[4];f[1];l[1]", "", "int32 or int64 is needed" },
  { "", "Slice", "f[4];l[1];l[1];l[1];d[1]", "", "int32 or int64 is needed" },
  { "", "Slice", "f[4,4];l[2];l[2];l[2];l[1]", "", "1 steps, but 2 starts" },
  { "", "Slice", "f;l[2];l[1]", "", "1 ends, but 2 starts" },
  { "", "Slice", "f[4];l[2];l[2]", "", "rank 1" },
  { "", "Gather", "f[4];f[1]", "", "int32 or int64 is needed" },
  { "", "Reshape", "f[4];l[1,2]", "", "has rank 2" },
  { "", "Concat", "f[];f[]", "axis=0", "out of range for rank 0" },
  { "", "Split", "f[]", "axis=0", "out of range for rank 0" },
  { "", "TopK", "f[4];l[2]", "", "one element is needed" },
  { "", "CumSum", "f[4];l[3]", "", "one element is needed" },
  { "", "ScatterElements", "f[4];l[2];d[2]", "", "float32, the type of input 0" },
  { "", "Einsum", "f[4];d[4]", "equation=i,i->i", "float32, the type of input 0" },
  { "", "Pad", "f[2,2];l[2];;l[1]", "mode=edges", "mode" },
  { "", "DepthToSpace", "f[1,4,1,1]", "blocksize=2 mode=RCD", "'RCD'" },
  { "", "ReverseSequence", "f[4,3];l[4]", "", "lengths (4) and samples (3) differ" },
  { "", "Resize", "f[1,1,2,2];;f[4]", "mode=nearest nearest_mode=up", "'nearest_mode' is 'up'" },
  { "", "Resize", "f[1,1,2,2];;f[2]", "axes=[1,1]", "given twice" },
  { "", "EyeLike", "f[2,2]", "dtype=63", "element type 63" },
  { "", "OneHot", "l[2];l[];f[3]", "", "two elements" },
  { "ai.onnx.preview.training", "Momentum", "f[];l[];f[1000];f[1];f[1000]", "", "the shape of the weight" },
  { "ai.onnx.preview.training", "Momentum", "f[];l[];f[1000];;f[1000]", "", "input 3" },
  { "ai.onnx.preview.training", "Momentum", "f[0];l[];f[4];f[4];f[4]", "", "one element is needed" },
  /* results: too many dimensions, negative, more bytes than addresses */
  { "", "Reshape", "f[1];l[17]", "", "at most 16" },
  { "", "ConstantOfShape", "l[40]", "", "at most 16" },
  { "", "Transpose", "f[4294967296,4294967296,2]", "perm=[2,1,0]", "would have the shape" },
  /* operators of our own */
  { OWN, "SoftmaxGrad", "f[4,4096];f[4,4096]", "", NULL },
  { OWN, "SoftmaxGrad", "f[4,4096];f[1,1]", "", "input 0 is [4, 4096]" },
  { OWN, "SoftmaxGrad", "f[4];d[4]", "", "float32, the type of input 0" },
  { OWN, "LayerNormGrad", "f[2,4];f[2,4];f[4];f[2,1];f[2,1]", "", NULL },
  { OWN, "LayerNormGrad", "f[2,1];f[2,4];f[4];f[2,1];f[2,1]", "", "has the shape [2, 1]" },
  { OWN, "GroupNormGrad", "f[1,4,1];f[2,4,8];f[4]", "", "has the shape [1, 4, 1]" },
  { OWN, "LRNGrad", "f[1,1,1];f[2,4,8]", "", "has the shape [1, 1, 1]" },
  { OWN, "LayerNormGrad", "f[2,4];f[2,4];f[3];f[2,1];f[2,1]", "", "input 2 'x2' has the shape [3], 4 elements" },
  { OWN, "LayerNormGrad", "f[2,4];f[2,4];f[4];f[3,1];f[2,1]", "", "input 3 'x3' has the shape [3, 1], 2 elements" },
  { OWN, "LayerNormGrad", "f[2,4];f[2,4];f[4];f[2,1];f[1,1]", "", "input 4 'x4'" },
  { OWN, "RMSNormGrad", "f[2,4];f[2,4];f[4]", "", NULL },
  { OWN, "RMSNormGrad", "f[2,4];f[2,4];f[5]", "", "4 elements are needed" },
  { OWN, "GroupNormGrad", "f[2,4,8];f[2,4,8];f[4]", "num_groups=2", NULL },
  { OWN, "GroupNormGrad", "f[2,4,8];f[2,4,8];f[2]", "num_groups=2", "4 elements are needed" },
  { OWN, "GroupNormGrad", "f[2,4,8];f[2,4,8];f[4]", "num_groups=3", "does not divide the 4 channels of input 1 'x1'" },
  { OWN, "GroupNormGrad", "f[2,4,8];f[2,4,8];f[4];f[2,4,1];f[2,4,1]", "num_groups=2", NULL },
  { OWN, "GroupNormGrad", "f[2,4,8];f[2,4,8];f[4];f[2,2];f[2,4,1]", "num_groups=2",
    "input 3 'x3' has the shape [2, 2], 8 elements" },
  { OWN, "GroupNormGrad", "f[2,4,8];f[2,4,8];f[4];f[2,4];f[4]", "num_groups=2",
    "input 4 'x4' has the shape [4], 8 elements" },
  { OWN, "GroupNormStatistics", "f[2,4,8];f[4]", "num_groups=2", NULL },
  { OWN, "GroupNormStatistics", "f[2,4,8];f[2]", "num_groups=2", "input 1 'x1' has the shape [2], 4 elements" },
  { OWN, "GroupNormStatistics", "f[2,4,8];f[4]", "num_groups=3", "does not divide the 4 channels of input 0 'x0'" },
  { OWN, "BatchNormGrad", "f[2,4,8];f[2,4,8];f[4];f[4];f[4]", "", NULL },
  { OWN, "BatchNormGrad", "f[2,4,8];f[2,4,8];f[3];f[4];f[4]", "", "input 2 'x2' has the shape [3], 4 elements" },
  { OWN, "BatchNormGrad", "f[2,4,8];f[2,4,8];f[4];f[40];f[4]", "", "input 3 'x3'" },
  { OWN, "BatchNormFrozenGrad", "f[2,4,8];f[2,4,8];f[4];f[4];f[1]", "", "input 4 'x4'" },
  /* scales and groups */
  { "", "LayerNormalization", "f[2,4];f[4];f[4]", "", NULL },
  { "", "LayerNormalization", "f[2,3,4];f[3,4]", "axis=1", NULL },
  { "", "LayerNormalization", "f[2,4];f[3]", "",
    "LayerNormalization 'node': input 1 'x1' has the shape [3], 4 elements" },
  { "", "LayerNormalization", "f[2,4];f[4];f[5]", "", "input 2 'x2' has the shape [5], 4 elements" },
  { "", "LayerNormalization", "f[2,3,4];f[4]", "axis=1", "12 elements are needed" },
  { "", "RMSNormalization", "f[2,4];f[8]", "", "input 1 'x1' has the shape [8], 4 elements" },
  { "", "GroupNormalization", "f[2,4,8];f[4];f[4]", "num_groups=2", NULL },
  { "", "GroupNormalization", "f[2,4,8];f[4];f[4]", "num_groups=3",
    "GroupNormalization 'node': attribute 'num_groups' is 3, which does not divide the 4 channels of input 0 'x0'" },
  { "", "GroupNormalization", "f[2,4,8];f[4];f[4]", "num_groups=0", "'num_groups' is 0" },
  { "", "GroupNormalization", "f;f[4];f[4]", "num_groups=-2", "'num_groups' is -2" },
  { "", "GroupNormalization", "f[2,4,8];f[2];f[4]", "num_groups=2", "input 1 'x1' has the shape [2], 4 elements" },
  { "", "InstanceNormalization", "f[2,4,8];f[4];f[3]", "", "input 2 'x2' has the shape [3], 4 elements" },
  { "", "InstanceNormalization", "f[2];f[2];f[2]", "", "input 0 has rank 1, 2 is needed at least" },
  { "", "Slice", "f[4]", "", "Slice 'node': input 1 (starts) is missing" },
  { "", "Slice", "f[4];l[1]", "", "input 2 (ends) is missing" },
  { "", "Slice", "f[4];l[1];l[1]", "", NULL },
  /* other gradients, with the tensors that they are gradients of */
  { OWN, "GlobalMaxPoolGrad", "f[2,3,1,1];f[2,3,5,5]", "", NULL },
  { OWN, "GlobalMaxPoolGrad", "f[2,3,2,1];f[2,3,5,5]", "", "[2, 3, 1, 1] is needed" },
  { OWN, "GlobalMaxPoolGrad", "f[2,4,1,1];f[2,3,5,5]", "", "[2, 3, 1, 1] is needed" },
  { OWN, "LpPoolGrad", "f[2,3,4];f[2,3,8];f[2,3,4]", "kernel_shape=[2]", NULL },
  { OWN, "LpPoolGrad", "f[2,3,4];f[2,3,8];f[2,3,5]", "kernel_shape=[2]", "input 2 'x2' has the shape [2, 3, 5]" },
  { OWN, "LpPoolGrad", "f[2,4,4];f[2,3,8];f[2,4,4]", "kernel_shape=[2]", "input 0 'x0' has the shape [2, 4, 4]" },
  { OWN, "MaxPoolGrad", "f[2,3,4];l[2,3,5];l[3]", "kernel_shape=[2]", "input 1 'x1' has the shape [2, 3, 5]" },
  { OWN, "MaxPoolGrad", "f[2,3,4];l[2,3,4];l{2,3,8}", "kernel_shape=[2]", NULL },
  { OWN, "MaxPoolGrad", "f[2,3,4];l[2,3,4];l{2,4,8}", "kernel_shape=[2]", "input 0 'x0' has the shape [2, 3, 4]" },
  { OWN, "MaxPoolGrad", "f[2,3,4];l[2,3,4];l{2,3,8,1}", "kernel_shape=[2]", "input 0 'x0'" },
  { OWN, "AveragePoolGrad", "f[2,3,4];l{2,3,8}", "kernel_shape=[2]", NULL },
  { OWN, "AveragePoolGrad", "f[2,3,4];l{1,3,8}", "kernel_shape=[2]", "input 0 'x0' has the shape [2, 3, 4]" },
  { OWN, "ConvGradInput", "f[2,6,4];f[6,3,3];l{2,3,6}", "", NULL },
  { OWN, "ConvGradInput", "f[2,6,4];f[6,3,3];l{2,3,8}", "strides=[2] pads=[1,1]", NULL },
  { OWN, "ConvGradInput", "f[2,6,5];f[6,3,3];l{2,3,6}", "",
    "input 0 'x0' has the shape [2, 6, 5], [2, 6, 4] is needed" },
  { OWN, "ConvGradInput", "f[2,5,4];f[6,3,3];l{2,3,6}", "", "[2, 6, 4] is needed" },
  { OWN, "ConvGradInput", "f[2,6,4];f[6,3,3];l{2,4,6}", "", "these do not match" },
  { OWN, "ConvGradInput", "f[2,6,4];f[6,3,3];l{2,3,2}", "", "larger than the padded input" },
  { OWN, "ConvGradInput", "f[2,6,4];f[6,3,3];l{2,3,6,1}", "", "the weights have rank 3, but the input has rank 4" },
  { OWN, "ConvGradWeight", "f[2,6,4];f[2,3,6];l{6,3,3}", "", NULL },
  { OWN, "ConvGradWeight", "f[2,6,4];f[2,6,6];l{6,3,3}", "group=2", NULL },
  { OWN, "ConvGradWeight", "f[3,6,4];f[2,3,6];l{6,3,3}", "", "input 0 'x0' has the shape [3, 6, 4]" },
  { OWN, "ConvGradWeight", "f[2,6,4];f[2,3,6];l{6,4,3}", "", "these do not match" },
  { OWN, "ConvGradWeight", "f[2,6,4];f[2,3,6];l{6,3}", "", "the weights have rank 2, but the input has rank 3" },
  { OWN, "NegativeLogLikelihoodLossGrad", "f[];l[2,7];l{2,5,7}", "", NULL },
  { OWN, "NegativeLogLikelihoodLossGrad", "f[];l[2,6];l{2,5,7}", "", "input 1 'x1' has the shape [2, 6], [2, 7]" },
  { OWN, "NegativeLogLikelihoodLossGrad", "f[2];l[2,7];l{2,5,7}", "", "1 element is needed" },
  { OWN, "NegativeLogLikelihoodLossGrad", "f[];l[2,7];l{2,5,7};f[6]", "", "input 3 'x3' has the shape [6], [5]" },
  { OWN, "NegativeLogLikelihoodLossGrad", "f[];l[];l{5}", "", "the scores have rank 1, 2 is needed" },
  { OWN, "Im2Col", "f[1,3,4,4];l{2,2};l{1,12,4}", "strides=[2,2]", NULL },
  { OWN, "Im2Col", "f[1,2,4,4];l{2,2};l{1,12,4}", "strides=[2,2]", "input 0 'x0' has the shape [1, 2, 4, 4]" },
  { OWN, "Im2Col", "f[1,3,4,4];l{2};l{1,12,4}", "", "input 0 'x0'" },
  { OWN, "MaxUnpoolGrad", "f[2,3,8];l[2,3,4]", "kernel_shape=[2]", NULL },
  { OWN, "MaxUnpoolGrad", "f[2,4,8];l[2,3,4]", "kernel_shape=[2]", "input 0 'x0' has the shape [2, 4, 8]" },
  { OWN, "CrossEntropyGrad", "f[];f[2,5];l[2];f[2];f[]", "", NULL },
  { OWN, "CrossEntropyGrad", "f[3];f[2,5];l[2];f[2];f[]", "", "input 0 'x0' has the shape [3], 1 element" },
  { OWN, "CrossEntropyGrad", "f[3];f[2,5];l[2];f[2];f[]", "reduction=none", "[2] is needed" },
  { OWN, "CrossEntropyGrad", "f[];f[2,5];l[3];f[2];f[]", "", "of the targets is 3" },
  { OWN, "CrossEntropyGrad", "f[];f[2,5];l[2];f[3];f[]", "", "input 3 'x3' has the shape [3], [2] is needed" },
  { OWN, "CrossEntropyGrad", "f[];f[2,5];l[2];f[2];f[];f[4]", "", "input 5 'x5' has the shape [4], [5] is needed" },
  { OWN, "GridSampleGrad", "f[1,2,3,3];f[1,2,5,5];f[1,3,3,2]", "", NULL },
  { OWN, "GridSampleGrad", "f[1,2,3,4];f[1,2,5,5];f[1,3,3,2]", "", "[1, 2, 3, 3] is needed" },
  { OWN, "GridSampleGrad", "f[1,2,3,3];f[1,2,5,5];f[1,3,3,3]", "", "3 coordinates" },
  { OWN, "RecurrentGrad", "f[7,2,3];f[1,16,3];f[1,16,4];f[7,1,2,4];;;;;;;f[7,1,2,4];f[7,1,2,20]", "cell=LSTM", NULL },
  { OWN, "RecurrentGrad", "f[7,2,3];f[1,15,3];f[1,16,4];f[7,1,2,4];;;;;;;f[7,1,2,4];f[7,1,2,20]", "cell=LSTM",
    "input 1 'x1' has the shape [1, 15, 3], [1, 16, 3] is needed" },
  { OWN, "RecurrentGrad", "f[7,2,3];f[1,16,3];f[1,16,4];f[6,1,2,4];;;;;;;f[7,1,2,4];f[7,1,2,20]", "cell=LSTM",
    "input 3 'x3'" },
  { OWN, "RecurrentGrad", "f[7,2,3];f[1,16,3];f[1,16,4];;f[1,3,4];;;;;;f[7,1,2,4];f[7,1,2,20]", "cell=LSTM",
    "input 4 'x4'" },
  { OWN, "RecurrentGrad", "f[7,2,3];f[1,16,3];f[1,16,4];;;;i[3];;;;f[7,1,2,4];f[7,1,2,20]", "cell=LSTM",
    "input 6 'x6'" },
  { OWN, "RecurrentGrad", "f[7,2,3];f[1,16,3];f[1,16,4];;;;;;;f[1,8];f[7,1,2,4];f[7,1,2,20]", "cell=LSTM",
    "input 9 'x9'" },
  { OWN, "RecurrentGrad", "f[7,2,3];f[1,16,3];f[1,16,4];;;;;;;;f[7,1,2,5];f[7,1,2,20]", "cell=LSTM", "input 10 'x10'" },
  { OWN, "RecurrentGrad", "f[7,2,3];f[1,16,3];f[1,16,4];;;;;;;;f[7,1,2,4];f[7,1,2,16]", "cell=LSTM", "input 11 'x11'" },
  { OWN, "LogSoftmaxGrad", "f[4,4096];f[1,1]", "", "input 0 is [4, 4096]" },
  { OWN, "SumTo", "f[4];l[40]", "", "at most 16" },
  { OWN, "SumTo", "f[4];f[1]", "", "int64 is needed" },
  { OWN, "ReduceProdGrad", "f[1,1,3,6];f[1,1,2,2];f[1]", "", "int64 is needed" },
  { OWN, "ReduceProdGrad", "f[3,3,2];f[3,2,2]", "", "the reduction of input 1" },
  { OWN, "EinsumGrad", "f[2,4];l[2];f[3,4]", "equation=ij,jk->ik index=0", NULL },
  { OWN, "EinsumGrad", "f[2,5];l[2];f[3,4]", "equation=ij,jk->ik index=0", "axis 1 of the gradient" },
  { OWN, "EinsumGrad", "f[2,4];l[2];f[3,4]", "equation=ij,jk->ik index=2", "the gradient of operand 2" },
  { OWN, "AttentionGrad", "f[1,2,3,4];f[1,2,3,4];f[1,2,5,4];f[1,2,5,4];f[1,2,3]", "", NULL },
  { OWN, "AttentionGrad", "f[1,2,3,4];f[1,2,3,4];f[1,2,5,4];f[1,2,5,4];f[1,2,1]", "", "input 4 does not match" },
  { OWN, "AttentionGrad", "f[1,2,3,4];f[1,2,3,4];f[1,2,5,4];f[1,2,5,4];f[1,2,3];;;;;f[1,2,3,4]", "", NULL },
  { OWN, "AttentionGrad", "f[1,2,3,4];f[1,2,3,4];f[1,2,5,4];f[1,2,5,4];f[1,2,3];;;;;f[1,2,3,5]", "",
    "input 9 does not match" },
  { OWN, "CumProdGrad", "f[4];l[];f[5]", "", "input 0 is [4]" },
  { OWN, "GatherGrad", "f[4];l[4];f[1]", "", "int64 is needed" },
  { OWN, "ConcatGrad", "f[4];f[1]", "axis=0", "int64 is needed" },
  { OWN, "GatherGrad", "f[4];;l[1]", "", "input 1 is missing" },
  { OWN, "GatherGrad", "f[4];l[4]", "", "it must have 3" },
};

static void
test_row (gconstpointer data)
{
  const Row *row = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  OrtrainNode *node = add_node (graph, row->domain, row->op_type, row->operands, row->attributes);
  const gboolean ok = ortrain_ops_infer_node (node, &error);
  if (row->error == NULL)
    {
      g_assert_no_error (error);
      g_assert_true (ok);
      return;
    }
  g_assert_false (ok);
  g_assert_nonnull (strstr (error->message, "'node'"));
  if (strstr (error->message, row->error) == NULL)
    g_error ("%s (%s) {%s}: %s", row->op_type, row->operands, row->attributes, error->message);
}

static gboolean
write_impossible (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0), *axes = ortrain_grad_const (ctx, x, 1);
  OrtrainValue *sum = ortrain_grad_op2 (ctx, "ReduceSum", ortrain_grad_of_output (ctx, 0), axes);
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", sum, x)); /* continues with a missing value */
  return TRUE;
}

static gboolean
write_wrong_shape (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)));
  return TRUE;
}

/* A rule that writes an impossible node is an error that names the forward node; the graph's own nodes are as they
 * were. */
static void
test_gradient (OrtrainGradientFunc rule, const char *message)
{
  const OrtrainOpDef *relu = ortrain_ops_lookup ("", "Relu");
  OrtrainOpDef row = *relu;
  row.gradient = rule;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  OrtrainNode *node = add_node (graph, "", "Relu", "f[]", "");
  g_assert_true (ortrain_ops_infer_node (node, &error));
  node->op = &row;
  OrtrainValue *wanted = ortrain_node_input (node, 0), *gradient = NULL;
  g_assert_false (ortrain_gradient_build (graph, ortrain_node_output (node, 0), &wanted, 1, &gradient, &error));
  g_assert_true (g_str_has_prefix (error->message, "Relu 'node': "));
  g_assert_nonnull (strstr (error->message, message));
}

static void
test_gradient_impossible (void)
{
  test_gradient (write_impossible, "cannot compute its gradient: ReduceSum 'node.grad/ReduceSum': input 1 ");
}

static void
test_gradient_shape (void)
{
  test_gradient (write_wrong_shape, "the gradient of input 0 (x0: float32 []) is");
}

/* The library's own operators are refused in graphs from outside: in the graph itself and in the bodies of its
 * nodes. */
static void
test_own_domain (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  OrtrainNode *node = add_node (graph, OWN, "SoftmaxGrad", "f[2];f[2]", "");
  ortrain_graph_mark_output (graph, ortrain_node_output (node, 0), TRUE);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error); /* to be saved and looked at */
  g_assert_null (ortrain_model_get_graph (model, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR);
  g_assert_nonnull (strstr (error->message, "org.ortrain::SoftmaxGrad 'node'"));
  g_clear_error (&error);

  g_autoptr (OrtrainGraph) outer = ortrain_graph_new ("outer");
  OrtrainNode *branch = add_node (outer, "", "If", "b[]", "");
  ortrain_attributes_set_graph (branch->attributes, "then_branch", G_OBJECT (graph));
  ortrain_attributes_set_graph (branch->attributes, "else_branch", G_OBJECT (graph));
  g_assert_false (ortrain_ops_check_foreign (outer, &error));
  g_assert_nonnull (strstr (error->message, "org.ortrain::SoftmaxGrad 'node'"));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    {
      g_autofree char *path = g_strdup_printf ("/op-checks/%s/%u", table[i].op_type, i);
      g_test_add_data_func (path, &table[i], test_row);
    }
  g_test_add_func ("/op-checks/gradient/impossible", test_gradient_impossible);
  g_test_add_func ("/op-checks/gradient/shape", test_gradient_shape);
  g_test_add_func ("/op-checks/own-domain", test_own_domain);
  return g_test_run ();
}
