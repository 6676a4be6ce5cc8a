# SPDX-License-Identifier: LGPL-2.1-or-later
"""The trainer: epochs, signals, validation, checkpoints; with classes written in Python."""
import asyncio
import math
import os
import threading
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, batch, dataset, folder, linear_model, main, training_session


class Trainers(unittest.TestCase):
    def make(self, **properties):
        return Ortrain.Trainer(training_session(optimizer=Ortrain.Adam(learning_rate=0.05)), dataset(), epochs=3, batch_size=16,
                               **properties)

    def test_stop(self):
        """A handler ends training; with patience, the best parameters are those that remain."""
        trainer = self.make(patience=5)
        self.assertTrue(trainer.get_restore_best())
        trainer.set_restore_best(False)
        self.assertFalse(trainer.restore_best)
        trainer.restore_best = True
        trainer.connect("epoch-ended", lambda trainer, record: trainer.stop())
        history = trainer.fit()
        self.assertTrue(history.stopped_early)
        self.assertEqual(history.n_epochs, 1)

    def test_fit(self):
        trainer, seen, epochs = self.make(validation=dataset(32)), [], []
        self.assertEqual(trainer.get_dataset().get_length(), 64)

        def on_progress(trainer, progress):
            self.assertIsInstance(progress, Ortrain.Progress)
            seen.append((progress.fraction, progress.step, progress.n_steps, progress.loss, threading.current_thread()))

        trainer.connect("progress", on_progress)
        trainer.connect("epoch-ended", lambda trainer, record: epochs.append((record, threading.current_thread())))
        history = trainer.fit()
        self.assertIsInstance(history, Ortrain.TrainingHistory)
        self.assertEqual((history.n_epochs, history.n_steps, history.stopped_early), (3, 12, False))
        self.assertEqual(seen[-1][:3], (1.0, 4, 4))
        self.assertEqual({s[4] for s in seen}, {threading.main_thread()})
        self.assertEqual({e[1] for e in epochs}, {threading.main_thread()})
        self.assertEqual([e[0].epoch for e in epochs], [r.epoch for r in history.epochs])
        record = history.epochs[2]
        self.assertIsInstance(record, Ortrain.EpochRecord)
        self.assertLess(record.loss, history.epochs[0].loss)
        self.assertTrue(math.isfinite(record.validation_loss))
        self.assertEqual(record.loss, history.last_loss)
        self.assertEqual(len(np.frombuffer(history.get_losses().get_data(), np.float64)), 12)
        self.assertTrue(str(history))
        ok, loss, accuracy = trainer.evaluate(dataset(), None)
        self.assertTrue(ok and accuracy > 0.5 and loss < 1.1)

    def test_async(self):
        trainer, threads = self.make(), set()
        trainer.connect("progress", lambda trainer, progress: threads.add(threading.current_thread()))
        trainer.get_session().connect("post-forward", lambda session, report: threads.add(threading.current_thread()))
        history = asyncio.run(trainer.fit_async())
        self.assertEqual(history.n_epochs, 3)
        self.assertEqual(threads, {threading.main_thread()})

    def test_cancel(self):
        trainer = self.make()
        trainer.epochs = 100000

        async def go():
            task = asyncio.create_task(trainer.fit_async())
            trainer.connect("progress", lambda *args: task.cancel())
            try:
                await task
            except asyncio.CancelledError:
                return "cancelled"

        self.assertEqual(asyncio.run(go()), "cancelled")
        self.assertGreater(trainer.get_session().step, 0)
        trainer.get_session().train_step(batch())      # the session is usable

    def test_python_dataset(self):
        class Data(Ortrain.Dataset):
            def do_get_length(self):
                return 8

            def do_get_item(self, index):
                threads.add(threading.current_thread())
                return Ortrain.TensorDict({"x": np.full(4, index, np.float32), "labels": np.int64(index % 3)})

        threads = set()
        trainer = Ortrain.Trainer(training_session(), Data(), epochs=2, batch_size=4, shuffle=False)
        self.assertEqual(trainer.fit().n_steps, 4)
        self.assertEqual(asyncio.run(trainer.fit_async()).n_steps, 4)
        self.assertEqual(threads, {threading.main_thread()})

    def test_python_loss_and_optimizer(self):
        class Mean(Ortrain.Loss):
            def do_build(self, graph, output):
                threads.add(threading.current_thread())
                graph.add_node("ReduceMean", None, "mean", [output.name], ["the_mean"]).set_attribute(
                    "keepdims", GLib.Variant("x", 0))
                graph.infer()
                return True, graph.find_value("the_mean")

        class Signs(Ortrain.Optimizer):
            def do_update(self, name, parameter, gradient, state, step, learning_rate, weight_decay, gradient_scale):
                threads.add(threading.current_thread())
                parameter.numpy()[...] -= learning_rate * np.sign(gradient.numpy())
                return True

        threads = set()
        options = Ortrain.TrainingOptions(optimizer=Signs(learning_rate=0.5))
        options.add_loss(Mean(output="logits"))
        x = batch()["x"]

        async def go():
            session = await Ortrain.TrainingSession.new_async(linear_model(), options)
            before = session.get_parameters().numpy()
            await session.train_step_async({"x": x})
            await session.optimizer_step_async()
            return before, session.get_parameters().numpy()

        before, after = asyncio.run(go())
        np.testing.assert_allclose(before["fc.weight"] - after["fc.weight"], 0.5 * np.sign([x.mean(axis=0)] * 3), rtol=1e-5)
        self.assertEqual(threads, {threading.main_thread()})

    def test_checkpoints(self):
        path = os.path.join(folder, "trainer-checkpoint")
        saved = []
        trainer = self.make(checkpoint_dir=path)
        trainer.connect("checkpoint-saved", lambda trainer, path: saved.append(path))
        trainer.fit()
        self.assertTrue(saved)
        self.assertTrue(Ortrain.Checkpoint.exists(path))


if __name__ == "__main__":
    main()
