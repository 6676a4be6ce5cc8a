# SPDX-License-Identifier: LGPL-2.1-or-later
"""ONNX's reference evaluator in float64, with a convolution that ends within the day."""
import copy

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class Conv(OpRun):
    op_domain = ""

    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, pads=None, strides=None):
        n = w.ndim - 2
        dilations, strides, group, pads = dilations or [1] * n, strides or [1] * n, group or 1, list(pads or [0] * 2 * n)
        windows = [(w.shape[2 + i] - 1) * dilations[i] + 1 for i in range(n)]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            for i in range(n):
                total = max((-(-x.shape[2 + i] // strides[i]) - 1) * strides[i] + windows[i] - x.shape[2 + i], 0)
                pads[i] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
                pads[n + i] = total - pads[i]
        x = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[n + i]) for i in range(n)])
        view = np.lib.stride_tricks.sliding_window_view(x, windows, axis=tuple(range(2, 2 + n)))
        view = view[(slice(None), slice(None)) + tuple(slice(None, None, s) for s in strides + dilations)]
        outputs = []
        for part, weights in zip(np.split(view, group, 1), np.split(w, group, 0)):
            axes = [1] + list(range(2 + n, 2 + 2 * n)), [1] + list(range(2, 2 + n))
            outputs.append(np.moveaxis(np.tensordot(part, weights, axes=axes), -1, 1))
        y = np.concatenate(outputs, 1)
        return (y if b is None else y + b.reshape([1, -1] + [1] * n),)


def _widen(tensor):
    if tensor.data_type == onnx.TensorProto.FLOAT:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def widen(model):
    """The file with every float32 as float64."""
    model = copy.deepcopy(model)
    for tensor in model.graph.initializer:
        _widen(tensor)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "value":
                _widen(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    del model.graph.value_info[:]
    return model


def run(model, names, feeds):
    """model: from widen; feeds: arrays of float32 are taken as float64."""
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in feeds.items()}
    return ReferenceEvaluator(model, new_ops=[Conv]).run(names, wide)
