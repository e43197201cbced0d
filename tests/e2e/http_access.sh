#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# http_access.sh - who gets what over HTTP: TLS, tokens, roles and the audit lines of both daemons, the
# settings file of sysom, and two users at sysomd's control socket. The servers listen on an address that
# is not loopback, in a network namespace of this test's own.
. "$(dirname "$0")/lib.sh"
. tests/e2e/pki.sh
why=$(/usr/bin/python3 tests/needs.py root command:openssl command:ip command:unshare) || { echo "1..0 # SKIP $why"; exit 77; }
[ -n "${HTTP_ACCESS_INSIDE:-}" ] || HTTP_ACCESS_INSIDE=1 exec unshare --net bash "$0"
HOST=192.0.2.1
unshare --net sleep 1000 & # the server's machine
far=$!
far_is_apart() { [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }
cable() {
	ip link add near type veth peer name far && ip link set far netns $far && ip addr add 192.0.2.2/24 dev near &&
		ip link set near up && ip link set lo up && on_far ip addr add $HOST/24 dev far && on_far ip link set far up && on_far ip link set lo up
}
on_far() { nsenter -t $far --net "$@"; }
stack_wait 10 far_is_apart
cable 2>"$WORK/ip.log" || { echo "1..0 # SKIP needs network namespaces: $(tail -n 1 "$WORK/ip.log")"; exit 77; }
PORT=19472
URL=https://$HOST:$PORT
ADMIN=admin-token-0123456789abcdef READ=read-token-0123456789abcdef UPLOAD=upload-token-0123456789abcdef
NEXT=next-token-0123456789abcdefgh ANN=ann-token-0123456789abcdefgh BOB=bob-token-0123456789abcdefgh
chmod 755 "$WORK"

# ---- certificates ----
issue() { # name [from to [address]]
	pki_issue "$WORK/pki" "$1" serverAuth "${2:--1 hour}" "${3:-+1 day}" "x,IP:${4:-$HOST}"
}
certificates() {
	pki_authority "$WORK/pki" && issue good && issue next && issue expired "-2 days" "-1 day" &&
		issue other "-1 hour" "+1 day" 192.0.2.9 && pki_authority "$WORK/foreign" &&
		pki_issue "$WORK/foreign" alien serverAuth "-1 hour" "+1 day" "x,IP:$HOST" && cp "$WORK/foreign/alien".* "$WORK/pki"
}
use() { # certificate: as an administrator replaces one
	cp "$WORK/pki/$1.key" "$WORK/new.key" && chmod 600 "$WORK/new.key" && cp "$WORK/pki/$1.crt" "$WORK/new.pem" &&
		mv "$WORK/new.key" "$WORK/server.key" && mv "$WORK/new.pem" "$WORK/server.pem"
}
serial() { # of the certificate that the server shows
	openssl s_client -connect $HOST:$PORT </dev/null 2>/dev/null | openssl x509 -noout -subject 2>/dev/null
}
shows() { [[ $(serial) == *"$1" ]]; }

# ---- the aggregator ----
tokens() { # line...
	printf '%s\n' "$@" >"$WORK/tokens.new" && chmod 640 "$WORK/tokens.new" && mv "$WORK/tokens.new" "$WORK/tokens"
}
settings=(--http-listen $HOST:$PORT --nng-listen "ipc://$WORK/nng.sock" --store-dir "$WORK/store"
	--http-tokens "$WORK/tokens" --http-certificate "$WORK/server.pem" --http-key "$WORK/server.key")
refuses_start() { refuses_start_of sysom-aggregator "$1" "${settings[@]}" "${@:2}"; } # text flag...
refuses_start_of() { # program text flag...
	local program=$1 text=$2
	shift 2
	timeout 10 "$BIN/$program" "$@" --check-config >"$WORK/refusal.log" 2>&1
	[ $? = 2 ] && grep -q -- "$text" "$WORK/refusal.log" || { sed 's/^/# /' "$WORK/refusal.log"; return 1; }
}
status() { # token path [curl argument...]
	local token=$1 path=$2
	shift 2
	curl -s -m 10 -o "$WORK/answer" -w '%{http_code}' --cacert "$WORK/pki/ca.crt" \
		${token:+-H "Authorization: Bearer $token"} "$@" "$URL$path"
}
gets() { [ "$(status "$2" "$3" "${@:4}")" = "$1" ] || { echo "# $(cat "$WORK/answer")"; return 1; }; }
says() { grep -q -- "$1" "$WORK/answer"; }
healthy() { gets 200 "" /healthz; }
logged() { grep -q -- "$1" "$WORK/aggregator.log"; }

ok "openssl makes the certificates" certificates
use good
tokens "admin ops $ADMIN" "read grafana $READ uid=*" "upload nodes sha256:$(printf %s $UPLOAD | sha256sum | cut -d' ' -f1)"
chmod 644 "$WORK/tokens"
ok "a file of tokens that others may read is refused" refuses_start "tokens has mode 0644, so that others may read it; chmod 640"
chmod 640 "$WORK/tokens"
chmod 644 "$WORK/server.key"
ok "so is such a key" refuses_start "server.key has mode 0644"
chmod 600 "$WORK/server.key"
ok "a key of another certificate is refused" refuses_start "key" --http-key "$WORK/pki/next.key"
ok "so is a user by name where a number is needed" refuses_start "not a list of uids" --http-see-all prometheus
ok "tokens without TLS are refused" refuses_start "would cross the network unencrypted" --http-certificate "" --http-key ""
ok "an address beyond this machine without tokens is refused" refuses_start \
	"is beyond this machine, where requests need tokens; set http.tokens, or listen on 127.0.0.1" --http-tokens ""
ok "by sysomd too" refuses_start_of sysomd "where requests need tokens" --http-listen 0.0.0.0:0
known() { # more lines: the tokens that all of this uses, and these
	tokens "admin ops $ADMIN" "read grafana $READ uid=*" "read ann $ANN uid=61241" "read bob $BOB uid=61242" \
		"upload nodes sha256:$(printf %s $UPLOAD | sha256sum | cut -d' ' -f1)" "$@"
}
known
on_far "$BIN/sysom-aggregator" "${settings[@]}" >"$WORK/aggregator.log" 2>&1 &
ok "the aggregator serves https" stack_wait 20 healthy

# ---- every request that docs/INTERFACES.md has ----
documented() { # daemon: METHOD PATH
	sed -n "/^## $1\$/,/^## /p" docs/INTERFACES.md | grep -oE '^(GET|POST|PUT|DELETE) /[^] ?[]*' |
		sed 's/SESSION/0000000000000001/'
	echo GET /metrics
	echo GET /nothing
}
audits() { grep -c level=audit "$1"; } # log
request() { # origin token method path: the answer's status
	local body=()
	[ "$3" = GET ] || [ "$3" = DELETE ] || body=(-H "Content-Type: application/json" -d '{}')
	curl -s -m 10 -o "$WORK/answer" -w '%{http_code}' --cacert "$WORK/pki/ca.crt" ${2:+-H "Authorization: Bearer $2"} -X "$3" \
		"${body[@]}" "$1$4"
}
answers_all() { # status daemon origin token method... : each documented request by one of these methods
	local status=$1 daemon=$2 origin=$3 token=$4 count=0 method path
	while read -r method path; do
		[[ " ${*:5} " == *" $method "* ]] || continue
		count=$((count + 1))
		is "$(request "$origin" "$token" "$method" "$path") $method $path" "$status $method $path" || return 1
	done < <(documented "$daemon")
	[ $count -ge 2 ]
}
audits_all() { # daemon origin log token who role question... : one line for each change, refused or not; none for questions
	local daemon=$1 origin=$2 log=$3 token=$4 line="who=\"$5\" role=$6 from=192.0.2.2:[0-9]* what=\"" count=0 method path before wanted status
	while read -r method path; do
		before=$(audits "$log")
		status=$(request "$origin" "$token" "$method" "$path")
		wanted=1
		[ "$method" = GET ] || [[ " ${*:7} " == *" $path "* ]] && wanted=0
		count=$((count + wanted))
		is "$(($(audits "$log") - before)) $method $path" "$wanted $method $path" || return 1
		[ $wanted = 0 ] || grep level=audit "$log" | tail -n 1 | grep -q "$line.*\" status=$status\( held_back=[0-9]*\)\?\$" ||
			{ echo "# $status $method $path: $(tail -n 1 "$log")"; return 1; }
	done < <(documented "$daemon")
	[ $count -ge 2 ]
}
ok "anonymous is refused, whatever the path" answers_all 401 aggregator "$URL" "" GET POST PUT DELETE
QUESTIONS="/api/v1/symbols/needed /api/v1/symbolize"
sleep 1 # a second has ten lines of refusals
# shellcheck disable=SC2086 # words are meant
ok "each change leaves one line" audits_all aggregator "$URL" "$WORK/aggregator.log" $ADMIN "token ops" admin $QUESTIONS
# shellcheck disable=SC2086
ok "so does each that a role forbids" audits_all aggregator "$URL" "$WORK/aggregator.log" $READ "token grafana" read $QUESTIONS

# ---- sysomd beyond its machine ----
NODE_URL=https://$HOST:19473
printf '%s\n' "admin ops $ADMIN" "read grafana $READ uid=*" >"$WORK/far-tokens" && chmod 600 "$WORK/far-tokens"
nsenter -t $far --net "$BIN/sysomd" --http-listen $HOST:19473 --http-tokens "$WORK/far-tokens" --http-certificate "$WORK/server.pem" \
	--http-key "$WORK/server.key" --uplink-url "" --sampler-mode off --socket-path "$WORK/far.sock" --control-path "$WORK/far.control" \
	--state-dir "$WORK/far" >"$WORK/far.log" 2>&1 &
NODE=$!
far_answers() { is "$(request $NODE_URL "" GET /healthz)" 200; }
ok "sysomd: /healthz is for everybody" stack_wait 20 far_answers
ok "sysomd: anonymous is refused, whatever the path" answers_all 401 sysomd $NODE_URL "" GET POST
ok "sysomd: so is a token of nobody" answers_all 401 sysomd $NODE_URL unknown-token-0123456789abcdef GET POST
ok "sysomd: who reads gets the metrics" is "$(request $NODE_URL $READ GET /metrics)" 200
ok "sysomd: and the status" is "$(request $NODE_URL $READ GET /api/v1/status)" 200
ok "sysomd: who reads changes nothing" answers_all 403 sysomd $NODE_URL $READ POST
sleep 1
ok "sysomd: each change leaves one line" audits_all sysomd $NODE_URL "$WORK/far.log" $ADMIN "token ops" admin
ok "sysomd: so does each that a role forbids" audits_all sysomd $NODE_URL "$WORK/far.log" $READ "token grafana" read
stack_end sysomd $NODE

inside() { # header... : what root gets on the aggregator's own machine
	on_far curl -sk -m 10 -o /dev/null -w '%{http_code}' "${@/#/-H}" "$URL/api/v1/jobs"
}
ok "on its own machine root needs no token" is "$(inside)" 200
for name in Forwarded Via X-Forwarded-For X-Real-IP CF-Connecting-IP True-Client-IP X-Of-Tomorrow; do
	ok "but a proxy there does: $name" is "$(inside "$name: 192.0.2.9")" 401
done
gets 401 "" /api/v1/jobs
ok "a stranger learns how to ask" says "Authorization: Bearer"
ok "an unknown token is refused" gets 401 unknown-token-0123456789abcdef /api/v1/jobs
ok "a token in the URL is refused, even a valid one" gets 400 "" "/api/v1/jobs?token=$ADMIN"
ok "a reader reads" gets 200 $READ /api/v1/jobs
ok "a browser's password reads as well" gets 200 "" /api/v1/jobs -u "any:$READ"
ok "a node does not read" gets 403 $UPLOAD /api/v1/jobs
ok "and learns why" says "has the role upload, and this needs read"
needed='{"files":[{"build_id":"00112233445566778899aabbccddeeff00112233","quality":"debug"}]}'
upload='{"build_id":"00112233445566778899aabbccddeeff00112233","quality":"debug","bytes":100}'
post() { gets "$1" "$2" "$3" -H "Content-Type: application/json" -d "$4"; }
ok "a reader uploads nothing" post 403 $READ /api/v1/symbols/uploads "$upload"
ok "a node does" post 201 $UPLOAD /api/v1/symbols/uploads "$upload"
session=$(jq -r .session "$WORK/answer")
before=$(audits "$WORK/aggregator.log")
ok "a piece of it" is "$(head -c 50 /dev/zero | status $UPLOAD "/api/v1/symbols/uploads/$session?offset=0" -X PUT \
	-H "Content-Type: application/octet-stream" --data-binary @-)" 202
ok "leaves no line, as it changes nothing yet" is "$(audits "$WORK/aggregator.log")" "$before"
ok "who gives it up does" eval 'gets 200 $UPLOAD "/api/v1/symbols/uploads/$session" -X DELETE &&
	logged "audit.*who=\"token nodes\" role=upload.*what=\"DELETE /api/v1/symbols/uploads/$session\" status=200"'
put_whole() { # file: all its bytes in one piece
	local id
	id=$(readelf -n "$1" | sed -n 's/.*Build ID: //p')
	post 201 $UPLOAD /api/v1/symbols/uploads "{\"build_id\":\"$id\",\"quality\":\"table\",\"bytes\":$(stat -Lc %s "$1")}" &&
		session=$(jq -r .session "$WORK/answer") &&
		gets 201 $UPLOAD "/api/v1/symbols/uploads/$session?offset=0" -X PUT -H "Content-Type: application/octet-stream" --data-binary "@$1"
}
ok "a whole file is stored" put_whole "$BIN/simjob"
ok "its last byte leaves a line" logged "audit.*who=\"token nodes\" role=upload.*what=\"PUT /api/v1/symbols/uploads/$session\" status=201"

# ---- two users' jobs in one cluster ----
CLIENT=$B/parts/aggregator_client
feed_of() { "$CLIENT" fault "ipc://$WORK/nng.sock" "$1" 8 3 >"$WORK/fault.log" 2>&1; } # job
both_there() { [ "$(status $ADMIN /api/v1/jobs)" = 200 ] && [ "$(jq '[.jobs[].job] | unique | length' "$WORK/answer")" = 2 ]; }
answer() { # token path jq-filter: what the answer says
	[ "$(status "$1" "$2")" = 200 ] && jq -rc "$3" "$WORK/answer"
}
stored() { [ "$(answer $ADMIN /api/v1/incidents '[.incidents[].job] | unique | length')" = 2 ]; }
ok "ann's and bob's jobs have a fault each" eval "feed_of train@61241 && feed_of train@61242"
ok "the reader of all jobs sees both" stack_wait 20 eval "both_there && stored"
for path in jobs ranks incidents; do
	ok "ann sees her own $path" is "$(answer $ANN /api/v1/$path "[.$path[].job] | unique | join(\",\")")" train@61241
	ok "and bob his" is "$(answer $BOB /api/v1/$path "[.$path[].job] | unique | join(\",\")")" train@61242
	ok "a name means her own job in $path" is \
		"$(answer $ANN "/api/v1/$path?job=train" "[.$path[].job] | unique | join(\",\")")" train@61241
	ok "another's job has none in $path" is "$(answer $ANN "/api/v1/$path?job=train@61242" ".$path | length")" 0
done
ok "the feed has her own alone" is "$(answer $ANN /api/v1/feed .job | sort -u)" train@61241
incident=$(answer $BOB /api/v1/incidents '.incidents[0].id')
window=$(answer $BOB "/api/v1/incidents/$incident" '.windows[0].id')
ok "bob opens his incident and its window" eval 'gets 200 $BOB "/incidents/$incident" && gets 200 $BOB "/api/v1/windows/$window"'
hides() { # path: the answer is that of a path that nobody has
	gets 404 $ANN "$1" && mv "$WORK/answer" "$WORK/hidden" && gets 404 $ANN "$2" && cmp "$WORK/hidden" "$WORK/answer"
}
ok "to ann his incident does not exist" hides "/api/v1/incidents/$incident" /api/v1/incidents/00000000
ok "nor by the beginning of its id" hides "/api/v1/incidents/${incident:0:6}" /api/v1/incidents/000000
ok "nor its page" hides "/incidents/$incident" /incidents/00000000
listed() { gets 200 "$1" /incidents && grep -qF "incidents/$incident" "$WORK/answer"; }
ok "nor is it in her list, as in his" eval 'listed $BOB && ! listed $ANN && gets 200 $ANN /incidents'
ok "nor its window" hides "/api/v1/windows/$window" /api/v1/windows/00000000000000000000000000000000
for path in roles waterline kinds baselines "sketch?rank=0"; do
	case $path in *\?*) and='&' ;; *) and='?' ;; esac
	ok "nor his job's ${path%%\?*}" hides "/api/v1/$path${and}job=train@61242" "/api/v1/$path${and}job=none@61242"
