# SPDX-License-Identifier: Apache-2.0
"""sysom diff: ranks of an incident, windows, traces and profiles side by side, against what was put into
them."""
import gzip
import json
import os
import random
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
DATA = os.environ.get("SYSOM_DATA", os.path.join(ROOT, "../shared/data"))
T = tempfile.mkdtemp()
ID = "d1a60001"


def run(*args):
    p = subprocess.run([SYSOM, *args], capture_output=True, stdin=subprocess.DEVNULL, cwd=T,
                       env={**os.environ, "LC_ALL": "C.UTF-8"})
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def diff(*args):
    rc, out, err = run("diff", "--json", *args)
    return json.loads(out) if rc == 0 else {"rc": rc, "err": err}


def near(pair, a, b, share=0.01):
    return abs(pair[0] - a) <= share * max(a, 1) and abs(pair[1] - b) <= share * max(b, 1)


def row(rows, key, value):
    return next((r for r in rows if r[key] == value), None)


def incident():
    d = diff(f"{ID}:0", f"{ID}:2")
    # 16 steps of 20 ms and 24 of 25, with small differences; own time 10.2 of a peer, 11.8 and 16.8 of the culprit
    ok(near(d["steps"]["own"]["median"], 10.2e6, 16.8e6) and d["steps"]["own"]["differs"] and
       not d["steps"]["step"]["differs"], "ranks of an incident: the steps", d)
    ok(d["a"]["flagged"] == 0 and d["b"]["flagged"] == 24 and d["b"]["steps"] == 40 and d["rate_differs"],
       "the rate of flagged steps", d["b"])
    gemm = row(d["kernels"], "kernel", "gemm")
    ok(gemm and near(gemm["ns"], 8e6, 9.6e6) and near(gemm["count"], 8, 8) and
       gemm["variant_a"] == "gemm<float, 128, true>" and gemm["variant_b"] == "gemm<float, 64, true>" and
       gemm["changed"] == "argument 2: 128, now 64", "template arguments are told apart", gemm)
    relu = row(d["kernels"], "kernel", "at::native::vectorized_elementwise_kernel")
    ok(near(relu["ns"], 5e5, 5e5) and "changed" not in relu, "a kernel that is the same", relu)
    span = row(d["spans"], "span", "forward")
    ok(span and near(span["ns"], 1.9e6, 1.9e6) and near(span["count"], 1, 1), "spans", d["spans"])
    flagged = {f["function"] for f in d["functions"] if f["flagged"]}
    ok({"net_rx_action_[k]", "__do_softirq_[k]", "tcp_v4_rcv_[k]"} <= flagged and "read_batch (train.py)" not in flagged,
       "functions", flagged)
    same = diff(f"{ID}:0", f"{ID}:1")
    ok(not any(m["differs"] for m in same["steps"].values()) and not same["rate_differs"] and
       not any(f["flagged"] for f in same["functions"]) and not any("changed" in k for k in same["kernels"]),
       "two healthy ranks: nothing differs", same)
    ok(diff(ID, f"{ID}:0")["a"]["label"].startswith("rank 2 "), "an incident alone is its culprit")
    rc, out, err = run("diff", f"{ID}:0", f"{ID}:2")
    ok(rc == 0 and "argument 2: 128, now 64" in out and "\x1b" not in out and "!net_rx_action" in out,
       "as tables, free of control characters", out)
    windows = sorted(os.listdir(os.path.join(T, "windows")))
    w = diff(os.path.join("windows", windows[0]), os.path.join("windows", windows[2]))
    ok(w.get("steps") == d["steps"] and w["kernels"] == d["kernels"] and w["a"]["kind"] == "window",
       "windows as files are the same", w)
    run("flame", ID, "--rank", "0", "-o", "a.pb.gz")
    run("flame", ID, "--rank", "2", "-o", "b.folded")
    p = diff("a.pb.gz", f"{ID}:2")
    ok(p["a"]["kind"] == "pprof" and not p["steps"] and {f["function"] for f in p["functions"]} >=
       {"net_rx_action_[k]", "train_step (train.py)"} and
       abs(row(p["functions"], "function", "train_step (train.py)")["base"] - 1) < 1e-9, "pprof files", p)
    run("flame", ID, "--rank", "0", "-o", "a.folded")
    for name in ("a.pb.gz", "a.folded"):
        p = diff(name, f"{ID}:0")
        # but for the thread, below which folded stacks stand
        ok({f["function"] for f in p["functions"] if abs(f["delta"]) > 1e-6} <= {"python3"} and
           len(p["functions"]) >= 6, f"{name} has the names of the incident's stacks", p)
    f = diff("b.folded", "b.folded")
    ok(not any(x["delta"] for x in f["functions"]) and f["functions"], "folded stacks", f)
    ok(run("diff", "b.folded", os.path.join("windows", windows[0]))[0] == 0, "stacks against a window's")


