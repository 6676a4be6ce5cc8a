# SPDX-License-Identifier: LGPL-2.1-or-later
"""What makes Ortrain feel at home in Python: NumPy arrays and mappings in and out, call-syntax constructors, str().

Everything here can also be done without it. Arrays cross without copies: a tensor that NumPy sees keeps its storage
alive, and an array that a tensor sees is kept alive by the tensor.
"""
import asyncio
import collections.abc
import ctypes
import functools
import traceback

from gi.module import get_introspection_module
from gi.overrides import override
from gi.repository import Gio, GLib, GObject

Ortrain = get_introspection_module("Ortrain")
__all__ = []

_TYPESTR = {
    Ortrain.DType.FLOAT32: "<f4", Ortrain.DType.FLOAT64: "<f8", Ortrain.DType.FLOAT16: "<f2",
    Ortrain.DType.INT8: "|i1", Ortrain.DType.INT16: "<i2", Ortrain.DType.INT32: "<i4", Ortrain.DType.INT64: "<i8",
    Ortrain.DType.UINT8: "|u1", Ortrain.DType.UINT16: "<u2", Ortrain.DType.UINT32: "<u4", Ortrain.DType.UINT64: "<u8",
    Ortrain.DType.BOOL: "|b1", Ortrain.DType.BFLOAT16: "<u2",  # NumPy has no bfloat16: its bits
    Ortrain.DType.COMPLEX64: "<c8", Ortrain.DType.COMPLEX128: "<c16",
}
_DTYPE = {typestr: dtype for dtype, typestr in _TYPESTR.items() if dtype != Ortrain.DType.BFLOAT16}


def _export(cls):
    cls = override(cls)
    __all__.append(cls.__name__)
    return cls


class _Holder:
    """What NumPy keeps as the base of an array: the storage, not the tensor, so that releasing a tensor is seen."""

    def __init__(self, tensor, typestr):
        self.storage = tensor.get_storage()
        self.__array_interface__ = {
            "version": 3, "shape": tensor.shape, "typestr": typestr,
            "data": (tensor.get_address(), not tensor.get_writable()),
        }


