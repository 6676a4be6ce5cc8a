/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The values that the emulated cuDNN has, against those of the library's header. There is nothing to run. */

#include <cuda_runtime_api.h>

#include <cudnn_graph.h>

#include "simt/include/cudnn-values.h"

#define CHECK(name, value) _Static_assert(name == value, #name);
ORTRAIN_FAKE_CUDNN_DATA_TYPES (CHECK)
ORTRAIN_FAKE_CUDNN_REDUCTIONS (CHECK)
ORTRAIN_FAKE_CUDNN_CONVOLUTION_MODES (CHECK)
ORTRAIN_FAKE_CUDNN_HEUR_MODES (CHECK)
ORTRAIN_FAKE_CUDNN_POINTWISE_MODES (CHECK)
ORTRAIN_FAKE_CUDNN_NUMERICAL_NOTES (CHECK)
ORTRAIN_FAKE_CUDNN_DESCRIPTOR_TYPES (CHECK)
ORTRAIN_FAKE_CUDNN_ATTRIBUTE_TYPES (CHECK)
ORTRAIN_FAKE_CUDNN_ATTRIBUTE_NAMES (CHECK)
ORTRAIN_FAKE_CUDNN_STATUSES (CHECK)
