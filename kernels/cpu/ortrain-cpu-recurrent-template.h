/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-recurrent.c, with REAL, IS_DOUBLE, R(name) and F(name) defined. No include
 * guard. */

/* x = f (x), in place. y may be the same memory. */
static void
R (activate) (const Activation *self, REAL *x, gint64 n)
{
  const REAL alpha = (REAL) self->alpha, beta = (REAL) self->beta, clip = (REAL) self->clip;
#define EACH(expr)                                                                                                     \
  ORTRAIN_INDEPENDENT                                                                                                  \
  for (gint64 i = 0; i < n; i++)                                                                                       \
    x[i] = (expr);                                                                                                     \
  break
  if (!isinf (clip))
    for (gint64 i = 0; i < n; i++)
      x[i] = x[i] > clip ? clip : x[i] < -clip ? -clip : x[i];
  switch (self->kind)
    {
    case ACT_SIGMOID:
      EACH (F (sigmoid) (x[i]));
    case ACT_TANH:
      EACH (F (tanh) (x[i]));
    case ACT_RELU:
      EACH (F (relu) (x[i]));
    case ACT_AFFINE:
      EACH (alpha * x[i] + beta);
    case ACT_LEAKY_RELU:
      EACH (F (leaky_relu) (x[i], alpha));
    case ACT_THRESHOLDED_RELU:
      EACH (F (thresholded_relu) (x[i], alpha));
    case ACT_SCALED_TANH:
      EACH (alpha * F (tanh) (beta * x[i]));
    case ACT_HARD_SIGMOID:
      EACH (F (hard_sigmoid) (x[i], alpha, beta));
    case ACT_ELU:
      EACH (F (elu) (x[i], alpha));
    case ACT_SOFTSIGN:
      EACH (F (softsign) (x[i]));
    case ACT_SOFTPLUS:
      EACH (F (softplus) (x[i]));
    }
}

/* d = d · f' as a function of y = f (x). A clipped element, which equals a bound, has no derivative. */
static void
R (chain) (const Activation *self, REAL *d, const REAL *y, gint64 n)
{
  const REAL alpha = (REAL) self->alpha, beta = (REAL) self->beta, one = 1;
#undef EACH
#define EACH(expr)                                                                                                     \
  ORTRAIN_INDEPENDENT                                                                                                  \
  for (gint64 i = 0; i < n; i++)                                                                                       \
    d[i] = (expr);                                                                                                     \
  break
  if (!isinf (self->clip))
    {
      REAL high = (REAL) self->clip, low = -high;
      R (activate) (self, &high, 1);
      R (activate) (self, &low, 1);
      for (gint64 i = 0; i < n; i++)
        if (ortrain_is_stored_bound (y[i], high) || ortrain_is_stored_bound (y[i], low))
          d[i] = 0;
    }
  switch (self->kind)
    {
    case ACT_SIGMOID:
      EACH (d[i] * (y[i] * (one - y[i])));
    case ACT_TANH:
      EACH (d[i] * (one - y[i] * y[i]));
    case ACT_RELU:
    case ACT_THRESHOLDED_RELU:
      EACH (y[i] > 0 ? d[i] : 0);
    case ACT_AFFINE:
      EACH (d[i] * alpha);
    case ACT_LEAKY_RELU:
      EACH (y[i] > 0 ? d[i] : d[i] * alpha); /* 0 where alpha is */
    case ACT_SCALED_TANH:
      if (alpha == 0)
        {
          memset (d, 0, (gsize) n * sizeof (REAL));
          break;
        }
      EACH (d[i] * beta * (alpha - y[i] * y[i] / alpha));
    case ACT_HARD_SIGMOID:
      EACH (F (hard_sigmoid_grad) (d[i], y[i], alpha));
    case ACT_ELU:
      EACH (F (elu_grad) (d[i], y[i], alpha));
    case ACT_SOFTSIGN:
      EACH (d[i] * ((one - F (fabs) (y[i])) * (one - F (fabs) (y[i]))));
    case ACT_SOFTPLUS:
      EACH (d[i] * (one - F (exp) (-y[i])));
    }
#undef EACH
}

/* ---- Operands, in elements ---- */

