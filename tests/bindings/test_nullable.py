#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What can be NULL says so: test_nullable.py ORTRAIN.gir. A compiler that checks for null, as Vala's does, believes it."""
import os
import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree

CORE = "{http://www.gtk.org/introspection/core/1.0}"
C = "{http://www.gtk.org/introspection/c/1.0}"
namespace = xml.etree.ElementTree.parse(sys.argv.pop(1)).getroot().find(CORE + "namespace")

from gi.repository import GLib, GObject  # noqa: E402
from ortrain_tap import Ortrain, main  # noqa: E402
from test_properties import instances, other_value  # noqa: E402

source = pathlib.Path(__file__).resolve().parent.parent.parent
GTYPE = GObject.GType.from_name


def nullable(element):
    return element.get("nullable") == "1"


class Nullable(unittest.TestCase):
    def test_properties(self):
        """Getter and setter agree with each other, and with what happens when NULL is set."""
        classes, n = {element.get("name"): element for element in namespace.findall(CORE + "class")}, 0
        for name, instance in instances().items():
            for pspec in GObject.list_properties(type(instance)):
                kind = pspec.value_type
                if not pspec.flags & GObject.ParamFlags.WRITABLE or pspec.flags & GObject.ParamFlags.CONSTRUCT_ONLY:
                    continue
                if not (kind.is_a(GObject.TYPE_OBJECT) or kind in (GTYPE("GStrv"), GTYPE("GVariant"), GObject.TYPE_STRING)):
                    continue
                with self.subTest(f"{name}:{pspec.name}"):
                    attribute, owner = pspec.name.replace("-", "_"), classes[pspec.owner_type.name.removeprefix("Ortrain")]
                    methods = {method.get("name"): method for method in owner.findall(CORE + "method")}
                    given = nullable(methods[f"get_{attribute}"].find(CORE + "return-value"))
                    taken = nullable(methods[f"set_{attribute}"].find(f"{CORE}parameters/{CORE}parameter"))
                    read = lambda: instance.get_property(pspec.name)
                    first, n = read(), n + 1
                    self.assertTrue(taken or not given, "NULL is given, and not taken")
                    for put in (lambda value: instance.set_property(pspec.name, value), getattr(type(instance).__mro__[0], f"set_{attribute}").__get__(instance)):
                        if not taken:
                            continue
                        put(other_value(pspec, read()))
                        put(None)           # critical messages end the test
                        if not given:
                            self.assertIsNotNone(read(), "NULL is given, and not said to be")
                    if not given:
                        self.assertIsNotNone(first)
        self.assertGreater(n, 30)

    def test_parameters(self):
        """A function that goes on with NULL has an argument that may be NULL."""
        functions = {function.get(C + "identifier"): {p.get("name"): p for p in function.iter(CORE + "parameter")}
                     for kind in ("function", "method", "constructor") for function in namespace.iter(CORE + kind)}
        n = 0
        for path in (source / "libortrain").glob("**/*.c"):
            for name, body in re.findall(r"^(ortrain_\w+) \([^{;]*?\)\n\{\n(.*?)^\}", path.read_text(), re.M | re.S):
                for argument in re.findall(r"g_return\w* \((\w+) == NULL \|\|", body):
                    parameter = functions.get(name, {}).get(argument)
                    if parameter is None or parameter.get("direction", "in") != "in" or argument == "error":
                        continue
                    n += 1
                    self.assertTrue(nullable(parameter), f"{name}: {argument} may be NULL")
        self.assertGreater(n, 15)

    def test_results(self):
        """What returns NULL without an error says so."""
        n = 0
        for kind in ("function", "method", "constructor"):
            for function in namespace.iter(CORE + kind):
                result = function.find(CORE + "return-value")
                doc = result.find(CORE + "doc") if result is not None else None
                if doc is not None and "%NULL" in doc.text and function.get("throws") != "1":
                    n += 1
                    self.assertTrue(nullable(result), function.get(C + "identifier"))
        self.assertGreater(n, 15)


if __name__ == "__main__":
    main()
