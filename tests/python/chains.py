#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Threads that stand still in known places, and what the interpreter itself says of their frames.

Prints, of this process and then of each child: `P pid`, per thread `T tid`, per frame innermost first
`F line<TAB>qualified name<TAB>file`, and `.` at the end. Then waits for its standard input to end.
"""
import asyncio
import functools
import multiprocessing
import os
import sys
import threading
import time

GATE, GATE_WRITE = os.pipe()
READ = []  # the line of the read in block()


def block():
    READ[:] = [sys._getframe().f_lineno + 1]
    os.read(GATE, 1)


def plain():
    block()


def deep(n):
    if n:
        return deep(n - 1)
    block()


def generator(n):
    if n:
        yield from generator(n - 1)
    else:
        block()
        yield 1


def run_generator():
    return list(generator(4))


def comprehension():
    return [x for x in range(3) if x != 1 or [plain() for _ in range(1)]]


class Key:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return compare(self, other)


def compare(a, b):
    if a.value == 2:
        block()
    return a.value < b.value


def run_sorted():
    return sorted([Key(3), Key(2), Key(1)])


def run_sorted_key():
    return sorted([3, 2, 1], key=lambda x: block() if x == 2 else x)


def run_map():
    return list(map(lambda x: run_sorted() if x else 0, [0, 1]))


class Größe:
    """Names that are not ASCII: Latin-1, and beyond."""

    def äußern(self):
        return self.λ_долго()

    def λ_долго(self):
        return self.𐐀()

    def 𐐀(self):
        block()


def run_names():
    return Größe().äußern()


async def inner(n):
    if n:
        return await inner(n - 1)
    await asyncio.sleep(0)
    plain()


async def outer():
    await asyncio.gather(inner(3))


def run_asyncio():
    asyncio.run(outer())


def run_partial():
    functools.partial(functools.reduce, lambda a, b: plain())([1, 2])


def run_exec():
    exec(compile("def made():\n\n\n  plain()\nmade()", "<made up>", "exec"), globals())


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)
    return wrapper


@decorated
@decorated
def run_decorated(*_args, **_kwargs):
    with open(os.devnull, encoding="utf-8") as f:
        for _ in f or [1]:
            pass
        try:
            raise ValueError
        except ValueError:
            plain()


TARGETS = [plain, functools.partial(deep, 90), run_generator, comprehension, run_sorted,
           run_sorted_key, run_map, run_names, run_asyncio, run_partial, run_exec, run_decorated,
           functools.partial(deep, 400)]


def name(code):
    return getattr(code, "co_qualname", code.co_name)


def dump(me):
    """Frames of every thread but this one, or None while one of them still moves."""
    out = []
    frames = sys._current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident)
        if frame is None:
            return None
        if thread.ident == me:
            continue
        if frame.f_code is not block.__code__ or not READ or frame.f_lineno != READ[0]:
            return None
        with open(f"/proc/self/task/{thread.native_id}/stat", encoding="ascii") as f:
            if f.read().rpartition(")")[2].split()[0] != "S":
                return None
        out.append(f"T {thread.native_id}")
        while frame is not None:
            out.append(f"F {frame.f_lineno}\t{name(frame.f_code)}\t{frame.f_code.co_filename}")
            frame = frame.f_back
    return out


def write_chain(out):
    me = threading.get_ident()
    old = None
    while True:
        lines = dump(me)
        if lines is not None and lines == old:
            break
        old = lines
        time.sleep(0.01)
    os.write(out, "\n".join([f"P {os.getpid()}"] + lines + [".", ""]).encode())


def child(out):
    """In a forked or spawned process: one thread stands still, this one writes its chain and then waits."""
    if multiprocessing.get_start_method() == "spawn":
        thread = threading.Thread(target=functools.partial(deep, 3), daemon=True)
    else:
        thread = threading.Thread(target=run_map, daemon=True)
    thread.start()
    write_chain(out)
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


def main():
    how = sys.argv[1] if len(sys.argv) > 1 else ""
    out = sys.stdout.fileno()
    if how in ("fork", "spawn"):
        multiprocessing.set_start_method(how)
        p = multiprocessing.Process(target=child, args=(out,), daemon=True)
        p.start()
        sys.stdin.read()
        p.kill()
        os._exit(0)
    if how == "main":
        # the main thread stands still and another one writes its chain
        def other():
            write_chain(out)
            sys.stdin.read()
            os._exit(0)
        threading.Thread(target=other, daemon=True).start()
        run_map()
    threading.stack_size(16 << 20)
    sys.setrecursionlimit(2000)
    targets = TARGETS[:int(how)] if how.isdigit() else TARGETS
    for target in targets:
        threading.Thread(target=target, daemon=True).start()
    write_chain(out)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
