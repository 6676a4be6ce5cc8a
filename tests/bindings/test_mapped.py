#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Mapped files that are cut or written to while their tensors are in use, and setters that change all or nothing."""
import json
import math
import os
import struct
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, batch, folder, linear_model, main, training_session

CHANGED = "was changed while it was in use"
count = 0


def new_path(suffix):
    global count
    count += 1
    return os.path.join(folder, f"mapped-{count}{suffix}")


def misaligned(path, array):
    """A safetensors file whose elements are at an odd address."""
    kind = {"float32": "F32", "int64": "I64", "uint8": "U8"}[str(array.dtype)]
    header = {"odd": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
              "a": {"dtype": kind, "shape": list(array.shape), "data_offsets": [1, 1 + array.nbytes]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"\1" + array.tobytes())
    return Ortrain.TensorDict.new_from_safetensors(path)["a"]


def open_as(kind, array):
    """(path, tensor that is mapped from it)"""
    path = new_path("." + kind)
    if kind == "npy":
        np.save(path, array)
        return path, Ortrain.Tensor.new_from_npy(path)
    if kind == "misaligned":
        return path, misaligned(path, array)
    if kind == "npz":
        Ortrain.TensorDict({"a": array}).save_npz(path)
        return path, Ortrain.TensorDict.new_from_npz(path)["a"]
    Ortrain.TensorDict({"a": array}).save_safetensors(path)
    return path, Ortrain.TensorDict.new_from_safetensors(path)["a"]


KINDS = ("npy", "npz", "safetensors", "misaligned")


def cut(path):
    os.truncate(path, 10)


def write(path):
    """Other contents of the same size, which the time of the file tells."""
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.write(bytes(size))
    os.utime(path, ns=(0, 0))


class Readers(unittest.TestCase):
    def each(self):
        array = np.arange(1, 4097, dtype=np.float32).reshape(1024, 4)
        for kind in KINDS:
            for spoil in (cut, write):
                path, tensor = open_as(kind, array)
                yield path, tensor, spoil, array

    def refuse(self, function, *args):
        with self.assertRaisesRegex(GLib.Error, CHANGED) as caught:
            function(*args)
        self.assertTrue(caught.exception.matches(Ortrain.tensor_error_quark(), Ortrain.TensorError.CHANGED))

    def test_contents(self):
        for path, tensor, spoil, array in self.each():
            same = Ortrain.Tensor(array.copy())
            self.assertEqual(tensor.get_scalar(5), 6)
            view, rows = tensor.reshape([4, 1024]), tensor.slice_rows(1, 3)
            fresh = open_as(os.path.splitext(path)[1][1:], array)[1]
            self.assertTrue(tensor.equal(same) and same.equal(tensor) and tensor.equal(fresh))
            spoil(path)
            for part in (tensor, view, rows):
                self.refuse(part.get_bytes)
                self.refuse(part.copy)
                self.refuse(part.cast, Ortrain.DType.FLOAT64)
                self.refuse(part.cast, Ortrain.DType.FLOAT32)
                self.refuse(part.argmax, 1)
                self.assertTrue(math.isnan(part.get_scalar(1)))
                self.refuse(part.numpy)
                self.refuse(part.to_host)
                self.refuse(part.to_device, "cpu")
                self.refuse(part.tolist)
                self.refuse(lambda: part[0])
                self.refuse(np.asarray, part)
                self.refuse(float, part.slice_rows(0, 1).reshape([-1]).slice_rows(0, 1))
                self.refuse(bool, part.slice_rows(0, 1).reshape([-1]).slice_rows(0, 1))
                self.assertRegex(part.to_string(), r"^float32\[[\d, ]+\] \(its file was changed\)$")
            self.assertFalse(tensor.equal(same) or same.equal(tensor) or tensor.equal(fresh) or tensor.equal(view.reshape([1024, 4])))
            out = new_path(".npy")
            self.refuse(tensor.save_npy, out)
            self.refuse(Ortrain.TensorDict({"a": tensor}).save_npz, out)
            self.refuse(Ortrain.TensorDict({"a": tensor}).save_safetensors, out)
            self.assertFalse(os.path.exists(out))
            self.assertTrue(same.equal(fresh))

    def test_bytes_of_a_mapping(self):
        for path, tensor, spoil, array in self.each():
            given = tensor.get_bytes()
            spoil(path)
            if path.endswith("misaligned"):
                continue                # those are a copy
            to = Ortrain.Tensor(np.full((1024, 4), 7, np.float32))
            self.refuse(to.set_bytes, given)
            self.assertTrue((to.numpy() == 7).all())

    def test_models(self):
        for path, tensor, spoil, array in self.each():
            builder = Ortrain.GraphBuilder.new("mapped")
            x = builder.add_input("x", Ortrain.DType.FLOAT32, "n, 1024")
            builder.add_output(builder.binary("MatMul", x, builder.add_tensor("w", tensor)), "y")
            spoil(path)
            self.refuse(builder.build)

    def test_data(self):
        for path, tensor, spoil, array in self.each():
            dataset = Ortrain.TensorDataset({"x": tensor})
            image = {"image": open_as("npy", np.ones((3, 8, 8), np.float32))[1]}
            loader = Ortrain.DataLoader(dataset, 8)
            self.assertEqual(loader.next()["x"].shape, (8, 4))
            spoil(path)
            self.refuse(dataset.get_item, 0)
            self.refuse(dataset.get_batch, [0, 1])
            with self.assertRaisesRegex(GLib.Error, CHANGED):
                for _ in range(40):     # some batches have been read before
                    loader.next()
            metric = Ortrain.RegressionMetric(Ortrain.RegressionMeasure.MAE, "y", "x")
            self.refuse(metric.update, Ortrain.TensorDict({"y": array}), Ortrain.TensorDict({"x": tensor}))

    def test_transforms(self):
        for transform in (Ortrain.RandomHorizontalFlip(probability=1), Ortrain.Normalize([0.5], [0.5]), Ortrain.Resize(height=4, width=4)):
            for kind in KINDS:
                path, tensor = open_as(kind, np.ones((3, 8, 8), np.float32))
                cut(path)
                item = Ortrain.TensorDict({"image": tensor})
                self.refuse(transform.apply, item)
                self.assertIs(item["image"], tensor)

    def test_feeds(self):
        session = training_session()
        inference = Ortrain.InferenceSession(linear_model())
        for path, tensor, spoil, array in self.each():
            feeds = {"x": tensor, "labels": np.zeros(1024, np.int64)}
            spoil(path)
            self.refuse(session.train_step, feeds)
            self.refuse(session.eval_step, feeds)
            self.refuse(inference.run, {"x": tensor})

    def test_shapes(self):
        """An input that decides a shape is read before the run."""
        builder = Ortrain.GraphBuilder.new("reshape")
        builder.add_input("x", Ortrain.DType.FLOAT32, "n")
        builder.add_input("shape", Ortrain.DType.INT64, "2")
        builder.add_output(builder.add_op("Reshape", None, ["x", "shape"], ["y"], None))
        session = Ortrain.InferenceSession(builder.build())
        for kind in KINDS[:3]:          # of so few misaligned bytes there is a copy
            path, shape = open_as(kind, np.array([2, 3]))
            cut(path)
            self.refuse(session.run, {"x": np.ones(6, np.float32), "shape": shape})


class Setters(unittest.TestCase):
    def sessions(self):
        for options in ({}, {"precision": "bf16", "master_weights": True}, {"precision": "bf16", "master_weights": False},
                        {"precision": "fp16", "master_weights": True}):
            yield training_session(linear_model(1024), **options)

    def unchanged(self, session, given, pattern):
        feeds = batch(n_in=1024)
        parameters = {name: tensor.copy() for name, tensor in session.get_state().items()}
        logits = session.eval_step(feeds)["logits"].copy()
        for setter in (session.set_parameters, session.set_state):
            with self.assertRaisesRegex(GLib.Error, pattern):
                setter(given)
            for name, tensor in session.get_state().items():
                self.assertTrue(tensor.equal(parameters[name]), name)
            self.assertTrue(session.eval_step(feeds)["logits"].equal(logits))

    def test_all_or_nothing(self):
        for session in self.sessions():
            two, one = session.get_parameters().keys()         # the larger one last
            shapes = {name: tensor.shape for name, tensor in session.get_parameters().items()}
            seven = Ortrain.Tensor(np.full(shapes[one], 7, np.float32))
            for kind in KINDS:
                for spoil in (cut, write):
                    path, tensor = open_as(kind, np.full(shapes[two], 3, np.float32))
                    spoil(path)
                    self.unchanged(session, {one: seven, two: tensor}, f"Parameter '{two}': .*{CHANGED}")
            self.unchanged(session, {one: seven, two: np.zeros((9, 9), np.float32)}, rf"Parameter '{two}' is \w+ \[.*, but float32 \[9, 9\] was given")
            self.unchanged(session, {one: seven, two: np.zeros(shapes[two], np.int64)}, f"Parameter '{two}' is .* int64 ")
            self.unchanged(session, {one: seven, "none": seven}, "The session has no parameter or buffer 'none'")
            released = Ortrain.Tensor(np.ones(shapes[two], np.float32))
            given = Ortrain.TensorDict({one: seven, two: released})
            released.release()
            self.unchanged(session, given, f"Parameter '{two}': The tensor was released")

    def test_copies_follow(self):
        """What operators read in 16 bits is what was set."""
        feeds = batch(n_in=1024)
        for session in self.sessions():
            new = {name: np.full(tensor.shape, 0.5 + i, np.float32) for i, (name, tensor) in enumerate(session.get_parameters().items())}
            for kind in KINDS:
                session.set_parameters({name: np.zeros(value.shape, np.float32) for name, value in new.items()})
                self.assertFalse(session.eval_step(feeds)["logits"].numpy().any())
                session.set_parameters({name: open_as(kind, value)[1] for name, value in new.items()})
                want = feeds["x"] @ new["fc.weight"].T + new["fc.bias"]
                np.testing.assert_allclose(session.eval_step(feeds)["logits"].numpy(), want, rtol=0.02, atol=0.5)

    def test_cut_afterwards(self):
        """What was set is the session's own."""
        session = training_session()
        path, tensor = open_as("npy", np.full(session.get_parameters()["fc.weight"].shape, 2, np.float32))
        session.set_parameters({"fc.weight": tensor})
        cut(path)
        self.assertTrue((session.get_parameters()["fc.weight"].numpy() == 2).all())
        session.train_step(batch())


if __name__ == "__main__":
    main()
