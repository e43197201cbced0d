#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sysom finds in a serving engine and what it costs there: the engine of sim/serve on the simulated GPU, loaded
with recorded arrivals and token counts.

  detect  SIGSTOP of a worker and contention for its GPU's multiprocessors (its kernels get slower), at random times
          after a healthy stretch: how many are flagged, how many flags nothing explains, what is kept of the raw stream;
          and when the records of the GPU reached the ring
  cost    time to first token and per output token with nothing, CPU side only, GPU side only and everything, in turn

usage: inference.py BUILD [--quick] [--rounds N] [--seed N] [--only detect|cost]"""
import argparse
import bisect
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
os.environ["B"] = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
from serve_stack import B, Stack, wait_for  # noqa: E402

DATA = os.path.join(os.environ.get("SYSOM_DATA", "../shared/data"), "llm-traffic")
PYTHON = "/usr/bin/python3"
# A step that took so many times what its kernels should was slow, whoever was to blame. Kernels of the simulated GPU
# differ by 0.4%, and a step has two hundredths of host work around them.
SLOW = 1.1
BUSY_NS = 50e6  # a step that begins this much after the one before at most: the engine had work, and was late with it
LATE_NS = 300e6  # what an injection delayed may begin this much after it: the step scheduled meanwhile
RAMP_S, MEASURE_S = 2, 5
# name, flags of sysomd (None: no daemons and no preload), environment of the job
ARMS = (("nothing", None, {}),
        ("CPU side", "--gpu-on false", {"SYSOM_CUPTI": "off"}),
        ("GPU side", "--sampler-mode off --os-on false", {"SYSOM_SPANS": "off"}),
        ("everything", "", {}))


def traffic(name, prompt_scale, output_scale):
    """Options of serve_sim.py for a recorded load; a drawn one where the data are missing."""
    path = os.path.join(DATA, name + ".csv.gz")
    if not os.path.exists(path):
        return "drawn (no recorded traffic here)", ["--prompt-scale", "0.4", "--output-scale", "0.4"]
    return name, ["--traffic", path, "--prompt-scale", str(prompt_scale), "--output-scale", str(output_scale)]


def start(stack, job, truth, options, more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "PYTHON", "LD_PRELOAD"))}
    env = dict(env, SIM_LIB=f"{B}/lib/sim", LC_ALL="C.UTF-8", **(stack.env if stack else {}), **more)
    run = [f"{B}/bin/sysom", "run", "--job", job, "--"] if stack else []
    return subprocess.Popen(run + [PYTHON, "sim/serve_sim.py", "--truth", truth, *options], env=env,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)


def end(job):
    """All its processes: workers whose peer is gone would wait for it."""
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()


def truth_of(path):
    with open(path, encoding="ascii") as f:
        return [json.loads(line) for line in f if line.endswith("\n")]


# ---- detect ----

def drawn_injections(rng, begin, end):
    """(kind, rank, begin, seconds, size), times in seconds from the engine's start."""
    out, at = [], begin
    while at < end:
        kind = ("stop", "contention")[len(out) % 2]
        seconds = rng.uniform(0.15, 0.6) if kind == "stop" else rng.uniform(1, 3)
        out.append((kind, rng.randrange(2), at, seconds, rng.uniform(1.5, 3)))
        at += seconds + rng.uniform(2.5, 5)
    return out


def stop_workers(injections, truth, start_ns):
    pids = {r["rank"]: r["pid"] for r in truth_of(truth) if "worker_step" in r}
    for kind, rank, begin, seconds, _ in injections:
        if kind != "stop":
            continue
        time.sleep(max(0.0, begin - (time.monotonic_ns() - start_ns) / 1e9))
        os.kill(pids[rank], signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pids[rank], signal.SIGCONT)


def flags_of(recording):
    """Steps as sysomd judged them live."""
    p = subprocess.run([f"{B}/bin/sysom", "replay", "window", "--json", "--live", recording], capture_output=True, text=True,
                       check=True)
    rows = [json.loads(line) for line in p.stdout.splitlines()]
    return [dict(r, begin=int(r["begin_ns"]), end=int(r["end_ns"])) for r in rows if r["type"] == "step" and r["rank"] >= 0]


def overlaps(step, begin, end):
    return step["begin"] < end and step["end"] > begin


