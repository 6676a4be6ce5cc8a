/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../model/model-text.h"

/* One rule for the types of feeds, wherever a session is fed: floating types are rounded, integers and truth values
 * must be exact. */

static OrtrainTrainingSession *
make_session (const char *text, OrtrainLoss *loss, GError **error)
{
  g_autoptr (OrtrainModel) model = model_text_new (text, 17, error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  return model != NULL ? ortrain_training_session_new (model, options, error) : NULL;
}

static OrtrainTensor *
make (OrtrainDType dtype, gint64 rows, gint64 columns, const double *values)
{
  g_autoptr (GError) error = NULL;
  const gint64 dims[] = { rows, columns };
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT64, dims, 2, (const guint8 *) values,
                                                                (gsize) (rows * columns) * sizeof *values, &error);
  g_assert_no_error (error);
  OrtrainTensor *tensor = ortrain_tensor_cast (wide, dtype, &error);
  g_assert_no_error (error);
  return tensor;
}

static double
step (OrtrainTrainingSession *session, OrtrainTensor *x, OrtrainTensor *target, GError **error)
{
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "target", target);
  return ortrain_training_session_train_step (session, feeds, error);
}

static const double small[] = { 1, 0, 1, 1, 0, 1, 0, 0 }, zeros[] = { 1, 0, 0, 1 };

#define N_TYPES 13
static const OrtrainDType types[N_TYPES] = {
  ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_INT8,
  ORTRAIN_DTYPE_UINT8,   ORTRAIN_DTYPE_INT16,   ORTRAIN_DTYPE_UINT16,  ORTRAIN_DTYPE_INT32,    ORTRAIN_DTYPE_UINT32,
  ORTRAIN_DTYPE_INT64,   ORTRAIN_DTYPE_UINT64,  ORTRAIN_DTYPE_BOOL,
};

/* Zeros and ones in every type, for inputs and targets of every floating type: the same loss. */
static void
test_exact (void)
{
  static const char *const names[] = { "f32", "f64", "f16", "bf16" };
  for (guint m = 0; m < 4; m++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text =
          g_strdup_printf ("in x %s n,4\nweight w %s 4,2\nout y\nMatMul x,w -> y\n", names[m], names[m]);
      for (guint l = 0; l < 2; l++)
        {
          g_autoptr (OrtrainLoss) loss =
              l == 0 ? ortrain_mse_loss_new ("y", "target") : ortrain_bce_with_logits_loss_new ("y", "target");
          g_autoptr (OrtrainTrainingSession) session = make_session (text, loss, &error);
          g_assert_no_error (error);
          double expected = 0;
          for (guint t = 0; t < N_TYPES; t++)
            {
              g_autoptr (OrtrainTensor) x = make (types[t], 2, 4, small), target = make (types[t], 2, 2, zeros);
              const double found = step (session, x, target, &error);
              g_assert_no_error (error);
              expected = t == 0 ? found : expected;
              g_assert_cmpfloat (found, ==, expected);
              g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
              ortrain_tensor_dict_set (feeds, "x", x);
              g_autoptr (OrtrainTensorDict) outputs G_GNUC_UNUSED =
                  ortrain_training_session_eval_step (session, feeds, &error);
              g_assert_no_error (error);
              g_autoptr (OrtrainInferenceSession) inference =
                  ortrain_inference_session_new (ortrain_training_session_get_model (session), NULL, &error);
              g_assert_no_error (error);
              g_autoptr (OrtrainTensorDict) others G_GNUC_UNUSED =
                  ortrain_inference_session_run (inference, feeds, &error);
              g_assert_no_error (error);
              g_autoptr (OrtrainIoBinding) binding = ortrain_inference_session_bind (inference);
              ortrain_io_binding_bind_input (binding, "x", x);
              ortrain_inference_session_run_with_binding (inference, binding, &error);
              g_assert_no_error (error);
            }
        }
    }
}

