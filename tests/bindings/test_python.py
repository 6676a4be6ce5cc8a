# SPDX-License-Identifier: LGPL-2.1-or-later
"""Ortrain as people who know NumPy, dict and PyTorch expect it: constructors, errors, docstrings, repr, tensors as arrays."""
import copy
import gc
import inspect
import os
import pathlib
import pickle
import pydoc
import subprocess
import sys
import unittest

import numpy as np
from gi.repository import Gio, GLib, GObject
from ortrain_tap import Ortrain, batch, folder, linear_model, main, training_session
from test_coverage import classes


def dataset(n=64):
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((n, 4)).astype(np.float32), "labels": rng.integers(0, 3, n)}


class Constructors(unittest.TestCase):
    def test_positional(self):
        self.assertEqual(Ortrain.AdamW(1e-3).learning_rate, 1e-3)
        self.assertEqual(Ortrain.Sgd(0.1, momentum=0.9).momentum, 0.9)
        loss = Ortrain.CrossEntropyLoss("logits", "labels", label_smoothing=0.1, class_weights=[1.0, 2.0, 3.0])
        self.assertEqual((loss.output, loss.target, loss.label_smoothing, loss.class_weights.tolist()), ("logits", "labels", 0.1, [1, 2, 3]))
        schedule = Ortrain.WarmUpSchedule(10, Ortrain.PolynomialSchedule(100, 2.0))
        self.assertEqual((schedule.steps, schedule.after.total_steps, schedule.after.power), (10, 100, 2))
        self.assertEqual(Ortrain.GraphBuilder("name", seed=3).seed, 3)
        self.assertEqual(Ortrain.Graph("g").get_name(), "g")
        self.assertEqual(Ortrain.Storage(64).n_bytes, 64)
        self.assertEqual(Ortrain.ParameterGroup("*.bias", weight_decay=0.5).weight_decay, 0.5)
        self.assertEqual(len(Ortrain.TokenDataset(np.arange(13), 4, "x", "y")), 3)
        path = pathlib.Path(folder, "linear.onnx")
        linear_model().save(str(path))
        self.assertEqual(Ortrain.Model(path).get_n_nodes(), Ortrain.Model(path=path).get_n_nodes())

    def test_conversions(self):
        options = Ortrain.TrainingOptions([Ortrain.MseLoss("y", "t")], precision="bf16", batch_norm="frozen", frozen=("a", "b"),
                                          seed=np.int64(3), max_grad_norm=np.float32(1))
        self.assertEqual((options.precision, options.batch_norm), (Ortrain.Precision.BF16, Ortrain.BatchNormMode.FROZEN))
        self.assertEqual((options.frozen, options.seed, options.max_grad_norm), (["a", "b"], 3, 1))
        options.precision = "f32"
        options.set_precision("fp16")
        self.assertEqual(options.precision, Ortrain.Precision.FP16)
        self.assertEqual(len(Ortrain.TrainingOptions(losses=Ortrain.MseLoss("y", "t")).losses), 1)
        trainer = Ortrain.Trainer(training_session(), dataset(), validation=dataset(8), checkpoint_dir=pathlib.Path(folder), epochs=2)
        self.assertEqual((len(trainer.get_dataset()), len(trainer.validation), trainer.checkpoint_dir), (64, 8, folder))

    def test_trainer(self):
        trainer = Ortrain.Trainer(session=training_session(), dataset=dataset(), batch_size=16, epochs=2)
        history = trainer.fit()
        self.assertIsInstance(history.losses, np.ndarray)
        self.assertEqual((history.losses.dtype, history.losses.shape), (np.float64, (8,)))
        self.assertEqual(history.losses[-4:].mean(), history.last_loss)
        self.assertTrue(trainer.evaluate(dataset())[0])

    def fails(self, error, call, *words):
        with self.assertRaises(error) as caught:
            call()
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_errors(self):
        """Words that say what is wrong, and no criticals, which would end this process."""
        options, session = Ortrain.TrainingOptions(), training_session()
        self.fails(TypeError, lambda: Ortrain.AdamW(lr=1e-3), "AdamW", "lr", "learning_rate")
        self.fails(TypeError, lambda: Ortrain.AdamW(learning_rat=1e-3), "did you mean learning_rate")
        self.fails(TypeError, lambda: Ortrain.LossScaler(purple=1), "purple", "growth_factor")
        self.fails(TypeError, lambda: Ortrain.AdamW(1e-3, 0.9), "at most 1")
        self.fails(TypeError, lambda: Ortrain.AdamW(1e-3, learning_rate=1e-3), "twice")
        self.fails(ValueError, lambda: Ortrain.AdamW(-1e-3), "learning_rate", "at least 0", "-0.001")
        self.fails(ValueError, lambda: Ortrain.AdamW(float("nan")), "learning_rate", "nan")
        self.fails(ValueError, lambda: setattr(Ortrain.Sgd(), "learning_rate", -1), "at least 0")
        self.fails(ValueError, lambda: Ortrain.Sgd().set_learning_rate(-1), "at least 0")
        self.fails(ValueError, lambda: Ortrain.Sgd(momentum=1.5), "from 0 to 1")
        self.fails(TypeError, lambda: Ortrain.Sgd("fast"), "number", "'fast'")
        self.fails(TypeError, lambda: Ortrain.Trainer(session, dataset(), epochs=1.5), "epochs", "integer")
        self.fails(ValueError, lambda: Ortrain.Trainer(session, dataset(), epochs=0), "epochs", "at least 1")
        self.fails(TypeError, lambda: Ortrain.Trainer(session, dataset(), epoch=1), "did you mean epochs")
        self.fails(ValueError, lambda: Ortrain.DataLoader(dataset(), 0), "batch_size")
        self.fails(TypeError, lambda: Ortrain.Trainer(session), "dataset")
        self.fails(TypeError, lambda: Ortrain.Trainer(dataset(), session), "session")
        self.fails(TypeError, lambda: Ortrain.Trainer(session, [1, 2]), "dataset", "mapping")
        self.fails(TypeError, lambda: Ortrain.TrainingSession(options, linear_model()), "model needs an Ortrain.Model")
        self.fails(TypeError, lambda: Ortrain.TrainingSession(linear_model()), "options")
        for call in (lambda: Ortrain.TrainingOptions(frozen="fc.*"), lambda: setattr(options, "frozen", "fc.*"),
                     lambda: options.set_frozen("fc.*"), lambda: options.set_trainable(patterns="fc.*")):
            self.fails(TypeError, call, "list of strings", "['fc.*']")
        self.fails(TypeError, lambda: Ortrain.SessionOptions(outputs=[1]), "outputs", "1")
        self.fails(TypeError, lambda: Ortrain.Graph("g").add_node("Relu", "", "r", "x", ["y"]), "inputs", "['x']")
        self.fails(TypeError, lambda: Ortrain.CsvFormat().add_input("x", Ortrain.DType.FLOAT32, "column"), "['column']")
        self.fails(TypeError, lambda: Ortrain.TrainingOptions(losses=["mse"]), "losses", "'mse'")
        self.fails(TypeError, lambda: Ortrain.TrainingOptions("mse"), "losses needs a list of Ortrain.Loss, not 'mse'")
        self.fails(TypeError, lambda: Ortrain.TrainingOptions(3), "losses needs a list of Ortrain.Loss, not 3")
        self.fails(TypeError, lambda: Ortrain.TrainingOptions(optimizer="adam"), "Ortrain.Optimizer", "'adam'")
        self.fails(ValueError, lambda: Ortrain.TrainingOptions(precision="f8"), "bf16", "'f8'")
        self.fails(TypeError, lambda: Ortrain.CrossEntropyLoss(3), "output", "string")
        self.fails(TypeError, lambda: Ortrain.MemoryPlan(peak_bytes=3), "read-only")
        self.fails(ValueError, lambda: Ortrain.TensorDataset("table.csv"), "table.csv is a table", "new_from_csv", "CsvFormat.new_for_graph")
        self.fails(TypeError, lambda: session.train_step([1]), "mapping")
        self.fails(TypeError, lambda: session.train_step({1: [1]}), "strings")

    def test_classes_of_users(self):
        class Halves(Ortrain.LrSchedule):
            base = GObject.Property(type=float, default=0.5)

            def __init__(self, start, **properties):
                super().__init__(**properties)
                self.start = start

            def do_evaluate(self, step):
                return True, self.start * self.base ** step

        self.assertEqual(Halves(2.0, base=0.25).evaluate(1), (True, 0.5))
        self.assertEqual(repr(Halves(2.0)).split("(")[0].rsplit(".", 1)[-1], "Halves")
        with self.assertRaises(TypeError):
            Halves(2.0, bass=1)


