#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tls.sh - mutual TLS between node and aggregator: a node speaks only for itself; bad certificates are
# refused with a reason on both sides, the job beside them ends with its own status and its windows arrive
# later; certificates are rotated under load. No window is lost.
# long: daemons with many certificates, one after the other
# needs: command:openssl
. "$(dirname "$0")/lib.sh"
. tests/e2e/pki.sh
CLIENT=$B/parts/aggregator_client
P=$WORK/pki
mkdir -p "$P"
metric() { curl -sf -m 10 "http://127.0.0.1:$STACK_HTTP/metrics" | sed -n "s/^sysom_aggregator_$1 //p"; }
node_metric() { curl -sf -m 10 "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | sed -n "s/^$1 //p"; }
put() { cp "$1" "$2.new" && mv "$2.new" "$2"; }
install_as() { # side name [authority]: the certificate becomes the one in use
	local from=$P/${3:-a}
	put "$from/$2.crt" "$WORK/$1.crt"
	(umask 077 && put "$from/$2.key" "$WORK/$1.key")
}
flags() { echo "--tls-cert $WORK/$1.crt --tls-key $WORK/$1.key --tls-ca $WORK/ca.crt --tls-crl $WORK/ca.crl"; }
said() { grep -qF -- "$2" "$WORK/stack/$1.log"; } # daemon text
both_say() { # reason aggregator-text node-text: the counter, and both logs
	stack_wait 20 said aggregator "$2" && stack_wait 20 said sysomd "$3" &&
		[ "$(metric "tls_refused_total{reason=\"$1\"}")" -ge 1 ]
}
# ---- a job beside it all, and its windows ----
captured=0
capture() { # windows: of the last 300 ms of rank 0, one a turn
	local got
	for _ in $(seq "$1"); do
		got=$(curl -sf --unix-socket "$SYSOM_CONTROL_PATH" -X POST \
			"http://sysomd/api/v1/capture?rank=0&seconds=0.3" | jq .windows)
		captured=$((captured + ${got:-0}))
		sleep 0.6
	done
}
job_begins() { # its own exit status is 7
	"$BIN/sysom" run --job beside -- sh -c '"$0" --ranks 2 --seconds 3600; exit 7' "$BIN/simjob" >>"$WORK/job.log" 2>&1 &
	job=$!
	ok "$1: a job's steps flow" stack_wait 60 steps_are 4
}
job_ends() {
	kill -USR1 "$(children $job)"
	wait $job
	ok "$1: the job ends with its own status" is $? 7
	stack_wait 20 attached 0
}
waiting() { [ "$(find "$STACK_DIR/state/spool" -name '*.msg' | wc -l)" -ge "$1" ]; }
keeps_two() { # text: two more windows wait on the disk, and stay there when the job has ended
	capture 2
	job_ends "$1"
	ok "$1: its windows wait on the disk" stack_wait 20 waiting 2
}
drained() { [ "$(node_metric sysom_spool_bytes)" = 0 ] && ! waiting 1; }
stored() { # [pattern of nodes]: so many windows of theirs are in the store; by default of our node
	python3 -c 'import sqlite3, sys
print(sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute("SELECT COUNT(*) FROM windows WHERE node LIKE ?", sys.argv[2:]).fetchone()[0])' "$STACK_DIR/store/store.db" "${1:-n1}"
}
acked() { sed -n 's/.*event=window_acked .*id=\([0-9a-f]*\).*/\1/p' "$STACK_DIR"/{sysomd,earlier}.log 2>/dev/null | sort -u | wc -l; }
nothing_lost() { # text
	ok "$1: the spool drains" stack_wait 30 drained
	local here
	here=$(stored)
	echo "# captured=$captured acked=$(acked) stored=$here"
	ok "$1: every window is stored" test "$here" -ge "$captured"
	ok "$1: as many as were acknowledged" is "$(acked)" "$here"
	ok "$1: none was dropped, none rejected" is \
		"$(node_metric sysom_uplink_windows_dropped_total) $(node_metric sysom_uplink_windows_rejected_total)" "0 0"
}

connected() { [ "$(node_metric sysom_uplink_connected)" = 1 ]; }
disconnected() { [ "$(node_metric sysom_uplink_connected)" = 0 ]; }
refuses_to_start() { # daemon text flags...
	local daemon=$1 text=$2
	shift 2
	timeout 10 "$BIN/$daemon" "$@" >"$WORK/out" 2>&1
	[ $? != 0 ] && grep -qF -- "$text" "$WORK/out" || { sed 's/^/# /' "$WORK/out"; return 1; }
}
runs_without() { # text flags...: sysomd says why it has no connection, and is ended by us alone
	local text=$1 status
	shift
	timeout -s TERM 3 "$BIN/sysomd" "${NODE_BASE[@]}" --uplink-url tls+tcp://localhost:1 "$@" >"$WORK/out" 2>&1
	status=$?
	[ $status = 124 ] && grep -F -- "$text" "$WORK/out" | grep -q 'effect="no connection until the files are usable"' ||
		{ echo "# status $status"; sed 's/^/# /' "$WORK/out"; return 1; }
}

pki_authority "$P/a" && pki_authority "$P/b" || { ok "openssl makes authorities" false; finish; }
pki_issue "$P/a" localhost serverAuth
pki_issue "$P/a" n1 clientAuth
pki_issue "$P/a" n2 clientAuth
pki_crl "$P/a"
put "$P/a/ca.crt" "$WORK/ca.crt"
put "$P/a/ca.crl" "$WORK/ca.crl"
install_as server localhost
install_as node n1

# ---- what is refused at the start ----
NODE_BASE=(--socket-path "$WORK/x.sock" --control-path "$WORK/x.control" --http-listen "" --state-dir "$WORK/x")
ok "the aggregator refuses plain TCP beyond this machine" refuses_to_start sysom-aggregator "or --insecure" \
	--nng-listen tcp://0.0.0.0:0
ok "and so does the node" refuses_to_start sysomd "or --insecure" "${NODE_BASE[@]}" --uplink-url tcp://example.org:9471
ok "half of the settings are refused" refuses_to_start sysomd "tls.key is not set" "${NODE_BASE[@]}" \
	--tls-cert "$WORK/node.crt"
# shellcheck disable=SC2046 # words are meant
ok "a node with another node's certificate has no connection" runs_without "a node speaks only for itself" \
	--node-name n2 $(flags node)
chmod 0644 "$WORK/node.key"
# shellcheck disable=SC2046
ok "a key that others may read is refused" runs_without "has mode 0644, so that others may read it; chmod 640" \
	--node-name n1 $(flags node)
chmod 0600 "$WORK/node.key"
put "$P/a/n2.key" "$WORK/node.key"
chmod 0600 "$WORK/node.key"
# shellcheck disable=SC2046
ok "a key of another certificate is refused" runs_without "the key of another certificate" --node-name n1 $(flags node)
rm "$WORK"/node.*

# ---- one that fits ----
read -r -a ports <<<"$(free_ports 3)"
STACK_DIR=$WORK/stack STACK_HTTP=${ports[1]} STACK_NODE_HTTP=${ports[2]}
STACK_NNG=tcp://localhost:${ports[0]}
export SYSOM_SOCKET_PATH=$STACK_DIR/sysomd.sock SYSOM_CONTROL_PATH=$STACK_DIR/control.sock
export SYSOM_URL=http://127.0.0.1:$STACK_HTTP
mkdir -p "$STACK_DIR"
STACK_AGGREGATOR_FLAGS=$(flags server)
STACK_SYSOMD_FLAGS="$(flags node) --node-name n1 --beat-period 200ms"
ok "both start, the node without a certificate" eval "stack_aggregator && stack_sysomd"
ok "which it says" stack_wait 5 said sysomd 'effect="no connection until the files are usable"'
install_as node n1
ok "it connects once the files are there" stack_wait 20 connected
ok "both say so" eval '[ "$(metric tls_handshakes_total)" -ge 1 ] && said sysomd "connected by TLS"'

# ---- a node speaks only for itself ----
"$CLIENT" write "$WORK/others" madeup 3 >/dev/null
python3 tests/e2e/tls_peer.py "${ports[0]}" "$P/a/n2.crt" "$P/a/n2.key" "$P/a/ca.crt" "$WORK/others" >"$WORK/peer.out" 2>&1
sed 's/^/# /' "$WORK/peer.out"
ok "messages in another node's name are refused" grep -q "^answered=\([1-9][0-9]*\) refused=\1$" "$WORK/peer.out"
ok "and counted" test "$(metric identity_refused_total)" -ge 1
ok "and logged" said aggregator "event=identity certificate=n2"
# A sidecar's node is POD.NAMESPACE, and its certificate is for the Pods of one namespace.
pki_issue "$P/a" wild clientAuth "" "" '*.ml'
pki_issue "$P/a" gpu-7.ml clientAuth
speaks() { # certificate node: what becomes of two windows that it sends in that node's name
	"$CLIENT" write "$WORK/said" "$2" 2 >/dev/null &&
		python3 tests/e2e/tls_peer.py "${ports[0]}" "$P/a/$1.crt" "$P/a/$1.key" "$P/a/ca.crt" "$WORK/said"
}
ok "a namespace's certificate speaks for a Pod of it" is "$(speaks wild train-0.ml)" "answered=2 refused=0"
for node in train-0.other train-0.ml.other ml; do
	ok "not for $node" is "$(speaks wild $node)" "answered=2 refused=2"
done
ok "a Pod's speaks for this Pod" is "$(speaks gpu-7.ml gpu-7.ml)" "answered=2 refused=0"
for node in gpu-7.other gpu-8.ml gpu-7; do
	ok "not for $node" is "$(speaks gpu-7.ml $node)" "answered=2 refused=2"
done
ok "what was let in is stored" stack_wait 20 eval 'is "$(stored %.ml)" 4'
ok "nothing of another namespace is" is "$(stored %.other)" 0
(sleep 3) | timeout 5 openssl s_client -connect "127.0.0.1:${ports[0]}" -CAfile "$WORK/ca.crt" -quiet >"$WORK/bare.out" 2>&1
ok "a client without a certificate is refused" stack_wait 5 said aggregator "reason=no_certificate"
ok "and sent nothing" eval '! grep -qa SP "$WORK/bare.out"' # the greeting
ok "a client without TLS is refused" eval '! timeout 5 "$CLIENT" beat "tcp://127.0.0.1:${ports[0]}" demo 8 2>/dev/null'
ok "and the log says why" said aggregator "it speaks plain TCP"

# ---- rotation under load ----
job_begins rotation
for turn in $(seq 12); do
	case $turn in
	3) pki_issue "$P/a" n1 clientAuth && put "$P/a/n1.crt" "$WORK/node.crt" ;; # its key is not there yet
	5) put "$P/a/n1.key" "$WORK/node.key" && chmod 0600 "$WORK/node.key" ;;
	7) pki_issue "$P/a" localhost serverAuth && install_as server localhost ;;
	9) pki_crl "$P/a" && put "$P/a/ca.crl" "$WORK/ca.crl" ;;
	esac
	capture 1
