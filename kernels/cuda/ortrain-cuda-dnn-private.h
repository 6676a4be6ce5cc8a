/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-library-private.h"

G_BEGIN_DECLS

/* Operation graphs of cuDNN. A graph is composed as plain data, by prepare; ortrain_dnn_plan asks cuDNN's heuristics
 * which engines compute it, and how much workspace they need, which touches no memory of the device. The first run
 * makes the execution plan, which compiles where the engine says so. Plans live as long as the process and are shared
 * by all nodes with the same graph. */

#define ORTRAIN_DNN_MAX_RANK 5
#define ORTRAIN_DNN_MAX_TENSORS 56
#define ORTRAIN_DNN_MAX_OPERATIONS 40

typedef enum
{
  ORTRAIN_DNN_NONE = 0,
  ORTRAIN_DNN_VIRTUAL = 1,  /* never in memory */
  ORTRAIN_DNN_BY_VALUE = 2, /* one number, known when the graph is composed */
} OrtrainDnnTensorFlags;

/* All fields have 8 bytes: graphs are compared, and hashed, as memory. */
typedef struct
{
  gint64 type, flags, rank; /* type: cudnnDataType_t */
  gint64 dims[ORTRAIN_DNN_MAX_RANK], strides[ORTRAIN_DNN_MAX_RANK];
  double value;
} OrtrainDnnTensor;

typedef struct
{
  gint64 rank; /* spatial dimensions: 2 or 3 */
  gint64 pad_begin[3], pad_end[3], stride[3], dilation[3];
  gint64 size[3]; /* of a pool, which has no dilation; a convolution has weights */
} OrtrainDnnWindow;

typedef struct
{
  gint64 type; /* cudnnBackendDescriptorType_t, of the operation */
  gint64 mode; /* of a pointwise operation, a reduction or a pool */
  gint64 precision;
  gint64 axis;         /* of GEN_INDEX */
  gint64 operands[4];  /* tensors in the order of the functions below; -1: none */
  gint64 overrides[3]; /* of a product: tensors with the rows, columns and summed elements of each sample, or -1 */
  OrtrainDnnWindow window;
} OrtrainDnnOperation;

typedef struct
{
  gint64 n_tensors, n_operations;
  OrtrainDnnTensor tensors[ORTRAIN_DNN_MAX_TENSORS];
  OrtrainDnnOperation operations[ORTRAIN_DNN_MAX_OPERATIONS];
} OrtrainDnnGraph;

/* Functions that compose return the number of the tensor they add. graph: zeroed before the first of them. strides
 * NULL: rows follow each other. */
cudnnDataType_t ortrain_dnn_data_type (OrtrainDType dtype);
int ortrain_dnn_tensor (OrtrainDnnGraph *graph, cudnnDataType_t type, guint rank, const gint64 *dims,
                        const gint64 *strides);
int ortrain_dnn_virtual (OrtrainDnnGraph *graph, cudnnDataType_t type, guint rank, const gint64 *dims,
                         const gint64 *strides);
/* strides: [rank], filled, of a tensor [n, channels, …] in whose memory the channels are neighbours. */
void ortrain_dnn_set_channels_last (const gint64 *dims, guint rank, gint64 *strides);
/* One number as [1, 1, 1, 1]. */
int ortrain_dnn_scalar (OrtrainDnnGraph *graph, cudnnDataType_t type, double value);

/* (x, w, y), (dy, w, dx), (dy, x, dw): type is the operation's descriptor. */
void ortrain_dnn_convolution (OrtrainDnnGraph *graph, cudnnBackendDescriptorType_t type, const OrtrainDnnWindow *window,
                              int a, int b, int c);
/* (x, y), (dy, dx): type is the operation's descriptor. For greatest numbers, only the forward operation. */
void ortrain_dnn_pool (OrtrainDnnGraph *graph, cudnnBackendDescriptorType_t type, cudnnResampleMode_t mode,
                       const OrtrainDnnWindow *window, int from, int to);
void ortrain_dnn_matmul (OrtrainDnnGraph *graph, int a, int b, int c);
/* m, n, k: int32 [batch, 1, 1, 1], how many rows and columns of c, and how many terms of its sums, count; -1: all */
void ortrain_dnn_matmul_of (OrtrainDnnGraph *graph, int a, int b, int c, int m, int n, int k);
/* y = mode (x, b); b -1: of one operand. */
void ortrain_dnn_pointwise_into (OrtrainDnnGraph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int x,
                                 int b, int y);
