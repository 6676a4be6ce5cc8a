# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every method of every class, called on objects that were never made whole, that were disposed of, and with senseless
arguments: bindings can do all of it, so it gives errors, never an end of the process."""
import os
import subprocess
import sys
import unittest

import gi
import numpy as np

gi.require_version("GIRepository", "2.0")
from gi.repository import GIRepository, GLib, GObject
from ortrain_tap import Ortrain, batch, folder, linear_model, main, training_session

INTEGERS = {getattr(GIRepository.TypeTag, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)}
# What makes them leaves nothing that they could work without.
NEED_A_CONSTRUCTOR = ("Model", "TrainingSession", "InferenceSession", "Trainer", "DataLoader")


def stepped_session():
    session = training_session()
    session.train_step(batch())
    return session


# Made for each call, where it needs them: objects by their classes.
WHOLE = {
    "Model": lambda the: linear_model(), "Graph": lambda the: the["Model"].get_graph().copy(), "TrainingSession": lambda the: stepped_session(),
    "Trainer": lambda the: Ortrain.Trainer(the["TrainingSession"], the["Dataset"]), "InferenceSession": lambda the: Ortrain.InferenceSession(linear_model()),
    "IoBinding": lambda the: the["InferenceSession"].bind(), "DataLoader": lambda the: Ortrain.DataLoader(the["Dataset"], 2),
    "Tensor": lambda the: Ortrain.Tensor([1.0, 2.0]), "Storage": lambda the: the["Tensor"].storage,
    "TensorDict": lambda the: Ortrain.TensorDict(batch()), "TensorDataset": lambda the: the["Dataset"],
    "Dataset": lambda the: Ortrain.TensorDataset({"x": np.zeros((4, 4), np.float32)}),
    "Value": lambda the: the["Model"].get_graph().find_value("x"), "Node": lambda the: the["Model"].get_graph().get_nodes()[0],
    "MemoryPlan": lambda the: the["TrainingSession"].memory_plan, "MemoryBlock": lambda the: the["MemoryPlan"].blocks[0],
    "MemoryStep": lambda the: the["MemoryPlan"].steps[0], "CheckReport": lambda the: the["Model"].check(),
    "Checkpoint": lambda the: Ortrain.Checkpoint.new(), "GraphBuilder": lambda the: Ortrain.GraphBuilder.new("x"),
    "Optimizer": lambda the: Ortrain.Sgd(), "Loss": lambda the: Ortrain.MseLoss.new("a", "b"),
}


class Objects(dict):
    """An instance of the class of that name, the same each time."""

    def __missing__(self, name):
        self[name] = WHOLE[name](self)
        return self[name]


def senseless(type_info, objects):
    """A value of the right type, and no more."""
    tag = GIRepository.type_info_get_tag(type_info)
    if tag in (GIRepository.TypeTag.UTF8, GIRepository.TypeTag.FILENAME):
        return "x"
    if tag in INTEGERS:
        return 1
    if tag in (GIRepository.TypeTag.FLOAT, GIRepository.TypeTag.DOUBLE):
        return 0.5
    if tag == GIRepository.TypeTag.BOOLEAN:
        return True
    if tag == GIRepository.TypeTag.ARRAY:
        element = GIRepository.type_info_get_tag(GIRepository.type_info_get_param_type(type_info, 0))
        return ["x"] if element in (GIRepository.TypeTag.UTF8, GIRepository.TypeTag.FILENAME) else [1]
    if tag != GIRepository.TypeTag.INTERFACE:
        return None
    interface = GIRepository.type_info_get_interface(type_info)
    name = interface.get_name()
    if interface.get_type() == GIRepository.InfoType.ENUM:
        return 1
    if interface.get_type() == GIRepository.InfoType.CALLBACK:
        return lambda *args: None
    if name == "Bytes":
        return GLib.Bytes.new(b"abcd")
    if name == "Variant":
        return GLib.Variant("a{sv}", {})
    if name in WHOLE:
        return objects[name]
    cls = getattr(Ortrain, name, None)
    return GObject.new(cls.__gtype__) if cls is not None and not cls.__gtype__.is_abstract() else None


def methods():
    """(class, method, whether it throws, its arguments' types)"""
    repository = GIRepository.Repository.get_default()
    for i in range(repository.get_n_infos("Ortrain")):
        info = repository.get_info("Ortrain", i)
        if info.get_type() != GIRepository.InfoType.OBJECT or getattr(Ortrain, info.get_name()).__gtype__.is_abstract():
            continue
        for k in range(GIRepository.object_info_get_n_methods(info)):
            method = GIRepository.object_info_get_method(info, k)
            flags, name = GIRepository.function_info_get_flags(method), method.get_name()
            # a DLPack pointer that nobody takes would be a leak of the test's own
            if flags & GIRepository.FunctionInfoFlags.IS_METHOD and not name.endswith("_finish") and name != "to_dlpack":
                arguments = [GIRepository.callable_info_get_arg(method, a) for a in range(GIRepository.callable_info_get_n_args(method))]
                yield info.get_name(), name, bool(flags & GIRepository.FunctionInfoFlags.THROWS), [
                    GIRepository.arg_info_get_type(a) for a in arguments
                    if GIRepository.arg_info_get_direction(a) != GIRepository.Direction.OUT]


def call_all(mode):
    """Prints each call before it is made; the last line has the number of calls, and those that should have failed."""
    n, silent = 0, []
    for owner, name, throws, types in methods():
        print(owner, name, flush=True)
        objects = Objects()
        instance = objects[owner] if mode != "half" and owner in WHOLE else GObject.new(getattr(Ortrain, owner).__gtype__)
        if mode == "disposed":
            instance.run_dispose()
        arguments = [senseless(type_info, objects) for type_info in types]
        failed = False
        while True:     # lengths of arrays are no arguments in Python: fewer, until the number is right
            try:
                getattr(instance, name)(*arguments)
            except TypeError:
                if arguments:
                    arguments.pop()
                    continue
            except (GLib.Error, ValueError):
                failed = True
            break
        while GLib.MainContext.default().iteration(False):
            pass
        if mode == "half" and throws and owner in NEED_A_CONSTRUCTOR and not failed:
            silent.append(f"{owner}.{name}")
        n += 1
    print("called", n, *silent)


class Misuse(unittest.TestCase):
    def check(self, mode):
        environment = {name: value for name, value in os.environ.items() if name != "G_DEBUG"}     # criticals are the point
        where = os.path.join(folder, mode)
        os.mkdir(where)
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--call", mode], capture_output=True, text=True, cwd=where,
                              env=environment, timeout=240)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 0, f"died in {lines[-1:]}\n{done.stderr[-3000:]}")
        self.assertRegex(lines[-1], r"^called \d+$")
        self.assertGreater(int(lines[-1].split()[1]), 400)

    def test_half_made(self):
        self.check("half")

    def test_disposed(self):
        self.check("disposed")

    def test_senseless(self):
        self.check("whole")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--call"]:
        call_all(sys.argv[2])
    else:
        main()
