# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the library writes, read by others: exports by stock ONNX Runtime and ONNX's checker, checkpoints by safetensors' own reader.

The packages come from PyPI: tools/check-exports makes a virtual environment with them and runs this in it.
"""
import json
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
import safetensors
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper

LIMIT = 1e-5                # of the largest element of an output: float32, computed in another order
HALF_LIMIT = 2.0 ** -10     # where a layer computes in float16: its last bit
STEPS = 5
fixtures = here.parent / "data" / "fixtures"


def distance(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape, f"{a.shape} and {b.shape}"
    return np.abs(a - b).max() / max(np.abs(b).max(), 1e-12)


def skeleton(path):
    """The file without the contents of its initializers."""
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for field in ("raw_data", "float_data", "external_data"):
            tensor.ClearField(field)
    return model


# ---- models: each gives (path, options, feeds, names of inputs) ----

def with_classes(output, n_classes, n, **options):
    options = Ortrain.TrainingOptions(optimizer=Ortrain.AdamW(learning_rate=0.01), **options)
    options.add_loss(Ortrain.CrossEntropyLoss.new(output, "labels"))
    return options, {"labels": np.random.default_rng(1).integers(0, n_classes, n)}


def mlp():
    path = os.path.join(folder, "mlp.onnx")
    Ortrain.GraphBuilder.new_mlp("mlp", [12, 32, 5], 3).build().save(path)
    options, feeds = with_classes(first_output(path), 5, 9)
    return path, options, feeds | {first_input(path): np.random.default_rng(0).standard_normal((9, 12), dtype=np.float32)}


def cnn():
    path = os.path.join(folder, "cnn.onnx")
    Ortrain.GraphBuilder.new_cnn("cnn", 3, 16, 16, 5, 3).build().save(path)
    options, feeds = with_classes(first_output(path), 5, 4)
    return path, options, feeds | {first_input(path): np.random.default_rng(0).standard_normal((4, 3, 16, 16), dtype=np.float32)}


def transformer():
    """A block of the layers that a graph builder has: attention, normalization, feed forward, around each a sum."""
    path, builder = os.path.join(folder, "transformer.onnx"), Ortrain.GraphBuilder.new("transformer")
    builder.set_seed(4)
    x = builder.add_input("x", Ortrain.DType.FLOAT32, "batch, 6, 16")
    x = builder.add(x, builder.attention(builder.layer_norm(x, "norm1"), "attention", 4, 6, True))
    h = builder.linear(builder.layer_norm(x, "norm2"), "up", 32, True)
    x = builder.add(x, builder.linear(builder.gelu(h), "down", 16, True))
    builder.add_output(builder.linear(x, "head", 7, True), "logits")
    builder.build().save(path)
    options, feeds = with_classes("logits", 7, (3, 6))
    return path, options, feeds | {"x": np.random.default_rng(0).standard_normal((3, 6, 16), dtype=np.float32)}


def lstm():
    """Both directions, with peepholes and lengths, as ONNX's own package writes it."""
    rng, hidden, width, classes = np.random.default_rng(2), 6, 5, 4
    weights = {"W": (2, 4 * hidden, width), "R": (2, 4 * hidden, hidden), "B": (2, 8 * hidden), "P": (2, 3 * hidden), "head": (2 * hidden, classes)}
    initializers = [numpy_helper.from_array(rng.uniform(-0.4, 0.4, shape).astype(np.float32), name) for name, shape in weights.items()]
    initializers.append(numpy_helper.from_array(np.int64([3, -1, 2 * hidden]), "shape"))
    nodes = [helper.make_node("LSTM", ["x", "W", "R", "B", "lengths", "", "", "P"], ["y"], hidden_size=hidden, direction="bidirectional"),
             helper.make_node("Transpose", ["y"], ["t"], perm=[2, 0, 1, 3]),
             helper.make_node("Reshape", ["t", "shape"], ["flat"]),
             helper.make_node("MatMul", ["flat", "head"], ["logits"])]
    graph = helper.make_graph(nodes, "lstm", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, "batch", width]),
                                              helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 7, classes])], initializers)
    path = os.path.join(folder, "lstm.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    options, feeds = with_classes("logits", classes, (3, 7))
    return path, options, feeds | {"x": rng.standard_normal((7, 3, width), dtype=np.float32), "lengths": np.int32([7, 4, 1])}


def external():
    """Weights in a file of their own, as ONNX's own package puts them there."""
    path, options, feeds = mlp()
    onnx.save(onnx.load(path), os.path.join(folder, "external.onnx"), save_as_external_data=True, location="external.data", size_threshold=0)
    return os.path.join(folder, "external.onnx"), options, feeds


def half():
    """A layer in float16 between two in float32."""
    rng = np.random.default_rng(5)
    weights = {"first": ((12, 16), np.float32), "middle": ((16, 16), np.float16), "last": ((16, 5), np.float32)}
    initializers = [numpy_helper.from_array(rng.uniform(-0.5, 0.5, shape).astype(dtype), name) for name, (shape, dtype) in weights.items()]
    nodes = [helper.make_node("MatMul", ["x", "first"], ["a"]),
             helper.make_node("Cast", ["a"], ["narrow"], to=TensorProto.FLOAT16),
             helper.make_node("MatMul", ["narrow", "middle"], ["b"]),
             helper.make_node("Relu", ["b"], ["c"]),
             helper.make_node("Cast", ["c"], ["wide"], to=TensorProto.FLOAT),
             helper.make_node("MatMul", ["wide", "last"], ["logits"])]
    graph = helper.make_graph(nodes, "half", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])], initializers)
    path = os.path.join(folder, "half.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    options, feeds = with_classes("logits", 5, 9)
    return path, options, feeds | {"x": rng.standard_normal((9, 12), dtype=np.float32)}


def brain():
    """Weights in bfloat16, converted where they are used: ONNX Runtime's CPU provider has no products of bfloat16."""
    rng, initializers, nodes = np.random.default_rng(6), [], []
    for i, shape in enumerate([(12, 16), (16, 5)]):
        bits = Ortrain.Tensor(rng.uniform(-0.5, 0.5, shape).astype(np.float32)).cast(Ortrain.DType.BFLOAT16).get_bytes().get_data()
        initializers.append(helper.make_tensor(f"weight{i}", TensorProto.BFLOAT16, shape, bits, raw=True))
        nodes += [helper.make_node("Cast", [f"weight{i}"], [f"wide{i}"], to=TensorProto.FLOAT),
                  helper.make_node("MatMul", ["x" if i == 0 else "h", f"wide{i}"], ["a" if i == 0 else "logits"])]
        if i == 0:
            nodes.append(helper.make_node("Relu", ["a"], ["h"]))
    graph = helper.make_graph(nodes, "brain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])], initializers)
    path = os.path.join(folder, "brain.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    options, feeds = with_classes("logits", 5, 9)
    return path, options, feeds | {"x": rng.standard_normal((9, 12), dtype=np.float32)}


def narrow(name):
    """A fixture in float16, as the library rewrites it: all weights that products read are stored in float16."""
    def make():
        source, _, feeds = fixture(name)()
        loss = json.loads((fixtures / name / "fixture.json").read_text())["losses"][0]
        path = os.path.join(folder, f"narrow-{name}.onnx")
        half = Ortrain.SessionOptions(precision=Ortrain.Precision.FP16)
        Ortrain.InferenceSession(Ortrain.Model(source), half).make_model().save(path)
        options = Ortrain.TrainingOptions(optimizer=Ortrain.AdamW(learning_rate=0.001))
        options.add_loss(Ortrain.CrossEntropyLoss(axis=-1, ignore_index=-100, output=loss["output"], target=loss["output"] + ".target"))
        return path, options, feeds
    return make


def fixture(name):
    """A model as PyTorch exported it, with the losses and the first batch of its folder."""
    def make():
        spec = json.loads((fixtures / name / "fixture.json").read_text())
        options = Ortrain.TrainingOptions(optimizer=Ortrain.AdamW(learning_rate=0.001))
        options.set_trainable(spec["trainable"])
        options.batch_norm = Ortrain.BatchNormMode.TRAIN if spec["batch_norm"] == "train" else Ortrain.BatchNormMode.FROZEN
        for first, second in spec["tied"]:
            options.tie(first, second)
        for loss in spec["losses"]:
            names = dict(output=loss["output"], target=loss["output"] + ".target", weight=loss["weight"])
            kind = loss["kind"]
            options.add_loss(Ortrain.CrossEntropyLoss(axis=1 if kind == "cross-entropy-spatial" else -1, ignore_index=-100, **names)
                             if kind.startswith("cross-entropy")
                             else {"mse": Ortrain.MseLoss, "l1": Ortrain.L1Loss, "huber": Ortrain.HuberLoss, "bce-with-logits": Ortrain.BceWithLogitsLoss}[kind](**names))
        feeds = {}
        for key, array in safetensors.numpy.load_file(fixtures / name / "data.safetensors").items():
            if key.startswith("batch.0."):
                kind, name_ = key.split(".", 3)[2:]
                feeds[name_ + (".target" if kind == "target" else "")] = array
        return str(fixtures / name / spec["model"]), options, feeds
    return make


def first_input(path):
    return onnx.load(path, load_external_data=False).graph.input[0].name


def first_output(path):
    return onnx.load(path, load_external_data=False).graph.output[0].name


class Exports(unittest.TestCase):
    """Each test trains a model for some steps and exports it; the tests are added below."""

    def check(self, name, make, limit):
        source, options, feeds = make()
        session = Ortrain.TrainingSession(Ortrain.Model(source), options)
        inputs = {i.name: feeds[i.name] for i in onnx.load(source, load_external_data=False).graph.input if i.name in feeds}
        before = {key: value.numpy().copy() for key, value in session.eval_step(inputs).items()}
        for _ in range(STEPS):
            session.train_step(feeds)
            session.optimizer_step()
        path = os.path.join(folder, f"exported-{name}.onnx")
        session.export(path)
        onnx.checker.check_model(path, full_check=True)
        self.assertEqual(skeleton(path), skeleton(source), "something besides the weights has changed")

        stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        original = {t.name: numpy_helper.to_array(t) for t in onnx.load(source).graph.initializer}
        parameters = dict(session.get_parameters().items())
        self.assertGreater(len(parameters), 0)
        types = {TensorProto.FLOAT: Ortrain.DType.FLOAT32, TensorProto.FLOAT16: Ortrain.DType.FLOAT16, TensorProto.BFLOAT16: Ortrain.DType.BFLOAT16}
        of = {t.name: types[t.data_type] for t in onnx.load(path).graph.initializer if t.data_type in types}
        for key, value in parameters.items():       # in the type of the file, whatever it was trained in
            self.assertEqual(stored[key].tobytes(), value.cast(of[key]).get_bytes().get_data(), key)
        self.assertTrue(any(stored[key].tobytes() != original[key].tobytes() for key in parameters))

        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3
        theirs = onnxruntime.InferenceSession(path, quiet, providers=["CPUExecutionProvider"])
        names = [output.name for output in theirs.get_outputs()]
        expected = dict(zip(names, theirs.run(None, inputs)))
        ours = Ortrain.InferenceSession(Ortrain.Model(path)).run(inputs)
        evaluated = session.eval_step(inputs)
        self.assertGreater(len(names), 0)
        for output in names:
            self.assertLessEqual(distance(ours[output].numpy(), expected[output]), limit, f"{output}, run")
            self.assertLessEqual(distance(evaluated[output].numpy(), expected[output]), limit, f"{output}, evaluated")
            self.assertEqual(ours[output].numpy().dtype, expected[output].dtype)
        self.assertGreater(max(distance(expected[output], before[output]) for output in names), 100 * limit, "training has changed nothing")
        return path


for case_name, case, case_limit in [("mlp", mlp, LIMIT), ("cnn", cnn, LIMIT), ("transformer", transformer, LIMIT), ("lstm", lstm, LIMIT),
                                    ("half", half, HALF_LIMIT), ("bfloat16", brain, LIMIT), ("narrow_mlp", narrow("mlp"), HALF_LIMIT),
                                    ("narrow_gpt2", narrow("gpt2"), 2 * HALF_LIMIT)] + \
        [("fixture_" + f.name, fixture(f.name), LIMIT) for f in sorted(fixtures.iterdir()) if f.is_dir()]:
    def test(self, name=case_name, make=case, limit=case_limit):
        self.check(name, make, limit)
    setattr(Exports, "test_" + case_name.replace("-", "_"), test)


def test_external(self):
    path = self.check("external", external, LIMIT)
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        self.assertEqual(tensor.data_location, TensorProto.EXTERNAL, tensor.name)


Exports.test_external = test_external


class Safetensors(unittest.TestCase):
    TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
             "U8": np.uint8, "BOOL": np.bool_}

    def test_checkpoint(self):
        """Parameters and the state of the optimizer: their bits are those that the session has."""
        source, options, feeds = mlp()
        session = Ortrain.TrainingSession(Ortrain.Model(source), options)
        for _ in range(STEPS):
            session.train_step(feeds)
            session.optimizer_step()
        path = os.path.join(folder, "checkpoint")
        session.save_checkpoint(path)
        found = {}
        for file in sorted(pathlib.Path(path).rglob("*.safetensors")):
            with safetensors.safe_open(file, framework="numpy") as reader:
                for key in reader.keys():
                    found.setdefault(key, []).append(reader.get_tensor(key))
        parameters = {key: value.numpy() for key, value in session.get_parameters().items()}
        self.assertGreater(len(parameters), 0)
        for key, value in parameters.items():
            self.assertTrue(any(array.tobytes() == value.tobytes() and array.shape == value.shape for array in found[key]), key)
        loaded = Ortrain.Checkpoint.load(path)
        n = 0
        for section in loaded.get_sections():
            for key, value in loaded.get_tensors(section).items():
                n += 1
                self.assertTrue(any(array.tobytes() == value.numpy().tobytes() for array in found[key]), f"{section}: {key}")
        self.assertEqual(n, sum(len(arrays) for arrays in found.values()))
        self.assertGreaterEqual(n, 3 * len(parameters))     # with two moments of each

    def test_types(self):
        """Both ways, in each type; bfloat16 by its bits, as NumPy does not have it."""
        rng, path = np.random.default_rng(0), os.path.join(folder, "types.safetensors")
        arrays = {name: (rng.standard_normal((3, 5)) * 50).astype(dtype) for name, dtype in self.TYPES.items()}
        arrays |= {"empty": np.zeros((0, 4), np.float32), "number": np.array(2.5, np.float32), "ü/é \"x\"": np.float32([1, 2])}
        tensors = Ortrain.TensorDict()
        for name, array in arrays.items():
            tensors.set(name, Ortrain.Tensor(array))
        brain = Ortrain.Tensor(np.float32([1, -2.5, 3e38, 1e-40])).cast(Ortrain.DType.BFLOAT16)
        tensors.set("BF16", brain)
        tensors.save_safetensors(path)
        found = safetensors.deserialize(pathlib.Path(path).read_bytes())
        self.assertEqual(sorted(name for name, _ in found), sorted([*arrays, "BF16"]))
        for name, entry in found:
            if name == "BF16":
                self.assertEqual((entry["dtype"], entry["shape"], bytes(entry["data"])), ("BF16", [4], brain.get_bytes().get_data()))
                continue
            self.assertEqual(bytes(entry["data"]), arrays[name].tobytes(), name)
            self.assertEqual(tuple(entry["shape"]), arrays[name].shape, name)
        theirs = os.path.join(folder, "theirs.safetensors")
        safetensors.numpy.save_file(arrays, theirs)
        back = Ortrain.TensorDict.new_from_safetensors(theirs)
        self.assertEqual(sorted(back.keys()), sorted(arrays))
        for name, array in arrays.items():
            self.assertEqual((back[name].numpy().dtype, back[name].numpy().tobytes()), (array.dtype, array.tobytes()), name)


if __name__ == "__main__":
    main()
