# SPDX-License-Identifier: LGPL-2.1-or-later
"""The first plan: what is true of this device, what fails on it, how fast it is. Models are exported while it is asked."""
import collections
import csv
import os
import shutil

from . import facts, process, programs, series, training

SECONDS = 470  # by which the stages below are made; --deadline makes all of them shorter or longer
BOTH = ("ortrain", "eager")
# Beside PyTorch eager, with its seconds at most; then, in the time that is left, beside PyTorch compiled: compilers take longest.
MODELS = [
    (("gpt2-124m", 32, 1024, "bf16"), ("ortrain", "again", "eager"), 70),
    (("bert-large", 8, 512, "bf16"), BOTH, 45),
    (("resnet50", 64, 0, "bf16"), BOTH, 45),
    (("gpt2-124m", 4, 1024, "bf16"), BOTH, 35),
    (("mlp", 64, 0, "f32"), BOTH, 25),
    (("deberta", 16, 128, "bf16"), BOTH, 45),
    (("bert-large", 32, 128, "bf16"), BOTH, 40),
    (("resnet50", 256, 0, "bf16"), BOTH, 45),
    (("gpt2-124m", 4, 1024, "f32"), BOTH, 40),
]
COMPILING = 60
PROFILES = [("gpt2-124m", 32, 1024, "bf16"), ("bert-large", 8, 512, "bf16"), ("resnet50", 64, 0, "bf16")]
# Programs whose failures say most, in the order in which they are begun; then all others.
BEGIN_WITH = ["internal", "matmul", "linear", "attention", "classifier", "normalization", "conv", "loss", "update", "pointwise", "reduction"]
STRICT = {"ORTRAIN_CUDA_STRICT": "1"}
FORBIDS = "ORTRAIN_CUDA_STRICT forbids"


def name_of(each):
    model, batch, seq, precision = each
    return f"speed/{model}/{f'{batch}x{seq}' if seq else batch}/{precision}"


def start_training(plan, models):
    """None: there is no PyTorch, and so no model."""
    if not plan.words.pytorch:
        print("skipped benchmarks: --pytorch names no interpreter that has PyTorch")
        return None
    sizes = collections.defaultdict(set)
    for model, batch, seq, _ in models:
        sizes[model].add((training.models_beside.SMALL[0], training.models_beside.SMALL[1] if seq else 0) if plan.words.small else (batch, seq))
    return training.Training(plan, sizes)


# ---- tests ----

def list_tests(plan):
    """Names and commands: kernels, fixtures, sessions, ONNX's; and those that have the device for themselves."""
    build = plan.words.build
    kernels = {name.split("/", 1)[1]: (name, [program, "--tap"]) for name, program in programs.programs(build) if name.startswith("kernels/")}
    order = [name for name in BEGIN_WITH if name in kernels] + [name for name in kernels if name not in BEGIN_WITH]
    tests = [kernels[name] for name in order if name not in programs.ALONE]
    tests += programs.fixture_shards(build, plan.values)
    tests += [(name, [program, "--tap"]) for name, program in programs.programs(build) if name.startswith("sessions/")]
    tests += programs.onnx_tests(build, programs.ONNX_SHARDS)
    return tests, [kernels[name] for name in programs.ALONE if name in kernels]


