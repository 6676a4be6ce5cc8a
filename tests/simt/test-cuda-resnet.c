/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include "core/ortrain-counters-private.h"
#include "fallbacks.h"
#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-tables-private.h"
#include "simt/exported-model.h"
#include "simt/fake-cuda.h"

#include <math.h>

/* ResNet-50's own blocks in a network that is small enough for the emulated device: stem with a pool, stages of
 * bottleneck blocks, of which the first one halves the image, classes. The operations that go to the libraries, the
 * transpositions and the cost of a block are counted, as in test-cuda-launches.c: the difference between two
 * networks. */

#define BATCH 2
#define SIDE 64
#define N_CLASSES 10
#define WIDTH 8 /* of the first stage; blocks have four times as many channels */
#define N_STEPS 4

static OrtrainValue *
add_normed (OrtrainGraphBuilder *b, OrtrainValue *x, const char *block, const char *name, gint64 n_channels,
            gint64 kernel, gint64 stride)
{
  g_autofree char *conv = g_strconcat (block, ".conv", name, NULL), *norm = g_strconcat (block, ".bn", name, NULL);
  return ortrain_graph_builder_batch_norm (
      b, ortrain_graph_builder_conv (b, x, conv, n_channels, kernel, stride, kernel / 2, 1, FALSE), norm);
}

static OrtrainValue *
add_block (OrtrainGraphBuilder *b, OrtrainValue *x, const char *name, gint64 width, gint64 stride, gboolean is_first)
{
  OrtrainValue *y = ortrain_graph_builder_relu (b, add_normed (b, x, name, "1", width, 1, 1));
  y = ortrain_graph_builder_relu (b, add_normed (b, y, name, "2", width, 3, stride));
  y = add_normed (b, y, name, "3", 4 * width, 1, 1);
  if (is_first)
    x = add_normed (b, x, name, "down", 4 * width, 1, stride);
  return ortrain_graph_builder_relu (b, ortrain_graph_builder_add (b, y, x));
}

/* n_blocks: of the first stage; the second one has two. */
static OrtrainModel *
build (guint n_blocks)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) b = ortrain_graph_builder_new ("resnet");
  OrtrainValue *x = ortrain_graph_builder_add_input (b, "x", ORTRAIN_DTYPE_FLOAT32, "2, 3, 64, 64");
  x = ortrain_graph_builder_relu (b, add_normed (b, x, "stem", "1", WIDTH, 7, 2));
  x = add (b, "MaxPool", IN (ortrain_value_get_name (x)), "pooled",
           g_variant_new_parsed ("{'kernel_shape': <[int64 3, 3]>, 'strides': <[int64 2, 2]>, "
                                 "'pads': <[int64 1, 1, 1, 1]>}"));
  for (guint stage = 0; stage < 2; stage++)
    for (guint i = 0; i < (stage == 0 ? n_blocks : 2); i++)
      {
        g_autofree char *name = g_strdup_printf ("layer%u.%u", stage + 1, i);
        x = add_block (b, x, name, WIDTH << stage, i == 0 ? 1 + stage : 1, i == 0);
      }
  x = ortrain_graph_builder_flatten (b, ortrain_graph_builder_unary (b, "GlobalAveragePool", x));
  ortrain_graph_builder_add_output (b, ortrain_graph_builder_linear (b, x, "fc", N_CLASSES, TRUE), "logits");
  OrtrainModel *model = ortrain_graph_builder_build (b, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
make_feeds (guint step)
{
  static const gint64 dims[] = { BATCH, 3, SIDE, SIDE }, label_dims[] = { BATCH };
  static float x[BATCH * 3 * SIDE * SIDE];
  const gint64 labels[] = { step % N_CLASSES, (3 * step + 1) % N_CLASSES };
  for (guint i = 0; i < G_N_ELEMENTS (x); i++)
    x[i] = (float) sin (0.37 * i + step);
  g_autoptr (OrtrainTensor) images = ortrain_tensor_new_floats (dims, 4, x, G_N_ELEMENTS (x), NULL);
  g_autoptr (OrtrainTensor) classes = ortrain_tensor_new_ints (label_dims, 1, labels, BATCH, NULL);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", images);
  ortrain_tensor_dict_set (feeds, "labels", classes);
  return feeds;
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, const char *provider)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainOptimizer) optimizer = g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", 1e-3, NULL);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_provider (options, provider);
  ortrain_training_options_set_precision (options, ORTRAIN_PRECISION_BF16);
  ortrain_training_options_set_immediate_updates (options, ORTRAIN_IMMEDIATE_UPDATES_OFF);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* ---- counts ---- */

#define TRACE_BYTES 65536

typedef struct
{
  char forward[TRACE_BYTES], backward[TRACE_BYTES]; /* names of launches, one a line */
  guint64 runs, fallbacks, unfused, fused, unaligned, uncaptured, captures;
  guint convolutions, channels_last, transposes;
} Counts;

static void
begin_forward (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Counts *counts)
{
  counts->forward[0] = counts->backward[0] = '\0';
  ortrain_fake_cuda_trace (counts->forward, TRACE_BYTES);
}

static void
begin_backward (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Counts *counts)
{
  ortrain_fake_cuda_trace (counts->backward, TRACE_BYTES);
}

static void
end (OrtrainTrainingSession *session, OrtrainMemoryReport *report, Counts *counts)
{
  ortrain_fake_cuda_trace (NULL, 0);
}

