#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: root cpus bpf blkio-group
# quiet: judges the steps of a job
# long: two scenarios
"""One scenario of the catalogue each for GPU and storage, on one rank."""
import os
import subprocess
import sys

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_case.py")

codes = [subprocess.run(["/usr/bin/python3", RUN, name], check=False).returncode for name in ("clocks", "disk_limit")]
sys.exit(max(codes))
