/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Times convolutions and their gradients: bench-conv [threads]. Prints the best of several runs in milliseconds, and
 * the speed in GFLOP/s (of the multiplications that are there, not of those with padding). */
#include "ops/ortrain-op-private.h"
#include "provider/ortrain-provider-private.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const struct
{
  const char *name;
  gint64 n, channels, size, filters, kernel, stride, pad, group;
} shapes[] = {
  { "mnist 1-16 3x3 28", 64, 1, 28, 16, 3, 1, 1, 1 },   { "mnist 16-32 3x3 14", 64, 16, 14, 32, 3, 1, 1, 1 },
  { "stem 3-64 7x7 s2 32", 64, 3, 32, 64, 7, 2, 3, 1 }, { "64-64 3x3 8", 64, 64, 8, 64, 3, 1, 1, 1 },
  { "64-128 3x3 s2 8", 64, 64, 8, 128, 3, 2, 1, 1 },    { "128-128 3x3 4", 64, 128, 4, 128, 3, 1, 1, 1 },
  { "256-256 3x3 2", 64, 256, 2, 256, 3, 1, 1, 1 },     { "512-512 3x3 1", 64, 512, 1, 512, 3, 1, 1, 1 },
  { "64-64 3x3 56", 4, 64, 56, 64, 3, 1, 1, 1 },        { "256-64 1x1 56", 4, 256, 56, 64, 1, 1, 0, 1 },
  { "256-256 3x3 14", 4, 256, 14, 256, 3, 1, 1, 1 },    { "depthwise 96 3x3 28", 8, 96, 28, 96, 3, 1, 1, 96 },
};

/* One thread is timed by what it had of its core: other programs may be running. */
static gint64
now (OrtrainThreadPool *pool)
{
  struct timespec t;
  clock_gettime (ortrain_thread_pool_get_n_threads (pool) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return t.tv_sec * G_GINT64_CONSTANT (1000000) + t.tv_nsec / 1000;
}

static double
run (const char *domain, const char *op_type, const OrtrainAttributes *attributes, OrtrainOperand *inputs,
     OrtrainOperand *output, OrtrainThreadPool *pool, double *flops)
{
  g_autoptr (GError) error = NULL;
  const OrtrainKernel *kernel =
      ortrain_provider_find (ortrain_provider_get_cpu (), domain, op_type, inputs, 2, output, 1, &error);
  OrtrainKernelSetup setup = { .op_type = op_type,
                               .domain = domain,
                               .attributes = attributes,
                               .inputs = inputs,
                               .outputs = output,
                               .n_inputs = 2,
                               .n_outputs = 1,
                               .n_threads = ortrain_thread_pool_get_n_threads (pool) };
  if (kernel == NULL || !kernel->prepare (&setup, &error))
    {
      fprintf (stderr, "%s\n", error->message);
      exit (1);
    }
  void *memory[4];
  const gsize bytes[4] = { inputs[0].n_bytes, inputs[1].n_bytes, output->n_bytes, setup.workspace_bytes };
  for (guint i = 0; i < 4; i++)
    {
      if (posix_memalign (&memory[i], 4096, bytes[i] + 64) != 0)
        exit (1);
      for (gsize j = 0; j < bytes[i] / sizeof (float); j++)
        ((float *) memory[i])[j] = (float) (j % 17) / 17 - 0.5f;
    }
  OrtrainKernelFrame frame = { .pool = pool };
  OrtrainKernelCall call = { .inputs = (const void *const *) memory,
                             .outputs = &memory[2],
                             .workspace = memory[3],
                             .constants = setup.constants,
                             .frame = &frame };
  gint64 best = G_MAXINT64, stop = g_get_monotonic_time () + 400000;
  for (guint i = 0; i < 200 && (i < 5 || g_get_monotonic_time () < stop); i++)
    {
      gint64 start = now (pool);
      kernel->run (&call);
      best = MIN (best, now (pool) - start);
    }
  for (guint i = 0; i < 4; i++)
    free (memory[i]);
  if (setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  *flops = setup.flops;
  return (double) MAX (best, 1) / 1e3;
}

static OrtrainOperand
operand (const gint64 *dims)
{
  gint64 n = dims[0] * dims[1] * dims[2] * dims[3];
  return (OrtrainOperand){
    .dtype = ORTRAIN_DTYPE_FLOAT32, .rank = 4, .dims = dims, .n_elements = n, .n_bytes = (gsize) n * sizeof (float)
  };
}

int
main (int argc, char **argv)
{
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (argc > 1 ? (guint) atoi (argv[1]) : 1);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      gint64 out = (shapes[i].size + 2 * shapes[i].pad - shapes[i].kernel) / shapes[i].stride + 1;
      gint64 x_dims[] = { shapes[i].n, shapes[i].channels, shapes[i].size, shapes[i].size };
      gint64 w_dims[] = { shapes[i].filters, shapes[i].channels / shapes[i].group, shapes[i].kernel, shapes[i].kernel };
      gint64 y_dims[] = { shapes[i].n, shapes[i].filters, out, out };
      g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
      gint64 pads[] = { shapes[i].pad, shapes[i].pad, shapes[i].pad, shapes[i].pad };
      gint64 strides[] = { shapes[i].stride, shapes[i].stride };
      ortrain_attributes_set_ints (attributes, "pads", pads, 4);
      ortrain_attributes_set_ints (attributes, "strides", strides, 2);
      ortrain_attributes_set_int (attributes, "group", shapes[i].group);
      OrtrainOperand x = operand (x_dims), w = operand (w_dims), y = operand (y_dims);
      double flops[3], ms[3];
      ms[0] = run ("", "Conv", attributes, (OrtrainOperand[]){ x, w }, &y, pool, &flops[0]);
      ms[1] = run ("org.ortrain", "ConvGradInput", attributes, (OrtrainOperand[]){ y, w }, &x, pool, &flops[1]);
      ms[2] = run ("org.ortrain", "ConvGradWeight", attributes, (OrtrainOperand[]){ y, x }, &w, pool, &flops[2]);
      printf ("%-22s", shapes[i].name);
      for (guint k = 0; k < 3; k++)
        printf ("  %8.3f ms %6.1f", ms[k], flops[k] / ms[k] / 1e6);
      printf ("\n");
      fflush (stdout);
    }
  return 0;
}
