#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exceptions: a class for each domain, raised from every way to call; what methods of the user return; arguments."""
import asyncio
import copy
import glob
import os
import pickle
import unittest

import numpy as np
from gi.repository import Gio, GLib
from ortrain_tap import Ortrain, batch, folder, linear_model, main, training_session

DOMAINS = ("Checkpoint", "Data", "Device", "Graph", "Model", "Plan", "Session", "Tensor")


class Classes(unittest.TestCase):
    def raised(self, function, *args, **kwargs):
        with self.assertRaises(GLib.Error) as caught:
            function(*args, **kwargs)
        error = caught.exception
        self.assertIsInstance(error, Ortrain.Error)
        self.assertEqual(str(error), error.message)
        self.assertNotIn("quark", str(error))
        self.assertNotRegex(str(error), r"\(\d+\)$")
        return error

    def check(self, error, cls, code):
        self.assertIs(type(error), cls)
        self.assertEqual(error.code, code)
        self.assertTrue(error.matches(cls.quark(), code))
        self.assertTrue(error.matches(getattr(Ortrain, f"{cls.__name__.removesuffix('Error').lower()}_error_quark")(), code))

    def test_domains(self):
        self.assertTrue(issubclass(Ortrain.Error, GLib.Error))
        for name in DOMAINS:
            cls = getattr(Ortrain, f"{name}Error")
            self.assertTrue(issubclass(cls, Ortrain.Error))
            self.assertEqual(cls.quark(), getattr(Ortrain, f"{name.lower()}_error_quark")())
            self.assertIn("code", cls.__doc__)
            error = cls("words")
            self.assertEqual((str(error), error.domain, error.code), ("words", GLib.quark_to_string(cls.quark()), 0))
            for made in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
                self.assertEqual((type(made), str(made), made.domain, made.code), (cls, "words", error.domain, 0))
        self.assertEqual(repr(Ortrain.SessionError("no", Ortrain.SessionError.FEED)),
                         f"Ortrain.SessionError('no', {int(Ortrain.SessionError.FEED)})")

    def test_methods(self):
        session, model = training_session(), linear_model()
        self.check(self.raised(session.train_step, {"x": batch()["x"]}), Ortrain.SessionError, Ortrain.SessionError.FEED)
        self.check(self.raised(session.optimizer_step), Ortrain.SessionError, Ortrain.SessionError.STATE)
        self.check(self.raised(session.set_parameters, {"none": [1.0]}), Ortrain.SessionError, Ortrain.SessionError.FEED)
        self.check(self.raised(Ortrain.InferenceSession(model).run, {}), Ortrain.SessionError, Ortrain.SessionError.FEED)
        released = Ortrain.Tensor([1.0])
        released.release()
        self.check(self.raised(released.get_bytes), Ortrain.TensorError, Ortrain.TensorError.RELEASED)
        self.check(self.raised(Ortrain.Tensor.new_for_data, Ortrain.DType.FLOAT32, [2], b"1"), Ortrain.TensorError, Ortrain.TensorError.SHAPE)
        self.check(self.raised(Ortrain.Tensor([1, 2]).reshape, [3]), Ortrain.TensorError, Ortrain.TensorError.SHAPE)
        path = os.path.join(folder, "no.onnx")
        with open(path, "wb") as file:
            file.write(b"no model")
        self.assertIs(type(self.raised(Ortrain.Model, path)), Ortrain.ModelError)
        self.assertIs(type(self.raised(Ortrain.Model.new_from_file, path)), Ortrain.ModelError)
        self.assertIs(type(self.raised(Ortrain.TensorDataset, {})), Ortrain.DataError)
        self.assertIs(type(self.raised(Ortrain.TensorDataset({"x": [1, 2]}).get_item, 5)), Ortrain.DataError)
        self.assertIs(type(self.raised(Ortrain.Checkpoint.load, path)), Ortrain.CheckpointError)
        options = Ortrain.SessionOptions(provider="none")
        self.assertIs(type(self.raised(Ortrain.InferenceSession, model, options)), Ortrain.DeviceError)
        error = self.raised(Ortrain.Model, os.path.join(folder, "absent.onnx"))       # of a domain of GLib's
        self.assertIn("absent.onnx", str(error))
        self.raised(Ortrain.read_image, os.path.join(folder, "absent.png"), 1, 1, 3)
        self.raised(Ortrain.Tensor.new_from_npy, os.path.join(folder, "absent.npy"))

    def test_iterators(self):
        class Broken(Ortrain.Dataset):
            def do_get_length(self):
                return 3

            def do_get_item(self, index):
                raise Ortrain.DataError("the disk is on fire", Ortrain.DataError.INVALID)

        for function in (lambda: next(iter(Ortrain.DataLoader(Broken(), 2))), lambda: Broken()[0],
                         Ortrain.Trainer(training_session(), Broken()).fit):
            error = self.raised(function)
            self.check(error, Ortrain.DataError, Ortrain.DataError.INVALID)
            self.assertIn("the disk is on fire", str(error))

    def test_asynchronous(self):
        session = training_session()

        async def step():
            await session.train_step_async({"x": batch()["x"]})

        self.check(self.raised(lambda: asyncio.run(step())), Ortrain.SessionError, Ortrain.SessionError.FEED)
        loop, found = GLib.MainLoop(), []

        def done(source, result):
            found.append(self.raised(source.train_step_finish, result))
            loop.quit()

        session.train_step_async(Ortrain.TensorDict({"x": batch()["x"]}), None, done)
        loop.run()
        self.check(found[0], Ortrain.SessionError, Ortrain.SessionError.FEED)
        cancelled = Gio.Cancellable()
        cancelled.cancel()
        error = self.raised(Ortrain.Trainer(session, batch()).fit, cancelled)
        self.assertTrue(error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))


