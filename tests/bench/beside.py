#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Time `ortrain bench` beside another trainer, on the same models, in the same minutes.

    tests/bench/beside.py --ortrain _build/tools/ortrain --models DIR --peer 'COMMAND {name} {batch} {seq} {threads}' \\
        [--threads 1,2] [--rounds 3] NAME:BATCH[:SEQ]...

DIR/NAME/model.onnx is what we train; the peer's command prints one JSON object with ms_best and peak_bytes. The two take
turns, so that what else the machine does falls on both; of all rounds the best is kept. Prints a table for
doc/benchmarks.md. By hand, never as a test: a figure of time is a ratio on one machine on one day."""
import argparse
import json
import shlex
import subprocess


def run(command):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(out[out.index("{"):])


def best(results, ms, peak):
    return min(r[ms] for r in results), min(r[peak] for r in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ortrain", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", default="10")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    print("| model | batch | threads | ms | peer's ms | ratio | MB | peer's MB | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for spec in args.names:
        name, batch, seq = (spec.split(":") + ["0"])[:3]
        for threads in args.threads.split(","):
            ours, peers = [], []
            for _ in range(args.rounds):
                command = [args.ortrain, "bench", f"{args.models}/{name}/model.onnx", "--batch", batch, "--threads", threads,
                           "--steps", args.steps, "--optimizer", "adamw", "--json"]
                ours.append(run(command + (["--seq", seq] if seq != "0" else [])))
                peers.append(run(shlex.split(args.peer.format(name=name, batch=batch, seq=seq, threads=threads, steps=args.steps))))
            (a, a_bytes), (b, b_bytes) = best(ours, "ms_best", "resident_peak_bytes"), best(peers, "ms_best", "peak_bytes")
            shape = batch + (f" × {seq}" if seq != "0" else "")
            print(f"| {name} | {shape} | {threads} | {a:.2f} | {b:.2f} | {a / b:.2f} | {a_bytes / 1e6:.0f} | {b_bytes / 1e6:.0f} "
                  f"| {a_bytes / b_bytes:.2f} |", flush=True)


if __name__ == "__main__":
    main()
