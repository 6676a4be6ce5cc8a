/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"

/* Operators that are not supported, and what to do about each kind: an error that names only the operator does not
 * help its reader. */

#define MICROSOFT "com.microsoft"
#define LAYOUT "com.microsoft.nchwc"
#define CLASSIC "ai.onnx.ml"

#define LOOP "loops are not supported"
#define LOOP_INSTEAD                                                                                                   \
  "export the model without it: torch.onnx.export (dynamo=True) writes out a Python loop with a constant number of "   \
  "iterations, and a recurrent layer is exported as RNN, GRU or LSTM"
#define OPTIONAL "optional values are not supported"
#define OPTIONAL_INSTEAD                                                                                               \
  "export the model for the inputs that it is trained with, so that whether a value is present is known: with "        \
  "torch.onnx.export (dynamo=True), or with the optional argument left out or always given"
#define TEXT "strings are not supported"
#define TEXT_INSTEAD "export the model without its text processing, and feed token ids that are computed before"
#define CLASSIC_REASON "operators of classical machine learning have no gradient, and are not supported"
#define CLASSIC_INSTEAD                                                                                                \
  "export the model without it: choose outputs before it, or prepare the data with the training set instead"
#define LAYOUT_REASON                                                                                                  \
  "the file was optimized by ONNX Runtime for one processor, with operators of its own memory layout"
#define LAYOUT_INSTEAD                                                                                                 \
  "train the file that it was made from, or save the optimized one with graph_optimization_level "                     \
  "ORT_ENABLE_EXTENDED or ORT_ENABLE_BASIC"
#define QUANTIZED "operators of integer weights are not supported"
#define QUANTIZED_INSTEAD                                                                                              \
  ORTRAIN_QUANTIZED_INSTEAD ", or use its form with QuantizeLinear and DequantizeLinear to run it"

/* clang-format off */
#define ROW(op, in, from, why, what)                                                                                   \
  { .name = op, .domain = in, .since = from, .max_inputs = -1, .max_outputs = -1, .types = "*", .unsupported = why,    \
    .instead = what }
#define QUANTIZED_ROW(op, in) ROW (op, in, 1, QUANTIZED, QUANTIZED_INSTEAD)
#define LAYOUT_ROW(op) ROW (op, LAYOUT, 1, LAYOUT_REASON, LAYOUT_INSTEAD)
#define CLASSIC_ROW(op) ROW (op, CLASSIC, 1, CLASSIC_REASON, CLASSIC_INSTEAD)
#define TEXT_ROW(op) ROW (op, "", 9, TEXT, TEXT_INSTEAD)

