# SPDX-License-Identifier: LGPL-2.1-or-later
"""One program as one block: what it says becomes a result."""
import os
import re
import signal
import subprocess
import tempfile
import threading
import time


running, lock = set(), threading.Lock()  # what end_all ends


def end(process):
    """With all that it has started; it is the leader of a group of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def end_all():
    with lock:
        for process in running:
            end(process)


def call(command, values, seconds, nice=0):
    """nice: in the background. Status (None: it took too long, 127: it could not be started), output, errors. What it wrote until it was ended is kept."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        words = (["nice", "-n", str(nice)] if nice else []) + [str(word) for word in command]
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=values, start_new_session=True)
        except OSError as error:
            return 127, "", str(error)
        with lock:
            running.add(process)
        try:
            status = process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with lock:
                running.discard(process)
                if process.returncode is None:
                    end(process)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return status, *texts


def run(name, command, values, seconds):
    """A result, and the whole text. Tests are counted as TAP has them, and as `ortrain verify` does."""
    begin = time.monotonic()
    status, text, errors = call(command, values, seconds)
    text += errors
    if status is None:
        text += f"\ntook longer than {seconds:.0f} s"
    passed, failed = len(re.findall(r"^ok\b", text, re.M)), re.findall(r"^not ok.*|^Bail out!.*|^FAIL .*", text, re.M)
    passed += sum(int(number) for number in re.findall(r"^(\d+) passed, \d+ failed, ", text, re.M))
    result = {"block": name, "passed": status == 0 and not failed, "status": status, "tests": passed,
              "seconds": round(time.monotonic() - begin, 1)}
    if not result["passed"]:
        result["says"] = (failed + text.splitlines()[-6:])[:8]
    return result, text
