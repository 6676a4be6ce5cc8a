/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/exercise.h"
#include "fuzz/fuzz.h"
#include "gradients/gradient-cases.h"
#include "gradients/ortrain-case-text.h"
#include "onnx/ortrain-graph-writer-private.h"
#include "ops/ortrain-op-private.h"

#include <math.h>
#include <string.h>

/* Models that are nearly right: the bytes decide which operators they have, where operands come from, and which faults
 * a few of the operands and attributes have. Every row of the table is reached with operands that fit it, so that
 * faults show deep inside. After the bytes end, random numbers with all of them as the seed follow; after a first byte
 * that is odd, they decide everything. */

/* ---- Choices ---- */

typedef struct
{
  const guint8 *data;
  gsize size, at;
  GRand *random;
} Choices;

static guint
below (Choices *self, guint n)
{
  guint value = 0;
  if (n <= 1)
    return 0;
  for (guint i = 0; i < (n > 256 ? 2u : 1u); i++)
    value =
        value << 8 | (self->at < self->size ? self->data[self->at++] : (guint) g_rand_int_range (self->random, 0, 256));
  return value % n;
}

static gboolean
one_in (Choices *self, guint n)
{
  return below (self, n) == n - 1;
}

static gint64
any_int (Choices *self)
{
  static const gint64 numbers[] = { 0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    -2,
                                    4,
                                    7,
                                    16,
                                    17,
                                    G_MAXINT32,
                                    (gint64) G_MAXINT32 + 1,
                                    (gint64) 1 << 40,
                                    -((gint64) 1 << 40),
                                    (gint64) 1 << 62,
                                    G_MAXINT64,
                                    G_MININT64,
                                    G_MININT32 };
  return numbers[below (self, G_N_ELEMENTS (numbers))];
}

/* None that memory would be found for: filling it takes time, and finds nothing. */
static gint64
any_size (Choices *choices)
{
  const gint64 number = any_int (choices);
  return number < G_MAXINT32 || number > (gint64) 1 << 34 ? number : (gint64) 1 << 44;
}

static double
any_float (Choices *self)
{
  static const double numbers[] = { 0, 1, -1, 0.5, 2, NAN, INFINITY, -INFINITY, 1e300, -1e-300, 1e16, 4294967296.0 };
  return numbers[below (self, G_N_ELEMENTS (numbers))];
}

/* ---- Attributes ---- */

static void
set_any_attribute (Choices *choices, OrtrainAttributes *attributes, const char *name)
{
  static const char *const words[] = {
    "", "edge", "reflect", "linear", "cubic", "SAME_UPPER", "i,ij->j", "add", "mul"
  };
  gint64 ints[40];
  float floats[40];
  const gsize n = below (choices, 8) == 0 ? 40 : below (choices, 6);
  switch (below (choices, 6))
    {
    case 0:
    case 1:
      ortrain_attributes_set_int (attributes, name, any_int (choices));
      break;
    case 2:
      ortrain_attributes_set_float (attributes, name, any_float (choices));
      break;
    case 3:
      ortrain_attributes_set_string (attributes, name, words[below (choices, G_N_ELEMENTS (words))]);
      break;
    case 4:
      for (gsize i = 0; i < n; i++)
        ints[i] = any_int (choices);
      ortrain_attributes_set_ints (attributes, name, ints, n);
      break;
    default:
      for (gsize i = 0; i < n; i++)
        floats[i] = (float) any_float (choices);
      ortrain_attributes_set_floats (attributes, name, floats, n);
    }
}

/* Keeps the kind, so that more than the check of kinds sees the change. */
static void
change_attribute (Choices *choices, OrtrainAttributes *attributes, const OrtrainAttribute *old)
{
  g_autofree char *name = g_strdup (old->name);
  if (old->kind == ORTRAIN_ATTRIBUTE_INT)
    ortrain_attributes_set_int (attributes, name, any_int (choices));
  else if (old->kind == ORTRAIN_ATTRIBUTE_FLOAT)
    ortrain_attributes_set_float (attributes, name, any_float (choices));
  else if (old->kind == ORTRAIN_ATTRIBUTE_INTS)
    {
      gint64 ints[40];
      gsize n = MIN (old->n, 38);
      memcpy (ints, old->v.ints, n * sizeof *ints);
      if (n > 0)
        ints[below (choices, (guint) n)] = g_str_has_suffix (name, "shape") ? any_size (choices) : any_int (choices);
      if (one_in (choices, 4))
        ints[n++] = any_int (choices);
      else if (n > 0 && one_in (choices, 4))
        n--;
      ortrain_attributes_set_ints (attributes, name, ints, n);
    }
  else
    set_any_attribute (choices, attributes, name);
}

