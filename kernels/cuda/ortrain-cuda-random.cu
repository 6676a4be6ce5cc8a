/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"
#include "cuda/ortrain-cuda-elements.h"

/* Random numbers come from Philox, keyed by seed, step and the node's number, and counted by the element: the same
 * words as on the CPU. So dropout keeps no mask: its gradient draws the same one. A thread has the four words of a
 * block. */

typedef enum
{
  RANDOM_NORMAL,
  RANDOM_UNIFORM,
  RANDOM_BERNOULLI,
} RandomKind;

typedef struct
{
  RandomKind kind;
  OrtrainDType dtype;       /* of output 0 */
  OrtrainDType input_dtype; /* of input 0 */
  OrtrainDType ratio_dtype;
  guint n_inputs, n_outputs;
  gint64 n;
  gboolean has_seed, has_node;
  guint64 seed;
  guint32 node;
  double a, b; /* mean and scale, or low and high */
} Plan;

static __device__ __forceinline__ void
draw (const Plan &plan, const OrtrainStepBlock *step, guint32 node_number, gint64 block, guint32 words[4])
{
  OrtrainPhiloxKey key = ortrain_cuda_philox_key (step, plan.has_node ? plan.node : node_number);
  if (plan.has_seed)
    key.seed = plan.seed;
  ortrain_philox (&key, (guint64) block, words);
}

static Plan *
new_plan (OrtrainKernelSetup *setup)
{
  Plan *plan = g_new0 (Plan, 1);
  plan->dtype = setup->outputs[0].dtype;
  plan->n = setup->outputs[0].n_elements;
  plan->n_inputs = setup->n_inputs;
  plan->n_outputs = setup->n_outputs;
  if (setup->n_inputs > 0)
    plan->input_dtype = setup->inputs[0].dtype;
  plan->has_seed = ortrain_cuda_library->attributes_has (setup->attributes, "seed");
  if (plan->has_seed)
    {
      const OrtrainAttribute *seed = ortrain_cuda_library->attributes_lookup (setup->attributes, "seed");
      plan->seed = seed->kind == ORTRAIN_ATTRIBUTE_INT ? (guint64) seed->v.i : (guint64) (gint64) seed->v.f;
    }
  plan->has_node = ortrain_cuda_library->attributes_has (setup->attributes, "forward_node");
  plan->node = (guint32) ORTRAIN_CUDA_INT (setup, "forward_node", 0);
  setup->constants = plan;
  setup->constants_free = g_free;
  return plan;
}

/* ---- Dropout (x[, ratio[, training]]) → (y[, mask]); DropoutGrad (dy[, ratio[, training]]) {forward_node} ---- */

/* x, y, mask: [n]; T: of x. ratio, training, mask: NULL where absent. aligned: four elements are read and written at
 * once */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    dropout_kernel (const T *x, void *y, guint8 *mask, const void *ratio, const guint8 *training, const Plan plan,
                    const OrtrainStepBlock *step, guint32 node_number, bool aligned, OrtrainFaultPlace fault)
{
  typedef typename OrtrainWide<T>::Type A;
  const double p = ratio != NULL ? ortrain_cuda_load_real (ratio, 0, plan.ratio_dtype) : 0.5;
  const bool same = plan.input_dtype == plan.dtype;
  if (!(p >= 0 && p < 1))
    {
      union
      {
        double number;
        gint64 bits;
      } value = { p };
      if (ortrain_cuda_first () == 0)
        fault.report (ORTRAIN_FAULT_NUMBER, 1, value.bits, 0);
      return;
    }
  const bool drops = training != NULL && *training != 0 && p > 0;
  const guint32 threshold = (guint32) ceil (p * 0x1p24); /* u >= ratio, for u of 24 bits */
  const A scale = (A) (1 / (1 - p));
  for (gint64 block = ortrain_cuda_first (); block * 4 < plan.n; block += ortrain_cuda_stride ())
    {
      const gint64 i = block * 4;
      const int n = plan.n - i < 4 ? (int) (plan.n - i) : 4;
      guint32 words[4] = { 0, 0, 0, 0 };
      bool stays[4];
      OrtrainPack<T, 4> in, out;
      if (drops)
        draw (plan, step, node_number, block, words);
      if (aligned && n == 4)
        in = *(const OrtrainPack<T, 4> *) (x + i);
      else
        for (int v = 0; v < 4; v++)
          in.at[v] = x[v < n ? i + v : i];
      for (int v = 0; v < 4; v++)
        {
          const A wide = (A) ortrain_widen (in.at[v]);
          stays[v] = !drops || (words[v] >> 8) >= threshold;
          const A kept = drops ? (stays[v] ? wide * scale : (A) 0) : wide;
          if (!same && v < n)
            ortrain_cuda_store_real (y, i + v, plan.dtype, (double) kept);
          out.at[v] = drops ? ortrain_narrow<T> (kept) : in.at[v];
        }
      if (same && aligned && n == 4)
        *(OrtrainPack<T, 4> *) ((T *) y + i) = out;
      else if (same)
        for (int v = 0; v < 4; v++)
          if (v < n)
            ((T *) y)[i + v] = out.at[v];
      if (mask == NULL)
        continue;
      OrtrainPack<guint8, 4> flags;
      for (int v = 0; v < 4; v++)
        flags.at[v] = stays[v];
      if (aligned && n == 4)
        *(OrtrainPack<guint8, 4> *) (mask + i) = flags;
      else
        for (int v = 0; v < 4; v++)
          if (v < n)
            mask[i + v] = flags.at[v];
    }
}

