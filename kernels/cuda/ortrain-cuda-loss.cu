/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-loss.h"

/* Losses over classes. Log-probabilities are never materialised: the forward pass reads the logits once and keeps one
 * number for each position, the backward pass makes the gradient from it, over the logits where the plan allows. Logits
 * are [outer, n, inner]; along the last axis a position has a warp or a block, else 32 positions side by side have a
 * block. Means are sums of parts in the workspace, by one block. */

#define PARTS 8 /* of the classes of a position that has no row, one for each warp of a block */

typedef struct
{
  Reduction reduction;
  bool target_is_int32, has_ignore;
  gint64 ignore;
  float smoothing;
  gint64 outer, n, inner, n_parts;
  gsize sum_offset; /* of the workspace */
  OrtrainDType dtype;
  bool same; /* the large operands have this type */
  gsize result_bytes;
  OrtrainOperandTypes types;
} Constants;

/* logits: [outer, n, inner]; parts: one for 32 positions */
static __global__ void __launch_bounds__ (32 * PARTS)
    loss_columns_kernel (Classes classes, OrtrainView<OrtrainAny> logits, OrtrainView<OrtrainAny> lse,
                         OrtrainView<OrtrainAny> losses, Part *parts, gint64 positions)
{
  ORTRAIN_CUDA_SHARED (float, tops, 32 * PARTS);
  ORTRAIN_CUDA_SHARED (float, sums, 32 * PARTS);
  ORTRAIN_CUDA_SHARED (float, dots, 32 * PARTS);
  const int lane = (int) (threadIdx.x % 32), warp = (int) (threadIdx.x / 32);
  const gint64 n = classes.n, inner = classes.inner;
  for (gint64 tile = blockIdx.x; tile * 32 < positions; tile += gridDim.x)
    {
      const gint64 i = tile * 32 + lane, end = i < positions ? n : 0, at = i / inner * n * inner + i % inner;
      OrtrainOnline online;
      float dot = 0;
      for (gint64 c = warp; c < end; c += PARTS)
        {
          const float value[1] = { logits.get (at + c * inner) };
          online.add (value);
          if (classes.smoothing != 0)
            dot += classes.get_weight (c) * value[0];
        }
      tops[threadIdx.x] = online.top;
      sums[threadIdx.x] = online.sum;
      dots[threadIdx.x] = dot;
      __syncthreads ();
      if (warp == 0)
        {
          float top = -INFINITY, sum = 0;
          Part part = { 0, 0 };
          gint64 target;
          dot = 0;
          for (int w = 0; w < PARTS; w++)
            {
              top = fmaxf (top, tops[w * 32 + lane]);
              dot += dots[w * 32 + lane];
            }
          for (int w = 0; w < PARTS; w++)
            sum += sums[w * 32 + lane] * expf (tops[w * 32 + lane] - OrtrainOnline::get_shift (top));
          const float value = top + logf (sum);
          if (i < positions)
            {
              if (classes.read_target (i, true, &target))
                {
                  part.loss = classes.get_loss (target, value, logits.get (at + target * inner), dot);
                  part.weight = classes.get_weight (target);
                }
              if (lse.is_there ())
                lse.put (i, value);
              if (classes.reduction == REDUCTION_NONE)
                losses.put (i, part.loss);
            }
          part.loss = ortrain_warp_reduce<OrtrainSum> (part.loss);
          part.weight = ortrain_warp_reduce<OrtrainSum> (part.weight);
          if (lane == 0)
            parts[tile] = part;
        }
      __syncthreads ();
    }
}

/* The same of [outer, n, inner]; a thread for each position */
static __global__ void __launch_bounds__ (32 * PARTS)
    loss_grad_columns_kernel (Classes classes, OrtrainView<OrtrainAny> dloss, OrtrainView<OrtrainAny> logits,
                              OrtrainView<OrtrainAny> lse, OrtrainView<OrtrainAny> total,
                              OrtrainView<OrtrainAny> dlogits, gint64 positions)
{
  const int lane = (int) (threadIdx.x % 32), warp = (int) (threadIdx.x / 32);
  const gint64 n = classes.n, inner = classes.inner;
  for (gint64 tile = blockIdx.x; tile * 32 < positions; tile += gridDim.x)
    {
      const gint64 i = tile * 32 + lane;
      if (i >= positions)
        break;
      const gint64 at = i / inner * n * inner + i % inner;
      const Position position (classes, i, warp == 0, dloss, lse, total);
      for (gint64 c = warp; c < n; c += PARTS)
        dlogits.put (at + c * inner, position.get_gradient (classes, logits.get (at + c * inner), c));
    }
}

