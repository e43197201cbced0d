#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Faults put into traces: a self-made job, and the real ones where the data is there.
# needs: module:numpy
. "$(dirname "$0")/lib.sh"

aims() { # arguments... : the bench meets its aims
	/usr/bin/python3 tests/bench/bench_diagnosis.py --sysom "$BIN/sysom" --data "$DATA" --quick "$@" \
		>"$WORK/bench.txt" 2>&1 && return
	sed 's/^/# /' "$WORK/bench.txt"
	return 1
}
ok "faults in a self-made job are found, with rank, layer and clocks; none without" aims --synthetic
if [ -d "$DATA/dlrm-8rank-v100" ]; then
	ok "faults in real traces are found, with rank, layer and clocks; none without" aims
else
	skip "faults in real traces are found" "needs data: $DATA/dlrm-8rank-v100"
fi
loader=$DATA/kineto-dataloader-ab
if [ -d "$loader" ]; then
	slow=$loader/resnet50_num_workers_0_089861.events.csv.gz
	fast=$loader/resnet50_num_workers_4_756351.events.csv.gz
	findings() { # before now: kind and layer of each
		"$BIN/sysom" replay events --json --before "$1" "$2" |
			jq -r 'select(.type == "finding") | .kind + " " + .layer' | tr '\n' ';'
	}
	ok "a slower data loader is found against the run before: the hosts', not the GPU's" \
		is "$(findings "$fast" "$slow")" "uniform cpu;"
	ok "the faster one is not" is "$(findings "$slow" "$fast")" ""
else
	skip "a slower data loader is found against the run before" "needs data: $loader"
fi
finish
