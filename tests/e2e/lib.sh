# SPDX-License-Identifier: Apache-2.0
# lib.sh - TAP and a private stack for the end-to-end tests. Source it from the repository root.
# It runs below tests/reap.py, so that all it starts ends with it.
set -u
[ -n "${SYSOM_TEST_REAPED:-}" ] || exec python3 "${BASH_SOURCE[0]%/*}/../reap.py" bash "$0" "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
B=${B:-build/gcc}
BIN=$B/bin
. tools/stack.sh
tap_count=0
tap_failed=0
DATA=${SYSOM_DATA:-../shared/data}
WORK=$(mktemp -d)

ok() { # text command... : passes when the command succeeds
	local text=$1
	shift
	tap_count=$((tap_count + 1))
	if "$@"; then
		echo "ok $tap_count - $text"
	else
		echo "not ok $tap_count - $text"
		tap_failed=$((tap_failed + 1))
	fi
}
skip() { # text why, which begins with "needs NAME" of tests/needs.py
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}
metrics_are_sound() { # text command... : which prints metrics, for a strict reader of Prometheus' text
	local text=$1
	shift
	if /usr/bin/python3 tests/needs.py module:prometheus_client >/dev/null; then
		"$@" >"$WORK/metrics.txt"
		ok "$text" /usr/bin/python3 tests/e2e/prometheus.py <"$WORK/metrics.txt"
	else
		skip "$text" "needs module:prometheus_client"
	fi
}
# Directories that tests of one run share, so that what takes minutes is made once; else our own.
SHARED=${TEST_SHARED:-$WORK/shared}
once() { # name command... : which makes the directory that it gets as its last argument
	local dir=$SHARED/$1
	mkdir -p "$SHARED" && (
		flock 9
		[ -d "$dir" ] || { rm -rf "$dir.part" && mkdir "$dir.part" && "${@:2}" "$dir.part" && mv "$dir.part" "$dir"; }
	) 9>"$dir.lock" >"$WORK/$1.log" 2>&1
}
PACKAGES=$SHARED/packages
packages() { # of this tree
	local kinds=deb
	command -v rpmbuild >/dev/null && kinds=deb,rpm
	once packages env -u MAKEFLAGS -u MAKELEVEL B="$B" deploy/package.sh $kinds
}
finish() {
	stack_stop
	if [ $tap_failed != 0 ]; then
		for log in "$WORK"/*/*.log "$WORK"/*.log; do
			[ -s "$log" ] && echo "# $log" && tail -n 15 "$log" | cut -c1-300 | sed 's/^/# /'
		done
	fi
	rm -rf "$WORK"
	echo "1..$tap_count"
	[ $tap_failed = 0 ]
	exit
}
api() { # path [jq filter]
	curl -sf -m 10 "$SYSOM_URL/api/v1/$1" | jq -r "${2:-.}"
}
node_api() {
	curl -sf -m 10 "http://127.0.0.1:$STACK_NODE_HTTP/api/v1/$1" | jq -r "${2:-.}"
}
# How long tests wait for what has to come: long, as whoever waits in vain has failed, and a machine may be
# busy. stack.sh's own bound is of a person who looks on.
stack_wait() { # seconds command... : until it succeeds, at most five times as long
	local until=$((SECONDS + 5 * $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -ge $until ] && return 1
		sleep 0.1
	done
}
# ---- a job's life, as sysomd sees it ----
attached() { [ "$(node_api status '[.ranks[] | select(.state == "attached")] | length')" = "$1" ]; } # so many ranks
known() { # so many ranks, each ready; a busy machine's may be refused a model: 200 steps will do
	[ "$(node_api status '[.ranks[] | select(.state == "attached" and (.model == "ready" or .steps >= 200))] | length')" = "$1" ]
}
steps_min() { node_api status '[.ranks[] | select(.state == "attached") | .steps] | min // 0'; }
steps_are() { [ "$(steps_min)" -ge "$1" ]; }
steps_more() { stack_wait 60 steps_are $(($(steps_min) + $1)); } # each rank has so many more
end_job() { # pid of a simjob: its time is over; its exit status
	kill -USR1 "$1" 2>/dev/null
	wait "$1"
}
children() { # pid: its children's pids, a line each
	ps -o pid= --ppid "$1" | tr -d ' '
}
holds() { [ "$(jq "$@")" = true ]; } # of JSON on standard input. `jq -e` of 1.6 also succeeds if there is none
is() { [ "$1" = "$2" ] || { echo "# got \"$1\", wanted \"$2\""; return 1; }; }
