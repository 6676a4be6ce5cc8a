/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-rows.h"

/* Statistics and gradient of normalization over groups of channels, and normalization over neighbouring channels (LRN).
 */

typedef struct
{
  gint64 rows, n; /* groups of all samples, and their elements */
  gint64 batch, channels, groups, inner;
  float epsilon;
  int before, after;       /* LRN: neighbours in the window */
  float alpha, beta, bias; /* alpha: for each neighbour */
  OrtrainDType dtype;
  bool same; /* the large operands have this type */
  OrtrainOperandTypes types;
} Constants;

static OrtrainView<OrtrainAny>
get_input (const OrtrainKernelCall *call, guint i)
{
  return ortrain_cuda_view_input<OrtrainAny> (call, &((const Constants *) call->constants)->types, i);
}

static OrtrainView<OrtrainAny>
get_output (const OrtrainKernelCall *call, guint k)
{
  return ortrain_cuda_view_output<OrtrainAny> (call, &((const Constants *) call->constants)->types, k);
}

static gsize
align (gsize n_bytes)
{
  return (n_bytes + 63) & ~(gsize) 63;
}

/* ---- over groups of channels ---- */

/* x: [rows, n] → statistics: [rows] */
template <typename T, int V>
static __global__ void __launch_bounds__ (512, 2)
    group_statistics_kernel (OrtrainView<T> x, OrtrainStatistics *statistics, gint64 rows, int n, float epsilon)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  for (gint64 row = blockIdx.x; row < rows; row += gridDim.x)
    {
      const OrtrainStatistics s = ortrain_row_statistics<V> (x, row * n, n, epsilon, true, scratch);
      if (threadIdx.x == 0)
        statistics[row] = s;
    }
}

/* statistics: [batch · groups], scale: [channels] → mean, inverse, factor: [n = batch · channels], may be absent */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    group_spread_kernel (const OrtrainStatistics *statistics, OrtrainView<OrtrainAny> scale,
                         OrtrainView<OrtrainAny> mean, OrtrainView<OrtrainAny> inverse, OrtrainView<OrtrainAny> factor,
                         gint64 n, int channels, int per_group)
{
  for (gint64 c = ortrain_cuda_first (); c < n; c += ortrain_cuda_stride ())
    {
      const OrtrainStatistics s = statistics[c / per_group];
      if (mean.is_there ())
        mean.put (c, s.mean);
      if (inverse.is_there ())
        inverse.put (c, s.inverse);
      if (factor.is_there ())
        factor.put (c, s.inverse * scale.get (c % channels));
    }
}

/* mean, inverse: [rows · per_group] → statistics: [rows] */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    group_gather_kernel (OrtrainView<OrtrainAny> mean, OrtrainView<OrtrainAny> inverse, OrtrainStatistics *statistics,
                         gint64 rows, int per_group)
{
  for (gint64 r = ortrain_cuda_first (); r < rows; r += ortrain_cuda_stride ())
    {
      statistics[r].mean = mean.get (r * per_group);
      statistics[r].inverse = inverse.get (r * per_group);
    }
}

/* The sums of one channel of one sample: Σ dy·x̂ and Σ dy */
struct ChannelSums
{
  float scale, bias;
};

/* dy, x: [batch · channels, inner] → sums: [batch · channels]; a warp for each */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    group_sums_kernel (OrtrainView<T> dy, OrtrainView<T> x, const OrtrainStatistics *statistics, ChannelSums *sums,
                       gint64 n, int per_group, int inner)
{
  const OrtrainTeam<true> team = {};
  for (gint64 c = team.first_row (); c < n; c += team.row_stride ())
    {
      const OrtrainStatistics s = statistics[c / per_group];
      ChannelSums sum = { 0, 0 };
#pragma unroll 4
      for (int i = team.thread (); i < inner; i += 32)
        {
          const float g = dy.get (c * inner + i);
          sum.scale += g * (x.get (c * inner + i) - s.mean);
          sum.bias += g;
        }
      sum.scale = ortrain_warp_reduce<OrtrainSum> (sum.scale) * s.inverse;
      sum.bias = ortrain_warp_reduce<OrtrainSum> (sum.bias);
      if (team.thread () == 0)
        sums[c] = sum;
    }
}

