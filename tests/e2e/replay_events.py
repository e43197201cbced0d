#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sysom replay events against truth made another way: time accounting by elementary intervals,
clocks and late ranks that were put in on purpose, damaged input."""
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

SYSOM = os.environ.get("SYSOM_REPLAY") or os.path.join(os.environ.get("B", "build/gcc"), "bin/sysom")
DATA = os.environ.get("SYSOM_DATA", "../shared/data")
HEADER = "ts_ns,dur_ns,kind,device,stream,corr,bytes,name\n"
number = 0


def check(good, text, why=""):
    global number
    number += 1
    print(f"{'ok' if good else 'not ok'} {number} - {text}")
    if not good and why:
        print(f"# {why}")


def replay(*args, data=None):
    p = subprocess.run([SYSOM, "replay", "events", "--json", *args], input=data,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    lines = []
    if p.returncode == 0:
        lines = [json.loads(x) for x in p.stdout.decode().splitlines()]
    return p.returncode, lines, p.stderr.decode()


def of(lines, kind):
    return [x for x in lines if x["type"] == kind]


def measure(intervals, wanted):
    """Time during which wanted(set of kinds that run) holds."""
    edges = sorted({t for b, e, _ in intervals for t in (b, e)})
    total = 0
    for left, right in zip(edges, edges[1:]):
        running = {k for b, e, k in intervals if b <= left and right <= e}
        if wanted(running):
            total += right - left
    return total


def random_step(rng, rows, at, corr, truth):
    intervals = []
    device = at + 20000
    begin = at
    kinds = ["kernel"] * 20 + ["nccl"] * 6 + ["memcpy"] * 3
    rng.shuffle(kinds)
    for n, kind in enumerate(kinds):
        at += rng.randrange(1000, 4000)
        api = "cudaMemcpyAsync" if kind == "memcpy" else "cudaLaunchKernel"
        dur = rng.randrange(500, 900)
        rows.append(f"{at},{dur},api,,,{corr},,{api}\n")
        device += rng.randrange(0, 2500)
        length = rng.randrange(1, 6000)
        name = {"nccl": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
                "memcpy": "Memcpy HtoD (Pinned -> Device)"}.get(kind, f'"k<{n % 7}, int>"')
        rows.append(f"{device},{length},{kind},0,{7 + n % 3},{corr},64,{name}\n")
        intervals.append((device, device + length, kind))
        corr += 1
        last = at + dur
    rows.append(f"{begin},{last + 500 - begin},step,,,1,,ProfilerStep#{len(truth)}\n")
    busy = lambda r: r & {"kernel", "memcpy"}
    truth.append({
        "compute_ns": measure(intervals, lambda r: "kernel" in r),
        "comm_ns": measure(intervals, lambda r: "nccl" in r),
        "copy_ns": measure(intervals, lambda r: "memcpy" in r),
        "exposed_comm_ns": measure(intervals, lambda r: "nccl" in r and not busy(r)),
        "idle_ns": measure(intervals, lambda r: not r),
        "kernels": 26,
    })
    return last + 1000, corr


def accounting():
    rng = random.Random(5)
    rows, truth, at, corr = [], [], 10**15, 100
    for _ in range(40):
        at, corr = random_step(rng, rows, at, corr, truth)
        at += rng.randrange(0, 50000)
    rng.shuffle(rows)
    rc, lines, err = replay("--marks", "use", "-", data=(HEADER + "".join(rows)).encode())
    steps = of(lines, "step")
    wrong = [(i, k, s[k], t[k]) for i, (s, t) in enumerate(zip(steps, truth)) for k in t
             if s[k] != t[k]]
    check(rc == 0 and len(steps) == 40, "every marked step comes out, rows in any order", err)
    check(not wrong, "compute, communication, exposed, copy and idle time match elementary intervals",
          str(wrong[:3]))
    return HEADER + "".join(rows)


def eight_ranks():
    """The 8-rank step with clocks moved by up to 50 ms and 50 ppm, repeated for 6 s of it."""
    folder = os.path.join(DATA, "dlrm-8rank-v100")
    if not os.path.isdir(folder):
        for text in ("clock offsets are recovered", "clock drifts are recovered",
                     "the last rank into a collective is named"):
            global number
            number += 1
            print(f"ok {number} - {text} # SKIP needs data: {folder}")
        return
    rng = random.Random(11)
    offsets = [0] + [rng.uniform(-50e6, 50e6) for _ in range(7)]
    drifts = [0] + [rng.uniform(-50e-6, 50e-6) for _ in range(7)]
    with tempfile.TemporaryDirectory() as tmp:
        names, late, zero = [], [], None
        starts = {}
        for rank in range(8):
            rows = gzip.open(f"{folder}/rank{rank}.events.csv.gz", "rt").read().splitlines()[1:]
            nccl = [r.split(",", 7) for r in rows if ",nccl," in r]
            zero = zero or int(nccl[0][0])
            out = []
            for copy in range(300):
                for f in nccl:
                    t = int(f[0]) - zero + copy * 20_000_000
                    e = t + int(f[1])
                    local = [x + offsets[rank] + drifts[rank] * x for x in (t, e)]
                    b = round(zero + local[0])
                    out.append(f"{b},{round(local[1] - local[0])},nccl,{rank},7,{copy * 1000 + int(f[5]) % 1000},,{f[7]}\n")
                    op = "AllToAll" if "SendRecv" in f[7] else "AllReduce"
                    starts.setdefault((op, copy), {}).setdefault(rank, []).append(t)
            names.append(f"{tmp}/rank{rank}.csv")
            open(names[-1], "w").write(HEADER + "".join(out))
        rc, lines, err = replay(*names)
    clocks = {c["rank"]: c for c in of(lines, "clock")}
    off = [abs(clocks[r]["offset_ns"] - offsets[r]) for r in range(8)] if rc == 0 else [err]
    ppm = [abs(clocks[r]["drift_ppm"] - 1e6 * drifts[r]) for r in range(8)] if rc == 0 else [err]
    # over the trace an error of d ppm moves a time by d * span
    check(rc == 0 and max(off) < 20000, "clock offsets of +-50 ms are recovered within 20 us", str(off))
    check(rc == 0 and max(ppm) * 6e3 < 20000, "drifts of +-50 ppm are recovered within 20 us in 6 s",
          str(ppm))
    good = bad = 0
    for c in of(lines, "collective"):
        per = 3 if c["op"] == "AllReduce" else 5
        at = {r: v[c["seq"] % per] for r, v in starts[(c["op"], c["seq"] // per)].items()}
        order = sorted(at.values())
        if order[-1] - order[-2] < 20000:
            continue
        good += at[c["last_rank"]] == order[-1]
        bad += at[c["last_rank"]] != order[-1]
    check(good > 1000 and bad == 0, "the last rank into a collective is named", f"{good} {bad}")


def formats(text):
    with tempfile.TemporaryDirectory() as tmp:
        plain, packed = f"{tmp}/a.csv", f"{tmp}/a.csv.gz"
        open(plain, "w").write(text)
        gzip.open(packed, "wt").write(text)
        subprocess.run(["zstd", "-q", plain, "-o", f"{tmp}/a.csv.zst"], check=False)
        want = replay(plain)
        check(want[0] == 0 and replay(packed)[1] == want[1], "gzip reads like plain text")
        if os.path.exists(f"{tmp}/a.csv.zst"):
            check(replay(f"{tmp}/a.csv.zst")[1] == want[1], "zstd reads like plain text")
        whole = open(packed, "rb").read()
        open(f"{tmp}/cut.csv.gz", "wb").write(whole[:len(whole) // 2])
        rc, _, err = replay(f"{tmp}/cut.csv.gz")
        check(rc == 2 and "cut.csv.gz:" in err, "a cut-off file is an error with file and line", err)
    for bad, line in ((HEADER + "1,2,kernel,0,7,1,,a\nx,2,kernel,0,7,2,,b\n", 3),
                      (HEADER + '1,2,kernel,0,7,1,,"a\n', 2), ("1,2\n", 1),
                      (HEADER + "1,zz,api,,,1,,cudaLaunchKernel\n", 2), (HEADER + "1,2,kernel\n", 2),
                      (HEADER + "1,2,kernel,0,7,1,,a\n5,-2,kernel,0,7,2,,b\n", 3)):
        rc, _, err = replay("-", data=bad.encode())
        check(rc == 2 and f"-:{line}:" in err, f"malformed input in line {line} is reported", err)
    rc, _, err = replay("-", data=b'{"traceEvents":[{"ph":"X"},\n')
    check(rc == 2 and "-:" in err, "malformed JSON is an error", err)
    rc, _, err = replay("-", data=b"[\x1b]0;x\x07")
    check(rc == 2 and "-:1:" in err and not set("\x1b\x07") & set(err), "what it quotes is harmless to a terminal", err)
    rc, _, _ = replay("/nonexistent/file.csv")
    check(rc == 2, "a missing file is an error")
    rows, at = [HEADER], 1000
    for step in range(6000):  # each kernel returns as often as there are steps
        for k in range(9):
            rows.append(f"{at},{40000 + 7000 * (k * 5 % 9)},kernel,0,7,{9 * step + k + 1},,k{k}\n")
            at += 120000
        at += 900000 + 1000 * (step % 7)
    rc, lines, err = replay("-", data="".join(rows).encode())
    s = of(lines, "summary")
    check(rc == 0 and s and s[0]["steps"] >= 5990, "6,000 steps are found", err or str(s))
    rc, lines, _ = replay("-", data=(HEADER + "1,,kernel,,,,,\n2,1,kernel,-1,-1,-1,,\n7,1,odd,,,,,\n").encode())
    s = of(lines, "summary")
    check(rc == 0 and s and s[0]["rows"] == 3 and s[0]["skipped"]["unknown_kind"] == 1,
          "empty and unknown values are read, unknown kinds are counted", str(lines))


def kineto():
    """The same step as JSON and as CSV."""
    events = []
    for step in range(6):
        for k in range(30):
            corr, t = step * 100 + k, 1e9 + step * 4000 + k * 100
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": t,
                           "dur": 10, "args": {"correlation": corr}})
            events.append({"ph": "X", "cat": "kernel", "name": f"k{k}", "ts": t + 50.5, "dur": 20.25,
                           "args": {"correlation": corr, "device": 0, "stream": 7,
                                    "grid": [2, 3, 4], "block": [32, 1, 1]}})
    text = json.dumps({"traceEvents": events}).encode()
    rc, lines, err = replay("-", data=text)
    steps = of(lines, "step")
    check(rc == 0 and len(steps) >= 4 and all(s["kernels"] == 30 for s in steps[1:]),
          "Kineto JSON gives the steps of its launches", err or str(steps[:2]))
    check(rc == 0 and all(s["compute_ns"] == 30 * 20250 for s in steps[1:]),
          "microseconds with fractions are exact", str(steps[1:2]))


def trace_of(rank, hole, base_us, moved_us=0):
    """A rank's steps of 20 ms, those in the hole left out; times from base_us."""
    events = []
    for step in range(120):
        if hole and hole[0] <= step < hole[1]:
            continue
        begin = 7e9 + moved_us + step * 20000 - base_us
        for k in range(12):
            corr, t = step * 100 + k, begin + k * 1500
            comm = k == 11
            at, dur = t + 100, 1200
            if comm:  # all leave it together
                dur = 1900
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if comm else f"k{k}"
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": t,
                           "dur": 10, "args": {"correlation": corr}})
            events.append({"ph": "X", "cat": "kernel", "name": name, "ts": at + rank * 0.001, "dur": dur,
                           "args": {"correlation": corr, "device": 0, "stream": 7}})
    if hole:
        events.append({"ph": "X", "cat": "sysom_hole", "name": "not recorded",
                       "ts": 7e9 + moved_us + hole[0] * 20000 - base_us, "dur": (hole[1] - hole[0]) * 20000})
    return {"baseTimeNanoseconds": int(base_us * 1000), "traceEvents": events}


