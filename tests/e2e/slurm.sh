#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurm.sh - Slurm's daemons on this host: a job with --sysom ends with its verdict in its own output;
# whatever of sysom is missing, the job's output and status are what they are without it.
. "$(dirname "$0")/lib.sh"
for need in command:slurmctld command:slurmd command:munged command:srun "file:$B/lib/slurm/spank_sysom.so" root; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "jobs of Slurm" "needs $need"; finish; exit; }
done
read -r -a ports <<<"$(free_ports 2)"
S=$WORK/slurm HOST=$(hostname -s)
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
batch() { # name script... : as a user; its output is $WORK/home/NAME.out. The job's exit status
	local name=$1
	shift
	printf '#!/bin/sh\n%s\n' "$*" >"$WORK/$name.sh"
	user sbatch --wait --sysom -J "$name" -n 8 -o "$name.out" "$WORK/$name.sh" >"$WORK/$name.log" 2>&1
}
out_has() { # name pattern...
	local name=$1 pattern
	shift
	for pattern in "$@"; do
		grep -q -- "$pattern" "$WORK/home/$name.out" || { sed 's/^/# /' "$WORK/home/$name.out"; return 1; }
	done
}
logged() { grep -q -- "$1" "$S/slurmd.log" || { tail -n 5 "$S/slurmd.log" | sed 's/^/# /'; return 1; }; }
plain() { # name text : the job's output is this alone
	is "$(cat "$WORK/home/$1.out")" "$2"
}
verdicts() { grep -c "^sysom: job" "$WORK/home/$1.out"; }
FAULT="--fault late:rank=3:start=12s:steps=4000:size=2"

ok "the daemons start" stack_start "$WORK/stack"
plugin "url=$SYSOM_URL"
ok "Slurm's too" slurm_up

# ---- a batch script with eight tasks ----
batch llama "srun $BIN/simjob --ranks 8 --seconds 30 --seed 7 --join $WORK/home/join $FAULT; echo script ends" &
job=$!
ok "its ranks attach by Slurm's names" stack_wait 20 eval '[ "$(node_api status "[.ranks[]|select(.job|test(\"^llama#[0-9]+[.]0@5\$\"))]|length")" = 8 ]'
wait $job
ok "the job ends well" is $? 0
ok "its output ends with the verdict: rank, layer, cause" out_has llama "^sysom: job llama#[0-9]*@5, 8 ranks on 1 node" \
	"rank 3" "layer cpu, cause cpu-sleep" "^sysom:   to do:"
ok "behind what the script wrote" eval 'out_has llama "script ends" && tail -n 1 "$WORK/home/llama.out" | grep -q "^sysom:   more: sysom show"'
ok "once" is "$(verdicts llama)" 1

# ---- srun by hand ----
rm -f "$WORK/home/join"
user srun --sysom -J hand -n 4 "$BIN/simjob" --ranks 4 --seconds 12 --join join >"$WORK/home/hand.out" 2>"$WORK/hand.err"
ok "an interactive job ends well" is $? 0
ok "and its terminal has the verdict" out_has hand "^sysom: job hand#[0-9]*[.]0@5, 4 ranks on 1 node.*nothing was slow"
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
