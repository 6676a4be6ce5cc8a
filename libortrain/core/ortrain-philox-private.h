/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-function-private.h"

#include <glib.h>

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11): counter in, four words out. The
 * key is (seed), the counter is (index of the block of four, step, node), so that a replayed node has the same bits. */
typedef struct
{
  guint64 seed;
  guint32 step;
  guint32 node;
} OrtrainPhiloxKey;

ORTRAIN_FUNCTION void
ortrain_philox (const OrtrainPhiloxKey *key, guint64 block, guint32 out[4])
{
  guint32 c0 = (guint32) block, c1 = (guint32) (block >> 32), c2 = key->step, c3 = key->node;
  guint32 k0 = (guint32) key->seed, k1 = (guint32) (key->seed >> 32);
  for (int round = 0; round < 10; round++)
    {
      guint64 p0 = (guint64) 0xD2511F53u * c0, p1 = (guint64) 0xCD9E8D57u * c2;
      guint32 n0 = (guint32) (p1 >> 32) ^ c1 ^ k0, n2 = (guint32) (p0 >> 32) ^ c3 ^ k1;
      c1 = (guint32) p1;
      c3 = (guint32) p0;
      c0 = n0;
      c2 = n2;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* Uniform in [0, 1), 24 bits. */
ORTRAIN_FUNCTION float
ortrain_philox_to_float (guint32 word)
{
  return (float) (word >> 8) * 0x1p-24f;
}
