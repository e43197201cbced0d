#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether series of sysomd's page join with those of DCGM's exporter on the same host: Prometheus' own engine evaluates
the joins that a user would write, over the page and over what that exporter says of the same GPUs and Pods.

    dcgm_join.py PAGE DIRECTORY
"""
import json
import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

page, work = sys.argv[1:]
HOST, NAMESPACE = "gpu-host", "research"
series, gpus = [], set()


def add(name, labels, value):
    text = ",".join(f"{k}={json.dumps(v)}" for k, v in sorted(labels.items()))
    series.append({"series": f"{name}{{{text}}}", "values": f"{value:.0f}"})


with open(page, encoding="utf-8") as f:
    for family in text_string_to_metric_families(f.read()):
        for s in family.samples:
            if s.name.startswith(("sysom_gpu_sm_clock", "sysom_rank_info", "sysom_rank_steps", "sysom_link_", "sysom_collective")):
                add(s.name, dict(s.labels, job="sysomd", instance="gpu-host:9470"), s.value)
            if s.name == "sysom_gpu_sm_clock_hertz":
                gpus.add((s.labels["gpu"], s.labels["UUID"]))
for gpu, uuid in gpus:  # the four ranks of the Pod train-0
    pod = {"namespace": NAMESPACE, "pod": "train-0", "container": "trainer"} if int(gpu) < 4 else {}
    add("DCGM_FI_DEV_GPU_UTIL", dict(pod, gpu=gpu, UUID=uuid, device=f"nvidia{gpu}", hostname=HOST, job="dcgm"), 90)
# an exporter of the Pod's own
add("http_requests_total", {"namespace": NAMESPACE, "pod": "train-1", "job": "app"}, 5)

JOINS = {
    # each GPU's clock beside DCGM's utilisation, by either label
    "DCGM_FI_DEV_GPU_UTIL * on(UUID) sysom_gpu_sm_clock_hertz": 8,
    "DCGM_FI_DEV_GPU_UTIL * on(hostname, gpu) sysom_gpu_sm_clock_hertz": 8,
    # which rank of which job has the GPU
    "DCGM_FI_DEV_GPU_UTIL * on(UUID) group_left(job_name, rank) sysom_rank_info{UUID!=''}": 4,
    "DCGM_FI_DEV_GPU_UTIL * on(hostname, namespace, pod, container, gpu) sysom_rank_info{job_name=~'gpu-telemetry@.*'}": 4,
    "sysom_gpu_sm_clock_hertz * on(hostname, UUID) group_left(job_name, rank, pod) sysom_rank_info{UUID!=''}": 4,
    # a rank's steps, links and collectives with where it runs
    "sysom_rank_steps_total * on(job_name, rank) group_left(namespace, pod, hostname) sysom_rank_info": 5,
    "sysom_collective_bytes_total * on(job_name, rank) group_left(namespace, pod) sysom_rank_info * "
    "on(namespace, pod) group_left() http_requests_total": 1,
    "sysom_link_seconds_total * on(job_name, rank) group_left(namespace, pod) sysom_rank_info{hostname='gpu-host'} * "
    "on(namespace, pod) group_left() http_requests_total": 1,
}
test = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [
    {"expr": f"count({join})", "eval_time": "0m", "exp_samples": [{"labels": "{}", "value": count}]}
    for join, count in JOINS.items()]}]}
with open(f"{work}/join.yml", "w", encoding="utf-8") as f:
    json.dump(test, f)  # which is YAML
p = subprocess.run(["promtool", "test", "rules", f"{work}/join.yml"], capture_output=True, text=True, check=False)
print("\n".join("# " + line for line in (p.stdout + p.stderr).splitlines()) if p.returncode else f"# {len(JOINS)} joins")
sys.exit(p.returncode != 0)
