# SPDX-License-Identifier: LGPL-2.1-or-later
"""The files that fuzzing begins with: small, one for each thing that a reader has code for. Wants NumPy and onnx."""
import gzip
import io
import json
import pathlib
import struct

import numpy as np
from onnx import AttributeProto
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

HERE = pathlib.Path(__file__).parent
F, I, B = T.FLOAT, T.INT64, T.BOOL


def info(name, dims, dtype=F):
    return h.make_tensor_value_info(name, dtype, dims)


def const(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def reference(name, of):
    attribute = h.make_attribute_ref(name, AttributeProto.FLOAT)
    attribute.ref_attr_name = of
    return attribute


def save(name, nodes, inputs, outputs, initializers=(), opset=17, ir=8, functions=(), domains=(), sparse=()):
    graph = h.make_graph(nodes, name, inputs, outputs, list(initializers), sparse_initializer=list(sparse))
    imports = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
    model = h.make_model(graph, opset_imports=imports, functions=list(functions), producer_name="fuzz")
    model.ir_version = ir
    (HERE / "model" / (name + ".onnx")).write_bytes(model.SerializeToString())


w = np.arange(12, dtype=np.float32).reshape(4, 3) / 12
save("linear", [h.make_node("Gemm", ["x", "w", "b"], ["h"], transB=0), h.make_node("Relu", ["h"], ["y"])],
     [info("x", ["batch", 4])], [info("y", ["batch", 3])], [const("w", w), const("b", w[0])])
save("conv", [h.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
              h.make_node("BatchNormalization", ["c", "s", "s", "s", "s"], ["n"]),
              h.make_node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2]),
              h.make_node("GlobalAveragePool", ["p"], ["g"]), h.make_node("Flatten", ["g"], ["y"])],
     [info("x", ["n", 1, 8, 8])], [info("y", ["n", 2])],
     [const("w", np.ones((2, 1, 3, 3), np.float32)), const("s", np.ones(2, np.float32))], opset=9, ir=4)
save("shapes", [h.make_node("Shape", ["x"], ["s"]), h.make_node("Gather", ["s", "i"], ["d"]),
                h.make_node("Unsqueeze", ["d", "a"], ["u"]), h.make_node("Concat", ["u", "m"], ["t"], axis=0),
                h.make_node("Reshape", ["x", "t"], ["r"]), h.make_node("Expand", ["r", "e"], ["f"]),
                h.make_node("Slice", ["f", "z", "o", "a"], ["v"]), h.make_node("Tile", ["v", "e"], ["q"]),
                h.make_node("Range", ["zero", "d", "one"], ["g"]), h.make_node("ConstantOfShape", ["t2"], ["y2"]),
                h.make_node("Cast", ["g"], ["y3"], to=F), h.make_node("Identity", ["q"], ["y"])],
     [info("x", ["n", 2, 3])], [info("y", None), info("y2", None), info("y3", None)],
     [const("i", np.int64(0)), const("a", np.array([0])), const("m", np.array([-1])), const("e", np.array([2, 1])),
      const("z", np.array([0])), const("o", np.array([1])), const("zero", np.int64(0)), const("one", np.int64(1)),
      const("t2", np.array([2, 3]))])
save("attention", [h.make_node("MatMul", ["x", "w"], ["q"]), h.make_node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
                   h.make_node("MatMul", ["q", "k"], ["s"]), h.make_node("Softmax", ["s"], ["p"], axis=-1),
                   h.make_node("MatMul", ["p", "q"], ["o"]),
                   h.make_node("LayerNormalization", ["o", "g", "g"], ["n"], axis=-1), h.make_node("Erf", ["n"], ["y"])],
     [info("x", ["b", "s", 4])], [info("y", ["b", "s", 3])], [const("w", w), const("g", w[0])])
save("lookup", [h.make_node("Gather", ["w", "ids"], ["e"]), h.make_node("ReduceMean", ["e"], ["m"], axes=[1]),
                h.make_node("Split", ["m"], ["a", "b"], axis=1), h.make_node("Where", ["c", "a", "b"], ["y"]),
                h.make_node("TopK", ["y", "k"], ["t", "ti"])],
     [info("ids", ["b", "s"], I), info("c", [1], B)], [info("t", None), info("ti", None, I)],
     [const("w", np.ones((5, 4), np.float32)), const("k", np.array([1]))], opset=12)
