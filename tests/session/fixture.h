/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ortrain.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

/* One folder of data/fixtures: a model as PyTorch exported it, and PyTorch's results in float64. */
typedef struct
{
  char *folder;
  JsonParser *parser;
  JsonObject *spec;
  OrtrainModel *model;
  OrtrainTensorDict *expected;
  GPtrArray *feeds;  /* of OrtrainTensorDict: inputs and targets ("OUTPUT.target") of each batch */
  GPtrArray *inputs; /* of OrtrainTensorDict: inputs alone */
} TestModel;

static inline gint
test_models_compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

/* A test for each folder. */
static inline void
test_models_add (const char *path, GTestDataFunc func)
{
  g_autofree char *parent = g_test_build_filename (G_TEST_DIST, "data", "fixtures", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GDir) dir = g_dir_open (parent, 0, &error);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_assert_no_error (error);
  for (const char *name; (name = g_dir_read_name (dir)) != NULL;)
    {
      g_autofree char *folder = g_build_filename (parent, name, NULL);
      if (g_file_test (folder, G_FILE_TEST_IS_DIR))
        g_ptr_array_add (names, g_strdup (name));
    }
  g_assert_cmpuint (names->len, >=, 13);
  g_ptr_array_sort (names, test_models_compare_names);
  for (guint i = 0; i < names->len; i++)
    {
      g_autofree char *test = g_strconcat (path, "/", names->pdata[i], NULL);
      g_test_add_data_func_full (test, g_strdup (names->pdata[i]), func, g_free);
    }
}

static inline TestModel *
test_model_load (const char *name)
{
  g_autoptr (GError) error = NULL;
  TestModel *self = g_new0 (TestModel, 1);
  self->folder = g_test_build_filename (G_TEST_DIST, "data", "fixtures", name, NULL);
  g_autofree char *json = g_build_filename (self->folder, "fixture.json", NULL);
  g_autofree char *data_path = g_build_filename (self->folder, "data.safetensors", NULL);
  g_autofree char *expected_path = g_build_filename (self->folder, "expected.safetensors", NULL);
  g_autofree char *model_path = g_build_filename (self->folder, "model.onnx", NULL);
  self->parser = json_parser_new ();
  json_parser_load_from_file (self->parser, json, &error);
  g_assert_no_error (error);
  self->spec = json_node_get_object (json_parser_get_root (self->parser));
  self->model = ortrain_model_new_from_file (model_path, &error);
  g_assert_no_error (error);
  self->expected = ortrain_tensor_dict_new_from_safetensors (expected_path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) data = ortrain_tensor_dict_new_from_safetensors (data_path, &error);
  g_assert_no_error (error);
  self->feeds = g_ptr_array_new_with_free_func (g_object_unref);
  self->inputs = g_ptr_array_new_with_free_func (g_object_unref);
  gint64 n = json_object_get_int_member (self->spec, "batches");
  for (gint64 b = 0; b < n; b++)
    {
      OrtrainTensorDict *feeds = ortrain_tensor_dict_new (), *inputs = ortrain_tensor_dict_new ();
      g_autofree char *prefix = g_strdup_printf ("batch.%d.", (int) b);
      for (guint i = 0; i < ortrain_tensor_dict_get_size (data); i++)
        {
          const char *key = ortrain_tensor_dict_get_name (data, i);
          if (!g_str_has_prefix (key, prefix))
            continue;
          const char *rest = key + strlen (prefix);
          OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (data, i);
          if (g_str_has_prefix (rest, "input."))
            {
              ortrain_tensor_dict_set (feeds, rest + 6, tensor);
              ortrain_tensor_dict_set (inputs, rest + 6, tensor);
            }
          else
            {
              g_autofree char *target = g_strconcat (rest + 7, ".target", NULL);
              ortrain_tensor_dict_set (feeds, target, tensor);
            }
        }
      g_ptr_array_add (self->feeds, feeds);
      g_ptr_array_add (self->inputs, inputs);
    }
  return self;
}

