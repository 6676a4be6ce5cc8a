# SPDX-License-Identifier: LGPL-2.1-or-later
"""The data that the `ortrain` command reads: test_data_command.py ORTRAIN."""
import gzip
import os
import struct
import subprocess
import unittest
import zipfile

from ortrain_command import (     # unittest calls setUpModule
                             INT64, Failures, environment, field, folder, main, node, npy, npz, ortrain, path, save, setUpModule, strict, tensor, value)

N = 42
X = [i * 37 % 101 / 101 for i in range(N * 3)]
LABELS = [i % 2 for i in range(N)]


def write(name, data):
    with open(path(name), "wb") as file:
        file.write(data)
    return name


class Batches(Failures):
    """Models that take batches of one size, and what is left at the end of an epoch."""
    def setUp(self):
        save("fixed.onnx", [node(b"MatMul", [b"x", b"w"], b"y")], [tensor(b"w", 3, 2)], [value(b"x", 4, 3)], [value(b"y", 4, 2)])
        # the shape of the output is not in the file, and a mask has no batch
        save("masked.onnx", [node(b"Mul", [b"x", b"mask"], b"m"), node(b"MatMul", [b"m", b"w"], b"y")], [tensor(b"w", 3, 2)],
             [value(b"x", 5, 3), value(b"mask", 3)], [value(b"y", b"a", b"b")])
        save("open.onnx", [node(b"MatMul", [b"x", b"w"], b"y")], [tensor(b"w", 3, 2)], [value(b"x", b"n", 3)], [value(b"y", b"n", 2)])
        save("parts.onnx", [node(b"Reshape", [b"x", b"shape"], b"p"), node(b"MatMul", [b"p", b"w"], b"q"), node(b"Reshape", [b"q", b"back"], b"y")],
             [tensor(b"shape", 2, ints=[-1, 12]), tensor(b"w", 12, 8), tensor(b"back", 2, ints=[-1, 2])], [value(b"x", b"n", 3)], [value(b"y", b"n", 2)])
        npz("data.npz", x=("f", (N, 3), X), labels=("q", (N,), LABELS), mask=("f", (3,), [1, 0.5, 2]))

    def test_fixed(self):
        out, _ = ortrain("train", "fixed.onnx", "--data", "data.npz", "--epochs", "2", "--export", "out.onnx", "--validation-split", "0.25")
        self.assertIn("32 items in batches of 4, 8 steps", out)
        self.assertIn("Note: 2 of the 10 items to measure on are left out", out)
        out, _ = ortrain("train", "fixed.onnx", "--data", "data.npz", "--validation", "data.npz")
        self.assertIn("Note: 2 of the 42 items are left out in each epoch: the model takes batches of 4 only\n", out)
        self.assertIn("42 items in batches of 4, 10 steps an epoch", out)
        out, err = ortrain("eval", "out.onnx", "--data", "data.npz")
        self.assertRegex(out, r"of 40\), loss")
        self.assertEqual(err, "ortrain: The last 2 of 42 items are left out: the model takes batches of 4 only\n")
        for command in (["train", "fixed.onnx"], ["eval", "fixed.onnx"]):
            self.assertIn("batches of 4 only", ortrain(*command, "--data", "data.npz", "--batch-size", "8", status=2)[1])
            few = npz("few.npz", x=("f", (3, 3), X[:9]), labels=("q", (3,), LABELS[:3]))
            self.assertIn("has 3 items, but the model takes batches of 4 only", self.fails(1, *command, "--data", few))
        self.assertIn("in batches of 5, 8 steps", ortrain("train", "masked.onnx", "--data", "data.npz")[0])
        save("one.onnx", [node(b"MatMul", [b"x", b"w"], b"y")], [tensor(b"w", 3, 2)], [value(b"x", 1, 3)], [value(b"y", 1, 2)])
        out, _ = ortrain("train", "one.onnx", "--data", "data.npz")
        self.assertIn("the model takes batches of 1 only", out)
        self.assertIn("42 steps an epoch", out)

    def test_drop_last(self):
        out, _ = ortrain("train", "open.onnx", "--data", "data.npz", "--batch-size", "8", "--drop-last")
        self.assertIn("5 steps an epoch", out)
        self.assertIn("Note: 2 of the 42 items are left out in each epoch\n", out)
        self.assertIn("6 steps an epoch", ortrain("train", "open.onnx", "--data", "data.npz", "--batch-size", "8")[0])
        # what cannot be computed of the rest is told with the way out
        _, err = ortrain("train", "parts.onnx", "--data", "data.npz", "--batch-size", "8", status=1)
        self.assertRegex(err, r"Reshape 'reshape'.*drop-last leaves it out\n$")
        ortrain("train", "parts.onnx", "--data", "data.npz", "--batch-size", "8", "--drop-last")
        _, err = ortrain("train", "open.onnx", "--data", "data.npz", "--batch-size", "64", "--drop-last", status=1)
        self.assertIn("42 items, fewer than one batch of 64", err)


