#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Loss curves with the optimizer's state in float32 and in 8 bits, on the same batches from the same weights.

    meson devenv -C _build python3 tests/bench/state_precision.py [--steps N] [--only NAMES] [--json FILE]

Three models: one of language, of the letters of this tree's documents; a classifier of texts, which says from which document
some letters are; a classifier of pictures, of patterns in noise. Each is trained with AdamW, with Sgd with momentum and with
Lamb. A line has means of the last twenty losses before a step: float32, 8 bits, their distance, and, to compare with, how far
float32 itself is off when batches come in another order.
"""
import argparse
import json
import pathlib

import gi
import numpy as np

gi.require_version("Ortrain", "1.0")
from gi.repository import Ortrain  # noqa: E402

DOCUMENTS = sorted((pathlib.Path(__file__).parents[2] / "doc").glob("*.md"))
LETTERS = [path.read_bytes() for path in DOCUMENTS]


def language(rng, batch=16, length=64):
    text = np.frombuffer(b"".join(LETTERS), np.uint8).astype(np.int64) % 128
    starts = rng.integers(0, len(text) - length - 1, batch)
    rows = np.stack([text[s:s + length + 1] for s in starts])
    return {"input_ids": rows[:, :-1].copy(), "labels": rows[:, 1:].copy()}


def documents(rng, batch=16, length=64):
    labels = rng.integers(0, len(LETTERS), batch)
    rows = []
    for label in labels:
        text = np.frombuffer(LETTERS[label], np.uint8).astype(np.int64) % 128
        start = rng.integers(0, len(text) - length)
        rows.append(text[start:start + length])
    return {"input_ids": np.stack(rows), "labels": labels}


PATTERNS = np.random.default_rng(7).standard_normal((10, 1, 28, 28)).astype(np.float32)


def pictures(rng, batch=32):
    labels = rng.integers(0, 10, batch)
    noise = rng.standard_normal((batch, 1, 28, 28)).astype(np.float32)
    return {"image": 0.08 * PATTERNS[labels] + noise, "labels": labels}


MODELS = {
    "gpt": (lambda: Ortrain.GraphBuilder.new_gpt(None, 128, 64, 128, 2, 4, 1), language),
    "bert": (lambda: Ortrain.GraphBuilder.new_bert(None, 128, 64, 128, 2, 4, len(LETTERS), 1), documents),
    "cnn": (lambda: Ortrain.GraphBuilder.new_cnn(None, 1, 28, 28, 10, 1), pictures),
}
OPTIMIZERS = {
    "adamw": lambda **more: Ortrain.AdamW(learning_rate=1e-3, **more),
    "momentum": lambda **more: Ortrain.Sgd(learning_rate=0.02, momentum=0.9, **more),
    "lamb": lambda **more: Ortrain.Lamb(learning_rate=5e-3, **more),
}


def train(name, optimizer, steps, seed, precision):
    make, draw = MODELS[name]
    model = make().build()
    output = model.get_graph().get_outputs()[0].get_name()
    options = Ortrain.TrainingOptions(optimizer=OPTIMIZERS[optimizer](state_precision=precision), max_grad_norm=1.0)
    options.add_loss(Ortrain.CrossEntropyLoss.new(output, "labels"))
    session = Ortrain.TrainingSession.new(model, options)
    rng, losses = np.random.default_rng(seed), []
    for _ in range(steps):
        feeds = draw(rng)
        name = model.get_graph().get_inputs()[0].get_name()
        losses.append(session.train_step({name: next(iter(feeds.values())), "labels": feeds["labels"]}))
        session.optimizer_step()
    return losses, session.get_memory_report().state


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results = {}
    print("model  optimizer  state f32 / int8 (bytes)   step   float32  8 bits  distance  other order")
    for name in arguments.only.split(","):
        for optimizer in OPTIMIZERS:
            wide, wide_bytes = train(name, optimizer, arguments.steps, 1, Ortrain.StatePrecision.F32)
            narrow, narrow_bytes = train(name, optimizer, arguments.steps, 1, Ortrain.StatePrecision.INT8)
            other, _ = train(name, optimizer, arguments.steps, 2, Ortrain.StatePrecision.F32)
            results[f"{name}/{optimizer}"] = {"f32": wide, "int8": narrow, "other": other}
            for step in sorted({arguments.steps // 10, arguments.steps // 4, arguments.steps // 2, arguments.steps}):
                a, b, c = (float(np.mean(x[max(step - 20, 0):step])) for x in (wide, narrow, other))
                print(f"{name:5}  {optimizer:9}  {wide_bytes:9} / {narrow_bytes:9}  {step:9}   {a:7.4f} {b:7.4f}  {b - a:+8.4f}  "
                      f"{c - a:+8.4f}", flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
