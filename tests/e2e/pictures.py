# SPDX-License-Identifier: Apache-2.0
"""What people look at: differential flame graph and report of a made-up incident, opened in a real
browser where there is one; `sysom show` and `sysom trace` of it. PICTURES_OUT=DIR keeps files and
screenshots there."""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
B = os.environ.get("B", "build/gcc")
B = B if os.path.isabs(B) else os.path.join(ROOT, B)
SYSOM = os.path.join(B, "bin/sysom")
T = tempfile.mkdtemp()
KEEP = os.environ.get("PICTURES_OUT")
OUT = KEEP or T
CHROMIUM = next((c for c in ("chromium", "chromium-browser", "google-chrome") if shutil.which(c)), None)
ID = "d1a60001"
cases = failed = 0


def ok(good, text, why=""):
    global cases, failed
    cases += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {cases} - {text}")
    if not good and why:
        print("\n".join("# " + line for line in str(why).splitlines()[:30]))


def skip(text, why):
    global cases
    cases += 1
    print(f"ok {cases} - {text} # SKIP {why}")


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
    return subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
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
    ok("http" not in text and "<img" not in text and "<svg" not in text,
       "no resource from elsewhere, no name as markup")
    rc, out, err = run("flame", ID, "-o", os.path.join(T, "peer.folded"), "--rank", "0")
    based = os.path.join(OUT, "base.html")
    rc2, out2, err2 = run("flame", ID, "--base", os.path.join(T, "peer.folded"), "-o", based)
    ok(rc == 0 and rc2 == 0, "flame --base compares with folded stacks", err + err2)
    ok(run("flame", ID, "--diff", "--base", "x")[0] == 2 and run("flame", ID, "--diff", "-o", "x.folded")[0] == 2
       and run("flame", ID, "--base", os.path.join(T, "url"), "-o", based)[0] == 2,
       "bad arguments and malformed stacks are status 2")
    if not CHROMIUM:
        skip("the pages in a browser", "no chromium")
        return
    page = dom(path, "#search=net_rx_action")
    found = re.search(r'id="found"[^>]*>([^<]*)<', page).group(1)
    # 15 of 90 samples on the culprit, none on the peer
    ok(found.startswith("0.0% → 16.7%"), "search tells the share on both sides", found)
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
       "variants of a kernel are told apart")
    page = dom(based, "#search=net_rx_action")
    found = re.search(r'id="found"[^>]*>([^<]*)<', page).group(1)
    ok(found.startswith("0.0% → 16.7%"), "against folded stacks the same", found)
    pictures = [shot(path, "diff.png"), shot(path, "diff-gpu.png", fragment="#metric=gpu"),
                shot(path, "diff-dark.png", dark=True)]
    ok(all(len(p) > 20000 for p in pictures) and pictures[0] != pictures[1], "and can be looked at")


def main():
    server = serve()
    try:
        flames()
    finally:
        server.stdin.close()
        server.wait()
        shutil.rmtree(T)
    print(f"1..{cases}")
    return failed != 0


sys.exit(main())
