/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Convolutions and their two gradients against plain loops in float64, over random shapes and attributes. */
#include "conv-reference.h"

#include "host-context.h"
#include "specialize/ortrain-host-evaluator-private.h"

#include <math.h>
#include <string.h>

static OrtrainTensor *
run (const Case *c, const char *domain, const char *op_type, OrtrainTensor **inputs, guint n, OrtrainProvider *provider)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GError) error = NULL;
  OrtrainValue *values[3];
  for (guint i = 0; i < n; i++)
    values[i] = ortrain_graph_new_initializer (graph, "in", inputs[i]);
  OrtrainNode *node = ortrain_graph_new_node (graph, domain, op_type, "conv", values, n, 1);
  set_attributes (node->attributes, c);
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  OrtrainHostContext context;
  init_context (&context, provider);
  OrtrainTensor *output = NULL;
  ortrain_evaluate_node (node, inputs, &output, &context, &error);
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
check (const Case *c, OrtrainDType dtype, OrtrainProvider *provider)
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

  g_autoptr (OrtrainTensor) y = run (c, "", "Conv", (OrtrainTensor *[]){ x, w, bias }, 3, provider);
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
      run (c, "org.ortrain", "ConvGradInput", (OrtrainTensor *[]){ dy, w, x_shape }, 3, provider);
  memset (expected, 0, (gsize) n_x * sizeof (double));
  visit (c, add_x, &sums);
  compare (c, "ConvGradInput", dx, expected, n_x, limit);

  g_autoptr (OrtrainTensor) dw =
      run (c, "org.ortrain", "ConvGradWeight", (OrtrainTensor *[]){ dy, x, w_shape }, 3, provider);
  memset (expected, 0, (gsize) n_w * sizeof (double));
  visit (c, add_w, &sums);
  compare (c, "ConvGradWeight", dw, expected, n_w, limit * 4);
}

static void
test_random (void)
{
  g_autoptr (OrtrainProvider) provider = new_cpu (2);
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
      check (&c, i % 3 == 0 ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_FLOAT64, i % 2 == 0 ? provider : NULL);
    }
}

static void
test_chosen (void)
{
  g_autoptr (OrtrainProvider) provider = new_cpu (3);
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
      check (&cases[i], ORTRAIN_DTYPE_FLOAT64, provider);
      check (&cases[i], ORTRAIN_DTYPE_FLOAT32, provider);
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
