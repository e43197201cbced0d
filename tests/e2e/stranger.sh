#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stranger.sh - the commands of README.md, "Certificates and tokens", as they stand there: an aggregator, a node
# and a stranger on three machines, which are network namespaces here.
. "$(dirname "$0")/lib.sh"
. tests/e2e/page.sh
why=$(/usr/bin/python3 tests/needs.py root mounts command:openssl command:ip command:unshare) || { echo "1..0 # SKIP $why"; exit 77; }
[ -n "${STRANGER_INSIDE:-}" ] || STRANGER_INSIDE=1 exec unshare --net --mount bash "$0"
PATH=$(realpath "$BIN"):$PATH
unset SYSOM_URL
export HOST=aggregator.test
echo "192.0.2.1 $HOST" >"$WORK/hosts" && mount --bind "$WORK/hosts" /etc/hosts
for machine in aggregator node stranger; do
	mkdir "$WORK/$machine"
	unshare --net sleep 1000 &
	declare "$machine=$!"
done
is_apart() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
on() { # machine command...
	local machine=$1
	shift
	nsenter -t "${!machine}" --net env HOME="$WORK/$machine" "$@"
}
cable() { # one switch, in this namespace
	local n=0 machine
	ip link add switch type bridge && ip link set switch up || return
	for machine in aggregator node stranger; do
		n=$((n + 1))
		ip link add "port$n" type veth peer name eth0 netns "${!machine}" && ip link set "port$n" master switch up &&
			on $machine ip addr add 192.0.2.$n/24 dev eth0 && on $machine ip link set eth0 up && on $machine ip link set lo up || return
	done
}
for machine in aggregator node stranger; do stack_wait 10 is_apart "${!machine}"; done
cable 2>"$WORK/ip.log" || { echo "1..0 # SKIP needs netns: $(tail -n 1 "$WORK/ip.log")"; exit 77; }

block() { page_block README.md "Certificates and tokens" "$1"; }
# Runs a block on a machine. Its daemons stay; a node's are told where to live, as no two share a machine otherwise.
run() { # machine block
	block "$2" >"$WORK/$1/block$2"
	[ -s "$WORK/$1/block$2" ] && (cd "$WORK/$1" && on "$1" env SYSOM_STATE_DIR="$WORK/$1/state" SYSOM_SOCKET_PATH="$WORK/$1/s" \
		SYSOM_CONTROL_PATH="$WORK/$1/c" SYSOM_SAMPLER_MODE=off bash "block$2") >"$WORK/$1/log$2" 2>&1
}
told() { grep -q -- "$2" "$1"; } # log text
healthy() { on node curl -sfk -m 5 "https://$HOST:9472/healthz"; }

ok "the section has four blocks" eval '[ -n "$(block 4)" ] && [ -z "$(block 5)" ]'
ok "the aggregator's commands" run aggregator 1
ok "it serves" stack_wait 20 healthy
ok "no secret is for others to read" eval '[ -z "$(find "$WORK/aggregator" -maxdepth 1 \( -name "*.key" -o -name "*token*" \) -perm /077)" ]'
for file in ca.crt node-1.crt node-1.key upload-token; do cp -p "$WORK/aggregator/$file" "$WORK/node"; done
ok "the node's commands" run node 2
ok "it is connected by TLS" stack_wait 20 told "$WORK/node/log2" "connected by TLS"
ok "the stranger's commands" run stranger 3
ok "HTTP refuses it" told "$WORK/stranger/log3" "this needs a token"
ok "on every path but /healthz" eval 'for path in / /metrics /api/v1/status /api/v1/incidents /api/v1/nodes /incidents/0; do
	[ "$(on stranger curl -sk -m 5 -o /dev/null -w "%{http_code}" "https://$HOST:9472$path")" = 401 ] || exit 1; done'
ok "the aggregator refuses it as a node, and says why" stack_wait 20 told "$WORK/aggregator/log1" "it speaks plain TCP"
cp -p "$WORK/aggregator/ca.crt" "$WORK/aggregator/tokens" "$WORK/node"
knows() { run node 4 && told "$WORK/node/log4" "^node-1 .* node-1$"; }
ok "who has the token sees the node and its certificate" stack_wait 20 knows
sed 's/^/# /' "$WORK/node/log4"
ok "and no stranger" eval '! told "$WORK/node/log4" stranger'
finish
