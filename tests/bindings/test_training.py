# SPDX-License-Identifier: LGPL-2.1-or-later
import asyncio
import json
import math
import os
import threading
import unittest

import numpy as np
from gi.repository import Gio, GLib, GObject
from ortrain_tap import Ortrain, batch, dataset, folder, linear_model, main, parameters_of, softmax, training_session

PHASES = ["pre-forward", "post-forward", "pre-backward", "post-backward", "pre-update", "post-update"]


def expected_step(model, feeds):
    """Loss and gradients of the linear model, in float64, by hand."""
    w = parameters_of(model.get_graph())
    x, labels = feeds["x"].astype(np.float64), feeds["labels"]
    p = softmax(x @ w["fc.weight"].T + w["fc.bias"])
    loss = -np.log(p[np.arange(len(labels)), labels]).mean()
    p[np.arange(len(labels)), labels] -= 1
    p /= len(labels)
    return w, loss, {"fc.weight": p.T @ x, "fc.bias": p.sum(axis=0)}


class Steps(unittest.TestCase):
    def test_against_numpy(self):
        model, feeds = linear_model(), batch()
        w, expected, gradients = expected_step(model, feeds)
        session = training_session(model)
        self.assertAlmostEqual(session.train_step(feeds), expected, places=5)
        self.assertEqual(set(session.get_gradients().numpy()), set(gradients))
        for name, gradient in session.get_gradients().numpy().items():
            np.testing.assert_allclose(gradient, gradients[name], rtol=1e-4, atol=1e-6)
        session.optimizer_step()
        self.assertEqual(set(session.get_parameters().numpy()), set(gradients))
        for name, parameter in session.get_parameters().numpy().items():
            np.testing.assert_allclose(parameter, w[name] - 0.1 * gradients[name], rtol=1e-5, atol=1e-6)
        self.assertEqual((session.step, session.n_train_steps), (1, 1))

    def test_train_and_update(self):
        model, feeds = linear_model(), batch()
        w, expected, gradients = expected_step(model, feeds)
        session = training_session(model)
        self.assertTrue(session.train_and_update(feeds))
        self.assertAlmostEqual(session.get_last_loss(), expected, places=5)
        for name, parameter in session.get_parameters().numpy().items():
            np.testing.assert_allclose(parameter, w[name] - 0.1 * gradients[name], rtol=1e-5, atol=1e-6)
        self.assertEqual((session.step, session.n_train_steps), (1, 1))

    def test_adam_against_numpy(self):
        model, feeds = linear_model(), batch()
        w, _, gradients = expected_step(model, feeds)
        session = training_session(model, Ortrain.Adam(learning_rate=0.01))
        session.train_step(feeds)
        session.optimizer_step()
        self.assertEqual(set(session.get_parameters().numpy()), set(gradients))
        for name, parameter in session.get_parameters().numpy().items():   # the first step of Adam: lr · g / (|g| + ε)
            g = gradients[name]
            np.testing.assert_allclose(parameter, w[name] - 0.01 * g / (np.abs(g) + 1e-8), rtol=1e-4, atol=1e-6)

    def test_eval(self):
        session, feeds = training_session(), batch()
        outputs = session.eval_step({"x": feeds["x"]})
        self.assertEqual(list(outputs), ["logits"])
        outputs = session.eval_step(feeds)
        self.assertEqual(set(outputs), {"logits", "loss"})
        self.assertAlmostEqual(float(outputs["loss"]), session.train_step(feeds), places=6)

    def test_live_learning_rate(self):
        optimizer = Ortrain.Sgd(learning_rate=0.0)
        session, feeds = training_session(optimizer=optimizer), batch()
        before = session.get_parameters()["fc.weight"].numpy().copy()
        session.train_step(feeds)
        session.optimizer_step()
        np.testing.assert_array_equal(session.get_parameters()["fc.weight"].numpy(), before)
        optimizer.learning_rate = 0.5
        session.train_step(feeds)
        session.optimizer_step()
        self.assertGreater(np.abs(session.get_parameters()["fc.weight"].numpy() - before).max(), 1e-3)
        self.assertEqual(session.get_current_learning_rate(), 0.5)

    def test_set_parameters(self):
        session = training_session()
        session.set_parameters({"fc.bias": np.float32([1, 2, 3])})
        self.assertEqual(session.get_parameters()["fc.bias"].numpy().tolist(), [1, 2, 3])

    def test_accumulation(self):
        feeds = batch()
        session = training_session()
        session.train_step(feeds)
        once = session.get_gradients()["fc.weight"].numpy().copy()
        session.train_step(feeds)
        np.testing.assert_allclose(session.get_gradients()["fc.weight"].numpy(), 2 * once, rtol=1e-5)
        session.zero_gradients()
        session.train_step(feeds)
        np.testing.assert_allclose(session.get_gradients()["fc.weight"].numpy(), once, rtol=1e-6)

    def test_trainable_and_frozen(self):
        model = linear_model()
        options = Ortrain.TrainingOptions(optimizer=Ortrain.Sgd(learning_rate=0.1),
                                          losses=[Ortrain.CrossEntropyLoss(output="logits", target="labels")])
        options.set_frozen(["*.bias"])
        self.assertEqual(options.frozen, ["*.bias"])
        session = Ortrain.TrainingSession(model, options)
        session.train_step(batch())
        self.assertEqual(list(session.get_gradients()), ["fc.weight"])

    def test_context_manager(self):
        with training_session() as session:
            self.assertTrue(math.isfinite(session.train_step(batch())))


