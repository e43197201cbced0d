# SPDX-License-Identifier: Apache-2.0
"""sysom replay stacks: the contract of its output on real stacks, its inputs and its errors."""
import collections
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

import tap  # tap.py, beside this file
from tap import ok, skip

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
B = os.environ.get("B", "build/gcc")
SYSOM = os.path.join(B if os.path.isabs(B) else os.path.join(ROOT, B), "bin/sysom")
DATA = os.environ.get("SYSOM_DATA", os.path.join(ROOT, "../shared/data"))
STACKS = os.path.join(DATA, "perf-stacks/expected")
T = tempfile.mkdtemp()


def run(*args, stdin=None):
    p = subprocess.run([SYSOM, "replay", "stacks", *args], input=stdin, capture_output=True, cwd=T,
                       stdin=None if stdin is not None else subprocess.DEVNULL)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def lines(out):
    rows = [json.loads(x) for x in out.splitlines()]
    return [r for r in rows if r["type"] == "delta"], rows[-1]


def write(name, stacks):
    with open(os.path.join(T, name), "w", encoding="utf-8") as f:
        for s, n in stacks.items():
            f.write(f"{s} {n:.9f}\n" if n < 1e-4 else f"{s} {n}\n")
    return name


def shares(stacks):
    """Total and self share by function, by another program than the one under test."""
    total, own, whole = collections.Counter(), collections.Counter(), sum(stacks.values())
    for s, n in stacks.items():
        frames = s.split(";")
        own[frames[-1]] += n / whole
        for f in set(frames):
            total[f] += n / whole
    return total, own


def load(name):
    out = collections.Counter()
    with gzip.open(os.path.join(STACKS, name), "rt") as f:
        for line in f:
            stack, n = line.rstrip("\n").rsplit(" ", 1)
            out[stack] += int(n)
    return out


small = {"main;step;gemm<a, b>": 700, "main;step;copy here": 200, "main;load": 100}
grown = {**small, "irq;net_rx_action_[k]": 120}
write("a", small)
write("b", grown)
rc, out, err = run("--json", "a", "b")
deltas, summary = lines(out)
ok(rc == 0 and not err and summary["type"] == "summary", "reads to the end, a summary last")
ok(all({"function", "base", "other", "delta", "flagged"} <= r.keys() for r in deltas) and
   {r["function"] for r in deltas if r["flagged"]} == {"irq", "net_rx_action_[k]"},
   "the new functions are flagged, those that they dilute are not")
ok([abs(r["delta"]) for r in deltas] == sorted((abs(r["delta"]) for r in deltas), reverse=True),
   "largest difference first")
truth = [shares(small), shares(grown)]
ok(all(abs(r["base"] - truth[0][0][r["function"]]) < 1e-8 and
       abs(r["other"] - truth[1][0][r["function"]]) < 1e-8 and
       abs(r["base_self"] - truth[0][1][r["function"]]) < 1e-8 and
       abs(r["other_self"] - truth[1][1][r["function"]]) < 1e-8 and
       abs(r["delta"] - (r["other"] - r["base"])) < 1e-8 for r in deltas) and len(deltas) == 7,
   "base and other are total shares, beside self shares")
ok(summary["base"]["rows"] == 3 and summary["other"]["samples"] == 1120 and
   summary["base"]["skipped"] == {"blank": 0, "deep": 0, "no_room": 0}, "the summary counts")
with open(os.path.join(T, "a"), "rb") as f:
    plain = f.read()
with gzip.open(os.path.join(T, "a.gz"), "wb") as f:
    f.write(plain)
ok(run("--json", "a.gz", "b")[1].splitlines()[:-1] == out.splitlines()[:-1], "gzip reads the same")
if subprocess.run(["sh", "-c", "command -v zstd"], capture_output=True).returncode == 0:
    subprocess.run(["zstd", "-q", "a", "-o", "a.zst"], cwd=T, check=True)
    ok(run("--json", "a.zst", "b")[1].splitlines()[:-1] == out.splitlines()[:-1], "zstd reads the same")
else:
    skip("zstd reads the same", "needs command:zstd")
ok(run("--json", "-", "b", stdin=plain)[1].splitlines()[:-1] == out.splitlines()[:-1],
   "- is standard input")
