#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device records over the simulated GPU: all delivered, each loss with its cause, and no harm to
another user of CUPTI in the same process."""
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

B = os.path.abspath(os.environ.get("B", "build/gcc"))
SO = f"{B}/lib/libsysom_preload.so"
SIM = f"{B}/lib/sim"
cases = 0


def check(good, text, *notes):
    global cases
    cases += 1
    print(("ok" if good else "not ok") + f" {cases} - {text}", flush=True)
    for note in notes if not good else ():
        print("# " + str(note)[:2000].replace("\n", "\n# "))


def run(*caller, preload=True, args=(), **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "SIM_"))}
    env.update(LD_LIBRARY_PATH=SIM, LC_ALL="C.UTF-8", **more)
    cmd = [f"{B}/parts/preload_peer", *args, SO, *caller] if preload else list(caller)
    p = subprocess.run(cmd, env=env, capture_output=True, text=True, timeout=60)
    kinds, fields, rest = collections.Counter(), collections.defaultdict(list), []
    for line in p.stdout.splitlines():
        m = re.match(r"^\d+ (?:\d+|-) ([a-z_]+) ?(.*)$", line)
        if not m:
            rest.append(line)
            continue
        kinds[m.group(1)] += 1
        fields[m.group(1)].append(dict(re.findall(r"([a-z_]+)=(\S*)", m.group(2))))
    return p.returncode, kinds, fields, rest, p.stderr


def losses(fields):
    total = collections.Counter()
    for c in fields["counters"]:
        total.update({k: int(v) for k, v in c.items()})
    return total


def numbers_of(f):
    """Per stream, launches' numbers and kernels' by the order of their correlation, which is the calls'."""
    ids = {s["stream"]: s["stream_id"] for s in f["stream"] if s.get("flags", "0") == "0"}
    launches, kernels = collections.defaultdict(list), collections.defaultdict(list)
    for e in f["launch"]:
        launches[ids.get(e["stream"])].append(int(e["number"]))
    for e in sorted(f["kernel"], key=lambda k: int(k["corr"])):
        if e["node"] == "0":
            kernels[e["stream"]].append(int(e["number"]))
    return {s: sorted(n) for s, n in launches.items()}, dict(kernels)


def test_delivery():
    job = (f"{B}/bin/simjob", "--ranks", "1", "--steps", "4", "--seconds", "0")
    rc, kinds, f, rest, err = run(*job)
    check(rc == 0 and kinds["launch"] > 100 and kinds["kernel"] == kinds["launch"],
          "every launch has its kernel record", rc, kinds, err)
    check(all(k["name"] for k in f["kernel"]) and len({k["name"] for k in f["kernel"]}) > 3,
          "kernels have names")
    launched, ran = numbers_of(f)
    check(launched == ran and all(n == list(range(1, len(n) + 1)) for n in ran.values()),
          "launches and kernels of a stream have the same numbers, from 1", launched, ran)
    streams = {(s["stream_id"], s["context_id"]) for s in f["stream"]}
    check({(k["stream"], k["context"]) for k in f["kernel"]} <= streams,
          "every record's stream and context ids were recorded")
    check({k["clock"] for k in f["kernel"]} == {"2"} and
          all(abs(int(k["t"]) / 1e9 - time.time()) < 60 for k in f["kernel"]),
          "stamps are CUPTI's default clock where setting one is known to break them")
    rc, kinds, f, rest, err = run(*job, SIM_CUPTI_VERSION="130100")
    check({k["clock"] for k in f["kernel"]} == {"1"} and
          all(abs(int(k["t"]) / 1e9 - time.monotonic()) < 60 for k in f["kernel"]),
          "elsewhere they are on the monotonic clock")
    rc, kinds, f, rest, err = run(*job, SIM_CUPTI_VERSION="130100", SYSOM_CLOCK="monotonic")
    late = [int(k["exported"]) - int(k["end"]) for k in f["kernel"]]
    check(late and min(late) >= 0 and max(late) < 2e9, "each record says when it was exported", min(late), max(late))
    rc, kinds, f, rest, err = run(*job, SIM_CUPTI_VERSION="130000")
    check(rc == 0 and [g["cause"] for g in f["gap"]] == ["3"] and not kinds["kernel"],
          "a CUPTI known to crash is left alone, and that is recorded", f["gap"])
    for version in (5, 7, 9):
        rc, kinds, f, rest, err = run(*job, SIM_CUPTI_KERNEL_VERSION=str(version))
        check(kinds["kernel"] == kinds["launch"] and kinds["copy"] > 0,
              f"records of layout {version} are read", kinds)
    rc, kinds, f, rest, err = run(*job, SIM_CUPTI_ZERO_EVERY="10")
    lost = losses(f)
    check(lost["cupti_zero_stamp"] > 0 and kinds["kernel"] + kinds["copy"] +
          lost["cupti_zero_stamp"] >= kinds["launch"], "zeroed stamps are counted", lost, kinds)
    launched, ran = numbers_of(f)
    check(any(len(n) < len(launched[s]) for s, n in ran.items()) and
          all(set(n) <= set(launched[s]) for s, n in ran.items()),
          "what has no use is numbered all the same", launched, ran)
    rc, kinds, f, rest, err = run(*job, SIM_CUPTI_REVERSE_EVERY="10")
    check(losses(f)["cupti_reversed"] > 0, "reversed stamps are counted", losses(f))
    rc, kinds, f, rest, err = run(*job, SIM_CUPTI_DROP_EVERY="10")
    check(losses(f)["cupti_buffer"] > 0, "records that CUPTI dropped are counted", losses(f))
    numbers = [int(k["number"]) for k in f["kernel"]]
    # of the first ten records one was dropped: those before it were counted
    check(numbers and sum(0 < n < 1 << 24 for n in numbers) < 10, "and no number is believed that misses them",
          numbers[:20])
    rc, kinds, f, rest, err = run(*job, SIM_CUPTI_FAIL="39")
    gaps = [(g["cause"], g["detail"]) for g in f["gap"]]
    check(rc == 0 and gaps == [("3", "39")] and kinds["launch"] > 100 and not kinds["kernel"],
          "a refusal is a gap with its code; launches go on", gaps, kinds)
    rc, kinds, f, rest, err = run(*job, SYSOM_CUPTI="off")
    check(rc == 0 and not kinds["kernel"] and kinds["launch"] > 100, "SYSOM_CUPTI=off is obeyed")


