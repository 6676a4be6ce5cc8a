# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the Python tests share: unittest that prints TAP, and small models."""
import atexit
import pathlib
import shutil
import struct
import sys
import tempfile
import zlib

import gi

gi.require_version("Ortrain", "1.0")
import numpy as np
from gi.repository import Ortrain

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import main  # noqa: F401: the tests take it from here

folder = tempfile.mkdtemp(prefix="ortrain-python-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)


def save_png(path, width, height, pixels):
    """pixels: red, green, blue of each, row by row"""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pathlib.Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def linear_model(n_in=4, n_out=3, seed=1):
    """x [batch, n_in] → logits [batch, n_out]; the parameters are fc.weight [n_out, n_in] and fc.bias [n_out]."""
    builder = Ortrain.GraphBuilder.new("linear")
    builder.set_seed(seed)
    x = builder.add_input("x", Ortrain.DType.FLOAT32, f"batch, {n_in}")
    builder.add_output(builder.linear(x, "fc", n_out, True), "logits")
    return builder.build()


def parameters_of(graph):
    return {value.get_name(): value.get_tensor().numpy().astype(np.float64) for value in graph.get_initializers()}


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def batch(n=8, n_in=4, n_out=3, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((n, n_in)).astype(np.float32), "labels": rng.integers(0, n_out, n)}


def dataset(n=64):
    """Items that a linear model can learn."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 4)).astype(np.float32)
    return Ortrain.TensorDataset({"x": x, "labels": (x @ rng.standard_normal((4, 3))).argmax(axis=1)})


def training_session(model=None, optimizer=None, **options):
    options = Ortrain.TrainingOptions(optimizer=optimizer or Ortrain.Sgd(learning_rate=0.1), **options)
    options.add_loss(Ortrain.CrossEntropyLoss.new("logits", "labels"))
    return Ortrain.TrainingSession(model or linear_model(), options)
