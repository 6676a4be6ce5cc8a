# SPDX-License-Identifier: LGPL-2.1-or-later
"""What all parts of the override share."""
from gi.module import get_introspection_module
from gi.overrides import override

Ortrain = get_introspection_module("Ortrain")
exported = {}
constructors = {}     # class → the function behind its call syntax


def export(cls):
    """The class takes the place of the one in the typelib, for objects that the library makes, too."""
    cls.__module__ = "gi.overrides.Ortrain"     # PyGObject reads the namespace from it
    exported[cls.__name__] = override(cls)
    return exported[cls.__name__]


def swallow(self, *args, **kwargs):
    """The __init__ of what came whole from the library."""


def constructor(cls):
    """Decorates the function that the call syntax is routed to, which makes whole objects. Its own parameters come first;
    other keyword arguments become properties afterwards."""
    def decorate(new):
        constructors[cls] = new
        return new

    return decorate
