#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dials.sh - 2,000 nodes dial one aggregator at once, by mutual TLS: all are up within a minute, each by one
# handshake, none is refused or lost. (tests/bench/dials.sh measures how fast.)
# needs: command:openssl open-files
# alone: 4,000 handshakes take all CPUs
. "$(dirname "$0")/lib.sh"
. tests/e2e/pki.sh
DIALS=2000 P=$WORK/pki
ulimit -n "$(ulimit -Hn)"
metric() { curl -sf -m 10 "http://127.0.0.1:$STACK_HTTP/metrics" | sed -n "s/^sysom_aggregator_$1 //p"; }
certificates() { pki_authority "$P" && pki_issue "$P" localhost serverAuth && pki_issue "$P" node clientAuth; }
ok "certificates" certificates
stack_place "$WORK/stack"
STACK_NNG=tcp://localhost:${STACK_NNG##*:}
STACK_AGGREGATOR_FLAGS="--tls-cert $P/localhost.crt --tls-key $P/localhost.key --tls-ca $P/ca.crt"
ok "an aggregator" stack_aggregator
"$B/bench/bench_dials" "$STACK_NNG" $DIALS "$P/node.crt" "$P/node.key" "$P/ca.crt" >"$WORK/dials"
ok "all are up, none is lost" is "$? $(sed 's/ after.*, / /' "$WORK/dials")" "0 $DIALS of $DIALS up 0 lost meanwhile"
sed 's/^/# /' "$WORK/dials"
ok "within a minute" awk '{exit !($6 < 60)}' "$WORK/dials"
ok "each by one handshake" is "$(metric tls_handshakes_total)" $DIALS
ok "none is refused" is "$(metric 'tls_refused_total{[^}]*}' | awk '{n += $1} END {print n + 0, (NR > 0)}')" "0 1"
ok "the aggregator ends well" stack_stop
finish
