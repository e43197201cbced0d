# SPDX-License-Identifier: Apache-2.0
"""sysom diff: ranks of an incident, windows, traces, profiles, baselines and sketches side by side, against
what was put into them."""
import gzip
import json
import os
import re
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


def says_which_statistic(a, b, *headings):
    out = run("diff", a, b)[1]
    ok("per step, medians " in out and all(h in out for h in headings) and
       not re.search(r"(copies|spans|blocked in), per step", out), f"{a} {b}: each table says its statistic", out)


def incident():
    d = diff(f"{ID}:0", f"{ID}:2")
    # 16 steps of 20 ms and 24 of 25, with small differences; self time 10.2 of a peer, 11.8 and 16.8 of the culprit
    ok(near(d["steps"]["self time"]["median"], 10.2e6, 16.8e6) and d["steps"]["self time"]["differs"] and
       not d["steps"]["step"]["differs"], "ranks of an incident: the steps", d)
    ok(d["a"]["flagged"] == 0 and d["b"]["flagged"] == 24 and d["b"]["steps"] == 40 and d["rate_differs"],
       "the rate of flagged steps", d["b"])
    gemm = row(d["kernels"], "kernel", "gemm")
    ok(d["b"]["slow_steps"] == 24 and "slow_steps" not in d["a"], "the side with slow steps is these", d["b"])
    ok(gemm and near(gemm["ns"], 8e6, 9.6e6) and near(gemm["count"], 8, 8) and
       gemm["variant_a"] == "gemm<float, 128, true>" and gemm["variant_b"] == "gemm<float, 64, true>" and
       gemm["changed"] == "argument 2: 128, now 64", "template arguments are distinguished", gemm)
    relu = row(d["kernels"], "kernel", "at::native::vectorized_elementwise_kernel")
    ok(near(relu["ns"], 5e5, 5e5) and "changed" not in relu, "a kernel that is the same", relu)
    says_which_statistic(f"{ID}:0", f"{ID}:2", "spans, mean per step", "copies, mean per step")
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
    with open(os.path.join(T, "many.folded"), "w", encoding="utf-8") as to:
        to.write("main;other 4000\n")
    for samples in (3, 19, 20):
        with open(os.path.join(T, "few.folded"), "w", encoding="utf-8") as to:
            to.write(f"main;only_here {samples}\n")
        few = diff("many.folded", "few.folded")
        out = run("diff", "many.folded", "few.folded")[1]
        ok(few["b"]["samples"] == samples and f"B {samples}" in out and
           any(x["flagged"] for x in few["functions"]) == (samples > 19) and
           ("too few to compare" in out) == (samples < 20), f"{samples} samples are printed, and whether they are too few", out)


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
        skip("the data-loader pair", f"needs data: {pair}")
        return
    files = sorted(os.path.join(pair, f) for f in os.listdir(pair) if f.endswith(".csv.gz"))
    d = diff(*files)
    # 176 and 126 ms per step, by the data's own description; the same compute
    ok(near(d["steps"]["step"]["median"], 176e6, 126e6, 0.02) and d["steps"]["self time"]["differs"] and
       not d["steps"]["compute"]["differs"], "real traces with and without loader workers", d["steps"])


