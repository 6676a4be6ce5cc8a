# SPDX-License-Identifier: LGPL-2.1-or-later
"""What programs are run with."""
import json
import os
import subprocess

from . import place


def find_packages(python):
    """The folders of an interpreter that hold NVIDIA's libraries as packages."""
    text = "import json, os, sys; print(json.dumps([path for path in sys.path if os.path.isdir(os.path.join(path, 'nvidia'))]))"
    try:
        done = subprocess.run([python, "-c", text], capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []


def settings(build, dry, provider, python):
    kept = ("ORTRAIN_CUDA_LIBRARY_PATH", *(name for name in os.environ if dry and name.startswith("ORTRAIN_FAKE_")))
    values = {name: value for name, value in os.environ.items() if not name.startswith("ORTRAIN_") or name in kept}
    values |= {"ORTRAIN_CACHE": "off", "ORTRAIN_PROVIDER": provider, "G_TEST_SRCDIR": str(place.ROOT / "tests"),
               "G_TEST_BUILDDIR": str(build / "tests")}
    values["ORTRAIN_PROVIDER_PATH"] = str(build / ("tests/simt" if dry else "kernels/cuda"))
    if dry:
        values["ORTRAIN_CUDA_LIBRARY_PATH"] = str(build / "tests/simt/libraries")
    elif "ORTRAIN_CUDA_LIBRARY_PATH" not in values and (packages := find_packages(python)):
        values["ORTRAIN_CUDA_LIBRARY_PATH"] = ":".join(packages)
    return values


def settings_of(name, values, dry):
    """What a block is run with: on a GPU, the fixtures are compared over whole curves of losses, and all of them in bfloat16, too."""
    return values | ({"ORTRAIN_TESTS": "all"} if name.split("/")[0] == "fixtures" and not dry else {})
