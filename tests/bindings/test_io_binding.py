#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bound outputs in the memory of inputs, of each other, and of what a run must not write."""
import os
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, folder, linear_model, main

on_device = os.environ.get("ORTRAIN_PROVIDER", "cpu")


def model(build, *inputs, dtype=Ortrain.DType.FLOAT32):
    """build (builder, values of the inputs) → {name of an output: value}"""
    builder = Ortrain.GraphBuilder.new("bound")
    values = [builder.add_input(name, dtype, shape) for name, shape in inputs]
    for name, value in build(builder, *values).items():
        builder.add_output(value, name)
    return builder.build()


def residual():
    """y = relu (x w) v + x, which reads x again when y has been begun"""
    rng = np.random.default_rng(3)

    def build(builder, x):
        w = builder.add_tensor("w", Ortrain.Tensor(rng.standard_normal((16, 32)).astype(np.float32)))
        v = builder.add_tensor("v", Ortrain.Tensor(rng.standard_normal((32, 16)).astype(np.float32)))
        return {"y": builder.add(builder.binary("MatMul", builder.relu(builder.binary("MatMul", x, w)), v), x)}

    return model(build, ("x", "rows, 16"))


def decoder():
    """present = past shifted by one row, with the token behind; y = their sum"""
    def build(builder, token, past):
        axis = GLib.Variant("a{sv}", {"axis": GLib.Variant("x", 0)})
        for name, number in (("one", 1), ("end", 2 ** 40), ("axis", 0)):
            builder.add_tensor(name, Ortrain.Tensor(np.array([number], np.int64)))
        tail = builder.add_op("Slice", None, ["past", "one", "end", "axis"], ["tail"], None)
        present = builder.add_op("Concat", None, [tail.get_name(), "token"], ["present"], axis)
        return {"present": present, "y": builder.binary("Mul", past, present)}

    return model(build, ("token", "1, 4"), ("past", "6, 4"))


def identities():
    def build(builder, a, b):
        return {"x": builder.unary("Identity", a), "y": builder.unary("Identity", b), "z": builder.unary("Neg", a)}

    return model(build, ("a", "4"), ("b", "4"))


def data_dependent():
    """Outputs whose shapes depend on computed numbers, an input that is an output, and a sum."""
    def build(builder, a, b):
        return {"where": builder.unary("NonZero", builder.unary("Relu", a)), "same": builder.unary("Identity", a),
                "sum": builder.add(a, b)}

    return model(build, ("a", "4"), ("b", "4"))


def memory(array):
    """A tensor where the session can write it without a copy: on its device."""
    tensor = Ortrain.Tensor(array).copy()
    return tensor.to_device(on_device) if on_device != "cpu" else tensor


def bound(session, inputs, outputs):
    binding = session.bind()
    for name, value in inputs.items():
        binding.bind_input(name, value)
    for name, value in outputs.items():
        binding.bind_output(name, value)
    return binding


def numbers(tensor):
    return tensor.to_host().numpy().copy()


