# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the reference says of everything: test_documented.py ORTRAIN.gir."""
import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
from tap import main

CORE = "{http://www.gtk.org/introspection/core/1.0}"
GLIB = "{http://www.gtk.org/introspection/glib/1.0}"
namespace = xml.etree.ElementTree.parse(sys.argv.pop(1)).getroot().find(CORE + "namespace")


def types():
    for kind in ("class", "record", "interface"):
        for element in namespace.findall(CORE + kind):
            if GLIB + "is-gtype-struct-for" not in element.attrib:
                yield element


def text_of(element):
    doc = element.find(CORE + "doc")
    return doc.text if doc is not None else ""


class Documented(unittest.TestCase):
    def test_examples(self):
        """Every class has an example."""
        found = list(types())
        self.assertGreater(len(found), 50)
        self.assertEqual([element.get("name") for element in found if "```" not in text_of(element)], [])

    def test_defaults(self):
        """Every property that can be set says what it is when nobody sets it."""
        settable = [(f"{element.get('name')}:{prop.get('name')}", text_of(prop)) for element in types()
                    for prop in element.findall(CORE + "property") if prop.get("writable") == "1"]
        self.assertGreater(len(settable), 100)
        self.assertEqual([name for name, text in settable if "Default" not in text and "default" not in text], [])

    def test_described(self):
        """Every function, method and signal, each parameter and what is returned."""
        missing = []
        for element in [namespace, *types()]:
            for kind in ("function", "constructor", "method", GLIB + "signal"):
                for member in element.findall(kind if kind.startswith("{") else CORE + kind):
                    name = f"{element.get('name')}.{member.get('name')}"
                    parameters = member.find(CORE + "parameters")
                    described = [member, *(parameters.findall(CORE + "parameter") if parameters is not None else [])]
                    result = member.find(CORE + "return-value")
                    if result.find(CORE + "type") is None or result.find(CORE + "type").get("name") != "none":
                        described.append(result)
                    missing += [f"{name} ({part.get('name') or 'returned'})" for part in described if not text_of(part)]
        self.assertEqual(missing, [])

    def test_pages(self):
        """Every page has the title that the front page lists it by."""
        pages = sorted((here.parent.parent / "doc").glob("*.md"))
        self.assertGreater(len(pages), 10)
        titles = [re.match(r"Title: (.+)\n\n# (.+)\n", page.read_text()) for page in pages]
        self.assertEqual([page.name for page, title in zip(pages, titles) if not title or title[1] != title[2]], [])


main()
