# SPDX-License-Identifier: LGPL-2.1-or-later
"""The small models of differences.py: each operator with a gradient, the corners of its attributes, values at edges, operands
that are computed, scalars and broadcast ones, sizes 1 and 0, and older operator sets."""
from onnx import helper

found = []


def case(op, operands, opset=18, outputs=1, keep=None, computed=False, name=None, domain="", step=None, options={}, **attributes):
    """operands: as differences.parse reads them, separated by ";". computed: all trained operands are the sum of an
    initializer and the model's input. keep: the outputs that the loss is taken of; all, where none are named. step: of the differences, where the usual one crosses
    kinks or is too small for what ONNX Runtime computes in float32 inside. options: of the training."""
    stem = name or (op if isinstance(op, str) else op.__name__)
    n = sum(model["stem"] == stem for model in found)
    found.append({
        "stem": stem, "name": f"{stem}_{n}", "op": op, "operands": operands.split(";"), "opset": opset, "outputs": outputs,
        "keep": keep, "computed": computed, "domain": domain, "step": step, "options": options, "attributes": attributes,
    })


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


# What differs, and why that is right.
DIFFERENT = {
    f"Resize_crop_{mode}_0": "ONNX Runtime does not crop an axis that keeps its length; ONNX's text and its own implementation do, and so does Ortrain"
    for mode in ("linear", "cubic")
}


# ---- element-wise ----

def unary():
    for op in "Abs Neg Exp Sin Cos Tanh Sigmoid Erf Relu Softsign Softplus Identity Sinh Atan Asinh Cosh".split():
        case(op, "f[2,3]", 9 if op in ("Sinh", "Asinh", "Cosh", "Erf") else 7)
        case(op, "f", 13)
    case("Softplus", "F[5]{-90,-20,0.5,20,90}", 7)
    case("Softsign", "F[3]{-1000,0.5,1000}", 7)
    case("Sigmoid", "F[5]{-90,-20,0.5,20,90}")
    case("Tanh", "F[4]{-30,-9,9,30}")
    for op in "Sqrt Log Reciprocal".split():
        case(op, "p[2,3]", 7)
        case(op, "p[1]", 13)
    for op in "Asin Acos Atanh".split():
        case(op, "u[2,3]", 9)
    case("Tan", "u[2,3]", 9)
    case("Acosh", "g[2,3]", 9)
    for alpha in (0.0, -0.3, 2.0):
        case("LeakyRelu", "f[3,4]", 16, alpha=alpha)
    case("LeakyRelu", "f[3,4]", 7)
    for alpha in (0.0, 0.6):
        case("Elu", "f[3,4]", 7, alpha=alpha)
    case("Selu", "f[3,4]", 7)
    case("Selu", "f[3,4]", 7, alpha=0.7, gamma=2.0)
    case("Celu", "f[3,4]", 12, alpha=0.7)
    case("ThresholdedRelu", "f[3,4]", 10, alpha=0.4)
    case("ThresholdedRelu", "f[3,4]", 10, alpha=-0.4)
    case("HardSigmoid", "f[3,4]", 7, alpha=0.5, beta=0.6)
    case("HardSigmoid", "f[3,4]", 7, alpha=0.0)
    case("HardSigmoid", "F[4]{-4,-1,1,4}", 7)
    case("HardSwish", "F[5]{-4,-2,0.4,2,4}", 14)
    case("Mish", "f[3,4]", 18)
    case("Gelu", "f[3,4]", 20)
    case("Gelu", "f[3,4]", 20, approximate="tanh")
    case("Swish", "f[3,4]", 24, alpha=1.7)
    case("Shrink", "f[3,4]", 9, bias=0.2, lambd=0.3)
    case("Shrink", "f[3,4]", 9, lambd=0.3)
    case("Clip", "f[3,4];d{-0.5};d{0.5}", 13)
    case("Clip", "f[3,4];F{-0.5};F{0.5}", 13)
    case("Clip", "f[3,4];_;F{0.5}", 13)
    case("Clip", "f[3,4];F{0.5};F{-0.5}", 13)
    case("Clip", "f[3,4]", 6, min=-0.5, max=0.5)
    case("Clip", "f[3,4]", 11)
    for op in ("Floor", "Ceil", "Round", "Sign"):
        def step(inputs, outputs, op=op):
            return [node(op, inputs, ["s"]), node("Mul", ["s", inputs[0]], outputs)]
        case(step, "f[2,3]", 13, name=op)
    case("Cast", "f[2,3]", 13, to=1)
    case("PRelu", "f[3,4];f[3,4]", 16)
    case("PRelu", "f[2,3,4];f[3,1]", 9)
    case("PRelu", "f[3,4];f", 7)
    case("PRelu", "f[3,4];F{0}", 7)
    case("PRelu", "f[2,3,4];f[1]", 7)


