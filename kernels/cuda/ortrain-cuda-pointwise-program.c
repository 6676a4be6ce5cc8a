/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-pointwise-program.h"

#include "kernel-abi/ortrain-chain-private.h"

#include <math.h>

/* From operators to programs, by the same rules as on the CPU: numbers of 16 bits are computed in float32, and every
 * node's result is rounded once, to the type that the node has for it. */

#define NONE G_MAXUINT

typedef struct
{
  enum
  {
    VALUE_INPUT,
    VALUE_CONSTANT,
    VALUE_COMPUTED,
  } kind;
  OrtrainDType dtype;
  guint index; /* of the input, the constant or the step */
} Value;

typedef struct
{
  OrtrainPointwiseInstruction instruction;
  guint operands[3];       /* values */
  guint last_use;          /* step, 0: none */
  gboolean needs_register; /* a step that is not the next one reads it */
  gint output;             /* the output that it is, or -1 */
} Step;

typedef struct
{
  const OrtrainKernelSetup *setup;
  GArray *values, *steps, *constants; /* of Value, Step, guint64 */
  gboolean wide, rare;
} Builder;

#define VALUE(self, v) (&g_array_index ((self)->values, Value, (v)))
#define STEP(self, s) (&g_array_index ((self)->steps, Step, (s)))

static gboolean
is_floating (OrtrainDType dtype)
{
  return (ORTRAIN_DTYPE_BIT (dtype) & ORTRAIN_DTYPES_FLOAT) != 0;
}

static OrtrainDType
get_compute_dtype (OrtrainDType dtype)
{
  return ortrain_dtype_is_half (dtype) ? ORTRAIN_DTYPE_FLOAT32 : dtype;
}

/* Refuses, and is NONE. */
static guint G_GNUC_PRINTF (3, 4) refuse (Builder *self, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  ortrain_cuda_refuse (self->setup, error, "%s", text);
  return NONE;
}

static guint
add_value (Builder *self, guint kind, OrtrainDType dtype, guint index)
{
  const Value value = { .kind = kind, .dtype = dtype, .index = index };
  if (!(ORTRAIN_DTYPE_BIT (dtype) & (ORTRAIN_DTYPES_MIXED | ORTRAIN_DTYPES_BOOL)))
    self->wide = TRUE;
  g_array_append_val (self->values, value);
  return self->values->len - 1;
}

/* bits: as in a register of 64 bits */
static guint
add_constant (Builder *self, OrtrainDType dtype, guint64 bits)
{
  g_array_append_val (self->constants, bits);
  return add_value (self, VALUE_CONSTANT, dtype, self->constants->len - 1);
}

static guint
add_element (Builder *self, OrtrainDType dtype, gconstpointer element)
{
  guint64 bits = 0;
  memcpy (&bits, element, MIN (sizeof bits, ortrain_cuda_library->dtype_get_size (dtype)));
  return add_constant (self, dtype, ortrain_pointwise_widen (bits, dtype));
}

static guint
add_real (Builder *self, OrtrainDType dtype, double number)
{
  return add_constant (self, dtype,
                       dtype == ORTRAIN_DTYPE_FLOAT64 ? ortrain_pointwise_from_double (number)
                                                      : ortrain_f32_bits ((float) number));
}

/* in: [3]; the types of the operands are the same, but for a choice */
static guint
emit (Builder *self, OrtrainPointwiseCode code, OrtrainDType dtype, OrtrainDType result, const guint *in, float k0,
      float k1)
{
  Step step = { .operands = { in[0], in[1], in[2] }, .output = -1 };
  step.instruction.code = (guint8) code;
  step.instruction.dtype = (guint8) dtype;
  step.instruction.result = (guint8) result;
  step.instruction.k0 = k0;
  step.instruction.k1 = k1;
  for (guint i = 0; i < 3; i++)
    if (in[i] != NONE && VALUE (self, in[i])->kind == VALUE_COMPUTED)
      {
        Step *from = STEP (self, VALUE (self, in[i])->index);
        from->needs_register = from->needs_register || VALUE (self, in[i])->index + 1 != self->steps->len;
        from->last_use = self->steps->len;
      }
  self->rare = self->rare || code >= ORTRAIN_POINTWISE_RARE;
  g_array_append_val (self->steps, step);
  return add_value (self, VALUE_COMPUTED, result, self->steps->len - 1);
}

static guint
emit_one (Builder *self, OrtrainPointwiseCode code, guint a, OrtrainDType result)
{
  const guint in[3] = { a, NONE, NONE };
  return emit (self, code, get_compute_dtype (VALUE (self, a)->dtype), result, in, 0, 0);
}

static guint
emit_two (Builder *self, OrtrainPointwiseCode code, guint a, guint b, OrtrainDType result)
{
  const guint in[3] = { a, b, NONE };
  return emit (self, code, get_compute_dtype (VALUE (self, a)->dtype), result, in, 0, 0);
}

