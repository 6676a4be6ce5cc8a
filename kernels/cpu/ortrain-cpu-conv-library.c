/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-conv-library.h"
#include "cpu/ortrain-cpu-device-private.h"

#ifndef ORTRAIN_HAVE_DNNL
OrtrainConvLibrary *
ortrain_cpu_conv_library_new (const OrtrainConvProblem *problem, double own_cycles, gboolean *no_memory)
{
  *no_memory = FALSE;
  return NULL;
}

void
ortrain_cpu_conv_library_free (OrtrainConvLibrary *self)
{
}

gsize
ortrain_cpu_conv_library_get_workspace_bytes (const OrtrainConvLibrary *self)
{
  return 0;
}

void
ortrain_cpu_conv_library_run (const OrtrainConvLibrary *self, const OrtrainKernelCall *call, void *large, void *weights,
                              void *small, const float *bias, gboolean accumulate, void *workspace)
{
}
#else

#include "cpu/ortrain-cpu-conv-cost.h"

#include <dnnl.h>
#include <string.h>

enum
{
  LARGE,
  WEIGHTS,
  SMALL,
  N_OPERANDS,
};

/* oneDNN's objects for slabs of one extent. All but the edges of a convolution share one. */
typedef struct
{
  gint64 n_images, n_units;
  gint64 large[3], small[3], pad[3];
  dnnl_primitive_t product;
  dnnl_primitive_t reorder[N_OPERANDS]; /* to the layout that the product takes, or from it; NULL: it takes ONNX's */
  dnnl_primitive_t reorder_add;         /* the same for the result, added to the output's contents */
  dnnl_memory_desc_t chosen[N_OPERANDS];
  struct
  {
    dnnl_memory_t plain[N_OPERANDS], chosen[N_OPERANDS], scratch;
  } * memories; /* [n_threads] */
} Variant;

/* A part of the convolution: units are channels of the result's side, or groups where there are several. */
typedef struct
{
  guint variant;
  gint64 image0, unit0;
  gint64 large0, small0; /* rows, along the axis that is cut */
} Slab;

struct _OrtrainConvLibrary
{
  OrtrainConvProblem problem;
  guint result;
  gboolean no_memory;
  guint axis;  /* spatial, of the cut */
  guint first; /* spatial dimension that oneDNN sees: 0 or 1 */
  GArray *variants;
  Slab *slabs;                                  /* [unit_cuts][image_cuts · row_cuts] */
  gint64 unit_cuts, slabs_per_unit_cut, chunks; /* a work item is a chunk of the slabs of one cut of the units */
  gsize operand_bytes[N_OPERANDS], sum_bytes, scratch_bytes, thread_bytes, partial_bytes;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static gboolean
have_engine (void)
{
  static gsize state;
  if (!ortrain_cpu_gemm_have_onednn ())
    return FALSE;
  if (g_once_init_enter (&state))
    {
      gboolean ok = dnnl_engine_create (&engine, dnnl_cpu, 0) == dnnl_success &&
                    dnnl_stream_create (&stream, engine, dnnl_stream_default_flags) == dnnl_success;
      g_once_init_leave (&state, ok ? 2 : 1);
    }
  return state == 2;
}

/* ---- preparing ---- */

static void
free_variant (OrtrainConvLibrary *self, Variant *variant)
{
  for (guint t = 0; variant->memories != NULL && t < self->problem.n_threads; t++)
    {
      for (guint i = 0; i < N_OPERANDS; i++)
        {
          if (variant->memories[t].plain[i] != NULL)
            dnnl_memory_destroy (variant->memories[t].plain[i]);
          if (variant->memories[t].chosen[i] != NULL)
            dnnl_memory_destroy (variant->memories[t].chosen[i]);
        }
      if (variant->memories[t].scratch != NULL)
        dnnl_memory_destroy (variant->memories[t].scratch);
    }
  g_free (variant->memories);
  for (guint i = 0; i < N_OPERANDS; i++)
    if (variant->reorder[i] != NULL)
      dnnl_primitive_destroy (variant->reorder[i]);
  if (variant->reorder_add != NULL)
    dnnl_primitive_destroy (variant->reorder_add);
  if (variant->product != NULL)
    dnnl_primitive_destroy (variant->product);
}

void
ortrain_cpu_conv_library_free (OrtrainConvLibrary *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->variants->len; i++)
    free_variant (self, &g_array_index (self->variants, Variant, i));
  g_array_unref (self->variants);
  g_free (self->slabs);
  g_free (self);
}

