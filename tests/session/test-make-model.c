/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../model/model-text.h"

/* The models of make_model have operators of ONNX only, and loads again with the same outputs: operators that upgrades
 * replace by ours, and branches that read values of the graph around them. */

#define ATTENTION "in x f32 b,t,8\nin k f32 b,s,8\nweight w f32 8,8\nMatMul x,w -> q\nout y\n"

static const char *const cases[][5] = {
  { ATTENTION "Attention q,k,k -> y q_num_heads=2 kv_num_heads=2 is_causal=1" },
  { ATTENTION "in m bool t,s\nConcat q,q -> r axis=2\nAttention r,k,k,m -> y q_num_heads=4 kv_num_heads=2 scale=.5" },
  { ATTENTION "Attention q,k,k -> y q_num_heads=2 kv_num_heads=2 softcap=2." },
  { "in x f32 b,5\nin t i64 b\nweight w f32 5,4\nweight c f32 4\nMatMul x,w -> h\nout y\nout l\n"
    "SoftmaxCrossEntropyLoss h,t,c -> y,l ignore_index=1 reduction=sum" },
  { "in x f32 b,5\nin t i64 b\nweight w f32 5,4\nMatMul x,w -> h\nout y\nSoftmaxCrossEntropyLoss h,t -> y" },
  { "in x f32 b,3,4\nweight s f32 3\nweight m f32 3\nconst v f32 3 = 1,2,3\nout y\nout n\nout o\n"
    "BatchNormalization x,s,m,m,v -> y,n,o training_mode=1 momentum=.75" },
  { "in x f32 b,4\nweight w f32 4,4\nShape x -> s\nconst zero i64 = 0\nconst two i64 = 2\nGather s,zero -> n\nEqual "
    "n,two -> c\n"
    "Relu x -> h\nout y\nIf c -> y then_branch=$0 else_branch=$1",
    "out a\nSin h -> s\nMatMul s,w -> a",
    "out b\nGreater n,two -> c2\nSin h -> a\nIf c2 -> b then_branch=$2 else_branch=$0", "out d\nNeg h -> d" },
  { "in x f32 b,4\nout y\ncom.microsoft::QuickGelu x -> y" },
};

static OrtrainTensorDict *
make_feeds (OrtrainModel *model)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  GListModel *inputs = ortrain_graph_get_inputs (ortrain_model_get_file_graph (model));
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) input = g_list_model_get_item (inputs, i);
      g_autofree char *text = ortrain_value_get_shape_string (input);
      const char *name = ortrain_value_get_name (input);
      const gint64 sizes[][3] = { { 2, 3, 8 }, { 2, 5, 8 } };
      gint64 dims[3] = { 2, 4, 4 };
      gsize rank = 2;
      if (strstr (text, "b, t, 8") != NULL || strstr (text, "b, s, 8") != NULL)
        {
          memcpy (dims, sizes[*name == 'k'], sizeof dims);
          rank = 3;
        }
      else if (strstr (text, "t, s") != NULL)
        dims[0] = 3, dims[1] = 5;
      else if (strstr (text, "b, 5") != NULL)
        dims[1] = 5;
      else if (strstr (text, "b, 3, 4") != NULL)
        dims[1] = 3, rank = 3;
      else if (strstr (text, "[b]") != NULL)
        rank = 1;
      g_autoptr (OrtrainTensor) tensor = model_text_feed (ortrain_value_get_dtype (input), dims, rank, i);
      ortrain_tensor_dict_set (feeds, name, tensor);
    }
  return feeds;
}

static void
check_file (const char *const *texts)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = model_text_write (texts, 23);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) made = ortrain_inference_session_make_model (session, &error);
  g_assert_no_error (error);
  OrtrainGraph *graph = ortrain_model_get_file_graph (made);
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GListModel *nodes = ortrain_graph_get_nodes (graph);
  for (guint i = 0; i < g_list_model_get_n_items (nodes); i++)
    {
      g_autoptr (OrtrainNode) node = g_list_model_get_item (nodes, i);
      g_assert_cmpstr (ortrain_node_get_domain (node), !=, "org.ortrain");
      const char *name = ortrain_node_get_name (node);
      g_assert_true (*name == '\0' || g_hash_table_add (names, g_strdup (name)));
    }
  g_autoptr (OrtrainInferenceSession) again = ortrain_inference_session_new (made, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (model);
  g_autoptr (OrtrainTensorDict) expected = ortrain_inference_session_run (session, feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) found = ortrain_inference_session_run (again, feeds, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (found), ==, ortrain_tensor_dict_get_size (expected));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (expected); i++)
    model_text_assert_near (ortrain_tensor_dict_get (found, ortrain_tensor_dict_get_name (expected, i)),
                            ortrain_tensor_dict_get_tensor (expected, i), 1e-5);
}

static void
test_case (gconstpointer data)
{
  check_file (data);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/make-model/%u", i);
      g_test_add_data_func (path, cases[i], test_case);
    }
  return g_test_run ();
}
