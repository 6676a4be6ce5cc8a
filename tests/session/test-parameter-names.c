/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/role-models.h"

/* The roles of tensors that a file tells, by a list or by names, and values that are formulas. */

static const char signature[] = "\n# inputs\n"
                                "p_w: PARAMETER target='w'\n"
                                "p_scale: PARAMETER target='scale'\n"
                                "b_shift: BUFFER target='shift' persistent=True\n"
                                "c_lifted_tensor_0: CONSTANT_TENSOR target='lifted_tensor_0'\n"
                                "x: USER_INPUT\n\n# outputs\nadd: USER_OUTPUT\n";
/* the text of older versions */
static const char old_signature[] =
    "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_w'), "
    "target='w', persistent=None), InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_scale'), "
    "target='scale', persistent=None), InputSpec(kind=<InputKind.BUFFER: 3>, arg=TensorArgument(name='b_shift'), "
    "target='shift', persistent=True), InputSpec(kind=<InputKind.CONSTANT_TENSOR: 4>, "
    "arg=TensorArgument(name='c_lifted_tensor_0'), target='lifted_tensor_0', persistent=None)], "
    "output_specs=[OutputSpec(kind=<OutputKind.USER_OUTPUT: 1>, arg=TensorArgument(name='add'), target=None)])";

static void
add_signature (Proto *graph, const char *text)
{
  Proto *entry = proto_new ();
  proto_string (entry, 1, "pkg.torch.export.ExportedProgram.graph_signature");
  proto_string (entry, 2, text);
  proto_message (graph, 16, entry);
}

/* y = ((x W) scale + shift) constant: `scale` is one number, `shift` lies along the channels. */
static Proto *
make_scaled (const char *w, const char *scale, const char *shift, const char *constant)
{
  g_autofree char *product = g_strconcat ("x,", w, NULL), *scaled = g_strconcat ("a,", scale, NULL),
                  *shifted = g_strconcat ("b,", shift, NULL), *last = g_strconcat ("c,", constant, NULL);
  Proto *graph = make_graph (DIMS (2, 5), DIMS (2, 4));
  add_weight (graph, w, DIMS (5, 4));
  add_number (graph, scale, SCALAR, 0.5f);
  add_weight (graph, shift, DIMS (4));
  add_weight (graph, constant, DIMS (4));
  add_node (graph, "MatMul", product, "a");
  add_node (graph, "Mul", scaled, "b");
  add_node (graph, "Add", shifted, "c");
  add_node (graph, "Mul", last, "y");
  return graph;
}

static void
test_list (void)
{
  const char *const texts[] = { signature, old_signature };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      Proto *graph = make_scaled ("w", "scale", "shift", "lifted_tensor_0");
      add_signature (graph, texts[i]);
      EXPECT (graph, DIMS (2, 5), DIMS (2, 4), { "w", TRUE, "weight of MatMul" },
              { "scale", TRUE, "a parameter of the exported program" },
              { "shift", FALSE, "a buffer or constant of the exported program" },
              { "lifted_tensor_0", FALSE, "a buffer or constant of the exported program" });
    }
}

/* The exporter stored tensors that it computed from a parameter, and from constants. */
static void
test_missing (void)
{
  Proto *graph = make_scaled ("val_3", "val_4", "shift", "val_5");
  add_signature (graph, signature);
  EXPECT (graph, DIMS (2, 5), DIMS (2, 4), { "val_3", TRUE, "weight of MatMul" }, { "val_4", FALSE, "one number" },
          { "shift", FALSE, "a buffer" }, { "val_5", TRUE, "scale: Mul" });
  /* nothing is missing */
  graph = make_scaled ("w", "scale", "val_6", "val_7");
  add_signature (graph, signature);
  EXPECT (graph, DIMS (2, 5), DIMS (2, 4), { "w", TRUE, "weight of MatMul" },
          { "scale", TRUE, "a parameter of the exported program" },
          { "val_6", FALSE, "a buffer or constant of the exported program" },
          { "val_7", FALSE, "a buffer or constant of the exported program" });
}

