# SPDX-License-Identifier: LGPL-2.1-or-later
"""Gradients of small models against central differences that stock ONNX Runtime computes.

    differences.py [--precision bf16] [--keep FOLDER] [NAME…]

Runs in an environment with onnx and onnxruntime, as tools/check-exports makes one. Each model of difference_models.py is one
node or a few, whose operands are trained where the table says so: the loss is the mean squared error of each floating output.
ONNX Runtime computes the outputs with each element of each trained operand moved up and down, in float64 where it has the
kernels, else in float32; Ortrain computes the same gradients in one step. Each model agrees, is refused with a reason, or
differs; one that differs without a sentence in DIFFERENT is a failure.
"""
import argparse
import json
import pathlib
import re
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))

import gi

gi.require_version("Ortrain", "1.0")
import numpy as np
import onnx
import onnxruntime
from gi.repository import Ortrain
from onnx import TensorProto, helper, numpy_helper

from difference_models import DIFFERENT, models

onnxruntime.set_default_logger_severity(4)
LIMIT = {"f32": 2e-3, "bf16": 0.1, "fp16": 0.05}  # of the largest element; in 16 bits, of the norm


# ---- operands ----

def spread(n, kind, rng):
    """Distinct values, shuffled, none near zero: no kink within a step."""
    order = rng.permutation(n)
    v = (order - 0.5 * (n - 1)) * min(2.6 / (n + 1), 0.4) + 0.0137
    v = np.where(np.abs(v) < 0.03, v + 0.06, v)
    if kind == "p":
        v = 0.6 + 1.4 * (order + 0.5) / max(n, 1)
    elif kind == "u":
        v = v / 1.6
    elif kind == "g":
        v = v + 3
    return v


def parse(text, rng):
    """"f[2,3]" trained, likewise p (positive), u (within 0.9), g (above 1), F (values given); c, q and d: the same as constants;
    i int64, j int32, b bool, o uint8 constants; "_": absent. → (kind, array)"""
    if text == "_":
        return "_", None
    match = re.fullmatch(r"(\w)(?:\[([\d,]*)\])?(?:\{([^}]*)\})?", text)
    assert match, text
    kind, dims, values = match.groups()
    shape = [int(d) for d in dims.split(",")] if dims else []
    n = int(np.prod(shape)) if shape else 1
    if values is not None:
        data = np.array([float(v) for v in values.split(",")] if values else [], np.float64)
        data = np.resize(data, n) if data.size == 1 else data
    else:
        data = spread(n, {"c": "f", "q": "p"}.get(kind, kind), rng)
    dtype = {"i": np.int64, "j": np.int32, "b": np.bool_, "o": np.uint8}.get(kind, np.float32)
    return kind, data.reshape(shape).astype(dtype)


