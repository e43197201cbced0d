#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: module:yaml
"""tools/spans_check.py, on a package that is written here: what it says of a catalogue of which all is there, and of
what a release can do to one: a function that is renamed, a parameter or an attribute that is gone."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402

PACKAGE = {
    "__init__.py": "from .engine import Engine as Core\n",
    "plan.py": """
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Optional

class Pair(NamedTuple):
    tokens: int

@dataclass
class Item:
    request_id: str
    tokens: list[int]

class Plan:
    items: "Optional[list[Item]]"
    queue: deque[int]
    pair: Pair

    def __init__(self, counts: dict[str, int]):
        self.counts = counts
        self.total: int = sum(counts.values())
        self.guess = guess()

    @property
    def size(self):
        return len(self.counts)
""",
    "engine.py": """
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from .plan import Plan

class Base(ABC):
    @abstractmethod
    def load(self): ...
    def step(self, plan: "Plan", *, seconds: float = 0.0): ...
    def schedule(self) -> "Plan | None": ...

class Engine(Base):
    def step_before(self, plan: "Plan"): ...
    async def serve(self, request: Union["Plan", int]): ...

def outer():
    def inner(plan): ...
""",
}
GOOD = """
  - name: step
    functions: ["mini.engine:Engine.step", "mini.engine:Engine.step_of_old"]
    work: {tokens: plan.total + plan.total_of_old, batch: len(plan.counts), context: seconds}
    requests: {in: plan.items, id: request_id, tokens: len(tokens)}
  - name: schedule
    functions: ["mini:Core.schedule"]
    work: {batch: len(return.counts)}
    requests: return.counts
  - name: serve
    functions: ["mini.engine:Engine.serve"]
    work: {tokens: request.total}
"""
BAD = {  # what is said of it
    '{name: a, functions: ["mini.engine:Engine.stage"]}': "a: no function in this tree: mini.engine:Engine.stage",
    '{name: a, functions: ["mini.motor:step"]}': "a: no function in this tree: mini.motor:step",
    '{name: a, functions: ["mini.engine:Engine.load"]}': "a: no function in this tree: mini.engine:Engine.load",
    '{name: a, functions: ["mini.engine:Engine.step"], work: {tokens: batch.total}}': "batch.total: step has no parameter batch",
    '{name: a, functions: ["mini.engine:Engine.step"], work: {tokens: plan.tokens}}': "plan.tokens: Plan has no tokens",
    '{name: a, functions: ["mini.engine:Engine.step"], request: plan.size}': "plan.size: Plan.size is a property or a method",
    '{name: a, functions: ["mini.engine:Engine.step"], decode: plan.pair.tokens}': "Pair is a named tuple",
    '{name: a, functions: ["mini.engine:Engine.step"], work: {batch: len(plan.queue)}}': "len() does not read deque",
    '{name: a, functions: ["mini.engine:Engine.step"], requests: {in: plan.items, id: rid}}': "id: rid: Item has no rid",
}
OPEN = """
  - name: step
    functions: ["mini.engine:Engine.step"]
    work: {tokens: plan.guess.tokens}
  - name: inner
    functions: ["mini.engine:outer.<locals>.inner"]
    work: {tokens: plan.total}
"""


def check(work, spans):
    """Its exit status and lines."""
    with open(f"{work}/mini.yaml", "w", encoding="ascii") as f:
        f.write(f"framework: mini\nstart: import\nspans:\n{spans}\n")
    p = subprocess.run([sys.executable, "tools/spans_check.py", f"{work}/mini.yaml", f"{work}/tree"],
                       capture_output=True, text=True, check=False)
    return p.returncode, p.stdout + p.stderr


def main():
    with tempfile.TemporaryDirectory() as work:
        os.makedirs(f"{work}/tree/src/mini")
        for name, text in PACKAGE.items():
            with open(f"{work}/tree/src/mini/{name}", "w", encoding="ascii") as f:
                f.write(text)
        status, said = check(work, GOOD)
        tap.ok(status == 0 and "3 of 3 spans; values: 9 there, 0 open, 0 not there" in said,
               "methods that are inherited or handed on, and what they read, are there", said)
        tap.ok("step: 1 of 2 functions" in said and "Plan has no total_of_old" in said,
               "a function or a term of another release is named, and is no fault", said)
        for span, words in BAD.items():
            status, said = check(work, f"  - {span}")
            tap.ok(status == 1 and words in said, f"a fault: {words}", (status, said))
        status, said = check(work, OPEN)
        tap.ok(status == 0 and "2 of 2 spans; values: 0 there, 2 open, 0 not there" in said,
               "where annotations end, a value is open", (status, said))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
