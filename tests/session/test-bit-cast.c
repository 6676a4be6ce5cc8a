/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include "../model/ortrain-proto-maker.h"

#include <string.h>

/* BitCast reads the bytes of its input as another type: computed before the first run, node by node, in a plan, in a
 * training step and in 16 bits. And values computed node by node share no memory with the feeds. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
#define FLOAT 1
#define INT16 5
#define INT32 6
#define INT64 7
#define FLOAT16 10

static const float w[12] = { .5f, -1, .25f, 2, 1, .125f, -.5f, 1, -2, 1, .75f, -.25f };

static void
add_node (Proto *graph, const char *op_type, const char *inputs, const char *output, gint64 to)
{
  Proto *node = proto_node (op_type, inputs, output);
  if (to != 0)
    proto_int_attribute (node, "to", to);
  proto_message (graph, 1, node);
}

/* `places`: where numbers are above 0 that are drawn anew in each run, which they all are: a shape that no plan knows,
 * so that everything runs node by node. dims end with -1 */
static void
add_unknown (Proto *graph, const gint64 *dims)
{
  static const float one = 1;
  Proto *attribute = proto_new (), *node = proto_new ();
  proto_string (attribute, 1, "shape");
  for (; *dims >= 0; dims++)
    proto_int (attribute, 8, *dims);
  proto_int (attribute, 20, 7);
  proto_string (node, 2, "random");
  proto_string (node, 4, "RandomUniform");
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  add_node (graph, "Add", "random,plus", "above", 0);
  add_node (graph, "NonZero", "above", "places", 0);
  proto_message (graph, 5, proto_tensor ("plus", FLOAT, DIMS (-1), &one, sizeof one));
}

static OrtrainModel *
finish (Proto *graph)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = proto_model (graph, 13, 26);
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensor *
make_floats (const gint64 *dims, gsize n_dims, gsize n)
{
  g_autofree float *numbers = g_new (float, n);
  for (gsize i = 0; i < n; i++)
    numbers[i] = (float) ((gint64) (i * 7 % 13) - 6) / 4;
  return ortrain_tensor_new_floats (dims, n_dims, numbers, n, NULL);
}

static OrtrainTensor *
run (OrtrainModel *model, OrtrainTensor *x, gboolean optimize, OrtrainPrecision precision)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  ortrain_session_options_set_optimize (options, optimize);
  ortrain_session_options_set_precision (options, precision);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
  g_assert_no_error (error);
  return g_object_ref (ortrain_tensor_dict_get (outputs, "y"));
}

/* ---- Constants ---- */

/* y: [2, 3], float: x + 2⁻³⁰ · the bits of [1, 2, -3] as integers, which are there in three ways */
typedef enum
{
  BITS_INITIALIZER,
  BITS_CONSTANT,
  BITS_UNKNOWN, /* through a node whose shape depends on data: everything is run node by node */
  N_BITS,
} Bits;

static OrtrainModel *
make_bits_model (Bits bits)
{
  static const float numbers[] = { 1, 2, -3 }, scale = 0x1p-30f;
  Proto *graph = proto_new ();
  Proto *tensor = proto_tensor (bits == BITS_CONSTANT ? NULL : "c", FLOAT, DIMS (3), numbers, sizeof numbers);
  if (bits == BITS_CONSTANT)
    {
      Proto *attribute = proto_new (), *node = proto_new ();
      proto_string (attribute, 1, "value");
      proto_message (attribute, 5, tensor);
      proto_int (attribute, 20, 4);
      proto_string (node, 2, "c");
      proto_string (node, 4, "Constant");
      proto_message (node, 5, attribute);
      proto_message (graph, 1, node);
    }
  else
    proto_message (graph, 5, tensor);
  if (bits == BITS_UNKNOWN)
    {
      proto_message (graph, 5, proto_tensor ("axis", INT64, DIMS (1), (const gint64[]){ 0 }, 8));
      add_unknown (graph, DIMS (3));
      add_node (graph, "Squeeze", "places,axis", "place", 0);
      add_node (graph, "Gather", "c,place", "d", 0);
    }
  add_node (graph, "BitCast", bits == BITS_UNKNOWN ? "d" : "c", "i", INT32);
  add_node (graph, "Cast", "i", "f", FLOAT);
  add_node (graph, "Mul", "f,scale", "g", 0);
  add_node (graph, "Add", "x,g", "y", 0);
  proto_message (graph, 5, proto_tensor ("scale", FLOAT, DIMS (-1), &scale, sizeof scale));
  proto_message (graph, 11, proto_value ("x", FLOAT, DIMS (2, 3)));
  proto_message (graph, 12, proto_value ("y", FLOAT, DIMS (2, 3)));
  return finish (graph);
}

