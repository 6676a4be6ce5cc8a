/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include "core/ortrain-text-private.h"

#include <math.h>
#include <string.h>

/* ONNX's own runner takes these for a match, element by element: |found - expected| ≤ ATOL + RTOL |expected|. */
#define RTOL 1e-3
#define ATOL 1e-7

static gboolean
equal_enough (OrtrainTensor *found, OrtrainTensor *expected, char **why)
{
  gsize n_found, n_expected;
  const gint64 *a = ortrain_tensor_get_dims (found, &n_found), *b = ortrain_tensor_get_dims (expected, &n_expected);
  OrtrainDType dtype = ortrain_tensor_get_dtype (expected);
  if (ortrain_tensor_get_dtype (found) != dtype)
    {
      *why = g_strdup_printf ("type %s instead of %s", ortrain_dtype_get_name (ortrain_tensor_get_dtype (found)),
                              ortrain_dtype_get_name (dtype));
      return FALSE;
    }
  if (n_found != n_expected || (n_found > 0 && memcmp (a, b, n_found * sizeof *a) != 0))
    {
      g_autofree char *x = ortrain_tensor_to_string (found), *y = ortrain_tensor_to_string (expected);
      *why = g_strdup_printf ("%s instead of %s", x, y);
      return FALSE;
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
      return FALSE;
    }
  return TRUE;
}

/* What a library may not have yet is skipped, with the reason; what it has must be right. */
static gboolean
is_unsupported (const GError *error)
{
  return g_error_matches (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR) ||
         g_error_matches (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT) ||
         g_error_matches (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL) ||
         g_error_matches (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED) ||
         g_error_matches (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_VERSION);
}

/* Data that no implementation of the standard can match, and why. */
#define LIKE "the data feed 'like' in another shape than the model declares"

static const char *
find_exception (const char *name)
{
  static const struct
  {
    const char *name, *why;
  } table[] = {
    { "test_castlike_BFLOAT16_to_FLOAT", LIKE },
    { "test_castlike_BFLOAT16_to_FLOAT_expanded", LIKE },
    { "test_castlike_FLOAT_to_BFLOAT16", LIKE },
    { "test_castlike_FLOAT_to_BFLOAT16_expanded", LIKE },
    { "test_adam_multiple",
      "the expected values were made with epsilon 1e-2, the model leaves it at its default 1e-6" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i].name, name))
      return table[i].why;
  return NULL;
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

/* Operators whose outputs are drawn at random: the stored outputs are one draw of another generator. */
static const char *
random_operator (OrtrainGraph *graph)
{
  static const char *const types[] = { "RandomNormal",      "RandomUniform", "RandomNormalLike",
                                       "RandomUniformLike", "Bernoulli",     "Multinomial" };
  GListModel *nodes = ortrain_graph_get_nodes (graph);
  for (guint i = 0; i < g_list_model_get_n_items (nodes); i++)
    {
      g_autoptr (OrtrainNode) node = g_list_model_get_item (nodes, i);
      for (guint k = 0; k < G_N_ELEMENTS (types); k++)
        if (g_str_equal (ortrain_node_get_op_type (node), types[k]))
          return types[k];
    }
  return NULL;
}

static gboolean
has_training_dropout (OrtrainGraph *graph)
{
  GListModel *nodes = ortrain_graph_get_nodes (graph);
  for (guint i = 0; i < g_list_model_get_n_items (nodes); i++)
    {
      g_autoptr (OrtrainNode) node = g_list_model_get_item (nodes, i);
      if (g_str_equal (ortrain_node_get_op_type (node), "Dropout") && ortrain_node_get_input (node, 2) != NULL)
        return TRUE;
    }
  return FALSE;
}

typedef enum
{
  PASS,
  FAIL,
  SKIP
} Outcome;