def steps_of(truth):
    """The engine's own steps of workers, as long as a request had to wait for them."""
    rows, ends = sorted((r for r in truth_of(truth) if "worker_step" in r), key=lambda r: r["begin_ns"]), {}
    for r in rows:
        wait = r["begin_ns"] - ends.get(r["rank"], 0)
        r["took_ns"] = r["end_ns"] - r["begin_ns"] + (wait if wait < BUSY_NS else 0)
        ends[r["rank"]] = r["end_ns"]
    return rows


class Score:
    def __init__(self):
        self.counts = {"stop": [0, 0], "contention": [0, 0]}
        self.flags = self.outside = self.unexplained = self.steps = self.judged = self.unjudged = 0
        self.notes = []

    def add(self, injections, steps, rows, start_ns):
        """rows: the engine's own steps of workers."""
        spans = []
        for kind, rank, begin, seconds, size in injections:
            a, b = start_ns + begin * 1e9, start_ns + (begin + seconds) * 1e9
            hit = [r for r in rows if r["rank"] == rank and r["begin_ns"] < b and r["end_ns"] > a]
            if not hit:
                continue  # the engine was idle
            spans.append((a, b + LATE_NS))
            states = {(s["state"], s["judged"]) for s in steps if overlaps(s, a, b)}
            if ("ready", "used") not in states:
                self.unjudged += 1
                continue
            found = any(s["flagged"] or s["self_flagged"] for s in steps if overlaps(s, a, b))
            self.counts[kind][0] += found
            self.counts[kind][1] += 1
            if not found:
                self.notes.append(f"missed: {kind} rank {rank} at {begin:.1f} s for {seconds:.2f} s, x{size:.2f}")
        slow = [r for r in rows if r["took_ns"] > SLOW * r["expected_ns"]]
        for s in steps:
            self.steps += 1
            self.judged += s["state"] == "ready"
            if not (s["flagged"] or s["self_flagged"]):
                continue
            self.flags += 1
            if any(overlaps(s, a, b) for a, b in spans):
                continue
            self.outside += 1
            if not any(overlaps(s, r["begin_ns"], r["end_ns"]) for r in slow):
                self.unexplained += 1
                near = [r for r in rows if r["rank"] == s["rank"] and overlaps(s, r["begin_ns"], r["end_ns"])]
                took = ", ".join(f"{r['took_ns'] / 1e6:.1f} of {r['expected_ns'] / 1e6:.1f}" for r in near)
                self.notes.append(f"false: rank {s['rank']} at {(s['begin'] - start_ns) / 1e9:.1f} s, {s['latency_ns'] / 1e6:.1f} ms "
                                  f"of {s['expected_ns'] / 1e6:.1f} expected, self {s['self_ns'] / 1e6:.1f} of "
                                  f"{s['expected_self_ns'] / 1e6:.1f}, work {s['work']}; the engine's own: {took} ms")

    def tell(self):
        for kind, (found, of) in self.counts.items():
            print(f"recall of {kind}: {found} of {of} ({100 * found / max(of, 1):.1f}%; aim 100%)")
        print(f"injections in steps that are not judged, as their kind has no model yet: {self.unjudged}")
        print(f"flags: {self.flags} of {self.steps} steps ({self.judged} with a ready model); outside injections {self.outside}, "
              f"of these {self.unexplained} in no step that took {SLOW} times what it should: "
              f"{100 * self.unexplained / max(self.flags, 1):.1f}% false (aim 1%)")
        for text in self.notes:
            print(f"  {text}")


def bytes_of(stack, since=(0, 0)):
    u = stack.get("NODE", "status")["uplink"]
    return u["uploaded_bytes"] - since[0], u["raw_bytes"] - since[1]


def tell_bytes(what, sent, raw, seconds):
    print(f"{what}: {sent / 1e6:.2f} MB sent of {raw / 1e6:.1f} MB: {100 * sent / max(raw, 1):.2f}% kept (paper 1.6%); raw "
          f"{raw / seconds * 3600 / 2**30:.2f}, sent {sent / seconds * 3600 / 2**30:.3f} GiB per hour and instance")


def windows_of(stack):
    """Of all incidents, with times of the monotonic clock."""
    offset = time.time_ns() - time.monotonic_ns()
    listed = stack.get("SYSOM_URL", "incidents?job=detect&limit=1000")["incidents"]
    return [dict(w, begin=int(w["begin_unix_ns"]) - offset, end=int(w["end_unix_ns"]) - offset) for i in listed
            for w in stack.get("SYSOM_URL", f"incidents/{i['id']}")["windows"]]


