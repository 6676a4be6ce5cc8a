# SPDX-License-Identifier: LGPL-2.1-or-later
"""Metrics, beside the numbers of scikit-learn 1.x for the same data."""
import asyncio
import csv
import json
import math
import os
import threading
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, folder, main, training_session

LABELS = np.array([0, 1, 2, 3, 3, 2, 1, 0, 0, 2])
SCORES = np.array([[5, 1, 0, 0, 0], [2, 3, 0, 1, 0], [0, 4, 3, 1, 0], [1, 0, 0, 2, 0], [3, 0, 1, 2, 0], [0, 0, 6, 1, 0], [2, 1, 0, 0, 0],
                   [4, 0, 0, 1, 0], [-1, 2, 1, 0, 0], [1, 0, 3, 2, 0]], np.float32)
CONFUSION = [[2, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 2, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0]]
Measure, Average = Ortrain.ClassificationMeasure, Ortrain.Average


def value_of(metric, scores, labels, parts=3, names=("logits", "labels")):
    metric.reset()
    for a, b in zip(np.array_split(scores, parts), np.array_split(labels, parts)):
        metric.update(Ortrain.TensorDict({names[0]: a}), Ortrain.TensorDict({names[1]: b}))
    return metric.compute()[1]


def classification(measure, average=Average.MACRO):
    return Ortrain.ClassificationMetric.new(measure, average, "logits", "labels")


class Confidence(Ortrain.Metric):
    def do_reset(self):
        self.sum = self.n = 0
        self.threads = set()

    def do_update(self, outputs, batch):
        self.threads.add(threading.current_thread())
        self.sum += float(outputs["logits"].numpy().max(axis=1).sum())
        self.n += len(batch["labels"].numpy())
        return True

    def do_compute(self):
        return True, -self.sum / self.n


class Failing(Ortrain.Metric):
    def do_update(self, outputs, batch):
        raise KeyError("of the metric")


