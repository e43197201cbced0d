#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Include directions (docs/ARCHITECTURE.md) and style, as a failing test. Prints file:line: what."""
import collections
import os
import re
import subprocess
import sys

# room -> rooms it may include beside itself
MAY = {
    "base": set(),
    "foreign": set(),
    "ring": {"base"},
    "preload": {"foreign", "ring", "base", "cupti"},
    "cupti": {"foreign", "ring", "base", "preload"},
    "analysis": {"base"},
    "analysis/robust": set(),
    "wire": {"base", "analysis"},
    "bpf": set(),
    "symbol": {"base", "analysis", "reader"},
    "reader": {"base"},
    "sampler": {"base", "bpf", "analysis", "symbol", "reader"},
    "sidecar": {"base", "foreign", "ring", "analysis", "wire", "bpf", "sampler", "symbol", "reader"},
    "aggregator": {"base", "wire", "analysis", "symbol"},
    "cli": {"base", "wire", "analysis", "bpf", "sampler", "symbol", "reader"},
    "sim": {"foreign"},
}
# `sysom replay` runs the daemons' own code: incidents of windows (libincident.a), the fleet
# (libfleet.a), a rank's windows and beats (librank.a).
REPLAYED = {"aggregator/incident.h", "aggregator/digest.h", "aggregator/picture.h",
            "aggregator/finding_json.h", "aggregator/fleet.h", "sidecar/requests.h",
            "sidecar/windows.h"}
# preload/ and cupti/ are libc only: of base/ just the headers without code behind them.
GUEST_BASE = {"base/clock.h", "base/file_id.h", "base/hash.h", "base/limits.h"}
SOURCE = re.compile(r"\.(c|h|def|py|sh|mk|proto|yaml|map)$")
FORBIDDEN = [
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "an unfinished part"),
    (re.compile(r"(^|[\s\"'=(])/work/|/tmp/wt"), "a path of one machine"),
]
LINE_MAX = 100  # and a string may run a word over
FUNCTION_MAX = 70


def files():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True,
                         capture_output=True, text=True).stdout
    return [f for f in out.splitlines() if os.path.isfile(f)]


def room_of(path):
    """A room in a room is one of its own; whoever may include the outer one may include it."""
    top, _, rest = path.partition("/")
    inner = top + "/" + rest.split("/")[0]
    return inner if inner in MAY else top


