# SPDX-License-Identifier: LGPL-2.1-or-later
"""What all classes of the namespace get: the call syntax, attributes for properties, checks, docstrings, repr ()."""
import functools
import inspect

from gi.repository import GObject

from . import calls, describe, values
from .base import Ortrain, constructors, exported, swallow
from .tensors import as_tensor

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _arguments_of(info):
    """Names of the arguments of a function of the typelib, as PyGObject's docstring has them."""
    inside = info.__doc__[info.__doc__.index("(") + 1:].split(")", 1)[0]
    return [part.split(":")[0].split("=")[0].strip() for part in inside.split(", ") if part]


# ---- attributes and setters ----

def _attribute(cls, pspec):
    def get(self):
        return self.get_property(pspec.name)

    if not values.is_settable(pspec) or pspec.flags & GObject.ParamFlags.CONSTRUCT_ONLY:
        return property(get, doc=describe.property_doc(pspec))

    def set(self, value):
        self.set_property(pspec.name, values.convert(type(self).__name__, pspec, value))

    return property(get, set, doc=describe.property_doc(pspec))


def _checked_setter(original, pspec):
    argument = _arguments_of(original)[1]

    def call(self, *args, **kwargs):
        value, = args or (kwargs.pop(argument),)
        return original(self, values.convert(type(self).__name__, pspec, value), **kwargs)

    call.__name__ = original.__name__
    call.__doc__ = f"Sets {pspec.name.replace('-', '_')}: {describe.property_doc(pspec)}."
    call.__signature__ = inspect.Signature([inspect.Parameter("self", _POSITIONAL), inspect.Parameter(argument, _POSITIONAL)])
    return call


def _lists_of_strings(info):
    """The positions of such arguments of a method, counted without self."""
    types = [(i, argument.get_type()) for i, argument in enumerate(info.get_arguments())]
    return [i for i, kind in types
            if kind.get_tag_as_string() == "array" and kind.get_param_type(0).get_tag_as_string() == "utf8"]


def _checked_lists(original, positions):
    names = _arguments_of(original)

    def call(self, *args, **kwargs):
        args = list(args)
        for name in (original.get_arguments()[i].get_name() for i in positions):
            place = names.index(name) - 1
            if place < len(args) and args[place] is not None:
                args[place] = values.strings(name, args[place])
            elif kwargs.get(name) is not None:
                kwargs[name] = values.strings(name, kwargs[name])
        return original(self, *args, **kwargs)

    call.__name__, call.__doc__ = original.__name__, original.__doc__
    call.__signature__ = inspect.Signature([inspect.Parameter(name, _POSITIONAL) for name in names])
    return call


# ---- the call syntax ----

def _split(cls, signature, args, kwargs):
    """(arguments of the constructor, converted properties)"""
    own = {name: kwargs.pop(name) for name in list(kwargs) if name in signature.parameters}
    properties = {}
    for name, value in kwargs.items():
        pspec = values.find_property(cls, name)
        properties[pspec.name] = values.convert(cls.__name__, pspec, value)
    try:
        bound = signature.bind(*args, **own)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}(): {error}") from None
    return bound, properties


def _route(cls, new):
    """Objects that only a function of the library makes whole."""
    signature = inspect.signature(new)

    def __new__(subtype, *args, **kwargs):
        bound, properties = _split(cls, signature, args, kwargs)
        self = new(*bound.args, **bound.kwargs)
        for name, value in properties.items():
            self.set_property(name, value)
        return self

    cls.__new__, cls.__init__ = __new__, swallow
    return describe.signature_of(cls, signature.parameters.values())