static gboolean
check (OrtrainConvLibrary *self, dnnl_status_t status)
{
  self->no_memory = self->no_memory || status == dnnl_out_of_memory;
  return status == dnnl_success;
}

/* Channels of an operand's side in n_units units. */
static gint64
count_channels (const OrtrainConvLibrary *self, guint side, gint64 n_units)
{
  const OrtrainConvProblem *problem = &self->problem;
  const gint64 channels = side == LARGE ? problem->large_channels : problem->small_channels;
  const gboolean cut = (problem->product == ORTRAIN_CONV_GRAD_INPUT) == (side == LARGE);
  if (problem->geometry.groups > 1)
    return channels * n_units;
  return cut ? n_units : channels;
}

/* dims and the strides of ONNX's layout for a slab's part of an operand. */
static int
describe_operand (const OrtrainConvLibrary *self, const Variant *variant, guint operand, dnnl_dims_t dims,
                  dnnl_dims_t strides)
{
  const OrtrainConvProblem *problem = &self->problem;
  const gint64 groups = problem->geometry.groups, *kernel = problem->geometry.kernel;
  const gint64 *whole = operand == WEIGHTS ? kernel : operand == LARGE ? problem->large : problem->small;
  const gint64 *extent = operand == WEIGHTS ? kernel : operand == LARGE ? variant->large : variant->small;
  const gint64 plane = whole[0] * whole[1] * whole[2];
  int n = 0;
  if (operand != WEIGHTS)
    {
      dims[n] = variant->n_images;
      strides[n++] = groups * (operand == LARGE ? problem->large_channels : problem->small_channels) * plane;
      dims[n] = count_channels (self, operand, variant->n_units);
      strides[n++] = plane;
    }
  else
    {
      if (groups > 1)
        {
          dims[n] = variant->n_units;
          strides[n++] = problem->small_channels * problem->large_channels * plane;
        }
      dims[n] = groups > 1 ? problem->small_channels : count_channels (self, SMALL, variant->n_units);
      strides[n++] = problem->large_channels * plane;
      dims[n] = groups > 1 ? problem->large_channels : count_channels (self, LARGE, variant->n_units);
      strides[n++] = plane;
    }
  gint64 stride = plane;
  for (guint i = 0; i < 3; i++)
    {
      stride /= whole[i];
      if (i < self->first)
        continue;
      dims[n] = extent[i];
      strides[n++] = stride;
    }
  return n;
}

static dnnl_primitive_desc_t
describe_product (const OrtrainConvLibrary *self, const Variant *variant, dnnl_memory_desc_t *any,
                  dnnl_primitive_attr_t attributes)
{
  /* A gradient is described after the forward product, whose inputs are of one type. */
  dnnl_memory_desc_t forward_any[N_OPERANDS];
  memcpy (forward_any, any, sizeof forward_any);
  if (self->result != SMALL)
    forward_any[self->result].data_type = any[SMALL].data_type;
  const OrtrainConvGeometry *geometry = &self->problem.geometry;
  dnnl_dims_t strides, dilates, begin, end;
  for (guint i = self->first; i < 3; i++)
    {
      const guint at = i - self->first;
      strides[at] = geometry->stride[i];
      dilates[at] = geometry->dilation[i] - 1;
      begin[at] = variant->pad[i];
      end[at] = (variant->small[i] - 1) * geometry->stride[i] + ortrain_conv_kernel_extent (geometry, i) -
                variant->large[i] - variant->pad[i];
    }
  dnnl_convolution_desc_t description;
  dnnl_primitive_desc_t forward = NULL, result = NULL;
  if (dnnl_dilated_convolution_forward_desc_init (&description, dnnl_forward_training, dnnl_convolution_direct,
                                                  &forward_any[LARGE], &forward_any[WEIGHTS], NULL, &forward_any[SMALL],
                                                  strides, dilates, begin, end) != dnnl_success ||
      dnnl_primitive_desc_create (&forward, &description, attributes, engine, NULL) != dnnl_success)
    return NULL;
  if (self->result == SMALL)
    return forward;
  dnnl_status_t status =
      self->result == LARGE
          ? dnnl_dilated_convolution_backward_data_desc_init (&description, dnnl_convolution_direct, &any[LARGE],
                                                              &any[WEIGHTS], &any[SMALL], strides, dilates, begin, end)
          : dnnl_dilated_convolution_backward_weights_desc_init (&description, dnnl_convolution_direct, &any[LARGE],
                                                                 &any[WEIGHTS], NULL, &any[SMALL], strides, dilates,
                                                                 begin, end);
  if (status != dnnl_success ||
      dnnl_primitive_desc_create (&result, &description, attributes, engine, forward) != dnnl_success)
    result = NULL;
  dnnl_primitive_desc_destroy (forward);
  return result;
}

