/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-philox-private.h"
#include "kernel-abi/ortrain-attributes-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* A kernel is a stateless pair. prepare sees types, shapes and attributes and may refuse, with a GError; run gets raw
 * addresses in the memory of its device, and neither allocates, nor locks, nor touches a GObject, nor waits for the
 * device, nor fails for a reason that prepare could have found. Kernels see operators in their newest form only (see
 * OrtrainOpDef.upgrade), and shapes as numbers. */

typedef struct
{
  OrtrainDType dtype; /* UNDEFINED: the optional operand is absent */
  guint rank;
  const gint64 *dims;
  gint64 n_elements;
  gsize n_bytes;
  gconstpointer constant; /* the contents, on the host, when they are known before the first step; else NULL */
} OrtrainOperand;

typedef struct _OrtrainKernel OrtrainKernel;
typedef struct _OrtrainKernelCall OrtrainKernelCall;
typedef struct _OrtrainProvider OrtrainProvider;
typedef struct _OrtrainStream OrtrainStream;

#define ORTRAIN_KERNEL_MAX_OUTPUTS 64

/* The input and the results of prepare. */
typedef struct
{
  /* in */
  const char *op_type;
  const char *domain;                  /* "" for ONNX's own */
  const OrtrainAttributes *attributes; /* never NULL */
  GObject *body;                       /* of a fused operator: has its OrtrainChain; else NULL */
  const OrtrainOperand *inputs;        /* [n_inputs] */
  const OrtrainOperand *outputs;       /* [n_outputs] */
  guint n_inputs, n_outputs;
  const OrtrainProvider *provider; /* of the device that will run it */

  /* out, zero before the call */
  gsize workspace_bytes;
  guint64 inplace[ORTRAIN_KERNEL_MAX_OUTPUTS]; /* output k may be written over input i (same bytes) if bit i is set */
  guint64 can_accumulate; /* output k: y += … when bit k of call->accumulates is set; it is then over no input */
  double flops;           /* of one run */
  double bytes_moved;     /* read plus written, 0: the sum of the operands' */
  /* For an operator with channels last: the bytes that the same operator in ONNX's order moves and this one does not,
   * because its kernel copies operands into another layout. Negative: this one moves more. */
  double spared_bytes;
  gpointer constants; /* prepared constants, handed to run; immutable */
  GDestroyNotify constants_free;
} OrtrainKernelSetup;

typedef enum
{
  ORTRAIN_FAULT_NONE,
  ORTRAIN_FAULT_INDEX,   /* an index or a label is out of range: value, limit */
  ORTRAIN_FAULT_NUMBER,  /* a floating-point operand is out of range: position is the input, value the bits of a double
                          */
  ORTRAIN_FAULT_DIVIDE,  /* integer division by zero */
  ORTRAIN_FAULT_LIBRARY, /* a library call failed: value is its code */
  ORTRAIN_FAULT_GUARD,   /* the operand of a StepGuard is not as it has to be */
} OrtrainFaultCode;

/* The one integer that a StepGuard lets pass; see ORTRAIN_UPDATE_NONE_BROKEN. */
#define ORTRAIN_GUARD_NONE G_MAXINT64

/* The first fault of a run, in the memory of the device; the host reads a copy of it when it waits anyway. */
typedef struct
{
  OrtrainFaultCode code;
  guint32 step;    /* of the plan: whose kernel it was */
  gint64 position; /* flat index of the element */
  gint64 value;
  gint64 limit;
} OrtrainFault;

/* The scalars of a step, in the memory of the device, written by one copy before its first kernel: a captured range of
 * calls stays valid when they change. */
typedef struct
{
  guint64 seed;
  guint32 step;                 /* training steps before this one; with seed and node number it keys random numbers */
  guint32 accumulate_gradients; /* gradients are added to the output's contents: not the first micro-batch of an
                                   update */
  /* The same as a factor of the output's contents, 0 or 1, for libraries that read it in device memory. */
  float gradient_beta;
  double gradient_beta_f64;
  guint32 guards; /* a value that a StepGuard refuses is a fault: then updates do nothing */
} OrtrainStepBlock;

