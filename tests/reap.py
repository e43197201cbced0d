#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reap.py [--ahead] COMMAND...: runs it; once it has ended, ends every process that it left behind, by pid, and
nothing else. All orphans below become this process's children (PR_SET_CHILD_SUBREAPER), in whatever session or
group they are. SIGTERM ends the command and the rest. The exit status is the command's; 128 + N after signal N. --ahead: before what else
the machine does, where that is allowed (root)."""
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
AHEAD = -20  # nice


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError):  # gone meanwhile
        return 0


def end_children():
    """The children of one that ends become ours, so that the next round finds them. One can wait for another before it
    ends: the first process of a container for all others, a reader for the server of its file system."""
    me = os.getpid()
    while mine := [int(p) for p in os.listdir("/proc") if p.isdigit() and parent_of(p) == me]:
        for pid in mine:
            os.kill(pid, signal.SIGKILL)  # ours until waited for: nobody else can have its number
        if not any([os.waitpid(pid, os.WNOHANG)[0] for pid in mine]):
            time.sleep(0.01)


def go_ahead():
    """Where a session is one to the scheduler (autogroups), as such; else each process for itself."""
    try:
        with open("/proc/self/autogroup", "r+", encoding="ascii") as f:
            f.write(str(AHEAD))
    except OSError:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, AHEAD)
        except OSError:
            pass  # an ordinary user


def main():
    command = sys.argv[1:]
    if command[0] == "--ahead":
        command = command[1:]
        go_ahead()
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("reap: no PR_SET_CHILD_SUBREAPER")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    code = 128 + signal.SIGTERM
    try:
        code = subprocess.Popen(command, env=dict(os.environ, SYSOM_TEST_REAPED="1")).wait()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_children()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