static guint
lower_cast (Builder *self, guint value, OrtrainDType to)
{
  const Value from = *VALUE (self, value);
  if (from.dtype == to)
    return value;
  if (from.kind == VALUE_CONSTANT)
    return add_constant (self, to,
                         ortrain_pointwise_cast (g_array_index (self->constants, guint64, from.index), from.dtype, to));
  /* floats of 16 bits are widened when they are loaded, or have been rounded in their register */
  if (to == ORTRAIN_DTYPE_FLOAT32 && ortrain_dtype_is_half (from.dtype))
    return add_value (self, from.kind, to, from.index);
  const gboolean narrow =
      ((ORTRAIN_DTYPE_BIT (from.dtype) | ORTRAIN_DTYPE_BIT (to)) & ~(ORTRAIN_DTYPES_MIXED | ORTRAIN_DTYPES_BOOL)) == 0;
  if (narrow && to == ORTRAIN_DTYPE_BOOL)
    return emit_one (self, ORTRAIN_POINTWISE_NONZERO, value, to);
  if (narrow && from.dtype != ORTRAIN_DTYPE_BOOL)
    return emit_one (self, ORTRAIN_POINTWISE_COPY, value, to);
  const guint in[3] = { value, NONE, NONE };
  return emit (self, ORTRAIN_POINTWISE_CAST, from.dtype, to, in, 0, 0);
}

/* ---- operators ---- */

#define INTEGERS_AND_REALS ORTRAIN_DTYPES_NUMERIC
#define REALS ORTRAIN_DTYPES_FLOAT
#define SIGNED_AND_REALS (ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPES_SIGNED)
#define SLOPED (REALS | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64))
#define BOOLS ORTRAIN_DTYPES_BOOL

typedef struct
{
  const char *op_type, *domain;
  guint8 code, arity, boolean; /* boolean: the result is bool */
  OrtrainDTypeSet dtypes;      /* of the operands */
  /* attributes and their values if they are absent */
  const char *k0;
  float k0_default;
  const char *k1;
  float k1_default;
} Operator;

