# SPDX-License-Identifier: LGPL-2.1-or-later
"""Optimizers, schedules and losses, the library's and those written in Python."""
import asyncio
import math
import os
import tempfile
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, batch, dataset, folder, linear_model, main, parameters_of, softmax, training_session


class Optimizers(unittest.TestCase):
    def test_all_learn(self):
        for optimizer in (Ortrain.Sgd(learning_rate=0.5, momentum=0.9, nesterov=True), Ortrain.Adam(learning_rate=0.05),
                          Ortrain.AdamW(learning_rate=0.05, weight_decay=0.0), Ortrain.Lamb(learning_rate=0.05),
                          Ortrain.Adagrad(learning_rate=0.2)):
            with self.subTest(type(optimizer).__name__):
                self.assertIsInstance(optimizer, Ortrain.Optimizer)
                session, feeds = training_session(optimizer=optimizer), batch()
                losses = []
                for _ in range(30):
                    losses.append(session.train_step(feeds))
                    session.optimizer_step()
                self.assertLess(losses[-1], 0.8 * losses[0])

    def test_constructors(self):
        for cls in (Ortrain.Sgd, Ortrain.Adam, Ortrain.AdamW, Ortrain.Lamb, Ortrain.Adagrad):
            self.assertEqual(cls.new(0.5).learning_rate, 0.5)
        self.assertEqual(Ortrain.AdamW().beta1, 0.9)

    def test_state_precision(self):
        """8 bits: less state, a note, training that is near to the other; refused where it would not do."""
        rng = np.random.default_rng(1)
        x = rng.standard_normal((64, 64)).astype(np.float32)
        labels = np.argmax(x[:, :10], axis=1)
        states, losses = [], []
        for precision in (Ortrain.StatePrecision.F32, Ortrain.StatePrecision.INT8):
            model = Ortrain.GraphBuilder.new_mlp(None, [64, 256, 10], 1).build()
            optimizer = Ortrain.AdamW(learning_rate=1e-3)
            self.assertEqual(optimizer.get_state_precision(), Ortrain.StatePrecision.F32)
            optimizer.set_state_precision(precision)
            self.assertEqual(optimizer.state_precision, precision)
            options = Ortrain.TrainingOptions(optimizer=optimizer)
            options.add_loss(Ortrain.CrossEntropyLoss.new(model.get_graph().get_outputs()[0].get_name(), "labels"))
            session = Ortrain.TrainingSession.new(model, options)
            feeds = {model.get_graph().get_inputs()[0].get_name(): x, "labels": labels}
            for _ in range(20):
                losses.append(session.train_step(feeds))
                session.optimizer_step()
            states.append(session.get_memory_report().state)
            self.assertEqual(any("8 bits" in note for note in session.get_notes()), precision == Ortrain.StatePrecision.INT8)
        # the first weight alone is large: 64 · 256 elements in 128 rows of 132 bytes
        self.assertEqual(states[0] - states[1], 2 * (4 * 64 * 256 - 128 * 132))
        self.assertLess(losses[-1], 0.7 * losses[0])
        self.assertAlmostEqual(losses[-1], losses[19], delta=0.01)
        with self.assertRaises(GLib.Error) as caught:
            training_session(optimizer=Ortrain.Adagrad(state_precision=Ortrain.StatePrecision.INT8))
        self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.OPTION))
        self.assertIn("state-precision", caught.exception.message)

    def test_infinite_weights_stay(self):
        """A row of a table that holds -inf and is never looked up, with and without weight decay."""
        def make(cls, decay, **options):
            builder = Ortrain.GraphBuilder.new("table")
            ids = builder.add_input("ids", Ortrain.DType.INT64, "n")
            builder.add_output(builder.linear(builder.embedding(ids, "table", 64, 64), "fc", 2, True), "y")
            optimizer = cls(learning_rate=0.1, weight_decay=decay)
            if "state_precision" in options:
                optimizer.state_precision = options.pop("state_precision")
            options = Ortrain.TrainingOptions([Ortrain.MseLoss("y", "target")], optimizer=optimizer, **options)
            return Ortrain.TrainingSession(builder.build(), options)

        feeds = {"ids": np.array([0, 2, 3, 2]), "target": np.zeros((4, 2), np.float32)}
        in_blocks = {"state_precision": Ortrain.StatePrecision.INT8}
        for cls in (Ortrain.Sgd, Ortrain.Adam, Ortrain.AdamW, Ortrain.Lamb, Ortrain.Adagrad):
            for decay in (0.0, 0.1):
                for options in ({}, {"precision": "bf16"}, {"precision": "fp16"}, {"max_grad_norm": 1.0}, in_blocks):
                    if options is in_blocks and cls in (Ortrain.Sgd, Ortrain.Adagrad):
                        continue
                    with self.subTest(cls.__name__, decay=decay, **options):
                        session = make(cls, decay, **options)
                        parameters = session.get_parameters().numpy()
                        name = next(name for name in parameters if name.startswith("table"))
                        table = parameters[name].copy()
                        table[1] = -np.inf
                        session.set_parameters({name: table})
                        for _ in range(3):
                            session.train_step(feeds)
                            session.optimizer_step()
                        after = session.get_parameters().numpy()[name]
                        self.assertTrue((after[1] == -np.inf).all())
                        self.assertTrue(np.isfinite(np.delete(after, 1, 0)).all())
                        self.assertFalse(np.array_equal(after[0], table[0]))

    def test_infinite_weights_of_a_model(self):
        """What a file holds at the same places is no reason not to save a training."""
        builder = Ortrain.GraphBuilder.new("table")
        ids = builder.add_input("ids", Ortrain.DType.INT64, "n")
        builder.add_output(builder.linear(builder.embedding(ids, "table", 8, 4), "fc", 2, True), "y")
        options = Ortrain.TrainingOptions([Ortrain.MseLoss("y", "target")], optimizer=Ortrain.Sgd(learning_rate=0.1))
        session = Ortrain.TrainingSession(builder.build(), options)
        name = next(name for name in session.get_parameters().numpy() if name.startswith("table"))
        table = session.get_parameters().numpy()[name].copy()
        table[1, 2] = -np.inf
        session.set_parameters({name: table})
        with self.assertRaisesRegex(GLib.Error, "holds -inf at index .1, 2."):
            session.check_finite()
        with tempfile.TemporaryDirectory() as folder:
            session.export(f"{folder}/model.onnx")
            data = Ortrain.TensorDataset({"ids": np.arange(8) // 2 * 2, "target": np.zeros((8, 2), np.float32)})
            for precision in ("f32", "bf16"):
                options = Ortrain.TrainingOptions([Ortrain.MseLoss("y", "target")], optimizer=Ortrain.Sgd(learning_rate=0.1),
                                                  precision=precision)
                session = Ortrain.TrainingSession(Ortrain.Model(f"{folder}/model.onnx"), options)
                trainer = Ortrain.Trainer(session, data, epochs=2, batch_size=4, checkpoint_dir=f"{folder}/{precision}")
                trainer.fit()
                after = session.get_parameters().numpy()[name]
                self.assertEqual(after[1, 2], -np.inf)
                for where, value in (((1, 2), np.nan), ((1, 2), np.inf), ((3, 0), -np.inf)):
                    broken = after.copy()
                    broken[where] = value
                    session.set_parameters({name: broken})
                    with self.assertRaisesRegex(GLib.Error, "holds"):
                        session.check_finite()

    def test_groups(self):
        optimizer = Ortrain.Sgd(learning_rate=0.1)
        group = optimizer.add_group("*.bias", 0.0, 0.0)
        self.assertIsInstance(group, Ortrain.ParameterGroup)
        self.assertTrue(group.matches("fc.bias"))
        self.assertFalse(group.matches("fc.weight"))
        self.assertEqual([g.get_pattern() for g in optimizer.groups], ["*.bias"])
        session = training_session(optimizer=optimizer)
        before = {name: a.copy() for name, a in session.get_parameters().numpy().items()}
        session.train_step(batch())
        session.optimizer_step()
        after = session.get_parameters().numpy()
        np.testing.assert_array_equal(after["fc.bias"], before["fc.bias"])
        self.assertTrue((after["fc.weight"] != before["fc.weight"]).any())

    def test_clipping(self):
        session = training_session(max_grad_norm=1e-3)
        before = {name: a.copy() for name, a in session.get_parameters().numpy().items()}
        session.train_step(batch())
        session.optimizer_step()
        moved = math.sqrt(sum(float(((a - before[n]) ** 2).sum()) for n, a in session.get_parameters().numpy().items()))
        self.assertAlmostEqual(moved, 0.1 * 1e-3, delta=1e-6)
        self.assertGreater(session.get_last_gradient_norm(), 1e-3)


class Schedules(unittest.TestCase):
    def test_factors(self):
        for schedule, step, expected in (
                (Ortrain.ConstantSchedule.new(0.5), 3, 0.5),
                (Ortrain.LinearSchedule.new(100), 25, 0.75),
                (Ortrain.CosineSchedule.new(100), 50, 0.5),
                (Ortrain.PolynomialSchedule.new(100, 2.0), 50, 0.25),
                (Ortrain.StepSchedule.new(10, 0.1), 25, 0.01),
                (Ortrain.WarmUpSchedule.new(10, Ortrain.ConstantSchedule.new(1.0)), 50, 1.0)):
            found, factor = schedule.evaluate(step)
            self.assertTrue(found)
            self.assertAlmostEqual(factor, expected, places=9, msg=type(schedule).__name__)

    def test_one_cycle(self):
        schedule = Ortrain.OneCycleSchedule.new(100)
        factors = [schedule.evaluate(step)[1] for step in range(100)]
        self.assertAlmostEqual(max(factors), 1, places=3)
        self.assertAlmostEqual(factors[0], 1 / schedule.initial_divisor, places=6)

    def test_plateau(self):
        schedule = Ortrain.PlateauSchedule.new(0.1, 1)
        for metric in (1.0, 1.0, 1.0, 1.0):
            schedule.observe(metric)
        self.assertLess(schedule.evaluate(0)[1], 1)
        other = Ortrain.PlateauSchedule.new(0.1, 1)
        self.assertTrue(other.load_state(schedule.save_state()))
        self.assertEqual(other.evaluate(0)[1], schedule.evaluate(0)[1])
        other.least_factor = 0.05
        for _ in range(20):
            other.observe(1.0)
        self.assertEqual(other.evaluate(0)[1], 0.05)
        patient = Ortrain.PlateauSchedule(gamma=0.5, patience=0, threshold=0.25)
        for metric in (1.0, 0.9, 0.6):      # a tenth is no improvement, four tenths are
            patient.observe(metric)
        self.assertEqual(patient.evaluate(0)[1], 0.5)

    def test_epochs(self):
        """Epochs by their number, whatever the number of updates they have."""
        inner = Ortrain.StepSchedule(2, 0.5)
        schedule = Ortrain.EpochSchedule(inner)
        self.assertEqual(schedule.get_schedule(), inner)
        with self.assertRaisesRegex(GLib.Error, "how many updates an epoch has is not known"):
            schedule.evaluate(0)
        schedule.set_updates_per_epoch(3)
        self.assertEqual([schedule.evaluate(step)[1] for step in range(15)], [1] * 6 + [0.5] * 6 + [0.25] * 3)
        again = Ortrain.EpochSchedule(Ortrain.StepSchedule(2, 0.5))
        self.assertTrue(again.load_state(schedule.save_state()))
        self.assertEqual(again.get_updates_per_epoch(), 3)
        self.assertFalse(again.load_state(GLib.Variant("u", 1)))
        self.assertEqual(Ortrain.EpochSchedule().evaluate(7)[1], 1)

        plateau = Ortrain.EpochSchedule(Ortrain.PlateauSchedule(0.5, 0))
        plateau.updates_per_epoch = 4
        plateau.observe(1.0)
        plateau.observe(1.0)
        other = Ortrain.EpochSchedule(Ortrain.PlateauSchedule(0.5, 0))
        self.assertTrue(other.load_state(plateau.save_state()))
        self.assertEqual((other.evaluate(9), plateau.evaluate(9)), ((True, 0.5), (True, 0.5)))

    def test_epochs_of_a_trainer(self):
        """Rates of PyTorch 2.15: StepLR (SGD ([w], lr=1.0), step_size=1, gamma=0.5), with step () once an epoch."""
        def trained(schedule, epochs, checkpoints=None, resume=False, batch_size=16, accumulation=1):
            options = Ortrain.TrainingOptions(optimizer=Ortrain.Sgd(1.0), schedule=schedule, accumulation_steps=accumulation)
            options.add_loss(Ortrain.CrossEntropyLoss.new("logits", "labels"))
            session, rates = Ortrain.TrainingSession(linear_model(), options), []
            session.connect("pre-update", lambda session, report: rates.append(session.get_current_learning_rate()))
            trainer = Ortrain.Trainer(session, dataset(), epochs=epochs, batch_size=batch_size)
            if checkpoints:
                trainer.checkpoint_dir = checkpoints
                trainer.resume = resume
            trainer.fit()
            return rates

        def halves():
            return Ortrain.EpochSchedule(Ortrain.StepSchedule(1, 0.5))

        self.assertEqual(trained(halves(), 3), [1.0] * 4 + [0.5] * 4 + [0.25] * 4)
        self.assertEqual(trained(halves(), 2, accumulation=3), [1.0] * 2 + [0.5] * 2)
        warm = Ortrain.WarmUpSchedule(2, halves())          # two updates, then epochs
        self.assertEqual(trained(warm, 2), [0.0, 0.5] + [1.0] * 4 + [0.5] * 2)
        path = os.path.join(folder, "epochs")
        self.assertEqual(trained(halves(), 2, path), [1.0] * 4 + [0.5] * 4)
        self.assertEqual(trained(halves(), 3, path, resume=True, batch_size=32), [0.25] * 2)    # goes on with the third

    def test_written_in_python(self):
        class Halves(Ortrain.LrSchedule):
            def do_evaluate(self, step):
                return True, 0.5 ** step

        self.assertEqual(Halves().evaluate(3), (True, 0.125))
        options = Ortrain.TrainingOptions(optimizer=Ortrain.Sgd(learning_rate=1.0), schedule=Halves())
        options.add_loss(Ortrain.CrossEntropyLoss.new("logits", "labels"))
        session = Ortrain.TrainingSession(linear_model(), options)
        rates = []
        for _ in range(3):
            session.train_step(batch())
            rates.append(session.get_current_learning_rate())
            session.optimizer_step()
        self.assertEqual(rates, [1, 0.5, 0.25])


class Failing(unittest.TestCase):
    """Schedules, losses and optimizers of the user that raise, or give what no number is: errors of the call."""

    def fails(self, call, *words, error=GLib.Error):
        """What was raised is raised from the call; its note is the message of the library, which names the place."""
        with self.assertRaises(error) as caught:
            call()
        for word in words:
            self.assertIn(word, caught.exception.message if error is GLib.Error else caught.exception.__notes__[0])
        return caught.exception

    def test_schedule(self):
        class Bad(Ortrain.LrSchedule):
            def do_evaluate(self, step):
                if step == 1:
                    raise ValueError("no such step")
                return True, {0: 1.0, 2: np.nan}.get(step, np.inf)

        class Silent(Ortrain.LrSchedule):
            def do_evaluate(self, step):
                return False, 0.0

        session = training_session(schedule=Bad())
        session.train_step(batch())
        session.optimizer_step()
        before = session.get_state().numpy()
        before = {name: array.copy() for name, array in before.items()}
        session.train_step(batch())
        self.fails(session.optimizer_step, "at step 1: ValueError: no such step", "test_optimizers.py", error=ValueError)
        self.assertTrue(np.isnan(session.get_current_learning_rate()))
        self.assertEqual(session.step, 1)
        for name, array in session.get_state().numpy().items():
            np.testing.assert_array_equal(array, before[name])
        with self.assertRaises(GLib.Error):
            Silent().evaluate(0)
        self.fails(lambda: Bad().evaluate(2), "at step 2", "nan")
        self.fails(lambda: Bad().evaluate(3), "inf")
        session = training_session(schedule=Silent())
        data = Ortrain.TensorDataset(batch())
        trainer = Ortrain.Trainer(session, data)
        self.fails(trainer.fit, "Silent at step 0")
        self.fails(lambda: asyncio.run(Ortrain.Trainer(training_session(schedule=Silent()), data).fit_async()), "Silent")

    def test_optimizer(self):
        class Bad(Ortrain.Optimizer):
            raises = True

            def do_get_state_names(self):
                return ["seen"]

            def do_update(self, name, parameter, gradient, state, step, learning_rate, weight_decay, gradient_scale):
                parameter.numpy()[...] -= 1
                state["seen"].numpy()[...] += 1
                if name == "fc.bias" and self.raises:
                    raise KeyError("momentum")
                if name == "fc.bias":
                    parameter.numpy()[1] = np.nan
                return True

        optimizer = Bad(learning_rate=0.1)
        session = training_session(optimizer=optimizer)
        before = {name: array.copy() for name, array in session.get_state().numpy().items()}
        session.train_step(batch())
        self.fails(session.optimizer_step, "Bad", "fc.bias", "KeyError: 'momentum'", error=KeyError)
        optimizer.raises = False
        error = self.fails(session.optimizer_step, "Bad", "update 1", "Parameter 'fc.bias' holds nan at index [1]")
        self.assertTrue(error.matches(Ortrain.session_error_quark(), Ortrain.SessionError.NOT_FINITE))
        self.assertEqual(session.step, 0)
        for name, array in session.get_state().numpy().items():
            np.testing.assert_array_equal(array, before[name], name)

    def test_loss(self):
        class Bad(Ortrain.Loss):
            def do_build(self, graph, output):
                raise NotImplementedError("not yet")

        def make(loss):
            options = Ortrain.TrainingOptions(losses=[loss])
            return Ortrain.TrainingSession(linear_model(), options)

        self.fails(lambda: make(Bad(output="logits")), "Bad on output 'logits'", "NotImplementedError: not yet", error=NotImplementedError)


class Losses(unittest.TestCase):
    def loss(self, loss, target):
        options = Ortrain.TrainingOptions()
        options.add_loss(loss)
        model, x = linear_model(), batch()["x"]
        w = parameters_of(model.get_graph())
        y = x.astype(np.float64) @ w["fc.weight"].T + w["fc.bias"]
        feeds = {"x": x} if target is None else {"x": x, "t": target}
        return Ortrain.TrainingSession(model, options).train_step(feeds), y

    def test_against_numpy(self):
        t = np.random.default_rng(3).standard_normal((8, 3)).astype(np.float32)
        value, y = self.loss(Ortrain.MseLoss.new("logits", "t"), t)
        self.assertAlmostEqual(value, ((y - t) ** 2).mean(), places=5)
        value, y = self.loss(Ortrain.L1Loss.new("logits", "t"), t)
        self.assertAlmostEqual(value, np.abs(y - t).mean(), places=5)
        value, y = self.loss(Ortrain.HuberLoss(output="logits", target="t", delta=0.5), t)
        d = np.abs(y - t)
        self.assertAlmostEqual(value, np.where(d < 0.5, d * d / 2, 0.5 * (d - 0.25)).mean(), places=5)
        b = (t > 0).astype(np.float32)
        value, y = self.loss(Ortrain.BceWithLogitsLoss.new("logits", "t"), b)
        self.assertAlmostEqual(value, (np.logaddexp(0, y) - b * y).mean(), places=5)
        labels = np.arange(8) % 3
        weighted = Ortrain.CrossEntropyLoss(output="logits", target="t", weight=2.0)
        self.assertEqual((weighted.axis, weighted.output, weighted.target), (-1, "logits", "t"))
        value, y = self.loss(weighted, labels)
        self.assertAlmostEqual(value, -2 * np.log(softmax(y)[np.arange(8), labels]).mean(), places=5)
        self.assertIsInstance(weighted, Ortrain.Loss)
        likelihood = Ortrain.NllLoss(output="logits", target="t", axis=1)
        self.assertEqual((likelihood.axis, likelihood.ignore_index, likelihood.class_weights), (1, -100, None))
        value, y = self.loss(likelihood, labels)
        self.assertAlmostEqual(value, -y[np.arange(8), labels].mean(), places=5)

    def test_scores_before_softmax(self):
        builder = Ortrain.GraphBuilder.new("probabilities")
        x = builder.add_input("x", Ortrain.DType.FLOAT32, "n, 4")
        builder.add_output(builder.softmax(builder.linear(x, "fc", 3, True), -1), "probabilities")
        options = Ortrain.TrainingOptions(losses=[Ortrain.CrossEntropyLoss.new("probabilities", "labels")])
        session = Ortrain.TrainingSession(builder.build(), options)
        self.assertIn("Softmax", session.get_notes()[0])
        feeds = batch()
        p = session.eval_step({"x": feeds["x"]})["probabilities"].numpy()
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
        expected = -np.log(p[np.arange(len(p)), feeds["labels"]]).mean()
        self.assertAlmostEqual(session.train_step(feeds), expected, places=5)

    def test_output(self):
        builder = Ortrain.GraphBuilder.new("scalar")
        x = builder.add_input("x", Ortrain.DType.FLOAT32, "n, 4")
        y = builder.linear(x, "fc", 1, False)
        builder.add_output(builder.add_op("ReduceMean", None, [y.name], ["mean"],
                                          GLib.Variant("a{sv}", {"keepdims": GLib.Variant("x", 0)})), "mean")
        options = Ortrain.TrainingOptions()
        options.add_loss(Ortrain.OutputLoss.new("mean"))
        session = Ortrain.TrainingSession(builder.build(), options)
        x = batch()["x"]
        session.train_step({"x": x})
        np.testing.assert_allclose(session.get_gradients()["fc.weight"].numpy()[0], x.mean(axis=0), rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    main()