static Outcome
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
        {
          Outcome outcome = is_unsupported (error) ? SKIP : FAIL;
          *why = g_strdup (error->message);
          g_clear_error (&error);
          return outcome;
        }
      ortrain_tensor_dict_set (feeds, ortrain_value_get_name (value), tensor);
    }
  g_autoptr (OrtrainTensorDict) found = ortrain_inference_session_run (session, feeds, &error);
  if (found == NULL)
    {
      Outcome outcome = is_unsupported (error) ? SKIP : FAIL;
      *why = g_strdup (error->message);
      g_clear_error (&error);
      return outcome;
    }
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
        {
          Outcome outcome = is_unsupported (error) ? SKIP : FAIL;
          *why = g_strdup (error->message);
          g_clear_error (&error);
          return outcome;
        }
      if (!equal_enough (output, expected, &text))
        {
          if (has_training_dropout (graph))
            {
              *why = g_strdup ("Dropout draws at random while training");
              return SKIP;
            }
          *why = g_strdup_printf ("output '%s': %s", ortrain_text_show (ortrain_value_get_name (value)), text);
          return FAIL;
        }
    }
  return PASS;
}

static Outcome
verify (const char *directory, char **why)
{
  GError *error = NULL;
  g_autofree char *path = g_build_filename (directory, "model.onnx", NULL);
  /* The tests of whole models come without the model: data.json says where it can be fetched from. */
  g_autofree char *source = g_build_filename (directory, "data.json", NULL);
  if (!g_file_test (path, G_FILE_TEST_EXISTS) && g_file_test (source, G_FILE_TEST_EXISTS))
    {
      *why = g_strdup ("model.onnx is not part of the package; data.json says where it is to be had");
      return SKIP;
    }
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  OrtrainGraph *file = model != NULL ? ortrain_model_get_file_graph (model) : NULL;
  if (file != NULL && (has_strings (ortrain_graph_get_inputs (file)) || has_strings (ortrain_graph_get_outputs (file))))
    {
      *why = g_strdup ("strings are carried in models, not computed with");
      return SKIP;
    }
  OrtrainGraph *graph = model != NULL ? ortrain_model_get_graph (model, &error) : NULL;
  g_autoptr (OrtrainInferenceSession) session =
      graph != NULL ? ortrain_inference_session_new (model, NULL, &error) : NULL;
  if (session == NULL)
    {
      Outcome outcome = is_unsupported (error) ? SKIP : FAIL;
      *why = g_strdup (error->message);
      g_clear_error (&error);
      return outcome;
    }
  const char *random = random_operator (graph);
  if (random != NULL)
    {
      *why = g_strdup_printf ("%s draws at random", random);
      return SKIP;
    }
  guint n_sets = 0;
  for (;; n_sets++)
    {
      g_autofree char *name = g_strdup_printf ("test_data_set_%u", n_sets);
      g_autofree char *set = g_build_filename (directory, name, NULL);
      if (!g_file_test (set, G_FILE_TEST_IS_DIR))
        break;
      Outcome outcome = verify_set (session, graph, set, why);
      if (outcome != PASS)
        return outcome;
    }
  if (n_sets == 0)
    {
      *why = g_strdup ("there is no test_data_set_0");
      return FAIL;
    }
  return PASS;
}

static ExitStatus
run (int argc, char *argv[])
{
  gboolean quiet = FALSE;
  const GOptionEntry entries[] = {
    { "quiet", 'q', 0, G_OPTION_ARG_NONE, &quiet, "Print failures and the last line only", NULL },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_verify, entries, &argc, &argv, 1, -1, &status))
    return status;
  static const char *const words[] = { "PASS", "FAIL", "SKIP" };
  guint counts[3] = { 0 };
  for (int i = 1; i < argc; i++)
    {
      g_autofree char *why = NULL;
      g_autofree char *name = g_path_get_basename (argv[i]);
      Outcome outcome = verify (argv[i], &why);
      if (outcome == FAIL && find_exception (name) != NULL) /* later versions of the data may be right */
        {
          g_free (why);
          why = g_strdup (find_exception (name));
          outcome = SKIP;
        }
      counts[outcome]++;
      if (outcome == PASS && !quiet)
        g_print ("PASS %s\n", name);
      else if (outcome == FAIL || (outcome == SKIP && !quiet))
        g_print ("%s %s: %s\n", words[outcome], name, why);
    }
  g_print ("%u passed, %u failed, %u skipped\n", counts[PASS], counts[FAIL], counts[SKIP]);
  return counts[FAIL] > 0 ? EXIT_FAILED : EXIT_OK;
}

const Command command_verify = { "verify", "DIR… [--quiet]",
                                 "Hold the library against folders of ONNX's test data (model.onnx, test_data_set_N/)",
                                 run };
