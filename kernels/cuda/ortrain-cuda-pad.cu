/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-copy.h"

/* Pad, Tile, CenterCropPad, DepthToSpace, SpaceToDepth, Trilu, ReverseSequence, and the gradients that are not
 * copies. */

static gsize
get_size (const OrtrainOperand *operand)
{
  return ortrain_cuda_library->dtype_get_size (operand->dtype);
}

static gboolean
refuse_for (const OrtrainKernelSetup *setup, GError **error, const char *reason)
{
  return reason == NULL || ortrain_cuda_refuse (setup, error, "%s", reason);
}

/* ---- Pad ---- */

enum PadMode
{
  CONSTANT,
  REFLECT,
  EDGE,
  WRAP,
};

/* x: the tensor before padding, y: the tensor after it. Dimensions from the innermost one outwards; those that are not
 * padded are joined with their neighbours. */
struct Pad
{
  PadMode mode;
  guint rank; /* at least 1 */
  gint64 x_dims[ORTRAIN_MAX_RANK], begin[ORTRAIN_MAX_RANK];
  gint64 x_strides[ORTRAIN_MAX_RANK], y_strides[ORTRAIN_MAX_RANK];
  OrtrainDivisor x_divisors[ORTRAIN_MAX_RANK], y_divisors[ORTRAIN_MAX_RANK];
  gint64 n_x, n_y;
  bool small;
};

typedef struct
{
  Pad pad;
  gint64 y_dims[ORTRAIN_MAX_RANK];
  gsize size;
  OrtrainDType dtype, value_dtype;
} PadConstants;

static inline __device__ gint64
divide_rest (gint64 &i, const OrtrainDivisor &by, bool small)
{
  return small ? ortrain_divide_rest<true> (i, by) : ortrain_divide_rest<false> (i, by);
}

static inline __device__ gint64
modulo (gint64 a, gint64 b)
{
  const gint64 r = a % b;
  return r < 0 ? r + b : r;
}

/* The index of x, n long, that index k beyond it stands for. */
static inline __device__ gint64
fold_index (PadMode mode, gint64 k, gint64 n)
{
  if (mode == EDGE)
    return k < 0 ? 0 : n - 1;
  if (mode == WRAP)
    return modulo (k, n);
  const gint64 period = n > 1 ? 2 * (n - 1) : 1;
  k = modulo (k, period);
  return k < n ? k : period - k;
}

/* The value that an old model has as a float, in the type of the tensor: its bytes. */
static inline __device__ void
read_pad_value (const void *value, OrtrainDType value_dtype, OrtrainDType dtype, int size, guint8 *bytes)
{
  union
  {
    guint8 bytes[16];
    double d;
    gint64 i;
    guint16 half;
  } element = {};
  element.i = 0;
  if (value == NULL)
    ;
  else if (value_dtype == dtype)
    for (int b = 0; b < size; b++)
      element.bytes[b] = ((const guint8 *) value)[b];
  else if (value_dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      const float f = *(const float *) value;
      if (dtype == ORTRAIN_DTYPE_FLOAT64)
        element.d = (double) f;
      else if (dtype == ORTRAIN_DTYPE_FLOAT16)
        element.half = ortrain_float_to_half (f);
      else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
        element.half = ortrain_float_to_bfloat16 (f);
      else
        element.i = f >= 2147483648.0f ? 2147483647 : f > -2147483648.0f ? (gint64) f : -2147483648LL;
    }
  for (int b = 0; b < size; b++)
    bytes[b] = element.bytes[b];
}

/* Several elements of `size` bytes are a unit T. */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) pad_kernel (const Pad pad, const T *x, T *y, const void *value,
                                                   OrtrainDType value_dtype, OrtrainDType dtype, int size)
{
  guint8 element[16] = {};
  T fill = T ();
  if (pad.mode == CONSTANT)
    {
      read_pad_value (value, value_dtype, dtype, size, element);
      for (int b = 0; b < (int) sizeof (T); b++)
        ((guint8 *) &fill)[b] = element[b % size];
    }
  for (gint64 i = ortrain_cuda_first (); i < pad.n_y; i += ortrain_cuda_stride ())
    {
      gint64 rest = i, from = 0;
      bool inside = true;
      for (guint d = 0; d < pad.rank; d++)
        {
          gint64 k = rest;
          rest = divide_rest (k, pad.y_divisors[d], pad.small);
          k -= pad.begin[d];
          if (k < 0 || k >= pad.x_dims[d])
            {
              if (pad.mode == CONSTANT)
                inside = false;
              else
                k = fold_index (pad.mode, k, pad.x_dims[d]);
            }
          from += k * pad.x_strides[d];
        }
      y[i] = inside ? x[from] : fill;
    }
}

