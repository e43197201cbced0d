# SPDX-License-Identifier: Apache-2.0
"""A storage server for rank_victim.py --loader worker: hands out blocks over a Unix socket, to the rank
that DIR/slow names ("RANK MILLISECONDS") each after that much longer.

    storage_server.py DIR
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


def main():
    directory = sys.argv[1]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.join(directory, "storage.sock"))
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(directory, connection), daemon=True).start()


main()
