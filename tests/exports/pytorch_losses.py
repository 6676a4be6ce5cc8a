# SPDX-License-Identifier: LGPL-2.1-or-later
"""Six steps of gradient descent on files out of PyTorch's three exporters, beside the losses of PyTorch.

pytorch_losses.py FOLDER [PATTERN…] trains each NAME__EXPORTER.onnx of the folder that pytorch_export.py wrote, and prints how
many agree, are refused, or differ, with the reason of each that does not agree. PATTERN limits the files, as `lstm*__dyn`.
Both run in an environment with torch, torchvision, onnx and onnxscript from PyPI, this one within `meson devenv`:

    python tests/exports/pytorch_export.py FOLDER
    meson devenv -C _build python $PWD/tests/exports/pytorch_losses.py FOLDER
"""
import fnmatch
import json
import os
import pathlib
import sys

import numpy as np

EXPORTERS = ("ts", "dyn", "raw")
STEPS, RATE = 6, 0.02
AGREE, REFUSED, DIFFER, FAILED = "agree", "refused", "differ", "exporter fails"


def train(path, feeds):
    """Losses of STEPS steps; raises what the library raises."""
    import gi
    gi.require_version("Ortrain", "1.0")
    from gi.repository import Ortrain

    options = Ortrain.TrainingOptions([Ortrain.MseLoss("y", "target")], optimizer=Ortrain.Sgd(learning_rate=RATE))
    session = Ortrain.TrainingSession(Ortrain.Model(str(path)), options)
    losses = []
    for _ in range(STEPS):
        losses.append(float(session.train_step(feeds)))
        session.optimizer_step()
    return losses


def train_file(path):
    """What becomes of one file: {"losses": …} or {"error": …}, with PyTorch's losses as "expected"."""
    arrays = dict(np.load(path.with_suffix(".npz")))
    expected = arrays.pop("losses").tolist()
    try:
        return {"expected": expected, "losses": train(path, arrays)}
    except Exception as error:
        return {"expected": expected, "error": getattr(error, "message", None) or f"{type(error).__name__}: {error}"}


def train_files(paths):
    """Train in child processes, so that one that dies costs only its file: path → what became of it."""
    results, left = {}, list(paths)
    while left:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            with os.fdopen(write, "w") as out:
                for path in left[:50]:
                    print(json.dumps({"path": str(path), **train_file(path)}), file=out, flush=True)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as lines:
            done = [json.loads(line) for line in lines]
        status = os.waitpid(child, 0)[1]
        results |= {pathlib.Path(result["path"]): result for result in done}
        left = left[len(done):]
        if status:
            results[left.pop(0)] = {"error": f"the process ended with status {status}", "dead": True}
    return results


def judge(result, tolerance):
    """The column of a result, and the words for it."""
    if "error" in result:
        return (DIFFER if result.get("dead") else REFUSED), result["error"]
    ours, theirs = np.array(result["losses"]), np.array(result["expected"])
    distance = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-9)
    if distance <= tolerance:
        return AGREE, ""
    step = int(np.argmax(np.abs(ours - theirs) > tolerance * np.abs(theirs).max()))
    return DIFFER, f"{distance:.1e} from step {step}: {ours[step]:.7g}, PyTorch has {theirs[step]:.7g}"


def judge_folder(folder, patterns, tolerances, reasons):
    """Prints the table of a folder; tolerances and reasons are by name of the module."""
    stems = sorted({path.with_suffix("") for suffix in ("onnx", "failed") for path in folder.glob(f"*__*.{suffix}")})
    stems = [stem for stem in stems if any(fnmatch.fnmatch(stem.name, pattern) for pattern in patterns)]
    results = train_files([stem.with_suffix(".onnx") for stem in stems if stem.with_suffix(".onnx").exists()])
    counts = {exporter: dict.fromkeys((AGREE, REFUSED, DIFFER, FAILED), 0) for exporter in EXPORTERS}
    for stem in stems:
        name, exporter = stem.name.rsplit("__", 1)
        result = results.get(stem.with_suffix(".onnx"))
        if result is None:
            verdict, words = FAILED, stem.with_suffix(".failed").read_text().split("\n")[0]
        else:
            verdict, words = judge(result, tolerances.get(name, 2e-5))
        counts[exporter][verdict] += 1
        if verdict != AGREE:
            reason = f" [{reasons[name]}]" if verdict == DIFFER and name in reasons else ""
            print(f"{verdict:15} {name:28} {exporter:4} {words}{reason}")
    print(f"\n{'exporter':10} {AGREE:>8} {REFUSED:>8} {DIFFER:>8} {FAILED:>15}")
    for exporter, count in counts.items():
        print(f"{exporter:10} {count[AGREE]:8} {count[REFUSED]:8} {count[DIFFER]:8} {count[FAILED]:15}")
    total = {verdict: sum(count[verdict] for count in counts.values()) for verdict in counts["ts"]}
    print(f"{'all':10} {total[AGREE]:8} {total[REFUSED]:8} {total[DIFFER]:8} {total[FAILED]:15}")


def main():
    folder = pathlib.Path(sys.argv[1])
    expectations = json.loads((folder / "cases.json").read_text())
    judge_folder(folder, sys.argv[2:] or ["*"], expectations["tolerances"], expectations["reasons"])


if __name__ == "__main__":
    main()
