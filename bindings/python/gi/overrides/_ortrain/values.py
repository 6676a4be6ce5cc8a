# SPDX-License-Identifier: LGPL-2.1-or-later
"""What properties take: values are converted and checked before GLib sees them, which would only print a warning."""
import difflib
import numbers
import operator
import os

from gi.repository import GObject

from .base import Ortrain

_SHORT = {"lr": "learning_rate", "eps": "epsilon", "wd": "weight_decay", "beta_1": "beta1", "beta_2": "beta2",
          "n_epochs": "epochs", "nesterov_momentum": "nesterov"}      # as other libraries call them
_STRV = GObject.GType.from_name("GStrv")
_INTEGERS = (GObject.TYPE_INT, GObject.TYPE_UINT, GObject.TYPE_INT64, GObject.TYPE_UINT64)
_converters = {}     # of types of objects


def converts(cls):
    """Decorates a function that makes an object of cls of something else that users have; None where it cannot."""
    def decorate(function):
        _converters[cls.__gtype__] = function
        return function

    return decorate


def properties_of(cls):
    """{name in Python: what GLib knows of the property}"""
    return {pspec.name.replace("-", "_"): pspec for pspec in GObject.list_properties(cls)}


def is_settable(pspec):
    return bool(pspec.flags & GObject.ParamFlags.WRITABLE)


def find_property(cls, name):
    """The property of a keyword argument."""
    properties = properties_of(cls)
    pspec = properties.get(name)
    if pspec is not None and is_settable(pspec):
        return pspec
    if pspec is not None:
        raise TypeError(f"{cls.__name__}: {name} is read-only")
    settable = sorted(name for name, pspec in properties.items() if is_settable(pspec))
    close = [_SHORT[name]] if _SHORT.get(name) in settable else difflib.get_close_matches(name, settable, 1)
    hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(settable)}" if settable else ""
    raise TypeError(f"{cls.__name__} has no property {name}{hint}")


def range_of(pspec):
    """The numbers that a property takes, in words."""
    least, most = pspec.minimum, pspec.maximum
    if pspec.value_type in _INTEGERS:
        return f"an integer of at least {least}" if most >= 2 ** 31 - 1 else f"an integer from {least} to {most}"
    if most > 1e300:
        return "a number" if least < -1e300 else f"a number of at least {least:g}"
    return f"a number from {least:g} to {most:g}"


def strings(name, value):
    """A list of strings; a string is one of characters, which nobody means."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} needs a list of strings, not the string {value!r}: write [{value!r}]")
    try:
        found = list(value)
    except TypeError:
        raise TypeError(f"{name} needs a list of strings, not {type(value).__name__}") from None
    for item in found:
        if not isinstance(item, str):
            raise TypeError(f"{name} needs a list of strings, but there is {item!r} in it")
    return found


def truth(name, value):
    """True or False; words, None and containers are neither."""
    if value is None or not hasattr(type(value), "__bool__"):
        raise TypeError(f"{name} needs True or False, not {value!r}")
    return bool(value)


def _number(owner, name, pspec, value):
    words = f"{owner}: {name} needs {range_of(pspec)}"
    if isinstance(value, Ortrain.Tensor):
        value = value.item()
    if pspec.value_type in _INTEGERS:
        try:
            value = operator.index(value)
        except TypeError:
            raise TypeError(f"{words}, not {value!r}") from None
    elif not isinstance(value, numbers.Real):
        raise TypeError(f"{words}, not {value!r}")
    if not pspec.minimum <= value <= pspec.maximum:
        raise ValueError(f"{words}, not {value!r}")
    return value


def member(name, value, members):
    """A member of an enumeration, itself, by its nick, or by its number."""
    words = f"{name} is one of {', '.join(member.value_nick for member in members)}, not {value!r}"
    if isinstance(value, str):
        found = next((member for member in members if member.value_nick == value), None)
        if found is None:
            close = difflib.get_close_matches(value.lower().replace("_", "-"), [member.value_nick for member in members], 1)
            raise ValueError(words + (f"; did you mean {close[0]!r}?" if close else ""))
        return found
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(words)
    found = next((member for member in members if int(member) == value), None)
    if found is None:
        raise ValueError(words)
    return found


def convert(owner, pspec, value):
    """What PyGObject is given for a value of the user's. owner: the name of the class, for messages"""
    kind, name = pspec.value_type, pspec.name.replace("-", "_")
    if kind in _INTEGERS or kind == GObject.TYPE_DOUBLE:
        return _number(owner, name, pspec, value)
    if kind == GObject.TYPE_BOOLEAN:
        return truth(f"{owner}: {name}", value)
    if kind == _STRV:
        return value if value is None else strings(f"{owner}: {name}", value)
    if kind == GObject.TYPE_STRING:
        if hasattr(value, "__fspath__"):
            value = os.fspath(value)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{owner}: {name} needs a string, not {value!r}")
        return value
    if kind.is_a(GObject.TYPE_ENUM):
        return member(f"{owner}: {name}", value, pspec.enum_class.__enum_values__.values())
    if kind.is_a(GObject.TYPE_OBJECT) and value is not None:
        if not isinstance(value, GObject.Object):
            value = _converters[kind](value) if kind in _converters else value
        if not isinstance(value, GObject.Object) or not value.__gtype__.is_a(kind):
            raise TypeError(f"{owner}: {name} needs an Ortrain.{kind.name.removeprefix('Ortrain')}, not {value!r}")
    return value
