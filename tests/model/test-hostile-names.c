/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A file may give anything any name. Messages about it are short, of one line, and printable; output for programs is
 * well-formed. */
#include "ortrain.h"

#include <math.h>
#include <string.h>

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>

#include "ortrain-proto-maker.h"
#include "plan/ortrain-memory-plan-private.h"

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
#define MAX_MESSAGE 1024

static const float weights[12] = { .5f, -1, .25f, 2, 1, .125f, -.5f, 1, -2, 1, .75f, -.25f };

static gboolean
is_printable (gunichar c)
{
  switch (g_unichar_type (c))
    {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT:
    case G_UNICODE_SURROGATE:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
      return FALSE;
    default:
      return TRUE;
    }
}

static void
check_line (const char *line)
{
  g_assert_true (g_utf8_validate (line, -1, NULL));
  for (const char *p = line; *p != '\0'; p = g_utf8_next_char (p))
    if (!is_printable (g_utf8_get_char (p)))
      g_error ("U+%04X at byte %d of “%.1000s”", g_utf8_get_char (p), (int) (p - line), line);
  if (strlen (line) > MAX_MESSAGE)
    g_error ("%" G_GSIZE_FORMAT " bytes: “%.2000s …”", strlen (line), line);
}

static void
check_text (const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    check_line (lines[i]);
}

static void
check_error (GError **error)
{
  g_assert_nonnull (*error);
  check_line ((*error)->message);
  g_clear_error (error);
}

static void
check_markup (const char *text)
{
  static const GMarkupParser nothing = { 0 };
  g_autoptr (GMarkupParseContext) context = g_markup_parse_context_new (&nothing, 0, NULL, NULL);
  g_autoptr (GError) error = NULL;
  g_markup_parse_context_parse (context, text, -1, &error);
  g_assert_no_error (error);
  g_markup_parse_context_end_parse (context, &error);
  g_assert_no_error (error);
  for (const char *p = text; *p != '\0'; p++)
    g_assert_true ((guchar) *p >= 0x20 || *p == '\n'); /* XML has no others */
}

static void
check_json (const char *text)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;
  g_assert_true (g_utf8_validate (text, -1, NULL));
  json_parser_load_from_data (parser, text, -1, &error);
  g_assert_no_error (error);
}

/* The names of one kind. */
typedef struct
{
  char *x, *w, *y, *z, *node, *graph, *op, *domain, *symbol;
} Names;

static Names *
names_new (const char *name)
{
  Names *self = g_new0 (Names, 1);
  self->x = g_strconcat (name, "x", NULL);
  self->w = g_strconcat (name, "w", NULL);
  self->y = g_strconcat (name, "y", NULL);
  self->z = g_strconcat (name, "z", NULL);
  self->node = g_strdup (name);
  self->graph = g_strdup (name);
  self->op = g_strconcat (name, "Op", NULL);
  self->domain = g_strconcat ("my.", name, NULL);
  self->symbol = g_strconcat (name, "batch", NULL);
  return self;
}

static void
names_free (Names *self)
{
  char **all[] = { &self->x,     &self->w,  &self->y,      &self->z,     &self->node,
                   &self->graph, &self->op, &self->domain, &self->symbol };
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    g_free (*all[i]);
  g_free (self);
}

static Proto *
make_node (const char *op_type, const char *domain, const char *name, const char *a, const char *b, const char *output)
{
  Proto *p = proto_new ();
  proto_string (p, 1, a);
  if (b != NULL)
    proto_string (p, 1, b);
  proto_string (p, 2, output);
  proto_string (p, 3, name);
  proto_string (p, 4, op_type);
  if (domain != NULL)
    proto_string (p, 7, domain);
  return p;
}

static Proto *
make_value (const char *name, const char *symbol, gint64 n)
{
  Proto *p = proto_new (), *shape = proto_new (), *tensor = proto_new (), *outer = proto_new ();
  Proto *first = proto_new (), *second = proto_new ();
  proto_string (first, 2, symbol);
  proto_int (second, 1, n);
  proto_message (shape, 1, first);
  proto_message (shape, 1, second);
  proto_int (tensor, 1, 1);
  proto_message (tensor, 2, shape);
  proto_message (outer, 1, tensor);
  proto_string (p, 1, name);
  proto_message (p, 2, outer);
  return p;
}

/* y = x w, with whatever `extra` is in the graph; n_rows of w: 3 fit. */
static OrtrainModel *
make_model (const Names *names, gint64 n_rows, Proto *extra, GError **error)
{
  Proto *graph = proto_new (), *model, *import = proto_new ();
  proto_message (graph, 1, make_node ("MatMul", NULL, names->node, names->x, names->w, names->y));
  proto_string (graph, 2, names->graph);
  proto_message (graph, 5, proto_tensor (names->w, 1, DIMS (n_rows, 12 / n_rows), weights, sizeof weights));
  proto_string (graph, 10, names->graph);
  proto_message (graph, 11, make_value (names->x, names->symbol, 3));
  proto_message (graph, 12, make_value (names->y, names->symbol, 12 / n_rows));
  if (extra != NULL)
    {
      g_byte_array_append (graph, extra->data, extra->len);
      g_byte_array_unref (extra);
    }
  model = proto_model_unfinished (graph, 8, 17);
  proto_string (model, 3, names->node); /* the producer's version */
  proto_string (import, 1, names->domain);
  proto_int (import, 2, 1);
  proto_message (model, 8, import);
  proto_entry (model, 14, names->node, names->node);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (model);
  return ortrain_model_new_from_bytes (bytes, NULL, error);
}