class Shared(Failures):
    """Inputs without a dimension for the batch."""
    def setUp(self):
        save("mask.onnx", [node(b"Mul", [b"x", b"mask"], b"m"), node(b"MatMul", [b"m", b"w"], b"y")], [tensor(b"w", 3, 2)],
             [value(b"x", b"n", 3), value(b"mask", 3)], [value(b"y", b"n", 2)])
        self.plain = {"x": ("f", (N, 3), [v * m for v, m in zip(X, [1, 0.5, 2] * N)]), "labels": ("q", (N,), LABELS)}
        save("plain.onnx", [node(b"MatMul", [b"x", b"w"], b"y")], [tensor(b"w", 3, 2)], [value(b"x", b"n", 3)], [value(b"y", b"n", 2)])
        ortrain("train", "plain.onnx", "--data", npz("plain.npz", **self.plain), "--epochs", "3", "--log", "plain.csv", "--threads", "1")
        self.expected = self.losses("plain.csv")
        self.data = {"x": ("f", (N, 3), X), "labels": ("q", (N,), LABELS)}
        self.mask = ("f", (3,), [1, 0.5, 2])
        write("mask.npy", npy(*self.mask))
        write("x.npy", npy(*self.data["x"]))

    def losses(self, name):
        with open(path(name)) as file:
            return [line.split(",")[3] for line in file.read().splitlines()]

    def check(self, model, *more):
        ortrain("train", model, *more, "--epochs", "3", "--log", "shared.csv", "--threads", "1", "--export", "trained.onnx")
        self.assertEqual(self.losses("shared.csv"), self.expected, more)

    def test_archive(self):
        self.check("mask.onnx", "--data", npz("whole.npz", mask=self.mask, **self.data))
        self.assertIn("of 42)", ortrain("eval", "trained.onnx", "--data", "whole.npz")[0])
        ortrain("train", "mask.onnx", "--data", "whole.npz", "--validation", "whole.npz", "--metric", "f1", "--metric", "confusion-matrix")
        npz("other.npz", mask=("f", (3,), [1, 1, 1]), **self.data)
        self.assertIn("all items share it, but other.npz has another one", self.fails(1, "train", "mask.onnx", "--data", "whole.npz", "--validation", "other.npz"))
        # as many numbers as items
        three = {"x": ("f", (3, 3), X[:9]), "labels": ("q", (3,), LABELS[:3])}
        ortrain("train", "mask.onnx", "--data", npz("three.npz", mask=self.mask, **three), "--export", "three.onnx")
        self.assertIn("of 3)", ortrain("eval", "three.onnx", "--data", "three.npz")[0])

    def test_file(self):
        data = npz("bare.npz", **self.data)
        self.assertIn("has no array 'mask'", self.fails(1, "train", "mask.onnx", "--data", data))
        self.check("mask.onnx", "--data", data, "--input", "mask=mask.npy")
        self.assertIn("of 42)", ortrain("eval", "trained.onnx", "--data", data, "--input", "mask=mask.npy")[0])
        rows = "".join(",".join(repr(v) for v in X[3 * i:3 * i + 3]) + f",{LABELS[i]}\n" for i in range(N))
        write("table.csv", b"a,b,c,labels\n" + rows.encode())
        self.check("mask.onnx", "--data", "table.csv", "--input", "mask=mask.npy")
        write("inputs.csv", ("a,b,c\n" + "".join(row.rsplit(",", 1)[0] + "\n" for row in rows.splitlines())).encode())
        by_table, by_file = (ortrain("run", "mask.onnx", "--input", "mask=mask.npy", *more)[0] for more in (["--data", "inputs.csv"], ["--input", "x=x.npy"]))
        self.assertEqual(by_table, by_file)
        for command in (["train", "mask.onnx", "--data", "table.csv"], ["eval", "mask.onnx", "--data", "table.csv"], ["run", "mask.onnx", "--data", "inputs.csv"]):
            self.assertIn("Input 'mask' is [3] in the model, without a dimension for the batch", self.fails(1, *command))
        self.assertIn("no input 'nothing'", self.fails(1, "train", "mask.onnx", "--data", data, "--input", "nothing=mask.npy"))
        self.assertIn("is not NAME=FILE.npy", ortrain("train", "mask.onnx", "--data", data, "--input", "mask", status=2)[1])

    def test_positions(self):
        """A dimension by the name of an inner one of another input, and a number beside open dimensions."""
        save("positions.onnx", [node(b"Gather", [b"table", b"positions"], b"p"), node(b"Mul", [b"x", b"p"], b"m"), node(b"Mul", [b"m", b"scale"], b"s"),
                                node(b"MatMul", [b"s", b"w"], b"y")],
             [tensor(b"table", 5), tensor(b"w", 3, 2)], [value(b"x", b"n", b"t"), value(b"positions", b"t", dtype=INT64), value(b"scale", 1, 1)],
             [value(b"y", b"n", 2)])
        npz("positions.npz", x=self.data["x"], labels=self.data["labels"], positions=("q", (3,), [1, 4, 2]), scale=("f", (1, 1), [2]))
        ortrain("train", "positions.onnx", "--data", "positions.npz", "--export", "placed.onnx", "--batch-size", "10")
        self.assertIn("of 42)", ortrain("eval", "placed.onnx", "--data", "positions.npz", "--batch-size", "10")[0])
        # one for each item is none that the model takes
        npz("many.npz", x=self.data["x"], labels=self.data["labels"], positions=("q", (20,), [1] * 20), scale=("f", (1, 1), [2]))
        ortrain("train", "positions.onnx", "--data", "many.npz", status=1)
        npz("short.npz", x=("f", (N - 1, 3), X[3:]), labels=self.data["labels"], mask=self.mask)
        self.assertIn("array 'x' has 41 rows, but the data has 42 items", self.fails(1, "train", "mask.onnx", "--data", "short.npz"))


