#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the GPUs say of themselves: a job of 4 ranks on the simulated node, whose NVML says what stands in a
# file. The clock of rank 2's GPU is held down by heat: its kernels really take longer, its incident must say
# why, and no other rank's may.
. "$(dirname "$0")/lib.sh"
CULPRIT=2
trap finish EXIT
export SIM_NVML_FILE=$WORK/nvml
says() { printf '%s\n' "$@" >"$SIM_NVML_FILE.new" && mv "$SIM_NVML_FILE.new" "$SIM_NVML_FILE"; }
says "# healthy"
gpu() { node_api status ".gpu$1"; }
metric() { curl -sf -m 10 "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | grep -F "$1"; }

export STACK_SYSOMD_FLAGS="--gpu-library $PWD/$B/lib/sim/libnvidia-ml.so.1 --gpu-period 200ms --node-name gpu-host"
stack_start "$WORK/stack" || { ok "daemons start" false; exit; }
open() { [ "$(gpu .mode)" = nvml ] && [ "$(gpu '.devices | length')" = 8 ]; }
ok "NVML opens and has 8 devices" stack_wait 20 open
# as the downward API of a Pod does
export POD_NAMESPACE=research POD_NAME=train-0 CONTAINER_NAME=trainer NODE_NAME=gpu-host
"$BIN/sysom" run --job gpu-telemetry -- "$BIN/simjob" --ranks 4 --seconds 3600 --seed 7 >"$WORK/job.log" 2>&1 &
JOB=$!
ok "four ranks learn what is usual" stack_wait 30 known 4
ok "each device knows its rank" is "$(gpu ' | [.devices[:4][] | .ranks[0].rank]' | jq -c .)" "[0,1,2,3]"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	theirs=$(setpriv --reuid 65534 --regid 65534 --clear-groups curl -sf -m 10 "http://127.0.0.1:$STACK_NODE_HTTP/api/v1/status" |
		jq -c "[.gpu.devices | length, ([.[].ranks[]] | length)]")
	ok "another user sees the devices, not whose ranks use them" is "$theirs" "[8,0]"
fi
# as a worker of vLLM in a container: no local rank, and NVML lists no processes
PYTHONPATH=sim SIM_LIB=$PWD/$B/lib/sim CUDA_VISIBLE_DEVICES=6,7 "$BIN/sysom" run --job by-driver -- /usr/bin/python3 -c '
import simgpu
gpu = simgpu.Gpu(1)
while True:
    gpu.kernel("work", 1_000_000)
    gpu.synchronize()' &
WORKER=$!
driver_says() { [ "$(gpu ' | [.devices[6, 7].ranks | length]' | jq -c .)" = "[0,1]" ]; }
ok "the driver says which GPU a process uses, not the first that it might" stack_wait 10 driver_says
end_job $WORKER
steps_more 50 # that are usual
says "$CULPRIT.sm_clock_mhz 1250" "$CULPRIT.throttle 0x60" "$CULPRIT.temperature_c 93" \
	"$CULPRIT.power_mw 340000" "$CULPRIT.other $$"
held() { [ "$(gpu ".devices[$CULPRIT].sm_clock_mhz")" = 1250 ]; }
ok "the status follows" stack_wait 5 held
ok "with what holds the clock down" is "$(gpu ".devices[$CULPRIT].throttle" | jq -c .)" '["sw_thermal","hw_thermal"]'
ok "the metrics have the clock" metric \
	"sysom_gpu_sm_clock_hertz{gpu=\"$CULPRIT\",UUID=\"GPU-53494d47-5055-0000-0000-00000000000$CULPRIT\",hostname=\"gpu-host\"} 1250000000"
ok "and the reason" metric "gpu=\"$CULPRIT\",UUID=\"GPU-53494d47-5055-0000-0000-00000000000$CULPRIT\",hostname=\"gpu-host\",reason=\"hw_thermal\"} 1"
ok "sysom status shows it" bash -c "'$BIN/sysom' status | tee '$WORK/status.log' | grep -q 'GPU $CULPRIT of rank $CULPRIT: 1250 of 1980 MHz, 93 C.*heat'"
raised() { # name subject-part
	jq -e --arg name "$1" --arg part "$2" '[.signals[] | select(.name == $name and .raised and
		(.subject | contains($part)))] | length > 0' "$WORK/show.json" >/dev/null
}
ID=none
reported() { # an incident of the culprit whose GPU says why
	local id
	for id in $(api incidents '[.incidents[] | select(.symptom != "transient" and (.ranks | index('$CULPRIT')))] |
		sort_by(-.flagged_steps)[].id'); do
		"$BIN/sysom" show "$id" --json >"$WORK/show.json"
		raised gpu_sm_clock "GPU $CULPRIT" && ID=$id && return
	done
	return 1
}
ok "the culprit has an incident, which knows of its clock" stack_wait 12 reported
"$BIN/sysom" report "$ID" -o "$WORK/report.html" >/dev/null
ok "its report draws clock and power, and names the GPU" bash -c "grep -q '<h3>SM clock' '$WORK/report.html' &&
	grep -q '<h3>Power' '$WORK/report.html' && grep -q 'rank $CULPRIT</b> GPU $CULPRIT' '$WORK/report.html'"
# whose collectives have transfers to another node
"$B/test/link_caller" --serve 127.0.0.1 >"$WORK/port" 2>"$WORK/serve.log" &
stack_wait 10 test -s "$WORK/port"
POD_NAME=train-1 RANK=0 WORLD_SIZE=2 "$BIN/sysom" run --job links -- "$B/test/link_caller" 127.0.0.1 "$(cat "$WORK/port")" 3600 \
	>"$WORK/links.log" 2>&1 &
LINKS=$!
ok "a job with transfers has series of links and collectives" stack_wait 20 metric 'sysom_collective_bytes_total{job_name="links@'
if /usr/bin/python3 tests/needs.py command:promtool module:prometheus_client >/dev/null; then
	curl -sf -m 10 "http://127.0.0.1:$STACK_NODE_HTTP/metrics" >"$WORK/page"
	ok "GPU, rank and link series join with those of DCGM's exporter" /usr/bin/python3 tests/e2e/dcgm_join.py "$WORK/page" "$WORK"
else
	skip "GPU, rank and link series join with those of DCGM's exporter" "needs command:promtool module:prometheus_client"
fi
kill $LINKS
says "0.xid 79" # and the clock is free again
ok "an XID is counted" stack_wait 5 metric 'sysom_gpu_xid_total{gpu="0",UUID="GPU-53494d47-5055-0000-0000-000000000000",hostname="gpu-host"} 1'
end_job $JOB
ok "the job ends with 0" is $? 0
stack_end sysomd "$STACK_SYSOMD_PID"
ok "sysomd ends with 0" is $? 0
STACK_SYSOMD_PID=
api incidents '.incidents[]' | jq -c '{id,symptom,ranks,victims,flagged_steps}' | sed 's/^/# /'
"$BIN/sysom" show "$ID" --json >"$WORK/show.json"
"$BIN/sysom" show "$ID" | tee "$WORK/show.log" | sed 's/^/# /'
ok "its SM clock fell" raised gpu_sm_clock "GPU $CULPRIT (at most 1980 MHz)"
ok "heat held it down" raised gpu_throttle "heat (hardware limit) of GPU $CULPRIT"
ok "and it was hot" raised gpu_temperature "GPU $CULPRIT"
ok "another process had come to it" raised gpu_others "(pid $$) on GPU $CULPRIT"
ok "sysom show says so in words" grep -Eq "SM clock of GPU $CULPRIT .at most 1980 MHz.: 1[0-9]{3} MHz \(usually 19[0-9]{2}\)" "$WORK/show.log"
ok "no other GPU is reported" jq -e --arg gpu "GPU $CULPRIT" '[.signals[] | select((.name | startswith("gpu_")) and
	(.subject | contains($gpu) | not))] | length == 0' "$WORK/show.json"

# ---- without ----
export STACK_SYSOMD_FLAGS="--gpu-library /nowhere/libnvidia-ml.so.1"
stack_sysomd || { ok "sysomd starts without NVML" false; exit; }
none() { [ "$(gpu .mode)" = none ] && [ "$(gpu .why)" != starting ]; }
ok "without NVML the status says so" stack_wait 10 none
ok "with the reason" grep -q /nowhere/libnvidia-ml.so.1 <(gpu .why)
ok "and everything else goes on" curl -sf -o /dev/null "http://127.0.0.1:$STACK_NODE_HTTP/metrics"