static void
expect_refused (const Names *names, Proto *extra)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (names, 3, extra, &error);
  if (model != NULL)
    {
      g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
      g_assert_null (session);
    }
  check_error (&error);
}

static Proto *
extra_message (guint field, Proto *message)
{
  Proto *extra = proto_new ();
  proto_message (extra, field, message);
  return extra;
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, const char *output, const char *trainable, GError **error)
{
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new (output, "target");
  ortrain_training_options_add_loss (options, loss);
  if (trainable != NULL)
    ortrain_training_options_set_trainable (options, (const char *const[]){ trainable, NULL });
  return ortrain_training_session_new (model, options, error);
}

static OrtrainTensor *
make_floats (gint64 rows, gint64 columns)
{
  const gint64 dims[] = { rows, columns };
  return ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, NULL);
}

static void
set (OrtrainTensorDict *dict, const char *name, OrtrainTensor *tensor)
{
  ortrain_tensor_dict_set (dict, name, tensor);
  g_object_unref (tensor);
}

static void
check_plan (OrtrainMemoryPlan *plan)
{
  g_autofree char *text = ortrain_memory_plan_to_string (plan), *json = ortrain_memory_plan_to_json (plan),
                  *svg = ortrain_memory_plan_to_svg (plan);
  check_text (text);
  check_json (json);
  check_markup (svg);
}

static void
test_files (gconstpointer data)
{
  Names *names = names_new (data);
  /* an operator and a domain that nobody knows */
  expect_refused (names,
                  extra_message (1, make_node (names->op, names->domain, names->node, names->y, NULL, names->z)));
  expect_refused (names, extra_message (1, make_node (names->op, NULL, names->node, names->y, NULL, names->z)));
  /* values that nothing produces, and with two producers */
  Proto *undefined = make_node ("Relu", NULL, names->node, names->z, NULL, "other");
  expect_refused (names, extra_message (1, undefined));
  expect_refused (names, extra_message (1, make_node ("Relu", NULL, names->node, names->x, NULL, names->y)));
  expect_refused (names, extra_message (12, make_value (names->z, names->symbol, 3)));
  expect_refused (names, extra_message (12, make_value (names->y, names->symbol, 4)));
  /* attributes */
  for (guint twice = 0; twice < 2; twice++)
    {
      Proto *node = make_node ("Softmax", NULL, names->node, names->y, NULL, names->z);
      for (guint i = 0; i <= twice; i++)
        {
          Proto *attribute = proto_new ();
          proto_string (attribute, 1, twice ? names->node : "axis");
          proto_int (attribute, 3, 99);
          proto_int (attribute, 20, 2);
          proto_message (node, 5, attribute);
        }
      expect_refused (names, extra_message (1, node));
    }
  Proto *mode = make_node ("Einsum", NULL, names->node, names->y, NULL, names->z), *equation = proto_new ();
  proto_string (equation, 1, "equation");
  proto_string (equation, 4, names->node);
  proto_int (equation, 20, 3);
  proto_message (mode, 5, equation);
  expect_refused (names, extra_message (1, mode));
  /* tensors, inside and outside of the file */
  expect_refused (names, extra_message (5, proto_tensor (names->z, 1, DIMS (2, 3), weights, 7)));
  expect_refused (names, extra_message (5, proto_external_tensor (names->z, DIMS (2), names->node, "0", "8")));
  expect_refused (names, extra_message (5, proto_external_tensor (names->z, DIMS (2), "data", names->op, "8")));
  names_free (names);
}

