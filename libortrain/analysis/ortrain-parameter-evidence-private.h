/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* The evidence for and against a stored tensor being a parameter of the program. */

typedef enum
{
  ORTRAIN_USE_OTHER,    /* no rule fits: an operand of a formula, or of data that no weight has seen */
  ORTRAIN_USE_CONSTANT, /* an operand that is a constant by its operator or its values: a limit, an epsilon, a mask */
  ORTRAIN_USE_SHIFTED,  /* scales or shifts the channels of a weight, or joins them */
  ORTRAIN_USE_SLOT,     /* in the place where an operator has its weight */
} OrtrainParameterUse;

typedef struct
{
  const OrtrainValue *value;
  OrtrainParameterUse use; /* the strongest evidence for a weight */
  gboolean is_direct;      /* no arithmetic of stored tensors lies between it and that use */
  gboolean is_kernel;      /* that use has filters along the axes from 2 on */
  gboolean is_whole;       /* in that use it has numbers of its own for each item of the batch */
  gboolean is_affine;      /* in that use it scales, or then shifts, the result of a convolution */
  gboolean is_norm;        /* that use is the scale or bias of a normalization */
  const char *noun;        /* names its values if that use does not expect them: "mask"; or NULL */
  gboolean is_weak;        /* parameters may begin with such values: the file decides */
  gboolean is_by_use;      /* the noun follows from the use, not from the values: a list of parameters decides */
} OrtrainParameterEvidence;

typedef struct
{
  gboolean is_weight;
  gboolean is_uncertain;
  const char *because; /* for reports, in front of the use: "a parameter of the exported program"; or NULL */
} OrtrainParameterVerdict;

OrtrainParameterVerdict ortrain_parameter_evidence_decide (const OrtrainParameterEvidence *self);
