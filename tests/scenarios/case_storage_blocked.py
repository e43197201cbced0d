#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Case 5, off-CPU: the data loader of one rank waits for a storage server that answers late."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def main():
    with scenario.Scenario("case_storage_blocked", "a data loader that is blocked") as s:
        s.start_stack()
        s.serve_storage()
        s.begin(s.torchrun("--loader", "worker"), learn=180)
        for rank in (1, 2) if s.full else (1,):
            s.fault("40 ms more per sample from the storage server", rank,
                    lambda r=rank: s.slow_storage(r, 40),
                    scenario.Want("storage-loader", "storage"), stop=s.usual_storage)
            s.rest()


main()
