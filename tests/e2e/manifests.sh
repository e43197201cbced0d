#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# manifests.sh - the chart and the manifests made of it: one source, Kubernetes' schemas, what the
# admission policies make of Pods.
. "$(dirname "$0")/lib.sh"
same() { diff -r "$WORK/rendered" deploy/kubernetes; }
other_values() {
	printf 'image: {repository: r.example/sysom, tag: "7"}\naggregator: {storageClassName: fast, settings: {retention.jobs: "test-* windows=1d", http.clients: 9, http.hosts: sysom.example}}\nsysomd: {uplinkUrl: "tcp://a:1"}\ntls: {volume: {csi: {driver: d.example}}}\n' >"$WORK/v.yaml"
	GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$WORK/cache go build -o "$WORK/chart" tools/chart.go || return
	for f in templates/aggregator.yaml templates/sidecar.yaml; do "$WORK/chart" deploy/chart $f elsewhere "$WORK/v.yaml" || return; done >"$WORK/v.out"
	grep -q 'image: r.example/sysom:7' "$WORK/v.out" && grep -q 'storageClassName: "fast"' "$WORK/v.out" &&
		grep -A1 'name: SYSOM_RETENTION_JOBS' "$WORK/v.out" | grep -q 'value: test-\* windows=1d' && grep -q 'value: "9"' "$WORK/v.out" &&
		is "$(grep -A1 'name: SYSOM_HTTP_HOSTS' "$WORK/v.out" | tr -s '\n ' ' ')" " - name: SYSOM_HTTP_HOSTS value: sysom-aggregator,sysom-aggregator.elsewhere.svc,sysom.example " &&
		grep -q 'namespace: "elsewhere"' "$WORK/v.out" && grep -q 'dyn("tcp://a:1")' "$WORK/v.out" &&
		grep -q 'dyn("d.example")' "$WORK/v.out" && ! grep -q '"optional"\|optional:' "$WORK/v.out" && ! grep -q 'image: sysom$' "$WORK/v.out"
}
text_values() { # text that YAML without quotes takes for a number, a truth, a comment or a map
	printf 'mode: daemonset\nmonitors: {enabled: true}\naggregator: {storageClassName: "7", monitoringNamespace: "123", settings: {http.hosts: "a: b #c"}}\ntls: {aggregatorSecret: "on"}\nhttp: {secret: "8"}\n' >"$WORK/t.yaml"
	for f in aggregator daemonset monitors; do echo ---; "$WORK/chart" deploy/chart templates/$f.yaml 99 "$WORK/t.yaml" || return; done >"$WORK/t.out"
	python3 - "$WORK/t.out" <<-'PY'
		import sys, yaml
		def values(node, path=()):
		    if isinstance(node, dict):
		        for key, value in node.items(): yield from values(value, path + (key,))
		    elif isinstance(node, list):
		        for value in node: yield from values(value, path)
		    else: yield path, node
		documents = [d for d in yaml.safe_load_all(open(sys.argv[1])) if d]
		env = [e["value"] for d in documents if d["kind"] == "StatefulSet" for c in d["spec"]["template"]["spec"]["containers"]
		       for e in c["env"] if e["name"] == "SYSOM_HTTP_HOSTS"]
		assert env == ["sysom-aggregator,sysom-aggregator.99.svc,a: b #c"], env
		found = [(path, value) for d in documents for path, value in values(d)]
		for key, want in {"storageClassName": {"7"}, "kubernetes.io/metadata.name": {"123"}, "secretName": {"on", "8", "sysom-tls"}, "namespace": {"99"}}.items():
		    has = {value for path, value in found if path[-1] == key}
		    assert has and has <= want, (key, has)
		names = {value for path, value in found if path[-3:] in {("ca", "secret", "name"), ("authorization", "credentials", "name")}}
		assert names == {"on", "8"}, names
	PY
}
SPRIG=/usr/share/gocode/src/github.com/Masterminds/sprig
if python3 tests/needs.py command:go file:$SPRIG >/dev/null; then
	ok "the chart renders" tools/manifests.sh "$WORK/rendered"
	ok "and deploy/kubernetes is what it renders (make manifests)" same
	ok "values change it" other_values
	ok "text stays text" text_values
	"$WORK/chart" deploy/chart templates/secrets.yaml sysom >"$WORK/secrets.yaml" # chart_secrets.sh has the rest
else
	skip "the chart renders" "needs file:$SPRIG"
fi
if python3 tests/needs.py file:tests/kubernetes/node_modules/kubernetes-models >/dev/null; then
	node tests/kubernetes/check.mjs deploy/chart/values.yaml deploy/chart/values.schema.json deploy/kubernetes/*.yaml $([ -s "$WORK/secrets.yaml" ] && echo "$WORK/secrets.yaml") >"$WORK/check.tap"
	while read -r line; do
		case $line in
		"ok "*) ok "${line#* - }" true ;;
		"not ok "*) ok "${line#* - }" false ;;
		1..*) ended=yes ;;
		*) echo "$line" ;;
		esac
	done <"$WORK/check.tap"
	ok "to the last case" is "${ended:-}" yes
else
	skip "schemas and policies" "needs file:tests/kubernetes/node_modules/kubernetes-models"
fi
finish
