# SPDX-License-Identifier: Apache-2.0
"""What can go wrong inside a rank of rank_victim.py. Each fault is a generator: what stands before its first
yield is prepared, every yield gives the number of the next step, and the code behind it runs once in that step.
An order names the fault and its arguments ("sleep every=3 ms=30"); closing the generator ends it.
"""
import asyncio
import concurrent.futures
import contextlib
import copy
import ctypes
import difflib
import fcntl
import functools
import gc
import gzip
import http.client
import importlib
import inspect
import json
import logging
import logging.handlers
import mmap
import multiprocessing
import multiprocessing.shared_memory
import os
import pickle
import queue
import random
import re
import resource
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import traceback
import types
import unicodedata
import warnings
import zlib

PAGE = mmap.PAGESIZE


@contextlib.contextmanager
def beside(context, function):
    """A process of the rank's own."""
    process = context.Process(target=function, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()


@contextlib.contextmanager
def launching(rank, kernel):
    """The rank launches kernels by this function."""
    rank.kernel = kernel
    try:
        yield
    finally:
        del rank.kernel


# ---- the launch thread sleeps, or waits for somebody ----

def sleep(rank, every=1, ms=20):
    """A pause in the script."""
    while True:
        step = yield
        if step % every == 0:
            time.sleep(ms / 1e3)


def read_direct(rank, every=1, kib=1024):
    """Reads past the page cache."""
    path = os.path.join(rank.dir, f"direct-{rank.rank}")
    with open(path, "wb") as f:
        f.write(os.urandom(kib << 10))
        os.fsync(f.fileno())
    fd, buffer = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 64 << 10)
    while True:
        step = yield
        if step % every == 0:
            for at in range(0, kib << 10, 64 << 10):
                os.preadv(fd, [buffer], at)


def log_synced(rank, lines=4):
    """Every line of the log is on the disk before the step goes on."""
    with open(os.path.join(rank.dir, f"synced-{rank.rank}.log"), "a", encoding="ascii") as log:
        while True:
            step = yield
            for line in range(lines):
                log.write(f"step {step} line {line}: loss {1 / (step + 1):.6f}\n")
                log.flush()
                os.fsync(log.fileno())


def lock(rank, ms=25, every=2):
    """Another thread holds a lock of the step's while it waits for something itself."""
    guard, go, over = threading.Lock(), threading.Event(), threading.Event()
    held = threading.Event()

    def flush_metrics():
        while not over.is_set():
            go.wait()
            go.clear()
            with guard:
                held.set()
                over.wait(ms / 1e3)

    threading.Thread(target=flush_metrics, name="metrics", daemon=True).start()
    try:
        while True:
            step = yield
            if step % every == 0:
                go.set()
                held.wait()
                held.clear()
            with guard:
                pass
    finally:
        over.set()
        go.set()


def flock(rank, path):
    """A lock file that other processes use as well."""
    with open(f"{path}-{rank.rank}", "a", encoding="ascii") as f:
        while True:
            yield
            fcntl.flock(f, fcntl.LOCK_EX)
            fcntl.flock(f, fcntl.LOCK_UN)


def child(rank, ms=30):
    """Runs a program and waits for it."""
    while True:
        yield
        subprocess.run(["/bin/sleep", f"{ms / 1e3}"], check=True)


def fifo(rank, ms=30):
    """A named pipe whose writer, another process, answers each question late."""
    path = os.path.join(rank.dir, f"fifo-{rank.rank}")
    os.mkfifo(path)
    writer = subprocess.Popen(["/bin/sh", "-c", f"exec >{path}; while read q; do /bin/sleep {ms / 1e3}; echo a; done"],
                              stdin=subprocess.PIPE)
    with open(path, "rb", buffering=0) as f:
        while True:
            yield
            writer.stdin.write(b"q\n")
            writer.stdin.flush()
            f.read(2)


def ask_server(rank, port):
    """A question over TCP whose answer the step needs."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(bytes([rank.rank]))
        while True:
            yield
            s.sendall(b"q")
            left = 64 << 10
            while left:
                left -= len(s.recv(left))


def ask_resolver(rank, ms=25):
    """A question by UDP to a server that answers late."""
    server, over = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), threading.Event()
    server.bind(("127.0.0.1", 0))
    pid = os.fork()
    if not pid:
        while True:
            question, who = server.recvfrom(64)
            time.sleep(ms / 1e3)
            server.sendto(question, who)
    port = server.getsockname()[1]
    server.close()
    asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        while True:
            yield
            asks.sendto(b"a name", ("127.0.0.1", port))
            asks.recv(64)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        asks.close()


def fetch_config(rank, ms=30):
    """An HTTP request in each step, to a server that is slow."""
    script = ("import http.server,sys,time\n"
              "class H(http.server.BaseHTTPRequestHandler):\n"
              "    protocol_version = 'HTTP/1.1'\n"
              "    def do_GET(self):\n"
              f"        time.sleep({ms / 1e3})\n"
              "        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers()\n"
              "        self.wfile.write(b'ok')\n"
              "    def log_message(self, *a): pass\n"
              "s = http.server.HTTPServer(('127.0.0.1', 0), H)\n"
              "print(s.server_port, flush=True)\n"
              "s.serve_forever()\n")
    server = subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE)
    client = http.client.HTTPConnection("127.0.0.1", int(server.stdout.readline()))
    try:
        while True:
            yield
            client.request("GET", "/config")
            client.getresponse().read()
    finally:
        server.kill()
        server.wait()


def log_to_daemon(rank, ms=2, lines=12):
    """The log goes to a daemon's local socket, which takes its time for each line."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    pid = os.fork()
    if not pid:
        while True:
            its.recv(4096)
            time.sleep(ms / 1e3)
    try:
        while True:
            step = yield
            for line in range(lines):
                ours.send(b"<6>train: step %d line %d " % (step, line) + b"x" * 900)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def prefetch(rank, ms=35):
    """A thread prepares the next batch and is too slow: it waits itself."""
    ready, over = queue.Queue(1), threading.Event()

    def prepare_batch():
        while not over.is_set():
            time.sleep(ms / 1e3)
            ready.put(b"")

    threading.Thread(target=prepare_batch, name="prefetch", daemon=True).start()
    try:
        while True:
            yield
            ready.get()
    finally:
        over.set()


def save_every(rank, every=5, mb=8):
    """Writes its state and syncs it, every few steps."""
    state = os.urandom(1 << 20)
    while True:
        step = yield
        if step % every == 0:
            with open(os.path.join(rank.dir, f"state-{rank.rank}"), "wb") as f:
                for _ in range(mb):
                    f.write(state)
                f.flush()
                os.fsync(f.fileno())


def async_sleep(rank, ms=25):
    """A coroutine asks again and again whether something is there."""
    async def until_ready():
        for _ in range(5):
            await asyncio.sleep(ms / 5e3)

    loop = asyncio.new_event_loop()
    try:
        while True:
            yield
            loop.run_until_complete(until_ready())
    finally:
        loop.close()


def full_queue(rank, ms=90):
    """A multiprocessing.Queue that is full: the process behind it is slow."""
    context = multiprocessing.get_context("fork")
    samples = context.Queue(1)

    def consume():
        while True:
            samples.get()
            time.sleep(ms / 1e3)

    with beside(context, consume):
        while True:
            yield
            samples.put(b"x" * 1000)


def look_up_name(rank, every=20):
    """A name server that doesn't answer: the lookup times out after a second."""
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    libc = ctypes.CDLL(None)
    libc.__res_state.restype = ctypes.c_void_p
    libc.__res_init()
    state = libc.__res_state()  # retrans, retry, options, nscount, nsaddr_list: of this thread
    ctypes.memmove(state, struct.pack("=ii", 1, 1), 8)
    ctypes.memmove(state + 16, struct.pack("=iHHI8x", 1, socket.AF_INET, socket.htons(silent.getsockname()[1]),
                                           0x0100007f), 20)
    try:
        while True:
            step = yield
            if step % every == 0:
                try:
                    socket.getaddrinfo("metrics.example.", 80, socket.AF_INET)
                except OSError:
                    pass
    finally:
        libc.__res_init()
        silent.close()


def commit_metrics(rank, commits=15):
    """Metrics go to a database, a transaction each."""
    base = sqlite3.connect(os.path.join(rank.dir, f"metrics-{rank.rank}.db"), check_same_thread=False)
    base.execute("pragma synchronous = full")
    base.execute("create table if not exists metric (step, name, value)")
    try:
        while True:
            step = yield
            for i in range(commits):
                base.execute("insert into metric values (?, ?, ?)", (step, f"m{i}", 0.5))
                base.commit()
    finally:
        base.close()


def sync_mapped(rank, every=4, mb=48):
    """A mapped file is written and synced, every few steps."""
    with open(os.path.join(rank.dir, f"synced-{rank.rank}"), "w+b") as f:
        f.truncate(mb << 20)
        m, block = mmap.mmap(f.fileno(), mb << 20), rank.rng.randbytes(1 << 20)
    while True:
        step = yield
        if step % every == 0:
            for at in range(mb):
                m[at << 20:(at + 1) << 20] = block
            m.flush()


def write_direct(rank, kib=64):
    """Writes past the page cache."""
    fd = os.open(os.path.join(rank.dir, f"written-{rank.rank}"), os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    block = mmap.mmap(-1, kib << 10)
    os.pwrite(fd, block, 0)
    while True:
        yield
        os.pwrite(fd, block, 0)


def shared_lock(rank, path, ms=10):
    """A lock file that all ranks share, with some work under it."""
    packs = rank.packs_in(ms)
    with open(path, "a", encoding="ascii") as f:
        while True:
            yield
            fcntl.flock(f, fcntl.LOCK_EX)
            rank.pack_batch(packs)
            fcntl.flock(f, fcntl.LOCK_UN)


def poll_often(rank, ms=25):
    """Waits for another thread by looking often, with short sleeps."""
    go, over, ready = threading.Event(), threading.Event(), []

    def prepare():
        while not over.is_set():
            go.wait()
            go.clear()
            over.wait(ms / 1e3)
            ready.append(1)

    threading.Thread(target=prepare, name="prepare", daemon=True).start()
    try:
        while True:
            yield
            go.set()
            while not ready:
                time.sleep(0.0005)
            ready.clear()
    finally:
        over.set()
        go.set()


def send_metrics(rank, kib=320, ms=8):
    """Metrics go out over TCP, and who takes them reads slowly."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    pid = os.fork()
    if not pid:
        its, _ = listener.accept()
        while its.recv(32 << 10):
            time.sleep(ms / 1e3)
        os._exit(0)
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
    s.connect(listener.getsockname())
    listener.close()
    block = bytes(kib << 10)
    try:
        while True:
            yield
            s.sendall(block)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        s.close()


def ask_in_pool(rank, port):
    """A thread of a pool asks a server, and the step waits for its future."""
    def ask(s):
        s.sendall(b"q")
        left = 64 << 10
        while left:
            left -= len(s.recv(left))

    with socket.create_connection(("127.0.0.1", port)) as s, concurrent.futures.ThreadPoolExecutor(1) as pool:
        s.sendall(bytes([rank.rank]))
        while True:
            yield
            pool.submit(ask, s).result()


def lock_chain(rank, ms=25):
    """Waits for a lock whose holder waits for an answer of another process."""
    guard, go, held, over = threading.Lock(), threading.Event(), threading.Event(), threading.Event()
    helper = subprocess.Popen(["/bin/sh", "-c", f"while read q; do /bin/sleep {ms / 1e3}; echo a; done"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def validate():
        while not over.is_set():
            go.wait()
            go.clear()
            if over.is_set():
                return
            with guard:
                held.set()
                helper.stdin.write(b"q\n")
                helper.stdout.read(2)

    threading.Thread(target=validate, name="validate", daemon=True).start()
    try:
        while True:
            yield
            go.set()
            held.wait()
            held.clear()
            with guard:
                pass
    finally:
        over.set()
        helper.kill()
        helper.wait()
        go.set()


def sync_state(rank, mb=16):
    """Writes its state and syncs it, in each step."""
    state = rank.rng.randbytes(mb << 20)
    with open(os.path.join(rank.dir, f"state-{rank.rank}"), "wb", buffering=0) as f:
        while True:
            yield
            f.seek(0)
            f.write(state)
            os.fsync(f.fileno())


def read_remote(rank, path, reads=4):
    """Reads from a file system that a server holds."""
    fd = os.open(path, os.O_RDONLY)
    try:
        while True:
            yield
            for i in range(reads):
                os.pread(fd, 16 << 10, i << 14)
    finally:
        os.close(fd)


def wait_for_post(rank, every=7, ms=60):
    """A process of its own does something every few steps, and a semaphore of both says that it is done."""
    context = multiprocessing.get_context("fork")
    go, done = context.Semaphore(0), context.Semaphore(0)

    def index_samples():
        while True:
            go.acquire()
            time.sleep(ms / 1e3)
            done.release()

    helper = context.Process(target=index_samples, daemon=True)
    helper.start()
    try:
        while True:
            step = yield
            if step % every == 0:
                go.release()
                done.acquire()
    finally:
        helper.kill()


def system_v_post(rank, ms=30):
    """Another process does a part of the step, and semaphores of System V say when."""
    libc, wait = ctypes.CDLL(None), (struct.pack("=Hhh", 0, -1, 0), struct.pack("=Hhh", 1, -1, 0))
    post = struct.pack("=Hhh", 0, 1, 0), struct.pack("=Hhh", 1, 1, 0)
    sem = libc.semget(0, 2, 0o600)
    pid = os.fork()
    if not pid:
        while not libc.semop(sem, wait[0], 1):
            time.sleep(ms / 1e3)
            libc.semop(sem, post[1], 1)
        os._exit(0)
    try:
        while True:
            yield
            libc.semop(sem, post[0], 1)
            libc.semop(sem, wait[1], 1)
    finally:
        libc.semctl(sem, 0, 0)  # IPC_RMID
        os.waitpid(pid, 0)


def message_queue(rank, ms=30):
    """Another process answers by a message queue (POSIX)."""
    libc, name = ctypes.CDLL(None), b"/answers-%d" % os.getpid()
    answers = libc.mq_open(name, os.O_RDWR | os.O_CREAT, 0o600, struct.pack("=8q", 0, 4, 64, 0, 0, 0, 0, 0))
    ours, its = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(its)
        while os.read(ours, 1):
            time.sleep(ms / 1e3)
            libc.mq_send(answers, b"ok", 2, 0)
        os._exit(0)
    os.close(ours)
    libc.mq_unlink(name)
    room = ctypes.create_string_buffer(64)
    try:
        while True:
            yield
            os.write(its, b"q")
            libc.mq_receive(answers, room, 64, None)
    finally:
        os.close(its)
        os.waitpid(pid, 0)
        libc.mq_close(answers)


def pace(rank, ms=30):
    """Waits for a timer (timerfd) that limits how often somebody is asked."""
    libc = ctypes.CDLL(None)
    fd = libc.timerfd_create(1, 0)  # CLOCK_MONOTONIC
    try:
        while True:
            yield
            libc.timerfd_settime(fd, 0, struct.pack("=4q", 0, 0, 0, int(ms * 1e6)), None)
            os.read(fd, 8)
    finally:
        os.close(fd)


def small_writes(rank, body=200):
    """A question in two small writes: the second one waits for the delayed acknowledgement of the first (Nagle)."""
    listener = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if not pid:
        its, _ = listener.accept()
        while its.recv(4, socket.MSG_WAITALL):
            its.recv(body, socket.MSG_WAITALL)
            its.sendall(b"ok")
        os._exit(0)
    s = socket.create_connection(listener.getsockname())
    listener.close()
    try:
        while True:
            yield
            s.sendall(b"head")
            s.sendall(bytes(body))
            s.recv(2, socket.MSG_WAITALL)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        s.close()


def probed_questions(rank, quick=8, ms=30):
    """Quick questions, and one whose answer is late: TCP sends its last segment again to probe for a loss (TLP)."""
    listener = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if not pid:
        its, _ = listener.accept()
        while True:
            for n in range(quick + 1):
                its.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
                time.sleep(0 if n < quick else ms / 1e3)
                if not its.recv(2, socket.MSG_WAITALL):
                    os._exit(0)
                its.sendall(b"k")
    s = socket.create_connection(listener.getsockname())
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.close()
    try:
        while True:
            yield
            for _ in range(quick + 1):
                s.sendall(b"1")
                s.sendall(b"2")
                s.recv(1)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        s.close()


def read_async(rank, kib=64, parts=4):
    """Reads past the page cache by the kernel's asynchronous calls (x86-64), and waits for all of them."""
    path, size = os.path.join(rank.dir, f"async-{rank.rank}"), kib << 10
    with open(path, "wb") as f:
        f.write(rank.rng.randbytes(size))
        os.fsync(f.fileno())
    fd, buffer, call = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, size), ctypes.CDLL(None).syscall
    at, context = ctypes.addressof(ctypes.c_char.from_buffer(buffer)), ctypes.c_long(0)
    call(206, ctypes.c_long(parts), ctypes.byref(context))  # io_setup
    blocks = [ctypes.create_string_buffer(struct.pack("=QIIHhIQQqQII", n, 0, 0, 0, 0, fd, at + n * (size // parts),
                                                      size // parts, n * (size // parts), 0, 0, 0), 64)
              for n in range(parts)]
    all_blocks = (ctypes.c_void_p * parts)(*map(ctypes.addressof, blocks))
    events = ctypes.create_string_buffer(32 * parts)
    while True:
        yield
        call(209, context, ctypes.c_long(parts), all_blocks)  # io_submit
        call(208, context, ctypes.c_long(parts), ctypes.c_long(parts), events, None)  # io_getevents


def write_buffered(rank, mb=4, of=128):
    """Writes that only the page cache has to take."""
    block, at = rank.rng.randbytes(1 << 20), 0
    fd = os.open(os.path.join(rank.dir, f"buffered-{rank.rank}"), os.O_WRONLY | os.O_CREAT, 0o600)
    while True:
        yield
        for _ in range(mb):
            os.pwrite(fd, block, at << 20)
            at = (at + 1) % of


def read_block(rank, path, reads=4, kib=16):
    """Reads of a disk, past the page cache."""
    fd, buffer, at = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, kib << 10), 0
    try:
        while True:
            yield
            for _ in range(reads):
                os.preadv(fd, [buffer], at)
                at = (at + (kib << 10)) % (8 << 20)
    finally:
        os.close(fd)


def tokenize(rank, ms=8):
    """A thread prepares the step's tokens, and the step waits for it."""
    data = rank.rng.randbytes(64 << 10)
    begin = time.thread_time()
    for _ in range(8):
        zlib.compress(data)
    count = max(1, round(ms / 1e3 / (time.thread_time() - begin) * 8))

    def work():
        for _ in range(count):
            zlib.compress(data)

    def name_it():
        ctypes.CDLL(None).prctl(15, b"tokenizer", 0, 0, 0)  # PR_SET_NAME

    with concurrent.futures.ThreadPoolExecutor(1, initializer=name_it) as pool:
        while True:
            yield
            pool.submit(work).result()


def pool_compress(rank, kib=1024):
    """The step waits for the future of a pool whose thread compresses."""
    data = rank.rng.randbytes(kib << 10)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        while True:
            yield
            pool.submit(zlib.compress, data, 9).result()


def log_lock(rank, ms=20):
    """Another thread logs much, to a pipe whose reader is slow, and the step logs a line."""
    ours, its = os.pipe()
    fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, 4096)
    pid = os.fork()
    if not pid:
        while True:
            os.read(ours, 512)
            time.sleep(ms / 1e3)
    os.close(ours)
    log, over = logging.getLogger("train.metrics"), threading.Event()
    handler = logging.StreamHandler(os.fdopen(its, "w"))
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    log.propagate = False

    def report():
        while not over.is_set():
            log.info("x" * 1500)
            over.wait(0.004)

    threading.Thread(target=report, name="report", daemon=True).start()
    try:
        while True:
            step = yield
            log.info("step %d", step)
    finally:
        over.set()
        log.handlers.clear()
        log.addHandler(logging.NullHandler())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# ---- the launch thread computes ----

def trace_lines(rank, rounds=1500):
    """The hook of a debugger or of a coverage tool is on."""
    lines = {}

    def on_line(frame, event, arg):
        key = frame.f_code.co_name, frame.f_lineno
        lines[key] = lines.get(key, 0) + 1
        for _ in range(rounds):
            pass
        return on_line

    sys.settrace(on_line)
    try:
        while True:
            yield
    finally:
        sys.settrace(None)


def small_files(rank, count=1500):
    """Opens, reads and closes many small files."""
    directory = os.path.join(rank.dir, f"samples-{rank.rank}")
    os.makedirs(directory, exist_ok=True)
    for i in range(count):
        with open(os.path.join(directory, f"{i}.txt"), "wb") as f:
            f.write(b"x" * 512)
    while True:
        yield
        for i in range(count):
            fd = os.open(os.path.join(directory, f"{i}.txt"), os.O_RDONLY)
            os.read(fd, 512)
            os.close(fd)


def parse_text(rank, length=20):
    """A regular expression that tries everything."""
    pattern, text = re.compile(r"(a+)+$"), "a" * length + "b"
    while True:
        yield
        pattern.match(text)


def fork_heap(rank, mb=256):
    """Forks with a large heap in each step."""
    m = mmap.mmap(-1, mb << 20)
    m.madvise(15)  # MADV_NOHUGEPAGE
    for at in range(0, mb << 20, PAGE):
        m[at] = 1
    while True:
        yield
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)