static const Operator operators[] = {
  { "Add", "", ORTRAIN_POINTWISE_ADD, 2, 0, INTEGERS_AND_REALS },
  { "Sub", "", ORTRAIN_POINTWISE_SUB, 2, 0, INTEGERS_AND_REALS },
  { "Mul", "", ORTRAIN_POINTWISE_MUL, 2, 0, INTEGERS_AND_REALS },
  { "Div", "", ORTRAIN_POINTWISE_DIV, 2, 0, INTEGERS_AND_REALS },
  { "Mod", "", ORTRAIN_POINTWISE_MOD, 2, 0, INTEGERS_AND_REALS },
  { "Pow", "", ORTRAIN_POINTWISE_POW, 2, 0, INTEGERS_AND_REALS },
  { "Max", "", ORTRAIN_POINTWISE_MAX, 2, 0, INTEGERS_AND_REALS },
  { "Min", "", ORTRAIN_POINTWISE_MIN, 2, 0, INTEGERS_AND_REALS },
  { "Sum", "", ORTRAIN_POINTWISE_ADD, 2, 0, INTEGERS_AND_REALS },
  { "BitShift", "", ORTRAIN_POINTWISE_SHIFT_LEFT, 2, 0, ORTRAIN_DTYPES_INTEGER },
  { "BitwiseAnd", "", ORTRAIN_POINTWISE_BIT_AND, 2, 0, ORTRAIN_DTYPES_INTEGER },
  { "BitwiseOr", "", ORTRAIN_POINTWISE_BIT_OR, 2, 0, ORTRAIN_DTYPES_INTEGER },
  { "BitwiseXor", "", ORTRAIN_POINTWISE_BIT_XOR, 2, 0, ORTRAIN_DTYPES_INTEGER },
  { "BitwiseNot", "", ORTRAIN_POINTWISE_BIT_NOT, 1, 0, ORTRAIN_DTYPES_INTEGER },
  { "Equal", "", ORTRAIN_POINTWISE_EQUAL, 2, 1, INTEGERS_AND_REALS | BOOLS },
  { "Less", "", ORTRAIN_POINTWISE_LESS, 2, 1, INTEGERS_AND_REALS },
  { "LessOrEqual", "", ORTRAIN_POINTWISE_LESS_EQUAL, 2, 1, INTEGERS_AND_REALS },
  { "Greater", "", ORTRAIN_POINTWISE_GREATER, 2, 1, INTEGERS_AND_REALS },
  { "GreaterOrEqual", "", ORTRAIN_POINTWISE_GREATER_EQUAL, 2, 1, INTEGERS_AND_REALS },
  { "And", "", ORTRAIN_POINTWISE_AND, 2, 1, BOOLS },
  { "Or", "", ORTRAIN_POINTWISE_OR, 2, 1, BOOLS },
  { "Xor", "", ORTRAIN_POINTWISE_XOR, 2, 1, BOOLS },
  { "Not", "", ORTRAIN_POINTWISE_NOT, 1, 1, BOOLS },
  { "IsNaN", "", ORTRAIN_POINTWISE_IS_NAN, 1, 1, REALS },
  { "IsInf", "", ORTRAIN_POINTWISE_IS_INF, 1, 1, REALS },
  { "Neg", "", ORTRAIN_POINTWISE_NEG, 1, 0, SIGNED_AND_REALS },
  { "Abs", "", ORTRAIN_POINTWISE_ABS, 1, 0, INTEGERS_AND_REALS },
  { "Sign", "", ORTRAIN_POINTWISE_SIGN, 1, 0, INTEGERS_AND_REALS },
  { "Floor", "", ORTRAIN_POINTWISE_FLOOR, 1, 0, REALS },
  { "Ceil", "", ORTRAIN_POINTWISE_CEIL, 1, 0, REALS },
  { "Round", "", ORTRAIN_POINTWISE_ROUND, 1, 0, REALS },
  { "Reciprocal", "", ORTRAIN_POINTWISE_RECIPROCAL, 1, 0, REALS },
  { "Sqrt", "", ORTRAIN_POINTWISE_SQRT, 1, 0, REALS },
  { "Exp", "", ORTRAIN_POINTWISE_EXP, 1, 0, REALS },
  { "Log", "", ORTRAIN_POINTWISE_LOG, 1, 0, REALS },
  { "Sin", "", ORTRAIN_POINTWISE_SIN, 1, 0, REALS },
  { "Cos", "", ORTRAIN_POINTWISE_COS, 1, 0, REALS },
  { "Tan", "", ORTRAIN_POINTWISE_TAN, 1, 0, REALS },
  { "Asin", "", ORTRAIN_POINTWISE_ASIN, 1, 0, REALS },
  { "Acos", "", ORTRAIN_POINTWISE_ACOS, 1, 0, REALS },
  { "Atan", "", ORTRAIN_POINTWISE_ATAN, 1, 0, REALS },
  { "Sinh", "", ORTRAIN_POINTWISE_SINH, 1, 0, REALS },
  { "Cosh", "", ORTRAIN_POINTWISE_COSH, 1, 0, REALS },
  { "Asinh", "", ORTRAIN_POINTWISE_ASINH, 1, 0, REALS },
  { "Acosh", "", ORTRAIN_POINTWISE_ACOSH, 1, 0, REALS },
  { "Atanh", "", ORTRAIN_POINTWISE_ATANH, 1, 0, REALS },
  { "Erf", "", ORTRAIN_POINTWISE_ERF, 1, 0, REALS },
  { "ErfGrad", "org.ortrain", ORTRAIN_POINTWISE_ERF_GRAD, 2, 0, REALS },
  { "Relu", "", ORTRAIN_POINTWISE_RELU, 1, 0, SIGNED_AND_REALS },
  { "ReluGrad", "org.ortrain", ORTRAIN_POINTWISE_RELU_GRAD, 2, 0, REALS },
  { "Tanh", "", ORTRAIN_POINTWISE_TANH, 1, 0, REALS },
  { "TanhGrad", "org.ortrain", ORTRAIN_POINTWISE_TANH_GRAD, 2, 0, REALS },
  { "Sigmoid", "", ORTRAIN_POINTWISE_SIGMOID, 1, 0, REALS },
  { "SigmoidGrad", "org.ortrain", ORTRAIN_POINTWISE_SIGMOID_GRAD, 2, 0, REALS },
  { "LeakyRelu", "", ORTRAIN_POINTWISE_LEAKY, 1, 0, REALS, "alpha", 0.01f },
  { "LeakyReluGrad", "org.ortrain", ORTRAIN_POINTWISE_LEAKY_GRAD, 2, 0, REALS, "alpha", 0.01f },
  { "PRelu", "", ORTRAIN_POINTWISE_PRELU, 2, 0, SLOPED },
  { "ThresholdedRelu", "", ORTRAIN_POINTWISE_THRESHOLDED, 1, 0, REALS, "alpha", 1 },
  { "Elu", "", ORTRAIN_POINTWISE_ELU, 1, 0, REALS, "alpha", 1 },
  { "EluGrad", "org.ortrain", ORTRAIN_POINTWISE_ELU_GRAD, 2, 0, REALS, "alpha", 1 },
  { "Selu", "", ORTRAIN_POINTWISE_SELU, 1, 0, REALS, "alpha", 1.67326319217681884765625f, "gamma",
    1.05070102214813232421875f },
  { "SeluGrad", "org.ortrain", ORTRAIN_POINTWISE_SELU_GRAD, 2, 0, REALS, "alpha", 1.67326319217681884765625f, "gamma",
    1.05070102214813232421875f },
  { "Celu", "", ORTRAIN_POINTWISE_CELU, 1, 0, REALS, "alpha", 1 },
  { "CeluGrad", "org.ortrain", ORTRAIN_POINTWISE_CELU_GRAD, 2, 0, REALS, "alpha", 1 },
  { "HardSigmoid", "", ORTRAIN_POINTWISE_HARD_SIGMOID, 1, 0, REALS, "alpha", 0.2f, "beta", 0.5f },
  { "HardSigmoidGrad", "org.ortrain", ORTRAIN_POINTWISE_HARD_SIGMOID_GRAD, 2, 0, REALS, "alpha", 0.2f, "beta", 0.5f },
  { "HardSwish", "", ORTRAIN_POINTWISE_HARD_SWISH, 1, 0, REALS },
  { "HardSwishGrad", "org.ortrain", ORTRAIN_POINTWISE_HARD_SWISH_GRAD, 2, 0, REALS },
  { "Softplus", "", ORTRAIN_POINTWISE_SOFTPLUS, 1, 0, REALS },
  { "SoftplusGrad", "org.ortrain", ORTRAIN_POINTWISE_SOFTPLUS_GRAD, 2, 0, REALS },
  { "Softsign", "", ORTRAIN_POINTWISE_SOFTSIGN, 1, 0, REALS },
  { "SoftsignGrad", "org.ortrain", ORTRAIN_POINTWISE_SOFTSIGN_GRAD, 2, 0, REALS },
  { "Gelu", "", ORTRAIN_POINTWISE_GELU, 1, 0, REALS },
  { "GeluGrad", "org.ortrain", ORTRAIN_POINTWISE_GELU_GRAD, 2, 0, REALS },
  { "Mish", "", ORTRAIN_POINTWISE_MISH, 1, 0, REALS },
  { "MishGrad", "org.ortrain", ORTRAIN_POINTWISE_MISH_GRAD, 2, 0, REALS },
  { "Swish", "", ORTRAIN_POINTWISE_SWISH, 1, 0, REALS, "alpha", 1 },
  { "SwishGrad", "org.ortrain", ORTRAIN_POINTWISE_SWISH_GRAD, 2, 0, REALS, "alpha", 1 },
  { "Shrink", "", ORTRAIN_POINTWISE_SHRINK, 1, 0, REALS, "lambd", 0.5f, "bias", 0 },
};