/* The indices of y that read index i of x, in one dimension, in ascending order: from first to last. */
struct Readers
{
  gint64 first, last, gap, other_gap; /* the gaps take turns */
};

static inline __device__ Readers
find_readers (const Pad &pad, guint d, gint64 i)
{
  const gint64 n = pad.x_dims[d], begin = pad.begin[d], last = pad.y_divisors[d].divisor - 1;
  Readers readers = { begin + i, begin + i, 1, 1 };
  if (pad.mode == CONSTANT || (begin == 0 && last == n - 1))
    {
      if (readers.first < 0 || readers.first > last)
        readers.last = readers.first - 1;
    }
  else if (pad.mode == EDGE)
    {
      if (i == 0)
        readers.first = 0;
      if (i == n - 1)
        readers.last = last;
      readers.first = readers.first < 0 ? 0 : readers.first;
      readers.last = readers.last < last ? readers.last : last;
    }
  else
    {
      /* indices k - begin that are i, or -i, beyond a whole number of periods */
      const gint64 period = pad.mode == WRAP ? n : n > 1 ? 2 * (n - 1) : 1;
      const gint64 first = modulo (begin + i, period), mirrored = modulo (begin - i, period);
      readers = { first, last, period, period };
      if (pad.mode == REFLECT && first != mirrored)
        {
          readers.first = first < mirrored ? first : mirrored;
          readers.gap = first < mirrored ? mirrored - first : first - mirrored;
          readers.other_gap = period - readers.gap;
        }
    }
  return readers;
}

/* dy: [y], dx: [x] */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) pad_grad_kernel (const Pad pad, const T *dy, T *dx)
{
  for (gint64 i = ortrain_cuda_first (); i < pad.n_x; i += ortrain_cuda_stride ())
    {
      Readers readers[ORTRAIN_MAX_RANK];
      gint64 at[ORTRAIN_MAX_RANK];
      bool turned[ORTRAIN_MAX_RANK];
      gint64 rest = i, from = 0;
      bool none = false;
      for (guint d = 0; d < pad.rank; d++)
        {
          gint64 k = rest;
          rest = divide_rest (k, pad.x_divisors[d], pad.small);
          readers[d] = find_readers (pad, d, k);
          at[d] = readers[d].first;
          turned[d] = false;
          from += at[d] * pad.y_strides[d];
          none = none || readers[d].first > readers[d].last;
        }
      typename OrtrainWide<T>::Type sum = 0;
      for (guint d = 0; d < pad.rank && !none;)
        {
          sum += ortrain_load (dy, from);
          for (d = 0; d < pad.rank; d++)
            {
              const gint64 next = at[d] + (turned[d] ? readers[d].other_gap : readers[d].gap);
              if (next <= readers[d].last)
                {
                  from += (next - at[d]) * pad.y_strides[d];
                  at[d] = next;
                  turned[d] = !turned[d];
                  break;
                }
              from -= (at[d] - readers[d].first) * pad.y_strides[d];
              at[d] = readers[d].first;
              turned[d] = false;
            }
        }
      ortrain_store (dx, i, sum);
    }
}

