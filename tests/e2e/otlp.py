#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a page of Prometheus' metrics and decoded OTLP requests (a JSON line each) are of the same metrics: each series
of the page, with its labels and type, is a data point, and the other way round. Values may have moved on, but those of
counters not backwards.

    otlp.py PAGE REQUESTS SERVICE
"""
import json
import sys

from prometheus_client.parser import text_string_to_metric_families

page, requests, service = sys.argv[1:]
faults = []
want = {}
with open(page, encoding="utf-8") as f:
    for family in text_string_to_metric_families(f.read()):
        for s in family.samples:
            want[s.name, tuple(sorted(s.labels.items()))] = (family.type, family.documentation, s.value)

got = {}
latest = {}
with open(requests, encoding="utf-8") as f:
    for line in f:
        for rm in json.loads(line)["resourceMetrics"]:
            resource = {a["key"]: a["value"]["stringValue"] for a in rm["resource"]["attributes"]}
            if resource["service.name"] == service:
                at = rm["scopeMetrics"][0]["metrics"][0]
                data = at.get("gauge") or at.get("sum")
                latest.setdefault(data["dataPoints"][0]["timeUnixNano"], []).append((resource, rm))
for resource, rm in latest[max(latest)]:
    faults += [f"no {k}" for k in ("service.version", "host.name", "service.instance.id") if not resource.get(k)]
    for m in rm["scopeMetrics"][0]["metrics"]:
        data, kind = (m["sum"], "counter") if "sum" in m else (m["gauge"], "gauge")
        if kind == "counter" and not (data["isMonotonic"] and
                                      data["aggregationTemporality"] == "AGGREGATION_TEMPORALITY_CUMULATIVE"):
            faults.append(f"{m['name']}: not a cumulative, monotonic sum")
        for p in data["dataPoints"]:
            labels = tuple(sorted((a["key"], a["value"]["stringValue"]) for a in p.get("attributes", [])))
            if (m["name"], labels) in got:
                faults.append(f"{m['name']} {labels} comes twice")
            got[m["name"], labels] = (kind, m["description"], p["asDouble"])
            if kind == "counter" and not 0 < int(p["startTimeUnixNano"]) <= int(p["timeUnixNano"]):
                faults.append(f"{m['name']}: starts at {p['startTimeUnixNano']}")

for key in want.keys() - got.keys():
    faults.append(f"not sent: {key}")
for key in got.keys() - want.keys():
    faults.append(f"only sent: {key}")
for key in want.keys() & got.keys():
    if want[key][:2] != got[key][:2]:
        faults.append(f"{key}: {want[key][:2]} became {got[key][:2]}")
    elif want[key][0] == "counter" and got[key][2] < want[key][2]:
        faults.append(f"{key}: {want[key][2]} on the page, {got[key][2]} sent later")
for fault in sorted(faults)[:20]:
    print("#", fault)
print(f"# {len(want)} series, {len(latest[max(latest)])} requests", file=sys.stderr)
sys.exit(bool(faults) or not want)
