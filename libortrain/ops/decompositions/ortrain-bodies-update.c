/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

#include "kernel-abi/ortrain-update-scalars-private.h"

/* Bodies of the updates: the formulas of common/ortrain-optimizer-math.h, in their order. Values that are the same for
 * all elements of a tensor are computed in float64 from the scalars, and rounded to the type of the parameter. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define OP3(op, a, b, c) ortrain_body_op (self, op, a, b, c)
#define ADD(a, b) OP2 ("Add", a, b)
#define SUB(a, b) OP2 ("Sub", a, b)
#define MUL(a, b) OP2 ("Mul", a, b)
#define DIV(a, b) OP2 ("Div", a, b)
#define WHERE(condition, a, b) OP3 ("Where", condition, a, b)
#define NUMBER(like, number) ortrain_body_number (self, like, number)

static OrtrainValue *
get_scalar (OrtrainBody *self, gsize position)
{
  return OP2 ("Gather", ortrain_body_input (self, 0), ortrain_graph_const_int (self->graph, (gint64) position));
}

static OrtrainValue *
is_finite (OrtrainBody *self, OrtrainValue *x)
{
  return OP1 ("Not", OP2 ("Or", OP1 ("IsNaN", x), OP1 ("IsInf", x)));
}

/* Σ x², in float64 */
static OrtrainValue *
sum_of_squares (OrtrainBody *self, OrtrainValue *x)
{
  if (x == NULL)
    return NULL;
  x = ortrain_body_cast (self, x, ORTRAIN_DTYPE_FLOAT64);
  return ortrain_body_reduce (self, "ReduceSum", MUL (x, x), (guint32) ((G_GUINT64_CONSTANT (1) << x->rank) - 1),
                              FALSE);
}

/* The factor of every gradient. loss_scale: may be NULL */
static OrtrainValue *
get_gradient_scale (OrtrainBody *self, OrtrainValue *loss_scale)
{
  OrtrainValue *scale = get_scalar (self, ORTRAIN_UPDATE_GRADIENT_SCALE);
  return loss_scale != NULL ? DIV (scale, ortrain_body_cast (self, loss_scale, ORTRAIN_DTYPE_FLOAT64)) : scale;
}

/* (scalars, loss_scale or nothing, gradient…) → norm of all gradients together, if one is asked for */
gboolean
ortrain_body_gradient_norm (OrtrainBody *self)
{
  OrtrainValue *sum = NULL, *zero = ortrain_graph_const_scalar (self->graph, ORTRAIN_DTYPE_FLOAT64, 0);
  for (guint i = 2; i < self->node->inputs->len; i++)
    {
      OrtrainValue *square = sum_of_squares (self, ortrain_body_input (self, i));
      sum = sum != NULL ? ADD (sum, square) : square;
    }
  OrtrainValue *loss_scale = ortrain_body_input (self, 1);
  OrtrainValue *norm = MUL (OP1 ("Sqrt", sum), get_gradient_scale (self, loss_scale));
  if (loss_scale != NULL)
    ortrain_body_set (self, 0, norm);
  else
    ortrain_body_set (self, 0, WHERE (OP2 ("Greater", get_scalar (self, ORTRAIN_UPDATE_MAX_NORM), zero), norm, zero));
  return TRUE;
}

/* ---- shared by all updates ---- */

typedef struct
{
  OrtrainBody *body;
  guint n, n_states;
  const gint64 *parameters;     /* the position of each tensor among all parameters */
  const gint64 *copies;         /* of each tensor, 0: none; or NULL */
  guint copy;                   /* output of the next one */
  OrtrainValue *gradient_scale; /* with the loss scale and clipping */
  OrtrainValue *runs;           /* bool; NULL: always */
  OrtrainValue **is_broken;     /* bool, by tensor */
} Update;

/* One tensor. 16-bit ones are float32 here. */
typedef struct
{
  OrtrainValue *w, *g, *states[ORTRAIN_UPDATE_MAX_STATES];
  OrtrainValue *learning_rate, *weight_decay; /* float64 */
} Moved;

typedef void (*MoveFunc) (OrtrainBody *self, const Update *update, const Moved *from, Moved *to);

static OrtrainValue *
get_factor (OrtrainBody *self, guint i)
{
  return get_scalar (self, ORTRAIN_UPDATE_FACTORS + i);
}

