/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-proto-parts-private.h"
#include "session/fixture.h"
#include "session/role-models.h"

/* The roles of a file's tensors: weights, which are trained, or constants of formulas, which stay as they are. */

/* ---- constants of formulas ---- */

/* Scores of attention, scaled by one number, with a mask added, and minus infinity where a condition says so. */
static void
test_attention (void)
{
  Proto *graph = make_graph (DIMS (2, 4, 6), DIMS (2, 4, 6));
  float mask[16];
  for (guint i = 0; i < 16; i++)
    mask[i] = i % 4 > i / 4 ? -INFINITY : 0;
  add_weight (graph, "q.weight", DIMS (6, 6));
  add_weight (graph, "k.weight", DIMS (6, 6));
  add_weight (graph, "v.weight", DIMS (6, 6));
  add_weight (graph, "v.bias", DIMS (6));
  add_number (graph, "scale", DIMS (1), 0.4f);
  add_number (graph, "low", DIMS (1), -INFINITY);
  add_number (graph, "zero", DIMS (1), 0);
  add_tensor (graph, "mask", DIMS (1, 4, 4), mask);
  add_node (graph, "MatMul", "x,q.weight", "q");
  add_node (graph, "MatMul", "x,k.weight", "k");
  add_node (graph, "MatMul", "x,v.weight", "v0");
  add_node (graph, "Add", "v.bias,v0", "v");
  Proto *transpose = proto_node ("Transpose", "k", "kt");
  set_ints (transpose, "perm", DIMS (0, 2, 1));
  proto_message (graph, 1, transpose);
  add_node (graph, "MatMul", "q,kt", "s0");
  add_node (graph, "Mul", "s0,scale", "s1");
  add_node (graph, "Less", "mask,zero", "hidden");
  add_node (graph, "Where", "hidden,low,s1", "s2");
  add_node (graph, "Add", "s2,mask", "s3");
  add_node (graph, "Softmax", "s3", "p");
  add_node (graph, "MatMul", "p,v", "y");
  EXPECT (graph, DIMS (2, 4, 6), DIMS (2, 4, 6), { "q.weight", TRUE, "weight of MatMul" },
          { "v.bias", TRUE, "bias: Add" }, { "scale", FALSE, "one number" }, { "low", FALSE, "one number" },
          { "mask", FALSE, "operand of Add" });
}

/* A mask for each head lies along an axis that heads have too: its values tell that it is a mask. */
static void
test_mask_of_heads (void)
{
  Proto *graph = make_graph (DIMS (2, 4, 6), DIMS (2, 2, 4, 4));
  float mask[32];
  for (guint i = 0; i < 32; i++)
    mask[i] = i % 4 > i / 4 % 4 ? -1e9f : 0;
  add_weight (graph, "q.weight", DIMS (6, 6));
  add_weight (graph, "position_bias", DIMS (1, 2, 4, 4));
  add_tensor (graph, "mask", DIMS (1, 2, 4, 4), mask);
  add_ints (graph, "heads", DIMS (0, 0, 2, 3), 4);
  add_node (graph, "MatMul", "x,q.weight", "q");
  add_node (graph, "Reshape", "q,heads", "q1");
  for (guint i = 0; i < 2; i++)
    {
      Proto *transpose = proto_node ("Transpose", "q1", i == 0 ? "q2" : "k2");
      set_ints (transpose, "perm", i == 0 ? DIMS (0, 2, 1, 3) : DIMS (0, 2, 3, 1));
      proto_message (graph, 1, transpose);
    }
  add_node (graph, "MatMul", "q2,k2", "s0");
  add_node (graph, "Add", "s0,position_bias", "s1");
  add_node (graph, "Add", "s1,mask", "s2");
  add_node (graph, "Softmax", "s2", "y");
  EXPECT (graph, DIMS (2, 4, 6), DIMS (2, 2, 4, 4), { "q.weight", TRUE, "weight of MatMul" },
          { "position_bias", TRUE, "shift by position" }, { "mask", FALSE, "mask: operand of Add" });
}

