# SPDX-License-Identifier: LGPL-2.1-or-later
"""The option `cuda` on a machine without nvcc, which is hidden from meson if there is one: test_configure.py MESON SOURCE."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import main

meson, source = [sys.argv.pop(1)], pathlib.Path(sys.argv.pop(1))


class WithoutNvcc(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ortrain-configure-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        for place in os.environ["PATH"].split(os.pathsep):
            for program in pathlib.Path(place).glob("*"):
                if program.name != "nvcc" and not (self.programs / program.name).is_symlink():
                    (self.programs / program.name).symlink_to(program)
        self.assertIsNone(shutil.which("nvcc", path=str(self.programs)))

    def configure(self, cuda):
        environment = dict(os.environ, PATH=str(self.programs))
        return subprocess.run([*meson, "setup", self.folder / cuda, source, f"-Dcuda={cuda}", "-Dtests=false", "-Dintrospection=false"],
                              env=environment, capture_output=True, text=True, timeout=500)

    def test_auto(self):
        done = self.configure("auto")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Message: nvcc is not there: the CUDA provider is left out\n", done.stdout)
        introspected = subprocess.run([*meson, "introspect", "--targets", self.folder / "auto"], capture_output=True, text=True, check=True)
        targets = json.loads(introspected.stdout)
        self.assertIn("ortrain", [target["name"] for target in targets])
        self.assertEqual([target["name"] for target in targets if target["name"].startswith("ortrain-cuda")], [])

    def test_enabled(self):
        done = self.configure("enabled")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, r"ERROR: Program 'nvcc' not found")


main()
