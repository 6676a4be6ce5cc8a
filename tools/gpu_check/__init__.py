# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of tools/gpu-check: in the source, and beside that program in its bundle."""