static inline void
R (load) (const Operand *self, gint64 at, gint64 n, REAL *to)
{
#if IS_DOUBLE
  memcpy (to, (const double *) self->data + at, (gsize) n * sizeof (double));
#else
  ortrain_elements_load (self->dtype, self->data, at, n, to);
#endif
}

static inline void
R (store) (const Operand *self, gint64 at, gint64 n, const REAL *from)
{
#if IS_DOUBLE
  memcpy ((double *) self->data + at, from, (gsize) n * sizeof (double));
#else
  ortrain_elements_store (self->dtype, self->data, at, n, from);
#endif
}

/* Where they lie, or widened into `scratch`. */
static inline const REAL *
R (read) (const Operand *self, gint64 at, gint64 n, REAL *scratch)
{
  if (!ortrain_dtype_is_half (self->dtype))
    return (const REAL *) self->data + at;
  R (load) (self, at, n, scratch);
  return scratch;
}

static inline void
R (clear) (const Operand *self, gint64 at, gint64 n)
{
  const gsize size = ortrain_dtype_get_size (self->dtype);
  memset ((guint8 *) self->data + (gsize) at * size, 0, (gsize) n * size);
}

/* The worker's own: `saved + 1` rows of the hidden size. */
static inline REAL *
R (get_scratch) (const RecurrentRun *run, guint worker)
{
  return (REAL *) run->scratch + (gsize) worker * (gsize) ((run->plan->saved + 1) * run->plan->hidden);
}

/* Whether step t is within row b's sequence. */
static inline gboolean
R (is_active) (const RecurrentRun *run, gint64 t, gint64 b)
{
  return run->lengths == NULL || t < ortrain_kernel_index (run->lengths, run->plan->lengths_64, b);
}

/* Row b of step t in Y, and in the saved values: `n` elements per row. */
static inline gint64
R (place) (const RecurrentPlan *plan, gint64 t, gint64 b, gint64 n)
{
  return (t * plan->directions * plan->batch + b) * n;
}

/* The initial state, or the final gradient of the state, of rows without a step: such a row gives zeros, whatever its
 * initial state is, as ONNX Runtime does. */
static void
R (clear_empty_rows) (const RecurrentRun *run)
{
  const RecurrentPlan *plan = run->plan;
  for (gint64 b = 0; run->lengths != NULL && b < plan->batch; b++)
    {
      if (ortrain_kernel_index (run->lengths, plan->lengths_64, b) > 0)
        continue;
      memset ((REAL *) run->state + b * plan->hidden, 0, (gsize) plan->hidden * sizeof (REAL));
      if (plan->cell == CELL_LSTM)
        memset ((REAL *) run->cell + b * plan->hidden, 0, (gsize) plan->hidden * sizeof (REAL));
    }
}

/* ---- Forward ---- */

/* The initial state, and one bias of two: that of the candidate's recurrent part stands alone when it is reset. */
static void
R (start) (RecurrentRun *run)
{
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden, all = plan->gates * H;
  const gsize bytes = (gsize) (plan->batch * H) * sizeof (REAL);
  const gboolean has_bias = run->b.data != NULL;
  REAL *bias = run->bias;
  for (gint64 i = 0; i < all; i++)
    {
      gboolean alone = plan->reset_after && plan->cell == CELL_GRU && i >= 2 * H;
      REAL of_input = 0, of_state = 0;
      if (has_bias)
        R (load) (&run->b, i, 1, &of_input);
      if (has_bias && !alone)
        R (load) (&run->b, all + i, 1, &of_state);
      bias[i] = of_input + of_state;
    }
  memset (bias + all, 0, (gsize) H * sizeof (REAL));
  if (has_bias && plan->gates == 3)
    R (load) (&run->b, all + 2 * H, H, bias + all);
  if (run->h0.data != NULL)
    R (load) (&run->h0, 0, plan->batch * H, run->state);
  else
    memset (run->state, 0, bytes);
  if (plan->cell == CELL_LSTM && run->c0.data != NULL)
    R (load) (&run->c0, 0, plan->batch * H, run->cell);
  else if (plan->cell == CELL_LSTM)
    memset (run->cell, 0, bytes);
  R (clear_empty_rows) (run);
}