static const char *
setup_pad (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *y, guint pads_input,
           guint axes_input)
{
  static const char *const names[] = { "constant", "reflect", "edge", "wrap" };
  const char *mode = ORTRAIN_CUDA_STRING (setup, "mode", "constant");
  gint64 pads[2 * ORTRAIN_MAX_RANK], axes[ORTRAIN_MAX_RANK], begin[ORTRAIN_MAX_RANK] = { 0 };
  gint n = ortrain_kernel_ints (setup, pads_input, pads, 2 * ORTRAIN_MAX_RANK);
  gint n_axes = ortrain_kernel_ints (setup, axes_input, axes, ORTRAIN_MAX_RANK);
  const guint rank = x->rank;
  if (n_axes == -1)
    for (n_axes = 0; n_axes < (gint) rank; n_axes++)
      axes[n_axes] = n_axes;
  if (n < 0 || n_axes < 0 || n != 2 * n_axes || rank != y->rank || rank > ORTRAIN_MAX_RANK)
    return "pads and axes are not known or do not fit";
  for (gint i = 0; i < n_axes; i++)
    begin[ortrain_kernel_axis (axes[i], rank)] = pads[i];
  PadConstants *constants = g_new0 (PadConstants, 1);
  Pad *pad = &constants->pad;
  setup->constants = constants;
  setup->constants_free = g_free;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (mode, names[i]))
      pad->mode = (PadMode) i;
  for (guint d = 0; d < rank; d++)
    if (x->dims[d] == 0 && y->n_elements > 0 && pad->mode != CONSTANT)
      return "an empty axis cannot be padded from its own elements";
  constants->size = get_size (x);
  constants->dtype = x->dtype;
  pad->n_x = x->n_elements;
  pad->n_y = y->n_elements;
  pad->small = MAX (pad->n_x, pad->n_y) <= G_MAXINT32;
  for (guint d = rank; d-- > 0;)
    {
      const bool plain = begin[d] == 0 && x->dims[d] == y->dims[d];
      const guint last = pad->rank - 1;
      const bool last_plain = pad->rank > 0 && pad->begin[last] == 0 && pad->x_dims[last] == constants->y_dims[last];
      if (last_plain && (plain || pad->mode == CONSTANT))
        {
          pad->begin[last] = begin[d] * pad->x_dims[last];
          constants->y_dims[last] *= y->dims[d];
          pad->x_dims[last] *= x->dims[d];
          continue;
        }
      pad->x_dims[pad->rank] = x->dims[d];
      constants->y_dims[pad->rank] = y->dims[d];
      pad->begin[pad->rank++] = begin[d];
    }
  if (pad->rank == 0)
    pad->rank = 1, pad->x_dims[0] = constants->y_dims[0] = 1;
  return NULL;
}

/* Divisors and strides, in units of so many elements. */
static Pad
finish_pad (const PadConstants *constants, gint64 elements)
{
  Pad pad = constants->pad;
  gint64 x_stride = 1, y_stride = 1;
  for (guint d = 0; d < pad.rank; d++)
    {
      const gint64 by = d == 0 ? elements : 1;
      pad.x_dims[d] /= by;
      pad.begin[d] /= by;
      pad.x_divisors[d] = ortrain_divisor (pad.x_dims[d]);
      pad.y_divisors[d] = ortrain_divisor (constants->y_dims[d] / by);
      pad.x_strides[d] = x_stride;
      pad.y_strides[d] = y_stride;
      x_stride *= pad.x_dims[d];
      y_stride *= constants->y_dims[d] / by;
    }
  pad.n_x /= elements;
  pad.n_y /= elements;
  return pad;
}

static gboolean
prepare_pad (OrtrainKernelSetup *setup, GError **error)
{
  const char *reason = setup_pad (setup, &setup->inputs[0], &setup->outputs[0], 1, 3);
  if (reason == NULL)
    ((PadConstants *) setup->constants)->value_dtype =
        setup->n_inputs > 2 ? setup->inputs[2].dtype : ORTRAIN_DTYPE_UNDEFINED;
  return refuse_for (setup, error, reason);
}

static void
run_pad (const OrtrainKernelCall *call)
{
  const PadConstants *constants = (const PadConstants *) call->constants;
  const Pad *pad = &constants->pad;
  if (pad->n_y == 0)
    return;
  gsize unit = constants->size;
  if (pad->mode == CONSTANT || (pad->begin[0] == 0 && pad->x_dims[0] == constants->y_dims[0]))
    unit = ortrain_cuda_unit ((guint64) (pad->begin[0] | pad->x_dims[0] | constants->y_dims[0]) * constants->size |
                              (guint64) (gsize) call->inputs[0] | (guint64) (gsize) call->outputs[0]);
  const Pad units = finish_pad (constants, (gint64) (unit / constants->size));
  const void *value = constants->value_dtype != ORTRAIN_DTYPE_UNDEFINED ? call->inputs[2] : NULL;
  ORTRAIN_CUDA_SIZES (unit, T,
                      ortrain_cuda_launch (call, "pad", ortrain_cuda_grid (call, units.n_y, ORTRAIN_CUDA_BLOCK),
                                           ORTRAIN_CUDA_BLOCK, pad_kernel<T>, units, (const T *) call->inputs[0],
                                           (T *) call->outputs[0], value, constants->value_dtype, constants->dtype,
                                           (int) constants->size););
}

