#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether standard input is sound in the text format of Prometheus: it parses, every family has HELP and TYPE once, no
series comes twice, counters end with _total, and units are base units."""
import sys

from prometheus_client.parser import text_string_to_metric_families

text = sys.stdin.read()
seen, faults = set(), []
heads = [line.split()[1:3] for line in text.splitlines() if line.startswith("# ")]
faults += [f"{h} comes twice" for h in {tuple(h) for h in heads if heads.count(h) > 1}]
for family in text_string_to_metric_families(text):
    if not family.documentation or family.type not in ("counter", "gauge"):
        faults.append(f"{family.name}: no HELP, or TYPE {family.type}")
    if family.name.endswith(("_ms", "_ns", "_us", "_mb", "_kb", "_milliseconds", "_percent")):
        faults.append(f"{family.name}: not a base unit")
    for s in family.samples:
        key = (s.name, tuple(sorted(s.labels.items())))
        if key in seen:
            faults.append(f"{key} comes twice")
        seen.add(key)
        if (family.type == "counter") != s.name.endswith("_total"):
            faults.append(f"{s.name}: {family.type}")
for fault in faults:
    print("#", fault)
sys.exit(bool(faults) or not seen)
