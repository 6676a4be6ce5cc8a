/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/ortrain-gradient-check.h"

#include "ops/ortrain-op-private.h"

#include <string.h>

/* Every differentiable operator of the table against central differences in float64: at most 1e-7. An operator with a
 * gradient and without a case here fails the last test. */

#define LIMIT 1e-7

static const OrtrainGradientCase cases[] = {
  /* element-wise, with every kind of broadcasting */
  { "Add", "f[2,3];f[2,3]" },
  { "Add", "f[2,3];f[3]" },
  { "Add", "f[3];f[2,3]" },
  { "Add", "f[2,1,3];f[4,1]" },
  { "Add", "f;f[2,2]" },
  { "Sub", "f[2,3];f[2,3]" },
  { "Sub", "f[1,3];f[2,1]" },
  { "Mul", "f[2,3];f[2,3]" },
  { "Mul", "f[4,2,3];f[2,1]" },
  { "Mul", "f[3];f" },
  { "Div", "f[2,3];p[2,3]" },
  { "Div", "f[2,3];p[3]" },
  { "Div", "f[1];p[2,2]" },
  { "Pow", "p[2,3];f[2,3]" },
  { "Pow", "p[2,3];d{2}" },
  { "Pow", "f[2,3];d{3}" },
  { "Pow", "p[2,1];f[3]" },
  { "Mod", "p[2,3];d{0.77}", "fmod=1" },
  { "Mod", "f[2,3];d[3]{0.77,-0.9,1.1}" },
  { "Mod", "f[2,3];p[3]" },
  { "Max", "f[2,3];f[2,3]" },
  { "Max", "f[2,3];f[3];f[2,1]" },
  { "Max", "f[5]" },
  { "Min", "f[2,3];f[2,3]" },
  { "Min", "f[2,3];f[3];f[2,1]" },
  { "Mean", "f[2,3];f[3];f[2,1]" },
  { "Mean", "f[2,3]" },
  { "Sum", "f[2,3];f[3];f[2,1]" },
  { "Sum", "f[2,3]" },
  { "Neg", "f[2,3]" },
  { "Abs", "f[2,3]" },
  { "Sqrt", "p[2,3]" },
  { "Exp", "f[2,3]" },
  { "Log", "p[2,3]" },
  { "Sin", "f[2,3]" },
  { "Cos", "f[2,3]" },
  { "Tan", "u[2,3]" },
  { "Asin", "u[2,3]" },
  { "Acos", "u[2,3]" },
  { "Atan", "f[2,3]" },
  { "Sinh", "f[2,3]" },
  { "Cosh", "f[2,3]" },
  { "Tanh", "f[2,3]" },
  { "Asinh", "f[2,3]" },
  { "Acosh", "g[2,3]" },
  { "Atanh", "u[2,3]" },
  { "Erf", "f[2,3]" },
  { "Reciprocal", "p[2,3]" },
  { "Clip", "f[3,4];d{-0.5};d{0.5}" },
  { "Clip", "f[3,4];_;d{0.5}" },
  { "Clip", "f[3,4];d{-0.5}" },
  { "Clip", "f[3,4]" },
  /* activations */
  { "Relu", "f[3,4]" },
  { "LeakyRelu", "f[3,4]" },
  { "LeakyRelu", "f[3,4]", "alpha=-0.3f" },
  { "PRelu", "f[3,4];f[3,4]" },
  { "PRelu", "f[2,3,4];f[3,1]" },
  { "PRelu", "f[3,4];f" },
  { "ThresholdedRelu", "f[3,4]", "alpha=0.4f" },
  { "Elu", "f[3,4]" },
  { "Elu", "f[3,4]", "alpha=0.6f" },
  { "Selu", "f[3,4]" },
  { "Celu", "f[3,4]", "alpha=0.7f" },
  { "Sigmoid", "f[3,4]" },
  { "HardSigmoid", "f[3,4]", "alpha=0.5f beta=0.6f" },
  { "HardSwish", "f[3,4]" },
  { "Softplus", "f[3,4]" },
  { "Softsign", "f[3,4]" },
  { "Gelu", "f[3,4]" },
  { "Gelu", "f[3,4]", "approximate='tanh'" },
  { "Mish", "f[3,4]" },
  { "Swish", "f[3,4]" },
  { "Swish", "f[3,4]", "alpha=1.7f" },
  { "Shrink", "f[3,4]", "bias=0.2f lambd=0.3f" },
  { "Where", "b[2,3]{1,0,1,0,0,1};f[2,3];f[2,3]" },
  { "Where", "b[3]{1,0,1};f[2,3];f" },
  { "Where", "b[2,1]{1,0};f[3];f[2,3]" },
  { "Cast", "f[2,3]", "to=11" },
  { "CastLike", "f[2,3];d{1}" },
  /* reductions */
  { "ReduceSum", "f[2,3,4];i[1]{1}" },
  { "ReduceSum", "f[2,3,4];i[2]{0,-1}", "keepdims=0" },
  { "ReduceSum", "f[2,3]" },
  { "ReduceSum", "f[2,3];i[0]", "noop_with_empty_axes=1" },
  { "ReduceMean", "f[2,3,4];i[2]{0,2}", "keepdims=0" },
  { "ReduceMean", "f[2,3]" },
  { "ReduceMax", "f[2,3,4];i[1]{1}" },
  { "ReduceMax", "f[2,3]", "keepdims=0" },
  { "ReduceMin", "f[2,3,4];i[1]{-1}", "keepdims=0" },
  { "ReduceProd", "f[2,3,4];i[1]{1}" },
  { "ReduceProd", "f[2,3]", "keepdims=0" },
  { "ReduceL1", "f[2,3,4];i[1]{1}" },
  { "ReduceL2", "f[2,3,4];i[1]{1}", "keepdims=0" },
  { "ReduceLogSum", "p[2,3,4];i[1]{1}" },
  { "ReduceLogSumExp", "f[2,3,4];i[1]{2}", "keepdims=0" },
  { "ReduceSumSquare", "f[2,3,4];i[2]{0,1}" },
  { "CumSum", "f[2,4];i{1}" },
  { "CumSum", "f[4,2];i{0}", "exclusive=1 reverse=1" },
  { "CumSum", "f[4];i{0}", "reverse=1" },
  { "CumProd", "f[2,4];i{1}" },
  { "CumProd", "f[4,2];i{0}", "exclusive=1 reverse=1" },
  { "CumProd", "f[4];i{-1}", "reverse=1" },
  { "Softmax", "f[2,3,4]" },
  { "Softmax", "f[2,3,4]", "axis=1" },
  { "LogSoftmax", "f[2,3,4]" },
  { "LogSoftmax", "f[2,3,4]", "axis=0" },
  /* losses */
  { "SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,3,1}" },
  { "SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,3,1};d[4]{0.5,1,2,0.7}", "reduction='sum'" },
  { "SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,2,1};d[4]{0.5,1,2,0.7}", "ignore_index=2" },
  { "SoftmaxCrossEntropyLoss", "f[2,3,2];i[2,2]{0,2,1,1}", "reduction='none'" },
  { "SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,3,1}", NULL, 2 },
  { "NegativeLogLikelihoodLoss", "f[3,4];i[3]{0,3,1}" },
  { "NegativeLogLikelihoodLoss", "f[2,3,2];i[2,2]{0,2,1,1};d[3]{0.5,1,2}", "reduction='sum'" },
  { "NegativeLogLikelihoodLoss", "f[3,4];i[3]{0,2,1}", "ignore_index=2" },
  { "CrossEntropy", "f[3,4];i[3]{0,3,1}", "axis=-1", 3, "org.ortrain" },
  { "CrossEntropy", "f[3,4];i[3]{0,3,1}", "axis=-1 label_smoothing=0.1f", 3, "org.ortrain" },
  { "CrossEntropy", "f[2,3,4];i[2,4]{0,2,1,1,2,0,-100,1}", "axis=1 ignore_index=-100", 3, "org.ortrain" },
  { "CrossEntropy", "f[3,4];i[3]{0,3,1};d[4]{0.5,1,2,0.7}", "axis=-1 label_smoothing=0.2f", 3, "org.ortrain" },
  { "CrossEntropy", "f[3,4];i[3]{0,3,1};d[4]{0.5,1,2,0.7}", "axis=-1 reduction='sum'", 3, "org.ortrain" },
  { "Attention", "f[2,3,8];f[2,5,8];f[2,5,4]", "q_num_heads=2 kv_num_heads=2" },
  { "Attention", "f[1,3,8];f[1,3,4];f[1,3,4]", "q_num_heads=2 kv_num_heads=1 is_causal=1 scale=0.3f" },
  { "Attention", "f[1,2,3,4];f[1,2,3,4];f[1,2,3,4];b[3,3]{1,0,1,1,1,1,1,1,1}", "is_causal=1" },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3]", "scale=0.5f", 1, "org.ortrain" },
  { "Attention", "f[2,3,2,4];f[2,5,2,4];f[2,5,2,3]", "packed=15", 1, "org.ortrain" },
  { "Attention", "f[1,2,3,4];f[1,3,2,4];f[1,2,3,4];b[3,3]{1,0,0,1,1,0,1,1,1}", "packed=10 masked_value=-3.4e38f", 1,
    "org.ortrain" },
  { "Attention", "f[2,1,2,4];f[2,1,3,4];f[2,1,3,4];d[2,1,1,3]{0,0.5,-1,0,0,-1e38}", "scale=0.7f", 1, "org.ortrain" },
  { "Attention", "f[2,1,2,4];f[2,1,3,4];f[2,1,3,4];b[2,1,1,3]{0,1,1,0,0,0}", "guard=1", 1, "org.ortrain" },
  /* normalisation */
  { "BatchNormalization", "f[2,3,2];f[3];f[3];c[3];q[3]" },
  { "BatchNormTrain", "f[3,2,2];f[2];f[2];d[2]{0.1,0.2};d[2]{1,1.5}", "momentum=0.9f", 5, "org.ortrain" },
  { "BatchNormTrain", "f[4,3];f[3];f[3];d[3]{0,0,0};d[3]{1,1,1}", "epsilon=0.01f", 5, "org.ortrain" },
  { "LayerNormalization", "f[2,3,4];f[4];f[4]" },
  { "LayerNormalization", "f[2,3,4];f[4]" },
  { "LayerNormalization", "f[2,3,4];f[3,4];f[3,4]", "axis=1" },
  { "InstanceNormalization", "f[2,3,4];f[3];f[3]" },
  { "InstanceNormalization", "f[2,2,3,2];f[2];f[2]", "epsilon=0.01f" },
  { "GroupNormalization", "f[2,4,3];f[4];f[4]", "num_groups=2" },
  { "RMSNormalization", "f[2,3,4];f[4]" },
  { "LpNormalization", "f[2,3]", "axis=1 p=2" },
  { "LpNormalization", "f[2,3]", "axis=0 p=1" },
  { "MeanVarianceNormalization", "f[2,3,2,2]" },
  { "LRN", "f[2,5,2,2]", "size=3 alpha=0.1f" },
  { "Dropout", "f[4,5];d{0.3};b{1}" },
  { "Dropout", "f[4,5]" },
  /* products */
  { "MatMul", "f[2,3];f[3,4]" },
  { "MatMul", "f[2,5,3];f[3,4]" },
  { "MatMul", "f[2,5,3];f[2,3,4]" },
  { "MatMul", "f[2,1,2,3];f[3,3,2]" },
  { "MatMul", "f[3];f[3,2]" },
  { "MatMul", "f[2,3];f[3]" },
  { "MatMul", "f[3];f[3]" },
  { "MatMul", "f[2,4,3];f[3]" },
  { "MatMul", "f[3];f[2,3,4]" },
  { "Gemm", "f[2,3];f[3,4];f[4]" },
  { "Gemm", "f[2,3];f[3,4]" },
  { "Gemm", "f[3,2];f[3,4];f[2,1]", "transA=1" },
  { "Gemm", "f[2,3];f[4,3];f[2,4]", "transB=1 alpha=0.5f beta=2f" },
  { "Gemm", "f[3,2];f[4,3];f", "transA=1 transB=1 alpha=1.5f" },
  { "FusedMatMul", "f[2,3,2];f[2,3,4]", "transA=1 alpha=0.5f", 1, "org.ortrain" },
  { "FusedMatMul", "f[2,3];f[4,3]", "transB=1", 1, "org.ortrain" },
  { "FusedMatMul", "f[3,2];f[4,3]", "transA=1 transB=1", 1, "org.ortrain" },
  { "Einsum", "f[2,3];f[3,4]", "equation='ij,jk->ik'" },
  { "Einsum", "f[2,3,4]", "equation='ijk->ki'" },
  { "Einsum", "f[2,3];f[2,4]", "equation='bi,bj->bij'" },
  { "Einsum", "f[2,2,3];f[3,4]", "equation='...j,jk->...k'" },
  /* convolution and pooling */
  { "Conv", "f[2,2,5];f[3,2,3];f[3]" },
  { "Conv", "f[1,2,5,4];f[3,2,3,2];f[3]", "pads=[1,0,1,1] strides=[2,1]" },
  { "Conv", "f[1,4,4,4];f[4,2,3,3]", "group=2 pads=[1,1,1,1]" },
  { "Conv", "f[1,3,4,4];f[3,1,3,3];f[3]", "group=3 pads=[1,1,1,1]" },
  { "Conv", "f[1,2,6,6];f[2,2,2,2]", "dilations=[2,3]" },
  { "Conv", "f[1,1,3,4,3];f[2,1,2,2,2];f[2]", "pads=[0,1,0,1,0,1]" },
  { "Conv", "f[1,2,5,5];f[2,2,3,3]", "auto_pad='SAME_UPPER' strides=[2,2]" },
  { "Conv", "f[2,2,3,3];f[3,2,1,1]" },
  { "ConvTranspose", "f[1,2,3,3];f[2,3,2,2];f[3]", "strides=[2,2]" },
  { "ConvTranspose", "f[1,2,3];f[2,2,3]", "pads=[1,1] output_padding=[1] strides=[2]" },
  { "ConvTranspose", "f[1,4,3,3];f[4,1,2,2]", "group=2" },
  { "MaxPool", "f[1,2,4,4]", "kernel_shape=[2,2] strides=[2,2]" },
  { "MaxPool", "f[1,1,5,5]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" },
  { "MaxPool", "f[1,1,6]", "kernel_shape=[3] dilations=[2]" },
  { "MaxPool", "f[1,2,5,4]", "kernel_shape=[2,2] strides=[2,2] ceil_mode=1" },
  { "AveragePool", "f[1,2,4,4]", "kernel_shape=[2,2] strides=[2,2]" },
  { "AveragePool", "f[1,1,5,5]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" },
  { "AveragePool", "f[1,1,5,5]", "kernel_shape=[3,3] pads=[1,1,1,1] count_include_pad=1" },
  { "GlobalAveragePool", "f[2,3,4,2]" },
  { "GlobalAveragePool", "f[2,3,4]" },
  { "GlobalMaxPool", "f[2,3,4,2]" },
  { "LpPool", "p[1,2,4,4]", "kernel_shape=[2,2] strides=[2,2]" },
  { "GlobalLpPool", "p[2,3,4]", "p=2" },
  { "GlobalLpPool", "p[2,3,4]", "p=3" },
  { "MaxUnpool", "f[1,1,2,2];i[1,1,2,2]{0,6,9,15}", "kernel_shape=[2,2] strides=[2,2]" },
  /* shapes and data movement */
  { "Identity", "f[2,3]" },
  { "Reshape", "f[2,3];i[2]{3,2}" },
  { "Reshape", "f[2,3,4];i[2]{0,-1}" },
  { "Flatten", "f[2,3,4]", "axis=2" },
  { "Squeeze", "f[2,1,3];i[1]{1}" },
  { "Squeeze", "f[1,2,1,3]" },
  { "Unsqueeze", "f[2,3];i[2]{0,3}" },
  { "Transpose", "f[2,3,4]" },
  { "Transpose", "f[2,3,4]", "perm=[1,2,0]" },
  { "Concat", "f[2,3];f[2,1];f[2,2]", "axis=1" },
  { "Concat", "f[1,3];f[2,3]", "axis=-2" },
  { "Split", "f[2,6]", "axis=1 num_outputs=3", 3 },
  { "Split", "f[6,2];i[2]{2,4}", "axis=0", 2 },
  { "Split", "f[7]", "num_outputs=2", 2 },
  { "Slice", "f[4,5];i[2]{1,0};i[2]{3,5};i[2]{0,1};i[2]{1,2}" },
  { "Slice", "f[6];i[1]{-1};i[1]{-7};i[1]{0};i[1]{-2}" },
  { "Slice", "f[4,5];i[1]{1};i[1]{100}" },
  { "Pad", "f[2,3];i[4]{1,0,0,2}" },
  { "Pad", "f[3,4];i[4]{1,2,1,1}", "mode='reflect'" },
  { "Pad", "f[3,4];i[4]{1,2,1,1}", "mode='edge'" },
  { "Pad", "f[3,4];i[4]{1,2,1,1}", "mode='wrap'" },
  { "Pad", "f[3,4];i[4]{-1,0,1,-1}" },
  { "Pad", "f[3,4];i[2]{1,2};d{0.5};i[1]{1}" },
  { "Expand", "f[3,1];i[3]{2,1,4}" },
  { "Expand", "f;i[2]{2,3}" },
  { "Tile", "f[2,3];i[2]{2,3}" },
  { "Gather", "f[4,3];i[2]{3,1}" },
  { "Gather", "f[4,3];i[2,2]{0,2,2,-1}", "axis=1" },
  { "Gather", "f[4,3];i{2}" },
  { "Gather", "f[4,3];I[3]{3,1,3}" },
  { "GatherElements", "f[3,3];i[2,3]{1,2,0,2,0,0}" },
  { "GatherElements", "f[3,3];i[3,2]{1,-2,0,2,0,0}", "axis=1" },
  { "GatherND", "f[3,4,2];i[2,2]{0,1,2,3}" },
  { "GatherND", "f[2,3,2];i[2,1]{1,0}", "batch_dims=1" },
  { "ScatterElements", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]" },
  { "ScatterElements", "f[3,3];i[1,2]{1,0};f[1,2]", "axis=1 reduction='add'" },
  { "ScatterND", "f[4,3];i[2,1]{3,1};f[2,3]" },
  { "ScatterND", "f[4,3];i[2,1]{3,3};f[2,3]", "reduction='add'" },
  { "ScatterElements", "p[3,3];i[2,3]{1,0,2,0,2,1};p[2,3]", "reduction='mul'" },
  { "ScatterElements", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]", "reduction='max'" },
  { "ScatterND", "f[4,3];i[2,1]{3,1};f[2,3]", "reduction='min'" },
  { "CenterCropPad", "f[4,3];i[2]{3,6}" },
  { "CenterCropPad", "f[2,5,3];i[1]{2}", "axes=[1]" },
  { "Trilu", "f[3,4]" },
  { "Trilu", "f[2,3,3];i{1}", "upper=0" },
  { "TopK", "f[3,5];i[1]{2}", "axis=1", 2 },
  { "TopK", "f[5,2];i[1]{3}", "axis=0 largest=0", 2 },
  { "DepthToSpace", "f[1,8,2,2]", "blocksize=2" },
  { "DepthToSpace", "f[1,8,2,2]", "blocksize=2 mode='CRD'" },
  { "SpaceToDepth", "f[1,2,4,4]", "blocksize=2" },
  { "ReverseSequence", "f[4,3];i[3]{2,4,1}" },
  { "Compress", "f[3,2];b[3]{1,0,1}", "axis=0" },
  { "Resize", "f[1,1,3,3];_;d[4]{1,1,2,2}", "mode='nearest'" },
  { "Resize", "f[1,1,3,4];_;d[4]{1,1,2,2}", "mode='linear'" },
  { "Resize", "f[1,1,3,4];_;_;i[4]{1,1,5,6}", "mode='linear' coordinate_transformation_mode='align_corners'" },
  { "GridSample", "f[1,2,3,4];u[1,2,2,2]", "align_corners=1" },
  { "GridSample", "f[2,1,3,4];u[2,2,2,2]", "mode='cubic' padding_mode='border'" },
  { "GridSample", "f[1,2,3,4];f[1,2,2,2]", "padding_mode='reflection'" },
  { "GridSample", "f[1,1,3,2,3];u[1,2,1,2,3]" },
  { "GridSample", "f[1,2,3,4];c[1,2,2,2]", "mode='nearest'" },
  /* attention as ONNX has it, and what else is written out in single operators */
  { "Attention", "f[1,2,2,3];f[1,2,3,3];f[1,2,3,2]" },
  { "Attention", "f[1,4,2,3];f[1,2,4,3];f[1,2,4,2];c[2,4]", "softcap=0.7f scale=0.6f" },
  { "Attention", "f[2,3,4];f[2,3,2];f[2,3,2];b[3,3]{1,1,1,0,0,0,1,0,1}", "q_num_heads=2 kv_num_heads=1 is_causal=1" },
  { "Attention", "f[1,1,2,3];f[1,1,2,3];f[1,1,2,2];b[2,4]{0,0,0,0,1,0,1,1};f[1,1,2,3];f[1,1,2,2]",
    "qk_matmul_output_mode=3", 4 },
  { "Attention", "f[2,2,2,3];f[2,2,4,3];f[2,2,4,2];c[3];_;_;i[2]{3,1}", "is_causal=1 left_window_size=1" },
  { "RotaryEmbedding", "f[1,2,3,4];f[5,2];f[5,2];i[1,3]{4,0,2}" },
  { "RotaryEmbedding", "f[1,3,12];f[1,3,2];f[1,3,2]", "num_heads=2 interleaved=1 rotary_embedding_dim=4" },
  { "TensorScatter", "f[2,4,3];f[2,2,3];i[2]{3,1}", "mode='circular'" },
  { "AffineGrid", "f[2,2,3];i[4]{2,1,3,4}" },
  { "AffineGrid", "f[1,3,4];i[5]{1,1,2,3,2}", "align_corners=1" },
  { "Col2Im", "f[2,8,6];i[2]{3,4};i[2]{2,2}" },
  { "Col2Im", "f[1,12,4];i[2]{4,6};i[2]{2,3}", "strides=[2,2] pads=[0,1,1,0] dilations=[1,2]" },
  { "Col2Im", "f[1,2,4];i[1]{6};i[1]{2}", "dilations=[2]" },
  { "SwiGLU", "f[2,3];f[2,3]", "alpha=1.3f" },
  { "CausalConvWithState", "f[2,3,4];c[3,1,3];f[3];f[2,3,2]", "activation='silu'", 2 },
  /* recurrent: [length, batch, width], three gates or four, hidden 2 */
  { "RNN", "f[3,2,3];f[1,2,3];f[1,2,2]", NULL, 2 },
  { "RNN", "f[3,2,3];f[1,2,3];f[1,2,2];f[1,4];j[2]{3,2};f[1,2,2]", "direction='reverse' hidden_size=2", 2 },
  { "RNN", "f[3,2,3];f[2,2,3];f[2,2,2];f[2,4];j[2]{1,3};f[2,2,2]",
    "direction='bidirectional' activations=['Relu','Softsign']", 2 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "clip=0.9f activations=['Affine'] activation_alpha=[0.5f]", 2 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]",
    "activations=['ScaledTanh'] activation_alpha=[1.5f] "
    "activation_beta=[0.7f]",
    1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['Elu'] activation_alpha=[0.7f]", 1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['Softplus']", 1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['LeakyRelu']", 1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['HardSigmoid']", 1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['ThresholdedRelu'] activation_alpha=[0.3f]", 1 },
  { "RNN", "f[2,3,3];f[1,2,3];f[1,2,2];f[1,4];_;f[2,1,2]", "layout=1", 2 },
  { "GRU", "f[3,2,3];f[1,6,3];f[1,6,2]", NULL, 2 },
  { "GRU", "f[3,2,3];f[1,6,3];f[1,6,2];f[1,12];j[2]{2,3};f[1,2,2]", "direction='reverse'", 2 },
  { "GRU", "f[3,2,3];f[2,6,3];f[2,6,2];f[2,12];j[2]{3,1};f[2,2,2]", "direction='bidirectional'", 2 },
  { "GRU", "f[3,2,3];f[1,6,3];f[1,6,2];_;j[2]{0,3};f[1,2,2]", "linear_before_reset=1", 2 },
  { "GRU", "f[3,2,3];f[2,6,3];f[2,6,2];f[2,12];_;f[2,2,2]", "direction='bidirectional' linear_before_reset=1", 2 },
  { "GRU", "f[2,3,3];f[1,6,3];f[1,6,2];f[1,12];_;f[2,1,2]", "layout=1 clip=1.1f", 2 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2]", NULL, 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];j[2]{2,3};f[1,2,2];f[1,2,2];f[1,6]", "direction='reverse'", 3 },
  { "LSTM", "f[3,2,3];f[2,8,3];f[2,8,2];f[2,16];j[2]{3,1};f[2,2,2];f[2,2,2];f[2,6]", "direction='bidirectional'", 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];_;f[1,2,2];f[1,2,2];f[1,6]", "input_forget=1", 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];_;f[1,2,2];f[1,2,2]", "clip=0.7f", 3 },
  { "LSTM", "f[2,3,3];f[1,8,3];f[1,8,2];f[1,16];_;f[2,1,2];f[2,1,2]", "layout=1", 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];c[1,8,2];_;_;c[1,2,2]",
    "activations=['HardSigmoid','Tanh','Softsign'] "
    "activation_alpha=[0.3f]",
    1 },
  { "SliceGrad", "f[2,2];i[2]{4,5};i[2]{1,0};i[2]{3,4};i[2]{0,1};i[2]{1,2}", NULL, 1, "org.ortrain" },
  { "GatherGrad", "f[3,2];i[3]{1,0,1};i[2]{4,2}", "axis=0", 1, "org.ortrain" },
  { "GatherElementsGrad", "f[2,3];i[2,3]{1,2,0,2,0,0};i[2]{3,3}", "axis=0", 1, "org.ortrain" },
  { "GatherNDGrad", "f[2,2];i[2,2]{0,1,2,3};i[3]{3,4,2}", NULL, 1, "org.ortrain" },
  { "SumTo", "f[2,3,4];i[2]{3,1}", NULL, 1, "org.ortrain" },
};