class Sizes(Failures):
    def test_far_too_large(self):
        """A plan takes no memory for inputs that it never reads; what is run says what it would take."""
        huge = "2000000000"
        self.assertIn("at the peak", ortrain("plan", "cnn.onnx", "--batch", huge)[0])
        self.assertIn("TiB", ortrain("plan", "cnn.onnx", "--batch", "1," + huge)[0])
        self.assertRegex(self.fails(1, "bench", "cnn.onnx", "--batch", huge), r"An input of these sizes needs .* and .* are available")
        save("ids.onnx", [node(b"Gather", [b"table", b"ids"], b"a"), node(b"ReduceMean", [b"a"], b"y")], [tensor(b"table", 9, 4)],
             [value(b"ids", b"n", 1000, dtype=INT64)], [value(b"y", 1, 1, 1)])
        self.assertIn("at the peak", ortrain("plan", "ids.onnx", "--batch", "1000000", "--loss", "mse")[0])

    def test_fed_sizes(self):
        """A few bytes that are fed decide how much memory is needed: no more than there is, or than the option allows."""
        limit = {"ORTRAIN_DEVICE_MEMORY_LIMIT": "64MiB"}
        save("range.onnx", [node(b"Range", [b"zero", b"n", b"one"], b"y")], [tensor(b"zero", ints=[0]), tensor(b"one", ints=[1])],
             [value(b"n", dtype=INT64)], [value(b"y", b"k", dtype=INT64)])
        save("resize.onnx", [node(b"Resize", [b"x", b"", b"", b"sizes"], b"r"), node(b"ReduceMax", [b"r"], b"y")], [],
             [value(b"x", b"n", 4), value(b"sizes", 2, dtype=INT64)], [value(b"y", 1, 1)])
        write("ones.npy", npy("f", (1, 4), [1] * 4))
        for n, said in (5000, None), (10 ** 7, "'device-memory-limit' allows 67108864"), (10 ** 13, "annot allocate|exceed|too|allows"):
            for name, shape, numbers, model in (("n.npy", (), [n], ["range.onnx", "-i", "n=n.npy"]),
                                                ("s.npy", (2,), [n, 4], ["resize.onnx", "-i", "x=ones.npy", "-i", "sizes=s.npy"])):
                write(name, npy("q", shape, numbers))
                _, err = ortrain("run", *model, status=0 if said is None else 1, variables=limit)
                if said is not None:
                    self.assertRegex(err, said if n > 10 ** 7 or model[0] == "range.onnx" else said + "|memory")
        self.assertRegex(ortrain("run", "range.onnx", "-i", "n=n.npy", status=1)[1], "annot|memory|large|many")

    def test_impossible_sizes(self):
        """One batch that the model does not take leaves the others of the table."""
        save("one.onnx", [node(b"Reshape", [b"x", b"shape"], b"r"), node(b"MatMul", [b"r", b"w"], b"y")],
             [tensor(b"shape", 3, ints=[2, -1, 3]), tensor(b"w", 3, 2)], [value(b"x", b"n", 3)], [value(b"y", 2, b"m", 2)])
        for sizes in ("4,3,8", "3,4"):
            out, _ = ortrain("plan", "one.onnx", "--batch", sizes)
            self.assertRegex(out, r"(?m)^ +4  +\d.*$")
            self.assertRegex(out, r"(?m)^ +3  impossible: Reshape 'reshape'.*$")
        table = strict(ortrain("plan", "one.onnx", "--batch", "3,4", "--json")[0])["batches"]
        self.assertEqual(["error" in row for row in table], [True, False])
        self.assertIn("Reshape 'reshape'", self.fails(1, "plan", "one.onnx", "--batch", "3,5"))


class Links(Failures):
    """Weights in files that are links."""
    def test_links(self):
        weights = struct.pack("<24f", *(i / 24 for i in range(24)))
        external = (b"\x08\x08\x08\x03" + bytes([16, 1]) + field(8, b"w") + field(13, field(1, b"location") + field(2, b"w.data")) + b"\x70\x01")
        save("linked.onnx", [node(b"MatMul", [b"x", b"w"], b"y")], [external], [value(b"x", b"n", 8)], [value(b"y", b"n", 3)])
        os.makedirs(path("hub/blobs"))
        os.makedirs(path("hub/snapshots/abc"))
        os.makedirs(path("elsewhere"))
        write("hub/blobs/2", weights)
        os.rename(path("linked.onnx"), path("hub/blobs/1"))
        for name, blob in ("linked.onnx", 1), ("w.data", 2):
            os.symlink(f"../../blobs/{blob}", path(f"hub/snapshots/abc/{name}"))
            os.symlink(path(f"hub/blobs/{blob}"), path(f"elsewhere/{name}"))
        npz("linked.npz", x=("f", (6, 8), [i / 48 for i in range(48)]), labels=("q", (6,), [0, 1, 2] * 2))
        write("eight.npy", npy("f", (6, 8), [i / 48 for i in range(48)]))
        commands = (["check"], ["info"], ["train", "--data", "linked.npz"], ["eval", "--data", "linked.npz"], ["run", "--input", "x=eight.npy"], ["plan"],
                    ["bench", "--steps", "1"])
        for name, *more in commands:
            ortrain(name, "hub/snapshots/abc/linked.onnx", *more)
            self.assertIn("--allow-links", self.fails(1, name, "elsewhere/linked.onnx", *more))
            ortrain(name, "elsewhere/linked.onnx", *more, "--allow-links")
        for model, links in ("hub/snapshots/abc/linked.onnx", []), ("elsewhere/linked.onnx", ["--allow-links"]):
            ortrain("train", model, "--data", "linked.npz", "--checkpoint", "state", "--export", "direct.onnx", "--threads", "1", *links)
            ortrain("export", "state", "later.onnx", *links)
            self.assertEqual(*(open(path(name + ".onnx.data"), "rb").read() for name in ("direct", "later")))


