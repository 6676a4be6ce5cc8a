# SPDX-License-Identifier: LGPL-2.1-or-later
"""Inputs and targets of the models of pytorch_models.py: the same numbers for both sides, without PyTorch.

    model_feeds.py feeds NAME FOLDER --batch N [--seq N] [--small]    FOLDER/x.npy and FOLDER/bench.target.npy; prints how many items"""
import argparse
import json
import os

# name: what its input is, in full and small
KINDS = {
    "gpt2-124m": ("tokens", 50257, 97),
    "bert-large": ("tokens", 30522, 97),
    "deberta": ("tokens", 30522, 97),
    "resnet50": ("image", (3, 224, 224, 1000), (3, 32, 32, 10)),
    "mlp": ("features", (784, 10), (20, 10)),
}


def make_feeds(name, small, batch, seq):
    """The input and the target."""
    import numpy
    kind, *sizes = KINDS[name]
    size, random = sizes[1 if small else 0], numpy.random.default_rng(1)
    if kind == "tokens":
        return [random.integers(0, size, (batch, seq)) for _ in range(2)]
    return [random.standard_normal((batch, *size[:-1]), dtype=numpy.float32), random.integers(0, size[-1], (batch,))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["feeds"])
    parser.add_argument("name", choices=list(KINDS))
    parser.add_argument("folder")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=16)
    parser.add_argument("--small", action="store_true")
    words = parser.parse_args()
    import numpy
    os.makedirs(words.folder, exist_ok=True)
    feeds = make_feeds(words.name, words.small, words.batch, words.seq)
    for name, values in zip(("x", "bench.target"), feeds):
        numpy.save(os.path.join(words.folder, name + ".npy"), values)
    print(json.dumps({"items": int(feeds[1].size)}))


if __name__ == "__main__":
    main()
