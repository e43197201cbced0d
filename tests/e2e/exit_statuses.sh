#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# exit_statuses.sh - every command and daemon ends with the status that base/exit_status.h and the manual
# pages say; whatever did not work says why on standard error.
. "$(dirname "$0")/lib.sh"
unset SYSOM_URL SYSOM_CONTROL_PATH SYSOM_SOCKET_PATH SYSOM_JOB SYSOM_PRELOAD LD_PRELOAD
trap finish EXIT
mkfifo "$WORK/stdin"
mkdir "$WORK/server"
python3 tests/e2e/cli_server.py "$WORK/server" <"$WORK/stdin" &
exec 9>"$WORK/stdin"
stack_wait 10 test -e "$WORK/server/url"
UP="--url $(cat "$WORK/server/url")"
NOBODY="--url http://127.0.0.1:1"
CONTROL="--control $WORK/server/control.sock"
NONE="--control $WORK/none.sock"
: >"$WORK/empty.csv"
printf 'a\n1\n2\n' >"$WORK/steps.csv"
printf 'a;b 1\n' >"$WORK/one.folded"

# What each is asked for, and its status.
TABLE="
0 run -- true
7 run -- sh -c 'exit 7'
126 run -- $WORK
127 run -- $WORK/none
2 run
0 status $UP $CONTROL
0 status $NOBODY $CONTROL
0 status $UP $NONE
3 status $NOBODY $NONE
0 preload $WORK/shared
2 preload
3 preload /dev/null/none
0 spans check tests/python/spans/catalogue.yaml
2 spans check $WORK/empty.csv
2 spans check $WORK/none
2 spans look tests/python/spans/catalogue.yaml
0 spans compile tests/python/spans/catalogue.yaml -o $WORK/x.spans
3 spans compile tests/python/spans/catalogue.yaml -o $WORK/none/x.spans
2 status --url ftp://x
0 top --once $UP
1 top --once --job nope $UP
3 top --once $NOBODY
0 requests --once $UP
1 requests --once --job nope $UP
1 requests nothing $UP
3 requests $NOBODY
0 incidents $UP
1 incidents --job nobody $UP
2 incidents --limit 0
3 incidents $NOBODY
0 show 1234abcd $UP
0 show last --job mild $UP
1 show ffffffff $UP
1 show last --job nobody $UP
1 show nobody $UP
2 show
2 show a b
3 show 1234abcd $NOBODY
3 show last $NOBODY
3 show 0badc0de $UP
1 trace 1234abcd $UP
1 trace ffffffff $UP
2 trace no-id $UP
2 trace 1234abcd --format x
3 trace 1234abcd $NOBODY
0 report 1234abcd -o $WORK/x.html $UP
1 report ffffffff -o $WORK/x.html $UP
2 report 1234abcd -o $WORK/x.svg $UP
3 report 1234abcd -o $WORK/none/x.html $UP
3 report 1234abcd -o /dev/full $UP
3 report 1234abcd $NOBODY
1 flame 1234abcd $UP
1 flame ffffffff $UP
2 flame 1234abcd --diff --base x $UP
3 flame 1234abcd $NOBODY
0 diff $WORK/one.folded $WORK/one.folded
1 diff 1234abcd ffffffff $UP
2 diff $WORK/none.folded $WORK/one.folded
2 diff no-id no-id $UP
2 diff 1234abcd
3 diff 1234abcd ffffffff $NOBODY
3 diff baseline:demo 1234abcd $NOBODY
0 wait-incident --any --job demo --timeout 5 $UP
1 wait-incident --job nobody --timeout 0.2 $UP
1 wait-incident --job twice --timeout 0.2 $UP
2 wait-incident --timeout x
3 wait-incident --timeout 0.2 $NOBODY
0 verdict demo --timeout 0.5 $UP
1 verdict nobody --timeout 0.2 $UP
2 verdict --timeout x
3 verdict demo --timeout 0.2 $NOBODY
0 off $CONTROL
1 off --job none $CONTROL
2 off --rank x
3 off $NONE
3 off --job slow $CONTROL
0 on $CONTROL
3 on $NONE
0 capture --rank 2 $CONTROL
2 capture $CONTROL
3 capture --rank 2 $NONE
0 doctor --thresholds
2 doctor --rank 1
3 doctor --thresholds >/dev/full
0 record --seconds 0.1 -o $WORK/r.folded -- true
2 record
2 record -p x
1 record -p 2147483647 --seconds 0.1 -o $WORK/r.folded
1 record --rank 99 -o $WORK/r.folded $CONTROL
3 record --rank 99 -o $WORK/r.folded $NONE
3 record -a --seconds 0.1 -o $WORK/none/r.folded
0 replay steps --latency a $WORK/steps.csv
0 replay events $WORK/empty.csv
2 replay
2 replay nonsense x
2 replay links x
2 replay events $WORK/none.csv
2 replay steps --latency nonsense $WORK/steps.csv
2 replay stacks $WORK/one.folded
2 replay window $WORK/one.folded
3 replay steps --json --latency a $WORK/steps.csv >/dev/full
"
gives() { # status command line
	local status
	PATH=$PWD/$BIN:$PATH eval "${*:2}" >"$WORK/out" 2>"$WORK/err" </dev/null
	status=$?
	is $status "$1" && { [ $status = 0 ] || [ $status = 7 ] || [ -s "$WORK/err" ] || [ -s "$WORK/out" ]; } &&
		{ [ $status != 2 ] && [ $status != 3 ] || [ -s "$WORK/err" ] || grep -q "is .* running" "$WORK/out"; } ||
		{ sed 's/^/# /' "$WORK/out" "$WORK/err" | head; return 1; }
}
while read -r status line; do
	[ -z "$status" ] || ok "$status: sysom ${line//$WORK/DIR}" gives "$status" sysom "$line"
