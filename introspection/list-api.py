#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Lists the public API that a .gir describes, one name per line, so that a review sees what changes.

    list-api.py Ortrain-1.0.gir api.txt             compares; exit status 1 if something is gone, or not what it was; what
                                                    is new is only told
    list-api.py Ortrain-1.0.gir api.txt --write     writes the list
"""
import sys
import xml.etree.ElementTree as ElementTree

CORE = "{http://www.gtk.org/introspection/core/1.0}"
GLIB = "{http://www.gtk.org/introspection/glib/1.0}"


def type_of(element):
    for child in element:
        if child.tag == CORE + "type":
            return child.get("name")
        if child.tag == CORE + "array":
            return "array of " + type_of(child)
        if child.tag == CORE + "varargs":
            return "…"
    return "none"


def how(element):
    """Direction, ownership and nullability: what bindings depend on."""
    words = [element.get("direction", "in")] if element.get("direction", "in") != "in" else []
    if element.get("transfer-ownership", "none") != "none":
        words.append(element.get("transfer-ownership"))
    if element.get("nullable") == "1" or element.get("allow-none") == "1" and not words[:1] == ["out"]:
        words.append("nullable")
    return f" ({', '.join(words)})" if words else ""


def call(element):
    found = element.find(CORE + "parameters")
    parameters = [] if found is None else [
        f"{p.get('name')}: {type_of(p)}{how(p)}" for p in found if p.tag == CORE + "parameter"]
    result = element.find(CORE + "return-value")
    throws = " throws" if element.get("throws") == "1" else ""
    return f"({', '.join(parameters)}) → {type_of(result)}{how(result)}{throws}"


def members(owner, element):
    for child in element:
        kind, name = child.tag.rpartition("}")[2], child.get("name")
        if child.get("introspectable") == "0" or child.get("private") == "1" or child.get("moved-to"):
            continue
        if kind in ("constructor", "function", "method", "virtual-method", "signal"):
            yield f"{owner}.{name} {kind} {call(child)}"
        elif kind == "property":
            words = [w for w in ("writable", "construct-only") if child.get(w) == "1"]
            yield f"{owner}.{name} property {type_of(child)}{' ' if words else ''}{' '.join(words)}"
        elif kind == "field" and element.tag == CORE + "record":
            yield f"{owner}.{name} field {type_of(child)}"
        elif kind == "member":
            yield f"{owner}.{name} member {child.get('value')}"
        elif kind == "implements":
            yield f"{owner} implements {name}"


def api(path):
    namespace = ElementTree.parse(path).getroot().find(CORE + "namespace")
    for element in namespace:
        kind, name = element.tag.rpartition("}")[2], element.get("name")
        if element.get("introspectable") == "0" or element.get(GLIB + "is-gtype-struct-for") or element.get("moved-to"):
            continue
        if kind in ("class", "record", "interface", "enumeration", "bitfield"):
            parent = f" : {element.get('parent')}" if element.get("parent") else ""
            yield f"{name} {kind}{parent}"
            yield from members(name, element)
        elif kind == "function":
            yield f"{name} function {call(element)}"
        elif kind == "constant" and not name.endswith("_ENCODED"):
            yield f"{name} constant"


lines = [line + "\n" for line in sorted(set(api(sys.argv[1])))]
if "--write" in sys.argv:
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.writelines(lines)
else:
    with open(sys.argv[2], encoding="utf-8") as file:
        expected = file.readlines()
    sys.stdout.writelines("gone: " + line for line in expected if line not in lines)
    sys.stdout.writelines("new: " + line for line in lines if line not in expected)
    sys.exit(0 if set(expected) <= set(lines) else 1)
