# SPDX-License-Identifier: LGPL-2.1-or-later
"""The allocator of a device, and sessions that allocate from one."""
import os
import unittest

import numpy as np
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


def session(**options):
    model = Ortrain.GraphBuilder.new_gpt("gpt", 64, 32, 32, 2, 2, 1).build()
    return Ortrain.TrainingSession.new(model, Ortrain.TrainingOptions(
        losses=[Ortrain.CrossEntropyLoss.new("logits", "targets")], optimizer=Ortrain.AdamW(learning_rate=0.01),
        **options))


def feeds(length):
    numbers = np.random.default_rng(length).integers(0, 64, (2, 4, length))
    return {"input_ids": numbers[0], "targets": numbers[1]}


def losses(session):
    found = []
    for i in range(12):
        found.append(session.train_step(feeds(5 + i * 7 % 12 * 2)))
        session.optimizer_step()
    return found


class MemoryPattern(unittest.TestCase):
    def test_options(self):
        for kind in Ortrain.TrainingOptions, Ortrain.SessionOptions:
            options = kind()
            self.assertTrue(options.get_memory_pattern())
            options.set_memory_pattern(False)
            options.set_arena_config("max_mem=1GiB")
            self.assertEqual((options.props.memory_pattern, options.get_arena_config()), (False, "max_mem=1GiB"))

    def test_same_results(self):
        planned = session()
        expected = losses(planned)
        self.assertIsNone(planned.get_arena_statistics())
        for config in None, "arena_extend_strategy=kSameAsRequested,shrink=1":
            other = session(memory_pattern=False, arena_config=config)
            self.assertEqual(losses(other), expected)
            statistics = other.get_arena_statistics()
            self.assertEqual(statistics.bytes_in_use, 0)
            self.assertGreater(statistics.max_bytes_in_use, 0)
            report = other.get_memory_report()
            self.assertEqual(report.cached, report.allocated + report.inactive)
            self.assertEqual(statistics.num_arena_shrinkages > 0, config is not None)

    def test_limit(self):
        small = session(memory_pattern=False, arena_config="max_mem=400KiB")
        with self.assertRaisesRegex(GLib.Error, "The values of a step: Arena of the device .*: the limit is 400 KiB"):
            small.train_step(feeds(32))
        self.assertEqual(small.train_step(feeds(4)), session().train_step(feeds(4)))

    def test_inference(self):
        model = Ortrain.GraphBuilder.new_gpt("gpt", 64, 32, 32, 2, 2, 1).build()
        options = Ortrain.SessionOptions(memory_pattern=False)
        planned, other = Ortrain.InferenceSession(model), Ortrain.InferenceSession(model, options)
        for length in 4, 9, 32, 4:
            x = {"input_ids": feeds(length)["input_ids"]}
            np.testing.assert_array_equal(other.run(x)["logits"].numpy(), planned.run(x)["logits"].numpy())
        self.assertIsNone(planned.get_arena_statistics())
        self.assertGreater(other.get_arena_statistics().num_allocs, 0)


if __name__ == "__main__":
    main()
