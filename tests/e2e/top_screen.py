#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sysom top` on terminals of five widths, in tmux: one slow rank of eight is named, and nothing else."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SYSOM = os.path.realpath(os.path.join(os.environ["B"], "bin/sysom"))
count = failed = 0


def ok(good, text, seen=""):
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {text}", flush=True)
    if not good:
        print("".join(f"#   {line}\n" for line in seen.splitlines()), end="")


class Terminal:
    def __init__(self, work, columns, url):
        self.tmux = ["tmux", "-S", os.path.join(work, f"tmux-{columns}")]
        env = {**os.environ, "SYSOM_URL": url, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        env.pop("TMUX", None)
        subprocess.run([*self.tmux, "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", "24",
                        f"{SYSOM} top --job demo; echo status $?; sleep 60"], env=env, check=True)

    def screen(self):
        return subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout

    def wait(self, pattern):
        """The screen when it shows that, or after 20 s."""
        for _ in range(200):
            seen = self.screen()
            if re.search(pattern, seen, re.M):
                return seen
            time.sleep(0.1)
        return seen

    def press(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False)


def main():
    if not shutil.which("tmux"):
        print("1..0 # SKIP no tmux")
        return 77
    work = tempfile.mkdtemp()
    server = subprocess.Popen([sys.executable, os.path.join(HERE, "cli_server.py"), work], stdin=subprocess.PIPE)
    try:
        while not os.path.exists(os.path.join(work, "url")):
            time.sleep(0.05)
        with open(os.path.join(work, "url"), encoding="ascii") as f:
            url = f.read().strip()
        for columns in 60, 80, 100, 132, 200:
            t = Terminal(work, columns, url)
            seen = t.wait(r"^! demo +5 ")
            rows = re.findall(r"^[! ] demo +(\d)", seen, re.M)
            ok(rows == ["5", *"0123467"], f"{columns} columns: eight ranks, a line each, the slow one first", seen)
            ok(re.findall(r"^!.*$", seen, re.M) == re.findall(r"^! demo +5 .* suspect$", seen, re.M) != [],
               f"{columns} columns: only the slow rank is marked", seen)
            ok(re.search(r"^  job +rank .*self +excess", seen, re.M), f"{columns} columns: self time and its excess", seen)
            t.close()
        t = Terminal(work, 80, url)
        t.wait(r"^! demo +5 ")
        t.press("s", "s", "s")
        seen = t.wait(r"sort: rank")
        ok(re.findall(r"^[! ] demo +(\d)", seen, re.M) == [*"01234567"], "s sorts by rank", seen)
        t.press("/", "6", "Enter")
        seen = t.wait(r"filter: 6")
        ok(re.findall(r"^[! ] demo +(\d)", seen, re.M) == ["6"], "/ filters", seen)
        t.press("Enter")
        seen = t.wait("Enter returns")
        ok("Enter returns to top" in seen and "incident" in seen, "Enter shows the job's incident", seen)
        t.press("Enter")
        t.wait(r"^  demo +6 ")
        t.press("q")
        seen = t.wait("status 0")
        ok("status 0" in seen, "q quits", seen)
        t.close()
    finally:
        server.stdin.close()
        server.wait()
        shutil.rmtree(work, ignore_errors=True)
    print(f"1..{count}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