static void
spoil_attributes (Choices *choices, OrtrainAttributes *attributes)
{
  static const char *const names[] = {
    "axis",       "axes",        "perm",         "pads",
    "strides",    "dilations",   "kernel_shape", "keepdims",
    "group",      "mode",        "epsilon",      "alpha",
    "p",          "to",          "dtype",        "ceil_mode",
    "batch_dims", "upper",       "reduction",    "num_outputs",
    "allowzero",  "direction",   "momentum",     "hidden_size",
    "size",       "blocksize",   "output_shape", "output_padding",
    "layout",     "activations", "beta",         "equation",
    "scale",      "value",       "sample_size",  "start",
    "end",        "auto_pad",    "reverse",      "noop_with_empty_axes",
  };
  const guint n = ortrain_attributes_get_n (attributes);
  const OrtrainAttribute *old = n > 0 ? ortrain_attributes_get_nth (attributes, below (choices, n)) : NULL;
  if (old == NULL || one_in (choices, 8))
    set_any_attribute (choices, attributes, names[below (choices, G_N_ELEMENTS (names))]);
  else if (one_in (choices, 8))
    ortrain_attributes_remove (attributes, old->name);
  else
    change_attribute (choices, attributes, old);
}

/* ---- Operands ---- */

static const OrtrainDType float_types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32,
                                            ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
static const OrtrainDType all_types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_INT64, ORTRAIN_DTYPE_INT32,
                                          ORTRAIN_DTYPE_UINT8,   ORTRAIN_DTYPE_INT8,  ORTRAIN_DTYPE_BOOL,
                                          ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_INT16, ORTRAIN_DTYPE_UINT64,
                                          ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_UINT32 };

typedef struct
{
  OrtrainGraph *graph;
  Choices *choices;
  OrtrainDType dtype; /* of the operands that are floats */
  GPtrArray *results; /* of OrtrainValue: results of nodes */
  guint n_names;
} Maker;

static char *
new_name (Maker *self, const char *what)
{
  return g_strdup_printf ("%s%u", what, self->n_names++);
}

static void
spoil_operand (Choices *choices, OrtrainCaseOperand *operand)
{
  static const gint64 sizes[] = { 0, 1, 2, 3, 5, 8 };
  switch (below (choices, 4))
    {
    case 0:
      if (operand->rank > 0)
        operand->dims[below (choices, (guint) operand->rank)] = sizes[below (choices, G_N_ELEMENTS (sizes))];
      break;
    case 1:
      if (operand->rank < 6)
        operand->dims[operand->rank++] = sizes[below (choices, G_N_ELEMENTS (sizes))];
      break;
    case 2:
      if (operand->rank > 0)
        operand->rank--;
      break;
    default:
      if (operand->n_values > 0)
        operand->values[below (choices, operand->n_values)] =
            strchr ("iIj", operand->kind) != NULL ? (double) any_size (choices) : any_float (choices);
    }
}

static OrtrainTensor *
make_tensor (Maker *self, const OrtrainCaseOperand *operand, OrtrainDType dtype)
{
  OrtrainTensor *wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, operand->dims, operand->rank, NULL);
  FUZZ_CHECK (wide != NULL);
  double *x = ortrain_tensor_peek_writable (wide);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (wide); i++)
    x[i] = operand->n_values > 0 ? operand->values[i % operand->n_values]
                                 : (double) below (self->choices, 64) / 32.0 - (operand->kind == 'p' ? -0.1 : 1.0);
  OrtrainTensor *tensor = ortrain_tensor_cast (wide, dtype, NULL);
  if (tensor == NULL)
    return wide;
  if (dtype == ORTRAIN_DTYPE_INT64) /* a double cannot say them all */
    for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
      if (x[i] >= 9.2e18)
        ((gint64 *) ortrain_tensor_peek_writable (tensor))[i] = G_MAXINT64;
  g_object_unref (wide);
  return tensor;
}

