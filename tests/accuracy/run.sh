#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Samples every target, one after the other, and prints one table. usage: run.sh BUILD_DIR
#	ACCURACY_SAMPLES (5000) per target within ACCURACY_SECONDS (300), ACCURACY_HZ (999),
#	ONLY: part of a target's name, PYTHONS: interpreters beside those on PATH and of pyenv
# Fails where a target has too few samples, where a stack is false and not flagged, and where less than
# ACCURACY_EXACT (99.9) % of the stacks are exact, but for targets that have code without rules (LOOSE).
set -u
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
samples=${ACCURACY_SAMPLES:-5000}
seconds=${ACCURACY_SECONDS:-300}
hz=${ACCURACY_HZ:-999}
exact=${ACCURACY_EXACT:-99.9}
failed=()
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
# Symbols are where an operator would have them: in a Build-ID directory, and what runs is stripped.
symbols=$dir/symbols
stripped=$dir/stripped
mkdir -p "$stripped" "$symbols/.build-id"
# strip_copy FILE: $stripped/FILE without symbols, which go to the Build-ID directory. libdw needs the
# unwind information of a program without .eh_frame (Go), so .debug_frame stays.
strip_copy() {
	local id
	id=$(readelf -n "$1" | sed -n 's/^ *Build ID: *//p')
	[ ${#id} = 40 ] || { echo "accuracy: $1: no Build ID" >&2; return 1; }
	mkdir -p "$symbols/.build-id/${id:0:2}"
	cp "$1" "$symbols/.build-id/${id:0:2}/${id:2}.debug"
	objcopy --strip-all --keep-section=.debug_frame "$1" "$stripped/${1##*/}"
}
# Code without rules: libdw goes by rbp there, or knows no way on. What is not its stack must be flagged.
is_loose() {
	case $1 in
	"go as if stripped" | gron* | luajit | node*) return 0 ;;
	esac
	return 1
}
# judge NAME PID [OPTION...]
judge() {
	local name=$1 pid=$2 least=$exact
	shift 2
	is_loose "$name" && least=0
	"$build/bench/accuracy" -n "$name" -s "$seconds" -e "$samples" -r "$hz" -v "${ACCURACY_SHOW:-0}" \
		-u 0 -m "$samples,$least" -D "$symbols" -N "$dir/names" "$@" "$pid" || failed+=("$name")
	python3 "$here/names.py" "$dir/names" "$symbols" "$stripped" || failed+=("$name: names")
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
	case $name in
	python\ 3.1[0-9].*)
		# the whole sampler: names of Python functions too
		"$build/bin/sysom" record -p "${pids[0]}" -S 10 --rate "$hz" --no-off-cpu \
			--group none -o "$dir/python.folded" >/dev/null &&
			python3 "$here/chain_names.py" "$dir/python.folded" || failed+=("$name: Python names")
		;;
	esac
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
	# torch 1.13 opens one log file per rank unless configured otherwise; 9 is no stream
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
nginx_server() {
	wanted nginx || return 0
	local nginx=$(PATH=$PATH:/usr/sbin command -v nginx) worker
	if [ -z "$nginx" ]; then
		echo "nginx: skipped, not installed"
		return 0
	fi
	mkdir -p "$dir/www"
	chmod 755 "$dir" "$dir/www"
	head -c 20000 /dev/urandom | base64 >"$dir/www/page.html"
	cat >"$dir/nginx.conf" <<-END
		pid $dir/nginx.pid;
		error_log $dir/nginx.log;
		worker_processes 1;
		events {}
		http {
			access_log off;
			gzip on;
			gzip_types *;
			server { listen unix:$dir/nginx; root $dir/www; }
		}
	END
	"$nginx" -c "$dir/nginx.conf" -g 'daemon off;' 2>/dev/null &
	pids+=($!)
	sleep 1
	curl -s -o /dev/null --compressed --unix-socket "$dir/nginx" 'http://localhost/page.html?[1-9999999]' &
	pids+=($!)
	sleep 1
	worker=$(ps -o pid= --ppid "${pids[0]}" | tr -d " " | head -n 1)
	[ -n "$worker" ] && judge nginx "$worker"
	stop
}
# Go as Debian ships it: stripped, without unwind information. Truth: libdw goes by frame pointers.
gron_program() {
	wanted gron || return 0
	if ! command -v gron >/dev/null; then
		echo "gron: skipped, not installed"
		return 0
	fi
	mkfifo "$dir/json"
	yes '{"a":{"b":[1,2.5,{"c":"d"}],"e":null},"f":["g","h",{"i":[true,false]}]}' >"$dir/json" &
	pids=("$!")
	gron -s "$dir/json" >/dev/null &
	pids=("$!" "${pids[@]}")
	sleep 1
	judge "gron (Go of Debian)" "${pids[0]}"
	stop
}
go_program() {
	wanted go || return 0
	if ! command -v go >/dev/null; then
		echo "go: skipped, not installed"
		return 0
	fi
	GO111MODULE=off GOCACHE="$dir/gocache" go build -o "$dir/chain_go" \
		-ldflags="-compressdwarf=false -B 0x$(sha1sum <"$here/chain.go" | cut -c1-40)" "$here/chain.go" &&
		strip_copy "$dir/chain_go" || return 0
	target "go" -- "$stripped/chain_go"
	target "go as if stripped" -B chain_go -- "$stripped/chain_go"
}

echo "each algorithm: exact stacks %, frames found of the truth's %, frames right of the found %, not at the root %"
printf '%-22s %7s  %-28s  %-28s  %-28s  %5s %5s %6s\n' target samples 'tables (in the kernel)' \
	'frame pointers' 'Algorithm 1' scan% mute% frames
for file in "$build"/targets/target_*; do
	# target_rules_*: test_sampler's, with a forged Build ID
	[[ $file == *.d || $file == */target_rules_* ]] || strip_copy "$file" || exit 1
done
for name in frames static_pie fp signal runtime vfork deep registers small threads; do
	target "$name" -- "$stripped/target_$name"
done
target dlopen -- "$stripped/target_dlopen" "$stripped/target_library.so"
target "frames, tail calls" -t -- "$stripped/target_frames"
target "deep, tail calls" -t -- "$stripped/target_deep"
target "fp, no tables" -B target_fp -- "$stripped/target_fp"
for python in $(command -v python3) ${PYTHONS:-} "$HOME"/.pyenv/versions/3.*/bin/python3; do
	[ -x "$python" ] || continue
	target "python $("$python" -c 'import platform; print(platform.python_version())')" -- \
		"$python" "$here/chain.py"
done
torch
redis
nginx_server
go_program
gron_program
# needs NAME COMMAND: whether the target is asked for and its tool is there
needs() {
	wanted "$1" || return 1
	command -v "$2" >/dev/null && return 0
	echo "$1: skipped, no $2"
	return 1
}
# build NAME OUTPUT COMMAND...: builds and samples it
build() {
	local name=$1 output=$2
	shift 2
	if ! "$@" >"$dir/build.log" 2>&1; then
		echo "$name: skipped, not built: $(tail -n 1 "$dir/build.log")"
		return 0
	fi
	target "$name" -- "$output"
}
needs rust rustc && build rust "$dir/chain_rs" rustc -O -o "$dir/chain_rs" "$here/chain.rs"
needs coroutines g++ &&
	build coroutines "$dir/chain_co" g++ -std=c++20 -O2 -o "$dir/chain_co" "$here/chain_coroutine.cc"
needs musl musl-gcc &&
	build musl "$dir/small_musl" musl-gcc -O2 -static -o "$dir/small_musl" "$here/../targets/target_small.c"
needs openblas cc && build openblas "$dir/blas" cc -O2 -o "$dir/blas" "$here/chain_blas.c" -lopenblas
needs cgo go && GO111MODULE=off GOCACHE=$dir/gocache \
	build cgo "$dir/chain_cgo" go build -ldflags=-compressdwarf=false -o "$dir/chain_cgo" "$here/chain_cgo.go"
needs luajit luajit && target luajit -- luajit "$here/chain.lua"
needs node node && target node -- node "$here/chain.js"
needs "node, ordinary" node && target "node, ordinary" -- node "$here/ordinary.js"
if wanted "no section headers"; then
	python3 "$here/headless.py" "$build/targets/target_frames" "$dir/headless" &&
		target "no section headers" -- "$dir/headless"
fi
if [ ${#failed[@]} != 0 ]; then
	printf 'accuracy: falls short: %s\n' "${failed[@]}" >&2
	exit 1
fi
