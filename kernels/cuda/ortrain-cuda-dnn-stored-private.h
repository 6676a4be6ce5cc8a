/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-dnn-maker-private.h"

/* Execution plans that cuDNN has compiled, in the disk cache: as JSON of its own, which holds the kernels and is good
 * for one version of the library, one kind of device and one driver. */

/* plan_key: of the graph and all that decides, versions included. Transfer full. */
char *ortrain_dnn_stored_make_key (const char *plan_key, const OrtrainDnnEngine *engine,
                                   const OrtrainCudaContext *context);
/* NULL: there is no stored plan that this library and device take, and nothing has happened. The result belongs to the
 * maker. */
cudnnBackendDescriptor_t ortrain_dnn_stored_restore (Maker *maker, const char *key, OrtrainCudaContext *context,
                                                     gsize most_workspace);
/* Replaces an older entry of the key. A plan that cannot be written as JSON is not kept. */
void ortrain_dnn_stored_keep (const OrtrainCudnn *api, const char *key, cudnnBackendDescriptor_t execution);