class Signals(unittest.TestCase):
    def test_phases(self):
        session, seen = training_session(), []

        def on_phase(session, report, phase):
            self.assertIsInstance(report, Ortrain.MemoryReport)
            seen.append((phase, report.phase, report.step, threading.current_thread()))

        for phase in PHASES:
            session.connect(phase, on_phase, phase)
        session.train_step(batch())
        session.optimizer_step()
        self.assertEqual([s[0] for s in seen], PHASES)
        for phase, name, step, thread in seen:
            self.assertEqual(name, phase.replace("-", "_"))
            self.assertEqual(step, 1)
            self.assertIs(thread, threading.main_thread())

    def test_phases_of_async_steps_arrive_on_the_owner(self):
        session, seen = training_session(), []
        for phase in PHASES:
            session.connect(phase, lambda session, report, phase: seen.append((phase, threading.current_thread())), phase)
        asyncio.run(session.train_step_async(batch()))
        self.assertEqual([phase for phase, thread in seen], PHASES[:4])
        self.assertEqual({thread for phase, thread in seen}, {threading.main_thread()})

    def test_report(self):
        session, reports = training_session(), []
        session.connect("post-backward", lambda session, report: reports.append(report.copy()))
        session.train_step(batch())
        report = reports[0]
        self.assertEqual(report.rank, 0)
        self.assertEqual(report.param, 64 + 64)          # 48 and 12 bytes, each at a multiple of 64
        self.assertEqual(report.max_allocated, session.memory_plan.peak_bytes)
        for name in ("allocated", "cached", "max_cached", "inactive", "max_inactive", "grad", "buffer", "step_peak", "state",
                     "activation", "temporary", "workspace", "constant", "input", "output"):
            self.assertGreaterEqual(getattr(report, name), 0)
        self.assertRegex(str(report), r"^rank-0 step 1 memory \(MiB\) \| phase: post_backward \| allocated: \d+ \| "
                         r"max allocated: \d+ \| cached: \d+ \| max cached: \d+ \| inactive: \d+ \| max inactive: \d+ \| "
                         r"param: \d+ \| grad: \d+ \| buffer: \d+$")
        self.assertEqual(session.get_memory_report().to_string().split(" ")[0], "rank-0")

    def test_plan_changed(self):
        session, plans = training_session(), []
        session.connect("plan-changed", lambda session, plan: plans.append((plan, threading.current_thread())))
        session.train_step(batch(8))
        session.train_step(batch(8))
        session.train_step(batch(5))
        self.assertEqual(len(plans), 2)
        self.assertIsInstance(plans[0][0], Ortrain.MemoryPlan)
        self.assertIs(plans[0][1], threading.main_thread())

    def test_notify(self):
        optimizer, seen = Ortrain.Sgd(learning_rate=0.1), []
        optimizer.connect("notify::learning-rate", lambda *args: seen.append(optimizer.learning_rate))
        optimizer.learning_rate = 0.2
        optimizer.learning_rate = 0.2
        self.assertEqual(seen, [0.2])

    def test_losses_are_wide(self):
        """Targets that 16 bits round, or cannot hold, and squares of differences that they cannot."""
        for loss in (Ortrain.MseLoss, Ortrain.L1Loss, Ortrain.HuberLoss):
            for target in (100.3, 300.0, 7e4):
                feeds = {"x": batch()["x"], "target": np.full((len(batch()["x"]), 3), target, np.float32)}
                wide, *narrow = (Ortrain.TrainingSession(linear_model(), Ortrain.TrainingOptions(
                    [loss("logits", "target")], optimizer=Ortrain.Sgd(learning_rate=0.1), precision=precision)).train_step(feeds)
                                 for precision in ("f32", "bf16", "fp16"))
                for value in narrow:
                    self.assertLess(abs(value - wide), 1e-4 * wide)

    def test_not_finite(self):
        session, seen = training_session(), []
        session.connect("not-finite", lambda session: seen.append(threading.current_thread()))
        feeds = batch()
        feeds["x"][0, 0] = np.nan
        with self.assertRaises(GLib.Error) as caught:
            session.train_step(feeds)
        self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.NOT_FINITE))
        self.assertIn("the input 'x' holds nan at index [0, 0]", caught.exception.message)
        self.assertEqual(seen, [threading.main_thread()])
        session.check_finite()