# What the healthy ranks of the incident do (tests/unit/cli_incident.h), as a baseline has it.
USUAL = {"job": "demo", "role": "train", "rank": -1, "end_unix_ns": 1795229400000000000, "steps": 600, "flagged": 0,
         "latency_ms": 25.0, "latency_mad_ms": 0.1, "self_ms": 10.2, "self_mad_ms": 0.1, "compute_ms": 9.6,
         "comm_ms": 0, "exposed_comm_ms": 13.8, "copy_ms": 0, "idle_ms": 0.4, "launches": 12.0, "cpu_ms": 20.0,
         "samples": 6000, "off_ms": 5.0, "gil_wait_ms": 0, "functions_cut": 0, "kernels_cut": 0,
         "functions": [
             {"function": "main", "kind": "python", "self": 0, "total": 1, "off_ms": 5.0},
             {"function": "train_step", "kind": "python", "self": 0, "total": 1, "off_ms": 5.0},
             {"function": "launch_all", "kind": "python", "self": 50 / 75, "total": 50 / 75, "off_ms": 0},
             {"function": "read_batch", "kind": "python", "self": 0, "total": 20 / 75, "off_ms": 0},
             {"function": "copy_user_generic", "kind": "kernel", "self": 20 / 75, "total": 20 / 75, "off_ms": 0},
             {"function": "libtorch.so+0x5000", "kind": "native", "self": 0, "total": 5 / 75, "off_ms": 0}],
         "kernels": [{"kernel": "_Z4gemmIfLi128ELb1EEvPT_", "per_step": 8, "ms": 8.0},
                     {"kernel": "void at::native::vectorized_elementwise_kernel<4, Relu>(int, Relu)",
                      "per_step": 1, "ms": 0.5}],
         "settings": [{"name": "env:NCCL_ALGO", "value": "Tree"}, {"name": "env:OMP_NUM_THREADS", "value": "8"},
                      {"name": "nccl", "value": "22809"}]}
EVIL = "\x1b[31m\x07\u202e%n"
RUNS = ["00000000000000aa", "00000000000000bb", "00000000000000cc"]


def answers(**more):
    """RUNS of demo, role train, newest last; the last one runs now. Of the job two roles, one a day older."""
    rows = [{"role": "train", "run": run, "updated_unix_ns": 1795229400000000000 + i, "steps": 600}
            for i, run in enumerate(RUNS)]
    other = dict(rows[0], role="stage:1")
    list_of = "/api/v1/baselines?job="
    out = {f"{list_of}demo": {"job": "demo", "present_run": RUNS[2], "baselines": rows},
           f"{list_of}ended": {"job": "ended", "present_run": "", "baselines": rows},
           f"{list_of}first": {"job": "first", "present_run": RUNS[0], "baselines": rows[:1]},
           f"{list_of}two%3Aroles": {"job": "two:roles", "present_run": "", "baselines": [other] + rows},
           f"{list_of}none": {"job": "none", "present_run": "", "baselines": []},
           f"{list_of}evil": {"job": "evil", "present_run": 5, "baselines": [{"role": EVIL, "run": EVIL}, 7, None,
                                                                              {"role": "x", "run": [1]}]},
           f"{list_of}cut": '{"baselines":[{"role":"train","run":', f"{list_of}odd": {"baselines": {"a": 1}}}
    for job, role in (("demo", "train"), ("ended", "train"), ("first", "train"), ("two%3Aroles", "train"),
                      ("two%3Aroles", "stage%3A1")):
        for run in RUNS:
            out[f"/api/v1/baselines/{run}?job={job}&role={role}"] = dict(USUAL, updated_unix_ns=1795229400000000000)
    out.update(more)
    with open(os.path.join(T, "answers.json"), "w", encoding="utf-8") as f:
        json.dump(out, f)


def sketch(name, **changed):
    return {f"/api/v1/sketch?job={name}&rank=3": {**USUAL, "rank": 3, **changed}}


