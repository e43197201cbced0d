# SPDX-License-Identifier: Apache-2.0
"""The loop of a job under test, without torch: steps, the switch, a profiler midway, one JSON line.
A job gives an object with step(), sync(), result() and describe(), and profiled() as a context
manager around steps that yields a function that counts the kernels seen (or None)."""
import argparse
import http.client
import json
import random
import socket
import time


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.unix_path)


def switch(path, state, patience=30):
    """Asks sysomd; the answer comes when the job's process has switched. On a busy machine the process may
    not have attached yet (404), or its thread may answer too late (504): both are asked again."""
    until = time.monotonic() + patience
    while True:
        c = UnixHTTP(path)
        c.request("POST", f"/api/v1/trace?state={state}")
        status = c.getresponse().status
        c.close()
        if status == 200:
            return
        if status not in (404, 504) or time.monotonic() > until:
            raise RuntimeError(f"switching {state}: HTTP {status}")
        time.sleep(0.1)


def options():
    ap = argparse.ArgumentParser()
    ap.add_argument("kind", choices=("train", "decode"))
    ap.add_argument("steps", type=int)
    ap.add_argument("--profile", nargs=2, type=int, metavar=("FROM", "TO"))
    ap.add_argument("--toggle", nargs=2, metavar=("SOCKET", "SEED"))
    ap.add_argument("--block", type=int, default=8, help="steps between two switches")
    ap.add_argument("--linger", type=float, default=0, help="seconds to go on living at the end")
    return ap.parse_args()


def run(job, args):
    for _ in range(5):
        job.step()
    job.synchronize()
    rng = random.Random(int(args.toggle[1])) if args.toggle else None
    times, states, order, profile, count, profiled = [], [], [], None, None, 0
    for i in range(args.steps):
        if rng and i % args.block == 0:
            if not order:
                order = ["on", "off"]
                rng.shuffle(order)
            state = order.pop()
            switch(args.toggle[0], state)
        if args.profile and i == args.profile[0]:
            profile = job.profiled()
            count = profile.__enter__()
        begin = time.perf_counter()
        job.step()
        times.append(round(time.perf_counter() - begin, 7))
        states.append("profiled" if profile else state if rng else "plain")
        if profile and i == args.profile[1]:
            job.synchronize()
            profile.__exit__(None, None, None)
            profiled, profile = count(), None
    job.synchronize()
    print(json.dumps({"times": times, "states": states, "result": job.result(), "block": args.block,
                      "profiled_kernels": profiled, **job.describe()}), flush=True)
    time.sleep(args.linger)
