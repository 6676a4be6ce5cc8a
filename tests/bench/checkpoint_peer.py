#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""PyTorch with less memory: time of a step and bytes, with checkpoints or with the memory budget of its compiler.

    checkpoint_peer.py MODULE NAME [--batch N] [--seq N] [--threads N] [--steps N] [--way eager|block|root|compile] [--budget F]

MODULE is a Python file with models(), which returns by NAME a tuple of a function that makes the model, and a function of a
batch, a length and a generator that makes its inputs and targets; and loss_of(outputs, targets). `block`: each block of the
model is a checkpoint; `root`: groups of as many blocks as the square root of their number are; `compile`: torch.compile with
activation_memory_budget F. AdamW, fused. Prints one JSON object, as beside.py reads it. By hand, never as a test."""
import argparse
import importlib.util
import json
import math
import os
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

LEAST_BLOCKS = 3


class Group(nn.Module):
    """Consecutive blocks as one checkpoint: the backward pass recomputes them together."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        for name in ("attention_type", "layer_type"):  # the model's loop over its blocks may read these
            if hasattr(blocks[0], name):
                setattr(self, name, getattr(blocks[0], name))

    def run(self, x, *rest, **named):
        for block in self.blocks:
            result = block(x, *rest, **named)
            x = result[0] if isinstance(result, tuple) else result
        return result if len(self.blocks) == 1 or not isinstance(result, tuple) else (x, *result[1:])

    def forward(self, x, *rest, **named):
        return checkpoint(self.run, x, *rest, use_reentrant=False, **named)


def find_lists(model):
    """The lists of blocks: one of a transformer's layers, or those of a CNN's stages, which follow each other."""
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, (nn.ModuleList, nn.Sequential)) and len(m) > 1
             and all(sum(1 for _ in child.modules()) > 3 for child in m)]
    outer = [(name, m) for name, m in lists if not any(name.startswith(other + ".") for other, _ in lists if other != name)]
    most = max(len(m) for _, m in outer)
    return [(name, m) for name, m in outer if isinstance(m, nn.Sequential)] or [(n, m) for n, m in outer if len(m) == most][:1]


def put(model, name, module):
    owner = model.get_submodule(name.rpartition(".")[0])
    setattr(owner, name.rpartition(".")[2], module)


def add_checkpoints(model, way):
    lists = find_lists(model)
    blocks = [block for _, each in lists for block in each]
    size = 1 if way == "block" else max(1, round(math.sqrt(len(blocks))))
    groups = [Group(blocks[i:i + size]) for i in range(0, len(blocks), size)]
    first, kind = lists[0][0], type(lists[0][1])
    put(model, first, nn.ModuleList(groups) if kind is nn.ModuleList else nn.Sequential(*groups))
    for name, _ in lists[1:]:
        put(model, name, nn.Identity())
    return len(blocks), len(groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("name")
    for option, default in (("batch", 1), ("seq", 1), ("threads", 1), ("steps", 5)):
        parser.add_argument("--" + option, type=int, default=default)
    parser.add_argument("--way", default="eager", choices=["eager", "block", "root", "compile"])
    parser.add_argument("--budget", type=float, default=1.0)
    args = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.abspath(args.module)))
    spec = importlib.util.spec_from_file_location("models", args.module)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build, batch = module.models()[args.name][:2]
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    model = build().train()
    n_blocks = n_groups = 0
    if args.way in ("block", "root"):
        n_blocks, n_groups = add_checkpoints(model, args.way)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    step_model = model
    if args.way == "compile":
        from torch._functorch import config
        config.activation_memory_budget = args.budget
        step_model = torch.compile(model)
    x, target = batch(args.batch, args.seq, torch.Generator().manual_seed(1))
    times, processor_times, losses = [], [], []
    for _ in range(args.steps + 2):
        start, processor = time.perf_counter(), time.process_time()
        loss = module.loss_of(step_model(*x.values()), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append((time.perf_counter() - start) * 1e3)
        processor_times.append((time.process_time() - processor) * 1e3)
        if len(times) == 2 and args.way == "compile":  # forget the peak of compiling
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
    times = sorted(times[2:])
    if args.way == "compile":
        with open("/proc/self/status") as file:
            peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) * 1024 - base
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - base
    print(json.dumps({"peer": f"torch {torch.__version__} {args.way}", "model": args.name, "batch": args.batch, "blocks": n_blocks,
                      "groups": n_groups, "ms_best": times[0], "ms_median": times[len(times) // 2], "ms_processor": min(processor_times[2:]), "peak_bytes": peak, "losses": losses}))


main()