static OrtrainValue *
add_op (Maker *self, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  g_autofree char *name = new_name (self, op_type);
  return ortrain_node_output (ortrain_graph_new_node (self->graph, "", op_type, name, inputs, 2, 1), 0);
}

/* An input of the graph: its extents are numbers, symbols, or not known, nor is its rank. */
static OrtrainValue *
add_input (Maker *self, const char *what, OrtrainDType dtype, const OrtrainCaseOperand *operand)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  g_autofree char *name = new_name (self, what);
  const guint kind = below (self->choices, 8);
  for (gsize d = 0; d < operand->rank; d++)
    {
      g_autofree char *symbol = g_strdup_printf ("n%" G_GINT64_FORMAT, operand->dims[d]);
      dims[d] = kind == 5 || (kind == 6 && one_in (self->choices, 2)) ? ortrain_dim_symbol (self->graph->dims, symbol)
                                                                      : ortrain_dim_int (operand->dims[d]);
    }
  return ortrain_graph_new_input (self->graph, name, dtype, dims, kind == 7 ? -1 : (gint) operand->rank);
}

/* After a Reshape to a fed shape, only the number of its elements is known. */
static OrtrainValue *
hide_shape (Maker *self, OrtrainValue *value)
{
  g_autofree char *name = new_name (self, "shape");
  const OrtrainDim length = ortrain_dim_symbol (self->graph->dims, name);
  OrtrainValue *shape = ortrain_graph_new_input (self->graph, name, ORTRAIN_DTYPE_INT64, &length, 1);
  return add_op (self, "Reshape", value, shape);
}

static OrtrainValue *
make_operand (Maker *self, OrtrainCaseOperand *operand)
{
  Choices *choices = self->choices;
  const gboolean constant = strchr ("ijbdcq", operand->kind) != NULL;
  OrtrainDType dtype = self->dtype;
  if (strchr ("iI", operand->kind) != NULL)
    dtype = ORTRAIN_DTYPE_INT64;
  else if (operand->kind == 'j')
    dtype = ORTRAIN_DTYPE_INT32;
  else if (operand->kind == 'b')
    dtype = ORTRAIN_DTYPE_BOOL;
  else if (operand->kind == 'B')
    dtype = ORTRAIN_DTYPE_UINT8;
  if (one_in (choices, 64))
    dtype = all_types[below (choices, G_N_ELEMENTS (all_types))];
  if (self->results->len > 0 && !constant && one_in (choices, 3))
    return self->results->pdata[below (choices, self->results->len)];
  g_autofree char *name = new_name (self, "w");
  if (constant ? !one_in (choices, 8) : one_in (choices, 6))
    {
      g_autoptr (OrtrainTensor) tensor = make_tensor (self, operand, dtype);
      return ortrain_graph_new_initializer (self->graph, name, tensor);
    }
  OrtrainValue *value = add_input (self, "x", dtype, operand);
  if (constant || !ortrain_dtype_is_floating (dtype))
    return value;
  if (!one_in (choices, 4)) /* so that a gradient has somewhere to go */
    {
      OrtrainCaseOperand scalar = { .kind = 'f' };
      g_autoptr (OrtrainTensor) tensor = make_tensor (self, one_in (choices, 4) ? operand : &scalar, dtype);
      value = add_op (self, "Mul", value, ortrain_graph_new_initializer (self->graph, name, tensor));
    }
  return one_in (choices, 12) ? hide_shape (self, value) : value;
}

/* ---- Nodes ---- */

