/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-abi/ortrain-kernel-private.h"

/* The prepared data of the kernels of org.ortrain::PackBits and UnpackBits, on every device. */

typedef struct
{
  gint64 n; /* booleans */
} OrtrainBitsConstants;

static inline gboolean
ortrain_bits_prepare (OrtrainKernelSetup *setup, const OrtrainOperand *booleans)
{
  OrtrainBitsConstants *constants = g_new0 (OrtrainBitsConstants, 1);
  constants->n = booleans->n_elements;
  setup->constants = constants;
  setup->constants_free = g_free;
  return TRUE;
}

static inline gboolean
ortrain_bits_prepare_pack (OrtrainKernelSetup *setup, GError **error)
{
  return ortrain_bits_prepare (setup, &setup->inputs[0]);
}

static inline gboolean
ortrain_bits_prepare_unpack (OrtrainKernelSetup *setup, GError **error)
{
  return ortrain_bits_prepare (setup, &setup->outputs[0]);
}