/* Zeros made by the program itself, in a module that lacks a parameter, next to values computed from that parameter. */
static void
test_made_of_nothing (void)
{
  const struct
  {
    const char *name;
    gboolean is_trained;
  } cases[] = { { "repeat", TRUE },    { "zeros_of", TRUE },   { "val_5", TRUE },       { "zeros", FALSE },
                { "zeros_12", FALSE }, { "ones_like", FALSE }, { "new_full_1", FALSE }, { "arange_2", FALSE } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Proto *graph = make_scaled ("w", "scale", cases[i].name, "val_9");
      add_signature (graph, "p_w: PARAMETER target='w'\np_scale: PARAMETER target='scale'\n"
                            "p_bias_k: PARAMETER target='bias_k'\nx: USER_INPUT\n");
      g_autoptr (OrtrainModel) model = load (graph);
      expect_role (model, cases[i].name, cases[i].is_trained,
                   cases[i].is_trained ? "bias: Add" : "a buffer or constant of the exported program");
      expect_role (model, "val_9", TRUE, "scale: Mul");
    }
}

/* A list that is cut short, or no list at all, is as none. */
static void
test_malformed_list (void)
{
  const char *const texts[] = { "", "target='", "p_w: PARAMETER target='w", "target='w'", "BUFFER target='w'" };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      Proto *graph = make_scaled ("w", "scale", "shift", "constant");
      add_signature (graph, texts[i]);
      EXPECT (graph, DIMS (2, 5), DIMS (2, 4), { "w", TRUE, "weight of MatMul" }, { "scale", FALSE, "one number" },
              { "shift", TRUE, "bias: Add" }, { "constant", TRUE, "scale: Mul" });
    }
}

