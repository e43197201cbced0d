#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tls_peer.py PORT CERT KEY CA FILE - sends messages (aggregator_client write) to an aggregator in TLS; prints how many were
answered, and how many of these were refused."""
import socket
import ssl
import struct
import sys

from sp_peer import GREETING, receive

port, cert, key, ca, path = sys.argv[1:6]
context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca)
context.load_cert_chain(cert, key)
s = context.wrap_socket(socket.create_connection(("127.0.0.1", int(port))), server_hostname="localhost")
s.sendall(GREETING)
receive(s, len(GREETING))
answered = refused = 0
with open(path, "rb") as f:
    while head := f.read(4):
        message = f.read(struct.unpack("<I", head)[0])
        s.sendall(struct.pack(">QI", len(message) + 4, 0x80000001) + message)
        answer = receive(s, struct.unpack(">Q", receive(s, 8))[0])
        answered += 1
        refused += b"not its certificate" in answer
print(f"answered={answered} refused={refused}")
