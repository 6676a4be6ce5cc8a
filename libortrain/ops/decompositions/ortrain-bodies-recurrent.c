/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

#include <math.h>
#include <string.h>

/* The body of the gradient of RNN, GRU and LSTM: its steps one by one, from the last to the first. The derivatives of
 * the gates' activations are computed for all steps at once, so that a step is a few products. All values of a
 * direction are [length, batch, hidden], and those of a step [batch, hidden]. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define OP3(op, a, b, c) ortrain_body_op (self, op, a, b, c)
#define ADD(a, b) OP2 ("Add", a, b)
#define SUB(a, b) OP2 ("Sub", a, b)
#define MUL(a, b) OP2 ("Mul", a, b)
#define WHERE(condition, a, b) OP3 ("Where", condition, a, b)
#define NUMBER(like, number) ortrain_body_number (self, like, number)

/* As in the operator's row. */
enum
{
  X,
  W,
  R,
  DY,
  DY_H,
  DY_C,
  LENGTHS,
  INITIAL_H,
  INITIAL_C,
  P,
  Y,
  SAVED
};

/* ---- activations ---- */

typedef struct
{
  const char *name; /* as ONNX has it in `activations`, in small letters */
  double alpha, beta;
  gboolean is_clipped;
} Activation;

/* NAN: ONNX has no default; ortrain_recurrent_find_unset () finds a node that has no value for it. */
static const struct
{
  const char *name;
  gboolean has_alpha, has_beta;
  double alpha, beta;
} activations[] = {
  { "sigmoid" },
  { "tanh" },
  { "relu" },
  { "affine", TRUE, TRUE, NAN, NAN },
  { "leakyrelu", TRUE, FALSE, 0.01 },
  { "thresholdedrelu", TRUE, FALSE, 1 },
  { "scaledtanh", TRUE, TRUE, NAN, NAN },
  { "hardsigmoid", TRUE, TRUE, 0.2, 0.5 },
  { "elu", TRUE, FALSE, 1 },
  { "softsign" },
  { "softplus" },
};

const char *
ortrain_recurrent_find_unset (const OrtrainAttributes *attributes, const char **list, guint *position)
{
  const OrtrainAttribute *names = ortrain_attributes_lookup (attributes, "activations");
  gsize n_alpha = 0, n_beta = 0;
  guint next_alpha = 0, next_beta = 0;
  ortrain_attributes_get_floats (attributes, "activation_alpha", &n_alpha);
  ortrain_attributes_get_floats (attributes, "activation_beta", &n_beta);
  for (gsize i = 0; names != NULL && names->kind == ORTRAIN_ATTRIBUTE_STRINGS && i < names->n; i++)
    for (guint k = 0; k < G_N_ELEMENTS (activations); k++)
      {
        if (g_ascii_strcasecmp (activations[k].name, names->v.strings[i]) != 0)
          continue;
        const gboolean no_alpha = activations[k].has_alpha && next_alpha >= n_alpha && isnan (activations[k].alpha);
        const gboolean no_beta = activations[k].has_beta && next_beta >= n_beta && isnan (activations[k].beta);
        if (no_alpha || no_beta)
          {
            *list = no_alpha ? "activation_alpha" : "activation_beta";
            *position = no_alpha ? next_alpha : next_beta;
            return names->v.strings[i];
          }
        next_alpha += activations[k].has_alpha;
        next_beta += activations[k].has_beta;
      }
  return NULL;
}