/* dx: [outer, n, inner], cleared; total: one number, for the mean */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    likelihood_grad_kernel (Classes classes, OrtrainView<OrtrainAny> dloss, OrtrainView<OrtrainAny> total,
                            OrtrainView<OrtrainAny> dx, gint64 positions)
{
  for (gint64 i = ortrain_cuda_first (); i < positions; i += ortrain_cuda_stride ())
    {
      gint64 target;
      if (!classes.read_target (i, true, &target))
        continue;
      float g = dloss.get (classes.reduction == REDUCTION_NONE ? i : 0);
      if (classes.reduction == REDUCTION_MEAN)
        g /= get_divisor (total.get (0));
      dx.put ((i / classes.inner * classes.n + target) * classes.inner + i % classes.inner,
              -g * classes.get_weight (target));
    }
}

/* ---- on the host ---- */

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

static const OrtrainView<OrtrainAny> absent = { NULL, ORTRAIN_DTYPE_FLOAT32 };

/* Sums the weights where they are needed. */
static Classes
begin (const OrtrainKernelCall *call, guint target, guint weights)
{
  const Constants *c = (const Constants *) call->constants;
  Classes classes;
  classes.target = call->inputs[target];
  classes.target_is_int32 = c->target_is_int32;
  classes.has_ignore = c->has_ignore;
  classes.ignore = c->ignore;
  classes.n = classes.pitch = c->n;
  classes.inner = c->inner;
  classes.reduction = c->reduction;
  classes.smoothing = c->smoothing;
  classes.weights = get_input (call, weights);
  classes.weight_sum = NULL;
  classes.fault = ortrain_cuda_get_fault (call);
  if (c->smoothing != 0 && classes.weights.data != NULL)
    {
      float *sum = (float *) ((guint8 *) call->workspace + c->sum_offset);
      ortrain_cuda_launch (call, "weight-sum", 1, LAST_BLOCK, weight_sum_kernel, classes.weights, c->n, sum);
      classes.weight_sum = sum;
    }
  return classes;
}

static void
launch_sum (const OrtrainKernelCall *call, OrtrainView<OrtrainAny> loss, OrtrainView<OrtrainAny> total)
{
  const Constants *c = (const Constants *) call->constants;
  ortrain_cuda_launch (call, "loss-sum", 1, LAST_BLOCK, loss_sum_kernel, (const Part *) call->workspace, c->n_parts,
                       c->reduction == REDUCTION_MEAN, c->reduction == REDUCTION_NONE ? absent : loss, total);
}

template <typename T>
static void
launch_rows (const OrtrainKernelCall *call, const Classes &classes)
{
  const Constants *c = (const Constants *) call->constants;
  launch_loss_rows (call, classes, ortrain_cuda_view_input<T> (call, &c->types, 0), get_output (call, 1),
                    get_output (call, 0), (Part *) call->workspace, c->outer);
}

static void
run_loss (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const gint64 positions = c->outer * c->inner;
  const Classes classes = begin (call, 1, 2);
  if (c->inner == 1 && positions > 0)
    ORTRAIN_CUDA_FLOATING (c->dtype, T, launch_rows<T> (call, classes););
  else if (positions > 0)
    ortrain_cuda_launch (call, "loss-columns", ortrain_cuda_grid (call, positions, 32), 32 * PARTS, loss_columns_kernel,
                         classes, get_input (call, 0), get_output (call, 1), get_output (call, 0),
                         (Part *) call->workspace, positions);
  launch_sum (call, get_output (call, 0), get_output (call, 2));
}

template <typename T>
static void
launch_grad_rows (const OrtrainKernelCall *call, const Classes &classes)
{
  const Constants *c = (const Constants *) call->constants;
  launch_loss_grad_rows (call, classes, get_input (call, 0), ortrain_cuda_view_input<T> (call, &c->types, 1),
                         get_input (call, 3), get_input (call, 4), ortrain_cuda_view_output<T> (call, &c->types, 0),
                         c->outer);
}

