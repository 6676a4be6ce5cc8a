/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "simt/cuda-kernel-check.h"

#include "simt/fake-cuda.h"

#include "core/ortrain-counters-private.h"

/* Convolutions through cuDNN's graphs, and the plain kernels where those are refused: float64, operands of several
 * types, pads that differ before and after. */

static const OrtrainGradientCase cases[] = {
  { "Conv", "f[2,2,5];f[3,2,3];f[3]" },
  { "Conv", "f[2,3,33];f[4,3,5]", "pads=[2,2] strides=[2]" },
  { "Conv", "f[1,2,5,4];f[3,2,3,2];f[3]", "pads=[1,0,1,1] strides=[2,1]" },
  { "Conv", "f[1,4,4,4];f[4,2,3,3]", "group=2 pads=[1,1,1,1]" },
  { "Conv", "f[2,3,7,5];f[3,1,3,3];f[3]", "group=3 pads=[1,1,1,1]" },
  { "Conv", "f[1,2,6,6];f[2,2,2,2]", "dilations=[2,3]" },
  { "Conv", "f[1,1,3,4,3];f[2,1,2,2,2];f[2]", "pads=[0,1,0,1,0,1]" },
  { "Conv", "f[1,2,4,5,3];f[4,1,3,3,1];f[4]", "pads=[1,1,0,1,1,0] group=2 strides=[1,2,1]" },
  { "Conv", "f[1,2,5,5];f[2,2,3,3];f[2]", "auto_pad='SAME_UPPER' strides=[2,2]" },
  { "Conv", "f[1,2,6,5];f[2,2,3,3]", "auto_pad='SAME_LOWER' strides=[2,2]" },
  { "Conv", "f[1,2,6,5];f[2,2,3,3]", "auto_pad='VALID'" },
  { "Conv", "f[2,2,3,3];f[3,2,1,1];f[3]" },
  { "Conv", "f[2,1,31,33];f[2,1,7,7]", "pads=[3,3,3,3] strides=[2,2]" },
  { "ConvTranspose", "f[1,2,3,3];f[2,3,2,2];f[3]", "strides=[2,2]" },
  { "ConvTranspose", "f[1,2,3];f[2,2,3]", "pads=[1,1] output_padding=[1] strides=[2]" },
  { "ConvTranspose", "f[1,4,3,3];f[4,1,2,2];f[2]", "group=2" },
  { "ConvTranspose", "f[1,2,4,3];f[2,1,3,3]", "pads=[1,0,0,1] strides=[2,1] dilations=[1,2]" },
  { "ConvTranspose", "f[1,2,2,3,2];f[2,2,2,2,2];f[2]", "strides=[2,1,2]" },
};

static const OrtrainGradientCase forward_cases[] = {
  { "ConvTranspose", "f[1,2,3,3];f[2,2,3,3]", "output_shape=[6,6] strides=[2,2]" },
  { "ConvTranspose", "f[1,2,3,3];f[2,2,3,3]", "auto_pad='SAME_UPPER' strides=[2,2]" },
  { "Conv", "f[0,2,5,4];f[3,2,3,2];f[3]" },
};

static const char *const operators[] = { "Conv", "ConvTranspose", "ConvGradInput", "ConvGradWeight", NULL };

static void
test_conv (void)
{
  const guint64 before = ortrain_counters_get ("cuda", "dnn-runs");
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
  g_assert_cmpuint (ortrain_counters_get ("cuda", "dnn-runs"), >, before);
}

/* Convolutions that the emulated cuDNN takes go there, and are not computed by the plain kernels. */
static void
test_library (void)
{
  static const char *const plain[] = { "conv-forward", "conv-backward", "conv-weights" };
  guint64 before[3];
  for (guint i = 0; i < 3; i++)
    before[i] = ortrain_fake_cuda_count_launches (plain[i]);
  for (guint i = 0; i < 4; i++)
    {
      /* one node: in the same type for all operands, and with others for some */
      const guint64 runs = ortrain_counters_get ("cuda", "dnn-runs");
      const OrtrainGradientCase forward[] = {
        { "Conv", "f[2,2,5];f[3,2,3];f[3]" },
        { "Conv", "f[1,4,4,4];f[4,2,3,3]", "group=2 pads=[1,1,1,1]" },
        { "Conv", "f[1,1,3,4,3];f[2,1,2,2,2];f[2]", "dilations=[1,2,1]" },
        { "ConvTranspose", "f[1,2,3,3];f[2,3,2,2];f[3]", "strides=[2,2]" },
      };
      cuda_check_begin (NULL);
      cuda_check_cases (&forward[i], 1, FALSE);
      cuda_check_end ();
      g_assert_cmpuint (ortrain_counters_get ("cuda", "dnn-runs"), >, runs);
    }
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (ortrain_fake_cuda_count_launches (plain[i]), ==, before[i]);
}

