#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Include directions (docs/ARCHITECTURE.md) and style, as a failing test. Prints file:line: what."""
import collections
import os
import re
import subprocess
import sys

# room -> rooms it may include beside itself; a room's name stands for those inside it as well
MAY = {
    "base": set(),
    "base/daemon": {"base"},
    "base/http": {"base", "base/daemon"},
    "base/metrics": {"base", "base/daemon", "base/http"},
    "foreign": set(),
    "ring": {"base"},
    "preload": {"foreign", "ring", "base", "cupti"},
    "cupti": {"foreign", "ring", "base"},
    "model": {"base"},
    "analysis": {"base", "model"},
    "analysis/robust": set(),
    "analysis/steps": {"base", "model", "analysis/robust"},
    "analysis/expect": {"base", "model", "analysis/robust", "analysis/steps"},
    "analysis/slow": {"base", "model", "analysis/robust", "analysis/steps"},
    "analysis/cross": {"base", "model", "analysis/robust", "analysis/slow"},
    "analysis/ledger": {"base", "model", "analysis/robust"},
    "analysis/cause": {"base", "model", "analysis/robust", "analysis/ledger"},
    "analysis/requests": {"base", "model"},
    "analysis/trace": {"base", "model", "analysis"},
    "wire": {"base", "model"},
    "wire/link": {"base"},
    "node": {"base", "ring", "model", "analysis", "wire"},
    "bpf": set(),
    "symbol": {"base", "model", "reader"},
    "reader": {"base"},
    "sampler": {"base", "bpf", "model", "symbol", "reader"},
    "sidecar": {"base", "foreign", "ring", "model", "analysis", "wire", "node", "bpf", "sampler", "symbol",
                "reader", "render"},
    "render": {"base", "model", "analysis"},
    "aggregator": {"base", "wire", "model", "analysis", "symbol", "render"},
    "aggregator/fleet": {"base", "wire", "model", "analysis", "render", "aggregator/incident"},
    "aggregator/incident": {"base", "wire", "model", "analysis"},
    # `sysom replay` runs the daemons' own code: a rank's windows and beats, the fleet, incidents of windows.
    "cli": {"base", "ring", "render", "wire", "model", "analysis", "node", "aggregator/fleet", "aggregator/incident", "sampler",
            "symbol", "reader"},
    "sim": {"foreign"},
    "deploy": set(),
}
# preload/ and cupti/ are libc only: of base/ just the headers without code behind them.
GUEST_BASE = {"base/clock.h", "base/environment.h", "base/file_id.h", "base/hash.h", "base/request_id.h", "base/limits.h",
              "base/span_kind.h"}
SOURCE = re.compile(r"\.(c|h|def|py|sh|mk|proto|yaml|map)$")
FORBIDDEN = [
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "an unfinished part"),
    (re.compile(r"(^|[\s\"'=(])/work/|/tmp/wt"), "a path of one machine"),
]
# Headers with an include guard: users' compilers may not know #pragma once; LTTng includes its own twice.
GUARDED = {"preload/sysom.h", "tests/bench/lttng_tp.h"}
ROOM_FILES_MAX = 28  # C files and headers
LINE_MAX = 100  # and a string may run a word over
FUNCTION_MAX = 90  # about 70, and tables of tests


def files():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True,
                         capture_output=True, text=True).stdout
    return [f for f in out.splitlines() if os.path.isfile(f)]


def room_of(path):
    """The innermost room of a file."""
    room = path.rsplit("/", 1)[0]
    while room and room not in MAY:
        room = room.rpartition("/")[0]
    return room


def may(room, target):
    """Whether a file of the room may include that file: of itself, of a room inside it, of one in its row."""
    other = target.rsplit("/", 1)[0]
    if other == room or other.startswith(room + "/"):
        return True
    return any(other == r or other.startswith(r + "/") or target.rsplit(".", 1)[0] == r for r in MAY[room])


