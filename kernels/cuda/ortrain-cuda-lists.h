/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-units.h"

/* The numbers that point to a place, in ascending order: for scatters, and for gradients of operators that read some
 * elements several times. */

/* Lists of n numbers, each of which names a place. If there are many, they are sorted by place: they are counted, each
 * place is given a stretch, and the stretches are filled. Neither the order of the stretches nor the order within a
 * stretch is determined; a reader goes through a stretch in ascending order. If there are few compared with the places,
 * the first of those that name the same place finds the others among the candidates that may name it. Lives in the
 * workspace. */
struct OrtrainCudaLists
{
  gint64 *keys; /* [n] places, -1: none */
  gint64 n, places;
  /* sorted; else NULL */
  gint32 *counts; /* [places] */
  gint32 *ends;   /* [places]: where in order its stretch ends */
  gint32 *order;  /* [n] */
  gint32 *cursor; /* [2]: elements of order that are given away; places in `crowded` */
  gint32 *crowded;
  /* candidates; of elements, the indices of a line */
  gint64 line, step;
};

/* Places with more than that are crowded. */
#define ORTRAIN_CUDA_CROWD 128
#define ORTRAIN_CUDA_N_CROWDED(n) ((n) / (ORTRAIN_CUDA_CROWD + 1) + 1)

static inline bool
ortrain_cuda_lists_are_sorted (gint64 n, gint64 places, gint64 line)
{
  return places <= G_MAXINT32 && line > 64 && (places <= 64 * n || (line > 512 && places <= 4096 * n));
}

static inline gsize
ortrain_cuda_lists_get_sorted_bytes (gint64 n, gint64 places)
{
  return (gsize) n * sizeof (gint64) + (gsize) (n + 2 * places + 2 + ORTRAIN_CUDA_N_CROWDED (n)) * sizeof (gint32);
}

/* line: how many candidates there are at most. */
static inline gsize
ortrain_cuda_lists_get_bytes (gint64 n, gint64 places, gint64 line)
{
  return ortrain_cuda_lists_are_sorted (n, places, line) ? ortrain_cuda_lists_get_sorted_bytes (n, places)
                                                         : (gsize) n * sizeof (gint64);
}

/* Clears the counts. places: below 2^31 */
static inline OrtrainCudaLists
ortrain_cuda_lists_begin_sorted (const OrtrainKernelCall *call, gint64 n, gint64 places)
{
  OrtrainCudaLists lists = {};
  lists.keys = (gint64 *) call->workspace;
  lists.n = n;
  lists.places = places;
  lists.order = (gint32 *) (lists.keys + n);
  lists.ends = lists.order + n;
  lists.counts = lists.ends + places;
  lists.cursor = lists.counts + places;
  lists.crowded = lists.cursor + 2;
  ortrain_cuda_fill (call, lists.counts, 0, (gsize) (places + 2) * sizeof (gint32));
  return lists;
}

/* line, step: of the candidates */
static inline OrtrainCudaLists
ortrain_cuda_lists_begin (const OrtrainKernelCall *call, gint64 n, gint64 places, gint64 line, gint64 step)
{
  OrtrainCudaLists lists = {};
  if (ortrain_cuda_lists_are_sorted (n, places, line))
    lists = ortrain_cuda_lists_begin_sorted (call, n, places);
  lists.keys = (gint64 *) call->workspace;
  lists.n = n;
  lists.places = places;
  lists.line = line;
  lists.step = step;
  return lists;
}

/* For the kernel that computes the keys. */
static inline __device__ void
ortrain_cuda_lists_add (const OrtrainCudaLists &lists, gint64 i, gint64 place)
{
  lists.keys[i] = place;
  if (place >= 0 && lists.counts != NULL)
    atomicAdd (&lists.counts[place], 1);
}

/* A stretch for each place: of a warp's places together, by one addition. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) ortrain_cuda_lists_assign_kernel (const OrtrainCudaLists lists)
{
  const unsigned lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  const gint64 end = (lists.places + ORTRAIN_CUDA_WARP - 1) / ORTRAIN_CUDA_WARP * ORTRAIN_CUDA_WARP;
  for (gint64 place = ortrain_cuda_first (); place < end; place += ortrain_cuda_stride ())
    {
      const gint32 count = place < lists.places ? lists.counts[place] : 0;
      gint32 sum = count; /* of the lanes up to this one */
      for (unsigned by = 1; by < ORTRAIN_CUDA_WARP; by *= 2)
        {
          const gint32 other = __shfl_up_sync (ORTRAIN_CUDA_ALL, sum, by);
          sum += lane >= by ? other : 0;
        }
      const gint32 all = __shfl_sync (ORTRAIN_CUDA_ALL, sum, ORTRAIN_CUDA_WARP - 1);
      gint32 begin = 0;
      if (lane == 0 && all > 0)
        begin = atomicAdd (&lists.cursor[0], all);
      begin = __shfl_sync (ORTRAIN_CUDA_ALL, begin, 0);
      if (place < lists.places)
        lists.ends[place] = begin + sum - count;
      if (count > ORTRAIN_CUDA_CROWD)
        lists.crowded[atomicAdd (&lists.cursor[1], 1)] = (gint32) place;
    }
}

/* ends: of an empty stretch at first */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) ortrain_cuda_lists_fill_kernel (const OrtrainCudaLists lists)
{
  for (gint64 i = ortrain_cuda_first (); i < lists.n; i += ortrain_cuda_stride ())
    if (lists.keys[i] >= 0)
      lists.order[atomicAdd (&lists.ends[lists.keys[i]], 1)] = (gint32) i;
}

/* Runs after the kernel that computes the keys. */
static inline void
ortrain_cuda_lists_sort (const OrtrainKernelCall *call, const OrtrainCudaLists &lists)
{
  if (lists.counts == NULL)
    return;
  ortrain_cuda_launch (call, "lists", ortrain_cuda_grid (call, lists.places, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       ortrain_cuda_lists_assign_kernel, lists);
  ortrain_cuda_launch (call, "lists", ortrain_cuda_grid (call, lists.n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       ortrain_cuda_lists_fill_kernel, lists);
}

/* Sorted: func (i) for each i that says the place, ascending. */
template <typename F>
static inline __device__ void
ortrain_cuda_lists_each (const OrtrainCudaLists &lists, gint64 place, gint32 count, F func)
{
  const gint32 *stretch = lists.order + lists.ends[place] - count;
  if (count == 1)
    func (stretch[0]);
  else if ((gint64) count * count <= MAX (lists.n, 64))
    {
      gint32 last = -1;
      for (gint32 k = 0; k < count; k++)
        {
          gint32 next = G_MAXINT32;
          for (gint32 c = 0; c < count; c++)
            next = stretch[c] > last && stretch[c] < next ? stretch[c] : next;
          func (next);
          last = next;
        }
    }
  else
    for (gint32 i = 0; i < (gint32) lists.n; i++)
      if (lists.keys[i] == place)
        func (i);
}

/* Not sorted: the same for the place of i, if i is the first one that says it; else nothing. begin: of its candidates
 */
template <typename F>
static inline __device__ void
ortrain_cuda_lists_each_of_first (const OrtrainCudaLists &lists, gint64 i, gint64 begin, F func)
{
  const gint64 key = lists.keys[i];
  const gint64 end = begin + lists.line * lists.step;
  for (gint64 j = begin; j < i; j += lists.step)
    if (lists.keys[j] == key)
      return;
  for (gint64 j = i; j < end; j += lists.step)
    if (lists.keys[j] == key)
      func ((gint32) j);
}
