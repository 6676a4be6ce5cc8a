# SPDX-License-Identifier: LGPL-2.1-or-later
import collections.abc
import gc
import os
import unittest
import weakref

import numpy as np
from gi.repository import Gio, GLib
from ortrain_tap import Ortrain, folder, main

NUMPY_TYPES = {
    "float32": np.float32, "float64": np.float64, "float16": np.float16, "int8": np.int8, "int16": np.int16,
    "int32": np.int32, "int64": np.int64, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
    "uint64": np.uint64, "bool": np.bool_, "complex64": np.complex64, "complex128": np.complex128,
}


class Owner(np.ndarray):
    pass


class Arrays(unittest.TestCase):
    def test_types(self):
        for name, type_ in NUMPY_TYPES.items():
            array = np.array([[0, 1, 1], [1, 0, 1]], type_)
            tensor = Ortrain.Tensor(array)
            self.assertEqual(tensor.dtype.value_nick, name)
            self.assertEqual(Ortrain.DType.get_name(tensor.dtype) if hasattr(Ortrain.DType, "get_name") else name, name)
            self.assertEqual(tensor.shape, (2, 3))
            self.assertEqual(tensor.n_bytes, array.nbytes)
            self.assertEqual(tensor.numpy().dtype, array.dtype)
            np.testing.assert_array_equal(tensor.numpy(), array)

    def test_device(self):
        tensor = Ortrain.Tensor(np.arange(3, dtype=np.float32))
        self.assertEqual(tensor.props.device, "cpu")
        for same in (tensor.to_device("cpu"), tensor.to_host()):
            self.assertEqual(same.numpy().tolist(), [0, 1, 2])
        with self.assertRaises(GLib.Error):
            tensor.to_device("nowhere")

    def test_same_address_both_ways(self):
        array = np.arange(12, dtype=np.float32).reshape(3, 4)
        tensor = Ortrain.Tensor(array)
        self.assertEqual(tensor.get_address(), array.ctypes.data)
        back = tensor.numpy()
        self.assertEqual(back.ctypes.data, array.ctypes.data)
        back[1, 2] = -5
        self.assertEqual(array[1, 2], -5)
        self.assertEqual(tensor.get_scalar(6), -5)
        self.assertEqual(np.asarray(tensor).ctypes.data, array.ctypes.data)
        self.assertEqual(np.array(tensor, dtype=np.float64).dtype, np.float64)

    def test_lifetimes(self):
        array = Owner(1000)
        array[:] = np.arange(1000)
        alive = weakref.ref(array)
        tensor = Ortrain.Tensor.from_numpy(array.view(np.ndarray))
        del array
        gc.collect()
        self.assertIsNotNone(alive())            # the tensor holds the memory
        view = tensor.numpy()
        del tensor
        gc.collect()
        self.assertEqual(view.sum(), 999 * 500)  # the view holds it too
        del view
        gc.collect()
        self.assertIsNone(alive())

    def test_library_memory_outlives_tensor(self):
        view = Ortrain.Tensor.new(Ortrain.DType.FLOAT32, [1000]).numpy()
        gc.collect()
        self.assertEqual(view.ctypes.data % 64, 0)
        self.assertEqual(float(view.sum()), 0)

    def test_not_contiguous(self):
        array = np.arange(12, dtype=np.int64).reshape(3, 4).T
        tensor = Ortrain.Tensor(array)
        self.assertNotEqual(tensor.get_address(), array.ctypes.data)
        np.testing.assert_array_equal(tensor.numpy(), array)

    def test_byte_order(self):
        array = np.arange(5, dtype=">i4")
        np.testing.assert_array_equal(Ortrain.Tensor(array).numpy(), array)

    def test_read_only(self):
        array = np.arange(4.0)
        array.flags.writeable = False
        tensor = Ortrain.Tensor(array)
        self.assertEqual(tensor.get_address(), array.ctypes.data)
        self.assertFalse(tensor.writable)
        self.assertFalse(tensor.numpy().flags.writeable)
        with self.assertRaises(ValueError):
            tensor.numpy()[0] = 1
        with self.assertRaises(GLib.Error):
            tensor.set_bytes(GLib.Bytes.new(bytes(32)))

    def test_ranks(self):
        self.assertEqual(Ortrain.Tensor(np.float32(2.5)).shape, ())
        self.assertEqual(float(Ortrain.Tensor(2.5)), 2.5)
        self.assertEqual(int(Ortrain.Tensor(7)), 7)
        self.assertTrue(Ortrain.Tensor(7))
        self.assertEqual(Ortrain.Tensor(np.empty((0, 3), np.float32)).numpy().shape, (0, 3))
        self.assertEqual(len(Ortrain.Tensor([1, 2, 3])), 3)
        with self.assertRaises(TypeError):
            len(Ortrain.Tensor(1.0))
        with self.assertRaises(ValueError):
            bool(Ortrain.Tensor([1, 2]))
        self.assertEqual(Ortrain.Tensor([[1, 2], [3, 4]])[1, 0], 3)

    def test_bfloat16_as_bits(self):
        tensor = Ortrain.Tensor([1.0, -2.0]).cast(Ortrain.DType.BFLOAT16)
        self.assertEqual(tensor.numpy().dtype, np.uint16)
        self.assertEqual([hex(v) for v in tensor.numpy()], ["0x3f80", "0xc000"])

    def test_refused_types(self):
        with self.assertRaises(TypeError):
            Ortrain.Tensor(np.array(["a"]))
        with self.assertRaises(TypeError):
            Ortrain.Tensor(np.array([object()]))

    def test_release(self):
        tensor = Ortrain.Tensor(np.arange(4.0))
        with tensor as inside:
            self.assertIs(inside, tensor)
        with self.assertRaises(ValueError):
            tensor.numpy()
        with self.assertRaises(GLib.Error) as caught:
            tensor.copy()
        self.assertTrue(caught.exception.matches(Ortrain.tensor_error_quark(), Ortrain.TensorError.RELEASED))

    def test_repr(self):
        self.assertIn("float32", repr(Ortrain.Tensor(np.zeros((2, 3), np.float32))))
        self.assertEqual(f"<Ortrain.Tensor {Ortrain.Tensor([1.0])}>", repr(Ortrain.Tensor([1.0])))


    def test_array_protocol(self):
        """What NumPy 1 and NumPy 2 ask for."""
        tensor = Ortrain.Tensor(np.arange(4, dtype=np.float32))
        self.assertEqual(tensor.__array__().ctypes.data, tensor.get_address())
        self.assertEqual(tensor.__array__(np.float32, copy=False).ctypes.data, tensor.get_address())
        self.assertNotEqual(tensor.__array__(copy=True).ctypes.data, tensor.get_address())
        self.assertEqual(tensor.__array__(np.int64).tolist(), [0, 1, 2, 3])
        with self.assertRaises(ValueError):
            tensor.__array__(np.int64, copy=False)