static void
test_sessions (gconstpointer data)
{
  Names *names = names_new (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) wrong = make_model (names, 4, NULL, &error);
  if (wrong != NULL)
    g_assert_null (ortrain_inference_session_new (wrong, NULL, &error));
  check_error (&error);

  g_autoptr (OrtrainModel) model = make_model (names, 3, NULL, &error);
  if (model == NULL)
    {
      check_error (&error);
      names_free (names);
      return;
    }
  g_autofree char *described = ortrain_model_to_string (model);
  check_text (described);
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_autofree char *checked = ortrain_check_report_to_string (report);
  check_text (checked);
  GListModel *parameters = ortrain_check_report_get_parameters (report);
  g_assert_cmpuint (g_list_model_get_n_items (parameters), >, 0);
  for (guint i = 0; i < g_list_model_get_n_items (parameters); i++)
    {
      g_autoptr (OrtrainParameterInfo) info = g_list_model_get_item (parameters, i);
      g_autofree char *line = ortrain_parameter_info_to_string (info);
      check_line (line);
      check_line (ortrain_parameter_info_get_reason (info));
    }
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  g_assert_no_error (error);
  g_autofree char *text = ortrain_graph_to_string (graph), *dot = ortrain_graph_to_dot (graph);
  check_text (text);
  check_text (dot);

  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_assert_null (ortrain_inference_session_run (inference, feeds, &error));
  check_error (&error);
  set (feeds, names->x, make_floats (2, 5));
  g_assert_null (ortrain_inference_session_run (inference, feeds, &error));
  check_error (&error);
  set (feeds, names->x, make_floats (2, 3));
  set (feeds, names->z, make_floats (2, 3));
  g_assert_null (ortrain_inference_session_run (inference, feeds, &error));
  check_error (&error);
  g_autofree char *fed = ortrain_tensor_dict_to_string (feeds);
  check_text (fed);
  ortrain_tensor_dict_remove (feeds, names->z);
  g_autoptr (OrtrainTensorDict) results G_GNUC_UNUSED = ortrain_inference_session_run (inference, feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainMemoryPlan) inference_plan = ortrain_inference_session_get_memory_plan (inference);
  check_plan (inference_plan);
  g_autoptr (OrtrainSessionOptions) outputs = ortrain_session_options_new ();
  ortrain_session_options_set_outputs (outputs, (const char *const[]){ names->z, NULL });
  g_assert_null (ortrain_inference_session_new (model, outputs, &error));
  check_error (&error);

  g_assert_null (make_session (model, names->z, NULL, &error));
  check_error (&error);
  g_assert_null (make_session (model, names->y, names->z, &error));
  check_error (&error);
  g_assert_null (make_session (model, names->y, names->x, &error));
  check_error (&error);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, names->y, NULL, &error);
  g_assert_no_error (error);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  for (guint i = 0; notes[i] != NULL; i++)
    check_line (notes[i]);
  g_assert_true (isnan (ortrain_training_session_train_step (session, feeds, &error)));
  check_error (&error);
  set (feeds, "target", make_floats (2, 4));
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  check_plan (ortrain_training_session_get_memory_plan (session));
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTensorDict) contents = ortrain_tensor_dict_new ();
      set (contents, i == 0 ? names->w : names->z, make_floats (2, 2));
      g_assert_false (ortrain_training_session_set_parameters (session, contents, &error));
      check_error (&error);
    }
  names_free (names);
}

/* A plan of more blocks than a picture can show. */
static void
test_huge_picture (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-names-XXXXXX", NULL),
                  *path = g_build_filename (folder, "plan.csv", NULL);
  g_autoptr (GError) error = NULL;
  GString *csv = g_string_new ("id,lower,upper,size\n");
  const guint n = ORTRAIN_PICTURE_MAX_BLOCKS + 4000;
  for (guint i = 0; i < n; i++)
    g_string_append_printf (csv, "b<&\x1b\xff%u,%u,%u,%u\n", i, i, i + 1, i % 3 == 0 ? 128 : 256);
  g_assert_true (g_file_set_contents (path, csv->str, (gssize) csv->len, &error));
  g_string_free (csv, TRUE);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_memory_plan_new_from_csv (path, &error);
  g_assert_no_error (error);
  check_plan (plan);
  g_autofree char *svg = ortrain_memory_plan_to_svg (plan);
  g_assert_nonnull (strstr (svg, "the 20000 largest blocks; 4000 are not drawn"));
  guint n_drawn = 0, n_small = 0;
  for (const char *p = svg; (p = strstr (p, "<title>")) != NULL; p++)
    n_drawn++;
  for (const char *p = svg; (p = strstr (p, "(128 bytes)")) != NULL; p++)
    n_small++;
  g_assert_cmpuint (n_drawn, ==, ORTRAIN_PICTURE_MAX_BLOCKS);
  g_assert_cmpuint (n_small, ==, n / 3 - 4000); /* of the large ones none is left out */
  g_assert_cmpuint (strlen (svg), <, 8 << 20);
  g_remove (path);
  g_rmdir (folder);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_autofree char *large = g_strnfill (1 << 20, 'n'), *longest = g_strnfill (60000, 'n'); /* more is refused */
  const struct
  {
    const char *kind, *name;
  } kinds[] = {
    { "large", large },
    { "long", longest },
    { "escape", "\x1b[31mred" },
    { "newline", "two\nlines\r" },
    { "direction", "\xe2\x80\xae"
                   "abc" },
    { "markup", "<>&\"'%s%n]]>" },
    { "invalid", "\xff\xfe\xc3" },
    { "empty", "" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree char *files = g_strdup_printf ("/model/hostile-names/files/%s", kinds[i].kind);
      g_autofree char *sessions = g_strdup_printf ("/model/hostile-names/sessions/%s", kinds[i].kind);
      g_test_add_data_func (files, kinds[i].name, test_files);
      g_test_add_data_func (sessions, kinds[i].name, test_sessions);
    }
  g_test_add_func ("/model/hostile-names/huge-picture", test_huge_picture);
  return g_test_run ();
}
