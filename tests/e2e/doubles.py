#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doubles.py - whether a reader that keeps numbers as doubles, as JavaScript and jq do, reads what was written.
Standard input: JSON values. Exit 0 if it does, else 1 with what it would lose."""
import json
import subprocess
import sys

text = sys.stdin.read()
lost, values, at = [], [], 0


def integer(digits):
    if abs(int(digits)) > 2 ** 53:
        lost.append(digits)
    return int(digits)


decoder = json.JSONDecoder(parse_int=integer)
while at < len(text.rstrip()):
    value, at = decoder.raw_decode(text, at)
    values.append(value)
    at += len(text[at:]) - len(text[at:].lstrip())
# +0: what is only passed on keeps its digits in newer versions of jq
passed = subprocess.run(["jq", "-c", 'walk(if type == "number" then . + 0 else . end)'], input=text, text=True,
                        stdout=subprocess.PIPE, check=True).stdout
if [json.loads(line) for line in passed.splitlines()] != values:
    lost.append("jq returns something else")
if lost or not values:
    sys.exit(f"# {len(values)} values; lost: {', '.join(lost[:5])}")
