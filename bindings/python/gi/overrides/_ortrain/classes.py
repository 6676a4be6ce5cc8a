# SPDX-License-Identifier: LGPL-2.1-or-later
"""What all classes of the namespace get: the call syntax, attributes for properties, checks, docstrings, repr ()."""
import functools
import inspect
import types

from gi.repository import GObject

from . import arguments, calls, describe, errors, values
from .base import Ortrain, constructors, exported, swallow
from .tensors import as_tensor

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


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
    argument = arguments.names_of(original)[1]

    def call(self, *args, **kwargs):
        value, = args or (kwargs.pop(argument),)
        return original(self, values.convert(type(self).__name__, pspec, value), **kwargs)

    call.__name__ = original.__name__
    call.__doc__ = f"Sets {pspec.name.replace('-', '_')}: {describe.property_doc(pspec)}."
    call.__signature__ = inspect.Signature([inspect.Parameter("self", _POSITIONAL), inspect.Parameter(argument, _POSITIONAL)])
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
    signature, make = inspect.signature(new), errors.typed(new)

    def __new__(subtype, *args, **kwargs):
        bound, properties = _split(cls, signature, args, kwargs)
        self = make(*bound.args, **bound.kwargs)
        for name, value in properties.items():
            self.set_property(name, value)
        return self

    cls.__new__, cls.__init__ = __new__, swallow
    return describe.signature_of(cls, signature.parameters.values())


def _route_to_new(cls, info):
    """The same, for new () of the typelib, whose arguments are no properties."""
    names = arguments.names_of(info)
    signature = inspect.Signature([
        inspect.Parameter(name, _POSITIONAL, default=None if argument.may_be_null() else inspect.Parameter.empty)
        for name, argument in zip(names, info.get_arguments())])

    converters = {name: as_tensor for name, argument in zip(names, info.get_arguments())
                  if argument.get_type().get_tag_as_string() == "interface" and argument.get_type().get_interface().get_name() == "Tensor"}

    function = arguments.wrap(info) or info

    def new(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return function(*(converters[name](value) if name in converters else value for name, value in bound.arguments.items()))

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
    names = arguments.names_of(info) if info is not None else []
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


def _finish_methods(cls):
    """Functions of the typelib, and those in the place of one that can fail."""
    for info in cls.__info__.get_methods():
        name = info.get_name()
        function = vars(cls).get(name)
        if isinstance(function, types.FunctionType) and info.can_throw_gerror():
            setattr(cls, name, errors.typed(function))
        found = getattr(cls, name, None)
        if not hasattr(found, "get_arguments"):
            continue
        wrapped = arguments.wrap(found)
        if wrapped is not None:
            setattr(cls, name, wrapped if info.is_method() else staticmethod(wrapped))


def finish_functions():
    """Those of the namespace itself."""
    for name in dir(Ortrain):
        function = getattr(Ortrain, name)
        if name not in exported and isinstance(function, type(Ortrain.check_version)):
            wrapped = arguments.wrap(function)
            if wrapped is not None:
                exported[name] = wrapped


def finish(cls):
    """A class of the namespace."""
    if issubclass(cls, GObject.Object):
        _finish_object(cls)
    if hasattr(cls.__info__, "get_methods"):
        _finish_methods(cls)
    if "__repr__" not in vars(cls):
        cls.__repr__ = describe.representation
    if hasattr(cls, "to_string") and "__str__" not in vars(cls):
        cls.__str__ = functools.wraps(Ortrain.Tensor.__str__)(lambda self: self.to_string())