class Inputs(unittest.TestCase):
    def setUp(self):
        self.x = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)

    def test_same_memory(self):
        session = Ortrain.InferenceSession(residual())
        want = session.run({"x": self.x})["y"].numpy().copy()
        for place in (memory, lambda array: Ortrain.Tensor(array).copy()):
            t = place(self.x)
            binding = bound(session, {"x": t}, {"y": t})
            session.run_with_binding(binding)
            np.testing.assert_array_equal(numbers(t), want)
            self.assertIs(binding.get_outputs()["y"], t)
            session.run_with_binding(binding)          # what is there now is read
            np.testing.assert_array_equal(numbers(t), session.run({"x": want})["y"].numpy())

    def test_overlapping_rows(self):
        session = Ortrain.InferenceSession(residual())
        for begin in (0, 1, 16, 31, 32):
            want = session.run({"x": self.x[:32]})["y"].numpy().copy()
            for place in (memory, lambda array: Ortrain.Tensor(array).copy()):
                t = place(self.x)
                session.run_with_binding(bound(session, {"x": t.slice_rows(0, 32)}, {"y": t.slice_rows(begin, begin + 32)}))
                np.testing.assert_array_equal(numbers(t)[begin:begin + 32], want)
                np.testing.assert_array_equal(numbers(t)[begin + 32:], self.x[begin + 32:])

    def test_decoder_cache(self):
        session = Ortrain.InferenceSession(decoder())
        rng = np.random.default_rng(1)
        for place in (memory, lambda array: Ortrain.Tensor(array).copy()):
            past, token = np.zeros((6, 4), np.float32), np.zeros((1, 4), np.float32)
            cache = place(past)
            binding = bound(session, {"token": token, "past": cache}, {"present": cache})
            for _ in range(5):
                token[:] = rng.standard_normal((1, 4))
                want = session.run({"token": token, "past": past})
                session.run_with_binding(binding)
                np.testing.assert_array_equal(numbers(cache), want["present"].numpy())
                np.testing.assert_array_equal(numbers(binding.get_outputs()["y"]), want["y"].numpy())
                past = want["present"].numpy().copy()

    def test_two_caches(self):
        """Each output in the memory of the other one's input."""
        session = Ortrain.InferenceSession(identities())
        a, b = np.arange(4, dtype=np.float32), np.arange(10, 14, dtype=np.float32)
        for place in (memory, lambda array: Ortrain.Tensor(array).copy()):
            p, q = place(a), place(b)
            binding = bound(session, {"a": p, "b": q}, {"x": q, "y": p})
            session.run_with_binding(binding)
            np.testing.assert_array_equal((numbers(p), numbers(q)), (b, a))
            np.testing.assert_array_equal(numbers(binding.get_outputs()["z"]), -a)
            p = place(a)                # an input that is an output, which is not bound
            binding = bound(session, {"a": p, "b": q}, {"z": p})
            session.run_with_binding(binding)
            np.testing.assert_array_equal(numbers(p), -a)
            np.testing.assert_array_equal(numbers(binding.get_outputs()["x"]), a)
            p = place(np.concatenate([a, b]))       # an identity, over a part of itself
            session.run_with_binding(bound(session, {"a": p.slice_rows(0, 4), "b": b}, {"x": p.slice_rows(2, 6)}))
            np.testing.assert_array_equal(numbers(p), [0, 1, 0, 1, 2, 3, 12, 13])

    def test_data_dependent(self):
        session = Ortrain.InferenceSession(data_dependent())
        a, b = np.array([1, -1, 2, 0], np.float32), np.arange(4, dtype=np.float32)
        for place in (memory, lambda array: Ortrain.Tensor(array).copy()):
            p, q = place(a), place(b)
            binding = bound(session, {"a": p, "b": q}, {"same": q, "sum": p})
            session.run_with_binding(binding)
            np.testing.assert_array_equal((numbers(p), numbers(q)), (a + b, a))
            np.testing.assert_array_equal(numbers(binding.get_outputs()["where"]), [[0, 2]])
            binding = bound(session, {"a": place(a), "b": b}, {"sum": Ortrain.Tensor(np.zeros(4, np.int32))})
            with self.assertRaisesRegex(GLib.Error, r"Output 'sum' is float32 \[4\], the tensor bound to it is int32 \[4\]"):
                session.run_with_binding(binding)
            p = place(a)
            binding = bound(session, {"a": p, "b": b}, {"sum": p, "same": Ortrain.Tensor(np.zeros(3, np.float32))})
            with self.assertRaisesRegex(GLib.Error, "Output 'same' is float32 "):
                session.run_with_binding(binding)
            np.testing.assert_array_equal(numbers(p), a)        # all are checked before one is written

    def test_failed_run(self):
        """The input is what it was."""
        def build(builder, ids, cache):
            table = builder.add_tensor("table", Ortrain.Tensor(np.eye(4, dtype=np.float32)))
            rows = builder.add_op("Gather", None, [table.get_name(), "n"], ["rows"], None)
            return {"present": builder.add(rows, cache)}

        builder = Ortrain.GraphBuilder.new("gather")
        ids = builder.add_input("n", Ortrain.DType.INT64, "2")
        cache = builder.add_input("cache", Ortrain.DType.FLOAT32, "2, 4")
        builder.add_output(build(builder, ids, cache)["present"], "present")
        session = Ortrain.InferenceSession(builder.build())
        cache = memory(np.ones((2, 4), np.float32))
        n = np.array([1, 2])
        binding = bound(session, {"n": n, "cache": cache}, {"present": cache})
        session.run_with_binding(binding)
        before = numbers(cache)
        n[1] = 9
        with self.assertRaisesRegex(GLib.Error, "index 9"):
            session.run_with_binding(binding)
        np.testing.assert_array_equal(numbers(cache), before)


