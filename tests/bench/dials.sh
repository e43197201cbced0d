#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A storm of dials: 2,000 nodes dial one aggregator at once, by plain TCP and by mutual TLS, and a listener
# with nng's own TLS.
# usage: dials.sh BUILD
. "$(dirname "$0")/../e2e/lib.sh"
. tests/e2e/pki.sh
trap 'stack_stop; rm -rf "$WORK"' EXIT
DIALS=${DIALS:-2000}
P=$WORK/pki
ulimit -n "$(ulimit -Hn)"
if [ "$(ulimit -n)" != unlimited ] && [ "$(ulimit -n)" -lt $((DIALS * 2)) ]; then
	echo "  not measured: needs $((DIALS * 2)) descriptors" && exit
fi
pki_authority "$P" && pki_issue "$P" localhost serverAuth && pki_issue "$P" node clientAuth || { cat "$P/log"; exit 1; }
cpu_s() { awk -v hz="$(getconf CLK_TCK)" '{printf "%.2f", ($14 + $15) / hz}' "/proc/$STACK_AGGREGATOR_PID/stat"; }
storm() { # title [aggregator's flags] -- [client's certificates]
	local title=$1 flags=() from figures
	shift
	while [ "$1" != -- ]; do flags+=("$1") && shift; done
	shift
	read -r -a ports <<<"$(free_ports 2)"
	STACK_DIR=$WORK/$title STACK_HTTP=${ports[1]} STACK_NNG=tcp://localhost:${ports[0]} STACK_AGGREGATOR_FLAGS="${flags[*]}"
	mkdir "$STACK_DIR"
	stack_aggregator || { cat "$STACK_DIR/aggregator.log"; return 1; }
	from=$(cpu_s)
	figures=$("$B/bench/bench_dials" "$STACK_NNG" "$DIALS" "$@") || { echo "  $title: $figures"; return 1; }
	awk -v t="$title" -v f="$figures" -v a="$from" -v b="$(cpu_s)" -v n="$DIALS" \
		'BEGIN{printf "  %-10s %s; the aggregator took %.2f s of CPU time, %.2f ms a dial\n", t, f, b - a, (b - a) * 1000 / n}'
	stack_end sysom-aggregator "$STACK_AGGREGATOR_PID"
}
for run in 1 2 3; do
	storm "plain.$run" -- || exit 1
	storm "tls.$run" --tls-cert "$P/localhost.crt" --tls-key "$P/localhost.key" --tls-ca "$P/ca.crt" -- \
		"$P/node.crt" "$P/node.key" "$P/ca.crt" || exit 1
done
cat "$P/localhost.crt" "$P/localhost.key" >"$P/server.pem"
cat "$P/node.crt" "$P/node.key" >"$P/client.pem"
echo "  nng's own TLS (60 s at most): $("$B/bench/peer_dials" "$DIALS" "$P/server.pem" "$P/client.pem" "$P/ca.crt")"
