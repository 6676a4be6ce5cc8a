# SPDX-License-Identifier: LGPL-2.1-or-later
"""ONNX's operator tests (Debian's libonnx-testdata), each as it is and in other forms of the same model, which have to give the same:

  plain      as the file has it, its inputs fed
  passes-off the same without graph passes
  folded     all inputs are initializers: what can be computed is computed before the first run
  constants  all inputs are outputs of Constant nodes
  unknown    all inputs come through a Gather, with indices that NonZero finds in random numbers: no shape is known before the run
  beside     the same NonZero beside the model: everything is run node by node, and shapes are known
  branch     the model is a branch of If, whose condition is fed
  computed   the same, with a condition that is computed from data

    test_operator_ways.py [FOLDER…]

A form that gives something else, or an error, is a failure unless EXPECTED has it, with the reason; a form that cannot be made
(an output that is an input, an operator set without NonZero) counts as refused.
"""
import os
import pathlib
import re
import sys

import gi

gi.require_version("Ortrain", "1.0")
import numpy as np
from gi.repository import GLib, Ortrain

DATA = pathlib.Path("/usr/share/libonnx-testdata/data/node")
RTOL, ATOL = 1e-3, 1e-7     # as `ortrain verify` compares with the data
BOOL, INT64 = 9, 7
WAYS = ["plain", "passes-off", "folded", "constants", "unknown", "beside", "branch", "computed"]

# (pattern of tests, ways, reason)
EXPECTED = [
    ("test_(bernoulli|training_dropout).*", WAYS[1:], "random numbers differ with the position of a node in the file"),
]


# ---- Protocol buffers, as little of them as is needed ----

def read_varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        at += 1
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return n, at


def read_fields(data):
    """[(number, kind, payload)]: kind 0 has a number, others have bytes."""
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            payload, at = read_varint(data, at)
        else:
            n = 8 if kind == 1 else 4
            if kind == 2:
                n, at = read_varint(data, at)
            payload, at = data[at:at + n], at + n
        fields.append((key >> 3, kind, payload))
    return fields


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def write_fields(fields):
    out = []
    for number, kind, payload in fields:
        out.append(varint(number << 3 | kind))
        if kind == 2:
            out.append(varint(len(payload)))
        out.append(varint(payload) if kind == 0 else payload)
    return b"".join(out)


def get(fields, number, default=b""):
    return next((payload for n, _, payload in fields if n == number), default)


def field(number, payload):
    return write_fields([(number, 0 if isinstance(payload, int) else 2, payload)])


def node(kind, inputs, outputs, *attributes):
    return b"".join([field(1, name) for name in inputs] + [field(2, name) for name in outputs] + [field(4, kind)] + [field(5, a) for a in attributes])


def int_attribute(name, value):
    return field(1, name) + field(3, value) + field(20, 2)


def ints_attribute(name, *values):
    return field(1, name) + b"".join(field(8, value) for value in values) + field(20, 7)


def graph_attribute(name, graph):
    return field(1, name) + field(6, graph) + field(20, 5)


def tensor_attribute(name, tensor):
    return field(1, name) + field(5, tensor) + field(20, 4)


def ints(name, dims, *values):
    return b"".join(field(1, d) for d in dims) + field(2, INT64) + field(8, name) + field(9, np.array(values, "<i8").tobytes())


def value_info(name, dtype, dims):
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


# ---- A test, and its forms ----

class Refused(Exception):
    """This form of the test cannot be made."""