/* A number in float64, as it is rounded for the elements of the tensor. */
static OrtrainValue *
rounded (OrtrainBody *self, const Moved *moved, OrtrainValue *number)
{
  return moved->w != NULL ? ortrain_body_cast (self, number, moved->w->dtype) : NULL;
}

/* Where the norm of the gradients is not finite, nothing moves. */
static void
begin (OrtrainBody *self, Update *update)
{
  OrtrainValue *norm = ortrain_body_input (self, 1), *loss_scale = ortrain_body_input (self, 2);
  OrtrainValue *scale = get_gradient_scale (self, loss_scale);
  gsize n, n_copies;
  update->parameters = ortrain_attributes_get_ints (self->node->attributes, "parameters", &n);
  update->copies = ortrain_attributes_get_ints (self->node->attributes, "copies", &n_copies);
  update->n = (guint) n;
  update->n_states = (guint) ortrain_body_int (self, "states", 0);
  update->copy = update->n * (1 + update->n_states) + 1;
  update->gradient_scale = scale;
  if (norm == NULL)
    return;
  OrtrainValue *most = get_scalar (self, ORTRAIN_UPDATE_MAX_NORM);
  OrtrainValue *clips = OP2 ("Greater", most, NUMBER (norm, 0));
  OrtrainValue *factor = OP2 ("Min", NUMBER (norm, 1), DIV (most, ADD (norm, NUMBER (norm, 1e-6))));
  update->gradient_scale = WHERE (clips, MUL (scale, factor), scale);
  update->runs = is_finite (self, norm);
  if (loss_scale == NULL)
    update->runs = OP2 ("Or", OP1 ("Not", clips), update->runs);
}

static OrtrainValue *
only_run (OrtrainBody *self, const Update *update, OrtrainValue *moved, OrtrainValue *before)
{
  return update->runs != NULL ? WHERE (update->runs, moved, before) : moved;
}

static void
move_tensor (OrtrainBody *self, Update *update, guint t, MoveFunc move)
{
  const guint first = 3 + t * (2 + update->n_states), result = t * (1 + update->n_states);
  const gsize parameter = (gsize) update->parameters[t];
  Moved from = { .w = ortrain_body_input (self, first),
                 .g = ortrain_body_input (self, first + 1),
                 .learning_rate = get_scalar (self, ORTRAIN_UPDATE_LEARNING_RATE (parameter)),
                 .weight_decay = get_scalar (self, ORTRAIN_UPDATE_WEIGHT_DECAY (parameter)) };
  if (from.g != NULL && from.w != NULL)
    from.g = ortrain_body_cast (self, from.g, from.w->dtype);
  for (guint k = 0; k < update->n_states; k++)
    from.states[k] = ortrain_body_input (self, first + 2 + k);
  /* readers of the parameter stand before the node that replaces it */
  static const double infinities[] = { INFINITY, -INFINITY };
  OrtrainValue *was_infinite[G_N_ELEMENTS (infinities)];
  for (guint k = 0; k < G_N_ELEMENTS (infinities); k++)
    was_infinite[k] = from.w != NULL ? OP2 ("Equal", from.w, NUMBER (from.w, infinities[k])) : NULL;
  Moved to = from;
  move (self, update, &from, &to);
  OrtrainValue *stored = only_run (self, update, to.w, from.w);
  stored = ortrain_body_cast (self, stored, ortrain_node_output (self->node, result)->dtype);
  ortrain_body_set (self, result, stored);
  if (update->copies != NULL && update->copies[t] != 0)
    ortrain_body_set (self, update->copy++, stored);
  for (guint k = 0; k < update->n_states; k++)
    ortrain_body_set (self, result + 1 + k, only_run (self, update, to.states[k], from.states[k]));
  if (from.w == NULL || stored == NULL || update->is_broken == NULL)
    return;
  OrtrainValue *next = ortrain_body_cast (self, stored, from.w->dtype);
  OrtrainValue *stayed = NULL;
  for (guint k = 0; k < G_N_ELEMENTS (infinities); k++)
    {
      OrtrainValue *same = OP2 ("And", was_infinite[k], OP2 ("Equal", next, NUMBER (from.w, infinities[k])));
      stayed = stayed != NULL ? OP2 ("Or", stayed, same) : same;
    }
  OrtrainValue *finite = OP2 ("Or", is_finite (self, next), stayed);
  OrtrainValue *broken = ortrain_body_cast (self, OP1 ("Not", finite), ORTRAIN_DTYPE_FLOAT32);
  broken =
      ortrain_body_reduce (self, "ReduceSum", broken, (guint32) ((G_GUINT64_CONSTANT (1) << from.w->rank) - 1), FALSE);
  broken = OP2 ("Greater", broken, NUMBER (broken, 0));
  update->is_broken[t] = update->runs != NULL ? OP2 ("And", broken, update->runs) : broken;
}

