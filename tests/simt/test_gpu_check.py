# SPDX-License-Identifier: LGPL-2.1-or-later
"""tools/gpu-check on the emulated device, in short, and on a machine without a GPU: test_gpu_check.py GPU-CHECK BUILD."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import main

program, build = sys.argv[1:3]
del sys.argv[1:3]


class GpuCheck(unittest.TestCase):
    def run_it(self, *words):
        done = subprocess.run(["/usr/bin/python3", program, "--build", build, "--results", self.results, *words],
                              capture_output=True, text=True, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
        lines = [json.loads(line) for line in open(self.results)]
        return done, lines

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ortrain-gpu-check-")
        self.addCleanup(folder.cleanup)
        self.results = os.path.join(folder.name, "results.jsonl")

    def test_dry_run_resumes(self):
        done, lines = self.run_it("--dry-run", "--only", "kernels/internal")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([(line["block"], line["passed"], line["emulated"]) for line in lines],
                         [("devices", True, True), ("kernels/internal", True, True)])
        self.assertEqual(lines[0]["device"]["description"], "emulated on the host, compute capability 9.0")
        self.assertGreater(lines[1]["tests"], 0)
        done, again = self.run_it("--dry-run", "--only", "kernels/internal")
        self.assertEqual((done.returncode, again), (0, lines))

    def test_failure_is_told(self):
        """A block that takes too long fails, and is run again."""
        done, lines = self.run_it("--dry-run", "--only", "kernels/internal", "--seconds", "0")
        self.assertEqual(done.returncode, 1)
        self.assertFalse(lines[-1]["passed"])

    def test_without_gpu(self):
        done, lines = self.run_it("--only", "none")
        self.assertEqual((done.returncode, [line["passed"] for line in lines]), (1, [False]))
        self.assertIn("The provider 'cuda' cannot be used: ", done.stderr)
        self.assertFalse(lines[0]["emulated"])


main()