/* After the sequence's end: Y is zero, and so are the saved values. */
static gboolean
R (skip_row) (const RecurrentRun *run, gint64 b)
{
  const RecurrentPlan *plan = run->plan;
  if (R (is_active) (run, run->t, b))
    return FALSE;
  if (run->y.data != NULL)
    R (clear) (&run->y, R (place) (plan, run->t, b, plan->hidden), plan->hidden);
  if (run->saved.data != NULL)
    R (clear)
  (&run->saved, R (place) (plan, run->t, b, plan->saved * plan->hidden), plan->saved * plan->hidden);
  return TRUE;
}

static inline void
R (keep) (const RecurrentRun *run, gint64 b, gint64 part, const REAL *values, gint64 n_parts)
{
  const RecurrentPlan *plan = run->plan;
  if (run->saved.data != NULL)
    R (store)
  (&run->saved, R (place) (plan, run->t, b, plan->saved * plan->hidden) + part * plan->hidden, n_parts * plan->hidden,
   values);
}

/* Stores the results of f so that the backward pass recognizes clipped ones. */
static inline void
R (keep_activated) (const RecurrentRun *run, gint64 b, gint64 part, const Activation *f, const REAL *values,
                    gint64 n_parts)
{
  R (keep) (run, b, part, values, n_parts);
#if !IS_DOUBLE
  const RecurrentPlan *plan = run->plan;
  if (run->saved.data == NULL || !ortrain_dtype_is_half (run->saved.dtype) || isinf (f->clip))
    return;
  float bounds[2] = { (float) f->clip, -(float) f->clip };
  R (activate) (f, bounds, 2);
  guint16 *to =
      (guint16 *) run->saved.data + R (place) (plan, run->t, b, plan->saved * plan->hidden) + part * plan->hidden;
  for (gint64 i = 0; i < n_parts * plan->hidden; i++)
    if (values[i] != bounds[0] && values[i] != bounds[1])
      to[i] = ortrain_store_between (run->saved.dtype == ORTRAIN_DTYPE_FLOAT16, values[i], bounds[0], bounds[1]);
#endif
}

static inline void
R (put_y) (const RecurrentRun *run, gint64 b, const REAL *h)
{
  const RecurrentPlan *plan = run->plan;
  if (run->y.data != NULL)
    R (store) (&run->y, R (place) (plan, run->t, b, plan->hidden), plan->hidden, h);
}

static void
R (rnn_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  for (gint64 b = begin; b < end; b++)
    {
      REAL *gates = (REAL *) run->gates + (run->t * plan->batch + b) * H, *h = (REAL *) run->state + b * H;
      if (R (skip_row) (run, b))
        continue;
      R (activate) (&plan->f[run->direction], gates, H);
      memcpy (h, gates, (gsize) H * sizeof (REAL));
      R (put_y) (run, b, h);
    }
}

/* GRU, first half: z and r; tmp = r ∘ h, or gates_h += r ∘ tmp when the product is reset. */
static void
R (reset_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  for (gint64 b = begin; b < end; b++)
    {
      REAL *gates = (REAL *) run->gates + (run->t * plan->batch + b) * 3 * H, *r = gates + H,
           *candidate = gates + 2 * H;
      REAL *tmp = (REAL *) run->tmp + b * H;
      const REAL *h = (const REAL *) run->state + b * H;
      R (activate) (&plan->f[run->direction], gates, 2 * H);
      if (plan->reset_after)
        {
          R (keep) (run, b, 3, tmp, 1);
          for (gint64 i = 0; i < H; i++)
            candidate[i] += r[i] * tmp[i];
        }
      else
        for (gint64 i = 0; i < H; i++)
          tmp[i] = r[i] * h[i];
    }
}

static void
R (gru_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  for (gint64 b = begin; b < end; b++)
    {
      REAL *z = (REAL *) run->gates + (run->t * plan->batch + b) * 3 * H, *candidate = z + 2 * H;
      REAL *h = (REAL *) run->state + b * H;
      if (R (skip_row) (run, b))
        continue;
      R (activate) (&plan->g[run->direction], candidate, H);
      R (keep_activated) (run, b, 0, &plan->f[run->direction], z, 2);
      R (keep_activated) (run, b, 2, &plan->g[run->direction], candidate, 1);
      for (gint64 i = 0; i < H; i++)
        h[i] = (1 - z[i]) * candidate[i] + z[i] * h[i];
      R (put_y) (run, b, h);
    }
}