/* Operators without a gradient, which the table of gradient cases does not have. "B": uint8 numbers. */
static const OrtrainGradientCase more_cases[] = {
  { "ArgMax", "f[2,3]", "axis=1 keepdims=0" },
  { "BitCast", "f[2,3]", "to=6" },
  { "BitCast", "j[3]{1,2,-3}", "to=1" },
  { "ArgMin", "f[2,3]", "axis=-1 select_last_index=1" },
  { "BitCast", "f[2,3]", "to=6" },
  { "Cast", "f[2,3]", "to=7" },
  { "Constant", "", "value_ints=[1,2,3]" },
  { "Constant", "", "value_float=1.5f" },
  { "ConstantOfShape", "i[2]{2,3}" },
  { "EyeLike", "f[2,3]", "dtype=1 k=1" },
  { "Range", "i{0};i{6};i{2}" },
  { "Range", "d{0};d{1};d{0.25}" },
  { "Shape", "f[2,3]", "start=1" },
  { "Size", "f[2,3]" },
  { "OneHot", "i[3]{0,2,1};i{4};d[2]{0,1}", "axis=1" },
  { "NonZero", "b[2,3]{1,0,1,0,0,1}" },
  { "Unique", "i[5]{3,1,3,2,1}", NULL, 4 },
  { "Unique", "q[3,2]", "axis=0 sorted=0", 4 },
  { "Compress", "f[2,3];b[4]{1,0,1,1}" },
  { "Hardmax", "f[2,3]", "axis=1" },
  { "IsNaN", "f[2,3]" },
  { "IsInf", "f[2,3]", "detect_negative=0" },
  { "Not", "b[2,3]" },
  { "And", "b[2,3];b[3]" },
  { "Equal", "f[2,3];f[3]" },
  { "Less", "i[2,3]{1,2,3,4,5,6};i[3]{2,2,2}" },
  { "BitwiseAnd", "i[3]{1,2,3};i[3]{3,1,2}" },
  { "BitwiseNot", "i[3]{1,2,3}" },
  { "BitShift", "B[3]{1,2,3};B[3]{3,1,2}", "direction='LEFT'" },
  { "Mod", "i[3]{5,-4,3};i[3]{3,2,-2}" },
  { "Div", "i[3]{5,-4,3};i[3]{3,2,-2}" },
  { "Pow", "i[3]{5,-4,3};i[3]{3,2,2}" },
  { "Sign", "f[2,3]" },
  { "Det", "f[2,3,3]" },
  { "NonMaxSuppression", "q[1,3,4]{0,0,1,1,0,0,1.1,1,2,2,3,3};q[1,1,3]{0.9,0.8,0.7};i{2};d{0.5};d{0.1}" },
  { "RoiAlign", "f[1,2,5,5];q[2,4]{0,0,3,3,1,1,4,4};i[2]{0,0}", "output_height=2 output_width=2 sampling_ratio=2" },
  { "DequantizeLinear", "B[2,3]{1,2,3,4,5,6};d{0.5};B{3}" },
  { "DequantizeLinear", "B[2,4]{1,2,3,4,5,6,7,8};d[2,2]{1,2,3,4};B[2,2]{1,2,3,4}", "axis=1 block_size=2" },
  { "QuantizeLinear", "f[2,3];d[3]{0.5,1,2};B[3]{3,1,2}", "axis=1" },
  { "DynamicQuantizeLinear", "f[2,3]", NULL, 3 },
  { "MatMulInteger", "B[2,3]{1,2,3,4,5,6};B[3,2]{1,2,3,4,5,6};B{1};B{2}" },
  { "QLinearMatMul", "B[2,3]{1,2,3,4,5,6};d{0.5};B{1};B[3,2]{1,2,3,4,5,6};d[2]{0.5,1};B[2]{1,2};d{0.5};B{1}" },
  { "QLinearConv", "B[1,1,3,3]{1,2,3,4,5,6,7,8,9};d{0.5};B{1};B[2,1,2,2]{1,2,3,4,5,6,7,8};d{0.5};B{2};d{0.5};B{1}" },
  { "ConvInteger", "B[1,1,3,3]{1,2,3,4,5,6,7,8,9};B[1,1,2,2]{1,2,3,4};B{1};B{2}" },
  { "Upsample", "f[1,1,2,2];d[4]{1,1,2,2}", "mode='nearest'" },
  { "Scatter", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]" },
  { "Bernoulli", "p[2,3]" },
  { "RandomNormal", "", "shape=[2,3]" },
  { "RandomUniform", "", "shape=[2,3] low=0f high=2f" },
  { "RandomNormalLike", "f[2,3]" },
  { "RandomUniformLike", "f[2,3]", "dtype=11" },
  { "Multinomial", "p[2,3]", "sample_size=4" },
  { "BlackmanWindow", "i{5}" },
  { "HannWindow", "i{5}", "periodic=0" },
  { "Dropout", "f[2,3];d{0.5};b{1}", NULL, 2 },
  { "BatchNormalization", "f[2,3,2];f[3];f[3];c[3];q[3]", "training_mode=1", 3 },
  { "SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,3,2};q[4]", "reduction='sum' ignore_index=2", 2 },
  { "Adam", "d{0.1};i{0};f[2];f[2];f[2];f[2]", NULL, 3, "ai.onnx.preview.training" },
  { "Adagrad", "d{0.1};i{0};f[2];f[2];f[2]", NULL, 2, "ai.onnx.preview.training" },
  { "Momentum", "d{0.1};i{0};f[2];f[2];f[2]", "mode='nesterov' alpha=0.9f beta=0.9f norm_coefficient=0.1f", 2,
    "ai.onnx.preview.training" },
  { "Reshape", "f[2,3];I[2]" },
  { "Expand", "f[2,1];I[2]" },
  { "Slice", "f[4,5];I[1];I[1];I[1];I[1]" },
  { "Tile", "f[2,3];I[2]" },
  { "Pad", "f[2,3];I[4]" },
  { "TopK", "f[2,3];I[1]", NULL, 2 },
  { "ConstantOfShape", "I[2]" },
  { "Range", "I;I;I" },
  { "ReduceSum", "f[2,3];I[1]", "keepdims=0" },
  { "Squeeze", "f[2,1];I[1]" },
  { "Unsqueeze", "f[2,1];I[1]" },
  { "Resize", "f[1,1,3,3];_;_;I[4]" },
  { "Split", "f[4];I[2]", NULL, 2 },
  { "CenterCropPad", "f[4,3];I[2]" },
};

