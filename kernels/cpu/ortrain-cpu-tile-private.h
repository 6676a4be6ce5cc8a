/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-formulas.h"
#include "cpu/ortrain-cpu-isa-private.h"

/* Element-wise operators are loops over tiles: runs of at most ORTRAIN_TILE elements. One operator alone and a fused
 * chain use the same loops, and so give the same bits: the files of these families are compiled with contraction off.
 */

#define ORTRAIN_TILE 2048

/* Numbers that a loop needs besides its operands: attributes. */
typedef struct
{
  double v[4];
} OrtrainTileParam;

/* Where faults go. */
typedef struct
{
  const OrtrainKernelCall *call;
  gint64 position; /* flat index of the tile's first element */
  gsize row;       /* elements of a row, or of the part of one that the tile is */
} OrtrainTileEnv;

/* dst may be the same memory as an operand of the same element size. A scalar operand has one element. */
typedef void (*OrtrainTileFunc) (void *dst, const void *a, const void *b, const void *c, gsize n,
                                 const OrtrainTileParam *param, const OrtrainTileEnv *env);

/* Which operands of a loop of two are scalars. */
enum
{
  ORTRAIN_TILE_VV,
  ORTRAIN_TILE_VS,
  ORTRAIN_TILE_SV,
  ORTRAIN_TILE_N_FORMS,
};

typedef struct
{
  OrtrainDType dtype; /* of the operands (of operand b for operators whose operand a is a condition) */
  OrtrainTileFunc form[ORTRAIN_TILE_N_FORMS]; /* one operand or three: only the first */
} OrtrainTileLoop;

/* An operator as loops. One that has no loop for a half type runs in float between two conversions. */
typedef struct
{
  const char *op_type;
  const char *domain;
  guint8 arity;   /* operands of one loop: 1 or 2 */
  guint8 boolean; /* the result is bool */
  guint8 cost;    /* rough time of one element, in units of an addition: sets how work is cut */
  const OrtrainTileLoop *loops;
  guint n_loops;
  /* Reads attributes into param; may choose other loops (variants of one operator). NULL: there are none. */
  gboolean (*setup) (const OrtrainAttributes *attributes, OrtrainTileParam *param, const OrtrainTileLoop **loops,
                     guint *n_loops, GError **error);
} OrtrainTileOp;

typedef struct
{
  const OrtrainTileOp *ops;
  guint n_ops;
} OrtrainTileTable;