class Tables(Failures):
    """Tables as spreadsheets, statistics programs and shells write them."""
    ROWS = [(i % 7 / 4, -i / 8, "big" if i % 3 else "small") for i in range(24)]

    def setUp(self):
        save("table.onnx", [node(b"MatMul", [b"x", b"w"], b"y")], [tensor(b"w", 2, 2)], [value(b"x", b"n", 2)], [value(b"y", b"n", 2)])
        write("plain.csv", self.text())
        self.expected = self.train("plain.csv")

    def text(self, separator=",", header="a,b,size", decimal=".", end="\n"):
        rows = [header] + [f"{a},{b},{size}" for a, b, size in self.ROWS]
        cells = [[cell.replace(".", decimal) for cell in row.split(",")] for row in rows]
        return "".join(separator.join(row) + end for row in cells).encode()

    def train(self, name, *more, read_classes=True):
        ortrain("train", "table.onnx", "--data", name, "--epochs", "2", "--threads", "1", "--export", "of-table.onnx", *more)
        if not read_classes:
            with open(path("of-table.onnx"), "rb") as trained:
                return trained.read()
        with open(path("of-table.onnx"), "rb") as trained, open(path("of-table.classes.json"), "rb") as classes:
            return trained.read(), classes.read()

    def refused(self, data, *more, name="wrong.csv"):
        return self.fails(1, "train", "table.onnx", "--data", write(name, data), *more)

    def test_separators(self):
        for separator in ";\t|,":
            for end in "\n", "\r\n", "\r":
                self.assertEqual(self.train(write("other.csv", self.text(separator, end=end))), self.expected, (separator, end))
        self.assertEqual(self.train(write("tabs.tsv", self.text("\t"))), self.expected)
        self.assertEqual(self.train(write("decimal.csv", self.text(";", decimal=","))), self.expected)
        self.assertEqual(self.train(write("bare.csv", self.text(";", decimal=",").split(b"\n", 1)[1])), self.expected)
        self.assertEqual(self.train(write("odd.csv", self.text("~")), "--separator", "~"), self.expected)
        for word, separator in ("semicolon", ";"), ("tab", "\t"), ("\\t", "\t"), ("bar", "|"), ("comma", ","):
            self.assertEqual(self.train(write("named.csv", self.text(separator)), "--separator", word), self.expected, word)
        numbers = self.text(" ").replace(b"small", b"0").replace(b"big", b"1").split(b"\n", 1)[1]
        spaces = self.train(write("numbers.txt", numbers), read_classes=False)
        self.assertEqual(spaces, self.train(write("numbers.csv", numbers.replace(b" ", b",")), read_classes=False))
        self.assertEqual(spaces, self.train("numbers.txt", "--separator", "space", read_classes=False))
        for end in b"\n", b"\r\n":
            self.assertEqual(self.train(write("excel.csv", b"sep=;" + end + self.text(";", decimal=","))), self.expected)
        # quotes hide what separates
        quoted = self.text(";").replace(b"small", b'"small"').replace(b"a;b;size", b'"a,a";"b,b";"size, or so"')
        self.assertEqual(self.train(write("quoted.csv", quoted)), self.expected)
        self.assertIn("has 1 field, separated by ','; if another character separates them, set separator (--separator of ortrain)", self.refused(self.text("\t"), "--separator", "comma"))
        for wrong in "commas", "", '"':
            self.assertIn("--separator takes", ortrain("train", "table.onnx", "--data", "plain.csv", "--separator", wrong, status=2)[1])
        self.assertIn("separated by ';'", self.refused(self.text(";") + b"1;2\n"))
        self.assertIn("decimal sign ','", self.refused(self.text(";") + b"1,5;2;big\n"))
        self.assertIn("'1.234,5' is not a number", self.refused(self.text(";", decimal=",") + b"1.234,5;2;big\n"))
        self.assertIn("decimal sign ','", self.refused(self.text("\t") + b"1,5\t2\tbig\n"))

    def test_decimal_commas_between_other_separators(self):
        for separator in "\t", "|":
            self.assertEqual(self.train(write("decimal.txt", self.text(separator, decimal=","))), self.expected, separator)
        excel = self.text("\t", decimal=",", end="\r\n").decode().encode("utf-16")          # Excel's "Unicode text"
        self.assertEqual(self.train(write("unicode.txt", excel)), self.expected)
        header = b"a\tb\tsize\n"
        self.assertIn("comma between thousands", self.refused(header + b"1,234\t2\tbig\n"))
        self.assertIn("comma between thousands", self.refused(header + b"-12,345\t2\tbig\n"))
        self.train(write("known.tsv", header + b"0,5\t2\tbig\n1,234\t2\tsmall\n"))        # the line before tells
        self.train(write("known.tsv", header + b"1,23\t0,125\tbig\n1\t2\tsmall\n"))

    def test_several_spaces(self):
        numbers = self.text(" ").replace(b"small", b"0").replace(b"big", b"1").split(b"\n", 1)[1]
        expected = self.train(write("numbers.txt", numbers), read_classes=False)
        for end in b"\n", b"\r\n", b"  \n":
            wide = b"".join(b"  " + line.replace(b" ", b"   ") + end for line in numbers.splitlines())
            self.assertEqual(self.train(write("wide.txt", wide), read_classes=False), expected)
            self.assertEqual(self.train("wide.txt", "--separator", "space", read_classes=False), expected)
        self.assertEqual(self.train(write("wide.txt", self.text(" ").replace(b" ", b"  ")), "--separator", "space"), self.expected)

    def test_comments(self):
        self.assertEqual(self.train(write("preface.csv", b"# made by me\n#\n# of; several | words\r\n" + self.text())), self.expected)
        self.assertEqual(self.train(write("preface.csv", b"# made by me, and others\n" + self.text())), self.expected)
        lines = self.text().split(b"\n")
        between = b"\n".join(lines[:3] + [b"# of, three, cells", b""] + lines[3:])
        self.assertIn("'# of' is not a number", self.refused(between))
        self.assertEqual(self.train("wrong.csv", "--comment", "#"), self.expected)
        self.assertEqual(self.train(write("percent.csv", between.replace(b"#", b"%%")), "--comment", "%%"), self.expected)
        self.assertIn("are comments, set comment", self.refused(self.text() + b"# the end\n"))
        # a header may begin with it
        self.assertEqual(self.train(write("header.csv", b"#" + self.text())), self.expected)

    def test_encodings(self):
        text = self.text(header="größe,b,size")
        for encoding, mark in ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"), ("utf-8", b"\xef\xbb\xbf"):
            for separator in b",", b"\t":
                data = mark + text.replace(b",", separator).decode().encode(encoding)
                self.assertEqual(self.train(write("encoded.csv", data)), self.expected, encoding)
        self.assertIn("UTF-16 without a byte order mark", self.refused(text.decode().encode("utf-16-le")))
        self.assertIn("UTF-16 without a byte order mark", self.refused(text.decode().encode("utf-16-be")))
        self.assertIn("not valid UTF-16LE", self.refused(b"\xff\xfea\x00\x00\xdc\n\x00"))
        self.assertIn("line 3: a cell has a NUL", self.refused(self.text().replace(b"0.25", b"0.\x0025", 1)))
        self.assertRegex(self.refused(self.text().replace(b"small", b"gro\xdf")), r"'gro\\xdf' is not UTF-8")
        self.assertIn("0.25\\u{1b}[31m' is not a number", self.refused(self.text().replace(b"0.25", b"0.25\x1b[31m", 1)))
        self.assertLess(len(self.refused(self.text() + b"1," + b"9" * 10 ** 6 + b"x,big\n")), 600)
        self.assertIn("the file is empty", self.refused(b"\xff\xfe"))
        for data, said in ((b"PK\3\4" + bytes(30), "ZIP archive"), (gzip.compress(text), "compressed"), (npy("f", (1,), [0]), "NumPy array")):
            self.assertIn(said, self.refused(data))

    def test_pipes(self):
        def run(script):
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=folder, timeout=60, env=environment)
            return done.returncode, done.stdout + done.stderr

        train = "ortrain train table.onnx --epochs 2 --threads 1 --export of-table.onnx "
        for script in ("cat plain.csv | " + train + "--data /dev/stdin", train + "--data /dev/stdin < plain.csv", train + "--data <(cat plain.csv)",
                       train + "--data <(sleep 0.2; cat plain.csv)"):
            os.unlink(path("of-table.onnx"))
            status, said = run(script)
            self.assertEqual(status, 0, said)
            with open(path("of-table.onnx"), "rb") as file:
                self.assertEqual(file.read(), self.expected[0], script)
        self.assertIn("the file is empty", run(train + "--data <(true)")[1])
        os.mkfifo(path("nobody"))
        self.assertIn("the file is empty", run(train + "--data nobody")[1])
        self.assertIn("It is a device, not a file", run(train + "--data /dev/zero")[1])
        self.assertIn("options", run(train + "--data plain.csv --options <(echo '[1]')")[1].lower())
        self.assertEqual(run(train + "--data plain.csv --options <(echo '{\"threads\": 1}')")[0], 0)


