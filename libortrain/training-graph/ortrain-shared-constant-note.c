/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-shared-constant-note-private.h"

#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

static gboolean
is_one_value (OrtrainTensor *tensor)
{
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (tensor));
  const gsize n = (gsize) ortrain_tensor_get_n_elements (tensor);
  const guint8 *data = ortrain_tensor_peek_unaligned (tensor);
  return data != NULL && n > 1 && memcmp (data, data + size, (n - 1) * size) == 0;
}

void
ortrain_shared_constants_add_note (const OrtrainValue *parameter, GStrvBuilder *notes)
{
  if (parameter->uses.n < 2 || parameter->tensor == NULL || !is_one_value (parameter->tensor))
    return;
  g_autofree char *note = g_strdup_printf (
      "'%s' is read by %u nodes and has one value everywhere: if the exporter stored parameters once that had equal "
      "values, they are trained as one (PyTorch's exporter keeps them apart with optimize=False)",
      ortrain_text_show (parameter->name), parameter->uses.n);
  g_strv_builder_add (notes, note);
}
