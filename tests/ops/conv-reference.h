/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Convolutions as plain loops in float64, to hold kernels against. */
#include "ops/ortrain-op-private.h"

#include <math.h>
#include <string.h>

typedef struct
{
  gint64 n, groups, in_per_group, out_per_group; /* channels */
  gint rank;                                     /* spatial */
  gint64 in[3], out[3], kernel[3], stride[3], dilation[3], pads[6];
} Case;

static inline double
noise (guint *state)
{
  *state = *state * 1664525u + 1013904223u;
  return (double) (*state >> 8) / (1 << 24) - 0.5;
}

static inline OrtrainTensor *
make_tensor (OrtrainDType dtype, const gint64 *dims, gsize rank, guint seed)
{
  OrtrainTensor *tensor = ortrain_tensor_new_uninitialized (dtype, dims, rank, NULL);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    if (dtype == ORTRAIN_DTYPE_FLOAT64)
      ((double *) ortrain_tensor_peek_writable (tensor))[i] = noise (&seed);
    else
      ((float *) ortrain_tensor_peek_writable (tensor))[i] = (float) noise (&seed);
  return tensor;
}

static inline double
get (OrtrainTensor *tensor, gint64 i)
{
  return ortrain_tensor_get_dtype (tensor) == ORTRAIN_DTYPE_FLOAT64
             ? ((const double *) ortrain_tensor_peek (tensor))[i]
             : (double) ((const float *) ortrain_tensor_peek (tensor))[i];
}

typedef void (*Visit) (gpointer data, gint64 x, gint64 w, gint64 y);

/* All triples of elements (x, w, y) that belong together: y += w · x. */
static inline void
visit (const Case *c, Visit func, gpointer data)
{
  gint64 in = c->in[0] * c->in[1] * c->in[2], out = c->out[0] * c->out[1] * c->out[2];
  gint64 taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
  for (gint64 n = 0; n < c->n; n++)
    for (gint64 g = 0; g < c->groups; g++)
      for (gint64 o = 0; o < c->out_per_group; o++)
        for (gint64 q = 0; q < out; q++)
          for (gint64 i = 0; i < c->in_per_group; i++)
            for (gint64 t = 0; t < taps; t++)
              {
                gint64 at[3] = { q / (c->out[1] * c->out[2]), q / c->out[2] % c->out[1], q % c->out[2] };
                gint64 tap[3] = { t / (c->kernel[1] * c->kernel[2]), t / c->kernel[2] % c->kernel[1],
                                  t % c->kernel[2] };
                gboolean inside = TRUE;
                for (guint d = 0; d < 3; d++)
                  {
                    at[d] = at[d] * c->stride[d] + tap[d] * c->dilation[d] - c->pads[d];
                    inside = inside && at[d] >= 0 && at[d] < c->in[d];
                  }
                if (inside)
                  func (data,
                        ((n * c->groups + g) * c->in_per_group + i) * in + (at[0] * c->in[1] + at[1]) * c->in[2] +
                            at[2],
                        ((g * c->out_per_group + o) * c->in_per_group + i) * taps + t,
                        ((n * c->groups + g) * c->out_per_group + o) * out + q);
              }
}

typedef struct
{
  double *result, *magnitude;
  OrtrainTensor *x, *w, *y;
} Sums;

static inline void
add_y (gpointer data, gint64 x, gint64 w, gint64 y)
{
  Sums *s = data;
  s->result[y] += get (s->x, x) * get (s->w, w);
}

static inline void
add_x (gpointer data, gint64 x, gint64 w, gint64 y)
{
  Sums *s = data;
  s->result[x] += get (s->y, y) * get (s->w, w);
}

static inline void
add_w (gpointer data, gint64 x, gint64 w, gint64 y)
{
  Sums *s = data;
  s->result[w] += get (s->x, x) * get (s->y, y);
}

static inline void
set_attributes (OrtrainAttributes *attributes, const Case *c)
{
  gsize r = (gsize) c->rank, shift = 3 - r;
  gint64 pads[6];
  for (gsize i = 0; i < r; i++)
    {
      pads[i] = c->pads[shift + i];
      pads[r + i] = c->pads[3 + shift + i];
    }
  ortrain_attributes_set_ints (attributes, "strides", c->stride + shift, r);
  ortrain_attributes_set_ints (attributes, "dilations", c->dilation + shift, r);
  ortrain_attributes_set_ints (attributes, "pads", pads, 2 * r);
  ortrain_attributes_set_int (attributes, "group", c->groups);
}

static inline void
finish (Case *c)
{
  for (guint d = 0; d < 3; d++)
    c->out[d] = (c->in[d] + c->pads[d] + c->pads[3 + d] - (c->kernel[d] - 1) * c->dilation[d] - 1) / c->stride[d] + 1;
}
