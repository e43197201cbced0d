#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Samples every target, one after the other, and prints one table. usage: run.sh BUILD_DIR
#	ACCURACY_SECONDS (10) per target, ACCURACY_HZ (199), ONLY: part of a target's name,
#	PYTHONS: interpreters beside those on PATH and of pyenv
set -u
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
seconds=${ACCURACY_SECONDS:-10}
hz=${ACCURACY_HZ:-199}
dir=$(mktemp -d)
pids=()
stop() {
	for p in "${pids[@]}"; do
		kill "$p" 2>/dev/null && wait "$p" 2>/dev/null
	done
	pids=()
}
trap 'stop; rm -rf "$dir"' EXIT

if [ "$(id -u)" != 0 ]; then
	echo "accuracy: needs root for BPF" >&2
	exit 77
fi

wanted() {
	[[ $1 == *"${ONLY:-}"* ]]
}
# judge NAME PID [OPTION...]
judge() {
	local name=$1 pid=$2
	shift 2
	"$build/bench/accuracy" -n "$name" -s "$seconds" -r "$hz" -v "${ACCURACY_SHOW:-0}" "$@" "$pid"
}
# target NAME [OPTION...] -- COMMAND...
target() {
	local name=$1 options=()
	shift
	wanted "$name" || return 0
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	"$@" >"$dir/out" 2>&1 &
	pids+=($!)
	for _ in $(seq 100); do
		grep -q ready "$dir/out" 2>/dev/null && break
		sleep 0.1
	done
	judge "$name" "${pids[0]}" ${options[@]+"${options[@]}"}
	stop
}
torch() {
	wanted torch || return 0
	local python=$(sed -n '1s/^#! *//p' "$(command -v torchrun)" 2>/dev/null)
	if [ -z "$python" ] || ! $python -c 'import torch' 2>/dev/null; then
		echo "torch: skipped, no python3-torch"
		return 0
	fi
	mkdir -p "$dir/pids"
	# torch 1.13 opens one log file per rank unless told otherwise; 9 is no stream
	PIDS="$dir/pids" OMP_NUM_THREADS=1 torchrun --standalone --nproc_per_node 2 -r 9:3 -t 9:3 \
		"$here/train.py" >"$dir/torch.log" 2>&1 &
	pids+=($!)
	for _ in $(seq 600); do
		[ -e "$dir/pids/0" ] && [ -e "$dir/pids/1" ] && break
		sleep 0.1
	done
	for rank in 0 1; do
		if [ -e "$dir/pids/$rank" ]; then
			judge "torch rank $rank" "$(cat "$dir/pids/$rank")"
		else
			tail -n 3 "$dir/torch.log"
		fi
	done
	stop
}
redis() {
	wanted redis || return 0
	if ! command -v redis-server >/dev/null || ! command -v redis-benchmark >/dev/null; then
		echo "redis: skipped, not installed"
		return 0
	fi
	redis-server --port 0 --unixsocket "$dir/redis" --save '' --dir "$dir" >"$dir/redis.log" 2>&1 &
	pids+=($!)
	sleep 1
	redis-benchmark -s "$dir/redis" -l -q -c 20 -P 4 -t set,get,lpush,lrange_100,zadd >/dev/null 2>&1 &
	pids+=($!)
	sleep 1
	judge redis "${pids[0]}"
	stop
}
go_program() {
	wanted go || return 0
	if ! command -v go >/dev/null; then
		echo "go: skipped, not installed"
		return 0
	fi
	GO111MODULE=off GOCACHE="$dir/gocache" go build -o "$dir/chain_go" "$here/chain.go" || return 0
	target "go" -- "$dir/chain_go"
	target "go as if stripped" -B chain_go -- "$dir/chain_go"
}

echo "each algorithm: exact stacks %, frames found of the truth's %, frames right of the found %, not at the root %"
printf '%-22s %7s  %-28s  %-28s  %-28s  %5s %5s %6s\n' target samples 'tables (in the kernel)' \
	'frame pointers' 'Algorithm 1' scan% mute% frames
for name in frames static_pie fp signal vfork deep; do
	target "$name" -- "$build/targets/target_$name"
done
target dlopen -- "$build/targets/target_dlopen" "$build/targets/target_library.so"
target "frames, tail calls" -t -- "$build/targets/target_frames"
target "deep, tail calls" -t -- "$build/targets/target_deep"
target "fp, no tables" -B target_fp -- "$build/targets/target_fp"
for python in $(command -v python3) ${PYTHONS:-} "$HOME"/.pyenv/versions/3.*/bin/python3; do
	[ -x "$python" ] || continue
	target "python $("$python" -c 'import platform; print(platform.python_version())')" -- \
		"$python" "$here/chain.py"
done
torch
redis
go_program
if command -v node >/dev/null; then
	target node -- node "$here/chain.js"
fi
