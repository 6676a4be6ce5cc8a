/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cpu/ortrain-cpu-conv-private.h"

/* Convolutions by oneDNN's primitives, which keep tensors in blocked layouts of their own. A convolution is cut into
 * slabs (some images, some rows, some channels) whose reordered operands stay in a core's cache: a worker of our pool
 * reorders a slab's operands into its part of the workspace, runs the primitive on one thread, and reorders the result
 * into its place. oneDNN starts no threads, and its primitives are created when the kernel is prepared. */
typedef struct _OrtrainConvLibrary OrtrainConvLibrary;

/* NULL: oneDNN is absent, has no specialised code for this convolution, or would take more than `own_cycles`; or, with
 * *no_memory, there is no memory for the prepared data. */
OrtrainConvLibrary *ortrain_cpu_conv_library_new (const OrtrainConvProblem *problem, double own_cycles,
                                                  gboolean *no_memory);
void ortrain_cpu_conv_library_free (OrtrainConvLibrary *self);
gsize ortrain_cpu_conv_library_get_workspace_bytes (const OrtrainConvLibrary *self);

/* Operands in ONNX's layouts, of the problem's types; the result is the one that the problem's product computes. bias,
 * [channels of the result], may be NULL, and is so unless all is float32; only a weights' gradient can be accumulated.
 * One run at a time: like the workspace, the objects that carry addresses to oneDNN belong to the run in progress. */
void ortrain_cpu_conv_library_run (const OrtrainConvLibrary *self, const OrtrainKernelCall *call, void *large,
                                   void *weights, void *small, const float *bias, gboolean accumulate, void *workspace);
