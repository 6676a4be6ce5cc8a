/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-divide.h"
#include "cuda/ortrain-cuda-private.h"

#include "core/ortrain-float-private.h"

/* Element-wise operators, alone or in a fused chain, as a program of instructions over vectors of elements: prepare
 * makes it, kernels get it by value. Where all values are float32, float16, bfloat16 or bool a register is a float;
 * else it has 64 bits: the bits of a float or a double, or an integer that is extended to 64 bits by its sign, or with
 * zeros. */

#define ORTRAIN_POINTWISE_MAX_DIMS 6
#define ORTRAIN_POINTWISE_MAX_INSTRUCTIONS 64
#define ORTRAIN_POINTWISE_MAX_OPERANDS 40
#define ORTRAIN_POINTWISE_MAX_STRIDED 16
#define ORTRAIN_POINTWISE_MAX_CONSTANTS 24
#define ORTRAIN_POINTWISE_SLOTS 24
#define ORTRAIN_POINTWISE_FEW_SLOTS 4

/* Codes of instructions. Those from RARE on call long functions, which would cost the others registers. */
typedef enum
{
  ORTRAIN_POINTWISE_COPY,
  ORTRAIN_POINTWISE_CAST,
  ORTRAIN_POINTWISE_NONZERO,
  ORTRAIN_POINTWISE_WHERE,
  ORTRAIN_POINTWISE_ADD,
  ORTRAIN_POINTWISE_SUB,
  ORTRAIN_POINTWISE_MUL,
  ORTRAIN_POINTWISE_DIV,
  ORTRAIN_POINTWISE_MAX,
  ORTRAIN_POINTWISE_MIN,
  ORTRAIN_POINTWISE_EQUAL,
  ORTRAIN_POINTWISE_LESS,
  ORTRAIN_POINTWISE_LESS_EQUAL,
  ORTRAIN_POINTWISE_GREATER,
  ORTRAIN_POINTWISE_GREATER_EQUAL,
  ORTRAIN_POINTWISE_AND,
  ORTRAIN_POINTWISE_OR,
  ORTRAIN_POINTWISE_XOR,
  ORTRAIN_POINTWISE_NOT,
  ORTRAIN_POINTWISE_IS_NAN,
  ORTRAIN_POINTWISE_IS_INF,
  ORTRAIN_POINTWISE_NEG,
  ORTRAIN_POINTWISE_ABS,
  ORTRAIN_POINTWISE_SIGN,
  ORTRAIN_POINTWISE_FLOOR,
  ORTRAIN_POINTWISE_CEIL,
  ORTRAIN_POINTWISE_ROUND,
  ORTRAIN_POINTWISE_RECIPROCAL,
  ORTRAIN_POINTWISE_SQRT,
  ORTRAIN_POINTWISE_EXP,
  ORTRAIN_POINTWISE_LOG,
  ORTRAIN_POINTWISE_ERF,
  ORTRAIN_POINTWISE_ERF_GRAD,
  ORTRAIN_POINTWISE_RELU,
  ORTRAIN_POINTWISE_RELU_GRAD,
  ORTRAIN_POINTWISE_TANH,
  ORTRAIN_POINTWISE_TANH_GRAD,
  ORTRAIN_POINTWISE_SIGMOID,
  ORTRAIN_POINTWISE_SIGMOID_GRAD,
  ORTRAIN_POINTWISE_LEAKY,
  ORTRAIN_POINTWISE_LEAKY_GRAD,
  ORTRAIN_POINTWISE_PRELU,
  ORTRAIN_POINTWISE_THRESHOLDED,
  ORTRAIN_POINTWISE_ELU,
  ORTRAIN_POINTWISE_ELU_GRAD,
  ORTRAIN_POINTWISE_SELU,
  ORTRAIN_POINTWISE_SELU_GRAD,
  ORTRAIN_POINTWISE_CELU,
  ORTRAIN_POINTWISE_CELU_GRAD,
  ORTRAIN_POINTWISE_HARD_SIGMOID,
  ORTRAIN_POINTWISE_HARD_SIGMOID_GRAD,
  ORTRAIN_POINTWISE_HARD_SWISH,
  ORTRAIN_POINTWISE_HARD_SWISH_GRAD,
  ORTRAIN_POINTWISE_SOFTPLUS,
  ORTRAIN_POINTWISE_SOFTPLUS_GRAD,
  ORTRAIN_POINTWISE_SOFTSIGN,
  ORTRAIN_POINTWISE_SOFTSIGN_GRAD,
  ORTRAIN_POINTWISE_GELU,
  ORTRAIN_POINTWISE_GELU_GRAD,
  ORTRAIN_POINTWISE_GELU_TANH,
  ORTRAIN_POINTWISE_GELU_TANH_GRAD,
  ORTRAIN_POINTWISE_MISH,
  ORTRAIN_POINTWISE_MISH_GRAD,
  ORTRAIN_POINTWISE_SWISH,
  ORTRAIN_POINTWISE_SWISH_GRAD,
  ORTRAIN_POINTWISE_SHRINK,
  ORTRAIN_POINTWISE_BIT_AND,
  ORTRAIN_POINTWISE_BIT_OR,
  ORTRAIN_POINTWISE_BIT_XOR,
  ORTRAIN_POINTWISE_BIT_NOT,
  ORTRAIN_POINTWISE_SHIFT_LEFT,
  ORTRAIN_POINTWISE_SHIFT_RIGHT,
  ORTRAIN_POINTWISE_RARE,
  ORTRAIN_POINTWISE_POW = ORTRAIN_POINTWISE_RARE,
  ORTRAIN_POINTWISE_MOD,
  ORTRAIN_POINTWISE_FMOD,
  ORTRAIN_POINTWISE_SIN,
  ORTRAIN_POINTWISE_COS,
  ORTRAIN_POINTWISE_TAN,
  ORTRAIN_POINTWISE_ASIN,
  ORTRAIN_POINTWISE_ACOS,
  ORTRAIN_POINTWISE_ATAN,
  ORTRAIN_POINTWISE_SINH,
  ORTRAIN_POINTWISE_COSH,
  ORTRAIN_POINTWISE_ASINH,
  ORTRAIN_POINTWISE_ACOSH,
  ORTRAIN_POINTWISE_ATANH,
} OrtrainPointwiseCode;

