# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whole models beside PyTorch, eager and compiled, in the same minutes: the benchmarks of tools/gpu-check, and their table.

A block trains one model at one batch size: `ortrain bench` and pytorch_models.py get the same weights and the same data, so
that their losses are comparable. No block needs another one."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# model, batch, length (0: it has none), precision: the most informative first
SPEED = [
    ("gpt2-124m", 32, 1024, "bf16"),
    ("mlp", 64, 0, "f32"),
    ("bert-large", 8, 512, "bf16"),
    ("resnet50", 64, 0, "bf16"),
    ("gpt2-124m", 4, 1024, "f32"),
    ("deberta", 16, 128, "bf16"),
    ("gpt2-124m", 4, 1024, "bf16"),
    ("gpt2-124m", 16, 1024, "bf16"),
    ("bert-large", 32, 128, "bf16"),
    ("resnet50", 256, 0, "bf16"),
    ("resnet50", 64, 0, "f32"),
    ("bert-large", 32, 128, "f32"),
    ("deberta", 16, 128, "f32"),
    ("bert-large", 8, 512, "f32"),
    ("gpt2-124m", 16, 1024, "f32"),
    ("gpt2-124m", 32, 1024, "f32"),
]
LARGEST = [("gpt2-124m", 4, 1024, "bf16"), ("bert-large", 8, 512, "bf16"), ("resnet50", 64, 0, "bf16"), ("deberta", 16, 128, "bf16")]
SMALL = (2, 16)  # batch and length of a trial run
TOLERANCE = {"f32": 1e-4, "bf16": 2e-2}  # relative, of each loss of the curve
UNITS = {"gpt2-124m": "tokens", "bert-large": "tokens", "deberta": "tokens"}


def blocks():
    """Names of blocks and what they are."""
    name = lambda kind, model, batch, seq, precision: "/".join([kind, model, f"{batch}x{seq}" if seq else str(batch), precision])
    return [(name("speed", *each), each) for each in SPEED] + [(name("largest", *each), each) for each in LARGEST]