static void
test_case (gconstpointer data)
{
  const OrtrainGradientCase *test = data;
  g_autofree char *message = NULL;
  double worst = ortrain_gradient_check (test, &message);
  if (worst < 0.0)
    g_test_message ("%s (%s) {%s}: %s", test->op_type, test->inputs, test->attributes, message);
  else if (worst > LIMIT)
    g_test_message ("%s (%s) {%s}: off by %.2e", test->op_type, test->inputs, test->attributes, worst);
  if (worst < 0.0 || worst > LIMIT)
    g_test_fail ();
}

/* ---- Operands without elements ---- */

/* What has no gradient, or no gradient yet. */
static const OrtrainGradientCase forward_cases[] = {
  { "Sign", "f[2,3]" },
  { "Floor", "f[2,3]" },
  { "Ceil", "f[2,3]" },
  { "Round", "f[2,3]" },
  { "BitShift", "o[2,3];o[3]", "direction='RIGHT'" },
  { "BitwiseAnd", "i[2,3];i[3]" },
  { "BitwiseOr", "i[2,3];i[3]" },
  { "BitwiseXor", "i[2,3];i[3]" },
  { "BitwiseNot", "i[2,3]" },
  { "Equal", "f[2,3];f[3]" },
  { "Less", "f[2,3];f[3]" },
  { "Greater", "f[2,3];f[3]" },
  { "LessOrEqual", "f[2,3];f[3]" },
  { "GreaterOrEqual", "f[2,3];f[3]" },
  { "And", "b[2,3];b[3]" },
  { "Or", "b[2,3];b[3]" },
  { "Xor", "b[2,3];b[3]" },
  { "Not", "b[2,3]" },
  { "IsNaN", "f[2,3]" },
  { "IsInf", "f[2,3]" },
  { "ArgMax", "f[2,3]", "axis=1" },
  { "ArgMin", "f[2,3]", "axis=0 keepdims=0" },
  { "Hardmax", "f[2,3]" },
  { "OneHot", "i[2]{0,1};i{3};d[2]{0,1}" },
  { "NonZero", "f[2,3]" },
  { "Unique", "f[2,3]", NULL, 4 },
  { "Unique", "f[2,3]", "axis=1", 4 },
  { "Shape", "f[2,3]" },
  { "Size", "f[2,3]" },
  { "ConstantOfShape", "i[2]{2,3}" },
  { "EyeLike", "f[2,3]", "k=1" },
  { "Range", "d{0};d{3};d{1}" },
  { "BitCast", "i[2,3]", "to=11" },
  { "NonMaxSuppression", "s[1,3,4];s[1,2,3];i{2};s{0.5};s{-1}" },
  { "Det", "f[2,3,3]" },
  { "MatMulInteger", "o[2,3];a[3,4];o;a" },
  { "MatMulInteger", "o[2,3];a[3,4];o[2];a[4]" },
  { "QLinearMatMul", "o[2,3];s{0.5};o;a[3,4];s{0.5};a;s{2};o" },
  { "QLinearMatMul", "o[2,3];s[2]{0.5,1};o[2];a[3,4];s[4]{0.5,1,1,2};a[4];s{2};o" },
  { "QuantizeLinear", "s[2,3];s{0.5};o" },
  { "QuantizeLinear", "s[2,3];s[3]{1,2,3};o[3]", "axis=1" },
  { "QuantizeLinear", "s[2,4];s[2,2]{1,2,3,4};o[2,2]", "axis=1 block_size=2" },
  { "DequantizeLinear", "o[2,3];s{0.5};o" },
  { "DequantizeLinear", "o[2,3];s[2]{1,2};o[2]", "axis=0" },
  { "DynamicQuantizeLinear", "s[2,3]", NULL, 3 },
  { "RandomNormalLike", "f[2,3]" },
  { "RandomUniformLike", "f[2,3]" },
  { "Bernoulli", "p[2,3]" },
  { "Multinomial", "f[2,3]", "sample_size=4" },
  { "Scatter", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]" },
  { "Upsample", "f[1,1,2,3];d[4]{1,1,2,2}" },
};

