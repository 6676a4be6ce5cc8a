/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

#include <string.h>

/* A small GPT, which takes texts of any length up to MAX_LENGTH. */

#define VOCABULARY 64
#define MAX_LENGTH 32

static inline OrtrainModel *
text_make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new_gpt ("gpt", VOCABULARY, MAX_LENGTH, 32, 3, 2, 1);
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static inline OrtrainTensorDict *
text_make_feeds (guint step, gint64 batch, gint64 length, gboolean with_targets)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  const gint64 dims[] = { batch, length };
  for (guint k = 0; k < (with_targets ? 2 : 1); k++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree gint64 *numbers = g_new (gint64, batch * length);
      for (gint64 i = 0; i < batch * length; i++)
        numbers[i] = (i * 7 + step * 13 + k * 5) % VOCABULARY;
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_for_data (
          ORTRAIN_DTYPE_INT64, dims, 2, (const guint8 *) numbers, (gsize) (batch * length) * sizeof *numbers, &error);
      g_assert_no_error (error);
      ortrain_tensor_dict_set (feeds, k == 0 ? "input_ids" : "targets", tensor);
    }
  return feeds;
}

static inline gboolean
text_train_step (OrtrainTrainingSession *session, guint step, gint64 batch, gint64 length, double *loss, GError **error)
{
  g_autoptr (OrtrainTensorDict) feeds = text_make_feeds (step, batch, length, TRUE);
  GError *local_error = NULL;
  *loss = ortrain_training_session_train_step (session, feeds, &local_error);
  if (local_error == NULL)
    ortrain_training_session_optimizer_step (session, &local_error);
  if (local_error == NULL)
    return TRUE;
  g_propagate_error (error, local_error);
  return FALSE;
}

static inline void
text_check_same_parameters (OrtrainTrainingSession *a, OrtrainTrainingSession *b)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) first = ortrain_training_session_get_parameters (a, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) second = ortrain_training_session_get_parameters (b, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (first), ==, ortrain_tensor_dict_get_size (second));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (first); i++)
    g_assert_true (
        ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (first, i), ortrain_tensor_dict_get_tensor (second, i)));
}