static void
expect_bits (float *expected, const float *x)
{
  static const gint32 as_integers[] = { 0x3f800000, 0x40000000, (gint32) 0xc0400000u };
  for (guint i = 0; i < 6; i++)
    expected[i] = x[i] + (float) as_integers[i % 3] * 0x1p-30f;
}

static void
test_constant (gconstpointer data)
{
  g_autoptr (OrtrainModel) model = make_bits_model (GPOINTER_TO_UINT (data));
  const gint64 dims[] = { 2, 3 };
  float expected[6];
  g_autoptr (OrtrainTensor) x = make_floats (dims, 2, 6);
  expect_bits (expected, (const float *) ortrain_tensor_get_address (x));
  for (guint optimize = 0; optimize < 2; optimize++)
    {
      g_autoptr (OrtrainTensor) y = run (model, x, optimize, ORTRAIN_PRECISION_F32);
      g_assert_cmpmem ((gconstpointer) ortrain_tensor_get_address (y), sizeof expected, expected, sizeof expected);
    }
}

/* ---- Training ---- */

/* y = x w + 1e-9 · the bits of a parameter, which gets no gradient by them */
static void
test_training (void)
{
  static const float c[] = { 1, 2, -3, .5f }, small = 1e-9f, x[] = { 1, -1, 2, 3, .5f, -2 };
  const gint64 x_dims[] = { 2, 3 }, t_dims[] = { 2, 4 };
  const float zeros[8] = { 0 };
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new ();
  add_node (graph, "MatMul", "x,w", "h", 0);
  add_node (graph, "BitCast", "c", "i", INT32);
  add_node (graph, "Cast", "i", "f", FLOAT);
  add_node (graph, "Mul", "f,small", "g", 0);
  add_node (graph, "Add", "h,g", "y", 0);
  proto_message (graph, 5, proto_tensor ("w", FLOAT, DIMS (3, 4), w, sizeof w));
  proto_message (graph, 5, proto_tensor ("c", FLOAT, DIMS (4), c, sizeof c));
  proto_message (graph, 5, proto_tensor ("small", FLOAT, DIMS (-1), &small, sizeof small));
  proto_message (graph, 11, proto_symbolic_value ("x", FLOAT, "n,three"));
  proto_message (graph, 12, proto_symbolic_value ("y", FLOAT, "n,four"));
  g_autoptr (OrtrainModel) model = finish (graph);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
  ortrain_training_options_add_loss (options, loss);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) input = ortrain_tensor_new_floats (x_dims, 2, x, 6, NULL);
  g_autoptr (OrtrainTensor) target = ortrain_tensor_new_floats (t_dims, 2, zeros, 8, NULL);
  ortrain_tensor_dict_set (feeds, "x", input);
  ortrain_tensor_dict_set (feeds, "t", target);
  double expected = 0;
  for (guint n = 0; n < 2; n++)
    for (guint k = 0; k < 4; k++)
      {
        gint32 bits;
        memcpy (&bits, &c[k], sizeof bits);
        double y = 1e-9 * bits;
        for (guint i = 0; i < 3; i++)
          y += (double) x[n * 3 + i] * (double) w[i * 4 + k];
        expected += y * y / 8;
      }
  const double found = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat_with_epsilon (found, expected, 1e-5 * expected);
}

/* ---- 16 bits ---- */

typedef enum
{
  PLAIN,    /* y = x w */
  ROUND,    /* x w to integers, and back */
  INTEGERS, /* w is stored as integers */
} Form;

/* half: the file computes in float16 */
static OrtrainModel *
make_product (Form form, gboolean half)
{
  Proto *graph = proto_new ();
  const gint type = half ? FLOAT16 : FLOAT;
  guint16 small[12];
  for (guint i = 0; i < 12; i++)
    {
      guint32 bits;
      memcpy (&bits, &w[i], sizeof bits); /* exact in float16, and no zero */
      small[i] = (guint16) ((bits >> 16 & 0x8000) | (((bits >> 13) - ((127 - 15) << 10)) & 0x7fff));
    }
  proto_message (graph, 5,
                 proto_tensor ("w", form == INTEGERS ? (half ? INT16 : INT32) : type, DIMS (4, 3),
                               half ? (gconstpointer) small : w, half ? sizeof small : sizeof w));
  if (form == INTEGERS)
    add_node (graph, "BitCast", "w", "floats", type);
  add_node (graph, "MatMul", form == INTEGERS ? "x,floats" : "x,w", form == ROUND ? "h" : "y", 0);
  if (form == ROUND)
    {
      add_node (graph, "BitCast", "h", "i", half ? INT16 : INT32);
      add_node (graph, "BitCast", "i", "y", type);
    }
  proto_message (graph, 11, proto_value ("x", type, DIMS (2, 4)));
  proto_message (graph, 12, proto_value ("y", type, DIMS (2, 3)));
  return finish (graph);
}