class Asynchronous(unittest.TestCase):
    def test_awaitable(self):
        feeds = batch()
        first, second = training_session(), training_session()
        expected = first.train_step(feeds)

        async def go():
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticker = asyncio.create_task(tick())
            loss = await second.train_step_async(feeds)
            ticker.cancel()
            await second.optimizer_step_async()
            outputs = await second.eval_step_async({"x": feeds["x"]})
            await second.save_checkpoint_async(os.path.join(folder, "awaited"))
            await second.export_async(os.path.join(folder, "awaited.onnx"))
            return loss, outputs, ticks

        loss, outputs, ticks = asyncio.run(go())
        self.assertEqual(loss, expected)
        self.assertGreater(ticks, 0)             # asyncio's loop went on
        self.assertEqual(second.step, 1)
        self.assertEqual(outputs["logits"].shape, (8, 3))
        self.assertTrue(Ortrain.Checkpoint.exists(os.path.join(folder, "awaited")))
        self.assertTrue(os.path.exists(os.path.join(folder, "awaited.onnx")))

    def test_callback(self):
        session, loop, losses = training_session(), GLib.MainLoop(), []

        def done(session, result):
            losses.append((session.train_step_finish(result), threading.current_thread()))
            loop.quit()

        session.train_step_async(batch(), None, done)
        self.assertEqual(losses, [])
        loop.run()
        self.assertIs(losses[0][1], threading.main_thread())

    def test_cancelled(self):
        session, loop, errors, cancellable = training_session(), GLib.MainLoop(), [], Gio.Cancellable()

        def done(session, result):
            try:
                session.train_step_finish(result)
            except GLib.Error as error:
                errors.append(error)
            loop.quit()

        cancellable.cancel()
        session.train_step_async(batch(), cancellable, done)
        loop.run()
        self.assertTrue(errors[0].matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))
        self.assertTrue(math.isfinite(session.train_step(batch())))   # the session is as it was

    def test_every_pair_cancelled(self):
        session, cancellable = training_session(), Gio.Cancellable()
        whole, no = os.path.join(folder, "whole"), os.path.join(folder, "no")
        session.train_step(batch())
        session.save_checkpoint(whole)
        linear_model().save(whole + ".onnx")
        cancellable.cancel()
        options = Ortrain.TrainingOptions(losses=[Ortrain.CrossEntropyLoss.new("logits", "labels")])
        inference = Ortrain.InferenceSession(linear_model())

        async def go():
            for start in (
                    lambda: Ortrain.TrainingSession.new_async(linear_model(), options, cancellable),
                    lambda: Ortrain.Model.new_from_file_async(whole + ".onnx", cancellable),
                    lambda: session.train_step_async(batch(), cancellable),
                    lambda: session.optimizer_step_async(cancellable),
                    lambda: session.eval_step_async(batch(), cancellable),
                    lambda: session.export_async(no + ".onnx", cancellable),
                    lambda: session.save_checkpoint_async(no, cancellable),
                    lambda: session.load_checkpoint_async(whole, cancellable),
                    lambda: inference.run_async({"x": batch()["x"]}, cancellable),
                    lambda: Ortrain.Checkpoint.load_async(whole, cancellable),
                    lambda: Ortrain.Checkpoint.new().save_async(no, cancellable),
                    lambda: Ortrain.Checkpoint.load(whole).export_async(no + ".onnx", cancellable),
                    lambda: linear_model().save_async(no + ".onnx", cancellable),
                    lambda: Ortrain.InferenceSession.new_async(linear_model(), None, cancellable),
                    lambda: Ortrain.Trainer(session, dataset()).evaluate_async(dataset(), cancellable),
                    lambda: Ortrain.Trainer(session, dataset()).fit_async(cancellable)):
                with self.assertRaises(GLib.Error) as caught:
                    await start()
                self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED), caught.exception)

        asyncio.run(go())
        self.assertFalse(os.path.exists(no + ".onnx") or Ortrain.Checkpoint.exists(no))
        session.optimizer_step()        # as it was: the gradients are there still
        self.assertEqual(session.step, 1)

    def test_every_pair_awaited(self):
        """None is left out of the tests above and here: each name that ends in _async gives an awaitable."""
        names = {f"{name}.{method}" for name in dir(Ortrain) if isinstance(getattr(Ortrain, name), type)
                 for method in dir(getattr(Ortrain, name)) if method.endswith("_async")}
        self.assertEqual(names, {
            "TrainingSession.new_async", "TrainingSession.train_step_async", "TrainingSession.optimizer_step_async",
            "TrainingSession.train_and_update_async",
            "TrainingSession.eval_step_async", "TrainingSession.export_async", "TrainingSession.save_checkpoint_async",
            "TrainingSession.load_checkpoint_async", "InferenceSession.run_async", "Model.new_from_file_async",
            "Checkpoint.load_async", "Checkpoint.save_async", "Checkpoint.export_async", "Model.save_async", "Trainer.fit_async",
            "InferenceSession.new_async", "Trainer.evaluate_async"})
        path = os.path.join(folder, "all")

        async def go():
            await linear_model().save_async(path + ".onnx")
            model = await Ortrain.Model.new_from_file_async(path + ".onnx")
            session = training_session(model)
            session.train_step(batch())
            session.optimizer_step()
            self.assertTrue(await session.train_and_update_async(batch()))
            self.assertTrue(np.isfinite(session.get_last_loss()))
            self.assertEqual(session.step, 2)
            await session.save_checkpoint_async(path)
            checkpoint = await Ortrain.Checkpoint.load_async(path)
            self.assertTrue(await checkpoint.save_async(path + "-again"))
            other = training_session(model)
            await other.load_checkpoint_async(path + "-again")
            await checkpoint.export_async(path + "-exported.onnx")
            inference = await Ortrain.InferenceSession.new_async(Ortrain.Model(path + "-exported.onnx"), None)
            np.testing.assert_allclose(inference.run({"x": batch()["x"]})["logits"].numpy(),
                                       session.eval_step({"x": batch()["x"]})["logits"].numpy(), rtol=1e-5, atol=1e-6)
            trainer = Ortrain.Trainer(session, dataset(), batch_size=16)
            self.assertEqual(await trainer.evaluate_async(dataset()), trainer.evaluate(dataset()))
            self.assertEqual(other.step, 2)
            return other.train_step(batch()), session.train_step(batch())

        first, second = asyncio.run(go())
        self.assertEqual(first, second)

    def test_busy(self):
        session, cancellable = training_session(), Gio.Cancellable()
        trainer = Ortrain.Trainer(session, dataset(), epochs=2 ** 31)   # until it is cancelled

        async def go():
            task = asyncio.create_task(trainer.fit_async(cancellable))
            await asyncio.sleep(0)
            for call in (lambda: session.train_step(batch()), session.optimizer_step, session.get_parameters,
                         lambda: session.save_checkpoint(os.path.join(folder, "busy")), trainer.fit):
                with self.assertRaises(GLib.Error) as caught:
                    call()
                self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.BUSY))
            cancellable.cancel()
            with self.assertRaises(GLib.Error):
                await task

        asyncio.run(go())
        self.assertTrue(math.isfinite(session.train_step(batch())))

    def test_new_async(self):
        options = Ortrain.TrainingOptions(optimizer=Ortrain.Sgd(learning_rate=0.1))
        options.add_loss(Ortrain.CrossEntropyLoss.new("logits", "labels"))
        session = asyncio.run(Ortrain.TrainingSession.new_async(linear_model(), options))
        self.assertTrue(math.isfinite(session.train_step(batch())))


