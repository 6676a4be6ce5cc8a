/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Times convolutions and their gradients, and oneDNN's primitives for comparison: bench-conv SHAPES [threads] a table:
 *   milliseconds of both, and our speed in GFLOP/s bench-conv SHAPES threads --serve reads "SHAPE PRODUCT
 *   IMPLEMENTATION SECONDS" lines and answers milliseconds bench-conv SHAPES threads --types a table: milliseconds of
 *   ours in float32, bfloat16 and float16 SHAPES is a file like conv-shapes.txt. The figure is the best of several
 *   runs; the multiplications counted are those that the kernel does, padding left out where it leaves it out. oneDNN's
 *   figure includes the reorders between the plain layout and the one that its primitive chooses, as a training step
 *   would have to do them. */
#include "cpu/ortrain-cpu-device-private.h"
#include "host-context.h"
#include "ops/ortrain-op-private.h"
#include "provider/ortrain-provider-private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef ORTRAIN_HAVE_DNNL
#include <dlfcn.h>
#include <dnnl.h>
#endif

typedef struct
{
  char *text;
  gboolean transposed;
  guint rank; /* spatial */
  gint64 large[5], small[5], weights[5];
  gint64 stride[3], dilation[3], pads[6];
  gint64 group;
} Shape;

/* In terms of the convolution, whose input is the large side and whose output the small one. */
typedef enum
{
  PRODUCT_SMALL,   /* Conv */
  PRODUCT_LARGE,   /* ConvGradInput, ConvTranspose */
  PRODUCT_WEIGHTS, /* ConvGradWeight */
} Product;

typedef enum
{
  IMPLEMENTATION_OWN,
  IMPLEMENTATION_ONEDNN,
} Implementation;

/* One thread is timed by its processor time: other programs may be running. */
static guint
count_threads (OrtrainProvider *provider)
{
  return ortrain_thread_pool_get_n_threads (((OrtrainCpuProvider *) provider)->pool);
}

static double
now (guint n_threads)
{
  struct timespec t;
  clock_gettime (n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

typedef void (*TimedFunc) (gpointer data);

static double
best_of (TimedFunc func, gpointer data, guint n_threads, double seconds)
{
  double best = G_MAXDOUBLE;
  gint64 stop = g_get_monotonic_time () + (gint64) (seconds * 1e6);
  func (data);
  for (guint i = 0; i < 3 || g_get_monotonic_time () < stop; i++)
    {
      double start = now (n_threads);
      func (data);
      best = MIN (best, now (n_threads) - start);
    }
  return best;
}

/* ---- shapes ---- */

static guint
read_numbers (const char *text, gint64 *numbers, guint most)
{
  guint n = 0;
  while (n < most)
    {
      char *end;
      numbers[n++] = g_ascii_strtoll (text, &end, 10);
      if (*end != 'x' && *end != ',')
        break;
      text = end + 1;
    }
  return n;
}

static const char *
find_field (char **words, const char *name)
{
  for (guint i = 1; words[i] != NULL; i++)
    if (g_str_has_prefix (words[i], name) && words[i][strlen (name)] == '=')
      return words[i] + strlen (name) + 1;
  return NULL;
}

static void
read_field (char **words, const char *name, gint64 fallback, gint64 *numbers, guint n)
{
  const char *text = find_field (words, name);
  guint found = 0;
  if (text != NULL)
    found = read_numbers (text, numbers, n);
  for (guint i = found; i < n; i++)
    numbers[i] = found == 0 ? fallback : numbers[i % found];
}

static gboolean
read_shape (const char *line, Shape *shape)
{
  g_auto (GStrv) words = g_strsplit (line, " ", -1);
  gint64 size[3], kernel[3], n, channels, filters;
  *shape = (Shape){ .text = g_strdup (line), .transposed = g_str_equal (words[0], "Transposed") };
  if (find_field (words, "size") == NULL || find_field (words, "kernel") == NULL)
    return FALSE;
  shape->rank = read_numbers (find_field (words, "size"), size, 3);
  const guint r = shape->rank;
  read_field (words, "kernel", 1, kernel, r);
  read_field (words, "stride", 1, shape->stride, r);
  read_field (words, "dilation", 1, shape->dilation, r);
  read_field (words, "pad", 0, shape->pads, 2 * r);
  read_field (words, "n", 1, &n, 1);
  read_field (words, "channels", 1, &channels, 1);
  read_field (words, "filters", 1, &filters, 1);
  read_field (words, "group", 1, &shape->group, 1);
  gint64 *in = shape->transposed ? shape->small : shape->large, *out = shape->transposed ? shape->large : shape->small;
  in[0] = out[0] = n;
  in[1] = channels;
  out[1] = filters;
  shape->weights[0] = shape->small[1];
  shape->weights[1] = shape->large[1] / shape->group;
  for (guint i = 0; i < r; i++)
    {
      gint64 pad = shape->pads[i] + shape->pads[r + i], extent = (kernel[i] - 1) * shape->dilation[i] + 1;
      in[2 + i] = size[i];
      out[2 + i] = shape->transposed ? (size[i] - 1) * shape->stride[i] + extent - pad
                                     : (size[i] + pad - extent) / shape->stride[i] + 1;
      shape->weights[2 + i] = kernel[i];
    }
  return TRUE;
}

static GArray *
read_shapes (const char *path)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  GArray *shapes = g_array_new (FALSE, FALSE, sizeof (Shape));
  if (!g_file_get_contents (path, &text, NULL, &error))
    {
      fprintf (stderr, "%s\n", error->message);
      exit (1);
    }
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      Shape shape;
      if (lines[i][0] == '#' || lines[i][0] == 0)
        continue;
      if (!read_shape (lines[i], &shape))
        {
          fprintf (stderr, "%s: line %u: size and kernel are missing\n", path, i + 1);
          exit (1);
        }
      g_array_append_val (shapes, shape);
    }
  return shapes;
}

