# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exceptions of the library: a class for each domain of errors, whose text is the message alone.

PyGObject raises what a function of the library sets as a GLib.Error. The functions that can fail are wrapped, so that it is
of the class of its domain when it reaches the program."""
import functools

from gi.repository import GLib

from . import pickles
from .base import Ortrain, exported

_classes = {}       # domain → class


class Error(GLib.Error):
    """What went wrong in the library, or in what it was asked to use, such as a file.

    str (error) is the text. domain and code are those of the GLib.Error that this is; matches () compares them.
    """
    __module__ = "gi.overrides.Ortrain"
    _domain = "ortrain-error-quark"

    def __init__(self, message="", code=0):
        super().__init__(message, self._domain, int(code))

    def __str__(self):
        return self.message

    def __repr__(self):
        return f"Ortrain.{type(self).__name__}({self.message!r}, {self.code})"

    def __reduce__(self):
        return pickles.load_error, (self.message, self.domain, self.code)


def _define(name, domain):
    members = getattr(Ortrain, name).__enum_values__.values()
    nicks = ", ".join(member.value_nick for member in members)
    cls = type(name, (Error,), {"__doc__": f"An error of the domain {domain}; its code is one of {nicks}.",
                                "__module__": Error.__module__, "_domain": domain,
                                "quark": staticmethod(lambda: GLib.quark_from_string(domain)),
                                **{member.value_name.rsplit("_ERROR_", 1)[1]: member for member in members}})
    exported[name] = _classes[domain] = cls


exported["Error"] = Error
for _name in ("CheckpointError", "DataError", "DeviceError", "GraphError", "ModelError", "PlanError", "SessionError", "TensorError"):
    _define(_name, f"ortrain-{_name.removesuffix('Error').lower()}-error-quark")


def specialize(error):
    """Gives what PyGObject raised its class; others keep theirs."""
    if type(error) is GLib.Error:
        error.__class__ = _classes.get(error.domain, Error)
    return error


def typed(function):
    """The function, whose errors have their classes."""
    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except GLib.Error as error:
            specialize(error)
            raise

    return call
