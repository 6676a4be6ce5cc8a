/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* One case of a gradient check, as text, so that a table of hundreds stays readable.
 *
 * inputs: separated by ';'. "f[2,3]" distinct float64 values in about [-1.5, 1.5], none near 0, differentiated;
 *   "F[2]{1,0}" given values, at a kink or a zero; "p[2,3]" the same, positive; "u[2,3]" within (-0.9, 0.9); "g[2,3]"
 * above 1; "c[2,3]" like f and "q[2,3]" like p, but not differentiated; "i[3]{0,2,1}" int64 constants, "j[…]" int32
 * ones; "I[3]{…}" int64 computed (an input of the graph, not a constant); "b[2]{1,0}" bool constants; "d[2]{0.5,1}"
 * float64 constants; "s[2]" float32, "o[2]" uint8, "a[2]" int8 constants; "z[2]{0.5,1}" float64 and "y[2]" positive
 * ones that are not rounded to 16 bits; "_" absent. attributes: separated by spaces: "axis=1 pads=[1,1] alpha=0.5f
 * mode='edge' names=['a','b'] ratios=[0.5f,1f]". */
typedef struct
{
  const char *op_type;
  const char *inputs;
  const char *attributes; /* or NULL */
  guint n_outputs;        /* 0: one */
  const char *domain;     /* or NULL */
} OrtrainGradientCase;

/* The largest difference between the gradient rule and central differences (Richardson's extrapolation of two steps)
 * over all inputs, relative to the largest element of the gradient or to 1. Negative with a message when something
 * failed. */
double ortrain_gradient_check (const OrtrainGradientCase *test, char **message);

/* The same with operand `index`, which is a constant in the case, computed from a trained value, on which the loss also
 * depends by another path: a rule that drops its gradient without an error gives a wrong one. `*message`: the
 * refusal. */
double ortrain_gradient_check_computed (const OrtrainGradientCase *test, guint index, char **message);

/* Floating operands of all further cases are of this type. In another than float64, ortrain_gradient_check runs the
 * gradient and takes no differences. */
void ortrain_gradient_check_set_dtype (OrtrainDType dtype);

/* The results of running nodes of our own operators as their bodies. */
typedef struct
{
  guint n_nodes; /* compared */
  guint n_none;  /* that have no body for their attributes */
  double worst;  /* difference, relative to the largest element of an output or to 1 */
} OrtrainBodyCheck;

/* From now on (NULL: no longer), each node of an operator of our own that is run is run as its body, too. operators:
 * name → OrtrainBodyCheck. */
void ortrain_gradient_check_compare_bodies (GHashTable *operators);

/* Sees each node that is run. in, out: by operand, NULL where absent. */
typedef void (*OrtrainGradientObserver) (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out,
                                         gpointer data);
void ortrain_gradient_check_set_observer (OrtrainGradientObserver func, gpointer data);

/* Only computes the operator's outputs. FALSE with a message when that was refused. */
gboolean ortrain_gradient_check_forward (const OrtrainGradientCase *test, char **message);
