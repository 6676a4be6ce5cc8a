# SPDX-License-Identifier: LGPL-2.1-or-later
"""Logs of trainings, read by readers that have nothing in common with the writer."""
import csv
import json
import math
import os
import signal
import struct
import subprocess
import sys
import unittest

import numpy as np
from gi.repository import Gio, GLib
from ortrain_tap import Ortrain, folder, main, training_session

TABLE = [0] * 256
for n in range(256):
    c = n
    for _ in range(8):
        c = c >> 1 ^ 0x82F63B78 if c & 1 else c >> 1
    TABLE[n] = c


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """The fields of a message: (number, value) each; an int, or the bytes."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            if key & 7 == 2:
                size, at = varint(data, at)
            else:
                size = {1: 8, 5: 4}[key & 7]
            value, at = data[at:at + size], at + size
        found.append((key >> 3, value))
    return found


def events(path):
    """(step, what) of each record; what: the version, "start", or {tag: value}."""
    with open(path, "rb") as file:
        data = file.read()
    at, found = 0, []
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at:at + 8])
        message = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(message)
        at += length + 16
        event = dict(fields(message))
        assert abs(struct.unpack("<d", event[1])[0] - GLib.get_real_time() / 1e6) < 3600
        if 3 in event:
            what = event[3].decode()
        elif 7 in event:
            what = {(1, 1): "start"}[fields(event[7])[0]]
        else:
            values = [dict(fields(value)) for _, value in fields(event[5])]
            what = {value[1].decode(): struct.unpack("<f", value[2])[0] for value in values}
        found.append((event[2], what))
    return found


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def lines_of(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def make(n=64, **properties):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 4)).astype(np.float32)
    data = Ortrain.TensorDataset({"x": x, "labels": (x @ rng.standard_normal((4, 3))).argmax(axis=1)})
    session = training_session(optimizer=Ortrain.Adam(learning_rate=0.05))
    return Ortrain.Trainer(session, data, epochs=3, batch_size=16, **properties)


def files(name):
    return [os.path.join(folder, name + ".csv"), os.path.join(folder, name + ".jsonl"), os.path.join(folder, name + ".tfevents")]


class Logs(unittest.TestCase):
    def test_checksum(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)      # RFC 3720, B.4

    def test_forms(self):
        table, lines, record = paths = files("run")
        trainer = make(logs=paths)
        self.assertEqual(list(trainer.get_logs()), paths)
        trainer.validation = trainer.get_dataset()
        history = trainer.fit()
        losses = np.frombuffer(history.get_losses().get_data())
        rows, objects, records = rows_of(table), lines_of(lines), events(record)
        self.assertEqual(records[0], (0, "brain.Event:2"))
        self.assertEqual((len(rows), len(objects), len(records)), (15, 15, 16))
        for row, item, (step, scalars) in zip(rows, objects, records[1:]):
            self.assertEqual((row["event"], int(row["epoch"]), int(row["step"])), (item["event"], item["epoch"], item["step"]))
            self.assertEqual(step, item["step"])
            self.assertEqual({name for name in item if name not in ("event", "epoch", "step")},
                             {name for name in row if row[name] and name not in ("event", "epoch", "step")})
            for name in ("loss", "learning_rate", "validation_loss", "accuracy", "seconds", "skipped_updates",
                         "uncounted_steps"):
                self.assertEqual(item.get(name), float(row[name]) if row[name] else None)
                self.assertLessEqual(len(row[name]), len(repr(float(row[name] or 0))))      # 0.1 is no 0.10000000000000001
            prefix = "train" if item["event"] == "step" else "epoch"
            wanted = {f"{prefix}/loss": item["loss"], f"{prefix}/learning_rate": item["learning_rate"]}
            if prefix == "epoch":
                wanted |= {"epoch/skipped_updates": item["skipped_updates"], "epoch/uncounted_steps": item["uncounted_steps"],
                           "epoch/seconds": item["seconds"], "validation/loss": item["validation_loss"],
                           "validation/accuracy": item["accuracy"]}
            self.assertEqual(scalars, {tag: float(np.float32(value)) for tag, value in wanted.items()})
        steps = [item for item in objects if item["event"] == "step"]
        self.assertEqual([item["step"] for item in steps], list(range(1, 13)))
        self.assertEqual([item["loss"] for item in steps], list(losses))
        epochs = [item for item in objects if item["event"] == "epoch"]
        self.assertEqual([(item["loss"], item["validation_loss"], item["accuracy"], item["seconds"]) for item in epochs],
                         [(r.loss, r.validation_loss, r.metric, r.seconds) for r in history])
        self.assertEqual((len(history), history[-1].epoch, [r.epoch for r in history[1:]]),
                         (history.n_epochs, history.n_epochs, list(range(2, history.n_epochs + 1))))
        with self.assertRaises(IndexError):
            history[history.n_epochs]
        make(logs=[table]).fit()                                # anew, and without validation
        self.assertEqual([row["validation_loss"] for row in rows_of(table)], [""] * 15)

    def test_folder(self):
        path = os.path.join(folder, "runs", "first") + "/"
        for count in (1, 2):
            make(logs=[path]).fit()
            self.assertEqual(len([name for name in os.listdir(path) if ".tfevents." in name]), count)
        for name in os.listdir(path):
            self.assertEqual(len(events(os.path.join(path, name))), 16)

    def test_resume(self):
        """What stands behind the checkpoint, and half an entry, go."""
        table, lines, record = paths = files("resumed")
        state = os.path.join(folder, "resumed")
        trainer = make(logs=paths, checkpoint_dir=state, checkpoint_epochs=0)
        trainer.connect("progress", lambda trainer, progress: progress.epoch == 2 and progress.step == 2 and trainer.stop())
        trainer.fit()
        with open(table, "a") as file:
            file.write("step,2,7,0.5,0.1,,,\nstep,2,8,0.")
        with open(lines, "a") as file:
            file.write('{"event":"step","epoch":2,"step":7,"loss":1}\n{"event":"st')
        with open(record, "ab") as file:
            file.write(b"\x20\x00\x00\x00\x00\x00\x00\x00half")
        make(logs=paths, checkpoint_dir=state, resume=True).fit()
        for found in (rows_of(table), lines_of(lines)):
            self.assertEqual([int(row["step"]) for row in found if row["event"] == "step"], list(range(1, 13)))
            self.assertEqual([int(row["epoch"]) for row in found if row["event"] == "epoch"], [1, 2, 3])
        found = events(record)
        self.assertEqual([(step, what) for step, what in found if what == "start"], [(7, "start")])
        self.assertEqual([step for step, what in found if "train/loss" in what], list(range(1, 13)))

    def test_resume_with_other_columns(self):
        """A table has one set of columns: nothing is written to it, and the session stays as it was."""
        state = os.path.join(folder, "columns")
        table, lines, record = paths = files("columns")
        for path in paths:
            if os.path.exists(path):
                os.remove(path)
        trainer = make(logs=paths, checkpoint_dir=state)
        trainer.connect("progress", lambda trainer, progress: progress.epoch == 2 and progress.step == 2 and trainer.stop())
        trainer.fit()
        for begin, told in ((None, "… 'uncounted_steps', not 'uncounted_steps,top2_accuracy'"), ("event,epoch,st", None), ("a,b\n1,2\n", "'a,b', not 'event,epoch,step,")):
            if begin is not None:
                with open(table, "w") as file:
                    file.write(begin)
            contents = [open(path, "rb").read() for path in paths]
            other = make(logs=[lines, record, table], checkpoint_dir=state, resume=True)
            other.validation = other.get_dataset()
            other.add_metric(Ortrain.ClassificationMetric.new_accuracy(2, "logits", "labels"))
            if told is None:
                other.fit()
                self.assertIn("top2_accuracy", rows_of(table)[0])
                continue
            with self.assertRaises(GLib.Error) as caught:
                other.fit()
            self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.EXISTS), caught.exception)
            for text in (table, told, "give the log another name"):
                self.assertIn(text, caught.exception.message)
            self.assertEqual([open(path, "rb").read() for path in paths], contents)
            self.assertEqual(other.get_session().step, 0)

    def test_killed(self):
        paths = files("killed")
        script = ("import os, signal, sys; sys.path.insert(0, sys.argv[1]); import test_logs\n"
                  "trainer = test_logs.make(logs=sys.argv[2:]); n = [0]\n"
                  "def kill(*args):\n"
                  "    n[0] += 1\n"
                  "    if n[0] == 7: os.kill(os.getpid(), signal.SIGKILL)\n"
                  "trainer.connect('progress', kill); trainer.fit()\n")
        done = subprocess.run([sys.executable, "-c", script, os.path.dirname(os.path.abspath(__file__)), *paths])
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertEqual(len(rows_of(paths[0])), 8)
        self.assertEqual(len(lines_of(paths[1])), 8)
        self.assertEqual(len(events(paths[2])), 9)

    def test_errors(self):
        for path, code in (("run.txt", Gio.IOErrorEnum.INVALID_FILENAME), ("absent/run.csv", Gio.IOErrorEnum.NOT_FOUND),
                           ("/dev/full/", None), ("/dev/full", Gio.IOErrorEnum.INVALID_FILENAME)):
            trainer = make()
            trainer.set_logs([path])
            with self.assertRaises(GLib.Error) as caught:
                trainer.fit()
            if code is not None:
                self.assertTrue(caught.exception.matches(Gio.io_error_quark(), code), caught.exception)
            self.assertIn(path.rstrip("/"), caught.exception.message)
            self.assertEqual(trainer.get_session().step, 0)
        full = os.path.join(folder, "full.csv")
        os.symlink("/dev/full", full)
        with self.assertRaises(GLib.Error) as caught:
            make(logs=[full]).fit()
        self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.NO_SPACE), caught.exception)

    def test_not_finite(self):
        table, lines, record = paths = files("wild")
        trainer = make(logs=paths)
        options = trainer.get_session().get_options()
        options.stop_on_nan = False
        parameters = trainer.get_session().get_parameters()
        trainer.get_session().set_parameters({name: np.full_like(parameters[name].numpy(), np.nan) for name in parameters.keys()})
        trainer.fit()
        self.assertTrue(all(math.isnan(float(row["loss"])) for row in rows_of(table)))
        self.assertTrue(all(item["loss"] is None for item in lines_of(lines)))
        self.assertTrue(all(math.isnan(what.get("train/loss", math.nan)) for step, what in events(record)[1:]))


if __name__ == "__main__":
    main()
