/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-convert.h"
#include "cuda/ortrain-cuda-device.h"
#include "cuda/ortrain-cuda-elements.h"
#include "cuda/ortrain-cuda-pointwise-compute.h"
#include "cuda/ortrain-cuda-pointwise-program.h"

/* Element-wise operators: an interpreter of programs. A thread has a vector of each value: the last result in its own
 * registers, values that are read later in columns of shared memory, in units of 16 bytes, so that no two threads of a
 * quarter warp meet in a bank. Vectors are one unit, or two where operands in 16 bits are then loads of 16 bytes. The
 * most frequent operators alone have the same kernel with the operator known to the compiler. */

#define THREADS 128

typedef OrtrainPointwiseProgram Program;
typedef OrtrainPointwiseInstruction Instruction;

/* R: float or guint64, of a register */
template <typename R, int N> struct alignas (16) Vector
{
  R at[N];
};

/* The slots of one thread in shared memory, which is [slots][units of a vector][THREADS]; begins at the thread's own
 * unit. */
template <typename R, int N> struct Column
{
  static const int PER_UNIT = 16 / sizeof (R), UNITS = N / PER_UNIT;
  typedef OrtrainPack<R, PER_UNIT> Unit;
  Unit *at;

  __device__ __forceinline__ void
  read (guint slot, Vector<R, N> &to) const
  {
    for (int u = 0; u < UNITS; u++)
      {
        const Unit unit = at[(slot * UNITS + u) * THREADS];
        for (int j = 0; j < PER_UNIT; j++)
          to.at[u * PER_UNIT + j] = unit.at[j];
      }
  }

  __device__ __forceinline__ void
  write (guint slot, const Vector<R, N> &from) const
  {
    for (int u = 0; u < UNITS; u++)
      {
        Unit unit;
        for (int j = 0; j < PER_UNIT; j++)
          unit.at[j] = from.at[u * PER_UNIT + j];
        at[(slot * UNITS + u) * THREADS] = unit;
      }
  }
};

/* ---- loading and storing ---- */

static __device__ __forceinline__ void
load_one (const void *x, gint64 i, OrtrainDType dtype, guint64 *to)
{
  *to = ortrain_pointwise_is_float (dtype) ? ortrain_f32_bits (ortrain_load_any (x, i, dtype))
                                           : (guint64) ortrain_cuda_load_integer (x, i, dtype);
}

static __device__ __forceinline__ void
load_one (const void *x, gint64 i, OrtrainDType dtype, float *to)
{
  *to = dtype == ORTRAIN_DTYPE_BOOL ? (((const guint8 *) x)[i] != 0 ? 1.0f : 0.0f) : ortrain_load_any (x, i, dtype);
}

/* x: at an address that is a multiple of the vector's size, or of 16 */
template <int N>
static __device__ __forceinline__ void
load_vector (const void *x, gint64 i, OrtrainDType dtype, Vector<float, N> &to)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    for (int u = 0; u < N / 4; u++)
      {
        const OrtrainPack<float, 4> pack = *(const OrtrainPack<float, 4> *) ((const float *) x + i + 4 * u);
        for (int v = 0; v < 4; v++)
          to.at[4 * u + v] = pack.at[v];
      }
  else if (dtype == ORTRAIN_DTYPE_BOOL)
    {
      const OrtrainPack<guint8, N> pack = *(const OrtrainPack<guint8, N> *) ((const guint8 *) x + i);
      for (int v = 0; v < N; v++)
        to.at[v] = pack.at[v] != 0 ? 1.0f : 0.0f;
    }
  else
    {
      const OrtrainPack<guint16, N> pack = *(const OrtrainPack<guint16, N> *) ((const guint16 *) x + i);
      if (dtype == ORTRAIN_DTYPE_FLOAT16)
        ortrain_cuda_widen_half (pack, to.at);
      else
        ortrain_cuda_widen_bfloat16 (pack, to.at);
    }
}

static __device__ __forceinline__ void
load_vector (const void *x, gint64 i, OrtrainDType dtype, Vector<guint64, 2> &to)
{
  for (int v = 0; v < 2; v++)
    load_one (x, i + v, dtype, &to.at[v]);
}