static inline void
test_model_free (TestModel *self)
{
  g_free (self->folder);
  g_object_unref (self->parser);
  g_object_unref (self->model);
  g_object_unref (self->expected);
  g_ptr_array_unref (self->feeds);
  g_ptr_array_unref (self->inputs);
  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TestModel, test_model_free)

static inline OrtrainTensorDict *
test_model_feeds (TestModel *self, guint step)
{
  return self->feeds->pdata[step % self->feeds->len];
}

static inline OrtrainLoss *
test_model_make_loss (JsonObject *spec)
{
  const char *kind = json_object_get_string_member (spec, "kind");
  const char *output = json_object_get_string_member (spec, "output");
  g_autofree char *target = g_strconcat (output, ".target", NULL);
  OrtrainLoss *loss = NULL;
  if (g_str_equal (kind, "cross-entropy"))
    {
      loss = ortrain_cross_entropy_loss_new (output, target);
      g_object_set (loss, "ignore-index", G_GINT64_CONSTANT (-100), NULL);
    }
  else if (g_str_equal (kind, "cross-entropy-spatial"))
    {
      loss = ortrain_cross_entropy_loss_new (output, target);
      g_object_set (loss, "axis", 1, NULL);
    }
  else if (g_str_equal (kind, "mse"))
    loss = ortrain_mse_loss_new (output, target);
  else if (g_str_equal (kind, "l1"))
    loss = ortrain_l1_loss_new (output, target);
  else if (g_str_equal (kind, "huber"))
    loss = ortrain_huber_loss_new (output, target);
  else if (g_str_equal (kind, "bce-with-logits"))
    loss = ortrain_bce_with_logits_loss_new (output, target);
  g_assert_nonnull (loss);
  ortrain_loss_set_weight (loss, json_object_get_double_member (spec, "weight"));
  return loss;
}

static inline OrtrainOptimizer *
test_model_make_optimizer (TestModel *self, const char *kind)
{
  JsonObject *o = json_object_get_object_member (json_object_get_object_member (self->spec, "optimizers"), kind);
  if (g_str_equal (kind, "sgd"))
    return g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", json_object_get_double_member (o, "lr"), "momentum",
                         json_object_get_double_member (o, "momentum"), "nesterov",
                         json_object_get_boolean_member_with_default (o, "nesterov", FALSE), NULL);
  JsonArray *betas = json_object_get_array_member (o, "betas");
  return g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", json_object_get_double_member (o, "lr"), "beta1",
                       json_array_get_double_element (betas, 0), "beta2", json_array_get_double_element (betas, 1),
                       "epsilon", json_object_get_double_member (o, "eps"), "weight-decay",
                       json_object_get_double_member (o, "weight_decay"), NULL);
}

static inline OrtrainTrainingOptions *
test_model_make_options (TestModel *self, const char *kind)
{
  OrtrainTrainingOptions *options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) optimizer = test_model_make_optimizer (self, kind);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_max_grad_norm (options, json_object_get_double_member (self->spec, "clip_global_norm"));
  JsonArray *names = json_object_get_array_member (self->spec, "trainable");
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  for (guint i = 0; i < json_array_get_length (names); i++)
    g_strv_builder_add (builder, json_array_get_string_element (names, i));
  g_auto (GStrv) trainable = g_strv_builder_end (builder);
  ortrain_training_options_set_trainable (options, (const char *const *) trainable);
  const char *batch_norm = json_object_get_string_member (self->spec, "batch_norm");
  ortrain_training_options_set_batch_norm (options, g_str_equal (batch_norm, "train") ? ORTRAIN_BATCH_NORM_MODE_TRAIN
                                                                                      : ORTRAIN_BATCH_NORM_MODE_FROZEN);
  JsonArray *ties = json_object_get_array_member (self->spec, "tied");
  for (guint i = 0; i < json_array_get_length (ties); i++)
    {
      JsonArray *pair = json_array_get_array_element (ties, i);
      ortrain_training_options_tie (options, json_array_get_string_element (pair, 0),
                                    json_array_get_string_element (pair, 1));
    }
  if (json_object_has_member (self->spec, "padding_rows"))
    {
      JsonObject *rows = json_object_get_object_member (self->spec, "padding_rows");
      g_autoptr (GList) tables = json_object_get_members (rows);
      for (GList *l = tables; l != NULL; l = l->next)
        ortrain_training_options_set_padding_row (options, l->data, json_object_get_int_member (rows, l->data));
    }
  JsonArray *losses = json_object_get_array_member (self->spec, "losses");
  for (guint i = 0; i < json_array_get_length (losses); i++)
    {
      g_autoptr (OrtrainLoss) loss = test_model_make_loss (json_array_get_object_element (losses, i));
      ortrain_training_options_add_loss (options, loss);
    }
  return options;
}