/* float64, which the plain kernels compute. */
static void
run_wide (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out, gpointer data)
{
  g_autoptr (GError) error = NULL;
  KernelRun run;
  if (!g_strv_contains (operators, node->op_type))
    return;
  kernel_run_init (&run, node->domain, node->op_type);
  ortrain_attributes_free (run.attributes);
  run.attributes = ortrain_attributes_copy (node->attributes);
  run.provider = data;
  for (guint i = 0; i < node->inputs->len; i++)
    kernel_run_add_input (&run, in[i] != NULL ? ortrain_tensor_copy (in[i], NULL) : NULL);
  kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT64, ortrain_tensor_peek_dims (out[0]),
                         ortrain_tensor_get_rank (out[0]));
  kernel_run_try (&run, &error);
  g_assert_no_error (error);
  const double *got = ortrain_tensor_peek (run.outputs[0]), *right = ortrain_tensor_peek (out[0]);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (out[0]); i++)
    g_assert_cmpfloat_with_epsilon (got[i], right[i], 1e-12);
  kernel_run_clear (&run);
}

static void
test_float64 (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  const guint64 before = ortrain_fake_cuda_count_launches ("conv-weights");
  ortrain_gradient_check_set_observer (run_wide, cuda);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i += 4) /* each is run for every difference */
    {
      g_autofree char *message = NULL;
      if (ortrain_gradient_check (&cases[i], &message) < 0)
        g_error ("%s", message);
    }
  ortrain_gradient_check_set_observer (NULL, NULL);
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (ortrain_fake_cuda_count_launches ("conv-weights"), >, before);
}

typedef struct
{
  gint64 dy[4], x[4], w[4];
} WeightShape;

static OrtrainTensor *
make_shape (const gint64 *dims)
{
  const gint64 n = 4;
  g_autoptr (GError) error = NULL;
  OrtrainTensor *shape = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &n, 1, &error);
  g_assert_no_error (error);
  memcpy (ortrain_tensor_peek_writable (shape), dims, 4 * sizeof *dims);
  return shape;
}

static void
init_grad_weight (KernelRun *run, const WeightShape *s, OrtrainDType dtype, OrtrainDType result)
{
  kernel_run_init (run, "org.ortrain", "ConvGradWeight");
  kernel_run_add_input (run, kernel_random (dtype, s->dy, 4, 1, 1));
  kernel_run_add_input (run, kernel_random (dtype, s->x, 4, 1, 2));
  kernel_run_add_input (run, make_shape (s->w));
  kernel_run_add_output (run, result, s->w, 4);
}

/* The gradient of weights in float32 from operands in bfloat16: the library computes it in bfloat16, without a copy of
 * the operands, and one kernel widens it, and adds it to the gradient that is already there. */