static __device__ __forceinline__ void
store_one (void *y, gint64 i, OrtrainDType dtype, float value)
{
  if (dtype == ORTRAIN_DTYPE_BOOL)
    ((guint8 *) y)[i] = value != 0.0f;
  else
    ortrain_store_any (y, i, dtype, value);
}

static __device__ __forceinline__ void
store_one (void *y, gint64 i, OrtrainDType dtype, guint64 value)
{
  if (ortrain_pointwise_is_float (dtype))
    ortrain_store_any (y, i, dtype, ortrain_f32_from_bits ((guint32) value));
  else
    ortrain_cuda_store_integer (y, i, dtype, (gint64) value);
}

template <int N>
static __device__ __forceinline__ void
store_vector (void *y, gint64 i, OrtrainDType dtype, const Vector<float, N> &value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    for (int u = 0; u < N / 4; u++)
      {
        OrtrainPack<float, 4> pack;
        for (int v = 0; v < 4; v++)
          pack.at[v] = value.at[4 * u + v];
        *(OrtrainPack<float, 4> *) ((float *) y + i + 4 * u) = pack;
      }
  else if (dtype == ORTRAIN_DTYPE_BOOL)
    {
      OrtrainPack<guint8, N> pack;
      for (int v = 0; v < N; v++)
        pack.at[v] = value.at[v] != 0.0f;
      *(OrtrainPack<guint8, N> *) ((guint8 *) y + i) = pack;
    }
  else
    *(OrtrainPack<guint16, N> *) ((guint16 *) y + i) =
        dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_cuda_narrow_half (value.at) : ortrain_cuda_narrow_bfloat16 (value.at);
}

static __device__ __forceinline__ void
store_vector (void *y, gint64 i, OrtrainDType dtype, const Vector<guint64, 2> &value)
{
  for (int v = 0; v < 2; v++)
    store_one (y, i + v, dtype, value.at[v]);
}

/* Where element i of the output is in an operand. */
static __device__ __forceinline__ guint32
find_element (const Program &p, guint row, guint32 i)
{
  guint32 offset = 0;
  for (int d = p.n_dims - 1; d > 0; d--)
    {
      const guint32 next = ortrain_divide (i, p.divisors[d]);
      offset += (i - next * (guint32) p.divisors[d].divisor) * p.strides[row][d];
      i = next;
    }
  return offset + i * p.strides[row][0];
}

/* Loads the elements from i on. whole: none of them is past the end, and addresses are aligned. */
template <typename R, int N>
static __device__ __forceinline__ void
load_input (const Program &p, guint input, guint32 i, bool whole, Vector<R, N> &to)
{
  const OrtrainPointwiseOperand operand = p.operands[input];
  const OrtrainDType dtype = (OrtrainDType) operand.dtype;
  const void *x = p.addresses[input];
  const guint32 last = p.n_elements - 1;
  if (operand.kind == ORTRAIN_POINTWISE_ONE)
    {
      load_one (x, 0, dtype, &to.at[0]);
      for (int v = 1; v < N; v++)
        to.at[v] = to.at[0];
    }
  else if (operand.kind == ORTRAIN_POINTWISE_FULL)
    {
      if (whole)
        load_vector (x, i, dtype, to);
      else
        for (int v = 0; v < N; v++)
          load_one (x, i + v < last ? i + v : last, dtype, &to.at[v]);
    }
  else if (whole && p.whole_vectors >= N)
    {
      const guint32 at = find_element (p, operand.strides, i), stride = p.strides[operand.strides][p.n_dims - 1];
      if (stride == 1)
        load_vector (x, at, dtype, to);
      else
        for (int v = 0; v < N; v++)
          load_one (x, at + v * stride, dtype, &to.at[v]);
    }
  else
    for (int v = 0; v < N; v++)
      load_one (x, find_element (p, operand.strides, i + v < last ? i + v : last), dtype, &to.at[v]);
}