def share_processors(plan, name):
    """What a program computes on the host to compare with; sessions have options of threads among their tests."""
    threads = 1 if plan.words.dry_run else max(1, (os.cpu_count() or 1) // plan.words.workers)
    return {} if name.startswith("sessions/") else {"ORTRAIN_THREADS": str(threads)}


def run_strictly(plan, name, command):
    """A program that fails because a library refuses something is run again without that: are its values right?"""
    values = plan.values | share_processors(plan, name)
    result, text = plan.run_program(name, command, values | STRICT)
    if not result["passed"] and FORBIDS in text and plan.left() > 0:
        again, more = plan.run_program(name, command, values)
        refusals = [line for line in text.splitlines() if FORBIDS in line][:3]
        said = ["passes without ORTRAIN_CUDA_STRICT"] if again["passed"] else again.get("says", [])
        result |= {"refused": refusals, "passes_without_strict": again["passed"], "says": said + refusals}
        text += more
    return result, text


def test(plan):
    together, alone = list_tests(plan)
    as_blocks = lambda tests: [(name, lambda name=name, command=command: run_strictly(plan, name, command)) for name, command in tests]
    with plan.in_stage("tests", 150):
        plan.run_together(as_blocks(together), plan.words.workers)
        plan.run_together(as_blocks(alone), 1)


# ---- models ----

def train(plan, course, models, end):
    """Lines of the models that were trained. A model that is not exported yet is tried after those that are."""
    lines = []
    with plan.in_stage("models", end):
        queue = collections.deque(block for block in models if plan.wants(name_of(block[0])))
        n_waited = 0
        while queue and plan.left() > 0:
            each, sides, seconds = queue.popleft()
            if not course.is_ready(each[0], min(5 if n_waited >= len(queue) else 0, plan.left())):
                queue.append((each, sides, seconds))
                n_waited += 1
                continue
            n_waited = 0
            lines.append(plan.add(course.train(name_of(each), each, sides, min(seconds * max(plan.scale, 1), plan.left()))))
        plan.leave([name_of(each) for each, _, _ in queue])
    return lines


def compile_models(plan, course, lines, end):
    """A line once more, with another side. A side that is missing is no failure."""
    with plan.in_stage("compiled", end):
        for line in lines:
            if line["passed"] and plan.left() > 0:
                plan.add(course.compile(line, min(COMPILING * max(plan.scale, 1), plan.left())))


def profile_path(plan, each):
    return plan.out / f"profile-{each[0]}.tsv"


def profile(plan, course, end):
    """Milliseconds of each call; steps are slower than in the benchmarks."""
    with plan.in_stage("profiles", end):
        for each in PROFILES:
            name = "profile/" + name_of(each).split("/", 1)[1]
            if not plan.wants(name):
                continue
            if plan.left() == 0:
                plan.leave([name])
                continue
            about = course.about(*each)
            inputs = course.make_feeds(about) if course.is_ready(each[0], min(5, plan.left())) and each[0] not in course.reasons else None
            if inputs is None:
                plan.add({"block": name, "passed": False, "seconds": 0, "says": [course.reasons.get(each[0], "the model is not exported yet")]})
                continue
            command = [plan.words.build / "tools/ortrain", "bench", course.folder_of(each[0]) / "model.onnx", "--provider", plan.words.provider,
                       "--optimizer", "adamw", "--learning-rate", "1e-4", "--json", "--precision", each[3], "--steps", "3",
                       "--profile", profile_path(plan, each), *inputs[1]]
            plan.add(*plan.run_program(name, command, seconds=40 * max(plan.scale, 1)))


def read_profile(path):
    """Rows of a profile, numbers as numbers; none where it is not there."""
    if not path.exists():
        return []
    numbers = {"step": int, "joined": int, "runs": int, "ms": float, "ms_least": float, "ms_first": float, "ms_estimated": float, "gflops": float,
               "megabytes": float}
    with open(path) as file:
        return [{name: numbers.get(name, str)(value) for name, value in row.items()} for row in csv.DictReader(file, delimiter="\t")]


# ---- all ----

def look(plan, end):
    """FALSE: the provider cannot be used."""
    with plan.in_stage("devices", end):
        result = series.look_at_devices(plan.words, plan.values, plan.left())
        if shutil.which("nvidia-smi"):
            status, text, _ = process.call(["nvidia-smi"], plan.values, min(10, plan.left()))
            print(text, end="", flush=True)
        return plan.add(result)["passed"]


def run(plan):
    course = start_training(plan, [each for each, _, _ in MODELS])
    try:
        works = look(plan, 20)
        known = facts.Facts(plan.out / "probe.json")
        with plan.in_stage("probe", 60):
            plan.run_together([("probe/" + section, lambda section=section: facts.probe(plan, known, section, 20)) for section in facts.SECTIONS], 1)
        if not works:
            return
        test(plan)
        if course is not None:
            compile_models(plan, course, train(plan, course, MODELS, 330), 420)
            profile(plan, course, 455)
    finally:
        if course is not None:
            course.close()