static void
R (lstm_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  const Activation *f = &plan->f[run->direction];
  const REAL *p = run->p; /* i, o, f */
  for (gint64 b = begin; b < end; b++)
    {
      REAL *in = (REAL *) run->gates + (run->t * plan->batch + b) * 4 * H;
      REAL *out = in + H, *forget = out + H, *candidate = forget + H;
      REAL *h = (REAL *) run->state + b * H, *c = (REAL *) run->cell + b * H;
      if (R (skip_row) (run, b))
        continue;
      if (p != NULL)
        for (gint64 i = 0; i < H; i++)
          {
            in[i] += p[i] * c[i];
            forget[i] += p[2 * H + i] * c[i];
          }
      R (activate) (f, in, H);
      if (plan->coupled)
        for (gint64 i = 0; i < H; i++)
          forget[i] = 1 - in[i];
      else
        R (activate) (f, forget, H);
      R (activate) (&plan->g[run->direction], candidate, H);
      for (gint64 i = 0; i < H; i++)
        h[i] = c[i] = forget[i] * c[i] + in[i] * candidate[i];
      if (p != NULL)
        for (gint64 i = 0; i < H; i++)
          out[i] += p[H + i] * c[i];
      R (activate) (f, out, H);
      R (activate) (&plan->h[run->direction], h, H);
      for (gint64 i = 0; i < H; i++)
        h[i] *= out[i];
      R (keep_activated) (run, b, 0, f, in, 3);
      R (keep_activated) (run, b, 3, &plan->g[run->direction], candidate, 1);
      R (keep) (run, b, 4, c, 1);
      R (put_y) (run, b, h);
    }
}

/* ---- Backward ---- */

static void
R (start_grad) (RecurrentRun *run)
{
  const RecurrentPlan *plan = run->plan;
  const gsize bytes = (gsize) (plan->batch * plan->hidden) * sizeof (REAL);
  const gint64 n = plan->batch * plan->hidden;
  if (run->dy_h.data != NULL)
    R (load) (&run->dy_h, 0, n, run->state);
  else
    memset (run->state, 0, bytes);
  if (plan->cell == CELL_LSTM && run->dy_c.data != NULL)
    R (load) (&run->dy_c, 0, n, run->cell);
  else if (plan->cell == CELL_LSTM)
    memset (run->cell, 0, bytes);
  R (clear_empty_rows) (run);
}

/* Where row b was before step t: the step that came before, or -1 for the initial state. */
static inline gint64
R (step_before) (const RecurrentRun *run, gint64 t, gint64 b)
{
  if (!run->plan->reverse[run->direction])
    return t - 1;
  return t + 1 < run->plan->length && R (is_active) (run, t + 1, b) ? t + 1 : -1;
}

static void
R (previous_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  for (gint64 u = begin; u < end; u++)
    {
      gint64 b = u % plan->batch, before = R (step_before) (run, u / plan->batch, b);
      REAL *to = (REAL *) run->previous + u * H;
      if (before >= 0)
        R (load) (&run->y_in, R (place) (plan, before, b, H), H, to);
      else if (run->h0.data != NULL)
        R (load) (&run->h0, b * H, H, to);
      else
        memset (to, 0, (gsize) H * sizeof (REAL));
    }
}

/* The row's gradients are zeros after its end, and the gradient of its state passes through. */
static gboolean
R (skip_grad_row) (const RecurrentRun *run, gint64 b)
{
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden, row = run->t * plan->batch + b;
  if (R (is_active) (run, run->t, b))
    return FALSE;
  memset ((REAL *) run->gates + row * plan->gates * H, 0, (gsize) (plan->gates * H) * sizeof (REAL));
  if (plan->cell == CELL_GRU)
    memset ((REAL *) run->reset + row * H, 0, (gsize) H * sizeof (REAL));
  return TRUE;
}

static inline void
R (add_dy) (const RecurrentRun *run, gint64 b, REAL *dh)
{
  if (run->dy.data == NULL)
    return;
  const gint64 n = run->plan->hidden, at = R (place) (run->plan, run->t, b, n);
#if IS_DOUBLE
  for (gint64 i = 0; i < n; i++)
    dh[i] += ((const double *) run->dy.data)[at + i];
#else
  ortrain_elements_add (run->dy.dtype, dh, run->dy.data, at, n);
#endif
}

