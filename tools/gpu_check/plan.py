# SPDX-License-Identifier: LGPL-2.1-or-later
"""A plan: stages with deadlines, blocks that run at the same time, and files that are complete after each block.

    gpu-check.jsonl   a line for each block, as without a plan; "late": it was ended at its deadline, "left": it was never begun
    failures.log      the end of what failed blocks wrote
    summary.txt       what is printed last"""
import collections
import contextlib
import os
import signal
import sys
import threading
import time

from . import arguments, environment, process, results, series

LOG_LINES = 80


class Stage:
    def __init__(self, name, begin, end):
        self.name, self.begin, self.end = name, begin, end  # seconds since the plan began; end: the deadline
        self.finished, self.counts = None, collections.Counter()


class Plan:
    def __init__(self, words, full_seconds):
        self.words, self.scale = words, words.deadline / full_seconds
        self.out = words.out
        self.values = environment.settings(words.build, words.dry_run, words.provider, words.pytorch or sys.executable)
        self.path = words.results or self.out / "gpu-check.jsonl"
        self.results = results.Results(self.path)
        self.stages, self.stage, self.lock, self.is_stopped = [], None, threading.Lock(), False

    def seconds(self):
        return time.monotonic() - self.words.begin

    def left(self):
        """Until the end of this stage."""
        return max(self.stage.end - self.seconds(), 0)

    @contextlib.contextmanager
    def in_stage(self, name, end):
        """end: by the plan's own clock, of which the deadline may be another one."""
        self.stage = Stage(name, self.seconds(), end * self.scale)
        self.stages.append(self.stage)
        print(f"== {name}: until {self.stage.end:.0f} s", flush=True)
        try:
            yield self.stage
        finally:
            self.stage.finished = self.seconds()

    def wants(self, name):
        return arguments.is_wanted(self.words, name)

    def add(self, result, text=""):
        """Of a block that has run, with what it wrote."""
        result = {"block": result["block"], "emulated": self.words.dry_run, "provider": self.words.provider} | result
        with self.lock:
            kind = "passed" if result["passed"] else "left" if result.get("left") else "late" if result.get("late") else "failed"
            self.stage.counts[kind] += 1
            self.results.add(result)
            if kind == "left":
                return result
            series.show(result)
            if kind != "passed":
                with open(self.out / "failures.log", "a") as file:
                    file.write(f"==== {result['block']}\n" + "\n".join((text or "\n".join(result.get("says", []))).splitlines()[-LOG_LINES:]) + "\n")
        return result

    def leave(self, names):
        for name in names:
            self.add({"block": name, "passed": False, "left": True, "seconds": 0})

    def run_program(self, name, command, values=None, seconds=None):
        """A block of one program, until the end of the stage at most."""
        limit = min(seconds or self.words.seconds, self.left())
        result, text = process.run(name, command, environment.settings_of(name, values or self.values, self.words.dry_run), limit)
        if result["status"] is None:
            result["late"] = True
        return result, text

    def run_together(self, blocks, workers):
        """blocks: name, and a function that returns a result and its text. What the stage has no time for is left."""
        queue = collections.deque((name, function) for name, function in blocks if self.wants(name))

        def work():
            while self.left() > 0:
                with self.lock:
                    if not queue:
                        return
                    name, function = queue.popleft()
                self.add(*function())

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(queue)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.leave([name for name, _ in queue])


def stop(number, frame):
    raise KeyboardInterrupt


def run(words):
    from . import first, second, summary
    if words.out is None:
        sys.exit("A plan needs a folder for its results: --out DIR, or $OUT")
    module = {"first": first, "second": second}[words.plan]
    plan = Plan(words, module.SECONDS)
    signal.signal(signal.SIGTERM, stop)
    try:
        module.run(plan)
    except KeyboardInterrupt:
        plan.is_stopped = True
        print("stopped", flush=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        process.end_all()
        text = summary.write(plan)
        plan.results.close()
        print(text, end="", flush=True)
    if plan.is_stopped:
        os._exit(1)  # threads of the stage may still run, and the interpreter crashes now and then when it ends beside them
    return 0 if all(set(stage.counts) <= {"passed"} for stage in plan.stages) else 1
