#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing is wrong, for as long as all the others together: no incident."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def main():
    seconds = float(os.environ.get("SCENARIO_SECONDS", 60))
    with scenario.Scenario("case_healthy", "a healthy job", int(seconds) + 240) as s:
        s.start_stack()
        # Less work of the host than in the other cases: on a small machine whose memory others share, 17 ms of
        # copying in a step of 100 ms become 40 for minutes, and such a rank is slow indeed.
        s.begin(s.simjob("--mix", "shard", "--host-work", "pack:kib=4096"), quiet=seconds)


main()
