#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trains models at many memory budgets, and draws what a step costs at each.

    tests/bench/budget_sweep.py BUILD/tools/ortrain [--points 100] [--svg FILE] [NAME=MODEL:BATCH ...]

Without models, eight of tests/data/fixtures. Each point is a run of 20 steps on the same data, from the bytes that a step
needs without a budget down to a hundredth of them; with ORTRAIN_OFFLOAD=on the CPU may offload values, too. Fails where a
budget is exceeded, where less budget takes more memory or, by the plan, less time, or where a loss differs in one bit. Prints
one line of JSON per model, with the points that differ in memory: bytes, milliseconds as planned, and as measured. The
picture has the planned time as a line and the measured time as dots."""
import argparse
import json
import pathlib
import subprocess
import sys

FIXTURES = {"bert": 16, "deberta": 16, "gpt2": 16, "lstm": 64, "mobilenet": 64, "resnet": 64, "unet": 32, "vit": 16}
COLORS = ["#1c71d8", "#c64600", "#26a269", "#a51d2d", "#613583", "#986a44", "#77767b", "#0a7f8c"]
NEARLY = 0.005  # of the time: plans without a budget are not lowered, which may take a little more of it


def bench(command, model, batch, budget, steps):
    done = subprocess.run([command, "bench", model, "--batch", str(batch), "--steps", str(steps), "--threads", "1",
                           "--budget", str(budget), "--json"], capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if "the budget is" not in done.stderr:
        sys.exit(f"{model}: {done.stderr}")
    return None


def sweep(command, name, model, batch, n_points, steps):
    whole = bench(command, model, batch, 0, steps)
    if whole is None:
        sys.exit(f"{name}: no run without a budget")
    points = [[whole["planned_peak_bytes"], whole["planned_ms"], whole["ms_processor"]]]
    n_met = 0
    for i in range(n_points, 0, -1):
        budget = whole["planned_peak_bytes"] * i // n_points
        run = bench(command, model, batch, budget, steps)
        last = points[-1]
        if run is None:
            break  # a smaller one is not met, either: the least of the message is tried below
        peak, planned = run["planned_peak_bytes"], run["planned_ms"]
        if peak > budget or peak > last[0]:
            sys.exit(f"{name}: {peak} bytes at a budget of {budget}, and {last[0]} at a larger one")
        if planned < last[1] * (1 - NEARLY):
            sys.exit(f"{name}: {planned} ms planned at a budget of {budget}, and {last[1]} at a larger one")
        if run["losses"] != whole["losses"]:
            sys.exit(f"{name}: the losses at a budget of {budget} are others")
        n_met += 1
        if peak < last[0]:
            points.append([peak, planned, run["ms_processor"]])
        else:
            last[2] = min(last[2], run["ms_processor"])
    for i in range(n_points - n_met - 1, 0, -max(1, n_points // 10)):
        if bench(command, model, batch, whole["planned_peak_bytes"] * i // n_points, 1) is not None:
            sys.exit(f"{name}: {i} of {n_points} parts are enough, and {n_points - n_met} were not")
    result = {"model": name, "batch": batch, "budgets": n_points, "met": n_met, "points": points,
              "least": points[-1][0] / points[0][0], "slowest": points[-1][2] / points[0][2]}
    print(json.dumps(result), flush=True)
    return result


def draw(results):
    """Time of a step against its peak, both relative to those without a budget."""
    width, height, left, top = 640, 400, 60, 30
    times = [time / r["points"][0][k] for r in results for point in r["points"] for k, time in enumerate(point) if k > 0]
    slowest, fastest = max(1.1, *times), min(0.95, *times)
    least = min(r["least"] for r in results) - 0.03

    def place(peak, ms):
        return (left + (peak - least) / (1 - least) * (width - left - 20),
                height - 50 - (ms - fastest) / (slowest - fastest) * (height - 50 - top))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    step = 0.05 if slowest - fastest < 0.8 else 0.1
    for k in range(0, 41):
        ms = 0.7 + step * k
        if fastest <= ms <= slowest:
            y = place(1, ms)[1]
            out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                       f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{ms:.2f}</text>')
    for k in range(0, 11):
        peak = 0.1 * k
        if least <= peak <= 1:
            x = place(peak, fastest)[0]
            out.append(f'<text x="{x:.1f}" y="{height - 32}" text-anchor="middle">{peak:.1f}</text>')
    out.append(f'<text x="{(left + width) / 2}" y="{height - 12}" text-anchor="middle">peak of the plan, of that without a '
               'budget</text>')
    out.append(f'<text x="{left}" y="18">time of a step, of that without a budget: planned (lines), measured (dots)</text>')
    for i, r in enumerate(results):
        color = COLORS[i % len(COLORS)]
        whole = r["points"][0]
        planned, measured = ([place(point[0] / whole[0], point[k] / whole[k]) for point in r["points"]] for k in (1, 2))
        out.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in planned) + '"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{color}"/>' for x, y in measured]
        out.append(f'<text x="{width - 24}" y="{top + 14 * (i + 1)}" text-anchor="end" fill="{color}">{r["model"]}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("models", nargs="*", metavar="NAME=MODEL:BATCH")
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--svg", type=pathlib.Path)
    arguments = parser.parse_intermixed_args()
    fixtures = pathlib.Path(__file__).resolve().parent.parent / "data" / "fixtures"
    models = [(name, str(fixtures / name / "model.onnx"), batch) for name, batch in FIXTURES.items()]
    if arguments.models:
        models = [(m.split("=", 1)[0], *m.split("=", 1)[1].rsplit(":", 1)) for m in arguments.models]
    results = [sweep(arguments.command, name, model, batch, arguments.points, arguments.steps)
               for name, model, batch in models]
    if arguments.svg:
        arguments.svg.write_text(draw(results))


main()
