/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cpu-fused-program-private.h"

#include "kernel-abi/ortrain-chain-private.h"

/* From operators to tile programs: one operator alone, or the body of a fused node, through the same lowering. 16-bit
 * values are computed in float32; operands may be float32 and of 16 bits side by side, and a result is rounded once, to
 * the type that the node has for it. */

#define OPS_TABLES(X) X (elementwise) X (elementwise_math) X (activation) X (logic)
#define DECLARE_TABLE(family) extern const OrtrainTileTable ORTRAIN_CPU_SYMBOL (ortrain_cpu_tiles_##family);
OPS_TABLES (DECLARE_TABLE)
#define TABLE_ENTRY(family) &ORTRAIN_CPU_SYMBOL (ortrain_cpu_tiles_##family),
static const OrtrainTileTable *const tables[] = { OPS_TABLES (TABLE_ENTRY) };

static const OrtrainTileOp *
find_op (const char *domain, const char *op_type)
{
  for (guint t = 0; t < G_N_ELEMENTS (tables); t++)
    for (guint i = 0; i < tables[t]->n_ops; i++)
      if (g_str_equal (tables[t]->ops[i].op_type, op_type) && g_str_equal (tables[t]->ops[i].domain, domain))
        return &tables[t]->ops[i];
  return NULL;
}

static const OrtrainTileLoop *
find_loop (const OrtrainTileLoop *loops, guint n_loops, OrtrainDType dtype)
{
  for (guint i = 0; i < n_loops; i++)
    if (loops[i].dtype == dtype)
      return &loops[i];
  return NULL;
}

static guint
lower_cast (OrtrainTileBuilder *builder, guint value, OrtrainDType to, GError **error)
{
  OrtrainDType from = ortrain_tile_builder_get_dtype (builder, value);
  if (from == to)
    return value;
  OrtrainTileFunc func = ORTRAIN_CPU_SYMBOL (ortrain_cpu_cast_loop) (from, to);
  if (func == NULL)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s is not converted to %s",
                   ortrain_dtype_get_name (from), ortrain_dtype_get_name (to));
      return ORTRAIN_TILE_NONE;
    }
  gconstpointer constant = ortrain_tile_builder_get_constant (builder, value);
  if (constant != NULL)
    {
      guint64 bits = 0;
      OrtrainTileParam param = { 0 };
      func (&bits, constant, NULL, NULL, 1, &param, NULL);
      return ortrain_tile_builder_constant (builder, to, &bits);
    }
  value = ortrain_tile_builder_spread (builder, value);
  return ortrain_tile_builder_emit (builder, func, 1, to, value, ORTRAIN_TILE_NONE, ORTRAIN_TILE_NONE, NULL);
}

/* One loop over one or two values of the loop's own type. */
static guint
lower_loop (OrtrainTileBuilder *builder, const OrtrainTileOp *op, const OrtrainTileLoop *loop, OrtrainDType result,
            guint a, guint b, const OrtrainTileParam *param)
{
  guint form = ORTRAIN_TILE_VV;
  if (op->arity == 1)
    a = ortrain_tile_builder_spread (builder, a);
  else if (ortrain_tile_builder_is_scalar (builder, a) && ortrain_tile_builder_is_scalar (builder, b))
    {
      a = ortrain_tile_builder_spread (builder, a);
      form = ORTRAIN_TILE_VS;
    }
  else if (ortrain_tile_builder_is_scalar (builder, b))
    form = ORTRAIN_TILE_VS;
  else if (ortrain_tile_builder_is_scalar (builder, a))
    form = ORTRAIN_TILE_SV;
  return ortrain_tile_builder_emit (builder, loop->form[form], op->cost, result, a, b, ORTRAIN_TILE_NONE, param);
}

static OrtrainDType
get_compute_dtype (OrtrainDType dtype)
{
  return ortrain_dtype_is_half (dtype) ? ORTRAIN_DTYPE_FLOAT32 : dtype;
}

