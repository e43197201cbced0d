#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# User stacks of one program of each kind against libdw's on the same samples: C without frame
# pointers in both builds of the walk, frames addressed by odd registers, Python, PyTorch.
# needs: root bpf
. "$(dirname "$0")/lib.sh"
accuracy=$B/bench/accuracy
started=()
trap 'kill "${started[@]}" 2>/dev/null' EXIT
start() { # name command...
	local log=$WORK/$1.log
	shift
	"$@" >"$log" 2>&1 &
	started+=($!)
	pid=$!
}
ready() { # file text: within 120 s
	for _ in $(seq 600); do
		grep -qs "$2" "$1" && return 0
		sleep 0.2
	done
	return 1
}
# 100 samples are a fraction of a second of CPU time; the 60 s are for machines that are busy
exact() { # name pid [option...]: 99 of 100 samples are libdw's to the last frame
	local name=$1 pid=$2 rc
	shift 2
	"$accuracy" -n "$name" -s 60 -e 100 -r 499 -v 2 -m 100,99 "$@" "$pid" >"$WORK/out" 2>&1
	rc=$?
	cut -c1-300 "$WORK/out" | sed 's/^/# /'
	return $rc
}
torch=
if /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null; then
	mkdir "$WORK/pids"
	PIDS=$WORK/pids OMP_NUM_THREADS=1 RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 \
		MASTER_PORT=$(free_ports 1) start torch /usr/bin/python3 tests/accuracy/train.py
	torch=$pid
fi
start frames "$B/targets/target_frames"
ok "the C target runs" ready "$WORK/frames.log" ready
ok "C: qsort, alloca, realigned frames, tail calls" exact frames "$pid"
ok "the same by tail calls" exact "frames, tail calls" "$pid" -t
kill "$pid"
# The Build-ID directory has the names, the program has none; a leaf is named by where its row begins.
leaf_names() { # program: all names right
	local id
	id=$(readelf -n "$1" | sed -n 's/^ *Build ID: *//p')
	mkdir -p "$WORK/symbols/.build-id/${id:0:2}"
	cp "$1" "$WORK/symbols/.build-id/${id:0:2}/${id:2}.debug"
	objcopy --strip-all "$1" "$WORK/stripped" || return 1
	start stripped "$WORK/stripped"
	ready "$WORK/stripped.log" ready &&
		exact "touching functions" "$pid" -D "$WORK/symbols" -N "$WORK/names" &&
		python3 tests/accuracy/names.py "$WORK/names" "$WORK/symbols" "$WORK/stripped" >"$WORK/out"
	local rc=$?
	sed 's/^/# /' "$WORK/out"
	kill "$pid"
	return $rc
}
ok "a function that touches another one keeps its name" leaf_names "$B/targets/target_small"
python3 tests/accuracy/headless.py "$B/targets/target_frames" "$WORK/headless"
start headless "$WORK/headless"
ok "the target without section headers runs" ready "$WORK/headless.log" ready
ok "no section headers: rules by PT_GNU_EH_FRAME" exact headless "$pid"
kill "$pid"
# libdw goes by rbp there and leaves callers out: what differs must be marked
if command -v node >/dev/null; then
	start node node tests/accuracy/ordinary.js
	ok "the JavaScript target runs" ready "$WORK/node.log" ready
	ok "JavaScript: a stack that is not libdw's is marked or short" exact node "$pid" -m 100,0 -u 0
	kill "$pid"
else
	skip "JavaScript" "needs command:node"
fi
start registers "$B/targets/target_registers"
ok "the registers target runs" ready "$WORK/registers.log" ready
ok "frames addressed by r10 and rbx" exact registers "$pid"
kill "$pid"
start runtime "$B/targets/target_runtime"
ok "the target with stacks made by hand runs" ready "$WORK/runtime.log" ready
ok "the bottom of such a stack, signals of a runtime" exact runtime "$pid" -u 0
kill "$pid"
start python /usr/bin/python3 tests/accuracy/chain.py
ok "the Python target runs" ready "$WORK/python.log" ready
ok "Python" exact python "$pid"
kill "$pid"
if [ -n "$torch" ]; then
	ok "the PyTorch target trains" ready "$WORK/pids/0" .
	ok "PyTorch" exact torch "$torch"
else
	skip "PyTorch" "needs module:torch"
fi
finish