template <typename T>
static void
launch_dropout (const OrtrainKernelCall *call, const Plan *plan)
{
  const void *x = call->inputs[0], *ratio = plan->n_inputs > 1 ? call->inputs[1] : NULL;
  const void *training = plan->n_inputs > 2 ? call->inputs[2] : NULL;
  void *y = call->outputs[0], *mask = plan->n_outputs > 1 ? call->outputs[1] : NULL;
  const bool aligned = (((gsize) x | (gsize) y) & (4 * sizeof (T) - 1)) == 0 && ((gsize) mask & 3) == 0;
  ortrain_cuda_launch (call, "dropout", ortrain_cuda_grid (call, plan->n, 4 * ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       dropout_kernel<T>, (const T *) x, y, (guint8 *) mask, ratio, (const guint8 *) training, *plan,
                       call->context->step, call->node_number, aligned, ortrain_cuda_get_fault (call));
}

static void
run_dropout (const OrtrainKernelCall *call)
{
  const Plan *plan = (const Plan *) call->constants;
  if (plan->input_dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_dropout<double> (call, plan);
  else
    ORTRAIN_CUDA_FLOATING (plan->input_dtype, T, launch_dropout<T> (call, plan););
}

static gboolean
prepare_dropout (OrtrainKernelSetup *setup, GError **error)
{
  Plan *plan = new_plan (setup);
  if (setup->n_inputs > 1)
    plan->ratio_dtype = setup->inputs[1].dtype;
  setup->inplace[0] = 1;
  return TRUE;
}

/* ---- distributions ---- */

static __device__ __forceinline__ void
store_number (void *y, gint64 i, OrtrainDType dtype, double value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32 || dtype == ORTRAIN_DTYPE_FLOAT64 || dtype == ORTRAIN_DTYPE_FLOAT16 ||
      dtype == ORTRAIN_DTYPE_BFLOAT16)
    ortrain_cuda_store_real (y, i, dtype, value);
  else
    ortrain_cuda_store_integer (y, i, dtype, (gint64) value);
}

/* x: [n], probabilities of Bernoulli; y: [n] */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    random_kernel (const void *x, void *y, const Plan plan, const OrtrainStepBlock *step, guint32 node_number)
{
  for (gint64 block = ortrain_cuda_first (); block * 4 < plan.n; block += ortrain_cuda_stride ())
    {
      guint32 words[4];
      draw (plan, step, node_number, block, words);
      for (int pair = 0; pair < 4; pair += 2)
        {
          const gint64 i = block * 4 + pair;
          double first = words[pair] * 0x1p-32, second = words[pair + 1] * 0x1p-32;
          if (plan.kind == RANDOM_UNIFORM)
            {
              first = plan.a + (plan.b - plan.a) * first;
              second = plan.a + (plan.b - plan.a) * second;
            }
          else if (plan.kind == RANDOM_BERNOULLI)
            {
              first = i < plan.n && first < ortrain_cuda_load_real (x, i, plan.input_dtype);
              second = i + 1 < plan.n && second < ortrain_cuda_load_real (x, i + 1, plan.input_dtype);
            }
          else /* Box and Muller: two words make two normals */
            {
              const double radius = sqrt (-2 * log ((words[pair] + 1.0) * 0x1p-32)), angle = 2 * G_PI * second;
              first = plan.a + plan.b * radius * cos (angle);
              second = plan.a + plan.b * radius * sin (angle);
            }
          if (i < plan.n)
            store_number (y, i, plan.dtype, first);
          if (i + 1 < plan.n)
            store_number (y, i + 1, plan.dtype, second);
        }
    }
}

static gboolean
prepare_random (OrtrainKernelSetup *setup, GError **error)
{
  Plan *plan = new_plan (setup);
  if (g_str_has_prefix (setup->op_type, "RandomNormal"))
    {
      plan->kind = RANDOM_NORMAL;
      plan->a = ORTRAIN_CUDA_FLOAT (setup, "mean", 0);
      plan->b = ORTRAIN_CUDA_FLOAT (setup, "scale", 1);
    }
  else if (g_str_has_prefix (setup->op_type, "RandomUniform"))
    {
      plan->kind = RANDOM_UNIFORM;
      plan->a = ORTRAIN_CUDA_FLOAT (setup, "low", 0);
      plan->b = ORTRAIN_CUDA_FLOAT (setup, "high", 1);
    }
  else
    plan->kind = RANDOM_BERNOULLI;
  return TRUE;
}

static void
run_random (const OrtrainKernelCall *call)
{
  const Plan *plan = (const Plan *) call->constants;
  if (plan->n > 0)
    ortrain_cuda_launch (call, "random", ortrain_cuda_grid (call, plan->n, 4 * ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                         random_kernel, plan->n_inputs > 0 ? call->inputs[0] : NULL, call->outputs[0], *plan,
                         call->context->step, call->node_number);
}

/* The first row of each: the ratio may be of any type. */
static const OrtrainKernel rows[] = {
  { "Dropout", "", ORTRAIN_DTYPES_FLOAT, prepare_dropout, run_dropout },
  { "Dropout", "", ORTRAIN_DTYPES_MIXED, prepare_dropout, run_dropout, 0, ORTRAIN_DTYPES_MIXED },
  { "DropoutGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_dropout, run_dropout },
  { "DropoutGrad", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare_dropout, run_dropout, 0, ORTRAIN_DTYPES_MIXED },
  { "RandomNormal", "", ORTRAIN_DTYPES_FLOAT, prepare_random, run_random },
  { "RandomUniform", "", ORTRAIN_DTYPES_FLOAT, prepare_random, run_random },
  { "RandomNormalLike", "", 0, prepare_random, run_random },
  { "RandomUniformLike", "", 0, prepare_random, run_random },
  { "Bernoulli", "", ORTRAIN_DTYPES_FLOAT, prepare_random, run_random },
};

ORTRAIN_CUDA_TABLE (random, rows);
