/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-formulas.h"
#include "common/ortrain-stored-limits.h"
#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-gemm.h"
#include "ortrain-cpu-lanes.h"

/* RNN, GRU and LSTM over whole sequences. The part of the gates from the input is one product over all steps; each step
 * adds one product of the state. The forward pass keeps the activations of the gates when asked, from which the
 * backward pass has every derivative: activations here can all be derived from their own result.
 *
 * A row whose sequence has ended keeps its state and gives zeros, in both directions: running from the last step to the
 * first, a row waits with its initial state until its own end is reached.
 *
 * Operands of 16 bits are computed with in float32: products widen weights and inputs as they pack them, rows of states
 * and gates are widened as they are read, and rounded as they are stored. */

typedef enum
{
  CELL_RNN,
  CELL_GRU,
  CELL_LSTM,
} CellKind;

typedef enum
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
} ActivationKind;

typedef struct
{
  ActivationKind kind;
  double alpha, beta;
  double clip; /* limit of the arguments; infinite: none */
} Activation;

enum
{
  PRODUCT_INPUT,      /* gates = X · Wᵀ + b */
  PRODUCT_STATE,      /* gates += h · Rᵀ (GRU: of z and r) */
  PRODUCT_CANDIDATE,  /* GRU: the third part of it, of h or r ∘ h */
  PRODUCT_STATE_GRAD, /* dh += dgates · R */
  PRODUCT_CANDIDATE_GRAD,
  PRODUCT_DX,
  PRODUCT_DW,
  PRODUCT_DR,
  PRODUCT_DR_CANDIDATE,
  N_PRODUCTS
};

/* Parts of the workspace, one after the other. */
enum
{
  PART_GATES, /* [length · batch, gates · hidden]: activations, or their gradients */
  PART_BIAS,  /* [gates · hidden + hidden] */
  PART_H,     /* [batch, hidden]: the state, or its gradient */
  PART_C,
  PART_TMP,       /* [batch, hidden] */
  PART_PREVIOUS,  /* backward: the state before each step, [length · batch, hidden] */
  PART_RESET,     /* backward, GRU: the factor of the candidate's recurrent weights, or its gradient */
  PART_PEEPHOLES, /* [3 · hidden], of 16 bits: widened */
  PART_SCRATCH,   /* backward, of 16 bits: [threads, saved + 1, hidden] */
  PART_DX,        /* backward, both directions, of 16 bits: their sum */
  N_PARTS
};

#define MAX_INPUTS 12
#define MAX_OUTPUTS 7

typedef struct
{
  OrtrainDType dtype; /* that is computed in */
  OrtrainDType inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
  gboolean narrow; /* one of them has 16 bits */
  CellKind cell;
  gint64 length, batch, width, hidden, gates, directions, saved;
  guint n_inputs, n_outputs;
  gboolean lengths_64;
  gboolean reset_after; /* linear_before_reset */
  gboolean coupled;     /* input_forget */
  gboolean reverse[2];
  Activation f[2], g[2], h[2];
  OrtrainCpuGemm products[N_PRODUCTS];
  gsize parts[N_PARTS];
} RecurrentPlan;

typedef struct
{
  gpointer data; /* NULL: absent */
  OrtrainDType dtype;
} Operand;

typedef struct
{
  const RecurrentPlan *plan;
  guint direction;
  gint64 t;
  /* operands of this direction */
  Operand x, w, r, b, h0, c0;
  Operand dy, dy_h, dy_c, y_in, saved_in;
  gconstpointer p;       /* in the type of the computation, or NULL */
  gconstpointer lengths; /* or NULL */
  Operand y, y_h, y_c, saved;
  Operand dx, dw, dr, db, dh0, dc0, dp;
  /* workspace */
  gpointer gates, bias, state, cell, tmp, previous, reset, peepholes, scratch, wide_dx;
} RecurrentRun;

#define REAL float
#define IS_DOUBLE 0
#define R(name) name##_f32
#define F(name) ortrain_f32_##name
#include "ortrain-cpu-recurrent-template.h"
#undef REAL
#undef IS_DOUBLE
#undef R
#undef F
#define REAL double
#define IS_DOUBLE 1
#define R(name) name##_f64
#define F(name) ortrain_f64_##name
#include "ortrain-cpu-recurrent-template.h"
#undef REAL
#undef IS_DOUBLE
#undef R
#undef F

static gboolean
refuse (OrtrainKernelSetup *setup, GError **error, const char *what)
{
  g_clear_pointer (&setup->constants, g_free);
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: %s", setup->op_type, what);
  return FALSE;
}