def map_churn(rank, count=2, mb=16):
    """Threads that map, touch and unmap memory all the time, while the step's own memory is new as well."""
    over, libc = threading.Event(), ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    size = mb << 20

    def churn():
        while not over.is_set():
            at = libc.mmap(None, size, 3, 0x8022, -1, 0)  # populated
            libc.munmap(at, size)

    for _ in range(count):
        threading.Thread(target=churn, name="churn", daemon=True).start()
    try:
        while True:
            yield
            touch_pages(2 << 20)
    finally:
        over.set()


def read_cached(rank, mb=16):
    """Reads a file that the page cache should have."""
    path = os.path.join(rank.dir, f"cached-{rank.rank}")
    with open(path, "wb") as f:
        f.write(os.urandom(mb << 20))
        f.flush()
        os.fsync(f.fileno())
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    at = 0
    while True:
        yield
        for _ in range(64):
            os.pread(fd, 16 << 10, at)
            at = (at + (16 << 10)) % (mb << 20)


def augment_in_python(rank, rounds=250):
    """A loop in Python."""
    while True:
        yield
        value = 0
        for i in range(rounds * 1000):
            value = (value + i * i) & 0xffff


def loop_in_python(rounds):
    value = 0
    for i in range(rounds * 1000):
        value = (value + i * i) & 0xffff


def compute_in_turn(rank, steps=40, rounds=350):
    """A loop in Python, on one rank after the other."""
    while True:
        step = yield
        if step // steps % rank.world == rank.rank:
            loop_in_python(rounds)


def metrics_in_evaluation(rank, rounds=900):
    """A loop in Python, in steps of evaluation."""
    while True:
        yield
        if rank.work.forward_only:
            loop_in_python(rounds)


def multiply_halves(rank, size=160):
    """Numbers of half precision, for which NumPy has no fast code."""
    import numpy
    batch = numpy.full((size, size), 0.5, dtype=numpy.float16)
    while True:
        yield
        batch @ batch


def list_inbox(rank, path):
    """Looks through a directory."""
    os.makedirs(path, exist_ok=True)
    while True:
        yield
        [name for name in os.listdir(path) if name.endswith(".done")]


def serialize(rank, items=20000):
    """Pickles what it could send as it is."""
    sample = [{"id": i, "tokens": [i, i + 1, i + 2], "text": str(i)} for i in range(items)]
    while True:
        yield
        pickle.dumps(sample, protocol=4)


def collect_garbage(rank, objects=400000):
    """The collector goes through a large heap, in each step."""
    heap = [[i] for i in range(objects)]
    while heap:
        yield
        gc.collect()


def log_debug(rank):
    """The log level of this rank is DEBUG."""
    log = logging.getLogger("train")
    log.setLevel(logging.DEBUG)
    try:
        while True:
            yield
    finally:
        log.setLevel(logging.INFO)


def profile_by_signal(rank, hz=1000):
    """A profiler in Python that interrupts the main thread."""
    samples = []

    def on_tick(signum, frame):
        count = 0
        while frame:
            count += 1
            frame = frame.f_back
        samples.append(sum(i * count for i in range(40000)))

    signal.signal(signal.SIGALRM, on_tick)
    signal.setitimer(signal.ITIMER_REAL, 1 / hz, 1 / hz)
    try:
        while True:
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def threads(rank, count=6):
    """Threads of the same process that poll without the GIL."""
    over, find = threading.Event(), ctypes.CDLL(None).memchr
    find.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t]
    queue = bytes(64 << 20)

    def poll():
        while not over.is_set():
            find(queue, 1, len(queue))

    for _ in range(count):
        threading.Thread(target=poll, name="poller", daemon=True).start()
    try:
        while True:
            yield
    finally:
        over.set()


def gil(rank):
    """A thread that computes in Python."""
    over = threading.Event()
    threading.Thread(target=gil_hog, args=(over,), name="hog", daemon=True).start()
    try:
        while True:
            yield
    finally:
        over.set()


def gil_hog(over):
    value = 0
    while not over.is_set():
        for i in range(20000):
            value = (value + i) & 0xffff


def omp(rank, count=16):
    """More threads of OpenMP than there are CPUs, for the same tensors as before."""
    import torch
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        while True:
            yield
    finally:
        torch.set_num_threads(before)


def more_host_work(rank, percent=15):
    """The step's own work on the host becomes dearer."""
    rank.work.host *= 1 + percent / 100
    try:
        while True:
            yield
    finally:
        rank.work.host /= 1 + percent / 100


def hold_gil(rank, every_ms=4000, ms=700):
    """A thread writes its state as JSON now and then, in one call that keeps the GIL."""
    over, some = threading.Event(), list(range(100000))
    begin = time.thread_time()
    json.dumps(some)
    state = some * max(1, round(ms / 1e3 / (time.thread_time() - begin)))

    def save_state():
        while not over.wait(every_ms / 1e3):
            json.dumps(state)

    threading.Thread(target=save_state, name="state", daemon=True).start()
    try:
        while True:
            yield
    finally:
        over.set()


def search_growing(rank, more=400, looks=12):
    """A list that grows in each step and is searched from its beginning."""
    seen = []
    while True:
        step = yield
        seen += [f"sample-{step}-{i}" for i in range(more)]
        for i in range(looks):
            if f"sample-{step + 1}-{i}" in seen:
                raise ValueError("a sample came twice")


def random_bytes(rank, mb=12):
    """Random bytes from the kernel."""
    while True:
        yield
        os.urandom(mb << 20)