class Descriptions(unittest.TestCase):
    def test_repr(self):
        """Every class of the typelib says what it is, also of an object that is only half made."""
        n = 0
        for name in classes():
            cls = getattr(Ortrain, name)
            if not issubclass(cls, GObject.Object) or cls.__gtype__.is_abstract():
                continue
            text = repr(GObject.new(cls.__gtype__))
            self.assertRegex(text, rf"^<?Ortrain\.{name}\b")
            self.assertNotIn(" object at 0x", text)
            n += 1
        self.assertGreater(n, 40)

    def test_what_they_say(self):
        session, data = training_session(), Ortrain.TensorDataset(dataset())
        trainer, loader = Ortrain.Trainer(session, data, epochs=3), Ortrain.DataLoader(data, 16)
        progress = []
        trainer.connect("progress", lambda trainer, now: progress.append(repr(now)))
        history = trainer.fit()
        graph, plan = linear_model().get_graph(), session.memory_plan
        for thing, *words in (
                (Ortrain.AdamW(1e-3, weight_decay=0.5), "Ortrain.AdamW(learning_rate=0.001, weight_decay=0.5)"),
                (Ortrain.CrossEntropyLoss("a", "b"), "Ortrain.CrossEntropyLoss(output='a', target='b')"),
                (Ortrain.TrainingOptions(precision="bf16"), "Ortrain.TrainingOptions(precision='bf16')"),
                (session, "TrainingSession", "'linear'", "6 steps"), (linear_model(), "Model", "'linear'", "15 parameters"),
                (Ortrain.InferenceSession(linear_model()), "InferenceSession", "'linear'"), (trainer, "Trainer", "3 epochs", "64 items"),
                (loader, "DataLoader", "batches of 16", "64 items"), (history, "TrainingHistory", "3"), (history.epochs[0], "EpochRecord", "epoch"),
                (history.epochs, "[<Ortrain.EpochRecord epoch=1, loss=", ">, <Ortrain.EpochRecord epoch=3, "), (graph.get_nodes(), "[<Ortrain.Node Gemm 'fc'>]"),
                (Ortrain.Graph("").get_nodes(), "[]"), (plan.blocks, f", … {len(plan.blocks)} in all]"),
                (Ortrain.TrainingOptions([Ortrain.CrossEntropyLoss("a", "b")]), "losses=[Ortrain.CrossEntropyLoss(output='a', target='b')]"),
                (Ortrain.Normalize([0.5, 0.25], [1, 0.1]), "Ortrain.Normalize([0.5, 0.25], [1.0, 0.1])"),
                (Ortrain.ParameterGroup("*.bias", weight_decay=0.5), "<Ortrain.ParameterGroup of '*.bias': weight_decay=0.5>"),
                (Ortrain.ParameterGroup("*.bias"), "<Ortrain.ParameterGroup of '*.bias'>"), (graph, "Graph", "'linear'"), (graph.find_value("x"), "Value 'x': float32 [batch, 4]"), (graph.get_nodes()[0], "Node Gemm"),
                (Ortrain.Tensor([1.0]), "<Ortrain.Tensor float64[1] 1>"), (Ortrain.ParameterGroup("*.bias"), "'*.bias'"),
                (Ortrain.TensorDict({"a": [1, 2]}), "<Ortrain.TensorDict {'a': int64[2]}>"), (plan, "MemoryPlan", "peak"),
                (plan.blocks[0], "MemoryBlock"), (linear_model().check(), "CheckReport"), (linear_model().check().parameters[0], "fc.weight"),
                (session.get_memory_report(), "MemoryReport", "rank-0 step"), (Ortrain.Checkpoint(), "Checkpoint of nothing")):
            for word in words:
                self.assertIn(word, repr(thing))
        self.assertRegex(repr(history.epochs[0]), rf" loss={history.epochs[0].loss:.6g}, .*, seconds=[\d.e-]+, peak_bytes=\d+, .*>$")
        self.assertIn("<Ortrain.Progress epoch 3 of 3, step 2 of 2, loss ", progress[-1])

    def test_signatures(self):
        """Each overridden method tells its parameters and what it does."""
        n = 0
        for name in classes():
            cls = getattr(Ortrain, name)
            for method, value in vars(cls).items():
                if inspect.isfunction(value) and not method.startswith("_"):
                    with self.subTest(f"{name}.{method}"):
                        signature = inspect.signature(value)
                        open_ended = [p for p in signature.parameters.values() if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
                        self.assertEqual(bool(open_ended), method.startswith("connect") or (name, method) == ("TensorDict", "update"), signature)
                        self.assertTrue(inspect.getdoc(value))
                        n += 1
        self.assertGreater(n, 150)
        self.assertEqual(str(inspect.signature(Ortrain.PolynomialSchedule)), "(total_steps=1000, power=1, *, end_factor=0)")
        self.assertEqual(str(inspect.signature(Ortrain.Trainer)).split(", *")[0], "(session, dataset")
        self.assertEqual(str(inspect.signature(Ortrain.TrainingSession.train_step)), "(self, inputs)")
        self.assertEqual(str(inspect.signature(Ortrain.Trainer.fit)), "(self, cancellable=None)")
        self.assertEqual(str(inspect.signature(Ortrain.TrainingSession.train_step_async)),
                         "(self, inputs, cancellable=None, callback=None, user_data=None)")
        self.assertEqual(list(inspect.signature(Ortrain.Graph.add_node).parameters), ["self", "op_type", "domain", "name", "inputs", "outputs"])

    def test_help(self):
        text = pydoc.plain(pydoc.render_doc(Ortrain.Sgd))
        self.assertIn("Sgd(learning_rate=0.001, *, ", text)
        self.assertIn("momentum: a number from 0 to 1; default 0", text)
        self.assertIn("forward and backward", pydoc.plain(pydoc.render_doc(Ortrain.TrainingSession)))
        self.assertIn("KeyboardInterrupt", Ortrain.Trainer.__doc__)
        self.assertIn("at least 0", inspect.getdoc(Ortrain.Sgd.learning_rate))
        for name in classes():
            cls = getattr(Ortrain, name)
            if issubclass(cls, GObject.Object) and GObject.list_properties(cls):
                self.assertIn("Properties:", cls.__doc__)
        self.assertIn("Constructors", Gio.Cancellable.__doc__)      # that of others is as it was


class WithoutTheOverride(unittest.TestCase):
    CODE = ("import gi, importlib.util as util, sys; gi.require_version('Ortrain', '1.0'); from gi.repository import Ortrain\n"
            "try: eval(sys.argv[1])\n"
            "except (TypeError, AttributeError) as error: print(error)\n"
            "print(util.find_spec('gi.overrides.Ortrain') is not None)\n")
    # whatever a program begins with
    FIRST = ("Ortrain.AdamW(1e-3)", "Ortrain.CrossEntropyLoss('logits', 'labels')", "Ortrain.TrainingOptions([])", "Ortrain.CosineSchedule(10)",
             "Ortrain.GraphBuilder('model')", "Ortrain.Model('model.onnx')", "Ortrain.Tensor([1])", "Ortrain.TensorDict({})",
             "Ortrain.ImageFolder('folder')", "Ortrain.Normalize([0], [1])", "Ortrain.SessionOptions(1)", "Ortrain.ParameterGroup('*.bias')")

    def run_code(self, first, **environment):
        done = subprocess.run([sys.executable, "-c", self.CODE, first], capture_output=True, text=True, env=environment, timeout=60)
        return done.stdout.strip().endswith("True"), done.stderr

    def test_it_says_so(self):
        """Once, where PyGObject is used and the override is not found; a machine may have it installed."""
        self.assertEqual(self.run_code("Ortrain.AdamW(1e-3)", **os.environ), (True, ""))
        for first in self.FIRST:
            with self.subTest(first):
                found, said = self.run_code(first, **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
                self.assertEqual(said.count("Python does not find gi/overrides/Ortrain.py"), 0 if found else 1, said)


class TensorsAsArrays(unittest.TestCase):
    def test_numbers(self):
        tensor = Ortrain.Tensor(np.float32([[1, 2, 3], [4, 5, 6]]))
        self.assertEqual((tensor.shape, tensor.ndim, tensor.size, len(tensor)), ((2, 3), 2, 6, 2))
        self.assertEqual(tensor.tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(Ortrain.Tensor(2.5).tolist(), 2.5)
        for value in (7, 2.5, True, 1 + 2j, 2 ** 62 + 1):
            item = Ortrain.Tensor(value).item()
            self.assertEqual((item, type(item)), (value, type(value)))
        self.assertEqual(int(Ortrain.Tensor(2 ** 62 + 1)), 2 ** 62 + 1)
        self.assertEqual(Ortrain.Tensor([[3.5]]).item(), 3.5)
        with self.assertRaises(ValueError) as caught:
            tensor.item()
        self.assertIn("[2, 3]", str(caught.exception))
        self.assertEqual("abc"[Ortrain.Tensor(1)], "b")
        with self.assertRaises(TypeError):
            "abc"[Ortrain.Tensor(1.0)]

    def test_indexing(self):
        array = np.arange(12, dtype=np.float32).reshape(3, 4)
        tensor = Ortrain.Tensor(array)
        for key in (1, -1, slice(1, 3), (0, 2), (slice(None), slice(None, None, 2)), ..., [0, 2], array[:, 0] > 3):
            np.testing.assert_array_equal(tensor[key], array[key])
        tensor[0] = 9
        tensor[1:, 1] = [7, 8]
        self.assertEqual((array[0].tolist(), array[1:, 1].tolist()), ([9] * 4, [7, 8]))
        self.assertEqual([row.tolist() for row in tensor], array.tolist())
        self.assertIn(7, tensor)
        self.assertNotIn(70, tensor)
        for wrong in (lambda: tensor[3], lambda: tensor[0, 0, 0]):
            with self.assertRaises(IndexError):
                wrong()
        with self.assertRaises(TypeError):
            iter(Ortrain.Tensor(1.0))

    def test_operators(self):
        array = np.float32([1, 2, 3])
        tensor = Ortrain.Tensor(array)
        self.assertEqual((tensor == 2).tolist(), [False, True, False])
        self.assertEqual((tensor != tensor).tolist(), [False] * 3)
        self.assertEqual([(tensor < 2).sum(), (tensor <= 2).sum(), (tensor > 2).sum(), (tensor >= 2).sum()], [1, 2, 1, 2])
        self.assertEqual((array == tensor).tolist(), [True] * 3)
        self.assertFalse(tensor == None)        # noqa: E711
        self.assertFalse(tensor == "text")
        self.assertIn(tensor, {tensor: 1})
        np.testing.assert_array_equal(1 - tensor * 2 + array / tensor, 1 - array * 2 + 1)
        np.testing.assert_array_equal(-tensor @ tensor, -14)
        self.assertEqual((np.exp(tensor).shape, np.stack([tensor, tensor]).shape, float(np.mean(tensor))), ((3,), (2, 3), 2))
        half = tensor.cast(Ortrain.DType.BFLOAT16)
        self.assertEqual((half.tolist(), (half > 1).tolist(), half.cast(Ortrain.DType.FLOAT32)[2]), ([1, 2, 3], [False, True, True], 3))
        with self.assertRaises(TypeError):
            half[0] = 1

    def test_pickles(self):
        for value in (np.float32([[1, 2], [3, 4]]), np.int64(7), np.empty((0, 3), np.float16), np.array([True, False])):
            tensor = Ortrain.Tensor(value)
            for protocol in (2, pickle.HIGHEST_PROTOCOL):
                again = pickle.loads(pickle.dumps(tensor, protocol))
                self.assertTrue(again.equal(tensor))
                self.assertEqual((again.dtype, again.shape, again.writable), (tensor.dtype, tensor.shape, True))
        half = Ortrain.Tensor([1.0, 2.0]).cast(Ortrain.DType.BFLOAT16)
        self.assertTrue(pickle.loads(pickle.dumps(half)).equal(half))
        tensors = Ortrain.TensorDict({"b": [1.0], "a": [[2]]})
        again = pickle.loads(pickle.dumps({"state": tensors}))["state"]
        self.assertEqual((list(again), again["a"].tolist()), (["b", "a"], [[2]]))
        path = os.path.join(folder, "tensors.pickle")
        pathlib.Path(path).write_bytes(pickle.dumps(tensors))
        done = subprocess.run([sys.executable, "-c", "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))", path],
                              capture_output=True, text=True)      # a process that has not asked for Ortrain before
        self.assertEqual((done.stdout.splitlines(), done.stderr), (str(tensors).splitlines(), ""))

    def test_copies(self):
        tensor = Ortrain.Tensor([1.0, 2.0])
        for other in (copy.copy(tensor), copy.deepcopy(tensor)):
            other[0] = 5
            self.assertEqual((other.tolist(), tensor.tolist()), ([5, 2], [1, 2]))
        tensors = Ortrain.TensorDict({"a": tensor})
        self.assertEqual(copy.copy(tensors)["a"].get_address(), tensor.get_address())
        self.assertNotEqual(copy.deepcopy(tensors)["a"].get_address(), tensor.get_address())

    def test_memory_is_kept(self):
        view = pickle.loads(pickle.dumps(Ortrain.Tensor(np.arange(1000)))).numpy()
        gc.collect()
        self.assertEqual(int(view.sum()), 499500)


class DictsAsDicts(unittest.TestCase):
    def test_methods(self):
        tensors, plain = Ortrain.TensorDict({"a": [1], "b": [2]}), {"a": [1], "b": [2]}
        for d in (tensors, plain):
            d.update({"c": [3]}, d=[4])
            d.update([("e", [5])])
            self.assertEqual(d.setdefault("a", [9])[0], 1)
            self.assertEqual(d.setdefault("f", [6])[0], 6)
            self.assertEqual((d.get("z"), d.get("z", 3), d.get("a")[0]), (None, 3, 1))
            self.assertEqual((d.pop("a")[0], d.pop("a", None), d.popitem()[0]), (1, None, "f"))
            with self.assertRaises(KeyError):
                d.pop("a")
        self.assertEqual(list(tensors), list(plain))
        self.assertEqual([list(tensors.keys()), list(reversed(tensors))], [["b", "c", "d", "e"], ["e", "d", "c", "b"]])
        self.assertEqual({**tensors}.keys(), {"b", "c", "d", "e"})
        self.assertEqual([tensor.item() for tensor in tensors.values()], [2, 3, 4, 5])
        joined = tensors | {"b": [7]}
        self.assertEqual(({name: tensor.item() for name, tensor in joined.items()}, tensors["b"].item()), ({"b": 7, "c": 3, "d": 4, "e": 5}, 2))
        joined = {"b": [7], "a": [1]} | tensors
        self.assertEqual((type(joined), list(joined), joined["b"].item()), (Ortrain.TensorDict, ["b", "a", "c", "d", "e"], 2))
        same = joined
        joined |= {"a": [8]}
        self.assertEqual((joined is same, joined["a"].item()), (True, 8))
        with self.assertRaises(TypeError):
            tensors | 3
        other = tensors.copy()
        tensors.clear()
        self.assertEqual((len(tensors), len(other), bool(tensors), repr(tensors)), (0, 4, False, "<Ortrain.TensorDict {}>"))
        with self.assertRaises(KeyError):
            tensors.popitem()
        with self.assertRaises(TypeError):
            tensors.update({}, {})


class Datasets(unittest.TestCase):
    def test_mappings(self):
        class Data(Ortrain.Dataset):
            def do_get_length(self):
                return 8

            def do_get_item(self, index):
                return {"x": np.full(4, index, np.float32), "labels": index % 3}

        self.assertEqual(Ortrain.Trainer(training_session(), Data(), batch_size=4).fit().n_steps, 2)
        self.assertEqual(Data()[-1]["x"].tolist(), [7] * 4)

    def test_as_pytorch_has_it(self):
        class Data(Ortrain.Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, index):
                return {"x": np.full(4, index, np.float32), "labels": index % 3}

        self.assertEqual(Data().get_length(), 8)
        self.assertEqual(Ortrain.Trainer(training_session(), Data(), batch_size=4).fit().n_steps, 2)
        self.assertEqual([len(rows["x"]) for rows in Ortrain.DataLoader(Data(), 3)], [3, 3, 2])

    def test_batches(self):
        class Data(Ortrain.Dataset):
            def do_get_length(self):
                return 6

            def do_get_batch(self, indices):
                return {"x": np.array(indices, np.float64)}

        self.assertEqual([rows["x"].tolist() for rows in Ortrain.DataLoader(Data(), 4)], [[0, 1, 2, 3], [4, 5]])

    def test_nothing_returned(self):
        class Data(Ortrain.Dataset):
            def do_get_length(self):
                return 6

            def do_get_item(self, index):
                pass

        with self.assertRaises(TypeError) as caught:
            list(Ortrain.DataLoader(Data()))
        self.assertIn("mapping", str(caught.exception))

    def test_sequences(self):
        data = Ortrain.TensorDataset({"x": np.arange(10)})
        self.assertEqual((len(data), data[3]["x"].item(), data[-1]["x"].item(), len(data[2:5]), data[2:5][0]["x"].item()), (10, 3, 9, 3, 2))
        self.assertTrue(Ortrain.TensorDataset({"x": np.zeros((0, 2))}) is not None)
        with self.assertRaises(IndexError):
            data[10]
        self.assertEqual(len(Ortrain.DataLoader(data, 4)), 3)
        self.assertEqual([item["x"].item() for item in data], list(range(10)))


if __name__ == "__main__":
    main()
