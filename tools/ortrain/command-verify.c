/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"
#include "onnx-test-list.h"

#include "core/ortrain-text-private.h"

#include <math.h>
#include <string.h>

/* ONNX's own runner takes these for a match, element by element: |found - expected| ≤ ATOL + RTOL |expected|. */
#define RTOL 1e-3
#define ATOL 1e-7

static OnnxTestOutcome
compare (OrtrainTensor *found, OrtrainTensor *expected, char **why)
{
  gsize n_found, n_expected;
  const gint64 *a = ortrain_tensor_get_dims (found, &n_found), *b = ortrain_tensor_get_dims (expected, &n_expected);
  OrtrainDType dtype = ortrain_tensor_get_dtype (expected);
  if (ortrain_tensor_get_dtype (found) != dtype)
    {
      *why = g_strdup_printf ("type %s instead of %s", ortrain_dtype_get_name (ortrain_tensor_get_dtype (found)),
                              ortrain_dtype_get_name (dtype));
      return ONNX_TEST_FAIL;
    }
  if (n_found != n_expected || (n_found > 0 && memcmp (a, b, n_found * sizeof *a) != 0))
    {
      g_autofree char *x = ortrain_tensor_to_string (found), *y = ortrain_tensor_to_string (expected);
      *why = g_strdup_printf ("%s instead of %s", x, y);
      return ONNX_TEST_FAIL;
    }
  double rtol = RTOL, atol = ATOL;
  if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    rtol = 1e-2; /* eight bits */
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (expected); i++)
    {
      double x = ortrain_tensor_get_scalar (found, i), y = ortrain_tensor_get_scalar (expected, i);
      if ((isnan (x) && isnan (y)) || x == y || fabs (x - y) <= atol + rtol * fabs (y))
        continue;
      *why = g_strdup_printf ("element %" G_GINT64_FORMAT " is %g instead of %g", i, x, y);
      return ONNX_TEST_DIFF;
    }
  return ONNX_TEST_PASS;
}

/* Features that a library may not have yet are refused, with the reason; those that it has must be right. */
static gboolean
is_unsupported (const GError *error)
{
  return g_error_matches (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR) ||
         g_error_matches (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT) ||
         g_error_matches (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL) ||
         g_error_matches (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED) ||
         g_error_matches (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_VERSION);
}

static gboolean
has_strings (GListModel *values)
{
  for (guint i = 0; i < g_list_model_get_n_items (values); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (values, i);
      if (ortrain_value_get_dtype (value) == ORTRAIN_DTYPE_STRING)
        return TRUE;
    }
  return FALSE;
}

/* Old data hold bfloat16 as the bits in uint16. */
static OrtrainTensor *
read_tensor (const char *path, OrtrainDType wanted, GError **error)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_onnx (path, error);
  if (tensor == NULL || wanted != ORTRAIN_DTYPE_BFLOAT16 || ortrain_tensor_get_dtype (tensor) != ORTRAIN_DTYPE_UINT16)
    return g_steal_pointer (&tensor);
  gsize n_dims;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &n_dims);
  g_autoptr (GBytes) bytes = ortrain_tensor_get_bytes (tensor, error);
  return bytes != NULL ? ortrain_tensor_new_for_bytes (ORTRAIN_DTYPE_BFLOAT16, dims, n_dims, bytes, error) : NULL;
}

static OnnxTestOutcome
outcome_of_error (GError **error, char **why)
{
  const OnnxTestOutcome outcome = is_unsupported (*error) ? ONNX_TEST_SKIP : ONNX_TEST_FAIL;
  *why = g_strdup ((*error)->message);
  g_clear_error (error);
  return outcome;
}

