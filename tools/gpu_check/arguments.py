# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the command line says."""
import argparse
import importlib.util
import math
import os
import pathlib
import sys
import time

from . import facts, place

# Seconds for a plan in all; a call on a remote machine may end at 480.
DEADLINES = {"first": 470, "second": 270}


def is_wanted(words, name):
    return not words.only or any(part in name for part in words.only.split(","))


def parse(text):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(place.ROOT / ("bundle" if place.IS_BUNDLE else "_gpu")))
    parser.add_argument("--out", default=os.environ.get("OUT") or None, help="the folder of results ($OUT, or here)")
    parser.add_argument("--results", help="their file (gpu-check.jsonl in that folder)")
    parser.add_argument("--only", help="blocks whose names contain this, or one of several, joined by commas")
    parser.add_argument("--seconds", type=int, default=300, help="for one block; three times that for a benchmark")
    parser.add_argument("--minutes", type=float, default=math.inf, help="for all of them")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--facts", metavar="FILE", help="with --dry-run: a probe.json; the emulated libraries refuse what that device's did")
    parser.add_argument("--provider", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--pytorch", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--bundle", metavar="FILE")
    parser.add_argument("--targets", action="store_true", help="print what ninja has to build for a bundle")
    plans = parser.add_argument_group("plans")
    plans.add_argument("--plan", choices=list(DEADLINES))
    plans.add_argument("--deadline", type=float, help="seconds for the plan (first: 470, second: 270)")
    plans.add_argument("--workers", type=int, default=min(8, max(2, (os.cpu_count() or 2) // 2)), help="programs at a time")
    plans.add_argument("--from", dest="before", metavar="FOLDER", help="second: where the results of plan first are")
    plans.add_argument("--variant", action="append", default=[], metavar="'NAME: WORD…'",
                       help="second: VARIABLE=VALUE, or an option of ortrain bench; several are compared")
    words = parser.parse_args()
    if words.facts:
        os.environ.update(facts.make_settings(words.facts))
    words.small |= words.dry_run
    words.begin = time.monotonic()
    words.end = words.begin + 60 * words.minutes
    words.build = pathlib.Path(words.build).resolve()
    words.out = pathlib.Path(words.out) if words.out else None
    if words.out is not None:
        words.out.mkdir(parents=True, exist_ok=True)
    if words.pytorch is None and importlib.util.find_spec("torch") is not None:
        words.pytorch = sys.executable
    if words.plan and words.provider != "cuda":
        parser.error("a plan is for the provider 'cuda'")
    if words.plan == "second" and words.before is None:
        parser.error("the second plan needs the results of the first one: --from FOLDER")
    words.deadline = words.deadline or DEADLINES.get(words.plan)
    return words