/* The inputs with extent `extent` (0: that of the dimension number `dimension`) replaced by 0, in shapes and, for
 * `contents`, in the numbers of int64 constants too. NULL when there is none. */
static char *
make_empty (const char *inputs, gint64 extent, gint dimension, gboolean contents)
{
  g_autoptr (GString) text = g_string_new (NULL);
  gint n = 0;
  gboolean replaced = FALSE, numbers = FALSE;
  char bracket = 0, kind = inputs[0];
  for (const char *p = inputs; *p != '\0';)
    {
      if (g_ascii_isdigit (*p) && (bracket == '[' || numbers))
        {
          char *end;
          gint64 value = g_ascii_strtoll (p, &end, 10);
          gboolean here =
              bracket == '[' ? (dimension >= 0 ? n == dimension : value == extent) : dimension < 0 && value == extent;
          n += bracket == '[';
          replaced = replaced || (here && bracket == '[');
          g_string_append_printf (text, "%" G_GINT64_FORMAT, here ? 0 : value);
          p = end;
          continue;
        }
      if (*p == ';')
        kind = p[1];
      if (strchr ("[{;", *p) != NULL)
        bracket = *p;
      else if (strchr ("]}", *p) != NULL)
        bracket = 0;
      numbers = bracket == '{' && contents && strchr ("iI", kind) != NULL;
      g_string_append_c (text, *p++);
    }
  return replaced ? g_string_free (g_steal_pointer (&text), FALSE) : NULL;
}

