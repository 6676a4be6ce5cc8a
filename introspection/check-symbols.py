#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a library exports what its .gir describes, and nothing else: a function that lacks its availability macro is
hidden from programs, one that has it by mistake is promised to them.

    check-symbols.py Ortrain-1.0.gir libortrain-1.0.so
"""
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

C = "{http://www.gtk.org/introspection/c/1.0}"
GLIB = "{http://www.gtk.org/introspection/glib/1.0}"
CORE = "{http://www.gtk.org/introspection/core/1.0}"
CALLABLE = {CORE + kind for kind in ("function", "method", "constructor")}

described = set()
for element in ElementTree.parse(sys.argv[1]).iter():
    if element.tag in CALLABLE:
        described.add(element.get(C + "identifier"))
    if element.get(GLIB + "get-type", "intern") != "intern":
        described.add(element.get(GLIB + "get-type"))
lines = subprocess.run(["nm", "--dynamic", "--defined-only", "--format=posix", sys.argv[2]], check=True,
                       capture_output=True, text=True).stdout.splitlines()
exported = {name.partition("@")[0] for name, kind, *_ in map(str.split, lines) if kind != "A"}
exported -= {"_init", "_fini", "_edata", "_end", "__bss_start"}
for name in sorted(described - exported):
    print(f"{name}: in the .gir, and not exported")
for name in sorted(exported - described):
    print(f"{name}: exported, and not in the .gir")
print(f"{len(exported)} symbols exported, {len(described)} described")
sys.exit(not described or exported != described)