static void
R (rnn_grad_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  for (gint64 b = begin; b < end; b++)
    {
      REAL *gates = (REAL *) run->gates + (run->t * plan->batch + b) * H, *dh = (REAL *) run->state + b * H;
      if (R (skip_grad_row) (run, b))
        continue;
      R (add_dy) (run, b, dh);
      memcpy (gates, dh, (gsize) H * sizeof (REAL));
      R (chain)
      (&plan->f[run->direction], gates,
       R (read) (&run->y_in, R (place) (plan, run->t, b, H), H, R (get_scratch) (run, worker)), H);
      memset (dh, 0, (gsize) H * sizeof (REAL)); /* the product adds the gradient that flows on */
    }
}

/* GRU: all but the gradient of r when that needs a product first. */
static void
R (gru_grad_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  for (gint64 b = begin; b < end; b++)
    {
      const gint64 row = run->t * plan->batch + b;
      REAL *dz = (REAL *) run->gates + row * 3 * H, *dr = dz + H, *dcandidate = dr + H;
      REAL *dh = (REAL *) run->state + b * H, *reset = (REAL *) run->reset + row * H;
      const REAL *before = (const REAL *) run->previous + row * H;
      const REAL *z = R (read) (&run->saved_in, R (place) (plan, run->t, b, plan->saved * H), plan->saved * H,
                                R (get_scratch) (run, worker));
      const REAL *r = z + H, *candidate = r + H, *product = candidate + H;
      if (R (skip_grad_row) (run, b))
        continue;
      R (add_dy) (run, b, dh);
      for (gint64 i = 0; i < H; i++)
        {
          dz[i] = dh[i] * (before[i] - candidate[i]);
          dcandidate[i] = dh[i] * (1 - z[i]);
          dh[i] *= z[i];
        }
      R (chain) (&plan->f[run->direction], dz, z, H);
      R (chain) (&plan->g[run->direction], dcandidate, candidate, H);
      if (plan->reset_after)
        {
          for (gint64 i = 0; i < H; i++)
            {
              reset[i] = dcandidate[i] * r[i];
              dr[i] = dcandidate[i] * product[i];
            }
          R (chain) (&plan->f[run->direction], dr, r, H);
        }
      else
        for (gint64 i = 0; i < H; i++)
          reset[i] = r[i] * before[i];
    }
}

/* GRU: tmp is the gradient of r ∘ h. */
static void
R (reset_grad_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  for (gint64 b = begin; b < end; b++)
    {
      const gint64 row = run->t * plan->batch + b;
      REAL *dr = (REAL *) run->gates + row * 3 * H + H, *dh = (REAL *) run->state + b * H;
      const REAL *tmp = (const REAL *) run->tmp + b * H, *before = (const REAL *) run->previous + row * H;
      const REAL *r =
          R (read) (&run->saved_in, R (place) (plan, run->t, b, plan->saved * H) + H, H, R (get_scratch) (run, worker));
      if (!R (is_active) (run, run->t, b))
        continue;
      for (gint64 i = 0; i < H; i++)
        {
          dr[i] = tmp[i] * before[i];
          dh[i] += tmp[i] * r[i];
        }
      R (chain) (&plan->f[run->direction], dr, r, H);
    }
}

/* n elements of it from `first` on. */
static inline const REAL *
R (cell_before) (const RecurrentRun *run, gint64 t, gint64 b, gint64 first, gint64 n, REAL *scratch)
{
  const gint64 H = run->plan->hidden, before = R (step_before) (run, t, b);
  if (before >= 0)
    return R (read) (&run->saved_in, R (place) (run->plan, before, b, 5 * H) + 4 * H + first, n, scratch);
  return run->c0.data != NULL ? R (read) (&run->c0, b * H + first, n, scratch) : NULL;
}