def binary():
    for op in ("Add", "Sub", "Mul"):
        for shapes in ("f[2,3];f[2,3]", "f[2,3];f[3]", "f[3];f[2,3]", "f[2,1,3];f[4,1]", "f;f[2,2]", "f[1];f", "f;f", "f[1,1,1];f[2]"):
            case(op, shapes, 7 if op == "Add" else 14, computed=op == "Mul")
    for shapes in ("f[2,3];p[3]", "f;p[2,2]", "f[1];p", "F[3]{0,1,-2};p[3]", "p[2,1];p[1,3]"):
        case("Div", shapes, 13, computed=True)
    for shapes in ("p[2,3];f[2,3]", "p[2,3];F{2}", "p[2,1];f[3]", "p;f", "f[2,3];d{2}", "f[2,3];d{3}", "F[3]{0,1,2};d{2}", "F[3]{0,1,2};d{3}",
                   "F[3]{0,1,-2};d{1}", "F[3]{0,1,-2};d{0}", "p[3];d{-1.5}", "F[3]{0,1,2};d{2.5}", "F[3]{0.0,1,2};d[3]{2,1,3}", "f[2,3];i{2}", "p[3];d{0.5}",
                   "p[3];f[1]", "F[2,2]{-1,-2,1,2};d[2]{2,3}"):
        case("Pow", shapes, 13)
    case("Pow", "p[2,3];f[3]", 7)
    case("Pow", "F{2};f[3]", 15, computed=True)
    case("Mod", "f[2,3];d[3]{0.77,-0.9,1.1}", 13, fmod=1)
    case("Mod", "f[2,3];p[3]", 13, fmod=1)
    for op in ("Max", "Min", "Sum", "Mean"):
        for shapes in ("f[2,3];f[2,3]", "f[2,3];f[3];f[2,1]", "f[5]", "f;f[3]", "f[1];f;f[2,2]"):
            case(op, shapes, 13)
        case(op, "F[3]{1,2,3};F[3]{1,3,2}", 8)
        case(op, "f[2];f[2]", 7)

    def same(inputs, outputs, op="Max"):
        return [node(op, [inputs[0], inputs[0]], outputs)]
    case(same, "f[3]", 13, name="Max_same")

    def square(inputs, outputs):
        return [node("Mul", [inputs[0], inputs[0]], outputs)]
    case(square, "f[3]", 13)

    def where(inputs, outputs):
        return [node("Greater", [inputs[0], inputs[1]], ["m"]), node("Where", ["m", inputs[0], inputs[1]], outputs)]
    case(where, "f[2,3];f[3]", 16, computed=True)
    case("Where", "b[2,3]{1,0,1,0,0,1};f[2,3];f[2,3]", 9)
    case("Where", "b[3]{1,0,1};f[2,3];f", 16)
    case("Where", "b{1};f[2,1];f[3]", 16)
    case("Where", "b[2,1]{1,0};f[3];f[2,3]", 16, computed=True)


# ---- reductions ----

def reductions():
    for op in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare".split():
        kind = "p" if op == "ReduceLogSum" else "f"
        new = 13 if op == "ReduceSum" else 18
        case(op, f"{kind}[2,3,4];i[1]{{1}}", new)
        case(op, f"{kind}[2,3,4];i[2]{{0,-1}}", new, keepdims=0)
        case(op, f"{kind}[2,3]", new)
        case(op, f"{kind}[2,3]", new, keepdims=0)
        case(op, f"{kind}[2,3,2]", 11, axes=[1])
        case(op, f"{kind}[2,3,2]", 7, axes=[0, 2], keepdims=0)
        case(op, f"{kind}[2,1,3];i[1]{{1}}", new)
        case(op, f"{kind}[4]", new, keepdims=0)
        case(op, f"{kind}[2,3]", new, noop_with_empty_axes=1)
        if op not in ("ReduceLogSum",):
            case(op, f"{kind}", new)
    case("ReduceProd", "F[2,3]{0,2,3,1,0,0};i[1]{1}", 18)
    case("ReduceProd", "F[2,2]{0,2,0,0}", 13, keepdims=0)
    case("ReduceL2", "F[2,2]{0,3,4,0};i[1]{1}", 18)
    case("ReduceL1", "F[2,2]{2,3,-4,1};i[1]{1}", 18)
    case("ReduceMax", "F[2,2]{1,1,2,0};i[1]{1}", 18)
    case("ReduceMin", "F[2,2]{1,1,2,0}", 13, keepdims=0)
    case("ReduceLogSumExp", "F[2,3]{80,81,79,-90,-91,-92};i[1]{1}", 18)
    case("ReduceSumSquare", "F[2,2]{0,3,4,0};i[1]{0}", 18)
    for attributes in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        case("CumSum", "f[2,4];i{1}", 14, **attributes)
        case("CumSum", "f[4,2];j{0}", 11, **attributes)
        case("CumProd", "f[2,4];i{1}", 26, **attributes)
        case("CumProd", "F[5]{2,0,3,0,1};i{0}", 26, **attributes)
    case("CumSum", "f[2,2,2];i{-2}", 14)
    for op in ("Softmax", "LogSoftmax"):
        for axis in (0, 1, -1):
            case(op, "f[2,3,4]", 13, axis=axis)
            case(op, "f[2,3,4]", 11, axis=axis if axis >= 0 else 2)
        case(op, "f[2,3]", 7)
        case(op, "F[2,3]{100,101,99,-100,-200,0}", 13)
        case(op, "f[4]", 13, axis=0)
        case(op, "f[3,1]", 13)


# ---- normalizations ----

