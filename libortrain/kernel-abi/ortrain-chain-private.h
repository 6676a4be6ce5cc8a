/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-abi/ortrain-attributes-private.h"
#include "tensor/ortrain-tensor-private.h"

/* The program of a fused operator: a flat list of operators in order. Its row writes it, kernels read it. Values are
 * numbered: first the inputs, then constants of one element, then one result per operator. Strings and attributes
 * belong to the graph that the chain was made of. */
typedef struct
{
  const char *op_type, *domain, *name;
  const OrtrainAttributes *attributes;
  OrtrainDType dtype; /* of the result */
  guint n_inputs;
  const guint *inputs; /* values; G_MAXUINT where absent */
} OrtrainChainOp;

typedef struct
{
  guint n_inputs, n_constants, n_ops, n_outputs;
  OrtrainTensor *const *constants; /* [n_constants] */
  const OrtrainChainOp *ops;       /* [n_ops] */
  const guint *outputs;            /* [n_outputs], values */
} OrtrainChain;

/* Hangs on the object that OrtrainKernelSetup.body points to; inference of the fused node puts it there. */
static inline GQuark
ortrain_chain_quark (void)
{
  return g_quark_from_static_string ("ortrain-chain");
}

static inline const OrtrainChain *
ortrain_chain_get (GObject *body)
{
  return body != NULL ? g_object_get_qdata (body, ortrain_chain_quark ()) : NULL;
}