/* dy, x, dx: [rows, n = per_group · inner], dx may be dy */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    group_grad_kernel (OrtrainView<OrtrainAny> scale, OrtrainView<T> dy, OrtrainView<T> x, OrtrainView<T> dx,
                       const OrtrainStatistics *statistics, const ChannelSums *sums, gint64 rows, int groups,
                       int per_group, int inner)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const int n = per_group * inner;
  for (gint64 row = blockIdx.x; row < rows; row += gridDim.x)
    {
      const int first = (int) (row % groups) * per_group;
      const OrtrainStatistics s = statistics[row];
      float sum = 0, dot = 0;
      for (int k = (int) threadIdx.x; k < per_group; k += (int) blockDim.x)
        {
          const ChannelSums part = sums[row * per_group + k];
          sum += part.bias * scale.get (first + k);
          dot += part.scale * scale.get (first + k);
        }
      const float k1 = ortrain_block_reduce<OrtrainSum> (sum, scratch) / (float) n;
      const float k2 = ortrain_block_reduce<OrtrainSum> (dot, scratch) * s.inverse / (float) n;
#pragma unroll 4
      for (int i = (int) threadIdx.x; i < n; i += (int) blockDim.x)
        {
          const gint64 at = row * n + i;
          const float a = scale.get (first + i / inner);
          dx.put (at, s.inverse * (dy.get (at) * a - k1 - (x.get (at) - s.mean) * k2));
        }
    }
}

/* sums: [batch, channels] → dscale, dbias: [channels], may be absent */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    group_grad_sum_kernel (const ChannelSums *sums, gint64 batch, gint64 channels, OrtrainView<OrtrainAny> dscale,
                           OrtrainAccumulate dscale_adds, OrtrainView<OrtrainAny> dbias, OrtrainAccumulate dbias_adds)
{
  for (gint64 c = ortrain_cuda_first (); c < channels; c += ortrain_cuda_stride ())
    {
      ChannelSums all = { 0, 0 };
      for (gint64 b = 0; b < batch; b++)
        {
          const ChannelSums part = sums[b * channels + c];
          all.scale += part.scale;
          all.bias += part.bias;
        }
      if (dscale.is_there ())
        dscale.put (c, dscale_adds.is_set () ? dscale.get (c) + all.scale : all.scale);
      if (dbias.is_there ())
        dbias.put (c, dbias_adds.is_set () ? dbias.get (c) + all.bias : all.bias);
    }
}

template <typename T, int V>
static void
launch_group_statistics (const OrtrainKernelCall *call, const Constants *c, OrtrainView<T> x,
                         OrtrainStatistics *statistics)
{
  ortrain_cuda_launch (call, "group-statistics", ortrain_cuda_grid (call, c->rows, 1), c->n <= 4096 ? 128 : 512,
                       group_statistics_kernel<T, V>, x, statistics, c->rows, (int) c->n, c->epsilon);
}

template <typename T>
static void
launch_statistics (const OrtrainKernelCall *call, const Constants *c, guint input, OrtrainStatistics *statistics)
{
  const OrtrainView<T> x = ortrain_cuda_view_input<T> (call, &c->types, input);
  if (ortrain_cuda_is_aligned (x.data))
    launch_group_statistics<T, OrtrainView<T>::WIDTH> (call, c, x, statistics);
  else
    launch_group_statistics<T, 1> (call, c, x, statistics);
}

static void
run_group_statistics (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  OrtrainStatistics *statistics = (OrtrainStatistics *) call->workspace;
  const gint64 n = c->batch * c->channels;
  if (n == 0)
    return;
  ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_statistics<T> (call, c, 0, statistics););
  ortrain_cuda_launch (call, "group-spread", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       group_spread_kernel, (const OrtrainStatistics *) statistics, get_input (call, 1),
                       get_output (call, 0), get_output (call, 1), get_output (call, 2), n, (int) c->channels,
                       (int) (c->channels / c->groups));
}

