# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a plan prints last: a remote machine may keep only the last 12,000 characters."""
import collections

import models_beside

from . import facts, first

LIMIT = 11500
FAILURES = 25


def cut(text, n=170):
    return text if len(text) <= n else text[:n - 1] + "…"


def describe_stages(plan):
    yield f"{'stage':<10} {'from':>6} {'to':>6} {'deadline':>8}          passed failed late left"
    for stage in plan.stages:
        to = stage.finished if stage.finished is not None else plan.seconds()
        inside = "inside" if to <= stage.end + 1 else f"+{to - stage.end:.0f} s"
        yield (f"{stage.name:<10} {stage.begin:6.0f} {to:6.0f} {stage.end:8.0f} {inside:<8} " +
               " ".join(f"{stage.counts[kind]:>{width}}" for kind, width in (("passed", 6), ("failed", 6), ("late", 4), ("left", 4))))


def describe_failures(lines):
    bad = [line for line in lines if not line["passed"] and not line.get("left")]
    for line in bad[:FAILURES]:
        yield f"{'late  ' if line.get('late') else 'FAILED'} {line['block']} ({line['seconds']} s)"
        for says in line.get("says", [])[:2]:
            yield "       " + cut(says)
    if len(bad) > FAILURES:
        yield f"… and {len(bad) - FAILURES} more"
    left = [line["block"] for line in lines if line.get("left")]
    if left:
        yield cut(f"never begun: {', '.join(left)}", 700)


def describe_models(lines):
    rows = {line["block"]: line for line in lines if line.get("sides")}.values()
    if rows:
        yield f"{'model':<11} {'batch':>8} {'type':<5} {'a second':>10} {'eager':>10} {'compiled':>10} {'ratio':>6} {'MB':>7} {'eager':>7} {'cold s':>6} losses differ by"
    for line in rows:
        rates, sizes = [[of(line, side) for side in ("ortrain", "eager", "compiled")] for of in (models_beside.per_second, models_beside.megabytes)]
        ours = line["sides"].get("ortrain", {})
        number, ratio = models_beside.number, models_beside.ratio
        batch = f"{line['batch']}x{line['seq']}" if line["seq"] else str(line["batch"])
        difference = f"{line['loss_difference']:.1e}" if line.get("loss_difference") is not None else "–"
        yield (f"{line['model']:<11} {batch:>8} {line['precision']:<5} {number(rates[0], 0):>10} {number(rates[1], 0):>10} {number(rates[2], 0):>10} "
               f"{number(ratio(rates[0], rates[2] or rates[1]), 2):>6} {number(sizes[0], 0):>7} {number(sizes[1], 0):>7} "
               f"{number(ours['ms_create'] / 1e3 if 'ms_create' in ours else None):>6} {difference}")
        counters = ours.get("counters", {}).get("cuda", {})
        bad = {name: n for name, n in counters.items() if name in ("dnn-fallbacks", "product-fallbacks", "products-unaligned", "uncaptured-segments")}
        if bad:
            yield "            " + ", ".join(f"{name} {n}" for name, n in bad.items())


def describe_profile(plan, each):
    rows = first.read_profile(first.profile_path(plan, each))
    total = sum(row["ms"] for row in rows)
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["phase"], row["operator"]].append(row)
    if rows:
        yield f"profile of {each[0]}: {total:.2f} ms in {len(rows)} calls, estimated {sum(row['ms_estimated'] for row in rows):.2f}"
    for (phase, operator), group in sorted(groups.items(), key=lambda item: -sum(row["ms"] for row in item[1]))[:8]:
        ms = sum(row["ms"] for row in group)
        yield f"  {ms:9.3f} ms {100 * ms / total:4.0f} % {len(group):4} x {operator} ({phase}), estimated {sum(row['ms_estimated'] for row in group):.3f}"


def describe_variants(lines):
    for line in lines:
        if line.get("variants"):
            base = min(next(iter(line["variants"].values()))["ms"])
            yield f"{line['block']}: " + "; ".join(f"{name} {'/'.join(f'{ms:.2f}' for ms in side['ms'])} ms ({min(side['ms']) / base:.3f})" for name, side in line["variants"].items())
        if line["block"].startswith("ncu/") and line.get("counters"):
            yield f"{line['block']} ({line['ms']:.3f} ms, estimated {line['ms_estimated']:.3f}): " + cut("; ".join(line["counters"]), 400)


def parts(plan, known):
    lines = plan.results.lines
    total = collections.Counter()
    for stage in plan.stages:
        total += stage.counts
    device = next((line["device"]["description"] for line in lines if (line.get("device") or {}).get("description")), "no device")
    words = "".join(text for text, on in ((" on the emulated device", plan.words.dry_run), (", small models", plan.words.small)) if on)
    yield [f"plan {plan.words.plan}{words}: {plan.seconds():.0f} of {plan.words.deadline:.0f} s; {device}"]
    yield list(describe_stages(plan))
    yield list(describe_failures(lines))
    yield list(describe_models(lines))
    yield list(describe_variants(lines))
    for each in first.PROFILES if plan.words.plan == "first" else []:
        yield list(describe_profile(plan, each))
    if known is not None:
        yield [cut(line, 600) for line in facts.describe(known)]
    yield [f"{total['passed']} passed, {total['failed']} failed, {total['late']} late, {total['left']} left; files in {plan.out}: " +
           ", ".join(sorted({file.name for file in plan.out.iterdir()} | {"summary.txt"}))]


def write(plan):
    """To summary.txt, and the text. The last part is never cut, and neither are those before what is too long."""
    known = None
    if (plan.out / "probe.json").exists():
        known = facts.json.loads((plan.out / "probe.json").read_text())
    every = ["\n".join(part) + "\n" for part in parts(plan, known) if part]
    last, text = every.pop(), "\n"
    for part in every:
        room = LIMIT - len(last) - len(text)
        text += part if len(part) < room else part[:max(part.rfind("\n", 0, max(room - 30, 0)), 0)] + "\n… (summary.txt is longer)\n"
        text += "\n" if len(text) < LIMIT - len(last) else ""
        if len(part) >= room:
            break
    (plan.out / "summary.txt").write_text("\n".join(every) + last)
    return text + last