/* PadGrad (dy, shape, pads, axes) */
static gboolean
prepare_pad_grad (OrtrainKernelSetup *setup, GError **error)
{
  return refuse_for (setup, error, setup_pad (setup, &setup->outputs[0], &setup->inputs[0], 2, 3));
}

template <typename T>
static void
launch_pad_grad (const OrtrainKernelCall *call, const Pad &pad)
{
  ortrain_cuda_launch (call, "pad-grad", ortrain_cuda_grid (call, pad.n_x, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       pad_grad_kernel<T>, pad, (const T *) call->inputs[0], (T *) call->outputs[0]);
}

static void
run_pad_grad (const OrtrainKernelCall *call)
{
  const PadConstants *constants = (const PadConstants *) call->constants;
  const Pad pad = finish_pad (constants, 1);
  if (pad.n_x == 0)
    return;
  if (constants->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_pad_grad<double> (call, pad);
  else
    ORTRAIN_CUDA_FLOATING (constants->dtype, T, launch_pad_grad<T> (call, pad););
}

/* ---- copies ---- */

typedef struct
{
  OrtrainCopyPlan plan;
  gsize n_bytes;
  gboolean covered; /* the copy writes every element */
} Copy;

static Copy *
take_copy (OrtrainKernelSetup *setup)
{
  Copy *copy = g_new0 (Copy, 1);
  setup->constants = copy;
  setup->constants_free = g_free;
  copy->n_bytes = setup->outputs[0].n_bytes;
  return copy;
}

static void
run_copy (const OrtrainKernelCall *call)
{
  const Copy *copy = (const Copy *) call->constants;
  if (!copy->covered)
    ortrain_cuda_fill (call, call->outputs[0], 0, copy->n_bytes);
  ortrain_cuda_copy_run (call, &copy->plan, call->inputs[0], call->outputs[0]);
}

static gboolean
prepare_tile (OrtrainKernelSetup *setup, GError **error)
{
  Copy *copy = take_copy (setup);
  copy->covered = TRUE;
  return refuse_for (
      setup, error,
      ortrain_copy_plan_init_tile (&copy->plan, get_size (&setup->inputs[0]), &setup->inputs[0], &setup->outputs[0]));
}

static gboolean
prepare_depth (OrtrainKernelSetup *setup, GError **error)
{
  const gboolean to_space = g_str_equal (setup->op_type, "DepthToSpace");
  const OrtrainOperand *deep = to_space ? &setup->inputs[0] : &setup->outputs[0];
  Copy *copy = take_copy (setup);
  copy->covered = TRUE;
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_depth (&copy->plan, get_size (deep), deep,
                                                   ORTRAIN_CUDA_INT (setup, "blocksize", 0), to_space,
                                                   g_str_equal (ORTRAIN_CUDA_STRING (setup, "mode", "DCR"), "CRD")));
}

static gboolean
prepare_center_crop_pad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  Copy *copy = take_copy (setup);
  const char *reason = ortrain_copy_plan_init_center (&copy->plan, get_size (x), x, y);
  copy->covered = copy->plan.n_elements == y->n_elements;
  return refuse_for (setup, error, reason);
}

/* ---- TileGrad (dy, shape of x): each element of x gets the sum over its copies, in their order ---- */

struct TileGrad
{
  guint rank; /* dimensions from the innermost one outwards */
  OrtrainDivisor dims[ORTRAIN_MAX_RANK], repeats[ORTRAIN_MAX_RANK];
  gint64 strides[ORTRAIN_MAX_RANK]; /* of dy */
  gint64 n, copies;
  OrtrainDType dtype, out_dtype; /* of dy, of dx */
  bool small;
};

template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) tile_grad_kernel (const TileGrad tile, const T *dy, void *dx)
{
  for (gint64 i = ortrain_cuda_first (); i < tile.n; i += ortrain_cuda_stride ())
    {
      gint64 rest = i, base = 0;
      for (guint d = 0; d < tile.rank; d++)
        {
          gint64 k = rest;
          rest = divide_rest (k, tile.dims[d], tile.small);
          base += k * tile.strides[d];
        }
      typename OrtrainWide<T>::Type sum = 0;
      for (gint64 copy = 0; copy < tile.copies; copy++)
        {
          gint64 at = base;
          rest = copy;
          for (guint d = 0; d < tile.rank; d++)
            {
              gint64 k = rest;
              rest = divide_rest (k, tile.repeats[d], tile.small);
              at += k * tile.dims[d].divisor * tile.strides[d];
            }
          sum += ortrain_load (dy, at);
        }
      if (tile.out_dtype == ORTRAIN_DTYPE_FLOAT64)
        ((double *) dx)[i] = (double) sum;
      else
        ortrain_store_any (dx, i, tile.out_dtype, (float) sum);
    }
}

