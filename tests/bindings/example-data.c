/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* example-data DATA.safetensors OUT.npz: the batches of a fixture in one set, as the examples take it: an array per
 * input of the model, and "labels". */
#include <ortrain.h>

#include <string.h>

/* batch.0.KIND.NAME, batch.1.KIND.NAME … → [all items, …] under `new_name` */
static gboolean
stack (OrtrainTensorDict *from, const char *what, OrtrainTensorDict *to, const char *new_name, GError **error)
{
  g_autoptr (GByteArray) data = g_byte_array_new ();
  OrtrainTensor *tensor = NULL;
  gint64 dims[16], n_items = 0;
  gsize n_dims = 0;

  for (guint i = 0;; i++)
    {
      g_autofree char *name = g_strdup_printf ("batch.%u.%s", i, what);
      if (!ortrain_tensor_dict_contains (from, name))
        break;
      tensor = ortrain_tensor_dict_get (from, name);
      g_autoptr (GBytes) bytes = ortrain_tensor_get_bytes (tensor, error);
      if (bytes == NULL)
        return FALSE;
      g_byte_array_append (data, g_bytes_get_data (bytes, NULL), (guint) g_bytes_get_size (bytes));
      n_items += ortrain_tensor_get_dim (tensor, 0);
    }
  if (tensor == NULL)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY, "there is no batch.0.%s", what);
      return FALSE;
    }
  memcpy (dims, ortrain_tensor_get_dims (tensor, &n_dims), sizeof dims[0] * ortrain_tensor_get_rank (tensor));
  dims[0] = n_items;
  g_autoptr (OrtrainTensor) all =
      ortrain_tensor_new_for_data (ortrain_tensor_get_dtype (tensor), dims, n_dims, data->data, data->len, error);
  if (all == NULL)
    return FALSE;
  ortrain_tensor_dict_set (to, new_name, all);
  return TRUE;
}

int
main (int argc, char *argv[])
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) to = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensorDict) from = argc == 3 ? ortrain_tensor_dict_new_from_safetensors (argv[1], &error) : NULL;
  if (from == NULL || !stack (from, "input.image", to, "image", &error) ||
      !stack (from, "target.logits", to, "labels", &error) || !ortrain_tensor_dict_save_npz (to, argv[2], &error))
    {
      g_printerr ("%s\n", error != NULL ? error->message : "two arguments are needed");
      return 1;
    }
  return 0;
}
