#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sysom replay links: the contract of its output on made-up and real times, its inputs and its errors."""
import csv
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from tap import ok, skip  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SYSOM = os.path.realpath(os.path.join(os.environ.get("B", "build/gcc"), "bin/sysom"))
DATA = os.path.realpath(os.environ.get("SYSOM_DATA", os.path.join(ROOT, "../shared/data")))
REAL = os.path.join(DATA, "nccl-aiconfigurator/a100_sxm_nccl2.27.3.csv")
os.chdir(tempfile.mkdtemp())
HEADER = "op,dtype,num_gpus,message_bytes,latency_us\n"


def run(*args, text=None):
    if text is not None:
        with open("in.csv", "w", encoding="utf-8") as f:
            f.write(text)
        args = ("in.csv", *args)
    p = subprocess.run([SYSOM, "replay", "links", *args], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def links(*args, text=None):
    code, out, err = run("--json", *args, text=text)
    rows = [json.loads(x) for x in out.splitlines()]
    assert code == 0 and not err, (code, err)
    return {r["key"]: r for r in rows if r["type"] == "link"}, rows[-1]


def near(got, want, part):
    return abs(got - want) <= part * abs(want)


# ---- known lines: 5 us and 20 GB/s up to 64 KiB, then 40 us and 100 GB/s ----
random.seed(7)
made, slow = [], []
for e in range(8, 29):
    size = 1 << e
    us = 5 + size / 20e3 if e <= 16 else 40 + size / 100e3
    for k in range(7):
        made.append(("all_reduce", "half", 8, size, us * random.uniform(0.99, 1.01) * (10 if k == 3 else 1)))
        slow.append(("all_gather", "half", 8, size, 3 * us * random.uniform(0.99, 1.01)))
random.shuffle(made)
text = HEADER + "".join(",".join(map(str, r)) + "\n" for r in made + slow)
fits, summary = links(text=text)
r = fits["all_reduce,half,8"]["regimes"]
ok(set(fits) == {"all_reduce,half,8", "all_gather,half,8"} and summary["type"] == "summary" and
   summary["rows"] == len(made) + len(slow) and summary["groups"] == 2, "a line per group, a summary last")
ok(len(r) == 2 and 1 << 16 <= r[0]["max_bytes"] < 1 << 17 and r[1]["max_bytes"] == 1 << 28,
   "the regimes end where the truth changes", r)
ok(near(r[0]["latency_us"], 5, .02) and near(r[0]["rate_gb_s"], 20, .05) and near(r[1]["latency_us"], 40, .03) and
   near(r[1]["rate_gb_s"], 100, .02), "latency and rate of each are the truth's, with one in seven times ten", r)
ok(fits["all_gather,half,8"]["mape"] < .01 and fits["all_gather,half,8"]["r2"] > .999 and
   fits["all_gather,half,8"]["held_out_mape"] < .01, "the error is the noise's, also of rows left out")
again, _ = links(text=HEADER + "".join(",".join(map(str, r)) + "\n" for r in reversed(made + slow)))
ok(all(again[k]["regimes"] == v["regimes"] for k, v in fits.items()), "the order of rows does not matter")

# several files: groups with the same key are one
with open("a.csv", "w", encoding="utf-8") as f:
    f.write(HEADER + "".join(",".join(map(str, r)) + "\n" for r in made[::2]))
with gzip.open("b.csv.gz", "wt") as f:
    f.write(HEADER + "".join(",".join(map(str, r)) + "\n" for r in made[1::2] + slow))
both, _ = links("a.csv", "b.csv.gz")
ok(all(both[k]["regimes"] == v["regimes"] for k, v in fits.items()), "several files fit as one would")
one, _ = links("--regimes", "1", text=text)
ok(all(len(v["regimes"]) == 1 for v in one.values()) and one["all_gather,half,8"]["mape"] > .05,
   "--regimes 1 gives one line, which fits worse")
low, _ = links("--mode", "min", text=text)
avg, _ = links("--mode", "avg", text=text)
ok(avg["all_reduce,half,8"]["regimes"][-1]["rate_gb_s"] < 60 < 95 < low["all_reduce,half,8"]["regimes"][-1]["rate_gb_s"],
   "avg counts the slow ones, min does not")
code, out, err = run(text=text)
ok(code == 0 and "all_reduce,half,8" in out and "GB/s" in out and "2 groups" in out and not err, "for people, too", out)
of = ["0123456789abcdef0123456789abcdef,gpu-node-%d,gpu-node-1" % n for n in (2, 3)]
code, out, err = run("--key", "communicator,from,to", text="communicator,from,to,message_bytes,latency_us\n" +
                     "".join("%s,%d,10\n" % (k, 1 << e) for k in of for e in (10, 11)))
ok(code == 0 and [x.split()[0] for x in out.splitlines() if x[:1].strip()][:3] == ["communicator,from,to", *of],
   "which link each fit is of: the columns of the key as the heading, each key in full", out)

# ---- the plain line is the one of another program ----
x, y = [r[3] for r in slow], [r[4] for r in slow]
slope, intercept = statistics.linear_regression(x, y)
plain = statistics.fmean(abs(intercept + slope * a - b) / b for a, b in zip(x, y))
ok(near(fits["all_gather,half,8"]["plain_mape"], plain, 1e-4), "plain is least squares as Python's statistics has it",
   (plain, fits["all_gather,half,8"]["plain_mape"]))


# ---- measured collectives ----
def predict(regimes, size):
    """From what was printed alone."""
    def line(g, size):
        return g["latency_us"] + (size / g["rate_gb_s"] / 1e3 if g["rate_gb_s"] else 0)
    at = max([i for i, g in enumerate(regimes) if size >= g["begin_bytes"]], default=0)
    g = regimes[at]
    if size < g["end_bytes"] or at == len(regimes) - 1:
        return line(g, size)
    to = regimes[at + 1]
    part = (size - g["end_bytes"]) / (to["begin_bytes"] - g["end_bytes"])
    return line(g, g["end_bytes"]) * (1 - part) + line(to, to["begin_bytes"]) * part


if os.path.exists(REAL):
    fits, summary = links(REAL, "--key", "op_name,nccl_dtype,num_gpus", "--bytes", "message_size", "--latency", "latency",
                          "--latency-unit", "ms")
    off, count = {}, 0
    with open(REAL, encoding="utf-8") as f:
        for r in csv.DictReader(f):
            key = ",".join((r["op_name"], r["nccl_dtype"], r["num_gpus"]))
            us = float(r["latency"]) * 1e3
            off.setdefault(key, []).append(abs(predict(fits[key]["regimes"], int(r["message_size"])) - us) / us)
            count += 1
    ok(summary["rows"] == count and all(near(fits[k]["mape"], statistics.fmean(v), .01) for k, v in off.items()),
       "the printed regimes predict the rows with the printed error")
    ok(summary["held_out_mape"] < .05, "the error of rows that the fit has not seen is below 5%", summary)
    ok(summary["mape"] <= .05 < .25 < summary["plain_mape"], "at most 5% on the A100's collectives, plain above 25%", summary)
else:
    skip("measured collectives", "needs data: nccl-aiconfigurator, vidur-profiles")

# ---- input that is wrong, and how it is said ----
good = "all_reduce,half,8,1024,9.5\n"
for what, args, bad, want in (
        ("no such column", (), "op,dtype,num_gpus,size,latency_us\n" + good, 'in.csv:1: no column "message_bytes" in the header; it has op, dtype, num_gpus, size, latency_us'),
        ("no header", (), "", "in.csv:1: no header row"),
        ("a size that is none", (), HEADER + good + "a,b,2,big,5\n", "in.csv:3: not a size in bytes: big"),
        ("a negative size", (), HEADER + "a,b,2,-1,5\n", "in.csv:2: not a size in bytes: -1"),
        ("a fraction of a byte", (), HEADER + "a,b,2,1.5,5\n", "in.csv:2: not a size in bytes: 1.5"),
        ("a size beyond exact numbers", (), HEADER + "a,b,2,1e300,5\n", "in.csv:2: not a size in bytes"),
        ("a time that is none", (), HEADER + "a,b,2,1,soon\n", "in.csv:2: latency is not a number: soon"),
        ("a negative time", (), HEADER + "a,b,2,1,-5\n", "in.csv:2: a negative latency: -5"),
        ("not a number", (), HEADER + "a,b,2,1,nan\n", "in.csv:2: latency is not a number: nan"),
        ("a field too many", (), HEADER + "a,b,2,1,5,6\n", "in.csv:2: the number of fields differs"),
        ("a key too long", (), HEADER + "a" * 2000 + ",b,2,1,5\n", "in.csv:2: the key is too long"),
        ("an unknown mode", ("--mode", "max"), HEADER, "--mode max: expected median|avg|min"),
        ("an unknown unit", ("--latency-unit", "h"), HEADER, "--latency-unit h: expected ns|us|ms|s"),
        ("no regimes", ("--regimes", "0"), HEADER, "a whole number from 1 to 8"),
        ("too many key columns", ("--key", ",".join(["op"] * 9)), HEADER, "too many columns named"),
        ("an unknown option", ("--fast",), HEADER, "--fast")):
    code, out, err = run("--json", *args, text=bad)
    ok(code == 2 and want in err and not out, f"{what}: exit 2 and why", (code, err))
ok(run("missing.csv")[0] == 2 and "missing.csv" in run("missing.csv")[2], "a file that is not there: exit 2")
ok(run()[0] == 2 and "F.csv... is missing" in run()[2], "no file: exit 2")
fits, summary = links(text=HEADER + good + "all_reduce,half,8,0,9\n\nall_reduce,half,8,1024,0\nall_reduce,half,8,8796093022208,9\n")
ok(summary["rows"] == 4 and summary["skipped"] == {"blank_line": 1, "not_positive": 2, "out_of_range": 1} and
   fits["all_reduce,half,8"]["rows"] == 1, "rows without size or time, or out of range, are counted", summary)
text = "bytes,us\n" + "".join(f"{1 << k},{10 + (1 << k) / 1e3:.3f}\n" for k in range(10, 21))
alone = ("--key", "", "--bytes", "bytes", "--latency", "us")
fits, summary = links(*alone, text=text)
ok(list(fits) == [""] and summary["groups"] == 1 and near(fits[""]["regimes"][0]["rate_gb_s"], 1, .01), "without key columns all rows are one group", fits)
code, out, err = run(*alone, text=text)
ok(code == 0 and "\nall rows " in out and "\n1 group, 11 rows" in out, "and the table says so", (out, err))
fits, summary = links(text=HEADER)
ok(not fits and summary["mape"] is None and summary["groups"] == 0, "no rows: no groups, and no error", summary)
sys.exit(tap.end())