class Weights(unittest.TestCase):
    def test_step_weight(self):
        session = training_session()
        self.assertEqual(session.get_step_weight(), 0)
        session.train_step(batch(8))
        self.assertEqual(session.get_step_weight(), 8)
        session.eval_step(batch(5))
        self.assertEqual(session.get_step_weight(), 5)

    def test_export_with_limits(self):
        session = training_session()
        where, exported = os.path.join(folder, "limits"), os.path.join(folder, "limits.onnx")
        session.save_checkpoint(where)
        checkpoint = Ortrain.Checkpoint.load(where)
        with self.assertRaises(Ortrain.ModelError) as caught:
            checkpoint.export_with_limits(exported, Ortrain.ModelLimits(max_nodes=0))
        self.assertEqual(caught.exception.code, Ortrain.ModelError.LIMIT)
        checkpoint.export_with_limits(exported, None)
        self.assertEqual(Ortrain.Model(exported).get_n_parameters(), 15)


class Errors(unittest.TestCase):
    def check(self, call, code):
        with self.assertRaises(GLib.Error) as caught:
            call()
        self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), code), caught.exception)
        return caught.exception.message

    def test_feeds(self):
        session, feeds = training_session(), batch()
        code = Ortrain.SessionError
        self.assertIn("labels", self.check(lambda: session.train_step({"x": feeds["x"]}), code.FEED))
        self.assertIn("x", self.check(lambda: session.train_step({**feeds, "x": feeds["x"][:, :2]}), code.FEED))
        self.assertEqual(session.train_step({**feeds, "x": feeds["x"].astype(np.float64)}), session.train_step(feeds))
        whole = np.round(feeds["x"])
        self.assertEqual(session.train_step({**feeds, "x": whole.astype(int)}), session.train_step({**feeds, "x": whole}))
        self.assertIn("complex64, the model needs float32", self.check(lambda: session.train_step({**feeds, "x": feeds["x"].astype(np.complex64)}), code.FEED))
        self.check(lambda: session.train_step({**feeds, "labels": feeds["labels"] + 100}), code.INDEX)
        self.assertTrue(math.isfinite(session.train_step(feeds)))     # still usable

    def test_misuse(self):
        session, code = training_session(), Ortrain.SessionError
        self.assertIn("train_step", self.check(lambda: session.optimizer_step(), code.STATE))
        session.train_step(batch())
        session.zero_gradients()
        self.check(lambda: session.optimizer_step(), code.STATE)
        with self.assertRaises(GLib.Error) as caught:
            session.set_parameters({"no.such": np.zeros(3, np.float32)})
        self.assertIn("no.such", caught.exception.message)
        with self.assertRaises(GLib.Error) as caught:
            session.set_parameters({"fc.bias": np.zeros(4, np.float32)})
        self.assertIn("fc.bias", caught.exception.message)
        for change in (lambda o: o.set_trainable(["nothing.*"]), lambda o: o.set_frozen(["*"]), lambda o: o.tie("fc.bias", "nothing"),
                       lambda o: o.tie("fc.bias", "fc.weight"), lambda o: o.set_padding_row("nothing", 0), lambda o: o.set_padding_row("fc.weight", 3)):
            options = Ortrain.TrainingOptions(losses=[Ortrain.CrossEntropyLoss.new("logits", "labels")])
            change(options)
            with self.assertRaises(GLib.Error) as caught:
                Ortrain.TrainingSession(linear_model(), options)
            self.assertGreater(len(caught.exception.message), 20)
        with self.assertRaises(GLib.Error) as caught:      # no loss at all
            Ortrain.TrainingSession(linear_model(), Ortrain.TrainingOptions())
        self.assertIn("loss", caught.exception.message)
        self.assertTrue(math.isfinite(session.train_step(batch())))

    def test_overflow(self):
        session, seen, feeds = training_session(max_grad_norm=1.0, stop_on_nan=False), [], batch()
        session.connect("overflow", lambda session: seen.append(threading.current_thread()))
        feeds["x"][0, 0] = np.inf
        before = session.get_parameters()["fc.weight"].numpy().copy()
        session.train_step(feeds)
        session.optimizer_step()
        self.assertEqual(session.step, 0)
        self.assertEqual(seen, [threading.main_thread()])
        np.testing.assert_array_equal(session.get_parameters()["fc.weight"].numpy(), before)

    def test_names(self):
        options = Ortrain.TrainingOptions()
        options.add_loss(Ortrain.CrossEntropyLoss.new("nothing", "labels"))
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.TrainingSession(linear_model(), options)
        self.assertIn("nothing", caught.exception.message)

    def test_half_made(self):
        session = GObject.new(Ortrain.TrainingSession.__gtype__)
        with self.assertRaises(GLib.Error) as caught:
            session.optimizer_step()
        self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.NOT_INITIALIZED))

    def test_mapping_needed(self):
        with self.assertRaises(TypeError):
            training_session().train_step([1, 2])