static OnnxTestOutcome
verify_set (OrtrainInferenceSession *session, OrtrainGraph *graph, const char *directory, char **why)
{
  GError *error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  GListModel *inputs = ortrain_graph_get_inputs (graph), *outputs = ortrain_graph_get_outputs (graph);
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      g_autofree char *name = g_strdup_printf ("input_%u.pb", i);
      g_autofree char *path = g_build_filename (directory, name, NULL);
      g_autoptr (OrtrainTensor) tensor = read_tensor (path, ortrain_value_get_dtype (value), &error);
      if (tensor == NULL)
        return outcome_of_error (&error, why);
      ortrain_tensor_dict_set (feeds, ortrain_value_get_name (value), tensor);
    }
  g_autoptr (OrtrainTensorDict) found = ortrain_inference_session_run (session, feeds, &error);
  if (found == NULL)
    return outcome_of_error (&error, why);
  for (guint i = 0; i < g_list_model_get_n_items (outputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (outputs, i);
      g_autofree char *name = g_strdup_printf ("output_%u.pb", i);
      g_autofree char *path = g_build_filename (directory, name, NULL);
      if (!g_file_test (path, G_FILE_TEST_EXISTS))
        continue;
      OrtrainTensor *output = ortrain_tensor_dict_get (found, ortrain_value_get_name (value));
      g_autoptr (OrtrainTensor) expected = read_tensor (path, ortrain_tensor_get_dtype (output), &error);
      g_autofree char *text = NULL;
      if (expected == NULL)
        return outcome_of_error (&error, why);
      const OnnxTestOutcome outcome = compare (output, expected, &text);
      if (outcome != ONNX_TEST_PASS)
        {
          *why = g_strdup_printf ("output '%s': %s", ortrain_text_show (ortrain_value_get_name (value)), text);
          return outcome;
        }
    }
  return ONNX_TEST_PASS;
}

static OnnxTestOutcome
verify (const char *directory, gboolean allow_links, char **why)
{
  GError *error = NULL;
  g_autofree char *path = g_build_filename (directory, "model.onnx", NULL);
  /* The tests of whole models come without the model: data.json says where it can be fetched from. */
  g_autofree char *source = g_build_filename (directory, "data.json", NULL);
  if (!g_file_test (path, G_FILE_TEST_EXISTS) && g_file_test (source, G_FILE_TEST_EXISTS))
    {
      *why = g_strdup ("model.onnx is not part of the package; data.json says where it is to be had");
      return ONNX_TEST_SKIP;
    }
  g_autoptr (OrtrainModel) model = command_load_model (path, allow_links, &error);
  OrtrainGraph *file = model != NULL ? ortrain_model_get_file_graph (model) : NULL;
  if (file != NULL && (has_strings (ortrain_graph_get_inputs (file)) || has_strings (ortrain_graph_get_outputs (file))))
    {
      *why = g_strdup ("strings are carried in models, not computed with");
      return ONNX_TEST_SKIP;
    }
  OrtrainGraph *graph = model != NULL ? ortrain_model_get_graph (model, &error) : NULL;
  g_autoptr (OrtrainInferenceSession) session =
      graph != NULL ? ortrain_inference_session_new (model, NULL, &error) : NULL;
  if (session == NULL)
    return outcome_of_error (&error, why);
  guint n_sets = 0;
  for (;; n_sets++)
    {
      g_autofree char *name = g_strdup_printf ("test_data_set_%u", n_sets);
      g_autofree char *set = g_build_filename (directory, name, NULL);
      if (!g_file_test (set, G_FILE_TEST_IS_DIR))
        break;
      OnnxTestOutcome outcome = verify_set (session, graph, set, why);
      if (outcome != ONNX_TEST_PASS)
        return outcome;
    }
  if (n_sets == 0)
    {
      *why = g_strdup ("there is no test_data_set_0");
      return ONNX_TEST_FAIL;
    }
  return ONNX_TEST_PASS;
}

/* The report on a test: its word, and, if it does not pass, the reason. */
typedef struct
{
  guint counts[ONNX_TEST_N_OUTCOMES]; /* printed: PASS, FAIL and SKIP */
  guint n_unlisted, n_unlisted_skips, n_better;
  gboolean quiet, listed;
} Report;

