# SPDX-License-Identifier: LGPL-2.1-or-later
"""Training in 16 bits: the loss scale, its signal and its state; what runs in which type."""
import os
import threading
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, batch, folder, linear_model, main, training_session


def too_large(**more):
    """A scale with which the gradients leave the range of float16."""
    return Ortrain.LossScaler(initial_scale=2.0**24, growth_interval=3, **more)


def half_session(scaler=None, schedule=None, **options):
    return training_session(optimizer=Ortrain.AdamW(learning_rate=0.1), precision=Ortrain.Precision.FP16,
                            loss_scaler=scaler or too_large(), schedule=schedule, **options)


def run(session, n):
    losses = []
    for i in range(n):
        losses.append(session.train_step(batch(seed=i)))
        session.optimizer_step()
    return losses


class LossScale(unittest.TestCase):
    def test_overflow(self):
        session, seen = half_session(schedule=Ortrain.LinearSchedule.new(100)), []
        session.connect("overflow", lambda session: seen.append((threading.current_thread(), session.loss_scale)))
        before = session.get_parameters()["fc.weight"].numpy().copy()
        rate = session.get_current_learning_rate()
        session.train_step(batch())
        session.optimizer_step()
        self.assertEqual((session.step, session.n_overflows), (0, 1))
        self.assertEqual(seen, [(threading.main_thread(), 2.0**23)])
        self.assertEqual(session.get_current_learning_rate(), rate)
        np.testing.assert_array_equal(session.get_parameters()["fc.weight"].numpy(), before)
        run(session, 29)
        self.assertEqual(session.step + session.n_overflows, 30)
        self.assertEqual(len(seen), session.n_overflows)
        self.assertGreater(session.n_overflows, 7)      # it falls, and grows again after every third step
        self.assertLess(session.n_overflows, 20)
        self.assertLess(session.get_current_learning_rate(), rate)
        self.assertLess(session.loss_scale, 2.0**20)
        self.assertFalse(np.array_equal(session.get_parameters()["fc.weight"].numpy(), before))

    def test_resume(self):
        path = os.path.join(folder, "half-way")
        session = half_session()
        run(session, 12)
        session.save_checkpoint(path)
        self.assertGreater(session.n_overflows, 0)
        state = (session.loss_scale, session.n_overflows, session.step)
        losses = run(session, 12)
        resumed = half_session()
        resumed.load_checkpoint(path)
        self.assertEqual((resumed.loss_scale, resumed.n_overflows, resumed.step), state)
        self.assertEqual(run(resumed, 12), losses)
        self.assertEqual((resumed.loss_scale, resumed.n_overflows, resumed.step), (session.loss_scale, session.n_overflows, session.step))
        self.assertTrue(session.get_parameters().numpy())
        for name, tensor in session.get_parameters().items():
            np.testing.assert_array_equal(resumed.get_parameters()[name].numpy(), tensor.numpy())

    def test_static(self):
        session = half_session(Ortrain.LossScaler.new_static(1024))
        run(session, 5)
        self.assertEqual((session.loss_scale, session.n_overflows, session.step), (1024, 0, 5))
        session = half_session(Ortrain.LossScaler.new_static(2.0**24))
        run(session, 3)
        self.assertEqual((session.loss_scale, session.n_overflows, session.step), (2.0**24, 3, 0))

    def test_least(self):
        """Where a lower scale cannot help, gradients that are not finite are an error."""
        session = half_session(too_large(minimum_scale=2.0**23))
        run(session, 1)
        session.train_step(batch())
        with self.assertRaises(GLib.Error) as caught:
            session.optimizer_step()
            session.get_last_loss()     # a device is not waited for: it is an error of the next call
        self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.NOT_FINITE))

    def test_gradients(self):
        """They are given without the scale, and clipping sees them so."""
        wide, half = training_session(), half_session(Ortrain.LossScaler.new_static(512), max_grad_norm=100.0)
        wide.train_step(batch())
        half.train_step(batch())
        self.assertTrue(wide.get_gradients().numpy())
        for name, tensor in wide.get_gradients().items():
            np.testing.assert_allclose(half.get_gradients()[name].numpy(), tensor.numpy(), rtol=5e-3, atol=5e-4)
        norm = np.sqrt(sum(np.sum(np.square(t.numpy(), dtype=np.float64)) for _, t in half.get_gradients().items()))
        half.optimizer_step()
        np.testing.assert_allclose(half.get_last_gradient_norm(), norm, rtol=1e-5)

    def test_own_optimizer(self):
        """One of the user's sees the scale in its factor, and is not called after an overflow."""
        class Plain(Ortrain.Optimizer):
            calls = 0

            def do_update(self, name, parameter, gradient, state, step, learning_rate, weight_decay, gradient_scale):
                Plain.calls += 1
                parameter.numpy()[...] -= learning_rate * gradient_scale * gradient.numpy()
                return True

        wide = training_session(optimizer=Ortrain.Sgd(learning_rate=0.1))
        half = training_session(optimizer=Plain(learning_rate=0.1), precision=Ortrain.Precision.FP16,
                                loss_scaler=too_large())
        run(half, 1)
        self.assertEqual((Plain.calls, half.n_overflows), (0, 1))
        half = training_session(optimizer=Plain(learning_rate=0.1), precision=Ortrain.Precision.FP16,
                                loss_scaler=Ortrain.LossScaler.new_static(1024))
        run(wide, 5)
        run(half, 5)
        self.assertEqual(Plain.calls, 10)
        self.assertTrue(wide.get_parameters().numpy())
        for name, tensor in wide.get_parameters().items():
            np.testing.assert_allclose(half.get_parameters()[name].numpy(), tensor.numpy(), rtol=2e-3, atol=2e-3)


