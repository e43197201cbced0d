# SPDX-License-Identifier: Apache-2.0
"""A storage server for the ranks: hands out blocks over a Unix socket and over TCP, to the rank that DIR/slow
names ("RANK MILLISECONDS") each after that much longer.

    storage_server.py DIR PORT
"""
import os
import socket
import sys
import threading
import time

BLOCK = b"\0" * (64 << 10)


def delay_of(directory, rank):
    try:
        with open(os.path.join(directory, "slow"), encoding="ascii") as f:
            who, ms = f.read().split()
        return float(ms) / 1e3 if int(who) == rank else 0
    except (OSError, ValueError):
        return 0


def serve(directory, connection):
    rank = connection.recv(1)[0]
    while connection.recv(1):
        time.sleep(delay_of(directory, rank))
        connection.sendall(BLOCK)


def accept(directory, listener):
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(directory, connection), daemon=True).start()


def main():
    directory, port = sys.argv[1], int(sys.argv[2])
    tcp = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=accept, args=(directory, tcp), daemon=True).start()
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(os.path.join(directory, "storage.sock"))
    accept(directory, unix)


main()