template <typename T>
static void
launch_group_grad (const OrtrainKernelCall *call, const Constants *c, OrtrainStatistics *statistics, ChannelSums *sums)
{
  const OrtrainView<T> dy = ortrain_cuda_view_input<T> (call, &c->types, 0);
  const OrtrainView<T> x = ortrain_cuda_view_input<T> (call, &c->types, 1);
  const OrtrainView<T> dx = ortrain_cuda_view_output<T> (call, &c->types, 0);
  const gint64 per_group = c->channels / c->groups;
  if (c->types.inputs[4] == ORTRAIN_DTYPE_UNDEFINED)
    launch_statistics<T> (call, c, 1, statistics);
  else
    ortrain_cuda_launch (call, "group-gather", ortrain_cuda_grid (call, c->rows, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, group_gather_kernel, get_input (call, 3), get_input (call, 4), statistics,
                         c->rows, (int) per_group);
  ortrain_cuda_launch (call, "group-sums", ortrain_cuda_grid (call, c->batch * c->channels, ORTRAIN_CUDA_BLOCK / 32),
                       ORTRAIN_CUDA_BLOCK, group_sums_kernel<T>, dy, x, (const OrtrainStatistics *) statistics, sums,
                       c->batch * c->channels, (int) per_group, (int) c->inner);
  if (dx.data != NULL)
    ortrain_cuda_launch (call, "group-grad", ortrain_cuda_grid (call, c->rows, 1), ORTRAIN_CUDA_BLOCK,
                         group_grad_kernel<T>, get_input (call, 2), dy, x, dx, (const OrtrainStatistics *) statistics,
                         (const ChannelSums *) sums, c->rows, (int) c->groups, (int) per_group, (int) c->inner);
}

static void
run_group_grad (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  OrtrainStatistics *statistics = (OrtrainStatistics *) call->workspace;
  ChannelSums *sums =
      (ChannelSums *) ((guint8 *) call->workspace + align ((gsize) c->rows * sizeof (OrtrainStatistics)));
  const bool empty = c->rows * c->n == 0;
  const OrtrainView<OrtrainAny> dscale = get_output (call, 1), dbias = get_output (call, 2);
  if (!empty)
    ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_group_grad<T> (call, c, statistics, sums););
  if (c->channels > 0 && (dscale.data != NULL || dbias.data != NULL))
    ortrain_cuda_launch (call, "group-grad-sum", ortrain_cuda_grid (call, c->channels, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, group_grad_sum_kernel, (const ChannelSums *) sums, empty ? 0 : c->batch,
                         c->channels, dscale, ortrain_cuda_get_accumulate (call, 1), dbias,
                         ortrain_cuda_get_accumulate (call, 2));
}

/* The constants that an operator needs of its inputs x and scale; NULL with an error. */
static Constants *
prepare_groups (OrtrainKernelSetup *setup, guint x_index, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[x_index], *scale = &setup->inputs[x_index + 1];
  const gint64 channels = x->rank > 1 ? x->dims[1] : 0, groups = ORTRAIN_CUDA_INT (setup, "num_groups", channels);
  gint64 inner = 1;
  for (guint d = 2; d < x->rank; d++)
    inner *= x->dims[d];
  if (x->rank < 2 || groups < 1 || channels % groups != 0 || scale->n_elements != channels || channels > G_MAXINT32 ||
      channels / groups * inner > ORTRAIN_CUDA_MAX_ROW)
    {
      ortrain_cuda_refuse (setup, error,
                           "a scale of %" G_GINT64_FORMAT " elements does not fit %" G_GINT64_FORMAT
                           " channels in %" G_GINT64_FORMAT " groups",
                           scale->n_elements, channels, groups);
      return NULL;
    }
  Constants *c = g_new0 (Constants, 1);
  c->batch = x->dims[0];
  c->channels = channels;
  c->groups = groups;
  c->inner = inner;
  c->rows = c->batch * groups;
  c->n = channels / groups * inner;
  c->epsilon = (float) ORTRAIN_CUDA_FLOAT (setup, "epsilon", 1e-5);
  c->dtype = x->dtype;
  c->same = true;
  ortrain_cuda_describe_types (&c->types, setup);
  setup->constants = c;
  setup->constants_free = g_free;
  setup->workspace_bytes = (gsize) c->rows * sizeof (OrtrainStatistics);
  return c;
}

/* Whether an operand is one number for each channel of each sample. */
static bool
is_of_channels (const OrtrainOperand *operand, const Constants *c)
{
  return operand->dtype != ORTRAIN_DTYPE_UNDEFINED && operand->n_elements == c->batch * c->channels;
}

/* GroupNormStatistics (x, scale) {num_groups, epsilon} → (mean, 1/deviation, factor): y = (x - mean)·factor + bias,
 * which NormApply computes. */
static gboolean
prepare_group_statistics (OrtrainKernelSetup *setup, GError **error)
{
  const Constants *c = prepare_groups (setup, 0, error);
  if (c == NULL)
    return FALSE;
  for (guint k = 0; k < setup->n_outputs; k++)
    if (setup->outputs[k].dtype != ORTRAIN_DTYPE_UNDEFINED && !is_of_channels (&setup->outputs[k], c))
      return ortrain_cuda_refuse (setup, error, "output %u is not one number for each channel of each sample", k);
  setup->flops = 5.0 * (double) setup->inputs[0].n_elements;
  return TRUE;
}

/* GroupNormGrad (dy, x, scale[, mean, 1/deviation]) {num_groups, epsilon} → (dx, dscale, dbias) */
static gboolean
prepare_group_grad (OrtrainKernelSetup *setup, GError **error)
{
  Constants *c = prepare_groups (setup, 1, error);
  if (c == NULL)
    return FALSE;
  const OrtrainOperand *dy = &setup->inputs[0], *x = &setup->inputs[1];
  const OrtrainDType dx = setup->n_outputs > 0 ? setup->outputs[0].dtype : ORTRAIN_DTYPE_UNDEFINED;
  if (dy->n_elements != x->n_elements)
    return ortrain_cuda_refuse (setup, error, "the gradient does not fit the input");
  for (guint i = 3; i < setup->n_inputs; i++)
    if (!is_of_channels (&setup->inputs[i], c))
      return ortrain_cuda_refuse (setup, error, "input %u is not one number for each channel of each sample", i);
  c->same = x->dtype == dy->dtype && (dx == x->dtype || dx == ORTRAIN_DTYPE_UNDEFINED);
  setup->flops = (setup->n_inputs > 3 ? 6.0 : 8.0) * (double) x->n_elements;
  setup->inplace[0] = 1;
  setup->can_accumulate = 1 << 1 | 1 << 2;
  setup->workspace_bytes =
      align (setup->workspace_bytes) + (gsize) c->batch * (gsize) c->channels * sizeof (ChannelSums);
  return TRUE;
}

/* ---- LRN: y = x · s^-β, s = bias + α/size · Σ x² over the window of channels around ---- */

struct Window
{
  gint64 inner;
  int channels, before, after;
  float alpha, beta, bias;
};

/* s of element i, which is of channel c */
static __device__ float
get_sum (const Window &w, const OrtrainView<OrtrainAny> &x, gint64 i, int c)
{
  const int first = c > w.before ? -w.before : -c;
  const int last = c + w.after < w.channels ? w.after : w.channels - 1 - c;
  float sum = 0;
  for (int k = first; k <= last; k++)
    {
      const float value = x.get (i + k * w.inner);
      sum += value * value;
    }
  return w.bias + w.alpha * sum;
}

/* x, y: [batch, channels, inner] of n elements */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    lrn_kernel (Window w, OrtrainView<OrtrainAny> x, OrtrainView<OrtrainAny> y, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    y.put (i, x.get (i) * powf (get_sum (w, x, i, (int) (i / w.inner % w.channels)), -w.beta));
}

/* factors: s^-β; terms: dy·x·s^(-β-1); like x */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    lrn_terms_kernel (Window w, OrtrainView<OrtrainAny> dy, OrtrainView<OrtrainAny> x, float *factors, float *terms,
                      gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const float s = get_sum (w, x, i, (int) (i / w.inner % w.channels)), factor = powf (s, -w.beta);
      factors[i] = factor;
      terms[i] = dy.get (i) * x.get (i) * (factor / s);
    }
}

