# SPDX-License-Identifier: LGPL-2.1-or-later
"""Export modules with PyTorch's three exporters, and the losses of PyTorch beside each file.

pytorch_export.py FOLDER [PATTERN…] writes for each module and exporter NAME__EXPORTER.onnx, .npz (in0…, target, losses) and
.json (what the parameters are), or .failed with the words of the exporter. What is there is kept. Each export is a process.
"""
import fnmatch
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
from pytorch_case import EXPORTERS, build, export, train
from pytorch_modules import MODULES

SECONDS = 240


def array(x):
    return x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy()


def write(name, exporter, stem):
    case = MODULES[name]
    torch.set_num_threads(1)
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
    np.savez(f"{stem}.npz", **{f"in{i}": array(x) for i, x in enumerate(inputs)}, target=target.numpy(),
             losses=np.array(train(module, inputs, target)))
    pathlib.Path(f"{stem}.json").write_text(json.dumps(description))
    os.rename(f"{stem}.part", f"{stem}.onnx")


def write_in_child(name, exporter, stem):
    child = os.fork()
    if child == 0:
        warnings.simplefilter("ignore")
        signal.alarm(SECONDS)
        log = os.open(f"{stem}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            write(name, exporter, stem)
            os.unlink(f"{stem}.log")
        except BaseException as error:
            traceback.print_exc()
            root = error
            while root.__cause__ or root.__context__:
                root = root.__cause__ or root.__context__
            pathlib.Path(f"{stem}.failed").write_text(f"{type(root).__name__}: {str(root).strip()}")
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status:
        pathlib.Path(f"{stem}.failed").write_text(f"ended with status {status}")


def main():
    folder, patterns = pathlib.Path(sys.argv[1]), sys.argv[2:] or ["*"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.json").write_text(json.dumps({
        "tolerances": {name: case.tolerance for name, case in MODULES.items()},
        "reasons": {name: case.differs for name, case in MODULES.items() if case.differs}}))
    for name in MODULES:
        for exporter in EXPORTERS:
            stem = folder / f"{name}__{exporter}"
            if any(fnmatch.fnmatch(name, p) for p in patterns) and not (os.path.exists(f"{stem}.onnx") or os.path.exists(f"{stem}.failed")):
                write_in_child(name, exporter, stem)


main()