done
metrics_of() { status "$1" /metrics >/dev/null && grep -o 'job_name="[^"]*"' "$WORK/answer" | sort -u | tr '\n' ' '; }
ok "her metrics name her own job" is "$(metrics_of $ANN)" 'job_name="train@61241" '
ok "those of all name both" is "$(metrics_of $READ)" 'job_name="train@61241" job_name="train@61242" '
ok "she does not see the nodes" gets 403 $ANN /api/v1/nodes
ok "who sees all does" is "$(answer $READ /api/v1/nodes '[.nodes[].node] | sort | join(",")')" node-0,node-1

# ---- quotas ----
quota() { answer "$1" /api/v1/status '[.quota_windows, .quota_incidents] | join(" ")'; }
ok "nothing was removed" is "$(quota $READ)" "0 0"
ok "who sees all sees the largest job" is "$(answer $READ /api/v1/status .largest_job | sed 's/@.*//')" train
ok "ann does not" is "$(answer $ANN /api/v1/status .largest_job)" null
ok "the status says who sees all jobs, and who only their own" is "$(answer $READ /api/v1/status .all_jobs) $(answer $ANN /api/v1/status .all_jobs)" "true false"
ok "the log has the node's change" stack_wait 5 logged "audit.*token nodes"
ok "and no token" eval "! grep -q 'token-0123' '$WORK/aggregator.log'"

