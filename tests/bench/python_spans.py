#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a span costs: of a Python function that a catalogue names, in each interpreter that is here, and of NVTX.
Each figure is a call with the preload and a sysomd, less the same call without. usage: python_spans.py BUILD"""
import collections
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, "tests/e2e")
os.environ["B"] = sys.argv[1]
import python_spans as spans  # noqa: E402

BUDGET_PYTHON_NS, BUDGET_NVTX_NS = 3000, 1000
ENGINE = ("--seconds", "8", "--requests-per-second", "2")
# Of one decode step of an engine of vLLM's structure, all processes together.
Step = collections.namedtuple("Step", "spans nvtx valued results requests")
SOURCE_PYTHON = "3"


def figures(text):
    return next([float(x) for x in line.split()[1:]] for line in text.splitlines() if line.startswith("timed "))


def decode_step(path, work):
    """Medians of what lies between the begins of two decode steps that follow each other in a worker."""
    status, printed, events = spans.followed(
        work, path, "sim/serve_sim.py", arguments=ENGINE, SIM_LIB=f"{spans.B}/lib/sim",
        SYSOM_SPANS=spans.compiled(work, "vllm.spans", "conf/spans/vllm.yaml"))
    if status:
        sys.exit(printed)
    worker = next(e["pid"] for e in events if e["kind"] == "step_begin")
    begins = [(int(e["t"]), e["phase"]) for e in events if e["pid"] == worker and e["kind"] == "step_begin"]
    found = [(int(e["t"]), e) for e in events if e["kind"] in ("span_begin", "span_end", "span_request")]
    steps = []
    for (begin, phase), (end, _) in zip(begins, begins[1:]):
        if phase != "decode":
            continue
        inside = [e for t, e in found if begin <= t < end]
        began = [e for e in inside if e["kind"] == "span_begin"]
        python_ones = [e for e in began if e["source"] == SOURCE_PYTHON]
        steps.append(Step(
            len(python_ones), len(began) - len(python_ones), sum(has_values(e) for e in python_ones),
            sum(has_values(e) for e in inside if e["kind"] == "span_end"),
            sum(e[f"request{i}"] != "0,0,0" for e in inside if e["kind"] == "span_request" for i in range(3))))
    return Step(*map(statistics.median, zip(*steps)))


def has_values(event):
    return event.get("work", "0,0,0,0") != "0,0,0,0" or event.get("request", "0") != "0"


def python(label, path, work):
    go = f"{work}/go-{label}"
    status, printed, _ = spans.followed(work, path, f"{spans.SPANS}/timed.py", go)
    plain = subprocess.run([path, f"{spans.SPANS}/timed.py", go], env=spans.environment(work), check=True,
                           capture_output=True, text=True).stdout
    if status:
        sys.exit(printed)
    other, span, three, result, unwound, request = (a - b for a, b in zip(figures(printed), figures(plain)))
    step = decode_step(path, work)
    us = (step.spans * span + step.valued * (three - span) + step.results * (result - span) + step.requests * request) / 1e3
    print(f"   {label:16} {span:8.0f} {three:14.0f} {result:14.0f} {other:12.0f} {unwound:13.0f}"
          f" {request:10.0f} {us:11.1f} us: {step.spans:.0f} spans, {step.valued:.0f} with values, {step.results:.0f} with"
          f" those of a result, {step.requests:.0f} requests, {step.nvtx:.0f} NVTX ranges")
    return max(span, three, result)


def nvtx(work):
    include = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
    if not os.path.exists(f"{include}/nvtx3/nvToolsExt.h"):
        print("   NVTX: not measured, no CUDA toolkit")
        return 0
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-w", f"-I{include}", "-o", f"{work}/ranges",
                    "tests/bench/nvtx_ranges.c", "-ldl"], check=True)
    env = {k: v for k, v in spans.environment(work).items() if k != "SYSOM_SOCKET_PATH"}
    out = subprocess.run([spans.PEER, spans.SO, f"{work}/ranges"], env=env, check=True, capture_output=True,
                         text=True).stdout
    plain = subprocess.run([f"{work}/ranges"], env=env, check=True, capture_output=True, text=True).stdout
    text, registered = (a - b for a, b in zip(figures(out), figures(plain)))
    with open(f"{work}/nvtx.yaml", "w", encoding="utf-8") as f:
        f.write("framework: x\nstart: gpu\nspans:\n")
        f.writelines(f"  - name: s{i}\n    nvtx: '*{i} of {{tokens}}'\n" for i in range(10))
    named = subprocess.run([spans.PEER, spans.SO, f"{work}/ranges"], check=True, capture_output=True, text=True,
                           env=dict(env, SYSOM_SPANS=spans.compiled(work, "nvtx.spans", f"{work}/nvtx.yaml"))).stdout
    patterns = figures(named)[0] - figures(plain)[0]
    print(f"   NVTX range: {text:.0f} ns with a text, {registered:.0f} ns with a registered one, {patterns:.0f} ns with a "
          "text and ten patterns")
    return max(text, registered, patterns)


def main():
    with tempfile.TemporaryDirectory() as work:
        spans.compiled(work, "test.spans", f"{spans.SPANS}/catalogue.yaml")
        print("   nanoseconds      per span  with 3 values  of the result   other call  unwound frame   a request"
              "   a decode step of an engine with two workers")
        worst = [python(f"{v}{'-' + k if k else ''}", p, work) for (v, k), p in sorted(spans.interpreters().items())]
        ranges = nvtx(work)
    return 1 if max(worst, default=0) > BUDGET_PYTHON_NS or ranges > BUDGET_NVTX_NS else 0


if __name__ == "__main__":
    sys.exit(main())