static OrtrainModel *
load_of (Proto *graph, const char *producer)
{
  g_autoptr (GError) error = NULL;
  Proto *file = proto_model_unfinished (graph, 8, 17);
  proto_string (file, 2, producer);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (file);
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

static void
test_names (void)
{
  const struct
  {
    const char *producer, *w, *scale, *shift, *constant;
    gboolean trains_w, trains_scale, trains_shift, trains_constant;
  } cases[] = {
    { "", "layer1.0.weight", "head.logit_scale", "model.blocks.3.gamma", "0.scale", TRUE, TRUE, TRUE, TRUE },
    { "", "layer1.0.weight", "logit_scale", "cls_token", "0.running_var", TRUE, TRUE, TRUE, FALSE },
    { "", "onnx::MatMul_12", "l.scale", "0.mask", "onnx::Mul_13", TRUE, TRUE, FALSE, TRUE },
    { "", "val_2", "val_4", "l.bias", "l.std", TRUE, FALSE, TRUE, FALSE },
    /* in a file of PyTorch's, names without a dot are of the outermost module */
    { "pytorch", "w", "alpha", "g", "mean", TRUE, TRUE, TRUE, FALSE },
    { "pytorch", "w", "onnx::Mul_3", "g", "12", TRUE, FALSE, TRUE, TRUE },
    /* these say nothing: uses decide */
    { "", "W", "alpha", "b1", "mean", TRUE, FALSE, TRUE, TRUE },
    { "tf2onnx", "model/dense/MatMul/ReadVariableOp:0", "const_fold_opt__12", "model/dense/bias:0", "g:0", TRUE, FALSE,
      TRUE, TRUE },
    { "skl2onnx", "coefficient", "factor", "intercepts", "p2o.Constant.3", TRUE, FALSE, TRUE, TRUE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (OrtrainModel) model =
          load_of (make_scaled (cases[i].w, cases[i].scale, cases[i].shift, cases[i].constant), cases[i].producer);
      expect_role (model, cases[i].w, cases[i].trains_w, "");
      expect_role (model, cases[i].scale, cases[i].trains_scale, "");
      expect_role (model, cases[i].shift, cases[i].trains_shift, "");
      expect_role (model, cases[i].constant, cases[i].trains_constant, "");
    }
}

/* A Constant node that the exporter numbered is a number of the program where parameters have names, and may be a
 * weight elsewhere. */
static void
test_literals (void)
{
  for (guint named = 0; named < 2; named++)
    {
      const float numbers[] = { 0.3f, -0.7f, 0.2f, 0.9f };
      Proto *graph = make_graph (DIMS (2, 5), DIMS (2, 4));
      add_weight (graph, named ? "fc.weight" : "w", DIMS (5, 4));
      add_constant (graph, "/Constant_output_0", DIMS (4), numbers, FALSE);
      add_node (graph, "MatMul", named ? "x,fc.weight" : "x,w", "a");
      add_node (graph, "Mul", "a,/Constant_output_0", "y");
      g_autoptr (OrtrainModel) model = load (graph);
      expect_role (model, "/Constant_output_0", named == 0, named ? "a number of the exported program" : "scale: Mul");
    }
}

/* The scale and shift of a frozen normalization, of buffers alone, follow a convolution; those of a group normalization
 * follow that. A note tells of either. */
static void
test_scale_of_convolution (void)
{
  for (guint normalized = 0; normalized < 2; normalized++)
    {
      Proto *graph = make_graph (DIMS (2, 3, 8), DIMS (2, 4, 8));
      add_weight (graph, "conv.weight", DIMS (4, 3, 1));
      add_weight (graph, "onnx::Mul_7", DIMS (4, 1));
      add_weight (graph, "onnx::Add_8", DIMS (4, 1));
      add_node (graph, "Conv", "x,conv.weight", "a");
      if (normalized)
        {
          add_number (graph, "onnx::Instance_1", DIMS (4), 1);
          add_number (graph, "onnx::Instance_2", DIMS (4), 0);
          add_node (graph, "InstanceNormalization", "a,onnx::Instance_1,onnx::Instance_2", "b");
        }
      add_node (graph, "Mul", normalized ? "b,onnx::Mul_7" : "a,onnx::Mul_7", "c");
      add_node (graph, "Add", "c,onnx::Add_8", "y");
      g_autoptr (OrtrainModel) model = load_of (graph, "pytorch");
      expect_role (model, "onnx::Mul_7", normalized == 1,
                   normalized ? "scale: Mul" : "statistics and weights are fixed");
      expect_role (model, "onnx::Add_8", normalized == 1,
                   normalized ? "bias: Add" : "statistics and weights are fixed");
      g_autoptr (OrtrainParameterInfo) info = find_info (model, "onnx::Mul_7");
      g_assert_false (ortrain_parameter_info_get_certain (info));
      if (normalized)
        expect_role (model, "onnx::Instance_1", FALSE, "");
    }
}

/* The scale of a quantized weight is named as parameters are, and has no gradient. */
static void
test_quantization_scale (void)
{
  const gint8 zero = 0, weight[] = { 3, -7, 5, 9, -2, 4, 1, -8 };
  Proto *graph = make_graph (DIMS (3, 2), DIMS (3, 4));
  proto_message (graph, 5, proto_tensor ("fc.weight_quantized", 3, DIMS (2, 4), weight, sizeof weight));
  proto_message (graph, 5, proto_tensor ("fc.weight_zero_point", 3, SCALAR, &zero, sizeof zero));
  add_number (graph, "fc.weight_scale", SCALAR, 0.05f);
  add_weight (graph, "fc.bias", DIMS (4));
  add_node (graph, "DequantizeLinear", "fc.weight_quantized,fc.weight_scale,fc.weight_zero_point", "w");
  add_node (graph, "Gemm", "x,w,fc.bias", "y");
  g_autoptr (OrtrainModel) model = load (graph);
  expect_role (model, "fc.weight_scale", FALSE, "quantization scale");
  expect_role (model, "fc.bias", TRUE, "bias of Gemm");
}

/* y = x (W / uᵀ W v): spectral_norm () divides a weight by a number from vectors that it keeps; and such names without
 * that weight. */
static void
test_spectral_norm (void)
{
  const char *const weights[] = { "fc.weight_orig", "fc.weight" };
  for (guint i = 0; i < G_N_ELEMENTS (weights); i++)
    {
      g_autofree char *right = g_strconcat (weights[i], ",fc.weight_v", NULL),
                      *divided = g_strconcat (weights[i], ",sigma", NULL);
      Proto *graph = make_graph (DIMS (3, 4), DIMS (3, 2));
      add_weight (graph, weights[i], DIMS (4, 2));
      add_weight (graph, "fc.weight_u", DIMS (4));
      add_weight (graph, "fc.weight_v", DIMS (2));
      add_node (graph, "MatMul", right, "wv");
      add_node (graph, "MatMul", "fc.weight_u,wv", "sigma");
      add_node (graph, "Div", divided, "w");
      add_node (graph, "MatMul", "x,w", "y");
      g_autoptr (OrtrainModel) model = load_of (graph, "pytorch");
      expect_role (model, weights[i], TRUE, "weight of MatMul");
      expect_role (model, "fc.weight_u", i == 1, i == 1 ? "weight of MatMul" : "a buffer or constant");
      expect_role (model, "fc.weight_v", i == 1, i == 1 ? "weight of MatMul" : "a buffer or constant");
    }
}

/* ---- tensors that the exporter stored twice ---- */

static void
add_transposed (Proto *graph, const char *name, const char *of, gint64 rows, gint64 columns)
{
  g_autofree float *data = g_new (float, rows *columns);
  for (gint64 i = 0; i < rows; i++)
    for (gint64 k = 0; k < columns; k++)
      data[k * rows + i] = 0.4f * sinf (1.7f * (float) (i * columns + k) + (float) g_str_hash (of) / 1e9f);
  add_tensor (graph, name, DIMS (columns, rows), data);
}

static void
add_named_node (Proto *graph, const char *name, const char *op_type, const char *inputs, const char *output)
{
  Proto *node = proto_node (op_type, inputs, output);
  proto_string (node, 3, name);
  proto_message (graph, 1, node);
}

static void
check_repeated (Proto *graph, guint n_parameters)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = load_of (graph, "pytorch");
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (parameters), ==, n_parameters);
}