class DLPack(unittest.TestCase):
    def test_arguments(self):
        tensor = Ortrain.Tensor(np.arange(4, dtype=np.float32))
        same = Ortrain.Tensor.from_dlpack(tensor.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=False))
        self.assertEqual(same.get_address(), tensor.get_address())
        other = Ortrain.Tensor.from_dlpack(tensor.__dlpack__(copy=True))
        self.assertNotEqual(other.get_address(), tensor.get_address())
        self.assertTrue(other.equal(tensor))
        with self.assertRaises(BufferError):
            tensor.__dlpack__(dl_device=(2, 0))

    def test_read_only(self):
        array = np.arange(4.0)
        array.flags.writeable = False
        with self.assertRaises(GLib.Error):             # who takes it might write
            Ortrain.Tensor(array).__dlpack__()
        self.assertEqual(Ortrain.Tensor.from_dlpack(Ortrain.Tensor(array).__dlpack__(copy=True)).numpy().tolist(), [0, 1, 2, 3])

    def test_to_numpy(self):
        tensor = Ortrain.Tensor.new(Ortrain.DType.INT32, [2, 3])
        array = np.from_dlpack(tensor)
        self.assertEqual(array.ctypes.data, tensor.get_address())
        self.assertEqual((array.shape, array.dtype), ((2, 3), np.dtype(np.int32)))
        del tensor
        gc.collect()
        self.assertEqual(int(array.sum()), 0)

    def test_from_numpy(self):
        array = np.arange(6, dtype=np.float64).reshape(2, 3)
        tensor = Ortrain.Tensor.from_dlpack(array)
        self.assertEqual(tensor.get_address(), array.ctypes.data)
        self.assertEqual(tensor.dtype, Ortrain.DType.FLOAT64)
        del array
        gc.collect()
        self.assertEqual(tensor.numpy()[1, 2], 5)

    def test_capsules(self):
        tensor = Ortrain.Tensor([1.0, 2.0])
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        capsule = tensor.__dlpack__()
        other = Ortrain.Tensor.from_dlpack(capsule)
        self.assertTrue(other.equal(tensor))
        with self.assertRaises(ValueError):
            Ortrain.Tensor.from_dlpack(capsule)
        array = Owner(1000)
        alive = weakref.ref(array)
        capsule = Ortrain.Tensor(array.view(np.ndarray)).__dlpack__()
        del array
        gc.collect()
        self.assertIsNotNone(alive())
        del capsule                              # never used: its destructor gives the memory back
        gc.collect()
        self.assertIsNone(alive())


