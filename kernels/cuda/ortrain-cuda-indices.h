/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-lists.h"

/* Where indices point: for gathers, scatters and their gradients. */

/* The place, from 0, that index i means in a dimension: negative ones count from its end. -1: outside, which is
 * reported by whoever is asked to. */
static inline __device__ gint64
ortrain_cuda_place (const void *indices, bool is_64, gint64 i, gint64 dim, const OrtrainFaultPlace &fault, bool reports)
{
  const gint64 index = is_64 ? ((const gint64 *) indices)[i] : (gint64) ((const gint32 *) indices)[i];
  const gint64 place = index < 0 ? index + dim : index;
  if (place >= 0 && place < dim)
    return place;
  if (reports)
    fault.report (ORTRAIN_FAULT_INDEX, i, index, dim);
  return -1;
}

/* ---- slices: index tuples of k numbers pick slices of `inner` elements ---- */

struct OrtrainCudaSlices
{
  gint64 outer;                   /* the same for each of them: data [outer, places, inner] */
  gint64 n, places, inner;        /* tuples, slices that they pick from, elements of a slice */
  OrtrainDivisor tuples;          /* of a batch */
  gint64 batch_stride;            /* slices of a batch */
  gint64 dims[ORTRAIN_MAX_RANK];  /* the dimensions that a tuple goes over */
  gint64 steps[ORTRAIN_MAX_RANK]; /* of them, in slices */
  guint k;
  bool index_64;
};

/* The slice of tuple `at` (over all batches), or -1. */
static inline __device__ gint64
ortrain_cuda_locate_slice (const OrtrainCudaSlices &slices, const void *indices, gint64 at,
                           const OrtrainFaultPlace &fault, bool reports)
{
  gint64 slice = slices.batch_stride > 0 ? at / slices.tuples.divisor * slices.batch_stride : 0;
  for (guint i = 0; i < slices.k; i++)
    {
      const gint64 k = ortrain_cuda_place (indices, slices.index_64, at * slices.k + i, slices.dims[i], fault, reports);
      if (k < 0)
        return -1;
      slice += k * slices.steps[i];
    }
  return slice;
}

/* Gather: data [outer, dim, inner], indices [n] */
static inline const char *
ortrain_cuda_slices_init_gather (OrtrainCudaSlices *self, const OrtrainOperand *data, const OrtrainOperand *indices,
                                 gint64 axis)
{
  axis = ortrain_kernel_axis (axis, data->rank);
  if (axis < 0 || axis >= data->rank)
    return "axis is out of range";
  self->outer = ortrain_kernel_product (data->dims, 0, (guint) axis);
  self->inner = ortrain_kernel_product (data->dims, (guint) axis + 1, data->rank);
  self->n = indices->n_elements;
  self->places = self->dims[0] = data->dims[axis];
  self->steps[0] = 1;
  self->k = 1;
  self->tuples = ortrain_divisor (self->n);
  self->index_64 = indices->dtype == ORTRAIN_DTYPE_INT64;
  return NULL;
}

/* GatherND, ScatterND: indices [batches…, tuples…, k] */
static inline const char *
ortrain_cuda_slices_init_tuples (OrtrainCudaSlices *self, const OrtrainOperand *data, const OrtrainOperand *indices,
                                 gint64 batch)
{
  gint64 strides[ORTRAIN_MAX_RANK];
  const gint64 k = indices->rank > 0 ? indices->dims[indices->rank - 1] : -1;
  if (k < 0 || batch < 0 || batch >= indices->rank || batch + k > data->rank || data->rank > ORTRAIN_MAX_RANK)
    return "the index tuples do not fit the data";
  for (gint64 i = 0; i < batch; i++)
    if (indices->dims[i] != data->dims[i])
      return "the batches of data and indices differ";
  ortrain_copy_strides (data->rank, data->dims, strides);
  const gint64 tuples = ortrain_kernel_product (indices->dims, (guint) batch, indices->rank - 1);
  self->outer = 1;
  self->n = ortrain_kernel_product (indices->dims, 0, (guint) batch) * tuples;
  self->inner = ortrain_kernel_product (data->dims, (guint) (batch + k), data->rank);
  self->places = self->inner > 0 ? data->n_elements / self->inner : 0;
  self->tuples = ortrain_divisor (tuples);
  self->k = (guint) k;
  self->batch_stride =
      batch > 0 && self->inner > 0 ? ortrain_kernel_product (data->dims, (guint) batch, data->rank) / self->inner : 0;
  for (guint i = 0; i < self->k; i++)
    {
      self->dims[i] = data->dims[batch + i];
      self->steps[i] = self->inner > 0 ? strides[batch + i] / self->inner : 0;
    }
  self->index_64 = indices->dtype == ORTRAIN_DTYPE_INT64;
  return NULL;
}

