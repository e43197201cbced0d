#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NCCL's profiler plugin inside the preload, found by NCCL, driven in all six versions, and in front of a user's."""
import os
import re
import shutil
import subprocess
import tempfile

B = os.path.abspath(os.environ.get("B", "build/gcc"))
cases = 0


def check(good, text, *notes):
    global cases
    cases += 1
    print(("ok" if good else "not ok") + f" {cases} - {text}", flush=True)
    for note in notes if not good else ():
        print("# " + str(note)[:2000].replace("\n", "\n# "))


def run(*cmd, commands="", **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "NCCL_"))}
    env.update(SYSOM_CUPTI="0", LC_ALL="C.UTF-8", **more)
    with tempfile.NamedTemporaryFile("w", suffix=".commands") as file:
        file.write(commands)
        file.flush()
        p = subprocess.run([f"{B}/parts/preload_peer", *(["--commands", file.name] if commands else []),
                            f"{B}/lib/libsysom_preload.so", *cmd], env=env, capture_output=True, text=True, timeout=60)
    p.stdout = p.stdout.replace(B, "B")
    events = [dict(re.findall(r"([a-z_]+)=(\S*)", line), kind=line.split()[2])
              for line in p.stdout.splitlines() if re.match(r"^\d+ \d+ (plugin|transfer|coll|comm) ", line)]
    rest = [line for line in p.stdout.splitlines() if not re.match(r"^\d+ (\d+|-) ", line)]
    drops = {cause: int(n) for cause, n in re.findall(r"\bplugin_([a-z]+)=(\d+)", p.stdout)}
    return p.returncode, events, rest, drops, p.stderr, p.stdout


def counts(drops):
    """Of the user's plugin: not loaded, init failed, errors, calls that have not returned."""
    return [drops.get(c) for c in ("load", "init", "error", "inside")]


def of(events, kind):
    return [e for e in events if e["kind"] == kind]


# ---- what the callbacks record ----
CALLER = f"{B}/test/plugin_caller"
rc, events, rest, drops, err, _ = run(CALLER)
check(rc == 0 and rest == ["mask=0x61e bad=0"], "all six versions take all callbacks", rc, rest, err)
check(not of(events, "plugin"), "callbacks are not recorded one by one unless asked for", of(events, "plugin")[:3])
check(drops.get("handle", 0) >= 12, "handles that do not match are counted", drops)
colls = of(events, "coll")
reduces = [e for e in colls if e["func"] == "1"]
check([(e["seq"], e["count"], e["dtype"]) for e in reduces] ==
      [(str(70 + v), str(1000 + v), "7") for v in (1, 2, 3, 4, 6, 5)],
      "a library without wrappers: function, sequence, count and type are read in each layout", reduces)
sends = [e for e in colls if e["func"] == "9"]
check(len(sends) == 6 and all(e["peer"] == "2" and e["count"] == "50" for e in sends), "and of sends the peer", sends)
comms = {e["id"]: e for e in of(events, "comm")}
check(all(comms.get(h, {}).get("nranks") == "8" and comms[h]["rank"] == "3" for h in ("c4", "c5", "c6")),
      "the communicator's size and rank are recorded", comms)
moves = of(events, "transfer")
check(len(moves) == 1, "one event for all that a channel sends to a peer; receives and empty ones are not recorded", moves)
m = moves[0] if moves else {}
check((m.get("comm"), m.get("func"), m.get("seq"), m.get("rank"), m.get("peer"), m.get("channel")) ==
      ("c5", "5", "99", "3", "3", "1"), "it names the collective, which had stopped, and both ranks", m)
check((m.get("transfers"), m.get("bytes")) == ("5", str(4096 * 15)), "with all transfers and their bytes", m)
check(int(m.get("wait", 0)) > 0 and int(m.get("wait", 0)) > int(m.get("duration", 0)),
      "two at a time are with the network for longer than the operation takes", m)
# another process's parent: its operation sent nothing that we saw, so nothing is recorded
rc, events, rest, drops, err, _ = run(CALLER, SYSOM_NCCL_MASK="0x60e")
raw = of(events, "plugin")
colls = [e for e in raw if int(e["type"]) == 1 | 0xfe << 8]
check([(e["seq"], e["value"]) for e in colls[:6]] == [(str(70 + v), str(1000 + v)) for v in (1, 2, 3, 4, 6, 5)],
      "asked for, callbacks are recorded", colls)
