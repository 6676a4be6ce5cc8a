/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-dtype-text-private.h"

#include "core/ortrain-dtype-private.h"

/* Types that the library has no elements of. */
static const char *const quantized[] = {
  [17] = "float8e4m3fn", [18] = "float8e4m3fnuz", [19] = "float8e5m2", [20] = "float8e5m2fnuz", [21] = "uint4",
  [22] = "int4",         [23] = "float4e2m1",     [24] = "float8e8m0", [25] = "uint2",          [26] = "int2",
};

char *
ortrain_dtype_explain_unsupported (gint64 onnx_number)
{
  if (onnx_number >= 0 && onnx_number < (gint64) G_N_ELEMENTS (quantized) && quantized[onnx_number] != NULL)
    return g_strdup_printf (
        "element type %s, which is not supported: the file is quantized; train the float model that "
        "it was made from, and quantize the result",
        quantized[onnx_number]);
  if (onnx_number > 0 && onnx_number <= ORTRAIN_DTYPE_BFLOAT16)
    return g_strdup_printf ("element type %s, which is not supported here",
                            ortrain_dtype_get_name ((OrtrainDType) onnx_number));
  return g_strdup_printf ("element type %" G_GINT64_FORMAT " of ONNX, which is not supported", onnx_number);
}
