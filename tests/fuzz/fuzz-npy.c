/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include "tensor/ortrain-tensor-files-private.h"
#include "tensor/ortrain-tensor-private.h"

/* npy, npz and IDX, which know each other by their first bytes: the same bytes are read as each of them. */
static void
check_tensor (OrtrainTensor *tensor)
{
  g_autofree char *text = ortrain_tensor_to_string (tensor);
  FUZZ_CHECK (text != NULL && ortrain_tensor_peek (tensor) != NULL);
  /* every byte of it can be read */
  FUZZ_CHECK (ortrain_tensor_equal (tensor, tensor));
  g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (tensor, NULL);
  FUZZ_CHECK (copy == NULL || ortrain_tensor_equal (tensor, copy));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) npy_error = NULL, npz_error = NULL, idx_error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  g_autoptr (OrtrainTensor) npy = ortrain_npy_parse (bytes, &npy_error);
  fuzz_check_error (npy != NULL, npy_error);
  if (npy != NULL)
    {
      check_tensor (npy);
      g_autoptr (GError) error = NULL;
      FUZZ_CHECK (ortrain_tensor_get_n_bytes (npy) <= size);
      FUZZ_CHECK (ortrain_tensor_save_npy (npy, fuzz_scratch (), &error));
      g_autoptr (OrtrainTensor) again = ortrain_tensor_new_from_npy (fuzz_scratch (), &error);
      FUZZ_CHECK (again != NULL && ortrain_tensor_equal (npy, again));
    }
  const char *path = fuzz_make_file (data, size);
  g_autoptr (OrtrainTensorDict) npz = ortrain_tensor_dict_new_from_npz (path, &npz_error);
  fuzz_check_error (npz != NULL, npz_error);
  for (guint i = 0; npz != NULL && i < ortrain_tensor_dict_get_size (npz); i++)
    check_tensor (ortrain_tensor_dict_get_tensor (npz, i));
  g_autoptr (OrtrainTensor) idx = ortrain_tensor_new_from_idx (path, &idx_error);
  fuzz_check_error (idx != NULL, idx_error);
  if (idx != NULL)
    check_tensor (idx);
  return 0;
}