class Precision(unittest.TestCase):
    def test_types(self):
        session = training_session(precision=Ortrain.Precision.BF16)
        graph = session.get_training_graph()
        text = graph.to_string()
        self.assertIn("held fc.weight.working: bfloat16 [3, 4]", text)
        self.assertIn("logits: bfloat16", text)
        self.assertIn("loss: float32", text)
        self.assertEqual(session.loss_scale, 1)
        run(session, 3)

    def test_nodes(self):
        options = Ortrain.TrainingOptions(precision=Ortrain.Precision.BF16, losses=[Ortrain.CrossEntropyLoss.new("logits", "labels")])
        options.set_node_precision("Gemm", Ortrain.Precision.F32)
        session = Ortrain.TrainingSession(linear_model(), options)
        self.assertNotIn("bfloat16", session.get_training_graph().to_string())
        for pattern, precision, reason in (("Nothing", Ortrain.Precision.F32, "Nothing"), ("Gemm", Ortrain.Precision.FP16, "float16")):
            options = Ortrain.TrainingOptions(precision=Ortrain.Precision.BF16, losses=[Ortrain.CrossEntropyLoss.new("logits", "labels")])
            options.set_node_precision(pattern, precision)
            with self.assertRaises(GLib.Error) as caught:
                Ortrain.TrainingSession(linear_model(), options)
            self.assertIn(reason, caught.exception.message)

    def test_inference(self):
        """What a session computes can be had as a model: it gives the same bits, from weights in 16 bits."""
        for precision, dtype in ((Ortrain.Precision.FP16, Ortrain.DType.FLOAT16), (Ortrain.Precision.BF16, Ortrain.DType.BFLOAT16)):
            session = Ortrain.InferenceSession(linear_model(), Ortrain.SessionOptions(precision=precision))
            model = session.make_model()
            path = os.path.join(folder, f"{dtype.value_nick}.onnx")
            model.save(path)
            saved = Ortrain.Model(path)
            again = Ortrain.InferenceSession(saved)
            graph = saved.get_graph()
            types = [value.get_tensor().get_dtype() for value in graph.get_initializers()]
            self.assertEqual(types, [dtype, dtype])
            feeds = {"x": batch()["x"]}
            logits = session.run(feeds)["logits"].numpy()
            self.assertEqual(logits.dtype, np.float32)
            np.testing.assert_array_equal(again.run(feeds)["logits"].numpy(), logits)
            exact = Ortrain.InferenceSession(linear_model()).run(feeds)["logits"].numpy()
            self.assertFalse(np.array_equal(logits, exact))
            np.testing.assert_allclose(logits, exact, atol=0.02)

    def test_choices_by_value(self):
        """A value that a product reads in 16 bits, and a maximum in float32, whose gradient looks for what was chosen."""
        x = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
        feeds = {"x": x, "of_product": np.zeros((4, 2), np.float32), "of_choice": np.ones((1, 1), np.float32)}
        for choice in ("ReduceMax", "ReduceMin"):
            gradients = {}
            for precision in ("f32", "bf16", "fp16"):
                builder = Ortrain.GraphBuilder.new("choice")
                normed = builder.layer_norm(builder.add_input("x", Ortrain.DType.FLOAT32, "4, 6"), "norm")
                builder.add_output(builder.linear(normed, "fc", 2, True), "product")
                builder.add_output(builder.unary(choice, normed), "choice")
                options = Ortrain.TrainingOptions([Ortrain.MseLoss("product", "of_product"), Ortrain.MseLoss("choice", "of_choice")],
                                                  optimizer=Ortrain.Sgd(0.1), precision=precision)
                session = Ortrain.TrainingSession(builder.build(), options)
                session.train_step(feeds)
                gradients[precision] = session.get_gradients().numpy()
            for precision in ("bf16", "fp16"):
                for name, right in gradients["f32"].items():
                    off = np.linalg.norm(gradients[precision][name].astype(np.float64) - right) / np.linalg.norm(right)
                    self.assertLess(off, 0.02, f"{choice}, {precision}, {name}")

    def test_sums_of_half_files(self):
        """Models written in float16: sums beyond its range, which a root or a quotient brings back into it."""
        x = np.full((2, 512), 20, np.float16)
        x[1] = 0.5

        def run(build):
            builder = Ortrain.GraphBuilder.new("sums")
            value = builder.add_input("x", Ortrain.DType.FLOAT16, "2, 512")
            builder.add_output(build(builder, value), "y")
            y = Ortrain.InferenceSession(builder.build()).run({"x": x})["y"].numpy()
            self.assertEqual(y.dtype, np.float16)
            return y.astype(np.float64)

        wide = x.astype(np.float64)
        squares = (wide ** 2).sum()

        def quotient(builder, value):  # x / sqrt (sum², which is beyond 65504)
            total = builder.unary("ReduceSum", builder.binary("Mul", value, value))
            return builder.binary("Div", value, builder.unary("Sqrt", builder.binary("Mul", total, total)))

        def root(builder, value):
            return builder.unary("Sqrt", builder.unary("ReduceSumSquare", value))

        def difference(builder, value):  # of two sums, each of which is infinite in float16
            product = builder.binary("Mul", builder.unary("Exp", builder.binary("Sub", value, value)), builder.binary("Mul", value, value))
            return builder.binary("Sub", builder.unary("ReduceSum", product), builder.unary("ReduceSumSquare", value))

        np.testing.assert_allclose(run(quotient), wide / squares, rtol=2**-9, atol=2**-24)
        np.testing.assert_allclose(run(root), np.sqrt(squares).reshape(1, 1), rtol=2**-10)
        np.testing.assert_allclose(run(difference), np.zeros((1, 1)), atol=1)

    def test_accumulation(self):
        """Gradients of several steps, groups of parameters and frozen ones, as in float32."""
        def trained(precision):
            optimizer = Ortrain.AdamW(learning_rate=0.02)
            optimizer.add_group("*.bias", 0.0, 0.0)
            session = training_session(optimizer=optimizer, precision=precision, accumulation_steps=2, max_grad_norm=0.5)
            for i in range(10):
                session.train_step(batch(seed=2 * i))
                session.train_step(batch(seed=2 * i + 1))
                session.optimizer_step()
            return {name: tensor.numpy().copy() for name, tensor in session.get_parameters().items()}

        wide = trained(Ortrain.Precision.F32)
        for precision in (Ortrain.Precision.BF16, Ortrain.Precision.FP16):
            for name, array in trained(precision).items():
                np.testing.assert_allclose(array, wide[name], atol=0.01, err_msg=name)
        options = Ortrain.TrainingOptions(precision=Ortrain.Precision.BF16, losses=[Ortrain.CrossEntropyLoss.new("logits", "labels")])
        options.set_frozen(["fc.weight"])
        session = Ortrain.TrainingSession(linear_model(), options)
        self.assertEqual([name for name, _ in session.get_parameters().items()], ["fc.bias"])
        run(session, 3)

    def test_not_finite(self):
        """What operators read is a copy of the parameter: the error names the parameter."""
        session = training_session(precision=Ortrain.Precision.BF16)
        weight = session.get_parameters()["fc.weight"].numpy().copy()
        weight[1, 2] = np.nan
        session.set_parameters({"fc.weight": weight})
        with self.assertRaises(GLib.Error) as caught:
            session.train_step(batch())
        self.assertIn("the parameter 'fc.weight' holds nan at index [1, 2]", caught.exception.message)

    def test_without_masters(self):
        session = training_session(precision=Ortrain.Precision.BF16, master_weights=False)
        self.assertNotIn("working", session.get_training_graph().to_string())
        self.assertEqual(session.get_parameters()["fc.weight"].get_dtype(), Ortrain.DType.BFLOAT16)
        losses = run(session, 20)
        self.assertLess(np.mean(losses[-5:]), np.mean(losses[:5]))


if __name__ == "__main__":
    main()
