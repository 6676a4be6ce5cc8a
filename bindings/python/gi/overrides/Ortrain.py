# SPDX-License-Identifier: LGPL-2.1-or-later
"""What makes Ortrain feel at home in Python: NumPy arrays and mappings in and out, call-syntax constructors, exceptions of
callbacks, Ctrl-C, str(). Everything here can also be done without it. The parts are in _ortrain/."""
from gi.repository import GObject

from ._ortrain import calls, sessions, tensors, training  # noqa: F401: they export classes
from ._ortrain.base import Ortrain, exported

globals().update(exported)
__all__ = list(exported)


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
                calls.asynchronous(cls, name.removesuffix("_async"))
    if hasattr(cls, "to_string") and "__repr__" not in vars(cls):
        cls.__str__ = lambda self: self.to_string()


for _name in dir(Ortrain):
    _cls = exported.get(_name, getattr(Ortrain, _name, None))
    if isinstance(_cls, type) and issubclass(_cls, (GObject.Object, GObject.GBoxed)):
        _finish_class(_cls)
