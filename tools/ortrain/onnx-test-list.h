/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* The file onnx-tests, which is part of the program: the expected result of each of ONNX's tests. */

typedef enum
{
  ONNX_TEST_PASS,
  ONNX_TEST_FAIL,
  ONNX_TEST_SKIP, /* refused as not supported */
  ONNX_TEST_DIFF, /* elements that are not those of the data */
  ONNX_TEST_N_OUTCOMES
} OnnxTestOutcome;

typedef struct
{
  OnnxTestOutcome outcome;
  char *reason; /* of all outcomes but PASS */
} OnnxTest;

const char *onnx_test_outcome_get_word (OnnxTestOutcome outcome);

/* Name → OnnxTest. */
GHashTable *onnx_test_list_load (GError **error);