/* One of the activations above with its parameters, from an ONNX operator of another name. */
static OrtrainValue *
activate (OrtrainBody *self, const Activation *f, OrtrainValue *x)
{
  static const struct
  {
    const char *name, *op_type;
  } ops[] = { { "sigmoid", "Sigmoid" },
              { "tanh", "Tanh" },
              { "relu", "Relu" },
              { "leakyrelu", "LeakyRelu" },
              { "thresholdedrelu", "ThresholdedRelu" },
              { "hardsigmoid", "HardSigmoid" },
              { "elu", "Elu" },
              { "softsign", "Softsign" },
              { "softplus", "Softplus" } };
  if (g_str_equal (f->name, "affine"))
    return ADD (MUL (NUMBER (x, f->alpha), x), NUMBER (x, f->beta));
  if (g_str_equal (f->name, "scaledtanh"))
    return MUL (NUMBER (x, f->alpha), OP1 ("Tanh", MUL (NUMBER (x, f->beta), x)));
  guint i = 0;
  while (!g_str_equal (ops[i].name, f->name))
    i++;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  if (g_str_has_suffix (f->name, "relu") || g_str_equal (f->name, "elu") || g_str_equal (f->name, "hardsigmoid"))
    ortrain_attributes_set_float (attributes, "alpha", f->alpha);
  if (g_str_equal (f->name, "hardsigmoid"))
    ortrain_attributes_set_float (attributes, "beta", f->beta);
  return ortrain_body_op_with (self, ops[i].op_type, attributes, x, NULL, NULL);
}

/* Whether y is f (bound), in any type that it may have been stored in. */
static OrtrainValue *
is_bound (OrtrainBody *self, const Activation *f, OrtrainValue *y, OrtrainValue *bound)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  OrtrainValue *right = activate (self, f, bound), *result = OP2 ("Equal", y, right);
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      OrtrainValue *stored = ortrain_body_cast (self, ortrain_body_cast (self, right, types[i]), y->dtype);
      result = OP2 ("Or", result, OP2 ("Equal", y, stored));
    }
  return result;
}

/* f' as a function of y = f (x). A clipped element has the value of a bound, and the derivative 0. */
static OrtrainValue *
slope (OrtrainBody *self, const Activation *f, OrtrainValue *y)
{
  OrtrainValue *one = NUMBER (y, 1), *zero = NUMBER (y, 0), *alpha = NUMBER (y, f->alpha), *result;
  if (g_str_equal (f->name, "sigmoid"))
    result = MUL (y, SUB (one, y));
  else if (g_str_equal (f->name, "tanh"))
    result = SUB (one, MUL (y, y));
  else if (g_str_equal (f->name, "relu") || g_str_equal (f->name, "thresholdedrelu"))
    result = WHERE (OP2 ("Greater", y, zero), one, zero);
  else if (g_str_equal (f->name, "affine"))
    result = OP2 ("Expand", alpha, OP1 ("Shape", y));
  else if (g_str_equal (f->name, "leakyrelu"))
    result = WHERE (OP2 ("Greater", y, zero), one, alpha);
  else if (g_str_equal (f->name, "scaledtanh") && f->alpha == 0)
    result = OP2 ("Expand", zero, OP1 ("Shape", y));
  else if (g_str_equal (f->name, "scaledtanh"))
    result = MUL (NUMBER (y, f->beta), SUB (alpha, OP2 ("Div", MUL (y, y), alpha)));
  else if (g_str_equal (f->name, "hardsigmoid"))
    result = WHERE (OP2 ("And", OP2 ("Greater", y, zero), OP2 ("Less", y, one)), alpha, zero);
  else if (g_str_equal (f->name, "elu"))
    result = WHERE (OP2 ("Greater", y, zero), one, ADD (y, alpha));
  else if (g_str_equal (f->name, "softsign"))
    {
      OrtrainValue *rest = SUB (one, OP1 ("Abs", y));
      result = MUL (rest, rest);
    }
  else /* softplus */
    result = SUB (one, OP1 ("Exp", OP1 ("Neg", y)));
  if (!f->is_clipped)
    return result;
  OrtrainValue *bound = NUMBER (y, ortrain_body_float (self, "clip", 0));
  OrtrainValue *limited = OP2 ("Or", is_bound (self, f, y, bound), is_bound (self, f, y, OP1 ("Neg", bound)));
  return WHERE (limited, zero, result);
}

/* ---- the cells ---- */

typedef struct
{
  OrtrainBody *body;
  gint64 length, batch, width, hidden, directions;
  guint gates, saved; /* multiples of the hidden size */
  gboolean is_lstm, is_gru, reset_after, coupled;
  Activation f[2], g[2], h[2];
} Recurrent;

