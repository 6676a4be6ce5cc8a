/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-gemm.h"
#include "cuda/ortrain-cuda-recurrent-cells.h"

/* RNN, GRU and LSTM over whole sequences, in float32: the part of the gates from the input is one product over all
 * steps, each step is a product of the state and a kernel with a thread for each unit of each row. Operands of 16 bits
 * are widened before products. As on the CPU, a row whose sequence has ended keeps its state and gives zeros. */

enum CellKind
{
  CELL_RNN,
  CELL_GRU,
  CELL_LSTM,
};

enum
{
  PRODUCT_INPUT,     /* gates = X · Wᵀ + b */
  PRODUCT_STATE,     /* gates += h · Rᵀ (GRU: of z and r) */
  PRODUCT_CANDIDATE, /* GRU: the third part of it, of h or r ∘ h */
  PRODUCT_STATE_GRAD,
  PRODUCT_CANDIDATE_GRAD,
  PRODUCT_DX,
  PRODUCT_DW,
  PRODUCT_DR,
  PRODUCT_DR_CANDIDATE,
  N_PRODUCTS
};

/* Parts of the workspace. */
enum
{
  PART_VALUES,
  PART_BIAS,
  PART_STATE,
  PART_CELL,
  PART_TMP,
  PART_PREVIOUS,
  PART_RESET,
  PART_X, /* widened */
  PART_W,
  PART_R,
  PART_DX, /* before they are narrowed */
  PART_DW,
  PART_DR,
  N_PARTS
};

typedef struct
{
  CellKind cell;
  gint64 length, batch, width, hidden, gates, directions, saved;
  bool lengths_64, reset_after, coupled, reverse[2];
  Activation f[2], g[2], h[2];
  OrtrainCudaGemm *products[N_PRODUCTS];
  gsize parts[N_PARTS], product_workspace;
  OrtrainOperandTypes types;
  OrtrainDType more_types[4]; /* of inputs 8 to 11 */
} Constants;

static void
free_constants (gpointer data)
{
  Constants *c = (Constants *) data;
  for (guint i = 0; i < N_PRODUCTS; i++)
    if (c->products[i] != NULL)
      ortrain_cuda_gemm_free (c->products[i]);
  g_free (c);
}

static View
get_input (const OrtrainKernelCall *call, guint i)
{
  const Constants *c = (const Constants *) call->constants;
  const OrtrainDType dtype = i < 8 ? c->types.inputs[i] : c->more_types[i - 8];
  const bool there = i < call->n_inputs && dtype != ORTRAIN_DTYPE_UNDEFINED;
  return ortrain_cuda_view<OrtrainAny> (there ? call->inputs[i] : NULL, dtype);
}

static View
get_output (const OrtrainKernelCall *call, guint k)
{
  return ortrain_cuda_view_output<OrtrainAny> (call, &((const Constants *) call->constants)->types, k);
}

static float *
get_part (const OrtrainKernelCall *call, guint part)
{
  return (float *) ((guint8 *) call->workspace + ((const Constants *) call->constants)->parts[part]);
}

static Run
begin (const OrtrainKernelCall *call, guint d)
{
  const Constants *c = (const Constants *) call->constants;
  Run run;
  memset (&run, 0, sizeof run);
  run.length = c->length;
  run.batch = c->batch;
  run.hidden = c->hidden;
  run.gates = c->gates;
  run.directions = c->directions;
  run.saved = c->saved;
  run.direction = d;
  run.reverse = c->reverse[d];
  run.reset_after = c->cell == CELL_GRU && c->reset_after;
  run.coupled = c->coupled;
  run.lengths_64 = c->lengths_64;
  run.f = c->f[d];
  run.g = c->g[d];
  run.h = c->h[d];
  run.values = get_part (call, PART_VALUES);
  run.bias = get_part (call, PART_BIAS);
  run.state = get_part (call, PART_STATE);
  run.cell = get_part (call, PART_CELL);
  run.tmp = get_part (call, PART_TMP);
  run.previous = get_part (call, PART_PREVIOUS);
  run.reset = get_part (call, PART_RESET);
  return run;
}

