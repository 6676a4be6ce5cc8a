# SPDX-License-Identifier: LGPL-2.1-or-later
"""What pickles of tensors name. It imports nothing of the override before it is called, since a pickle may be the
first in a process to name Ortrain."""


def _ortrain():
    import gi

    gi.require_version("Ortrain", "1.0")
    from gi.repository import Ortrain

    return Ortrain


def load_tensor(dtype, shape, data):
    """dtype: its nick, as bfloat16; data: the elements, bytes"""
    Ortrain = _ortrain()
    dtypes = {value.value_nick: value for value in Ortrain.DType.__enum_values__.values()}
    return Ortrain.Tensor.new_for_data(dtypes[dtype], list(shape), data)


def load_error(message, domain, code):
    _ortrain()
    from gi.overrides._ortrain import errors

    return errors.specialize(errors.GLib.Error(message, domain, code))


def load_dict(items):
    return _ortrain().TensorDict(dict(items))
