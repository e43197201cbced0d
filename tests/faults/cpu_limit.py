#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CPU limit (cgroup version 1): moves a process into a group of its own with a quota, and back and
away with the group on SIGTERM or after --seconds.

    cpu_limit.py --pid PID --percent 5 [--seconds 30]
"""
import fault_group


def main():
    o, own = fault_group.options("cpu", lambda p: p.add_argument("--percent", type=float, required=True))
    own.put("cpu.cfs_period_us", 100000)
    own.put("cpu.cfs_quota_us", int(o.percent * 1000))
    own.hold(o, "cpu_limit")


main()