/* An operator of the tables, with any number of inputs from the left. out_dtype: of the result, unless it is bool */
static guint
lower_table (OrtrainTileBuilder *builder, const char *domain, const char *op_type, const OrtrainAttributes *attributes,
             const guint *in, guint n_in, OrtrainDType out_dtype, GError **error)
{
  const OrtrainTileOp *op = find_op (domain, op_type);
  if (op == NULL)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s is no element-wise operator", op_type);
      return ORTRAIN_TILE_NONE;
    }
  OrtrainDType dtype = ortrain_tile_builder_get_dtype (builder, in[0]);
  OrtrainDType compute = get_compute_dtype (dtype);
  const OrtrainTileLoop *loops = op->loops;
  guint n_loops = op->n_loops;
  OrtrainTileParam param = { 0 };
  if (op->setup != NULL && !op->setup (attributes, &param, &loops, &n_loops, error))
    return ORTRAIN_TILE_NONE;
  const OrtrainTileLoop *loop = find_loop (loops, n_loops, compute);
  if (loop == NULL)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s has no loop for %s", op_type,
                   ortrain_dtype_get_name (dtype));
      return ORTRAIN_TILE_NONE;
    }
  OrtrainDType result = op->boolean ? ORTRAIN_DTYPE_BOOL : compute;
  guint value = lower_cast (builder, in[0], compute, error);
  if (value != ORTRAIN_TILE_NONE && op->arity == 1)
    value = lower_loop (builder, op, loop, result, value, ORTRAIN_TILE_NONE, &param);
  for (guint i = 1; value != ORTRAIN_TILE_NONE && op->arity == 2 && i < n_in; i++)
    {
      guint other = lower_cast (builder, in[i], compute, error);
      if (other == ORTRAIN_TILE_NONE)
        return ORTRAIN_TILE_NONE;
      value = lower_loop (builder, op, loop, result, value, other, &param);
    }
  if (value != ORTRAIN_TILE_NONE && !op->boolean)
    value = lower_cast (builder, value, out_dtype, error);
  return value;
}

/* Lowers an operator of two values, both in a type that loops compute in, which is that of the result, too. */
static guint
lower_two (OrtrainTileBuilder *builder, const char *op_type, guint a, guint b, GError **error)
{
  guint in[2] = { a, b };
  return a == ORTRAIN_TILE_NONE || b == ORTRAIN_TILE_NONE
             ? ORTRAIN_TILE_NONE
             : lower_table (builder, "", op_type, NULL, in, 2, ortrain_tile_builder_get_dtype (builder, a), error);
}

static guint
lower_one (OrtrainTileBuilder *builder, const char *op_type, guint a, GError **error)
{
  return a == ORTRAIN_TILE_NONE
             ? ORTRAIN_TILE_NONE
             : lower_table (builder, "", op_type, NULL, &a, 1, ortrain_tile_builder_get_dtype (builder, a), error);
}

static guint
float_constant (OrtrainTileBuilder *builder, OrtrainDType dtype, double number)
{
  float f = (float) number;
  return dtype == ORTRAIN_DTYPE_FLOAT64 ? ortrain_tile_builder_constant (builder, dtype, &number)
                                        : ortrain_tile_builder_constant (builder, ORTRAIN_DTYPE_FLOAT32, &f);
}