def check_includes(path, lines, complain):
    room = room_of(path)
    if room not in MAY:
        return
    for n, line in enumerate(lines, 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m:
            continue
        target = m.group(1)
        other = room_of(target)
        top = target.split("/")[0]
        if "/" not in target:
            if not path.endswith(".c") or not target.endswith(".pb-c.h"):
                complain(path, n, f'include "{target}" by its full path')
        elif room == "cli" and target in REPLAYED:
            continue
        elif other in MAY and other != room and top != room and top not in MAY[room]:
            complain(path, n, f"{room}/ may not include {other}/")
        elif room in ("preload", "cupti") and other == "base" and target not in GUEST_BASE:
            complain(path, n, f"the preload is libc only: {target} has code behind it")


def check_style(path, lines, complain):
    if path.endswith((".c", ".h")) and "SPDX-License-Identifier" not in "".join(lines[:2]):
        complain(path, 1, "no SPDX line")
    for n, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        if text != text.rstrip():
            complain(path, n, "trailing white space")
        if path.endswith((".c", ".h", ".def")) and len(text.expandtabs(8)) > LINE_MAX + 8:
            complain(path, n, f"{len(text.expandtabs(8))} columns")
        if path != "tools/tidy.py":
            for pattern, what in FORBIDDEN:
                if pattern.search(text):
                    complain(path, n, what)


def check_functions(path, lines, complain):
    if not path.endswith(".c"):
        return
    start = None
    for n, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = n
        elif line.startswith("}") and start:
            if n - start > FUNCTION_MAX:
                complain(path, start, f"a function of {n - start} lines")
            start = None


def check_names(paths, complain):
    """Base names are unique among product sources, so that grep is the index (tests aside)."""
    seen = collections.defaultdict(list)
    for p in paths:
        if p.endswith((".c", ".h")):
            seen[os.path.basename(p)].append(p)
    for name, where in seen.items():
        if len(where) > 1:
            complain(where[1], 1, f"base name {name} stands twice: {', '.join(where)}")


def check_tests(paths, complain):
    """A test that no .mk names never runs; a script may also be a part of another one."""
    text = ""
    for p in paths:
        if p.endswith((".mk", ".sh", ".py")) or os.path.basename(p) == "Makefile":
            with open(p, encoding="utf-8", errors="replace") as f:
                # a file's own comments are no use of it
                text += "".join(line for line in f if os.path.basename(p) not in line)
    for p in paths:
        if not re.match(r"tests/(unit/test_|fuzz/fuzz_|bench/bench_|e2e/|conformance/).*\.(c|sh|py)$", p):
            continue
        name = os.path.basename(p)
        stem = name[:-2] if name.endswith(".c") else name
        if not re.search(r"(?<![\w])" + re.escape(stem) + r"(?![\w])", text):
            complain(p, 1, "no .mk and no other script names this test")


THRESHOLDS_MAX = 60


def check_thresholds(paths, complain):
    """Every row of the table decides something, and there are few enough to know them all."""
    table = "analysis/thresholds.def"
    code = "".join(open(p, encoding="utf-8").read()
                   for p in paths if p.endswith((".c", ".h")))
    group, rows = "", 0
    with open(table, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            begin = re.match(r"GROUP\((\w+)", line)
            row = re.match(r"THRESHOLD\(\w+, (\w+)", line)
            group = begin.group(1) if begin else group
            rows += bool(row)
            if row and f"thresholds.{group}.{row.group(1)}" not in code:
                complain(table, number, f"nobody uses {group}.{row.group(1)}")
    if rows > THRESHOLDS_MAX:
        complain(table, 1, f"{rows} rows, more than {THRESHOLDS_MAX}: merge those that mean the same")


def check_symbols(build, complain):
    """What a file exports starts with its base name (programs, doubles and tests aside)."""
    for room in ("base", "ring", "analysis", "analysis/robust", "wire", "sidecar", "aggregator"):
        top = os.path.join(build, "obj", room)
        for directory, _, names in os.walk(top):
            for name in names:
                if not name.endswith(".o"):
                    continue
                base = name[:-2]
                if not os.path.exists(os.path.join(room, base + ".c")):
                    continue  # generated, or left over from a file that was renamed
                out = subprocess.run(["nm", "-g", "--defined-only", os.path.join(directory, name)],
                                     capture_output=True, text=True).stdout
                for line in out.splitlines():
                    symbol = line.split()[-1]
                    if symbol in ("main",) or symbol.startswith(("__", "sysom__")):
                        continue
                    stem = base.split("_")[0]
                    if not symbol.startswith((base, stem)):
                        complain(f"{room}/{base}.c", 1, f"exports {symbol}, not {base}_*")


def main():
    problems = []

    def complain(path, line, what):
        problems.append(f"{path}:{line}: {what}")

    paths = files()
    for path in paths:
        if not SOURCE.search(path) and os.path.basename(path) != "Makefile":
            continue
        with open(path, encoding="utf-8", errors="replace") as f:
            lines = f.readlines()
        check_includes(path, lines, complain)
        check_style(path, lines, complain)
        check_functions(path, lines, complain)
    check_tests(paths, complain)
    check_thresholds(paths, complain)
    check_names([p for p in paths if not p.startswith("tests/")], complain)
    if len(sys.argv) > 1:
        check_symbols(sys.argv[1], complain)
    for p in problems:
        print(p)
    print(f"tidy: {len(problems)} problems in {len(paths)} files", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