p2p = [e for e in raw if int(e["type"]) == 2 | 0xfe << 8]
check(len(p2p) == 6 and all(e["parent"] == c["handle"] for e, c in zip(p2p, colls)), "with their parents", p2p)
late = [e for e in raw if int(e["type"]) == 1 | 22 << 8]
check(len(late) == 6, "a state recorded after the stop is not lost", late)
check(not [e for e in raw if int(e["type"]) & 0xff == 4], "what was not asked for is not recorded")
ops = [e for e in raw if int(e["type"]) == 3 | 0xfe << 8]
check(len(ops) == 4 and len([e for e in ops if e["parent"] == "0"]) == 1,
      "another process's parent is not followed", ops)

# ---- the channels of kernels, while somebody asks for them ----
def channels(ms, poll_us, commands="", **more):
    """How many there were, from when to when in ms after the first collective, and how often the budget ended them."""
    p = run(CALLER, "channels", str(ms), str(poll_us), commands=commands, **more)
    begin = min((int(e["t"]) for e in of(p[1], "coll")), default=0)
    at = sorted((int(e["t"]) - begin) * 1e-6 for e in of(p[1], "plugin") if int(e["type"]) == 6 | 0xfe << 8)
    over = re.search(r" counters .* channels=(\d+)", p[5])
    return len(at), at[0] if at else 0, at[-1] if at else 0, int(over[1]) if over else -1, p[2]


MONOTONIC = {"SYSOM_CLOCK": "monotonic"}
got = channels(600, 100, **MONOTONIC)
check(got[0] == 0 and got[4] == ["mask=0x61e at the end 0x61e"], "nobody asks for channels of kernels: there are none", got)
got = channels(2500, 100, "600 channels=800\n", **MONOTONIC)
check(got[0] > 20 and got[1] > 300, "they come when somebody asks", got)
check(got[0] and 500 < got[2] - got[1] < 1200 and got[4] == ["mask=0x61e at the end 0x61e"], "and end after the time that was asked for", got)
check(got[3] == 0, "within the budget", got)
got = channels(2500, 100, "300 channels=60000\n1200 channels=0\n", **MONOTONIC)
check(got[0] > 20 and got[2] < 1800, "or when nobody wants them any more", got)
got = channels(3000, 3000, "300 channels=60000\n", SYSOM_CUPTI_WINDOW_MS="5000", **MONOTONIC)
check(got[0] > 20 and got[2] - got[1] < 1200 and got[3] == 1 and got[4] == ["mask=0x61e at the end 0x61e"],
      "a proxy thread that polls for them costs too much: they go off, and that is counted", got)
got = channels(3000, 3000, "300 channels=60000\n", SYSOM_CUPTI_WINDOW_MS="5000", SYSOM_CUPTI_BUDGET_PPM="990000", **MONOTONIC)
check(got[0] > 100 and got[2] > 2000 and got[3] == 0, "unless the budget allows it", got)
got = channels(2500, 3000, SYSOM_NCCL_MASK="0x40", SYSOM_CUPTI_WINDOW_MS="5000", **MONOTONIC)
check(got[0] > 20 and got[1] < 100 and got[2] < 1500 and got[3] == 1 and got[4] == ["mask=0x65e at the end 0x61e"],
      "the same if they were asked for from the start", got)
# ---- which plugin NCCL finds ----
CHAIN = f"{B}/test/null/chain_plugin.so"
DIR = tempfile.mkdtemp()
shutil.copy(CHAIN, f"{DIR}/libnccl-profiler.so")
os.mkdir(f"{DIR}/net")
shutil.copy(CHAIN, f"{DIR}/net/libnccl-net.so")
os.mkdir(f"{DIR}/named")
shutil.copy(CHAIN, f"{DIR}/named/libnccl-profiler-other.so")


def conf(text):
    with open(f"{DIR}/nccl.conf", "w", encoding="utf-8") as f:
        f.write(text)
    return {"NCCL_CONF_FILE": f"{DIR}/nccl.conf"}


