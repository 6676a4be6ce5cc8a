/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "all-cases.h"
#include "cache-folder.h"
#include "core/ortrain-disk-cache-private.h"
#include "fixture.h"
#include "session/ortrain-training-session-private.h"
#include "text-model.h"

/* Promise: a session that finds the result of an earlier search does not search, and has the same plan, byte for byte;
 * no content of the cache changes that plan. */

typedef struct
{
  guint level;
  OrtrainOffload offload;
} Way;

static const Way ways[] = { { 0, ORTRAIN_OFFLOAD_OFF }, { 0, ORTRAIN_OFFLOAD_ON }, { 1, ORTRAIN_OFFLOAD_OFF } };

static guint
count_hits (void)
{
  return ortrain_disk_cache_get_counts ().n_hits;
}

/* A message without the free memory of the device, which is another number in the next session. */
static char *
cut_free (const char *message)
{
  const char *start = strstr (message, "; of '"), *end = strstr (message, " are free");
  g_assert_true (start != NULL && end != NULL && start < end);
  g_autofree char *head = g_strndup (message, (gsize) (start - message));
  return g_strconcat (head, end + strlen (" are free"), NULL);
}

/* The plan of a session; if the budget cannot be met, the error message, and a peak of 0. */
static char *
plan_fixture (TestModel *model, guint64 budget, const Way *way, guint *n_searches, guint64 *peak)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_memory_opt_level (options, way->level);
  ortrain_training_options_set_offload (options, way->offload);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  *n_searches = ortrain_executor_get_n_searches (session->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
  if (plan == NULL)
    {
      g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
      *peak = 0;
      return cut_free (error->message);
    }
  *peak = ortrain_memory_plan_get_peak_bytes (plan);
  return ortrain_memory_plan_to_json (plan);
}

/* At several budgets: without a cache, with an empty one, and with the entries that that wrote. */
static void
test_same_plan (gpointer *fixture, gconstpointer name)
{
  g_autoptr (TestModel) model = test_model_load (name);
  guint64 whole = 0, peak = 0;
  guint n_searches, n_found = 0;
  g_autofree char *unbounded = plan_fixture (model, 0, &ways[0], &n_searches, &whole);
  g_assert_nonnull (unbounded);
  g_assert_cmpuint (test_count_entries (folder), ==, 0); /* nothing is searched for */
  for (guint w = 0; w < G_N_ELEMENTS (ways); w++)
    for (guint percent = 95; percent >= 75; percent -= 10)
      {
        const guint64 budget = whole * percent / 100;
        const guint n_before = test_count_entries (folder);
        g_setenv ("ORTRAIN_CACHE", "off", TRUE);
        g_autofree char *expected = plan_fixture (model, budget, &ways[w], &n_searches, &peak);
        g_assert_cmpuint (test_count_entries (folder), ==, n_before);
        const gboolean searched = n_searches > 0;
        guint n_added = 0; /* two where the first of two searches finds nothing, which is kept as well */
        g_setenv ("ORTRAIN_CACHE", folder, TRUE);
        for (guint round = 0; round < 2; round++)
          {
            const guint n_hits = count_hits ();
            g_autofree char *found = plan_fixture (model, budget, &ways[w], &n_searches, &peak);
            g_assert_cmpstr (found, ==, expected);
            if (peak > 0)
              {
                if (round == 0)
                  n_added = test_count_entries (folder) - n_before;
                g_assert_cmpuint (n_searches, ==, searched && round == 0);
                g_assert_cmpint (n_added > 0, ==, searched);
                g_assert_cmpuint (count_hits () - n_hits, ==, round == 1 ? n_added : 0);
                g_assert_cmpuint (test_count_entries (folder) - n_before, ==, n_added);
              }
          }
        n_found += peak > 0 && searched;
      }
  g_assert_cmpuint (n_found, >, 1);
}

