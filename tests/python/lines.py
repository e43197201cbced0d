#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Line tables and what the interpreter reads in them: `C minor first table`, then per stretch of the
bytecode `L begin end line` (0: none), then `.`; of many code objects of the standard library."""
import argparse
import ast
import asyncio.base_events
import decimal
import inspect
import json.decoder
import subprocess
import sys
import threading
import types
import typing
import unittest.mock

SEEN = set()


def show(code):
    if code in SEEN:
        return
    SEEN.add(code)
    print("C", sys.version_info[1], code.co_firstlineno, code.co_linetable.hex() or "-")
    for begin, end, line in code.co_lines():
        print("L", begin, end, line or 0)
    print(".")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            show(constant)


def main():
    for module in (argparse, ast, asyncio.base_events, decimal, inspect, json.decoder, subprocess,
                   threading, typing, unittest.mock):
        path = module.__file__
        with open(path, encoding="utf-8") as f:
            show(compile(f.read(), path, "exec"))
    lines = ["def f(x):"] + ["    x(" + "\n" * 300 + "1)"] * 40 + ["    return [", " x for x in", " x]"]
    show(compile("\n".join(lines), "<made up>", "exec"))


main()
