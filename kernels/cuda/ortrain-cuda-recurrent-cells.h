/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-rows.h"

#include "common/ortrain-formulas.h"
#include "common/ortrain-stored-limits.h"

/* The kernels of a step of RNN, GRU and LSTM, and of their gradients: a thread for each unit of each row. Included by
 * ortrain-cuda-recurrent.cu, which runs them between products. */

enum ActivationKind
{
  ACT_SIGMOID,
  ACT_TANH,
  ACT_RELU,
  ACT_AFFINE,
  ACT_LEAKY_RELU,
  ACT_THRESHOLDED_RELU,
  ACT_SCALED_TANH,
  ACT_HARD_SIGMOID,
  ACT_ELU,
  ACT_SOFTSIGN,
  ACT_SOFTPLUS,
  N_ACTIVATIONS,
};

struct Activation
{
  ActivationKind kind;
  float alpha, beta;
  float clip; /* limit of the input; infinite: no limit */

  __device__ float
  get (float x) const
  {
    x = x > clip ? clip : x < -clip ? -clip : x;
    switch (kind)
      {
      case ACT_SIGMOID:
        return ortrain_f32_sigmoid (x);
      case ACT_TANH:
        return ortrain_f32_tanh (x);
      case ACT_RELU:
        return ortrain_f32_relu (x);
      case ACT_AFFINE:
        return alpha * x + beta;
      case ACT_LEAKY_RELU:
        return ortrain_f32_leaky_relu (x, alpha);
      case ACT_THRESHOLDED_RELU:
        return ortrain_f32_thresholded_relu (x, alpha);
      case ACT_SCALED_TANH:
        return alpha * ortrain_f32_tanh (beta * x);
      case ACT_HARD_SIGMOID:
        return ortrain_f32_hard_sigmoid (x, alpha, beta);
      case ACT_ELU:
        return ortrain_f32_elu (x, alpha);
      case ACT_SOFTSIGN:
        return ortrain_f32_softsign (x);
      default:
        return ortrain_f32_softplus (x);
      }
  }

  /* Rounds y = f (x) to `dtype`. A value that was not clipped is never rounded to a bound, so that the gradient can
   * tell clipped values by comparing with the bounds. */
  __device__ float
  get_apart (float y, OrtrainDType dtype) const
  {
    if (!(clip < INFINITY) || dtype == ORTRAIN_DTYPE_FLOAT32)
      return y;
    const float high = get (clip), low = get (-clip);
    if (y == high || y == low)
      return y;
    const bool is_half = dtype == ORTRAIN_DTYPE_FLOAT16;
    const guint16 bits = ortrain_store_between (is_half, y, high, low);
    return is_half ? ortrain_half_to_float (bits) : ortrain_bfloat16_to_float (bits);
  }

  /* Whether y was stored as the value of a bound. One after the other, which takes fewer registers. */
  __device__ bool
  is_bound (float y) const
  {
    bool found = false;
#pragma unroll 1
    for (float bound = clip; !found && bound != 0; bound = bound > 0 ? -bound : 0)
      found = ortrain_is_stored_bound_f32 (y, get (bound));
    return found;
  }

  /* d · f' as a function of y = f (x). A clipped number has no derivative: it has the value of a bound. */
  __device__ float
  chain (float d, float y) const
  {
    if (clip < INFINITY && is_bound (y))
      d = 0;
    switch (kind)
      {
      case ACT_SIGMOID:
        return d * (y * (1 - y));
      case ACT_TANH:
        return d * (1 - y * y);
      case ACT_RELU:
      case ACT_THRESHOLDED_RELU:
        return y > 0 ? d : 0;
      case ACT_AFFINE:
        return d * alpha;
      case ACT_LEAKY_RELU:
        return y > 0 ? d : d * alpha; /* 0 where alpha is */
      case ACT_SCALED_TANH:
        return alpha == 0 ? 0 : d * beta * (alpha - y * y / alpha);
      case ACT_HARD_SIGMOID:
        return ortrain_f32_hard_sigmoid_grad (d, y, alpha);
      case ACT_ELU:
        return ortrain_f32_elu_grad (d, y, alpha);
      case ACT_SOFTSIGN:
        return d * ((1 - fabsf (y)) * (1 - fabsf (y)));
      default:
        return d * (1 - ortrain_f32_exp (-y));
      }
  }
};

