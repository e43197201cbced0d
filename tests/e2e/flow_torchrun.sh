#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: module:torch
. "$(dirname "$0")/lib.sh"
. tests/e2e/flow.sh
RANKS=2 CULPRIT=1 STEPS_MIN=80
export SIM_LIB=$PWD/$B/lib/sim
# -r, -t: torch 1.13 under Python 3.11 takes "no redirection" for none at all; rank 9 does not exist.
JOB=("$BIN/sysom" run --job flow-torchrun -- /usr/bin/python3 -m torch.distributed.run
	--nproc_per_node 2 --master_port "$(free_ports 1)" -r 9:3 -t 9:3 sim/train_sim.py --seconds 30
	--fault "slow:rank=1:start=15s:steps=40:size=1.6")
flow
