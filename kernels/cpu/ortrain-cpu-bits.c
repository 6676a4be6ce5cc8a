/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-bits-setup.h"
#include "common/ortrain-bits.h"
#include "cpu/ortrain-cpu-device-private.h"

#include <string.h>

/* org.ortrain::PackBits and UnpackBits: element i is bit i % 8 of byte i / 8. */

#define GRAIN 8192 /* bytes of bits */

typedef struct
{
  gint64 n;
  const guint8 *x;
  guint8 *y;
} Job;

/* begin, end: bytes of bits */
static void
pack_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  for (gint64 i = begin; i < end; i++)
    {
      guint64 eight = 0;
      memcpy (&eight, job->x + 8 * i, (gsize) MIN (8, job->n - 8 * i));
      job->y[i] = ortrain_booleans_to_bits (GUINT64_FROM_LE (eight));
    }
}

static void
unpack_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  for (gint64 i = begin; i < end; i++)
    {
      const guint64 eight = GUINT64_TO_LE (ortrain_booleans_from_bits (job->x[i]));
      memcpy (job->y + 8 * i, &eight, (gsize) MIN (8, job->n - 8 * i));
    }
}

static void
run (const OrtrainKernelCall *call, void (*range) (gpointer, gint64, gint64, guint))
{
  const OrtrainBitsConstants *constants = call->constants;
  Job job = { constants->n, call->inputs[0], call->outputs[0] };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), job.n / 8 + (job.n % 8 != 0), GRAIN, range, &job);
}

static void
pack_run (const OrtrainKernelCall *call)
{
  run (call, pack_range);
}

static void
unpack_run (const OrtrainKernelCall *call)
{
  run (call, unpack_range);
}

static const OrtrainKernel rows[] = {
  { .op_type = "PackBits", .domain = "org.ortrain", .prepare = ortrain_bits_prepare_pack, .run = pack_run },
  { .op_type = "UnpackBits", .domain = "org.ortrain", .prepare = ortrain_bits_prepare_unpack, .run = unpack_run },
};

ORTRAIN_KERNEL_TABLE (bits, rows);
