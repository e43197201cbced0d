#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores the Python functions in folded stacks of chain.py, whose chains are known. usage: chain_names.py FILE

Right: a stack's Python frames, from the root, are one of the chains that chain.py can be in. Printed by
weight (time): right, wrong, and stacks without any Python frame.
"""
import collections
import re
import sys

CHAIN = re.compile(r"<module>( main( fold( work)?|( climb){1,11}"
                   r"|( climb){11}( <listcomp>)?( K\.__init__)?|( climb){11} K\.__lt__( work)?)?)?")


def main():
    weight = collections.Counter()
    wrong = collections.Counter()
    with open(sys.argv[1], encoding="utf-8") as f:
        for line in f:
            stack, _, value = line.rstrip("\n").rpartition(" ")
            names = [m.group(1) for m in re.finditer(r"(?:^|;)([^;]+) \(chain\.py\)", stack)]
            kind = "none" if not names else "right" if CHAIN.fullmatch(" ".join(names)) else "wrong"
            weight[kind] += int(value)
            if kind == "wrong":
                wrong[" ".join(names)] += int(value)
    whole = sum(weight.values()) or 1
    print("    names of Python functions, by the known chain: " + ", ".join(
        f"{kind} {100 * weight[kind] / whole:.2f}%" for kind in ("right", "wrong", "none")) + " of the time")
    for chain, value in wrong.most_common(3):
        print(f"    wrong: {100 * value / whole:.2f}%: {chain}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