# ---- sysom ----
mkdir -p "$WORK/home/.config/sysom"
SETTINGS=$WORK/home/.config/sysom/sysom.yaml
write() { printf '%s\n' "$@" >"$SETTINGS"; chmod 600 "$SETTINGS"; }
unset SYSOM_URL
cli() { env -u SYSOM_URL HOME="$WORK/home" timeout 20 "$BIN/sysom" status "$@" >"$WORK/cli.log" 2>&1; }
cli_refuses() { # text argument...
	local text=$1
	shift
	cli "$@" && return 1
	grep -qi -- "$text" "$WORK/cli.log" || { sed 's/^/# /' "$WORK/cli.log"; return 1; }
}
write "url: $URL" "ca: $WORK/pki/ca.crt" "token: $READ"
ok "sysom reads url, ca and token from its file" cli
chmod 644 "$SETTINGS"
ok "others may not read a file with a token" cli_refuses "chmod 640"
chmod 600 "$SETTINGS"
ok "the token goes to the file's url alone" cli_refuses "401\|certificate" --url "https://$HOST:$PORT/"x
write "url: http://$HOST:$PORT" "token: $READ"
ok "and never over plain http" cli_refuses "would cross the network unencrypted"
write "url: http://$HOST:$PORT"
ok "http to an https server is reported" cli_refuses "Try https://"
write "url: $URL" "ca: $WORK/foreign/ca.crt" "token: $READ"
ok "a certificate of another authority is reported" cli_refuses "check the server's certificate"
write "url: $URL" "ca: $WORK/pki/ca.crt" "tokn: $READ"
ok "a misspelt setting is reported" cli_refuses "no such setting"
write "url: $URL" "ca: $WORK/pki/ca.crt" "token: $READ"

