# SPDX-License-Identifier: LGPL-2.1-or-later
"""The second plan, after repairs: what failed in the first one at its smallest, variants beside each other, counters of slow kernels."""
import pathlib
import re
import shlex
import shutil
import tempfile

from . import first, process, programs, results, training

SECONDS = 270
MODELS = [("gpt2-124m", 32, 1024, "bf16"), ("resnet50", 64, 0, "bf16"), ("bert-large", 8, 512, "bf16")]
ROUNDS = 2       # of all variants, in turns: what lies between the rounds of one is no difference
MOST_TESTS = 3   # of a program, once more
MOST_KERNELS = 3
# Errors are then those of the call that made them.
BLOCKING = {"CUDA_LAUNCH_BLOCKING": "1"}


def failed_tests(line):
    """Names of tests, as a program takes them with -p."""
    return [match[1] for says in line.get("says", []) if (match := re.match(r"not ok \d+ (/\S+)", says))][:MOST_TESTS]


def find_program(plan, name):
    known = dict(programs.programs(plan.words.build))
    return known.get(name) or known.get(name.split("/")[0])


def check_memory(plan, command):
    """Under NVIDIA's checker of memory, where it is."""
    tool = programs.sanitizer()
    return [tool, "--tool", "memcheck", "--error-exitcode", "9", *command] if tool else command


def rerun(plan, line):
    """Blocks for a line that failed: alone and in order, then its first test under memcheck."""
    name = line["block"]
    program, tests = find_program(plan, name), failed_tests(line)
    if name.startswith("probe/"):
        path = plan.out / "probe-again.json"
        command = [programs.probe(plan.words.build, plan.words.dry_run), "--small", "--sections", name.split("/")[1], "--output", path]
    elif program is not None:
        command = [program, "--tap", *(word for path in tests for word in ("-p", path))]
    else:
        return []
    blocks = [("again/" + name, command, plan.values | BLOCKING)]
    if not line.get("late") and programs.sanitizer():
        smallest = [program, "--tap", "-p", tests[0]] if tests else command
        blocks.append(("memcheck/" + name, check_memory(plan, smallest), plan.values))
    return blocks


def train_small(plan, line, folder):
    """A model that failed, tiny, under memcheck: exported here, with the batch of a trial run."""
    model = line["model"]
    folder.mkdir()
    status, _, errors = process.call([plan.words.pytorch, training.models_beside.HERE / "pytorch_models.py", "export", model, folder, "--small"], None,
                                           min(60, plan.left()))
    if status != 0:
        return {"block": "memcheck/" + line["block"], "passed": False, "seconds": 0, "says": ["export: " + (errors.strip().splitlines() or ["late"])[-1]]}, errors
    command = [plan.words.build / "tools/ortrain", "bench", folder / "model.onnx", "--provider", plan.words.provider, "--batch", "2", "--steps", "2",
               "--precision", line["precision"], *(["--seq", "16"] if line["seq"] else [])]
    return plan.run_program("memcheck/" + line["block"], check_memory(plan, command), plan.values | first.STRICT, 60)


def repeat(plan, lines):
    bad = [line for line in lines if not line["passed"] and not line.get("left")]
    with plan.in_stage("failures", 95):
        blocks = [(name, lambda line=line, name=name, command=command, values=values: plan.run_program(name, command, values, None if line.get("late") else 40))
                  for line in bad for name, command, values in rerun(plan, line)]
        blocks += [("memcheck/" + line["block"], lambda line=line, i=i: train_small(plan, line, plan.scratch / f"small-{i}"))
                   for i, line in enumerate(bad) if line["block"].startswith("speed/") and plan.words.pytorch]
        plan.run_together(blocks, plan.words.workers)


# ---- variants ----

def read_variants(texts):
    """[(name, environment, words)]: 'NAME: VARIABLE=VALUE --option value'. Without any: as it is, and without immediate updates."""
    variants = []
    for text in texts or ["as it is:", "updates at the end: --immediate-updates off"]:
        name, _, rest = text.partition(":")
        words = shlex.split(rest)
        variables = [word for word in words if re.match(r"[A-Z][A-Z0-9_]*=", word)]
        variants.append((name.strip(), dict(word.split("=", 1) for word in variables), [word for word in words if word not in variables]))
    return variants


