#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: root cpus bpf
# alone: contention between CPUs
"""Case 3: a process of somebody else's makes and removes files in a directory where a rank looks files up."""
import os
import sys
import shutil
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def main():
    with scenario.Scenario("case_path_lookup", "contention in the kernel's path lookup") as s:
        s.start_stack(cpus={scenario.OTHER_CPU})
        places = tempfile.mkdtemp(prefix="scenario-", dir="/dev/shm")
        try:
            s.begin(s.simjob("--mix", "shard", "--host-work", f"lookups:count=10000:dir={places}"),
                    pin=(1,))
            for rank in (1, 2) if s.full else (1,):
                if rank == 2:
                    s.pin(rank)
                    s.rest()
                s.fault("files made and removed where it looks", rank,
                        [f"{scenario.BUILD}/faults/dir_churn", f"{places}/r{rank}"],
                        scenario.Want("os-lock", "os", named=["dir_churn"], remedy="dir_churn"),
                        urgency=-10)  # else a busy machine keeps it from being one
                s.rest()
            s.end_job()
        finally:
            shutil.rmtree(places, ignore_errors=True)


main()