class Metrics(unittest.TestCase):
    def test_classification(self):
        top = {k: Ortrain.ClassificationMetric.new_accuracy(k, "logits", "labels") for k in (1, 2, 3, 5)}
        self.assertEqual([value_of(top[k], SCORES, LABELS) for k in top], [0.6, 0.9, 0.9, 1.0])
        self.assertEqual([metric.name for metric in top.values()], ["accuracy", "top2_accuracy", "top3_accuracy", "top5_accuracy"])
        for measure, macro in ((Measure.PRECISION, 0.7083333333333333), (Measure.RECALL, 0.5833333333333333),
                               (Measure.F1, 0.6095238095238095)):
            self.assertAlmostEqual(value_of(classification(measure), SCORES, LABELS), macro, places=14)
            self.assertAlmostEqual(value_of(classification(measure, Average.MICRO), SCORES, LABELS), 0.6, places=14)
        f1 = classification(Measure.F1)
        self.assertEqual((f1.get_name(), classification(Measure.RECALL, Average.MICRO).name), ("macro_f1", "micro_recall"))
        self.assertTrue(math.isnan(f1.compute()[1]))
        with self.assertRaises(GLib.Error):
            f1.get_confusion_matrix()
        value_of(f1, SCORES, LABELS)
        self.assertEqual(f1.get_confusion_matrix().numpy().tolist(), CONFUSION)

    def test_shapes(self):
        """Classes in the second dimension and in the last; items that are left out; types of 16 bits; NaN."""
        f1 = classification(Measure.F1)
        sequence, labels = SCORES.reshape(2, 5, 5)[:, :4], LABELS.reshape(2, 5)[:, :4]
        flat = value_of(f1, sequence.reshape(8, 5), labels.reshape(8))
        for scores in (sequence, sequence.swapaxes(1, 2), sequence.astype(np.float16)):
            self.assertEqual(value_of(f1, np.ascontiguousarray(scores), labels, 2), flat)
        ignored = LABELS.copy()
        ignored[[1, 4]] = -100
        kept = ignored >= 0
        self.assertEqual(value_of(f1, SCORES, ignored), value_of(f1, SCORES[kept], LABELS[kept]))
        broken = SCORES.copy()
        broken[0] = np.nan
        self.assertEqual(value_of(classification(Measure.ACCURACY), broken, LABELS), 0.5)
        for scores, wanted in ((SCORES, LABELS[:9]), (SCORES[0], LABELS), (SCORES.reshape(10, 5, 1), LABELS)):
            with self.assertRaises(GLib.Error) as caught:
                value_of(f1, scores, wanted, 1)
            self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.FEED))
        with self.assertRaises(GLib.Error) as caught:
            value_of(f1, SCORES, LABELS, names=("logits", "other"))
        self.assertIn("'labels'", caught.exception.message)

    def test_regression(self):
        found, wanted = np.array([2.5, 0.0, 2, 8, 5.0]), np.array([3, -0.5, 2, 7, 4.25])
        M = Ortrain.RegressionMeasure
        for measure, name, value in ((M.MAE, "mae", 0.55), (M.RMSE, "rmse", 0.6422616289332564), (M.R2, "r2", 0.9328175895765473)):
            metric = Ortrain.RegressionMetric.new(measure, "y", "t")
            self.assertEqual(metric.name, name)
            self.assertAlmostEqual(value_of(metric, found, wanted, names=("y", "t")), value, places=14)
            self.assertAlmostEqual(value_of(metric, found + 1e6, wanted + 1e6, names=("y", "t")), value, places=8)
        r2 = Ortrain.RegressionMetric.new(M.R2, "y", "t")
        same = np.full(4, 2.0)
        self.assertEqual(value_of(r2, same, same, names=("y", "t")), 1.0)
        self.assertEqual(value_of(r2, same + 1, same, names=("y", "t")), 0.0)

    def make(self, **properties):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((40, 4)).astype(np.float32)
        data = Ortrain.TensorDataset({"x": x, "labels": (x @ rng.standard_normal((4, 3))).argmax(axis=1)})
        return Ortrain.Trainer(training_session(), data, epochs=2, batch_size=16, validation=data, **properties)

    def test_trainer(self):
        paths = [os.path.join(folder, name) for name in ("metrics.csv", "metrics.jsonl")]
        trainer = self.make(logs=paths)
        accuracy, own = Ortrain.ClassificationMetric.new_accuracy(1, "logits", "labels"), Confidence()
        self.assertIsNone(own.name)
        own.set_name('a "sum", so to say')
        trainer.add_metric(accuracy)
        trainer.add_metric(own)
        self.assertEqual(len(list(trainer.get_metrics())), 2)
        history = trainer.fit()
        records = list(history.epochs)
        self.assertEqual(records[0].get_value_names(), ["accuracy", own.name])
        for record in records:
            self.assertEqual(record.get_value("accuracy"), record.metric)
        self.assertTrue(math.isnan(records[0].get_value("absent")))
        self.assertIn("accuracy", history.to_string())
        ok, loss, metric = trainer.evaluate(trainer.get_dataset())
        self.assertEqual(accuracy.compute()[1], metric)
        data = trainer.get_dataset().get_batch(list(range(40)))
        logits = trainer.get_session().eval_step({"x": data["x"].numpy()})["logits"].numpy()
        self.assertAlmostEqual(own.compute()[1], -logits.max(axis=1).mean(), places=5)
        with open(paths[0], newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["event"] == "epoch"]
        with open(paths[1]) as file:
            items = [item for item in map(json.loads, file) if item["event"] == "epoch"]
        for found in (rows, items):
            self.assertEqual([float(row[own.name]) for row in found], [record.get_value(own.name) for record in records])

    def test_async(self):
        trainer, own = self.make(), Confidence()
        trainer.add_metric(own)
        history = asyncio.run(trainer.fit_async())
        self.assertFalse(math.isnan(list(history.epochs)[-1].get_value(own.__gtype__.name)))
        self.assertEqual(own.threads, {threading.current_thread()})

    def test_exception(self):
        trainer = self.make()
        trainer.add_metric(Failing())
        with self.assertRaises(KeyError):
            trainer.fit()


if __name__ == "__main__":
    main()