static const OrtrainGradientCase *
draw_case (Choices *choices)
{
  for (;;)
    {
      const guint k = below (choices, G_N_ELEMENTS (cases) + G_N_ELEMENTS (more_cases));
      const OrtrainGradientCase *row = k < G_N_ELEMENTS (cases) ? &cases[k] : &more_cases[k - G_N_ELEMENTS (cases)];
      if (g_strcmp0 (row->domain, ORTRAIN_DOMAIN) != 0 || one_in (choices, 8)) /* refused at once */
        return row;
    }
}

static void
add_node (Maker *self, guint *n_wrong)
{
  Choices *choices = self->choices;
  const OrtrainGradientCase *row = draw_case (choices);
  g_auto (GStrv) texts = g_strsplit (row->inputs, ";", -1);
  OrtrainValue *inputs[16] = { NULL };
  guint n = 0;
  for (; texts[n] != NULL && *texts[0] != '\0' && n < G_N_ELEMENTS (inputs); n++)
    {
      OrtrainCaseOperand operand;
      ortrain_case_parse_operand (texts[n], &operand);
      if (*n_wrong > 0 && one_in (choices, 6))
        {
          spoil_operand (choices, &operand);
          (*n_wrong)--;
        }
      if (operand.kind != '_' && !(*n_wrong > 0 && one_in (choices, 48)))
        inputs[n] = make_operand (self, &operand);
    }
  if (n > 0 && one_in (choices, 32))
    n--;
  else if (n > 0 && n < G_N_ELEMENTS (inputs) && one_in (choices, 32))
    {
      inputs[n] = inputs[below (choices, n)];
      n++;
    }
  const char *domain = row->domain != NULL ? row->domain : "";
  const guint n_outputs = MAX (row->n_outputs, 1) + (*n_wrong > 0 && one_in (choices, 16) ? 1 : 0);
  g_autofree char *name = new_name (self, row->op_type);
  OrtrainNode *node = ortrain_graph_new_node (self->graph, domain, row->op_type, name, inputs, n, n_outputs);
  if (g_str_equal (row->op_type, "BitCast"))
    self->graph->opset = MAX (self->graph->opset, 26);
  g_auto (GStrv) attributes = g_strsplit (row->attributes != NULL ? row->attributes : "", " ", -1);
  for (guint i = 0; attributes[i] != NULL; i++)
    if (*attributes[i] != '\0')
      ortrain_case_parse_attribute (node->attributes, attributes[i]);
  if (*n_wrong > 0 && one_in (choices, 2))
    {
      spoil_attributes (choices, node->attributes);
      (*n_wrong)--;
    }
  for (guint k = 0; k < n_outputs; k++)
    {
      OrtrainValue *output = ortrain_node_output (node, k);
      g_ptr_array_add (self->results, output);
      if (k == 0 || one_in (choices, 2))
        ortrain_graph_mark_output (self->graph, output, TRUE);
      /* declarations of a file may be wrong */
      OrtrainDim dims[] = { ortrain_dim_int (below (choices, 4)), ortrain_dim_int (below (choices, 4)) };
      if (one_in (choices, 24))
        ortrain_value_set_shape (output, self->dtype, dims, (gint) below (choices, 3));
    }
}

