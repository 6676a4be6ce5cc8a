# SPDX-License-Identifier: LGPL-2.1-or-later
"""The module as nvcc made it, on a machine that need not have a GPU: test_cuda_module.py MODULE ORTRAIN FIXTURES."""
import atexit
import ctypes
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import main

module, ortrain, fixtures = (os.path.abspath(word) for word in sys.argv[1:4])
del sys.argv[1:4]
environment = {name: value for name, value in os.environ.items() if not name.startswith("ORTRAIN_")} | {"ORTRAIN_CACHE": "off"}
# Where there is a GPU, it is hidden.
environment |= {"ORTRAIN_PROVIDER_PATH": os.path.dirname(module), "CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8"}
REASONS = ("There is no NVIDIA driver (libcuda.so.1)", "There is no NVIDIA GPU")


SOURCES = pathlib.Path(__file__).resolve().parents[2] / "kernels/cuda"
folder = tempfile.mkdtemp(prefix="ortrain-module-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)


def npy(kind, shape):
    """A NumPy file of zeros."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(math.prod(shape) * int(kind[-1]))


def setUpModule():
    image = npy("<f4", (8, 1, 28, 28))
    pathlib.Path(folder, "image.npy").write_bytes(image)
    with zipfile.ZipFile(os.path.join(folder, "data.npz"), "w") as file:
        file.writestr("image.npy", image)
        file.writestr("labels.npy", npy("<i8", (8,)))


def say(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def run(*words):
    return subprocess.run([ortrain, *words], capture_output=True, text=True, env=environment, timeout=120)


class Module(unittest.TestCase):
    def test_headers_make_it_anew(self):
        """What nvcc read is known to the build: each kernel's object is made again where a header of it has changed."""
        build = pathlib.Path(module).parents[2]
        sources = sorted(SOURCES.glob("*.cu"))
        self.assertTrue(sources)
        text = say("ninja", "-C", str(build), "-t", "deps", *(f"kernels/cuda/{source.stem}.o" for source in sources))
        for block in text.split("\n\n"):
            if ": #deps" not in block:
                continue
            name, *names = block.splitlines()
            self.assertIn("(VALID)", name)
            read = {(build / word.strip()).resolve() for word in names}
            included = re.findall(r'^#include "([^"]+)"', SOURCES.joinpath(pathlib.Path(name.split(":")[0]).stem + ".cu").read_text(), re.M)
            self.assertTrue(included)
            for header in included:
                self.assertTrue(any(path.as_posix().endswith("/" + header) for path in read), f"{name}: {header}")
        self.assertEqual(text.count(": #deps"), len(sources))

    def test_exact_families_are_not_contracted(self):
        """Chains compute the bits of their operators, and conversions those of the CPU, as the host's compiler is told, too."""
        build = pathlib.Path(module).parents[2]
        for family in ("batch-norm", "generator", "group-norm", "pointwise", "quantize", "random", "attention-direct"):
            command = say("ninja", "-C", str(build), "-t", "commands", f"kernels/cuda/ortrain-cuda-{family}.o").splitlines()[-1]
            self.assertEqual("-fmad=false" in command, family != "attention-direct", family)

    def test_exports_one_symbol(self):
        names = [line.split()[-1] for line in say("nm", "-D", "--defined-only", module).splitlines()]
        self.assertEqual([name.split("@")[0] for name in names], ["ortrain_provider_module"])

    def test_needs_nothing_of_nvidia(self):
        needed = [line.split("[")[1].rstrip("]") for line in say("readelf", "-d", module).splitlines() if "(NEEDED)" in line]
        self.assertIn("libc.so.6", needed)
        for name in needed:
            for part in ("libcu", "libnccl", "libnv", "libortrain", "libstdc++"):
                self.assertFalse(name.startswith(part), name)

    def test_loads(self):
        """With every symbol bound."""
        loaded = ctypes.CDLL(module, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self.assertTrue(loaded.ortrain_provider_module)

    def test_devices_tell_why(self):
        done = run("devices")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [line for line in done.stdout.splitlines() if line.startswith("cuda ")]
        self.assertIn(lines, [[f"cuda   cannot be used: {reason}"] for reason in REASONS])

    def test_devices_as_json(self):
        cpu, *others = json.loads(run("devices", "--json").stdout)
        cuda = next(device for device in others if device["name"] == "cuda")
        self.assertIn(cuda["reason"], REASONS)
        self.assertEqual((cuda["total_bytes"], cuda["description"]), (0, None))
        self.assertIsNone(cpu["reason"])

    def test_auto_is_the_cpu(self):
        model = os.path.join(fixtures, "cnn", "model.onnx")
        done = run("bench", model, "--batch", "2", "--steps", "1", "--provider", "auto")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_sessions_tell_why(self):
        """The command, in one line."""
        model = os.path.join(fixtures, "cnn", "model.onnx")
        data = ["--data", os.path.join(folder, "data.npz"), "--output", "logits", "--target", "labels"]
        for words in (["train", model, *data], ["eval", model, *data], ["bench", model, "--steps", "1"],
                      ["run", model, "--input", "image=" + os.path.join(folder, "image.npy")]):
            with self.subTest(words[0]):
                done = run(*words, "--provider", "cuda")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertTrue(any(f"The provider 'cuda' cannot be used: {reason}" in done.stderr for reason in REASONS),
                                done.stderr)


main()