static gboolean
create_reorder (OrtrainConvLibrary *self, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, gboolean add,
                dnnl_primitive_t *reorder)
{
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_post_ops_t post_ops = NULL;
  dnnl_primitive_desc_t description = NULL;
  gboolean ok = check (self, dnnl_primitive_attr_create (&attributes)) &&
                check (self, dnnl_primitive_attr_set_scratchpad_mode (attributes, dnnl_scratchpad_mode_user));
  if (ok && add)
    ok = check (self, dnnl_post_ops_create (&post_ops)) && check (self, dnnl_post_ops_append_sum (post_ops, 1)) &&
         check (self, dnnl_primitive_attr_set_post_ops (attributes, post_ops));
  ok = ok && check (self, dnnl_reorder_primitive_desc_create (&description, from, engine, to, engine, attributes)) &&
       check (self, dnnl_primitive_create (reorder, description));
  if (ok)
    {
      const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md (description, dnnl_query_scratchpad_md, 0);
      ok = scratch == NULL || dnnl_memory_desc_get_size (scratch) == 0;
    }
  if (description != NULL)
    dnnl_primitive_desc_destroy (description);
  if (post_ops != NULL)
    dnnl_post_ops_destroy (post_ops);
  if (attributes != NULL)
    dnnl_primitive_attr_destroy (attributes);
  return ok;
}

/* oneDNN falls back to products of its own over gathered columns, or to plain loops, where it has no code generated for
 * the shape: ours do better there. */
static gboolean
is_specialised (dnnl_primitive_desc_t description)
{
  const char *name = NULL;
  return dnnl_primitive_desc_query (description, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name != NULL &&
         (g_str_has_prefix (name, "jit") || g_str_has_prefix (name, "brg"));
}

static gboolean
create_memories (OrtrainConvLibrary *self, Variant *variant, const dnnl_memory_desc_t *plain,
                 const dnnl_memory_desc_t *scratch)
{
  variant->memories = g_try_malloc0_n (self->problem.n_threads, sizeof *variant->memories);
  gboolean ok = variant->memories != NULL;
  self->no_memory = self->no_memory || !ok;
  for (guint t = 0; ok && t < self->problem.n_threads; t++)
    {
      for (guint i = 0; ok && i < N_OPERANDS; i++)
        ok = check (self, dnnl_memory_create (&variant->memories[t].plain[i], &plain[i], engine, DNNL_MEMORY_NONE)) &&
             (variant->reorder[i] == NULL ||
              check (self, dnnl_memory_create (&variant->memories[t].chosen[i], &variant->chosen[i], engine,
                                               DNNL_MEMORY_NONE)));
      if (ok && scratch != NULL && dnnl_memory_desc_get_size (scratch) > 0)
        ok = check (self, dnnl_memory_create (&variant->memories[t].scratch, scratch, engine, DNNL_MEMORY_NONE));
    }
  return ok;
}

static const dnnl_query_t operand_queries[N_OPERANDS][N_OPERANDS] = {
  [SMALL] = { dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md },
  [LARGE] = { dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md },
  [WEIGHTS] = { dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md },
};
static const int operand_names[N_OPERANDS][N_OPERANDS] = {
  [SMALL] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
  [LARGE] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST },
  [WEIGHTS] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST },
};

