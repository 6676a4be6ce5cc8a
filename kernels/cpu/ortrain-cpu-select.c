/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"

#include <string.h>

/* TopK, OneHot, Compress, NonZero, Unique: elements picked by value. */

/* ---- TopK: lines along an axis, [outer, dim, inner] ---- */

typedef struct TopK TopK;
typedef void (*TopKLineFunc) (const TopK *top, gconstpointer x, gint64 stride, gpointer values, gint64 *indices,
                              gint64 *heap);
struct TopK
{
  gint64 outer, dim, inner, k;
  gsize size;
  gboolean largest;
  guint n_outputs;
  TopKLineFunc line;
};

/* A heap of the k best so far, the worst of them on top; equal values keep their order. Taken apart, worst first, it
 * gives the sorted result. */
#define TOP_K(NAME, T, V, LOAD)                                                                                        \
  static inline gboolean worse_##NAME (const T *x, gint64 stride, gboolean largest, gint64 a, gint64 b)                \
  {                                                                                                                    \
    V va = LOAD (x[a * stride]), vb = LOAD (x[b * stride]);                                                            \
    if (va == vb)                                                                                                      \
      return a > b;                                                                                                    \
    return largest ? va < vb : va > vb;                                                                                \
  }                                                                                                                    \
  static void sift_##NAME (const T *x, gint64 stride, gboolean largest, gint64 *heap, gint64 n, gint64 at)             \
  {                                                                                                                    \
    for (;;)                                                                                                           \
      {                                                                                                                \
        gint64 child = 2 * at + 1;                                                                                     \
        if (child >= n)                                                                                                \
          return;                                                                                                      \
        if (child + 1 < n && worse_##NAME (x, stride, largest, heap[child + 1], heap[child]))                          \
          child++;                                                                                                     \
        if (!worse_##NAME (x, stride, largest, heap[child], heap[at]))                                                 \
          return;                                                                                                      \
        gint64 swap = heap[at];                                                                                        \
        heap[at] = heap[child];                                                                                        \
        heap[child] = swap;                                                                                            \
        at = child;                                                                                                    \
      }                                                                                                                \
  }                                                                                                                    \
  static void top_k_##NAME (const TopK *top, gconstpointer data, gint64 stride, gpointer values, gint64 *indices,      \
                            gint64 *heap)                                                                              \
  {                                                                                                                    \
    const T *x = data;                                                                                                 \
    T *y = values;                                                                                                     \
    gint64 k = top->k;                                                                                                 \
    for (gint64 i = 0; i < k; i++)                                                                                     \
      heap[i] = i;                                                                                                     \
    for (gint64 i = k / 2; i-- > 0;)                                                                                   \
      sift_##NAME (x, stride, top->largest, heap, k, i);                                                               \
    for (gint64 i = k; i < top->dim && k > 0; i++)                                                                     \
      if (worse_##NAME (x, stride, top->largest, heap[0], i))                                                          \
        {                                                                                                              \
          heap[0] = i;                                                                                                 \
          sift_##NAME (x, stride, top->largest, heap, k, 0);                                                           \
        }                                                                                                              \
    for (gint64 i = k; i-- > 0;)                                                                                       \
      {                                                                                                                \
        gint64 worst = heap[0];                                                                                        \
        heap[0] = heap[i];                                                                                             \
        sift_##NAME (x, stride, top->largest, heap, i, 0);                                                             \
        if (y != NULL)                                                                                                 \
          y[i * stride] = x[worst * stride];                                                                           \
        if (indices != NULL)                                                                                           \
          indices[i * stride] = worst;                                                                                 \
      }                                                                                                                \
  }
#define PLAIN(v) (v)
TOP_K (f32, float, float, PLAIN)
TOP_K (f64, double, double, PLAIN)
TOP_K (f16, guint16, float, ortrain_half_to_float)
TOP_K (bf16, guint16, float, ortrain_bfloat16_to_float)
TOP_K (i8, gint8, gint8, PLAIN)
TOP_K (u8, guint8, guint8, PLAIN)
TOP_K (i16, gint16, gint16, PLAIN)
TOP_K (u16, guint16, guint16, PLAIN)
TOP_K (i32, gint32, gint32, PLAIN)
TOP_K (u32, guint32, guint32, PLAIN)
TOP_K (i64, gint64, gint64, PLAIN)
TOP_K (u64, guint64, guint64, PLAIN)

static const struct
{
  OrtrainDType dtype;
  TopKLineFunc line;
} top_k_lines[] = {
  { ORTRAIN_DTYPE_FLOAT32, top_k_f32 },   { ORTRAIN_DTYPE_FLOAT64, top_k_f64 }, { ORTRAIN_DTYPE_FLOAT16, top_k_f16 },
  { ORTRAIN_DTYPE_BFLOAT16, top_k_bf16 }, { ORTRAIN_DTYPE_INT8, top_k_i8 },     { ORTRAIN_DTYPE_UINT8, top_k_u8 },
  { ORTRAIN_DTYPE_INT16, top_k_i16 },     { ORTRAIN_DTYPE_UINT16, top_k_u16 },  { ORTRAIN_DTYPE_INT32, top_k_i32 },
  { ORTRAIN_DTYPE_UINT32, top_k_u32 },    { ORTRAIN_DTYPE_INT64, top_k_i64 },   { ORTRAIN_DTYPE_UINT64, top_k_u64 },
};

typedef struct
{
  const TopK *top;
  const guint8 *x;
  guint8 *values;
  gint64 *indices;
  gint64 *heaps; /* one for each worker */
} TopKJob;

static gboolean
prepare_top_k (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", -1), x->rank);
  if (y->dtype == ORTRAIN_DTYPE_UNDEFINED && setup->n_outputs > 1)
    y = &setup->outputs[1];
  if (axis < 0 || axis >= x->rank || y->dims[axis] > x->dims[axis])
    return ortrain_kernel_refuse (setup, error, "axis or k is out of range");
  TopK *top = g_new0 (TopK, 1);
  setup->constants = top;
  setup->constants_free = g_free;
  top->outer = ortrain_kernel_product (x->dims, 0, (guint) axis);
  top->dim = x->dims[axis];
  top->inner = ortrain_kernel_product (x->dims, (guint) axis + 1, x->rank);
  top->k = y->dims[axis];
  top->n_outputs = setup->n_outputs;
  top->size = ortrain_dtype_get_size (x->dtype);
  top->largest = ortrain_attributes_get_int (setup->attributes, "largest", 1) != 0;
  for (guint i = 0; i < G_N_ELEMENTS (top_k_lines); i++)
    if (top_k_lines[i].dtype == x->dtype)
      top->line = top_k_lines[i].line;
  if (top->line == NULL)
    return ortrain_kernel_refuse (setup, error, "the type has no order");
  setup->workspace_bytes = (gsize) top->k * sizeof (gint64) * ortrain_cpu_get_n_threads (setup);
  return TRUE;
}

static void
top_k_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const TopKJob *job = data;
  const TopK *top = job->top;
  for (gint64 line = begin; line < end; line++)
    {
      gint64 outer = line / top->inner, inner = line % top->inner;
      gint64 to = outer * top->k * top->inner + inner;
      top->line (top, job->x + (gsize) (outer * top->dim * top->inner + inner) * top->size, top->inner,
                 job->values != NULL ? job->values + (gsize) to * top->size : NULL,
                 job->indices != NULL ? job->indices + to : NULL, job->heaps + (gint64) worker * top->k);
    }
}

static void
run_top_k (const OrtrainKernelCall *call)
{
  const TopK *top = call->constants;
  TopKJob job = { top, call->inputs[0], call->outputs[0], top->n_outputs > 1 ? call->outputs[1] : NULL,
                  call->workspace };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), top->outer * top->inner, ortrain_kernel_grain (top->dim * 8),
                        top_k_range, &job);
}