class Plans(unittest.TestCase):
    def test_plan(self):
        session = training_session()
        plan = session.plan(batch())
        session.train_step(batch())
        self.assertEqual(session.memory_plan.peak_bytes, plan.peak_bytes)
        self.assertLessEqual(plan.lower_bound_bytes, plan.arena_bytes)
        self.assertGreater(plan.persistent_bytes, 0)
        self.assertGreater(plan.n_steps, 0)
        self.assertEqual(len(plan.blocks), plan.blocks.get_n_items())
        for block in plan.blocks:
            self.assertIsInstance(block, Ortrain.MemoryBlock)
            self.assertLessEqual(block.first, block.last)
        categories = {block.category for block in plan.blocks}
        self.assertIn("parameter", categories)
        names = {block.name for block in plan.blocks}
        self.assertIn("fc.weight", names)
        block = next(b for b in plan.blocks if b.name == "fc.weight")
        self.assertEqual((block.bytes, block.region, block.category), (48, "parameter", "parameter"))
        self.assertIn("fc.weight", str(block))
        self.assertIn("peak", str(plan))

    def test_steps(self):
        """What there is to draw: the curve of live bytes follows from the blocks, the time from the steps."""
        plan = training_session().plan(batch())
        steps = list(plan.steps)
        self.assertEqual(len(steps), plan.n_steps)
        for index, step in enumerate(steps):
            self.assertIsInstance(step, Ortrain.MemoryStep)
            blocks = [block for block in plan.blocks if block.region == "arena" and block.first <= index <= block.last]
            self.assertEqual(step.get_live_bytes(), sum((block.bytes + 63) // 64 * 64 for block in blocks), index)
            self.assertGreater(step.get_milliseconds(), 0)
            self.assertGreaterEqual(step.get_flops(), 0)
            self.assertGreater(step.get_bytes_moved(), 0)
            self.assertTrue(step.get_node() and step.get_operator())
            self.assertIn(step.get_stream(), ("compute", "copy", "side", "host"))
            self.assertEqual(step.get_recomputes(), -1)
        self.assertAlmostEqual(sum(step.milliseconds for step in steps), plan.get_milliseconds())
        self.assertEqual(plan.get_peak_step(), max(range(len(steps)), key=lambda s: (steps[s].live_bytes, -s)))
        self.assertEqual([step.get_phase() for step in steps], sorted((step.phase for step in steps), key=["forward", "backward", "update"].index))
        self.assertIs(plan.get_steps()[0], steps[0])
        block = next(block for block in plan.blocks if block.region == "arena" and block.first > 0)
        self.assertEqual(steps[block.first].node, block.node)
        self.assertFalse(any(block.get_recomputed() for block in plan.blocks))

    def test_gradients(self):
        """A plan says why gradients take memory of their own."""
        def reason(**properties):
            return training_session(**properties).plan(batch()).get_gradients_kept()

        on = {"immediate_updates": Ortrain.ImmediateUpdates.ON}
        self.assertIn("auto", reason())
        self.assertIn("off", reason(immediate_updates=Ortrain.ImmediateUpdates.OFF))
        self.assertIn("max-grad-norm", reason(max_grad_norm=1.0, **on))
        self.assertIn("accumulated", reason(accumulation_steps=2, **on))
        self.assertIn("scaled", reason(loss_scaler=Ortrain.LossScaler(), **on))
        plan = training_session(max_grad_norm=1.0, **on).plan(batch())
        self.assertIn("kept until the update: " + plan.gradients_kept, str(plan))
        self.assertEqual(json.loads(plan.to_json())["gradients"], {"kept_because": plan.gradients_kept, "parameters": []})
        plan = training_session(**on).plan(batch())
        self.assertIsNone(plan.gradients_kept)
        self.assertNotIn("gradient", str(plan))
        self.assertEqual(json.loads(plan.to_json())["gradients"]["kept_because"], None)

    def test_gradients_of_a_trainer(self):
        """What a Trainer decides is in the plans that it makes."""
        def train(session):
            data = Ortrain.TensorDataset({"x": np.zeros((4, 4), np.float32), "labels": np.zeros(4, np.int64)})
            Ortrain.Trainer(session, data).fit()
            return session.memory_plan.gradients_kept

        self.assertIsNone(train(training_session(memory_budget=1 << 30)))      # without one, a device with room keeps them
        watched = training_session()
        watched.connect("post-backward", lambda *_: None)
        self.assertIn("handler", train(watched))
        self.assertIn("max-grad-norm", train(training_session(max_grad_norm=1.0)))

    def test_shared_gradients(self):
        """A parameter at both ends of the model: its gradient waits for the second one."""
        builder = Ortrain.GraphBuilder.new("tied")
        x = builder.add_input("x", Ortrain.DType.FLOAT32, "batch,8")
        weight = builder.add_normal("weight", [8, 8], 0.0, 0.5)
        hidden = builder.relu(builder.binary("MatMul", x, weight))
        builder.add_output(builder.binary("MatMul", hidden, weight), "logits")
        options = Ortrain.TrainingOptions(immediate_updates=Ortrain.ImmediateUpdates.ON)
        options.add_loss(Ortrain.CrossEntropyLoss.new("logits", "labels"))
        session = Ortrain.TrainingSession(builder.build(), options)
        plan = session.plan({"x": np.zeros((4, 8), np.float32), "labels": np.zeros(4, np.int64)})
        [shared] = json.loads(plan.to_json())["gradients"]["parameters"]
        self.assertEqual((shared["parameter"], shared["bytes"]), ("weight", 256))
        self.assertIn("2 steps add to it", shared["because"])
        self.assertIn("256 bytes of weight: 2 steps add to it", str(plan))

    def test_recompute(self):
        session = training_session()
        session.plan(batch())
        rows = session.get_recompute_clusters()
        self.assertGreater(len(rows), 0)
        for row in rows:
            self.assertIsInstance(row, Ortrain.RecomputeCluster)
            self.assertIn(row.configuration, str(row))
            self.assertEqual(row.evaluate("batch=8"), (True, row.saving_bytes))
        self.assertEqual([row.saving_bytes for row in rows], sorted((row.saving_bytes for row in rows), reverse=True))
        row = next(row for row in rows if not row.automatic)
        self.assertEqual((row.strategy, row.enabled, row.request_count, row.n_recomputed), (1, False, 0, 0))
        with self.assertRaises(GLib.Error):
            row.evaluate("batch")
        self.assertIn(row.configuration, session.format_recompute_table(False))
        self.assertIn("Status: Disabled", session.format_recompute_table(True))
        self.assertEqual(json.loads(session.recompute_to_json())["clusters"][0]["id"], rows[0].id)

        again = training_session(memory_opt_config=row.configuration)
        self.assertEqual([again.train_step(batch()), again.optimizer_step()], [session.train_step(batch()), session.optimizer_step()])
        same = next(r for r in again.get_recompute_clusters() if r.configuration == row.configuration and not r.automatic)
        self.assertEqual((same.enabled, same.request_count, same.n_recomputed), (True, -1, row.frequency))
        plan = again.memory_plan
        runs_again = [index for index, step in enumerate(plan.steps) if step.recomputes >= 0]
        self.assertEqual(len(runs_again), plan.n_recomputed_steps)
        self.assertGreater(len(runs_again), 0)
        for index in runs_again:
            self.assertEqual(plan.steps[plan.steps[index].recomputes].operator, plan.steps[index].operator)
            self.assertLess(plan.steps[index].recomputes, index)
        again_blocks = {block.first for block in plan.blocks if block.recomputed}
        self.assertTrue(again_blocks and again_blocks <= set(runs_again))
        with self.assertRaises(GLib.Error) as caught:
            training_session(memory_opt_config="Nothing+:1:-1")
        self.assertIn(row.id, caught.exception.message)

    def test_forms(self):
        plan = training_session().plan(Ortrain.TensorDict(batch()))
        data = json.loads(plan.to_json())
        self.assertEqual(data["peak_bytes"], plan.peak_bytes)
        self.assertEqual([block["name"] for block in data["blocks"]],
                         [block.name for block in plan.blocks if block.region == "arena"])
        self.assertIn("<svg", plan.to_svg())
        for save, name in ((plan.save_json, "json"), (plan.save_svg, "svg"), (plan.save_html, "html")):
            path = os.path.join(folder, "plan." + name)
            save(path)
            self.assertGreater(os.path.getsize(path), 100)

    def test_training_graph(self):
        graph = training_session().training_graph
        self.assertIsInstance(graph, Ortrain.Graph)
        self.assertIn("labels", [value.name for value in graph.get_inputs()])


class Options(unittest.TestCase):
    def test_properties(self):
        options = Ortrain.TrainingOptions(max_grad_norm=1.0, seed=3, batch_norm=Ortrain.BatchNormMode.FROZEN)
        self.assertEqual((options.max_grad_norm, options.seed), (1.0, 3))
        self.assertEqual(options.batch_norm, Ortrain.BatchNormMode.FROZEN)
        options.accumulation_steps = 2
        options.schedule = Ortrain.CosineSchedule.new(10)
        options.tie("a", "b")
        options.set_padding_row("w", 3)
        self.assertEqual((options.get_padding_row("w"), options.get_padding_row("v")), ((True, 3), (False, -1)))
        self.assertEqual((options.get_n_ties(), options.get_tie(0)), (1, ("a", "b")))
        self.assertIsInstance(options.schedule, Ortrain.LrSchedule)
        options.add_loss(Ortrain.MseLoss.new("y", "t"))
        self.assertEqual([type(loss).__name__ for loss in options.losses], ["MseLoss"])

    def test_json(self):
        path = os.path.join(folder, "options.json")
        with open(path, "w") as file:
            json.dump({"optimizer": {"type": "adamw", "learning_rate": 0.25, "mode": "decay-last"}, "seed": 9,
                       "schedule": {"type": "step", "step_size": 5}, "trainable": ["fc.*"], "ties": [["a", "b"]],
                       "losses": [{"type": "huber", "output": "y", "target": "t", "delta": 2.0}]}, file)
        options = Ortrain.TrainingOptions.new_from_file(path)
        self.assertEqual((options.optimizer.learning_rate, options.optimizer.mode),
                         (0.25, Ortrain.AdamwMode.DECAY_LAST))
        self.assertEqual((options.seed, options.trainable, options.schedule.step_size), (9, ["fc.*"], 5))
        self.assertEqual(options.losses[0].delta, 2)
        with open(path, "w") as file:
            json.dump({"optimizer": {"type": "adamx"}}, file)
        with self.assertRaises(GLib.Error) as caught:
            options.load_file(path)
        self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.OPTION))
        self.assertIn("adamx", caught.exception.message)

    def test_session_options(self):
        path = os.path.join(folder, "session.json")
        with open(path, "w") as file:
            json.dump({"threads": 2, "deterministic": True}, file)
        options = Ortrain.SessionOptions.new_from_file(path)
        self.assertEqual((options.threads, options.deterministic), (2, True))
        self.assertEqual(Ortrain.SessionOptions(max_plans=3).max_plans, 3)
        self.assertIsNone(options.get_outputs() or None)
        options.set_outputs(["y"])
        self.assertEqual((options.outputs, options.get_outputs()), (["y"], ["y"]))


