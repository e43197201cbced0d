#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Case 5, CPU: the storage client of one rank has to expand a dear format and takes a whole CPU."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def main():
    with scenario.Scenario("case_storage_client", "a storage client that takes the CPU") as s:
        s.start_stack()
        s.begin(s.torchrun("--loader", "client"), learn=150)
        for rank in (1, 2) if s.full else (1,):
            s.fault("blocks kept with another codec", rank, lambda r=rank: s.order(f"{r} codec bz2"),
                    scenario.Want("storage-client", "storage", named=["bz2|BZ2|expand|decompress"]),
                    stop=lambda r=rank: s.order(f"{r} codec zlib"))
            s.rest()


main()