/* The same, in float32, of the shape of x, and virtual. */
int ortrain_dnn_pointwise (OrtrainDnnGraph *graph, cudnnPointwiseMode_t mode, int x, int b);
/* y: as x where t is true, else b */
int ortrain_dnn_select (OrtrainDnnGraph *graph, int t, int x, int b);
/* int32, of the shape of x: the index along an axis */
int ortrain_dnn_index (OrtrainDnnGraph *graph, int x, int axis);
/* bool, of the shape of a */
int ortrain_dnn_compare (OrtrainDnnGraph *graph, cudnnPointwiseMode_t mode, int a, int b);
void ortrain_dnn_reduce_into (OrtrainDnnGraph *graph, cudnnReduceTensorOp_t op, int x, int y);
void ortrain_dnn_reshape_into (OrtrainDnnGraph *graph, int x, int y);

/* The properties that decide which engines are taken. */
typedef struct
{
  OrtrainCudaContext *context; /* of the device; NULL: it need not be there */
  const char *device;          /* OrtrainCudaProvider.identity */
  const char *device_json; /* NULL: the device in use; else a description of one that need not be there; not copied */
  gboolean allow_tf32;     /* of float32: engines that use tensor cores */
  OrtrainConvAlgoSearch search;
  gsize workspace_limit; /* engines that need more are left out */
} OrtrainDnnTarget;

typedef struct _OrtrainDnnPlan OrtrainDnnPlan;

void ortrain_dnn_target_init (OrtrainDnnTarget *target, const OrtrainKernelSetup *setup);
/* NULL and PLAN_ERROR_NO_KERNEL: no engine computes the graph. Transfer none. */
OrtrainDnnPlan *ortrain_dnn_plan (const OrtrainDnnGraph *graph, const OrtrainDnnTarget *target, GError **error);
gsize ortrain_dnn_plan_get_workspace_bytes (const OrtrainDnnPlan *self);
guint ortrain_dnn_plan_get_n_engines (const OrtrainDnnPlan *self);
/* The notes of the engine at a place in the order of the heuristics: bit n is numerical note n. G_MAXUINT: it cannot be
 * made. */
guint ortrain_dnn_plan_get_notes (OrtrainDnnPlan *self, guint engine);
/* Whether the library compiles the kernels of that engine, which takes a second or two, and is kept in the disk cache.
 */
gboolean ortrain_dnn_plan_is_compiled (OrtrainDnnPlan *self, guint engine);
/* addresses: by tensor, in the memory of the device; NULL of virtual ones and of numbers. For run. FALSE: none of the
 * engines could be made ready, and nothing was submitted; it stays so, and the caller computes in another way. */
gboolean ortrain_dnn_run (OrtrainDnnPlan *self, const OrtrainKernelCall *call, void *const *addresses,
                          gpointer workspace);
/* Whether the heuristics were not asked: the disk cache had their answer. */
gboolean ortrain_dnn_plan_is_remembered (const OrtrainDnnPlan *self);

#define ORTRAIN_DNN_MAX_ENGINES 32
#define ORTRAIN_DNN_MAX_KNOBS 64

/* An engine of a graph, and its settings: cuDNN needs them to make the same configuration again. */
typedef struct
{
  gint64 number; /* in cuDNN's list */
  gint64 workspace_bytes;
  guint n_knobs;
  struct
  {
    gint64 type, value; /* cudnnBackendKnobType_t */
  } knobs[ORTRAIN_DNN_MAX_KNOBS];
} OrtrainDnnEngine;

/* ortrain-cuda-dnn-cache.c. key: the graph, and all else that decides. engines: [ORTRAIN_DNN_MAX_ENGINES], in the order
 * of the heuristics; returns how many, 0: not known. */
guint ortrain_dnn_cache_read_engines (const char *key, OrtrainDnnEngine *engines);
void ortrain_dnn_cache_write_engines (const char *key, const OrtrainDnnEngine *engines, guint n_engines);
/* The place of the one that was the fastest, or -1. */
gint ortrain_dnn_cache_read_fastest (const OrtrainCudaProvider *provider, const char *key,
                                     const OrtrainDnnEngine *engines, guint n_engines);
void ortrain_dnn_cache_write_fastest (const char *key, const OrtrainDnnEngine *engines, guint place);

G_END_DECLS
