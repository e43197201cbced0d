# SPDX-License-Identifier: Apache-2.0
"""What people look at: differential flame graph and report of a made-up incident, opened in a real
browser where there is one; `sysom show` and `sysom trace` of it. PICTURES_OUT=DIR keeps files and
screenshots there."""
import html
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tap  # tap.py, beside this file
from tap import ok, skip

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
B = os.environ.get("B", "build/gcc")
B = B if os.path.isabs(B) else os.path.join(ROOT, B)
SYSOM = os.path.join(B, "bin/sysom")
T = tempfile.mkdtemp()
KEEP = os.environ.get("PICTURES_OUT")
OUT = KEEP or T
CHROMIUM = next((c for c in ("chromium", "chromium-browser", "google-chrome") if shutil.which(c)), None)
ID = "d1a60001"


def serve():
    os.mkdir(os.path.join(T, "windows"))
    subprocess.run([os.path.join(B, "unit/test_incident_diff"), "--write-windows", os.path.join(T, "windows")],
                   check=True)
    server = subprocess.Popen([sys.executable, os.path.join(ROOT, "tests/e2e/cli_server.py"), T],
                              stdin=subprocess.PIPE)
    while not os.path.exists(os.path.join(T, "url")):
        if server.poll() is not None:
            print("Bail out! the stand-in did not start")
            sys.exit(1)
        subprocess.run(["sleep", "0.05"], check=True)
    with open(os.path.join(T, "url"), encoding="utf-8") as f:
        os.environ["SYSOM_URL"] = f.read().strip()
    return server


def run(*args, **env):
    p = subprocess.run([SYSOM, *args], capture_output=True, stdin=subprocess.DEVNULL,
                       env={**os.environ, "LC_ALL": "C.UTF-8", **env})
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def browse(path, *flags):
    # frames in the page's own process: headless with virtual time does not wait for others to paint
    return subprocess.run([CHROMIUM, "--headless", "--disable-features=IsolateSandboxedIframes", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                           "--disable-dev-shm-usage", f"--user-data-dir={T}/browser", "--no-first-run",
                           "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=8000",
                           *flags, path], capture_output=True, timeout=120).stdout.decode()


def dom(path, fragment=""):
    return browse(f"file://{path}{fragment}", "--dump-dom")


