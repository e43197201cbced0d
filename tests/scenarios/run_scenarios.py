#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the scenarios one after another and writes docs/SCENARIOS.md. Ends with a tally.

    run_scenarios.py [--only PART[,PART...]] [--seed N] [--short] [--table FILE] [--no-table] [--healthy-seconds N]

They are those of catalogue.py, and the files case_*.py, whose course is another one. The seed chooses the victims.

--short: one rank each, as in `make check`, a third of the time; the table says so.
Results are kept in build/scenarios; the table has the latest of each scenario, with its time and tree, so
that --only brings one up to date.
"""
import argparse
import glob
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "lib"))

import catalogue  # noqa: E402

LAST = "case_healthy"  # as long as all others together
LIMIT_S = 900  # of a scenario, above its own limit
KEPT = os.path.join(ROOT, "build/scenarios")


def catalogue_names():
    return list(catalogue.BY_NAME)


def ordered(only):
    """Those whose name is, or else has in it, one of the parts."""
    names = catalogue_names() + sorted(os.path.basename(p)[:-3] for p in glob.glob(os.path.join(HERE, "case_*.py")))
    parts = [x for x in only.split(",") if x]
    names = [n for n in names if not parts or any(x == n or (x not in names and x in n) for x in parts)]
    return sorted(names, key=lambda n: n == LAST)


def is_healthy(name):
    return name == LAST or (name in catalogue.BY_NAME and catalogue.BY_NAME[name].causes is None)


def argv_of(name):
    if name in catalogue.BY_NAME:
        return [os.path.join(HERE, "run_case.py"), name]
    return [os.path.join(HERE, name + ".py")]


def run(name, seconds, directory, form=("--full",)):
    """(state, text, result): state pass, fail or skip."""
    result = os.path.join(directory, name + ".json")
    env = dict(os.environ, SCENARIO_RESULT=result, SCENARIO_SECONDS=str(seconds), LC_ALL="C.UTF-8",
               PYTHONDONTWRITEBYTECODE="1")
    p = subprocess.Popen(["/usr/bin/python3", *argv_of(name), *form], env=env,
                         cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def forward(signum, frame):
        p.terminate()
        p.wait(60)
        sys.exit(130)

    signal.signal(signal.SIGINT, forward)
    signal.signal(signal.SIGTERM, forward)
    lines, end = [], time.monotonic() + LIMIT_S + seconds
    signal.signal(signal.SIGALRM, lambda *_: p.terminate())
    signal.alarm(int(end - time.monotonic()))
    for line in p.stdout:
        lines.append(line)
        print("    " + line, end="", flush=True)
    p.wait()
    signal.alarm(0)
    if p.returncode == 77:
        return "skip", lines[-1].strip() if lines else "no reason given", None
    got = None
    if os.path.exists(result):
        with open(result, encoding="utf-8") as f:
            got = json.load(f)
    good = p.returncode == 0 and got and not got["failed"]
    return ("pass" if good else "fail"), "", got


def cell(text):
    return str(text if text is not None else "").replace("|", "\\|").replace("\n", " ")


def who(ranks):
    return "all" if ranks is None else ", ".join(map(str, ranks)) or "none"


def row_of(got, r):
    """Victim, what is expected, what was said, and whether that is right."""
    seconds = f"{r['seconds']:.1f}" if r["seconds"] is not None else "-"
    victim = "all" if r["rank"] is None else r["rank"]
    if r.get("ranks") is None:
        said = "no incident"
    else:
        said = f"{who(r['ranks'])}; {r.get('layer')}; `{r['cause']}` ({100 * (r.get('confidence') or 0):.0f}%)"
    ledger = "; ".join(f"{a} {n} {ms:+.1f}".replace("  ", " ") for a, n, ms in r.get("ledger") or [])
    hits = r.get("hits") or {}
    right = "not judged" if r["wrong"] is None else "right" if not r["wrong"] else "wrong: " + (", ".join(k for k, v in hits.items() if not v) or r["wrong"])
    if r.get("real") is False:
        right = "no fault: " + right
    return f"| {cell(got['title'])} | {victim} | {cell(r['steps'])} | {cell(r.get('want'))} | {cell(said)} | {seconds} | " \
           f"{cell(ledger)} | {cell(right)} |"


def healthy_row(got):
    if not got["quiet_s"]:
        return f"| {cell(got['title'])} | | | | did not get under way | - | | not judged |"
    said = "; ".join(got.get("other_verdicts", [])) or "silent"
    return f"| {cell(got['title'])} | none | {got['quiet_s']:.0f} s | silence | {cell(said)} | - | | " \
           f"{'wrong' if got['others'] else 'right'} |"


def hits_of(rows):
    return ", ".join(f"{word} {sum(r['hits'][word] for r in rows)}" for word in ("rank", "layer", "cause"))


def rates_of(everything):
    """How often rank, layer and cause were right, each for itself."""
    rows = [r for _, k in everything if k["got"] for r in k["got"]["rows"] if r.get("hits") and r["wrong"] is not None
            and r.get("real") is not False]
    if not rows:
        return ""
    n = len(rows)
    parts = [f"{word} {sum(r['hits'][word] for r in rows)} of {n}" for word in ("rank", "layer", "cause")]
    false = sum((k["got"] or {}).get("others", 0) for _, k in everything)
    healthy = [k["got"]["others"] for _, k in everything if k["got"] and k["got"]["quiet_s"] and not k["got"]["rows"]]
    whole = sum(not r["wrong"] for r in rows)
    text = f"**Right: {', '.join(parts)}; the whole verdict, in time, {whole} of {n}. "
    text += f"Healthy jobs that stayed silent: {healthy.count(0)} of {len(healthy)}. Other incidents: {false}.**"
    strict = [r for r in rows if " or " not in (r.get("want") or " or ")]
    text += f"\n\nOf the {len(strict)} faults with only one right rank, layer and cause: {hits_of(strict)}."
    loaded = [r for _, k in everything if k["got"] and 2 <= round(k["got"].get("load", 0)) <= 8 for r in k["got"]["rows"]
              if r in rows]
    text += f" Of the {len(loaded)} whose run ended at a load of 2 to 8: {hits_of(loaded)}."
    trees = [k["tree"] for _, k in everything]
    text += "\n\nNumber of runs of each tree: " + ", ".join(f"{t} {trees.count(t)}" for t in dict.fromkeys(sorted(trees, key=trees.count)[::-1])) + "."
    return text + calibration_of([r for r in rows if r.get("confidence") is not None])


BINS = 5


def calibration_of(rows):
    """Expected calibration error: how far the confidence is from how often it is right, over bins of confidence."""
    bins = [[] for _ in range(BINS)]
    for r in rows:
        bins[min(BINS - 1, int(r["confidence"] * BINS))].append((r["confidence"], all(r["hits"].values())))
    off = sum(abs(sum(c for c, _ in b) - sum(h for _, h in b)) for b in bins)
    right = sum(all(r["hits"].values()) for r in rows)
    return (f"\n\nConfidence: {sum(r['confidence'] for r in rows) / len(rows):.2f} on average where {right} of {len(rows)} were "
            f"right ({right / len(rows):.2f}); expected calibration error {off / len(rows):.3f} ({BINS} bins)." if rows else "")


def machine_of(got):
    """Incidents while the machine itself stood still, or ran other programs."""
    causes = got.get("machine") or []
    true = [c for c in ("os-steal", "os-run-queue") if c in causes]
    other = [c for c in causes if c not in true]
    word = "".join(f"; {causes.count(c)} of `{c}`, true" for c in true)
    if other:
        word += f"; {len(other)} of the whole job while the machine stood still, its verdict " \
                f"{', '.join(f'`{c}`' for c in sorted(set(map(str, other))))}"
    return word


def tree():
    """The commit that runs; with a + where files differ from it."""
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False).stdout

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/SCENARIOS.md")
    return (git("rev-parse", "--short", "HEAD").strip() or "unknown") + ("+" if changed.strip() else "")


def keep(name, state, why, got):
    os.makedirs(KEPT, exist_ok=True)
    with open(os.path.join(KEPT, name + ".json"), "w", encoding="utf-8") as f:
        json.dump({"state": state, "why": why, "got": got, "unix_s": int(time.time()), "tree": tree()}, f)


def kept():
    for name in ordered(""):
        path = os.path.join(KEPT, name + ".json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                yield name, json.load(f)


def others_seconds():
    """How long the latest runs of the others took: what the healthy job has to last when it runs alone."""
    return sum((k["got"] or {}).get("seconds", 0) for name, k in kept() if name != LAST)


def when(k):
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(k["unix_s"]))


def write_table(table):
    rows, quiet, count = [], [], {"pass": 0, "fail": 0, "skip": 0}
    all_of = list(kept())
    for name, k in all_of:
        count[k["state"]] += 1
        got = k["got"]
        if k["state"] == "skip":
            rows.append(f"| {name} | | | | skipped: {cell(k['why'])} | | | |")
        elif not got:
            rows.append(f"| {name} | | | | failed: no result | | | |")
        else:
            rows += [row_of(got, r) for r in got["rows"]] or [healthy_row(got)]
            word = "silent" if not got["others"] else f"{got['others']} too many: " + \
                "; ".join(got.get("other_verdicts", []))
            word += machine_of(got)
            quiet.append(f"| {cell(got['title'])} | {got['quiet_s']:.0f} | {got['seconds']:.0f} | {word} | "
                         f"{k['state']} | {got.get('load', 0):.0f} | {'one rank' if not got['full'] else 'whole'}, seed {got.get('seed')} | {when(k)} | {k['tree']} |")
    first, last = (f(all_of, key=lambda x: x[1]["unix_s"])[1] for f in (min, max))
    text = [
        "# Scenarios", "",
        f"Written by `make scenarios`, run from {when(first)} to {when(last)} UTC: {os.cpu_count()} CPUs, "
        f"Linux {platform.release()}. {count['pass']} passed, {count['fail']} failed, {count['skip']} skipped.", "",
        rates_of(all_of), "",
        "Each case is a job of four ranks on the simulated GPU node with a real `sysomd` and `sysom-aggregator`. The fault is real "
        "(`tests/faults/`, `tests/scenarios/lib/rank_faults.py`). The verdict is read from `sysom show ID --json`: the ranks, the "
        "layer, the cause. *s* counts from the first slow step to the incident with the right verdict. *ledger* lists the accounts "
        "that grew most, in ms per step. How it works: [TESTING.md](TESTING.md).", "",
        "| fault | victim | the job | expected | verdict | s | ledger | |", "|---|---|---|---|---|---|---|---|", *rows, "",
        "No other incident may open, with or without a fault, except for what other programs and this machine's hypervisor "
        "do. An incident with the verdict `os-run-queue` is accepted where `/proc/PID/task/TID/schedstat` shows "
        "that the threads of each accused rank (if none is, of the rank that waited most) waited longer for a CPU than before, by at "
        "least half of what the incident cost. An incident with the verdict `os-steal` is accepted where `/proc/stat` or the threads below show steal: in two "
        "seconds of it, at least 30 ms/s of each CPU above the usual, and twice the usual. `/proc/stat` does not show all "
        "stops. Real-time threads that only sleep do: here `tests/scenarios/lib/cpu_stops.c`, in sysomd its canary, which misses "
        "some stops. An incident of the whole job is accepted with any verdict if these threads explain it by the same measure. "
        "It is counted with those of `os-steal`. *Whole*: with the fault on a second rank as well. *Tree*: the commit that ran; + means that files "
        "were changed.", "",
        "| scenario | s without a fault | s in all | other incidents | | load at its end | form | UTC | tree |",
        "|---|---|---|---|---|---|---|---|---|", *quiet, ""]
    with open(table, "w", encoding="utf-8") as f:
        f.write("\n".join(line if line.startswith("|") else textwrap.fill(line, 100, break_on_hyphens=False)
                          for line in "\n".join(text).split("\n")))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--only", default=os.environ.get("ONLY", ""))
    p.add_argument("--short", action="store_true", default=bool(os.environ.get("SHORT")))
    p.add_argument("--seed", default=os.environ.get("SEED") or str(int(time.time()) % 10000))
    p.add_argument("--table", default=os.path.join(ROOT, "docs/SCENARIOS.md"))
    p.add_argument("--no-table", action="store_true")
    p.add_argument("--healthy-seconds", type=float, default=None, help="for each of the healthy jobs")
    o = p.parse_args()
    names, count = ordered(o.only), {"pass": 0, "fail": 0, "skip": 0}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scenarios-") as directory:
        for n, name in enumerate(names, 1):
            so_far = time.monotonic() - began
            seconds = o.healthy_seconds if is_healthy(name) else 0
            if seconds is None:
                seconds = 0 if name != LAST else max(so_far, 30 if o.short else others_seconds(), 30)
            print(f"[{n}/{len(names)}, {so_far:.0f} s] {name}", flush=True)
            state, why, got = run(name, seconds, directory,
                                 (f"--seed={o.seed}", *(() if o.short else ("--full",))))
            count[state] += 1
            keep(name, state, why, got)
            if not o.no_table:
                write_table(o.table)
            print(f"{state} {name}{': ' + why if why else ''}", flush=True)
    print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped")
    return 1 if count["fail"] or not count["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