/* Attributes that say which function an operator is. */
static OrtrainPointwiseCode
choose_code (const Operator *op, const OrtrainAttributes *attributes)
{
  const OrtrainLibraryFunctions *library = ortrain_cuda_library;
  switch (op->code)
    {
    case ORTRAIN_POINTWISE_MOD:
      return library->attributes_get_int (attributes, "fmod", 0) != 0 ? ORTRAIN_POINTWISE_FMOD : ORTRAIN_POINTWISE_MOD;
    case ORTRAIN_POINTWISE_SHIFT_LEFT:
      return g_strcmp0 (library->attributes_get_string (attributes, "direction", "LEFT"), "RIGHT") == 0
                 ? ORTRAIN_POINTWISE_SHIFT_RIGHT
                 : ORTRAIN_POINTWISE_SHIFT_LEFT;
    case ORTRAIN_POINTWISE_GELU:
    case ORTRAIN_POINTWISE_GELU_GRAD:
      {
        const gboolean tanh =
            g_strcmp0 (library->attributes_get_string (attributes, "approximate", "none"), "tanh") == 0;
        if (op->code == ORTRAIN_POINTWISE_GELU)
          return tanh ? ORTRAIN_POINTWISE_GELU_TANH : ORTRAIN_POINTWISE_GELU;
        return tanh ? ORTRAIN_POINTWISE_GELU_TANH_GRAD : ORTRAIN_POINTWISE_GELU_GRAD;
      }
    default:
      return (OrtrainPointwiseCode) op->code;
    }
}

/* An operator of the table, with any number of inputs from the left. */
static guint
lower_table (Builder *self, const char *domain, const char *op_type, const OrtrainAttributes *attributes,
             const guint *in, guint n_in, OrtrainDType out_dtype, GError **error)
{
  const OrtrainLibraryFunctions *library = ortrain_cuda_library;
  const OrtrainDType dtype = VALUE (self, in[0])->dtype, compute = get_compute_dtype (dtype);
  const Operator *op = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (operators) && op == NULL; i++)
    if (g_str_equal (operators[i].op_type, op_type) && g_str_equal (operators[i].domain, domain))
      op = &operators[i];
  if (op == NULL)
    return refuse (self, error, "%s is no element-wise operator", op_type);
  if (!(op->dtypes & ORTRAIN_DTYPE_BIT (dtype)))
    return refuse (self, error, "%s has no instruction for %s", op_type, library->dtype_get_name (dtype));
  float k0 = op->k0 != NULL ? (float) library->attributes_get_float (attributes, op->k0, op->k0_default) : 0;
  float k1 = op->k1 != NULL ? (float) library->attributes_get_float (attributes, op->k1, op->k1_default) : 0;
  if (op->code == ORTRAIN_POINTWISE_IS_INF)
    {
      k0 = library->attributes_get_int (attributes, "detect_negative", 1) != 0;
      k1 = library->attributes_get_int (attributes, "detect_positive", 1) != 0;
    }
  const OrtrainPointwiseCode code = choose_code (op, attributes);
  const OrtrainDType rounded = op->boolean                         ? ORTRAIN_DTYPE_BOOL
                               : ortrain_dtype_is_half (out_dtype) ? out_dtype
                                                                   : compute;
  guint value = lower_cast (self, in[0], compute);
  if (op->arity == 1)
    {
      const guint operands[3] = { value, NONE, NONE };
      value = emit (self, code, compute, compute == ORTRAIN_DTYPE_FLOAT32 || op->boolean ? rounded : compute, operands,
                    k0, k1);
    }
  for (guint i = 1; op->arity == 2 && i < n_in; i++)
    {
      /* of several operands only the last result is the node's */
      const gboolean whole = i + 1 == n_in && compute == ORTRAIN_DTYPE_FLOAT32;
      const guint operands[3] = { value, lower_cast (self, in[i], compute), NONE };
      value = emit (self, code, compute, op->boolean || whole ? rounded : compute, operands, k0, k1);
    }
  return op->boolean ? value : lower_cast (self, value, out_dtype);
}