def holes_and_bases():
    """As `sysom trace --format kineto` writes the windows of an incident."""
    with tempfile.TemporaryDirectory() as tmp:
        def files(hole, bases, moved_us=0):
            names = [f"{tmp}/rank{r}.json" for r in range(4)]
            for r, name in enumerate(names):
                with open(name, "w", encoding="utf-8") as f:
                    json.dump(trace_of(r, hole, bases[r], moved_us if r == 3 else 0), f)
            return names

        names = files((50, 90), [0] * 4)
        rc, lines, err = replay(*names)
        steps = of(lines, "step")
        across = [s for s in steps if s["latency_ns"] > 500e6]
        check(rc == 0 and len(across) == 4 and all(s["gap"] and not s["flagged"] for s in across),
              "a step across a hole is known as that, and not slow", err or str(across[:1]))
        check(sum(s["gap"] for s in steps) == 4 and of(lines, "summary")[0]["holes"] == 4, "and no other step")
        check(rc == 0 and not of(lines, "finding"), "looking back finds nothing in it", str(of(lines, "finding")))
        rc, _, err = replay("--live", *names)
        check(rc == 2 and "hole" in err, "--live says that it wants a trace without holes", err)
        # without knowing of the hole it is a step of 820 ms
        for name in names:
            with open(name, encoding="utf-8") as f:
                t = json.load(f)
            t["traceEvents"] = [e for e in t["traceEvents"] if e["cat"] != "sysom_hole"]
            with open(name, "w", encoding="utf-8") as f:
                json.dump(t, f)
        rc, lines, _ = replay(*names)
        check(any(s["latency_ns"] > 500e6 and s["flagged"] for s in of(lines, "step")),
              "nobody says so: it is a slow step")
        rc, lines, err = replay(*files(None, [1e6, 1e6 + 2500, 1e6 + 90e3, 1e6 + 0.001]))
        begins = {}
        for s in of(lines, "step"):
            begins.setdefault(s["step"], []).append(int(s["begin_ns"]))
        wide = max(max(b) - min(b) for b in begins.values()) if begins else -1
        check(rc == 0 and len(begins) >= 118 and 0 <= wide < 1000,
              "files that count from different moments lie on one clock", err or str(wide))
        with open(f"{tmp}/a.json", "w", encoding="utf-8") as f:
            json.dump(trace_of(0, None, 0) | {"distributedInfo": {"backend": "nccl", "rank": 6}}, f)
        rc, lines, err = replay(f"{tmp}/a.json")
        check(rc == 0 and {s["rank"] for s in of(lines, "step")} == {6}, "the rank is the one that the file says", err)
        both = {"traceEvents": [e | {"pid": 100000 * (r + 1)} for r in range(2)
                                for e in trace_of(r, None, 0)["traceEvents"]]}
        rc, _, err = replay("-", data=json.dumps(both).encode())
        check(rc == 2 and "several processes" in err and "--rank" in err, "a file of all ranks is not taken for one rank's", err)
        for e in both["traceEvents"]:
            e["pid"] = 7 if e["cat"] == "cuda_runtime" else e["args"]["device"]
        rc, lines, err = replay("-", data=json.dumps(both).encode())
        check(rc == 0 and of(lines, "step"), "devices are no processes", err)
        rc, _, err = replay(*files(None, [6.9e9] * 3 + [1e9], -1e9))
        check(rc == 2 and "baseTimeNanoseconds" in err, "one from long before the first is reported", err)
    rc, lines, err = replay("-", data=json.dumps({"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 1}]}).encode())
    check(rc == 0 and "no kernels" in err, "a file without kernels is reported", err)
    rc, _, err = replay("-", data=b"\x0a\x1c\x08\x06\x0a\x03abc\x00\x01")
    check(rc == 2 and "neither CSV nor Kineto JSON" in err, "a Perfetto file is not taken for a bad CSV", err)


def gappy(seed, folder, ranks, collectives, together, steps=30):
    """A job whose all-reduces run beside the kernels but for every `together`th; the host of one rank leaves
    gaps of half a step for a while. Meanwhile the others wait, and their own idle time lies in that."""
    rng = random.Random(seed)
    slow, first, last = rng.randrange(ranks), 8 + rng.randrange(3), 17 + rng.randrange(3)
    rows, at, corr, busy = [[] for _ in range(ranks)], [1e9] * ranks, [0] * ranks, 0

    def add(r, begin, dur, kind, stream, name):
        corr[r] += 1
        call = "cudaMemcpyAsync" if kind == "memcpy" else "cudaLaunchKernel"
        rows[r].append(f"{begin - 6000:.0f},3000,api,,,{corr[r]},,{call}\n"
                       f"{begin:.0f},{dur:.0f},{kind},{r},{stream},{corr[r]},,{name}\n")

    for step in range(steps):
        holes = rng.sample(range(collectives), collectives // 10) if first <= step <= last else ()
        for r in range(ranks):
            add(r, at[r], 20000, "memcpy", 7, "Memcpy HtoD")
            at[r] += 40000
        for c in range(collectives):
            for r in range(ranks):
                if r == slow and c in holes:
                    at[r] += 40000 * collectives * .5 / len(holes) * rng.uniform(.7, 1.3)
                took = 34000 * rng.gauss(1, .02)
                add(r, at[r], took, "kernel", 7, f"layer_{c % 4}_kernel")
                at[r] += took + 3000
            enter = list(at)
            busy = max(enter + [busy]) + 25000
            for r in range(ranks):
                end = busy + rng.randrange(2000)
                add(r, enter[r], end - enter[r], "nccl", 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
                at[r] = at[r] + 1000 if c % together else end + 3000
        for r in range(ranks):
            for k in range(6):
                add(r, at[r], 80000, "kernel", 7, f"adam_{k}")
                at[r] += 83000
            at[r] += 60000
    names = [f"{folder}/rank{r}.csv" for r in range(ranks)]
    for r, name in enumerate(names):
        with open(name, "w", encoding="utf-8") as f:
            f.write(HEADER + "".join(rows[r]))
    return names, slow, first, last


def who_waits_is_not_slow():
    for ranks, collectives, together, seeds in ((4, 404, 8, range(1, 17)), (2, 40, 20, range(1, 31))):
        wrong = []
        for seed in seeds:
            with tempfile.TemporaryDirectory() as tmp:
                names, slow, first, last = gappy(seed, tmp, ranks, collectives, together)
                _, lines, err = replay(*names)
            said = [(x["ranks"], x["first_step"], x["last_step"]) for x in of(lines, "finding")]
            if len(said) != 1 or said[0][0] != [slow] or max(abs(said[0][1] - first), abs(said[0][2] - last)) > 1:
                wrong.append((seed, slow, first, last, said, err))
        check(not wrong, f"{ranks} ranks, {collectives} all-reduces a step, gaps of half a step: the slow rank, and "
              f"nobody when it is over ({len(seeds)} jobs)", f"{len(wrong)}: {wrong[:3]}")


def main():
    text = accounting()
    eight_ranks()
    formats(text)
    kineto()
    holes_and_bases()
    who_waits_is_not_slow()
    print(f"1..{number}")


main()