done <<<"$TABLE"
commands=$("$BIN/sysom" --help | sed -n '/^usage/,/^examples/s/^  \([a-z-]*\) .*/\1/p')
for command in $commands; do
	ok "0: sysom $command --help" gives 0 sysom "$command --help"
	ok "2: sysom $command --nonsense" gives 2 sysom "$command --nonsense"
	ok "3: sysom $command --help where nothing can be written" gives 3 sysom "$command --help >/dev/full"
	ok "sysom $command is in the table" grep -q "^0 $command\|^1 $command" <<<"$TABLE"
done
ok "2: no command" gives 2 sysom
ok "2: no such command" gives 2 sysom nonsense

# ---- the daemons ----
read -r -a ports <<<"$(free_ports 2)"
for daemon in sysomd sysom-aggregator; do
	flags="--http-listen 127.0.0.1:${ports[1]}"
	case $daemon in
	sysomd) flags+=" --socket-path $WORK/s --control-path $WORK/c --state-dir $WORK/state --uplink-url ''" where=--socket-path ;;
	*) flags+=" --nng-listen tcp://127.0.0.1:${ports[0]} --store-dir $WORK/store" where=--store-dir ;;
	esac
	ok "0: $daemon --help" gives 0 "$daemon" --help
	ok "0: $daemon --version" gives 0 "$daemon" --version
	ok "0: $daemon --check-config" gives 0 "$daemon" --check-config
	ok "2: $daemon --nonsense" gives 2 "$daemon" --nonsense
	ok "2: $daemon --log-level loud" gives 2 "$daemon" --log-level loud
	ok "2: $daemon with a file that is missing" gives 2 "$daemon" --config "$WORK/none.yaml"
	ok "3: $daemon with a directory that can't be made" gives 3 "timeout 20 $daemon" "$flags $where $WORK/one.folded/x"
	ok "3: $daemon at an address that is taken" gives 3 "timeout 20 $daemon" "$flags --http-listen $(sed 's,http://,,' "$WORK/server/url")"
	ok "0: $daemon that is asked to end" gives 0 "timeout --preserve-status -s TERM 3 $daemon $flags"
done
exec 9>&-