class Tensors(unittest.TestCase):
    def test_operations(self):
        tensor = Ortrain.Tensor(np.array([[1, 5, 2], [9, 0, 3]], np.float32))
        self.assertEqual(tensor.argmax(1).numpy().tolist(), [1, 0])
        self.assertEqual(tensor.reshape([3, 2]).shape, (3, 2))
        self.assertEqual(tensor.slice_rows(1, 2).numpy().tolist(), [[9, 0, 3]])
        self.assertEqual(tensor.cast(Ortrain.DType.INT64).numpy().tolist(), [[1, 5, 2], [9, 0, 3]])
        self.assertTrue(tensor.copy().equal(tensor))
        self.assertNotEqual(tensor.copy().get_address(), tensor.get_address())
        self.assertEqual(Ortrain.Tensor.new_scalar(1.5).get_scalar(0), 1.5)
        self.assertEqual(Ortrain.Tensor.new_floats([2], [1, 2]).numpy().tolist(), [1, 2])
        self.assertEqual(Ortrain.Tensor.new_ints([2], [3, 4]).numpy().tolist(), [3, 4])

    def test_onnx_file(self):
        path = os.path.join(folder, "tensor.pb")
        with open(path, "wb") as file:      # a TensorProto: dims 2, float, raw_data
            file.write(b"\x08\x02\x10\x01\x4a\x08" + np.float32([1.5, -2]).tobytes())
        self.assertEqual(Ortrain.Tensor.new_from_onnx(path).numpy().tolist(), [1.5, -2])
        with open(path, "wb") as file:
            file.write(b"\x08\x03\x10\x01\x4a\x08" + bytes(8))
        with self.assertRaises(GLib.Error):
            Ortrain.Tensor.new_from_onnx(path)

    def test_misaligned(self):
        values = np.arange(5, dtype=np.float64)
        odd = np.frombuffer(b"\0\0\0" + values.tobytes(), np.uint8)[3:].view(np.float64)
        self.assertEqual(Ortrain.Tensor(odd).numpy().tolist(), values.tolist())

    def test_errors(self):
        tensor = Ortrain.Tensor(np.zeros(6, np.float32))
        with self.assertRaises(GLib.Error) as caught:
            tensor.reshape([4, 2])
        self.assertTrue(caught.exception.matches(Ortrain.tensor_error_quark(), Ortrain.TensorError.SHAPE))
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.Tensor.new_for_data(Ortrain.DType.FLOAT32, [2], b"abc")
        self.assertEqual(caught.exception.domain, "ortrain-tensor-error-quark")

    def test_storage(self):
        storage = Ortrain.Storage.new(64)
        self.assertEqual((storage.n_bytes, storage.writable, storage.get_address() % 64), (64, True, 0))
        first = Ortrain.Tensor.new_for_storage(Ortrain.DType.FLOAT32, [8], storage, 0)
        second = Ortrain.Tensor.new_for_storage(Ortrain.DType.FLOAT32, [8], storage, 32)
        self.assertEqual(second.get_address() - first.get_address(), 32)
        first.numpy()[:] = 3
        self.assertEqual(float(second.numpy().sum()), 0)
        self.assertEqual(first.storage, storage)

    def test_storage_for_address(self):
        array = np.arange(8, dtype=np.float32)
        alive = weakref.ref(owner := array.view(Owner))
        storage = Ortrain.Storage.new_for_address(owner.ctypes.data, owner.nbytes, False, owner)
        del array, owner
        gc.collect()
        self.assertIsNotNone(alive())
        self.assertFalse(storage.writable)
        tensor = Ortrain.Tensor.new_for_storage(Ortrain.DType.FLOAT32, [2], storage, 8)
        self.assertEqual(tensor.numpy().tolist(), [2, 3])
        storage.release()
        self.assertEqual(storage.get_address(), 0)
        with self.assertRaises(GLib.Error):
            tensor.copy()
        gc.collect()
        self.assertIsNone(alive())

    def test_bytes(self):
        array = np.arange(4, dtype=np.float32)
        tensor = Ortrain.Tensor.new_for_bytes(Ortrain.DType.FLOAT32, [4], GLib.Bytes.new(array.tobytes()))
        self.assertEqual(tensor.numpy().tolist(), [0, 1, 2, 3])
        self.assertEqual(tensor.get_bytes().get_data(), array.tobytes())

    def test_files(self):
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        path = os.path.join(folder, "a.npy")
        Ortrain.Tensor(array).save_npy(path)
        np.testing.assert_array_equal(np.load(path), array)      # NumPy reads what we write
        np.save(path, array.T)                                   # and we what NumPy writes, also in Fortran's order
        np.testing.assert_array_equal(Ortrain.Tensor.new_from_npy(path).numpy(), array.T)
        raw = os.path.join(folder, "raw")
        array.tofile(raw)
        mapped = Ortrain.Tensor.new_mapped(Ortrain.DType.FLOAT32, [3], Gio.File.new_for_path(raw), 12)
        self.assertEqual(mapped.numpy().tolist(), [3, 4, 5])


