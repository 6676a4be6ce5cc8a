# SPDX-License-Identifier: LGPL-2.1-or-later
"""Six steps of gradient descent on files out of PyTorch's three exporters, beside the losses of PyTorch.

pytorch_losses.py FOLDER [--table] [PATTERN…] trains each NAME__EXPORTER.onnx of the folder that pytorch_export.py wrote, and prints how
many agree, are refused, or differ, with the reason of each that does not agree, then how many differ for each reason. PATTERN
limits the files, as `lstm*__dyn`; --table shows a line for each module. It fails (status 1) when a file differs for which the case
has no reason (`differs` in pytorch_case.py), and when one agrees for which it has a reason.
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
STEPS = 6
AGREE, REFUSED, DIFFER, FAILED = "agree", "refused", "differ", "exporter fails"
UNEXPLAINED, UNEXPECTED = "no reason", "needless reason"  # it differs, but the case does not say why; it agrees, but the case says why not
ROUNDING, ROUNDINGS = "rounding decides: PyTorch's own losses in float32 and float64 differ as much", 4
COLUMNS = (AGREE, REFUSED, DIFFER, FAILED, UNEXPLAINED, UNEXPECTED)


def train(path, feeds, case):
    """Losses of STEPS steps; raises what the library raises. A module in evaluation mode keeps the statistics of its norms."""
    import gi
    gi.require_version("Ortrain", "1.0")
    from gi.repository import Ortrain

    model = Ortrain.Model(str(path))
    inputs = [value.get_name() for value in model.get_graph().get_inputs()]
    feeds = {inputs[int(name[2:])] if name.startswith("in") else name: array for name, array in feeds.items()}
    output = model.get_graph().get_outputs()[0].get_name()
    options = Ortrain.TrainingOptions([Ortrain.MseLoss(output, "target")], optimizer=Ortrain.Sgd(learning_rate=case["rate"]),
                                      batch_norm="train" if case["train"] else "frozen")
    session = Ortrain.TrainingSession(model, options)
    losses = []
    for _ in range(STEPS):
        losses.append(float(session.train_step(feeds)))
        session.optimizer_step()
    return losses


def train_file(path, case):
    """What becomes of one file: {"losses": …} or {"error": …}, with PyTorch's losses as "expected"."""
    arrays = dict(np.load(path.with_suffix(".npz")))
    expected = arrays.pop("losses").tolist()
    wide = arrays.pop("wide", np.array(expected)).tolist()
    try:
        return {"expected": expected, "wide": wide, "losses": train(path, arrays, case)}
    except Exception as error:
        return {"expected": expected, "error": getattr(error, "message", None) or f"{type(error).__name__}: {error}"}


def train_files(paths, cases):
    """Train in child processes, so that one that dies costs only its file: path → what became of it."""
    results, left = {}, list(paths)
    while left:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            with os.fdopen(write, "w") as out:
                for path in left[:50]:
                    print(json.dumps({"path": str(path), **train_file(path, cases[path.stem.rsplit('__', 1)[0]])}), file=out, flush=True)
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
    """The column of a result, the words for it, and a reason that follows from the numbers."""
    if "error" in result:
        return (DIFFER if result.get("dead") else REFUSED), result["error"], ""
    ours, theirs, wide = (np.array(result[name]) for name in ("losses", "expected", "wide"))
    largest = max(np.abs(theirs).max(), 1e-9)
    distance = np.abs(ours - theirs).max() / largest
    if distance <= tolerance:
        return AGREE, "", ""
    step = int(np.argmax(np.abs(ours - theirs) > tolerance * largest))
    is_rounding = np.all(np.abs(ours - theirs) <= ROUNDINGS * np.maximum.accumulate(np.abs(wide - theirs)) + tolerance * largest)
    return (DIFFER, f"{distance:.1e} from step {step}: {ours[step]:.7g}, PyTorch has {theirs[step]:.7g}, in float64 {wide[step]:.7g}",
            ROUNDING if is_rounding else "")


def hold_to_reason(verdict, reason):
    """The column of a file whose case gives that reason: it differs if, and only if, there is one."""
    if verdict == DIFFER and not reason:
        return UNEXPLAINED
    return UNEXPECTED if verdict == AGREE and reason else verdict


def first_line(words):
    return words.split("\n")[0][:300]


def judge_folder(folder, patterns):
    """Yields (module, exporter, column, words, reason) for each file that was exported or could not be."""
    cases = json.loads((folder / "cases.json").read_text())
    stems = sorted({path.with_suffix("") for suffix in ("onnx", "failed") for path in folder.glob(f"*__*.{suffix}")})
    stems = [stem for stem in stems if any(fnmatch.fnmatch(stem.name, pattern) for pattern in patterns)]
    stems = [stem for stem in stems if stem.name.rsplit("__", 1)[0] in cases]
    results = train_files([stem.with_suffix(".onnx") for stem in stems if stem.with_suffix(".onnx").exists()], cases)
    for stem in stems:
        name, exporter = stem.name.rsplit("__", 1)
        result = results.get(stem.with_suffix(".onnx"))
        if result is None:
            yield name, exporter, FAILED, first_line(stem.with_suffix(".failed").read_text()), ""
            continue
        verdict, words, found = judge(result, cases[name]["tolerance"])
        reason = "" if result.get("dead") else cases[name]["differs"].get(exporter, "") or found
        yield name, exporter, hold_to_reason(verdict, reason), words, reason


def print_table(verdicts):
    """A line for each module, a column for each exporter."""
    names = sorted({name for name, _ in verdicts})
    print(f"{'':30} " + " ".join(f"{exporter:15}" for exporter in EXPORTERS))
    for name in names:
        print(f"{name:30} " + " ".join(f"{verdicts.get((name, exporter), ('',))[0]:15}" for exporter in EXPORTERS))
    print()


def print_reasons(verdicts):
    """How many files differ for each reason, by exporter."""
    reasons = {key: reason for key, (verdict, _, reason) in verdicts.items() if verdict == DIFFER}
    print(f"\n{'differ':10} " + " ".join(f"{exporter:>5}" for exporter in EXPORTERS))
    for reason in sorted(set(reasons.values()), key=lambda reason: -list(reasons.values()).count(reason)):
        counts = [sum(of == exporter and reason == its for (_, of), its in reasons.items()) for exporter in EXPORTERS]
        print(f"{sum(counts):10} " + " ".join(f"{count:5}" for count in counts) + f"  {reason}")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--table"]
    verdicts = {(name, exporter): result
                for name, exporter, *result in judge_folder(pathlib.Path(arguments[0]), arguments[1:] or ["*"])}
    if "--table" in sys.argv:
        print_table(verdicts)
    for (name, exporter), (verdict, words, reason) in verdicts.items():
        if verdict != AGREE:
            print(f"{verdict:15} {name:28} {exporter:4} {': '.join(filter(None, (reason, words)))}")
    print(f"\n{'exporter':10} " + " ".join(f"{column:>15}" for column in COLUMNS))
    for exporter in (*EXPORTERS, "all"):
        counts = [sum(verdict == column and exporter in (of, "all") for (_, of), (verdict, *_) in verdicts.items()) for column in COLUMNS]
        print(f"{exporter:10} " + " ".join(f"{count:15}" for count in counts))
    print_reasons(verdicts)
    return any(verdict in (UNEXPLAINED, UNEXPECTED) for verdict, *_ in verdicts.values())


if __name__ == "__main__":
    sys.exit(main())
