#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sp_peer.py PORT UID CONNECTIONS FILE - as another user, who is a sender of its own, sends messages to an aggregator
from as many addresses of loopback as it has connections.

FILE: messages, each behind its length (aggregator_client write). Connection i sends every message whose
number is i modulo CONNECTIONS, the next one when the one before is answered; with more connections than
messages they all send the first ones again. Prints how many were answered.
"""
import os
import socket
import struct
import sys
import threading

GREETING = b"\0SP\0\0\x30\0\0"


def receive(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise ConnectionError("hung up")
        data += more
    return data


def connection(port, number, messages, answered):
    s = socket.socket()
    try:
        s.bind((f"127.1.{number >> 8}.{number % 255 + 1}", 0))
        s.connect(("127.0.0.1", port))
        s.sendall(GREETING)
        receive(s, len(GREETING))
        for m in messages:
            s.sendall(struct.pack(">QI", len(m) + 4, 0x80000001) + m)
            receive(s, struct.unpack(">Q", receive(s, 8))[0])
            answered.append(1)
    except OSError:
        pass
    s.close()


def main():
    port, uid, count = (int(a) for a in sys.argv[1:4])
    messages, answered = [], []
    with open(sys.argv[4], "rb") as f:
        while head := f.read(4):
            messages.append(f.read(struct.unpack("<I", head)[0]))
    os.setgroups([])
    os.setresuid(uid, uid, uid)
    threads = [threading.Thread(target=connection, args=(port, i, messages[i::count] or
                                                         [messages[i % len(messages)]], answered))
               for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"answered={len(answered)}")


if __name__ == "__main__":
    main()