typedef struct
{
  guint computed, refused;
} EmptyCounts;

/* Either an error that says why, or outputs and gradients that fit (no elements are right in any number). */
static void
check_empty (const OrtrainGradientCase *test, char *inputs, gboolean forward, EmptyCounts *counts)
{
  g_autofree char *message = NULL, *owned = inputs;
  /* operands of gradients are written by the rules of the others */
  if (inputs == NULL || g_str_has_suffix (test->op_type, "Grad"))
    return;
  OrtrainGradientCase empty = *test;
  empty.inputs = inputs;
  gboolean ok =
      forward ? ortrain_gradient_check_forward (&empty, &message) : ortrain_gradient_check (&empty, &message) >= 0;
  if (ok)
    counts->computed++;
  else
    {
      counts->refused++;
      g_assert_nonnull (message);
      /* a refusal is of an operand or a shape; a gradient of another shape is a mistake */
      if (g_str_has_prefix (message, "The gradient of"))
        {
          g_test_message ("%s (%s): %s", test->op_type, inputs, message);
          g_test_fail ();
        }
      if (g_test_verbose ())
        g_test_message ("%s (%s): %s", test->op_type, inputs, message);
    }
}

static void
check_empty_cases (const OrtrainGradientCase *tests, guint n_tests, gboolean forward)
{
  EmptyCounts counts = { 0 };
  for (guint t = 0; t < n_tests; t++)
    {
      for (gint dimension = 0; dimension < 16; dimension++)
        check_empty (&tests[t], make_empty (tests[t].inputs, 0, dimension, FALSE), forward, &counts);
      for (gint64 extent = 1; extent <= 8; extent++)
        {
          check_empty (&tests[t], make_empty (tests[t].inputs, extent, -1, FALSE), forward, &counts);
          check_empty (&tests[t], make_empty (tests[t].inputs, extent, -1, TRUE), forward, &counts);
        }
    }
  g_test_message ("%u computed, %u refused", counts.computed, counts.refused);
  g_assert_cmpuint (counts.computed, >, n_tests);
}

