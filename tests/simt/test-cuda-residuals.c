/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/kernel-run.h"
#include "ortrain.h"
#include "simt/thread-orders.h"

#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-tables-private.h"

/* Normalizations of a sum, and their gradients with an addend, on the emulated device: against the plain operators of
 * the CPU in float64 on the same numbers, and in a model. The CPU has no kernels for them. */

/* rows, elements of a row: in a warp, in a block, of any length; with packs and without */
static const gint64 shapes[][2] = { { 1, 1 },    { 9, 31 },   { 33, 257 },  { 5, 768 },   { 300, 12 }, { 3, 1025 },
                                    { 2, 4096 }, { 3, 8193 }, { 3, 16388 }, { 2, 20001 }, { 0, 4 } };
/* one of each kind */
static const gint64 race_shapes[][2] = { { 9, 31 }, { 3, 257 }, { 2, 1025 }, { 2, 4096 }, { 1, 8193 } };

typedef struct
{
  const char *op_type, *plain, *domain; /* plain: without the addend */
  gboolean has_bias;                    /* and statistics */
} Case;

static const Case forward_cases[] = {
  { "AddLayerNormalization", "LayerNormalization", "", TRUE },
  { "AddLayerNormalization", "LayerNormalization", "", FALSE },
  { "AddRMSNormalization", "RMSNormalization", "", FALSE },
};
static const Case backward_cases[] = {
  { "AddLayerNormGrad", "LayerNormGrad", "org.ortrain", TRUE },
  { "AddRMSNormGrad", "RMSNormGrad", "org.ortrain", FALSE },
};

static void
add (KernelRun *run, OrtrainTensor *tensor, OrtrainDType dtype)
{
  kernel_run_add_input (run, tensor != NULL ? kernel_cast (tensor, dtype) : NULL);
}

/* Off by the rounding of the result and by that of sums in float32. addend: NULL, or of the same shape */
static void
check (const KernelRun *run, guint k, OrtrainTensor *want, OrtrainTensor *addend)
{
  OrtrainTensor *result = run->outputs[k];
  const OrtrainDType dtype = ortrain_tensor_get_dtype (result);
  const double unit = dtype == ORTRAIN_DTYPE_BFLOAT16 ? 0x1p-8 : dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11 : 0x1p-23;
  double largest = 1;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (want); i++)
    largest = MAX (largest, fabs (ortrain_tensor_get_scalar (want, i)));
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (want); i++)
    {
      const double x = ortrain_tensor_get_scalar (result, i);
      const double y =
          ortrain_tensor_get_scalar (want, i) + (addend != NULL ? ortrain_tensor_get_scalar (addend, i) : 0);
      if (!(fabs (x - y) <= 4e-6 * largest + unit * fabs (y)))
        g_error ("%s, %s, rows of %d: element %d of output %u is %.9g, %.9g is right", run->op_type,
                 ortrain_dtype_get_name (dtype), (int) ortrain_tensor_peek_dims (run->inputs[0])[1], (int) i, k, x, y);
    }
}

/* In the other orders of a block's threads, the same bits. setup: adds the operands. */
typedef void (*SetUpFunc) (KernelRun *run, gconstpointer data);

static void
run_in_orders (KernelRun *first, const Case *c, OrtrainProvider *cuda, SetUpFunc set_up, gconstpointer data)
{
  for (guint o = 0; o < thread_orders_get_n (); o++)
    {
      KernelRun other, *run = o == 0 ? first : &other;
      g_setenv ("ORTRAIN_SIMT_ORDER", thread_orders[o], TRUE);
      kernel_run_init (run, "org.ortrain", c->op_type);
      run->provider = cuda;
      set_up (run, data);
      kernel_run (run);
      for (guint k = 0; o > 0 && k < run->n_outputs; k++)
        if (run->outputs[k] != NULL)
          kernel_assert_same_bits (run->outputs[k], first->outputs[k], c->op_type);
      if (o > 0)
        kernel_run_clear (run);
    }
}

typedef struct
{
  const Case *of;
  OrtrainDType dtype;
  const gint64 *shape;
  gboolean inplace;
  OrtrainTensor *in[6]; /* NULL: absent */
} Operands;