static OrtrainDType
get_dtype (const OrtrainConvLibrary *self, guint operand)
{
  const OrtrainConvProblem *problem = &self->problem;
  return operand == LARGE ? problem->large_dtype : operand == SMALL ? problem->small_dtype : problem->weights_dtype;
}

static gboolean
create_variant (OrtrainConvLibrary *self, Variant *variant)
{
  dnnl_memory_desc_t any[N_OPERANDS], plain[N_OPERANDS];
  dnnl_primitive_attr_t attributes = NULL;
  gboolean ok = TRUE;
  for (guint i = 0; ok && i < N_OPERANDS; i++)
    {
      dnnl_dims_t dims, strides;
      int n = describe_operand (self, variant, i, dims, strides);
      /* The primitive's result is the sum in float32; it is rounded when it is reordered. */
      const dnnl_data_type_t chosen = self->problem.pairs && i != self->result ? dnnl_bf16 : dnnl_f32;
      const dnnl_data_type_t stored = get_dtype (self, i) == ORTRAIN_DTYPE_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
      ok = check (self, dnnl_memory_desc_init_by_tag (&any[i], n, dims, chosen, dnnl_format_tag_any)) &&
           check (self, dnnl_memory_desc_init_by_strides (&plain[i], n, dims, stored, strides));
    }
  ok = ok && check (self, dnnl_primitive_attr_create (&attributes)) &&
       check (self, dnnl_primitive_attr_set_scratchpad_mode (attributes, dnnl_scratchpad_mode_user));
  dnnl_primitive_desc_t description = ok ? describe_product (self, variant, any, attributes) : NULL;
  ok = description != NULL && is_specialised (description) &&
       check (self, dnnl_primitive_create (&variant->product, description));
  const gboolean summed = self->problem.product == ORTRAIN_CONV_GRAD_WEIGHTS;
  for (guint i = 0; ok && i < N_OPERANDS; i++)
    {
      const gboolean result = i == self->result;
      variant->chosen[i] = *dnnl_primitive_desc_query_md (description, operand_queries[self->result][i], 0);
      if (dnnl_memory_desc_equal (&variant->chosen[i], &plain[i]) && !(result && summed))
        continue;
      const dnnl_memory_desc_t *from = result ? &variant->chosen[i] : &plain[i],
                               *to = result ? &plain[i] : &variant->chosen[i];
      ok = create_reorder (self, from, to, FALSE, &variant->reorder[i]) &&
           (!result || !summed || create_reorder (self, from, to, TRUE, &variant->reorder_add));
      self->operand_bytes[i] = MAX (self->operand_bytes[i], dnnl_memory_desc_get_size (&variant->chosen[i]));
    }
  if (ok)
    {
      const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md (description, dnnl_query_scratchpad_md, 0);
      if (scratch != NULL)
        self->scratch_bytes = MAX (self->scratch_bytes, dnnl_memory_desc_get_size (scratch));
      ok = create_memories (self, variant, plain, scratch);
    }
  if (description != NULL)
    dnnl_primitive_desc_destroy (description);
  if (attributes != NULL)
    dnnl_primitive_attr_destroy (attributes);
  return ok;
}

/* The variant of a slab, created when it is the first of its extent; -1: oneDNN has none. */
static gint
find_variant (OrtrainConvLibrary *self, const Variant *wanted)
{
  for (guint i = 0; i < self->variants->len; i++)
    {
      const Variant *known = &g_array_index (self->variants, Variant, i);
      if (known->n_images == wanted->n_images && known->n_units == wanted->n_units &&
          memcmp (known->large, wanted->large, sizeof wanted->large) == 0 &&
          memcmp (known->small, wanted->small, sizeof wanted->small) == 0 &&
          memcmp (known->pad, wanted->pad, sizeof wanted->pad) == 0)
        return (gint) i;
    }
  g_array_append_val (self->variants, *wanted);
  Variant *variant = &g_array_index (self->variants, Variant, self->variants->len - 1);
  return create_variant (self, variant) ? (gint) self->variants->len - 1 : -1;
}

