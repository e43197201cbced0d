#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pod.sh - the commands of README.md, "In Kubernetes", and what they give a cluster, with real containers: a Pod's
# job is traced by sysomd in its sidecar, and an aggregator without root names pod and rank, by mutual TLS. A
# container with musl in the same Pod runs untouched, and doctor says why. The Pod is evicted: what was acknowledged
# stays, and nothing else. The Secret comes after the Pod. A job whose volume is full or read-only runs, untraced. The
# same in a restricted namespace, as the admission policy makes the Pod there, without privileges and root; and with
# the DaemonSet and its policy.
# long: an image, and Pods one after the other
. "$(dirname "$0")/lib.sh"
. tests/e2e/pki.sh
. tests/e2e/page.sh
for need in command:go file:/usr/share/gocode/src/github.com/Masterminds/sprig command:podman command:runc command:catatonit command:dh command:musl-gcc command:openssl module:yaml root mounts mirror; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "a Pod with its sidecar" "needs $need"; finish; exit; }
done
read -r -a ports <<<"$(free_ports 3)"
TAG=sysom-test-$$
URL=https://127.0.0.1:${ports[1]}
unset SYSOM_URL
. tests/e2e/podman.sh
# A clone in which the page's commands run: its image is built of this tree's programs, and there is no cluster.
HERE=$PWD
CLONE=$WORK/clone
IMAGE=localhost/sysom:$TAG
mkdir -p "$CLONE/build/image" && ln -s "$HERE/deploy" "$CLONE"
make() {
	is "$*" image && (cd "$HERE" && packages &&
		deploy/image.sh "$PACKAGES" "$CLONE/build/image/sysom.tar" >"$WORK/image.log" 2>&1)
}
podman() { if [ "$1" = push ]; then pod image exists "$2"; else pod "$@"; fi; }
helm() { /usr/bin/python3 "$HERE/tests/e2e/cluster.py" helm "$WORK/values.json" "$@"; }
kubectl() { # as the pages have it
	case "$*" in
	"apply -n ml -f "*) play "$5" training /usr/bin/simjob "${FAULT[@]}" ;;
	"port-forward -n sysom sysom-aggregator-0 ${ports[1]}") ;; # it listens on this machine's loopback
	"get secret -n sysom sysom-aggregator-tls -o jsonpath={.data.ca\.crt}") base64 -w0 "$WORK/tls-aggregator/ca.crt" ;;
	"exec -n ml "*" -c "*" -- "*) stack_wait 20 pod exec "$4-$6" "${@:8}" ;;
	"exec -n sysom sysom-aggregator-0 -- "*) pod exec aggregator-aggregator "${@:6}" ;;
	*) return 1 ;;
	esac
}
page() { # N [ID]: the Nth block of README.md, or of deploy/README.md about this incident; each command must succeed. 9472 is our port
	local block
	block=$(if [ $# = 1 ]; then page_block README.md "In Kubernetes" "$1"; else page_block deploy/README.md "Incidents in Kubernetes" "$1"; fi)
	[ -n "$block" ] && (cd "$CLONE" && eval "$(sed "s/ *# .*//; s/ ID\b/ ${2:-}/; s/\b9472\b/${ports[1]}/; /\\\\$/!s/$/ \&\&/" <<<"$block") true") >"$WORK/page$1${2:-}.log" 2>&1
}
installed() { # what the chart makes of the page's values
	export GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$WORK/cache GOFLAGS=-p=2
	go build -o "$WORK/chart" tools/chart.go && "$WORK/chart" deploy/chart templates/aggregator.yaml sysom "$WORK/values.json" >"$WORK/installed.yaml" &&
		"$WORK/chart" deploy/chart templates/secrets.yaml sysom "$WORK/values.json" | grep -q 'namespace: "ml"$' &&
		[ -z "$("$WORK/chart" deploy/chart templates/sidecar.yaml sysom "$WORK/values.json")" ]
}
small() { local bytes; bytes=$(stat -c %s "$CLONE/build/image/sysom.tar"); echo "# $((bytes / 1000000)) MB"; [ "$bytes" -lt 80000000 ]; }
# Two builds of one tree.
reproducible() { deploy/image.sh "$PACKAGES" "$WORK/again.tar" >/dev/null 2>&1 && cmp "$CLONE/build/image/sysom.tar" "$WORK/again.tar"; }
lists_all() { jq -e '[.packages[].name] | index("libc6") and index("sysomd") and (length > 20)' "${1%.tar}.spdx.json" >/dev/null; }
# What the image's own loader finds for its programs, by the packages that this machine has it from.
lists_what_is_linked() { # image
	local program path count=0 listed package
	listed=$(jq -r '.packages[].name' "${1%.tar}.spdx.json")
	mkdir "$WORK/image" && tar -C "$WORK/image" -xf "$1" || return
	for program in "$WORK"/image/usr/bin/sysom*; do
		chroot "$WORK/image" /lib64/ld-linux-x86-64.so.2 --list "${program#"$WORK/image"}" || return
	done >"$WORK/linked"
	for path in $(grep -o ' /[^ ]*' "$WORK/linked" | sort -u); do
		package=$(dpkg -S "$path" "/usr$path" "${path#/usr}" 2>/dev/null | head -n 1)
		grep -qxF -- "${package%%:*}" <<<"$listed" || { echo "# $path is of \"${package%%:*}\", which is not listed"; return 1; }
		count=$((count + 1))
	done
	echo "# $count libraries"
	[ $count -ge 20 ]
}
# The image of a job: the simulated drivers and simjob, nothing of sysom.
trainer() {
	mkdir "$WORK/trainer" && tar -C "$WORK/trainer" -xf "$CLONE/build/image/sysom.tar" && rm "$WORK"/trainer/usr/bin/sysom* &&
		dpkg-deb -x "$PACKAGES"/sysom-sim_*.deb "$WORK/trainer" && tar -C "$WORK/trainer" -cf "$WORK/trainer.tar" .
}
imported() { pod import -q "$WORK/trainer.tar" "localhost/trainer:$TAG"; }
# Each Pod's Secret as a directory of the host, with the owner and the mode that Kubernetes gives it.
secret() { # pod name use group mode names
	local dir=$WORK/tls-$1
	pki_issue "$WORK/pki" "$2" "$3" "-1 hour" "+1 day" "$6" && install -d -m 755 "$dir" && install -m 644 "$WORK/pki/ca.crt" "$dir/ca.crt" &&
		install -m 644 "$WORK/pki/$2.crt" "$dir/tls.crt" && install -g "$4" -m "$5" "$WORK/pki/$2.key" "$dir/tls.key" &&
		install -g "$4" -m "$5" "$WORK/upload-token" "$dir/upload-token"
}
# The files of tokens, and the settings of `sysom`, which asks from this machine as root.
tokens() {
	install -d -m 755 "$WORK/tls-http" "$WORK/home/.config/sysom" &&
		(umask 077; openssl rand -hex 32 >"$WORK/upload-token"; echo "upload nodes $(cat "$WORK/upload-token")" >"$WORK/tokens") &&
		install -g 65532 -m 0440 "$WORK/tokens" "$WORK/tls-http/tokens" &&
		printf 'url: %s\nca: %s\n' "$URL" "$WORK/pki/ca.crt" >"$WORK/home/.config/sysom/sysom.yaml"
}
secrets() {
	chmod 755 "$WORK" && tokens && pki_authority "$WORK/pki" && secret aggregator sysom-aggregator serverAuth 65532 0440 sysom-aggregator,DNS:localhost,IP:127.0.0.1 &&
		mkdir "$WORK/tls-training" && secret train-restricted train-restricted clientAuth 0 0440 '*.ml' &&
		secret gpu7 gpu7 clientAuth 0 0400 gpu7 && mkdir -p "$WORK"/host/var/lib/sysom/{job,state} &&
		install -g 65532 -m 0440 "$WORK/tokens" "$WORK/tls-http/node-tokens" && cp "$WORK/tls-gpu7/tls.crt" "$WORK/tls-http/node-tls.crt" &&
		cp "$WORK/tls-gpu7/tls.key" "$WORK/tls-http/node-tls.key"
}
training_secret() { secret training training clientAuth 0 0400 '*.ml'; }
# A manifest as this podman can play it: no native sidecars, no StatefulSet, no probes.
cat >"$WORK/playable.py" <<'PY'
import os, sys, yaml
source, tag, nng, http, node_http, work, name, *command = sys.argv[1:]
objects = list(yaml.safe_load_all(open(source)))
p = next((o for o in objects if o["kind"] == "Pod"), None)
daemon_set = False
if not p:
    owner = next(o for o in objects if o["kind"] in ("StatefulSet", "DaemonSet"))
    daemon_set = owner["kind"] == "DaemonSet"
    p = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": owner["spec"]["template"]["spec"]}
    if not daemon_set:
        p["spec"]["volumes"].append({"name": "store", "emptyDir": {}})
p["metadata"]["name"] = name
# Kept: podman 4.3 at times removes one before it knows of its end, and fails.
p["metadata"]["annotations"] = {"io.podman.annotations.init.container.type": "always"}
spec = p["spec"]
init = spec.pop("initContainers", [])
spec["initContainers"] = [c for c in init if "restartPolicy" not in c]
spec["containers"] = [c for c in init if "restartPolicy" in c] + spec["containers"]
spec["hostNetwork"] = True
for v in spec["volumes"]:
    if v.pop("secret", None) or v["name"] == "sysom-tls":
        v["hostPath"] = {"path": f"{work}/tls-{'http' if 'http' in v['name'] else name}"}
    elif v["name"] == "sysom" and os.path.isdir(f"{work}/volume-{name}"):
        v.pop("emptyDir")
        v["hostPath"] = {"path": f"{work}/volume-{name}"}
    elif "hostPath" in v:
        v["hostPath"]["path"] = f"{work}/host{v['hostPath']['path']}"
values = {"POD_NAMESPACE": "ml", "POD_NAME": name, "NODE_NAME": "gpu7", "SYSOM_UPLINK_URL": f"tcp://127.0.0.1:{nng}", "SYSOM_NNG_LISTEN": f"tcp://127.0.0.1:{nng}",
          "SYSOM_UPLINK_HTTP": f"https://127.0.0.1:{http}",
          "SYSOM_HTTP_LISTEN": f"127.0.0.1:{node_http if daemon_set else http}", "SYSOM_NODE_NAME": name if daemon_set else f"{name}.ml", "SYSOM_JOB": name}
for c in spec["initContainers"] + spec["containers"]:
    c.get("securityContext", {}).pop("appArmorProfile", None)
    for key in ("startupProbe", "livenessProbe", "readinessProbe", "restartPolicy", "resources", "ports"):
        c.pop(key, None)
    if ":" not in c["image"]:
        c["image"] = f"localhost/{c['image']}:{tag}"
    c["imagePullPolicy"] = "Never"
    for e in c.get("env", []):
        e.pop("valueFrom", None)
        if e.get("value") != "":
            e["value"] = values.get(e["name"], e.get("value"))
        if e["name"] == "SYSOM_URL":
            e["value"] = e["value"].replace("sysom-aggregator.sysom.svc", "127.0.0.1").replace(":9472", f":{http}")
    c.setdefault("env", []).append({"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"})  # as in every container
    if "Unconfined" in str(c.get("securityContext")):
        p["metadata"]["annotations"]["seccomp.security.alpha.kubernetes.io/pod"] = "unconfined"
    if c["name"] == "trainer":
        c["command"] = command
yaml.safe_dump(p, sys.stdout)
PY
playable() { # manifest name command...: name.yaml
	/usr/bin/python3 "$WORK/playable.py" "$1" "$TAG" "${ports[0]}" "${ports[1]}" "${ports[2]}" "$WORK" "${@:2}" >"$WORK/$2.yaml"
}
play() { # the same
	playable "$@" && pod play kube "$WORK/$2.yaml" >"$WORK/$2.log" 2>&1
}
# podman 4.3 does not know hostPID: the same containers, one by one.
cat >"$WORK/runs.py" <<'PY'
import shlex, sys, yaml
p = yaml.safe_load(open(sys.argv[1]))
name, spec = p["metadata"]["name"], p["spec"]
paths = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"]}
assert spec["hostPID"]
for c, once in [(c, True) for c in spec["initContainers"]] + [(c, False) for c in spec["containers"]]:
    rights = c["securityContext"]
    words = ["--rm" if once else "-d", "--name", f"{name}-{c['name']}", "--pid=host", "--network=host", f"--user={rights['runAsUser']}",
             "--security-opt=no-new-privileges"] + ["--read-only"] * rights["readOnlyRootFilesystem"]
    words += [f"--cap-drop={r}" for r in rights["capabilities"]["drop"]] + [f"--cap-add={r}" for r in rights["capabilities"].get("add", [])]
    words += ["--security-opt=seccomp=unconfined"] * (rights["seccompProfile"]["type"] == "Unconfined")
    words += [f"--volume={paths[m['name']]}:{m['mountPath']}" + ":ro" * m.get("readOnly", False) for m in c["volumeMounts"]]
    words += [f"--env={e['name']}={e['value']}" for e in c.get("env", [])]
    print("pod run", shlex.join(words + [c["image"]] + c["command"]), "&&")
print("true")
PY
run_on_node() { # manifest name
	playable "$@" && eval "$(/usr/bin/python3 "$WORK/runs.py" "$WORK/$2.yaml")" >"$WORK/$2.log" 2>&1
}
cli() { HOME=$WORK/home "$BIN/sysom" "$@"; }
named() { curl -sf --cacert "$WORK/pki/ca.crt" "$URL/metrics" | grep -q '^sysom_aggregator_symbol_files [1-9]'; }
answers() { curl -sf --cacert "$WORK/pki/ca.crt" "$URL/healthz" >/dev/null; }
runs_as() { is "$(stat -c %u "/proc/$(pod inspect "$1" --format '{{.State.Pid}}')")" "$2"; }
admitted() { # manifest with the policy, level of the namespace
	cat >"$WORK/bare.yaml" <<-POD
		apiVersion: v1
		kind: Pod
		metadata: {name: bare, labels: {sysom.io/trace: enabled, sysom.io/job: bare}}
		spec:
		  securityContext: {runAsNonRoot: true, runAsUser: 1000}
		  containers: [{name: trainer, image: trainer}]
	POD
	node tests/kubernetes/admit.mjs "deploy/kubernetes/$1.yaml" "$WORK/bare.yaml" "$2" >"$WORK/$1.yaml"
}
written_out() { # the page has the rights that the policy gives, for Pods without it
	page_block deploy/README.md "A sidecar without privileges" 1 >"$WORK/rights.yaml" && /usr/bin/python3 - "$WORK" <<'PY'
import sys, yaml
page, pod = (yaml.safe_load(open(f"{sys.argv[1]}/{name}.yaml")) for name in ("rights", "sidecar"))
given = [dict(c["securityContext"]) for c in pod["spec"]["initContainers"]]
assert [g.pop("readOnlyRootFilesystem") for g in given] == [True, True]
assert given == [page["securityContext"]] * 2, given
PY
}
has_steps() { # container of a sysomd, ranks
	pod exec "$1" /usr/bin/sysom status --json | holds --argjson n "$2" '[.node.ranks[] | select(.state == "attached" and .steps > 20)] | length == $n'
}
has_models() { # container ranks
	pod exec "$1" /usr/bin/sysom status --json | holds --argjson n "$2" '[.node.ranks[] | select(.model == "ready" and .expected_ms > 0)] | length == $n'
}
serves() { pod exec -d -e SYSOM_JOB=served "$1-trainer" /usr/bin/simjob --mix serve --ranks 2 --seconds 3600 --seed 7 >/dev/null; } # pod
fits() { # container ranks
	pod exec "$1" /usr/bin/sysom status --json | holds --argjson n "$2" '[.node.ranks[] | select(.job | startswith("served@")) |
		select(any(.models[]; .state == "ready" and .r2 > 0.95 and .r2 <= 1))] | length == $n'
}
sees_node() { is "$(readlink "/proc/$(pod inspect gpu7-sysomd --format '{{.State.Pid}}')/ns/pid")" "$(readlink /proc/self/ns/pid)"; }
apart() { [ "$(readlink "/proc/$(pod inspect "$1" --format '{{.State.Pid}}')/ns/pid")" != "$(readlink /proc/self/ns/pid)" ]; }
blamed() { # pod cause [node]
	cli incidents --json | holds --arg pod "$1" --arg cause "$2" '[.incidents[].id] as $ids | $ids | length > 0' || return
	local id
	for id in $(cli incidents --json | jq -r '.incidents[].id'); do
		cli show "$id" --json | holds --arg pod "$1" --arg cause "$2" --arg node "${3:-$1.ml}" \
			'.nodes == [$node] and .ranks == [2] and .diagnosis.cause == $cause and
			.pods == [{namespace: "ml", pod: $pod, container: "trainer", hostname: "gpu7", ranks: [2]}]' >/dev/null && return
	done
	return 1
}
shown() { # pod
	local id place="ml/$1, container trainer, host gpu7"
	id=$(cli incidents --json | jq -r '.incidents[-1].id')
	cli show "$id" | grep -qx "  pod *$place" && cli report "$id" -o "$WORK/$1.html" >/dev/null && grep -qF "; pod $place" "$WORK/$1.html"
}
counted() { # pod
	curl -sf --cacert "$WORK/pki/ca.crt" "$URL/metrics" >"$WORK/metrics.txt"
	is "$(grep -c "^sysom_rank_info{.*namespace=\"ml\",pod=\"$1\",container=\"trainer\",hostname=\"gpu7\"} 1" "$WORK/metrics.txt")" 4 &&
		grep -q "^sysom_incident_open{.*pods=\"ml/$1/trainer\"" "$WORK/metrics.txt"
}
incidents_page() {
	local id
	id=$(cli incidents --json | jq -r '.incidents[-1].id') && page 1 "$id" && grep -q "$id" "$WORK/page3.log" &&
		grep -qx "  pod *ml/training, container trainer, host gpu7" "$WORK/page1$id.log" &&
		grep -q '</html>' "$CLONE/incident.html" && [ -s "$CLONE/incident.perfetto" ]
}
forwarded_page() { # with a `sysom` of one's own
	local id url
	id=$(cli incidents --json | jq -r '.incidents[-1].id') && url=$(grep -o 'https://localhost:9472/incidents/ID' deploy/README.md) &&
		(PATH=$HERE/$BIN:$PATH HOME=$WORK page 2 "$id") && grep -q "$id" "$WORK/page2$id.log" &&
		curl -sf --cacert "$CLONE/ca.crt" "$(sed "s/9472/${ports[1]}/; s/ID/$id/" <<<"$url")" | grep -q "pod ml/training, container trainer, host gpu7"
}
asks_the_aggregator() { pod exec training-sysomd /usr/bin/sysom status | grep -q "^cluster *$URL  sysom-aggregator "; }
# A container of the Pod that has musl and a program, nothing else.
musl_image() {
	mkdir -p "$WORK/musl"/{lib,proc,sys,dev,sysom} && cp -L /lib/ld-musl-x86_64.so.1 "$WORK/musl/lib" && musl-gcc -o "$WORK/musl/job" -xc - <<-'C' &&
		#include <stdio.h>
		#include <unistd.h>
		int main(int argc, char **argv) { puts("ran"); if (argc > 1) pause(); return 7; }
	C
		tar -C "$WORK/musl" -cf "$WORK/musl.tar" . && pod import -q "$WORK/musl.tar" "localhost/musl:$TAG" >/dev/null &&
		volume=$(pod inspect training-trainer --format '{{range .Mounts}}{{if eq .Destination "/sysom"}}{{.Source}}{{end}}{{end}}') &&
		[ -e "$volume/lib/libsysom_preload.so" ]
}
in_musl() { # LD_PRELOAD options -- : the job in such a container
	pod run --pod training -v "$volume:/sysom:ro" -e LD_PRELOAD="$1" "${@:2}" "localhost/musl:$TAG" /job
}
runs_with_musl() { is "$(in_musl "$1" --rm 2>&1; echo $?)" $'ran\n7'; }
refusal_is_told() {
	pod run -d --pod training -v "$volume:/sysom:ro" -e LD_PRELOAD='/sysom/$LIB/libsysom_preload.so' "localhost/musl:$TAG" /job wait >/dev/null &&
		stack_wait 10 eval 'pod exec training-sysomd /usr/bin/sysom doctor | grep -q "untraced .*(job): their C library is musl"'
}
# An eviction: one second of grace, then all is gone.
evicted() {
	namespace=$(readlink "/proc/$(pod inspect training-trainer --format '{{.State.Pid}}')/ns/pid")
	volumes=$(pod inspect training-sysomd --format '{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{end}}{{end}}')
	pod logs -f training-sysomd >"$WORK/evicted.log" 2>&1 &
	[ -n "$namespace" ] && [ -n "$volumes" ] && stack_wait 10 grep -q event=window_acked "$WORK/evicted.log" && pod pod rm -f -t 1 training >/dev/null 2>&1
}
acked_are_stored() {
	local id count=0
	for id in $(sed -n 's/.*event=window_acked .*id=\([0-9a-f]*\).*/\1/p' "$WORK/evicted.log"); do
		curl -sf -o /dev/null --cacert "$WORK/pki/ca.crt" "$URL/api/v1/windows/$id" || { echo "# no window $id"; return 1; }
		count=$((count + 1))
	done
	echo "# $count windows"
	[ $count -gt 0 ]
}
ranks_are_gone() {
	curl -sf --cacert "$WORK/pki/ca.crt" "$URL/api/v1/ranks" | holds '[.ranks[] | select(.pod == "training")] | length == 4 and all(.alive | not)'
}
nothing_is_left() {
	local v
	readlink /proc/[0-9]*/ns/pid | grep -qxF "$namespace" && return 1
	for v in $volumes; do ! pod volume exists "$v" || return; done
}
# A volume that takes no file. Kubernetes starts no job after an init container that fails, nor after a sidecar that it
# never sees run; it looks about once a second.
poor_volume() { mkdir "$WORK/tls-$1" "$WORK/volume-$1" && mount -t tmpfs -o size=64k none "$WORK/volume-$1" && poor+=("$1"); }
full() { poor_volume full && ! dd if=/dev/zero of="$WORK/volume-full/ballast" bs=4k 2>/dev/null; }
readonly_one() { poor_volume readonly && mount -o remount,ro "$WORK/volume-readonly"; }
poor=()
poor_end() { local p; for p in "${poor[@]}"; do umount -l "$WORK/volume-$p"; done; }
steps_more() { [ "$(pod logs "$1-trainer" 2>/dev/null | grep -c '"step":')" -ge 10 ]; }
runs_untraced() { play "$CLONE/pod.yaml" "$1" /usr/bin/simjob --ranks 2 --seconds 3600 --truth /dev/stdout && stack_wait 20 steps_more "$1"; } # pod
ends_well() { # pod: its job, which printed what it prints elsewhere, beside the loader's line
	pod kill --signal USR1 "$1-trainer" >/dev/null && is "$(pod wait "$1-trainer")" 0 && is "$(pod logs "$1-trainer" 2>&1 | grep -v '^{' |
		grep -v "^ERROR: ld.so: object '/sysom/[^ ]* from LD_PRELOAD cannot be preloaded .*: ignored.$")" ""
}
doctor_names() { pod exec "$1-sysomd" /usr/bin/sysom doctor | grep -q "untraced .*(simjob): their loader did not find it"; } # pod
installer_says() {
	is "$(pod logs "$1-sysom-preload" 2>&1)" "sysom preload: /sysom/lib/x86_64-linux-gnu: $2; programs that don't find libsysom_preload.so run untraced"
}
was_seen() { # pod status
	is "$(pod wait "$1-sysomd")" "$2" &&
		[ "$(pod inspect "$1-sysomd" --format '{{.State.FinishedAt.Unix}}')" -ge "$(($(pod inspect "$1-sysomd" --format '{{.State.StartedAt.Unix}}') + 5))" ]
}
FAULT=(--ranks 4 --seconds 300 --seed 7 --fault late:rank=2:start=12s:steps=2000:size=2)
says() { pod logs "$1-sysomd" 2>&1 | grep -q "$2"; }

ok "the page's commands: the image, the chart, a Pod" page 1
ok "make of the chart an aggregator and the Secrets, and no policy" installed
ok "and a Pod with the image" is "$(grep -c "image: $IMAGE$" "$CLONE/pod.yaml")" 2
ok "of less than 80 MB" small
ok "the same again, byte for byte" reproducible
ok "with a list of what is in it" lists_all "$CLONE/build/image/sysom.tar"
ok "every library that its programs link among it" lists_what_is_linked "$CLONE/build/image/sysom.tar"
ok "and one of a job" trainer
ok "which podman knows, too" imported
ok "and an authority with a certificate for each Pod" secrets
ok "the aggregator's Pod starts" play "$WORK/installed.yaml" aggregator
ok "and answers" stack_wait 20 answers
ok "not as root" runs_as aggregator-aggregator 65532
ok "the page's commands: the job's Pod starts, and its sidecar answers" page 2
ok "without its Secret it says so" stack_wait 10 says training 'effect="no connection until the files are usable"'
ok "and traces the job" stack_wait 20 has_steps training-sysomd 4
ok "the Secret comes" training_secret
ok "its sidecar connects by TLS" stack_wait 20 says training "connected by TLS"
ok "and may use BPF" stack_wait 10 says training "event=sampler mode=bpf"
ok "namespace, Pod, container, rank and cause are named" stack_wait 25 blamed training cpu-sleep
ok "also to people" shown training
ok "the page's commands: incidents, read in the aggregator's Pod" page 3
ok "and how to read them there, as its user" incidents_page
ok "or at home by a forwarded port, as the page in a browser, too" forwarded_page
ok "status in the sidecar asks the cluster's aggregator" asks_the_aggregator
ok "and to Prometheus" stack_wait 5 counted training
ok "the sidecar sends symbol files over https, with its token" stack_wait 20 named
ok "a container with musl in that Pod" musl_image
ok "runs untouched" runs_with_musl '/sysom/$LIB/libsysom_preload.so'
ok "also with a path that musl finds" runs_with_musl /sysom/lib/libsysom_preload.so
ok "and doctor in the sidecar says why it is not traced" refusal_is_told
ok "the Pod is evicted while its windows are sent" evicted
ok "what was acknowledged is stored" acked_are_stored
ok "the aggregator says that the ranks are gone" stack_wait 20 ranks_are_gone
ok "no process and no volume is left" stack_wait 5 nothing_is_left
ok "a volume that is full" full
ok "keeps no job from running" runs_untraced full
ok "and the init container says why it is untraced" installer_says full "No space left on device"
ok "doctor in the sidecar names its programs" stack_wait 10 doctor_names full
ok "it ends well" ends_well full
pod pod rm -f -t 1 full >/dev/null 2>&1
ok "a volume that is read-only" readonly_one
ok "keeps no job from running" runs_untraced readonly
ok "and the init container says why it is untraced" installer_says readonly "Read-only file system"
ok "the sidecar says so, too" stack_wait 10 says readonly "event=socket /sysom/sysomd.sock: Read-only file system"
ok "the job ends well" ends_well readonly
ok "and is there for long enough that Kubernetes starts the job" was_seen readonly 3
ok "as is one with a bad setting" is "$(KUBERNETES_SERVICE_HOST=x timeout 5 "$BIN/sysomd" --log-level none 2>/dev/null; echo $?)" 124
pod pod rm -f -t 1 readonly >/dev/null 2>&1
if python3 tests/needs.py file:tests/kubernetes/node_modules/kubernetes-models >/dev/null; then
	ok "the policy makes a Pod for a restricted namespace" admitted sidecar restricted
	ok "with the rights that the page names" written_out
	ok "it starts" play "$WORK/sidecar.yaml" train-restricted /usr/bin/simjob "${FAULT[@]}"
	ok "its sidecar is the job's user" runs_as train-restricted-sysomd 1000
	ok "connects by TLS" stack_wait 10 says train-restricted "connected by TLS"
	ok "and says what is missing" stack_wait 10 says train-restricted "mode=off.*CAP_BPF"
	ok "for stacks and for OS signals" stack_wait 10 says train-restricted "event=os_signals bpf=0 why="
	ok "each rank has steps" stack_wait 20 has_steps train-restricted-sysomd 4
	ok "its roofline: each rank has a model of them" stack_wait 20 has_models train-restricted-sysomd 4
	ok "Pod and rank are named all the same" stack_wait 25 blamed train-restricted cpu-host-gap
	ok "a job there whose steps differ in work" serves train-restricted
	ok "its roofline: each rank has a model that fits, with its R2" stack_wait 30 fits train-restricted-sysomd 2
	pod pod rm -f -t 1 train-restricted >/dev/null 2>&1
	ok "the DaemonSet starts" run_on_node deploy/kubernetes/daemonset.yaml gpu7
	ok "and sees the node's processes" stack_wait 10 sees_node
	ok "connects by TLS" stack_wait 10 says gpu7 "connected by TLS"
	ok "its policy makes a Pod without a sidecar" admitted daemonset privileged
	ok "it starts" play "$WORK/daemonset.yaml" train-node /usr/bin/simjob "${FAULT[@]}"
	ok "in processes of its own" apart train-node-trainer
	ok "the DaemonSet traces it" stack_wait 20 has_steps gpu7-sysomd 4
	ok "namespace, Pod, container, rank and cause are named" stack_wait 25 blamed train-node cpu-sleep gpu7
else
	skip "a Pod for a restricted namespace" "needs file:tests/kubernetes/node_modules/kubernetes-models"
fi
pod_end
poor_end
finish
