/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Times kernels in float32 and in bfloat16, taking turns, at the sizes of a small transformer (rows of 768, 4 × 12
 * heads of 64, length 256, 50257 classes) and of a small image network: [COLD=1] bench-half [SECONDS [NAME]] one
 * thread; milliseconds, best of many runs, forward and backward Operands stay in the caches between runs if they fit;
 * with COLD they are in memory only, as after other kernels of a step. Statistics and parameters are float32 in both.
 * The last column tells runs apart: a hash of the float32 outputs. */
#include "host-context.h"
#include "kernel-abi/ortrain-attributes-private.h"
#include "provider/ortrain-provider-private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Operands: dimensions, then i: int64, b: bool, s: float32 in both, p: positive. */
typedef struct
{
  const char *name, *domain, *op_type, *attributes;
  const char *inputs[7], *outputs[4];
} Case;

#define ROWS "1024 768"
#define HEADS "4 256 12 64"
#define IMAGE "32 64 32 32"
static const Case cases[] = {
  { "layer norm", "", "LayerNormalization", "", { ROWS, "768 s", "768 s" }, { ROWS, "1024 s", "1024 s" } },
  { "layer norm grad",
    "org.ortrain",
    "LayerNormGrad",
    "",
    { ROWS, ROWS, "768 s", "1024 s", "1024 sp" },
    { ROWS, "768 s", "768 s" } },
  { "softmax", "", "Softmax", "", { "12288 256" }, { "12288 256" } },
  { "softmax grad", "org.ortrain", "SoftmaxGrad", "", { "12288 256", "12288 256" }, { "12288 256" } },
  { "cross entropy", "org.ortrain", "CrossEntropy", "", { "1024 50257", "1024 i" }, { "s", "1024 s", "s" } },
  { "cross entropy grad",
    "org.ortrain",
    "CrossEntropyGrad",
    "",
    { "sp", "1024 50257", "1024 i", "1024 sp", "sp" },
    { "1024 50257" } },
  { "attention", "org.ortrain", "Attention", "packed=15 ", { HEADS, HEADS, HEADS }, { HEADS, "4 12 256 s" } },
  { "attention grad",
    "org.ortrain",
    "AttentionGrad",
    "packed=15 ",
    { HEADS, HEADS, HEADS, HEADS, "4 12 256 sp" },
    { HEADS, HEADS, HEADS } },
  { "causal attention",
    "org.ortrain",
    "Attention",
    "packed=15 ",
    { HEADS, HEADS, HEADS, "256 256 b" },
    { HEADS, "4 12 256 s" } },
  { "causal attention grad",
    "org.ortrain",
    "AttentionGrad",
    "packed=15 ",
    { HEADS, HEADS, HEADS, HEADS, "4 12 256 sp", "256 256 b" },
    { HEADS, HEADS, HEADS } },
  { "group norm", "", "GroupNormalization", "num_groups=8 ", { IMAGE, "64 s", "64 s" }, { IMAGE } },
  { "group norm grad",
    "org.ortrain",
    "GroupNormGrad",
    "num_groups=8 ",
    { IMAGE, IMAGE, "64 s" },
    { IMAGE, "64 s", "64 s" } },
  { "batch norm",
    "org.ortrain",
    "BatchNormTrain",
    "",
    { IMAGE, "64 s", "64 s", "64 s", "64 sp" },
    { IMAGE, "64 s", "64 s", "64 s" } },
  { "batch norm grad",
    "org.ortrain",
    "BatchNormGrad",
    "",
    { IMAGE, IMAGE, "64 s", "64 s", "64 sp" },
    { IMAGE, "64 s", "64 s" } },
  { "batch norm, rows",
    "org.ortrain",
    "BatchNormTrain",
    "",
    { "4096 256", "256 s", "256 s", "256 s", "256 sp" },
    { "4096 256", "256 s", "256 s", "256 s" } },
};

typedef struct
{
  OrtrainOperand operands[2][7];
  gint64 dims[2][7][4];
  void *data[2][7];
  OrtrainKernelSetup setup;
  OrtrainKernelCall call;
  const OrtrainKernel *kernel;
  OrtrainHostContext context;
  guint n[2];
} Run;

static void
operand_init (Run *run, guint side, guint i, const char *text, OrtrainDType dtype)
{
  OrtrainOperand *operand = &run->operands[side][i];
  gint64 *dims = run->dims[side][i];
  char *end;
  operand->n_elements = 1;
  for (;; text = end)
    {
      gint64 dim = g_ascii_strtoll (text, &end, 10);
      if (end == text)
        break;
      dims[operand->rank++] = dim;
      operand->n_elements *= dim;
    }
  operand->dims = dims;
  operand->dtype = strchr (text, 'i')   ? ORTRAIN_DTYPE_INT64
                   : strchr (text, 'b') ? ORTRAIN_DTYPE_BOOL
                   : strchr (text, 's') ? ORTRAIN_DTYPE_FLOAT32
                                        : dtype;
  operand->n_bytes = (gsize) operand->n_elements * ortrain_dtype_get_size (operand->dtype);
  run->data[side][i] = aligned_alloc (4096, (operand->n_bytes + 4095) & ~(gsize) 4095);
  for (gint64 k = 0; k < operand->n_elements; k++)
    {
      float x = sinf (0.37f * (float) k + (float) i) + (strchr (text, 'p') ? 1.5f : 0);
      if (operand->dtype == ORTRAIN_DTYPE_INT64)
        ((gint64 *) run->data[side][i])[k] = k * 37 % 50257;
      else if (operand->dtype == ORTRAIN_DTYPE_BOOL)
        ((guint8 *) run->data[side][i])[k] = k % 256 <= k / 256;
      else if (operand->dtype == ORTRAIN_DTYPE_FLOAT32)
        ((float *) run->data[side][i])[k] = x;
      else
        ((guint16 *) run->data[side][i])[k] = ortrain_dtype_narrow (dtype, x);
    }
}

