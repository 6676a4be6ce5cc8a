/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-struct-private.h"

#include "core/ortrain-dtype-private.h"

/**
 * ortrain_tensor_to_string:
 * @self: a tensor
 *
 * A short line for people: type, shape, the device unless it is the host, and the first elements.
 *
 * Returns: (transfer full): for instance `float32[2, 3] 1 2 3 4 5 6`
 */
char *
ortrain_tensor_to_string (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_autofree char *shape = ortrain_shape_to_string (self->dims, self->rank);
  GString *s = g_string_new (ortrain_dtype_get_name (self->dtype));
  g_string_append (s, shape);
  gboolean complex = self->dtype == ORTRAIN_DTYPE_COMPLEX64 || self->dtype == ORTRAIN_DTYPE_COMPLEX128;
  gint64 shown = self->n_elements <= 8 ? self->n_elements : 6;
  const gboolean is_released = !ortrain_tensor_check_released (self, NULL);
  g_autoptr (OrtrainTensor) head = NULL, host = NULL;
  if (is_released)
    g_string_append (s, " (released)");
  else
    {
      /* a tensor on a device may be large: only the shown elements are copied */
      head = ortrain_tensor_take (self->dtype, &shown, 1, shown, (gsize) shown * ortrain_dtype_get_size (self->dtype),
                                  g_object_ref (self->storage), self->offset);
      host = ortrain_tensor_to_host (head, NULL);
    }
  const gsize shape_end = s->len;
  if (!is_released && ortrain_tensor_peek_device (self) != NULL)
    g_string_append_printf (s, " on %s", ortrain_tensor_get_device (self));
  const char *data = host != NULL ? ortrain_tensor_peek (host) : NULL;
  for (gint64 i = 0; data != NULL && !complex && i < shown; i++)
    {
      g_string_append_c (s, ' ');
      if (self->dtype == ORTRAIN_DTYPE_INT64)
        g_string_append_printf (s, "%" G_GINT64_FORMAT, ((const gint64 *) data)[i]);
      else if (self->dtype == ORTRAIN_DTYPE_UINT64)
        g_string_append_printf (s, "%" G_GUINT64_FORMAT, ((const guint64 *) data)[i]);
      else if (self->dtype == ORTRAIN_DTYPE_BOOL)
        g_string_append (s, data[i] ? "true" : "false");
      else
        {
          char number[G_ASCII_DTOSTR_BUF_SIZE];
          double x = ortrain_tensor_peek_scalar (host, i);
          const char *format = ortrain_dtype_is_integer (self->dtype) ? "%.0f" : "%.6g";
          g_string_append (s, g_ascii_formatd (number, sizeof number, format, x));
        }
    }
  if (data != NULL && !complex && shown < self->n_elements)
    g_string_append (s, " …");
  if (!ortrain_tensor_check_file (self, NULL))
    {
      g_string_truncate (s, shape_end);
      g_string_append (s, " (its file was changed)");
    }
  return g_string_free (s, FALSE);
}
