/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include "tensor/ortrain-tensor-dict.h"
#include "tensor/ortrain-tensor-files-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

static void
check_same (OrtrainTensorDict *a, OrtrainTensorDict *b)
{
  FUZZ_CHECK (ortrain_tensor_dict_get_size (a) == ortrain_tensor_dict_get_size (b));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    FUZZ_CHECK (ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (a, i),
                                      ortrain_tensor_dict_get (b, ortrain_tensor_dict_get_name (a, i))));
}

/* A file that can be read can be written, and read again with the same bits. */
int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  g_autoptr (GHashTable) metadata = NULL;
  gboolean ok = ortrain_safetensors_parse (bytes, dict, &metadata, &error);
  fuzz_check_error (ok, error);
  if (!ok)
    return 0;
  guint64 sum = 0;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (dict); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (dict, i);
      sum += ortrain_tensor_get_n_bytes (tensor);
      g_autofree char *text = ortrain_tensor_to_string (tensor);
      FUZZ_CHECK (text != NULL && ortrain_tensor_peek (tensor) != NULL);
    }
  FUZZ_CHECK (sum <= size);

  const char *path = fuzz_scratch ();
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (path, &error);
  FUZZ_CHECK (writer != NULL);
  FUZZ_CHECK (ortrain_safetensors_write (dict, metadata, writer, &error) &&
              ortrain_file_writer_commit (writer, &error));
  g_autoptr (OrtrainTensorDict) again = ortrain_tensor_dict_new_from_safetensors (path, &error);
  FUZZ_CHECK (again != NULL);
  check_same (dict, again);
  return 0;
}