/* `activation_alpha` and `_beta` are lists from which each activation that has such a parameter takes the next. */
static gboolean
read_activations (OrtrainBody *self, Recurrent *recurrent)
{
  const OrtrainAttributes *attributes = self->node->attributes;
  const OrtrainAttribute *names = ortrain_attributes_lookup (attributes, "activations");
  gsize n_alpha = 0, n_beta = 0, next_alpha = 0, next_beta = 0;
  const float *alpha = ortrain_attributes_get_floats (attributes, "activation_alpha", &n_alpha);
  const float *beta = ortrain_attributes_get_floats (attributes, "activation_beta", &n_beta);
  const guint n = recurrent->is_lstm ? 3 : recurrent->is_gru ? 2 : 1;
  const gboolean clips = ortrain_body_float (self, "clip", 0) > 0;
  if (names != NULL && (names->kind != ORTRAIN_ATTRIBUTE_STRINGS || names->n != n * (gsize) recurrent->directions))
    return FALSE;
  for (gint64 d = 0; d < recurrent->directions; d++)
    for (guint i = 0; i < n; i++)
      {
        const char *name = names != NULL ? names->v.strings[(gsize) d * n + i] : i == 0 && n > 1 ? "sigmoid" : "tanh";
        Activation *activation = i == 0 ? &recurrent->f[d] : i == 1 ? &recurrent->g[d] : &recurrent->h[d];
        guint k = 0;
        while (k < G_N_ELEMENTS (activations) && g_ascii_strcasecmp (activations[k].name, name) != 0)
          k++;
        if (k == G_N_ELEMENTS (activations))
          return FALSE;
        *activation = (Activation){ activations[k].name, activations[k].alpha, activations[k].beta, FALSE };
        if (activations[k].has_alpha && next_alpha < n_alpha)
          activation->alpha = alpha[next_alpha++];
        if (activations[k].has_beta && next_beta < n_beta)
          activation->beta = beta[next_beta++];
        activation->is_clipped = clips && !(recurrent->is_lstm && i == 2); /* the cell's own output is not clipped */
        /* the sign of the result would not tell that of the argument */
        if (activation->alpha < 0 &&
            (g_str_has_suffix (activation->name, "relu") || g_str_equal (activation->name, "elu")))
          return FALSE;
      }
  return TRUE;
}

/* The part with this index along an axis, without that axis. */
static OrtrainValue *
part (OrtrainBody *self, OrtrainValue *x, gint axis, gint64 index)
{
  return x != NULL ? ortrain_body_op_with (self, "Gather", ortrain_body_attribute ("axis", axis), x,
                                           ortrain_graph_const_int (self->graph, index), NULL)
                   : NULL;
}

/* Multiple k of the hidden size, along the last axis. */
static OrtrainValue *
chunk (OrtrainBody *self, const Recurrent *recurrent, OrtrainValue *x, gint axis, guint k, guint n)
{
  return ortrain_body_slice (self, x, axis, k * recurrent->hidden, (k + n) * recurrent->hidden, 1);
}

static OrtrainValue *
join (OrtrainBody *self, gint axis, OrtrainValue *const *parts, guint n)
{
  OrtrainNode *node = ortrain_body_node (self, "Concat", parts, n, 1, ortrain_body_attribute ("axis", axis));
  return node != NULL ? ortrain_node_output (node, 0) : NULL;
}

/* One direction: its operands, and the factors of gradients, for all steps. */
typedef struct
{
  const Recurrent *recurrent;
  guint d;
  gboolean reverse;
  OrtrainValue *w, *r, *p; /* [gates · hidden, width], [gates · hidden, hidden], [3 · hidden] or NULL */
  OrtrainValue *r_first, *r_candidate;
  OrtrainValue *dy, *active; /* or NULL; active: [length, batch, 1], bool */
  OrtrainValue *h_before, *c_before, *c;
  OrtrainValue *of_first, *of_out, *of_forget, *of_candidate, *of_cell, *of_reset, *keep, *reset;
  OrtrainValue **gates, **resets; /* the results of each step: [batch, gates · hidden], [batch, hidden] */
} Direction;