/* Powers that are known and small become products and roots. */
static guint
lower_pow (OrtrainTileBuilder *builder, guint base, guint exponent, OrtrainDType out_dtype, GError **error)
{
  OrtrainDType dtype = ortrain_tile_builder_get_dtype (builder, base);
  OrtrainDType other = ortrain_tile_builder_get_dtype (builder, exponent);
  if (!ortrain_dtype_is_floating (dtype))
    {
      if (!ortrain_dtype_is_floating (other))
        return lower_two (builder, "Pow", base, lower_cast (builder, exponent, dtype, error), error);
      guint real = lower_cast (builder, base, ORTRAIN_DTYPE_FLOAT64, error);
      real = lower_two (builder, "Pow", real, lower_cast (builder, exponent, ORTRAIN_DTYPE_FLOAT64, error), error);
      return real == ORTRAIN_TILE_NONE ? real : lower_cast (builder, real, dtype, error);
    }
  OrtrainDType compute = get_compute_dtype (dtype);
  guint x = lower_cast (builder, base, compute, error), y = lower_cast (builder, exponent, compute, error), z;
  if (x == ORTRAIN_TILE_NONE || y == ORTRAIN_TILE_NONE)
    return ORTRAIN_TILE_NONE;
  gconstpointer constant = ortrain_tile_builder_get_constant (builder, y);
  double p = constant == NULL                   ? NAN
             : compute == ORTRAIN_DTYPE_FLOAT64 ? *(const double *) constant
                                                : *(const float *) constant;
  if (p == 1.0)
    z = x;
  else if (p == 2.0)
    z = lower_two (builder, "Mul", x, x, error);
  else if (p == 3.0)
    z = lower_two (builder, "Mul", lower_two (builder, "Mul", x, x, error), x, error);
  else if (p == 4.0)
    {
      z = lower_two (builder, "Mul", x, x, error);
      z = lower_two (builder, "Mul", z, z, error);
    }
  else if (p == 0.5)
    z = lower_one (builder, "Sqrt", x, error);
  else if (p == -0.5)
    z = lower_one (builder, "Reciprocal", lower_one (builder, "Sqrt", x, error), error);
  else if (p == -1.0)
    z = lower_one (builder, "Reciprocal", x, error);
  else
    z = lower_two (builder, "Pow", x, y, error);
  return z == ORTRAIN_TILE_NONE ? z : lower_cast (builder, z, out_dtype, error);
}

static gboolean
is_mixed (OrtrainDType dtype)
{
  return (ORTRAIN_DTYPE_BIT (dtype) & ORTRAIN_DTYPES_MIXED) != 0;
}

static guint
lower_where (OrtrainTileBuilder *builder, const guint *operands, OrtrainDType out_dtype, GError **error)
{
  guint in[3] = { operands[0], operands[1], operands[2] };
  OrtrainDType dtype = ortrain_tile_builder_get_dtype (builder, in[1]);
  if (is_mixed (dtype) && is_mixed (ortrain_tile_builder_get_dtype (builder, in[2])) && is_mixed (out_dtype))
    {
      dtype = out_dtype;
      in[1] = lower_cast (builder, in[1], dtype, error);
      in[2] = lower_cast (builder, in[2], dtype, error);
    }
  gsize size = ortrain_dtype_get_size (dtype);
  if (size == 0 || size > 8 || dtype == ORTRAIN_DTYPE_STRING || dtype != out_dtype ||
      ortrain_tile_builder_get_dtype (builder, in[2]) != dtype)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "Where does not choose between %s and %s",
                   ortrain_dtype_get_name (dtype),
                   ortrain_dtype_get_name (ortrain_tile_builder_get_dtype (builder, in[2])));
      return ORTRAIN_TILE_NONE;
    }
  guint condition = ortrain_tile_builder_spread (builder, in[0]);
  gboolean b = ortrain_tile_builder_is_scalar (builder, in[1]), c = ortrain_tile_builder_is_scalar (builder, in[2]);
  return ortrain_tile_builder_emit (builder, ORTRAIN_CPU_SYMBOL (ortrain_cpu_where_loop) (size, b, c), 1, dtype,
                                    condition, in[1], in[2], NULL);
}

static guint
lower_clip (OrtrainTileBuilder *builder, const guint *in, guint n_in, OrtrainDType out_dtype, GError **error)
{
  OrtrainDType compute = get_compute_dtype (ortrain_tile_builder_get_dtype (builder, in[0]));
  guint value = lower_cast (builder, in[0], compute, error);
  for (guint i = 1; i < 3 && value != ORTRAIN_TILE_NONE; i++)
    if (i < n_in && in[i] != ORTRAIN_TILE_NONE)
      value = lower_two (builder, i == 1 ? "Max" : "Min", value, lower_cast (builder, in[i], compute, error), error);
  return value == ORTRAIN_TILE_NONE ? value : lower_cast (builder, value, out_dtype, error);
}