/* y = (table[ids] + x) tableᵀ: the table is the weight of the output, too. */
static void
test_repeated_table (void)
{
  static const gint64 ids[] = { 2, 0 };
  Proto *graph = make_graph (DIMS (2, 4), DIMS (2, 5));
  add_weight (graph, "wte.weight", DIMS (5, 4));
  add_transposed (graph, "onnx::MatMul_9", "wte.weight", 5, 4);
  add_ints (graph, "ids", ids, 2);
  add_named_node (graph, "/wte/Gather", "Gather", "wte.weight,ids", "e");
  add_node (graph, "Add", "e,x", "h");
  add_named_node (graph, "/head/MatMul", "MatMul", "h,onnx::MatMul_9", "y");
  g_autoptr (OrtrainModel) model = load_of (graph, "pytorch");
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainModel) out = train (model, options, DIMS (2, 4), DIMS (2, 5));
  OrtrainTensor *table = contents (out, "wte.weight"), *head = contents (out, "onnx::MatMul_9");
  g_assert_false (ortrain_tensor_equal (table, contents (model, "wte.weight")));
  for (gint64 i = 0; i < 5; i++)
    for (gint64 k = 0; k < 4; k++)
      g_assert_true (ortrain_tensor_get_scalar (table, i * 4 + k) == ortrain_tensor_get_scalar (head, k * 5 + i));

  /* whoever freezes one by name keeps them apart */
  ortrain_training_options_set_frozen (options, (const char *const[]){ "onnx::MatMul_9", NULL });
  g_autoptr (OrtrainModel) apart = train (model, options, DIMS (2, 4), DIMS (2, 5));
  g_assert_false (ortrain_tensor_equal (contents (apart, "wte.weight"), contents (model, "wte.weight")));
  g_assert_true (ortrain_tensor_equal (contents (apart, "onnx::MatMul_9"), contents (model, "onnx::MatMul_9")));
}

