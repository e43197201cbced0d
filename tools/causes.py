#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/causes.md, between its two marks, from model/causes.def and accounts.def.

With --check nothing is written: exit status 1 where the page would change."""
import ast
import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs/causes.md")
BEGIN, END = "<!-- made by `make causes` -->\n", "<!-- end of what `make causes` makes -->\n"
HEAD = "\n## {}\n\n| id | what is wrong | symptom | account | evidence | remedy |\n|---|---|---|---|---|---|\n"


def rows(name):
    """Of a .def file: a tuple of arguments for each row, a string for each comment of one line. Calls with names,
    numbers and adjoining strings are written alike in C and Python."""
    with open(os.path.join(ROOT, name), encoding="ascii") as f:
        text = re.sub(r"^#(?:.*\\\n)*.*$", "", f.read(), flags=re.M)
    text = re.sub(r"/\*(.*?)\*/", lambda m: "" if "\n" in m[1] else repr(m[1].strip()), text, flags=re.S)
    for statement in ast.parse(text).body:
        value = statement.value
        if isinstance(value, ast.Constant):
            yield value.value
        else:
            yield tuple(getattr(a, "value", getattr(a, "id", None)) for a in value.args)


def table(name):
    return [row for row in rows(name) if isinstance(row, tuple)]


def accounts():
    """The accounts that lead to each cause: "*blocked* (futex, file lock)"."""
    names = {symbol: text or name for symbol, name, text in table("analysis/ledger/ledger_what.def")}
    order = [*names, "WHATS"]
    some, rest = collections.defaultdict(dict), {}  # by kind: the causes of single whats; that of all others
    for kind, first, last, cause, *_ in table("analysis/cause/accounts.def"):
        if last == "WHATS":
            rest[kind] = cause
            continue
        for what in order[order.index(first):order.index(last) + 1]:
            some[kind].setdefault(what, cause)
    leads = collections.defaultdict(list)
    for kind in {**some, **rest}:
        for cause in dict.fromkeys([*some[kind].values(), *([rest[kind]] if kind in rest else [])]):
            whats = [names[w] for w, c in some[kind].items() if c == cause and names[w]]
            if cause == rest.get(kind):
                whats = ["all else"] if {*some[kind].values()} - {cause} else []
            leads[cause].append(f"*{kind.lower().replace('_', ' ')}*" + (f" ({', '.join(whats)})" if whats else ""))
    return {cause: ", ".join(text) for cause, text in leads.items()}


def tables():
    leads, seen, out = accounts(), set(), ""
    for row in rows("model/causes.def"):
        if isinstance(row, str):
            out += HEAD.format(row)
            continue
        symbol, _, name, title, _, symptom, evidence, remedy = row
        seen.add(symbol)
        out += f"| `{name}` | {title} | {symptom} | {leads.get(symbol, '')} | {evidence} | {remedy} |\n"
    assert seen >= {*leads}, f"accounts.def leads to causes that causes.def lacks: {set(leads) - seen}"
    return out


def main():
    with open(PAGE, encoding="utf-8") as f:
        old = f.read()
    head, rest = old.split(BEGIN)
    new = head + BEGIN + tables() + "\n" + END + rest.split(END)[1]
    if "--check" in sys.argv:
        return "docs/causes.md differs from the tables in analysis/; run `make causes`" if new != old else 0
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
