/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ortrain.h"

/* Parts of a model that is written node by node, as an exporter does it. */

G_GNUC_UNUSED static OrtrainValue *
add (OrtrainGraphBuilder *b, const char *op_type, const char *const *inputs, const char *output, GVariant *attributes)
{
  const char *const outputs[] = { output, NULL };
  OrtrainValue *value = ortrain_graph_builder_add_op (b, op_type, NULL, inputs, outputs, attributes);
  g_assert_nonnull (value);
  return value;
}
#define IN(...) ((const char *const[]){ __VA_ARGS__, NULL })

G_GNUC_UNUSED static void
add_ints (OrtrainGraphBuilder *b, const char *name, const gint64 *values, gint64 n)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (&n, 1, values, (gsize) n, NULL);
  g_assert_nonnull (ortrain_graph_builder_add_tensor (b, name, tensor));
}

G_GNUC_UNUSED static void
add_number (OrtrainGraphBuilder *b, const char *name, double value)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (NULL, 0, &(float){ (float) value }, 1, NULL);
  g_assert_nonnull (ortrain_graph_builder_add_tensor (b, name, tensor));
}
