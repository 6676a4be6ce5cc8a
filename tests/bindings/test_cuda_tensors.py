# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tensors in the memory of a GPU, given to and taken from other libraries."""
import os
import unittest

from ortrain_tap import Ortrain, main, np

CUDA = (2, 0)   # kDLCUDA, the first


class Producer:
    """What CuPy's and PyTorch's tensors look like to who takes them."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.streams = []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.tensor.__dlpack__(stream=stream)


class CudaTensors(unittest.TestCase):
    def setUp(self):
        self.values = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.tensor = Ortrain.Tensor(self.values).to_device("cuda")

    def test_dlpack(self):
        self.assertEqual(self.tensor.__dlpack_device__(), CUDA)
        producer = Producer(self.tensor)
        taken = Ortrain.Tensor.from_dlpack(producer)
        self.assertEqual(producer.streams, [1])     # it orders its work before the legacy default stream
        self.assertEqual((taken.device, taken.shape), ("cuda", (2, 3)))
        self.assertEqual(taken.to_host().numpy().tolist(), self.values.tolist())
        # the same memory, which outlives the one that gave it
        self.assertEqual(taken.__cuda_array_interface__["data"], self.tensor.__cuda_array_interface__["data"])
        self.tensor = None
        self.assertEqual(taken.to_host().numpy().tolist(), self.values.tolist())

    def test_dlpack_of_the_host(self):
        producer = Producer(Ortrain.Tensor(self.values))
        self.assertEqual(Ortrain.Tensor.from_dlpack(producer).numpy().tolist(), self.values.tolist())
        self.assertEqual(producer.streams, [None])

    @unittest.skipUnless("ORTRAIN_FAKE_CUDA_DEVICES" in os.environ, "there may be one GPU only")
    def test_second_device(self):
        second = self.tensor.to_device("cuda:1")
        self.assertEqual((second.device, second.__dlpack_device__()), ("cuda:1", (2, 1)))
        producer = Producer(second)
        taken = Ortrain.Tensor.from_dlpack(producer)
        self.assertEqual((taken.device, producer.streams), ("cuda:1", [1]))
        self.assertEqual(taken.to_host().numpy().tolist(), self.values.tolist())
        with self.assertRaisesRegex(BufferError, "is on device"):
            second.__dlpack__(dl_device=CUDA)
        options = Ortrain.TrainingOptions(provider="cuda", device_index=1)
        self.assertEqual(options.get_device_index(), 1)
        options.set_device_index(0)
        self.assertEqual(options.props.device_index, 0)
        names = [device.props.name for device in Ortrain.Device.list()]
        self.assertEqual(names, ["cpu", "cuda", "cuda:1"])

    def test_synchronize(self):
        self.assertTrue(self.tensor.synchronize())
        self.assertTrue(Ortrain.Tensor(self.values).synchronize())
        self.tensor.release()
        with self.assertRaisesRegex(Ortrain.TensorError, "released"):
            self.tensor.synchronize()

    def test_dlpack_other_device(self):
        with self.assertRaisesRegex(BufferError, "is on device"):
            self.tensor.__dlpack__(dl_device=(1, 0))

    def test_cuda_array_interface(self):
        interface = self.tensor.__cuda_array_interface__
        self.assertEqual((interface["version"], interface["shape"], interface["typestr"]), (3, (2, 3), "<f4"))
        self.assertEqual((interface["strides"], interface["stream"]), (None, None))
        address, is_read_only = interface["data"]
        self.assertGreater(address, 0)
        self.assertFalse(is_read_only)

    def test_not_on_a_gpu(self):
        """Libraries ask whether it is there."""
        self.assertFalse(hasattr(Ortrain.Tensor(self.values), "__cuda_array_interface__"))
        half = Ortrain.Tensor.new(Ortrain.DType.BFLOAT16, [4]).to_device("cuda")
        self.assertFalse(hasattr(half, "__cuda_array_interface__"))
        self.assertEqual(half.__dlpack_device__(), CUDA)

    def test_host_does_not_read(self):
        with self.assertRaisesRegex(TypeError, "to_host"):
            self.tensor.numpy()


main()
