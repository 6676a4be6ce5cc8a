# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the scripts of tools/ share, with programs of the test in the place of meson, apt-get and sudo: test_scripts.py."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import main

source = pathlib.Path(__file__).resolve().parent.parent.parent
NEEDED = ["awk", "bash", "cat", "cut", "env", "id", "mktemp", "rm", "tail", "tee"]


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ortrain-scripts-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.programs = self.folder / "programs"
        self.temporary = self.folder / "temporary"
        for folder in (self.programs, self.temporary):
            folder.mkdir()
        for name in NEEDED:
            (self.programs / name).symlink_to(shutil.which(name))

    def put(self, name, script):
        (self.programs / name).unlink(missing_ok=True)
        (self.programs / name).write_text(f"#!{shutil.which('bash')}\necho \"{name} $*\" >>'{self.folder}/calls'\n{script}\n")
        (self.programs / name).chmod(0o755)

    def calls(self):
        said = self.folder / "calls"
        return said.read_text().splitlines() if said.exists() else []

    def run_script(self, script):
        return subprocess.run([shutil.which("bash"), "-euc", f". '{source}/tools/packages.sh'\n{script}"], capture_output=True, text=True, timeout=60,
                              cwd=self.folder, env={"PATH": str(self.programs), "TMPDIR": str(self.temporary)})

    def test_configured_once(self):
        self.put("meson", 'mkdir -p "$2"; : >"$2/build.ninja"')
        (self.programs / "mkdir").symlink_to(shutil.which("mkdir"))
        for _ in range(2):
            done = self.run_script("set_up_build build -Dtests=false")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.calls(), ["meson setup build -Dtests=false"])
        self.assertFalse((self.folder / "build.log").exists())

    def test_interrupted_folder(self):
        """A folder that was being made when somebody pressed Ctrl-C is made anew."""
        (self.folder / "build" / "meson-private").mkdir(parents=True)
        self.put("meson", '[ ! -e "$2" ] || exit 1; mkdir "$2"; : >"$2/build.ninja"')
        (self.programs / "mkdir").symlink_to(shutil.which("mkdir"))
        done = self.run_script("set_up_build build")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse((self.folder / "build" / "meson-private").exists())

    def test_failed_folder(self):
        self.put("meson", "echo 'ERROR: no compiler'; exit 1")
        done = self.run_script("set_up_build build || exit 3")
        self.assertEqual((done.returncode, done.stderr), (3, "ERROR: no compiler\n"))

    def test_nothing_missing(self):
        self.put("dpkg-query", "echo 'ii '")
        done = self.run_script("install_missing one two")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_without_rights(self):
        self.put("dpkg-query", '[ "${!#}" = one ] && echo "ii "')
        self.put("id", "echo 1000")
        done = self.run_script("install_missing one two three || exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr, "These packages are missing, and there is neither root nor sudo: two three\n")

    def test_sudo(self):
        """Only what is missing, and through sudo alone; no file of another user is in the way."""
        self.put("dpkg-query", '[ "${!#}" = one ] && echo "ii "')
        self.put("id", "echo 1000")
        self.put("sudo", 'exec "$@"')
        self.put("apt-get", '[ "$1" = update ] || echo "Setting up two"')
        done = self.run_script("install_missing one two")
        self.assertEqual((done.returncode, done.stdout), (0, "Installing, with their dependencies: two\n"))
        said = [call for call in self.calls() if call.startswith("apt-get")]
        self.assertEqual(said, ["apt-get update -qq", "apt-get install -y -q --no-install-recommends two"])
        self.assertEqual(sum(call.startswith("sudo ") for call in self.calls()), 2)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_failed_package(self):
        self.put("dpkg-query", "exit 1")
        self.put("id", "echo 0")
        self.put("apt-get", '[ "$1" = update ] || { echo "E: Unable to locate package two"; exit 100; }')
        for script, status in (("install_missing two || exit 3", 3), ("install_missing two", 100), ("set -o pipefail; install_missing two", 100)):
            done = self.run_script(script)
            self.assertEqual((done.returncode, done.stderr), (status, "E: Unable to locate package two\n"), script)
            self.assertEqual(list(self.temporary.iterdir()), [])

    def test_failed_tests(self):
        """What stands at the end of tools/check: each subtest that failed, and programs that ended before they said so."""
        log = self.folder / "testlog.json"
        log.write_text("".join(json.dumps({"name": f"ortrain:unit+core / {name}", "result": result, "stdout": said}) + "\n" for name, result, said in [
            ("good", "OK", "ok 1 /good/one\nok 2 /good/two # SKIP no file\n"),
            ("bad", "FAIL", "ok 1 /bad/one\nnot ok 2 /bad/two - ERROR:why\nnot ok 3 Bad.test_three\n"),
            ("long", "TIMEOUT", "ok 1 /long/one\nok 2 /long/two\n"),
            ("silent", "FAIL", "")]))

        def count(*options):
            return subprocess.run([sys.executable, source / "tools/count-tests", *options, log], capture_output=True, text=True, check=True).stdout
        self.assertEqual(count("--failed").splitlines(), ["bad /bad/two", "bad Bad.test_three", "long: TIMEOUT, after /long/two", "silent: FAIL"])
        self.assertEqual(count(), "4 4 1\n")

    def test_quickstart(self):
        """It has a build folder of its own, without tests and introspection, which README's next commands do not take for theirs."""
        tree = self.folder / "tree"
        (tree / "tools").mkdir(parents=True)
        for name in ("quickstart", "packages.sh"):
            shutil.copy(source / "tools" / name, tree / "tools")
        self.put("dpkg-query", "echo 'ii '")
        self.put("ninja", "")
        self.put("meson", f'mkdir -p "$2/tools"; : >"$2/build.ninja"; printf "#!%s\\necho \\"ortrain \\$*\\" >>\'{self.folder}/calls\'\\n" '
                          f'{shutil.which("bash")} >"$2/tools/ortrain"; chmod +x "$2/tools/ortrain"')
        for name in ("mkdir", "chmod", "dirname", "date"):
            (self.programs / name).symlink_to(shutil.which(name))
        done = subprocess.run([shutil.which("bash"), tree / "tools/quickstart"], capture_output=True, text=True, timeout=60, env={"PATH": str(self.programs)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("\x1b", done.stdout)               # which is no terminal
        self.assertEqual([call.split()[:3] for call in self.calls() if call.startswith("meson ")], [["meson", "setup", "_quickstart/build"]])
        self.assertEqual([call.split()[1] for call in self.calls() if call.startswith("ortrain ")], ["new", "info", "train", "eval"])
        self.assertEqual(sorted(entry.name for entry in tree.iterdir()), ["_quickstart", "tools"])

    def test_documents(self):
        """What tools/try-documents types: all commands and all Python of README and doc/, and no page with a block is left out."""
        done = subprocess.run([sys.executable, source / "tools/try-documents", "--list"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [line.split(": ", 2) for line in done.stdout.splitlines()]
        self.assertEqual([text.split()[0] for page, language, text in lines[:2]], ["tools/quickstart", "tools/check"])
        typed = {(page, text) for page, language, text in lines if language in ("sh", "python", "js", "c", "json")}
        for page in [source / "README.md", *(source / "doc").glob("*.md")]:
            text, name = page.read_text(), str(page.relative_to(source))
            fenced = re.findall(r"^```\w+\n(.*)", text, re.M)
            indented = re.findall(r"(?:^|\n)\n    (\S.*)", text)
            if fenced or indented:
                self.assertIn(name, [page for page, language, text in lines])
            for first in [*fenced, *(line for line in indented if re.match(r"(tools/|meson |ninja |ortrain |import |options )", line))]:
                self.assertTrue(any(p == name and text.startswith(first.replace(", …", "")[:60]) for p, text in typed), (name, first))


class Table(unittest.TestCase):
    def test_names(self):
        """tests/README.md names tests that are there."""
        rows = re.findall(r"^\| .* \| (`.*`) \|$", (source / "tests/README.md").read_text(), re.M)
        self.assertGreater(len(rows), 30)
        for row in rows:
            for entry in row.split("; "):
                file, names = entry.split(": ", 1)
                text = (source / "tests" / file.strip("`")).read_text()
                for name in re.findall(r"`([^`]+)`", names):
                    self.assertRegex(text, rf"(?<![\w-]){re.escape(name)}(?![\w-])" if name[0] != "/" else re.escape(name), entry)


main()