def check_includes(path, lines, complain):
    room = room_of(path)
    if room not in MAY:
        return
    for n, line in enumerate(lines, 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m:
            continue
        target = m.group(1)
        if "/" not in target:
            if not path.endswith(".c") or not target.endswith(".pb-c.h"):
                complain(path, n, f'include "{target}" by its full path')
        elif room_of(target) in MAY and not may(room, target):
            complain(path, n, f"{room}/ may not include {target}")
        elif room in ("preload", "cupti") and room_of(target) == "base" and target not in GUEST_BASE:
            complain(path, n, f"the preload is libc only: {target} has code behind it")


def cycles(graph):
    """Groups of nodes that reach each other (Tarjan)."""
    index, low, stack, out = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            group = stack[stack.index(v):]
            del stack[stack.index(v):]
            if len(group) > 1:
                out.append(sorted(group))

    for v in sorted(graph):
        if v not in index:
            visit(v)
    return out


def check_rooms(paths, complain):
    """No include cycle between rooms, nor between files of one; a source, its header and what only it and
    its like share (x_private.h) are one."""
    graph, rooms, sizes = collections.defaultdict(set), collections.defaultdict(set), collections.Counter()

    def unit(path):
        return re.sub(r"(_private|_internal)?\.(c|h|def)$", "", path)

    for path in paths:
        if not path.endswith((".c", ".h")) or room_of(path) not in MAY:
            continue
        sizes[os.path.dirname(path)] += 1
        with open(path, encoding="utf-8") as f:
            for target in re.findall(r'^\s*#\s*include\s+"([^"]+)"', f.read(), re.M):
                if unit(target) != unit(path):
                    graph[unit(path)].add(unit(target))
                if room_of(target) != room_of(path):
                    rooms[room_of(path)].add(room_of(target))
    for group in cycles(graph) + cycles(rooms):
        complain(group[0], 1, "an include cycle: " + ", ".join(group))
    for room, n in sizes.items():
        if n > ROOM_FILES_MAX:
            complain(room, 1, f"a room of {n} files")


def check_style(path, lines, complain):
    if path.endswith((".c", ".h")) and "SPDX-License-Identifier" not in "".join(lines[:2]):
        complain(path, 1, "no SPDX line")
    if path.endswith(".h") and path not in GUARDED and "#pragma once\n" not in lines:
        complain(path, 1, "no #pragma once")
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
        imported = name.endswith(".py") and re.search(rf"^(?:from|import) {re.escape(name[:-3])}\b", text, re.M)
        if not imported and not re.search(r"(?<![\w])" + re.escape(stem) + r"(?![\w])", text):
            complain(p, 1, "no .mk and no other script names this test")


PAGE_MAX = 100


def check_pages(paths, complain):
    """Prose of a page wraps; tables, code and headings are as long as they must be. A decision begins with its number."""
    for p in paths:
        if not p.endswith(".md"):
            continue
        decision = re.match(r"docs/decisions/0*(\d+)", p)
        fenced = False
        with open(p, encoding="utf-8") as f:
            for n, line in enumerate(f, 1):
                text = line.rstrip("\n")
                if decision and n == 1 and not text.startswith(f"# {decision.group(1)}. "):
                    complain(p, n, f'a decision begins with "# {decision.group(1)}. TITLE"')
                fenced ^= text.lstrip().startswith("```")
                if not fenced and len(text) > PAGE_MAX and not re.match(r"    |\s*[|#`]", text):
                    complain(p, n, f"{len(text)} columns in a page")


THRESHOLDS_MAX = 60


def check_thresholds(paths, complain):
    """Every row of the table decides something, and there are few enough to know them all."""
    table = "model/thresholds.def"
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
    """What a file exports starts with its base name (programs, doubles, the guest and the kernel side aside)."""
    top = os.path.join(build, "obj")
    for room in ("base", "model", "ring", "analysis", "wire", "node", "sidecar", "aggregator"):
        for directory, _, names in os.walk(os.path.join(top, room)):
            for name in names:
                source = os.path.relpath(os.path.join(directory, name), top)[:-2] + ".c"
                if not name.endswith(".o") or not os.path.exists(source):
                    continue  # generated, or left over from a file that was renamed
                out = subprocess.run(["nm", "-g", "--defined-only", os.path.join(directory, name)],
                                     capture_output=True, text=True).stdout
                for line in out.splitlines():
                    symbol, stem = line.split()[-1], name[:-2].split("_")[0]
                    if symbol != "main" and not symbol.startswith(("__", "sysom__", stem)):
                        complain(source, 1, f"exports {symbol}, not {stem}_*")


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
    check_rooms(paths, complain)
    check_tests(paths, complain)
    check_pages(paths, complain)
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