/* One module that is called twice has one weight; two modules that were copied from one have two. */
static void
test_repeated_module (void)
{
  for (guint copied = 0; copied < 2; copied++)
    {
      Proto *graph = make_graph (DIMS (2, 4), DIMS (2, 4));
      add_weight (graph, "layer.bias", DIMS (4));
      add_transposed (graph, "onnx::MatMul_9", "layer", 4, 4);
      add_transposed (graph, "onnx::MatMul_12", "layer", 4, 4);
      add_transposed (graph, "onnx::MatMul_15", "layer", 4, 4);
      add_named_node (graph, "/layer/MatMul", "MatMul", "x,onnx::MatMul_9", "a");
      add_named_node (graph, "/layer/Add", "Add", "a,layer.bias", "b");
      add_named_node (graph, copied ? "/layer2/MatMul" : "/layer/MatMul_1", "MatMul", "b,onnx::MatMul_12", "c");
      /* as the older exporter calls a module that is called again, unless there is one of that name */
      add_named_node (graph, copied ? "/layer3/MatMul" : "/layer_1/MatMul", "MatMul", "c,onnx::MatMul_15", "y");
      check_repeated (graph, copied ? 4 : 2);
    }
}

/* ---- values ---- */

/* A convolution of one axis with so many filters, or a product; then a weight of the model. */
static Proto *
make_transform (const char *name, gboolean conv, const gint64 *dims, const float *data)
{
  g_autofree char *inputs = g_strconcat (conv ? "c," : "x,", name, NULL);
  Proto *graph =
      make_graph (conv ? DIMS (2, 1, 32) : DIMS (2, dims[0]), conv ? DIMS (2, 3, 33 - dims[2]) : DIMS (2, 3));
  if (conv)
    {
      add_weight (graph, "w0", DIMS (1, 1, 1));
      add_node (graph, "Conv", "x,w0", "c");
    }
  add_tensor (graph, name, dims, data);
  add_node (graph, conv ? "Conv" : "MatMul", inputs, "a");
  if (conv)
    {
      add_weight (graph, "w", DIMS (3, dims[0], 1));
      add_node (graph, "Conv", "a,w", "y");
    }
  else
    {
      add_weight (graph, "w", DIMS (dims[1], 3));
      add_node (graph, "MatMul", "a,w", "y");
    }
  return graph;
}

static void
check_transform (gboolean conv, const gint64 *dims, float *data, const char *reason)
{
  const gint64 n = count (dims);
  g_autoptr (OrtrainModel) fixed = load (make_transform ("basis", conv, dims, data));
  expect_role (fixed, "basis", FALSE, reason);
  g_autoptr (OrtrainParameterInfo) info = find_info (fixed, "basis");
  g_assert_false (ortrain_parameter_info_get_certain (info));
  /* the same, a little moved: it has learned */
  for (gint64 i = 0; i < n; i++)
    data[i] += 0.05f * sinf (12.9898f * (float) (i * i % 97));
  g_autoptr (OrtrainModel) learned = load (make_transform ("basis", conv, dims, data));
  expect_role (learned, "basis", TRUE, "weight of");
  expect_role (learned, "w", TRUE, "weight of");
}

