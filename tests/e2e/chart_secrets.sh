#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# chart_secrets.sh - the Secrets of Kubernetes, as the chart makes them and as the commands of
# deploy/README.md do: tokens and certificates with which the daemons work together. An upgrade leaves them as they
# are: Helm's `lookup` sees what the chart made before.
# needs: command:go file:/usr/share/gocode/src/github.com/Masterminds/sprig module:yaml command:openssl
. "$(dirname "$0")/lib.sh"
. tests/e2e/page.sh
export GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$WORK/cache GOFLAGS=-p=2
made() { # result values... : what the chart makes of the cluster's objects
	local values=("${@:2}")
	touch "$WORK/cluster"
	printf '%s\n' "${values[@]}" >"$WORK/values.yaml"
	"$WORK/chart" -cluster "$WORK/cluster" deploy/chart templates/secrets.yaml sysom "$WORK/values.yaml" >"$WORK/$1"
}
names() { sed -n 's/^  name: //p' "$WORK/$1" | xargs; }
# Each Secret as Kubernetes mounts it.
mounted() { # result directory
	/usr/bin/python3 - "$WORK/$1" "$2" <<'PY'
import base64, os, sys, yaml
os.umask(0o077)
for s in filter(None, yaml.safe_load_all(open(sys.argv[1]))):
    place = os.path.join(sys.argv[2], s["metadata"]["namespace"], s["metadata"]["name"])
    os.makedirs(place)
    for name, text in s["data"].items():
        open(os.path.join(place, name), "wb").write(base64.b64decode(text))
PY
}
signed() { # directory of a Secret, name: by this authority, for this name
	openssl verify -CAfile "$1/ca.crt" "$1/tls.crt" >/dev/null 2>&1 &&
		openssl x509 -in "$1/tls.crt" -noout -ext subjectAltName | grep -qF "DNS:$2"
}
S=$WORK/s
start_aggregator() {
	"$BIN/sysom-aggregator" --store-dir "$WORK/store" --nng-listen "tcp://127.0.0.1:$nng" --http-listen "127.0.0.1:$http" \
		--tls-ca "$A/ca.crt" --tls-cert "$A/tls.crt" --tls-key "$A/tls.key" --http-tokens "$S/sysom/sysom-http/tokens" \
		--http-certificate "$A/tls.crt" --http-key "$A/tls.key" --http-hosts sysom-aggregator >"$WORK/aggregator.log" 2>&1 &
	aggregator=$!
}
# The DaemonSet's settings of HTTP, with each path as the file of the Secret that it mounts there.
node_http() {
	/usr/bin/python3 - deploy/kubernetes/daemonset.yaml "$S" <<'PY'
import os, sys, yaml
pods = next(o for o in yaml.safe_load_all(open(sys.argv[1])) if o["kind"] == "DaemonSet")
spec, place = pods["spec"]["template"]["spec"], os.path.join(sys.argv[2], pods["metadata"]["namespace"])
secrets = {v["name"]: v["secret"] for v in spec["volumes"] if "secret" in v}
files = {os.path.join(m["mountPath"], i["path"]): os.path.join(place, secrets[m["name"]]["secretName"], i["key"])
         for c in spec["containers"] for m in c["volumeMounts"] for i in secrets.get(m["name"], {}).get("items", [])}
for e in (e for c in spec["containers"] for e in c["env"]):
    if e["name"] in ("SYSOM_HTTP_TOKENS", "SYSOM_HTTP_CERTIFICATE", "SYSOM_HTTP_KEY"):
        print(f'{e["name"]}={files[e["value"]]}')
PY
}
start_node() { # name of the node: as the manifest gives it
	local settings
	mapfile -t settings < <(node_http)
	env "${settings[@]}" "$BIN/sysomd" --node-name "$1" --socket-path "$WORK/$1.s" --control-path "$WORK/$1.c" --state-dir "$WORK/$1" --sampler-mode off \
		--uplink-url "tcp://127.0.0.1:$nng" --tls-name sysom-aggregator --tls-ca "$N/ca.crt" --tls-cert "$N/tls.crt" \
		--tls-key "$N/tls.key" --http-listen "127.0.0.1:$metrics" --http-hosts sysomd >"$WORK/$1.log" 2>&1 &
	node=$!
}
asks() { # name port path: over TLS with that name, and a token of the Secret from another user's view
	curl -sf -m 5 --cacert "$A/ca.crt" --resolve "$1:$2:127.0.0.1" "https://$1:$2$3"
}
# The status of a request as a proxy would pass it on: without its token, root counts as a stranger.
from_afar() { # name port path [file of a token [curl argument...]]
	curl -s -m 5 -o /dev/null -w '%{http_code}' --cacert "$A/ca.crt" --resolve "$1:$2:127.0.0.1" -H "X-Forwarded-For: 192.0.2.9" \
		${4:+-H "Authorization: Bearer $(cat "$4")"} "${@:5}" "https://$1:$2$3"
}
role() { from_afar sysom-aggregator "$http" /api/v1/status "$@"; } # [file of a token]
node_role() { from_afar sysomd "$metrics" /metrics "$@"; }
sees() { asks sysom-aggregator "$http" /api/v1/nodes | jq -e --arg n "$1" '[.nodes[].node] | index($n)' >/dev/null; }
# `helm install ... --set A=B,C=D --set E={F,G}` and `kubectl create`, as far as the page uses them.
CLUSTER=$PWD/tests/e2e/cluster.py
helm() { /usr/bin/python3 "$CLUSTER" helm "$WORK/values.helm" "$@"; }
kubectl() { /usr/bin/python3 "$CLUSTER" kubectl "$WORK/by-hand" "$@"; }
by_hand() { # the commands, in the order in which the page has them; of README.md those that make the authority and `issue`
	(set -e; umask 077; mkdir "$WORK/desk"
	page_block README.md "Certificates and tokens" 1 | sed '/^issue "/,$d'
	page_block deploy/README.md "In Kubernetes" 3 | grep -v ^# | grep -v 'kubectl apply'
	page_block deploy/README.md "In Kubernetes" 4
	page_block deploy/README.md Certificates 4) >"$WORK/by-hand.sh" &&
		(cd "$WORK/desk" && set -e && . "$WORK/by-hand.sh") >"$WORK/by-hand.log" 2>&1
}
work_together() { # directory of Secrets, text: the daemons with them
	S=$1 A=$1/sysom/sysom-aggregator-tls N=$1/ml/sysom-tls
	read -r nng http metrics <<<"$(free_ports 3)"
	start_aggregator
	ok "$2: the aggregator starts with them" stack_wait 20 asks sysom-aggregator "$http" /healthz
	ok "$2: also by the name of a forwarded port" asks localhost "$http" /healthz
	start_node train-0.ml
	ok "$2: a Pod of the namespace is let in" stack_wait 20 sees train-0.ml
	ok "$2: sysomd's metrics have TLS under the name that Prometheus expects" stack_wait 10 asks sysomd "$metrics" /metrics
	ok "$2: of which nobody gets one without a token" is "$(node_role)" 401
	ok "$2: Prometheus' for nodes reads them" is "$(node_role "$S/sysom/sysom-http/node-prometheus")" 200
	ok "$2: and changes nothing" is "$(from_afar sysomd "$metrics" /api/v1/trace?state=off "$S/sysom/sysom-http/node-prometheus" -X POST)" 403
	ok "$2: tokens of the aggregator are none of sysomd's" is \
		"$(node_role "$S/sysom/sysom-http/prometheus") $(node_role "$N/upload-token")" "401 401"
	kill $node && wait $node 2>/dev/null
	start_node train-0.research
	ok "$2: it can't speak for another namespace" stack_wait 20 grep -q "a node speaks only for itself" "$WORK/train-0.research.log"
	ok "$2: the aggregator takes no request without a token" is "$(role)" 401
	ok "$2: nor with one for nodes" is "$(role "$S/sysom/sysom-http/node-prometheus")" 401
	ok "$2: the token of Prometheus reads" is "$(role "$S/sysom/sysom-http/prometheus")" 200
	[ ! -e "$S/sysom/sysom-http/ops" ] || ok "$2: that of an administrator, too" is "$(role "$S/sysom/sysom-http/ops")" 200
	ok "$2: that of nodes does not" is "$(role "$N/upload-token")" 403
	stack_end sysom-aggregator $aggregator
	rm -r "$WORK/store" "$WORK"/train-0.*
}
trap finish EXIT