def baselines():
    slower = {"latency_ms": 28.0, "self_ms": 13.1, "compute_ms": 12.5, "cpu_ms": 21, "off_ms": 6.5, "gil_wait_ms": 0.2,
              "kernels": [{"kernel": "_Z4gemmIfLi64ELb1EEvPT_", "per_step": 16, "ms": 10.9},
                          {"kernel": "fresh", "per_step": 1, "ms": 0.6}, {"kernel": "tiny", "per_step": 1, "ms": 0.01}],
              "functions": USUAL["functions"][:2] + [
                  {"function": "spin", "kind": "native", "self": 0.1, "total": 0.1, "off_ms": 0},
                  {"function": "launch_all", "kind": "python", "self": 0.6, "total": 0.6, "off_ms": 1.5}],
              "settings": [{"name": "env:NCCL_ALGO", "value": "Ring"}, {"name": "env:OMP_NUM_THREADS", "value": "8"},
                           {"name": "env:NCCL_DEBUG", "value": EVIL}]}
    answers(**sketch("demo", **slower), **sketch("same"))
    for job, newest in (("demo", RUNS[1]), ("ended", RUNS[2]), ("first", RUNS[0])):
        label = diff(f"baseline:{job}", f"baseline:{job}")["a"]["label"]
        ok(newest in label, f"baseline:{job} is the newest of an earlier run, else the newest", label)
    ok(diff("--job", "demo", "baseline:", "baseline::train:" + RUNS[0])["b"]["kind"] == "baseline",
       "the job by --job, and a run by its id")
    d = diff("baseline:demo", f"{ID}:0")
    ok(not any(m["differs"] for m in d["steps"].values()) and not any(f["flagged"] for f in d["functions"]) and
       "blocked" not in d["steps"] and "kernels" not in d["steps"] and "flagged" not in d["a"],
       "against a healthy rank of an incident: nothing differs", d)
    ok(not any("+0x" in f["function"] for f in d["functions"]), "code without a name is compared with none")
    d = diff("baseline:demo", f"{ID}:2")
    ok({k for k, m in d["steps"].items() if m["differs"]} == {"self time", "compute", "exposed communication", "idle"} and
       near(d["steps"]["self time"]["median"], 10.2e6, 16.8e6), "against the culprit: the steps", d["steps"])
    flagged = {f["function"] for f in d["functions"] if f["flagged"]}
    # 15 of 90 samples are interrupts within launch_all, whose share is 65/90 so, and 50/75 on the peers
    ok(flagged == {"net_rx_action_[k]", "__do_softirq_[k]", "tcp_v4_rcv_[k]", "launch_all (Python)"}, "the functions",
       flagged)
    gemm = row(d["kernels"], "kernel", "gemm")
    ok(near(gemm["ns"], 8e6, 9.6e6) and near(gemm["count"], 8, 8) and gemm["changed"] == "argument 2: 128, now 64",
       "the kernels", gemm)
    d = diff("baseline:demo", "sketch:demo:3")
    ok(near(d["steps"]["blocked"]["mean"], 5e6, 6.5e6) and d["steps"]["blocked"]["differs"] and
       not d["steps"]["on the CPU"]["differs"] and near(d["steps"]["waiting for the GIL"]["mean"], 0, 2e5) and
       near(d["steps"]["launches"]["median"], 12, 12) and d["steps"]["step"]["differs"],
       "against a sketch: the steps, and what only sketches have", d["steps"])
    gemm = row(d["kernels"], "kernel", "gemm")
    ok(near(gemm["ns"], 8e6, 10.9e6) and gemm["count"] == [8, 16], "the calls of a kernel", gemm)
    ok(d["blocked"][0] == {"function": "launch_all (Python)", "ns": [0, 1.5e6]} and
       d["blocked"][1]["ns"] == [5e6, 5e6], "blocked time", d["blocked"])
    flagged = {f["function"] for f in d["functions"] if f["flagged"]}
    # spin dilutes launch_all; of what is not in its list B may have a tenth: libtorch, but not read_batch
    ok(flagged == {"spin", "read_batch (Python)", "copy_user_generic_[k]"}, "functions beyond what a list leaves out",
       flagged)
    ok(d["settings"] == [{"setting": "env:NCCL_ALGO", "a": "Tree", "b": "Ring"},
                         {"setting": "env:NCCL_DEBUG", "a": None, "b": EVIL}], "settings", d["settings"])
    rc, out, err = run("diff", "baseline:demo", "sketch:demo:3")
    ok(rc == 0 and "only in B: fresh" in out and "listed in B only: tiny" in out and
       "only in A: at::native" in out and "(none that all ranks have)" in out and
       not any(c in out for c in "\x1b\x07\u202e"), "as tables, free of control characters", out)
    says_which_statistic("baseline:demo", "sketch:demo:3", "copies, mean per step", "\nblocked, mean ",
                         "blocked in, mean per step")
    d = diff("baseline:demo", "sketch:same:3")
    ok(not any(m["differs"] for m in d["steps"].values()) and not d["settings"] and
       not any(f["delta"] for f in d["functions"]), "a sketch like the baseline: nothing differs", d)
    ok(diff("sketch:same:3", "a.csv")["steps"]["step"]["differs"] and run("diff", "sketch:same:3", "b.folded")[0] == 1,
       "against a trace; with a profile there is nothing to compare")
    ok("stage:1" in diff("baseline:two%3aroles:stage%3A1", "sketch:same:3")["a"]["label"], "names with colons")