/* The state before each step: that of the step which ran before it, at first `initial` (NULL: zeros). In reverse, a row
 * begins with its initial state where its sequence ends. */
static OrtrainValue *
shift (OrtrainBody *self, const Direction *run, OrtrainValue *states, OrtrainValue *initial)
{
  const Recurrent *recurrent = run->recurrent;
  const gint64 length = recurrent->length, dims[] = { 1, recurrent->batch, recurrent->hidden };
  if (length == 0)
    return states;
  OrtrainValue *first =
      initial != NULL ? ortrain_body_reshape (self, initial, dims, 3) : ortrain_body_fill (self, states, 0, dims, 3);
  OrtrainValue *others = run->reverse ? ortrain_body_slice (self, states, 0, 1, length, 1)
                                      : ortrain_body_slice (self, states, 0, 0, length - 1, 1);
  if (run->reverse && run->active != NULL)
    others = WHERE (ortrain_body_slice (self, run->active, 0, 1, length, 1), others, first);
  OrtrainValue *parts[] = { run->reverse ? others : first, run->reverse ? first : others };
  return join (self, 0, parts, 2);
}

/* h = out · y (c), c = forget · c_before + in · candidate */
static void
prepare_lstm (OrtrainBody *self, Direction *run, OrtrainValue *saved)
{
  const Recurrent *recurrent = run->recurrent;
  const Activation *f = &recurrent->f[run->d], *h = &recurrent->h[run->d];
  OrtrainValue *in = chunk (self, recurrent, saved, 2, 0, 1), *out = chunk (self, recurrent, saved, 2, 1, 1);
  OrtrainValue *forget = chunk (self, recurrent, saved, 2, 2, 1), *candidate = chunk (self, recurrent, saved, 2, 3, 1);
  run->c = chunk (self, recurrent, saved, 2, 4, 1);
  run->c_before = shift (self, run, run->c, part (self, ortrain_body_input (self, INITIAL_C), 0, run->d));
  OrtrainValue *y = activate (self, h, run->c);
  run->of_out = MUL (y, slope (self, f, out));
  run->of_cell = MUL (out, slope (self, h, y));
  run->of_first = MUL (recurrent->coupled ? SUB (candidate, run->c_before) : candidate, slope (self, f, in));
  run->of_forget = recurrent->coupled ? NULL : MUL (run->c_before, slope (self, f, forget));
  run->of_candidate = MUL (in, slope (self, &recurrent->g[run->d], candidate));
  run->keep = forget;
}

static void
step_lstm (OrtrainBody *self, Direction *run, gint64 t, OrtrainValue *d, OrtrainValue **dh, OrtrainValue **dc)
{
  const Recurrent *recurrent = run->recurrent;
  OrtrainValue *dout = MUL (d, part (self, run->of_out, 0, t));
  OrtrainValue *dcell = ADD (*dc, MUL (d, part (self, run->of_cell, 0, t)));
  if (run->p != NULL)
    dcell = ADD (dcell, MUL (dout, chunk (self, recurrent, run->p, 0, 1, 1)));
  OrtrainValue *din = MUL (dcell, part (self, run->of_first, 0, t));
  const gint64 state[] = { recurrent->batch, recurrent->hidden };
  OrtrainValue *dforget = run->of_forget != NULL ? MUL (dcell, part (self, run->of_forget, 0, t))
                                                 : ortrain_body_fill (self, dcell, 0, state, 2);
  OrtrainValue *gates[] = { din, dout, dforget, MUL (dcell, part (self, run->of_candidate, 0, t)) };
  *dc = MUL (dcell, part (self, run->keep, 0, t));
  if (run->p != NULL)
    *dc = ADD (*dc, ADD (MUL (din, chunk (self, recurrent, run->p, 0, 0, 1)),
                         MUL (dforget, chunk (self, recurrent, run->p, 0, 2, 1))));
  run->gates[t] = join (self, 1, gates, 4);
  *dh = OP2 ("MatMul", run->gates[t], run->r);
}