class Archives(Failures):
    def test_foreign(self):
        """What other programs put into an archive is no array."""
        save("table.onnx", [node(b"MatMul", [b"x", b"w"], b"y")], [tensor(b"w", 2, 2)], [value(b"x", b"n", 2)], [value(b"y", b"n", 2)])
        arrays = {"x": ("f", (4, 2), range(8)), "labels": ("q", (4,), [0, 1, 0, 1])}
        npz("foreign.npz", **arrays)
        with zipfile.ZipFile(path("foreign.npz"), "a") as file:
            for name in "__MACOSX/._x.npy", "folder/", ".DS_Store", "README.txt", "folder/notes.md", "._labels.npy":
                file.writestr(name, b"anything")
        self.assertIn("4 items", ortrain("train", "table.onnx", "--data", "foreign.npz")[0])
        with zipfile.ZipFile(path("foreign.npz"), "a") as file:
            file.writestr("noise.npy", b"anything")
        self.assertIn("noise", self.fails(1, "train", "table.onnx", "--data", "foreign.npz"))
        for descr, said in ("|O", "Python objects"), ("<U5", "texts"), ("<M8[s]", "times"), ("<f16", "not supported"):
            npz("objects.npz", **arrays)
            header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}".encode().ljust(117) + b"\n"
            with zipfile.ZipFile(path("objects.npz"), "a") as file:
                file.writestr("names.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8))
            self.assertIn("4 items", ortrain("train", "table.onnx", "--data", "objects.npz")[0])       # which no input needs
            message = self.fails(1, "train", "table.onnx", "--data", "objects.npz", "--target", "names")
            self.assertIn("objects.npz: names.npy: ", message)
            self.assertIn(said, message)


class Options(Failures):
    """Files of options that are wrong in some way."""
    def test_types(self):
        for text, said in (('{"optimizer":{"type":"sgd","groups":[{"pattern":{}}]}}', "'pattern', which is a text"),
                           ('{"losses":[{"type":"mse","output":"\\udfff","target":"labels"}]}', "the escape at byte 35 is no character"),
                           ('{"losses":[{"type":"mse","output":"a\\u0000b"}]}', "is no character"),
                           ('{"optimizer":{"type":3}}', "Option 'optimizer' is an object with a 'type', which is a text"),
                           ('{"optimizer":[1]}', "Option 'optimizer' is an object with a 'type'"),
                           ('{"optimizer":{"type":"sgd","learning-rate":{}}}', "Option 'learning-rate' is a number, not {}"),
                           ('{"threads":"many"}', 'Option \'threads\' is a whole number from 0 to 1024, not "many"'),
                           ('{"threads":1000000}', "Option 'threads': 1000000 is out of range; it is a whole number from 0 to 1024"),
                           ('{"threads":1.5}', "Option 'threads' is a whole number from 0 to 1024, not 1.5"),
                           ('{"deterministic":1}', "Option 'deterministic' is true or false, not 1"),
                           ('{"precision":"f64"}', "Option 'precision' is one of f32, bf16, fp16, not \"f64\""),
                           ('{"losses":[{"type":"cross-entropy","output":"y","class-weights":[1,null]}]}', "Option 'class-weights' is a Tensor"),
                           ('{"max-grad-norm":"' + "9" * 10 ** 6 + '"}', "Option 'max-grad-norm' is a number, not"),
                           ('{"trainable":[{}]}', "Option 'trainable' must be an array of strings"),
                           ('{"loss-scaler":[]}', "Option 'loss-scaler' is a LossScaler"),
                           ('[]', "the root must be an object")):
            write("options.json", text.encode())
            message = self.fails(1, "train", "cnn.onnx", "--data", "train.images,train.labels", "--options", "options.json")
            self.assertIn(said, message)
            self.assertTrue(message.startswith("ortrain: Options file 'options.json': "), message)
            self.assertLess(len(message), 600)
        write("options.json", b'{"losses":[{"type":"cross-entropy","output":"\\ud83d\\ude00"}]}')      # a pair is a character
        self.assertIn("\U0001f600", self.fails(1, "train", "cnn.onnx", "--data", "train.images,train.labels", "--options", "options.json"))

    def test_endless(self):
        os.mkfifo(path("options.pipe"))
        for name, said in ("/dev/zero", "it is a device, not a file"), ("options.pipe", "the text is empty"), (folder, "Is a directory"), ("absent.json", "No such"):
            self.assertIn(said, self.fails(1, "train", "cnn.onnx", "--data", "train.images,train.labels", "--options", name))
        with open(path("large.json"), "wb") as file:
            file.truncate(1 << 40)
        for option in "--options", "--classes":
            self.assertIn("it has more than 16777216 bytes", self.fails(1, "train", "cnn.onnx", "--data", "train.images,train.labels", option, "large.json"))
        self.assertIn("bytes", self.fails(1, "plan", "--csv", "large.json"))

    def test_threads(self):
        for command in ["train", "--data", "train.images,train.labels"], ["eval", "--data", "test.images,test.labels"], ["run"], ["bench"]:
            for n in "1000000", "-1", "1025":
                self.assertIn("--threads is from 0 to 1024", ortrain(command[0], "cnn.onnx", *command[1:], "--threads", n, status=2)[1])

    def test_names(self):
        """A name of a file never reaches a terminal with control characters."""
        for name in "no\x1b[31mne.{}", "two\nlines.{}":
            for words in (["info", name.format("onnx")], ["train", "cnn.onnx", "--data", name.format("npz")], ["train", "cnn.onnx", "--data", name.format("csv")],
                          ["train", "cnn.onnx", "--data", "train.images,train.labels", "--options", name.format("json")],
                          ["run", "cnn.onnx", "-i", "image=" + name.format("npy")], ["export", name.format("d"), "out.onnx"], ["plan", "--csv", name.format("csv")]):
                for kind in "absent", "wrong":
                    if kind == "wrong":
                        write(words[-1].split("=")[-1] if words[0] not in ("info", "export") else words[1], b"wrong")
                    message = self.fails(1, *words)
                    self.assertTrue(message.isprintable(), message)


class Blame(Failures):
    """What does not fit is told of what was fed, not of a weight."""
    def setUp(self):
        save("layers.onnx", [node(b"MatMul", [b"x", b"w"], b"h"), node(b"Add", [b"h", b"b"], b"a"), node(b"MatMul", [b"a", b"v"], b"y")],
             [tensor(b"w", 64, 16), tensor(b"b", 16), tensor(b"v", 16, 3)], [value(b"x", b"n", b"features")], [value(b"y", b"n", 3)])
        npz("wide.npz", x=("f", (4, 138), [0.5] * 552), labels=("q", (4,), [0, 1, 2, 0]))
        npz("right.npz", x=("f", (4, 64), [0.5] * 256), labels=("q", (4,), [0, 1, 2, 0]))
        write("wide.npy", npy("f", (4, 138), [0.5] * 552))

    def test_features(self):
        for words in (["train", "--data", "wide.npz"], ["eval", "--data", "wide.npz"], ["run", "-i", "x=wide.npy"], ["plan", "--seq", "138"],
                      ["bench", "--seq", "138", "--steps", "1"]):
            _, err = ortrain(words[0], "layers.onnx", *words[1:], status=1)
            self.assertRegex(err, r"Input 'x' is \[\d+, 138\], the model needs \[\d+, 64\]: .*'matmul'")
        ortrain("train", "layers.onnx", "--data", "right.npz")

    def test_others(self):
        # two inputs with a symbol of one name, and one that has to be equal to a weight's size behind an operator
        save("two.onnx", [node(b"Add", [b"a", b"b"], b"s"), node(b"Tanh", [b"s"], b"t"), node(b"MatMul", [b"t", b"w"], b"y")], [tensor(b"w", 5, 2)],
             [value(b"a", b"n", b"k"), value(b"b", b"n", b"k")], [value(b"y", b"n", 2)])
        write("seven.npy", npy("f", (3, 7), range(21)))
        write("five.npy", npy("f", (3, 5), range(15)))
        self.assertIn("Input 'a' is [3, 7], the model needs [3, 5]: ", self.fails(1, "run", "two.onnx", "-i", "a=seven.npy", "-i", "b=seven.npy"))
        self.assertIn("'b' has the shape [3, 5]", self.fails(1, "run", "two.onnx", "-i", "a=seven.npy", "-i", "b=five.npy"))
        # pictures with another number of channels
        save("conv.onnx", [node(b"Conv", [b"x", b"w"], b"y")], [tensor(b"w", 4, 3, 2, 2)], [value(b"x", b"n", b"c", b"h", b"w2")], [value(b"y", b"n", 4, b"p", b"q")])
        write("grey.npy", npy("f", (1, 1, 8, 8), [0.5] * 64))
        self.assertIn("Input 'x' is [1, 1, 8, 8], the model needs [1, 3, 8, 8]: ", self.fails(1, "run", "conv.onnx", "-i", "x=grey.npy"))
        # sizes that stand nowhere in the model: 8 x 8 pictures and a sequence of 6 are what the last layer's 147 and 48 come from
        save("deep.onnx", [node(b"Conv", [b"x", b"w"], b"c"), node(b"Flatten", [b"c"], b"f"), node(b"MatMul", [b"f", b"v"], b"y")],
             [tensor(b"w", 3, 1, 2, 2), tensor(b"v", 147, 2)], [value(b"x", b"n", 1, b"h", b"w2")], [value(b"y", b"n", 2)])
        write("nine.npy", npy("f", (2, 1, 9, 9), [0.5] * 162))
        self.assertIn("Input 'x' is [2, 1, 9, 9], the model needs [2, 1, 8, 8]: ", self.fails(1, "run", "deep.onnx", "-i", "x=nine.npy"))
        save("words.onnx", [node(b"Gather", [b"table", b"ids"], b"e"), node(b"Flatten", [b"e"], b"f"), node(b"MatMul", [b"f", b"v"], b"y")],
             [tensor(b"table", 50, 8), tensor(b"v", 48, 2)], [value(b"ids", b"n", b"t", dtype=INT64)], [value(b"y", b"n", 2)])
        write("ids.npy", npy("q", (2, 9), range(18)))
        self.assertIn("Input 'ids' is [2, 9], the model needs [2, 6]: ", self.fails(1, "run", "words.onnx", "-i", "ids=ids.npy"))
        # a length that a constant decides
        save("parts.onnx", [node(b"Reshape", [b"x", b"shape"], b"p"), node(b"MatMul", [b"p", b"w"], b"y")],
             [tensor(b"shape", 3, ints=[0, 2, 8]), tensor(b"w", 8, 2)], [value(b"x", b"n", b"t")], [value(b"y", b"n", 2, 2)])
        message = self.fails(1, "run", "parts.onnx", "-i", "x=seven.npy")
        self.assertIn("Reshape", message)


class Inner(Failures):
    def test_argmax(self):
        """The only output is the number of a class: the value that it is of can have a loss."""
        save("classes.onnx", [node(b"MatMul", [b"x", b"w"], b"scores"), node(b"ArgMax", [b"scores"], b"y")], [tensor(b"w", 4, 3)], [value(b"x", b"n", 4)],
             [value(b"y", b"p", b"q", dtype=INT64)])
        out, _ = ortrain("check", "classes.onnx", status=1)
        self.assertIn("ortrain train MODEL --output scores", out)
        npz("classes.npz", x=("f", (6, 4), range(24)), labels=("q", (6,), [0, 1, 2] * 2))
        self.assertIn("it is computed from 'scores', which can have a loss", self.fails(1, "train", "classes.onnx", "--data", "classes.npz"))
        ortrain("train", "classes.onnx", "--data", "classes.npz", "--output", "scores", "--export", "classes-trained.onnx")
        hint = strict(ortrain("check", "classes.onnx", "--json", status=1)[0])["diagnostics"][0]["hint"]
        self.assertIn("'scores'", hint)
        # what cannot train anyway has no such line
        save("fixed-classes.onnx", [node(b"ArgMax", [b"x"], b"y")], [], [value(b"x", b"n", 4)], [value(b"y", b"p", b"q", dtype=INT64)])
        self.assertNotIn("--output", ortrain("check", "fixed-classes.onnx", status=1)[0])
        # some steps further up
        save("deep.onnx", [node(b"MatMul", [b"x", b"w"], b"scores"), node(b"ArgMax", [b"scores"], b"n1"), node(b"Identity", [b"n1"], b"n2"),
                           node(b"Add", [b"n2", b"one"], b"y")], [tensor(b"w", 4, 3), tensor(b"one", 1, ints=[1])], [value(b"x", b"n", 4)],
             [value(b"y", b"p", b"q", dtype=INT64)])
        self.assertIn("--output scores", ortrain("check", "deep.onnx", status=1)[0])


class Losses(Failures):
    def test_plan(self):
        save("probability.onnx", [node(b"MatMul", [b"x", b"w"], b"s"), node(b"Sigmoid", [b"s"], b"y")], [tensor(b"w", 4, 1)],
             [value(b"x", b"n", 4)], [value(b"s", b"n", 1), value(b"y", b"n", 1)])
        for command in (["plan"], ["bench", "--steps", "1"], ["train", "--data", "none.npz"]):
            self.assertRegex(self.fails(1, command[0], "probability.onnx", "--output", "y", *command[1:]), "BceWithLogitsLoss; --loss KIND chooses another loss")
        for command in (["plan"], ["bench", "--steps", "1"]):
            ortrain(*command, "probability.onnx", "--output", "y", "--loss", "bce-with-logits")
        self.assertIn("--output y", ortrain("plan", "--compare", "probability.onnx --output y --loss mse", "probability.onnx --loss mse")[0])
        self.assertIn("no loss 'best'", ortrain("plan", "probability.onnx", "--loss", "best", status=2)[1])

    def test_norm_whose_scale_broadcasts(self):
        """What the library writes for such a norm, a scale of ones, is not trained."""
        save("one-number.onnx", [node(b"LayerNormalization", [b"x", b"s"], b"y")], [tensor(b"s", 1)], [value(b"x", b"n", 2)], [value(b"y", b"n", 2)])
        self.assertIn("not trainable", ortrain("check", "one-number.onnx", status=1)[0])
        npz("one-number.npz", x=("f", (2, 2), [1, 2, 3, 4]), labels=("f", (2, 2), [2, 4, 6, 8]))
        train = ["train", "one-number.onnx", "--data", "one-number.npz", "--loss", "mse"]
        self.assertIn("There is nothing to train", ortrain(*train, status=1)[1])
        self.assertIn("1 trained", ortrain(*train, "--trainable", "s")[0])

    def test_eval(self):
        """Losses and metrics, by hand."""
        save("same.onnx", [node(b"Identity", [b"x"], b"y")], [], [value(b"x", b"n", 2)], [value(b"y", b"n", 2)])
        x, t = [0.5, -2, 3, 1], [0, 1, 1, 1]
        npz("numbers.npz", x=("f", (2, 2), x), labels=("f", (2, 2), t))

        def loss(*words):
            return strict(ortrain("eval", "same.onnx", "--data", "numbers.npz", "--json", *words)[0])

        self.assertAlmostEqual(loss()["loss"], (0.25 + 9 + 4 + 0) / 4)
        self.assertAlmostEqual(loss("--loss", "l1")["loss"], (0.5 + 3 + 2) / 4)
        self.assertAlmostEqual(loss("--loss", "huber")["loss"], (0.125 + 2.5 + 1.5) / 4)
        self.assertAlmostEqual(loss("--loss", "bce-with-logits")["loss"], (0.97407698 + 2.12692801 + 0.04858735 + 0.31326169) / 4, places=6)
        self.assertAlmostEqual(loss("--metric", "mae", "--metric", "rmse")["mae"], 5.5 / 4, places=6)
        npz("numbers.npz", x=("f", (2, 2), x), labels=("q", (2,), [1, 0]))
        self.assertAlmostEqual(loss("--loss", "nll")["loss"], (2 - 3) / 2)
        self.assertEqual(loss()["accuracy"], 0.5)
        self.assertAlmostEqual(loss("--metric", "recall")["macro_recall"], 0.5, places=6)
        self.assertIn("mean absolute error 1", ortrain("eval", "same.onnx", "--data", npz("one.npz", x=("f", (1, 2), [1, 2]), labels=("f", (1, 2), [2, 3])),
                                                        "--loss", "l1")[0])
        self.assertIn("no loss 'best'", ortrain("eval", "same.onnx", "--data", "one.npz", "--loss", "best", status=2)[1])
        self.assertIn("no metric 'best'", ortrain("eval", "same.onnx", "--data", "one.npz", "--metric", "best", status=2)[1])
        self.assertIn("one of train", ortrain("eval", "same.onnx", "--data", "one.npz", "--metric", "confusion-matrix", status=2)[1])
        err = ortrain("eval", "same.onnx", "--data", "numbers.npz", "--loss", "mse", status=1)[1]
        self.assertIn("output is float32[2, 2], but the target is int64[2]; this loss needs a target of the shape of the output", err)
        save("pixels.onnx", [node(b"Identity", [b"x"], b"y")], [], [value(b"x", b"n", 3, 2, 5)], [value(b"y", b"n", 3, 2, 5)])
        npz("pixels.npz", x=("f", (2, 3, 2, 5), [0.5] * 60), labels=("q", (2, 2, 5), [0, 1, 2, 1] * 5))
        err = ortrain("eval", "pixels.onnx", "--data", "pixels.npz", status=1)[1]
        self.assertIn("float32[2, 3, 2, 5], but the target is int64[2, 2, 5]; the classes seem to be along axis 1: --axis 1", err)
        self.assertIn("of 20)", ortrain("eval", "pixels.onnx", "--data", "pixels.npz", "--axis", "1")[0])


if __name__ == "__main__":
    main()