/* Powers that are known and small become products and roots. */
static guint
lower_pow (Builder *self, guint base, guint exponent, OrtrainDType out_dtype)
{
  const OrtrainDType dtype = VALUE (self, base)->dtype, other = VALUE (self, exponent)->dtype;
  if (!is_floating (dtype))
    {
      if (!is_floating (other))
        return emit_two (self, ORTRAIN_POINTWISE_POW, base, lower_cast (self, exponent, dtype), dtype);
      const guint x = lower_cast (self, base, ORTRAIN_DTYPE_FLOAT64);
      const guint y = lower_cast (self, exponent, ORTRAIN_DTYPE_FLOAT64);
      return lower_cast (self, emit_two (self, ORTRAIN_POINTWISE_POW, x, y, ORTRAIN_DTYPE_FLOAT64), dtype);
    }
  const OrtrainDType compute = get_compute_dtype (dtype);
  const OrtrainDType last = compute == ORTRAIN_DTYPE_FLOAT32 && ortrain_dtype_is_half (out_dtype) ? out_dtype : compute;
  const guint x = lower_cast (self, base, compute), y = lower_cast (self, exponent, compute);
  double p = NAN;
  guint z;
  if (VALUE (self, y)->kind == VALUE_CONSTANT)
    {
      const guint64 bits = g_array_index (self->constants, guint64, VALUE (self, y)->index);
      p = compute == ORTRAIN_DTYPE_FLOAT64 ? ortrain_pointwise_to_double (bits)
                                           : (double) ortrain_f32_from_bits ((guint32) bits);
    }
  if (p == 1.0)
    z = x;
  else if (p == 2.0)
    z = emit_two (self, ORTRAIN_POINTWISE_MUL, x, x, last);
  else if (p == 3.0)
    z = emit_two (self, ORTRAIN_POINTWISE_MUL, emit_two (self, ORTRAIN_POINTWISE_MUL, x, x, compute), x, last);
  else if (p == 4.0)
    {
      z = emit_two (self, ORTRAIN_POINTWISE_MUL, x, x, compute);
      z = emit_two (self, ORTRAIN_POINTWISE_MUL, z, z, last);
    }
  else if (p == 0.5)
    z = emit_one (self, ORTRAIN_POINTWISE_SQRT, x, last);
  else if (p == -0.5)
    z = emit_one (self, ORTRAIN_POINTWISE_RECIPROCAL, emit_one (self, ORTRAIN_POINTWISE_SQRT, x, compute), last);
  else if (p == -1.0)
    z = emit_one (self, ORTRAIN_POINTWISE_RECIPROCAL, x, last);
  else
    z = emit_two (self, ORTRAIN_POINTWISE_POW, x, y, last);
  return lower_cast (self, z, out_dtype);
}

static gboolean
is_mixed (OrtrainDType dtype)
{
  return (ORTRAIN_DTYPE_BIT (dtype) & ORTRAIN_DTYPES_MIXED) != 0;
}

static guint
lower_where (Builder *self, const guint *operands, OrtrainDType out_dtype, GError **error)
{
  guint in[3] = { operands[0], operands[1], operands[2] };
  const OrtrainDType b = VALUE (self, in[1])->dtype, c = VALUE (self, in[2])->dtype;
  if (is_mixed (b) && is_mixed (c) && is_mixed (out_dtype))
    {
      in[1] = lower_cast (self, in[1], out_dtype);
      in[2] = lower_cast (self, in[2], out_dtype);
    }
  else if (b != out_dtype || c != out_dtype)
    return refuse (self, error, "Where does not choose between %s and %s", ortrain_cuda_library->dtype_get_name (b),
                   ortrain_cuda_library->dtype_get_name (c));
  return emit (self, ORTRAIN_POINTWISE_WHERE, out_dtype, out_dtype, in, 0, 0);
}

static guint
lower_clip (Builder *self, const guint *in, guint n_in, OrtrainDType out_dtype)
{
  const OrtrainDType compute = get_compute_dtype (VALUE (self, in[0])->dtype);
  guint value = lower_cast (self, in[0], compute);
  for (guint i = 1; i < 3; i++)
    if (i < n_in && in[i] != NONE)
      value = emit_two (self, i == 1 ? ORTRAIN_POINTWISE_MAX : ORTRAIN_POINTWISE_MIN, value,
                        lower_cast (self, in[i], compute), compute);
  return lower_cast (self, value, out_dtype);
}

static guint
lower_mean (Builder *self, const guint *in, guint n_in, OrtrainDType out_dtype)
{
  const OrtrainDType compute = get_compute_dtype (VALUE (self, in[0])->dtype);
  guint value = lower_cast (self, in[0], compute);
  for (guint i = 1; i < n_in; i++)
    value = emit_two (self, ORTRAIN_POINTWISE_ADD, value, lower_cast (self, in[i], compute), compute);
  value = emit_two (self, ORTRAIN_POINTWISE_DIV, value, add_real (self, compute, n_in), compute);
  return lower_cast (self, value, out_dtype);
}

/* (x - mean)·factor + bias */
static guint
lower_norm_apply (Builder *self, const guint *in, OrtrainDType out_dtype)
{
  static const OrtrainPointwiseCode steps[] = { ORTRAIN_POINTWISE_SUB, ORTRAIN_POINTWISE_MUL, ORTRAIN_POINTWISE_ADD };
  const OrtrainDType compute = get_compute_dtype (VALUE (self, in[0])->dtype);
  guint value = lower_cast (self, in[0], compute);
  for (guint i = 0; i < 3; i++)
    value = emit_two (self, steps[i], value, lower_cast (self, in[1 + i], compute), compute);
  return lower_cast (self, value, out_dtype);
}

