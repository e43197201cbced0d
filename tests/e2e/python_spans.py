#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python functions of a catalogue are spans in every interpreter that is here, and the programs notice nothing.
PYTHONS names further interpreters."""
import glob
import os
import re
import subprocess
import sys
import tempfile

import tap

B = os.path.abspath(os.environ.get("B", "build/gcc"))
SO = f"{B}/lib/libsysom_preload.so"
PEER = f"{B}/parts/preload_peer"
SPANS = os.path.abspath("tests/python/spans")
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
MONITORING = (3, 12)
CONTINUES = 0x80  # EVENT_FLAG_CONTINUES
HASH_SEED = int(re.search(r"HASH_SEED (0x[0-9a-f]+)", open("base/hash.h", encoding="ascii").read()).group(1), 16)


def interpreters():
    """version -> path: of PYTHONS, PATH and pyenv; and Debian's own beside them."""
    home = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    paths = os.environ.get("PYTHONS", "").split()
    paths += [f"{d}/python{v}" for v in VERSIONS for d in os.environ.get("PATH", "").split(":")]
    paths += sorted(glob.glob(f"{home}/versions/3.*/bin/python3")) + ["/usr/bin/python3"]
    found = {}
    for path in paths:
        if not os.access(path, os.X_OK) or "/shims/" in path:
            continue
        p = subprocess.run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"],
                           capture_output=True, text=True, check=False)
        version, _, real = p.stdout.strip().partition(" ")
        if p.returncode == 0 and version in VERSIONS:
            found.setdefault((version, "debian" if real.startswith("/usr/bin/") else ""), path)
    return found


def environment(work, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "PYTHON", "LD_PRELOAD"))}
    env.update(PYTHONPATH=SPANS, PYTHONDONTWRITEBYTECODE="1", SYSOM_SPANS=f"{work}/test.spans", LC_ALL="C.UTF-8",
               SYSOM_SOCKET_PATH=f"{work}/none.sock")
    env.update(more)
    return env


def compiled(work, name, *yaml):
    subprocess.run([f"{B}/bin/sysom", "spans", "compile", *yaml, "-o", f"{work}/{name}"], check=True)
    return f"{work}/{name}"


def followed(work, python, script, go=None, arguments=(), **env):
    """Runs it below the test's sysomd; the GO file comes once `idle` is a span. Its status, what it printed, its
    events."""
    env = {k: v for k, v in environment(work, **env).items() if k != "SYSOM_SOCKET_PATH"}
    args = [PEER, SO, python, script, *arguments] + ([go] if go else [])
    with subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
        events, printed = [], []
        for line in p.stdout:
            m = re.match(r"^(\d+) (\d+|-) ([a-z_]+) ?(.*)$", line)
            if not m:
                printed.append(line)
                continue
            fields = dict(re.findall(r"([a-z_0-9]+)=(\S*)", m.group(4)))
            fields.update(pid=int(m.group(1)), lane=m.group(2), kind=m.group(3))
            events.append(fields)
            if go and fields["kind"] == "span_begin" and fields.get("name") == "idle" and not os.path.exists(go):
                open(go, "w", encoding="ascii").close()
    return p.returncode, "".join(printed), events


def spans_of(events):
    """(name, depth, begin event, end event) of each span, in the order of their ends; the count of unpaired ones."""
    done, stacks, unpaired = [], {}, 0
    for e in events:
        stack = stacks.setdefault((e["pid"], e["lane"]), [])
        if e["kind"] == "span_begin":
            stack.append(e)
        elif e["kind"] == "span_end" and stack:
            b = stack.pop()
            unpaired += b["depth"] != e["depth"]
            done.append((b["name"], int(b["depth"]), b, e))
        elif e["kind"] == "span_end":
            unpaired += 1
    return done, unpaired + sum(map(len, stacks.values()))