def recompile(rank, every=7, lines=18000):
    """Code is generated and compiled, every few steps."""
    source = "\n".join(f"def f{i}(a, b):\n    return a * {i} + b" for i in range(lines // 2))
    while True:
        step = yield
        if step % every == 0:
            compile(source, "generated.py", "exec")


def spin(rank, kib=1024):
    """Spins in Python until a thread without the GIL is done."""
    data = rank.rng.randbytes(kib << 10)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        while True:
            yield
            done = pool.submit(zlib.compress, data, 9)
            while not done.done():
                pass


def handle_signals(rank, rounds=200000):
    """What a signal has it do."""
    def on_signal(signum, frame):
        return sum(range(rounds))

    signal.signal(signal.SIGURG, on_signal)
    while True:
        yield


def start_threads(rank, count=150):
    """Starts many threads in each step and waits for them."""
    while True:
        yield
        some = [threading.Thread(target=int) for _ in range(count)]
        for t in some:
            t.start()
        for t in some:
            t.join()


def format_tracebacks(rank, depth=60, rounds=25):
    """Exceptions from deep down, each with its traceback."""
    def deep(n):
        if not n:
            raise KeyError("no such sample")
        deep(n - 1)

    while True:
        yield
        for _ in range(rounds):
            try:
                deep(depth)
            except KeyError:
                traceback.format_exc()


# ---- memory ----

def fresh_pages(rank, mb=64):
    """Memory that is new in each step."""
    while True:
        yield
        touch_pages(mb << 20)


def touch_pages(size):
    with mmap.mmap(-1, size) as m:
        m.madvise(15)  # MADV_NOHUGEPAGE
        view = (ctypes.c_char * size).from_buffer(m)
        ctypes.memset(view, 1, size)
        del view


def pin_memory(rank, mb=32):
    """Host memory that is new and pinned in each step."""
    libc, size = ctypes.CDLL(None), mb << 20
    libc.mlock.argtypes = libc.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    while True:
        yield
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
            at = ctypes.c_char.from_buffer(m)
            libc.mlock(ctypes.addressof(at), size)
            libc.munlock(ctypes.addressof(at), size)
            del at


def mapped_file(rank, mb=4, cold=1, stride=4):
    """Reads each stride-th page of a mapped file; cold: the page cache has lost it."""
    path = os.path.join(rank.dir, f"mapped-{rank.rank}")
    size = mb << 20
    with open(path, "wb") as f:
        f.write(os.urandom(size))
        f.flush()
        os.fsync(f.fileno())
    fd = os.open(path, os.O_RDONLY)
    while True:
        yield
        with mmap.mmap(fd, size, prot=mmap.PROT_READ) as m:
            m.madvise(mmap.MADV_RANDOM)  # no reading ahead
            for at in range(0, size, stride * PAGE):
                m[at]
        if cold:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def heap(rank, mb=96):
    """Goes through memory that it keeps."""
    size = mb << 20
    m = mmap.mmap(-1, size)
    m.madvise(15)  # MADV_NOHUGEPAGE
    for at in range(0, size, PAGE):
        m[at] = 1
    place = 0
    while True:
        yield
        for _ in range(2048):
            m[place] = 1
            place = (place + PAGE) % size


def map_often(rank, mb=512, count=8):
    """A large heap of small pages, and a few mappings that come and go in each step."""
    heap_map = mmap.mmap(-1, mb << 20)
    heap_map.madvise(15)  # MADV_NOHUGEPAGE
    for at in range(0, mb << 20, PAGE):
        heap_map[at] = 1
    while True:
        yield
        for _ in range(count):
            mmap.mmap(-1, 1 << 20).close()


def huge_pages(rank, mb=160):
    """Fresh huge pages in each step."""
    while True:
        yield
        with mmap.mmap(-1, mb << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
            m.madvise(mmap.MADV_HUGEPAGE)
            for at in range(0, mb << 20, 2 << 20):
                m[at] = 1


# ---- the GPU's work ----

def copies(rank, count=200):
    """More copies from the host to the device."""
    rank.work.copies += count
    try:
        while True:
            yield
    finally:
        rank.work.copies -= count


def kernels(rank, layers=3):
    """More kernels in a step: a deeper model, or more of the same."""
    rank.work.layers += layers
    try:
        while True:
            yield
    finally:
        rank.work.layers -= layers


def batch(rank, percent=35):
    """A bigger batch: larger grids that take longer."""
    rank.work.batch *= 1 + percent / 100
    try:
        while True:
            yield
    finally:
        rank.work.batch /= 1 + percent / 100


def kernel(rank, name, percent=60):
    """One kernel takes longer with the same launch configuration."""
    rank.work.slower[name] = 1 + percent / 100
    try:
        while True:
            yield
    finally:
        del rank.work.slower[name]


def variant(rank, name, to, percent=60):
    """Another variant of a kernel."""
    rank.work.renamed[name] = to
    rank.work.slower[to] = 1 + percent / 100
    try:
        while True:
            yield
    finally:
        del rank.work.renamed[name]


def micro_batches(rank, every=4, layers=6):
    """More micro-batches in every fourth step."""
    usual = rank.work.layers
    try:
        while True:
            step = yield
            rank.work.layers = usual + layers * (step % every == 0)
    finally:
        rank.work.layers = usual


def small_copies(rank, count=8000):
    """A batch that is copied to the device sample by sample."""
    while True:
        yield
        for _ in range(count):
            rank.gpu.copy_in(1024)


def kernel_every(rank, name, every=4, percent=200):
    """One kernel takes longer, every few steps."""
    try:
        while True:
            step = yield
            rank.work.slower[name] = 1 + percent / 100 * (step % every == 0)
    finally:
        del rank.work.slower[name]


def decode_aside(rank, us=2000):
    """Samples are decoded on a stream of their own, and the step's kernels wait for it."""
    stream = rank.gpu.add_stream()
    while True:
        yield
        rank.kernel("decode_jpeg_kernel(uchar*)", us, (64, 1, 1), (128, 1, 1), stream)
        rank.gpu.join(stream)


def regrid(rank, name, blocks, percent=60):
    """Another launch configuration of one kernel."""
    rank.work.grids[name] = (blocks, 1, 1)
    rank.work.slower[name] = 1 + percent / 100
    try:
        while True:
            yield
    finally:
        del rank.work.grids[name], rank.work.slower[name]


def check_finite(rank, us=1400, count=16):
    """Somebody looks for numbers that are none: kernels that were not there before."""
    while True:
        yield
        for _ in range(count):
            rank.kernel("isfinite_reduce_kernel(float const*)", us, (64, 1, 1), (1024, 1, 1))


def offload(rank, count=500):
    """Activations go to the host."""
    while True:
        yield
        for _ in range(count):
            rank.gpu.copy_out(1 << 20)


def slow_spells(rank, on_ms=800, every_ms=5000, percent=80):
    """All kernels take longer for a while, again and again: somebody else has the GPU."""
    begin = time.monotonic()
    try:
        while True:
            yield
            rank.work.pace = 1 + percent / 100 * ((time.monotonic() - begin) * 1e3 % every_ms < on_ms)
    finally:
        rank.work.pace = 1.0


# ---- what healthy jobs do ----

def log_aside(rank, after=250, lines=200):
    """Logs a lot, while the GPU is busy with what was launched."""
    log, path = logging.getLogger("report"), os.path.join(rank.dir, f"report-{rank.rank}.log")
    log.propagate = False
    log.addHandler(logging.FileHandler(path))
    while True:
        step = yield
        for line in range(lines * (step >= after)):
            log.warning("step %d line %d: loss %.6f", step, line, 1 / (step + 1))


def prefetch_aside(rank, after=250, count=2, percent=25):
    """Threads prepare samples long before they are needed, with what is left of the CPUs."""
    data, go = rank.rng.randbytes(256 << 10), threading.Event()

    def prepare():
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        go.wait()
        while True:
            begin = time.thread_time()
            zlib.compress(data)
            time.sleep((time.thread_time() - begin) * (100 / percent - 1))

    for _ in range(count):
        threading.Thread(target=prepare, name="prefetch", daemon=True).start()
    while True:
        if (yield) >= after:
            go.set()


def longer_sequences(rank, after=250, steps=500, percent=40):
    """Sequences get longer and longer, on all ranks alike."""
    usual = rank.work.batch
    while True:
        step = yield
        rank.work.batch = usual * (1 + percent / 100 * min(1, max(0, step - after) / steps))


def warm_up(rank, steps=120):
    """Sequences grow at the beginning of a training."""
    usual, first = rank.work.batch, None
    while True:
        step = yield
        first = step if first is None else first
        rank.work.batch = usual * min(1, 0.4 + 0.6 * (step - first) / steps)


def checkpoint(rank, every=50, mb=8, ms=0):
    """Rank 0 writes its state; a storage far away acknowledges it after so many ms."""
    state = os.urandom(1 << 20)
    while True:
        step = yield
        if rank.rank == 0 and step % every == every - 1:
            save_checkpoint(os.path.join(rank.dir, "checkpoint"), state, mb, ms)


def checkpoint_timed(rank, seconds=15, mb=8, ms=400):
    """Rank 0 writes its state every so many seconds, whatever number of steps that is."""
    state, due = os.urandom(1 << 20), time.monotonic() + seconds
    while True:
        yield
        if rank.rank == 0 and time.monotonic() >= due:
            due += seconds
            save_checkpoint(os.path.join(rank.dir, "checkpoint"), state, mb, ms)


def collect_timed(rank, seconds=10, objects=600000):
    """Each rank goes through its whole heap every so many seconds, in turn."""
    heap = [[i] for i in range(objects)]
    gc.disable()
    due = time.monotonic() + seconds * (1 + rank.rank / 4)
    while heap:
        yield
        if time.monotonic() >= due:
            due += seconds
            gc.collect()


def curriculum(rank, at=450, percent=60):
    """Sequences get longer at once, on all ranks, when the second stage of the training begins."""
    usual = rank.work.batch
    while True:
        step = yield
        rank.work.batch = usual * (1 + percent / 100 * (step >= at))


def workers_in_turn(rank, workers=4, kib=1500):
    """Samples come from four workers in turn: the first of every four batches is unpacked by the rank itself."""
    packed = zlib.compress(os.urandom(kib << 9) * 2, 1)
    while True:
        step = yield
        if step % workers == 0:
            zlib.decompress(packed)


def save_checkpoint(path, state, mb, ms):
    with open(path + ".new", "wb") as f:
        for _ in range(mb):
            f.write(state)
        f.flush()
        os.fsync(f.fileno())
    time.sleep(ms / 1e3)
    os.rename(path + ".new", path)


def sweep_heap(rank, every=100, objects=800000):
    """The collector goes through the whole heap now and then, on each rank in another step."""
    heap = [[i] for i in range(objects)]
    gc.disable()
    while heap:
        step = yield
        if step % every == every - 1 - 7 * rank.rank:
            gc.collect()


def evaluate(rank, every=60, steps=12, after=0):
    """Evaluation now and then: only the forward pass."""
    while True:
        step = yield
        rank.work.forward_only = step >= after and step % every >= every - steps


def skew(rank, percent=15):
    """Sequences of uneven length: each step's kernels take as long as its sequences are."""
    while True:
        yield
        rank.work.batch = max(0.3, rank.rng.gauss(1, percent / 100))


def shuffle_samples(rank, every=150, samples=600000):
    """An epoch ends: the order of the samples is drawn again."""
    order = list(range(samples))
    while True:
        step = yield
        if step % every == every - 1:
            random.Random(step).shuffle(order)


def accumulate(rank, every=4, kernels=8):
    """The optimizer runs in every fourth step: gradients are accumulated."""
    while True:
        step = yield
        for _ in range(kernels * (step % every == every - 1)):
            rank.kernel("lamb_kernel(float*, float*)", 2000, (320, 1, 1), (512, 1, 1))


def lengths(rank, percent=20):
    """Every step's sequences have another length, the same on all ranks."""
    while True:
        step = yield
        rank.work.batch = max(0.3, random.Random(step).gauss(1, percent / 100))


# ---- output ----

def progress(rank, every=3, kib=48):
    """Progress on standard output."""
    line = b"x" * 1023 + b"\n"
    while True:
        step = yield
        if step % every == 0:
            for _ in range(kib):
                os.write(1, line)


def progress_bar(rank, ms=10, lines=90):
    """A progress bar on a terminal whose other end is slow."""
    master, slave = os.openpty()
    pid = os.fork()
    if not pid:
        os.close(slave)
        while True:
            os.read(master, 512)
            time.sleep(ms / 1e3)
    before = os.dup(2)
    os.dup2(slave, 2)
    try:
        while True:
            step = yield
            for line in range(lines):
                os.write(2, b"\rstep %d: %3d%% |%s|" % (step, line, b"#" * 30))
    finally:
        os.dup2(before, 2)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for fd in (before, master, slave):
            os.close(fd)


def hang(rank, path):
    """Waits for a lock file that nobody gives back."""
    while True:
        yield
        with open(path, "a", encoding="ascii") as f:
            fcntl.flock(f, fcntl.LOCK_EX)


def silence(rank):
    """Waits at a named pipe for a process that writes nothing."""
    path = os.path.join(rank.dir, f"silent-{rank.rank}")
    os.mkfifo(path)
    writer = subprocess.Popen(["/bin/sh", "-c", f"exec >{path}; read q"], stdin=subprocess.PIPE)
    with open(path, "rb", buffering=0) as f:
        while writer:
            yield
            f.read(1)


def deadlock(rank):
    """Two threads take two locks, each in its own order."""
    model, metrics, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def flush_metrics():
        with metrics:
            both.wait()
            with model:
                pass

    while True:
        yield
        threading.Thread(target=flush_metrics, name="metrics", daemon=True).start()
        with model:
            both.wait()
            with metrics:
                pass


def loop(rank):
    """Waits for a flag that nobody sets."""
    flag = False
    while True:
        yield
        while not flag:
            pass


def die(rank):
    yield
    os.kill(os.getpid(), signal.SIGKILL)


# ---- a third round ----

def back_off(rank, ms=12, tries=3):
    """An object store that throttles: two of three answers are 503, and the client waits longer each time."""
    script = ("import http.server\n"
              "class H(http.server.BaseHTTPRequestHandler):\n"
              "    protocol_version, asked, wbufsize = 'HTTP/1.1', 0, -1\n"
              "    def do_GET(self):\n"
              "        H.asked += 1\n"
              f"        self.send_response(503 if H.asked % {tries} else 200)\n"
              "        self.send_header('Content-Length', '2'); self.end_headers()\n"
              "        self.wfile.write(b'ok')\n"
              "    def log_message(self, *a): pass\n"
              "s = http.server.HTTPServer(('127.0.0.1', 0), H)\n"
              "print(s.server_port, flush=True)\n"
              "s.serve_forever()\n")
    server = subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE)
    client = http.client.HTTPConnection("127.0.0.1", int(server.stdout.readline()))

    def fetch_object():
        pause = ms / 1e3
        while True:
            client.request("GET", "/bucket/object")
            answer = client.getresponse()
            answer.read()
            if answer.status == 200:
                return
            time.sleep(pause)
            pause *= 2

    try:
        while True:
            yield
            fetch_object()
    finally:
        server.kill()
        server.wait()


def connect_often(rank, every=10, count=3):
    """Connections to a server whose queue of new ones is full: it drops the SYN, which TCP sends again after 1 s."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    pid = os.fork()
    if not pid:
        listener.setblocking(False)
        while True:
            time.sleep(0.4)
            try:
                while True:
                    listener.accept()[0].close()
            except BlockingIOError:
                pass
    where = listener.getsockname()
    listener.close()
    try:
        while True:
            step = yield
            if step % every == 0:
                some = [socket.create_connection(where) for _ in range(count)]
                for s in some:
                    s.close()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def set_attributes(rank, count=4, ms=8):
    """A container's supervisor looks at some system calls (seccomp's user notifications) and takes its time."""
    path, libc = os.path.join(rank.dir, f"cache-{rank.rank}"), ctypes.CDLL(None, use_errno=True)
    with open(path, "wb"):
        pass
    setxattr, notify, allow = 188, 0x7fc00000, 0x7fff0000  # x86-64
    code = b"".join(struct.pack("=HBBI", *x) for x in ((0x20, 0, 0, 0), (0x15, 0, 1, setxattr), (6, 0, 0, notify),
                                                      (6, 0, 0, allow)))
    room = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("=H6xQ", 4, ctypes.addressof(room)), 16)
    fd = libc.syscall(317, 1, 8, program)  # seccomp, SECCOMP_SET_MODE_FILTER, with a listener
    if fd < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    pid = os.fork()
    if not pid:
        while True:
            asked = bytearray(80)
            fcntl.ioctl(fd, 0xc0502100, asked)  # SECCOMP_IOCTL_NOTIF_RECV
            time.sleep(ms / 1e3)
            fcntl.ioctl(fd, 0xc0182101, struct.pack("=QqiI", struct.unpack_from("=Q", asked)[0], 0, 0, 1))  # go on
    os.close(fd)
    try:
        while True:
            step = yield
            for n in range(count):
                os.setxattr(path, f"user.part{n}", b"%d" % step)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def open_leased(rank, path):
    """Opens a file that a file server has leased: it has to give the lease back first."""
    path = f"{path}-{rank.rank}"
    with open(path, "wb") as f:
        f.write(b"x" * 512)
    while True:
        yield
        fd = os.open(path, os.O_RDONLY)
        os.read(fd, 512)
        os.close(fd)


def await_file(rank, ms=30):
    """Another process writes a file, and the step waits until inotify says that it is there."""
    libc, inbox = ctypes.CDLL(None), os.path.join(rank.dir, f"parts-{rank.rank}")
    os.makedirs(inbox, exist_ok=True)
    watch = libc.inotify_init1(0)
    libc.inotify_add_watch(watch, inbox.encode(), 0x80)  # IN_MOVED_TO
    ours, its = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(its)
        while os.read(ours, 1):
            time.sleep(ms / 1e3)
            with open(os.path.join(inbox, "part.new"), "wb") as f:
                f.write(b"x" * 4096)
            os.rename(os.path.join(inbox, "part.new"), os.path.join(inbox, "part"))
        os._exit(0)
    os.close(ours)
    try:
        while True:
            yield
            os.write(its, b"q")
            os.read(watch, 4096)
    finally:
        os.close(its)
        os.waitpid(pid, 0)
        os.close(watch)


def async_child(rank, ms=30):
    """A coroutine runs a program and waits for it."""
    async def validate():
        child = await asyncio.create_subprocess_exec("/bin/sleep", f"{ms / 1e3}")
        await child.wait()

    loop = asyncio.new_event_loop()
    try:
        while True:
            yield
            loop.run_until_complete(validate())
    finally:
        loop.close()


def collate(rank, count=200, heap=60000, size=8200):
    """Buffers of some kilobytes that come and go, in a heap half of which is free."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    some = [libc.malloc(size) for _ in range(heap)]
    for at in some[::2]:
        libc.free(at)
    while True:
        yield
        some = [bytearray(6000) for _ in range(count)]
        some.clear()


def trim_heap(rank):
    """A thread gives the memory that the heap does not use back to the kernel, again and again."""
    libc, over = ctypes.CDLL(None), threading.Event()

    def trim_memory():
        while not over.wait(0.005):
            libc.malloc_trim(0)

    threading.Thread(target=trim_memory, name="trim", daemon=True).start()
    try:
        while True:
            yield
    finally:
        over.set()


def normalize(rank, samples=400000):
    """Samples are scaled and summed, in NumPy."""
    import numpy
    rank.samples = numpy.full(samples, 0.5)
    while True:
        yield
        (rank.samples * 0.75).sum()


def mixed_types(rank):
    """One sample was missing: the array is one of Python's objects now."""
    numbers = rank.samples
    rank.samples = numbers.astype(object)
    try:
        while True:
            yield
    finally:
        rank.samples = numbers


def build_samples(rank, count=6000):
    """Many small objects."""
    while True:
        yield
        some = [{"id": i, "tokens": (i, i + 1)} for i in range(count)]
        some.clear()


def checksum(rank, path, count=20000):
    """Checksums of many small records, by a library of the rank's own."""
    own = f"{path}-{rank.rank}.so"
    shutil.copy("/lib/x86_64-linux-gnu/libz.so.1", own)
    crc32, record = ctypes.CDLL(own).crc32, b"x" * 32
    while True:
        yield
        for _ in range(count):
            crc32(0, record, 32)


def pool_map(rank, count=4):
    """Processes of a pool prepare the samples, and the step waits for them."""
    parts = [rank.rng.randbytes(256 << 10)] * count
    with multiprocessing.get_context("fork").Pool(2) as pool:
        while True:
            yield
            pool.map(zlib.compress, parts)


def ask_store(rank, ms=30):
    """An object store on this machine, over a local stream socket, that takes its time."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pid = os.fork()
    if not pid:
        ours.close()
        while its.recv(1):
            time.sleep(ms / 1e3)
            its.sendall(bytes(4096))
        os._exit(0)
    its.close()
    try:
        while True:
            yield
            ours.sendall(b"q")
            ours.recv(4096, socket.MSG_WAITALL)
    finally:
        ours.close()
        os.waitpid(pid, 0)


def average_history(rank, more=4000):
    """The mean of all values since the beginning, in each step."""
    history = []
    while True:
        step = yield
        history += [step / 7] * more
        sum(x * x for x in history) / len(history)


def list_processes(rank):
    """A callback writes down what all processes of the machine use."""
    while True:
        yield
        total = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("stat", "status", "cmdline", "io", "smaps_rollup"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as f:
                        total += len(f.read())
                except OSError:
                    pass


def lazy_pages(rank, count=6, ms=5):
    """Memory that another process has still to bring (userfaultfd), as after a lazy restore."""
    libc, size = ctypes.CDLL(None, use_errno=True), count * PAGE
    fd = libc.syscall(323, os.O_CLOEXEC)  # userfaultfd
    if fd < 0:
        raise OSError(ctypes.get_errno(), "userfaultfd")
    m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = ctypes.c_char.from_buffer(m)
    at = ctypes.addressof(view)
    fcntl.ioctl(fd, 0xc018aa3f, bytearray(struct.pack("=3Q", 0xaa, 0, 0)))  # UFFDIO_API
    fcntl.ioctl(fd, 0xc020aa00, bytearray(struct.pack("=4Q", at, size, 1, 0)))  # UFFDIO_REGISTER, what is missing
    pid = os.fork()
    if not pid:
        page = ctypes.create_string_buffer(2 * PAGE)
        page = (ctypes.addressof(page) + PAGE - 1) // PAGE * PAGE
        while True:
            where = struct.unpack_from("=16xQ", os.read(fd, 32))[0] // PAGE * PAGE
            time.sleep(ms / 1e3)
            fcntl.ioctl(fd, 0xc028aa03, bytearray(struct.pack("=4Qq", where, page, PAGE, 0, 0)))  # UFFDIO_COPY
    os.close(fd)
    try:
        while True:
            yield
            m.madvise(mmap.MADV_DONTNEED)
            for n in range(count):
                m[n * PAGE]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def append_shared(rank, path):
    """A line in a file that others write as well."""
    fd = os.open(f"{path}-{rank.rank}", os.O_WRONLY | os.O_CREAT, 0o600)
    while True:
        step = yield
        os.pwrite(fd, b"step %d\n" % step, 0)


def map_remote(rank, path, pages=4):
    """Weights in a mapped file whose pages a file system's server has to bring."""
    fd = os.open(path, os.O_RDONLY)
    at = 0
    try:
        while True:
            yield
            with mmap.mmap(fd, 16 << 20, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as m:
                m.madvise(mmap.MADV_RANDOM)  # no reading ahead
                for _ in range(pages):
                    m[at]
                    at = (at + 16 * PAGE) % (16 << 20)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def write_layer(rank, mb=16, files=4000):
    """Opens files of a container's image to write: the overlay file system copies each of them first."""
    top = os.path.join(rank.dir, f"overlay-{rank.rank}")
    lower, upper, work, at = (os.path.join(top, x) for x in ("lower", "upper", "work", "at"))
    for x in (lower, upper, work, at):
        os.makedirs(x)
    with open(os.path.join(lower, "0"), "wb") as f:
        f.write(rank.rng.randbytes(mb << 20))
        f.flush()
        os.fsync(f.fileno())
    for n in range(1, files):
        os.link(os.path.join(lower, "0"), os.path.join(lower, str(n)))
    subprocess.run(["mount", "-t", "overlay", "image", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", at],
                   check=True)
    n = 0
    try:
        while True:
            yield
            with open(os.path.join(at, str(n % files)), "r+b") as f:
                f.write(b"changed")
            n += 1
    finally:
        subprocess.run(["umount", "-l", at], check=False)
        subprocess.run(["rm", "-rf", upper], check=False)


def slower_gpu(rank, percent=45):
    """All kernels take longer."""
    rank.work.pace = 1 + percent / 100
    try:
        while True:
            yield
    finally:
        rank.work.pace = 1.0


MEMORY_BOUND = ("embedding_kernel(float*, long const*)", "layer_norm_kernel(float*)", "attention_forward_kernel(float*)",
                "attention_backward_kernel(float*)", "adam_kernel(float*, float*, float*)")


def memory_bound(rank, percent=80):
    """The kernels that only move memory take longer, and the others do not."""
    for name in MEMORY_BOUND:
        rank.work.slower[name] = 1 + percent / 100
    try:
        while True:
            yield
    finally:
        for name in MEMORY_BOUND:
            del rank.work.slower[name]


def host_callback(rank, ms=25):
    """The stream waits for a function on the host (cuLaunchHostFunc), which waits for something itself."""
    launch = rank.gpu.cuda.cuLaunchHostFunc
    launch.argtypes = [ctypes.c_void_p] * 3
    wait = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    while True:
        yield
        launch(rank.gpu.streams[0], wait, int(ms * 1000))


def small_kernels(rank, count=300, us=25):
    """An optimizer of many small kernels."""
    while True:
        yield
        for i in range(count):
            rank.kernel(f"multi_tensor_apply_kernel<{i % 4}>(float*)", us, (80, 1, 1))


def eager(rank, count=1200, us=4):
    """The compiler gave up: what it had fused are many small kernels now."""
    names = [f"elementwise_kernel<{x}>(float*, float*)" for x in ("add", "mul", "exp", "where", "sum")]
    while True:
        yield
        for i in range(count):
            rank.kernel(names[i % len(names)], us, (80, 1, 1))


def other_kernels(rank, percent=15):
    """A library chooses other kernels for all layers, on all ranks."""
    def kernel(name, us, *more, **others):
        return type(rank).kernel(rank, "simt_" + name, us * (1 + percent / 100), *more, **others)

    with launching(rank, kernel):
        while True:
            yield


def unfused(rank, count=1000, us=4):
    """The fused optimizer is missing on this rank: each tensor has small kernels of its own."""
    names = [f"vectorized_elementwise_kernel<4, {x}>(float*, float*)" for x in ("add", "mul", "addcmul", "sqrt", "div")]

    def kernel(name, *more, **others):
        if not name.startswith("adam"):
            return type(rank).kernel(rank, name, *more, **others)
        for n in range(count):
            type(rank).kernel(rank, names[n % len(names)], us, (80, 1, 1))
        return None

    with launching(rank, kernel):
        while True:
            yield


def small_buckets(rank, count=300):
    """The gradients are reduced in many small buckets, on all ranks from the same step on, until the end."""
    path = os.path.join(rank.dir, "buckets-from")
    usual, first = rank.gpu.allreduce, None

    def reduce_buckets(nbytes):
        for _ in range(count):
            usual(nbytes // count)

    while True:
        step = yield
        if first is None:
            if rank.rank == 0 and not os.path.exists(path):
                with open(path + ".new", "w", encoding="ascii") as f:
                    f.write(str(step + 6))
                os.rename(path + ".new", path)
            if os.path.exists(path):
                with open(path, encoding="ascii") as f:
                    first = int(f.read())
        if step == first:
            rank.gpu.allreduce = reduce_buckets


def trace_window(rank, every=100, steps=6, events=60000):
    """A profiler looks at a few steps now and then, and writes what it saw."""
    seen, lines = [], []

    def on_call(frame, event, arg):
        seen.append((event, frame.f_code.co_name))

    while True:
        step = yield
        at = step % every
        if at == every - steps - 1:
            sys.setprofile(on_call)
        elif at == every - 1:
            sys.setprofile(None)
            lines = [{"name": name, "ph": event, "ts": n} for n, (event, name) in enumerate(seen)]
            json.dumps((lines * (events // max(1, len(lines)) + 1))[:events])
            seen.clear()


def no_sync(rank, every=8):
    """Gradients are accumulated: only every eighth step reduces them and runs the optimizer."""
    usual_reduce, last = rank.gpu.allreduce, [True]

    def allreduce(nbytes):
        if last[0]:
            usual_reduce(nbytes)

    def kernel(name, *more, **others):
        if last[0] or not name.startswith("adam"):
            type(rank).kernel(rank, name, *more, **others)

    rank.gpu.allreduce, rank.kernel = allreduce, kernel
    while True:
        step = yield
        last[0] = step % every == every - 1


def draw_samples(rank, every=60, kernels=400, us=1000):
    """Rank 0 draws a few samples with the model now and then, to look at, and the others wait for it."""
    while True:
        step = yield
        if rank.rank == 0 and step % every == every - 1:
            for n in range(kernels):
                rank.kernel("decode_attention_kernel(float*)", us, (16, 1, 1))
                if n % 20 == 19:
                    rank.gpu.synchronize()


def autotune(rank, every=9, reps=4):
    """A new shape every few steps: the autotuner times twelve configurations of one kernel, a synchronisation each."""
    sizes = [(m, n) for m in (32, 64, 96, 128) for n in (32, 64, 256)]
    while True:
        step = yield
        if step % every == 0:
            for i, (m, n) in enumerate(sizes):
                for _ in range(reps):
                    rank.kernel(f"triton_mm_{m}x{n}_kernel(float*)", 700 + 60 * i, (512, 1, 1), (128, 1, 1))
                rank.gpu.synchronize()


def gil_io(rank, every_ms=800, ms=110):
    """A C library asks an agent, by a pipe, and its binding does not give the GIL back meanwhile (PyDLL)."""
    over, read = threading.Event(), ctypes.PyDLL(None).read
    ask_r, ask_w = os.pipe()
    say_r, say_w = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(ask_w)
        while os.read(ask_r, 1):
            time.sleep(ms / 1e3)
            os.write(say_w, b"a")
        os._exit(0)
    os.close(ask_r)
    os.close(say_w)
    room = ctypes.create_string_buffer(8)

    def poll_agent():
        while not over.wait(every_ms / 1e3):
            os.write(ask_w, b"q")
            read(say_r, room, 1)

    thread = threading.Thread(target=poll_agent, name="agent", daemon=True)
    thread.start()
    try:
        while True:
            yield
    finally:
        over.set()
        thread.join()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def decay(rank, size=80000):
    """An average that decays, and its gamma curve, in NumPy."""
    import numpy
    rank.average = numpy.full(size, 0.5, dtype=numpy.float32)
    power = numpy.float32(1.1)
    while True:
        yield
        rank.average ** power


def denormals(rank):
    """It has decayed below what the processor's fast path knows (denormal numbers)."""
    rank.average[:] = 3e-39
    try:
        while True:
            yield
    finally:
        rank.average[:] = 0.5


def index_samples(rank, count=2500):
    """A dictionary of the step's samples."""
    rank.key_step = 1
    while True:
        yield
        index = {}
        for i in range(count):
            index[i * rank.key_step] = i


def collide(rank):
    """The samples' numbers have one hash value now: a shard's number times 2^61 - 1."""
    rank.key_step = (1 << 61) - 1
    try:
        while True:
            yield
    finally:
        rank.key_step = 1


def sort_lengths(rank, every=6, count=500000):
    """Every few steps the sampler sorts all lengths again."""
    lengths = [rank.rng.random() for _ in range(count)]
    while True:
        step = yield
        if step % every == 0:
            sorted(lengths)


def hand_over(rank, count=1000):
    """Samples go to a thread one by one, and each answer is waited for."""
    there, back, over = queue.Queue(), queue.Queue(), object()

    def transform():
        while True:
            sample = there.get()
            if sample is over:
                return
            back.put(sample)

    threading.Thread(target=transform, name="transform", daemon=True).start()
    try:
        while True:
            yield
            for i in range(count):
                there.put(i)
                back.get()
    finally:
        there.put(over)


def update_heap(rank, mb=64):
    """Parameters on the host (an offloaded optimizer) that each step writes."""
    rank.heap_size = mb << 20
    rank.heap = mmap.mmap(-1, rank.heap_size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    rank.heap.madvise(15)  # MADV_NOHUGEPAGE
    view = (ctypes.c_char * rank.heap_size).from_buffer(rank.heap)
    while True:
        step = yield
        ctypes.memset(view, step & 255, rank.heap_size)


def snapshot(rank, every=8, ms=200):
    """A checkpoint by fork: the child keeps the pages while it writes, and the rank's writes copy them."""
    children = []
    try:
        while True:
            step = yield
            if step % every == 0:
                pid = os.fork()
                if not pid:
                    time.sleep(ms / 1e3)
                    os._exit(0)
                children.append(pid)
            children = [c for c in children if not os.waitpid(c, os.WNOHANG)[0]]
    finally:
        for c in children:
            os.waitpid(c, 0)


PORT = 47113


def feature_store(rank, victim, count=2, timeout_ms=60):
    """A feature store on another host, asked by UDP: what gets no answer is asked again after a while."""
    with open(os.path.join(rank.dir, "link.name"), encoding="ascii") as f:
        address = f.read().split()[2]
    if rank.rank == (victim + 1) % 4:
        if not os.fork():
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.bind((address, PORT))
            parent = os.getppid()
            while os.getppid() == parent:
                if select.select([s], [], [], 1)[0]:
                    q, who = s.recvfrom(2048)
                    s.sendto(q, who)
            os._exit(0)
    asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asks.settimeout(timeout_ms / 1e3)
    time.sleep(0.5)
    number = 0
    while True:
        yield
        for _ in range(count if rank.rank == victim else 0):
            number += 1
            question = b"%d" % number
            while True:
                asks.sendto(question, (address, PORT))
                try:
                    while asks.recv(2048) != question:
                        pass
                    break
                except socket.timeout:
                    pass


def touch_status(rank, path, every=4):
    """Writes a small status file on a network file system and closes it: close() waits for the server."""
    while True:
        step = yield
        if step % every == 0:
            with open(path, "wb", buffering=0) as f:
                f.write(b"step %d" % step)


def stat_shards(rank, path, count=6):
    """Looks whether its shards are there, on a network file system."""
    while True:
        yield
        for i in range(count):
            os.stat(os.path.join(path, f"shard-{i}"))


def log_batches(rank, lines=40):
    """Each step logs what its batch was."""
    def rotate(source, to):
        with open(source, "rb") as f, gzip.open(to, "wb", 9) as z:
            shutil.copyfileobj(f, z)
        os.unlink(source)

    log = logging.getLogger("batches")
    log.propagate = False
    log.setLevel(logging.INFO)
    rank.batch_log = logging.handlers.RotatingFileHandler(os.path.join(rank.dir, f"batches-{rank.rank}.log"),
                                                          maxBytes=1 << 40, backupCount=2)
    rank.batch_log.rotator = rotate
    log.addHandler(rank.batch_log)
    text = rank.rng.randbytes(1 << 16).hex()
    while True:
        step = yield
        for i in range(lines):
            at = (step * lines + i) * 2999 % 120000
            log.info("%s", text[at:at + 3000])


def rotate_log(rank, kb=1500):
    """The log is rotated at so many KB, and what is full is compressed at once."""
    rank.batch_log.doRollover()
    rank.batch_log.maxBytes = kb << 10
    try:
        while True:
            yield
    finally:
        rank.batch_log.maxBytes = 1 << 40


def size_buckets(rank, steps=60):
    """Images of one of three sizes, the same on all ranks, for so many steps each."""
    usual = rank.work.batch
    while True:
        step = yield
        rank.work.batch = usual * (1.0, 1.3, 0.8)[step // steps % 3]


def sync_aside(rank, kb=256):
    """A thread keeps a journal on the disk; the step does not wait for it."""
    over, block = threading.Event(), rank.rng.randbytes(kb << 10)

    def write_journal():
        fd = os.open(os.path.join(rank.dir, f"journal-{rank.rank}"), os.O_WRONLY | os.O_CREAT, 0o600)
        while not over.wait(0.01):
            os.pwrite(fd, block, 0)
            os.fsync(fd)

    threading.Thread(target=write_journal, name="journal", daemon=True).start()
    try:
        while True:
            yield
    finally:
        over.set()


# ---- a seventh round ----

def copy_config(rank, count=6):
    """Each step works on copies of a large nested configuration."""
    config = {f"layer{i}": {f"part{j}": [i, j, str(i * j), {"lr": 0.1}] for j in range(12)} for i in range(60)}
    while True:
        yield
        for _ in range(count):
            copy.deepcopy(config)


def ask_manager(rank, count=150):
    """State that all processes of the data pipeline share lies in a multiprocessing.Manager."""
    with multiprocessing.get_context("fork").Manager() as manager:
        shared = manager.dict({str(i): i for i in range(64)})
        while True:
            yield
            for i in range(count):
                shared[str(i % 64)]


def shared_mutex(rank, ms=40, rest_ms=7):
    """A lock in shared memory that another process of the node has for most of the time."""
    context = multiprocessing.get_context("fork")
    mutex = context.Lock()

    def other():
        while True:
            with mutex:
                time.sleep(ms / 1e3)
            time.sleep(rest_ms / 1e3)

    with beside(context, other):
        while True:
            yield
            with mutex:
                pass


def sync_machine(rank, every=6, mb=24):
    """Writes a file and syncs all file systems of the machine."""
    path, data = os.path.join(rank.dir, f"all-{rank.rank}"), os.urandom(1 << 20)
    while True:
        step = yield
        if step % every == 0:
            with open(path, "wb") as f:
                for _ in range(mb):
                    f.write(data)
            os.sync()


def copy_file(rank, every=5, mb=160):
    """Copies its last checkpoint to another name."""
    path = os.path.join(rank.dir, f"checkpoint-{rank.rank}")
    with open(path, "wb") as f:
        for _ in range(mb):
            f.write(os.urandom(1 << 20))
    while True:
        step = yield
        if step % every == 0:
            shutil.copyfile(path, path + ".copy")


def workers_again(rank, every=12, count=4):
    """The processes that load samples are not kept: new ones come with each short epoch."""
    context = multiprocessing.get_context("fork")

    def load(samples):
        table = {i: str(i) for i in range(500000)}
        samples.put(len(table))

    while True:
        step = yield
        if step % every == 0:
            samples = context.Queue()
            workers = [context.Process(target=load, args=(samples,), daemon=True) for _ in range(count)]
            for w in workers:
                w.start()
            for w in workers:
                samples.get()
            for w in workers:
                w.join()


def slow_launch(rank, us=1500):
    """A hook in Python looks at the arguments of every launch."""
    def kernel(*args, **others):
        end, seen = time.thread_time() + us / 1e6, 0
        while time.thread_time() < end:
            seen += sum(map(ord, str(args)))
        return type(rank).kernel(rank, *args, **others)

    with launching(rank, kernel):
        while True:
            yield


def clip_on_cpu(rank, mb=256):
    """Gradients go to the host and back, to be clipped there."""
    while True:
        yield
        for _ in range(mb):
            rank.gpu.copy_out(1 << 20)
        rank.gpu.synchronize()
        for _ in range(mb):
            rank.gpu.copy_in(1 << 20)


def contended_kernels(rank, percent=120, share=0.5):
    """Another tenant has the GPU's multiprocessors now and then: half of the kernels take longer."""
    def kernel(name, us, *args, **others):
        if rank.rng.random() < share:
            us *= 1 + percent / 100
        return type(rank).kernel(rank, name, us, *args, **others)

    with launching(rank, kernel):
        while True:
            yield


def free_tree(rank, count=40000):
    """A tree of small objects is built, and dropped in the step."""
    while True:
        yield
        tree = None
        for i in range(count):
            tree = (i, [tree])
        for _ in range(count):
            tree = tree[1][0]


def log_stacks(rank, count=250):
    """Records of the log have the stack of their caller."""
    while True:
        step = yield
        for i in range(count):
            logging.getLogger("train").warning("step %d part %d", step, i, stack_info=True)


def log_metrics(rank, count=3000):
    """Each parameter's metrics go to the log as JSON."""
    with open(os.path.join(rank.dir, f"metrics-{rank.rank}.jsonl"), "w", encoding="ascii") as f:
        while True:
            step = yield
            json.dump({f"layer.{i}.weight": {"step": step, "norm": i * 0.1, "mean": -i * 0.01} for i in range(count)}, f)
            f.write("\n")


def read_output(rank, mb=10):
    """Runs a program and reads what it prints."""
    while True:
        yield
        subprocess.run(["/usr/bin/head", "-c", str(mb << 20), "/dev/urandom"], check=True, stdout=subprocess.PIPE)


def poll_many(rank, pipes=450, count=400):
    """Looks at each of many pipes whether there is something, again and again."""
    ends = [os.pipe() for _ in range(pipes)]
    look = select.poll()
    for reader, _ in ends:
        look.register(reader, select.POLLIN)
    while True:
        yield
        for _ in range(count):
            look.poll(0)


def data_synced(rank, count=8):
    """Each write to the journal is on the disk when it returns (O_DSYNC)."""
    fd = os.open(os.path.join(rank.dir, f"journal-{rank.rank}"), os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o644)
    while True:
        yield
        for _ in range(count):
            os.write(fd, bytes(4096))


def growing_sleep(rank, us=300):
    """A retry waits a little longer in each step."""
    n = 0
    while True:
        yield
        n += 1
        time.sleep(n * us / 1e6)


def write_events(rank, every=10, count=400):
    """Rank 0 writes what TensorBoard shows."""
    with open(os.path.join(rank.dir, "events"), "wb") as f:
        while True:
            step = yield
            if rank.rank == 0 and step % every == 0:
                for i in range(count):
                    f.write(struct.pack("<Qdd", i, step, time.time()) + zlib.crc32(str(i).encode()).to_bytes(4, "little"))
                f.flush()


def skip_optimizer(rank, every=37):
    """The scaled loss overflows now and then, on all ranks: the optimizer's kernels are left out."""
    def kernel(name, *args, **others):
        if skip and name.startswith("adam"):
            return None
        return type(rank).kernel(rank, name, *args, **others)

    skip = False
    rank.kernel = kernel
    while True:
        step = yield
        skip = step % every == every - 1


# ---- a ninth round ----

class Uring:
    """The kernel's rings for asynchronous calls (io_uring, x86-64)."""

    READ, RECV = 22, 27

    def __init__(self, entries=8):
        self.call = ctypes.CDLL(None).syscall
        parameters = ctypes.create_string_buffer(120)
        self.fd = self.call(425, entries, parameters)  # io_uring_setup
        if self.fd < 0:
            raise OSError("io_uring is off")
        sq, cq = struct.unpack_from("=8I", parameters, 40), struct.unpack_from("=8I", parameters, 80)
        self.mask, self.tail_at, self.array_at, self.head_at = entries - 1, sq[1], sq[6], cq[0]
        self.cq_tail_at = cq[1]
        self.sq = mmap.mmap(self.fd, sq[6] + entries * 4, flags=mmap.MAP_SHARED, offset=0)
        self.cq = mmap.mmap(self.fd, cq[5] + 2 * entries * 16, flags=mmap.MAP_SHARED, offset=0x8000000)
        self.entries = mmap.mmap(self.fd, entries * 64, flags=mmap.MAP_SHARED, offset=0x10000000)

    def do(self, code, fd, addresses, size, offsets):
        """Does it at these addresses of memory and offsets of the file, and waits for all of them."""
        tail, = struct.unpack_from("=I", self.sq, self.tail_at)
        for to, at in zip(addresses, offsets):
            slot = tail & self.mask
            struct.pack_into("=BBHiQQIIQ24x", self.entries, slot * 64, code, 0, 0, fd, at, to, size, 0, 0)
            struct.pack_into("=I", self.sq, self.array_at + slot * 4, slot)
            tail = tail + 1 & 0xffffffff
        struct.pack_into("=I", self.sq, self.tail_at, tail)
        self.call(426, self.fd, len(addresses), len(addresses), 1, None, 0)  # io_uring_enter, IORING_ENTER_GETEVENTS
        self.cq[self.head_at:self.head_at + 4] = self.cq[self.cq_tail_at:self.cq_tail_at + 4]


def read_by_rings(rank, kib=8192, parts=4):
    """Reads past the page cache by io_uring, four at a time."""
    path, size = os.path.join(rank.dir, f"rings-{rank.rank}"), 64 << 10
    with open(path, "wb") as f:
        f.write(rank.rng.randbytes(1 << 20) * (kib >> 10))
        os.fsync(f.fileno())
    fd, buffer, rings = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, size * parts), Uring()
    first = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    to = [first + n * size for n in range(parts)]
    while True:
        yield
        for at in range(0, kib << 10, size * parts):
            rings.do(rings.READ, fd, to, size, [at + n * size for n in range(parts)])


@contextlib.contextmanager
def slow_server(ms):
    """A connection to a server that answers each byte late."""
    listener = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if not pid:
        its, _ = listener.accept()
        while its.recv(1):
            time.sleep(ms / 1e3)
            its.sendall(b"a")
        os._exit(0)
    s = socket.create_connection(listener.getsockname())
    listener.close()
    try:
        yield s, pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        s.close()


def receive_by_rings(rank, ms=30):
    """Waits for a server's answer by io_uring."""
    rings, room = Uring(), mmap.mmap(-1, 4096)
    to = ctypes.addressof(ctypes.c_char.from_buffer(room))
    with slow_server(ms) as (s, _):
        while True:
            yield
            s.sendall(b"q")
            rings.do(rings.RECV, s.fileno(), [to], 1, [0])


def stopped_server(rank, after=5):
    """A server that is stopped, and doesn't answer any more."""
    with slow_server(0) as (s, pid):
        while True:
            yield
            after -= 1
            if not after:
                os.kill(pid, signal.SIGSTOP)
            s.sendall(b"q")
            s.recv(1)


def lost_worker(rank, after=5):
    """A worker process that makes samples is killed, and its queue stays empty."""
    context = multiprocessing.get_context("fork")
    samples = context.Queue(2)

    def make():
        while True:
            samples.put(b"x" * 1000)

    worker = context.Process(target=make, daemon=True)
    worker.start()
    while True:
        yield
        after -= 1
        if not after:
            worker.kill()
            worker.join()
            while not samples.empty():
                samples.get()
        samples.get()


def open_fifo(rank, ms=30):
    """Opens a named pipe, which waits until another process opens it to write."""
    path = os.path.join(rank.dir, f"answers-{rank.rank}")
    os.mkfifo(path)
    writer = subprocess.Popen(["/bin/sh", "-c", f"while read q; do /bin/sleep {ms / 1e3}; echo a >{path}; done"],
                              stdin=subprocess.PIPE, bufsize=0)
    try:
        while True:
            yield
            writer.stdin.write(b"q\n")
            with open(path, "rb") as f:
                f.read()
    finally:
        writer.kill()
        writer.wait()


def ask_connection(rank, ms=30):
    """A helper process answers late, by a connection of multiprocessing that is polled with a timeout."""
    ours, its = multiprocessing.Pipe()

    def answer():
        while its.recv_bytes():
            time.sleep(ms / 1e3)
            its.send_bytes(b"a")

    with beside(multiprocessing.get_context("fork"), answer):
        while True:
            yield
            ours.send_bytes(b"q")
            ours.poll(5)
            ours.recv_bytes()


def hash_weights(rank, mb=32):
    """Looks whether all ranks have the same weights: their hash, in each step."""
    import hashlib
    weights = rank.rng.randbytes(mb << 20)
    while True:
        yield
        hashlib.sha256(weights).digest()


def record_lock(rank, ms=30, rest_ms=8):
    """A record lock (POSIX, fcntl) that another process has for most of the time."""
    path = os.path.join(rank.dir, f"records-{rank.rank}")

    def other():
        with open(path, "a", encoding="ascii") as f:
            while True:
                fcntl.lockf(f, fcntl.LOCK_EX)
                time.sleep(ms / 1e3)
                fcntl.lockf(f, fcntl.LOCK_UN)
                time.sleep(rest_ms / 1e3)

    with beside(multiprocessing.get_context("fork"), other), open(path, "a", encoding="ascii") as f:
        while True:
            yield
            fcntl.lockf(f, fcntl.LOCK_EX)
            fcntl.lockf(f, fcntl.LOCK_UN)


def sync_range(rank, every=5, mb=160):
    """Every few steps writes a part of a file and waits until it is on the disk (sync_file_range)."""
    block, libc = os.urandom(1 << 20), ctypes.CDLL(None)
    with open(os.path.join(rank.dir, f"range-{rank.rank}"), "wb", buffering=0) as f:
        while True:
            step = yield
            if step % every == 0:
                f.seek(0)
                for _ in range(mb):
                    f.write(block)
                libc.sync_file_range(f.fileno(), ctypes.c_long(0), ctypes.c_long(mb << 20), 7)


def await_signal(rank, us=4000):
    """Waits for a signal that nobody sends, for a while."""
    while True:
        yield
        signal.sigtimedwait({signal.SIGUSR2}, us / 1e6)


def full_tmpfs(rank, mb=2, ms=5, turn_ms=45):
    """A batch goes through a small tmpfs that others fill, and give room in now and then: it asks again after a pause."""
    path = os.path.join(rank.dir, f"shm-{rank.rank}")
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", path], check=True)
    block = bytes(mb << 20)

    def fill():
        while True:
            with open(os.path.join(path, "other"), "wb", buffering=0) as f:
                try:
                    for _ in range(7):
                        f.write(bytes(1 << 20))
                except OSError:
                    pass
                time.sleep(turn_ms / 1e3)
            os.unlink(os.path.join(path, "other"))
            time.sleep(0.006)

    def put():
        with open(os.path.join(path, "batch"), "wb", buffering=0) as f:
            at = 0
            while at < len(block):
                try:
                    at += f.write(block[at:])
                except OSError:
                    time.sleep(ms / 1e3)
        os.unlink(os.path.join(path, "batch"))

    try:
        with beside(multiprocessing.get_context("fork"), fill):
            while True:
                yield
                put()
    finally:
        subprocess.run(["umount", "-l", path], check=False)


def protect_pages(rank, mb=384):
    """A thread changes the protection of a large heap all the time, and the step maps memory."""
    over, libc = threading.Event(), ctypes.CDLL(None)
    heap_map = mmap.mmap(-1, mb << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    heap_map.madvise(15)  # MADV_NOHUGEPAGE
    at = ctypes.addressof(ctypes.c_char.from_buffer(heap_map))
    ctypes.memset(at, 1, mb << 20)

    def protect():
        while not over.is_set():
            for flags in (1, 3):  # PROT_READ, and PROT_WRITE as well
                libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(mb << 20), flags)
            over.wait(0.001)

    threading.Thread(target=protect, name="protect", daemon=True).start()
    try:
        while True:
            yield
            for _ in range(6):
                mmap.mmap(-1, 1 << 20).close()
    finally:
        over.set()


def gil_slices(rank, ms=20, busy=60):
    """A thread computes in Python for a part of the time, and threads keep the GIL for long (setswitchinterval)."""
    over, before = threading.Event(), sys.getswitchinterval()
    sys.setswitchinterval(ms / 1e3)

    def parse_events():
        while not over.is_set():
            end, value = time.monotonic() + busy / 1e3, 0
            while time.monotonic() < end:
                value += 1
            over.wait(0.04)

    threading.Thread(target=parse_events, name="events", daemon=True).start()
    try:
        while True:
            yield
    finally:
        over.set()
        sys.setswitchinterval(before)


def filter_calls(rank, filters=4, rules=3500):
    """A container's filter of system calls (seccomp) has many rules, which are gone through in each call."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    load, never = struct.pack("=HBBI", 0x20, 0, 0, 24), struct.pack("=HBBI", 0x15, 0, 0, 0xdeadbeef)  # of an argument
    code = load + never * rules + struct.pack("=HBBI", 6, 0, 0, 0x7fff0000)
    room = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("=H6xQ", rules + 2, ctypes.addressof(room)), 16)
    for _ in range(filters):
        if libc.syscall(317, 1, 0, program):  # seccomp, SECCOMP_SET_MODE_FILTER
            raise OSError(ctypes.get_errno(), "seccomp")
    while True:
        yield


def await_child(rank, ms=30):
    """Starts a program and polls its pidfd."""
    while True:
        yield
        child = subprocess.Popen(["/bin/sleep", str(ms / 1e3)])
        fd = os.pidfd_open(child.pid)
        select.select([fd], [], [])
        os.close(fd)
        child.wait()


# ---- shapes of jobs ----

def alternate(rank, layers=3):
    """Two models in turn: one of eight layers, and one of three."""
    while True:
        step = yield
        rank.work.layers = 8 if step % 2 else layers


def augment_second(rank, rounds=250):
    """A loop in Python in every other step."""
    while True:
        step = yield
        if step % 2 == 0:
            loop_in_python(rounds)


def pairs(rank):
    """Two ranks each reduce their gradients among themselves."""
    rank.group = os.path.join(rank.dir, f"pair-{rank.rank // 2}"), rank.rank % 2, 2
    os.makedirs(rank.group[0], exist_ok=True)
    while True:
        yield


def actor(rank):
    """A thread of a pool makes the steps, and the main thread asks for each."""
    rank.driver, usual = [], rank.step
    pool = concurrent.futures.ThreadPoolExecutor(1, "actor", rank.gpu.use_context)

    def step(number):
        for hook in rank.driver:
            hook()
        pool.submit(usual, number).result()

    rank.step = step
    while True:
        yield


def driver_sleeps(rank, ms=25):
    """The main thread of an actor asks for the next step late."""
    hook = lambda: time.sleep(ms / 1e3)  # noqa: E731
    rank.driver.append(hook)
    try:
        while True:
            yield
    finally:
        rank.driver.remove(hook)


def paced(rank, percent):
    """Kernels that take so many percent of what is usual."""
    rank.work.pace = percent / 100
    while True:
        yield


def short_steps(rank):
    """Steps of about 8 ms."""
    rank.work.pace = 0.12
    while True:
        yield


def long_steps(rank):
    """Steps of about half a second."""
    rank.work.pace = 8
    while True:
        yield


def read_loss_rarely(rank, every=6):
    """The host waits for the GPU at the end of one of so many steps only, and runs ahead of it in between."""
    wait, last = rank.gpu.synchronize, [False]
    rank.gpu.synchronize = lambda: wait() if last[0] else None
    while True:
        step = yield
        last[0] = step % every == every - 1


def alone(rank):
    """No collectives: each rank works for itself."""
    rank.gpu.allreduce = lambda nbytes: None
    rank.gpu.join_comm = lambda: None
    while True:
        yield


def backward_thread(rank):
    """As PyTorch does it: a thread of its own launches the backward pass, and the main thread waits for it."""
    def launch():
        for hook in rank.hooks:
            hook()
        type(rank).backward(rank)

    rank.hooks = []
    pool = concurrent.futures.ThreadPoolExecutor(1, "pt_autograd", rank.gpu.use_context)
    rank.backward = lambda: pool.submit(launch).result()
    while True:
        yield


def backward_hook(rank, rounds=250):
    """A hook of the backward pass computes in Python, in the thread that launches it."""
    rank.hooks.append(lambda: loop_in_python(rounds))
    try:
        while True:
            yield
    finally:
        rank.hooks.pop()


# ---- a tenth round ----

def crunch(seconds_of_cpu):
    """Work of a process of a pool."""
    end = time.process_time() + seconds_of_cpu
    data = b"x" * 65536
    while time.process_time() < end:
        zlib.compress(data)


def token_pool(rank, texts=6, ms=6):
    """The texts of a batch are tokenized by a pool of processes (concurrent.futures) that has one process."""
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(crunch, 0).result()
        while True:
            yield
            for f in [pool.submit(crunch, ms / 1e3) for _ in range(texts)]:
                f.result()


def log_http(rank, ms=15):
    """Each step logs two records over HTTP (logging.handlers.HTTPHandler), and the collector is slow."""
    script = ("import http.server,time\n"
              "class H(http.server.BaseHTTPRequestHandler):\n"
              "    def do_POST(self):\n"
              "        self.rfile.read(int(self.headers['Content-Length']))\n"
              f"        time.sleep({ms / 1e3})\n"
              "        self.send_response(204); self.end_headers()\n"
              "    def log_message(self, *a): pass\n"
              "s = http.server.HTTPServer(('127.0.0.1', 0), H)\n"
              "print(s.server_port, flush=True)\n"
              "s.serve_forever()\n")
    server = subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE)
    log = logging.getLogger("train.collected")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(logging.handlers.HTTPHandler(f"127.0.0.1:{int(server.stdout.readline())}", "/log", method="POST"))
    try:
        while True:
            step = yield
            log.info("step %d begins", step)
            log.info("step %d: loss %f", step, 1 / (step + 1))
    finally:
        log.handlers.clear()
        log.addHandler(logging.NullHandler())
        server.kill()
        server.wait()


def stream_lock(rank, ms=25):
    """A thread of C code writes to a stream of stdio whose reader is slow, and the step prints a line there."""
    ours, its = os.pipe()
    fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, 4096)
    pid = os.fork()
    if not pid:
        os.close(its)
        while os.read(ours, 4096):
            time.sleep(ms / 1e3)
        os._exit(0)
    os.close(ours)
    libc, over = ctypes.CDLL(None), threading.Event()
    libc.fdopen.restype, libc.fdopen.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_char_p]
    libc.fputs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    stream, text = libc.fdopen(its, b"w"), b"x" * 5000 + b"\n"

    def report():
        while not over.wait(0.005):
            libc.fputs(text, stream)

    threading.Thread(target=report, name="report", daemon=True).start()
    try:
        while True:
            yield
            libc.fputs(b"a line\n", stream)
    finally:
        over.set()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def lazy_import(rank, modules="xml.dom.minidom,email.mime.multipart,unittest.mock,http.cookiejar,pydoc"):
    """A function of the step imports modules anew: somebody removes them from sys.modules."""
    import importlib
    names = modules.split(",")
    tops = {n.split(".")[0] for n in names} - {"http"}
    while True:
        yield
        for name in [m for m in sys.modules if m.split(".")[0] in tops or m == "http.cookiejar"]:
            del sys.modules[name]
        for name in names:
            importlib.import_module(name)


def reopen_zip(rank, entries=3000):
    """Each step opens an archive of 3,000 samples to read one."""
    import zipfile
    path = os.path.join(rank.dir, f"samples-{rank.rank}.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(entries):
            archive.writestr(f"train/{i:06}.txt", b"a sample")
    while True:
        step = yield
        with zipfile.ZipFile(path) as archive:
            archive.read(f"train/{step % entries:06}.txt")


def print_array(rank, values=4000):
    """An array is printed whole in each step (NumPy, threshold=inf)."""
    import numpy
    array = numpy.random.default_rng(rank.rank).random(values)
    with open(os.devnull, "w", encoding="ascii") as out:
        while True:
            yield
            print(numpy.array2string(array, threshold=values + 1), file=out)


def busy_connections(rank, ms=30):
    """A pool of two connections, which two other threads have most of the time."""
    pool, over = threading.BoundedSemaphore(2), threading.Event()

    def ask():
        while not over.is_set():
            with pool:
                over.wait(ms / 1e3)
            over.wait(0.004)

    for _ in range(2):
        threading.Thread(target=ask, name="query", daemon=True).start()
    try:
        while True:
            yield
            with pool:
                pass
    finally:
        over.set()


def empty_queue(rank, ms=30):
    """The step looks for news of a queue that is empty, and gives up after 30 ms."""
    news = queue.Queue()
    while True:
        yield
        try:
            news.get(timeout=ms / 1e3)
        except queue.Empty:
            pass


def item_calls(rank, values=250):
    """The step copies its metrics to the host one by one and waits for each copy (.item())."""
    while True:
        yield
        for _ in range(values):
            rank.gpu.copy_out(4)
            rank.gpu.synchronize()


def idle_holder(rank, ms=4):
    """A thread of the lowest priority works under a lock of the step's, and needs the GIL between two calls."""
    guard, over = threading.Lock(), threading.Event()
    data = rank.rng.randbytes(64 << 10)
    begin = time.thread_time()
    for _ in range(8):
        zlib.compress(data)
    count = max(1, round(ms / 1e3 / (time.thread_time() - begin) * 8))

    def index():
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
        while not over.wait(0.005):
            with guard:
                for _ in range(count):
                    zlib.compress(data)

    threading.Thread(target=index, name="index", daemon=True).start()
    try:
        while True:
            yield
            with guard:
                pass
    finally:
        over.set()


def thread_map(rank, samples=64, rounds=6000):
    """The samples of a batch are transformed in Python by 16 threads of a pool."""
    def transform(n):
        for i in range(rounds):
            n = (n * 31 + i) & 0xffff
        return n

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        while True:
            yield
            list(pool.map(transform, range(samples)))


def append_array(rank, mb=6, times=8):
    """An array of NumPy grows value by value: each append copies it."""
    import numpy
    array = numpy.zeros(mb << 17)
    while True:
        yield
        some = array
        for i in range(times):
            some = numpy.append(some, i)

# ---- an eleventh round ----

def barrier_process(rank, ms=35):
    """A process of the rank's own comes late to a barrier."""
    context = multiprocessing.get_context("fork")
    both, begin = context.Barrier(2), context.Semaphore(0)

    def export():
        while True:
            begin.acquire()
            time.sleep(ms / 1e3)
            both.wait()

    with beside(context, export):
        while True:
            yield
            begin.release()
            both.wait()


def populate_pages(rank, mib=48):
    """Maps a buffer with all of its pages (MAP_POPULATE) and drops it again."""
    while True:
        yield
        mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def drop_pages(rank, mib=32):
    """Gives the pages of a buffer back (MADV_DONTNEED) and writes to it again."""
    buffer = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    while True:
        yield
        buffer.madvise(mmap.MADV_DONTNEED)
        for at in range(0, mib << 20, PAGE):
            buffer[at] = 1


def sort_scores(rank, count=250_000):
    """Sorts the scores of all samples."""
    scores = [random.random() for _ in range(count)]
    while True:
        yield
        sorted(scores)


def parse_manifest(rank, entries=14_000):
    """Parses the JSON manifest of the data set again."""
    text = json.dumps([{"path": f"shard-{i:06}", "bytes": i * 17, "tags": ["a", "b"]} for i in range(entries)])
    while True:
        yield
        json.loads(text)


def database_busy(rank, ms=40):
    """Another process holds a write transaction of the SQLite database to which the step adds a row."""
    path = os.path.join(rank.dir, f"runs-{rank.rank}.sqlite")
    with sqlite3.connect(path) as setup:
        setup.execute("PRAGMA journal_mode = WAL")
        setup.execute("PRAGMA synchronous = OFF")
        setup.execute("CREATE TABLE IF NOT EXISTS loss (step INTEGER)")
    setup.close()

    def report():
        other = sqlite3.connect(path, isolation_level=None, timeout=30)
        while True:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(ms / 1e3)
            other.execute("COMMIT")
            time.sleep(0.03)

    with beside(multiprocessing.get_context("fork"), report):
        db = sqlite3.connect(path, isolation_level=None, timeout=30)
        while True:
            step = yield
            db.execute("INSERT INTO loss VALUES (?)", (step,))


def replace_state(rank, files=3):
    """Writes small state files as careful programs do: a new file, synced, renamed, and the directory synced."""
    directory = os.open(rank.dir, os.O_RDONLY)
    while True:
        yield
        for k in range(files):
            path = os.path.join(rank.dir, f"state-{rank.rank}-{k}")
            with open(path + ".new", "wb") as f:
                f.write(os.urandom(4096))
                f.flush()
                os.fsync(f.fileno())
            os.rename(path + ".new", path)
            os.fsync(directory)


def transcoder(rank):
    """Each step sends its samples to a program that compresses them, which a shell starts."""
    data = os.urandom(1 << 20) * 3
    while True:
        yield
        subprocess.run(["sh", "-c", "gzip -1 -c; true"], input=data, stdout=subprocess.DEVNULL, check=True)


def event_of_thread(rank, mib=2):
    """The step waits for the event of a thread that compresses the last batch."""
    go, done = threading.Event(), threading.Event()
    data = os.urandom(mib << 20)

    def compress():
        while True:
            go.wait()
            go.clear()
            zlib.compress(data, 6)
            done.set()

    threading.Thread(target=compress, name="compressor", daemon=True).start()
    while True:
        yield
        go.set()
        done.wait()
        done.clear()


def ask_tls(rank, ms=30):
    """Asks a server over TLS, which answers late."""
    import ssl
    where = os.path.join(rank.dir, f"tls-{rank.rank}")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", where + ".key", "-out",
                    where + ".crt", "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(where + ".crt", where + ".key")
        connection = context.wrap_socket(listener.accept()[0], server_side=True)
        while connection.recv(64):
            time.sleep(ms / 1e3)
            connection.send(b"ok")

    with beside(multiprocessing.get_context("fork"), serve):
        context = ssl.create_default_context(cafile=where + ".crt")
        asked = context.wrap_socket(socket.create_connection(listener.getsockname()), server_hostname="localhost")
        while True:
            yield
            asked.send(b"next shard?")
            asked.recv(64)


def sampled_stats(rank, every=6, count=900_000):
    """Every sixth step computes statistics of its losses in Python."""
    losses = [random.random() for _ in range(count)]
    while True:
        step = yield
        if step % every == 0:
            mean = sum(losses) / count
            sum((x - mean) ** 2 for x in losses)


def epoch_pause(rank, every=120, ms=1500):
    """Healthy: at the end of an epoch every rank opens its samples again."""
    while True:
        step = yield
        if step % every == every - 1:
            time.sleep(ms / 1e3)


def report_all(rank, every=25):
    """Healthy: every 25 steps all ranks reduce their metrics and format them."""
    while True:
        step = yield
        if step % every == 0:
            text = "".join(f"{name}={name / 7:.4f} " for name in range(20_000))
            del text
            rank.gpu.allreduce(4096)
            rank.gpu.synchronize()


# ---- a twelfth round ----

def cause_in_turn(rank, ms=25, rounds=250, turn_s=3):
    """A pause in the script for some seconds, then a loop in Python for as long, again and again."""
    begin = time.monotonic()
    while True:
        yield
        if int((time.monotonic() - begin) / turn_s) % 2:
            loop_in_python(rounds)
        else:
            time.sleep(ms / 1e3)


def alarm_sleeps(rank, every_ms=200, ms=50):
    """A watchdog's signal handler waits in the main thread, five times a second."""
    before = signal.signal(signal.SIGALRM, lambda *_: time.sleep(ms / 1e3))
    signal.setitimer(signal.ITIMER_REAL, every_ms / 1e3, every_ms / 1e3)
    try:
        while True:
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def early_helper(rank, after=80, ms=25):
    """From one of the job's first steps on, each waits for a helper process at a pipe."""
    questions, answers = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        while os.read(questions[0], 1):
            time.sleep(ms / 1e3)
            os.write(answers[1], b"a")
    try:
        while True:
            step = yield
            if step >= after:
                os.write(questions[1], b"q")
                os.read(answers[0], 1)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def linger_close(rank, kib=256, ms=25):
    """Each step sends its results over a connection of its own and closes it with SO_LINGER; the reader is slow."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4)

    def collect():
        while True:
            its, _ = listener.accept()
            time.sleep(ms / 1e3)
            while its.recv(1 << 20):
                pass
            its.close()

    with beside(multiprocessing.get_context("fork"), collect):
        while True:
            yield
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 5))
                s.connect(listener.getsockname())
                s.sendall(bytes(kib << 10))


def accept_late(rank, ms=30):
    """Each step waits until another process has connected to it."""
    listener, asked = socket.create_server(("127.0.0.1", 0)), os.pipe()
    pid = os.fork()
    if not pid:
        while os.read(asked[0], 1):
            time.sleep(ms / 1e3)
            socket.create_connection(listener.getsockname()).close()
    try:
        while True:
            yield
            os.write(asked[1], b"q")
            listener.accept()[0].close()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        listener.close()


def async_ask(rank, count=4, ms=30):
    """Coroutines ask several servers at once, which answer late."""
    async def ask(reader, writer):
        writer.write(b"q")
        await reader.readexactly(1)

    async def ask_all():
        await asyncio.gather(*[ask(*c) for c in connections])

    loop = asyncio.new_event_loop()
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(slow_server(ms))[0] for _ in range(count)]
        connections = [loop.run_until_complete(asyncio.open_connection(sock=s)) for s in sockets]
        while True:
            yield
            loop.run_until_complete(ask_all())


def read_to_thread(rank, kib=24576):
    """A coroutine awaits a thread (asyncio.to_thread) that reads past the page cache."""
    path = os.path.join(rank.dir, f"direct-{rank.rank}")
    with open(path, "wb") as f:
        f.write(os.urandom(kib << 10))
        os.fsync(f.fileno())
    fd, buffer = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 64 << 10)

    def read_shard():
        for at in range(0, kib << 10, 64 << 10):
            os.preadv(fd, [buffer], at)

    loop = asyncio.new_event_loop()
    while True:
        yield
        loop.run_until_complete(asyncio.to_thread(read_shard))


def uncompressed(rank, times=40):
    """The gradients of all ranks are no longer compressed before they are reduced."""
    usual = rank.gpu.allreduce
    rank.gpu.allreduce = lambda nbytes: usual(times * nbytes)
    try:
        while True:
            yield
    finally:
        rank.gpu.allreduce = usual


def append_line(rank, path):
    """Appends a line to a file of another file system."""
    with open(os.path.join(path, f"log-{rank.rank}"), "ab", buffering=0) as f:
        while True:
            step = yield
            f.write(b"step %d: loss 0.5\n" % step)


def leaking_heap(rank, more=10_000, every=4):
    """Each step leaves objects behind, and the collector, in every fourth step, takes longer and longer."""
    heap = []
    while True:
        step = yield
        heap += [[i] for i in range(more)]
        if step % every == 0:
            gc.collect()


def hot_expert(rank, percent=1, most=60):
    """The router sends more and more tokens to the expert of one rank: larger grids."""
    usual, more = rank.work.batch, 0
    try:
        while True:
            yield
            more = min(most, more + percent)
            rank.work.batch = usual * (1 + more / 100)
    finally:
        rank.work.batch = usual


def managed_memory(rank, one_in=40, us=18_000):
    """Now and then a kernel, whichever it is, waits until its managed memory has come to the GPU."""
    launch, gpu = rank.gpu.kernel, rank.gpu

    def kernel(name, ns, *more, **named):
        launch(name, ns + us * 1000 * (rank.rng.random() * one_in < 1), *more, **named)

    gpu.kernel = kernel
    try:
        while True:
            yield
    finally:
        del gpu.kernel


def endless_kernel(rank, after=5):
    """A kernel that does not end."""
    while True:
        yield
        after -= 1
        if not after:
            rank.kernel("attention_forward_kernel(float*)", 900_000_000)


def inflate_here(rank, ms=20):
    """The launch thread itself expands the shard that each step needs (LZMA)."""
    import lzma
    shard = lzma.compress(b"".join(b"%d " % rank.rng.randrange(5000) for _ in range(40_000)), preset=1)
    begin = time.thread_time()
    for _ in range(4):
        lzma.decompress(shard)
    count = max(1, round(ms / 1e3 / ((time.thread_time() - begin) / 4)))
    while True:
        yield
        for _ in range(count):
            lzma.decompress(shard)


def mapped_writes(rank, mb=32):
    """Each step writes to all pages of a mapped file, and another process syncs the file all the time."""
    path = os.path.join(rank.dir, f"table-{rank.rank}")
    with open(path, "wb") as f:
        f.write(bytes(mb << 20))

    def sync():
        fd = os.open(path, os.O_RDWR)
        while True:
            os.fdatasync(fd)
            time.sleep(0.005)

    fd = os.open(path, os.O_RDWR)
    with beside(multiprocessing.get_context("fork"), sync), mmap.mmap(fd, mb << 20) as table:
        while True:
            step = yield
            for at in range(0, mb << 20, PAGE):
                table[at] = step & 0xff


def run_program(rank, every=5, ms=120):
    """Every fifth step runs a program and waits for it."""
    while True:
        step = yield
        if step % every == 0:
            subprocess.run(["/bin/sleep", f"{ms / 1e3}"], check=True)


def growing_batch(rank, every=70, percent=15, most=2.0):
    """Healthy: the batch of all ranks grows, a step up every 70 steps."""
    usual = rank.work.batch
    while True:
        step = yield
        rank.work.batch = min(most, usual * (1 + percent / 100) ** (step // every))


def log_bursts(rank, every=40, steps=3):
    """Healthy: three of 40 steps are logged in detail, on all ranks."""
    log = logging.getLogger("train")
    while True:
        step = yield
        log.setLevel(logging.DEBUG if step % every < steps else logging.INFO)


def save_aside(rank, every=60, mb=2):
    """Healthy: every 60 steps each rank hands a copy of its state to a thread, which compresses and writes it."""
    state = os.urandom(mb << 20)

    def save(copy_of_state):
        with open(os.path.join(rank.dir, f"aside-{rank.rank}"), "wb") as f:
            f.write(zlib.compress(copy_of_state, 1))

    while True:
        step = yield
        if step % every == every - 1:
            threading.Thread(target=save, args=(bytearray(state),), name="saver", daemon=True).start()


# ---- a thirteenth round ----

def attention_spells(rank, on_ms=1000, every_ms=3000, percent=120):
    """The attention kernels take longer for a while, again and again, on all ranks at the same time."""
    names = "attention_forward_kernel(float*)", "attention_backward_kernel(float*)"
    try:
        while True:
            yield
            on = time.monotonic() * 1e3 % every_ms < on_ms
            rank.work.slower.update(dict.fromkeys(names, 1 + percent / 100 * on))
    finally:
        for name in names:
            del rank.work.slower[name]


def priority_lock(rank, ms=45, rest_us=7000):
    """A thread of a library has a lock with priority inheritance for most of the time."""
    libc = ctypes.CDLL(None)
    attributes, mutex, over = ctypes.create_string_buffer(16), ctypes.create_string_buffer(64), threading.Event()
    libc.pthread_mutexattr_init(attributes)
    libc.pthread_mutexattr_setprotocol(attributes, 1)  # PTHREAD_PRIO_INHERIT
    libc.pthread_mutex_init(mutex, attributes)

    def write_back():
        while not over.is_set():
            libc.pthread_mutex_lock(mutex)
            libc.usleep(ms * 1000)
            libc.pthread_mutex_unlock(mutex)
            libc.usleep(rest_us)

    threading.Thread(target=write_back, name="write-back", daemon=True).start()
    try:
        while True:
            yield
            libc.pthread_mutex_lock(mutex)
            libc.pthread_mutex_unlock(mutex)
    finally:
        over.set()


def callbacks(rank, us=500, rounds=12):
    """A library calls back into Python for each of its events, from threads of its own (SIGEV_THREAD)."""
    libc = ctypes.CDLL(None)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def on_event(_):
        loop_in_python(rounds)

    event, timer = bytearray(64), ctypes.c_void_p()
    struct.pack_into("=QiiQQ", event, 0, 0, 0, 2, ctypes.cast(on_event, ctypes.c_void_p).value, 0)  # SIGEV_THREAD
    libc.timer_create(1, (ctypes.c_char * 64).from_buffer(event), ctypes.byref(timer))
    libc.timer_settime(timer, 0, struct.pack("=4q", 0, us * 1000, 0, us * 1000), None)
    try:
        while True:
            yield
    finally:
        libc.timer_delete(timer)
        time.sleep(0.2)  # what was on its way


def lazy_naps(rank, count=6, us=100, slack_ms=8):
    """A library allows its timers to be late, to save power, and looks for a result with very short sleeps."""
    libc = ctypes.CDLL(None)
    while True:
        yield
        libc.prctl(29, slack_ms * 1000000, 0, 0, 0)  # PR_SET_TIMERSLACK
        for _ in range(count):
            time.sleep(us / 1e6)
        libc.prctl(29, 0, 0, 0, 0)  # what is usual


def event_count(rank, every=5, ms=120):
    """Every fifth step waits for another process, which adds to an eventfd late."""
    asked, done = os.eventfd(0), os.eventfd(0)
    pid = os.fork()
    if not pid:
        while True:
            os.eventfd_read(asked)
            time.sleep(ms / 1e3)
            os.eventfd_write(done, 1)
    try:
        while True:
            step = yield
            if step % every == 0:
                os.eventfd_write(asked, 1)
                os.eventfd_read(done)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def grace_periods(rank, count=2):
    """A library with deferred reclamation waits until all CPUs have passed a quiescent state (membarrier)."""
    libc = ctypes.CDLL(None)
    while True:
        yield
        for _ in range(count):
            libc.syscall(324, 1, 0, 0)  # MEMBARRIER_CMD_GLOBAL


def send_file(rank, kib=640, ms=10):
    """Sends a file to a store over TCP, whose reader is slow."""
    path = os.path.join(rank.dir, f"sent-{rank.rank}")
    with open(path, "wb") as f:
        f.write(rank.rng.randbytes(kib << 10))
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    server.bind(("127.0.0.1", 0))
    server.listen()
    pid = os.fork()
    if not pid:
        s = server.accept()[0]
        while s.recv(128 << 10, socket.MSG_WAITALL):
            time.sleep(ms / 1e3)
        os._exit(0)
    try:
        with socket.socket() as s, open(path, "rb") as f:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
            s.connect(server.getsockname())
            while True:
                yield
                s.sendfile(f, 0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def count_metrics(rank, victim, count=100):
    """Sends counters by UDP to an agent in the same container."""
    if rank.rank == victim:
        agent, asks = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        agent.bind(("127.0.0.1", 0))
        where = agent.getsockname()
        if not os.fork():
            parent = os.getppid()
            while os.getppid() == parent:
                if select.select([agent], [], [], 1)[0]:
                    agent.recv(64)
            os._exit(0)
    while True:
        yield
        for n in range(count if rank.rank == victim else 0):
            asks.sendto(b"train.loss:%d|g" % n, where)


def read_scattered(rank, mb=64, count=600):
    """Reads records of 4 KiB all over a file that the page cache has not, with the read-ahead off."""
    path = os.path.join(rank.dir, f"scattered-{rank.rank}")
    with open(path, "wb") as f:
        for _ in range(mb):
            f.write(rank.rng.randbytes(1 << 20))
        f.flush()
        os.fsync(f.fileno())
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    while True:
        yield
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(count):
            os.pread(fd, 4096, rank.rng.randrange(mb << 8) << 12)


def harder_samples(rank, rounds=850):
    """The loader's worker has more to compute for each sample (--loader augment)."""
    path = os.path.join(rank.dir, f"rounds-{rank.rank}")
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write(str(rounds))
    os.rename(path + ".new", path)
    try:
        while True:
            yield
    finally:
        os.unlink(path)


def growing_metric(rank, rounds=90, more=90):
    """A metric of evaluation whose list of classes grows with each evaluation."""
    before = False
    while True:
        yield
        if rank.work.forward_only:
            rounds += more * (not before)
            loop_in_python(rounds)
        before = rank.work.forward_only


def sync_spells(rank, on_s=3, off_s=3, mb=8):
    """Writes and syncs a file in each step, for some seconds of twice as many."""
    path, begin = os.path.join(rank.dir, f"spell-{rank.rank}"), time.monotonic()
    data = rank.rng.randbytes(mb << 20)
    while True:
        yield
        if (time.monotonic() - begin) % (on_s + off_s) >= off_s:
            with open(path, "wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())


# ---- a fourteenth round ----

def slower_in_evaluation(rank, name, percent=400):
    """One kernel takes longer, in the steps that only evaluate."""
    try:
        while True:
            yield
            rank.work.slower[name] = 1 + percent / 100 * rank.work.forward_only
    finally:
        del rank.work.slower[name]


def offload_aside(rank, count=400):
    """Activations go to the host on a stream of their own, and the backward pass waits for it."""
    gpu, stream = rank.gpu, rank.gpu.add_stream()
    while True:
        yield
        for _ in range(count):
            gpu._copy_out(gpu.host, gpu.buffer, 1 << 20, gpu.streams[stream])
        gpu.join(stream)


def growing_optimizer(rank, every=4, percent=30, most=600):
    """The optimizer's kernel takes longer each time that it runs."""
    name, more = "lamb_kernel(float*, float*)", 0
    try:
        while True:
            step = yield
            more = min(most, more + percent * (step % every == 0))
            rank.work.slower[name] = 1 + more / 100
    finally:
        del rank.work.slower[name]


def staggered_garbage(rank, every=8, objects=400_000):
    """Each rank collects its garbage every eighth step, and each in another one."""
    heap = [[i] for i in range(objects)]
    while heap:
        step = yield
        if step % every == 2 * rank.rank:
            gc.collect()


def audit_events(rank, rules=40):
    """A security hook in Python compares each event with its rules."""
    names, on = [f"forbidden.event{i}" for i in range(rules)], [True]

    def on_event(event, _):
        if on:
            for name in names:
                if event.startswith(name):
                    raise PermissionError(event)

    sys.addaudithook(on_event)  # for the life of the process
    try:
        while True:
            yield
    finally:
        on.clear()


def spin_shared(rank, hold_ms=45, rest_ms=5):
    """A spin lock in shared memory, which another process has for most of the time."""
    libc, shared = ctypes.CDLL(None), mmap.mmap(-1, PAGE)
    word = ctypes.c_int.from_buffer(shared)
    libc.pthread_spin_init(ctypes.byref(word), 1)

    def other():
        while True:
            libc.pthread_spin_lock(ctypes.byref(word))
            time.sleep(hold_ms / 1e3)
            libc.pthread_spin_unlock(ctypes.byref(word))
            time.sleep(rest_ms / 1e3)

    with beside(multiprocessing.get_context("fork"), other):
        while True:
            yield
            libc.pthread_spin_lock(ctypes.byref(word))
            libc.pthread_spin_unlock(ctypes.byref(word))


def import_late(rank, ms=30):
    """A thread imports a module anew, whose body asks another process for a licence, and the step imports it too."""
    places = os.path.join(rank.dir, f"vendor-{rank.rank}")
    os.makedirs(places, exist_ok=True)
    with open(os.path.join(places, "vendor_ops.py"), "w", encoding="ascii") as f:
        f.write("import licence\nlicence.check()\n")
    sys.path.insert(0, places)
    ours, its = multiprocessing.Pipe()
    go, begun = threading.Event(), threading.Event()

    def check():
        begun.set()
        ours.send_bytes(b"q")
        ours.recv_bytes()

    def answer():
        while its.recv_bytes():
            time.sleep(ms / 1e3)
            its.send_bytes(b"a")

    def reload():
        while go.wait():
            go.clear()
            sys.modules.pop("vendor_ops", None)
            importlib.import_module("vendor_ops")

    sys.modules["licence"] = types.ModuleType("licence")
    sys.modules["licence"].check = check
    with beside(multiprocessing.get_context("fork"), answer):
        threading.Thread(target=reload, name="plugins", daemon=True).start()
        while True:
            yield
            go.set()
            begun.wait()
            begun.clear()
            importlib.import_module("vendor_ops")


def private_copy(rank, mb=64):
    """Each step changes its own copy of a mapped file: the kernel copies each page."""
    path = os.path.join(rank.dir, f"weights-{rank.rank}")
    with open(path, "wb") as f:
        f.write(rank.rng.randbytes(1 << 20) * mb)
    with open(path, "rb") as f:
        ones = b"\1" * (mb << 8)
        while True:
            yield
            with mmap.mmap(f.fileno(), mb << 20, access=mmap.ACCESS_COPY) as weights:
                weights[::PAGE] = ones


def search_domains(rank, ms=8, domains=4):
    """A short name is looked up in each search domain, and the name server answers each question late."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    pid = os.fork()
    if not pid:
        while True:
            question, who = server.recvfrom(512)
            time.sleep(ms / 1e3)
            server.sendto(question[:2] + b"\x81\x83" + question[4:], who)  # no such name
    os.environ["LOCALDOMAIN"] = " ".join(f"zone{i}.cluster.local" for i in range(domains))
    os.environ["RES_OPTIONS"] = "ndots:5"
    libc = ctypes.CDLL(None)
    libc.__res_state.restype = ctypes.c_void_p
    libc.__res_init()
    ctypes.memmove(libc.__res_state() + 16, struct.pack("=iHHI8x", 1, socket.AF_INET, socket.htons(
        server.getsockname()[1]), 0x0100007f), 20)  # nscount, nsaddr_list: of this thread
    try:
        while True:
            yield
            try:
                socket.getaddrinfo("metrics", 80, socket.AF_INET)
            except OSError:
                pass
    finally:
        del os.environ["LOCALDOMAIN"], os.environ["RES_OPTIONS"]
        libc.__res_init()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        server.close()


def store_keys(rank):
    """Each step asks for a key of a store (torch's TCPStore), which another process sets."""
    import torch.distributed
    script = ("import os, sys, time, torch.distributed as d\n"
              "s = d.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)\n"
              "print(s.port, flush=True)\n"
              "n = 0\n"
              "while True:\n"
              "    s.wait([f'asked{n}'])\n"
              "    if os.path.exists(sys.argv[1]):\n"
              "        time.sleep(int(open(sys.argv[1]).read()) / 1e3)\n"
              "    s.set(f'done{n}', '1')\n"
              "    n += 1\n")
    with subprocess.Popen(["/usr/bin/python3", "-c", script, os.path.join(rank.dir, f"late-{rank.rank}")],
                          stdout=subprocess.PIPE) as server:
        store, n = torch.distributed.TCPStore("127.0.0.1", int(server.stdout.readline()), None, False), 0
        try:
            while True:
                yield
                store.set(f"asked{n}", "1")
                store.get(f"done{n}")
                n += 1
        finally:
            server.kill()


def late_keys(rank, ms=30):
    """The keys of store_keys come late."""
    path = os.path.join(rank.dir, f"late-{rank.rank}")
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write(str(ms))
    os.rename(path + ".new", path)
    try:
        while True:
            yield
    finally:
        os.unlink(path)


def free_space(rank, path):
    """Each step looks how much space the shared file system has left."""
    while True:
        yield
        os.statvfs(path)


def save_planned(rank, every=8, mb=2):
    """Saves its state now and then."""
    rank.saved_mb, block = mb, os.urandom(1 << 20)
    while True:
        step = yield
        if step % every == every - 1:
            save_checkpoint(os.path.join(rank.dir, f"planned-{rank.rank}"), block, rank.saved_mb, 0)


def growing_state(rank, every=8, mb=16, most=128):
    """What save_planned() saves is more each time."""
    usual = rank.saved_mb
    try:
        while True:
            step = yield
            rank.saved_mb = min(most, rank.saved_mb + mb * (step % every == 0))
    finally:
        rank.saved_mb = usual


def long_samples(rank, one_in=12, rounds=3000):
    """One in so many samples of the loader's worker is far longer (--loader augment)."""
    return harder_samples(rank, f"20 {one_in} {rounds}")


# ---- a fifteenth round ----

def in_evaluation(rank, of, **values):
    """Another one of these faults, in the steps that only evaluate."""
    inner = globals()[of](rank, **values)
    next(inner)
    try:
        while True:
            step = yield
            if rank.work.forward_only:
                inner.send(step)
    finally:
        inner.close()


def larger_shard(rank, percent=150):
    """This rank's part of the validation samples is larger: larger grids in the steps that only evaluate."""
    usual = rank.work.batch
    try:
        while True:
            yield
            rank.work.batch = usual * (1 + percent / 100 * rank.work.forward_only)
    finally:
        rank.work.batch = usual


def save_by_process(rank, every=8, mb=2, ms=100):
    """A process of its own writes each checkpoint, and the next one waits until it is done."""
    rank.save_ms, state = ms, os.urandom(1 << 20)
    context, writer = multiprocessing.get_context("fork"), None
    while True:
        step = yield
        if step % every == every - 1:
            if writer:
                writer.join()
            writer = context.Process(target=save_checkpoint, daemon=True, args=(
                os.path.join(rank.dir, f"by-process-{rank.rank}"), state, mb, rank.save_ms))
            writer.start()


def late_checkpoint(rank, ms=900):
    """The storage to which save_by_process() writes acknowledges late."""
    usual, rank.save_ms = rank.save_ms, ms
    try:
        while True:
            yield
    finally:
        rank.save_ms = usual


def save_shared(rank, path, every=6, kib=1024):
    """Saves its state to a shared file system now and then."""
    state = os.urandom(kib << 10)
    while True:
        step = yield
        if step % every == 0:
            with open(path, "wb", buffering=0) as f:
                f.write(state)


def recompute(rank):
    """Activations are not kept: the backward pass computes them again."""
    while True:
        yield
        for _ in range(rank.work.layers):
            rank.kernel("layer_norm_kernel(float*)", 60, (512, 1, 1))
            rank.kernel("gemm_f32_128x128_tn(qkv)", 900, (768, 1, 1), (256, 1, 1))
            rank.kernel("attention_forward_kernel(float*)", 1100, (384, 1, 1))


def fallback_blocks(rank, name, every=3, percent=250):
    """In every third step a kernel runs with many small blocks, as a shape has no better configuration."""
    small = [False]

    def kernel(what, us, grid=(256, 1, 1), block=(128, 1, 1), stream=0):
        if small[0] and what == name:
            us, grid, block = us * (1 + percent / 100), (grid[0] * 4, 1, 1), (block[0] // 4, 1, 1)
        type(rank).kernel(rank, what, us, grid, block, stream)

    with launching(rank, kernel):
        while True:
            step = yield
            small[0] = step % every == 0


def lock_shared(rank, path):
    """Locks a file of a shared file system (fcntl), whose server has to agree."""
    with open(path, "wb", buffering=0) as f:
        while True:
            yield
            fcntl.lockf(f, fcntl.LOCK_EX)
            fcntl.lockf(f, fcntl.LOCK_UN)


def blocked_loop(rank, rounds=600):
    """The step asks the event loop of another thread, where a coroutine computes in Python first."""
    loop = asyncio.new_event_loop()

    def export_metrics():
        loop_in_python(rounds)

    async def answer():
        return 1

    thread = threading.Thread(target=loop.run_forever, name="event-loop", daemon=True)
    thread.start()
    try:
        while True:
            yield
            loop.call_soon_threadsafe(export_metrics)
            asyncio.run_coroutine_threadsafe(answer(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def trace_callers(rank, every=5, count=250, depth=30):
    """Every fifth step a decorator of some functions looks at the whole stack of its callers (inspect)."""
    def call(left):
        if left:
            call(left - 1)
        else:
            for _ in range(count):
                inspect.stack()

    while True:
        step = yield
        if step % every == 0:
            call(depth)


def factorise(rank, every=6, size=480):
    """An optimizer of second order takes a matrix apart on the host, every sixth step."""
    import numpy
    matrix = numpy.random.default_rng(1).random((size, size))
    matrix += matrix.T
    while True:
        step = yield
        if step % every == 0:
            numpy.linalg.eigh(matrix)


def shared_batches(rank, mib=60):
    """Each batch comes in shared memory that is new (multiprocessing.shared_memory)."""
    batch = bytes(mib << 20)
    while True:
        yield
        memory = multiprocessing.shared_memory.SharedMemory(create=True, size=mib << 20)
        memory.buf[:] = batch
        memory.close()
        memory.unlink()


def dead_replica(rank, every=3, ms=60):
    """Every third step tries a replica first that does not take connections, and then another one."""
    dead, live = socket.socket(), socket.create_server(("127.0.0.1", 0))
    dead.bind(("127.0.0.1", 0))
    dead.listen(0)
    fill = []
    for _ in range(4):  # its queue is full
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(dead.getsockname())
        fill.append(s)
    try:
        while True:
            step = yield
            if step % every == 0:
                for replica in dead, live:
                    try:
                        with socket.create_connection(replica.getsockname(), ms / 1e3):
                            live.accept()[0].close()
                            break
                    except socket.timeout:
                        pass
    finally:
        for s in (dead, live, *fill):
            s.close()


# ---- a nineteenth round ----

def shuffle_list(rank, samples=1_500_000, count=12):
    """A buffer for shuffling is a list, whose first samples are taken: each time all others move."""
    buffer = list(range(samples))
    while True:
        yield
        for _ in range(count):
            buffer.append(buffer.pop(0))


def new_contexts(rank, every=3, count=2):
    """Every third step asks a service, with a TLS context of its own each time, which reads all certificates anew."""
    import ssl
    while True:
        step = yield
        if step % every == 0:
            for _ in range(count):
                ssl.create_default_context(cafile="/etc/ssl/certs/ca-certificates.crt")


def run_remote(rank, path, every=2):
    """Every second step runs a program that lies on a slow file system."""
    while True:
        step = yield
        if step % every == 0:
            subprocess.run([path], check=True)


def watch_memory(rank, maps=4000):
    """A callback sums up which of the process's memory is its own, from its smaps, in each step."""
    memory = [mmap.mmap(-1, PAGE, prot=mmap.PROT_READ | (mmap.PROT_WRITE if i % 2 else mmap.PROT_EXEC)) for i in range(maps)]
    own = re.compile(rb"\nPrivate.*:\s+(\d+)")
    while memory:
        yield
        with open("/proc/self/smaps", "rb") as f:
            sum(map(int, own.findall(f.read())))


def lost_index(rank, rows=120_000, count=3):
    """The table of the samples has no index for what each step looks for."""
    db = sqlite3.connect(":memory:")
    db.execute("create table samples (name text, shard integer, weight real)")
    db.executemany("insert into samples values (?, ?, ?)", ((f"sample-{i:08d}", i % 977, i / rows) for i in range(rows)))
    while True:
        yield
        for _ in range(count):
            name = f"sample-{rank.rng.randrange(rows):08d}"
            db.execute("select shard, weight from samples where name = ?", (name,)).fetchall()


def exit_waits(rank, after=5):
    """A step raises, and the interpreter's exit waits for a thread that waits for more to upload."""
    uploads = queue.Queue()

    def upload():
        while True:
            uploads.get()

    threading.Thread(target=upload, name="uploader").start()
    while True:
        yield
        after -= 1
        if not after:
            raise ValueError("the loss is not finite")


def fewer_samples(rank, after=5):
    """This rank has fewer samples than the others: it looks for their marks of the epoch's end, again and again."""
    while True:
        yield
        after -= 1
        while not after and not os.path.exists(os.path.join(rank.dir, f"epoch-done-{(rank.rank + 1) % rank.world}")):
            time.sleep(0.2)


def shard_server(rank):
    """Tells where the next shard is: to one rank after the other."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    if not os.fork():
        parent = os.getppid()
        while os.getppid() == parent:
            if select.select([listener], [], [], 1)[0]:
                its, _ = listener.accept()
                time.sleep(int(its.recv(16)) / 1e3)
                its.sendall(b"a")
                its.close()
        os._exit(0)
    path = os.path.join(rank.dir, "shard-server")
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write(str(listener.getsockname()[1]))
    os.rename(path + ".new", path)
    listener.close()
    while True:
        yield


def next_shard(rank, every=8, ms=40):
    """Every eighth step of all ranks asks shard_server()."""
    with open(os.path.join(rank.dir, "shard-server"), encoding="ascii") as f:
        port = int(f.read())
    while True:
        step = yield
        if step % every == 0:
            with socket.create_connection(("127.0.0.1", port)) as s:
                s.sendall(b"%d" % ms)
                s.recv(1)


def soft_lock(rank, path, hold_ms=8, poll_ms=50):
    """Work under a lock that is a file which is there or not; who finds it looks again later."""
    while True:
        yield
        rank.pack_batch(rank.rng.randrange(60))
        while True:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                time.sleep(poll_ms / 1e3)
        until = time.monotonic() + hold_ms / 1e3
        while time.monotonic() < until:
            rank.pack_batch(1)
        os.unlink(path)


def deadline_class(rank, runtime_us=3000, period_us=24_000):
    """The launch thread has the deadline class, with a budget that is too small for it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def set_class(policy, flags, *times):
        attributes = struct.pack("=IIQiIQQQ", 48, policy, flags, 0, 0, *times)
        if libc.syscall(314, 0, attributes, 0):  # sched_setattr
            raise OSError(ctypes.get_errno(), "sched_setattr")

    yield
    set_class(6, 1, runtime_us * 1000, period_us * 1000, period_us * 1000)  # SCHED_DEADLINE, SCHED_FLAG_RESET_ON_FORK
    try:
        while True:
            yield
    finally:
        set_class(0, 0, 0, 0, 0)


def retry_batches(rank, every=4):
    """In every fourth step the loss is not finite, and the batch is computed once more with a smaller scale."""
    while True:
        step = yield
        if step % every == 0:
            rank.forward(step)
            for _ in range(rank.work.layers):
                rank.kernel("attention_backward_kernel(float*)", 1900, (384, 1, 1), (256, 1, 1))
                rank.kernel("gemm_f32_128x256_nt(wgrad)", 2300, (1024, 1, 1), (256, 1, 1))


def plain_attention(rank, percent=70):
    """The library with the fused attention can't be loaded on this rank: three kernels in place of one."""
    def kernel(name, us, *more, **others):
        if not name.startswith("attention"):
            return type(rank).kernel(rank, name, us, *more, **others)
        for part in "batched_gemm_scores(float*)", "softmax_warp_kernel(float*)", "batched_gemm_values(float*)":
            type(rank).kernel(rank, part, us * (1 + percent / 100) / 3, *more, **others)
        return None

    with launching(rank, kernel):
        while True:
            yield


def plan_by_file(rank, planner, path, every=10):
    """One rank plans the next steps' batches and writes them to a file, for which the others look again and again."""
    rank.plan_rounds = 20
    while True:
        step = yield
        if step % every:
            continue
        name = f"{path}-{step}"
        if rank.rank == planner:
            loop_in_python(rank.plan_rounds)
            with open(name + ".new", "w", encoding="ascii") as f:
                json.dump(list(range(500)), f)
            os.rename(name + ".new", name)
        while not os.path.exists(name):
            time.sleep(0.002)


def longer_plans(rank, rounds=2500):
    """plan_by_file() has more to plan."""
    usual, rank.plan_rounds = rank.plan_rounds, rounds
    try:
        while True:
            yield
    finally:
        rank.plan_rounds = usual


def slow_mount(rank, ms=150):
    """The second worker of the data loader (--loader two) reads from a mount that is slow."""
    path = os.path.join(rank.dir, f"mount-{rank.rank}")
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write(str(ms))
    os.rename(path + ".new", path)
    try:
        while True:
            yield
    finally:
        os.unlink(path)


def unpacked(rank, percent=60):
    """The sequences of a batch are no longer packed: each step of each rank has as much to do as they are long."""
    usual = rank.work.batch
    try:
        while True:
            yield
            rank.work.batch = usual * (1 + percent / 100 * rank.rng.random())
    finally:
        rank.work.batch = usual


def absent_modules(rank, count=6, places=400):
    """Each step looks for optional modules that are not there, in a long list of places."""
    more = [os.path.join(rank.dir, f"site-{rank.rank}-{n}") for n in range(places)]
    for place in more:
        os.makedirs(place, exist_ok=True)
    sys.path.extend(more)
    try:
        while True:
            yield
            for n in range(count):
                try:
                    importlib.import_module(f"fast_ops_{n}")
                except ImportError:
                    pass
    finally:
        for place in more:
            sys.path.remove(place)


def large_on_host(rank, mb=24):
    """What all ranks reduce on the host (--gloo) is large now, on all of them from the same step on, until the end."""
    import torch
    path, first = os.path.join(rank.dir, "large-from"), None
    while True:
        step = yield
        if first is None:
            if rank.rank == 0 and not os.path.exists(path):
                with open(path + ".new", "w", encoding="ascii") as f:
                    f.write(str(step + 6))
                os.rename(path + ".new", path)
            if os.path.exists(path):
                with open(path, encoding="ascii") as f:
                    first = int(f.read())
        if step == first:
            rank.tensor = torch.zeros(mb << 18)


def hand_on(rank, sender):
    """One rank hands its state to the next one in each step, over TCP."""
    path, number = os.path.join(rank.dir, f"hand-{sender}"), rank.rank
    rank.before_hand_on = lambda: None
    if number == (sender + 1) % rank.world:
        listener = socket.create_server(("127.0.0.1", 0))
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(str(listener.getsockname()[1]))
        os.rename(path + ".new", path)
        s = listener.accept()[0]
    elif number == sender:
        while not os.path.exists(path):
            time.sleep(0.02)
        with open(path, encoding="ascii") as f:
            s = socket.create_connection(("127.0.0.1", int(f.read())))
    while True:
        yield
        if number == sender:
            rank.before_hand_on()
            s.sendall(bytes(4096))
        elif number == (sender + 1) % rank.world:
            s.recv(4096, socket.MSG_WAITALL)


def sync_before(rank, mb=12):
    """The state is on the disk before hand_on() hands it on."""
    path, state = os.path.join(rank.dir, f"handed-{rank.rank}"), os.urandom(mb << 20)

    def save():
        with open(path, "wb", buffering=0) as f:
            f.write(state)
            os.fsync(f.fileno())

    usual, rank.before_hand_on = rank.before_hand_on, save
    try:
        while True:
            yield
    finally:
        rank.before_hand_on = usual


def rollouts(rank, every=12, steps=8):
    """Healthy: 8 of 12 steps generate, with many small kernels and no backward pass; the others learn from that."""
    while True:
        step = yield
        rank.work.forward_only = step % every < steps
        rank.work.batch = 0.6 if rank.work.forward_only else 1.0
        for _ in range(80 if rank.work.forward_only else 0):
            rank.kernel("decode_kernel(float*, int*)", 120, (64, 1, 1))


def hub(rank, center):
    """Each step of all ranks sends its metrics to a thread of one rank, and waits until it has them."""
    path, rank.hub_rounds = os.path.join(rank.dir, f"hub-{center}"), 1

    def collect(its):
        while its.recv(64, socket.MSG_WAITALL):
            loop_in_python(rank.hub_rounds)
            its.sendall(b"a")

    def listen():
        while True:
            threading.Thread(target=collect, args=(listener.accept()[0],), name="collector", daemon=True).start()

    if rank.rank == center:
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=listen, name="collectors", daemon=True).start()
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(str(listener.getsockname()[1]))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.02)
    with open(path, encoding="ascii") as f:
        s = socket.create_connection(("127.0.0.1", int(f.read())))
    while True:
        yield
        s.sendall(bytes(64))
        s.recv(1)


def dear_metrics(rank, rounds=45):
    """What hub() gets takes longer to add up, in Python."""
    usual, rank.hub_rounds = rank.hub_rounds, rounds
    try:
        while True:
            yield
    finally:
        rank.hub_rounds = usual


def log_histograms(rank, every=16, kernels=60):
    """Healthy: every 16 steps all ranks make histograms of their weights, and rank 0 writes them."""
    while True:
        step = yield
        if step % every == every - 1:
            for _ in range(kernels):
                rank.kernel("histogram_kernel(float*, int*)", 120, (64, 1, 1))
                rank.gpu.copy_out(512)
            if rank.rank == 0:
                with open(os.path.join(rank.dir, "histograms"), "a", encoding="ascii") as f:
                    json.dump([[n * step % 97 for n in range(64)] for _ in range(kernels)], f)


def kernel_spells(rank, name, on_ms=2000, every_ms=4500, percent=220):
    """One kernel takes longer for a while, again and again."""
    begin = time.monotonic()
    try:
        while True:
            yield
            rank.work.slower[name] = 1 + percent / 100 * ((time.monotonic() - begin) * 1e3 % every_ms < on_ms)
    finally:
        del rank.work.slower[name]


def drop_layers(rank):
    """Healthy: each step leaves some layers out, the same ones on all ranks."""
    usual = rank.work.layers
    while True:
        step = yield
        rank.work.layers = usual - random.Random(step).randrange(4)


# ---- a twentieth round ----

def core_dumps(rank, every=10, mb=96):
    """A worker process crashes now and then; the rank waits until the kernel has written its core, and goes on."""
    def crash():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.chdir(rank.dir)
        heap = b"x" * (mb << 20)
        os.kill(os.getpid(), signal.SIGSEGV)
        del heap

    context = multiprocessing.get_context("fork")
    while True:
        step = yield
        if step % every == 0:
            worker = context.Process(target=crash)
            worker.start()
            worker.join()


def leaked_files(rank, count=19_000, programs=8):
    """The rank has files open that nobody closed, and each step runs programs: the kernel closes them all for each."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
    first = os.open(os.devnull, os.O_RDONLY)
    leaked = [first] + [os.dup(first) for _ in range(count)]
    try:
        while True:
            yield
            for _ in range(programs):
                subprocess.run(["/bin/true"], check=True)
    finally:
        os.closerange(leaked[0], leaked[-1] + 1)


def port_search(rank, count=40, first=44_000, last=60_999):
    """Nearly all local ports are in use: for each connection the kernel looks at thousands of them (a network of its own)."""
    libc, before = ctypes.CDLL(None, use_errno=True), os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(0x40000000):  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare")
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w", encoding="ascii") as f:
        f.write(f"{first} {last}")
    listener = socket.socket()
    fcntl.ioctl(listener, 0x8914, struct.pack("=16sh22x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
    listener.bind(("127.0.0.1", 1024))
    listener.listen(64)
    held = []
    for port in range(first, last + 1):
        if port % 8000 != 7:
            held.append(socket.socket())
            held[-1].bind(("127.0.0.1", port))
    try:
        while True:
            yield
            for _ in range(count):
                s = socket.create_connection(listener.getsockname())
                listener.accept()[0].close()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
                s.close()
    finally:
        for s in (listener, *held):
            s.close()
        libc.setns(before, 0)


def many_patterns(rank, patterns=600, count=100):
    """Regular expressions for 600 shards, more than re keeps compiled: each is compiled again when its turn comes."""
    turn = 0
    while True:
        yield
        for _ in range(count):
            turn = (turn + 1) % patterns
            re.match(rf"^(?P<split>train|val)/shard-{turn}/(?P<name>[a-z]+(_\d{{2,4}})?)\.(jpg|png)$", "train/shard-1/a.jpg")


def small_head(rank, layers=130, size=24):
    """Each step trains a small head on the host, with PyTorch."""
    import torch
    torch.set_num_threads(1)
    weights = [torch.full((size, size), 1 / size, requires_grad=True) for _ in range(layers)]
    while True:
        yield
        x = torch.ones(4, size)
        for w in weights:
            x = torch.tanh(x @ w) + 1
        x.sum().backward()


def detect_anomaly(rank):
    """PyTorch's anomaly detection was left on: it keeps the stack of each operation."""
    import torch
    torch.autograd.set_detect_anomaly(True)
    try:
        while True:
            yield
    finally:
        torch.autograd.set_detect_anomaly(False)


def load_here(rank, samples=4, rounds=70):
    """The number of workers is 0: PyTorch's data loader makes each batch in the launch thread."""
    import torch

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 20

        def __getitem__(self, i):
            loop_in_python(rounds)
            return torch.zeros(16)

    batches = iter(torch.utils.data.DataLoader(Images(), batch_size=samples, num_workers=0))
    while True:
        yield
        next(batches)


def full_pool(rank, ms=35):
    """The step's little task waits in a pool of two threads behind uploads to a slow server."""
    def upload(s):
        s.sendall(b"u")
        s.recv(1)

    with concurrent.futures.ThreadPoolExecutor(2) as pool, slow_server(ms) as (one, _), slow_server(ms) as (two, _):
        while True:
            yield
            for s in one, two:
                pool.submit(upload, s)
            pool.submit(sum, range(100)).result()


def signal_answer(rank, ms=30):
    """Another process does a part of the step and says by a signal that it is done (sigwait)."""
    libc, where = ctypes.CDLL(None), (os.getpid(), threading.get_native_id())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2})
    pid = os.fork()
    if not pid:
        while True:
            signal.sigwait({signal.SIGUSR1})
            time.sleep(ms / 1e3)
            libc.syscall(234, *where, int(signal.SIGUSR2))  # tgkill
    try:
        while True:
            yield
            os.kill(pid, signal.SIGUSR1)
            signal.sigwait({signal.SIGUSR2})
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def load_plugins(rank, path):
    """A thread loads and drops a plugin (dlopen) from a slow file system, and the step loads a library by dlopen as well."""
    libc, over = ctypes.CDLL(None), threading.Event()
    libc.dlopen.restype, libc.dlopen.argtypes, libc.dlclose.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int], \
        [ctypes.c_void_p]

    def reload():
        while not over.wait(0.02):
            plugin = libc.dlopen(path.encode(), os.RTLD_NOW)
            if plugin:
                libc.dlclose(plugin)

    thread = threading.Thread(target=reload, name="plugins", daemon=True)
    thread.start()
    try:
        while True:
            yield
            libc.dlclose(libc.dlopen(b"libm.so.6", os.RTLD_NOW))
    finally:
        over.set()
        thread.join()


def listen_at(path):
    """A local stream socket."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(16)
    os.rename(path + ".new", path)
    return listener


def connect_to(path):
    """A connection to listen_at()."""
    while not os.path.exists(path):
        time.sleep(0.02)
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s


def sample_cache(rank, ms=1.5):
    """All ranks ask one process of this node for their samples, a child of rank 0, which has some work with each."""
    path, packs = os.path.join(rank.dir, "sample-cache"), rank.packs_in(float(ms))
    if rank.rank == 0:
        listener = listen_at(path)
        rank.cache_pid = os.fork()
        if not rank.cache_pid:
            parent, open_ones = os.getppid(), [listener]
            while os.getppid() == parent:
                for s in select.select(open_ones, [], [], 1)[0]:
                    if s is listener:
                        open_ones.append(s.accept()[0])
                    elif s.recv(1):
                        rank.pack_batch(packs)
                        s.sendall(b"a")
                    else:
                        open_ones.remove(s)
            os._exit(0)
        listener.close()
    s = connect_to(path)
    while True:
        yield
        s.sendall(b"q")
        s.recv(1)


def bind_cache(rank, cpu=1):
    """The process of sample_cache() may use one CPU only."""
    os.sched_setaffinity(rank.cache_pid, {cpu})
    try:
        while True:
            yield
    finally:
        os.sched_setaffinity(rank.cache_pid, range(os.cpu_count()))


def peer_cache(rank, server):
    """A thread of one rank answers the next rank's questions for samples in each step."""
    path, asks = os.path.join(rank.dir, f"peer-{server}"), rank.rank == (server + 1) % rank.world
    rank.before_answer = lambda: None

    def serve(listener):
        its = listener.accept()[0]
        while its.recv(1):
            rank.before_answer()
            its.sendall(b"a")

    if rank.rank == server:
        threading.Thread(target=serve, args=(listen_at(path),), name="peer-cache", daemon=True).start()
    s = connect_to(path) if asks else None
    while True:
        yield
        if asks:
            s.sendall(b"q")
            s.recv(1)


def cold_cache(rank, kib=16384):
    """peer_cache() has to read past the page cache for each answer."""
    path = os.path.join(rank.dir, f"cache-{rank.rank}")
    with open(path, "wb") as f:
        f.write(os.urandom(kib << 10))
        os.fsync(f.fileno())
    fd, buffer = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 64 << 10)

    def read_samples():
        for at in range(0, kib << 10, 64 << 10):
            os.preadv(fd, [buffer], at)

    usual, rank.before_answer = rank.before_answer, read_samples
    try:
        while True:
            yield
    finally:
        rank.before_answer = usual


def shared_words(path):
    """Four numbers in memory that the ranks share, all 0 at first."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(fd, PAGE)
    return memoryview(mmap.mmap(fd, PAGE)).cast("q")


def flags(rank, path, sender):
    """One rank sets a flag in shared memory in each step, and the next rank spins until it is there."""
    words, number = shared_words(path), 0
    rank.before_flag = lambda: None
    while True:
        yield
        number += 1
        if rank.rank == sender:
            rank.before_flag()
            words[0] = number
        elif rank.rank == (sender + 1) % rank.world:
            while words[0] < number:
                pass


def compare_settings(rank, lines=800):
    """Before flags() sets its flag, the rank compares its settings with those of the last step (difflib)."""
    texts = [[f"layer.{i}.{'rate' if i % 7 else kind} = {i * 3}" for i in range(lines)] for kind in ("warmup", "decay")]

    def compare():
        list(difflib.ndiff(*texts))

    usual, rank.before_flag = rank.before_flag, compare
    try:
        while True:
            yield
    finally:
        rank.before_flag = usual


def store_barrier(rank):
    """Each step of all ranks meets at a barrier made of keys of torch's TCPStore."""
    import torch.distributed
    path, number = os.path.join(rank.dir, "barrier-port"), 0
    rank.before_barrier = lambda: None
    if rank.rank == 0:
        store = torch.distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(str(store.port))
        os.rename(path + ".new", path)
    else:
        while not os.path.exists(path):
            time.sleep(0.02)
        with open(path, encoding="ascii") as f:
            store = torch.distributed.TCPStore("127.0.0.1", int(f.read()), None, False)
    while True:
        yield
        rank.before_barrier()
        store.set(f"{number}/{rank.rank}", "1")
        store.wait([f"{number}/{r}" for r in range(rank.world)])
        number += 1


def walk_shards(rank, directories=1600):
    """Before store_barrier() the rank walks through all directories of its shards."""
    top = os.path.join(rank.dir, f"shards-{rank.rank}")
    for i in range(directories):
        os.makedirs(os.path.join(top, str(i // 30), str(i)), exist_ok=True)

    def walk():
        sum(len(files) for _, _, files in os.walk(top))

    usual, rank.before_barrier = rank.before_barrier, walk
    try:
        while True:
            yield
    finally:
        rank.before_barrier = usual


def token_ring(rank, path):
    """The ranks write to a common index one after the other: each waits for the one before it, and locks its part."""
    listener = listen_at(f"{path}-{rank.rank}")
    there = connect_to(f"{path}-{rank.rank + 1}") if rank.rank + 1 < rank.world else None
    here = listener.accept()[0] if rank.rank else None
    with open(f"{path}-part-{rank.rank}", "a", encoding="ascii") as f:
        while True:
            step = yield
            if here:
                here.recv(1)
            fcntl.flock(f, fcntl.LOCK_EX)
            f.write(f"{step}\n")
            f.flush()
            fcntl.flock(f, fcntl.LOCK_UN)
            if there:
                there.sendall(b"t")


def bind_gloo(rank, cpu=1):
    """The threads of gloo that move its messages may use one CPU only."""
    def waits_for_events(tid):
        with open(f"/proc/self/task/{tid}/wchan", encoding="ascii") as f:
            return "poll" in f.read()

    mine = [int(t) for t in os.listdir("/proc/self/task") if int(t) != threading.get_native_id() and waits_for_events(t)]
    for tid in mine:
        os.sched_setaffinity(tid, {cpu})
    try:
        while True:
            yield
    finally:
        for tid in mine:
            os.sched_setaffinity(tid, range(os.cpu_count()))


def left_breakpoint(rank, after=5):
    """A breakpoint was left in the script: the debugger waits for a command at a terminal that nobody looks at."""
    _, terminal = os.openpty()
    while True:
        yield
        after -= 1
        if not after:
            sys.stdin = os.fdopen(terminal, encoding="ascii")
            breakpoint()


def lone_broadcast(rank, after=5):
    """A branch that this rank alone takes: it broadcasts, and the others reduce."""
    nccl, gpu = rank.gpu.nccl, rank.gpu
    nccl.ncclBroadcast.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                   ctypes.c_void_p, ctypes.c_void_p]
    while True:
        yield
        after -= 1
        if not after:
            nccl.ncclBroadcast(gpu.buffer.value, gpu.buffer.value, 1024, 7, 0, gpu.comm, gpu.streams[1])


def exchange(rank, first):
    """Two ranks exchange their samples in each step, over TCP: each sends, and then receives."""
    path, rank.receives_first = os.path.join(rank.dir, f"exchange-{first}"), False
    s = None
    if rank.rank == first:
        listener = socket.create_server(("127.0.0.1", 0))
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(str(listener.getsockname()[1]))
        os.rename(path + ".new", path)
        s = listener.accept()[0]
    elif rank.rank == (first + 1) % rank.world:
        while not os.path.exists(path):
            time.sleep(0.02)
        with open(path, encoding="ascii") as f:
            s = socket.create_connection(("127.0.0.1", int(f.read())))
    while True:
        yield
        if s and rank.receives_first:
            s.recv(4096, socket.MSG_WAITALL)
            s.sendall(bytes(4096))
        elif s:
            s.sendall(bytes(4096))
            s.recv(4096, socket.MSG_WAITALL)


def receive_first(rank):
    """From now on exchange() receives first, and then sends."""
    rank.receives_first = True
    while True:
        yield


def fork_with_lock(rank, after=5):
    """A process is forked while another thread has a lock, which nobody gives back in the new process."""
    guard, held = threading.Lock(), threading.Event()

    def flush_metrics():
        with guard:
            held.set()
            time.sleep(0.2)

    def load():
        with guard:
            pass

    while True:
        yield
        after -= 1
        if not after:
            threading.Thread(target=flush_metrics, name="metrics", daemon=True).start()
            held.wait()
            worker = multiprocessing.get_context("fork").Process(target=load, daemon=True)
            worker.start()
            worker.join()


def large_gradients(rank, times=14):
    """The gradients have so many times the bytes; they are reduced beside the backward pass."""
    usual = rank.gpu.allreduce
    rank.gpu.allreduce = lambda nbytes: usual(times * nbytes)
    while True:
        yield


def no_overlap(rank):
    """The gradients are reduced after the backward pass, and no longer beside it."""
    reduce, join, left = rank.gpu.allreduce, rank.gpu.join_comm, []

    def join_comm():
        while left:
            reduce(left.pop())
        join()

    rank.gpu.allreduce, rank.gpu.join_comm = left.append, join_comm
    try:
        while True:
            yield
    finally:
        join_comm()
        rank.gpu.allreduce, rank.gpu.join_comm = reduce, join


def thread_model(rank, count=16, us=1200, every_ms=40):
    """A thread scores samples with a model of its own, on the stream of the step's kernels."""
    over = threading.Event()

    def score():
        rank.gpu.use_context()
        while not over.wait(every_ms / 1e3):
            for _ in range(count):
                rank.gpu.kernel("teacher_gemm_kernel(float*)", us * 1000, (192, 1, 1))

    thread = threading.Thread(target=score, name="scorer", daemon=True)
    thread.start()
    try:
        while True:
            yield
    finally:
        over.set()
        thread.join()


def halo(rank, path, first, rounds=4):
    """Two ranks exchange the edges of their grids in some rounds, by shared memory; each looks for the other's again and
    again."""
    words, rank.look_s, number = shared_words(path), 0.0001, 0
    me = (rank.rank - first) % rank.world
    while True:
        yield
        for _ in range(rounds if me < 2 else 0):
            number += 1
            words[me] = number
            while words[1 - me] < number:
                time.sleep(rank.look_s)


def look_rarely(rank, ms=7):
    """halo() looks every so many ms only."""
    usual, rank.look_s = rank.look_s, ms / 1e3
    try:
        while True:
            yield
    finally:
        rank.look_s = usual


def merged_pages(rank, mb=96):
    """The kernel merges equal pages of the rank's memory (KSM), and each step writes to them: each is copied again."""
    places = {"run": "1", "sleep_millisecs": "5", "pages_to_scan": "6000"}
    before = {}
    for name, value in places.items():
        with open(f"/sys/kernel/mm/ksm/{name}", "r+", encoding="ascii") as f:
            before[name] = f.read().strip()
            f.seek(0)
            f.write(value)
    size = mb << 20
    m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    m.madvise(15)  # MADV_NOHUGEPAGE
    view = (ctypes.c_char * size).from_buffer(m)
    ctypes.memset(view, 7, size)
    m.madvise(mmap.MADV_MERGEABLE)
    third = 0
    try:
        while True:
            yield
            third = (third + 1) % 3
            ctypes.memset(ctypes.byref(view, third * size // 3), 7, size // 3)
    finally:
        for name, value in before.items():
            with open(f"/sys/kernel/mm/ksm/{name}", "w", encoding="ascii") as f:
                f.write(value)


def gather_rows(rank, every=3, rows=900_000, mb=384):
    """Every third step gathers rows of a table on the host from all over it (NumPy)."""
    import numpy
    table = numpy.zeros((mb << 20 >> 6, 16), dtype=numpy.float32)
    table += 1
    draw = numpy.random.default_rng(rank.rank)
    places = [draw.integers(0, len(table), rows) for _ in range(4)]
    while True:
        step = yield
        if step % every == 0:
            table.take(places[step % 4], axis=0)


# ---- what healthy jobs do, of the same round ----

def dashboard(rank, every_ms=100):
    """Healthy: a thread of rank 0 answers a process that asks for its metrics ten times a second."""
    script = ("import socket, sys, time\n"
              "while True:\n"
              "    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
              "    while s.recv(65536): pass\n"
              f"    time.sleep({every_ms / 1e3})\n")

    def serve(listener):
        while True:
            its = listener.accept()[0]
            its.sendall("".join(f"loss_{i} {i / 7:.6f}\n" for i in range(800)).encode())
            its.close()

    scraper = None
    if rank.rank == 0:
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=serve, args=(listener,), name="metrics-http", daemon=True).start()
        scraper = subprocess.Popen(["/usr/bin/python3", "-c", script, str(listener.getsockname()[1])],
                                   stderr=subprocess.DEVNULL)
    try:
        while True:
            yield
    finally:
        if scraper:
            scraper.kill()


def checkpoint_aside(rank, every=40, copies=150, mb=8):
    """Healthy: every 40 steps all ranks copy their state to the host on a stream of its own, and a thread writes it."""
    gpu, stream, state = rank.gpu, rank.gpu.add_stream(), os.urandom(1 << 20)

    def write():
        with open(os.path.join(rank.dir, f"aside-{rank.rank}"), "wb") as f:
            for _ in range(mb):
                f.write(state)
            f.flush()
            os.fsync(f.fileno())

    while True:
        step = yield
        if step % every == every - 1:
            for _ in range(copies):
                gpu._copy_out(gpu.host, gpu.buffer, 1 << 20, gpu.streams[stream])
            threading.Thread(target=write, name="checkpoint", daemon=True).start()


def samples_in_turn(rank, every=50, rounds=450):
    """Healthy: every 50 steps one of the ranks, each in its turn, writes some samples for people to look at."""
    while True:
        step = yield
        if step % every == every - 1 and step // every % rank.world == rank.rank:
            loop_in_python(rounds)


# ---- a twenty-first round ----

def staged_copies(rank, copies=150):
    """The batch is not in pinned memory: each MB is copied on the host first, and its copy to the device waited for."""
    batch, staging = ctypes.create_string_buffer(1 << 20), rank.gpu.host
    ctypes.memset(batch, 1, 1 << 20)
    while True:
        yield
        for _ in range(copies):
            ctypes.memmove(staging, batch, 1 << 20)
            rank.gpu.copy_in(1 << 20)
            rank.gpu.synchronize()


def zero_gradients(rank, count=24, gb=1):
    """The gradients are set to zero by memset in each step, and no longer dropped (set_to_none=False)."""
    gpu, at = rank.gpu, ctypes.c_uint64()
    gpu._alloc(ctypes.byref(at), ctypes.c_size_t(gb << 30))
    clear = gpu.cuda.cuMemsetD8Async
    clear.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
    while True:
        yield
        for _ in range(count):
            clear(at, 0, gb << 30, gpu.streams[0])


def copy_history(rank, more=6):
    """The losses of all steps stay on the device, and each step copies all of them to the host to plot them."""
    count = 0
    while True:
        yield
        count += more
        for _ in range(count):
            rank.gpu.copy_out(1 << 20)


def keep_average(rank, layers=8, us=2400):
    """An average of the weights is kept by kernels of its own (EMA)."""
    while True:
        yield
        for _ in range(layers):
            rank.kernel("ema_update_kernel(float*, float const*, float)", us, (640, 1, 1), (512, 1, 1))


def normalize_text(rank, words=66_000):
    """The texts of a batch are brought to one form of Unicode."""
    text = "Ĉar naïve façade – ½ ﬁnal Ångström Việt " * (words // 6)
    while True:
        yield
        for form in ("NFKD", "NFKC"):
            unicodedata.normalize(form, text)


def warn_often(rank, count=5000):
    """A deprecated function warns at each of its calls: somebody switched all warnings on, and they go to a file."""
    def old_api(sample):
        warnings.warn(f"sample {sample}: old_api() is deprecated, call new_api()", DeprecationWarning, stacklevel=2)
        return sample

    with open(os.path.join(rank.dir, f"warnings-{rank.rank}"), "w", encoding="ascii") as log, warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *what: log.write(warnings.formatwarning(*what[:4]))
        while True:
            yield
            for sample in range(count):
                old_api(sample)


def weighted_samples(rank, every=3, samples=1_500_000, batch=4096):
    """A sampler draws the next batches by the weights of all samples (torch.multinomial)."""
    import torch
    torch.set_num_threads(1)
    weights = torch.rand(samples)
    while True:
        step = yield
        if step % every == 0:
            torch.multinomial(weights, batch)


def tracker_lock(rank, mb=2, times=24):
    """An experiment tracker's thread syncs its journal under the lock that the step needs to add a metric."""
    guard, over, block = threading.Lock(), threading.Event(), os.urandom(1 << 20)

    def flush_journal():
        with open(os.path.join(rank.dir, f"journal-{rank.rank}"), "wb", buffering=0) as f:
            while not over.wait(0.01):
                with guard:
                    for _ in range(times):
                        f.seek(0)
                        for _ in range(mb):
                            f.write(block)
                        os.fsync(f.fileno())

    thread = threading.Thread(target=flush_journal, name="tracker", daemon=True)
    thread.start()
    try:
        while True:
            yield
            with guard:
                pass
    finally:
        over.set()
        thread.join()


def watch_network(rank, times=5):
    """A callback writes down which network devices are up, and how fast (psutil), some times in each step."""
    import psutil
    while True:
        yield
        for _ in range(times):
            psutil.net_if_stats()


def many_tensors(rank, tensors=60):
    """A data loader's worker gives each batch as many little tensors, each in shared memory of its own."""
    import torch
    torch.set_num_threads(1)

    class Ragged(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                yield [torch.zeros(4) for _ in range(tensors)]

    batches = iter(torch.utils.data.DataLoader(Ragged(), batch_size=None, num_workers=1, prefetch_factor=2))
    while True:
        yield
        next(batches)


def kept_pipe(rank, ms=35):
    """Runs a program whose own child keeps its output open, and reads this output to its end."""
    while True:
        yield
        subprocess.run(["/bin/sh", "-c", f"sleep {ms / 1e3} & echo started"], check=True, capture_output=True)


def nice_yield(rank, times=10):
    """A library gives the CPU to others between its pieces of work (sched_yield)."""
    packs = rank.packs_in(0.2)
    while True:
        yield
        for _ in range(times):
            rank.pack_batch(packs)
            os.sched_yield()


def expect_continue(rank, ms=30):
    """A client asks whether it may send its data (Expect: 100-continue), and the server says nothing before it has it."""
    script = ("import socket\n"
              "s = socket.create_server(('127.0.0.1', 0))\n"
              "print(s.getsockname()[1], flush=True)\n"
              "its = s.accept()[0]\n"
              "while True:\n"
              "    text = b''\n"
              "    while not text.endswith(b'end'):\n"
              "        text += its.recv(65536)\n"
              "    its.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n')\n")
    server = subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE)
    s = socket.create_connection(("127.0.0.1", int(server.stdout.readline())))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            yield
            s.sendall(b"PUT /metrics HTTP/1.1\r\nHost: store\r\nContent-Length: 4003\r\nExpect: 100-continue\r\n\r\n")
            select.select([s], [], [], ms / 1e3)
            s.sendall(bytes(4000) + b"end")
            s.recv(4096)
    finally:
        s.close()
        server.kill()
        server.wait()


def net_connections(rank, every=2, sockets=9000):
    """A callback reads which connections there are, and nobody closed 9,000 of them (a network of its own)."""
    libc, before = ctypes.CDLL(None, use_errno=True), os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(0x40000000):  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare")
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
    held = []
    for i in range(sockets):
        held.append(socket.socket())
        held[-1].bind((f"127.0.{i >> 8}.{i & 255 or 1}", 20_000 + i))
        held[-1].listen(1)
    try:
        while True:
            step = yield
            if step % every == 0:
                with open("/proc/thread-self/net/tcp", "rb", buffering=0) as f:
                    while f.read(65536):
                        pass
    finally:
        for s in held:
            s.close()
        libc.setns(before, 0)


def store_board(rank, count=2):
    """Each step of all ranks adds to counters in torch's TCPStore, which a thread of rank 0 serves."""
    import torch.distributed
    path, rank.board_count = os.path.join(rank.dir, "board-port"), count
    if rank.rank == 0:
        store = torch.distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(str(store.port))
        os.rename(path + ".new", path)
    else:
        while not os.path.exists(path):
            time.sleep(0.02)
        with open(path, encoding="ascii") as f:
            store = torch.distributed.TCPStore("127.0.0.1", int(f.read()), None, False)
    while True:
        yield
        for i in range(rank.board_count):
            store.add(f"{rank.rank}/{i % 16}", 1)


def store_flood(rank, count=300):
    """store_board() has many counters now."""
    usual, rank.board_count = rank.board_count, count
    try:
        while True:
            yield
    finally:
        rank.board_count = usual


def shared_db(rank, path, ms=6):
    """All ranks put their metrics into one SQLite database: one has it, and the others ask again after a pause."""
    packs = rank.packs_in(float(ms))
    base = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    base.execute("pragma synchronous = off")
    base.execute("create table if not exists metric (step, name, value)")
    try:
        while True:
            step = yield
            base.execute("begin immediate")
            base.execute("insert into metric values (?, 'loss', 0.5)", (step,))
            rank.pack_batch(packs)
            base.execute("commit")
    finally:
        base.close()


def pausing_server(rank, pause_ms=450, every_ms=2500, questions=3):
    """A feature store whose garbage collector stops it now and then; each step asks it some questions."""
    ours = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if not pid:
        its = ours.accept()[0]
        while its.recv(1):
            phase = time.monotonic() * 1e3 % every_ms
            if phase < pause_ms:
                time.sleep((pause_ms - phase) / 1e3)
            its.sendall(b"a")
        os._exit(0)
    s = socket.create_connection(ours.getsockname())
    ours.close()
    try:
        while True:
            yield
            for _ in range(questions):
                s.sendall(b"q")
                s.recv(1)
    finally:
        s.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def expired_cache(rank, every=11, entries=90_000):
    """What the rank remembers about its samples expires every eleventh step, and is computed again in Python."""
    @functools.lru_cache(maxsize=None)
    def bucket(length):
        return next(b for b in (16, 64, 256, 1024, 4096, 1 << 20) if length * 7 % 5000 < b)

    while True:
        step = yield
        if step % every == 0:
            bucket.cache_clear()
        for length in range(entries):
            if step % every:
                break
            bucket(length)


def prune_cache(rank, every=3, files=1200):
    """Every third step removes a directory of small files that a process of the rank's own has filled."""
    top = os.path.join(rank.dir, f"pruned-{rank.rank}")
    os.makedirs(top, exist_ok=True)
    go, its = multiprocessing.Pipe()

    def fill():
        number = 0
        while its.recv():
            path = os.path.join(top, f"new-{number}")
            os.mkdir(path)
            for i in range(files):
                with open(os.path.join(path, str(i)), "wb") as f:
                    f.write(b"x" * 600)
            os.rename(path, os.path.join(top, str(number)))
            number += 1

    with beside(multiprocessing.get_context("fork"), fill):
        for _ in range(3):
            go.send(True)
        oldest = 0
        while True:
            step = yield
            path = os.path.join(top, str(oldest))
            if step % every == 0 and os.path.exists(path):
                shutil.rmtree(path)
                oldest += 1
                go.send(True)


def parallel_reads(rank, path, threads=4, reads=2):
    """Threads of a pool read the step's samples from a file system that a server holds, and the step waits for all."""
    fd = os.open(path, os.O_RDONLY)

    def read(part):
        for i in range(reads):
            os.pread(fd, 16 << 10, (part * reads + i) << 14)

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                yield
                list(pool.map(read, range(threads)))
        finally:
            os.close(fd)


def wrong_source(rank, after=5):
    """The rank waits for a message of a rank that has none for it, on the host (gloo)."""
    while True:
        yield
        after -= 1
        if not after:
            rank.gloo.recv(rank.tensor, src=(rank.rank + 1) % rank.world, tag=7)


def kept_gil(rank, after=5):
    """A library waits for its licence server at a pipe, in a thread, and its binding keeps the GIL: for ever."""
    ours, _ = os.pipe()
    buffer = ctypes.create_string_buffer(1)
    while True:
        yield
        after -= 1
        if not after:
            threading.Thread(target=ctypes.PyDLL(None).read, args=(ours, buffer, 1), name="licence", daemon=True).start()


def coordinator_gone(rank, path, after=5):
    """All ranks look for the plan of the next epoch, which a coordinator that is gone should have written."""
    while True:
        yield
        after -= 1
        while after <= 0 and not os.path.exists(path):
            time.sleep(0.5)


# ---- what healthy jobs do, of the same round ----

def program_aside(rank, every_s=2):
    """Healthy: a thread of each rank runs a program every two seconds, as to ask for the GPU's state; no step waits."""
    def ask():
        while True:
            time.sleep(every_s)
            subprocess.run(["/bin/sh", "-c", "sleep 0.3; cat /proc/loadavg"], check=True, capture_output=True)

    threading.Thread(target=ask, name="gpu-state", daemon=True).start()
    while True:
        yield


def move_experts(rank, every=70, copies=400):
    """Healthy: every 70 steps all ranks exchange their experts: copies and collectives, planned anew in Python."""
    while True:
        step = yield
        if step % every == every - 1:
            loop_in_python(300)
            for _ in range(copies):
                rank.gpu.copy_out(1 << 20)
            for _ in range(6):
                rank.gpu.allreduce(256 << 20)
            rank.gpu.join_comm()


def upload_aside(rank, every_s=4, mb=48):
    """Healthy: a thread of rank 0 sends its last checkpoint to a slow store, over TCP; no step waits for it."""
    def send(s):
        block = bytes(1 << 20)
        while True:
            for _ in range(mb):
                s.sendall(block)
            time.sleep(every_s)

    if rank.rank == 0:
        ours = socket.create_server(("127.0.0.1", 0))
        if not os.fork():
            its = ours.accept()[0]
            while its.recv(64 << 10):
                time.sleep(0.002)
            os._exit(0)
        s = socket.create_connection(ours.getsockname())
        ours.close()
        threading.Thread(target=send, args=(s,), name="upload", daemon=True).start()
    while True:
        yield


def parse(text):
    """("sleep", {"every": 3, "ms": 30}, "start") of "sleep every=3 ms=30 [at=copied]"."""
    name, *parts = text.split()
    values = dict(p.split("=", 1) for p in parts)
    at = values.pop("at", "start")
    return name, {k: int(v) if v.lstrip("-").isdigit() else v for k, v in values.items()}, at


class Faults:
    """Those that are on."""

    def __init__(self, rank):
        self.rank, self.on = rank, []  # (point, name, generator)

    def start(self, text):
        name, values, at = parse(text)
        generator = globals()[name](self.rank, **values)
        next(generator)
        self.on.append((at, name, generator))

    def end(self, name):
        for entry in [e for e in self.on if e[1] == name]:
            self.on.remove(entry)
            entry[2].close()

    def at(self, point, step):
        for where, _, generator in self.on:
            if where == point:
                generator.send(step)