/* dx = dy·s^-β - 2αβ/size · x · Σ of the terms of those whose window has this channel */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    lrn_grad_kernel (Window w, OrtrainView<OrtrainAny> dy, OrtrainView<OrtrainAny> x, const float *factors,
                     const float *terms, OrtrainView<OrtrainAny> dx, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const int c = (int) (i / w.inner % w.channels), first = c > w.after ? -w.after : -c;
      const int last = c + w.before < w.channels ? w.before : w.channels - 1 - c;
      float sum = 0;
      for (int k = first; k <= last; k++)
        sum += terms[i + k * w.inner];
      dx.put (i, dy.get (i) * factors[i] - 2 * w.alpha * w.beta * x.get (i) * sum);
    }
}

static void
run_lrn (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const gint64 n = c->batch * c->channels * c->inner;
  const bool grad = c->types.inputs[1] != ORTRAIN_DTYPE_UNDEFINED;
  const unsigned grid = ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK);
  const Window w = { c->inner, (int) c->channels, c->before, c->after, c->alpha, c->beta, c->bias };
  if (n == 0)
    return;
  if (!grad)
    {
      ortrain_cuda_launch (call, "lrn", grid, ORTRAIN_CUDA_BLOCK, lrn_kernel, w, get_input (call, 0),
                           get_output (call, 0), n);
      return;
    }
  float *factors = (float *) call->workspace, *terms = factors + n;
  ortrain_cuda_launch (call, "lrn-terms", grid, ORTRAIN_CUDA_BLOCK, lrn_terms_kernel, w, get_input (call, 0),
                       get_input (call, 1), factors, terms, n);
  ortrain_cuda_launch (call, "lrn-grad", grid, ORTRAIN_CUDA_BLOCK, lrn_grad_kernel, w, get_input (call, 0),
                       get_input (call, 1), factors, terms, get_output (call, 0), n);
}

