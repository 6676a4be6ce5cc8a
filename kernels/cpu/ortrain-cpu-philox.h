/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-philox-private.h"

#define ORTRAIN_CPU_PHILOX_BLOCKS 16 /* blocks of four words that are drawn side by side */
#define ORTRAIN_CPU_PHILOX_WORDS (4 * ORTRAIN_CPU_PHILOX_BLOCKS)

/* words [ORTRAIN_CPU_PHILOX_WORDS] of the blocks from `first` on: the results of ortrain_philox, for many blocks at
 * once. */
static inline void
ortrain_cpu_philox_draw (const OrtrainPhiloxKey *key, guint64 first, guint32 *restrict words)
{
  guint32 c0[ORTRAIN_CPU_PHILOX_BLOCKS], c1[ORTRAIN_CPU_PHILOX_BLOCKS], c2[ORTRAIN_CPU_PHILOX_BLOCKS],
      c3[ORTRAIN_CPU_PHILOX_BLOCKS];
  guint32 k0 = (guint32) key->seed, k1 = (guint32) (key->seed >> 32);
  for (int j = 0; j < ORTRAIN_CPU_PHILOX_BLOCKS; j++)
    {
      c0[j] = (guint32) (first + (guint64) j);
      c1[j] = (guint32) ((first + (guint64) j) >> 32);
      c2[j] = key->step;
      c3[j] = key->node;
    }
  for (int round = 0; round < 10; round++)
    {
      for (int j = 0; j < ORTRAIN_CPU_PHILOX_BLOCKS; j++)
        {
          guint64 p0 = (guint64) 0xD2511F53u * c0[j], p1 = (guint64) 0xCD9E8D57u * c2[j];
          guint32 n0 = (guint32) (p1 >> 32) ^ c1[j] ^ k0, n2 = (guint32) (p0 >> 32) ^ c3[j] ^ k1;
          c1[j] = (guint32) p1;
          c3[j] = (guint32) p0;
          c0[j] = n0;
          c2[j] = n2;
        }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  for (int j = 0; j < ORTRAIN_CPU_PHILOX_BLOCKS; j++)
    {
      words[4 * j] = c0[j];
      words[4 * j + 1] = c1[j];
      words[4 * j + 2] = c2[j];
      words[4 * j + 3] = c3[j];
    }
}
