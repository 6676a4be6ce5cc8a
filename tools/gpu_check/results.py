# SPDX-License-Identifier: LGPL-2.1-or-later
"""Results: a line of JSON for each block, in a file that is complete after each of them."""
import json
import os
import threading


def key(line):
    return line["block"], line["emulated"], line.get("provider", "cuda"), line.get("small", False)


def read(path):
    """A line that a stop has cut short counts for nothing."""
    lines = []
    for text in open(path) if os.path.exists(path) else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            pass
    return lines


class Results:
    """Appends, from any thread."""

    def __init__(self, path):
        self.lock, self.lines = threading.Lock(), []
        cut = os.path.exists(path) and open(path).read()[-1:] not in ("\n", "")
        self.file = open(path, "a")
        if cut:
            self.file.write("\n")

    def add(self, line):
        with self.lock:
            self.lines.append(line)
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())

    def close(self):
        self.file.close()