static gboolean
create_slabs (OrtrainConvLibrary *self, const OrtrainConvCut *cut)
{
  const OrtrainConvProblem *problem = &self->problem;
  const gboolean grad_input = problem->product == ORTRAIN_CONV_GRAD_INPUT;
  const gint64 n_units = problem->geometry.groups > 1 ? problem->geometry.groups
                         : grad_input                 ? problem->large_channels
                                                      : problem->small_channels;
  const gint64 *cut_side = grad_input ? problem->large : problem->small;
  self->unit_cuts = cut->unit_cuts;
  self->slabs_per_unit_cut = cut->image_cuts * cut->row_cuts;
  self->chunks = cut->chunks;
  self->slabs = g_try_malloc0_n ((gsize) (self->unit_cuts * self->slabs_per_unit_cut), sizeof (Slab));
  if (self->slabs == NULL)
    {
      self->no_memory = TRUE;
      return FALSE;
    }
  Slab *slab = self->slabs;
  for (gint64 u = 0; u < cut->unit_cuts; u++)
    for (gint64 n = 0; n < cut->image_cuts; n++)
      for (gint64 r = 0; r < cut->row_cuts; r++, slab++)
        {
          Variant variant = { .n_images = MIN (cut->images, problem->n_images - n * cut->images),
                              .n_units = MIN (cut->units, n_units - u * cut->units) };
          slab->image0 = n * cut->images;
          slab->unit0 = u * cut->units;
          for (guint i = 0; i < 3; i++)
            {
              gint64 first = i == self->axis ? r * cut->rows : 0;
              gint64 last = i == self->axis ? MIN (cut_side[i], first + cut->rows) : cut_side[i], other, n_other;
              if (!ortrain_conv_find_rows (problem, i, first, last, &other, &n_other, &variant.pad[i]))
                return FALSE;
              variant.large[i] = grad_input ? last - first : n_other;
              variant.small[i] = grad_input ? n_other : last - first;
              if (i == self->axis)
                {
                  slab->large0 = grad_input ? first : other;
                  slab->small0 = grad_input ? other : first;
                }
              else if (other != 0)
                return FALSE; /* the first elements along an axis that is not cut belong to nothing */
            }
          gint index = find_variant (self, &variant);
          if (index < 0)
            return FALSE;
          slab->variant = (guint) index;
        }
  return TRUE;
}

static gsize
align (gsize bytes)
{
  return (bytes + 4095) & ~(gsize) 4095;
}