/* If, over two existing results. */
static void
add_choice (Maker *self)
{
  static const char *const names[] = { "then_branch", "else_branch" }, *const types[] = { "Neg", "Abs", "NonZero",
                                                                                          "Shape" };
  Choices *choices = self->choices;
  OrtrainCaseOperand operand;
  ortrain_case_parse_operand (one_in (choices, 6) ? "b[2]{1,0}" : "b{1}", &operand);
  OrtrainValue *condition = make_operand (self, &operand);
  g_autofree char *name = new_name (self, "If");
  OrtrainNode *node = ortrain_graph_new_node (self->graph, "", "If", name, &condition, 1, 1);
  const guint type = below (choices, G_N_ELEMENTS (types));
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainGraph) body = ortrain_graph_new (names[i]);
      const OrtrainValue *source = self->results->pdata[below (choices, self->results->len)];
      OrtrainValue *captured = ortrain_graph_new_value (body, source->name);
      g_autofree char *inner_name = new_name (self, types[type]);
      const char *op_type = one_in (choices, 4) ? types[below (choices, G_N_ELEMENTS (types))] : types[type];
      OrtrainNode *inner = ortrain_graph_new_node (body, "", op_type, inner_name, &captured, 1, 1);
      ortrain_graph_mark_output (body, ortrain_node_output (inner, 0), TRUE);
      ortrain_attributes_set_graph (node->attributes, names[i], G_OBJECT (body));
    }
  ortrain_graph_mark_output (self->graph, ortrain_node_output (node, 0), TRUE);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  guint32 hash = 2166136261u;
  for (gsize i = 0; i < size; i++)
    hash = (hash ^ data[i]) * 16777619u;
  g_autoptr (GRand) random = g_rand_new_with_seed (hash);
  Choices choices = { data, size > 0 && data[0] % 2 != 0 ? 0 : size, 1, random };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("fuzz");
  g_autoptr (GPtrArray) results = g_ptr_array_new ();
  Maker maker = { graph, &choices, float_types[below (&choices, G_N_ELEMENTS (float_types))], results, 0 };
  graph->opset = one_in (&choices, 4) ? 1 + below (&choices, 28) : 23;
  static const guint counts[] = { 0, 0, 0, 1, 1, 2 };
  guint n_wrong = counts[below (&choices, G_N_ELEMENTS (counts))];
  const guint n_nodes = 1 + below (&choices, 3);
  for (guint i = 0; i < n_nodes; i++)
    add_node (&maker, &n_wrong);
  if (results->len > 0 && one_in (&choices, 12))
    add_choice (&maker);
  g_autoptr (GBytes) bytes = ortrain_graph_write (graph, &error);
  fuzz_check_error (bytes != NULL, error);
  if (bytes == NULL)
    return 0;
  if (g_getenv ("FUZZ_GRAPH_SAVE") != NULL) /* to inspect the graph of a run */
    g_file_set_contents (g_getenv ("FUZZ_GRAPH_SAVE"), g_bytes_get_data (bytes, NULL),
                         (gssize) g_bytes_get_size (bytes), NULL);
  Exercise result;
  exercise_model (bytes, random, EXERCISE_RARITY, &result);
  if (g_getenv ("FUZZ_GRAPH_VERBOSE") != NULL)
    g_print ("%u runs, %u steps: %s\n", result.n_runs, result.n_steps, result.error != NULL ? result.error : "");
  exercise_clear (&result);
  return 0;
}