# ---- new certificates and tokens, no restart ----
use expired
ok "a new certificate is used without a restart" stack_wait 10 shows expired
ok "sysom refuses an expired one" cli_refuses "certificate"
grep -h . "$WORK/cli.log" | sed 's/^/# /'
use other
stack_wait 10 shows other
ok "and one of another address" cli_refuses "certificate"
grep -h . "$WORK/cli.log" | sed 's/^/# /'
use alien
stack_wait 10 shows alien
ok "and one of a foreign authority" cli_refuses "certificate"
cp "$WORK/pki/good.crt" "$WORK/server.pem"
ok "a certificate without its key leaves the one before" stack_wait 10 eval 'serial; logged "is not the key of"'
ok "which is still shown" shows alien
use next
ok "the next good one is shown" stack_wait 10 shows next
ok "and sysom reads again" cli
tokens "read grafana $NEXT uid=*"
ok "a new token works without a restart" stack_wait 10 gets 200 $NEXT /api/v1/jobs
ok "the old one does not" gets 401 $READ /api/v1/jobs
echo "nonsense" >"$WORK/tokens"
ok "an unsound file is reported" stack_wait 10 eval "gets 200 $NEXT /api/v1/jobs; logged 'the tokens read before stay valid'"
ok "and leaves the tokens before" gets 200 $NEXT /api/v1/jobs

