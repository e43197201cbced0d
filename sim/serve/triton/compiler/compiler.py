# SPDX-License-Identifier: Apache-2.0
"""A double of Triton's compiler: the fault `triton`, a kernel that is compiled inside a step."""
import time


def compile(src, milliseconds):  # pylint: disable=redefined-builtin
    """The passes over a kernel's representation."""
    until = time.thread_time_ns() + int(milliseconds * 1e6)
    passes = 0
    while time.thread_time_ns() < until:
        passes += len([op for op in src * 40 if op != "_"]) & 1
    return passes