/* Where there is no bias of positions, models add zeros to the scores, and so do exporters where there is no mask. An
 * embedding of positions may begin as zeros all the same. */
static void
test_zeros (void)
{
  Proto *graph = make_graph (DIMS (2, 4, 6), DIMS (2, 2, 4, 4));
  add_weight (graph, "q.weight", DIMS (6, 6));
  add_number (graph, "position_bias", DIMS (1, 2, 4, 4), 0);
  add_number (graph, "mask", DIMS (2, 1, 4, 4), 0);
  add_number (graph, "positions", DIMS (1, 4, 6), 0);
  add_ints (graph, "heads", DIMS (0, 0, 2, 3), 4);
  add_ints (graph, "merged", DIMS (4, 4, 3), 3);
  add_ints (graph, "separate", DIMS (2, 2, 4, 3), 4);
  add_node (graph, "MatMul", "x,q.weight", "q0");
  add_node (graph, "Add", "q0,positions", "q");
  add_node (graph, "Reshape", "q,heads", "q1");
  Proto *first = proto_node ("Transpose", "q1", "q2"), *second = proto_node ("Transpose", "q5", "k2");
  set_ints (first, "perm", DIMS (0, 2, 1, 3));
  set_ints (second, "perm", DIMS (0, 1, 3, 2));
  proto_message (graph, 1, first);
  add_node (graph, "Reshape", "q2,merged", "q4");
  add_node (graph, "Reshape", "q4,separate", "q5");
  proto_message (graph, 1, second);
  add_node (graph, "MatMul", "q2,k2", "s0");
  add_node (graph, "Add", "s0,position_bias", "s1");
  add_node (graph, "Add", "s1,mask", "s2");
  add_node (graph, "Softmax", "s2", "y");
  EXPECT (graph, DIMS (2, 4, 6), DIMS (2, 2, 4, 4), { "q.weight", TRUE, "weight of MatMul" },
          { "positions", TRUE, "shift by position" }, { "position_bias", FALSE, "zeros: operand of Add" },
          { "mask", FALSE, "zeros: operand of Add" });
}

/* Group normalization with as many groups as channels, as exporters write it: no view is left around the norm. */
static void
check_group_norm (gboolean ones, gboolean with_bias)
{
  Proto *graph = make_graph (DIMS (2, 3, 8), DIMS (2, 4, 8));
  add_weight (graph, "conv.weight", DIMS (4, 3, 1));
  if (ones)
    add_number (graph, "ones", DIMS (4), 1);
  else
    add_weight (graph, "ones", DIMS (4));
  add_number (graph, "zeros", DIMS (4), 0);
  add_weight (graph, "norm.weight", DIMS (4, 1));
  add_weight (graph, "norm.bias", DIMS (4, 1));
  add_node (graph, "Conv", "x,conv.weight", "a");
  add_node (graph, "InstanceNormalization", "a,ones,zeros", "b");
  add_node (graph, "Mul", "b,norm.weight", with_bias ? "c" : "y");
  if (with_bias)
    add_node (graph, "Add", "c,norm.bias", "y");
  const gboolean neutral = ones && with_bias;
  EXPECT (graph, DIMS (2, 3, 8), DIMS (2, 4, 8), { "conv.weight", TRUE, "weight of Conv" },
          { "norm.weight", TRUE, "scale: Mul" }, { "ones", !neutral, neutral ? "scaled again" : "scale of Instance" },
          { "zeros", !neutral, neutral ? "scaled again" : "bias of Instance" });
}

static void
test_group_norm (void)
{
  check_group_norm (TRUE, TRUE);
  check_group_norm (TRUE, FALSE);
  check_group_norm (FALSE, TRUE);
}