/* Operands of an instruction: a register's number, or one of these. */
#define ORTRAIN_POINTWISE_INPUT 0x40    /* + number */
#define ORTRAIN_POINTWISE_CONSTANT 0x80 /* + number */
#define ORTRAIN_POINTWISE_LAST 0xfe     /* the result of the instruction before */
#define ORTRAIN_POINTWISE_NONE 0xff

typedef struct
{
  guint8 code;
  guint8 dtype;   /* of the operands, after widening to float32; of CAST: as it is */
  guint8 result;  /* the result is rounded to this type */
  guint8 slot;    /* the register that it goes to, or NONE */
  guint8 a, b, c; /* operands */
  guint8 output;  /* or NONE */
  float k0, k1;   /* attributes */
} OrtrainPointwiseInstruction;

typedef enum
{
  ORTRAIN_POINTWISE_ONE,     /* one element for all */
  ORTRAIN_POINTWISE_FULL,    /* an element for each of the output, in its order */
  ORTRAIN_POINTWISE_STRIDED, /* by its strides over the dimensions of the space */
} OrtrainPointwiseKind;

typedef struct
{
  guint8 kind, dtype, strides, padding; /* strides: row of the program's */
} OrtrainPointwiseOperand;

typedef struct
{
  void *addresses[ORTRAIN_POINTWISE_MAX_OPERANDS]; /* inputs, then outputs; run fills them in */
  gint64 position;                                 /* of element 0, for faults */
  guint32 n_elements;
  guint8 n_instructions, n_inputs, n_dims;
  guint8 whole_vectors; /* the longest vector that the innermost dimension is a multiple of: 8, 4 or 0 for none */
  OrtrainDivisor divisors[ORTRAIN_POINTWISE_MAX_DIMS];
  guint32 strides[ORTRAIN_POINTWISE_MAX_STRIDED][ORTRAIN_POINTWISE_MAX_DIMS];
  OrtrainPointwiseOperand operands[ORTRAIN_POINTWISE_MAX_OPERANDS];
  guint64 constants[ORTRAIN_POINTWISE_MAX_CONSTANTS];
  OrtrainPointwiseInstruction instructions[ORTRAIN_POINTWISE_MAX_INSTRUCTIONS];
} OrtrainPointwiseProgram;