BETWEEN_GPUS = """
import ctypes, sys
sys.path.insert(0, "sim")
import simgpu
one, two = simgpu.Gpu(0), simgpu.Gpu(1)
two.kernel("k", 1000)
copy = two.cuda.cuMemcpyDtoDAsync_v2
copy.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
assert copy(two.buffer.value, one.buffer.value, 4321, two.streams[0]) == 0
assert copy(two.buffer.value, two.buffer.value + 8192, 1234, two.streams[0]) == 0
two.synchronize()
"""


def test_copies_between_gpus():
    for what, more in (("by a shared subscription", V2), ("by the older interface", {}),
                       ("in the older layout", dict(SIM_CUPTI_KERNEL_VERSION="9"))):
        rc, kinds, f, rest, err = run(sys.executable, "-c", BETWEEN_GPUS, **more)
        check(rc == 0 and sorted(c["bytes"] for c in f["copy"]) == ["1234", "4321"],
              f"copies within a GPU and between two are recorded {what}", rc, f["copy"], err)


def test_rival(version, *how):
    n = 50
    rc, kinds, f, plain, err = run(f"{B}/test/rival", str(n), *how, preload=False)
    want = [f"seen={n} strange=0 wrong_clock=0 foreign=0 lost=0 results=00000"]
    check(rc == 0 and plain == want, "a job's own profiler works without us", plain, err)
    rc, kinds, f, rest, err = run(f"{B}/test/rival", str(n), *how, SIM_CUPTI_VERSION=version)
    check(rc == 0 and rest == want and not err, "and sees just the same beside us", rest, err)
    check(kinds["launch"] == 3 * n, "launches are recorded all along", kinds)
    check(kinds["kernel"] == 2 * n, "kernels before and after are ours", kinds)
    gaps = [(g["cause"], g["to"] != "0") for g in f["gap"]]
    check(gaps == [("2", False), ("2", True)], "and the gap between is recorded", f["gap"])


V2 = dict(SIM_CUPTI_V2="1", SIM_CUPTI_VERSION="130300", SIM_CUDA_VERSION="13030")
STATE_V2, STATE_LEGACY = "1", "2"


def rung(f):
    """The ladder's rung at the end, as the ring says."""
    return f["counters"][-1]["cupti"] if f["counters"] else None


