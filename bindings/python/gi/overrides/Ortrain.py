# SPDX-License-Identifier: LGPL-2.1-or-later
"""What makes Ortrain feel at home in Python: NumPy arrays and mappings in and out, call-syntax constructors, errors that
say what is wrong, exceptions of callbacks, Ctrl-C, repr(). Everything here can also be done without it. The parts are in
_ortrain/."""
from gi.repository import GObject

from ._ortrain import classes, describe, errors, sessions, tensors, training  # noqa: F401: they export classes
from ._ortrain.base import Ortrain, exported

# All of them are there before the first is looked at: PyGObject makes an enumeration that a property asks for first
# without its members.
_classes = [exported.get(name, getattr(Ortrain, name, None)) for name in dir(Ortrain)]
for _cls in _classes:
    if isinstance(_cls, type) and issubclass(_cls, (GObject.Object, GObject.GBoxed)):
        classes.finish(_cls)

classes.finish_functions()
globals().update(exported)
__all__ = list(exported)

# Lists of objects are of a class that has no name here: it is reached through one of them.
type(Ortrain.Graph.new("").get_nodes()).__repr__ = describe.list_representation