static void
test_transforms (void)
{
  float data[9 * 16 * 2];
  const float pi = (float) G_PI;
  /* a Fourier transform with a window: cosines, and sines */
  for (guint k = 0; k < 9; k++)
    for (guint i = 0; i < 16; i++)
      {
        const float window = 0.5f - 0.5f * cosf (2 * pi * (float) i / 16), angle = 2 * pi * (float) (k * i) / 16;
        data[k * 16 + i] = window * cosf (angle);
        data[(k + 9) * 16 + i] = -window * sinf (angle);
      }
  check_transform (TRUE, DIMS (18, 1, 16), data, "sinusoids");
  /* a cosine transform, its first row scaled */
  for (guint k = 0; k < 8; k++)
    for (guint i = 0; i < 8; i++)
      data[k * 8 + i] = (k == 0 ? 0.35355339f : 0.5f) * cosf (pi / 8 * ((float) i + 0.5f) * (float) k);
  check_transform (FALSE, DIMS (8, 8), data, "sinusoids");
  /* filters of mel, as triangles */
  for (guint k = 0; k < 4; k++)
    for (guint i = 0; i < 12; i++)
      data[i * 4 + k] = MAX (0, 1 - fabsf ((float) i - 2.4f * (float) (k + 1)) / 2.4f);
  check_transform (FALSE, DIMS (12, 4), data, "filter bank");
  /* bins of a distribution */
  for (guint i = 0; i < 16; i++)
    data[i] = (float) i;
  check_transform (FALSE, DIMS (16, 1), data, "bins");
  /* filters that are even or odd: a blur, a difference, a wavelet of two taps */
  const float filters[] = { 0.25f, 0.5f, 0.25f, -1, 0, 1, 1, -2, 1 };
  memcpy (data, filters, sizeof filters);
  check_transform (TRUE, DIMS (3, 1, 3), data, "symmetric filters");
  const float wavelets[] = { 0.70710678f, 0.70710678f, 0.70710678f, -0.70710678f };
  memcpy (data, wavelets, sizeof wavelets);
  check_transform (TRUE, DIMS (2, 1, 2), data, "symmetric filters");
}

/* Numbers that layers begin with are no transforms. */
static void
test_beginnings (void)
{
  float data[36] = { 0 };
  g_autoptr (OrtrainModel) zeros = load (make_transform ("basis", TRUE, DIMS (4, 1, 3), data));
  expect_role (zeros, "basis", TRUE, "weight of Conv");
  for (guint i = 0; i < 4; i++)
    data[3 * i + 1] = 1; /* passes its input */
  g_autoptr (OrtrainModel) dirac = load (make_transform ("basis", TRUE, DIMS (4, 1, 3), data));
  expect_role (dirac, "basis", TRUE, "weight of Conv");
  memset (data, 0, sizeof data);
  for (guint i = 0; i < 6; i++)
    data[7 * i] = 1;
  g_autoptr (OrtrainModel) identity = load (make_transform ("basis", FALSE, DIMS (6, 6), data));
  expect_role (identity, "basis", TRUE, "weight of MatMul");
}

/* The mask of a pruned layer multiplies its weight; labels of a written-out loss multiply its output. */
static void
test_masks (void)
{
  Proto *graph = make_graph (DIMS (2, 5), DIMS (2, 4));
  float mask[20];
  const float labels[] = { 1, 0, 0, 1 };
  for (guint i = 0; i < 20; i++)
    mask[i] = i % 3 == 0;
  add_weight (graph, "w", DIMS (5, 4));
  add_tensor (graph, "m", DIMS (5, 4), mask);
  add_tensor (graph, "labels", DIMS (4), labels);
  add_node (graph, "Mul", "w,m", "pruned");
  add_node (graph, "MatMul", "x,pruned", "a");
  add_node (graph, "Mul", "a,labels", "y");
  EXPECT (graph, DIMS (2, 5), DIMS (2, 4), { "w", TRUE, "weight of MatMul" }, { "m", FALSE, "zeros and ones" },
          { "labels", FALSE, "zeros and ones" });
}

/* A value for each class, looked up at the class that was found; and one that is looked up at an input. */
static void
check_values_of_classes (const char *values, const char *list, gboolean is_trained, const char *because)
{
  Proto *graph = make_graph (DIMS (3, 4), DIMS (3, 4));
  add_weight (graph, "w", DIMS (4, 4));
  add_weight (graph, values, DIMS (4));
  if (list != NULL)
    add_signature (graph, list);
  add_ints (graph, "axis", (const gint64[]){ 1 }, 1);
  Proto *best = proto_node ("ArgMax", "x", "class");
  proto_int_attribute (best, "axis", 1);
  proto_int_attribute (best, "keepdims", 0);
  proto_message (graph, 1, best);
  g_autofree char *looked_up = g_strconcat (values, ",class", NULL);
  add_node (graph, "Gather", looked_up, "found");
  add_node (graph, "Unsqueeze", "found,axis", "factor");
  add_node (graph, "MatMul", "x,w", "a");
  add_node (graph, "Mul", "a,factor", "y");
  EXPECT (graph, DIMS (3, 4), DIMS (3, 4), { "w", TRUE, "weight of MatMul" }, { values, is_trained, because });
}