/* alpha and beta are lists from which each activation that has such a parameter takes the next. */
static gboolean
read_activations (RecurrentPlan *plan, OrtrainKernelSetup *setup, GError **error)
{
  static const struct
  {
    const char *name;
    gboolean has_alpha, has_beta;
    double alpha, beta;
  } table[] = {
    [ACT_SIGMOID] = { "Sigmoid" },
    [ACT_TANH] = { "Tanh" },
    [ACT_RELU] = { "Relu" },
    [ACT_AFFINE] = { "Affine", TRUE, TRUE, 1, 0 }, /* inference refuses Affine and ScaledTanh without their values */
    [ACT_LEAKY_RELU] = { "LeakyRelu", TRUE, FALSE, 0.01 },
    [ACT_THRESHOLDED_RELU] = { "ThresholdedRelu", TRUE, FALSE, 1 },
    [ACT_SCALED_TANH] = { "ScaledTanh", TRUE, TRUE, 1, 1 },
    [ACT_HARD_SIGMOID] = { "HardSigmoid", TRUE, TRUE, 0.2, 0.5 },
    [ACT_ELU] = { "Elu", TRUE, FALSE, 1 },
    [ACT_SOFTSIGN] = { "Softsign" },
    [ACT_SOFTPLUS] = { "Softplus" },
  };
  static const char *const usual[][3] = {
    [CELL_RNN] = { "Tanh" }, [CELL_GRU] = { "Sigmoid", "Tanh" }, [CELL_LSTM] = { "Sigmoid", "Tanh", "Tanh" }
  };
  const guint n = plan->cell == CELL_RNN ? 1 : plan->cell == CELL_GRU ? 2 : 3;
  const OrtrainAttribute *names = ortrain_attributes_lookup (setup->attributes, "activations");
  gsize n_alpha = 0, n_beta = 0, next_alpha = 0, next_beta = 0;
  const float *alpha = ortrain_attributes_get_floats (setup->attributes, "activation_alpha", &n_alpha);
  const float *beta = ortrain_attributes_get_floats (setup->attributes, "activation_beta", &n_beta);
  double clip = ortrain_attributes_get_float (setup->attributes, "clip", 0);
  if (names != NULL && (names->kind != ORTRAIN_ATTRIBUTE_STRINGS || names->n != n * (gsize) plan->directions))
    return refuse (setup, error, "the number of activations does not fit the operator and its directions");
  for (gint64 d = 0; d < plan->directions; d++)
    for (guint i = 0; i < n; i++)
      {
        const char *name = names != NULL ? names->v.strings[(gsize) d * n + i] : usual[plan->cell][i];
        Activation *activation = i == 0 ? &plan->f[d] : i == 1 ? &plan->g[d] : &plan->h[d];
        guint kind = 0;
        while (kind < G_N_ELEMENTS (table) && g_ascii_strcasecmp (table[kind].name, name) != 0)
          kind++;
        if (kind == G_N_ELEMENTS (table))
          {
            g_autofree char *message = g_strdup_printf ("the activation “%s” is not known", name);
            return refuse (setup, error, message);
          }
        activation->kind = kind;
        activation->alpha = table[kind].has_alpha && next_alpha < n_alpha ? alpha[next_alpha++] : table[kind].alpha;
        activation->beta = table[kind].has_beta && next_beta < n_beta ? beta[next_beta++] : table[kind].beta;
        /* the cell's own output is not clipped */
        activation->clip = clip > 0 && !(plan->cell == CELL_LSTM && i == 2) ? clip : INFINITY;
        if (activation->alpha < 0 && (kind == ACT_LEAKY_RELU || kind == ACT_THRESHOLDED_RELU || kind == ACT_ELU))
          return refuse (setup, error, "an activation with a negative alpha is not supported");
      }
  return TRUE;
}

static gboolean
is_absent (const OrtrainOperand *operands, guint n, guint i)
{
  return i >= n || operands[i].dtype == ORTRAIN_DTYPE_UNDEFINED;
}

static OrtrainDType
get_compute_dtype (OrtrainDType dtype)
{
  return ortrain_dtype_is_half (dtype) ? ORTRAIN_DTYPE_FLOAT32 : dtype;
}

