# SPDX-License-Identifier: Apache-2.0
# stack.sh - an aggregator and a sysomd of one's own in a private directory, for the demo, the
# end-to-end tests and the benchmarks. Source it; needs BIN (default build/bin).
#   stack_start DIR   starts both, exports SYSOM_SOCKET_PATH, SYSOM_CONTROL_PATH and SYSOM_URL
#   stack_stop        SIGTERM, waits; a daemon that does not end in 10 s is killed and reported
#   stack_aggregator, stack_sysomd   (re)start one of them with the same settings
BIN=${BIN:-build/bin}

free_ports() { # count -> that many free TCP ports of loopback
	python3 tools/free_ports.py "$1"
}

stack_wait() { # seconds command... : until the command succeeds
	local until=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -ge $until ] && return 1
		sleep 0.1
	done
}

stack_aggregator() {
	"$BIN/sysom-aggregator" --nng-listen "$STACK_NNG" --http-listen "127.0.0.1:$STACK_HTTP" \
		--store-dir "$STACK_DIR/store" ${STACK_AGGREGATOR_FLAGS:-} \
		>>"$STACK_DIR/aggregator.log" 2>&1 &
	STACK_AGGREGATOR_PID=$!
	stack_wait 20 curl -sf "http://127.0.0.1:$STACK_HTTP/healthz"
}

stack_sysomd() {
	"$BIN/sysomd" --socket-path "$SYSOM_SOCKET_PATH" --control-path "$SYSOM_CONTROL_PATH" \
		--http-listen "127.0.0.1:$STACK_NODE_HTTP" --uplink-url "$STACK_NNG" \
		--uplink-http "http://127.0.0.1:$STACK_HTTP" --state-dir "$STACK_DIR/state" ${STACK_SYSOMD_FLAGS:-} \
		>>"$STACK_DIR/sysomd.log" 2>&1 &
	STACK_SYSOMD_PID=$!
	stack_wait 20 curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/healthz"
}

stack_place() { # DIR: where both live, and their addresses
	local ports
	STACK_DIR=$1
	mkdir -p "$STACK_DIR"
	read -r -a ports <<<"$(free_ports 3)"
	STACK_NNG=tcp://127.0.0.1:${ports[0]}
	STACK_HTTP=${ports[1]}
	STACK_NODE_HTTP=${ports[2]}
	export SYSOM_SOCKET_PATH=$STACK_DIR/sysomd.sock SYSOM_CONTROL_PATH=$STACK_DIR/control.sock
	export SYSOM_URL=http://127.0.0.1:$STACK_HTTP
}

stack_start() {
	stack_place "$1" && stack_aggregator && stack_sysomd
}

stack_end() { # name pid
	local code
	[ -n "$2" ] || return 0
	kill -TERM "$2" 2>/dev/null || return 0
	if ! stack_wait 10 eval "! kill -0 $2 2>/dev/null"; then
		echo "stack: $1 did not end on SIGTERM" >&2
		kill -KILL "$2" 2>/dev/null
		return 1
	fi
	wait "$2"
	code=$?
	[ $code = 0 ] || { echo "stack: $1 ended with $code" >&2; return 1; }
}

stack_stop() {
	local bad=0
	stack_end sysomd "${STACK_SYSOMD_PID:-}" || bad=1
	stack_end sysom-aggregator "${STACK_AGGREGATOR_PID:-}" || bad=1
	STACK_SYSOMD_PID= STACK_AGGREGATOR_PID=
	return $bad
}
