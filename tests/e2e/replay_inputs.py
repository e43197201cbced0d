#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every kind of `sysom replay` makes of damaged, marked, hostile and senseless input: the same."""
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402

SYSOM = os.path.realpath(os.path.join(os.environ.get("B", "build/gcc"), "bin/sysom"))
HEADER = "ts_ns,dur_ns,kind,device,stream,corr,bytes,name\n"
os.chdir(tempfile.mkdtemp())


def events_csv(steps=5):
    rows, corr = [HEADER], 0
    for step in range(steps):
        for k in range(9):
            corr += 1
            at = 1000000 + step * 4000000 + k * 100000
            rows += [f"{at},1000,api,,,{corr},,cudaLaunchKernel\n",
                     f"{at + 20000},50000,kernel,0,7,{corr},,k{k}\n"]
    return "".join(rows)


def event(ts, dur, corr=1, cat="kernel"):
    return {"ph": "X", "cat": cat, "name": "k", "ts": ts, "dur": dur, "args": {"correlation": corr, "stream": 7}}


def kineto(*events):
    return "[" + ",\n".join(json.dumps(e) for e in events) + "]"


# Of each kind: a name, its arguments with FILE, a good text.
OPS = "dp_rank,stage,rank,step,optype,start_ts,duration\n"
KINDS = (
    ("events", ["events", "--json", "FILE"], events_csv()),
    ("events, JSON", ["events", "--json", "FILE"], kineto(*[event(1000 * k, 5, k + 1) for k in range(50)])),
    ("steps", ["steps", "FILE", "--latency", "ms", "--json"], "ms,work\n" + "".join(f"{5 + i % 3},{i}\n" for i in range(40))),
    ("ops", ["ops", "FILE", "--json"],
     OPS + "".join(f"0,0,{r},{s},forward-compute,{s},0.5\n" for s in range(9) for r in range(4))),
    ("timings", ["timings", "FILE", "--json"],
     "worker,step,seconds\n" + "".join(f"{w},{s},0.{5 + w}\n" for s in range(9) for w in range(4))),
    ("links", ["links", "FILE", "--json"],
     "op,dtype,num_gpus,message_bytes,latency_us\n" + "".join(f"sum,half,8,{1 << k},{5 + k}\n" for k in range(8, 20))),
    ("stacks", ["stacks", "--json", "FILE", "other.folded"], "a;b 50\na;c 70\n"),
)
with open("other.folded", "w", encoding="utf-8") as f:
    f.write("a;b 50\na;c 70\n")


def call(args, data, name="in", memory=None):
    """The code, what was printed but for the file's name, and standard error."""
    with open(name, "wb") as f:
        f.write(data)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    p = subprocess.run([SYSOM, "replay", *[name if a == "FILE" else a for a in args]], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=limit if memory else None,
                       check=False)
    return p.returncode, p.stdout, p.stderr.decode("utf-8", "replace")


