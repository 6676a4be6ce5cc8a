# SPDX-License-Identifier: LGPL-2.1-or-later
"""A memory budget: kept or refused, with the same results; the largest batch that fits."""
import json
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, main


def session(**options):
    model = Ortrain.GraphBuilder.new_gpt("gpt", 64, 32, 32, 4, 2, 1).build()
    return Ortrain.TrainingSession.new(model, Ortrain.TrainingOptions(
        losses=[Ortrain.CrossEntropyLoss.new("logits", "targets")], optimizer=Ortrain.AdamW(learning_rate=0.01),
        **options))


def feeds(seed=0, batch=8):
    numbers = np.random.default_rng(seed).integers(0, 64, (2, batch, 32))
    return {"input_ids": numbers[0], "targets": numbers[1]}


def losses(session):
    found = []
    for i in range(5):
        found.append(session.train_step(feeds(i)))
        session.optimizer_step()
    return found


class Budget(unittest.TestCase):
    def test_text(self):
        self.assertEqual(Ortrain.parse_bytes("1.5GiB"), 3 << 29)
        self.assertEqual(Ortrain.format_bytes(3 << 29), "1.50 GiB")
        with self.assertRaisesRegex(GLib.Error, "'much' is no number of bytes, like 1.5GiB, 800MB or 65536"):
            Ortrain.parse_bytes("much")

    def test_options(self):
        for kind in Ortrain.TrainingOptions, Ortrain.SessionOptions:
            options = kind(memory_budget=1000)
            self.assertEqual(options.get_memory_budget(), 1000)
            options.set_memory_budget(0)
            self.assertEqual(options.props.memory_budget, 0)

    def test_kept(self):
        whole = session()
        expected = losses(whole)
        plan = whole.get_memory_plan()
        budget = plan.persistent_bytes + plan.arena_bytes * 3 // 4
        tight = session(memory_budget=budget)
        self.assertEqual(losses(tight), expected)
        self.assertLessEqual(tight.get_memory_plan().peak_bytes, budget)
        self.assertGreater(tight.get_memory_plan().get_n_recomputed_steps(), plan.get_n_recomputed_steps())
        self.assertGreater(tight.get_memory_plan().get_flops(), plan.get_flops())

    def test_offload(self):
        options = Ortrain.TrainingOptions(offload=Ortrain.Offload.ON, offload_folder="/somewhere")
        self.assertEqual((options.get_offload(), options.get_offload_folder()), (Ortrain.Offload.ON, "/somewhere"))
        options.set_offload(Ortrain.Offload.AUTO)
        options.set_offload_folder(None)
        self.assertEqual((options.props.offload, options.props.offload_folder), (Ortrain.Offload.AUTO, None))
        whole = session()
        expected = losses(whole)
        plan = whole.get_memory_plan()
        self.assertEqual(plan.offloaded_bytes, 0)
        smallest = {}
        for offload in Ortrain.Offload.OFF, Ortrain.Offload.ON:
            below, percent = 0, 100     # what is met at a budget is met at each that is larger
            while percent - below > 1:
                middle = (below + percent) // 2
                try:
                    budget = plan.persistent_bytes + plan.arena_bytes * middle // 100
                    smallest[offload] = budget, session(memory_budget=budget, offload=offload).plan(feeds())
                    percent = middle
                except GLib.Error:
                    below = middle
        budget, offloaded = smallest[Ortrain.Offload.ON]
        self.assertLess(budget, smallest[Ortrain.Offload.OFF][0])
        self.assertGreater(offloaded.get_offloaded_bytes(), 0)
        self.assertIn("offloaded  ", str(offloaded))
        data = json.loads(offloaded.to_json())
        self.assertEqual(sum(value["bytes"] for value in data["offload"]), data["offloaded_bytes"])
        self.assertEqual(losses(session(memory_budget=budget, offload=Ortrain.Offload.ON)), expected)

    def test_refused(self):
        with self.assertRaises(GLib.Error) as raised:
            session(memory_budget=1 << 10).train_step(feeds())
        self.assertTrue(raised.exception.matches(Ortrain.plan_error_quark(), Ortrain.PlanError.BUDGET))
        with self.assertRaisesRegex(GLib.Error, "The plan needs .*, the budget is 1.00 KiB"):
            Ortrain.InferenceSession.new(Ortrain.GraphBuilder.new_gpt("gpt", 64, 32, 32, 4, 2, 1).build(),
                                         Ortrain.SessionOptions(memory_budget=1 << 10)).run({"input_ids": feeds()["input_ids"]})

    def test_batches(self):
        s = session()
        peaks = [s.plan_batch(feeds(), batch, 0).peak_bytes for batch in (1, 8, 64)]
        self.assertEqual(peaks, sorted(peaks))
        self.assertEqual(peaks[1], s.plan(feeds()).peak_bytes)
        most = s.max_batch(feeds(), peaks[2])
        self.assertGreaterEqual(most, 64)
        self.assertLessEqual(s.plan_batch(feeds(), most, peaks[2]).peak_bytes, peaks[2])
        with self.assertRaises(GLib.Error):
            s.plan_batch(feeds(), most + 1, peaks[2])
        self.assertEqual(s.max_batch(feeds(), 1), 0)


if __name__ == "__main__":
    main()