class Persistence(unittest.TestCase):
    def test_checkpoint_resumes_exactly(self):
        path = os.path.join(folder, "session-checkpoint")
        make = lambda: training_session(optimizer=Ortrain.Adam(learning_rate=0.01))
        first = make()
        for i in range(6):
            first.train_step(batch(seed=i))
            first.optimizer_step()
            if i == 2:
                first.set_metadata("note", "halfway")
                first.save_checkpoint(path)
        second = make()
        second.load_checkpoint(path)
        self.assertEqual((second.step, second.get_metadata("note")), (3, "halfway"))
        for i in range(3, 6):
            second.train_step(batch(seed=i))
            second.optimizer_step()
        for name, tensor in first.get_parameters().items():
            np.testing.assert_array_equal(tensor.numpy(), second.get_parameters()[name].numpy())

    def test_export(self):
        path = os.path.join(folder, "export.onnx")
        session, feeds = training_session(), batch()
        session.train_step(feeds)
        session.optimizer_step()
        session.export(path)
        expected = session.eval_step({"x": feeds["x"]})["logits"].numpy()
        outputs = Ortrain.InferenceSession(Ortrain.Model(path)).run({"x": feeds["x"]})
        np.testing.assert_allclose(outputs["logits"].numpy(), expected, rtol=1e-6, atol=1e-6)

    def test_state(self):
        session = training_session(optimizer=Ortrain.Adam(learning_rate=0.1))
        session.train_step(batch())
        session.optimizer_step()
        other = training_session(optimizer=Ortrain.Adam(learning_rate=0.1))
        other.set_state(session.get_state())
        self.assertEqual(other.train_step(batch()), session.train_step(batch()))


if __name__ == "__main__":
    main()
