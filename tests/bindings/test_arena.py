# SPDX-License-Identifier: LGPL-2.1-or-later
"""The allocator of a device, and sessions that allocate from one."""
import os
import unittest

from gi.repository import GLib
from ortrain_tap import Ortrain, main

MIB = 1 << 20


def device():
    name = os.environ.get("ORTRAIN_PROVIDER", "cpu")
    return next(device for device in Ortrain.Device.list() if device.props.name == name)


class Arena(unittest.TestCase):
    def test_statistics(self):
        arena = Ortrain.Arena.new(device())
        self.assertEqual(arena.get_device().get_name(), device().get_name())
        first, second = arena.allocate(1000), arena.allocate(3 * MIB)
        reserved = arena.reserve(5000)
        statistics = arena.get_statistics()
        self.assertIsInstance(statistics, Ortrain.ArenaStatistics)
        self.assertEqual((statistics.bytes_in_use, statistics.total_allocated_bytes), (1024 + 4 * MIB + 5000, 5 * MIB + 5000))
        self.assertEqual((statistics.num_allocs, statistics.num_reserves, statistics.num_arena_extensions), (3, 1, 2))
        self.assertEqual((statistics.max_alloc_size, statistics.bytes_limit), (3 * MIB, 0))
        for address in first, second, reserved:
            self.assertTrue(arena.release(address))
            self.assertFalse(arena.release(address))
        self.assertEqual(arena.shrink(), 4 * MIB)
        after = arena.get_statistics().copy()
        self.assertEqual((after.bytes_in_use, after.total_allocated_bytes, after.num_arena_shrinkages), (0, MIB, 1))
        self.assertEqual((after.max_bytes_in_use, after.max_total_allocated_bytes), (1024 + 4 * MIB + 5000, 5 * MIB + 5000))
        self.assertEqual((after.largest_free_bytes, statistics.num_arena_shrinkages), (MIB, 0))

    def test_options(self):
        arena = Ortrain.Arena(device=device(), extend_strategy=Ortrain.ArenaExtendStrategy.SAME_AS_REQUESTED, max_mem=2 * MIB)
        arena.allocate(MIB)
        self.assertEqual(arena.get_statistics().total_allocated_bytes, MIB)
        with self.assertRaisesRegex(GLib.Error, "cannot allocate 1.50 MiB, with 1.00 MiB held, 1.00 MiB of them in use, "
                                                "the largest free piece 0 B: the limit is 2.00 MiB"):
            arena.allocate(3 * MIB // 2)
        arena.allocate(MIB)


if __name__ == "__main__":
    main()