static void
test_precision (gconstpointer data)
{
  const gboolean half = GPOINTER_TO_INT (data);
  static const OrtrainPrecision precisions[] = { ORTRAIN_PRECISION_F32, ORTRAIN_PRECISION_BF16,
                                                 ORTRAIN_PRECISION_FP16 };
  const gint64 dims[] = { 2, 4 };
  g_autoptr (OrtrainTensor) floats = make_floats (dims, 2, 8);
  g_autoptr (OrtrainTensor) x =
      half ? ortrain_tensor_cast (floats, ORTRAIN_DTYPE_FLOAT16, NULL) : g_object_ref (floats);
  g_autoptr (OrtrainModel) plain = make_product (PLAIN, half);
  for (Form form = ROUND; form <= INTEGERS; form++)
    for (guint p = 0; p < G_N_ELEMENTS (precisions); p++)
      {
        g_autoptr (OrtrainModel) model = make_product (form, half);
        g_autoptr (OrtrainTensor) expected = run (plain, x, TRUE, precisions[p]);
        g_autoptr (OrtrainTensor) found = run (model, x, TRUE, precisions[p]);
        for (gint64 i = 0; i < ortrain_tensor_get_n_elements (expected); i++)
          g_test_message ("%d %u: %.9g %.9g", form, p, ortrain_tensor_get_scalar (found, i),
                          ortrain_tensor_get_scalar (expected, i));
        g_assert_true (ortrain_tensor_equal (found, expected));
      }
}

/* ---- Node by node ---- */

/* An output that is a view of a feed, or of a weight, has memory of its own. */
static void
test_own_memory (gconstpointer data)
{
  const char *source = data;
  const gint64 dims[] = { 4, 3 };
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new ();
  add_unknown (graph, DIMS (4, 3));
  add_node (graph, "Unsqueeze", "x,axis", "wide", 0);
  add_node (graph, "Unsqueeze", "w,axis", "weights", 0);
  add_node (graph, "Squeeze", source, "y", 0);
  proto_message (graph, 5, proto_tensor ("w", FLOAT, DIMS (4, 3), w, sizeof w));
  proto_message (graph, 5, proto_tensor ("axis", INT64, DIMS (1), (const gint64[]){ 0 }, 8));
  proto_message (graph, 11, proto_value ("x", FLOAT, DIMS (4, 3)));
  proto_message (graph, 12, proto_value ("y", FLOAT, DIMS (4, 3)));
  proto_message (graph, 12, proto_symbolic_value ("places", INT64, "two,n"));
  g_autoptr (OrtrainModel) model = finish (graph);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new_floats (dims, 2, w, 12, NULL);
  ortrain_tensor_dict_set (feeds, "x", x);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_inference_session_get_memory_plan (session);
      g_assert_null (plan);
      OrtrainTensor *y = ortrain_tensor_dict_get (outputs, "y");
      g_assert_cmpmem ((gconstpointer) ortrain_tensor_get_address (y), sizeof w, w, sizeof w);
      g_assert_true (ortrain_tensor_get_writable (y));
      memset ((gpointer) ortrain_tensor_get_address (y), 0, sizeof w);
      g_assert_cmpmem ((gconstpointer) ortrain_tensor_get_address (x), sizeof w, w, sizeof w);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/bit-cast/initializer", GUINT_TO_POINTER (BITS_INITIALIZER), test_constant);
  g_test_add_data_func ("/bit-cast/constant", GUINT_TO_POINTER (BITS_CONSTANT), test_constant);
  g_test_add_data_func ("/bit-cast/unknown", GUINT_TO_POINTER (BITS_UNKNOWN), test_constant);
  g_test_add_func ("/bit-cast/training", test_training);
  g_test_add_data_func ("/bit-cast/precision/float", GINT_TO_POINTER (FALSE), test_precision);
  g_test_add_data_func ("/bit-cast/precision/half", GINT_TO_POINTER (TRUE), test_precision);
  g_test_add_data_func ("/bit-cast/own-memory/input", "wide,axis", test_own_memory);
  g_test_add_data_func ("/bit-cast/own-memory/weight", "weights,axis", test_own_memory);
  return g_test_run ();
}