class Test:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.model = read_fields((self.folder / "model.onnx").read_bytes())
        self.graph = read_fields(get(self.model, 7))
        self.opset = max([get(read_fields(p), 2, 1) for n, _, p in self.model if n == 8 and get(read_fields(p), 1) in (b"", b"ai.onnx")] + [0])
        initialized = {get(read_fields(p), 8) for n, _, p in self.graph if n == 5}
        self.inputs = [get(read_fields(p), 1) for n, _, p in self.graph if n == 11]
        self.inputs = [name for name in self.inputs if name not in initialized]
        self.outputs = [get(read_fields(p), 1) for n, _, p in self.graph if n == 12]
        self.data = self.folder / "test_data_set_0"

    def input_tensor(self, i, name):
        """The TensorProto of an input, renamed."""
        fields = read_fields((self.data / f"input_{i}.pb").read_bytes())
        return write_fields([f for f in fields if f[0] != 8] + [(8, 2, name)])

    def feeds(self):
        return {name.decode(): Ortrain.Tensor.new_from_onnx(str(self.data / f"input_{i}.pb")) for i, name in enumerate(self.inputs)}

    def write(self, graph):
        return write_fields([(n, k, graph if n == 7 else p) for n, k, p in self.model])

    def without_inputs(self):
        return [f for f in self.graph if f[0] != 11 or get(read_fields(f[2]), 1) not in self.inputs]

    def plain(self):
        return self.write(get(self.model, 7)), self.feeds()

    passes_off = plain

    def folded(self):
        graph = self.without_inputs() + [(5, 2, self.input_tensor(i, name)) for i, name in enumerate(self.inputs)]
        return self.write(write_fields(graph)), {}

    def constants(self):
        made = [(1, 2, node(b"Constant", [], [name], tensor_attribute(b"value", self.input_tensor(i, name)))) for i, name in enumerate(self.inputs)]
        return self.write(write_fields(made + self.without_inputs())), {}

    def is_bfloat16(self, output):
        """Whether the file says so."""
        info = next(read_fields(p) for n, _, p in self.graph if n == 12 and get(read_fields(p), 1) == output)
        return get(read_fields(get(read_fields(get(info, 2)), 1)), 1) == 16

    def need(self, opset):
        if self.opset < opset:
            raise Refused(f"operator set {self.opset}")

    def axes(self, kind, of, axis, output):
        """Squeeze or Unsqueeze: axes are an attribute or an input"""
        if self.opset < 13:
            return node(kind, [of], [output], ints_attribute(b"axes", axis))
        return node(kind, [of, b"ways.axis"], [output])

    def indices(self):
        """ways.indices: [[0]], of which nobody knows the shape before the run"""
        self.need(9)
        return [node(b"RandomUniform", [], [b"ways.random"], ints_attribute(b"shape", 1)), node(b"Cos", [b"ways.random"], [b"ways.cosine"]),
                node(b"NonZero", [b"ways.cosine"], [b"ways.indices"])]

    def unknown(self):
        rest, made = [], self.indices() + [self.axes(b"Squeeze", b"ways.indices", 0, b"ways.index")]
        for n, k, p in self.graph:
            info = read_fields(p) if n == 11 else []
            if get(info, 1) in self.inputs:
                name = get(info, 1)
                p = write_fields([(a, b, c if a != 1 else b"ways.fed." + name) for a, b, c in info])
                made += [self.axes(b"Unsqueeze", b"ways.fed." + name, 0, b"ways.row." + name),
                         node(b"Gather", [b"ways.row." + name, b"ways.index"], [b"ways.rows." + name]),
                         self.axes(b"Squeeze", b"ways.rows." + name, 0, name)]
            rest.append((n, k, p))
        graph = [(1, 2, each) for each in made] + rest
        if self.opset >= 13:
            graph.append((5, 2, ints(b"ways.axis", [1], 0)))
        feeds = {"ways.fed." + name: tensor for name, tensor in self.feeds().items()}
        return self.write(write_fields(graph)), feeds

    def beside(self):
        graph = self.graph + [(1, 2, each) for each in self.indices()] + [(12, 2, field(1, b"ways.indices"))]
        return self.write(write_fields(graph)), self.feeds()

    def make_branch(self, condition):
        """The other branch has the outputs as constants of other elements: zeros of the same type and shape."""
        self.need(1)
        inner = [f for f in self.graph if f[0] != 11]
        if any(name in self.inputs for name in self.outputs):
            raise Refused("an output is an input")
        other = []
        for i, name in enumerate(self.outputs):
            path = self.data / f"output_{i}.pb"
            if not path.exists():
                raise Refused("no data for an output")
            made = b"ways.other." + name
            # data hold bfloat16 as uint16
            fields = [(n, k, 16) if n == 2 and p == 4 and self.is_bfloat16(name) else (n, k, p) for n, k, p in read_fields(path.read_bytes())]
            other += [(1, 2, node(b"Constant", [], [made], tensor_attribute(b"value", write_fields([f for f in fields if f[0] != 8])))), (12, 2, field(1, made))]
        other.append((2, 2, b"other"))
        choice = node(b"If", [condition], [b"ways.out." + name for name in self.outputs], graph_attribute(b"then_branch", write_fields(inner)),
                      graph_attribute(b"else_branch", write_fields(other)))
        outer = [(1, 2, choice), (2, 2, b"outer")] + [f for f in self.graph if f[0] == 11]
        return outer + [(12, 2, field(1, b"ways.out." + name)) for name in self.outputs]

    def branch(self):
        graph = self.make_branch(b"ways.condition") + [(11, 2, value_info(b"ways.condition", BOOL, []))]
        return self.write(write_fields(graph)), self.feeds() | {"ways.condition": Ortrain.Tensor(np.array(True))}

    def computed(self):
        made = self.indices() + [node(b"Size", [b"ways.indices"], [b"ways.size"]),
                node(b"Cast", [b"ways.size"], [b"ways.condition"], int_attribute(b"to", BOOL))]
        graph = [(1, 2, each) for each in made] + self.make_branch(b"ways.condition")
        return self.write(write_fields(graph)), self.feeds()