template <typename R, int N>
static __device__ __forceinline__ void
load_operand (const Program &p, guint code, guint32 i, bool whole, const Column<R, N> &column, const Vector<R, N> &last,
              Vector<R, N> &to)
{
  if (code == ORTRAIN_POINTWISE_LAST)
    to = last;
  else if (code < ORTRAIN_POINTWISE_INPUT)
    column.read (code, to);
  else if (code < ORTRAIN_POINTWISE_CONSTANT)
    load_input (p, code - ORTRAIN_POINTWISE_INPUT, i, whole, to);
  else if (code != ORTRAIN_POINTWISE_NONE)
    {
      union
      {
        guint64 bits;
        R value;
      } constant;
      constant.bits = p.constants[code - ORTRAIN_POINTWISE_CONSTANT];
      for (int v = 0; v < N; v++)
        to.at[v] = constant.value;
    }
}

/* ---- the interpreter ---- */

/* n: elements of the vector that count, the first of which has the given position */
template <int CODE, bool RARE, int N>
static __device__ __forceinline__ void
compute (const Instruction &in, const Vector<float, N> &a, const Vector<float, N> &b, const Vector<float, N> &c,
         gint64 position, int n, const OrtrainFaultPlace &fault, Vector<float, N> &r)
{
  const int code = CODE >= 0 ? CODE : in.code;
  if (code == ORTRAIN_POINTWISE_WHERE)
    for (int v = 0; v < N; v++)
      r.at[v] = a.at[v] != 0.0f ? b.at[v] : c.at[v];
  else
    compute_any_real<float, N, RARE> (code, in.k0, in.k1, a.at, b.at, r.at);
  if (in.result == ORTRAIN_DTYPE_BFLOAT16 || in.result == ORTRAIN_DTYPE_FLOAT16)
    for (int v = 0; v < N; v++)
      r.at[v] = ortrain_pointwise_round (r.at[v], (OrtrainDType) in.result);
}

template <int CODE, bool RARE>
static __device__ __forceinline__ void
compute (const Instruction &in, const Vector<guint64, 2> &a, const Vector<guint64, 2> &b, const Vector<guint64, 2> &c,
         gint64 position, int n, const OrtrainFaultPlace &fault, Vector<guint64, 2> &r)
{
  const OrtrainDType dtype = (OrtrainDType) in.dtype, result = (OrtrainDType) in.result;
  if (in.code == ORTRAIN_POINTWISE_WHERE)
    for (int v = 0; v < 2; v++)
      r.at[v] = a.at[v] != 0 ? b.at[v] : c.at[v];
  else if (in.code == ORTRAIN_POINTWISE_CAST)
    for (int v = 0; v < 2; v++)
      r.at[v] = ortrain_pointwise_cast (a.at[v], dtype, result);
  else if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      float x[2], y[2], z[2];
      for (int v = 0; v < 2; v++)
        {
          x[v] = ortrain_f32_from_bits ((guint32) a.at[v]);
          y[v] = ortrain_f32_from_bits ((guint32) b.at[v]);
        }
      compute_any_real<float, 2, RARE> (in.code, in.k0, in.k1, x, y, z);
      for (int v = 0; v < 2; v++)
        r.at[v] = result == ORTRAIN_DTYPE_BOOL ? (guint64) (z[v] != 0.0f)
                                               : (guint64) ortrain_f32_bits (ortrain_pointwise_round (z[v], result));
    }
  else if (dtype == ORTRAIN_DTYPE_FLOAT64)
    {
      double x[2], y[2], z[2];
      for (int v = 0; v < 2; v++)
        {
          x[v] = ortrain_pointwise_to_double (a.at[v]);
          y[v] = ortrain_pointwise_to_double (b.at[v]);
        }
      compute_any_real<double, 2, RARE> (in.code, in.k0, in.k1, x, y, z);
      for (int v = 0; v < 2; v++)
        r.at[v] = result == ORTRAIN_DTYPE_BOOL ? (guint64) (z[v] != 0.0) : ortrain_pointwise_from_double (z[v]);
    }
  else
    {
      if (in.code == ORTRAIN_POINTWISE_DIV || in.code == ORTRAIN_POINTWISE_MOD || in.code == ORTRAIN_POINTWISE_FMOD)
        for (int v = 0; v < 2; v++)
          if (v < n && b.at[v] == 0)
            fault.report (ORTRAIN_FAULT_DIVIDE, position + v, 0, 0);
      if (ortrain_pointwise_is_signed (dtype))
        {
          gint64 x[2], y[2], z[2];
          for (int v = 0; v < 2; v++)
            {
              x[v] = (gint64) a.at[v];
              y[v] = (gint64) b.at[v];
            }
          compute_integer<gint64, 2> (in, x, y, z);
          for (int v = 0; v < 2; v++)
            r.at[v] = (guint64) z[v];
        }
      else
        compute_integer<guint64, 2> (in, a.at, b.at, r.at);
      for (int v = 0; v < 2; v++)
        r.at[v] = ortrain_pointwise_wrap (r.at[v], result);
    }
}

