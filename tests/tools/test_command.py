# SPDX-License-Identifier: LGPL-2.1-or-later
"""The `ortrain` command as a user meets it: test_command.py ORTRAIN. test_train_command.py has training."""
import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import unittest
import xml.etree.ElementTree

from ortrain_command import (FLOAT, Failures, INT64, TRAIN, environment, field, folder, main, node, npy, npz, ortrain, path, save,
                             setUpModule, source, strict, tensor, value, varint)

COMMANDS = ["check", "info", "new", "train", "eval", "run", "export", "verify", "plan", "bench", "devices"]


def options_of(command):
    """The long options in the help of a command."""
    out, _ = ortrain(command, "--help")
    return set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", out, re.M)) - {"help"}


class Help(unittest.TestCase):
    def test_list(self):
        out, _ = ortrain("--help")
        self.assertEqual(re.findall(r"^  (\w+) ", out, re.M), COMMANDS)
        self.assertEqual(ortrain("help")[0], out)
        self.assertEqual(ortrain(status=2)[0], out)
        self.assertRegex(ortrain("--version")[0], r"^ortrain \d+\.\d+\.\d+$")

    def test_each(self):
        for command in COMMANDS:
            out, err = ortrain(command, "--help")
            self.assertTrue(out.startswith(f"Usage:\n  ortrain {command} "), out)
            self.assertEqual(err, "")
        self.assertGreater(len(options_of("train")), 15)

    def test_manual(self):
        """Every option of every command stands in its part of the manual page, and no other does."""
        page = (source / "ortrain.1").read_text().replace("\\-", "-")
        parts = dict(re.findall(r"^\.SS (\w+)(.*?)(?=^\.S[SH])", page, re.M | re.S))
        self.assertEqual(list(parts), COMMANDS)
        for command in COMMANDS:
            told = set(re.findall(r"--([a-z-]+)", parts[command]))
            self.assertEqual(told - {"help"}, options_of(command), command)
        read = subprocess.run(["grep", "-rhoE", "--include=*.c", '"ORTRAIN_[A-Z_]+"', "libortrain", "kernels"],
                              cwd=source.parent.parent, capture_output=True, text=True).stdout
        variables = set(re.findall(r'"(\w+)"', read))
        self.assertGreater(len(variables), 7)
        for variable in variables:
            self.assertIn(variable, page)

    def test_manual_reads(self):
        if not shutil.which("man"):
            self.skipTest("there is no man")
        checked = subprocess.run(["man", "--warnings", "-l", "-Tutf8", source / "ortrain.1"], capture_output=True, text=True,
                                 env=environment)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        text = re.sub(r".\x08|\x1b\[[\d;]*m", "", checked.stdout)
        for line in ("       --max-grad-norm=X", "       -b N, --batch=N", "       -i NAME=FILE.npy, --input=NAME=FILE.npy"):
            self.assertIn("\n" + line + "\n", text)

    def complete(self, *words):
        line = " ".join(shlex.quote(word) for word in words)
        script = (f"source {shlex.quote(str(source / 'ortrain.bash'))}; COMP_WORDS=({line}); "
                  f"COMP_CWORD={len(words) - 1}; _ortrain; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=folder, env=environment)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_completion(self):
        self.assertEqual(self.complete("ortrain", ""), COMMANDS + ["--help", "--version"])
        self.assertEqual(self.complete("ortrain", "de"), ["devices"])
        for command in COMMANDS:
            self.assertEqual({word[2:] for word in self.complete("ortrain", command, "--")}, options_of(command) | {"help"})
        self.assertEqual(self.complete("ortrain", "train", "--optimizer", "ada"), ["adam", "adamw", "adagrad"])
        self.assertIn("bce-with-logits", self.complete("ortrain", "train", "--loss", "b"))
        self.assertEqual(self.complete("ortrain", "train", "--schedule", "c"), ["constant", "cosine"])
        self.assertEqual(self.complete("ortrain", "check", "cn"), ["cnn.onnx"])


class Errors(Failures):
    def test_usage(self):
        self.assertIn("trian", self.fails(2, "trian"))
        for command in COMMANDS:
            self.assertIn("--no-such-option", self.fails(2, command, "--no-such-option"))
            if command not in ("devices",):
                self.fails(2, command)
        data = ["--data", "train.images,train.labels"]
        self.assertIn("Unexpected argument 'second'", self.fails(2, "check", "cnn.onnx", "second", "third"))
        self.assertIn("An argument is missing", self.fails(2, "check"))
        self.assertIn("--data", self.fails(2, "train", "cnn.onnx"))
        for option, value in (("epochs", "0"), ("epochs", "many"), ("batch-size", "0"), ("threads", "-1"), ("seed", "-3"),
                              ("learning-rate", "nan"), ("learning-rate", "-1"), ("max-grad-norm", "-1"), ("loss", "none"),
                              ("optimizer", "adamx"), ("optimizer-state", "int4"), ("schedule", "never"), ("patience", "-1"), ("weight-decay", "-1"), ("momentum", "0.9"), ("accumulation-steps", "-1"), ("label-smoothing", "2"),
                              ("warm-up", "-2"), ("warm-up", "2ages"), ("warm-up", "-1epochs"), ("validation-split", "1"), ("immediate-updates", "never")):
            message = self.fails(2, "train", "cnn.onnx", *data, f"--{option}={value}")
            self.assertTrue(option in message or value in message, message)
        self.fails(2, "eval", "cnn.onnx", *data, "--batch-size", "0")
        self.fails(2, "eval", "cnn.onnx")
        self.fails(2, "run", "cnn.onnx", "--input", "image")
        self.fails(2, "bench", "cnn.onnx", "--steps", "0")
        self.fails(2, "bench", "cnn.onnx", "--optimizer", "adamx")
        self.fails(2, "plan", "cnn.onnx", "--batch", "-2")
        self.fails(2, "plan", "cnn.onnx", "--csv", "x")
        self.fails(2, "new", "vae", "x.onnx")
        self.assertFalse(os.path.exists(path("x.onnx")))

    def test_what_was_meant(self):
        for word, meant in (("--lr", "learning-rate"), ("--epoch", "epochs"), ("--bach-size=4", "batch-size"), ("--learnign-rate=1", "learning-rate"),
                            ("--weight_decay", "weight-decay"), ("--wd", "weight-decay")):
            out, err = ortrain("train", "cnn.onnx", "--data", "x.npz", word, "1", status=2)
            self.assertEqual(err.splitlines()[0], f"ortrain: Unknown option {word}; did you mean --{meant}?")
        for word in ("--purple", "--x", "-x", "--" + "e" * 5000, "--="):
            out, err = ortrain("train", "cnn.onnx", "--data", "x.npz", word, status=2)
            self.assertNotIn("did you mean", err)

    def test_files(self):
        with open(path("cut.onnx"), "wb") as file:
            file.write(open(path("cnn.onnx"), "rb").read()[:-50])
        for command in ("check", "info", "plan", "bench"):
            self.assertIn("absent.onnx", self.fails(1, command, "absent.onnx"))
            self.fails(1, command, "cut.onnx")
        for begin, hint in ((b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"), (b"PK\3\4\0\0", "torch.onnx.export"), (b"\x80\2c", "pickle"),
                            (b"\x89HDF\r\n", "Keras"), (b"<html>404", "web page"), (b"\x1f\x8b\x08", "gzip")):
            with open(path("other.onnx"), "wb") as file:
                file.write(begin)
            self.assertIn(hint, self.fails(1, "check", "other.onnx"))
        self.assertIn("absent.npz", self.fails(1, "train", "cnn.onnx", "--data", "absent.npz"))
        self.assertIn("absent", self.fails(1, "train", "cnn.onnx", "--data", "absent.images,absent.labels"))
        self.assertIn("cnn.onnx", self.fails(1, "train", "cnn.onnx", "--data", "cnn.onnx"))
        data = ["--data", "train.images,train.labels"]
        self.assertIn("nothing", self.fails(1, "train", "cnn.onnx", *data, "--output", "nothing"))
        self.assertIn("nothing", self.fails(1, "train", "cnn.onnx", *data, "--trainable", "nothing.*"))
        self.assertIn("nothing", self.fails(1, "eval", "cnn.onnx", *data, "--output", "nothing"))
        self.assertIn("absent.npy", self.fails(1, "run", "cnn.onnx", "--input", "image=absent.npy"))
        self.assertIn("image", self.fails(1, "run", "cnn.onnx"))
        self.assertIn("absent", self.fails(1, "export", "absent", "out.onnx"))
        self.assertIn("no/such", self.fails(1, "plan", "cnn.onnx", "--svg", "no/such/plan.svg"))
        self.assertIn("no/such", self.fails(1, "new", "cnn", "no/such/cnn.onnx"))
        out, err = ortrain("verify", "absent", status=1)
        self.assertRegex(out, r"^FAIL absent: .*\n0 passed, 1 failed, 0 skipped\n$")

    def test_new(self):
        """Models for tables and for pictures; what is wrong is named."""
        out, err = ortrain("new", "mlp", "wine.onnx", "--features", "5", "--hidden", "8, 4", "--classes", "1")
        self.assertEqual(out, "wine.onnx: %d parameters\n" % (5 * 8 + 8 + 8 * 4 + 4 + 4 + 1))
        out, err = ortrain("info", "wine.onnx")
        self.assertIn("x: float32 [batch, 5]", out)
        self.assertIn("logits: float32 [batch, 1]", out)
        for arguments, reason in ((("cnn", "--features", "5"), "--features is of an mlp"), (("cnn", "--hidden", "5"), "--hidden is of an mlp"),
                                  (("mlp", "--features", "5", "--size", "8"), "--features takes the place of --size"),
                                  (("mlp", "--features", "-1"), "--features -1"), (("mlp", "--size", "3"), "a table has --features"),
                                  (("mlp", "--hidden", "8,"), "--hidden 8,: sizes of layers"), (("mlp", "--classes", "0"), "--classes 0"),
                                  (("cnn", "--channels", "-1"), "--channels -1"), (("tree",), "there are cnn and mlp")):
            self.assertIn(reason, self.fails(2, "new", arguments[0], "no.onnx", *arguments[1:]))
        self.assertIn("'x'", self.fails(1, "run", "wine.onnx"))

    def test_no_outputs(self):
        """Valid protobuf, a graph without outputs: told, by every command that needs one."""
        graph = node(b"Relu", [b"x"], b"y") + field(2, b"g") + field(11, value(b"x", 2))
        with open(path("none.onnx"), "wb") as file:
            file.write(b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x11"))
        for command in (["plan"], ["bench"], ["train", "--data", "train.images,train.labels"], ["eval", "--data", "train.images,train.labels"]):
            self.assertIn("no outputs", self.fails(1, command[0], "none.onnx", *command[1:]))
        ortrain("info", "none.onnx")
        self.assertIn("no output", ortrain("check", "none.onnx", status=1)[0])

    def test_arena(self):
        """Values from an arena: the same losses; a limit that is kept; an option that there is not."""
        bench = ("bench", "cnn.onnx", "--batch", "4", "--steps", "2", "--threads", "1")
        losses = {ortrain(*bench, *more)[0].split(", loss ")[1] for more in ((), ("--arena=",), ("--arena=shrink=1",))}
        self.assertEqual(len(losses), 1)
        self.assertIn("the limit is 1.00 KiB", self.fails(1, *bench, "--arena", "max_mem=1KiB"))
        self.assertIn("'bins=1': the names are", self.fails(1, *bench, "--arena", "bins=1"))

    def test_unknown_branch(self):
        """An operator that is not known stands where the loss does not need it: the commands do what the library does."""
        save("branch.onnx", [node(b"MatMul", [b"x", b"w"], b"y"), node(b"Mystery", [b"x"], b"z", b"com.example")], [tensor(b"w", 6, 3)],
             [value(b"x", b"n", 6)], [value(b"y", b"n", 3), value(b"z", b"n", 6)])
        data = npz("branch.npz", x=("f", (8, 6), [i % 7 / 7 for i in range(48)]), labels=("q", (8,), [i % 3 for i in range(8)]))
        note = "Note: Output 'z' is not computed: com.example::Mystery 'mystery'"
        self.assertIn(note, ortrain("train", "branch.onnx", "--data", data, "--export", "grown.onnx")[0])
        table = ",".join("abcdef") + ",labels\n" + "0.5,1,2,3,4,5.5,0\n" * 4 + "1,1,1,1,1,1,2\n"
        with open(path("branch.csv"), "w") as file:
            file.write(table)
        ortrain("train", "branch.onnx", "--data", "branch.csv", "--export", "grown.onnx")
        self.assertIn("Memory plan", ortrain("plan", "branch.onnx")[0])
        self.assertIn("a step", ortrain("bench", "branch.onnx", "--steps", "1")[0])
        self.assertIn("Outputs     y: float32 [n, 3]\n            z: float32 [n, 6]\n", ortrain("info", "branch.onnx")[0])
        info = strict(ortrain("info", "branch.onnx", "--json", "--parameters")[0])
        self.assertEqual([value["name"] for value in info["outputs"]], ["y", "z"])
        self.assertEqual([(tensor["name"], tensor["trained"]) for tensor in info["floating_tensors"]], [("w", True)])
        self.assertIn("trained               18  w float32 [6, 3]: ", ortrain("info", "branch.onnx", "--parameters")[0])
        self.assertIn("Mystery", ortrain("info", "branch.onnx", "--nodes")[0])
        # a loss on that branch, or what computes it, names the operator
        self.assertIn("Mystery", self.fails(1, "bench", "branch.onnx", "--output", "z", "--loss", "mse"))
        self.assertIn("of 8)", ortrain("eval", "branch.onnx", "--data", data)[0])
        self.assertIn("of 5)", ortrain("eval", "grown.onnx", "--data", "branch.csv", "--output", "y")[0])
        self.assertIn("Mystery", self.fails(1, "eval", "branch.onnx", "--data", data, "--output", "z"))
        with open(path("rows.npy"), "wb") as file:
            file.write(npy("f", (2, 6), [1] * 12))
        run = ["run", "branch.onnx", "--input", "x=rows.npy"]
        self.assertRegex(ortrain(*run, "--output", "y")[0], r"\Ay: .*\n\Z")
        self.assertIn("Mystery", self.fails(1, *run))
        self.assertIn("The model has no output 'w'", self.fails(1, *run, "--output", "w"))

    def test_hostile_names(self):
        """Names of a file never reach a terminal with control characters, and JSON and SVG are well-formed."""
        for name in (b"\x1b[31mred", b"two\nlines", "\u202eabc".encode(), b"\xff\xfe", b"<>&\"'", b"n" * 60000):
            x, w, y = name + b"x", name + b"w", name + b"y"
            kind = field(1, field(1, x) + field(1, w) + field(2, y) + field(3, name) + field(4, b"MatMul"))
            save("names.onnx", [kind], [tensor(w, 6, 3)], [value(x, name, 6)], [value(y, name, 3)])
            if name[0] == 0xff:
                self.assertIn("is not UTF-8", self.fails(1, "info", "names.onnx"))
                continue
            texts = [ortrain(*words) for words in (
                ("info", "names.onnx"), ("info", "names.onnx", "--parameters"), ("info", "names.onnx", "--nodes"), ("info", "names.onnx", "--dot"),
                ("check", "names.onnx"), ("plan", "names.onnx", "--svg", "names.svg"), ("plan", "names.onnx", "--html", "names.html"),
                ("bench", "names.onnx", "--steps", "1", "--loss", "mse"))]
            texts.append(("", self.fails(1, "run", "names.onnx")))
            texts.append(("", self.fails(1, "train", "names.onnx", "--data", npz("names.npz", other=("f", (2, 3), [0] * 6)), "--loss", "mse")))
            for line in "\n".join(out + err for out, err in texts).split("\n"):
                self.assertTrue(line.replace("\xa0", "").isprintable(), line[:2000])    # between a number and its unit
                self.assertLessEqual(len(line), 1024, line[:2000])
            for words in (("info", "names.onnx", "--json", "--parameters"), ("check", "names.onnx", "--json"), ("plan", "names.onnx", "--json")):
                strict(ortrain(*words)[0])
            xml.etree.ElementTree.parse(path("names.svg"))

    def test_diagnostics(self):
        """A model that cannot be trained: told by the status, with every reason."""
        graph = (node(b"Mystery", [b"x", b"w"], b"y", b"com.example") + field(2, b"g")
                 + field(5, b"\x08\x02\x10\x01" + field(8, b"w") + field(9, bytes(8))) + field(11, value(b"x", 2)) + field(12, value(b"y", 2)))
        with open(path("mystery.onnx"), "wb") as file:
            file.write(b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x11") + field(8, field(1, b"com.example") + b"\x10\x01"))
        out, err = ortrain("check", "mystery.onnx", status=1)
        self.assertIn("Mystery", out)
        report = json.loads(ortrain("check", "mystery.onnx", "--json", status=1)[0])
        self.assertEqual((report["trainable"], report["diagnostics"][0]["operator"]), (False, "Mystery"))
        self.assertIn("Mystery", self.fails(1, "train", "mystery.onnx", "--data", "train.images,train.labels"))

    def test_bench_on_given_inputs(self):
        """The first loss is that of the forward pass, and depends on nothing but what is given."""
        image = [((i * 7) % 11 - 5) / 4 for i in range(3 * 64)]
        for name, array in (("image.npy", ("f", (3, 1, 8, 8), image)), ("classes.npy", ("q", (3,), [0, 3, 1])), ("others.npy", ("q", (3,), [1, 0, 2]))):
            with open(path(name), "wb") as file:
                file.write(npy(*array))
        bench = ["bench", "cnn.onnx", "--steps", "2", "--json", "--input", "image=image.npy", "--input"]
        first = strict(ortrain(*bench, "bench.target=classes.npy")[0])
        self.assertEqual(first["losses"], strict(ortrain(*bench, "bench.target=classes.npy")[0])["losses"])
        self.assertNotEqual(first["losses"][0], strict(ortrain(*bench, "bench.target=others.npy")[0])["losses"][0])
        self.assertLess(first["losses"][-1], first["losses"][0])
        self.assertEqual((first["batch"], first["device_bytes"]), (3, 0))
        self.assertGreaterEqual(first["ms_until_first_step"], first["ms_create"])
        self.assertGreater(first["planned_ms"], 0)
        self.assertGreater(first["ms_host"], 0)
        self.assertGreater(first["ms_processor"], 0)
        self.assertNotIn("ms_ahead", first)  # the CPU's host waits
        self.assertIn("bench.target", self.fails(1, *bench[:-1]))
        self.assertIn("absent.npy", self.fails(1, *bench, "bench.target=absent.npy"))
        self.assertIn("NAME=FILE.npy", ortrain(*bench, "classes.npy", status=2)[1])
        self.assertIn("--batch", self.fails(2, *bench, "bench.target=classes.npy", "--batch", "3"))


class Json(unittest.TestCase):
    def test_all(self):
        self.assertEqual(strict(ortrain("check", "cnn.onnx", "--json")[0])["trainable"], True)
        tensors = strict(ortrain("info", "cnn.onnx", "--parameters", "--json")[0])["floating_tensors"]
        self.assertEqual(tensors, strict(ortrain("check", "cnn.onnx", "--json")[0])["floating_tensors"])
        self.assertEqual({tuple(tensor) for tensor in tensors}, {("name", "type", "shape", "elements", "trained", "certain", "reason")})
        info = strict(ortrain("info", "cnn.onnx", "--json")[0])
        self.assertEqual(sum(tensor["elements"] for tensor in tensors), info["parameters"])
        self.assertEqual([value["name"] for value in info["inputs"] + info["outputs"]], ["image", "logits"])
        self.assertGreater(info["parameters"], 100)
        words = [*TRAIN, "--export", "json.onnx", "--json", "--epochs", "2", "--validation-split", "0.25", "--log", "json.jsonl"]
        out, err = ortrain(*words)
        result = strict(out)
        lines = [json.loads(line) for line in pathlib.Path(path("json.jsonl")).read_text().splitlines()]
        wanted = [{name: item[name] for name in item if name not in ("event", "step")} for item in lines if item["event"] == "epoch"]
        self.assertEqual(result["epochs"], wanted)
        self.assertEqual((result["steps"], result["stopped_early"]), (len(lines) - 2, False))
        self.assertEqual(result["best_loss"], min(item["validation_loss"] for item in wanted))
        self.assertIn("Trained model: json.onnx", err)
        plan = strict(ortrain("plan", "cnn.onnx", "--batch", "4", "--json")[0])
        for key in ("arena_bytes", "lower_bound_bytes", "persistent_bytes", "peak_bytes", "recompute"):
            self.assertIn(key, plan)
        for block in plan["blocks"]:
            self.assertLessEqual({"name", "category", "offset", "bytes", "first", "last"}, block.keys())
            self.assertLessEqual(block["offset"] + block["bytes"], plan["arena_bytes"])
        self.assertEqual(plan["peak_bytes"], plan["arena_bytes"] + plan["persistent_bytes"])
        with open(path("buffers.csv"), "w") as file:
            file.write("id,lower,upper,size\n1,0,2,8\n2,1,3,8\n3,2,4,8\n")
        self.assertGreaterEqual(strict(ortrain("plan", "--csv", "buffers.csv", "--json")[0])["peak_bytes"], 16)
        bench = strict(ortrain("bench", "cnn.onnx", "--batch", "4", "--steps", "2", "--immediate-updates", "off", "--json")[0])
        at_once = strict(ortrain("bench", "cnn.onnx", "--batch", "4", "--steps", "2", "--json")[0])
        self.assertEqual(at_once["losses"], bench["losses"])
        self.assertLess(at_once["planned_peak_bytes"], bench["planned_peak_bytes"])
        # what train does by itself, and plan says
        kept = strict(ortrain("plan", "cnn.onnx", "--batch", "4", "--immediate-updates", "off", "--json")[0])
        self.assertLess(plan["peak_bytes"], kept["peak_bytes"])
        clips = {"ORTRAIN_MAX_GRAD_NORM": "1"}
        self.assertEqual(strict(ortrain("plan", "cnn.onnx", "--batch", "4", "--json", variables=clips)[0])["peak_bytes"], kept["peak_bytes"])
        text = ortrain("plan", "cnn.onnx", variables=clips)[0]
        self.assertRegex(text, r"(?m)^  gradients   kept until the update: max-grad-norm")
        self.assertEqual(text.count("max-grad-norm"), 1)
        self.assertNotIn("kept until the update", ortrain("plan", "cnn.onnx")[0])
        for key in ("ms_median", "ms_best", "planned_peak_bytes", "resident_peak_bytes"):
            self.assertGreater(bench[key], 0)
        self.assertEqual(len(bench["losses"]), 5)
        result = strict(ortrain("eval", "cnn.onnx", "--data", "test.images,test.labels", "--json")[0])
        self.assertEqual(result["items"], 100)
        self.assertTrue(0 <= result["accuracy"] <= 1 and result["loss"] > 0)
        devices = strict(ortrain("devices", "--json")[0])
        self.assertEqual((devices[0]["name"], devices[0]["index"]), ("cpu", 0))

    def test_no_number(self):
        """A loss that runs away is null: JSON has no other word for it."""
        bench = strict(ortrain("bench", "cnn.onnx", "--batch", "4", "--steps", "9", "--optimizer", "sgd", "--learning-rate",
                               "1e30", "--json")[0])
        self.assertIn(None, bench["losses"])

    def test_threads_of_the_environment(self):
        bench = ["bench", "cnn.onnx", "--batch", "4", "--steps", "1", "--json"]
        self.assertEqual(strict(ortrain(*bench, variables={"ORTRAIN_THREADS": "1"})[0])["threads"], 1)
        self.assertEqual(strict(ortrain(*bench, "--threads", "2", variables={"ORTRAIN_THREADS": "1"})[0])["threads"], 2)


class Work(unittest.TestCase):
    def test_run(self):
        with open(path("image.npy"), "wb") as file:
            file.write(npy("f", (2, 1, 8, 8), [0] * 128))
        out, _ = ortrain("run", "cnn.onnx", "--input", "image=image.npy", "--save", "out/puts")
        self.assertIn("logits: ", out)
        self.assertIn(b"(2, 4)", open(path("out/puts/logits.npy"), "rb").read()[:100])

    def test_plan(self):
        out, _ = ortrain("plan", "cnn.onnx", "--svg", "plan.svg", "--html", "plan.html")
        self.assertIn("peak", out)
        self.assertIn("<svg", open(path("plan.svg")).read())
        self.assertIn("<html", open(path("plan.html")).read())

    def test_optimizer_state(self):
        ortrain("new", "mlp", "mlp-784.onnx")
        states = [json.loads(ortrain("plan", "mlp-784.onnx", "--json", "--optimizer-state", name)[0])["persistent"]["state"]
                  for name in ("f32", "int8")]
        small = 2 * (1024 + 10240 + 64)     # of two biases and a matrix [10, 256], in float32
        self.assertEqual(states, [2 * 4 * 784 * 256 + small, 2 * 784 * 256 // 128 * 132 + small])
        self.assertIn("8 bits", ortrain("plan", "mlp-784.onnx", "--optimizer-state", "int8")[0])
        self.assertNotIn("8 bits", ortrain("plan", "mlp-784.onnx")[0])
        data = ("--data", "train.images,train.labels", "--optimizer", "adagrad", "--optimizer-state", "int8")
        self.assertIn("'state-precision'", ortrain("train", "cnn.onnx", *data, status=1)[1])

    def test_compare(self):
        """Two plans beside each other: models with options, or files."""
        small, _ = ortrain("plan", "cnn.onnx", "--batch", "4", "--json")
        with open(path("small.json"), "w") as file:
            file.write(small)
        pair = "small.json", "cnn.onnx --batch 8 --immediate-updates off"
        text, err = ortrain("plan", "--compare", *pair)
        self.assertEqual(err, "")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        found = json.loads(ortrain("plan", "--compare", *pair, "--json")[0])
        small, large = json.loads(small), json.loads(ortrain("plan", "cnn.onnx", "--batch", "8", "--immediate-updates", "off", "--json")[0])
        for side, plan in (("a", small), ("b", large)):
            for key in ("peak_bytes", "arena_bytes", "lower_bound_bytes", "persistent_bytes", "n_steps", "flops", "bytes_moved", "milliseconds", "peak"):
                self.assertEqual(found[side][key], plan[key], key)
            self.assertEqual({key: value for key, value in found[side]["persistent"].items() if value},
                             {key: value for key, value in plan["persistent"].items() if key != "constant"})
            kept = [block["bytes"] for block in plan["blocks"] if block["category"] == "activation"]
            self.assertEqual((found[side]["kept_activation_bytes"], found[side]["n_kept_activations"]), (sum(kept), len(kept)))
            self.assertEqual(found[side]["n_recomputed_steps"], len(plan["recompute"]))
            self.assertEqual(found[side]["recomputed_flops"], sum(plan["steps"][again["step"]]["flops"] for again in plan["recompute"]))
            live = sum(block["bytes"] for block in plan["blocks"] if block["first"] <= plan["peak"]["step"] <= block["last"])
            self.assertEqual(sum(each[f"{side}_bytes"] for each in found["live_at_peaks"]), live)
        self.assertEqual(found["change"]["peak_bytes"], large["peak_bytes"] - small["peak_bytes"])
        self.assertEqual(found["change"]["persistent"]["gradient"], large["persistent"]["gradient"])
        self.assertEqual((found["a"]["gradients_kept_because"], found["b"]["gradients_kept_because"]), (None, "immediate-updates is off"))
        self.assertIn("B  kept until the update: immediate-updates is off", text)
        self.assertRegex(text, r"(?m)^  +gradient +0 B +[\d.]+ KiB +\+[\d.]+ KiB$")
        self.assertRegex(text, rf"(?m)^  A  .* live at step {small['peak']['step']} of {small['n_steps']}, {small['peak']['phase']}$")

        for text in ("", " ", "[]", "{", "{} {}"):
            with open(path("nothing.json"), "w") as file:
                file.write(text)
            _, err = ortrain("plan", "--compare", "nothing.json", "cnn.onnx", status=1)
            self.assertIn("nothing.json", err)
        same, _ = ortrain("plan", "--compare", "cnn.onnx", "cnn.onnx", "--batch", "4")      # for both
        self.assertNotRegex(same, r"(?<!e)[+-]\d")
        self.assertIn("It is at the same node.", same)
        self.assertEqual(same, ortrain("plan", "--compare", "cnn.onnx", "cnn.onnx", "--batch=4")[0])
        # where activations, and not a workspace, make the peak: what would not save anything is kept
        row = next(row for row in json.loads(ortrain("plan", "cnn.onnx", "--recompute", "--json")[0])["clusters"] if not row["automatic"])
        again = json.loads(ortrain("plan", "--compare", "cnn.onnx", f"cnn.onnx --memory-opt-config '{row['configuration']}'", "--batch", "1024", "--json")[0])
        self.assertGreater(again["change"]["n_recomputed_steps"], 0)
        self.assertGreater(again["change"]["n_steps"], 0)
        shutil.copy(path("cnn.onnx"), path("two words.onnx"))
        ortrain("plan", "--compare", "two words.onnx", "'two words.onnx' --batch 2")

        def fails(status, *words):
            out, err = ortrain("plan", "--compare", *words, status=status)
            self.assertEqual((out, err[:9]), ("", "ortrain: "))
            return err

        for words in (["cnn.onnx"], ["cnn.onnx", "cnn.onnx", "cnn.onnx"], ["cnn.onnx", "cnn.onnx", "--svg", "x.svg"],
                      ["cnn.onnx", "cnn.onnx --batch 1,2"], ["cnn.onnx", "cnn.onnx other.onnx"], ["cnn.onnx", "cnn.onnx --batch x"]):
            fails(2, *words)
        self.assertIn("'cnn.onnx --bach 4': Unknown option --bach", fails(2, "cnn.onnx --bach 4", "cnn.onnx"))
        self.assertIn("takes no options", fails(2, "small.json --batch 4", "cnn.onnx"))
        self.assertIn("no.onnx", fails(1, "cnn.onnx", "no.onnx"))
        self.assertIn("no.json", fails(1, "cnn.onnx", "no.json"))
        for wrong, member in (({"a": 1}, "peak_bytes"), (small | {"blocks": [1]}, "blocks"), (small | {"flops": "x"}, "flops"),
                              (small | {"peak_bytes": -1}, "peak_bytes"), (small | {"peak": {"step": 1.5, "live_bytes": 1}}, "step"), ([], "peak_bytes")):
            with open(path("wrong.json"), "w") as file:
                json.dump(wrong, file)
            self.assertIn(f"its member '{member}' is missing or wrong", fails(1, "wrong.json", "cnn.onnx"))
        with open(path("wrong.json"), "w") as file:
            file.write("[")
        self.assertIn("wrong.json", fails(1, "cnn.onnx", "wrong.json"))

    def test_device(self):
        """The roofline model, calculated here once more from the steps of the plan."""
        device = {"name": "a box", "bytes_per_second": 2e9, "flops_per_second": {"float32": 1e11, "bfloat16": 4e11},
                  "reached": {"bytes": 0.5, "flops": 0.8}, "launch_seconds": 1e-5}
        with open(path("box.json"), "w") as file:
            json.dump(device, file)
        for precision in ("f32", "bf16"):
            words = ["plan", "cnn.onnx", "--batch", "16", "--precision", precision, "--json"]
            steps = json.loads(ortrain(*words)[0])["steps"]
            said = json.loads(ortrain(*words, "--device", "box.json")[0])
            times, phases = collections.Counter(), collections.Counter()
            for step in steps:
                speed = device["flops_per_second"].get(step["dtype"], 1e11) * 0.8
                seconds = max(step["flops"] / speed, step["bytes_moved"] / 1e9) + 1e-5
                times[step["operator"]] += 1e3 * seconds
                phases[step["phase"]] += 1e3 * seconds
            self.assertEqual({row["operator"] for row in said["operators"]}, set(times))
            for row in said["operators"]:
                self.assertAlmostEqual(row["milliseconds"], times[row["operator"]], places=9)
                self.assertEqual(row["calls"], sum(step["operator"] == row["operator"] for step in steps))
            self.assertAlmostEqual(said["milliseconds"], sum(times.values()), places=9)
            for phase in ("forward", "backward", "update"):
                self.assertAlmostEqual(said[f"{phase}_milliseconds"], phases[phase], places=9)
            self.assertAlmostEqual(said["samples_per_second"], 16e3 / said["milliseconds"], places=6)
            if precision == "bf16":
                self.assertIn("bfloat16", {step["dtype"] for step in steps})
        with open(path("profile.tsv"), "w") as file:
            file.write("step\tms\n" + "".join(f"{i}\t0.5\n" for i in range(len(steps))))
        said = json.loads(ortrain(*words, "--device", "box.json", "--profile", "profile.tsv")[0])
        self.assertAlmostEqual(said["measured_milliseconds"], 0.5 * len(steps))
        table, _ = ortrain("plan", "cnn.onnx", "--batch", "16", "--device", "h100")
        self.assertIn("H100", table)
        self.assertIn("samples in a second", table)
        for wrong in ({"bytes_per_second": 0}, {"flops_per_second": {"bfloat16": 1}}, {"flops_per_second": {"float32": 1, "x": 1}},
                      {"reached": {"bytes": 1.5}}, {"launch_seconds": "x"}):
            with open(path("wrong.json"), "w") as file:
                json.dump(device | wrong, file)
            out, err = ortrain("plan", "cnn.onnx", "--device", "wrong.json", status=1)
            self.assertEqual((out, err[:9]), ("", "ortrain: "))
            self.assertIn("has to be", err)
        self.assertIn("h100, h200", ortrain("plan", "cnn.onnx", "--device", "h999", status=2)[1])
        with open(path("profile.tsv"), "w") as file:
            file.write("step\tms\n100000\t1\n")
        self.assertIn("of another model", ortrain("plan", "cnn.onnx", "--device", "h100", "--profile", "profile.tsv", status=1)[1])
        ortrain("plan", "cnn.onnx", "--profile", "profile.tsv", status=2)

    def test_recompute(self):
        table, _ = ortrain("plan", "cnn.onnx", "--batch", "4", "--recompute")
        self.assertRegex(table, r"(?m)^Memory Optimizer : OFF : level 0")
        self.assertRegex(table, r"(?m)^Plan 1 +: (OFF|AUTO) +: \S+\+:1:-1 +: +\d+ : +[\d,]+ : .*batch")
        self.assertRegex(table, r"(?m)^Peak of the plan: (\d+) bytes as asked for; level 0: \1; level 1: \d+; level 2: \d+$")
        self.assertIn("Stashed Activations", ortrain("plan", "cnn.onnx", "--recompute=details")[0])
        rows = json.loads(ortrain("plan", "cnn.onnx", "--batch", "1024", "--recompute", "--json")[0])["clusters"]
        row = next(row for row in rows if not row["automatic"])
        self.assertEqual((row["enabled"], row["request_count"], row["recomputed"]), (False, 0, 0))
        words = ("plan", "cnn.onnx", "--batch", "1024", "--memory-opt-config", row["configuration"], "--recompute")
        self.assertRegex(ortrain(*words)[0], r"(?m)^Memory Optimizer : ON : level 0 \(plans\), ")
        steps = json.loads(ortrain(*words[:-1], "--json")[0])["recompute"]
        self.assertGreater(len(steps), len(json.loads(ortrain("plan", "cnn.onnx", "--batch", "1024", "--json")[0])["recompute"]))
        for name in ("ORTRAIN", "ORTMODULE"):
            variables = {f"{name}_MEMORY_OPT_CONFIG": row["configuration"]}
            self.assertIn(" : ON ", ortrain("plan", "cnn.onnx", "--recompute", variables=variables)[0])
        self.assertIn("it has ", ortrain("plan", "cnn.onnx", "--memory-opt-config", "Nothing+:1:-1", status=1)[1])
        self.assertIn("three fields", ortrain("plan", "cnn.onnx", "--memory-opt-config", "Nothing+:1", status=1)[1])
        for words in (("--memory-opt-level", "3"), ("--recompute=everything",)):
            self.assertIn("not ", ortrain("plan", "cnn.onnx", *words, status=2)[1])

    def test_sizes(self):
        """plan and bench take sizes that the model takes, and say so where they are not the default ones."""
        taken = "ortrain: The model does not accept --batch {} --seq 64; using --batch {} --seq {}\n"

        def check(name, plan, bench):
            for command, sizes in ((["plan"], plan), (["bench", "--steps", "1"], bench)):
                err = ortrain(*command, name)[1]
                self.assertEqual(err, taken.format(1 if command[0] == "plan" else 64, *sizes) if sizes else "", name)

        y = [value(b"y", b"rows", b"columns")]
        # parts of 96
        save("parts.onnx", [node(b"Reshape", [b"x", b"shape"], b"p"), node(b"MatMul", [b"p", b"w"], b"y")],
             [tensor(b"shape", 2, ints=[-1, 96]), tensor(b"w", 96, 4)], [value(b"x", b"n", b"t")], y)
        check("parts.onnx", (1, 96), (64, 96))
        self.assertEqual(ortrain("plan", "parts.onnx", "--dim", "t=192")[1], "")
        self.assertEqual(ortrain("plan", "parts.onnx", "--dim", "t=48", "--dim=n=2")[1], "")
        self.assertEqual(ortrain("bench", "parts.onnx", "--seq", "192", "--steps", "1", "--batch", "3")[1], "")
        for words in (["--seq", "100"], ["--dim", "t=100"]):
            out, err = ortrain("plan", "parts.onnx", "--batch", "1", *words, status=1)
            self.assertRegex(err, r"^ortrain: (Found no sizes that the model accepts; set them with --batch, --seq and --dim.*)?Reshape 'reshape'")
        self.assertIn("ortrain: --dim: no input has a symbolic dimension 'u'; they are 'n', 't'\n", ortrain("plan", "parts.onnx", "--dim", "u=3", status=2)[1])
        for wrong in ("t", "t=0", "t=many", "t=-1"):
            self.assertIn("--dim takes NAME=SIZE", ortrain("bench", "parts.onnx", "--dim", wrong, status=2)[1])
        # a window of 100, and classes along what it leaves
        save("window.onnx", [node(b"Conv", [b"x", b"w"], b"y")], [tensor(b"w", 4, 1, 100)], [value(b"x", b"n", 1, b"t")], [value(b"y", b"a", b"b", b"c")])
        check("window.onnx", (1, 128), (64, 128))
        # sizes of different names that have to be equal
        save("equal.onnx", [node(b"MatMul", [b"a", b"b"], b"c"), node(b"MatMul", [b"c", b"w"], b"y")], [tensor(b"w", 64, 4)],
             [value(b"a", b"p", b"q"), value(b"b", b"r", b"s")], y)
        check("equal.onnx", (64, 64), None)
        self.assertEqual(ortrain("plan", "equal.onnx", "--dim", "q=7", "--dim", "r=7")[1], "")
        # one name at different places
        save("places.onnx", [node(b"Add", [b"x", b"mask"], b"c"), node(b"MatMul", [b"c", b"w"], b"y")], [tensor(b"w", 64, 4)],
             [value(b"x", b"n", b"t"), value(b"mask", b"t")], y)
        check("places.onnx", None, None)
        self.assertEqual(ortrain("bench", "places.onnx", "--steps", "1", "--batch", "4")[1], "")
        # a batch that a state fixes
        save("state.onnx", [node(b"Add", [b"x", b"state"], b"c"), node(b"Reshape", [b"c", b"shape"], b"d"), node(b"MatMul", [b"d", b"w"], b"y")],
             [tensor(b"w", 8, 4), tensor(b"shape", 2, ints=[1, 8])], [value(b"x", b"n", 8), value(b"state", 1, 8)], y)
        check("state.onnx", None, (1, 64))
        self.assertIn("Reshape 'reshape'", ortrain("bench", "state.onnx", "--batch", "2", status=1)[1])
        self.assertEqual(strict(ortrain("bench", "state.onnx", "--steps", "1", "--json")[0])["batch"], 1)
        # integers that two tables are read at: those that both have
        save("tables.onnx", [node(b"Mul", [b"ids", b"one"], b"same"), node(b"Gather", [b"many", b"same"], b"a"), node(b"Gather", [b"few", b"same"], b"b"),
                             node(b"Add", [b"a", b"b"], b"y")],
             [tensor(b"one", 1, ints=[1]), tensor(b"many", 400, 8), tensor(b"few", 2, 8)], [value(b"ids", b"n", b"t", dtype=INT64)], [value(b"y", b"n", b"t", 8)])
        check("tables.onnx", None, None)
        for loss in ("mse", "l1", "bce-with-logits"):
            ortrain("bench", "tables.onnx", "--steps", "1", "--batch", "2", "--loss", loss)

        # a number that decides: one that the model compares it with
        save("rate.onnx", [node(b"Equal", [b"rate", b"known"], b"c"), node(b"Where", [b"c", b"right", b"wrong"], b"shape"),
                           node(b"Reshape", [b"x", b"shape"], b"d"), node(b"MatMul", [b"d", b"w"], b"y")],
             [tensor(b"known", ints=[16000]), tensor(b"right", 2, ints=[-1, 8]), tensor(b"wrong", 2, ints=[-1, 7]), tensor(b"w", 8, 4)],
             [value(b"x", b"n", 8), value(b"rate", dtype=INT64)], y)
        check("rate.onnx", None, None)

    def test_info_of_open_sizes(self):
        save("unnamed.onnx", [node(b"Relu", [b"x"], b"y"), node(b"Relu", [b"a"], b"b")], [], [value(b"x", b"", b"?", 3), value(b"a", b"n")],
             [value(b"y", b"", b"", 3), value(b"b", b"n")])
        out, _ = ortrain("info", "unnamed.onnx")
        self.assertRegex(out, r"(?m)^Inputs +x: float32 \[\?1, \?2, 3\]$")
        self.assertIn("\n            ?1, ?2, ?3, ?4: sizes that the file does not name\n", out)
        save("named.onnx", [node(b"Relu", [b"a"], b"b")], [], [value(b"a", b"n")], [value(b"b", b"n")])
        self.assertNotIn("does not name", ortrain("info", "named.onnx")[0])

    def test_info(self):
        self.assertIn("image", ortrain("info", "cnn.onnx")[0])
        plain = subprocess.run(["ortrain", "info", "cnn.onnx"], capture_output=True, text=True, cwd=folder, env=environment | {"LC_ALL": "C"})
        self.assertRegex(plain.stdout, r"^Model       cnn\.onnx, [\d.]+ KiB\n")      # in a bare system there is no locale
        self.assertIn("Conv", ortrain("info", "cnn.onnx", "--nodes")[0])
        self.assertRegex(ortrain("info", "cnn.onnx", "--parameters")[0],
                         r"(?m)^trained +\d+  \S+ float32 \[.*\]: weight of Conv '[\s\S]*^not trained +\d+ .*: running "
                         r"statistic of BatchNormalization '[\s\S]*^\d+ tensors with \d+ elements are trained, \d+ with ")
        self.assertTrue(ortrain("info", "cnn.onnx", "--dot")[0].startswith("digraph"))
        exported = str(pathlib.Path(__file__).resolve().parent.parent / "data/fixtures/distilbert/model.onnx")
        self.assertRegex(ortrain("info", exported, "--parameters")[0],
                         r"(?m)^trained +\d+  val_80 \(model\.distilbert\.transformer\.layer\.0\.attention\.q_lin\.weight\) float32 ")

    def test_verify(self):
        """ONNX's tests against the list in the program; Abs of one number stands for whatever a test has."""
        def make_test(name, kind, *elements):
            os.makedirs(path(f"onnx/{name}/test_data_set_0"), exist_ok=True)
            save(f"onnx/{name}/model.onnx", [node(kind, [b"x"], b"y")], [], [value(b"x", 2)], [value(b"y", 2)])
            for part, numbers in (("input_0", (-1, 2)), ("output_0", elements)):
                with open(path(f"onnx/{name}/test_data_set_0/{part}.pb"), "wb") as file:
                    file.write(field(8, b"x") + b"\x08" + varint(len(numbers)) + bytes([16, FLOAT]) + field(9, struct.pack(f"<{len(numbers)}f", *numbers)))
            return "onnx/" + name

        def verify(expected, *words, status=0):
            out, err = ortrain("verify", *words, status=status)
            self.assertRegex(out, "^" + expected.replace("\n", "\\n") + "$")
            return err

        listed = [line for line in open(source / "onnx-tests") if not line.startswith("#")]
        self.assertGreater(len(listed), 1000)
        self.assertEqual([line for line in listed if not re.match(r"(PASS test_\w+|(SKIP|DIFF|FAIL) test_\w+: .+)\n", line)], [])
        # as the list has them
        self.assertIn("PASS test_abs\n", listed)
        verify("PASS test_abs\n1 passed, 0 failed, 0 skipped\n", make_test("test_abs", b"Abs", 1, 2))
        verify("SKIP test_qlinearconv: QLinearConv is not .+\n0 passed, 0 failed, 1 skipped\n", make_test("test_qlinearconv", b"QLinearConv", 1, 2))
        verify("SKIP test_bernoulli: .+ at random.+\n0 passed, 0 failed, 1 skipped\n", make_test("test_bernoulli", b"Abs", 1, 3))
        # no longer, and now
        verify("FAIL test_abs: .+is 2 instead of 3.+\n0 passed, 1 failed, 0 skipped\n", make_test("test_abs", b"Abs", 1, 3), status=1)
        verify("FAIL test_abs: .+SKIP, and PASS in the list.\n0 passed, 1 failed, 0 skipped\n", make_test("test_abs", b"QLinearConv", 1, 2), status=1)
        verify("FAIL test_bernoulli: .+\n0 passed, 1 failed, 0 skipped\n", make_test("test_bernoulli", b"Abs", 1), status=1)
        verify("FAIL test_bernoulli: .+\n0 passed, 1 failed, 0 skipped\n", make_test("test_bernoulli", b"QLinearConv", 1, 2), status=1)
        verify("FAIL test_qlinearconv: .+\n0 passed, 1 failed, 0 skipped\n", make_test("test_qlinearconv", b"Abs", 1, 3), status=1)
        for words in ([], ["--quiet"], ["--listed"]):
            verify(("" if words == ["--quiet"] else "PASS test_qlinearconv\n") + "NEW  test_qlinearconv: .+ SKIP: .+\n1 passed, 0 failed, 0 skipped\n",
                   *words, make_test("test_qlinearconv", b"Abs", 1, 2))
        # what it does not have
        verify("PASS test_own\n1 passed, 0 failed, 0 skipped\n", make_test("test_own", b"Abs", 1, 2))
        verify("NEW  test_own: PASS\n0 passed, 0 failed, 0 skipped\n", "--listed", "onnx/test_own")
        verify("FAIL test_own: .+\n0 passed, 1 failed, 0 skipped\n", make_test("test_own", b"Abs", 1, 3), status=1)
        verify("NEW  test_own: DIFF, .+\n0 passed, 0 failed, 0 skipped\n", "--listed", "onnx/test_own")
        err = verify("SKIP test_own: .+\n0 passed, 0 failed, 1 skipped\n", make_test("test_own", b"QLinearConv", 1, 2), status=1)
        self.assertIn("1 of the skipped are not in the list", err)
        verify("NEW  test_own: SKIP, .+\n0 passed, 0 failed, 0 skipped\n", "--listed", "onnx/test_own")


if __name__ == "__main__":
    main()
