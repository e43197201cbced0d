#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A prefill and a decode instance on different nodes: two sysomd, one aggregator, and an engine of vLLM's structure whose API
process and prefill instance attach to the one and whose decode instance attaches to the other. Each request is one, with the times
of the engine's truth file; a slow transfer between the two is one incident, with windows of both nodes and one track per request."""
# long: two engines, one after the other
import os
import subprocess
import sys
import tempfile

if "SYSOM_TEST_REAPED" not in os.environ:
    os.execvp("python3", ["python3", "tests/reap.py", sys.executable, *sys.argv])

import tap  # noqa: E402
from cli_check_trace import parse, slices  # noqa: E402
from serve_requests import NEAR_MS, SETTLED_S, Serving, compare, truth_ms  # noqa: E402
from serve_stack import B, wait_for  # noqa: E402

FLAGS = "--requests-ttft 2s --requests-tpot 150ms --beat-period 1s"
OBJECTIVE_MS = 150  # per token
JOINED_S = 2 * SETTLED_S  # at most: 2 s on each node, a beat, and 12 s in which a node may say that a request goes on


class Nodes(Serving):
    """node() asks the aggregator, which has the whole."""

    def __init__(self, work):
        super().__init__(f"{work}/stack", f"{FLAGS} --node-name prefill-node")
        self.socket = f"{work}/decode.sock"
        http, = subprocess.run([sys.executable, "tools/free_ports.py", "1"], capture_output=True, text=True, check=True).stdout.split()
        self.env["DECODE"] = f"http://127.0.0.1:{http}"
        with open(f"{work}/decode.log", "wb") as log:
            self.decode = subprocess.Popen(
                [f"{B}/bin/sysomd", "--socket-path", self.socket, "--control-path", f"{work}/decode.control", "--http-listen",
                 f"127.0.0.1:{http}", "--uplink-url", self.uplink(), "--state-dir", f"{work}/decode", *FLAGS.split(),
                 "--node-name", "decode-node"], stdout=log, stderr=log)
        wait_for(20, lambda: os.path.exists(self.socket))

    def uplink(self):
        """The aggregator's address, as the first sysomd has it."""
        with open(f"/proc/{self.sysomd_pid()}/cmdline", encoding="ascii") as f:
            args = f.read().split("\0")
        return args[args.index("--uplink-url") + 1]

    def sysomd_pid(self):
        ps = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(self.shell.pid)], capture_output=True, text=True, check=True)
        return next(line.split()[0] for line in ps.stdout.splitlines() if line.split()[1] == "sysomd")

    def node(self, query=""):
        return self.get("SYSOM_URL", f"requests{query}")

    def of_node(self, base, job):
        return next(j for j in self.get(base, "requests")["jobs"] if j["job"].startswith(job + "@"))

    def run_split(self, work, job, *options):
        return self.serve(work, job, "--split", "--decode-socket", self.socket, *options)

    def stop(self):
        self.decode.terminate()
        tap.ok(self.decode.wait(20) == 0, "the decode instance's sysomd ends")
        super().stop()


def joined(stack, job, count):
    def all_joined():
        j = stack.job(job)
        return j if j.get("joined", {}).get("requests") == count and j["ended"] == count else None
    return wait_for(JOINED_S, all_joined)


def check_whole(stack, work):
    status, truth, _ = stack.run_split(work, "nodes", "--workers", "1", "--seconds", "10", "--requests-per-second", "1")
    job = joined(stack, "nodes", len(truth))
    tap.ok(status == 0 and bool(job) and job["arrived"] == len(truth) and job["ttft"]["judged"] == len(truth),
           "nodes: a request in instances on two nodes is one", (status, len(truth), stack.job("nodes")))
    compare(stack, "nodes", truth)
    found = [stack.node(f"?id={r}&job=nodes")["requests"] for r, row in truth.items() if row["tokens"] > 1]
    tap.ok(found and all(len(f) == 1 and f[0]["transfer_ms"] > 0 and f[0]["nodes"] == ["prefill-node", "decode-node"] and
                         f[0]["clock"] == "system" for f in found), "nodes: the time between the two is known, by their system clocks", found)
    alone = [stack.of_node(base, "nodes") for base in ("NODE", "DECODE")]
    tap.ok(all(j["ended"] == len(truth) and j["ttft_judged"] + j["tpot_judged"] == 0 for j in alone), "nodes: neither node judges its part",
           alone)
    row = max(truth.values(), key=lambda r: r["tokens"])
    shown = stack.sysom("requests", row["request"])
    tap.ok(shown.returncode == 0 and shown.stdout.count("time to first token") == 1 and "prefill-node, decode-node" in shown.stdout and
           "transfer" in shown.stdout, "nodes: sysom requests ID shows one request", shown.stdout + shown.stderr)
    print("\n".join("# " + line for line in shown.stdout.splitlines()))