/* in: [n_in], NONE where absent. NONE with an error when it cannot be done. */
static guint
lower (Builder *self, const char *domain, const char *op_type, const OrtrainAttributes *attributes, const guint *in,
       guint n_in, OrtrainDType out_dtype, GError **error)
{
  const gboolean onnx = domain[0] == 0;
  const gboolean clip = onnx && g_str_equal (op_type, "Clip");
  const gboolean cast = onnx && (g_str_equal (op_type, "Cast") || g_str_equal (op_type, "CastLike"));
  for (guint i = 0; i < MAX (n_in, 1); i++)
    if ((i >= n_in || in[i] == NONE) && !((clip || cast) && i > 0))
      return refuse (self, error, "input %u of %s is absent", i, op_type);
  if (clip)
    return lower_clip (self, in, n_in, out_dtype);
  if (cast || (onnx && g_str_equal (op_type, "Identity")))
    return lower_cast (self, in[0], out_dtype);
  if (onnx && g_str_equal (op_type, "Where") && n_in == 3)
    return lower_where (self, in, out_dtype, error);
  if (onnx && g_str_equal (op_type, "Pow") && n_in == 2)
    return lower_pow (self, in[0], in[1], out_dtype);
  if (onnx && g_str_equal (op_type, "Mean"))
    return lower_mean (self, in, n_in, out_dtype);
  if (!onnx && g_str_equal (op_type, "NormApply") && n_in == 4)
    return lower_norm_apply (self, in, out_dtype);
  return lower_table (self, domain, op_type, attributes, in, n_in, out_dtype, error);
}

static guint
add_input (Builder *self, guint index)
{
  const OrtrainOperand *input = &self->setup->inputs[index];
  if (input->dtype == ORTRAIN_DTYPE_UNDEFINED)
    return NONE;
  if (input->n_elements == 1 && input->constant != NULL && self->constants->len < ORTRAIN_POINTWISE_MAX_CONSTANTS)
    return add_element (self, input->dtype, input->constant);
  return add_value (self, VALUE_INPUT, input->dtype, index);
}

static void
add_output (Builder *self, guint k, guint value)
{
  if (self->setup->outputs[k].dtype == ORTRAIN_DTYPE_UNDEFINED)
    return;
  const OrtrainDType dtype = VALUE (self, value)->dtype;
  if (VALUE (self, value)->kind == VALUE_COMPUTED)
    {
      Step *step = STEP (self, VALUE (self, value)->index);
      if (step->output < 0 && step->instruction.result == dtype)
        {
          step->output = (gint) k;
          return;
        }
    }
  value = emit_one (self, ORTRAIN_POINTWISE_COPY, value, dtype);
  STEP (self, VALUE (self, value)->index)->output = (gint) k;
}

static gboolean
lower_chain (Builder *self, const OrtrainChain *chain, GError **error)
{
  const OrtrainKernelSetup *setup = self->setup;
  g_autofree guint *values = g_new (guint, chain->n_inputs + chain->n_constants + chain->n_ops + 1);
  guint n = 0;
  for (guint i = 0; i < chain->n_inputs; i++)
    values[n++] = add_input (self, i);
  for (guint i = 0; i < chain->n_constants; i++)
    {
      gconstpointer element = ortrain_cuda_library->tensor_peek (chain->constants[i]);
      if (element == NULL)
        return refuse (self, error, "a constant of the chain was released") != NONE;
      values[n++] = add_element (self, ortrain_cuda_library->tensor_get_dtype (chain->constants[i]), element);
    }
  for (guint s = 0; s < chain->n_ops; s++)
    {
      const OrtrainChainOp *op = &chain->ops[s];
      g_autofree guint *in = g_new (guint, op->n_inputs + 1);
      for (guint i = 0; i < op->n_inputs; i++)
        in[i] = op->inputs[i] != G_MAXUINT ? values[op->inputs[i]] : NONE;
      values[n] = lower (self, op->domain, op->op_type, op->attributes, in, op->n_inputs, op->dtype, error);
      if (values[n++] == NONE)
        {
          g_prefix_error (error, "in the chain, %s '%s': ", op->op_type, op->name);
          return FALSE;
        }
    }
  for (guint k = 0; k < chain->n_outputs && k < setup->n_outputs; k++)
    if (setup->outputs[k].dtype != ORTRAIN_DTYPE_UNDEFINED)
      add_output (self, k, lower_cast (self, values[chain->outputs[k]], setup->outputs[k].dtype));
  return TRUE;
}

/* ---- shapes ---- */

/* Strides of an operand over the dimensions of the output, 0 where it repeats. FALSE if it does not fit. */
static gboolean
get_strides (const OrtrainOperand *in, const OrtrainOperand *out, gint64 *strides)
{
  gint64 step = 1;
  if (in->rank > out->rank)
    return FALSE;
  for (guint d = out->rank; d-- > 0;)
    {
      const guint behind = out->rank - d;
      const gint64 dim = behind <= in->rank ? in->dims[in->rank - behind] : 1;
      if (dim != 1 && dim != out->dims[d])
        return FALSE;
      strides[d] = dim == 1 ? 0 : step;
      step *= dim;
    }
  return TRUE;
}

