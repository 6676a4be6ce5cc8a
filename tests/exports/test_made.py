# SPDX-License-Identifier: LGPL-2.1-or-later
"""What InferenceSession.make_model writes, and operators that ONNX Runtime's optimizer writes, held against stock ONNX Runtime.

Run by tools/check-exports, in its virtual environment.
"""
import os
import pathlib
import sys
import unittest

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent / "bindings"))
from ortrain_tap import Ortrain, folder, main

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

tests = pathlib.Path("/usr/share/libonnx-testdata/data/node")
fixtures = here.parent / "data" / "fixtures"
RANDOM = ("dropout", "bernoulli")       # their operators draw numbers
rng = np.random.default_rng(0)
STEP = 2e-3                 # of differences: losses are means in float64 of outputs in float32


def run(path_or_bytes, feeds=None):
    """The session, and outputs by name if there are feeds; None if ONNX Runtime does not load the model, or run it."""
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    # its last level ends the process at a model with an LSTM in float16
    quiet.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = onnxruntime.InferenceSession(path_or_bytes, quiet, providers=["CPUExecutionProvider"])
    if feeds is None:
        return session, None
    names = [i.name for i in session.get_inputs()]
    return session, dict(zip([o.name for o in session.get_outputs()], session.run(None, {name: feeds[name] for name in names})))


def distance(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        return np.inf
    return np.nan_to_num(np.abs(a - b) / (1 + np.abs(b)), nan=0 if (np.isnan(a) == np.isnan(b)).all() else np.inf).max(initial=0)


def stored_inputs(test, model):
    feeds = {}
    for i, value in enumerate(model.graph.input):
        file = test / "test_data_set_0" / f"input_{i}.pb"
        if not file.exists() or not value.type.HasField("tensor_type"):
            return None
        tensor = onnx.TensorProto.FromString(file.read_bytes())
        feeds[value.name] = numpy_helper.to_array(tensor)
    return feeds


def random_inputs(session):
    feeds = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 2 for size in value.shape]
        feeds[value.name] = rng.integers(0, 2, shape) if "int" in value.type else rng.standard_normal(shape).astype(np.float32)
    return feeds


class Made(unittest.TestCase):
    """Operators of the file's domains and of ONNX only, which ONNX Runtime loads, with the outputs that it has of the file."""

    def check(self, source, feeds, name, **options):
        made = Ortrain.InferenceSession(Ortrain.Model(str(source)), Ortrain.SessionOptions(**options)).make_model()
        path = os.path.join(folder, "made.onnx")
        made.save(path)
        nodes = onnx.load(path, load_external_data=False).graph.node
        self.assertEqual([], [node.op_type for node in nodes if node.domain == "org.ortrain"], name)
        try:
            theirs, expected = run(str(source), feeds)
        except Exception:       # no kernel of ONNX Runtime, by its own account
            return "theirs"
        session, found = run(path, feeds if feeds is not None else None)
        self.assertEqual([o.name for o in session.get_outputs()], [o.name for o in theirs.get_outputs()], name)
        if found is not None and not any(word in name for word in RANDOM):
            for key, value in expected.items():
                self.assertLessEqual(distance(found[key], value), 1e-5, f"{name}: {key}")
                self.assertEqual(found[key].dtype, value.dtype, name)
        return "equal" if found is not None else "loads"

    def test_operators(self):
        counts = {}
        for test in sorted(tests.glob("test_*")):
            source = test / "model.onnx"
            try:
                Ortrain.InferenceSession(Ortrain.Model(str(source)))
            except Exception:
                continue        # `ortrain verify` says what is not supported, and why
            feeds = stored_inputs(test, onnx.load(source, load_external_data=False))
            result = self.check(source, feeds, test.name)
            counts[result] = counts.get(result, 0) + 1
        if not tests.is_dir():
            self.skipTest("ONNX's operator tests (libonnx-testdata) are not installed")
        self.assertGreater(counts["equal"], 800, counts)
        self.assertLess(counts.get("theirs", 0), 40, counts)

    def test_fixtures(self):
        for source in sorted(fixtures.glob("*/model.onnx")):
            session, _ = run(str(source))
            feeds = random_inputs(session)
            self.assertEqual(self.check(source, feeds, source.parent.name), "equal")
            half = Ortrain.InferenceSession(Ortrain.Model(str(source)), Ortrain.SessionOptions(precision=Ortrain.Precision.FP16)).make_model()
            path = os.path.join(folder, "half.onnx")
            half.save(path)
            run(path)