/* A budget that nothing meets: the same message, without a search for that budget or for a batch that fits. */
static void
test_refused (gpointer *fixture, gconstpointer name)
{
  g_autoptr (TestModel) model = test_model_load (name);
  guint64 whole = 0, peak;
  guint n_searches;
  g_autofree char *unbounded G_GNUC_UNUSED = plan_fixture (model, 0, &ways[0], &n_searches, &whole);
  for (guint w = 0; w < G_N_ELEMENTS (ways); w++)
    for (guint percent = 1; percent <= 41; percent += 20)
      {
        const guint64 budget = whole * percent / 100;
        g_setenv ("ORTRAIN_CACHE", "off", TRUE);
        g_autofree char *expected = plan_fixture (model, budget, &ways[w], &n_searches, &peak);
        g_assert_cmpuint (peak, ==, 0);
        g_setenv ("ORTRAIN_CACHE", folder, TRUE);
        guint n_entries = test_count_entries (folder);
        for (guint round = 0; round < 2; round++)
          {
            const OrtrainDiskCacheCounts before = ortrain_disk_cache_get_counts ();
            g_autofree char *found = plan_fixture (model, budget, &ways[w], &n_searches, &peak);
            const OrtrainDiskCacheCounts after = ortrain_disk_cache_get_counts ();
            g_assert_cmpuint (peak, ==, 0);
            g_assert_cmpstr (found, ==, expected);
            if (round == 0)
              g_assert_cmpuint (test_count_entries (folder), >, n_entries);
            else
              {
                g_assert_cmpuint (after.n_hits, >, before.n_hits);
                g_assert_cmpuint (after.n_misses, ==, before.n_misses);
                g_assert_cmpuint (after.n_stored, ==, before.n_stored);
              }
          }
      }
}

static OrtrainTrainingSession *
make_text_session (OrtrainModel *model, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "targets");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_memory_budget (options, budget);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

#define BATCH 64

static char *
plan_text (OrtrainTrainingSession *session, gint64 length, guint64 *peak)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = text_make_feeds (0, BATCH, length, TRUE);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  *peak = ortrain_memory_plan_get_peak_bytes (plan);
  return ortrain_memory_plan_to_json (plan);
}

/* The result of the first shape is used for others of the family: also if it was looked up. Steps have the same
 * bits. */
static void
test_family (gpointer *fixture, gconstpointer data)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  g_autoptr (OrtrainTrainingSession) unbounded = make_text_session (model, 0);
  guint64 whole, peak;
  g_autofree char *first G_GNUC_UNUSED = plan_text (unbounded, MAX_LENGTH, &whole);
  const guint64 budget = whole * 3 / 4;
  g_autoptr (OrtrainTrainingSession) cold = make_text_session (model, budget), warm = make_text_session (model, budget);
  for (gint64 length = MAX_LENGTH; length > 20; length--)
    {
      double loss, again;
      g_autofree char *expected = plan_text (cold, length, &peak), *found = plan_text (warm, length, &peak);
      g_assert_cmpuint (peak, <=, budget);
      g_assert_cmpstr (found, ==, expected);
      g_assert_true (text_train_step (cold, 0, BATCH, length, &loss, NULL));
      g_assert_true (text_train_step (warm, 0, BATCH, length, &again, NULL));
      g_assert_cmpmem (&again, sizeof again, &loss, sizeof loss);
    }
  text_check_same_parameters (cold, warm);
  g_assert_cmpuint (ortrain_executor_get_n_searches (cold->executors[ORTRAIN_TRAINING_RUN_TRAIN]), ==, 1);
  g_assert_cmpuint (ortrain_executor_get_n_searches (warm->executors[ORTRAIN_TRAINING_RUN_TRAIN]), ==, 0);
}

#define HEAD_BYTES 48 /* of a file of the cache, before the contents */
#define SUM_BYTES 32  /* after them */

/* The message without the advice on options that would help: that takes searches of its own. */
static char *
plan_refused (TestModel *model, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_offload (options, ORTRAIN_OFFLOAD_OFF); /* one search, and one entry */
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  OrtrainTensorDict *feeds = test_model_feeds (model, 0);
  const gint64 batch = ortrain_training_session_find_batch (session, feeds);
  g_assert_cmpint (batch, >, 0);
  g_assert_null (ortrain_training_session_plan_batch (session, feeds, batch, budget, &error));
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  return g_strdup (error->message);
}

static char *
plan_found (TestModel *model, guint64 budget)
{
  guint n_searches;
  guint64 peak;
  char *plan = plan_fixture (model, budget, &ways[0], &n_searches, &peak);
  g_assert_cmpuint (peak, >, 0);
  return plan;
}

