# SPDX-License-Identifier: LGPL-2.1-or-later
"""What functions of the typelib take: nicks of enumerations, integers that are whole, truth values that are none of words,
lists of strings. PyGObject cuts fractions off, and takes every word for true."""
import functools
import inspect
import operator

from . import errors, values
from .base import Ortrain

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_INTEGERS = ("gint8", "guint8", "gint16", "guint16", "gint32", "guint32", "gint64", "guint64")


def names_of(info):
    """Names of the arguments of a function of the typelib, as PyGObject's docstring has them."""
    inside = info.__doc__[info.__doc__.index("(") + 1:].split(")", 1)[0]
    return [part.split(":")[0].split("=")[0].strip() for part in inside.split(", ") if part]


def integer(name, value):
    """A whole number: an integer, or a float without a fraction, such as 2e9."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} needs an integer, not {value!r}") from None


def _converter(argument):
    kind = argument.get_type()
    tag = kind.get_tag_as_string()
    if tag == "array" and kind.get_param_type(0).get_tag_as_string() in ("utf8", "filename"):
        convert = values.strings
    elif tag == "gboolean":
        convert = values.truth
    elif tag in _INTEGERS:
        convert = integer
    elif tag == "interface" and hasattr(kind.get_interface(), "get_values") and not kind.get_interface().is_flags():
        members = getattr(Ortrain, kind.get_interface().get_name(), None)
        if members is None or not hasattr(members, "__enum_values__"):
            return None
        convert = functools.partial(values.member, members=members.__enum_values__.values())
    else:
        return None
    if argument.may_be_null():
        return lambda name, value: value if value is None else convert(name, value)
    return convert


def wrap(info, name=None):
    """The function with its arguments converted and its errors of their classes; None where neither is needed. info: as an
    attribute of its class"""
    names = names_of(info)
    converters = {argument.get_name(): _converter(argument) for argument in info.get_arguments() if argument.get_name() in names}
    converters = {names.index(argument): convert for argument, convert in converters.items() if convert is not None}
    throws = info.can_throw_gerror()
    if not converters and not throws:
        return None
    by_name = {names[i]: convert for i, convert in converters.items()}

    def call(*args, **kwargs):
        if converters:
            args = list(args)
            for i, convert in converters.items():
                if i < len(args):
                    args[i] = convert(names[i], args[i])
            for key in kwargs:
                if key in by_name:
                    kwargs[key] = by_name[key](key, kwargs[key])
        try:
            return info(*args, **kwargs)
        except errors.GLib.Error as error:
            errors.specialize(error)
            raise

    call.__name__ = call.__qualname__ = name or info.__name__
    call.__doc__, call.__wrapped_info__ = info.__doc__, info
    call.__signature__ = inspect.Signature([inspect.Parameter(name, _POSITIONAL) for name in names])
    return call