/* Random numbers that depend on the step have no standard operators. */
static gboolean
rounds_at_random (OrtrainBody *self)
{
  if (ortrain_body_int (self, "stochastic_rounding", 0) == 0)
    return FALSE;
  for (guint i = 3; i < self->node->inputs->len; i += 2 + (guint) ortrain_body_int (self, "states", 0))
    if (ortrain_node_input (self->node, i)->dtype == ORTRAIN_DTYPE_BFLOAT16)
      return TRUE;
  return FALSE;
}

/* Nor has a state in 8 bits: it is scaled by the largest element of each block, and encoded. */
static gboolean
has_blocks (OrtrainBody *self)
{
  for (guint i = 3; i < self->node->inputs->len; i++)
    if (ortrain_node_input (self->node, i)->dtype == ORTRAIN_DTYPE_UINT8)
      return TRUE;
  return FALSE;
}

static gboolean
write_update (OrtrainBody *self, MoveFunc move)
{
  if (rounds_at_random (self) || has_blocks (self))
    return FALSE;
  Update update = { .body = self };
  begin (self, &update);
  const guint last = update.n * (1 + update.n_states);
  g_autofree OrtrainValue **is_broken =
      ortrain_body_wants (self, last) ? g_new0 (OrtrainValue *, (gsize) update.n + 1) : NULL;
  update.is_broken = is_broken;
  for (guint t = 0; t < update.n; t++)
    move_tensor (self, &update, t, move);
  if (is_broken == NULL)
    return TRUE;
  OrtrainValue *first = ortrain_graph_const_int (self->graph, ORTRAIN_UPDATE_NONE_BROKEN);
  for (guint t = update.n; t-- > 0;)
    first = WHERE (is_broken[t], ortrain_graph_const_int (self->graph, update.parameters[t]), first);
  ortrain_body_set (self, last, first);
  return TRUE;
}

/* The weights; infinite ones count as 0 in terms of decay and in norms, and stay as they are. */
static OrtrainValue *
decaying (OrtrainBody *self, OrtrainValue *w)
{
  return w != NULL ? WHERE (is_finite (self, w), w, NUMBER (w, 0)) : NULL;
}

/* scale · g + l2 · w; l2: NULL: nothing */
static OrtrainValue *
scale_gradient (OrtrainBody *self, const Update *update, const Moved *from, OrtrainValue *l2)
{
  OrtrainValue *e = MUL (rounded (self, from, update->gradient_scale), from->g);
  return l2 != NULL ? ADD (e, MUL (rounded (self, from, l2), decaying (self, from->w))) : e;
}

/* ---- the rules ---- */

/* Factors: momentum, Nesterov. */
static void
move_sgd (OrtrainBody *self, const Update *update, const Moved *from, Moved *to)
{
  OrtrainValue *e = scale_gradient (self, update, from, from->weight_decay), *step = e;
  if (update->n_states > 0)
    {
      OrtrainValue *momentum = rounded (self, from, get_factor (self, 0)), *nesterov = get_factor (self, 1);
      to->states[0] = ADD (MUL (momentum, from->states[0]), e);
      OrtrainValue *ahead = ADD (e, MUL (momentum, to->states[0]));
      step = WHERE (OP2 ("Equal", nesterov, NUMBER (nesterov, 0)), to->states[0], ahead);
    }
  to->w = SUB (from->w, MUL (rounded (self, from, from->learning_rate), step));
}

/* 1 - beta^step, or 1 without correction of the bias */
static OrtrainValue *
correct_bias (OrtrainBody *self, OrtrainValue *beta, OrtrainValue *corrects)
{
  OrtrainValue *one = NUMBER (beta, 1), *zero = NUMBER (beta, 0);
  OrtrainValue *correction = SUB (one, OP2 ("Pow", beta, get_scalar (self, ORTRAIN_UPDATE_STEP)));
  return WHERE (OP2 ("Equal", corrects, zero), one, correction);
}