static void
add_layer_norm (Proto *graph, const char *in, const char *out)
{
  g_autofree char *centred = g_strconcat (in, ",mean", NULL);
  for (guint i = 0; i < 2; i++)
    {
      Proto *mean = proto_node ("ReduceMean", i == 0 ? in : "square", i == 0 ? "mean" : "variance");
      set_ints (mean, "axes", DIMS (2));
      proto_int_attribute (mean, "keepdims", 1);
      proto_message (graph, 1, mean);
      if (i > 0)
        break;
      add_node (graph, "Sub", centred, "centred");
      add_node (graph, "Pow", "centred,two", "square");
    }
  add_node (graph, "Add", "variance,epsilon", "shifted");
  add_node (graph, "Sqrt", "shifted", "deviation");
  add_node (graph, "Div", "centred,deviation", "normal");
  add_node (graph, "Mul", "normal,gain", "scaled");
  add_node (graph, "Add", "scaled,bias", out);
}

static void
test_layer_norm (void)
{
  Proto *graph = make_graph (DIMS (2, 3, 5), DIMS (2, 3, 4));
  add_weight (graph, "fc.weight", DIMS (5, 4));
  add_number (graph, "two", DIMS (1), 2);
  add_number (graph, "epsilon", DIMS (1, 1, 1, 1), 1e-5f);
  add_weight (graph, "gain", DIMS (4));
  add_weight (graph, "bias", DIMS (4));
  add_ints (graph, "shape", DIMS (2, 3, 4), 3);
  add_node (graph, "MatMul", "x,fc.weight", "h");
  add_layer_norm (graph, "h", "z");
  add_node (graph, "Reshape", "z,shape", "y");
  EXPECT (graph, DIMS (2, 3, 5), DIMS (2, 3, 4), { "gain", TRUE, "scale: Mul" }, { "bias", TRUE, "bias: Add" },
          { "epsilon", FALSE, "epsilon of Add" }, { "two", FALSE, "exponent of Pow" });
}

/* The gain multiplies the reciprocal of the deviation first, as TensorFlow writes it. */
static void
check_gain_of_deviation (gboolean by_view)
{
  Proto *graph = make_graph (DIMS (2, 3, 5), DIMS (2, 3, 4));
  add_weight (graph, "fc.weight", DIMS (5, 4));
  add_number (graph, "epsilon", DIMS (1), 1e-3f);
  add_weight (graph, "gain", DIMS (1, 1, 4));
  add_node (graph, "MatMul", "x,fc.weight", "h");
  Proto *mean = proto_node ("ReduceMean", "square", "variance");
  set_ints (mean, "axes", DIMS (2));
  proto_int_attribute (mean, "keepdims", !by_view);
  add_node (graph, "Mul", "h,h", "square");
  proto_message (graph, 1, mean);
  add_ints (graph, "shape", DIMS (2, 3, 1), 3);
  add_node (graph, "Reshape", "variance,shape", "column");
  add_node (graph, "Add", "column,epsilon", "shifted");
  add_node (graph, "Sqrt", "shifted", "deviation");
  add_node (graph, "Reciprocal", "deviation", "inverse");
  add_node (graph, "Mul", "inverse,gain", "factor");
  add_node (graph, "Mul", "h,factor", "y");
  EXPECT (graph, DIMS (2, 3, 5), DIMS (2, 3, 4), { "gain", TRUE, "scale: Mul" },
          { "epsilon", FALSE, "epsilon of Add" });
}

static void
test_gain_of_deviation (void)
{
  check_gain_of_deviation (FALSE);
  check_gain_of_deviation (TRUE);
}

