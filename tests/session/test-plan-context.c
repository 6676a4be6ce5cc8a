/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The settings under which a session was created are named in its plans, and hold for as long as it lives. */
#include "session/fixture.h"

#include <json-glib/json-glib.h>

static char *
get_context (OrtrainTrainingSession *session, TestModel *model)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_autofree char *text = ortrain_memory_plan_to_json (plan);
  g_autoptr (JsonNode) root = json_from_string (text, &error);
  g_assert_no_error (error);
  return json_to_string (json_object_get_member (json_node_get_object (root), "context"), FALSE);
}

static OrtrainTrainingSession *
make_session (TestModel *model, const char *disabled, const char *expanded, const char *streams)
{
  const char *const names[] = { "ORTRAIN_DISABLE_PASSES", "ORTRAIN_EXPAND", "ORTRAIN_STREAMS" };
  const char *const values[] = { disabled, expanded, streams };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (values[i] != NULL)
      g_setenv (names[i], values[i], TRUE);
  OrtrainTrainingSession *session = test_model_make_session (model, "adamw");
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_unsetenv (names[i]);
  return session;
}

/* Plans are made when the environment has changed again. */
static void
test_environments (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) plain = make_session (model, NULL, NULL, NULL);
  g_autoptr (OrtrainTrainingSession) other = make_session (model, "fuse-linear,merge-equal", "all", "2");
  g_autofree char *a = get_context (plain, model), *b = get_context (other, model);
  g_assert_cmpstr (a, ==, "{\"device\":\"cpu\",\"streams\":1,\"disabled_passes\":[],\"expanded\":[]}");
  g_assert_cmpstr (b, ==,
                   "{\"device\":\"cpu\",\"streams\":2,\"disabled_passes\":[\"fuse-linear\",\"merge-equal\"],"
                   "\"expanded\":[\"all\"]}");
}

/* The passes of the context are left out: the plan has other nodes. */
static void
test_passes (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) plain = make_session (model, NULL, NULL, NULL);
  g_autoptr (OrtrainTrainingSession) other = make_session (model, "all", NULL, NULL);
  g_autoptr (OrtrainMemoryPlan) a = ortrain_training_session_plan (plain, test_model_feeds (model, 0), &error);
  g_autoptr (OrtrainMemoryPlan) b = ortrain_training_session_plan (other, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_n_steps (a), !=, ortrain_memory_plan_get_n_steps (b));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan-context/environments", test_environments);
  g_test_add_func ("/plan-context/passes", test_passes);
  return g_test_run ();
}