static void
R (lstm_grad_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  const Activation *f = &plan->f[run->direction], *h = &plan->h[run->direction];
  const REAL *p = run->p;
  for (gint64 b = begin; b < end; b++)
    {
      REAL *din = (REAL *) run->gates + (run->t * plan->batch + b) * 4 * H;
      REAL *dout = din + H, *dforget = dout + H, *dcandidate = dforget + H;
      REAL *dh = (REAL *) run->state + b * H, *dc = (REAL *) run->cell + b * H, *tmp = (REAL *) run->tmp + b * H;
      REAL *scratch = R (get_scratch) (run, worker);
      const REAL *in = R (read) (&run->saved_in, R (place) (plan, run->t, b, 5 * H), 5 * H, scratch);
      const REAL *out = in + H, *forget = out + H, *candidate = forget + H, *c = candidate + H;
      const REAL *before = R (cell_before) (run, run->t, b, 0, H, scratch + 5 * H);
      if (R (skip_grad_row) (run, b))
        continue;
      R (add_dy) (run, b, dh);
      memcpy (tmp, c, (gsize) H * sizeof (REAL));
      R (activate) (h, tmp, H);
      for (gint64 i = 0; i < H; i++)
        {
          dout[i] = dh[i] * tmp[i];
          dh[i] *= out[i];
        }
      R (chain) (f, dout, out, H);
      R (chain) (h, dh, tmp, H);
      for (gint64 i = 0; i < H; i++)
        {
          REAL d = dc[i] + dh[i] + (p != NULL ? dout[i] * p[H + i] : 0);
          REAL was = before != NULL ? before[i] : 0;
          din[i] = d * candidate[i] - (plan->coupled ? d * was : 0);
          dforget[i] = plan->coupled ? 0 : d * was;
          dcandidate[i] = d * in[i];
          dc[i] = d * forget[i];
          dh[i] = 0; /* the product adds the gradient that flows on */
        }
      R (chain) (f, din, in, H);
      if (!plan->coupled)
        R (chain) (f, dforget, forget, H);
      R (chain) (&plan->g[run->direction], dcandidate, candidate, H);
      if (p != NULL)
        for (gint64 i = 0; i < H; i++)
          dc[i] += din[i] * p[i] + dforget[i] * p[2 * H + i];
    }
}

/* dB [2, gates · hidden]: sums over all steps, in order, in double. */
static void
R (bias_grad_columns) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden, all = plan->gates * H, steps = plan->length * plan->batch;
  double sums[64] = { 0 }, resets[64] = { 0 };
  const gboolean alone = plan->cell == CELL_GRU && plan->reset_after;
  for (gint64 s = 0; s < steps; s++)
    {
      const REAL *gates = (const REAL *) run->gates + s * all,
                 *reset = alone ? (const REAL *) run->reset + s * H : NULL;
      for (gint64 i = begin; i < end; i++)
        sums[i - begin] += gates[i];
      for (gint64 i = MAX (begin, 2 * H); alone && i < end; i++)
        resets[i - begin] += reset[i - 2 * H];
    }
  for (gint64 i = begin; i < end; i++)
    {
      const REAL of_input = (REAL) sums[i - begin];
      const REAL of_state = (REAL) (alone && i >= 2 * H ? resets[i - begin] : sums[i - begin]);
      R (store) (&run->db, i, 1, &of_input);
      R (store) (&run->db, all + i, 1, &of_state);
    }
}

/* dP: i and f look at the cell before the step, o at the one after it. */
static void
R (peephole_grad_columns) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const RecurrentRun *run = data;
  const RecurrentPlan *plan = run->plan;
  const gint64 H = plan->hidden;
  double sums[3][64] = { { 0 } };
  REAL cells[64], cells_before[64];
  for (gint64 t = 0; t < plan->length; t++)
    for (gint64 b = 0; b < plan->batch; b++)
      {
        const REAL *gates = (const REAL *) run->gates + (t * plan->batch + b) * 4 * H;
        const REAL *c = R (read) (&run->saved_in, R (place) (plan, t, b, 5 * H) + 4 * H + begin, end - begin, cells);
        const REAL *before = R (cell_before) (run, t, b, begin, end - begin, cells_before);
        for (gint64 i = begin; i < end; i++)
          {
            sums[1][i - begin] += (double) gates[H + i] * c[i - begin];
            if (before == NULL)
              continue;
            sums[0][i - begin] += (double) gates[i] * before[i - begin];
            sums[2][i - begin] += (double) gates[2 * H + i] * before[i - begin];
          }
      }
  for (guint k = 0; k < 3; k++)
    for (gint64 i = begin; i < end; i++)
      {
        const REAL sum = (REAL) sums[k][i - begin];
        R (store) (&run->dp, k * H + i, 1, &sum);
      }
}