/* Positions that the file holds: sines and cosines that are added, and coordinates that a weight multiplies. */
static void
test_positions (void)
{
  Proto *graph = make_graph (DIMS (2, 4, 6), DIMS (2, 4, 6));
  float sines[24], coordinates[18];
  for (guint i = 0; i < 24; i++)
    {
      const float angle = (float) (i / 6) / powf (10, (float) (i % 6 / 2));
      sines[i] = i % 2 == 0 ? sinf (angle) : cosf (angle);
    }
  for (guint i = 0; i < 18; i++)
    coordinates[i] = log2f (1 + (float) (i % 2 == 0 ? i / 6 : i / 2 % 3)) / 3;
  add_weight (graph, "fc.weight", DIMS (6, 6));
  add_tensor (graph, "sines", DIMS (1, 4, 6), sines);
  add_tensor (graph, "coordinates", DIMS (3, 3, 2), coordinates);
  add_weight (graph, "grid.weight", DIMS (2, 6));
  add_node (graph, "MatMul", "x,fc.weight", "a");
  add_node (graph, "Add", "a,sines", "c");
  Proto *mean = proto_node ("ReduceMean", "d0", "d");
  set_ints (mean, "axes", DIMS (0, 1));
  proto_int_attribute (mean, "keepdims", 0);
  add_node (graph, "MatMul", "coordinates,grid.weight", "d0");
  proto_message (graph, 1, mean);
  add_node (graph, "Add", "c,d", "y");
  EXPECT (graph, DIMS (2, 4, 6), DIMS (2, 4, 6), { "fc.weight", TRUE, "weight of MatMul" },
          { "grid.weight", TRUE, "weight of MatMul" }, { "coordinates", FALSE, "positions: operand of MatMul" },
          { "sines", FALSE, "sinusoids of positions" });
}

static void
test_hard_swish (void)
{
  Proto *graph = make_graph (DIMS (3, 5), DIMS (3, 4));
  add_weight (graph, "fc.weight", DIMS (5, 4));
  add_weight (graph, "fc.bias", DIMS (4));
  add_number (graph, "three", DIMS (1), 3);
  add_number (graph, "zero", SCALAR, 0);
  add_number (graph, "six", SCALAR, 6);
  add_number (graph, "sixth", DIMS (1, 1), 6);
  add_number (graph, "high", DIMS (1), 50);
  add_node (graph, "Gemm", "x,fc.weight,fc.bias", "h");
  add_node (graph, "Add", "h,three", "a");
  add_node (graph, "Clip", "a,zero,six", "b");
  add_node (graph, "Mul", "h,b", "c");
  add_node (graph, "Div", "c,sixth", "d");
  add_node (graph, "Min", "d,high", "y");
  EXPECT (graph, DIMS (3, 5), DIMS (3, 4), { "fc.weight", TRUE, "weight of Gemm" }, { "fc.bias", TRUE, "bias of Gemm" },
          { "three", FALSE, "one number" }, { "zero", FALSE, "limit of Clip" }, { "six", FALSE, "limit of Clip" },
          { "sixth", FALSE, "one number" }, { "high", FALSE, "limit of Min" });
}

static void
test_initial_states (void)
{
  Proto *graph = make_graph (DIMS (3, 2, 4), DIMS (3, 1, 2, 5));
  add_weight (graph, "w", DIMS (1, 20, 4));
  add_weight (graph, "r", DIMS (1, 20, 5));
  add_weight (graph, "b", DIMS (1, 40));
  add_number (graph, "h0", DIMS (1, 2, 5), 0);
  add_number (graph, "states", DIMS (2, 1, 2, 5), 0);
  add_ints (graph, "one", DIMS (1), 1);
  Proto *gather = proto_node ("Gather", "states,one", "c1"), *squeeze = proto_node ("Squeeze", "c1,zero_axis", "c0");
  add_ints (graph, "zero_axis", DIMS (0), 1);
  proto_message (graph, 1, gather);
  proto_message (graph, 1, squeeze);
  Proto *lstm = proto_node ("LSTM", "x,w,r,b,,h0,c0", "y");
  proto_int_attribute (lstm, "hidden_size", 5);
  proto_message (graph, 1, lstm);
  EXPECT (graph, DIMS (3, 2, 4), DIMS (3, 1, 2, 5), { "w", TRUE, "input weight of LSTM" },
          { "r", TRUE, "recurrent weight of LSTM" }, { "b", TRUE, "bias of LSTM" },
          { "h0", FALSE, "initial state of LSTM" }, { "states", FALSE, "initial state of LSTM" });
}