static void
set_up_forward (KernelRun *run, gconstpointer data)
{
  const Operands *s = data;
  const gint64 column[] = { s->shape[0], 1 };
  run->try_inplace = s->inplace;
  for (guint i = 0; i < 4; i++)
    add (run, s->in[i], s->dtype);
  kernel_run_add_output (run, s->dtype, s->shape, 2);
  for (guint k = 1; k < 3; k++)
    if (s->of->has_bias)
      kernel_run_add_output (run, ORTRAIN_DTYPE_FLOAT32, column, 2);
    else
      run->outputs[run->n_outputs++] = NULL;
  kernel_run_add_output (run, s->dtype, s->shape, 2);
}

static void
check_forward (OrtrainProvider *cuda, const Case *c, OrtrainDType dtype, const gint64 *shape, gboolean inplace)
{
  g_autoptr (OrtrainTensor) x = kernel_random (dtype, shape, 2, 2, 1),
                            scale = kernel_random (dtype, shape + 1, 1, 1, 2),
                            bias = kernel_random (dtype, shape + 1, 1, 1, 3),
                            addend = kernel_random (dtype, shape, 2, 1, 4);
  const Operands operands = { c, dtype, shape, inplace, { x, scale, c->has_bias ? bias : NULL, addend } };
  g_autoptr (OrtrainTensor) sum = kernel_cast (x, ORTRAIN_DTYPE_FLOAT64);
  const gint64 column[] = { shape[0], 1 };
  KernelRun run, plain;
  run_in_orders (&run, c, cuda, set_up_forward, &operands);
  g_assert_cmpuint (run.n_inplace, ==, inplace ? 2 : 0);
  double *sums = ortrain_tensor_peek_writable (sum);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (sum); i++)
    sums[i] += ortrain_tensor_get_scalar (addend, i);
  g_autoptr (OrtrainTensor) rounded = kernel_cast (sum, dtype);
  kernel_assert_same_bits (run.outputs[3], rounded, "the sum");
  kernel_run_init (&plain, c->domain, c->plain);
  add (&plain, rounded, ORTRAIN_DTYPE_FLOAT64);
  add (&plain, scale, ORTRAIN_DTYPE_FLOAT64);
  if (c->has_bias)
    add (&plain, bias, ORTRAIN_DTYPE_FLOAT64);
  kernel_run_add_output (&plain, ORTRAIN_DTYPE_FLOAT64, shape, 2);
  for (guint k = 1; k < 3 && c->has_bias; k++)
    kernel_run_add_output (&plain, ORTRAIN_DTYPE_FLOAT64, column, 2);
  kernel_run (&plain);
  for (guint k = 0; k < plain.n_outputs; k++)
    check (&run, k, plain.outputs[k], NULL);
  kernel_run_clear (&run);
  kernel_run_clear (&plain);
}

static void
set_up_backward (KernelRun *run, gconstpointer data)
{
  const Operands *s = data;
  run->try_inplace = s->inplace;
  for (guint i = 0; i < 6; i++)
    add (run, s->in[i], i == 3 || i == 4 ? ORTRAIN_DTYPE_FLOAT32 : s->dtype);
  kernel_run_add_output (run, s->dtype, s->shape, 2);
  for (guint k = 1; k < (s->of->has_bias ? 3 : 2); k++)
    kernel_run_add_output (run, ORTRAIN_DTYPE_FLOAT32, s->shape + 1, 1);
}

static void
check_backward (OrtrainProvider *cuda, const Case *c, OrtrainDType dtype, const gint64 *shape, gboolean inplace)
{
  const gint64 column[] = { shape[0], 1 };
  g_autoptr (OrtrainTensor) dy = kernel_random (dtype, shape, 2, 1, 1), x = kernel_random (dtype, shape, 2, 2, 2),
                            scale = kernel_random (dtype, shape + 1, 1, 1, 3),
                            mean = kernel_random (ORTRAIN_DTYPE_FLOAT32, column, 2, 0.1, 4),
                            inverse = kernel_random (ORTRAIN_DTYPE_FLOAT32, column, 2, 1, 5),
                            addend = kernel_random (dtype, shape, 2, 1, 6);
  const Operands operands = {
    c, dtype, shape, inplace, { dy, x, scale, c->has_bias ? mean : NULL, c->has_bias ? inverse : NULL, addend }
  };
  KernelRun run, plain;
  run_in_orders (&run, c, cuda, set_up_backward, &operands);
  g_assert_cmpuint (run.n_inplace, ==, inplace);
  kernel_run_init (&plain, c->domain, c->plain);
  for (guint i = 0; i < (c->has_bias ? 5 : 3); i++)
    add (&plain, operands.in[i], ORTRAIN_DTYPE_FLOAT64);
  kernel_run_add_output (&plain, ORTRAIN_DTYPE_FLOAT64, shape, 2);
  for (guint k = 1; k < run.n_outputs; k++)
    kernel_run_add_output (&plain, ORTRAIN_DTYPE_FLOAT64, shape + 1, 1);
  kernel_run (&plain);
  for (guint k = 0; k < plain.n_outputs; k++)
    check (&run, k, plain.outputs[k], k == 0 ? addend : NULL);
  kernel_run_clear (&run);
  kernel_run_clear (&plain);
}

