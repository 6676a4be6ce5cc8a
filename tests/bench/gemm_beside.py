# SPDX-License-Identifier: LGPL-2.1-or-later
"""The products of bench-gemm in PyTorch, on one thread: gemm_beside.py [M] [seconds per figure]."""

import sys
import time

import torch

SHAPES = [(768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50257)]


def best(a, b, out, seconds):
    figure = 1e9
    stop = time.monotonic() + seconds
    torch.mm(a, b, out=out)
    while time.monotonic() < stop:
        start = time.thread_time()
        torch.mm(a, b, out=out)
        figure = min(figure, time.thread_time() - start)
    return figure


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.3
    torch.set_num_threads(1)
    for k, n in SHAPES:
        for form, shape in (("Y", (rows, n, k)), ("dX", (rows, k, n)), ("dW", (k, n, rows))):
            m_, n_, k_ = shape
            line = f"{form:<4} {m_:5} x {n_:5} x {k_:5}"
            for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
                if name == "fp16" and n == 50257:
                    continue
                a, b = torch.rand(m_, k_) - 0.5, torch.rand(k_, n_) - 0.5
                a, b = a.to(dtype), b.to(dtype)
                if form == "dX":
                    b = b.t().contiguous().t()
                if form == "dW":
                    a = a.t().contiguous().t()
                figure = best(a, b, torch.empty(m_, n_, dtype=dtype), seconds)
                line += f"  {name} {2e-9 * m_ * n_ * k_ / figure:6.1f}"
            print(line, flush=True)


main()