static guint
lower_mean (OrtrainTileBuilder *builder, const guint *in, guint n_in, OrtrainDType out_dtype, GError **error)
{
  OrtrainDType compute = get_compute_dtype (ortrain_tile_builder_get_dtype (builder, in[0]));
  guint value = lower_cast (builder, in[0], compute, error);
  for (guint i = 1; i < n_in && value != ORTRAIN_TILE_NONE; i++)
    value = lower_two (builder, "Add", value, lower_cast (builder, in[i], compute, error), error);
  value = lower_two (builder, "Div", value, float_constant (builder, compute, n_in), error);
  return value == ORTRAIN_TILE_NONE ? value : lower_cast (builder, value, out_dtype, error);
}

#define APPLY_ROW(T)                                                                                                   \
  static inline void apply_row_##T (T *d, const T *p, T mean, T factor, T bias, gsize n)                               \
  {                                                                                                                    \
    ORTRAIN_TILE_FOR d[i] = (p[i] - mean) * factor + bias;                                                             \
  }                                                                                                                    \
  /* b: mean, factor and bias of each row */                                                                           \
  static void apply_rows_##T (ORTRAIN_TILE_ARGS)                                                                       \
  {                                                                                                                    \
    const T *row = b;                                                                                                  \
    for (gsize at = 0; at < n; at += env->row, row += 3)                                                               \
      apply_row_##T ((T *) dst + at, (const T *) a + at, row[0], row[1], row[2], env->row);                            \
  }
APPLY_ROW (float)
APPLY_ROW (double)

/* (x - mean)·factor + bias; in one loop where the others are one number for each channel, and channels are rows */
static guint
lower_norm_apply (OrtrainTileBuilder *builder, const guint *in, OrtrainDType out_dtype, GError **error)
{
  static const char *const steps[] = { "Sub", "Mul", "Add" };
  const OrtrainDType compute = get_compute_dtype (ortrain_tile_builder_get_dtype (builder, in[0]));
  guint value = lower_cast (builder, in[0], compute, error), rows = ORTRAIN_TILE_NONE;
  if (value != ORTRAIN_TILE_NONE && ortrain_tile_builder_get_dtype (builder, in[1]) == compute)
    rows = ortrain_tile_builder_rows (builder, in + 1, 3);
  if (rows != ORTRAIN_TILE_NONE)
    {
      value = ortrain_tile_builder_emit (
          builder, compute == ORTRAIN_DTYPE_FLOAT64 ? apply_rows_double : apply_rows_float, 2, compute,
          ortrain_tile_builder_spread (builder, value), rows, ORTRAIN_TILE_NONE, NULL);
      return lower_cast (builder, value, out_dtype, error);
    }
  for (guint i = 0; i < 3 && value != ORTRAIN_TILE_NONE; i++)
    value = lower_two (builder, steps[i], value, lower_cast (builder, in[1 + i], compute, error), error);
  return value == ORTRAIN_TILE_NONE ? value : lower_cast (builder, value, out_dtype, error);
}

/* in: [n_in], NONE where absent. NONE with an error when it cannot be done. */
static guint
lower (OrtrainTileBuilder *builder, const char *domain, const char *op_type, const OrtrainAttributes *attributes,
       const guint *in, guint n_in, OrtrainDType out_dtype, GError **error)
{
  gboolean onnx = domain[0] == 0;
  gboolean clip = onnx && g_str_equal (op_type, "Clip");
  gboolean cast = onnx && (g_str_equal (op_type, "Cast") || g_str_equal (op_type, "CastLike"));
  for (guint i = 0; i < MAX (n_in, 1); i++)
    if ((i >= n_in || in[i] == ORTRAIN_TILE_NONE) && !((clip || cast) && i > 0))
      {
        g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "input %u of %s is absent", i, op_type);
        return ORTRAIN_TILE_NONE;
      }
  if (clip)
    return lower_clip (builder, in, n_in, out_dtype, error);
  if (cast)
    return lower_cast (builder, in[0], out_dtype, error);
  if (onnx && g_str_equal (op_type, "Where") && n_in == 3)
    return lower_where (builder, in, out_dtype, error);
  if (onnx && g_str_equal (op_type, "Pow") && n_in == 2)
    return lower_pow (builder, in[0], in[1], out_dtype, error);
  if (onnx && g_str_equal (op_type, "Mean"))
    return lower_mean (builder, in, n_in, out_dtype, error);
  if (onnx && g_str_equal (op_type, "Identity"))
    return lower_cast (builder, in[0], out_dtype, error);
  if (!onnx && g_str_equal (op_type, "NormApply") && n_in == 4)
    return lower_norm_apply (builder, in, out_dtype, error);
  return lower_table (builder, domain, op_type, attributes, in, n_in, out_dtype, error);
}

