#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Time our convolutions, oneDNN's primitives and PyTorch's on the same shapes, in the same seconds.

    tests/bench/conv_beside.py --bench _build/tests/bench-conv [--shapes tests/bench/conv-shapes.txt] [--threads 1]
        [--rounds 5] [--seconds 0.03] [--only TEXT]

The three take turns on every shape and every product (forward, the input's gradient, the weights' gradient), and of all
turns the best is kept; with one thread it is the thread's processor time. What comes out above 1.2 times PyTorch's time is measured again, up to
--again times, since a busy machine makes figures larger and never smaller. Prints a table for doc/benchmarks.md. By hand,
never as a test."""
import argparse
import math
import os
import subprocess
import time

import torch

LIMIT = 1.2


def numbers(text, n):
    found = [int(v) for v in text.replace("x", ",").split(",")]
    return [found[i % len(found)] for i in range(n)]


class Shape:
    def __init__(self, line):
        kind, *fields = line.split()
        fields = dict(field.split("=") for field in fields)
        rank = fields["size"].count("x") + 1
        self.text, self.transposed = line, kind == "Transposed"
        self.group = int(fields.get("group", 1))
        self.stride = numbers(fields.get("stride", "1"), rank)
        self.dilation = numbers(fields.get("dilation", "1"), rank)
        pads = numbers(fields.get("pad", "0"), 2 * rank)
        n, channels, filters = (int(fields[name]) for name in ("n", "channels", "filters"))
        size, kernel = numbers(fields["size"], rank), numbers(fields["kernel"], rank)
        self.pad = [min(a, b) for a, b in zip(pads[:rank], pads[rank:])]
        # PyTorch pads both ends alike: the rest is a pad of its own, once, before the clock starts.
        size = [s + a + b - 2 * p for s, a, b, p in zip(size, pads[:rank], pads[rank:], self.pad)]
        self.x = torch.rand([n, channels, *size]) - 0.5
        out, inn = (channels, filters) if self.transposed else (filters, channels)
        self.w = torch.rand([out, inn // self.group, *kernel]) - 0.5
        self.dy = torch.rand_like(self.run(0)) - 0.5

    def run(self, product):
        zero = [0] * len(self.stride)
        if product == 0:
            return torch.convolution(self.x, self.w, None, self.stride, self.pad, self.dilation, self.transposed, zero,
                                     self.group)
        mask = [product == 1, product == 2, False]
        return torch.ops.aten.convolution_backward(self.dy, self.x, self.w, None, self.stride, self.pad, self.dilation,
                                                   self.transposed, zero, self.group, mask)


def time_peer(shape, product, threads, seconds):
    clock = time.thread_time if threads == 1 else time.perf_counter
    best, stop, runs = math.inf, time.perf_counter() + seconds, 0
    shape.run(product)
    while runs < 3 or time.perf_counter() < stop:
        start = clock()
        shape.run(product)
        best = min(best, clock() - start)
        runs += 1
    return best * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--shapes", default=os.path.join(os.path.dirname(__file__), "conv-shapes.txt"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--again", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.03)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    ours = subprocess.Popen([args.bench, args.shapes, str(args.threads), "--serve"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)

    def ask(index, product, implementation):
        ours.stdin.write(f"{index} {product} {implementation} {args.seconds}\n")
        ours.stdin.flush()
        return float(ours.stdout.readline()) or math.inf

    with open(args.shapes) as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    products = ("forward", "dx", "dw")
    print("| shape | " + " | ".join(f"{p} | oneDNN | PyTorch | ratio" for p in products) + " |")
    print("| --- |" + " --- |" * 12)
    ratios, library_ratios = [], []
    for index, line in enumerate(lines):
        if args.only not in line:
            continue
        shape = Shape(line)
        row = [line]
        for product in range(3):
            own = library = peer = math.inf
            for attempt in range(1 + args.again):
                for _ in range(args.rounds):
                    own = min(own, ask(index, product, 0))
                    peer = min(peer, time_peer(shape, product, args.threads, args.seconds))
                    if attempt == 0:
                        library = min(library, ask(index, product, 1))
                if own / peer <= LIMIT:
                    break
            ratios.append((own / peer, f"{products[product]} of {line}"))
            library_ratios.append(library / own)
            row += [f"{own:.2f}", f"{library:.2f}", f"{peer:.2f}", f"{own / peer:.2f}"]
        print("| " + " | ".join(row) + " |", flush=True)
    ratios.sort(reverse=True)
    above = [r for r in ratios if r[0] > LIMIT]
    mean = math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))
    print(f"\n{len(ratios)} products: geometric mean {mean:.2f} of PyTorch's time, worst {ratios[0][0]:.2f}, "
          f"{len(above)} above {LIMIT}; oneDNN's primitive was faster than ours in "
          f"{sum(r < 1 for r in library_ratios)}, by more than 20 % in {sum(r < 1 / 1.2 for r in library_ratios)}")
    for ratio, name in above:
        print(f"  {ratio:.2f} {name}")
    ours.stdin.close()
    ours.wait()


if __name__ == "__main__":
    main()
