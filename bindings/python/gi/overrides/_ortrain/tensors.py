# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tensors and mappings of them. Arrays cross without copies: a tensor that NumPy sees keeps its storage alive, and an
array that a tensor sees is kept alive by the tensor."""
import collections.abc
import operator

from . import dlpack, pickles, values
from .base import Ortrain, export, swallow

_TYPESTR = {
    Ortrain.DType.FLOAT32: "<f4", Ortrain.DType.FLOAT64: "<f8", Ortrain.DType.FLOAT16: "<f2",
    Ortrain.DType.INT8: "|i1", Ortrain.DType.INT16: "<i2", Ortrain.DType.INT32: "<i4", Ortrain.DType.INT64: "<i8",
    Ortrain.DType.UINT8: "|u1", Ortrain.DType.UINT16: "<u2", Ortrain.DType.UINT32: "<u4", Ortrain.DType.UINT64: "<u8",
    Ortrain.DType.BOOL: "|b1", Ortrain.DType.BFLOAT16: "<u2",  # NumPy has no bfloat16: its bits
    Ortrain.DType.COMPLEX64: "<c8", Ortrain.DType.COMPLEX128: "<c16",
}
_DTYPE = {typestr: dtype for dtype, typestr in _TYPESTR.items() if dtype != Ortrain.DType.BFLOAT16}
_MISSING = object()


class _Holder:
    """What NumPy keeps as the base of an array: the storage, not the tensor, so that releasing a tensor is seen."""

    def __init__(self, tensor, typestr):
        self.storage = tensor.get_storage()
        self.__array_interface__ = {
            "version": 3, "shape": tensor.shape, "typestr": typestr,
            "data": (tensor.get_address(), not tensor.get_writable()),
        }


@values.converts(Ortrain.Tensor)
def as_tensor(value):
    """A tensor for anything that NumPy makes an array of."""
    return value if isinstance(value, Ortrain.Tensor) else Tensor.from_numpy(value)


@values.converts(Ortrain.TensorDict)
def as_dict(arrays):
    """A TensorDict for a mapping of names to anything that NumPy makes an array of."""
    if arrays is None or isinstance(arrays, Ortrain.TensorDict):
        return arrays
    if not isinstance(arrays, collections.abc.Mapping):
        raise TypeError(f"a mapping of names to arrays is needed, not {type(arrays).__name__}")
    result = Ortrain.TensorDict.new()
    for name, value in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"names of tensors are strings, not {type(name).__name__}: {name!r}")
        result.set(name, as_tensor(value))
    return result


@export
class Tensor(Ortrain.Tensor):
    """A tensor: elements of one type, a shape, and the storage that both describe.

    Tensor(value) is a tensor over the memory of a NumPy array, without a copy, or over a copy of anything else that
    NumPy makes an array of. Indexing, comparison and arithmetic give what NumPy gives for tensor.numpy().
    """
    __init__ = swallow

    def __new__(cls, value):
        return Tensor.from_numpy(value)

    @staticmethod
    def from_numpy(array):
        """A tensor over the memory of a NumPy array, which it keeps alive; copied only if it is not contiguous."""
        import numpy as np

        array = np.asarray(array)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        dtype = _DTYPE.get(array.dtype.str)
        if dtype is None:
            why = ": its elements are no numbers, or too large for one" if array.dtype.hasobject else ""
            raise TypeError(f"there is no tensor type for NumPy's {array.dtype}{why}")
        if array.size == 0:
            return Ortrain.Tensor.new(dtype, list(array.shape))
        address, read_only = array.__array_interface__["data"]
        return Ortrain.Tensor.new_for_address(dtype, list(array.shape), address, not read_only, array)

    @staticmethod
    def from_dlpack(source):
        """A tensor over the memory of any object that speaks DLPack, such as one of PyTorch's.

        This waits until the producer has computed its elements on a GPU. If the producer writes to the shared memory
        later, call tensor.synchronize() before the next step reads it.
        """
        if not hasattr(source, "__dlpack__"):
            capsule = source
        elif hasattr(source, "__dlpack_device__") and source.__dlpack_device__()[0] == dlpack.DEVICE_CUDA:
            # without a stream, the producer would order nothing; Tensor.new_from_dlpack waits for this one
            capsule = source.__dlpack__(stream=dlpack.STREAM_LEGACY)
        else:
            capsule = source.__dlpack__()
        return dlpack.from_capsule(capsule, Ortrain.Tensor.new_from_dlpack)

    @property
    def shape(self):
        """The dimensions, as a tuple of int."""
        return tuple(self.get_dims())

    @property
    def ndim(self):
        """How many dimensions there are."""
        return self.get_rank()

    @property
    def size(self):
        """How many elements there are."""
        return self.get_n_elements()

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
        if not self.get_writable():
            self.get_bytes()        # fails where they come from a mapped file that was changed
        return np.asarray(_Holder(self, typestr))

    def _numbers(self):
        """An array to compute with: bfloat16 as float32."""
        tensor = self.cast(Ortrain.DType.FLOAT32) if self.get_dtype() == Ortrain.DType.BFLOAT16 else self
        return tensor.numpy()

    def _number(self):
        """The only element, wherever it is; NaN only if it is one."""
        number = self.get_scalar(0)
        if number != number and self.get_device() is not None:
            self.get_bytes()            # fails where the element cannot be read
        return number

    def item(self):
        """The only element, as a number of Python's own."""
        if self.get_n_elements() != 1:
            raise ValueError(f"only a tensor of one element becomes a number; this one has the shape {list(self.shape)}")
        return self._numbers().item()

    def tolist(self):
        """The elements as nested lists of Python's own numbers; without dimensions, the number."""
        return self._numbers().tolist()

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
        return dlpack.to_capsule(self.copy() if copy else self)

    @property
    def __cuda_array_interface__(self):
        """The elements on a GPU, as CuPy, Numba and PyTorch take them; whoever reads them keeps the tensor."""
        typestr = _TYPESTR.get(self.get_dtype())
        if typestr is None or self.get_dtype() == Ortrain.DType.BFLOAT16:
            raise AttributeError(f"the CUDA array interface has no type for {self.get_dtype().value_nick}")
        if self.get_dlpack_device()[1] != dlpack.DEVICE_CUDA:
            raise AttributeError(f"the tensor is not on a GPU, but on the device {self.device!r}")
        return {"version": 3, "shape": self.shape, "typestr": typestr, "data": (dlpack.device_address(self), False),
                "strides": None, "stream": None}

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
        return self._number() != 0

    def __float__(self):
        if self.get_n_elements() != 1:
            raise TypeError("only a tensor of one element becomes a number")
        return self._number()

    def __int__(self):
        return int(self.item())

    def __index__(self):
        value = self.item()
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"only a tensor of integers is an index, not one of {self.get_dtype().value_nick}")
        return value

    def __getitem__(self, key):
        return self.numpy()[key]

    def __setitem__(self, key, value):
        if self.get_dtype() == Ortrain.DType.BFLOAT16:
            raise TypeError("NumPy has no bfloat16: write its bits, through numpy()")
        self.numpy()[key] = value

    def __iter__(self):
        if self.get_rank() == 0:
            raise TypeError("a tensor of rank 0 has no items")
        return iter(self.numpy())

    def __contains__(self, value):
        return value in self._numbers()

    __hash__ = Ortrain.Tensor.__hash__      # by identity, as dicts need it

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce_ex__(self, protocol):
        return pickles.load_tensor, (self.get_dtype().value_nick, self.shape, self.to_host().get_bytes().get_data())

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.release()

    def __repr__(self):
        return f"<Ortrain.Tensor {self.to_string()}>"

    def __str__(self):
        return self.to_string()


