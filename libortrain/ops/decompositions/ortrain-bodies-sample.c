/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

/* The body of the gradient of GridSample: along each axis, where a place of the grid reads and with which weights, as
 * values of all places, [batch, places]; then each combination of the positions of the axes. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define OP3(op, a, b, c) ortrain_body_op (self, op, a, b, c)
#define ADD(a, b) OP2 ("Add", a, b)
#define SUB(a, b) OP2 ("Sub", a, b)
#define MUL(a, b) OP2 ("Mul", a, b)
#define DIV(a, b) OP2 ("Div", a, b)
#define WHERE(condition, a, b) OP3 ("Where", condition, a, b)
#define CLAMP_TO(x, low, high) OP2 ("Min", OP2 ("Max", x, NUMBER (x, low)), NUMBER (x, high))
#define NUMBER(like, number) ortrain_body_number (self, like, number)

#define MAX_AXES 3
#define FAR 1e9 /* coordinates beyond it are none: their elements are outside, and their gradient is zero */

typedef enum
{
  PADDING_ZEROS,
  PADDING_BORDER,
  PADDING_REFLECTION,
} Padding;

typedef struct
{
  gboolean nearest, cubic, align_corners;
  Padding padding;
} Sampling;

/* Along one axis: the positions read, their weights, and the derivatives of the weights by the coordinate of the
 * grid. */
typedef struct
{
  guint n;
  OrtrainValue *at[4];     /* int64 */
  OrtrainValue *inside[4]; /* bool, or NULL: all are */
  OrtrainValue *weight[4], *slope[4];
} Taps;

/* Back between low and high from outside, as between mirrors; *sign: of the derivative, may be NULL. */
static OrtrainValue *
reflect (OrtrainBody *self, OrtrainValue *x, double low, double high, OrtrainValue **sign)
{
  const double range = high - low;
  OrtrainValue *one = NUMBER (x, 1), *bottom = NUMBER (x, low), *top = NUMBER (x, high);
  if (range <= 0)
    {
      if (sign != NULL)
        *sign = NUMBER (x, 0);
      return OP2 ("Add", MUL (x, NUMBER (x, 0)), bottom);
    }
  OrtrainValue *below = OP2 ("Less", x, bottom), *above = OP2 ("Greater", x, top);
  OrtrainValue *distance = WHERE (below, SUB (bottom, x), SUB (x, top));
  OrtrainValue *turns = OP1 ("Floor", DIV (distance, NUMBER (x, range)));
  OrtrainValue *rest = SUB (distance, MUL (turns, NUMBER (x, range)));
  OrtrainValue *half = MUL (turns, NUMBER (x, 0.5));
  OrtrainValue *even = OP2 ("Equal", half, OP1 ("Floor", half));
  /* an even number of turns leads back from the mirror that was passed, an odd one from the other */
  OrtrainValue *from_bottom = OP2 ("Equal", below, even);
  OrtrainValue *reflected = WHERE (from_bottom, ADD (bottom, rest), SUB (top, rest));
  OrtrainValue *outside = OP2 ("Or", below, above);
  if (sign != NULL)
    *sign = WHERE (OP2 ("And", outside, even), OP1 ("Neg", one), one);
  return WHERE (outside, reflected, x);
}

/* The elements at i, a whole number in the type of the grid. */
static void
set_place (OrtrainBody *self, const Sampling *sampling, Taps *taps, guint k, OrtrainValue *i, gint64 n)
{
  const double last = (double) n - 1, low = sampling->align_corners ? 0 : -0.5;
  OrtrainValue *place = i;
  if (sampling->padding == PADDING_ZEROS)
    taps->inside[k] = OP2 ("And", OP2 ("GreaterOrEqual", i, NUMBER (i, 0)), OP2 ("LessOrEqual", i, NUMBER (i, last)));
  else if (sampling->padding == PADDING_REFLECTION)
    place = reflect (self, i, low, last - low, NULL);
  taps->at[k] = ortrain_body_cast (self, CLAMP_TO (place, 0, last), ORTRAIN_DTYPE_INT64);
}

