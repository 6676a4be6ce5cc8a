# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a training shows on a terminal, and where there is none."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unittest

import numpy as np
from gi.repository import Gio, GLib
from ortrain_tap import Ortrain, folder, main, training_session

PROGRAM = """
import asyncio, sys
import numpy as np
from ortrain_tap import Ortrain, training_session
x = np.random.default_rng(0).random((64, 4), np.float32)
data = {"x": x, "labels": np.arange(64) % 3}
trainer = Ortrain.Trainer(training_session(threads=1), data, epochs=3, batch_size=8, validation=Ortrain.TensorDataset(data))
trainer.add_metric(Ortrain.ClassificationMetric.new_accuracy(2, "logits", "labels"))
for word in sys.argv[1:]:
    if word == "watched":
        trainer.connect("progress", lambda trainer, progress: None)
    elif word == "async":
        pass
    elif word == "stop":
        trainer.connect("epoch-ended", lambda trainer, record: trainer.stop())
    elif word == "raise":
        def fail(session, report):
            raise SystemExit("enough")
        trainer.get_session().connect("post-update", fail)
    else:
        trainer.show_progress = word
async def fit():
    return await trainer.fit_async()
print("done", (asyncio.run(fit()) if "async" in sys.argv else trainer.fit()).n_steps)
"""


def run_in_terminal(columns, *words):
    pid, master = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, *words])
    seen = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    os.waitpid(pid, 0)
    return seen.decode().replace("\r\n", "\n")


def run_in_pipe(*words):
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


