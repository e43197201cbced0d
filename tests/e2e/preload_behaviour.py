#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The preload in front of callers of every kind, over libraries that do nothing but count: the job's
results do not change, each call reaches the real function once, and the ring has what happened."""
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

B = os.path.abspath(os.environ.get("B", "build/gcc"))
SO = f"{B}/lib/libsysom_preload.so"
PEER = f"{B}/parts/preload_peer"
CALLER = f"{B}/test/caller"
NULL = f"{B}/test/null"
cases = 0


def check(good, text, *notes):
    global cases
    cases += 1
    print(("ok" if good else "not ok") + f" {cases} - {text}", flush=True)
    if not good:
        for note in notes:
            print("# " + str(note)[:3000].replace("\n", "\n# "))


Event = collections.namedtuple("Event", "pid lane kind f")


def parse(text):
    events, rest = [], []
    for line in text.splitlines():
        m = re.match(r"^(\d+) (\d+|-) ([a-z_]+) ?(.*)$", line)
        if not m:
            rest.append(line)
            continue
        fields = dict(re.findall(r"([a-z_]+)=(\S*)", m.group(4)))
        events.append(Event(int(m.group(1)), m.group(2), m.group(3), fields))
    return events, rest


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SYSOM_") and k != "LD_PRELOAD"}
    env.update(dict(LD_LIBRARY_PATH=NULL, LC_ALL="C.UTF-8", SYSOM_CUPTI="0"), **more)
    return env


def peer(*caller, args=(), **env):
    p = subprocess.run([PEER, *args, SO, *caller], env=environment(**env), capture_output=True,
                       text=True, timeout=60)
    events, rest = parse(p.stdout)
    return p.returncode, events, rest, p.stderr


def bare(*caller):
    p = subprocess.run(caller, env=environment(), capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout.splitlines()


def of(events, kind, pid=None, restated=False):
    return [e for e in events if e.kind == kind and (pid is None or e.pid == pid) and
            bool(int(e.f.get("flags", 0)) & 64) == restated]


def test_callers():
    for mode, want in (("linked", 5 * 2 + 2 + 3), ("dlsym", 6), ("gpa", 12), ("deepbind", 0)):
        plain_rc, plain = bare(CALLER, mode)
        rc, events, rest, err = peer(CALLER, mode, "5", "_exit")
        check((rc, rest, err) == (plain_rc, plain, "") and rc == 0,
              f"{mode}: results, arguments, errno and output are those of a run without the preload",
              plain_rc, plain, rc, rest, err)
        got = [e for e in of(events, "launch")]
        if mode == "deepbind":
            check(True, "deepbind: runs; its look-ups pass by a preload, as the manual says")
            continue
        check(len(got) == want, f"{mode}: each launch is one event", len(got), want)
        failed = [e for e in got if int(e.f["flags"]) & 2]
        check(len(failed) == sum(e.f["func"] == "bad" for e in got) and failed,
              f"{mode}: a refused launch is marked as failed")
        ptsz = [e for e in got if int(e.f["flags"]) & 1]
        check(len(ptsz) == {"linked": 7, "gpa": 6, "dlsym": 0}[mode],
              f"{mode}: per-thread variants are distinguished", len(ptsz))
    mem = []
    rc, events, rest, err = peer(CALLER, "linked", "5", "_exit")
    mem = of(events, "mem")
    check([(e.f["bytes"], e.f["address"], e.f["result"]) for e in mem] ==
          [("4096", "2000", "0"), ("0", "2000", "0"), (str(1 << 40), "0", "2")],
          "allocations carry size, address and result", mem)
    check(len(of(events, "sync")) == 1, "a synchronisation is one event")
    rc, events, rest, err = peer(CALLER, "gpa", "5", "_exit")
    check(not of(events, "mem"), "an old ABI asked for by version is left alone", of(events, "mem"))


def test_quiet():
    rc, plain = bare(CALLER, "quiet")
    rc2, events, rest, err = peer(CALLER, "quiet")
    check(rest == plain and rc == rc2, "a function that the process lacks stays missing", plain, rest)
    look = ("import os,time; time.sleep(.3); print(len(os.listdir('/proc/self/task')),"
            "len(os.listdir('/proc/self/fd')))")
    shapes = []
    for extra in ({}, {"LD_PRELOAD": SO}):
        p = subprocess.run([sys.executable, "-c", look], env=environment(**extra),
                           capture_output=True, text=True)
        shapes.append((p.returncode, p.stdout, p.stderr))
    check(shapes[0] == shapes[1], "python without a GPU gets no thread, descriptor or output", shapes)
    p = subprocess.run(["/bin/true"], env=environment(LD_PRELOAD=SO), capture_output=True)
    check((p.returncode, p.stdout, p.stderr) == (0, b"", b""), "true stays silent")
    if os.path.exists("/usr/bin/strace"):
        counts = []
        for extra in ([], ["-E", f"LD_PRELOAD={SO}"]):
            p = subprocess.run(["strace", "-f", "-c", *extra, "/bin/true"], env=environment(),
                               capture_output=True, text=True)
            counts.append(int(re.search(r"(\d+)\s+(?:\d+\s+)?total", p.stderr).group(1)))
        check(counts[1] - counts[0] <= 16, "true makes a dozen system calls more, for loading the library", counts)
        p = subprocess.run(["strace", "-f", "-qq", "-e", "trace=openat", "-E", f"LD_PRELOAD={SO}",
                            "-E", "SYSOM_SPANS=/nonexistent/spans", CALLER, "linked", "5"],
                           env=environment(SYSOM_SOCKET_PATH="/nonexistent/s"), capture_output=True, text=True)
        opened = [line for line in p.stderr.splitlines() if "/nonexistent/spans" in line]
        check(len(opened) == 1 and "[pid" not in opened[0],
              "the environment's catalogue is read by the thread that first uses the GPU", opened)
    p = subprocess.run([CALLER, "linked", "5"], env=environment(LD_PRELOAD=SO, SYSOM_DISABLE="1"),
                       capture_output=True, text=True)
    check(p.stdout.splitlines() == bare(CALLER, "linked")[1] and not p.stderr,
          "SYSOM_DISABLE=1 changes nothing")
    p = subprocess.run([PEER, SO, CALLER, "linked", "5"], env=environment(SYSOM_JBO="x", SYSOM_JOB="j"),
                       capture_output=True, text=True)
    check(" unknown_variable=SYSOM_JBO\n" in p.stdout and not p.stderr,
          "a misspelt variable is reported to sysomd, and nothing printed", p)
    p = subprocess.run([PEER, SO, CALLER, "linked", "5"], env=environment(SYSOM_JOB="j"),
                       capture_output=True, text=True)
    check("libs=" in p.stdout and "unknown_variable" not in p.stdout, "a right one is not", p)
    p = subprocess.run([CALLER, "linked", "5"],
                       env=environment(LD_PRELOAD=SO, SYSOM_SOCKET_PATH="/nonexistent/s"),
                       capture_output=True, text=True)
    check(p.stdout.splitlines() == bare(CALLER, "linked")[1] and not p.stderr,
          "without sysomd the job runs the same")
    p = subprocess.run(["bash", "-c", f"ulimit -f 1; {CALLER} linked"],
                       env=environment(LD_PRELOAD=SO), capture_output=True, text=True)
    check(p.returncode == 0 and p.stdout.splitlines() == bare(CALLER, "linked")[1],
          "a file size limit below the ring's size does not hurt the job", p)


def test_fork():
    rc, events, rest, err = peer(CALLER, "fork", "4")
    plain = bare(CALLER, "fork", "4")
    check((rc, sorted(rest)) == (plain[0], sorted(plain[1])), "fork: same results", plain, rest, err)
    pids = [e.pid for e in of(events, "attach")]
    launches = [len(of(events, "launch", pid)) for pid in pids]
    check(10 in launches, "the parent goes on after a fork", launches)
    check(len(set(pids)) <= 2, "a forked child never attaches", pids)
    # the exec'd grandchild is short-lived: it attaches if it lives long enough
    strange = [p for p in set(e.pid for e in events) if p and p not in pids]
    check(not strange, "a forked child pushes nothing", strange)


def test_threads():
    rc, events, rest, err = peer(CALLER, "threads", "40")
    got = of(events, "launch")
    c = of(events, "counters")[0].f
    check(rc == 0 and len(got) == 160 * 11, "every launch of 160 short threads is an event", len(got), c)
    check(c["lapped"] == "0" and c["torn"] == "0", "nothing is lapped or torn", c)


LOSSES = ("no_lane", "recursion", "internal", "starting", "switched_off", "lapped")


def test_numbers():
    rc, events, rest, err = peer(CALLER, "defaults", "7")
    shared, own = [], collections.defaultdict(list)
    for e in of(events, "launch"):
        if int(e.f["flags"]) & 2:
            check(e.f["number"] == "0", "a launch that failed has no number", e)
        elif e.f["func"] == "100":
            shared.append(int(e.f["number"]))
        else:
            own[e.lane].append(int(e.f["number"]))
    check(rc == 0 and sorted(shared) == list(range(1, 36)),
          "all threads count one default stream, also before they report their context", shared, err)
    lanes = sorted(n for numbers in own.values() for n in numbers)
    check(lanes == sorted(list(range(1, 8)) * 4 + list(range(8, 15))), "each thread counts its own one", own)


def storm(seed, threads, commands="", **env):
    """One random workload: launches made, recorded, lost by cause."""
    with tempfile.NamedTemporaryFile("w", suffix=".commands") as f:
        f.write(commands)
        f.flush()
        rc, events, rest, err = peer(CALLER, "storm", str(seed), "_exit", args=("--commands", f.name),
                                     SYSOM_TEST_THREADS=str(threads), **env)
    made = [int(line.split("=")[1]) for line in rest if line.startswith("launched=")]
    counters = of(events, "counters")
    if rc or not made or not counters:
        return None, 0, {"rc": rc, "rest": rest, "err": err}
    lost = {name: int(counters[0].f[name]) for name in LOSSES}
    return made[0], len(of(events, "launch")), lost


def test_nothing_lost_uncounted():
    seed = int(os.environ.get("SEED", time.time_ns() % 100000))
    print(f"# SEED={seed}")
    wrong, starting = [], 0
    for i in range(12):
        made, recorded, lost = storm(seed + i, (8, 8, 20, 60)[i % 4])
        starting += lost.get("starting", 0)
        if made != recorded + sum(v for k, v in lost.items() if k != "rc"):
            wrong.append((seed + i, made, recorded, lost))
    check(not wrong, "launched = recorded + lost by cause, in 12 random workloads", *wrong)
    print(f"# launches while another thread built the ring: {starting}, all counted")
    made, recorded, lost = storm(seed, 20, SYSOM_TEST_WARM="1")
    check(made == recorded + lost.get("lapped", 0),
          "20 threads that start together in a warm process have a lane each", made, recorded, lost)
    made, recorded, lost = storm(seed, 250, SYSOM_TEST_WARM="1")
    check(made == recorded + lost.get("lapped", 0), "hundreds of threads have a lane each", made,
          recorded, lost)
    made, recorded, lost = storm(seed, 1000)
    check(made == recorded + sum(lost.values()) if made else False,
          "1,000 threads: what has no lane is counted", made, recorded, lost)
    switches = "".join(f"{20 * i} {'off' if i % 2 else 'on'}\n" for i in range(1, 30))
    made, recorded, lost = storm(seed, 40, switches)
    check(made == recorded + sum(lost.values()) if made else False,
          "launches while tracing is off are counted", made, recorded, lost)


def test_nccl():
    rc, events, rest, err = peer(CALLER, "nccl", "3", "_exit")
    check(rc == 0 and rest == bare(CALLER, "nccl", "3")[1], "nccl: same results", rest, err)
    comms = of(events, "comm")
    born = [e.f for e in comms if e.f["action"] in "123"]
    ids = [c["id"] for c in born]
    check(len(born) == 5 and len(set(ids)) == 5 and "0" not in ids,
          "communicators get an id each; no event for a rank without a colour", born)
    check(born[2]["parent"] == born[0]["id"] and born[2]["nranks"] == "2" and
          born[4]["nranks"] == "2", "splits know their parent, size and rank", born)
    grown = [e.f for e in comms if e.f["action"] == "7"]
    check([c["nranks"] for c in grown] == ["6"] * 3 and grown[0]["rank"] == "2" and
          grown[1]["rank"] == "5" and [c["parent"] for c in grown] == [ids[0], "0", ids[0]],
          "ranks that grow know size, rank and parent", grown)
    check(grown[0]["id"] == grown[1]["id"] not in ids + ["0"] and grown[2]["id"] == "0",
          "with the unique id they agree on the group, without it nothing is claimed", grown)
    again = peer(CALLER, "nccl", "3", "_exit")[1]
    check([e.f["id"] for e in of(again, "comm") if e.f["action"] in "123"] == ids,
          "the ids are the same in another process")
    world = born[0]["comm"]
    colls = [e.f for e in of(events, "coll")]
    reduce = [(c["seq"], c["capture"], c["count"]) for c in colls
              if c["func"] == "1" and c["comm"] == world]
    check(reduce == [("0", "0", "100"), ("1", "0", "101"), ("2", "0", "102"), ("0", "1", "400"),
                     ("1", "1", "401"), ("9", "0", "500")],
          "instances count per communicator and function, replays of a graph included", reduce)
    sends = [(c["peer"], c["seq"]) for c in colls if c["func"] == "9"]
    check(sends == [("1", "0"), ("3", "0"), ("1", "1"), ("3", "1"), ("1", "2"), ("3", "2")],
          "point to point counts per peer", sends)
    check(all(int(c["flags"]) & 32 for c in colls if c["func"] in ("9", "10")),
          "calls inside a group are marked")
    check([c["peer"] for c in colls if c["func"] == "2"] == ["3"] * 3, "a root is recorded")
    launches = of(events, "launch")
    check([int(e.f["flags"]) & 4 for e in launches if e.f["func"] == "77"] == [4],
          "a launch into a capture is marked")
    graphs = [(e.f["action"], e.f["capture"]) for e in of(events, "graph")]
    check(graphs == [("1", "1"), ("2", "1"), ("3", "1"), ("5", "1")], "a graph's life is recorded", graphs)
    check([e.f["grid"] for e in of(events, "graph_launch")] == ["0,1,0", "1,1,0", "2,1,0"],
          "replays are numbered")
    check([e.f["flags"] for e in of(events, "coll") if e.f["comm"] == "0" and e.f["func"] == "1"] ==
          ["2"], "a refused collective is marked as failed")
    check([e.f["action"] for e in comms][-1] == "4", "a destroyed communicator is recorded")
    restated = {e.f["id"] for e in of(events, "comm", restated=True)}
    check(restated <= set(ids) | {c["id"] for c in grown}, "what is alive is recorded again to a sysomd that attaches", restated)


def test_steps():
    rc, events, rest, err = peer(CALLER, "steps", "4")
    begin, end = of(events, "step_begin"), of(events, "step_end")
    check([e.f["work"] for e in begin] == ["0,2.5", "1,2.5", "2,2.5", "3,2.5"] and
          [e.f["index"] for e in end] == ["0", "1", "2", "3"], "explicit steps carry their work",
          events)
    spans = [(e.f["depth"], e.f["name"]) for e in of(events, "span_begin")][:2]
    check(spans == [("0", "outer"), ("1", "inner")], "spans nest", spans)
    script = ("import ctypes,time\nlib=ctypes.CDLL(None)\n"
              "lib.sysom_step_begin((ctypes.c_double*2)(8,3),2)\nlib.sysom_step_end()\ntime.sleep(.2)")
    rc, events, rest, err = peer(sys.executable, "-c", script)
    check([e.f["work"] for e in of(events, "step_begin")] == ["8,3"], "steps work through ctypes",
          events, rest, err)
    rc, events, rest, err = peer(sys.executable, "-c", script.replace("(8,3),2", "(-1,8),2").replace(
        "lib.sysom_step_end", "lib.sysom_step_begin((ctypes.c_double*4)(float('nan'),float('inf'),1e16,1e15),4)\nlib.sysom_step_end", 1))
    counters = [e.f for e in events if e.kind == "counters"]
    check([e.f["work"] + "," + e.f["more"] for e in of(events, "step_begin")] == ["0,8,0,0", "0,0,0,1e+15"] and counters and
          counters[-1]["span_value"] == "4", "work that is no count is 0, and counted", events, rest, err)


def test_commands():
    with tempfile.NamedTemporaryFile("w", suffix=".commands") as f:
        f.write("400 off\n1100 on\n1700 hangup\n")
        f.flush()
        rc, events, rest, err = peer(CALLER, "steady", "3200", args=("--commands", f.name))
    marks = [i for i, e in enumerate(events) if e.kind == "command"]
    states = [(e.f["serial"], e.f["trace"]) for e in of(events, "state")]
    check(("1", "0") in states and ("2", "1") in states, "off and on are answered", states)
    t = [int(e.f["t"]) for e in of(events, "launch")]
    check(rc == 0 and len(marks) == 3, "the job lives through it", rc, err)
    gaps = [e.f["cause"] for e in of(events, "gap")]
    check(gaps.count("1") >= 2, "the gap is recorded when it opens and when it closes", gaps)
    off = [(int(e.f["t"]), int(e.f["to"])) for e in of(events, "gap") if e.f["cause"] == "1" and e.f["to"] != "0"]
    # not near its ends: a launch may be under way, and the ends are converted from another clock
    within = [x for begin, end in off for x in t if begin + (end - begin) / 10 < x < end - (end - begin) / 10]
    check(off and not within, "off stops the events", off, within[:20])
    check(len(of(events, "attach")) == 2, "a process whose sysomd hung up attaches again",
          of(events, "attach"))
    after = [e for e in events[marks[2]:] if e.kind == "launch"]
    check(after, "and is followed again")
    rc, events, rest, err = peer(CALLER, "steady", "1800", args=("--late", "800"))
    check(rc == 0 and of(events, "launch"), "a sysomd that comes late finds the job", err)


def test_descriptors():
    rc, events, rest, err = peer(CALLER, "closefds")
    check(rc == 0 and rest == ["kept=1"], "a job that closes all descriptors keeps its own to itself",
          rc, rest, err)
    check(of(events, "launch"), "and was followed until then")


def test_hammer():
    with tempfile.NamedTemporaryFile("w", suffix=".commands") as f:
        words = ["off", "on", "flush", "hangup", "off", "on", "on", "flush", "hangup", "off", "flush",
                 "on"]
        f.writelines(f"{100 + 120 * i} {w}\n" for i, w in enumerate(words))
        f.flush()
        rc, events, rest, err = peer(CALLER, "hammer", "12", args=("--commands", f.name))
    check(rc == 0 and rest == ["bad=0"], "six threads under switching, hang-ups and forks: unharmed",
          rc, rest, err)
    torn = sum(int(e.f["torn"]) for e in of(events, "counters"))
    wrong = [e for e in of(events, "launch") if e.f["grid"] != "1,1,1" or e.f["api"] != "3"]
    check(not torn and not wrong, "and every event read is whole", torn, wrong[:3])


def test_ends():
    for how, want in (("_exit", 0), ("kill", 129)):
        rc, events, rest, err = peer(CALLER, "steady", "500", how)
        got = of(events, "launch")
        check(rc == want and len(got) % 21 == 0 and len(got) > 21,
              f"{how}: the ring is read to its end", rc, len(got))


for test in (test_callers, test_quiet, test_fork, test_threads, test_numbers, test_nothing_lost_uncounted, test_nccl, test_steps,
             test_commands, test_descriptors, test_hammer, test_ends):
    test()
print(f"1..{cases}")
