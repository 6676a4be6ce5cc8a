#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bytes of activations for each sequence at each recompute level, and the largest batch that is planned for a memory.

    tests/bench/level_bytes.py --ortrain _build/tools/ortrain --models DIR [--precision bf16] [--memory 8,16,32,80] NAME:SEQ[:EAGER]...
    tests/bench/level_bytes.py --ortrain _build/tools/ortrain --models DIR --factors 1,1.1,1.2,1.35 [--memory 8,16,32,80] NAME:SEQ[:EAGER]...
    tests/bench/level_bytes.py --ortrain _build/tools/ortrain --models DIR --peer 'COMMAND {name} {batch} {seq} {threads} {steps}' NAME:SEQ:BATCH...

Plans alone, nothing runs: DIR/NAME/model.onnx at a batch and at twice that; the difference for each sequence is what its
activations take. Memory is in GiB, of which 0.6 GB go to the device's own. EAGER: megabytes for each sequence of a framework to
compare with, for which 18 bytes a parameter and 5 % of fragmentation are counted on top.

With --factors, the largest batch that a budget of the memory meets, with a planned time of a step of at most so many times that
without a budget.

With --peer, all levels train for some steps, and so does the peer (see beside.py): bytes of the processes above parameters and
optimizer state at their highest, at BATCH and at twice that. By hand, never as a test."""
import argparse
import json
import math
import os
import shlex
import subprocess

from beside import run

LEVELS = (0, 1, 2)
CONTEXT = 0.6e9
LARGEST = 1 << 14


def plans(args, name, seq, level, batches):
    """Peaks in bytes, by batch."""
    command = [args.ortrain, "plan", f"{args.models}/{name}/model.onnx", "--seq", seq, "--precision", args.precision,
               "--memory-opt-level", str(level), "--json", "--batch", ",".join(str(b) for b in batches)]
    result = run(command)
    return {each["batch"]: each for each in result["batches"]} if len(batches) > 1 else {batches[0]: result}


def largest_batch(peak_of, limit):
    """peak_of: a list of batches to a dict of their peaks; peaks grow with the batch."""
    good, bad = 0, LARGEST
    tried = peak_of([1 << k for k in range(LARGEST.bit_length())])
    while True:
        for batch, plan in tried.items():
            if plan["peak_bytes"] <= limit:
                good = max(good, batch)
            else:
                bad = min(bad, batch)
        if bad - good <= 1 or good >= LARGEST:
            return good
        step = max(1, (bad - good) // 16)
        tried = peak_of(list(range(good + step, bad, step)))


def print_plans(args):
    memories = [float(m) for m in args.memory.split(",")]
    print("| model | level | MB a sequence |" + "".join(f" {m:g} GiB |" for m in memories))
    print("| --- " * (3 + len(memories)) + "|")
    for spec in args.names:
        name, seq, eager = (spec.split(":") + [""])[:3]
        parameters = run([args.ortrain, "info", f"{args.models}/{name}/model.onnx", "--json"])["parameters"] if eager else 0
        theirs = [max(0, int((m * 2**30 - CONTEXT - 18 * parameters) / (1.05 * float(eager) * 1e6))) if eager else 0 for m in memories]
        if eager:
            print(f"| {name}, {seq} | eager | {float(eager):.1f} |" + "".join(f" {b} |" for b in theirs), flush=True)
        for level in LEVELS:
            two = plans(args, name, seq, level, [args.at, 2 * args.at])
            each = (two[2 * args.at]["arena_bytes"] - two[args.at]["arena_bytes"]) / args.at
            row = f"| {name}, {seq} | {level} | {each / 1e6:.1f} |"
            for memory, their in zip(memories, theirs):
                n = largest_batch(lambda batches: plans(args, name, seq, level, batches), memory * 2**30 - CONTEXT)
                row += f" {n}" + (f" ({n / their:.1f})" if their else "") + " |"
            print(row, flush=True)


def print_factors(args):
    memories = [float(m) for m in args.memory.split(",")]
    factors = [float(f) for f in args.factors.split(",")]
    print("| model | memory |" + "".join(f" {f:g} |" for f in factors) + " eager, by calculation |")
    print("| --- " * (3 + len(factors)) + "|")
    for spec in args.names:
        name, seq, eager = (spec.split(":") + [""])[:3]
        parameters = run([args.ortrain, "info", f"{args.models}/{name}/model.onnx", "--json"])["parameters"]
        command = [args.ortrain, "plan", f"{args.models}/{name}/model.onnx", "--seq", seq, "--precision", args.precision, "--json"]
        for memory in memories:
            limit, times = int(memory * 2**30 - CONTEXT), {}

            def factor_of(batch):
                """Of the time of a step without a budget; infinite where the budget is not met."""
                if batch not in times:
                    whole = run(command + ["--batch", str(batch)])
                    done = subprocess.run(command + ["--batch", str(batch), "--budget", str(limit)], capture_output=True, text=True)
                    times[batch] = json.loads(done.stdout)["milliseconds"] / whole["milliseconds"] if done.returncode == 0 else math.inf
                return times[batch]

            row = f"| {name}, {seq} | {memory:g} GiB |"
            for factor in factors:
                good, bad = max([b for b, f in times.items() if f <= factor], default=0), LARGEST
                bad = min([b for b, f in times.items() if f > factor and b > good], default=bad)
                while bad - good > max(1, good // 64):
                    middle = (good + bad) // 2 if bad < LARGEST else max(1, 2 * good)
                    if factor_of(middle) <= factor:
                        good = middle
                    else:
                        bad = middle
                row += f" {good} |"
            theirs = max(0, int((memory * 2**30 - CONTEXT - 18 * parameters) / (1.05 * float(eager) * 1e6))) if eager else ""
            print(row + f" {theirs} |", flush=True)


def print_measured(args):
    print("| model | batch | peer's MB above state |" + "".join(f" level {level} | ratio |" for level in LEVELS))
    print("| --- " * (3 + 2 * len(LEVELS)) + "|")
    for spec in args.names:
        name, seq, batch = spec.split(":")
        for n in (int(batch), 2 * int(batch)):
            values = dict(name=name, batch=n, seq=seq, threads=2, steps=3)
            peer = run(shlex.split(args.peer.format(**values)))["peak_bytes"]
            ours = []
            for level in LEVELS:
                os.environ["ORTRAIN_MEMORY_OPT_LEVEL"] = str(level)
                ours.append(run([args.ortrain, "bench", f"{args.models}/{name}/model.onnx", "--batch", str(n), "--seq", seq,
                                 "--threads", "2", "--steps", "3", "--precision", args.precision, "--json"]))
            peer -= ours[0]["persistent_bytes"]
            row = f"| {name}, {seq} | {n} | {peer / 1e6:.0f} |"
            for result in ours:
                above = result["resident_peak_bytes"] - result["persistent_bytes"]
                row += f" {above / 1e6:.0f} | {above / peer:.2f} |"
            print(row, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ortrain", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--precision")
    parser.add_argument("--memory", default="8,16,32,80")
    parser.add_argument("--at", type=int, default=8)
    parser.add_argument("--peer")
    parser.add_argument("--factors")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    args.precision = args.precision or ("f32" if args.peer else "bf16")
    (print_measured if args.peer else print_factors if args.factors else print_plans)(args)


if __name__ == "__main__":
    main()