/* Absent, or of this shape and a type that is computed with in the plan's. */
static gboolean
fits (const RecurrentPlan *plan, const OrtrainOperand *operands, guint n, guint i, guint rank, const gint64 *dims)
{
  if (is_absent (operands, n, i))
    return TRUE;
  return get_compute_dtype (operands[i].dtype) == plan->dtype && operands[i].rank == rank &&
         memcmp (operands[i].dims, dims, rank * sizeof *dims) == 0;
}

static void
plan_product (RecurrentPlan *plan, const OrtrainKernelSetup *setup, guint which, gboolean trans_a, gboolean trans_b,
              gint64 m, gint64 n, gint64 k, gint64 lda, gint64 ldb, gint64 ldc, double beta)
{
  plan->products[which] = (OrtrainCpuGemm){ .is_double = plan->dtype == ORTRAIN_DTYPE_FLOAT64,
                                            .trans_a = trans_a,
                                            .trans_b = trans_b,
                                            .m = m,
                                            .n = n,
                                            .k = k,
                                            .lda = MAX (1, lda),
                                            .ldb = MAX (1, ldb),
                                            .ldc = MAX (1, ldc),
                                            .alpha = 1,
                                            .beta = beta,
                                            .n_batch = 1 };
  ortrain_cpu_gemm_plan (&plan->products[which], ortrain_cpu_get_n_threads (setup),
                         ortrain_cpu_has_fixed_partition (setup));
}

/* The types of its operands; the bias is computed. */
static void
set_product_types (RecurrentPlan *plan, guint which, OrtrainDType a, OrtrainDType b, OrtrainDType c)
{
  OrtrainCpuGemm *product = &plan->products[which];
  if (!ortrain_dtype_is_half (a) && !ortrain_dtype_is_half (b) && !ortrain_dtype_is_half (c))
    return;
  product->a_dtype = a;
  product->b_dtype = b;
  product->c_dtype = c;
  product->bias_dtype = ORTRAIN_DTYPE_FLOAT32;
}

/* Two directions add to dx, which is rounded once. */
static gboolean
needs_wide_dx (const RecurrentPlan *plan, gboolean backward)
{
  return backward && plan->directions > 1 && ortrain_dtype_is_half (plan->outputs[0]);
}

static gboolean
plan_workspace (RecurrentPlan *plan, OrtrainKernelSetup *setup, gboolean backward, GError **error)
{
  gint64 steps = 0, rows = 0, gates = 0;
  gsize at = 0;
  gboolean ok = ortrain_checked_mul_i64 (plan->length, plan->batch, &steps) &&
                ortrain_checked_mul_i64 (plan->gates, plan->hidden, &gates) &&
                ortrain_checked_mul_i64 (plan->batch, plan->hidden, &rows);
  for (guint i = 0; ok && i < N_PARTS; i++)
    {
      gint64 n = 0;
      gsize bytes;
      switch (i)
        {
        case PART_GATES:
          ok = ortrain_checked_mul_i64 (steps, gates, &n);
          break;
        case PART_BIAS:
          n = gates + plan->hidden;
          break;
        case PART_H:
        case PART_TMP:
          n = rows;
          break;
        case PART_C:
          n = plan->cell == CELL_LSTM ? rows : 0;
          break;
        case PART_PREVIOUS:
          ok = !backward || ortrain_checked_mul_i64 (steps, plan->hidden, &n);
          break;
        case PART_RESET:
          ok = !backward || plan->cell != CELL_GRU || ortrain_checked_mul_i64 (steps, plan->hidden, &n);
          break;
        case PART_PEEPHOLES:
          n = plan->narrow ? 3 * plan->hidden : 0;
          break;
        case PART_SCRATCH:
          n = backward && plan->narrow ? (plan->saved + 1) * plan->hidden * (gint64) ortrain_cpu_get_n_threads (setup)
                                       : 0;
          break;
        case PART_DX:
          ok = !needs_wide_dx (plan, backward) || ortrain_checked_mul_i64 (steps, plan->width, &n);
          break;
        }
      plan->parts[i] = at;
      ok = ok && ortrain_checked_mul ((gsize) n, ortrain_dtype_get_size (plan->dtype), &bytes) &&
           ortrain_checked_align (bytes, 64, &bytes) && ortrain_checked_add (at, bytes, &at);
    }
  setup->workspace_bytes = at;
  return ok || refuse (setup, error, "the sequences are too large");
}

