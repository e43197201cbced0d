#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real CUDA under the preload: same results, joined kernels, found steps, coexistence, overhead.
usage: gpu_check.py BUILD [--sim]; --sim: the harness itself, on the simulated GPU, in short."""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1])
SIM = "--sim" in sys.argv[2:]
JOB = os.path.join(HERE, "sim_job.py" if SIM else "gpu_job.py")
LINGER = ("--linger", 4)  # until the last steps are in sysomd's status
# What is asked of a GPU. The stand-in shares a CPU with others, whose preemptions look like the
# pauses between steps: there it is enough that records are joined and steps are found.
JOINED, STEPS_OFF = (0.9, 0.6) if SIM else (0.99, 0.15)
counts = {"ok": 0, "not ok": 0, "skip": 0}


def report(good, text, skip=None):
    word = "ok" if good or skip else "not ok"
    counts["skip" if skip else word] += 1
    print(f"{word} {sum(counts.values())} - {text}" + (f" # SKIP {skip}" if skip else ""), flush=True)


def environment():
    env = dict(os.environ)
    if SIM:
        env.update(LD_LIBRARY_PATH=f"{BUILD}/lib/sim", SIM_LIB=f"{BUILD}/lib/sim")
    return env


def launch(args, prefix=(), env=None, meanwhile=lambda: None, timeout=240):
    """Runs a job; its JSON line, or what went wrong. Its output goes to files: a pipe that nobody
    reads would stop it."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        p = subprocess.Popen([*prefix, sys.executable, JOB, *map(str, args)], stdout=out, stderr=err,
                             env=env or environment())
        until = time.time() + timeout
        while p.poll() is None and time.time() < until:
            meanwhile()
            time.sleep(0.3)
        if p.poll() is None:
            p.kill()
        code = p.wait()
        out.seek(0)
        err.seek(0)
        lines = [l for l in out.read().splitlines() if l.startswith("{")]
        if code or not lines:
            return {"error": f"exit {code}: {err.read()[-800:]}"}
        return json.loads(lines[-1])


