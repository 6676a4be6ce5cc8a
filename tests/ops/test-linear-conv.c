/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Convolutions and their two gradients against plain loops in float64, over random shapes and attributes. */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-evaluate-private.h"

#include <math.h>
#include <string.h>

typedef struct
{
  gint64 n, groups, in_per_group, out_per_group; /* channels */
  gint rank;                                     /* spatial */
  gint64 in[3], out[3], kernel[3], stride[3], dilation[3], pads[6];
} Case;

static double
noise (guint *state)
{
  *state = *state * 1664525u + 1013904223u;
  return (double) (*state >> 8) / (1 << 24) - 0.5;
}

static OrtrainTensor *
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

static double
get (OrtrainTensor *tensor, gint64 i)
{
  return ortrain_tensor_get_dtype (tensor) == ORTRAIN_DTYPE_FLOAT64
             ? ((const double *) ortrain_tensor_peek (tensor))[i]
             : (double) ((const float *) ortrain_tensor_peek (tensor))[i];
}

typedef void (*Visit) (gpointer data, gint64 x, gint64 w, gint64 y);

/* All triples of elements (x, w, y) that belong together: y += w · x. */
static void
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

static void
add_y (gpointer data, gint64 x, gint64 w, gint64 y)
{
  Sums *s = data;
  s->result[y] += get (s->x, x) * get (s->w, w);
}

static void
add_x (gpointer data, gint64 x, gint64 w, gint64 y)
{
  Sums *s = data;
  s->result[x] += get (s->y, y) * get (s->w, w);
}

static void
add_w (gpointer data, gint64 x, gint64 w, gint64 y)
{
  Sums *s = data;
  s->result[w] += get (s->x, x) * get (s->y, y);
}

static void
set_attributes (OrtrainNode *node, const Case *c)
{
  gsize r = (gsize) c->rank, shift = 3 - r;
  gint64 pads[6];
  for (gsize i = 0; i < r; i++)
    {
      pads[i] = c->pads[shift + i];
      pads[r + i] = c->pads[3 + shift + i];
    }
  ortrain_attributes_set_ints (node->attributes, "strides", c->stride + shift, r);
  ortrain_attributes_set_ints (node->attributes, "dilations", c->dilation + shift, r);
  ortrain_attributes_set_ints (node->attributes, "pads", pads, 2 * r);
  ortrain_attributes_set_int (node->attributes, "group", c->groups);
}

static OrtrainTensor *
run (const Case *c, const char *domain, const char *op_type, OrtrainTensor **inputs, guint n, OrtrainThreadPool *pool)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GError) error = NULL;
  OrtrainValue *values[3];
  for (guint i = 0; i < n; i++)
    values[i] = ortrain_graph_new_initializer (graph, "in", inputs[i]);
  OrtrainNode *node = ortrain_graph_new_node (graph, domain, op_type, "conv", values, n, 1);
  set_attributes (node, c);
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  OrtrainKernelFrame frame = { .pool = pool };
  OrtrainTensor *output = NULL;
  ortrain_evaluate_node (node, inputs, &output, &frame, &error);
  g_assert_no_error (error);
  return output;
}

static void
compare (const Case *c, const char *what, OrtrainTensor *found, const double *expected, gint64 n, double limit)
{
  g_assert_cmpint (ortrain_tensor_get_n_elements (found), ==, n);
  for (gint64 i = 0; i < n; i++)
    if (!(fabs (get (found, i) - expected[i]) <= limit))
      g_error ("%s: element %d is %.9g, not %.9g; n %d groups %d channels %d %d in %d %d %d kernel %d %d %d stride %d "
               "%d %d pads %d %d %d",
               what, (int) i, get (found, i), expected[i], (int) c->n, (int) c->groups, (int) c->in_per_group,
               (int) c->out_per_group, (int) c->in[0], (int) c->in[1], (int) c->in[2], (int) c->kernel[0],
               (int) c->kernel[1], (int) c->kernel[2], (int) c->stride[0], (int) c->stride[1], (int) c->stride[2],
               (int) c->pads[0], (int) c->pads[1], (int) c->pads[2]);
}