def libnccl():
    """The real library and the places of its loader, which needs no GPU; or nothing."""
    path = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64/libnccl.so.2")
    found = [p for p in (path, path.replace("lib64", "lib"), "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
                         "/usr/local/cuda-13.0/lib/libnccl.so.2") if os.path.exists(p)]
    names = subprocess.run(["nm", *found[:1]], capture_output=True, text=True).stdout if found else ""
    at = [re.search(rf"^(\w+) t _Z\d+{f}P8ncclComm$", names, re.M) for f in
          ("ncclProfilerPluginInit", "ncclProfilerPluginFinalize")]
    return [found[0], *[m[1] for m in at]] if all(at) else []


def found(*cmd, **more):
    """What the loader found and what the user's plugin says at its end."""
    rest = run(*cmd, **more)[2]
    return " ".join(line for line in rest if line.startswith(("found=", "own ", "init=", "finalize="))
                    or "contexts=" in line)


LOADER = f"{B}/test/plugin_loader"
OURS = "found=sysom version="
CHAINED = "chain contexts=1"
NONE = {"LD_LIBRARY_PATH": DIR}
check(found(LOADER) == OURS + "6", "with nothing set NCCL finds ours", found(LOADER))
for text, want, more in (
        ("named by the user", OURS + "5 " + CHAINED, {"NCCL_PROFILER_PLUGIN": CHAIN}),
        ("named by its ending", OURS + "5 " + CHAINED, {"NCCL_PROFILER_PLUGIN": "other", "LD_LIBRARY_PATH": f"{DIR}/named"}),
        ("found by its default name", OURS + "5 " + CHAINED, NONE),
        ("named in nccl.conf", OURS + "5 " + CHAINED, conf(f"# mine\nNCCL_DEBUG=WARN\nNCCL_PROFILER_PLUGIN={CHAIN}\n"))):
    got = found(LOADER, **more)
    check(got.startswith(want), f"a plugin {text} is behind ours, in its version", got)
got = found("/bin/sh", "-c", f"LD_PRELOAD=$LD_PRELOAD:{DIR}/net/libnccl-net.so exec {LOADER}")
check(got.startswith(OURS + "5 " + CHAINED), "so is one in the network plugin's library", got)
got = found(f"{LOADER}_static")
check(got == OURS + "4 own init own finalize 1", "and one inside the program", got)
for text, want, more in (
        ("none, as the user wants", "found=none version=0", {"NCCL_PROFILER_PLUGIN": "none"}),
        ("none, as nccl.conf wants", "found=none version=0", conf("NCCL_PROFILER_PLUGIN=none\n")),
        ("none with ours off", "found=none version=0", {"SYSOM_NCCL_PLUGIN": "0"}),
        ("the user's alone with ours off", "found=other version=5 chain contexts=1", {"SYSOM_NCCL_PLUGIN": "off", **NONE}),
        ("the user's alone with tracing off", "found=other version=5 chain contexts=1",
         {"SYSOM_DISABLE": "1", "NCCL_PROFILER_PLUGIN": CHAIN})):
    got = found(LOADER, **more)
    check(got.startswith(want), f"NCCL finds {text}", got)
real = libnccl()
if real:
    got = found(LOADER, *real)
    check(got == "init=0 finalize=0", "the real libnccl initialises and unloads ours", got)
    rest = run(LOADER, *real, NCCL_DEBUG="INFO")[2]
    check(any("Loaded sysom (v" in line for line in rest) and any("Closing profiler plugin sysom" in line for line in rest),
          "and says so", rest)
    got = found(LOADER, *real, NCCL_PROFILER_PLUGIN=CHAIN)
    check(CHAINED in got and "init=0" in got, "with the user's behind it", got)
    got = found(LOADER, *real, **NONE)
    check(CHAINED in got, "and the default one", got)
else:
    cases += 1
    print(f"ok {cases} - the real libnccl # SKIP needs file:/usr/local/cuda/lib64/libnccl.so.2 with its symbols")
got = run(CALLER, NCCL_PROFILER_PLUGIN=CHAIN)[2]
check(got[:1] == ["mask=0x61e bad=0"], "a plugin that NCCL did not look for is not loaded", got)
rc, events, rest, drops, err, _ = run(CALLER, LD_LIBRARY_PATH=DIR)
check([x for x in rest if x.startswith("chain")] == ["chain contexts=1 events=6 stops=6 records=1 strangers=0"],
      "a user's plugin gets every callback with its own handles", rest, err)