# ---- two users of one node ----
mkdir "$WORK/copy" && cp -r "$BIN" "$B/lib" "$WORK/copy" && chmod -R go+rX "$WORK/copy"
export SYSOM_SOCKET_PATH=$WORK/sysomd.sock SYSOM_CONTROL_PATH=$WORK/control.sock
NODE_HTTP=http://127.0.0.1:$(free_ports 1)/api/v1
NODE_ADMIN=$(openssl rand -hex 32)
NODE_READ=$(openssl rand -hex 32)
(umask 077 && printf 'admin ops %s\nread grafana %s uid=*\n' "$NODE_ADMIN" "$NODE_READ" >"$WORK/node-tokens")
"$BIN/sysomd" --http-listen "$(sed 's|http://\(.*\)/api/v1|\1|' <<<"$NODE_HTTP")" --http-tokens "$WORK/node-tokens" --uplink-url "" --state-dir "$WORK/state" --sampler-mode off >"$WORK/sysomd.log" 2>&1 &
NODE=$!
as() { # uid command...
	setpriv --reuid "$1" --regid "$1" --clear-groups env HOME=/nonexistent "${@:2}"
}
ask() { # uid method path
	as "$1" curl -s -m 10 -X "$2" --unix-socket "$SYSOM_CONTROL_PATH" "http://localhost/api/v1/$3"
}
for user in 61241 61242; do
	SYSOM_JOB=job$user as $user "$WORK/copy/bin/sysom" run -- "$WORK/copy/bin/simjob" --ranks 2 --seconds 600 >"$WORK/job$user.log" 2>&1 &