def compare(plan, course, variants):
    """All variants in turns in one call: the same card, the same clocks."""
    with plan.in_stage("variants", 190):
        for each in MODELS:
            name = "variants/" + first.name_of(each).split("/", 1)[1]
            if not plan.wants(name):
                continue
            if plan.left() == 0 or not course.is_ready(each[0], min(30, plan.left())):
                plan.leave([name])
                continue
            result, course.says = course.about(*each) | {"block": name, "variants": {}}, []
            begin, made = plan.seconds(), course.make_feeds(result) if each[0] not in course.reasons else None
            course.end = course.begin + plan.stage.end
            for turn in range(ROUNDS if made else 0):
                for variant, variables, words in variants:
                    if plan.left() == 0:
                        continue
                    steps = ["--precision", each[3], "--steps", "3" if plan.words.small else "20", *made[1], *words]
                    done = course.bench(steps, f"{variant}, round {turn + 1}", model=course.folder_of(each[0]) / "model.onnx", more=variables)
                    if done:
                        sides = result["variants"].setdefault(variant, {"ms": [], "losses": done["losses"], "counters": done["counters"]})
                        sides["ms"].append(min(done["ms_median"], done.get("ms_ahead", done["ms_median"])))
            complete = len(result["variants"]) == len(variants) and all(len(side["ms"]) == ROUNDS for side in result["variants"].values())
            says = course.says or ([course.reasons[each[0]]] if each[0] in course.reasons else [])
            late = not complete and plan.left() == 0
            plan.add(result | {"passed": complete, "seconds": round(plan.seconds() - begin, 1)} | ({"says": says} if says else {}) | ({"late": True} if late else {}))


# ---- counters ----

def find_slow_steps(folder):
    """[(model of MODELS, row)]: the calls that are furthest from what the plan estimates, one of each operator."""
    found = {}
    for each in MODELS:
        for row in first.read_profile(folder / f"profile-{each[0]}.tsv"):
            excess = row["ms"] - row["ms_estimated"]
            if row["operator"] not in found or found[row["operator"]][0] < excess:
                found[row["operator"]] = (excess, each, row)
    return [(each, row) for _, each, row in sorted(found.values(), key=lambda item: -item[0])[:MOST_KERNELS]]


def count(plan, course, folder):
    with plan.in_stage("counters", 255):
        tool, steps = shutil.which("ncu"), find_slow_steps(folder)
        if tool is None or not steps:
            print("skipped counters: " + ("there is no ncu" if tool is None else f"there is no profile in {folder}"), flush=True)
            return
        for each, row in steps:
            name = f"ncu/{each[0]}/{row['step']}-{row['operator']}"
            if plan.left() == 0 or not course.is_ready(each[0], min(30, plan.left())) or each[0] in course.reasons:
                plan.leave([name])
                continue
            command = [tool, "--profile-from-start", "off", "--clock-control", "none", "--set", "basic", "-c", "3", plan.words.build / "tools/ortrain",
                       "bench", course.folder_of(each[0]) / "model.onnx", "--provider", plan.words.provider, "--optimizer", "adamw", "--precision", each[3],
                       "--steps", "1", *course.make_feeds(course.about(*each))[1]]
            result, text = plan.run_program(name, command, plan.values | {"ORTRAIN_CUDA_PROFILE_STEP": str(row["step"])}, 40)
            with open(plan.out / "counters.txt", "a") as file:
                file.write(f"==== {name}: {row['node']}, {row['ms']:.3f} ms, estimated {row['ms_estimated']:.3f}\n{text}\n")
            wanted = [" ".join(line.split()) for line in text.splitlines() if re.match(r"\s*(Duration|Memory Throughput|Compute \(SM\) Throughput|Registers)\b", line)]
            plan.add(result | {"ms": row["ms"], "ms_estimated": row["ms_estimated"], "counters": wanted[:12]}, text)


def run(plan):
    folder = pathlib.Path(plan.words.before)
    path = folder / "gpu-check.jsonl" if folder.is_dir() else folder
    lines = {results.key(line): line for line in results.read(path) if line["emulated"] == plan.words.dry_run}
    if not lines:
        raise SystemExit(f"{path} has no results of the first plan")
    course = first.start_training(plan, MODELS)
    try:
        if not first.look(plan, 15):
            return
        with tempfile.TemporaryDirectory(prefix="ortrain-second-") as scratch:
            plan.scratch = pathlib.Path(scratch)
            repeat(plan, lines.values())
        if course is not None:
            course.begin = plan.words.begin
            compare(plan, course, read_variants(plan.words.variant))
            count(plan, course, path.parent)
    finally:
        if course is not None:
            course.close()
