/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../model/model-text.h"
#include "folder.h"

/* Operators that ONNX Runtime's optimizer writes, against the operators of ONNX that they stand for. Their values in
 * ONNX Runtime itself are in exports/test_made.py. */

typedef struct
{
  const char *name, *text, *expected;
} Case;

#define M "com.microsoft::"
#define LINE "in x f64 n,6\nweight w f64 6,6\nweight c f64 6\nweight d f64 6\nout y\nMatMul x,w -> h\n"
#define MAP "in x f64 n,2,5,5\nweight w f64 3,2,3,3\nweight c f64 3\nout y\n"

static const Case cases[] = {
  { "gelu", LINE M "Gelu h -> y", LINE "Gelu h -> y" },
  { "bias-gelu", LINE M "BiasGelu h,c -> y", LINE "Add h,c -> s\nGelu s -> y" },
  { "fast-gelu", LINE M "FastGelu h -> y", LINE "Gelu h -> y approximate=tanh" },
  { "fast-gelu-bias", LINE M "FastGelu h,c -> y", LINE "Add h,c -> s\nGelu s -> y approximate=tanh" },
  { "quick-gelu", LINE M "QuickGelu h -> y",
    LINE "const a f64 = 1.7020000219345093\nMul a,h -> t\nSigmoid t -> s\nMul h,s -> y" },
  { "quick-gelu-alpha", LINE M "QuickGelu h -> y alpha=.5",
    LINE "const a f64 = .5\nMul a,h -> t\nSigmoid t -> s\nMul h,s -> y" },
  { "bias-softmax", LINE M "BiasSoftmax h,c -> y axis=1", LINE "Add h,c -> s\nSoftmax s -> y axis=-1" },
  { "bias-softmax-flat",
    LINE "const g i64 3 = 0,2,3\nReshape h,g -> r\nconst k i64 2 = 2,3\nReshape c,k -> e\n" M
         "BiasSoftmax r,e -> z axis=1 is_inner_broadcast=0\nconst f i64 2 = 0,6\nReshape z,f -> y",
    LINE "Add h,c -> s\nSoftmax s -> y axis=-1" },
  { "simplified", LINE "SimplifiedLayerNormalization h,c -> y axis=-1 epsilon=.01",
    LINE "RMSNormalization h,c -> y axis=-1 epsilon=.01" },
  { "simplified-statistic",
    LINE "out s\n" M "SimplifiedLayerNormalization h,c -> z,s epsilon=.01 stash_type=1\nAdd z,s -> y",
    LINE "out s\nRMSNormalization h,c -> z epsilon=.01\nMul h,h -> q\nconst a i64 1 = -1\nReduceMean q,a -> m\n"
         "const e f64 = .009999999776482582\nAdd m,e -> v\nSqrt v -> t\nReciprocal t -> s\nAdd z,s -> y" },
  { "skip", LINE M "SkipLayerNormalization h,x,c,d -> y epsilon=.01",
    LINE "Add h,x -> s\nLayerNormalization s,c,d -> y epsilon=.01" },
  { "skip-bias-sum",
    LINE "weight b f64 6\nout s\n" M "SkipLayerNormalization h,x,c,d,b -> z,,,s epsilon=.01\nMul z,s -> y",
    LINE "weight b f64 6\nout s\nAdd h,x -> r\nAdd r,b -> s\nLayerNormalization s,c,d -> z epsilon=.01\nMul z,s -> y" },
  { "skip-no-shift", LINE "weight b f64 6\n" M "SkipLayerNormalization h,x,c,,b -> y epsilon=.01",
    LINE "weight b f64 6\nAdd h,x -> r\nAdd r,b -> s\nLayerNormalization s,c -> y epsilon=.01" },
  { "skip-simplified", LINE "out s\n" M "SkipSimplifiedLayerNormalization h,x,c,d -> z,,,s epsilon=.01\nMul z,s -> y",
    LINE "out s\nAdd h,x -> r\nAdd r,d -> s\nRMSNormalization s,c -> z epsilon=.01\nMul z,s -> y" },
  { "matmul", LINE M "FusedMatMul h,w -> y transB=1 alpha=.5",
    LINE "const a f64 = .5\nTranspose w -> t\nMatMul h,t -> m\nMul m,a -> y" },
  { "matmul-left", LINE M "FusedMatMul h,x -> y transA=1", LINE "Transpose h -> t\nMatMul t,x -> y" },
  { "matmul-batch",
    LINE "const g i64 3 = 0,2,3\nReshape h,g -> r\n" M "FusedMatMul r,r -> y transBatchA=1 transBatchB=1 transB=1",
    LINE "const g i64 3 = 0,2,3\nReshape h,g -> r\nTranspose r -> p perm=[1,0,2]\nTranspose r -> q "
         "perm=[1,2,0]\nMatMul p,q -> y" },
  { "gemm", LINE M "FusedGemm h,w,c -> y transB=1 alpha=.5 activation=LeakyRelu activation_alpha=.25",
    LINE "Gemm h,w,c -> g transB=1 alpha=.5\nLeakyRelu g -> y alpha=.25" },
  { "gemm-plain", LINE M "FusedGemm h,w -> y activation=Relu", LINE "Gemm h,w -> g\nRelu g -> y" },
  { "conv", MAP M "FusedConv x,w,c -> y activation=Relu pads=[1,1,1,1]",
    MAP "Conv x,w,c -> v pads=[1,1,1,1]\nRelu v -> y" },
  { "conv-clip", MAP M "FusedConv x,w,c -> y activation=Clip activation_params=[-.5,.25] strides=[2,2]",
    MAP "const lo f64 = -.5\nconst hi f64 = .25\nConv x,w,c -> v strides=[2,2]\nClip v,lo,hi -> y" },
  { "conv-hard-sigmoid", MAP M "FusedConv x,w -> y activation=HardSigmoid activation_params=[.25,.5]",
    MAP "Conv x,w -> v\nHardSigmoid v -> y alpha=.25 beta=.5" },
  { "conv-sum", MAP "Conv x,w -> z\nSin z -> t\n" M "FusedConv x,w,,t -> y activation=Tanh",
    MAP "Conv x,w -> z\nSin z -> t\nAdd z,t -> s\nTanh s -> y" },
};