def packed():
    for kind, args, text in KINDS:
        want = call(args, text.encode())
        whole = gzip.compress(text.encode(), mtime=0)
        good = call(args, whole)
        tap.ok(want[0] == 0 and good[:2] == want[:2], f"{kind}: gzip reads as plain text does", good)
        wrong = []
        for cut in (1, 2, 5, 10, 11, len(whole) // 2, len(whole) - 8, len(whole) - 1):
            code, _, err = call(args, whole[:cut])
            if code != 2 or "compressed data ends early" not in err:
                wrong.append((cut, code, err))
        tap.ok(not wrong, f"{kind}: cut short it is an error wherever", wrong)
        torn = bytearray(whole)
        torn[-6] ^= 1
        code, _, err = call(args, bytes(torn))
        tap.ok(code == 2 and "damaged gzip data" in err, f"{kind}: so is a wrong checksum", (code, err))
        marked = call(args, b"\xef\xbb\xbf" + text.encode())
        tap.ok(marked[:2] == want[:2], f"{kind}: a byte order mark is no part of the text", marked)
        marked = call(args, gzip.compress(b"\xef\xbb\xbf" + text.encode()))
        tap.ok(marked[:2] == want[:2], f"{kind}: nor within gzip", marked)
    code, _, err = call(["window", "FILE"], gzip.compress(b"SYSOMREC")[:10])
    tap.ok(code == 2 and "compressed data ends early" in err, "window: cut short it is an error", err)


def times_that_are_none():
    api = "1,5,api,,,1,,cudaLaunchKernel\n"
    cases = (
        ("events", HEADER + api + "2,{},kernel,0,7,1,,k\n", ("-2", "fast", "-0.5", "nan")),
        ("events, JSON", '[{{"ph":"X","cat":"kernel","ts":1,"dur":1}},\n'
         '{{"ph":"X","cat":"kernel","name":"k","ts":2,"dur":{}}}]', ("-1", '"fast"', '"3"', "[1]", "true")),
        ("steps", "ms,work\n5,1\n{},2\n", ("-5", "fast", "nan", "")),
        ("ops", OPS + "0,0,0,0,x,0,1\n0,0,0,1,x,0,{}\n", ("-1", "fast", "nan", "")),
        ("timings", "worker,step,seconds\n0,0,1\n0,1,{}\n", ("-1", "fast", "1e99")),
        ("links", "op,dtype,num_gpus,message_bytes,latency_us\ns,h,8,1,2\ns,h,8,1,{}\n", ("-1", "fast", "nan", "")),
        ("stacks", "a;b 1\na;c {}\n", ("-1", "fast", "nan")),
    )
    of_kind = {kind: args for kind, args, _ in KINDS}
    for kind, text, values in cases:
        line = 2 if kind in ("events, JSON", "stacks") else 3
        for value in values:
            code, _, err = call(of_kind[kind], text.format(value).encode())
            tap.ok(code == 2 and f"in:{line}: " in err, f"{kind}: {value!r} as a time names its line", (code, err))
    code, out, _ = call(of_kind["steps"], b"ms,work\n5,1\n0,2\n")
    tap.ok(code == 0 and json.loads(out.splitlines()[-1])["skipped"]["latency_not_positive"] == 1,
           "steps: a zero is counted and judged by nobody", out)
    code, _, err = call(of_kind["events, JSON"],
                        kineto({"ph": "X", "cat": "python_function", "ts": 1, "dur": -4}, event(2, 3)).encode())
    tap.ok(code == 0, "events, JSON: what is not read may be anything", err)


def memory():
    """Programs that may have no more than so much for themselves and the text."""
    short = b"[" + b"[]," * (16 << 20) + b"[]]"
    code, out, err = call(["events", "--json", "FILE"], short, memory=256 << 20)
    tap.ok(code == 0 and json.loads(out.splitlines()[-1])["rows"] == (16 << 20) + 1,
           "events: 48 MiB of [] take no memory", (code, err))
    window = ["window", "--incident", "FILE", "other.folded"]
    for text, what in ((b"[" + b"[]," * 1200000 + b"[]]", "short values"), (b" " * (17 << 20), "a long text"),
                       (gzip.compress(b"[" + b"{}," * (20 << 20)), "a packed one")):
        code, _, err = call(window, text, memory=256 << 20)
        tap.ok(code == 2 and "in:1: too large for an incident" in err, f"window --incident: {what} is refused", err)
    code, _, err = call(window, b'{"id":"' + b"[,{" * 1000000 + b'"}')
    tap.ok(code == 2 and "larger" not in err, "window --incident: brackets of a text are no values", err)
    code, _, err = call(window, b"\xef\xbb\xbf{} x")
    tap.ok(code == 2 and "in:1: " in err, "window --incident: other text behind it is an error", err)


def steps_of(n, layers=12):
    """Back to back: three kernels once, then layers; each kernel with its launch."""
    rows, at, corr = [HEADER], 1000000, 0
    for _ in range(n):
        for name in ["embed", "mask", "cast", *["a", "b", "c", "d"] * layers, "head", "loss",
                     *["db", "dc", "dd"] * layers]:
            corr += 1
            rows += [f"{at},1000,api,,,{corr},,cudaLaunchKernel\n", f"{at + 20000},3000,kernel,0,7,{corr},,{name}\n"]
            at += 5000
    return "".join(rows).encode()


def edges():
    args = ["events", "--json", "FILE"]
    for n in range(1, 6):
        code, out, err = call(args, steps_of(n))
        lines = [json.loads(x) for x in out.splitlines()]
        steps = [x for x in lines if x["type"] == "step"]
        if n < 3:
            tap.ok(code == 0 and not steps and lines[-1]["too_few_steps"] == 1 and "too few steps" in err,
                   f"{n} steps of 24 layers are too few, and no layer is a step", (len(steps), err))
        else:
            tap.ok(code == 0 and [s["kernels"] for s in steps] == [89] * n and lines[-1]["too_few_steps"] == 0,
                   f"{n} steps come out, the last one, too", [s["kernels"] for s in steps])
    code, out, _ = call(["events", "FILE"], steps_of(1))
    tap.ok(code == 0 and b"1 file of too few steps" in out, "for people, too", out)
    cut = steps_of(5).splitlines(True)[:-20]
    steps = [x for x in map(json.loads, call(args, b"".join(cut))[1].splitlines()) if x["type"] == "step"]
    tap.ok([s["kernels"] for s in steps] == [89] * 4 + [79] and steps[-1]["edge"] and not steps[-2]["edge"],
           "a last step that is cut off is an edge", [(s["kernels"], s["edge"]) for s in steps])


def poor_fit():
    """Two thirds of the bins lie on a line that the rest are nowhere near."""
    rows = ["ms,work\n"] + [f"{1e5 if i % 30 % 5 < 2 else 10 + i % 30 * 30},{10 + i % 30 * 30}\n" for i in range(1000)]
    args = ["steps", "FILE", "--latency", "ms", "--work", "work", "--mode", "p99"]
    code, out, _ = call([*args, "--json"], "".join(rows).encode())
    model = [x for x in map(json.loads, out.splitlines()) if x["type"] == "model"][0]
    tap.ok(code == 0 and model["r2"] < -.1 and model["state"] == "refused" and model["reason"] == "poor fit" and
           not model["flagged"], "p99: a line worse than the mean is refused", model)
    tap.ok(b"refused: poor fit" in call(args, "".join(rows).encode())[1], "and says why")


packed()
times_that_are_none()
memory()
edges()
poor_fit()
sys.exit(tap.end())