/* Keys' weights for the element that lies `offset` away from t, and their derivative by t. */
static void
set_cubic (OrtrainBody *self, Taps *taps, guint k, OrtrainValue *t, OrtrainValue *scale)
{
  static const double a = -0.75;
  OrtrainValue *d = SUB (t, NUMBER (t, (double) k - 1)), *m = OP1 ("Abs", d);
  OrtrainValue *signed_scale = MUL (WHERE (OP2 ("Less", d, NUMBER (t, 0)), NUMBER (t, -1), NUMBER (t, 1)), scale);
  OrtrainValue *near = OP2 ("LessOrEqual", m, NUMBER (t, 1));
  OrtrainValue *inner = MUL (SUB (MUL (NUMBER (t, a + 2), m), NUMBER (t, a + 3)), MUL (m, m));
  OrtrainValue *outer = MUL (SUB (MUL (NUMBER (t, a), m), NUMBER (t, 5 * a)), m);
  outer = SUB (MUL (ADD (outer, NUMBER (t, 8 * a)), m), NUMBER (t, 4 * a));
  taps->weight[k] = WHERE (near, ADD (inner, NUMBER (t, 1)), outer);
  inner = MUL (SUB (MUL (NUMBER (t, 3 * (a + 2)), m), NUMBER (t, 2 * (a + 3))), m);
  outer = ADD (MUL (SUB (MUL (NUMBER (t, 3 * a), m), NUMBER (t, 10 * a)), m), NUMBER (t, 8 * a));
  taps->slope[k] = MUL (signed_scale, WHERE (near, inner, outer));
}

/* coordinate: from -1 to 1 along an axis of n elements */
static void
find_taps (OrtrainBody *self, const Sampling *sampling, OrtrainValue *coordinate, gint64 n, Taps *taps)
{
  const double size = (double) n, low = sampling->align_corners ? 0 : -0.5, high = size - 1 - low;
  OrtrainValue *one = NUMBER (coordinate, 1), *zero = NUMBER (coordinate, 0), *sign = NULL;
  OrtrainValue *x = ADD (coordinate, one), *scale;
  *taps = (Taps){ 0 };
  if (sampling->align_corners)
    x = MUL (x, NUMBER (x, (size - 1) / 2));
  else
    x = DIV (SUB (MUL (x, NUMBER (x, size)), one), NUMBER (x, 2));
  OrtrainValue *known = OP2 ("Less", OP1 ("Abs", x), NUMBER (x, FAR));
  scale = WHERE (known, NUMBER (x, sampling->align_corners ? (size - 1) / 2 : size / 2), zero);
  x = WHERE (OP1 ("IsNaN", x), NUMBER (x, -FAR), CLAMP_TO (x, -FAR, FAR));
  if (sampling->nearest)
    x = OP1 ("Round", x);
  if (!sampling->cubic && sampling->padding == PADDING_BORDER)
    {
      OrtrainValue *outside = OP2 ("Or", OP2 ("Less", x, NUMBER (x, low)), OP2 ("Greater", x, NUMBER (x, high)));
      x = WHERE (outside, CLAMP_TO (x, 0, size - 1), x);
      scale = WHERE (outside, zero, scale);
    }
  else if (!sampling->cubic && sampling->padding == PADDING_REFLECTION)
    {
      x = reflect (self, x, low, high, &sign);
      scale = MUL (scale, sign);
    }
  OrtrainValue *base = OP1 ("Floor", x), *t = SUB (x, base);
  taps->n = sampling->nearest ? 1 : sampling->cubic ? 4 : 2;
  for (guint k = 0; k < taps->n; k++)
    {
      set_place (self, sampling, taps, k,
                 sampling->nearest ? OP1 ("Round", x)
                 : sampling->cubic ? ADD (base, NUMBER (x, (double) k - 1))
                                   : ADD (base, NUMBER (x, k)),
                 n);
      if (sampling->cubic)
        set_cubic (self, taps, k, t, scale);
      else if (!sampling->nearest)
        {
          taps->weight[k] = k == 0 ? SUB (one, t) : t;
          taps->slope[k] = k == 0 ? OP1 ("Neg", scale) : scale;
        }
    }
}