branch = [h.make_graph([h.make_node(op, ["x", "w"], ["r" + op])], op, [], [info("r" + op, [4])]) for op in ("Add", "Mul")]
save("if", [h.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])],
     [info("x", [4]), info("c", [], B)], [info("y", [4])], [const("w", w[:, 0].copy())])
body = h.make_graph([h.make_node("Add", ["v", "w"], ["v2"]), h.make_node("Identity", ["c"], ["c2"])], "body",
                    [info("i", [], I), info("c", [], B), info("v", [4])], [info("c2", [], B), info("v2", [4])])
save("loop", [h.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [info("x", [4])], [info("y", [4])],
     [const("w", w[:, 0].copy()), const("n", np.int64(3))])
inner = h.make_function("my", "Inner", ["x"], ["y"],
                        [h.make_node("LeakyRelu", ["x"], ["t"]), h.make_node("Tanh", ["t"], ["y"])],
                        [h.make_opsetid("", 17)], ["alpha"])
inner.node[0].attribute.append(reference("alpha", "alpha"))
outer = h.make_function("my", "Outer", ["a"], ["b", "a"], [h.make_node("Inner", ["a"], ["b"], domain="my")],
                        [h.make_opsetid("my", 1)], ["slope"])
outer.node[0].attribute.append(reference("alpha", "slope"))
save("function", [h.make_node("Outer", ["x"], ["y", "z"], domain="my", name="call", slope=0.25)], [info("x", [4])],
     [info("y", [4]), info("z", [4])], functions=[outer, inner], domains=["my"])
sparse = h.make_sparse_tensor(h.make_tensor("s", F, [2], [7, 8]), h.make_tensor("si", I, [2], [1, 5]), [2, 3])
typed = h.make_tensor("typed", T.FLOAT16, [3], [1, 2, 3])
save("tensors", [h.make_node("Identity", ["w"], ["merged"]), h.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0, 3.0]),
                 h.make_node("Add", ["s", "c"], ["d"]), h.make_node("Cast", ["typed"], ["t"], to=F),
                 h.make_node("Mul", ["d", "t"], ["y"]), h.make_node("Add", ["w", "merged"], ["y2"])],
     [info("w", [3])], [info("y", [2, 3]), info("y2", [3])], [typed, const("w", w[0])], sparse=[sparse], ir=10, opset=21)
save("recurrent", [h.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2), h.make_node("CumSum", ["y", "a"], ["z"]),
                   h.make_node("Einsum", ["z", "z"], ["y2"], equation="sdbh,sdbk->sdhk")],
     [info("x", ["s", 1, 3])], [info("y2", None)],
     [const("w", np.ones((1, 8, 3), np.float32)), const("r", np.ones((1, 8, 2), np.float32)), const("a", np.int64(0))])
save("images", [h.make_node("Pad", ["x", "p"], ["q"], mode="reflect"),
                h.make_node("Resize", ["q", "", "sc"], ["z"], mode="linear"),
                h.make_node("ConvTranspose", ["z", "w"], ["t"], strides=[2, 2]),
                h.make_node("AveragePool", ["t"], ["y"], kernel_shape=[2, 2], auto_pad="SAME_UPPER")],
     [info("x", [1, 1, 3, 3])], [info("y", None)],
     [const("p", np.array([0, 0, 1, 1, 0, 0, 1, 1])), const("sc", np.array([1, 1, 2, 2], np.float32)),
      const("w", np.ones((1, 1, 2, 2), np.float32))])
save("data", [h.make_node("NonZero", ["x"], ["i"]), h.make_node("Transpose", ["i"], ["j"]),
              h.make_node("GatherND", ["x", "j"], ["y"]), h.make_node("ScatterND", ["x", "j", "y"], ["z"]),
              h.make_node("QuantizeLinear", ["z", "s"], ["q"]), h.make_node("DequantizeLinear", ["q", "s"], ["y2"])],
     [info("x", [2, 3])], [info("y2", None)], [const("s", np.float32(0.5))])

