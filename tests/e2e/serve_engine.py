#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A serving engine of vLLM's structure, with a real sysomd and aggregator: steps, models (also of a prefill instance), a
healthy stretch, a slow GPU of one rank, a slow scheduler. serve_events.py looks at each event."""
# quiet: a healthy stretch in real time
# long: learns, and then has two faults
# needs: root bpf
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

if "SYSOM_TEST_REAPED" not in os.environ:
    os.execvp("python3", ["python3", "tests/reap.py", sys.executable, *sys.argv])

import tap  # noqa: E402
from serve_stack import B, PYTHON, Serving, environment, truth_of, wait_for  # noqa: E402

TRAFFIC = os.path.join(os.environ.get("SYSOM_DATA", "../shared/data"), "llm-traffic/mooncake_conversation.csv.gz")
HEALTHY_S = 40
SLOW, SCHEDULE = (HEALTHY_S + 4, 6), (HEALTHY_S + 26, 6)  # begin and length, seconds after the first request
SEEN = 1.25  # a step that took so many times what it should was slow


def missed_objective(truth):
    """Whether a request took about as long as sysomd's default objectives, 10 s and 100 ms, or longer."""
    ended = [r for r in truth["request"] if r.get("end_ns") and r.get("first_token_ns")]
    return any(r["first_token_ns"] - r["arrival_ns"] > 9.5e9 or
               r["end_ns"] - r["first_token_ns"] > 95e6 * (r["tokens"] - 1) > 0 for r in ended)


def was_slow(truth, begin_ns, end_ns, ranks=(0, 1)):
    """Whether a step of these ranks in this time took longer than its work explains, whoever was to blame."""
    return any(s["begin_ns"] < end_ns and s["end_ns"] > begin_ns and
               s["end_ns"] - s["begin_ns"] > SEEN * s["expected_ns"] for s in truth["worker_step"] if s["rank"] in ranks)


def unix_offset_ns():
    return time.time_ns() - time.monotonic_ns()


def shows_gpu(diagnosis):
    return diagnosis["layer"] == "gpu" or any(e["layer"] == "gpu" and e["effect_ms"] > 5 for e in diagnosis["evidence"])


def shows_process(diagnosis):
    return diagnosis["cause"] == "cpu-process"


def accused(stack, rank, since_ns, shows, by_all):
    """The incident after this time that accuses this rank (by_all: or the whole job), with evidence that shows the
    fault."""
    for i in stack.incidents():
        if i["symptom"] == "transient" or int(i["end_unix_ns"]) < since_ns:
            continue
        if rank in i["ranks"] and any((rank in d["ranks"] or (by_all and i["symptom"] == "slow_job")) and shows(d)
                                      for d in i["diagnoses"]):
            return i
    return None


def explained(ranks):
    """R2 by rank and phase, of models that have seen enough steps for it to mean something."""
    return {(r["rank"], m["phase"]): m["r2"] for r in ranks for m in r["models"] if m["steps"] >= 40}


def check_prefill(work):
    """An instance that only computes prompts."""
    stack = Serving(f"{work}/stack-split")
    with open(f"{work}/split.log", "w", encoding="utf-8") as log:
        p = subprocess.run([f"{B}/bin/sysom", "run", "--job", "split", "--", PYTHON, "sim/serve_sim.py", "--split", "--workers", "1",
                            "--seconds", "25", "--requests-per-second", "4"], env=environment(**stack.env), stdout=log,
                           stderr=log, check=False)
    # they have no communicator, so no rank
    r2 = explained(r for r in stack.ranks() if r["models"])
    print(f"# R2 of two instances {r2}")
    tap.ok(p.returncode == 0 and all(r2.get((-1, phase), 0) > 0.9 for phase in ("prefill", "decode")),
           "work explains the time of a prefill instance's steps: R2 above 0.9", (p.returncode, r2, stack.ranks()))
    stack.stop()


