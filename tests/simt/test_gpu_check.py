# SPDX-License-Identifier: LGPL-2.1-or-later
"""tools/gpu-check on the emulated device, in short, and on a machine without a GPU: test_gpu_check.py GPU-CHECK BUILD."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

tests = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(tests), str(tests / "bench")]
from models_beside import search_largest
from tap import main

program, build = sys.argv[1:3]
del sys.argv[1:3]
sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(program).parent))
from gpu_check import bundle, environment, facts, programs, second

# Stands for an interpreter with PyTorch: the same model and feeds for everybody, and the CPU for PyTorch. Its first argument is
# pytorch_models.py, which is not run. A file "broken" beside it says what fails, and how.
STAND_IN = r'''#!/usr/bin/python3
import json, os, shutil, struct, subprocess, sys
here, do, words = os.path.dirname(os.path.abspath(__file__)), sys.argv[2], sys.argv[3:]
ortrain, fixture = {ortrain!r}, {fixture!r}
option = lambda name: words[words.index("--" + name) + 1]
broken = os.path.join(here, "broken")
with open(os.path.join(here, "calls"), "a") as file:
    file.write(" ".join([do, *words]) + "\n")
if os.path.exists(broken):
    what, text = open(broken).read().split(" ", 1)
    if what == ("compiled" if "--compile" in words else do):
        sys.exit(text)
def npy(path, kind, shape, data):
    header = f"{{{{'descr': '{{kind}}', 'fortran_order': False, 'shape': {{shape!r}}, }}}}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
if do == "versions":
    print(json.dumps({{"torch": "0.0.stand-in", "cuda": None}}))
elif do == "export":
    shutil.copy(fixture, os.path.join(words[1], "model.onnx"))
    print("{{}}")
elif do == "feeds":
    n, feeds = int(option("batch")), os.path.join(here, "feeds")
    for folder in (words[1], feeds):
        os.makedirs(folder, exist_ok=True)
        npy(os.path.join(folder, "x.npy"), "<f4", (n, 1, 8, 8), struct.pack(f"<{{64 * n}}f", *(i % 7 - 3 for i in range(64 * n))))
        npy(os.path.join(folder, "bench.target.npy"), "<i8", (n,), struct.pack(f"<{{n}}q", *(i % 10 for i in range(n))))
    print(json.dumps({{"items": n}}))
elif do == "time":
    environment = {{name: value for name, value in os.environ.items() if not name.startswith("ORTRAIN_")}} | {{"ORTRAIN_CACHE": "off"}}
    feeds = [f"--input={{name}}={{os.path.join(here, 'feeds', name + '.npy')}}" for name in ("x", "bench.target")]
    result = json.loads(subprocess.run([ortrain, "bench", fixture, "--provider", "cpu", "--json", "--steps", option("steps"), *feeds],
                                       check=True, capture_output=True, text=True, env=environment).stdout)
    print(json.dumps(result | {{"peak_bytes": 1000000}}))
elif do == "serve":
    print(json.dumps({{"ready": True, "versions": {{"torch": "0.0.stand-in"}}}}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        command = [sys.executable, sys.argv[0], "", "time", words[0], "--batch", str(asked["batch"]), "--steps", str(asked["steps"])]
        done = subprocess.run(command + (["--compile"] if asked["compile"] else []), capture_output=True, text=True)
        print(done.stdout.strip() or json.dumps({{"error": done.stderr.strip()}}), flush=True)
elif do == "largest":
    print(json.dumps({{"batch": int(option("limit")) // 2}}))
'''


needs_onnx_data = unittest.skipUnless(os.path.isdir("/usr/share/libonnx-testdata/data/node"), "libonnx-testdata is not installed")


class Case(unittest.TestCase):
    def run_it(self, *words):
        done = subprocess.run(["/usr/bin/python3", program, "--build", build, "--results", self.results, *words],
                              capture_output=True, text=True, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
        lines = [json.loads(line) for line in open(self.results)]
        return done, lines

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ortrain-gpu-check-")
        self.addCleanup(folder.cleanup)
        self.folder, self.results = folder.name, os.path.join(folder.name, "results.jsonl")

    def make_stand_in(self, broken=None):
        path = os.path.join(self.folder, "python")
        with open(path, "w") as file:
            file.write(STAND_IN.format(ortrain=os.path.join(build, "tools/ortrain"), fixture=str(tests / "data/fixtures/mlp/model.onnx")))
        os.chmod(path, 0o755)
        if broken:
            pathlib.Path(self.folder, "broken").write_text(broken)
        return ["--dry-run", "--pytorch", path]

    def calls(self):
        return [line.split() for line in open(os.path.join(self.folder, "calls"))]


class GpuCheck(Case):
    def test_dry_run_resumes(self):
        done, lines = self.run_it("--dry-run", "--only", "kernels/internal")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([(line["block"], line["passed"], line["emulated"]) for line in lines],
                         [("devices", True, True), ("kernels/internal", True, True)])
        self.assertEqual(lines[0]["device"]["description"], "emulated on the host, compute capability 9.0, cuBLASLt 13.1.0, cuDNN 9.19.0, NCCL 2.27.3")
        self.assertGreater(lines[1]["tests"], 0)
        done, again = self.run_it("--dry-run", "--only", "kernels/internal")
        self.assertEqual((done.returncode, again), (0, lines))

    @needs_onnx_data
    def test_onnx(self):
        """All operators, as ONNX tests them, on the device."""
        done, lines = self.run_it("--dry-run", "--only", "onnx", "--pytorch", "")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([(line["block"], line["passed"]) for line in lines], [("devices", True), ("onnx", True)])
        self.assertGreater(lines[1]["tests"], 900)

    def test_whole_curves(self):
        """On a GPU, the fixtures are compared over whole curves; else in short."""
        for name, dry, whole in (("fixtures", False, "all"), ("fixtures", True, None), ("kernels/update", False, None)):
            self.assertEqual(environment.settings_of(name, {"A": "b"}, dry), {"A": "b"} | ({"ORTRAIN_TESTS": whole} if whole else {}))

    def test_failure_is_told(self):
        """A block that takes too long fails, and is run again."""
        done, lines = self.run_it("--dry-run", "--only", "kernels/internal", "--seconds", "0")
        self.assertEqual(done.returncode, 1)
        self.assertFalse(lines[-1]["passed"])

    def test_cut_short(self):
        """What was being written when the machine went away is run again, and the lines behind it can be read."""
        self.run_it("--dry-run", "--only", "kernels/internal")
        whole = pathlib.Path(self.results).read_text()
        pathlib.Path(self.results).write_text(whole[:-20])
        done = subprocess.run(["/usr/bin/python3", program, "--build", build, "--results", self.results, "--dry-run", "--only", "kernels/internal"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ok     kernels/internal", done.stdout)
        self.assertTrue(json.loads(pathlib.Path(self.results).read_text().splitlines()[-1])["passed"])

    def test_failed_ones_come_last(self):
        """What was never run tells more than what has failed before."""
        line = {"block": "sessions/device-options", "emulated": True, "provider": "cuda", "passed": False}
        pathlib.Path(self.results).write_text(json.dumps(line) + "\n")
        done, lines = self.run_it("--dry-run", "--only", "sessions/d", "--pytorch", "")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([(line["block"], line["passed"]) for line in lines[1:]],
                         [("devices", True), ("sessions/dropout", True), ("sessions/device-options", True)])

    def test_minutes(self):
        done, lines = self.run_it("--dry-run", "--minutes", "0", "--only", "sessions/d", "--pytorch", "")
        self.assertEqual((done.returncode, lines), (1, []))
        self.assertIn("0 blocks failed, 3 are left for another call", done.stdout)

    def test_what_a_gpu_cannot_say(self):
        """Programs that need the emulated device's counts and faults are no blocks."""
        names = [name for name, _ in programs.programs(pathlib.Path(build))]
        self.assertIn("kernels/softmax", names)
        self.assertIn("fixtures", names)
        for name in ("errors", "dnn", "kernels"):
            self.assertNotIn("kernels/" + name, names)

    def test_packages(self):
        """NVIDIA's libraries are found among the packages of the interpreter, unless a variable says where they are."""
        os.makedirs(os.path.join(self.folder, "nvidia", "cu13", "lib"))
        python = os.path.join(self.folder, "python")
        pathlib.Path(python).write_text(f"#!/bin/sh\nPYTHONPATH={self.folder} exec /usr/bin/python3 \"$@\"\n")
        os.chmod(python, 0o755)
        name = "ORTRAIN_CUDA_LIBRARY_PATH"
        before = os.environ.pop(name, None)
        try:
            of = lambda dry: environment.settings(pathlib.Path(build), dry, "cuda", python).get(name)
            self.assertIn(self.folder, of(False).split(":"))
            self.assertTrue(of(True).endswith("tests/simt/libraries"))
            os.environ[name] = "/elsewhere"
            self.assertEqual(of(False), "/elsewhere")
            self.assertIsNone(os.environ.pop(name) and environment.settings(pathlib.Path(build), False, "cuda", "/bin/false").get(name))
        finally:
            if before is not None:
                os.environ[name] = before

    def test_no_build(self):
        """Where none can be built, the message says what to do."""
        done = subprocess.run(["/usr/bin/python3", program, "--build", os.path.join(self.folder, "none"), "--results", self.results],
                              capture_output=True, text=True, env={"PATH": self.folder})
        self.assertEqual(done.returncode, 1)
        self.assertIn("none can be made here (meson, ninja, pkg-config, nvcc missing): pack one where it can, with --bundle", done.stderr)

    def test_without_gpu(self):
        done, lines = self.run_it("--only", "none")
        self.assertEqual((done.returncode, [line["passed"] for line in lines]), (1, [False]))
        self.assertIn("The provider 'cuda' cannot be used: " + lines[0]["says"][0], done.stderr)
        self.assertFalse(lines[0]["emulated"])

    # ---- benchmarks ----

    def test_without_pytorch(self):
        for words, text in ((["--dry-run", "--pytorch", ""], "--pytorch names no interpreter"), (["--dry-run", "--pytorch", "/bin/false"], "/bin/false has no PyTorch")):
            done, lines = self.run_it(*words, "--only", "speed/")
            self.assertEqual((done.returncode, [line["block"] for line in lines]), (0, ["devices"]))
            self.assertIn("skipped benchmarks: ", done.stdout)
            self.assertIn(text, done.stdout)

    def test_benchmark(self):
        """On the emulated device, beside the CPU in place of PyTorch: the same losses, every figure, resumed, and a table."""
        words = self.make_stand_in()
        done, lines = self.run_it(*words, "--only", "speed/mlp")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        line = lines[-1]
        self.assertEqual([line[key] for key in ("block", "passed", "emulated", "small", "model", "batch", "precision", "unit", "items")],
                         ["speed/mlp/64/f32", True, True, True, "mlp", 2, "f32", "samples", 2])
        self.assertEqual(line["versions"]["torch"], "0.0.stand-in")
        self.assertEqual(list(line["sides"]), ["ortrain", "eager", "compiled"])
        ours = line["sides"]["ortrain"]
        for name in ("ms_median", "ms_host", "ms_create", "ms_create_cached", "ms_until_first_step", "planned_peak_bytes", "device_bytes"):
            self.assertGreater(ours[name], 0, name)
        self.assertEqual(len(ours["losses"]), 6)
        self.assertLess(ours["losses"][-1], ours["losses"][0])
        self.assertLess(line["loss_difference"], 1e-4)
        self.assertEqual([call[0] for call in self.calls()], ["versions", "export", "feeds", "time", "time"])
        self.assertEqual([call.count("--compile") for call in self.calls()[-2:]], [0, 1])
        done, again = self.run_it(*words, "--only", "speed/mlp")
        self.assertEqual((done.returncode, again), (0, lines))

        done, _ = self.run_it("--dry-run", "--table")
        row = next(row for row in done.stdout.splitlines() if row.startswith("| mlp "))
        self.assertEqual(len(row.split("|")), 18)
        self.assertIn("emulated on the host", done.stdout)
        self.assertIn("torch 0.0.stand-in", done.stdout)
        done, _ = self.run_it("--table")  # nothing was measured on a GPU, and nothing stands in the table
        self.assertNotIn("| mlp ", done.stdout)

    def test_losses_that_differ(self):
        words = self.make_stand_in()
        stand_in = pathlib.Path(words[-1])
        stand_in.write_text(stand_in.read_text().replace('result | {', 'result | {"losses": [x * 1.001 for x in result["losses"]]} | {'))
        done, lines = self.run_it(*words, "--only", "speed/mlp")
        self.assertEqual((done.returncode, lines[-1]["passed"]), (1, False))
        self.assertAlmostEqual(lines[-1]["loss_difference"], 1e-3, delta=2e-5)
        self.assertIn("losses differ by 0.001 of PyTorch's", lines[-1]["says"][0])

    def test_what_fails(self):
        """A side that fails is said; one that has no memory for it is a result. Nothing stops at it."""
        for broken, status, sides in (("compiled no compiler", 0, ["ortrain", "eager"]), ("time CUDA out of memory", 0, ["ortrain", "compiled"]),
                                      ("time no such kernel", 1, ["ortrain", "compiled"]), ("export no exporter", 1, None)):
            with self.subTest(broken):
                done, lines = self.run_it(*self.make_stand_in(broken), "--only", "speed/mlp")
                self.assertEqual((done.returncode, lines[-1]["passed"]), (status, status == 0))
                self.assertIn(broken.split(" ", 1)[1], lines[-1]["says"][0])
                self.assertEqual(list(lines[-1]["sides"]) if "sides" in lines[-1] else None, sides)
                done, _ = self.run_it("--dry-run", "--table")
                self.assertEqual(done.returncode, 0, done.stderr)
                os.remove(self.results)

    def test_largest(self):
        done, lines = self.run_it(*self.make_stand_in(), "--only", "largest/resnet50")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({side: its["batch"] for side, its in lines[-1]["sides"].items()}, {"ortrain": 4, "eager": 2, "compiled": 2})
        done, _ = self.run_it("--dry-run", "--table")
        self.assertIn("| resnet50 | – | bf16 | 4 | 2 | 2 |", done.stdout)

    def test_search(self):
        for most in (0, 1, 3, 4, 5, 17, 100, 128, 1000, 10**6):
            tried = []
            found = search_largest(lambda n: tried.append(n) or n <= most, 4, 4096)
            if most < 4:
                self.assertEqual((found, tried), (0, [4]))
            else:
                self.assertLessEqual(found, min(most, 4096))
                self.assertGreaterEqual(found + max(1, found // 8), min(most, 4096))
            self.assertLess(len(tried), 16)


# Replaces ncu and compute-sanitizer: runs the program that follows their options.
TOOL = r'''#!/bin/sh
while [ "${1#/}" = "$1" ]; do shift; done
echo "    Duration                 us        12.34"
exec "$@"
'''


class Plans(Case):
    """In short: a block or two of each stage, on the emulated device."""

    def run_plan(self, *words, status=0, **environment):
        out = os.path.join(self.folder, "out")
        done = subprocess.run(["/usr/bin/python3", program, "--build", build, "--out", out, *words], capture_output=True, text=True,
                              env=os.environ | {"CUDA_VISIBLE_DEVICES": ""} | environment)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertLess(len(done.stdout[done.stdout.index("\nplan "):]), 12000, done.stdout)
        path = pathlib.Path(out, "gpu-check.jsonl")
        return done.stdout, {line["block"]: line for line in map(json.loads, path.read_text().splitlines())}, pathlib.Path(out)

    def make_tools(self):
        for name in ("ncu", "compute-sanitizer"):
            path = os.path.join(self.folder, name)
            pathlib.Path(path).write_text(TOOL)
            os.chmod(path, 0o755)
        return self.folder + ":" + os.environ["PATH"]

    def test_first_and_second(self):
        words = self.make_stand_in()
        text, lines, out = self.run_plan(*words, "--plan", "first", "--only", "devices,probe/device,probe/capture,kernels/internal,speed/mlp,profile/gpt2")
        self.assertEqual(list(lines), ["devices", "probe/device", "probe/capture", "kernels/internal", "speed/mlp/64/f32", "profile/gpt2-124m/32x1024/bf16"])
        self.assertTrue(all(line["passed"] and line["emulated"] for line in lines.values()))
        self.assertEqual(list(lines["speed/mlp/64/f32"]["sides"]), ["ortrain", "eager", "compiled"])  # the newest line
        self.assertLess(lines["speed/mlp/64/f32"]["loss_difference"], 1e-4)
        self.assertEqual(sorted(file.name for file in out.iterdir()), ["gpu-check.jsonl", "probe.json", "profile-gpt2-124m.tsv", "summary.txt"])
        self.assertEqual(set(json.load(open(out / "probe.json"))), {"format", "device", "capture"})
        for part in ("stage ", "devices ", "tests ", "models ", "profiles ", "compiled ", "inside", "mlp ", "profile of gpt2-124m", "capture, during", "7 passed, 0 failed"):
            self.assertIn(part, text)
        self.assertLessEqual(len((out / "summary.txt").read_text()), 12000)

        # The second one: a test that failed there, by its name, and a model; then variants, and a slow kernel.
        before = pathlib.Path(self.folder, "before")
        os.rename(out, before)
        with open(before / "gpu-check.jsonl", "a") as file:
            for line in ({"block": "kernels/internal", "says": ["not ok 1 /cuda-internal/none", "…"]}, {"block": "probe/device"},
                         {"block": "speed/mlp/64/f32", "model": "mlp", "seq": 0, "precision": "f32"}, {"block": "sessions/dropout", "left": True}):
                file.write(json.dumps({"emulated": True, "provider": "cuda", "passed": False, "small": line["block"].startswith("speed")} | line) + "\n")
        text, lines, out = self.run_plan(*words, "--plan", "second", "--from", str(before), "--only", "again,memcheck,variants/gpt2,ncu,devices", "--variant", "a:",
                                         "--variant", "b: ORTRAIN_STREAMS=2 --immediate-updates off", PATH=self.make_tools())
        self.assertTrue({"devices", "again/kernels/internal", "memcheck/kernels/internal", "again/probe/device", "memcheck/probe/device", "memcheck/speed/mlp/64/f32",
                         "variants/gpt2-124m/32x1024/bf16"} <= set(lines), list(lines))
        variants = lines["variants/gpt2-124m/32x1024/bf16"]["variants"]
        self.assertEqual({name: len(side["ms"]) for name, side in variants.items()}, {"a": 2, "b": 2})
        counted = [line for name, line in lines.items() if name.startswith("ncu/gpt2-124m/")]
        self.assertEqual(len(counted), 3)
        self.assertTrue(all(line["passed"] and line["counters"] for line in counted))
        self.assertIn("counters.txt", {file.name for file in out.iterdir()})
        self.assertIn("variants/gpt2-124m/32x1024/bf16: a ", text)

    def test_deadline(self):
        """What has no time is late or left, and said; there is a summary."""
        text, lines, out = self.run_plan("--dry-run", "--pytorch", "", "--plan", "first", "--deadline", "12", "--workers", "1", "--only", "kernels/attention,kernels/softmax,sessions/",
                                         status=1)
        self.assertTrue(any(line.get("late") for line in lines.values()) or any(line.get("left") for line in lines.values()))
        self.assertTrue(any(line.get("left") for line in lines.values()))
        self.assertIn("never begun: ", text)
        self.assertTrue((out / "summary.txt").exists())

    def test_terminated(self):
        """By `timeout`, say: what was found until then is told."""
        out = os.path.join(self.folder, "out")
        process = subprocess.Popen(["/usr/bin/python3", program, "--build", build, "--out", out, "--dry-run", "--pytorch", "", "--plan", "first", "--only", "sessions/"],
                                   stdout=subprocess.PIPE, text=True, env=os.environ)
        for line in process.stdout:
            if line.startswith("== tests"):
                process.terminate()
                break
        text = process.stdout.read()
        self.assertEqual(process.wait(), 1)
        self.assertIn("stopped", text)
        self.assertIn("files in", text)

    def test_failures(self):
        """A strict refusal is told apart from a wrong value."""
        text, lines, out = self.run_plan("--dry-run", "--pytorch", "", "--plan", "first", "--only", "sessions/two-threads", status=1,
                                         ORTRAIN_FAKE_CUBLASLT_WITHOUT_SUMS="1")
        line = lines["sessions/two-threads"]
        self.assertEqual((line["passed"], line["passes_without_strict"]), (False, True))
        self.assertIn("ORTRAIN_CUDA_STRICT forbids", line["refused"][0])
        self.assertIn("==== sessions/two-threads", (out / "failures.log").read_text())

    def test_words(self):
        for words, text in ((["--plan", "second"], "--from FOLDER"), (["--plan", "first", "--provider", "cpu"], "is for the provider 'cuda'")):
            done = subprocess.run(["/usr/bin/python3", program, *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)
        done = subprocess.run(["/usr/bin/python3", program, "--dry-run", "--build", build, "--plan", "first"], capture_output=True, text=True,
                              env={name: value for name, value in os.environ.items() if name != "OUT"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("--out DIR, or $OUT", done.stderr)

    def test_variants(self):
        self.assertEqual(second.read_variants(["old: A_B=1 --steps 3", "new:"]), [("old", {"A_B": "1"}, ["--steps", "3"]), ("new", {}, [])])
        self.assertEqual(second.failed_tests({"says": ["not ok 3 /a/b", "Bail out!", "not ok 4 /c - text"]}), ["/a/b", "/c"])

    def test_facts(self):
        """Sections that are not whole end no summary."""
        for known in ({}, {"memory": {}}, {"products": {"table": []}}, {"attention": {"error": "no library"}}):
            self.assertIsInstance(list(facts.describe(known)), list)


class Bundle(unittest.TestCase):
    """Packed with the emulated device, and unpacked elsewhere."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ortrain-bundle-")
        cls.addClassCleanup(folder.cleanup)
        archive = os.path.join(folder.name, "bundle.tar")
        subprocess.run(["/usr/bin/python3", program, "--build", build, "--dry-run", "--bundle", archive], check=True, capture_output=True)
        subprocess.run(["tar", "-C", folder.name, "-xf", archive], check=True)
        quick = ["zstd", "-3", "--long=27", "-T1", "-q", "-c", archive]
        cls.size = len(subprocess.run(quick, check=True, capture_output=True).stdout) if shutil.which("zstd") else None
        os.remove(archive)
        cls.top = pathlib.Path(folder.name, "ortrain-gpu-check")
        cls.environment = {"PATH": "/usr/bin:/bin", "HOME": folder.name, "LC_ALL": "C.UTF-8"}

    def run_there(self, *words, **more):
        """With what the dynamic linker says: every library that is opened, the module and its own included."""
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd="/",
                              env=self.environment | {"LD_DEBUG": "files"} | more)
        loaded = {line.split("calling init: ")[1] for line in done.stderr.splitlines() if "calling init: " in line}
        self.assertTrue(loaded)
        for path in loaded:
            self.assertFalse(path.startswith(os.path.realpath(build)), path)
        return done, {os.path.basename(path) for path in loaded if str(self.top) in os.path.realpath(path)}

    def test_size(self):
        """--bundle fails above the limit. Here is no time to compress well: what zstd makes quickly is about 1.6 times as large, and the module
        for a GPU about 10 MiB more than the emulated one."""
        if self.size is not None:
            self.assertLess(self.size, 1.6 * (bundle.LIMIT_MIB - 10) * 2**20)
        self.assertGreater(bundle.check_size(1 << 20), 0)
        with self.assertRaisesRegex(SystemExit, "file: 48.0 MiB, more than the 47 MiB"):
            bundle.check_size(48 << 20, "file")

    def test_libraries(self):
        """Each is the bundle's own, or one that every host has; nothing names a folder of this machine."""
        of_the_host = ("ld-linux", "libc.", "libm.", "libdl.", "librt.", "libpthread.", "libgcc_s", "libstdc++", "linux-vdso")
        programs = [file for file in (self.top / "bundle").rglob("*") if file.is_file() and os.access(file, os.X_OK) and ".so" not in file.name]
        self.assertGreater(len(programs), 30)
        for file in programs:
            lines = subprocess.run(["ldd", file], capture_output=True, text=True, check=True, env=self.environment).stdout.splitlines()
            for line in lines:
                name, _, path = line.strip().partition(" => ")
                if not os.path.basename(name).startswith(of_the_host):
                    self.assertTrue(os.path.realpath(path.split(" (")[0]).startswith(str(self.top)), f"{file.name}: {line}")
            tags = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
            path = next(line for line in tags.splitlines() if "(RPATH)" in line)
            self.assertTrue(all(folder.startswith("$ORIGIN/") for folder in path.split("[")[1].rstrip("]").split(":")), path)

    def test_command(self):
        ortrain, there = self.top / "bundle/tools/ortrain", {"ORTRAIN_PROVIDER_PATH": str(self.top / "bundle/tests/simt"),
                                                             "ORTRAIN_CUDA_LIBRARY_PATH": str(self.top / "bundle/tests/simt/libraries")}
        done, loaded = self.run_there(ortrain, "devices", "--json", **there)
        self.assertEqual(next(device for device in json.loads(done.stdout) if device["name"] == "cuda")["reason"], None)
        self.assertLessEqual({"libortrain-1.0.so.0", "libglib-2.0.so.0", "libprotobuf-c.so.1", "libjson-glib-1.0.so.0", "cuda-emulated.so"}, loaded)
        done, loaded = self.run_there(ortrain, "bench", self.top / "tests/data/fixtures/mlp/model.onnx", "--batch", "2", "--steps", "1", "--provider",
                                      "cuda", "--json", **there)
        self.assertEqual((done.returncode, len(json.loads(done.stdout)["losses"])), (0, 4))
        self.assertIn("libcublasLt.so.13", loaded)

    @needs_onnx_data
    def test_onnx(self):
        self.check_block("onnx", 900)

    def test_gpu_check(self):
        self.check_block("kernels/internal", 1)
        self.check_block("sessions/dropout", 1)

    def check_block(self, only, tests):
        results = self.top.parent / (only.replace("/", "-") + ".jsonl")
        done, _ = self.run_there("/usr/bin/python3", self.top / "gpu-check", "--dry-run", "--only", only, "--results", results)
        self.assertEqual(done.returncode, 0, done.stdout)
        lines = [json.loads(line) for line in open(results)]
        self.assertEqual([(line["block"], line["passed"]) for line in lines], [("devices", True), (only, True)])
        self.assertGreaterEqual(lines[1]["tests"], tests)

    def test_python(self):
        if not os.path.exists(os.path.join(build, "introspection/Ortrain-1.0.typelib")):
            self.assertFalse((self.top / "with-bindings").exists())
            return
        text = "import gi, sys; gi.require_version('Ortrain', '1.0'); from gi.repository import Ortrain; " \
               "Ortrain.Model(sys.argv[1]); print(sys.modules['gi.overrides.Ortrain'].__file__)"
        done, loaded = self.run_there(self.top / "with-bindings", "/usr/bin/python3", "-c", text, self.top / "tests/data/fixtures/mlp/model.onnx")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-2000:])
        self.assertEqual(os.path.realpath(done.stdout.strip()), os.path.realpath(self.top / "python/gi/overrides/Ortrain.py"))
        self.assertIn("libortrain-1.0.so.0", loaded)


main()