static const OrtrainOpDef ops[] = {
  ROW ("Loop", "", 7, LOOP, LOOP_INSTEAD),
  ROW ("Scan", "", 8, LOOP, LOOP_INSTEAD),
  ROW ("SequenceMap", "", 17, LOOP, LOOP_INSTEAD),
  ROW ("Optional", "", 15, OPTIONAL, OPTIONAL_INSTEAD),
  ROW ("OptionalGetElement", "", 15, OPTIONAL, OPTIONAL_INSTEAD),
  ROW ("OptionalHasElement", "", 15, OPTIONAL, OPTIONAL_INSTEAD),

  TEXT_ROW ("StringNormalizer"), TEXT_ROW ("StringConcat"), TEXT_ROW ("StringSplit"), TEXT_ROW ("RegexFullMatch"),
  TEXT_ROW ("TfIdfVectorizer"),

  CLASSIC_ROW ("ArrayFeatureExtractor"), CLASSIC_ROW ("Binarizer"), CLASSIC_ROW ("CastMap"),
  CLASSIC_ROW ("CategoryMapper"), CLASSIC_ROW ("DictVectorizer"), CLASSIC_ROW ("FeatureVectorizer"),
  CLASSIC_ROW ("Imputer"), CLASSIC_ROW ("LabelEncoder"), CLASSIC_ROW ("LinearClassifier"),
  CLASSIC_ROW ("LinearRegressor"), CLASSIC_ROW ("Normalizer"), CLASSIC_ROW ("OneHotEncoder"),
  CLASSIC_ROW ("SVMClassifier"), CLASSIC_ROW ("SVMRegressor"), CLASSIC_ROW ("Scaler"), CLASSIC_ROW ("TreeEnsemble"),
  CLASSIC_ROW ("TreeEnsembleClassifier"), CLASSIC_ROW ("TreeEnsembleRegressor"), CLASSIC_ROW ("ZipMap"),

  LAYOUT_ROW ("Conv"), LAYOUT_ROW ("MaxPool"), LAYOUT_ROW ("GlobalMaxPool"), LAYOUT_ROW ("AveragePool"),
  LAYOUT_ROW ("GlobalAveragePool"), LAYOUT_ROW ("Upsample"), LAYOUT_ROW ("ReorderInput"), LAYOUT_ROW ("ReorderOutput"),
  ROW ("NhwcFusedConv", MICROSOFT, 1, LAYOUT_REASON, LAYOUT_INSTEAD),
  ROW ("NhwcConv", MICROSOFT, 1, LAYOUT_REASON, LAYOUT_INSTEAD),
  ROW ("NhwcMaxPool", MICROSOFT, 1, LAYOUT_REASON, LAYOUT_INSTEAD),

  QUANTIZED_ROW ("QLinearConv", ""), QUANTIZED_ROW ("ConvInteger", ""),
  QUANTIZED_ROW ("QuantizeLinear", MICROSOFT), QUANTIZED_ROW ("DequantizeLinear", MICROSOFT),
  QUANTIZED_ROW ("DequantizeBFP", MICROSOFT), QUANTIZED_ROW ("QuantizeBFP", MICROSOFT),
  QUANTIZED_ROW ("DynamicQuantizeLSTM", MICROSOFT), QUANTIZED_ROW ("DynamicQuantizeMatMul", MICROSOFT),
  QUANTIZED_ROW ("GatherBlockQuantized", MICROSOFT), QUANTIZED_ROW ("MatMulBnb4", MICROSOFT),
  QUANTIZED_ROW ("MatMulFpQ4", MICROSOFT), QUANTIZED_ROW ("MatMulInteger16", MICROSOFT),
  QUANTIZED_ROW ("MatMulIntegerToFloat", MICROSOFT), QUANTIZED_ROW ("MatMulNBits", MICROSOFT),
  QUANTIZED_ROW ("QAttention", MICROSOFT), QUANTIZED_ROW ("QEmbedLayerNormalization", MICROSOFT),
  QUANTIZED_ROW ("QGemm", MICROSOFT), QUANTIZED_ROW ("QMoE", MICROSOFT), QUANTIZED_ROW ("QLinearAdd", MICROSOFT),
  QUANTIZED_ROW ("QLinearAveragePool", MICROSOFT), QUANTIZED_ROW ("QLinearConcat", MICROSOFT),
  QUANTIZED_ROW ("QLinearConv", MICROSOFT), QUANTIZED_ROW ("QLinearGlobalAveragePool", MICROSOFT),
  QUANTIZED_ROW ("QLinearLeakyRelu", MICROSOFT), QUANTIZED_ROW ("QLinearMul", MICROSOFT),
  QUANTIZED_ROW ("QLinearReduceMean", MICROSOFT), QUANTIZED_ROW ("QLinearSigmoid", MICROSOFT),
  QUANTIZED_ROW ("QLinearSoftmax", MICROSOFT), QUANTIZED_ROW ("QLinearWhere", MICROSOFT),
  QUANTIZED_ROW ("QOrderedAttention", MICROSOFT), QUANTIZED_ROW ("QOrderedGelu", MICROSOFT),
  QUANTIZED_ROW ("QOrderedLayerNormalization", MICROSOFT), QUANTIZED_ROW ("QOrderedLongformerAttention", MICROSOFT),
  QUANTIZED_ROW ("QOrderedMatMul", MICROSOFT), QUANTIZED_ROW ("QuantizeWithOrder", MICROSOFT),
  QUANTIZED_ROW ("DequantizeWithOrder", MICROSOFT),
};
/* clang-format on */
ORTRAIN_OP_TABLE (unsupported, ops);
