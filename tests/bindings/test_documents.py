# SPDX-License-Identifier: LGPL-2.1-or-later
"""What README and doc/ tell people to type is typed here, in order, in an empty folder: test_documents.py ORTRAIN."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from gi.repository import GLib, GObject
from ortrain_tap import Ortrain, batch, folder, linear_model, main, np, save_png, training_session

program = os.path.abspath(sys.argv.pop(1))
source = pathlib.Path(__file__).resolve().parent.parent.parent


def blocks(name, *languages):
    """(language, text) of the fenced blocks of a document."""
    return [(language, text) for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", (source / name).read_text(), re.M | re.S)
            if language in languages]


def example_names():
    """What examples take for granted: the names, and some files in the current folder."""
    names = {"Ortrain": Ortrain, "np": np, "print": lambda *values, **keywords: None, **batch()}
    names["values"] = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    names["model"] = linear_model()
    names["model"].save("model.onnx")
    names["session"] = training_session()
    decoder = Ortrain.GraphBuilder.new("decoder")           # present = past + the token
    token = decoder.add_input("token", Ortrain.DType.FLOAT32, "1, 4")
    decoder.add_output(decoder.add(decoder.add_input("past", Ortrain.DType.FLOAT32, "1, 2, 4"), token), "present")
    decoder.build().save("decoder.onnx")
    np.savez("train.npz", x=names["x"], labels=names["labels"])
    np.savez("validation.npz", x=names["x"], labels=names["labels"])
    np.arange(1000, dtype=np.uint16).tofile("tokens.bin")
    for name in ("rose", "lily"):
        os.makedirs(f"flowers/{name}")
        for i in range(3):
            save_png(f"flowers/{name}/{i}.png", 40 + i, 30, bytes(range(3 * i, 3 * i + 3)) * (40 + i) * 30)
    for name in ("train.csv", "validation.csv"):
        rows = [",".join(map(str, row)) + "," + "abc"[label] for row, label in zip(names["x"], names["labels"])]
        pathlib.Path(name).write_text("\n".join(["a,b,c,d,species", *rows]))
    return names


class Documents(unittest.TestCase):
    def setUp(self):
        self.before = os.getcwd()
        where = os.path.join(folder, self.id())
        os.mkdir(where)
        os.chdir(where)

    def tearDown(self):
        os.chdir(self.before)

    def type(self, name, variables):
        environment = os.environ | {"PATH": os.path.dirname(program) + ":" + os.environ["PATH"]}
        n = 0
        for language, text in blocks(name, "sh", "python"):
            n += 1
            if language == "python":
                exec(compile(text, name, "exec"), variables)
                continue
            done = subprocess.run(["bash", "-e", "-c", text], capture_output=True, text=True, env=environment, timeout=120)
            self.assertEqual(done.returncode, 0, text + done.stdout + done.stderr)
            variables["said"] = variables.get("said", "") + done.stdout
        return n

    def test_tutorial(self):
        variables, printed = {}, []
        variables["print"] = lambda *values: printed.append(" ".join(map(str, values)))
        self.assertEqual(self.type("doc/tutorial.md", variables), 15)
        accuracy = float(re.search(r"^accuracy ([\d.]+) %", variables["said"], re.M)[1])
        self.assertGreater(accuracy, 90)
        self.assertRegex(variables["said"], r"(?m)^logits, item 0: lily\nlogits, item 1: rose\nlogits, item 2: tulip$")
        self.assertGreater(float(printed[-1]), 0.9)             # the model that was given back
        self.assertTrue(any(line.startswith("rank-0 step ") for line in printed))
        for name in ("trained.onnx", "state", "plan.svg", "session", "training.onnx", "finetuned.onnx"):
            self.assertTrue(os.path.exists(name), name)

    def test_images(self):
        variables, printed = {}, []
        variables["print"] = lambda *values: printed.append(" ".join(map(str, values)))
        self.assertEqual(self.type("doc/images.md", variables), 5)
        self.assertIn("3 classes: 0 lily, 1 rose, 2 tulip", variables["said"])
        self.assertGreater(float(re.search(r"^accuracy ([\d.]+) %", variables["said"], re.M)[1]), 80)
        self.assertIn("logits, item 0: rose", variables["said"])
        self.assertGreater(float(printed[0]), 0.8)
        self.assertEqual(printed[1], "tulip")

    def test_readme(self):
        linear_model().save("model.onnx")
        self.assertEqual(self.type("README.md", {"batches": [batch(), batch(seed=1)], "print": lambda *values: None}), 1)
        self.assertTrue(Ortrain.Model("trained.onnx").check().trainable)

    def test_python(self):
        printed = []
        self.assertEqual(self.type("doc/python.md", {"print": lambda *values: printed.append(values)}), 7)
        self.assertIn(True, [values[-1] for values in printed])         # the code of the error
        self.assertEqual(str(printed[-1][0]), "enough")

    def test_precision(self):
        linear_model().save("model.onnx")
        np.savez("train.npz", **batch())
        np.save("x.npy", batch()["x"])
        variables = {"Ortrain": Ortrain, "model": linear_model(), "losses": [Ortrain.CrossEntropyLoss("logits", "labels")], "print": lambda *values: None}
        self.assertEqual(self.type("doc/precision.md", variables), 4)
        self.assertEqual(variables["session"].loss_scale, 2.0 ** 14)
        self.assertTrue(os.path.exists("trained.onnx"))

    def test_examples(self):
        """What the reference shows in Python runs: the examples of a class in order, in a folder and with names of their own."""
        examples = {}
        for path in sorted((source / "libortrain").glob("**/*.[ch]")):
            for block in re.findall(r"/\*\*\n(.*?)\*/", path.read_text(), re.S):
                text = re.sub(r"^ *\* ?", "", block, flags=re.M)
                for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S):
                    examples.setdefault(text.splitlines()[0].split(":")[0], []).append(code)
        self.assertGreater(len(examples), 50)
        for name, codes in examples.items():
            where = os.path.abspath(os.path.join(folder, name))
            os.mkdir(where)
            os.chdir(where)
            with self.subTest(name):
                exec(compile("".join(codes), name, "exec"), example_names())

    def test_options(self):
        training, session = (text for language, text in blocks("doc/options.md", "json"))
        for name, text in (("training.json", training), ("session.json", session)):
            json.loads(text)
            pathlib.Path(name).write_text(text)
        options = Ortrain.TrainingOptions.new_from_file("training.json")
        self.assertIsInstance(options.optimizer, Ortrain.AdamW)
        self.assertEqual(options.optimizer.mode, Ortrain.AdamwMode.DECAY_FIRST)
        self.assertEqual([(g.get_pattern(), g.weight_decay, g.learning_rate_multiplier) for g in options.optimizer.groups],
                         [("*.bias", 0, 1), ("classifier.*", -1, 10)])
        self.assertEqual((options.schedule.steps, options.schedule.after.total_steps), (100, 1000))
        self.assertEqual((options.losses[0].label_smoothing, options.frozen), (0.1, ["*.LayerNorm.*"]))
        self.assertEqual((options.get_tie(0), options.get_padding_row("embeddings.weight")),
                         (("embeddings.weight", "decoder.weight"), (True, 0)))
        self.assertEqual((options.batch_norm, options.accumulation_steps, options.deterministic), (Ortrain.BatchNormMode.TRAIN, 4, True))
        self.assertEqual((options.trainable_statistics, options.stop_gradient), (["encoder.bn1"], ["/encoder/Relu_output_0"]))
        self.assertEqual(Ortrain.SessionOptions.new_from_file("session.json").max_plans, 4)
        # each type and each nick that the page names is one
        page = (source / "doc" / "options.md").read_text()
        for key, types in re.findall(r"^\| `(\w+)` \| ((?:`[\w-]+`,? ?)+) \|$", page, re.M):
            for kind in re.findall(r"`([\w-]+)`", types):
                body = {"type": kind}
                pathlib.Path("one.json").write_text(json.dumps({key: [body] if key == "losses" else body}))
                Ortrain.TrainingOptions.new_from_file("one.json")
        pathlib.Path("one.json").write_text('{"optimizer": {"type": "adamw", "mode": "decay-last"}}')
        self.assertEqual(Ortrain.TrainingOptions.new_from_file("one.json").optimizer.mode, Ortrain.AdamwMode.DECAY_LAST)
        pathlib.Path("one.json").write_text('{"optimizer": {"type": "adamw", "mode": "last"}}')
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.TrainingOptions.new_from_file("one.json")
        self.assertIn("mode", caught.exception.message)

    def test_environment(self):
        """Each variable of the table sets its option, a file is stronger, and a bad value is told and left alone."""
        table = re.findall(r"^\| `(ORTRAIN_\w+)` \| `([\w-]+)`.*\| (\w+) \|$", (source / "doc" / "options.md").read_text(), re.M)
        self.assertEqual(len(table), 23)
        code = ("import gi, json, sys; gi.require_version('Ortrain', '1.0'); from gi.repository import Ortrain\n"
                "show = lambda value: str(getattr(value, 'value_nick', value))\n"
                "for name, option, path in json.load(open('cases.json')):\n"
                "    cls = getattr(Ortrain, name)\n"
                "    print(show(cls.new().get_property(option)), show(cls.new_from_file(path).get_property(option)))")
        kinds = {"both": ("TrainingOptions", "SessionOptions"), "training": ("TrainingOptions",), "inference": ("SessionOptions",)}
        cases = []
        for variable, option, of in table:
            for cls in kinds[of]:
                default = getattr(Ortrain, cls).new().get_property(option)
                if default is None:  # a name, which the session judges
                    given, text, kept = "cpu", "cpu", "auto"
                elif isinstance(default, GObject.GEnum):
                    default = default.value_nick
                    word = {"precision": "bf16", "cudnn-conv-algo-search": "exhaustive"}.get(option)
                    given, text = (word, word) if word else ("on", "yes")
                    kept = default
                elif isinstance(default, bool):
                    given, text, kept = not default, "no" if default else "yes", default
                elif isinstance(default, list):  # of patterns, which the session judges
                    given, text, kept = ["hidden"], "hidden", []
                else:
                    given, text, kept = type(default)(2), "2", default
                path = f"{cls}-{option}.json"
                pathlib.Path(path).write_text(json.dumps({option: kept}))
                cases.append((variable, option, cls, path, text, given, kept, default))

        def run(cases, values):
            pathlib.Path("cases.json").write_text(json.dumps([(cls, option, path) for _, option, cls, path, *_ in cases]))
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | values)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.splitlines(), done.stderr

        lines, _ = run(cases, {case[0]: case[4] for case in cases})
        for line, (variable, _, cls, _, _, given, kept, _) in zip(lines, cases, strict=True):
            with self.subTest(f"{variable} {cls}"):
                self.assertEqual(line.split(), [str(given), str(kept)])
        judged = [case for case in cases if case[7] is not None and case[7] != []]
        lines, told = run(judged, {case[0]: "purple" for case in judged})
        for line, (variable, _, cls, *_, default) in zip(lines, judged, strict=True):
            with self.subTest(f"{variable} {cls}"):
                self.assertEqual(line.split(), [str(default), str(default)])
                self.assertIn(variable, told)

    def test_memory_line(self):
        """print-memory writes to its own log domain: each phase of steps below ten and of powers of two."""
        code = ("import sys; sys.path.insert(0, sys.argv[1]); from ortrain_tap import *; s = training_session()\n"
                "for i in range(17): s.train_step(batch()); s.optimizer_step()")
        run = lambda **more: subprocess.run([sys.executable, "-c", code, str(source / "tests" / "bindings")], capture_output=True, text=True,
                                            env=os.environ | more)
        self.assertEqual((run().stdout, run().stderr), ("", ""))
        lines = re.findall(r"(?i)Ortrain-Memory-M\w+: .*?(rank-0 step (\d+) memory \(MiB\) \| phase: (\w+) \| .*)", run(ORTRAIN_PRINT_MEMORY="1").stderr)
        self.assertEqual(len(lines), 6 * 10)
        self.assertEqual(sorted({int(step) for line, step, phase in lines}), [*range(1, 10), 16])
        self.assertEqual([phase for line, step, phase in lines[:6]],
                         ["pre_forward", "post_forward", "pre_backward", "post_backward", "pre_update", "post_update"])


if __name__ == "__main__":
    main()
