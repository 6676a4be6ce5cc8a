# SPDX-License-Identifier: LGPL-2.1-or-later
"""All blocks, one after the other, resumed where a call before this one has stopped."""
import json
import sys
import time

import models_beside

from . import arguments, environment, process, programs, results


def benchmark(words, values):
    """Blocks of models, each a function that runs it."""
    if not words.pytorch:
        print("skipped benchmarks: --pytorch names no interpreter that has PyTorch")
        return []
    beside = models_beside.Beside(words.build / "tools/ortrain", values, words.pytorch, words.provider,
                                  "cuda" if words.provider == "cuda" and not words.dry_run else "cpu", words.small, 3 * words.seconds, words.end)
    beside.end = min(time.monotonic() + 300, words.end)
    versions = beside.torch("versions")
    if versions is None:
        print(f"skipped benchmarks: {words.pytorch} has no PyTorch: {beside.says[-1]}")
        return []
    # A processor has no limit that a search may run into.
    return [(name, lambda name=name, each=each: beside.block(name, *each) | {"small": words.small, "versions": versions})
            for name, each in models_beside.blocks() if words.provider == "cuda" or words.small or not name.startswith("largest/")]


def look_at_devices(words, values, seconds):
    result, text = process.run("devices", [words.build / "tools/ortrain", "devices", "--json"], values, seconds)
    if result["passed"]:
        device = next((device for device in json.JSONDecoder().raw_decode(text)[0] if device["name"] == words.provider), {"reason": "the module is not there"})
        result |= {"passed": device["reason"] is None, "device": device, "date": time.strftime("%Y-%m-%d")}
        if device["reason"] is not None:
            result["says"] = [device["reason"]]
    return result


def show(result):
    count = f"{result['tests']} tests, " if "tests" in result else ""
    print(f"{'ok    ' if result['passed'] else 'late  ' if result.get('late') else 'FAILED'} {result['block']} ({count}{result['seconds']} s)", flush=True)
    for line in result.get("says", []):
        print("       " + line)


def list_blocks(words, values):
    blocks = [("devices", lambda: look_at_devices(words, values, words.seconds))]
    commands = [(name, [program, "--tap"]) for name, program in programs.programs(words.build)] if words.provider == "cuda" else []
    sanitizers = programs.sanitizer_blocks(words.build) if words.provider == "cuda" and not words.dry_run else []
    as_function = lambda name, command: (name, lambda: process.run(
        name, command, environment.settings_of(name, values, words.dry_run), max(min(words.seconds, words.end - time.monotonic()), 0))[0])
    commands += programs.onnx_tests(words.build) if words.provider == "cuda" else []
    return blocks + [as_function(*each) for each in commands] + benchmark(words, values) + [as_function(*each) for each in sanitizers]


def run(words, path):
    seen = results.read(path)
    values = environment.settings(words.build, words.dry_run, words.provider, words.pytorch or sys.executable)
    done, tried = {results.key(line) for line in seen if line["passed"]}, {results.key(line) for line in seen}
    about = lambda name: {"block": name, "emulated": words.dry_run, "provider": words.provider}
    key_of = lambda name: results.key(about(name) | {"small": words.small and name.startswith(("speed/", "largest/"))})
    blocks = [(name, function) for name, function in list_blocks(words, values)
              if key_of(name) not in done and (name == "devices" or arguments.is_wanted(words, name))]
    blocks.sort(key=lambda block: block[0] != "devices" and key_of(block[0]) in tried)
    failed = left = 0
    file = results.Results(path)
    for name, function in blocks:
        if time.monotonic() >= words.end:
            left += 1
            continue
        result = about(name) | function()
        failed += not result["passed"]
        show(result)
        file.add(result)
        if name == "devices" and not result["passed"]:
            sys.exit(f"The provider '{words.provider}' cannot be used: " + str(result.get("device", result)["reason" if "device" in result else "says"]))
    print(f"{failed} blocks failed{f', {left} are left for another call' if left else ''}; {path} has a line for each")
    return 1 if failed or left else 0