static void
check (const Case *c, OrtrainDType dtype, OrtrainThreadPool *pool)
{
  gsize r = (gsize) c->rank;
  gint64 x_dims[5] = { c->n, c->groups * c->in_per_group },
         w_dims[5] = { c->groups * c->out_per_group, c->in_per_group };
  gint64 y_dims[5] = { c->n, c->groups * c->out_per_group };
  for (gsize i = 0; i < r; i++)
    {
      x_dims[2 + i] = c->in[3 - r + i];
      w_dims[2 + i] = c->kernel[3 - r + i];
      y_dims[2 + i] = c->out[3 - r + i];
    }
  g_autoptr (OrtrainTensor) x = make_tensor (dtype, x_dims, 2 + r, 1);
  g_autoptr (OrtrainTensor) w = make_tensor (dtype, w_dims, 2 + r, 2);
  g_autoptr (OrtrainTensor) bias = make_tensor (dtype, y_dims + 1, 1, 3);
  double limit = dtype == ORTRAIN_DTYPE_FLOAT64 ? 1e-11 : 1e-4;

  g_autoptr (OrtrainTensor) y = run (c, "", "Conv", (OrtrainTensor *[]){ x, w, bias }, 3, pool);
  gint64 n_x = ortrain_tensor_get_n_elements (x), n_w = ortrain_tensor_get_n_elements (w),
         n_y = ortrain_tensor_get_n_elements (y);
  gint64 plane = c->out[0] * c->out[1] * c->out[2];
  g_autofree double *expected = g_new0 (double, (gsize) MAX (n_x, MAX (n_w, n_y)) + 1);
  for (gint64 i = 0; i < n_y; i++)
    expected[i] = get (bias, i / plane % y_dims[1]);
  Sums sums = { .result = expected, .x = x, .w = w, .y = y };
  visit (c, add_y, &sums);
  compare (c, "Conv", y, expected, n_y, limit);

  g_autoptr (OrtrainTensor) dy = make_tensor (dtype, y_dims, 2 + r, 4);
  g_autoptr (OrtrainTensor) x_shape = ortrain_tensor_new_ints ((gint64[]){ (gint64) r + 2 }, 1, x_dims, r + 2, NULL);
  g_autoptr (OrtrainTensor) w_shape = ortrain_tensor_new_ints ((gint64[]){ (gint64) r + 2 }, 1, w_dims, r + 2, NULL);
  sums.y = dy;
  g_autoptr (OrtrainTensor) dx =
      run (c, "org.ortrain", "ConvGradInput", (OrtrainTensor *[]){ dy, w, x_shape }, 3, pool);
  memset (expected, 0, (gsize) n_x * sizeof (double));
  visit (c, add_x, &sums);
  compare (c, "ConvGradInput", dx, expected, n_x, limit);

  g_autoptr (OrtrainTensor) dw =
      run (c, "org.ortrain", "ConvGradWeight", (OrtrainTensor *[]){ dy, x, w_shape }, 3, pool);
  memset (expected, 0, (gsize) n_w * sizeof (double));
  visit (c, add_w, &sums);
  compare (c, "ConvGradWeight", dw, expected, n_w, limit * 4);
}

static void
finish (Case *c)
{
  for (guint d = 0; d < 3; d++)
    c->out[d] = (c->in[d] + c->pads[d] + c->pads[3 + d] - (c->kernel[d] - 1) * c->dilation[d] - 1) / c->stride[d] + 1;
}

static void
test_random (void)
{
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (2);
  guint state = 42;
#define UP_TO(n) (1 + (gint64) ((noise (&state) + 0.5) * (n)))
  for (guint i = 0; i < 300; i++)
    {
      Case c = { .n = UP_TO (3),
                 .groups = UP_TO (3),
                 .in_per_group = UP_TO (5),
                 .out_per_group = UP_TO (6),
                 .rank = (gint) UP_TO (3),
                 .in = { 1, 1, 1 },
                 .kernel = { 1, 1, 1 },
                 .stride = { 1, 1, 1 },
                 .dilation = { 1, 1, 1 } };
      for (gint d = 3 - c.rank; d < 3; d++)
        {
          c.kernel[d] = UP_TO (4);
          c.stride[d] = UP_TO (3);
          c.dilation[d] = UP_TO (2);
          c.pads[d] = UP_TO (4) - 1;
          c.pads[3 + d] = UP_TO (4) - 1;
          c.in[d] = (c.kernel[d] - 1) * c.dilation[d] + UP_TO (c.rank == 3 ? 4 : 20);
        }
      if (i % 10 == 0)
        c.in_per_group = c.out_per_group = 1;
      finish (&c);
      check (&c, i % 3 == 0 ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_FLOAT64, i % 2 == 0 ? pool : NULL);
    }
}

static void
test_chosen (void)
{
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (3);
  Case cases[] = {
    /* more than one block of everything: rows, columns, sums */
    { 2, 1, 40, 70, 2, { 1, 18, 17 }, { 0 }, { 1, 3, 3 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0, 1, 1, 0, 1, 1 } },
    { 1, 1, 3, 5, 1, { 1, 1, 1300 }, { 0 }, { 1, 1, 5 }, { 1, 1, 1 }, { 1, 1, 2 }, { 0, 0, 4, 0, 0, 4 } },
    { 70, 1, 20, 30, 2, { 1, 2, 2 }, { 0 }, { 1, 3, 3 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0, 1, 1, 0, 1, 1 } },
    { 9, 1, 30, 20, 2, { 1, 1, 1 }, { 0 }, { 1, 3, 3 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0, 1, 1, 0, 1, 1 } },
    { 3, 1, 16, 300, 2, { 1, 9, 9 }, { 0 }, { 1, 1, 1 }, { 1, 2, 2 }, { 1, 1, 1 }, { 0 } },
    { 2, 1, 3, 64, 2, { 1, 32, 32 }, { 0 }, { 1, 7, 7 }, { 1, 2, 2 }, { 1, 1, 1 }, { 0, 3, 3, 0, 3, 3 } },
    { 2, 20, 1, 1, 2, { 1, 20, 40 }, { 0 }, { 1, 3, 3 }, { 1, 2, 2 }, { 1, 1, 1 }, { 0, 1, 1, 0, 1, 1 } },
    { 2, 1, 4, 300, 2, { 1, 20, 20 }, { 0 }, { 1, 3, 3 }, { 1, 3, 3 }, { 1, 1, 1 }, { 0 } },
    { 1, 1, 2, 2, 3, { 8, 8, 8 }, { 0 }, { 7, 7, 7 }, { 1, 1, 1 }, { 1, 1, 1 }, { 3, 3, 3, 3, 3, 3 } },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      finish (&cases[i]);
      check (&cases[i], ORTRAIN_DTYPE_FLOAT64, pool);
      check (&cases[i], ORTRAIN_DTYPE_FLOAT32, pool);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/linear/conv/random", test_random);
  g_test_add_func ("/linear/conv/chosen", test_chosen);
  return g_test_run ();
}