template <typename R, int N>
static __device__ __forceinline__ void
store_output (const Program &p, guint output, guint32 i, bool whole, const Vector<R, N> &value)
{
  const OrtrainDType dtype = (OrtrainDType) p.operands[output].dtype;
  void *y = p.addresses[output];
  if (whole)
    store_vector (y, i, dtype, value);
  else
    for (int v = 0; v < N; v++)
      if (i + v < p.n_elements)
        store_one (y, i + v, dtype, value.at[v]);
}

/* R: of a register, N of a vector. CODE: of the one instruction that there is; -1: a program, with SLOTS registers in
 * shared memory. aligned: addresses of all operands that vectors are read from or written to are multiples of the
 * vector's size, or of 16. Three operands of eight need more registers than nvcc gives without being asked, on sm_80.
 */
template <typename R, int N, int CODE, bool RARE, int SLOTS>
static __global__ void
__launch_bounds__ (THREADS, N == 8 && CODE == ORTRAIN_POINTWISE_WHERE ? 8 : 0)
    pointwise_kernel (const Program p, bool aligned, OrtrainFaultPlace fault)
{
  typedef Column<R, N> Registers;
  ORTRAIN_CUDA_SHARED (typename Registers::Unit, slots, SLOTS * Registers::UNITS * THREADS);
  const Registers column = { slots + threadIdx.x };
  const gint64 step = ortrain_cuda_stride () * N;
  for (gint64 first = ortrain_cuda_first () * N; first < p.n_elements; first += step)
    {
      const guint32 i = (guint32) first, left = p.n_elements - i;
      const int n = left < (guint32) N ? (int) left : N;
      const bool whole = aligned && n == N;
      Vector<R, N> last = {};
      for (int s = 0; s < (CODE >= 0 ? 1 : p.n_instructions); s++)
        {
          const Instruction in = p.instructions[s];
          Vector<R, N> a = {}, b = {}, c = {}, r;
          load_operand (p, in.a, i, whole, column, last, a);
          load_operand (p, in.b, i, whole, column, last, b);
          if (CODE < 0 || CODE == ORTRAIN_POINTWISE_WHERE)
            load_operand (p, in.c, i, whole, column, last, c);
          compute<CODE, RARE> (in, a, b, c, p.position + i, n, fault, r);
          if (CODE < 0 && in.slot != ORTRAIN_POINTWISE_NONE)
            column.write (in.slot, r);
          if (in.output != ORTRAIN_POINTWISE_NONE)
            store_output (p, in.output, i, whole, r);
          last = r;
        }
    }
}

/* ---- running ---- */

typedef void (*Kernel) (const Program, bool, OrtrainFaultPlace);

/* The kernel with N elements in a vector. NULL: the program needs many registers or rare functions. */
template <int N>
static Kernel
choose_frequent (const OrtrainPointwisePlan *plan)
{
#define ALONE(CODE)                                                                                                    \
  case ORTRAIN_POINTWISE_##CODE:                                                                                       \
    return pointwise_kernel<float, N, ORTRAIN_POINTWISE_##CODE, false, 1>;
  if (plan->program.n_instructions == 1)
    switch (plan->program.instructions[0].code)
      {
        ALONE (COPY)
        ALONE (WHERE)
        ALONE (ADD)
        ALONE (SUB)
        ALONE (MUL)
        ALONE (DIV)
        ALONE (RELU)
        ALONE (RELU_GRAD)
        ALONE (TANH)
        ALONE (TANH_GRAD)
        ALONE (GELU)
        ALONE (GELU_GRAD)
        ALONE (GELU_TANH)
        ALONE (GELU_TANH_GRAD)
      default:
        break;
      }
#undef ALONE
  return plan->rare || plan->n_slots > ORTRAIN_POINTWISE_FEW_SLOTS
             ? NULL
             : pointwise_kernel<float, N, -1, false, ORTRAIN_POINTWISE_FEW_SLOTS>;
}