static gboolean
prepare_tile_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *dx = &setup->outputs[0];
  gint64 strides[ORTRAIN_MAX_RANK];
  if (dx->rank != dy->rank || dx->rank > ORTRAIN_MAX_RANK)
    return ortrain_cuda_refuse (setup, error, "input and output differ in rank");
  TileGrad *tile = g_new0 (TileGrad, 1);
  setup->constants = tile;
  setup->constants_free = g_free;
  tile->rank = dx->rank;
  tile->n = dx->n_elements;
  tile->copies = 1;
  tile->dtype = dy->dtype;
  tile->out_dtype = dx->dtype;
  tile->small = MAX (dy->n_elements, dx->n_elements) <= G_MAXINT32;
  ortrain_copy_strides (dy->rank, dy->dims, strides);
  for (guint d = 0; d < dx->rank; d++)
    {
      const guint k = dx->rank - 1 - d;
      const gint64 repeats = dx->dims[d] > 0 ? dy->dims[d] / dx->dims[d] : 0;
      tile->dims[k] = ortrain_divisor (dx->dims[d]);
      tile->repeats[k] = ortrain_divisor (repeats);
      tile->strides[k] = strides[d];
      tile->copies *= repeats;
    }
  return TRUE;
}

template <typename T>
static void
launch_tile_grad (const OrtrainKernelCall *call, const TileGrad *tile)
{
  ortrain_cuda_launch (call, "tile-grad", ortrain_cuda_grid (call, tile->n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       tile_grad_kernel<T>, *tile, (const T *) call->inputs[0], call->outputs[0]);
}

static void
run_tile_grad (const OrtrainKernelCall *call)
{
  const TileGrad *tile = (const TileGrad *) call->constants;
  if (tile->n == 0)
    return;
  if (tile->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_tile_grad<double> (call, tile);
  else
    ORTRAIN_CUDA_FLOATING (tile->dtype, T, launch_tile_grad<T> (call, tile););
}

/* ---- Trilu: [batch, rows, columns], k from input 1 ---- */

struct Trilu
{
  gint64 n, k;
  OrtrainDivisor rows, columns;
  gsize size;
  bool upper, small;
};

template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) trilu_kernel (const Trilu trilu, const T *x, T *y)
{
  for (gint64 i = ortrain_cuda_first (); i < trilu.n; i += ortrain_cuda_stride ())
    {
      gint64 column = i, row = divide_rest (column, trilu.columns, trilu.small);
      divide_rest (row, trilu.rows, trilu.small);
      const bool keeps = trilu.upper ? column >= row + trilu.k : column <= row + trilu.k;
      y[i] = keeps ? x[i] : T ();
    }
}

static gboolean
prepare_trilu (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  gint64 k = 0;
  if (x->rank < 2 || ortrain_kernel_ints (setup, 1, &k, 1) == -2)
    return ortrain_cuda_refuse (setup, error, "k is not known, or the input is no matrix");
  Trilu *trilu = g_new0 (Trilu, 1);
  setup->constants = trilu;
  setup->constants_free = g_free;
  trilu->n = x->n_elements;
  trilu->rows = ortrain_divisor (x->dims[x->rank - 2]);
  trilu->columns = ortrain_divisor (x->dims[x->rank - 1]);
  trilu->upper = ORTRAIN_CUDA_INT (setup, "upper", 1) != 0;
  trilu->k = CLAMP (k, -x->dims[x->rank - 2] - 1, x->dims[x->rank - 1] + 1);
  trilu->size = get_size (x);
  trilu->small = trilu->n <= G_MAXINT32;
  setup->inplace[0] = 1;
  return TRUE;
}

static void
run_trilu (const OrtrainKernelCall *call)
{
  const Trilu *trilu = (const Trilu *) call->constants;
  if (trilu->n > 0)
    ORTRAIN_CUDA_SIZES (trilu->size, T,
                        ortrain_cuda_launch (call, "trilu", ortrain_cuda_grid (call, trilu->n, ORTRAIN_CUDA_BLOCK),
                                             ORTRAIN_CUDA_BLOCK, trilu_kernel<T>, *trilu, (const T *) call->inputs[0],
                                             (T *) call->outputs[0]););
}

/* ---- ReverseSequence: [time, batch, inner] or [batch, time, inner] ---- */

struct ReverseSequence
{
  gint64 time, batch, inner; /* inner: bytes, in the kernel units */
  bool time_first, index_64;
};

/* x, y: [rows, columns, inner] */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    reverse_kernel (const ReverseSequence reverse, const OrtrainDivisor inner, const OrtrainDivisor columns, gint64 n,
                    const T *x, const void *lengths, T *y, const OrtrainFaultPlace fault)
{
  const bool small = n <= G_MAXINT32;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      gint64 unit = i, column = divide_rest (unit, inner, small);
      const gint64 row = divide_rest (column, columns, small);
      const gint64 t = reverse.time_first ? row : column, b = reverse.time_first ? column : row;
      gint64 length = reverse.index_64 ? ((const gint64 *) lengths)[b] : (gint64) ((const gint32 *) lengths)[b];
      if (length < 0 || length > reverse.time)
        {
          if (t == 0 && unit == 0)
            fault.report (ORTRAIN_FAULT_INDEX, b, length, reverse.time + 1);
          length = 0;
        }
      const gint64 from = t < length ? length - 1 - t : t;
      y[i] = x[((reverse.time_first ? from : row) * columns.divisor + (reverse.time_first ? column : from)) *
                   inner.divisor +
               unit];
    }
}

