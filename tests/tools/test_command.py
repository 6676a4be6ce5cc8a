# SPDX-License-Identifier: LGPL-2.1-or-later
"""The `ortrain` command as a user meets it: test_command.py ORTRAIN."""
import atexit
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import xml.etree.ElementTree
import zipfile
import zlib

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
from tap import main

program = os.path.abspath(sys.argv.pop(1))
source = here.parent.parent / "tools" / "ortrain"
folder = tempfile.mkdtemp(prefix="ortrain-command-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
environment = {name: value for name, value in os.environ.items() if not name.startswith("ORTRAIN_")}
environment |= {"PATH": os.path.dirname(program) + ":" + os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm"}
environment.pop("G_MESSAGES_DEBUG", None)


def path(name):
    return os.path.join(folder, name)


def ortrain(*words, status=0, variables={}):
    """Runs it, and gives what it printed on both outputs."""
    done = subprocess.run(["ortrain", *words], capture_output=True, text=True, cwd=folder, timeout=240,
                          env=environment | variables)
    assert done.returncode == status, f"{words}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def make_images(name, n, times=1):
    """An IDX pair: 8 × 8 pictures with a bright quarter, which is the label; all of them as often as is said."""
    labels = bytes((i * 7 + i // 5) % 4 for i in range(n))
    pixels = bytearray()
    for i, label in enumerate(labels):
        for y in range(8):
            for x in range(8):
                pixels.append(200 if (y // 4) * 2 + x // 4 == label else (i * 31 + y * 8 + x) % 90)
    with open(path(name + ".images"), "wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, n * times, 8, 8) + pixels * times)
    with open(path(name + ".labels"), "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, n * times) + labels * times)
    return f"{name}.images,{name}.labels"


def npy(kind, shape, values):
    """A NumPy file: kind is one of struct's letters."""
    names = {"f": "<f4", "d": "<f8", "q": "<i8"}
    header = f"{{'descr': '{names[kind]}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}{kind}", *values)


def npz(name, **arrays):
    with zipfile.ZipFile(path(name), "w") as file:
        for key, array in arrays.items():
            file.writestr(key + ".npy", npy(*array))
    return name


def setUpModule():
    ortrain("new", "cnn", "cnn.onnx", "--classes", "4", "--size", "8", "--seed", "3")
    make_images("train", 512)
    make_images("test", 100)


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, payload):
    """A field of a protobuf message, in bytes."""
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def node(kind, inputs, output, domain=b""):
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, kind.lower()) + field(4, kind) + field(7, domain))


FLOAT, INT64 = 1, 7


def value(name, *dims, dtype=FLOAT):
    """A ValueInfoProto of these dimensions, numbers or names."""
    shape = b"".join(field(1, field(2, dim) if isinstance(dim, bytes) else b"\x08" + varint(dim)) for dim in dims)
    return field(1, name) + field(2, field(1, bytes([8, dtype]) + field(2, shape)))


def tensor(name, *dims, ints=None):
    """A TensorProto: int64 if there are ints, else small floats that vary."""
    n = 1
    for dim in dims:
        n *= dim
    raw = struct.pack(f"<{n}q", *ints) if ints is not None else struct.pack(f"<{n}f", *((i * i % 97 - 48) / 400 for i in range(n)))
    return b"".join(b"\x08" + varint(dim) for dim in dims) + bytes([16, INT64 if ints is not None else FLOAT]) + field(8, name) + field(9, raw)


def save(name, nodes, initializers, inputs, outputs):
    """Writes a ModelProto with operators of set 17, and of a domain that nobody knows."""
    graph = (b"".join(nodes) + field(2, b"g") + b"".join(field(5, each) for each in initializers) + b"".join(field(11, each) for each in inputs)
             + b"".join(field(12, each) for each in outputs))
    with open(path(name), "wb") as file:
        file.write(b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x11") + field(8, field(1, b"com.example") + b"\x10\x01"))
    return name


TRAIN = ["train", "cnn.onnx", "--data", "train.images,train.labels", "--output", "logits", "--batch-size", "32",
         "--seed", "5", "--threads", "1"]
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


class Errors(unittest.TestCase):
    def fails(self, status, *words):
        out, err = ortrain(*words, status=status)
        lines = err.splitlines()
        self.assertTrue(lines[0].startswith("ortrain: ") and len(lines[0]) > 20, err)
        self.assertLessEqual(len(lines), 2 if status == 2 else 1, err)
        if len(lines) == 2:
            self.assertTrue(lines[1].startswith(f"Usage: ortrain {words[0]} "), err)
        self.assertEqual(out, "")
        return lines[0]

    def test_usage(self):
        self.assertIn("trian", self.fails(2, "trian"))
        for command in COMMANDS:
            self.assertIn("--no-such-option", self.fails(2, command, "--no-such-option"))
            if command not in ("devices",):
                self.fails(2, command)
        data = ["--data", "train.images,train.labels"]
        self.fails(2, "check", "cnn.onnx", "cnn.onnx")
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

    def test_files(self):
        with open(path("cut.onnx"), "wb") as file:
            file.write(open(path("cnn.onnx"), "rb").read()[:-50])
        for command in ("check", "info", "plan", "bench"):
            self.assertIn("absent.onnx", self.fails(1, command, "absent.onnx"))
            self.fails(1, command, "cut.onnx")
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

    def test_data(self):
        """Archives: what is there and what is missing, before anything is trained."""
        ortrain("new", "mlp", "mlp.onnx", "--classes", "3", "--size", "4", "--hidden", "8")
        x, labels = [i * 37 % 101 / 101 for i in range(40 * 16)], [i % 3 for i in range(40)]
        good = {"x": ("f", (40, 16), x), "labels": ("q", (40,), labels)}
        train = ["train", "mlp.onnx", "--batch-size", "8", "--threads", "1", "--export", "trained.onnx"]
        ortrain(*train, "--data", npz("good.npz", **good), "--export", "good.onnx")
        for name, changed in (("more.npz", good | {"notes": ("q", (2,), [1, 2])}),          # what nobody reads may be there
                              ("double.npz", good | {"x": ("d", (40, 16), [struct.unpack("f", struct.pack("f", v))[0] for v in x])})):
            ortrain(*train, "--data", npz(name, **changed), "--export", name + ".onnx")
            self.assertEqual(open(path(name + ".onnx"), "rb").read(), open(path("good.onnx"), "rb").read(), name)
            self.assertIn("accuracy", ortrain("eval", "mlp.onnx", "--data", name)[0])
        missing = npz("missing.npz", pictures=good["x"], labels=good["labels"])
        for message in (self.fails(1, *train, "--data", missing), self.fails(1, *train, "--data", "good.npz", "--validation", missing),
                        self.fails(1, "eval", "mlp.onnx", "--data", missing)):
            self.assertIn("missing.npz has no array 'x'; it has 'pictures', 'labels'", message)
        self.assertIn("'classes'", self.fails(1, *train, "--data", "good.npz", "--target", "classes"))
        self.assertIn("40", self.fails(1, *train, "--data", npz("short.npz", x=good["x"], labels=("q", (20,), labels[:20]))))
        self.assertIn("no items", self.fails(1, *train, "--data", npz("none.npz", x=("f", (0, 16), []), labels=("q", (0,), []))))
        self.assertIn("16", self.fails(1, *train, "--data", npz("wide.npz", x=("f", (20, 32), x), labels=("q", (20,), labels[:20]))))
        far = npz("far.npz", x=good["x"], labels=("q", (40,), [9] * 40))
        self.assertIn("out of range", self.fails(1, *train, "--data", far))
        self.assertIn("Item 0: label 9 is out of range", self.fails(1, "eval", "mlp.onnx", "--data", far))
        # places to write to are looked at before hours are spent
        self.assertIn("no/such/out.onnx", self.fails(1, *train, "--data", "good.npz", "--export", "no/such/out.onnx"))
        self.assertIn("good.npz/state", self.fails(1, *train, "--data", "good.npz", "--checkpoint", "good.npz/state"))
        ortrain(*train, "--data", "good.npz", "--checkpoint", "of-adamw")
        out, err = ortrain(*train, "--data", "good.npz", "--checkpoint", "of-adamw", "--resume", "--optimizer", "sgd", status=1)
        self.assertIn("OrtrainAdamW", err)

    def test_logs(self):
        """The same entries in each form; a name without one is found before anything is trained."""
        ortrain(*TRAIN, "--export", "logged.onnx", "--log", "run.csv", "--log", "run.jsonl", "--log", "runs/")
        rows = pathlib.Path(path("run.csv")).read_text().splitlines()
        lines = [json.loads(line) for line in pathlib.Path(path("run.jsonl")).read_text().splitlines()]
        self.assertEqual([row.split(",")[:3] for row in rows[1:]], [[item["event"], str(item["epoch"]), str(item["step"])] for item in lines])
        self.assertEqual(lines[-1]["event"], "epoch")
        self.assertGreater(len(lines), 16)
        self.assertEqual(len(os.listdir(path("runs"))), 1)
        self.assertIn("run.txt", self.fails(1, *TRAIN, "--export", "logged.onnx", "--log", "run.txt"))

    def test_recipe(self):
        """Flags of optimizer, loss and loop do what the properties do."""
        def last(*words):
            ortrain(*TRAIN, "--export", "recipe.onnx", "--optimizer", "sgd", "--log", "recipe.jsonl", *words)
            return [json.loads(line) for line in pathlib.Path(path("recipe.jsonl")).read_text().splitlines()]

        plain, rates = last(), lambda found: [item["learning_rate"] for item in found if item["event"] == "step"]
        for words in (("--weight-decay", "0.5"), ("--momentum", "0.9"), ("--accumulation-steps", "4"), ("--label-smoothing", "0.2"),
                      ("--warm-up", "8")):
            self.assertNotEqual(last(*words)[-1]["loss"], plain[-1]["loss"], words)
        warm = rates(last("--warm-up", "8", "--learning-rate", "0.01"))
        n_updates = len(warm) / sum(item["event"] == "epoch" for item in plain)
        self.assertEqual([round(rate / 0.01, 6) for rate in warm[:9]], [n / 8 for n in range(1, 9)] + [1])
        self.assertEqual(rates(last("--warm-up", "%repochs" % (8 / n_updates), "--learning-rate", "0.01")), warm)
        slow = rates(last("--warm-up", "8", "--learning-rate", "0.01", "--accumulation-steps", "4"))
        self.assertEqual([round(rate / 0.01, 6) for rate in slow[:8]], [0] * 3 + [0.125] * 4 + [0.25])
        for name, half in (("linear", 0.5), ("cosine", 0.5)):       # from the end of the warm-up to that of the training
            fall = rates(last("--schedule", name, "--warm-up", "8", "--learning-rate", "0.01"))
            self.assertEqual([round(fall[n] / 0.01, 6) for n in (7, 7 + (len(fall) - 8) // 2, -1)], [1, half, 0])
        held = last("--validation-split", "0.25")
        self.assertIn("validation_loss", held[-1])
        self.assertEqual(held[-1]["step"] * 4, plain[-1]["step"] * 3)
        train = ["train", "cnn.onnx", "--data", "train.images,train.labels", "--batch-size", "32", "--threads", "1", "--export",
                 "recipe.onnx", "--log", "recipe.jsonl", "--options", "recipe.json"]
        pathlib.Path(path("recipe.json")).write_text(json.dumps({
            "optimizer": {"type": "sgd", "learning_rate": 0.25}, "losses": [{"type": "cross-entropy", "output": "logits", "target": "labels"}]}))
        for words, rate in (((), 0.25), (("--learning-rate", "0.5"), 0.5), (("--optimizer", "sgd"), 1e-3)):
            ortrain(*train, *words)
            self.assertEqual(json.loads(pathlib.Path(path("recipe.jsonl")).read_text().splitlines()[-1])["learning_rate"], rate)
        self.assertIn("--loss", self.fails(2, *train, "--loss", "mse"))
        self.assertIn("absent.json", self.fails(1, *train[:-1], "absent.json"))
        self.assertIn("nothing to measure on", self.fails(1, *TRAIN, "--validation-split", "0.0001"))
        self.assertIn("one-cycle", self.fails(2, *TRAIN, "--schedule", "one-cycle", "--warm-up", "8"))

    def test_metrics(self):
        """The same values in the lines of epochs, in a log and in JSON; what is wrong is found before anything is trained."""
        words = [*TRAIN, "--validation", "test.images,test.labels", "--epochs", "2", "--log", "metrics.jsonl", "--seed", "1",
                 "--metric", "top2", "--metric", "f1", "--metric", "micro_recall"]
        out, _ = ortrain(*words, "--export", "metrics.onnx")
        lines = [json.loads(line) for line in pathlib.Path(path("metrics.jsonl")).read_text().splitlines()]
        epochs = [item for item in lines if item["event"] == "epoch"]
        self.assertEqual(len(epochs), 2)
        for item in epochs:
            self.assertIn(", top2_accuracy {top2_accuracy:.4f}, macro_f1 {macro_f1:.4f}, micro_recall {micro_recall:.4f}, ".format(**item), out)
            self.assertAlmostEqual(item["micro_recall"], item["accuracy"], places=9)
            self.assertGreaterEqual(item["top2_accuracy"], item["accuracy"])
        found = strict(ortrain(*words, "--export", "metrics.onnx", "--json")[0])["epochs"]
        for name in ("top2_accuracy", "macro_f1", "micro_recall"):
            self.assertEqual([item[name] for item in found], [item[name] for item in epochs])
        held = ("--validation-split", "0.25")
        self.assertIn("--validation", self.fails(2, *TRAIN, "--metric", "f1"))
        self.assertIn("top5", self.fails(2, *TRAIN, *held, "--metric", "f2"))
        self.assertIn("top5", self.fails(2, *TRAIN, *held, "--metric", "top0"))
        self.assertIn("twice", self.fails(2, *TRAIN, *held, "--metric", "r2", "--metric", "r2"))

    def test_not_finite(self):
        away = [*TRAIN, "--optimizer", "sgd", "--learning-rate", "1e30"]
        ortrain(*TRAIN, "--export", "kept.onnx", "--checkpoint", "kept")
        good = open(path("kept.onnx"), "rb").read(), sorted(os.listdir(path("kept")))
        out, err = ortrain(*away, "--export", "kept.onnx", "--checkpoint", "kept", status=1)
        self.assertRegex(err, r"(?m)^ortrain: The loss of training step \d+ is (nan|inf): the parameter '.*' holds (nan|inf) at index "
                              r"\[.*\] after update \d+; a smaller learning rate or max-grad-norm may help$|"
                              r"^ortrain: The loss of training step \d+ is (nan|inf): \w+ '.*': output '.*' is -?(nan|inf) ")
        self.assertIn("kept.onnx was not written.\nThe last good state is in kept.\n", err)
        self.assertEqual((open(path("kept.onnx"), "rb").read(), sorted(os.listdir(path("kept")))), good)
        # asked to go on, it does, and keeps nothing all the same
        out, err = ortrain(*away, "--export", "kept.onnx", status=1, variables={"ORTRAIN_STOP_ON_NAN": "0"})
        self.assertEqual(len(re.findall("ORTRAIN_STOP_ON_NAN=0", err)), 1)
        self.assertRegex(out, r"(?m)^1 epoch in .* last loss -?(nan|inf)$")
        self.assertRegex(out, r"(?m)^Trained \d+ of \d+ parameters on \d+ items in batches of \d+, with \d+ threads?$")
        self.assertIn("kept.onnx was not written.\n", err)
        self.assertEqual(open(path("kept.onnx"), "rb").read(), good[0])

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

    def test_tables(self):
        """CSV: classes, headers and types, by the model and the loss; the numbers of classes are those of the training."""
        ortrain("new", "mlp", "table.onnx", "--classes", "3", "--size", "4", "--hidden", "8")
        kinds = ["setosa", "virginica", "lily"]
        names, numbers = ",".join("abcdefghijklmnop"), ",".join(str(i) for i in range(16))

        def rows(order):
            return "".join(f"{k / 3},{(k + i % 2) / 4},{1 - k},{i / 40}," * 4 + kinds[k] + "\n" for i, k in enumerate(order))

        def table(name, text):
            with open(path(name), "w") as file:
                file.write(text)
            return name

        table("iris.csv", names + ",species\n" + rows([i % 3 for i in range(60)]))
        table("other.csv", names + ",species\n" + rows([2, 1, 0] * 4))
        train = ["train", "table.onnx", "--data", "iris.csv", "--batch-size", "8", "--epochs", "30", "--learning-rate", "0.05", "--threads", "1"]
        out, _ = ortrain(*train, "--target", "species", "--validation", "other.csv", "--export", "flowers.onnx", "--checkpoint", "flowers")
        self.assertIn("3 classes: 0 lily, 1 setosa, 2 virginica\n", out)
        self.assertIn("accuracy 100.00 %", out)
        for name in ("flowers.classes.json", "flowers/classes.json"):
            self.assertEqual(json.load(open(path(name))), ["lily", "setosa", "virginica"])
        one = table("one.csv", names + ",species\n" + rows([1] * 6))
        self.assertIn("accuracy 100.00 % (6 of 6)", ortrain("eval", "flowers.onnx", "--data", one)[0])      # not numbered anew
        os.rename(path("flowers.classes.json"), path("moved.json"))
        self.assertIn("--classes", self.fails(1, "eval", "flowers.onnx", "--data", one))
        self.assertIn("100.00 %", ortrain("eval", "flowers.onnx", "--data", one, "--classes", "moved.json")[0])
        inputs = table("inputs.csv", names + "\n" + "".join(line.rsplit(",", 1)[0] + "\n" for line in rows([2, 0]).splitlines()))
        said = ortrain("run", "flowers.onnx", "--data", inputs, "--classes", "moved.json")[0]
        self.assertRegex(said, r"(?m)^logits, item 0: lily\nlogits, item 1: setosa$")
        self.assertNotIn("item", ortrain("run", "flowers.onnx", "--data", inputs)[0])
        self.assertIn("--header", self.fails(2, "run", "flowers.onnx", "--data", inputs, "--header", "perhaps"))
        self.assertIn("FILE.csv", self.fails(2, "run", "flowers.onnx", "--data", inputs, "--input", "x=x.npy"))
        self.assertIn("other.csv", self.fails(1, "run", "flowers.onnx", "--data", "other.csv"))
        bare = table("bare.csv", rows([1, 0]))
        self.assertIn("(2 of 2)", ortrain("eval", "flowers.onnx", "--data", bare, "--classes", "moved.json")[0])  # no row is lost
        self.assertIn("60 of 60", ortrain("eval", "flowers.onnx", "--data", "iris.csv", "--classes", "moved.json", "--header", "yes")[0])
        quiet = [*train, "--export", "no.onnx"]
        new = table("new.csv", f"{names},species\n{numbers},lily\n{numbers},rose\n")
        self.assertIn("new.csv, line 3: Column 'species': 'rose' is not one of the 3 classes, 'lily', 'setosa', 'virginica'",
                      self.fails(1, *quiet, "--validation", new))
        self.assertIn("There is no column 'kind'; there are 'a', 'b', ", self.fails(1, *quiet, "--target", "kind"))
        self.assertIn("--header", self.fails(2, *quiet, "--header", "perhaps"))
        halves = table("halves.csv", f"{names},y\n{numbers},0.5\n{numbers},1.75\n")
        self.assertIn("line 2: Column 'y': 0.5 is not an integer", self.fails(1, "train", "table.onnx", "--data", halves, "--export", "no.onnx"))
        columns = table("columns.csv", f"{names},u,v,w\n" + f"{numbers},0.5,1.75,2\n" * 8)
        ortrain("train", "table.onnx", "--data", columns, "--target", "u,v,w", "--loss", "mse", "--export", "numbers.onnx")
        self.assertFalse(os.path.exists(path("numbers.classes.json")))
        self.assertIn("over 24 numbers", ortrain("eval", "numbers.onnx", "--data", columns, "--target", "u,v,w")[0])
        unclear = table("unclear.csv", f"{numbers},16\n{numbers},0\n")
        self.assertIn("set header to yes or no", self.fails(1, "train", "table.onnx", "--data", unclear, "--export", "no.onnx"))
        self.assertFalse(os.path.exists(path("no.onnx")))

    def test_pictures(self):
        """Folders of pictures: sizes and channels of the model, classes of the training, transforms of the command line."""
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        def picture(name, red, green, blue, width=10, height=9):
            os.makedirs(os.path.dirname(path(name)), exist_ok=True)
            rows = (b"\0" + bytes([red, green, blue]) * width) * height
            with open(path(name), "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

        colors = {"red": (220, 30, 30), "green": (30, 220, 30), "blue": (30, 30, 220)}
        for name, color in colors.items():
            for i in range(12):
                picture(f"colors/{name}/{i}.png", *(min(255, c + 3 * i) for c in color), width=9 + i)
        for name in ("red", "blue"):        # of which green has none
            picture(f"others/{name}/one.png", *colors[name])
        ortrain("new", "cnn", "colors.onnx", "--classes", "3", "--size", "8", "--channels", "3")
        scale = ["--mean", "0.5,0.4,0.3", "--std", "0.25,0.25,0.25"]
        train = ["train", "colors.onnx", "--data", "colors", "--batch-size", "6", "--epochs", "8", "--learning-rate", "0.01",
                 "--threads", "1", "--seed", "3", *scale, "--crop", "1", "--flip"]
        out, _ = ortrain(*train, "--validation", "others", "--export", "named.onnx", "--checkpoint", "named")
        self.assertIn("3 classes: 0 blue, 1 green, 2 red\n", out)
        self.assertIn("accuracy 100.00 %", out)
        for name in ("named.classes.json", "named/classes.json"):
            self.assertEqual(json.load(open(path(name))), ["blue", "green", "red"])
        self.assertIn("(2 of 2)", ortrain("eval", "named.onnx", "--data", "others", *scale)[0])     # not numbered anew
        self.assertIn("(36 of 36)", ortrain("eval", "named.onnx", "--data", "colors", *scale)[0])
        said = ortrain("run", "named.onnx", "--input", "image=others/red/one.png", *scale)[0]
        self.assertRegex(said, r"(?m)^logits, item 0: red$")
        values = [json.loads(ortrain("eval", "named.onnx", "--data", "others", "--json", *more)[0])["loss"]
                  for more in (scale, [], ["--mean", "0.5,0.4,0.3"], ["--std", "0.25"])]
        self.assertEqual(len(set(values)), 4)
        log = ortrain(*train[:7], "2", *train[8:], "--validation-split", "0.25")[0]
        self.assertRegex(log, r"epoch 2: loss [\d.]+, validation loss [\d.]+, accuracy (66.67|77.78|88.89|100.00) %")   # of 9
        self.assertIn("on 27 items", log)
        # the same command, or its second half, gives the same model
        ortrain(*train[:7], "4", *train[8:], "--export", "half.onnx", "--checkpoint", "halves")
        ortrain(*train, "--resume", "--checkpoint", "halves", "--export", "resumed.onnx")
        ortrain(*train, "--export", "again.onnx")
        with open(path("named.onnx"), "rb") as a, open(path("again.onnx"), "rb") as b, open(path("resumed.onnx"), "rb") as c:
            named = a.read()
            self.assertEqual(named, b.read())
            self.assertEqual(named, c.read())
        quiet = ["train", "colors.onnx", "--export", "no.onnx", "--data"]
        for status, words, said in (
                (1, ["others", "--validation", "colors"], "The folder 'green' is not one of the 2 classes, 'blue', 'red'"),
                (1, ["colors/red"], "There are no folders here"), (1, ["nowhere"], "nowhere"),
                (1, ["colors", "--validation-split", "0.01"], "of 36 items leaves nothing to measure on"),
                (2, ["colors", "--mean", "a"], "--mean is a number, or one for each channel joined by commas, not 'a'"),
                (1, ["colors", "--std", "0"], "the standard deviation 0"),
                (2, ["colors", "--crop", "-2"], "--crop is at least 0"), (2, ["colors", "--image-size", "8"], "--image-size is WIDTHxHEIGHT"),
                (1, ["colors", "--image-size", "9x8"], "--image-size is 9x8, but input 'image' is "),
                (1, ["colors", "--mean", "1,2", "--std", "1"], "There are 2 means and 1 standard deviations")):
            self.assertIn(said, self.fails(status, *quiet, *words))
        ortrain("new", "mlp", "flat.onnx", "--classes", "3", "--size", "8")
        self.assertIn("pictures are [batch, 1 or 3 channels, height, width]", self.fails(1, "train", "flat.onnx", "--data", "colors"))
        with open(path("colors/red/5.png"), "w") as file:
            file.write("<html>")
        self.assertIn("colors/red/5.png: ", ortrain(*quiet, "colors", status=1)[1])
        self.assertIn("There are means of 2 channels", ortrain(*quiet, "colors", "--mean", "1,2", status=1)[1])
        self.assertIn("x.png", self.fails(1, "run", "named.onnx", "--input", "image=x.png"))
        self.assertIn("--classes", self.fails(2, "run", "named.onnx", "--classes", "named.classes.json"))
        # the same transforms of pictures in a file
        out, _ = ortrain("train", "cnn.onnx", "--data", make_images("turned", 40), "--flip", "--crop", "1", "--mean", "0.5", "--std", "0.5")
        self.assertIn("1 epoch", out)

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

    def test_nothing_kept(self):
        warning = ("Nothing of this training will be kept: --export trained.onnx writes the trained model, --checkpoint DIR the state after "
                   "each epoch.\n")
        self.assertTrue(ortrain(*TRAIN)[0].startswith(warning))
        self.assertNotIn("kept", ortrain(*TRAIN, "--export", "told.onnx")[0])
        self.assertNotIn("kept", ortrain(*TRAIN, "--checkpoint", "told")[0])

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
        self.assertGreater(first["ms_host"], 0)
        self.assertNotIn("ms_ahead", first)  # the CPU's host waits
        self.assertIn("bench.target", self.fails(1, *bench[:-1]))
        self.assertIn("absent.npy", self.fails(1, *bench, "bench.target=absent.npy"))
        self.assertIn("NAME=FILE.npy", ortrain(*bench, "classes.npy", status=2)[1])
        self.assertIn("--batch", self.fails(2, *bench, "bench.target=classes.npy", "--batch", "3"))


def strict(text):
    """JSON, not what Python also takes for it."""
    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


class Updates(unittest.TestCase):
    def test_same_bits(self):
        """Immediate updates, which train chooses by itself, give the same model."""
        for when in ("auto", "off"):
            ortrain(*TRAIN, "--epochs", "1", "--immediate-updates", when, "--export", f"{when}.onnx")
        self.assertEqual(*(pathlib.Path(path(f"{when}.onnx")).read_bytes() for when in ("auto", "off")))
        out, _ = ortrain(*TRAIN, "--epochs", "1", "--max-grad-norm", "1")
        self.assertIn("Note: gradients are kept until the update: max-grad-norm", out)


class Json(unittest.TestCase):
    def test_all(self):
        self.assertEqual(strict(ortrain("check", "cnn.onnx", "--json")[0])["trainable"], True)
        tensors = strict(ortrain("info", "cnn.onnx", "--parameters", "--json")[0])["floating_tensors"]
        self.assertEqual(tensors, strict(ortrain("check", "cnn.onnx", "--json")[0])["floating_tensors"])
        self.assertEqual({tuple(tensor) for tensor in tensors}, {("name", "type", "shape", "elements", "trained", "reason")})
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
        self.assertEqual(devices[0]["name"], "cpu")

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
    def test_train_to_export(self):
        out, err = ortrain(*TRAIN, "--validation", "test.images,test.labels", "--epochs", "3", "--learning-rate", "3e-3",
                           "--checkpoint", "work", "--export", "work.onnx", "--memory")
        self.assertEqual(err, "")
        self.assertRegex(out, r"(?m)^ *\d+ %  epoch 1/3  step \d+/16  loss ")     # no terminal: plain lines
        self.assertNotIn("\r", out)
        self.assertEqual(len(re.findall(r"(?m)^epoch \d: loss [\d.]+, validation loss [\d.]+, accuracy [\d.]+ %, ", out)), 3)
        for phase in ("pre_forward", "post_forward", "pre_backward", "post_backward", "pre_update", "post_update"):
            self.assertRegex(out, rf"(?m)^rank-0 step 4 memory \(MiB\) \| phase: {phase} \| allocated: \d+ \| ")
        self.assertNotRegex(out, r"(?m)^rank-0 step (10|15|17) ")
        accuracy = float(re.search(r"accuracy ([\d.]+) %", ortrain("eval", "work.onnx", "--data", "test.images,test.labels")[0])[1])
        self.assertGreater(accuracy, 90)
        ortrain("export", "work", "exported.onnx")
        self.assertEqual(open(path("exported.onnx"), "rb").read(), open(path("work.onnx"), "rb").read())
        out, _ = ortrain(*TRAIN, "--epochs", "3", "--checkpoint", "work", "--resume")
        self.assertIn("were done before", out)

    def test_monitor(self):
        """What is exported is the best epoch by what is monitored; a metric that is monitored is computed."""
        measured = [*TRAIN, "--validation", "test.images,test.labels", "--epochs", "6", "--learning-rate", "0.02", "--json"]
        # the accuracy of the epochs rises while their top2 has no more to gain: different epochs are the best
        for name, title, metrics in (("accuracy", "accuracy", []), ("top2", "top2_accuracy", []), ("f1", "macro_f1", []),
                                     ("macro_f1", "macro_f1", ["--metric", "f1"]), ("loss", "validation_loss", [])):
            out, _ = ortrain(*measured, *metrics, "--monitor", name, "--patience", "2", "--export", "best.onnx", "--checkpoint", "by-" + name)
            result = strict(out)
            values = [epoch[title] for epoch in result["epochs"]]
            best = min(values) if name == "loss" else max(values)
            self.assertEqual((result["best_value"], result["best_epoch"]), (best, values.index(best) + 1))
            self.assertEqual(result["monitor"], name if name in ("loss", "accuracy") else title)
            self.assertEqual(set(result["epochs"][0]) - {"epoch", "loss", "validation_loss", "accuracy", "learning_rate", "seconds"},
                             {title} - {"accuracy", "validation_loss"})
            found = strict(ortrain("eval", "best.onnx", "--data", "test.images,test.labels", "--json")[0])
            self.assertEqual(found["accuracy"], result["epochs"][result["best_epoch"] - 1]["accuracy"])
            ortrain("export", f"by-{name}/best", "by.onnx")
            self.assertEqual(open(path("by.onnx"), "rb").read(), open(path("best.onnx"), "rb").read())
        out, err = ortrain(*measured, "--monitor", "f2", status=2)
        self.assertIn("--monitor cannot be 'f2'; there are loss, accuracy, and the metrics: topN (top5), f1, ", err)
        self.assertIn("--monitor f1 needs --validation", ortrain(*TRAIN, "--monitor", "f1", status=2)[1])

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

        same, _ = ortrain("plan", "--compare", "cnn.onnx", "cnn.onnx", "--batch", "4")      # for both
        self.assertNotRegex(same, r"(?<!e)[+-]\d")
        self.assertIn("It is at the same node.", same)
        self.assertEqual(same, ortrain("plan", "--compare", "cnn.onnx", "cnn.onnx", "--batch=4")[0])
        row = next(row for row in json.loads(ortrain("plan", "cnn.onnx", "--recompute", "--json")[0])["clusters"] if not row["automatic"])
        again = json.loads(ortrain("plan", "--compare", "cnn.onnx", f"cnn.onnx --memory-opt-config '{row['configuration']}'", "--json")[0])
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

    def test_recompute(self):
        table, _ = ortrain("plan", "cnn.onnx", "--batch", "4", "--recompute")
        self.assertRegex(table, r"(?m)^Memory Optimizer : OFF : level 0")
        self.assertRegex(table, r"(?m)^Plan 1 +: (OFF|AUTO) +: \S+\+:1:-1 +: +\d+ : +[\d,]+ : .*batch")
        self.assertRegex(table, r"(?m)^Peak of the plan: (\d+) bytes as asked for; level 0: \1; level 1: \d+; level 2: \d+$")
        self.assertIn("Stashed Activations", ortrain("plan", "cnn.onnx", "--recompute=details")[0])
        rows = json.loads(ortrain("plan", "cnn.onnx", "--batch", "4", "--recompute", "--json")[0])["clusters"]
        row = next(row for row in rows if not row["automatic"])
        self.assertEqual((row["enabled"], row["request_count"], row["recomputed"]), (False, 0, 0))
        words = ("plan", "cnn.onnx", "--batch", "4", "--memory-opt-config", row["configuration"], "--recompute")
        self.assertRegex(ortrain(*words)[0], r"(?m)^Memory Optimizer : ON : level 0 \(plans\), ")
        steps = json.loads(ortrain(*words[:-1], "--json")[0])["recompute"]
        self.assertGreater(len(steps), len(json.loads(ortrain("plan", "cnn.onnx", "--batch", "4", "--json")[0])["recompute"]))
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
        self.assertIn("Conv", ortrain("info", "cnn.onnx", "--nodes")[0])
        self.assertRegex(ortrain("info", "cnn.onnx", "--parameters")[0],
                         r"(?m)^trained +\d+  \S+ float32 \[.*\]: weight of Conv '[\s\S]*^not trained +\d+ .*: running "
                         r"statistic of BatchNormalization '[\s\S]*^\d+ tensors with \d+ elements are trained, \d+ with ")
        self.assertTrue(ortrain("info", "cnn.onnx", "--dot")[0].startswith("digraph"))

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

    def test_equal_parameters(self):
        """A parameter that the file holds twice is trained as one, and that is said."""
        weight = struct.pack("<4096f", *((i * i % 97 - 48) / 400 for i in range(4096)))
        initializers = b"".join(field(5, b"\x08\x40\x08\x40\x10\x01" + field(8, name) + field(9, weight)) for name in (b"one", b"two"))
        nodes = [node(b"Flatten", [b"image"], b"flat"), node(b"MatMul", [b"flat", b"one"], b"hidden"), node(b"MatMul", [b"hidden", b"two"], b"y")]
        graph = b"".join(nodes) + field(2, b"g") + initializers + field(11, value(b"image", 2, 1, 8, 8)) + field(12, value(b"y", 2, 64))
        with open(path("twice.onnx"), "wb") as file:
            file.write(b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x11"))
        self.assertIn("'one' and 'two'", "\n".join(strict(ortrain("check", "twice.onnx", "--json")[0])["notes"]))
        out, _ = ortrain("train", "twice.onnx", "--data", "train.images,train.labels", "--batch-size", "2", "--checkpoint", "pair")
        self.assertIn("'one' and 'two' have equal values: they are trained as one", out)
        ortrain("export", "pair", "pair.onnx")
        self.assertEqual(strict(ortrain("info", "pair.onnx", "--json")[0])["parameters"], 8192)
        trained = open(path("pair.onnx"), "rb").read()
        first, second = (match[1] for match in re.finditer(rb"J\x80\x80\x01(.{16384})", trained, re.S))    # their raw_data
        self.assertEqual(first, second)
        self.assertNotIn(weight, trained)


class Terminal:
    """The command in a terminal of its own: what is typed there is signals and all."""

    def __init__(self, *words, shell=None):
        self.seen = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            if shell is not None:
                os.execvpe("bash", ["bash", "-c", shell], environment)
            os.execvpe("ortrain", ["ortrain", *words], environment)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        modes = termios.tcgetattr(self.master)
        modes[3] = modes[3] & ~termios.ECHO | termios.NOFLSH    # no ^C among the words, and none lost to it
        termios.tcsetattr(self.master, termios.TCSANOW, modes)

    def read(self, until=None, seconds=120):
        """Reads until a pattern was seen, or to the end."""
        end = time.monotonic() + seconds
        while until is None or not re.search(until, self.seen):
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{until} was not seen in {self.seen[-2000:]!r}")
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b""
            if not data:
                break
            self.seen += data
        return self.seen.decode()

    def type(self, keys):
        os.write(self.master, keys)

    def wait(self):
        text = self.read()
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), text


def show(text):
    """The lines on the screen of a terminal that is high enough, with what programs write to draw over them."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[\d*[A-Z]|[\r\n]|[^\x1b\r\n]+", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[K":
            lines[row] = lines[row][:column]
        elif part == "\x1b[J":
            del lines[row + 1:]
            lines[row] = lines[row][:column]
        elif part.startswith("\x1b"):
            assert part[-1] == "A" and int(part[2:-1]) <= row, part
            row -= int(part[2:-1])
        else:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part):]
            column += len(part)
    return lines


class Memory(unittest.TestCase):
    phases = ["pre_forward", "post_forward", "pre_backward", "post_backward", "pre_update", "post_update"]
    words = [*TRAIN, "--epochs", "30", "--batch-size", "4", "--memory"]

    def test_terminal(self):
        """A table in its place, however fast the steps are, below the epochs."""
        try:
            for end in os.openpty():
                os.close(end)
        except OSError as error:
            self.skipTest(f"no terminal is to be had: {error}")
        begin = time.monotonic()
        status, text = Terminal(*self.words).wait()
        seconds = time.monotonic() - begin
        self.assertEqual(status, 0, text)
        lines = [line.rstrip() for line in show(text)]
        at = lines.index(next(line for line in lines if line.startswith("step 3840, ")))
        self.assertEqual(lines[at].split(), ["step", "3840,", "KiB", "live", "peak", "held", "param", "grad", "state", "activ.", "other"])
        self.assertEqual([re.match(r"epoch (\d+): ", line)[1] for line in lines[at - 30:at]], [str(n) for n in range(1, 31)])
        self.assertRegex(lines[at + 7], r"^30 epochs in ")
        for phase, line in zip(self.phases, lines[at + 1:at + 7], strict=True):
            self.assertEqual(len(line), len(lines[at]), line)
            self.assertLess(len(line), 80)
            self.assertEqual(line[:15].strip("> "), phase)
            live, peak, held, *parts = (float(number) for number in line[15:].split())
            self.assertTrue(live <= peak <= held, line)
            self.assertAlmostEqual(sum(parts), live, delta=0.3)
            self.assertEqual(parts[3] > 0, phase in ("post_forward", "pre_backward"), line)     # activations
        self.assertEqual(sum("pre_forward" in line for line in lines), 1)
        self.assertLess(text.count("pre_forward"), 2 * 30 + 9 * seconds + 2)    # of 3,840 steps

    def test_no_terminal(self):
        """The memory line, for steps below 10 and powers of two, and nothing that draws."""
        out, _ = ortrain(*self.words)
        self.assertNotIn("\x1b", out)
        found = re.findall(r"(?m)^rank-0 step (\d+) memory \(MiB\) \| phase: (\w+) \| allocated: ", out)
        steps = [*range(1, 10), 16, 32, 64, 128, 256, 512, 1024, 2048]
        self.assertEqual(found, [(str(step), phase) for step in steps for phase in self.phases])


LONG = [*TRAIN, "--epochs", "40", "--validation", "test.images,test.labels"]


def epochs_in(text):
    """{number: what was told of it, but for its time}"""
    lines = re.split(r"[\r\n]+", text.replace("\x1b[K", ""))
    found = [(re.fullmatch(r"epoch (\d+): (.*), [\d.]+ s", line), line) for line in lines if re.match(r"epoch \d+:", line)]
    assert all(match for match, line in found), found
    return dict(match.groups() for match, line in found)


class Interrupts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        out, _ = ortrain(*LONG, "--export", "whole.onnx")
        cls.told, cls.whole = epochs_in(out), open(path("whole.onnx"), "rb").read()
        assert len(cls.told) == 40 and not os.path.exists(path("cnn.checkpoint"))

    def check_rest(self, text, said, export):
        """What was printed as the way to go on, typed as it stands, comes to where the whole run came."""
        command = re.search(r"To go on:\r?\n  (.*?)\r?\n", text)[1]
        self.assertTrue(command.startswith(said), command)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=folder, env=environment, timeout=240)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Going on from", done.stdout)
        before, after = epochs_in(text), epochs_in(done.stdout)
        self.assertEqual(len(before) + len(after), 40)
        self.assertEqual(before | after, self.told)
        self.assertEqual(open(path(export), "rb").read(), self.whole)

    def test_terminal(self):
        """Ctrl-C twice in the life of a training, at a terminal: with a bar, a way to go on, and the same bits at the end."""
        try:
            for end in os.openpty():
                os.close(end)
        except OSError as error:
            self.skipTest(f"no terminal is to be had: {error}")     # a chroot without /dev/pts
        terminal = Terminal(*LONG, "--checkpoint", "it's here", "--export", "typed.onnx")
        terminal.read(rb"\r\[[#-]{24}\] +\d+ %  epoch \d+/40  step \d+/16  loss ")
        terminal.type(b"\x03")
        status, text = terminal.wait()
        self.assertEqual(status, 130, text)
        self.assertIn("Stopping", text)
        self.assertRegex(text, r"Stopped. The state is in it's here.")
        command = re.search(r"To go on:\r?\n  (.*?)\r?\n", text)[1]
        again = Terminal(shell=command)
        again.read(rb"epoch \d+: loss")
        again.type(b"\x03")
        status, more = again.wait()
        self.assertEqual(status, 130, more)
        self.assertEqual(more.count("--resume"), 1)
        self.check_rest(re.sub(r"To go on:\r?\n.*\r?\n", "", text) + more, "ortrain train --resume cnn.onnx --data ", "typed.onnx")

    def test_no_terminal(self):
        """SIGINT after the first line of progress; no --checkpoint: there is a place for the state all the same."""
        process = subprocess.Popen(["ortrain", *LONG, "--export", "piped.onnx"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   bufsize=0, cwd=folder, env=environment)
        first = process.stdout.readline().decode()      # unbuffered: the rest is communicate's
        self.assertRegex(first, r"^ *\d+ %  epoch 1/40 ")
        process.send_signal(signal.SIGINT)
        out, err = (part.decode() for part in process.communicate(timeout=120))
        self.assertEqual((process.returncode, err), (130, ""))
        self.assertNotIn("\r", out)
        self.assertIn("The state is in cnn.checkpoint.", out)
        self.check_rest(first + out, "ortrain train --resume cnn.onnx ", "piped.onnx")

    def test_twice(self):
        """A second Ctrl-C ends the process at once, even while it cannot get its words out."""
        if not os.path.exists("/proc/self/status"):
            self.skipTest("there is no /proc")
        reading, writing = os.pipe()
        make_images("many", 500, 1000)      # an epoch of many seconds: nothing is printed after the first step's progress
        process = subprocess.Popen(["ortrain", *TRAIN, "--data", "many.images,many.labels", "--batch-size", "1", "--checkpoint",
                                    "twice"], stdout=writing, cwd=folder, env=environment)
        try:
            self.assertIn(b"epoch 1/", os.read(reading, 4096))
            os.set_blocking(writing, False)      # fill the pipe
            try:
                while True:
                    os.write(writing, b"x" * 4096)
            except BlockingIOError:
                pass
            try:
                while True:
                    os.write(writing, b"x")
            except BlockingIOError:
                pass
            os.set_blocking(writing, True)
            process.send_signal(signal.SIGINT)
            end = time.monotonic() + 60
            while True:     # until the process takes the next one as everybody does
                caught = int(re.search(r"SigCgt:\s*(\w+)", open(f"/proc/{process.pid}/status").read())[1], 16)
                if not caught & 1 << (signal.SIGINT - 1):
                    break
                self.assertLess(time.monotonic(), end)
                time.sleep(0.001)
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(10), -signal.SIGINT)
        finally:
            process.kill()
            os.close(reading)
            os.close(writing)


if __name__ == "__main__":
    main()
