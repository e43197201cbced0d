#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real Python ranks under torchrun on the simulated node.
# needs: module:torch
. "$(dirname "$0")/lib.sh"
export SIM_LIB=$PWD/$B/lib/sim OMP_NUM_THREADS=1
port=$(free_ports 1)
run() {
	# -r and -t: torch 1.13 mistakes "no redirection" for none at all under Python 3.11; naming a
	# rank that does not exist is the way around.
	timeout 60 /usr/bin/python3 -m torch.distributed.run -r 9:3 -t 9:3 --nproc_per_node 2 \
		--master_port "$port" sim/train_sim.py --steps 12 --truth "$WORK/truth.jsonl" \
		--fault slow:rank=1:start=6:steps=3:size=1.8 >"$WORK/run.log" 2>&1
}
ok "torchrun launches two Python ranks on the doubles" run
ok "both log their twelve steps" is "$(jq -s length "$WORK/truth.jsonl")" 24
slower() {
	[ "$(jq -s '(map(select(.fault) | .end_ns - .begin_ns) | add / length) >
		1.2 * (map(select(.fault | not) | .end_ns - .begin_ns) | sort | .[length / 2 | floor])' \
		"$WORK/truth.jsonl")" = true ]
}
ok "the slow rank's steps are longer" slower
finish
