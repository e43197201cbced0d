#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NCCL's profiler plugin inside the preload, driven in all six versions, and chained to another."""
import os
import re
import subprocess

B = os.path.abspath(os.environ.get("B", "build/gcc"))
cases = 0


def check(good, text, *notes):
    global cases
    cases += 1
    print(("ok" if good else "not ok") + f" {cases} - {text}", flush=True)
    for note in notes if not good else ():
        print("# " + str(note)[:2000].replace("\n", "\n# "))


def run(*cmd, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "NCCL_"))}
    env.update(SYSOM_CUPTI="0", LC_ALL="C.UTF-8", **more)
    p = subprocess.run([f"{B}/parts/preload_peer", f"{B}/lib/libsysom_preload.so", *cmd], env=env,
                       capture_output=True, text=True, timeout=60)
    events = [dict(re.findall(r"([a-z_]+)=(\S*)", line), pid=line.split()[0])
              for line in p.stdout.splitlines() if re.match(r"^\d+ \d+ plugin ", line)]
    rest = [line for line in p.stdout.splitlines() if not re.match(r"^\d+ (\d+|-) ", line)]
    drops = re.search(r"plugin_handle=(\d+)", p.stdout)
    return p.returncode, events, rest, int(drops.group(1)) if drops else -1, p.stderr


rc, events, rest, drops, err = run(f"{B}/test/plugin_caller")
check(rc == 0 and rest == ["mask=0x606 bad=0"], "all six versions take all callbacks", rc, rest, err)
colls = [e for e in events if int(e["type"]) == 1 | 0xfe << 8]
check([(e["seq"], e["value"]) for e in colls[:6]] ==
      [(str(70 + v), str(1000 + v)) for v in (1, 2, 3, 4, 6, 5)],
      "sequence and count are read in each layout", colls)
p2p = [e for e in events if int(e["type"]) == 2 | 0xfe << 8]
check(len(p2p) == 6 and all(e["parent"] == c["handle"] for e, c in zip(p2p, colls)),
      "parents are recorded", p2p)
late = [e for e in events if int(e["type"]) == 1 | 22 << 8]
check(len(late) == 6, "a state recorded after the stop is not lost", late)
check(drops >= 12, "handles that do not match are counted", drops)
steps = [e for e in events if int(e["type"]) & 0xff == 4]
check(not steps, "what the mask does not ask for is not recorded", steps[:3])
rc, events, rest, drops, err = run(f"{B}/test/plugin_caller", SYSOM_NCCL_MASK="0x8")
ops = [e for e in events if int(e["type"]) == 3 | 0xfe << 8]
check(len(ops) == 2 and ops[0]["value"] == "0" and ops[1]["parent"] == "0",
      "another process's parent is not followed", ops)
rc, events, rest, drops, err = run(f"{B}/test/plugin_caller",
                                   SYSOM_NCCL_CHAIN=f"{B}/test/null/chain_plugin.so")
check(rc == 0 and rest[:1] == ["mask=0x60e bad=0"] and
      rest[1:] == ["chain contexts=1 events=3 stops=3 records=1 strangers=0"],
      "a chained plugin gets every callback with its own handles", rest, err)
rc, events, rest, drops, err = run("/bin/sh", "-c", "echo plugin=$NCCL_PROFILER_PLUGIN", SYSOM_NCCL_PLUGIN="1")
check("plugin=STATIC_PLUGIN" in rest, "asked for, the plugin is offered to NCCL", rest)
rc, events, rest, drops, err = run("/bin/sh", "-c", "echo plugin=$NCCL_PROFILER_PLUGIN",
                                   SYSOM_NCCL_PLUGIN="1", NCCL_PROFILER_PLUGIN="theirs")
check("plugin=theirs" in rest, "but never over the user's own", rest)
rc, events, rest, drops, err = run("/bin/sh", "-c", "echo plugin=$NCCL_PROFILER_PLUGIN")
check("plugin=" in rest, "nor unasked", rest)
print(f"1..{cases}")