class Operators(unittest.TestCase):
    """Operators of com.microsoft, as ONNX Runtime's optimizer writes them: values of ONNX Runtime, gradients by differences of it."""

    def check(self, op, inputs, outputs=1, domain="com.microsoft", steps=True, extra={}, **attributes):
        """inputs: by name; None leaves one out. The first is fed, the others are weights. extra: behind them, of other types."""
        names = [name if value is not None else "" for name, value in inputs.items()]
        arrays = {name: np.asarray(value, np.float32) for name, value in inputs.items() if value is not None}
        results = [f"y{k}" if k in ({0} if isinstance(outputs, int) else outputs) else "" for k in range(1 if isinstance(outputs, int) else max(outputs) + 1)]
        graph = helper.make_graph(
            [helper.make_node("Identity", [names[0]], ["fed"]), helper.make_node(op, ["fed"] + names[1:] + list(extra), results, domain=domain, **attributes)], "g",
            [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, arrays[names[0]].shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results if name],
            [numpy_helper.from_array(arrays[name], name) for name in names[1:] if name] +
            [numpy_helper.from_array(array, name) for name, array in extra.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
        path = os.path.join(folder, "operator.onnx")
        onnx.save(model, path)
        _, expected = run(path, arrays)
        found = Ortrain.InferenceSession(Ortrain.Model(path)).run({names[0]: arrays[names[0]]})
        for key, value in expected.items():
            self.assertLessEqual(distance(found[key].numpy(), value), 2e-5, f"{op}: {key}")
        weights = [name for name in names[1:] if name]
        if not steps or not weights:
            return
        options = Ortrain.TrainingOptions([Ortrain.MseLoss("y0", "target")], optimizer=Ortrain.Sgd(0.1))
        options.set_trainable(weights)
        session = Ortrain.TrainingSession(Ortrain.Model(path), options)
        target = rng.standard_normal(expected["y0"].shape)
        session.train_step({names[0]: arrays[names[0]], "target": target.astype(np.float32)})
        gradients = session.get_gradients()
        for name in weights:
            direction = rng.standard_normal(arrays[name].shape)
            losses = []
            for step in (STEP, -STEP):
                moved = onnx.ModelProto.FromString(model.SerializeToString())
                for tensor in moved.graph.initializer:
                    if tensor.name == name:
                        tensor.CopyFrom(numpy_helper.from_array((arrays[name] + step * direction).astype(np.float32), name))
                losses.append(np.mean((run(moved.SerializeToString(), arrays)[1]["y0"].astype(np.float64) - target) ** 2))
            slope = (losses[0] - losses[1]) / (2 * STEP)
            self.assertLessEqual(abs(slope - (gradients[name].numpy() * direction).sum()), 2e-3 * (1 + abs(slope)), f"{op}: {name}")

    def test_activations(self):
        x, bias = rng.standard_normal((2, 3, 6)), rng.standard_normal(6)
        self.check("Gelu", {"x": x})
        self.check("BiasGelu", {"x": x, "b": bias})
        self.check("FastGelu", {"x": x})
        self.check("FastGelu", {"x": x, "b": bias})
        self.check("QuickGelu", {"x": x})
        self.check("QuickGelu", {"x": x}, alpha=0.5)

    def test_products(self):
        a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 4))
        self.check("FusedMatMul", {"a": a, "b": b}, transB=1, alpha=0.5)
        self.check("FusedMatMul", {"a": a.transpose(0, 2, 1), "b": b}, transA=1, transB=1)
        self.check("FusedMatMul", {"a": rng.standard_normal((3, 2, 4)), "b": rng.standard_normal((2, 4, 5))}, transBatchA=1)
        self.check("FusedMatMul", {"a": rng.standard_normal((3, 2, 4)), "b": rng.standard_normal((5, 2, 4))}, transBatchA=1, transBatchB=1, transB=1)
        m, n, c = rng.standard_normal((3, 4)), rng.standard_normal((5, 4)), rng.standard_normal(5)
        for activation, numbers in {"Relu": {}, "Tanh": {}, "Sigmoid": {}, "Softplus": {}, "Softsign": {}, "Elu": {"activation_alpha": 0.5},
                                    "LeakyRelu": {"activation_alpha": 0.25}, "HardSigmoid": {"activation_alpha": 0.25, "activation_beta": 0.5},
                                    "Selu": {"activation_alpha": 1.5, "activation_gamma": 1.25},
                                    "ThresholdedRelu": {"activation_alpha": 0.25}}.items():
            self.check("FusedGemm", {"a": m, "b": n, "c": c}, steps=activation in ("Tanh", "Sigmoid", "Softplus"),
                       transB=1, alpha=0.5, beta=2.0, activation=activation, **numbers)
        x, w, bias, z = rng.standard_normal((2, 2, 5, 5)), rng.standard_normal((4, 2, 3, 3)), rng.standard_normal(4), rng.standard_normal((2, 4, 5, 5))
        for activation, numbers in {"Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.25], "Clip": [-0.5, 0.75], "HardSigmoid": [0.25, 0.5]}.items():
            numbers = {"activation_params": numbers} if numbers else {}
            smooth = activation in ("Tanh", "Sigmoid")
            self.check("FusedConv", {"x": x, "w": w, "b": bias}, steps=smooth, pads=[1, 1, 1, 1], activation=activation, **numbers)
            self.check("FusedConv", {"x": x, "w": w, "b": bias, "z": z}, steps=smooth, pads=[1, 1, 1, 1], activation=activation, **numbers)
        self.check("FusedConv", {"x": x, "w": rng.standard_normal((4, 1, 3, 3))}, group=2, strides=[2, 1], auto_pad="SAME_UPPER", activation="Tanh")

    def test_normalizations(self):
        x, skip = rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 3, 6))
        scale, shift, bias = rng.standard_normal((3, 6))
        self.check("SimplifiedLayerNormalization", {"x": x, "s": scale}, domain="", epsilon=1e-3, axis=-1, stash_type=1)
        self.check("SkipLayerNormalization", {"x": x, "k": skip, "s": scale, "h": shift}, epsilon=1e-3)
        self.check("SkipLayerNormalization", {"x": x, "k": skip, "s": scale, "h": shift, "b": bias}, outputs={0, 3}, epsilon=1e-3)
        self.check("SkipLayerNormalization", {"x": x, "k": skip, "s": scale, "h": None, "b": bias})
        self.check("SkipLayerNormalization", {"x": x, "k": skip[:1], "s": scale, "h": shift}, epsilon=1e-3)
        self.check("SkipSimplifiedLayerNormalization", {"x": x, "k": skip, "s": scale}, epsilon=1e-3)
        self.check("SkipSimplifiedLayerNormalization", {"x": x, "k": skip, "s": scale, "b": bias}, outputs={0, 3}, epsilon=1e-3)

    def test_attention(self):
        """Masks in each form that ONNX Runtime takes."""
        x, w, b = rng.standard_normal((2, 5, 8)), rng.standard_normal((8, 24)) / 3, rng.standard_normal(24)
        masks = {"none": None, "keys": np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), "lengths": np.int32([3, 5]),
                 "queries": np.tril(np.ones((2, 5, 5), np.int32))}
        for name, mask in masks.items():
            for attributes in ({}, {"unidirectional": 1}, {"scale": 0.25, "mask_filter_value": -50.0}):
                self.check("Attention", {"x": x, "w": w, "b": b}, extra={"m": mask} if mask is not None else {}, num_heads=2, **attributes)
        self.check("Attention", {"x": x, "w": w, "b": b, "": None, " ": None, "r": rng.standard_normal((1, 2, 5, 5))}, num_heads=2)

    def test_embeddings(self):
        ids, segments = np.int32([[1, 4, 2, 0], [3, 3, 0, 1]]), np.int32([[0, 0, 1, 1], [1, 0, 1, 0]])
        tables = [rng.standard_normal((rows, 6)).astype(np.float32) for rows in (5, 7, 2)]
        scale, shift = rng.standard_normal((2, 6)).astype(np.float32)
        mask = np.int32([[1, 1, 1, 0], [1, 1, 0, 0]])
        names = ["ids", "segments", "words", "positions", "kinds", "scale", "shift", "mask"]
        arrays = dict(zip(names, [ids, segments, *tables, scale, shift, mask]))
        for left_out in ([], ["segments", "kinds"], ["mask"]):
            inputs = [name if name not in left_out else "" for name in names]
            given = {name: arrays[name] for name in names if name not in left_out}
            graph = helper.make_graph([helper.make_node("EmbedLayerNormalization", inputs, ["y", "n"], domain="com.microsoft", epsilon=1e-3)], "g",
                                      [helper.make_tensor_value_info("ids", TensorProto.INT32, ["b", "s"])],
                                      [helper.make_tensor_value_info("y", TensorProto.FLOAT, None), helper.make_tensor_value_info("n", TensorProto.INT32, None)],
                                      [numpy_helper.from_array(array, name) for name, array in given.items() if name != "ids"])
            path = os.path.join(folder, "embed.onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8), path)
            _, expected = run(path, {"ids": ids})
            found = Ortrain.InferenceSession(Ortrain.Model(path)).run({"ids": ids})
            for key, value in expected.items():
                self.assertLessEqual(distance(found[key].numpy(), value), 2e-5, f"{left_out}: {key}")


if __name__ == "__main__":
    main()