/* Merges dimensions that all inputs walk through alike. */
static gboolean
plan_space (Builder *self, OrtrainPointwisePlan *plan, GError **error)
{
  const OrtrainKernelSetup *setup = self->setup;
  OrtrainPointwiseProgram *program = &plan->program;
  const OrtrainOperand *out = NULL;
  for (guint k = 0; k < setup->n_outputs; k++)
    {
      const OrtrainOperand *output = &setup->outputs[k];
      if (output->dtype == ORTRAIN_DTYPE_UNDEFINED)
        continue;
      if (out != NULL &&
          (output->rank != out->rank || memcmp (output->dims, out->dims, out->rank * sizeof (gint64)) != 0))
        return refuse (self, error, "output %u has a shape of its own", k) != NONE;
      out = out != NULL ? out : output;
    }
  if (out == NULL)
    return refuse (self, error, "it has no output") != NONE;
  const guint rank = out->rank;
  g_autofree gint64 *strides = g_new0 (gint64, (setup->n_inputs + 1) * (rank + 1));
  g_autofree gint64 *dims = g_new0 (gint64, rank + 1);
#define STRIDE(i, d) strides[(i) * (rank + 1) + (d)]
  for (guint i = 0; i < setup->n_inputs; i++)
    if (setup->inputs[i].dtype != ORTRAIN_DTYPE_UNDEFINED && !get_strides (&setup->inputs[i], out, &STRIDE (i, 0)))
      return refuse (self, error, "the shape of input %u cannot be broadcast to that of the output", i) != NONE;
  guint m = 0;
  for (guint d = 0; d < rank; d++)
    {
      if (out->dims[d] == 1)
        continue;
      gboolean merge = m > 0;
      for (guint i = 0; merge && i < setup->n_inputs; i++)
        merge = STRIDE (i, m - 1) == STRIDE (i, d) * out->dims[d];
      if (!merge)
        m++;
      dims[m - 1] = merge ? dims[m - 1] * out->dims[d] : out->dims[d];
      for (guint i = 0; i < setup->n_inputs; i++)
        STRIDE (i, m - 1) = STRIDE (i, d);
    }
  if (m == 0)
    dims[m++] = 1; /* one element in all; the strides are 0 */

  plan->n_elements = out->n_elements;
  plan->outer = dims[0];
  plan->rest = 1;
  for (guint d = 1; d < m; d++)
    plan->rest *= dims[d];
  program->n_inputs = (guint8) setup->n_inputs;
  if (out->n_elements == 0)
    return TRUE;
  if (m > ORTRAIN_POINTWISE_MAX_DIMS || (out->n_elements > G_MAXINT32 && plan->rest > G_MAXINT32 / 16))
    return refuse (self, error, "the operands repeat along %u dimensions of %" G_GINT64_FORMAT " elements", m,
                   out->n_elements) != NONE;
  program->n_dims = (guint8) m;
  program->whole_vectors = m == 1 || dims[m - 1] % 8 == 0 ? 8 : dims[m - 1] % 4 == 0 ? 4 : 0;
  for (guint d = 1; d < m; d++)
    program->divisors[d] = ortrain_divisor (dims[d]);

  guint n_strided = 0;
  for (guint i = 0; i < setup->n_inputs; i++)
    {
      OrtrainPointwiseOperand *operand = &program->operands[i];
      gboolean full = TRUE;
      gint64 step = 1;
      for (guint d = m; d-- > 0; step *= dims[d])
        full = full && STRIDE (i, d) == step;
      operand->dtype = (guint8) setup->inputs[i].dtype;
      operand->kind = setup->inputs[i].n_elements == 1 ? ORTRAIN_POINTWISE_ONE
                      : full                           ? ORTRAIN_POINTWISE_FULL
                                                       : ORTRAIN_POINTWISE_STRIDED;
      if (out->n_elements == 1 && operand->dtype != ORTRAIN_DTYPE_UNDEFINED)
        operand->kind = ORTRAIN_POINTWISE_FULL;
      if (operand->kind != ORTRAIN_POINTWISE_STRIDED || operand->dtype == ORTRAIN_DTYPE_UNDEFINED)
        continue;
      if (n_strided == ORTRAIN_POINTWISE_MAX_STRIDED)
        return refuse (self, error, "more than %d operands repeat", ORTRAIN_POINTWISE_MAX_STRIDED) != NONE;
      for (guint d = 0; d < m; d++)
        program->strides[n_strided][d] = (guint32) STRIDE (i, d);
      operand->strides = (guint8) n_strided++;
    }
#undef STRIDE
  return TRUE;
}

/* ---- the finished program ---- */

static guint8
get_operand (Builder *self, guint value, guint step, const guint8 *slots)
{
  if (value == NONE)
    return ORTRAIN_POINTWISE_NONE;
  const Value *v = VALUE (self, value);
  if (v->kind == VALUE_INPUT)
    return (guint8) (ORTRAIN_POINTWISE_INPUT + v->index);
  if (v->kind == VALUE_CONSTANT)
    return (guint8) (ORTRAIN_POINTWISE_CONSTANT + v->index);
  return v->index + 1 == step ? ORTRAIN_POINTWISE_LAST : slots[v->index];
}

