# SPDX-License-Identifier: LGPL-2.1-or-later
"""unittest that prints TAP: what the tests in Python share."""
import sys
import traceback
import unittest


class _Result(unittest.TestResult):
    def startTestRun(self):
        self.number = 0

    def _line(self, word, test, remark=""):
        self.number += 1
        name = test.id().split(".", 1)[-1]
        print(f"{word} {self.number} {name}{remark}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("ok", test, f" # SKIP {reason}")

    def _tell(self, error):
        for line in "".join(traceback.format_exception(*error)).splitlines():
            print("#", line, flush=True)

    def _bad(self, test, error):
        self._line("not ok", test)
        self._tell(error)
        self.broken = False     # told

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.broken = True
            print("#", subtest.id(), flush=True)
            self._tell(error)

    def startTest(self, test):
        super().startTest(test)
        self.broken = False

    def stopTest(self, test):
        super().stopTest(test)
        if self.broken:     # unittest says no more of a test whose subtests failed
            self._line("not ok", test)

    def addError(self, test, error):
        super().addError(test, error)
        self._bad(test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._bad(test, error)


def main():
    loader = unittest.defaultTestLoader
    if len(sys.argv) > 1:
        suite = loader.loadTestsFromNames(sys.argv[1:], sys.modules["__main__"])
    else:
        suite = loader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}")
    result = _Result()
    result.startTestRun()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)
