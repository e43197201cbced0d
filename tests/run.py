#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests it is given and ends with `N passed, N failed, N skipped`.

Unit tests (cmocka) and scripts speak TAP; fuzz targets replay their corpus. A skip counts as a
failure where everything that tests need is there (root and BTF), unless tests/skips.allow lists it.
Scripts run real jobs; where no more than --again of them fail they are run a second time at the end,
and those that pass then are named as unsteady.
"""
import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time

TAP = re.compile(r"^(ok|not ok)\b\s*(\d+)?\s*(?:-\s*)?(.*)$")


class Case:
    def __init__(self, name, state, why=""):
        self.name, self.state, self.why = name, state, why


def parse_tap(name, text):
    cases, planned = [], None
    for line in text.splitlines():
        plan = re.match(r"^1\.\.(\d+)", line)
        if plan:
            planned = int(plan.group(1))
        m = TAP.match(line)
        if not m:
            continue
        title, _, directive = m.group(3).partition("# ")
        if directive.upper().startswith("SKIP"):
            cases.append(Case(f"{name}: {title.strip() or directive[4:].strip()}", "skip",
                              directive[4:].strip()))
        else:
            cases.append(Case(f"{name}: {title.strip()}", "pass" if m.group(1) == "ok" else "fail"))
    if planned is not None and len(cases) < planned:
        cases.append(Case(f"{name}: {planned - len(cases)} of {planned} cases did not run", "fail"))
    return cases


def run_one(kind, path, args):
    name = os.path.basename(path)
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", B=args.build, PYTHONDONTWRITEBYTECODE="1",
               LC_ALL="C.UTF-8")
    cmd = [path]
    if kind == "fuzz":
        corpus = os.path.join("tests/fuzz/corpus", name)
        if not os.path.isdir(corpus):
            return name, [Case(f"{name}: has no corpus", "fail")], "", 0.0
        cmd += [corpus]
    elif path.endswith(".py"):
        cmd = ["/usr/bin/python3", path]
    elif path.endswith(".sh"):
        cmd = ["bash", path]
    begin = time.monotonic()
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                         stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        out, _ = p.communicate(timeout=args.timeout)
        late = False
    except subprocess.TimeoutExpired:
        late = True
    try:
        os.killpg(p.pid, signal.SIGKILL)  # whatever a test left behind
    except ProcessLookupError:
        pass
    if late:
        out, _ = p.communicate()
    seconds = time.monotonic() - begin
    text = out.decode("utf-8", "replace")
    cases = parse_tap(name, text) if kind != "fuzz" else []
    if late:
        cases.append(Case(f"{name}: ran past {args.timeout} s", "fail"))
    elif p.returncode == 77 and not cases:
        why = text.strip().splitlines()[-1] if text.strip() else "no reason given"
        cases.append(Case(name, "skip", why))
    elif p.returncode != 0 and not any(c.state == "fail" for c in cases):
        how = f"signal {-p.returncode}" if p.returncode < 0 else f"exit {p.returncode}"
        cases.append(Case(f"{name}: {how}", "fail"))
    elif not cases:
        cases.append(Case(f"{name}: corpus replayed" if kind == "fuzz" else name,
                          "pass" if kind == "fuzz" else "fail",
                          "" if kind == "fuzz" else "printed no result"))
    return name, cases, text, seconds


def allowed_skips():
    try:
        with open("tests/skips.allow", encoding="utf-8") as f:
            return [line.strip() for line in f if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        return []


class Tally:
    def __init__(self, args, strict):
        self.args, self.strict, self.allow = args, strict, allowed_skips()
        self.count = {"pass": 0, "fail": 0, "skip": 0}
        self.failed = []

    def take(self, cases, sign=1):
        for c in cases:
            if c.state == "skip" and self.strict and not any(a in c.name for a in self.allow):
                c.state, c.why = "fail", f"skipped, but not in tests/skips.allow: {c.why}"
            self.count[c.state] += sign

    def tell(self, name, cases, text, seconds):
        bad = [c for c in cases if c.state == "fail"]
        skips = [c for c in cases if c.state == "skip"]
        word = "FAIL" if bad else "skip" if len(skips) == len(cases) else "ok"
        print(f"{word:4} {name} ({len(cases)} cases, {seconds:.1f} s)", flush=True)
        for c in skips:
            print(f"     skipped: {c.name}: {c.why}")
        for c in bad:
            print(f"     FAILED: {c.name} {c.why}")
        if bad or self.args.verbose:
            print("\n".join("     | " + l for l in text.splitlines()[-60:]), flush=True)
        return bad

    def run(self, tests, jobs):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = {pool.submit(run_one, kind, path, self.args): (kind, path) for kind, path in tests}
            for f in concurrent.futures.as_completed(futures):
                name, cases, text, seconds = f.result()
                self.take(cases)
                if self.tell(name, cases, text, seconds):
                    self.failed.append((*futures[f], cases))

    def run_again(self):
        """The scripts that failed, once more; how many passed."""
        scripts = [t for t in self.failed if t[0] == "script"]
        unsteady = []
        if not scripts or len(scripts) > self.args.again:
            return unsteady
        for t in scripts:
            kind, path, before = t
            print(f"again: {os.path.basename(path)}", flush=True)
            name, cases, text, seconds = run_one(kind, path, self.args)
            self.take(before, -1)
            self.take(cases)
            self.failed.remove(t)
            if self.tell(name, cases, text, seconds):
                self.failed.append((kind, path, cases))
            else:
                unsteady += [c.name for c in before if c.state == "fail"]
        return unsteady


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--build", required=True)
    ap.add_argument("--timeout", type=float, default=300)
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("--only", default=os.environ.get("ONLY", ""), help="substring of test names")
    ap.add_argument("--again", type=int, default=int(os.environ.get("AGAIN", 0)),
                    help="run failed scripts a second time where no more than so many failed")
    ap.add_argument("--verbose", action="store_true", default=bool(os.environ.get("V")))
    ap.add_argument("tests", nargs="+", metavar="KIND:PATH")
    args = ap.parse_args()
    tests = [t.split(":", 1) for t in args.tests]
    tests = [t for t in tests if args.only in t[1]]
    tally = Tally(args, os.geteuid() == 0 and os.path.exists("/sys/kernel/btf/vmlinux"))
    # Scripts start daemons and jobs of several processes: one at a time, after the unit tests.
    tally.run([t for t in tests if t[0] != "script"], args.jobs)
    tally.run([t for t in tests if t[0] == "script"], 1)
    unsteady = tally.run_again()
    if unsteady:
        print("\nunsteady, failed once and passed when run again (what it printed stands above):")
        print("\n".join("  " + name for name in unsteady))
    names = [c.name for _, _, cases in tally.failed for c in cases if c.state == "fail"]
    if names:
        print("\nfailed:")
        print("\n".join("  " + name for name in names))
    count = tally.count
    print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped")
    return 1 if count["fail"] or not count["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