typedef OrtrainView<OrtrainAny> View;

/* The parameters of kernels. Rows of Y are at ((t · directions + direction) · batch + b) · hidden. */
struct Run
{
  gint64 length, batch, hidden, gates, directions, saved, direction, t;
  bool reverse, reset_after, coupled, lengths_64;
  Activation f, g, h;
  const void *lengths; /* or NULL */
  View b, h0, c0, p, y, saved_values, dy, dy_h, dy_c, db, dp;
  /* in the workspace, float32 */
  float *values;       /* [length · batch, gates · hidden]: activations of the gates, or their gradients */
  float *bias;         /* [gates · hidden + hidden] */
  float *state, *cell; /* [batch, hidden]: or their gradients */
  float *tmp;          /* [batch, hidden] */
  float *previous;     /* [length · batch, hidden]: the state before each step */
  float *reset;        /* the same; GRU: the factor of the candidate's weights, or its gradient */

  __device__ bool
  is_active (gint64 step, gint64 row) const
  {
    return lengths == NULL ||
           step < (lengths_64 ? ((const gint64 *) lengths)[row] : (gint64) ((const gint32 *) lengths)[row]);
  }

  /* A row of length 0 gives zeros, whatever its initial state is. */
  __device__ bool
  has_steps (gint64 row) const
  {
    return lengths == NULL || is_active (0, row);
  }

  __device__ gint64
  get_row (gint64 step, gint64 row) const
  {
    return (step * directions + direction) * batch + row;
  }

  __device__ gint64
  get_state (gint64 row, gint64 i) const
  {
    return (direction * batch + row) * hidden + i;
  }

  /* The step that came before, or -1 for the initial state. */
  __device__ gint64
  get_step_before (gint64 step, gint64 row) const
  {
    if (!reverse)
      return step - 1;
    return step + 1 < length && is_active (step + 1, row) ? step + 1 : -1;
  }

  __device__ float
  get_saved (gint64 step, gint64 row, gint64 part, gint64 i) const
  {
    return saved_values.get ((get_row (step, row) * saved + part) * hidden + i);
  }

  __device__ void
  keep (gint64 row, gint64 part, gint64 i, float value) const
  {
    if (saved_values.is_there ())
      saved_values.put ((get_row (t, row) * saved + part) * hidden + i, value);
  }

  __device__ void
  put_y (gint64 row, gint64 i, float value) const
  {
    if (y.is_there ())
      y.put (get_row (t, row) * hidden + i, value);
  }

  __device__ float
  get_cell_before (gint64 step, gint64 row, gint64 i) const
  {
    const gint64 before = get_step_before (step, row);
    if (before >= 0)
      return get_saved (before, row, 4, i);
    return c0.is_there () ? c0.get (get_state (row, i)) : 0;
  }

  /* After the sequence's end: Y is zero, and so are the saved values. */
  __device__ bool
  skip (gint64 row, gint64 i) const
  {
    if (is_active (t, row))
      return false;
    put_y (row, i, 0);
    for (gint64 part = 0; part < saved; part++)
      keep (row, part, i, 0);
    return true;
  }

  /* The gates' gradients are zeros there. */
  __device__ bool
  skip_grad (gint64 row, gint64 i, bool has_reset) const
  {
    const gint64 at = t * batch + row;
    if (is_active (t, row))
      return false;
    for (gint64 k = 0; k < gates; k++)
      values[(at * gates + k) * hidden + i] = 0;
    if (has_reset)
      reset[at * hidden + i] = 0;
    return true;
  }