static void
test_kernels (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  const gboolean races = thread_orders_find_races ();
  const gint64 (*tried)[2] = races ? race_shapes : shapes;
  const guint n_tried = races ? G_N_ELEMENTS (race_shapes) : G_N_ELEMENTS (shapes);
  for (guint t = 0; t < G_N_ELEMENTS (dtypes) - races;
       t++) /* the last two differ only in the work of a thread on a number */
    for (guint s = 0; s < n_tried; s++)
      for (gboolean inplace = races; inplace <= TRUE; inplace++)
        {
          for (guint i = 0; i < G_N_ELEMENTS (forward_cases); i++)
            check_forward (cuda, &forward_cases[i], dtypes[t], tried[s], inplace);
          for (guint i = 0; i < G_N_ELEMENTS (backward_cases); i++)
            check_backward (cuda, &backward_cases[i], dtypes[t], tried[s], inplace);
        }
}

/* ---- a model as LLaMA is: x + attention (norm (x)), x + swiglu (norm (x)) ---- */

#define N_LAYERS 2
#define WIDTH 32
#define LENGTH 12
#define N_TOKENS 53

static OrtrainValue *
add_rms_norm (OrtrainGraphBuilder *b, OrtrainValue *x, const char *name)
{
  static const gint64 width = WIDTH;
  const char *const outputs[] = { name, NULL };
  g_autofree char *weight = g_strconcat (name, ".weight", NULL);
  ortrain_graph_builder_add_uniform (b, weight, &width, 1, 0.5, 1.5);
  return ortrain_graph_builder_add_op (
      b, "RMSNormalization", NULL, (const char *const[]){ ortrain_value_get_name (x), weight, NULL }, outputs, NULL);
}

static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) b = ortrain_graph_builder_new ("llama");
  ortrain_graph_builder_set_seed (b, 5);
  OrtrainValue *ids = ortrain_graph_builder_add_input (b, "ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  OrtrainValue *x = ortrain_graph_builder_embedding (b, ids, "embedding", N_TOKENS, WIDTH);
  for (guint i = 0; i < N_LAYERS; i++)
    {
      char *names[6];
      static const char *const stems[] = { "norm1", "attention", "norm2", "gate", "up", "down" };
      for (guint k = 0; k < G_N_ELEMENTS (stems); k++)
        names[k] = g_strdup_printf ("%s.%u", stems[k], i);
      OrtrainValue *y = ortrain_graph_builder_attention (b, add_rms_norm (b, x, names[0]), names[1], 2, LENGTH, TRUE);
      x = ortrain_graph_builder_add (b, x, y);
      y = add_rms_norm (b, x, names[2]);
      OrtrainValue *gate = ortrain_graph_builder_linear (b, y, names[3], 2 * WIDTH, FALSE);
      OrtrainValue *up = ortrain_graph_builder_linear (b, y, names[4], 2 * WIDTH, FALSE);
      gate = ortrain_graph_builder_binary (b, "Mul", gate, ortrain_graph_builder_unary (b, "Sigmoid", gate));
      y = ortrain_graph_builder_binary (b, "Mul", gate, up);
      x = ortrain_graph_builder_add (b, x, ortrain_graph_builder_linear (b, y, names[5], WIDTH, FALSE));
      for (guint k = 0; k < G_N_ELEMENTS (stems); k++)
        g_free (names[k]);
    }
  x = add_rms_norm (b, x, "norm");
  ortrain_graph_builder_add_output (b, ortrain_graph_builder_linear (b, x, "head", N_TOKENS, FALSE), "logits");
  OrtrainModel *model = ortrain_graph_builder_build (b, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, const char *provider, OrtrainPrecision precision)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_provider (options, provider);
  ortrain_training_options_set_precision (options, precision);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static double
step (OrtrainTrainingSession *session)
{
  static const gint64 dims[] = { 3, LENGTH };
  gint64 ids[3 * LENGTH], labels[3 * LENGTH];
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < 3 * LENGTH; i++)
    {
      ids[i] = (i * i * 7 + i) % N_TOKENS;
      labels[i] = (ids[i] * 5 + 3) % N_TOKENS;
    }
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_ints (dims, 2, ids, 3 * LENGTH, NULL),
                            b = ortrain_tensor_new_ints (dims, 2, labels, 3 * LENGTH, NULL);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "ids", a);
  ortrain_tensor_dict_set (feeds, "labels", b);
  const double loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  return loss;
}

