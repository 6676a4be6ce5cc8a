# SPDX-License-Identifier: LGPL-2.1-or-later
"""The examples with `--provider cuda`: they train on the emulated device, and say in one line why they cannot on a machine
without a GPU: test_examples_cuda.py BINDINGS MODEL DATA FINE-TUNE EMULATED LIBRARIES MODULE ("-": there is none)."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import main

bindings, model, data, fine_tune, emulated, libraries, module = sys.argv[1:8]
del sys.argv[1:8]
model, data = os.path.abspath(model), os.path.abspath(data)
fine_tune = fine_tune if fine_tune == "-" else os.path.abspath(fine_tune)
environment = {name: value for name, value in os.environ.items() if not name.startswith("ORTRAIN_")} | {"ORTRAIN_CACHE": "off"}


def run(command, path, provider="cuda"):
    with tempfile.TemporaryDirectory(prefix="ortrain-example-") as folder:
        return subprocess.run([*command[0], "--provider", provider, *command[1]], capture_output=True, text=True, cwd=folder,
                              timeout=120, env=environment | {"ORTRAIN_PROVIDER_PATH": os.path.dirname(os.path.abspath(path)),
                                                              "ORTRAIN_CUDA_LIBRARY_PATH": libraries})


class Example:
    def test_emulated(self):
        done = run(self.command, emulated)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(self.prints, done.stdout)

    @unittest.skipIf(module == "-", "the module is not built: there is no nvcc")
    def test_no_gpu(self):
        global environment
        before, environment = environment, environment | {"CUDA_VISIBLE_DEVICES": ""}
        done = run(self.command, module)
        environment = before
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(done.stderr, [f"The provider 'cuda' cannot be used: {reason}\n"
                                    for reason in ("There is no NVIDIA driver (libcuda.so.1)", "There is no NVIDIA GPU")])

    def test_unknown(self):
        done = run(self.command, emulated, "abacus")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, "There is no provider 'abacus'; there is 'cpu', 'cuda'\n")


class Python(Example, unittest.TestCase):
    command = ["/usr/bin/python3", bindings + "/python/examples/first_steps.py"], [model, "trained.onnx"]
    prints = "accuracy "


@unittest.skipIf(shutil.which("gjs") is None, "there is no gjs")
class Gjs(Example, unittest.TestCase):
    command = ["gjs", "-m", bindings + "/gjs/examples/memory_report.js"], [model, data]
    prints = "planned peak "


@unittest.skipIf(fine_tune == "-", "there is no valac")
class Vala(Example, unittest.TestCase):
    command = [fine_tune], [model, data]
    prints = "3 epochs, last loss "


main()