/* A table of numbers that is looked up at an ArgMax is no embedding, unless the file says that it is a parameter. */
static void
test_values_of_classes (void)
{
  const char *const is_parameter = "p_w: PARAMETER target='w'\np_t: PARAMETER target='values'\n",
                    *const is_buffer = "p_w: PARAMETER target='w'\nb_t: BUFFER target='values' persistent=True\n";
  check_values_of_classes ("values", NULL, FALSE, "values of classes");
  check_values_of_classes ("values", is_parameter, TRUE, "a parameter of the exported program");
  check_values_of_classes ("values", is_buffer, FALSE, "a buffer or constant of the exported program");
  check_values_of_classes ("val_3", is_parameter, TRUE, "computed by the exporter, in a module that lacks a parameter");
  check_values_of_classes ("val_3", is_buffer, FALSE, "a buffer or constant of the exported program");
}

/* ---- nodes between a parameter and its use ---- */

static void
test_ways (void)
{
  static const char *const chains[] = { "CastLike", "Exp,Neg",        "Softplus", "Sigmoid",
                                        "Tanh",     "Exp,Reciprocal", "Abs,Sqrt", "Identity,Neg" };
  for (guint c = 0; c < G_N_ELEMENTS (chains); c++)
    {
      g_auto (GStrv) ops = g_strsplit (chains[c], ",", -1);
      Proto *graph = make_graph (DIMS (2, 5), DIMS (2, 4));
      g_autofree char *last = g_strdup ("s");
      add_weight (graph, "w", DIMS (5, 4));
      add_weight (graph, "s", DIMS (4));
      add_node (graph, "MatMul", "x,w", "a");
      for (guint i = 0; ops[i] != NULL; i++)
        {
          g_autofree char *inputs = g_str_equal (ops[i], "CastLike") ? g_strconcat (last, ",a", NULL) : g_strdup (last),
                          *output = g_strdup_printf ("s%u", i);
          add_node (graph, ops[i], inputs, output);
          g_free (last);
          last = g_steal_pointer (&output);
        }
      g_autofree char *scaled = g_strconcat ("a,", last, NULL);
      add_node (graph, "Mul", scaled, "y");
      EXPECT (graph, DIMS (2, 5), DIMS (2, 4), { "w", TRUE, "weight of MatMul" }, { "s", TRUE, "scale: Mul" });
    }
}

/* A table of positions for pictures of another size. */
static void
test_resized_positions (void)
{
  Proto *graph = make_graph (DIMS (2, 9, 5), DIMS (2, 9, 6));
  add_weight (graph, "positions", DIMS (1, 6, 2, 2));
  add_weight (graph, "w", DIMS (5, 6));
  add_ints (graph, "sizes", DIMS (1, 6, 3, 3), 4);
  add_ints (graph, "rows", DIMS (1, 6, 9), 3);
  Proto *resize = proto_node ("Resize", "positions,,,sizes", "p1"), *turn = proto_node ("Transpose", "p2", "p3"),
        *mode = proto_new ();
  proto_string (mode, 1, "mode");
  proto_string (mode, 4, "linear");
  proto_int (mode, 20, 3);
  proto_message (resize, 5, mode);
  set_ints (turn, "perm", DIMS (0, 2, 1));
  proto_message (graph, 1, resize);
  add_node (graph, "Reshape", "p1,rows", "p2");
  proto_message (graph, 1, turn);
  add_node (graph, "MatMul", "x,w", "a");
  add_node (graph, "Add", "a,p3", "y");
  EXPECT (graph, DIMS (2, 9, 5), DIMS (2, 9, 6), { "w", TRUE, "weight of MatMul" },
          { "positions", TRUE, "shift by position" });
}

