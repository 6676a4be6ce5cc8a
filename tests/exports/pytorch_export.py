# SPDX-License-Identifier: LGPL-2.1-or-later
"""Export modules with PyTorch's three exporters, and the losses of PyTorch beside each file.

pytorch_export.py FOLDER [PATTERN…] writes for each module and exporter NAME__EXPORTER.onnx, .npz (in0…, target, losses, wide: the losses
in float64, if PyTorch computes them) and
.json (what the parameters are), or .failed with the words of the exporter. What is there is kept. Each export is a process.
"""
import contextlib
import fnmatch
import io
import json
import os
import pathlib
import signal
import sys
import traceback
import warnings

import numpy as np
import torch
import torch.onnx
from pytorch_case import EXPORTERS, Case, build, export, train, train_wide
from torch import nn

SECONDS = 900


def array(x):
    return x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy()


def write(name, case, exporter, stem):
    module, inputs = build(name, case)
    description = {
        "parameters": {n: list(p.shape) for n, p in module.named_parameters(remove_duplicate=False)},
        "frozen": [n for n, p in module.named_parameters() if not p.requires_grad],
        "buffers": [n for n, _ in module.named_buffers()],
    }
    export(module, inputs, f"{stem}.part", exporter, case.dynamic, case.train)
    module, inputs = build(name, case)
    shape = module(*inputs).shape
    module, inputs = build(name, case)
    target = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    arrays = {f"in{i}": array(x) for i, x in enumerate(inputs)}
    losses, wide = train(module, inputs, target, case.rate), train_wide(name, case, target)
    if wide is not None:
        arrays["wide"] = np.array(wide)
    np.savez(f"{stem}.npz", **arrays, target=target.numpy(), losses=np.array(losses))
    pathlib.Path(f"{stem}.json").write_text(json.dumps(description))
    os.rename(f"{stem}.part", f"{stem}.onnx")


def explain(error):
    """The words of an exporter: it puts the reason below a heading, or raises from it."""
    words = str(error).partition("## Exception summary")[2].strip()
    if words:
        return words
    while error.__cause__:
        error = error.__cause__
    return f"{type(error).__name__}: {str(error).strip()}"


def write_in_child(name, case, exporter, stem):
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        log = os.open(f"{stem}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            write(name, case, exporter, stem)
            os.unlink(f"{stem}.log")
        except BaseException as error:
            traceback.print_exc()
            pathlib.Path(f"{stem}.failed").write_text(explain(error))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status:
        pathlib.Path(f"{stem}.failed").write_text(f"ended with status {status}")


def warm_up():
    """An export by each exporter loads most of what the children need, once."""
    for exporter in EXPORTERS:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            export(*build("linear", Case(lambda: nn.Linear(2, 2), ((1, 2),))), os.devnull, exporter)


def export_all(folder, cases, patterns=()):
    """Writes what is missing of all cases whose names fit one of the patterns."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.json").write_text(json.dumps({
        name: {"rate": case.rate, "tolerance": case.tolerance, "train": case.train,
               "differs": case.differs if isinstance(case.differs, dict) else dict.fromkeys(EXPORTERS, case.differs)}
        for name, case in cases.items()}))
    warm_up()
    for name, case in cases.items():
        for exporter in EXPORTERS:
            stem = folder / f"{name}__{exporter}"
            wanted = not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
            if wanted and not (os.path.exists(f"{stem}.onnx") or os.path.exists(f"{stem}.failed")):
                write_in_child(name, case, exporter, stem)


if __name__ == "__main__":
    from pytorch_modules import MODULES
    export_all(sys.argv[1], MODULES, sys.argv[2:])
