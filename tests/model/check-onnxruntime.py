#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hold exported models against stock ONNX Runtime; needs the packages onnx, onnxruntime and numpy.

    check-onnxruntime.py EXPORT_SHIFTED MODEL.onnx...     (EXPORT_SHIFTED: the program of that name in the build folder's tests)

Each model is exported with 1/64 added to its weights of two or more dimensions, once by the library and once by ONNX's own package. Both must give
the same outputs; names, nodes, operator sets and everything else but the weights must be as they were.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def feeds(session, seed=0):
    rng, sizes, out = np.random.default_rng(seed), {"batch": 2, "seq": 9}, {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else sizes.setdefault(d, 2) for d in i.shape]
        out[i.name] = rng.integers(0, 2, shape) if "int64" in i.type else rng.standard_normal(shape, dtype=np.float32)
    return out


def skeleton(model):
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for t in model.graph.initializer:
        for field in ("raw_data", "float_data", "external_data", "data_location"):
            t.ClearField(field)
    return model


failed = 0
for path in sys.argv[2:]:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours.onnx", Path(folder) / "theirs.onnx"
        subprocess.run([sys.argv[1], path, ours], check=True)
        model = onnx.load(path)
        for t in model.graph.initializer:
            if t.data_type == onnx.TensorProto.FLOAT and len(t.dims) >= 2:
                t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t) + np.float32(1 / 64), t.name))
        onnx.save(model, theirs)
        onnx.checker.check_model(str(ours))
        same = skeleton(onnx.load(path)) == skeleton(onnx.load(str(ours)))
        sessions = [onnxruntime.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (ours, theirs)]
        results = [s.run(None, feeds(s)) for s in sessions]
        distance = max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-12)) for a, b in zip(*results))
        ok = same and distance <= 1e-6
        failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {path}: outputs {distance:.1e} apart, {'all else as it was' if same else 'other things changed'}")
sys.exit(failed > 0)