/* A combination of the positions of all axes. */
typedef struct
{
  const Taps *taps; /* by axis */
  guint n_axes, tap[MAX_AXES];
  OrtrainValue *at;     /* among the elements of a plane, int64 [batch, 1, places] */
  OrtrainValue *inside; /* bool, the same; or NULL */
} Combination;

static OrtrainValue *
product (OrtrainBody *self, OrtrainValue *a, OrtrainValue *b)
{
  return a == NULL ? b : b == NULL ? a : MUL (a, b);
}

/* The product of the weights; of axis `differentiated`, if there is one, the slope. NULL: one. */
static OrtrainValue *
get_weight (OrtrainBody *self, const Combination *combination, gint differentiated)
{
  OrtrainValue *weight = NULL;
  for (guint d = 0; d < combination->n_axes; d++)
    {
      const Taps *taps = &combination->taps[d];
      const guint k = combination->tap[d];
      weight = product (self, weight, (gint) d == differentiated ? taps->slope[k] : taps->weight[k]);
    }
  return weight;
}

/* [batch, places] → [batch, 1, places] */
static OrtrainValue *
across_channels (OrtrainBody *self, OrtrainValue *x)
{
  static const gint64 second = 1;
  return x != NULL ? OP2 ("Unsqueeze", x, ortrain_body_ints (self, &second, 1)) : NULL;
}

static void
combine (OrtrainBody *self, Combination *combination, guint number, const gint64 *strides)
{
  OrtrainValue *at = NULL, *inside = NULL;
  for (guint d = 0; d < combination->n_axes; d++)
    {
      const Taps *taps = &combination->taps[d];
      const guint k = combination->tap[d] = number % taps->n;
      number /= taps->n;
      OrtrainValue *step = MUL (taps->at[k], ortrain_graph_const_int (self->graph, strides[d]));
      at = at != NULL ? ADD (at, step) : step;
      if (taps->inside[k] != NULL)
        inside = inside != NULL ? OP2 ("And", inside, taps->inside[k]) : taps->inside[k];
    }
  combination->at = across_channels (self, at);
  combination->inside = across_channels (self, inside);
}

static OrtrainValue *
only_inside (OrtrainBody *self, const Combination *combination, OrtrainValue *x)
{
  return combination->inside != NULL ? WHERE (combination->inside, x, NUMBER (x, 0)) : x;
}

