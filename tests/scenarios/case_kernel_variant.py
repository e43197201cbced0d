#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank runs another variant of a kernel, from its first step on: only its peers tell."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


FAULT = ("variant:rank=%d:start=0:size=1.8:kernel=256x128_ldg8_f2f_stages_64x3_tn(up)"
         ":with=ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_tn(up)")


def main():
    with scenario.Scenario("case_kernel_variant", "another kernel variant on one rank", 420) as s:
        s.start_stack()
        s.begin(s.simjob("--mix", "train"), name="variant-none")
        usual = s.usual_ms()
        s.end_job()
        for rank in (1, 2) if s.full else (1,):
            s.fault_from_start("another variant of a gemm", rank,
                               s.simjob("--mix", "train", "--fault", FAULT % rank),
                               scenario.Want("gpu-variant", "gpu", named=["64x64_ldg8"]),
                               name=f"variant-{rank}", usual_ms=usual)
            s.end_job()


main()
