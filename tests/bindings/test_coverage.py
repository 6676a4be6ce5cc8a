# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every class of the typelib is named by a test in each language."""
import pathlib
import re
import unittest

import gi
from ortrain_tap import main

gi.require_version("GIRepository", "2.0")
from gi.repository import GIRepository

here = pathlib.Path(__file__).resolve().parent


def classes():
    """Objects and boxed types that users meet; class structures are not among them."""
    repository = GIRepository.Repository.get_default()
    for i in range(repository.get_n_infos("Ortrain")):
        info = repository.get_info("Ortrain", i)
        if info.get_type() == GIRepository.InfoType.OBJECT:
            yield info.get_name()
        elif info.get_type() in (GIRepository.InfoType.STRUCT, GIRepository.InfoType.BOXED):
            if not GIRepository.struct_info_is_gtype_struct(info):
                yield info.get_name()


def own_members():
    """{class: names of its own methods, properties and signals}"""
    repository, found = GIRepository.Repository.get_default(), {}
    for i in range(repository.get_n_infos("Ortrain")):
        info = repository.get_info("Ortrain", i)
        if info.get_type() == GIRepository.InfoType.OBJECT:
            methods = {GIRepository.object_info_get_method(info, k).get_name() for k in range(GIRepository.object_info_get_n_methods(info))}
            properties = {GIRepository.object_info_get_property(info, k).get_name() for k in range(GIRepository.object_info_get_n_properties(info))}
            signals = {GIRepository.object_info_get_signal(info, k).get_name() for k in range(GIRepository.object_info_get_n_signals(info))}
            found[info.get_name()] = {name.replace("-", "_") for name in methods | properties | signals
                                      if not name.startswith("new")} - {"to_string"}
    return found


def functions():
    """(class, name) of what a user calls."""
    repository = GIRepository.Repository.get_default()
    for i in range(repository.get_n_infos("Ortrain")):
        info = repository.get_info("Ortrain", i)
        kind = info.get_type()
        if kind == GIRepository.InfoType.FUNCTION:
            if not info.get_name().startswith("dtype_"):     # these are functions of DType, too
                yield "Ortrain", info.get_name()
            continue
        if kind == GIRepository.InfoType.OBJECT:
            properties = {GIRepository.object_info_get_property(info, k).get_name().replace("-", "_")
                          for k in range(GIRepository.object_info_get_n_properties(info))}
            methods = [GIRepository.object_info_get_method(info, k) for k in range(GIRepository.object_info_get_n_methods(info))]
        elif kind in (GIRepository.InfoType.STRUCT, GIRepository.InfoType.BOXED) and not GIRepository.struct_info_is_gtype_struct(info):
            properties = set()
            methods = [GIRepository.struct_info_get_method(info, k) for k in range(GIRepository.struct_info_get_n_methods(info))]
        else:
            continue
        for method in methods:
            name = method.get_name()
            accessor = name[:4] in ("get_", "set_") and name[4:] in properties
            if not accessor and not name.endswith("_finish") and name not in ("free", "to_string"):
                yield info.get_name(), name


class Coverage(unittest.TestCase):
    def check(self, pattern, spelled):
        text = "\n".join(path.read_text() for path in here.glob(pattern))
        missing = [name for name in classes() if not re.search(spelled.format(name), text)]
        self.assertEqual(missing, [], f"no test in {pattern} names these")

    def check_members(self, pattern):
        """Something of each class's own, not of its parents, is used by a test."""
        text = "\n".join(path.read_text() for path in here.glob(pattern))
        unused = []
        for owner, members in own_members().items():
            names = "|".join(re.escape(name).replace("_", "[_-]") for name in sorted(members))
            if members and not re.search(rf"(?:\.|\b)(?:{names})\b", text):
                unused.append(owner)
        self.assertEqual(unused, [], f"no test in {pattern} uses anything of these")

    def test_members(self):
        for pattern in ("*.py", "*.js", "*.vala"):
            with self.subTest(pattern):
                self.check_members(pattern)

    def test_there_are_classes(self):
        self.assertGreater(len(list(classes())), 40)

    def test_python(self):
        self.check("*.py", r"\bOrtrain\.{}\b")

    def test_gjs(self):
        self.check("*.js", r"\bOrtrain\.{}\b")

    def test_every_function(self):
        """Python's tests call every method and function by its name. test_properties has the getters and setters; the
        second halves of asynchronous pairs are called by the override."""
        overrides = here.parent.parent / "bindings" / "python" / "gi" / "overrides"
        text = "\n".join(path.read_text() for path in [*here.glob("*.py"), *overrides.glob("**/*.py")])
        missing, n = [], 0
        for owner, name in functions():
            n += 1
            if not re.search(rf"\.{name}\b", text) and not name.endswith("quark"):      # test_quarks has them all
                missing.append(f"{owner}.{name}")
        self.assertEqual(missing, [])
        self.assertGreater(n, 200)

    def test_vala(self):
        self.check("*.vala", r"\b(Ortrain\.)?{}\b")


if __name__ == "__main__":
    main()