/* Operations on the data before any weight is applied to them. */
static void
test_statistics_of_data (void)
{
  Proto *graph = make_graph (DIMS (2, 3, 4, 4), DIMS (2, 1, 4, 4));
  const float kernel[] = { 0.25f, -0.5f, 0.75f };
  add_weight (graph, "mean", DIMS (1, 3, 1, 1));
  add_number (graph, "deviation", DIMS (1, 3, 1, 1), 0.25f);
  add_tensor (graph, "conv.weight", DIMS (1, 3, 1, 1), kernel);
  add_number (graph, "conv.bias", DIMS (1, 1, 1, 1), 0.125f);
  add_number (graph, "half", DIMS (1, 1, 1, 1), 0.5f);
  add_node (graph, "Sub", "x,mean", "a");
  add_node (graph, "Div", "a,deviation", "b");
  add_node (graph, "Conv", "b,conv.weight", "c");
  add_node (graph, "Add", "c,conv.bias", "d"); /* of one channel */
  add_node (graph, "Sigmoid", "d", "e");
  add_node (graph, "Add", "e,half", "y");
  EXPECT (graph, DIMS (2, 3, 4, 4), DIMS (2, 1, 4, 4), { "mean", FALSE, "no channels" },
          { "deviation", FALSE, "no channels" }, { "conv.weight", TRUE, "weight of Conv" },
          { "conv.bias", TRUE, "bias: Add" }, { "half", FALSE, "one number" });
}

/* Tokens, positions and gains, as vision transformers have them; through Reshape, Transpose and Expand. */
static void
test_tokens (void)
{
  Proto *graph = make_graph (DIMS (2, 3, 4, 4), DIMS (2, 5, 6));
  add_weight (graph, "patch.weight", DIMS (6, 3, 2, 2));
  add_weight (graph, "token", DIMS (1, 1, 6));
  add_weight (graph, "positions", DIMS (1, 5, 6));
  add_weight (graph, "gamma", DIMS (6));
  add_ints (graph, "rows", DIMS (0, 6, 4), 3);
  add_ints (graph, "batch", DIMS (2, 1, 6), 3);
  Proto *conv = proto_node ("Conv", "x,patch.weight", "a"), *transpose = proto_node ("Transpose", "b", "c");
  set_ints (conv, "strides", DIMS (2, 2));
  set_ints (transpose, "perm", DIMS (0, 2, 1));
  proto_message (graph, 1, conv);
  add_node (graph, "Reshape", "a,rows", "b");
  proto_message (graph, 1, transpose);
  add_node (graph, "Expand", "token,batch", "tokens");
  Proto *concat = proto_node ("Concat", "tokens,c", "d");
  proto_int_attribute (concat, "axis", 1);
  proto_message (graph, 1, concat);
  add_node (graph, "Add", "d,positions", "e");
  add_node (graph, "Mul", "gamma,e", "y");
  EXPECT (graph, DIMS (2, 3, 4, 4), DIMS (2, 5, 6), { "patch.weight", TRUE, "weight of Conv" },
          { "token", TRUE, "token joined by Concat" }, { "positions", TRUE, "shift by position" },
          { "gamma", TRUE, "scale: Mul" });
}

/* ---- weights in Constant nodes ---- */