static gint64
count (const gint64 *dims, guint rank)
{
  gint64 n = 1;
  for (guint i = 0; i < rank; i++)
    n *= dims[i];
  return n;
}

static float *
new_floats (gint64 n)
{
  void *memory;
  if (posix_memalign (&memory, 4096, (gsize) n * sizeof (float) + 64) != 0)
    exit (1);
  for (gint64 i = 0; i < n; i++)
    ((float *) memory)[i] = (float) (i % 17) / 17 - 0.5f;
  return memory;
}

/* ---- ours ---- */

static OrtrainOperand
operand (const gint64 *dims, guint rank, OrtrainDType dtype)
{
  const gint64 n = count (dims, rank);
  return (OrtrainOperand){
    .dtype = dtype, .rank = rank, .dims = dims, .n_elements = n, .n_bytes = (gsize) n * ortrain_dtype_get_size (dtype)
  };
}

typedef struct
{
  const OrtrainKernel *kernel;
  OrtrainKernelCall call;
} OwnRun;

static void
run_own (gpointer data)
{
  OwnRun *run = data;
  run->kernel->run (&run->call);
}

static double
time_own (const Shape *shape, Product product, OrtrainDType dtype, OrtrainProvider *provider, double seconds,
          double *flops, gsize *workspace_bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  const guint r = shape->rank;
  ortrain_attributes_set_ints (attributes, "pads", shape->pads, 2 * r);
  ortrain_attributes_set_ints (attributes, "strides", shape->stride, r);
  ortrain_attributes_set_ints (attributes, "dilations", shape->dilation, r);
  ortrain_attributes_set_int (attributes, "group", shape->group);
  OrtrainOperand large = operand (shape->large, r + 2, dtype), small = operand (shape->small, r + 2, dtype);
  OrtrainOperand weights = operand (shape->weights, r + 2, dtype);
  OrtrainOperand inputs[] = { product == PRODUCT_SMALL ? large : small, product == PRODUCT_WEIGHTS ? large : weights };
  OrtrainOperand output = product == PRODUCT_SMALL ? small : product == PRODUCT_LARGE ? large : weights;
  const char *const names[] = { "Conv", shape->transposed ? "ConvTranspose" : "ConvGradInput", "ConvGradWeight" };
  const char *op_type = names[product], *domain = strstr (op_type, "Grad") != NULL ? "org.ortrain" : "";
  const OrtrainKernel *kernel =
      ortrain_provider_find (ortrain_provider_get_host (), domain, op_type, inputs, 2, &output, 1, &error);
  OrtrainKernelSetup setup = { .op_type = op_type,
                               .domain = domain,
                               .attributes = attributes,
                               .inputs = inputs,
                               .outputs = &output,
                               .n_inputs = 2,
                               .n_outputs = 1,
                               .provider = provider };
  if (kernel == NULL || !kernel->prepare (&setup, &error))
    {
      fprintf (stderr, "%s: %s\n", shape->text, error->message);
      exit (1);
    }
  void *memory[] = { new_floats (inputs[0].n_elements), new_floats (inputs[1].n_elements),
                     new_floats (output.n_elements), new_floats ((gint64) (setup.workspace_bytes / sizeof (float))) };
  OrtrainHostContext context;
  init_context (&context, provider);
  OwnRun run = { kernel,
                 { .inputs = (const void *const *) memory,
                   .outputs = &memory[2],
                   .workspace = memory[3],
                   .constants = setup.constants,
                   .context = &context.context } };
  double best = best_of (run_own, &run, count_threads (provider), seconds);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    free (memory[i]);
  if (setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  *flops = setup.flops;
  *workspace_bytes = setup.workspace_bytes;
  return best;
}

/* ---- oneDNN's ---- */

#ifdef ORTRAIN_HAVE_DNNL
enum
{
  LARGE,
  WEIGHTS,
  SMALL,
  N_OPERANDS,
};

typedef struct
{
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t convolution;
  dnnl_memory_t plain[N_OPERANDS], chosen[N_OPERANDS];
  dnnl_primitive_t reorder[N_OPERANDS]; /* NULL: the layouts agree */
  guint result;
} LibraryRun;

static void
run_library (gpointer data)
{
  LibraryRun *run = data;
  for (guint i = 0; i < N_OPERANDS; i++)
    if (i != run->result && run->reorder[i] != NULL)
      {
        dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, run->plain[i] }, { DNNL_ARG_TO, run->chosen[i] } };
        dnnl_primitive_execute (run->reorder[i], run->stream, 2, args);
      }
  static const int names[3][N_OPERANDS] = {
    [SMALL] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
    [LARGE] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST },
    [WEIGHTS] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST },
  };
  dnnl_exec_arg_t args[N_OPERANDS];
  for (guint i = 0; i < N_OPERANDS; i++)
    args[i] = (dnnl_exec_arg_t){ names[run->result][i], run->chosen[i] };
  dnnl_primitive_execute (run->convolution, run->stream, N_OPERANDS, args);
  const guint r = run->result;
  if (run->reorder[r] != NULL)
    {
      dnnl_exec_arg_t back[] = { { DNNL_ARG_FROM, run->chosen[r] }, { DNNL_ARG_TO, run->plain[r] } };
      dnnl_primitive_execute (run->reorder[r], run->stream, 2, back);
    }
  dnnl_stream_wait (run->stream);
}