check(counts(drops) == [0, 0, 0, 0], "none of its errors is counted where it has none", drops)
got = run(CALLER, "channels", "400", "0", LD_LIBRARY_PATH=DIR, CHAIN_MODE="later")[2]
check("mask=0x61e at the end 0x63e" in got, "one that asks for more later gets it", got)
# ---- a user's plugin that misbehaves ----
# It has version 5 alone, so the caller misses the other five.
rc, events, rest, drops, err, _ = run(CALLER, LD_LIBRARY_PATH=DIR, CHAIN_MODE="refuse")
check(rc == 1 and "bad=5" in " ".join(rest) and len(of(events, "transfer")) == 1 and "chain contexts=0 events=0 stops=0 records=0 strangers=0" in rest,
      "a plugin that refuses to start gets no callback, and ours goes on", rc, rest, err)
check(counts(drops) == [0, 1, 0, 0], "its refusal is counted", drops)
rc, events, rest, drops, err, _ = run(CALLER, LD_LIBRARY_PATH=DIR, CHAIN_MODE="garbage")
chained = [x for x in rest if x.startswith("chain")]
check(rc == 1 and "bad=5" in " ".join(rest) and len(of(events, "transfer")) == 1 and len(chained) == 1 and chained[0].endswith("strangers=0"),
      "handles and results that are nonsense come back to the plugin alone, and reach neither NCCL nor ours", rc, rest, err)
# it answers each start of an event with an error
errors = int(re.search(r" events=(\d+) ", chained[0])[1]) if chained else -1
check(counts(drops) == [0, 0, errors, 0] and errors > 6, "each of its errors is counted", drops, chained)
for mode, text in (("crash", "crashes in its init"), ("unload", "unloads itself in finalize")):
    with_us, without = (run(LOADER, CHAIN_MODE=mode, NCCL_PROFILER_PLUGIN=CHAIN, **more)
                        for more in ({}, {"SYSOM_NCCL_PLUGIN": "off"}))
    check(with_us[0] == without[0], f"a plugin that {text} ends the job as without us", with_us[0], without[0], with_us[2:], without[2:])
    if mode == "crash":
        check(counts(with_us[3]) == [0, 0, 0, 1], "the crash is counted", with_us[3])
rc, events, rest, drops, err, _ = run(LOADER, "again", NCCL_PROFILER_PLUGIN=CHAIN)
check(rc == 0 and len([x for x in rest if x.startswith("mask=")]) == 2 and counts(drops) == [1, 0, 0, 0],
      "one that is gone before the next communicator is not called again, and counted", rc, rest, drops, err)
for text, more in (("without functions", {"NCCL_PROFILER_PLUGIN": f"{B}/test/null/empty_plugin.so"}),
                   ("that is not there", conf(f"NCCL_PROFILER_PLUGIN={DIR}/nowhere.so\n")),
                   ("that is no plugin", conf(f"NCCL_PROFILER_PLUGIN={B}/test/null/libnccl.so.2\n"))):
    rc, events, rest, drops, err, _ = run(LOADER, "stay", **more)
    check(rc == 0 and "found=sysom" in " ".join(rest) and counts(drops) == [1, 0, 0, 0],
          f"a plugin {text} is counted, and NCCL gets ours", rc, rest, drops, err)
for value, want in (("nonsense", 1), (f"{DIR}/nowhere.so", 1), ("libc.so.6", 1), ("x" * 5000, 1), ("none", 0), ("", 0), (CHAIN, 0)):
    # with the last one loaded, NCCL may have asked past our dlsym
    load = f":{CHAIN}" if value == CHAIN else ""
    rc, events, rest, drops, err, _ = run(
        "/bin/sh", "-c", f"LD_PRELOAD=$LD_PRELOAD{load} exec {B}/test/caller nccl 3 stay", LD_LIBRARY_PATH=f"{B}/test/null",
        NCCL_PROFILER_PLUGIN=value)
    check(rc == 0 and counts(drops) == [want, 0, 0, 0] and any(r.startswith("nccl=") for r in rest),
          f"a job whose plugin is '{value[:30]}' and that NCCL did not find: {want} is counted after collectives", rc, rest, drops, err)
rc, events, rest, drops, err, _ = run("/bin/sh", "-c", "echo plugin=$NCCL_PROFILER_PLUGIN", NCCL_PROFILER_PLUGIN="theirs")
check("plugin=theirs" in rest, "the user's variable is not changed", rest)
shutil.rmtree(DIR)
print(f"1..{cases}")