def trace(name, steps, gemm, ns, late=0):
    """steps of 12 launches; the variant of gemm and its time."""
    random.seed(3)
    with open(os.path.join(T, name), "w", encoding="utf-8") as f:
        f.write("ts_ns,dur_ns,kind,device,stream,corr,bytes,name\n")
        t, corr = 1_000_000_000, 1
        for _ in range(steps):
            at = t + 100_000
            for i in range(12):
                kernel = f'"void ns::gemm<float, {gemm}>(float*)"' if i % 2 else f"relu_{i}"
                f.write(f"{t + i * 60_000},5000,cuda_runtime,0,0,{corr},0,cudaLaunchKernel\n")
                long = ns if i % 2 else 300_000
                at = max(at, t + i * 60_000 + 10_000)
                f.write(f"{at},{long},kernel,0,7,{corr},0,{kernel}\n")
                at += long + 2_000
                corr += 1
            f.write(f"{t + 800_000},{at - t - 790_000},cuda_runtime,0,0,{corr},0,cudaDeviceSynchronize\n")
            corr += 1
            t = at + 50_000 + late + random.randrange(20_000)


def traces():
    trace("a.csv", 60, 128, 500_000)
    trace("b.csv", 60, 64, 600_000)
    d = diff("a.csv", "b.csv")
    gemm = row(d.get("kernels", []), "kernel", "ns::gemm")
    ok(gemm and near(gemm["ns"], 3e6, 3.6e6, 0.03) and gemm["changed"] == "argument 2: 128, now 64" and
       near(gemm["count"], 6, 6, 0.03), "traces: kernels per step", d)
    ok(d["steps"]["step"]["differs"] and abs(d["steps"]["step"]["median"][1] - d["steps"]["step"]["median"][0] -
                                             6e5) < 3e4 and d["a"]["steps"] > 50, "traces: steps", d["steps"])
    same = diff("a.csv", "a.csv")
    ok(not any(m["differs"] for m in same["steps"].values()) and
       not any(k["ns"][0] - k["ns"][1] for k in same["kernels"]), "a trace beside itself: nothing differs")
    pair = os.path.join(DATA, "kineto-dataloader-ab")
    if not os.path.isdir(pair):
        skip("the data-loader pair", "no data")
        return
    files = sorted(os.path.join(pair, f) for f in os.listdir(pair) if f.endswith(".csv.gz"))
    d = diff(*files)
    # 176 and 126 ms per step, by the data's own description; the same compute
    ok(near(d["steps"]["step"]["median"], 176e6, 126e6, 0.02) and d["steps"]["own"]["differs"] and
       not d["steps"]["compute"]["differs"], "real traces with and without loader workers", d["steps"])


def bad():
    with open(os.path.join(T, "cut.folded"), "w", encoding="utf-8") as f:
        f.write("a;b\n")
    with gzip.open(os.path.join(T, "bad.pb.gz"), "wb") as f:
        f.write(b"\xff\xff\xff")
    with open(os.path.join(T, "bad.window"), "wb") as f:
        f.write(b"\x08\x01\x10\x01" + b"\xff" * 40)
    with open(os.path.join(T, "bad.csv"), "w", encoding="utf-8") as f:
        f.write("ts_ns,dur_ns,kind,device,stream,corr,bytes,name\nx,1,kernel,0,0,0,0,k\n")
    for name in ("cut.folded", "bad.pb.gz", "bad.window", "bad.csv", "none.csv"):
        rc, out, err = run("diff", "b.folded", name)
        ok(rc == 2 and name in err and not out, f"{name}: status 2, and which file", (rc, err))
    ok(run("diff", "b.folded", "a.csv")[0] == 1, "nothing in common is status 1")
    ok(run("diff", "b.folded")[0] == 2 and run("diff", f"{ID}:x", "b.folded")[0] == 2 and
       run("diff", "ffffffff", "b.folded")[0] == 1 and run("diff", f"{ID}:77", "b.folded")[0] == 1,
       "bad arguments")


def main():
    os.mkdir(os.path.join(T, "windows"))
    subprocess.run([os.path.join(B, "unit/test_incident_diff"), "--write-windows", os.path.join(T, "windows")],
                   check=True)
    server = subprocess.Popen([sys.executable, os.path.join(ROOT, "tests/e2e/cli_server.py"), T],
                              stdin=subprocess.PIPE)
    try:
        while not os.path.exists(os.path.join(T, "url")):
            if server.poll() is not None:
                print("Bail out! the stand-in did not start")
                return 1
            subprocess.run(["sleep", "0.05"], check=True)
        with open(os.path.join(T, "url"), encoding="utf-8") as f:
            os.environ["SYSOM_URL"] = f.read().strip()
        incident()
        traces()
        bad()
    finally:
        server.stdin.close()
        server.wait()
        shutil.rmtree(T)
    return tap.end()


sys.exit(main())