/* LRN (x), LRNGrad (dy, x) */
static gboolean
prepare_lrn (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[setup->n_inputs - 1];
  const gint64 size = ORTRAIN_CUDA_INT (setup, "size", 0);
  if (x->rank < 2 || size < 1 || x->dims[1] > G_MAXINT32 / 2)
    return ortrain_cuda_refuse (setup, error, "rank %u with a window of %" G_GINT64_FORMAT, x->rank, size);
  Constants *c = g_new0 (Constants, 1);
  c->batch = x->dims[0];
  c->channels = x->dims[1];
  c->inner = 1;
  for (guint d = 2; d < x->rank; d++)
    c->inner *= x->dims[d];
  c->before = (int) MIN ((size - 1) / 2, c->channels);
  c->after = (int) MIN (size / 2, c->channels);
  c->alpha = (float) (ORTRAIN_CUDA_FLOAT (setup, "alpha", 1e-4) / (double) size);
  c->beta = (float) ORTRAIN_CUDA_FLOAT (setup, "beta", 0.75);
  c->bias = (float) ORTRAIN_CUDA_FLOAT (setup, "bias", 1);
  ortrain_cuda_describe_types (&c->types, setup);
  setup->constants = c;
  setup->constants_free = g_free;
  setup->flops = (8.0 + 2.0 * (double) MIN (size, c->channels)) * (double) x->n_elements;
  if (setup->n_inputs > 1)
    setup->workspace_bytes = (gsize) x->n_elements * 2 * sizeof (float);
  return TRUE;
}

#define ROW(name, domain, prepare, run)                                                                                \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare, run, 0, ORTRAIN_DTYPES_MIXED                                          \
  }

static const OrtrainKernel rows[] = {
  ROW ("GroupNormStatistics", "org.ortrain", prepare_group_statistics, run_group_statistics),
  ROW ("GroupNormGrad", "org.ortrain", prepare_group_grad, run_group_grad),
  ROW ("LRN", "", prepare_lrn, run_lrn),
  ROW ("LRNGrad", "org.ortrain", prepare_lrn, run_lrn),
};

ORTRAIN_CUDA_TABLE (group_norm, rows);
