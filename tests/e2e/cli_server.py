#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for sysom-aggregator (TCP) and for sysomd's control socket (Unix), for tests of the
command line. Usage: cli_server.py DIR: writes DIR/url once it listens, serves DIR/windows/ID as
windows, what DIR/answers.json (of sysomd: DIR/node-answers.json) has for a path with its query (text: as it is), and appends every request to DIR/requests. Ends when its standard input is closed."""
import http.server
import json
import os
import socketserver
import sys
import threading
import urllib.parse

work = sys.argv[1]
polls = 0  # of the job "flip"
evil = "job\x1b[31m\x07\u202ered"

WINDOW = "00112233445566778899aabbccddeeff"


def incident(name, job, state, symptom="slow_rank", rank=5):
    return {"id": name, "job": job, "state": state, "begin_unix_ns": "1795229412000000000",
            "end_unix_ns": "1795229424400000000", "symptom": symptom, "ranks": [rank],
            "victims": [r for r in range(8) if r != rank], "nodes": ["gpu-3"], "first_step": 312,
            "last_step": 371, "flagged_steps": 48, "steps_to_flag": 3, "latency_ms": 41.2,
            "expected_ms": 27.5, "excess": 0.498, "self_excess": 0.61,
            "other_spikes": [{"rank": rank, "count": 3, "function": "pad (engine.py:37)", "span": "Engine::Prepare",
                              "begin_unix_ns": "1795229413000000000", "latency_ms": 181.0, "expected_ms": 20.0}],
            "uploaded_bytes": 123456, "raw_bytes": 145000000, "window_count": 2, "missing": [],
            "windows": [{"id": w, "rank": 0 if w.startswith("12") else 1, "node": "gpu-3", "reason": "self",
                         "begin_unix_ns": "1795229412000000000", "end_unix_ns": "1795229413000000000",
                         "steps": 9, "records": 900, "bytes": 9000, "summary_only": False}
                        for w in sorted(os.listdir(work + "/windows")) or [WINDOW]]}


def account(kind, what, name, usual, slow):
    return {"account": kind, "what": what, "name": name, "reference_ms": usual, "slow_ms": slow,
            "excess_ms": slow - usual, "work_ms": 0.0, "share": (slow - usual) / 5.0}


STOLEN = account("stolen", "net-rx", "", 0.04, 4.8)
LEDGER = {"reference": "own", "slow_steps": 24, "reference_steps": 16, "slow_ms": 25.12, "reference_ms": 20.12,
          "excess_ms": 5.0, "unobserved_ms": 0.2, "rows": [STOLEN, account("compute", "", "gemm", 9.6, 9.61)],
          "other_slow_ms": 10.71, "other_reference_ms": 10.48, "other_excess_ms": 0.23, "explained_by": [STOLEN]}
DIAGNOSIS = {
    "ranks": [2], "ledger": LEDGER,
    "layer": "os", "cause": "os-softirq",
    "title": "soft interrupts take the CPU of a thread of the rank",
    "summary": "rank 2 is slow because NET_RX soft interrupts run on the core of its launch thread (5.0 ms more per step than when healthy)",
    "confidence": 0.93, "effect_ms": 5.0, "gpu_hours_lost": 0.42, "gpu_hours_per_day": 19.2,
    "evidence": [
        {"layer": "os", "effect_ms": 5.0, "text": "NET_RX soft interrupts took 250 ms/s from thread python3 "
                                                  "on CPU 1 (usually 2)"},
        {"layer": "cpu", "effect_ms": 4.1, "text": "net_rx_action: 16.7% of the CPU time, 0% on the peers"},
        {"layer": "gpu", "effect_ms": 0, "text": "<script>document.title='owned'</script> & \x1b[31mred"}],
    "ruled_out": [
        {"layer": "gpu", "effect_ms": 0.1, "text": "kernels are equal to the peers' within 1%"},
        {"layer": "network", "effect_ms": 0, "text": "transfers end with the others'"}],
    "missing": ["no earlier run of the job"],
    "remedy": "move the interrupt of eth0 (smp_affinity) off CPU 1, or pin the thread elsewhere"}


VIOLATION = {"id": "00000000deadbeef", "node": "gpu-3", "objective": "ttft", "objective_ms": 10000.0, "phase": "queue", "ms": 12345.6, "phase_ms": 11000.0,
             "prompt_tokens": 512, "output_tokens": 3, "begin_unix_ns": "1795229400000000000",
             "end_unix_ns": "1795229412345600000", "anomaly_id": "11" * 16,
             "slow_step": {"after_ms": 100.0, "ms": 10900.0, "tokens": 0, "step_tokens": 4096, "batch": 32,
                           "span": "Runner\x1b[31m::Step"}}


def serving(job):
    times = {"requests": 40, "median_ms": 310.0, "p99_ms": 12345.6, "judged": 40, "violated": 1}
    return {"job": "serve", "nodes": 1, "running": 3, "waiting": 9, "oldest_wait_ms": 1500.0, "arrived": 52, "ended": 40,
            "lost": 0, "violations_dropped": 0, "ttft": times, "tpot": {**times, "violated": 0}, "queue": times,
            **({"violations": [VIOLATION]} if job else {})}


def hung():
    """A hang after a few slow steps."""
    rows = [{"account": "blocked", "what": "file-lock", "name": "save", "reference_ms": 0.0,
             "slow_ms": 11800.0, "excess_ms": 11800.0, "work_ms": 11800.0, "share": 1.0}]
    ledger = {"reference": "own", "slow_steps": 1, "reference_steps": 8, "slow_ms": 11800.0, "reference_ms": 104.0,
              "excess_ms": 11696.0, "unobserved_ms": 0.0, "rows": rows, "other_slow_ms": 0.0,
              "other_reference_ms": 104.0, "other_excess_ms": -104.0, "explained_by": rows}
    d = {"layer": "unknown", "cause": "cpu-lock", "title": "threads wait for a lock", "ranks": [5],
         "summary": "rank 5 hangs", "confidence": 0.95, "effect_ms": 20000.0, "ruled_out": [], "missing": [],
         "evidence": [{"layer": "unknown", "effect_ms": 20000.0, "text": "7 of 8 ranks wait in AllReduce 240"}],
         "remedy": "look at its stacks", "ledger": ledger}
    return {**incident("4a4a4a4a", "hung", "open", "stall"), "diagnosis": d, "diagnoses": [d],
            "findings": [{"kind": "hang", "cause": "hang-missing", "ranks": [5],
                          "begin_unix_ns": "1795229420000000000", "end_unix_ns": "1795229440000000000"}]}


EMPTY = {"layer": "unknown", "cause": "unknown", "title": "cause not found", "summary": "rank 5 hangs: cause not found",
         "ranks": [], "confidence": 0.0, "effect_ms": 0.0, "evidence": [], "ruled_out": [],
         "missing": ["which rank has not entered which collective"], "remedy": "look at the evidence"}


def diagnosed(name, state="closed"):
    """The incident of tests/unit/cli_incident.h."""
    out = incident(name, "demo", state, rank=2)
    out["diagnosis"] = DIAGNOSIS
    out["diagnoses"] = [DIAGNOSIS, {"layer": "gpu", "cause": "gpu-variant", "title": "another variant of a kernel runs here",
                                    "ranks": [2], "summary": "rank 2 runs gemm<64> & not gemm<128>", "confidence": 0.8,
                                    "effect_ms": 1.6, "evidence": [], "ruled_out": [], "missing": [],
                                    "remedy": "compare library versions"}]
    out["ranks"], out["victims"], out["nodes"] = [2], [0, 1, 3], ["node-1"]
    out["signals"] = [{"rank": 2, "name": "softirq_stolen", "subject": "NET_RX from thread python3<b> on CPU 1",
                       "unit": "ms/s", "value": 250.0, "usual": 2.0, "weight_ms": 5.0, "raised": True,
                       "text": "NET_RX soft interrupts took 250 ms/s from thread python3<b> on CPU 1"},
                      {"rank": 2, "name": "io_wait", "subject": "", "unit": "ms/s", "value": 129.9, "usual": 0.1,
                       "weight_ms": 3.2, "raised": True, "text": "its threads waited 129.9 ms/s for storage"},
                      {"rank": 2, "name": "migrations", "subject": "", "unit": "1/s", "value": 3.0, "usual": 3.0,
                       "weight_ms": 0.0, "raised": False, "text": "moves of its threads to another CPU: 3"}]
    out["windows"] = [{"id": w, "rank": int(w[:2], 16) - 0xa0, "node": "node-%d" % ((int(w[:2], 16) - 0xa0) // 2),
                       "reason": "self" if w.startswith("a2") else "asked", "steps": 40, "records": 900,
                       "begin_unix_ns": "1795229412000000000", "end_unix_ns": "1795229413000000000",
                       "bytes": 9000, "summary_only": False}
                      for w in sorted(os.listdir(work + "/windows"))]
    return out


def rank(job, n, latency):
    return {"job": job, "node": "gpu-3", "rank": n, "world_size": 8, "alive": True,
            "beat_age_ms": 400, "steps": 1000 + n, "flagged": 48 if n == 5 else 0,
            "latency_ms": latency, "self_ms": latency - 4, "expected_ms": 27.5, "compute_ms": 20.0,
            "comm_ms": 6.0, "exposed_comm_ms": 4.0, "copy_ms": 0.1, "idle_ms": 2.0, "events": 99999,
            "lost": 3, "trace": "on", "cupti": "v2", "model": "ready"}


STATUS = {"version": "0.1.0", "jobs": 1, "hanging_jobs": 1, "ranks": 8, "nodes": 2, "windows": 12, "incidents": 2,
          "open_incidents": 1, "store_bytes": 5000000}
def left(n, pid, state):
    return {"job": "demo", "rank": n, "pid": pid, "program": "train.py", "state": state, "trace": "on", "cupti": "v2",
            "model": "ready", "steps": 1005, "flagged": 0, "step_ms": 41.2, "expected_ms": 27.5, "events": 99,
            "lost": {}, "joined": 100, "unmatched": 0}


NODE = {"node": "gpu-3", "state_dir": work, "version": "0.1.0",
        "mode": {"stacks": "none", "canary": True, "weather": "fine"},
        "ranks": [{"job": "demo", "rank": 5, "pid": 77, "program": "train.py", "trace": "on",
                   "cupti": "v2", "model": "ready", "steps": 1005, "flagged": 48, "step_ms": 41.2,
                   "expected_ms": 27.5, "events": 123456, "lost": {"no_lane": 7, "pacing": 0, "span_value": 21, "span_items": 4,
                                                                  "plugin_load": 1, "plugin_init": 3, "plugin_error": 500, "plugin_crash": 2, "span_text": 11, "span_unpaired": 4},
                   "joined": 100, "unmatched": 1},
                  {**left(4, 76, "attached"), "hang_s": 34.0, "unknown_variable": "SYSOM_ROL", "spans_bad_line": 3}, left(6, 78, "gone"), {**left(7, 79, "detached"), "restarts": 2, "before_pid": 71},
                  {**left(8, 80, "attached"), "lost": {"lapped": 9, "span_unpaired": 30}}],
        "uplink": {"url": "tcp://127.0.0.1:9471", "connected": True, "spool_bytes": 0,
                   "windows_sent": 9, "windows_dropped": 0, "uploaded_bytes": 1000,
                   "raw_bytes": 1000000},
        "symbols": {"fault": "the aggregator answers 403; see uplink.http_token", "uploaded": 0, "failed": 3},
        "own": {"cpu_share": 0.011, "rss_bytes": 40000000, "recorder_bytes": 30000000,
                "retention_s": 130.0}}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def answer(self, code, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        self.handle_any()

    def do_GET(self):
        self.handle_any()

    def handle_any(self):
        with open(work + "/requests", "a", encoding="utf-8") as f:
            f.write("%s %s %s\n" % (self.server.kind, self.command, self.path))
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        self.node(url.path, query) if self.server.kind == "node" else self.cluster(url.path, query)

    def prepared(self, name):
        """Whether it answered with what a file has for this path."""
        if not os.path.exists(f"{work}/{name}"):
            return False
        with open(f"{work}/{name}", encoding="utf-8") as f:
            found = json.load(f).get(self.path)
        if found is not None:
            self.answer(200, found.encode() if isinstance(found, str) else found)
        return found is not None

    def node(self, path, query):
        if self.prepared("node-answers.json"):
            return None
        if self.command == "GET" and path == "/api/v1/status":
            return self.answer(200, NODE)
        if self.command == "POST" and path == "/api/v1/trace":
            n = 1 if "rank" in query else 8
            if query.get("job") == "none":
                return self.answer(404, {"changed": 0, "already": 0, "asked": 0, "ranks": []})
            if query.get("job") == "again":
                return self.answer(200, {"changed": 0, "already": n, "asked": n, "ranks": []})
            if query.get("job") == "mixed":
                return self.answer(200, {"changed": 1, "already": 5, "asked": 8, "ranks": [0]})
            if query.get("job") == "slow":
                return self.answer(504, {"changed": 7, "already": 0, "asked": 8, "ranks": list(range(7)),
                                         "error": "1 of 8 processes did not answer in time"})
            return self.answer(200, {"changed": n, "already": 0, "asked": n, "ranks": list(range(n))})
        if self.command == "POST" and path == "/api/v1/capture":
            return self.answer(200, {"windows": 1, "failed": 0, "ids": ["00112233445566778899aabbccddeeff"]})
        return self.answer(404, {"error": "no such thing"})

    def cluster(self, path, query):
        global polls
        if self.prepared("answers.json"):
            return None
        job = query.get("job")
        if path == "/api/v1/status":
            return self.answer(200, STATUS)
        if path == "/api/v1/jobs":
            return self.answer(200, {"jobs": [{"job": j} for j in (["twice@1001", "twice@1002"] if job == "twice" else [job])]})
        if path == "/api/v1/ranks" and job in ("nope", "nobody"):
            return self.answer(200, {"ranks": []})
        over = [{**rank("over", n, 28.0), "alive": False, "ended": True} for n in range(3)]
        if path == "/api/v1/ranks" and job == "over":
            return self.answer(200, {"ranks": over})
        if path == "/api/v1/ranks" and job == "hung":
            return self.answer(200, {"ranks": [{**rank("hung", 0, 28.0), "hang_s": 34.0},
                                               {**rank("hung", 1, 28.0), "alive": False, "ended": True},
                                               rank("hung", 2, 28.0), rank("hung", -1, 0)]})
        if path == "/api/v1/ranks":
            return self.answer(200, {"ranks": [rank(job or "demo", n, 41.2 if n == 5 else 28.0)
                                               for n in (7, 5, 6, 0, 1, 2, 3, 4)] + (over if not job else [])})
        if path == "/api/v1/requests":
            return self.answer(200, {"requests": [] if job not in (None, "serve") else [serving(job)]})
        if path == "/api/v1/incidents/4a4a4a4a":
            return self.answer(200, hung())
        if path == "/api/v1/incidents/4b4b4b4b":
            return self.answer(200, {**hung(), "ranks": [], "diagnosis": EMPTY, "diagnoses": [EMPTY], "findings": []})
        if path == "/api/v1/incidents":
            if job not in ("flip", "again"):
                polls = 0
            known = [incident("0badcafe", "demo", "open"), incident("1234abcd", "demo", "closed"),
                     incident("deadbeef", "live", "open", "stall", 2),
                     incident("0e711e11", evil, "closed")]
            if job == "flip":  # one that was over, one that opens and closes, the first opening again
                polls += 1
                known = [incident("aaaa0001", "flip", "closed")]
                if polls >= 3:
                    known.insert(0, incident("aaaa0002", "flip", "closed" if polls >= 5 else "open"))
            if job == "mild":
                known = [incident("0ff0ff01", "mild", "closed", "hiccup"),  # the word of an older aggregator
                         incident("1234abcd", "mild", "closed")]
            if job == "host":
                known = [incident("0ff0ff00", "host", "closed", "transient")]
            if job == "again":
                polls += 1
                known = [incident("bbbb0001", "again", "open" if polls in (2, 3) else "closed")]
            if job:
                known = [i for i in known if i["job"] == job]
            if "state" in query:
                known = [i for i in known if i["state"] == query["state"]]
            return self.answer(200, {"incidents": known[:int(query.get("limit", 100))]})
        if path.startswith("/api/v1/incidents/"):
            name = path.rsplit("/", 1)[1]
            if name == "0e711e11":
                return self.answer(200, incident(name, evil, "closed"))
            if name == "1234abcd":
                return self.answer(200, incident(name, "demo", "closed"))
            if name == "cafe0001":  # of the rank whose windows are there
                return self.answer(200, incident(name, "demo", "closed", rank=1))
            if name in ("d1a60001", "d1a60002"):
                return self.answer(200, diagnosed(name, "closed" if name == "d1a60001" else "open"))
            if name == "0badc0de":
                return self.answer(200, b"[1, 2")
            if name == "0dd":
                return self.answer(200, {"id": 7, "ranks": "x", "windows": {},
                                         "latency_ms": "fast", "victims": [1e300, None, "a"],
                                         "begin_unix_ns": -5})
            return self.answer(404, {"error": "no such incident"})
        if path.startswith("/api/v1/windows/"):
            file = work + "/windows/" + os.path.basename(path)
            if os.path.exists(file):
                with open(file, "rb") as f:
                    return self.answer(200, f.read(), "application/octet-stream")
        return self.answer(404, {"error": "no such thing"})


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    kind = "node"

    def get_request(self):
        sock, _ = super().get_request()
        return sock, ("local", 0)


class TcpServer(http.server.ThreadingHTTPServer):
    kind = "cluster"


def main():
    os.makedirs(work + "/windows", exist_ok=True)
    tcp = TcpServer(("127.0.0.1", 0), Handler)
    node = UnixServer(work + "/control.sock", Handler)
    for server in (tcp, node):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(work + "/url.new", "w", encoding="utf-8") as f:
        f.write("http://127.0.0.1:%d" % tcp.server_address[1])
    os.rename(work + "/url.new", work + "/url")
    sys.stdin.read()


main()
