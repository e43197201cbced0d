#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Works without end in three stacks of one thread, each a known chain; C stands before every *_leaf."""
import math
import os

from greenlet import greenlet


def work(n):
    s = 0.0
    for i in range(n):
        s += math.sqrt(i)
    return s


def m_leaf(n):
    return work(n)


def a_leaf(n):
    return work(n)


def b_leaf(n):
    return work(n)


def b_step(other, depth):
    if depth:
        return b_step(other, depth - 1)
    list(map(b_leaf, [20000]))
    other.switch()
    return list(map(b_leaf, [20000]))


def b_run():
    while True:
        b_step(main_greenlet, 5)


def a_step():
    list(map(a_leaf, [20000]))
    b.switch()
    return list(map(a_leaf, [20000]))


def a_run():
    while True:
        a_step()


def main():
    os.write(1, f"P {os.getpid()}\n.\n".encode())
    while True:
        list(map(m_leaf, [20000]))
        # started below C and Python frames of this one
        list(map(lambda g: g.switch(), [a]))


main_greenlet = greenlet.getcurrent()
a, b = greenlet(a_run), greenlet(b_run)
main()