/* ---- notes for people ---- */

static gboolean
has_note (char **notes, const char *text)
{
  for (; *notes != NULL; notes++)
    if (strstr (*notes, text) != NULL)
      return TRUE;
  return FALSE;
}

static void
test_told (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = load_of (make_scaled ("onnx::MatMul_1", "l.scale", "l.bias", "l.std"), "pytorch");
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_auto (GStrv) notes = ortrain_check_report_get_notes (report);
  g_assert_true (has_note (notes, "1 is trained: 'l.scale' (named as a parameter: one number: operand of Mul"));
  g_assert_true (has_note (notes, "For the other choice: --frozen 'l.scale'"));
  g_assert_true (has_note (notes, "1 is not trained: 'l.std' (named as a buffer: scale: Mul"));
  g_assert_true (has_note (notes, "For the other choice: --trainable '*' --trainable 'l.std'"));
  g_autoptr (OrtrainParameterInfo) weight = find_info (model, "onnx::MatMul_1"), scale = find_info (model, "l.scale");
  g_assert_true (ortrain_parameter_info_get_certain (weight));
  g_assert_false (ortrain_parameter_info_get_certain (scale));

  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_auto (GStrv) at_start = ortrain_training_session_get_notes (session);
  g_assert_true (has_note (at_start, "--frozen 'l.scale'"));
  g_assert_true (has_note (at_start, "--trainable '*' --trainable 'l.std'"));

  /* after an explicit choice there is no question, and the result is as in the line */
  ortrain_training_options_set_frozen (options, (const char *const[]){ "l.scale", NULL });
  g_autoptr (OrtrainTrainingSession) frozen = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_auto (GStrv) rest = ortrain_training_session_get_notes (frozen);
  g_assert_false (has_note (rest, "l.scale"));
  g_assert_true (has_note (rest, "l.std"));
  ortrain_training_options_set_trainable (options, (const char *const[]){ "*", "l.std", NULL });
  g_autoptr (OrtrainTrainingSession) chosen = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_auto (GStrv) none = ortrain_training_session_get_notes (chosen);
  g_assert_false (has_note (none, "l.std"));
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (chosen, &error);
  g_assert_nonnull (ortrain_tensor_dict_get (parameters, "l.std"));
  g_assert_null (ortrain_tensor_dict_get (parameters, "l.scale"));
  g_assert_nonnull (ortrain_tensor_dict_get (parameters, "l.bias"));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/parameter-names/list", test_list);
  g_test_add_func ("/parameter-names/missing", test_missing);
  g_test_add_func ("/parameter-names/made-of-nothing", test_made_of_nothing);
  g_test_add_func ("/parameter-names/malformed-list", test_malformed_list);
  g_test_add_func ("/parameter-names/names", test_names);
  g_test_add_func ("/parameter-names/literals", test_literals);
  g_test_add_func ("/parameter-names/scale-of-convolution", test_scale_of_convolution);
  g_test_add_func ("/parameter-names/quantization-scale", test_quantization_scale);
  g_test_add_func ("/parameter-names/spectral-norm", test_spectral_norm);
  g_test_add_func ("/parameter-names/repeated-table", test_repeated_table);
  g_test_add_func ("/parameter-names/repeated-module", test_repeated_module);
  g_test_add_func ("/parameter-names/transforms", test_transforms);
  g_test_add_func ("/parameter-names/beginnings", test_beginnings);
  g_test_add_func ("/parameter-names/masks", test_masks);
  g_test_add_func ("/parameter-names/values-of-classes", test_values_of_classes);
  g_test_add_func ("/parameter-names/ways", test_ways);
  g_test_add_func ("/parameter-names/resized-positions", test_resized_positions);
  g_test_add_func ("/parameter-names/told", test_told);
  return g_test_run ();
}