static double
time_library (const Shape *shape, Product product, guint n_threads, double seconds)
{
  void (*set_threads) (int) = (void (*) (int)) dlsym (RTLD_DEFAULT, "omp_set_num_threads");
  if (set_threads != NULL)
    set_threads ((int) n_threads);
  const int r = (int) shape->rank;
  const guint results[] = { SMALL, LARGE, WEIGHTS };
  LibraryRun run = { .result = results[product] };
  dnnl_engine_create (&run.engine, dnnl_cpu, 0);
  dnnl_stream_create (&run.stream, run.engine, dnnl_stream_default_flags);
  dnnl_dims_t dims[N_OPERANDS], strides, dilates, begin, end;
  int rank[] = { r + 2, r + 2, r + 2 };
  memcpy (dims[LARGE], shape->large, sizeof shape->large);
  memcpy (dims[SMALL], shape->small, sizeof shape->small);
  if (shape->group > 1)
    {
      dims[WEIGHTS][0] = shape->group;
      dims[WEIGHTS][1] = shape->weights[0] / shape->group;
      memcpy (dims[WEIGHTS] + 2, shape->weights + 1, (gsize) (r + 1) * sizeof (gint64));
      rank[WEIGHTS]++;
    }
  else
    memcpy (dims[WEIGHTS], shape->weights, sizeof shape->weights);
  for (int i = 0; i < r; i++)
    {
      strides[i] = shape->stride[i];
      dilates[i] = shape->dilation[i] - 1;
      begin[i] = shape->pads[i];
      end[i] = (shape->small[2 + i] - 1) * shape->stride[i] + (shape->weights[2 + i] - 1) * shape->dilation[i] + 1 -
               shape->large[2 + i] - begin[i];
    }
  dnnl_memory_desc_t any[N_OPERANDS], plain[N_OPERANDS];
  static const dnnl_format_tag_t tags[] = { dnnl_abc, dnnl_abcd, dnnl_abcde, dnnl_abcdef };
  for (guint i = 0; i < N_OPERANDS; i++)
    {
      dnnl_memory_desc_init_by_tag (&any[i], rank[i], dims[i], dnnl_f32, dnnl_format_tag_any);
      dnnl_memory_desc_init_by_tag (&plain[i], rank[i], dims[i], dnnl_f32, tags[rank[i] - 3]);
    }
  dnnl_convolution_desc_t forward, backward;
  dnnl_primitive_desc_t hint = NULL, chosen = NULL;
  dnnl_dilated_convolution_forward_desc_init (&forward, dnnl_forward_training, dnnl_convolution_direct, &any[LARGE],
                                              &any[WEIGHTS], NULL, &any[SMALL], strides, dilates, begin, end);
  dnnl_status_t status = dnnl_primitive_desc_create (&hint, &forward, NULL, run.engine, NULL);
  if (status == dnnl_success && product == PRODUCT_SMALL)
    {
      chosen = hint;
      hint = NULL;
    }
  else if (status == dnnl_success)
    {
      if (product == PRODUCT_LARGE)
        dnnl_dilated_convolution_backward_data_desc_init (&backward, dnnl_convolution_direct, &any[LARGE],
                                                          &any[WEIGHTS], &any[SMALL], strides, dilates, begin, end);
      else
        dnnl_dilated_convolution_backward_weights_desc_init (&backward, dnnl_convolution_direct, &any[LARGE],
                                                             &any[WEIGHTS], NULL, &any[SMALL], strides, dilates, begin,
                                                             end);
      status = dnnl_primitive_desc_create (&chosen, &backward, NULL, run.engine, hint);
    }
  if (status != dnnl_success)
    return G_MAXDOUBLE;
  dnnl_primitive_create (&run.convolution, chosen);
  static const dnnl_query_t queries[3][N_OPERANDS] = {
    [SMALL] = { dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md },
    [LARGE] = { dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md },
    [WEIGHTS] = { dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md },
  };
  const gint64 *sizes[] = { shape->large, shape->weights, shape->small };
  float *memory[N_OPERANDS];
  for (guint i = 0; i < N_OPERANDS; i++)
    {
      const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md (chosen, queries[run.result][i], 0);
      memory[i] = new_floats (count (sizes[i], (guint) r + 2));
      dnnl_memory_create (&run.plain[i], &plain[i], run.engine, memory[i]);
      if (dnnl_memory_desc_equal (&plain[i], wanted))
        {
          run.chosen[i] = run.plain[i];
          continue;
        }
      dnnl_memory_create (&run.chosen[i], wanted, run.engine, DNNL_MEMORY_ALLOCATE);
      gboolean back = i == run.result;
      dnnl_primitive_desc_t reorder;
      dnnl_reorder_primitive_desc_create (&reorder, back ? wanted : &plain[i], run.engine, back ? &plain[i] : wanted,
                                          run.engine, NULL);
      dnnl_primitive_create (&run.reorder[i], reorder);
      dnnl_primitive_desc_destroy (reorder);
    }
  double best = best_of (run_library, &run, n_threads, seconds);
  for (guint i = 0; i < N_OPERANDS; i++)
    {
      if (run.chosen[i] != run.plain[i])
        {
          dnnl_memory_destroy (run.chosen[i]);
          dnnl_primitive_destroy (run.reorder[i]);
        }
      dnnl_memory_destroy (run.plain[i]);
      free (memory[i]);
    }
  dnnl_primitive_destroy (run.convolution);
  dnnl_primitive_desc_destroy (chosen);
  if (hint != NULL)
    dnnl_primitive_desc_destroy (hint);
  dnnl_stream_destroy (run.stream);
  dnnl_engine_destroy (run.engine);
  return best;
}
#else
static double
time_library (const Shape *shape, Product product, guint n_threads, double seconds)
{
  return G_MAXDOUBLE;
}
#endif