static Kernel
choose_kernel (const OrtrainPointwisePlan *plan, guint vector)
{
  if (plan->wide)
    return plan->rare ? pointwise_kernel<guint64, 2, -1, true, ORTRAIN_POINTWISE_SLOTS>
                      : pointwise_kernel<guint64, 2, -1, false, ORTRAIN_POINTWISE_SLOTS>;
  const Kernel frequent = vector == 8 ? choose_frequent<8> (plan) : choose_frequent<4> (plan);
  if (frequent != NULL)
    return frequent;
  return plan->rare ? pointwise_kernel<float, 4, -1, true, ORTRAIN_POINTWISE_SLOTS>
                    : pointwise_kernel<float, 4, -1, false, ORTRAIN_POINTWISE_SLOTS>;
}

static gsize
get_element_size (guint8 dtype)
{
  return ortrain_cuda_library->dtype_get_size ((OrtrainDType) dtype);
}

static void
run_pointwise (const OrtrainKernelCall *call)
{
  const OrtrainPointwisePlan *plan = (const OrtrainPointwisePlan *) call->constants;
  if (plan->n_elements == 0)
    return;
  Program program = plan->program;
  const guint n_inputs = program.n_inputs, vector = ortrain_pointwise_get_vector (plan);
  const gint64 rows = plan->n_elements <= G_MAXINT32 ? plan->outer : ((gint64) 1 << 30) / plan->rest & ~(gint64) 7;
  const Kernel kernel = choose_kernel (plan, vector);
  for (gint64 row = 0; row < plan->outer; row += rows)
    {
      bool aligned = true;
      program.position = row * plan->rest;
      program.n_elements = (guint32) (MIN (rows, plan->outer - row) * plan->rest);
      for (guint i = 0; i < n_inputs + plan->n_outputs; i++)
        {
          const OrtrainPointwiseOperand *operand = &program.operands[i];
          const gsize size = get_element_size (operand->dtype);
          const bool output = i >= n_inputs, strided = operand->kind == ORTRAIN_POINTWISE_STRIDED;
          guint8 *address = output ? (guint8 *) call->outputs[i - n_inputs] : (guint8 *) call->inputs[i];
          if (output || operand->kind == ORTRAIN_POINTWISE_FULL)
            address = address != NULL ? address + (gsize) program.position * size : NULL;
          else if (strided && address != NULL)
            address += (gsize) row * program.strides[operand->strides][0] * size;
          if ((output || operand->kind != ORTRAIN_POINTWISE_ONE) &&
              ((gsize) address & (MIN (size * vector, 16) - 1)) != 0)
            aligned = false;
          program.addresses[i] = address;
        }
      ortrain_cuda_launch (call, "pointwise", ortrain_cuda_grid (call, program.n_elements, THREADS * vector), THREADS,
                           kernel, program, aligned, ortrain_cuda_get_fault (call));
    }
}

/* Two rows: the second for floating-point operands that differ in type. */
#define ROW(op_type, domain, dtypes)                                                                                   \
  { op_type, domain, dtypes, ortrain_cuda_pointwise_prepare, run_pointwise },                                          \
  {                                                                                                                    \
    op_type, domain, dtypes, ortrain_cuda_pointwise_prepare, run_pointwise, 0, ORTRAIN_DTYPES_MIXED                    \
  }
#define REALS ORTRAIN_DTYPES_FLOAT
#define SIGNED_AND_REALS (ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPES_SIGNED)