/* ---- OneHot: indices [outer, inner] → [outer, depth, inner] ---- */

typedef struct
{
  gint64 outer, inner, depth, n_out;
  OrtrainDType index_dtype;
  gsize size;
} OneHot;

static gboolean
prepare_one_hot (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", -1), y->rank);
  if (axis < 0 || axis >= y->rank || setup->inputs[2].n_elements != 2)
    return ortrain_kernel_refuse (setup, error, "axis is out of range, or there are not two values");
  OneHot *hot = g_new0 (OneHot, 1);
  setup->constants = hot;
  setup->constants_free = g_free;
  hot->outer = ortrain_kernel_product (y->dims, 0, (guint) axis);
  hot->depth = y->dims[axis];
  hot->inner = ortrain_kernel_product (y->dims, (guint) axis + 1, y->rank);
  hot->n_out = y->n_elements;
  hot->index_dtype = x->dtype;
  hot->size = ortrain_dtype_get_size (y->dtype);
  return TRUE;
}

/* For NaN and numbers out of range: -2^62, which is outside of any depth. */
static gint64
whole_index (double x)
{
  return x > -0x1p62 && x < 0x1p62 ? (gint64) x : -((gint64) 1 << 62);
}

static gint64
load_index (OrtrainDType dtype, gconstpointer data, gint64 i)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_INT64:
    case ORTRAIN_DTYPE_UINT64:
      return ((const gint64 *) data)[i];
    case ORTRAIN_DTYPE_INT32:
      return ((const gint32 *) data)[i];
    case ORTRAIN_DTYPE_UINT32:
      return ((const guint32 *) data)[i];
    case ORTRAIN_DTYPE_INT16:
      return ((const gint16 *) data)[i];
    case ORTRAIN_DTYPE_UINT16:
      return ((const guint16 *) data)[i];
    case ORTRAIN_DTYPE_INT8:
      return ((const gint8 *) data)[i];
    case ORTRAIN_DTYPE_UINT8:
    case ORTRAIN_DTYPE_BOOL:
      return ((const guint8 *) data)[i];
    case ORTRAIN_DTYPE_FLOAT32:
      return whole_index ((double) ((const float *) data)[i]);
    case ORTRAIN_DTYPE_FLOAT64:
      return whole_index (((const double *) data)[i]);
    case ORTRAIN_DTYPE_FLOAT16:
      return whole_index ((double) ortrain_half_to_float (((const guint16 *) data)[i]));
    case ORTRAIN_DTYPE_BFLOAT16:
      return whole_index ((double) ortrain_bfloat16_to_float (((const guint16 *) data)[i]));
    case ORTRAIN_DTYPE_UNDEFINED:
    case ORTRAIN_DTYPE_STRING:
    case ORTRAIN_DTYPE_COMPLEX64:
    case ORTRAIN_DTYPE_COMPLEX128:
      break;
    }
  return -1;
}