static void
report_line (Report *self, OnnxTestOutcome word, const char *name, const char *why)
{
  self->counts[word]++;
  if (word == ONNX_TEST_PASS && !self->quiet)
    g_print ("PASS %s\n", name);
  else if (word == ONNX_TEST_FAIL || (word == ONNX_TEST_SKIP && !self->quiet))
    g_print ("%s %s: %s\n", onnx_test_outcome_get_word (word), name, why);
}

/* A test that the list does not have is not counted as a failure if only listed tests count. */
static void
report_unlisted (Report *self, const char *name, OnnxTestOutcome outcome, const char *why)
{
  self->n_unlisted++;
  if (self->listed)
    {
      g_print ("NEW  %s: %s%s%s\n", name, onnx_test_outcome_get_word (outcome), why != NULL ? ", " : "",
               why != NULL ? why : "");
      return;
    }
  self->n_unlisted_skips += outcome == ONNX_TEST_SKIP;
  report_line (self, outcome == ONNX_TEST_DIFF ? ONNX_TEST_FAIL : outcome, name, why);
}

static void
report_test (Report *self, const OnnxTest *test, const char *name, OnnxTestOutcome outcome, const char *why)
{
  if (test == NULL)
    report_unlisted (self, name, outcome, why);
  else if (outcome == ONNX_TEST_PASS)
    {
      report_line (self, ONNX_TEST_PASS, name, NULL);
      if (test->outcome == ONNX_TEST_PASS)
        return;
      self->n_better++;
      g_print ("NEW  %s: passes, and the list has it as %s: %s\n", name, onnx_test_outcome_get_word (test->outcome),
               test->reason);
    }
  else if (outcome == test->outcome)
    report_line (self, ONNX_TEST_SKIP, name, test->reason);
  else
    {
      g_autofree char *text = g_strdup_printf ("%s (%s, and %s in the list)", why, onnx_test_outcome_get_word (outcome),
                                               onnx_test_outcome_get_word (test->outcome));
      report_line (self, ONNX_TEST_FAIL, name, text);
    }
}

static ExitStatus
run (int argc, char *argv[])
{
  Report report = { 0 };
  gboolean allow_links = FALSE;
  const GOptionEntry entries[] = {
    { "quiet", 'q', 0, G_OPTION_ARG_NONE, &report.quiet, "Print failures, what is new, and the last line only", NULL },
    { "listed", 0, 0, G_OPTION_ARG_NONE, &report.listed, "Only tests that the list has may fail", NULL },
    COMMAND_MODEL_ENTRIES (allow_links),
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_verify, entries, &argc, &argv, 1, -1, &status))
    return status;
  GError *error = NULL;
  g_autoptr (GHashTable) list = onnx_test_list_load (&error);
  if (list == NULL)
    return command_fail (error);
  for (int i = 1; i < argc; i++)
    {
      g_autofree char *why = NULL;
      g_autofree char *name = g_path_get_basename (argv[i]);
      const OnnxTestOutcome outcome = verify (argv[i], allow_links, &why);
      report_test (&report, g_hash_table_lookup (list, name), name, outcome, why);
    }
  g_print ("%u passed, %u failed, %u skipped\n", report.counts[ONNX_TEST_PASS], report.counts[ONNX_TEST_FAIL],
           report.counts[ONNX_TEST_SKIP]);
  if (report.n_unlisted_skips > 0)
    g_printerr ("%u of the skipped are not in the list of unsupported tests\n", report.n_unlisted_skips);
  return report.counts[ONNX_TEST_FAIL] + report.n_unlisted_skips > 0 ? EXIT_FAILED : EXIT_OK;
}

const Command command_verify = { "verify", "DIR… [OPTION]…",
                                 "Hold the library against folders of ONNX's test data (model.onnx, test_data_set_N/)",
                                 run };
