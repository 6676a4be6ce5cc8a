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


class Coverage(unittest.TestCase):
    def check(self, pattern, spelled):
        text = "\n".join(path.read_text() for path in here.glob(pattern))
        missing = [name for name in classes() if not re.search(spelled.format(name), text)]
        self.assertEqual(missing, [], f"no test in {pattern} names these")

    def test_there_are_classes(self):
        self.assertGreater(len(list(classes())), 40)

    def test_python(self):
        self.check("*.py", r"\bOrtrain\.{}\b")

    def test_gjs(self):
        self.check("*.js", r"\bOrtrain\.{}\b")

    def test_vala(self):
        self.check("*.vala", r"\b(Ortrain\.)?{}\b")


if __name__ == "__main__":
    main()
