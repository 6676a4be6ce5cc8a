#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The largest batch in the memory that another trainer takes, and samples per second of both.

    tests/bench/batch_beside.py --ortrain _build/tools/ortrain --models DIR --peer 'COMMAND {name} {batch} {seq} {threads} {steps}' \\
        [--threads 2] [--rounds 2] [--steps 5] NAME:BATCH:SEQ...

The peer trains DIR/NAME with BATCH samples and prints one JSON object with ms_best and peak_bytes (see beside.py). Ours is the
largest batch whose planned peak is not above that; both are timed in turns. By hand, never as a test."""
import argparse
import json
import shlex

from beside import best, run


def plan(args, name, batch, seq):
    command = [args.ortrain, "plan", f"{args.models}/{name}/model.onnx", "--batch", str(batch), "--seq", seq, "--json"]
    return run(command)["peak_bytes"]


def find_batch(args, name, seq, limit):
    """The largest one that is planned within the limit; 0: none."""
    fits, fails = 0, 1
    while plan(args, name, fails, seq) <= limit:
        fits, fails = fails, fails * 2
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if plan(args, name, middle, seq) <= limit:
            fits = middle
        else:
            fails = middle
    return fits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ortrain", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", default="5")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    print("| model | threads | peer's batch | peer's MB | samples/s | our batch | MB planned | resident | samples/s | batch ratio | samples/s ratio |")
    print("| --- " * 11 + "|")
    for spec in args.names:
        name, peer_batch, seq = spec.split(":")
        peers, ours, batch = [], [], 0
        for _ in range(args.rounds):
            command = args.peer.format(name=name, batch=peer_batch, seq=seq, threads=args.threads, steps=args.steps)
            peers.append(run(shlex.split(command)))
            batch = batch or find_batch(args, name, seq, peers[0]["peak_bytes"])
            if batch > 0:
                ours.append(run([args.ortrain, "bench", f"{args.models}/{name}/model.onnx", "--batch", str(batch), "--seq", seq,
                                 "--threads", args.threads, "--steps", args.steps, "--optimizer", "adamw", "--json"]))
        peer_ms, peer_bytes = best(peers, "ms_best", "peak_bytes")
        row = f"| {name}, {seq} | {args.threads} | {peer_batch} | {peer_bytes / 1e6:.0f} | {int(peer_batch) / peer_ms * 1e3:.2f} |"
        if batch == 0:
            print(row + " 0 | | | | | |", flush=True)
            continue
        ms, resident = best(ours, "ms_best", "resident_peak_bytes")
        ratio = (batch / ms) / (int(peer_batch) / peer_ms)
        print(row + f" {batch} | {plan(args, name, batch, seq) / 1e6:.0f} | {resident / 1e6:.0f} | {batch / ms * 1e3:.2f} |"
              f" {batch / int(peer_batch):.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