/* beta · moment + (1 - beta) · e [· e] */
static OrtrainValue *
next_moment (OrtrainBody *self, const Moved *from, OrtrainValue *beta, OrtrainValue *moment, OrtrainValue *e,
             gboolean squared)
{
  OrtrainValue *added = MUL (rounded (self, from, SUB (NUMBER (beta, 1), beta)), e);
  if (squared)
    added = MUL (added, e);
  return ADD (MUL (rounded (self, from, beta), moment), added);
}

/* Factors: form, beta1, beta2, epsilon, correct bias. */
static void
move_adam (OrtrainBody *self, const Update *update, const Moved *from, Moved *to)
{
  OrtrainValue *form = get_factor (self, 0), *beta1 = get_factor (self, 1), *beta2 = get_factor (self, 2);
  OrtrainValue *epsilon = get_factor (self, 3), *corrects = get_factor (self, 4);
  OrtrainValue *one = NUMBER (form, 1), *zero = NUMBER (form, 0);
  OrtrainValue *is_l2 = OP2 ("Equal", form, NUMBER (form, ORTRAIN_UPDATE_ADAM_L2));
  OrtrainValue *is_first = OP2 ("Equal", form, NUMBER (form, ORTRAIN_UPDATE_ADAMW_DECAY_FIRST));
  OrtrainValue *is_last = OP2 ("Equal", form, NUMBER (form, ORTRAIN_UPDATE_ADAMW_DECAY_LAST));
  OrtrainValue *decay = SUB (one, MUL (from->learning_rate, from->weight_decay));
  OrtrainValue *before = WHERE (is_first, decay, one), *after = WHERE (is_last, decay, one);
  OrtrainValue *correction1 = correct_bias (self, beta1, corrects), *correction2 = correct_bias (self, beta2, corrects);
  OrtrainValue *root = OP1 ("Sqrt", correction2);
  OrtrainValue *size =
      WHERE (is_last, DIV (MUL (from->learning_rate, root), correction1), DIV (from->learning_rate, correction1));
  OrtrainValue *inverse = WHERE (is_last, one, DIV (one, root));
  OrtrainValue *e = scale_gradient (self, update, from, WHERE (is_l2, from->weight_decay, zero));
  to->states[0] = next_moment (self, from, beta1, from->states[0], e, FALSE);
  to->states[1] = next_moment (self, from, beta2, from->states[1], e, TRUE);
  OrtrainValue *spread =
      ADD (MUL (OP1 ("Sqrt", to->states[1]), rounded (self, from, inverse)), rounded (self, from, epsilon));
  OrtrainValue *step = DIV (MUL (rounded (self, from, size), to->states[0]), spread);
  to->w = MUL (SUB (MUL (rounded (self, from, before), from->w), step), rounded (self, from, after));
}

/* Factors: beta1, beta2, epsilon, correct bias, least and greatest ratio. */
static void
move_lamb (OrtrainBody *self, const Update *update, const Moved *from, Moved *to)
{
  OrtrainValue *beta1 = get_factor (self, 0), *beta2 = get_factor (self, 1), *corrects = get_factor (self, 3);
  OrtrainValue *one = NUMBER (beta1, 1), *wide_zero = NUMBER (beta1, 0), *zero = NUMBER (from->w, 0);
  OrtrainValue *epsilon = rounded (self, from, get_factor (self, 2));
  OrtrainValue *inverse1 = rounded (self, from, DIV (one, correct_bias (self, beta1, corrects)));
  OrtrainValue *inverse2 = rounded (self, from, DIV (one, correct_bias (self, beta2, corrects)));
  OrtrainValue *decayed = MUL (rounded (self, from, from->weight_decay), decaying (self, from->w));
  OrtrainValue *e = scale_gradient (self, update, from, NULL);
  OrtrainValue *moments[] = { next_moment (self, from, beta1, from->states[0], e, FALSE),
                              next_moment (self, from, beta2, from->states[1], e, TRUE) };
  OrtrainValue *directions[2], *finite = NULL;
  for (guint pass = 0; pass < 2; pass++) /* again from the moments that are kept */
    {
      OrtrainValue *m = pass == 0 ? moments[0] : to->states[0], *v = pass == 0 ? moments[1] : to->states[1];
      OrtrainValue *spread = ADD (OP1 ("Sqrt", MUL (v, inverse2)), epsilon);
      OrtrainValue *direction = ADD (decayed, DIV (MUL (m, inverse1), spread));
      finite = is_finite (self, pass == 0 ? direction : e);
      directions[pass] = WHERE (finite, direction, zero);
      for (guint k = 0; k < 2 && pass == 0; k++)
        to->states[k] = WHERE (finite, moments[k], from->states[k]);
    }
  OrtrainValue *w2 = sum_of_squares (self, decaying (self, from->w)), *d2 = sum_of_squares (self, directions[0]);
  OrtrainValue *trust =
      OP2 ("Min", OP2 ("Max", OP1 ("Sqrt", DIV (w2, d2)), get_factor (self, 4)), get_factor (self, 5));
  OrtrainValue *known = OP2 ("And", OP2 ("Greater", w2, wide_zero), OP2 ("Greater", d2, wide_zero));
  OrtrainValue *ratio = WHERE (known, MUL (from->learning_rate, trust), from->learning_rate);
  OrtrainValue *next = SUB (from->w, MUL (rounded (self, from, ratio), directions[1]));
  to->w = WHERE (is_finite (self, next), next, from->w);
}