def search_largest(fits, first, limit):
    """The largest number for which fits(n) holds, within an eighth; 0 if not even the first. Not more than the limit."""
    good, bad, n = 0, None, min(first, limit)
    while bad is None or bad - good > max(1, good // 8):
        if fits(n):
            good = n
            if good >= limit:
                break
        else:
            bad = n
        if bad is not None and good == 0:
            break
        n = min(2 * good, limit) if bad is None else (good + bad) // 2
    return good


def is_memory(text):
    return "memory" in text.lower()


class Beside:
    """ortrain: the command; values: its environment; python: the interpreter that has PyTorch; provider: ours; device: PyTorch's; small: as
    gpu-check has it; seconds: for a block; last: when all has to be over."""

    def __init__(self, ortrain, values, python, provider, device, small, seconds, last):
        self.ortrain, self.values, self.python, self.provider, self.small = ortrain, values, python, provider, small
        self.device = device
        self.seconds, self.last = seconds, last
        self.folder = tempfile.TemporaryDirectory(prefix="ortrain-models-")
        self.exported = None
        self.says = []

    def run(self, command, environment, what):
        """The object that a command prints, or None, and says why."""
        left = self.end - time.monotonic()
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", env=environment,
                                  timeout=max(left, 1))
            if done.returncode == 0:
                return json.loads(done.stdout[done.stdout.index("{"):])
            text = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            text = "took too long"
        except (OSError, ValueError) as error:
            text = str(error)
        self.says.append(f"{what}: {text}")
        return None

    def torch(self, do, *words, what=None):
        small = ["--small"] if self.small else []
        program = "model_feeds.py" if do == "feeds" else "pytorch_models.py"
        return self.run([self.python, HERE / program, do, *words, *small], os.environ, what or f"PyTorch, {do}")

    def export(self, model):
        """One model at a time is on the disk."""
        if self.exported != model:
            self.folder.cleanup()
            self.folder, self.exported = tempfile.TemporaryDirectory(prefix="ortrain-models-"), None
            if self.torch("export", model, self.folder.name) is not None:
                self.exported = model
        return self.exported == model

    def make_feeds(self, result):
        """How many items a step has, and the words that give `ortrain bench` its inputs; None: there are none."""
        feeds = pathlib.Path(self.folder.name)
        for old in feeds.glob("*.npy"):
            old.unlink()
        made = self.torch("feeds", result["model"], feeds, *self.sizes(result))
        return (made["items"], self.words_of(feeds)) if made else None

    @staticmethod
    def sizes(result):
        return ["--batch", str(result["batch"])] + (["--seq", str(result["seq"])] if result["seq"] else [])

    @staticmethod
    def words_of(feeds):
        return [word for file in sorted(feeds.glob("*.npy")) for word in ("--input", f"{file.name[:-len('.npy')]}={file}")]

    def time(self, side, result, steps):
        """PyTorch's side of a result."""
        return self.torch("time", result["model"], *self.sizes(result), "--precision", result["precision"], "--device", self.device,
                          "--steps", str(steps), *(["--compile"] if side == "compiled" else []), what=f"PyTorch, {side}")

    def bench(self, words, what, cache=None, model=None, more={}):
        environment = self.values | ({"XDG_CACHE_HOME": cache, "ORTRAIN_CACHE": "on"} if cache else {}) | more
        return self.run([self.ortrain, "bench", model or os.path.join(self.folder.name, "model.onnx"), "--provider", self.provider,
                         "--optimizer", "adamw", "--learning-rate", "1e-4", "--json", *words], environment, what)

    def block(self, name, model, batch, seq, precision):
        begin = time.monotonic()
        self.says, self.end = [], min(begin + self.seconds, self.last)
        result = {"model": model, "batch": batch, "seq": seq, "precision": precision, "date": time.strftime("%Y-%m-%d")}
        if self.small:
            result |= {"batch": SMALL[0], "seq": SMALL[1] if seq else 0}
        passed = False
        if self.export(model):
            passed = (self.speed if name.startswith("speed/") else self.largest)(result)
        result |= {"block": name, "passed": passed, "seconds": round(time.monotonic() - begin, 1)}
        if self.says:
            result["says"] = self.says
        return result

    def speed(self, result, sides_wanted=("ortrain", "again", "eager", "compiled"), model=None):
        """again: with what the first session left on the disk."""
        made, steps = self.make_feeds(result), 3 if self.small else 20
        if made is None:
            return False
        items, inputs = made
        words, sides = ["--precision", result["precision"], "--steps", str(steps), *inputs], {}
        result |= {"items": items, "unit": UNITS.get(result["model"], "samples"), "sides": sides}
        with tempfile.TemporaryDirectory(prefix="ortrain-cache-") as cache:
            cold = self.bench(words, "ortrain", cache, model)
            again = self.bench(words, "ortrain, again", cache, model) if cold and "again" in sides_wanted else None
        best = again or cold
        if best:
            sides["ortrain"] = best | {"ms_create": cold["ms_create"], "ms_until_first_step": cold["ms_until_first_step"]}
        if again:
            sides["ortrain"] |= {"ms_create_cached": again["ms_create"], "ms_until_first_step_cached": again["ms_until_first_step"]}
        for side in ("eager", "compiled"):
            side_result = self.time(side, result, steps) if side in sides_wanted else None
            if side_result:
                sides[side] = side_result
        if "ortrain" not in sides or ("again" in sides_wanted and not again):
            return False
        if "eager" not in sides:  # what has no room there may have room here
            return any(text.startswith("PyTorch, eager: ") and is_memory(text) for text in self.says)
        return self.compare(result)

    def compare(self, result):
        pairs = list(zip(result["sides"]["ortrain"]["losses"], result["sides"]["eager"]["losses"]))
        # Nobody's NaN is a small difference.
        differences = [abs(ours - theirs) / abs(theirs) if ours is not None and math.isfinite(theirs) else math.inf for ours, theirs in pairs]
        result["loss_difference"] = max(differences) if max(differences) < math.inf else None
        if max(differences) > TOLERANCE[result["precision"]]:
            self.says.append(f"losses differ by {max(differences):.2g} of PyTorch's, more than {TOLERANCE[result['precision']]:g}")
            return False
        return True

    def largest(self, result):
        precision, seq, limit = result["precision"], ["--seq", str(result["seq"])] if result["seq"] else [], 4 if self.small else 4096
        sides = {}

        def fits(batch):
            done = self.bench(["--batch", str(batch), *seq, "--precision", precision, "--steps", "1"], f"ortrain, batch {batch}")
            # A batch that is not taken for another reason is said, too.
            if done is None and is_memory(self.says[-1]):
                self.says.pop()
            return done is not None

        sides["ortrain"] = {"batch": search_largest(fits, result["batch"], limit)}
        for side, more in (("eager", []), ("compiled", ["--compile"])):
            found = self.torch("largest", result["model"], "--batch", str(result["batch"]), *seq, "--precision", precision, "--device", self.device,
                               "--limit", str(limit), *more, what=f"PyTorch, {side}")
            if found:
                sides[side] = found
        result |= {"sides": sides}
        return sides["ortrain"]["batch"] > 0 and not any(text.startswith("ortrain") for text in self.says)