static void
run_loss_grad (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const gint64 positions = c->outer * c->inner;
  if (positions == 0 || c->n == 0)
    return;
  const Classes classes = begin (call, 2, 5);
  if (c->inner == 1)
    ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_grad_rows<T> (call, classes););
  else
    ortrain_cuda_launch (call, "loss-grad-columns", ortrain_cuda_grid (call, positions, 32), 32 * PARTS,
                         loss_grad_columns_kernel, classes, get_input (call, 0), get_input (call, 1),
                         get_input (call, 3), get_input (call, 4), get_output (call, 0), positions);
}

static void
run_likelihood (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const gint64 positions = c->outer * c->inner;
  const Classes classes = begin (call, 1, 2);
  if (positions > 0)
    ortrain_cuda_launch (call, "likelihood", ortrain_cuda_grid (call, positions, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, likelihood_kernel, classes, get_input (call, 0), get_output (call, 0),
                         (Part *) call->workspace, positions);
  launch_sum (call, get_output (call, 0), absent);
}

static void
run_likelihood_grad (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const gint64 positions = c->outer * c->inner;
  if (positions == 0 || c->n == 0)
    return;
  const Classes classes = begin (call, 1, 3);
  OrtrainView<OrtrainAny> total = absent;
  if (c->reduction == REDUCTION_MEAN)
    {
      total.data = (guint8 *) call->workspace + c->sum_offset;
      ortrain_cuda_launch (call, "likelihood", ortrain_cuda_grid (call, positions, ORTRAIN_CUDA_BLOCK),
                           ORTRAIN_CUDA_BLOCK, likelihood_kernel, classes, absent, absent, (Part *) call->workspace,
                           positions);
      launch_sum (call, absent, total);
    }
  const cudaError_t code =
      cudaMemsetAsync (call->outputs[0], 0, c->result_bytes, ortrain_cuda_get_stream (call)->stream);
  if (code != cudaSuccess)
    ortrain_cuda_fail (call, "Cannot clear %" G_GSIZE_FORMAT " bytes: %s", c->result_bytes, cudaGetErrorString (code));
  ortrain_cuda_launch (call, "likelihood-grad", ortrain_cuda_grid (call, positions, ORTRAIN_CUDA_BLOCK),
                       ORTRAIN_CUDA_BLOCK, likelihood_grad_kernel, classes, get_input (call, 0), total,
                       get_output (call, 0), positions);
}

/* logits: shape of the operand that has classes; axis: where they are; per_part: positions of a part, in rows and in
 * columns; weights: which input. */
static Constants *
prepare (OrtrainKernelSetup *setup, const OrtrainOperand *logits, const OrtrainOperand *target, gint64 axis,
         guint weights, gint64 per_row_part, gint64 per_column_part, GError **error)
{
  const gint64 rank = logits->rank;
  const char *reduction = ORTRAIN_CUDA_STRING (setup, "reduction", "mean");
  gint64 sizes[3] = { 1, 1, 1 };
  if (rank == 0 || axis < -rank || axis >= rank)
    {
      ortrain_cuda_refuse (setup, error, "axis %" G_GINT64_FORMAT " is outside the rank %" G_GINT64_FORMAT, axis, rank);
      return NULL;
    }
  axis += axis < 0 ? rank : 0;
  for (gint64 d = 0; d < rank; d++)
    sizes[d < axis ? 0 : d == axis ? 1 : 2] *= logits->dims[d];
  const gint64 positions = sizes[0] * sizes[2];
  if ((target->dtype != ORTRAIN_DTYPE_INT32 && target->dtype != ORTRAIN_DTYPE_INT64) || target->n_elements != positions)
    {
      ortrain_cuda_refuse (setup, error,
                           "%" G_GINT64_FORMAT " targets for %" G_GINT64_FORMAT
                           " positions of the logits; one int32 or int64 target is needed for each",
                           target->n_elements, positions);
      return NULL;
    }
  if (weights < setup->n_inputs && setup->inputs[weights].dtype != ORTRAIN_DTYPE_UNDEFINED &&
      setup->inputs[weights].n_elements != sizes[1])
    {
      ortrain_cuda_refuse (setup, error, "%" G_GINT64_FORMAT " class weights for %" G_GINT64_FORMAT " classes",
                           setup->inputs[weights].n_elements, sizes[1]);
      return NULL;
    }
  if (sizes[1] > ORTRAIN_CUDA_MAX_ROW)
    {
      ortrain_cuda_refuse (setup, error, "%" G_GINT64_FORMAT " classes are too many", sizes[1]);
      return NULL;
    }
  Constants *constants = g_new0 (Constants, 1);
  constants->outer = sizes[0];
  constants->n = sizes[1];
  constants->inner = sizes[2];
  constants->target_is_int32 = target->dtype == ORTRAIN_DTYPE_INT32;
  constants->reduction = g_str_equal (reduction, "none")  ? REDUCTION_NONE
                         : g_str_equal (reduction, "sum") ? REDUCTION_SUM
                                                          : REDUCTION_MEAN;
  constants->has_ignore = ortrain_cuda_library->attributes_has (setup->attributes, "ignore_index");
  constants->ignore = ORTRAIN_CUDA_INT (setup, "ignore_index", 0);
  constants->smoothing = (float) ORTRAIN_CUDA_FLOAT (setup, "label_smoothing", 0);
  constants->dtype = logits->dtype;
  constants->same = logits->dtype == setup->outputs[0].dtype;
  const gint64 per_part = constants->inner == 1 ? per_row_part : per_column_part;
  constants->n_parts = (positions + per_part - 1) / per_part;
  constants->sum_offset = ((gsize) constants->n_parts * sizeof (Part) + 63) & ~(gsize) 63;
  constants->result_bytes = setup->outputs[0].n_bytes;
  ortrain_cuda_describe_types (&constants->types, setup);
  setup->workspace_bytes = constants->sum_offset + 64;
  setup->constants = constants;
  setup->constants_free = g_free;
  setup->flops = 12.0 * (double) logits->n_elements;
  return constants;
}

/* CrossEntropy (logits, target[, weights]) → (loss, lse, total weight) */
static gboolean
prepare_loss (OrtrainKernelSetup *setup, GError **error)
{
  return prepare (setup, &setup->inputs[0], &setup->inputs[1], ORTRAIN_CUDA_INT (setup, "axis", -1), 2, 1, 32, error) !=
         NULL;
}

/* CrossEntropyGrad (dloss, logits, target, lse, total weight[, weights]) → dlogits */
static gboolean
prepare_loss_grad (OrtrainKernelSetup *setup, GError **error)
{
  setup->inplace[0] = 1 << 1;
  return prepare (setup, &setup->inputs[1], &setup->inputs[2], ORTRAIN_CUDA_INT (setup, "axis", -1), 5,
                  ORTRAIN_CUDA_BLOCK, ORTRAIN_CUDA_BLOCK, error) != NULL;
}

/* NegativeLogLikelihoodLoss (x, target[, weights]), classes on axis 1 */
static gboolean
prepare_likelihood (OrtrainKernelSetup *setup, GError **error)
{
  return prepare (setup, &setup->inputs[0], &setup->inputs[1], 1, 2, ORTRAIN_CUDA_BLOCK, ORTRAIN_CUDA_BLOCK, error) !=
         NULL;
}

/* NegativeLogLikelihoodLossGrad (dloss, target, shape of x[, weights]) → dx */
static gboolean
prepare_likelihood_grad (OrtrainKernelSetup *setup, GError **error)
{
  return prepare (setup, &setup->outputs[0], &setup->inputs[1], 1, 3, ORTRAIN_CUDA_BLOCK, ORTRAIN_CUDA_BLOCK, error) !=
         NULL;
}

#define ROW(name, domain, suffix)                                                                                      \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare_##suffix, run_##suffix, 0, ORTRAIN_DTYPES_MIXED                        \
  }

static const OrtrainKernel rows[] = {
  ROW ("CrossEntropy", "org.ortrain", loss),
  ROW ("CrossEntropyGrad", "org.ortrain", loss_grad),
  ROW ("NegativeLogLikelihoodLoss", "", likelihood),
  ROW ("NegativeLogLikelihoodLossGrad", "org.ortrain", likelihood_grad),
};

ORTRAIN_CUDA_TABLE (loss, rows);
