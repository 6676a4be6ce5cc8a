# SPDX-License-Identifier: LGPL-2.1-or-later
"""What `meson install` puts where, and that the examples run from there as they stand: test_install.py BUILD SOURCE.

Nothing of the build tree is used: each tool is pointed at the copy in the way that it looks for installed things.
"""
import atexit
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
from tap import main

build, source = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
folder = pathlib.Path(tempfile.mkdtemp(prefix="ortrain-install-"))
atexit.register(shutil.rmtree, folder, ignore_errors=True)
root = folder / "root"          # where the file system begins
work = folder / "work"
model = source / "tests" / "data" / "fixtures" / "cnn" / "model.onnx"
data = build / "tests" / "bindings" / "cnn.npz"


def setUpModule():
    global prefix, option, environment
    options = {o["name"]: o["value"] for o in json.loads(subprocess.check_output(["meson", "introspect", str(build), "--buildoptions"]))}
    subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild", "--quiet", "--destdir", str(root)], check=True,
                   stdout=subprocess.DEVNULL)
    work.mkdir()
    prefix = pathlib.Path(options["prefix"])
    option = lambda name: prefix / options[name]
    libdir, datadir = placed(option("libdir")), placed(option("datadir"))
    pc = folder / "pkgconfig"
    pc.mkdir()
    for file in (libdir / "pkgconfig").glob("*.pc"):
        (pc / file.name).write_text(re.sub("^prefix=.*", f"prefix={placed(prefix)}", file.read_text(), flags=re.M))
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTHONPATH", "GJS_PATH", "GI_TYPELIB_PATH", "MESON_DEVENV") and not name.startswith("ORTRAIN_")} | {"ORTRAIN_CACHE": "off"}
    environment |= {
        "LD_LIBRARY_PATH": str(libdir), "GI_TYPELIB_PATH": str(libdir / "girepository-1.0"), "PKG_CONFIG_PATH": str(pc),
        "XDG_DATA_DIRS": f"{datadir}:/usr/local/share:/usr/share", "PYTHONPATH": str(overrides().parent.parent),
        "PATH": f"{placed(option('bindir'))}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1",
    }


def placed(path):
    """Where a path of the installed system is here."""
    return root / pathlib.Path(path).relative_to("/")


def overrides():
    found = [path.parent for path in root.glob("**/gi/overrides/Ortrain.py")]
    assert len(found) == 1, found
    return found[0]


def run(*words, cwd=None):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd or work, env=environment, timeout=240)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def needs(test, *programs):
    for program in programs:
        if shutil.which(program) is None:
            test.skipTest(f"there is no {program}")


class Places(unittest.TestCase):
    def test_files(self):
        for path in ("bindir/ortrain", "libdir/libortrain-1.0.so.0", "libdir/pkgconfig/ortrain-1.0.pc",
                     "libdir/girepository-1.0/Ortrain-1.0.typelib", "datadir/gir-1.0/Ortrain-1.0.gir",
                     "datadir/gjs-1.0/overrides/Ortrain.js", "mandir/man1/ortrain.1",
                     "datadir/bash-completion/completions/ortrain", "includedir/ortrain-1.0/ortrain.h"):
            kind, rest = path.split("/", 1)
            self.assertTrue(placed(option(kind) / rest).exists(), path)
        parts = source / "bindings" / "python" / "gi" / "overrides" / "_ortrain"
        self.assertEqual(sorted(path.name for path in (overrides() / "_ortrain").iterdir()),
                         sorted(path.name for path in parts.glob("*.py")))
        parts = source / "bindings" / "gjs" / "overrides" / "_ortrain"
        self.assertEqual(sorted(path.name for path in placed(option("datadir") / "gjs-1.0/overrides/_ortrain").iterdir()),
                         sorted(path.name for path in parts.iterdir()))
        self.assertEqual([str(path) for path in root.glob("**/*.h") if path.name.endswith("-private.h")], [])

    def test_python_looks_there(self):
        """For the prefixes that Debian's Python knows, the override lies where a bare interpreter searches."""
        if str(prefix) not in ("/usr", "/usr/local"):
            self.skipTest(f"no interpreter searches {prefix}")
        paths = subprocess.check_output(["/usr/bin/python3", "-I", "-c", "import sys; print('\\n'.join(sys.path))"], text=True).split("\n")
        found = "/" + str(overrides().parent.parent.relative_to(root))
        self.assertIn(found, paths)
        self.assertTrue(found.startswith(f"{prefix}/lib/"))

    def test_both_prefixes(self):
        """The place that the build file works out, for each prefix: Debian's Python does not search what meson answers."""
        text = (source / "bindings" / "meson.build").read_text()
        query = re.search(r"query = '''\n(.*?)'''", text, re.S)[1]
        paths = subprocess.check_output(["/usr/bin/python3", "-I", "-c", "import sys; print('\\n'.join(sys.path))"], text=True).split("\n")
        for where in ("/usr", "/usr/local"):
            answer = subprocess.check_output(["/usr/bin/python3", "-c", query, where], text=True, env=environment).strip()
            self.assertTrue(answer.startswith(where + "/lib") and answer.endswith("/gi/overrides"), answer)
            self.assertIn(answer.removesuffix("/gi/overrides"), paths)
        self.assertTrue(subprocess.check_output(["/usr/bin/python3", "-c", query, "/opt/x"], text=True).startswith("/opt/x/lib/python3"))

    def test_symbols(self):
        """The library exports what the .gir describes, and nothing else."""
        out = subprocess.check_output(["nm", "-D", "--defined-only", placed(option("libdir")) / "libortrain-1.0.so.0"], text=True)
        exported = {line.split()[-1] for line in out.splitlines()}
        tree = ElementTree.parse(placed(option("datadir")) / "gir-1.0" / "Ortrain-1.0.gir")
        identifier, get_type = "{http://www.gtk.org/introspection/c/1.0}identifier", "{http://www.gtk.org/introspection/glib/1.0}get-type"
        kinds = ("function", "method", "constructor")
        described = {e.get(identifier) for e in tree.iter() if e.tag.split("}")[1] in kinds and e.get(identifier)}
        described |= {e.get(get_type) for e in tree.iter() if e.get(get_type)}
        self.assertEqual(exported, described)
        self.assertGreater(len(exported), 500)

    def test_headers(self):
        """Each header compiles alone, as C and as C++."""
        include = placed(option("includedir")) / "ortrain-1.0"
        headers = sorted(include.glob("**/*.h"))
        self.assertGreater(len(headers), 40)
        flags = run("pkg-config", "--cflags", "ortrain-1.0").split()
        warnings = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-fsyntax-only"]
        alone = []
        for i, header in enumerate(headers):
            alone.append(work / f"header-{i}.c")
            alone[-1].write_text(f"#include <{header.relative_to(include)}>\n")
        run("cc", "-std=c11", *warnings, *flags, *alone)
        # asked for a version, and for one that there is not
        alone[0].write_text("#include <ortrain.h>\n#if !ORTRAIN_CHECK_VERSION (1, 0, 0) || ORTRAIN_CHECK_VERSION (99, 0, 0)\n#error\n#endif\n")
        asked = ["-DORTRAIN_VERSION_MIN_REQUIRED=ORTRAIN_VERSION_1_0", "-DORTRAIN_VERSION_MAX_ALLOWED=ORTRAIN_VERSION_1_0"]
        run("cc", "-std=c11", *warnings, *flags, *asked, alone[0])
        with self.assertRaises(AssertionError) as caught:
            run("cc", "-std=c11", *warnings, *flags, asked[0], "-DORTRAIN_VERSION_MAX_ALLOWED=0", alone[0])
        self.assertIn("ORTRAIN_VERSION_MAX_ALLOWED is at least", str(caught.exception))
        needs(self, "c++")
        alone[0].write_text("#include <ortrain.h>\n")
        run("c++", "-x", "c++", *warnings, *flags, alone[0])