class Built:
    """One model: the proto with initializers, and what is trained in it."""

    def __init__(self, model):
        rng = np.random.default_rng(sum(model["name"].encode()))
        nodes, initializers, self.trained, self.used = [], [], {}, []
        names, first = [], True
        for k, text in enumerate(model["operands"]):
            kind, array = parse(text, rng)
            if kind == "_":
                names.append("")
                continue
            name = f"x{k}"
            initializers.append((name, array))
            if kind in "fpugF":
                self.trained[name] = array
                # the first one, or all, are computed from the input z, which is 0
                if first or model["computed"]:
                    nodes.append(helper.make_node("Add", [name, "z"] if array.ndim else [name, "z0"], [name + "c"]))
                    name, first = name + "c", False
            names.append(name)
        while names and names[-1] == "":
            names.pop()
        outputs = [f"y{k}" for k in range(model["outputs"])]
        if callable(model["op"]):
            nodes += model["op"](names, outputs)
        else:
            nodes.append(helper.make_node(model["op"], names, outputs, domain=model["domain"], **model["attributes"]))
        self.keep = [outputs[k] for k in model["keep"]] if model["keep"] else outputs
        self.step, self.options = model["step"], model["options"]
        self.name, self.opset, self.nodes, self.initializers, self.domain = model["name"], model["opset"], nodes, initializers, model["domain"]
        if any("z0" in node.input for node in nodes):
            self.initializers.append(("z0_shape", np.zeros(0, np.int64)))
            self.nodes.insert(0, helper.make_node("Reshape", ["z", "z0_shape"], ["z0"]))

    def proto(self, double, trained_as_inputs):
        real = np.float64 if double else np.float32
        element = TensorProto.DOUBLE if double else TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info("z", element, [1])]
        initializers = []
        for name, array in self.initializers:
            array = array.astype(real) if array.dtype == np.float32 else array
            if trained_as_inputs and name in self.trained:
                inputs.append(helper.make_tensor_value_info(name, element, array.shape))
            else:
                initializers.append(numpy_helper.from_array(array, name))
        nodes = []
        for node in self.nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for attribute in copy.attribute:
                if double and attribute.name in ("to", "dtype", "stash_type") and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.DOUBLE if attribute.name != "stash_type" else 1
            nodes.append(copy)
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.keep]
        graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
        imports = [helper.make_opsetid("", self.opset)]
        if self.domain:
            imports.append(helper.make_opsetid(self.domain, 1))
        return helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 21 else 10)


# ---- ONNX Runtime ----