def test_session():
    job = (f"{B}/bin/simjob", "--ranks", "1", "--steps", "4", "--seconds", "0")
    rc, kinds, f, rest, err = run(*job, **V2)
    check(rc == 0 and rung(f) == STATE_V2 and kinds["kernel"] == kinds["launch"] > 100 and
          kinds["copy"] > 0 and not kinds["gap"],
          "where CUPTI shares subscriptions we have one, and every record comes", rung(f), kinds, err)
    check({k["clock"] for k in f["kernel"]} == {"2"} and
          all(abs(int(k["t"]) / 1e9 - time.time()) < 60 for k in f["kernel"]),
          "and its clock, which nobody may set, is named")
    for what, more in (("an older CUPTI", dict(SIM_CUPTI_VERSION="130299")),
                       ("an older driver", dict(SIM_CUDA_VERSION="13020")),
                       ("a refused subscription", dict(SIM_CUPTI_V2_FAIL="1")),
                       ("a clock of neither kind", dict(SIM_CUPTI_V2_FAIL="2")),
                       ("refused callbacks", dict(SIM_CUPTI_V2_FAIL="3")),
                       ("a refused kind", dict(SIM_CUPTI_V2_FAIL="4")),
                       ("SYSOM_CUPTI=legacy", dict(SYSOM_CUPTI="legacy"))):
        rc, kinds, f, rest, err = run(*job, **{**V2, **more})
        check(rc == 0 and rung(f) == STATE_LEGACY and kinds["kernel"] == kinds["launch"] > 100,
              f"{what}: the unversioned calls serve", rung(f), kinds, err)
    rc, kinds, f, rest, err = run(*job, SIM_CUPTI_VERSION="130300", SIM_CUDA_VERSION="13030",
                                  SIMJOB_CUPTI="libcupti.so.12")
    check(rc == 0 and rung(f) == STATE_LEGACY and kinds["kernel"] == kinds["launch"] > 100,
          "missing functions: the unversioned calls serve", rung(f), kinds, err)
    rc, kinds, f, rest, err = run(*job, **V2, SIM_CUPTI_DROP_EVERY="10")
    check(losses(f)["cupti_buffer"] > 0, "records dropped from a subscription are counted",
          losses(f))


def test_session_rival(how, kernels, gaps, state):
    n = 50
    rc, kinds, f, plain, err = run(f"{B}/test/rival", str(n), *how, preload=False, **V2)
    want = [f"seen={n} strange=0 wrong_clock=0 foreign=0 lost=0 results=00000"]
    check(rc == 0 and plain == want, f"a profiler {how} works without us", plain, err)
    rc, kinds, f, rest, err = run(f"{B}/test/rival", str(n), *how, **V2)
    check(rc == 0 and rest == want and not err, f"{how}: it sees just the same beside us", rest, err)
    check(kinds["launch"] == 3 * n and kinds["kernel"] == kernels * n,
          f"{how}: we see {kernels} of its three phases", kinds, f["gap"])
    check([(g["cause"], g["to"] != "0") for g in f["gap"]] == gaps,
          f"{how}: and the gap is recorded, where there is one", f["gap"])
    check(rung(f) == state, f"{how}: afterwards we are on the rung we should be", rung(f))


def intervals(f, cause):
    """(from, to, detail) of the gaps of a cause that have ended."""
    return [(int(g["t"]), int(g["to"]), int(g["detail"])) for g in f["gap"]
            if g["cause"] == cause and g["to"] != "0"]


def inside(items, spans, margin=0):
    return [i for i in items if any(a + margin < int(i["t"]) < b - margin for a, b, _ in spans)]


MONOTONIC = dict(SYSOM_CLOCK="monotonic", SIM_CUPTI_VERSION="130100")
MS = 1000000


def test_no_reader():
    job = (f"{B}/bin/simjob", "--ranks", "1", "--steps", "75", "--seconds", "0")
    rc, kinds, f, rest, err = run(*job, args=("--late", "4000"), SYSOM_CUPTI_LINGER_MS="300",
                                  **MONOTONIC)
    gaps = intervals(f, "5")
    check(rc == 0 and len(gaps) == 1, "without sysomd the kinds go off, once, and on again with it",
          f["gap"], err)
    # what ran when they went off has its records; what was launched before they came back has none
    check(gaps and len(inside(f["launch"], gaps, 50 * MS)) > 50 and
          not inside(f["kernel"], gaps, 50 * MS), "between the two launches go on and kernels are not recorded")
    check(gaps and any(int(k["t"]) > gaps[0][1] for k in f["kernel"]), "afterwards they are again")
    rc, kinds, f, rest, err = run(*job, args=("--late", "4000"), **MONOTONIC)
    check(rc == 0 and not f["gap"] and kinds["kernel"] >= kinds["launch"] > 1000,
          "a minute is the usual patience", f["gap"], kinds)


