# SPDX-License-Identifier: LGPL-2.1-or-later
"""The probe of a device, on the emulated one: test_probe.py PROBE."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import pathlib

tests = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(tests), str(tests.parent / "tools")]
sys.dont_write_bytecode = True
from gpu_check import facts
from tap import main

program = sys.argv[1]
del sys.argv[1:2]


def run(*words, **environment):
    done = subprocess.run([program, "--small", *words], capture_output=True, text=True, env=os.environ | environment)
    return done, json.loads(done.stdout) if done.stdout else None


class Probe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "probe.json")
            done = subprocess.run([program, "--small", "--output", path], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            cls.facts = json.load(open(path))

    def test_sections(self):
        self.assertEqual(list(self.facts), ["format", "device", "memory", "capture", "products", "attention", "convolutions"])
        self.assertEqual(self.facts["format"], 1)
        for name, facts in self.facts.items():
            if name != "format":
                self.assertEqual(facts["ends_with"], "cudaSuccess", name)
                self.assertNotIn("error", facts, name)
        self.assertEqual(self.facts["device"]["capability"], 90)
        self.assertIn("cuBLASLt 13.1.0, cuDNN 9.19.0", self.facts["device"]["libraries"])

    def test_memory(self):
        """The emulated legacy stream runs late, as a device's may; what is cleared in order stays."""
        memory = self.facts["memory"]
        for rates in memory["rates"]:
            for name in ("copy", "clear", "from_ordinary", "from_pinned", "to_pinned"):
                self.assertGreater(rates[name], 0, name)
        self.assertGreater(memory["race"]["plain"]["lost"], 0)
        self.assertEqual(memory["race"]["in_order"], {"trials": 20, "lost": 0})
        self.assertGreater(memory["submissions"]["us_graph_of_200_small_clears"], 0)

    def test_capture(self):
        """What the emulated runtime does, and so what tests here assume; a device's answers are compared with these."""
        capture = self.facts["capture"]
        ends = {name: (facts["in_capture"], facts["at_the_end"]) for name, facts in capture.items() if isinstance(facts, dict)}
        ok, invalid, unsupported = "cudaSuccess", "cudaErrorStreamCaptureInvalidated", "cudaErrorStreamCaptureUnsupported"
        self.assertEqual(ends["copy_pinned"], (ok, ok))
        self.assertEqual(capture["copy_pinned"]["reads"], "at the launch")
        self.assertEqual(capture["copy_ordinary"]["reads"], "at the launch")
        self.assertEqual(ends["record_event"], (ok, ok))
        self.assertEqual(capture["record_event"]["query_afterwards"], "cudaErrorCapturedEvent")
        self.assertEqual(ends["wait_for_old_event"][0], "cudaErrorStreamCaptureIsolation")
        self.assertEqual(ends["allocate"], (unsupported, invalid))
        self.assertEqual(ends["clear_on_legacy_stream"][0], unsupported)

    def test_products(self):
        table = self.facts["products"]["table"]
        self.assertTrue(all(row["found"] and row["found_without_pointers"] and row["milliseconds"] > 0 for row in table))
        self.assertEqual({row["epilogue"] for row in table}, {"DEFAULT", "BIAS", "GELU_AUX_BIAS", "DGELU", "BGRADA", "BGRADB"})
        self.assertEqual({(row["from"], row["to"]) for row in table}, {("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f32")})
        self.assertEqual({(row["width"], row["ld"]) for row in table}, {(32, 32), (33, 33), (33, 40)})
        for row in self.facts["products"]["beta"]:
            self.assertTrue(row["algorithms"])
            self.assertEqual({(each["status"], each["not_numbers"]) for each in row["algorithms"]}, {(0, 0)})

    def test_refused_epilogue(self):
        """What a library refuses is a row too."""
        _, told = run("--sections", "products", ORTRAIN_FAKE_CUBLASLT_WITHOUT_SUMS="1")
        found = {row["epilogue"]: row["found"] for row in told["products"]["table"]}
        self.assertEqual({name for name, ok in found.items() if not ok}, {"BGRADA", "BGRADB"})

    def test_facts_of_a_device(self):
        """What a device's library refuses becomes what the emulated one refuses: the same rows are missing then."""
        refused = ["BGRADA:bf16:f32:f32", "BGRADB:bf16:f32:f32", "DGELU:bf16:bf16"]
        _, told = run("--sections", "products", ORTRAIN_FAKE_CUBLASLT_REFUSE=",".join(refused))
        self.assertEqual(facts.find_refused(told["products"]["table"]), refused)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(told, file)
            file.flush()
            settings = facts.make_settings(file.name)
        self.assertEqual(settings, {"ORTRAIN_FAKE_CUBLASLT_REFUSE": ",".join(refused)})
        self.assertEqual(run("--sections", "products", **settings)[1]["products"]["table"][0]["found"], True)
        self.assertEqual(facts.find_refused(self.facts["products"]["table"]), [])

    def test_beta_of_a_device(self):
        """So does what becomes of NaN in a result that is not added to."""
        _, told = run("--sections", "products", ORTRAIN_FAKE_CUBLASLT_KEEP_NAN="1")
        kept = [each["not_numbers"] > 0 for row in told["products"]["beta"] for each in row["algorithms"]]
        self.assertTrue(kept and all(kept))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(told, file)
            file.flush()
            self.assertEqual(facts.make_settings(file.name), {"ORTRAIN_FAKE_CUBLASLT_KEEP_NAN": "1"})

    def test_engines(self):
        for name in ("attention", "convolutions"):
            self.assertEqual(json.loads(self.facts[name]["description"])["deviceName"], "emulated on the host")
            for graph in self.facts[name]["graphs"]:
                for way in ("without_handle", "with_handle", "with_description"):
                    modes = graph[way]
                    # cuDNN has no gradient of weights in another type than its operands'
                    self.assertEqual(bool(modes["first_choice"]["engines"] or modes["fallback"]["engines"]), graph.get("weights") != "f32", graph)
                if "run" in graph:
                    self.assertTrue(graph["run"]["runs"])
                    self.assertGreater(graph["run"]["milliseconds"], 0)
        self.assertEqual({graph["direction"] for graph in self.facts["attention"]["graphs"]}, {"forward", "backward", "backward-accumulating"})

    def test_sections_of_one_call(self):
        done, facts = run("--sections", "device,memory")
        self.assertEqual((done.returncode, list(facts)), (0, ["format", "device", "memory"]))

    def test_no_device(self):
        done, facts = run(ORTRAIN_FAKE_CUDA_NONE="1")
        self.assertEqual((done.returncode, facts), (1, None))
        self.assertIn("There is no device", done.stderr)

    def test_no_library(self):
        """A section without its library says so; the others are as ever."""
        done, facts = run("--sections", "device,products,attention", ORTRAIN_CUDA_LIBRARY_PATH="/nowhere")
        if "error" not in facts["products"]:
            self.skipTest("the system has NVIDIA's libraries")
        self.assertEqual(done.returncode, 0)
        self.assertIn("Cannot open libcublasLt.so.13", facts["products"]["error"])
        self.assertIn("Cannot open libcudnn.so.9", facts["attention"]["error"])


main()
