# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where things are: in the source, or in a bundle, which has the same folders below it."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent  # of the program
IS_BUNDLE = (HERE / "bundle").is_dir()
ROOT = HERE if IS_BUNDLE else HERE.parent
sys.path.insert(0, str(ROOT / "tests" / "bench"))
# ONNX's operator tests, of Debian's libonnx-testdata; in a bundle they lie beside the program.
ONNX_DATA = ROOT / "onnx-tests" if IS_BUNDLE else pathlib.Path("/usr/share/libonnx-testdata/data")
ONNX_FOLDERS = ("node", "simple", "pytorch-operator", "pytorch-converted")
