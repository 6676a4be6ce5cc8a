# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests of the `ortrain` command share: TEST.py ORTRAIN. Each has a folder, and in it a small model and data."""
import atexit
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
from tap import main    # for the tests, too

program = os.path.abspath(sys.argv.pop(1))
source = here.parent.parent / "tools" / "ortrain"
folder = tempfile.mkdtemp(prefix="ortrain-command-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
environment = {name: value for name, value in os.environ.items() if not name.startswith("ORTRAIN_")} | {"ORTRAIN_CACHE": "off"}
environment |= {"PATH": os.path.dirname(program) + ":" + os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm"}
environment.pop("G_MESSAGES_DEBUG", None)


def path(name):
    return os.path.join(folder, name)


def ortrain(*words, status=0, variables={}):
    """Runs it, and gives what it printed on both outputs."""
    done = subprocess.run(["ortrain", *words], capture_output=True, text=True, cwd=folder, timeout=240,
                          env=environment | variables)
    assert done.returncode == status, f"{words}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def make_images(name, n, times=1):
    """An IDX pair: 8 × 8 pictures with a bright quarter, which is the label; all of them as often as is said."""
    labels = bytes((i * 7 + i // 5) % 4 for i in range(n))
    pixels = bytearray()
    for i, label in enumerate(labels):
        for y in range(8):
            for x in range(8):
                pixels.append(200 if (y // 4) * 2 + x // 4 == label else (i * 31 + y * 8 + x) % 90)
    with open(path(name + ".images"), "wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, n * times, 8, 8) + pixels * times)
    with open(path(name + ".labels"), "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, n * times) + labels * times)
    return f"{name}.images,{name}.labels"


def npy(kind, shape, values):
    """A NumPy file: kind is one of struct's letters."""
    names = {"f": "<f4", "d": "<f8", "q": "<i8"}
    header = f"{{'descr': '{names[kind]}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}{kind}", *values)


def npz(name, **arrays):
    with zipfile.ZipFile(path(name), "w") as file:
        for key, array in arrays.items():
            file.writestr(key + ".npy", npy(*array))
    return name


def setUpModule():
    ortrain("new", "cnn", "cnn.onnx", "--classes", "4", "--size", "8", "--seed", "3")
    make_images("train", 512)
    make_images("test", 100)


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, payload):
    """A field of a protobuf message, in bytes."""
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def node(kind, inputs, output, domain=b""):
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, kind.lower()) + field(4, kind) + field(7, domain))


FLOAT, INT64 = 1, 7


def value(name, *dims, dtype=FLOAT):
    """A ValueInfoProto of these dimensions, numbers or names."""
    shape = b"".join(field(1, field(2, dim) if isinstance(dim, bytes) else b"\x08" + varint(dim)) for dim in dims)
    return field(1, name) + field(2, field(1, bytes([8, dtype]) + field(2, shape)))


def tensor(name, *dims, ints=None):
    """A TensorProto: int64 if there are ints, else small floats that vary."""
    n = 1
    for dim in dims:
        n *= dim
    raw = struct.pack(f"<{n}q", *ints) if ints is not None else struct.pack(f"<{n}f", *((i * i % 97 - 48) / 400 for i in range(n)))
    return b"".join(b"\x08" + varint(dim) for dim in dims) + bytes([16, INT64 if ints is not None else FLOAT]) + field(8, name) + field(9, raw)


def save(name, nodes, initializers, inputs, outputs):
    """Writes a ModelProto with operators of set 17, and of a domain that nobody knows."""
    graph = (b"".join(nodes) + field(2, b"g") + b"".join(field(5, each) for each in initializers) + b"".join(field(11, each) for each in inputs)
             + b"".join(field(12, each) for each in outputs))
    with open(path(name), "wb") as file:
        file.write(b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x11") + field(8, field(1, b"com.example") + b"\x10\x01"))
    return name


TRAIN = ["train", "cnn.onnx", "--data", "train.images,train.labels", "--output", "logits", "--batch-size", "32",
         "--seed", "5", "--threads", "1"]


def strict(text):
    """JSON, not what Python also takes for it."""
    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


class Failures(unittest.TestCase):
    def fails(self, status, *words):
        out, err = ortrain(*words, status=status)
        lines = err.splitlines()
        self.assertTrue(lines[0].startswith("ortrain: ") and len(lines[0]) > 20, err)
        self.assertLessEqual(len(lines), 2 if status == 2 else 1, err)
        if len(lines) == 2:
            self.assertTrue(lines[1].startswith(f"Usage: ortrain {words[0]} "), err)
        self.assertEqual(out, "")
        return lines[0]