OrtrainConvLibrary *
ortrain_cpu_conv_library_new (const OrtrainConvProblem *problem, double own_cycles, gboolean *no_memory)
{
  const OrtrainConvGeometry *geometry = &problem->geometry;
  OrtrainConvCut cut;
  *no_memory = FALSE;
  for (guint i = 0; i < 3; i++)
    if (problem->large[i] < 1 || problem->small[i] < 1 || geometry->pad_begin[i] < 0 ||
        geometry->kernel[i] > G_MAXINT16 || ortrain_conv_kernel_extent (geometry, i) > G_MAXINT32 / 2 ||
        problem->large[i] > G_MAXINT32 / 2)
      return NULL;
  /* oneDNN has no float16 on CPUs. */
  if (problem->large_dtype == ORTRAIN_DTYPE_FLOAT16 || problem->weights_dtype == ORTRAIN_DTYPE_FLOAT16 ||
      problem->small_dtype == ORTRAIN_DTYPE_FLOAT16)
    return NULL;
  if (problem->n_images < 1 || problem->large_channels < 1 || problem->small_channels < 1 || !have_engine ())
    return NULL;
  const gboolean deep = problem->large[0] > 1 || problem->small[0] > 1 || geometry->kernel[0] > 1;
  const gint64 *cut_side = problem->product == ORTRAIN_CONV_GRAD_INPUT ? problem->large : problem->small;
  const guint first = deep ? 0 : 1;
  guint axis = first;
  while (axis < 2 && problem->large[axis] == 1 && problem->small[axis] == 1)
    axis++;
  ortrain_conv_plan_cut (problem, axis, &cut);
  if (cut_side[axis] < 1 || ortrain_conv_estimate_library (problem, &cut) >= own_cycles)
    return NULL;

  OrtrainConvLibrary *self = g_new0 (OrtrainConvLibrary, 1);
  self->problem = *problem;
  self->result = problem->product == ORTRAIN_CONV_FORWARD      ? SMALL
                 : problem->product == ORTRAIN_CONV_GRAD_INPUT ? LARGE
                                                               : WEIGHTS;
  self->axis = axis;
  self->first = first;
  self->variants = g_array_new (FALSE, FALSE, sizeof (Variant));
  const int threads = ortrain_cpu_gemm_enter_onednn ();
  gboolean ok = create_slabs (self, &cut);
  ortrain_cpu_gemm_leave_onednn (threads);
  if (ok && problem->product == ORTRAIN_CONV_GRAD_WEIGHTS)
    /* Sums over slabs are made in the primitive's layout: it has to be one. */
    for (guint i = 1; i < self->variants->len; i++)
      {
        const Variant *a = &g_array_index (self->variants, Variant, 0),
                      *b = &g_array_index (self->variants, Variant, i);
        ok = ok && (a->n_units != b->n_units || dnnl_memory_desc_equal (&a->chosen[WEIGHTS], &b->chosen[WEIGHTS]));
      }
  for (guint i = 0; i < N_OPERANDS; i++)
    {
      self->operand_bytes[i] = align (self->operand_bytes[i]);
      self->thread_bytes += self->operand_bytes[i];
    }
  /* The sum of a weights' gradient: in the worker's memory, or apart where the sums of several chunks are added. */
  if (problem->product == ORTRAIN_CONV_GRAD_WEIGHTS && self->chunks > 1)
    self->partial_bytes = self->operand_bytes[WEIGHTS] * (gsize) (self->unit_cuts * self->chunks);
  else if (problem->product == ORTRAIN_CONV_GRAD_WEIGHTS && self->slabs_per_unit_cut > 1)
    self->sum_bytes = self->operand_bytes[WEIGHTS];
  self->scratch_bytes = align (self->scratch_bytes);
  self->thread_bytes += self->sum_bytes + self->scratch_bytes;
  *no_memory = self->no_memory;
  if (!ok || self->thread_bytes > ORTRAIN_CONV_LIBRARY_MAX_BYTES)
    g_clear_pointer (&self, ortrain_cpu_conv_library_free);
  return self;
}

gsize
ortrain_cpu_conv_library_get_workspace_bytes (const OrtrainConvLibrary *self)
{
  return self->thread_bytes * self->problem.n_threads + self->partial_bytes;
}

/* ---- running ---- */

typedef struct
{
  const OrtrainConvLibrary *library;
  const OrtrainKernelCall *call;
  void *operands[N_OPERANDS];
  const float *bias;
  gboolean accumulate;
  char *workspace, *partial;
} LibraryJob;

/* oneDNN clears the padding of a layout whenever an address is set, so it is set only when it changes. */
static dnnl_memory_t
set_address (dnnl_memory_t memory, void *address)
{
  void *before = NULL;
  if (dnnl_memory_get_data_handle (memory, &before) != dnnl_success || before != address)
    dnnl_memory_set_data_handle (memory, address);
  return memory;
}

static void
execute (const LibraryJob *job, dnnl_primitive_t primitive, int n, const dnnl_exec_arg_t *arguments)
{
  dnnl_status_t status = dnnl_primitive_execute (primitive, stream, n, arguments);
  if (G_UNLIKELY (status != dnnl_success))
    ortrain_kernel_fault (job->call, ORTRAIN_FAULT_LIBRARY, 0, status, 0);
}