/* ---- */

/* The forward pass, the input's gradient and the weights' gradient of the shape in the line. */
static const Product forward_order[] = { PRODUCT_SMALL, PRODUCT_LARGE, PRODUCT_WEIGHTS };
static const Product transposed_order[] = { PRODUCT_LARGE, PRODUCT_SMALL, PRODUCT_WEIGHTS };

static Product
get_product (const Shape *shape, guint i)
{
  return (shape->transposed ? transposed_order : forward_order)[i];
}

static int
serve (GArray *shapes, OrtrainProvider *provider)
{
  guint index, product, implementation;
  double seconds, flops = 0;
  gsize bytes;
  while (scanf ("%u %u %u %lf", &index, &product, &implementation, &seconds) == 4)
    {
      if (index >= shapes->len || product > 2)
        return 1;
      const Shape *shape = &g_array_index (shapes, Shape, index);
      double ms =
          implementation == IMPLEMENTATION_OWN
              ? time_own (shape, get_product (shape, product), ORTRAIN_DTYPE_FLOAT32, provider, seconds, &flops, &bytes)
              : time_library (shape, get_product (shape, product), count_threads (provider), seconds);
      printf ("%.6f\n", ms < G_MAXDOUBLE ? ms : 0.0);
      fflush (stdout);
    }
  return 0;
}

