# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds of one call of each kind, of CPU time, the least of many rounds. usage: timed.py GO-FILE"""
import os
import sys
import time

import spanned.engine as engine
import _json  # noqa: F401
import _ctypes  # noqa: F401
import spanned.late  # noqa: F401


REQUESTS = {f"chatcmpl-{i:032x}": 1 for i in range(256)}


def plain():
    return None


def raises(n):
    if n:
        raises(n - 1)
    raise LookupError


def caught():
    try:
        raises(9)
    except LookupError:
        pass


def per_call(function, *args, calls=4000, rounds=80, **kwargs):
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time_ns()
        for _ in range(calls):
            function(*args, **kwargs)
        best = min(best, (time.thread_time_ns() - begin) / calls)
        time.sleep(0.002)
    return best


while not os.path.exists(sys.argv[1]):
    engine.idle()
    time.sleep(0.01)
print("timed", per_call(plain), per_call(engine.idle), per_call(engine.forward, 5, context=3),
      per_call(engine.Engine().schedule, engine.Batch([1, 2], 7)), per_call(caught, calls=400) / 10,
      per_call(engine.planned, REQUESTS, calls=20) / len(REQUESTS))
