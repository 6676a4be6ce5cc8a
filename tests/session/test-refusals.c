/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../model/model-text.h"

/* `check` reports nodes that a kernel would refuse when a plan is made, and layers that a file has only in part. */

static char *
check (const char *text, gboolean *trainable)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = model_text_new (text, 17, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  char *told = ortrain_check_report_to_string (report);
  g_test_message ("%s", told);
  *trainable = ortrain_check_report_get_trainable (report);
  return told;
}

static void
test_refused (void)
{
  static const struct
  {
    const char *text, *words[2];
  } cases[] = {
    { "in x f32 1,2,3,3,3,3\nweight w f32 2,2,1,1,1,1\nout y\nConv x,w -> y",
      { "Conv", "one to three spatial dimensions" } },
    { "in x f32 n,2,3,t,3,3\nweight w f32 2,2,2,2,2,2\nout y\nConv x,w -> y",
      { "Conv", "one to three spatial dimensions" } },
    { "in x f32 n,2,3,3,3,3\nweight w f32 2,2,1,1,1,1\nout y\nConvTranspose x,w -> y",
      { "ConvTranspose", "dimensions" } },
    { "in x f32 2,5,4\nin h f32 1,5,3\nin c f32 1,5,6\nweight w f32 1,24,4\nweight r f32 1,24,3\nout y\n"
      "LSTM x,w,r,,,h,c -> y hidden_size=6",
      { "LSTM", "proj_size" } },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      gboolean trainable;
      g_autofree char *told = check (cases[i].text, &trainable);
      g_assert_false (trainable);
      for (guint k = 0; k < 2; k++)
        g_assert_nonnull (strstr (told, cases[i].words[k]));
    }
}

/* Sizes and shape inputs that are not known yet refuse nothing; the needs of another output do not matter. */
static void
test_taken (void)
{
  static const char *const taken[] = {
    "in x f32 n,2,d,h,w\nweight k f32 2,2,3,3,3\nout y\nConv x,k -> y",
    ("in x f32 n,4\nweight w f32 4,6\nMatMul x,w -> h\nShape h -> s\nconst one i64 1 = 1\nconst two i64 1 = 2\n"
     "Slice s,one,two -> e\nDiv e,two -> half\nconst zero i64 1 = 0\nSlice h,zero,half,one -> y\nout y"),
    "in x f32 1,2,3,3,3,3\nweight w f32 2,2,1,1,1,1\nout y\nout z\nConv x,w -> z\nMul x,w -> y",
  };
  for (guint i = 0; i < G_N_ELEMENTS (taken); i++)
    {
      gboolean trainable;
      g_autofree char *told = check (taken[i], &trainable);
      g_assert_true (trainable);
      g_assert_true ((strstr (told, "Conv") != NULL) == (i == 2));
    }
}

/* A training form may be without stored statistics where the library wrote it; a file's may not. */
static void
test_missing_statistics (void)
{
  static const char *const files[] = {
    "in x f32 4,2\nweight s f32 2\nweight b f32 2\nconst v f32 2 = 1,1\nout y\nout m\nBatchNormalization x,s,b,,v -> "
    "y,m training_mode=1",
    "in x f32 4,2\nweight s f32 2\nweight b f32 2\nconst v f32 2 = 1,1\nout y\nBatchNormalization x,s,b,v, -> y "
    "training_mode=1",
    "in x f32 4,2\nweight s f32 2\nweight b f32 2\nconst v f32 2 = 1,1\nout y\nBatchNormalization x,s,b,,v -> y",
    "in x f32 4,2\nweight s f32 2\nweight b f32 2\nout y\nBatchNormalization x,s,b -> y training_mode=1",
  };
  static const char *const said[] = { "input 3 is missing", "input 4 is missing", "input 3 is missing",
                                      "input 3 is missing" };
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = model_text_new (files[i], 17, &error);
      g_autoptr (OrtrainCheckReport) report = model != NULL ? ortrain_model_check (model) : NULL;
      g_autofree char *told = report != NULL ? ortrain_check_report_to_string (report) : g_strdup (error->message);
      g_assert_false (report != NULL && ortrain_check_report_get_trainable (report));
      g_assert_nonnull (strstr (told, said[i]));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/refusals/refused", test_refused);
  g_test_add_func ("/refusals/taken", test_taken);
  g_test_add_func ("/refusals/missing-statistics", test_missing_statistics);
  return g_test_run ();
}