done
jobs_seen() { # uid: the jobs that it sees
	ask "$1" GET status | jq -r '[.ranks[] | select(.state == "attached") | .job] | unique | join(",")'
}
sees() { [ "$(jobs_seen "$1")" = "$2" ]; }
ok "root sees the jobs of both users" stack_wait 30 sees 0 job61241@61241,job61242@61242
ok "a user sees the user's own" is "$(jobs_seen 61241)" job61241@61241
ok "so does the other" is "$(jobs_seen 61242)" job61242@61242
switched() { ask "$1" POST "$2" | jq -r '.changed'; }
ok "a user does not switch the other's job" is "$(switched 61241 'trace?state=off&job=job61242')" 0
ok "but the user's own" is "$(switched 61241 'trace?state=off')" 2
ok "and captures it, not the other's" is "$(ask 61241 POST 'capture?rank=0&seconds=0.3' | jq .windows) $(ask 61241 POST 'capture?rank=0&job=job61242' | jq .windows)" "1 0"
ok "the log says who captured" stack_wait 5 grep -q 'audit.*who="uid 61241" .*from=unix what="capture of 0.3 s in 1 windows: job any, rank 0" status=200' "$WORK/sysomd.log"
ok "and who switched" stack_wait 5 grep -q 'audit.*who="uid 61241".*trace off in 2 processes' "$WORK/sysomd.log"