static void
test_narrow_weights (void)
{
  static const WeightShape shapes[] = {
    { { 2, 4, 5, 4 }, { 2, 2, 6, 5 }, { 4, 2, 2, 2 } }, /* a multiple of 8 weights, and none */
    { { 1, 3, 4, 4 }, { 1, 1, 6, 6 }, { 3, 1, 3, 3 } },
  };
  static const char *const plain[] = { "conv-weights", "conv-finish", "conv-widen", "dnn" };
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (guint accumulates = 0; accumulates < 2; accumulates++)
      {
        KernelRun ours, right;
        guint64 before[4];
        init_grad_weight (&ours, &shapes[s], ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32);
        init_grad_weight (&right, &shapes[s], ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32);
        for (guint i = 0; i < 2; i++)
          {
            g_clear_object (&right.inputs[i]);
            right.inputs[i] = ortrain_tensor_cast (ours.inputs[i], ORTRAIN_DTYPE_FLOAT32, NULL);
            g_assert_nonnull (right.inputs[i]);
          }
        ours.provider = cuda;
        ours.accumulates = accumulates;
        const gint64 n = ortrain_tensor_get_n_elements (ours.outputs[0]);
        float *found = ortrain_tensor_peek_writable (ours.outputs[0]);
        for (gint64 i = 0; i < n && accumulates; i++)
          found[i] = 1;
        for (guint i = 0; i < 4; i++)
          before[i] = ortrain_fake_cuda_count_launches (plain[i]);
        kernel_run (&ours);
        kernel_run (&right);
        const float *want = ortrain_tensor_peek (right.outputs[0]);
        found = ortrain_tensor_peek_writable (ours.outputs[0]);
        for (gint64 i = 0; i < n; i++)
          g_assert_cmpfloat_with_epsilon (found[i] - (accumulates ? 1 : 0), want[i], fabs (want[i]) * 0x1p-8 + 1e-5);
        if (ortrain_fake_cuda_is_in_use ())
          {
            guint64 runs[4];
            for (guint i = 0; i < 4; i++)
              runs[i] = ortrain_fake_cuda_count_launches (plain[i]) - before[i];
            g_assert_cmpuint (runs[0], ==, 0);
            g_assert_cmpuint (runs[1], ==, s == 0 ? 0 : 1);
            g_assert_cmpuint (runs[2], ==, s == 0 ? 1 : 0);
            g_assert_cmpuint (runs[3], ==, 1);
          }
        kernel_run_clear (&ours);
        kernel_run_clear (&right);
      }
}

/* ---- channels last ---- */

/* x [n, c, h, w] as [n, h, w, c]; back: the other way */
static OrtrainTensor *
turn (OrtrainTensor *x, gboolean back)
{
  static const guint orders[2][4] = { { 0, 2, 3, 1 }, { 0, 3, 1, 2 } };
  const gint64 *dims = ortrain_tensor_peek_dims (x);
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (x));
  gint64 turned[4], at[4];
  for (guint d = 0; d < 4; d++)
    turned[d] = dims[orders[back][d]];
  OrtrainTensor *y = ortrain_tensor_new (ortrain_tensor_get_dtype (x), turned, 4, NULL);
  const guint8 *from = ortrain_tensor_peek (x);
  guint8 *to = ortrain_tensor_peek_writable (y);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (x); i++, from += size)
    {
      gint64 rest = i, place = 0;
      for (guint d = 4; d-- > 0; rest /= dims[d])
        at[d] = rest % dims[d];
      for (guint d = 0; d < 4; d++)
        place = place * turned[d] + at[orders[back][d]];
      memcpy (to + place * size, from, size);
    }
  return y;
}

typedef struct
{
  gint64 x[4], y[4], w[4], stride, pad, group;
  gboolean has_bias;
} LastShape;

static const LastShape last_shapes[] = {
  { { 2, 4, 5, 6 }, { 2, 8, 5, 6 }, { 8, 4, 3, 3 }, 1, 1, 1, TRUE },
  { { 2, 6, 5, 6 }, { 2, 4, 3, 3 }, { 4, 6, 1, 1 }, 2, 0, 1, FALSE },
  { { 1, 4, 7, 5 }, { 1, 4, 4, 3 }, { 4, 1, 3, 3 }, 2, 1, 4, TRUE },
  { { 1, 6, 4, 4 }, { 1, 4, 4, 4 }, { 4, 3, 3, 3 }, 1, 1, 2, FALSE },
};

