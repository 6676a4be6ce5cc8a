# SPDX-License-Identifier: LGPL-2.1-or-later
import asyncio
import threading
import unittest

import numpy as np
from gi.repository import Gio, GLib
from ortrain_tap import Ortrain, batch, linear_model, main, parameters_of


class Inference(unittest.TestCase):
    def setUp(self):
        self.model = linear_model()
        self.x = batch()["x"]
        w = parameters_of(self.model.get_graph())
        self.expected = self.x @ w["fc.weight"].T + w["fc.bias"]

    def check(self, outputs):
        np.testing.assert_allclose(outputs["logits"].numpy(), self.expected, rtol=1e-5, atol=1e-6)

    def test_devices(self):
        devices = Ortrain.Device.list()
        self.assertIsInstance(devices[0], Ortrain.Device)
        self.assertEqual(devices[0].get_counters().unpack(), {})        # the CPU has no libraries that could refuse
        self.assertEqual((devices[0].get_name(), devices[0].get_reason()), ("cpu", None))
        self.assertGreater(devices[0].get_total_memory(), devices[0].get_available_memory())
        self.check(Ortrain.InferenceSession(self.model, Ortrain.SessionOptions(provider="cpu")).run({"x": self.x}))
        self.assertEqual((devices[0].get_index(), devices[0].props.index), (0, 0))
        options = Ortrain.SessionOptions(provider="cpu", device_index=1)
        self.assertEqual(options.get_device_index(), 1)
        with self.assertRaisesRegex(GLib.Error, "'cpu' has no device with the number 1: it has 1 device, number 0; choose another 'device-index'"):
            Ortrain.InferenceSession(self.model, options)
        options.set_device_index(0)
        self.check(Ortrain.InferenceSession(self.model, options).run({"x": self.x}))
        with self.assertRaisesRegex(GLib.Error, "There is no provider 'gpu'; there is 'cpu'"):
            Ortrain.InferenceSession(self.model, Ortrain.SessionOptions(provider="gpu"))

    def test_run(self):
        session = Ortrain.InferenceSession(self.model)
        self.assertEqual((session.get_input_names(), session.get_output_names()), (["x"], ["logits"]))
        self.assertEqual(session.model, self.model)
        self.check(session.run({"x": self.x}))
        self.assertIsInstance(session.memory_plan, Ortrain.MemoryPlan)
        self.check(Ortrain.InferenceSession(self.model, Ortrain.SessionOptions(threads=1, optimize=False)).run({"x": self.x}))

    def test_plain_iterables(self):
        self.check(Ortrain.InferenceSession(self.model).run({"x": Ortrain.Tensor(self.x)}))
        self.check(Ortrain.InferenceSession(self.model).run(Ortrain.TensorDict({"x": self.x})))

    def test_async(self):
        session = Ortrain.InferenceSession(self.model)

        async def go():
            return await session.run_async({"x": self.x})

        self.check(asyncio.run(go()))

    def test_async_callback(self):
        session, loop, seen = Ortrain.InferenceSession(self.model), GLib.MainLoop(), []

        def done(session, result):
            seen.append((session.run_finish(result), threading.current_thread()))
            loop.quit()

        session.run_async({"x": self.x}, None, done)
        loop.run()
        self.check(seen[0][0])
        self.assertIs(seen[0][1], threading.main_thread())

    def test_cancelled(self):
        session, cancellable = Ortrain.InferenceSession(self.model), Gio.Cancellable()
        cancellable.cancel()

        async def go():
            await session.run_async({"x": self.x}, cancellable)

        with self.assertRaises(GLib.Error) as caught:
            asyncio.run(go())
        self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))
        self.check(session.run({"x": self.x}))

    def test_errors(self):
        session = Ortrain.InferenceSession(self.model)
        for feeds in ({}, {"x": self.x[:, :2]}, {"x": self.x.astype(np.complex64)}, {"x": self.x, "y": self.x}):
            with self.assertRaises(GLib.Error) as caught:
                session.run(feeds)
            self.assertTrue(caught.exception.matches(Ortrain.session_error_quark(), Ortrain.SessionError.FEED))
        self.check(session.run({"x": self.x}))
        self.check(session.run({"x": self.x.astype(np.float64)}))      # what NumPy makes unless told otherwise

    def test_context_manager(self):
        with Ortrain.InferenceSession(self.model) as session:
            self.check(session.run({"x": self.x}))

    def test_binding(self):
        session = Ortrain.InferenceSession(self.model)
        binding = session.bind()
        self.assertIsInstance(binding, Ortrain.IoBinding)
        out = np.zeros((8, 3), np.float32)
        binding.bind_input("x", Ortrain.Tensor(self.x))
        binding.bind_output("logits", Ortrain.Tensor(out))
        session.run_with_binding(binding)
        np.testing.assert_allclose(out, self.expected, rtol=1e-5, atol=1e-6)     # NumPy's own memory was written to
        self.assertEqual(binding.get_outputs()["logits"].get_address(), out.ctypes.data)
        self.assertEqual(binding.get_inputs()["x"].get_address(), self.x.ctypes.data)
        copy = binding.copy_output("logits")
        self.assertNotEqual(copy.get_address(), out.ctypes.data)
        out[:] = 0
        binding.bind_input("x", self.x)                 # arrays as they are
        binding.bind_output("logits", out)
        session.run_with_binding(binding)
        np.testing.assert_allclose(out, self.expected, rtol=1e-5, atol=1e-6)
        self.assertEqual(binding.get_inputs()["x"].get_address(), self.x.ctypes.data)
        for bad in (np.zeros((3, 8), np.float32).T, np.broadcast_to(np.float32(0), (8, 3))):
            with self.assertRaises(ValueError):         # the results would be written to a copy
                binding.bind_output("logits", bad)
        binding.bind_output("logits")                   # the library's memory
        session.run_with_binding(binding)
        self.check(binding.get_outputs())
        binding.clear_outputs()
        binding.clear_inputs()
        with self.assertRaises(GLib.Error):
            session.run_with_binding(binding)


if __name__ == "__main__":
    main()