def run(test, way):
    data, feeds = getattr(test, way.replace("-", "_"))()
    model = Ortrain.Model.new_from_bytes(GLib.Bytes.new(data), None)
    session = Ortrain.InferenceSession(model, Ortrain.SessionOptions(optimize=way != "passes-off", threads=1))
    found = session.run(feeds)
    if way in ("unknown", "beside", "computed") and session.get_memory_plan() is not None:
        raise Refused("it was planned: nothing reads what is not known")
    prefix = "ways.out." if way in ("branch", "computed") else ""
    return [found[prefix + name.decode()] for name in test.outputs]


def describe(tensor):
    return f"{tensor.get_dtype().value_nick}{list(tensor.get_dims())}"


def difference(found, expected):
    """None, or what differs; and whether the bits do."""
    if describe(found) != describe(expected):
        return f"{describe(found)} instead of {describe(expected)}", True
    if found.equal(expected):
        return None, False
    rtol = 1e-2 if expected.get_dtype() == Ortrain.DType.BFLOAT16 else RTOL
    with np.errstate(all="ignore"):
        a, b = (np.array([t.get_scalar(i) for i in range(t.get_n_elements())]) for t in (found, expected))
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= ATOL + rtol * np.abs(b)))
    if not wrong.any():
        return None, True
    i = int(np.argmax(wrong))
    return f"element {i} is {a[i]} instead of {b[i]}", True


def main(folders):
    folders = folders or sorted(DATA.glob("test_*"))
    if not folders:
        print("1..0 # SKIP there are no operator tests: libonnx-testdata is not installed")
        return 0
    counts = {way: dict.fromkeys(("same", "rounding", "refused", "differs"), 0) for way in WAYS}
    failures = 0
    for folder in folders:
        name = pathlib.Path(folder).name
        try:
            test = Test(folder)
            expected = run(test, "plain")
        except (GLib.Error, OSError) as error:      # `ortrain verify` tells what of these is right
            counts["plain"]["refused"] += 1
            continue
        counts["plain"]["same"] += 1
        for way in WAYS[1:]:
            outcome, text = "same", None
            try:
                for k, (found, wanted) in enumerate(zip(run(test, way), expected)):
                    text, bits = difference(found, wanted)
                    if bits:
                        outcome = "rounding"
                    if text is not None:
                        text = f"output {k}: {text}"
                        break
            except Refused:
                counts[way]["refused"] += 1
                continue
            except GLib.Error as error:
                text = error.message
            if text is not None:
                outcome = "differs"
                reason = next((why for pattern, ways, why in EXPECTED if re.fullmatch(pattern, name) and way in ways), None)
                if reason is not None:
                    outcome = "refused"
                else:
                    failures += 1
                    print(f"# {name}, {way}: {text}")
            if outcome == "rounding" and os.environ.get("WAYS_VERBOSE"):
                print(f"# {name}, {way}: other bits")
            counts[way][outcome] += 1
    print(f"1..{len(WAYS)}")
    for number, way in enumerate(WAYS, 1):
        text = ", ".join(f"{n} {word}" for word, n in counts[way].items() if n > 0)
        print(f"{'not ok' if counts[way]['differs'] else 'ok'} {number} {way}: {text}")
    return failures > 0


sys.exit(main(sys.argv[1:]))