done
nothing_lost rotation
ok "windows were sent" test "$captured" -ge 10
ok "half a rotation changes nothing, with a line in the log" said sysomd "the files read before stay in use"
ok "the node connected again with its new certificate" test "$(metric tls_handshakes_total)" -ge 3
ok "the aggregator took its new one" test "$(metric 'tls_loads_total{outcome="ok"}')" -ge 2
job_ends rotation

# ---- bad certificates, one after the other; between them the good one ----
refused() { # text certificate authority reason aggregator-text node-text
	job_begins "$1"
	install_as node "$2" "$3"
	ok "$1: refused with the reason on both sides" both_say "$4" "$5" "$6"
	keeps_two "$1"
	install_as node n1
	ok "$1: a good one lets it in again" stack_wait 30 connected
	nothing_lost "$1"
}
# Of its own files the node loads whatever fits together; the aggregator judges.
for dir in a b; do mkdir -p "$P/bad-$dir" && cp -r "$P/$dir/." "$P/bad-$dir/"; done
sed -i "s|$P/a|$P/bad-a|" "$P/bad-a/conf"
sed -i "s|$P/b|$P/bad-b|" "$P/bad-b/conf"
echo 1000 >"$P/bad-a/serial" # the list of the one has no number of the other
pki_issue "$P/bad-a" n1 clientAuth "-2 days" "-1 hour"
refused "expired" n1 bad-a expired 'the certificate of "n1" is valid until' "expired, or not valid yet"
pki_issue "$P/bad-a" n1 clientAuth "+10 minutes" "+1 day"
refused "a clock ten minutes behind" n1 bad-a not_yet "compare the clocks" "expired, or not valid yet"
pki_issue "$P/bad-b" n1 clientAuth
refused "of a foreign authority" n1 bad-b foreign "which tls.ca does not have" "it does not know the authority"
pki_issue "$P/bad-a" n1 serverAuth
refused "for another purpose" n1 bad-a purpose "is not for this side" "another name or purpose"
self_signed() { # name
	mkdir -p "$P/self"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj "/CN=$1" \
		-addext "subjectAltName=DNS:$1" -keyout "$P/self/$1.key" -out "$P/self/$1.crt" 2>/dev/null
}
self_signed n1
refused "self-signed" n1 self self_signed "is self-signed" "it does not know the authority"

