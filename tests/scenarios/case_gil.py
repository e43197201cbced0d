#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A thread that computes in Python holds the GIL of one rank."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def main():
    with scenario.Scenario("case_gil", "a GIL hog") as s:
        s.start_stack()
        s.begin(s.torchrun("--loader", "direct"), learn=150)
        for rank in (1, 2) if s.full else (1,):
            s.fault("a thread that computes in Python", rank, lambda r=rank: s.order(f"{r} gil 25"),
                    scenario.Want("cpu-gil", "cpu", named=["gil_hog"], remedy="process"))
            s.rest(30)


main()
