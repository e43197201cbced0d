#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurm.sh - Slurm's daemons on this host: a job with --sysom ends with its verdict in its own output;
# whatever of sysom is missing, the job's output and status are what they are without it. What users type
# and the verdict's form are those of README.md, the plugin's arguments those of deploy/README.md.
# long: jobs one after the other
. "$(dirname "$0")/lib.sh"
. tests/e2e/page.sh
for need in command:slurmctld command:slurmd command:munged command:srun "file:$B/lib/slurm/spank_sysom.so" root; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "jobs of Slurm" "needs $need"; finish; exit; }
done
read -r -a ports <<<"$(free_ports 2)"
S=$WORK/slurm HOST=$(hostname -s) NODE=$(hostname)
export SLURM_CONF=$S/slurm.conf
mkdir -p "$S/state" "$S/spool" "$WORK/home"
chmod 755 "$WORK" "$S"
chmod 777 "$WORK/home"
# other users may not see the build tree
cp -rL "$BIN" "$B/lib" "$WORK/"
chmod -R a+rX "$WORK/bin" "$WORK/lib"
BIN=$WORK/bin
plugin() { # arguments
	echo "optional $WORK/lib/slurm/spank_sysom.so preload=${preload:-$WORK/lib/libsysom_preload.so} sysom=${sysom:-$BIN/sysom} $*" >"$S/plugstack.conf"
}
head -c 1024 /dev/urandom >"$S/munge.key"
chmod 400 "$S/munge.key"
cat >"$SLURM_CONF" <<CONF
ClusterName=trial
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$S/munge.sock
CredType=cred/munge
StateSaveLocation=$S/state
SlurmdSpoolDir=$S/spool
SlurmctldPidFile=$S/slurmctld.pid
SlurmdPidFile=$S/slurmd.pid
SlurmctldLogFile=$S/slurmctld.log
SlurmdLogFile=$S/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
MailProg=/bin/true
PlugStackConfig=$S/plugstack.conf
NodeName=$HOST NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
slurm_up() {
	munged --force --foreground --key-file="$S/munge.key" --socket="$S/munge.sock" --pid-file="$S/munged.pid" \
		--log-file="$S/munged.log" --seed-file="$S/munged.seed" --num-threads=2 >/dev/null 2>&1 &
	stack_wait 10 [ -S "$S/munge.sock" ] || return
	slurmctld -D -f "$SLURM_CONF" >/dev/null 2>&1 &
	slurmd -D -f "$SLURM_CONF" >/dev/null 2>&1 &
	stack_wait 20 eval "sinfo -h -o %T | grep -qx idle"
}
user() { (cd "$WORK/home" && exec env -u TMPDIR setpriv --reuid games --regid games --clear-groups "$@"); }
section() { sed -n '/^## In Slurm/,/^## P/p' deploy/README.md; }
# "sbatch --sysom train.sh   # or srun --sysom, salloc --sysom"
IFS='#,' read -r SBATCH SRUN SALLOC <<<"$(page_block README.md "In Slurm" 2 | sed 's/^\(sbatch .*[^ ]\)  *# or /\1#/')"
batch() { # name script... : as a user; its output is $WORK/home/NAME.out. The job's exit status
	local name=$1 id
	shift
	printf '#!/bin/sh\n#SBATCH -J %s -n 8 -o %s.out\n%s\n' "$name" "$name" "$*" >"$WORK/home/${SBATCH##* }"
	# shellcheck disable=SC2086 # words are meant
	user ${with-$SBATCH} >"$WORK/$name.log" 2>&1 || return
	id=$(sed -n 's/^Submitted batch job //p' "$WORK/$name.log")
	stack_wait 60 over "$id"
	return "$(scontrol -o show job "$id" | sed -n 's/.* ExitCode=\([0-9]*\):.*/\1/p')"
}
over() { scontrol -o show job "$1" | grep -q ' JobState=\(COMPLETED\|FAILED\) '; } # `sbatch --wait` looks ever more rarely
verdict_lines() { # the lines of README.md's verdict as patterns: numbers, the node and the id are others
	page_block README.md "In Slurm" 3 | sed -E 's/ show [0-9a-f]+$/ show ID/; s/ node [a-z0-9]+$/ node HOST/
		s/[][+().*#]/\\&/g; s/[0-9]+(\\\.[0-9]+)?/[0-9.]+/g; s/ ID$/ [0-9a-f]{8}/; s/.*/^&$/
		s/(\[0-9\.\]\+) of (\[0-9\.\]\+) ms/(\1 of )?\2 ms/' | sed "s/HOST/$NODE/" # all of it is said without "of"
}
reads_like_readme() { # name: its output ends with these lines
	local lines
	lines=$(verdict_lines)
	[ -n "$lines" ] || return
	paste -d '\n' <(tail -n "$(wc -l <<<"$lines")" "$WORK/home/$1.out") - <<<"$lines" | while read -r got && read -r wanted; do
		grep -qE -- "$wanted" <<<"$got" || { echo "# \"$got\" is not like \"$wanted\""; exit 1; }
	done
}
out_has() { # name pattern...
	local name=$1 pattern
	shift
	for pattern in "$@"; do
		grep -q -- "$pattern" "$WORK/home/$name.out" || { sed 's/^/# /' "$WORK/home/$name.out"; return 1; }
	done
}
logged() { grep -q -- "$1" "$S/slurmd.log" || { tail -n 5 "$S/slurmd.log" | sed 's/^/# /'; return 1; }; }
unharmed() { # name text: whatever is slow here is the machine, which others use as well
	out_has "$1" "$2.*nothing was slow" >/dev/null || out_has "$1" "$2" "^sysom:   layer os"
}
plain() { # name text : the job's output is this alone
	is "$(cat "$WORK/home/$1.out")" "$2"
}
verdicts() { grep -c "^sysom: job" "$WORK/home/$1.out"; }
FAULT="--fault late:rank=3:start=12s:steps=4000:size=2"

ok "the daemons start" stack_start "$WORK/stack"
plugin "url=$SYSOM_URL"
ok "Slurm's too" slurm_up

# ---- a batch script with eight tasks ----
ok "the manual says how a job is submitted" is "${SBATCH% *} ${SRUN# }${SALLOC}" "sbatch --sysom srun --sysom salloc --sysom"
batch llama "echo job \$SLURM_JOB_ID; echo nodes \$(scontrol show hostnames | xargs); srun $BIN/simjob --ranks 8 --seconds 30 --seed 7 --join $WORK/home/join $FAULT; echo script ends" &
job=$!
ok "its ranks attach by Slurm's names" stack_wait 20 eval '[ "$(node_api status "[.ranks[]|select(.job|test(\"^llama#[0-9]+[.]0@5\$\"))]|length")" = 8 ]'
wait $job
ok "the job ends well" is $? 0
ok "its output ends with the verdict: rank, layer, cause" out_has llama "^sysom: job llama#[0-9]*@5, 8 ranks on 1 node" \
	"rank 3" "layer cpu, cause cpu-sleep" "^sysom:   to do:"
ok "behind what the script wrote" eval 'out_has llama "script ends" && tail -n 1 "$WORK/home/llama.out" | grep -q "^sysom:   more: sysom show"'
ok "once" is "$(verdicts llama)" 1
ok "as the manual shows it" reads_like_readme llama
ID=$(sed -n 's/^job //p' "$WORK/home/llama.out")
incident() { api "incidents?job=llama%23$ID" '[.incidents[] | select(.symptom != "transient")] | if length == 1 then .[0] else {} end | '"$1"; }
ok "the incident has job, id and step by Slurm's names" is "$(incident .job)" "llama#$ID.0@5"
ok "and Slurm's nodes" is "$(incident '.nodes | map(split(".")[0]) | join(" ")')" "$(sed -n 's/^nodes //p' "$WORK/home/llama.out")"
ok "the verdict has its node, training step and id" out_has llama "confidence [0-9]*%, node $(incident '.nodes | join(" ")')\$" \
	"^sysom:   steps $(incident .first_step) to [0-9,]*: " "^sysom:   more: sysom show $(incident .id)\$"
SLURM_JOB_ID=$ID SLURM_JOB_NAME=llama SLURM_JOB_NUM_NODES=3 SLURM_JOB_NODELIST="gpu[1-3]" \
	user "$BIN/sysom" verdict >"$WORK/home/unseen.out" 2>&1
ok "it names the nodes of a job of which some were not seen" out_has unseen "^sysom: only 1 of 3 nodes were seen (gpu\[1-3\])"

# ---- srun by hand ----
rm -f "$WORK/home/join"
# shellcheck disable=SC2086 # words are meant
user $SRUN -J hand -n 4 "$BIN/simjob" --ranks 4 --seconds 12 --join join >"$WORK/home/hand.out" 2>"$WORK/hand.err"
ok "an interactive job ends well" is $? 0
ok "and its terminal has the verdict" unharmed hand "^sysom: job hand#[0-9]*[.]0@5, 4 ranks on 1 node"
rm -f "$WORK/home/join"
# shellcheck disable=SC2086
user $SALLOC -J taken -n 2 srun "$BIN/simjob" --ranks 2 --seconds 8 --join join >"$WORK/home/taken.out" 2>"$WORK/taken.err"
ok "a step of an allocation ends well" is $? 0
ok "and its terminal has the verdict" unharmed taken "^sysom: job taken#[0-9]*[.]0@5, 2 ranks on 1 node"
user srun --sysom=maybe -n 1 true 2>"$WORK/maybe.err"
ok "a mistyped option is refused by srun" eval 'grep -q "neither on nor off" "$WORK/maybe.err"'
user srun -n 1 sh -c 'echo "preload ${LD_PRELOAD:-none}"' >"$WORK/home/without.out"
ok "a job without --sysom is left alone" plain without "preload none"
user srun --sysom -n 1 sh -c 'exit 7' >"$WORK/home/seven.out" 2>&1
ok "a task's exit status is srun's" is $? 7

# ---- TaskProlog instead of the plugin ----
user env SYSOM_PRELOAD="$WORK/lib/libsysom_preload.so" srun -n 1 --task-prolog="$PWD/deploy/slurm/task-prolog.sh" \
	sh -c 'echo "preload $LD_PRELOAD"' >"$WORK/home/prolog.out" 2>"$WORK/prolog.err"
ok "the TaskProlog sets the preload" plain prolog "preload $WORK/lib/libsysom_preload.so"
user env SYSOM_PRELOAD=/nowhere/libsysom_preload.so srun -n 1 --task-prolog="$PWD/deploy/slurm/task-prolog.sh" \
	sh -c 'echo "preload ${LD_PRELOAD:-none}"' >"$WORK/home/prolog.out" 2>"$WORK/prolog.err"
ok "and leaves a task alone where it is missing" plain prolog "preload none"
rm -f "$WORK/home/join"
LAST=$(section | tr '\n' ' ' | grep -o '`[^`]*` as the last line of a batch script' | cut -d '`' -f 2)
with="sbatch ${SBATCH##* }" batch last "SYSOM_PRELOAD=$WORK/lib/libsysom_preload.so srun -n 2 --task-prolog=$PWD/deploy/slurm/task-prolog.sh \
	$BIN/simjob --ranks 2 --seconds 8 --join join; PATH=$BIN:\$PATH; $LAST"
ok "a script without the plugin's option ends well" is $? 0
ok "and its last line prints the verdict" unharmed last "^sysom: job last#[0-9]*@5, 2 ranks on 1 node"

# ---- the plugin's arguments ----
ok "the manual has those that this test uses" is "$(section | grep '^| `' | grep -o '`[a-z]*=' | tr -d '`=' | xargs)" "url default wait preload sysom"
plugin "url=$SYSOM_URL" default=on
user srun -n 1 sh -c 'echo "preload ${LD_PRELOAD:-none}"' >"$WORK/home/default.out" 2>"$WORK/default.err"
ok "default=on traces a job that says nothing" out_has default "^preload $WORK/lib/libsysom_preload.so"
user srun --sysom=off -n 1 sh -c 'echo "preload ${LD_PRELOAD:-none}"' >"$WORK/home/default.out" 2>"$WORK/default.err"
ok "but not one that says off" plain default "preload none"

# ---- what is missing ----
stack_stop
batch nodaemons "echo works"
ok "without sysomd and aggregator a job ends well" is $? 0
ok "its output is its own" plain nodaemons works
ok "the log has the reason" logged "sysom: sysom verdict: .*127.0.0.1"
sysom=/nowhere/sysom plugin
batch noprogram "echo works"
ok "without the program a job ends well" eval 'is $? 0 && plain noprogram works'
ok "the log says that it is missing" logged "sysom: /nowhere/sysom: No such file or directory; no verdict"
preload=/nowhere/libsysom_preload.so plugin
batch nolibrary 'echo "preload ${LD_PRELOAD:-none}"; exit 3'
ok "without the library a job has its own status" is $? 3
ok "and runs untraced" plain nolibrary "preload none"
ok "the log says so" logged "sysom: /nowhere/libsysom_preload.so: No such file or directory; the job runs untraced"
plugin wait=99999 colour=red
batch odd "echo works"
ok "with odd arguments too" eval 'is $? 0 && logged "\"colour=red\" is not understood"'
rm "$WORK/lib/slurm/spank_sysom.so"
printf '#!/bin/sh\necho works\n' >"$WORK/noplugin.sh"
user sbatch --wait -n 1 -o noplugin.out "$WORK/noplugin.sh" >"$WORK/noplugin.log" 2>&1
ok "without the plugin as well" eval 'is $? 0 && plain noplugin works'
finish
