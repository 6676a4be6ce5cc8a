# SPDX-License-Identifier: LGPL-2.1-or-later
"""Times of kernel calls, `ortrain bench --profile`, on the emulated device: test_profile.py ORTRAIN FIXTURES."""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from tap import main

ortrain, fixtures = sys.argv[1:3]
del sys.argv[1:3]


def bench(*words):
    done = subprocess.run([ortrain, "bench", os.path.join(fixtures, "mlp", "model.onnx"), "--batch", "4", "--steps", "3", "--json", *words],
                          capture_output=True, text=True)
    return done, json.loads(done.stdout) if done.returncode == 0 else None


class Profile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "profile.tsv")

    def test_table(self):
        """A line for each step of the plan, in its order; the losses are those without a profile, and there are no graphs."""
        done, plain = bench("--provider", "cuda")
        self.assertEqual(done.returncode, 0, done.stderr)
        done, measured = bench("--provider", "cuda", "--profile", self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(measured["losses"], plain["losses"])
        self.assertGreater(plain["counters"]["cuda"]["captures"], 0)
        self.assertNotIn("captures", measured["counters"]["cuda"])
        rows = list(csv.DictReader(open(self.path), delimiter="\t"))
        self.assertGreater(len(rows), 3)
        self.assertEqual([int(row["step"]) for row in rows], sorted(int(row["step"]) for row in rows))
        self.assertEqual({row["phase"] for row in rows}, {"forward", "backward", "update"} & {row["phase"] for row in rows})
        self.assertIn("forward", {row["phase"] for row in rows})
        for row in rows:
            self.assertTrue(row["operator"])
            self.assertGreaterEqual(int(row["runs"]), 6)  # three to warm up
            self.assertGreaterEqual(int(row["joined"]), 1)
            self.assertLessEqual(float(row["ms_least"]), float(row["ms"]) + 1e-6)
            self.assertGreater(float(row["ms_estimated"]), 0)

    def test_nothing_measured(self):
        done, _ = bench("--provider", "cpu", "--profile", self.path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("only the provider 'cuda' measures", done.stderr)

    def test_no_folder(self):
        done, _ = bench("--provider", "cuda", "--profile", "/nowhere/profile.tsv")
        self.assertEqual(done.returncode, 1)


main()