def check_live(work):
    stack = Serving(f"{work}/stack")
    truth_path = f"{work}/live.jsonl"
    faults = [f"slow:rank=1:start={SLOW[0]}:seconds={SLOW[1]}:size=2",
              f"schedule:start={SCHEDULE[0]}:seconds={SCHEDULE[1]}:size=150"]
    options = [x for f in faults for x in ("--fault", f)] + (
        ["--traffic", TRAFFIC, "--prompt-scale", "0.05", "--output-scale", "0.25"] if os.path.exists(TRAFFIC) else [])
    with open(f"{work}/job.log", "w", encoding="utf-8") as log:
        job = subprocess.Popen([f"{B}/bin/sysom", "run", "--job", "serve", "--", PYTHON, "sim/serve_sim.py", "--seconds", "600",
                                "--truth", truth_path, *options], env=environment(**stack.env), stdout=log, stderr=log)
    tap.ok(wait_for(60, lambda: len(stack.ranks()) == 4), "all four processes are traced", [r["program"] for r in stack.ranks()])
    job_line = wait_for(20, lambda: truth_of(truth_path)["job"])  # written when the workers are ready
    start_ns = job_line[0]["start_ns"]
    time.sleep(max(0.0, HEALTHY_S - (time.monotonic_ns() - start_ns) / 1e9))
    ranks = [r for r in stack.ranks() if r["rank"] >= 0]
    tap.ok(sorted(r["rank"] for r in ranks) == [0, 1], "workers have the numbers of their communicator", [r["rank"] for r in ranks])
    r2 = explained(ranks)
    print(f"# R2 {r2}")
    tap.ok(all(r2.get((rank, phase), 0) > 0.9 for rank in (0, 1) for phase in ("decode", "mixed")),
           "work explains the time of decode steps, and of those with parts of prompts: R2 above 0.9", r2)
    printed = stack.sysom("status").stdout
    tap.ok(re.search(r"decode R2 (0\.9|1\.0)", printed), "sysom status prints it", printed)
    offset, truth = unix_offset_ns(), truth_of(truth_path)
    false = [(i["id"], i["symptom"], i["ranks"]) for i in stack.incidents() if i["symptom"] != "transient" and not
             (missed_objective(truth) if i["symptom"] == "slow_requests" else
              was_slow(truth, int(i["begin_unix_ns"]) - offset, int(i["end_unix_ns"]) - offset))]
    tap.ok(not false, f"no incident in {HEALTHY_S} s but where steps or requests were slow", false)
    for rank, (begin, _), shows, what, by_all in ((1, SLOW, shows_gpu, "a slow GPU", False),
                                                  (1, SCHEDULE, shows_process, "waiting for a slow scheduler", True)):
        since = start_ns + int(begin * 1e9) + unix_offset_ns()
        found = wait_for(120, lambda: accused(stack, rank, since, shows, by_all))
        tap.ok(found, f"{what} of rank {rank} is an incident that says so",
               [(i["symptom"], i["ranks"], [(d["ranks"], d["cause"]) for d in i["diagnoses"]]) for i in stack.incidents()])
        if found:
            print("\n".join("# " + x for x in stack.sysom("show", found["id"]).stdout.splitlines()[:14]))
    os.kill(job_line[0]["pid"], signal.SIGUSR1)
    status = job.wait(60)
    truth = truth_of(truth_path)
    # by rank; sysomd is behind the engine by a step, or says that it could not read all events in time
    gone = wait_for(20, lambda: [r for r in stack.ranks() if r["state"] == "gone"]) or []
    steps, lapped = {r["rank"]: r["steps"] for r in gone}, [r["lost"].get("lapped", 0) for r in gone]
    made = collections.Counter(s["rank"] for s in truth["worker_step"])
    tap.ok(status == 0 and all(0 <= made[r] - steps.get(r, 0) <= (made[r] if any(lapped) else 2) for r in (0, 1)),
           "sysomd's steps are the engine's", (status, steps, made, lapped))
    stack.stop()


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        check_prefill(work)
        check_live(work)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