node_trace() { # TOKEN state: the answer's status
	curl -s -m 5 -o "$WORK/answer" -w '%{http_code}' -H "Authorization: Bearer $1" -X POST "$NODE_HTTP/trace?state=$2"
}
ok "a token to read changes nothing on sysomd's port" is "$(node_trace "$NODE_READ" off)" 403
ok "an admin's is answered, once the processes have changed" is "$(node_trace "$NODE_ADMIN" on)$(jq -r .changed "$WORK/answer")" 2002
ok "and in the log" stack_wait 5 grep -q 'audit.*who="token ops".*trace on in 4 processes' "$WORK/sysomd.log"

# ---- symbol files, with the node's token ----
stack_end sysomd $NODE
use good
known
ok "the node's token is valid again" stack_wait 10 gets 403 $UPLOAD /api/v1/jobs
secret() { (umask 077 && printf '%s\n' "$1" >"$WORK/upload.new" && mv "$WORK/upload.new" "$WORK/upload"); }
node() { # log flag...
	local log=$1
	shift
	"$BIN/sysomd" --http-listen "" --uplink-url "ipc://$WORK/nng.sock" --uplink-http "$URL" --uplink-http-token "$WORK/upload" \
		--node-name node-of-users --state-dir "$WORK/state2" "$@" >"$log" 2>&1 &
	NODE=$!
}
symbols() { ask 0 GET ../../metrics | sed -n "s/^sysom_symbols_$1_total //p"; }
captured() { [ "$(ask 0 POST 'capture?rank=0&seconds=3&job=job61241' | jq .windows)" -ge 1 ]; }
has() { [ "$(symbols "$1")" -ge 1 ]; } # a count
told() { grep -q -- "$2" "$1"; }
if python3 tests/needs.py bpf >/dev/null; then
	secret $UPLOAD
	node "$WORK/symbols.log" --uplink-http-ca "$WORK/pki/ca.crt"
	ok "a node captures a window with stacks" stack_wait 60 captured
	ok "and uploads symbol files over https with its token" stack_wait 60 eval "captured; has uploaded"
	ok "as itself" logged "audit.*token nodes.*POST /api/v1/symbols/uploads"
	stack_end sysomd $NODE
	secret $READ
	node "$WORK/wrong.log" --uplink-http-ca "$WORK/pki/ca.crt"
	ok "with a token that does not upload the log says where to look" stack_wait 60 eval \
		"captured; told '$WORK/wrong.log' 'answers 403.*; see uplink.http_token'"
	chmod 644 "$WORK/upload"
	ok "a token that others may read is not sent" stack_wait 60 eval \
		"captured; told '$WORK/wrong.log' 'uplink.http_token: .*upload has mode 0644, so that others may read it; chmod 640'"
	stack_end sysomd $NODE
	secret $UPLOAD
	node "$WORK/foreign.log" --uplink-http-ca "$WORK/foreign/ca.crt"
	ok "nor is one to a server of another authority" stack_wait 60 eval "captured; told '$WORK/foreign.log' 'event=symbols.*certificate'"
	stack_end sysomd $NODE
else
	skip "a node uploads symbol files with its token" "needs bpf"
fi
finish
