# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which tensors are trained of what PyTorch's exporters write, beside `named_parameters ()`: a table of modules, models and exporters.

    python parameter_table.py FOLDER export [NAME …]          # needs torch, torchvision, timm, transformers, onnx
    python parameter_table.py FOLDER compare ORTRAIN [NAME …] # ORTRAIN: the command, of a build

A trained tensor and a parameter are the same if the file calls them alike, or if they hold the same numbers: in another order, as transposing
and the gates of recurrent cells give, or merged with others. What the exporter has computed from several parameters, as a convolution and the
normalization after it, is found by the module that reads it. No CI runs this: the exports take half an hour of processor time.
"""
import json
import os
import pathlib
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
EXPORTERS = {
    "script": dict(dynamo=False),
    "dynamo": dict(dynamo=True, optimize=True),
    "plain": dict(dynamo=True, optimize=False),
}


def export(folder, names):
    import logging
    import numpy as np
    import torch
    from parameter_models import MODELS
    from parameter_modules import MODULES

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for name, make in {**MODULES, **MODELS}.items():
        if names and name not in names:
            continue
        if not names and (folder / f"{name}.json").exists():
            continue
        facts = {"errors": {}, "parameters": {}, "buffers": [], "model": name in MODELS}
        try:
            torch.manual_seed(1)
            made, inputs = make()
            made.eval()
            outputs = made(*inputs)
            outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
            sum((o * torch.randn(o.shape)).sum() for o in outputs).backward()
        except Exception as error:
            facts["errors"] = {exporter: f"{type(error).__name__}: {error}"[:300] for exporter in EXPORTERS}
            (folder / f"{name}.json").write_text(json.dumps(facts))
            print(name, "FAILS", str(error)[:200], flush=True)
            continue
        for key, parameter in made.named_parameters():
            facts["parameters"][key] = {"learns": parameter.grad is not None and bool(parameter.grad.abs().sum() > 0), "frozen": not parameter.requires_grad,
                                        "shape": list(parameter.shape)}
        facts["buffers"] = [key for key, _ in made.named_buffers()]
        np.savez(folder / f"{name}.npz", **{key: p.detach().numpy() for key, p in [*made.named_parameters(), *made.named_buffers()]})
        for exporter, options in EXPORTERS.items():
            try:
                with open(os.devnull, "w") as null:
                    out, sys.stdout = sys.stdout, null
                    try:
                        torch.onnx.export(made, inputs, str(folder / f"{name}.{exporter}.onnx"), external_data=False, verbose=False, **options)
                    finally:
                        sys.stdout = out
            except Exception as error:
                facts["errors"][exporter] = f"{type(error).__name__}: {error}"[:300]
        (folder / f"{name}.json").write_text(json.dumps(facts))
        print(name, list(facts["errors"]), flush=True)


def close(a, b):
    import numpy as np
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=0, equal_nan=True)


def holds(large, small):
    """Whether all numbers of one array are in the other."""
    import numpy as np
    few = small.ravel()[[0, small.size // 2, -1]] if small.size else small
    return large.dtype == small.dtype and all((large == x).any() for x in few) and bool(np.isin(small, large).all())


def match(tensor, array, parameters, every, values, names, scoped):
    """The parameters that a trained tensor holds, of those in `parameters`, which have none yet; or a part of one of `every`."""
    import numpy as np
    if tensor in parameters:
        return [tensor]
    hits = [k for k in parameters if k not in names and values[k].size == array.size and holds(values[k], array) and close(np.sort(values[k], None), np.sort(array, None))]
    if hits:
        exact = [k for k in hits if k == scoped]
        return exact or hits[:1] if np.ptp(array) == 0 or len(hits) == 1 else hits[:1]
    parts = [k for k in parameters if k not in names and values[k].size <= array.size and holds(array, values[k])]
    if parts and np.isin(array, np.concatenate([values[k].ravel() for k in parts] + [np.zeros(1, array.dtype)])).all() and np.ptp(array) != 0:
        return parts
    hits = [k for k in every if values[k].size > array.size and holds(values[k], array)]
    if hits and (np.ptp(array) != 0 or hits[0] in parameters):
        return hits[:1]
    if scoped in parameters:
        return [scoped]
    return []


def compare_one(folder, name, exporter, facts, command):
    import numpy as np
    import onnx
    from onnx import numpy_helper
    path = folder / f"{name}.{exporter}.onnx"
    if exporter in facts["errors"] or not path.exists():
        return {"state": "not exported", "why": facts["errors"].get(exporter, "")}
    run = subprocess.run([command, "check", "--json", str(path)], capture_output=True, text=True)
    try:
        report = json.loads(run.stdout)
    except json.JSONDecodeError:
        return {"state": "refused", "why": run.stderr.strip()}
    if not report["floating_tensors"]:
        return {"state": "refused", "why": "; ".join(d["reason"] for d in report["diagnostics"])[:200]}
    graph = onnx.load(path).graph
    arrays = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            arrays[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        if node.op_type == "Identity" and node.input[0] in arrays:
            arrays[node.output[0]] = arrays[node.input[0]]
    for note in report["notes"]:            # "'b.weight' is stored as 'a.weight': …"
        words = note.split("'")
        if len(words) > 4 and words[2] == " is stored as " and words[3] in arrays:
            arrays[words[1]] = arrays[words[3]]
    values = dict(np.load(folder / f"{name}.npz"))
    parameters = dict(facts["parameters"])
    names = {t["name"] for t in report["floating_tensors"]} & set(parameters)
    covered, wrong = {}, []
    trained = sorted((t for t in report["floating_tensors"] if t["trained"]), key=lambda t: t["name"] not in parameters)
    for tensor in trained:
        array = arrays.get(tensor["name"])
        free = {k: v for k, v in parameters.items() if k not in covered}
        found = match(tensor["name"], array, free, parameters, values, names, tensor.get("scoped_name")) if array is not None else [k for k in free if k == tensor["name"]]
        if found:
            for key in found:
                covered[key] = tensor["name"]
        else:
            wrong.append(tensor)
    missed = [k for k, p in parameters.items() if k not in covered and p["learns"]]
    frozen = [k for k in covered if parameters[k]["frozen"]]
    # What was computed from several parameters: the product of the norm after a convolution, a weight and its low-rank change.
    folded = []
    if missed:
        folded = [t["name"] for t in wrong if t["name"] not in facts["buffers"] and t["name"].partition("::")[0] != t["name"] or exporter == "dynamo"]
        wrong = [t for t in wrong if t["name"] not in folded]
    tied = [t["name"] for t in wrong if t["name"] in arrays and any(close(np.sort(values[k], None), np.sort(arrays[t["name"]], None)) for k in parameters)]
    wrong = [t for t in wrong if t["name"] not in tied]
    one = {note.split("'")[1] for note in report["notes"] if "trained as one" in note and " once more" in note} | {
        note.split("'")[3] for note in report["notes"] if "trained as one" in note and ", a table, and " in note}
    tied = [name for name in tied if name not in one]
    merged = [k for k in missed if np.ptp(values[k]) == 0 and any(values[c].shape == values[k].shape and close(values[c], values[k]) for c in covered)]
    missed = [k for k in missed if k not in merged]
    def is_held(key):
        return key in names or any(a.size >= values[key].size and np.ptp(values[key]) != 0 and holds(a, values[key]) for a in arrays.values())
    gone = [k for k in missed if not is_held(k)]
    missed = [k for k in missed if k not in gone]
    return {"state": "compared", "parameters": len(parameters), "agree": len(covered) - len(frozen), "missed": missed, "wrong": [f"{t['name']} ({t['reason']})" for t in wrong],
            "frozen": frozen, "folded": folded, "tied": tied, "merged": merged, "gone": gone,
            "details": {t["name"]: t["reason"] for t in report["floating_tensors"]}, "notes": report["notes"]}


def compare(folder, command, names):
    total = {}
    bad = 0
    for path in sorted(folder.glob("*.json")):
        if names and path.stem not in names:
            continue
        facts = json.loads(path.read_text())
        for exporter in EXPORTERS:
            result = compare_one(folder, path.stem, exporter, facts, command)
            row = total.setdefault((facts["model"], exporter), dict.fromkeys(("files", "parameters", "agree", "missed", "wrong", "frozen", "folded", "tied", "merged", "gone", "refused"), 0))
            if result["state"] != "compared":
                row["refused"] += result["state"] == "refused"
                print(f"{path.stem:28} {exporter:7} {result['state']}: {result['why'][:160]!r}")
                continue
            row["files"] += 1
            row["parameters"] += result["parameters"]
            row["agree"] += result["agree"]
            for key in ("missed", "wrong", "frozen", "folded", "tied", "merged", "gone"):
                row[key] += len(result[key])
            text = [f"{key}: {', '.join(result[key][:6])}{' …' if len(result[key]) > 6 else ''}" for key in ("missed", "wrong", "frozen", "folded", "tied", "merged", "gone") if result[key]]
            if result["missed"] or result["wrong"] or result["frozen"]:
                bad += 1
                text += [f"[{result['details'].get(k, 'not in the file')}]" for k in result["missed"][:3]]
            print(f"{path.stem:28} {exporter:7} {result['parameters']:4} parameters {result['agree']:4} agree  {'; '.join(text)}")
    print()
    print(f"{'':18}{'files':>7}{'parameters':>12}{'agree':>7}{'merged':>8}{'folded':>8}{'gone':>6}{'tied':>6}{'missed':>8}{'wrong':>7}{'frozen':>8}{'refused':>9}")
    for (is_model, exporter), row in sorted(total.items()):
        print(f"{'models' if is_model else 'modules':9}{exporter:9}" + "".join(f"{row[k]:>{n}}" for k, n in
              (("files", 7), ("parameters", 12), ("agree", 7), ("merged", 8), ("folded", 8), ("gone", 6), ("tied", 6), ("missed", 8), ("wrong", 7), ("frozen", 8), ("refused", 9))))
    return bad > 0


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[2] == "export":
        export(folder, sys.argv[3:])
    else:
        sys.exit(compare(folder, sys.argv[3], sys.argv[4:]))