def tell_windows(what, windows, slow):
    """slow: steps of the engine's own clock."""
    sent = sum(w["bytes"] for w in windows)
    right = [w for w in windows if any(overlaps(w, r["begin_ns"], r["end_ns"]) for r in slow)]
    print(f"{what}: {len(windows)} windows, {sent / 1e3:.0f} kB, {len([w for w in windows if w['records']])} with records; "
          f"{len(right)} hold a step that took {SLOW} times what it should; "
          f"{len([w for w in windows if w['reason'] == 'asked' and w not in right])} of the others were asked for, as a request was late")


def exported_in(pid):
    """Of the device records in the process's ring: all; those that were exported while a thread of it waited for the GPU;
    how long after a wait the others were, in ms; and the share of the time in which a thread waited."""
    ring = json.loads(subprocess.run([f"{B}/bin/sysom-ring", "--json", "--pid", str(pid)], capture_output=True, text=True,
                                     check=True).stdout)
    waits = sorted((e["t"], e["t"] + e["duration"]) for e in ring["events"] if e["kind"] == "sync")
    merged = []
    for begin, end in waits:
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    # what the host lanes still hold; a wait is pushed when it ends
    known = [e["exported"] for e in ring["events"] if e["kind"] in ("kernel", "copy", "graph_exec")
             and merged and merged[0][0] <= e["exported"] <= merged[-1][1]]
    if not known:
        return 0, 0, 0, 0
    begins = [w[0] for w in merged]
    after = [at - merged[bisect.bisect_right(begins, at) - 1][1] for at in known]
    anchors = [e for e in ring["events"] if e["kind"] == "anchor"]
    first, last = min(anchors, key=lambda e: e["t"]), max(anchors, key=lambda e: e["t"])
    ns = (last["monotonic_ns"] - first["monotonic_ns"]) / (last["t"] - first["t"])
    return (len(known), sum(x <= 0 for x in after), statistics.median([x for x in after if x > 0] or [0]) * ns / 1e6,
            sum(end - begin for begin, end in merged) / (merged[-1][1] - merged[0][0]))


def tell_exported(rows):
    for records, inside, after_ms, waiting in rows:
        print(f"  records exported while the host waited for the GPU: {inside} of {records} ({100 * inside / max(records, 1):.1f}%), "
              f"the others {after_ms:.2f} ms after a wait (median); it waited for {100 * waiting:.1f}% of the time")


def detect(work, name, rate, scales, healthy_s, faulty_s, seed, score):
    label, options = traffic(name, *scales)
    injections = drawn_injections(random.Random(seed), healthy_s, healthy_s + faulty_s)
    faults = [x for kind, rank, begin, seconds, size in injections if kind == "contention"
              for x in ("--fault", f"slow:rank={rank}:start={begin:.2f}:seconds={seconds:.2f}:size={size:.2f}")]
    stack, truth = Stack(f"{work}/{name}", f"--record-analysis {work}/{name}.rec"), f"{work}/{name}.jsonl"
    end_s = max(b + s for _, _, b, s, _ in injections) + 3
    job = start(stack, "detect", truth, ["--seconds", "900", "--seed", str(seed), "--requests-per-second", str(rate),
                                      *options, *faults], {})
    wait_for(60, lambda: os.path.exists(truth) and any("worker_step" in r for r in truth_of(truth)))
    start_ns = truth_of(truth)[0]["start_ns"]
    time.sleep(max(0.0, healthy_s - 1 - (time.monotonic_ns() - start_ns) / 1e9))
    healthy = bytes_of(stack)
    stop_workers(injections, truth, start_ns)
    time.sleep(max(0.0, end_s - (time.monotonic_ns() - start_ns) / 1e9))
    faulty = bytes_of(stack, healthy)
    exported = [exported_in(pid) for pid in sorted({r["pid"] for r in truth_of(truth) if "worker_step" in r})]
    r2 = {f"{m['phase']} {r['rank']}": m["r2"] for r in stack.get("NODE", "status")["ranks"] for m in r["models"]
          if m["state"] == "ready"}
    windows = windows_of(stack)
    end(job)
    stack.stop()
    slow = [r for r in steps_of(truth) if r["took_ns"] > SLOW * r["expected_ns"]]
    turn = start_ns + (healthy_s - 1) * 1e9
    print(f"\n{label}: {healthy_s} s healthy, {len(injections)} injections in {faulty_s} s; R2 {r2}")
    tell_bytes("healthy", *healthy, healthy_s)
    tell_windows("healthy", [w for w in windows if w["end"] < turn], slow)
    tell_bytes("with injections", *faulty, end_s - healthy_s)
    tell_windows("with injections", [w for w in windows if w["end"] >= turn], slow)
    tell_exported(exported)
    score.add(injections, flags_of(f"{work}/{name}.rec"), steps_of(truth), start_ns)