ok("net_rx_action" in run("a", "b")[1], "without --json a table")
ns = {s: n * 10101010 for s, n in small.items()}
few = {s: n // 20 for s, n in small.items()}
write("ns", {s: n * 10101010 for s, n in few.items()})
ok(lines(run("--json", "ns", "b")[1])[1]["base"]["samples"] == 10 and
   lines(run("--json", "--sample-weight", "10101010", "ns", "b")[1])[1]["base"]["samples"] == 50,
   "times count as samples of the smallest one, or of what is said")
write("part", {"a;b": 0.5, "a;c": 0.25, "a;d": 0.25})
ok(lines(run("--json", "part", "b")[1])[1]["base"]["samples"] is None, "fractions are no counts")

for name, text, where in (("no value", "a;b 3\na;c\n", 2), ("no stack", "a 1\n\n 3\n", 3),
                          ("a negative value", "a;b -3\n", 1), ("text for a value", "a;b 3x\n", 1),
                          ("infinity", "a;b inf\n", 1), ("a value above all counts", "a;b 1\na;c 1e308\n", 2),
                          ("a value next to nothing", f"a;b 0.{'0' * 320}1\n", 1), ("a zero byte", "a;\0b 3\n", 1)):
    with open(os.path.join(T, "bad"), "w", encoding="utf-8") as f:
        f.write(text)
    rc, out, err = run("--json", "a", "bad")
    ok(rc == 2 and f"bad:{where}:" in err and not out, f"{name}: status 2 with file and line")
write("most", {"a;b": 1.8e19, "a;c": 1e-9})
rows = [json.loads(x, parse_constant=lambda c: ok(False, f"no JSON has {c}"))
        for w in ("1", "1e-9", "18e18") for pair in (("most", "b"), ("b", "most"), ("most", "most"))
        for x in run("--json", "--sample-weight", w, *pair)[1].splitlines()]
ok(sum(r["type"] == "summary" for r in rows) == 9, "the largest and smallest values give JSON")
ok(all(run("--json", "--sample-weight", w, "a", "b")[0] == 2 for w in ("1e-308", "1e300")),
   "samples of absurd weight are refused")
with open(os.path.join(T, "cut.gz"), "wb") as f:
    f.write(gzip.compress(plain)[:-9])
ok(run("a", "cut.gz")[0] == 2 and run("a", "none")[0] == 2 and run("a")[0] == 2 and
   run("-", "-")[0] == 2 and run("--delta", "0", "a", "b")[0] == 2, "other bad input is status 2 too")
with open(os.path.join(T, "evil"), "wb") as f:
    f.write(b'a;</script>\x1b[31m"\\\xff 5\n')
rc, out, err = run("--json", "a", "evil")
ok(rc == 0 and all(json.loads(x) for x in out.splitlines()) and "\x1b" not in out,
   "odd names come out as JSON")
write("deep", {";".join(["f"] * 5000): 3, "a;b": 7})
ok(lines(run("--json", "deep", "b")[1])[1]["base"]["skipped"]["deep"] == 1, "a stack too deep is counted")

if os.path.isdir(STACKS):
    iperf = load("perf-iperf-stacks-pidtid-01-collapsed-kernel.txt.gz")
    net = {s: n for s, n in iperf.items() if "net_rx_action" in s}
    for other in ("numa", "java", "cycles"):
        name = {"numa": "perf-numa-stacks-01", "java": "perf-java-stacks-01",
                "cycles": "perf-cycles-instructions-01"}[other]
        base = {s: 40 * n for s, n in load(f"{name}-collapsed-kernel.txt.gz").items()}
        write("base", base)
        # the Java server receives packets itself: 4% of its time
        for share in ((0.01, 0.03, 0.17) if other != "java" else (0.03, 0.17)):
            scale = share / (1 - share) * sum(base.values()) / sum(net.values())
            mixed = collections.Counter(base)
            random.seed(7)
            for s, n in net.items():
                whole = int(scale * n + random.random())
                if whole:
                    mixed[s] += whole
            write("mixed", mixed)
            deltas, _ = lines(run("--json", "base", "mixed")[1])
            flagged = {r["function"] for r in deltas if r["flagged"]}
            new = set(shares(net)[0])
            was, total = shares(base)[0], shares(mixed)[0]
            # far above delta and above what two samplings of one process would show
            n = (sum(base.values()) + sum(mixed.values())) / 2
            must = {f for f in new if total[f] - was[f] >
                    max(0.0075, 5 * (2 * total[f] * (1 - total[f]) / n) ** .5)}
            ok(must and must <= flagged <= new,
               f"{share:.0%} of NET_RX in {other}: its functions are flagged and no others "
               f"({len(flagged)} of {len(deltas)}, {len(must)} of them sure)")
else:
    skip("NET_RX in other profiles", f"needs data: {STACKS}")
tap.end()
subprocess.run(["rm", "-rf", T])
sys.exit(0)