  __device__ float
  get_dh (gint64 row, gint64 i) const
  {
    return state[row * hidden + i] + (dy.is_there () ? dy.get (get_row (t, row) * hidden + i) : 0);
  }
};

/* Threads of kernels of a step: unit i of row b. */
#define UNITS(run, row, i)                                                                                             \
  for (gint64 unit = ortrain_cuda_first (), row = unit / (run).hidden, i = unit % (run).hidden;                        \
       unit < (run).batch * (run).hidden;                                                                              \
       unit += ortrain_cuda_stride (), row = unit / (run).hidden, i = unit % (run).hidden)

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) lengths_kernel (Run run, OrtrainFaultPlace fault)
{
  for (gint64 b = ortrain_cuda_first (); b < run.batch; b += ortrain_cuda_stride ())
    {
      const gint64 n = run.lengths_64 ? ((const gint64 *) run.lengths)[b] : (gint64) ((const gint32 *) run.lengths)[b];
      if (n < 0 || n > run.length)
        fault.report (ORTRAIN_FAULT_INDEX, b, n, run.length + 1);
    }
}

/* The initial state, and one bias of two: that of the candidate's recurrent part stands alone when it is reset. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) start_kernel (Run run, bool has_cell)
{
  const gint64 H = run.hidden, all = run.gates * H;
  for (gint64 i = ortrain_cuda_first (); i < all + H; i += ortrain_cuda_stride ())
    {
      const gint64 from = run.direction * 2 * all;
      const bool alone = run.reset_after && i >= 2 * H;
      float bias = 0;
      if (run.b.is_there () && i < all)
        bias = run.b.get (from + i) + (alone ? 0 : run.b.get (from + all + i));
      else if (run.b.is_there () && run.gates == 3)
        bias = run.b.get (from + all + 2 * H + i - all);
      run.bias[i] = bias;
    }
  UNITS (run, row, i)
  {
    const bool begins = run.has_steps (row);
    run.state[unit] = begins && run.h0.is_there () ? run.h0.get (run.get_state (row, i)) : 0;
    if (has_cell)
      run.cell[unit] = begins && run.c0.is_there () ? run.c0.get (run.get_state (row, i)) : 0;
  }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) rnn_kernel (Run run)
{
  UNITS (run, row, i)
  {
    if (run.skip (row, i))
      continue;
    const float h = run.f.get (run.values[(run.t * run.batch + row) * run.hidden + i]);
    run.state[unit] = h;
    run.put_y (row, i, h);
  }
}

/* GRU, first half: z and r; tmp = r ∘ h, or candidate += r ∘ tmp when the reset gate multiplies the product. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) gru_reset_kernel (Run run)
{
  UNITS (run, row, i)
  {
    float *z = run.values + (run.t * run.batch + row) * 3 * run.hidden + i;
    const float r = run.f.get (z[run.hidden]);
    z[0] = run.f.get (z[0]);
    z[run.hidden] = r;
    if (run.reset_after)
      {
        run.keep (row, 3, i, run.tmp[unit]);
        z[2 * run.hidden] += r * run.tmp[unit];
      }
    else
      run.tmp[unit] = r * run.state[unit];
  }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) gru_kernel (Run run)
{
  UNITS (run, row, i)
  {
    const float *gates = run.values + (run.t * run.batch + row) * 3 * run.hidden + i;
    if (run.skip (row, i))
      continue;
    const float z = gates[0], candidate = run.g.get (gates[2 * run.hidden]);
    const float h = (1 - z) * candidate + z * run.state[unit];
    const OrtrainDType type = run.saved_values.dtype;
    run.keep (row, 0, i, run.f.get_apart (z, type));
    run.keep (row, 1, i, run.f.get_apart (gates[run.hidden], type));
    run.keep (row, 2, i, run.g.get_apart (candidate, type));
    run.state[unit] = h;
    run.put_y (row, i, h);
  }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) lstm_kernel (Run run)
{
  UNITS (run, row, i)
  {
    const gint64 H = run.hidden, at = run.direction * 3 * H + i;
    const float *gates = run.values + (run.t * run.batch + row) * 4 * H + i;
    if (run.skip (row, i))
      continue;
    const bool peeps = run.p.is_there ();
    float c = run.cell[unit];
    const float in = run.f.get (gates[0] + (peeps ? run.p.get (at) * c : 0));
    const float forget = run.coupled ? 1 - in : run.f.get (gates[2 * H] + (peeps ? run.p.get (at + 2 * H) * c : 0));
    const float candidate = run.g.get (gates[3 * H]);
    c = forget * c + in * candidate;
    const float out = run.f.get (gates[H] + (peeps ? run.p.get (at + H) * c : 0)), h = run.h.get (c) * out;
    run.cell[unit] = c;
    run.state[unit] = h;
    const OrtrainDType type = run.saved_values.dtype;
    run.keep (row, 0, i, run.f.get_apart (in, type));
    run.keep (row, 1, i, run.f.get_apart (out, type));
    run.keep (row, 2, i, run.f.get_apart (forget, type));
    run.keep (row, 3, i, run.g.get_apart (candidate, type));
    run.keep (row, 4, i, c);
    run.put_y (row, i, h);
  }
}

/* ---- gradients ---- */

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) start_grad_kernel (Run run, bool has_cell)
{
  UNITS (run, row, i)
  {
    const bool begins = run.has_steps (row);
    run.state[unit] = begins && run.dy_h.is_there () ? run.dy_h.get (run.get_state (row, i)) : 0;
    if (has_cell)
      run.cell[unit] = begins && run.dy_c.is_there () ? run.dy_c.get (run.get_state (row, i)) : 0;
  }
}

