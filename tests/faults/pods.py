#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods come and go on this node: so many network devices are made in a network of their own and removed together, again
and again, until SIGTERM. The kernel has its lock of all network settings (RTNL) meanwhile.

    pods.py --devices 400
"""
import argparse
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--devices", type=int, required=True)
    o = p.parse_args()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    add = "".join(f"link add a{i} group 7 type veth peer name b{i} group 7\n" for i in range(o.devices // 2))
    print("pods: on", flush=True)
    while True:
        subprocess.run(["ip", "-batch", "-"], input=add, text=True, check=True)
        subprocess.run(["ip", "link", "del", "group", "7"], check=True)


main()
