#!/usr/bin/python3
"""Draw the memory plan of a training step with matplotlib, from the public objects of the plan alone. Nothing is trained.

    draw_plan.py [--batch N] [--level N] [--milliseconds] [--provider NAME] MODEL.onnx DATA.npz PICTURE.png

DATA.npz holds one array per input of the model, and "labels". The picture may also be an .svg or .pdf. With --level 1, layers
are computed again in the backward pass; what is, is hatched.
"""
import argparse
import math
import sys

import gi
import matplotlib

gi.require_version("Ortrain", "1.0")
matplotlib.use("Agg")   # a file, no window
from gi.repository import GLib, Ortrain
from matplotlib import pyplot
from matplotlib.patches import Patch, Rectangle
from matplotlib.collections import PatchCollection
from matplotlib.ticker import FuncFormatter, MultipleLocator

COLORS = {"activation": "#2ec27e", "temporary": "#f5c211", "gradient": "#e66100", "workspace": "#c01c28",
          "output": "#33c7de", "input": "#62a0ea", "parameter": "#3584e4", "state": "#9141ac", "buffer": "#986a44",
          "constant": "#77767b"}


def plan_step(words):
    """The plan of a training step of the model with one batch of the data."""
    options = Ortrain.TrainingOptions(optimizer=Ortrain.AdamW(learning_rate=1e-3), memory_opt_level=words.level,
                                      immediate_updates=Ortrain.ImmediateUpdates.ON)
    if words.provider:
        options.provider = words.provider
    options.add_loss(Ortrain.CrossEntropyLoss.new("logits", "labels"))
    session = Ortrain.TrainingSession(Ortrain.Model(words.model), options)
    batch = Ortrain.DataLoader(Ortrain.TensorDataset.new_from_npz(words.data), words.batch).next()
    return session.plan(batch)


def draw(plan, axes, in_milliseconds):
    """Blocks as rectangles, live bytes as a line, over steps or over estimated time."""
    steps = list(plan.steps)
    edges = [0.0]   # where each step begins; the last one is the end
    for step in steps:
        edges.append(edges[-1] + (step.milliseconds if in_milliseconds else 1))
    at_peak = {}
    for category, color in COLORS.items():
        for again in (False, True):
            blocks = [block for block in plan.blocks
                      if block.region == "arena" and block.category == category and block.recomputed == again]
            boxes = []
            for block in blocks:
                first, end = max(block.first, 0), min(block.last + 1, len(steps))
                boxes.append(Rectangle((edges[first], block.offset), edges[end] - edges[first], block.bytes))
                is_live = first <= plan.peak_step < end
                at_peak[category] = at_peak.get(category, 0) + (block.bytes if is_live else 0)
            axes.add_collection(PatchCollection(boxes, facecolor=color, edgecolor="white", linewidth=0.4,
                                                hatch="////" if again else None))
    axes.stairs([step.live_bytes for step in steps], edges, baseline=None, color="black", linewidth=1.3)

    for before, after, edge in zip(steps, steps[1:], edges[1:]):
        if before.phase != after.phase:
            axes.axvline(edge, color="#77767b", linestyle="--", linewidth=0.8)
            axes.annotate(after.phase + " →", (edge, 1), (3, 4), xycoords=("data", "axes fraction"),
                          textcoords="offset points", fontsize=9, color="#5e5c64")
    peak = steps[plan.peak_step]
    axes.axvline((edges[plan.peak_step] + edges[plan.peak_step + 1]) / 2, color="#a51d2d", linestyle=":", linewidth=1)
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, plan.arena_bytes * 1.01)
    axes.set_xlabel("milliseconds, estimated" if in_milliseconds else "step")
    axes.yaxis.set_major_locator(MultipleLocator(2 ** int(math.log2(plan.arena_bytes / 4))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: Ortrain.format_bytes(max(int(value), 0))))
    axes.set_title(f"{Ortrain.format_bytes(plan.peak_bytes)} at the peak: arena {Ortrain.format_bytes(plan.arena_bytes)}, "
                   f"persistent {Ortrain.format_bytes(plan.persistent_bytes)}\n", loc="left", fontsize=12, weight="bold")
    entries = [Patch(color=COLORS[category], label=f"{category}, {Ortrain.format_bytes(size)}")
               for category, size in sorted(at_peak.items(), key=lambda item: -item[1])]
    if plan.n_recomputed_steps:
        entries.append(Patch(facecolor="white", edgecolor="black", hatch="////", label="computed again"))
    axes.legend(handles=entries, title=f"live at the peak,\nstep {plan.peak_step}: {peak.operator}", loc="upper left",
                bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9, alignment="left")


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--level", type=int, default=0)
parser.add_argument("--milliseconds", action="store_true")
parser.add_argument("--provider")
parser.add_argument("model")
parser.add_argument("data")
parser.add_argument("picture")
words = parser.parse_args()
try:
    plan = plan_step(words)
except GLib.Error as error:     # the device cannot be used, for one
    sys.exit(error.message)
figure, axes = pyplot.subplots(figsize=(11, 5.2), layout="constrained")
draw(plan, axes, words.milliseconds)
figure.savefig(words.picture, dpi=110)
print(f"{words.picture}: {len(plan.blocks)} blocks, {plan.n_steps} steps, about {plan.milliseconds:.2f} ms")
