# SPDX-License-Identifier: Apache-2.0
# lib.sh - TAP and a private stack for the end-to-end tests. Source it from the repository root.
set -u
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
skip() { # text why
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}
finish() {
	stack_stop
	pkill -KILL -f "$WORK/" 2>/dev/null
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
is() { [ "$1" = "$2" ] || { echo "# got \"$1\", wanted \"$2\""; return 1; }; }