def shot(path, name, size="1200,900", fragment="", dark=False):
    target = os.path.join(OUT, name)
    browse(f"file://{path}{fragment}", f"--screenshot={target}", f"--window-size={size}",
           *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    with open(target, "rb") as f:
        return f.read()


# What a reader of a report asks first, in the words of the incident: which rank, why, what to do, where,
# how much.
FACTS = ("rank 2 is slow", "because NET_RX soft interrupts run on the core of its launch thread",
         "move the interrupt of eth0 (smp_affinity) off CPU 1, or pin the thread elsewhere", "node-1",
         "5.0 ms more per step than when healthy")
LATER = "Kernels and copies of rank 2"  # that the first screen has no room for
LOOK = """
const d = frame.contentDocument, wide = %d, high = %d, facts = %s;
const nodes = [], walk = d.createTreeWalker(d.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) nodes.push(walk.currentNode);
/* read without scrolling: all its lines are inside, and nothing covers them */
const seen = fact => nodes.some(n => {
  const at = n.data.indexOf(fact), range = d.createRange();
  if (at < 0) return false;
  range.setStart(n, at); range.setEnd(n, at + fact.length);
  return [...range.getClientRects()].every(r => r.left >= 0 && r.top >= 0 && r.right <= wide && r.bottom <= high &&
    n.parentElement.contains(d.elementFromPoint((r.left + r.right) / 2, (r.top + r.bottom) / 2)));
});
const shown = Object.fromEntries(facts.map(f => [f, seen(f)]));
const pictures = [...d.querySelectorAll("svg")], labels = [...d.querySelectorAll("svg text:not(.tip)")].map(t => {
  const r = t.getBoundingClientRect();
  return {text: t.textContent, of: pictures.indexOf(t.ownerSVGElement), y: t.getAttribute("y"), left: r.left, right: r.right,
          px: parseFloat(d.defaultView.getComputedStyle(t).fontSize) * t.getScreenCTM().a};
});
const names = [...d.querySelectorAll(".named td.t, td:has(button)")].map(t => t.getBoundingClientRect().width);
const cut = [...d.querySelectorAll(".named, .diff, .windows")].map(t => t.parentElement.scrollWidth - t.parentElement.clientWidth);
document.getElementById("out").textContent = JSON.stringify({shown, labels, names, cut, width: d.documentElement.scrollWidth});
"""


def framed(path, wide, high):
    """What a window of that size shows of a page: headless Chromium's own is never narrower than 500."""
    with open(path, encoding="utf-8") as f:
        page = html.escape(f.read())
    outer = os.path.join(T, "frame.html")
    with open(outer, "w", encoding="utf-8") as f:
        f.write(f'<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><iframe id="frame" style="border:0;width:{wide}px;'
                f'height:{high}px" srcdoc="{page}"></iframe><pre id="out"></pre><script>const frame = '
                f'document.getElementById("frame"); onload = () => {{' + LOOK % (wide, high, json.dumps((*FACTS, LATER))) + "}</script>")
    if KEEP:
        shot(outer, f"screen-{wide}.png", f"{max(wide, 500)},{high}")
    return json.loads(Shown(dom(outer)).all(id="out")[0]["text"])


def overlaps(labels):
    """Neighbours of one line of a picture that run into each other."""
    rows = {}
    for label in labels:
        rows.setdefault((label["of"], label["y"]), []).append(label)
    pairs = [p for row in rows.values() for p in zip(row, row[1:])]
    return [(a["text"], b["text"]) for a, b in pairs if a["left"] < b["right"] and b["left"] < a["right"]]


def first_screen(path):
    for wide, high in ((1280, 800), (390, 844)):
        seen = framed(path, wide, high)
        missing = [fact for fact in FACTS if not seen["shown"][fact]]
        ok(not missing and not seen["shown"][LATER],
           f"{wide}x{high}: rank, cause, action, node and effect are in the first screen", missing)
        labels = seen["labels"]
        ok(len(labels) > 40 and min(label["px"] for label in labels) >= 11, f"labels of pictures are 11 px at {wide}",
           sorted((label["px"], label["text"]) for label in labels)[:4])
        ok(seen["names"] and min(seen["names"]) > 240 and max(seen["cut"]) <= 0, f"a kernel's row is whole at {wide}, with room for its name",
           [sorted(seen["names"])[:2], seen["cut"]])
        outside = [label for label in labels if label["left"] < 0 or label["right"] > wide]
        ok(not outside and not overlaps(labels) and seen["width"] <= wide, f"nothing overlaps or runs out of the page at {wide}",
           [outside[:3], overlaps(labels)[:3], seen["width"]])


class Page(html.parser.HTMLParser):
    """Elements and their text, checked for what must not be in a file that stands alone."""
    VOID = {"meta", "br", "hr", "input", "line", "rect", "circle", "path", "polyline", "col"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack, self.tags, self.problems, self.texts = [], set(), [], {}
        self.feed(text)
        if self.stack:
            self.problems.append(f"not closed: {self.stack}")

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href") and not (value or "").startswith("#"):
                self.problems.append(f"external {value}")
            if name.startswith("on"):
                self.problems.append(f"handler {name}={value}")
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.stack or self.stack[-1] != tag:
            self.problems.append(f"{tag} closes {self.stack[-1:]}")
        else:
            self.stack.pop()

    def handle_data(self, data):
        for tag in self.stack:
            self.texts[tag] = self.texts.get(tag, "") + data


def flames():
    path = os.path.join(OUT, "diff.html")
    rc, out, err = run("flame", ID, "--diff", "-o", path, "--json")
    ok(rc == 0 and json.loads(out)["cpu"] and json.loads(out)["gpu"] and json.loads(out)["rank"] == 2,
       "flame --diff writes both sides, CPU and GPU", err)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    parsed = Page(text)
    ok("http" not in text and not parsed.tags & {"img", "svg"} and not parsed.problems,
       "no resource from elsewhere, no name as markup", parsed.problems)
    ok(re.search(r"<img|<svg", parsed.texts["script"]), "names with tags are there, as data")
    rc, out, err = run("flame", ID, "-o", os.path.join(T, "peer.folded"), "--rank", "0")
    based = os.path.join(OUT, "base.html")
    rc2, out2, err2 = run("flame", ID, "--base", os.path.join(T, "peer.folded"), "-o", based)
    ok(rc == 0 and rc2 == 0, "flame --base compares with folded stacks", err + err2)
    ok(run("flame", ID, "--diff", "--base", "x")[0] == 2 and run("flame", ID, "--diff", "-o", "x.folded")[0] == 2
       and run("flame", ID, "--base", os.path.join(T, "url"), "-o", based)[0] == 2,
       "bad arguments and malformed stacks are status 2")
    if not CHROMIUM:
        skip("the pages in a browser", "needs command:chromium")
        return
    page = dom(path, "#search=net_rx_action")
    found = re.search(r'id="found"[^>]*>([^<]*)<', page).group(1)
    # 15 of 90 samples on the culprit, none on the peer
    ok(found.startswith("0.0% → 16.7%"), "search shows the share on both sides", found)
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.S)
    # the leaf of the new path leads, before and above what both do
    ok("tcp_v4_rcv" in rows[1] and 'class="grow"' in rows[1], "the table leads with what grew", rows[:3])
    ok("owned" not in re.search(r"<title>(.*?)</title>", page).group(1), "no name runs as a script")
    page = dom(path, "#metric=gpu&search=gemm")
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", page, re.S)[1:]]
    row = next((c for c in cells if ">gemm  <" in c[-1]), None)
    # per step 8 gemms of 1.0 and 1.2 ms
    ok(row and row[3:6] == ["8.0 ms", "9.6 ms", "+1.6 ms"], "GPU time by kernel, variants together", row)
    ok('class="shrink"' in page and "gemm&lt;float, 128, true&gt;" in page and "gemm&lt;float, 64, true&gt;" in page,
       "variants of a kernel are distinguished")
    page = dom(based, "#search=net_rx_action")
    found = re.search(r'id="found"[^>]*>([^<]*)<', page).group(1)
    ok(found.startswith("0.0% → 16.7%"), "against folded stacks the same", found)
    hung = os.path.join(OUT, "hung.html")
    rc, out, err = run("flame", "4a4a4a4a", "-o", hung)
    for page, name, metric in ((path, "time on the CPU", "On CPU"), (hung, "blocked time where the verdict is of it", "Off CPU")):
        opened = [e["text"] for e in Shown(dom(page)).all(tag="button", **{"aria-pressed": "true"})]
        ok(rc == 0 and opened[0].startswith(metric), f"opens on {name}", [opened, err])
    pictures = [shot(path, "diff.png"), shot(path, "diff-gpu.png", fragment="#metric=gpu"),
                shot(path, "diff-dark.png", dark=True)]
    ok(all(len(p) > 20000 for p in pictures) and pictures[0] != pictures[1], "and can be looked at")
    seen = framed(path, 390, 844)
    ok(seen["names"] and min(seen["names"]) > 240 and max(seen["cut"]) <= 0 and seen["width"] <= 390,
       "at 390 a function's row is whole, with room for its name", [sorted(seen["names"])[:2], seen["cut"], seen["width"]])


class Shown(html.parser.HTMLParser):
    """What a browser made of the report: elements by id or class, their attributes and texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "text": ""}
        self.found.append(element)
        if tag not in ("meta", "br", "hr", "input"):
            self.open.append(element)

    def handle_endtag(self, tag):
        while self.open and self.open.pop()["tag"] != tag:
            pass

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, **want):
        return [e for e in self.found if all((e["tag"] if k == "tag" else e["attrs"].get(k)) == v
                                              for k, v in want.items())]


def cells(page, kind):
    """Opacity by (rank, step) of a heat map."""
    out, inside = {}, False
    for e in page.found:
        if e["tag"] == "svg":
            inside = e["attrs"].get("data-kind") == kind
        m = e["tag"] == "rect" and inside and re.match(r"rank (\d+), step (\d+): ", e["text"])
        if m:
            out[int(m.group(1)), int(m.group(2))] = (float(e["attrs"]["fill-opacity"]), e["attrs"]["class"])
    return out


def timeline(page):
    """Milliseconds (begin, length) of the bars of the detailed steps, by (what step, class)."""
    out, inside, what = {}, False, ""
    for e in page.found:
        if e["tag"] == "svg":
            inside = e["attrs"].get("class") == "timeline"
        step = inside and e["tag"] == "text" and re.match(r"rank \d+, step \d+, (\w+): ([\d.]+) ms", e["text"])
        if step:
            what = step.group(1)
            longest = max(float(step.group(2)), out.get("longest", 0))
            out["longest"] = longest
        if inside and e["tag"] == "rect" and e["text"]:
            x, width = (float(e["attrs"][k].rstrip("%")) / 100 * out["longest"] for k in ("x", "width"))
            out.setdefault((what, e["attrs"]["class"]), []).append((x, width))
    out.pop("longest")
    return out


def report():
    path = os.path.join(OUT, "report.html")
    answers = os.path.join(T, "answers.json")
    with open(answers, "w", encoding="utf-8") as f:
        json.dump({"/api/v1/sketch?job=demo&rank=2": {"settings": [{"name": "env:NCCL_IB_HCA", "value": "mlx5_<2>"}]}}, f)
    rc, out, err = run("report", ID, "-o", path, "--json")
    os.remove(answers)
    ok(rc == 0 and json.loads(out)["windows"] == 4, "report writes one file", err)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    page = Page(text)
    ok(not page.problems and not page.tags & {"script", "link", "img"},
       "it is well-formed and has no script of its own, no resource from elsewhere", page.problems)
    ok("http" not in text and not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text), "no address, no control character")
    if not CHROMIUM:
        skip("the report in a browser", "needs command:chromium")
        return
    page = Shown(dom(path))
    ok(page.all(tag="title")[0]["text"] == "rank 2 is slow - sysom", "no name runs as a script")
    verdict = page.all(id="verdict")[0]["text"]
    ok(all(word in verdict for word in ("NET_RX soft interrupts run on the core", "os-softirq", "93%",
                                        "5.0 ms more per step than when healthy",
                                        "19.2", "move the interrupt of eth0", "<script>document.title", "kernels are equal",
                                        "no earlier run")), "the verdict is all there", verdict)
    other = [e["text"] for e in page.all(tag="section", **{"class": "verdict"})]
    ok(len(other) == 2 and "rank 2 runs gemm<64> & not gemm<128>" in other[1], "a second fault has its own", other)
    own, late = cells(page, "self"), cells(page, "late")
    slow = range(116, 140)
    ok("blank: not known" in text, "cells of which nothing is known differ from usual ones")
    ok(all(own[2, s] == (1.0, "hot") for s in slow) and all((r, s) not in own for r in (0, 1, 3) for s in slow),
       "the heat map of self time shows rank 2 from its first slow step on, and nobody else")
    # late by 1.6 ms before, since its 8 gemms are longer, and by 6.6 ms in the slow steps; its node's clock
    # stands 3 ms apart from the first one's
    ok(all(late[2, s][0] > 0.99 for s in slow) and all(abs(late[2, s][0] - 1.6 / 6.6) < 0.02 for s in range(100, 116)) and
       all((r, s) not in late for r in (0, 1, 3) for s in slow),
       "that of lateness too, on one clock", sorted(late)[:8])
    flagged = [e for e in page.all(tag="circle") if e["text"].startswith("step ") and "flagged" in e["text"]]
    ok(len(flagged) == len(slow) and page.all(tag="svg", **{"class": "roofline"}), "flagged steps stand in the roofline")
    functions = page.all(id="functions")[0]["text"]
    ok("net_rx_action_[k]" in functions and "read_batch" not in functions,
       "functions whose share changed, and no others", functions)
    beside = page.all(id="beside")[0]["text"]
    ok("another variant: argument 2: 128, now 64" in beside and "8.00 ms" in beside and "9.60 ms" in beside,
       "kernels beside the peer, with the variant", beside)
    signals = page.all(id="signals")[0]["text"]
    ok("It explains at most 4.76 ms of the excess (95%)" in signals and "Signals as usual" in signals and
       re.search(r"129.9 ms/s for storageIt explains nothing: none of its accounts grew", signals),
       "a signal that stands out says what the ledger has of it", signals)
    ok("count all threads all the time" in verdict and re.search(r"host interrupted.*?0\.04.*?4\.80.*?\+4\.76", verdict, re.S),
       "the ledger says why figures differ", verdict)
    where = page.all(id="where")[0]["text"]
    ok(re.search(r"node node-1\s+rank 2 GPU 0, NIC mlx5_<2>\s+rank 3", where) and "rank 1" not in where,
       "the culprit's node, GPU and NIC, and who shares the node", where)
    bars = timeline(page)
    ok(set(bars) == {("slow", "bar"), ("slow", "blk"), ("slow", "call"), ("slow", "cold"), ("slow", "ok"),
                     ("healthy", "call"), ("healthy", "cold"), ("healthy", "ok")},
       "a slow step and a healthy one, with what the host waited for", sorted(bars))
    # of 25 ms: 3 ms for the CPU, from 2.74 ms on; then 1 ms for a lock
    ok(abs(bars["slow", "bar"][0][0] - 2.74) < 0.1 and abs(bars["slow", "bar"][0][1] - 3) < 0.1 and
       abs(bars["slow", "blk"][0][1] - 1) < 0.1, "on one axis in milliseconds", [bars["slow", "bar"], bars["slow", "blk"]])
    gpu = page.all(id="gpu")[0]["text"]
    ok(all(word in gpu for word in ("SM clock", "1800 MHz", "Power", "500 W", "Temperature", "80 C")),
       "clock, power and temperature of the GPUs", gpu)
    first_screen(path)
    frame = page.all(id="diff-flame")[0]["attrs"]
    ok(frame["sandbox"] == "allow-scripts" and "DATA" in frame["srcdoc"],
       "the flame graph is in a frame without rights")
    inner = os.path.join(T, "inner.html")
    with open(inner, "w", encoding="utf-8") as f:
        f.write(frame["srcdoc"])
    ok("net_rx_action" in Shown(dom(inner)).all(tag="tbody")[0]["text"], "and runs")
    pictures = [shot(path, "report.png", "1100,5600"), shot(path, "report-dark.png", "1100,5600", dark=True)]
    ok(all(len(p) > 40000 for p in pictures) and pictures[0] != pictures[1], "light and dark")
    hang = os.path.join(T, "hang.html")
    incident = json.loads(run("show", ID, "--json")[1])
    incident["symptom"] = "stall"
    with open(answers, "w", encoding="utf-8") as f:
        json.dump({f"/api/v1/incidents/{ID}": incident}, f)
    rc, out, err = run("report", ID, "-o", hang)
    os.remove(answers)
    page = Shown(dom(hang))
    ok(rc == 0 and "Steps before the hang" in page.all(id="steps")[0]["text"] and not page.all(id="ranks") and not page.all(id="roofline") and
       not page.all(id="timeline"), "a hang shows no picture of the ranks' steps, which it did not slow", err)
    alone = os.path.join(T, "alone.html")
    incident = json.loads(run("show", ID, "--json")[1])
    incident["windows"] = [w for w in incident["windows"] if w["rank"] == 2]
    incident["diagnoses"][0]["ledger"]["explained_by"] = [{"account": "blocked", "what": "lock", "name": ""},
                                                          {"account": "compute", "what": "", "name": "_Z4gemmIfLi64ELb1EEvPT_<<<8,1,1, 128,1,1>>>"}]
    incident["diagnoses"][0]["summary"] = "rank 2 is slow because kernel flash_bwd_" + 9 * "seqk_parallel_" + "kernel is slower"
    with open(answers, "w", encoding="utf-8") as f:
        json.dump({f"/api/v1/incidents/{ID}": incident}, f)
    rc, out, err = run("report", ID, "-o", alone)
    os.remove(answers)
    wide = framed(alone, 390, 844)["width"]
    ok(wide <= 390, "a verdict with a long name stays on a narrow page", wide)
    page = Shown(dom(alone))
    ok(rc == 0 and "There is no window of a healthy peer with stacks or kernels" in page.all(id="diff")[0]["text"],
       "a peer that is missing is said to be", err)
    bars = timeline(page)
    ok(len(bars.get(("slow", "hot"), [])) > 1 and ("slow", "blk") not in bars and ("slow", "cold") in bars and
       ("healthy", "hot") not in bars,
       "the accounts of the verdict have its colour", sorted(bars))


def terminal(columns):
    """`sysom show` on a terminal of so many columns, as its lines without and with escape sequences."""
    import fcntl
    import pty
    import struct
    import termios
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.execve(SYSOM, [SYSOM, "show", ID], {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"})
    out = b""
    while True:
        try:
            more = os.read(fd, 65536)
        except OSError:
            break
        if not more:
            break
        out += more
    os.waitpid(pid, 0)
    text = out.decode().replace("\r\n", "\n")
    return re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n"), text


def show():
    rc, out, err = run("show", ID)
    ok(rc == 0 and "\x1b" not in out, "show has no colours where nobody sees them", err)
    flat = " ".join(out.split())
    ok(all(w in flat for w in ("verdict rank 2 is slow because NET_RX soft interrupts run on the core of its launch thread",
                               "(os-softirq)", "93%", "(5.0 ms more per step than when healthy)", "cost 0.42 GPU-hours lost; a day of it costs 19.2 GPU-hours",
                               "do move the interrupt of eth0", "shown by os: NET_RX", "ruled out gpu: kernels are equal",
                               "not known no earlier run of the job", "verdict rank 2 runs gemm<64>",
                               "(gpu-variant)")), "show prints the verdict as a note", out)
    marks = [line for line in out.split("\n") if re.fullmatch(r" *\^+ *", line)]
    spark = out.split("\n")[out.split("\n").index(marks[0]) - 1] if marks else ""
    ok(len(marks) == 1 and marks[0] == " " * 28 + "^" * 24 and spark[12:] == "▁" * 16 + "█" * 24,
       "step times as columns, flagged ones marked", out)
    ranks = {int(m.group(1)): m.group(2) for m in re.finditer(r"^    rank (\d) (.*)$", out, re.M)}
    ok(sorted(ranks) == [0, 1, 2, 3] and "+65%" in ranks[2] and "6.60 ms" in ranks[2] and
       all(re.search(r" 0%\s+0 ms", ranks[r]) for r in (0, 1, 3)), "self time and lateness of each rank", ranks)
    lines, raw = terminal(80)
    ok("\x1b[31m" in raw and max(map(len, lines)) <= 80, "in colours on a terminal, within 80 columns",
       [line for line in lines if len(line) > 80])
    plain = run("show", ID, LC_ALL="C")[1]
    ok(all(ord(c) < 128 for c in plain) and "................################" in plain, "plain where the locale is")
    rc, out, err = run("show", ID, "--json")
    ok(rc == 0 and json.loads(out)["diagnosis"]["cause"] == "os-softirq" and len(out.splitlines()) == 1,
       "show --json is the incident")


def trace():
    path = os.path.join(OUT, "pair.pftrace")
    rc, out, err = run("trace", ID, "--diff", "-o", path, "--json")
    ok(rc == 0 and json.loads(out)["ranks"] == 2, "trace --diff writes two ranks", err)
    rc, out, err = run("trace", ID, "-o", os.path.join(OUT, "all.pftrace"), "--json")
    clocks = {c["rank"]: c for c in json.loads(out)["clocks"]}
    ok(sorted(clocks) == [0, 1, 2, 3] and all(abs(clocks[r]["offset_ns"] - 3e6 * (r // 2)) < 1000 and
                                              clocks[r]["error_ns"] < 20000 for r in clocks),
       "clocks of nodes are put on one by common collectives", clocks)
    rc, out, err = run("trace", ID, "-f", "kineto", "--rank", "2", "-o", os.path.join(T, "r2.json"))
    if not shutil.which("protoc"):
        skip("both ranks stand beside each other", "needs command:protoc")
        return
    with open(path, "rb") as f:
        text = subprocess.run(["protoc", "-I", os.path.join(ROOT, "cli"), "--decode=perfetto.protos.Trace",
                               os.path.join(ROOT, "cli/perfetto.proto")], stdin=f, capture_output=True,
                              check=True).stdout.decode()
    names = re.findall(r'process_name: "([^"]*)"', text)
    ok(len(names) == 2 and any("(slow)" in n and n.startswith("rank 2 ") for n in names) and
       any("(healthy peer)" in n for n in names), "the slow one and the healthy one are named", names)
    # both ranks' first steps begin at one time
    tracks = {}
    for packet in text.split("\npacket {"):
        uuid = re.search(r"track_uuid: (\d+)", packet)
        at = re.search(r"\n  timestamp: (\d+)", packet)
        if uuid and at and "TYPE_SLICE_BEGIN" in packet:
            tracks.setdefault(uuid.group(1), []).append(int(at.group(1)))
    described = dict((m.group(1), m.group(2)) for m in re.finditer(
        r'track_descriptor \{\n\s+uuid: (\d+)\n\s+name: "([^"]*)"', text))
    steps = [tracks[u] for u, name in described.items() if name == "steps"]
    ok(len(steps) == 2 and len(steps[0]) == 40 and
       all(abs(a - b) < 2000 for a, b in zip(*steps)), "their steps begin together", [s[:3] for s in steps])


def main():
    server = serve()
    try:
        flames()
        report()
        show()
        trace()
    finally:
        server.stdin.close()
        server.wait()
        shutil.rmtree(T)
    return tap.end()


sys.exit(main())
