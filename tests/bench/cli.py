#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command line costs: replay of Kineto JSON beside Python's json module (CPU time and memory,
interleaved), and the start of `sysom --version` beside the program with every library.
usage: cli.py BUILD"""
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROUNDS = 7
B = sys.argv[1]


def measure(*cmd):
    """CPU seconds, peak MiB and wall seconds of a command."""
    begin = time.monotonic()
    p = subprocess.Popen(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    if status:
        sys.exit(f"cli.py: {' '.join(cmd)[:200]}: status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, time.monotonic() - begin


def trace(path):
    """80 launches and kernels a step, as torch.profiler writes them; about 27 MB."""
    events, ts = [], 1694128201545123.0
    for step in range(470):
        begin = ts
        for i in range(80):
            corr = step * 80 + i
            shape = [1 + i, 2, 1]
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7,
                           "ts": round(ts, 3), "dur": 4.5,
                           "args": {"External id": corr, "cbid": 211, "correlation": corr}})
            events.append({"ph": "X", "cat": "kernel", "pid": 0, "tid": 7,
                           "name": f"void at::native::vectorized_elementwise_kernel<4, functor_{i % 40}>(int)",
                           "ts": round(ts + 6.25, 3), "dur": 90.125,
                           "args": {"External id": corr, "queued": 0, "device": 0, "context": 1, "stream": 7,
                                    "correlation": corr, "registers per thread": 32, "grid": shape,
                                    "block": [128, 1, 1], "est. achieved occupancy %": 31}})
            ts += 100.5
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 7, "tid": 7,
                       "ts": round(begin, 3), "dur": round(ts - begin, 3), "args": {}})
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events}, f, indent=1)


def real_trace(path):
    """A rank of a real DLRM job, its events repeated to about 30 MB; false without the data."""
    data = os.environ.get("SYSOM_DATA", "../shared/data") + "/dlrm-8rank-v100/dlrm_kineto.tar.gz"
    if not os.path.exists(data):
        return False
    with tarfile.open(data) as tar:
        member = next(m for m in tar.getmembers() if "worker0" in m.name)
        doc = json.load(tar.extractfile(member))
    events = doc["traceEvents"]
    doc["traceEvents"] = [dict(e, ts=e["ts"] + 1e6 * k) if "ts" in e else e for k in range(30) for e in events]
    with open(path, "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1)
    return True


def column(rows, i):
    return statistics.median(r[i] for r in rows)


def beside_python(what, path):
    ours, python = [], []
    for _ in range(ROUNDS):
        ours.append(measure(f"{B}/bin/sysom", "replay", "events", path))
        python.append(measure(sys.executable, "-c", f"import json; json.load(open({path!r}))"))
    print(f"{what}, {os.path.getsize(path) / 2**20:.0f} MiB: sysom replay events {column(ours, 0):.3f} s CPU, "
          f"{column(ours, 1):.1f} MiB; json.load {column(python, 0):.3f} s, {column(python, 1):.1f} MiB: "
          f"x{column(python, 0) / column(ours, 0):.1f} (aim 4)")


with tempfile.TemporaryDirectory() as work:
    made, real = os.path.join(work, "made.json"), os.path.join(work, "real.json")
    # in a process of its own: a child's peak memory begins with its parent's
    if os.fork() == 0:
        trace(made)
        real_trace(real)
        os._exit(0)
    os.wait()
    beside_python("a made-up trace, every event of use", made)
    if os.path.exists(real):
        beside_python("a real trace", real)
front, full = [], []
for _ in range(ROUNDS):
    front.append(measure(f"{B}/bin/sysom", "--version"))
    full.append(measure(f"{B}/bin/sysom-full", "--version"))
print(f"sysom --version {column(front, 2) * 1e3:.1f} ms; with every library {column(full, 2) * 1e3:.1f} ms: "
      f"x{column(full, 2) / column(front, 2):.1f} (aim 10 ms)")
