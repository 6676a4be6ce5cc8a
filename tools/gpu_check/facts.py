# SPDX-License-Identifier: LGPL-2.1-or-later
"""Facts about the device: the sections of the probe, each a process of its own, in one file. doc/gpu-check.md says what they are."""
import json
import os
import tempfile

from . import process, programs

SECTIONS = ["device", "memory", "capture", "products", "attention", "convolutions"]


class Facts:
    def __init__(self, path):
        self.path, self.facts = path, {"format": 1}

    def add(self, found):
        """In place of the file, so that there is always a whole one."""
        self.facts |= found
        with open(f"{self.path}.new", "w") as file:
            json.dump(self.facts, file, indent=1)
        os.replace(f"{self.path}.new", self.path)


def probe(plan, facts, section, seconds):
    """What a section has found counts also where the next thing that it did has ended the process."""
    name = "probe/" + section
    with tempfile.TemporaryDirectory(prefix="ortrain-probe-") as folder:
        path = os.path.join(folder, "facts.json")
        command = [programs.probe(plan.words.build, plan.words.dry_run), "--sections", section, "--output", path]
        result, text = plan.run_program(name, command + (["--small"] if plan.words.small else []), seconds=seconds)
        found = json.load(open(path)) if os.path.exists(path) and os.path.getsize(path) else {}
    section_facts = found.get(section, {})
    facts.add({name: value for name, value in found.items() if name != "format"})
    says = [section_facts[key] for key in ("error", "description_error") if section_facts.get(key)]
    if section_facts.get("ends_with") not in (None, "cudaSuccess"):
        says.append("the device is lost: " + section_facts["ends_with"])
    if says:
        result |= {"passed": False, "says": result.get("says", []) + says}
    return result, text + "".join(line + "\n" for line in says)


# ---- for tests without a device ----

def find_refused(rows):
    """Of cuBLASLt: epilogues and types for which it has no algorithm at any length of rows, as the emulated library is told them."""
    name = lambda row: ":".join(row[key] for key in ("epilogue", "from", "to", "vector") if key in row)
    found = {name(row) for row in rows if row["found"]}
    return sorted({name(row) for row in rows} - found)


def make_settings(path):
    """The environment in which the emulated libraries do what a device's were found to do."""
    with open(path) as file:
        facts = json.load(file)
    products = facts.get("products", {})
    refused = find_refused(products.get("table", []))
    keeps_nan = any(each.get("not_numbers") for row in products.get("beta", []) for each in row["algorithms"])
    return ({"ORTRAIN_FAKE_CUBLASLT_REFUSE": ",".join(refused)} if refused else {}) | ({"ORTRAIN_FAKE_CUBLASLT_KEEP_NAN": "1"} if keeps_nan else {})


# ---- in short ----

def describe_memory(memory):
    rates = memory["rates"][-1]
    numbers = ", ".join(f"{name} {rates[name]:,.0f}" for name in ("copy", "clear", "from_pinned", "to_pinned", "from_ordinary") if rates.get(name))
    yield f"memory, GB/s at {rates['bytes'] >> 20} MiB: {numbers}"
    race, submissions = memory["race"], memory["submissions"]
    yield (f"clearing: cudaMemset loses {race['plain']['lost']} of {race['plain']['trials']} writes, in order {race['in_order']['lost']} of "
           f"{race['in_order']['trials']}; " + ", ".join(f"{name} {value:.2f}" for name, value in submissions.items() if isinstance(value, float)))


def describe_capture(capture):
    short = lambda code: code.replace("cudaErrorStreamCapture", "").replace("cudaError", "").replace("cudaSuccess", "ok")
    parts = [f"{name} {short(facts['in_capture'])}/{short(facts['at_the_end'])}" + (f" (reads {facts['reads']})" if "reads" in facts else "")
             for name, facts in capture.items() if isinstance(facts, dict) and "in_capture" in facts]
    yield "capture, during/at the end: " + "; ".join(parts)


def describe_products(products):
    rows = products["table"]
    name = lambda row: f"{row['epilogue']} {row['from']}>{row['to']}" + (f" vector {row['vector']}" if "vector" in row else "")
    places = {}
    for row in rows:
        if not row["found"]:
            places.setdefault(name(row), []).append(str(row["ld"]))
    yield f"products: {sum(row['found'] for row in rows)} of {len(rows)} found" + "".join(f"; none for {key}: ld {', '.join(lds)}" for key, lds in places.items())
    without = sorted({name(row) for row in rows if row["found"] != row["found_without_pointers"]})
    if without:
        yield "products that depend on pointers being set before the heuristics: " + "; ".join(without)
    best = [row for row in rows if row.get("tflops") and row["from"] == "bf16" and row["epilogue"] == "DEFAULT" and row["to"] == "bf16"]
    yield "bf16 TFLOP/s by role and ld: " + ", ".join(f"{row['role']} {row['ld']}: {row['tflops']:.3g}" for row in best)
    bad = [each for row in products["beta"] for each in row["algorithms"] if each.get("not_numbers")]
    tried = sum(len(row["algorithms"]) for row in products["beta"])
    yield f"beta 0 on the device over NaN: {len(bad)} of {tried} algorithms keep NaN"


def describe_graphs(name, section):
    ways = ("without_handle", "with_handle", "with_description")
    for graph in section["graphs"]:
        what = " ".join(str(graph[key]) for key in ("direction", "width", "channels_in", "size", "kernel", "weights") if key in graph)
        what += "".join(f" {key}" for key in ("causal", "biased", "dropout") if graph.get(key))
        counts = "/".join(str(len(graph[way]["first_choice"]["engines"]) + len(graph[way]["fallback"]["engines"])) if way in graph else "-" for way in ways)
        made = next((mode for mode in (graph["without_handle"][key] for key in ("first_choice", "fallback")) if "plan_without_handle" in mode), None)
        plans = "/".join("yes" if made[key]["made"] else "no" for key in ("plan_without_handle", "plan_with_handle")) if made else "-"
        run = graph.get("run", {})
        yield (f"{name} {what}: engines {counts}, plan {plans}" + (f", first {run['ms_first']:.0f} ms, then {run['milliseconds']:.3f}" if run.get("milliseconds") else
                                                                  ", does not run" if run else ""))


def describe(facts):
    """Lines of text; the most informative of them."""
    device = facts.get("device", {})
    if device.get("name"):
        yield f"{device['name']}, capability {device['capability']}, {device['processors']} processors, driver {device['driver']}, {device['libraries']}"
    for name, function in (("memory", describe_memory), ("capture", describe_capture), ("products", describe_products)):
        if name in facts:
            try:
                yield from function(facts[name])
            except (KeyError, IndexError, TypeError) as error:
                yield f"{name}: incomplete ({error!r})"
    graphs = [line for name in ("attention", "convolutions") if "graphs" in facts.get(name, {}) for line in describe_graphs(name, facts[name])]
    if graphs:
        yield "cuDNN: engines asked without a handle, with one, with a description of the device; execution plans without and with a handle"
        yield from graphs
