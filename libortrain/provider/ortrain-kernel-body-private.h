/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-kernel-private.h"

/* The body of a fused operator as kernels see it: a flat list of operators in order. Values are numbered: first the
 * node's inputs, then constants of one element, then one result per operator. Strings and attributes belong to the
 * body. */
typedef struct
{
  const char *op_type, *domain, *name;
  const OrtrainAttributes *attributes;
  OrtrainDType dtype; /* of the result */
  guint n_inputs;
  const guint *inputs; /* values; G_MAXUINT where absent */
} OrtrainBodyOp;

typedef struct
{
  guint n_inputs, n_constants, n_ops, n_outputs;
  OrtrainTensor *const *constants; /* [n_constants] */
  const OrtrainBodyOp *ops;        /* [n_ops] */
  const guint *outputs;            /* [n_outputs], values */
} OrtrainKernelBody;

/* Hangs on the object that OrtrainKernelSetup.body points to; inference of the fused node puts it there. */
static inline GQuark
ortrain_kernel_body_quark (void)
{
  return g_quark_from_static_string ("ortrain-kernel-body");
}

static inline const OrtrainKernelBody *
ortrain_kernel_body_get (GObject *body)
{
  return body != NULL ? g_object_get_qdata (body, ortrain_kernel_body_quark ()) : NULL;
}