static void
run_one_hot (const OrtrainKernelCall *call)
{
  const OneHot *hot = call->constants;
  const guint8 *values = call->inputs[2];
  guint8 *y = call->outputs[0];
  ortrain_copy_fill (ortrain_cpu_get_pool (call), y, hot->n_out, values, hot->size);
  for (gint64 outer = 0; outer < hot->outer; outer++)
    for (gint64 inner = 0; inner < hot->inner; inner++)
      {
        gint64 index = load_index (hot->index_dtype, call->inputs[0], outer * hot->inner + inner);
        if (index < 0)
          index += hot->depth;
        if (index >= 0 && index < hot->depth)
          memcpy (y + (gsize) ((outer * hot->depth + index) * hot->inner + inner) * hot->size, values + hot->size,
                  hot->size);
      }
}

/* ---- Compress: [outer, dim, inner] where the condition is true ---- */

typedef struct
{
  gint64 outer, dim, row, kept, n_condition; /* row in bytes */
  gsize out_bytes;
} Compress;

/* x: the long one, y: the short one */
static gboolean
setup_compress (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *y, GError **error)
{
  Compress *c = g_new0 (Compress, 1);
  gint64 size = (gint64) ortrain_dtype_get_size (x->dtype);
  setup->constants = c;
  setup->constants_free = g_free;
  c->outer = 1;
  c->dim = x->n_elements;
  c->row = size;
  c->kept = y->n_elements;
  if (ortrain_attributes_has (setup->attributes, "axis"))
    {
      gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), x->rank);
      if (axis < 0 || axis >= x->rank || y->rank != x->rank)
        return ortrain_kernel_refuse (setup, error, "axis is out of range");
      c->outer = ortrain_kernel_product (x->dims, 0, (guint) axis);
      c->dim = x->dims[axis];
      c->row = size * ortrain_kernel_product (x->dims, (guint) axis + 1, x->rank);
      c->kept = y->dims[axis];
    }
  c->n_condition = MIN (setup->inputs[1].n_elements, c->dim);
  c->out_bytes = setup->outputs[0].n_bytes;
  return TRUE;
}

static gboolean
prepare_compress (OrtrainKernelSetup *setup, GError **error)
{
  return setup_compress (setup, &setup->inputs[0], &setup->outputs[0], error);
}

static gboolean
prepare_compress_grad (OrtrainKernelSetup *setup, GError **error)
{
  return setup_compress (setup, &setup->outputs[0], &setup->inputs[0], error);
}

static void
run_compress (const OrtrainKernelCall *call)
{
  const Compress *c = call->constants;
  const guint8 *x = call->inputs[0], *condition = call->inputs[1];
  guint8 *y = call->outputs[0];
  for (gint64 outer = 0; outer < c->outer; outer++)
    for (gint64 i = 0, k = 0; i < c->n_condition && k < c->kept; i++)
      if (condition[i])
        memcpy (y + (outer * c->kept + k++) * c->row, x + (outer * c->dim + i) * c->row, (gsize) c->row);
}