static void
launch_units (const OrtrainKernelCall *call, const char *name, void (*kernel) (Run), const Run &run)
{
  ortrain_cuda_launch (call, name, ortrain_cuda_grid (call, run.batch * run.hidden, ORTRAIN_CUDA_BLOCK),
                       ORTRAIN_CUDA_BLOCK, kernel, run);
}

/* Where n elements from `at` on are in float32: where they lie, or widened. */
static const float *
widen (const OrtrainKernelCall *call, View from, gint64 at, gint64 n, guint part)
{
  if (from.dtype == ORTRAIN_DTYPE_FLOAT32)
    return (const float *) from.data + at;
  ortrain_cuda_launch (call, "widen", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK, widen_kernel,
                       from, at, get_part (call, part), n);
  return get_part (call, part);
}

static void
narrow (const OrtrainKernelCall *call, const float *from, View to, gint64 at, gint64 n)
{
  if (to.data != NULL)
    ortrain_cuda_launch (call, "narrow", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                         narrow_kernel, from, to, at, n);
}

static void
multiply (const OrtrainKernelCall *call, guint product, const float *a, const float *b, const float *bias, float *y,
          bool adds)
{
  const Constants *c = (const Constants *) call->constants;
  ortrain_cuda_gemm_run (c->products[product], call, a, b, bias, NULL, y,
                         adds ? ORTRAIN_CUDA_BETA_ONE : ORTRAIN_CUDA_BETA_ZERO,
                         (guint8 *) call->workspace + c->product_workspace);
}