/* inputs: where X, W, R, sequence_lens, initial_h, initial_c and P are among the kernel's inputs. */
static RecurrentPlan *
build_plan (OrtrainKernelSetup *setup, const char *cell, const guint *at, GError **error)
{
  const OrtrainOperand *in = setup->inputs, *x = &in[0], *w = &in[1], *r = &in[2];
  const char *direction = ortrain_attributes_get_string (setup->attributes, "direction", "forward");
  if (x->rank != 3 || w->rank != 3 || r->rank != 3)
    {
      refuse (setup, error, "X, W and R must have rank 3");
      return NULL;
    }
  RecurrentPlan *plan = setup->constants = g_new0 (RecurrentPlan, 1);
  setup->constants_free = g_free;
  plan->cell = g_str_equal (cell, "LSTM") ? CELL_LSTM : g_str_equal (cell, "GRU") ? CELL_GRU : CELL_RNN;
  plan->dtype = get_compute_dtype (x->dtype);
  plan->n_inputs = setup->n_inputs;
  plan->n_outputs = setup->n_outputs;
  for (guint i = 0; i < MIN (setup->n_inputs, MAX_INPUTS); i++)
    {
      plan->inputs[i] = in[i].dtype;
      plan->narrow = plan->narrow || ortrain_dtype_is_half (in[i].dtype);
    }
  for (guint k = 0; k < MIN (setup->n_outputs, MAX_OUTPUTS); k++)
    {
      plan->outputs[k] = setup->outputs[k].dtype;
      plan->narrow = plan->narrow || ortrain_dtype_is_half (setup->outputs[k].dtype);
    }
  plan->length = x->dims[0];
  plan->batch = x->dims[1];
  plan->width = x->dims[2];
  plan->hidden = r->dims[2];
  plan->gates = plan->cell == CELL_LSTM ? 4 : plan->cell == CELL_GRU ? 3 : 1;
  plan->directions = g_str_equal (direction, "bidirectional") ? 2 : 1;
  plan->reverse[0] = g_str_equal (direction, "reverse");
  plan->reverse[1] = TRUE;
  plan->reset_after = ortrain_attributes_get_int (setup->attributes, "linear_before_reset", 0) != 0;
  plan->coupled = ortrain_attributes_get_int (setup->attributes, "input_forget", 0) != 0;
  plan->saved = plan->cell == CELL_LSTM ? 5 : plan->cell == CELL_RNN ? 0 : plan->reset_after ? 4 : 3;
  gint64 all = plan->gates * plan->hidden;
  const gint64 w_dims[] = { plan->directions, all, plan->width }, r_dims[] = { plan->directions, all, plan->hidden };
  const gint64 state[] = { plan->directions, plan->batch, plan->hidden };
  const gint64 peepholes[] = { plan->directions, 3 * plan->hidden };
  guint n = setup->n_inputs;
  const OrtrainOperand *lengths = is_absent (in, n, at[0]) ? NULL : &in[at[0]];
  gint64 hidden_size = ortrain_attributes_get_int (setup->attributes, "hidden_size", plan->hidden);
  if (hidden_size != plan->hidden || !fits (plan, in, n, 1, 3, w_dims) || !fits (plan, in, n, 2, 3, r_dims) ||
      !fits (plan, in, n, at[1], 3, state) || !fits (plan, in, n, at[2], 3, state) ||
      !fits (plan, in, n, at[3], 2, peepholes) || (lengths != NULL && lengths->n_elements != plan->batch))
    {
      refuse (setup, error, "the shapes of the operands do not fit each other");
      return NULL;
    }
  plan->lengths_64 = lengths != NULL && lengths->dtype == ORTRAIN_DTYPE_INT64;
  if (!read_activations (plan, setup, error))
    return NULL;
  setup->flops = 2.0 * (double) (plan->length * plan->batch * plan->directions) * (double) all *
                 (double) (plan->width + plan->hidden);
  return plan;
}

/* The address of an element of values in the type of the computation. */
static gpointer
at_element (const RecurrentPlan *plan, gconstpointer base, gint64 element)
{
  return base != NULL ? (guint8 *) base + (gsize) element * ortrain_dtype_get_size (plan->dtype) : NULL;
}

static Operand
offset_operand (Operand operand, gint64 element)
{
  if (operand.data != NULL)
    operand.data = (guint8 *) operand.data + (gsize) element * ortrain_dtype_get_size (operand.dtype);
  return operand;
}

/* Input i or output k of a call, from an element on. */
static Operand
get_input (const OrtrainKernelCall *call, guint i, gint64 element)
{
  const RecurrentPlan *plan = call->constants;
  return offset_operand ((Operand){ plan->n_inputs > i ? (gpointer) call->inputs[i] : NULL, plan->inputs[i] }, element);
}