def bad_baselines():
    for side, says in (("baseline:two%3Aroles", "name one of its roles: stage:1, train"),
                       ("baseline:two%3Aroles::" + RUNS[0], "name one of its roles: stage:1, train"),
                       ("baseline:demo:x", "no such role; available: train"),
                       ("baseline:demo:train:" + "0" * 16, "no such run; available: " + ", ".join(RUNS)),
                       ("baseline:none", "this job has no baseline"), ("baseline:odd", "this job has no baseline"),
                       ("baseline:unknown", "404"), ("baseline:cut", ""), ("baseline:evil", "roles"),
                       ("sketch:unknown:3", "404")):
        rc, out, err = run("diff", side, "b.folded")
        ok(rc == (3 if side == "baseline:cut" else 1) and says in err and not out and err.count("\n") == 1 and
           not any(c in err for c in "\x1b\x07\u202e"), f"{side}: the status, and why", (rc, err))
    for side in ("baseline:", "baseline:demo:train:xyz", "baseline:demo:train:" + "A" * 16, "baseline:a:b::d",
                 "baseline:" + "j" * 500, "sketch:demo", "sketch:demo:-1", "sketch:demo:3:4", "sketch::3"):
        rc, out, err = run("diff", side, "b.folded")
        ok(rc == 2 and "expected" in err and not out, f"{side[:40]}: status 2", (rc, err))
    f, k = USUAL["functions"][0], USUAL["kernels"][0]
    hostile = [{"latency_ms": -1}, {"latency_ms": "fast"}, {"self_ms": 1e300}, {"functions": None}, {"kernels": {}},
               {"functions": [dict(f, total=1.5)]}, {"functions": [dict(f, self=-0.1)]}, {"functions": [5]},
               {"functions": [dict(f, function=None)]}, {"functions": [dict(f, function="x" * 5000)]},
               {"functions": [f] * 513}, {"kernels": [k] * 193}, {"kernels": [dict(k, ms=[])]}, {"kernels": [[]]},
               {"settings": [{"name": "a"}]}, {"settings": [{"name": "a", "value": "b" * 300}]},
               {"settings": [{"name": "a", "value": "b"}] * 129}]
    for i, change in enumerate(hostile):
        answers(**sketch("evil", **change))
        rc, out, err = run("diff", "sketch:evil:3", "sketch:evil:3")
        ok(rc == 3 and "not a valid sketch" in err and not out, f"a sketch that cannot be, {i}", (rc, err))
    for i, raw in enumerate(("[]", "7", '"x"', "null", "{}", '{"functions":[],"kernels":[],"settings":[],"steps":1e999}',
                             '{"functions":' + "[" * 5000)):
        answers(**{"/api/v1/sketch?job=evil&rank=3": raw})
        rc, out, err = run("diff", "sketch:evil:3", "b.folded")
        ok(rc == 3 and not out, f"no sketch at all, {i}", (rc, err))
    many = [dict(f, function=EVIL + str(i), total=0.2, kind=EVIL) for i in range(512)]
    answers(**sketch("evil", functions=many, samples=1e18, steps=-5, settings=[{"name": EVIL, "value": ""}] * 128,
                     kernels=[dict(k, kernel=EVIL)] * 192))
    rc, out, err = run("diff", "sketch:evil:3", f"{ID}:2", "--limit", "1000")
    ok(rc == 0 and not any(c in out for c in "\x1b\x07\u202e"), "full of odd names: shown, and harmless", (rc, err))
    os.remove(os.path.join(T, "answers.json"))


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
        baselines()
        bad_baselines()
        bad()
    finally:
        server.stdin.close()
        server.wait()
        shutil.rmtree(T)
    return tap.end()


sys.exit(main())
