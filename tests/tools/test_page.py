# SPDX-License-Identifier: LGPL-2.1-or-later
"""The page of a plan, `ortrain plan --html`, in a browser and its script without one: test_page.py ORTRAIN MODEL."""
import atexit
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

ortrain, model = (os.path.abspath(word) for word in sys.argv[1:3])
del sys.argv[1:3]
folder = tempfile.mkdtemp(prefix="ortrain-page-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
browser = shutil.which("chromium")
gjs = shutil.which("gjs")
environment = {name: value for name, value in os.environ.items() if not name.startswith("ORTRAIN_")} | {"ORTRAIN_CACHE": "off"}


def path(name):
    return os.path.join(folder, name)


def setUpModule():
    """One plan, as a page and as JSON; in it, something is computed again."""
    global page, plan
    done = subprocess.run([ortrain, "plan", model, "--batch", "4", "--memory-opt-level", "1", "--html", path("plan.html"), "--json"],
                          capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    page, plan = pathlib.Path(path("plan.html")).read_text(), json.loads(done.stdout)
    assert plan["recompute"], "nothing is computed again"


class Page(unittest.TestCase):
    def test_self_contained(self):
        """It loads nothing, from no network and from no other file."""
        self.assertNotRegex(page, r"(?i)https?:|\bsrc=|@import|url\(|<link|fetch\(|XMLHttp")
        self.assertNotIn("@PLAN@", page)

    def test_data(self):
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
        categories = [category["name"] for category in data["categories"]]
        self.assertEqual([(b[0], categories[b[1]], b[2], b[3], b[4], b[5], b[6], bool(b[7])) for b in data["blocks"]],
                         [(b["name"], b["category"], 0, b["offset"], b["bytes"], b["first"], b["last"], b["recomputed"]) for b in plan["blocks"]])
        self.assertEqual([(s[1], data["phases"][s[2]]) for s in data["steps"]], [(s["operator"], s["phase"]) for s in plan["steps"]])
        for step, same in zip(data["steps"], plan["steps"]):
            self.assertAlmostEqual(step[3], same["milliseconds"])
        self.assertEqual({s: step[4] for s, step in enumerate(data["steps"]) if step[4] >= 0},
                         {again["step"]: again["recomputes"] for again in plan["recompute"]})
        self.assertEqual(data["spaces"], [{"name": "arena", "bytes": plan["arena_bytes"]}])
        self.assertFalse(any(step[5] for step in data["steps"]))

    def test_offload(self):
        """It says what is copied away and back, and where it lies in between."""
        unet = str(pathlib.Path(model).parent.parent / "unet" / "model.onnx")
        command = [ortrain, "plan", unet, "--batch", "16", "--offload", "on", "--html", path("offload.html"), "--json", "--budget"]
        refused = subprocess.run([*command, "1KiB"], capture_output=True, text=True, env=environment, timeout=60)
        least = re.search(r"and ([\d.]+) ([KM]iB) are the least", refused.stderr)
        done = subprocess.run([*command, least[1] + least[2]], capture_output=True, text=True, env=environment, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        data = json.loads(re.search(r'id="data">(.*?)</script>', pathlib.Path(path("offload.html")).read_text(), re.S)[1])
        self.assertGreater(len(said["offload"]), 0)
        self.assertEqual([s for s, step in enumerate(data["steps"]) if step[5] == 1], [copy["step"] for copy in said["offload"]])
        back = [s for s, step in enumerate(data["steps"]) if step[5] == 2]
        self.assertGreaterEqual(len(back), len(said["offload"]))
        for s in back:
            self.assertEqual(data["phases"][data["steps"][s][2]], "backward")
            self.assertIn(s, [block[5] for block in data["blocks"] if block[2] == 0])
        self.assertEqual([space["name"] for space in data["spaces"]], ["arena", "arena of the host"])

    def test_gradients(self):
        """It says why gradients take memory of their own."""
        subprocess.run([ortrain, "plan", model, "--immediate-updates", "off", "--html", path("kept.html")], check=True,
                       capture_output=True, env=environment, timeout=60)
        text = pathlib.Path(path("kept.html")).read_text()
        self.assertRegex(text, r'"notes":\["Gradients \([^)]*\) are kept until the update: immediate-updates is off\.')
        self.assertNotIn("are kept until the update", page)

    def test_packing(self):
        """A packing alone has no steps, and no time."""
        pathlib.Path(path("buffers.csv")).write_text("id,lower,upper,size\n</script>,0,2,10\nb,1,3,20\n")
        subprocess.run([ortrain, "plan", "--csv", path("buffers.csv"), "--html", path("csv.html")], check=True, capture_output=True,
                       env=environment, timeout=60)
        text = pathlib.Path(path("csv.html")).read_text()
        self.assertEqual(text.count("</script>"), 2)
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
        self.assertEqual((data["blocks"][0][0], data["steps"]), ("</script>", []))


@unittest.skipIf(gjs is None, "there is no gjs")
class Script(unittest.TestCase):
    """What the page computes, without a page."""

    def run_script(self, code):
        source = re.findall(r"<script>(.*?)</script>", page, re.S)[0]
        data = re.search(r'id="data">(.*?)</script>', page, re.S)[1]
        pathlib.Path(path("script.js")).write_text(source + "\nconst plan = makePlan(" + data + ");\nprint(JSON.stringify(" + code + "));\n")
        done = subprocess.run([gjs, path("script.js")], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_curve(self):
        live = self.run_script("[...measure(plan, 0, () => true)]")
        self.assertEqual(live, [step["live_bytes"] for step in plan["steps"]])
        activations = self.run_script("[...measure(plan, 0, block => plan.categories[block.category].name === 'activation')]")
        self.assertEqual(activations[plan["first_backward_step"]],
                         sum(-(-b["bytes"] // 64) * 64 for b in plan["blocks"] if b["category"] == "activation" and b["last"] >= plan["first_backward_step"]))

    def test_times(self):
        times = self.run_script("[...plan.times]")
        self.assertEqual(len(times), plan["n_steps"] + 1)
        self.assertAlmostEqual(times[-1], plan["milliseconds"])
        self.assertEqual(times, sorted(times))

    def test_find(self):
        """In the middle of every block is that block."""
        code = ("plan.blocks.map(b => { const s = (b.begin + b.end) / 2, o = b.offset + b.bytes / 2;"
                " return findBlock(plan, 0, s, s, o, o, () => true).id; })")
        self.assertEqual(self.run_script(code.replace("s, s, o, o", "s - 1e-9, s + 1e-9, o - 1e-9, o + 1e-9")), list(range(len(plan["blocks"]))))
        self.assertIsNone(self.run_script("findBlock(plan, 0, 0, 1, 0, 1e15, () => false)"))

    def test_search(self):
        name = plan["blocks"][0]["name"]
        found = self.run_script(f"plan.blocks.filter(b => matches(plan, b, [{json.dumps(name.lower())}])).map(b => b.id)")
        self.assertIn(0, found)
        for index, block in enumerate(plan["blocks"]):
            if name in block["name"]:
                self.assertIn(index, found)
        self.assertEqual(self.run_script("plan.blocks.filter(b => matches(plan, b, ['no such name'])).length"), 0)
        both = self.run_script("plan.blocks.filter(b => matches(plan, b, ['conv', 'grad'])).map(b => [b.name, plan.steps[b.first].node, plan.steps[b.first].operator])")
        self.assertIn("ConvGradInput", [operator for _, _, operator in both])
        for names in both:
            self.assertTrue("conv" in " ".join(names).lower() and "grad" in " ".join(names).lower(), names)

    def test_words(self):
        self.assertEqual(self.run_script("[0, 1023, 1024, 1280 * 1024, 123456789].map(formatBytes)"),
                         ["0 bytes", "1023 bytes", "1 KiB", "1.25 MiB", "118 MiB"])
        self.assertEqual(self.run_script("[0.0004, 0.25, 3.14159, 314.159].map(formatTime)"), ["0.40 µs", "250 µs", "3.1 ms", "314 ms"])
        ticks = self.run_script("[ticks(0, 37, 8, false), ticks(0, 1500000, 6, true), ticks(3, 4, 5, false)]")
        self.assertEqual(ticks[0], [0, 5, 10, 15, 20, 25, 30, 35])
        self.assertEqual([tick % 2 ** 17 for tick in ticks[1]], [0] * len(ticks[1]))
        for each in ticks:
            self.assertTrue(4 <= len(each) <= 13, each)


@unittest.skipIf(browser is None, "there is no chromium")
class Browser(unittest.TestCase):
    """What a person does: the page as chromium shows it."""

    def act(self, code, hash="", page=None):
        """Runs code in the page, and gives the object that it leaves in `result`; errors of the page fail."""
        script = f"""<script>
        const result = {{}}, errors = [], get = id => document.getElementById(id), over = get('over');
        window.onerror = message => errors.push(message);
        function at(type, step, byte) {{   // a place in the picture, with the margins of the page
          const box = over.getBoundingClientRect(), arena = {plan["arena_bytes"]}, n = {plan["n_steps"]};
          over.dispatchEvent(new PointerEvent(type, {{bubbles: true, button: 0,
            clientX: box.left + 92 + (step + 0.5) / n * (box.width - 92 - 18),
            clientY: box.top + 76 + (1 - byte / arena) * (box.height - 76 - 46)}}));
        }}
        {code}
        const element = document.createElement('div');
        element.id = 'result';
        element.textContent = JSON.stringify({{...result, errors}});
        document.body.append(element);
        </script></body>"""
        pathlib.Path(path("act.html")).write_text((page or globals()["page"]).replace("</body>", script))
        done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + path("profile"), "--window-size=1300,1100",
                               "--virtual-time-budget=3000", "--dump-dom", "file://" + path("act.html") + hash], capture_output=True, text=True, timeout=120)
        found = re.search(r'<div id="result">(.*?)</div>', done.stdout, re.S)
        self.assertIsNotNone(found, done.stderr[-2000:])
        result = json.loads(found[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
        self.assertEqual(result.pop("errors"), [])
        return result

    def test_hover(self):
        block = max(plan["blocks"], key=lambda block: block["bytes"] * (block["last"] - block["first"] + 1))
        middle = (max(block["first"], 0) + min(block["last"], plan["n_steps"] - 1)) // 2
        result = self.act(f"""
          at('pointermove', {middle}, {block["offset"] + block["bytes"] / 2});
          result.tip = get('tip').innerText;
          result.shown = !get('tip').hidden;
          over.dispatchEvent(new PointerEvent('pointerleave'));
          result.gone = get('tip').hidden;""")
        self.assertTrue(result["shown"] and result["gone"])
        self.assertIn(block["name"], result["tip"])
        self.assertIn(block["category"], result["tip"])
        self.assertIn(f"{block['bytes']:,} bytes", result["tip"])
        self.assertIn(f"Computed by {block['node']}", result["tip"])
        self.assertRegex(result["tip"], r"About .* to .* of .*s")

    def test_search_and_filter(self):
        name = next(block["name"] for block in plan["blocks"] if block["category"] == "activation")
        result = self.act(f"""
          result.rows = get('rows').children.length;
          get('search').value = {json.dumps(name)};
          get('search').dispatchEvent(new Event('input'));
          result.found = get('found').textContent;
          result.first = get('rows').children[0].innerText;
          for (const chip of [...get('chips').children]) if (chip.textContent.startsWith('activation')) chip.click();
          result.without = [...get('rows').children].map(row => row.children[1].innerText);
          get('axis').children[1].click();
          result.address = location.hash;""")
        self.assertEqual(result["rows"], min(len(plan["blocks"]), 60))
        self.assertRegex(result["found"], rf"^\d+ of {len(plan['blocks'])} blocks$")
        self.assertIn(name, result["first"])
        self.assertNotIn("activation", result["without"])
        self.assertIn("hide=activation", result["address"])
        self.assertIn("axis=ms", result["address"])

    def test_address(self):
        """What an address says is shown."""
        result = self.act("""
          result.query = get('search').value;
          result.axis = get('axis').querySelector('[aria-pressed=true]').dataset.axis;
          result.tip = get('tip').innerText;
          result.chosen = document.querySelectorAll('tr.chosen').length;""", "#q=conv&axis=ms&block=0")
        self.assertEqual((result["query"], result["axis"]), ("conv", "ms"))
        self.assertIn(plan["blocks"][0]["name"], result["tip"])

    def test_choose(self):
        """A click, or a finger, keeps a block chosen; the same again lets it go."""
        block = max(plan["blocks"], key=lambda block: block["bytes"])
        where = f"{block['first']}, {block['offset'] + block['bytes'] / 2}"
        result = self.act(f"""
          at('pointerdown', {where});
          at('pointerup', {where});
          result.chosen = document.querySelector('tr.chosen').children[0].innerText;
          result.address = location.hash;
          at('pointerdown', {where});
          at('pointerup', {where});
          result.rest = document.querySelectorAll('tr.chosen').length;""")
        self.assertEqual(result, {"chosen": block["name"], "address": f"#block={plan['blocks'].index(block)}", "rest": 0})

    def test_spaces(self):
        """Beside a device that does not read the host's memory, the host may have an arena of its own: one of both is shown."""
        text = re.search(r'id="data">(.*?)</script>', page, re.S)[1]
        data = json.loads(text)
        data["spaces"].append({"name": "arena of the host", "bytes": 4096})
        data["blocks"].append(["on the host", 0, 1, 64, 1000, 3, 5, 0])
        result = self.act("""
          const names = () => [...get('rows').children].map(row => row.children[0].innerText);
          result.select = !get('space').hidden;
          result.host = names();
          result.chips = [...get('chips').children].map(chip => chip.innerText);
          get('space').value = '0';
          get('space').dispatchEvent(new Event('change'));
          result.device = names().includes('on the host');
          result.many = names().length;""", "#space=1", page.replace(text, json.dumps(data).replace("<", "\\u003c")))
        self.assertEqual((result["select"], result["host"], result["device"]), (True, ["on the host"], False))
        self.assertEqual(len(result["chips"]), 1)
        self.assertEqual(result["many"], min(len(plan["blocks"]), 60))
        self.assertEqual(self.act("result.select = !get('space').hidden;"), {"select": False})

    def test_enlarge(self):
        result = self.act(f"""
          at('pointerdown', 2, 0);
          at('pointermove', 8, 0);
          at('pointerup', 8, 0);
          result.enlarged = !get('whole').hidden;
          get('whole').click();
          result.whole = get('whole').hidden;""")
        self.assertEqual(result, {"enlarged": True, "whole": True})


main()