static gboolean
prepare_reverse_sequence (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *lengths = &setup->inputs[1];
  const gint64 time_axis = ORTRAIN_CUDA_INT (setup, "time_axis", 0);
  if (x->rank < 2 || (time_axis != 0 && time_axis != 1) || lengths->n_elements != x->dims[1 - time_axis])
    return ortrain_cuda_refuse (setup, error, "there must be one length for each sequence");
  ReverseSequence *reverse = g_new0 (ReverseSequence, 1);
  setup->constants = reverse;
  setup->constants_free = g_free;
  reverse->time = x->dims[time_axis];
  reverse->batch = x->dims[1 - time_axis];
  reverse->inner = ortrain_kernel_product (x->dims, 2, x->rank) * (gint64) get_size (x);
  reverse->time_first = time_axis == 0;
  reverse->index_64 = lengths->dtype == ORTRAIN_DTYPE_INT64;
  return TRUE;
}

static void
run_reverse_sequence (const OrtrainKernelCall *call)
{
  const ReverseSequence *reverse = (const ReverseSequence *) call->constants;
  const gsize unit = ortrain_cuda_unit ((guint64) reverse->inner | (guint64) (gsize) call->inputs[0] |
                                        (guint64) (gsize) call->outputs[0]);
  const OrtrainDivisor inner = ortrain_divisor (reverse->inner / (gint64) unit);
  const OrtrainDivisor columns = ortrain_divisor (reverse->time_first ? reverse->batch : reverse->time);
  const gint64 n = reverse->time * reverse->batch * (reverse->inner / (gint64) unit);
  if (n > 0)
    ORTRAIN_CUDA_SIZES (unit, T,
                        ortrain_cuda_launch (call, "reverse-sequence", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK),
                                             ORTRAIN_CUDA_BLOCK, reverse_kernel<T>, *reverse, inner, columns, n,
                                             (const T *) call->inputs[0], call->inputs[1], (T *) call->outputs[0],
                                             ortrain_cuda_get_fault (call)););
}

static const OrtrainKernel rows[] = {
  { "Pad", "", 0, prepare_pad, run_pad },
  { "PadGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_pad_grad, run_pad_grad },
  { "Tile", "", 0, prepare_tile, run_copy },
  { "TileGrad", "org.ortrain", ORTRAIN_DTYPES_F32F64, prepare_tile_grad, run_tile_grad },
  { "TileGrad", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare_tile_grad, run_tile_grad, 0, ORTRAIN_DTYPES_MIXED },
  { "CenterCropPad", "", 0, prepare_center_crop_pad, run_copy },
  { "DepthToSpace", "", 0, prepare_depth, run_copy },
  { "SpaceToDepth", "", 0, prepare_depth, run_copy },
  { "Trilu", "", 0, prepare_trilu, run_trilu },
  { "ReverseSequence", "", 0, prepare_reverse_sequence, run_reverse_sequence },
};

ORTRAIN_CUDA_TABLE (pad, rows);
