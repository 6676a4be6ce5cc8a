/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../model/model-text.h"

/* Branches that shapes decide are trained through: outputs, losses and gradients are those of models without a branch.
 */

#define ROWS                                                                                                           \
  "in x f64 b,3\nweight u f64 3,3\nweight v f64 3,3\nconst zero i64 = 0\nconst two i64 = 2\nconst four i64 = 4\n"      \
  "const nought f64 = 0\nout y\nMatMul x,u -> h\n"
#define COUNT "Shape x -> s\nGather s,zero -> n\nEqual n,two -> c\n"
/* a part with the gradient 0 */
#define UNUSED "MatMul h,v -> unused\nReduceSum unused -> r keepdims=0\nMul r,nought -> q\n"

static void
check (const char *const *texts, const char *expected, gint64 rows)
{
  g_autoptr (OrtrainTensorDict) feeds = model_text_feed_matrix (rows, 3);
  model_text_compare (texts, (const char *const[]){ expected, NULL }, 18, feeds, 1e-12);
}

static void
test_two (void)
{
  static const char *const texts[] = { ROWS COUNT "If c -> y then_branch=$0 else_branch=$1", "out a\nSin h -> a",
                                       "out b\nMatMul h,v -> m\nTanh m -> b", NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = model_text_write (texts, 18);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  g_assert_no_error (error);
  g_autofree char *shape = ortrain_value_get_shape_string (ortrain_graph_find_value (graph, "y"));
  g_assert_cmpstr (shape, ==, "[b, 3]"); /* the same in both branches */
  check (texts, ROWS UNUSED "Sin h -> a\nAdd a,q -> y", 2);
  check (texts, ROWS "MatMul h,v -> m\nTanh m -> y", 3);
  check (texts, ROWS "MatMul h,v -> m\nTanh m -> y", 5);
}

/* Two outputs, one of which is a captured value, which is also read outside. */
static void
test_outputs (void)
{
  static const char *const texts[] = { ROWS COUNT
                                       "If c -> d,e then_branch=$0 else_branch=$1\nMul d,e -> g\nMul g,h -> y",
                                       "out a1\nout h\nMatMul h,v -> a1",
                                       "out b1\nout b2\nSin h -> b1\nMul b1,b1 -> b2", NULL };
  check (texts, ROWS "MatMul h,v -> d\nMul d,h -> g\nMul g,h -> y", 2);
  check (texts, ROWS UNUSED "Sin h -> d\nMul d,d -> e\nMul d,e -> g\nMul g,h -> w\nAdd w,q -> y", 4);
}

static void
test_nested (void)
{
  static const char *const texts[] = {
    ROWS COUNT "If c -> y then_branch=$0 else_branch=$1",
    "out a\nIdentity h -> a",
    "out b\nGreater n,four -> c2\nSin h -> t\nIf c2 -> b then_branch=$2 else_branch=$3",
    "out i1\nMatMul t,v -> i1",
    "out i2\nMul t,t -> i2",
    NULL
  };
  check (texts, ROWS UNUSED "Add h,q -> y", 2);
  check (texts, ROWS "Sin h -> t\nMatMul t,v -> y", 6);
  check (texts, ROWS UNUSED "Sin h -> t\nMul t,t -> w\nAdd w,q -> y", 3);
}

/* Branches of different ranks: the output's is not known before the shapes are. */
static void
test_ranks (void)
{
  static const char *const texts[] = {
    ROWS "const ax i64 1 = 0\nconst one i64 = 1\nShape x -> s\nGather s,zero -> n\nEqual n,one -> c\n"
         "If c -> y then_branch=$0 else_branch=$1",
    "out a\nSqueeze h,ax -> a", "out b\nIdentity h -> b", NULL
  };
  static const char *const weights =
      "in x f64 b,3\nweight u f64 3,3\nconst ax i64 1 = 0\nconst one i64 = 1\nconst zero i64 = 0\nout y\n"
      "MatMul x,u -> h\n";
  g_autofree char *text = g_strconcat (weights, strstr (texts[0], "Shape x"), NULL);
  g_autofree char *squeezed = g_strconcat (weights, "Squeeze h,ax -> y", NULL),
                  *same = g_strconcat (weights, "Identity h -> y", NULL);
  const char *const own[] = { text, texts[1], texts[2], NULL };
  check (own, squeezed, 1);
  check (own, same, 4);
}

/* One session, whose feeds change their size: each size has its own plan. */
static void
test_sizes (void)
{
  g_autoptr (GError) error = NULL;
  static const char *const texts[] = { ROWS COUNT "If c -> y then_branch=$0 else_branch=$1", "out a\nSin h -> a",
                                       "out b\nMatMul h,v -> b", NULL };
  g_autoptr (GBytes) bytes = model_text_write (texts, 18);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
  ortrain_training_options_add_loss (options, loss);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 6; i++)
    {
      const gint64 dims[] = { i % 3 + 1, 3 };
      g_autoptr (OrtrainTensorDict) feeds = model_text_feed_matrix (dims[0], 3);
      g_autoptr (OrtrainTensor) target = model_text_feed (ORTRAIN_DTYPE_FLOAT64, dims, 2, 9);
      ortrain_tensor_dict_set (feeds, "t", target);
      ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
      g_assert_no_error (error);
      const double v = ortrain_tensor_get_scalar (ortrain_tensor_dict_get (gradients, "v"), 0);
      g_assert_true ((dims[0] == 2) == (v == 0));
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
}

static void
test_refused (void)
{
  static const struct
  {
    const char *const texts[4];
    const char *why;
  } cases[] = {
    { { ROWS "ReduceSum h -> r keepdims=0\nGreater r,nought -> c\nIf c -> y then_branch=$0 else_branch=$1",
        "out a\nSin h -> a", "out b\nMatMul h,v -> b", NULL },
      "its condition is computed from data" },
    { { ROWS COUNT "If c -> y then_branch=$0 else_branch=$1",
        "out a\nconst half f64 = .5\nRandomNormalLike h -> n2 dtype=11\nAdd h,n2 -> a", "out b\nMatMul h,v -> b",
        NULL },
      "random numbers" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = model_text_write (cases[i].texts, 18);
      g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
      g_autofree char *told = ortrain_check_report_to_string (report);
      g_test_message ("%s", told);
      g_assert_false (ortrain_check_report_get_trainable (report));
      g_assert_nonnull (strstr (told, cases[i].why));
      g_assert_nonnull (strstr (told, "torch.where"));
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
      ortrain_training_options_add_loss (options, loss);
      g_assert_null (ortrain_training_session_new (model, options, &error));
      g_assert_nonnull (error);
      g_test_message ("%s", error->message);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/branch-gradients/two", test_two);
  g_test_add_func ("/branch-gradients/outputs", test_outputs);
  g_test_add_func ("/branch-gradients/nested", test_nested);
  g_test_add_func ("/branch-gradients/ranks", test_ranks);
  g_test_add_func ("/branch-gradients/sizes", test_sizes);
  g_test_add_func ("/branch-gradients/refused", test_refused);
  return g_test_run ();
}