static Operand
get_output (const OrtrainKernelCall *call, guint k, gint64 element)
{
  const RecurrentPlan *plan = call->constants;
  return offset_operand ((Operand){ plan->n_outputs > k ? call->outputs[k] : NULL, plan->outputs[k] }, element);
}

/* The peepholes are read once for each row of each step. */
static gconstpointer
read_peepholes (const RecurrentRun *run, Operand p)
{
  if (p.data == NULL || !ortrain_dtype_is_half (p.dtype))
    return p.data;
  ortrain_elements_load (p.dtype, p.data, 0, 3 * run->plan->hidden, run->peepholes);
  return run->peepholes;
}

/* n elements, where they are wanted. */
static void
write_state (const Operand *to, gconstpointer state, gint64 n)
{
  if (to->data == NULL)
    return;
  if (to->dtype == ORTRAIN_DTYPE_FLOAT64)
    memcpy (to->data, state, (gsize) n * sizeof (double));
  else
    ortrain_elements_store (to->dtype, to->data, 0, n, state);
}

/* The rows of a step, in one piece where they are few. */
static void
run_rows (const OrtrainKernelCall *call, RecurrentRun *run, OrtrainParallelFunc func)
{
  const RecurrentPlan *plan = run->plan;
  gint64 grain = MAX (1, 4096 / MAX (1, plan->gates * plan->hidden));
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->batch, grain, func, run);
}

static void
set_workspace (RecurrentRun *run, void *workspace)
{
  guint8 *base = workspace;
  const gsize *parts = run->plan->parts;
  run->gates = base + parts[PART_GATES];
  run->bias = base + parts[PART_BIAS];
  run->state = base + parts[PART_H];
  run->cell = base + parts[PART_C];
  run->tmp = base + parts[PART_TMP];
  run->previous = base + parts[PART_PREVIOUS];
  run->reset = base + parts[PART_RESET];
  run->peepholes = base + parts[PART_PEEPHOLES];
  run->scratch = base + parts[PART_SCRATCH];
  run->wide_dx = base + parts[PART_DX];
}

static void
check_lengths (const OrtrainKernelCall *call, const RecurrentPlan *plan, gconstpointer lengths)
{
  for (gint64 b = 0; lengths != NULL && b < plan->batch; b++)
    {
      const gint64 length = ortrain_kernel_index (lengths, plan->lengths_64, b);
      if (length < 0 || length > plan->length)
        ortrain_kernel_fault (call, ORTRAIN_FAULT_INDEX, b, length, plan->length + 1);
    }
}

#define CALL(plan, name) ((plan)->dtype == ORTRAIN_DTYPE_FLOAT32 ? name##_f32 : name##_f64)

/* RNN, GRU, LSTM (X, W, R, B, sequence_lens, initial_h[, initial_c, P]) → (Y, Y_h[, Y_c][, saved]) */
static gboolean
recurrent_prepare (OrtrainKernelSetup *setup, GError **error)
{
  static const guint at[] = { 4, 5, 6, 7 };
  RecurrentPlan *plan = build_plan (setup, setup->op_type, at, error);
  if (plan == NULL)
    return FALSE;
  const gint64 H = plan->hidden, all = plan->gates * H, steps = plan->length * plan->batch;
  const gint64 bias[] = { plan->directions, 2 * all };
  if (!fits (plan, setup->inputs, setup->n_inputs, 3, 2, bias))
    return refuse (setup, error, "the shape of B does not fit");
  if (!plan_workspace (plan, setup, FALSE, error))
    return FALSE;
  plan_product (plan, setup, PRODUCT_INPUT, FALSE, TRUE, steps, all, plan->width, plan->width, plan->width, all, 0);
  plan->products[PRODUCT_INPUT].has_bias = TRUE;
  plan->products[PRODUCT_INPUT].bias_column_stride = 1;
  plan->products[PRODUCT_INPUT].bias_scale = 1;
  plan_product (plan, setup, PRODUCT_STATE, FALSE, TRUE, plan->batch, plan->cell == CELL_GRU ? 2 * H : all, H, H, H,
                all, 1);
  if (plan->reset_after)
    {
      plan_product (plan, setup, PRODUCT_CANDIDATE, FALSE, TRUE, plan->batch, H, H, H, H, H, 0);
      plan->products[PRODUCT_CANDIDATE].has_bias = TRUE;
      plan->products[PRODUCT_CANDIDATE].bias_column_stride = 1;
      plan->products[PRODUCT_CANDIDATE].bias_scale = 1;
    }
  else
    plan_product (plan, setup, PRODUCT_CANDIDATE, FALSE, TRUE, plan->batch, H, H, H, H, all, 1);
  set_product_types (plan, PRODUCT_INPUT, plan->inputs[0], plan->inputs[1], plan->dtype);
  set_product_types (plan, PRODUCT_STATE, plan->dtype, plan->inputs[2], plan->dtype);
  set_product_types (plan, PRODUCT_CANDIDATE, plan->dtype, plan->inputs[2], plan->dtype);
  return TRUE;
}