static const OrtrainKernel rows[] = {
  ROW ("Elementwise", "org.ortrain", 0),
  ROW ("Add", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Sub", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Mul", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Div", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Mod", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Pow", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Max", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Min", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Sum", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Mean", "", REALS),
  ROW ("BitShift", "", ORTRAIN_DTYPES_INTEGER),
  ROW ("BitwiseAnd", "", ORTRAIN_DTYPES_INTEGER),
  ROW ("BitwiseOr", "", ORTRAIN_DTYPES_INTEGER),
  ROW ("BitwiseXor", "", ORTRAIN_DTYPES_INTEGER),
  ROW ("BitwiseNot", "", ORTRAIN_DTYPES_INTEGER),
  ROW ("Equal", "", ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL),
  ROW ("Less", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("LessOrEqual", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Greater", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("GreaterOrEqual", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("And", "", ORTRAIN_DTYPES_BOOL),
  ROW ("Or", "", ORTRAIN_DTYPES_BOOL),
  ROW ("Xor", "", ORTRAIN_DTYPES_BOOL),
  ROW ("Not", "", ORTRAIN_DTYPES_BOOL),
  ROW ("IsNaN", "", REALS),
  ROW ("IsInf", "", REALS),
  ROW ("Where", "", ORTRAIN_DTYPES_BOOL),
  ROW ("Clip", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("NormApply", "org.ortrain", REALS),
  ROW ("Cast", "", ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL),
  ROW ("CastLike", "", ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL),
  ROW ("Neg", "", SIGNED_AND_REALS),
  ROW ("Abs", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Sign", "", ORTRAIN_DTYPES_NUMERIC),
  ROW ("Floor", "", REALS),
  ROW ("Ceil", "", REALS),
  ROW ("Round", "", REALS),
  ROW ("Reciprocal", "", REALS),
  ROW ("Sqrt", "", REALS),
  ROW ("Exp", "", REALS),
  ROW ("Log", "", REALS),
  ROW ("Sin", "", REALS),
  ROW ("Cos", "", REALS),
  ROW ("Tan", "", REALS),
  ROW ("Asin", "", REALS),
  ROW ("Acos", "", REALS),
  ROW ("Atan", "", REALS),
  ROW ("Sinh", "", REALS),
  ROW ("Cosh", "", REALS),
  ROW ("Asinh", "", REALS),
  ROW ("Acosh", "", REALS),
  ROW ("Atanh", "", REALS),
  ROW ("Erf", "", REALS),
  ROW ("ErfGrad", "org.ortrain", REALS),
  ROW ("Relu", "", SIGNED_AND_REALS),
  ROW ("Tanh", "", REALS),
  ROW ("Sigmoid", "", REALS),
  ROW ("LeakyRelu", "", REALS),
  ROW ("PRelu", "", REALS | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64)),
  ROW ("ThresholdedRelu", "", REALS),
  ROW ("Elu", "", REALS),
  ROW ("Selu", "", REALS),
  ROW ("Celu", "", REALS),
  ROW ("HardSigmoid", "", REALS),
  ROW ("HardSwish", "", REALS),
  ROW ("Softplus", "", REALS),
  ROW ("Softsign", "", REALS),
  ROW ("Gelu", "", REALS),
  ROW ("Mish", "", REALS),
  ROW ("Swish", "", REALS),
  ROW ("Shrink", "", REALS),
  ROW ("ReluGrad", "org.ortrain", REALS),
  ROW ("TanhGrad", "org.ortrain", REALS),
  ROW ("SigmoidGrad", "org.ortrain", REALS),
  ROW ("LeakyReluGrad", "org.ortrain", REALS),
  ROW ("EluGrad", "org.ortrain", REALS),
  ROW ("SeluGrad", "org.ortrain", REALS),
  ROW ("CeluGrad", "org.ortrain", REALS),
  ROW ("HardSigmoidGrad", "org.ortrain", REALS),
  ROW ("HardSwishGrad", "org.ortrain", REALS),
  ROW ("SoftplusGrad", "org.ortrain", REALS),
  ROW ("SoftsignGrad", "org.ortrain", REALS),
  ROW ("GeluGrad", "org.ortrain", REALS),
  ROW ("MishGrad", "org.ortrain", REALS),
  ROW ("SwishGrad", "org.ortrain", REALS),
};

ORTRAIN_CUDA_TABLE (pointwise, rows);
