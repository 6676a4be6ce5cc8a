/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-bits-setup.h"
#include "common/ortrain-bits.h"
#include "cuda/ortrain-cuda-device.h"

/* org.ortrain::PackBits and UnpackBits: element i is bit i % 8 of byte i / 8. A thread has a byte of bits. */

/* x: [n], bool; y: [⌈n / 8⌉], uint8 */
static __global__ void
pack_bits_kernel (const guint8 *x, guint8 *y, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n / 8 + (n % 8 != 0); i += ortrain_cuda_stride ())
    {
      guint64 eight = 0;
      if (8 * i + 8 <= n)
        eight = ((const guint64 *) x)[i];
      else
        for (int l = 0; 8 * i + l < n; l++)
          eight |= (guint64) x[8 * i + l] << 8 * l;
      y[i] = ortrain_booleans_to_bits (eight);
    }
}

/* x: [⌈n / 8⌉], uint8; y: [n], bool */
static __global__ void
unpack_bits_kernel (const guint8 *x, guint8 *y, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n / 8 + (n % 8 != 0); i += ortrain_cuda_stride ())
    {
      const guint64 eight = ortrain_booleans_from_bits (x[i]);
      if (8 * i + 8 <= n)
        ((guint64 *) y)[i] = eight;
      else
        for (int l = 0; 8 * i + l < n; l++)
          y[8 * i + l] = (guint8) (eight >> 8 * l);
    }
}

static void
run (const OrtrainKernelCall *call, const char *name, void (*kernel) (const guint8 *, guint8 *, gint64))
{
  const gint64 n = ((const OrtrainBitsConstants *) call->constants)->n;
  if (n > 0)
    ortrain_cuda_launch (call, name, ortrain_cuda_grid (call, n / 8 + 1, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                         kernel, (const guint8 *) call->inputs[0], (guint8 *) call->outputs[0], n);
}

static void
run_pack (const OrtrainKernelCall *call)
{
  run (call, "pack-bits", pack_bits_kernel);
}

static void
run_unpack (const OrtrainKernelCall *call)
{
  run (call, "unpack-bits", unpack_bits_kernel);
}

static const OrtrainKernel rows[] = {
  { "PackBits", "org.ortrain", 0, ortrain_bits_prepare_pack, run_pack },
  { "UnpackBits", "org.ortrain", 0, ortrain_bits_prepare_unpack, run_unpack },
};

ORTRAIN_CUDA_TABLE (bits, rows);