static void
run_step (const OrtrainKernelCall *call, RecurrentRun *run)
{
  const RecurrentPlan *plan = run->plan;
  const gint64 all = plan->gates * plan->hidden;
  gpointer gates = at_element (plan, run->gates, run->t * plan->batch * all);
  gpointer r_candidate = offset_operand (run->r, 2 * plan->hidden * plan->hidden).data;
  ortrain_cpu_gemm_run (&plan->products[PRODUCT_STATE], ortrain_cpu_get_pool (call), run->state, run->r.data, NULL,
                        gates);
  if (plan->cell == CELL_GRU && plan->reset_after)
    {
      ortrain_cpu_gemm_run (&plan->products[PRODUCT_CANDIDATE], ortrain_cpu_get_pool (call), run->state, r_candidate,
                            at_element (plan, run->bias, all), run->tmp);
      run_rows (call, run, CALL (plan, reset_rows));
    }
  else if (plan->cell == CELL_GRU)
    {
      run_rows (call, run, CALL (plan, reset_rows));
      ortrain_cpu_gemm_run (&plan->products[PRODUCT_CANDIDATE], ortrain_cpu_get_pool (call), run->tmp, r_candidate,
                            NULL, at_element (plan, gates, 2 * plan->hidden));
    }
  run_rows (call, run,
            plan->cell == CELL_LSTM  ? CALL (plan, lstm_rows)
            : plan->cell == CELL_GRU ? CALL (plan, gru_rows)
                                     : CALL (plan, rnn_rows));
}

static void
recurrent_run (const OrtrainKernelCall *call)
{
  const RecurrentPlan *plan = call->constants;
  const gint64 H = plan->hidden, all = plan->gates * H, state = plan->batch * H;
  const guint last = plan->cell == CELL_LSTM ? 3 : 2;
  const gconstpointer lengths = get_input (call, 4, 0).data;
  check_lengths (call, plan, lengths);
  for (guint d = 0; d < plan->directions; d++)
    {
      RecurrentRun run = { .plan = plan, .direction = d, .x = get_input (call, 0, 0), .lengths = lengths };
      run.w = get_input (call, 1, d * all * plan->width);
      run.r = get_input (call, 2, d * all * H);
      run.b = get_input (call, 3, d * 2 * all);
      run.h0 = get_input (call, 5, d * state);
      run.y = get_output (call, 0, d * state);
      run.y_h = get_output (call, 1, d * state);
      set_workspace (&run, call->workspace);
      if (plan->cell == CELL_LSTM)
        {
          run.c0 = get_input (call, 6, d * state);
          run.p = read_peepholes (&run, get_input (call, 7, d * 3 * H));
          run.y_c = get_output (call, 2, d * state);
        }
      run.saved = get_output (call, last, d * state * plan->saved);
      CALL (plan, start) (&run);
      ortrain_cpu_gemm_run (&plan->products[PRODUCT_INPUT], ortrain_cpu_get_pool (call), run.x.data, run.w.data,
                            run.bias, run.gates);
      for (gint64 s = 0; s < plan->length; s++)
        {
          run.t = plan->reverse[d] ? plan->length - 1 - s : s;
          run_step (call, &run);
        }
      write_state (&run.y_h, run.state, state);
      write_state (&run.y_c, run.cell, state);
    }
}

/* The type in which output k is written, if it is. */
static OrtrainDType
get_output_dtype (const RecurrentPlan *plan, guint k)
{
  return plan->outputs[k] != ORTRAIN_DTYPE_UNDEFINED ? plan->outputs[k] : plan->dtype;
}

/* RecurrentGrad (X, W, R, dY, dY_h, dY_c, sequence_lens, initial_h, initial_c, P, Y, saved) → (dX, dW, dR, dB,
 * dinitial_h, dinitial_c, dP) */
