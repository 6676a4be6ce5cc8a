# SPDX-License-Identifier: LGPL-2.1-or-later
"""What help (), inspect.signature () and repr () say of the library's classes."""
import inspect

from gi.repository import GObject

from . import values
from .base import Ortrain

_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def name_of(cls):
    return f"Ortrain.{cls.__name__}" if cls.__module__.startswith("gi.") else cls.__qualname__


class _Shown:
    """A default as it is typed."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def show(value):
    """A value of a property, as it may be typed."""
    if isinstance(value, GObject.GEnum):
        return repr(value.value_nick)
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return repr(value)


def default_of(pspec):
    if pspec.value_type.is_a(GObject.TYPE_OBJECT) or not hasattr(pspec, "default_value"):
        return _Shown("None")
    return _Shown(show(pspec.default_value))


def signature_of(cls, positional=()):
    """positional: parameters in front of the properties"""
    taken = {parameter.name for parameter in positional}
    settable = {name: pspec for name, pspec in values.properties_of(cls).items() if values.is_settable(pspec)}
    rest = [inspect.Parameter(name, _KEYWORD, default=default_of(pspec)) for name, pspec in settable.items() if name not in taken]
    return inspect.Signature([*positional, *rest])


def _kind_of(pspec):
    kind = pspec.value_type
    if kind.is_a(GObject.TYPE_ENUM):
        return "one of " + ", ".join(member.value_nick for member in pspec.enum_class.__enum_values__.values())
    if hasattr(pspec, "minimum"):
        return values.range_of(pspec)
    return {"gboolean": "bool", "gchararray": "str", "GStrv": "list of str"}.get(kind.name, kind.name.replace("Ortrain", "Ortrain."))


def property_doc(pspec):
    """The docstring of an attribute."""
    text = _kind_of(pspec)
    if values.is_settable(pspec):
        return f"{text}; default {default_of(pspec)!r}"
    return f"{text}; read-only"


def class_doc(cls, signature, own):
    lines = [own, ""] if own else []
    lines += [f"{cls.__name__}{signature}", ""] if signature is not None else []
    properties = values.properties_of(cls)
    if properties:
        lines += ["Properties:", *(f"    {name}: {property_doc(pspec)}" for name, pspec in properties.items())]
    return "\n".join(lines).strip()


# ---- repr ----

def _value(self):
    return f" {self.get_name()!r}: {self.get_dtype().value_nick} {self.get_shape_string()}"


def _graph(self):
    return f" {self.get_name()!r}, {self.get_nodes().get_n_items()} nodes"


def _model(self):
    name = self.get_name() or self.get_path() or ""
    return f" {name!r}, {self.get_n_nodes()} nodes, {self.get_n_parameters()} parameters"


def _of_model(self):
    model = self.get_model()
    return f" of {_model(model).strip()}" if model is not None else ", without a model"


def _training_session(self):
    return f"{_of_model(self)}, {self.get_step()} steps"


def _progress(self):
    return f" epoch {self.epoch} of {self.n_epochs}, step {self.step} of {self.n_steps}, loss {self.loss:.4g}"


def _dataset(self):
    return f" of {self.get_length()} items"


_DETAILS = {
    "Value": _value, "Node": lambda self: f" {self.get_op_type()} {self.get_name()!r}", "Graph": _graph, "Model": _model,
    "InferenceSession": _of_model, "TrainingSession": _training_session, "Progress": _progress,
    "TensorDataset": _dataset, "TokenDataset": _dataset, "GraphBuilder": lambda self: _graph(self.get_graph()),
    "Checkpoint": lambda self: f" of {', '.join(self.get_sections()) or 'nothing'}",
    "IoBinding": lambda self: f" of {', '.join([*self.get_inputs().get_names(), *self.get_outputs().get_names()]) or 'nothing'}",
    "Trainer": lambda self: f" of {self.get_epochs()} epochs on {self.get_dataset()!r}",
    "TrainingHistory": lambda self: f" {self.get_n_epochs()} epochs, {self.get_n_steps()} steps, last loss {self.get_last_loss():.4g}",
    "ParameterGroup": lambda self: f" of {self.get_pattern()!r}" + (f": {_settings(self)}" if _settings(self) else ""),
    "DataLoader": lambda self: f" of batches of {self.get_batch_size()}, {self.get_dataset()!r}",
}
_CALLS = {"Normalize": lambda self: f"{self.get_mean()}, {self.get_std()}"}     # what are no properties
_MOST = 160     # characters
_MOST_ITEMS = 4


def _settings(self):
    """What was set, as it is typed, and what was found."""
    found = []
    for name, pspec in values.properties_of(type(self)).items():
        value = self.get_property(pspec.name) if pspec.flags & GObject.ParamFlags.READABLE else None
        if value is None or value == [] or isinstance(value, GObject.GBoxed) or (hasattr(value, "get_n_items") and value.get_n_items() == 0):
            continue
        if values.is_settable(pspec) and hasattr(pspec, "default_value") and value == pspec.default_value and name != "learning_rate":
            continue
        measured = isinstance(value, float) and not values.is_settable(pspec)
        found.append(f"{name}={value:.6g}" if measured else f"{name}={show(value)}")
    return ", ".join(found)


def representation(self):
    """repr () of an object without one of its own."""
    cls = type(self)
    try:
        if cls.__name__ in _DETAILS:
            text = _DETAILS[cls.__name__](self)
        elif hasattr(self, "to_string"):
            text = " " + self.to_string().split("\n", 1)[0]
        else:
            settings = _settings(self)
            if cls.__name__ in _CALLS:
                return f"{name_of(cls)}({_CALLS[cls.__name__](self)})"
            if any(values.is_settable(pspec) for pspec in values.properties_of(cls).values()):
                return f"{name_of(cls)}({settings})"
            text = f" {settings}" if settings else f" at {hash(self):#x}"
    except Exception:       # of an object that is only half made, or was disposed of
        text = f" at {hash(self):#x}"
    return f"<{name_of(cls)}{text[:_MOST]}{'…' if len(text) > _MOST else ''}>"


def list_representation(self):
    """repr () of the lists of objects that the library has."""
    n = len(self)
    shown = [repr(self[i]) for i in range(min(n, _MOST_ITEMS))]
    return f"[{', '.join(shown)}{f', … {n} in all' if n > _MOST_ITEMS else ''}]"
