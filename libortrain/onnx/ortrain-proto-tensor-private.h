/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "onnx/ortrain-external-data-private.h"
#include "onnx/ortrain-onnx.pb-c.h"
#include "onnx/ortrain-wire-private.h"
#include "tensor/ortrain-tensor.h"

/* Tensors out of a scanned file: their elements are parts of the mapping wherever the bytes allow it. */
typedef struct
{
  GBytes *file;
  const OrtrainWireScan *scan;
  OrtrainModelLimits *limits;
  OrtrainExternalData *external;
  OrtrainTensor **cache; /* [scan->tensors->len] */
} OrtrainProtoTensors;

/* `owner` is for messages: the name of the initializer or the node. transfer none; the cache keeps it. */
OrtrainTensor *ortrain_proto_tensors_get (OrtrainProtoTensors *self, const Ortrain__Ox__TensorProto *proto,
                                          const char *owner, GError **error);
/* The dense tensor that a sparse one stands for; transfer full. */
OrtrainTensor *ortrain_proto_tensors_densify (OrtrainProtoTensors *self, const Ortrain__Ox__SparseTensorProto *proto,
                                              const char *owner, GError **error);
/* The mapped file (transfer none) and the offset where the n_bytes of an external tensor stand. */
GBytes *ortrain_proto_tensors_locate (OrtrainProtoTensors *self, const Ortrain__Ox__TensorProto *proto, gsize n_bytes,
                                      const char *owner, gsize *offset, GError **error);
gboolean ortrain_proto_tensors_check_dims (OrtrainModelLimits *limits, const int64_t *dims, gsize n_dims,
                                           OrtrainDType dtype, const char *owner, gint64 *n_elements, gsize *n_bytes,
                                           GError **error);
