# SPDX-License-Identifier: LGPL-2.1-or-later
"""What nvcc says of each kernel, against the table kernels/cuda/registers.txt: check_registers.py [--write] TABLE NVCC REPORT…

A kernel that spills registers, or has a stack frame that the table does not excuse, fails with any compiler. Registers and shared memory are
compared where the compiler is the table's. --write makes the table anew, and keeps what it excuses.
"""
import collections
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import main

HEADER = """# nvcc {version}
# Registers, bytes of shared memory and of stack of each kernel, as nvcc reports them, for all that share a template's name: the
# most of any instance. A stack above 0 is refused unless it stands here. Made by tests/simt/check_registers.py --write.
# architecture registers shared stack kernel
"""
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")

Kernel = collections.namedtuple("Kernel", "symbol architecture registers shared stack spills")


def read_report(text):
    kernels, entry, frame = [], None, None
    for line in text.splitlines():
        if found := ENTRY.search(line):
            entry, frame = found.groups(), None
        elif (found := FRAME.search(line)) and entry:
            frame = [int(number) for number in found.groups()]
        elif (found := USED.search(line)) and entry:
            shared = SHARED.search(line)
            kernels.append(Kernel(*entry, int(found[1]), int(shared[1]) if shared else 0, frame[0], frame[1] + frame[2]))
            entry = None
    return kernels


def name_all(kernels):
    """Symbols as names of templates: what stands before their arguments."""
    symbols = sorted({kernel.symbol for kernel in kernels})
    names = subprocess.run(["c++filt", "-p"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    return {symbol: re.sub(r"<.*", "", name.replace("(anonymous namespace)::", "")).split("::")[-1].split()[-1]
            for symbol, name in zip(symbols, names.splitlines())}


def sum_up(kernels):
    """(architecture, name) → registers, shared bytes, bytes of stack: the most of all instances."""
    names, table = name_all(kernels), {}
    for kernel in kernels:
        key = kernel.architecture, names[kernel.symbol]
        table[key] = tuple(map(max, table.get(key, (0, 0, 0)), (kernel.registers, kernel.shared, kernel.stack)))
    return table


def read_table(path):
    lines = path.read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return lines[0].removeprefix("# nvcc "), {(row[0], row[4]): tuple(map(int, row[1:4])) for row in rows}


def find_faults(kernels, table, is_same_compiler):
    names, faults = name_all(kernels), []
    for kernel in kernels:
        where = f"{names[kernel.symbol]} for {kernel.architecture}"
        if kernel.spills:
            faults.append(f"{where} spills registers: {kernel.spills} bytes ({kernel.symbol})")
        if kernel.stack > table.get((kernel.architecture, names[kernel.symbol]), (0, 0, 0))[2]:
            faults.append(f"{where} has a stack frame of {kernel.stack} bytes ({kernel.symbol})")
    if is_same_compiler:
        found = sum_up(kernels)
        for key in sorted(table.keys() | found.keys()):
            have, want = found.get(key), table.get(key)
            if have is None and key[0] in {kernel.architecture for kernel in kernels}:
                faults.append(f"{key[1]} for {key[0]} stands in the table and is gone")
            elif have is not None and want is None:
                faults.append(f"{key[1]} for {key[0]} does not stand in the table: it has {have}")
            elif have is not None and have[:2] != want[:2]:
                faults.append(f"{key[1]} for {key[0]}: {have[0]} registers and {have[1]} bytes of shared memory, "
                              f"{want[0]} and {want[1]} in the table")
    return faults


def get_version(nvcc):
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", text)[1]


arguments = [word for word in sys.argv[1:] if word != "--write"]
writes = "--write" in sys.argv
path, nvcc, reports = pathlib.Path(arguments[0]), arguments[1], arguments[2:]
sys.argv[1:] = []
version = get_version(nvcc)

REPORT = """ptxas info    : Compiling entry function '_Z3addIfEvPT_i' for 'sm_90'
ptxas info    : Function properties for _Z3addIfEvPT_i
    {} bytes stack frame, {} bytes spill stores, {} bytes spill loads
ptxas info    : Used {} registers, used 1 barriers, 128 bytes smem
"""


class Tool(unittest.TestCase):
    """The checks themselves can fail."""
    table = {("sm_90", "add"): (20, 128, 0)}

    def find(self, *numbers, table=None, same=True):
        return find_faults(read_report(REPORT.format(*numbers)), self.table if table is None else table, same)

    def test_as_in_the_table(self):
        self.assertEqual(self.find(0, 0, 0, 20), [])

    def test_spills(self):
        self.assertIn("spills registers: 12 bytes", self.find(0, 8, 4, 20, same=False)[0])

    def test_stack(self):
        self.assertIn("has a stack frame of 16 bytes", self.find(16, 0, 0, 20, same=False)[0])
        self.assertEqual(self.find(16, 0, 0, 20, table={("sm_90", "add"): (20, 128, 16)}), [])

    def test_registers(self):
        self.assertIn("21 registers", self.find(0, 0, 0, 21)[0])
        self.assertEqual(self.find(0, 0, 0, 21, same=False), [])

    def test_table_is_complete(self):
        self.assertIn("does not stand in the table", self.find(0, 0, 0, 20, table={})[0])
        self.assertIn("is gone", self.find(0, 0, 0, 20, table=self.table | {("sm_90", "mul"): (1, 0, 0)})[0])


class Kernels(unittest.TestCase):
    def test_reports(self):
        kernels = [kernel for report in reports for kernel in read_report(pathlib.Path(report).read_text())]
        self.assertGreater(len(kernels), 100)
        written_by, table = read_table(path)
        print(f"# {len(kernels)} kernels by nvcc {version}; the table is nvcc {written_by}'s")
        faults = find_faults(kernels, table, written_by == version)
        self.assertEqual(faults, [], "\n" + "\n".join(faults))


if writes:
    table = sum_up([kernel for report in reports for kernel in read_report(pathlib.Path(report).read_text())])
    path.write_text(HEADER.format(version=version) + "".join(
        f"{key[0]} {row[0]} {row[1]} {row[2]} {key[1]}\n" for key, row in sorted(table.items(), key=lambda item: item[0][::-1])))
else:
    main()