# ---- revoked, while it is connected ----
job_begins revoked
pki_revoke "$P/a" n1
put "$P/a/ca.crl" "$WORK/ca.crl"
ok "revoked: the connection that is there ends" both_say revoked 'the certificate of "n1" is revoked' \
	"our certificate is revoked"
keeps_two revoked
pki_issue "$P/a" n1 clientAuth
install_as node n1
ok "revoked: a new certificate lets it in again" stack_wait 30 connected
nothing_lost revoked

# ---- the aggregator's certificate: one bad one after the other ----
refuses_aggregator() { # text certificate authority node-text: and takes one more window meanwhile
	install_as server "$2" "$3"
	stack_end sysom-aggregator "$STACK_AGGREGATOR_PID" && stack_aggregator
	ok "an aggregator's certificate $1 is refused" stack_wait 20 said sysomd "$4"
	ok "$1: no connection" disconnected
	capture 1
}
job_begins "bad aggregators"
pki_issue "$P/a" elsewhere serverAuth
refuses_aggregator "of another name" elsewhere a 'is of "elsewhere", not of "localhost"'
pki_issue "$P/bad-a" localhost serverAuth "-2 days" "-1 hour"
refuses_aggregator "that is expired" localhost bad-a 'the certificate of "localhost" is valid until'
pki_issue "$P/bad-b" localhost serverAuth
refuses_aggregator "of a foreign authority" localhost bad-b 'the certificate of "localhost" is issued by "CN=authority b", which tls.ca does not have'
self_signed localhost
refuses_aggregator "that is self-signed" localhost self 'the certificate of "localhost" is self-signed'
pki_issue "$P/bad-a" localhost clientAuth
refuses_aggregator "of a client" localhost bad-a 'the certificate of "localhost" is not for this side'
pki_issue "$P/bad-a" localhost serverAuth
pki_revoke "$P/bad-a" localhost
put "$P/bad-a/ca.crl" "$WORK/ca.crl"
refuses_aggregator "that is revoked" localhost bad-a 'the certificate of "localhost" is revoked'
keeps_two "bad aggregators"
ok "bad aggregators: all eight windows wait" waiting 8
put "$P/a/ca.crl" "$WORK/ca.crl"
install_as server localhost
ok "bad aggregators: the right certificate is enough" stack_wait 30 connected
nothing_lost "bad aggregators"

