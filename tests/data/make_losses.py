#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes losses.json: PyTorch's losses and their gradients in float64, for given numbers. Needs PyTorch."""
import json

import torch
import torch.nn.functional as F

torch.manual_seed(3)
x = torch.randn(6, 5, dtype=torch.float64) * 2
x[0, 0], x[1, 1] = 40.0, -40.0
t = torch.randn(6, 5, dtype=torch.float64) * 2
p = torch.rand(6, 5, dtype=torch.float64)
labels = torch.tensor([0, 4, 2, -100, 1, 3])
clean = torch.tensor([0, 4, 2, 2, 1, 3])
weights = torch.tensor([0.5, 1.0, 2.0, 1.5, 0.25], dtype=torch.float64)
image = torch.randn(2, 4, 3, dtype=torch.float64)  # classes on axis 1
image_labels = torch.tensor([[0, 1, 3], [2, 2, 0]])


def run(x, f):
    x = x.clone().requires_grad_()
    loss = f(x)
    loss.backward()
    return {"loss": loss.item(), "gradient": x.grad.flatten().tolist()}


out = {
    "x": x.flatten().tolist(), "t": t.flatten().tolist(), "p": p.flatten().tolist(),
    "labels": labels.tolist(), "clean": clean.tolist(), "weights": weights.tolist(),
    "image": image.flatten().tolist(), "image-labels": image_labels.flatten().tolist(),
    "mse": run(x, lambda x: F.mse_loss(x, t)),
    "l1": run(x, lambda x: F.l1_loss(x, t)),
    "huber": run(x, lambda x: F.huber_loss(x, t, delta=0.7)),
    "bce": run(x, lambda x: F.binary_cross_entropy_with_logits(x, p)),
    "cross-entropy": run(x, lambda x: F.cross_entropy(x, clean)),
    "ignore": run(x, lambda x: F.cross_entropy(x, labels)),
    "smooth": run(x, lambda x: F.cross_entropy(x, labels, label_smoothing=0.125)),
    "weighted": run(x, lambda x: F.cross_entropy(x, labels, weight=weights)),
    "spatial": run(image, lambda x: F.cross_entropy(x, image_labels)),
    "nll": run(x, lambda x: F.nll_loss(x, labels)),
    "nll-weighted": run(x, lambda x: F.nll_loss(x, labels, weight=weights)),
    "nll-spatial": run(image, lambda x: F.nll_loss(x, image_labels)),
    "nll-first-axis": run(x, lambda x: F.nll_loss(x.T, torch.tensor([5, 0, -100, 3, 2]))),
    "first-axis-labels": [5, 0, -100, 3, 2],
    "sum": run(x, lambda x: 0.5 * F.mse_loss(x, t) + 2.0 * F.cross_entropy(x, clean)),
}
with open("losses.json", "w") as f:
    json.dump(out, f, indent=0)