static void
run_compress_grad (const OrtrainKernelCall *call)
{
  const Compress *c = call->constants;
  const guint8 *dy = call->inputs[0], *condition = call->inputs[1];
  guint8 *dx = call->outputs[0];
  ortrain_copy_zero (ortrain_cpu_get_pool (call), dx, c->out_bytes);
  for (gint64 outer = 0; outer < c->outer; outer++)
    for (gint64 i = 0, k = 0; i < c->n_condition && k < c->kept; i++)
      if (condition[i])
        memcpy (dx + (outer * c->dim + i) * c->row, dy + (outer * c->kept + k++) * c->row, (gsize) c->row);
}

/* ---- NonZero: [rank, n] ---- */

typedef struct
{
  guint rank;
  gint64 dims[ORTRAIN_MAX_RANK];
  gint64 n, kept;
  gsize size;
  gboolean floating;
} NonZero;

static gboolean
prepare_non_zero (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  if (x->rank > ORTRAIN_MAX_RANK || setup->outputs[0].rank != 2)
    return ortrain_kernel_refuse (setup, error, "the rank is too large");
  NonZero *non_zero = g_new0 (NonZero, 1);
  setup->constants = non_zero;
  setup->constants_free = g_free;
  non_zero->rank = x->rank;
  memcpy (non_zero->dims, x->dims, sizeof (gint64) * x->rank);
  non_zero->n = x->n_elements;
  non_zero->kept = setup->outputs[0].dims[1];
  non_zero->size = ortrain_dtype_get_size (x->dtype);
  non_zero->floating = ortrain_dtype_is_floating (x->dtype);
  return TRUE;
}

static void
run_non_zero (const OrtrainKernelCall *call)
{
  const NonZero *z = call->constants;
  const guint8 *x = call->inputs[0];
  gint64 *y = call->outputs[0], k = 0;
  for (gint64 i = 0; i < z->n && k < z->kept; i++)
    {
      gboolean zero = TRUE;
      for (gsize b = 0; b < z->size && zero; b++)
        {
          guint8 byte = x[(gsize) i * z->size + b];
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
          gboolean sign = z->floating && b == z->size - 1;
#else
          gboolean sign = z->floating && b == 0;
#endif
          zero = (sign ? byte & 0x7f : byte) == 0;
        }
      if (zero)
        continue;
      gint64 rest = i;
      for (guint d = z->rank; d-- > 0;)
        {
          y[(gint64) d * z->kept + k] = rest % z->dims[d];
          rest /= z->dims[d];
        }
      k++;
    }
}

/* ---- Unique: subtensors along an axis, or elements ---- */

typedef struct
{
  gint64 outer, n, inner, kept; /* inner in elements */
  gsize size;
  OrtrainDType dtype;
  gboolean sorted;
  guint n_outputs;
} Unique;

typedef struct
{
  const Unique *u;
  const guint8 *x;
} UniqueOrder;

static gboolean
prepare_unique (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  Unique *u = g_new0 (Unique, 1);
  setup->constants = u;
  setup->constants_free = g_free;
  u->outer = u->inner = 1;
  u->n = x->n_elements;
  u->kept = y->n_elements;
  if (ortrain_attributes_has (setup->attributes, "axis"))
    {
      gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), x->rank);
      if (axis < 0 || axis >= x->rank || y->rank != x->rank)
        return ortrain_kernel_refuse (setup, error, "axis is out of range");
      u->outer = ortrain_kernel_product (x->dims, 0, (guint) axis);
      u->n = x->dims[axis];
      u->inner = ortrain_kernel_product (x->dims, (guint) axis + 1, x->rank);
      u->kept = y->dims[axis];
    }
  u->size = ortrain_dtype_get_size (x->dtype);
  u->dtype = x->dtype;
  u->n_outputs = setup->n_outputs;
  u->sorted = ortrain_attributes_get_int (setup->attributes, "sorted", 1) != 0;
  setup->workspace_bytes = (gsize) u->n * 3 * sizeof (gint64);
  return TRUE;
}