/* Factors: epsilon, decay of the learning rate. */
static void
move_adagrad (OrtrainBody *self, const Update *update, const Moved *from, Moved *to)
{
  OrtrainValue *decay = get_factor (self, 1), *one = NUMBER (decay, 1);
  OrtrainValue *before = SUB (get_scalar (self, ORTRAIN_UPDATE_STEP), one);
  OrtrainValue *rate = DIV (from->learning_rate, ADD (one, MUL (before, decay)));
  OrtrainValue *e = scale_gradient (self, update, from, from->weight_decay);
  to->states[0] = ADD (from->states[0], MUL (e, e));
  OrtrainValue *spread = ADD (OP1 ("Sqrt", to->states[0]), rounded (self, from, get_factor (self, 0)));
  to->w = SUB (from->w, DIV (MUL (rounded (self, from, rate), e), spread));
}

gboolean
ortrain_body_sgd_update (OrtrainBody *self)
{
  return write_update (self, move_sgd);
}

gboolean
ortrain_body_adam_update (OrtrainBody *self)
{
  return write_update (self, move_adam);
}

gboolean
ortrain_body_lamb_update (OrtrainBody *self)
{
  return write_update (self, move_lamb);
}

gboolean
ortrain_body_adagrad_update (OrtrainBody *self)
{
  return write_update (self, move_adagrad);
}

/* (loss_scale, good_steps, overflows, norm[, tolerated]) → the first three, next[, tolerated, next] */
gboolean
ortrain_body_loss_scale_update (OrtrainBody *self)
{
  OrtrainValue *scale = ortrain_body_input (self, 0), *good = ortrain_body_input (self, 1);
  OrtrainValue *overflows = ortrain_body_input (self, 2), *finite = is_finite (self, ortrain_body_input (self, 3));
  OrtrainValue *grown = OP2 ("Min", NUMBER (scale, ortrain_body_float (self, "maximum", 0x1p24)),
                             MUL (scale, NUMBER (scale, ortrain_body_float (self, "growth_factor", 2))));
  OrtrainValue *reduced = OP2 ("Max", NUMBER (scale, ortrain_body_float (self, "minimum", 1)),
                               MUL (scale, NUMBER (scale, ortrain_body_float (self, "backoff_factor", 0.5))));
  OrtrainValue *zero = ortrain_graph_const_int (self->graph, 0), *one = ortrain_graph_const_int (self->graph, 1);
  OrtrainValue *interval = ortrain_graph_const_int (self->graph, ortrain_body_int (self, "growth_interval", 2000));
  OrtrainValue *tolerated = ortrain_body_input (self, 4), *once_more = NULL;
  if (tolerated != NULL)
    {
      OrtrainValue *most = ortrain_graph_const_int (self->graph, ortrain_body_int (self, "hysteresis", 1) - 1);
      once_more = OP2 ("Less", tolerated, most);
      reduced = WHERE (once_more, scale, reduced);
    }
  OrtrainValue *next = ADD (good, one), *grows = OP2 ("GreaterOrEqual", next, interval);
  ortrain_body_set (self, 0, WHERE (finite, WHERE (grows, grown, scale), reduced));
  ortrain_body_set (self, 1, WHERE (finite, WHERE (grows, zero, next), zero));
  ortrain_body_set (self, 2, WHERE (finite, overflows, ADD (overflows, one)));
  if (tolerated != NULL)
    ortrain_body_set (
        self, 3, WHERE (finite, WHERE (grows, zero, tolerated), WHERE (once_more, ADD (tolerated, one), tolerated)));
  return TRUE;
}
