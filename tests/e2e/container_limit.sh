#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# container_limit.sh - sysomd in a container, beside that of its job, as in a Pod: a CPU limit of the job's container
# is found.
# quiet: a container with a CPU limit, in real time
. "$(dirname "$0")/lib.sh"
. tests/e2e/podman.sh
. tests/e2e/beside.sh
trap 'pod_end; finish' EXIT
for need in command:podman command:runc root mounts bpf cpu-group; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "sysomd beside a job's container" "needs $need"; exit; }
done

known_in() { [ "$(status '.ranks | map(select(.state == "attached" and .model == "ready")) | length')" = "$1" ]; }
limit() { # of the job's container: 60% of what it uses
	python3 - "$(pod inspect job --format '{{.State.Pid}}')" <<-'PY'
		import os, re, sys, time
		groups = {}
		for line in open(f"/proc/{sys.argv[1]}/cgroup"):
		    _, controllers, path = line.rstrip("\n").split(":", 2)
		    groups.update({c: path for c in controllers.split(",")})
		own = "/sys/fs/cgroup/cpu" + groups["cpu"] if "cpu" in groups else "/sys/fs/cgroup" + groups[""]
		def used():
		    pids = open(f"{own}/cgroup.procs").read().split()
		    stats = (open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split() for p in pids)
		    return sum(int(f[11]) + int(f[12]) for f in stats) / os.sysconf("SC_CLK_TCK")
		before = used()
		time.sleep(4)
		quota = max(1000, int(100000 * 0.6 * (used() - before) / 4))
		print(f"# {quota} us of 100000", flush=True)
		if "cpu" in groups:
		    open(f"{own}/cpu.cfs_quota_us", "w").write(str(quota))
		else:
		    open(f"{own}/cpu.max", "w").write(f"{quota} 100000")
	PY
}
limit_is_named() {
	local id
	for id in $(api incidents '.incidents[].id'); do
		api "incidents/$id" >"$WORK/incident.json"
		jq -e '.diagnosis.cause == "os-cpu-limit" and ([.signals[] | select(.name == "cpu_throttled" and .raised)] | length > 0)' \
			"$WORK/incident.json" >/dev/null && return
	done
	return 1
}
threads_seen() { [ "$(status '.os.threads')" -gt 2 ]; }

ok "a bare image of this machine" prepared
ok "a process namespace" container pause -- /usr/bin/sleep 3600
stack_place "$WORK/stack"
ok "an aggregator" stack_aggregator
ok "sysomd in a container" sysomd_with "${ALL[@]}"
ok "a job in another one" job -- bin/simjob --ranks 2 --seconds 600 --seed 7
ok "is learned" stack_wait 40 known_in 2
ok "BPF sees the job's threads by their numbers in the namespace" stack_wait 20 threads_seen
ok "a limit is set" limit
ok "a CPU limit of the job's container is named as the cause" stack_wait 40 limit_is_named