static void
test_case (gconstpointer data)
{
  const Case *c = data;
  const gint64 line[] = { 4, 6 }, map[] = { 2, 2, 5, 5 };
  const gboolean is_map = g_str_has_prefix (c->text, MAP);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = model_text_feed (ORTRAIN_DTYPE_FLOAT64, is_map ? map : line, is_map ? 4 : 2, 1);
  ortrain_tensor_dict_set (feeds, "x", x);
  model_text_compare ((const char *const[]){ c->text, NULL }, (const char *const[]){ c->expected, NULL }, 23, feeds,
                      1e-12);
}

/* Export gives the file's own operators back. */
static void
test_export (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = model_text_new (LINE M "BiasGelu h,c -> y", 17, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  ortrain_training_options_add_loss (options, loss);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-runtime-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "y.onnx", NULL);
  ortrain_training_session_export (session, path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) exported = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  OrtrainGraph *graph = ortrain_model_get_file_graph (exported);
  g_assert_nonnull (ortrain_graph_find_node (graph, "node_y"));
  g_assert_cmpstr (ortrain_node_get_op_type (ortrain_graph_find_node (graph, "node_y")), ==, "BiasGelu");
  test_remove_folder (folder);
}

#define RNN "in x f32 2,2,3\nweight w f32 1,2,3\nweight r f32 1,2,2\nout y\n"
#define GATES "weight u f32 1,8,3\nweight v f32 1,8,2\nweight s f32 1,6,3\nweight t f32 1,6,2\n"

static void
test_refused (void)
{
  static const struct
  {
    const char *text, *words[3];
  } refused[] = {
    { "in x f32 2,4\nin w u8 4,4\nin s f32\nin z u8\nout y\n" M "QGemm x,s,z,w,s,z -> y",
      { "QGemm", "quantized", "train the float model" } },
    { "in x f32 2,4\nout y\n" M "MatMulNBits x,x,x -> y K=4 N=4",
      { "MatMulNBits", "quantized", "train the float model" } },
    { "in x f32 1,8,4,4\nout y\ncom.microsoft.nchwc::ReorderInput x -> y",
      { "ReorderInput", "one processor", "ORT_ENABLE_EXTENDED" } },
    { "in x f32 1,2,4,4\nweight w f32 2,2,1,1\nout y\n" M "FusedConv x,w -> y activation=Mystery",
      { "node_y", "Mystery", "ORT_ENABLE_BASIC" } },
    { "in x f32 2,4\nout y\n" M "FusedMatMul x -> y", { "node_y", "has 1 input, it must have 2", "" } },
    { "in x f32 2,4,6\nweight w f32 6,18\nin p f32 2,2,2,4,2\nout y\n" M "Attention x,w,,,p -> y num_heads=3",
      { "node_y", "earlier steps", "use_cache" } },
    { "in x f32 2\nout y\nOptional x -> o\nOptionalGetElement o -> y",
      { "node_o", "optional values", "export the model" } },
    { RNN "RNN x,w,r -> y activations=[Affine] activation_beta=[.5]",
      { "RNN 'node_y'", "'Affine' needs a value that has no default in ONNX",
        "element 0 of the attribute 'activation_alpha'" } },
    { RNN "RNN x,w,r -> y activations=[scaledTanh] activation_alpha=[.5]",
      { "RNN 'node_y'", "'scaledTanh' needs a value", "element 0 of the attribute 'activation_beta'" } },
    { RNN GATES "LSTM x,u,v -> y activations=[HardSigmoid,Elu,Affine] activation_alpha=[.2,.5] activation_beta=[.5,.1]",
      { "LSTM 'node_y'", "'Affine' needs a value", "element 2 of the attribute 'activation_alpha'" } },
    { RNN GATES "GRU x,s,t -> y activations=[Sigmoid,ScaledTanh]",
      { "GRU 'node_y'", "'ScaledTanh' needs a value", "element 0 of the attribute 'activation_alpha'" } },
    { "in x f32 2\nout y\nLoop x -> y", { "node_y", "loops are not supported", "dynamo=True" } },
  };
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = model_text_new (refused[i].text, 18, &error);
      g_assert_no_error (error);
      g_assert_null (ortrain_model_get_graph (model, &error));
      g_assert_nonnull (error);
      g_test_message ("%s", error->message);
      g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
      g_autofree char *told = ortrain_check_report_to_string (report);
      g_assert_false (ortrain_check_report_get_trainable (report));
      g_test_message ("%s", told);
      for (guint k = 0; k < 3; k++)
        {
          g_assert_nonnull (strstr (error->message, refused[i].words[k]));
          g_assert_nonnull (strstr (told, k == 0 ? refused[i].words[1] : refused[i].words[k]));
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/ops/runtime/", cases[i].name, NULL);
      g_test_add_data_func (path, &cases[i], test_case);
    }
  g_test_add_func ("/ops/runtime/export", test_export);
  g_test_add_func ("/ops/runtime/refused", test_refused);
  return g_test_run ();
}
