# SPDX-License-Identifier: LGPL-2.1-or-later
"""DLPack's capsules, by Python's own C interface."""
import ctypes

DEVICE_CUDA = 2   # kDLCUDA
STREAM_LEGACY = 1   # CUDA's legacy default stream, as the protocol numbers it
_DLTENSOR, _USED_DLTENSOR = b"dltensor", b"used_dltensor"  # capsules keep the addresses of these names


def _python_api(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_new = _python_api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_is_valid = _python_api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_capsule_get = _python_api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_capsule_rename = _python_api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# For the destructor, the capsule is a bare address: its reference count is 0 by then.
_raw_is_valid = _python_api("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_raw_get = _python_api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("dtype", ctypes.c_uint8 * 4), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensor(ctypes.Structure):
    pass


_DLDeleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [("dl_tensor", _DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", _DLDeleter)]


def _managed(address):
    return ctypes.cast(address, ctypes.POINTER(_DLManagedTensor))


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destructor(capsule):
    if _raw_is_valid(capsule, _DLTENSOR):
        managed = _managed(_raw_get(capsule, _DLTENSOR))
        if managed.contents.deleter:
            managed.contents.deleter(managed)


def to_capsule(tensor):
    return _capsule_new(tensor.to_dlpack(), _DLTENSOR, ctypes.cast(_destructor, ctypes.c_void_p))


def from_capsule(capsule, make):
    """make (address) takes what the capsule holds."""
    if not _capsule_is_valid(capsule, _DLTENSOR):
        raise ValueError("the DLPack capsule was used already")
    tensor = make(_capsule_get(capsule, _DLTENSOR))
    _capsule_rename(capsule, _USED_DLTENSOR)
    return tensor


def device_address(tensor):
    """The address of the elements on their device, 0 if there are none."""
    managed = _managed(tensor.to_dlpack())
    address = managed.contents.dl_tensor.data
    managed.contents.deleter(managed)
    return address or 0
