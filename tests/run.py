#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests it is given and ends with `N passed, N failed, N skipped`.

Unit tests (cmocka) and scripts speak TAP; fuzz targets replay their corpus. They run side by side, the longest
of the last run first. A script's head may say, in a comment of its first 12 lines:

    # quiet: WHY             it judges times, and itself hardly uses the CPUs: it runs after the others, one such
                             script per CPU, and as root before what else the machine does
    # alone: WHY             it uses most of the CPUs, or takes what there is once: after those, by itself, and as
                             root before what else the machine does
    # long: WHY              it takes minutes: it is among the first, also where no last run is known
    # needs: NAME [NAME...]  of tests/needs.py: it is skipped where one of them is not here

A case that skips says what it lacks: `# SKIP needs NAME: why` (cmocka: skip_needs() of tests/unit/skip.h). Where that
need is here the skip is a failure, so that nothing is left out where it could have run.

What fails runs once more, by itself after all others: a machine on which four jobs and their daemons share two CPUs
delays some of them for seconds. The second result counts; the summary lists what passed only then.
"""
import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import needs

TAP = re.compile(r"^(ok|not ok)\b\s*(\d+)?\s*(?:-\s*)?(.*)$")
NEEDS = re.compile(r"\bneeds ([\w:./@-]+?)(?::(?=\s)|\s|$)")
HEAD = re.compile(r"^# (quiet|alone|long|needs): (.+)")
HEAD_LINES, OUTPUT_LINES = 12, 120
running, running_lock = set(), threading.Lock()
shared = tempfile.TemporaryDirectory()  # of all tests of this run


class Case:
    def __init__(self, name, state, why=""):
        self.name, self.state, self.why = name, state, why
        self.need = None
        if state == "skip":
            self.judge()

    def judge(self):
        """Whether it had to be skipped: the need that is named is really not here."""
        m = NEEDS.search(self.why)
        if not m or needs.here(m.group(1)) is None:
            self.state, self.why = "fail", f"skipped without a need of tests/needs.py: {self.why}"
        elif needs.here(m.group(1)):
            self.state, self.why = "fail", f"skipped, but its need is here: {self.why}"
        else:
            self.need = m.group(1)


class Test:
    def __init__(self, kind, path):
        self.kind, self.path, self.name = kind, path, os.path.basename(path)
        self.alone = self.quiet = self.long = False
        self.needs = []
        self.failed = []  # names of cases, in its first run
        if kind == "script":
            self.read_head()

    def read_head(self):
        with open(self.path, encoding="utf-8") as f:
            for line, _ in zip(f, range(HEAD_LINES)):
                if m := HEAD.match(line):
                    if m.group(1) == "needs":
                        self.needs += m.group(2).split()
                    else:
                        setattr(self, m.group(1), True)

    def command(self):
        if self.kind == "fuzz":
            return [self.path, os.path.join("tests/fuzz/corpus", self.name)]
        if self.path.endswith(".py"):
            return ["/usr/bin/python3", self.path]
        return ["bash", self.path] if self.path.endswith(".sh") else [self.path]


def parse_tap(name, text):
    cases, planned, lack = [], None, ""
    for line in text.splitlines():
        plan = re.match(r"^1\.\.(\d+)", line)
        if plan:
            planned = int(plan.group(1))
        if line.startswith("# needs "):
            lack = line[2:]  # of the case that follows: cmocka's own skip has no room for it
        m = TAP.match(line)
        if not m:
            continue
        title, _, directive = m.group(3).partition("# ")
        if directive.upper().startswith("SKIP"):
            why = directive[4:].strip()
            cases.append(Case(f"{name}: {title.strip() or why}", "skip", lack or why))
        else:
            cases.append(Case(f"{name}: {title.strip()}", "pass" if m.group(1) == "ok" else "fail"))
        lack = ""
    if planned is not None and len(cases) < planned:
        cases.append(Case(f"{name}: {planned - len(cases)} of {planned} cases did not run", "fail"))
    return cases


def output_of(test, args):
    """(its output, exit status or None when it ran too long). Whatever it started has ended."""
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", B=args.build, PYTHONDONTWRITEBYTECODE="1",
               LC_ALL="C.UTF-8", TEST_SHARED=shared.name)
    ahead = ["--ahead"] if test.alone or test.quiet else []
    p = subprocess.Popen([sys.executable, "tests/reap.py", *ahead, *test.command()], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    with running_lock:
        running.add(p)
    try:
        out, _ = p.communicate(timeout=args.timeout)
        code = p.returncode
    except subprocess.TimeoutExpired:
        p.terminate()
        out, _ = p.communicate()
        code = None
    with running_lock:
        running.discard(p)
    return out.decode("utf-8", "replace"), code


def run_one(test, args):
    """(test, cases, output, seconds)"""
    for need in test.needs:
        if not needs.here(need):
            return test, [Case(test.name, "skip", f"needs {need}: the whole script")], "", 0.0
    if test.kind == "fuzz" and not os.path.isdir(test.command()[1]):
        return test, [Case(f"{test.name}: has no corpus", "fail")], "", 0.0
    begin = time.monotonic()
    text, code = output_of(test, args)
    cases = parse_tap(test.name, text) if test.kind != "fuzz" else []
    if code is None:
        cases.append(Case(f"{test.name}: ran past {args.timeout} s", "fail"))
    elif code == 77 and not cases:
        cases.append(Case(test.name, "skip", (text.strip().splitlines() or ["no reason given"])[-1]))
    elif code != 0 and not any(c.state == "fail" for c in cases):
        cases.append(Case(f"{test.name}: " + (f"signal {code - 128}" if code > 128 else f"exit {code}"), "fail"))
    elif not cases:
        cases.append(Case(f"{test.name}: corpus replayed", "pass") if test.kind == "fuzz" else
                     Case(test.name, "fail", "printed no result"))
    return test, cases, text, time.monotonic() - begin


class Tally:
    def __init__(self, args):
        self.args = args
        self.count = {"pass": 0, "fail": 0, "skip": 0}
        self.failed, self.skipped, self.again, self.late = [], {}, [], []
        self.times_path = os.path.join(args.build, "test-seconds.json")
        try:
            with open(self.times_path, encoding="utf-8") as f:
                self.times = json.load(f)
        except (OSError, ValueError):
            self.times = {}

    def count_in(self, cases):
        for c in cases:
            self.count[c.state] += 1
            if c.state == "skip":
                self.skipped.setdefault(c.need, []).append(c.name)
            elif c.state == "fail":
                self.failed.append(c)

    def take(self, test, cases, text, seconds):
        bad = [c for c in cases if c.state == "fail"]
        if bad and not test.failed:
            test.failed = [c.name for c in bad]
            self.again.append(test)
        else:
            self.count_in(cases)
            self.late += [] if bad else test.failed
        self.times[test.name] = round(seconds, 1)
        word = "FAIL" if bad else "skip" if all(c.state == "skip" for c in cases) else "ok"
        print(f"{word:4} {test.name} ({len(cases)} cases, {seconds:.1f} s)", flush=True)
        for c in bad:
            print(f"     FAILED: {c.name} {c.why}")
        if bad or self.args.verbose:
            print("\n".join("     | " + line for line in text.splitlines()[-OUTPUT_LINES:]), flush=True)

    def run(self, tests, jobs):
        # One that never ran may be long: those first.
        order = sorted(tests, key=lambda t: (not t.long, -self.times.get(t.name, float("inf" if t.kind == "script" else 0))))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for f in concurrent.futures.as_completed([pool.submit(run_one, t, self.args) for t in order]):
                self.take(*f.result())

    def end(self):
        """What a reader looks for: what was left out and why, what failed, the sums."""
        for need, names in sorted(self.skipped.items()):
            print(f"{len(names)} cases skipped, for want of {needs.what(need)}" +
                  (": " + ", ".join(sorted(names)) if len(names) < 6 or self.args.verbose else ""))
        if self.late:
            print("\npassed only on the second run:")
            print("\n".join(f"  {name}" for name in self.late))
        if self.failed:
            print("\nfailed:")
            print("\n".join(f"  {c.name}" for c in self.failed))
        try:
            with open(self.times_path, "w", encoding="utf-8") as f:
                json.dump(self.times, f, indent=0, sort_keys=True)
        except OSError:
            pass  # only the order of the next run
        print(f"{self.count['pass']} passed, {self.count['fail']} failed, {self.count['skip']} skipped")
        return 1 if self.count["fail"] or not self.count["pass"] else 0


def interrupted(signum, _frame):
    with running_lock:
        for p in running:
            p.terminate()
    for p in list(running):
        p.wait()
    shared.cleanup()
    os._exit(128 + signum)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", required=True)
    ap.add_argument("--timeout", type=float, default=600)
    ap.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS", 0)) or 2 * (os.cpu_count() or 1),
                    help="tests at a time (JOBS in the environment; default: two per CPU, as most of them wait)")
    ap.add_argument("--only", default=os.environ.get("ONLY", ""), help="substring of test names")
    ap.add_argument("--verbose", action="store_true", default=bool(os.environ.get("V")))
    ap.add_argument("tests", nargs="+", metavar="KIND:PATH")
    args = ap.parse_args()
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, interrupted)
    os.chmod(shared.name, 0o755)
    tests = [Test(*t.split(":", 1)) for t in args.tests]
    tests = [t for t in tests if args.only in t.path]
    tally = Tally(args)
    began = time.monotonic()
    tally.run([t for t in tests if not t.alone and not t.quiet], args.jobs)
    tally.run([t for t in tests if t.quiet and not t.alone], os.cpu_count() or 1)
    tally.run([t for t in tests if t.alone], 1)
    again = list(tally.again)
    for t in again:
        t.alone = True
    tally.run(again, 1)
    print(f"{len(tests)} programs in {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