class Progress(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            for end in os.openpty():
                os.close(end)
        except OSError as error:
            raise unittest.SkipTest(f"no terminal can be opened: {error}")      # a chroot without /dev/pts
        os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")])

    def test_terminal(self):
        """Each drawing fits; epochs stay as lines; the first step claims no speed."""
        for columns in (40, 80, 200):
            for words in ((), ("async",)):
                text = run_in_terminal(columns, *words)
                self.assertRegex(text, r"(?m)^model +\w+ on \w+, 1 thread$")
                wanted = ["parameters", "trained", "8 steps an epoch, 3 epochs; 64 items to validate", "optimizer", "memory", "at the peak"]
                flat = re.sub(r"\s+", " ", text)
                for word in wanted:
                    self.assertIn(word, flat)
                shown = re.sub(r"\r[^\r\n]*?\x1b\[K", "", text)     # what stays, wrapped at commas
                self.assertLess(max(map(len, shown.split("\n"))), columns)
                comma = "," + (" " if columns == 200 else r"(?: |\n    )")
                epochs = re.findall(comma.join([r"(?m)^epoch (\d)/3: loss [\d.]+", r"validation loss [\d.]+", r"accuracy [\d.]+ %",
                                                r"top2_accuracy [\d.]+", r"lr [\d.e-]+", r"memory \d+ B", r"[\d.]+ s$"]), shown)
                self.assertEqual(epochs, ["1", "2", "3"])
                drawn = re.findall(r"\r([^\r\n\x1b]+)\x1b\[K", text)
                self.assertLess(max(map(len, drawn), default=0), columns)
                if not words:       # of an asynchronous training, only the latest counts
                    self.assertGreaterEqual(len(drawn), 4)
                    self.assertTrue(any(" validating" in line for line in drawn))
                    self.assertEqual(any("items/s" in line for line in drawn), columns > 40, drawn)
                    self.assertRegex(drawn[0], r"^epoch 1/3 (\[#*-+\] )?1/8  loss [\d.]+  lr [\d.e-]+$")
                    self.assertEqual("[" in drawn[0], columns > 40)
                self.assertTrue(text.endswith("done 24\n"), text[-100:])

    def test_switch(self):
        for words in (("never",), ("watched",)):
            self.assertEqual(run_in_terminal(80, *words), "done 24\n")
        self.assertIn("epoch 3/3: ", run_in_terminal(80, "watched", "always"))
        self.assertIn("epoch 1/3: ", run_in_terminal(80, "stop"))
        self.assertNotIn("epoch 2/3: ", run_in_terminal(80, "stop"))

    def test_exception(self):
        """What is unfinished is left on a line of its own."""
        text = run_in_terminal(80, "raise")
        self.assertNotIn("done", text)
        self.assertRegex(text, r"\nenough\n")

    def test_pipe(self):
        self.assertEqual(run_in_pipe(), ("done 24\n", ""))
        self.assertEqual(run_in_pipe("async"), ("done 24\n", ""))
        out, err = run_in_pipe("always")
        self.assertEqual(out, "done 24\n")
        self.assertNotIn("\r", err)
        self.assertNotIn("\x1b", err)
        self.assertEqual(len(re.findall(r"(?m)^epoch \d/3: ", err)), 3)
        self.assertEqual(err.count("optimizer "), 2)      # its line, and its memory

    def test_epochs(self):
        """The memory of an epoch is that of its steps, even where training is resumed behind the last of them."""
        class Stopping(Ortrain.Metric):
            def do_reset(self):
                pass

            def do_update(self, outputs, batch):
                if self.cancellable:
                    self.cancellable.cancel()
                return True

            def do_compute(self):
                return True, 0

        data = {"x": np.random.default_rng(0).random((60, 4), np.float32), "labels": np.arange(60) % 3}
        found, summaries = {}, {}
        for name in ("whole", "cancelled", "resumed"):
            where = os.path.join(folder, "whole" if name == "whole" else "parts")
            session = training_session(threads=1)
            trainer = Ortrain.Trainer(session, data, epochs=2, batch_size=8, validation=Ortrain.TensorDataset(data),
                                      checkpoint_dir=where, resume=name == "resumed", show_progress="never")
            metric, cancellable = Stopping(), Gio.Cancellable()
            metric.cancellable = cancellable if name == "cancelled" else None
            trainer.add_metric(metric)
            trainer.connect("started", lambda trainer, summary: summaries.update({name: summary}))
            if name == "cancelled":
                with self.assertRaises(GLib.Error):
                    trainer.fit(cancellable)
                continue
            found[name] = [record.get_peak_bytes() for record in trainer.fit().epochs]
            self.assertEqual(found[name][1], session.plan({key: value[:8] for key, value in data.items()}).get_peak_bytes())
        self.assertEqual(found["resumed"], found["whole"])
        names = ["model", "parameters", "data", "optimizer", "memory"]
        for name, n in (("whole", 5), ("cancelled", 5), ("resumed", 4)):     # nothing is planned where no step is left
            self.assertEqual([line.split()[0] for line in summaries[name].splitlines()], names[:n])
        self.assertIn("; resumed after the steps of epoch 1\n", summaries["resumed"])

    def test_words(self):
        """Where a resumed training goes on, and what a schedule leads to."""
        def start(n_epochs, schedule):
            session, summaries = training_session(schedule=schedule), []
            data = {"x": np.zeros((64, 4), np.float32), "labels": np.arange(64) % 3}
            trainer = Ortrain.Trainer(session, data, epochs=n_epochs, checkpoint_dir=os.path.join(folder, "words"), resume=True)
            trainer.connect("started", lambda trainer, summary: summaries.append(summary))
            trainer.fit()
            return summaries[0]
        first = start(1, Ortrain.WarmUpSchedule(2, Ortrain.EpochSchedule(Ortrain.CosineSchedule(9))))
        self.assertIn(" epoch\noptimizer ", first)
        self.assertRegex(first, r"(?m)^optimizer   \w+, learning rate \S+, WarmUpSchedule, EpochSchedule, CosineSchedule$")
        second = start(2, None)
        self.assertIn(" epochs; resumed in epoch 2\noptimizer ", second)
        self.assertRegex(second, "(?m)^optimizer .*, no schedule$")

    def test_measures(self):
        """Speed and time left, for handlers: unknown behind the first step, then falling to nothing."""
        x = np.random.default_rng(0).random((64, 4), np.float32)
        trainer = Ortrain.Trainer(training_session(threads=1), {"x": x, "labels": np.arange(64) % 3}, epochs=2, batch_size=8)
        trainer.set_show_progress(Ortrain.ShowProgress.NEVER)
        self.assertEqual(trainer.get_show_progress(), Ortrain.ShowProgress.NEVER)
        seen = []
        trainer.connect("progress", lambda trainer, p: seen.append((p.items_per_second, p.seconds_left, p.seconds)))
        trainer.fit()
        self.assertEqual(seen[0][:2], (0, -1))
        for speed, left, seconds in seen[1:]:
            self.assertGreaterEqual(speed * seconds, 8)
            self.assertGreaterEqual(left, 0)
        self.assertLess(seen[-1][1], seen[1][1] + seen[-1][2])
        self.assertAlmostEqual(seen[-1][1], 0, places=2)


if __name__ == "__main__":
    main()
