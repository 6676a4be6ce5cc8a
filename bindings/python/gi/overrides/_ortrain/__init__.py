# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of gi/overrides/Ortrain.py, which imports them. Programs import Ortrain from gi.repository."""