static void
execute_reorder (const LibraryJob *job, dnnl_primitive_t reorder, dnnl_memory_t from, dnnl_memory_t to)
{
  dnnl_exec_arg_t arguments[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
  execute (job, reorder, 2, arguments);
}

/* Where a slab's part of an operand begins. */
static void *
find_address (const LibraryJob *job, const Slab *slab, guint operand)
{
  const OrtrainConvLibrary *self = job->library;
  const OrtrainConvProblem *problem = &self->problem;
  const gint64 groups = problem->geometry.groups, *kernel = problem->geometry.kernel;
  const gint64 taps = kernel[0] * kernel[1] * kernel[2];
  const gint64 size = get_dtype (self, operand) == ORTRAIN_DTYPE_BFLOAT16 ? 2 : sizeof (float);
  guint8 *all = job->operands[operand];
  if (operand == WEIGHTS)
    {
      gint64 unit = groups > 1                                    ? problem->small_channels * problem->large_channels
                    : problem->product == ORTRAIN_CONV_GRAD_INPUT ? 1
                                                                  : problem->large_channels;
      return all + slab->unit0 * unit * taps * size;
    }
  const gint64 *side = operand == LARGE ? problem->large : problem->small;
  const gint64 channels = operand == LARGE ? problem->large_channels : problem->small_channels;
  const gint64 channel0 = slab->unit0 == 0 ? 0 : count_channels (self, operand, slab->unit0);
  const gboolean cut = groups > 1 || (problem->product == ORTRAIN_CONV_GRAD_INPUT) == (operand == LARGE);
  gint64 row = 1;
  for (guint i = self->axis + 1; i < 3; i++)
    row *= side[i];
  return all + ((slab->image0 * groups * channels + (cut ? channel0 : 0)) * side[0] * side[1] * side[2] +
                (operand == LARGE ? slab->large0 : slab->small0) * row) *
                   size;
}

static void
add_bias (const LibraryJob *job, const Slab *slab, const Variant *variant)
{
  const OrtrainConvLibrary *self = job->library;
  const OrtrainConvProblem *problem = &self->problem;
  const guint side = self->result;
  const gint64 *whole = side == LARGE ? problem->large : problem->small;
  const gint64 *extent = side == LARGE ? variant->large : variant->small;
  const gint64 plane = whole[0] * whole[1] * whole[2], n = extent[0] * extent[1] * extent[2];
  const gint64 channels = count_channels (self, side, variant->n_units);
  const gint64 all = problem->geometry.groups * (side == LARGE ? problem->large_channels : problem->small_channels);
  const float *bias = job->bias + (slab->unit0 == 0 ? 0 : count_channels (self, side, slab->unit0));
  float *first = find_address (job, slab, side);
  for (gint64 i = 0; i < variant->n_images; i++)
    for (gint64 c = 0; c < channels; c++)
      {
        float *restrict to = first + (i * all + c) * plane;
        for (gint64 j = 0; j < n; j++)
          to[j] += bias[c];
      }
}

/* A sum, into ONNX's layout. */
static void
store_weights (const LibraryJob *job, const Slab *slab, float *sum, guint worker)
{
  const Variant *variant = &g_array_index (job->library->variants, Variant, slab->variant);
  execute_reorder (job, job->accumulate ? variant->reorder_add : variant->reorder[WEIGHTS],
                   set_address (variant->memories[worker].chosen[WEIGHTS], sum),
                   set_address (variant->memories[worker].plain[WEIGHTS], find_address (job, slab, WEIGHTS)));
}

/* The chunk of a cut's slabs, one after the other; a weights' gradient is summed over them. */
static void
run_item (const LibraryJob *job, gint64 index, guint worker)
{
  const OrtrainConvLibrary *self = job->library;
  const gint64 chunk = index % self->chunks, unit_cut = index / self->chunks, n = self->slabs_per_unit_cut;
  const Slab *slabs = self->slabs + unit_cut * n;
  const guint result = self->result;
  char *memory = job->workspace + worker * self->thread_bytes, *address[N_OPERANDS];
  for (guint i = 0; i < N_OPERANDS; i++)
    {
      address[i] = memory;
      memory += self->operand_bytes[i];
    }
  float *sum = (float *) (self->chunks > 1      ? job->partial + (gsize) index * self->operand_bytes[WEIGHTS]
                          : self->sum_bytes > 0 ? memory
                                                : address[WEIGHTS]);
  memory += self->sum_bytes;
  const dnnl_memory_desc_t *weights_layout = NULL;
  const gint64 first = n * chunk / self->chunks, last = n * (chunk + 1) / self->chunks;
  for (gint64 i = first; i < last; i++)
    {
      const Variant *variant = &g_array_index (self->variants, Variant, slabs[i].variant);
      dnnl_exec_arg_t arguments[N_OPERANDS + 1];
      const gboolean summed = result == WEIGHTS;
      for (guint k = 0; k < N_OPERANDS; k++)
        {
          dnnl_memory_t plain = variant->memories[worker].plain[k], chosen = variant->memories[worker].chosen[k];
          if (!(k == result && summed))
            set_address (plain, find_address (job, &slabs[i], k));
          if (variant->reorder[k] == NULL)
            chosen = plain;
          else if (k == result && summed)
            set_address (chosen, i == first ? (void *) sum : address[k]);
          else
            set_address (chosen, address[k]);
          arguments[k] = (dnnl_exec_arg_t){ operand_names[result][k], chosen };
          if (k == result || variant->reorder[k] == NULL)
            continue;
          if (k == WEIGHTS)
            {
              /* The same for all slabs, unless their primitives differ in the layout. */
              if (weights_layout != NULL && dnnl_memory_desc_equal (weights_layout, &variant->chosen[k]))
                continue;
              weights_layout = &variant->chosen[k];
            }
          execute_reorder (job, variant->reorder[k], plain, chosen);
        }
      int n_arguments = N_OPERANDS;
      if (variant->memories[worker].scratch != NULL)
        arguments[n_arguments++] =
            (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, set_address (variant->memories[worker].scratch, memory) };
      execute (job, variant->product, n_arguments, arguments);
      if (summed && i > first)
        {
          const float *restrict from = (const float *) address[WEIGHTS];
          const gsize n_elements = dnnl_memory_desc_get_size (&variant->chosen[WEIGHTS]) / sizeof (float);
          float *restrict to = sum;
          for (gsize j = 0; j < n_elements; j++)
            to[j] += from[j];
        }
      if (!summed && variant->reorder[result] != NULL)
        execute_reorder (job, variant->reorder[result], variant->memories[worker].chosen[result],
                         variant->memories[worker].plain[result]);
      if (job->bias != NULL)
        add_bias (job, &slabs[i], variant);
    }
  if (result == WEIGHTS && self->chunks == 1)
    store_weights (job, slabs, sum, worker);
}

/* The sums of the chunks in their order. */
static void
finish_item (const LibraryJob *job, gint64 unit_cut, guint worker)
{
  const OrtrainConvLibrary *self = job->library;
  const Slab *slab = &self->slabs[unit_cut * self->slabs_per_unit_cut];
  const Variant *variant = &g_array_index (self->variants, Variant, slab->variant);
  const gsize n_elements = dnnl_memory_desc_get_size (&variant->chosen[WEIGHTS]) / sizeof (float);
  float *restrict sum = (float *) (job->partial + (gsize) (unit_cut * self->chunks) * self->operand_bytes[WEIGHTS]);
  for (gint64 c = 1; c < self->chunks; c++)
    {
      const float *restrict from = sum + (gsize) c * self->operand_bytes[WEIGHTS] / sizeof (float);
      for (gsize j = 0; j < n_elements; j++)
        sum[j] += from[j];
    }
  store_weights (job, slab, sum, worker);
}

static void
run_items (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const int threads = ortrain_cpu_gemm_enter_onednn ();
  for (gint64 i = begin; i < end; i++)
    run_item (data, i, worker);
  ortrain_cpu_gemm_leave_onednn (threads);
}

static void
finish_items (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const int threads = ortrain_cpu_gemm_enter_onednn ();
  for (gint64 i = begin; i < end; i++)
    finish_item (data, i, worker);
  ortrain_cpu_gemm_leave_onednn (threads);
}

void
ortrain_cpu_conv_library_run (const OrtrainConvLibrary *self, const OrtrainKernelCall *call, void *large, void *weights,
                              void *small, const float *bias, gboolean accumulate, void *workspace)
{
  LibraryJob job = { .library = self,
                     .call = call,
                     .operands = { large, weights, small },
                     .bias = bias,
                     .accumulate = accumulate,
                     .workspace = workspace };
  job.partial = job.workspace + self->thread_bytes * self->problem.n_threads;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), self->unit_cuts * self->chunks, 1, run_items, &job);
  if (self->result == WEIGHTS && self->chunks > 1)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), self->unit_cuts, 1, finish_items, &job);
}
#endif