static void
test_constant_nodes (void)
{
  for (guint as_floats = 0; as_floats <= 1; as_floats++)
    {
      Proto *graph = make_graph (DIMS (2, 3, 4, 4), DIMS (2, 4, 4, 4));
      const float bias[] = { 0.25f, -0.5f, 0.125f, 1 }, two[] = { 2 };
      add_weight (graph, "conv.weight", DIMS (4, 3, 1, 1));
      add_ints (graph, "shape", DIMS (1, 4, 1, 1), 4);
      add_constant (graph, "conv.bias", DIMS (4), bias, as_floats);
      add_constant (graph, "two", DIMS (1), two, as_floats);
      add_node (graph, "Conv", "x,conv.weight", "a");
      add_node (graph, "Reshape", "conv.bias,shape", "b");
      add_node (graph, "Add", "a,b", "c");
      add_node (graph, "Mul", "c,two", "y");
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = load (graph);
      g_autoptr (OrtrainTrainingOptions) options = make_options ();
      expect_role (model, "conv.bias", TRUE, "bias: Add");
      expect_role (model, "two", FALSE, "one number");
      g_assert_cmpuint (ortrain_model_get_n_parameters (model), ==, 16);
      g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
      g_autofree char *text = ortrain_check_report_to_string (report);
      g_assert_nonnull (
          strstr (text, "1 weight is stored in a Constant node: it is trained, and exported into the same node"));

      g_autoptr (OrtrainModel) out = train (model, options, DIMS (2, 3, 4, 4), DIMS (2, 4, 4, 4));
      g_assert_false (ortrain_tensor_equal (contents (model, "conv.bias"), contents (out, "conv.bias")));
      g_assert_true (ortrain_tensor_equal (contents (model, "two"), contents (out, "two")));
      /* where it was, and in the same form */
      g_assert_cmpuint (out->scan.nodes->len, ==, model->scan.nodes->len);
      g_assert_cmpuint (out->scan.initializers->len, ==, model->scan.initializers->len);
      g_autoptr (OrtrainProtoParts) parts = ortrain_proto_parts_new (&out->scan, g_bytes_get_size (out->file));
      const Ortrain__Ox__NodeProto *node = ortrain_proto_parts_get_node (parts, 0, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (node->op_type, ==, "Constant");
      g_assert_cmpuint (node->n_attribute, ==, 1);
      g_assert_cmpstr (node->attribute[0]->name, ==, as_floats ? "value_floats" : "value");
      g_assert_cmpuint (node->attribute[0]->n_floats, ==, as_floats ? 4 : 0);

      /* and named like all others */
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
      g_assert_cmpuint (ortrain_tensor_dict_get_size (parameters), ==, 2);
      g_assert_nonnull (ortrain_tensor_dict_get (parameters, "conv.bias"));
    }
}

/* ---- options ---- */

static OrtrainModel *
make_scaled (void)
{
  Proto *graph = make_graph (DIMS (3, 5), DIMS (3, 4));
  add_weight (graph, "fc.weight", DIMS (5, 4));
  add_weight (graph, "fc.bias", DIMS (4));
  add_number (graph, "fc/scale", DIMS (1), 0.5f);
  add_number (graph, "limit", SCALAR, 10);
  add_node (graph, "Gemm", "x,fc.weight,fc.bias", "h");
  add_node (graph, "Mul", "h,fc/scale", "s");
  add_node (graph, "Min", "s,limit", "y");
  return load (graph);
}

static char *
train_names (OrtrainModel *model, const char *const *trainable, const char *const *frozen, GError **error)
{
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  ortrain_training_options_set_trainable (options, trainable);
  ortrain_training_options_set_frozen (options, frozen);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, error);
  if (session == NULL)
    return NULL;
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, error);
  GString *names = g_string_new (NULL);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (parameters); i++)
    g_string_append_printf (names, "%s ", ortrain_tensor_dict_get_name (parameters, i));
  return g_string_free (names, FALSE);
}

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void
test_overrules (void)
{
  g_autoptr (OrtrainModel) model = make_scaled ();
  const struct
  {
    const char *const *trainable, *const *frozen;
    const char *names;
  } cases[] = {
    { NULL, NULL, "fc.weight fc.bias " },
    { LIST ("*"), NULL, "fc.weight fc.bias " },
    { LIST ("fc.*"), NULL, "fc.weight fc.bias " },
    /* a pattern that fits no weight means the constants that it fits */
    { LIST ("*scale"), NULL, "fc/scale " },
    { LIST ("fc/scale"), NULL, "fc/scale " },
    { LIST ("fc.*", "fc/scale"), NULL, "fc.weight fc.bias fc/scale " },
    { LIST ("*", "limit"), LIST ("*.bias"), "fc.weight limit " },
    { LIST ("fc/scale", "fc.bias"), LIST ("fc/scale"), "fc.bias " },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *names = train_names (model, cases[i].trainable, cases[i].frozen, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (names, ==, cases[i].names);
    }
  g_autoptr (GError) error = NULL;
  g_assert_null (train_names (model, LIST ("fc.*", "no.*"), NULL, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_assert_nonnull (strstr (error->message, "'no.*'"));
}

/* ---- parameters in PyTorch ---- */

static gboolean
is_explained (const char *fixture, const char *name)
{
  static const struct
  {
    const char *fixture, *name; /* trained here, and not there */
  } differences[] = {
    { "gpt2", "val_469" },                                 /* the word embedding once more, transposed: tied there */
    { "vit", "model.vit.embeddings.position_embeddings" }, /* a parameter that the fixture freezes */
  };
  for (guint i = 0; i < G_N_ELEMENTS (differences); i++)
    if (g_str_equal (fixture, differences[i].fixture) && g_str_equal (name, differences[i].name))
      return TRUE;
  return FALSE;
}

static void
test_fixture (gconstpointer data)
{
  const char *fixture = data;
  g_autoptr (TestModel) model = test_model_load (fixture);
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model->model);
  GListModel *list = ortrain_check_report_get_parameters (report);
  g_autoptr (GHashTable) wanted = g_hash_table_new (g_str_hash, g_str_equal);
  JsonArray *names = json_object_get_array_member (model->spec, "trainable");
  g_assert_cmpuint (json_array_get_length (names), >, 0);
  for (guint i = 0; i < json_array_get_length (names); i++)
    g_hash_table_add (wanted, (gpointer) json_array_get_string_element (names, i));
  g_assert_cmpuint (g_list_model_get_n_items (list), >, 0);
  for (guint i = 0; i < g_list_model_get_n_items (list); i++)
    {
      g_autoptr (OrtrainParameterInfo) info = g_list_model_get_item (list, i);
      const char *name = ortrain_parameter_info_get_name (info);
      const gboolean trained = ortrain_parameter_info_get_trained (info);
      g_autofree char *text = ortrain_parameter_info_to_string (info);
      if (trained != g_hash_table_remove (wanted, name) && !is_explained (fixture, name))
        g_error ("%s: %s", fixture, text);
    }
  g_assert_cmpuint (g_hash_table_size (wanted), ==, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/parameter-roles/attention", test_attention);
  g_test_add_func ("/parameter-roles/mask-of-heads", test_mask_of_heads);
  g_test_add_func ("/parameter-roles/zeros", test_zeros);
  g_test_add_func ("/parameter-roles/group-norm", test_group_norm);
  g_test_add_func ("/parameter-roles/layer-norm", test_layer_norm);
  g_test_add_func ("/parameter-roles/gain-of-deviation", test_gain_of_deviation);
  g_test_add_func ("/parameter-roles/positions", test_positions);
  g_test_add_func ("/parameter-roles/hard-swish", test_hard_swish);
  g_test_add_func ("/parameter-roles/initial-states", test_initial_states);
  g_test_add_func ("/parameter-roles/statistics-of-data", test_statistics_of_data);
  g_test_add_func ("/parameter-roles/tokens", test_tokens);
  g_test_add_func ("/parameter-roles/constant-nodes", test_constant_nodes);
  g_test_add_func ("/parameter-roles/overrules", test_overrules);
  test_models_add ("/parameter-roles/fixture", test_fixture);
  return g_test_run ();
}
