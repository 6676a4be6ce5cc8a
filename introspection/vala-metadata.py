#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Generates the last part of the metadata that vapigen reads: properties that can be NULL, which a .gir cannot express and which
are derived from their accessors; and default values of the cancellables of asynchronous methods.

    vala-metadata.py Ortrain-1.0.gir Ortrain-1.0.metadata             compares; exit status 1 where they differ
    vala-metadata.py Ortrain-1.0.gir Ortrain-1.0.metadata --write     writes that part of the metadata
"""
import sys
import xml.etree.ElementTree as ElementTree

CORE = "{http://www.gtk.org/introspection/core/1.0}"
MARK = "// vala-metadata.py writes what follows.\n"


def nullable(element):
    return element is not None and element.get("nullable") == "1"


def found(path):
    for owner in ElementTree.parse(path).getroot().find(CORE + "namespace"):
        methods = {method.get("name"): method for method in owner.findall(CORE + "method")}
        lines = []
        for item in owner.findall(CORE + "property"):
            name = item.get("name").replace("-", "_")
            getter = methods.get(item.get("getter", f"get_{name}"))
            setter = methods.get(item.get("setter", f"set_{name}"))
            if (getter is not None and nullable(getter.find(CORE + "return-value"))
                    or setter is not None and nullable(setter.find(f"{CORE}parameters/{CORE}parameter"))):
                lines.append(f"  .{name}#property nullable\n")
        functions = {function.get("name"): function for function in owner.findall(CORE + "function")} | methods
        for name, function in functions.items():
            names = [parameter.get("name") for parameter in function.findall(f"{CORE}parameters/{CORE}parameter")]
            finish = functions.get(name.replace("_async", "_finish"))
            out = finish is not None and any(p.get("direction") == "out" for p in finish.iter(CORE + "parameter"))
            if name.endswith("_async") and not name.startswith("new_") and "cancellable" in names and not out:
                lines.append(f"  .{name}.cancellable default=null\n")
        if lines:
            yield f"{owner.get('name')}\n" + "".join(sorted(lines))


before, mark, written = open(sys.argv[2]).read().partition(MARK)
wanted = "".join(found(sys.argv[1]))
if sys.argv[3:] == ["--write"]:
    open(sys.argv[2], "w").write(before + MARK + wanted)
elif written != wanted:
    missing, more = set(wanted.splitlines()) - set(written.splitlines()), set(written.splitlines()) - set(wanted.splitlines())
    print(f"{sys.argv[2]}: the part that is written differs; missing: {sorted(missing)}, too many: {sorted(more)}: run {sys.argv[0]} with --write")
    sys.exit(1)