def _route_to_new(cls, info):
    """The same, for new () of the typelib, whose arguments are no properties."""
    names = _arguments_of(info)
    signature = inspect.Signature([
        inspect.Parameter(name, _POSITIONAL, default=None if argument.may_be_null() else inspect.Parameter.empty)
        for name, argument in zip(names, info.get_arguments())])

    converters = {name: as_tensor for name, argument in zip(names, info.get_arguments())
                  if argument.get_type().get_tag_as_string() == "interface" and argument.get_type().get_interface().get_name() == "Tensor"}

    def new(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return info(*(converters[name](value) if name in converters else value for name, value in bound.arguments.items()))

    new.__signature__ = signature
    return _route(cls, new)


def _init_by_properties(cls, names):
    """names: those that may come without a keyword"""
    original = cls.__init__

    def __init__(self, *args, **kwargs):
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__}() takes at most {len(names)} arguments without a keyword, not {len(args)}")
        for name, value in zip(names, args):
            if name in kwargs:
                raise TypeError(f"{type(self).__name__}() got {name} twice")
            kwargs[name] = value
        converted = {}
        for name, value in kwargs.items():
            pspec = values.find_property(type(self), name)
            converted[name] = values.convert(type(self).__name__, pspec, value)
        original(self, **converted)

    cls.__init__ = __init__
    properties = values.properties_of(cls)
    return describe.signature_of(cls, [inspect.Parameter(name, _POSITIONAL, default=describe.default_of(properties[name]))
                                       for name in names])


def _call_syntax(cls):
    """Gives the class its constructor. Returns the signature; None where there is none to show."""
    if cls in constructors:
        return _route(cls, constructors[cls])
    if "__new__" in vars(cls):
        return None             # it has one of its own
    new = getattr(cls, "new", None)
    info = new if hasattr(new, "get_arguments") and new.get_container() is not None else None
    if info is not None and info.get_container().get_name() != cls.__name__:
        info = None             # of a parent
    names = _arguments_of(info) if info is not None else []
    properties = values.properties_of(cls)
    if any(name not in properties or not values.is_settable(properties[name]) for name in names):
        return _route_to_new(cls, info)
    if "__init__" in vars(cls):
        return describe.signature_of(cls, list(inspect.signature(cls.__init__).parameters.values())[1:2])
    signature = _init_by_properties(cls, names)
    settable = any(map(values.is_settable, properties.values()))
    return signature if info is not None and (settable or not properties) else None


def _finish_object(cls):
    for name, pspec in values.properties_of(cls).items():
        if not hasattr(cls, name):      # methods of the same name stay what they are
            setattr(cls, name, _attribute(cls, pspec))
        setter = getattr(cls, f"set_{name}", None)
        if hasattr(setter, "get_arguments") and len(setter.get_arguments()) == 1:
            setattr(cls, f"set_{name}", _checked_setter(setter, pspec))
    for info in cls.__info__.get_methods():
        method = vars(cls).get(info.get_name()) or getattr(cls, info.get_name(), None)
        if hasattr(method, "get_arguments") and method.is_method() and _lists_of_strings(method):
            setattr(cls, info.get_name(), _checked_lists(method, _lists_of_strings(method)))
    for name in dir(cls):
        if name.endswith("_async") and hasattr(getattr(cls, name), "get_arguments"):
            calls.asynchronous(cls, name.removesuffix("_async"))
    own = vars(cls).get("__doc__") if cls in exported.values() else None
    signature = None if cls.__gtype__.is_abstract() else _call_syntax(cls)
    if cls.__gtype__.is_abstract():
        _init_by_properties(cls, [])
    # not by an assignment, which PyGObject's metaclass has no use for
    type.__dict__["__doc__"].__set__(cls, describe.class_doc(cls, signature, own))
    if signature is not None:
        cls.__signature__ = signature


def finish(cls):
    """A class of the namespace."""
    if issubclass(cls, GObject.Object):
        _finish_object(cls)
    if "__repr__" not in vars(cls):
        cls.__repr__ = describe.representation
    if hasattr(cls, "to_string") and "__str__" not in vars(cls):
        cls.__str__ = functools.wraps(Ortrain.Tensor.__str__)(lambda self: self.to_string())