/* y: of the forward pass */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) previous_kernel (Run run)
{
  const gint64 H = run.hidden;
  for (gint64 k = ortrain_cuda_first (); k < run.length * run.batch * H; k += ortrain_cuda_stride ())
    {
      const gint64 i = k % H, row = k / H % run.batch, before = run.get_step_before (k / H / run.batch, row);
      run.previous[k] = before >= 0          ? run.y.get (run.get_row (before, row) * H + i)
                        : run.h0.is_there () ? run.h0.get (run.get_state (row, i))
                                             : 0;
    }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) rnn_grad_kernel (Run run)
{
  UNITS (run, row, i)
  {
    if (run.skip_grad (row, i, false))
      continue;
    const float y = run.y.get (run.get_row (run.t, row) * run.hidden + i);
    run.values[(run.t * run.batch + row) * run.hidden + i] = run.f.chain (run.get_dh (row, i), y);
    run.state[unit] = 0; /* the product adds what goes on */
  }
}

/* GRU: all but the gradient of r when that needs a product first. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) gru_grad_kernel (Run run)
{
  UNITS (run, row, i)
  {
    const gint64 H = run.hidden, at = run.t * run.batch + row;
    if (run.skip_grad (row, i, true))
      continue;
    const float z = run.get_saved (run.t, row, 0, i), r = run.get_saved (run.t, row, 1, i);
    const float candidate = run.get_saved (run.t, row, 2, i), before = run.previous[at * H + i];
    const float dh = run.get_dh (row, i), dcandidate = run.g.chain (dh * (1 - z), candidate);
    float *gates = run.values + at * 3 * H + i;
    gates[0] = run.f.chain (dh * (before - candidate), z);
    gates[2 * H] = dcandidate;
    run.state[unit] = dh * z;
    if (run.reset_after)
      {
        gates[H] = run.f.chain (dcandidate * run.get_saved (run.t, row, 3, i), r);
        run.reset[at * H + i] = dcandidate * r;
      }
    else
      run.reset[at * H + i] = r * before;
  }
}

/* GRU: tmp is the gradient of r ∘ h. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) gru_reset_grad_kernel (Run run)
{
  UNITS (run, row, i)
  {
    const gint64 H = run.hidden, at = run.t * run.batch + row;
    if (!run.is_active (run.t, row))
      continue;
    const float r = run.get_saved (run.t, row, 1, i), d = run.tmp[unit];
    run.values[at * 3 * H + H + i] = run.f.chain (d * run.previous[at * H + i], r);
    run.state[unit] += d * r;
  }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) lstm_grad_kernel (Run run)
{
  UNITS (run, row, i)
  {
    const gint64 H = run.hidden, at = run.direction * 3 * H + i;
    if (run.skip_grad (row, i, false))
      continue;
    const bool peeps = run.p.is_there ();
    const float in = run.get_saved (run.t, row, 0, i), out = run.get_saved (run.t, row, 1, i);
    const float forget = run.get_saved (run.t, row, 2, i), candidate = run.get_saved (run.t, row, 3, i);
    const float activated = run.h.get (run.get_saved (run.t, row, 4, i)), was = run.get_cell_before (run.t, row, i);
    const float dh = run.get_dh (row, i), dout = run.f.chain (dh * activated, out);
    const float d = run.cell[unit] + run.h.chain (dh * out, activated) + (peeps ? dout * run.p.get (at + H) : 0);
    const float din = run.f.chain (d * candidate - (run.coupled ? d * was : 0), in);
    const float dforget = run.coupled ? 0 : run.f.chain (d * was, forget);
    float *gates = run.values + (run.t * run.batch + row) * 4 * H + i;
    gates[0] = din;
    gates[H] = dout;
    gates[2 * H] = dforget;
    gates[3 * H] = run.g.chain (d * in, candidate);
    run.cell[unit] = d * forget + (peeps ? din * run.p.get (at) + dforget * run.p.get (at + 2 * H) : 0);
    run.state[unit] = 0; /* the product adds what goes on */
  }
}

