/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-philox-private.h"
#include "core/ortrain-thread-pool-private.h"
#include "tensor/ortrain-attributes-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* A kernel is a stateless pair. prepare sees types, shapes and attributes and may refuse, with a GError; run gets raw
 * addresses, and neither allocates, nor locks, nor touches a GObject, nor fails for a reason that prepare could have
 * found. Kernels see operators in their newest form only (see OrtrainOpDef.upgrade), and shapes as numbers. */

/* The physical order of a value's elements. dims are in ONNX's order in any case. */
typedef enum
{
  ORTRAIN_LAYOUT_PLAIN,         /* row-major in ONNX's order: [N, C, d1, …] */
  ORTRAIN_LAYOUT_CHANNELS_LAST, /* row-major as [N, d1, …, C]; ranks 3 to 5 only */
} OrtrainLayout;

typedef struct
{
  OrtrainDType dtype; /* UNDEFINED: the optional operand is absent */
  guint rank;
  const gint64 *dims;
  gint64 n_elements;
  gsize n_bytes;
  OrtrainLayout layout;
  gconstpointer constant; /* the contents, on the host, when they are known before the first step; else NULL */
} OrtrainOperand;

typedef struct _OrtrainKernel OrtrainKernel;
typedef struct _OrtrainProvider OrtrainProvider;

#define ORTRAIN_KERNEL_MAX_OUTPUTS 64

/* What prepare reads and what it answers. */
typedef struct
{
  /* in */
  const char *op_type;
  const char *domain;                  /* "" for ONNX's own */
  const OrtrainAttributes *attributes; /* never NULL */
  GObject *body;                       /* the body of a fused operator, or NULL; opaque here */
  const OrtrainOperand *inputs;        /* [n_inputs] */
  const OrtrainOperand *outputs;       /* [n_outputs] */
  guint n_inputs, n_outputs;
  guint n_threads;          /* of the pool that run will get */
  gboolean fixed_partition; /* cut library calls by shape alone: same bits at any number of threads */

  /* out, zero before the call */
  gsize workspace_bytes;
  guint64 inplace[ORTRAIN_KERNEL_MAX_OUTPUTS]; /* output k may be written over input i (same bytes) if bit i is set */
  guint64 can_accumulate; /* output k: y += … when bit k of call->accumulate is set; it is then over no input */
  double flops;           /* of one run */
  double bytes_moved;     /* read plus written, 0: the sum of the operands' */
  gpointer constants;     /* prepared constants, handed to run; immutable */
  GDestroyNotify constants_free;
} OrtrainKernelSetup;

typedef enum
{
  ORTRAIN_FAULT_NONE,
  ORTRAIN_FAULT_INDEX,  /* an index or a label is out of range: value, limit */
  ORTRAIN_FAULT_NUMBER, /* a floating-point operand is out of range: position is the input, value the bits of a double */
  ORTRAIN_FAULT_DIVIDE,  /* integer division by zero */
  ORTRAIN_FAULT_LIBRARY, /* a library call failed: value is its code */
} OrtrainFaultCode;

typedef struct
{
  OrtrainFaultCode code;
  gint64 position; /* flat index of the element */
  gint64 value;
  gint64 limit;
  gint64 item; /* the row of the batch that it came with, -1: not known; kernels leave it alone */
} OrtrainFault;

/* What all calls of one run of a program share. */
typedef struct
{
  OrtrainThreadPool *pool; /* the CPU's "stream" */
  guint64 seed;
  guint32 step;
  gboolean accumulate_gradients; /* gradients are added to what is there: not the first micro-batch of an update */
  OrtrainFault fault;            /* first fault of the run */
} OrtrainKernelFrame;

typedef struct
{
  const void *const *inputs; /* [n_inputs], NULL where absent */
  void *const *outputs;      /* [n_outputs], NULL where not wanted */
  void *workspace;           /* workspace_bytes, aligned to 64 */
  gconstpointer constants;
  guint32 node_number; /* for random numbers: the same for a node and its recomputation */
  guint64 accumulate;  /* bit k: output k is added to what is there; only where can_accumulate allows it */
  OrtrainKernelFrame *frame;
} OrtrainKernelCall;

typedef gboolean (*OrtrainKernelPrepareFunc) (OrtrainKernelSetup *setup, GError **error);
typedef void (*OrtrainKernelRunFunc) (const OrtrainKernelCall *call);

struct _OrtrainKernel
{
  const char *op_type;
  const char *domain;
  OrtrainDTypeSet dtypes; /* of the deciding operand: input 0 if present, else output 0. 0: any */
  OrtrainKernelPrepareFunc prepare;
  OrtrainKernelRunFunc run;
  guint32 flags;
};

enum
{
  ORTRAIN_KERNEL_ANY_LAYOUT = 1 << 0,    /* element-wise: right in any layout if all operands of full shape share it */
  ORTRAIN_KERNEL_CHANNELS_LAST = 1 << 1, /* handles, and wishes for, channels-last on inputs and outputs of rank 3-5 */
};

typedef struct
{
  const OrtrainKernel *kernels;
  guint n_kernels;
} OrtrainKernelTable;

/* A family's file is compiled once per instruction set; ORTRAIN_CPU_ISA is then the suffix of its table. */
#ifndef ORTRAIN_CPU_ISA
#define ORTRAIN_CPU_ISA
#endif
#define ORTRAIN_KERNEL_TABLE_NAME_(family, isa) ortrain_cpu_kernels_##family##isa
#define ORTRAIN_KERNEL_TABLE_NAME(family, isa) ORTRAIN_KERNEL_TABLE_NAME_ (family, isa)
#define ORTRAIN_KERNEL_TABLE(family, rows)                                                                             \
  extern const OrtrainKernelTable ORTRAIN_KERNEL_TABLE_NAME (family, ORTRAIN_CPU_ISA);                                 \
  const OrtrainKernelTable ORTRAIN_KERNEL_TABLE_NAME (family, ORTRAIN_CPU_ISA) = { (rows), G_N_ELEMENTS (rows) }

static inline void
ortrain_kernel_fault (OrtrainKernelFrame *frame, OrtrainFaultCode code, gint64 position, gint64 value, gint64 limit)
{
  /* Several threads may come here at once; whoever is first tells, whole. Read after the threads have joined. */
  OrtrainFaultCode none = ORTRAIN_FAULT_NONE;
  if (!__atomic_compare_exchange_n (&frame->fault.code, &none, code, FALSE, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return;
  frame->fault.position = position;
  frame->fault.value = value;
  frame->fault.limit = limit;
}

static inline void
ortrain_kernel_fault_number (OrtrainKernelFrame *frame, guint input, double number)
{
  gint64 bits;
  memcpy (&bits, &number, sizeof bits);
  ortrain_kernel_fault (frame, ORTRAIN_FAULT_NUMBER, input, bits, 0);
}