/* The data that prepare leaves for run. */
typedef struct
{
  OrtrainPointwiseProgram program;
  gboolean wide, rare;
  guint n_slots, n_outputs;
  gint64 n_elements, outer, rest; /* outer × rest elements; a launch takes 2^31 at most */
} OrtrainPointwisePlan;

/* Elements that a thread has at once: 8 where operands of 16 bits are then read or written 16 bytes at a time, but not
 * for chains with so many registers that they fill the shared memory. */
G_GNUC_UNUSED static guint
ortrain_pointwise_get_vector (const OrtrainPointwisePlan *plan)
{
  const OrtrainPointwiseProgram *program = &plan->program;
  gboolean has_halves = FALSE;
  if (plan->wide || plan->rare || plan->n_slots > ORTRAIN_POINTWISE_FEW_SLOTS)
    return plan->wide ? 2 : 4;
  for (guint i = 0; i < program->n_inputs + plan->n_outputs; i++)
    {
      const OrtrainPointwiseOperand *operand = &program->operands[i];
      const gboolean is_whole = i >= program->n_inputs || operand->kind == ORTRAIN_POINTWISE_FULL;
      if (!is_whole && operand->kind == ORTRAIN_POINTWISE_STRIDED && program->whole_vectors < 8)
        return 4;
      has_halves = has_halves ||
                   (is_whole && (operand->dtype == ORTRAIN_DTYPE_FLOAT16 || operand->dtype == ORTRAIN_DTYPE_BFLOAT16));
    }
  return has_halves ? 8 : 4;
}

G_BEGIN_DECLS

gboolean ortrain_cuda_pointwise_prepare (OrtrainKernelSetup *setup, GError **error);

G_END_DECLS

/* ---- values in registers of 64 bits ---- */

ORTRAIN_FUNCTION guint64
ortrain_pointwise_from_double (double x)
{
  union
  {
    double f;
    guint64 u;
  } v = { x };
  return v.u;
}

ORTRAIN_FUNCTION double
ortrain_pointwise_to_double (guint64 bits)
{
  union
  {
    guint64 u;
    double f;
  } v = { bits };
  return v.f;
}

/* The low bits of an integer, extended again. */
ORTRAIN_FUNCTION guint64
ortrain_pointwise_wrap (guint64 x, OrtrainDType dtype)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_INT8:
      return (guint64) (gint64) (gint8) x;
    case ORTRAIN_DTYPE_UINT8:
      return (guint8) x;
    case ORTRAIN_DTYPE_INT16:
      return (guint64) (gint64) (gint16) x;
    case ORTRAIN_DTYPE_UINT16:
      return (guint16) x;
    case ORTRAIN_DTYPE_INT32:
      return (guint64) (gint64) (gint32) x;
    case ORTRAIN_DTYPE_UINT32:
      return (guint32) x;
    case ORTRAIN_DTYPE_BOOL:
      return x != 0;
    default:
      return x;
    }
}

/* bits: those of an element, above them zeros */
ORTRAIN_FUNCTION guint64
ortrain_pointwise_widen (guint64 bits, OrtrainDType dtype)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    return ortrain_f32_bits (ortrain_half_to_float ((guint16) bits));
  if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    return ortrain_f32_bits (ortrain_bfloat16_to_float ((guint16) bits));
  return ortrain_pointwise_wrap (bits, dtype);
}