# ---- a node whose clock is ten minutes behind ----
FAKE=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1 2>/dev/null | head -n 1)
if [ -n "$FAKE" ]; then
	stack_end sysomd "$STACK_SYSOMD_PID"
	pki_issue "$P/a" localhost serverAuth "-1 minute" && install_as server localhost
	stack_end sysom-aggregator "$STACK_AGGREGATOR_PID" && stack_aggregator
	STACK_SYSOMD_FLAGS="--tls-cert $WORK/node.crt --tls-key $WORK/node.key --tls-ca $WORK/ca.crt --node-name n1 --sampler-mode off"
	pki_issue "$P/a" n1 clientAuth "-1 minute" && install_as node n1
	mv "$STACK_DIR/sysomd.log" "$STACK_DIR/earlier.log"
	LD_PRELOAD=$FAKE FAKETIME=-10m DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_FAKE_MONOTONIC=1 stack_sysomd
	ok "it says of its own certificate that peers refuse it, and what its clock says" stack_wait 20 said sysomd \
		"peers will refuse it; this machine's clock says"
	ok "and of the aggregator's that the clocks differ" stack_wait 20 eval \
		'grep -q "the certificate of .localhost. is valid from .*; this machine.s clock says .*: compare the clocks" "$STACK_DIR/sysomd.log"'
	ok "and is not connected" disconnected
	job_begins "ten minutes behind"
	keeps_two "ten minutes behind"
	stack_end sysomd "$STACK_SYSOMD_PID"
	stack_sysomd
	ok "with the right time it is" stack_wait 30 connected
	nothing_lost "ten minutes behind"
else
	skip "a node whose clock is ten minutes behind" "needs command:faketime"
fi
finish
