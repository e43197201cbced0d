#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real libcudart, shared and static, over a libcuda that notes every look-up: all of them pass
our wrapper, and the launch family is substituted in both stream variants. And the real libnccl:
its symbols against the hook table."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

B = os.path.abspath(os.environ.get("B", "build/gcc"))
SO = f"{B}/lib/libsysom_preload.so"
ROOT = os.environ.get("CUDA_HOME", "/usr/local/cuda")
CC = os.environ.get("CC", "cc")
cases = 0


# Up to NCCL 2.30. What is here starts no work on the GPU and makes or ends no communicator, but for
# the last group.
NOT_WRAPPED = {name: why for why, names in {
    "asks": "ncclGetVersion ncclGetUniqueId ncclGetErrorString ncclGetLastError ncclCommCount "
            "ncclCommCuDevice ncclCommUserRank ncclCommGetAsyncError ncclCommGetUniqueId "
            "ncclCommMemStats ncclCommQueryProperties",
    "memory and registration": "ncclMemAlloc ncclMemFree ncclCommRegister ncclCommDeregister "
                               "ncclCommWindowRegister ncclCommWindowDeregister ncclCommSuspend "
                               "ncclCommResume",
    "reduction operators": "ncclRedOpCreatePreMulSum ncclRedOpDestroy",
    "the device interface's host side": "ncclDevCommCreate ncclDevCommDestroy ncclTeamLsa "
        "ncclTeamRail ncclTeamWorld ncclTeamRankToLsa ncclTeamRankToWorld ncclLLA2ACalcSlots "
        "ncclLLA2ACreateRequirement ncclLsaBarrierCreateRequirement "
        "ncclGinBarrierCreateRequirement ncclGetLsaMultimemDevicePointer ncclGetPeerDevicePointer",
    "debugging": "ncclResetDebugInit ncclResetDebugInitInternal",
    "one-sided; forks have other arguments under the same names": "ncclPutSignal ncclSignal "
                                                                  "ncclWaitSignal",
}.items() for name in names.split()}


def check(good, text, *notes):
    global cases
    cases += 1
    print(("ok" if good else "not ok") + f" {cases} - {text}", flush=True)
    for note in notes if not good else ():
        print("# " + str(note)[:2000].replace("\n", "\n# "))


def skip(text, why):
    global cases
    cases += 1
    print(f"ok {cases} - {text} # SKIP {why}", flush=True)


def library(pattern):
    for place in ("lib", "lib64", "targets/x86_64-linux/lib"):
        found = sorted(glob.glob(f"{ROOT}/{place}/{pattern}"))
        if found:
            return found[-1]
    return None


def run(work, caller, *args):
    env = dict(os.environ, LD_PRELOAD=SO, LD_LIBRARY_PATH=work, SYSOM_CUPTI="0",
               SYSOM_SOCKET_PATH=f"{work}/none")
    return subprocess.run([caller, *args], env=env, capture_output=True, text=True, timeout=60).stdout


def cudart(kind, text):
    head = re.search(r"lookups=(\d+) through=(\d+) first=(\w+)", text)
    if not check_head(kind, head, text):
        return
    slots = re.findall(r"slot (\w+) version=(\d+) flags=(\d+) wrapped=(\d)", text)
    for name in ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch"):
        for flags, variant in (("0", "legacy"), ("2", "per-thread")):
            got = [s[3] for s in slots if s[0] == name and s[2] == flags]
            check(got and set(got) == {"1"}, f"{kind} cudart: {name}, {variant}, is ours", slots)
    inner = [(s[1], s[3]) for s in slots if s[0] == "cuGetProcAddress"]
    check(inner and all(w == "1" for _, w in inner),
          f"{kind} cudart: the look-up function it asks for by look-up is ours", inner)


def check_head(kind, head, text):
    good = head and int(head.group(1)) > 300 and head.group(1) == head.group(2)
    check(good, f"{kind} cudart: each of its {head.group(1) if head else '?'} look-ups passes our wrapper",
          text)
    return head


def nccl():
    lib = library("libnccl.so.2")
    if not lib:
        skip("libnccl: symbols and plugin strings", f"needs file:{ROOT}/lib/libnccl.so.2")
        return
    symbols = set(re.findall(r" [TW] (nccl\w+)$", subprocess.run(
        ["nm", "-D", "--defined-only", lib], capture_output=True, text=True).stdout, re.M))
    hooks = set(re.findall(r"^HOOK\((nccl\w+), NCCL", open("preload/hooks.def").read(), re.M))
    elsewhere = {"ncclAllToAll", "ncclCommGrow"}  # a fork's spelling; 2.29 and later
    check(hooks - elsewhere <= symbols, "libnccl has every NCCL function that we wrap",
          hooks - symbols)
    unknown = symbols - hooks - set(NOT_WRAPPED)
    check(not unknown, "every function of libnccl is wrapped, or there is a reason why not", unknown)
    check(not hooks & set(NOT_WRAPPED), "and not both", hooks & set(NOT_WRAPPED))
    text = subprocess.run(["strings", "-n", "12", lib], capture_output=True, text=True).stdout \
        if shutil.which("strings") else open(lib, "rb").read().decode("latin1")
    names = set(re.findall(r"ncclProfiler_v\d+", text))
    check({"ncclProfiler_v1", "ncclProfiler_v5"} <= names, "libnccl looks for profiler plugins by name",
          names)
    check("STATIC_PLUGIN" in text, "libnccl knows a plugin inside the process")


def main():
    shared, static = library("libcudart.so.1[0-9]"), library("libcudart_static.a")
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([CC, "-O1", "-shared", "-fPIC", "-o", f"{work}/libcuda.so.1",
                        "tests/conformance/all_cuda.c", "-ldl"], check=True)
        if shared:
            subprocess.run([CC, "-DSHARED", "-o", f"{work}/shared",
                            "tests/conformance/cudart_caller.c", "-ldl"], check=True)
            cudart("shared", run(work, f"{work}/shared", shared))
        else:
            skip("shared cudart", "needs cuda")
        if static:
            subprocess.run([CC, "-o", f"{work}/static", "tests/conformance/cudart_caller.c", static,
                            "-ldl", "-lrt", "-lpthread"], check=True)
            cudart("static", run(work, f"{work}/static"))
        else:
            skip("static cudart", "needs cuda")
    nccl()


main()
print(f"1..{cases}")