def norms():
    frozen = {"batch_norm": "frozen"}
    for opset in (7, 9, 14, 15):
        case("BatchNormalization", "f[2,3,2];f[3];f[3];c[3];q[3]", opset, options=frozen)
    case("BatchNormalization", "f[2,3,2];f[3];f[3];f[3];p[3]", 15, computed=True)
    case("BatchNormalization", "f[4,3];f[3];f[3];c[3];q[3]", 15, epsilon=0.1, options=frozen)
    case("BatchNormalization", "f[3,2,2,2];f[2];f[2];c[2];q[2]", 15, outputs=3, keep=[0], training_mode=1)
    case("BatchNormalization", "f[3,2,2,2];f[2];f[2];c[2];q[2]", 15, outputs=3, training_mode=1, momentum=0.6)
    case("BatchNormalization", "f[4,3];f[3];f[3];c[3];q[3]", 15, outputs=3, keep=[2], training_mode=1)
    for shape, scale, axis in (("2,3,4", "4", -1), ("2,3,4", "3,4", 1), ("2,3,4", "2,3,4", 0), ("2,3", "3", -1), ("4", "4", -1), ("2,1", "1", -1)):
        case("LayerNormalization", f"f[{shape}];f[{scale}];f[{scale}]", 17, axis=axis)
        case("LayerNormalization", f"f[{shape}];f[{scale}]", 17, axis=axis, epsilon=0.1)
        case("RMSNormalization", f"f[{shape}];f[{scale}]", 23, axis=axis)
    for scale, bias in (("1", "1"), ("2,1,4", "4"), ("4", "2,1,4"), ("", ""), ("1,1,4", "1"), ("2,1,1", "3,4")):
        s, b = (f"f[{text}]" if text else "f" for text in (scale, bias))
        case("LayerNormalization", f"f[2,3,4];{s};{b}", 17, name="LayerNormalization_broadcast")
        case("RMSNormalization", f"f[2,3,4];{s}", 23, name="RMSNormalization_broadcast")
    case("LayerNormalization", "f[2,3,4];f[3,1];f[4]", 17, axis=1, name="LayerNormalization_broadcast")
    case("LayerNormalization", "f[2,3,4];f[4];f[4]", 17, outputs=3)
    case("LayerNormalization", "f[2,3,4];f[4];f[4]", 17, outputs=3, keep=[1])
    case("LayerNormalization", "f[2,3,4];f[4];f[4]", 17, outputs=3, keep=[0, 2])
    case("LayerNormalization", "f[2,3,4];f[3,4];f[3,4]", 17, outputs=3, keep=[2], axis=1, step=1e-2)
    case("LayerNormalization", "f[2,3,4];f[4];f[4]", 17, computed=True)
    for opset in (7, 22):
        case("InstanceNormalization", "f[2,3,4];f[3];f[3]", opset)
    case("InstanceNormalization", "f[2,2,3,2];f[2];f[2]", 7, epsilon=0.01, computed=True)
    case("GroupNormalization", "f[2,4,3];f[4];f[4]", 21, num_groups=2, step=1e-2)
    case("GroupNormalization", "f[2,4,3];f[2];f[2]", 18, num_groups=2, step=1e-2)
    case("GroupNormalization", "f[2,4,2,2];f[4];f[4]", 21, num_groups=4, computed=True, step=1e-2)
    case("GroupNormalization", "f[2,4,2,2];f[4];f[4]", 21, num_groups=1, step=1e-2)
    for p in (1, 2):
        for axis in (0, 1, -1):
            case("LpNormalization", "f[2,3,2]", 7, axis=axis, p=p)
    case("LpNormalization", "F[2,2]{3,4,1,2}", 22)
    case("MeanVarianceNormalization", "f[2,3,2,2]", 9)
    case("MeanVarianceNormalization", "f[2,3,2]", 13, axes=[0, 2])
    case("LRN", "f[2,5,2,2]", 7, size=3, alpha=0.1)
    case("LRN", "f[1,4,2,2]", 13, size=4, alpha=0.3, beta=0.5, bias=2.0)

    def written_out(inputs, outputs):
        return [node("ReduceMean", [inputs[0]], ["m"], axes=[-1]), node("Sub", [inputs[0], "m"], ["d"]), node("Mul", ["d", "d"], ["q"]),
                node("ReduceMean", ["q"], ["v"], axes=[-1]), node("Add", ["v", inputs[3]], ["e"]), node("Sqrt", ["e"], ["s"]), node("Div", ["d", "s"], ["n"]),
                node("Mul", ["n", inputs[1]], ["w"]), node("Add", ["w", inputs[2]], outputs)]
    case(written_out, "f[2,3];f[3];f[3];d{1e-5}", 13, name="layer_norm")
    case(written_out, "f[2,3];f[3];f[3];F{0.1}", 13, name="layer_norm")
    case(written_out, "f[2,3];f[3];f[3];F[3]{0.1,0.2,0.3}", 13, name="layer_norm")
    case(written_out, "f[2,3];f[3];f[3];F{-0.01}", 13, name="layer_norm")
    case(written_out, "f[2,3];f[3];f[3];d{-0.01}", 13, name="layer_norm")
    case(written_out, "f[2,3];f;f[1];d{1e-5}", 13, name="layer_norm")


# ---- products ----

def products():
    for shapes in ("f[2,3];f[3,4]", "f[2,5,3];f[3,4]", "f[2,5,3];f[2,3,4]", "f[2,1,2,3];f[3,3,2]", "f[3];f[3,2]", "f[2,3];f[3]", "f[3];f[3]", "f[2,4,3];f[3]",
                   "f[3];f[2,3,4]", "f[1,1];f[1,1]", "f[2,1];f[1,3]"):
        case("MatMul", shapes, 13, computed=len(shapes) % 2 == 0)
    case("MatMul", "f[2,3];f[3,2]", 7)
    for shapes, attributes in (("f[2,3];f[3,4];f[4]", {}), ("f[2,3];f[3,4]", {}), ("f[3,2];f[3,4];f[2,1]", {"transA": 1}),
                               ("f[2,3];f[4,3];f[2,4]", {"transB": 1, "alpha": 0.5, "beta": 2.0}), ("f[3,2];f[4,3];f", {"transA": 1, "transB": 1, "alpha": 1.5}),
                               ("f[2,3];f[3,4];f[1]", {"beta": 0.0}), ("f[2,3];f[3,4];f[4]", {"alpha": 0.0}), ("f[2,3];f[3,1];f[2,1]", {}), ("f[2,3];f[3,4];f[1,4]", {})):
        case("Gemm", shapes, 13, **attributes)
    case("Gemm", "f[2,3];f[3,4];f[4]", 7)
    case("Gemm", "f[2,3];f[3,4];f", 7, computed=True)
    for equation, shapes in (("ij,jk->ik", "f[2,3];f[3,4]"), ("ijk->ki", "f[2,3,4]"), ("bi,bj->bij", "f[2,3];f[2,4]"), ("...j,jk->...k", "f[2,2,3];f[3,4]"), ("ii->i", "f[3,3]"),
                             ("ii", "f[3,3]"), ("ij,ij->", "f[2,3];f[2,3]"), ("i,j->ij", "f[2];f[3]"), ("ij->ji", "f[2,3]"), ("ij,jk,kl->il", "f[2,3];f[3,2];f[2,2]"),
                             ("bhqd,bhkd->bhqk", "f[1,2,2,3];f[1,2,3,3]"), ("i->", "f[3]"), ("ij,k->ik", "f[2,3];f[2]"), ("...ii->...i", "f[2,3,3]"), (",ij->ij", "f;f[2,2]"),
                             ("iij,jk->ik", "f[2,2,3];f[3,2]"), ("ij,jk", "f[2,3];f[3,2]"), ("b...i,bi->b...", "f[2,3,2];f[2,2]"), ("ij,ij->ij", "f[1,3];f[2,3]")):
        case("Einsum", shapes, 12, equation=equation)
    case("Det", "f[2,2]", 11)
    case("Det", "f[2,3,3]", 11)