/* Memory for float32 is filled whatever the type: as 16 bits, half of the numbers are small ones without a pattern. */
static int
compare_types (GArray *shapes, OrtrainProvider *provider)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  for (guint i = 0; i < shapes->len; i++)
    {
      const Shape *shape = &g_array_index (shapes, Shape, i);
      for (guint k = 0; k < 3; k++)
        {
          double flops, ms[G_N_ELEMENTS (types)];
          gsize bytes;
          for (guint t = 0; t < G_N_ELEMENTS (types); t++)
            ms[t] = time_own (shape, get_product (shape, k), types[t], provider, 0.2, &flops, &bytes);
          printf ("%8.3f %8.3f %8.3f (%.2f)%s", ms[0], ms[1], ms[2], ms[0] / ms[1], k == 2 ? "  " : " |");
        }
      printf ("%s\n", shape->text);
      fflush (stdout);
    }
  return 0;
}

int
main (int argc, char **argv)
{
  if (argc < 2)
    {
      fprintf (stderr, "bench-conv SHAPES [threads] [--serve|--types]\n");
      return 1;
    }
  g_autoptr (GArray) shapes = read_shapes (argv[1]);
  g_autoptr (OrtrainProvider) provider = new_cpu (argc > 2 ? (guint) atoi (argv[2]) : 1);
  if (argc > 3 && g_str_equal (argv[3], "--serve"))
    return serve (shapes, provider);
  if (argc > 3 && g_str_equal (argv[3], "--types"))
    return compare_types (shapes, provider);
  for (guint i = 0; i < shapes->len; i++)
    {
      const Shape *shape = &g_array_index (shapes, Shape, i);
      for (guint k = 0; k < 3; k++)
        {
          double flops;
          gsize bytes;
          double own = time_own (shape, get_product (shape, k), ORTRAIN_DTYPE_FLOAT32, provider, 0.1, &flops, &bytes);
          double library = time_library (shape, get_product (shape, k), count_threads (provider), 0.1);
          printf ("%9.3f ms %6.1f  %9.3f ms  %8.3f MB  %s%s", own, flops / own / 1e6,
                  library < G_MAXDOUBLE ? library : 0.0, (double) bytes / 1e6, k == 2 ? shape->text : "",
                  k == 2 ? "\n" : " |");
        }
      fflush (stdout);
    }
  return 0;
}
