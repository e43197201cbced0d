#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real NVTX headers find our injection by themselves and their ranges become spans."""
import os
import re
import subprocess
import sys
import tempfile

B = os.path.abspath(os.environ.get("B", "build/gcc"))
INCLUDE = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
CC = os.environ.get("CC", "cc")
if not os.path.exists(f"{INCLUDE}/nvtx3/nvToolsExt.h"):
    print("ok 1 - ranges of the real NVTX become spans # SKIP needs cuda")
    sys.exit(0)
with tempfile.TemporaryDirectory() as work:
    subprocess.run([CC, "-w", f"-I{INCLUDE}", "-o", f"{work}/caller",
                    "tests/conformance/nvtx_caller.c", "-ldl"], check=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "NVTX_"))}
    p = subprocess.run([f"{B}/parts/preload_peer", f"{B}/lib/libsysom_preload.so", f"{work}/caller"],
                       env=env, capture_output=True, text=True, timeout=60)
    spans = [(m[1], m[3], m[2], m[4]) for m in re.finditer(
        r" span_(begin|end) .*span=(\d+) depth=(\d+) source=1 name=(.*)", p.stdout)]
    want = [("begin", "0", "0", "forward"), ("begin", "1", "0", "layer"), ("end", "1", "0", ""),
            ("end", "0", "0", ""), ("begin", "0", "1", "overlapping"), ("begin", "0", "0", "attributes"),
            ("end", "0", "1", ""), ("end", "0", "0", ""),
            ("begin", "0", "0", "execute 3 with 96 tokens"), ("begin", "1", "0", "execute 1 with 1 tokens"),
            ("end", "1", "0", ""), ("end", "0", "0", ""), ("begin", "0", "0", "execute 2 with 64 tokens"),
            ("end", "0", "0", "")]
    good = p.returncode == 0 and spans == want
    print(("ok" if good else "not ok") + " 1 - ranges of the real NVTX become spans")
    if not good:
        print("# " + repr((p.returncode, spans, p.stderr)))
    other = subprocess.run([f"{work}/caller"], env=dict(env, LD_PRELOAD=f"{B}/lib/libsysom_preload.so",
                           NVTX_INJECTION64_PATH="/nonexistent.so"), capture_output=True, text=True)
    good = other.returncode == 0 and not other.stdout
    print(("ok" if good else "not ok") + " 2 - another tool's injection path is left alone")
    with open(f"{work}/x.yaml", "w", encoding="utf-8") as f:
        f.write("framework: x\nstart: gpu\nspans:\n  - name: execute\n    step: true\n"
                "    nvtx: 'execute {batch} with {tokens} tokens'\n")
    subprocess.run([f"{B}/bin/sysom", "spans", "compile", f"{work}/x.yaml", "-o", f"{work}/x.spans"], check=True)
    p = subprocess.run([f"{B}/parts/preload_peer", f"{B}/lib/libsysom_preload.so", f"{work}/caller"],
                       env=dict(env, SYSOM_SPANS=f"{work}/x.spans", NVTX_STEPS="1"), capture_output=True, text=True,
                       timeout=60)
    steps = [line.split(" ", 2)[2] for line in p.stdout.splitlines() if " step_" in line]
    work_of = [re.search(r"work=(\S+)", line)[1] for line in p.stdout.splitlines() if " step_begin" in line]
    named = len(re.findall(r" span_begin .* source=1 name=execute\n", p.stdout))
    good = p.returncode == 0 and len(steps) == 4 and work_of == ["96,3", "64,2"] and named == 2
    print(("ok" if good else "not ok") + " 3 - texts that a catalogue names are steps with their work")
    if not good:
        print("# " + repr((p.returncode, steps, work_of, named, p.stderr)))
    # texts of a megabyte, without an end, with one on the next page, and as long as a name may be; then ranges never closed
    p = subprocess.run([f"{B}/parts/preload_peer", f"{B}/lib/libsysom_preload.so", f"{work}/caller"],
                       env=dict(env, NVTX_HOSTILE="1"), capture_output=True, text=True, timeout=60)
    names = [len(n) for n in re.findall(r" span_begin .* source=1 name=([xy]+)$", p.stdout, re.M)]
    good = p.returncode == 0 and names == [4096] * 3 + [100] * 3 + [3000] * 3 + [4095] * 3
    print(("ok" if good else "not ok") + " 4 - texts that are too long or never end harm nothing")
    if not good:
        print("# " + repr((p.returncode, names, p.stderr)))
    counted = re.search(r"\bspan_text=(\d+)", p.stdout)
    good = bool(counted) and counted[1] == "10"  # two texts, by five calls
    print(("ok" if good else "not ok") + " 5 - and are counted")
    if not good:
        print("# " + repr(counted))
    after = re.findall(r" span_(begin|end) .* depth=1000 source=1 name=(.*)", p.stdout)
    good = after == [("begin", "after"), ("end", "")]
    print(("ok" if good else "not ok") + " 6 - ranges that are never closed hide no later one")
    if not good:
        print("# " + repr(after))
print("1..6")