class Refused(unittest.TestCase):
    def check(self, session, inputs, outputs, pattern, code=Ortrain.SessionError.FEED):
        binding = bound(session, inputs, outputs)
        with self.assertRaisesRegex(GLib.Error, pattern) as caught:
            session.run_with_binding(binding)
        self.assertEqual(caught.exception.code, code)
        return binding

    def test_two_outputs(self):
        session = Ortrain.InferenceSession(identities())
        feeds = {"a": np.ones(4, np.float32), "b": np.zeros(4, np.float32)}
        t = memory(np.zeros(12, np.float32))
        words = "Output '{}' is bound to memory of the output '{}'"
        self.check(session, feeds, {"x": t.slice_rows(0, 4), "z": t.slice_rows(0, 4)}, words.format("z", "x"))
        binding = self.check(session, feeds, {"x": t.slice_rows(0, 4), "z": t.slice_rows(3, 7)}, words.format("z", "x"))
        binding.bind_output("z", t.slice_rows(4, 8))        # beside it
        session.run_with_binding(binding)
        np.testing.assert_array_equal(numbers(t), [1, 1, 1, 1, -1, -1, -1, -1, 0, 0, 0, 0])
        binding.bind_output("y", t.slice_rows(0, 4).reshape([4]))       # another view
        with self.assertRaisesRegex(GLib.Error, words.format("y", "x")):
            session.run_with_binding(binding)

    def test_dict_of_outputs(self):
        """The outputs that a binding hands out are bound, too."""
        session = Ortrain.InferenceSession(identities())
        feeds = {"a": np.ones(4, np.float32), "b": np.zeros(4, np.float32)}
        t = memory(np.zeros(8, np.float32))
        binding = bound(session, feeds, {"x": t.slice_rows(0, 4), "y": t.slice_rows(4, 8)})
        outputs = binding.get_outputs()
        session.run_with_binding(binding)
        outputs.set("z", t.slice_rows(2, 6))
        with self.assertRaisesRegex(GLib.Error, "Output 'z' is bound to memory of the output 'x'"):
            session.run_with_binding(binding)

    def test_weight(self):
        model = linear_model(4, 4)
        session = Ortrain.InferenceSession(model)
        x = np.eye(4, dtype=np.float32)
        want = session.run({"x": x})["logits"].numpy().copy()
        for weight in model.get_graph().get_initializers():
            tensor = weight.get_tensor()
            for shift in (0, 4):
                there = Ortrain.Tensor.new_for_address(Ortrain.DType.FLOAT32, [4, 4], tensor.get_address() + shift, True, tensor)
                self.check(session, {"x": x}, {"logits": there}, f"bound to memory of the weight '{weight.get_name()}'")
        np.testing.assert_array_equal(session.run({"x": x})["logits"].numpy(), want)

    def test_mapped(self):
        path = os.path.join(folder, "bound.npy")
        np.save(path, np.zeros((4, 3), np.float32))
        mapped = Ortrain.Tensor.new_from_npy(path)
        session = Ortrain.InferenceSession(linear_model())
        feeds = {"x": np.eye(4, dtype=np.float32)}
        self.check(session, feeds, {"logits": mapped}, "memory of a file that is mapped")
        there = Ortrain.Tensor.new_for_address(Ortrain.DType.FLOAT32, [4, 3], mapped.get_address(), True, mapped)
        self.check(session, feeds, {"logits": there}, "memory of a file that is mapped")
        self.assertEqual(np.load(path).any(), False)

    def test_read_only(self):
        session = Ortrain.InferenceSession(linear_model())
        feeds = {"x": np.eye(4, dtype=np.float32)}
        read_only = Ortrain.Tensor.new_for_bytes(Ortrain.DType.FLOAT32, [4, 3], GLib.Bytes.new(bytes(48)))
        self.check(session, feeds, {"logits": read_only}, "Output 'logits': the tensor bound to it is read-only",
                   Ortrain.TensorError.LAYOUT)
        released = Ortrain.Tensor(np.zeros((4, 3), np.float32))
        binding = bound(session, feeds, {"logits": released})
        released.release()
        with self.assertRaisesRegex(GLib.Error, "'logits': the tensor bound to it was released"):
            session.run_with_binding(binding)


if __name__ == "__main__":
    main()
