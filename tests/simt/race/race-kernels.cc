/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* race-kernels NAME [ORDER]: runs one kernel on the emulation, compiled for ThreadSanitizer, which reports the races in
 * it. test_race_detector.py says which reports are expected. */
#include "simt-internal.h"

#include <cstdio>
#include <cstdlib>

#define THREADS 96
#define BLOCKS 3

/* y [BLOCKS, THREADS]: each thread reads the value that its neighbour has put into shared memory. */
template <bool waits>
static void
neighbour_kernel (float *y)
{
  SIMT_SHARED (float, staged, THREADS);
  staged[threadIdx.x] = (float) threadIdx.x;
  if (waits)
    __syncthreads ();
  y[blockIdx.x * THREADS + threadIdx.x] = staged[(threadIdx.x + 1) % THREADS];
}

/* The second barrier of two keeps a round's reads from the next one's writes. */
template <bool waits>
static void
rounds_kernel (float *y)
{
  SIMT_SHARED (float, staged, THREADS);
  float sum = 0.0f;
  for (int round = 0; round < 3; round++)
    {
      staged[threadIdx.x] = (float) (threadIdx.x + round);
      __syncthreads ();
      sum += staged[(threadIdx.x + 1) % THREADS];
      if (waits)
        __syncthreads ();
    }
  y[blockIdx.x * THREADS + threadIdx.x] = sum;
}

/* Lanes of a warp are not in step by themselves. */
template <bool waits>
static void
lanes_kernel (float *y)
{
  SIMT_SHARED (float, staged, THREADS);
  staged[threadIdx.x] = (float) threadIdx.x;
  if (waits)
    __syncwarp ();
  y[blockIdx.x * THREADS + threadIdx.x] = staged[threadIdx.x ^ 1];
}

/* An exchange orders the lanes of a warp, and no others. */
template <bool within>
static void
exchange_kernel (float *y)
{
  SIMT_SHARED (float, staged, THREADS);
  staged[threadIdx.x] = __shfl_xor_sync (0xffffffffu, (float) threadIdx.x, 1);
  __syncwarp ();
  y[blockIdx.x * THREADS + threadIdx.x] = staged[within ? threadIdx.x ^ 3 : (threadIdx.x + 32) % THREADS];
}

/* A barrier orders the threads of a block; another block's are never ordered. */
template <bool own>
static void
blocks_kernel (float *y)
{
  __syncthreads ();
  if (threadIdx.x == 40 + (own ? 0 : blockIdx.x))
    y[own ? blockIdx.x : 0] = 1.0f;
}

/* Adds to one number, from all blocks. */
template <bool atomic>
static void
adding_kernel (float *y)
{
  int *count = (int *) y;
  if (atomic)
    atomicAdd (count, 1);
  else
    *count = *count + 1;
}

/* Each block leaves a number; the last one, by a count, adds them. */
template <bool fences>
static void
last_block_kernel (float *y)
{
  SIMT_SHARED (unsigned, before, 1);
  unsigned *count = (unsigned *) (y + BLOCKS);
  if (threadIdx.x == 3)
    {
      y[blockIdx.x] = (float) blockIdx.x;
      if (fences)
        __threadfence ();
      *before = atomicAdd (count, 1u);
    }
  __syncthreads ();
  if (*before == BLOCKS - 1 && threadIdx.x == 5)
    for (int i = 0; i < BLOCKS; i++)
      y[BLOCKS + 1] += y[i];
}

template <typename K>
static void
run (const char *name, K kernel, SimtOrder order)
{
  static float y[BLOCKS * THREADS];
  const SimtClosure<float *> closure = { kernel, { y } };
  simt_run_grid (name, dim3 (BLOCKS), dim3 (THREADS), simt_invoke<float *>, &closure, order);
}

int
main (int argc, char **argv)
{
  static const struct
  {
    const char *name;
    void (*kernel) (float *);
  } kernels[] = {
    { "neighbour-race", neighbour_kernel<false> },   { "neighbour", neighbour_kernel<true> },
    { "rounds-race", rounds_kernel<false> },         { "rounds", rounds_kernel<true> },
    { "lanes-race", lanes_kernel<false> },           { "lanes", lanes_kernel<true> },
    { "exchange-race", exchange_kernel<false> },     { "exchange", exchange_kernel<true> },
    { "blocks-race", blocks_kernel<false> },         { "blocks", blocks_kernel<true> },
    { "adding-race", adding_kernel<false> },         { "adding", adding_kernel<true> },
    { "last-block-race", last_block_kernel<false> }, { "last-block", last_block_kernel<true> },
  };
  const SimtOrder order = argc > 2 ? (SimtOrder) atoi (argv[2]) : SIMT_ORDER_FORWARD;
  for (const auto &each : kernels)
    if (argc > 1 && strcmp (argv[1], each.name) == 0)
      {
        run (each.name, each.kernel, order);
        return 0;
      }
  if (argc == 1)
    for (const auto &each : kernels)
      printf ("%s\n", each.name);
  return argc == 1 ? 0 : 2;
}