#define ORTRAIN_TILE_TABLE(family, rows)                                                                               \
  extern const OrtrainTileTable ORTRAIN_CPU_SYMBOL (ortrain_cpu_tiles_##family);                                       \
  const OrtrainTileTable ORTRAIN_CPU_SYMBOL (ortrain_cpu_tiles_##family) = { (rows), G_N_ELEMENTS (rows) }

/* NULL for a pair that is not converted (strings, complex); also NULL never means "the same type": that is a copy. */
OrtrainTileFunc ORTRAIN_CPU_SYMBOL (ortrain_cpu_cast_loop) (OrtrainDType from, OrtrainDType to);
/* dst[i] = a[i] ? b[i] : c[i] for elements of 1, 2, 4 or 8 bytes; b_scalar, c_scalar: that operand is one element */
OrtrainTileFunc ORTRAIN_CPU_SYMBOL (ortrain_cpu_where_loop) (gsize element_size, gboolean b_scalar, gboolean c_scalar);

/* prepare and run of every element-wise operator. */
gboolean ORTRAIN_CPU_SYMBOL (ortrain_cpu_pointwise_prepare) (OrtrainKernelSetup *setup, GError **error);
void ORTRAIN_CPU_SYMBOL (ortrain_cpu_pointwise_run) (const OrtrainKernelCall *call);

/* Two rows: the second for floating-point operands that differ in type. */
#define ORTRAIN_POINTWISE_KERNEL(op_type, domain, dtypes)                                                              \
  { op_type, domain, dtypes, ORTRAIN_CPU_SYMBOL (ortrain_cpu_pointwise_prepare),                                       \
    ORTRAIN_CPU_SYMBOL (ortrain_cpu_pointwise_run) },                                                                  \
  {                                                                                                                    \
    op_type, domain, dtypes, ORTRAIN_CPU_SYMBOL (ortrain_cpu_pointwise_prepare),                                       \
        ORTRAIN_CPU_SYMBOL (ortrain_cpu_pointwise_run), .mixed_dtypes = ORTRAIN_DTYPES_MIXED                           \
  }

/* Loops may run in place, which `restrict` would forbid; no iteration reads an element that another one wrote. */
#if defined(__clang__)
/* Loops that call libm stay scalar, which clang would warn of. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define ORTRAIN_TILE_FOR _Pragma ("clang loop vectorize(assume_safety)") for (gsize i = 0; i < n; i++)
#else
#define ORTRAIN_TILE_FOR _Pragma ("GCC ivdep") for (gsize i = 0; i < n; i++)
#endif

#define ORTRAIN_TILE_ARGS                                                                                              \
  G_GNUC_UNUSED void *dst, G_GNUC_UNUSED const void *a, G_GNUC_UNUSED const void *b, G_GNUC_UNUSED const void *c,      \
      G_GNUC_UNUSED gsize n, G_GNUC_UNUSED const OrtrainTileParam *param, G_GNUC_UNUSED const OrtrainTileEnv *env

/* static void name (…): d[i] = expr of x = a[i] */
#define ORTRAIN_TILE_UNARY(name, from, to, expr)                                                                       \
  static void name (ORTRAIN_TILE_ARGS)                                                                                 \
  {                                                                                                                    \
    to *d = dst;                                                                                                       \
    const from *p = a;                                                                                                 \
    ORTRAIN_TILE_FOR                                                                                                   \
    {                                                                                                                  \
      from x = p[i];                                                                                                   \
      d[i] = (to) (expr);                                                                                              \
    }                                                                                                                  \
  }

/* The same with attributes: k0 and k1 are param->v[0] and [1] in the type `from`. */
#define ORTRAIN_TILE_UNARY_PARAM(name, from, to, expr)                                                                 \
  static void name (ORTRAIN_TILE_ARGS)                                                                                 \
  {                                                                                                                    \
    to *d = dst;                                                                                                       \
    const from *p = a;                                                                                                 \
    G_GNUC_UNUSED const from k0 = (from) param->v[0], k1 = (from) param->v[1];                                         \
    ORTRAIN_TILE_FOR                                                                                                   \
    {                                                                                                                  \
      from x = p[i];                                                                                                   \
      d[i] = (to) (expr);                                                                                              \
    }                                                                                                                  \
  }

/* Three functions, name_vv, name_vs and name_sv: d[i] = expr of x = a[i] or *a and y = b[i] or *b; k0, k1 as above. */
#define ORTRAIN_TILE_BINARY(name, from, to, expr)                                                                      \
  static void name##_vv (ORTRAIN_TILE_ARGS)                                                                            \
  {                                                                                                                    \
    to *d = dst;                                                                                                       \
    const from *p = a, *q = b;                                                                                         \
    G_GNUC_UNUSED const from k0 = (from) param->v[0], k1 = (from) param->v[1];                                         \
    ORTRAIN_TILE_FOR                                                                                                   \
    {                                                                                                                  \
      from x = p[i], y = q[i];                                                                                         \
      d[i] = (to) (expr);                                                                                              \
    }                                                                                                                  \
  }                                                                                                                    \
  static void name##_vs (ORTRAIN_TILE_ARGS)                                                                            \
  {                                                                                                                    \
    to *d = dst;                                                                                                       \
    const from *p = a, y = *(const from *) b;                                                                          \
    G_GNUC_UNUSED const from k0 = (from) param->v[0], k1 = (from) param->v[1];                                         \
    ORTRAIN_TILE_FOR                                                                                                   \
    {                                                                                                                  \
      from x = p[i];                                                                                                   \
      d[i] = (to) (expr);                                                                                              \
    }                                                                                                                  \
  }                                                                                                                    \
  static void name##_sv (ORTRAIN_TILE_ARGS)                                                                            \
  {                                                                                                                    \
    to *d = dst;                                                                                                       \
    const from *q = b, x = *(const from *) a;                                                                          \
    G_GNUC_UNUSED const from k0 = (from) param->v[0], k1 = (from) param->v[1];                                         \
    ORTRAIN_TILE_FOR                                                                                                   \
    {                                                                                                                  \
      from y = q[i];                                                                                                   \
      d[i] = (to) (expr);                                                                                              \
    }                                                                                                                  \
  }

#define ORTRAIN_TILE_FORMS(name)                                                                                       \
  {                                                                                                                    \
    name##_vv, name##_vs, name##_sv                                                                                    \
  }

/* X (suffix, C type, unsigned C type, ONNX type) over all integers */
#define ORTRAIN_TILE_INTEGERS(X)                                                                                       \
  X (i8, gint8, guint8, ORTRAIN_DTYPE_INT8)                                                                            \
  X (u8, guint8, guint8, ORTRAIN_DTYPE_UINT8)                                                                          \
  X (i16, gint16, guint16, ORTRAIN_DTYPE_INT16)                                                                        \
  X (u16, guint16, guint16, ORTRAIN_DTYPE_UINT16)                                                                      \
  X (i32, gint32, guint32, ORTRAIN_DTYPE_INT32)                                                                        \
  X (u32, guint32, guint32, ORTRAIN_DTYPE_UINT32)                                                                      \
  X (i64, gint64, guint64, ORTRAIN_DTYPE_INT64)                                                                        \
  X (u64, guint64, guint64, ORTRAIN_DTYPE_UINT64)
#define ORTRAIN_TILE_REALS(X)                                                                                          \
  X (f32, float, float, ORTRAIN_DTYPE_FLOAT32)                                                                         \
  X (f64, double, double, ORTRAIN_DTYPE_FLOAT64)