static inline void
ortrain_step_block_set_accumulate (OrtrainStepBlock *self, gboolean accumulate)
{
  self->accumulate_gradients = accumulate ? 1 : 0;
  self->gradient_beta = accumulate ? 1.0f : 0.0f;
  self->gradient_beta_f64 = accumulate ? 1.0 : 0.0;
}

/* Data that all calls of one run of a program share. */
typedef struct
{
  OrtrainStream *stream;
  const OrtrainStepBlock *step; /* address in the memory of the device */
  OrtrainFault *fault;          /* address in the memory of the device */
} OrtrainKernelContext;

typedef void (*OrtrainKernelRunFunc) (const OrtrainKernelCall *call);

struct _OrtrainKernelCall
{
  OrtrainKernelRunFunc run;
  const void *const *inputs; /* [n_inputs], NULL where absent */
  void *const *outputs;      /* [n_outputs], NULL where not wanted */
  void *workspace;           /* workspace_bytes, aligned to 64 */
  gconstpointer constants;
  guint32 n_inputs, n_outputs;
  guint32 plan_step;   /* for faults */
  guint32 node_number; /* for random numbers: the same for a node and its recomputation */
  guint64 accumulates; /* bit k: the result is added to the contents of output k; only where can_accumulate allows it */
  guint64 gradients;   /* bit k: it is if the step block says that gradients are */
  const OrtrainKernelContext *context;
  /* NULL, or runs calls that follow each other from this one on, together; how many it has run. */
  guint (*run_joined) (const OrtrainKernelCall *calls, guint n_calls);
  guint32 n_joined; /* how many may be joined: this call and the calls after it with the same kernel, if they are
                       independent */
};

typedef gboolean (*OrtrainKernelPrepareFunc) (OrtrainKernelSetup *setup, GError **error);

struct _OrtrainKernel
{
  const char *op_type;
  const char *domain;
  OrtrainDTypeSet dtypes; /* of the first operand: input 0 if present, else output 0. 0: any */
  OrtrainKernelPrepareFunc prepare;
  OrtrainKernelRunFunc run;
  OrtrainDTypeSet output_dtypes; /* of output 0. 0: any */
  /* Not 0: floating-point operands may differ in type, each of them is one of these, and no tensor is converted as a
   * whole. Casts next to such a kernel disappear. */
  OrtrainDTypeSet mixed_dtypes;
  /* NULL: whatever the sets above allow; else whether it takes these types together. */
  gboolean (*takes) (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs);
  /* NULL, or runs several independent calls together: from the first on as many as it can, at least 1; returns how many
   * it has run. All of their operands and workspaces are allocated at the same time. */
  guint (*run_joined) (const OrtrainKernelCall *calls, guint n_calls);
};

/* Bit k: this run adds its result to the contents of output k. For kernels on the host. */
static inline guint64
ortrain_kernel_get_accumulate (const OrtrainKernelCall *call)
{
  return call->accumulates | (call->gradients != 0 && call->context->step->accumulate_gradients ? call->gradients : 0);
}

/* For kernels on the host. Several threads may come here at once; whoever is first reports, whole. */
static inline void
ortrain_kernel_fault (const OrtrainKernelCall *call, OrtrainFaultCode code, gint64 position, gint64 value, gint64 limit)
{
  OrtrainFault *fault = call->context->fault;
  OrtrainFaultCode none = ORTRAIN_FAULT_NONE;
  if (!__atomic_compare_exchange_n (&fault->code, &none, code, FALSE, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return;
  fault->step = call->plan_step;
  fault->position = position;
  fault->value = value;
  fault->limit = limit;
}

static inline void
ortrain_kernel_fault_number (const OrtrainKernelCall *call, guint input, double number)
{
  gint64 bits;
  memcpy (&bits, &number, sizeof bits);
  ortrain_kernel_fault (call, ORTRAIN_FAULT_NUMBER, input, bits, 0);
}
