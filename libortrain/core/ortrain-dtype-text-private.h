/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Why a type of ONNX is not supported, by its number, and what to do: "element type int4, which quantized weights have,
 * and which is not supported: …". */
char *ortrain_dtype_explain_unsupported (gint64 onnx_number);
