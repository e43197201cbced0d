#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Case 4: logging is turned up on every rank; only the earlier run of the same job shows it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def main():
    with scenario.Scenario("case_logging", "logging turned up on every rank", 700) as s:
        # What is normal is sent every 15 s and not every minute. A run leaves its baseline once a minute,
        # after the first half, of at least 200 healthy steps.
        s.start_stack(flags=["--sketch-period", "15s"])
        s.begin(s.torchrun(), learn=150, quiet=95)
        usual = s.usual_ms()
        s.end_job()
        if s.full:
            s.begin(s.torchrun(), learn=150, quiet=45)
            s.end_job()
        s.fault_from_start("log level DEBUG", None, s.torchrun("--log-level", "DEBUG"),
                           scenario.Want("sw-logging", "software", kind="uniform",
                                         named=["log"], remedy="log"), usual_ms=usual)


main()