static gboolean
grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  static const guint at[] = { 6, 7, 8, 9 };
  RecurrentPlan *plan = build_plan (setup, ortrain_attributes_get_string (setup->attributes, "cell", "RNN"), at, error);
  if (plan == NULL)
    return FALSE;
  const gint64 H = plan->hidden, all = plan->gates * H, steps = plan->length * plan->batch;
  const gint64 y[] = { plan->length, plan->directions, plan->batch, H };
  const gint64 saved[] = { plan->length, plan->directions, plan->batch, plan->saved * H };
  const OrtrainOperand *in = setup->inputs;
  guint n = setup->n_inputs;
  if (is_absent (in, n, 10) || !fits (plan, in, n, 10, 4, y) || !fits (plan, in, n, 3, 4, y) ||
      !fits (plan, in, n, 4, 3, y + 1) || !fits (plan, in, n, 5, 3, y + 1) ||
      (plan->saved > 0 && (is_absent (in, n, 11) || !fits (plan, in, n, 11, 4, saved))))
    return refuse (setup, error, "the shapes of the operands do not fit each other");
  if (!plan_workspace (plan, setup, TRUE, error))
    return FALSE;
  gint64 first = plan->cell == CELL_GRU ? 2 * H : all; /* GRU: z and r; the candidate's part is a product of its own */
  plan_product (plan, setup, PRODUCT_STATE_GRAD, FALSE, FALSE, plan->batch, H, first, all, H, H, 1);
  plan_product (plan, setup, PRODUCT_CANDIDATE_GRAD, FALSE, FALSE, plan->batch, H, H, plan->reset_after ? H : all, H, H,
                plan->reset_after ? 1 : 0);
  plan_product (plan, setup, PRODUCT_DX, FALSE, FALSE, steps, plan->width, all, all, plan->width, plan->width, 0);
  plan_product (plan, setup, PRODUCT_DW, TRUE, FALSE, all, plan->width, steps, all, plan->width, plan->width, 0);
  plan_product (plan, setup, PRODUCT_DR, TRUE, FALSE, first, H, steps, all, H, H, 0);
  plan_product (plan, setup, PRODUCT_DR_CANDIDATE, TRUE, FALSE, H, H, steps, plan->reset_after ? H : all, H, H, 0);
  set_product_types (plan, PRODUCT_STATE_GRAD, plan->dtype, plan->inputs[2], plan->dtype);
  set_product_types (plan, PRODUCT_CANDIDATE_GRAD, plan->dtype, plan->inputs[2], plan->dtype);
  set_product_types (plan, PRODUCT_DX, plan->dtype, plan->inputs[1],
                     needs_wide_dx (plan, TRUE) ? plan->dtype : get_output_dtype (plan, 0));
  set_product_types (plan, PRODUCT_DW, plan->dtype, plan->inputs[0], get_output_dtype (plan, 1));
  set_product_types (plan, PRODUCT_DR, plan->dtype, plan->dtype, get_output_dtype (plan, 2));
  set_product_types (plan, PRODUCT_DR_CANDIDATE, plan->dtype, plan->dtype, get_output_dtype (plan, 2));
  setup->flops *= 2;
  return TRUE;
}

static void
run_step_grad (const OrtrainKernelCall *call, RecurrentRun *run)
{
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden, all = plan->gates * H;
  gpointer gates = at_element (plan, run->gates, run->t * plan->batch * all);
  gpointer r_candidate = offset_operand (run->r, 2 * H * H).data;
  run_rows (call, run,
            plan->cell == CELL_LSTM  ? CALL (plan, lstm_grad_rows)
            : plan->cell == CELL_GRU ? CALL (plan, gru_grad_rows)
                                     : CALL (plan, rnn_grad_rows));
  if (plan->cell == CELL_GRU && plan->reset_after)
    ortrain_cpu_gemm_run (&plan->products[PRODUCT_CANDIDATE_GRAD], ortrain_cpu_get_pool (call),
                          at_element (plan, run->reset, run->t * plan->batch * H), r_candidate, NULL, run->state);
  else if (plan->cell == CELL_GRU)
    {
      ortrain_cpu_gemm_run (&plan->products[PRODUCT_CANDIDATE_GRAD], ortrain_cpu_get_pool (call),
                            at_element (plan, gates, 2 * H), r_candidate, NULL, run->tmp);
      run_rows (call, run, CALL (plan, reset_grad_rows));
    }
  ortrain_cpu_gemm_run (&plan->products[PRODUCT_STATE_GRAD], ortrain_cpu_get_pool (call), gates, run->r.data, NULL,
                        run->state);
}

