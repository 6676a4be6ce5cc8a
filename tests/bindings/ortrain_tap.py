# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the Python tests share: unittest that prints TAP, and small models."""
import atexit
import shutil
import sys
import tempfile
import traceback
import unittest

import gi

gi.require_version("Ortrain", "1.0")
import numpy as np
from gi.repository import Ortrain

folder = tempfile.mkdtemp(prefix="ortrain-python-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)


class _Result(unittest.TestResult):
    def startTestRun(self):
        self.number = 0

    def _line(self, word, test, remark=""):
        self.number += 1
        name = test.id().split(".", 1)[-1]
        print(f"{word} {self.number} {name}{remark}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("ok", test, f" # SKIP {reason}")

    def _bad(self, test, error):
        self._line("not ok", test)
        for line in "".join(traceback.format_exception(*error)).splitlines():
            print("#", line, flush=True)

    def addError(self, test, error):
        super().addError(test, error)
        self._bad(test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._bad(test, error)


def main():
    loader = unittest.defaultTestLoader
    if len(sys.argv) > 1:
        suite = loader.loadTestsFromNames(sys.argv[1:], sys.modules["__main__"])
    else:
        suite = loader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}")
    result = _Result()
    result.startTestRun()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)


def linear_model(n_in=4, n_out=3, seed=1):
    """x [batch, n_in] → logits [batch, n_out]; the parameters are fc.weight [n_out, n_in] and fc.bias [n_out]."""
    builder = Ortrain.GraphBuilder.new("linear")
    builder.set_seed(seed)
    x = builder.add_input("x", Ortrain.DType.FLOAT32, f"batch, {n_in}")
    builder.add_output(builder.linear(x, "fc", n_out, True), "logits")
    return builder.build()


def parameters_of(graph):
    return {value.get_name(): value.get_tensor().numpy().astype(np.float64) for value in graph.get_initializers()}


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def batch(n=8, n_in=4, n_out=3, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((n, n_in)).astype(np.float32), "labels": rng.integers(0, n_out, n)}


def training_session(model=None, optimizer=None, **options):
    options = Ortrain.TrainingOptions(optimizer=optimizer or Ortrain.Sgd(learning_rate=0.1), **options)
    options.add_loss(Ortrain.CrossEntropyLoss.new("logits", "labels"))
    return Ortrain.TrainingSession(model or linear_model(), options)
