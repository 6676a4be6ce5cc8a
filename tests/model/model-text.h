/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ortrain-proto-maker.h"

#include <math.h>
#include <ortrain.h>
#include <string.h>

/* Models written as text, one line for each part, for tests that compare the results of a file:
 *
 *   in x f64 batch,4          an input; sizes are numbers or names; nothing for a scalar
 *   weight w f64 4,3          an initializer with numbers that follow from its name
 *   const k i64 2 = 1,2       an initializer; nothing for a scalar
 *   out y                     an output without a type
 *   Gemm x,w -> y a=1 b=.5 c=word d=[1,2] e=[.5,1.] f=[a,b] g=$0      a node; com.microsoft::Gelu names its domain;
 *                                                             $0 is the graph of texts[1]
 */

static inline gint
model_text_type (const char *name)
{
  static const struct
  {
    const char *name;
    gint type;
  } types[] = { { "f32", 1 },  { "u8", 2 },   { "i8", 3 },   { "i32", 6 },  { "i64", 7 },
                { "bool", 9 }, { "f16", 10 }, { "f64", 11 }, { "bf16", 16 } };
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (g_str_equal (types[i].name, name))
      return types[i].type;
  g_error ("no type %s", name);
}

/* values: NULL for numbers between -1 and 1 that follow from the name */
static inline Proto *
model_text_tensor (const char *name, gint type, const char *sizes, const char *values)
{
  g_auto (GStrv) list = g_strsplit (sizes != NULL ? sizes : "", ",", -1);
  g_auto (GStrv) numbers = g_strsplit (values != NULL ? values : "", ",", -1);
  gint64 dims[16] = { 0 }, n = 1;
  guint rank = 0;
  g_autoptr (GError) error = NULL;
  for (; list[rank] != NULL; rank++)
    n *= dims[rank] = g_ascii_strtoll (list[rank], NULL, 10);
  dims[rank] = -1;
  g_autofree double *data = g_new0 (double, n + 1);
  for (gint64 i = 0; i < n; i++)
    data[i] =
        values != NULL ? g_ascii_strtod (numbers[i], NULL) : sin ((double) (g_str_hash (name) % 97) + 1.7 * (double) i);
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new_for_data (
      ORTRAIN_DTYPE_FLOAT64, dims, rank, (const guint8 *) data, (gsize) n * sizeof *data, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_cast (wide, (OrtrainDType) type, &error);
  g_assert_no_error (error);
  g_autoptr (GBytes) bytes = ortrain_tensor_get_bytes (tensor, &error);
  g_assert_no_error (error);
  return proto_tensor (name, type, dims, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static inline Proto *model_text_graph (const char *const *texts, guint index);

static inline Proto *
model_text_attribute (const char *name, const char *value, const char *const *texts)
{
  Proto *p = proto_new ();
  proto_string (p, 1, name);
  if (*value == '$')
    {
      proto_message (p, 6, model_text_graph (texts, (guint) g_ascii_strtoull (value + 1, NULL, 10) + 1));
      proto_int (p, 20, 5);
    }
  else if (*value == '[')
    {
      g_autofree char *inner = g_strndup (value + 1, strlen (value) - 2);
      g_auto (GStrv) list = g_strsplit (inner, ",", -1);
      const gboolean strings = g_ascii_isalpha (*inner), floats = !strings && strchr (inner, '.') != NULL;
      for (guint i = 0; list[i] != NULL; i++)
        if (strings)
          proto_string (p, 9, list[i]);
        else if (floats)
          {
            const float number = (float) g_ascii_strtod (list[i], NULL);
            proto_varint (p, 7 << 3 | 5);
            g_byte_array_append (p, (const guint8 *) &number, 4);
          }
        else
          proto_int (p, 8, g_ascii_strtoll (list[i], NULL, 10));
      proto_int (p, 20, strings ? 8 : floats ? 6 : 7);
    }
  else if (strchr ("0123456789-.", *value) == NULL)
    {
      proto_string (p, 4, value);
      proto_int (p, 20, 3);
    }
  else if (strpbrk (value, ".e") != NULL)
    {
      const float number = (float) g_ascii_strtod (value, NULL);
      proto_varint (p, 2 << 3 | 5);
      g_byte_array_append (p, (const guint8 *) &number, 4);
      proto_int (p, 20, 1);
    }
  else
    {
      proto_int (p, 3, g_ascii_strtoll (value, NULL, 10));
      proto_int (p, 20, 2);
    }
  return p;
}

static inline Proto *
model_text_node (GStrv words, const char *const *texts)
{
  const char *op_type = strstr (words[0], "::");
  g_autofree char *domain = op_type != NULL ? g_strndup (words[0], (gsize) (op_type - words[0])) : NULL;
  const gboolean has_inputs = !g_str_equal (words[1], "->");
  g_assert_cmpstr (words[has_inputs ? 2 : 1], ==, "->");
  const char *outputs = words[has_inputs ? 3 : 2];
  Proto *node = proto_node (op_type != NULL ? op_type + 2 : words[0], has_inputs ? words[1] : "", outputs);
  g_autofree char *name = g_strdup_printf ("node_%s", outputs);
  proto_string (node, 3, name);
  if (domain != NULL)
    proto_string (node, 7, domain);
  for (guint i = has_inputs ? 4 : 3; words[i] != NULL; i++)
    {
      g_auto (GStrv) pair = g_strsplit (words[i], "=", 2);
      proto_message (node, 5, model_text_attribute (pair[0], pair[1], texts));
    }
  return node;
}

static inline Proto *
model_text_graph (const char *const *texts, guint index)
{
  Proto *graph = proto_new ();
  g_auto (GStrv) lines = g_strsplit (texts[index], "\n", -1);
  proto_string (graph, 2, "g");
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (g_strstrip (lines[i]), " ", -1);
      if (words[0] == NULL || *words[0] == '\0')
        continue;
      if (g_str_equal (words[0], "in"))
        proto_message (graph, 11,
                       proto_symbolic_value (words[1], model_text_type (words[2]), words[3] != NULL ? words[3] : ""));
      else if (g_str_equal (words[0], "weight"))
        proto_message (graph, 5, model_text_tensor (words[1], model_text_type (words[2]), words[3], NULL));
      else if (g_str_equal (words[0], "const"))
        {
          const gboolean scalar = g_str_equal (words[3], "=");
          proto_message (graph, 5,
                         model_text_tensor (words[1], model_text_type (words[2]), scalar ? NULL : words[3],
                                            words[scalar ? 4 : 5]));
        }
      else if (g_str_equal (words[0], "out"))
        {
          Proto *loose = proto_new ();
          proto_string (loose, 1, words[1]);
          proto_message (graph, 12, loose);
        }
      else
        proto_message (graph, 1, model_text_node (words, texts));
    }
  return graph;
}

/* texts: the model's own graph, then those of its nodes' attributes; NULL at the end */
static inline GBytes *
model_text_write (const char *const *texts, gint64 opset)
{
  Proto *model = proto_model_unfinished (model_text_graph (texts, 0), 8, opset), *import = proto_new ();
  proto_string (import, 1, "com.microsoft");
  proto_int (import, 2, 1);
  proto_message (model, 8, import);
  return g_byte_array_free_to_bytes (model);
}

static inline OrtrainModel *
model_text_new (const char *text, gint64 opset, GError **error)
{
  g_autoptr (GBytes) bytes = model_text_write ((const char *const[]){ text, NULL }, opset);
  return ortrain_model_new_from_bytes (bytes, NULL, error);
}

/* Numbers that follow from `seed`, in any type. */
static inline OrtrainTensor *
model_text_feed (OrtrainDType dtype, const gint64 *dims, gsize rank, guint seed)
{
  g_autoptr (GError) error = NULL;
  gint64 n = 1;
  for (gsize i = 0; i < rank; i++)
    n *= dims[i];
  g_autofree double *data = g_new0 (double, n + 1);
  for (gint64 i = 0; i < n; i++)
    data[i] = cos (seed + 2.3 * (double) i);
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new_for_data (
      ORTRAIN_DTYPE_FLOAT64, dims, rank, (const guint8 *) data, (gsize) n * sizeof *data, &error);
  g_assert_no_error (error);
  OrtrainTensor *tensor = ortrain_tensor_cast (wide, dtype, &error);
  g_assert_no_error (error);
  return tensor;
}

/* One feed, "x": [n_rows, n_columns] float64 */
static inline OrtrainTensorDict *
model_text_feed_matrix (gint64 n_rows, gint64 n_columns)
{
  const gint64 dims[] = { n_rows, n_columns };
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = model_text_feed (ORTRAIN_DTYPE_FLOAT64, dims, 2, 1);
  ortrain_tensor_dict_set (feeds, "x", x);
  return feeds;
}

static inline void
model_text_assert_near (OrtrainTensor *a, OrtrainTensor *b, double limit)
{
  gsize rank, other_rank;
  const gint64 *dims = ortrain_tensor_get_dims (a, &rank), *other = ortrain_tensor_get_dims (b, &other_rank);
  g_assert_cmpmem (dims, rank * sizeof *dims, other, other_rank * sizeof *other);
  g_assert_cmpint (ortrain_tensor_get_dtype (a), ==, ortrain_tensor_get_dtype (b));
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (a); i++)
    {
      const double x = ortrain_tensor_get_scalar (a, i), y = ortrain_tensor_get_scalar (b, i);
      if (!(fabs (x - y) <= limit * (1 + fabs (y))))
        g_error ("element %" G_GINT64_FORMAT " is %g, and not %g", i, x, y);
    }
}

/* The outputs, the loss of a training step (the sum of the squares of output y), and all gradients. */
static inline OrtrainTensorDict *
model_text_train (const char *const *texts, gint64 opset, OrtrainTensorDict *feeds, double *loss)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = model_text_write (texts, opset);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (inference, feeds, &error);
  g_assert_no_error (error);
  OrtrainTensor *y = ortrain_tensor_dict_get (outputs, "y");
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (y, &rank);
  g_autoptr (OrtrainTensor) target = model_text_feed (ortrain_tensor_get_dtype (y), dims, rank, 5);
  g_autoptr (OrtrainTensorDict) all = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    ortrain_tensor_dict_set (all, ortrain_tensor_dict_get_name (feeds, i), ortrain_tensor_dict_get_tensor (feeds, i));
  ortrain_tensor_dict_set (all, "target", target);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) mse = ortrain_mse_loss_new ("y", "target");
  ortrain_training_options_add_loss (options, mse);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  *loss = ortrain_training_session_train_step (session, all, &error);
  g_assert_no_error (error);
  OrtrainTensorDict *gradients = ortrain_training_session_get_gradients (session, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (gradients), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (outputs); i++)
    {
      g_autofree char *name = g_strconcat ("output ", ortrain_tensor_dict_get_name (outputs, i), NULL);
      ortrain_tensor_dict_set (gradients, name, ortrain_tensor_dict_get_tensor (outputs, i));
    }
  return gradients;
}

/* Two models that compute the same, by outputs, loss and gradients. */
static inline void
model_text_compare (const char *const *texts, const char *const *expected, gint64 opset, OrtrainTensorDict *feeds,
                    double limit)
{
  double loss, expected_loss;
  g_autoptr (OrtrainTensorDict) a = model_text_train (texts, opset, feeds, &loss);
  g_autoptr (OrtrainTensorDict) b = model_text_train (expected, opset, feeds, &expected_loss);
  g_assert_cmpfloat_with_epsilon (loss, expected_loss, limit * (1 + fabs (expected_loss)));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), ==, ortrain_tensor_dict_get_size (b));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (a, i);
      g_test_message ("%s", name);
      OrtrainTensor *other = ortrain_tensor_dict_get (b, name);
      g_assert_nonnull (other);
      model_text_assert_near (ortrain_tensor_dict_get_tensor (a, i), other, limit);
    }
}