ok "the renderer" go build -o "$WORK/chart" tools/chart.go
IMAGE=registry.example/sysom:0.1
ok "helm install, as the page has it" eval "$(page_block deploy/README.md "In Kubernetes" 2)"
ok "gives the image and the namespaces" is "$(jq -c '[.image, .secrets]' "$WORK/values.helm")" \
	'[{"repository":"registry.example/sysom","tag":"0.1"},{"namespaces":["ml","research"]}]'
ok "for which the chart makes all Secrets" made page "$(cat "$WORK/values.helm")"
ok "one of each kind, and one per namespace" is "$(names page)" "sysom-ca sysom-aggregator-tls sysom-tls sysom-tls sysom-http"
ok "an empty cluster gets all Secrets" made first 'secrets: {namespaces: [ml]}'
ok "by name" is "$(names first)" "sysom-ca sysom-aggregator-tls sysom-tls sysom-http"
cp "$WORK/first" "$WORK/cluster"
ok "an upgrade" made second 'secrets: {namespaces: [ml]}'
ok "changes none of them" cmp "$WORK/first" "$WORK/second"
ok "one more namespace" made third 'secrets: {namespaces: [ml, research]}'
ok "gets a Secret of its own" is "$(names third)" "sysom-ca sysom-aggregator-tls sysom-tls sysom-tls sysom-http"
ok "and the others stay" is "$(diff "$WORK/first" "$WORK/third" | grep -c '^<')" 0
ok "a key that is missing" eval "sed -i '/^  node-tls/d' $WORK/cluster && made fourth 'secrets: {namespaces: [ml]}'"
ok "is added to the others" is "$(diff "$WORK/first" "$WORK/fourth" | grep '^[<>]' | sed 's/^\(.\) *\([a-z.-]*\):.*/\1\2/' | xargs)" "<node-tls.crt <node-tls.key >node-tls.crt >node-tls.key"
ok "what is made by hand" eval "grep -v managed-by $WORK/first >$WORK/cluster && made fifth 'secrets: {namespaces: [ml, research]}'"
ok "is left alone, and so are its certificates" is "$(names fifth)" ""
: >"$WORK/cluster"
ok "without TLS there are tokens alone" made sixth 'tls: {enabled: false}'
ok "by name" is "$(names sixth)" "sysom-http"
ok "secrets.generate: false makes none" eval "made seventh 'secrets: {generate: false}' && is \"\$(names seventh)\" ''"

ok "as Kubernetes mounts them" mounted third "$S"
A=$S/sysom/sysom-aggregator-tls N=$S/ml/sysom-tls
ok "the aggregator's certificate is for its Service" signed "$A" sysom-aggregator.sysom.svc
ok "a namespace's is for its Pods" signed "$N" '*.ml'
ok "the other one's too, by the same authority" eval "signed $S/research/sysom-tls '*.research' && cmp $N/ca.crt $S/research/sysom-tls/ca.crt"
ok "all nodes may send symbol files" eval "cmp $N/upload-token $S/sysom/sysom-http/upload-token && cmp $N/upload-token $S/research/sysom-tls/upload-token"
work_together "$S" "the chart's"
ok "the page's commands make the Secrets by hand" by_hand
ok "all of them" is "$(cd "$WORK/by-hand" && ls -d */* | xargs)" "ml/sysom-tls sysom/sysom-aggregator-tls sysom/sysom-http"
work_together "$WORK/by-hand" "made by hand"
