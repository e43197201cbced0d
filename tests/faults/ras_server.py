#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers as NCCL's RAS service does: ras_server.py PORT MODE-FILE. The file is read at each connection: a JSON status
to send ("late" before it: 8 s later), or one of the words text (of a version without JSON), http, silent, flood,
close."""
import socketserver
import sys
import time

TEXT = """NCCL version 2.26.2 compiled with CUDA 12.6

Errors
======

#0-0 (fa93daea854b060b) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 1 -- GPU 1 managed by process 7 on node 10.0.0.1
"""


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        with open(sys.argv[2], encoding="utf-8") as f:
            mode = f.read().strip()
        hello = self.rfile.readline()
        if mode == "http":
            self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return
        if mode == "silent":
            time.sleep(30)
            return
        if not hello.startswith(b"CLIENT PROTOCOL "):
            return
        self.wfile.write(b"SERVER PROTOCOL 2\n")
        if self.rfile.readline() != b"SET FORMAT json\n":
            return
        self.wfile.write(b"ERROR: unknown command\n" if mode == "text" else b"OK\n")
        if self.rfile.readline() != b"STATUS\n" or mode == "close":
            return
        if mode == "flood":
            while True:
                self.wfile.write(b'{"communicators": [' + b"[" * 65536)
        if mode.startswith("late"):
            time.sleep(8)
        self.wfile.write((TEXT if mode == "text" else mode.removeprefix("late")).encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that went away


with Server(("127.0.0.1", int(sys.argv[1])), Client) as server:
    server.serve_forever()
