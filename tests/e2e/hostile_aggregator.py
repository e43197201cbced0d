#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Something at the aggregator's address that is none: hostile_aggregator.py PORT HOW.

Speaks as much of SP over TCP as it takes. Prints one line per connection and request; ends when it is killed.
  silent   accepts and says nothing
  garbage  greets, then sends random bytes
  half     answers every request with a length and a part of the answer
  huge     announces an answer of an exabyte
  close    greets, takes a request and hangs up
  random   answers every request with a whole message of random bytes
"""
import os
import socket
import struct
import sys
import threading
import time

from sp_peer import receive

GREETING = b"\0SP\0\0\x31\0\0"


def answer(s, how, head):
    if how == "half":
        s.sendall(struct.pack(">Q", 1000) + head + b"x" * 10)
    elif how == "huge":
        s.sendall(struct.pack(">Q", 1 << 60) + head)
    elif how == "random":
        s.sendall(struct.pack(">Q", 104) + head + os.urandom(100))
    else:
        raise OSError("enough")


def serve(s, how):
    print("connection", flush=True)
    try:
        if how == "silent":
            time.sleep(1000)
        s.sendall(GREETING)
        receive(s, 8)
        if how == "garbage":
            s.sendall(os.urandom(100000))
        while True:
            (length,) = struct.unpack(">Q", receive(s, 8))
            head = receive(s, length)[:4]
            print("request", length, flush=True)
            answer(s, how, head)
    except OSError:
        pass
    s.close()


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(64)
while True:
    peer, _ = listener.accept()
    threading.Thread(target=serve, args=(peer, sys.argv[2]), daemon=True).start()
