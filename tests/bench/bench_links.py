#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Error of the link model on measured collectives: mean of |predicted - time| / time, over all rows. Held out: rows that
the fit has not seen. Beside it two that are no models of ours: one least-squares line, and, for the same held-out rows, the
straight line between the sizes around each.

usage: bench_links.py BUILD"""
import bisect
import collections
import csv
import glob
import gzip
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("SYSOM_DATA", os.path.join(ROOT, "../shared/data"))
FOLDS = 5  # as sysom replay links


def rows_of(path, key, size, latency):
    """By group: (size, time) in the order of the file."""
    groups = collections.defaultdict(list)
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            groups[tuple(r[k] for k in key.split(","))].append((float(r[size]), float(r[latency])))
    return groups.values()


def by_neighbours(rows):
    """Sum of the relative errors."""
    off = 0
    for fold in range(FOLDS):
        times = collections.defaultdict(list)
        for i, (size, ms) in enumerate(rows):
            if i % FOLDS != fold:
                times[size].append(ms)
        sizes = sorted(times)
        for size, ms in rows[fold::FOLDS]:
            at = min(max(bisect.bisect_left(sizes, size), 1), len(sizes) - 1)
            a, b = sizes[at - 1], sizes[at]
            low, high = statistics.median(times[a]), statistics.median(times[b])
            off += abs(low + (high - low) * (size - a) / (b - a) - ms) / ms
    return off


def main():
    sysom = f"{sys.argv[1]}/bin/sysom"
    sets = [(os.path.basename(f)[:-4], f, "op_name,nccl_dtype,num_gpus", "message_size", "latency")
            for f in sorted(glob.glob(f"{DATA}/nccl-aiconfigurator/*.csv"))]
    sets += [(f"{where} {what} (Vidur)", f"{DATA}/vidur-profiles/network__{where}__{what}.csv.gz", "num_workers,devices_per_node",
              "size", f"time_stats.{what}.median") for where, what in (("a100_dgx", "all_reduce"), ("h100_dgx", "send_recv"))]
    print(f"{'data':34} {'groups':>6} {'rows':>6} {'mape':>8} {'held out':>9} {'neighbours':>10} {'plain':>8}")
    for name, path, key, size, latency in sets:
        if not os.path.exists(path):
            print(f"{name}: no {path} (SYSOM_DATA)")
            continue
        out = subprocess.run([sysom, "replay", "links", "--json", path, "--key", key, "--bytes", size, "--latency", latency,
                              "--latency-unit", "ms"], capture_output=True, text=True, check=True).stdout
        s = json.loads(out.splitlines()[-1])
        near = sum(map(by_neighbours, rows_of(path, key, size, latency))) / s["rows"]
        print(f"{name:34} {s['groups']:6} {s['rows']:6} {s['mape']:8.1%} {s['held_out_mape']:9.1%} {near:10.1%} {s['plain_mape']:8.1%}")


if __name__ == "__main__":
    main()
