/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/fixture.h"

#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-tables-private.h"

/* Einsum on the device, which has no kernel for it: its body and that of its gradient, in products, sums and moves,
 * compared with the CPU's loops. Nothing of it runs on the host. */

typedef struct
{
  const char *equation;
  guint n;
  gint64 dims[3][5]; /* of operands, after their rank */
  gint64 out[5];     /* the same of the result */
} Case;

static const Case cases[] = {
  { "bij->bi", 1, { { 3, 2, 3, 4 } }, { 2, 2, 3 } },
  { "bii->bi", 1, { { 3, 2, 3, 3 } }, { 2, 2, 3 } },
  { "...ij,...jk->...ik", 2, { { 4, 2, 1, 2, 3 }, { 3, 3, 3, 2 } }, { 4, 2, 3, 2, 2 } },
  { "bij,bjk,bk->bi", 3, { { 3, 2, 3, 4 }, { 3, 2, 4, 2 }, { 2, 2, 2 } }, { 2, 2, 3 } },
  { "abij,abkj->aikb", 2, { { 4, 2, 3, 2, 4 }, { 4, 2, 3, 5, 4 } }, { 4, 2, 2, 5, 3 } },
  { "bi,bj,bk->bijk", 3, { { 2, 2, 3 }, { 2, 2, 2 }, { 2, 2, 4 } }, { 4, 2, 3, 2, 4 } },
  { "bi,bi->b", 2, { { 2, 3, 5 }, { 2, 1, 5 } }, { 1, 3 } },
};

static OrtrainTensor *
make_tensor (const gint64 *dims, guint seed)
{
  g_autoptr (GError) error = NULL;
  gsize n = 1;
  for (gint64 d = 1; d <= dims[0]; d++)
    n *= (gsize) dims[d];
  g_autofree float *values = g_new (float, n);
  for (gsize i = 0; i < n; i++)
    values[i] = (float) sin ((double) i * 1.7 + seed);
  OrtrainTensor *tensor = ortrain_tensor_new_floats (dims + 1, (gsize) dims[0], values, n, &error);
  g_assert_no_error (error);
  return tensor;
}

/* y = the Einsum of x + w0, w1, w2 */
static OrtrainModel *
make_model (const Case *c)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("einsum");
  g_autoptr (GString) shape = g_string_new (NULL);
  GVariantDict attributes;
  const char *inputs[] = { NULL, NULL, NULL, NULL }, *outputs[] = { "y", NULL };
  static const char *const names[] = { "w0", "w1", "w2" };
  for (gint64 d = 1; d <= c->dims[0][0]; d++)
    g_string_append_printf (shape, "%s%" G_GINT64_FORMAT, d > 1 ? "," : "", c->dims[0][d]);
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, shape->str);
  for (guint i = 0; i < c->n; i++)
    {
      g_autoptr (OrtrainTensor) tensor = make_tensor (c->dims[i], 3 + i);
      OrtrainValue *w = ortrain_graph_builder_add_tensor (builder, names[i], tensor);
      inputs[i] = ortrain_value_get_name (i == 0 ? ortrain_graph_builder_binary (builder, "Add", x, w) : w);
    }
  g_variant_dict_init (&attributes, NULL);
  g_variant_dict_insert (&attributes, "equation", "s", c->equation);
  ortrain_graph_builder_add_output (
      builder,
      ortrain_graph_builder_add_op (builder, "Einsum", NULL, inputs, outputs, g_variant_dict_end (&attributes)), "y");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

/* One step; the loss to *loss. */
static OrtrainTrainingSession *
train (const Case *c, const char *provider, double *loss)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (c);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) of_squares = ortrain_mse_loss_new ("y", "target");
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = make_tensor (c->dims[0], 1), target = make_tensor (c->out, 2);
  ortrain_training_options_add_loss (options, of_squares);
  ortrain_training_options_set_trainable (
      options, (const char *const[]){ "w0", c->n > 1 ? "w1" : NULL, c->n > 2 ? "w2" : NULL, NULL });
  ortrain_training_options_set_provider (options, provider);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "target", target);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  *loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  return session;
}

static void
test_case (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (GError) error = NULL;
  double loss, want;
  g_autoptr (OrtrainTrainingSession) cuda = train (c, "cuda", &loss), cpu = train (c, "cpu", &want);
  guint n_steps;
  const OrtrainPlanStep *steps =
      ortrain_memory_plan_peek_steps (ortrain_training_session_get_memory_plan (cuda), &n_steps);
  for (guint s = 0; s < n_steps; s++)
    {
      g_assert_cmpstr (steps[s].node->op_type, !=, "Einsum");
      if (steps[s].stream == ORTRAIN_STREAM_HOST)
        g_error ("%s: %s runs on the host", c->equation, steps[s].node->op_type);
    }
  g_assert_cmpfloat_with_epsilon (loss, want, 1e-5 * fabs (want));
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_gradients (cuda, &error),
                                b = ortrain_training_session_get_gradients (cpu, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (b), ==, c->n);
  for (guint i = 0; i < c->n; i++)
    g_assert_cmpfloat (test_distance (ortrain_tensor_dict_get_tensor (a, i), ortrain_tensor_dict_get_tensor (b, i)), <,
                       1e-5);
}

/* A body is for devices: for a type that the CPU has no kernel for, the model cannot run. */
static void
test_type (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("bytes");
  const char *inputs[] = { "x", NULL }, *outputs[] = { "y", NULL };
  GVariantDict attributes;
  ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_UINT8, "2,3");
  g_variant_dict_init (&attributes, NULL);
  g_variant_dict_insert (&attributes, "equation", "s", "ij->ji");
  ortrain_graph_builder_add_output (
      builder,
      ortrain_graph_builder_add_op (builder, "Einsum", NULL, inputs, outputs, g_variant_dict_end (&attributes)), "y");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_autoptr (OrtrainDiagnostic) first = g_list_model_get_item (ortrain_check_report_get_diagnostics (report), 0);
  g_assert_nonnull (first);
  g_assert_cmpstr (ortrain_diagnostic_get_operator (first), ==, "Einsum");
  g_assert_cmpstr (ortrain_diagnostic_get_reason (first), ==, "there is no kernel for this operator and type");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/cuda-einsum/%u", i);
      g_test_add_data_func (path, &cases[i], test_case);
    }
  g_test_add_func ("/cuda-einsum/type", test_type);
  return g_test_run ();
}