ORTRAIN_FUNCTION float
ortrain_pointwise_round (float x, OrtrainDType dtype)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    return ortrain_half_to_float (ortrain_float_to_half (x));
  if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    return ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (x));
  return x;
}

ORTRAIN_FUNCTION gboolean
ortrain_pointwise_is_float (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_FLOAT32 || dtype == ORTRAIN_DTYPE_FLOAT16 || dtype == ORTRAIN_DTYPE_BFLOAT16;
}

ORTRAIN_FUNCTION gboolean
ortrain_pointwise_is_signed (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_INT64 || dtype == ORTRAIN_DTYPE_INT32 || dtype == ORTRAIN_DTYPE_INT16 ||
         dtype == ORTRAIN_DTYPE_INT8;
}

/* Floats go to integers by truncation, through a wider integer whose low bits are kept, as on the CPU. */
ORTRAIN_FUNCTION guint64
ortrain_pointwise_truncate (double x, OrtrainDType to)
{
  const gint64 least = -(gint64) 0x7fffffffffffffff - 1;
  const gint64 wide = x >= -0x1p63 && x < 0x1p63 ? (gint64) x : least;
  if (to == ORTRAIN_DTYPE_UINT64 && x >= 0x1p63)
    return x >= 0x1p64 ? 0 : (guint64) (gint64) (x - 0x1p63) ^ ((guint64) 1 << 63);
  if (to == ORTRAIN_DTYPE_INT64 || to == ORTRAIN_DTYPE_UINT64 || to == ORTRAIN_DTYPE_UINT32)
    return ortrain_pointwise_wrap ((guint64) wide, to);
  return ortrain_pointwise_wrap (
      (guint64) (x > -0x1p31 - 1.0 && x < 0x1p31 ? (gint64) (gint32) x : -(gint64) 0x80000000), to);
}

ORTRAIN_FUNCTION guint64
ortrain_pointwise_cast (guint64 x, OrtrainDType from, OrtrainDType to)
{
  if (ortrain_pointwise_is_float (from) && ortrain_pointwise_is_float (to))
    return ortrain_f32_bits (ortrain_pointwise_round (ortrain_f32_from_bits ((guint32) x), to));
  if (ortrain_pointwise_is_float (from) || from == ORTRAIN_DTYPE_FLOAT64)
    {
      const double real = from == ORTRAIN_DTYPE_FLOAT64 ? ortrain_pointwise_to_double (x)
                                                        : (double) ortrain_f32_from_bits ((guint32) x);
      if (to == ORTRAIN_DTYPE_FLOAT64)
        return ortrain_pointwise_from_double (real);
      if (to == ORTRAIN_DTYPE_FLOAT32)
        return ortrain_f32_bits ((float) real);
      if (ortrain_pointwise_is_float (to))
        return ortrain_f32_bits (ortrain_pointwise_round (ortrain_double_to_odd_float (real), to));
      return to == ORTRAIN_DTYPE_BOOL ? real != 0.0 : ortrain_pointwise_truncate (real, to);
    }
  const gboolean is_signed = ortrain_pointwise_is_signed (from);
  if (to == ORTRAIN_DTYPE_FLOAT32)
    return ortrain_f32_bits (is_signed ? (float) (gint64) x : (float) x);
  if (to == ORTRAIN_DTYPE_FLOAT64 || ortrain_pointwise_is_float (to))
    {
      const double real = is_signed ? (double) (gint64) x : (double) x;
      return to == ORTRAIN_DTYPE_FLOAT64
                 ? ortrain_pointwise_from_double (real)
                 : ortrain_f32_bits (ortrain_pointwise_round (ortrain_double_to_odd_float (real), to));
    }
  return ortrain_pointwise_wrap (x, to);
}
