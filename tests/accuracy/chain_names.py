#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores the Python functions in folded stacks of chain.py, whose chains are known.
usage: chain_names.py FILE

Right: a stack's Python frames, from the root, are one of the chains that chain.py can be in, by
qualified names as CPython has them from 3.11 on or by plain ones, the same way throughout the file.
Printed by weight (time): right, wrong, and stacks without any Python frame. Fails on a wrong one and
below 99.9% right.
"""
import collections
import re
import sys


def chains(k, comprehension):
    """What the frames from the root may be; from 3.12 on a list comprehension has no frame."""
    return re.compile(r"<module>( main( fold( work)?|( climb){1,11}"
                      rf"|( climb){{11}}( {comprehension})?( {k}__init__)?"
                      rf"|( climb){{11}} {k}__lt__( work)?)?)?")


RIGHT_LEAST = 0.999
FORMS = (chains(r"K\.", r"climb\.<locals>\.<listcomp>"), chains("", "<listcomp>"))


def main():
    seen, bare = collections.Counter(), collections.Counter()
    with open(sys.argv[1], encoding="utf-8") as f:
        for line in f:
            stack, _, value = line.rstrip("\n").rpartition(" ")
            names = re.findall(r"(?:^|;)([^;]+) \(chain\.py\)", stack)
            seen[" ".join(names)] += int(value)
            if not names:
                bare[stack] += int(value)
    right, form = max(((sum(v for c, v in seen.items() if form.fullmatch(c)), form)
                       for form in FORMS), key=lambda x: x[0])
    none = seen[""]
    whole = sum(seen.values()) or 1
    wrong = [(c, v) for c, v in seen.most_common() if c and not form.fullmatch(c)]
    print("    names of Python functions, by the known chain: "
          f"right {100 * right / whole:.2f}%, wrong {100 * sum(v for _, v in wrong) / whole:.2f}%, "
          f"none {100 * none / whole:.2f}% of the time")
    for chain, value in wrong[:3]:
        print(f"    wrong: {100 * value / whole:.2f}%: {chain}")
    for stack, value in bare.most_common(3):
        print(f"    none: {100 * value / whole:.2f}%: {stack}")
    return 1 if wrong or right < RIGHT_LEAST * whole else 0


if __name__ == "__main__":
    sys.exit(main())