/* (dy, x, grid) → (dx, dgrid) */
gboolean
ortrain_body_grid_sample_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1),
               *grid = ortrain_body_input (self, 2);
  const OrtrainAttributes *attributes = self->node->attributes;
  const char *mode = ortrain_attributes_get_string (attributes, "mode", "linear");
  const char *padding = ortrain_attributes_get_string (attributes, "padding_mode", "zeros");
  const Sampling sampling = { .nearest = g_str_equal (mode, "nearest"),
                              .cubic = g_str_equal (mode, "cubic"),
                              .align_corners = ortrain_body_int (self, "align_corners", 0) != 0,
                              .padding = g_str_equal (padding, "border")       ? PADDING_BORDER
                                         : g_str_equal (padding, "reflection") ? PADDING_REFLECTION
                                                                               : PADDING_ZEROS };
  gint64 in[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK], strides[MAX_AXES];
  const guint n_axes = (guint) x->rank - 2;
  if (n_axes < 1 || n_axes > MAX_AXES)
    return FALSE;
  ortrain_body_dims (x, in);
  ortrain_body_dims (dy, out);
  gint64 n_in = 1, places = 1;
  for (guint d = n_axes; d-- > 0; n_in *= in[2 + d])
    {
      strides[d] = n_in;
      places *= out[2 + d];
    }
  const gint64 planes[] = { in[0], in[1], n_in }, positions[] = { in[0], in[1], places };
  const gint64 grid_rows[] = { in[0], places, n_axes };
  OrtrainValue *each = ortrain_body_reshape (self, grid, grid_rows, 3);
  Taps taps[MAX_AXES];
  guint n_combinations = 1;
  for (guint d = 0; d < n_axes; d++) /* the grid names the last axis first */
    {
      OrtrainValue *coordinate = ortrain_body_op_with (self, "Gather", ortrain_body_attribute ("axis", 2), each,
                                                       ortrain_graph_const_int (self->graph, n_axes - 1 - d), NULL);
      find_taps (self, &sampling, coordinate, in[2 + d], &taps[d]);
      n_combinations *= taps[d].n;
    }
  dy = ortrain_body_reshape (self, dy, positions, 3);
  x = ortrain_body_reshape (self, x, planes, 3);
  OrtrainValue *all = ortrain_body_ints (self, positions, 3), *dx[64], *at[64], *dgrid[MAX_AXES] = { NULL };
  for (guint c = 0; c < n_combinations; c++)
    {
      Combination combination = { .taps = taps, .n_axes = n_axes };
      combine (self, &combination, c, strides);
      at[c] = OP2 ("Expand", combination.at, all);
      OrtrainValue *weight = across_channels (self, get_weight (self, &combination, -1));
      dx[c] = only_inside (self, &combination, product (self, weight, dy));
      if (!ortrain_body_wants (self, 1) || sampling.nearest)
        continue;
      OrtrainValue *read =
          ortrain_body_op_with (self, "GatherElements", ortrain_body_attribute ("axis", 2), x, at[c], NULL);
      OrtrainValue *sum =
          ortrain_body_reduce (self, "ReduceSum", only_inside (self, &combination, MUL (dy, read)), 1u << 1, FALSE);
      for (guint d = 0; d < n_axes; d++)
        {
          OrtrainValue *term = MUL (sum, get_weight (self, &combination, (gint) d));
          dgrid[d] = dgrid[d] != NULL ? ADD (dgrid[d], term) : term;
        }
    }
  if (ortrain_body_wants (self, 0))
    {
      OrtrainAttributes *scatter = ortrain_body_attribute ("axis", 2);
      ortrain_attributes_set_string (scatter, "reduction", "add");
      OrtrainNode *values =
          ortrain_body_node (self, "Concat", dx, n_combinations, 1, ortrain_body_attribute ("axis", 2));
      OrtrainNode *indices =
          ortrain_body_node (self, "Concat", at, n_combinations, 1, ortrain_body_attribute ("axis", 2));
      if (values != NULL && indices != NULL)
        ortrain_body_set (self, 0,
                          ortrain_body_op_with (self, "ScatterElements", scatter,
                                                ortrain_body_fill (self, x, 0, planes, 3),
                                                ortrain_node_output (indices, 0), ortrain_node_output (values, 0)));
      else
        ortrain_attributes_free (scatter);
    }
  if (!ortrain_body_wants (self, 1))
    return TRUE;
  if (sampling.nearest)
    {
      ortrain_body_set (self, 1, ortrain_body_fill (self, grid, 0, grid_rows, 3));
      return TRUE;
    }
  OrtrainValue *parts[MAX_AXES];
  static const gint64 third = 2;
  for (guint d = 0; d < n_axes; d++)
    parts[n_axes - 1 - d] = OP2 ("Unsqueeze", dgrid[d], ortrain_body_ints (self, &third, 1));
  OrtrainNode *joined = ortrain_body_node (self, "Concat", parts, n_axes, 1, ortrain_body_attribute ("axis", 2));
  if (joined != NULL)
    ortrain_body_set (self, 1, ortrain_node_output (joined, 0));
  return TRUE;
}