class Stack:
    """A sysomd without an aggregator: windows go to its spool."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="sysom-gpu-")
        self.env = dict(environment(), SYSOM_SOCKET_PATH=f"{self.dir}/s.sock",
                        SYSOM_CONTROL_PATH=f"{self.dir}/c.sock")
        self.log = open(f"{self.dir}/sysomd.log", "w")
        self.p = subprocess.Popen(
            [f"{BUILD}/bin/sysomd", "--socket-path", f"{self.dir}/s.sock", "--control-path",
             f"{self.dir}/c.sock", "--http-listen", "127.0.0.1:0", "--state-dir", f"{self.dir}/state"],
            stdout=self.log, stderr=self.log)
        for _ in range(100):
            if os.path.exists(f"{self.dir}/c.sock"):
                break
            time.sleep(0.1)

    def status(self):
        p = subprocess.run([f"{BUILD}/bin/sysom", "status", "--json"], env=self.env,
                           capture_output=True, text=True)
        for line in p.stdout.splitlines():
            try:
                d = json.loads(line)
            except ValueError:
                continue
            d = d.get("node", d) if isinstance(d.get("node"), dict) else d
            if "ranks" in d:
                return d
        return {"ranks": []}

    def stop(self):
        self.p.terminate()
        return self.p.wait(20)


def watched(stack, args, timeout=240):
    """Runs a job under the preload and keeps the last status in which its rank was seen."""
    last = {}

    def look():
        ranks = stack.status()["ranks"]
        if ranks:
            last.update(ranks[0])

    return launch(args, (f"{BUILD}/bin/sysom", "run", "--"), stack.env, look, timeout), last


def ratio(result, a, b):
    """Median of the paired ratios of neighbouring blocks, with a bootstrap interval. The first
    quarter of a block, in which kinds come on, is left out."""
    blocks, n = [], result["block"]
    for i in range(0, len(result["times"]) - n + 1, n):
        blocks.append((result["states"][i], statistics.median(result["times"][i + n // 4:i + n])))
    pairs = [dict(blocks[i:i + 2]) for i in range(0, len(blocks) - 1, 2)]
    r = [p[a] / p[b] - 1 for p in pairs if a in p and b in p]
    rng = random.Random(1)
    boots = sorted(statistics.median(rng.choices(r, k=len(r))) for _ in range(1000))
    return statistics.median(r) * 100, boots[25] * 100, boots[975] * 100, len(r)


def median_ms(result):
    return 1e3 * statistics.median(result["times"][len(result["times"]) // 4:])


def check_kind(kind, steps):
    plain, again = launch([kind, steps]), launch([kind, steps])
    stack = Stack()
    traced, last = watched(stack, [kind, steps, *LINGER])
    errors = " ".join(r["error"] for r in (plain, again, traced) if "error" in r)
    same = plain.get("result") == again.get("result")
    report(not errors and plain["result"] == traced["result"],
           f"{kind}: results are bit-identical with and without {errors}",
           skip=None if same or errors else "this machine's differ from run to run")
    joined, unmatched = last.get("joined", 0), last.get("unmatched", 0)
    # a launch that the ring lost, on a busy machine, leaves its kernel alone
    lapped = last.get("lost", {}).get("lapped", 0)
    share = joined / max(1, joined + max(0, unmatched - lapped))
    report(share >= JOINED, f"{kind}: {joined} kernel records joined, {100 * share:.2f}%, {lapped} events lapped")
    # five steps warm up; the first ones are needed to find the rest
    report(abs(last.get("steps", 0) - steps - 5) <= STEPS_OFF * steps,
           f"{kind}: {last.get('steps', 0)} steps found of {steps + 5}")
    report(last.get("cupti") in ("legacy", "v2"), f"{kind}: device records by {last.get('cupti')}")
    print(f"# {kind}: lost {last.get('lost', {})}")
    report(stack.stop() == 0, f"{kind}: sysomd ends with 0")


def check_profiler(steps, first, last):
    profile = ("train", steps, "--profile", first, last)
    alone = launch(profile)
    stack = Stack()
    mixed, state = watched(stack, [*profile, *LINGER])
    stack.stop()
    seen, want = mixed.get("profiled_kernels", 0), alone.get("profiled_kernels", 0)
    report("error" not in mixed and want > 100 and abs(seen - want) <= 0.02 * want,
           f"torch.profiler midway sees {seen} device events beside us, {want} alone "
           f"{mixed.get('error', '')}", skip="no profiler here" if SIM and not want else None)
    report(mixed.get("result") == alone.get("result"), "the job goes on, with the same results")
    report(state.get("cupti") in ("legacy", "v2"),
           f"afterwards device records are ours again: {state.get('cupti')}")


def measure_overhead(kind, steps, block):
    stack = Stack()
    r, _ = watched(stack, [kind, steps, "--block", block, "--toggle", f"{stack.dir}/c.sock", 7])
    if "error" in r:
        stack.stop()
        report(False, f"{kind}: overhead run failed: {r['error']}")
        return
    mid, low, high, n = ratio(r, "on", "off")
    report(n >= 10, f"{kind}: {n} pairs of blocks with tracing on and off")
    print(f"# {kind}: tracing on against off: {mid:+.2f}% [{low:+.2f}, {high:+.2f}], {n} pairs, "
          f"median step {1e3 * statistics.median(r['times']):.2f} ms, {r['gpu']}, torch {r['torch']}")
    # Launches of their own, in turn: with the preload, without, and with torch.profiler.
    medians, short = {"preload": [], "plain": [], "torch.profiler": []}, steps // 4
    for _ in range(1 if SIM else 3):
        for how, run in (("preload", lambda: watched(stack, [kind, short])[0]),
                         ("plain", lambda: launch([kind, short])),
                         ("torch.profiler", lambda: launch([kind, short, "--profile", 0, short - 1]))):
            result = run()
            if "error" not in result:
                medians[how].append(median_ms(result))
    stack.stop()
    report(all(medians.values()), f"{kind}: launches with the preload, without, with torch.profiler")
    for how in ("preload", "torch.profiler"):
        if medians[how] and medians["plain"]:
            mine, plain = statistics.median(medians[how]), statistics.median(medians["plain"])
            spread = max(medians["plain"]) / min(medians["plain"]) - 1
            print(f"# {kind}: {how} against none, launches in turn: {100 * (mine / plain - 1):+.2f}% "
                  f"(launches of the same differ by up to {100 * spread:.2f}%)")


def main():
    # steps are found once there are some seconds of them
    for kind, steps in (("train", 600 if SIM else 200), ("decode", 1000 if SIM else 6000)):
        check_kind(kind, steps)
    check_profiler(120, 40, 60)
    for kind, steps, block in (("train", 160 if SIM else 640, 8), ("decode", 320 if SIM else 8192,
                                                                   8 if SIM else 128)):
        measure_overhead(kind, steps, block)
    print(f"{counts['ok']} passed, {counts['not ok']} failed, {counts['skip']} skipped")
    return 1 if counts["not ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