static inline OrtrainTrainingSession *
test_model_make_session (TestModel *self, const char *kind)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (self, kind);
  OrtrainTrainingSession *session = ortrain_training_session_new (self->model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* |a - b| / max (|b|, 1e-12) */
static inline double
test_distance (OrtrainTensor *a, OrtrainTensor *b)
{
  gint64 n = ortrain_tensor_get_n_elements (b);
  double difference = 0, norm = 0;
  g_assert_nonnull (a);
  g_assert_cmpint (ortrain_tensor_get_n_elements (a), ==, n);
  g_assert_cmpint (ortrain_tensor_get_rank (a), ==, ortrain_tensor_get_rank (b));
  for (gint64 i = 0; i < n; i++)
    {
      double x = ortrain_tensor_get_scalar (a, i), y = ortrain_tensor_get_scalar (b, i);
      difference += (x - y) * (x - y);
      norm += y * y;
    }
  return sqrt (difference) / MAX (sqrt (norm), 1e-12);
}

static inline double
test_norm (OrtrainTensor *a)
{
  double norm = 0;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (a); i++)
    norm += ortrain_tensor_get_scalar (a, i) * ortrain_tensor_get_scalar (a, i);
  return sqrt (norm);
}

static inline void
test_assert_same_bits (OrtrainTensorDict *a, OrtrainTensorDict *b)
{
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), ==, ortrain_tensor_dict_get_size (b));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (a, i);
      if (!ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (a, i), ortrain_tensor_dict_get (b, name)))
        g_error ("'%s' has other bits", name);
    }
}

/* All batches of the fixture as one dataset of 64 items. */
static inline OrtrainDataset *
test_model_make_dataset (TestModel *model)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) all = ortrain_tensor_dict_new ();
  OrtrainTensorDict *first = test_model_feeds (model, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (first); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (first, i);
      OrtrainTensor *part = ortrain_tensor_dict_get_tensor (first, i);
      gsize rank = ortrain_tensor_get_rank (part), bytes = ortrain_tensor_get_n_bytes (part);
      gint64 dims[8];
      for (gsize k = 0; k < rank; k++)
        dims[k] = ortrain_tensor_get_dim (part, k);
      dims[0] *= model->feeds->len;
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ortrain_tensor_get_dtype (part), dims, rank, &error);
      g_assert_no_error (error);
      for (guint b = 0; b < model->feeds->len; b++)
        memcpy (
            (guint8 *) ortrain_tensor_get_address (tensor) + b * bytes,
            (gconstpointer) ortrain_tensor_get_address (ortrain_tensor_dict_get (test_model_feeds (model, b), name)),
            bytes);
      ortrain_tensor_dict_set (all, name, tensor);
    }
  OrtrainDataset *dataset = ortrain_tensor_dataset_new (all, &error);
  g_assert_no_error (error);
  return dataset;
}