static int
compare_elements (OrtrainDType dtype, const guint8 *a, const guint8 *b, gsize size)
{
  if (ortrain_dtype_is_floating (dtype))
    {
      double x, y;
      if (dtype == ORTRAIN_DTYPE_FLOAT64)
        {
          memcpy (&x, a, sizeof x);
          memcpy (&y, b, sizeof y);
        }
      else if (dtype == ORTRAIN_DTYPE_FLOAT32)
        {
          float f, g;
          memcpy (&f, a, sizeof f);
          memcpy (&g, b, sizeof g);
          x = (double) f;
          y = (double) g;
        }
      else
        {
          guint16 f, g;
          memcpy (&f, a, sizeof f);
          memcpy (&g, b, sizeof g);
          x = (double) ortrain_dtype_widen (dtype, f);
          y = (double) ortrain_dtype_widen (dtype, g);
        }
      if (x < y || x > y)
        return x < y ? -1 : 1;
    }
  else if (dtype == ORTRAIN_DTYPE_UINT64)
    {
      guint64 x, y;
      memcpy (&x, a, sizeof x);
      memcpy (&y, b, sizeof y);
      if (x != y)
        return x < y ? -1 : 1;
    }
  else
    {
      gint64 x = load_index (dtype, a, 0), y = load_index (dtype, b, 0);
      if (x != y)
        return x < y ? -1 : 1;
    }
  return memcmp (a, b, size);
}

static int
compare_subtensors (const UniqueOrder *order, gint64 a, gint64 b)
{
  const Unique *u = order->u;
  for (gint64 o = 0; o < u->outer; o++)
    for (gint64 i = 0; i < u->inner; i++)
      {
        int c = compare_elements (u->dtype, order->x + (gsize) ((o * u->n + a) * u->inner + i) * u->size,
                                  order->x + (gsize) ((o * u->n + b) * u->inner + i) * u->size, u->size);
        if (c != 0)
          return c;
      }
  return 0;
}

static int
compare_indices (gconstpointer a, gconstpointer b, gpointer data)
{
  gint64 x = *(const gint64 *) a, y = *(const gint64 *) b;
  int c = compare_subtensors (data, x, y);
  return c != 0 ? c : x < y ? -1 : x > y;
}

static void
run_unique (const OrtrainKernelCall *call)
{
  const Unique *u = call->constants;
  UniqueOrder order = { u, call->inputs[0] };
  gint64 *sorted = call->workspace, *group = sorted + u->n, *rank = group + u->n, n_groups = 0;
  for (gint64 i = 0; i < u->n; i++)
    sorted[i] = i;
  g_qsort_with_data (sorted, (gint) u->n, sizeof (gint64), compare_indices, &order);
  /* group[i]: the number of element i's value in sorted order; the first of each group is its first occurrence */
  for (gint64 i = 0; i < u->n; i++)
    {
      if (i == 0 || compare_subtensors (&order, sorted[i - 1], sorted[i]) != 0)
        n_groups++;
      group[sorted[i]] = n_groups - 1;
    }
  if (n_groups != u->kept)
    return;
  /* rank[g]: the position of group g in the result */
  if (u->sorted)
    for (gint64 g = 0; g < n_groups; g++)
      rank[g] = g;
  else
    {
      for (gint64 g = 0; g < n_groups; g++)
        rank[g] = -1;
      for (gint64 i = 0, next = 0; i < u->n; i++)
        if (rank[group[i]] < 0)
          rank[group[i]] = next++;
    }
  guint8 *y = call->outputs[0];
  gint64 *first = u->n_outputs > 1 ? call->outputs[1] : NULL, *inverse = u->n_outputs > 2 ? call->outputs[2] : NULL,
         *counts = u->n_outputs > 3 ? call->outputs[3] : NULL;
  gsize row = (gsize) u->inner * u->size;
  if (counts != NULL)
    memset (counts, 0, (gsize) n_groups * sizeof (gint64));
  for (gint64 i = u->n; i-- > 0;)
    {
      gint64 at = rank[group[i]];
      if (first != NULL)
        first[at] = i;
      if (inverse != NULL)
        inverse[i] = at;
      if (counts != NULL)
        counts[at]++;
      for (gint64 o = 0; o < u->outer && y != NULL; o++)
        memcpy (y + (gsize) (o * u->kept + at) * row, order.x + (gsize) (o * u->n + i) * row, row);
    }
}

static const OrtrainKernel rows[] = {
  { .op_type = "TopK", .domain = "", .prepare = prepare_top_k, .run = run_top_k },
  { .op_type = "OneHot", .domain = "", .prepare = prepare_one_hot, .run = run_one_hot },
  { .op_type = "Compress", .domain = "", .prepare = prepare_compress, .run = run_compress },
  { .op_type = "CompressGrad", .domain = "org.ortrain", .prepare = prepare_compress_grad, .run = run_compress_grad },
  { .op_type = "NonZero", .domain = "", .prepare = prepare_non_zero, .run = run_non_zero },
  { .op_type = "Unique", .domain = "", .prepare = prepare_unique, .run = run_unique },
};

ORTRAIN_KERNEL_TABLE (select, rows);
