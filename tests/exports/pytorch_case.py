# SPDX-License-Identifier: LGPL-2.1-or-later
"""One module of PyTorch with its inputs, exported and trained: what the lists of modules share."""
import dataclasses
import typing
import zlib

import torch
from torch import nn

EXPORTERS = {
    "ts": "TorchScript (dynamo=False)",
    "dyn": "dynamo=True, optimize=True",
    "raw": "dynamo=True, optimize=False",
}
STEPS, RATE = 6, 0.02

# What an exporter writes instead of the parameters; optimize=False keeps them.
FOLDED = "the exporter computed a constant from parameters, which is trained in their place"
MADE = "the exporter computed constants from buffers, in a module that lacks a parameter: they are trained as if made from it"
REPEATED = "the exporter repeated a parameter for each row of a batch of fixed size, which is not trained: name the dimension of the batch"
NUMBER = "the exporter computed one number from a parameter, which is not trained"
STATE = "the exporter computed in advance what the first step makes of the state 0: the bias of the state has no gradient of that step"
NORM = "the exporter folded BatchNormalization into the layer before it"
BUFFER = "the older exporter names buffers as it names parameters"
ZEROS = "the older exporter writes a parameter of zeros like a buffer of zeros: trainable tells which it is"
OTHER_TYPE = "the older exporter stored the tied weight once more in another type, where it is trained apart"
NEAR = "one value before a ReLU lies within the rounding of float32 from 0, where its gradient is there or is not"
PADDING = "the older exporter does not write which row stands for padding: set_padding_row does it"


def when(reason, *exporters):
    return dict.fromkeys(exporters, reason)


@dataclasses.dataclass
class Case:
    """make () gives the module; inputs are shapes of normal numbers, or functions of a torch.Generator that give a tensor."""
    make: typing.Callable[[], nn.Module]
    inputs: tuple
    train: bool = False                 # exported in training mode
    dynamic: dict | None = None         # name of a dimension for each (input, axis)
    dtype: torch.dtype = torch.float32
    rate: float = RATE
    tolerance: float = 2e-5             # of the losses, relative to the largest
    differs: str | dict = ""            # why a file cannot give PyTorch's losses, for all exporters or by exporter


def integers(high, *shape):
    return lambda generator: torch.randint(0, high, shape, generator=generator)


def uniform(low, high, *shape):
    return lambda generator: torch.rand(shape, generator=generator) * (high - low) + low


def flags(*shape):
    """Booleans, of which each row has at least one that is set."""
    def make(generator):
        values = torch.rand(shape, generator=generator) < 0.6
        values[..., 0] = True
        return values
    return make


def exact(values, dtype=torch.int64):
    return lambda generator: torch.tensor(values, dtype=dtype)


def build(name, case):
    """The module, and its inputs: the same at each call."""
    seed = zlib.crc32(name.encode()) % 100_000
    torch.manual_seed(seed)
    module = case.make().to(case.dtype).train(case.train)
    generator = torch.Generator().manual_seed(seed + 100_000)
    inputs = [make(generator) if callable(make) else torch.randn(make, generator=generator) for make in case.inputs]
    return module, tuple(x.to(case.dtype) if x.is_floating_point() else x for x in inputs)


def train_wide(name, case, target):
    """The same losses in float64; None where a module cannot."""
    module, inputs = build(name, case)
    try:
        return train(module.double(), [x.double() if x.is_floating_point() else x for x in inputs], target.double(), case.rate)
    except (RuntimeError, TypeError, ValueError):
        return None


def train(module, inputs, target, rate=RATE):
    """The losses of six steps of gradient descent, as PyTorch computes them, in the type of the target."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    losses = []
    for _ in range(STEPS):
        loss = ((module(*inputs).to(target.dtype) - target) ** 2).mean()
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients):
                if gradient is not None:
                    parameter -= rate * gradient
        losses.append(loss.item())
    return losses


def export(module, inputs, path, exporter, dynamic=None, training=False):
    names = [f"in{i}" for i in range(len(inputs))]
    options = {"input_names": names, "output_names": ["y"]}
    if exporter == "ts":
        if training:
            options |= {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
        if dynamic:
            options["dynamic_axes"] = {}
            for (index, axis), dimension in dynamic.items():
                options["dynamic_axes"].setdefault(names[index], {})[axis] = dimension
        torch.onnx.export(module, inputs, path, dynamo=False, **options)
        return
    if dynamic:
        dimensions = {name: torch.export.Dim(name, min=2, max=64) for name in set(dynamic.values())}
        options["dynamic_shapes"] = tuple({axis: dimensions[dimension] for (of, axis), dimension in dynamic.items() if of == index}
                                          for index in range(len(inputs)))
    torch.onnx.export(module, inputs, path, dynamo=True, optimize=exporter == "dyn", external_data=False, verbose=False, **options)