def _with_numpy(function, name, reflected):
    def call(self, other):
        if other is None or isinstance(other, (str, bytes)):
            return NotImplemented
        other = other._numbers() if isinstance(other, Tensor) else other
        return function(other, self._numbers()) if reflected else function(self._numbers(), other)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"What NumPy gives for {function.__name__}, an array."
    return call


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Tensor, f"__{_name}__", _with_numpy(getattr(operator, _name), f"__{_name}__", False))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(Tensor, f"__{_name}__", _with_numpy(getattr(operator, _name), f"__{_name}__", False))
    setattr(Tensor, f"__r{_name}__", _with_numpy(getattr(operator, _name), f"__r{_name}__", True))
Tensor.__neg__ = lambda self: -self._numbers()
Tensor.__abs__ = lambda self: abs(self._numbers())


@export
class TensorDict(Ortrain.TensorDict):
    """Named tensors in their order, which behave as a dict does. TensorDict(mapping of names to arrays)."""
    __init__ = swallow

    def __new__(cls, values=None):
        return as_dict(values if values is not None else {})

    def __getitem__(self, key):
        if isinstance(key, int):
            if not -len(self) <= key < len(self):
                raise IndexError(key)
            return self.get_tensor(key % len(self))
        tensor = Ortrain.TensorDict.get(self, key)
        if tensor is None:
            raise KeyError(key)
        return tensor

    def __setitem__(self, name, value):
        self.set(name, as_tensor(value))

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

    def __reversed__(self):
        return reversed(self.get_names())

    def get(self, name, default=None):
        """The tensor of that name, or default."""
        tensor = Ortrain.TensorDict.get(self, name)
        return default if tensor is None else tensor

    def keys(self):
        """The names, as a list."""
        return self.get_names()

    def values(self):
        """The tensors, as a list."""
        return [self.get_tensor(i) for i in range(len(self))]

    def items(self):
        """A list of (name, tensor)."""
        return list(zip(self.get_names(), self.values()))

    def update(self, other=(), /, **more):
        """Sets what a mapping, or an iterable of pairs, has, and then the keyword arguments."""
        for name, value in dict(other, **more).items():
            self[name] = value

    def __or__(self, other):
        return TensorDict({**self, **other}) if isinstance(other, collections.abc.Mapping) else NotImplemented

    def __ror__(self, other):
        return TensorDict({**other, **self}) if isinstance(other, collections.abc.Mapping) else NotImplemented

    def __ior__(self, other):
        self.update(other)
        return self

    def setdefault(self, name, default):
        """The tensor of that name, set to default if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name, default=_MISSING):
        """Removes the tensor of that name, and returns it."""
        tensor = self.get(name)
        if tensor is None:
            if default is _MISSING:
                raise KeyError(name)
            return default
        self.remove(name)
        return tensor

    def popitem(self):
        """Removes the last tensor, and returns (name, tensor)."""
        if not self:
            raise KeyError("there are no tensors")
        name = self.get_names()[-1]
        return name, self.pop(name)

    def clear(self):
        """Removes all tensors."""
        for name in self.get_names():
            self.remove(name)

    def copy(self):
        """Another TensorDict with the same tensors, whose elements are not copied."""
        return TensorDict(dict(self.items()))

    __copy__ = copy

    def __deepcopy__(self, memo):
        return TensorDict({name: tensor.copy() for name, tensor in self.items()})

    def __reduce_ex__(self, protocol):
        return pickles.load_dict, (self.items(),)

    def numpy(self):
        """All of it as a dict of NumPy arrays."""
        return {name: tensor.numpy() for name, tensor in self.items()}

    def __enter__(self):
        return self

    def __exit__(self, *args):
        for tensor in self.values():
            tensor.release()

    def __repr__(self):
        inside = ", ".join(f"{name!r}: {tensor.dtype.value_nick}{list(tensor.shape)}" for name, tensor in self.items())
        return f"<Ortrain.TensorDict {{{inside}}}>"

    def __str__(self):
        return self.to_string()


collections.abc.MutableMapping.register(TensorDict)