/* h = (1 - z) · candidate + z · h_before; the candidate reads reset · h_before, or reset · (h_before · Rᵀ + bias) */
static void
prepare_gru (OrtrainBody *self, Direction *run, OrtrainValue *saved)
{
  const Recurrent *recurrent = run->recurrent;
  const Activation *f = &recurrent->f[run->d];
  OrtrainValue *candidate = chunk (self, recurrent, saved, 2, 2, 1);
  run->keep = chunk (self, recurrent, saved, 2, 0, 1);
  run->reset = chunk (self, recurrent, saved, 2, 1, 1);
  run->of_first = MUL (SUB (run->h_before, candidate), slope (self, f, run->keep));
  run->of_candidate = MUL (SUB (NUMBER (run->keep, 1), run->keep), slope (self, &recurrent->g[run->d], candidate));
  run->of_reset = MUL (recurrent->reset_after ? chunk (self, recurrent, saved, 2, 3, 1) : run->h_before,
                       slope (self, f, run->reset));
  run->r_first = chunk (self, recurrent, run->r, 0, 0, 2);
  run->r_candidate = chunk (self, recurrent, run->r, 0, 2, 1);
}

static void
step_gru (OrtrainBody *self, Direction *run, gint64 t, OrtrainValue *d, OrtrainValue **dh)
{
  OrtrainValue *dz = MUL (d, part (self, run->of_first, 0, t)), *dr, *back;
  OrtrainValue *dcandidate = MUL (d, part (self, run->of_candidate, 0, t));
  OrtrainValue *reset = part (self, run->reset, 0, t), *of_reset = part (self, run->of_reset, 0, t);
  if (run->recurrent->reset_after)
    {
      run->resets[t] = MUL (dcandidate, reset);
      dr = MUL (dcandidate, of_reset);
      back = OP2 ("MatMul", run->resets[t], run->r_candidate);
    }
  else
    {
      OrtrainValue *dproduct = OP2 ("MatMul", dcandidate, run->r_candidate);
      dr = MUL (dproduct, of_reset);
      back = MUL (dproduct, reset);
    }
  OrtrainValue *first[] = { dz, dr }, *gates[] = { dz, dr, dcandidate };
  *dh = ADD (ADD (MUL (d, part (self, run->keep, 0, t)), back), OP2 ("MatMul", join (self, 1, first, 2), run->r_first));
  run->gates[t] = join (self, 1, gates, 3);
}

/* A row after the end of its sequence has no gradients, and hands on those of its states. */
static OrtrainValue *
only_active (OrtrainBody *self, const Direction *run, gint64 t, OrtrainValue *x, OrtrainValue *otherwise)
{
  if (x == NULL || run->active == NULL)
    return x;
  return WHERE (part (self, run->active, 0, t), x, otherwise != NULL ? otherwise : NUMBER (x, 0));
}

static void
run_steps (OrtrainBody *self, Direction *run, OrtrainValue **dh, OrtrainValue **dc)
{
  const Recurrent *recurrent = run->recurrent;
  if (recurrent->length > 0) /* a row without a step gives zeros */
    {
      *dh = only_active (self, run, 0, *dh, NULL);
      *dc = only_active (self, run, 0, *dc, NULL);
    }
  for (gint64 s = recurrent->length - 1; s >= 0; s--)
    {
      const gint64 t = run->reverse ? recurrent->length - 1 - s : s;
      OrtrainValue *d = run->dy != NULL ? ADD (*dh, part (self, run->dy, 0, t)) : *dh, *h = *dh, *c = *dc;
      if (recurrent->is_lstm)
        step_lstm (self, run, t, d, &h, &c);
      else if (recurrent->is_gru)
        step_gru (self, run, t, d, &h);
      else
        {
          run->gates[t] = MUL (d, part (self, run->of_first, 0, t));
          h = OP2 ("MatMul", run->gates[t], run->r);
        }
      run->gates[t] = only_active (self, run, t, run->gates[t], NULL);
      run->resets[t] = only_active (self, run, t, run->resets[t], NULL);
      *dh = only_active (self, run, t, h, *dh);
      *dc = only_active (self, run, t, c, *dc);
    }
}