class Examples(unittest.TestCase):
    def copy(self, *parts):
        return shutil.copy(source.joinpath("bindings", *parts), work)

    def test_c(self):
        file = self.copy("c", "examples", "first_steps.c")
        run("cc", file, "-o", "first_steps", *run("pkg-config", "--cflags", "--libs", "ortrain-1.0").split())
        self.assertRegex(run("./first_steps", model, data, "c.onnx"), r"\nloss \d")
        self.assertIn("trainable", run("ortrain", "check", "c.onnx"))

    def test_python(self):
        needs(self, "/usr/bin/python3")
        file = self.copy("python", "examples", "first_steps.py")
        out = run("/usr/bin/python3", file, model, "python.onnx")
        self.assertIn("phase: post_backward", out)
        where = run("/usr/bin/python3", "-c", "import gi, sys; gi.require_version('Ortrain', '1.0'); from gi.repository import Ortrain; "
                    "print(sys.modules['gi.overrides.Ortrain'].__file__)")
        self.assertEqual(pathlib.Path(where.strip()), overrides() / "Ortrain.py")

    def test_gjs(self):
        needs(self, "gjs")
        self.assertIn("planned peak", run("gjs", "-m", self.copy("gjs", "examples", "memory_report.js"), model, data))

    def test_vala(self):
        needs(self, "valac")
        file = self.copy("vala", "examples", "FineTune.vala")
        run("valac", "--pkg", "ortrain-1.0", "-X", "-w", "-o", "FineTune", file)
        self.assertIn("last loss", run("./FineTune", model, data))

    def test_command(self):
        self.assertIn("threads", run("ortrain", "devices"))

    def test_devenv(self):
        """`meson devenv` runs all of them from the build tree."""
        environment_here = {name: value for name, value in environment.items() if name in ("PATH", "HOME", "LANG")}

        def devenv(*words):
            done = subprocess.run(["meson", "devenv", "-C", str(build), *map(str, words)], capture_output=True, text=True,
                                  env=environment_here, timeout=240)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout

        examples = source / "bindings"
        self.assertIn("phase: ", devenv("/usr/bin/python3", examples / "python/examples/first_steps.py", model, work / "d.onnx"))
        if shutil.which("gjs"):
            self.assertIn("planned peak", devenv("gjs", "-m", examples / "gjs/examples/memory_report.js", model, data))
        if shutil.which("valac"):
            devenv("valac", "--pkg", "ortrain-1.0", "-X", "-w", "-d", work, "-o", "FromDevenv", examples / "vala/examples/FineTune.vala")
            self.assertIn("last loss", devenv(work / "FromDevenv", model, data))


if __name__ == "__main__":
    main()