/* In float32, whole numbers up to 2^24 and some beyond; in float16 up to 2^11. */
static void
test_refused (void)
{
  static const struct
  {
    const char *model;
    OrtrainDType dtype;
    double value;
    const char *told; /* NULL: it is taken */
  } cases[] = {
    { "f32", ORTRAIN_DTYPE_INT64, 16777217,
      "int64, the model needs float32, which cannot represent 16777217 (element 2)" },
    { "f32", ORTRAIN_DTYPE_INT64, -16777217, "cannot represent -16777217 (element 2)" },
    { "f32", ORTRAIN_DTYPE_INT64, 16777218, NULL },
    { "f32", ORTRAIN_DTYPE_INT32, 2147483647, "cannot represent 2147483647" },
    { "f32", ORTRAIN_DTYPE_UINT32, 4294967295.0, "cannot represent 4294967295" },
    { "f32", ORTRAIN_DTYPE_INT16, 32767, NULL },
    { "f64", ORTRAIN_DTYPE_INT64, 4503599627370497.0, NULL },
    { "f16", ORTRAIN_DTYPE_INT16, 2049, "int16, the model needs float16, which cannot represent 2049" },
    { "f16", ORTRAIN_DTYPE_INT32, 65536, "cannot represent 65536" },
    { "f16", ORTRAIN_DTYPE_UINT8, 255, NULL },
    { "bf16", ORTRAIN_DTYPE_INT32, 257, "cannot represent 257" },
    { "bf16", ORTRAIN_DTYPE_INT32, 256, NULL },
    { "f16", ORTRAIN_DTYPE_FLOAT32, 70000, "float32, the model needs float16, which cannot represent 70000" },
    { "f16", ORTRAIN_DTYPE_BFLOAT16, 70144, "cannot represent 70144" },
    { "f16", ORTRAIN_DTYPE_FLOAT32, .1, NULL },
    { "f32", ORTRAIN_DTYPE_FLOAT64, 1e300, "cannot represent 1e+300" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text =
          g_strdup_printf ("in x %s n,4\nweight w %s 4,2\nout y\nMatMul x,w -> y\n", cases[i].model, cases[i].model);
      g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
      g_autoptr (OrtrainTrainingSession) session = make_session (text, loss, &error);
      g_assert_no_error (error);
      const double values[] = { 1, 0, cases[i].value, 0 };
      g_autoptr (OrtrainTensor) x = make (cases[i].dtype, 1, 4, values),
                                target = make (ORTRAIN_DTYPE_FLOAT32, 1, 2, zeros);
      step (session, x, target, &error);
      if (cases[i].told == NULL)
        g_assert_no_error (error);
      else if (error == NULL || strstr (error->message, cases[i].told) == NULL)
        g_error ("case %u: %s", i, error != NULL ? error->message : "taken");
    }
}

/* A loss in float64 of a file in float16, and one in float16: both are scaled. */
static void
test_losses (void)
{
  static const struct
  {
    const char *text;
    double limit;
  } cases[] = {
    { "in x f16 n,4\nweight w f16 4,2\nout y\nMatMul x,w -> s\nCast s -> y to=11\n", 1e-2 },
    { "in x f32 n,4\nweight w f32 4,2\nout y\nMatMul x,w -> y\n", 1e-2 },
  };
  double first = 0;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
      g_autoptr (OrtrainTrainingSession) session = make_session (cases[i].text, loss, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensor) x = make (ORTRAIN_DTYPE_FLOAT32, 2, 4, small),
                                target = make (ORTRAIN_DTYPE_FLOAT32, 2, 2, zeros);
      double last = 0;
      for (guint s = 0; s < 5; s++)
        {
          last = step (session, x, target, &error);
          g_assert_no_error (error);
          ortrain_training_session_optimizer_step (session, &error);
          g_assert_no_error (error);
        }
      first = i == 0 ? last : first;
      g_assert_cmpfloat_with_epsilon (last, first, cases[i].limit * first);
    }
}

/* Parameters, running statistics and inputs that are outputs as well. */
static void
test_outputs (void)
{
  g_autoptr (GError) error = NULL;
  const char *const text = "in x f32 n,4\nweight w f32 4,2\nconst one f32 2 = 1,1\nconst mean f32 2 = 0,0\n"
                           "const var f32 2 = 1,1\nout z\nout w\nout mean\nout x\nout v\nout r\nMatMul x,w -> y\n"
                           "Identity w -> v\nconst flat i64 1 = 8\nReshape w,flat -> r\n"
                           "BatchNormalization y,one,mean,mean,var -> z\n";
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("z", "target");
  g_autoptr (OrtrainTrainingSession) session = make_session (text, loss, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) x = make (ORTRAIN_DTYPE_FLOAT32, 2, 4, small),
                            target = make (ORTRAIN_DTYPE_FLOAT32, 2, 2, zeros);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  for (guint s = 0; s < 3; s++)
    {
      const double value = step (session, x, target, &error);
      g_assert_no_error (error);
      g_assert_cmpfloat (value, >, 0);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, feeds, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
      g_assert_no_error (error);
      OrtrainTensor *w = ortrain_tensor_dict_get (parameters, "w");
      g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (outputs, "w"), w));
      g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (outputs, "v"), w));
      g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (outputs, "x"), x));
      g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "r"), 3), ==,
                         ortrain_tensor_get_scalar (w, 3));
      g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "mean"), 0), !=, 0);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/feed-rule/exact", test_exact);
  g_test_add_func ("/feed-rule/refused", test_refused);
  g_test_add_func ("/feed-rule/losses", test_losses);
  g_test_add_func ("/feed-rule/outputs", test_outputs);
  return g_test_run ();
}