/* Joins the results of all steps, [length · batch, width] */
static OrtrainValue *
stack (OrtrainBody *self, const Recurrent *recurrent, OrtrainValue *const *steps, gint64 width)
{
  const gint64 none[] = { 0, width };
  return recurrent->length > 0 ? join (self, 0, steps, (guint) recurrent->length)
                               : ortrain_body_fill (self, ortrain_body_input (self, X), 0, none, 2);
}

/* aᵀ · b */
static OrtrainValue *
product (OrtrainBody *self, OrtrainValue *a, OrtrainValue *b)
{
  static const gint64 swap[] = { 1, 0 };
  return OP2 ("MatMul", ortrain_body_transpose (self, a, swap, 2), b);
}

/* The results of one direction, in the operator's order; [0]: dX of this direction alone. */
enum
{
  N_RESULTS = 7
};

static void
find_results (OrtrainBody *self, Direction *run, OrtrainValue **results)
{
  const Recurrent *recurrent = run->recurrent;
  const gint64 H = recurrent->hidden, state[] = { recurrent->batch, H },
               rows[] = { recurrent->length * recurrent->batch, H };
  const gint64 inputs[] = { recurrent->length * recurrent->batch, recurrent->width };
  OrtrainValue *dh = part (self, ortrain_body_input (self, DY_H), 0, run->d);
  OrtrainValue *dc = part (self, ortrain_body_input (self, DY_C), 0, run->d);
  OrtrainValue *x = ortrain_body_input (self, X);
  dh = dh != NULL ? dh : ortrain_body_fill (self, x, 0, state, 2);
  dc = dc != NULL ? dc : ortrain_body_fill (self, x, 0, state, 2);
  run_steps (self, run, &dh, &dc);
  OrtrainValue *gates = stack (self, recurrent, run->gates, recurrent->gates * H);
  OrtrainValue *resets = recurrent->reset_after ? stack (self, recurrent, run->resets, H) : NULL;
  results[4] = dh;
  results[5] = dc;
  if (ortrain_body_wants (self, 0))
    results[0] = OP2 ("MatMul", gates, run->w);
  if (ortrain_body_wants (self, 1))
    results[1] = product (self, gates, ortrain_body_reshape (self, x, inputs, 2));
  if (ortrain_body_wants (self, 2))
    {
      OrtrainValue *before = ortrain_body_reshape (self, run->h_before, rows, 2);
      if (recurrent->is_gru)
        {
          OrtrainValue *candidate = chunk (self, recurrent, gates, 1, 2, 1);
          OrtrainValue *reset = recurrent->reset_after ? NULL : ortrain_body_reshape (self, run->reset, rows, 2);
          OrtrainValue *parts[] = { product (self, chunk (self, recurrent, gates, 1, 0, 2), before),
                                    recurrent->reset_after ? product (self, resets, before)
                                                           : product (self, candidate, MUL (reset, before)) };
          results[2] = join (self, 0, parts, 2);
        }
      else
        results[2] = product (self, gates, before);
    }
  if (ortrain_body_wants (self, 3)) /* of both biases, which are added up, but for the one that is reset */
    {
      OrtrainValue *sum = ortrain_body_reduce (self, "ReduceSum", gates, 1, FALSE), *other = sum;
      if (recurrent->reset_after)
        {
          OrtrainValue *parts[] = { chunk (self, recurrent, sum, 0, 0, 2),
                                    ortrain_body_reduce (self, "ReduceSum", resets, 1, FALSE) };
          other = join (self, 0, parts, 2);
        }
      OrtrainValue *both[] = { sum, other };
      results[3] = join (self, 0, both, 2);
    }
  if (ortrain_body_wants (self, 6)) /* the gates in and forget read the cell before the step, out the cell after it */
    {
      OrtrainValue *before = ortrain_body_reshape (self, run->c_before, rows, 2);
      OrtrainValue *looked_at[] = { before, ortrain_body_reshape (self, run->c, rows, 2), before }, *parts[3];
      for (guint k = 0; k < 3; k++)
        parts[k] = ortrain_body_reduce (self, "ReduceSum", MUL (chunk (self, recurrent, gates, 1, k, 1), looked_at[k]),
                                        1, FALSE);
      results[6] = join (self, 0, parts, 3);
    }
}