def tracks(path):
    """Of requests: a track's name to when each of the request's steps on a GPU began."""
    with open(path, "rb") as f:
        text = subprocess.run(["protoc", "-I", "cli", "--decode=perfetto.protos.Trace", "cli/perfetto.proto"], stdin=f,
                              capture_output=True, text=True, check=True).stdout
    packets = [v for k, v in parse(iter(text.splitlines())) if k == "packet"]
    found = {}
    for s in slices(packets):
        if s[1].startswith("request ") and s[2] == "ModelRunner::Step":
            found.setdefault(s[1], []).append(s[3])
    return found


def on_both_sides(stack, request, begins):
    """Whether steps of the one instance and of the other are there: before the transfer and after it."""
    r = stack.node(f"?id={request}&job=kv")["requests"][0]
    first = int(r["arrival_unix_ns"]) + r["first_ms"] * 1e6
    return min(begins) < first and max(begins) > first + (r["transfer_ms"] - NEAR_MS) * 1e6


def check_slow_transfer(stack, work):
    """Each transfer takes seconds. Both instances have ranks 0 and 1, so the aggregator does not believe the second node."""
    status, truth, _ = stack.run_split(work, "kv", "--workers", "2", "--seconds", "16", "--requests-per-second", "0.7",
                                       "--fault", "kv:start=0:seconds=90:size=300")
    tap.ok(status == 0 and bool(joined(stack, "kv", len(truth))), "transfer: each request is one", (status, stack.job("kv")))
    compare(stack, "kv", truth)
    late = {r for r, row in truth.items() if row["tokens"] > 1 and truth_ms(row)[1][0] > OBJECTIVE_MS}
    listed = {v["id"]: v for v in stack.job("kv")["violations"] if v["objective"] == "tpot"}
    tap.ok(len(late) > 1 and late <= set(listed) and all(listed[r]["phase"] == "transfer" for r in late),
           "transfer: requests that took too long per token are late for it", (late, listed))
    incidents = wait_for(SETTLED_S, lambda: [i for i in stack.incidents("kv") if i["diagnosis"]["cause"] == "request-transfer"])
    tap.ok(len(incidents) == 1, "transfer: they are one incident", [(i["diagnosis"], i["symptom"]) for i in stack.incidents("kv")])
    if not incidents:
        return

    def nodes():
        return {w["node"] for w in stack.get("SYSOM_URL", f"incidents/{incidents[0]['id']}")["windows"]}
    tap.ok(wait_for(SETTLED_S, lambda: nodes() == {"prefill-node", "decode-node"}), "transfer: with windows of both nodes", nodes())
    text = stack.sysom("show", incidents[0]["id"]).stdout
    tap.ok("transfer of its key-value cache" in " ".join(text.split()) and any(f"{r} missed tpot" in text for r in late) and
           "prefill-node, decode-node" in text, "transfer: sysom show names the requests and their nodes", text)
    print("\n".join("# " + line for line in text.splitlines()))
    stack.sysom("trace", incidents[0]["id"], "-o", f"{work}/kv.pftrace")
    found = tracks(f"{work}/kv.pftrace")
    both = [r for r in late if f"request {r}" in found and on_both_sides(stack, r, found[f"request {r}"])]
    tap.ok(both, "transfer: a request is one track in the trace, with the steps of both nodes", (late, found))


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        stack = Nodes(work)
        check_whole(stack, work)
        check_slow_transfer(stack, work)
        stack.stop()
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