/* ---- elements: lines along the axis ---- */

struct OrtrainCudaElements
{
  guint rank, axis; /* dimensions from the innermost one outwards */
  OrtrainDivisor dims[ORTRAIN_MAX_RANK];
  gint64 strides[ORTRAIN_MAX_RANK]; /* of the data */
  gint64 dim;                       /* of the data along the axis */
  gint64 line, step;                /* indices of a line, and from one of them to the next */
  gint64 n, places;                 /* indices, elements of the data */
  bool index_64;
};

/* The element of the data that index `at` picks, or -1. */
static inline __device__ gint64
ortrain_cuda_locate_element (const OrtrainCudaElements &elements, const void *indices, gint64 at,
                             const OrtrainFaultPlace &fault)
{
  const gint64 k = ortrain_cuda_place (indices, elements.index_64, at, elements.dim, fault, true);
  gint64 place = k * elements.strides[elements.axis], rest = at;
  for (guint d = 0; d < elements.rank; d++)
    {
      gint64 index = rest;
      if (elements.n <= G_MAXINT32)
        rest = ortrain_divide_rest<true> (index, elements.dims[d]);
      else
        rest = ortrain_divide_rest<false> (index, elements.dims[d]);
      if (d != elements.axis)
        place += index * elements.strides[d];
    }
  return k < 0 ? -1 : place;
}

/* Where the line of index `at` begins. */
static inline __device__ gint64
ortrain_cuda_find_line (const OrtrainCudaElements &elements, gint64 at)
{
  return at / (elements.line * elements.step) * (elements.line * elements.step) + at % elements.step;
}

/* data: the indexed tensor, which is the data of a gather or the result of a scatter. */
static inline const char *
ortrain_cuda_elements_init (OrtrainCudaElements *self, const OrtrainOperand *data, const OrtrainOperand *indices,
                            gint64 axis)
{
  gint64 strides[ORTRAIN_MAX_RANK];
  axis = ortrain_kernel_axis (axis, data->rank);
  if (axis < 0 || axis >= data->rank || indices->rank != data->rank || data->rank > ORTRAIN_MAX_RANK)
    return "the ranks of data and indices or the axis do not fit";
  for (gint64 d = 0; d < data->rank; d++)
    if (d != axis && indices->dims[d] > data->dims[d])
      return "the indices are larger than the data";
  ortrain_copy_strides (data->rank, data->dims, strides);
  self->rank = data->rank;
  self->axis = data->rank - 1 - (guint) axis;
  for (guint d = 0; d < self->rank; d++)
    {
      self->dims[d] = ortrain_divisor (indices->dims[self->rank - 1 - d]);
      self->strides[d] = strides[self->rank - 1 - d];
    }
  self->dim = data->dims[axis];
  self->line = MAX (indices->dims[axis], 1);
  self->step = MAX (ortrain_kernel_product (indices->dims, (guint) axis + 1, indices->rank), 1);
  self->n = indices->n_elements;
  self->places = data->n_elements;
  self->index_64 = indices->dtype == ORTRAIN_DTYPE_INT64;
  return NULL;
}

/* ---- which place each index says ---- */

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    ortrain_cuda_slice_keys_kernel (const OrtrainCudaSlices slices, const void *indices, const OrtrainCudaLists lists,
                                    const OrtrainFaultPlace fault)
{
  for (gint64 i = ortrain_cuda_first (); i < lists.n; i += ortrain_cuda_stride ())
    ortrain_cuda_lists_add (lists, i, ortrain_cuda_locate_slice (slices, indices, i, fault, true));
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    ortrain_cuda_element_keys_kernel (const OrtrainCudaElements elements, const void *indices,
                                      const OrtrainCudaLists lists, const OrtrainFaultPlace fault)
{
  for (gint64 i = ortrain_cuda_first (); i < lists.n; i += ortrain_cuda_stride ())
    ortrain_cuda_lists_add (lists, i, ortrain_cuda_locate_element (elements, indices, i, fault));
}