def _python_api(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_new = _python_api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_is_valid = _python_api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_capsule_get = _python_api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_capsule_rename = _python_api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# For the destructor, the capsule is a bare address: its reference count is 0 by then.
_raw_is_valid = _python_api("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_raw_get = _python_api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_DLTENSOR, _USED_DLTENSOR = b"dltensor", b"used_dltensor"  # capsules keep the addresses of these names


_DEVICE_CUDA = 2   # DLPack's kDLCUDA


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("dtype", ctypes.c_uint8 * 4), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensor(ctypes.Structure):
    pass


_DLDeleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [("dl_tensor", _DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", _DLDeleter)]


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _capsule_destructor(capsule):
    if _raw_is_valid(capsule, _DLTENSOR):
        managed = ctypes.cast(_raw_get(capsule, _DLTENSOR), ctypes.POINTER(_DLManagedTensor))
        if managed.contents.deleter:
            managed.contents.deleter(managed)


def _tensor(value):
    """A tensor for anything that NumPy makes an array of."""
    return value if isinstance(value, Ortrain.Tensor) else Tensor.from_numpy(value)


def _dict(values):
    """A TensorDict for a mapping of names to anything that NumPy makes an array of."""
    if values is None or isinstance(values, Ortrain.TensorDict):
        return values
    if not isinstance(values, collections.abc.Mapping):
        raise TypeError(f"a mapping of names to arrays is needed, not {type(values).__name__}")
    result = Ortrain.TensorDict.new()
    for name, value in values.items():
        result.set(name, _tensor(value))
    return result


def _swallow(self, *args, **kwargs):
    pass  # the object came whole from the library


def _constructor(cls, new, doc):
    """Routes the call syntax to the function that makes whole objects. Keyword arguments become properties afterwards."""

    def __new__(subtype, *args, **kwargs):
        self = new(*args)
        for name, value in kwargs.items():
            setattr(self.props, name, value)
        return self

    __new__.__doc__ = doc
    cls.__new__, cls.__init__ = __new__, _swallow
    return cls


@_export
class Tensor(Ortrain.Tensor):
    __init__ = _swallow

    def __new__(cls, value):
        return Tensor.from_numpy(value)

    @staticmethod
    def from_numpy(array):
        """A tensor over the memory of a NumPy array, which it keeps alive; copied only if it is not contiguous."""
        import numpy as np

        array = np.asarray(array)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        contiguous = np.ascontiguousarray(array).reshape(array.shape)
        dtype = _DTYPE.get(contiguous.dtype.str)
        if dtype is None:
            raise TypeError(f"there is no tensor type for NumPy's {array.dtype}")
        if contiguous.size == 0:
            return Ortrain.Tensor.new(dtype, list(contiguous.shape))
        return Ortrain.Tensor.new_for_address(dtype, list(contiguous.shape), contiguous.ctypes.data,
                                              bool(contiguous.flags.writeable), contiguous)

    @staticmethod
    def from_dlpack(source):
        """A tensor over the memory of any object that speaks DLPack."""
        capsule = source.__dlpack__() if hasattr(source, "__dlpack__") else source
        if not _capsule_is_valid(capsule, _DLTENSOR):
            raise ValueError("the DLPack capsule was used already")
        tensor = Ortrain.Tensor.new_from_dlpack(_capsule_get(capsule, _DLTENSOR))
        _capsule_rename(capsule, _USED_DLTENSOR)
        return tensor

    @property
    def shape(self):
        return tuple(self.get_dims())

    @property
    def device(self):
        """Whose memory the tensor lies in: "cpu", or the name of another device; None once released."""
        return self.get_device()

    def numpy(self):
        """A NumPy array over the tensor's memory; bfloat16 as its bits in uint16."""
        import numpy as np

        dtype = self.get_dtype()
        typestr = _TYPESTR.get(dtype)
        if typestr is None:
            raise TypeError(f"NumPy has no type for {dtype.value_nick}")
        if self.get_n_elements() == 0:
            return np.empty(self.shape, typestr)
        if self.get_device() is None:
            raise ValueError("the tensor was released")
        if self.get_address() == 0:
            raise TypeError(f"the tensor is in the memory of the device '{self.device}': copy it to the host (to_host)")
        return np.asarray(_Holder(self, typestr))

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{array.dtype} becomes {dtype} by copying only")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"the tensor is on device {self.__dlpack_device__()}, not on device {dl_device}")
        if copy:
            return self.copy().__dlpack__()
        return _capsule_new(self.to_dlpack(), _DLTENSOR, ctypes.cast(_capsule_destructor, ctypes.c_void_p))

    @property
    def __cuda_array_interface__(self):
        """The elements on a GPU, as CuPy, Numba and PyTorch take them; whoever reads them keeps the tensor."""
        typestr = _TYPESTR.get(self.get_dtype())
        if typestr is None or self.get_dtype() == Ortrain.DType.BFLOAT16:
            raise AttributeError(f"the CUDA array interface has no type for {self.get_dtype().value_nick}")
        if self.get_dlpack_device()[1] != _DEVICE_CUDA:
            raise AttributeError(f"the tensor is not on a GPU, but on the device {self.device!r}")
        managed = ctypes.cast(self.to_dlpack(), ctypes.POINTER(_DLManagedTensor))
        address = managed.contents.dl_tensor.data
        managed.contents.deleter(managed)
        return {"version": 3, "shape": self.shape, "typestr": typestr, "data": (address or 0, False), "strides": None,
                "stream": None}

    def __dlpack_device__(self):
        known, kind, number = self.get_dlpack_device()
        if not known:
            raise BufferError(f"DLPack has no name for the device {self.device!r}")
        return (kind, number)

    def __len__(self):
        if self.get_rank() == 0:
            raise TypeError("a tensor of rank 0 has no length")
        return self.get_dim(0)

    def __bool__(self):
        if self.get_n_elements() != 1:
            raise ValueError("the truth of a tensor with more or less than one element is not defined")
        return self.get_scalar(0) != 0

    def __float__(self):
        if self.get_n_elements() != 1:
            raise TypeError("only a tensor of one element becomes a number")
        return self.get_scalar(0)

    def __int__(self):
        return int(float(self))

    def __getitem__(self, key):
        return self.numpy()[key]

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.release()

    def __repr__(self):
        return self.to_string()


@_export
class TensorDict(Ortrain.TensorDict):
    __init__ = _swallow

    def __new__(cls, values=None):
        return _dict(values if values is not None else {})

    def __getitem__(self, key):
        if isinstance(key, int):
            if not -len(self) <= key < len(self):
                raise IndexError(key)
            return self.get_tensor(key % len(self))
        tensor = self.get(key)
        if tensor is None:
            raise KeyError(key)
        return tensor

    def __setitem__(self, name, value):
        self.set(name, _tensor(value))

    def __delitem__(self, name):
        if not self.remove(name):
            raise KeyError(name)

    def __contains__(self, name):
        return isinstance(name, str) and self.contains(name)

    def __len__(self):
        return self.get_size()

    def __bool__(self):
        return len(self) > 0

    def __iter__(self):
        return iter(self.get_names())

    def keys(self):
        return self.get_names()

    def values(self):
        return [self.get_tensor(i) for i in range(len(self))]

    def items(self):
        return list(zip(self.get_names(), self.values()))

    def numpy(self):
        """All of it as a dict of NumPy arrays."""
        return {name: tensor.numpy() for name, tensor in self.items()}

    def __enter__(self):
        return self

    def __exit__(self, *args):
        for tensor in self.values():
            tensor.release()

    def __repr__(self):
        return self.to_string()


collections.abc.Mapping.register(TensorDict)


async def _await(start, finish, given=None):
    """Awaits an asynchronous pair whatever loop asyncio runs on: the main context is turned while waiting."""
    done = []
    cancellable = given or Gio.Cancellable()
    context = GLib.MainContext.ref_thread_default()
    start(cancellable, lambda source, result: done.append(result))
    try:
        await asyncio.sleep(0)
        while not done:
            while context.iteration(False):
                pass
            if not done:
                await asyncio.sleep(0.001)
    except asyncio.CancelledError:
        cancellable.cancel()
        while not done:
            context.iteration(True)
        raise
    return finish(done[0])


def _asynchronous(cls, name):
    """name_async without a callback gives an awaitable; with one it is what the library has."""
    original, finish = getattr(cls, name + "_async"), getattr(cls, name + "_finish")
    n_before = [argument.get_name() for argument in original.get_arguments()].index("cancellable")
    method = original.is_method()

    def call(*args):
        own, rest = args[:method], [_dict(arg) if isinstance(arg, collections.abc.Mapping) else arg for arg in args[method:]]
        if any(callable(arg) for arg in rest):
            return original(*own, *rest)
        given = rest[n_before] if len(rest) > n_before else None
        return _await(lambda cancellable, callback: original(*own, *rest[:n_before], cancellable, callback),
                      lambda result: finish(*own, result), given)

    call.__name__, call.__doc__ = name + "_async", original.__doc__
    setattr(cls, name + "_async", call if method else staticmethod(call))


def _feeding(cls, *names):
    """Methods whose first argument is a TensorDict take any mapping of arrays."""
    for name in names:
        def call(self, feeds, *args, _original=getattr(cls, name)):
            return _original(self, _dict(feeds), *args)

        setattr(cls, name, call)


def _telling(method):
    """A method that the library calls: what it raises becomes the error of the call, with its words and its place."""

    @functools.wraps(method)
    def call(*args):
        try:
            return method(*args)
        except GLib.Error:
            raise
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
            raise GLib.Error.new_literal(Ortrain.session_error_quark(), message, Ortrain.SessionError.STATE) from error

    return call


def _derivable(cls, *methods):
    """Classes of the user: an exception in one of these methods reaches the caller of the library."""

    def __init_subclass__(subclass, **kwargs):
        super(cls, subclass).__init_subclass__(**kwargs)
        for name in methods:
            if name in subclass.__dict__:
                setattr(subclass, name, _telling(subclass.__dict__[name]))

    cls.__init_subclass__ = classmethod(__init_subclass__)


@_export
class LrSchedule(Ortrain.LrSchedule):
    pass


@_export
class Loss(Ortrain.Loss):
    pass


@_export
class Optimizer(Ortrain.Optimizer):
    pass


@_export
class Dataset(Ortrain.Dataset):
    pass


_derivable(LrSchedule, "do_evaluate")
_derivable(Loss, "do_build")
_derivable(Optimizer, "do_update")
_derivable(Dataset, "do_get_item", "do_get_batch", "do_fill_batch")


class _Context:
    """with session: … gives its memory back at the end of the block."""

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.run_dispose()


@_export
class Model(Ortrain.Model):
    def __str__(self):
        return self.to_string()


_constructor(Model, lambda path: Ortrain.Model.new_from_file(str(path)), "Model (path): an ONNX file.")


@_export
class TrainingOptions(Ortrain.TrainingOptions):
    def __init__(self, losses=(), **kwargs):
        Ortrain.TrainingOptions.__init__(self, **kwargs)
        for loss in losses:
            self.add_loss(loss)


@_export
class TrainingSession(_Context, Ortrain.TrainingSession):
    pass


_constructor(TrainingSession, lambda model, options: Ortrain.TrainingSession.new(model, options),
             "TrainingSession (model, options)")
_feeding(TrainingSession, "train_step", "train_and_update", "eval_step", "plan", "plan_batch", "max_batch", "set_parameters", "set_state")


@_export
class InferenceSession(_Context, Ortrain.InferenceSession):
    pass


_constructor(InferenceSession, lambda model, options=None: Ortrain.InferenceSession.new(model, options),
             "InferenceSession (model[, options])")
_feeding(InferenceSession, "run")


@_export
class IoBinding(Ortrain.IoBinding):
    """Inputs and outputs in place: tensors, or NumPy arrays, whose own memory is read and written."""

    def bind_input(self, name, value):
        Ortrain.IoBinding.bind_input(self, name, _tensor(value))

    def bind_output(self, name, value=None):
        import numpy as np

        if isinstance(value, np.ndarray) and not (value.flags.c_contiguous and value.flags.writeable and value.dtype.isnative):
            raise ValueError(f"the output '{name}' cannot be written into this array: it is not contiguous, or read-only")
        Ortrain.IoBinding.bind_output(self, name, value if value is None else _tensor(value))


@_export
class TensorDataset(Ortrain.TensorDataset):
    pass


def _new_dataset(source):
    if isinstance(source, str) or hasattr(source, "__fspath__"):
        return Ortrain.TensorDataset.new_from_npz(str(source))
    return Ortrain.TensorDataset.new(_dict(source))


_constructor(TensorDataset, _new_dataset, "TensorDataset (mapping of arrays, or path of an .npz file)")


@_export
class DataLoader(Ortrain.DataLoader):
    def __iter__(self):
        while (batch := self.next()) is not None:
            yield batch


_constructor(DataLoader, lambda dataset, batch_size=32: Ortrain.DataLoader.new(dataset, batch_size),
             "DataLoader (dataset, batch_size)")


@_export
class Trainer(Ortrain.Trainer):
    pass


_constructor(Trainer, lambda session, dataset: Ortrain.Trainer.new(session, dataset), "Trainer (session, dataset)")


def _attribute(name):
    return property(lambda self: self.get_property(name), lambda self, value: self.set_property(name, value))


def _finish_class(cls):
    """Properties become attributes (methods of the same name stay what they are), and str() is to_string ()."""
    if issubclass(cls, GObject.Object):
        for pspec in GObject.list_properties(cls):
            name = pspec.name.replace("-", "_")
            if not hasattr(cls, name):
                setattr(cls, name, _attribute(pspec.name))
        for name in dir(cls):
            if name.endswith("_async") and hasattr(getattr(cls, name), "get_arguments"):
                _asynchronous(cls, name.removesuffix("_async"))
    if hasattr(cls, "to_string") and "__repr__" not in vars(cls):
        cls.__str__ = lambda self: self.to_string()


for _name in dir(Ortrain):
    _cls = getattr(Ortrain, _name, None)
    if isinstance(_cls, type) and issubclass(_cls, (GObject.Object, GObject.GBoxed)):
        _finish_class(_cls)