/* The only entry, whole and wrong in many places: the plan that is made of it, or the refusal, is the right one, or it
 * is searched for. */
static void
check_wrong (TestModel *model, guint64 budget, char *(*plan) (TestModel *model, guint64 budget), const char *expected)
{
  g_autoptr (GError) error = NULL;
  guint n_again = 0;
  gsize n;
  g_autofree char *path = cache_folder_find_file (), *bytes = NULL;
  g_assert_true (g_file_get_contents (path, &bytes, &n, &error));
  const gsize n_contents = n - HEAD_BYTES - SUM_BYTES, step = MAX (n_contents / 60, 1);
  for (gsize i = 0; i < n_contents; i += i < 80 ? 7 : step)
    {
      g_autofree char *wrong = g_memdup2 (bytes, n);
      g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
      gsize n_sum = SUM_BYTES;
      wrong[HEAD_BYTES + i] ^= (char) (i % 2 == 0 ? 0xff : 1 << i % 8);
      g_checksum_update (sum, (const guchar *) wrong, (gssize) (n - SUM_BYTES));
      g_checksum_get_digest (sum, (guint8 *) wrong + n - SUM_BYTES, &n_sum);
      g_assert_true (g_file_set_contents (path, wrong, (gssize) n, &error));
      const OrtrainDiskCacheCounts before = ortrain_disk_cache_get_counts ();
      g_autofree char *found = plan (model, budget);
      const OrtrainDiskCacheCounts after = ortrain_disk_cache_get_counts ();
      g_assert_cmpstr (found, ==, expected);
      g_assert_cmpuint (after.n_hits - before.n_hits, ==, 1); /* it was read */
      n_again += after.n_stored - before.n_stored;
      g_autofree char *right = plan (model, budget); /* it was replaced, or right */
      g_assert_cmpstr (right, ==, expected);
      g_assert_cmpuint (ortrain_disk_cache_get_counts ().n_stored, ==, after.n_stored);
    }
  g_assert_cmpuint (n_again, >=, 5); /* the digest alone has as many */
}

static void
test_wrong_refusal (gpointer *fixture, gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load ("lstm");
  guint64 whole;
  guint n_searches;
  g_autofree char *unbounded G_GNUC_UNUSED = plan_fixture (model, 0, &ways[0], &n_searches, &whole);
  g_autofree char *expected = plan_refused (model, whole / 10);
  check_wrong (model, whole / 10, plan_refused, expected);
}

static void
test_wrong (gpointer *fixture, gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load ("lstm");
  guint64 whole, peak;
  guint n_searches;
  g_autofree char *unbounded G_GNUC_UNUSED = plan_fixture (model, 0, &ways[0], &n_searches, &whole);
  guint64 budget = whole;
  g_autofree char *expected = NULL;
  for (n_searches = 0; n_searches == 0; budget -= whole / 50)
    {
      g_free (expected);
      expected = plan_fixture (model, budget, &ways[0], &n_searches, &peak);
      g_assert_cmpuint (peak, >, 0);
    }
  budget += whole / 50;
  g_assert_cmpuint (n_searches, ==, 1);
  check_wrong (model, budget, plan_found, expected);
}

int
main (int argc, char **argv)
{
  static const char *const names[] = { "bert", "gpt2", "lstm", "unet", "mobilenet" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      if (!tests_run_all_cases () && !g_str_equal (names[i], "gpt2") && !g_str_equal (names[i], "unet"))
        continue;
      g_autofree char *path = g_strconcat ("/budget-cache/same-plan/", names[i], NULL);
      g_test_add (path, gpointer, names[i], cache_folder_begin, test_same_plan, cache_folder_end);
      g_autofree char *refused = g_strconcat ("/budget-cache/refused/", names[i], NULL);
      g_test_add (refused, gpointer, names[i], cache_folder_begin, test_refused, cache_folder_end);
    }
  g_test_add ("/budget-cache/family", gpointer, NULL, cache_folder_begin, test_family, cache_folder_end);
  g_test_add ("/budget-cache/wrong", gpointer, NULL, cache_folder_begin, test_wrong, cache_folder_end);
  g_test_add ("/budget-cache/wrong-refusal", gpointer, NULL, cache_folder_begin, test_wrong_refusal, cache_folder_end);
  return g_test_run ();
}
