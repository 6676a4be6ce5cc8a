#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the files beside this one, with NumPy and the reference library of safetensors (and PyTorch, for bfloat16).

Element i (in row-major order) of every array is i / 2 - 3, converted to the type of the array.
"""
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

here = Path(__file__).parent


def ramp(shape, dtype, order="C"):
    values = (np.arange(np.prod(shape, dtype=int)) / 2 - 3).reshape(shape)
    return np.array(values.astype(dtype), order=order)


arrays = {
    "float32": ramp((3, 4), "<f4"),
    "scalar": ramp((), "<i8"),
    "fortran": ramp((2, 3, 4), "<f8", "F"),
    "big-endian": ramp((5,), ">i2"),
    "bool": ramp((2, 2), "?"),
    "half": ramp((7,), "<f2"),
    "empty": ramp((0, 3), "<f4"),
    "größe/x": ramp((4, 2), "<i4"),
}
np.savez(here / "stored.npz", **arrays)
np.savez_compressed(here / "deflated.npz", **arrays)
np.save(here / "fortran-big-endian.npy", ramp((2, 3, 4), ">c8", "F"))
np.save(here / "structured.npy", np.zeros(3, [("a", "<i4"), ("b", "<f4")]))
with open(here / "version2.npy", "wb") as f:
    np.lib.format.write_array(f, ramp((3, 4), "<f4"), version=(2, 0))

tensors = {n: torch.from_numpy(ramp(a.shape, a.dtype.newbyteorder("="))) for n, a in arrays.items()}
tensors["bfloat16"] = torch.from_numpy(ramp((9,), "<f4")).to(torch.bfloat16)
tensors['quote"\\\n'] = torch.from_numpy(ramp((2,), "u1") * 0 + 7)
save_file(tensors, here / "reference.safetensors", metadata={"format": "pt", "title": "tab\tand \"quotes\""})