class Dicts(unittest.TestCase):
    def make(self):
        return Ortrain.TensorDict({"b": np.arange(3.0), "a": [[1, 2]]})

    def test_mapping(self):
        tensors = self.make()
        self.assertIsInstance(tensors, collections.abc.Mapping)
        self.assertEqual(list(tensors), ["b", "a"])              # the order of insertion
        self.assertEqual(tensors.keys(), ["b", "a"])
        self.assertEqual((len(tensors), tensors.size), (2, 2))
        self.assertIn("a", tensors)
        self.assertNotIn("c", tensors)
        self.assertNotIn(3, tensors)
        self.assertEqual((tensors.contains("a"), tensors.contains("c"), tensors.get("c")), (True, False, None))
        self.assertEqual(tensors["b"].shape, (3,))
        self.assertEqual(tensors[1].shape, (1, 2))
        self.assertEqual([name for name, tensor in tensors.items()], ["b", "a"])
        self.assertEqual(dict(tensors).keys(), {"a", "b"})
        self.assertEqual(tensors.numpy()["a"].tolist(), [[1, 2]])
        with self.assertRaises(KeyError):
            tensors["c"]
        with self.assertRaises(IndexError):
            tensors[2]
        tensors["c"] = np.ones(1)
        del tensors["b"]
        with self.assertRaises(KeyError):
            del tensors["b"]
        self.assertEqual(list(tensors), ["a", "c"])
        self.assertFalse(Ortrain.TensorDict())
        self.assertIn("float64", repr(tensors))

    def test_list_model(self):
        tensors = self.make()
        self.assertIsInstance(tensors, Gio.ListModel)
        self.assertEqual(tensors.get_n_items(), 2)
        self.assertEqual(tensors.get_item_type().name, "OrtrainTensor")
        seen = []
        tensors.connect("items-changed", lambda model, *change: seen.append(change))
        tensors["c"] = 1.0
        self.assertEqual(seen, [(2, 0, 1)])

    def test_files(self):
        path = os.path.join(folder, "d.npz")
        self.make().save_npz(path)
        with np.load(path) as loaded:
            self.assertEqual(loaded["b"].tolist(), [0, 1, 2])
        np.savez_compressed(path, q=np.arange(100, dtype=np.uint8))
        self.assertEqual(Ortrain.TensorDict.new_from_npz(path)["q"].numpy().sum(), 4950)
        path = os.path.join(folder, "d.safetensors")
        self.make().save_safetensors(path)
        self.assertEqual(list(Ortrain.TensorDict.new_from_safetensors(path)), ["b", "a"])

    def test_context(self):
        with self.make() as tensors:
            inside = tensors["b"]
        with self.assertRaises(ValueError):
            inside.numpy()

    def test_wrong_type(self):
        with self.assertRaises(TypeError):
            Ortrain.TensorDict([1, 2])


class Domains(unittest.TestCase):
    def test_quarks(self):
        """Each domain of errors has a name without surprises, and the type that Python gives for it."""
        for name in ("Checkpoint", "Data", "Device", "Graph", "Model", "Plan", "Session", "Tensor"):
            quark = getattr(Ortrain, f"{name}Error").quark()
            self.assertEqual(GLib.quark_to_string(quark), f"ortrain-{name.lower()}-error-quark")
            self.assertEqual(quark, getattr(Ortrain, f"{name.lower()}_error_quark")())

    def test_dtypes(self):
        self.assertEqual((Ortrain.DType.get_size(Ortrain.DType.FLOAT16), Ortrain.DType.get_size(Ortrain.DType.INT64)), (2, 8))
        self.assertTrue(Ortrain.DType.is_floating(Ortrain.DType.BFLOAT16) and not Ortrain.DType.is_floating(Ortrain.DType.BOOL))
        self.assertEqual(Ortrain.DType.get_numpy_string(Ortrain.DType.INT32), "<i4")


class Version(unittest.TestCase):
    def test_version(self):
        numbers = (Ortrain.get_major_version(), Ortrain.get_minor_version(), Ortrain.get_micro_version())
        self.assertEqual(Ortrain.get_version(), ".".join(map(str, numbers)))
        self.assertTrue(Ortrain.check_version(1, 0, 0))
        self.assertFalse(Ortrain.check_version(2, 0, 0))


if __name__ == "__main__":
    main()