static void
count_steps (OrtrainTrainingSession *session, Counts *counts)
{
  guint n_steps;
  const OrtrainPlanStep *steps =
      ortrain_memory_plan_peek_steps (ortrain_training_session_get_memory_plan (session), &n_steps);
  for (guint s = 0; s < n_steps; s++)
    {
      const char *op_type = steps[s].node->op_type;
      counts->convolutions += g_str_has_prefix (op_type, "Conv");
      counts->channels_last += g_str_has_prefix (op_type, "ConvChannelsLast");
      counts->transposes += g_str_equal (op_type, "Transpose");
    }
}

static guint64
count (const char *name)
{
  return ortrain_counters_get ("cuda", name);
}

/* In strict mode, so that a fallback is an error. With signals connected each phase is submitted by itself; none:
 * graphs are made. */
static Counts *
train (guint n_blocks, gboolean traces)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = build (n_blocks);
  Counts *counts = g_new0 (Counts, 1);
  TEST_ALLOWS_FALLBACKS ("none is wanted: strict mode is set here for the training alone");
  g_setenv ("ORTRAIN_CUDA_STRICT", "1", TRUE);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, "cuda"), host = make_session (model, "cpu");
  if (traces)
    {
      g_signal_connect (session, "pre-forward", G_CALLBACK (begin_forward), counts);
      g_signal_connect (session, "post-forward", G_CALLBACK (end), counts);
      g_signal_connect (session, "pre-backward", G_CALLBACK (begin_backward), counts);
      g_signal_connect (session, "post-backward", G_CALLBACK (end), counts);
    }
  const guint64 before[] = { count ("dnn-runs"),           count ("dnn-fallbacks"),       count ("product-fallbacks"),
                             count ("products-unaligned"), count ("uncaptured-segments"), count ("captures"),
                             count ("products-fused") };
  for (guint s = 0; s < (traces ? 2 : N_STEPS); s++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (s);
      const double loss = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      const double want = ortrain_training_session_train_step (host, feeds, &error);
      g_assert_no_error (error);
      if (s == 0)
        {
          counts->runs = count ("dnn-runs") - before[0]; /* later ones are in graphs */
          g_assert_cmpfloat_with_epsilon (loss, want, 2e-2 * fabs (want));
        }
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_assert_true (ortrain_training_session_optimizer_step (host, &error));
    }
  g_unsetenv ("ORTRAIN_CUDA_STRICT");
  counts->fallbacks = count ("dnn-fallbacks") - before[1];
  counts->unfused = count ("product-fallbacks") - before[2];
  counts->unaligned = count ("products-unaligned") - before[3];
  counts->uncaptured = count ("uncaptured-segments") - before[4];
  counts->captures = count ("captures") - before[5];
  counts->fused = count ("products-fused") - before[6];
  count_steps (session, counts);
  return counts;
}

static guint
count_lines (const char *text)
{
  guint n = 0;
  for (; *text != '\0'; text++)
    n += *text == '\n';
  return n;
}

static void
show (const char *phase, const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    g_test_message ("%s %u: %s", phase, i, lines[i]);
}

/* A block is three convolutions and their two gradients each, all by cuDNN, with nothing transposed between them.
 * Launches: forward four for each convolution (with it its statistics, the numbers of each channel that are computed
 * from them, and normalization with Relu or the addition), and one that reorders the 3 · 3 weights. */
static void
test_block (void)
{
  g_autofree Counts *two = train (2, TRUE), *three = train (3, TRUE);
  g_assert_cmpuint (three->runs - two->runs, ==, 9);
  g_assert_cmpuint (three->convolutions - two->convolutions, ==, 9);
  if (!ortrain_fake_cuda_is_in_use ())
    return;
  g_assert_cmpuint (three->channels_last - two->channels_last, ==, 9);
  g_assert_cmpuint (three->transposes, ==, two->transposes);
  const guint forward = count_lines (three->forward) - count_lines (two->forward);
  const guint backward = count_lines (three->backward) - count_lines (two->backward);
  g_test_message ("%u launches forward, %u backward", forward, backward);
  show ("forward", three->forward);
  show ("backward", three->backward);
  g_assert_cmpuint (forward, <=, 13);
  g_assert_cmpuint (backward, <=, 22);
}

/* The whole network: operations for a library go to it, steps are graphs, and the input alone is transposed, once for
 * each pass. A device decides about layouts by the needs of its own library. */
static void
test_network (void)
{
  g_autofree Counts *counts = train (2, FALSE);
  g_test_message ("%" G_GUINT64_FORMAT " runs, %" G_GUINT64_FORMAT " fused products, %" G_GUINT64_FORMAT
                  " graphs; %u convolutions, %u transpositions",
                  counts->runs, counts->fused, counts->captures, counts->convolutions, counts->transposes);
  g_assert_cmpuint (counts->convolutions, ==, 3 * 15 - 1); /* the image has no gradient */
  g_assert_cmpuint (counts->runs, >=, counts->convolutions);
  if (ortrain_fake_cuda_is_in_use ())
    {
      g_assert_cmpuint (counts->runs, ==, counts->convolutions + 1); /* and GlobalAveragePool */
      g_assert_cmpuint (counts->channels_last, ==, counts->convolutions);
      g_assert_cmpuint (counts->transposes, ==, 2);
    }
  g_assert_cmpuint (counts->fallbacks, ==, 0);
  g_assert_cmpuint (counts->unfused, ==, 0);
  g_assert_cmpuint (counts->unaligned, ==, 0);
  g_assert_cmpuint (counts->uncaptured, ==, 0);
  g_assert_cmpuint (counts->fused, >, 0);
  g_assert_cmpuint (counts->captures, >, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-resnet/block", test_block);
  g_test_add_func ("/cuda-resnet/network", test_network);
  return g_test_run ();
}
