#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scenarios' table speaks of what there is: a cause that no verdict can have would never be found."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.join(ROOT, "tests"), os.path.join(ROOT, "sim")]

import catalogue  # noqa: E402
import needs  # noqa: E402
import rank_faults  # noqa: E402

CASES = [c for case in catalogue.CASES for c in (case, case.beside) if c]
count = 0


def ok(wrong, text):
    global count
    count += 1
    print(f"{'not ok' if wrong else 'ok'} {count} - {text}{': ' + ', '.join(sorted(map(str, wrong))) if wrong else ''}")
    return not wrong


def orders():
    """Every fault that a rank is given, with its arguments."""
    for c in CASES:
        for i in c.inject:
            if isinstance(i, catalogue.Order):
                yield c.name, i.text
        words = c.job + c.from_start
        for word, text in zip(words, words[1:]):
            if word in ("--does", "--rank-does"):
                yield c.name, text.split(" ", 1)[1] if word == "--rank-does" else text


def wrong_order(text):
    name, values, at = rank_faults.parse(text)
    function = getattr(rank_faults, name, None)
    if not function or at not in ("start", "copied", "middle", "launched"):
        return True
    try:
        function(None, **values).close()  # a generator that was not begun
    except TypeError:
        return True
    return False


def tools():
    for c in CASES:
        for i in c.inject:
            if isinstance(i, (catalogue.Tool, catalogue.InTurn, catalogue.Pulses, catalogue.Ramp)):
                yield c.name, i.text.split()


def wrong_tool(words):
    path = os.path.join(ROOT, "tests/faults", words[0])
    if not words[0].endswith(".py"):
        return False  # of the machine's
    if not os.path.exists(path):
        return True
    text = subprocess.run(["/usr/bin/python3", path, "--help"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return any(w.startswith("--") and w not in text for w in words)


def main():
    known = catalogue.layers()
    ok([c.name for c in CASES if catalogue.as_set(c.causes) - set(known)], "the causes are in causes.def")
    ok([c.name for c in CASES if c.causes and not (c.inject or c.from_start)],
       "who expects a verdict injects something")
    ok([f"{name} ({text})" for name, text in orders() if wrong_order(text)], "the ranks know their orders")
    ok([f"{name} ({' '.join(w)})" for name, w in tools() if wrong_tool(w)], "the tools are there and have the options")
    ok([n for c in CASES for n in c.needs if needs.here(n) is None], "the needs are those of needs.py")
    print(f"1..{count}")


main()