static void
run_init (Run *run, const Case *what, OrtrainDType dtype)
{
  g_autoptr (GError) error = NULL;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  memset (run, 0, sizeof *run);
  init_context (&run->context, NULL);
  for (const char *at = what->attributes; *at != '\0'; at = strchr (at, ' ') + 1)
    {
      g_autofree char *name = g_strndup (at, (gsize) (strchr (at, '=') - at));
      ortrain_attributes_set_int (attributes, name, atoi (strchr (at, '=') + 1));
    }
  for (guint side = 0; side < 2; side++)
    for (guint i = 0; i < (side ? 4 : 7) && (side ? what->outputs : what->inputs)[i] != NULL; i++)
      operand_init (run, side, run->n[side]++, (side ? what->outputs : what->inputs)[i], dtype);
  run->kernel = ortrain_provider_find (run->context.provider, what->domain, what->op_type, run->operands[0], run->n[0],
                                       run->operands[1], run->n[1], &error);
  g_assert_no_error (error);
  run->setup = (OrtrainKernelSetup){ .op_type = what->op_type,
                                     .domain = what->domain,
                                     .attributes = attributes,
                                     .inputs = run->operands[0],
                                     .outputs = run->operands[1],
                                     .n_inputs = run->n[0],
                                     .n_outputs = run->n[1],
                                     .provider = run->context.provider };
  ortrain_kernel_prepare (run->kernel, &run->setup, &error);
  g_assert_no_error (error);
  run->call = (OrtrainKernelCall){ .inputs = (const void *const *) run->data[0],
                                   .outputs = run->data[1],
                                   .n_inputs = run->n[0],
                                   .n_outputs = run->n[1],
                                   .constants = run->setup.constants,
                                   .context = &run->context.context };
  run->call.workspace = aligned_alloc (64, (run->setup.workspace_bytes + 64) & ~(gsize) 63);
  ortrain_attributes_free (attributes);
}

/* Memory that is written to drive the operands out of the caches. */
#define COLD ((gsize) 96 << 20)
static void *cold;

static double
run_once (Run *run)
{
  struct timespec before, after;
  if (cold != NULL)
    memset (cold, 1, COLD);
  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &before);
  run->kernel->run (&run->call);
  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &after);
  return (double) (after.tv_sec - before.tv_sec) * 1e3 + (double) (after.tv_nsec - before.tv_nsec) / 1e6;
}

static void
run_clear (Run *run)
{
  for (guint side = 0; side < 2; side++)
    for (guint i = 0; i < run->n[side]; i++)
      free (run->data[side][i]);
  free (run->call.workspace);
  if (run->setup.constants_free != NULL)
    run->setup.constants_free (run->setup.constants);
}

static guint64
run_hash (const Run *run)
{
  guint64 hash = 1469598103934665603u;
  for (guint k = 0; k < run->n[1]; k++)
    for (gsize i = 0; i < run->operands[1][k].n_bytes; i++)
      hash = (hash ^ ((const guint8 *) run->data[1][k])[i]) * 1099511628211u;
  return hash;
}

int
main (int argc, char **argv)
{
  const double seconds = argc > 1 ? atof (argv[1]) : 1;
  if (g_getenv ("COLD") != NULL)
    cold = g_malloc (COLD);
  printf ("%-24s %10s %10s %6s %12s %18s\n", "kernel", "float32", "bfloat16", "ratio", "workspace", "hash");
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Run runs[2];
      double best[2] = { INFINITY, INFINITY };
      guint64 hash;
      if (argc > 2 && strstr (cases[i].name, argv[2]) == NULL)
        continue;
      run_init (&runs[0], &cases[i], ORTRAIN_DTYPE_FLOAT32);
      run_init (&runs[1], &cases[i], ORTRAIN_DTYPE_BFLOAT16);
      run_once (&runs[0]);
      hash = run_hash (&runs[0]);
      gint64 stop = g_get_monotonic_time () + (gint64) (seconds * 1e6);
      for (guint turn = 0; turn < 6 || g_get_monotonic_time () < stop; turn++)
        for (int k = 0; k < 2; k++)
          best[k] = MIN (best[k], run_once (&runs[k]));
      printf ("%-24s %10.4f %10.4f %6.3f %12" G_GSIZE_FORMAT " %18" G_GINT64_MODIFIER "x\n", cases[i].name, best[0],
              best[1], best[1] / best[0], runs[1].setup.workspace_bytes, hash);
      fflush (stdout);
      run_clear (&runs[0]);
      run_clear (&runs[1]);
    }
  return 0;
}
