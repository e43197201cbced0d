#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/run.py itself: a skip counts only where its need is missing, all that a test leaves behind ends with it
# and nobody else's process does, what is quiet or alone runs after the others, and the exit code follows.
. "$(dirname "$0")/lib.sh"
script() { # name: its text from standard input
	{ echo "#!/bin/bash"; cat; } >"$WORK/$1"
}
run() { # scripts... : the runner's exit code
	env -u ONLY -u V -u SYSOM_TEST_REAPED python3 tests/run.py --build "$WORK" --jobs "${jobs:-3}" --timeout 20 \
		"${@/#/script:$WORK/}" >"$WORK/out" 2>&1
}
last() { tail -n 1 "$WORK/out"; }

script skips.sh <<-'EOF'
	echo "ok 1 - it runs"
	echo "ok 2 - real traces # SKIP needs data: none"
	echo "1..2"
EOF
SYSOM_DATA=$WORK/none run skips.sh
ok "without the data their cases are skipped and the run passes" is "$? $(last)" "0 1 passed, 0 failed, 1 skipped"
ok "under a line that names them" grep -q "^1 cases skipped, for want of recorded traces: no SYSOM_DATA" "$WORK/out"
SYSOM_DATA=$WORK run skips.sh
ok "with the data a skip is a failure" is "$? $(last)" "1 1 passed, 1 failed, 0 skipped"

script unnamed.sh <<-'EOF'
	echo "ok 1 - something # SKIP not today"
	echo "ok 2 - something # SKIP needs luck"
	echo "1..2"
EOF
run unnamed.sh
ok "a skip without a known need is a failure" is "$? $(last)" "1 0 passed, 2 failed, 0 skipped"

script head.sh <<-'EOF'
	# needs: command:no-such-command
	echo "not ok 1 - ran"
EOF
script good.sh <<<'echo "ok 1 - fine"; echo "1..1"'
run head.sh good.sh
ok "a script whose need is missing is not started" is "$? $(last)" "0 1 passed, 0 failed, 1 skipped"

script short.sh <<<'echo "ok 1 - fine"; echo "1..3"'
script dies.sh <<<'echo "ok 1 - fine"; kill -SEGV $$'
run short.sh dies.sh
ok "cases that did not run and a script that dies are failures" is "$? $(last)" "1 2 passed, 2 failed, 0 skipped"

# Left behind: in a session of its own, and by a child that is gone. A bystander has the same name and arguments.
python3 -c 'import time; time.sleep(3600)' &
BYSTANDER=$!
script leaves.sh <<-EOF
	(setsid python3 -c 'import time; time.sleep(3600)' & echo \$! >$WORK/left; sleep 0.2)
	(setsid python3 -c 'import time; time.sleep(3600)' & echo \$! >>$WORK/left; sleep 0.2)
	echo "ok 1 - fine"; echo "1..1"
EOF
run leaves.sh
ok "what a test leaves behind does not keep the runner waiting" is "$? $(last)" "0 1 passed, 0 failed, 0 skipped"
gone() { local pid; for pid in $(cat "$WORK/left"); do ! kill -0 "$pid" 2>/dev/null || return 1; done; }
ok "and has ended" gone
ok "a bystander of its name lives" kill -0 $BYSTANDER
kill $BYSTANDER

# A container's first process ends only when another has been waited for, whose parent is gone.
if /usr/bin/python3 tests/needs.py root >/dev/null; then
	script container.sh <<-EOF
		unshare -p --fork sleep 3600 &
		until FIRST=\$(pgrep -P \$!); do sleep 0.05; done
		nsenter -t \$FIRST -p sleep 3600 &
		until SECOND=\$(pgrep -P \$!); do sleep 0.05; done
		echo \$FIRST \$SECOND >$WORK/left
		echo "ok 1 - fine"; echo "1..1"
	EOF
	run container.sh
	ok "nor does a container" is "$? $(last)" "0 1 passed, 0 failed, 0 skipped"
	ok "which has ended" gone
else
	skip "nor does a container" "needs root"
fi

script late.sh <<-EOF
	mkdir $WORK/was-here 2>/dev/null && echo "not ok 1 - in time" || echo "ok 1 - in time"
	echo 1..1
EOF
run late.sh
ok "what fails runs once more, and the second result counts" is "$? $(last)" "0 1 passed, 0 failed, 0 skipped"
ok "which is said" eval "grep -A 1 -x 'passed only on the second run:' '$WORK/out' | grep -q 'late.sh: in time'"
script fails.sh <<<'echo "not ok 1 - ever"; echo "1..1"'
run fails.sh good.sh
ok "what fails twice is a failure, counted once" is "$? $(last)" "1 1 passed, 1 failed, 0 skipped"

# Two that overlap say so; what is quiet sees one like it at most, and what is alone nobody.
overlaps() { # name, the other's, head
	script "$1" <<-EOF
		$3
		touch $WORK/here/$1
		for _ in \$(seq 100); do [ -e $WORK/here/$2 ] && break; sleep 0.1; done
		[ -e $WORK/here/$2 ] && echo "ok 1 - the other is there" || echo "not ok 1 - the other is there"
		[ "\$(ls $WORK/here | wc -l)" -le 2 ] && echo "ok 2 - nobody else" || echo "not ok 2 - nobody else"
		sleep 0.5
		rm $WORK/here/$1
		echo 1..2
	EOF
}
mkdir "$WORK/here"
overlaps beside1.sh beside2.sh ""
overlaps beside2.sh beside1.sh ""
script alone.sh <<-EOF
	# quiet: both
	# alone: to see it
	[ -n "\$(ls $WORK/here)" ] && echo "not ok 1 - nobody is there" || echo "ok 1 - nobody is there"
	echo 1..1
EOF
quiets=()
if [ "$(nproc)" -gt 1 ]; then
	overlaps quiet1.sh quiet2.sh "# quiet: to see it"
	overlaps quiet2.sh quiet1.sh "# quiet: to see it"
	quiets=(quiet1.sh quiet2.sh)
fi
run alone.sh "${quiets[@]}" beside1.sh beside2.sh
ok "scripts run side by side, quiet ones after them, one that is alone at the end" is "$? $(last)" \
	"0 $((5 + 2 * ${#quiets[@]})) passed, 0 failed, 0 skipped"
for head in first second "minutes # long: to see it"; do
	printf '#%s\necho %s >>%s/order; echo "ok 1 - fine"; echo 1..1\n' "${head#*#}" "${head%% *}" "$WORK" | script "${head%% *}.sh"
done
jobs=1 run first.sh second.sh minutes.sh
ok "what is long is first" is "$(xargs <"$WORK/order")" "minutes first second"
sed 's/^/# /' "$WORK/out"
finish