class Returned(unittest.TestCase):
    """What methods of the user return: what is natural is taken, all else is shown, with what is needed."""

    def fails(self, function, *patterns, error=TypeError):
        with self.assertRaises(error) as caught:
            function()
        for pattern in patterns:
            self.assertIn(pattern, str(caught.exception))

    def updated(self, schedule):
        session = training_session(schedule=schedule)
        session.train_step(batch())
        session.optimizer_step()
        return session.get_parameters()["fc.weight"].numpy().copy()

    def test_schedule(self):
        class MySchedule(Ortrain.LrSchedule):
            returned = None

            def do_evaluate(self, step):
                return self.returned

        schedule, results = MySchedule(), []
        for schedule.returned in ((True, 0.5), 0.5, np.float32(0.5), Ortrain.Tensor([0.5])):
            self.assertEqual(schedule.evaluate(0), (True, 0.5))
            results.append(self.updated(schedule))
        for result in results:
            np.testing.assert_array_equal(result, results[0])
        for schedule.returned in (None, "0.5", True, (True, "a"), (0.5, 0.25), [0.5], object()):
            self.fails(lambda: self.updated(schedule), f"MySchedule.do_evaluate () returned {schedule.returned!r}; the factor (a number)")
        schedule.returned = float("nan")
        self.fails(lambda: self.updated(schedule), "the factor on the learning rate is nan", error=Ortrain.SessionError)
        schedule.returned = (False, 1.0)
        self.fails(lambda: self.updated(schedule), "evaluate returned FALSE, and set no error", error=Ortrain.SessionError)

    def test_state_of_a_schedule(self):
        class MySchedule(Ortrain.LrSchedule):
            saved, loaded = None, None

            def do_evaluate(self, step):
                return 1

            def do_save_state(self):
                return self.saved

            def do_load_state(self, state):
                return self.loaded

        schedule, where = MySchedule(), os.path.join(folder, "schedule")
        session = training_session(schedule=schedule)
        for schedule.saved in (None, GLib.Variant("i", 5)):
            session.save_checkpoint(where)
        for schedule.loaded in (None, True):
            session.load_checkpoint(where)
        schedule.loaded = False
        self.fails(lambda: session.load_checkpoint(where), "is not a state of", error=Ortrain.CheckpointError)
        for schedule.loaded in (0, "yes"):
            self.fails(lambda: session.load_checkpoint(where), f"MySchedule.do_load_state () returned {schedule.loaded!r}; True or None")
        for schedule.saved in ({"a": 1}, 5, "x"):
            self.fails(lambda: session.save_checkpoint(where), f"MySchedule.do_save_state () returned {schedule.saved!r}; a GLib.Variant or None is needed")
            self.fails(schedule.save_state, "do_save_state () returned")

    def test_file_that_changes_while_it_is_loaded(self):
        """Everything is checked, then applied: a file that changes between the two leaves the schedule and the counts as they were."""
        class MySchedule(Ortrain.LrSchedule):
            state, where = 1, None

            def do_evaluate(self, step):
                return 1

            def do_save_state(self):
                return GLib.Variant("i", self.state)

            def do_load_state(self, state):
                self.state = state.unpack()
                for file in glob.glob(os.path.join(self.where, "**", "*.safetensors"), recursive=True):
                    os.utime(file, (1, 1))
                return True

        schedule = MySchedule()
        schedule.where = os.path.join(folder, "changing")
        session = training_session(schedule=schedule)
        session.save_checkpoint(schedule.where)
        schedule.state = 2
        session.train_step(batch())
        session.optimizer_step()
        self.fails(lambda: session.load_checkpoint(schedule.where), "changed", error=Ortrain.TensorError)
        self.assertEqual((schedule.state, session.get_step(), session.get_n_train_steps()), (2, 1, 1))

    def test_numbers_of_items(self):
        class MyDataset(Ortrain.Dataset):
            length = 3

            def __len__(self):
                return self.length

            def __getitem__(self, index):
                return {"x": np.zeros(4, np.float32), "labels": 0}

        data = MyDataset()
        for data.length in (2.5, "3", None):
            self.fails(Ortrain.Trainer(training_session(), data).fit, f"MyDataset.do_get_length () returned {data.length!r}; the number of items is needed")
        data.length = -1
        self.fails(Ortrain.Trainer(training_session(), data).fit, "do_get_length () returned -1", error=ValueError)

    def test_loss(self):
        class MyLoss(Ortrain.Loss):
            returned = "pair"

            def do_build(self, graph, output):
                node = graph.add_node("ReduceMean", None, "mean", [output.name], ["the_mean"])
                node.set_attribute("keepdims", GLib.Variant("x", 0))
                graph.infer()
                value = graph.find_value("the_mean")
                return {"pair": (True, value), "value": value}.get(self.returned, self.returned)

        def train():
            return Ortrain.TrainingSession(linear_model(), Ortrain.TrainingOptions([loss], optimizer=Ortrain.Sgd(0.1))).train_step({"x": batch()["x"]})

        loss, losses = MyLoss(output="logits"), []
        for loss.returned in ("pair", "value"):
            losses.append(train())
        self.assertEqual(losses[0], losses[1])
        for loss.returned in (None, 0.5, True, (True, None)):
            self.fails(train, f"MyLoss.do_build () returned {loss.returned!r}; the loss (an Ortrain.Value of the graph)")

    def test_metric(self):
        class MyMetric(Ortrain.Metric):
            computed, updated = 0.25, None

            def do_reset(self):
                if self.computed == "broken":
                    raise KeyError("broken")

            def do_update(self, outputs, batch):
                return self.updated

            def do_compute(self):
                return self.computed

        metric = MyMetric(name="mine")
        update = lambda: metric.update(Ortrain.TensorDict({"y": [1.0]}), Ortrain.TensorDict({"x": [1.0]}))
        for metric.updated in (None, True):
            self.assertTrue(update())
        for metric.computed in (0.25, (True, 0.25), np.float64(0.25)):
            self.assertEqual(metric.compute(), (True, 0.25))
        for metric.updated in (0.5, "yes", []):
            with self.assertRaisesRegex(Exception, rf"MyMetric.do_update \(\) returned .*; True or None is needed"):
                update()
        metric.computed = "broken"
        self.fails(metric.reset, "broken", error=KeyError)
        for metric.computed in (None, "best", (1, 2, 3)):
            with self.assertRaisesRegex(Exception, rf"MyMetric.do_compute \(\) returned .*; a number, or \(True, number\) is needed"):
                metric.compute()

    def test_dataset(self):
        class MyDataset(Ortrain.Dataset):
            length, item = 4, None

            def do_get_length(self):
                return self.length

            def do_get_item(self, index):
                return self.item

        for item in (None, 1.5, [1, 2], "abc", np.zeros(3)):
            data = MyDataset()
            data.item = item
            self.fails(lambda: data[0], f"MyDataset.do_get_item () returned {item!r}; a mapping of names to arrays is needed")
            self.fails(Ortrain.Trainer(training_session(), data).fit, "MyDataset.do_get_item () returned ")
        data = MyDataset()
        data.item = {"x": np.zeros(4, np.float32), "labels": 1}
        self.assertEqual(data[0]["labels"].tolist(), 1)
        data.item = {"x": "text"}
        self.fails(lambda: data[0], "there is no tensor type for NumPy's")

        class Sequence:
            def __len__(self):
                return 2

            def __getitem__(self, index):
                return 0.5

        self.fails(Ortrain.Trainer(training_session(), Sequence()).fit, "returned 0.5; a mapping of names to arrays is needed")

    def test_transform(self):
        class MyTransform(Ortrain.Transform):
            returned = None

            def do_apply(self, item, seed):
                return self.returned

        transform = MyTransform()
        for transform.returned in (None, True, {"x": [1.0]}):
            item = Ortrain.TensorDict({"x": [1.0], "y": [2.0]} if isinstance(transform.returned, dict) else {"x": [1.0]})
            transform.apply(item)
            self.assertEqual(item.get_names(), ["x"])
        for transform.returned in (0.5, "x", [1]):
            self.fails(lambda: transform.apply(Ortrain.TensorDict({"x": [1.0]})), f"MyTransform.do_apply () returned {transform.returned!r}; ")

        def halve(item):
            return 0.5

        self.fails(lambda: Ortrain.FunctionTransform(halve).apply(Ortrain.TensorDict({"x": [1.0]})), "halve returned 0.5; a mapping")

    def test_optimizer(self):
        class MyOptimizer(Ortrain.Optimizer):
            returned, names = None, None

            def do_get_state_names(self):
                return self.names

            def do_update(self, name, parameter, gradient, state, step, learning_rate, weight_decay, gradient_scale):
                parameter.numpy()[...] -= 1
                return self.returned

        def update():
            session = training_session(optimizer=optimizer)
            session.train_step(batch())
            session.optimizer_step()

        optimizer = MyOptimizer()
        for optimizer.returned in (None, True):
            update()
        for optimizer.names in ("seen", [1], 5):
            self.fails(update, f"MyOptimizer.do_get_state_names () returned {optimizer.names!r}; a list of strings is needed")
        optimizer.names = ["seen"]
        for optimizer.returned in (0.5, "ok"):
            self.fails(update, f"MyOptimizer.do_update () returned {optimizer.returned!r}; True or None is needed")
        optimizer.returned = False
        self.fails(update, "update returned FALSE, and set no error", error=Ortrain.SessionError)