static void
check_lengths (const OrtrainKernelCall *call, const Run &run)
{
  if (run.lengths != NULL && run.direction == 0)
    ortrain_cuda_launch (call, "lengths", ortrain_cuda_grid (call, run.batch, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                         lengths_kernel, run, ortrain_cuda_get_fault (call));
}

static void
run_step (const OrtrainKernelCall *call, const Constants *c, const Run &run, const float *r)
{
  const gint64 H = c->hidden, all = c->gates * H;
  float *values = run.values + run.t * c->batch * all;
  multiply (call, PRODUCT_STATE, run.state, r, NULL, values, true);
  if (c->cell == CELL_LSTM)
    launch_units (call, "lstm", lstm_kernel, run);
  else if (c->cell == CELL_RNN)
    launch_units (call, "rnn", rnn_kernel, run);
  else
    {
      if (run.reset_after)
        multiply (call, PRODUCT_CANDIDATE, run.state, r + 2 * H * H, run.bias + all, run.tmp, false);
      launch_units (call, "gru-reset", gru_reset_kernel, run);
      if (!run.reset_after)
        multiply (call, PRODUCT_CANDIDATE, run.tmp, r + 2 * H * H, NULL, values + 2 * H, true);
      launch_units (call, "gru", gru_kernel, run);
    }
}

static void
run_recurrent (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const gint64 H = c->hidden, all = c->gates * H, state = c->batch * H, steps = c->length * c->batch;
  const bool is_lstm = c->cell == CELL_LSTM;
  const float *x = widen (call, get_input (call, 0), 0, steps * c->width, PART_X);
  for (guint d = 0; d < c->directions; d++)
    {
      Run run = begin (call, d);
      run.lengths = get_input (call, 4).data;
      run.b = get_input (call, 3);
      run.h0 = get_input (call, 5);
      run.y = get_output (call, 0);
      run.saved_values = get_output (call, is_lstm ? 3 : 2);
      if (is_lstm)
        {
          run.c0 = get_input (call, 6);
          run.p = get_input (call, 7);
        }
      check_lengths (call, run);
      ortrain_cuda_launch (call, "recurrent-start", ortrain_cuda_grid (call, MAX (all + H, state), ORTRAIN_CUDA_BLOCK),
                           ORTRAIN_CUDA_BLOCK, start_kernel, run, is_lstm);
      const float *w = widen (call, get_input (call, 1), d * all * c->width, all * c->width, PART_W);
      const float *r = widen (call, get_input (call, 2), d * all * H, all * H, PART_R);
      multiply (call, PRODUCT_INPUT, x, w, run.bias, run.values, false);
      for (gint64 s = 0; s < c->length; s++)
        {
          run.t = run.reverse ? c->length - 1 - s : s;
          run_step (call, c, run, r);
        }
      narrow (call, run.state, get_output (call, 1), d * state, state);
      if (is_lstm)
        narrow (call, run.cell, get_output (call, 2), d * state, state);
    }
}

static void
run_step_grad (const OrtrainKernelCall *call, const Constants *c, const Run &run, const float *r)
{
  const gint64 H = c->hidden, all = c->gates * H;
  const float *values = run.values + run.t * c->batch * all;
  if (c->cell == CELL_LSTM)
    launch_units (call, "lstm-grad", lstm_grad_kernel, run);
  else if (c->cell == CELL_RNN)
    launch_units (call, "rnn-grad", rnn_grad_kernel, run);
  else
    {
      launch_units (call, "gru-grad", gru_grad_kernel, run);
      if (run.reset_after)
        multiply (call, PRODUCT_CANDIDATE_GRAD, run.reset + run.t * c->batch * H, r + 2 * H * H, NULL, run.state, true);
      else
        {
          multiply (call, PRODUCT_CANDIDATE_GRAD, values + 2 * H, r + 2 * H * H, NULL, run.tmp, false);
          launch_units (call, "gru-reset-grad", gru_reset_grad_kernel, run);
        }
    }
  multiply (call, PRODUCT_STATE_GRAD, values, r, NULL, run.state, true);
}

/* Where a product is written to: output k, or a part that is narrowed to it. */
static float *
get_target (const OrtrainKernelCall *call, guint k, gint64 at, guint part)
{
  const View y = get_output (call, k);
  return y.dtype == ORTRAIN_DTYPE_FLOAT32 ? (float *) y.data + at : get_part (call, part);
}

static void
finish_target (const OrtrainKernelCall *call, guint k, gint64 at, gint64 n, const float *from)
{
  const View y = get_output (call, k);
  if (y.dtype != ORTRAIN_DTYPE_FLOAT32)
    narrow (call, from, y, at, n);
}

static void
run_weights_grad (const OrtrainKernelCall *call, const Constants *c, const Run &run, const float *x, const float *w)
{
  const gint64 H = c->hidden, all = c->gates * H, d = run.direction, steps = c->length * c->batch;
  if (get_output (call, 0).data != NULL)
    {
      float *dx = get_target (call, 0, 0, PART_DX);
      multiply (call, PRODUCT_DX, run.values, w, NULL, dx, d > 0);
      if (d + 1 == c->directions)
        finish_target (call, 0, 0, steps * c->width, dx);
    }
  if (get_output (call, 1).data != NULL)
    {
      float *dw = get_target (call, 1, d * all * c->width, PART_DW);
      multiply (call, PRODUCT_DW, run.values, x, NULL, dw, false);
      finish_target (call, 1, d * all * c->width, all * c->width, dw);
    }
  if (get_output (call, 2).data != NULL)
    {
      float *dr = get_target (call, 2, d * all * H, PART_DR);
      multiply (call, PRODUCT_DR, run.values, run.previous, NULL, dr, false);
      if (c->cell == CELL_GRU)
        multiply (call, PRODUCT_DR_CANDIDATE, run.reset_after ? run.reset : run.values + 2 * H,
                  run.reset_after ? run.previous : run.reset, NULL, dr + 2 * H * H, false);
      finish_target (call, 2, d * all * H, all * H, dr);
    }
  if (run.db.data != NULL)
    ortrain_cuda_launch (call, "recurrent-bias-grad", ortrain_cuda_grid (call, all, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, bias_grad_kernel, run);
  if (run.dp.data != NULL)
    ortrain_cuda_launch (call, "recurrent-peephole-grad", ortrain_cuda_grid (call, H, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, peephole_grad_kernel, run);
}

static void
run_grad (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const gint64 H = c->hidden, all = c->gates * H, state = c->batch * H, steps = c->length * c->batch;
  const float *x = widen (call, get_input (call, 0), 0, steps * c->width, PART_X);
  for (guint d = 0; d < c->directions; d++)
    {
      Run run = begin (call, d);
      run.dy = get_input (call, 3);
      run.dy_h = get_input (call, 4);
      run.dy_c = get_input (call, 5);
      run.lengths = get_input (call, 6).data;
      run.h0 = get_input (call, 7);
      run.c0 = get_input (call, 8);
      run.p = get_input (call, 9);
      run.y = get_input (call, 10);
      run.saved_values = get_input (call, 11);
      run.db = get_output (call, 3);
      run.dp = get_output (call, 6);
      check_lengths (call, run);
      ortrain_cuda_launch (call, "recurrent-start", ortrain_cuda_grid (call, state, ORTRAIN_CUDA_BLOCK),
                           ORTRAIN_CUDA_BLOCK, start_grad_kernel, run, c->cell == CELL_LSTM);
      ortrain_cuda_launch (call, "recurrent-previous", ortrain_cuda_grid (call, steps * H, ORTRAIN_CUDA_BLOCK),
                           ORTRAIN_CUDA_BLOCK, previous_kernel, run);
      const float *w = widen (call, get_input (call, 1), d * all * c->width, all * c->width, PART_W);
      const float *r = widen (call, get_input (call, 2), d * all * H, all * H, PART_R);
      for (gint64 s = c->length - 1; s >= 0; s--)
        {
          run.t = run.reverse ? c->length - 1 - s : s;
          run_step_grad (call, c, run, r);
        }
      run_weights_grad (call, c, run, x, w);
      narrow (call, run.state, get_output (call, 4), d * state, state);
      if (c->cell == CELL_LSTM)
        narrow (call, run.cell, get_output (call, 5), d * state, state);
    }
}

static bool
is_absent (const OrtrainKernelSetup *setup, guint i)
{
  return i >= setup->n_inputs || setup->inputs[i].dtype == ORTRAIN_DTYPE_UNDEFINED;
}

/* Absent, or of this shape */
static bool
fits (const OrtrainKernelSetup *setup, guint i, guint rank, const gint64 *dims)
{
  return is_absent (setup, i) ||
         (setup->inputs[i].rank == rank && memcmp (setup->inputs[i].dims, dims, rank * sizeof *dims) == 0);
}

/* alpha and beta are lists from which each activation that has such a parameter takes the next. NULL, or the reason for
 * a refusal */
static const char *
read_activations (Constants *c, const OrtrainKernelSetup *setup)
{
  static const struct
  {
    const char *name;
    bool has_alpha, has_beta;
    float alpha, beta;
  } table[N_ACTIVATIONS] = {
    { "Sigmoid", false, false, 0, 0 },      { "Tanh", false, false, 0, 0 },
    { "Relu", false, false, 0, 0 },         { "Affine", true, true, 1, 0 },
    { "LeakyRelu", true, false, 0.01f, 0 }, { "ThresholdedRelu", true, false, 1, 0 },
    { "ScaledTanh", true, true, 1, 1 },     { "HardSigmoid", true, true, 0.2f, 0.5f },
    { "Elu", true, false, 1, 0 },           { "Softsign", false, false, 0, 0 },
    { "Softplus", false, false, 0, 0 },
  };
  static const char *const usual[][3] = { { "Tanh", NULL, NULL },
                                          { "Sigmoid", "Tanh", NULL },
                                          { "Sigmoid", "Tanh", "Tanh" } };
  const guint n = c->cell == CELL_RNN ? 1 : c->cell == CELL_GRU ? 2 : 3;
  const OrtrainAttribute *names = ortrain_cuda_library->attributes_lookup (setup->attributes, "activations");
  gsize n_alpha = 0, n_beta = 0, next_alpha = 0, next_beta = 0;
  const float *alpha = ortrain_cuda_library->attributes_get_floats (setup->attributes, "activation_alpha", &n_alpha);
  const float *beta = ortrain_cuda_library->attributes_get_floats (setup->attributes, "activation_beta", &n_beta);
  const double clip = ORTRAIN_CUDA_FLOAT (setup, "clip", 0);
  if (names != NULL && (names->kind != ORTRAIN_ATTRIBUTE_STRINGS || names->n != n * (gsize) c->directions))
    return "the number of activations does not fit the operator and its directions";
  for (gint64 d = 0; d < c->directions; d++)
    for (guint i = 0; i < n; i++)
      {
        const char *name = names != NULL ? names->v.strings[(gsize) d * n + i] : usual[c->cell][i];
        Activation *activation = i == 0 ? &c->f[d] : i == 1 ? &c->g[d] : &c->h[d];
        guint kind = 0;
        while (kind < N_ACTIVATIONS && g_ascii_strcasecmp (table[kind].name, name) != 0)
          kind++;
        if (kind == N_ACTIVATIONS)
          return "an activation is not known";
        activation->kind = (ActivationKind) kind;
        activation->alpha = table[kind].has_alpha && next_alpha < n_alpha ? alpha[next_alpha++] : table[kind].alpha;
        activation->beta = table[kind].has_beta && next_beta < n_beta ? beta[next_beta++] : table[kind].beta;
        /* the cell's own output is not clipped */
        activation->clip = clip > 0 && !(c->cell == CELL_LSTM && i == 2) ? (float) clip : INFINITY;
        if (activation->alpha < 0 && (kind == ACT_LEAKY_RELU || kind == ACT_THRESHOLDED_RELU || kind == ACT_ELU))
          return "an activation with a negative alpha is not supported";
      }
  return NULL;
}

/* at: where sequence_lens, initial_h, initial_c and P are among the inputs. NULL, or the reason for a refusal */
static const char *
describe (Constants *c, const OrtrainKernelSetup *setup, const char *cell, const guint *at)
{
  const OrtrainOperand *x = &setup->inputs[0], *w = &setup->inputs[1], *r = &setup->inputs[2];
  const char *direction = ORTRAIN_CUDA_STRING (setup, "direction", "forward");
  if (x->rank != 3 || w->rank != 3 || r->rank != 3)
    return "X, W and R must have rank 3";
  ortrain_cuda_describe_types (&c->types, setup);
  for (guint i = 8; i < 12; i++)
    c->more_types[i - 8] = i < setup->n_inputs ? setup->inputs[i].dtype : ORTRAIN_DTYPE_UNDEFINED;
  c->cell = g_str_equal (cell, "LSTM") ? CELL_LSTM : g_str_equal (cell, "GRU") ? CELL_GRU : CELL_RNN;
  c->length = x->dims[0];
  c->batch = x->dims[1];
  c->width = x->dims[2];
  c->hidden = r->dims[2];
  c->gates = c->cell == CELL_LSTM ? 4 : c->cell == CELL_GRU ? 3 : 1;
  c->directions = g_str_equal (direction, "bidirectional") ? 2 : 1;
  c->reverse[0] = g_str_equal (direction, "reverse");
  c->reverse[1] = true;
  c->reset_after = ORTRAIN_CUDA_INT (setup, "linear_before_reset", 0) != 0;
  c->coupled = ORTRAIN_CUDA_INT (setup, "input_forget", 0) != 0;
  c->saved = c->cell == CELL_LSTM ? 5 : c->cell == CELL_RNN ? 0 : c->reset_after ? 4 : 3;
  const gint64 all = c->gates * c->hidden;
  const gint64 w_dims[] = { c->directions, all, c->width }, r_dims[] = { c->directions, all, c->hidden };
  const gint64 state[] = { c->directions, c->batch, c->hidden }, peepholes[] = { c->directions, 3 * c->hidden };
  if (c->length * c->batch * c->width * c->hidden == 0)
    return "an empty operand";
  if (ORTRAIN_CUDA_INT (setup, "hidden_size", c->hidden) != c->hidden || !fits (setup, 1, 3, w_dims) ||
      !fits (setup, 2, 3, r_dims) || !fits (setup, at[1], 3, state) || !fits (setup, at[2], 3, state) ||
      !fits (setup, at[3], 2, peepholes) || (!is_absent (setup, at[0]) && setup->inputs[at[0]].n_elements != c->batch))
    return "the shapes of the operands do not fit each other";
  c->lengths_64 = !is_absent (setup, at[0]) && setup->inputs[at[0]].dtype == ORTRAIN_DTYPE_INT64;
  return read_activations (c, setup);
}

static void
plan_workspace (Constants *c, OrtrainKernelSetup *setup, bool backward)
{
  const gint64 H = c->hidden, all = c->gates * H, rows = c->batch * H, steps = c->length * c->batch;
  const bool narrow_dx = backward && c->types.outputs[0] != ORTRAIN_DTYPE_FLOAT32;
  const bool narrow_dw = backward && c->types.outputs[1] != ORTRAIN_DTYPE_FLOAT32;
  const bool narrow_dr = backward && c->types.outputs[2] != ORTRAIN_DTYPE_FLOAT32;
  const gint64 sizes[N_PARTS] = {
    steps * all, /* values */
    all + H,
    rows,
    c->cell == CELL_LSTM ? rows : 0,
    rows,
    backward ? steps * H : 0,
    backward && c->cell == CELL_GRU ? steps * H : 0,
    c->types.inputs[0] != ORTRAIN_DTYPE_FLOAT32 ? steps * c->width : 0,
    c->types.inputs[1] != ORTRAIN_DTYPE_FLOAT32 ? all * c->width : 0,
    c->types.inputs[2] != ORTRAIN_DTYPE_FLOAT32 ? all * H : 0,
    narrow_dx ? steps * c->width : 0,
    narrow_dw ? all * c->width : 0,
    narrow_dr ? all * H : 0,
  };
  gsize at = 0;
  for (guint i = 0; i < N_PARTS; i++)
    {
      c->parts[i] = at;
      at += ((gsize) sizes[i] * sizeof (float) + 63) & ~(gsize) 63;
    }
  c->product_workspace = at;
  gsize most = 0;
  for (guint i = 0; i < N_PRODUCTS; i++)
    if (c->products[i] != NULL)
      most = MAX (most, ortrain_cuda_gemm_get_workspace_bytes (c->products[i]));
  setup->workspace_bytes = at + most;
}

static bool
plan_product (Constants *c, const OrtrainKernelSetup *setup, guint which, bool trans_a, bool trans_b, gint64 m,
              gint64 n, gint64 k, gint64 lda, gint64 ldb, gint64 ldc, bool adds_bias, GError **error)
{
  OrtrainCudaGemmShape shape;
  memset (&shape, 0, sizeof shape);
  shape.dtype = shape.result_dtype = ORTRAIN_DTYPE_FLOAT32;
  shape.trans_a = trans_a;
  shape.trans_b = trans_b;
  shape.adds_bias = adds_bias;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.lda = lda;
  shape.ldb = ldb;
  shape.ldc = ldc;
  shape.n_batch = 1;
  /* of steps and gates within larger matrices */
  shape.alignment = c->hidden % 4 == 0 && c->width % 4 == 0 ? 16 : sizeof (float);
  shape.alpha = 1;
  c->products[which] = ortrain_cuda_gemm_new (setup, &shape, error);
  return c->products[which] != NULL;
}

/* RNN, GRU, LSTM (X, W, R, B, sequence_lens, initial_h[, initial_c, P]) → (Y, Y_h[, Y_c][, saved]) */
static gboolean
prepare_recurrent (OrtrainKernelSetup *setup, GError **error)
{
  static const guint at[] = { 4, 5, 6, 7 };
  Constants *c = g_new0 (Constants, 1);
  const char *wrong = describe (c, setup, setup->op_type, at);
  const gint64 H = c->hidden, all = c->gates * H, steps = c->length * c->batch, bias[] = { c->directions, 2 * all };
  const bool alone = c->cell == CELL_GRU && c->reset_after;
  if (wrong == NULL && !fits (setup, 3, 2, bias))
    wrong = "the shape of B does not fit";
  if (wrong != NULL)
    ortrain_cuda_refuse (setup, error, "%s", wrong);
  if (wrong != NULL ||
      !plan_product (c, setup, PRODUCT_INPUT, false, true, steps, all, c->width, c->width, c->width, all, true,
                     error) ||
      !plan_product (c, setup, PRODUCT_STATE, false, true, c->batch, c->cell == CELL_GRU ? 2 * H : all, H, H, H, all,
                     false, error) ||
      (c->cell == CELL_GRU &&
       !plan_product (c, setup, PRODUCT_CANDIDATE, false, true, c->batch, H, H, H, H, alone ? H : all, alone, error)))
    {
      free_constants (c);
      return FALSE;
    }
  plan_workspace (c, setup, false);
  setup->flops = 2.0 * (double) (steps * c->directions) * (double) all * (double) (c->width + H);
  setup->constants = c;
  setup->constants_free = free_constants;
  return TRUE;
}

/* RecurrentGrad (X, W, R, dY, dY_h, dY_c, sequence_lens, initial_h, initial_c, P, Y, saved) → (dX, dW, dR, dB,
 * dinitial_h, dinitial_c, dP) */
static gboolean
prepare_grad (OrtrainKernelSetup *setup, GError **error)
{
  static const guint at[] = { 6, 7, 8, 9 };
  Constants *c = g_new0 (Constants, 1);
  const char *wrong = describe (c, setup, ORTRAIN_CUDA_STRING (setup, "cell", "RNN"), at);
  const gint64 H = c->hidden, all = c->gates * H, steps = c->length * c->batch;
  const gint64 y[] = { c->length, c->directions, c->batch, H };
  const gint64 saved[] = { c->length, c->directions, c->batch, c->saved * H };
  const gint64 first =
      c->cell == CELL_GRU ? 2 * H : all; /* GRU: z and r; the candidate's part is a product of its own */
  const bool alone = c->cell == CELL_GRU && c->reset_after, is_gru = c->cell == CELL_GRU;
  if (wrong == NULL &&
      (is_absent (setup, 10) || !fits (setup, 10, 4, y) || !fits (setup, 3, 4, y) || !fits (setup, 4, 3, y + 1) ||
       !fits (setup, 5, 3, y + 1) || (c->saved > 0 && (is_absent (setup, 11) || !fits (setup, 11, 4, saved)))))
    wrong = "the shapes of the operands do not fit each other";
  if (wrong != NULL)
    ortrain_cuda_refuse (setup, error, "%s", wrong);
  if (wrong != NULL ||
      !plan_product (c, setup, PRODUCT_STATE_GRAD, false, false, c->batch, H, first, all, H, H, false, error) ||
      (is_gru && !plan_product (c, setup, PRODUCT_CANDIDATE_GRAD, false, false, c->batch, H, H, alone ? H : all, H, H,
                                false, error)) ||
      !plan_product (c, setup, PRODUCT_DX, false, false, steps, c->width, all, all, c->width, c->width, false, error) ||
      !plan_product (c, setup, PRODUCT_DW, true, false, all, c->width, steps, all, c->width, c->width, false, error) ||
      !plan_product (c, setup, PRODUCT_DR, true, false, first, H, steps, all, H, H, false, error) ||
      (is_gru &&
       !plan_product (c, setup, PRODUCT_DR_CANDIDATE, true, false, H, H, steps, alone ? H : all, H, H, false, error)))
    {
      free_constants (c);
      return FALSE;
    }
  plan_workspace (c, setup, true);
  setup->flops = 4.0 * (double) (steps * c->directions) * (double) all * (double) (c->width + H);
  setup->constants = c;
  setup->constants_free = free_constants;
  return TRUE;
}

#define ROW(name, domain, suffix)                                                                                      \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare_##suffix, run_##suffix, 0, ORTRAIN_DTYPES_MIXED                        \
  }

static const OrtrainKernel rows[] = {
  ROW ("RNN", "", recurrent),
  ROW ("GRU", "", recurrent),
  ROW ("LSTM", "", recurrent),
  ROW ("RecurrentGrad", "org.ortrain", grad),
};

ORTRAIN_CUDA_TABLE (recurrent, rows);
