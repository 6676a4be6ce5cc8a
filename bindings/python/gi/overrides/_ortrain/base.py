# SPDX-License-Identifier: LGPL-2.1-or-later
"""What all parts of the override share."""
from gi.module import get_introspection_module
from gi.overrides import override

Ortrain = get_introspection_module("Ortrain")
exported = {}


def export(cls):
    """The class takes the place of the one in the typelib, for objects that the library makes, too."""
    cls.__module__ = "gi.overrides.Ortrain"     # PyGObject reads the namespace from it
    exported[cls.__name__] = override(cls)
    return exported[cls.__name__]


def swallow(self, *args, **kwargs):
    """The __init__ of what came whole from the library."""


def constructor(cls, new, doc):
    """Routes the call syntax to the function that makes whole objects. Keyword arguments become properties afterwards."""

    def __new__(subtype, *args, **kwargs):
        self = new(*args)
        for name, value in kwargs.items():
            setattr(self.props, name, value)
        return self

    __new__.__doc__ = doc
    cls.__new__, cls.__init__ = __new__, swallow
    return cls
