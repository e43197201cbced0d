#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Case 2: soft interrupts on the CPU of a rank's communication thread."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import softirq_case  # noqa: E402

softirq_case.run("case_softirq_comm", "communication thread", "nccl-comm", "--comm-thread")

