#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Training within memory budgets beside another trainer's checkpoints, in the same minutes.

    tests/bench/checkpoint_beside.py --ortrain _build/tools/ortrain --models DIR [--shares 0.5,0.25] [--threads N] [--rounds 3] \\
        --peer 'WAY=COMMAND {name} {batch} {seq} {threads} {steps}' [--peer …] NAME:BATCH[:SEQ]...

Trains DIR/NAME/model.onnx without a budget and with budgets of these shares of the arena, and runs each peer. A peer's command
prints one JSON object with ms_processor and peak_bytes (checkpoint_peer.py). All programs take turns. Prints two tables: the time
with a budget divided by the time without one, planned and measured; and for each peer its time, and its memory minus
parameters and optimizer state, beside our fastest run that needs no more memory. Times are processor time of all threads, which
a busy machine changes less than wall time. To be run by hand, never as a test."""
import argparse
import json
import shlex
import subprocess


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return None
    return json.loads(done.stdout[done.stdout.index("{"):])


def keep_best(best, key, result):
    if result is None:
        return
    old = best.setdefault(key, result)
    if result["ms_processor"] < old["ms_processor"]:
        best[key] = result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ortrain", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--shares", default="0.75,0.5,0.35,0.25,0.15")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", default="5")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    shares = [float(share) for share in args.shares.split(",")]
    peers = dict(peer.split("=", 1) for peer in args.peer)
    times, ways = [], []
    for spec in args.names:
        name, batch, seq = (spec.split(":") + ["0"])[:3]
        model = f"{args.models}/{name}/model.onnx"
        size = ["--batch", batch] + (["--seq", seq] if seq != "0" else [])
        whole = run([args.ortrain, "plan", model, *size, "--json"])
        held, arena = whole["peak_bytes"] - whole["arena_bytes"], whole["arena_bytes"]
        bench = [args.ortrain, "bench", model, *size, "--threads", args.threads, "--steps", args.steps, "--optimizer", "adamw", "--json"]
        best, theirs = {}, {}
        for _ in range(args.rounds):
            keep_best(best, 1.0, run(bench))
            for share in shares:
                keep_best(best, share, run(bench + ["--budget", str(int(held + share * arena))]))
            for way, peer in peers.items():
                values = dict(name=name, batch=batch, seq=seq, threads=args.threads, steps=args.steps)
                keep_best(theirs, way, run(shlex.split(peer.format(**values))))
        first = best[1.0]
        row = f"| {name}, {batch}" + (f" × {seq}" if seq != "0" else "") + " |"
        times.append(row + "".join(
            f" {best[s]['planned_ms'] / first['planned_ms']:.2f} / {best[s]['ms_processor'] / first['ms_processor']:.2f} |" if s in best else " |"
            for s in shares))
        state = first["persistent_bytes"]
        ours = sorted((r["ms_processor"], r["resident_peak_bytes"] - state) for r in best.values())
        for way in peers:
            if way not in theirs:
                ways.append(row + f" {way} | | | | | | |")
                continue
            ms, above = theirs[way]["ms_processor"], theirs[way]["peak_bytes"] - state
            fits = [(t, b) for t, b in ours if b <= above] or [ours[-1]]
            ways.append(row + f" {way} | {ms:.0f} | {above / 1e6:.0f} | {fits[0][0]:.0f} | {fits[0][1] / 1e6:.0f} | {fits[0][0] / ms:.2f} | "
                        f"{fits[0][1] / above:.2f} |")
        print(json.dumps({"model": name, "ours": {str(s): (r["ms_processor"], r["planned_ms"], r["resident_peak_bytes"] - state)
                                                  for s, r in best.items()},
                          "peers": {w: (r["ms_processor"], r["peak_bytes"] - state) for w, r in theirs.items()}}), flush=True)
    print("\n| model, batch |" + "".join(f" {share:g} |" for share in shares))
    print("| --- |" + " --- |" * len(shares))
    print("\n".join(times))
    if peers:
        print("\n| model, batch | peer | peer, ms | peer, MB | ours, ms | ours, MB | time ratio | memory ratio |\n" + "| --- " * 8 + "|")
        print("\n".join(ways))


main()
