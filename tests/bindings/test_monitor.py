# SPDX-License-Identifier: LGPL-2.1-or-later
"""The best epoch of a training, by what is monitored: its weights, its checkpoint, and when to stop."""
import math
import os
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, dataset, folder, main, training_session

NAN = math.nan


class Scripted(Ortrain.Metric):
    """Has the values that it is told, one for each epoch."""
    values = ()

    def do_reset(self):
        self.n = getattr(self, "n", 0) + 1

    def do_update(self, outputs, batch):
        return True

    def do_compute(self):
        return True, self.values[self.n - 1]


def scripted(*values, **properties):
    metric = Scripted(name="score", **properties)
    metric.values = values
    return metric


def bytes_of(state):
    return {name: tensor.numpy().tobytes() for name, tensor in state.items()}


class Monitor(unittest.TestCase):
    def fit(self, metric=None, session=None, **properties):
        """The history, the weights at the end of each epoch, and those that the session ends with."""
        session = session or training_session(optimizer=Ortrain.Adam(learning_rate=0.05))
        trainer = Ortrain.Trainer(session, dataset(48), **{"epochs": 6, "batch_size": 16, "validation": dataset(48), **properties})
        if metric is not None:
            trainer.add_metric(metric)
        states = []
        trainer.connect("epoch-ended", lambda trainer, record: states.append(bytes_of(session.get_state())))
        history = trainer.fit()
        return history, states, bytes_of(session.get_state())

    def test_direction(self):
        """The loss falls in each epoch: weights and end go by the metric alone."""
        for lower, best, n in ((False, 2, 4), (True, 1, 3)):
            where = os.path.join(folder, f"direction-{lower}")
            metric = scripted(0.3, 0.9, 0.5, 0.7, 0.8, 0.85, lower_is_better=lower)
            self.assertEqual(metric.get_lower_is_better(), lower)
            history, states, final = self.fit(metric, monitor="score", patience=2, checkpoint_dir=where)
            self.assertEqual((history.best_epoch, history.n_epochs, history.stopped_early), (best, n, True))
            self.assertEqual(history.get_best_value(), metric.values[best - 1])
            losses = [record.validation_loss for record in history.epochs]
            self.assertEqual(losses, sorted(losses, reverse=True))
            self.assertEqual(history.best_loss, losses[-1])
            self.assertEqual(final, states[best - 1])
            for path, index in ((os.path.join(where, "best"), best - 1), (where, n - 1)):
                other = training_session(optimizer=Ortrain.Adam())
                other.load_checkpoint(path)
                self.assertEqual(bytes_of(other.get_state()), states[index])

    def test_plateau(self):
        """A schedule follows what is monitored, not the loss, which falls in each epoch."""
        values = 0.5, 0.6, 0.6, 0.6, 0.7, 0.65
        for monitor, lower, factors in (("score", False, (1, 1, 0.5, 0.25, 0.25, 0.125)), ("score", True, (1, 0.5, 0.25, 0.125, 0.0625, 0.03125)),
                                        ("loss", False, (1, 1, 1, 1, 1, 1))):
            session = training_session(optimizer=Ortrain.Adam(0.05), schedule=Ortrain.PlateauSchedule(0.5, 0))
            history, _, _ = self.fit(scripted(*values, lower_is_better=lower), session, monitor=monitor)
            self.assertEqual([record.learning_rate for record in history.epochs], [0.05 * factor for factor in factors])

    def test_default(self):
        history, states, final = self.fit(scripted(*range(6, 0, -1)), patience=2)
        self.assertEqual((history.best_epoch, history.n_epochs), (6, 6))
        self.assertEqual(history.best_value, history.best_loss)
        self.assertEqual(final, states[5])
        trainer = Ortrain.Trainer(training_session(), dataset())
        self.assertEqual((trainer.monitor, trainer.get_monitor()), ("loss", "loss"))
        trainer.set_monitor(None)
        self.assertEqual(trainer.monitor, "loss")

    def test_not_a_number(self):
        """No epoch is better by it, the first one included."""
        history, states, final = self.fit(scripted(NAN, 1, NAN, 0, 2, 2), monitor="score", patience=3)
        self.assertEqual((history.best_epoch, history.n_epochs, final), (5, 6, states[4]))
        history, states, final = self.fit(scripted(*[NAN] * 6), monitor="score", patience=3)
        self.assertEqual((history.best_epoch, history.n_epochs, final), (0, 3, states[2]))
        self.assertTrue(math.isnan(history.best_value))

    def test_accuracy(self):
        metric = Ortrain.ClassificationMetric.new_accuracy(1, "logits", "labels")
        ours, theirs = (self.fit(each, monitor="accuracy", patience=2)[0] for each in (None, metric))
        accuracies = [record.metric for record in ours.epochs]
        self.assertGreater(len(set(accuracies)), 1)
        self.assertEqual(ours.best_epoch, accuracies.index(max(accuracies)) + 1)
        self.assertEqual((ours.best_value, theirs.best_value, theirs.best_epoch), (max(accuracies), max(accuracies), ours.best_epoch))

    def test_known_metrics(self):
        C, R = Ortrain.ClassificationMeasure, Ortrain.RegressionMeasure
        for measure in (C.ACCURACY, C.PRECISION, C.RECALL, C.F1):
            self.assertFalse(Ortrain.ClassificationMetric.new(measure, Ortrain.Average.MACRO, "y", "t").lower_is_better)
        self.assertEqual([Ortrain.RegressionMetric.new(measure, "y", "t").lower_is_better for measure in (R.MAE, R.RMSE, R.R2)],
                         [True, True, False])
        metric = scripted()
        metric.set_lower_is_better(True)
        self.assertTrue(metric.lower_is_better)

    def test_unknown(self):
        """An error that lists what there is, before anything is trained."""
        for properties, words in (({"monitor": "f1"}, "cannot monitor 'f1'; epochs have 'loss', 'accuracy', 'score'"),
                                  ({"monitor": "score", "validation": None}, "without validation data only the loss"),
                                  ({"monitor": "accuracy", "validation": None}, "without validation data only the loss")):
            session = training_session()
            before = bytes_of(session.get_state())
            with self.assertRaises(GLib.Error) as caught:
                self.fit(scripted(1), session, **properties)
            self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.OPTION))
            self.assertIn(words, caught.exception.message)
            self.assertEqual(bytes_of(session.get_state()), before)
        options = Ortrain.TrainingOptions(optimizer=Ortrain.Sgd())
        options.add_loss(Ortrain.MseLoss.new("logits", "numbers"))
        numbers = Ortrain.TensorDataset({"x": np.zeros((8, 4), np.float32), "numbers": np.zeros((8, 3), np.float32)})
        session = Ortrain.TrainingSession(training_session().get_model(), options)
        with self.assertRaises(GLib.Error) as caught:       # numbers have no accuracy
            Ortrain.Trainer(session, numbers, validation=numbers, monitor="accuracy").fit()
        self.assertIn("epochs have 'loss'", caught.exception.message)
        self.assertNotIn("'loss', 'accuracy'", caught.exception.message)

    def test_resume(self):
        """The best epoch stays the best, but not by something else."""
        whole = scripted(3, 9, 1, 2, 4, 8)
        for monitor, n, best in (("score", 4, 1), ("loss", 6, None)):
            where = os.path.join(folder, f"resume-{monitor}")
            make = lambda: training_session(optimizer=Ortrain.Adam(learning_rate=0.05))
            _, states, _ = self.fit(scripted(*whole.values), make(), monitor="score", patience=2, epochs=3, checkpoint_dir=where)
            history, more, final = self.fit(scripted(*whole.values[3:]), make(), monitor=monitor, patience=2, checkpoint_dir=where, resume=True)
            self.assertEqual(3 + len(more), n)
            self.assertEqual(final, states[best] if best is not None else more[-1])
            self.assertEqual(history.stopped_early, best is not None)


if __name__ == "__main__":
    main()