# ---- cost ----

def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def one_run(work, arm, concurrency, options):
    """Seconds of each request: to its first token, per further token."""
    name, flags, more = arm
    truth = f"{work}/cost.jsonl"
    if os.path.exists(truth):
        os.unlink(truth)
    stack = Stack(tempfile.mkdtemp(dir=work), flags) if flags is not None else None
    job = start(stack, "cost", truth, ["--concurrency", str(concurrency), "--seconds", str(RAMP_S + MEASURE_S), *options], more)
    status = job.wait()
    if stack:
        stack.stop()
    rows = truth_of(truth)
    since = min(r["begin_ns"] for r in rows if "worker_step" in r) + RAMP_S * 1e9
    rows = [r for r in rows if "request" in r and r["arrival_ns"] > since]
    if status or not rows:
        sys.exit(f"inference.py: {name} at concurrency {concurrency}: status {status}, {len(rows)} requests")
    return ([(r["first_token_ns"] - r["arrival_ns"]) / 1e6 for r in rows],
            [(r["end_ns"] - r["first_token_ns"]) / 1e6 / (r["tokens"] - 1) for r in rows if r["tokens"] > 1])


def ratio_text(ratios):
    """Their median, and the interval from the least to the largest: of n rounds it holds the median with 1 - 2**(1-n)."""
    return f"x{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"


def cost(work, levels, rounds):
    label, options = traffic("azure_llm_2023_code", 0.01, 1)
    print(f"\n{label}, closed loop, {RAMP_S} s to settle and {MEASURE_S} s measured, {rounds} rounds, every second one in reverse "
          f"order; below \"nothing\" the median ratio to it in the same round, in brackets the least and the largest: an interval of "
          f"{100 * (1 - 2 ** (1 - rounds)):.0f}% for the median")
    print(f"{'requests at a time':<19}{'':<11}" + "".join(f"{c:>22}" for c in ("TTFT median", "TTFT P99", "TPOT median", "TPOT P99")))
    for level in levels:
        figures = {arm[0]: [] for arm in ARMS}
        for turn in range(rounds):
            for arm in ARMS[::-1] if turn % 2 else ARMS:
                ttft, tpot = one_run(work, arm, level, options)
                figures[arm[0]].append([quantile(v, q) for v in (ttft, tpot) for q in (0.5, 0.99)])
        for name, rows in figures.items():
            cells = [f"{statistics.median(r[i] for r in rows):.1f} ms" if name == "nothing" else
                     ratio_text([r[i] / n[i] for r, n in zip(rows, figures["nothing"])]) for i in range(4)]
            print(f"{level:<19}{name:<11}" + "".join(f"{c:>22}" for c in cells), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--quick", action="store_true", help="one trace, two loads, and the rounds: about five minutes")
    p.add_argument("--rounds", type=int, default=3, help="of the cost; at least 3, so that a ratio has an interval")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", choices=("detect", "cost"))
    p.add_argument("--healthy", type=float, default=1, help="healthy stretches are so many times as long: what the buckets of "
                   "windows hold at the begin counts less")
    p.add_argument("--keep", help="a new directory for recordings and truth files")
    o = p.parse_args()
    if o.rounds < 3:
        p.error("--rounds: at least 3")
    began, load = time.monotonic(), os.getloadavg()[0]
    print(f"# {time.strftime('%Y-%m-%dT%H:%MZ', time.gmtime())} {os.uname().release} {os.cpu_count()} CPUs, load {load:.1f}, seed {o.seed}")
    with tempfile.TemporaryDirectory() as temporary:
        work = o.keep or temporary
        os.makedirs(work, exist_ok=True)
        os.chmod(work, 0o755)
        if o.only != "cost":
            score = Score()
            detect(work, "mooncake_conversation", 3, (0.03, 0.2), 40 * o.healthy, 40 if o.quick else 80, o.seed, score)
            if not o.quick:
                detect(work, "azure_llm_2023_code", 8, (0.1, 1), 60 * o.healthy, 80, o.seed + 1, score)
            print()
            score.tell()
        if o.only != "detect":
            cost(work, (8, 64) if o.quick else (8, 32, 128, 256), o.rounds)
    print(f"\n{time.monotonic() - began:.0f} s, load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
