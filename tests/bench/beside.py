#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Time `ortrain bench` beside another trainer, on the same models, in the same minutes.

    tests/bench/beside.py --ortrain _build/tools/ortrain --models DIR --peer 'COMMAND {name} {batch} {seq} {threads}' \\
        [--peer 'ANOTHER'] [--precision bf16] [--threads 1,2] [--rounds 3] NAME:BATCH[:SEQ]...

DIR/NAME/model.onnx is what we train; each peer's command prints one JSON object with ms_best and peak_bytes. All take
turns, so that what else the machine does falls on each; of all rounds the best is kept. The last ratio is of bytes above
parameters and the optimizer's state, which both need. Prints a table for doc/benchmarks.md. By hand, never as a test: a figure of time is a ratio on one machine on one day."""
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
    parser.add_argument("--peer", required=True, action="append")
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", default="10")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    print("| model | batch | threads | ms | MB |" + " peer's ms | ratio | peer's MB | ratio | above state |" * len(args.peer))
    print("| --- | --- | --- | --- | --- |" + " --- | --- | --- | --- | --- |" * len(args.peer))
    for spec in args.names:
        name, batch, seq = (spec.split(":") + ["0"])[:3]
        for threads in args.threads.split(","):
            ours, peers = [], [[] for _ in args.peer]
            for _ in range(args.rounds):
                command = [args.ortrain, "bench", f"{args.models}/{name}/model.onnx", "--batch", batch, "--threads", threads,
                           "--steps", args.steps, "--optimizer", "adamw", "--precision", args.precision, "--json"]
                ours.append(run(command + (["--seq", seq] if seq != "0" else [])))
                for peer, results in zip(args.peer, peers):
                    results.append(run(shlex.split(peer.format(name=name, batch=batch, seq=seq, threads=threads, steps=args.steps))))
            a, a_bytes = best(ours, "ms_best", "resident_peak_bytes")
            held = ours[0]["persistent_bytes"]
            shape = batch + (f" × {seq}" if seq != "0" else "")
            row = f"| {name} | {shape} | {threads} | {a:.2f} | {a_bytes / 1e6:.0f} |"
            for results in peers:
                b, b_bytes = best(results, "ms_best", "peak_bytes")
                row += f" {b:.2f} | {a / b:.2f} | {b_bytes / 1e6:.0f} | {a_bytes / b_bytes:.2f} | {(a_bytes - held) / (b_bytes - held):.2f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
