#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How the models of the tests train in 16 bits: the loss after some steps beside float32's, as a table.

    meson devenv -C _build tests/bench/precision.py [--steps 200] [--optimizer adamw] [NAME...]

Options are those of each model's fixture.json; the loss is the mean over the last round of its batches."""
import argparse
import json
import pathlib

import gi

gi.require_version("Ortrain", "1.0")
from gi.repository import Ortrain

fixtures = pathlib.Path(__file__).resolve().parent.parent / "data" / "fixtures"
precisions = {"f32": Ortrain.Precision.F32, "bf16": Ortrain.Precision.BF16, "fp16": Ortrain.Precision.FP16}


def make_session(folder, spec, optimizer, precision):
    settings = spec["optimizers"][optimizer]
    rule = (Ortrain.Sgd(learning_rate=settings["lr"], momentum=settings["momentum"], nesterov=settings.get("nesterov", False))
            if optimizer == "sgd" else
            Ortrain.AdamW(learning_rate=settings["lr"], beta1=settings["betas"][0], beta2=settings["betas"][1],
                          epsilon=settings["eps"], weight_decay=settings["weight_decay"]))
    options = Ortrain.TrainingOptions(optimizer=rule, max_grad_norm=spec["clip_global_norm"], precision=precision)
    options.set_trainable(spec["trainable"])
    options.batch_norm = Ortrain.BatchNormMode.TRAIN if spec["batch_norm"] == "train" else Ortrain.BatchNormMode.FROZEN
    for first, second in spec["tied"]:
        options.tie(first, second)
    for name, row in spec.get("padding_rows", {}).items():
        options.set_padding_row(name, row)
    for loss in spec["losses"]:
        names = dict(output=loss["output"], target=loss["output"] + ".target", weight=loss["weight"])
        kind = loss["kind"]
        options.add_loss(Ortrain.CrossEntropyLoss(axis=1 if kind == "cross-entropy-spatial" else -1, ignore_index=-100, **names)
                         if kind.startswith("cross-entropy")
                         else {"mse": Ortrain.MseLoss, "l1": Ortrain.L1Loss, "huber": Ortrain.HuberLoss,
                               "bce-with-logits": Ortrain.BceWithLogitsLoss}[kind](**names))
    return Ortrain.TrainingSession(Ortrain.Model(str(folder / spec["model"])), options)


def train(folder, spec, feeds, optimizer, precision, steps):
    session, losses = make_session(folder, spec, optimizer, precision), []
    for step in range(steps):
        losses.append(session.train_step(feeds[step % len(feeds)]))
        session.optimizer_step()
    return sum(losses[-len(feeds):]) / len(feeds), session.n_overflows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--optimizer", default="adamw", choices=["adamw", "sgd"])
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    print(f"| model | first loss | f32 after {args.steps} | bf16 | ratio | fp16 | ratio | overflows |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for folder in sorted(f for f in fixtures.iterdir() if (f / "fixture.json").exists()):
        if args.names and folder.name not in args.names:
            continue
        spec = json.loads((folder / "fixture.json").read_text())
        feeds = [{} for _ in range(spec["batches"])]
        for key, tensor in Ortrain.TensorDict.new_from_safetensors(str(folder / "data.safetensors")).items():
            _, index, kind, name = key.split(".", 3)
            feeds[int(index)][name + (".target" if kind == "target" else "")] = tensor
        first, _ = train(folder, spec, feeds, args.optimizer, precisions["f32"], len(feeds))
        f32, _ = train(folder, spec, feeds, args.optimizer, precisions["f32"], args.steps)
        bf16, _ = train(folder, spec, feeds, args.optimizer, precisions["bf16"], args.steps)
        fp16, overflows = train(folder, spec, feeds, args.optimizer, precisions["fp16"], args.steps)
        print(f"| {folder.name} | {first:.4f} | {f32:.5f} | {bf16:.5f} | {bf16 / f32:.4f} | {fp16:.5f} | {fp16 / f32:.4f} | {overflows} |", flush=True)


if __name__ == "__main__":
    main()