def convolutions():
    for shapes, attributes in (
        ("f[2,2,5];f[3,2,3];f[3]", {}), ("f[1,2,5,4];f[3,2,3,2];f[3]", {"pads": [1, 0, 1, 1], "strides": [2, 1]}), ("f[1,4,4,4];f[4,2,3,3]", {"group": 2, "pads": [1, 1, 1, 1]}),
        ("f[1,3,4,4];f[3,1,3,3];f[3]", {"group": 3, "pads": [1, 1, 1, 1]}), ("f[1,2,6,6];f[2,2,2,2]", {"dilations": [2, 3]}), ("f[1,1,3,4,3];f[2,1,2,2,2];f[2]", {}),
        ("f[1,2,5,5];f[2,2,3,3]", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}), ("f[1,2,5,5];f[2,2,2,2]", {"auto_pad": "SAME_LOWER"}), ("f[2,2,3,3];f[3,2,1,1]", {}),
        ("f[1,2,4,4];f[2,2,4,4];f[2]", {}), ("f[1,2,1,1];f[2,2,3,3]", {"pads": [1, 1, 1, 1]}), ("f[1,2,5];f[4,1,2]", {"group": 2, "auto_pad": "VALID"}),
        ("f[1,1,5,5];f[1,1,2,2]", {"strides": [3, 3], "pads": [0, 1, 1, 0]})):
        case("Conv", shapes, 11, **attributes)
    case("Conv", "f[1,2,5,5];f[2,2,3,3];f[2]", 7, computed=True)
    case("Conv", "f[1,2,4,4];f[2,2,3,3];f[2]", 22, kernel_shape=[3, 3])
    for shapes, attributes in (
        ("f[1,2,3,3];f[2,3,2,2];f[3]", {"strides": [2, 2]}), ("f[1,2,3];f[2,2,3]", {"pads": [1, 1], "output_padding": [1], "strides": [2]}), ("f[1,4,3,3];f[4,1,2,2]", {"group": 2}),
        ("f[1,1,3,3];f[1,2,3,3]", {"dilations": [2, 2]}), ("f[1,1,3,3];f[1,1,3,3];f[1]", {"output_shape": [6, 6], "strides": [2, 2]}),
        ("f[1,1,3,3];f[1,2,2,2]", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}), ("f[1,2,2,2,2];f[2,1,2,2,2]", {}), ("f[1,2,3];f[2,1,4]", {"pads": [2, 1]})):
        case("ConvTranspose", shapes, 11, **attributes)
    case("ConvTranspose", "f[1,2,3,3];f[2,1,2,2];f[1]", 7, computed=True)
    for shapes, attributes in (
        ("f[1,2,4,4]", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("f[1,1,5,5]", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("f[1,2,5,4]", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}), ("f[1,1,6]", {"kernel_shape": [3]}), ("f[1,1,5,5]", {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
        ("f[1,1,4,4]", {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER", "strides": [2, 1]}), ("f[1,1,3,3,3]", {"kernel_shape": [2, 2, 2]}), ("f[1,1,7]", {"kernel_shape": [3], "strides": [3], "ceil_mode": 1, "pads": [1, 1]})):
        case("MaxPool", shapes, 12, **attributes)
        case("AveragePool", shapes, 19, **attributes)
        case("AveragePool", shapes, 19, count_include_pad=1, **attributes)
        if "ceil_mode" not in attributes:
            case("LpPool", shapes.replace("f", "p"), 18, p=3, **attributes)
            case("AveragePool", shapes, 7, **attributes)
    case("MaxPool", "f[1,1,6]", 10, kernel_shape=[3], dilations=[2])
    case("AveragePool", "f[1,1,6]", 19, kernel_shape=[3], dilations=[2], pads=[1, 1])
    case("MaxPool", "f[1,1,4,4]", 12, outputs=2, keep=[0], kernel_shape=[2, 2], storage_order=1)
    case("MaxPool", "f[1,1,4,4]", 7, kernel_shape=[2, 2])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        case(op, "f[2,3,4,2]", 7)
        case(op, "f[2,3,4]", 7)
    case("GlobalLpPool", "p[2,3,4]", 7, p=3)
    case("GlobalLpPool", "f[2,3,4]", 7)

    def unpool(inputs, outputs):
        return [node("MaxPool", inputs, ["m", "i"], kernel_shape=[2, 2], strides=[2, 2]), node("MaxUnpool", ["m", "i"], outputs, kernel_shape=[2, 2], strides=[2, 2])]
    case(unpool, "f[1,2,4,4]", 12)
    for attributes in ({}, {"strides": [2, 2], "pads": [0, 1, 1, 0]}):
        case("Col2Im", "f[1,12,4];i[2]{4,6};i[2]{2,3}" if attributes else "f[2,8,6];i[2]{3,4};i[2]{2,2}", 18, **attributes)


# ---- shapes ----

def shapes():
    case("Reshape", "f[2,3];i[2]{3,-1}", 13)
    case("Reshape", "f[2,3];i[3]{0,1,-1}", 7)
    case("Reshape", "f;i[1]{1}", 13)
    case("Reshape", "f[1,1];i[0]{}", 13)
    case("Flatten", "f[2,3,4]", 13, axis=2)
    case("Flatten", "f[2,3]", 9, axis=0)
    case("Flatten", "f[2,3,2]", 11, axis=-1)
    case("Squeeze", "f[2,1,3];i[1]{1}", 13)
    case("Squeeze", "f[1,2,1,3]", 13)
    case("Squeeze", "f[1,2,1,3]", 7, axes=[0, 2])
    case("Squeeze", "f[1]", 11)
    case("Unsqueeze", "f[2,3];i[2]{0,-1}", 13)
    case("Unsqueeze", "f[2,3]", 9, axes=[0, 3])
    case("Unsqueeze", "f;i[1]{0}", 13)
    case("Transpose", "f[2,3,4]", 13)
    case("Transpose", "f[2,3,4]", 7, perm=[1, 2, 0])
    case("Transpose", "f", 13)
    case("Concat", "f[2,3];f[2,1];f[2,2]", 13, axis=1)
    case("Concat", "f[1,3];f[2,3];c[0,3]", 11, axis=-2)
    case("Concat", "f[2];f[1]", 7, axis=0, computed=True)
    case("Concat", "f[2]", 13, axis=0)
    case("Split", "f[2,6]", 18, outputs=3, axis=1, num_outputs=3)
    case("Split", "f[7]", 18, outputs=2, num_outputs=2)
    case("Split", "f[6,2];i[2]{2,4}", 13, outputs=2, keep=[1])
    case("Split", "f[6,2]", 11, outputs=2, split=[2, 4], axis=0)
    case("Split", "f[4]", 7, outputs=2)
    case("Split", "f[4];i[3]{3,0,1}", 13, outputs=3, keep=[0, 2])
    for rest in ("i[2]{1,0};i[2]{3,5};i[2]{0,1};i[2]{1,2}", "i[1]{-1};i[1]{-7};i[1]{0};i[1]{-2}", "i[1]{1};i[1]{100}", "i[1]{-3};i[1]{-1};i[1]{-1}", "i[2]{0,4};i[2]{4,0};i[2]{0,1};i[2]{2,-3}"):
        case("Slice", f"f[4,5];{rest}", 13)
    case("Slice", "f[4,5]", 9, starts=[1, 0], ends=[3, 4])
    case("Slice", "f[4,5]", 7, starts=[-2], ends=[9], axes=[1])
    for mode in ("constant", "reflect", "edge", "wrap"):
        case("Pad", "f[3,4];i[4]{1,2,1,1}", 19, mode=mode)
        if mode != "wrap":
            case("Pad", "f[3,4]", 7, mode=mode, pads=[1, 0, 0, 1])
            case("Pad", "f[3,4];i[4]{0,1,1,0}", 13, mode=mode)
    case("Pad", "f[2,3];i[4]{-1,0,2,-1}", 13)
    case("Pad", "f[2,3];i[4]{1,0,-1,2};F{0.5}", 18, computed=True)
    case("Pad", "f[2,3];i[2]{1,2};F{0.5};i[1]{1}", 18)
    case("Pad", "f;i[0]{}", 13)
    case("Expand", "f[3,1];i[3]{2,1,4}", 13)
    case("Expand", "f;i[2]{2,3}", 8)
    case("Expand", "f[2,3];i[1]{1}", 13)
    case("Tile", "f[2,3];i[2]{2,3}", 13)
    case("Tile", "f[2];i[1]{3}", 7)
    case("DepthToSpace", "f[1,8,2,2]", 13, blocksize=2)
    case("DepthToSpace", "f[1,8,2,2]", 11, blocksize=2, mode="CRD")
    case("SpaceToDepth", "f[1,2,4,4]", 13, blocksize=2)
    case("Trilu", "f[3,4]", 14)
    case("Trilu", "f[2,3,3];i{1}", 14, upper=0)
    case("Trilu", "f[3,4];i{-9}", 14)
    case("ReverseSequence", "f[4,3];i[3]{2,4,1}", 10)
    case("ReverseSequence", "f[2,4];i[2]{3,1}", 10, batch_axis=0, time_axis=1)
    case("CenterCropPad", "f[4,3];i[2]{3,6}", 18)
    case("CenterCropPad", "f[2,5,3];i[1]{2}", 18, axes=[1])
    case("Identity", "f[0,3]", 13)

    def empty(inputs, outputs):
        return [node("ReduceSum", [inputs[1]], ["s"], keepdims=0), node("Add", [inputs[0], "s"], outputs)]
    case(empty, "f[2];c[0,3]", 13)


def indices():
    case("Gather", "f[4,3];i[2]{3,1}", 13)
    case("Gather", "f[4,3];i[2,2]{0,2,2,-1}", 11, axis=1)
    case("Gather", "f[4,3];i{2}", 13)
    case("Gather", "f[4];j[3]{1,1,1}", 7)
    case("Gather", "f[2,3,2];i{-1}", 13, axis=-2)
    case("GatherElements", "f[3,3];i[2,3]{1,2,0,2,0,0}", 13)
    case("GatherElements", "f[3,3];i[3,2]{1,-2,0,2,0,0}", 11, axis=1)
    case("GatherND", "f[3,4,2];i[2,2]{0,1,2,3}", 13)
    case("GatherND", "f[2,3,2];i[2,1]{1,0}", 12, batch_dims=1)
    case("GatherND", "f[3,2];i[2,1]{-1,-1}", 13)
    case("ScatterElements", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]", 16)
    case("ScatterElements", "f[3,3];i[1,2]{1,0};f[1,2]", 11, axis=1)
    case("Scatter", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]", 9)
    for reduction in ("add", "mul", "max", "min"):
        opset = 16 if reduction in ("add", "mul") else 18
        case("ScatterElements", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]", opset, reduction=reduction)
        case("ScatterElements", "f[3,3];i[3,2]{1,1,0,0,2,2};f[3,2]", 18, axis=1, reduction=reduction, computed=True)
        case("ScatterND", "f[4,3];i[2,1]{3,1};f[2,3]", opset, reduction=reduction)
        case("ScatterND", "f[4];i[3,1]{3,3,-1};f[3]", 18, reduction=reduction)
        case("ScatterND", "f[2,3];i[2,2]{0,1,1,2};f[2]", 18, reduction=reduction)
    case("ScatterND", "f[4,3];i[2,1]{3,1};f[2,3]", 11)
    case("ScatterElements", "F[2,3]{0,2,3,1,0,2};i[2,3]{0,1,1,2,2,1};F[2,3]{0,2,3,0,0,1}", 18, axis=1, reduction="mul")
    case("ScatterND", "F[3]{2,0,1.5};i[5,1]{0,0,1,2,2};F[5]{0,3,0,0,0}", 18, reduction="mul")
    case("ScatterElements", "F[4]{1,2,3,-1};i[3]{0,1,3};F[3]{1,2,-2}", 18, reduction="max")
    case("ScatterND", "F[4]{1,2,3,-1};i[3,1]{0,1,3};F[3]{1,3,-1}", 18, reduction="min")
    case("TensorScatter", "f[2,4,3];f[2,2,3];i[2]{1,2}", 24)
    case("TopK", "f[3,5];i[1]{2}", 11, outputs=2, keep=[0], axis=1)
    case("TopK", "f[5,2];i[1]{3}", 11, outputs=2, keep=[0], axis=0, largest=0)
    case("TopK", "f[5]", 7, outputs=2, keep=[0], k=2)
    case("Compress", "f[3,2];b[3]{1,0,1}", 11, axis=0)
    case("Compress", "f[3,2];b[5]{1,0,1,1,0}", 9)
    case("OneHot", "i[2,2]{0,1,-1,5};i{3};F[2]{0.2,1.5}", 11, axis=1)
    case("OneHot", "i{1};i[1]{3};F[2]{0.2,1.5}", 9)

    def embed(inputs, outputs):
        return [node("ArgMax", [inputs[0]], ["i"], axis=1, keepdims=0), node("Gather", [inputs[1], "i"], ["e"]), node("Add", ["e", inputs[0]], outputs)]
    case(embed, "f[2,3];f[3,3]", 13)


# ---- resize, grids ----

def images():
    for mode in ("nearest", "linear", "cubic"):
        for transformation in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"):
            for size in ("5,6", "2,2", "1,1", "3,1"):
                case("Resize", f"f[1,1,3,4];_;_;i[4]{{1,1,{size}}}", 19, mode=mode, coordinate_transformation_mode=transformation)
        case("Resize", "f[1,1,3,4];_;d[4]{1,1,2,1.5}", 13, mode=mode)
        case("Resize", "f[1,1,4,4];_;d[4]{1,1,0.6,0.4}", 13, mode=mode)
        case("Resize", "f[1,2,4];_;d[3]{1,1,2}", 13, mode=mode)
        if mode != "nearest":
            case("Resize", "f[1,1,6,6];_;_;i[4]{1,1,3,4}", 18, mode=mode, antialias=1)
            case("Resize", "f[1,1,3,4];d[8]{0,0,0.1,0.2,1,1,0.8,0.9};_;i[4]{1,1,2,3}", 18, mode=mode, coordinate_transformation_mode="tf_crop_and_resize")
            case("Resize", "f[1,1,3,4];d[8]{0,0,0.1,0.2,1,1,0.8,0.9};_;i[4]{1,1,3,3}", 18, mode=mode, coordinate_transformation_mode="tf_crop_and_resize", name=f"Resize_crop_{mode}")
    for rounding in ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor"):
        case("Resize", "f[1,1,3,4];_;_;i[4]{1,1,5,6}", 13, nearest_mode=rounding)
        case("Resize", "f[1,1,5,6];_;_;i[4]{1,1,2,3}", 13, nearest_mode=rounding, coordinate_transformation_mode="asymmetric")
    case("Resize", "f[1,1,3,4];_;_;i[4]{1,1,5,6}", 13, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    case("Resize", "f[1,1,3,4];_;_;i[2]{5,6}", 18, mode="linear", axes=[2, 3])
    case("Resize", "f[1,1,3,4];_;_;i[2]{5,6}", 18, mode="linear", axes=[3, 2], keep_aspect_ratio_policy="not_larger")
    case("Resize", "f[1,1,2,3];d[4]{1,1,2,2}", 10, mode="linear")
    case("Resize", "f[1,1,2,3];d[4]{1,1,2,2}", 10, mode="nearest")
    case("Upsample", "f[1,1,2,3];d[4]{1,1,2,2}", 9, mode="linear")
    case("Upsample", "f[1,1,2,3]", 7, mode="nearest", scales=[1.0, 1.0, 2.0, 2.0])
    for mode in ("linear", "cubic", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                case("GridSample", "f[1,2,3,4];F[1,2,2,2]{0.31,-0.42,-0.13,0.77,1.23,0.52,-1.41,-0.63}", 20, mode=mode, padding_mode=padding, align_corners=align)
    case("GridSample", "f[1,1,2,3,2];F[1,1,2,1,3]{0.31,-0.42,-0.13,0.77,0.23,0.52}", 20)
    case("GridSample", "f[1,2,3,4];u[1,2,2,2]", 16, mode="bilinear")
    case("AffineGrid", "f[2,2,3];i[4]{2,1,3,4}", 20)
    case("AffineGrid", "f[1,3,4];i[5]{1,1,2,3,2}", 20, align_corners=1)
    for mode in ("avg", "max"):
        case("RoiAlign", "f[1,2,6,6];d[2,4]{0.5,1,4.2,3.7,1,0,5,5};i[2]{0,0}", 16, mode=mode, output_height=2, output_width=2, sampling_ratio=2)


# ---- recurrent ----

def recurrent():
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}
    for op, g in rows.items():
        outputs = 3 if op == "LSTM" else 2
        cell = ";f[{d},2,2]" if op == "LSTM" else ""
        for direction in ("forward", "reverse", "bidirectional"):
            d = 2 if direction == "bidirectional" else 1
            head = f"f[3,2,3];f[{d},{2 * g},3];f[{d},{2 * g},2]"
            state = f"f[{d},2,2]" + cell.format(d=d)
            case(op, head, 14, outputs=outputs, hidden_size=2, direction=direction)
            case(op, f"{head};f[{d},{4 * g}];_;{state}", 7, outputs=outputs, hidden_size=2, direction=direction)
            case(op, f"{head};f[{d},{4 * g}];j[2]{{3,1}};{state}", 14, outputs=outputs, hidden_size=2, direction=direction, computed=True)
            case(op, f"{head};f[{d},{4 * g}];j[2]{{0,2}};{state}", 14, outputs=outputs, hidden_size=2, direction=direction)
            case(op, f"{head};f[{d},{4 * g}];_;{state}", 14, outputs=outputs, hidden_size=2, direction=direction, clip=0.57, step=1e-3)
            for k in range(outputs):
                case(op, f"{head};f[{d},{4 * g}];_;{state}", 22, outputs=outputs, keep=[k], hidden_size=2, direction=direction)
        case(op, f"f[1,1,1];f[1,{g},1];f[1,{g},1]", 14, outputs=outputs, hidden_size=1)
        case(op, f"f[2,3,3];f[1,{2 * g},3];f[1,{2 * g},2];f[1,{4 * g}];_;f[2,1,2]" + (";f[2,1,2]" if op == "LSTM" else ""), 14, outputs=outputs, hidden_size=2, layout=1)
    for name, extra in (("Relu", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": [0.1]}), ("LeakyRelu", {"activation_alpha": [0.0]}), ("LeakyRelu", {}),
                        ("ThresholdedRelu", {"activation_alpha": [0.3]}), ("ScaledTanh", {"activation_alpha": [1.5], "activation_beta": [0.7]}),
                        ("HardSigmoid", {}), ("HardSigmoid", {"activation_alpha": [0.5], "activation_beta": [0.4]}), ("Elu", {"activation_alpha": [0.7]}), ("Elu", {}), ("Softsign", {}),
                        ("Softplus", {}), ("Affine", {"activation_alpha": [0.5], "activation_beta": [0.1]})):
        case("RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", 14, outputs=2, hidden_size=2, activations=[name], name="RNN_" + name, **extra)
        case("GRU", "f[2,2,3];f[1,6,3];f[1,6,2];f[1,12]", 14, outputs=2, hidden_size=2, activations=["Sigmoid", name], name="GRU_" + name, **extra)
    for before in (0, 1):
        case("GRU", "f[3,2,3];f[1,6,3];f[1,6,2];f[1,12];_;f[1,2,2]", 14, outputs=2, hidden_size=2, linear_before_reset=before)
        case("GRU", "f[3,2,3];f[2,6,3];f[2,6,2];f[2,12];j[2]{2,3};f[2,2,2]", 14, outputs=2, hidden_size=2, linear_before_reset=before, direction="bidirectional")
    case("LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];_;f[1,2,2];f[1,2,2];f[1,6]", 14, outputs=3, hidden_size=2)
    case("LSTM", "f[3,2,3];f[2,8,3];f[2,8,2];f[2,16];j[2]{3,1};f[2,2,2];f[2,2,2];f[2,6]", 14, outputs=3, hidden_size=2, direction="bidirectional")
    case("LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];_;f[1,2,2];f[1,2,2];f[1,6]", 14, outputs=3, hidden_size=2, input_forget=1)
    case("LSTM", "f[3,2,3];f[1,8,3];f[1,8,2]", 14, outputs=3, hidden_size=2, activations=["HardSigmoid", "Tanh", "Softsign"])
    case("LSTM", "f[3,2,3];f[1,8,3];f[1,8,2]", 14, outputs=3, keep=[0], hidden_size=2, activations=["Sigmoid", "Relu", "Relu"])


# ---- attention ----

def attention():
    case("Attention", "f[1,2,2,3];f[1,2,3,3];f[1,2,3,2]", 23)
    case("Attention", "f[1,2,2,3];f[1,2,3,3];f[1,2,3,2];f[2,3]", 23)
    case("Attention", "f[1,2,2,3];f[1,2,3,3];f[1,2,3,2];f[1,2,2,3]", 23, computed=True)
    case("Attention", "f[1,2,3,3];f[1,2,3,3];f[1,2,3,2]", 23, is_causal=1)
    case("Attention", "f[1,2,3,3];f[1,2,3,3];f[1,2,3,2];f[3,3]", 23, is_causal=1)
    case("Attention", "f[1,4,2,3];f[1,2,4,3];f[1,2,4,2];f[2,4]", 23, scale=0.6)
    case("Attention", "f[1,2,2,3];f[1,2,4,3];f[1,2,4,2]", 23, softcap=0.7)
    case("Attention", "f[2,3,4];f[2,3,4];f[2,3,4]", 23, q_num_heads=2, kv_num_heads=2)
    case("Attention", "f[2,3,4];f[2,3,2];f[2,3,2];f[3,3]", 23, q_num_heads=2, kv_num_heads=1)
    case("Attention", "f[2,3,4];f[2,3,4];f[2,3,4];b[3,3]{1,1,1,1,0,0,1,0,1}", 23, q_num_heads=2, kv_num_heads=2)
    case("Attention", "f[1,1,2,3];f[1,1,2,3];f[1,1,2,2];f[2,4];f[1,1,2,3];f[1,1,2,2]", 23, outputs=3)
    for mode in range(4):
        case("Attention", "f[1,2,2,3];f[1,2,3,3];f[1,2,3,2];c[2,3]", 23, outputs=4, keep=[0, 3], qk_matmul_output_mode=mode, softcap=0.8)
    case("RotaryEmbedding", "f[1,2,3,4];f[5,2];f[5,2];i[1,3]{4,0,2}", 23)
    case("RotaryEmbedding", "f[1,3,12];f[1,3,2];f[1,3,2]", 23, num_heads=2, interleaved=1, rotary_embedding_dim=4)

    def plain(inputs, outputs):
        return [node("Transpose", [inputs[1]], ["t"], perm=[0, 1, 3, 2]), node("MatMul", [inputs[0], "t"], ["p"]), node("Mul", ["p", inputs[4]], ["s"]), node("Add", ["s", inputs[3]], ["m"]),
                node("Softmax", ["m"], ["a"]), node("MatMul", ["a", inputs[2]], outputs)]
    for mask in ("f[2,3]", "F{0.3}", "f[1,2,2,1]", "f[3]", "d[2,3]{0,0,-1e4,0,0,0}", "f[1,1,1,3]"):
        for scale in ("d{0.5}", "F{0.5}"):
            case(plain, f"f[1,2,2,3];f[1,2,3,3];f[1,2,3,2];{mask};{scale}", 13, name="attention", computed=True)

    def slopes(inputs, outputs):
        return [node("Mul", [inputs[4], inputs[3]], ["b"]), node("Transpose", [inputs[1]], ["t"], perm=[0, 1, 3, 2]), node("MatMul", [inputs[0], "t"], ["p"]),
                node("Add", ["p", "b"], ["m"]), node("Softmax", ["m"], ["a"]), node("MatMul", ["a", inputs[2]], outputs)]
    case(slopes, "f[1,2,2,3];f[1,2,3,3];f[1,2,3,2];d[2,3]{0,-1,-2,0,-1,-2};F{0.4}", 13, name="alibi")
    case(slopes, "f[1,2,2,3];f[1,2,3,3];f[1,2,3,2];d[2,3]{0,-1,-2,0,-1,-2};F[2,1,1]{0.4,0.2}", 13, name="alibi")


# ---- losses, and a few nodes together ----

def losses():
    for reduction in ("mean", "sum", "none"):
        case("SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,3,1}", 13, reduction=reduction)
        case("SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,3,1};f[4]", 13, reduction=reduction)
        case("SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,3,1};d[4]{0.5,1,2,0.7}", 12, reduction=reduction)
        case("NegativeLogLikelihoodLoss", "f[2,3,2];i[2,2]{0,2,1,1};f[3]", 13, reduction=reduction)
        case("NegativeLogLikelihoodLoss", "f[3,4];i[3]{0,2,1}", 13, reduction=reduction, ignore_index=2)
    case("SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,3,1}", 13, outputs=2)
    case("SoftmaxCrossEntropyLoss", "f[2,3,2];i[2,2]{0,2,1,1}", 13, ignore_index=1)

    def cosine(inputs, outputs):
        return [node("ReduceL2", [inputs[0]], ["a"], axes=[1]), node("ReduceL2", [inputs[1]], ["b"], axes=[1]), node("Div", [inputs[0], "a"], ["c"]), node("Div", [inputs[1], "b"], ["d"]),
                node("Mul", ["c", "d"], ["e"]), node("ReduceSum", ["e", inputs[2]], outputs, keepdims=0)]
    case(cosine, "f[2,3];f[2,3];i[1]{1}", 13)

    def cast(inputs, outputs):
        return [node("Cast", [inputs[0]], ["h"], to=11), node("Exp", ["h"], ["e"]), node("CastLike", ["e", inputs[1]], ["f"]), node("Mul", ["f", inputs[1]], outputs)]
    case(cast, "f[2];f[2]", 19, computed=True)

    # one value that a product reads in 16 bits, where they are chosen, and a choice by value in float32
    for op, rest in (("ReduceMax", {"keepdims": 0}), ("ReduceMin", {"keepdims": 0}), ("Max", {}), ("GlobalMaxPool", {}), ("Clip", {}), ("TopK", {})):
        def chosen(inputs, outputs, op=op, rest=rest):
            nodes = [node("LayerNormalization", inputs[:3], ["n"]), node("MatMul", ["n", inputs[3]], [outputs[0]])]
            if op == "TopK":
                return nodes + [node(op, ["n", inputs[4]], [outputs[1], "i"])]
            if op == "GlobalMaxPool":
                return nodes + [node("Unsqueeze", ["n", inputs[4]], ["u"]), node(op, ["u"], [outputs[1]])]
            if op == "Clip":
                return nodes + [node("ReduceSum", ["n"], ["r"]), node(op, ["n", "", inputs[5]], ["c"]), node("Exp", ["c"], [outputs[1]])]
            if op == "Max":
                return nodes + [node("Exp", ["n"], ["e"]), node(op, ["e", "n"], ["x"]), node("Log", ["x"], [outputs[1]])]
            return nodes + [node(op, ["n", inputs[4]] if op.startswith("Reduce") else ["n"], [outputs[1]], **rest)]
        case(chosen, "f[2,3,4];f[4];f[4];f[4,2];i[1]{1};d{0.3}", 18, outputs=2, name="chosen_" + op)

    def dropout(inputs, outputs):
        return [node("Dropout", inputs, ["d"]), node("Mul", ["d", "d"], outputs)]
    case(dropout, "f[2,3];d{0.0}", 13)

    def shared(inputs, outputs):
        return [node("MatMul", [inputs[0], inputs[1]], ["a"]), node("Transpose", [inputs[1]], ["t"]), node("Tanh", ["a"], ["h"]), node("MatMul", ["h", "t"], outputs)]
    case(shared, "f[2,3];f[3,4]", 13)
    case("SwiGLU", "f[2,3];f[2,3]", 26, alpha=1.3)


def models():
    if not found:
        for group in (unary, binary, reductions, norms, products, convolutions, shapes, indices, images, recurrent, attention, losses):
            group()
    return found