def test_governor():
    job = (f"{B}/bin/simjob", "--ranks", "1", "--mix", "serve", "--steps", "600", "--seconds", "7")
    # a budget that anything is above: every step of the ladder is taken
    rc, kinds, f, rest, err = run(*job, SYSOM_CUPTI_BUDGET_PPM="1", SYSOM_CUPTI_WINDOW_MS="500",
                                  **MONOTONIC)
    coarse, off = intervals(f, "8"), [g for g in f["gap"] if g["cause"] == "4"]
    check(rc == 0 and len(coarse) >= 2 and all(50000 <= d <= 500000 for _, _, d in coarse),
          "too dear: graphs by duty cycle first, recorded with its coverage", f["gap"], err)
    check(not [g for g in f["gap"] if g["cause"] == "7"],
          "what CUPTI held when they went off is not held back", f["gap"])
    check(off and len([c for c in coarse if c[1] < int(off[0]["t"]) + 50 * MS]) >= 2,
          "still too dear: off, and that is recorded", f["gap"])
    wholes = f["graph_exec"]
    launched = inside(f["graph_launch"], coarse)
    check(launched and len(wholes) > 0 and
          abs(len(wholes) - len(launched)) <= 2 * len(coarse),
          "each graph launch of that time is one record", len(wholes), len(launched))
    check(all(int(w["end"]) > int(w["t"]) and w["stream"] != "0" for w in wholes),
          "with the graph's begin, end and stream")
    nodes = [k for k in f["kernel"] if k["node"] != "0"]
    between = [k for a, b in zip(coarse, coarse[1:]) for k in nodes if a[1] <= int(k["t"]) <= b[0]]
    check(not inside(nodes, coarse, 60 * MS) and between,
          "kernels inside graphs are recorded between, and only then", len(between))
    check([k for k in inside(f["kernel"], coarse) if k["node"] == "0"],
          "kernels outside graphs all the time")


def true_launches(f):
    """The simulated driver numbers its launches: number -> time, by the order of the calls."""
    times = sorted(int(e["t"]) for e in f["launch"])
    return times, {t: i for i, t in enumerate(times)}


def test_joins_after_gaps():
    """Kernels that all look alike, launched without a pause across gaps."""
    for how, what, cause, more in (("busy", "for a profiler", "2", {}),
                                   ("alone", "for the cost", "4", dict(SYSOM_CUPTI_BUDGET_PPM="1",
                                       SYSOM_CUPTI_WINDOW_MS="100"))):
        truth = tempfile.NamedTemporaryFile("r", prefix="sysom-kinds-")
        rc, kinds, f, rest, err = run(f"{B}/test/rival", "0", how, args=("--join",), SIM_CUPTI_TRUTH=truth.name,
                                      **MONOTONIC, **more)
        on = sorted(int(line) for line in truth)
        gaps = intervals(f, cause)
        check(rc == 0 and rest == ["results=000"] and len(gaps) >= 2,
              f"gaps {what}", rest, f["gap"], err)
        times, order = true_launches(f)
        # the driver's number of a launch less its place in the order of the calls: the same for
        # all, but that a launch under way when the kinds go on may count on either side
        offsets = collections.Counter(int(j["corr"]) - order[int(j["launch"])] for j in f["joined"])
        after = [j for j in f["joined"] if gaps and int(j["launch"]) > gaps[0][1]]
        check(len(after) > 200, f"kernels join after gaps {what}", len(after), kinds)
        if how == "alone":  # no kind but ours goes on
            check(gaps and not any(since < t < end for since, end, _ in gaps for t in on),
                  "a gap ends before the kinds go on", gaps, on)
        # A gap's end is stamped just before the kernel kind goes on; launches between the two may be on either
        # side. They are few, but where the thread that stamps does not get a CPU for a while.
        either = 1
        for _, end, _ in gaps:
            went_on = next(t for t in on if t >= end)
            either = max(either, 1 + sum(end <= t <= went_on for t in times))
        print(f"# {either} launches may be on either side of a gap's end {what}")
        check(offsets and max(offsets) - min(offsets) <= either, f"each one with its own launch {what}",
              offsets.most_common(5), either)


YIELDED = [("2", False), ("2", True)]
test_delivery()
test_session()
test_copies_between_gpus()
test_session_rival(("share",), 3, [], STATE_V2)
test_session_rival(("solo",), 2, YIELDED, STATE_V2)
test_session_rival((), 2, YIELDED, STATE_LEGACY)
test_session_rival(("finalize",), 2, YIELDED, STATE_LEGACY)
for version in ("130001", "130100"):
    test_rival(version)
test_rival("130100", "finalize")
test_no_reader()
test_governor()
test_joins_after_gaps()
print(f"1..{cases}")