class Arguments(unittest.TestCase):
    def test_nicks(self):
        tensor = Ortrain.Tensor([1.5, 2.5])
        self.assertEqual(tensor.cast("int64").tolist(), [1, 2])
        self.assertEqual(Ortrain.Tensor.new("float16", [2]).dtype, Ortrain.DType.FLOAT16)
        self.assertEqual(Ortrain.RegressionMetric("rmse", "y", "t").props.name, "rmse")
        builder = Ortrain.GraphBuilder("nicks")
        self.assertEqual(builder.add_input("x", "bfloat16", "n").dtype, Ortrain.DType.BFLOAT16)
        for bad, words in (("flaot32", "did you mean 'float32'?"), ("", "not ''"), ("FLOAT32", "did you mean 'float32'?")):
            with self.assertRaisesRegex(ValueError, "dtype is one of .*" + words.replace("?", r"\?")):
                tensor.cast(bad)
        for bad in (None, 1.5, [], True):
            with self.assertRaises(TypeError):
                tensor.cast(bad)
        with self.assertRaises(ValueError):
            tensor.cast(99)
        with self.assertRaises(ValueError):
            Ortrain.TrainingOptions(precision=99)

    def test_numbers(self):
        builder = Ortrain.GraphBuilder("numbers")
        x = builder.add_input("x", "float32", "n, 4")
        self.assertIsNotNone(builder.linear(x, "a", 3.0, True))
        self.assertIsNotNone(builder.linear(x, "b", np.int64(3), np.bool_(True)))
        for bad in (3.7, float("nan"), float("inf"), "3", None, [3], object()):
            with self.assertRaises(TypeError, msg=repr(bad)):
                builder.linear(x, "c", bad, True)
        for bad in ("no", None, [], {}):
            with self.assertRaisesRegex(TypeError, "bias needs True or False"):
                builder.linear(x, "c", 3, bad)
            with self.assertRaisesRegex(TypeError, "master_weights needs True or False|drop_last"):
                Ortrain.TrainingOptions(master_weights=bad)
        with self.assertRaises(OverflowError):
            builder.linear(x, "c", 2 ** 70, True)


if __name__ == "__main__":
    main()