def check_spans(label, version, events):
    monitoring = tuple(map(int, version.split("."))) >= MONITORING
    main = next((e["pid"] for e in events if e["kind"] == "attach"), 0)  # it came first
    # the last thread is killed with the process, in the middle
    last = max((int(e["lane"]) for e in events if e["kind"].startswith("span_") and e["pid"] == main), default=0)
    done, unpaired = spans_of([e for e in events if e["pid"] == main and e["lane"] == "1"])
    by_name = {}
    for name, depth, begin, end in done:
        by_name.setdefault(name, []).append((depth, begin, end))
    tap.ok(unpaired == 0 and last >= 1, f"{label}: the main thread's spans nest and end", (unpaired, last))
    steps = by_name.get("step", [])
    first = steps[0] if steps else None
    tap.ok(first and first[1]["work"] == "64,3,0,0" and (first[1]["process"], first[1]["thread"]) == ("2", "2"),
           f"{label}: a span has its work, and its process's and thread's kind", first)
    schedule = by_name.get("schedule", [(0, {}, {})])[0]
    tap.ok(schedule[0] == 1 and schedule[2].get("work") == "64,3,0,0", f"{label}: work of a result comes with the end",
           schedule)
    forward = by_name.get("forward", [(0, {}, {})])[0]
    requests = {f[1]["request"] for f in by_name.get("forward", []) if f[1]["request"] != "0"}
    tap.ok(forward[1].get("work") == "64,0,7,0" and [int(r, 16) for r in requests] == [hash_of("request-1")], f"{label}: arguments by keyword; a request's id",
           (forward, requests))
    tap.ok([d for d, _, _ in by_name.get("failing", [])][:3] == [2, 1, 0], f"{label}: spans end with an exception",
           by_name.get("failing"))
    tap.ok(max((d for d, _, _ in by_name.get("recursive", [(0, 0, 0)]))) == 23,
           f"{label}: no more than 24 levels are recorded", [d for d, _, _ in by_name.get("recursive", [])][:80])
    tap.ok([d for d, _, _ in by_name.get("beneath", [])] == [11],
           f"{label}: ends of levels that are not recorded end no other", by_name.get("beneath"))
    kinds = ["static", "class", "decorated", "late", "postponed", "strange", "gc"] + (["generator", "coroutine", "nested"] if monitoring else [])
    tap.ok(all(by_name.get(k) for k in kinds), f"{label}: each kind of function is followed: {', '.join(kinds)}",
           sorted(by_name))
    wrong = {"odd"} | (set() if monitoring else {"generator", "coroutine", "nested"})
    tap.ok(not wrong & set(by_name), f"{label}: what is no function, or can't be followed, is not", sorted(by_name))
    marks = [e for e in events if e["pid"] == main and e["kind"].startswith("step_")]
    tap.ok(marks and marks[0]["kind"] == "step_begin" and marks[0]["work"] == "64,3" and
           len([m for m in marks if m["kind"] == "step_begin"]) == len([m for m in marks if m["kind"] == "step_end"]),
           f"{label}: a span that is a step marks it, with its work", marks[:4])
    check_requests(label, by_name, [e for e in events if e["pid"] == main], marks)
    counters = [e for e in events if e["kind"] == "counters" and e["pid"] == main]
    # hostile(): 4, and 1 each of a proxy and a view; forward(): a long id; planned(): 2 of too many items, 8 of bad ones, 5 of no plain dict, 3 of a list of names
    # an int and a class; before 3.12 also a generator, a coroutine and a nested function; and a span without any function
    tap.ok(counters and (counters[0]["span_value"], counters[0]["span_function"]) == ("25", "3" if monitoring else "6"),
           f"{label}: values that are no counts, functions that can't be followed, and spans without a function, are counted",
           [(c.get("span_value"), c.get("span_function")) for c in counters])
    others = {e["pid"] for e in events if e["kind"] == "attach"} - {main}
    tap.ok(others and all(e["kind"] != "span_begin" or e["pid"] in others | {main} for e in events),
           f"{label}: spawned children are followed, too; forked ones are not", others)


def requests_of(events, span):
    """(id, tokens, done) of a span's requests, in their order."""
    begin = span[1]
    packs = [e for e in events if e["kind"] == "span_request" and all(e[k] == begin[k] for k in ("name", "t", "lane"))]
    found = [tuple(int(x, 16 if i == 0 else 10) for i, x in enumerate(p[f"request{k}"].split(",")))
             for p in packs for k in range(3)]
    return [f for f in found if f[0]]


def hash_of(text):
    h = HASH_SEED
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001b3 % 2 ** 64
    return h | 1


def check_requests(label, by_name, events, marks):
    planned = by_name.get("planned", [])
    got = [requests_of(events, s) for s in planned]
    a, b, c = map(hash_of, "abc")
    tap.ok(got[:3] == [[(a, 300, 0), (b, 1, 0)], [(a, 1, 0), (b, 1, 0), (c, 1, 0)], [(a, 20, 0), (b, 2, 0), (c, 0, 0)]],
           f"{label}: each request of a span has its tokens", got[:3])
    tap.ok([s[1]["work"] for s in planned[:3]] == ["301,2,16,0", "3,3,16,0", "22,3,16,0"],
           f"{label}: a value adds up numbers and lengths", [s[1]["work"] for s in planned])
    tap.ok(len(got) > 6 and len(got[3]) == 1024 and got[3][5] == (hash_of("5"), 2, 0),
           f"{label}: the first 1,024 requests of a span are kept", [len(g) for g in got])
    tap.ok(got[4:] == [[(hash_of("good"), 7, 0)], [], [(hash_of("listed"), 0, 0), (hash_of("names"), 0, 0)]],
           f"{label}: what is no request or no count is left out, what is no plain container is not read", got[4:])
    answers = [requests_of(events, s) for s in by_name.get("answered", [])]
    tap.ok(answers == [[(hash_of("r0"), 0, 0), (hash_of("r1-0123abcg"), 1, 0), (hash_of("r2"), 2, 1), (hash_of("-00000000"), 3, 0)], []],
           f"{label}: requests of a result without the engine's suffix, and which of them end", answers)
    phases = [m["phase"] for m in marks if m["kind"] == "step_begin" and m.get("phase")]
    tap.ok(phases == ["mixed", "decode", "prefill"], f"{label}: a step's phase follows from its decodes", phases)
    flags = [int(m["flags"]) & CONTINUES for m in marks if m["kind"] == "step_begin" and m.get("phase")]
    tap.ok(flags == [0, CONTINUES, CONTINUES], f"{label}: a step with requests of the one before goes on", flags)


