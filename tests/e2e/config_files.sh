#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# config_files.sh - the commented defaults in conf/ are what the daemons print, their mistakes are
# reported with file and line, and every program says the same version.
. "$(dirname "$0")/lib.sh"
VERSION=$(sed -n 's/^#define SYSOM_VERSION "\(.*\)"/\1/p' base/version.h)

refuses() { # daemon expected-output text
	local status
	printf '%s\n' "$3" >"$WORK/bad.yaml"
	env -i "$BIN/$1" --config "$WORK/bad.yaml" --check-config >"$WORK/out" 2>&1
	status=$?
	sed "s|$WORK/||" "$WORK/out" >"$WORK/said"
	[ $status = 2 ] && grep -qF "$2" "$WORK/said" || { sed 's/^/# /' "$WORK/said"; return 1; }
}
is_default() {
	{ echo "# SPDX-License-Identifier: Apache-2.0"; env -i "$BIN/$1" --print-config; } |
		diff "conf/$1.yaml" - >"$WORK/diff" || { sed 's/^/# /' "$WORK/diff"; return 1; }
}
reads_back() { # what was printed is read and printed again without a change
	env -i "SYSOM_HTTP_LISTEN=127.0.0.1:1" "$BIN/$1" --log-level debug --print-config >"$WORK/a.yaml" &&
		env -i "$BIN/$1" --config "$WORK/a.yaml" --print-config >"$WORK/b.yaml" &&
		grep -q 'listen: "127.0.0.1:1"' "$WORK/b.yaml" && grep -q 'level: debug' "$WORK/b.yaml" &&
		cmp "$WORK/a.yaml" "$WORK/b.yaml"
}

for daemon in sysomd sysom-aggregator; do
	ok "conf/$daemon.yaml is what $daemon --print-config prints" is_default "$daemon"
	ok "$daemon --check-config takes it" env -i "$BIN/$daemon" --config "conf/$daemon.yaml" --check-config
	ok "$daemon reads back what it prints" reads_back "$daemon"
	ok "$daemon names the line of an unknown setting" refuses "$daemon" \
		"bad.yaml:3: http.lisen: no such setting" $'http:\n  listen: "127.0.0.1:1"\n  lisen: x'
	ok "$daemon names the line of a bad value" refuses "$daemon" "bad.yaml:2: log.level:" \
		$'log:\n  level: loud'
	ok "$daemon names the line of broken YAML" refuses "$daemon" "bad.yaml:3: did not find" $'log: {level\nx'
	ok "$daemon refuses a missing --config file" is \
		"$("$BIN/$daemon" --config "$WORK/none.yaml" --check-config 2>&1; echo $?)" \
		"$WORK/none.yaml: No such file or directory"$'\n2'
done
ok "sysomd refuses settings that don't fit together" refuses sysomd \
	"roofline.persist_n is larger than roofline.persist_m" $'roofline:\n  persist_n: 5\n  persist_m: 3'
ok "sysomd refuses an address without a port" refuses sysomd 'http.listen: "nonsense" is not ADDRESS:PORT' \
	$'http:\n  listen: "nonsense"'
ok "sysomd refuses a port past the last" refuses sysomd 'http.listen: "127.0.0.1:99999" is not ADDRESS:PORT' \
	$'http:\n  listen: "127.0.0.1:99999"'
for url in http://foo tcp://foo tcp://:9471 tcp://foo:99999 tcp://foo:x tls+tcp://foo ipc://; do
	ok "sysomd refuses the uplink $url" refuses sysomd "uplink.url: \"$url\" is not tcp://HOST:PORT" \
		$'uplink:\n  url: "'"$url"'"'
done
ok "a negative time is out of range" refuses sysomd "spool.age: -3s is out of range: below 0" $'spool:\n  age: -3s'
ok "a directory is no file of settings" is "$("$BIN/sysomd" --config "$WORK" --check-config 2>&1; echo $?)" \
	"$WORK: Is a directory"$'\n2'
ok "sysom-aggregator refuses windows that outlive their incidents" refuses sysom-aggregator \
	"retention.windows is longer than retention.incidents" $'retention:\n  windows: 60d'
ok "sysom-aggregator names the rule of a job that is wrong" refuses sysom-aggregator \
	'retention.jobs: rule "b*": windows: 1s is out of range' $'retention:\n  jobs: "a windows=1d; b* windows=1s"'
ok "sysom-aggregator refuses two listeners at one address" refuses sysom-aggregator \
	"nng.listen and http.listen are the same address" $'http:\n  listen: "127.0.0.1:9471"'
