# SPDX-License-Identifier: LGPL-2.1-or-later
"""Models of a plan: exported in the background, trained beside one process of PyTorch for each model."""
import json
import os
import pathlib
import queue
import subprocess
import tempfile
import threading
import time

import models_beside

from . import process

BACKGROUND = 5  # niceness of what prepares


class Server:
    """pytorch_models.py serve: imports PyTorch and makes its model while nobody waits."""

    def __init__(self, python, model, device, small, threads):
        self.command = [str(word) for word in [python, models_beside.HERE / "pytorch_models.py", "serve", model, "--device", device,
                                               "--threads", threads, *(["--small"] if small else [])]]
        self.process = self.versions = None

    def start(self):
        self.is_ready = False
        self.lines, self.errors = queue.Queue(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, start_new_session=True)
        with process.lock:
            process.running.add(self.process)
        threading.Thread(target=self.read, args=(self.process, self.lines), daemon=True).start()

    @staticmethod
    def read(of, lines):
        for line in of.stdout:
            lines.put(line)
        lines.put(None)

    def stop(self):
        with process.lock:
            process.running.discard(self.process)
            process.end(self.process)
        self.process = None

    def take(self, end):
        """An answer until a time, or None: it is late, and started anew when it is asked again."""
        try:
            line = self.lines.get(timeout=max(end - time.monotonic(), 0.01))
            return json.loads(line) if line is not None else {"error": self.last_error()}
        except queue.Empty:
            return None
        except ValueError:
            return {"error": "no answer"}

    def last_error(self):
        self.errors.seek(0)
        return (self.errors.read().decode(errors="replace").strip().splitlines() or ["it has ended"])[-1][:500]

    def send(self, request, end):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.take(end)

    def ask(self, request, end):
        """The answer, which may be an "error"."""
        if self.process is None:
            self.start()
        if not self.is_ready:
            first = self.take(end)
            self.is_ready, self.versions = first is not None and "error" not in first, (first or {}).get("versions")
        try:
            answer = self.send(request, end) if self.is_ready else first
        except OSError:
            answer = {"error": self.last_error()}
        if answer is None or self.process.poll() is not None:
            self.stop()
        return answer or {"error": "took too long"}


class Training(models_beside.Beside):
    """models: name to the sizes that are needed."""

    def __init__(self, plan, models):
        words = plan.words
        super().__init__(words.build / "tools/ortrain", plan.values, words.pytorch, words.provider, "cpu" if words.dry_run else "cuda", words.small,
                         words.seconds, words.begin + words.deadline)
        self.end = words.begin + words.deadline
        shared = pathlib.Path("/dev/shm")
        is_roomy = shared.is_dir() and os.statvfs(shared).f_bavail * os.statvfs(shared).f_frsize > (1 if words.small else 12) << 30
        self.top = tempfile.TemporaryDirectory(prefix="ortrain-models-", dir=shared if is_roomy else None)
        self.ready, self.reasons, self.seconds_of = {model: threading.Event() for model in models}, {}, {}
        threads = 1 if words.dry_run else 0
        self.servers = {model: Server(self.python, model, self.device, self.small, threads) for model in models}
        for model, sizes in models.items():
            threading.Thread(target=self.prepare, args=(model, sizes), daemon=True).start()

    def folder_of(self, model):
        return pathlib.Path(self.top.name) / model

    def prepare(self, model, sizes):
        begin, folder = time.monotonic(), self.folder_of(model)
        small = ["--small"] if self.small else []
        folder.mkdir()
        programs = [[self.python, models_beside.HERE / "pytorch_models.py", "export", model, folder, *small]]
        programs += [[self.python, models_beside.HERE / "model_feeds.py", "feeds", model, folder / f"{batch}x{seq}", "--batch", batch, "--seq", seq, *small]
                     for batch, seq in sizes]
        for command in programs:
            status, text, errors = process.call(command, os.environ, self.last - time.monotonic(), BACKGROUND)
            if status != 0:
                self.reasons[model] = f"PyTorch, {command[2]}: " + (errors.strip().splitlines() or [f"status {status}"])[-1]
                break
            if command[2] == "feeds":
                (command[4] / "made.json").write_text(text)
        self.seconds_of[model] = round(time.monotonic() - begin, 1)
        self.ready[model].set()
        if model not in self.reasons:
            self.servers[model].start()

    def is_ready(self, model, seconds):
        return self.ready[model].wait(seconds)

    # ---- what differs from blocks that stand alone ----

    def make_feeds(self, result):
        folder = self.folder_of(result["model"]) / f"{result['batch']}x{result['seq']}"
        if (folder / "made.json").exists():
            return json.loads((folder / "made.json").read_text())["items"], self.words_of(folder)
        made = self.torch("feeds", result["model"], folder, *self.sizes(result))
        return (made["items"], self.words_of(folder)) if made else None

    def time(self, side, result, steps):
        request = {"batch": result["batch"], "seq": result["seq"], "precision": result["precision"], "steps": steps, "compile": side == "compiled"}
        answer = self.servers[result["model"]].ask(request, self.end)
        if "error" in answer:
            self.says.append(f"PyTorch, {side}: {answer['error']}")
            return None
        return answer

    def about(self, model, batch, seq, precision):
        return {"model": model, "batch": models_beside.SMALL[0] if self.small else batch, "precision": precision, "date": time.strftime("%Y-%m-%d"),
                "seq": (models_beside.SMALL[1] if self.small else seq) if seq else 0, "small": self.small}

    def train(self, name, each, sides, seconds):
        """A block of models_beside, with some of its sides."""
        begin = time.monotonic()
        self.says, self.end = [], min(begin + seconds, self.last)
        result, model, passed = self.about(*each), each[0], False
        if model in self.reasons:
            self.says.append(self.reasons[model])
        else:
            passed = self.speed(result, sides, self.folder_of(model) / "model.onnx")
        late = not passed and time.monotonic() >= self.end
        result |= {"block": name, "passed": passed, "seconds": round(time.monotonic() - begin, 1), "seconds_export": self.seconds_of.get(model),
                   "versions": self.servers[model].versions}
        return result | ({"says": self.says} if self.says else {}) | ({"late": True} if late else {})

    def compile(self, line, seconds):
        """The line of a model with PyTorch's compiled side, too."""
        begin = time.monotonic()
        self.says, self.end = [], min(begin + seconds, self.last)
        side = self.time("compiled", line, 3 if self.small else 20)
        line = line | {"sides": line["sides"] | ({"compiled": side} if side else {}), "seconds_compiled": round(time.monotonic() - begin, 1)}
        return line | ({"says": line.get("says", []) + self.says} if self.says else {})

    def close(self):
        for server in self.servers.values():
            if server.process is not None:
                server.stop()
        self.top.cleanup()
