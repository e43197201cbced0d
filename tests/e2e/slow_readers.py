#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slow_readers.py PORT CONNECTIONS PATH - HTTP clients that ask much and read little.

Each connection asks for PATH 200 times and takes 8 KiB of the answers every second, so that none is silent. The next
one is opened when the first answer comes, or nothing has come for a second. One that is hung up is opened again. Prints
a line when all were opened once.
"""
import select
import socket
import sys
import time

PORT, COUNT, PATH = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
ASK = f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 200
wait_s = 1


def open_one():
    global wait_s
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(1)
    try:
        s.connect(("127.0.0.1", PORT))
        s.send(ASK)
    except OSError:
        pass
    s.setblocking(False)
    if not select.select([s], [], [], wait_s)[0]:
        wait_s = 0  # no place is left
    return s


def is_open(s):
    try:
        return bool(s.recv(8192))
    except BlockingIOError:
        return True
    except OSError:
        return False


held = [open_one() for _ in range(COUNT)]
print("asked", flush=True)
while True:
    for i, s in enumerate(held):
        if not is_open(s):
            s.close()
            held[i] = open_one()
    time.sleep(1)
