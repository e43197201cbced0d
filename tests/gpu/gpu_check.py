#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real CUDA under the preload: same results, joined kernels, found steps, coexistence, overhead."""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = sys.argv[1]
counts = {"ok": 0, "not ok": 0}


def report(good, text):
    word = "ok" if good else "not ok"
    counts[word] += 1
    print(f"{word} {sum(counts.values())} - {text}", flush=True)


def job(args, prefix=(), env=None, timeout=240):
    p = subprocess.run([*prefix, sys.executable, os.path.join(HERE, "gpu_job.py"), *map(str, args)],
                       capture_output=True, text=True, timeout=timeout, env=env)
    lines = [l for l in p.stdout.splitlines() if l.startswith("{")]
    if p.returncode or not lines:
        return {"error": f"exit {p.returncode}: {p.stderr[-800:]}"}
    return json.loads(lines[-1])


class Stack:
    """A sysomd without an aggregator: windows go to its spool."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="sysom-gpu-")
        self.env = dict(os.environ, SYSOM_SOCKET_PATH=f"{self.dir}/s.sock",
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


def watched(stack, args, seconds):
    """Runs a job under the preload and keeps the last status in which its rank was seen."""
    cmd = [f"{BUILD}/bin/sysom", "run", "--", sys.executable, os.path.join(HERE, "gpu_job.py"),
           *map(str, args)]
    p = subprocess.Popen(cmd, env=stack.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    last, until = None, time.time() + seconds
    while p.poll() is None and time.time() < until:
        ranks = stack.status()["ranks"]
        last = ranks[0] if ranks else last
        time.sleep(0.5)
    out, err = p.communicate(timeout=60)
    lines = [l for l in out.splitlines() if l.startswith("{")]
    return (json.loads(lines[-1]) if lines else {"error": err[-800:]}), last


def ratio(result, a, b):
    """Median of the paired ratios of neighbouring 8-step blocks, with a bootstrap interval."""
    blocks = []
    for i in range(0, len(result["times"]) - 7, 8):
        blocks.append((result["states"][i], statistics.median(result["times"][i + 1:i + 8])))
    pairs = [dict(blocks[i:i + 2]) for i in range(0, len(blocks) - 1, 2)]
    r = [p[a] / p[b] - 1 for p in pairs if a in p and b in p]
    rng = random.Random(1)
    boots = sorted(statistics.median(rng.choices(r, k=len(r))) for _ in range(1000))
    return statistics.median(r) * 100, boots[25] * 100, boots[975] * 100, len(r)


def main():
    for kind, steps in (("train", 60), ("decode", 400)):
        plain = job([kind, steps])
        stack = Stack()
        traced, last = watched(stack, [kind, steps], 200)
        report(plain.get("result") is not None and plain.get("result") == traced.get("result"),
               f"{kind}: results are bit-identical with and without "
               f"{plain.get('error', '')}{traced.get('error', '')}")
        joined, unmatched = (last or {}).get("joined", 0), (last or {}).get("unmatched", 0)
        share = joined / max(1, joined + unmatched)
        report(share >= 0.99, f"{kind}: {joined} kernel records joined, {100 * share:.2f}%")
        report(abs((last or {}).get("steps", 0) - steps) <= 0.15 * steps,
               f"{kind}: {(last or {}).get('steps', 0)} steps found of {steps}")
        report(stack.stop() == 0, f"{kind}: sysomd ends with 0")
    stack = Stack()
    mixed, last = watched(stack, ["train", 120, "--profile", 40, 60], 200)
    report(mixed.get("profiled_kernels", 0) > 100 and "error" not in mixed,
           f"torch.profiler midway saw {mixed.get('profiled_kernels', 0)} kernels; the job went on")
    stack.stop()
    for kind, steps in (("train", 640), ("decode", 2560)):
        stack = Stack()
        r, _ = watched(stack, [kind, steps, "--toggle", f"{stack.dir}/c.sock", 7], 280)
        stack.stop()
        if "error" in r:
            report(False, f"{kind}: overhead run failed: {r['error']}")
            continue
        mid, low, high, n = ratio(r, "on", "off")
        print(f"# {kind}: tracing on against off: {mid:+.2f}% [{low:+.2f}, {high:+.2f}], {n} pairs, "
              f"median step {1e3 * statistics.median(r['times']):.2f} ms, {r['gpu']}, torch {r['torch']}")
        p = job([kind, steps // 4, "--profile", steps // 8, steps // 4 - 1])
        if "times" in p:
            half = steps // 8
            base = statistics.median(p["times"][:half])
            print(f"# {kind}: torch.profiler on against off: "
                  f"{100 * (statistics.median(p['times'][half:-1]) / base - 1):+.2f}%")
    print(f"{counts['ok']} passed, {counts['not ok']} failed, 0 skipped")
    return 1 if counts["not ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
