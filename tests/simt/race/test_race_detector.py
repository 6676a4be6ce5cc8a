# SPDX-License-Identifier: LGPL-2.1-or-later
"""The race detector finds the races that are there, and no others: test_race_detector.py RACE-KERNELS."""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
from tap import main

program = sys.argv.pop(1)


class RaceDetector(unittest.TestCase):
    def test_kernels(self):
        names = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(len(names), 14)
        for name in names:
            for order in range(3):
                with self.subTest(name, order=order):
                    done = subprocess.run([program, name, str(order)], capture_output=True, text=True,
                                          env={key: value for key, value in os.environ.items() if key != "TSAN_OPTIONS"})
                    races = name.endswith("-race")
                    self.assertEqual((done.returncode, "WARNING: ThreadSanitizer: data race" in done.stderr), (66 if races else 0, races), done.stderr[:2000])


main()