static guint
count_steps (OrtrainTrainingSession *session, const char *op_type)
{
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  guint n_steps, n = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    n += g_str_equal (steps[s].node->op_type, op_type);
  return n;
}

/* |a - b| / |b| over all elements */
static double
get_distance (OrtrainTensor *a, OrtrainTensor *b)
{
  double differences = 0, squares = 0;
  g_assert_cmpint (ortrain_tensor_get_n_elements (a), ==, ortrain_tensor_get_n_elements (b));
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (a); i++)
    {
      const double x = ortrain_tensor_get_scalar (a, i), y = ortrain_tensor_get_scalar (b, i);
      differences += (x - y) * (x - y);
      squares += y * y;
    }
  g_assert_cmpfloat (squares, >, 0);
  return sqrt (differences / squares);
}

static void
compare_gradients (OrtrainTrainingSession *session, OrtrainTrainingSession *other, double limit)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_gradients (session, &error),
                                b = ortrain_training_session_get_gradients (other, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), >, 5 * N_LAYERS);
  double worst = 0;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    worst = MAX (worst, get_distance (ortrain_tensor_dict_get_tensor (a, i), ortrain_tensor_dict_get_tensor (b, i)));
  g_test_message ("gradients are at most %.2g apart", worst);
  g_assert_cmpfloat (worst, <, limit);
}

/* Every normalization but the first follows a sum; every one but the last has a residual in addition to its gradient.
 * The CPU computes both apart, and bodies do the same as kernels. */
static void
test_model (gconstpointer data)
{
  const OrtrainPrecision precision = GPOINTER_TO_INT (data);
  const double limit = precision == ORTRAIN_PRECISION_F32 ? 1e-5 : 3e-2;
  static const char *const fused[] = { "AddRMSNormalization", "AddRMSNormGrad" };
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainTrainingSession) cuda = make_session (model, "cuda", precision),
                                     cpu = make_session (model, "cpu", precision);
  const double loss = step (cpu);
  g_assert_cmpfloat_with_epsilon (step (cuda), loss, limit * loss);
  compare_gradients (cuda, cpu, limit);
  for (guint i = 0; i < G_N_ELEMENTS (fused) && !thread_orders_find_races (); i++) /* no other kernels */
    {
      g_setenv ("ORTRAIN_EXPAND", fused[i], TRUE);
      g_autoptr (OrtrainTrainingSession) expanded = make_session (model, "cuda", precision);
      g_assert_cmpfloat_with_epsilon (step (expanded), loss, limit * loss);
      g_unsetenv ("ORTRAIN_EXPAND");
      g_assert_cmpuint (count_steps (cuda, fused[i]), ==, 2 * N_LAYERS);
      g_assert_cmpuint (count_steps (cpu, fused[i]), ==, 0);
      g_assert_cmpuint (count_steps (expanded, fused[i]), ==, 0);
      compare_gradients (cuda, expanded, limit);
    }
  g_assert_cmpuint (count_steps (cuda, "RMSNormalization"), ==, 1);
  g_assert_cmpuint (count_steps (cuda, "RMSNormGrad"), ==, 1);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-residuals/kernels", test_kernels);
  g_test_add_data_func ("/cuda-residuals/model/float32", GINT_TO_POINTER (ORTRAIN_PRECISION_F32), test_model);
  g_test_add_data_func ("/cuda-residuals/model/bfloat16", GINT_TO_POINTER (ORTRAIN_PRECISION_BF16), test_model);
  return g_test_run ();
}
