# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every property of every class: its default is the real one, getter and setter agree with it, and notify comes once."""
import unittest

import numpy as np
from gi.repository import GLib, GObject
from ortrain_tap import Ortrain, linear_model, main, training_session

GTYPE = GObject.GType.from_name


def instances():
    """An object of every class that has one, made in the barest way."""
    session = training_session()
    data = Ortrain.TensorDataset({"x": np.zeros((4, 4), np.float32)})
    made = {
        "Model": linear_model(), "TrainingSession": session, "Trainer": Ortrain.Trainer.new(session, data),
        "InferenceSession": Ortrain.InferenceSession(linear_model()), "DataLoader": Ortrain.DataLoader.new(data, 1),
    }
    for name in dir(Ortrain):
        cls = getattr(Ortrain, name)
        if name in made or not isinstance(cls, type) or not issubclass(cls, GObject.Object) or cls.__gtype__.is_abstract():
            continue
        if [p for p in GObject.list_properties(cls) if p.flags & GObject.ParamFlags.WRITABLE]:
            made[name] = GObject.new(cls.__gtype__)
    return made


def other_value(pspec, value):
    """Another value that the property takes."""
    kind = pspec.value_type
    if kind == GObject.TYPE_BOOLEAN:
        return not value
    if kind in (GObject.TYPE_INT, GObject.TYPE_UINT, GObject.TYPE_INT64, GObject.TYPE_UINT64):
        return value + 1 if value < pspec.maximum else value - 1
    if kind == GObject.TYPE_DOUBLE:
        candidates = (0.25, 0.5, 1.5, pspec.minimum, pspec.maximum)
        return next(x for x in candidates if x != value and pspec.minimum <= x <= pspec.maximum)
    if kind == GObject.TYPE_STRING:
        return "other"
    if kind == GTYPE("GStrv"):
        return ["other", "*.bias"]
    if kind == GTYPE("GVariant"):
        return GLib.Variant("a{sv}", {"x": GLib.Variant("i", 3)})
    if kind.is_a(GObject.TYPE_ENUM):
        return next(x for x in pspec.enum_class.__enum_values__.values() if x != value)
    for cls, make in ((Ortrain.Optimizer, lambda: Ortrain.Sgd()), (Ortrain.LrSchedule, lambda: Ortrain.ConstantSchedule.new(0.5)),
                      (Ortrain.Tensor, lambda: Ortrain.Tensor([1.0, 2.0])),
                      (Ortrain.LossScaler, lambda: Ortrain.LossScaler.new()),
                      (Ortrain.TensorDict, lambda: Ortrain.TensorDict({"z": np.zeros(3)})),
                      (Ortrain.Dataset, lambda: Ortrain.TensorDataset({"x": np.zeros(3)}))):
        if kind.is_a(cls.__gtype__):
            return make()
    raise AssertionError(f"no value is known for {pspec.name} of type {kind.name}")


def plain(value):
    if isinstance(value, Ortrain.Tensor):
        return value.tolist()
    return value.unpack() if isinstance(value, GLib.Variant) else list(value) if isinstance(value, (list, tuple)) else value


class Properties(unittest.TestCase):
    def test_all(self):
        n_written, classes = 0, instances()
        for name, instance in classes.items():
            for pspec in GObject.list_properties(type(instance)):
                with self.subTest(f"{name}:{pspec.name}"):
                    attribute = pspec.name.replace("-", "_")
                    # not through the attribute: a method of that name may be there
                    get = lambda: instance.get_property(pspec.name)
                    getter = getattr(instance, f"get_{attribute}", None)
                    if pspec.flags & GObject.ParamFlags.READABLE and getter is not None:
                        self.assertEqual(plain(getter()), plain(get()))
                    if not pspec.flags & GObject.ParamFlags.WRITABLE or pspec.flags & GObject.ParamFlags.CONSTRUCT_ONLY:
                        continue
                    setter = getattr(instance, f"set_{attribute}")
                    seen = []
                    handler = instance.connect(f"notify::{pspec.name}", lambda *args: seen.append(1))
                    value = other_value(pspec, get())
                    instance.set_property(pspec.name, value)
                    self.assertEqual((plain(get()), plain(getter()), len(seen)), (plain(value), plain(value), 1))
                    if not pspec.value_type.is_a(GTYPE("GStrv")) and not pspec.value_type.is_a(GTYPE("GVariant")):
                        setter(value)
                        self.assertEqual(len(seen), 1, "the same value notifies")
                    another = other_value(pspec, value)
                    setter(another)
                    self.assertEqual(plain(get()), plain(another))
                    instance.disconnect(handler)
                    n_written += 1
        self.assertGreater(n_written, 90)
        self.assertGreater(len(classes), 25)

    def test_defaults(self):
        """A fresh object has the values that its properties give as their defaults."""
        n = 0
        for name, instance in instances().items():
            if name in ("Model", "TrainingSession", "InferenceSession"):
                continue
            for pspec in GObject.list_properties(type(instance)):
                if not pspec.flags & GObject.ParamFlags.WRITABLE or pspec.flags & GObject.ParamFlags.CONSTRUCT_ONLY:
                    continue
                if pspec.value_type.is_a(GObject.TYPE_OBJECT) or pspec.value_type in (GTYPE("GStrv"), GTYPE("GVariant")):
                    continue
                if (name, pspec.name) == ("DataLoader", "batch-size"):
                    continue    # an argument of its constructor
                with self.subTest(f"{name}:{pspec.name}"):
                    self.assertEqual(instance.get_property(pspec.name), pspec.default_value)
                    n += 1
        self.assertGreater(n, 80)


if __name__ == "__main__":
    main()