def check_behaviour(label, version, python, work):
    go = f"{work}/go-{label}"
    status, printed, events = followed(work, python, f"{SPANS}/behave.py", go)
    plain = subprocess.run([python, f"{SPANS}/behave.py", go], env=environment(work), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
    same = (status, printed) == (plain.returncode, plain.stdout) and printed.endswith("end\n")
    differing = [x for x in zip(printed.splitlines(), plain.stdout.splitlines()) if x[0] != x[1]]
    tap.ok(same, f"{label}: calls, errors, objects, tools, generators, threads, processes, collector, interpreters: as without",
           (status, plain.returncode, differing[:3], printed[-300:]))
    check_spans(label, version, events)


def check_bystanders(label, python, work):
    def run(script, **env):
        p = subprocess.run([python, *script], env=environment(work, **env), capture_output=True, text=True, check=False,
                           timeout=60)
        return p.returncode, p.stdout, p.stderr
    plain = run([f"{SPANS}/bystander.py"])
    tap.ok(run([f"{SPANS}/bystander.py"], LD_PRELOAD=SO) == plain and plain[0] == 0,
           f"{label}: a process that imports nothing of a catalogue gets no thread, descriptor or callback", plain)
    os.path.exists(f"{work}/fifo") or os.mkfifo(f"{work}/fifo")
    with open(f"{work}/bad.spans", "w", encoding="ascii") as f:
        f.write("sysom-spans 1\nspan\tx\t0\t0\n")
    script = ["-c", "import spanned.engine, _json, os; print(len(os.listdir('/proc/self/task')), os.getpid() > 0)"]
    for bad in ("fifo", "bad.spans", "none.spans", "."):
        got = run(script, LD_PRELOAD=SO, SYSOM_SPANS=f"{work}/{bad}")
        tap.ok(got == run(script), f"{label}: a catalogue that is {bad} is left alone", got)
    with open(f"{work}/steps.py", "w", encoding="ascii") as f:
        f.write("import ctypes, time; ctypes.CDLL(None).sysom_step_begin(None, 0); time.sleep(0.5)")
    _, _, events = followed(work, python, f"{work}/steps.py", SYSOM_SPANS=f"{work}/bad.spans")
    attached = [e for e in events if e["kind"] == "attach"]
    tap.ok(attached and attached[0].get("spans") == "bad:2", f"{label}: sysomd is told of it, with the line", events[:3])
    short = ["-c", "import spanned.engine, _json; spanned.engine.recursive(3)"]
    got = {run(short, LD_PRELOAD=SO) for _ in range(25)}
    tap.ok(got == {(0, "", "")}, f"{label}: processes end at once, in the middle of being looked at", got)


def check_torch(python, work):
    text = "PyTorch: an optimizer's step, a loader's next and backward, of the catalogue as it is"
    if subprocess.run([sys.executable, "tests/needs.py", "module:torch"], check=False, capture_output=True).returncode:
        tap.skip(text, "needs module:torch")
        return
    with open("conf/spans/pytorch.yaml", encoding="utf-8") as f, open(f"{work}/torch.yaml", "w", encoding="utf-8") as g:
        g.write(f.read().replace("start: gpu", "start: import") +
                '  - {name: idle, functions: ["spanned.engine:idle"]}\n')
    spans = compiled(work, "torch.spans", f"{work}/torch.yaml")
    status, printed, events = followed(work, python, f"{SPANS}/train.py", f"{work}/go-torch", SYSOM_SPANS=spans)
    done, unpaired = spans_of([e for e in events if e["lane"] == "1"])
    counts = {n: sum(1 for s in done if s[0] == n) for n in ("Optimizer.step", "DataLoader.next", "backward")}
    tap.ok(status == 0 and unpaired == 0 and counts == {"Optimizer.step": 5, "DataLoader.next": 6, "backward": 5}, text,
           (status, counts, unpaired, printed[-500:]))


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        compiled(work, "test.spans", f"{SPANS}/catalogue.yaml")
        have = interpreters()
        for version in VERSIONS:
            if not any(v == version for v, _ in have):
                tap.skip(f"Python {version}", f"needs command:python{version}")
        for (version, kind), python in sorted(have.items()):
            label = f"{version}{' of Debian' if kind else ''}"
            check_behaviour(label, version, python, work)
            check_bystanders(label, python, work)
        check_torch("/usr/bin/python3", work)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
