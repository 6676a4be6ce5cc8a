# SPDX-License-Identifier: LGPL-2.1-or-later
"""All modules of PyTorch that are exported and trained: name → Case."""
from pytorch_idioms import IDIOMS
from pytorch_layers import LAYERS

MODULES = LAYERS | IDIOMS
assert len(MODULES) == len(LAYERS) + len(IDIOMS)
