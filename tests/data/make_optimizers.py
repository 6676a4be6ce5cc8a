#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes optimizers.json: what PyTorch's optimizers make of given gradients, in float64. Needs PyTorch.

LAMB and the Hugging Face order of AdamW are not in PyTorch; NumPy computes them from the papers' formulas. Schedules as in
PyTorch where it has them.
"""
import json
import math

import numpy as np
import torch

SIZES = [7, 1, 40001]
STEPS = 6


def number(i, k):
    return ((i * 7919 + k * 104729 + 12345) % 2003) / 1001.5 - 1.0


def fill(tensor, k):
    return np.array([number(i + 31 * tensor, k) for i in range(SIZES[tensor])])


def pick(arrays):
    out = []
    for a in arrays:
        out.append({"first": a[:4].tolist(), "last": a[-3:].tolist(), "sum": float(np.sum(a)), "squares": float(np.sum(a * a))})
    return out


def run_torch(make, clip=0.0):
    params = [torch.nn.Parameter(torch.tensor(fill(t, 0))) for t in range(len(SIZES))]
    opt = make(params)
    for s in range(STEPS):
        for t, p in enumerate(params):
            p.grad = torch.tensor(fill(t, s + 1))
        if clip:
            torch.nn.utils.clip_grad_norm_(params, clip)
        opt.step()
    return pick([p.detach().numpy() for p in params])


def run_numpy(update):
    ws = [fill(t, 0) for t in range(len(SIZES))]
    ms = [np.zeros_like(w) for w in ws]
    vs = [np.zeros_like(w) for w in ws]
    for s in range(STEPS):
        for t in range(len(ws)):
            ws[t] = update(ws[t], fill(t, s + 1), ms[t], vs[t], s + 1)
    return pick(ws)


def lamb(lr, b1, b2, eps, wd, lo, hi, bias):
    def update(w, g, m, v, t):
        m[:] = b1 * m + (1 - b1) * g
        v[:] = b2 * v + (1 - b2) * g * g
        mh, vh = (m / (1 - b1 ** t), v / (1 - b2 ** t)) if bias else (m, v)
        d = wd * w + mh / (np.sqrt(vh) + eps)
        nw, nd = np.sum(w * w), np.sum(d * d)
        ratio = min(max(math.sqrt(nw / nd), lo), hi) if nw > 0 and nd > 0 else 1.0
        return w - lr * ratio * d
    return update


def adamw_last(lr, b1, b2, eps, wd):
    def update(w, g, m, v, t):
        m[:] = b1 * m + (1 - b1) * g
        v[:] = b2 * v + (1 - b2) * g * g
        w = w - lr * math.sqrt(1 - b2 ** t) / (1 - b1 ** t) * m / (np.sqrt(v) + eps)
        return w - lr * wd * w
    return update


def groups(params, lr, wd):
    return [{"params": [params[0]], "lr": lr * 0.1, "weight_decay": 0.0}, {"params": [params[1]], "lr": 0.0},
            {"params": [params[2]], "weight_decay": wd}]


def schedule(make, steps=40):
    p = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    opt = torch.optim.SGD([p], lr=1.0)
    s = make(opt)
    out = []
    for _ in range(steps):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        s.step()
    return out


L = torch.optim.lr_scheduler
expected = {
    "sgd": run_torch(lambda p: torch.optim.SGD(p, lr=0.1)),
    "sgd-decay": run_torch(lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.02)),
    "momentum": run_torch(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.02)),
    "nesterov": run_torch(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
    "adam": run_torch(lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    "adamw": run_torch(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)),
    "adagrad": run_torch(lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.2)),
    "clipped": run_torch(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), clip=0.5),
    "groups": run_torch(lambda p: torch.optim.AdamW(groups(p, 0.01, 0.3), lr=0.01, weight_decay=0.1)),
    "adamw-last": run_numpy(adamw_last(0.01, 0.9, 0.999, 1e-6, 0.1)),
    "lamb": run_numpy(lamb(0.01, 0.9, 0.999, 1e-6, 0.01, 0.0, math.inf, False)),
    "lamb-bias": run_numpy(lamb(0.01, 0.9, 0.99, 1e-6, 0.0, 0.5, 2.0, True)),
    "schedules": {
        "linear": schedule(lambda o: L.LinearLR(o, start_factor=1.0, end_factor=0.2, total_iters=20)),
        "cosine": schedule(lambda o: L.CosineAnnealingLR(o, T_max=40, eta_min=0.1)),
        "polynomial": schedule(lambda o: L.PolynomialLR(o, total_iters=25, power=2.0)),
        "step": schedule(lambda o: L.StepLR(o, step_size=7, gamma=0.5)),
        "one-cycle": schedule(lambda o: L.OneCycleLR(o, max_lr=1.0, total_steps=40, cycle_momentum=False), steps=39),
    },
}
with open("optimizers.json", "w") as f:
    json.dump(expected, f, indent=0)