/* Gradients that are a product or a sum over all steps. */
static void
run_weights_grad (const OrtrainKernelCall *call, RecurrentRun *run)
{
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden, all = plan->gates * H;
  OrtrainThreadPool *pool = ortrain_cpu_get_pool (call);
  if (run->dx.data != NULL)
    {
      const gboolean wide = needs_wide_dx (plan, TRUE);
      OrtrainCpuGemm product = plan->products[PRODUCT_DX];
      product.beta = run->direction > 0 ? 1 : 0;
      ortrain_cpu_gemm_run (&product, pool, run->gates, run->w.data, NULL, wide ? run->wide_dx : run->dx.data);
      if (wide && run->direction + 1 == plan->directions)
        write_state (&run->dx, run->wide_dx, plan->length * plan->batch * plan->width);
    }
  if (run->dw.data != NULL)
    ortrain_cpu_gemm_run (&plan->products[PRODUCT_DW], pool, run->gates, run->x.data, NULL, run->dw.data);
  if (run->dr.data != NULL)
    {
      ortrain_cpu_gemm_run (&plan->products[PRODUCT_DR], pool, run->gates, run->previous, NULL, run->dr.data);
      gpointer dr_candidate = offset_operand (run->dr, 2 * H * H).data;
      if (plan->cell == CELL_GRU && plan->reset_after)
        ortrain_cpu_gemm_run (&plan->products[PRODUCT_DR_CANDIDATE], pool, run->reset, run->previous, NULL,
                              dr_candidate);
      else if (plan->cell == CELL_GRU)
        ortrain_cpu_gemm_run (&plan->products[PRODUCT_DR_CANDIDATE], pool, at_element (plan, run->gates, 2 * H),
                              run->reset, NULL, dr_candidate);
    }
  if (run->db.data != NULL)
    ortrain_parallel_for (pool, all, 64, CALL (plan, bias_grad_columns), run);
  if (run->dp.data != NULL)
    ortrain_parallel_for (pool, H, 64, CALL (plan, peephole_grad_columns), run);
}

static void
grad_run (const OrtrainKernelCall *call)
{
  const RecurrentPlan *plan = call->constants;
  const gint64 H = plan->hidden, all = plan->gates * H, state = plan->batch * H;
  const gconstpointer lengths = get_input (call, 6, 0).data;
  check_lengths (call, plan, lengths);
  for (guint d = 0; d < plan->directions; d++)
    {
      RecurrentRun run = { .plan = plan, .direction = d, .x = get_input (call, 0, 0), .lengths = lengths };
      set_workspace (&run, call->workspace);
      run.w = get_input (call, 1, d * all * plan->width);
      run.r = get_input (call, 2, d * all * H);
      run.dy = get_input (call, 3, d * state);
      run.dy_h = get_input (call, 4, d * state);
      run.dy_c = get_input (call, 5, d * state);
      run.h0 = get_input (call, 7, d * state);
      run.c0 = get_input (call, 8, d * state);
      run.p = read_peepholes (&run, get_input (call, 9, d * 3 * H));
      run.y_in = get_input (call, 10, d * state);
      run.saved_in = get_input (call, 11, d * state * plan->saved);
      run.dx = get_output (call, 0, 0);
      run.dw = get_output (call, 1, d * all * plan->width);
      run.dr = get_output (call, 2, d * all * H);
      run.db = get_output (call, 3, d * 2 * all);
      run.dh0 = get_output (call, 4, d * state);
      run.dc0 = get_output (call, 5, d * state);
      run.dp = get_output (call, 6, d * 3 * H);
      CALL (plan, start_grad) (&run);
      ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->length * plan->batch, 64, CALL (plan, previous_rows),
                            &run);
      for (gint64 s = plan->length - 1; s >= 0; s--)
        {
          run.t = plan->reverse[d] ? plan->length - 1 - s : s;
          run_step_grad (call, &run);
        }
      run_weights_grad (call, &run);
      write_state (&run.dh0, run.state, state);
      write_state (&run.dc0, run.cell, state);
    }
}

#define ROWS(name, domain, prefix)                                                                                     \
  { name, domain, ORTRAIN_DTYPES_F32F64, prefix##_prepare, prefix##_run },                                             \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prefix##_prepare, prefix##_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED           \
  }

static const OrtrainKernel kernels[] = {
  ROWS ("RNN", "", recurrent),
  ROWS ("GRU", "", recurrent),
  ROWS ("LSTM", "", recurrent),
  ROWS ("RecurrentGrad", "org.ortrain", grad),
};
ORTRAIN_KERNEL_TABLE (recurrent, kernels);
