#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana dashboards deploy/grafana/*.json from the table below.

With --check nothing is written: exit status 1 where a file would change."""
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

JOB = 'job_name=~"$job_name"'
RANK = JOB + ',rank=~"$rank"'
NODE = 'job="sysomd",instance=~"$instance"'
AGGREGATOR = 'job="sysom-aggregator"'

# Dashboard: title, variables as (name, query), panels. Panel: title, unit of Grafana, (query, legend) of each line.
# The unit "table" makes a table of the labels of now.
DASHBOARDS = {
    "fleet": ("sysom: fleet and jobs", [("job_name", "label_values(sysom_rank_info, job_name)")], [
        ("Open incidents", "table", [(f"sysom_incident_open{{{JOB}}}", "")]),
        ("GPU time lost to open incidents", "s",
         [(f"sysom_incident_lost_gpu_seconds{{{JOB}}}", "{{job_name}} {{incident}}")]),
        ("Suspected ranks", "none", [(f"sum by (job_name) (sysom_rank_suspect{{{JOB}}})", "{{job_name}}")]),
        ("Largest excess of self time over the peers", "s",
         [(f"max by (job_name) (sysom_rank_self_excess_seconds{{{JOB}}})", "{{job_name}}")]),
        ("Step time, median of the ranks", "s",
         [(f"quantile by (job_name) (0.5, sysom_rank_step_seconds{{{JOB}}})", "{{job_name}}")]),
        ("Ranks and nodes that report", "none",
         [(f'sysom_aggregator_ranks{{{AGGREGATOR},alive="yes"}}', "ranks"),
          (f'sysom_aggregator_nodes{{{AGGREGATOR},alive="yes"}}', "nodes")]),
        ("Findings", "none",
         [(f"increase(sysom_aggregator_detected_total{{{AGGREGATOR}}}[$__rate_interval])", "{{kind}}")]),
        ("Windows received", "none",
         [(f"increase(sysom_aggregator_windows_total{{{AGGREGATOR}}}[$__rate_interval])", "{{status}}")]),
        ("Store", "bytes", [(f"sysom_aggregator_store_bytes{{{AGGREGATOR}}}", "{{instance}}")]),
        ("Versions", "table", [("sysom_build_info", "")]),
    ]),
    "rank": ("sysom: ranks of a job", [("job_name", "label_values(sysom_rank_info, job_name)"),
                                       ("rank", 'label_values(sysom_rank_info{job_name=~"$job_name"}, rank)')], [
        ("Step time", "s", [(f"sysom_rank_step_seconds{{{RANK}}}", "rank {{rank}}")]),
        ("Step time over the expected one", "percentunit",
         [(f"sysom_rank_step_seconds{{{RANK}}} / sysom_rank_expected_step_seconds{{{RANK}}} - 1", "rank {{rank}}")]),
        ("Excess of self time over the peers", "s",
         [(f"sysom_rank_self_excess_seconds{{{RANK}}}", "rank {{rank}}")]),
        ("Suspected", "bool", [(f"sysom_rank_suspect{{{RANK}}}", "rank {{rank}}")]),
        ("Steps", "none", [(f"rate(sysom_rank_steps_total{{{RANK}}}[$__rate_interval])", "rank {{rank}}, each second")]),
        ("Flagged steps", "percentunit",
         [(f"rate(sysom_rank_flagged_steps_total{{{RANK}}}[$__rate_interval]) / "
           f"rate(sysom_rank_steps_total{{{RANK}}}[$__rate_interval])", "rank {{rank}}")]),
        ("Lost events", "none",
         [(f"sum by (job_name, rank) (increase(sysom_rank_lost_total{{{RANK}}}[$__rate_interval])) or "
           f"0 * max by (job_name, rank) (sysom_rank_steps_total{{{RANK}}})", "rank {{rank}}")]),
        ("Traced events", "none",
         [(f"rate(sysom_rank_events_total{{{RANK}}}[$__rate_interval])", "rank {{rank}}, each second")]),
        ("Where the ranks run", "table", [(f"sysom_rank_info{{{RANK}}}", "")]),
    ]),
    "host": ("sysom: hosts and GPUs", [("instance", 'label_values(sysom_build_info{job="sysomd"}, instance)')], [
        ("GPU clock", "hertz", [(f"sysom_gpu_sm_clock_hertz{{{NODE}}}", "{{instance}} GPU {{gpu}}")]),
        ("GPU clock held down", "bool",
         [(f"sysom_gpu_throttled{{{NODE}}}", "{{instance}} GPU {{gpu}} {{reason}}")]),
        ("GPU temperature", "celsius", [(f"sysom_gpu_temperature_celsius{{{NODE}}}", "{{instance}} GPU {{gpu}}")]),
        ("GPU power", "watt", [(f"sysom_gpu_power_watts{{{NODE}}}", "{{instance}} GPU {{gpu}}")]),
        ("Uncorrected ECC errors", "none",
         [(f"increase(sysom_gpu_ecc_uncorrected_total{{{NODE}}}[$__rate_interval])", "{{instance}} GPU {{gpu}}")]),
        ("XID errors", "none",
         [(f"increase(sysom_gpu_xid_total{{{NODE}}}[$__rate_interval])", "{{instance}} GPU {{gpu}}")]),
        ("Machine stood still", "percentunit",
         [(f"rate(sysom_host_stall_seconds_total{{{NODE}}}[$__rate_interval])", "{{instance}}")]),
        ("Processor time stolen by the hypervisor", "percentunit",
         [(f"rate(sysom_host_stolen_seconds_total{{{NODE}}}[$__rate_interval])", "{{instance}}")]),
        ("CPU time of sysomd", "percentunit", [(f"sysom_own_cpu_share{{{NODE}}}", "{{instance}}")]),
        ("Memory of sysomd", "bytes", [(f"sysom_own_resident_bytes{{{NODE}}}", "{{instance}}")]),
        ("How far back a window can reach", "s", [(f"sysom_recorder_retention_seconds{{{NODE}}}", "{{instance}}")]),
        ("Connected to the aggregator", "bool", [(f"sysom_uplink_connected{{{NODE}}}", "{{instance}}")]),
        ("Waiting for the aggregator", "bytes", [(f"sysom_spool_bytes{{{NODE}}}", "{{instance}}")]),
        ("Lost windows", "none",
         [(f"increase(sysom_uplink_windows_dropped_total{{{NODE}}}[$__rate_interval])", "{{instance}}")]),
    ]),
    "serving": ("sysom: requests and links", [("job_name", "label_values(sysom_rank_info, job_name)")], [
        ("Requests now", "none", [(f"sum by (job_name, state) (sysom_job_requests{{{JOB}}})", "{{job_name}} {{state}}")]),
        ("Requests that ended, each second", "none",
         [(f"sum by (job_name, result) (rate(sysom_requests_total{{{JOB}}}[$__rate_interval]))", "{{job_name}} {{result}}")]),
        ("Time to first token", "s",
         [(f'sysom_job_request_seconds{{{JOB},objective="ttft"}}', "{{job_name}} {{quantile}}")]),
        ("Time per output token", "s",
         [(f'sysom_job_request_seconds{{{JOB},objective="tpot"}}', "{{job_name}} {{quantile}}")]),
        ("Requests that missed an objective, each second", "none",
         [(f"rate(sysom_job_request_violations_total{{{JOB}}}[$__rate_interval])", "{{job_name}} {{objective}}")]),
        ("Open incidents of requests", "table", [(f'sysom_incident_open{{{JOB},symptom="slow_requests"}}', "")]),
        ("Bus bandwidth of collectives between nodes", "Bps",
         [(f"rate(sysom_collective_bytes_total{{{JOB}}}[$__rate_interval]) / "
           f"rate(sysom_collective_seconds_total{{{JOB}}}[$__rate_interval])", "{{job_name}} rank {{rank}} {{function}}")]),
        ("Collectives between nodes, each second", "none",
         [(f"rate(sysom_collectives_total{{{JOB}}}[$__rate_interval])", "{{job_name}} rank {{rank}} {{function}}")]),
        ("Rate of links while they send", "Bps",
         [(f"rate(sysom_link_bytes_total{{{JOB}}}[$__rate_interval]) / "
           f"rate(sysom_link_seconds_total{{{JOB}}}[$__rate_interval])", "{{job_name}} rank {{rank}} to {{to}}")]),
        ("Time per transfer", "s",
         [(f"rate(sysom_link_seconds_total{{{JOB}}}[$__rate_interval]) / "
           f"rate(sysom_link_transfers_total{{{JOB}}}[$__rate_interval])", "{{job_name}} rank {{rank}} to {{to}}")]),
    ]),
}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def variable(name, query):
    return {"name": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name},
            "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": "All", "value": "$__all"}}


def panel(number, title, unit, queries):
    table = unit == "table"
    targets = [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expr, "legendFormat": legend,
                "instant": table, "range": not table, "format": "table" if table else "time_series"}
               for i, (expr, legend) in enumerate(queries)]
    return {"id": number + 1, "title": title, "type": "table" if table else "timeseries", "datasource": SOURCE,
            "gridPos": {"x": number % 2 * 12, "y": number // 2 * 8, "w": 12, "h": 8},
            "fieldConfig": {"defaults": {} if table else {"unit": unit}, "overrides": []}, "targets": targets}


def dashboard(name):
    title, variables, panels = DASHBOARDS[name]
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    return {"uid": "sysom-" + name, "title": title, "tags": ["sysom"], "schemaVersion": 36, "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"}, "editable": True,
            "templating": {"list": [source] + [variable(*v) for v in variables]},
            "links": [{"type": "dashboards", "tags": ["sysom"], "title": "sysom", "asDropdown": False,
                       "includeVars": True, "keepTime": True}],
            "panels": [panel(i, *p) for i, p in enumerate(panels)]}


def main():
    changed = 0
    for name in DASHBOARDS:
        path = os.path.join(ROOT, "deploy/grafana", name + ".json")
        text = json.dumps(dashboard(name), indent=1) + "\n"
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else None
        if text == old:
            continue
        changed = 1
        print(f"deploy/grafana/{name}.json is not what tools/dashboards.py writes" if "--check" in sys.argv else path)
        if "--check" not in sys.argv:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return changed if "--check" in sys.argv else 0


sys.exit(main())
