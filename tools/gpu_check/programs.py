# SPDX-License-Identifier: LGPL-2.1-or-later
"""What there is to run, as names of blocks and commands."""
import shutil
import subprocess

from . import place

SESSIONS = ["training-session", "device-options", "inference", "mixed-precision", "optimizer", "checkpoint", "feeds", "not-finite",
            "two-threads", "dropout"]
# Programs that ask the emulated device to fail or to count, and one that looks at a page of the documentation.
OF_THE_EMULATION = ("errors", "dnn", "kernels")
# Programs that take the memory of the device, and so run alone.
ALONE = ("memory",)
FIXTURE_SHARDS = ONNX_SHARDS = 4


def programs(build):
    """Names of blocks and their programs: kernels, then fixtures, then sessions."""
    folder = build / "tests" / "simt"
    names = sorted(file.stem[len("test-cuda-"):] for file in (place.ROOT / "tests" / "simt").glob("test-cuda-*.c"))
    kernels = [name for name in names if name not in OF_THE_EMULATION and name != "fixtures"]
    blocks = [("kernels/" + name, folder / ("test-cuda-" + name)) for name in kernels if (folder / ("test-cuda-" + name)).exists()]
    blocks.append(("fixtures", folder / "test-cuda-fixtures"))
    return blocks + [("sessions/" + name, build / "tests" / ("test-" + name)) for name in SESSIONS]


def probe(build, dry):
    return build / "tests/probe" / ("probe-emulated" if dry else "probe")


def module(build, dry):
    return build / ("tests/simt/cuda-emulated.so" if dry else "kernels/cuda/libortrain-cuda.so")


def onnx_folders():
    folders = [folder for name in place.ONNX_FOLDERS for folder in sorted((place.ONNX_DATA / name).glob("test_*"))]
    if not folders:
        print(f"skipped ONNX's tests: there are none in {place.ONNX_DATA} (libonnx-testdata)")
    return folders


def onnx_tests(build, shards=1):
    """ONNX's tests on the device; no block where their data is not."""
    folders = onnx_folders()
    command = [build / "tools/ortrain", "verify", "--quiet", "--listed"]
    if shards == 1:
        return [("onnx", [*command, *folders])] if folders else []
    return [(f"onnx/{i}", [*command, *folders[i::shards]]) for i in range(shards) if folders[i::shards]]


def fixture_shards(build, values):
    """The tests of the fixtures, dealt out to several processes; one block where they cannot be listed."""
    program = build / "tests/simt/test-cuda-fixtures"
    try:
        paths = subprocess.run([program, "-l"], capture_output=True, text=True, env=values, timeout=30).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        paths = []
    if not paths:
        return [("fixtures", [program, "--tap"])]
    shards = [[word for path in paths[i::FIXTURE_SHARDS] for word in ("-p", path)] for i in range(FIXTURE_SHARDS)]
    return [(f"fixtures/{i}", [program, "--tap", *words]) for i, words in enumerate(shards) if words]


def sanitizer():
    return shutil.which("compute-sanitizer")


def sanitizer_blocks(build):
    tool = sanitizer()
    return [(f"{kind}/{name}", [tool, "--tool", kind, "--error-exitcode", "9", program, "--tap"])
            for kind in ("memcheck", "racecheck") for name, program in programs(build) if name.startswith("kernels/")] if tool else []
