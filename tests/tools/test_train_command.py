# SPDX-License-Identifier: LGPL-2.1-or-later
"""`ortrain train`, at a terminal and without one: test_train_command.py ORTRAIN."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest
import zlib

from ortrain_command import (     # unittest calls setUpModule
                             Failures, TRAIN, environment, field, folder, main, make_images, node, npz, ortrain, path, setUpModule, strict,
                             value)

EPOCH = {"epoch", "loss", "validation_loss", "accuracy", "learning_rate", "seconds", "skipped_updates", "uncounted_steps"}


class Train(Failures):
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
        self.assertIn("out of range", ortrain(*train, "--data", far, status=1)[1])     # of the first step
        self.assertIn("Item 0: label 9 is out of range", self.fails(1, "eval", "mlp.onnx", "--data", far))
        # places to write to are looked at before hours are spent
        self.assertIn("no/such/out.onnx", self.fails(1, *train, "--data", "good.npz", "--export", "no/such/out.onnx"))
        self.assertIn("good.npz/state", self.fails(1, *train, "--data", "good.npz", "--checkpoint", "good.npz/state"))
        ortrain(*train, "--data", "good.npz", "--checkpoint", "of-adamw")
        out, err = ortrain(*train, "--data", "good.npz", "--checkpoint", "of-adamw", "--resume", "--optimizer", "sgd", status=1)
        self.assertIn("has the state of AdamW, but the session trains with Sgd", err)
        self.assertIn("ortrain: CrossEntropyLoss: the model has no output 'nope'; it has", self.fails(1, *train, "--data", "good.npz", "--output", "nope"))

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

    def test_plateau(self):
        """The rate falls when what is monitored on the validation data stands still, as it does at a rate that changes no weight."""
        words = [*TRAIN, "--validation", "test.images,test.labels", "--epochs", "4", "--optimizer", "sgd", "--learning-rate", "1e-30",
                 "--schedule", "plateau"]
        for more, factors in (((), [1, 1, 1, 1]), (("--plateau-patience", "0"), [1, 0.1, 0.01, 0.001]),
                              (("--plateau-patience", "1", "--plateau-factor", "0.5"), [1, 1, 0.5, 0.5])):
            rates = [item["learning_rate"] for item in strict(ortrain(*words, *more, "--json")[0])["epochs"]]
            self.assertEqual([round(rate * 1e30, 9) for rate in rates], factors)
        self.assertIn("--schedule plateau only", self.fails(2, *TRAIN, "--plateau-patience", "2"))
        self.assertIn("--plateau-factor is from", self.fails(2, *words, "--plateau-factor", "1.5"))
        self.assertIn("--plateau-patience is at least", self.fails(2, *words, "--plateau-patience", "-2"))

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
        self.assertIn(" confusion-matrix", self.fails(2, *TRAIN, *held, "--metric", "f2"))
        self.assertIn("Usage: ortrain train MODEL --data FILE [--output NAME] [--target NAME] ", ortrain("train", "cnn.onnx", status=2)[1])
        self.assertIn("top5", self.fails(2, *TRAIN, *held, "--metric", "top0"))
        self.assertIn("twice", self.fails(2, *TRAIN, *held, "--metric", "r2", "--metric", "r2"))
        self.assertIn("--metric f1 and --metric macro_f1 are the same", self.fails(2, *TRAIN, *held, "--metric", "f1", "--metric", "macro_f1"))

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
        self.assertRegex(out, r"(?m)^model +cnn.onnx on \w+, 1 thread\nparameters +5412 trained \(.*\), 0 frozen, 96 running statistics\ndata +512 items in batches of 32, ")
        self.assertIn("kept.onnx was not written.\n", err)
        self.assertEqual(open(path("kept.onnx"), "rb").read(), good[0])

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
        self.assertRegex(log, r"epoch 2/2: loss [\d.]+, validation loss [\d.]+, accuracy (66.67|77.78|88.89|100.00) %")   # of 9
        self.assertIn("27 items in batches of 6, 5 steps an epoch, 2 epochs; 9 items to validate\n", log)
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
                (1, ["colors", "--mean", "1,2", "--std", "1"], "The numbers of means (2) and of standard deviations (1) must be equal")):
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

    def test_nothing_kept(self):
        warning = ("Nothing of this training will be kept: --export trained.onnx writes the trained model, --checkpoint DIR the state after "
                   "each epoch.\n")
        self.assertTrue(ortrain(*TRAIN)[0].startswith(warning))
        self.assertNotIn("kept", ortrain(*TRAIN, "--export", "told.onnx")[0])
        self.assertNotIn("kept", ortrain(*TRAIN, "--checkpoint", "told")[0])

    def test_train_to_export(self):
        out, err = ortrain(*TRAIN, "--validation", "test.images,test.labels", "--epochs", "3", "--learning-rate", "3e-3",
                           "--checkpoint", "work", "--export", "work.onnx", "--memory")
        self.assertEqual(err, "")
        self.assertIn("data        512 items in batches of 32, 16 steps an epoch, 3 epochs; 100 items to validate\n", out)
        self.assertRegex(out, r"(?m)^model +cnn.onnx on \w+, 1 thread$")     # no terminal: plain lines
        self.assertNotIn("\r", out)
        self.assertNotIn("\x1b", out)
        memory = re.search(r"(?m)^memory +([\d.]+ .iB) at the peak: ", out)[1]
        self.assertEqual(len(re.findall(r"(?m)^epoch \d/3: loss [\d.]+, validation loss [\d.]+, accuracy [\d.]+ %, lr 0.003, "
                                        rf"memory {memory}, [\d.]+ s$", out)), 3)
        for phase in ("pre_forward", "post_forward", "pre_backward", "post_backward", "pre_update", "post_update"):
            self.assertRegex(out, rf"(?m)^rank-0 step 4 memory \(MiB\) \| phase: {phase} \| allocated: \d+ \| ")
        self.assertNotRegex(out, r"(?m)^rank-0 step (10|15|17) ")
        accuracy = float(re.search(r"accuracy ([\d.]+) %", ortrain("eval", "work.onnx", "--data", "test.images,test.labels")[0])[1])
        self.assertGreater(accuracy, 90)
        ortrain("export", "work", "exported.onnx")
        self.assertEqual(open(path("exported.onnx"), "rb").read(), open(path("work.onnx"), "rb").read())
        out, _ = ortrain(*TRAIN, "--epochs", "3", "--checkpoint", "work", "--resume")
        self.assertIn("were done before", out)

    def test_other_batches(self):
        """A schedule over the updates of all epochs would end too early, or too late, with batches of another size."""
        train = [*TRAIN, "--export", "other-batches.onnx", "--checkpoint", "other-batches"]
        ortrain(*train, "--epochs", "1", "--schedule", "cosine")
        more = [*train, "--epochs", "2", "--resume"]
        for schedule in ("linear", "cosine", "one-cycle"):
            text = self.fails(2, *more, "--schedule", schedule, "--batch-size", "16")
            self.assertIn("an update of other-batches had 32 items, not 16", text)
        self.assertIn("not 64", self.fails(2, *more, "--schedule", "cosine", "--accumulation-steps", "2"))
        ortrain(*more, "--schedule", "cosine", "--batch-size", "16", "--accumulation-steps", "2")     # as many items
        ortrain(*train, "--epochs", "3", "--resume", "--batch-size", "16")                        # its schedule does not fall

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
            self.assertEqual(set(result["epochs"][0]) - EPOCH,
                             {title} - {"accuracy", "validation_loss"})
            found = strict(ortrain("eval", "best.onnx", "--data", "test.images,test.labels", "--json")[0])
            self.assertEqual(found["accuracy"], result["epochs"][result["best_epoch"] - 1]["accuracy"])
            ortrain("export", f"by-{name}/best", "by.onnx")
            self.assertEqual(open(path("by.onnx"), "rb").read(), open(path("best.onnx"), "rb").read())
        out, err = ortrain(*measured, "--monitor", "f2", status=2)
        self.assertIn("--monitor cannot be 'f2'; there are loss, accuracy, and the metrics: topN (top5), f1, ", err)
        self.assertIn("--monitor f1 needs --validation", ortrain(*TRAIN, "--monitor", "f1", status=2)[1])

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


class Confusion(Failures):
    """The confusion matrix at the end of a training."""

    def learn(self, names, *more, sizes=None):
        """A table with so many rows of each class, of which the first two cannot be told apart."""
        rows = [f"{max(i, 1)},{i * 7 % len(names)},{name}" for i, name in enumerate(names) for _ in range(sizes[i] if sizes else 12)]
        with open(path("classes.csv"), "w", encoding="utf-8") as file:
            file.write("a,b,kind\n" + "\n".join(rows).replace(",7,", ",0,") + "\n")
        ortrain("new", "mlp", "classes.onnx", "--features", "2", "--classes", str(len(set(names))), "--hidden", "64")
        return ["train", "classes.onnx", "--data", "classes.csv", "--validation", "classes.csv", "--epochs", "60", "--learning-rate", "0.02",
                "--batch-size", "16", "--threads", "1", "--metric", "confusion-matrix", "--export", "classes-trained.onnx", *more]

    def table(self, out):
        return out[out.index("Confusion matrix (rows: the class; columns: what it was taken for)\n"):].splitlines()[1:]

    def test_table(self):
        """Beside what eval finds of the model that was exported, which is not the last one."""
        words = [*TRAIN, "--validation", "test.images,test.labels", "--epochs", "6", "--patience", "1", "--learning-rate", "0.05",
                 "--metric", "confusion-matrix", "--metric", "f1", "--export", "confused.onnx"]
        out, err = ortrain(*words)
        self.assertEqual(err, "")
        self.assertEqual(out.count("Confusion matrix"), 1)
        head, *rows = (line.split() for line in self.table(out))
        self.assertEqual(head, ["0", "1", "2", "3"])
        self.assertEqual([row[0] for row in rows], head)
        counts = [[int(count) for count in row[1:]] for row in rows]
        self.assertEqual(sum(map(sum, counts)), 100)
        found = strict(ortrain("eval", "confused.onnx", "--data", "test.images,test.labels", "--json")[0])
        self.assertEqual(sum(counts[i][i] for i in range(4)), round(100 * found["accuracy"]))
        result = strict(ortrain(*words, "--json")[0])
        self.assertEqual(result["confusion_matrix"], counts)
        self.assertNotIn("classes", result)
        self.assertEqual(set(result["epochs"][0]) - {"macro_f1"}, EPOCH)

    def test_names(self):
        """Names of a table, cut where they are long; as many columns as there are on a terminal."""
        names = ["ash", "elm", "oak", "a name that is longer than any column", "鳥と魚"]
        words = self.learn([names[i] for i in (0, 1, 2, 3, 4)], sizes=[12, 5, 9, 7, 3])
        out, _ = ortrain(*words)
        lines = self.table(out)
        order = sorted(names)
        labels = [f"{i} {name}" if len(name) < 20 else f"{i} {name[:23]}…" for i, name in enumerate(order)]
        self.assertEqual(len(lines), 6)
        for label, line in zip(labels, lines[1:]):
            self.assertTrue(line.startswith(label + " "), (label, line))
        self.assertEqual(lines[0].split("  ")[-1].strip(), "鳥と魚")
        self.assertIn("a name that…", lines[0])
        width = lambda line: sum(2 if ord(c) > 0x2fff else 1 for c in line)
        self.assertEqual({width(line) for line in lines}, {width(lines[0])})
        result = strict(ortrain(*words, "--json")[0])
        self.assertEqual(result["classes"], order)
        sizes = dict(zip(names, [12, 5, 9, 7, 3]))
        self.assertEqual([sum(row) for row in result["confusion_matrix"]], [sizes[name] for name in order])
        counts = [line[len(label):].split() for label, line in zip(labels, lines[1:])]
        self.assertEqual([[int(count) for count in row] for row in counts], result["confusion_matrix"])

    def test_many(self):
        """Up to 20 classes are a table of 80 columns; of more, the pairs that are confused most often."""
        names = [f"the kind of number {i:02}" for i in range(20)]
        out, _ = ortrain(*self.learn(names))
        self.assertEqual(len(self.table(out)), 21)
        try:
            terminal = Terminal(*self.learn(names), columns=80)
        except OSError as error:
            self.skipTest(f"no terminal can be opened: {error}")
        status, text = terminal.wait()
        self.assertEqual(status, 0, text)
        lines = self.table(text.replace("\r\n", "\n"))
        self.assertEqual((len(lines), max(map(len, lines))), (21, 79))
        self.assertTrue(lines[20].startswith("19 the kind of num… "), lines[20])
        names.append("another kind")
        sizes = [7, 3, *[4] * 18, 9]
        words = self.learn(names, sizes=sizes)
        matrix = strict(ortrain(*words, "--json")[0])["confusion_matrix"]
        out, _ = ortrain(*words)
        self.assertNotIn("Confusion matrix", out)
        lines = out[out.index("The most confused of 21 classes\n"):].splitlines()[1:]
        order = sorted(names)
        pairs = sorted((-matrix[i][k], i, k) for i in range(21) for k in range(21) if i != k and matrix[i][k])
        self.assertGreater(len(pairs), 0)
        self.assertEqual(len(lines), min(len(pairs), 20))
        for line, (count, i, k) in zip(lines, pairs):
            self.assertEqual([*re.fullmatch(r" +(\d+) of (\d+) +(\d+ .*?) +taken for (.*)", line).groups()], [str(-count), str(sum(matrix[i])), f"{i} {order[i]}", f"{k} {order[k]}"])

    def test_refused(self):
        self.assertIn("--metric confusion-matrix needs a loss over classes", self.fails(
            2, *TRAIN, "--loss", "mse", "--validation", "test.images,test.labels", "--metric", "confusion-matrix"))
        self.assertIn("--metric needs --validation", self.fails(2, *TRAIN, "--metric", "confusion-matrix"))


class Standardize(Failures):
    """Features of a table less their means, by their deviations, in the model."""

    words = ["train", "scales.onnx", "--epochs", "8", "--batch-size", "32", "--learning-rate", "0.01", "--threads", "1"]

    def setUp(self):
        # the first two thirds, to train with, have another mean than the rest; one column never changes
        items = [((i * 37 % 101 - 50) * 10 + 4000 + (900 if i >= 240 else 0), (i * 53 % 97 - 48) * 1e-5 + 0.001, 7) for i in range(360)]
        kinds = ["above" if (a - 4000) / 300 + (b - 0.001) / 3e-4 > 0 else "below" for a, b, c in items]
        part = items[:240]
        means = [sum(column) / len(part) for column in zip(*part)]
        deviations = [(sum((x - mean) ** 2 for x in column) / len(part)) ** 0.5 or 1 for mean, column in zip(means, zip(*part))]
        by_hand = [[(x - mean) / deviation for x, mean, deviation in zip(item, means, deviations)] for item in items]
        for name, rows in (("raw", items), ("hand", by_hand)):
            with open(path(f"{name}.csv"), "w") as file:
                file.write("a,b,c,kind\n" + "".join(f"{','.join(map(repr, row))},{kind}\n" for row, kind in zip(rows, kinds)))
        ortrain("new", "mlp", "scales.onnx", "--features", "3", "--classes", "2", "--hidden", "16")

    def train(self, data, *more):
        return strict(ortrain(*self.words, "--data", data, "--validation-split", "0.33333334", "--json", *more)[0])

    def test_against_data(self):
        by_hand = self.train("hand.csv", "--export", "hand.onnx")
        ours = self.train("raw.csv", "--standardize", "--export", "standardized.onnx", "--checkpoint", "standardized")
        for a, b in zip(ours["epochs"], by_hand["epochs"], strict=True):
            for name in ("loss", "validation_loss"):
                self.assertAlmostEqual(a[name], b[name], delta=2e-3 * b[name])
        self.assertEqual(ours["trained_parameters"], by_hand["trained_parameters"])
        self.assertGreater(ours["epochs"][-1]["accuracy"], 0.9)
        # what is exported takes the table as it is
        found = [strict(ortrain("eval", name + ".onnx", "--data", data, "--json")[0])["loss"]
                 for name, data in (("standardized", "raw.csv"), ("hand", "hand.csv"))]
        self.assertAlmostEqual(*found, delta=2e-3 * found[1])
        ortrain("export", "standardized", "again.onnx")
        self.assertEqual(open(path("again.onnx"), "rb").read(), open(path("standardized.onnx"), "rb").read())
        self.assertIn("Inputs      x: float32 [batch, 3]\n", ortrain("info", "standardized.onnx")[0])

    def test_resume(self):
        """With the numbers that the training began with, whatever the data are by now."""
        whole = ["--standardize", "--export", "whole-scales.onnx"]
        self.train("raw.csv", *whole)
        self.train("raw.csv", "--standardize", "--epochs", "3", "--checkpoint", "scales")
        for more in (["--standardize"], []):
            shutil.copytree(path("scales"), path("scales-again"))
            self.train("raw.csv", *more, "--checkpoint", "scales-again", "--resume", "--export", "resumed-scales.onnx")
            self.assertEqual(open(path("resumed-scales.onnx"), "rb").read(), open(path("whole-scales.onnx"), "rb").read())
            shutil.rmtree(path("scales-again"))
        with open(path("raw.csv")) as file:
            lines = file.readlines()
        with open(path("raw.csv"), "w") as file:        # as many items, much larger
            file.writelines([lines[0], *(f"1{line}" for line in lines[1:])])
        self.train("raw.csv", "--standardize", "--checkpoint", "scales", "--resume", "--export", "moved-scales.onnx")

        def constants(name):
            with open(path(name), "rb") as file:
                return re.findall(rb"value_floats=(.{12})", file.read(), re.S)      # of three features each

        self.assertEqual(len(constants("whole-scales.onnx")), 2)
        self.assertEqual(constants("moved-scales.onnx"), constants("whole-scales.onnx"))
        self.train("raw.csv", "--standardize", "--export", "other-scales.onnx")
        self.assertNotEqual(constants("other-scales.onnx"), constants("whole-scales.onnx"))

    def test_refused(self):
        train = [*self.words, "--data", "raw.csv"]
        ortrain(*train, "--checkpoint", "plain-scales", "--export", "plain-scales.onnx")
        self.assertIn("plain-scales was not trained so", self.fails(2, *train, "--standardize", "--resume", "--checkpoint", "plain-scales"))
        ortrain(*train, "--standardize", "--export", "twice-scales.onnx")
        self.assertIn("is standardized already", self.fails(1, "train", "twice-scales.onnx", *train[2:], "--standardize"))
        self.assertIn("no input [batch, features]", self.fails(1, *TRAIN, "--standardize"))
        rows = [1.0, float("inf"), 2.0] * 8
        self.assertIn("feature 1 of 'x' has values that are not finite", self.fails(
            1, *train[:-1], npz("infinite.npz", x=("f", (8, 3), rows), labels=("q", (8,), [0] * 8)), "--standardize"))


class Updates(unittest.TestCase):
    def test_same_bits(self):
        """Immediate updates, which train chooses by itself, give the same model."""
        for when in ("auto", "off"):
            ortrain(*TRAIN, "--epochs", "1", "--immediate-updates", when, "--export", f"{when}.onnx")
        self.assertEqual(*(pathlib.Path(path(f"{when}.onnx")).read_bytes() for when in ("auto", "off")))
        out, _ = ortrain(*TRAIN, "--epochs", "1", "--max-grad-norm", "1")
        self.assertIn("Note: gradients are kept until the update: max-grad-norm", out)


class Terminal:
    """The command in a terminal of its own: what is typed there is signals and all."""

    def __init__(self, *words, shell=None, columns=200):
        self.seen = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            if shell is not None:
                os.execvpe("bash", ["bash", "-c", shell], environment)
            os.execvpe("ortrain", ["ortrain", *words], environment)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
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
        self.assertEqual([re.match(r"epoch (\d+)/30: ", line)[1] for line in lines[at - 30:at]], [str(n) for n in range(1, 31)])
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
    """{number: its printed line, without the time}"""
    lines = re.split(r"[\r\n]+", text.replace("\x1b[K", ""))
    found = [(re.fullmatch(r"epoch (\d+)/40: (.*), [\d.]+ s", line), line) for line in lines if re.match(r"epoch \d+/40:", line)]
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
        terminal.read(rb"\repoch \d+/40 \[[#-]{8,24}\] \d+/16  loss ")
        terminal.type(b"\x03")
        status, text = terminal.wait()
        self.assertEqual(status, 130, text)
        self.assertIn("Stopping", text)
        self.assertRegex(text, r"Stopped. The state is in it's here.")
        command = re.search(r"To go on:\r?\n  (.*?)\r?\n", text)[1]
        again = Terminal(shell=command)
        again.read(rb"epoch \d+/40: loss")
        again.type(b"\x03")
        status, more = again.wait()
        self.assertEqual(status, 130, more)
        self.assertEqual(more.count("--resume"), 1)
        self.check_rest(re.sub(r"To go on:\r?\n.*\r?\n", "", text) + more, "ortrain train --resume cnn.onnx --data ", "typed.onnx")

    def test_no_terminal(self):
        """SIGINT in the middle of the training; no --checkpoint: there is a place for the state all the same."""
        process = subprocess.Popen(["ortrain", *LONG, "--export", "piped.onnx"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   bufsize=0, cwd=folder, env=environment)
        first = ""
        while not first.splitlines()[-1:] or not first.splitlines()[-1].startswith("epoch 1/40: "):
            line = process.stdout.readline().decode()       # unbuffered: the rest is communicate's
            self.assertTrue(line, first)
            first += line
        process.send_signal(signal.SIGINT)
        out, err = (part.decode() for part in process.communicate(timeout=120))
        self.assertEqual((process.returncode, err), (130, ""))
        self.assertNotIn("\r", out)
        self.assertIn("The state is in cnn.checkpoint.", out)
        self.check_rest(first + out, "ortrain train --resume cnn.onnx ", "piped.onnx")

    def begin(self, *more, hang_up=signal.SIG_DFL):
        """A training that has ended its first epoch, and what it has said. hang_up: what SIGHUP does, however the tests were begun"""
        process = subprocess.Popen(["ortrain", *LONG, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, cwd=folder,
                                   env=environment, preexec_fn=lambda: signal.signal(signal.SIGHUP, hang_up))
        first = ""
        while not first.splitlines()[-1:] or not first.splitlines()[-1].startswith("epoch 1/40: "):
            line = process.stdout.readline().decode()
            self.assertTrue(line, first)
            first += line
        return process, first

    def test_requests(self):
        """SIGTERM and SIGHUP save as Ctrl-C does; a hang-up while nobody reads any more does, too."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            process, first = self.begin("--checkpoint", f"by-{number}", "--export", f"by-{number}.onnx")
            process.send_signal(number)
            out, err = (part.decode() for part in process.communicate(timeout=120))
            self.assertEqual((process.returncode, err), (128 + number, ""))
            self.check_rest(first + out, "ortrain train --resume cnn.onnx ", f"by-{number}.onnx")
        process, _ = self.begin("--checkpoint", "unread")
        process.stdout.close()
        process.send_signal(signal.SIGHUP)
        self.assertIn(process.wait(120), (128 + signal.SIGHUP, -signal.SIGPIPE))    # it may write before it knows
        process.stderr.close()

    def test_ignored(self):
        """As nohup starts it, a hang-up is nothing."""
        process, first = self.begin(hang_up=signal.SIG_IGN)
        process.send_signal(signal.SIGHUP)
        out, err = (part.decode() for part in process.communicate(timeout=240))
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(epochs_in(first + out), self.told)

    def test_damaged(self):
        """A checkpoint that has lost its manifest, or has a damaged one, is no new beginning."""
        train = [*TRAIN, "--epochs", "1", "--checkpoint", "broken"]
        out, _ = ortrain(*train, "--resume")
        self.assertIn("There is no checkpoint in broken yet", out)
        manifest = path("broken/manifest.json")
        whole = open(manifest, "rb").read()
        for text in (b"", b"{", b"[]", whole[:100], None):
            os.remove(manifest)
            if text is not None:
                with open(manifest, "wb") as file:
                    file.write(text)
            for command in ([*train, "--resume"], ["export", "broken", "from-broken.onnx"]):
                _, err = ortrain(*command, status=1)
                self.assertIn("broken", err)
                self.assertEqual(len(err.splitlines()), 1, err)
        with open(manifest, "wb") as file:
            file.write(whole)
        ortrain(*train, "--resume")

    def test_twice(self):
        """A second Ctrl-C ends the process at once, even while it cannot get its words out."""
        if not os.path.exists("/proc/self/status"):
            self.skipTest("there is no /proc")
        reading, writing = os.pipe()
        make_images("many", 500, 1000)      # an epoch of many seconds: nothing is printed behind the summary
        process = subprocess.Popen(["ortrain", *TRAIN, "--data", "many.images,many.labels", "--batch-size", "1", "--checkpoint",
                                    "twice"], stdout=writing, cwd=folder, env=environment)
        try:
            self.assertIn(b"model ", os.read(reading, 4096))
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