def make_runner(built):
    """Outputs as a function of the trained operands; (function, step) or (None, reason)."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    reason = ""
    for double in (True, False):
        try:
            session = onnxruntime.InferenceSession(built.proto(double, True).SerializeToString(), options, providers=["CPUExecutionProvider"])
            real = np.float64 if double else np.float32

            def run(values):
                feeds = {"z": np.zeros(1, real)} | {name: value.astype(real) for name, value in values.items()}
                return [np.asarray(y) for y in session.run(None, feeds)]

            run({name: value for name, value in built.trained.items()})
            return run, built.step or (1e-4 if double else 1e-2)
        except Exception as error:
            reason = str(error)
    return None, reason


def differentiate(run, step, trained, slopes):
    """Σ slopes · dy/dx by central differences (Richardson) → {name: gradient}"""
    values = {name: value.astype(np.float64) for name, value in trained.items()}

    def at(name, index, move):
        keep = values[name][index]
        values[name][index] = keep + move
        y = run(values)
        values[name][index] = keep
        return y

    result = {}
    for name, value in values.items():
        gradient = np.zeros(value.shape)
        for index in np.ndindex(value.shape):
            estimate = []
            for h in (step, step / 2):
                up, down = at(name, index, h), at(name, index, -h)
                total = 0.0
                for k, slope in slopes.items():
                    with np.errstate(invalid="ignore"):
                        moved = (up[k].astype(np.float64) - down[k].astype(np.float64)) / (2 * h)
                    total += float((slope * np.where(slope == 0, 0, moved)).sum())
                estimate.append(total)
            gradient[index] = (4 * estimate[1] - estimate[0]) / 3
        result[name] = gradient
    return result


def expect(built):
    """(targets, loss, gradients, tolerance factor), or a reason why there are none."""
    run, step = make_runner(built)
    if run is None:
        return step
    rng = np.random.default_rng(7)
    outputs, targets, slopes, loss = run(built.trained), {}, {}, 0.0
    for k, y in enumerate(outputs):
        if y.dtype not in (np.float64, np.float32) or y.size == 0:
            continue
        target = (y + rng.uniform(0.3, 1.0, y.shape) * rng.choice([-1, 1], y.shape)).astype(np.float32)
        targets[k] = target
        difference = y.astype(np.float64) - target
        loss += float((difference ** 2).mean())
        slopes[k] = 2 * difference / y.size
    if not targets or not np.isfinite(loss):
        return "ONNX Runtime has no finite floating output"
    return targets, loss, differentiate(run, step, built.trained, slopes), step > 2e-4


# ---- Ortrain ----

def train(built, targets, precision, keep):
    proto = built.proto(False, False)
    path = keep / f"{built.name}.onnx"
    onnx.save(proto, path)
    if precision == "fp16":  # a first scale that no gradient of one element overflows with
        built.options = {**built.options, "loss_scaler": Ortrain.LossScaler(initial_scale=64.0)}
    losses = [Ortrain.MseLoss(built.keep[k], f"target{k}") for k in targets]
    options = Ortrain.TrainingOptions(losses, optimizer=Ortrain.Sgd(0.1), precision=precision, **built.options)
    options.set_trainable(list(built.trained))
    session = Ortrain.TrainingSession(Ortrain.Model(str(path)), options)
    feeds = {"z": np.zeros(1, np.float32)} | {f"target{k}": target for k, target in targets.items()}
    loss = session.train_step(feeds)
    gradients = session.get_gradients().numpy()
    return loss, {name: np.asarray(gradients[name], np.float64) for name in built.trained}


def distance(found, right, precision):
    if found.shape != right.shape:
        return f"shape {found.shape}, not {right.shape}"
    if precision == "f32":
        smooth = np.isfinite(right)  # else there is no value on one side, and no difference
        scale = max(np.abs(right[smooth]).max(initial=0), 1e-2)
        worst = np.abs(np.where(smooth, found - right, 0)).max(initial=0) / scale
    else:
        smooth = np.isfinite(right)
        worst = np.linalg.norm((found - right)[smooth]) / max(np.linalg.norm(right[smooth]), 2e-2)
    return float(worst) if np.isfinite(worst) else "NaN"


def check(model, precision, keep):
    """("agree" | "refused" | "differ" | "no truth", text)"""
    built = Built(model)
    truth = expect(built)
    if isinstance(truth, str):
        return "no truth", truth.splitlines()[0]
    targets, loss, gradients, coarse = truth
    try:
        our_loss, ours = train(built, targets, precision, keep)
    except Exception as error:
        return "refused", str(error)
    limit = LIMIT[precision] * (3 if coarse else 1)
    faults = [] if abs(our_loss - loss) <= limit * max(abs(loss), 1e-2) else [f"loss {our_loss:.6g}, not {loss:.6g}"]
    for name, right in gradients.items():
        off = distance(ours[name], right, precision)
        if isinstance(off, str) or off > limit:
            faults.append(f"{name} off by {off}: {np.array2string(ours[name].ravel()[:8], precision=4)} not {np.array2string(right.ravel()[:8], precision=4)}")
    return ("differ", "; ".join(faults)) if faults else ("agree", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="models whose names contain one of these; all, if there are none")
    parser.add_argument("--precision", default="f32", choices=list(LIMIT))
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the models")
    parser.add_argument("--json", type=pathlib.Path, help="file for the outcomes")
    arguments = parser.parse_args()
    import tempfile
    keep = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="ortrain-differences-"))
    keep.mkdir(parents=True, exist_ok=True)
    counts, outcomes, unexplained = {}, {}, 0
    for model in models():
        if arguments.names and not any(name in model["name"] for name in arguments.names):
            continue
        outcome, text = check(model, arguments.precision, keep)
        counts[outcome] = counts.get(outcome, 0) + 1
        outcomes[model["name"]] = [outcome, text]
        if outcome == "agree":
            continue
        sentence = DIFFERENT.get(model["name"], "") if outcome == "differ" else ""
        unexplained += outcome == "differ" and not sentence
        print(f"{outcome}: {model['name']} (opset {model['opset']}): {sentence or text}", flush=True)
    print(", ".join(f"{counts.get(outcome, 0)} {outcome}" for outcome in ("agree", "refused", "differ", "no truth")))
    if arguments.json:
        arguments.json.write_text(json.dumps(outcomes, indent=1))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
