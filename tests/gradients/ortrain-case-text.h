/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gradients/ortrain-gradient-check.h"
#include "kernel-abi/ortrain-attributes-private.h"
#include "tensor/ortrain-tensor-private.h"

/* The text of a case (ortrain-gradient-check.h says how it is written), taken apart; and the table of all cases. */

#define ORTRAIN_CASE_MAX_VALUES 64

typedef struct
{
  char kind; /* '_': left out */
  gint64 dims[ORTRAIN_MAX_RANK];
  gsize rank;
  double values[ORTRAIN_CASE_MAX_VALUES];
  guint n_values; /* 0: none are said */
} OrtrainCaseOperand;

void ortrain_case_parse_operand (const char *text, OrtrainCaseOperand *operand);
/* "axis=1", "names=['a','b']" */
void ortrain_case_parse_attribute (OrtrainAttributes *attributes, const char *text);