/* kind 0: Conv, 1 and 2: its gradients. Operands of both layouts are the same numbers. */
static void
init_layout (KernelRun *run, const LastShape *s, guint kind, gboolean last, OrtrainDType dtype, OrtrainDType result)
{
  static const char *const names[3][2] = { { "Conv", "ConvChannelsLast" },
                                           { "ConvGradInput", "ConvChannelsLastGradInput" },
                                           { "ConvGradWeight", "ConvChannelsLastGradWeight" } };
  static const guint order[] = { 0, 2, 3, 1 };
  const gint64 *results[] = { s->y, s->x, s->w }, *firsts[] = { s->x, s->y, s->y }, *seconds[] = { s->w, s->w, s->x };
  const gint64 strides[] = { s->stride, s->stride }, pads[] = { s->pad, s->pad, s->pad, s->pad };
  gint64 dims[4];
  kernel_run_init (run, kind == 0 && !last ? "" : "org.ortrain", names[kind][last]);
  ortrain_attributes_set_ints (run->attributes, "strides", strides, 2);
  ortrain_attributes_set_ints (run->attributes, "pads", pads, 4);
  ortrain_attributes_set_int (run->attributes, "group", s->group);
  for (guint d = 0; d < 4; d++)
    dims[d] = results[kind][last && kind < 2 ? order[d] : d];
  g_autoptr (OrtrainTensor) first = kernel_random (dtype, firsts[kind], 4, 1, 1),
                            second = kernel_random (dtype, seconds[kind], 4, 1, 2);
  kernel_run_add_input (run, last ? turn (first, FALSE) : g_object_ref (first));
  kernel_run_add_input (run, last && kind == 2 ? turn (second, FALSE) : g_object_ref (second));
  if (kind > 0)
    kernel_run_add_input (run, make_shape (dims));
  else if (s->has_bias)
    kernel_run_add_input (run, kernel_random (dtype, s->w, 1, 1, 3));
  kernel_run_add_output (run, result, dims, 4);
}

static void
compare_layouts (OrtrainProvider *cuda, const LastShape *s, guint kind, OrtrainDType dtype, OrtrainDType result,
                 gboolean accumulates)
{
  KernelRun runs[2];
  for (guint last = 0; last < 2; last++)
    {
      init_layout (&runs[last], s, kind, last, dtype, result);
      runs[last].provider = cuda;
      runs[last].accumulates = accumulates;
      float *numbers = ortrain_tensor_peek_writable (runs[last].outputs[0]);
      for (gint64 i = 0; accumulates && i < ortrain_tensor_get_n_elements (runs[last].outputs[0]); i++)
        numbers[i] = (float) i;
      kernel_run (&runs[last]);
    }
  g_autoptr (OrtrainTensor) found = kind < 2 ? turn (runs[1].outputs[0], TRUE) : g_object_ref (runs[1].outputs[0]);
  g_assert_cmpmem (ortrain_tensor_peek (found), ortrain_tensor_get_n_bytes (found),
                   ortrain_tensor_peek (runs[0].outputs[0]), ortrain_tensor_get_n_bytes (runs[0].outputs[0]));
  for (guint last = 0; last < 2; last++)
    kernel_run_clear (&runs[last]);
}

/* The same bits in both layouts: by the library, and by the plain kernels, of float64 and where all engines are
 * refused. */
static void
test_channels_last (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_FLOAT32,
                                         ORTRAIN_DTYPE_FLOAT64 };
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint refused = 0; refused < 2; refused++)
    {
      TestFallbacks fallbacks = refused ? test_fallbacks_allow ("all engines of cuDNN are refused on purpose") : NULL;
      for (guint i = 0; i < G_N_ELEMENTS (last_shapes); i++)
        for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
          for (guint kind = 0; kind < 3; kind++)
            {
              LastShape shape = last_shapes[i];
              shape.x[0] = shape.y[0] += refused; /* plans live as long as the process */
              const guint64 before = ortrain_fake_cuda_count_launches ("dnn-channels-last");
              if (refused)
                g_setenv ("ORTRAIN_FAKE_CUDNN_REFUSE", "3", TRUE);
              compare_layouts (cuda, &shape, kind, dtypes[d], dtypes[d], FALSE);
              if (kind == 2 && ortrain_dtype_get_size (dtypes[d]) == 2)
                for (guint accumulates = 0; accumulates < 2; accumulates++)
                  compare_layouts (cuda, &shape, kind, dtypes[d], ORTRAIN_DTYPE_FLOAT32, accumulates);
              g_unsetenv ("ORTRAIN_FAKE_CUDNN_REFUSE");
              if (ortrain_fake_cuda_is_in_use ())
                g_assert_cmpuint (ortrain_fake_cuda_count_launches ("dnn-channels-last") > before, ==,
                                  !refused && dtypes[d] != ORTRAIN_DTYPE_FLOAT64);
            }
      test_fallbacks_forbid (&fallbacks);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-conv/kernels", test_conv);
  g_test_add_func ("/cuda-conv/library", test_library);
  g_test_add_func ("/cuda-conv/float64", test_float64);
  g_test_add_func ("/cuda-conv/narrow-weights", test_narrow_weights);
  g_test_add_func ("/cuda-conv/channels-last", test_channels_last);
  return g_test_run ();
}