/* Registers: one is free again for the result of the step that reads it last. */
static gboolean
finish (Builder *self, OrtrainPointwisePlan *plan, GError **error)
{
  const OrtrainKernelSetup *setup = self->setup;
  OrtrainPointwiseProgram *program = &plan->program;
  if (self->steps->len > ORTRAIN_POINTWISE_MAX_INSTRUCTIONS || self->constants->len > ORTRAIN_POINTWISE_MAX_CONSTANTS)
    return refuse (self, error, "the chain is too long: %u instructions and %u constants", self->steps->len,
                   self->constants->len) != NONE;
  guint8 slots[ORTRAIN_POINTWISE_MAX_INSTRUCTIONS];
  guint32 used = 0;
  for (guint s = 0; s < self->steps->len; s++)
    {
      const Step *step = STEP (self, s);
      OrtrainPointwiseInstruction *instruction = &program->instructions[s];
      *instruction = step->instruction;
      instruction->a = get_operand (self, step->operands[0], s, slots);
      instruction->b = get_operand (self, step->operands[1], s, slots);
      instruction->c = get_operand (self, step->operands[2], s, slots);
      for (guint e = 0; e < s; e++)
        if (STEP (self, e)->needs_register && STEP (self, e)->last_use == s)
          used &= ~((guint32) 1 << slots[e]);
      slots[s] = ORTRAIN_POINTWISE_NONE;
      if (step->needs_register)
        {
          guint slot = 0;
          while (slot < ORTRAIN_POINTWISE_SLOTS && used >> slot & 1)
            slot++;
          if (slot == ORTRAIN_POINTWISE_SLOTS)
            return refuse (self, error, "the chain needs more than %d registers", ORTRAIN_POINTWISE_SLOTS) != NONE;
          used |= (guint32) 1 << slot;
          plan->n_slots = MAX (plan->n_slots, slot + 1);
          slots[s] = (guint8) slot;
        }
      instruction->slot = slots[s];
      instruction->output =
          step->output >= 0 ? (guint8) (setup->n_inputs + (guint) step->output) : ORTRAIN_POINTWISE_NONE;
    }
  program->n_instructions = (guint8) self->steps->len;
  for (guint k = 0; k < setup->n_outputs; k++)
    program->operands[setup->n_inputs + k].dtype = (guint8) setup->outputs[k].dtype;
  for (guint v = 0; v < self->values->len; v++)
    if (VALUE (self, v)->kind == VALUE_CONSTANT)
      {
        const guint c = VALUE (self, v)->index;
        const guint64 bits = g_array_index (self->constants, guint64, c);
        program->constants[c] = !self->wide && VALUE (self, v)->dtype == ORTRAIN_DTYPE_BOOL
                                    ? ortrain_f32_bits (bits != 0 ? 1.0f : 0.0f)
                                    : bits;
      }
  plan->wide = self->wide;
  plan->rare = self->rare;
  plan->n_outputs = setup->n_outputs;
  return TRUE;
}

/* An output may take the place of an input that no later instruction reads. */
static void
find_inplace (Builder *self, const OrtrainPointwiseProgram *program, OrtrainKernelSetup *setup)
{
  for (guint i = 0; i < MIN (setup->n_inputs, 64); i++)
    {
      gint last = -1;
      for (guint s = 0; s < self->steps->len; s++)
        for (guint o = 0; o < 3; o++)
          {
            const guint value = STEP (self, s)->operands[o];
            if (value != NONE && VALUE (self, value)->kind == VALUE_INPUT && VALUE (self, value)->index == i)
              last = (gint) s;
          }
      for (guint s = 0; last >= 0 && s < self->steps->len; s++)
        {
          const gint k = STEP (self, s)->output;
          if (k >= 0 && k < ORTRAIN_KERNEL_MAX_OUTPUTS && last <= (gint) s &&
              program->operands[i].kind == ORTRAIN_POINTWISE_FULL &&
              setup->inputs[i].n_bytes == setup->outputs[k].n_bytes)
            setup->inplace[k] |= (guint64) 1 << i;
        }
    }
}

static gboolean
build (Builder *self, OrtrainKernelSetup *setup, OrtrainPointwisePlan *plan, GError **error)
{
  const OrtrainChain *chain = ortrain_chain_get (setup->body);
  if (setup->body != NULL && (chain == NULL || chain->n_inputs != setup->n_inputs))
    return refuse (self, error, "the body was not inferred") != NONE;
  if (setup->n_inputs + setup->n_outputs > ORTRAIN_POINTWISE_MAX_OPERANDS)
    return refuse (self, error, "more than %d operands", ORTRAIN_POINTWISE_MAX_OPERANDS) != NONE;
  if (!plan_space (self, plan, error))
    return FALSE;
  if (chain != NULL)
    {
      if (!lower_chain (self, chain, error))
        return FALSE;
    }
  else
    {
      guint in[ORTRAIN_POINTWISE_MAX_OPERANDS];
      for (guint i = 0; i < setup->n_inputs; i++)
        in[i] = add_input (self, i);
      const guint value = lower (self, setup->domain, setup->op_type, setup->attributes, in, setup->n_inputs,
                                 setup->outputs[0].dtype, error);
      if (value == NONE)
        return FALSE;
      add_output (self, 0, value);
    }
  for (guint v = 0; v < self->values->len; v++)
    if (!(ORTRAIN_DTYPE_BIT (VALUE (self, v)->dtype) & (ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL)))
      return refuse (self, error, "it does not compute with %s",
                     ortrain_cuda_library->dtype_get_name (VALUE (self, v)->dtype)) != NONE;
  return finish (self, plan, error);
}

gboolean
ortrain_cuda_pointwise_prepare (OrtrainKernelSetup *setup, GError **error)
{
  /* CastLike reads the type of its second input, never its elements or shape. */
  if (setup->body == NULL && g_str_equal (setup->op_type, "CastLike"))
    setup->n_inputs = MIN (setup->n_inputs, 1);
  Builder self = { .setup = setup };
  self.values = g_array_new (FALSE, TRUE, sizeof (Value));
  self.steps = g_array_new (FALSE, TRUE, sizeof (Step));
  self.constants = g_array_new (FALSE, TRUE, sizeof (guint64));
  g_autofree OrtrainPointwisePlan *plan = g_new0 (OrtrainPointwisePlan, 1);
  const gboolean ok = build (&self, setup, plan, error);
  if (ok)
    {
      find_inplace (&self, &plan->program, setup);
      setup->flops = (double) self.steps->len * (double) plan->n_elements;
      setup->constants = g_steal_pointer (&plan);
      setup->constants_free = g_free;
    }
  g_array_unref (self.values);
  g_array_unref (self.steps);
  g_array_unref (self.constants);
  return ok;
}