static gboolean
lower_chain (OrtrainTileBuilder *builder, const OrtrainChain *chain, const OrtrainKernelSetup *setup, GError **error)
{
  g_autofree guint *values = g_new (guint, chain->n_inputs + chain->n_constants + chain->n_ops + 1);
  guint n = 0;
  for (guint i = 0; i < chain->n_inputs; i++)
    values[n++] = ortrain_tile_builder_input (builder, i);
  for (guint i = 0; i < chain->n_constants; i++)
    {
      gconstpointer element = ortrain_tensor_peek (chain->constants[i]);
      if (element == NULL)
        {
          g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "a constant of the chain was released");
          return FALSE;
        }
      values[n++] = ortrain_tile_builder_constant (builder, ortrain_tensor_get_dtype (chain->constants[i]), element);
    }
  for (guint s = 0; s < chain->n_ops; s++)
    {
      const OrtrainChainOp *op = &chain->ops[s];
      g_autofree guint *in = g_new (guint, op->n_inputs + 1);
      for (guint i = 0; i < op->n_inputs; i++)
        in[i] = op->inputs[i] != G_MAXUINT ? values[op->inputs[i]] : ORTRAIN_TILE_NONE;
      values[n] = lower (builder, op->domain, op->op_type, op->attributes, in, op->n_inputs, op->dtype, error);
      if (values[n++] == ORTRAIN_TILE_NONE)
        {
          g_prefix_error (error, "in the chain, %s '%s': ", op->op_type, op->name);
          return FALSE;
        }
    }
  for (guint k = 0; k < chain->n_outputs && k < setup->n_outputs; k++)
    {
      guint value = values[chain->outputs[k]];
      const OrtrainDType dtype = setup->outputs[k].dtype;
      if (dtype != ORTRAIN_DTYPE_UNDEFINED)
        value = lower_cast (builder, value, dtype, error);
      if (value == ORTRAIN_TILE_NONE)
        return FALSE;
      ortrain_tile_builder_output (builder, k, value);
    }
  return TRUE;
}

gboolean
ORTRAIN_CPU_SYMBOL (ortrain_cpu_pointwise_prepare) (OrtrainKernelSetup *setup, GError **error)
{
  /* CastLike reads the type of its second input, never its elements or shape. */
  if (setup->body == NULL && g_str_equal (setup->op_type, "CastLike"))
    setup->n_inputs = MIN (setup->n_inputs, 1);
  const OrtrainChain *chain = ortrain_chain_get (setup->body);
  if (setup->body != NULL && (chain == NULL || chain->n_inputs != setup->n_inputs))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: the body was not inferred",
                   setup->op_type);
      return FALSE;
    }
  OrtrainTileBuilder *builder = ortrain_tile_builder_new (setup, error);
  gboolean ok = FALSE;
  if (builder != NULL)
    {
      if (setup->body != NULL)
        ok = lower_chain (builder, chain, setup, error);
      else
        {
          g_autofree guint *in = g_new (guint, setup->n_inputs + 1);
          for (guint i = 0; i < setup->n_inputs; i++)
            in[i] = ortrain_tile_builder_input (builder, i);
          guint value = lower (builder, setup->domain, setup->op_type, setup->attributes, in, setup->n_inputs,
                               setup->outputs[0].dtype, error);
          ok = value != ORTRAIN_TILE_NONE;
          if (ok)
            ortrain_tile_builder_output (builder, 0, value);
        }
      ok = ok && ortrain_tile_builder_finish (builder, setup, error);
      ortrain_tile_builder_free (builder);
    }
  if (!ok)
    g_prefix_error (error, "%s: ", setup->op_type);
  return ok;
}

static const OrtrainKernel kernels[] = {
  ORTRAIN_POINTWISE_KERNEL ("Elementwise", "org.ortrain", 0),
};
ORTRAIN_KERNEL_TABLE (fused, kernels);