/* dB: sums over all steps, in order. A thread for each column. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) bias_grad_kernel (Run run)
{
  const gint64 H = run.hidden, all = run.gates * H, to = run.direction * 2 * all;
  for (gint64 i = ortrain_cuda_first (); i < all; i += ortrain_cuda_stride ())
    {
      const bool alone = run.reset_after && i >= 2 * H;
      double sum = 0, of_state = 0;
      for (gint64 k = 0; k < run.length * run.batch; k++)
        {
          sum += run.values[k * all + i];
          of_state += alone ? run.reset[k * H + i - 2 * H] : 0;
        }
      run.db.put (to + i, (float) sum);
      run.db.put (to + all + i, (float) (alone ? of_state : sum));
    }
}

/* dP: i and f look at the cell before the step, o at the one after it. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) peephole_grad_kernel (Run run)
{
  const gint64 H = run.hidden, to = run.direction * 3 * H;
  for (gint64 i = ortrain_cuda_first (); i < H; i += ortrain_cuda_stride ())
    {
      double sums[3] = { 0, 0, 0 };
      for (gint64 step = 0; step < run.length; step++)
        for (gint64 row = 0; row < run.batch; row++)
          {
            const float *gates = run.values + (step * run.batch + row) * 4 * H + i;
            const float before = run.get_cell_before (step, row, i);
            sums[0] += gates[0] * before;
            sums[1] += gates[H] * run.get_saved (step, row, 4, i);
            sums[2] += gates[2 * H] * before;
          }
      for (int k = 0; k < 3; k++)
        run.dp.put (to + k * H + i, (float) sums[k]);
    }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) widen_kernel (View from, gint64 at, float *to, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    to[i] = from.get (at + i);
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) narrow_kernel (const float *from, View to, gint64 at, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    to.put (at + i, from[i]);
}
