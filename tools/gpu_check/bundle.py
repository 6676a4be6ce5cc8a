# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a machine with a GPU needs, if it has nothing, as one archive."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from . import place, programs

# The source and the bundle travel together, in at most 64 MiB.
LIMIT_MIB = 47
# What the host libraries of any Linux have; CUDA's are the machine's own.
OF_THE_HOST = re.compile(r"^(ld-linux|libc\.|libm\.|libdl\.|librt\.|libpthread\.|libgcc_s|libstdc\+\+|libcu|libnv|linux-vdso)")

# In a bundle: with-bindings python3 PROGRAM…, for a PyGObject of the host.
WITH_BINDINGS = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH="$here/bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PYTHONPATH="$here/python${PYTHONPATH:+:$PYTHONPATH}"
export GI_TYPELIB_PATH="$here/bundle/lib/girepository-1.0" ORTRAIN_PROVIDER_PATH="${ORTRAIN_PROVIDER_PATH:-$here/bundle/kernels/cuda}"
exec "$@"
"""


def check_size(n_bytes, name="the bundle"):
    """Ends the program where the limit is passed."""
    size = n_bytes / 2**20
    if size > LIMIT_MIB:
        sys.exit(f"{name}: {size:.1f} MiB, more than the {LIMIT_MIB} MiB that travel with the source")
    return size


def list_files(build, dry):
    """Of a build, all that is packed, the libraries that it links not included. dry: the emulated module, and its libraries."""
    libraries = [file for file in (build / "tests/simt/libraries").glob("lib*.so*") if file.is_file() and re.search(r"\.so[.0-9]*$", file.name)]
    files = [program for _, program in programs.programs(build)] + [build / "tools/ortrain", programs.probe(build, dry), programs.module(build, dry)]
    return files + libraries if dry else files


def list_targets(build, dry):
    """The same for ninja, also where nothing has been built."""
    names = sorted(file.stem for file in (place.ROOT / "tests/simt").glob("test-cuda-*.c"))
    kernels = [build / "tests/simt" / name for name in names if name[len("test-cuda-"):] not in programs.OF_THE_EMULATION]
    files = {file for file in list_files(build, dry) if not file.is_symlink()} | set(kernels)
    return sorted(str(file.relative_to(build)) for file in files)


def check_build(build, dry):
    options = {each["name"]: each["value"] for each in json.loads((build / "meson-info/intro-buildoptions.json").read_text())}
    if not dry and not options["gpu-optimize"]:
        sys.exit(f"The kernels in {build} are not optimized: meson configure {build} -Dgpu-optimize=true")
    if not dry and options["gpu-lineinfo"]:
        sys.exit(f"The kernels in {build} have lines of the source, which make the module too large: meson configure {build} -Dgpu-lineinfo=false")
    if not dry:
        subprocess.run(["ninja", "-C", build, *list_targets(build, dry)], check=True)


def fill(build, top, dry):
    """Programs find their libraries from where they lie (DT_RPATH with $ORIGIN), so that nothing has to be set to run one."""
    files = list_files(build, dry)
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        sys.exit("Build these first: " + " ".join(missing))
    (top / "bundle/lib").mkdir(parents=True)

    def add(file, where):
        where.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["strip", "--strip-unneeded", "-o", where, os.path.realpath(file)], check=True)

    for file in files:
        add(file, top / "bundle" / file.relative_to(build))
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", subprocess.run(["ldd", file], capture_output=True, text=True).stdout, re.M):
            if not OF_THE_HOST.match(name) and not (top / "bundle/lib" / name).exists():
                add(path, top / "bundle/lib" / name)
    typelib = build / "introspection/Ortrain-1.0.typelib"
    if typelib.exists():
        (top / "bundle/lib/girepository-1.0").mkdir(parents=True)
        shutil.copy(typelib, top / "bundle/lib/girepository-1.0")
        shutil.copytree(place.ROOT / "bindings/python/gi", top / "python/gi", ignore=shutil.ignore_patterns("__pycache__"))
        (top / "with-bindings").write_text(WITH_BINDINGS)
        (top / "with-bindings").chmod(0o755)
    shutil.copytree(place.ROOT / "tests/data", top / "tests/data")
    shutil.copytree(place.ROOT / "tests/bench", top / "tests/bench", ignore=shutil.ignore_patterns("*.c", "*.txt", "__pycache__"))
    for name in place.ONNX_FOLDERS:
        if (place.ONNX_DATA / name).is_dir():
            shutil.copytree(place.ONNX_DATA / name, top / "onnx-tests" / name)
    (top / "tests/simt").mkdir()
    for file in (place.ROOT / "tests/simt").glob("test-cuda-*.c"):
        shutil.copy(file, top / "tests/simt")
    shutil.copy(place.HERE / "gpu-check", top)
    shutil.copytree(place.HERE / "gpu_check", top / "gpu_check", ignore=shutil.ignore_patterns("__pycache__"))


def pack(build, target, dry):
    """Programs, the module (dry: the emulated one), what they link beyond the host's libraries, and the data of tests."""
    check_build(build, dry)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        top = pathlib.Path(folder) / "ortrain-gpu-check"
        fill(build, top, dry)
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        # The programs contain the same objects, some megabytes apart in the archive: the window has to be larger than that.
        subprocess.run(["tar", "-C", folder, "--sort=name", "-caf", os.path.abspath(target), top.name], check=True,
                       env=os.environ | {"XZ_OPT": "--lzma2=preset=6,dict=64MiB"})
    size = os.path.getsize(target)
    # An archive that is not compressed goes nowhere.
    print(f"{target}: {size / 2**20 if str(target).endswith('.tar') else check_size(size, target):.1f} MiB")