static void
test_empty_operands (void)
{
  check_empty_cases (cases, G_N_ELEMENTS (cases), FALSE);
}

static void
test_empty_forward (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (forward_cases); i++)
    {
      g_autofree char *message = NULL;
      if (!ortrain_gradient_check_forward (&forward_cases[i], &message))
        {
          g_test_message ("%s (%s): %s", forward_cases[i].op_type, forward_cases[i].inputs, message);
          g_test_fail ();
        }
    }
  check_empty_cases (forward_cases, G_N_ELEMENTS (forward_cases), TRUE);
}

/* Every operator of ONNX is in one of the two tables, but for those without operands. */
static void
test_every_operator_is_emptied (void)
{
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      gboolean found = op->domain[0] != '\0' || op->max_inputs == 0 || (op->flags & ORTRAIN_OP_CONTROL) != 0;
      for (guint k = 0; k < G_N_ELEMENTS (cases) && !found; k++)
        found = g_str_equal (cases[k].op_type, op->name);
      for (guint k = 0; k < G_N_ELEMENTS (forward_cases) && !found; k++)
        found = g_str_equal (forward_cases[k].op_type, op->name);
      if (!found)
        {
          g_test_message ("%s has no case", op->name);
          g_test_fail ();
        }
    }
}

static void
test_every_operator_has_a_case (void)
{
  guint n_ops = 0;
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      if (op->gradient == NULL)
        continue;
      n_ops++;
      gboolean found = FALSE;
      for (guint k = 0; k < G_N_ELEMENTS (cases) && !found; k++)
        found = g_str_equal (cases[k].op_type, op->name) &&
                g_strcmp0 (cases[k].domain != NULL ? cases[k].domain : "", op->domain) == 0;
      if (!found)
        {
          g_test_message ("%s%s%s has a gradient and no case", op->domain, op->domain[0] != '\0' ? "::" : "", op->name);
          g_test_fail ();
        }
    }
  g_test_message ("%u cases for %u differentiable operators", (guint) G_N_ELEMENTS (cases), n_ops);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/gradients/%s/%u", cases[i].op_type, i);
      g_test_add_data_func (path, &cases[i], test_case);
    }
  g_test_add_func ("/gradients/every-operator-has-a-case", test_every_operator_has_a_case);
  g_test_add_func ("/gradients/empty/operands", test_empty_operands);
  g_test_add_func ("/gradients/empty/forward", test_empty_forward);
  g_test_add_func ("/gradients/empty/every-operator", test_every_operator_is_emptied);
  return g_test_run ();
}