external = {"good": [("location", "sub/w"), ("offset", "64"), ("length", "32")], "whole": [("location", "w")],
            "up": [("location", "../secret"), ("offset", "0"), ("length", "32")],
            "round": [("location", "sub/../../secret")], "link": [("location", "l")],
            "directory": [("location", "d/secret")], "inner": [("location", "sub/u")], "hard": [("location", "h")],
            "fifo": [("location", "f")], "root": [("location", "/etc/passwd")], "far": [("location", "r/etc/passwd")],
            "behind": [("location", "w"), ("offset", "18446744073709551600"), ("length", "32")],
            "class": [("__class__", "x"), ("location", "w"), ("checksum", "00")]}
for name, pairs in external.items():
    (HERE / "external-data" / name).write_bytes(b"".join(s.encode() + b"\0" for pair in pairs for s in pair))


def safetensors(name, header, data):
    text = json.dumps(header).encode()
    (HERE / "safetensors" / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


safetensors("two", {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
                    "b": {"dtype": "I64", "shape": [], "data_offsets": [16, 24]}}, bytes(range(24)))
safetensors("metadata", {"__metadata__": {"format": "pt", "quote": "\"\\\u00e9\u20ac"},
                         "x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]},
                         "e": {"dtype": "BOOL", "shape": [0, 7], "data_offsets": [6, 6]}}, b"\0\x3f\0\x40\0\x40")
safetensors("empty", {}, b"")


def npy(array, **kwargs):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), **kwargs)
    return out.getvalue()


arrays = {"float": np.arange(6, dtype="<f4").reshape(2, 3), "big": np.arange(4, dtype=">i2"),
          "fortran": np.asfortranarray(np.arange(6, dtype="<f8").reshape(2, 3)), "bool": np.array([True, False]),
          "scalar": np.float16(1.5), "empty": np.zeros((0, 3), "<u4")}
for name, array in arrays.items():
    (HERE / "npy" / (name + ".npy")).write_bytes(npy(array))
np.savez(HERE / "npy" / "stored.npz", a=arrays["float"], b=arrays["big"])
np.savez_compressed(HERE / "npy" / "deflated.npz", a=np.zeros(100, "<f4"), b=arrays["scalar"])
idx = struct.pack(">BBBBII", 0, 0, 8, 2, 2, 3) + bytes(range(6))
(HERE / "npy" / "images.idx").write_bytes(idx)
(HERE / "npy" / "images.idx.gz").write_bytes(gzip.compress(idx, mtime=0))

loss = {"type": "cross-entropy", "output": "logits", "target": "labels", "ignore_index": -100}
options = {
    "adamw": {"losses": [loss], "optimizer": {"type": "adamw", "learning_rate": 0.25, "beta1": 0.5,
                                              "groups": [{"pattern": "*.bias", "weight_decay": 0}]},
              "schedule": {"type": "warm-up", "steps": 3, "after": {"type": "cosine", "steps": 9}}},
    "sgd": {"losses": [dict(loss, label_smoothing=0.1, class_weights=[1, 2, 0.5])], "max_grad_norm": 2, "seed": 7,
            "optimizer": {"type": "sgd", "momentum": 0.9, "nesterov": True}, "schedule": "constant",
            "accumulation_steps": 2},
    "lamb": {"losses": [loss], "optimizer": {"type": "lamb", "epsilon": 1e-6}, "trainable": ["a*"], "frozen": ["*.bias"],
             "schedule": {"type": "one-cycle", "steps": 5}},
    "ties": {"losses": [loss], "ties": [["a.weight", "b"]], "padding-rows": {"a.weight": 1}, "batch-norm": "frozen",
             "optimizer": "adagrad", "schedule": {"type": "polynomial", "power": 2, "steps": 4}},
    "session": {"threads": 1, "deterministic": True, "seed": 3, "optimize": False, "max_plans": 2},
}
for name, value in options.items():
    (HERE / "options" / (name + ".json")).write_text(json.dumps(value))