# ---- the table ----

def number(value, digits=1):
    return "–" if value is None else f"{value:,.{digits}f}"


def per_second(line, side):
    its = line["sides"].get(side)
    return line["items"] / min(its["ms_median"], its.get("ms_ahead", math.inf)) * 1e3 if its else None


def megabytes(line, side):
    """What is allocated on a device at the most; on the CPU, what a process holds."""
    its, on_device = line["sides"].get(side, {}), any("peak_bytes" in its for its in line["sides"].values())
    value = its.get("peak_bytes" if side != "ortrain" else "planned_peak_bytes") if on_device else its.get("resident_peak_bytes")
    return value / 1e6 if value else None


def ratio(a, b):
    return a / b if a is not None and b else None


def table(lines):
    """Markdown for doc/benchmarks.md of the newest line of each block that was measured."""
    newest = {line["block"]: line for line in lines if line.get("sides")}
    speed = [newest[name] for name, _ in blocks() if name.startswith("speed/") and name in newest]
    largest = [newest[name] for name, _ in blocks() if name.startswith("largest/") and name in newest]
    devices = {line["device"]["description"] for line in lines if (line.get("device") or {}).get("description")}
    versions = {", ".join(f"{name} {version}" for name, version in line["versions"].items() if version) for line in speed + largest if line.get("versions")}
    dates = sorted({line["date"] for line in speed + largest})
    out = [f"## {dates[0] if dates else 'no date'}{' to ' + dates[-1] if len(dates) > 1 else ''}, {'; '.join(sorted(devices)) or 'the CPU'}", "",
           f"{'; '.join(sorted(versions))}. Tokens or samples a second; the ratios are to PyTorch compiled. Host: what a step takes of the host's time.", ""]
    if speed:
        out += ["| model | batch | precision | a second | eager | compiled | ratio | MB | eager | compiled | ratio | host ms | compiled | session s, cold | cached | losses differ by |",
                "| --- " * 16 + "|"]
    for line in speed:
        ours, compiled = line["sides"].get("ortrain", {}), line["sides"].get("compiled", {})
        rates, sizes = [[of(line, side) for side in ("ortrain", "eager", "compiled")] for of in (per_second, megabytes)]
        cells = [line["model"], f"{line['batch']} × {line['seq']}" if line["seq"] else str(line["batch"]), line["precision"]]
        cells += [number(rate, 0) for rate in rates] + [number(ratio(rates[0], rates[2]), 2)]
        cells += [number(size, 0) for size in sizes] + [number(ratio(sizes[0], sizes[2]), 2)]
        cells += [number(ours.get("ms_host"), 3), number(compiled.get("ms_host"), 3)]
        cells += [number(ours[key] / 1e3 if key in ours else None, 2) for key in ("ms_create", "ms_create_cached")]
        cells += [f"{line['loss_difference']:.1e}" if line.get("loss_difference") is not None else "–"]
        out.append("| " + " | ".join(cells) + " |")
    if largest:
        out += ["", "The largest batch, within an eighth:", "", "| model | length | precision | batch | eager | compiled |", "| --- " * 6 + "|"]
    for line in largest:
        cells = [line["model"], str(line["seq"] or "–"), line["precision"]]
        cells += [str(line["sides"][side]["batch"]) if side in line["sides"] else "–" for side in ("ortrain", "eager", "compiled")]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"
