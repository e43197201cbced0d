# SPDX-License-Identifier: Apache-2.0
"""A process that imports much and nothing of a catalogue: what it can see of itself."""
import _ctypes
import _json
import gc
import os
import sqlite3
import sys
import threading

with open("/proc/self/status", encoding="ascii") as f:
    status = dict(line.split(":", 1) for line in f)
print(status["Threads"].strip(), sorted(map(int, os.listdir("/proc/self/fd"))), threading.active_count(), gc.callbacks,
      getattr(sys, "monitoring", None) and [sys.monitoring.get_tool(i) for i in range(6)], sqlite3.sqlite_version,
      _json.__name__, _ctypes.__name__)