ok "sysom-aggregator refuses an address of another kind" refuses sysom-aggregator \
	'nng.listen: "http://x:1" is not tcp://ADDRESS:PORT' $'nng:\n  listen: "http://x:1"'
leaves_no_store() { # expected-output text: nothing is made before what is refused
	printf '%s\nstore:\n  dir: "%s"\n' "$2" "$WORK/never" >"$WORK/bad.yaml"
	timeout 20 env -i "$BIN/sysom-aggregator" --config "$WORK/bad.yaml" --http-listen 127.0.0.1:0 >"$WORK/out" 2>&1
	[ $? = 2 ] && grep -qF "$1" "$WORK/out" && [ ! -e "$WORK/never" ] || { sed 's/^/# /' "$WORK/out"; rm -rf "$WORK/never"; return 1; }
}
ok "sysom-aggregator refuses a port that is none, and makes no store" leaves_no_store \
	'" is not tcp://ADDRESS:PORT' $'nng:\n  listen: "tcp://127.0.0.1:notaport"'
ok "sysom-aggregator refuses a port past the last, and makes no store" leaves_no_store \
	'" is not tcp://ADDRESS:PORT' $'nng:\n  listen: "tcp://127.0.0.1:65536"'
for url in "http://" "http://[::" "http://a b/" "https://host:99999/" "ftp://host/"; do
	ok "sysom-aggregator refuses the webhook $url, and makes no store" leaves_no_store \
		"alert.webhook: \"$url\" is neither" $'nng:\n  listen: "ipc://'"$WORK"$'/x"\nalert:\n  webhook: "'"$url"'"'
done
ok "sysom-aggregator refuses a host without a port" refuses sysom-aggregator \
	'http.listen: "localhost" is not ADDRESS:PORT' $'http:\n  listen: localhost'
ok "sysom-aggregator refuses to forget ranks that are alive" refuses sysom-aggregator \
	"fleet.alive is longer than fleet.forget" $'fleet:\n  alive: 20m'
ok "a section given a value is refused as one" refuses sysomd \
	'bad.yaml:1: log: a section: its settings, such as "level: ..."' "log: debug"
ok "a misspelt setting is refused with the right one" refuses sysomd \
	"bad.yaml:2: log.levl: no such setting (log.level?)" $'log:\n  levl: debug'
variables() { # of all settings, as --print-config has them
	for daemon in sysomd sysom-aggregator; do
		env -i "$BIN/$daemon" --print-config |
			awk '/^[a-z_]+:$/ {section = $1; sub(":", "_", section)} /^[a-z_]+: / {sub(":", "", $1)
				print "SYSOM_" toupper($1)} /^  [a-z_0-9]+:/ {sub(":", "", $1); print "SYSOM_" toupper(section $1)}'
	done | sort -u
}
known() { sed -n 's/^ENVIRONMENT(\(.*\))/\1/p' base/environment.def | sort; }
ok "the variables of all settings are known" is "$(comm -23 <(variables) <(known))" ""
ok "no known variable is read by nothing" is "$(comm -13 <(variables) <(known) | while read -r name; do
	grep -rqw --include='*.c' --include='*.py' --include='*.sh' --exclude-dir=build "$name" . || echo "$name"
done)" ""
warns() { # program arguments... : of a misspelt variable on standard error, and does what it is asked to
	env -i SYSOM_HTTP_LISTE=x SYSOM_JOB=right "$BIN/$1" "${@:2}" >"$WORK/out" 2>"$WORK/err" && [ -s "$WORK/out" ] &&
		grep -q "SYSOM_HTTP_LISTE is set, but nothing reads it; did you mean SYSOM_HTTP_LISTEN?" "$WORK/err" &&
		is "$(wc -l <"$WORK/err")" 1
}
ok "sysomd warns of a misspelt variable" warns sysomd --print-config
ok "sysom-aggregator does" warns sysom-aggregator --print-config
ok "sysom does" warns sysom --help
ok "and once, where it becomes sysom-full" warns sysom doctor --thresholds
for program in sysom sysomd sysom-aggregator; do
	ok "$program --version" is "$("$BIN/$program" --version)" "$program $VERSION"
done
for program in sysomd sysom-aggregator; do
	ok "$program --help fits 100 columns" [ "$("$BIN/$program" --help | wc -L)" -le 100 ]
done
ok "the changelog has the version" grep -q "^## $VERSION" CHANGELOG.md
finish
