#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: root cpus bpf blkio-group module:torch
# alone: judges the steps of a job
"""Case 5, limit: the reads of one rank are held by a limit of its cgroup."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def main():
    with scenario.Scenario("case_storage_limit", "rate-limited storage") as s:
        if not os.path.exists("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device"):
            s.skip("needs blkio-group")
        s.start_stack()
        disk = os.stat(s.stack.dir).st_dev
        s.begin(s.torchrun("--loader", "direct"), learn=150)
        for rank in (1, 2) if s.full else (1,):
            s.fault("a limit of 400 kB/s on its reads", rank,
                    [f"{scenario.FAULTS}/disk_limit.py", "--pid", s.rank_pids()[rank], "--device",
                     f"{os.major(disk)}:{os.minor(disk)}", "--bytes-per-second", 400000],
                    scenario.Want({"storage-limit", "storage-disk"}, "storage",
                                  named=["next_batch|read"], remedy="limit|device"))
            s.rest()


main()
