#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Between a sysomd and an aggregator, a later version of the wire: newer_node.py PORT AGGREGATOR_PORT FILE.

Passes SP over TCP on in both directions. While FILE exists, each request says the version after its own; while
FILE.answers does, each answer."""
import os
import socket
import struct
import sys
import threading

from sp_peer import receive

VERSION_AT = 4 + 1  # behind the request's id and the field's tag


def frames(source, target, bend):
    try:
        target.sendall(receive(source, 8))  # the greeting
        while True:
            (length,) = struct.unpack(">Q", receive(source, 8))
            body = bytearray(receive(source, length))
            if os.path.exists(bend):
                body[VERSION_AT] += 1
            target.sendall(struct.pack(">Q", length) + body)
    except OSError:
        pass
    for s in (source, target):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(16)
while True:
    node, _ = listener.accept()
    aggregator = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    for a, b, bend in ((node, aggregator, sys.argv[3]), (aggregator, node, sys.argv[3] + ".answers")):
        threading.Thread(target=frames, args=(a, b, bend), daemon=True).start()