/* (X, W, R, dY, dY_h, dY_c, sequence_lens, initial_h, initial_c, P, Y, saved) → (dX, dW, dR, dB, dinitial_h,
 * dinitial_c, dP) */
gboolean
ortrain_body_recurrent_grad (OrtrainBody *self)
{
  const OrtrainAttributes *attributes = self->node->attributes;
  const char *cell = ortrain_attributes_get_string (attributes, "cell", "RNN");
  const char *direction = ortrain_attributes_get_string (attributes, "direction", "forward");
  OrtrainValue *x = ortrain_body_input (self, X), *saved = ortrain_body_input (self, SAVED), *active = NULL;
  OrtrainValue *lengths = ortrain_body_input (self, LENGTHS), *results[2][N_RESULTS] = { { NULL } };
  gint64 dims[ORTRAIN_MAX_RANK], r_dims[ORTRAIN_MAX_RANK];
  ortrain_body_dims (x, dims);
  ortrain_body_dims (ortrain_node_input (self->node, R), r_dims);
  Recurrent recurrent = { .length = dims[0],
                          .batch = dims[1],
                          .width = dims[2],
                          .hidden = r_dims[2],
                          .directions = g_str_equal (direction, "bidirectional") ? 2 : 1,
                          .is_lstm = g_str_equal (cell, "LSTM"),
                          .is_gru = g_str_equal (cell, "GRU"),
                          .coupled = ortrain_body_int (self, "input_forget", 0) != 0 };
  recurrent.gates = recurrent.is_lstm ? 4 : recurrent.is_gru ? 3 : 1;
  recurrent.reset_after = recurrent.is_gru && ortrain_body_int (self, "linear_before_reset", 0) != 0;
  if (!read_activations (self, &recurrent))
    return FALSE;
  if (lengths != NULL)
    {
      const gint64 column[] = { recurrent.length, 1 }, all[] = { recurrent.length, recurrent.batch, 1 };
      OrtrainValue *steps = ortrain_body_count (self, column, 2);
      active = ortrain_body_reshape (self, OP2 ("Less", steps, ortrain_body_cast (self, lengths, ORTRAIN_DTYPE_INT64)),
                                     all, 3);
    }
  g_autofree OrtrainValue **steps = g_new0 (OrtrainValue *, 2 * (gsize) recurrent.length + 1);
  for (guint d = 0; d < recurrent.directions; d++)
    {
      OrtrainValue *y = part (self, ortrain_body_input (self, Y), 1, d), *kept = part (self, saved, 1, d);
      Direction run = { .recurrent = &recurrent,
                        .d = d,
                        .reverse = d == 1 || g_str_equal (direction, "reverse"),
                        .w = part (self, ortrain_body_input (self, W), 0, d),
                        .r = part (self, ortrain_body_input (self, R), 0, d),
                        .p = part (self, ortrain_body_input (self, P), 0, d),
                        .dy = part (self, ortrain_body_input (self, DY), 1, d),
                        .active = active,
                        .gates = steps,
                        .resets = steps + recurrent.length };
      memset (steps, 0, 2 * (gsize) recurrent.length * sizeof *steps);
      run.h_before = shift (self, &run, y, part (self, ortrain_body_input (self, INITIAL_H), 0, d));
      if (recurrent.is_lstm)
        prepare_lstm (self, &run, kept);
      else if (recurrent.is_gru)
        prepare_gru (self, &run, kept);
      else
        run.of_first = slope (self, &recurrent.f[d], y);
      find_results (self, &run, results[d]);
    }
  for (guint k = 0; k < N_RESULTS; k++)
    {
      OrtrainValue *both[] = { results[0][k], results[1][k] };
      if (!ortrain_body_wants (self, k))
        continue;
      /* all outputs but dX have the directions in front: results one after the other are only reshaped */
      ortrain_body_set (self, k,
                        recurrent.directions == 1 ? both[0]
                        : k == 0                  ? ADD (both[0], both[1])
                                                  : join (self, 0, both, 2));
    }
  return TRUE;
}
